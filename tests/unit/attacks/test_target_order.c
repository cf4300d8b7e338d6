/* SPDX-License-Identifier: MIT */
/* Lists and versions of attacks, averaged gradients, few classes, MALT's order and the losses on probabilities against
 * PyTorch, mt-pgd and pma against closed forms. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include "attacks/attack.h"
#include "attacks/target_order.h"
#include "planted.h"
#include "t.h"
#include "targets_reference.h"

enum { MOST = 192, CALLS = 4096 };

typedef struct bench {
    planted *p;
    vt_oracle o;
    vt_ball ball;
    float x[MOST], lo[MOST], hi[MOST], x_adv[MOST];
    vt_task t;
    float *work;
} bench;

/* Pixels in [0.3, 0.7]: a ball of 0.25 never meets the box. */
static void open_bench(bench *b, planted *p, vt_norm norm, double eps) {
    memset(b, 0, sizeof *b);
    b->p = p;
    for (size_t i = 0; i < p->n; i++) b->x[i] = 0.3f + 0.4f * vt_rng_uniform(&(vt_rng){.seed = 5, .purpose = 3}, i);
    assert_int_equal(vt_oracle_open(&b->o, &p->c, NULL), VT_OK);
    b->o.mode = VT_ORACLE_EXHAUSTIVE;
    vt_ball_init(&b->ball, norm, eps, b->x, p->n, b->lo, b->hi);
    b->t = (vt_task){.x = b->x, .n = p->n, .shape = p->shape, .classes = p->classes};
    b->t.ball = &b->ball, b->t.x_adv = b->x_adv, b->t.rng = (vt_rng){.seed = 1, .purpose = 9};
}

static void close_bench(bench *b) {
    vt_oracle_close(&b->o);
    free(b->work);
    planted_free(b->p);
}

