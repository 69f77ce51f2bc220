src += engine/link/local.c
