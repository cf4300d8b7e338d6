/* SPDX-License-Identifier: MIT */
/* Attacks that look for the nearest point of a class of one's choice, against that point: on a linear classifier the
 * class is a polyhedron of four half-spaces, whose nearest point in l2 is that of one of 15 faces. */
#include "attack_fixture.h"
#include "attacks/attacker.h"

enum { K = 5, SIDE = 6, N = 3 * SIDE * SIDE, WALLS = K - 1 };

typedef struct wall {
    double a[N], gap; /* z_goal - z_j grows by a.d, and must grow by gap */
} wall;

static double dot(const double *a, const double *b) {
    double s = 0;
    for (int i = 0; i < N; i++) s += a[i] * b[i];
    return s;
}

/* u with m u = v, m [n, n], by elimination; false: singular */
static bool solve(double m[WALLS][WALLS], double *v, int n, double *u) {
    for (int c = 0; c < n; c++) {
        int best = c;
        for (int r = c; r < n; r++)
            if (fabs(m[r][c]) > fabs(m[best][c])) best = r;
        if (fabs(m[best][c]) < 1e-12) return false;
        for (int k = 0; k < n; k++) {
            double t = m[c][k];
            m[c][k] = m[best][k], m[best][k] = t;
        }
        double t = v[c];
        v[c] = v[best], v[best] = t;
        for (int r = c + 1; r < n; r++) {
            double f = m[r][c] / m[c][c];
            for (int k = c; k < n; k++) m[r][k] -= f * m[c][k];
            v[r] -= f * v[c];
        }
    }
    for (int r = n - 1; r >= 0; r--) {
        u[r] = v[r];
        for (int k = r + 1; k < n; k++) u[r] -= m[r][k] * u[k];
        u[r] /= m[r][r];
    }
    return true;
}

/* The least |d|_2 with a_j.d >= gap_j for all: at the optimum d = sum u_j a_j over the walls that it touches, u >= 0.
 */
static double nearest(const wall *w) {
    double best = INFINITY;
    for (int set = 1; set < 1 << WALLS; set++) {
        double m[WALLS][WALLS], v[WALLS], u[WALLS], d[N] = {0};
        int at[WALLS], n = 0;
        for (int j = 0; j < WALLS; j++)
            if (set >> j & 1) at[n++] = j;
        for (int r = 0; r < n; r++) {
            v[r] = w[at[r]].gap;
            for (int k = 0; k < n; k++) m[r][k] = dot(w[at[r]].a, w[at[k]].a);
        }
        if (!solve(m, v, n, u)) continue;
        bool good = true;
        for (int r = 0; r < n; r++) {
            good = good && u[r] >= 0;
            for (int i = 0; i < N; i++) d[i] += u[r] * w[at[r]].a[i];
        }
        for (int j = 0; j < WALLS; j++) good = good && dot(w[j].a, d) >= w[j].gap - 1e-9;
        if (good) best = fmin(best, sqrt(dot(d, d)));
    }
    return best;
}

static double optimum(planted *p, const float *x, int goal) {
    static wall w[WALLS];
    double z[PLANTED_MOST];
    int n = 0;
    p->logits(p, x, z);
    for (int j = 0; j < K; j++) {
        if (j == goal) continue;
        for (int i = 0; i < N; i++) w[n].a[i] = p->w[goal * N + i] - p->w[j * N + i];
        w[n++].gap = z[j] - z[goal];
    }
    return nearest(w);
}

/* Distance of the point of class `goal` that the attack ends with, INFINITY where it is of another. */
static double found(planted *p, const char *spec, const float *x, int label, int goal) {
    vt_attack a;
    vt_attacker by;
    vt_oracle o;
    vt_err e = {0};
    if (vt_attack_parse(&a, spec, VT_L2, &e) != VT_OK) fail_msg("%s", e.text);
    vt_task dims = vt_attacker_dims(p->shape, K, NULL);
    assert_int_equal(vt_attacker_open(&by, p->shape, vt_attacker_work(&a, &dims), &e), VT_OK);
    assert_int_equal(vt_oracle_open(&o, &p->c, &e), VT_OK);
    vt_task t = {.clean = x, .label = label, .classes = K, .norm = VT_L2, .eps = 100};
    t.mode = VT_ORACLE_MIN_DISTANCE, t.goal = &(int32_t){goal}, t.rng = (vt_rng){.seed = 1};
    assert_int_equal(vt_attacker_run(&by, &o, &a.stages[0], &t), VT_OK);
    double d = predicted(p, by.at) == goal ? distance(VT_L2, by.at, x, p->n) : INFINITY;
    vt_oracle_close(&o), vt_attacker_close(&by), vt_attack_free(&a);
    return d;
}

/* Where two walls meet, DeepFool and FMN, which see one at a time, go to and fro; DDN's radius moves by a twentieth a
 * step. */
static void test_nearest(void **state) {
    static const struct {
        const char *spec;
        double half, all; /* so many images, at most: times the optimum */
    } rows[] = {{"deepfool", 1.05, 1.25}, {"fab", 1.01, 1.03},
                {"fab-t", 1.01, 1.03},    {"cw-l2:steps=1000,lr=0.002,abort_early=0", 1.01, 1.03},
                {"ddn", 1.05, 1.15},      {"fmn", 1.01, 1.5}};
    int tried = 0, near[COUNT(rows)] = {0};
    (void)state;
    for (uint64_t c = 0; c < 6; c++) {
        planted p;
        float x[N];
        assert_true(planted_linear(&p, K, SIDE, SIDE, 60 + c));
        paint(x, N, (uint32_t)c, true);
        int label = predicted(&p, x);
        for (int goal = 0; goal < K; goal++) {
            if (goal == label) continue;
            double best = optimum(&p, x, goal);
            assert_true(best > 0 && isfinite(best));
            for (size_t i = 0; i < COUNT(rows); i++) {
                double d = found(&p, rows[i].spec, x, label, goal);
                if (!(d >= best * (1 - 1e-6) && d <= rows[i].all * best))
                    fail_msg("%s found class %d at %g, the nearest point is at %g", rows[i].spec, goal, d, best);
                near[i] += d <= rows[i].half * best;
            }
            tried++;
        }
        planted_free(&p);
    }
    assert_true(tried == 24);
    for (size_t i = 0; i < COUNT(rows); i++) assert_true(2 * near[i] >= tried);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nearest)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
