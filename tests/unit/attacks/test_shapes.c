/* SPDX-License-Identifier: MIT */
/* The embedded checkpoint on the embedded images against PyTorch's attacks (tests/fixtures/golden/attacks_shapes, made
 * by tools/gen_fixtures.py): logits, adversarial points, flags, final losses, and the invariance of results to the
 * order of images. The gates are those of the reference files' MANIFEST. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ask.h"
#include "attacks/attack.h"
#include "linalg/gemm.h"
#include "data/dataset.h"
#include "tensors/tensors.h"

#define WEIGHTS "weights/shapes10-vit/model.safetensors"
#define FIXTURE "tests/fixtures/golden/attacks_shapes.safetensors"
enum { IMAGES = 8, PIXELS = 3072, CLASSES = 10 };

typedef struct fixture {
    vt_tensors *st;
    vt_model *m;
    vt_classifier c;
    vt_oracle o;
    float x[IMAGES][PIXELS];
    int label[IMAGES];
} fixture;

static int setup(void **state) {
    static fixture f;
    vt_dataset *d;
    vt_err e = {0};
    vt_blas_single_thread();
    if (vt_tensors_open(&f.st, FIXTURE, &e) != VT_OK || vt_model_open(&f.m, WEIGHTS, NULL, &e) != VT_OK ||
        vt_classifier_open(&f.c, f.m, &e) != VT_OK || vt_oracle_open(&f.o, &f.c, &e) != VT_OK ||
        vt_dataset_open(&d, "datasets/shapes10", VT_SPLIT_TEST, &e) != VT_OK) {
        print_error("%s\n", e.text);
        return -1;
    }
    for (int i = 0; i < IMAGES; i++) {
        vt_image im;
        if (vt_dataset_read(d, i, &im, &f.label[i], &e) != VT_OK) return -1;
        for (int k = 0; k < PIXELS; k++) f.x[i][k] = (float)im.rgb[k] / 255.0f;
        vt_image_free(&im);
    }
    vt_dataset_close(d);
    *state = &f;
    return 0;
}

static int teardown(void **state) {
    fixture *f = *state;
    vt_oracle_close(&f->o);
    vt_classifier_close(&f->c);
    vt_model_close(f->m);
    vt_tensors_close(f->st);
    return 0;
}

static double *values(const fixture *f, const char *shot, const char *part, size_t *n) {
    char name[64];
    snprintf(name, sizeof name, "%s%s%s", shot, *shot ? "." : "", part);
    const vt_tensor *t = vt_tensors_find(f->st, name);
    if (!t) fail_msg("%s: no tensor %s", FIXTURE, name);
    double *v = calloc(t->numel, sizeof *v);
    int64_t *whole = calloc(t->numel, sizeof *whole);
    assert_true(v && whole);
    vt_status s = t->dtype == VT_U8 || t->dtype == VT_I64 ? vt_tensor_i64(f->st, t, whole, t->numel, NULL)
                                                          : vt_tensor_f64(f->st, t, v, t->numel, NULL);
    assert_int_equal(s, VT_OK);
    if (t->dtype == VT_U8 || t->dtype == VT_I64)
        for (size_t i = 0; i < t->numel; i++) v[i] = (double)whole[i];
    free(whole);
    *n = t->numel;
    return v;
}

static void test_clean_logits(void **state) {
    fixture *f = *state;
    size_t n;
    double *ref = values(f, "", "clean_logits_f64", &n), top = 0;
    assert_int_equal(n, IMAGES * CLASSES);
    for (size_t i = 0; i < n; i++) top = fmax(top, fabs(ref[i]));
    for (int i = 0; i < IMAGES; i++) {
        float z[CLASSES];
        double z64[CLASSES];
        ask_logits(&f->c, f->x[i], z, false);
        ask_logits64(&f->c, f->x[i], z64);
        for (int k = 0; k < CLASSES; k++) {
            double want = ref[i * CLASSES + k];
            assert_true(fabs((double)z[k] - want) <= 2e-5 * (1 + top)); /* PyTorch's own float stays within 3e-6 */
            assert_true(fabs(z64[k] - want) <= 1e-11 * (1 + top));      /* double rounding through four blocks */
        }
    }
    free(ref);
}

