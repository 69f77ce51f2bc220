// nccl_none.c - the place of nccl.c in a build without CUDA: its devices cannot be opened, so that nothing crosses.
#include "link/link.h"

static ppl_status none_open(const ppl_plan *plan, const ppl_link_options *options, void *const *memory,
                            void *const *const *reader_memory, ppl_link **out) {
    (void)plan, (void)options, (void)memory, (void)reader_memory, (void)out;
    return ppl_fail(PPL_ERR_DEVICE, "nccl: this build has no CUDA, want one made with `make CUDA=1`");
}

const ppl_link_ops ppl_link_nccl = {.name = "nccl", .copies = true, .open = none_open};
