/* SPDX-License-Identifier: MIT */
/* src/core: statuses, arena, options, random numbers, hashing. */
#include "t.h"

#include <unistd.h>
#include "base/files.h"
#include "base/mem.h"
#include "base/opt.h"

/* An allocation that is too large must return NULL under the address sanitizer as it does without. Visible: the
   sanitizer's library looks for it. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }

/* ---- status ---- */

static void test_status(void **state) {
    (void)state;
    assert_int_equal(vt_exit_code(VT_OK), 0);
    assert_int_equal(vt_exit_code(VT_E_USAGE), 2);
    assert_int_equal(vt_exit_code(VT_E_UNKNOWN), 2);
    static const vt_status run_time[] = {VT_STOP,    VT_INTERRUPTED, VT_E_IO,        VT_E_FORMAT, VT_E_SHAPE,
                                         VT_E_RANGE, VT_E_MEMORY,    VT_E_FORBIDDEN, VT_E_NUMERIC};
    for (size_t i = 0; i < T_COUNT(run_time); i++) assert_int_equal(vt_exit_code(run_time[i]), 1);
    assert_string_equal(vt_status_name(VT_OK), "ok");
    assert_string_equal(vt_status_name(VT_E_UNKNOWN), "unknown name");
    assert_string_equal(vt_status_name((vt_status)99), "unknown status");
    assert_string_equal(vt_status_name((vt_status)-1), "unknown status");
}

static vt_status tries(int *reached, vt_status first) {
    VT_TRY(first);
    *reached = 1;
    return VT_OK;
}

static void test_fail(void **state) {
    (void)state;
    vt_err e = {0};
    assert_int_equal(vt_fail(&e, VT_E_IO, "%s: %d of %d", "file", 3, 7), VT_E_IO);
    t_says(e.code, VT_E_IO, &e, "file: 3 of 7", "");
    assert_int_equal(vt_fail(NULL, VT_E_RANGE, "nobody listens"), VT_E_RANGE);
    char big[2000];
    memset(big, 'x', sizeof big);
    big[sizeof big - 1] = 0;
    vt_fail(&e, VT_E_IO, "%s", big);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    int reached = 0;
    assert_int_equal(tries(&reached, VT_E_SHAPE), VT_E_SHAPE);
    assert_int_equal(reached, 0);
    assert_int_equal(tries(&reached, VT_OK), VT_OK);
    assert_int_equal(reached, 1);
}

/* ---- memory ---- */

static void test_products(void **state) {
    (void)state;
    size_t out = 7;
    assert_true(vt_mul(1000, 1000, &out));
    assert_int_equal(out, 1000000);
    assert_true(vt_add(SIZE_MAX - 1, 1, &out));
    assert_true(out == SIZE_MAX);
    assert_false(vt_mul(SIZE_MAX / 2 + 1, 2, &out));
    assert_false(vt_add(SIZE_MAX, 1, &out));
    assert_true(vt_mul(0, SIZE_MAX, &out));
    assert_int_equal(out, 0);
}

static void test_alloc(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4097};
    for (size_t i = 0; i < T_COUNT(sizes); i++) {
        unsigned char *p = vt_alloc(sizes[i]);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        for (size_t k = 0; k < sizes[i]; k++) assert_int_equal(p[k], 0);
        free(p);
    }
    assert_null(vt_alloc(SIZE_MAX));
    assert_null(vt_alloc(SIZE_MAX - 200));
}

enum { PIECES = 7 };
static const size_t piece[PIECES] = {1, 0, 64, 65, 7, 1000, 3};

static void carve(vt_arena *a, char *out[PIECES]) {
    for (int i = 0; i < PIECES; i++) out[i] = vt_arena_take(a, piece[i], i % 2 ? 8 : 1);
}

