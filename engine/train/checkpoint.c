// checkpoint.c - a store as a safetensors file: an 8-byte length, a JSON header, the numbers. Before: store.h, between
// steps. After: checkpoint_load.c, whatever the ranks and the schedule then are.
#include "train/checkpoint.h"
#include "base/file.h"
#include "base/json.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

const char *ppl_optimizer_label(int32_t kind) {
    return kind == PPL_ADAMW ? "adamw" : "sgd";
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const ppl_checkpoint_item *)a)->name, ((const ppl_checkpoint_item *)b)->name);
}

ppl_status ppl_checkpoint_items(const ppl_store *s, bool state, ppl_checkpoint_list *out) {
    static const struct {
        int32_t part;
        const char *prefix;
    } parts[] = {{PPL_PART_WEIGHT, ""}, {PPL_PART_MOMENT1, "optimizer.m."}, {PPL_PART_MOMENT2, "optimizer.v."}};
    *out = (ppl_checkpoint_list){.item = ppl_alloc(s->graph->n_params * 3 * sizeof *out->item)};
    if (!out->item) return PPL_ERR_MEMORY;
    for (size_t i = 0; i < s->graph->n_params; i++) {
        for (size_t k = 0; k < (state ? 3 : 1); k++) {
            if (!ppl_store_has(s, (int32_t)i, parts[k].part)) continue;
            ppl_checkpoint_item *item = &out->item[out->count++];
            snprintf(item->name, sizeof item->name, "%s%s", parts[k].prefix, s->graph->params[i].name);
            item->param = (int32_t)i;
            item->part = parts[k].part;
        }
    }
    qsort(out->item, out->count, sizeof *out->item, by_name);
    for (size_t i = 1; i < out->count; i++)
        if (by_name(&out->item[i - 1], &out->item[i]) == 0) {
            ppl_status st = ppl_fail(PPL_ERR_ARG, "checkpoint: the name '%s' stands for two things, rename a parameter",
                                     out->item[i].name);
            ppl_checkpoint_items_clear(out);
            return st;
        }
    return PPL_OK;
}

void ppl_checkpoint_items_clear(ppl_checkpoint_list *list) {
    ppl_free(list->item);
    *list = (ppl_checkpoint_list){0};
}

// Readers want UTF-8 names; jansson is the judge.
static ppl_status name_check(const char *name) {
    json_t *text = json_string(name);
    if (!text) return ppl_fail(PPL_ERR_ARG, "checkpoint: the name '%s' is not UTF-8", name);
    json_decref(text);
    return PPL_OK;
}

// Writes the header, with spaces at the end so that the numbers begin at a multiple of 8 bytes.
static ppl_status header_make(const ppl_store *s, const ppl_checkpoint_list *list, bool state, int64_t step,
                              ppl_text *t) {
    ppl_text_add(t, "{\"__metadata__\":{\"format\":\"ppl\"");
    if (state)
        ppl_text_add(t, ",\"optimizer\":\"%s\",\"step\":\"%" PRId64 "\"", ppl_optimizer_label(s->optimizer.kind), step);
    if (state && s->updates != step) ppl_text_add(t, ",\"updates\":\"%" PRId64 "\"", s->updates);
    ppl_text_add(t, "}");
    size_t at = 0;
    for (size_t i = 0; i < list->count; i++) {
        const ppl_type *type = &s->graph->params[list->item[i].param].type;
        PPL_TRY(name_check(list->item[i].name));
        ppl_text_add(t, ",");
        ppl_text_json(t, list->item[i].name);
        ppl_text_add(t, ":{\"dtype\":\"%s\",\"shape\":[", type->dtype == PPL_F64 ? "F64" : "F32");
        for (int32_t k = 0; k < type->ndim; k++) ppl_text_add(t, "%s%" PRId64, k ? "," : "", type->dim[k]);
        ppl_text_add(t, "],\"data_offsets\":[%zu,%zu]}", at, at + ppl_type_bytes(type));
        at += ppl_type_bytes(type);
    }
    ppl_text_add(t, "}");
    while (!t->failed && t->length % 8) ppl_text_add(t, " ");
    return t->failed ? ppl_fail(PPL_ERR_MEMORY, "checkpoint: no memory for its header") : PPL_OK;
}

static ppl_status head_write(const ppl_text *header, ppl_new_file *f) {
    unsigned char length[8];
    for (int32_t i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)header->length >> (8 * i));
    PPL_TRY(ppl_new_file_write(f, length, sizeof length));
    return ppl_new_file_write(f, header->data, header->length);
}

// The numbers, each from the process that holds it. f: of process 0, NULL elsewhere. A disk that is full keeps nobody from
// handing over what it was asked for.
static ppl_status numbers_write(const ppl_store *s, const ppl_checkpoint_list *list, void *scratch, ppl_new_file *f) {
    ppl_status written = PPL_OK;
    for (size_t i = 0; i < list->count; i++) {
        const ppl_checkpoint_item *item = &list->item[i];
        const void *data;
        PPL_TRY(ppl_store_fetch(s, item->param, item->part, scratch, &data));
        if (f && written == PPL_OK)
            written = ppl_new_file_write(f, data, ppl_type_bytes(&s->graph->params[item->param].type));
    }
    return written;
}

static size_t most_bytes(const ppl_store *s) {
    size_t most = 0;
    for (size_t i = 0; s->world && i < s->graph->n_params; i++)
        if (ppl_type_bytes(&s->graph->params[i].type) > most) most = ppl_type_bytes(&s->graph->params[i].type);
    return most;
}

typedef struct saving {
    ppl_checkpoint_list list;
    ppl_text header;
    ppl_new_file file;
    bool opened;
    void *scratch;
} saving;

static ppl_status saving_begin(saving *w, const ppl_store *s, const char *path, bool state, int64_t step) {
    PPL_TRY(ppl_checkpoint_items(s, state, &w->list));
    PPL_TRY(header_make(s, &w->list, state, step, &w->header));
    if (!(w->scratch = ppl_alloc(most_bytes(s)))) return PPL_ERR_MEMORY;
    if (ppl_world_process_of(s->world) > 0) return PPL_OK;
    PPL_TRY(ppl_new_file_open(&w->file, path));
    w->opened = true;
    return head_write(&w->header, &w->file);
}

ppl_status ppl_checkpoint_save(const ppl_store *s, const char *path, bool state, int64_t step) {
    saving w = {0};
    ppl_status st = ppl_world_settle(s->world, "save", saving_begin(&w, s, path, state, step));
    if (st == PPL_OK) {
        st = numbers_write(s, &w.list, w.scratch, w.opened ? &w.file : NULL);
        if (st == PPL_OK && w.opened) {
            st = ppl_new_file_finish(&w.file);
            w.opened = false;
        }
        st = ppl_world_settle(s->world, "end of save", st);
    }
    if (w.opened) ppl_new_file_abandon(&w.file);
    ppl_free(w.scratch);
    ppl_text_clear(&w.header);
    ppl_checkpoint_items_clear(&w.list);
    return st;
}
