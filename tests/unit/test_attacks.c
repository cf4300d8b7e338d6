/* src/attacks on planted classifiers (planted.h): what every attack of the registry must keep, closed-form
 * optima, and the rules of APGD's schedule, Square's windows, FAB's projection and the ball (algorithms.md
 * A.4 to A.7). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include "attacks/apgd.h"
#include "attacks/fab.h"
#include "attacks/rank.h"
#include "core/opt.h"
#include "planted.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- one image on the bench: guarded copies of all that an attack is given ---- */

enum { GUARD = 16 };
static const float guard_word = -12345.5f;

typedef struct bench {
    planted *p;
    vt_oracle o;
    vt_ball ball;
    float *x, *x_copy, *lo, *hi, *x_adv; /* x and x_adv have GUARD words behind them */
    int label;
    uint64_t seed;
    uint32_t image;
} bench;

static float *floats(size_t n) {
    float *f = calloc(n ? n : 1, sizeof *f);
    assert_non_null(f);
    return f;
}

static void fence(float *f, size_t n) {
    for (size_t i = 0; i < GUARD; i++) f[n + i] = guard_word;
}

static void assert_fenced(const float *f, size_t n) {
    for (size_t i = 0; i < GUARD; i++) assert_true(f[n + i] == guard_word);
}

/* Pixels exactly 0 and exactly 1 (a quarter each) among the others, or all within [0.3, 0.7]. */
static void paint(float *x, size_t n, uint32_t image, bool interior) {
    for (size_t i = 0; i < n; i++) {
        vt_rng r = {.seed = 7, .purpose = vt_rng_purpose("paint"), .image = image};
        float u = vt_rng_uniform(&r, i);
        if (interior)
            x[i] = 0.3f + 0.4f * u;
        else
            x[i] = u < 0.25f ? 0 : u < 0.5f ? 1 : (float)(int)(u * 255) / 255.0f;
    }
}

static int predicted(planted *p, const float *x) {
    double z[PLANTED_MOST];
    int best = 0;
    p->logits(p, x, z);
    for (int k = 1; k < p->classes; k++)
        if (z[k] > z[best]) best = k;
    return best;
}

/* The label is what the classifier says: the image starts right. */
static void bench_open(bench *b, planted *p, uint32_t image, bool interior) {
    memset(b, 0, sizeof *b);
    size_t n = p->n;
    b->p = p, b->image = image, b->seed = 1;
    b->x = floats(n + GUARD), b->x_copy = floats(n), b->lo = floats(n), b->hi = floats(n), b->x_adv = floats(n + GUARD);
    paint(b->x, n, image, interior);
    fence(b->x, n);
    memcpy(b->x_copy, b->x, n * sizeof(float));
    assert_int_equal(vt_oracle_open(&b->o, &p->c, NULL), VT_OK);
    b->o.interrupt = &p->flag;
    b->o.exhaustive = true;
    if (p->logits) b->label = predicted(p, b->x);
}

static void bench_ball(bench *b, vt_norm norm, double eps) {
    vt_ball_init(&b->ball, norm, eps, b->x, b->p->n, b->lo, b->hi);
}

static void bench_close(bench *b) {
    vt_oracle_close(&b->o);
    free(b->x), free(b->x_copy), free(b->lo), free(b->hi), free(b->x_adv);
}

static double distance(vt_norm norm, const float *a, const float *b, size_t n) {
    double most = 0, sum = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)a[i] - (double)b[i];
        most = fmax(most, fabs(d));
        sum += norm == VT_L1 ? fabs(d) : d * d;
    }
    return norm == VT_LINF ? most : norm == VT_L2 ? sqrt(sum) : sum;
}

/* In ball and box by this file's own arithmetic: double, no tolerance. */
static void assert_inside(const bench *b, const float *v) {
    assert_true(distance(b->ball.norm, v, b->x, b->p->n) <= b->ball.eps);
    for (size_t i = 0; i < b->p->n; i++) assert_true(v[i] >= 0 && v[i] <= 1);
}

/* One stage; checks what holds whatever the outcome: the input and the words behind every buffer are as
 * before, and the result is feasible when there is one. Buffers start as NaN, so that nothing is read before
 * it is written. */
static vt_status bench_run(bench *b, const vt_attack_stage *s, bool gradients) {
    size_t n = b->p->n;
    vt_task t = {.x = b->x, .n = n, .height = b->p->height, .width = b->p->width, .classes = b->p->classes};
    t.label = b->label, t.ball = &b->ball, t.x_adv = b->x_adv;
    t.rng = (vt_rng){.seed = b->seed, .purpose = vt_rng_purpose(s->def->name), .image = b->image};
    size_t len = s->def->work_len ? s->def->work_len(s->params, &t) : 0;
    t.work = floats(len + GUARD);
    for (size_t i = 0; i < len; i++) t.work[i] = NAN;
    for (size_t i = 0; i < n; i++) b->x_adv[i] = NAN;
    fence(t.work, len);
    fence(b->x_adv, n);
    b->p->forwards = b->p->keeps = b->p->groups = b->p->backwards = b->p->forwards64 = 0;
    b->p->flag = 0;
    vt_oracle_reset(&b->o, &b->ball, b->label, gradients);
    vt_status st = s->def->run(&b->o, s->params, &t);
    assert_fenced(t.work, len);
    assert_fenced(b->x_adv, n);
    assert_fenced(b->x, n);
    assert_memory_equal(b->x, b->x_copy, n * sizeof(float));
    if (st == VT_OK) assert_inside(b, b->x_adv);
    free(t.work);
    return st;
}

/* ---- the registry, generically ---- */

/* Small budgets by option name, whatever the attack; ensembles take none. */
static vt_attack parse_small(const vt_attack_def *def, vt_norm norm, bool restarts) {
    char spec[120] = "";
    for (const vt_opt *o = def->opts; o && o->key; o++) {
        const char *value = !strcmp(o->key, "steps") ? "12" : !strcmp(o->key, "queries") ? "250" : NULL;
        if (!strcmp(o->key, "restarts") && restarts) value = "2";
        size_t at = strlen(spec);
        if (value) snprintf(spec + at, sizeof spec - at, "%s%s=%s", at ? "," : ":", o->key, value);
    }
    char whole[160];
    snprintf(whole, sizeof whole, "%s%s", def->name, spec);
    vt_attack a;
    vt_err e = {0};
    if (vt_attack_parse(&a, whole, norm, &e) != VT_OK) fail_msg("%s", e.text);
    return a;
}

/* The patch threat has a file of its own. */
static bool can(const vt_attack_def *d, vt_norm norm) {
    return (d->norms & 1u << norm) != 0;
}

/* Calls f for every stage of every attack and every norm. Long ensembles run their stages at full budget once
 * only. */
static void each_stage(void (*f)(const vt_attack_stage *s, vt_norm norm, void *arg), void *arg, bool ensembles) {
    int n;
    const vt_attack_def *const *defs = vt_attack_defs(&n);
    assert_true(n >= 10);
    for (int i = 0; i < n; i++)
        for (vt_norm norm = VT_LINF; norm < VT_NORM_COUNT; norm++)
            for (int restarts = 0; restarts < 2; restarts++) {
                if (!can(defs[i], norm)) continue;
                vt_attack a = parse_small(defs[i], norm, restarts);
                if (a.n_stages == 1 || (ensembles && !restarts))
                    for (int k = 0; k < a.n_stages; k++) f(&a.stages[k], norm, arg);
                vt_attack_free(&a);
            }
}

/* The oracle's counters are the classifier's own. A forward asked for by itself may serve a gradient at the
 * same point (FAB alone asks so): of the kept forwards, those that no gradient followed are the difference.
 */
static void assert_counts(const bench *b, const vt_attack_stage *s, vt_status st) {
    const planted *p = b->p;
    int64_t alone = p->forwards - p->keeps;
    assert_int_equal(b->o.gradients, p->backwards);
    assert_int_equal(b->o.confirmations, p->forwards64);
    if (s->def->looks)
        assert_in_range(b->o.forwards, alone, alone + 1); /* attention on the clean image */
    else if (strncmp(s->def->name, "fab", 3))
        assert_int_equal(b->o.forwards, alone);
    else if (st == VT_OK)
        assert_int_equal(b->o.forwards, alone + p->groups);
    assert_in_range(b->o.forwards, alone, p->forwards);
}

/* A point that the oracle kept lies in the ball and is misclassified in float; after VT_STOP in double as
 * well, beyond VT_CONFIRM_FACTOR times the float noise. */
static void assert_found(const bench *b, vt_status st) {
    double d[PLANTED_MOST], noise = 0, other = -INFINITY;
    if (st == VT_STOP) assert_true(b->o.has_found && !b->o.exhaustive);
    if (!b->o.has_found) return;
    assert_inside(b, b->o.found);
    b->p->logits(b->p, b->o.found, d);
    int best = 0;
    for (int k = 0; k < b->p->classes; k++) {
        if ((float)d[k] > (float)d[best]) best = k;
        if (k != b->label) other = fmax(other, d[k]);
        noise = fmax(noise, fabs((double)(float)d[k] - d[k]));
    }
    assert_int_not_equal(best, b->label);
    if (st == VT_STOP) assert_true(other - d[b->label] > VT_CONFIRM_FACTOR * noise);
}

static int stops, ends;