static void test_arena(void **state) {
    (void)state;
    char *p[PIECES];
    vt_arena plan = {0};
    carve(&plan, p);
    for (int i = 0; i < PIECES; i++) assert_null(p[i]);
    char *block = vt_alloc(plan.used);
    vt_arena run = {.base = block, .size = plan.used};
    carve(&run, p);
    assert_int_equal(run.used, plan.used);
    for (int i = 0; i < PIECES; i++) {
        size_t bytes = piece[i] * (i % 2 ? 8 : 1);
        assert_int_equal((uintptr_t)p[i] % 64, 0);
        memset(p[i], i + 1, bytes);
        assert_true(p[i] + bytes <= block + plan.used);
    }
    for (int i = 0; i < PIECES; i++)
        for (size_t k = 0; k < piece[i] * (i % 2 ? 8 : 1); k++) assert_int_equal(p[i][k], i + 1);
    free(block);
}

/* Whatever overflows, the measured size stays too large for the allocator: it never wraps round to a small
 * one. */
static void test_arena_overflow(void **state) {
    (void)state;
    static const size_t first[][2] = {{SIZE_MAX / 2, 4},
                                      {SIZE_MAX, 1},
                                      {SIZE_MAX - 64, 1},
                                      {SIZE_MAX - 127, 1},
                                      {SIZE_MAX - 130, 1}};
    for (size_t i = 0; i < T_COUNT(first); i++) {
        vt_arena a = {0};
        assert_null(vt_arena_take(&a, first[i][0], first[i][1]));
        for (int k = 0; k < 4; k++) {
            assert_true(a.used > SIZE_MAX / 2);
            vt_arena_take(&a, 64, 1);
            vt_arena_take(&a, SIZE_MAX - 100, 1);
        }
        assert_null(vt_alloc(a.used));
    }
}

/* ---- options ---- */

static void test_parse_real(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double value;
    } good[] = {{"8/255", 8.0 / 255}, {"2/255", 2.0 / 255}, {"0.5", 0.5}, {"-3", -3},
                {"+.5", 0.5},         {"1e-3", 1e-3},       {"0", 0},     {"1.5/0.5", 3},
                {"0/7", 0},           {"-1/4", -0.25},      {"5.", 5},    {"0.031372549019607843", 8.0 / 255}};
    static const char *const bad[] = {"",       "8/0",    "8/-255",       "nan",   "inf",    "-inf", "+nan", "0x10",
                                      "-0x1p3", "8/0x10", "8/",           "/8",    "8/255x", "1 ",   " 1",   "1 /2",
                                      "1/ 2",   "8/nan",  "8/inf",        "1e999", "1,5",    ".",    "-",    "e5",
                                      "1/2/3",  "8/00",   "1e308/1e-308", "+-5",   "five"};
    for (size_t i = 0; i < T_COUNT(good); i++) {
        double v = 99;
        if (!vt_parse_real(good[i].text, &v)) fail_msg("'%s' was refused", good[i].text);
        if (v != good[i].value) fail_msg("'%s' was read as %.17g", good[i].text, v);
    }
    for (size_t i = 0; i < T_COUNT(bad); i++) {
        double v = 99;
        if (vt_parse_real(bad[i], &v)) fail_msg("'%s' was taken for %g", bad[i], v);
        if (v != 99) fail_msg("'%s' was refused but stored %g", bad[i], v);
    }
}

static void test_parse_int(void **state) {
    (void)state;
    long long v = 0;
    assert_true(vt_parse_int("42", &v) && v == 42);
    assert_true(vt_parse_int("-7", &v) && v == -7);
    assert_true(vt_parse_int("9223372036854775807", &v) && v == INT64_MAX);
    static const char *const bad[] = {"",     " 4", "4 ",  "4.0", "0x10", "99999999999999999999",
                                      "four", "-",  "1e3", "nan", "4/2"};
    for (size_t i = 0; i < T_COUNT(bad); i++)
        if (vt_parse_int(bad[i], &v)) fail_msg("'%s' was taken for a whole number", bad[i]);
}

typedef struct params {
    int steps, loss;
    double eps, alpha;
    bool start;
} params;

