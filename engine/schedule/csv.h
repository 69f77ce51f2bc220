// csv.h - CSV files of compute order: cut into words by csv.c, their sends and receives judged by csv_messages.c, written by
// csv_write.c.
#ifndef PPL_SCHEDULE_CSV_H
#define PPL_SCHEDULE_CSV_H
#include "schedule/schedule.h"

typedef struct ppl_csv_word {
    ppl_word word;
    int32_t row, cell; // from 0; the row is the rank
    int32_t overlap;   // as in ppl_action
} ppl_csv_word;

typedef struct ppl_csv {
    const char *path;    // borrowed
    ppl_csv_word *words; // row by row
    size_t count, room;
    int32_t rows, groups; // groups: overlaps so far
} ppl_csv;

// "PATH:LINE: cell N, rank R, 2F5: ..." and ppl_schedule_mark's rank; the position is unknown here.
ppl_status ppl_csv_fail(const ppl_csv *c, const ppl_csv_word *w, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Writes the compute order of s and, with `messages`, the sends and receives of a chain of stages: each send behind what makes
// its value, the receives of a pair of ranks in the order of the sends. s must be free of circles. Refuses what the form has no
// words for: weights that are not synchronous, and overlaps of which one part waits for the other.
ppl_status ppl_csv_write(const ppl_schedule *s, bool messages, const char *path);
// Holds the file's communication words against the compute order of s, a checked schedule: each value that crosses ranks is
// sent once after it is made and received once before it is used, nothing else is, and what one rank sends another is
// received in the order in which it is sent. A file without such words passes.
ppl_status ppl_csv_check_messages(const ppl_csv *c, const ppl_schedule *s);

#endif
