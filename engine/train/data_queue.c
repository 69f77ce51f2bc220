// data_queue.c - samples that a script makes: a bounded queue of whole steps. Before: ppl_data_push, from any thread.
// After: data.c; ranks read a step until it is done.
#include "base/memory.h"
#include "train/data_source.h"
#include <inttypes.h>
#include <math.h>
#include <pthread.h>

enum { MOST_AHEAD = 1 << 16 };

typedef struct queue_block { // one step
    int32_t samples;
    double weight;
    void **array; // [inputs]: (samples, ...)
    size_t *room; // [inputs], bytes: kept for the next step that lies here
} queue_block;

typedef struct queue_data {
    ppl_data base;
    ppl_arena arena;
    queue_block *block; // [ahead]: a ring
    int32_t ahead;
    pthread_mutex_t pushing; // one push at a time: it fills the block behind the last without holding up readers
    pthread_rwlock_t lock;   // of what follows
    int32_t head, count;
    int64_t step; // that the head belongs to
    bool ended;
} queue_data;

static void queue_close(ppl_data *d) {
    queue_data *q = (queue_data *)d;
    for (int32_t b = 0; q->block && b < q->ahead; b++)
        for (int32_t i = 0; q->block[b].array && i < d->inputs; i++) ppl_free(q->block[b].array[i]);
    pthread_mutex_destroy(&q->pushing);
    pthread_rwlock_destroy(&q->lock);
    ppl_arena_clear(&q->arena);
    ppl_free(q);
}

static int64_t queue_samples(const ppl_data *d) {
    (void)d;
    return -1;
}

// Targets that count; without targets every sample does.
static double weight_of(const queue_data *q, const queue_block *b) {
    if (q->base.targets < 0) return b->samples;
    const ppl_type *type = &q->base.field[q->base.targets].type;
    int64_t n = ppl_type_elements(type) * b->samples, counts = 0;
    const void *at = b->array[q->base.targets];
    if (type->dtype == PPL_I32) {
        for (int64_t i = 0; i < n; i++) counts += ((const int32_t *)at)[i] >= 0;
    } else {
        for (int64_t i = 0; i < n; i++) counts += !isnan(((const float *)at)[i]);
    }
    return (double)counts;
}

static ppl_status block_fill(queue_data *q, queue_block *b, int32_t samples, const void *const *arrays) {
    for (int32_t i = 0; i < q->base.inputs; i++) {
        size_t one = ppl_type_bytes(&q->base.field[i].type), bytes = one * (size_t)samples;
        if (b->room[i] < bytes) {
            void *more = ppl_alloc(bytes);
            if (!more) return PPL_ERR_MEMORY;
            ppl_free(b->array[i]);
            b->array[i] = more;
            b->room[i] = bytes;
        }
        memcpy(b->array[i], arrays[i], bytes);
    }
    b->samples = samples;
    b->weight = weight_of(q, b);
    return PPL_OK;
}

static ppl_status push_check(const queue_data *q, int32_t samples, const void *const *arrays) {
    if (samples < 1) return ppl_fail(PPL_ERR_ARG, "queue: %d samples pushed, want 1 at least", samples);
    for (int32_t i = 0; i < q->base.inputs; i++) {
        const ppl_data_field *f = &q->base.field[i];
        if (!arrays || !arrays[i]) return ppl_fail(PPL_ERR_ARG, "queue: no array for input '%s'", f->name);
        if ((size_t)samples > SIZE_MAX / 4 / ppl_type_bytes(&f->type))
            return ppl_fail(PPL_ERR_MEMORY, "queue: %d samples of input '%s' are more than memory", samples, f->name);
    }
    return PPL_OK;
}

