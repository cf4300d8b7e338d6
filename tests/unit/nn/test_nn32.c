/* SPDX-License-Identifier: MIT */
/* The float kernels against their double copies: exp to 2 ulp, GELU, softmax, LayerNorm, linear, losses; and
 * NaN in means NaN out, so that a broken model cannot pass for a robust one. */
#include "base/real.h"
#include "t.h"

#include <float.h>
#include "nn/loss.h"
#include "nn/nn.h"
#include "nn/vecmath.h"

/* The library compiles these with fused multiply-adds (Makefile): the header once more in that form. */
#undef VT_NN_VECMATH_H
#define vt_expf expf_fused
#define vt_normcdff normcdff_fused
#define vt_exp exp_fused
#define vt_normcdf normcdf_fused
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")
#include "nn/vecmath.h"
#pragma GCC pop_options
#undef vt_expf
#undef vt_normcdff
#undef vt_exp
#undef vt_normcdf

/* The double copies; nn/nn.h declares one precision at a time. */
typedef struct vt_norm_f64 {
    vt_norm_kind kind;
    double eps;
    const double *g, *b, *mean, *var;
    double *dg, *db;
} vt_norm_f64;
void vt_norm_forward_f64(double *y, double *stat, const double *x, vt_norm_f64 n, int m, int c);
void vt_norm_backward_f64(double *dx, const double *res, const double *dy, const double *x, const double *stat,
                          vt_norm_f64 n, int m, int c);
void vt_act_forward_f64(vt_act kind, double *y, double *slope, const double *x, const double *b, int m, int n);
void vt_softmax_forward_f64(double *p, const double *s, double scale, int m, int n, int ld);
void vt_softmax_backward_f64(double *ds, const double *dp, const double *p, double scale, int m, int n, int ld);
double vt_loss_eval_f64(double *dz, const vt_loss *loss, const double *z, int classes);

static void to_float(float *out, const double *in, size_t n) {
    for (size_t i = 0; i < n; i++) out[i] = (float)in[i];
}

/* Largest difference, each relative to 1 + |ref|; NaN counts as infinite. */
static double worst(const float *got, const double *ref, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)got[i] - ref[i]) / (1 + fabs(ref[i]));
        if (!(d <= 1e300)) return INFINITY;
        if (d > s) s = d;
    }
    return s;
}

/* ---- exp ---- */

/* Distance of y from the exact value, in units of the last place of the exact one. */
static double ulps(float y, double exact) {
    double ulp = ldexp(1, ilogb(exact) - 23);
    return fabs((double)y - exact) / (ulp < 0x1p-149 ? 0x1p-149 : ulp);
}

static double exp_scan(float (*f)(float), float from, float to, float *at) {
    double most = 0;
    for (int i = 0; i <= 2000000; i++) {
        float x = from + (to - from) * (float)i / 2000000;
        double u = ulps(f(x), exp((double)x));
        if (!(u <= most)) most = u, *at = x;
    }
    return most;
}

__attribute__((noinline)) static float exp_plain(float x) { return vt_expf(x); }
__attribute__((noinline)) static float exp_fma(float x) { return expf_fused(x); }

/* 2 ulp: one from the polynomial's last addition, which is the largest term, one from the rest (vecmath.h
 * says about 1). The two ranges that kernels use: below 0 in softmax and density, up to 88 because the
 * comment allows it. */
static void test_exp(void **state) {
    (void)state;
    static float (*const forms[])(float) = {exp_plain, exp_fma};
    for (int k = 0; k < 2; k++) {
        float at = 0;
        t_le(exp_scan(forms[k], -87, 0, &at), 2, "form %d: exp(%.9g)", k, (double)at);
        t_le(exp_scan(forms[k], 0, 88, &at), 2, "form %d: exp(%.9g)", k, (double)at);
        t_le(exp_scan(forms[k], -1e-3f, 1e-3f, &at), 2, "form %d: exp(%.9g)", k, (double)at);
        assert_true(forms[k](0) == 1 && forms[k](-0.0f) == 1);
        assert_true(forms[k](-87.001f) == 0 && forms[k](-1e30f) == 0 && forms[k](-INFINITY) == 0);
        assert_true(isnan(forms[k](NAN)) && isnan(forms[k](-NAN)));
        t_le(ulps(forms[k](nextafterf(-87, 0)), exp((double)nextafterf(-87, 0))), 2, "form %d: exp at the edge", k);
        assert_true(isfinite(forms[k](88)));
    }
}

