/* SPDX-License-Identifier: MIT */
/* Certified radii: every bound against values of the network at points of the box; radii of networks of two numbers
 * against all points of a grid; attacks at certified radii; what has no bound is undecided. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "t.h"
#define VT_DOUBLE
#include "certify/certify.h"
#include "certify/relax.h"
#include "net_fixture.h"

static const char *const nets[] = {"certify_linear",  "certify_relu",   "certify_bent",      "certify_gelu",
                                   "certify_curved",  "certify_shared", "certify_attention", "certify_norm",
                                   "certify_largest", "certify_sides",  "certify_outer",     "conv",
                                   "attention"};
enum { PLANES = 11 };

/* ---- bounds of every value ---- */

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

/* Linear functions of each node's result, in v, hold too: low is below what they are. */
typedef struct function {
    size_t n;
    double *a;
} function;

static void set_function(const void *ctx, size_t i, double *a) {
    const function *f = ctx;
    for (size_t k = 0; k < f->n; k++) a[k] = f->a[i * f->n + k];
}

enum { FUNCTIONS = 4 };

/* Bounds random linear functions of each node's result, into f and low [FUNCTIONS per node]. */
static void bound_functions(vt_relax *r, function *f, double *low) {
    for (int i = 0; i < r->g->n_nodes; i++) {
        vt_err e = {0};
        const int out = r->g->nodes[i].out;
        f[i].n = r->g->values[out].n, f[i].a = calloc(FUNCTIONS * f[i].n, sizeof(double));
        for (size_t k = 0; k < FUNCTIONS * f[i].n; k++) f[i].a[k] = rand() % 2 ? 2 * uniform() - 1 : 0;
        assert_int_equal(vt_relax_rows(r, out, FUNCTIONS, set_function, &f[i], low + FUNCTIONS * i, &e), VT_OK);
    }
}

static void check_functions(const vt_graph *g, double *const *v, const function *f, const double *low,
                            const char *name) {
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < FUNCTIONS; k++) {
            double sum = 0;
            for (size_t j = 0; j < f[i].n; j++) sum += f[i].a[(size_t)k * f[i].n + j] * v[g->nodes[i].out][j];
            if (!(low[FUNCTIONS * i + k] <= sum))
                fail_msg("%s: node %d (%s): %.17g is above %.17g", name, i, vt_op_at_f64(g->nodes[i].op)->name,
                         low[FUNCTIONS * i + k], sum);
        }
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
        double **v = take_values(g), *lo = calloc(o.each, sizeof *lo), *hi = calloc(o.each, sizeof *hi);
        double *x = calloc(o.each, sizeof *x), *low = calloc(FUNCTIONS * (size_t)g->n_nodes, sizeof *low);
        function *f = calloc((size_t)g->n_nodes, sizeof *f);
        for (size_t p = m < PLANES ? 0 : 3; p < (m < PLANES ? 2 * T_COUNT(radii) : 6);
             p++) { /* the last ones are slow */
            const double radius = radii[p / 2];
            for (size_t i = 0; i < o.each; i++) {
                const double at = o.x[p % 2 * o.each + i];
                lo[i] = at - radius, hi[i] = at + radius;
            }
            r->policy = (int)p % 3,
            r->steps = p / 2 % 2 ? (m == 4 || m == 6 ? 60 : 4) : 0; /* knobs reach their limits */
            if (vt_relax_box(r, lo, hi, &e) != VT_OK) continue;     /* undecided */
            bound_functions(r, f, low);
            for (int t = 0; t < 60; t++) {
                for (size_t i = 0; i < o.each; i++) {
                    const double share = t % 3 ? uniform() : rand() % 2;
                    x[i] = share == 1 ? hi[i] : lo[i] + share * (hi[i] - lo[i]);
                }
                compute_values(g, v, x);
                check_values(r, v, nets[m]);
                check_functions(g, v, f, low, nets[m]);
            }
            for (int i = 0; i < g->n_nodes; i++) free(f[i].a);
        }
        free_values(g, v), free(lo), free(hi), free(x), free(f), free(low);
        vt_relax_close(r), close_net(&o);
    }
}