static void run_spec(bench *b, const char *spec) {
    vt_attack a;
    vt_err e = {0};
    if (vt_attack_parse(&a, spec, b->ball.norm, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(a.n_stages, 1);
    const vt_attack_stage *s = &a.stages[0];
    b->work = realloc(b->work, vt_attack_work_len(s, &b->t) * sizeof(float));
    b->t.work = b->work;
    b->p->forwards = b->p->keeps = b->p->backwards = 0;
    vt_oracle_reset(&b->o, &b->ball, b->t.label, true);
    assert_int_equal(s->def->run(&b->o, s->params, &b->t), VT_OK);
    assert_true(vt_ball_contains(&b->ball, b->x_adv));
    vt_attack_free(&a);
}

/* ---- lists and versions ---- */

static void parse(vt_attack *a, const char *spec) {
    vt_err e = {0};
    if (vt_attack_parse(a, spec, VT_LINF, &e) != VT_OK) fail_msg("%s", e.text);
}

/* The authors' set_version: order, restarts, queries, targets, draws. */
static void test_versions(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        const char *stages[6][3];
    } rows[] = {
        {"autoattack:version=plus",
         {{"apgd-ce:steps=100", "restarts=5", "eot=1,"},
          {"apgd-dlr:steps=100", "restarts=5", "eot=1,"},
          {"fab:steps=100", "restarts=5", "beta=0.9"},
          {"square:queries=5000", "restarts=1", "p_init=0.8"},
          {"apgd-t:steps=100", "restarts=1", "targets=9"},
          {"fab-t:steps=100", "restarts=1", "targets=9"}}},
        {"autoattack:version=rand",
         {{"apgd-ce:steps=100", "restarts=1", "eot=20"}, {"apgd-dlr:steps=100", "restarts=1", "eot=20"}}},
    };
    for (size_t r = 0; r < T_COUNT(rows); r++) {
        vt_attack a;
        parse(&a, rows[r].spec);
        assert_string_equal(a.name, r ? "autoattack-rand" : "autoattack-plus");
        assert_int_equal(a.n_stages, r ? 2 : 6);
        for (int k = 0; k < a.n_stages; k++)
            for (int i = 0; i < 3; i++)
                if (!strstr(a.stages[k].id, rows[r].stages[k][i]))
                    fail_msg("%s has not %s", a.stages[k].id, rows[r].stages[k][i]);
        vt_attack_free(&a);
    }
    vt_attack a; /* in l1 the authors' rand leaves out the larger balls (F10) */
    vt_err e = {0};
    assert_int_equal(vt_attack_parse(&a, "autoattack-rand", VT_L1, &e), VT_OK);
    for (int k = 0; k < 2; k++) assert_non_null(strstr(a.stages[k].id, "eot=20,large_eps=0"));
    vt_attack_free(&a);
}

static void test_lists(void **state) {
    (void)state;
    static const struct {
        const char *spec, *name;
        int stages;
    } rows[] = {{"apgd-ce:steps=7+fab-t+square:queries=9", "apgd-ce+fab-t+square", 3},
                {"autoattack+mt-pgd:targets=2", "autoattack+mt-pgd", 5},
                {"cw20:alpha=1e+0+fgsm", "cw20+fgsm", 2},
                {"autoattack-plus+autoattack-rand+apgd-malt", "autoattack-plus+...", 9},
                {"fgsm+fgsm+fgsm+fgsm+fgsm+pgd", "fgsm+fgsm+fgsm+fgsm+fgsm+...", 6}};
    for (size_t r = 0; r < T_COUNT(rows); r++) {
        vt_attack a, again, one;
        parse(&a, rows[r].spec);
        assert_string_equal(a.name, rows[r].name);
        assert_int_equal(a.n_stages, rows[r].stages);
        parse(&again, a.id); /* a canonical list is a list */
        assert_string_equal(again.id, a.id);
        assert_int_equal(again.n_stages, a.n_stages);
        vt_attack_free(&again);
        assert_non_null(strstr(a.id, a.stages[1].id));
        assert_int_equal(vt_attack_single(&one, &a, 1, NULL), VT_OK);
        assert_true(one.n_stages == 1 && one.def == a.stages[1].def && one.stages[0].params && !a.stages[1].params);
        assert_string_equal(one.id, a.stages[1].id);
        assert_string_equal(one.name, one.def->name);
        vt_attack_free(&one);
        vt_attack_free(&a);
    }
}

/* ---- few classes ---- */

typedef struct losses {
    planted *p;
    vt_loss loss;
    float target[PLANTED_MOST];
    bool plain; /* no ratio: the difference itself */
    int calls;
} losses;

static void watch_loss(void *arg, int64_t call, float *value, float *dx) {
    losses *l = arg;
    double z[PLANTED_MOST], top[3] = {-INFINITY, -INFINITY, -INFINITY}, other = -INFINITY;
    (void)call, (void)dx;
    l->p->logits(l->p, l->p->kept, z);
    for (int k = 0; k < l->p->classes; k++) {
        if (k) other = fmax(other, z[k]);
        if (z[k] > top[0])
            top[2] = top[1], top[1] = top[0], top[0] = z[k];
        else if (z[k] > top[1])
            top[2] = top[1], top[1] = z[k];
        else
            top[2] = fmax(top[2], z[k]);
    }
    double want = (other - z[0]) / (l->plain ? 1 : top[0] - top[2] + 1e-12);
    assert_true(fabs((double)*value - want) <= 1e-4 * (1 + fabs(want))); /* float, |z| up to 20 */
    l->calls++;
}

/* Two classes have no DLR, three no targeted one: what is ascended is the difference itself. Label 0. */
static void test_few_classes(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        int classes;
        bool plain;
    } rows[] = {{"apgd-dlr", 2, true}, {"apgd-dlr", 3, false}, {"apgd-t", 2, true}};
    for (size_t r = 0; r < T_COUNT(rows); r++) {
        planted p;
        bench b;
        assert_true(planted_linear(&p, rows[r].classes, 8, 8, 3));
        losses l = {.p = &p, .plain = rows[r].plain};
        p.watch_gradient = watch_loss, p.arg = &l;
        open_bench(&b, &p, VT_LINF, 0.01);
        run_spec(&b, rows[r].spec);
        assert_int_equal(l.calls, 101);
        close_bench(&b);
    }
}

