/* SPDX-License-Identifier: MIT */
/* Interval bounds of training (models/net/bounds.h), in double: against intervals of ends computed by their definition,
 * against points of the box, and their gradient against central differences; and whole runs with them. */
#define VT_DOUBLE
#include "base/real.h"
#include "training_fixture.h"
#include "options.h"

#include "certify/certify.h"
#include "models/export/export.h"
#include "models/model.h"
#include "models/net/bounds.h"
#include "models/shift.h"
#include "train/objective.h"

enum { B = 3, DIM = 20, DEPTH = 2, CLASSES = 4, SIDE = 6, PATCH = 2, PIXELS = 3 * SIDE * SIDE, TOKENS = 9, ROW = 12 };

typedef struct net {
    vt_model *m;
    vt_session_f64 *s;
    vt_bounds_f64 bounds;
    double *w, *x; /* [total], [B, PIXELS]: some pixels 0 and 1 */
    float target[B * CLASSES];
} net;

static net net_open(uint64_t seed) {
    net n = {0};
    vt_err e = {0};
    vt_config c = {.arch = "shift", .attn = "dot", .image = SIDE, .patch = PATCH, .dim = DIM, .depth = DEPTH};
    c.heads = 1, c.hidden = DIM, c.classes = CLASSES, c.qkv_bias = c.no_cls = true, c.pool = VT_POOL_AVG;
    c.norm = c.final_norm = VT_NORM_NONE, c.ln_eps = 1e-6, c.attn_scale = 1;
    for (int k = 0; k < 3; k++) c.mean[k] = 0.4 + 0.1 * k, c.std[k] = 0.2 + 0.1 * k;
    if (vt_model_new(&n.m, &c, &e) != VT_OK) fail_msg("%s", e.text);
    memset(n.m->w, 0, n.m->params.total * sizeof *n.m->w);
    assert_int_equal(vt_session_open_f64(&n.s, n.m, B, VT_GRAD_PARAMS, &e), VT_OK);
    assert_int_equal(vt_bounds_check_f64(n.m, "it", &e), VT_OK);
    assert_int_equal(vt_bounds_open_f64(&n.bounds, n.s, &e), VT_OK);
    n.w = t_doubles(n.m->params.total, seed, 0.4), n.x = t_doubles(B * PIXELS, seed + 1, 0.5);
    for (int i = 0; i < B * PIXELS; i++) n.x[i] = fmin(fmax(0.5 + n.x[i], 0), 1);
    for (int i = 0; i < B; i++) n.target[i * CLASSES + (i + (int)seed) % CLASSES] = 1;
    n.s->master = n.w;
    return n;
}

static void net_close(net *n, const char *what) {
    vt_bounds_close_f64(&n->bounds), vt_session_close_f64(n->s), vt_model_close(n->m);
    t_release(what);
}

/* ---- the definition: ends of intervals, from weights of either sign ---- */

typedef struct ends {
    double lo, hi;
} ends;

static const double *tensor(const net *n, const char *name) {
    const vt_param *p = vt_model_param(n->m, name);
    assert_non_null(p);
    return n->w + p->offset;
}

static ends add_times(ends sum, double w, ends x) {
    return (ends){sum.lo + (w > 0 ? w * x.lo : w * x.hi), sum.hi + (w > 0 ? w * x.hi : w * x.lo)};
}

static ends fold(ends v) {
    const double a = fabs(v.lo), b = fabs(v.hi);
    return (ends){v.lo < 0 && v.hi > 0 ? 0 : fmin(a, b), fmax(a, b)};
}

/* The intervals of the pixels of patch t, normalised. */
static void box_row(ends *row, const net *n, const double *x, int t, double eps) {
    const vt_config *c = &n->m->config;
    for (int k = 0; k < ROW; k++) {
        const int plane = k / (PATCH * PATCH), y = t / 3 * PATCH + k / PATCH % PATCH, col = t % 3 * PATCH + k % PATCH;
        const double v = x[(plane * SIDE + y) * SIDE + col], mean = c->mean[plane], std = c->std[plane];
        row[k] = (ends){(fmax(v - eps, 0) - mean) / std, (fmin(v + eps, 1) - mean) / std};
    }
}

