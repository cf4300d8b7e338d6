/* SPDX-License-Identifier: MIT */
/* inference/masks and the wrap patchcleanser: every patch lies inside a mask; double masking against a second
 * implementation on random predictions; what is certified holds against every answer that a patch could force; logits,
 * gradient and certificate on a planted network. */
#include "ask.h"
#include "t.h"

#include "inference/masks.h"
#include "inference/wrap.h"
#include "models/net/session64.h"
#include "planted.h"

enum { CLASSES = 4, HEIGHT = 8, WIDTH = 6, N = 3 * HEIGHT * WIDTH };

/* Brute force over every position of a patch. */
static void test_coverage(void **state) {
    (void)state;
    static const struct {
        int height, width, patch, masks;
    } cases[] = {{32, 32, 5, 6},    {32, 32, 1, 2},   {32, 32, 31, 16}, {32, 32, 2, 16},
                 {224, 224, 32, 6}, {224, 224, 7, 9}, {224, 32, 5, 3},  {32, 224, 16, 6}};
    for (size_t i = 0; i < T_COUNT(cases); i++) {
        vt_mask_set s;
        const int p = cases[i].patch;
        const vt_shape shape = {3, cases[i].height, cases[i].width};
        assert_int_equal(vt_mask_set_make(&s, p, cases[i].masks, shape, NULL), VT_OK);
        assert_true(s.n[0] <= cases[i].masks && s.n[1] <= cases[i].masks);
        for (int y = 0; y + p <= shape.height; y++)
            for (int x = 0; x + p <= shape.width; x++) {
                bool covered = false;
                for (int m = 0; m < vt_mask_count(&s); m++) {
                    int top = s.at[0][m / s.n[1]], left = s.at[1][m % s.n[1]];
                    assert_true(top >= 0 && top + s.side[0] <= shape.height && left >= 0 &&
                                left + s.side[1] <= shape.width);
                    covered =
                        covered || (top <= y && y + p <= top + s.side[0] && left <= x && x + p <= left + s.side[1]);
                }
                if (!covered) fail_msg("case %zu: a patch at (%d, %d) lies in no mask", i, y, x);
            }
    }
    vt_mask_set s;
    vt_err e = {0};
    /* the paper's example: 224 pixels, patches of 32, six masks of 64 pixels at 0, 33, ..., 160 */
    assert_int_equal(vt_mask_set_make(&s, 32, 6, vt_shape_rgb(224), NULL), VT_OK);
    assert_true(s.n[0] == 6 && s.side[0] == 64 && s.at[0][1] == 33 && s.at[0][5] == 160);
    t_says(vt_mask_set_make(&s, 32, 6, vt_shape_rgb(32), &e), VT_E_USAGE, &e, "patch is 32 pixels", "32 x 32");
    t_says(vt_mask_set_make(&s, 33, 6, (vt_shape){3, 224, 32}, &e), VT_E_USAGE, &e, "patch is 33", "224 x 32");
}

/* ---- decisions on tables of predictions ---- */

enum { MASKS = 9, TRIALS = 20000 };

typedef struct table {
    int class[MASKS][MASKS];
    int asked;
} table;

static vt_status look(void *ctx, int i, int j, int *class, vt_err *e) {
    table *t = ctx;
    (void)e;
    assert_true(i <= j);
    *class = t->class[i][j], t->asked++;
    return VT_OK;
}

/* Fills the table with `label`, and with other classes in about one of `rare` places. */
static void draw_table(table *t, const vt_rng *r, int label, uint32_t rare) {
    for (int i = 0; i < MASKS; i++)
        for (int j = i; j < MASKS; j++) {
            uint64_t at = (uint64_t)(2 * (i * MASKS + j));
            bool other = vt_rng_below(r, at, rare) == 0;
            t->class[i][j] = t->class[j][i] = other ? (int)vt_rng_below(r, at + 1, CLASSES) : label;
        }
}

/* Algorithm 1 once more, from counts of classes: agreed, disagreer, majority. */
static int double_masking_again(const table *t) {
    int count[CLASSES] = {0}, most = 0;
    for (int i = 0; i < MASKS; i++) count[t->class[i][i]]++;
    for (int k = 0; k < CLASSES; k++)
        if (count[k] >= count[most]) most = k;
    for (int i = 0; i < MASKS && count[most] < MASKS; i++) {
        int same = 0;
        for (int j = 0; j < MASKS; j++) same += t->class[i][j] == t->class[i][i];
        if (t->class[i][i] != most && same == MASKS) return t->class[i][i];
    }
    return most;
}