static void check_stage(const vt_attack_stage *s, vt_norm norm, void *arg) {
    static const double eps[VT_NORM_COUNT][3] = {{1.0 / 255, 8.0 / 255, 0.3}, {0.1, 0.5, 2}, {0.5, 3, 12}};
    static const int shapes[4][2] = {{8, 8}, {5, 9}, {1, 1}, {7, 3}};
    (void)arg;
    for (int i = 0; i < 12; i++) {
        planted p;
        const int *hw = shapes[i % 4];
        assert_true(i % 2 ? planted_mlp(&p, 10, hw[0], hw[1], (uint64_t)i)
                          : planted_linear(&p, 10, hw[0], hw[1], (uint64_t)i));
        bench b;
        bench_open(&b, &p, (uint32_t)i, i % 6 == 5);
        b.seed = (uint64_t)i * 1000003;
        bench_ball(&b, norm, eps[norm][i / 4]);
        b.o.exhaustive = i % 3 == 0;
        vt_status st = bench_run(&b, s, true);
        assert_true(st == VT_OK || (st == VT_STOP && !b.o.exhaustive));
        assert_counts(&b, s, st);
        assert_found(&b, st);
        if (st == VT_OK && !b.o.has_found) assert_int_equal(predicted(&p, b.x_adv), b.label);
        stops += st == VT_STOP, ends += st == VT_OK;
        bench_close(&b);
        planted_free(&p);
    }
}

static void test_every_attack(void **state) {
    (void)state;
    stops = ends = 0;
    each_stage(check_stage, NULL, true);
    assert_true(stops > 50 && ends > 50); /* both outcomes were met */
}

static void zero_ball(const vt_attack_stage *s, vt_norm norm, void *arg) {
    (void)arg;
    planted p;
    assert_true(planted_linear(&p, 5, 6, 6, 3));
    bench b;
    bench_open(&b, &p, 4, false);
    bench_ball(&b, norm, 0);
    assert_int_equal(bench_run(&b, s, true), VT_OK);
    assert_memory_equal(b.x_adv, b.x, p.n * sizeof(float));
    assert_false(b.o.has_found);
    bench_close(&b);
    planted_free(&p);
}

static void test_zero_eps(void **state) {
    (void)state;
    each_stage(zero_ball, NULL, false);
}

static void note_query(void *arg, const float *x, int64_t call, float *z) {
    uint64_t *hash = arg;
    (void)z;
    if (call == 0) *hash = 0;
    for (size_t i = 0; i < 192; i++) {
        uint32_t word;
        memcpy(&word, x + i, sizeof word);
        *hash = (*hash ^ word) * 1099511628211u;
    }
}

/* The same key gives the same queries and the same result, whatever ran in between; another seed, or another
 * image number, gives other queries. (The result may be the same: the corner of a small ball.) */
static void same_seed(const vt_attack_stage *s, vt_norm norm, void *arg) {
    (void)arg;
    planted p;
    uint64_t hash, first_hash;
    assert_true(planted_mlp(&p, 10, 8, 8, 21));
    p.watch = note_query, p.arg = &hash;
    bench b, other;
    bench_open(&b, &p, 5, true);
    bench_open(&other, &p, 6, true);
    bench_ball(&b, norm, norm == VT_LINF ? 0.001 : 0.01); /* not broken: the whole budget is spent */
    bench_ball(&other, norm, 0.1);
    float *first = floats(p.n);
    assert_int_equal(bench_run(&b, s, true), VT_OK);
    assert_false(b.o.has_found);
    memcpy(first, b.x_adv, p.n * sizeof(float));
    first_hash = hash;
    bench_run(&other, s, true);
    assert_int_equal(bench_run(&b, s, true), VT_OK);
    assert_memory_equal(first, b.x_adv, p.n * sizeof(float));
    assert_true(hash == first_hash);
    bool random = strcmp(s->def->name, "fgsm") != 0;
    if (!strncmp(s->def->name, "fab", 3)) random = strstr(s->id, "restarts=2") != NULL; /* all but the first run */
    b.seed++;
    assert_int_equal(bench_run(&b, s, true), VT_OK);
    assert_int_equal(hash != first_hash, random);
    b.seed--, b.image++;
    assert_int_equal(bench_run(&b, s, true), VT_OK);
    assert_int_equal(hash != first_hash, random);
    free(first);
    bench_close(&b), bench_close(&other);
    planted_free(&p);
}

static void test_seeds(void **state) {
    (void)state;
    each_stage(same_seed, NULL, false);
}

static void without_gradients(const vt_attack_stage *s, vt_norm norm, void *arg) {
    (void)arg;
    planted p;
    assert_true(planted_linear(&p, 10, 6, 6, 5));
    bench b;
    bench_open(&b, &p, 1, true);
    bench_ball(&b, norm, 0.001);
    assert_int_equal(bench_run(&b, s, false), s->def->white_box ? VT_E_FORBIDDEN : VT_OK);
    assert_int_equal(p.backwards, 0);
    assert_int_equal(b.o.gradients, 0);
    bench_close(&b);
    planted_free(&p);
}

static void test_black_box(void **state) {
    (void)state;
    each_stage(without_gradients, NULL, true);
}

/* The flag is raised inside the k-th forward: there is no further one. NaN or infinity among the logits ends
 * the image at the very call. */
static void faults(const vt_attack_stage *s, vt_norm norm, void *arg) {
    (void)arg;
    static const float poisons[] = {NAN, INFINITY, -INFINITY};
    planted p;
    assert_true(planted_mlp(&p, 10, 6, 6, 5));
    bench b;
    bench_open(&b, &p, 1, true);
    bench_ball(&b, norm, 0.001);
    assert_int_equal(bench_run(&b, s, true), VT_OK);
    int64_t all = p.forwards;
    for (int64_t k = 1; k < all && k < 10; k += 2) {
        p.flag_after = k;
        assert_int_equal(bench_run(&b, s, true), VT_INTERRUPTED);
        assert_int_equal(p.forwards, k);
        p.flag_after = 0, p.poison_after = k, p.poison = poisons[k / 2 % 3];
        assert_int_equal(bench_run(&b, s, true), VT_E_NUMERIC);
        assert_int_equal(p.forwards, k + 1);
        p.poison_after = 0;
    }
    bench_close(&b);
    planted_free(&p);
}

static void test_faults(void **state) {
    (void)state;
    each_stage(faults, NULL, true);
}

/* Every attack breaks an easy image of 2, 3 and 4 classes, where DLR has no denominator or a shorter one, and
 * there are fewer classes than targets. FGSM is not asked to succeed on more than two. */
static void few_classes(const vt_attack_stage *s, vt_norm norm, void *arg) {
    (void)arg;
    for (int classes = 2; classes <= 4; classes++) {
        planted p;
        assert_true(planted_linear(&p, classes, 6, 6, 40 + (uint64_t)classes));
        bench b;
        bench_open(&b, &p, 2, true);
        bench_ball(&b, norm, norm == VT_LINF ? 0.2 : norm == VT_L2 ? 3 : 20);
        for (int exhaustive = 0; exhaustive < 2; exhaustive++) {
            b.o.exhaustive = exhaustive;
            vt_status st = bench_run(&b, s, true);
            assert_int_equal(st, exhaustive ? VT_OK : VT_STOP);
            assert_true(b.o.has_found);
            assert_found(&b, st);
        }
        bench_close(&b);
        planted_free(&p);
    }
}

static void test_few_classes(void **state) {
    (void)state;
    each_stage(few_classes, NULL, false);
}

/* ---- single attacks with known answers ---- */

static vt_status run_spec(bench *b, const char *spec) {
    vt_attack a;
    vt_err e = {0};
    if (vt_attack_parse(&a, spec, b->ball.norm, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(a.n_stages, 1);
    vt_status st = bench_run(b, &a.stages[0], true);
    vt_attack_free(&a);
    return st;
}

static void test_parse(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        vt_status want;
    } rows[] = {
        {"pgd", VT_OK},
        {"pgd:steps=7,alpha=2/255", VT_OK},
        {"cw20:alpha=2/255", VT_OK},
        {"autoattack", VT_OK},
        {"autoattack:steps=3", VT_E_USAGE},
        {"pgdd", VT_E_UNKNOWN},
        {"", VT_E_UNKNOWN},
        {"pgd:", VT_E_USAGE},
        {"a-name-that-is-much-longer-than-any-attack-has", VT_E_UNKNOWN},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        vt_attack a;
        vt_err e = {0};
        assert_int_equal(vt_attack_parse(&a, rows[i].spec, VT_LINF, &e), rows[i].want);
        assert_int_equal(e.text[0] == 0, rows[i].want == VT_OK);
        if (rows[i].want == VT_OK) vt_attack_free(&a);
    }
    static const char *const bad[] = {"pgd:steps=0",  "pgd:steps=1.5", "pgd:stepz=3",        "pgd:loss=hinge",
                                      "pgd:steps=3,", "pgd:steps",     "apgd-ce:rho=nan",    "square:p_init=2",
                                      "fab:beta=-1",  "fgsm:steps=3",  "pgd:random_start=7", "pgd:alpha=1/0"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        vt_attack a;
        vt_err e = {0};
        assert_int_not_equal(vt_attack_parse(&a, bad[i], VT_LINF, &e), VT_OK);
        assert_true(e.text[0] != 0);
    }
}

static void test_one_step_is_fgsm(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 40; i++) {
        planted p;
        assert_true(planted_mlp(&p, 10, 8, 8, i));
        bench b;
        bench_open(&b, &p, i, false);
        bench_ball(&b, i % 2 ? VT_L2 : VT_LINF, i % 2 ? 0.5 : 8.0 / 255);
        float *fgsm = floats(p.n);
        assert_int_equal(run_spec(&b, "fgsm"), VT_OK);
        memcpy(fgsm, b.x_adv, p.n * sizeof(float));
        const char *spec = i % 2 ? "pgd:steps=1,alpha=0.5,random_start=0" : "pgd:steps=1,alpha=8/255,random_start=0";
        assert_int_equal(run_spec(&b, spec), VT_OK);
        assert_memory_equal(fgsm, b.x_adv, p.n * sizeof(float));
        free(fgsm);
        bench_close(&b);
        planted_free(&p);
    }
}

