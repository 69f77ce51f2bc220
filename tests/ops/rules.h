// rules.h - operators asked directly, with types in words: "f32 2,3; f32 4,3".
#ifndef PPL_TESTS_OPS_RULES_H
#define PPL_TESTS_OPS_RULES_H
#include "ops/op.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef struct rule_case {
    int32_t op;
    const char *in; // types; "" none, "f32 -" a scalar
    ppl_attrs attrs;
    bool accumulates;
    const char *want; // the output types, or the words of the error
} rule_case;

static inline void parse_types(const char *text, ppl_type *type, int32_t *count) {
    static const char *const names[PPL_DTYPES] = {"f32", "bf16", "f64", "i32"};
    char copy[256], *rest = copy, *one;
    snprintf(copy, sizeof copy, "%s", text);
    *count = 0;
    while ((one = strtok_r(rest, ";", &rest))) {
        while (*one == ' ') one++;
        ppl_type *t = &type[(*count)++];
        *t = (ppl_type){.dtype = -1, .dim = {1, 1, 1, 1, 1, 1}};
        for (int32_t d = 0; d < PPL_DTYPES; d++)
            if (strncmp(one, names[d], strlen(names[d])) == 0) t->dtype = d;
        assert_int_not_equal(t->dtype, -1);
        char *at = strchr(one, ' ') + 1;
        while (*at && *at != '-') {
            t->dim[t->ndim++] = strtoll(at, &at, 10);
            if (*at == ',') at++;
        }
    }
}

typedef struct rule_answer {
    ppl_status status;
    ppl_type in[16], out[PPL_MAX_OUTPUTS];
    ppl_op_types types;
    int32_t outputs;
} rule_answer;

static inline void ask(const rule_case *c, rule_answer *a) {
    *a = (rule_answer){.types = {.attrs = &c->attrs, .accumulates = c->accumulates, .acc_dtype = PPL_F32}};
    parse_types(c->in, a->in, &a->types.inputs);
    for (int32_t k = 0; k < a->types.inputs; k++) {
        if (k < PPL_MAX_INPUTS) a->types.in[k] = &a->in[k];
        if (a->in[k].dtype == PPL_F64) a->types.acc_dtype = PPL_F64;
    }
    a->status = ppl_op_get(c->op)->infer(&a->types, a->out, &a->outputs);
}

// The answer in words: types, or the error.
static inline void answer_text(const rule_answer *a, char *text, size_t size) {
    char one[128];
    size_t at = 0;
    text[0] = 0;
    if (a->status != PPL_OK) snprintf(text, size, "%s", ppl_error());
    for (int32_t k = 0; a->status == PPL_OK && k < a->outputs; k++)
        at += (size_t)snprintf(text + at, size - at, "%s%s", k ? "; " : "", ppl_type_print(&a->out[k], one));
}

#endif
