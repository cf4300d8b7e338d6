/* SPDX-License-Identifier: MIT */
/* Certified radii: every bound against values of the network at points of the box; radii of networks of two numbers
 * against all points of a grid; attacks at certified radii; what has no bound is undecided. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "t.h"
#define VT_DOUBLE
#include "base/mem.h"
#include "certify/certify.h"
#include "certify/relax.h"
#include "graph/network.h"
#include "graph/op.h"
#include "graph/run.h"
#include "tensors/tensors.h"

static const char *const nets[] = {"certify_linear",    "certify_relu", "certify_bent",    "certify_curved",
                                   "certify_attention", "certify_norm", "certify_largest", "conv",
                                   "attention"};
enum { PLANES = 7 };

/* A fixture: network, points, labels; a run in double. */
typedef struct net {
    vt_network *n;
    double *x;
    int64_t labels[64];
    size_t points, each;
    vt_graph_run_f64 run;
    void *block;
} net;

static void open_net(net *o, const char *name) {
    char path[200];
    vt_tensors *st;
    vt_err e = {0};
    vt_import_options how = {.classifier = true, .unfused = true};
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

static void close_net(net *o) {
    vt_network_close(o->n);
    free(o->x), free(o->block);
}

static double uniform(void) { return (double)rand() / RAND_MAX; }

/* Label's logit less the largest other one. */
static double margin_of(net *o, const double *x, int64_t label) {
    double z[64], best = -INFINITY;
    vt_graph_forward_f64(&o->run, z, x);
    for (int64_t j = 0; j < o->n->classes; j++)
        if (j != label) best = fmax(best, z[j]);
    return z[label] - best;
}

/* ---- bounds of every value ---- */

/* All values of the graph at x, node by node, in v [n_values]. */
static void compute_values(const vt_graph *g, double **v, const double *x) {
    const double *in[16];
    memcpy(v[g->input], x, g->values[g->input].n * sizeof *x);
    for (int i = 0; i < g->n_nodes; i++) {
        const vt_node *n = &g->nodes[i];
        for (int k = 0; k < n->n_in; k++) in[k] = n->in[k] < 0 ? NULL : v[n->in[k]];
        assert_true(vt_op_compute_f64(g, n, in, v[n->out]));
    }
}

static void check_values(const vt_relax *r, double *const *v, const char *name) {
    for (int i = 0; i < r->g->n_nodes; i++) {
        const int out = r->g->nodes[i].out;
        const vt_ranges *s = &r->of[out];
        for (size_t k = 0; k < r->g->values[out].n; k++)
            if (!(v[out][k] >= s->lo[k] && v[out][k] <= s->hi[k]))
                fail_msg("%s: node %d (%s), number %zu is %.17g, not in [%.17g, %.17g]", name, i,
                         vt_op_at_f64(r->g->nodes[i].op)->name, k, v[out][k], s->lo[k], s->hi[k]);
    }
}

static void set_weights(const void *ctx, size_t i, double *a) {
    for (size_t k = 0; k < 3; k++) a[k] = ((const double *)ctx)[3 * i + k];
}

static void test_bounds_hold(void **state) {
    (void)state;
    static const double radii[] = {0, 1e-4, 0.03, 0.2};
    for (size_t m = 0; m < T_COUNT(nets); m++) {
        net o;
        vt_relax *r;
        vt_err e = {0};
        open_net(&o, nets[m]);
        const vt_graph *g = o.n->g;
        assert_int_equal(vt_relax_open(&r, g, 2, &e), VT_OK);
        double **v = calloc((size_t)g->n_values, sizeof *v), *lo = calloc(o.each, sizeof *lo),
               *hi = calloc(o.each, sizeof *hi);
        double *x = calloc(o.each, sizeof *x), weights[12], low[4];
        for (int k = 0; k < g->n_values; k++) {
            v[k] = calloc(g->values[k].n + 1, sizeof **v);
            for (size_t i = 0; vt_value_is_constant(&g->values[k]) && i < g->values[k].n; i++)
                v[k][i] = vt_value_real(&g->values[k], i);
        }
        for (size_t p = 0; p < 2 * T_COUNT(radii); p++) {
            const double radius = radii[p / 2];
            for (size_t i = 0; i < o.each; i++) {
                const double at = o.x[p % 2 * o.each + i];
                lo[i] = at - radius, hi[i] = at + radius;
            }
            r->policy = (int)p % 3, r->steps = (int)(p / 2 % 2) * 4;
            if (vt_relax_box(r, lo, hi, &e) != VT_OK) continue; /* undecided */
            for (size_t i = 0; i < 12; i++) weights[i] = 2 * uniform() - 1;
            const int out = g->values[g->output].alias >= 0 ? g->values[g->output].alias : g->output;
            assert_int_equal(vt_relax_rows(r, out, 4, set_weights, weights, low, &e), VT_OK);
            for (int t = 0; t < 60; t++) {
                for (size_t i = 0; i < o.each; i++) {
                    const double f = t % 3 ? uniform() : rand() % 2;
                    x[i] = f == 1 ? hi[i] : lo[i] + f * (hi[i] - lo[i]);
                }
                compute_values(g, v, x);
                check_values(r, v, nets[m]);
                for (size_t i = 0; i < 4; i++)
                    assert_true(low[i] <= weights[3 * i] * v[out][0] + weights[3 * i + 1] * v[out][1] +
                                              weights[3 * i + 2] * v[out][2]);
            }
        }
        for (int k = 0; k < g->n_values; k++) free(v[k]);
        free(v), free(lo), free(hi), free(x);
        vt_relax_close(r), close_net(&o);
    }
}

/* Lines of functions of one number lie on their sides, close to them where the interval is small. */
static void test_lines(void **state) {
    (void)state;
    static const vt_scalar *const f[] = {&vt_scalar_reciprocal, &vt_scalar_square, &vt_scalar_rsqrt};
    for (int t = 0; t < 3000; t++) {
        const double l = 0.01 + 5 * uniform(), u = l + (t % 2 ? 1e-6 : 10) * uniform();
        const vt_lines s = vt_scalar_lines(f[t % 3], NULL, l, u, 0);
        for (int i = 0; i <= 20; i++) {
            const double x = l + i / 20.0 * (u - l), y = t % 3 == 0 ? 1 / x : t % 3 == 1 ? x * x : 1 / sqrt(x);
            assert_true(x > u || (s.kl * x + s.bl <= y && s.ku * x + s.bu >= y && s.lo <= y && s.hi >= y));
        }
        if (t % 2) assert_true(s.hi - s.lo <= 2.1e6 * (u - l) + 1e-9);
    }
}

/* ---- radii ---- */

/* Largest linf distance below which no point of a grid over the square is of another class. */
static double grid_radius(net *o, const double *at, int64_t label) {
    enum { SIDE = 100 };
    double nearest = 1;
    for (int i = 0; i <= SIDE; i++)
        for (int j = 0; j <= SIDE; j++) {
            const double x[2] = {(double)i / SIDE, (double)j / SIDE};
            const double far = fmax(fabs(x[0] - at[0]), fabs(x[1] - at[1]));
            if (far < nearest && margin_of(o, x, label) < 0) nearest = far;
        }
    return nearest;
}

static bool attack_finds(net *o, const double *at, int64_t label, double radius) {
    double x[1024], dx[1024], z[64], dz[64];
    for (int start = 0; start < 3; start++) {
        for (size_t i = 0; i < o->each; i++)
            x[i] = fmin(fmax(at[i] + radius * (2 * uniform() - 1) * (start > 0), 0), 1);
        for (int t = 0; t < 15; t++) {
            vt_graph_forward_f64(&o->run, z, x);
            int64_t other = label == 0;
            for (int64_t j = 0; j < o->n->classes; j++)
                if (j != label && z[j] > z[other]) other = j;
            if (z[other] > z[label]) return true;
            memset(dz, 0, sizeof dz), dz[other] = 1, dz[label] = -1;
            vt_graph_backward_f64(&o->run, dx, dz, x);
            for (size_t i = 0; i < o->each; i++) {
                const double to = x[i] + radius / 4 * (dx[i] > 0 ? 1 : -1);
                x[i] = fmin(fmax(fmin(fmax(to, at[i] - radius), at[i] + radius), 0), 1);
            }
        }
    }
    return false;
}

static void test_radii(void **state) {
    (void)state;
    for (size_t m = 0; m < T_COUNT(nets); m++) {
        net o;
        vt_certify *c;
        vt_err e = {0};
        double sum = 0, truth = 0;
        open_net(&o, nets[m]);
        const vt_certify_options how = {.seconds = 600, .boxes = m < 4 ? 40 : 3, .threads = 1};
        assert_int_equal(vt_certify_open(&c, o.n->g, &how, &e), VT_OK);
        for (size_t i = 0; i < 2 && i < o.points; i++) {
            vt_certified got;
            const double *x = o.x + i * o.each;
            assert_int_equal(vt_certify_point(c, x, o.labels[i], &got, &e), VT_OK);
            if (!(got.radius > 0 && got.boxes > 1)) fail_msg("%s: point %zu has radius %g", nets[m], i, got.radius);
            if (m < PLANES) {
                const double known = grid_radius(&o, x, o.labels[i]);
                if (!(got.radius <= known)) fail_msg("%s: %zu: %g above %g", nets[m], i, got.radius, known);
                sum += got.radius, truth += known;
            }
            assert_false(attack_finds(&o, x, o.labels[i], got.radius));
            assert_int_equal(vt_certify_point(c, x, (o.labels[i] + 1) % o.n->classes, &got, &e), VT_OK);
            assert_true(got.radius == 0);
        }
        /* few boxes do not reach far where lines are wide */
        if (m < 4 && !(sum >= (strcmp(nets[m], "certify_curved") ? 0.4 : 0.25) * truth))
            fail_msg("%s: %g of %g", nets[m], sum, truth);
        vt_certify_close(c), close_net(&o);
    }
}

/* ---- what must not be certified ---- */

/* Of a network whose class depends on the order in which float32 sums. */
static void test_order_of_sums(void **state) {
    (void)state;
    net o;
    vt_certify *c;
    vt_certified got;
    vt_err e = {0};
    open_net(&o, "certify_order");
    const vt_certify_options how = {.unboxed = true, .seconds = 1, .threads = 1};
    assert_true(margin_of(&o, o.x, 0) == 0.5);
    assert_int_equal(vt_certify_open(&c, o.n->g, &how, &e), VT_OK);
    assert_int_equal(vt_certify_point(c, o.x, 0, &got, &e), VT_OK);
    assert_true(got.radius == 0 && got.margin < 0);
    vt_certify_close(c), close_net(&o);
}

static void test_not_finite(void **state) {
    (void)state;
    static const double bad[][2] = {{0.5, INFINITY}, {NAN, 0.5}, {0.5, NAN}, {0.5, 0.4}, {-1e308, 1e308}};
    net o;
    vt_relax *r;
    vt_err e = {0};
    open_net(&o, "certify_relu");
    assert_int_equal(vt_relax_open(&r, o.n->g, 1, &e), VT_OK);
    for (size_t i = 0; i < T_COUNT(bad); i++) {
        const double lo[2] = {0, bad[i][0]}, hi[2] = {1, bad[i][1]};
        assert_int_equal(vt_relax_box(r, lo, hi, &e), VT_E_NUMERIC);
    }
    vt_relax_close(r), close_net(&o);
}

static void test_refused(void **state) {
    (void)state;
    vt_network *n;
    vt_certify *c;
    vt_err e = {0};
    assert_int_equal(vt_network_open(&n, "tests/fixtures/onnx/moves.onnx",
                                     &(vt_import_options){.classifier = true, .unfused = true}, &e),
                     VT_OK);
    assert_int_equal(vt_certify_open(&c, n->g, &(vt_certify_options){.seconds = 1, .threads = 1}, &e), VT_E_USAGE);
    assert_non_null(strstr(e.text, "no bounds are known for operator"));
    assert_null(c);
    vt_network_close(n);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bounds_hold), cmocka_unit_test(test_lines),
                                       cmocka_unit_test(test_radii),       cmocka_unit_test(test_order_of_sums),
                                       cmocka_unit_test(test_not_finite),  cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
