// test_yaml.c - the flat list of a YAML document, and every refusal with its line.
#include "ppl.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <cmocka.h>

static ppl_yaml *parse(const char *text) {
    ppl_yaml *y = NULL;
    if (ppl_yaml_parse("t.yaml", text, strlen(text), &y) != PPL_OK) fail_msg("%s", ppl_error());
    return y;
}

static void refused(const char *text, size_t bytes, const char *words) {
    ppl_yaml *y = NULL;
    ppl_status st = ppl_yaml_parse("t.yaml", text, bytes, &y);
    if (st != PPL_ERR_IO) fail_msg("status %d for %.40s, want a refusal with '%s'", st, text, words);
    if (!strstr(ppl_error(), words)) fail_msg("'%s' lacks '%s'", ppl_error(), words);
    assert_null(y);
}

static void test_list(void **state) {
    (void)state;
    static const struct {
        int32_t parent, kind, line, quoted;
        const char *key, *text;
    } want[] = {
        {-1, 1, 2, 0, NULL, NULL},        {0, 1, 2, 0, "model", NULL},
        {1, 0, 2, 0, "layers", "12"},     {1, 0, 2, 1, "name", "12"},
        {0, 2, 4, 0, "cut", NULL},        {4, 0, 4, 0, NULL, "1"},
        {4, 1, 5, 0, NULL, NULL},         {6, 0, 5, 0, "a", "b"},
        {0, 0, 6, 0, "empty", ""},        {0, 0, 7, 1, "text", "two\nlines\n"},
        {0, 0, 10, 1, "uni", "\xc3\xa9"}, {0, 2, 11, 0, "none", NULL},
    };
    ppl_yaml *y = parse("# a comment\n"
                        "model: {layers: 12, name: '12'}\n"
                        "cut:\n"
                        "  - 1\n"
                        "  - a: b\n"
                        "empty:\n"
                        "text: |\n"
                        "  two\n"
                        "  lines\n"
                        "uni: \"\\xe9\"\n"
                        "none: []\n");
    assert_int_equal(ppl_yaml_nodes(y), sizeof want / sizeof *want);
    for (int32_t i = 0; i < ppl_yaml_nodes(y); i++) {
        ppl_yaml_node n;
        assert_int_equal(ppl_yaml_get(y, i, &n), PPL_OK);
        assert_int_equal(n.parent, want[i].parent);
        assert_int_equal(n.kind, want[i].kind);
        assert_int_equal(n.line, want[i].line);
        assert_int_equal(n.quoted, want[i].quoted);
        assert_int_equal(n.key != NULL, want[i].key != NULL);
        if (n.key) assert_string_equal(n.key, want[i].key);
        assert_int_equal(n.text != NULL, want[i].text != NULL);
        if (n.text) assert_string_equal(n.text, want[i].text);
    }
    ppl_yaml_node n;
    assert_int_equal(ppl_yaml_get(y, -1, &n), PPL_ERR_ARG);
    assert_int_equal(ppl_yaml_get(y, ppl_yaml_nodes(y), &n), PPL_ERR_ARG);
    ppl_yaml_close(y);
    ppl_yaml_close(NULL);
}