static const vt_opt opts[] = {
    {"steps", "", VT_OPT_INT, offsetof(params, steps), 20, 1, 100, NULL, NULL},
    {"eps", "", VT_OPT_REAL, offsetof(params, eps), 0.25, 0, 1, NULL, NULL},
    {"alpha", "", VT_OPT_REAL, offsetof(params, alpha), 0, 0, 10, NULL, "eps/4"},
    {"start", "", VT_OPT_BOOL, offsetof(params, start), 1, 0, 1, NULL, NULL},
    {"loss", "", VT_OPT_CHOICE, offsetof(params, loss), 1, 0, 0, "ce|margin|dlr", NULL},
    {NULL, NULL, 0, 0, 0, 0, 0, NULL, NULL},
};

static void test_opt_values(void **state) {
    (void)state;
    params p;
    vt_err e = {0};
    memset(&p, 0x55, sizeof p);
    vt_opt_defaults(opts, &p);
    assert_true(p.steps == 20 && p.eps == 0.25 && p.alpha == 0 && p.start && p.loss == 1);
    vt_opt_defaults(NULL, NULL);
    assert_int_equal(vt_opt_parse(opts, &p, "", "x", &e), VT_OK);
    assert_int_equal(vt_opt_parse(opts, &p, "eps=8/255,steps=100,loss=dlr,start=no", "x", &e), VT_OK);
    assert_true(p.steps == 100 && p.eps == 8.0 / 255 && !p.start && p.loss == 2);
    static const char *const on[] = {"start=1", "start=yes", "start=true"}, *const off[] = {"start=0", "start=no",
                                                                                            "start=false"};
    for (size_t i = 0; i < T_COUNT(on); i++) {
        assert_true(vt_opt_parse(opts, &p, on[i], "x", &e) == VT_OK && p.start);
        assert_true(vt_opt_parse(opts, &p, off[i], "x", &e) == VT_OK && !p.start);
    }
}

/* Only a whole number is read as one: no share, no choice, no switch, and no option that is not there. */
static void test_opt_int(void **state) {
    (void)state;
    int kinds[VT_OPT_TEXT + 1] = {0};
    params p;
    vt_opt_defaults(opts, &p);
    for (const vt_opt *o = opts; o->key; o++) {
        int v = -77;
        assert_int_equal(vt_opt_int(opts, &p, o->key, &v), o->type == VT_OPT_INT);
        assert_int_equal(v, o->type == VT_OPT_INT ? (int)o->preset : -77);
        kinds[o->type]++;
    }
    assert_true(kinds[VT_OPT_INT] && kinds[VT_OPT_REAL] && kinds[VT_OPT_BOOL] && kinds[VT_OPT_CHOICE]);
    assert_false(vt_opt_int(opts, &p, "nothing", kinds) || vt_opt_int(NULL, NULL, "steps", kinds));
}