static double gelu_at(double x) { return x / 2 * erfc(-x * M_SQRT1_2); }
static double gelu_tanh_at(double x) { return x / (1 + exp(-2 * sqrt(2 / M_PI) * (x + 0.044715 * pow(x, 3)))); }
static double inverse_at(double x) { return 1 / x; }
static double relu_at(double x) { return fmax(x, 0); }
static double sigmoid_at(double x) { return 1 / (1 + exp(-x)); }
static double softplus_at(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }
static double clip_at(double x) { return fmin(fmax(x, -0.5), 2); }
static double square_at(double x) { return x * x; }
static double rsqrt_at(double x) { return 1 / sqrt(x); }

/* Lines of functions of one number lie on their sides, close to them where the interval is small. */
static void test_lines(void **state) {
    (void)state;
    const struct {
        const vt_scalar *f;
        double (*at)(double);
        double p[2], least; /* l is at least that */
    } all[] = {{vt_scalar_of("Abs"), fabs, {0}, -9},
               {vt_scalar_of("Clip"), clip_at, {-0.5, 2}, -9},
               {vt_scalar_of("Erf"), erf, {0}, -9},
               {vt_scalar_of("Exp"), exp, {0}, -9},
               {vt_scalar_of("Gelu"), gelu_at, {0}, -9},
               {vt_scalar_of("Gelu"), gelu_tanh_at, {1}, -9},
               {vt_scalar_of("(gelu)"), gelu_at, {M_SQRT2}, -9},
               {vt_scalar_of("Log"), log, {0}, 0.01},
               {vt_scalar_of("Relu"), relu_at, {0}, -9},
               {vt_scalar_of("Sigmoid"), sigmoid_at, {0}, -9},
               {vt_scalar_of("Softplus"), softplus_at, {0}, -9},
               {vt_scalar_of("Sqrt"), sqrt, {0}, 0.01},
               {vt_scalar_of("Tanh"), tanh, {0}, -9},
               {&vt_scalar_reciprocal, inverse_at, {0}, 0.01},
               {&vt_scalar_square, square_at, {0}, -9},
               {&vt_scalar_rsqrt, rsqrt_at, {0}, 0.01}};
    for (int t = 0; t < 40000; t++) {
        static const double widths[] = {1e-6, 10, 2, 0.3};
        const size_t k = (size_t)t % T_COUNT(all);
        const double l = fmax(all[k].least, 12 * uniform() - 7), u = l + widths[rand() % 4] * uniform();
        const vt_lines s = vt_scalar_lines(all[k].f, all[k].p, l, u, 0);
        double gap = 0;
        for (int i = 0; i <= 40; i++) {
            const double x = fmin(l + i / 40.0 * (u - l), u), y = all[k].at(x);
            /* y itself is rounded */
            const double slack = 4e-15 * (fabs(y) + fabs(s.kl * x) + fabs(s.ku * x));
            if (!(s.kl * x + s.bl <= y + slack && s.ku * x + s.bu >= y - slack && s.lo <= y + slack &&
                  s.hi >= y - slack))
                fail_msg("function %zu at %.17g of [%.17g, %.17g]", k, x, l, u);
            gap = fmax(gap, (s.ku - s.kl) * x + s.bu - s.bl);
        }
        assert_true(s.hi - s.lo <= 2.1e6 * (u - l) + 1e-9);
        if (u - l <= 1e-6) assert_true(gap <= 2e-6 * (1 + fabs(all[k].at(l))) || all[k].least > 0);
    }
}

/* ---- radii ---- */

static void test_radii(void **state) {
    (void)state;
    for (size_t m = 0; m < T_COUNT(nets); m++) {
        net o;
        vt_certify *c;
        vt_err e = {0};
        double sum = 0, truth = 0;
        open_net(&o, nets[m]);
        const vt_certify_options how = {.seconds = 600, .boxes = m < 5 ? 40 : 3, .threads = 1};
        assert_int_equal(vt_certify_open(&c, o.n->g, &how, &e), VT_OK);
        for (size_t i = 0; i < 2 && i < o.points; i++) {
            vt_certified got;
            const double *x = o.x + i * o.each;
            assert_int_equal(vt_certify_point(c, x, o.labels[i], &got, &e), VT_OK);
            if (!(got.radius > 0 && got.boxes > 1)) fail_msg("%s: point %zu has radius %g", nets[m], i, got.radius);
            if (m < PLANES) {
                const double known = grid_radius(&o, 0, x, o.labels[i]);
                if (!(got.radius <= known)) fail_msg("%s: %zu: %g above %g", nets[m], i, got.radius, known);
                sum += got.radius, truth += known;
            }
            assert_false(attack_finds(&o, 0, x, o.labels[i], got.radius));
            assert_int_equal(vt_certify_point(c, x, (o.labels[i] + 1) % o.n->classes, &got, &e), VT_OK);
            assert_true(got.radius == 0);
        }
        /* few boxes do not reach far where lines are wide */
        if (m < 5 && !(sum >= (strcmp(nets[m], "certify_curved") ? 0.4 : 0.25) * truth))
            fail_msg("%s: %g of %g", nets[m], sum, truth);
        vt_certify_close(c), close_net(&o);
    }
}