/* ---- GELU ---- */

/* Absolute tolerances. y = v Phi(v): the float product of v and a Phi known to about 3 eps is off by 3 *
 * 2^-24 |v|, at most 12 of them here: 2.2e-6 at v = 12, and eps-sized near 0; judged relative to 1 + |y|,
 * 4e-7. Below 0, where y is tiny, the density's argument -v^2/2 carries a relative 2^-24, which exp turns
 * into v^2 2^-24, but y itself is then below v exp(-v^2/2): less than 1e-7 in all. The slope adds a density
 * term of the same kind: 5e-7. */
static void test_gelu(void **state) {
    (void)state;
    enum { N = 240001 };
    float *x = malloc(N * 4), *y = malloc(N * 4), *slope = malloc(N * 4), *plain = malloc(N * 4);
    double *x64 = malloc(N * 8), *y64 = malloc(N * 8), *slope64 = malloc(N * 8);
    for (int i = 0; i < N; i++) x[i] = -12 + 24 * (float)i / (N - 1), x64[i] = (double)x[i];
    vt_act_forward_f32(VT_ACT_GELU, y, slope, x, NULL, 1, N);
    vt_act_forward_f32(VT_ACT_GELU, plain, NULL, x, NULL, 1, N);
    vt_act_forward_f64(VT_ACT_GELU, y64, slope64, x64, NULL, 1, N);
    t_le(worst(y, y64, N), 4e-7, "gelu");
    t_le(worst(slope, slope64, N), 5e-7, "slope of gelu");
    t_le(worst(plain, y64, N), 4e-7, "gelu without slope");
    for (int i = 0; i < N; i++) /* the only minimum lies at -0.7518 */
        assert_true(x[i] > -0.74f ? slope[i] > 0 : x[i] > -0.76f || slope[i] < 1e-7f);
    float bias[7] = {0.5f, -1, 0, 3, -3, 1e-3f, 2};
    vt_act_forward_f32(VT_ACT_GELU, y, slope, x, bias, N / 7, 7);
    for (int i = 0; i < N / 7 * 7; i++) x64[i] = (double)(x[i] + bias[i % 7]);
    vt_act_forward_f64(VT_ACT_GELU, y64, slope64, x64, NULL, 1, N / 7 * 7);
    t_le(worst(y, y64, N / 7 * 7), 4e-7, "gelu with bias");
    t_le(worst(slope, slope64, N / 7 * 7), 5e-7, "slope with bias");
    free(x), free(y), free(slope), free(plain), free(x64), free(y64), free(slope64);
}

/* GELU by tanh: the argument 2u of the exponential carries 3 2^-24 of itself, which s (1 - s) |2u| < 0.23 and, in the
 * slope, its like times v du/dv < 1 bring below 2e-7: judged as GELU by erf is. v sigma(1.702 v) has the same form,
 * with an argument of one rounding and the same two factors. */
static void sigmoid_case(vt_act kind) {
    enum { N = 240001 };
    float *x = malloc(N * 4), *y = malloc(N * 4), *slope = malloc(N * 4);
    double *x64 = malloc(N * 8), *y64 = malloc(N * 8), *slope64 = malloc(N * 8);
    for (int i = 0; i < N; i++) x[i] = -12 + 24 * (float)i / (N - 1), x64[i] = (double)x[i];
    vt_act_forward_f32(kind, y, slope, x, NULL, 1, N);
    vt_act_forward_f64(kind, y64, slope64, x64, NULL, 1, N);
    t_le(worst(y, y64, N), 4e-7, "activation %d", kind);
    t_le(worst(slope, slope64, N), 5e-7, "slope of activation %d", kind);
    static const float ends[] = {-1e9f, 1e9f, -100, 100};
    vt_act_forward_f32(kind, y, slope, ends, NULL, 1, 4);
    for (int i = 0; i < 4; i++) { /* e^-88 = 6e-39 times v, and v^3 */
        t_le(fabs((double)(y[i] - fmaxf(ends[i], 0))), 1e-29, "far out");
        t_le(fabs((double)(slope[i] - (float)(i % 2))), 1e-10, "slope far out");
    }
    free(x), free(y), free(slope), free(x64), free(y64), free(slope64);
}