static void test_opt_refusals(void **state) {
    (void)state;
    static const struct {
        const char *text;
        vt_status status;
        const char *says;
    } bad[] = {
        {"steps=0", VT_E_USAGE, "between 1 and 100"},
        {"steps=101", VT_E_USAGE, "between 1 and 100"},
        {"steps=4294967297", VT_E_USAGE, "between"},
        {"steps=1.5", VT_E_USAGE, "whole number"},
        {"steps=", VT_E_USAGE, "no value"},
        {"eps=nan", VT_E_USAGE, "not a number"},
        {"eps=-0.1", VT_E_USAGE, "between 0 and 1"},
        {"eps=1.0000001", VT_E_USAGE, "between 0 and 1"},
        {"eps=8/0", VT_E_USAGE, "8/0"},
        {"start=2", VT_E_USAGE, "0 or 1"},
        {"start=maybe", VT_E_USAGE, "0 or 1"},
        {"loss=c", VT_E_USAGE, "ce|margin|dlr"},
        {"loss=ce|margin", VT_E_USAGE, "ce|margin"},
        {"loss=cee", VT_E_USAGE, "ce|margin|dlr"},
        {"steps", VT_E_USAGE, "key=value"},
        {"steps=1,", VT_E_USAGE, "comma"},
        {",steps=1", VT_E_USAGE, "list"},
        {"steps=1,,eps=1", VT_E_USAGE, "list"},
        {"step=1", VT_E_UNKNOWN, "'steps'"},
        {"Stesp=1", VT_E_UNKNOWN, "'steps'"},
        {"zebra=1", VT_E_UNKNOWN, "steps, eps, alpha, start, loss"},
        {"=1", VT_E_UNKNOWN, "no option"},
        {"eps=eps/4", VT_E_USAGE, "not a number"},
    };
    for (size_t i = 0; i < T_COUNT(bad); i++) {
        params p;
        vt_err e = {0};
        vt_opt_defaults(opts, &p);
        t_says(vt_opt_parse(opts, &p, bad[i].text, "attack toy", &e), bad[i].status, &e, bad[i].says, "attack toy");
        assert_true(p.steps == 20 || !strncmp(bad[i].text, "steps=1,", 8)); /* what fails stores nothing */
    }
    params any;
    vt_err none = {0};
    vt_opt_defaults(opts, &any);
    assert_int_equal(vt_opt_parse(opts, &any, "STEPS=7,Loss=Margin,start=NO", "attack toy", &none), VT_OK);
    assert_true(any.steps == 7 && any.loss == 1 && !any.start);
    char lengthy[200] = "eps=0.";
    memset(lengthy + 6, '1', 150);
    params p;
    vt_err e = {0};
    t_says(vt_opt_parse(opts, &p, lengthy, "attack toy", &e), VT_E_USAGE, &e, "attack toy", "list");
    t_says(vt_opt_parse(NULL, NULL, "a=1", "attack bare", &e), VT_E_UNKNOWN, &e, "attack bare", "none");
}

static void test_opt_text(void **state) {
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"", "steps=20,eps=0.25,alpha=eps/4,start=1,loss=margin"},
        {"eps=8/255,alpha=2/255,start=0", "steps=20,eps=8/255,alpha=2/255,start=0,loss=margin"},
        {"eps=0.1,alpha=1e-7,loss=ce", "steps=20,eps=0.1,alpha=1e-07,start=1,loss=ce"},
        {"eps=0.12345678901234566,alpha=3", "steps=20,eps=0.12345678901234566,alpha=3,start=1,loss=margin"},
        {"eps=1,alpha=eps/4", "steps=20,eps=1,alpha=eps/4,start=1,loss=margin"},
    };
    for (size_t i = 0; i < T_COUNT(cases); i++) {
        params p, again;
        vt_err e = {0};
        char text[200], twice[200], small[8] = "zzzzzzz";
        memset(&p, 0, sizeof p), memset(&again, 0, sizeof again);
        vt_opt_defaults(opts, &p);
        assert_int_equal(vt_opt_parse(opts, &p, cases[i].in, "x", &e), VT_OK);
        int n = vt_opt_text(opts, &p, text, sizeof text);
        assert_string_equal(text, cases[i].out);
        assert_int_equal(n, strlen(text));
        vt_opt_defaults(opts, &again);
        assert_int_equal(vt_opt_parse(opts, &again, text, "x", &e), VT_OK); /* a report's text can be given back */
        assert_memory_equal(&p, &again, sizeof p);
        vt_opt_text(opts, &again, twice, sizeof twice);
        assert_string_equal(text, twice);
        assert_int_equal(vt_opt_text(opts, &p, small, sizeof small),
                         n); /* as snprintf: cut, ended, and the full length */
        assert_memory_equal(small, "steps=2", 8);
        assert_int_equal(vt_opt_text(opts, &p, NULL, 0), n);
    }
    char text[8] = "before";
    assert_int_equal(vt_opt_text(NULL, NULL, text, sizeof text), 0);
    assert_string_equal(text, "");
}

