// file.c - directories, and files that are either whole or not there.
#include "base/status.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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

static bool write_all(int fd, const char *data, size_t bytes) {
    while (bytes) {
        ssize_t n = write(fd, data, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        data += n;
        bytes -= (size_t)n;
    }
    return true;
}

ppl_status ppl_write_file(const char *path, const void *data, size_t bytes) {
    char temporary[PATH_BYTES];
    int n = snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid());
    if (n < 0 || n >= PATH_BYTES) return ppl_fail(PPL_ERR_IO, "%.80s...: the name is too long", path);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return ppl_fail(PPL_ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
    bool ok = write_all(fd, data, bytes) && fsync(fd) == 0;
    int why = errno;
    if (close(fd) != 0 && ok) ok = false, why = errno;
    if (ok && rename(temporary, path) != 0) ok = false, why = errno;
    if (ok) return PPL_OK;
    unlink(temporary);
    return ppl_fail(PPL_ERR_IO, "%s: cannot be written: %s", path, strerror(why));
}
