// test_layouts.c - which layout of communicators lets interleaved 1F1B run: one communicator, or one for each kind, hangs
// on a GPU, because a communicator is one queue whatever its streams; one of two ranks for each kind and directed edge
// does not. Shows that the hang detector works, and that it does so in under a second. Before it: ranks.h.
#include "ranks.h"
#include <stdlib.h>

typedef enum layout { ONE_STREAM, ONE_COMM, COMM_PER_KIND, COMM_PER_EDGE } layout;

static struct {
    layout layout;
    int p, chunks, m;
    int hang_ms; // from the first task on; 0: as it is
    bool ahead;  // the next receive is issued before this task's send
    ncclUniqueId whole, kind[2], edge[2][16];
    float result[64];
} run;

typedef struct task {
    int kind, chunk, mb; // kind: 0 forward, 1 backward
} task;

// What a channel needs: a communicator, the peer's rank in it, a stream.
typedef struct channel {
    ncclComm_t comm;
    cudaStream_t stream;
    int peer;
} channel;

typedef struct rank_state {
    int rank;
    cudaStream_t compute;
    // All communicators that this rank is in: [0] the whole or per kind [0..1], or per kind and edge e: from e to e + 1
    // forward, from e + 1 to e backward.
    ncclComm_t comm[2][16];
    cudaStream_t stream[2][16][2]; // kind, edge, sends or receives
    cudaEvent_t event;
    float *value[2][4][16]; // kind, chunk, microbatch: one number
} rank_state;

// The i-th forward or backward of interleaved 1F1B: groups of p microbatches take turns through the chunks.
static task nth(int kind, int i) {
    int chunk = i % (run.p * run.chunks) / run.p;
    return (task){kind, kind ? run.chunks - 1 - chunk : chunk, i / (run.p * run.chunks) * run.p + i % run.p};
}

static int tasks_of(int rank, task *out) {
    int total = run.m * run.chunks, n = 0, f = 0, b = 0;
    int warmup = run.chunks == 1 ? run.p - 1 - rank : (run.p - 1 - rank) * 2 + (run.chunks - 1) * run.p;
    while (f < warmup && f < total) out[n++] = nth(0, f++);
    while (f < total) {
        out[n++] = nth(0, f++);
        out[n++] = nth(1, b++);
    }
    while (b < total) out[n++] = nth(1, b++);
    return n;
}

// The channel on which `kind` passes from rank `from` to the next rank round, in its direction.
static channel channel_of(rank_state *r, int kind, int from, bool sends) {
    int to = kind ? (from + run.p - 1) % run.p : (from + 1) % run.p, edge = kind ? to : from, peer = sends ? to : from;
    switch (run.layout) {
    case ONE_STREAM: return (channel){r->comm[0][0], r->stream[0][0][0], peer};
    case ONE_COMM: return (channel){r->comm[0][0], r->stream[kind][0][sends], peer};
    case COMM_PER_KIND: return (channel){r->comm[kind][0], r->stream[kind][0][0], peer};
    case COMM_PER_EDGE: break;
    }
    return (channel){r->comm[kind][edge], r->stream[kind][edge][0], sends ? 1 : 0};
}

static void open_channels(rank_state *r) {
    for (int kind = 0; kind < 2; kind++)
        for (int e = 0; e < run.p; e++) {
            for (int d = 0; d < 2; d++) r->stream[kind][e][d] = rank_stream();
            if (run.layout != COMM_PER_EDGE) continue;
            int next = (e + 1) % run.p, sender = kind ? next : e, receiver = kind ? e : next;
            if (r->rank == sender || r->rank == receiver)
                GO(ncclCommInitRank(&r->comm[kind][e], 2, run.edge[kind][e], r->rank == sender ? 0 : 1));
        }
    if (run.layout == COMM_PER_KIND)
        for (int kind = 0; kind < 2; kind++) GO(ncclCommInitRank(&r->comm[kind][0], run.p, run.kind[kind], r->rank));
    else if (run.layout != COMM_PER_EDGE) GO(ncclCommInitRank(&r->comm[0][0], run.p, run.whole, r->rank));
}

// One message on every lane, in an order that cannot hang: connections are made by the first.
static void connect_all(rank_state *r) {
    float *from = rank_buffer(1, 0), *to = rank_buffer(1, 0);
    for (int kind = 0; kind < 2; kind++)
        for (int e = 0; e < run.p; e++) {
            int next = (e + 1) % run.p, sender = kind ? next : e, receiver = kind ? e : next;
            bool sends = r->rank == sender;
            if (!sends && r->rank != receiver) continue;
            channel c = channel_of(r, kind, sender, sends);
            GO(sends ? ncclSend(from, 1, ncclFloat, c.peer, c.comm, c.stream)
                     : ncclRecv(to, 1, ncclFloat, c.peer, c.comm, c.stream));
            GO(cudaStreamSynchronize(c.stream));
        }
}

static void after(rank_state *r, cudaStream_t before, cudaStream_t then) {
    cudaEventRecord(r->event, before);
    cudaStreamWaitEvent(then, r->event, 0);
}

// Where the task's input comes from, as a stage; -1: it has none. Its output goes to the stage on the other side.
static int neighbour(task t, int rank, bool input) {
    int at = t.chunk * run.p + rank + ((t.kind == 0) == input ? -1 : 1);
    return at < run.p * run.chunks ? at : -1;
}

