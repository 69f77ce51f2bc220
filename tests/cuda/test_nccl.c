// test_nccl.c - the emulated NCCL between threads: sends and receives that meet, groups, collectives, communicators made
// without blocking and split, what is refused, what hangs, what a planted fault does. Before it: ranks.h.
#include "ranks.h"
#include <stdlib.h>

static ncclUniqueId id;

static int begin(void **unused) {
    (void)unused;
    emu_reset();
    emu_set_devices(8);
    return ncclGetUniqueId(&id);
}

static ncclComm_t join_all(int rank, int size) {
    ncclComm_t c = NULL;
    GO(ncclCommInitRank(&c, size, id, rank));
    return c;
}

// Polls until a communicator that does not block is ready or has failed.
static ncclResult_t settle(ncclComm_t c) {
    ncclResult_t status = ncclInProgress;
    for (int i = 0; i < 100000 && status == ncclInProgress; i++) {
        GO(ncclCommGetAsyncError(c, &status));
        if (status == ncclInProgress) usleep(200);
    }
    return status;
}

static void pass_round(int rank, int size) {
    ncclComm_t c = join_all(rank, size);
    cudaStream_t s = rank_stream();
    float *mine = rank_buffer(8, (float)rank), *got = rank_buffer(8, -1);
    for (int turn = 0; turn < size; turn++) {
        GO(ncclGroupStart());
        GO(ncclSend(mine, 8, ncclFloat, (rank + 1) % size, c, s));
        GO(ncclRecv(got, 8, ncclFloat, (rank + size - 1) % size, c, s));
        GO(ncclGroupEnd());
        GO(cudaMemcpyAsync(mine, got, 8 * sizeof(float), cudaMemcpyDeviceToDevice, s));
    }
    WANT(rank_value(mine, s) == (float)rank);
    WANT(rank_value(mine + 7, s) == (float)rank + 7);
    GO(ncclCommDestroy(c));
}

static void groups_pass_values_round(void **unused) {
    (void)unused;
    for (int size = 1; size <= 4; size++) {
        OK(ncclGetUniqueId(&id));
        run_ranks(size, pass_round);
    }
    assert_int_equal(emu_still_open().communicators, 0);
    assert_string_equal(emu_report(), "");
}

static void add_all(int rank, int size) {
    ncclComm_t c = join_all(rank, size);
    cudaStream_t s = rank_stream();
    float *x = rank_buffer(4, (float)(1 << rank)), *y = rank_buffer(4, 0);
    GO(ncclAllReduce(x, y, 4, ncclFloat, ncclSum, c, s));
    WANT(rank_value(y + 1, s) == (float)((1 << size) - 1 + size));
    GO(ncclAllReduce(x, x, 4, ncclFloat, ncclMax, c, s)); // in place
    WANT(rank_value(x, s) == (float)(1 << (size - 1)));
    if (rank == size - 1) GO(cudaMemsetAsync(x, 0, 4 * sizeof(float), s));
    GO(ncclBroadcast(x, x, 4, ncclFloat, size - 1, c, s));
    WANT(rank_value(x, s) == 0);
    GO(ncclCommDestroy(c));
}

static void collectives(void **unused) {
    (void)unused;
    for (int size = 1; size <= 4; size++) {
        OK(ncclGetUniqueId(&id));
        run_ranks(size, add_all);
    }
}

static void late_receiver(int rank, int size) {
    ncclComm_t c = join_all(rank, size);
    cudaStream_t s = rank_stream();
    float *x = rank_buffer(1, (float)(5 * rank));
    for (int turn = 0; turn < 2; turn++) { // the first makes the connection
        if (rank == 0) GO(ncclSend(x, 1, ncclFloat, 1, c, s));
        if (rank == 0 && turn) WANT(cudaStreamQuery(s) == cudaErrorNotReady);
        if (turn) ranks_meet();
        if (rank == 1) GO(ncclRecv(x, 1, ncclFloat, 0, c, s));
        WANT(rank_value(x, s) == 0);
    }
    GO(ncclCommDestroy(c));
}