/* worst [CLASSES] of one image */
static void by_definition(double *worst, const net *n, const double *x, int y, double eps) {
    ends token[TOKENS][DIM], next[TOKENS][DIM], row[ROW], mean[DIM] = {{0, 0}};
    const double *w = tensor(n, "patch_embed.proj.weight"), *b = tensor(n, "patch_embed.proj.bias");
    const double *pos = tensor(n, "pos_embed");
    for (int t = 0; t < TOKENS; t++) {
        box_row(row, n, x, t, eps);
        for (int j = 0; j < DIM; j++) {
            token[t][j].lo = token[t][j].hi = b[j] + pos[t * DIM + j];
            for (int k = 0; k < ROW; k++) token[t][j] = add_times(token[t][j], w[j * ROW + k], row[k]);
        }
    }
    for (int i = 0; i < DEPTH; i++) {
        char name[40];
        snprintf(name, sizeof name, "blocks.%d.mix.weight", i), w = tensor(n, name);
        snprintf(name, sizeof name, "blocks.%d.mix.bias", i), b = tensor(n, name);
        for (int t = 0; t < TOKENS; t++)
            for (int j = 0; j < DIM; j++) {
                ends v = {b[j], b[j]};
                for (int k = 0; k < DIM; k++) {
                    int step = 0;
                    while (k >= vt_shift_channel(&n->m->config, step + 1)) step++;
                    v = add_times(v, w[j * DIM + k], token[vt_shift_from(&n->m->config, t, step)][k]);
                }
                next[t][j] = j % 2 ? fold(v) : v;
            }
        memcpy(token, next, sizeof token);
    }
    for (int j = 0; j < DIM; j++)
        for (int t = 0; t < TOKENS; t++) mean[j] = add_times(mean[j], 1.0 / TOKENS, token[t][j]);
    w = tensor(n, "head.weight"), b = tensor(n, "head.bias");
    for (int k = 0; k < CLASSES; k++) {
        ends v = {b[k] - b[y], b[k] - b[y]};
        for (int j = 0; j < DIM; j++) v = add_times(v, w[k * DIM + j] - w[y * DIM + j], mean[j]);
        worst[k] = v.hi;
    }
}

static const double radii[] = {0, 2.0 / 255, 0.1};

static void test_values(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed < 4; seed++)
        for (size_t r = 0; r < T_COUNT(radii); r++) {
            net n = net_open(seed);
            double want[CLASSES], top = 0;
            n.bounds.eps = radii[r];
            const double *worst = vt_bounds_forward_f64(&n.bounds, n.x, n.target, B);
            for (int i = 0; i < B; i++) {
                by_definition(want, &n, n.x + i * PIXELS, (i + (int)seed) % CLASSES, radii[r]);
                for (int k = 0; k < CLASSES; k++) top = fmax(top, fabs(want[k]));
                t_le(t_max_diff(worst + i * CLASSES, want, CLASSES), 1e-13 * (1 + top), "bounds, eps %g", radii[r]);
            }
            net_close(&n, "values");
        }
}

/* No point of the box passes the bounds, corners among them; at radius 0 they are the differences of logits. */
static void test_points(void **state) {
    (void)state;
    net n = net_open(5);
    double *at = t_doubles(B * PIXELS, 0, 0), *draw = t_doubles(B * PIXELS, 0, 0), worst[B * CLASSES], nearest = 0;
    for (size_t r = 0; r < T_COUNT(radii); r++) {
        n.bounds.eps = radii[r];
        memcpy(worst, vt_bounds_forward_f64(&n.bounds, n.x, n.target, B), sizeof worst);
        for (int p = 0; p < 200; p++) {
            t_normals(draw, B * PIXELS, (uint64_t)(100 + p), 1);
            for (int i = 0; i < B * PIXELS; i++) {
                const double move = p % 2 ? (draw[i] > 0 ? 1 : -1) : tanh(draw[i]);
                at[i] = fmin(fmax(n.x[i] + radii[r] * move, 0), 1);
            }
            const double *z = vt_session_forward_f64(n.s, at, B, false);
            for (int i = 0; i < B; i++)
                for (int k = 0; k < CLASSES; k++) {
                    const double gap = z[i * CLASSES + k] - z[i * CLASSES + (i + 5) % CLASSES];
                    t_le(gap, worst[i * CLASSES + k] + 1e-12, "point %d, class %d, eps %g", p, k, radii[r]);
                    if (r == 0) nearest = fmax(nearest, worst[i * CLASSES + k] - gap);
                }
        }
    }
    t_le(nearest, 1e-12, "at radius 0");
    net_close(&n, "points");
}

