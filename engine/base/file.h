// file.h - a file that is either whole or not there: written under a temporary name, synced, renamed at the end.
#ifndef PPL_BASE_FILE_H
#define PPL_BASE_FILE_H
#include "ppl.h"

typedef struct ppl_new_file {
    int fd;
    bool in_place;     // a device or a pipe: written as it is
    const char *path;  // borrowed; what errors name
    char target[4096]; // bytes: the longest path; where links lead
    char temporary[4096];
} ppl_new_file;

ppl_status ppl_new_file_open(ppl_new_file *f, const char *path);
ppl_status ppl_new_file_write(ppl_new_file *f, const void *data, size_t bytes);
// Gives the file its name. Closes f, also on failure.
ppl_status ppl_new_file_finish(ppl_new_file *f);
// Gives up: nothing of it stays. For failures between open and finish.
void ppl_new_file_abandon(ppl_new_file *f);

#endif
