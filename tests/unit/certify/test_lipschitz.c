/* SPDX-License-Identifier: MIT */
/* Lipschitz bounds: norms against singular values and dense convolutions; distances of every value against points of
 * the ball, in double and in float32; constants against networks whose constant is known; what has no bound. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "t.h"
#define VT_DOUBLE
#include "certify/lipschitz.h"
#include "certify/spectral.h"
#include "certify/spread.h"
#include "graph/write.h"
#include "linalg/svd.h"
#include "models/export/export.h"
#include "models/net/session.h"
#include "net_fixture.h"

static const char *const nets[] = {"certify_linear", "certify_relu",      "certify_bent", "certify_gelu",
                                   "certify_curved", "certify_attention", "certify_norm", "certify_largest",
                                   "certify_sides",  "certify_outer",     "conv",         "attention"};

/* ---- norms ---- */

static double largest_singular(const double *a, int rows, int cols) {
    double sigma[512];
    vt_err e = {0};
    assert_int_equal(vt_svd_values(sigma, a, rows, cols, cols, &e), VT_OK);
    return sigma[0];
}

static void test_norms(void **state) {
    (void)state;
    static double a[80 * 80], work[2 * 80 * 80];
    for (int t = 0; t < 40; t++) {
        const int rows = 1 + rand() % 80, cols = 1 + rand() % 80, n = rows < cols ? rows : cols;
        const double scale = pow(10, t % 5 * 30 - 60);
        for (int i = 0; i < rows * cols; i++) a[i] = scale * (t % 3 ? 2 * uniform() - 1 : i % (cols + 1) == 0);
        const double truth = largest_singular(a, rows, cols), got = vt_norm_above(a, rows, cols, cols, 9, work);
        /* above the exact norm: the SVD's own error is some units of 2^-53; and no further than the method allows */
        assert_true(got >= truth * (1 - 1e-14) && got <= truth * pow(n, 1.0 / 2048) * (1 + 1e-10));
    }
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < 6; i++) a[i] = 1;
        a[k] = k < 2 ? NAN : k < 3 ? INFINITY : 1e200;
        assert_true(!isfinite(vt_norm_above(a, 2, 3, 3, 9, work)));
    }
    memset(a, 0, sizeof a);
    assert_true(vt_norm_above(a, 5, 4, 4, 9, work) == 0);
    a[3] = 1e-200;
    assert_true(vt_norm_above(a, 5, 4, 4, 9, work) >= 1e-200);
}

/* The convolution as a matrix [out pixels, in pixels], by its definition. */
static void dense_convolution(double *m, const vt_conv *p, const double *w) {
    const vt_windows *v = &p->w;
    const int64_t o = p->out, per = v->channels / p->groups, all = v->channels * v->pixels_in;
    memset(m, 0, (size_t)(o * v->pixels_out * all) * sizeof *m);
    for (int64_t c = 0; c < o; c++)
        for (int64_t q = 0; q < v->pixels_out; q++)
            for (int64_t i = 0; i < per; i++)
                for (int64_t k = 0; k < v->taps; k++) {
                    const int64_t at = vt_windows_at(v, q, k), from = c / (o / p->groups) * per + i;
                    if (at >= 0)
                        m[(c * v->pixels_out + q) * all + from * v->pixels_in + at] += w[(c * per + i) * v->taps + k];
                }
}

static void test_convolutions(void **state) {
    (void)state;
    static const struct {
        int channels, out, groups, kernel, stride, dilation, pad;
        double most; /* of bound over truth, on an 8x8 map */
    } cases[] = {{3, 4, 1, 3, 1, 1, 1, 1.15}, {4, 2, 1, 4, 4, 1, 0, 1.001}, {4, 4, 4, 3, 1, 1, 1, 1.2},
                 {2, 6, 2, 3, 2, 1, 1, 1.4},  {3, 3, 1, 2, 1, 2, 1, 1.25},  {2, 3, 1, 5, 1, 1, 2, 1.4},
                 {5, 3, 1, 1, 1, 1, 0, 1.001}};
    for (size_t t = 0; t < T_COUNT(cases); t++) {
        const int k = cases[t].kernel,
                  side = (8 + 2 * cases[t].pad - (k - 1) * cases[t].dilation - 1) / cases[t].stride + 1;
        const vt_conv p = {.w = {.n = 1,
                                 .channels = cases[t].channels,
                                 .in = {1, 8, 8},
                                 .out = {1, side, side},
                                 .kernel = {1, k, k},
                                 .stride = {1, cases[t].stride, cases[t].stride},
                                 .dilation = {1, cases[t].dilation, cases[t].dilation},
                                 .before = {0, cases[t].pad, cases[t].pad},
                                 .pixels_in = 64,
                                 .pixels_out = (int64_t)side * side,
                                 .taps = (int64_t)k * k},
                           .groups = cases[t].groups,
                           .out = cases[t].out};
        const int rows = cases[t].out * side * side, cols = cases[t].channels * 64;
        double *m = calloc((size_t)rows * (size_t)cols, sizeof *m), w[200], got;
        vt_err e = {0};
        for (int i = 0; i < 200; i++) w[i] = 2 * uniform() - 1;
        dense_convolution(m, &p, w);
        assert_int_equal(vt_conv_norm_above(&got, &p, w, &e), VT_OK);
        const double truth = largest_singular(m, rows, cols);
        if (!(got >= truth * (1 - 1e-13) && got <= truth * cases[t].most))
            fail_msg("convolution %zu: %.17g of %.17g", t, got, truth);
        free(m);
    }
}

