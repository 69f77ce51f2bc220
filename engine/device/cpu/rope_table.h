// rope_table.h - cosines and sines of the rotary embedding, one table for all kernels of the process that turn by the same
// angles: they are many (each layer's queries and keys, forward and back), and one table stays in cache.
#ifndef PPL_DEVICE_CPU_ROPE_TABLE_H
#define PPL_DEVICE_CPU_ROPE_TABLE_H
#include "base/status.h"

typedef struct ppl_rope_table {
    int64_t time, d;
    double theta;
    float *turn; // (time, 2, d/2): cosines, then sines, of t theta^(-2j/d)
    int64_t users;
    struct ppl_rope_table *next;
} ppl_rope_table;

// From any thread. d is even. Each get is matched by a free; NULL may be freed.
ppl_status ppl_rope_table_get(int64_t time, int64_t d, double theta, const ppl_rope_table **out);
void ppl_rope_table_free(const ppl_rope_table *t);

#endif
