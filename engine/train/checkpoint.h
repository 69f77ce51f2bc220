// checkpoint.h - what a checkpoint of a store holds: the list that saving writes and that loading wants.
#ifndef PPL_TRAIN_CHECKPOINT_H
#define PPL_TRAIN_CHECKPOINT_H
#include "train/store.h"

typedef struct ppl_checkpoint_item {
    char name[PPL_NAME_BYTES + 16]; // "w", "optimizer.m.w", "optimizer.v.w"
    int32_t param, part;
} ppl_checkpoint_item;

typedef struct ppl_checkpoint_list {
    ppl_checkpoint_item *item; // in order of name
    size_t count;
} ppl_checkpoint_list;

// Weights of all parameters and, with `state`, the moments of those that have them. Two equal names are PPL_ERR_ARG.
ppl_status ppl_checkpoint_items(const ppl_store *s, bool state, ppl_checkpoint_list *out);
void ppl_checkpoint_items_clear(ppl_checkpoint_list *list);
const char *ppl_optimizer_label(int32_t kind); // "adamw", as files say it

#endif
