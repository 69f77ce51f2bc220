src += engine/device/emulated/emulated.c
