// test_prompt.c - the prompt on a terminal: completion, history, errors, statements of several lines, Ctrl-C. Runs ./ppl as a
// user would; what it prints is held against what it must.
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "prompt/pty.h"

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

static char history_path[64];
static pty terminal; // large

static bool start(char *const argv[]) {
    char history[96];
    snprintf(history, sizeof history, "PPL_HISTORY=%s", history_path);
    char *const environment[] = {history, "TERM=xterm", "LC_ALL=C.UTF-8", "HOME=/nowhere", "NO_COLOR=1", NULL};
    return pty_open(&terminal, argv, environment);
}

// Starts the program, or skips the case where that cannot be.
static void begin(char *const argv[]) {
    if (SANITIZED) {
        printf("skip: the prompt is tested with the program of the release build\n");
        skip();
    }
    if (access("./ppl", X_OK) != 0) fail_msg("./ppl: is missing, want `make` before");
    if (start(argv)) return;
    printf("skip: this machine gives no pseudo-terminal\n");
    skip();
}

static void expect(const char *text) {
    assert_true(pty_expect(&terminal, text));
}

// Types a text and waits for what must come.
static void type(const char *text, const char *want) {
    pty_send(&terminal, text);
    if (want) expect(want);
}

static void leave(void) {
    type("exit\n", NULL);
    assert_int_equal(pty_close(&terminal), 0);
}

static void values_print(void **state) {
    (void)state;
    char *const argv[] = {"./ppl", NULL};
    begin(argv);
    expect("ppl> ");
    type("20 + 22\n", "\n42\nppl> ");
    type("x = 1 2\n", "prompt:1: "); // neither an expression nor a statement
    type("{ { stage = 0, ms = 1.5 }, { stage = 1, ms = 12 } }\n",
         "\n ms  stage\n---  -----\n1.5      0\n 12      1\nppl> ");
    type("for i = 1, 2 do\n", " >> ");
    type("print('line ' .. i * 2)\n", " >> ");
    type("end\n", "\nline 2\nline 4\nppl> ");
    type("y = 7\n", "ppl> ");
    type("y\n", "\n7\nppl> ");
    type("'gr\303\274n'\n", "\ngr\303\274n\nppl> ");
    type("help\n", "Tab completes");
    type("help(ppl.sgd)\n", "\nppl.sgd { lr, momentum = 0");
    leave();
}

static void errors_go_on(void **state) {
    (void)state;
    char *const argv[] = {"./ppl", NULL};
    begin(argv);
    type("function f() return nil + 1 end\n", "ppl> ");
    type("f()\n", "arithmetic on a nil value\nstack traceback:\n");
    expect("prompt:1: in function <prompt:1>");
    type("error({})\n", "ppl> ");
    type("ppl.nn.gtp\n", "ppl> ");
    type("undefined_name\n", "is not set");
    type("1 +\n", " >> ");
    type("\003", "^C");
    type("8 * 8\n", "\n64\nppl> "); // what was begun is forgotten
    leave();
}

static void tab_completes(void **state) {
    (void)state;
    char *const argv[] = {"./ppl", NULL};
    begin(argv);
    expect("ppl> ");
    type("ppl.adam\t", "ppl.adamw(");
    type("\003", "ppl> ");
    type("alpha_beta = 5\n", "ppl> ");
    type("alp\t\n", "\n5\nppl> ");
    type("ppl.data.t\t\t", "table  text\n"); // two that go on alike
    type("\003", "ppl> ");
    type("help 'zb-h\t1\t\n", "schedule zb-h1: ");
    type("('x'):re\t", NULL); // nothing is called on the way: nothing comes
    type("\003", "ppl> ");
    type("nothing.at.all\t", NULL);
    type("\003", "ppl> ");
    type("string.forma\t\n", "(");
    type("\003", "ppl> ");
    leave();
}

static void history_is_kept(void **state) {
    (void)state;
    char *const argv[] = {"./ppl", NULL};
    unlink(history_path);
    begin(argv);
    expect("ppl> ");
    type("111 + 222\n", "\n333\nppl> ");
    type("444 + 1\n", "\n445\nppl> ");
    type("\033[A\033[A\n", "\n333\nppl> "); // up, up
    leave();
    begin(argv);
    expect("ppl> ");
    type("\033[A\n", "\n333\nppl> "); // from the file
    type("\020\020\n", "\n445\nppl> ");
    leave();
    FILE *in = fopen(history_path, "r");
    char line[64] = "";
    assert_non_null(in);
    assert_non_null(fgets(line, sizeof line, in));
    fclose(in);
    assert_string_equal(line, "111 + 222\n");
}

static void history_that_cannot_be_had(void **state) {
    (void)state;
    char *const argv[] = {"./ppl", NULL};
    char before[sizeof history_path];
    strcpy(before, history_path);
    strcpy(history_path, "/proc/nowhere/history");
    begin(argv);
    strcpy(history_path, before);
    type("1 + 1\n", "\n2\nppl> ");
    leave();
}

static void interrupts_come_back(void **state) {
    (void)state;
    char *const argv[] = {"./ppl", NULL};
    begin(argv);
    expect("ppl> ");
    type("while true do end\n", NULL);
    usleep(300000);
    type("\003", "interrupted\nppl> ");
    type("while true do pcall(function() while true do end end) end\n", NULL);
    usleep(300000);
    type("\003", "interrupted\nppl> ");
    type("some text\003", "^C");
    type("6 * 7\n", "\n42\nppl> ");
    type("\004", NULL);
    assert_int_equal(pty_close(&terminal), 0);
}

