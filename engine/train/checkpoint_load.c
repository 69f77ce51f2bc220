// checkpoint_load.c - reads a safetensors file into a store. Nothing of the file is believed: every length, offset,
// name and shape is checked before the first number is taken. Before: a file from anywhere. After: the store.
#include "train/checkpoint.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_HEADER = 100 * 1000 * 1000 }; // bytes; the format's own bound
enum { F16 = PPL_DTYPES };                // beside ppl_dtype: in files alone

typedef struct tensor {  // one of the header's, checked
    const char *name;    // borrowed from the header
    int32_t dtype;       // ppl_dtype or F16
    ppl_type type;       // shape; dtype unused
    uint64_t begin, end; // bytes from the end of the header
} tensor;

typedef struct loader {
    const char *path;
    int fd;
    uint64_t data_at, data_bytes; // where numbers begin in the file, how many bytes they take
    json_t *header;
    tensor *tensors; // in order of begin
    size_t count;
    int64_t step; // -1: no state
    int64_t updates;
    char *data; // all numbers
    ppl_checkpoint_list list;
    void *scratch; // of one tensor: in a file they need not be aligned
} loader;

static ppl_status bad(const loader *l, const char *name, const char *words) {
    return ppl_fail(PPL_ERR_IO, "%s: tensor '%s': %s", l->path, name, words);
}