static void test_class_notes(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        int classes;
        const char *want; /* NULL: nothing to say */
    } rows[] = {{"apgd-dlr", 2, "apgd-dlr: with 2 classes there is no"},
                {"apgd-dlr", 3, NULL},
                {"apgd-t", 3, "apgd-t: with 3 classes there is no"},
                {"apgd-t", 4, "apgd-t: with 4 classes there are 3 targets, not 9"},
                {"apgd-t", 10, NULL},
                {"apgd-t:targets=10", 10, "there are 9 targets, not 10"},
                {"fab-t", 2, "fab-t: with 2 classes there are 1 targets, not 9"},
                {"mt-pgd", 9, "there are 8 targets, not 9"},
                {"fab", 2, NULL},
                {"apgd-ce", 2, NULL}};
    for (size_t r = 0; r < T_COUNT(rows); r++) {
        vt_attack a;
        char text[200] = "";
        parse(&a, rows[r].spec);
        assert_int_equal(vt_attack_few_classes(&a.stages[0], rows[r].classes, text, sizeof text), rows[r].want != NULL);
        if (rows[r].want && !strstr(text, rows[r].want)) fail_msg("'%s' has not '%s'", text, rows[r].want);
        vt_attack_free(&a);
    }
}

/* A share called "targets" is no number of classes, whatever its bytes say when they are read as one. */
static void test_class_notes_look_at_types(void **state) {
    (void)state;
    static const vt_opt opts[] = {{"targets", "a share", VT_OPT_REAL, 0, 0.3, 0, 1, NULL, NULL},
                                  {NULL, NULL, 0, 0, 0, 0, 0, NULL, NULL}};
    static const vt_attack_def def = {.name = "shares", .opts = opts};
    double share = 0.3; /* its lower half is 858993459 */
    char text[200] = "";
    if (vt_attack_few_classes(&(vt_attack_stage){.def = &def, .params = &share}, 10, text, sizeof text))
        fail_msg("%s", text);
}

/* ---- expectation over draws ---- */

/* Noise a hundred times the gradient, of opposite signs in any two calls that follow each other. */
static void shake(void *arg, int64_t call, float *value, float *dx) {
    float most = 0;
    (void)arg, (void)value;
    for (size_t i = 0; i < MOST; i++) most = fmaxf(most, fabsf(dx[i]));
    for (size_t i = 0; i < MOST; i++) dx[i] += (call % 2 ? 100 : -100) * most;
}

/* z_1 - z_0 = 2 w.x + const at label 0, with the margin -1 at the best point of the ball; returns that point's gain. */
static double two_sided(bench *b) {
    planted *p = b->p;
    double wx = 0, gain = 0;
    for (size_t i = 0; i < p->n; i++) {
        p->w[i] = -p->w[p->n + i];
        wx += p->w[p->n + i] * (double)b->x[i];
        gain += b->ball.norm == VT_LINF ? fabs(p->w[i]) : p->w[i] * p->w[i];
    }
    gain = 2 * b->ball.eps * (b->ball.norm == VT_LINF ? gain : sqrt(gain));
    p->b[1] = -wx - gain / 2 - 0.5, p->b[0] = -p->b[1];
    return gain;
}

static double margin(planted *p, const float *x) {
    double z[PLANTED_MOST];
    p->logits(p, x, z);
    return z[1] - z[0];
}

