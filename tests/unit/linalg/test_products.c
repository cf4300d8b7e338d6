/* SPDX-License-Identifier: MIT */
/* src/linalg/products.c: rounding to bfloat16 against numbers rounded by hand, and products of rounded inputs against
 * plain sums in double, by every way that there is here. */
#include "t.h"
#include "naive.h"

#include "base/mem.h"
#include "linalg/products.h"
#include "linalg/kernels.h"

static float bits(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static uint32_t bits_of(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

/* By hand: a bfloat16 has seven bits behind the point, so that around 1 they lie 1/128 apart. */
static void test_by_hand(void **state) {
    (void)state;
    static const struct {
        float x, want;
    } cases[] = {
        {0, 0},
        {1, 1},
        {-2.5f, -2.5f},
        {1 + 0x1p-8f, 1},                                /* a tie: 1 is even */
        {1 + 0x1p-7f + 0x1p-8f, 1 + 0x1p-6f},            /* a tie: the upper one is even */
        {1 + 0x1p-8f + 0x1p-23f, 1 + 0x1p-7f},           /* just above a tie */
        {1 + 0x1p-7f + 0x1p-8f - 0x1p-23f, 1 + 0x1p-7f}, /* just below one */
        {3.14159274f, 3.140625f},
        {0.1f, 0.10009765625f},
        {-0.3f, -0.30078125f},
        {255.5f, 256},
        {0x1.fep127f, 0x1.fep127f}, /* the largest */
        {0x1.fefffep127f, 0x1.fep127f},
        {0x1.ffp127f, INFINITY}, /* the tie above it */
        {0x1.fffffep127f, INFINITY},
        {-0x1.fffffep127f, -INFINITY},
        {INFINITY, INFINITY},
        {-INFINITY, -INFINITY},
        {0x1p-126f, 0x1p-126f},   /* the least normal */
        {0x1p-133f, 0x1p-133f},   /* the least of all */
        {0x1p-134f, 0},           /* half of it: a tie, 0 is even */
        {0x1.8p-134f, 0x1p-133f}, /* three quarters */
        {0x1.8p-133f, 0x1p-132f}, /* a tie among subnormals */
        {-0x1p-149f, -0.0f},
    };
    for (size_t i = 0; i < T_COUNT(cases); i++) {
        float got;
        uint16_t upper;
        vt_bf16_round(&got, &cases[i].x, 1, 1, 1), vt_bf16_convert(&upper, &cases[i].x, 1, 1, 1);
        if (bits_of(got) != bits_of(cases[i].want)) fail_msg("%a became %a, not %a", cases[i].x, got, cases[i].want);
        assert_int_equal((uint32_t)upper << 16, bits_of(cases[i].want));
    }
    const float nans[] = {NAN, -NAN, bits(0x7f800001), bits(0xff80ffff), bits(0x7fffffff)};
    for (size_t i = 0; i < T_COUNT(nans); i++) {
        float got;
        vt_bf16_round(&got, &nans[i], 1, 1, 1);
        assert_true(isnan(got) && signbit(got) == signbit(nans[i]));
    }
}

/* Every bfloat16 stays what it is, and what lies between two neighbours goes to the nearer, by distances in double. */
static void test_nearest(void **state) {
    (void)state;
    for (uint32_t upper = 0; upper < 0x7f80; upper++) {
        double low = (double)bits(upper << 16), high = upper == 0x7f7f ? 0x1p128 : (double)bits((upper + 1) << 16);
        for (uint32_t lower = 0; lower < 0x10000; lower += upper % 64 ? 0x3fff : 0x101) {
            float x = bits(upper << 16 | lower), got;
            vt_bf16_round(&got, &x, 1, 1, 1);
            double below = (double)x - low, above = high - (double)x;
            bool up = above < below || (above == below && upper % 2);
            double want = up ? high : low;
            assert_true(isinf(got) ? want == 0x1p128 : (double)got == want);
            if (want < 0x1p128 && (double)x >= 0x1p-126)
                t_le(fabs(want - (double)x), 0x1p-8 * (double)x, "unit roundoff");
        }
    }
}

/* Rows with a stride become rows side by side. */
static void test_rows(void **state) {
    (void)state;
    static const float x[2][4] = {{1, 2, NAN, NAN}, {3, 4 + 0x1p-10f, NAN, NAN}};
    float to[4];
    vt_bf16_round(to, x[0], 2, 2, 4);
    for (int i = 0; i < 4; i++) assert_true(to[i] == (float)(i + 1));
}

typedef struct operands {
    int m, n, k, lda, ldb, ldc;
    bool ta, tb;
    float *a, *b, *c, *was;
    double *ra, *rb; /* rounded by hand, in double */
    size_t na, nb, nc;
} operands;

static double rounded(float x) {
    double step = ldexp(1, ilogb((double)x) - 7);
    return x == 0 ? 0 : step * rint((double)x / step); /* rint: to even; no subnormals are drawn */
}

static void draw(operands *o, int m, int n, int k, bool ta, bool tb) {
    *o = (operands){.m = m, .n = n, .k = k, .ta = ta, .tb = tb};
    o->lda = (ta ? m : k) + 3, o->ldb = (tb ? k : n) + 1, o->ldc = n + 2;
    o->na = (size_t)((ta ? k : m) * o->lda), o->nb = (size_t)((tb ? n : k) * o->ldb), o->nc = (size_t)(m * o->ldc);
    o->a = t_take(o->na * 4), o->b = t_take(o->nb * 4), o->c = t_take(o->nc * 4), o->was = t_take(o->nc * 4);
    o->ra = t_take(o->na * 8), o->rb = t_take(o->nb * 8);
    vt_rng_normals(&(vt_rng){.seed = 1}, o->a, o->na), vt_rng_normals(&(vt_rng){.seed = 2}, o->b, o->nb);
    vt_rng_normals(&(vt_rng){.seed = 3}, o->c, o->nc);
    memcpy(o->was, o->c, o->nc * sizeof(float));
    for (size_t i = 0; i < o->na; i++) o->ra[i] = rounded(o->a[i]);
    for (size_t i = 0; i < o->nb; i++) o->rb[i] = rounded(o->b[i]);
}

static double sum(const operands *o, const double *a, const double *b, int i, int j, bool size) {
    double s = 0;
    for (int p = 0; p < o->k; p++) {
        double t = a[o->ta ? p * o->lda + i : i * o->lda + p] * b[o->tb ? j * o->ldb + p : p * o->ldb + j];
        s += size ? fabs(t) : t;
    }
    return s;
}

/* |C - A~ B~| <= 2 (k + 3) 2^-24 |A~||B~|, as any order of summing floats keeps (test_gemm.c); and of the inputs as
 * they were, each within 2^-8 of its size (u, the unit roundoff of 8 bits), |A~ B~ - A B| <= (2 u + u^2) |A||B|. Bounds
 * of rounding alone: a product that was not rounded would be off the first by much. */
static void check(const operands *o, float alpha, float beta, const char *way) {
    double worst = 0, apart = 0, u = 0x1p-8;
    double *a = t_take(o->na * 8), *b = t_take(o->nb * 8);
    for (size_t i = 0; i < o->na; i++) a[i] = (double)o->a[i];
    for (size_t i = 0; i < o->nb; i++) b[i] = (double)o->b[i];
    for (int i = 0; i < o->m; i++)
        for (int j = 0; j < o->n; j++) {
            double got = (double)o->c[i * o->ldc + j], c = (double)beta * (double)o->was[i * o->ldc + j];
            double want = (double)alpha * sum(o, o->ra, o->rb, i, j, false) + c;
            double size = fabs((double)alpha) * sum(o, o->ra, o->rb, i, j, true) + fabs(c);
            double exact = (double)alpha * sum(o, a, b, i, j, false) + c;
            double inputs = (2 * u + u * u) * fabs((double)alpha) * sum(o, a, b, i, j, true);
            double bound = 2 * (o->k + 3) * 0x1p-24 * size;
            worst = fmax(worst, fabs(got - want) / bound), apart = fmax(apart, fabs(got - exact) / (inputs + bound));
        }
    t_le(worst, 1, "%s %d x %d x %d ta %d tb %d: sum of rounded products, in its bound", way, o->m, o->n, o->k, o->ta,
         o->tb);
    t_le(apart, 1, "%s %d x %d x %d: product of the inputs, in its bound", way, o->m, o->n, o->k);
    for (int i = 0; i < o->m; i++)
        for (int j = o->n; j < o->ldc; j++) assert_true(o->c[i * o->ldc + j] == o->was[i * o->ldc + j]);
}

/* In rooms of exactly the inputs' sizes: a byte beyond them is the sanitizer's to find. */
static void multiply(operands *o, float alpha, float beta, bool native, const vt_packed *packed) {
    float *a = vt_alloc((size_t)(o->m * o->k) * 4), *b = vt_alloc((size_t)(o->k * o->n) * 4);
    const vt_products by = {.native = native, .packed = packed, .a = a, .b = b};
    memcpy(o->c, o->was, o->nc * sizeof(float));
    vt_product_f32(&by, o->ta, o->tb, o->m, o->n, o->k, alpha, o->a, o->lda, o->b, o->ldb, beta, o->c, o->ldc);
    free(a), free(b);
}

static const int sizes[][3] = {{1, 1, 1},      {7, 5, 65},    {65, 32, 65},   {65, 192, 192},
                               {197, 64, 197}, {1, 768, 192}, {65, 1040, 37}, {100, 100, 100}};

static void test_product(void **state) {
    (void)state;
    for (size_t i = 0; i < T_COUNT(sizes); i++)
        for (int t = 0; t < 4; t++) {
            operands o;
            draw(&o, sizes[i][0], sizes[i][1], sizes[i][2], t & 1, t & 2);
            multiply(&o, 1, 0, false, NULL), check(&o, 1, 0, "emulated");
            float *alone = t_take(o.nc * 4);
            memcpy(alone, o.c, o.nc * 4);
            multiply(&o, 1, 1, false, NULL), check(&o, 1, 1, "emulated");
            multiply(&o, -0.75f, 0.5f, false, NULL), check(&o, -0.75f, 0.5f, "emulated");
            multiply(&o, 1, 0, true, NULL), check(&o, 1, 0, "native"); /* where there is none, the same */
            if (!vt_bf16_hardware()) assert_memory_equal(o.c, alone, o.nc * 4);
            multiply(&o, 1, 1, true, NULL), check(&o, 1, 1, "native");
            t_release("product");
        }
}

/* An attention head's, by kernels of our own where the processor multiplies bfloat16: few rows, a column that stands
 * alone, an odd inner side, every transpose. */
static void test_small(void **state) {
    (void)state;
    static const int rows[] = {2, 7, 13, 65}, columns[] = {2, 15, 16, 17, 32, 33, 49, 65, 97},
                     inner[] = {1, 2, 15, 32, 33, 65};
    for (size_t i = 0; i < T_COUNT(rows); i++)
        for (size_t j = 0; j < T_COUNT(columns); j++)
            for (size_t l = 0; l < T_COUNT(inner); l++)
                for (int t = 0; t < 8; t++) {
                    operands o;
                    draw(&o, rows[i], columns[j], inner[l], t & 1, t & 2);
                    multiply(&o, 1, t & 4 ? 1 : 0, true, NULL), check(&o, 1, t & 4 ? 1 : 0, "small");
                    t_release("small");
                }
    float x = 1;
    assert_false(
        vt_small_product_bf16(&(vt_product){.tb = true, .m = 7, .n = 641, .k = 128, .lda = 1, .ldb = 1, .ldc = 1}, &x,
                              &x, &x, &x, &x));
}

/* The processor's rounding is ours, but for numbers below the least normal one, which it takes for 0. */
static void test_hardware_rounding(void **state) {
    (void)state;
    float x[37];
    uint16_t want[37], got[3 * 37];
    for (uint32_t at = 0x00800000; at < 0x80000000u - 37 * 0x01234u; at += 37 * 0x01234u) {
        for (uint32_t i = 0; i < 37; i++) x[i] = bits((at + i * 0x01234u) | (i % 2 ? 0x80000000u : 0));
        vt_bf16_convert(want, x, 1, 37, 37);
        if (!vt_small_round_bf16(got, x, 1, 37, 37)) {
            assert_null(vt_bf16_hardware()); /* AMX has it, too */
            return;
        }
        assert_memory_equal(got, want, sizeof want);
    }
    const float rows[3][40] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}; /* rows with a stride, side by side */
    static const uint16_t side_by_side[9] = {0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0, 0x4100, 0x4110};
    got[9] = 7;
    assert_true(vt_small_round_bf16(got, rows[0], 3, 3, 40));
    assert_memory_equal(got, side_by_side, sizeof side_by_side);
    assert_int_equal(got[9], 7);
}

/* Weights packed once are the same weights, for products of as many rows, of one row, and of others. */
static void test_packed(void **state) {
    (void)state;
    for (int t = 0; t < 2; t++) {
        operands o;
        vt_packed *p;
        vt_err e = {0};
        draw(&o, 197, 192, 96, false, t);
        const vt_packed_from list[] = {{.b = o.b, .k = o.k, .n = o.n, .ld = o.ldb, .transposed = t}};
        assert_true((vt_packed_bytes(list, 1, 197) > 0) == (vt_bf16_hardware() != NULL));
        assert_int_equal(vt_packed_make(&p, list, 1, 197, &e), VT_OK);
        for (int m = 197; m > 0; m /= 4) {
            o.m = m;
            multiply(&o, 1, 0, true, p), check(&o, 1, 0, "packed");
            multiply(&o, 1, 1, true, p), check(&o, 1, 1, "packed");
        }
        vt_packed_free(p);
        t_release("packed");
    }
    vt_packed_free(NULL);
}

/* NULL is float32, to the bit. */
static void test_float32(void **state) {
    (void)state;
    operands o;
    draw(&o, 65, 192, 192, false, false);
    float *want = t_take(o.nc * 4);
    memcpy(want, o.c, o.nc * 4);
    vt_gemm_f32(false, false, o.m, o.n, o.k, 1, o.a, o.lda, o.b, o.ldb, 0, want, o.ldc);
    vt_product_f32(NULL, false, false, o.m, o.n, o.k, 1, o.a, o.lda, o.b, o.ldb, 0, o.c, o.ldc);
    assert_memory_equal(o.c, want, o.nc * 4);
    t_release("float32");
}

/* A NaN of A fills its row of C and no other. */
static void test_nan(void **state) {
    (void)state;
    operands o;
    draw(&o, 7, 5, 9, false, false);
    o.a[2 * o.lda + 4] = NAN;
    for (int native = 0; native < 2; native++) {
        multiply(&o, 1, 0, native, NULL);
        for (int i = 0; i < o.m; i++)
            for (int j = 0; j < o.n; j++) assert_true(isnan(o.c[i * o.ldc + j]) == (i == 2));
    }
    t_release("nan");
}

static void test_names(void **state) {
    (void)state;
    assert_string_equal(vt_precision_name(VT_PRODUCTS_FLOAT32), "float32");
    assert_string_equal(vt_precision_name(VT_PRODUCTS_BF16), "bf16");
    assert_string_equal(vt_precision_name(VT_PRODUCTS_BF16_EMULATED), "bf16-emulated");
    if (vt_bf16_hardware()) printf("this processor multiplies bfloat16 by %s\n", vt_bf16_hardware());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand), cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_rows),    cmocka_unit_test(test_product),
        cmocka_unit_test(test_packed),  cmocka_unit_test(test_float32),
        cmocka_unit_test(test_nan),     cmocka_unit_test(test_names),
        cmocka_unit_test(test_small),   cmocka_unit_test(test_hardware_rounding),
    };
    vt_blas_single_thread();
    return cmocka_run_group_tests_name("products", tests, NULL, NULL);
}