static void test_sigmoids(void **state) {
    (void)state;
    sigmoid_case(VT_ACT_GELU_TANH);
    sigmoid_case(VT_ACT_QUICK_GELU);
}

/* ---- softmax ---- */

/* Each p_j = e_j / sum: exp 2 ulp, its argument (a product and a difference of numbers up to S) off by S
 * 2^-23 at most, the sum of n positive terms in 16 lanes off by (n/16 + 16) 2^-24 relative: in all (S + n/16
 * + 24) 2^-22, relative, with rows up to n = 197 and S = 20 below 1.4e-5. Row sums: products with the
 * reciprocal, 4 eps n. */
static void softmax_case(int n, double spread) {
    enum { M = 3 };
    int ld = (n + 15) / 16 * 16;
    size_t len = (size_t)(M * ld);
    double *s = t_doubles(len, (uint64_t)n, spread), *p64 = t_doubles(len, 0, 0), *dp = t_doubles(len, 7, 1),
           *ds64 = t_doubles(len, 0, 0);
    float *sf = t_take(len * 4), *p = t_take(len * 4), *dpf = t_take(len * 4), *ds = t_take(len * 4);
    to_float(sf, s, len), to_float(dpf, dp, len);
    for (size_t i = 0; i < len; i++) s[i] = (double)sf[i], dp[i] = (double)dpf[i];
    t_freeze(sf), t_freeze(dpf);
    vt_softmax_forward_f32(p, sf, 0.125f, M, n, ld);
    vt_softmax_forward_f64(p64, s, 0.125, M, n, ld);
    double tol = (0.125 * spread * 10 + n / 16.0 + 24) * 0x1p-22;
    vt_softmax_backward_f32(ds, dpf, p, 0.125f, M, n, ld);
    vt_softmax_backward_f64(ds64, dp, p64, 0.125, M, n, ld);
    for (int i = 0; i < M; i++) {
        double sum = 0;
        for (int j = 0; j < n; j++) {
            t_le(fabs((double)p[i * ld + j] - p64[i * ld + j]), tol * p64[i * ld + j] + 1e-37, "softmax %d", n);
            sum += (double)p[i * ld + j];
        }
        t_le(fabs(sum - 1), 4 * 0x1p-24 * n, "row sum of %d", n);
        double top =
            t_max(ds64 + i * ld, (size_t)n) + 1e-3; /* the difference dp - <p,dp> cancels: relative to 1e-3 at least */
        for (int j = 0; j < n; j++)
            t_le(fabs((double)ds[i * ld + j] - ds64[i * ld + j]), 4 * tol * top, "softmax backward %d", n);
    }
    t_release("softmax");
}

static void test_softmax(void **state) {
    (void)state;
    static const int n[] = {1, 2, 7, 16, 65, 197};
    for (size_t i = 0; i < T_COUNT(n); i++) softmax_case(n[i], 8), softmax_case(n[i], 16);
}

/* exp(v_j - max) / sum for exact products v_j = scale s_j. */
static void judge_row(long double *want, const long double *v, int n) {
    long double top = v[0], sum = 0;
    for (int j = 1; j < n; j++) top = v[j] > top ? v[j] : top;
    for (int j = 0; j < n; j++) sum += want[j] = expl(v[j] - top);
    for (int j = 0; j < n; j++) want[j] /= sum;
}

/* Scores whose products with the scale are near +-2^e, many of them neighbours or equal. The exponent v is rounded
 * twice, |v| e^v 2^-u <= 2^-u / 2 (u the bits of a number), exp is within 2 units, and the sum adds one for each term.
 * Up to 2^24 (2^53) machines without multiply-add round the products first: there only the sum is judged. */
