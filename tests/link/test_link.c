// test_link.c - local links against hand-made edges: tickets, credits of several readers, copies, rewinding, delays, and
// a producer and a reader on threads of their own.
#include "base/random.h"
#include "link/link.h"
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        if ((call) != PPL_OK) fail_msg("%s: %s", #call, ppl_error());                                                  \
    } while (0)

// An edge from stage 0 (rank 0) to stage 1 (rank 0), 2 (rank 1) and 3 (rank 2), five microbatches, two buffers.
enum { MICROBATCHES = 5, BUFFERS = 2, READERS = 3, BYTES = 24, RANKS = 3 };

typedef struct hand {
    ppl_plan plan;
    ppl_stages stages;
    ppl_edge edge;
    ppl_edge_reader readers[READERS];
    ppl_edge_plan edge_plan;
    int32_t order[MICROBATCHES], stage_rank[4], reader_rank[READERS], reader_buffers[READERS];
    char memory[BUFFERS][64], own[READERS][BUFFERS][64];
    void *memory_of[1], *own_of[READERS];
    void *const *own_table[1];
    ppl_bell bell[RANKS];
    ppl_bell *bells[RANKS];
    ppl_link *link;
} hand;

static void hand_open_costs(hand *h, bool copies, uint64_t delay_seed, double delay, const ppl_costs *costs) {
    memset(h, 0, sizeof *h);
    static const int32_t order[MICROBATCHES] = {1, 0, 2, 4, 3}; // microbatch 1 is made before microbatch 0
    memcpy(h->order, order, sizeof order);
    for (int32_t i = 0; i < READERS; i++) {
        h->readers[i] = (ppl_edge_reader){.stage = i + 1, .last = PPL_PHASE_W};
        h->reader_rank[i] = i;
        h->reader_buffers[i] = copies && i > 0 ? BUFFERS : 0;
        h->own_of[i] = copies && i > 0 ? h->own[i] : NULL;
        h->stage_rank[i + 1] = i;
        h->bells[i] = &h->bell[i];
    }
    h->edge = (ppl_edge){.kind = PPL_F, .src = 0, .readers = h->readers, .n_readers = READERS, .bytes = BYTES};
    h->stages = (ppl_stages){.count = 4, .edges = &h->edge, .n_edges = 1};
    h->edge_plan = (ppl_edge_plan){BUFFERS, h->order, READERS, h->reader_rank, h->reader_buffers};
    h->plan = (ppl_plan){.stages = &h->stages,
                         .ranks = RANKS,
                         .microbatches = MICROBATCHES,
                         .edge = &h->edge_plan,
                         .stage_rank = h->stage_rank};
    h->memory_of[0] = h->memory;
    h->own_table[0] = h->own_of;
    ppl_link_options o = {
        .copies = copies, .bells = h->bells, .delay_seed = delay_seed, .delay = delay, .costs = costs};
    OK(ppl_link_local.open(&h->plan, &o, h->memory_of, h->own_table, &h->link));
}

static void hand_open(hand *h, bool copies, uint64_t delay_seed, double delay) {
    hand_open_costs(h, copies, delay_seed, delay, NULL);
}

static ppl_task task_of(const hand *h, int32_t kind, int32_t microbatch) {
    int32_t sequence = h->order[microbatch];
    return (ppl_task){.kind = (int8_t)kind,
                      .microbatch = microbatch,
                      .edge = 0,
                      .sequence = sequence,
                      .buffer = (int16_t)(sequence % BUFFERS)};
}

static bool credit(hand *h, int32_t mb, int64_t step) {
    ppl_task t = task_of(h, PPL_TASK_CREDIT, mb);
    bool done;
    OK(ppl_link_local.credit(h->link, &t, step, &done));
    return done;
}
static void send(hand *h, int32_t mb, int64_t step) {
    ppl_task t = task_of(h, PPL_TASK_SEND, mb);
    OK(ppl_link_local.send(h->link, &t, step));
}
static bool receive(hand *h, int32_t mb, int32_t reader, int64_t step) {
    ppl_task t = task_of(h, PPL_TASK_RECEIVE, mb);
    bool done;
    OK(ppl_link_local.receive(h->link, &t, reader, step, &done));
    return done;
}
static void release(hand *h, int32_t mb, int32_t reader, int64_t step) {
    ppl_task t = task_of(h, PPL_TASK_RELEASE, mb);
    OK(ppl_link_local.release(h->link, &t, reader, step));
}

static const int32_t made[MICROBATCHES] = {1, 0, 2, 4, 3}; // microbatches in the producer's order

