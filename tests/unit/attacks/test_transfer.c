/* SPDX-License-Identifier: MIT */
/* transfer: closed forms on linear models, MI-FGSM written down a second time, input diversity's adjoint, the door to a
 * surrogate, gradients that a target hides, and the twin of a model. The battery of all attacks is test_attacks. */
#include "ask.h"
#include "attack_fixture.h"
#include "base/real.h"
#include "models/surgery.h"
#include "toy.h"

enum { IMAGES = 24 };

/* Distance from x to the boundary of a linear model of two classes in the norm: its margin over the dual norm. */
static double radius(const bench *b, const planted *p, vt_norm norm) {
    double length = 0;
    for (size_t i = 0; i < p->n; i++) {
        double d = p->w[p->n + i] - p->w[i];
        length += norm == VT_LINF ? fabs(d) : d * d;
    }
    double m = margin_at(b->p, b->x);
    return fabs(m) / (norm == VT_L2 ? sqrt(length) : length);
}

static vt_status attack(bench *b, const char *spec, bool gradients) {
    vt_attack a;
    vt_err e = {0};
    if (vt_attack_parse(&a, spec, b->ball.norm, &e) != VT_OK) fail_msg("%s", e.text);
    vt_status st = bench_run_from(b, &a.stages[0], gradients);
    vt_attack_free(&a);
    return st;
}

/* ---- closed forms ---- */

/* The surrogate is the model: the image breaks exactly where a white-box attack's best point does. Pixels are rounded
 * to 2^-25, a millionth of these radii; 1e-5 leaves room for n of them. */
static void test_radius(void **state) {
    (void)state;
    static const char *const specs[] = {"transfer", "transfer:ask=last", "transfer:steps=20,momentum=0,loss=margin",
                                        "transfer:steps=25,restarts=2,loss=dlr"};
    int tried = 0;
    for (uint32_t k = 0; k < IMAGES; k++)
        for (vt_norm norm = VT_LINF; norm <= VT_L2; norm++) {
            planted p;
            bench b;
            assert_true(planted_linear(&p, 2, 8, 8, 100 + k));
            bench_open(&b, &p, k, true);
            double r = radius(&b, &p, norm);
            if (r > (norm == VT_L2 ? 0.1 : 0.01) &&
                r < (norm == VT_L2 ? 0.8 : 0.2)) /* the box is 0.3 away, and binds nowhere */
                for (int outside = 0; outside < 2; outside++, tried++) {
                    bench_ball(&b, norm, r * (outside ? 1 + 1e-5 : 1 - 1e-5));
                    bench_surrogate(&b, &p);
                    assert_int_equal(attack(&b, specs[k % T_COUNT(specs)], false), VT_OK);
                    assert_int_equal(b.o.has_found, outside);
                    t_le(fabs(margin_at(&p, b.x_adv)), 2e-5 * fabs(margin_at(&p, b.x)), "image %u: the best point", k);
                    assert_int_equal(p.backwards, 0);
                    assert_true(b.surrogate.backwards > 0 && b.o.gradients == b.surrogate.backwards);
                }
            bench_close(&b);
            planted_free(&p);
        }
    assert_true(tried > IMAGES);
}

typedef struct worst {
    planted *p;
    double most; /* largest margin of a query */
    float *points;
    int64_t calls;
} worst;

static void note_margin(void *arg, const float *x, int64_t call, float *z) {
    worst *w = arg;
    (void)z;
    w->most = call ? fmax(w->most, fabs(margin_at(w->p, x)) * (predicted(w->p, x) ? 1 : -1)) : -INFINITY;
    if (w->points) memcpy(w->points + (size_t)call * w->p->n, x, w->p->n * sizeof *x);
    w->calls = call + 1;
}

/* A surrogate of the opposite weights leads away from the boundary: not one query is nearer to it than the image is. */
static void test_opposite(void **state) {
    (void)state;
    int own = 0;
    for (uint32_t k = 0; k < IMAGES; k++)
        for (vt_norm norm = VT_LINF; norm < VT_L0; norm++) {
            planted p;
            bench b;
            assert_true(planted_linear(&p, 2, 8, 8, 300 + k));
            bench_open(&b, &p, k, true);
            double *opposite = malloc(2 * p.n * sizeof *opposite);
            assert_non_null(opposite);
            for (size_t i = 0; i < 2 * p.n; i++) opposite[i] = -p.w[i];
            bench_ball(&b, norm, norm == VT_LINF ? 0.25 : norm == VT_L2 ? 3 : 20);
            bench_surrogate(&b, &p);
            b.surrogate.w = opposite;
            double before = fabs(margin_at(&p, b.x));
            worst w = {.p = &p};
            p.watch = note_margin, p.arg = &w;
            assert_int_equal(attack(&b, "transfer:steps=20", false), VT_OK);
            assert_int_equal(w.calls, 20);
            assert_false(b.o.has_found);
            assert_true(predicted(&p, b.x_adv) == b.label && fabs(margin_at(&p, b.x_adv)) > before);
            assert_int_equal(attack(&b, "pgd:steps=20", true), VT_OK);
            own += b.o.has_found;
            free(opposite);
            bench_close(&b);
            planted_free(&p);
        }
    assert_true(own > 2 * IMAGES); /* most are broken along the gradients of the model itself */
}