/* z_1 - z_0 = 2 w.x + const, further classes constant and far below, so that CE, margin, DLR and targeted DLR
 * rise together with w.x (derivatives: algorithms.md A.4). Label 0; the margin at x is `margin` (below 0). */
static double plant_two_sided(planted *p, bench *b, int classes, double margin) {
    for (size_t i = 0; i < p->n; i++) {
        p->w[i] = -p->w[p->n + i];
        for (int k = 2; k < classes; k++) p->w[(size_t)k * p->n + i] = 0;
    }
    double wx = 0, sum = 0;
    for (size_t i = 0; i < p->n; i++) {
        double w = p->w[p->n + i];
        wx += w * (double)b->x[i];
        sum += b->ball.norm == VT_LINF ? fabs(w) : w * w;
    }
    p->b[1] = -wx + margin / 2, p->b[0] = -p->b[1];
    for (int k = 2; k < classes; k++) p->b[k] = -1000 - k;
    b->label = 0;
    return 2 * (b->ball.norm == VT_LINF ? sum : sqrt(sum)); /* gain of the margin for each unit of eps */
}

static double margin_at(planted *p, const float *x) {
    double z[PLANTED_MOST];
    p->logits(p, x, z);
    return z[1] - z[0];
}

/* Pixels lie in [0.3, 0.7] and eps <= 0.25, so the box never binds. The stored point is within 2^-24 of the
 * real one in each element: `gain` at eps of that size bounds the loss for linf, and by Cauchy sqrt(n) times
 * it for l2. The rest (1e-5 of the gain) is for l2 directions: pgd's off-axis part shrinks by 0.8 a step, and
 * a float direction is off by 1e-7; both enter squared. */
static void test_linear_optimum(void **state) {
    (void)state;
    static const char *const specs[] = {"fgsm",
                                        "pgd:steps=100",
                                        "pgd:steps=100,loss=margin,random_start=0",
                                        "pgd:steps=100,loss=dlr",
                                        "apgd-ce",
                                        "apgd-dlr",
                                        "apgd-t:targets=1", /* without it, x_adv is that of the last target */
                                        "apgd-ce:restarts=3,steps=50"};
    for (size_t s = 0; s < COUNT(specs); s++)
        for (int c = 0; c < 12; c++) {
            planted p;
            vt_norm norm = c % 2 ? VT_L2 : VT_LINF;
            int classes = c / 2 % 3 == 0 ? 2 : c / 2 % 3 == 1 ? 5 : 10;
            double eps = norm == VT_LINF ? 0.1 : 0.25, bound = -0.5 + c / 6;
            assert_true(planted_linear(&p, classes, 8, 8, (uint64_t)c));
            bench b;
            bench_open(&b, &p, (uint32_t)c, true);
            bench_ball(&b, norm, eps);
            double gain = plant_two_sided(&p, &b, classes, 0);
            plant_two_sided(&p, &b, classes, bound - eps * gain); /* the best reachable margin is `bound` */
            assert_int_equal(run_spec(&b, specs[s]), VT_OK);
            double tol = gain * (norm == VT_LINF ? 0x1p-24 : 0x1p-24 * sqrt((double)p.n) + 1e-5 * eps);
            double got = margin_at(&p, b.x_adv);
            assert_true(got <= bound + 1e-9 * gain); /* nothing beyond the optimum */
            assert_true(bound - got <= tol);
            assert_int_equal(b.o.has_found, bound > 0);
            bench_close(&b);
            planted_free(&p);
        }
}

/* Distance of x to the boundary of class k against the label: |z_k - z_y| / dual norm of w_k - w_y. */
static double boundary(const planted *p, const double *z, int label, int k, vt_norm norm) {
    double sum = 0;
    for (size_t i = 0; i < p->n; i++) {
        double w = p->w[(size_t)k * p->n + i] - p->w[(size_t)label * p->n + i];
        sum += norm == VT_LINF ? fabs(w) : w * w;
    }
    return (z[label] - z[k]) / (norm == VT_LINF ? sum : sqrt(sum));
}

/* FAB's closed form: the nearest hyperplane (fab), the target's (fab-t). The published algorithm stops short
 * of the minimum by its overshoot and backward step; the issue asks for 1 %. It can never be nearer than the
 * closed form (up to float logits at the boundary). */
static void test_fab_optimum(void **state) {
    (void)state;
    for (int c = 0; c < 16; c++) {
        planted p;
        vt_norm norm = c % 2 ? VT_L2 : VT_LINF;
        assert_true(planted_linear(&p, 2 + c / 2, 8, 8, 60 + (uint64_t)c));
        bench b;
        bench_open(&b, &p, (uint32_t)c, true);
        double z[PLANTED_MOST], nearest = INFINITY;
        p.logits(&p, b.x, z);
        for (int k = 0; k < p.classes; k++)
            if (k != b.label) nearest = fmin(nearest, boundary(&p, z, b.label, k, norm));
        assert_true(nearest < (norm == VT_LINF ? 0.2 : 1.5));
        vt_fab_params params = {.steps = 100, .restarts = 1, .alpha_max = 0.1, .eta = 1.05, .beta = 0.9};
        float *work = floats(8 * p.n + 100), *best = floats(p.n);
        for (int target = -1; target < p.classes; target++) {
            if (target == b.label) continue;
            bench_ball(&b, norm, 1e-3);
            vt_oracle_reset(&b.o, &b.ball, b.label, true);
            vt_task t = {.x = b.x, .n = p.n, .height = 8, .width = 8, .classes = p.classes, .label = b.label};
            t.ball = &b.ball, t.work = work;
            double got, want = target < 0 ? nearest : boundary(&p, z, b.label, target, norm);
            assert_int_equal(vt_fab_run(&b.o, &params, &t, target, false, &t.rng, best, &got), VT_OK);
            assert_true(distance(norm, best, b.x, p.n) == got);
            assert_int_not_equal(predicted(&p, best), b.label);
            assert_true(got >= nearest * (1 - 1e-4));
            /* towards a far target another class may come first: then the point is nearer */
            assert_true(got <= want * 1.01);
        }
        /* and inside a ball just wide enough, the attacks return it */
        bench_ball(&b, norm, nearest * 1.01);
        assert_int_equal(run_spec(&b, c / 2 % 2 ? "fab" : "fab-t"), VT_OK);
        assert_int_not_equal(predicted(&p, b.x_adv), b.label);
        bench_ball(&b, norm, nearest * 0.99);
        assert_int_equal(run_spec(&b, c / 2 % 2 ? "fab" : "fab-t"), VT_OK);
        assert_memory_equal(b.x_adv, b.x, p.n * sizeof(float));
        free(work), free(best);
        bench_close(&b);
        planted_free(&p);
    }
}

/* Square on a linear margin whose weights vanish in the last row and column (its windows never reach them).
 * 80 % of the closed form is what 5,000 queries leave easily on 8 x 8 pixels: 4,000 of them change single
 * pixels. */
static void linear_profile(double s, double *z, double *slope) {
    for (int k = 0; k < 3; k++) z[k] = k == 0 ? 2 : k == 1 ? s : -50, slope[k] = k == 1;
}

static void test_square_optimum(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        planted p;
        bench b;
        assert_true(planted_init(&p, 3, 8, 8));
        bench_open(&b, &p, i, true);
        bench_ball(&b, VT_LINF, 0.1);
        free(p.kept);
        assert_true(planted_ridge(&p, 3, 8, 8, i, linear_profile, &b.ball));
        assert_int_equal(run_spec(&b, "square"), VT_OK);
        assert_int_equal(b.o.forwards, 5001);
        assert_true(margin_at(&p, b.x_adv) + 2 >= 0.8);
        bench_close(&b);
        planted_free(&p);
    }
}

/* More targets than wrong classes are cut to those there are; each is attacked once. */
static void test_few_targets(void **state) {
    (void)state;
    planted p;
    assert_true(planted_linear(&p, 4, 6, 6, 5));
    bench b;
    bench_open(&b, &p, 1, true);
    bench_ball(&b, VT_LINF, 1e-4);
    assert_int_equal(run_spec(&b, "apgd-t:steps=7"), VT_OK);
    assert_int_equal(b.o.gradients, 3 * 8);
    assert_int_equal(run_spec(&b, "apgd-t:steps=7,targets=2,restarts=5"), VT_OK);
    assert_int_equal(b.o.gradients, 2 * 5 * 8);
    assert_int_equal(run_spec(&b, "fab-t:steps=7"), VT_OK);
    assert_int_equal(b.o.gradients, 3 * 7);
    assert_int_equal(b.o.forwards, 3 * 7 + 1);
    assert_int_equal(run_spec(&b, "fab:steps=7"), VT_OK);
    assert_int_equal(b.o.gradients, 3 * 7); /* K - 1 boundaries a step */
    bench_close(&b);
    planted_free(&p);
}

