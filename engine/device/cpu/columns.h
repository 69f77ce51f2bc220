// columns.h - sums over rows, column by column, in an order that no thread count changes: rows in groups of 4 from the
// first on, a group's rows added up first. Before it: reduce.c, layernorm_dw.c, rmsnorm_dw.c; after it: plain.h.
//
// Columns are taken in tiles whose sums stay in the first-level cache while the rows stream by.
#ifndef PPL_DEVICE_CPU_COLUMNS_H
#define PPL_DEVICE_CPU_COLUMNS_H
#include "device/cpu/plain.h"

enum { COLUMNS_TILE = 1024, COLUMNS_GROUP = 4 };

// Deals columns out to threads, whole cache lines at a time.
#define COLUMNS_RUN(spec, call, rows, columns, dtype, body)                                                            \
    plain_run(spec, call, columns, 64, (rows) * (columns), (dtype) == PPL_BF16 ? body##_bf16 : body##_f32)

// Adds a group's sum for 16 columns to the tile's; `fresh`: it is the first group.
PPL_VEC void columns_add(float *tile, v16 group, bool fresh) {
    v16_store(tile, fresh ? group : v16_add(v16_load(tile), group));
}

#endif