static void a_send_ends_with_its_receive(void **unused) {
    (void)unused;
    run_ranks(2, late_receiver);
}

static void without_blocking(int rank, int size) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.maxCTAs = 8;
    ncclComm_t c, half;
    if (rank == 1) usleep(20000);
    WANT(ncclCommInitRankConfig(&c, size, id, rank, &config) == ncclInProgress);
    if (rank == 0) WANT(ncclSend(NULL, 0, ncclFloat, 1, c, NULL) == ncclInvalidArgument); // too early
    WANT(settle(c) == ncclSuccess);
    WANT(ncclCommSplit(c, rank % 2, -rank, &half, &config) == ncclInProgress);
    WANT(settle(half) == ncclSuccess);
    int at, count;
    GO(ncclCommUserRank(half, &at));
    GO(ncclCommCount(half, &count));
    WANT(count == 2 && at == (rank < 2)); // the key turns the order round
    cudaStream_t s = rank_stream();
    float *x = rank_buffer(1, (float)rank);
    for (int turn = 0; turn < 2; turn++) {
        ncclResult_t e = rank < 2 ? ncclSend(x, 1, ncclFloat, 0, half, s) : ncclRecv(x, 1, ncclFloat, 1, half, s);
        WANT(e == ncclSuccess || (turn == 0 && e == ncclInProgress));
        WANT(settle(half) == ncclSuccess);
    }
    WANT(rank_value(x, s) == (float)(rank % 2));
    WANT(settle(half) == ncclSuccess);
    GO(ncclCommFinalize(half));
    GO(ncclCommDestroy(half));
    GO(ncclCommDestroy(c));
}

static void communicators_without_blocking_and_splits(void **unused) {
    (void)unused;
    run_ranks(4, without_blocking);
}

static void no_color(int rank, int size) {
    ncclComm_t c = join_all(rank, size), part = NULL;
    GO(ncclCommSplit(c, rank == 1 ? NCCL_SPLIT_NOCOLOR : 0, rank, &part, NULL));
    WANT((part == NULL) == (rank == 1));
    if (part) GO(ncclCommDestroy(part));
    GO(ncclCommDestroy(c));
}

static void a_rank_may_stay_out_of_a_split(void **unused) {
    (void)unused;
    run_ranks(3, no_color);
}

static void same_gpu(int rank, int size) {
    ncclComm_t c;
    GO(cudaSetDevice(0));
    WANT(ncclCommInitRank(&c, size, id, rank) == ncclInvalidUsage);
    WANT(strstr(ncclGetLastError(c), "Duplicate GPU detected : rank "));
    GO(ncclCommAbort(c));
}

static void two_ranks_on_one_gpu_are_refused(void **unused) {
    (void)unused;
    run_ranks(2, same_gpu);
}

static void wrong_size(int rank, int size) {
    ncclComm_t c = join_all(rank, size);
    cudaStream_t s = rank_stream();
    float *x = rank_buffer(4, 0);
    if (rank) GO(ncclSend(x, 3, ncclFloat, 0, c, s));
    else GO(ncclRecv(x, 4, ncclFloat, 1, c, s));
    WANT(cudaStreamSynchronize(s) == cudaErrorLaunchFailure);
    GO(ncclCommAbort(c));
}

static void sizes_that_differ_are_named(void **unused) {
    (void)unused;
    run_ranks(2, wrong_size);
    assert_says(emu_report(), "rank 1 sends 12 bytes and rank 0 receives 16 bytes");
}

static void to_itself(int rank, int size) {
    ncclComm_t c = join_all(rank, size);
    cudaStream_t s = rank_stream();
    float *x = rank_buffer(1, 3), *y = rank_buffer(1, 0);
    GO(ncclGroupStart());
    GO(ncclSend(x, 1, ncclFloat, 0, c, s));
    GO(ncclRecv(y, 1, ncclFloat, 0, c, s));
    GO(ncclGroupEnd());
    WANT(rank_value(y, s) == 3);
    emu_set_hang_ms(200);
    GO(ncclSend(x, 1, ncclFloat, 0, c, s)); // without a group it waits for what comes behind it
    GO(ncclRecv(y, 1, ncclFloat, 0, c, s));
    WANT(cudaStreamSynchronize(s) == cudaErrorLaunchTimeout);
    GO(ncclCommAbort(c));
}