static ppl_status read_at(const loader *l, uint64_t at, void *to, uint64_t bytes) {
    char *p = to;
    while (bytes) {
        ssize_t n = pread(l->fd, p, bytes < (1u << 30) ? bytes : 1u << 30, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return ppl_fail(PPL_ERR_IO, "%s: cannot be read: %s", l->path, strerror(errno));
        if (n == 0) return ppl_fail(PPL_ERR_IO, "%s: ended at byte %" PRIu64 " while it was read", l->path, at);
        p += n, at += (uint64_t)n, bytes -= (uint64_t)n;
    }
    return PPL_OK;
}

// Opens the file and parses its header.
static ppl_status header_read(loader *l) {
    l->fd = open(l->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe without a writer would hold us
    struct stat s;
    if (l->fd < 0 || fstat(l->fd, &s) != 0)
        return ppl_fail(PPL_ERR_IO, "%s: cannot be read: %s", l->path, strerror(errno));
    if (!S_ISREG(s.st_mode)) return ppl_fail(PPL_ERR_IO, "%s: is no regular file", l->path);
    uint64_t size = (uint64_t)s.st_size, length = 0;
    unsigned char first[8];
    if (size < 8) return ppl_fail(PPL_ERR_IO, "%s: has %" PRIu64 " bytes, want 8 at least", l->path, size);
    PPL_TRY(read_at(l, 0, first, 8));
    for (int32_t i = 0; i < 8; i++) length |= (uint64_t)first[i] << (8 * i);
    if (length > size - 8 || length > MOST_HEADER)
        return ppl_fail(PPL_ERR_IO, "%s: its header takes %" PRIu64 " bytes, want at most %" PRIu64, l->path, length,
                        size - 8 < MOST_HEADER ? size - 8 : (uint64_t)MOST_HEADER);
    char *text = ppl_alloc(length);
    if (!text) return PPL_ERR_MEMORY;
    ppl_status st = read_at(l, 8, text, length);
    json_error_t why;
    if (st == PPL_OK && !(l->header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &why)))
        st = ppl_fail(PPL_ERR_IO, "%s: its header, byte %d: %s", l->path, why.position, why.text);
    ppl_free(text);
    PPL_TRY(st);
    if (!json_is_object(l->header)) return ppl_fail(PPL_ERR_IO, "%s: its header is no JSON object", l->path);
    l->data_at = 8 + length;
    l->data_bytes = size - l->data_at;
    return PPL_OK;
}

static ppl_status dtype_read(const loader *l, const json_t *object, tensor *t) {
    static const struct {
        const char *name;
        int32_t dtype;
    } known[] = {{"F32", PPL_F32}, {"F16", F16}, {"BF16", PPL_BF16}, {"F64", PPL_F64}};
    const char *text = json_string_value(json_object_get(object, "dtype"));
    for (size_t i = 0; text && i < sizeof known / sizeof *known; i++)
        if (strcmp(text, known[i].name) == 0) {
            t->dtype = known[i].dtype;
            return PPL_OK;
        }
    return ppl_fail(PPL_ERR_IO, "%s: tensor '%s': dtype %.40s, want F32, F16, BF16 or F64", l->path, t->name,
                    text ? text : "(none)");
}

static size_t dtype_bytes(int32_t dtype) {
    return dtype == F16 ? 2 : ppl_dtype_size(dtype);
}

// The shape, and that it takes end - begin bytes.
static ppl_status shape_read(const loader *l, const json_t *object, tensor *t) {
    const json_t *shape = json_object_get(object, "shape");
    if (!json_is_array(shape)) return bad(l, t->name, "no array 'shape'");
    if (json_array_size(shape) > PPL_MAX_DIMS) return bad(l, t->name, "too many dimensions, want at most 6");
    uint64_t bytes = dtype_bytes(t->dtype);
    int64_t dim[PPL_MAX_DIMS];
    for (size_t i = 0; i < json_array_size(shape); i++) {
        const json_t *n = json_array_get(shape, i);
        if (!json_is_integer(n) || json_integer_value(n) < 0)
            return bad(l, t->name, "a dimension that is no whole number from 0");
        dim[i] = json_integer_value(n);
        if (dim[i] && bytes > UINT64_MAX / (uint64_t)dim[i]) return bad(l, t->name, "a shape beyond any memory");
        bytes *= (uint64_t)dim[i];
    }
    t->type = ppl_type_make(PPL_F32, (int32_t)json_array_size(shape), dim);
    if (bytes == t->end - t->begin) return PPL_OK;
    return ppl_fail(PPL_ERR_IO, "%s: tensor '%s': its shape takes %" PRIu64 " bytes, its data_offsets give %" PRIu64,
                    l->path, t->name, bytes, t->end - t->begin);
}

static ppl_status offsets_read(const loader *l, const json_t *object, tensor *t) {
    const json_t *pair = json_object_get(object, "data_offsets");
    const json_t *begin = json_array_get(pair, 0), *end = json_array_get(pair, 1);
    if (json_array_size(pair) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return bad(l, t->name, "no pair of whole numbers 'data_offsets'");
    json_int_t from = json_integer_value(begin), to = json_integer_value(end);
    if (from < 0 || to < from || (uint64_t)to > l->data_bytes)
        return ppl_fail(PPL_ERR_IO,
                        "%s: tensor '%s': data_offsets %" PRId64 " to %" PRId64 " are outside the %" PRIu64
                        " bytes of numbers",
                        l->path, t->name, (int64_t)from, (int64_t)to, l->data_bytes);
    t->begin = (uint64_t)from;
    t->end = (uint64_t)to;
    return PPL_OK;
}

static ppl_status tensor_read(const loader *l, const json_t *object, tensor *t) {
    if (!json_is_object(object)) return bad(l, t->name, "is no JSON object");
    PPL_TRY(dtype_read(l, object, t));
    PPL_TRY(offsets_read(l, object, t));
    PPL_TRY(shape_read(l, object, t));
    if (json_object_size(object) != 3) return bad(l, t->name, "more than dtype, shape and data_offsets");
    return PPL_OK;
}

static ppl_status count_read(const loader *l, const char *name, const char *text, int64_t *out) {
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 18 || text[digits])
        return ppl_fail(PPL_ERR_IO, "%s: %s '%.60s', want a whole number from 0", l->path, name, text);
    *out = strtoll(text, NULL, 10);
    return PPL_OK;
}

static ppl_status metadata_read(loader *l, const ppl_store *s, json_t *object) {
    const char *key;
    json_t *value;
    if (!json_is_object(object)) return ppl_fail(PPL_ERR_IO, "%s: __metadata__ is no JSON object", l->path);
    json_object_foreach(object, key, value) {
        if (!json_is_string(value)) return ppl_fail(PPL_ERR_IO, "%s: __metadata__ '%.60s' is no text", l->path, key);
    }
    const char *step = json_string_value(json_object_get(object, "step"));
    const char *optimizer = json_string_value(json_object_get(object, "optimizer"));
    if (!step) return PPL_OK;
    PPL_TRY(count_read(l, "step", step, &l->step));
    const char *updates = json_string_value(json_object_get(object, "updates"));
    PPL_TRY(count_read(l, "updates", updates ? updates : step, &l->updates));
    if (optimizer && strcmp(optimizer, ppl_optimizer_label(s->optimizer.kind)) != 0)
        return ppl_fail(PPL_ERR_IO, "%s: holds the state of %.20s, want that of %s", l->path, optimizer,
                        ppl_optimizer_label(s->optimizer.kind));
    return PPL_OK;
}

static int by_begin(const void *a, const void *b) {
    const tensor *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end; // empty ones first
}

// That tensors lie end to end, as the format demands: no overlap, no hole, nothing behind the last.
static ppl_status layout_check(const loader *l) {
    uint64_t at = 0;
    for (size_t i = 0; i < l->count; i++) {
        const tensor *t = &l->tensors[i];
        if (t->begin < at)
            return ppl_fail(PPL_ERR_IO, "%s: tensors '%s' and '%s' overlap", l->path, l->tensors[i - 1].name, t->name);
        if (t->begin > at)
            return ppl_fail(PPL_ERR_IO, "%s: %" PRIu64 " bytes before tensor '%s' belong to none", l->path,
                            t->begin - at, t->name);
        at = t->end;
    }
    if (at == l->data_bytes) return PPL_OK;
    return ppl_fail(PPL_ERR_IO, "%s: %" PRIu64 " bytes behind the last tensor, want none", l->path, l->data_bytes - at);
}

static ppl_status tensors_read(loader *l, const ppl_store *s) {
    l->tensors = ppl_alloc(json_object_size(l->header) * sizeof *l->tensors);
    if (!l->tensors) return PPL_ERR_MEMORY;
    const char *key;
    json_t *value;
    json_object_foreach(l->header, key, value) {
        if (strcmp(key, "__metadata__") == 0) {
            PPL_TRY(metadata_read(l, s, value));
        } else {
            tensor *t = &l->tensors[l->count++];
            t->name = key;
            PPL_TRY(tensor_read(l, value, t));
        }
    }
    qsort(l->tensors, l->count, sizeof *l->tensors, by_begin);
    return layout_check(l);
}

static const tensor *tensor_find(const loader *l, const char *name) {
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->tensors[i].name, name) == 0) return &l->tensors[i];
    return NULL;
}

