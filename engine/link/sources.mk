src += engine/link/local.c engine/link/mpi.c