/* A radius within which a grid has a point of another class is certified by no number of boxes. */
static void test_no_radius_above(void **state) {
    (void)state;
    for (size_t m = 1; m < 5; m++) {
        net o;
        open_net(&o, nets[m]);
        for (size_t i = 0; i < 6 && i < o.points; i++) {
            vt_certify *c;
            vt_err e = {0};
            vt_certified got;
            const double *x = o.x + i * o.each, known = grid_radius(&o, 0, x, o.labels[i]);
            const vt_certify_options how = {.radius = known * (1 + 1e-9), .seconds = 600, .boxes = 60, .threads = 1};
            if (!isfinite(known)) continue;
            assert_int_equal(vt_certify_open(&c, o.n->g, &how, &e), VT_OK);
            assert_int_equal(vt_certify_point(c, x, o.labels[i], &got, &e), VT_OK);
            if (got.radius > 0) fail_msg("%s: %zu: %g is certified, %g is not robust", nets[m], i, got.radius, known);
            vt_certify_close(c);
        }
        close_net(&o);
    }
}

/* Are all differences of the label's logit to another above 0 in the box, by `boxes` rows (0: by plain bounds)? */
static bool holds_by_parts(vt_relax *r, const net *o, const double *x, int64_t label, double radius, long boxes) {
    const int out = vt_root_of(r->g, r->g->output);
    const size_t classes = r->g->values[out].n;
    double lo[2], hi[2], low, *a = calloc(classes, sizeof *a);
    bool yes = true;
    vt_err e = {0};
    assert_true(o->each == 2);
    for (int i = 0; i < 2; i++) lo[i] = x[i] - radius, hi[i] = x[i] + radius;
    if (vt_relax_box(r, lo, hi, &e) != VT_OK) yes = false;
    for (size_t j = 0; yes && j < classes; j++) {
        long count = 0;
        if ((int64_t)j == label) continue;
        memset(a, 0, classes * sizeof *a), a[label] = 1, a[j] = -1;
        const function f = {classes, a};
        if (boxes)
            assert_int_equal(vt_relax_split(r, out, set_function, &f, 0, INFINITY, boxes, &count, &yes), VT_OK);
        else
            assert_int_equal(vt_relax_rows(r, out, 1, set_function, &f, &low, &e), VT_OK), yes = low > 0;
    }
    free(a);
    return yes;
}

/* Cuts of inner numbers: no radius above that of a grid, and nearer to it than plain bounds. */
static void test_parts(void **state) {
    (void)state;
    static const double shares[] = {0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99};
    for (size_t m = 1; m < 6; m++) {
        net o;
        vt_relax *r;
        vt_err e = {0};
        double plain = 0, parts = 0;
        open_net(&o, nets[m]);
        assert_int_equal(vt_relax_open(&r, o.n->g, 1, &e), VT_OK);
        for (size_t i = 0; i < 6 && i < o.points; i++) {
            const double *x = o.x + i * o.each, known = grid_radius(&o, 0, x, o.labels[i]);
            if (!isfinite(known)) continue;
            for (size_t k = 0; k < T_COUNT(shares); k++) {
                plain += holds_by_parts(r, &o, x, o.labels[i], shares[k] * known, 0);
                parts += holds_by_parts(r, &o, x, o.labels[i], shares[k] * known, 300);
            }
            for (double over = 1 + 1e-9; over < 1.3; over += 0.1)
                if (holds_by_parts(r, &o, x, o.labels[i], over * known, 600))
                    fail_msg("%s: %zu: %g is certified, %g is not robust", nets[m], i, over * known, known);
        }
        if (!(parts > plain)) fail_msg("%s: %g radii by parts, %g without", nets[m], parts, plain);
        vt_relax_close(r), close_net(&o);
    }
}