typedef struct starts {
    int64_t second; /* the call that begins the second run */
    float x[2][108];
} starts;

static void note_starts(void *arg, const float *x, int64_t call, float *z) {
    starts *s = arg;
    (void)z;
    if (call == 0) memcpy(s->x[0], x, sizeof s->x[0]);
    if (call == s->second) memcpy(s->x[1], x, sizeof s->x[1]);
}

static void test_restarts_differ(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        int64_t second;
    } rows[] = {{"pgd:steps=5,restarts=2", 6},
                {"apgd-ce:steps=5,restarts=2", 6},
                {"apgd-dlr:steps=5,restarts=2", 6},
                {"apgd-t:steps=5,targets=1,restarts=2", 7 /* and the clean logits at call 0 */},
                {"square:queries=5,restarts=2", 6}};
    for (size_t k = 0; k < COUNT(rows); k++)
        for (vt_norm norm = VT_LINF; norm <= VT_L2; norm++) {
            planted p;
            starts s = {.second = rows[k].second};
            assert_true(planted_linear(&p, 4, 6, 6, 5));
            p.watch = note_starts, p.arg = &s;
            bench b;
            bench_open(&b, &p, 1, true);
            bench_ball(&b, norm, 1e-3);
            assert_int_equal(run_spec(&b, rows[k].spec), VT_OK);
            assert_memory_not_equal(s.x[0], s.x[1], sizeof s.x[0]);
            if (k != 3) assert_memory_not_equal(s.x[0], b.x, sizeof s.x[0]);
            assert_memory_not_equal(s.x[1], b.x, sizeof s.x[0]);
            bench_close(&b);
            planted_free(&p);
        }
}

/* ---- the oracle's verdicts ---- */

static void tilt_profile(double s, double *z, double *slope) { z[0] = 0, z[1] = s, slope[0] = 0, slope[1] = 1; }

static void skew(void *arg, const float *x, int64_t call, float *z) { /* the float logits alone are off */
    (void)x, (void)call;
    z[1] += *(float *)arg;
}

/* Asks about the point with margin s (s = 1 is the edge of the ball). */
static vt_status ask(bench *b, double s, float *at) {
    for (size_t i = 0; i < b->p->n; i++)
        at[i] = (float)((double)b->x[i] + s * 0.999999 * b->ball.eps * (b->p->w[i] > 0 ? 1 : -1));
    return vt_oracle_logits(&b->o, at, NULL);
}

static void test_verdicts(void **state) {
    (void)state;
    planted p;
    bench b;
    float off = 0, at[192], first[192];
    assert_true(planted_init(&p, 2, 8, 8));
    bench_open(&b, &p, 1, true);
    bench_ball(&b, VT_LINF, 0.1);
    free(p.kept);
    assert_true(planted_ridge(&p, 2, 8, 8, 1, tilt_profile, &b.ball));
    p.watch = skew, p.arg = &off;
    static const struct {
        double s;
        float off;
        bool exhaustive, stop, found;
    } rows[] = {
        {0.01, 0, false, true, true},       {0.01, 0.002f, false, true, true}, /* 5 times the noise */
        {0.01, 0.003f, false, false, true},                                    /* 3.3 times */
        {-0.01, 0.02f, false, false, true},                                    /* double says right */
        {-0.01, 0, false, false, false},    {1.1, 0, false, false, false},     /* outside of the ball */
        {0.01, 0, true, false, true},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        vt_oracle_reset(&b.o, &b.ball, 0, false);
        b.o.exhaustive = rows[i].exhaustive, off = rows[i].off;
        assert_int_equal(ask(&b, rows[i].s, at), rows[i].stop ? VT_STOP : VT_OK);
        assert_int_equal(b.o.has_found, rows[i].found);
        assert_int_equal(vt_oracle_may_end(&b.o), rows[i].exhaustive);
        if (rows[i].found) assert_memory_equal(b.o.found, at, sizeof at);
    }
    /* not yet good enough, a little better, worse (not asked again), good enough */
    vt_oracle_reset(&b.o, &b.ball, 0, false);
    b.o.exhaustive = false, off = 0.003f;
    assert_int_equal(ask(&b, 0.01, first), VT_OK);
    assert_int_equal(ask(&b, 0.005, at), VT_OK);
    assert_memory_equal(b.o.found, first, sizeof first);
    assert_int_equal(b.o.confirmations, 1);
    assert_int_equal(ask(&b, 0.011, at), VT_OK);
    assert_memory_equal(b.o.found, at, sizeof at);
    assert_int_equal(ask(&b, 0.02, at), VT_STOP);
    assert_int_equal(b.o.forwards, 4);
    bench_close(&b);
    planted_free(&p);
}

/* kappa: margins rise by 1/50 a step and stay once they exceed it. */
static void test_kappa(void **state) {
    (void)state;
    planted p;
    bench b;
    assert_true(planted_init(&p, 2, 8, 8));
    bench_open(&b, &p, 1, true);
    bench_ball(&b, VT_LINF, 0.1);
    free(p.kept);
    assert_true(planted_ridge(&p, 2, 8, 8, 1, tilt_profile, &b.ball));
    assert_int_equal(run_spec(&b, "pgd:steps=50,alpha=0.002,random_start=0,loss=margin,kappa=0.21"), VT_OK);
    double got = margin_at(&p, b.x_adv);
    assert_true(got > 0.21 && got <= 0.2201); /* the eleventh step, but for rounding */
    assert_int_equal(b.o.gradients, 50);
    bench_close(&b);
    planted_free(&p);
}

static void test_ranks(void **state) {
    (void)state;
    static const float z[] = {3, 7, 5, 5, 1}; /* descending, the higher of equals first: 1, 3, 2, 0, 4 */
    static const int order[] = {1, 3, 2, 0, 4};
    for (int r = 1; r <= 5; r++) {
        assert_int_equal(vt_target_of_rank(z, 5, -1, r), order[r - 1]);
        /* a label among the targets is replaced by the class at rank 1 */
        assert_int_equal(vt_target_of_rank(z, 5, order[r - 1], r), order[0]);
    }
}

/* ---- FAB's projection against bisection ---- */

/* sum |w_i| min(lambda [|w_i|], r_i) for the flipped w */
static double reached(vt_norm norm, const double *w, const double *r, size_t n, double lambda) {
    double s = 0;
    for (size_t i = 0; i < n; i++) s += fabs(w[i]) * fmin(norm == VT_LINF ? lambda : lambda * fabs(w[i]), r[i]);
    return s;
}

/* algorithms.md A.7.1, lambda by bisection */
static void project_slowly(vt_norm norm, double *d, const float *u, const float *weights, double b, size_t n) {
    double c = -b, w[64], r[64], low = 0, high = 1;
    for (size_t i = 0; i < n; i++) c += (double)weights[i] * (double)u[i];
    for (size_t i = 0; i < n; i++) {
        w[i] = (c < 0 ? -1 : 1) * (double)weights[i];
        r[i] = w[i] > 0 ? (double)u[i] : 1 - (double)u[i];
    }
    c = fabs(c);
    bool far = reached(VT_LINF, w, r, n, 2) <= c;
    while (!far && reached(norm, w, r, n, high) < c && high < 1e30) high *= 2;
    for (int k = 0; k < 300; k++) {
        double middle = (low + high) / 2;
        *(reached(norm, w, r, n, middle) < c ? &low : &high) = middle;
    }
    for (size_t i = 0; i < n; i++) {
        double m = fmin(norm == VT_LINF ? low : low * fabs(w[i]), r[i]);
        if (far) m = r[i];
        if (norm == VT_L2 && fabs(w[i]) <= 1e-8) m = 0;
        d[i] = w[i] > 0 ? -m : w[i] < 0 ? m : 0;
    }
}

/* d is stored as float: 6e-8 at most; 1e-6 is the gate. */
static void test_fab_projection(void **state) {
    (void)state;
    int unreachable = 0;
    for (uint32_t i = 0; i < 2000; i++) {
        vt_norm norm = i % 2 ? VT_L2 : VT_LINF;
        vt_rng r = {.seed = 11, .purpose = vt_rng_purpose("project"), .image = i};
        size_t n = 1 + vt_rng_bits(&r, 0) % 64;
        float u[64], w[64], d[64];
        double at = 0, slow[64], norm1 = 0, plane;
        paint(u, n, i, i % 3 == 0);
        vt_rng_normals(&r, w, n);
        for (size_t k = 0; k < n; k++) {
            uint32_t kind = vt_rng_bits(&r, 1000 + k) % 8;
            w[k] *= kind == 0 ? 0.0f : kind == 1 ? 1e-9f : 1.0f;
            if (i % 50 == 49) w[k] = 0;
            at += (double)w[k] * (double)u[k], norm1 += fabs((double)w[k]);
        }
        plane = at + (i % 7 == 6 ? 0 : norm1 * ((double)vt_rng_uniform(&r, 2000) * 1.6 - 0.8));
        vt_fab_project(norm, d, u, w, plane, n);
        project_slowly(norm, slow, u, w, plane, n);
        double there = 0;
        for (size_t k = 0; k < n; k++) {
            assert_true(fabs((double)d[k] - slow[k]) <= 1e-6);
            there += (double)w[k] * ((double)u[k] + (double)d[k]);
        }
        /* on the plane: each d within half an ulp, and the coordinates that l2 leaves out weigh 1e-8 at most
         */
        unreachable += !(fabs(there - plane) <= norm1 * 1e-7 + 64e-8);
    }
    assert_in_range(unreachable, 200, 1500); /* both kinds were met */
}