/* One image through one attack in exhaustive mode; the logits of the returned point. */
static void shoot(fixture *f, const vt_attack *a, vt_norm norm, double eps, int i, float *x_adv, float *z) {
    static float lo[PIXELS], hi[PIXELS], work[16 * PIXELS];
    vt_ball b;
    vt_ball_init(&b, norm, eps, f->x[i], PIXELS, lo, hi);
    vt_task t = {.x = f->x[i],
                 .n = PIXELS,
                 .shape = {3, 32, 32},
                 .classes = CLASSES,
                 .label = f->label[i],
                 .ball = &b,
                 .x_adv = x_adv,
                 .work = work,
                 .rng = {.image = (uint32_t)i, .purpose = vt_rng_purpose(a->name)}};
    const vt_attack_stage *s = &a->stages[0];
    assert_true(vt_attack_work_len(s, &t) <= sizeof work / sizeof *work);
    f->o.mode = VT_ORACLE_EXHAUSTIVE;
    vt_oracle_reset(&f->o, &b, f->label[i], true);
    assert_int_equal(s->def->run(&f->o, s->params, &t), VT_OK);
    assert_true(vt_ball_contains(&b, x_adv));
    ask_logits(&f->c, x_adv, z, false);
}

typedef struct shot {
    const char *name, *spec;
    vt_norm norm;
    double eps;
    vt_loss_kind loss;
    bool grid; /* stored as levels k/255 */
} shot;

static void check_shot(fixture *f, const shot *s) {
    size_t n;
    double *point = values(f, s->name, "x_adv", &n), *flag = values(f, s->name, "success", &n);
    double *margin = values(f, s->name, "margin_f64", &n), *steps = values(f, s->name, "loss_steps_f64", &n);
    static float x_adv[PIXELS];
    float z[CLASSES];
    vt_attack a;
    vt_err e = {0};
    if (vt_attack_parse(&a, s->spec, s->norm, &e) != VT_OK) fail_msg("%s", e.text);
    int differing = 0;
    double ours = 0, theirs = 0;
    for (int i = 0; i < IMAGES; i++) {
        shoot(f, &a, s->norm, s->eps, i, x_adv, z);
        for (int k = 0; k < PIXELS; k++) {
            double want = point[i * PIXELS + k], got = (double)x_adv[k];
            differing += s->grid ? !(fabs(got * 255 - want) <= 1e-3) : !(fabs(got - want) <= 1e-4);
        }
        if (fabs(margin[i]) >= 1e-3) assert_int_equal(vt_argmax_f32(z, CLASSES) != f->label[i], flag[i] != 0);
        float target[CLASSES] = {0};
        target[f->label[i]] = 1;
        vt_loss loss = {.kind = s->loss, .target = target};
        ours += (double)vt_loss_eval_f32(NULL, &loss, z, CLASSES);
        theirs += steps[n - IMAGES + (size_t)i];
    }
    /* sign steps of 20 iterations may part after float rounding: 1 % of the elements; one step may not */
    assert_true(differing <= (strcmp(s->spec, "fgsm") ? IMAGES * PIXELS / 100 : 1));
    assert_true(fabs(ours - theirs) <= 1e-3 * fabs(theirs));
    vt_attack_free(&a);
    free(point), free(flag), free(margin), free(steps);
}

static void test_shots(void **state) {
    static const shot shots[] = {
        {"fgsm_8", "fgsm", VT_LINF, 8.0 / 255, VT_LOSS_CE, true},
        {"pgd20_8", "pgd:steps=20,random_start=0", VT_LINF, 8.0 / 255, VT_LOSS_CE, true},
        {"pgd20_4", "pgd:steps=20,random_start=0", VT_LINF, 4.0 / 255, VT_LOSS_CE, true},
        {"cw20_8", "cw20:random_start=0", VT_LINF, 8.0 / 255, VT_LOSS_MARGIN, true},
        {"l2pgd20_0.5", "pgd:steps=20,alpha=0.1,random_start=0", VT_L2, 0.5, VT_LOSS_CE, false},
    };
    for (size_t k = 0; k < sizeof shots / sizeof *shots; k++) check_shot(*state, &shots[k]);
}

/* An image's points do not depend on what was attacked before it. */
static void test_order(void **state) {
    fixture *f = *state;
    static float first[IMAGES][PIXELS], again[PIXELS];
    float z[CLASSES];
    vt_attack a;
    assert_int_equal(vt_attack_parse(&a, "apgd-ce:steps=10", VT_LINF, NULL), VT_OK);
    for (int i = 0; i < IMAGES; i++) shoot(f, &a, VT_LINF, 4.0 / 255, i, first[i], z);
    for (int i = IMAGES - 1; i >= 0; i--) {
        shoot(f, &a, VT_LINF, 4.0 / 255, i, again, z);
        assert_memory_equal(first[i], again, sizeof again);
    }
    vt_attack_free(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_clean_logits), cmocka_unit_test(test_shots),
                                       cmocka_unit_test(test_order)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