static void test_nearest(void **state) {
    (void)state;
    static const char *const list[] = {"ddn",    "pgd",        "apgd-ce", "apgd-dlr",
                                       "square", "autoattack", "threat",  "threads"};
    static const struct {
        const char *word, *near;
    } cases[] = {{"pgd", "pgd"},         {"pdg", "pgd"},        {"apgd-c", "apgd-ce"},  {"sqare", "square"},
                 {"auto", "autoattack"}, {"apgd", "pgd"},       {"apgd-d", "apgd-dlr"}, {"entirely-else", NULL},
                 {"zzzzzzzz", NULL},     {"thread", "threads"}, {"threaz", "threat"},   {"PDG", "pgd"},
                 {"Apgd-C", "apgd-ce"},  {"gpu", NULL},         {"three", NULL},        {"", NULL}};
    for (size_t i = 0; i < T_COUNT(cases); i++) {
        const char *got = vt_nearest(cases[i].word, list, T_COUNT(list));
        if (!cases[i].near ? got != NULL : !got || strcmp(got, cases[i].near))
            fail_msg("'%s' gave '%s'", cases[i].word, got ? got : "nothing");
    }
    char longer[200];
    memset(longer, 'p', sizeof longer);
    longer[sizeof longer - 1] = 0;
    assert_null(vt_nearest(longer, list, T_COUNT(list)));
    assert_null(vt_nearest("pgd", list, 0));
}

/* ---- random numbers ---- */

/* Random123's published known answers for philox4x32-10. */
static void test_philox(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } kat[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < T_COUNT(kat); i++) {
        uint32_t out[4];
        vt_philox(out, kat[i].counter, kat[i].key);
        assert_memory_equal(out, kat[i].out, sizeof out);
    }
    assert_int_equal(vt_rng_purpose(""), 2166136261u); /* FNV-1a's published answers */
    assert_int_equal(vt_rng_purpose("a"), 0xE40C292Cu);
    assert_int_equal(vt_rng_purpose("foobar"), 0xBF9CF968u);
}

enum { DRAWS = 100003 };

static void moments(const float *x, size_t n, double m[5]) {
    for (int p = 1; p < 5; p++) {
        double s = 0;
        for (size_t i = 0; i < n; i++) s += pow((double)x[i] - (p > 1 ? m[1] : 0), p);
        m[p] = s / (double)n;
    }
}

/* Five standard errors: a right generator fails once in a million seeds, and the seed is fixed. */
static void test_moments(void **state) {
    (void)state;
    float *x = malloc(DRAWS * sizeof *x);
    double m[5], n = DRAWS;
    vt_rng r = {.seed = 5, .purpose = 6, .image = 7, .run = 8, .step = 9};
    vt_rng_uniforms(&r, x, DRAWS);
    int bins[16] = {0};
    for (size_t i = 0; i < DRAWS; i++) {
        assert_true(x[i] >= 0 && x[i] < 1 && x[i] * 0x1p24f == floorf(x[i] * 0x1p24f));
        bins[(int)(x[i] * 16)]++;
    }
    double chi2 = 0;
    for (int i = 0; i < 16; i++) chi2 += pow(bins[i] - n / 16, 2) / (n / 16);
    t_le(chi2, 15 + 5 * sqrt(30), "chi^2 of 16 bins");
    moments(x, DRAWS, m);
    t_le(fabs(m[1] - 0.5), 5 * sqrt(1 / 12.0 / n), "mean of uniforms");
    t_le(fabs(m[2] - 1 / 12.0), 5 * sqrt(1 / 180.0 / n), "variance of uniforms");
    vt_rng_normals(&r, x, DRAWS);
    moments(x, DRAWS, m);
    t_le(fabs(m[1]), 5 / sqrt(n), "mean of normals");
    t_le(fabs(m[2] - 1), 5 * sqrt(2 / n), "variance of normals");
    t_le(fabs(m[3]), 5 * sqrt(6 / n), "third moment of normals");
    t_le(fabs(m[4] - 3), 5 * sqrt(96 / n), "fourth moment of normals");
    double lag = 0, sine = 0; /* neighbours, and the two halves of Box-Muller */
    for (size_t i = 0; i + 1 < DRAWS; i++) *(i % 2 ? &lag : &sine) += (double)x[i] * (double)x[i + 1];
    t_le(fabs(lag) / (n / 2), 5 / sqrt(n / 2), "correlation of neighbouring pairs");
    t_le(fabs(sine) / (n / 2), 5 / sqrt(n / 2), "correlation within a pair");
    free(x);
}

