// data_text.c - bytes of files as tokens: windows of context + 1 bytes, each the next one's neighbour, in a seeded
// order that is a function of (seed, epoch, position). Before: files. After: data.c.
#include "base/memory.h"
#include "base/random.h"
#include "train/data_source.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TOKENS = 0, TARGETS = 1, ROUNDS = 6 };
static const size_t READ_AHEAD = (size_t)1 << 30; // bytes of files that the kernel is asked to read at the start

typedef struct text_file {
    int fd;
    const char *path;
    const uint8_t *bytes; // mapped
    size_t size;
    size_t begin;  // first byte of this part
    int64_t first; // index of its first window among all
} text_file;

typedef struct text_data {
    ppl_data base;
    ppl_data_field field[2];
    ppl_arena arena; // paths and files
    text_file *file;
    int32_t files, context, part;
    int64_t windows;
    uint64_t key;
    size_t page;     // bytes
    bool read_ahead; // too large to be read at the start: each read announces the next step's windows
} text_data;

// A permutation of 0 .. n - 1: a Feistel network over the next power of four, walked until it falls inside (Black and
// Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002). No table, any position at once.
static int64_t permute(uint64_t key, int64_t epoch, int64_t n, int64_t at) {
    int32_t half = 1;
    while (half < 31 && ((int64_t)1 << (2 * half)) < n) half++;
    uint64_t mask = ((uint64_t)1 << half) - 1, x = (uint64_t)at;
    do {
        uint64_t left = x >> half, right = x & mask;
        for (uint64_t round = 0; round < ROUNDS; round++) {
            uint32_t word[4];
            ppl_philox(key, (uint64_t)epoch, round << 32 | right, word);
            uint64_t next = left ^ (word[0] & mask);
            left = right;
            right = next;
        }
        x = left << half | right;
    } while (x >= (uint64_t)n);
    return (int64_t)x;
}

// The window that sample n of the endless sequence of epochs is.
static int64_t window_of(const text_data *t, int64_t n) {
    return t->part ? n : permute(t->key, n / t->windows, t->windows, n % t->windows);
}

static const text_file *file_of(const text_data *t, int64_t window) {
    int32_t low = 0, high = t->files - 1;
    while (low < high) { // the last file whose first window is not behind it; files without windows share their number
        int32_t middle = (low + high + 1) / 2;
        if (t->file[middle].first <= window) low = middle;
        else high = middle - 1;
    }
    return &t->file[low];
}

static void text_close(ppl_data *d) {
    text_data *t = (text_data *)d;
    for (int32_t i = 0; t->file && i < t->files; i++) {
        if (t->file[i].bytes) munmap((void *)t->file[i].bytes, t->file[i].size);
        if (t->file[i].fd >= 0) close(t->file[i].fd);
    }
    ppl_arena_clear(&t->arena);
    ppl_free(t);
}

static int64_t text_samples(const ppl_data *d) {
    return ((const text_data *)d)->windows;
}

static ppl_status text_push(ppl_data *d, int32_t samples, const void *const *arrays) {
    (void)d, (void)samples, (void)arrays;
    return ppl_fail(PPL_ERR_ARG, "data: text is read from its files, want a queue to push into");
}

static void text_end(ppl_data *d) {
    (void)d;
}

static void text_step(ppl_data *d, int64_t step) {
    (void)d, (void)step;
}

static ppl_status text_present(ppl_data *d, int64_t step, int32_t batch, int32_t *present, double *weight) {
    const text_data *t = (const text_data *)d;
    *present = batch;
    if (t->part) {
        int64_t left = t->windows - step * batch;
        if (left <= 0)
            return ppl_fail(PPL_ERR_DATA,
                            "data, step %" PRId64 ": the held-out part has %" PRId64 " samples, which is %" PRId64
                            " steps of %d",
                            step, t->windows, (t->windows + batch - 1) / batch, batch);
        if (left < batch) *present = (int32_t)left;
    }
    *weight = (double)*present * t->context;
    return PPL_OK;
}

// Asks the kernel for a window's pages.
static void announce(const text_data *t, int64_t window) {
    const text_file *f = file_of(t, window);
    size_t at = f->begin + (size_t)(window - f->first) * (size_t)t->context, page = t->page;
    size_t from = at / page * page;
    madvise((void *)(f->bytes + from), at - from + (size_t)t->context + 1, MADV_WILLNEED);
}

static ppl_status text_read(ppl_data *d, int64_t step, int32_t first, int32_t samples, int32_t batch, int32_t input,
                            int32_t dtype, void *dst) {
    const text_data *t = (const text_data *)d;
    (void)dtype; // I32, data.c has seen to it
    for (int32_t s = 0; s < samples; s++) {
        int64_t n = step * batch + first + s;
        int64_t window = window_of(t, n);
        const text_file *f = file_of(t, window);
        struct stat now; // a file cut short while it is mapped would be a bus error
        if (fstat(f->fd, &now) != 0 || (size_t)now.st_size < f->size)
            return ppl_fail(PPL_ERR_DATA, "%s: was cut short while it is in use, it had %zu bytes", f->path, f->size);
        const uint8_t *from =
            f->bytes + f->begin + (size_t)(window - f->first) * (size_t)t->context + (input == TARGETS);
        int32_t *to = (int32_t *)dst + (size_t)s * (size_t)t->context;
        for (int32_t i = 0; i < t->context; i++) to[i] = from[i];
        if (t->read_ahead && input == TOKENS && (!t->part || n + batch < t->windows))
            announce(t, window_of(t, n + batch));
    }
    return PPL_OK;
}