/* ---- FAB's steps: each query is foretold from the one before ---- */

enum { FAB_N = 48, FAB_STEPS = 25 };

typedef struct diary {
    float x[4 * FAB_STEPS][FAB_N];
    int n;
} diary;

static void note_all(void *arg, const float *x, int64_t call, float *z) {
    diary *d = arg;
    (void)z, (void)call;
    if (d->n < 4 * FAB_STEPS) memcpy(d->x[d->n++], x, sizeof d->x[0]);
}

static double norm_of(vt_norm norm, const double *v) {
    double most = 0, sum = 0;
    for (size_t i = 0; i < FAB_N; i++) most = fmax(most, fabs(v[i])), sum += v[i] * v[i];
    return norm == VT_LINF ? most : sqrt(sum);
}

/* The hyperplane w.v = b to go to from x1: the target's, or the nearest in the dual norm (A.7.1, steps 1 to
 * 3). */
static double nearest_plane(const bench *b, const float *x1, int target, float *w) {
    double z[PLANTED_MOST], nearest = INFINITY, plane = 0;
    b->p->logits(b->p, x1, z);
    for (int k = 0; k < b->p->classes; k++) {
        float dz[PLANTED_MOST] = {0}, trial[FAB_N];
        if (k == b->label || (target >= 0 && k != target)) continue;
        double l1 = 0, l2 = 0, df = z[k] - z[b->label];
        dz[k] = 1, dz[b->label] = -1;
        b->p->pull(b->p, x1, dz, trial);
        for (size_t i = 0; i < FAB_N; i++) l1 += fabs((double)trial[i]), l2 += (double)trial[i] * (double)trial[i];
        double away = fabs(df) / (1e-12 + (b->ball.norm == VT_LINF ? l1 : sqrt(l2)));
        if (!(away < nearest)) continue;
        nearest = away, plane = -df;
        memcpy(w, trial, sizeof trial);
        for (size_t i = 0; i < FAB_N; i++) plane += (double)w[i] * (double)x1[i];
    }
    return plane;
}

/* Steps 4 and 5 from x1. */
static void foretell(const bench *b, const float *x1, int target, double *next) {
    float w[FAB_N] = {0};
    double d1[FAB_N], d2[FAB_N], plane = nearest_plane(b, x1, target, w);
    project_slowly(b->ball.norm, d1, x1, w, plane, FAB_N);
    project_slowly(b->ball.norm, d2, b->x, w, plane, FAB_N);
    double a1 = fmax(norm_of(b->ball.norm, d1), 1e-8), a2 = fmax(norm_of(b->ball.norm, d2), 1e-8);
    double alpha = fmin(a1 / (a1 + a2), 0.1);
    for (size_t i = 0; i < FAB_N; i++) {
        double v = (1 - alpha) * ((double)x1[i] + 1.05 * d1[i]) + alpha * ((double)b->x[i] + 1.05 * d2[i]);
        next[i] = fmax(0, fmin(1, v));
    }
}

static double off(const double *want, const float *got) {
    double worst = 0;
    for (size_t i = 0; i < FAB_N; i++) {
        double e = fabs(want[i] - (double)got[i]);
        if (!(e <= worst)) worst = e;
    }
    return worst;
}

/* The whole diary: a query at the point to step from (unless it was the last one already), and one after the
 * step; a misclassified point is drawn back to 0.9 of its distance (step 6). */
static double foretell_all(const bench *b, const diary *d, int target, int *flips) {
    double worst = 0, next[FAB_N], back[FAB_N];
    int at = 0;
    for (int step = 0; step < FAB_STEPS; step++) {
        if (at + 1 >= d->n) return INFINITY;
        foretell(b, d->x[at], target, next);
        worst = fmax(worst, off(next, d->x[++at]));
        if (predicted(b->p, d->x[at]) == b->label) continue;
        for (size_t i = 0; i < FAB_N; i++) back[i] = (double)b->x[i] + 0.9 * ((double)d->x[at][i] - (double)b->x[i]);
        ++*flips;
        if (step + 1 < FAB_STEPS) worst = fmax(worst, at + 1 < d->n ? off(back, d->x[++at]) : INFINITY);
    }
    return at + 1 == d->n ? worst : INFINITY;
}

/* x + eps/2 in the start's direction, clipped to the box */
static void expect_start(const bench *b, const vt_rng *rng, double *start) {
    float t[FAB_N];
    double d[FAB_N];
    if (b->ball.norm == VT_LINF)
        vt_rng_uniforms(rng, t, FAB_N);
    else
        vt_rng_normals(rng, t, FAB_N);
    for (size_t i = 0; i < FAB_N; i++) d[i] = b->ball.norm == VT_LINF ? 2 * (double)t[i] - 1 : (double)t[i];
    double length = norm_of(b->ball.norm, d);
    for (size_t i = 0; i < FAB_N; i++) start[i] = fmax(0, fmin(1, (double)b->x[i] + b->ball.eps / 2 * d[i] / length));
}

/* Each step starts from the point really asked about, so errors do not add up: float32 displacements and
 * mixing leave about 2e-7; 2e-6 is ten times that. A wrong constant moves points by 1e-3. */
static void test_fab_steps(void **state) {
    (void)state;
    int flips = 0;
    for (uint32_t i = 0; i < 32; i++) {
        static diary d;
        planted p;
        bench b;
        assert_true(planted_mlp(&p, 5, 4, 4, 80 + i));
        bench_open(&b, &p, i, i % 4 < 2);
        bench_ball(&b, i % 2 ? VT_L2 : VT_LINF, i % 2 ? 0.5 : 0.1);
        int target = i % 8 < 4 ? -1 : (b.label + 1 + (int)i / 8) % 5;
        float *work = floats(8 * FAB_N + 20), best[FAB_N];
        vt_task t = {.x = b.x, .n = FAB_N, .height = 4, .width = 4, .classes = 5, .label = b.label, .ball = &b.ball};
        t.rng = (vt_rng){.seed = i, .purpose = 1}, t.work = work;
        vt_fab_params params = {FAB_STEPS, 1, 9, 0.1, 1.05, 0.9};
        if (target == b.label) target = -1;
        vt_oracle_reset(&b.o, &b.ball, b.label, true);
        p.watch = note_all, p.arg = &d, d.n = 0;
        double distance_found, start[FAB_N];
        assert_int_equal(vt_fab_run(&b.o, &params, &t, target, i % 16 >= 8, &t.rng, best, &distance_found), VT_OK);
        for (size_t k = 0; k < FAB_N; k++) start[k] = (double)b.x[k];
        if (i % 16 >= 8) expect_start(&b, &t.rng, start);
        assert_true(off(start, d.x[0]) <= 2e-7); /* float32 rounding, twice */
        assert_true(foretell_all(&b, &d, target, &flips) <= 2e-6);
        free(work);
        bench_close(&b);
        planted_free(&p);
    }
    assert_true(flips > 50);
}

/* ---- APGD's schedule: a classifier whose losses and gradients follow a script ---- */

enum { MOST_CALLS = 101, SCRIPT_N = 12 };

typedef struct script {
    float loss[MOST_CALLS], point[MOST_CALLS][SCRIPT_N], g[MOST_CALLS][SCRIPT_N];
    bool flipped[MOST_CALLS]; /* this call answers with a wrong class */
} script;

static void script_logits(void *arg, const float *x, int64_t call, float *z) {
    script *s = arg;
    memcpy(s->point[call], x, sizeof s->point[call]);
    z[0] = 1, z[1] = s->flipped[call] ? 2 : 0, z[2] = -1;
}

static void script_gradient(void *arg, int64_t call, float *value, float *dx) {
    script *s = arg;
    *value = s->loss[call];
    memcpy(dx, s->g[call], sizeof s->g[call]);
}

/* The end of each window between checkpoints for 100 steps. */
static const int windows[] = {22, 41, 57, 70, 80, 87, 93, 99, 101};

/* loss[0], loss[1] as given; in each window the first falls[w] comparisons fall by drop[w], the others rise.
 */
static void script_losses(script *s, float l0, float l1, const int *falls, const float *drop, const float *rise) {
    s->loss[0] = l0, s->loss[1] = l1;
    for (int c = 2, w = 0, k = 0; c < MOST_CALLS; c++) {
        if (c > windows[w]) w++, k = 0;
        s->loss[c] = s->loss[c - 1] + (k++ < falls[w] ? -drop[w] : rise[w]);
    }
}

static void constrain(const bench *b, double *v) {
    double length = 0, f;
    for (size_t i = 0; i < SCRIPT_N; i++) length += (v[i] - (double)b->x[i]) * (v[i] - (double)b->x[i]);
    f = fmin(1, b->ball.eps / sqrt(length));
    for (size_t i = 0; i < SCRIPT_N; i++) {
        double d = v[i] - (double)b->x[i];
        v[i] = (double)b->x[i] + (b->ball.norm == VT_L2 ? d * f : fmax(-b->ball.eps, fmin(b->ball.eps, d)));
    }
}

