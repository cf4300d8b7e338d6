/* SPDX-License-Identifier: MIT */
/* The attention of a network's blocks, one by one and in double: what each computes from its own input at a real image,
 * as a map with exact Jacobian-vector and vector-Jacobian products. Only networks whose attention is of all tokens to
 * all (vt_layers_check). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "base/rand.h"
#include "base/status.h"
#include "research/analysis/lipschitz.h"
#include "research/analysis/operator.h"
#include "models/model.h"

struct vt_session_f64;

/* One block's attention while it is being computed; pointers are valid inside the callback alone. Heads lie side by
 * side in the a = heads d columns of q, k, v and in the rows of w_q, w_k, w_v. */
typedef struct vt_layer {
    int block, t, c, a, heads, d;
    double scale;
    const double *x;                     /* [t, c] its input: after the norm, if the norm comes first */
    const double *q, *k, *v;             /* [t, a], row strides ldq, ldk, ldv */
    const double *p;                     /* [heads, t, ldp], rows sum to 1 */
    const double *w_q, *w_k, *w_v, *w_o; /* [a, c], w_o [c, a], out x in; q = x w_q^T + b_q; the output is (P v) w_o^T,
                                            or P v where w_o is NULL (a = c) */
    const double *b_q;                   /* [a] or NULL */
    const double *d_o;                   /* backward alone: [t, a] the loss's gradient of P v */
    int ldq, ldk, ldv, ldp;
    bool plain;       /* p = softmax(scale q k^T), whatever q and k are made of */
    bool dot;         /* and they are affine in x: what the theorems are about */
    const void *seen; /* vt_attn_record_f64 */
} vt_layer;

typedef vt_status (*vt_layer_fn)(void *ctx, const vt_layer *l, vt_err *e);

/* VT_E_UNKNOWN if the architecture's attention cannot be observed; the message lists those that can. */
vt_status vt_layers_check(const vt_model *m, vt_err *e);

/* One forward pass of x [pixels]; *z: its logits [K], of the session. Calls fn for every block in order; its first
 * failure is returned and ends the calls. keep: vt_layers_backward may follow. */
vt_status vt_layers_forward(struct vt_session_f64 *s, const double *x, bool keep, vt_layer_fn fn, void *ctx,
                            const double **z, vt_err *e);
/* One backward pass of dlogits [K] after a forward with keep: calls fn for every block from the last to the first,
 * with d_o set and x NULL. Returns fn's first failure. */
vt_status vt_layers_backward(struct vt_session_f64 *s, const double *dlogits, vt_layer_fn fn, void *ctx, vt_err *e);

/* One head of a layer whose attention is `dot`, as pointers into the layer. */
vt_head_at vt_layer_head(const vt_layer *l, int head);

/* ---- the map of a block, its Jacobian at l->x ---- */

/* head -1: x [t, c] -> (P v) w_o^T [t, c]; else x -> that head's P v [t, d], without w_o. */
typedef struct vt_layer_map {
    const vt_layer *l;
    int head;
    double *work;
} vt_layer_map;
/* Allocates the scratch of a map of layer l, which is borrowed and must stay valid. VT_E_MEMORY. */
vt_status vt_layer_map_open(vt_layer_map *m, const vt_layer *l, int head, vt_err *e);
/* Frees the scratch. */
void vt_layer_map_close(vt_layer_map *m);
/* Jacobian-vector product at l->x: tangent tx [t, c] to ty [t, c], or [t, d] of one head. map: a vt_layer_map. */
void vt_layer_jvp(void *map, double *ty, const double *tx);
/* Vector-Jacobian product at l->x: dy [t, c], or [t, d] of one head, to dx [t, c]. map: a vt_layer_map. */
void vt_layer_vjp(void *map, double *dx, const double *dy);
/* Both products as an operator, which borrows m. */
vt_operator vt_layer_operator(vt_layer_map *m);
