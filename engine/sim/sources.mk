src += engine/sim/simulate.c