/* Cuts a random number that some node reads and bounds anew, to the side on which v has it. */
static void cut_at_random(vt_relax *r, double *const *v) {
    vt_cut *c = &r->cuts[r->n_cuts];
    const vt_graph *g = r->g;
    for (int tries = 0; tries < 100; tries++) {
        const int node = rand() % g->n_nodes;
        if (!r->how[node]->narrow) continue;
        c->v = g->nodes[node].in[0], c->i = (size_t)rand() % g->values[c->v].n;
        const vt_ranges *s = &r->of[c->v];
        c->lo = s->lo[c->i], c->hi = s->hi[c->i], c->at = c->lo + uniform() * (c->hi - c->lo);
        c->side = v[c->v][c->i] > c->at ? 1 : -1, c->factor = rand() % 2 ? uniform() : 0;
        vt_relax_narrow(r, c->v, c->i, c->side > 0 ? c->at : c->lo, c->side > 0 ? c->hi : c->at);
        r->n_cuts++;
        return;
    }
}

/* Turns the row's knobs at random. */
static void turn_at_random(const vt_relax *r, vt_row *row) {
    for (int i = 0; i < r->g->n_nodes; i++) {
        double least, most;
        if (!r->how[i]->knobs) continue;
        r->how[i]->limits(r->g, &r->g->nodes[i], &least, &most);
        for (size_t k = 0; k < r->how[i]->knobs(r->g, &r->g->nodes[i]); k++)
            row->knob[i][k] = least + uniform() * (most - least);
    }
}

/* With numbers cut at random, rows hold at a point that meets the cuts; once these are undone, rows are what they were
 * to the bit. */
static void test_cuts(void **state) {
    (void)state;
    for (size_t m = 0; m < PLANES; m++) {
        net o;
        vt_relax *r;
        vt_err e = {0};
        open_net(&o, nets[m]);
        const vt_graph *g = o.n->g;
        const int out = vt_root_of(g, g->output);
        assert_int_equal(vt_relax_open(&r, g, 1, &e), VT_OK);
        vt_row *row = &r->rows[0];
        double **v = take_values(g), a[3] = {1, -1, 0.5}, lo[2], hi[2];
        const function f = {3, a};
        assert_true(o.each == 2 && g->values[out].n == 3);
        for (int box = 0; box < 6; box++) {
            for (int i = 0; i < 2; i++) {
                const double radius = box % 2 ? 0.1 : 0.02;
                lo[i] = o.x[box * 2 + i] - radius, hi[i] = o.x[box * 2 + i] + radius;
            }
            if (vt_relax_box(r, lo, hi, &e) != VT_OK) continue; /* undecided */
            vt_row_reset(r, row);
            const double before = vt_row_bound(r, row, out, set_function, &f, 0);
            for (int t = 0; t < 300; t++) {
                double z = 0, x[2];
                for (int i = 0; i < 2; i++) x[i] = lo[i] + uniform() * (hi[i] - lo[i]);
                compute_values(g, v, x);
                for (int k = rand() % 6; k >= 0; k--) cut_at_random(r, v);
                turn_at_random(r, row);
                for (int i = 0; i < 3; i++) a[i] = 2 * uniform() - 1, z += a[i] * v[out][i];
                const double low = vt_row_bound(r, row, out, set_function, &f, 0);
                if (!(low <= z)) fail_msg("%s, %d cuts: %.17g is above %.17g", nets[m], r->n_cuts, low, z);
                while (r->n_cuts) {
                    const vt_cut *c = &r->cuts[--r->n_cuts];
                    vt_relax_narrow(r, c->v, c->i, c->lo, c->hi);
                }
            }
            vt_row_reset(r, row);
            a[0] = 1, a[1] = -1, a[2] = 0.5;
            assert_true(vt_row_bound(r, row, out, set_function, &f, 0) == before);
        }
        free_values(g, v), vt_relax_close(r), close_net(&o);
    }
}

