/* SPDX-License-Identifier: MIT */
/* A team of the processes that mpirun or srun has started, by MPI (MPI 3.1: non-blocking collectives, one-sided
 * operations). All calls of MPI stand in src/mpi, and one mutex lets one thread at a time make them, so that
 * MPI_THREAD_SERIALIZED is enough. Whoever waits sleeps between two looks: on a machine whose processors are all at
 * work a spinning rank would take the time of one that computes. */
#pragma once

#include "parallel/team.h"

/* Has a launcher started this process as one of several? Open MPI and what speaks PMIx or PMI (Slurm, MPICH). */
bool vt_mpi_launched(void);
/* Starts MPI where a launcher started this process as one of several; *out NULL: it is alone. The team lives as long as
 * the process. */
vt_status vt_mpi_open(vt_team **out, vt_err *e);
void vt_mpi_close(vt_team *t); /* accepts NULL; the last thing that a process does */