static void test_double_masking(void **state) {
    (void)state;
    int cases[3] = {0}, pred[MASKS], class;
    for (int d = 0; d < TRIALS; d++) {
        vt_rng r = {.seed = 5, .image = (uint32_t)d};
        table t = {.asked = 0};
        draw_table(&t, &r, d % CLASSES, 2 + (uint32_t)d % 40);
        if (d % 3 == 0) /* a disagreer with all its row */
            for (int j = 0; j < MASKS; j++) t.class[4][j] = t.class[j][4] = (d + 1) % CLASSES;
        assert_int_equal(vt_double_masking(&class, pred, MASKS, look, &t, NULL), VT_OK);
        assert_int_equal(class, double_masking_again(&t));
        assert_true(t.asked <= MASKS * MASKS);
        bool unanimous = t.asked == MASKS;
        cases[unanimous ? 0 : class == d % CLASSES ? 2 : 1]++;
        bool agree, all = true;
        for (int i = 0; i < MASKS; i++)
            for (int j = 0; j < MASKS; j++) all = all && t.class[i][j] == d % CLASSES;
        t.asked = 0;
        assert_int_equal(vt_masks_agree(&agree, MASKS, d % CLASSES, look, &t, NULL), VT_OK);
        assert_int_equal(agree, all);
        assert_true(agree ? t.asked == MASKS * (MASKS + 1) / 2 : t.asked < MASKS * (MASKS + 1) / 2 + 1);
    }
    for (int k = 0; k < 3; k++) assert_true(cases[k] > TRIALS / 50);
}

/* Theorem 1: whatever the network says where no mask lies over the patch, a certified label stays. */
static void test_certificates_hold(void **state) {
    (void)state;
    int pred[MASKS], class, wrong_elsewhere = 0;
    for (int d = 0; d < TRIALS; d++) {
        vt_rng r = {.seed = 6, .image = (uint32_t)d};
        table t;
        draw_table(&t, &r, 1, 1 + (uint32_t)d % 3); /* 1: no place of its own */
        const int over = d % MASKS;
        if (d % 2) /* the patch forces one class wherever it shows */
            for (int i = 0; i < MASKS * MASKS; i++) t.class[i / MASKS][i % MASKS] = 2;
        for (int j = 0; j < MASKS; j++) t.class[over][j] = t.class[j][over] = 1;
        assert_int_equal(vt_double_masking(&class, pred, MASKS, look, &t, NULL), VT_OK);
        assert_int_equal(class, 1);
        wrong_elsewhere += t.class[(over + 1) % MASKS][(over + 1) % MASKS] != 1;
    }
    assert_true(wrong_elsewhere > TRIALS / 2);
}

/* ---- the wrap on a planted network ---- */

typedef struct scene {
    planted p;
    vt_classifier c;
    vt_wrap w;
    vt_mask_set set;
    float x[N], fill[3];
} scene;

static void scene_open(scene *s, uint64_t seed) {
    vt_err e = {0};
    memset(s, 0, sizeof *s);
    assert_true(planted_mlp(&s->p, CLASSES, HEIGHT, WIDTH, 7));
    vt_rng_uniforms(&(vt_rng){.seed = seed}, s->x, N);
    const vt_shape shape = {3, HEIGHT, WIDTH};
    assert_int_equal(vt_wrap_parse(&s->w, "patchcleanser:patch=2,masks=3", &e), VT_OK);
    assert_int_equal(vt_mask_set_make(&s->set, 2, 3, shape, &e), VT_OK);
    for (int k = 0; k < 3; k++) s->fill[k] = (float)s->p.c.mean[k];
    s->c = s->p.c;
    assert_int_equal(vt_wrap_classifier(&s->w, &s->c, shape, false, &e), VT_OK);
}

static void scene_close(scene *s) {
    vt_classifier_close(&s->c);
    vt_wrap_free(&s->w);
    planted_free(&s->p);
}

/* The planted network's predictions under all pairs. */
static void predict_all(scene *s, table *t, const float *x) {
    float y[N], z[CLASSES];
    for (int i = 0; i < MASKS; i++)
        for (int j = 0; j < MASKS; j++) {
            memcpy(y, x, sizeof y);
            vt_mask_apply(y, &s->set, i, s->fill), vt_mask_apply(y, &s->set, j, s->fill);
            ask_logits(&s->p.c, y, z, false);
            t->class[i][j] = vt_argmax_f32(z, CLASSES);
        }
}

