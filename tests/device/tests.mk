tests += tests/device/test_finite_difference.c tests/device/test_program.c tests/device/test_tensor.c tests/device/test_update.c tests/device/test_kernels.c
ldflags_test_program := -Wl,--wrap=malloc,--wrap=realloc,--wrap=aligned_alloc
tests += tests/device/test_gemm.c tests/device/test_attention.c
benches += tests/device/bench_kernels.c
tests += tests/device/test_vec.c tests/device/test_vec_avx512.c tests/device/test_philox_dropout.c tests/device/test_isa.c
benches += tests/device/bench_memory.c
