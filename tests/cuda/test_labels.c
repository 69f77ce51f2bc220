// test_labels.c - what a profiler is told through NVTX: this program is the profiler, an injection linked into itself. Threads,
// streams, tasks and nodes have their names, ranges are closed, every launch of a step lies in the range of its task, and a
// step registers nothing.
#include "emulation/emulation.h"
#include "support/trainer.h"
#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { NAMES = 4096, RANGES = 65536, BYTES = 64, DEEP = 4 };

typedef struct range {
    const char *name;
    pthread_t thread;
    int32_t depth;
    int64_t step; // -1 none
    uint64_t launches;
} range;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char names[NAMES][BYTES], threads[16][BYTES], streams[32][BYTES];
static range ranges[RANGES];
static int32_t n_names, n_ranges, n_threads, n_streams;
static _Thread_local int32_t depth, open_ranges[DEEP];

static void copy(char to[BYTES], const char *from) {
    snprintf(to, BYTES, "%s", from);
}

static nvtxDomainHandle_t NVTX_API domain_create(const char *name) {
    return (nvtxDomainHandle_t)(strcmp(name, "ppl") == 0 ? names : NULL);
}

static nvtxStringHandle_t NVTX_API string_register(nvtxDomainHandle_t domain, const char *text) {
    (void)domain;
    pthread_mutex_lock(&mutex);
    int32_t at = n_names < NAMES - 1 ? n_names++ : NAMES - 1;
    copy(names[at], text);
    pthread_mutex_unlock(&mutex);
    return (nvtxStringHandle_t)names[at];
}

static int NVTX_API range_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *a) {
    (void)domain;
    pthread_mutex_lock(&mutex);
    int32_t at = n_ranges < RANGES - 1 ? n_ranges++ : RANGES - 1;
    ranges[at] = (range){.name = (const char *)a->message.registered,
                         .thread = pthread_self(),
                         .depth = depth,
                         .step = a->payloadType == NVTX_PAYLOAD_TYPE_INT64 ? a->payload.llValue : -1,
                         .launches = emu_counted().launches};
    pthread_mutex_unlock(&mutex);
    if (depth < DEEP) open_ranges[depth] = at;
    return depth++;
}

static int NVTX_API range_pop(nvtxDomainHandle_t domain) {
    (void)domain;
    range *r = &ranges[open_ranges[--depth]];
    r->launches = emu_counted().launches - r->launches;
    return depth;
}

static void NVTX_API thread_name(uint32_t id, const char *name) {
    (void)id;
    pthread_mutex_lock(&mutex);
    copy(threads[n_threads++ % 16], name);
    pthread_mutex_unlock(&mutex);
}

static void NVTX_API stream_name(cudaStream_t stream, const char *name) {
    (void)stream;
    pthread_mutex_lock(&mutex);
    copy(streams[n_streams++ % 32], name);
    pthread_mutex_unlock(&mutex);
}

static NvtxFunctionTable table_of(const NvtxExportTableCallbacks *c, NvtxCallbackModule module) {
    NvtxFunctionTable table = NULL;
    unsigned size;
    c->GetModuleFunctionTable(module, &table, &size);
    return table;
}

