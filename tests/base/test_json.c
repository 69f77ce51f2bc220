// test_json.c - members of JSON objects read by name, and every refusal with its words.
#include "ppl.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static const char *const keys[] = {"step", "loss", "norm"};

static void test_numbers(void **state) {
    (void)state;
    const char *text = "{\"loss\": 2.5e-1, \"step\": 7, \"norm\": null, \"more\": [1, {\"a\": \"b\"}]}";
    double out[3];
    assert_int_equal(ppl_json_numbers("t", text, strlen(text), keys, 3, out), PPL_OK);
    assert_true(out[0] == 7 && out[1] == 0.25 && isnan(out[2]));
    assert_int_equal(ppl_json_numbers("t", "{}", 2, keys, 3, out), PPL_OK);
    assert_true(isnan(out[0]) && isnan(out[1]) && isnan(out[2]));
    assert_int_equal(ppl_json_numbers("t", text, strlen(text), keys, 0, NULL), PPL_OK);
}

static void refused(const char *text, size_t bytes, const char *words) {
    double out[3];
    if (ppl_json_numbers("t.json", text, bytes, keys, 3, out) != PPL_ERR_IO) fail_msg("not refused: %s", text);
    if (!strstr(ppl_error(), words) || !strstr(ppl_error(), "t.json: "))
        fail_msg("'%s' lacks '%s'", ppl_error(), words);
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *words;
    } bad[] = {{"", "line 1"},
               {"{\"step\": 1, \"lo", "line 1, column"},
               {"{\n\"step\": 1,\n}", "line 3"},
               {"[1, 2]", "is a list, want an object"},
               {"{\"step\": \"1\"}", "step is no number"},
               {"{\"loss\": true}", "loss is no number"},
               {"{\"step\": 1, \"step\": 2}", "duplicate"},
               {"{\"step\": 1} x", "line 1"},
               {"{\"step\": 1e999}", "overflow"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) refused(bad[i].text, strlen(bad[i].text), bad[i].words);
    refused("{\"st\0p\": 1}", 11, "t.json: line 1");
    refused("{\"a\": \"\xff\"}", 10, "unable to decode");
}

static void test_shape(void **state) {
    (void)state;
    static const char *const lists[] = {"rank"}, *const objects[] = {"bubble", "curves"};
    const char *text = "{\"rank\": [], \"bubble\": {}, \"curves\": {\"m\": []}}";
    assert_int_equal(ppl_json_check("t", text, strlen(text), lists, 1, objects, 2), PPL_OK);
    text = "{\"rank\": [], \"bubble\": 3, \"curves\": {}}";
    assert_int_equal(ppl_json_check("t", text, strlen(text), lists, 1, objects, 2), PPL_ERR_IO);
    assert_string_equal(ppl_error(), "t: bubble is no object");
    assert_int_equal(ppl_json_check("t", text, strlen(text), objects, 1, NULL, 0), PPL_ERR_IO);
    assert_string_equal(ppl_error(), "t: bubble is no list");
    assert_int_equal(ppl_json_check("t", "{\"rank\"", 7, lists, 1, objects, 2), PPL_ERR_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
