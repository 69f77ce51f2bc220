// pty.h - a program on a pseudo-terminal: what is typed goes in, what it prints is waited for. For tests of the prompt.
#ifndef PPL_TESTS_PTY_H
#define PPL_TESTS_PTY_H
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PTY_ROOM = 1 << 20, PTY_SECONDS = 20 };

typedef struct pty {
    pid_t pid;
    int fd;
    size_t at, length;   // of seen: up to `at` was waited for
    char seen[PTY_ROOM]; // without escape sequences and carriage returns
    int escape;          // 1 behind an escape, 2 inside a sequence
    bool gone;
} pty;

// Starts a command. environment: "NAME=value" beside the caller's, up to NULL. false: this machine gives no terminal.
static inline bool pty_open(pty *p, char *const argv[], char *const environment[]) {
    struct winsize size = {.ws_row = 50, .ws_col = 120};
    memset(p, 0, sizeof *p);
    p->pid = forkpty(&p->fd, NULL, NULL, &size);
    if (p->pid < 0) return false;
    if (p->pid == 0) {
        for (int i = 0; environment[i]; i++) putenv(environment[i]);
        execvp(argv[0], argv);
        _exit(127);
    }
    return true;
}

static inline void pty_take(pty *p, const char *bytes, ssize_t n) {
    for (ssize_t i = 0; i < n; i++) {
        char c = bytes[i];
        if (p->escape == 1) p->escape = c == '[' ? 2 : 0;
        else if (p->escape == 2) p->escape = c >= '@' && c <= '~' ? 0 : 2;
        else if (c == 27) p->escape = 1;
        else if (c != '\r' && c != 7 && p->length + 1 < sizeof p->seen) p->seen[p->length++] = c;
    }
    p->seen[p->length] = 0;
}

// Reads what has come, waiting at most so many milliseconds for something.
static inline void pty_read(pty *p, int milliseconds) {
    struct pollfd in = {.fd = p->fd, .events = POLLIN};
    if (poll(&in, 1, milliseconds) <= 0) return;
    char bytes[4096];
    ssize_t n = read(p->fd, bytes, sizeof bytes);
    if (n <= 0) p->gone = true; // the program has ended
    else pty_take(p, bytes, n);
}

static inline double pty_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Waits for a text behind what was waited for before; false when it does not come.
static inline bool pty_expect(pty *p, const char *text) {
    double end = pty_now() + PTY_SECONDS;
    for (;;) {
        char *found = strstr(p->seen + p->at, text);
        if (found) {
            p->at = (size_t)(found - p->seen) + strlen(text);
            return true;
        }
        if (p->gone || pty_now() > end) {
            printf("does not come: %s\nwhat came since the last text:\n%s\n", text, p->seen + p->at);
            return false;
        }
        pty_read(p, 100);
    }
}

static inline void pty_send(pty *p, const char *text) {
    for (size_t at = 0, bytes = strlen(text); at < bytes;) {
        ssize_t n = write(p->fd, text + at, bytes - at);
        if (n <= 0) return;
        at += (size_t)n;
    }
}

// Waits for the end; the exit status, -1 when a signal ended it or it had to be killed.
static inline int pty_close(pty *p) {
    double end = pty_now() + PTY_SECONDS;
    int status = 0;
    while (waitpid(p->pid, &status, WNOHANG) == 0) {
        if (pty_now() > end) kill(p->pid, SIGKILL);
        pty_read(p, 50);
        if (p->gone) usleep(10000);
    }
    close(p->fd);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#endif