/* ---- MI-FGSM, a second time ---- */

static void ce_gradient(planted *p, const double *x, int label, double *g) {
    double z[PLANTED_MOST], sum = 0, top = -INFINITY;
    float at[3 * 64], dz[PLANTED_MOST], dx[3 * 64];
    for (size_t i = 0; i < p->n; i++) at[i] = (float)x[i];
    p->logits(p, at, z);
    for (int k = 0; k < p->classes; k++) top = fmax(top, z[k]);
    for (int k = 0; k < p->classes; k++) sum += exp(z[k] - top);
    for (int k = 0; k < p->classes; k++) dz[k] = (float)(exp(z[k] - top) / sum - (k == label));
    p->inject(p, at, dz, dx);
    for (size_t i = 0; i < p->n; i++) g[i] = (double)dx[i];
}

/* Every iterate that the model is asked about, against the published recurrence in double; the surrogate is another
 * network than the model. A sign may turn where g is lost in rounding (|g| < 1e-6 of its mean): none does here. */
static void test_iterates(void **state) {
    (void)state;
    enum { STEPS = 15 };
    const double eps = 0.06, alpha = eps / 10;
    for (uint32_t k = 0; k < 12; k++)
        for (int l2 = 0; l2 < 2; l2++) {
            double mu = k % 3 * 0.5, x[192], g[192] = {0}, grad[192];
            planted p, q;
            bench b;
            char spec[80];
            assert_true(planted_mlp(&p, 5, 8, 8, 2 * k) && planted_mlp(&q, 5, 8, 8, 2 * k + 1));
            bench_open(&b, &p, k, true);
            bench_ball(&b, l2 ? VT_L2 : VT_LINF, eps);
            bench_surrogate(&b, &q);
            worst w = {.p = &p, .points = floats(STEPS * p.n)};
            p.watch = note_margin, p.arg = &w;
            snprintf(spec, sizeof spec, "transfer:steps=%d,momentum=%g", STEPS, mu);
            assert_int_equal(attack(&b, spec, false), VT_OK);
            assert_int_equal(w.calls, STEPS);
            for (size_t i = 0; i < p.n; i++) x[i] = (double)b.x[i];
            for (int s = 0; s < STEPS; s++) {
                double l1 = 0, length = 0, far = 0, worst_pixel = 0;
                ce_gradient(&q, x, b.label, grad);
                for (size_t i = 0; i < p.n; i++) l1 += fabs(grad[i]);
                for (size_t i = 0; i < p.n; i++) g[i] = mu * g[i] + grad[i] / l1, length += g[i] * g[i];
                for (size_t i = 0; i < p.n; i++) {
                    x[i] += alpha * (l2 ? g[i] / sqrt(length) : g[i] > 0 ? 1 : -1);
                    double d = x[i] - (double)b.x[i];
                    if (!l2) x[i] = (double)b.x[i] + fmax(-eps, fmin(eps, d));
                    far += d * d;
                }
                for (size_t i = 0; i < p.n; i++) {
                    if (l2 && far > eps * eps) x[i] = (double)b.x[i] + (x[i] - (double)b.x[i]) * eps / sqrt(far);
                    worst_pixel = fmax(worst_pixel, fabs(x[i] - (double)w.points[(size_t)s * p.n + i]));
                }
                /* float pixels, rounded once a step: 2^-25 each */
                t_le(worst_pixel, STEPS * 0x1p-25, "image %u, step %d, mu %g, l2 %d", k, s, mu, l2);
            }
            free(w.points);
            bench_close(&b);
            planted_free(&p), planted_free(&q);
        }
}

/* ---- input diversity ---- */

typedef struct sight {
    size_t n;
    float *seen;
} sight;

static void keep_seen(void *arg, const float *x, int64_t call, float *z) {
    sight *s = arg;
    (void)call, (void)z;
    memcpy(s->seen, x, s->n * sizeof *x);
}

