// file.c - directories, and files that are either whole or not there.
#include "base/file.h"
#include "base/status.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

ppl_status ppl_make_directory(const char *path) {
    char part[PATH_BYTES];
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof part) return ppl_fail(PPL_ERR_IO, "'%.80s': not a directory's name", path);
    memcpy(part, path, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (part[i] != '/' && part[i] != 0) continue;
        char kept = part[i];
        part[i] = 0;
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return ppl_fail(PPL_ERR_IO, "%s: the directory cannot be made: %s", part, strerror(errno));
        part[i] = kept;
    }
    struct stat s;
    if (stat(path, &s) != 0 || !S_ISDIR(s.st_mode)) return ppl_fail(PPL_ERR_IO, "%s: exists and is no directory", path);
    return PPL_OK;
}

static ppl_status too_long(const char *path) {
    return ppl_fail(PPL_ERR_IO, "%.80s...: the name is too long", path);
}

// Where f->target is a link: its target instead.
static ppl_status follow_link(ppl_new_file *f, bool *followed) {
    char to[PATH_BYTES], joined[2 * PATH_BYTES];
    ssize_t n = readlink(f->target, to, sizeof to - 1);
    *followed = n >= 0;
    if (n < 0) return PPL_OK; // no link
    to[n] = 0;
    const char *name = strrchr(f->target, '/');
    int folder = to[0] == '/' || !name ? 0 : (int)(name + 1 - f->target);
    int used = snprintf(joined, sizeof joined, "%.*s%s", folder, f->target, to);
    if (used < 0 || (size_t)used >= sizeof f->target) return too_long(f->path);
    memcpy(f->target, joined, (size_t)used + 1);
    return PPL_OK;
}

// A link's target is what is written, there or not; what is there and no file (a device, a pipe) is written in place, not
// replaced.
static ppl_status find_target(ppl_new_file *f, const char *path) {
    enum { MOST_LINKS = 40 };
    struct stat s;
    f->path = path;
    f->in_place = stat(path, &s) == 0 && !S_ISREG(s.st_mode);
    if (realpath(path, f->target)) return PPL_OK;
    int n = snprintf(f->target, sizeof f->target, "%s", path);
    if (n < 0 || (size_t)n >= sizeof f->target) return too_long(path);
    bool followed = true;
    for (int i = 0; followed && i < MOST_LINKS; i++) PPL_TRY(follow_link(f, &followed));
    return followed ? ppl_fail(PPL_ERR_IO, "%s: cannot be written: %s", path, strerror(ELOOP)) : PPL_OK;
}

ppl_status ppl_new_file_open(ppl_new_file *f, const char *path) {
    PPL_TRY(find_target(f, path));
    if (f->in_place) {
        f->fd = open(f->target, O_WRONLY | O_CLOEXEC);
        if (f->fd < 0) return ppl_fail(PPL_ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
        return PPL_OK;
    }
    int n = snprintf(f->temporary, sizeof f->temporary, "%s.%ld.tmp", f->target, (long)getpid());
    if (n < 0 || (size_t)n >= sizeof f->temporary) return too_long(path);
    f->fd = open(f->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (f->fd < 0) return ppl_fail(PPL_ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
    return PPL_OK;
}

static ppl_status cannot_write(const ppl_new_file *f, int why) {
    return ppl_fail(PPL_ERR_IO, "%s: cannot be written: %s", f->path, strerror(why));
}

ppl_status ppl_new_file_write(ppl_new_file *f, const void *data, size_t bytes) {
    const char *at = data;
    while (bytes) {
        ssize_t n = write(f->fd, at, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return cannot_write(f, errno);
        at += n;
        bytes -= (size_t)n;
    }
    return PPL_OK;
}

ppl_status ppl_new_file_finish(ppl_new_file *f) {
    bool ok = f->in_place || fsync(f->fd) == 0;
    int why = errno;
    if (close(f->fd) != 0 && ok) ok = false, why = errno;
    if (ok && !f->in_place && rename(f->temporary, f->target) != 0) ok = false, why = errno;
    if (ok) return PPL_OK;
    if (!f->in_place) unlink(f->temporary);
    return cannot_write(f, why);
}

void ppl_new_file_abandon(ppl_new_file *f) {
    close(f->fd);
    if (!f->in_place) unlink(f->temporary);
}

ppl_status ppl_write_file(const char *path, const void *data, size_t bytes) {
    ppl_new_file f;
    PPL_TRY(ppl_new_file_open(&f, path));
    ppl_status st = ppl_new_file_write(&f, data, bytes);
    if (st == PPL_OK) return ppl_new_file_finish(&f);
    ppl_new_file_abandon(&f);
    return st;
}