static void test_tickets(void **state) {
    (void)state;
    hand h;
    hand_open(&h, false, 0, 0);
    for (int64_t step = 0; step < 3; step++)
        for (int32_t n = 0; n < MICROBATCHES; n++) {
            int32_t mb = made[n];
            assert_true(credit(&h, mb, step));
            assert_false(receive(&h, mb, 1, step));
            send(&h, mb, step);
            assert_true(receive(&h, mb, 1, step));
            assert_true(receive(&h, mb, 2, step));
            release(&h, mb, 1, step);
            release(&h, mb, 2, step);
        }
    ppl_link_local.close(h.link);
}

// A buffer waits for the last of its readers on other ranks; the reader on the producer's rank is the plan's business.
static void test_credits(void **state) {
    (void)state;
    hand h;
    hand_open(&h, false, 0, 0);
    send(&h, made[0], 0);
    send(&h, made[1], 0);
    assert_false(credit(&h, made[2], 0)); // lies in the first buffer again
    release(&h, made[0], 2, 0);
    assert_false(credit(&h, made[2], 0));
    int32_t rank = -1;
    ppl_task t = task_of(&h, PPL_TASK_CREDIT, made[2]);
    ppl_link_local.waits_for(h.link, &t, 0, &rank);
    assert_int_equal(rank, 1); // it is the one behind
    release(&h, made[0], 1, 0);
    assert_true(credit(&h, made[2], 0));
    assert_false(credit(&h, made[3], 0)); // the second buffer is still read
    t = task_of(&h, PPL_TASK_RECEIVE, made[2]);
    ppl_link_local.waits_for(h.link, &t, 0, &rank);
    assert_int_equal(rank, 0);
    ppl_link_local.close(h.link);
}

static void test_copies(void **state) {
    (void)state;
    hand h;
    hand_open(&h, true, 0, 0);
    memcpy(h.memory[0], "first value", 12);
    send(&h, made[0], 0);
    assert_true(receive(&h, made[0], 1, 0));
    assert_false(credit(&h, made[2], 0));
    assert_true(receive(&h, made[0], 2, 0)); // a copy frees the producer's buffer at once
    assert_true(credit(&h, made[2], 0));
    memcpy(h.memory[0], "third value", 12);
    assert_string_equal(h.own[1][0], "first value");
    assert_string_equal(h.own[2][0], "first value");
    ppl_link_local.close(h.link);
}

// A rewound step begins as if it never had: its values are not there, its buffers are free.
static void test_rewind(void **state) {
    (void)state;
    hand h;
    hand_open(&h, false, 0, 0);
    for (int32_t n = 0; n < MICROBATCHES; n++) {
        send(&h, made[n], 0);
        release(&h, made[n], 1, 0);
        release(&h, made[n], 2, 0);
    }
    send(&h, made[0], 1);
    send(&h, made[1], 1);
    release(&h, made[0], 1, 1);
    bool done = false;
    for (int32_t rank = 0; rank < RANKS; rank++) OK(ppl_link_local.rewind(h.link, rank, 1, true, &done));
    assert_true(done);
    assert_true(credit(&h, made[0], 1));
    assert_true(credit(&h, made[1], 1));
    assert_false(credit(&h, made[2], 1));
    assert_false(receive(&h, made[0], 1, 1));
    assert_true(receive(&h, made[4], 1, 0)); // what came before stays
    send(&h, made[0], 1);
    assert_true(receive(&h, made[0], 1, 1));
    assert_false(receive(&h, made[1], 1, 1));
    ppl_link_local.close(h.link);
}

static void test_delay(void **state) {
    (void)state;
    hand h;
    int late = 0;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        hand_open(&h, false, seed, 5e-3);
        send(&h, made[0], 0);
        ppl_task t = task_of(&h, PPL_TASK_SEND, made[0]);
        assert_true(ppl_clock() - ppl_link_local.sent_at(h.link, &t, 0) < 1);
        late += !receive(&h, made[0], 1, 0);
        ppl_wait_until(ppl_now() + 6000000, NULL);
        assert_true(receive(&h, made[0], 1, 0));
        ppl_link_local.close(h.link);
    }
    assert_true(late >= 6); // of eight delays of up to 5 ms, most are seen to be pending
}

static double due(hand *h, int32_t mb, int32_t reader) {
    ppl_task t = task_of(h, PPL_TASK_RECEIVE, mb);
    return (double)ppl_link_local.due(h->link, &t, reader, 0) * 1e-9;
}