static ppl_status queue_push(ppl_data *d, int32_t samples, const void *const *arrays) {
    queue_data *q = (queue_data *)d;
    PPL_TRY(push_check(q, samples, arrays));
    ppl_status st = PPL_OK;
    pthread_mutex_lock(&q->pushing);
    pthread_rwlock_rdlock(&q->lock);
    int32_t waiting = q->count, at = (q->head + q->count) % q->ahead; // readers giving steps back do not move it
    bool ended = q->ended;
    pthread_rwlock_unlock(&q->lock);
    if (ended) st = ppl_fail(PPL_ERR_DATA, "queue: a push after its end");
    else if (waiting == q->ahead)
        st = ppl_fail(PPL_ERR_DATA, "queue: %d steps wait already, want less than steps_ahead before a push", waiting);
    else st = block_fill(q, &q->block[at], samples, arrays);
    if (st == PPL_OK) {
        pthread_rwlock_wrlock(&q->lock);
        q->count++;
        pthread_rwlock_unlock(&q->lock);
    }
    pthread_mutex_unlock(&q->pushing);
    return st;
}

static void queue_end(ppl_data *d) {
    queue_data *q = (queue_data *)d;
    pthread_rwlock_wrlock(&q->lock);
    q->ended = true;
    pthread_rwlock_unlock(&q->lock);
}

static void queue_seek(ppl_data *d, int64_t step) {
    queue_data *q = (queue_data *)d;
    pthread_rwlock_wrlock(&q->lock);
    q->step = step;
    pthread_rwlock_unlock(&q->lock);
}

static void queue_rewind(ppl_data *d, int64_t step) {
    queue_data *q = (queue_data *)d;
    pthread_rwlock_wrlock(&q->lock);
    q->step = step;
    q->count = 0;
    q->ended = false;
    pthread_rwlock_unlock(&q->lock);
}

// The block of a step, under the lock.
static ppl_status block_find(const queue_data *q, int64_t step, int32_t batch, const queue_block **out) {
    int64_t at = step - q->step;
    if (at < 0)
        return ppl_fail(PPL_ERR_DATA, "queue: step %" PRId64 " was given back already, the oldest is %" PRId64, step,
                        q->step);
    if (at >= q->count && q->ended)
        return ppl_fail(PPL_ERR_DATA, "queue: the data ended before step %" PRId64, q->step + q->count);
    if (at >= q->count)
        return ppl_fail(PPL_ERR_DATA,
                        "queue: step %" PRId64 " was not pushed, %d of at most %d steps wait from step %" PRId64, step,
                        q->count, q->ahead, q->step);
    const queue_block *b = &q->block[(q->head + at) % q->ahead];
    if (b->samples > batch)
        return ppl_fail(PPL_ERR_DATA, "queue: step %" PRId64 " has %d samples, want at most the batch of %d", step,
                        b->samples, batch);
    *out = b;
    return PPL_OK;
}

static ppl_status queue_present(ppl_data *d, int64_t step, int32_t batch, int32_t *present, double *weight) {
    queue_data *q = (queue_data *)d;
    const queue_block *b = NULL;
    pthread_rwlock_rdlock(&q->lock);
    ppl_status st = block_find(q, step, batch, &b);
    if (st == PPL_OK) {
        *present = b->samples;
        *weight = b->weight;
    }
    pthread_rwlock_unlock(&q->lock);
    return st;
}

static ppl_status queue_read(ppl_data *d, int64_t step, int32_t first, int32_t samples, int32_t batch, int32_t input,
                             int32_t dtype, void *dst) {
    queue_data *q = (queue_data *)d;
    const ppl_data_field *f = &d->field[input];
    int64_t one = ppl_type_elements(&f->type);
    const queue_block *b = NULL;
    pthread_rwlock_rdlock(&q->lock);
    ppl_status st = block_find(q, step, batch, &b);
    if (st == PPL_OK)
        ppl_convert(dst, dtype, (const char *)b->array[input] + (size_t)(one * first) * ppl_dtype_size(f->type.dtype),
                    f->type.dtype, one * samples);
    pthread_rwlock_unlock(&q->lock);
    return st;
}

static void queue_done(ppl_data *d, int64_t step) {
    queue_data *q = (queue_data *)d;
    pthread_rwlock_wrlock(&q->lock);
    while (q->count > 0 && q->step <= step) {
        q->head = (q->head + 1) % q->ahead;
        q->count--;
        q->step++;
    }
    pthread_rwlock_unlock(&q->lock);
}