static const ppl_data_ops text_ops = {
    .close = text_close,
    .samples = text_samples,
    .push = text_push,
    .end = text_end,
    .seek = text_step,
    .rewind = text_step,
    .present = text_present,
    .read = text_read,
    .done = text_step,
};

// Opens and maps one file and counts its windows.
static ppl_status file_open(text_data *t, text_file *f, const char *path, double held_out) {
    f->first = t->windows;
    if (!(f->path = ppl_arena_text(&t->arena, path))) return PPL_ERR_MEMORY;
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe without a writer would hold us
    struct stat s;
    if (f->fd < 0 || fstat(f->fd, &s) != 0)
        return ppl_fail(PPL_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
    if (!S_ISREG(s.st_mode))
        return ppl_fail(PPL_ERR_IO, "%s: is %s, want a file", path,
                        S_ISDIR(s.st_mode) ? "a directory" : "no regular file");
    if (s.st_size == 0) return ppl_fail(PPL_ERR_DATA, "%s: is empty", path);
    if (s.st_size < (off_t)t->context + 1)
        return ppl_fail(PPL_ERR_DATA, "%s: has %lld bytes, want %lld at least, the context and one more", path,
                        (long long)s.st_size, (long long)t->context + 1);
    f->size = (size_t)s.st_size;
    void *p = mmap(NULL, f->size, PROT_READ, MAP_SHARED, f->fd, 0);
    if (p == MAP_FAILED) return ppl_fail(PPL_ERR_IO, "%s: cannot be mapped: %s", path, strerror(errno));
    f->bytes = p;
    size_t held = (size_t)(held_out * (double)f->size);
    f->begin = t->part ? f->size - held : 0;
    size_t bytes = t->part ? held : f->size - held;
    if (bytes > (size_t)t->context) t->windows += (int64_t)((bytes - 1) / (size_t)t->context);
    return PPL_OK;
}

static ppl_status text_check(const char *const *files, int32_t count, int32_t context, double held_out, int32_t part) {
    if (!files || count < 1) return ppl_fail(PPL_ERR_ARG, "data: %d files, want one at least", count);
    for (int32_t i = 0; i < count; i++)
        if (!files[i]) return ppl_fail(PPL_ERR_ARG, "data: file %d has no name", i);
    if (context < 1) return ppl_fail(PPL_ERR_ARG, "data: a context of %d, want 1 at least", context);
    if (!(held_out >= 0 && held_out < 1))
        return ppl_fail(PPL_ERR_ARG, "data: held_out %g, want 0 to below 1", held_out);
    if (part != 0 && part != 1) return ppl_fail(PPL_ERR_ARG, "data: part %d, want 0 (training) or 1 (held out)", part);
    return PPL_OK;
}

static void describe(text_data *t) {
    static const char *const names[] = {[TOKENS] = "tokens", [TARGETS] = "targets"};
    int64_t dim = t->context;
    for (int32_t i = 0; i < 2; i++) {
        strcpy(t->field[i].name, names[i]);
        t->field[i].type = ppl_type_make(PPL_I32, 1, &dim);
    }
    t->base = (ppl_data){.ops = &text_ops, .inputs = 2, .targets = TARGETS, .field = t->field};
}

ppl_status ppl_data_text(const char *const *files, int32_t count, int32_t context, double held_out, int32_t part,
                         uint64_t seed, ppl_data **out) {
    PPL_TRY(text_check(files, count, context, held_out, part));
    text_data *t = ppl_alloc(sizeof *t);
    if (!t) return PPL_ERR_MEMORY;
    ppl_status st = PPL_OK;
    t->context = context;
    t->part = part;
    t->key = ppl_mix_key(seed, ppl_name_key("data.text"));
    describe(t);
    t->page = (size_t)sysconf(_SC_PAGESIZE);
    t->file = ppl_arena_get(&t->arena, (size_t)count * sizeof *t->file);
    if (!t->file) {
        st = PPL_ERR_MEMORY;
        goto fail;
    }
    size_t total = 0;
    for (; t->files < count; total += t->file[t->files++].size) {
        t->file[t->files].fd = -1;
        st = file_open(t, &t->file[t->files], files[t->files], held_out);
        if (st != PPL_OK) {
            t->files++;
            goto fail;
        }
    }
    if (t->windows == 0) {
        st = ppl_fail(PPL_ERR_DATA, "data: with held_out %g no file has a window of %lld bytes in its %s part",
                      held_out, (long long)context + 1, part ? "held-out" : "training");
        goto fail;
    }
    t->read_ahead = total > READ_AHEAD;
    for (int32_t i = 0; i < t->files; i++)
        madvise((void *)t->file[i].bytes, t->file[i].size, t->read_ahead ? MADV_RANDOM : MADV_WILLNEED);
    *out = &t->base;
    return PPL_OK;
fail:
    text_close(&t->base);
    return st;
}