static void ascend(const bench *b, double *v, const double *cur, const float *g, double eta) {
    double length = 0;
    for (size_t i = 0; i < SCRIPT_N; i++) length += (double)g[i] * (double)g[i];
    for (size_t i = 0; i < SCRIPT_N; i++) {
        double sign = g[i] > 0 ? 1 : g[i] < 0 ? -1 : 0;
        v[i] = cur[i] + eta * (b->ball.norm == VT_L2 ? (double)g[i] / sqrt(length) : sign);
    }
    constrain(b, v);
}

/* algorithms.md A.4 with the fired checkpoints given (0 ends the list): the greatest distance of any queried
 * point. */
static double replay(const bench *b, const script *s, int steps, const int *fires) {
    double cur[SCRIPT_N], prev[SCRIPT_N], top[SCRIPT_N], z[SCRIPT_N], next[SCRIPT_N], eta = 2 * b->ball.eps, worst = 0;
    int best = 0, from = 0;
    for (size_t i = 0; i < SCRIPT_N; i++) cur[i] = prev[i] = top[i] = (double)b->x[i];
    for (int step = 1; step <= steps; step++) {
        double a = step == 1 ? 1 : 0.75;
        ascend(b, z, cur, s->g[from], eta);
        for (size_t i = 0; i < SCRIPT_N; i++) next[i] = cur[i] + a * (z[i] - cur[i]) + (1 - a) * (cur[i] - prev[i]);
        constrain(b, next);
        memcpy(prev, cur, sizeof prev);
        memcpy(cur, next, sizeof cur);
        from = step;
        for (size_t i = 0; i < SCRIPT_N; i++) worst = fmax(worst, fabs(cur[i] - (double)s->point[step][i]));
        if (s->loss[step] > s->loss[best]) {
            best = step;
            memcpy(top, cur, sizeof top);
        }
        if (*fires == step) {
            eta /= 2, from = best, fires++;
            memcpy(cur, top, sizeof cur);
        }
    }
    return worst;
}

static void act(bench *b, planted *p, script *s, uint64_t seed) {
    assert_true(planted_linear(p, 3, 2, 2, seed));
    p->watch = script_logits, p->watch_gradient = script_gradient, p->arg = s;
    for (int c = 0; c < MOST_CALLS; c++)
        vt_rng_normals(&(vt_rng){.seed = seed, .image = (uint32_t)c}, s->g[c], SCRIPT_N);
    for (int c = 0; c < MOST_CALLS; c += 3) s->g[c][c % SCRIPT_N] = 0; /* sign(0) = 0 */
    bench_open(b, p, (uint32_t)seed, true);
    b->label = 0;
    bench_ball(b, seed % 2 ? VT_L2 : VT_LINF, 0.2);
}

/* A script, and the steps after which the authors' rules halve the step and go back to the best point. */
static const struct {
    const char *what;
    float l0, l1;
    int falls[9];
    float drop[9], rise[9];
    int fires[10];
} scripts[] = {
#define SAME(v)                                                                                                        \
    { v, v, v, v, v, v, v, v, v }
    {"always rising", 1, 2, {0}, SAME(0.1f), SAME(1), {0}},
    /* nothing above the loss at the start in the first window: alone that is no reason at the first
       checkpoint */
    {"start is best", 1000, 1, {0}, SAME(0.1f), {1, 100, 1, 1, 1, 1, 1, 1, 1}, {0}},
    {"always falling", 9, 8, SAME(99), SAME(0.1f), SAME(1), {22, 41, 57, 70, 80, 87, 93, 99, 0}},
    /* the first comparison is with zero, not with the loss at the start: 16 rises and a first loss above zero
     * are 17 of 22 (more than 16.5) although that loss is below the start's; and 16 when it is below zero
     * though above it */
    {"wrap-around, positive", 3, 0.5f, {5}, SAME(0.1f), SAME(1), {0}},
    {"wrap-around, negative", -3, -0.5f, {5}, SAME(0.1f), SAME(1), {22, 0}},
    /* rho k = 14.25 of 19: 15 rises go on, 14 do not; = 12 of 16: 12 rises do not go on, 13 do */
    {"15 of 19", 1, 2, {0, 4}, SAME(0.1f), SAME(1), {0}},
    {"14 of 19", 1, 2, {0, 5}, SAME(0.1f), SAME(1), {41, 0}},
    {"13 of 16", 1, 2, {0, 0, 3}, SAME(0.1f), SAME(1), {0}},
    {"12 of 16", 1, 2, {0, 0, 4}, SAME(0.1f), SAME(1), {57, 0}},
    /* rising, but below the best of the last checkpoint: fires, except right after a checkpoint that fired */
    {"no new best", 1, 2, {0, 1}, SAME(100), {1, 1, 1, 1, 100, 100, 100, 100, 100}, {41, 70, 0}},
};

/* Points are float32 near 0.5 (3e-8), and the momentum's errors die out by 0.25 a step: 1e-5 is wide, while a
 * halved or unhalved step moves elements by eps/4 or more. */
static void test_apgd_schedule(void **state) {
    (void)state;
    for (size_t k = 0; k < 2 * COUNT(scripts); k++) {
        static script s;
        planted p;
        bench b;
        size_t row = k / 2;
        memset(&s, 0, sizeof s);
        act(&b, &p, &s, k);
        script_losses(&s, scripts[row].l0, scripts[row].l1, scripts[row].falls, scripts[row].drop, scripts[row].rise);
        assert_int_equal(run_spec(&b, "apgd-ce:random_start=0"), VT_OK);
        assert_int_equal(p.forwards, MOST_CALLS);
        double off = replay(&b, &s, 100, scripts[row].fires);
        if (!(off <= 1e-5)) fail_msg("%s: a query is off by %g", scripts[row].what, off);
        bench_close(&b);
        planted_free(&p);
    }
}

/* 20 steps: windows 4, 3, 2, then 1 (each constant is at least 1). rho = 1 fires always, rho = 0 when nothing
 * rose. */
static void test_apgd_short(void **state) {
    (void)state;
    static const int all[] = {4, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 0};
    static const int none[] = {0};
    static const struct {
        const char *spec;
        bool rising;
        const int *fires;
    } rows[] = {{"apgd-dlr:random_start=0,steps=20", false, all},
                {"apgd-dlr:random_start=0,steps=20", true, none},
                {"apgd-dlr:random_start=0,steps=20,rho=1", true, all},
                {"apgd-dlr:random_start=0,steps=20,rho=0", true, none}};
    for (size_t k = 0; k < COUNT(rows); k++) {
        static script s;
        planted p;
        bench b;
        memset(&s, 0, sizeof s);
        act(&b, &p, &s, k);
        for (int c = 0; c < MOST_CALLS; c++) s.loss[c] = rows[k].rising ? (float)c : (float)-c;
        assert_int_equal(run_spec(&b, rows[k].spec), VT_OK);
        assert_true(replay(&b, &s, 20, rows[k].fires) <= 1e-5);
        bench_close(&b);
        planted_free(&p);
    }
}

/* The result is the latest misclassified query, whatever its loss and margin; without one, the point of the
 * greatest loss, the first among equals. */
static void test_apgd_result(void **state) {
    (void)state;
    static const int flips[][4] = {{5, 9, 30, -1}, {0, -1}, {100, -1}, {0, 99, -1}, {-1}};
    for (size_t k = 0; k < COUNT(flips); k++) {
        static script s;
        planted p;
        bench b;
        int want = 13; /* the greatest loss */
        memset(&s, 0, sizeof s);
        act(&b, &p, &s, k);
        for (int c = 0; c < MOST_CALLS; c++) s.loss[c] = c == 13 || c == 60 ? 50 : (float)(c % 7);
        for (const int *f = flips[k]; *f >= 0; f++) s.flipped[*f] = true, want = *f;
        assert_int_equal(run_spec(&b, "apgd-ce:random_start=0"), VT_OK);
        assert_memory_equal(b.x_adv, s.point[want], sizeof s.point[want]);
        assert_int_equal(b.o.has_found, flips[k][0] >= 0);
        bench_close(&b);
        planted_free(&p);
    }
}

/* ---- Square's windows: a classifier that never changes its mind, so that every query differs from the start
 * by one proposal ---- */

typedef struct windows_seen {
    size_t side;       /* of the image */
    const int *expect; /* window sides by level */
    vt_norm norm;
    const float *x;                    /* clean image */
    float *start;                      /* first query */
    int most[10], exact[10], seen[10]; /* by level: longest extent, extents equal to expect, queries */
    int lowest, highest;               /* origins; highest relative to the forbidden last one */
    int too_wide;                      /* extents beyond expect */
    float eps;
    bool unbalanced;
    bool halfway;   /* a linf step short of 2 eps */
    bool forbidden; /* last row or column touched */
} windows_seen;

/* Rows and columns of the pixels that the proposal touched: for linf those of which any channel changed; for
 * l2 those of the second window, which is emptied (in every channel the clean pixel, where the start had
 * moved it). */
