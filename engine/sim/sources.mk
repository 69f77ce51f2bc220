src += engine/sim/costs.c engine/sim/simulate.c
