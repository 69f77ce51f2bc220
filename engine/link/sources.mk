src += engine/link/local.c engine/link/mpi.c engine/link/order.c $(if $(CUDA),engine/link/nccl.c engine/link/nccl_join.c,engine/link/nccl_none.c)
ifneq ($(CUDA),)
$(B)/engine/link/nccl.o $(B)/engine/link/nccl_join.o: cflags += -isystem $(cuda_include)
endif
