/* SPDX-License-Identifier: MIT */
/* What papers' released code ran: against a transcription in PyTorch, iterate for iterate
 * (tests/fixtures/golden/published, made by tools/gen_published_fixture.py), and by what must hold of each quirk. */
#include "ask.h"
#include "attack_fixture.h"
#include "linalg/gemm.h"
#include "reference.h"

#define FIXTURE "tests/fixtures/golden/published.safetensors"
#define WEIGHTS "tests/fixtures/golden/hooks.safetensors"

enum { SIDE = 8, PIXELS = 3 * SIDE * SIDE, CLASSES = 5, STEPS = 5, RESTARTS = 2 };

/* ---- against PyTorch ---- */

static vt_config tiny(void) {
    return (vt_config){.arch = "vit",
                       .attn = "dot",
                       .image = SIDE,
                       .patch = 4,
                       .dim = 16,
                       .depth = 3,
                       .heads = 2,
                       .hidden = 24,
                       .classes = CLASSES,
                       .qkv_bias = true,
                       .ln_eps = 1e-6,
                       .attn_scale = sqrt(0.125),
                       .mean = {0.4914, 0.4822, 0.4465},
                       .std = {0.2470, 0.2435, 0.2616}};
}

/* The fixture's network: its head times `gain`. */
static vt_model *fixture_model(double gain) {
    vt_config c = tiny();
    vt_model *m = NULL;
    vt_err e = {0};
    vt_tensors *weights = reference_open(WEIGHTS);
    if (vt_model_new(&m, &c, &e) != VT_OK) fail_msg("%s", e.text);
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        double *w = reference(weights, p->numel, "w.%s", p->name), factor = strncmp(p->name, "head.", 5) ? 1 : gain;
        for (size_t k = 0; k < p->numel; k++) m->w[p->offset + k] = (float)(factor * w[k]);
        free(w);
    }
    vt_model_refresh(m);
    vt_tensors_close(weights);
    return m;
}

/* The task's before_step: sets where a restart begins, and compares all that follows with the reference. */
typedef struct replay {
    const double *starts,
        *path; /* of this image: start r at r * stride, point k of r at (r * (STEPS + 1) + k) * stride */
    size_t stride;
    int restart, k;
    const char *name;
    double worst;
} replay;

static const double *point(const replay *r, int restart, int k) {
    return r->path + (size_t)(restart * (STEPS + 1) + k) * r->stride;
}

static double off(const float *x, const double *want) {
    double most = 0;
    for (int i = 0; i < PIXELS; i++) {
        double d = fabs((double)x[i] - want[i]);
        if (!(d <= most)) most = d;
    }
    return most;
}

static void follow(void *ctx, int k, float *x_adv) {
    replay *r = ctx;
    if (k == 0) {
        r->restart++;
        for (int i = 0; i < PIXELS; i++) x_adv[i] = (float)r->starts[(size_t)r->restart * r->stride + (size_t)i];
    }
    r->k = k;
    double d = off(x_adv, point(r, r->restart, k));
    if (!(d <= r->worst)) r->worst = d;
}

/* The reference steps in double on normalised tensors, we in float on pixels: a coordinate is a few roundings of 6e-8
 * apart. A step the other way would be 3e-3. */
#define NEAR 1e-6