/* ---- distances ---- */

/* A point at most `radius` from x: in a random direction, or along one number. */
static void point_near(double *to, const double *x, size_t n, double radius, int kind) {
    double size = 0;
    for (size_t i = 0; i < n; i++) to[i] = kind % 3 ? 2 * uniform() - 1 : 0;
    if (kind % 3 == 0) to[(size_t)rand() % n] = rand() % 2 ? 1 : -1;
    for (size_t i = 0; i < n; i++) size += to[i] * to[i];
    for (size_t i = 0; i < n; i++) to[i] = x[i] + radius * (1 - 1e-12) * to[i] / sqrt(size);
}

bool vt_op_compute_f32(const vt_graph *g, const vt_node *n, const float *const *x, float *y); /* graph/op.h */

/* As compute_values, in float32. */
static void compute_floats(const vt_graph *g, double **v, const double *x) {
    memcpy(v[g->input], x, g->values[g->input].n * sizeof *x);
    for (int i = 0; i < g->n_nodes; i++) {
        const vt_node *n = &g->nodes[i];
        float *in[16] = {0}, *y = calloc(g->values[n->out].n + 1, sizeof *y);
        for (int k = 0; k < n->n_in; k++) {
            const size_t count = n->in[k] < 0 ? 0 : g->values[n->in[k]].n;
            in[k] = count ? calloc(count, sizeof **in) : NULL;
            for (size_t j = 0; j < count; j++) in[k][j] = (float)v[n->in[k]][j];
        }
        assert_true(vt_op_compute_f32(g, n, (const float *const *)in, y));
        for (size_t j = 0; j < g->values[n->out].n; j++) v[n->out][j] = (double)y[j];
        for (int k = 0; k < n->n_in; k++) free(in[k]);
        free(y);
    }
}

static void test_distances(void **state) {
    (void)state;
    static const double radii[] = {1e-6, 1e-3, 0.02, 0.2};
    for (size_t m = 0; m < T_COUNT(nets); m++) {
        net o;
        vt_spread s;
        vt_err e = {0};
        size_t bounded = 0;
        open_net(&o, nets[m]);
        const vt_graph *g = o.n->g;
        assert_int_equal(vt_spread_open(&s, g, NULL, &e), VT_OK);
        double **v = take_values(g), *x = calloc(o.each, sizeof *x);
        for (size_t p = 0; p < 2 * T_COUNT(radii); p++) {
            vt_spread_centre(&s, o.x + p % 2 * o.each);
            vt_spread_ball(&s, radii[p / 2]);
            for (int t = 0; t < 60; t++) {
                point_near(x, o.x + p % 2 * o.each, o.each, radii[p / 2], t);
                if (t % 4)
                    compute_values(g, v, x);
                else
                    compute_floats(g, v, x);
                for (int i = 0; i < g->n_nodes; i++) {
                    const int out = g->nodes[i].out;
                    const double far = distance_in(1, v[out], s.v[out], g->values[out].n);
                    if (!(far <= s.d[out]))
                        fail_msg("%s: node %d (%s) moved by %.17g, not %.17g", nets[m], i,
                                 vt_op_at_f64(g->nodes[i].op)->name, far, s.d[out]);
                    bounded += isfinite(s.d[out]);
                }
            }
        }
        assert_true(bounded > 1000);
        free_values(g, v), free(x);
        vt_spread_close(&s), close_net(&o);
    }
}

/* ---- radii and constants ---- */

