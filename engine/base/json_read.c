// json_read.c - JSON texts that a run wrote, read by jansson: members of an object by name. After: `ppl report`.
#include "base/json.h"
#include "base/status.h"
#include <jansson.h>
#include <math.h>
#include <string.h>

// The object that a text holds; NULL with the failure set.
static json_t *load(const char *name, const char *text, size_t bytes) {
    json_error_t error;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!root) ppl_fail(PPL_ERR_IO, "%s: line %d, column %d: %s", name, error.line, error.column, error.text);
    else if (!json_is_object(root)) {
        json_decref(root);
        root = NULL;
        ppl_fail(PPL_ERR_IO, "%s: is a list, want an object", name);
    }
    return root;
}

ppl_status ppl_json_numbers(const char *name, const char *text, size_t bytes, const char *const *keys, int32_t count,
                            double *out) {
    json_t *root = load(name, text, bytes);
    if (!root) return PPL_ERR_IO;
    ppl_status status = PPL_OK;
    for (int32_t i = 0; i < count && status == PPL_OK; i++) {
        json_t *value = json_object_get(root, keys[i]);
        out[i] = json_is_number(value) ? json_number_value(value) : (double)NAN;
        if (value && !json_is_number(value) && !json_is_null(value))
            status = ppl_fail(PPL_ERR_IO, "%s: %s is no number", name, keys[i]);
    }
    json_decref(root);
    return status;
}

ppl_status ppl_json_check(const char *name, const char *text, size_t bytes, const char *const *lists, int32_t n_lists,
                          const char *const *objects, int32_t n_objects) {
    json_t *root = load(name, text, bytes);
    if (!root) return PPL_ERR_IO;
    ppl_status status = PPL_OK;
    for (int32_t i = 0; i < n_lists && status == PPL_OK; i++)
        if (!json_is_array(json_object_get(root, lists[i])))
            status = ppl_fail(PPL_ERR_IO, "%s: %s is no list", name, lists[i]);
    for (int32_t i = 0; i < n_objects && status == PPL_OK; i++)
        if (!json_is_object(json_object_get(root, objects[i])))
            status = ppl_fail(PPL_ERR_IO, "%s: %s is no object", name, objects[i]);
    json_decref(root);
    return status;
}
