// status.h - the one way to fail. The text is set where the fault is known and read by whoever reports it.
#ifndef PPL_BASE_STATUS_H
#define PPL_BASE_STATUS_H
#include "types.h"

// Sets this thread's error text ("where: what is, want what") and returns `status`.
ppl_status ppl_fail(ppl_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Puts words before this thread's error text: ppl_prefix(st, "layer %s: ", name) returns st.
ppl_status ppl_prefix(ppl_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Sets the text as it is: to hand another thread's fault on.
ppl_status ppl_fail_text(ppl_status status, const char *text);

// Passes a failure on while the function owns nothing.
#define PPL_TRY(call)                                                                                                  \
    do {                                                                                                               \
        ppl_status try_status_ = (call);                                                                               \
        if (try_status_ != PPL_OK) return try_status_;                                                                 \
    } while (0)

// The same towards a `fail:` label, with `st` holding the status.
#define PPL_GOTO(call)                                                                                                 \
    do {                                                                                                               \
        if ((st = (call)) != PPL_OK) goto fail;                                                                        \
    } while (0)

#endif