static void test_wrap(void **state) {
    (void)state;
    int certified = 0, refused = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        scene s;
        table t;
        float z[CLASSES], dx[N], value;
        double z64[CLASSES];
        scene_open(&s, seed);
        predict_all(&s, &t, s.x);
        ask_logits(&s.c, s.x, z, true);
        const int class = vt_argmax_f32(z, CLASSES);
        assert_int_equal(class, double_masking_again(&t));
        /* the gradient: central differences of the wrapped logits, unless another mask is chosen in between */
        const float target[CLASSES] = {1, -2, 0.5f, 3};
        ask_backward(&s.c, &(vt_loss){.kind = VT_LOSS_LINEAR, .target = target}, &value, dx);
        for (int i = 0; i < N; i += 7) {
            double sum[2];
            const float was = s.x[i], h = 1e-3f;
            float at[2] = {was - h, was + h};
            for (int k = 0; k < 2; k++) {
                s.x[i] = at[k];
                ask_logits64(&s.c, s.x, z64);
                sum[k] = 0;
                for (int j = 0; j < CLASSES; j++) sum[k] += (double)target[j] * z64[j];
            }
            s.x[i] = was;
            double slope = (sum[1] - sum[0]) / ((double)at[1] - (double)at[0]);
            if (fabs(slope - (double)dx[i]) > 1e-2) { /* h^2 / 6 of a third derivative near 100 is 2e-5 */
                refused++;
                assert_true(fabs(sum[1] - sum[0]) > 1e-4); /* a step to another mask's logits */
            }
        }
        /* the certificate, and that no patch breaks what it says */
        bool yes, all = true;
        int64_t forwards;
        for (int i = 0; i < MASKS * MASKS; i++) all = all && t.class[i / MASKS][i % MASKS] == class;
        const int64_t before = s.p.forwards;
        assert_int_equal(vt_masks_certify(&yes, &forwards, &s.c, s.x, class, NULL, NULL), VT_OK);
        assert_int_equal(yes, all);
        assert_int_equal(forwards, s.p.forwards - before);
        certified += yes;
        for (int k = 0; yes && k < 50; k++) {
            vt_rng r = {.seed = 9, .image = (uint32_t)k};
            float y[N];
            memcpy(y, s.x, sizeof y);
            const int top = (int)vt_rng_below(&r, 0, HEIGHT - 1), left = (int)vt_rng_below(&r, 1, WIDTH - 1);
            for (int c = 0; c < 3; c++)
                for (int i = 0; i < 4; i++)
                    y[(c * HEIGHT + top + i / 2) * WIDTH + left + i % 2] =
                        (float)(vt_rng_bits(&r, 2 + (uint64_t)(4 * c + i)) >> 31);
            ask_logits(&s.c, y, z, false);
            assert_int_equal(vt_argmax_f32(z, CLASSES), class);
        }
        assert_int_equal(vt_masks_certify(&yes, &forwards, &s.c, s.x, (class + 1) % CLASSES, NULL, NULL), VT_OK);
        assert_true(!yes && (forwards == 1 || !all)); /* the first disagreement ends it */
        vt_err e = {0};
        t_says(vt_masks_certify(&yes, &forwards, &s.p.c, s.x, class, NULL, &e), VT_E_USAGE, &e, "patchcleanser",
               "alone");
        scene_close(&s);
    }
    assert_true(certified > 5 && certified < 55 && refused < 60);
}

/* A model that fails in any query fails the wrap, with its sentence. */
static void test_failures(void **state) {
    (void)state;
    for (int64_t after = 1; after <= MASKS; after += 4) {
        scene s;
        float z[CLASSES];
        double z64[CLASSES];
        vt_err e = {0};
        scene_open(&s, 3);
        s.p.fail_after = after, s.p.fail64 = true;
        t_says(vt_classifier_logits(&s.c, s.x, z, false, &e), VT_E_MODEL, &e, "one too many", "call");
        t_says(vt_classifier_logits64(&s.c, s.x, z64, &e), VT_E_MODEL, &e, "no double", "here");
        scene_close(&s);
    }
}

int main(void) {
    (void)planted_ridge, (void)planted_linear;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_coverage),          cmocka_unit_test(test_double_masking),
        cmocka_unit_test(test_certificates_hold), cmocka_unit_test(test_wrap),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
