src += engine/train/init.c engine/train/optimizer.c
src += engine/train/store.c engine/train/data.c engine/train/data_text.c engine/train/data_queue.c
src += engine/train/checkpoint.c engine/train/checkpoint_load.c
src += engine/train/run.c engine/train/run_check.c engine/train/run_client.c engine/train/run_params.c engine/train/run_stats.c
src += engine/train/run_trial.c engine/train/run_key.c
