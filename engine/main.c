// main.c - the `ppl` program, and the only file that knows lua.h. It finds the Lua library, hands it the texts of ppl.h
// and host.h (the FFI's declarations), the arguments and a few functions that need the interpreter itself, and turns what
// comes back into an exit status. After it: lua/ppl/boot.lua; line.h reads lines at the prompt.
#include <lauxlib.h>
#include <limits.h>
#include <lua.h>
#include <luajit.h>
#include <lualib.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "host.h"
#include "line.h"
#include "world/world.h"

// Names of the library's own chunks begin so: an error with such a position is ppl's fault, not the script's.
#define LIBRARY_CHUNK "<ppl>/"

enum { EXIT_WRONG_USAGE = 2, HOOK_INSTRUCTIONS = 1000, DEEP_CALLS = 150, DEEP_PATIENCE = 10, STOP_PATIENCE = 10 };

// The headers as they were compiled, so that program and declarations cannot differ.
__asm__(".section .rodata\n"
        "ppl_header_begin: .incbin \"engine/types.h\"\n"
        ".incbin \"engine/ppl.h\"\n"
        "ppl_header_end:\n"
        "ppl_host_begin: .incbin \"engine/host.h\"\n"
        "ppl_host_end:\n"
        ".previous\n");
extern const char ppl_header_begin[], ppl_header_end[], ppl_host_begin[], ppl_host_end[];

// ---- signals: the handler touches nothing but these and what is async-signal-safe

static _Atomic(ppl_run *) watched;
static atomic_bool interrupted;
static atomic_bool terminated; // by SIGTERM: the prompt ends

static void on_signal(int signal_number) {
    if (signal_number == SIGTERM) atomic_store(&terminated, true);
    if (atomic_exchange(&interrupted, true)) { // not heeded so far: leave now
        signal(signal_number, SIG_DFL);
        raise(signal_number);
        return;
    }
    ppl_run *run = atomic_load(&watched);
    if (run) ppl_run_interrupt(run);
}

static void catch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGXFSZ, SIG_IGN); // a file that grows too large is an error of write
}

void ppl_host_watch(ppl_run *run) {
    atomic_store(&watched, run);
}
bool ppl_host_interrupted(void) {
    return atomic_exchange(&interrupted, false);
}

// ---- bounds on scripts

static int64_t budget;       // of this and the following hooks; 0 none
static int64_t instructions; // since the budget was set

void ppl_host_budget(int64_t limit) {
    budget = limit;
    instructions = 0;
}

static int guards;   // protected calls of the prompt in progress
static int stopping; // how often what runs in them was told to end; 0: it was not

// Where a script was when its calls were last deep, for some hooks more: after a stack overflow nothing else tells.
static char deep[LUA_IDSIZE + 16];
static int shallow; // hooks since

const char *ppl_host_deep(void) {
    return deep;
}

static void note_depth(lua_State *L) {
    lua_Debug frame;
    if (!lua_getstack(L, DEEP_CALLS, &frame)) {
        if (++shallow > DEEP_PATIENCE) deep[0] = 0;
        return;
    }
    shallow = 0;
    for (int level = 0; lua_getstack(L, level, &frame); level++) {
        lua_getinfo(L, "Sl", &frame);
        if (frame.currentline <= 0 || strncmp(frame.source + 1, LIBRARY_CHUNK, strlen(LIBRARY_CHUNK)) == 0) continue;
        snprintf(deep, sizeof deep, "%s:%d", frame.short_src, frame.currentline);
        return;
    }
}

