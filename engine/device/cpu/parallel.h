// parallel.h - a kernel's loop over the threads it may use. One thread touches no OpenMP runtime, so that checkers see
// plain code. Items are dealt out in contiguous shares; what a kernel computes for an item must not depend on the share.
#ifndef PPL_DEVICE_CPU_PARALLEL_H
#define PPL_DEVICE_CPU_PARALLEL_H
#include <omp.h>
#include <stdint.h>

// Works on items first .. last - 1 as `worker` (0 .. threads - 1), which picks its part of the scratch memory.
typedef void (*ppl_share)(void *context, int64_t first, int64_t last, int32_t worker);

static inline void ppl_parallel(int64_t items, int32_t threads, ppl_share share, void *context) {
    if (threads <= 1 || items <= 1) {
        share(context, 0, items, 0);
        return;
    }
#ifdef __SANITIZE_THREAD__ // cannot see how libgomp hands over memory: the shares one after the other
    for (int32_t w = 0; w < threads; w++) share(context, items * w / threads, items * (w + 1) / threads, w);
#else
#pragma omp parallel num_threads(threads)
    {
        int64_t worker = omp_get_thread_num(), workers = omp_get_num_threads();
        share(context, items * worker / workers, items * (worker + 1) / workers, (int32_t)worker);
    }
#endif
}

#endif
