/* SPDX-License-Identifier: MIT */
/* The box threat: which box of a file is an image's, what is no box, the attacks' ball and the judge's comparisons. */
#include "t.h"
#include "scratch.h"

#include "attacks/attack.h"
#include "data/box.h"
#include "eval/verify.h"
#include "tensors/npy.h"

enum { C = 3, H = 2, W = 4, N = C * H * W, MANY = 3 };
static const vt_shape shape = {C, H, W};
static const double mean[3] = {0}, std[3] = {1, 1, 1};

/* Writes lo and hi of these sides, and numbers [n_index]. */
static const char *write_box(const char *name, const float *lo, const float *hi, const int64_t *sides, int ndim,
                             const int64_t *index, int64_t n_index) {
    vt_tensor t[3] = {{.name = "lo", .dtype = VT_F32, .ndim = ndim, .numel = 1, .data = lo}};
    for (int k = 0; k < ndim; k++) t[0].shape[k] = sides[k], t[0].numel *= (size_t)sides[k];
    t[1] = t[0], t[1].name = "hi", t[1].data = hi;
    t[2] = (vt_tensor){.name = "index", .dtype = VT_I64, .ndim = 1, .numel = (size_t)n_index, .data = index};
    t[2].shape[0] = n_index;
    assert_int_equal(vt_npz_write(at("%s", name), t, index ? 3 : 2, NULL), VT_OK);
    return at("%s", name);
}

static void test_file(void **state) {
    (void)state;
    float lo[MANY * N], hi[MANY * N], a[N], b[N];
    const int64_t all[] = {C, H, W}, each[] = {MANY, C, H, W}, numbers[] = {9, 4, 7};
    for (int i = 0; i < MANY * N; i++) lo[i] = (float)i / 256, hi[i] = lo[i] + 0.25f;
    vt_box box;
    vt_err e = {0};
    for (int form = 0; form < 3; form++) { /* one for all; by place; by number */
        assert_int_equal(vt_box_open(&box,
                                     write_box("b.npz", lo, hi, form ? each : all, form ? 4 : 3,
                                               form == 2 ? numbers : NULL, MANY),
                                     &e),
                         VT_OK);
        assert_int_equal(vt_box_fit(&box, shape, mean, std, &e), VT_OK);
        for (int64_t k = 0; k < 3; k++) {
            const int64_t row = form ? k : 0;
            assert_int_equal(vt_box_read(&box, form == 2 ? numbers[k] : k, a, b, &e), VT_OK);
            assert_memory_equal(a, lo + row * N, sizeof a);
            assert_memory_equal(b, hi + row * N, sizeof b);
        }
        if (form) t_says(vt_box_read(&box, 3, a, b, &e), VT_E_USAGE, &e, "has 3 boxes", "none for image 3");
        vt_box_close(&box);
    }
    assert_int_equal(vt_box_open(&box, write_box("b.npz", lo, hi, each, 4, numbers, 2), &e), VT_OK);
    t_says(vt_box_fit(&box, shape, mean, std, &e), VT_E_USAGE, &e, "has 3 boxes", "numbers of 2 images");
    vt_box_close(&box);
}

