// test_csv.c - CSV files of compute order: what is written reads back, what PyTorch writes is read, what is wrong is
// refused by name.
#include "support/schedules.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static char path[64];

static int make_path(void **state) {
    (void)state;
    snprintf(path, sizeof path, "/tmp/ppl_csv_XXXXXX");
    int f = mkstemp(path);
    if (f < 0) return -1;
    close(f);
    return 0;
}
static int drop_path(void **state) {
    (void)state;
    return unlink(path);
}

static void put(const char *text) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void test_round_trip(void **state) {
    (void)state;
    for (int32_t o = 0; o < ORDERS; o++)
        for (int32_t p = 1; p <= 5; p++)
            for (int32_t m = 1; m <= 2 * p + 3; m++) {
                if (o == ORDER_INTERLEAVED && m % p) continue;
                ppl_schedule *s = schedule_make((order)o, p, m, 2), *back;
                assert_int_equal(ppl_schedule_write(s, path), PPL_OK);
                if (ppl_schedule_read(path, &back) != PPL_OK) fail_msg("%s", ppl_error());
                assert_true(schedule_equal(s, back));
                ppl_schedule_close(s);
                ppl_schedule_close(back);
            }
}

static void test_overlap_and_update(void **state) {
    (void)state;
    static const char *const rows[] = {"0F0 (0F1;0B0) 0B1 0U0", "1F0 (1F1;1I0) 1W0 1I1 1W1"};
    static const char *const plain[] = {"0F0 (0F1;0B0) 0B1", "1F0 (1F1;1I0) 1W0 1I1 1W1"};
    ppl_schedule *s = schedule_from(2, 2, NULL, 2, rows), *want = schedule_from(2, 2, NULL, 2, plain), *back;
    assert_int_equal(ppl_schedule_write(s, path), PPL_OK);
    FILE *f = fopen(path, "rb");
    char text[256] = {0};
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    assert_string_equal(text, "0F0,(0F1;0B0)OVERLAP_F_B,0B1\n1F0,(1F1;1I0)OVERLAP_F_B,1W0,1I1,1W1\n");
    assert_int_equal(ppl_schedule_read(path, &back), PPL_OK);
    assert_true(schedule_equal(want, back));
    ppl_schedule_close(s);
    ppl_schedule_close(want);
    ppl_schedule_close(back);
}

// The form has no versions of weights: what would read back as a synchronous schedule is not written.
static void test_weights(void **state) {
    (void)state;
    ppl_schedule *s = schedule_make(ORDER_1F1B, 2, 4, 1);
    put("before");
    ppl_schedule_set_weights(s, PPL_WEIGHTS_STASH);
    assert_int_equal(ppl_schedule_write(s, path), PPL_ERR_SCHEDULE);
    assert_string_equal(ppl_error(), "schedule 1f1b: weights are 'stash', which the CSV form cannot say, want 'sync'");
    ppl_schedule_set_weights(s, PPL_WEIGHTS_2BW);
    assert_int_equal(ppl_schedule_write(s, path), PPL_ERR_SCHEDULE);
    assert_non_null(strstr(ppl_error(), "weights are '2bw'"));
    FILE *f = fopen(path, "rb");
    char text[16] = {0};
    assert_int_equal(fread(text, 1, sizeof text, f), 6); // as it was
    fclose(f);
    ppl_schedule_set_weights(s, PPL_WEIGHTS_SYNC);
    assert_int_equal(ppl_schedule_write(s, path), PPL_OK);
    ppl_schedule_close(s);
}

static const char with_messages[] =
    "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD\r\n"
    " 1RECV_F0 , 1F0,1I0,1SEND_B0,1W0,1RECV_F1,1F1,1I1,1SEND_B1,1W1\r\n";

static void test_reads(void **state) {
    (void)state;
    static const char *const split[] = {"0F0 0F1 0B0 0B1", "1F0 1I0 1W0 1F1 1I1 1W1"};
    static const char *const full[] = {"0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"};
    static const char *const old[] = {"0F0 0F1 0B0 0I1 0W1", "1F0 1B0 1F1 1B1"};
    static const struct {
        const char *text;
        const char *const *rows;
    } tries[] = {
        {with_messages, split},
        {"0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1", full},           // no EOL at the end
        {"0F0,0F1,,,0B0,,0B1\n,1F0,1B0,1F1,1B1,,,,\n", full}, // idle cells
        {"0F0,0F1,0BW0,0B1,0W1\n1F0,1BW0,1F1,1BW1\n", old},   // an old file
    };
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        put(tries[i].text);
        ppl_schedule *want = schedule_from(2, 2, NULL, 2, tries[i].rows), *got;
        if (ppl_schedule_read(path, &got) != PPL_OK) fail_msg("%s", ppl_error());
        assert_true(schedule_equal(want, got));
        assert_memory_equal(got->name, "ppl_csv_", 8);
        ppl_schedule_close(want);
        ppl_schedule_close(got);
    }
    // Stages 1 and 2 are neighbours on rank 1 and pass nothing; rank 0 has stages 0 and 3.
    put("0F0,0SEND_F0,3RECV_F0,3F0,3B0,3SEND_B0,0RECV_B0,0B0\n"
        "1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2B0,1B0,1SEND_B0\n");
    ppl_schedule *s;
    if (ppl_schedule_read(path, &s) != PPL_OK) fail_msg("%s", ppl_error());
    assert_int_equal(s->stage_rank[2], 1);
    assert_int_equal(s->stage_rank[3], 0);
    ppl_schedule_close(s);
}