static void test_empty(void **state) {
    (void)state;
    static const char *const texts[] = {"", "\n\n", "# only words\n", "\xef\xbb\xbf"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ppl_yaml *y = parse(texts[i]);
        assert_int_equal(ppl_yaml_nodes(y), 0);
        ppl_yaml_close(y);
    }
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"a: &x 1\nb: 2\n", "t.yaml:1: the anchor 'x'"},
        {"a: 1\nb: *x\n", "t.yaml:2: the alias 'x'"},
        {"a: 1\nb: !!int 2\n", "t.yaml:2: the tag 'tag:yaml.org,2002:int'"},
        {"a:\n  - !mine [1]\n", "t.yaml:2: the tag '!mine'"},
        {"&m a: 1\n", "the anchor 'm'"},
        {"a: 1\n---\nb: 2\n", "t.yaml:2: a second document"},
        {"a: 1\nb: 2\na: 3\n", "t.yaml:3: the key 'a' stands a second time, first on line 1"},
        {"[1]: 2\n", "t.yaml:1: a key that is a sequence"},
        {"{a: 1}: 2\n", "t.yaml:1: a key that is a mapping"},
        {"'': 2\n", "t.yaml:1: an empty key"},
        {"a: 1\nb: \"x\\0y\"\n", "t.yaml:2: a zero character"},
        {"a: [1, 2\n", "t.yaml:2"},
        {"a: 1\n\tb: 2\n", "t.yaml:2"},
        {"a: 'x\n", "t.yaml:2"},
        {"a: b: c\n", "t.yaml:1"},
        {"a: \xff\n", "t.yaml: invalid"},
        {"%YAML 3.0\n---\na: 1\n", "t.yaml:1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(cases[i].text, strlen(cases[i].text), cases[i].words);
}

static void test_bounds(void **state) {
    (void)state;
    enum { BIG = 2 << 20 };
    char *text = malloc(BIG);
    memset(text, '[', 1000);
    refused(text, 1000, "nested deeper than 64");
    memset(text, ' ', BIG);
    refused(text, BIG, "want at most");
    size_t n = 0;
    for (int32_t i = 0; i < 10001; i++) n += (size_t)sprintf(text + n, "- 1\n");
    refused(text, n, "more than 10000 values");
    free(text);
}

// No prefix of a document, and no byte changed, may do harm.
static void test_damage(void **state) {
    (void)state;
    char text[] = "a: {b: [1, 'x', \"\\u00e9\"], c: |\n  t\n}\nd:\n  - e: &f 1\n    g: *f\n# h\n";
    char work[sizeof text];
    ppl_yaml *y;
    for (size_t n = 0; n < sizeof text; n++)
        if (ppl_yaml_parse("t", text, n, &y) == PPL_OK) ppl_yaml_close(y);
    static const char bytes[] = {0, '\t', '\n', ':', '[', '}', '&', '*', '"', '\'', '-', '%', (char)0xff, (char)0xc3};
    for (size_t at = 0; at < sizeof text - 1; at++)
        for (size_t k = 0; k < sizeof bytes; k++) {
            memcpy(work, text, sizeof text);
            work[at] = bytes[k];
            if (ppl_yaml_parse("t", work, sizeof text - 1, &y) == PPL_OK) ppl_yaml_close(y);
        }
}

static void test_open(void **state) {
    (void)state;
    ppl_yaml *y = NULL;
    char path[] = "/tmp/ppl_yaml_XXXXXX";
    assert_non_null(mkdtemp(path));
    char file[64];
    snprintf(file, sizeof file, "%s/c.yaml", path);
    assert_int_equal(ppl_yaml_open(file, &y), PPL_ERR_IO);
    assert_non_null(strstr(ppl_error(), "c.yaml: cannot be read: No such file"));
    assert_int_equal(ppl_yaml_open(path, &y), PPL_ERR_IO);
    assert_int_equal(mkfifo(file, 0600), 0);
    assert_int_equal(ppl_yaml_open(file, &y), PPL_ERR_IO);
    assert_non_null(strstr(ppl_error(), "no regular file"));
    unlink(file);
    assert_int_equal(ppl_write_file(file, "a: 1\nb: [\n", 10), PPL_OK);
    assert_int_equal(ppl_yaml_open(file, &y), PPL_ERR_IO);
    assert_non_null(strstr(ppl_error(), "c.yaml:3"));
    assert_int_equal(ppl_write_file(file, "a: 1\n", 5), PPL_OK);
    assert_int_equal(ppl_yaml_open(file, &y), PPL_OK);
    assert_int_equal(ppl_yaml_nodes(y), 2);
    ppl_yaml_close(y);
    unlink(file);
    rmdir(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list),   cmocka_unit_test(test_empty),  cmocka_unit_test(test_refused),
        cmocka_unit_test(test_bounds), cmocka_unit_test(test_damage), cmocka_unit_test(test_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