/* ---- what certifies, by other code ---- */

/* Label's logit less the largest other one, of image 0 at x. */
static double margin_at(net *n, const double *x, int label) {
    const double *z = vt_session_forward_f64(n->s, x, 1, false);
    double most = -INFINITY;
    for (int k = 0; k < CLASSES; k++)
        if (k != label) most = fmax(most, z[k]);
    return z[label] - most;
}

/* `linear:intervals=1` of the exported graph, whose last rows are folded with the label too, proves all that training
 * does, up to float32's errors; it and linear bounds prove nothing that a point of the box refutes. */
static void test_certificates(void **state) {
    (void)state;
    for (uint64_t seed = 11; seed < 15; seed++) {
        net n = net_open(seed);
        vt_network *graph;
        vt_err e = {0};
        const double eps = 1.0 / 255;
        for (size_t i = 0; i < n.m->params.total; i++) n.w[i] = (double)(n.m->w[i] = (float)n.w[i]);
        assert_int_equal(vt_model_network(&graph, n.m, &e), VT_OK);
        const double *z = vt_session_forward_f64(n.s, n.x, 1, false);
        const int label = vt_argmax_f64(z, CLASSES);
        float target[CLASSES] = {0};
        target[label] = 1, n.bounds.eps = eps;
        const double *worst = vt_bounds_forward_f64(&n.bounds, n.x, target, 1);
        double least = INFINITY, near = INFINITY, *at = t_doubles(PIXELS, 0, 0);
        for (int k = 0; k < CLASSES; k++)
            if (k != label) least = fmin(least, -worst[k]);
        for (int p = 0; p < 200; p++) {
            t_normals(at, PIXELS, (uint64_t)p, 1);
            for (int i = 0; i < PIXELS; i++) at[i] = fmin(fmax(n.x[i] + (at[i] > 0 ? eps : -eps), 0), 1);
            near = fmin(near, margin_at(&n, at, label));
        }
        for (int intervals = 0; intervals < 2; intervals++) {
            vt_certify *c;
            vt_certified got;
            const vt_certify_options o = {.radius = eps,
                                          .seconds = INFINITY,
                                          .plain = true,
                                          .intervals = intervals,
                                          .threads = 1};
            assert_int_equal(vt_certify_open(&c, graph->g, &o, &e), VT_OK);
            assert_int_equal(vt_certify_point(c, n.x, label, &got, &e), VT_OK);
            t_le(least - 1e-4, got.margin, "margin, intervals %d", intervals);
            t_le(got.margin, near, "margin against points, intervals %d", intervals);
            assert_true((got.radius == eps) == (got.margin > 0));
            vt_certify_close(c);
        }
        vt_network_close(graph);
        net_close(&n, "certificates");
    }
}

/* ---- the gradient ---- */

static double loss_of(net *n, double *grad) {
    double dz[2 * B * CLASSES];
    vt_step_sums sums;
    n->s->bounds = &n->bounds;
    double *ignored = grad ? grad : calloc(n->m->params.total, sizeof *ignored), weight = 0.7;
    vt_micro_gradient_f64(ignored, &sums, n->s, vt_objective_find_f64("ibp"), &weight, n->x, n->target, B, 1, dz);
    if (!grad) free(ignored);
    assert_int_equal(sums.images, B);
    return sums.loss;
}

static double loss_alone(void *n) { return loss_of(n, NULL); }

