// rope_table.c - the shared tables of rope.c, counted by their users.
#include "device/cpu/rope_table.h"
#include "base/memory.h"
#include <math.h>
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ppl_rope_table *tables; // behind the lock

static ppl_rope_table *table_make(int64_t time, int64_t d, double theta) {
    ppl_rope_table *t = ppl_alloc(sizeof *t);
    if (!t) return NULL;
    *t = (ppl_rope_table){.time = time, .d = d, .theta = theta};
    t->turn = ppl_alloc((size_t)(time * d) * sizeof(float));
    if (!t->turn) {
        ppl_free(t);
        return NULL;
    }
    for (int64_t j = 0; j < d / 2; j++) {
        double step = pow(theta, -2 * (double)j / (double)d);
        for (int64_t k = 0; k < time; k++) {
            t->turn[k * d + j] = (float)cos((double)k * step);
            t->turn[k * d + d / 2 + j] = (float)sin((double)k * step);
        }
    }
    return t;
}

ppl_status ppl_rope_table_get(int64_t time, int64_t d, double theta, const ppl_rope_table **out) {
    pthread_mutex_lock(&lock);
    ppl_rope_table *t = tables;
    while (t && (t->time != time || t->d != d || t->theta != theta)) t = t->next;
    if (!t && (t = table_make(time, d, theta))) {
        t->next = tables;
        tables = t;
    }
    if (t) t->users++;
    pthread_mutex_unlock(&lock);
    *out = t;
    return t ? PPL_OK : PPL_ERR_MEMORY;
}

void ppl_rope_table_free(const ppl_rope_table *t) {
    if (!t) return;
    pthread_mutex_lock(&lock);
    ppl_rope_table **at = &tables;
    while (*at != t) at = &(*at)->next;
    ppl_rope_table *found = *at;
    if (--found->users == 0) {
        *at = found->next;
        ppl_free(found->turn);
        ppl_free(found);
    }
    pthread_mutex_unlock(&lock);
}