static void test_draws(void **state) {
    (void)state;
    static const char *const losses_of[] = {"apgd-ce", "apgd-dlr"};
    for (int k = 0; k < 4; k++) {
        planted p;
        bench b;
        char spec[60];
        int eot = 2 - k % 2;
        assert_true(planted_linear(&p, 2, 8, 8, 17));
        open_bench(&b, &p, VT_LINF, 0.05);
        double gain = two_sided(&b);
        p.watch_gradient = shake;
        snprintf(spec, sizeof spec, "%s:eot=%d", losses_of[k / 2], eot);
        run_spec(&b, spec);
        assert_int_equal(b.o.gradients, 101 * eot);
        /* a forward for each draw, though at the same point; without draws a point asked about again needs none */
        if (eot == 2) assert_int_equal(p.forwards, 202);
        double missing = -1 - margin(&p, b.x_adv);
        /* the mean of two draws: signs are lost below 100 * 2^-24 of the largest entry; one draw: noise alone */
        assert_true(eot == 2 ? missing <= 1e-3 * gain : missing >= 0.2 * gain);
        close_bench(&b);
    }
}

/* ---- MALT and the losses on probabilities, against PyTorch ---- */

static void reference_model(planted *p, bench *b, vt_norm norm, double scale) {
    assert_true(planted_mlp(p, REF_CLASSES, 4, 4, 1));
    for (int i = 0; i < PLANTED_HIDDEN * REF_N; i++) p->w[i] = sin(0.7 * i + 0.3) / 4;
    for (int i = 0; i < PLANTED_HIDDEN; i++) p->b[i] = 0.3 * cos(1.1 * i);
    for (int i = 0; i < REF_CLASSES * PLANTED_HIDDEN; i++) p->a[i] = scale * sin(2.3 * i + 1);
    open_bench(b, p, norm, 0.1);
    for (int i = 0; i < REF_N; i++) b->x[i] = (float)(0.5 + 0.4 * sin(1.3 * i));
    b->t.label = REF_LABEL;
    vt_oracle_reset(&b->o, &b->ball, REF_LABEL, true);
}

/* Scores: float gradients and logits, 1e-5 of the largest; neighbours in the order differ by more. */
static void test_malt(void **state) {
    (void)state;
    static const int *const orders[] = {ref_malt_linf, ref_malt_l2, ref_malt_l1};
    static const double *const scores[] = {ref_malt_linf_scores, ref_malt_l2_scores, ref_malt_l1_scores};
    int moved = 0;
    for (vt_norm norm = VT_LINF; norm < VT_L0; norm++) {
        planted p;
        bench b;
        reference_model(&p, &b, norm, 1);
        float *merit = malloc((3 * (size_t)b.t.classes + b.t.n) * sizeof *merit), z[REF_CLASSES];
        assert_int_equal(vt_oracle_logits(&b.o, b.x, z), VT_OK);
        vt_oracle_reset(&b.o, &b.ball, REF_LABEL, true);
        assert_int_equal(vt_target_merits(&b.o, &b.t, VT_BY_MALT, merit), VT_OK);
        assert_true(b.o.forwards == 1 && b.o.gradients == REF_CLASSES - 1);
        for (int r = 0; r < REF_CLASSES - 1; r++) {
            int k = orders[norm][r];
            assert_int_equal(vt_target_of_rank(merit, REF_CLASSES, REF_LABEL, r + 2), k);
            t_le(fabs((double)merit[k] + scores[norm][r]), 1e-5 * scores[norm][REF_CLASSES - 2], "score %d", r);
            moved += vt_target_of_rank(z, REF_CLASSES, REF_LABEL, r + 2) != k;
        }
        free(merit);
        close_bench(&b);
    }
    assert_true(moved > 6); /* another order than that of the logits */
}

/* 120 classes of one pixel: z_k = -k / 100 + slope_k x. Class 110 would be nearest, but only the hundred largest logits
 * are looked at; class 50 has no gradient of its own and comes last of them. */
enum { MANY = 120 };

static float slope_of(int k) { return k == 0 || k == 50 ? 0 : k == 110 ? 1e6f : k == 7 ? 30 : 1; }

