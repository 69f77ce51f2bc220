// test_processes.c - the emulated NCCL between processes of one machine: each child is this program again, started with
// the unique id, as mpirun's processes get it. Before it: ranks.h.
#include "ranks.h"
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>

enum { SIZE = 3, N = 50000 };

static int begin(void **unused) {
    (void)unused;
    emu_reset();
    return 0;
}

static bool apart; // children live in network namespaces of their own

static pid_t child(const char *what, const char *id, int rank) {
    char number[12];
    snprintf(number, sizeof number, "%d", rank);
    pid_t pid = fork();
    if (pid) return pid;
    if (apart && unshare(CLONE_NEWNET)) _exit(126);
    execl("/proc/self/exe", "child", what, id, number, (char *)NULL);
    _exit(127);
}

static int status_of(pid_t pid) {
    int status = -1;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static ncclComm_t join_all(const ncclUniqueId *id, int rank, int size) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t c = NULL;
    ncclResult_t status = ncclCommInitRankConfig(&c, size, *id, rank, &config);
    WANT(status == ncclInProgress);
    for (int i = 0; i < 60000 && status == ncclInProgress; i++) {
        GO(ncclCommGetAsyncError(c, &status));
        usleep(1000);
    }
    WANT(status == ncclSuccess);
    return c;
}

static void settle(ncclComm_t c) {
    ncclResult_t status = ncclInProgress;
    for (int i = 0; i < 60000 && status == ncclInProgress; i++) {
        GO(ncclCommGetAsyncError(c, &status));
        if (status == ncclInProgress) usleep(1000);
    }
    WANT(status == ncclSuccess);
}

// Rank 0 sends numbers round; each rank adds 1; then all-reduce, a split of all but the last, a broadcast in it.
static void round_trip(const ncclUniqueId *id, int rank) {
    GO(cudaSetDevice(rank));
    ncclComm_t c = join_all(id, rank, SIZE), part = NULL;
    cudaStream_t s = rank_stream();
    float *x = NULL, last = 0;
    GO(cudaMalloc((void **)&x, N * sizeof *x));
    GO(cudaMemset(x, 0, N * sizeof *x));
    sample_add(x, 0, N, s); // warm before transfers
    GO(cudaStreamSynchronize(s));
    for (int turn = 0; turn < 4; turn++) {
        if (rank) ncclRecv(x, N, ncclFloat, rank - 1, c, s);
        settle(c);
        sample_add(x, 1, N, s);
        ncclSend(x, N, ncclFloat, (rank + 1) % SIZE, c, s);
        settle(c);
        if (!rank) ncclRecv(x, N, ncclFloat, SIZE - 1, c, s);
        settle(c);
    }
    GO(cudaStreamSynchronize(s));
    GO(cudaMemcpy(&last, x + N - 1, sizeof last, cudaMemcpyDeviceToHost));
    WANT(last == (float)(rank ? 3 * SIZE + rank + 1 : 4 * SIZE));
    ncclAllReduce(x, x, N, ncclFloat, ncclMax, c, s);
    settle(c);
    WANT(rank_value(x + N / 2, s) == 4 * SIZE);
    ncclResult_t split = ncclCommSplit(c, rank < SIZE - 1 ? 0 : NCCL_SPLIT_NOCOLOR, rank, &part, NULL);
    WANT(split == (rank < SIZE - 1 ? ncclInProgress : ncclSuccess));
    if (part) {
        settle(part);
        if (rank) GO(cudaMemset(x, 0, sizeof *x));
        ncclBroadcast(x, x, 1, ncclFloat, 0, part, s);
        settle(part);
        WANT(rank_value(x, s) == 4 * SIZE);
        GO(ncclCommDestroy(part));
    }
    GO(ncclCommDestroy(c));
}

static void values_go_round_processes(void **unused) {
    (void)unused;
    ncclUniqueId id;
    pid_t pid[SIZE];
    OK(ncclGetUniqueId(&id));
    for (int r = 1; r < SIZE; r++) pid[r] = child("round", id.internal, r);
    atomic_store(&rank_wanted, NULL);
    round_trip(&id, 0);
    for (int r = 1; r < SIZE; r++) assert_int_equal(status_of(pid[r]), 0);
    if (rank_wanted) fail_msg("%s", rank_wanted);
    assert_string_equal(emu_report(), "");
}

static void network_namespaces_do_not_part_processes(void **unused) {
    pid_t pid = fork();
    if (pid == 0) _exit(unshare(CLONE_NEWNET) != 0);
    if (status_of(pid)) {
        print_message("skipped: no network namespace can be made here\n");
        skip();
    }
    apart = true;
    values_go_round_processes(unused);
    apart = false;
}

static void a_process_that_ends_is_a_remote_error(void **unused) {
    (void)unused;
    ncclUniqueId id;
    OK(ncclGetUniqueId(&id));
    pid_t pid = child("leave", id.internal, 1);
    ncclComm_t c = join_all(&id, 0, 2);
    cudaStream_t s = rank_stream();
    float *x = rank_buffer(1, 0);
    ncclRecv(x, 1, ncclFloat, 1, c, s);
    OK(status_of(pid));
    ncclResult_t status = ncclSuccess;
    for (int i = 0; i < 60000 && (status == ncclSuccess || status == ncclInProgress); i++) {
        OK(ncclCommGetAsyncError(c, &status));
        usleep(1000);
    }
    assert_int_equal(status, ncclRemoteError);
    assert_says(ncclGetLastError(c), "the process of rank 1 has gone");
    OK(ncclCommAbort(c));
    OK(cudaStreamSynchronize(s));
}

static void one_gpu_for_two_processes_is_refused(void **unused) {
    (void)unused;
    for (int hosts = 1; hosts <= 2; hosts++) {
        ncclUniqueId id;
        OK(ncclGetUniqueId(&id));
        if (hosts == 2) setenv("PPL_EMU_HOST", "elsewhere", 1); // read by the child alone
        pid_t pid = child("same", id.internal, 1);
        unsetenv("PPL_EMU_HOST");
        ncclComm_t c;
        assert_int_equal(ncclCommInitRank(&c, 2, id, 0), hosts == 1 ? ncclInvalidUsage : ncclSuccess);
        assert_int_equal(status_of(pid), hosts == 1 ? ncclInvalidUsage : 0);
        OK(ncclCommAbort(c));
    }
}

static int child_main(char **argv) {
    ncclUniqueId id;
    memset(&id, 0, sizeof id);
    snprintf(id.internal, sizeof id.internal, "%s", argv[2]);
    int rank = atoi(argv[3]);
    if (!strcmp(argv[1], "round")) {
        round_trip(&id, rank);
        if (rank_wanted) fprintf(stderr, "rank %d: %s\n", rank, rank_wanted);
        return rank_wanted != NULL;
    }
    if (!strcmp(argv[1], "leave")) {
        cudaSetDevice(rank);
        join_all(&id, rank, 2);
        _exit(0);
    }
    ncclComm_t c;
    return (int)ncclCommInitRank(&c, 2, id, rank);
}

int main(int argc, char **argv) {
    if (argc > 3) return child_main(argv);
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, begin)
    const struct CMUnitTest tests[] = {
        TEST(values_go_round_processes),
        TEST(network_namespaces_do_not_part_processes),
        TEST(a_process_that_ends_is_a_remote_error),
        TEST(one_gpu_for_two_processes_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
