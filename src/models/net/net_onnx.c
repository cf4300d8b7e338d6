/* SPDX-License-Identifier: MIT */
/* What a network of an ONNX file computes: its graph (graph/run.h), one image after another. */
#include <string.h>
#include "graph/network.h"
#include "graph/run.h"
#include "models/net/session.h"

typedef struct state {
    VT_R(vt_graph_run) *run; /* [capacity] */
    real *x;                 /* [capacity, pixels] the images of the last forward */
} state;

static void plan(VT_R(vt_session) *s, vt_arena *a) {
    state *st = s->state;
    const vt_network *n = s->model->config.network;
    VT_R(vt_graph_run) measured;
    st->run = vt_arena_take(a, (size_t)s->capacity, sizeof *st->run);
    st->x = VT_R(vt_reals)(a, (size_t)s->capacity * vt_shape_values(n->shape));
    for (int i = 0; i < s->capacity; i++)
        VT_R(vt_graph_run_plan)(st->run ? &st->run[i] : &measured, n->g, &n->plan[s->mode != VT_GRAD_NONE], a);
    s->features = s->logits, s->feature_len = s->feature_stride = n->classes;
}

static void forward(VT_R(vt_session) *s, const real *x, int b, bool keep) {
    state *st = s->state;
    const vt_network *n = s->model->config.network;
    const size_t pixels = vt_shape_values(n->shape);
    (void)keep;
    memcpy(st->x, x, (size_t)b * pixels * sizeof *x);
    for (int i = 0; i < b; i++)
        VT_R(vt_graph_forward)(&st->run[i], s->logits + i * n->classes, st->x + (size_t)i * pixels);
}

static void backward(VT_R(vt_session) *s, const real *dlogits, real *dx) {
    state *st = s->state;
    const vt_network *n = s->model->config.network;
    const size_t pixels = vt_shape_values(n->shape);
    for (int i = 0; dx && i < s->batch; i++)
        VT_R(vt_graph_backward)(&st->run[i], dx + (size_t)i * pixels, dlogits + i * n->classes,
                                st->x + (size_t)i * pixels);
}

extern const VT_R(vt_arch_ops) VT_R(vt_arch_ops_onnx);
const VT_R(vt_arch_ops) VT_R(vt_arch_ops_onnx) = {.name = "onnx",
                                                  .state_size = sizeof(state),
                                                  .plan = plan,
                                                  .forward = forward,
                                                  .backward = backward};