static cudaStream_t receive(rank_state *r, task t) {
    int from = neighbour(t, r->rank, true);
    if (from < 0) return NULL;
    channel c = channel_of(r, t.kind, from % run.p, false);
    ncclRecv(r->value[t.kind][t.chunk][t.mb], 1, ncclFloat, c.peer, c.comm, c.stream);
    return c.stream;
}

static void rank_main(int rank, int size) {
    (void)size;
    rank_state *r = calloc(1, sizeof *r);
    task list[512];
    cudaStream_t came[512] = {NULL};
    bool posted[512] = {false};
    r->rank = rank;
    r->compute = rank_stream();
    GO(cudaEventCreateWithFlags(&r->event, cudaEventDisableTiming));
    for (int k = 0; k < 2; k++)
        for (int c = 0; c < run.chunks; c++)
            for (int mb = 0; mb < run.m; mb++) r->value[k][c][mb] = rank_buffer(1, 0);
    open_channels(r);
    connect_all(r);
    sample_add(r->value[0][0][0], 0, 1, r->compute); // warm
    GO(cudaStreamSynchronize(r->compute));
    ranks_meet();
    if (rank == 0) emu_count_from_here();
    if (rank == 0 && run.hang_ms) emu_set_hang_ms(run.hang_ms);
    ranks_meet();
    int n = tasks_of(rank, list);
    for (int i = 0; i < n; i++) {
        task t = list[i];
        float *x = r->value[t.kind][t.chunk][t.mb];
        if (!posted[i]) came[i] = receive(r, t);
        if (came[i]) after(r, came[i], r->compute);
        else cudaMemcpyAsync(x, r->value[0][t.chunk][t.mb], t.kind * sizeof *x, cudaMemcpyDeviceToDevice, r->compute);
        sample_add(x, 1, 1, r->compute);
        if (run.ahead && i + 1 < n) {
            came[i + 1] = receive(r, list[i + 1]);
            posted[i + 1] = true;
        }
        if (neighbour(t, rank, false) < 0) continue;
        channel c = channel_of(r, t.kind, rank, true);
        after(r, r->compute, c.stream);
        ncclSend(x, 1, ncclFloat, c.peer, c.comm, c.stream);
    }
    emu_counts counts = emu_counted();
    WANT(counts.host_waits + counts.mallocs == 0); // the host has only put work into streams
    ranks_meet();
    cudaDeviceSynchronize();
    for (int mb = 0; mb < run.m && rank == 0; mb++)
        cudaMemcpy(&run.result[mb], r->value[1][0][mb], sizeof run.result[mb], cudaMemcpyDeviceToHost);
    for (int kind = 0; kind < 2; kind++)
        for (int e = 0; e < run.p; e++)
            if (r->comm[kind][e]) ncclCommAbort(r->comm[kind][e]);
    free(r);
}

// Whether the shape runs through and gives what it must: one for each stage, forward and backward.
static bool runs(layout l, int p, int chunks, int m, bool ahead) {
    run.layout = l;
    run.p = p;
    run.chunks = chunks;
    run.m = m;
    run.ahead = ahead;
    emu_set_devices(p);
    OK(ncclGetUniqueId(&run.whole));
    for (int k = 0; k < 2; k++) {
        OK(ncclGetUniqueId(&run.kind[k]));
        for (int e = 0; e < p; e++) OK(ncclGetUniqueId(&run.edge[k][e]));
    }
    memset(run.result, 0, sizeof run.result);
    run_ranks(p, rank_main);
    for (int mb = 0; mb < m; mb++)
        if (run.result[mb] != (float)(2 * p * chunks)) return false;
    return true;
}

static int begin(void **unused) {
    (void)unused;
    emu_reset();
    return 0;
}

// Runs into a hang, whose report comes when nothing has moved for the time set, and names what every stream stands at.
static void hangs(layout l) {
    run.hang_ms = 300;
    assert_false(runs(l, 4, 2, 8, true));
    run.hang_ms = 0;
    assert_says(emu_report(), "hang: nothing moved for 300 ms");
    assert_says(emu_report(), "NCCL rank ");
    assert_says(emu_report(), "; next ");
}

static void one_communicator_hangs(void **unused) {
    (void)unused;
    hangs(ONE_COMM);
}
static void one_stream_hangs(void **unused) {
    (void)unused;
    hangs(ONE_STREAM);
}
static void one_communicator_for_each_kind_hangs(void **unused) {
    (void)unused;
    hangs(COMM_PER_KIND);
}

static void one_for_each_edge_and_kind_runs(void **unused) {
    (void)unused;
    static const int shapes[][3] = {{2, 1, 4}, {4, 1, 8}, {2, 2, 4}, {4, 2, 8}, {3, 2, 6}, {2, 3, 4}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int ahead = 0; ahead < 2; ahead++)
            for (uint64_t seed = 0; seed < 3; seed++) {
                emu_reset();
                emu_set_seed(seed);
                assert_true(runs(COMM_PER_EDGE, shapes[i][0], shapes[i][1], shapes[i][2], ahead));
                assert_string_equal(emu_report(), "");
            }
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, begin)
    const struct CMUnitTest tests[] = {
        TEST(one_for_each_edge_and_kind_runs),
        TEST(one_communicator_hangs),
        TEST(one_stream_hangs),
        TEST(one_communicator_for_each_kind_hangs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