static void huge_case(int n, int e, double sign) {
    float *s = t_take(208 * 4), *p = t_take(208 * 4);
    double *s64 = t_doubles(208, (uint64_t)(e + 100 * n), 1), *p64 = t_take(208 * 8), sum = 0, sum64 = 0;
    double scale64 = ldexp(1.0 / 3, e - 20) * sign;
    float scale = (float)ldexp(1.0 / 3, e / 2) * (float)sign;
    long double v[208], v64[208], want[208];
    for (int j = 0; j < n; j++) {
        int k = (int)(fabs(s64[j]) * 4); /* equal ones are common */
        s[j] = (float)(ldexp(3, e - e / 2) * (1 + k * 0x1p-23) * (j % 3 ? 1 : -1));
        v[j] = (long double)scale * (long double)s[j]; /* 48 bits */
        s64[j] = ldexp(1500 + k, 9) * (j % 3 ? 1 : -1);
        v64[j] = (long double)scale64 * (long double)s64[j]; /* 53 + 11 bits */
    }
    t_freeze(s), t_freeze(s64);
    vt_softmax_forward_f32(p, s, scale, 1, n, 208);
    judge_row(want, v, n);
    for (int j = 0; j < n; j++) {
        sum += (double)p[j];
        if (e > 24) t_le(fabs((double)p[j] - (double)want[j]), (n + 4) * 0x1p-24, "p[%d] of %d near 2^%d", j, n, e);
    }
    t_le(fabs(sum - 1), (n + 4) * 0x1p-24, "sum of %d near 2^%d", n, e);
    vt_softmax_forward_f64(p64, s64, scale64, 1, n, 208);
    judge_row(want, v64, n);
    for (int j = 0; j < n; j++) {
        sum64 += p64[j];
        if (e > 53) t_le(fabs(p64[j] - (double)want[j]), (n + 4) * 0x1p-53, "double p[%d] of %d near 2^%d", j, n, e);
    }
    t_le(fabs(sum64 - 1), (n + 4) * 0x1p-53, "double sum of %d near 2^%d", n, e);
    t_release("huge");
}

/* From 1e6 past 1e12 to where the products of floats overflow. */
static void test_huge_scores(void **state) {
    (void)state;
    static const int n[] = {1, 2, 16, 17, 65, 197};
    for (size_t i = 0; i < T_COUNT(n); i++)
        for (int e = 20; e <= 160; e++) huge_case(n[i], e, 1), huge_case(n[i], e, -1);
}

/* Rows are independent: beside others, whole groups or a few left over, of huge scores or not, each gets the bytes that
 * it gets alone; and in place. */
static void test_rows_alone(void **state) {
    (void)state;
    enum { M = 19, LD = 70 };
    static const int columns[] = {1, 15, 16, 17, 65};
    for (size_t i = 0; i < T_COUNT(columns); i++)
        for (int every = 1; every <= M; every++) { /* each of these is huge */
            int n = columns[i];
            float s[M * LD], p[M * LD], alone[M * LD];
            vt_rng_normals(&(vt_rng){.seed = (uint64_t)every}, s, M * LD);
            for (int r = 0; r < M; r++)
                for (int j = 0; j < n && r % every == every - 1; j++) s[r * LD + j] *= 0x1p30f;
            memcpy(alone, s, sizeof s);
            vt_softmax_forward_f32(p, s, 0.7f, M, n, LD);
            for (int r = 0; r < M; r++) {
                vt_softmax_forward_f32(alone + r * LD, alone + r * LD, 0.7f, 1, n, LD);
                assert_memory_equal(p + r * LD, alone + r * LD, (size_t)n * sizeof(float));
            }
            vt_softmax_forward_f32(s, s, 0.7f, M, n, LD); /* what lies between the rows is left alone */
            assert_memory_equal(s, alone, sizeof s);
        }
    float x[M * 65], g[65], b[65], y[M * 65], stat[2 * M], one[65], stat1[2];
    const vt_norm_f32 norm = {.kind = VT_NORM_LAYER, .eps = 1e-6, .g = g, .b = b};
    vt_rng_normals(&(vt_rng){.seed = 1}, x, M * 65), vt_rng_normals(&(vt_rng){.seed = 2}, g, 65);
    vt_rng_normals(&(vt_rng){.seed = 3}, b, 65);
    for (size_t i = 0; i < T_COUNT(columns); i++) {
        int c = columns[i];
        vt_norm_forward_f32(y, stat, x, norm, M, c);
        for (int r = 0; r < M; r++) {
            vt_norm_forward_f32(one, stat1, x + r * c, norm, 1, c);
            assert_memory_equal(y + r * c, one, (size_t)c * sizeof(float));
            assert_memory_equal(stat + 2 * r, stat1, sizeof stat1);
        }
    }
}

