tests += tests/base/test_base.c tests/base/test_yaml.c tests/base/test_json.c