static void test_gradient(void **state) {
    (void)state;
    for (size_t r = 0; r < T_COUNT(radii); r++) {
        net n = net_open(7 + r);
        const size_t total = n.m->params.total;
        double *grad = t_doubles(total, 0, 0);
        memset(grad, 0, total * sizeof *grad);
        n.bounds.eps = radii[r];
        loss_of(&n, grad);
        for (int i = 0; i < n.m->params.count; i++) {
            const vt_param *p = &n.m->params.items[i];
            t_grad(loss_alone, &n, n.w + p->offset, p->numel, grad + p->offset, p->name);
        }
        net_close(&n, "gradient");
    }
}

/* ---- the start ---- */

/* Rows of |w| add up to what keeps radii: 2 where |v| or relu follow (Shi et al. 2021), of square matrices a part. */
static void test_start(void **state) {
    (void)state;
    vt_model *m;
    vt_err e = {0};
    vt_config c = {.arch = "vit", .attn = "dot", .image = 16, .patch = 4, .dim = 64, .depth = 1, .heads = 2};
    c.hidden = 256, c.classes = 10, c.qkv_bias = true, c.ln_eps = 1e-6, c.attn_scale = 1;
    c.init = VT_INIT_RULE_INTERVAL;
    for (int k = 0; k < 3; k++) c.std[k] = 1;
    if (vt_model_new(&m, &c, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(vt_model_init(m, 1), VT_OK);
    static const char *const names[] = {"patch_embed.proj.weight", "blocks.0.mlp.fc1.weight", "blocks.0.mlp.fc2.weight",
                                        "blocks.0.attn.proj.weight"};
    for (size_t i = 0; i < T_COUNT(names); i++) {
        const vt_param *p = vt_model_param(m, names[i]);
        const size_t rows = (size_t)p->shape[0];
        double sum = 0, diagonal = 0;
        for (size_t k = 0; k < p->numel; k++) sum += fabs((double)m->w[p->offset + k]) / (double)rows;
        for (size_t k = 0; i == 3 && k < rows; k++) diagonal += (double)m->w[p->offset + k * rows + k] / (double)rows;
        t_le(fabs(sum - (i == 3 ? 1.3 : 2)), 0.1, "%s: mean of a row's sum", names[i]); /* of 3,000 and more numbers */
        t_le(fabs(diagonal - (i == 3 ? 0.7 : 0)), 0.02, "%s: diagonal", names[i]);
    }
    vt_model_close(m);
}

/* ---- whole runs ---- */

#define RUN RUN_AT("eps: 2/255, ramp_end: 0.7")
#define RUN_AT(attack)                                                                                                 \
    "epochs: 3\nbatch: 16\nmicro_batch: 4\nlr: 0.01\noptimiser: adamw\nobjective: ibp\n"                               \
    "model: {preset: shift_cifar_dim144_depth6, patch: 8, dim: 18, hidden: 18, depth: 2, forms: init=interval}\n"      \
    "attack: {" attack "}\naugment: {crop: 2, mix_prob: 0}\nprobe: {images: 4, split: test}\n"

static void test_runs(void **state) {
    (void)state;
    vt_err e = {0};
    check_train(RUN, in("one"), (options){.threads = 1});
    check_train(RUN, in("two"), (options){.threads = 2});
    same_run(in("one"), in("two"));
    t_says(train(RUN, NULL, in("part"), (options){.threads = 2, .max_steps = 3}, &e), VT_INTERRUPTED, &e, "of 6", "");
    check_train(RUN, in("part"), (options){.resume = true});
    same_run(in("one"), in("part"));
    check_train(RUN_AT("eps: 0.5, ramp_begin: 1, ramp_end: 1"), in("ramp"),
                (options){.threads = 1}); /* at eps 0 to the end */
    assert_int_equal(lines(in("ramp"), "\"loss\":2."), 9);
    assert_int_equal(lines(in("one"), "\"robust_train\":null"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(test_values, t_drop),
                                       cmocka_unit_test_teardown(test_points, t_drop),
                                       cmocka_unit_test_teardown(test_certificates, t_drop),
                                       cmocka_unit_test_teardown(test_gradient, t_drop),
                                       cmocka_unit_test(test_start),
                                       cmocka_unit_test(test_runs)};
    return cmocka_run_group_tests(tests, setup, remove_tmp);
}