static void test_margins(void **state) {
    (void)state;
    for (size_t m = 0; m < T_COUNT(nets); m++) {
        net o;
        vt_lipschitz *l;
        vt_err e = {0};
        double dx[1024], z[64], dz[64], steepest = 0;
        open_net(&o, nets[m]);
        assert_int_equal(vt_lipschitz_open(&l, o.n->g, &(vt_certify_options){.norm = VT_CERTIFY_L2}, &e), VT_OK);
        for (size_t i = 0; i < 4 && i < o.points; i++) {
            vt_certified got, one;
            const double *x = o.x + i * o.each;
            assert_int_equal(vt_lipschitz_point(l, x, o.labels[i], &got, &e), VT_OK);
            if (!(got.radius > 0)) fail_msg("%s: point %zu has no radius", nets[m], i);
            if (o.each == 2) assert_true(got.radius <= grid_radius(&o, 1, x, o.labels[i]));
            assert_false(attack_finds(&o, 1, x, o.labels[i], got.radius));
            assert_int_equal(vt_lipschitz_point(l, x, (o.labels[i] + 1) % o.n->classes, &one, &e), VT_OK);
            assert_true(one.radius == 0 && one.margin < 0);
            for (int64_t k = 0; k < o.n->classes; k++) { /* gradients of all differences of logits */
                memset(dz, 0, sizeof dz), dz[k] = 1, dz[(k + 1) % o.n->classes] = -1;
                vt_graph_forward_f64(&o.run, z, x), vt_graph_backward_f64(&o.run, dx, dz, x);
                steepest = fmax(steepest, distance_in(1, dx, (double[1024]){0}, o.each));
            }
        }
        const double constant = vt_lipschitz_constant(l);
        assert_true(isnan(constant) || constant >= steepest);
        /* of a linear network: the constant itself, up to what the products' norms are above it */
        if (m == 0 && !(constant <= steepest * 1.001)) fail_msg("%s: %g, not %g", nets[m], constant, steepest);
        assert_true(isnan(constant) == ((m >= 4 && m <= 6) || m == 8 || m == 9) || m == 11);
        vt_lipschitz_close(l), close_net(&o);
    }
}

static void test_one_radius(void **state) {
    (void)state;
    net o;
    vt_err e = {0};
    open_net(&o, "certify_relu");
    for (int k = 0; k < 3; k++) {
        vt_lipschitz *l;
        vt_certified got;
        const double radius = k ? k == 1 ? 0.05 : 10 : 0;
        const vt_certify_options how = {.norm = VT_CERTIFY_L2, .radius = radius, .unboxed = true};
        assert_int_equal(vt_lipschitz_open(&l, o.n->g, &how, &e), VT_OK);
        assert_int_equal(vt_lipschitz_point(l, o.x, o.labels[0], &got, &e), VT_OK);
        assert_true(k == 0 ? got.radius > 0.06 && got.radius < 0.1 : got.radius == (k == 1 ? 0.05 : 0));
        vt_lipschitz *other;
        vt_certified same;
        assert_int_equal(vt_lipschitz_copy(&other, l, &e), VT_OK);
        assert_int_equal(vt_lipschitz_point(l, o.x, o.labels[0], &got, &e), VT_OK);
        assert_int_equal(vt_lipschitz_point(other, o.x, o.labels[0], &same, &e), VT_OK);
        assert_true(same.radius == got.radius && same.margin == got.margin);
        vt_lipschitz_close(other), vt_lipschitz_close(l);
    }
    close_net(&o);
}

/* ---- what must not be certified ---- */

static void test_order_of_sums(void **state) {
    (void)state;
    net o;
    vt_lipschitz *l;
    vt_certified got;
    vt_err e = {0};
    open_net(&o, "certify_order");
    assert_true(margin_of(&o, o.x, 0) == 0.5);
    assert_int_equal(vt_lipschitz_open(&l, o.n->g, &(vt_certify_options){.unboxed = true}, &e), VT_OK);
    assert_int_equal(vt_lipschitz_point(l, o.x, 0, &got, &e), VT_OK);
    assert_true(got.radius == 0 && got.margin < 0);
    vt_lipschitz_close(l), close_net(&o);
}

static void test_not_finite(void **state) {
    (void)state;
    static const double bad[][2] = {{NAN, 0.5}, {0.5, INFINITY}, {1e300, 0.5}};
    net o;
    vt_lipschitz *l;
    vt_certified got;
    vt_err e = {0};
    open_net(&o, "certify_linear");
    assert_int_equal(vt_lipschitz_open(&l, o.n->g, &(vt_certify_options){.unboxed = true}, &e), VT_OK);
    for (size_t i = 0; i < T_COUNT(bad); i++)
        for (int label = 0; label < 3; label++) {
            assert_int_equal(vt_lipschitz_point(l, bad[i], label, &got, &e), VT_OK);
            assert_true(got.radius == 0);
        }
    vt_lipschitz_close(l), close_net(&o);
}

