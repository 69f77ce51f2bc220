// yaml.c - a YAML document as a flat list of nodes, by libyaml's event parser. What a configuration has no use for is
// refused by name: aliases, anchors, tags, several documents, keys that are no plain scalars. Before: files. After: the
// configuration of a script, which compares keys and says the line.
#include "ppl.h"
#include "base/memory.h"
#include "base/status.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

enum { MOST_BYTES = 1 << 20, MOST_DEPTH = 64, MOST_NODES = 10000 };

struct ppl_yaml {
    ppl_arena arena; // texts
    ppl_yaml_node *node;
    size_t count, room;
};

typedef struct reader {
    const char *name;
    ppl_yaml *y;
    yaml_parser_t parser;
    int32_t open[MOST_DEPTH]; // indexes of the collections around the place
    int32_t depth;
    const char *key; // read, its value not yet
    int32_t documents;
} reader;

static int32_t line_of(const yaml_event_t *e) {
    return (int32_t)e->start_mark.line + 1;
}

static const ppl_yaml_node *inside(const reader *r) {
    return r->depth ? &r->y->node[r->open[r->depth - 1]] : NULL;
}

static ppl_status refuse(const reader *r, const yaml_event_t *e, const char *what, const yaml_char_t *name) {
    return ppl_fail(PPL_ERR_IO, "%s:%d: %s '%.60s' is not supported here, want plain values", r->name, line_of(e), what,
                    (const char *)name);
}

// What stands before a node: anchors and tags.
static ppl_status node_check(const reader *r, const yaml_event_t *e, const yaml_char_t *anchor,
                             const yaml_char_t *tag) {
    if (anchor) return refuse(r, e, "the anchor", anchor);
    if (tag) return refuse(r, e, "the tag", tag);
    if (r->y->count >= MOST_NODES)
        return ppl_fail(PPL_ERR_IO, "%s:%d: more than %d values", r->name, line_of(e), MOST_NODES);
    return PPL_OK;
}

static ppl_status node_add(reader *r, const yaml_event_t *e, int32_t kind, int32_t quoted, const char *text) {
    ppl_yaml *y = r->y;
    PPL_TRY(ppl_grow((void **)&y->node, &y->room, y->count + 1, sizeof *y->node));
    y->node[y->count++] = (ppl_yaml_node){
        .parent = r->depth ? r->open[r->depth - 1] : -1,
        .kind = kind,
        .line = line_of(e),
        .quoted = quoted,
        .key = r->key,
        .text = text,
    };
    r->key = NULL;
    return PPL_OK;
}

static ppl_status key_check(const reader *r, const yaml_event_t *e, const char *key) {
    if (!*key) return ppl_fail(PPL_ERR_IO, "%s:%d: an empty key", r->name, line_of(e));
    int32_t parent = r->open[r->depth - 1];
    for (size_t i = (size_t)parent + 1; i < r->y->count; i++) {
        const ppl_yaml_node *n = &r->y->node[i];
        if (n->parent == parent && strcmp(n->key, key) == 0)
            return ppl_fail(PPL_ERR_IO, "%s:%d: the key '%.60s' stands a second time, first on line %d", r->name,
                            line_of(e), key, n->line);
    }
    return PPL_OK;
}

static ppl_status scalar(reader *r, const yaml_event_t *e) {
    const char *value = (const char *)e->data.scalar.value;
    PPL_TRY(node_check(r, e, e->data.scalar.anchor, e->data.scalar.tag));
    if (strlen(value) != e->data.scalar.length)
        return ppl_fail(PPL_ERR_IO, "%s:%d: a zero character in a text", r->name, line_of(e));
    char *text = ppl_arena_text(&r->y->arena, value);
    if (!text) return PPL_ERR_MEMORY;
    const ppl_yaml_node *parent = inside(r);
    if (parent && parent->kind == 1 && !r->key) {
        PPL_TRY(key_check(r, e, text));
        r->key = text;
        return PPL_OK;
    }
    return node_add(r, e, 0, e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE, text);
}

static ppl_status collection(reader *r, const yaml_event_t *e, int32_t kind, const yaml_char_t *anchor,
                             const yaml_char_t *tag) {
    PPL_TRY(node_check(r, e, anchor, tag));
    const ppl_yaml_node *parent = inside(r);
    if (parent && parent->kind == 1 && !r->key)
        return ppl_fail(PPL_ERR_IO, "%s:%d: a key that is a %s, want a plain word", r->name, line_of(e),
                        kind == 1 ? "mapping" : "sequence");
    if (r->depth == MOST_DEPTH)
        return ppl_fail(PPL_ERR_IO, "%s:%d: nested deeper than %d", r->name, line_of(e), MOST_DEPTH);
    PPL_TRY(node_add(r, e, kind, 0, NULL));
    r->open[r->depth++] = (int32_t)r->y->count - 1;
    return PPL_OK;
}

