/* SPDX-License-Identifier: MIT */
/* inference/smoothing and the wrap smooth: votes and radii against a second count of the same draws, the bound's
 * coverage by simulation, a linear network whose smoothed radius is known, gradients against central differences. */
#include "ask.h"
#include "t.h"

#include "base/stats.h"
#include "inference/smoothing.h"
#include "inference/wrap.h"
#include "planted.h"

enum { CLASSES = 3, SIDE = 4, N = 3 * SIDE * SIDE };
static const vt_shape shape = {3, SIDE, SIDE};

typedef struct scene {
    planted p;
    vt_classifier c;
    vt_wrap w;
    float x[N];
} scene;

static void scene_open(scene *s, const char *spec, bool linear) {
    vt_err e = {0};
    memset(s, 0, sizeof *s);
    assert_true(linear ? planted_linear(&s->p, 2, SIDE, SIDE, 7) : planted_mlp(&s->p, CLASSES, SIDE, SIDE, 7));
    vt_rng_uniforms(&(vt_rng){.seed = 3}, s->x, N);
    s->c = s->p.c;
    assert_int_equal(vt_wrap_parse(&s->w, spec, &e), VT_OK);
    assert_int_equal(vt_wrap_fit(&s->w, shape, &e), VT_OK);
    if (vt_wrap_classifier(&s->w, &s->c, shape, false, &e) != VT_OK) fail_msg("%s", e.text);
}

static void scene_close(scene *s) {
    vt_classifier_close(&s->c);
    vt_wrap_free(&s->w);
    planted_free(&s->p);
}

/* ---- the bound ---- */

/* Cohen et al.'s core.py with scipy 1.10 and statsmodels 0.13: sigma norm.ppf(_lower_confidence_bound(k, n, alpha)). */
static void test_radii(void **state) {
    (void)state;
    static const struct {
        int64_t k, n;
        double alpha, radius; /* sigma 1 */
    } cases[] = {{9, 10, 0.001, 0.000000000000},          {10, 10, 0.001, 0.002975957771},
                 {9, 10, 0.05, 0.268484239333},           {10, 10, 0.05, 0.646846796981},
                 {70, 100, 0.001, 0.109113711883},        {80, 100, 0.001, 0.394942318916},
                 {99, 100, 0.001, 1.349259038810},        {100, 100, 0.001, 1.500475024121},
                 {70, 100, 0.05, 0.294414451146},         {80, 100, 0.05, 0.591178988770},
                 {99, 100, 0.05, 1.679166376507},         {100, 100, 0.05, 1.887998891858},
                 {520, 1000, 0.001, 0.000000000000},      {600, 1000, 0.001, 0.128378996306},
                 {900, 1000, 0.001, 1.114483162280},      {993, 1000, 0.001, 2.064132217909},
                 {1000, 1000, 0.001, 2.463262614781},     {520, 1000, 0.05, 0.000000000000},
                 {600, 1000, 0.05, 0.186116792688},       {900, 1000, 0.05, 1.190161138217},
                 {993, 1000, 0.05, 2.223005474395},       {1000, 1000, 0.05, 2.748739062963},
                 {50500, 100000, 0.001, 0.000273101514},  {51000, 100000, 0.001, 0.012807589419},
                 {80000, 100000, 0.001, 0.827651563141},  {99900, 100000, 0.001, 3.000200987668},
                 {100000, 100000, 0.001, 3.811456563390}, {50500, 100000, 0.05, 0.006001669112},
                 {51000, 100000, 0.05, 0.018536545419},   {80000, 100000, 0.05, 0.834172080582},
                 {99900, 100000, 0.05, 3.040561840184},   {100000, 100000, 0.05, 4.013150257221}};
    for (size_t i = 0; i < T_COUNT(cases); i++) /* the bound is rounded down by less than 1e-9 of its tail */
        t_le(fabs(vt_smooth_radius(cases[i].k, cases[i].n, 1, cases[i].alpha) - cases[i].radius), 1e-8, "case %zu", i);
    /* n equal votes: the bound is alpha^(1/n) */
    t_le(fabs(vt_share_lower(50, 50, 0.01) - pow(0.01, 1 / 50.0)), 1e-9, "all votes");
    assert_true(vt_share_lower(0, 50, 0.01) == 0);
    assert_true(vt_smooth_radius(9, 9, 1, 0.001) == 0 && vt_smooth_radius(10, 10, 1, 0.001) > 0);
    assert_true(vt_smooth_radius(30, 100, 1, 0.001) == 0);
    /* quantiles: the definition, by erfc */
    for (double z = 0; z < 8; z += 0.37) {
        double p = 1 - 0.5 * erfc(z / sqrt(2));
        t_le(fabs(vt_normal_quantile(p) - z), 1e-15 * exp(z * z / 2) + 1e-14, "z = %g", z); /* p has 2^-53 */
    }
}