typedef struct bad {
    const char *text, *error; // behind the path
} bad;

static const bad bads[] = {
    {"0F0junk,0B0", ":1: cell 0, rank 0, \"0F0junk\": \"junk\" follows the action, want nothing behind it"},
    {"0F0,0F0,0B0", ":1: cell 1, rank 0, position 1, 0F0: stands twice, first at position 0, want it once"},
    {"0F0,0F1,0B0,0B0", ":1: cell 3, rank 0, position 3, 0B0: stands twice, first at position 2, want it once"},
    {"0F0,0F1,0B0",
     ":1: cell 1, rank 0, position 1, 0F1: its backward 0B1 is missing, want it (or 0I1 and 0W1) behind"},
    {"0F1,0B1,0F2,0B2", ":1: cell 0, rank 0, 0F1: microbatches are numbered from 1 to 2, want them from 0"},
    {"0F0,0B0,0W0",
     ":1: cell 2, rank 0, 0W0: B and W without I is ambiguous: in old files B is the input gradient, in new ones "
     "the full backward; want I and W, or B alone"},
    {"0F0,0BW0,0F1,0I1,0W1",
     ":1: cell 3, rank 0, 0I1: an I in a file whose BW (line 1, cell 1) marks it as an old one, where the "
     "input gradient is B, want no I"},
    {"0F0,0B0,0U0", ":1: cell 2, rank 0, 0U0: the CSV form has no updates, want F, I, B and W"},
    {"", ": no actions, want one row a rank"},
    {"\n\n", ": no actions, want one row a rank"},
    {"0F0,0B0\n\n", ":2: rank 1: owns none of 1 stages, want at least one a rank"},
    {"F0,0B0", ":1: cell 0, rank 0, \"F0\": no stage in front, want an action such as 2F5"},
    {"0F,0B0", ":1: cell 0, rank 0, \"0F\": F without a microbatch, want an action such as 2F5"},
    {"0X0,0B0", ":1: cell 0, rank 0, \"0X0\": unknown kind \"X\", want F, B, I or W"},
    {"0f0,0B0", ":1: cell 0, rank 0, \"0f0\": unknown kind \"f\", want F, B, I or W"},
    {"0F0,-1B0", ":1: cell 1, rank 0, \"-1B0\": no stage in front, want an action such as 2F5"},
    {"0F 0,0B0", ":1: cell 0, rank 0, \"0F 0\": F without a microbatch, want an action such as 2F5"},
    {"0F99999999999,0B0",
     ":1: cell 0, rank 0, \"0F99999999999\": the microbatch is too large, want at most 2147483647"},
    {"99999999999F0", ":1: cell 0, rank 0, \"99999999999F0\": the stage is too large, want at most 2147483647"},
    {"0F2000000,0B0", ":1: cell 0, rank 0, 0F2000000: microbatch 2000000, want less than 1048576"},
    {"2000000F0,0B0", ":1: cell 0, rank 0, 2000000F0: stage 2000000, want less than 1048576"},
    {"0F0,0B0,2F0,2B0", ": stage 1 stands in no row, want each of 0 to 2 in one"},
    {"0F0,0B0\n0F1,0B1", ":2: cell 0, rank 1, 0F1: stage 0 stands in row 0 already, want a stage's actions in one row"},
    {"0F0,0B0\r0F1,0B1", ":1: a CR stands without an LF, want lines that end with LF or CRLF"},
    {"0F0,0B0\r\n1F0,1B0\r", ":2: a CR stands without an LF, want lines that end with LF or CRLF"},
    {"\xef\xbb\xbf"
     "0F0,0B0",
     ":1: begins with a byte order mark, want plain text"},
    {"0F0,0B0\n1F0,\x1b[31m1B0", ":2: has byte 0x1b, want plain text"},
    {"0F0,0B0\n\xc3\xa4", ":2: has byte 0xc3, want plain text"},
    {"0F0,0B0\x7f", ":1: has byte 0x7f, want plain text"},
    {"0F0;0B0", ":1: cell 0, rank 0, \"0F0;0B0\": \";0B0\" follows the action, want nothing behind it"},
    {"(0F0;0B0)", ":1: cell 0, rank 0, \"(0F0;0B0)\": want (2F5;3B1)OVERLAP_F_B"},
    {"(0F0;0B0", ":1: cell 0, rank 0, \"(0F0;0B0\": want (2F5;3B1)OVERLAP_F_B"},
    {"(0F0;0B0)OVERLAP_F_BX", ":1: cell 0, rank 0, \"(0F0;0B0)OVERLAP_F_BX\": want (2F5;3B1)OVERLAP_F_B"},
    {"()OVERLAP_F_B", ":1: cell 0, rank 0, \"\": no stage in front, want an action such as 2F5"},
    {"(0F0;0F1)OVERLAP_F_B,0B0,0B1",
     ":1: cell 0, rank 0, position 0, 0F0: overlaps with 0F1, want a forward and a backward "
     "side by side"},
    {"0F0,0UNSHARD3,0B0", ":1: cell 1, rank 0, \"0UNSHARD3\": \"3\" follows the action, want nothing behind it"},
    // messages
    {"0F0,0B0,0SEND_F0", ":1: cell 2, rank 0, 0SEND_F0: there is no stage 1 to send to"},
    {"0F0,0RECV_F0,0B0", ":1: cell 1, rank 0, 0RECV_F0: there is no stage -1 to receive from"},
    {"0F0,0SEND_F0,1F0,1B0,0B0",
     ":1: cell 1, rank 0, 0SEND_F0: stages 0 and 1 are both on rank 0, want no messages between them"},
    {"0SEND_F0,0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0",
     ":1: cell 0, rank 0, 0SEND_F0: stands before the action that makes what it sends, want it behind"},
    {"0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0",
     ":1: rank 0: 0SEND_F0 is missing, want what the next rank reads sent"},
    {"0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0",
     ":2: rank 1: 1SEND_B0 is missing, want what the next rank reads sent"},
    {"0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0",
     ":2: cell 0, rank 1, 1F0: 1RECV_F0 does not stand before it, want what it needs received"},
    {"0F0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0",
     ":1: cell 2, rank 0, 0B0: 0RECV_B0 does not stand before it, want what it needs received"},
    {"0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1RECV_F0,1B0,1SEND_B0",
     ":2: cell 0, rank 1, 1F0: 1RECV_F0 does not stand before it, want what it needs received"},
    {"0F0,0SEND_F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0",
     ":1: cell 2, rank 0, 0SEND_F0: stands twice, want it once"},
    {"0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0",
     ":2: cell 2, rank 1, 1RECV_F1: microbatch 1, want 0 to 0"},
    {"0F0,1SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0",
     ":1: cell 1, rank 0, 1SEND_F0: stage 1 is not on rank 0, want messages of its own stages"},
    {"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n1RECV_F1,1RECV_F0,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1",
     ":2: cell 0, rank 1, 1RECV_F1: rank 0 sends 0SEND_F0 in its place (cell 1 there): crossed, want one order on both "
     "sides"},
    {"0UNSHARD,0F0,0RESHARD,0B0", ":1: cell 3, rank 0, 0B0: stage 0 is sharded here, want an UNSHARD before"},
    {"0UNSHARD,0UNSHARD,0F0,0B0", ":1: cell 1, rank 0, 0UNSHARD: stage 0 is unsharded already, want no second one"},
    {"0F0,0F1,0B0,0REDUCE_GRAD,0B1",
     ":1: cell 3, rank 0, 0REDUCE_GRAD: 1 weight gradient of the stage comes behind it, want none"},
};