static void extent(windows_seen *v, const float *x, int lo[2], int hi[2]) {
    size_t area = v->side * v->side;
    lo[0] = lo[1] = 1 << 20, hi[0] = hi[1] = -1;
    for (size_t i = 0; i < area; i++) {
        int changed = 0, emptied = 0;
        for (size_t c = i; c < 3 * area; c += area) {
            changed += x[c] != v->start[c];
            if (v->norm == VT_LINF && x[c] != v->start[c]) /* steps of 2 eps lead from border to border */
                v->halfway |= fabsf(x[c] - v->start[c]) < 1.999f * v->eps;
            emptied += x[c] == v->x[c] && v->start[c] != v->x[c];
        }
        if (v->norm == VT_LINF ? changed == 0 : emptied != 3) continue;
        int at[2] = {(int)(i / v->side), (int)(i % v->side)};
        for (int k = 0; k < 2; k++) {
            lo[k] = at[k] < lo[k] ? at[k] : lo[k];
            hi[k] = at[k] > hi[k] ? at[k] : hi[k];
        }
    }
}

/* l2, on the sphere and inside the box: what the second window loses the first one gains, channel by channel.
 * Float32 pixels (3e-8) of differences of about 0.25 / sqrt(n): 1e-4 relative is wide. */
static bool balanced(const windows_seen *v, const float *x) {
    size_t area = v->side * v->side;
    bool good = true;
    for (size_t c = 0; c < 3; c++) {
        double before = distance(VT_L2, v->start + c * area, v->x + c * area, area);
        good &= fabs(distance(VT_L2, x + c * area, v->x + c * area, area) / before - 1) <= 1e-4;
    }
    return good;
}

static void watch_windows(void *arg, const float *x, int64_t call, float *z) {
    windows_seen *v = arg;
    (void)z;
    if (call == 0) {
        memcpy(v->start, x, 3 * v->side * v->side * sizeof(float));
        return;
    }
    static const int until[] = {10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000}; /* p halves after these iterations */
    int level = 0, lo[2], hi[2];
    while (level < 9 && call - 1 > until[level]) level++;
    extent(v, x, lo, hi);
    v->unbalanced |= v->norm == VT_L2 && !balanced(v, x);
    if (hi[0] < 0) return; /* all three signs pushed against the ball's border */
    int s = v->expect[level], rows = hi[0] - lo[0] + 1, columns = hi[1] - lo[1] + 1;
    if (rows > s || columns > s) {
        v->too_wide++;
        return;
    }
    v->most[level] = columns > v->most[level] ? columns : v->most[level];
    v->exact[level] += rows == s, v->seen[level]++;
    if (hi[0] > (int)v->side - 2 || hi[1] > (int)v->side - 2) v->forbidden = true; /* origin H - s is never drawn */
    if (rows == s && lo[0] < v->lowest) v->lowest = lo[0];
    if (rows == s && lo[0] - ((int)v->side - s - 1) > v->highest) v->highest = lo[0] - ((int)v->side - s - 1);
}

static void still_profile(double s, double *z, double *slope) {
    (void)s;
    for (int k = 0; k < 3; k++) z[k] = -k, slope[k] = 0;
}

static void watch_square(vt_norm norm, int side, int queries, int levels, const int *expect) {
    planted p;
    bench b;
    char spec[40];
    assert_true(planted_init(&p, 3, side, side));
    bench_open(&b, &p, 3, true);
    bench_ball(&b, norm, norm == VT_LINF ? 0.1 : 0.25); /* the box never binds */
    free(p.kept);
    assert_true(planted_ridge(&p, 3, side, side, 1, still_profile, &b.ball));
    windows_seen v = {.side = (size_t)side, .expect = expect, .norm = norm, .x = b.x, .start = floats(p.n)};
    v.lowest = 1 << 20, v.highest = -(1 << 20), v.eps = (float)b.ball.eps;
    p.watch = watch_windows, p.arg = &v;
    snprintf(spec, sizeof spec, "square:queries=%d", queries);
    assert_int_equal(run_spec(&b, spec), VT_OK);
    assert_false(v.forbidden || v.halfway || v.unbalanced);
    /* l2: a pixel of the first window may cancel to the clean value in all channels, whose starts are equal
     * up to sign */
    assert_in_range(v.too_wide, 0, norm == VT_LINF ? 0 : 5);
    for (int level = 0; level < levels; level++) {
        if (norm == VT_L2 && side - expect[level] < 2) continue; /* one origin: both windows coincide */
        assert_true(v.seen[level] > 0);
        assert_int_equal(v.most[level], expect[level]); /* across: some proposal shows its whole width */
        /* linf: rows change together, so the height shows whenever anything does. l2: the first window hides
         * parts of the second, and the start is empty in the outermost rows. */
        if (norm == VT_LINF)
            assert_int_equal(v.exact[level], v.seen[level]);
        else
            assert_true(v.exact[level] > 0);
    }
    if (queries >= 5000) { /* long enough to have drawn the first and the last of the origins that can be */
        assert_in_range(v.lowest, 0, norm == VT_LINF ? 0 : 1);
        assert_int_equal(v.highest, 0);
    }
    free(v.start);
    bench_close(&b);
    planted_free(&p);
}

static void test_square_windows(void **state) {
    (void)state;
    static const int linf32[] = {29, 20, 14, 10, 7, 5, 4, 3}, l2_32[] = {29, 21, 15, 11, 7, 5, 5, 3};
    static const int linf8[] = {7, 5, 4, 3, 2, 1, 1, 1}, l2_8[] = {7, 5, 5, 3, 3, 3, 3, 3};
    static const int linf224[] = {200, 142, 100}, l2_224[] = {201, 143, 101};
    watch_square(VT_LINF, 32, 5000, 8, linf32);
    watch_square(VT_L2, 32, 5000, 8, l2_32);
    watch_square(VT_LINF, 8, 5000, 8, linf8);
    watch_square(VT_L2, 8, 5000, 8, l2_8);
    watch_square(VT_LINF, 224, 120, 3, linf224);
    watch_square(VT_L2, 224, 120, 3, l2_224);
}

/* The start of linf is eps times a sign, constant down each column; that of l2 lies on the sphere. */
static void test_square_start(void **state) {
    (void)state;
    for (int norm = VT_LINF; norm <= VT_L2; norm++) {
        planted p;
        assert_true(planted_linear(&p, 3, 32, 32, 5));
        bench b;
        bench_open(&b, &p, 1, true);
        bench_ball(&b, (vt_norm)norm, norm == VT_LINF ? 0.1 : 0.5);
        windows_seen v = {.side = 32, .expect = (int[10]){32}, .norm = (vt_norm)norm, .x = b.x, .start = floats(p.n)};
        p.watch = watch_windows, p.arg = &v;
        run_spec(&b, "square:queries=1");
        int ups = 0;
        for (size_t i = 0; norm == VT_LINF && i < p.n; i++) {
            double d = (double)v.start[i] - (double)b.x[i], top = (double)v.start[i % 32 + i / 1024 * 1024];
            assert_true(fabs(fabs(d) - 0.1) <= 1e-7); /* rounded inwards to float32 */
            assert_true((d > 0) == (top > (double)b.x[i % 32 + i / 1024 * 1024]));
            ups += d > 0;
        }
        int equal = 0; /* channels have stripes of their own */
        for (size_t k = 0; k < 32; k++) equal += (v.start[k] > b.x[k]) == (v.start[1024 + k] > b.x[1024 + k]);
        if (norm == VT_LINF) assert_in_range(equal, 4, 28);
        if (norm == VT_LINF) assert_in_range(ups, 32 * 24, 32 * 72); /* of 96 signs */
        double length = distance((vt_norm)norm, v.start, b.x, p.n);
        assert_true(fabs(length / b.ball.eps - 1) <= 1e-6); /* float32 rounding */
        free(v.start);
        bench_close(&b);
        planted_free(&p);
    }
}

/* ---- the ball ---- */

static void check_linf_bounds(double eps, const float *x, size_t n) {
    float lo[256], hi[256];
    vt_ball b;
    vt_ball_init(&b, VT_LINF, eps, x, n, lo, hi);
    assert_true(vt_ball_contains(&b, lo) && vt_ball_contains(&b, hi) && vt_ball_contains(&b, x));
    for (size_t i = 0; i < n; i++) {
        double up = (double)hi[i] - (double)x[i], down = (double)x[i] - (double)lo[i];
        assert_true(up >= 0 && up <= eps && hi[i] <= 1 && down >= 0 && down <= eps && lo[i] >= 0);
        /* and they are the outermost floats of which that is true; below 1e-8 floats are so dense that the
         * difference from x, in double, no longer tells neighbours apart */
        assert_true(hi[i] == 1 || (double)nextafterf(hi[i], 2) - (double)x[i] > eps);
        assert_true(lo[i] < 1e-8f || (double)x[i] - (double)nextafterf(lo[i], -1) > eps);
    }
    float out[256];
    for (size_t i = 0; i < n; i++) {
        memcpy(out, hi, n * sizeof *out);
        out[i] = nextafterf(hi[i], 2);
        assert_false(vt_ball_contains(&b, out));
        memcpy(out, lo, n * sizeof *out);
        out[i] = nextafterf(lo[i], -1);
        assert_false(vt_ball_contains(&b, out));
        out[i] = NAN;
        assert_false(vt_ball_contains(&b, out));
    }
}

/* All 256 grey levels with all radii k/255, and odd radii around odd values. */
static void test_ball_bounds(void **state) {
    (void)state;
    float x[256];
    for (int i = 0; i < 256; i++) x[i] = (float)i / 255.0f;
    for (int k = 0; k <= 255; k++) check_linf_bounds(k / 255.0, x, 256);
    static const double odd[] = {0, 1e-30, 1e-9, 1e-8, 0.0312345678901, 0.5, 1, 1.5};
    vt_rng_uniforms(&(vt_rng){.seed = 1}, x, 256);
    for (int i = 0; i < 32; i++) x[i] *= 1e-6f; /* near the border, where floats are dense */
    for (size_t k = 0; k < COUNT(odd); k++) check_linf_bounds(odd[k], x, 256);
}