/* The first k of n draws do not depend on n, and one draw does not depend on the others. */
static void test_prefix(void **state) {
    (void)state;
    enum { N = 37 };
    vt_rng r = {.seed = 0x123456789ABCDEF0u, .purpose = vt_rng_purpose("pgd"), .image = 3};
    float all[N], some[N], normal[N], some_normal[N];
    vt_rng_uniforms(&r, all, N);
    vt_rng_normals(&r, normal, N);
    for (size_t k = 0; k <= N; k++) {
        memset(some, 0, sizeof some), memset(some_normal, 0, sizeof some_normal);
        vt_rng_uniforms(&r, some, k);
        vt_rng_normals(&r, some_normal, k);
        assert_memory_equal(some, all, k * sizeof(float));
        assert_memory_equal(some_normal, normal, k * sizeof(float));
        for (size_t i = k; i < N; i++) assert_true(some[i] == 0 && some_normal[i] == 0);
    }
    for (size_t i = 0; i < N; i++) {
        assert_true(vt_rng_uniform(&r, i) == all[i]);
        assert_true((float)(vt_rng_bits(&r, i) >> 8) * 0x1p-24f == all[i]);
    }
}

/* Each field of the key selects another sequence. */
static void test_keys(void **state) {
    (void)state;
    const vt_rng base = {.seed = 1};
    vt_rng r[] = {base, base, base, base, base, base, base, base, base};
    r[1].seed = 2, r[2].seed = 1 + (1ull << 32), r[3].purpose = 1, r[4].image = 1, r[5].run = 1, r[6].step = 1;
    r[7].run = 2, r[8].image = 2;
    for (size_t i = 0; i < T_COUNT(r); i++)
        for (size_t j = 0; j < i; j++) {
            int same = 0;
            for (uint64_t k = 0; k < 64; k++) same += vt_rng_bits(&r[i], k) == vt_rng_bits(&r[j], k);
            assert_int_equal(same, 0);
        }
}

/* ---- hashing ---- */

static void test_sha(void **state) {
    (void)state;
    static const char *const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    static const char *const million = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
    char hex[65], path[] = "/tmp/vitrine-test-sha-XXXXXX";
    vt_sha_hex("", 0, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    vt_sha_hex("abc", 3, hex);
    assert_string_equal(hex, abc);
    vt_sha s;
    vt_sha_begin(&s);
    vt_sha_update(&s, "a", 1);
    vt_sha_update(&s, "", 0);
    vt_sha_update(&s, "bc", 2);
    vt_sha_end(&s, hex);
    assert_string_equal(hex, abc);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    char block[1000];
    memset(block, 'a', sizeof block);
    for (int i = 0; i < 1000; i++) assert_int_equal(write(fd, block, sizeof block), sizeof block);
    close(fd);
    vt_err e = {0};
    assert_int_equal(vt_sha_file(path, hex, &e), VT_OK);
    assert_string_equal(hex, million);
    unlink(path);
    t_says(vt_sha_file(path, hex, &e), VT_E_IO, &e, path, "No such file");
    t_says(vt_sha_file("/tmp", hex, &e), VT_E_IO, &e, "/tmp", "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status),     cmocka_unit_test(test_fail),         cmocka_unit_test(test_products),
        cmocka_unit_test(test_alloc),      cmocka_unit_test(test_arena),        cmocka_unit_test(test_arena_overflow),
        cmocka_unit_test(test_parse_real), cmocka_unit_test(test_parse_int),    cmocka_unit_test(test_opt_values),
        cmocka_unit_test(test_opt_int),    cmocka_unit_test(test_opt_refusals), cmocka_unit_test(test_opt_text),
        cmocka_unit_test(test_nearest),    cmocka_unit_test(test_philox),       cmocka_unit_test(test_moments),
        cmocka_unit_test(test_prefix),     cmocka_unit_test(test_keys),         cmocka_unit_test(test_sha),
    };
    return cmocka_run_group_tests_name("core", tests, NULL, NULL);
}