static vt_status many_logits(void *self, const float *x, float *z, bool keep, vt_err *e) {
    (void)self, (void)keep, (void)e;
    for (int k = 0; k < MANY; k++) z[k] = -(float)k / 100 + slope_of(k) * (x[0] - 0.5f);
    return VT_OK;
}

static vt_status many_backward(void *self, const vt_loss *loss, float *value, float *dx, vt_err *e) {
    (void)self, (void)e;
    *value = 0, dx[0] = dx[1] = dx[2] = 0;
    for (int k = 0; k < MANY; k++) dx[0] += loss->target[k] * slope_of(k);
    return VT_OK;
}

static void test_malt_many(void **state) {
    (void)state;
    vt_classifier c = {.classes = MANY, .pixels = 3, .logits = many_logits, .backward = many_backward};
    float x[3] = {0.5f, 0.5f, 0.5f}, lo[3], hi[3];
    vt_ball ball;
    vt_oracle o;
    vt_ball_init(&ball, VT_LINF, 0.1, x, 3, lo, hi);
    assert_int_equal(vt_oracle_open(&o, &c, NULL), VT_OK);
    vt_oracle_reset(&o, &ball, 0, true);
    vt_task t = {.x = x, .n = 3, .shape = {3, 1, 1}, .classes = MANY, .ball = &ball};
    float *merit = malloc((3 * (size_t)t.classes + t.n) * sizeof *merit);
    assert_int_equal(vt_target_merits(&o, &t, VT_BY_MALT, merit), VT_OK);
    assert_int_equal(o.gradients, 100);
    static const struct { int rank, class; } rows[] = {{2, 7}, {3, 1}, {4, 2}, {100, 100}, {101, 50}};
    for (size_t r = 0; r < T_COUNT(rows); r++)
        assert_int_equal(vt_target_of_rank(merit, MANY, 0, rows[r].rank), rows[r].class);
    for (int r = 2; r <= 101; r++) assert_in_range(vt_target_of_rank(merit, MANY, 0, r), 1, 100);
    free(merit);
    vt_oracle_close(&o);
}

static void test_probabilities(void **state) {
    (void)state;
    static const struct {
        vt_loss_kind kind;
        double scale;
        const double *want;
    } rows[] = {{VT_LOSS_PM, 1, ref_pm_1},
                {VT_LOSS_PM, 10, ref_pm_10},
                {VT_LOSS_PO, 1, ref_po_1},
                {VT_LOSS_PO, 10, ref_po_10}};
    for (size_t r = 0; r < T_COUNT(rows); r++) {
        planted p;
        bench b;
        float g[REF_N], value;
        double most = 0;
        reference_model(&p, &b, VT_LINF, rows[r].scale);
        vt_loss loss = vt_oracle_loss(&b.o, rows[r].kind);
        assert_int_equal(vt_oracle_gradient(&b.o, b.x, &loss, NULL, &value, g), VT_OK);
        t_le(fabs((double)value - rows[r].want[0]), 1e-5, "value of row %zu", r);
        for (int i = 0; i < REF_N; i++) most = fmax(most, fabs(rows[r].want[1 + i]));
        /* logits up to 30, rounded to float before the softmax: probabilities within 30 * 2^-24, relative */
        for (int i = 0; i < REF_N; i++)
            t_le(fabs((double)g[i] - rows[r].want[1 + i]), 1e-5 * most, "gradient of row %zu, %d", r, i);
        close_bench(&b);
    }
}

/* ---- mt-pgd and pma ---- */

typedef struct diary {
    float x[CALLS][MOST];
    int calls;
} diary;

static void note(void *arg, const float *x, int64_t call, float *z) {
    diary *d = arg;
    (void)z, (void)call;
    if (d->calls < CALLS) memcpy(d->x[d->calls++], x, sizeof d->x[0]);
}