static const ppl_data_ops queue_ops = {
    .close = queue_close,
    .samples = queue_samples,
    .push = queue_push,
    .end = queue_end,
    .seek = queue_seek,
    .rewind = queue_rewind,
    .present = queue_present,
    .read = queue_read,
    .done = queue_done,
};

static ppl_status type_check(const char *name, const ppl_type *t) {
    char text[128];
    if ((t->dtype != PPL_F32 && t->dtype != PPL_I32) || t->ndim < 0 || t->ndim >= PPL_MAX_DIMS)
        return ppl_fail(PPL_ERR_ARG, "queue, input '%s': dtype %d with %d dimensions, want f32 or i32 with at most %d",
                        name, t->dtype, t->ndim, PPL_MAX_DIMS - 1);
    int64_t n = 4;
    for (int32_t i = 0; i < t->ndim; i++) {
        if (t->dim[i] < 1 || t->dim[i] > INT64_MAX / 4 / n)
            return ppl_fail(PPL_ERR_ARG, "queue, input '%s': %s is no shape of a sample", name,
                            ppl_type_print(t, text));
        n *= t->dim[i];
    }
    return PPL_OK;
}

static ppl_status queue_check(int32_t inputs, const char *const *names, const ppl_type *types, int32_t ahead) {
    if (inputs < 1 || !names || !types) return ppl_fail(PPL_ERR_ARG, "queue: %d inputs, want one at least", inputs);
    if (ahead < 1 || ahead > MOST_AHEAD)
        return ppl_fail(PPL_ERR_ARG, "queue: steps_ahead %d, want 1 to %d", ahead, MOST_AHEAD);
    for (int32_t i = 0; i < inputs; i++) {
        if (!names[i] || !*names[i] || strlen(names[i]) >= PPL_NAME_BYTES)
            return ppl_fail(PPL_ERR_ARG, "queue, input %d: its name has %zu bytes, want 1 to %d", i,
                            names[i] ? strlen(names[i]) : 0, PPL_NAME_BYTES - 1);
        for (int32_t k = 0; k < i; k++)
            if (strcmp(names[k], names[i]) == 0)
                return ppl_fail(PPL_ERR_ARG, "queue: two inputs are named '%s'", names[i]);
        PPL_TRY(type_check(names[i], &types[i]));
    }
    return PPL_OK;
}

static ppl_status queue_layout(queue_data *q, int32_t inputs, const char *const *names, const ppl_type *types) {
    ppl_data *d = &q->base;
    d->field = ppl_arena_get(&q->arena, (size_t)inputs * sizeof *d->field);
    q->block = ppl_arena_get(&q->arena, (size_t)q->ahead * sizeof *q->block);
    if (!d->field || !q->block) return PPL_ERR_MEMORY;
    for (int32_t b = 0; b < q->ahead; b++) {
        q->block[b].array = ppl_arena_get(&q->arena, (size_t)inputs * sizeof *q->block[b].array);
        q->block[b].room = ppl_arena_get(&q->arena, (size_t)inputs * sizeof *q->block[b].room);
        if (!q->block[b].array || !q->block[b].room) return PPL_ERR_MEMORY;
    }
    d->inputs = inputs;
    d->targets = -1;
    for (int32_t i = 0; i < inputs; i++) {
        strcpy(d->field[i].name, names[i]);
        d->field[i].type = ppl_type_make(types[i].dtype, types[i].ndim, types[i].dim);
        if (strcmp(names[i], "targets") == 0) d->targets = i;
    }
    return PPL_OK;
}

ppl_status ppl_data_queue(int32_t inputs, const char *const *names, const ppl_type *sample_types, int32_t steps_ahead,
                          ppl_data **out) {
    PPL_TRY(queue_check(inputs, names, sample_types, steps_ahead));
    queue_data *q = ppl_alloc(sizeof *q);
    if (!q) return PPL_ERR_MEMORY;
    q->base.ops = &queue_ops;
    q->ahead = steps_ahead;
    pthread_mutex_init(&q->pushing, NULL);
    pthread_rwlock_init(&q->lock, NULL);
    ppl_status st = queue_layout(q, inputs, names, sample_types);
    if (st != PPL_OK) {
        queue_close(&q->base);
        return st;
    }
    *out = &q->base;
    return PPL_OK;
}