static void check_case(const vt_tensors *st, vt_oracle *o, const char *name, const char *spec, double eps) {
    size_t images = vt_tensors_find(st, "labels")->numel, all = images * PIXELS;
    bool wild = !strcmp(name, "trades"), follows = strcmp(name, "fgsm") != 0;
    int restarts = !strcmp(name, "ce") || !strcmp(name, "cw") ? RESTARTS : 1;
    char path[3] = {name[0], name[1], 0}; /* ce1: the first restart of ce */
    double *x = reference(st, all, "x"), *labels = reference(st, images, "labels");
    double *starts = wild ? reference(st, all, "wild") : reference(st, RESTARTS * all, "start"), *paths = NULL;
    size_t length = (wild ? 1 : RESTARTS) * (STEPS + 1) * all;
    if (follows) paths = reference(st, length, "%s.path", wild ? name : path);
    double *scored = reference(st, all, "%s.scored", name), *pred = reference(st, images, "%s.pred", name);
    vt_attack a;
    vt_err e = {0};
    if (vt_attack_parse(&a, spec, VT_LINF, &e) != VT_OK) fail_msg("%s", e.text);
    for (size_t i = 0; i < images; i++) {
        float xf[PIXELS], x_adv[PIXELS], lo[PIXELS], hi[PIXELS], work[8 * PIXELS], z[CLASSES];
        for (int k = 0; k < PIXELS; k++) xf[k] = (float)x[i * PIXELS + (size_t)k];
        replay r = {starts + i * PIXELS, follows ? paths + i * PIXELS : NULL, all, -1, 0, name, 0};
        vt_ball ball;
        vt_ball_init(&ball, VT_LINF, eps, xf, PIXELS, lo, hi);
        vt_task t = {.x = xf, .n = PIXELS, .shape = {3, SIDE, SIDE}, .classes = CLASSES, .label = (int)labels[i]};
        t.ball = &ball, t.x_adv = x_adv, t.work = work, t.before_step = follow, t.ctx = &r;
        vt_oracle_reset(o, &ball, t.label, true);
        assert_int_equal(vt_attack_stage_run(o, &a.stages[0], &t), VT_OK);
        t_le(r.worst, NEAR, "%s, image %zu: an iterate", name, i);
        t_le(off(x_adv, scored + i * PIXELS), NEAR, "%s, image %zu: the point that is scored", name, i);
        ask_logits(o->model, x_adv, z, false);
        assert_int_equal(vt_argmax_f32(z, CLASSES), (int)pred[i]);
        if (!follows) continue;
        assert_int_equal(r.restart + 1, restarts);
        /* where ours ended, the reference stood still */
        for (int k = r.k + 1; k < STEPS && !wild; k++)
            t_le(t_max_diff(point(&r, r.restart, k), point(&r, r.restart, r.k), PIXELS), 0, "%s moved on", name);
    }
    vt_attack_free(&a);
    free(x), free(labels), free(starts), free(paths), free(scored), free(pred);
}

static void test_reference(void **state) {
    (void)state;
    static const struct {
        const char *name, *spec;
        double eps;
    } cases[] = {
        {"ce", "pgd-specformer:steps=5,alpha=0.75/255,restarts=2", 2.0 / 255},
        {"cw", "pgd-specformer:steps=5,alpha=0.75/255,restarts=2,loss=cw", 2.0 / 255},
        {"ce1", "pgd-specformer:steps=5,alpha=0.75/255", 2.0 / 255},
        {"cw1", "pgd-specformer:steps=5,alpha=0.75/255,loss=cw,eps=2/255", 8.0 / 255}, /* its own eps, not the run's */
        {"trades", "pgd-trades:steps=5,eps=0.008", 8.0 / 255},
        {"fgsm", "fgsm-specformer", 8.0 / 255},
    };
    vt_tensors *st = reference_open(FIXTURE);
    double *gain = reference(st, 1, "gain");
    vt_model *m = fixture_model(*gain);
    vt_classifier c;
    vt_oracle o;
    vt_blas_single_thread();
    assert_int_equal(vt_classifier_open(&c, m, NULL), VT_OK);
    assert_int_equal(vt_oracle_open(&o, &c, NULL), VT_OK);
    o.mode = VT_ORACLE_NO_VERDICT;
    assert_true(vt_tensors_find(st, "labels")->numel >= 6);
    for (size_t k = 0; k < T_COUNT(cases); k++) check_case(st, &o, cases[k].name, cases[k].spec, cases[k].eps);
    vt_oracle_close(&o);
    vt_classifier_close(&c);
    vt_model_close(m);
    vt_tensors_close(st);
    free(gain);
}

/* ---- by what must hold ---- */

/* Two classes, label 0; z1 - z0 as a function of s, which is 0 at the image and 1 at the ball's best point. */
static void confident(double s, double *z, double *slope) { z[0] = 0, z[1] = -10.5 + s, slope[0] = 0, slope[1] = 1; }
static void stubborn(double s, double *z, double *slope) { z[0] = 0, z[1] = -9 + s, slope[0] = 0, slope[1] = 1; }
static void exact(double s, double *z, double *slope) { (void)s, z[0] = 0, z[1] = -10, slope[0] = 0, slope[1] = 1; }
static void easy(double s, double *z, double *slope) { z[0] = 0, z[1] = s - 0.5, slope[0] = 0, slope[1] = 1; }
/* Wrong at the image itself, right and flat around it. */
static void island(double s, double *z, double *slope) {
    z[0] = 0, z[1] = fabs(s) < 1e-6 ? 1 : -5, slope[0] = slope[1] = 0;
}
/* Broken on the way, right again at the end. */
static void pass(double s, double *z, double *slope) {
    z[0] = 0, z[1] = s > 0.4 && s < 0.8 ? 1 : -1, slope[0] = 0, slope[1] = 1;
}

