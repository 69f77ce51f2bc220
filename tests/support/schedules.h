// schedules.h - schedules made in C, for tests of everything behind them: the well-known orders and hand-written ones.
#ifndef PPL_TESTS_SCHEDULES_H
#define PPL_TESTS_SCHEDULES_H
#include "schedule/schedule.h"

typedef enum order {
    ORDER_NAIVE = 0, // one microbatch at a time
    ORDER_GPIPE,     // all F, then all B
    ORDER_1F1B,
    ORDER_ZB_H1,       // 1F1B's memory with W put off by the rank's number
    ORDER_LOOP,        // breadth first, chunks in a loop: stage = chunk * p + rank
    ORDER_INTERLEAVED, // Megatron's interleaved 1F1B; m must be a multiple of p
    ORDER_V,           // breadth first, two chunks in a V: stage s and 2p-1-s on one rank
    ORDERS
} order;
extern const char *const order_name[ORDERS];

// chunks matters for LOOP and INTERLEAVED alone. Never fails: aborts the test when memory ends.
ppl_schedule *schedule_make(order o, int32_t p, int32_t m, int32_t chunks);
// rows[rank]: "0F0 0B0 ..."; "(0F1;0B0)" overlaps. stages and microbatches as given; stage_rank NULL: stage s on rank s.
ppl_schedule *schedule_from(int32_t ranks, int32_t stages, const int32_t *stage_rank, int32_t microbatches,
                            const char *const *rows);
// Says that neighbours, a forward and a backward, may overlap: of those that could, about half.
void schedule_pair(ppl_schedule *s, uint32_t seed);
bool schedule_equal(const ppl_schedule *a, const ppl_schedule *b); // all but the name

#endif