static void terminating_ends(void **state) {
    (void)state;
    char *const argv[] = {"./ppl", NULL};
    begin(argv);
    expect("ppl> ");
    kill(terminal.pid, SIGTERM);
    assert_int_equal(pty_close(&terminal), 0);
}

// ---- a session with a trainer: 2 ms a task on the emulated device, so that what is done takes as long everywhere

static const char script[] =
    "local ppl = require 'ppl'\n"
    "local nn = ppl.nn\n"
    "return ppl.trainer { name = 'session', model = nn.gpt { layers = 2, dim = 16, heads = 2, context = 16 },\n"
    "    loss = nn.cross_entropy(), data = ppl.data.text { files = { '%s' }, context = 16 }, steps = 1000000, batch = "
    "8,\n"
    "    device = 'emulated', costs = { f = 0.002, i = 0.002, w = 0.002 }, dtype = 'f32',\n"
    "    pipeline = { stages = 2, microbatches = 4, threads = 1 } }\n";

static char folder[64];

// A path in the folder of this test's files.
static const char *file_in(const char *name) {
    static char path[2][128];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static void script_write(void) {
    strcpy(folder, "/tmp/ppl-prompt-XXXXXX");
    assert_non_null(mkdtemp(folder));
    FILE *text = fopen(file_in("text"), "w"), *out = fopen(file_in("session.lua"), "w");
    assert_non_null(text);
    assert_non_null(out);
    for (int i = 0; i < 200; i++) fprintf(text, "line %d of a text to learn\n", i);
    fprintf(out, script, file_in("text"));
    fclose(text);
    fclose(out);
}

static void script_remove(void) {
    static const char *const names[] = {"text", "session.lua", "w.safetensors"};
    char command[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(file_in(names[i]));
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
}

// What each method must say, in the order of the session.
static const struct {
    const char *line, *want;
} session[] = {
    {"run:step(3).step\n", "ppl> "},
    {"run:timings()\n", "\nstage  rank  layers  parameters  F ms"},
    {"1\n", "measured                   bubble ratio"},
    {"run:timeline()\n", "\nrank 1  |"},
    {"2\n", "waits for a value of rank 1"},
    {"run:memory()\n", "the system reports"},
    {"run:slowest()\n", "bounds the step"},
    {"run:parameters('qkv.weight')\n", "\nblocks.0.attn.qkv.weight  (48, 16)"},
    {"run:tensor('norm.b\t)\n", "f32 (16)"},
    {"run:links()\n", "gradient"},
    {"run:predicted()\n", "the step: predicted"},
    {"run:explain()\n", "\nwhat would help most:"},
    {"run:compare('gpipe', 'zb-h\t1')\n", "the weights are as they were"},
    {"run:nothing()\n", "stack traceback:"},
    {"run:use_schedule 'zb-h\t1'\n", "schedule zb-h1, "},
    {"run:timings()\n", "no step has run with schedule zb-h1"},
    {"run:step()\n", "\nstep "},
    {"run:timings().bubble.measured.ratio < 1\n", "\ntrue"},
    {"help(run.timings)\n", "\nrun:timings(): where a step's time went."},
    {"run:slo\t)\n", "bounds the step"}, // a method, behind a colon
};

static void trainer_session(void **state) {
    (void)state;
    script_write();
    char run[128], path[128];
    snprintf(run, sizeof run, "%s", file_in("run"));
    snprintf(path, sizeof path, "%s", file_in("session.lua"));
    char *const argv[] = {"./ppl", "-i", path, "--run", run, NULL};
    begin(argv);
    expect("/1000000 steps  loss"); // it trains
    type("\003", "ppl: interrupted after ");
    expect("ppl> ");
    for (size_t i = 0; i < sizeof session / sizeof *session; i++) {
        if (session[i].line[0] >= '1' && session[i].line[0] <= '9') {
            expect(session[i].want); // further down in what was printed
        } else {
            type(session[i].line, session[i].want);
        }
    }
    type("before = run:steps_done()\n", "ppl> ");
    type("run:train()\n", "/1000000 steps  loss"); // writes on in its directory
    usleep(300000);
    type("\003", "interrupted   true");
    expect("ppl> ");
    type("run:steps_done() > before, run.schedule.name\n", "\ntrue\nzb-h1\n");
    type("run:step(100000)\n", NULL);
    usleep(500000);
    type("\003", "step: interrupted, ");
    expect("ppl> ");
    type("run:save(run.directory .. '/../w.safetensors')\n", "w.safetensors");
    leave();
    assert_int_equal(access(file_in("w.safetensors"), R_OK), 0);
    assert_int_equal(access(file_in("run/trace.json"), R_OK), 0);
    script_remove();
}

int main(void) {
    strcpy(history_path, "/tmp/ppl-history-XXXXXX");
    int file = mkstemp(history_path);
    if (file >= 0) close(file);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_print),
        cmocka_unit_test(errors_go_on),
        cmocka_unit_test(tab_completes),
        cmocka_unit_test(history_is_kept),
        cmocka_unit_test(history_that_cannot_be_had),
        cmocka_unit_test(interrupts_come_back),
        cmocka_unit_test(terminating_ends),
        cmocka_unit_test(trainer_session),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(history_path);
    return failed;
}