static int name_is(const void *key, const void *item) {
    return strcmp(key, ((const ppl_checkpoint_item *)item)->name);
}

// That the file has what the store wants, in its shape, and nothing else.
static ppl_status match(const loader *l, const ppl_store *s, const ppl_checkpoint_list *list) {
    char is[128], want[128];
    for (size_t i = 0; i < list->count; i++) {
        const ppl_checkpoint_item *item = &list->item[i];
        const tensor *t = tensor_find(l, item->name);
        if (!t) return bad(l, item->name, "is missing");
        ppl_type type = s->graph->params[item->param].type;
        type.dtype = PPL_F32;
        if (ppl_type_equal(&t->type, &type)) continue;
        return ppl_fail(PPL_ERR_IO, "%s: tensor '%s' is %s, want %s", l->path, item->name,
                        ppl_type_print(&t->type, is) + 4, ppl_type_print(&type, want) + 4);
    }
    for (size_t i = 0; i < l->count; i++)
        if (!bsearch(l->tensors[i].name, list->item, list->count, sizeof *list->item, name_is))
            return bad(l, l->tensors[i].name, "nothing in the model has this name");
    return PPL_OK;
}

static float half_to_f32(uint16_t h) {
    int32_t exponent = h >> 10 & 31, mantissa = h & 1023;
    float x = exponent == 31 ? (mantissa ? NAN : INFINITY)
              : exponent     ? ldexpf((float)(mantissa + 1024), exponent - 25)
                             : ldexpf((float)mantissa, -24);
    return h >> 15 ? -x : x;
}

// Bytes that commit's scratch needs for a tensor.
static size_t scratch_bytes(const tensor *t) {
    return (size_t)ppl_type_elements(&t->type) * (t->dtype == F16 ? sizeof(float) : dtype_bytes(t->dtype));
}