/* Projection: feasible, idempotent byte for byte, the identity inside, and near the closed form. */
static void check_projection(vt_norm norm, double eps, uint32_t seed, bool interior) {
    enum { N = 192 };
    float x[N], lo[N], hi[N], v[N], again[N];
    vt_rng r = {.seed = seed, .purpose = 1};
    vt_ball b;
    paint(x, N, seed, interior);
    vt_ball_init(&b, norm, eps, x, N, lo, hi);
    vt_rng_normals(&r, v, N);
    double length = 0, d[N];
    for (size_t i = 0; i < N; i++) {
        v[i] = x[i] + (float)(v[i] * powf(10, (float)(seed % 5) - 3));
        d[i] = (double)v[i] - (double)x[i];
        length += d[i] * d[i];
    }
    vt_ball_project(&b, v);
    assert_true(vt_ball_contains(&b, v) && distance(norm, v, x, N) <= eps);
    for (size_t i = 0; i < N; i++) {
        double want = norm == VT_LINF ? fmax(-eps, fmin(eps, d[i])) : d[i] * fmin(1, eps / sqrt(length));
        want = fmax(0, fmin(1, (double)x[i] + want));
        assert_true(v[i] >= 0 && v[i] <= 1 && fabs((double)v[i] - want) <= 2e-7); /* a few float32 roundings */
    }
    memcpy(again, v, sizeof v);
    vt_ball_project(&b, again);
    assert_memory_equal(v, again, sizeof v);
    memcpy(again, x, sizeof x);
    vt_ball_project(&b, again);
    assert_memory_equal(x, again, sizeof x);
    v[5] = NAN, v[6] = INFINITY, v[7] = -INFINITY; /* whatever an attack computes, the result is feasible */
    vt_ball_project(&b, v);
    assert_true(vt_ball_contains(&b, v));
}

static void test_ball_projection(void **state) {
    (void)state;
    static const double eps[2][5] = {{0, 1.0 / 255, 8.0 / 255, 0.3, 2}, {0, 1e-4, 0.5, 3, 100}};
    for (uint32_t seed = 0; seed < 200; seed++)
        for (int k = 0; k < 5; k++)
            for (vt_norm norm = VT_LINF; norm <= VT_L2; norm++) check_projection(norm, eps[norm][k], seed, seed % 2);
}

static void test_ball_starts(void **state) {
    (void)state;
    enum { N = 192 };
    float x[N], lo[N], hi[N], v[N];
    for (uint32_t seed = 0; seed < 200; seed++) {
        vt_norm norm = seed % 2 ? VT_L2 : VT_LINF;
        double eps = norm == VT_L2 ? 0.25 : 0.1, far = 0;
        vt_rng r = {.seed = seed, .purpose = 2};
        vt_ball b;
        paint(x, N, seed, true);
        vt_ball_init(&b, norm, eps, x, N, lo, hi);
        vt_ball_start_surface(&b, &r, v);
        far = distance(norm, v, x, N);
        assert_true(far <= eps && far >= eps * (1 - 1e-5)); /* on the surface but for float32 rounding */
        vt_ball_start_inside(&b, &r, v);
        far = distance(norm, v, x, N);
        assert_true(far <= eps && far > 0);
        if (norm == VT_LINF) assert_true(far >= 0.9 * eps); /* the largest of 192 uniform draws */
        paint(x, N, seed, false);
        vt_ball_init(&b, norm, eps, x, N, lo, hi);
        vt_ball_start_surface(&b, &r, v);
        assert_true(distance(norm, v, x, N) <= eps && vt_ball_contains(&b, v));
        vt_ball_start_inside(&b, &r, v);
        assert_true(distance(norm, v, x, N) <= eps && vt_ball_contains(&b, v));
    }
}

/* ---- AutoAttack: for each stage a classifier that this stage alone breaks ---- */

enum { STAGE_CLASSES = 12, REACH_PERCENT = 60 };

static void constants(double *z, double *slope) { /* label 0 */
    for (int k = 0; k < STAGE_CLASSES; k++) z[k] = k ? 0.5 - 0.001 * k : 1, slope[k] = 0;
}

/* The class that can win is the last of twelve by the clean logits, out of reach of nine targets, and hidden
 * behind constant ones: only cross-entropy feels it, as a class among all; a score attack sees no change of
 * the margin. */
static void ce_profile(double s, double *z, double *slope) {
    constants(z, slope);
    z[11] = -1 + 2.5 * s, slope[11] = 2.5;
}

/* Class 1 leads cross-entropy and the margin away from s > 0, where it can never win. Class 4 wins beyond s =
 * 0.6, but shows this by sawteeth: its slope points there and is so steep that FAB's linear steps stay tiny.
 * A target of its own follows the slope's sign over the whole ball in one step. */
static void t_profile(double s, double *z, double *slope) {
    const double tooth = 2.5e-5, steep = 20000;
    for (int k = 0; k < STAGE_CLASSES; k++) z[k] = -30 - k, slope[k] = 0;
    z[0] = 0, z[2] = -10, z[3] = -11;
    z[1] = -5 - 3 * s, slope[1] = -3;
    z[4] = s < 0.6 ? -20 + steep * (s - tooth * floor(s / tooth)) : 3, slope[4] = steep;
}

/* A saturated staircase with a straight-through slope: cross-entropy is exactly 0 in float, all wrong logits
 * are tied, so DLR is exactly -1 (160 squared is exact in float, and the two terms of its gradient cancel),
 * and the margin is flat. The difference of logits has a gradient, and its plane lies at s = 0.75. */
static void fab_profile(double s, double *z, double *slope) {
    for (int k = 0; k < STAGE_CLASSES; k++) z[k] = 0, slope[k] = 0;
    z[0] = s < 0.6 ? 160 : -10, slope[0] = -160 / 0.75;
}

/* Fine stairs with their true slope, zero: gradients are masked, scores are not. */
static void square_profile(double s, double *z, double *slope) {
    for (int k = 0; k < STAGE_CLASSES; k++) z[k] = -5 - k, slope[k] = 0;
    z[0] = 0, z[1] = floor(1000 * (s - 0.6)) / 1000;
}

static void break_by_stage(int expect, vt_norm norm, uint32_t image) {
    static void (*const profiles[])(double, double *, double *) = {ce_profile, t_profile, fab_profile, square_profile};
    planted p;
    bench b;
    assert_true(planted_init(&p, STAGE_CLASSES, 8, 8));
    bench_open(&b, &p, image, true);
    bench_ball(&b, norm, norm == VT_LINF ? 0.1 : 0.25);
    free(p.kept);
    assert_true(planted_ridge(&p, STAGE_CLASSES, 8, 8, image, profiles[expect], &b.ball));
    assert_int_equal(predicted(&p, b.x), 0);
    vt_attack a;
    assert_int_equal(vt_attack_parse(&a, "autoattack", norm, NULL), VT_OK);
    assert_int_equal(a.n_stages, 4);
    int broken_at = -1;
    for (int k = 0; k < 4; k++) {
        b.o.exhaustive = false;
        vt_status st = bench_run(&b, &a.stages[k], true);
        if ((st == VT_STOP) != (k == expect))
            fail_msg("%s on the model for stage %d: %s", a.stages[k].id, expect, vt_status_name(st));
        assert_int_equal(b.o.has_found, k == expect);
        assert_found(&b, st);
        if (st == VT_OK) assert_int_equal(predicted(&p, b.x_adv), 0);
        if (st == VT_STOP && broken_at < 0) broken_at = k; /* the ensemble ends the image here */
    }
    assert_int_equal(broken_at, expect);
    vt_attack_free(&a);
    bench_close(&b);
    planted_free(&p);
}

static void test_stages(void **state) {
    (void)state;
    for (uint32_t image = 0; image < 3; image++)
        for (int k = 0; k < 4; k++) {
            break_by_stage(k, VT_LINF, image);
            if (k < 3) break_by_stage(k, VT_L2, image); /* Square's l2 shapes do not fit a random pattern of weights */
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_targets),
        cmocka_unit_test(test_restarts_differ),
        cmocka_unit_test(test_verdicts),
        cmocka_unit_test(test_kappa),
        cmocka_unit_test(test_fab_steps),
        cmocka_unit_test(test_every_attack),
        cmocka_unit_test(test_zero_eps),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_black_box),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_few_classes),
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_one_step_is_fgsm),
        cmocka_unit_test(test_linear_optimum),
        cmocka_unit_test(test_fab_optimum),
        cmocka_unit_test(test_square_optimum),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_fab_projection),
        cmocka_unit_test(test_apgd_schedule),
        cmocka_unit_test(test_apgd_short),
        cmocka_unit_test(test_apgd_result),
        cmocka_unit_test(test_square_windows),
        cmocka_unit_test(test_square_start),
        cmocka_unit_test(test_ball_bounds),
        cmocka_unit_test(test_ball_projection),
        cmocka_unit_test(test_ball_starts),
        cmocka_unit_test(test_stages),
    };
    return cmocka_run_group_tests_name("attacks", tests, NULL, NULL);
}