/* ---- layer norm ---- */

/* Rows of c standard numbers around an offset of 4: the mean's error, c/8 additions in 8 lanes, is 4 (c/8 +
 * 8) 2^-24, and x - mean cancels two bits; in all 8 (c/8 + 8) 2^-24 against outputs of size 1. */
static void layernorm_case(int c) {
    enum { M = 5 };
    size_t len = (size_t)(M * c), n = (size_t)c;
    double *x = t_doubles(len, 1, 1), *g = t_doubles(n, 2, 1), *b = t_doubles(n, 3, 1), *dy = t_doubles(len, 4, 1);
    double *y64 = t_doubles(len, 0, 0), *dx64 = t_doubles(len, 0, 0), stat64[2 * M];
    float *xf = t_take(len * 4), *gf = t_take(n * 4), *bf = t_take(n * 4), *dyf = t_take(len * 4), *y = t_take(len * 4),
          *dx = t_take(len * 4);
    float stat[2 * M];
    const vt_norm_f32 norm = {.kind = VT_NORM_LAYER, .eps = 1e-6, .g = gf, .b = bf};
    const vt_norm_f64 norm64 = {.kind = VT_NORM_LAYER, .eps = 1e-6, .g = g, .b = b};
    for (size_t i = 0; i < len; i++) xf[i] = (float)(x[i] + 4), x[i] = (double)xf[i];
    to_float(gf, g, n), to_float(bf, b, n), to_float(dyf, dy, len);
    t_freeze(xf), t_freeze(gf), t_freeze(bf), t_freeze(dyf);
    vt_norm_forward_f32(y, stat, xf, norm, M, c);
    vt_norm_forward_f64(y64, stat64, x, norm64, M, c);
    double tol = 8 * (c / 8.0 + 8) * 0x1p-24;
    t_le(worst(y, y64, len), 4 * tol, "layernorm %d", c); /* |g| up to 4 */
    for (int i = 0; i < M; i++) {
        t_le(fabs((double)stat[2 * i] - stat64[2 * i]), tol, "mean of %d", c);
        t_le(fabs((double)stat[2 * i + 1] / stat64[2 * i + 1] - 1), tol, "rstd of %d", c);
    }
    vt_norm_backward_f32(dx, NULL, dyf, xf, stat, norm, M, c);
    vt_norm_backward_f64(dx64, NULL, dy, x, stat64, norm64, M, c);
    t_le(worst(dx, dx64, len), 16 * tol, "layernorm backward %d", c);
    t_release("layernorm");
}

static void test_layernorm(void **state) {
    (void)state;
    static const int c[] = {7, 65, 192, 197, 768};
    for (size_t i = 0; i < T_COUNT(c); i++) layernorm_case(c[i]);
}

/* ---- losses ---- */

/* Float logits are exact in double, so only the evaluation differs: CE is done in double in both (one
 * rounding), the ratios have four float operations on differences, with denominators above 0.1: 2^-24 * 4 *
 * max|z| / 0.1^2. */
static void test_losses(void **state) {
    (void)state;
    enum { K = 10 };
    static const double tol[VT_LOSS_COUNT] = {[VT_LOSS_CE] = 0x1p-23, [VT_LOSS_MARGIN] = 0x1p-22, [VT_LOSS_DLR] = 2e-4,
                                              [VT_LOSS_DLR_T] = 2e-4, [VT_LOSS_PM] = 0x1p-23, /* in double, as ce */
                                              [VT_LOSS_PO] = 0x1p-23, [VT_LOSS_LINEAR] = 0x1p-22};
    for (uint64_t seed = 0; seed < 20; seed++) {
        double z64[K], dz64[K];
        float z[K], dz[K], target[K] = {0};
        t_normals(z64, K, 50 + seed, 3);
        to_float(z, z64, K);
        target[seed % K] = 1;
        for (int k = 0; k < K; k++) z64[k] = (double)z[k];
        for (int kind = 0; kind < VT_LOSS_COUNT; kind++) {
            vt_loss loss = {.kind = (vt_loss_kind)kind, .target = target, .other = (int)(seed + 3) % K};
            float value = vt_loss_eval_f32(dz, &loss, z, K);
            double want = vt_loss_eval_f64(dz64, &loss, z64, K);
            t_le(fabs((double)value - want), tol[kind] * (1 + fabs(want)), "%s", vt_loss_names_f32[kind]);
            t_le(worst(dz, dz64, K), tol[kind], "gradient of %s", vt_loss_names_f32[kind]);
        }
    }
}