// A tensor's numbers into the scratch, which is aligned as in a file they need not be; returns their dtype.
static int32_t numbers_get(const loader *l, const tensor *t) {
    const char *from = l->data + t->begin;
    if (t->dtype != F16) {
        memcpy(l->scratch, from, scratch_bytes(t));
        return t->dtype;
    }
    for (int64_t k = 0; k < ppl_type_elements(&t->type); k++) {
        uint16_t h;
        memcpy(&h, from + 2 * k, 2);
        ((float *)l->scratch)[k] = half_to_f32(h);
    }
    return PPL_F32;
}

// That all numbers are finite: one that is not would spread through the model without a word.
static ppl_status finite_check(const loader *l) {
    for (size_t i = 0; i < l->list.count; i++) {
        const tensor *t = tensor_find(l, l->list.item[i].name);
        int32_t dtype = numbers_get(l, t);
        for (int64_t k = 0; k < ppl_type_elements(&t->type); k++) {
            double x = ppl_number_get(l->scratch, dtype, k);
            if (!isfinite(x))
                return ppl_fail(PPL_ERR_NUMBER, "%s: tensor '%s', number %" PRId64 ": is %s, want finite numbers",
                                l->path, t->name, k,
                                isnan(x) ? "nan"
                                : x > 0  ? "inf"
                                         : "-inf");
        }
    }
    return PPL_OK;
}

// Takes all numbers, in all processes. Nothing can fail here: names and shapes have been matched.
static ppl_status commit(const loader *l, ppl_store *s) {
    for (size_t i = 0; i < l->list.count; i++) {
        const ppl_checkpoint_item *item = &l->list.item[i];
        int32_t dtype = PPL_F32;
        if (l->tensors) dtype = numbers_get(l, tensor_find(l, item->name));
        PPL_TRY(ppl_world_share(s->world, 0, &dtype, sizeof dtype));
        int64_t n = ppl_type_elements(&s->graph->params[item->param].type);
        PPL_TRY(ppl_world_share(s->world, 0, l->scratch, (size_t)n * ppl_dtype_size(dtype)));
        PPL_TRY(ppl_store_set(s, item->param, item->part, l->scratch, dtype));
    }
    s->updates = l->updates;
    if (l->step < 0) ppl_store_zero_moments(s);
    return PPL_OK;
}

// Everything that may fail: of the file in process 0, of memory in all.
static ppl_status prepare(loader *l, const ppl_store *s) {
    size_t most = 0;
    for (size_t i = 0; i < s->graph->n_params; i++) {
        size_t bytes = (size_t)ppl_type_elements(&s->graph->params[i].type) * sizeof(double);
        if (bytes > most) most = bytes;
    }
    if (!(l->scratch = ppl_alloc(most))) return PPL_ERR_MEMORY;
    if (ppl_world_process_of(s->world) > 0) return PPL_OK;
    PPL_TRY(header_read(l));
    PPL_TRY(tensors_read(l, s));
    PPL_TRY(ppl_checkpoint_items(s, l->step >= 0, &l->list));
    PPL_TRY(match(l, s, &l->list));
    if (!(l->data = ppl_alloc(l->data_bytes))) return PPL_ERR_MEMORY;
    PPL_TRY(read_at(l, l->data_at, l->data, l->data_bytes));
    return finite_check(l);
}

static ppl_status load(loader *l, ppl_store *s) {
    PPL_TRY(ppl_world_settle(s->world, "load", prepare(l, s)));
    int64_t counts[] = {l->step, l->updates};
    PPL_TRY(ppl_world_share(s->world, 0, counts, sizeof counts));
    l->step = counts[0];
    l->updates = counts[1];
    if (!l->list.item) PPL_TRY(ppl_checkpoint_items(s, l->step >= 0, &l->list));
    return commit(l, s);
}

ppl_status ppl_checkpoint_load(ppl_store *s, const char *path, int64_t *step) {
    loader l = {.path = path, .fd = -1, .step = -1};
    ppl_status st = load(&l, s);
    if (st == PPL_OK) *step = l.step;
    if (l.header) json_decref(l.header);
    if (l.fd >= 0) close(l.fd);
    ppl_checkpoint_items_clear(&l.list);
    ppl_free(l.scratch);
    ppl_free(l.tensors);
    ppl_free(l.data);
    return st;
}
