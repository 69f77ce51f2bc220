// launch.c - what a launcher of several processes leaves in the environment. Before: main.c. After: mpi.c or alone.c.
#include "world/wire.h"
#include <stdlib.h>

// A whole number from `least`, -1 where the variable is something else or not there.
static int32_t number_in(const char *name, int32_t least) {
    const char *text = getenv(name);
    char *end = NULL;
    long n = text ? strtol(text, &end, 10) : -1;
    return text && *text && !*end && n >= least && n < INT32_MAX ? (int32_t)n : -1;
}

ppl_launch ppl_launched(void) {
    static const struct {
        const char *processes, *process, *local, *launcher;
    } known[] = {
        {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "mpirun"},
        {"PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", "mpiexec"},
        {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_SIZE", "mpirun"},
        {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_NTASKS_PER_NODE",
         "srun"}, // set within a step alone, not in a batch script
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        int32_t n = number_in(known[i].processes, 1), process = number_in(known[i].process, 0);
        int32_t local = number_in(known[i].local, 1);
        if (n < 1) continue;
        return (ppl_launch){.launcher = known[i].launcher,
                            .process = process < 0 ? 0 : process,
                            .processes = n,
                            .local = local < 0 ? n : local};
    }
    return (ppl_launch){.launcher = "", .processes = 1, .local = 1};
}