/* In l2 and l1: radii of two numbers, against a grid; that they are close to the truth where the network is linear. */
static void test_other_norms(void **state) {
    (void)state;
    for (size_t m = 0; m < T_COUNT(nets); m++) {
        net o;
        open_net(&o, nets[m]);
        for (int norm = 1; norm < 3; norm++) {
            vt_certify *c;
            vt_err e = {0};
            const vt_certify_options how = {.norm = (vt_certify_norm)norm,
                                            .seconds = 600,
                                            .boxes = m < 2 ? 60 : 3,
                                            .threads = 1};
            assert_int_equal(vt_certify_open(&c, o.n->g, &how, &e), VT_OK);
            for (size_t i = 0; i < (m < 2 ? 4 : 1) && i < o.points; i++) {
                vt_certified got;
                const double *x = o.x + i * o.each;
                assert_int_equal(vt_certify_point(c, x, o.labels[i], &got, &e), VT_OK);
                if (!(got.radius > 0)) fail_msg("%s: no radius in norm %d", nets[m], norm);
                assert_false(attack_finds(&o, norm, x, o.labels[i], got.radius));
                const double known = m < PLANES ? grid_radius(&o, norm, x, o.labels[i]) : INFINITY;
                /* the grid's nearest point lies within 0.02 of the boundary's */
                if (!(got.radius <= known) || (m == 0 && !(got.radius >= 0.97 * known - 0.02)))
                    fail_msg("%s: point %zu, norm %d: %g of %g", nets[m], i, norm, got.radius, known);
            }
            vt_certify_close(c);
        }
        close_net(&o);
    }
}

/* The least value of a random linear function over ball and box: below all points that were drawn, and reached by the
 * point that comes with it, which lies in both. */
static void test_least_of_ball(void **state) {
    (void)state;
    enum { N = 6 };
    vt_graph g = {.values = &(vt_value){.n = N}, .n_values = 1};
    for (int t = 0; t < 3000; t++) {
        double a[N], lo[N], hi[N], top[N], c[N], y[N], far = 0;
        for (int i = 0; i < N; i++) {
            a[i] = t % 7 || i ? 2 * uniform() - 1 : 0, c[i] = uniform();
            lo[i] = c[i] - uniform() * (t % 3 == 0);
            if (t % 5 == 0) lo[i] = c[i] + 0.1 * uniform(); /* a part of a box that was halved */
            hi[i] = fmax(lo[i], c[i]) + uniform();
            top[i] = fmax(fabs(lo[i]), fabs(hi[i])), far += fmax(lo[i] - c[i], 0);
        }
        const double radius = far + (t % 4 ? 0.3 : 3) * uniform();
        for (int norm = 1; norm < 3; norm++) {
            vt_row row = {.a = (double *[]){a}, .touched = (bool[]){true}, .y = (double *[]){y}};
            const vt_relax r = {.g = &g,
                                .of = &(vt_ranges){.lo = lo, .hi = hi, .top = top},
                                .norm = (vt_certify_norm)norm,
                                .centre = c,
                                .radius = radius};
            const double low = vt_row_least(&r, &row);
            double at = 0;
            for (int i = 0; i < N; i++) at += a[i] * y[i], assert_true(y[i] >= lo[i] - 1e-14 && y[i] <= hi[i] + 1e-14);
            /* in l2 the dual's variable is exact to 2^-16 of its range, and so, nearly, is the point that comes with it
             */
            const bool near = norm == 1 && t % 5;
            if (near && !(fabs(low - at) <= 0.05 * radius))
                fail_msg("%g at %g, %g from the centre, not %g", low, at, distance_in(norm, y, c, N), radius);
            for (int k = 0; k < 40; k++) {
                double x[N], value = 0;
                for (int i = 0; i < N; i++) x[i] = k ? fmin(fmax(y[i] + 0.2 * (uniform() - 0.5), lo[i]), hi[i]) : y[i];
                for (int i = 0; i < N; i++) value += a[i] * x[i];
                assert_true(distance_in(norm, x, c, N) > radius || low <= value + 1e-15);
            }
        }
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
                                     &(vt_import_options){.classifier = true, .fusion = VT_FUSE_GELU}, &e),
                     VT_OK);
    assert_int_equal(vt_certify_open(&c, n->g, &(vt_certify_options){.seconds = 1, .threads = 1}, &e), VT_E_USAGE);
    assert_non_null(strstr(e.text, "no bounds are known for operator"));
    assert_null(c);
    vt_network_close(n);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bounds_hold),   cmocka_unit_test(test_lines),
                                       cmocka_unit_test(test_radii),         cmocka_unit_test(test_no_radius_above),
                                       cmocka_unit_test(test_parts),         cmocka_unit_test(test_cuts),
                                       cmocka_unit_test(test_other_norms),   cmocka_unit_test(test_least_of_ball),
                                       cmocka_unit_test(test_order_of_sums), cmocka_unit_test(test_not_finite),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
