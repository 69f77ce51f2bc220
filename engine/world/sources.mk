src += engine/world/world.c engine/world/meet.c engine/world/launch.c