static double gap(const float *a, const float *b) {
    double most = 0;
    for (size_t i = 0; i < MOST; i++) most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

/* Four classes: three targets, each twice, first from the clean image; step sizes eps/5, then a tenth, a hundredth. */
static void test_mt_pgd(void **state) {
    (void)state;
    static diary d;
    planted p;
    bench b;
    assert_true(planted_linear(&p, 4, 8, 8, 3));
    open_bench(&b, &p, VT_LINF, 1e-3);
    double z[PLANTED_MOST];
    p.logits(&p, b.x, z);
    for (int k = 1; k < 4; k++)
        if (z[k] > z[b.t.label]) b.t.label = k;
    p.watch = note, p.arg = &d, d.calls = 0;
    run_spec(&b, "mt-pgd:steps=4");
    assert_int_equal(b.o.gradients, 3 * 2 * 4);
    assert_int_equal(b.o.forwards, 1 + 3 * 2);
    static const double moves[] = {0.2, 0.2, 0.02, 0.002};
    for (int run = 0; run < 6; run++) {
        const float(*q)[MOST] = (const float(*)[MOST])d.x + 1 + run * 5;
        assert_int_equal(memcmp(q[0], b.x, sizeof q[0]) == 0, run % 2 == 0);
        /* float32 pixels: 6e-8 of 1e-3; a random start may lie at the ball's border, where steps end */
        for (int k = 0; k < 4 && run % 2 == 0; k++) assert_true(fabs(gap(q[k + 1], q[k]) / 1e-3 - moves[k]) <= 2e-4);
    }
    /* at most two of the three targets share the sign of any one pixel's move: the three clean runs differ */
    assert_true(gap(d.x[2], d.x[12]) > 1e-4 && gap(d.x[2], d.x[22]) > 1e-4 && gap(d.x[12], d.x[22]) > 1e-4);
    close_bench(&b);
}

/* A margin that is linear, and reaches -1 or 1 at best: the first step goes to the corner of the label, the next to the
 * other, and so it ends; broken exactly where that is possible. */
static void test_pma(void **state) {
    (void)state;
    static diary d;
    for (int c = 0; c < 4; c++) {
        planted p;
        bench b;
        assert_true(planted_linear(&p, 2, 8, 8, 70 + (uint64_t)c));
        open_bench(&b, &p, c % 2 ? VT_L2 : VT_LINF, c % 2 ? 0.25 : 0.01);
        double gain = two_sided(&b);
        if (c >= 2) p.b[1] += 1, p.b[0] -= 1; /* the best margin is 1 */
        p.watch = note, p.arg = &d, d.calls = 0;
        run_spec(&b, "pma");
        assert_int_equal(b.o.has_found, c >= 2);
        double at[3], best = c >= 2 ? 1 : -1;
        for (int k = 0; k < 3; k++) at[k] = margin(&p, d.x[k]) - best;
        assert_true(fabs(at[0] + gain) <= 0.9 * gain);
        if (c % 2 == 0) {
            assert_true(fabs(at[1] + 2 * gain) <= 1e-4 * gain); /* float32 pixels of steps of 0.01 */
            assert_true(fabs(at[2]) <= 0.01 * gain);            /* 1 + cos(pi / 50) = 1.998 eps, then the border */
        }
        if (c < 2) {
            assert_int_equal(b.o.gradients, 200);
            assert_int_equal(b.o.forwards, 2);
            assert_true(memcmp(d.x[0], d.x[101], sizeof d.x[0]) != 0); /* the second pass starts elsewhere */
            t_le(fabs(margin(&p, b.x_adv) - best), 1e-4 * gain, "end of case %d", c);
        } else {
            assert_true(margin(&p, b.x_adv) > 0);
        }
        close_bench(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_few_classes),
        cmocka_unit_test(test_class_notes),
        cmocka_unit_test(test_class_notes_look_at_types),
        cmocka_unit_test(test_draws),
        cmocka_unit_test(test_malt),
        cmocka_unit_test(test_malt_many),
        cmocka_unit_test(test_probabilities),
        cmocka_unit_test(test_mt_pgd),
        cmocka_unit_test(test_pma),
    };
    return cmocka_run_group_tests_name("targets", tests, NULL, NULL);
}