/* The true share lies above the bound in at least 1 - alpha of the trials: 20000 at alpha 0.05 err by 0.0015 (one
 * deviation); four are allowed. The bound is no looser than the binomial's steps make it: at least a tenth of alpha. */
static void test_coverage(void **state) {
    (void)state;
    static const double shares[] = {0.55, 0.8, 0.97};
    enum { TRIALS = 20000, DRAWS = 150 };
    for (size_t s = 0; s < T_COUNT(shares); s++) {
        int above = 0;
        for (int t = 0; t < TRIALS; t++) {
            vt_rng r = {.seed = 11, .image = (uint32_t)t, .run = (uint32_t)s};
            int64_t hits = 0;
            for (int i = 0; i < DRAWS; i++) hits += (double)vt_rng_bits(&r, (uint64_t)i) * 0x1p-32 < shares[s];
            above += vt_share_lower(hits, DRAWS, 0.05) > shares[s];
        }
        t_le((double)above / TRIALS, 0.05 + 4 * 0.0016, "share %g", shares[s]);
        t_le(0.005, (double)above / TRIALS, "share %g", shares[s]);
    }
}

/* ---- the wrap ---- */

/* Counts the votes of draws first to first + n - 1 as the header says they are keyed. */
static void count_again(scene *s, const vt_rng *key, double sigma, int first, int n, int64_t *votes) {
    float y[N], z[PLANTED_MOST];
    vt_rng r = *key;
    r.purpose ^= vt_rng_purpose("wrap smooth");
    memset(votes, 0, (size_t)s->c.classes * sizeof *votes);
    for (int i = first; i < first + n; i++) {
        r.step = (uint32_t)i;
        vt_rng_normals(&r, y, N);
        for (int k = 0; k < N; k++) y[k] = s->x[k] + (float)sigma * y[k];
        ask_logits(&s->p.c, y, z, false);
        votes[vt_argmax_f32(z, s->c.classes)]++;
    }
}

static void test_votes(void **state) {
    (void)state;
    int unsure = 0, certified = 0;
    for (uint32_t image = 0; image < 60; image++) {
        scene s;
        const double sigma = 0.02 + 0.01 * image;
        char spec[80];
        snprintf(spec, sizeof spec, "smooth:sigma=%.9g,n0=25,n=200,alpha=0.01", sigma);
        scene_open(&s, spec, false);
        const vt_rng key = {.seed = 5, .purpose = 77, .image = image};
        int64_t votes[CLASSES], forwards;
        float z[CLASSES], again[CLASSES];
        double z64[CLASSES], radius;
        int class;
        count_again(&s, &key, sigma, 0, 25, votes);
        vt_classifier_begin(&s.c, &key);
        const int64_t before = s.p.forwards;
        ask_logits(&s.c, s.x, z, false);
        assert_int_equal(s.p.forwards - before, 25);
        const int top = vt_argmax_f32(z, CLASSES);
        for (int k = 0; k < CLASSES; k++) assert_true(votes[k] <= votes[top]);
        int64_t next = 0;
        for (int k = 0; k < CLASSES; k++)
            if (k != top && votes[k] > next) next = votes[k];
        assert_int_equal(*s.c.unsure, vt_mcnemar_exact(votes[top], next).two_sided > 0.01);
        unsure += *s.c.unsure;
        ask_logits(&s.c, s.x, again, false);
        assert_memory_equal(z, again, sizeof z); /* the same draws at every call */
        ask_logits64(&s.c, s.x, z64);
        double sum = 0;
        for (int k = 0; k < CLASSES; k++) assert_true((float)z64[k] == z[k]), sum += exp(z64[k]);
        t_le(fabs(sum - 1), 1e-12, "mean softmax");
        /* the certificate: draws 0 to 24 guess, 25 to 224 bound */
        assert_int_equal(vt_smooth_certify(&class, &radius, &forwards, &s.c, s.x, NULL, NULL), VT_OK);
        assert_int_equal(class, top);
        count_again(&s, &key, sigma, 25, 200, votes);
        t_le(fabs(radius - vt_smooth_radius(votes[class], 200, sigma, 0.01)), 1e-15, "sigma of 9 digits");
        assert_int_equal(forwards, 225);
        certified += radius > 0;
        const vt_rng other = {.seed = 5, .purpose = 78, .image = image};
        vt_classifier_begin(&s.c, &other);
        ask_logits(&s.c, s.x, again, false);
        assert_memory_not_equal(z, again, sizeof z);
        vt_err e = {0};
        t_says(vt_smooth_certify(&class, &radius, &forwards, &s.p.c, s.x, NULL, &e), VT_E_USAGE, &e, "smooth", "alone");
        scene_close(&s);
    }
    assert_true(unsure > 3 && unsure < 57 && certified > 3);
}