static ppl_status take(reader *r, const yaml_event_t *e) {
    switch (e->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (r->documents++ == 0) return PPL_OK;
        return ppl_fail(PPL_ERR_IO, "%s:%d: a second document begins, want one", r->name, line_of(e));
    case YAML_ALIAS_EVENT: return refuse(r, e, "the alias", e->data.alias.anchor);
    case YAML_SCALAR_EVENT: return scalar(r, e);
    case YAML_SEQUENCE_START_EVENT:
        return collection(r, e, 2, e->data.sequence_start.anchor, e->data.sequence_start.tag);
    case YAML_MAPPING_START_EVENT: return collection(r, e, 1, e->data.mapping_start.anchor, e->data.mapping_start.tag);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: r->depth--; return PPL_OK;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_END_EVENT: return PPL_OK;
    }
    return PPL_OK;
}

// libyaml's own words, with the line.
static ppl_status parser_error(const reader *r) {
    const yaml_parser_t *p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR) return ppl_fail(PPL_ERR_MEMORY, "%s: no memory to read it", r->name);
    const char *problem = p->problem ? p->problem : "cannot be read";
    if (p->error == YAML_READER_ERROR)
        return ppl_fail(PPL_ERR_IO, "%s: %s at byte %zu", r->name, problem, p->problem_offset);
    return ppl_fail(PPL_ERR_IO, "%s:%zu: %s%s%s", r->name, p->problem_mark.line + 1, problem, p->context ? ", " : "",
                    p->context ? p->context : "");
}

static ppl_status read_all(reader *r, const char *text, size_t bytes) {
    yaml_parser_set_input_string(&r->parser, (const unsigned char *)text, bytes);
    for (bool more = true; more;) {
        yaml_event_t e;
        if (!yaml_parser_parse(&r->parser, &e)) return parser_error(r);
        more = e.type != YAML_STREAM_END_EVENT;
        ppl_status st = take(r, &e);
        yaml_event_delete(&e);
        PPL_TRY(st);
    }
    return PPL_OK;
}

ppl_status ppl_yaml_parse(const char *name, const char *text, size_t bytes, ppl_yaml **out) {
    if (bytes > MOST_BYTES) return ppl_fail(PPL_ERR_IO, "%s: %zu bytes, want at most %d", name, bytes, (int)MOST_BYTES);
    reader r = {.name = name, .y = ppl_alloc(sizeof *r.y)};
    if (!r.y) return PPL_ERR_MEMORY;
    ppl_status st;
    if (yaml_parser_initialize(&r.parser)) {
        st = read_all(&r, text, bytes);
        yaml_parser_delete(&r.parser);
    } else {
        st = ppl_fail(PPL_ERR_MEMORY, "%s: no memory to read it", name);
    }
    if (st != PPL_OK) {
        ppl_yaml_close(r.y);
        return st;
    }
    *out = r.y;
    return PPL_OK;
}

ppl_status ppl_yaml_open(const char *path, ppl_yaml **out) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe without a writer would hold us
    if (fd < 0) return ppl_fail(PPL_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
    ppl_status st = PPL_OK;
    char *text = NULL;
    size_t bytes = 0;
    struct stat s;
    if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode)) {
        st = ppl_fail(PPL_ERR_IO, "%s: is no regular file", path);
    } else if (!(text = ppl_alloc(MOST_BYTES + 1))) {
        st = PPL_ERR_MEMORY;
    } else {
        ssize_t n = 1;
        while (bytes <= MOST_BYTES && (n = read(fd, text + bytes, MOST_BYTES + 1 - bytes)) > 0) bytes += (size_t)n;
        st = n < 0 ? ppl_fail(PPL_ERR_IO, "%s: cannot be read: %s", path, strerror(errno))
                   : ppl_yaml_parse(path, text, bytes, out);
    }
    ppl_free(text);
    close(fd);
    return st;
}

int32_t ppl_yaml_nodes(const ppl_yaml *y) {
    return (int32_t)y->count;
}

ppl_status ppl_yaml_get(const ppl_yaml *y, int32_t index, ppl_yaml_node *out) {
    if (index < 0 || (size_t)index >= y->count)
        return ppl_fail(PPL_ERR_ARG, "yaml: node %d, want 0 to %zu", index, y->count - 1);
    *out = y->node[index];
    return PPL_OK;
}

void ppl_yaml_close(ppl_yaml *y) {
    if (!y) return;
    free(y->node);
    ppl_arena_clear(&y->arena);
    ppl_free(y);
}