/* ---- NaN ---- */

static void nan_gelu_softmax(void) {
    enum { N = 40 };
    for (int at = 0; at < N; at++) {
        float x[N], y[N], slope[N];
        for (int i = 0; i < N; i++) x[i] = i == at ? NAN : (float)i / 7 - 3;
        vt_act_forward_f32(VT_ACT_GELU, y, slope, x, NULL, 1, N);
        for (int i = 0; i < N; i++)
            assert_true(i == at ? isnan(y[i]) && isnan(slope[i]) : isfinite(y[i]) && isfinite(slope[i]));
        vt_act_forward_f32(VT_ACT_GELU, y, NULL, x, NULL, 1, N);
        assert_true(isnan(y[at]));
        for (int n = at + 1; n <= N; n++) { /* every place in lanes and tail: the whole row goes */
            vt_softmax_forward_f32(y, x, 0.5f, 1, n, N);
            for (int i = 0; i < n; i++) assert_true(isnan(y[i]));
        }
        x[at] = INFINITY; /* inf - inf */
        vt_softmax_forward_f32(y, x, 0.5f, 1, N, N);
        assert_true(isnan(y[at]));
    }
}

static void nan_layernorm_linear(void) {
    enum { C = 21 };
    float x[2 * C], y[2 * C], g[C], b[C], stat[4], w[C * C], out[2 * C];
    const vt_norm_f32 norm = {.kind = VT_NORM_LAYER, .eps = 1e-6, .g = g, .b = b};
    for (int at = 0; at < C; at++) {
        for (int i = 0; i < 2 * C; i++) x[i] = i == at ? NAN : (float)(i % 5);
        for (int i = 0; i < C; i++) g[i] = 1, b[i] = 0;
        for (int i = 0; i < C * C; i++) w[i] = i % C == i / C ? 1 : 0;
        vt_norm_forward_f32(y, stat, x, norm, 2, C);
        for (int i = 0; i < C; i++) assert_true(isnan(y[i]) && isfinite(y[C + i]));
        vt_linear_forward_f32(out, NULL, x, (vt_linear_f32){.w = w, .b = b, .n = C, .k = C}, 2);
        for (int i = 0; i < C; i++) assert_true(isnan(out[i]) && isfinite(out[C + i]));
        vt_linear_forward_f32(out, NULL, x, (vt_linear_f32){.w = w, .wt = w, .n = C, .k = C}, 2);
        for (int i = 0; i < C; i++) assert_true(isnan(out[i]) && isfinite(out[C + i]));
    }
}

static void test_nan(void **state) {
    (void)state;
    nan_gelu_softmax();
    nan_layernorm_linear();
    static const float target[3] = {0, 1, 0};
    for (int at = 0; at < 3; at++) {
        float z[3] = {1, 2, 3}, dz[3];
        z[at] = NAN;
        vt_loss loss = {.kind = VT_LOSS_CE, .target = target};
        assert_true(isnan(vt_loss_eval_f32(dz, &loss, z, 3)) && isnan(dz[0]) && isnan(dz[1]) && isnan(dz[2]));
    }
    float x[3 * 4] = {0}, rows[3 * 4];
    static const double mean[3] = {0, 0, 0}, std[3] = {1, 1, 1};
    x[5] = NAN;
    vt_patchify_forward_f32(rows, x, mean, std, 1, 2, 2, 2);
    for (int i = 0; i < 12; i++) assert_true(isnan(rows[i]) == (i == 5));
}

int main(void) {
    vt_blas_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp),
        cmocka_unit_test(test_gelu),
        cmocka_unit_test(test_sigmoids),
        cmocka_unit_test_teardown(test_softmax, t_drop),
        cmocka_unit_test_teardown(test_huge_scores, t_drop),
        cmocka_unit_test(test_rows_alone),
        cmocka_unit_test_teardown(test_layernorm, t_drop),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_nan),
    };
    return cmocka_run_group_tests_name("nn32", tests, NULL, NULL);
}