static int NVTX_API attach(NvtxGetExportTableFunc_t get) {
    const NvtxExportTableCallbacks *c = get(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable domains = table_of(c, NVTX_CB_MODULE_CORE2), core = table_of(c, NVTX_CB_MODULE_CORE),
                      runtime = table_of(c, NVTX_CB_MODULE_CUDART);
    *domains[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)domain_create;
    *domains[NVTX_CBID_CORE2_DomainRegisterStringA] = (NvtxFunctionPointer)string_register;
    *domains[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)range_push;
    *domains[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)range_pop;
    *core[NVTX_CBID_CORE_NameOsThreadA] = (NvtxFunctionPointer)thread_name;
    *runtime[NVTX_CBID_CUDART_NameCudaStreamA] = (NvtxFunctionPointer)stream_name;
    return 1;
}

// NVTX's header declares it weak, in each file that includes it: the linker takes this one, which comes first.
NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = attach;

static void run(int32_t ranks, int32_t weights, int32_t steps) {
    test_case c = test_usual;
    test_trainer t;
    emu_reset();
    emu_set_devices(1);
    c.device = "cuda";
    c.ranks = ranks;
    c.microbatches = c.samples = 2;
    c.weights = weights;
    c.untied = weights != PPL_WEIGHTS_SYNC;
    c.clip = weights == PPL_WEIGHTS_SYNC ? PPL_CLIP_BEFORE : PPL_CLIP_NONE;
    n_names = n_ranges = n_threads = n_streams = 0;
    test_open(&c, &t);
    int32_t before = n_names;
    n_ranges = 0;
    emu_count_from_here();
    test_steps(&t, steps);
    assert_int_equal(n_names, before); // a step registers nothing
    assert_in_range(n_ranges, 1, RANGES - 2);
    test_trainer_close(&t);
}

// How often a thread's tasks (depth 0) have a name; thread of the first in *thread.
static int32_t count(const char *name, int32_t at_depth, pthread_t *thread) {
    int32_t n = 0;
    for (int32_t i = 0; i < n_ranges; i++) {
        if (ranges[i].depth != at_depth || strcmp(ranges[i].name, name) != 0) continue;
        if (n++ == 0 && thread) *thread = ranges[i].thread;
    }
    return n;
}

static bool among(char list[][BYTES], int32_t n, const char *name) {
    for (int32_t i = 0; i < n; i++)
        if (strcmp(list[i], name) == 0) return true;
    return false;
}

// Two ranks: each thread has its own tasks, by the names of their actions, once a step.
static void test_names(void **state) {
    (void)state;
    static const char *const of[2][8] = {
        {"0F0", "0F1", "0B0", "0B1", "send 0F0", "credit for 0F1", "receive for 0B1", "0U"},
        {"1F0", "1F1", "1B0", "1B1", "send 1B0", "receive for 1F1", "release after 1B0", "1U"}};
    pthread_t thread[2], other;
    run(2, PPL_WEIGHTS_SYNC, 2);
    for (int32_t r = 0; r < 2; r++) {
        assert_int_equal(count(of[r][0], 0, &thread[r]), 2);
        for (int32_t i = 1; i < 8; i++) {
            if (count(of[r][i], 0, &other) < 2) fail_msg("rank %d: '%s' is missing", r, of[r][i]);
            assert_true(pthread_equal(thread[r], other));
        }
    }
    assert_false(pthread_equal(thread[0], thread[1]));
    assert_int_equal(count("norm", 0, NULL), 4);
    assert_true(among(threads, n_threads, "rank 0") && among(threads, n_threads, "rank 1"));
    assert_true(among(streams, n_streams, "rank 1, compute"));
}

// One rank: every launch lies in a task's range, those of a program in their node's, and ranges are closed.
static void test_launches(void **state) {
    (void)state;
    uint64_t in_tasks = 0, in_nodes = 0, in_programs = 0;
    run(1, PPL_WEIGHTS_SYNC, 3);
    for (int32_t i = 0; i < n_ranges; i++) {
        const range *r = &ranges[i];
        assert_in_range(r->depth, 0, 1);
        if (r->depth == 1) in_nodes += r->launches;
        else in_tasks += r->launches;
        if (r->depth == 0 && strchr("FB", r->name[1])) in_programs += r->launches;
        if (r->depth == 0) assert_in_range(r->step, 0, 2);
    }
    assert_int_equal(in_tasks, emu_counted().launches);
    assert_int_equal(in_nodes, in_programs);
    assert_true(in_nodes > 100);
}

static void test_alone(void **state) {
    (void)state;
    run(2, PPL_WEIGHTS_STASH, 2);
    assert_int_equal(count("0U0", 0, NULL), 2);
    assert_int_equal(count("1U1", 0, NULL), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_launches),
        cmocka_unit_test(test_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