static void a_send_to_itself_wants_a_group(void **unused) {
    (void)unused;
    run_ranks(1, to_itself);
    assert_says(emu_report(), "NCCL rank 0 of 1 (send to 0, 4 bytes); next NCCL rank 0 of 1 (receive from 0, 4 bytes)");
}

static void never_connected(int rank, int size) {
    ncclComm_t c = join_all(rank, size);
    cudaStream_t s = rank_stream();
    float *x = rank_buffer(1, 3);
    ranks_meet();
    emu_set_hang_ms(200);
    if (rank == 0) WANT(ncclSend(x, 1, ncclFloat, 1, c, s) == ncclInternalError);
    GO(ncclCommAbort(c));
}

static void a_first_use_waits_for_the_other_side(void **unused) {
    (void)unused;
    run_ranks(2, never_connected);
    assert_says(emu_report(), "a host thread waits for the other side of NCCL rank 0 of 2 (send to 1, 4 bytes)");
}

static void loads_late(int rank, int size) {
    ncclComm_t c = join_all(rank, size);
    cudaStream_t s = rank_stream(), other = rank_stream();
    float *x = rank_buffer(1, 0), *y = rank_buffer(1, 0);
    if (rank == 1) {
        sample_add(y, 1, 1, other);
        GO(cudaStreamSynchronize(other));
    }
    for (int turn = 0; turn < 2; turn++) {
        if (rank == 0) {
            GO(ncclRecv(x, 1, ncclFloat, 1, c, s));
            if (turn) sample_add(y, 1, 1, other); // for the first time
            if (turn) ranks_meet();
        } else {
            if (turn) ranks_meet();
            sample_add(y, 1, 1, other); // not for the first time
            GO(ncclSend(x, 1, ncclFloat, 0, c, s));
        }
    }
    WANT(rank || cudaGetLastError() == cudaErrorLaunchTimeout);
    GO(ncclCommAbort(c));
}

static void kernels_are_warmed_before_transfers(void **unused) {
    (void)unused;
    run_ranks(2, loads_late);
    assert_says(emu_report(), "kernel add is used for the first time while ");
}

static void aborts(int rank, int size) {
    ncclComm_t c = join_all(rank, size);
    cudaStream_t s = rank_stream();
    float *x = rank_buffer(1, 3);
    for (int turn = 0; turn < 2; turn++) {
        if (turn && rank) break; // the second receive is never sent
        GO(rank ? ncclSend(x, 1, ncclFloat, 0, c, s) : ncclRecv(x, 1, ncclFloat, 1, c, s));
        if (!turn) GO(cudaStreamSynchronize(s));
    }
    WANT(cudaStreamQuery(s) == (rank ? cudaSuccess : cudaErrorNotReady));
    GO(ncclCommAbort(c));
    GO(cudaStreamSynchronize(s));
    WANT(ncclCommAbort(c) == ncclInvalidArgument);
}

static void abort_frees_the_stream(void **unused) {
    (void)unused;
    run_ranks(2, aborts);
    assert_string_equal(emu_report(), "");
}

static emu_fault planted;