/* One bound or value at a time is what it must not be; each of the others is at its limit. */
static void test_check(void **state) {
    (void)state;
    static const struct {
        float lo, x, hi;
        const char *says; /* NULL: it is fine */
    } rows[] = {{0, 0, 0, NULL},
                {1, 1, 1, NULL},
                {0.25f, 0.25f, 0.5f, NULL},
                {-0x1p-30f, 0, 1, "lo of image 5 at [1,1,2]"},
                {0, 1, 1.0000001f, "hi of image 5 at [1,1,2]"},
                {NAN, 0, 1, "is nan"},
                {0, 0, NAN, "is nan"},
                {0.5f, 0.5f, 0.25f, "must be at most hi, 0.25"},
                {0.5f, 0.49f, 1, "must lie in the box"},
                {0, 0.51f, 0.5f, "must lie in the box"}};
    const int64_t sides[] = {C, H, W};
    for (size_t r = 0; r < T_COUNT(rows); r++) {
        float lo[N] = {0}, hi[N], x[N] = {0}, a[N], b[N];
        for (int i = 0; i < N; i++) hi[i] = 1;
        const int at = (1 * H + 1) * W + 2;
        lo[at] = rows[r].lo, x[at] = rows[r].x, hi[at] = rows[r].hi;
        vt_box box;
        vt_err e = {0};
        assert_int_equal(vt_box_open(&box, write_box("c.npz", lo, hi, sides, 3, NULL, 0), &e), VT_OK);
        assert_int_equal(vt_box_fit(&box, shape, mean, std, &e), VT_OK);
        vt_status s = vt_box_check(&box, 5, x, a, b, &e);
        if (rows[r].says)
            t_says(s, VT_E_USAGE, &e, rows[r].says, "c.npz");
        else
            assert_int_equal(s, VT_OK);
        vt_box_close(&box);
    }
}

/* The attacks' ball of a box, and the judge, by brute force over values at, inside and beside the bounds. */
static void test_ball_and_judge(void **state) {
    (void)state;
    float lo[N], hi[N], x[N], y[N];
    vt_rng_uniforms(&(vt_rng){.seed = 1, .purpose = 0x7E57}, x, N);
    double most = 0;
    for (int i = 0; i < N; i++) {
        lo[i] = x[i] * (float)(i % 3) / 3, hi[i] = x[i] + (1 - x[i]) * (float)(i % 4) / 4;
        most = fmax(most, fmax((double)x[i] - (double)lo[i], (double)hi[i] - (double)x[i]));
    }
    vt_ball ball;
    vt_ball_box(&ball, x, N, lo, hi);
    assert_true(ball.eps == most && ball.norm == VT_LINF);
    for (uint32_t k = 0; k < 200; k++) {
        const vt_rng r = {.seed = 2, .purpose = 0x7E57, .image = k};
        vt_ball_start_inside(&ball, &r, y);
        for (int i = 0; i < N; i++) assert_true(y[i] >= lo[i] && y[i] <= hi[i]);
        bool inside = true;
        const int i = (int)(k % N);
        if (k % 5 == 1) y[i] = nextafterf(lo[i], -1), inside = false;
        if (k % 5 == 2) y[i] = nextafterf(hi[i], 2), inside = false;
        if (k % 5 == 3) y[i] = lo[i];
        if (k % 5 == 4) y[i] = hi[i];
        if (k % 50 == 0) y[i] = NAN, inside = false;
        vt_verdict v = {.inside = true, .broken = true, .borderline = true};
        vt_verify_box(&v, y, lo, hi, N);
        assert_true(v.inside == inside && v.broken == inside && v.borderline == inside);
        assert_true(vt_ball_contains(&ball, y) == inside);
        vt_ball_project(&ball, y);
        assert_true(vt_ball_contains(&ball, y));
    }
}

static void test_attacks(void **state) {
    (void)state;
    static const char *const in[] = {"pgd",    "cw20",     "apgd-ce",       "apgd-dlr",      "apgd-t",
                                     "square", "transfer", "attention-pgd", "apgd-ce+square"};
    static const char *const out[] = {"patch-fool", "attention-fool", "fgsm", "fab", "autoattack", "ddn", "sparse-rs"};
    vt_attack a;
    vt_err e = {0};
    for (size_t i = 0; i < T_COUNT(in); i++) {
        if (vt_attack_parse(&a, in[i], VT_NORM_BOX, &e) != VT_OK) fail_msg("%s", e.text);
        assert_null(a.stages[0].place);
        vt_attack_free(&a);
    }
    for (size_t i = 0; i < T_COUNT(out); i++)
        t_says(vt_attack_parse(&a, out[i], VT_NORM_BOX, &e), VT_E_USAGE, &e, "does not support", "box");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_file), cmocka_unit_test(test_check),
                                       cmocka_unit_test(test_ball_and_judge), cmocka_unit_test(test_attacks)};
    return cmocka_run_group_tests_name("box", tests, make_tmp, remove_tmp);
}