static void test_refused(void **state) {
    (void)state;
    net o;
    vt_lipschitz *l;
    vt_network *n;
    vt_err e = {0};
    const vt_certify_options how = {.norm = VT_CERTIFY_L2};
    assert_int_equal(vt_network_open(&n, "tests/fixtures/onnx/moves.onnx",
                                     &(vt_import_options){.classifier = true, .fusion = VT_FUSE_GELU}, &e),
                     VT_OK);
    assert_int_equal(vt_lipschitz_open(&l, n->g, &how, &e), VT_E_USAGE);
    assert_non_null(strstr(e.text, "no Lipschitz bound is known for operator"));
    assert_null(l);
    vt_network_close(n);
    open_net(&o, "certify_relu"); /* and a weight that is not finite */
    for (int i = 0; i < o.n->g->n_values; i++) {
        vt_value *v = &o.n->g->values[i];
        double *bad = v->reals || v->floats ? vt_heap_take(&o.n->g->heap, v->n, sizeof *bad) : NULL;
        for (size_t k = 0; bad && k < v->n; k++) bad[k] = INFINITY;
        if (bad) v->reals = bad, v->floats = NULL;
    }
    assert_int_equal(vt_lipschitz_open(&l, o.n->g, &how, &e), VT_E_NUMERIC);
    assert_non_null(strstr(e.text, "there is no bound"));
    close_net(&o);
}

/* PRelu of slopes 1, -3, 0.5, 2 and then the second number alone: steepest by 3, where that is below 0. */
static void test_slopes(void **state) {
    (void)state;
    char path[] = "/tmp/vitrine-slopes-XXXXXX";
    static const float w[4 * 2] = {0, 0, 1, 0, 0, 0, 0, 0};
    close(mkstemp(path));
    vt_put *p = vt_put_open();
    int v = vt_put_reshape(p, vt_put_input(p, "x", VT_DIMS(1, 2, 2)), VT_DIMS(0, 4));
    v = vt_put_binary(p, "PRelu", v, vt_put_reals(p, VT_DIMS(4), (double[4]){1, -3, 0.5, 2}));
    v = vt_put_binary(p, "MatMul", v, vt_put_floats(p, "w", VT_DIMS(4, 2), w));
    vt_put_output(p, v, "logits", 2);
    vt_network *n;
    vt_lipschitz *l;
    vt_err e = {0};
    assert_int_equal(vt_put_file(p, "slopes", path, &e), VT_OK);
    if (vt_network_open(&n, path, &(vt_import_options){.classifier = true, .fusion = VT_FUSE_GELU}, &e) != VT_OK)
        fail_msg("%s", e.text);
    assert_int_equal(vt_lipschitz_open(&l, n->g, &(vt_certify_options){.norm = VT_CERTIFY_L2}, &e), VT_OK);
    t_le(3 * (1 - 1e-9), vt_lipschitz_constant(l), "the constant");
    t_le(vt_lipschitz_constant(l), 3 * (1 + 1e-3), "the constant");
    vt_lipschitz_close(l), vt_network_close(n), vt_put_close(p), remove(path);
}

/* The sum of an outer product of x with itself against 5.5: at 1/2 four times, class 1 as far as sqrt(5.5) - 2 over 2.
 * Squares of each number would move half as far. */
static void test_outer_product(void **state) {
    (void)state;
    char path[] = "/tmp/vitrine-outer-XXXXXX";
    static float w[16 * 2];
    for (int i = 0; i < 16; i++) w[2 * i] = 1;
    close(mkstemp(path));
    vt_put *p = vt_put_open();
    const int x = vt_put_input(p, "x", VT_DIMS(1, 2, 2));
    int v = vt_put_binary(p, "Mul", vt_put_reshape(p, x, VT_DIMS(0, 4, 1)), vt_put_reshape(p, x, VT_DIMS(0, 1, 4)));
    v = vt_put_binary(p, "MatMul", vt_put_reshape(p, v, VT_DIMS(0, 16)), vt_put_floats(p, "w", VT_DIMS(16, 2), w));
    v = vt_put_binary(p, "Add", v, vt_put_floats(p, "b", VT_DIMS(2), (const float[]){0, 5.5f}));
    vt_put_output(p, v, "logits", 2);
    vt_network *n;
    vt_lipschitz *l;
    vt_err e = {0};
    vt_certified got;
    assert_int_equal(vt_put_file(p, "outer", path, &e), VT_OK);
    if (vt_network_open(&n, path, &(vt_import_options){.classifier = true, .fusion = VT_FUSE_GELU}, &e) != VT_OK)
        fail_msg("%s", e.text);
    assert_int_equal(vt_lipschitz_open(&l, n->g, &(vt_certify_options){.norm = VT_CERTIFY_L2}, &e), VT_OK);
    assert_int_equal(vt_lipschitz_point(l, (const double[]){0.5, 0.5, 0.5, 0.5}, 1, &got, &e), VT_OK);
    t_le(got.radius, (sqrt(5.5) - 2) / 2, "radius");
    t_le(0.9 * (sqrt(5.5) - 2) / 2, got.radius, "most of it");
    vt_lipschitz_close(l), vt_network_close(n), vt_put_close(p), remove(path);
}

