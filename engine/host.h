/* host.h - what the program itself (main.c) offers to its Lua library, beside ppl.h. FFI-clean like ppl.h, and read by
 * LuaJIT in the same way. */
#ifndef PPL_HOST_H
#define PPL_HOST_H
#include "ppl.h"

/* SIGINT and SIGTERM stop this run after its current step; NULL: they raise an error in the script that runs. */
void ppl_host_watch(ppl_run *run);
/* True if a signal has come since the last call. A second signal before that ends the program at once. */
bool ppl_host_interrupted(void);
/* More Lua instructions than this from now on raise an error in the script; 0: no bound. */
void ppl_host_budget(int64_t instructions);
/* "mine.lua:5": where the script was when its calls were deep, right after a stack overflow; "" later. Borrowed. */
const char *ppl_host_deep(void);
/* Columns of the terminal on stdout; 0 where stdout is none. */
int32_t ppl_host_columns(void);
/* True if a descriptor (0, 1, 2) is a terminal. */
bool ppl_host_terminal(int32_t descriptor);
/* The processes that run this script together, started by mpirun: this one, from 0, and how many. Process 0 prints. */
int32_t ppl_host_process(void);
int32_t ppl_host_processes(void);
/* Cores that are this process's share, where several run on one machine. */
int32_t ppl_host_cores(void);
/* Every process calls these in the same order. what: names the call; where processes differ in it all fail. */
/* 1 when flag is set in any process. */
ppl_status ppl_host_any(const char *what, int32_t flag, int32_t *out);
/* Bytes of process 0 become everyone's. */
ppl_status ppl_host_share(const char *what, void *data, size_t bytes);

#endif