// Runs every HOOK_INSTRUCTIONS of the interpreter; the JIT compiler is off, or it would not.
static void on_count(lua_State *L, lua_Debug *at) {
    if (!atomic_load(&watched) && (stopping || atomic_exchange(&interrupted, false))) {
        // A chunk that catches the error and goes on is told again, at last before each of its instructions.
        if (guards && ++stopping > STOP_PATIENCE) lua_sethook(L, on_count, LUA_MASKCOUNT, 1);
        lua_pushliteral(L, "interrupted");
        lua_error(L);
    }
    note_depth(L);
    if (!budget || (instructions += HOOK_INSTRUCTIONS) <= budget) return;
    if (instructions > 2 * budget) { // it catches the error and goes on: nothing else will stop it
        fputs("ppl: the script goes on after all the instructions it may take: it catches the error that ends it\n",
              stderr);
        _exit(1);
    }
    lua_getinfo(L, "Sl", at);
    lua_pushfstring(L, "%s:%d: is still running after all the instructions it may take", at->short_src,
                    at->currentline);
    lua_error(L);
}

// ---- terminal

int32_t ppl_host_columns(void) {
    struct winsize size;
    if (!ppl_host_terminal(STDOUT_FILENO)) return 0;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
    return size.ws_col;
}

bool ppl_host_terminal(int32_t descriptor) {
    return isatty(descriptor) == 1 && !ppl_world_current(); // mpirun gives a terminal of its own to what it reads
}

// ---- the processes of the run

int32_t ppl_host_process(void) {
    return ppl_world_process_of(ppl_world_current());
}

int32_t ppl_host_processes(void) {
    return ppl_world_processes_of(ppl_world_current());
}

int32_t ppl_host_cores(void) {
    int32_t cores = ppl_cpu_cores(), all = (int32_t)sysconf(_SC_NPROCESSORS_ONLN), local = ppl_launched().local;
    if (cores < all || ppl_host_processes() == 1) return cores; // bound to some, or alone
    return cores > local ? cores / local : 1;
}

ppl_status ppl_host_any(const char *what, int32_t flag, int32_t *out) {
    ppl_vote v = {.what = what, .any = flag != 0};
    ppl_status status = ppl_world_vote(ppl_world_current(), &v);
    *out = v.any;
    return status;
}

ppl_status ppl_host_share(const char *what, void *data, size_t bytes) {
    ppl_vote v = {.what = what};
    ppl_status status = ppl_world_vote(ppl_world_current(), &v);
    return status == PPL_OK ? ppl_world_share(ppl_world_current(), 0, data, bytes) : status;
}

// Joins the others if a launcher has started some. From here on process 0 alone is heard.
static bool join_world(ppl_world **out) {
    ppl_launch launch = ppl_launched();
    ppl_wire wire;
    *out = NULL;
    if (launch.processes == 1) return true;
    if (ppl_wire_mpi(&wire) != PPL_OK || ppl_world_open(&wire, out) != PPL_OK) {
        if (launch.process == 0) fprintf(stderr, "ppl: %s\n", ppl_error());
        return false;
    }
    ppl_world_use(*out);
    signal(SIGUSR1, on_signal); // mpirun hands this one on, and answers the others by ending the processes itself
    if ((*out)->process > 0 && !freopen("/dev/null", "w", stdout)) fclose(stdout);
    return true;
}

static char failure[8192]; // what on_error or boot found wrong

// Leaves when all others do. A failure is told once: by process 0, unless the processes have lost each other.
static int leave_world(ppl_world *w, int status) {
    bool quiet = w && w->process > 0 && w->lost == PPL_OK;
    if (failure[0] && !quiet) fprintf(stderr, "ppl: %s\n", failure);
    if (!w) return status;
    bool failed = status != EXIT_SUCCESS;
    if (failed && !failure[0]) snprintf(failure, sizeof failure, "has ended with status %d", status);
    if (ppl_world_close(w, failed ? PPL_ERR_ARG : PPL_OK, failure) == PPL_OK || failed) return status;
    if (!quiet) fprintf(stderr, "ppl: %s\n", ppl_error());
    return EXIT_FAILURE;
}

// ---- what the prompt has from here: the table that boot.lua gets

static ppl_line *line_editor;

static void guard_done(lua_State *L) {
    stopping = 0;
    lua_sethook(L, on_count, LUA_MASKCOUNT, HOOK_INSTRUCTIONS);
}

