// ids.h - ids from data, which nobody has checked yet: an id or target outside its range is told with its position.
#ifndef PPL_DEVICE_CPU_IDS_H
#define PPL_DEVICE_CPU_IDS_H
#include "base/status.h"
#include <inttypes.h>

// Every id is in least .. end - 1; least INT32_MIN: any negative one is right. what: "embedding: id".
static inline ppl_status ids_check(const char *what, const int32_t *ids, int64_t n, int32_t least, int64_t end) {
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] >= least && ids[i] < end) continue;
        if (least < 0) {
            return ppl_fail(PPL_ERR_DATA, "%s %" PRId32 " at position %" PRId64 ", want below %" PRId64, what, ids[i],
                            i, end);
        }
        return ppl_fail(PPL_ERR_DATA, "%s %" PRId32 " at position %" PRId64 ", want %" PRId32 "..%" PRId64, what,
                        ids[i], i, least, end - 1);
    }
    return PPL_OK;
}

#endif
