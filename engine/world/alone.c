// alone.c - the place of mpi.c in a build without MPI.
#include "world/wire.h"

ppl_status ppl_wire_mpi(ppl_wire *out) {
    ppl_launch l = ppl_launched();
    *out = (ppl_wire){.processes = 1};
    return ppl_fail(PPL_ERR_ARG, "%s has started %d processes, this ppl is built for one, want one built by make MPI=1",
                    l.launcher, l.processes);
}