/* A shift network of 4 x 4 patches of 2 x 2 pixels whose matrices are orthogonal: permutations with signs, but for one
 * rotation. */
static vt_model *shift_model(void) {
    vt_model *m;
    vt_err e = {0};
    vt_config c = {.arch = "shift", .attn = "dot", .image = 8, .patch = 2, .dim = 12, .depth = 3, .heads = 1};
    c.hidden = 12, c.classes = 4, c.qkv_bias = c.no_cls = true, c.pool = VT_POOL_AVG, c.ln_eps = 1e-6, c.attn_scale = 1;
    c.norm = c.final_norm = VT_NORM_NONE;
    for (int k = 0; k < 3; k++) c.mean[k] = 0.5, c.std[k] = 0.25;
    if (vt_model_new(&m, &c, &e) != VT_OK) fail_msg("%s", e.text);
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        float *w = m->w + p->offset;
        for (size_t k = 0; k < p->numel; k++) w[k] = strstr(p->name, "weight") ? 0 : (float)(uniform() - 0.5);
        for (size_t r = 0; strstr(p->name, "weight") && r < (size_t)p->shape[0]; r++)
            w[r * 12 + (5 * r + (size_t)i) % 12] = rand() % 2 ? 1 : -1;
        if (!strcmp(p->name, "blocks.1.mix.weight"))
            for (size_t k = 0; k < 12; k++) w[k] *= 0.6f, w[12 + k] = w[k] / 0.6f * 0.8f + w[12 + k] * 0.6f;
    }
    float *turned = m->w + vt_model_param(m, "blocks.1.mix.weight")->offset;
    for (size_t k = 0; k < 12; k++) /* rows 0.6 a - 0.8 b and 0.8 a + 0.6 b of rows a, b of a permutation */
        if (fabsf(turned[12 + k]) == 0.6f) turned[k] = -turned[12 + k] / 0.6f * 0.8f;
    return m;
}

/* Its constant is sqrt(2) / (sqrt(tokens) std), which the gradients of all differences of logits reach everywhere; the
 * bound lies above by what its norms do: 12^(1/2048) for each of five matrices. */
static void test_shift(void **state) {
    (void)state;
    vt_model *m = shift_model();
    vt_session_f64 *s;
    vt_network *n;
    vt_lipschitz *l;
    vt_err e = {0};
    const double known = sqrt(2) / (4 * 0.25);
    double x[192], dx[192];
    assert_int_equal(vt_model_network(&n, m, &e), VT_OK);
    assert_int_equal(vt_lipschitz_open(&l, n->g, &(vt_certify_options){.norm = VT_CERTIFY_L2}, &e), VT_OK);
    assert_int_equal(vt_session_open_f64(&s, m, 1, VT_GRAD_INPUT, &e), VT_OK);
    for (int t = 0; t < 5; t++) {
        for (int k = 0; k < 192; k++) x[k] = uniform();
        vt_session_forward_f64(s, x, 1, true);
        vt_session_backward_f64(s, (double[4]){t == 0, -1, t != 0}, dx, NULL);
        t_le(fabs(distance_in(1, dx, (double[192]){0}, 192) / known - 1), 1e-6, "gradient %d, of float32 weights", t);
    }
    t_le(known * (1 - 1e-6), vt_lipschitz_constant(l), "the constant");
    t_le(vt_lipschitz_constant(l), known * 1.01, "the constant");
    vt_session_close_f64(s), vt_lipschitz_close(l), vt_network_close(n), vt_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_norms),        cmocka_unit_test(test_convolutions),
                                       cmocka_unit_test(test_distances),    cmocka_unit_test(test_margins),
                                       cmocka_unit_test(test_one_radius),   cmocka_unit_test(test_order_of_sums),
                                       cmocka_unit_test(test_not_finite),   cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_shift),        cmocka_unit_test(test_slopes),
                                       cmocka_unit_test(test_outer_product)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