static void faulty(int rank, int size) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t c;
    if (rank) ranks_meet(); // rank 0 has the fault
    WANT(ncclCommInitRankConfig(&c, size, id, rank, &config) ==
         (planted == EMU_FAULT_INIT && !rank ? ncclSystemError : ncclInProgress));
    if (!rank) ranks_meet();
    if (planted == EMU_FAULT_INIT) {
        ncclResult_t status;
        GO(ncclCommGetAsyncError(c, &status));
        WANT(status == (rank ? ncclInProgress : ncclSystemError));
        GO(ncclCommAbort(c));
        return;
    }
    WANT(settle(c) == ncclSuccess);
    cudaStream_t s = rank_stream();
    float *x = rank_buffer(1, 3);
    if (rank == 0) emu_fail(planted, 1);
    if (rank) ranks_meet();
    ncclResult_t e = rank ? ncclRecv(x, 1, ncclFloat, 0, c, s) : ncclSend(x, 1, ncclFloat, 1, c, s),
                 status = ncclInProgress;
    if (!rank) ranks_meet();
    if (planted == EMU_FAULT_NCCL) {
        WANT(e == (rank ? ncclInProgress : ncclInternalError));
    } else if (planted == EMU_FAULT_NCCL_ASYNC) {
        GO(ncclCommGetAsyncError(c, &status));
        WANT(status == (rank ? ncclInProgress : ncclSystemError));
    } else {
        GO(ncclCommGetAsyncError(c, &status));
        WANT(status == (rank ? ncclRemoteError : ncclSuccess));
        if (rank) WANT(strstr(ncclGetLastError(c), "rank 0 is lost"));
    }
    GO(ncclCommAbort(c));
    GO(cudaStreamSynchronize(s));
}

static void faults_end_in_their_error(void **unused) {
    (void)unused;
    for (planted = EMU_FAULT_INIT; planted <= EMU_FAULT_PEER; planted++) {
        begin(NULL);
        if (planted == EMU_FAULT_INIT) emu_fail(planted, 1);
        run_ranks(2, faulty);
        assert_string_equal(emu_report(), "");
        assert_int_equal(emu_still_open().communicators, 0);
    }
}

static void refused(int rank, int size) {
    ncclComm_t c = join_all(rank, size);
    cudaStream_t s = rank_stream();
    float *x = rank_buffer(1, 3), host = 0;
    WANT(ncclSend(x, 1, ncclFloat, 2, c, s) == ncclInvalidArgument);
    WANT(ncclSend(&host, 1, ncclFloat, 1 - rank, c, s) == ncclInvalidArgument);
    WANT(ncclSend(x, 2, ncclFloat, 1 - rank, c, s) == ncclInvalidArgument);
    WANT(ncclGroupEnd() == ncclInvalidUsage);
    GO(ncclGroupStart());
    WANT(ncclSend(x, 1, ncclFloat, 9, c, s) == ncclInvalidArgument);
    WANT(ncclGroupEnd() == ncclInvalidArgument);
    GO(cudaSetDevice(7));
    cudaStream_t far = rank_stream();
    WANT(ncclSend(x, 1, ncclFloat, 1 - rank, c, far) == ncclInvalidArgument);
    GO(ncclCommDestroy(c));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.splitShare = 1;
    WANT(ncclCommInitRankConfig(&c, size, id, rank, &config) == ncclInvalidUsage);
    config.magic = 0;
    WANT(ncclCommInitRankConfig(&c, size, id, rank, &config) == ncclInvalidArgument);
    WANT(ncclCommInitRank(&c, size, id, size) == ncclInvalidArgument);
}

static void wrong_calls_are_refused(void **unused) {
    (void)unused;
    int version;
    run_ranks(2, refused);
    OK(ncclGetVersion(&version));
    assert_int_equal(version, NCCL_VERSION_CODE);
    emu_set_nccl_version(21805);
    OK(ncclGetVersion(&version));
    assert_int_equal(version, 21805);
    emu_set_probe(cudaErrorNoDevice); // an id is made without a GPU
    OK(ncclGetUniqueId(&id));
    ncclComm_t c;
    assert_int_equal(ncclCommInitRank(&c, 1, id, 0), ncclUnhandledCudaError);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, begin)
    const struct CMUnitTest tests[] = {
        TEST(groups_pass_values_round),
        TEST(collectives),
        TEST(a_send_ends_with_its_receive),
        TEST(communicators_without_blocking_and_splits),
        TEST(a_rank_may_stay_out_of_a_split),
        TEST(two_ranks_on_one_gpu_are_refused),
        TEST(sizes_that_differ_are_named),
        TEST(a_send_to_itself_wants_a_group),
        TEST(a_first_use_waits_for_the_other_side),
        TEST(kernels_are_warmed_before_transfers),
        TEST(abort_frees_the_stream),
        TEST(faults_end_in_their_error),
        TEST(wrong_calls_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
