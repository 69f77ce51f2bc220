// memory.c - a rank's memory on its GPU: small requests share blocks of 32 MiB, large ones have their own. All of it is had
// before the first step and given back when the rank closes. Before it: the table's memory_get. After it: cudaMalloc.
#include "device/cuda/cuda.h"

static const double MIB = 1.0 / (1 << 20);

static ppl_status refused(const ppl_cuda_device *d, size_t bytes, cudaError_t error) {
    size_t free_bytes = 0, all = 0;
    cudaGetLastError(); // the refusal is told here, and no later call is to report it
    if (error != cudaErrorMemoryAllocation) return ppl_cuda_check("cudaMalloc", error);
    cudaMemGetInfo(&free_bytes, &all);
    return ppl_fail(
        PPL_ERR_MEMORY,
        "device cuda: rank %d asks GPU %d for %.1f MiB more beside the %.1f MiB it has, and %.1f of %.1f MiB "
        "are free, want smaller microbatches, more stages, recomputation or another GPU",
        d->rank, d->ordinal, (double)bytes * MIB, (double)d->arena.total * MIB, (double)free_bytes * MIB,
        (double)all * MIB);
}

static ppl_status block_get(ppl_cuda_device *d, size_t bytes, ppl_cuda_block **out) {
    ppl_cuda_block *b = ppl_alloc(sizeof *b);
    if (!b) return PPL_ERR_MEMORY;
    void *memory = NULL;
    cudaError_t error = cudaMalloc(&memory, bytes);
    if (error != cudaSuccess) {
        ppl_free(b);
        return refused(d, bytes, error);
    }
    *b = (ppl_cuda_block){.memory = memory, .bytes = bytes, .next = d->arena.blocks};
    d->arena.blocks = b;
    d->arena.total += bytes;
    if (d->arena.total > d->arena.peak) d->arena.peak = d->arena.total;
    *out = b;
    return PPL_OK;
}

ppl_status ppl_cuda_arena_get(ppl_cuda_device *d, size_t bytes, void **out) {
    size_t want = ppl_align(bytes ? bytes : 1, PPL_CUDA_ALIGNMENT);
    ppl_cuda_block *b = d->arena.blocks;
    while (b && b->bytes - b->used < want) b = b->next;
    if (!b) PPL_TRY(block_get(d, want > PPL_CUDA_BLOCK / 4 ? want : PPL_CUDA_BLOCK, &b));
    *out = b->memory + b->used;
    b->used += want;
    b->users++;
    return PPL_OK;
}

void ppl_cuda_arena_free(ppl_cuda_device *d, void *p) {
    for (ppl_cuda_block **at = &d->arena.blocks; *at && p; at = &(*at)->next) {
        ppl_cuda_block *b = *at;
        if ((char *)p < b->memory || (char *)p >= b->memory + b->bytes) continue;
        if (--b->users) return;
        *at = b->next;
        d->arena.total -= b->bytes;
        cudaFree(b->memory);
        ppl_free(b);
        return;
    }
}

void ppl_cuda_arena_clear(ppl_cuda_device *d) {
    for (ppl_cuda_block *b = d->arena.blocks, *next; b; b = next) {
        next = b->next;
        cudaFree(b->memory);
        ppl_free(b);
    }
    d->arena = (ppl_cuda_arena){0};
}
