/* SPDX-License-Identifier: MIT */
/* The ranks of a command that several processes run together. The plain program is always alone (ranks.c); the one that
 * MPI=1 makes links src/mpi/ranks.c in its place. */
#pragma once

#include "parallel/team.h"

/* Has a launcher (mpirun, srun) started this process, perhaps as one of several? */
bool vt_ranks_launched(void);
/* Joins the ranks of a launcher before the command; *out NULL: this process is alone. Of a team, rank 0 alone prints
 * from here on. */
vt_status vt_ranks_begin(vt_team **out, vt_err *e);
/* Ends after the command: waits for the other ranks. Accepts NULL. */
void vt_ranks_end(vt_team *t);
