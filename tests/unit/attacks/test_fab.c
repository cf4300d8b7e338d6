/* SPDX-License-Identifier: MIT */
/* FAB (Croce and Hein 2020, "Minimally distorted adversarial examples", algorithm 1): its optimum on linear
 * classifiers, its projection against bisection, every step foretold from the one before. */
#include "attack_fixture.h"
#include "attacks/fab.h"

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
            vt_task t = {.x = b.x, .n = p.n, .shape = {3, 8, 8}, .classes = p.classes, .label = b.label};
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

/* ---- FAB's projection against bisection ---- */

/* sum |w_i| min(lambda [|w_i|], r_i) for the flipped w */
static double reached(vt_norm norm, const double *w, const double *r, size_t n, double lambda) {
    double s = 0;
    for (size_t i = 0; i < n; i++) s += fabs(w[i]) * fmin(norm == VT_LINF ? lambda : lambda * fabs(w[i]), r[i]);
    return s;
}

/* The projection onto hyperplane and box (fab_projections.py of AutoAttack, a392200), lambda by bisection. */
static void project_slowly(vt_norm norm, double *d, const float *u, const float *weights, double b, size_t n) {
    double c = -b, w[64], r[64], low = 0, high = 1, most = 0;
    for (size_t i = 0; i < n; i++) c += (double)weights[i] * (double)u[i];
    for (size_t i = 0; i < n; i++) {
        w[i] = (c < 0 ? -1 : 1) * (double)weights[i];
        r[i] = w[i] > 0 ? (double)u[i] : 1 - (double)u[i];
        most = fmax(most, fabs(w[i]));
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
        if (norm == VT_L2 && fabs(w[i]) <= 1e-8 * most) m = 0;
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

/* The hyperplane w.v = b to go to from x1: the target's, or the nearest in the dual norm, as
 * algorithm 1 chooses it. */
static double nearest_plane(const bench *b, const float *x1, int target, float *w) {
    double z[PLANTED_MOST], nearest = INFINITY, plane = 0;
    b->p->logits(b->p, x1, z);
    for (int k = 0; k < b->p->classes; k++) {
        float dz[PLANTED_MOST] = {0}, trial[FAB_N];
        if (k == b->label || (target >= 0 && k != target)) continue;
        double l1 = 0, l2 = 0, df = z[k] - z[b->label];
        dz[k] = 1, dz[b->label] = -1;
        b->p->inject(b->p, x1, dz, trial);
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
        vt_task t = {.x = b.x, .n = FAB_N, .shape = {3, 4, 4}, .classes = 5, .label = b.label, .ball = &b.ball};
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fab_steps),
        cmocka_unit_test(test_fab_optimum),
        cmocka_unit_test(test_fab_projection),
    };
    return cmocka_run_group_tests_name("fab", tests, NULL, NULL);
}
