/* SPDX-License-Identifier: MIT */
/* The gradients of a step's micro-batches, summed over the ranks of a team in the order of micro-batches: the same bits
 * as one process forms, for any number of ranks (MPI_Allreduce promises no order). Micro-batch m is computed by rank
 * m mod size. Every rank sums one slice of the weights, which the others send it, and hands the sum round: each sends
 * and receives about as many bytes as its share of micro-batches has, and the gradient once more. */
#pragma once

#include "parallel/team.h"

typedef struct vt_reduce {
    vt_team *team;
    size_t total; /* numbers of a gradient */
    int micros;   /* micro-batches of a step, of all ranks */
    float *out;   /* [own, total] this rank's, in order */
    float *in;    /* [micros, slice] */
    vt_message *messages;
} vt_reduce;

vt_status vt_reduce_open(vt_reduce *r, vt_team *t, size_t total, int micros, vt_err *e);
void vt_reduce_close(vt_reduce *r); /* accepts a zeroed one */
size_t vt_reduce_bytes(int size, size_t total, int micros);
/* How many micro-batches rank `rank` of `size` computes. */
int vt_reduce_own(int rank, int size, int micros);
/* Keeps number `own` (0, 1, ...) of this rank's gradients. Different numbers may be kept at the same time. */
void vt_reduce_put(vt_reduce *r, int own, const float *grad);
/* grad [total] = the sum, on every rank. To be called behind an agreement. */
void vt_reduce_sum(vt_reduce *r, float *grad);
