/* SPDX-License-Identifier: MIT */
/* What a network of an ONNX file computes: its graph (graph/run.h), one image after another. */
#include <string.h>
#include "graph/network.h"
#include "graph/run.h"
#include "models/net/session.h"

typedef struct state {
    VT_R(vt_graph_run) *run; /* [capacity] */
    real *x;                 /* [capacity, pixels] the images of the last forward */
    real *value, *features;  /* of a network with a head: the graph's output or its gradient, and the features' */
} state;

static void plan(VT_R(vt_session) *s, vt_arena *a) {
    state *st = s->state;
    const vt_network *n = s->model->config.network;
    VT_R(vt_graph_run) measured;
    st->run = vt_arena_take(a, (size_t)s->capacity, sizeof *st->run);
    st->x = VT_R(vt_reals)(a, (size_t)s->capacity * vt_shape_values(n->shape));
    for (int i = 0; i < s->capacity; i++)
        VT_R(vt_graph_run_plan)(st->run ? &st->run[i] : &measured, n->g, &n->plan[s->mode != VT_GRAD_NONE], a);
    if (n->head) st->value = VT_R(vt_reals)(a, n->g->values[n->g->output].n);
    if (n->head) st->features = VT_R(vt_reals)(a, n->head->features);
    s->features = s->logits, s->feature_len = s->feature_stride = n->classes;
}

/* Sets z [classes] to the head's outputs of the graph's output st->value; leaves the head's inputs in st->features. */
static void apply_head(const vt_head *h, const state *st, int classes, real *z) {
    real *f = st->features, *mean = f + (h->first ? h->channels : 0);
    const real *v = st->value, share = 1 / (real)(h->outer * h->inner);
    memset(mean, 0, h->channels * sizeof *mean);
    for (size_t o = 0; o < h->outer; o++)
        for (size_t c = 0; c < h->channels; c++)
            for (size_t i = 0; i < h->inner; i++) mean[c] += *v++;
    for (size_t c = 0; c < h->channels; c++) mean[c] *= share;
    if (h->first) memcpy(f, st->value, h->channels * sizeof *f);
    for (int k = 0; k < classes; k++) {
        z[k] = (real)h->b[k];
        for (size_t c = 0; c < h->features; c++) z[k] += (real)h->w[(size_t)k * h->features + c] * f[c];
    }
}

/* Sets st->value to the gradient of the graph's output, from dz [classes]; overwrites st->features. */
static void reverse_head(const vt_head *h, const state *st, int classes, const real *dz) {
    real *f = st->features, *v = st->value;
    const real *mean = f + (h->first ? h->channels : 0), share = 1 / (real)(h->outer * h->inner);
    memset(f, 0, h->features * sizeof *f);
    for (int k = 0; k < classes; k++)
        for (size_t c = 0; c < h->features; c++) f[c] += (real)h->w[(size_t)k * h->features + c] * dz[k];
    for (size_t o = 0; o < h->outer; o++)
        for (size_t c = 0; c < h->channels; c++)
            for (size_t i = 0; i < h->inner; i++) *v++ = mean[c] * share;
    for (size_t c = 0; h->first && c < h->channels; c++) st->value[c] += f[c];
}

static void forward(VT_R(vt_session) *s, const real *x, int b, bool keep) {
    state *st = s->state;
    const vt_network *n = s->model->config.network;
    const size_t pixels = vt_shape_values(n->shape);
    (void)keep;
    memcpy(st->x, x, (size_t)b * pixels * sizeof *x);
    for (int i = 0; i < b; i++) {
        real *z = s->logits + i * n->classes;
        VT_R(vt_graph_forward)(&st->run[i], n->head ? st->value : z, st->x + (size_t)i * pixels);
        if (n->head) apply_head(n->head, st, n->classes, z);
    }
}

static void backward(VT_R(vt_session) *s, const real *dlogits, real *dx) {
    state *st = s->state;
    const vt_network *n = s->model->config.network;
    const size_t pixels = vt_shape_values(n->shape);
    for (int i = 0; dx && i < s->batch; i++) {
        const real *dz = dlogits + i * n->classes;
        if (n->head) reverse_head(n->head, st, n->classes, dz);
        VT_R(vt_graph_backward)(&st->run[i], dx + (size_t)i * pixels, n->head ? st->value : dz,
                                st->x + (size_t)i * pixels);
    }
}

extern const VT_R(vt_arch_ops) VT_R(vt_arch_ops_onnx);
const VT_R(vt_arch_ops) VT_R(vt_arch_ops_onnx) = {.name = "onnx",
                                                  .state_size = sizeof(state),
                                                  .plan = plan,
                                                  .forward = forward,
                                                  .backward = backward};