// The handler of guard: an error ends all telling to stop, then the given handler makes words of it.
static int on_guarded_error(lua_State *L) {
    guard_done(L);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, 1);
    return 1;
}

// guard(handler, f) -> true and f's results, or false and what the handler made of the error. A signal ends f, whatever it
// catches.
static int guard(lua_State *L) {
    luaL_checktype(L, 1, LUA_TFUNCTION);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_settop(L, 2);
    lua_pushvalue(L, 1);
    lua_pushcclosure(L, on_guarded_error, 1);
    lua_replace(L, 1);
    guards++;
    int failed = lua_pcall(L, 0, LUA_MULTRET, 1);
    guards--;
    guard_done(L);
    atomic_store(&interrupted, false);
    lua_pushboolean(L, !failed);
    lua_replace(L, 1);
    return lua_gettop(L);
}

// What a Tab completes: the function on top of the stack gives what to insert and what to list.
static void complete(void *self, const char *before, size_t bytes, ppl_line_answer *answer) {
    lua_State *L = self;
    lua_pushvalue(L, -1);
    lua_pushlstring(L, before, bytes);
    if (lua_pcall(L, 1, 2, 0) == 0) { // one that fails completes nothing
        snprintf(answer->insert, sizeof answer->insert, "%s", lua_isstring(L, -2) ? lua_tostring(L, -2) : "");
        snprintf(answer->list, sizeof answer->list, "%s", lua_isstring(L, -1) ? lua_tostring(L, -1) : "");
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

// open_line(history or nil) -> whether lines can be edited here.
static int open_line(lua_State *L) {
    if (!line_editor && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
        line_editor = ppl_line_open(lua_tostring(L, 1), complete, L, &terminated, &interrupted);
    lua_pushboolean(L, line_editor != NULL);
    return 1;
}

// read_line(prompt, completer) -> a text; nil at the end of input; false for a line that was given up.
static int read_line(lua_State *L) {
    const char *text = NULL, *prompt = luaL_checkstring(L, 1);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_settop(L, 2);
    fflush(stdout);
    ppl_line_end end = line_editor ? ppl_line_read(line_editor, prompt, &text) : PPL_LINE_EOF;
    atomic_store(&interrupted, false);
    if (end == PPL_LINE_TEXT) lua_pushstring(L, text);
    else if (end == PPL_LINE_CANCELLED) lua_pushboolean(L, 0);
    else lua_pushnil(L);
    return 1;
}

// remember(text): a line of history.
static int remember(lua_State *L) {
    if (line_editor) ppl_line_remember(line_editor, luaL_checkstring(L, 1));
    return 0;
}

static const luaL_Reg host_functions[] = {
    {"guard", guard}, {"open_line", open_line}, {"read_line", read_line}, {"remember", remember}, {NULL, NULL}};

// ---- the library

// Writes "<directory><tail>" into path if a boot.lua lies there.
static bool try_library(const char *directory, const char *tail, char path[PATH_MAX]) {
    char file[PATH_MAX];
    int n = snprintf(path, PATH_MAX, "%s%s", directory, tail);
    int m = snprintf(file, PATH_MAX, "%s%s/ppl/boot.lua", directory, tail);
    return n > 0 && n < PATH_MAX && m > 0 && m < PATH_MAX && access(file, R_OK) == 0;
}

// The folder that holds ppl/: beside the executable, above build/<config>/, or where `make install` put it.
static bool find_library(char path[PATH_MAX]) {
    static const char *const tails[] = {"/lua", "/../../lua", "/../share/ppl/lua"};
    char directory[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", directory, sizeof directory - 1);
    if (n <= 0) return false;
    directory[n] = 0;
    char *slash = strrchr(directory, '/');
    if (slash) *slash = 0;
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++)
        if (try_library(directory, tails[i], path)) return true;
    return false;
}

// ---- protected calls

static int exit_status = EXIT_FAILURE;

// Turns an error into its text; only the library's own faults get a traceback. A table with `usage` is wrong usage.
static int on_error(lua_State *L) {
    if (lua_istable(L, 1)) {
        lua_getfield(L, 1, "usage");
        if (lua_toboolean(L, -1)) exit_status = EXIT_WRONG_USAGE;
        lua_getfield(L, 1, "message");
        if (lua_isstring(L, -1)) return 1;
        lua_pushliteral(L, "an error that is a table without words");
        return 1;
    }
    const char *text = lua_tostring(L, 1);
    if (!text) {
        lua_pushfstring(L, "an error that is a %s, want a text", luaL_typename(L, 1));
        return 1;
    }
    if (strncmp(text, LIBRARY_CHUNK, strlen(LIBRARY_CHUNK)) != 0 || strstr(text, "stack traceback:")) return 1;
    luaL_traceback(L, L, text, 1);
    return 1;
}

// Runs boot.lua (library folder, header texts, the arguments, the functions above); it returns the exit status.
static int boot(lua_State *L, const char *library, int argc, char **argv) {
    char file[PATH_MAX + 16];
    lua_pushcfunction(L, on_error);
    snprintf(file, sizeof file, "%s/ppl/boot.lua", library);
    char text[16384];
    FILE *in = fopen(file, "rb");
    size_t bytes = in ? fread(text, 1, sizeof text, in) : 0;
    if (in) fclose(in);
    if (bytes == 0 || bytes == sizeof text) {
        snprintf(failure, sizeof failure, "%s: %zu bytes can be read, want 1 to %zu", file, bytes, sizeof text - 1);
        return EXIT_FAILURE;
    }
    int failed = luaL_loadbuffer(L, text, bytes, "=" LIBRARY_CHUNK "boot.lua");
    if (!failed) {
        lua_pushstring(L, library);
        lua_pushlstring(L, ppl_header_begin, (size_t)(ppl_header_end - ppl_header_begin));
        lua_pushlstring(L, ppl_host_begin, (size_t)(ppl_host_end - ppl_host_begin));
        lua_createtable(L, argc, 0);
        for (int i = 1; i < argc; i++) {
            lua_pushstring(L, argv[i]);
            lua_rawseti(L, -2, i);
        }
        lua_newtable(L);
        luaL_register(L, NULL, host_functions);
        failed = lua_pcall(L, 5, 1, 1);
    }
    if (!failed) return (int)lua_tointeger(L, -1);
    fflush(stdout);
    snprintf(failure, sizeof failure, "%s", lua_isstring(L, -1) ? lua_tostring(L, -1) : "an error without words");
    return exit_status;
}

// The arguments' share of main: its exit status, apart from what the other processes have to say.
static int run(const char *library, int argc, char **argv) {
    lua_State *L = luaL_newstate();
    if (!L) {
        snprintf(failure, sizeof failure, "no memory for the script interpreter");
        return EXIT_FAILURE;
    }
    luaL_openlibs(L);
    luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF); // compiled loops would run past the count hook
    lua_sethook(L, on_count, LUA_MASKCOUNT, HOOK_INSTRUCTIONS);
    catch_signals();
    int status = boot(L, library, argc, argv);
    atomic_store(&watched, NULL);
    ppl_line_close(line_editor);
    lua_close(L);
    if (fflush(stdout) != 0 && status == EXIT_SUCCESS) {
        snprintf(failure, sizeof failure, "stdout cannot be written");
        status = EXIT_FAILURE;
    }
    return status;
}

int main(int argc, char **argv) {
    char library[PATH_MAX];
    if (!find_library(library)) {
        fprintf(stderr,
                "ppl: the Lua library is missing, want it in lua/ beside the program, or in ../share/ppl/lua\n");
        return EXIT_FAILURE;
    }
    ppl_world *world;
    if (!join_world(&world)) return EXIT_FAILURE;
    return leave_world(world, run(library, argc, argv));
}
