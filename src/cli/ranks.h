/* SPDX-License-Identifier: MIT */
/* The ranks of a command that several processes run together. The plain program is always alone (ranks.c); the one that
 * MPI=1 makes links src/mpi/ranks.c in its place. */
#pragma once

#include "parallel/team.h"

/* Has a launcher (mpirun, srun) started this process, perhaps as one of several? */
bool vt_ranks_launched(void);
/* Before the command: *out NULL: this process is alone. Of a team, rank 0 alone is heard and seen from here on. */
vt_status vt_ranks_begin(vt_team **out, vt_err *e);
/* After it: waits for the others. */
void vt_ranks_end(vt_team *t);