typedef struct track {
    float wrong[PIXELS];    /* the first query that is misclassified */
    int64_t queries, after; /* after it */
    bool seen;
} track;

static void note(void *arg, const float *x, int64_t call, float *z) {
    track *t = arg;
    (void)call;
    t->queries++;
    t->after += t->seen;
    if (t->seen || z[1] <= z[0]) return;
    t->seen = true;
    memcpy(t->wrong, x, sizeof t->wrong);
}

/* One image of 8 x 8 whose pixels meet no border, in a ball of 8/255. */
typedef struct ridge {
    planted p;
    bench b;
    float x[PIXELS], lo[PIXELS], hi[PIXELS];
    track seen;
} ridge;

static ridge *ridge_open(void (*profile)(double, double *, double *)) {
    ridge *r = calloc(1, sizeof *r);
    assert_non_null(r);
    vt_ball ball;
    paint(r->x, PIXELS, 3, true);
    vt_ball_init(&ball, VT_LINF, 8.0 / 255, r->x, PIXELS, r->lo, r->hi);
    assert_true(planted_ridge(&r->p, 2, SIDE, SIDE, 77, profile, &ball));
    bench_open(&r->b, &r->p, 3, true);
    assert_memory_equal(r->b.x, r->x, sizeof r->x);
    bench_ball(&r->b, VT_LINF, 8.0 / 255);
    r->b.label = 0, r->b.o.mode = VT_ORACLE_NO_VERDICT;
    r->p.watch = note, r->p.arg = &r->seen;
    return r;
}

static void ridge_run(ridge *r, const char *spec) {
    r->seen = (track){0};
    assert_int_equal(run_spec(&r->b, spec), VT_OK);
}

static void ridge_close(ridge *r) {
    bench_close(&r->b);
    planted_free(&r->p);
    free(r);
}

static bool at_clean(const ridge *r) { return !memcmp(r->b.x_adv, r->x, sizeof r->x); }

/* Right by more than 10: one gradient, which is zero, and no step. Right by less, or by 10 exactly: all steps. */
static void test_clamp(void **state) {
    (void)state;
    ridge *r = ridge_open(confident);
    ridge_run(r, "pgd-specformer:loss=cw");
    assert_int_equal(r->b.o.gradients, 1);
    assert_true(at_clean(r));
    ridge_run(r, "pgd-specformer"); /* the cross entropy has no clamp */
    assert_int_equal(r->b.o.gradients, 20);
    ridge_close(r);
    void (*const moving[])(double, double *, double *) = {stubborn, exact};
    for (size_t k = 0; k < T_COUNT(moving); k++) {
        r = ridge_open(moving[k]);
        ridge_run(r, "pgd-specformer:loss=cw");
        assert_int_equal(r->b.o.gradients, 20);
        ridge_close(r);
    }
}

/* Still right under CW: scored on the clean image; under the cross entropy where the last step led. */
static void test_bookkeeping(void **state) {
    (void)state;
    ridge *r = ridge_open(stubborn);
    ridge_run(r, "pgd-specformer:loss=cw,restarts=3");
    assert_true(at_clean(r));
    ridge_run(r, "pgd-specformer");
    assert_false(at_clean(r));
    ridge_run(r, "cw20:alpha=2/255"); /* the corrected attack is scored where it is */
    assert_false(at_clean(r));
    ridge_close(r);
    /* wrong when clean, right from the start on: counts as wrong, because the clean image is scored */
    r = ridge_open(island);
    ridge_run(r, "pgd-specformer:loss=cw");
    assert_false(r->seen.seen);
    assert_true(at_clean(r) && predicted(&r->p, r->b.x_adv) == 1);
    ridge_run(r, "pgd-specformer");
    assert_int_equal(predicted(&r->p, r->b.x_adv), 0);
    ridge_close(r);
}

