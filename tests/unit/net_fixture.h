/* SPDX-License-Identifier: MIT */
/* Networks of tests/fixtures/onnx with their points, for tests of src/certify. Included after t.h with VT_DOUBLE. */
#pragma once

#include "base/mem.h"
#include "graph/network.h"
#include "graph/op.h"
#include "graph/run.h"
#include "tensors/tensors.h"

/* A fixture: network, points, labels; a run in double. */
typedef struct net {
    vt_network *n;
    double *x;
    int64_t labels[64];
    size_t points, each;
    vt_graph_run_f64 run;
    void *block;
} net;

static inline void open_net(net *o, const char *name) {
    char path[200];
    vt_tensors *st;
    vt_err e = {0};
    vt_import_options how = {.classifier = true, .fusion = VT_FUSE_GELU};
    *o = (net){0};
    snprintf(path, sizeof path, "tests/fixtures/onnx/%s.safetensors", name);
    assert_int_equal(vt_tensors_open(&st, path, &e), VT_OK);
    const vt_tensor *x = vt_tensors_find(st, "x"), *labels = vt_tensors_find(st, "labels");
    o->points = (size_t)x->shape[0], o->each = x->numel / o->points;
    if (x->ndim == 2) how.shape[0] = how.shape[1] = 1, how.shape[2] = (int64_t)o->each;
    o->x = calloc(x->numel, sizeof *o->x);
    assert_int_equal(vt_tensor_f64(st, x, o->x, x->numel, &e), VT_OK);
    assert_int_equal(vt_tensor_i64(st, labels, o->labels, o->points, &e), VT_OK);
    vt_tensors_close(st);
    snprintf(path, sizeof path, "tests/fixtures/onnx/%s.onnx", name);
    assert_int_equal(vt_network_open(&o->n, path, &how, &e), VT_OK);
    vt_arena a = {0};
    vt_graph_run_plan_f64(&o->run, o->n->g, &o->n->plan[1], &a);
    o->block = vt_alloc(a.used + 64);
    vt_arena room = {.base = o->block, .size = a.used + 64};
    vt_graph_run_plan_f64(&o->run, o->n->g, &o->n->plan[1], &room);
}

static inline void close_net(net *o) {
    vt_network_close(o->n);
    free(o->x), free(o->block);
}

static inline double uniform(void) { return (double)rand() / RAND_MAX; }

/* Label's logit less the largest other one. */
static inline double margin_of(net *o, const double *x, int64_t label) {
    double z[64], best = -INFINITY;
    vt_graph_forward_f64(&o->run, z, x);
    for (int64_t j = 0; j < o->n->classes; j++)
        if (j != label) best = fmax(best, z[j]);
    return z[label] - best;
}

/* Room for all values of the graph; constants are there. */
static inline double **take_values(const vt_graph *g) {
    double **v = calloc((size_t)g->n_values, sizeof *v);
    for (int k = 0; k < g->n_values; k++) {
        v[k] = calloc(g->values[k].n + 1, sizeof **v);
        for (size_t i = 0; vt_value_is_constant(&g->values[k]) && i < g->values[k].n; i++)
            v[k][i] = vt_value_real(&g->values[k], i);
    }
    return v;
}

static inline void free_values(const vt_graph *g, double **v) {
    for (int k = 0; k < g->n_values; k++) free(v[k]);
    free(v);
}

/* All values of the graph at x, node by node, in v [n_values]. */
static inline void compute_values(const vt_graph *g, double **v, const double *x) {
    const double *in[16];
    memcpy(v[g->input], x, g->values[g->input].n * sizeof *x);
    for (int i = 0; i < g->n_nodes; i++) {
        const vt_node *n = &g->nodes[i];
        for (int k = 0; k < n->n_in; k++) in[k] = n->in[k] < 0 ? NULL : v[n->in[k]];
        assert_true(vt_op_compute_f64(g, n, in, v[n->out]));
    }
}

/* |a - b| in linf (norm 0), l2 (1) or l1 (2). */
static inline double distance_in(int norm, const double *a, const double *b, size_t n) {
    double most = 0, sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = fabs(a[i] - b[i]);
        most = fmax(most, d), sum += d, squares += d * d;
    }
    return norm == 0 ? most : norm == 1 ? sqrt(squares) : sum;
}

/* Largest distance below which no point of a grid over the unit square is of another class. */
static inline double grid_radius(net *o, int norm, const double *at, int64_t label) {
    enum { SIDE = 100 };
    double nearest = 2;
    for (int i = 0; i <= SIDE; i++)
        for (int j = 0; j <= SIDE; j++) {
            const double x[2] = {(double)i / SIDE, (double)j / SIDE}, far = distance_in(norm, x, at, 2);
            if (far < nearest && margin_of(o, x, label) < 0) nearest = far;
        }
    return nearest;
}

/* x [n] is brought into ball and box, by one scale of the difference. */
static inline void pull_inside(int norm, double *x, const double *at, size_t n, double radius) {
    for (size_t i = 0; i < n; i++) x[i] = fmin(fmax(x[i], 0), 1);
    const double far = distance_in(norm, x, at, n);
    for (size_t i = 0; far > radius && i < n; i++) x[i] = at[i] + (x[i] - at[i]) * (radius / far) * (1 - 1e-12);
}

/* Is there a point of another class in ball and box? Tried by some gradient steps from three starts. */
static inline bool attack_finds(net *o, int norm, const double *at, int64_t label, double radius) {
    double x[1024], dx[1024], z[64], dz[64];
    for (int start = 0; start < 3; start++) {
        for (size_t i = 0; i < o->each; i++) x[i] = at[i] + radius * (2 * uniform() - 1) * (start > 0);
        for (int t = 0; t < 15; t++) {
            double size = 0;
            size_t top = 0;
            pull_inside(norm, x, at, o->each, radius);
            vt_graph_forward_f64(&o->run, z, x);
            int64_t other = label == 0;
            for (int64_t j = 0; j < o->n->classes; j++)
                if (j != label && z[j] > z[other]) other = j;
            if (z[other] > z[label]) return true;
            memset(dz, 0, sizeof dz), dz[other] = 1, dz[label] = -1;
            vt_graph_backward_f64(&o->run, dx, dz, x);
            for (size_t i = 0; i < o->each; i++) size += dx[i] * dx[i], top = fabs(dx[i]) > fabs(dx[top]) ? i : top;
            for (size_t i = 0; i < o->each; i++) {
                const double sign = dx[i] > 0 ? 1 : -1, one = i == top ? sign : 0;
                x[i] += radius / 2 * (norm == 0 ? sign / 2 : norm == 1 ? dx[i] / (sqrt(size) + 1e-30) : one);
            }
        }
    }
    return false;
}
