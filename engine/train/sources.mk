src += engine/train/init.c engine/train/optimizer.c
src += engine/train/store.c engine/train/data.c engine/train/data_text.c engine/train/data_queue.c
src += engine/train/checkpoint.c engine/train/checkpoint_load.c