/* Two classes, z_0 - z_1 = w.x + b: the smoothed network is the network, and its radius its distance to the plane. The
 * certificate stays below that, and reaches 80 % of it with 20000 draws where the share is not near 1. */
static void test_linear(void **state) {
    (void)state;
    scene s;
    double length = 0, gap, z64[2], radius;
    int class;
    int64_t forwards;
    scene_open(&s, "smooth:sigma=0.5,n0=100,n=20000,alpha=0.001", true);
    for (int i = 0; i < N; i++) length += (s.p.w[i] - s.p.w[N + i]) * (s.p.w[i] - s.p.w[N + i]);
    ask_logits64(&s.p.c, s.x, z64);
    s.p.b[0] += z64[1] - z64[0] + 0.6 * sqrt(length); /* 0.6 from the plane */
    ask_logits64(&s.p.c, s.x, z64);
    gap = (z64[0] - z64[1]) / sqrt(length);
    t_le(fabs(gap - 0.6), 1e-12, "distance");
    vt_classifier_begin(&s.c, &(vt_rng){.seed = 4});
    assert_int_equal(vt_smooth_certify(&class, &radius, &forwards, &s.c, s.x, NULL, NULL), VT_OK);
    assert_int_equal(class, 0);
    t_le(radius, gap, "radius");
    t_le(0.8 * gap, radius, "radius");
    scene_close(&s);
}

/* d (t . z) / dx against central differences of the double logits; float forwards inside round by 1e-7 of logits near
 * 10, over steps of 1e-2, and the third derivative adds as much. */
static void test_gradient(void **state) {
    (void)state;
    scene s;
    const float target[CLASSES] = {1, -2, 0.5f};
    float z[CLASSES], dx[N], value;
    double z64[CLASSES];
    scene_open(&s, "smooth:sigma=0.1,n0=12,n=20,alpha=0.01", false);
    vt_classifier_begin(&s.c, &(vt_rng){.seed = 4});
    ask_logits(&s.c, s.x, z, true);
    ask_backward(&s.c, &(vt_loss){.kind = VT_LOSS_LINEAR, .target = target}, &value, dx);
    double sum = 0, most = 0;
    for (int k = 0; k < CLASSES; k++) sum += (double)target[k] * (double)z[k];
    t_le(fabs((double)value - sum), 1e-5, "value");
    for (int i = 0; i < N; i++) most = fmax(most, fabs((double)dx[i]));
    for (int i = 0; i < N; i++) {
        const float was = s.x[i], at[2] = {was - 1e-2f, was + 1e-2f};
        double f[2];
        for (int k = 0; k < 2; k++) {
            s.x[i] = at[k];
            ask_logits64(&s.c, s.x, z64);
            f[k] = 0;
            for (int j = 0; j < CLASSES; j++) f[k] += (double)target[j] * z64[j];
        }
        s.x[i] = was;
        t_le(fabs((f[1] - f[0]) / ((double)at[1] - (double)at[0]) - (double)dx[i]), 2e-3 * most, "pixel %d", i);
    }
    s.p.fail_after = s.p.forwards + 5;
    vt_err e = {0};
    t_says(vt_classifier_logits(&s.c, s.x, z, false, &e), VT_E_MODEL, &e, "one too many", "call");
    scene_close(&s);
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *spec, *a, *b;
    } bad[] = {{"smooth:n=9", "n is 9", "at least 10"},
               {"smooth:n0=10", "n0 is 10", "at least 11"},
               {"smooth:n=6,alpha=0.01", "n is 6", "at least 7"}};
    vt_err e = {0};
    vt_wrap w;
    for (size_t i = 0; i < T_COUNT(bad); i++) {
        assert_int_equal(vt_wrap_parse(&w, bad[i].spec, &e), VT_OK);
        t_says(vt_wrap_fit(&w, shape, &e), VT_E_USAGE, &e, bad[i].a, bad[i].b);
        vt_wrap_free(&w);
    }
    t_says(vt_wrap_parse(&w, "smooth:sigma=0", &e), VT_E_USAGE, &e, "sigma is 0", "smooth");
    t_says(vt_wrap_parse(&w, "smooth:alpha=0.5", &e), VT_E_USAGE, &e, "alpha", "0.4");
}

int main(void) {
    (void)planted_ridge;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_radii),  cmocka_unit_test(test_coverage), cmocka_unit_test(test_votes),
        cmocka_unit_test(test_linear), cmocka_unit_test(test_gradient), cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