/* What the surrogate saw tells, pixel by pixel, which one of the image is shown where (all are distinct, none is
 * black); the step must follow the sum of the surrogate's gradient over the places that show a pixel, and nothing moves
 * that is not shown. */
static void test_diversity(void **state) {
    (void)state;
    int shrunk = 0, hidden_ = 0;
    for (uint32_t k = 0; k < 40; k++) {
        planted p;
        bench b;
        assert_true(planted_linear(&p, 2, 23, 31, k));
        bench_open(&b, &p, k, true);
        for (size_t i = 0; i < p.n; i++) b.x[i] = b.x_copy[i] = 0.2f + 0.5f * (float)i / (float)p.n;
        b.label = predicted(&p, b.x);
        bench_ball(&b, VT_LINF, 0.01);
        bench_surrogate(&b, &p);
        sight s = {p.n, floats(p.n)};
        b.surrogate.watch = keep_seen, b.surrogate.arg = &s;
        assert_int_equal(attack(&b, "transfer:steps=1,diversity=1,alpha=0.01,loss=margin", false), VT_OK);
        double *sum = calloc(p.n, sizeof *sum);
        int black = 0;
        assert_non_null(sum);
        for (size_t i = 0; i < p.n; i++) {
            long at = lround(((double)s.seen[i] - 0.2) / 0.5 * (double)p.n);
            if (s.seen[i] == 0 && ++black) continue;
            assert_true(at >= 0 && at < (long)p.n && b.x[at] == s.seen[i]);
            sum[at] += (p.w[p.n + i] - p.w[i]) * (b.label ? -1 : 1);
        }
        for (size_t i = 0; i < p.n; i++) {
            double d = (double)b.x_adv[i] - (double)b.x[i], want = sum[i] == 0 ? 0 : sum[i] > 0 ? 0.01 : -0.01;
            t_le(fabs(d - want), 0x1p-24, "image %u, pixel %zu", k, i); /* a float of up to 1 */
            hidden_ += sum[i] == 0;
        }
        assert_true(black * 10 <= 3 * (int)p.n); /* at most a tenth off either side, and a pixel of rounding */
        shrunk += black > 0;
        free(sum), free(s.seen);
        bench_close(&b);
        planted_free(&p);
    }
    assert_true(shrunk > 20 && shrunk < 40 && hidden_ > 0);
}

/* ---- the door ---- */

static void test_door(void **state) {
    (void)state;
    planted p;
    bench b;
    float value, g[192], z[PLANTED_MOST], kept[PLANTED_MOST];
    assert_true(planted_mlp(&p, 5, 8, 8, 3));
    bench_open(&b, &p, 1, true);
    bench_ball(&b, VT_LINF, 0.1);
    bench_surrogate(&b, &p);
    vt_oracle_reset(&b.o, &b.ball, b.label, false);
    vt_loss ce = vt_oracle_loss(&b.o, VT_LOSS_CE);
    assert_int_equal(vt_oracle_gradient(&b.o, b.x, &ce, z, &value, g), VT_E_FORBIDDEN);
    assert_int_equal(attack(&b, "pgd:steps=1", false), VT_E_FORBIDDEN);
    assert_int_equal(p.backwards + p.forwards + b.surrogate.forwards, 0);
    /* the surrogate's gradient is given, counted, and no query of the model; logits of a kept point stay the model's */
    vt_oracle_reset(&b.o, &b.ball, b.label, true);
    assert_int_equal(vt_oracle_logits_first(&b.o, b.x, kept), VT_OK);
    ask_logits(&b.surrogate.c, b.x_copy, z, false);
    assert_int_equal(vt_oracle_surrogate_gradient(&b.o, b.x_copy, &ce, &value, g), VT_OK);
    assert_int_equal(vt_oracle_gradient(&b.o, b.x, &ce, z, &value, g), VT_OK);
    assert_memory_equal(z, kept, 5 * sizeof *z);
    assert_true(p.forwards == 1 && p.backwards == 1 && b.surrogate.backwards == 1 && b.o.gradients == 2);
    /* logits that are no numbers, a wish to end, no surrogate */
    b.surrogate.poison_after = 1, b.surrogate.poison = NAN;
    assert_int_equal(vt_oracle_surrogate_gradient(&b.o, b.x, &ce, &value, g), VT_E_NUMERIC);
    p.flag = 1;
    assert_int_equal(vt_oracle_surrogate_gradient(&b.o, b.x, &ce, &value, g), VT_INTERRUPTED);
    p.flag = 0, b.o.surrogate = NULL;
    assert_int_equal(vt_oracle_surrogate_gradient(&b.o, b.x, &ce, &value, g), VT_E_FORBIDDEN);
    bench_close(&b);
    planted_free(&p);
}