// Links with costs: the message takes its link after the one before it, to each reader over the reader's own link.
static void test_costs(void **state) {
    (void)state;
    hand h;
    // 240 bytes a message: 100 seconds to rank 1, 1 to rank 2 on another node.
    ppl_costs costs = {.latency = 30,
                       .bandwidth = 2.4,
                       .between_latency = 0,
                       .between_bandwidth = 240,
                       .node_ranks = 2,
                       .unit_bytes = 10};
    hand_open_costs(&h, false, 0, 0, &costs);
    assert_float_equal(due(&h, made[0], 1), 0, 0); // nobody knows yet
    double begin = ppl_clock();
    send(&h, made[0], 0);
    send(&h, made[1], 0);
    double end = ppl_clock();
    assert_false(receive(&h, made[0], 1, 0));
    assert_false(receive(&h, made[1], 1, 0));
    double first = due(&h, made[0], 1), second = due(&h, made[1], 1);
    assert_true(first >= begin + 130 - 1e-6 && first <= end + 130 + 1e-6);
    assert_true(fabs(second - first - 100) < 1e-6);
    first = due(&h, made[0], 2), second = due(&h, made[1], 2);
    assert_true(first >= begin + 1 - 1e-6 && first <= end + 1 + 1e-6);
    assert_true(fabs(second - first - 1) < 1e-6);
    ppl_wait_until((int64_t)(first * 1e9) + 1, NULL);
    assert_true(receive(&h, made[0], 2, 0));
    assert_false(receive(&h, made[0], 1, 0));
    ppl_link_local.close(h.link);

    costs = (ppl_costs){.update = 1}; // links that take no time: values are there at once
    hand_open_costs(&h, false, 0, 0, &costs);
    send(&h, made[0], 0);
    assert_true(receive(&h, made[0], 1, 0));
    ppl_link_local.close(h.link);

    costs = (ppl_costs){.bandwidth = 1};
    ppl_link_options o = {.bells = h.bells, .costs = &costs};
    assert_int_equal(ppl_link_local.open(&h.plan, &o, h.memory_of, h.own_table, &h.link), PPL_ERR_ARG);
    assert_string_equal(ppl_error(),
                        "links: the link from rank 0 to rank 1 has a bandwidth, and no model says how large a "
                        "message is, want its bytes");
}

// ---- two threads ----

enum { STEPS = 400 };

static void wait_for(hand *h, int32_t rank, bool (*look)(hand *, int32_t, int64_t), int32_t mb, int64_t step) {
    for (;;) {
        unsigned seen = atomic_load(&h->bell[rank].rung);
        if (look(h, mb, step)) return;
        ppl_bell_sleep(&h->bell[rank], seen, 1000000000);
    }
}

static bool receive_1(hand *h, int32_t mb, int64_t step) {
    return receive(h, mb, 1, step);
}

static void *reader_main(void *arg) {
    hand *h = arg;
    int64_t bad = 0;
    for (int64_t step = 0; step < STEPS; step++)
        for (int32_t n = 0; n < MICROBATCHES; n++) {
            int32_t of = made[n];
            wait_for(h, 1, receive_1, of, step);
            int64_t got;
            const char *from = h->own_of[1] ? h->own[1][h->order[of] % BUFFERS] : h->memory[h->order[of] % BUFFERS];
            memcpy(&got, from, sizeof got);
            bad += got != step * MICROBATCHES + of;
            if (!h->own_of[1]) release(h, of, 1, step);
            if (!h->own_of[2]) release(h, of, 2, step);
            else bad += !receive(h, of, 2, step);
        }
    return (void *)bad;
}

static void test_threads(void **state) {
    (void)state;
    for (int copies = 0; copies < 2; copies++) {
        hand h;
        hand_open(&h, copies, 0, 0);
        pthread_t reader;
        assert_int_equal(pthread_create(&reader, NULL, reader_main, &h), 0);
        for (int64_t step = 0; step < STEPS; step++)
            for (int32_t n = 0; n < MICROBATCHES; n++) {
                wait_for(&h, 0, credit, made[n], step);
                int64_t value = step * MICROBATCHES + made[n];
                memcpy(h.memory[n % BUFFERS], &value, sizeof value);
                send(&h, made[n], step);
            }
        void *bad;
        pthread_join(reader, &bad);
        assert_null(bad);
        ppl_link_local.close(h.link);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tickets), cmocka_unit_test(test_credits), cmocka_unit_test(test_copies),
        cmocka_unit_test(test_rewind),  cmocka_unit_test(test_delay),   cmocka_unit_test(test_costs),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
