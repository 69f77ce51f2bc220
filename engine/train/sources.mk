src += engine/train/init.c engine/train/optimizer.c