static void hide(void *arg, int64_t call, float *value, float *dx) {
    (void)call, (void)value;
    memset(dx, 0, *(size_t *)arg * sizeof *dx);
}

/* A model whose gradients say nothing: its own attack from the clean image stays where it is, transfer through the same
 * network with its gradients bare does not care. */
static void test_masked(void **state) {
    (void)state;
    int broken = 0, own = 0, bare = 0;
    for (uint32_t k = 0; k < IMAGES; k++) {
        planted p, q;
        bench b;
        assert_true(planted_mlp(&p, 5, 8, 8, 50 + k) && planted_mlp(&q, 5, 8, 8, 50 + k));
        bench_open(&b, &p, k, true);
        bench_ball(&b, VT_LINF, 0.2);
        assert_int_equal(attack(&b, "pgd:random_start=0", true), VT_OK);
        bare += b.o.has_found;
        p.watch_gradient = hide, p.arg = &p.n;
        assert_int_equal(attack(&b, "pgd:random_start=0", true), VT_OK);
        own += b.o.has_found;
        bench_surrogate(&b, &q);
        assert_int_equal(attack(&b, "transfer", false), VT_OK);
        broken += b.o.has_found;
        bench_close(&b);
        planted_free(&p), planted_free(&q);
    }
    assert_int_equal(own, 0);
    assert_true(bare > IMAGES / 3 && broken >= bare);
}

/* ---- the twin ---- */

static void test_twin(void **state) {
    (void)state;
    vt_model *m = toy(VT_POOL_TOKEN, true, true), *a, *b, *c;
    vt_err e = {0};
    m->config.attn_scale = 40;
    assert_int_equal(vt_model_twin(&a, m, 1, &e), VT_OK);
    assert_int_equal(vt_model_twin(&b, m, 1, &e), VT_OK);
    assert_int_equal(vt_model_twin(&c, m, 2, &e), VT_OK);
    assert_memory_equal(a->w, b->w, m->params.total * sizeof *m->w);
    t_le(fabs(a->config.attn_scale - 0.5), 1e-15, "1 / sqrt(4)");
    assert_true(m->config.attn_scale == 40);
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        double size = 0, moved = 0, seeds = 0, n = (double)p->numel;
        for (size_t k = 0; k < p->numel; k++) {
            double w = (double)m->w[p->offset + k], d = (double)a->w[p->offset + k] - w;
            double d2 = (double)c->w[p->offset + k] - w;
            size += w * w, moved += d * d, seeds += fabs(d - d2);
        }
        if (p->ndim < 2 || p->buffer) {
            assert_true(moved == 0);
            continue;
        }
        /* of n squares of normals, 5 sigma */
        t_le(fabs(moved / size / (VT_TWIN_SHARE * VT_TWIN_SHARE) - 1), 5 * sqrt(2 / n), "%s", p->name);
        assert_true(seeds > 0);
    }
    m->config.attn_scale = 1.9; /* not four times as sharp: stays */
    vt_model_close(a);
    assert_int_equal(vt_model_twin(&a, m, 1, &e), VT_OK);
    assert_true(a->config.attn_scale == 1.9);
    vt_model_close(a), vt_model_close(b), vt_model_close(c), vt_model_close(m);
}

static void test_words(void **state) {
    (void)state;
    vt_attack a;
    vt_err e = {0};
    assert_int_equal(vt_attack_parse(&a, "pgd+transfer:steps=3+square", VT_L1, &e), VT_OK);
    assert_true(a.needs_surrogate);
    vt_attack_free(&a);
    assert_int_equal(vt_attack_parse(&a, "autoattack", VT_LINF, &e), VT_OK);
    assert_false(a.needs_surrogate);
    vt_attack_free(&a);
    assert_int_equal(vt_attack_parse(&a, "transfer", VT_NORM_PATCH, &e), VT_OK);
    assert_true(a.stages[0].place->where == VT_WHERE_SALIENCY);
    vt_attack_free(&a);
    t_says(vt_attack_parse(&a, "transfer:where=attention", VT_NORM_PATCH, &e), VT_E_USAGE, &e, "black-box", "saliency");
    t_says(vt_attack_parse(&a, "transfer:ask=some", VT_LINF, &e), VT_E_USAGE, &e, "ask", "all");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_radius),    cmocka_unit_test(test_opposite), cmocka_unit_test(test_iterates),
        cmocka_unit_test(test_diversity), cmocka_unit_test(test_door),     cmocka_unit_test(test_masked),
        cmocka_unit_test(test_twin),      cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests_name("transfer", tests, NULL, NULL);
}