/* The first misclassified iterate is the last, and what is scored. */
static void test_frozen(void **state) {
    (void)state;
    static const char *const specs[] = {"pgd-specformer", "pgd-specformer:loss=cw", "pgd-specformer:alpha=1/255"};
    for (size_t k = 0; k < T_COUNT(specs); k++) {
        ridge *r = ridge_open(easy);
        ridge_run(r, specs[k]);
        assert_true(r->seen.seen && r->seen.after == 0);
        assert_true(r->seen.queries > 1 && r->seen.queries < 20);
        assert_memory_equal(r->b.x_adv, r->seen.wrong, sizeof r->x);
        ridge_close(r);
    }
}

/* An iterate that was broken on the way does not count for TRADES, and does for a frozen one. */
static void test_last_iterate(void **state) {
    (void)state;
    ridge *r = ridge_open(pass);
    ridge_run(r, "pgd-trades:eps=0");
    assert_true(r->seen.seen && r->seen.after > 0);
    assert_int_equal(r->seen.queries, 20);
    assert_int_equal(predicted(&r->p, r->b.x_adv), 0);
    ridge_run(r, "pgd-specformer:alpha=0.003");
    assert_int_equal(predicted(&r->p, r->b.x_adv), 1);
    ridge_close(r);
}

/* Beside pgd nothing but the evaluator differs: the same start and steps, so the same last point where nothing is
 * misclassified; with the eps that is asked for, not the run's. */
static void test_beside_pgd(void **state) {
    (void)state;
    float plain[PIXELS];
    ridge *r = ridge_open(stubborn);
    ridge_run(r, "pgd:steps=7,alpha=1/255");
    memcpy(plain, r->b.x_adv, sizeof plain);
    ridge_run(r, "pgd-specformer:steps=7,alpha=1/255");
    assert_memory_equal(r->b.x_adv, plain, sizeof plain);
    ridge_run(r, "pgd-trades:steps=7,alpha=1/255,eps=0"); /* no border is near: the same start */
    double most = 0;
    for (int i = 0; i < PIXELS; i++) most = fmax(most, fabs((double)r->b.x_adv[i] - (double)plain[i]));
    t_le(most, 1e-7, "pgd-trades beside pgd"); /* the start is computed in float */
    static const struct {
        const char *spec;
        double eps;
    } radii[] = {{"pgd-specformer:eps=2/255", 2.0 / 255}, {"pgd-trades", 0.031}};
    for (size_t k = 0; k < T_COUNT(radii); k++) {
        ridge_run(r, radii[k].spec);
        double d = vt_distance(VT_LINF, r->b.x_adv, r->x, PIXELS);
        assert_true(d <= radii[k].eps && d > 0.999 * radii[k].eps);
    }
    ridge_close(r);
}

/* TRADES' first gradient is taken outside the box. */
static void test_wild_start(void **state) {
    (void)state;
    planted p;
    assert_true(planted_linear(&p, 10, SIDE, SIDE, 5));
    bench b;
    bench_open(&b, &p, 1, false); /* pixels that are 0 and 1 */
    bench_ball(&b, VT_LINF, 8.0 / 255);
    b.o.mode = VT_ORACLE_NO_VERDICT;
    for (int run = 0; run < 2; run++) {
        float least = 1, most = 0;
        assert_int_equal(run_spec(&b, run ? "pgd-specformer:steps=1" : "pgd-trades:steps=1"), VT_OK);
        for (int i = 0; i < PIXELS; i++) least = fminf(least, p.kept[i]), most = fmaxf(most, p.kept[i]);
        if (run)
            assert_true(least >= 0 && most <= 1);
        else
            assert_true(least < -0.02f && most > 1.02f); /* kept: the one point that a gradient was asked at */
    }
    bench_close(&b);
    planted_free(&p);
}

