/* SPDX-License-Identifier: MIT */
/* The gradient of one step: images are loaded, augmented, mixed and attacked, and their gradients summed, in
 * micro-batches that threads and ranks share. The sum is formed in the order of micro-batches: the same bits for any
 * number of either. */
#pragma once

#include "data/dataset.h"
#include "models/net/bounds.h"
#include "parallel/team.h"
#include "train/augment.h"
#include "train/inner.h"
#include "train/penalty.h"
#include "train/sampler.h"

/* ---- the sum over ranks ----
 * The gradients of a step's micro-batches, summed over the ranks of a team in the order of micro-batches: the same bits
 * as one process forms, for any number of ranks (MPI_Allreduce promises no order). Micro-batch m is computed by rank
 * m mod size. Every rank sums one slice of the weights, which the others send it, and sends the sum to all: each sends
 * and receives about as many bytes as its share of micro-batches has, and the gradient once more. */

typedef struct vt_reduce {
    vt_team *team;
    size_t total; /* numbers of a gradient */
    int micros;   /* micro-batches of a step, of all ranks */
    float *out;   /* [own, total] this rank's, in order */
    float *in;    /* [micros, slice] */
    vt_message *messages;
} vt_reduce;

/* Allocates the buffers of one rank, for gradients of `total` numbers in `micros` micro-batches. To be closed also
 * after a failure. */
vt_status vt_reduce_open(vt_reduce *r, vt_team *t, size_t total, int micros, vt_err *e);
void vt_reduce_close(vt_reduce *r); /* accepts a zeroed one */
/* Returns the bytes of the buffers on one of `size` ranks, at most. */
size_t vt_reduce_bytes(int size, size_t total, int micros);
/* Returns how many micro-batches rank `rank` of `size` computes. */
int vt_reduce_own(int rank, int size, int micros);
/* Keeps number `own` (0, 1, ...) of this rank's gradients. Different numbers may be kept at the same time. */
void vt_reduce_put(vt_reduce *r, int own, const float *grad);
/* Sets grad [total] to the sum of all kept gradients, on every rank. Collective, to be called after an agreement. */
void vt_reduce_sum(vt_reduce *r, float *grad);

/* ---- the step ---- */

typedef struct vt_batch_worker {
    vt_session_f32 *session;
    vt_bounds_f32 bounds; /* of objectives that read them */
    vt_inner inner;
    float *grad, *x, *partner, *target, *dz;
    float *drop;       /* stochastic depth's factors, or NULL */
    vt_step_sums sums; /* of its micro-batch */
} vt_batch_worker;

typedef struct vt_batch {
    const vt_recipe *r;
    const vt_model *m;
    const vt_dataset *data;
    const vt_sampler *sampler; /* where ids come from, the caller's; NULL: all from data, in pass `epoch` */
    const vt_objective_def_f32 *objective;
    const void *objective_params;
    double ortho; /* factor of L_AM for one image */
    int threads;
    vt_batch_worker *workers;
    float *grad; /* [params.total] the result */
    float *adv;  /* [batch, pixels] the step's adversarial images, for vt_batch_again, or NULL */
    bool again;
    vt_step_sums sums; /* of clean images where the objective sees them, else of the first micro-batch */
    vt_team *team;     /* NULL: this process alone computes every micro-batch */
    vt_reduce reduce;
    vt_step_sums *all_sums; /* [1 + size, most of one rank]: this rank's, then everyone's */
    /* the step under way */
    const int32_t *ids;
    int epoch;
    int64_t step;
    double share;
    vt_mix mix;
} vt_batch;

/* Opens at most `threads` workers; r, m, data and team must outlive b. To be closed also after a failure. */
vt_status vt_batch_open(vt_batch *b, const vt_recipe *r, const vt_model *m, const vt_dataset *data, int threads,
                        vt_team *team, vt_err *e);
/* Frees all that b holds; accepts a zeroed one. */
void vt_batch_close(vt_batch *b);
/* Computes b->grad and b->sums for the images ids [batch]; the objective's gradient is that of the mean. share: of the
 * training done. Of ranks, collective; agrees. */
vt_status vt_batch_gradient(vt_batch *b, const int32_t *ids, int epoch, int64_t step, double share, vt_err *e);
/* Computes b->grad once more, at the weights as they are now, for the images of the last vt_batch_gradient, attacked as
 * they were then. b->sums stay. Only for recipes with awp.gamma above 0. */
vt_status vt_batch_again(vt_batch *b, vt_err *e);
/* Returns the bytes that a batch takes on each of `size` ranks with that many threads. */
size_t vt_batch_bytes(const vt_recipe *r, const vt_model *m, int threads, int size);
/* Returns the next penalty that the recipe uses, from number *i of the registry on, and its parameters; NULL: no more.
 */
const vt_penalty_def_f32 *vt_next_penalty(const vt_recipe *r, int *i, const void **params);
/* Returns the radius of the inner attack, in pixel units, at a share in [0,1] of the training. */
double vt_batch_eps(const vt_recipe *r, double share);