static void test_malformed(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        put(bads[i].text);
        ppl_schedule *s = (ppl_schedule *)&s;
        ppl_status st = ppl_schedule_read(path, &s);
        if (st == PPL_OK) fail_msg("\"%s\" was read", bads[i].text);
        assert_null(s);
        assert_memory_equal(ppl_error(), path, strlen(path));
        assert_string_equal(ppl_error() + strlen(path), bads[i].error);
    }
    ppl_schedule *s;
    assert_int_equal(ppl_schedule_read("/nowhere/x.csv", &s), PPL_ERR_IO);
    assert_string_equal(ppl_error(), "/nowhere/x.csv: No such file or directory");
    assert_int_equal(ppl_schedule_read("/tmp", &s), PPL_ERR_IO);
    assert_string_equal(ppl_error(), "/tmp: Is a directory");
}

// Every file that differs in one byte from a good one is read or refused, and what is read is whole.
static void test_one_byte_off(void **state) {
    (void)state;
    char text[sizeof with_messages];
    static const char bytes[] = {0, ' ', ',', '0', '1', '9', 'F', 'B', '(', ';', '\n', '\r', (char)0xff};
    for (size_t at = 0; at + 1 < sizeof with_messages; at++)
        for (size_t b = 0; b < sizeof bytes; b++) {
            memcpy(text, with_messages, sizeof text);
            text[at] = bytes[b];
            FILE *f = fopen(path, "wb");
            assert_int_equal(fwrite(text, 1, sizeof text - 1, f), sizeof text - 1);
            fclose(f);
            ppl_schedule *s;
            if (ppl_schedule_read(path, &s) == PPL_OK) assert_int_equal(ppl_schedule_check(s), PPL_OK);
            else assert_true(strlen(ppl_error()) > strlen(path));
            ppl_schedule_close(s);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_overlap_and_update), cmocka_unit_test(test_reads),
        cmocka_unit_test(test_malformed),  cmocka_unit_test(test_one_byte_off),       cmocka_unit_test(test_weights),
    };
    return cmocka_run_group_tests_name("schedule/csv", tests, make_path, drop_path);
}