/* The closed form, pixel by pixel; with mean 0 and std 1 it is FGSM. */
static void test_normalised_fgsm(void **state) {
    (void)state;
    planted p;
    assert_true(planted_linear(&p, 10, SIDE, SIDE, 6));
    bench b;
    bench_open(&b, &p, 2, false);
    bench_ball(&b, VT_LINF, 8.0 / 255);
    vt_attack a, plain;
    assert_int_equal(vt_attack_parse(&a, "fgsm-specformer", VT_LINF, NULL), VT_OK);
    assert_int_equal(vt_attack_parse(&plain, "fgsm", VT_LINF, NULL), VT_OK);
    float work[4 * PIXELS], adv[PIXELS], g[PIXELS];
    vt_task t = {.x = b.x, .n = PIXELS, .shape = {3, SIDE, SIDE}, .classes = 10, .label = b.label, .ball = &b.ball};
    t.work = work, t.x_adv = adv;
    b.o.mode = VT_ORACLE_NO_VERDICT;
    vt_oracle_reset(&b.o, &b.ball, b.label, true);
    assert_int_equal(vt_attack_stage_run(&b.o, &a.stages[0], &t), VT_OK);
    vt_passes c = vt_attack_cost(&a, &(vt_cost_dims){.classes = 10});
    assert_int_equal(b.o.gradients, 1);
    assert_true((double)b.o.gradients == c.gradients && (double)b.o.forwards == c.forwards - c.unread);
    memcpy(g, work, sizeof g); /* a linear model's gradient is the same everywhere, up to the softmax */
    int dark = 0, bright = 0, between = 0;
    for (int i = 0; i < PIXELS; i++) {
        double mean = p.c.mean[i / 64], std = p.c.std[i / 64], v = ((double)b.x[i] - mean) / std;
        double moved = fmin(fmax(v + 8.0 / 255 * (g[i] > 0 ? 1 : -1), 0), 1);
        t_le(fabs((double)adv[i] - (mean + std * moved)), 1e-7, "pixel %d", i); /* one rounding to float */
        dark += (double)b.x[i]<mean - 0.01, bright += (double)b.x[i]> mean + std + 0.01;
        between += moved > 0 && moved < 1;
        assert_true((double)adv[i] >= mean - 1e-7 && (double)adv[i] <= mean + std + 1e-7);
    }
    assert_true(dark > 20 && bright > 20 && between > 5);
    for (int k = 0; k < 3; k++) p.c.mean[k] = 0, p.c.std[k] = 1;
    assert_int_equal(vt_attack_stage_run(&b.o, &a.stages[0], &t), VT_OK);
    float expected[PIXELS];
    memcpy(expected, adv, sizeof adv);
    assert_int_equal(vt_attack_stage_run(&b.o, &plain.stages[0], &t), VT_OK);
    for (int i = 0; i < PIXELS; i++) t_le(fabs((double)adv[i] - (double)expected[i]), 1e-7, "FGSM, pixel %d", i);
    for (int k = 0; k < 3; k++) p.c.std[k] = 0; /* no normalisation is known */
    assert_int_equal(vt_attack_stage_run(&b.o, &a.stages[0], &t), VT_E_FORBIDDEN);
    vt_attack_free(&a), vt_attack_free(&plain);
    bench_close(&b);
    planted_free(&p);
}

/* Mean and std are those of the image's planes, not of the reversed ones behind them. */
static void test_reversed_channels(void **state) {
    (void)state;
    for (int bgr = 0; bgr < 2; bgr++) {
        vt_config c = tiny();
        vt_model *m;
        vt_classifier k;
        c.bgr = bgr, c.native = bgr ? SIDE : 0;
        assert_int_equal(vt_model_new(&m, &c, NULL), VT_OK);
        assert_int_equal(vt_classifier_open(&k, m, NULL), VT_OK);
        for (int i = 0; i < 3; i++) {
            assert_true(k.mean[i] == c.mean[bgr ? 2 - i : i]);
            assert_true(k.std[i] == c.std[bgr ? 2 - i : i]);
        }
        vt_classifier_close(&k);
        vt_model_close(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),         cmocka_unit_test(test_clamp),
        cmocka_unit_test(test_bookkeeping),       cmocka_unit_test(test_frozen),
        cmocka_unit_test(test_last_iterate),      cmocka_unit_test(test_beside_pgd),
        cmocka_unit_test(test_wild_start),        cmocka_unit_test(test_normalised_fgsm),
        cmocka_unit_test(test_reversed_channels),
    };
    return cmocka_run_group_tests_name("published", tests, NULL, NULL);
}
