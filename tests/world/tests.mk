tests += tests/world/test_world.c
