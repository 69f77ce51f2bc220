src += engine/base/status.c engine/base/memory.c engine/base/random.c engine/base/numbers.c engine/base/json.c
src += engine/base/clock.c engine/base/file.c engine/base/yaml.c engine/base/json_read.c
