/* SPDX-License-Identifier: MIT */
/* What the programs in this folder share: the golden files, the trained checkpoints and the test images of
 * the shared folder (argv[1]), and one attack on one image outside any evaluation. Every program is built
 * like a unit test and run with the path of that folder. cmocka's assertions jump, so they stand outside of
 * the parallel loops. */
#ifndef VT_TESTS_GOLDEN_H
#define VT_TESTS_GOLDEN_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "attacks/attack.h"
#include "linalg/gemm.h"
#include "data/dataset.h"
#include "tensors/tensors.h"
#include "inference/classifier.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define UNUSED __attribute__((unused))

enum { PIXELS = 3072, CLASSES = 10 };

static const char *shared_folder;

/* shared/`format`; one of four buffers in turn. */
__attribute__((format(printf, 1, 2))) static const char *in_shared(const char *format, ...) {
    static char ring[4][600];
    static int k;
    char *p = ring[k++ % 4];
    int n = snprintf(p, 600, "%s/", shared_folder);
    va_list ap;
    va_start(ap, format);
    vsnprintf(p + n, 600 - (size_t)n, format, ap);
    va_end(ap);
    return p;
}

static void *need(size_t count, size_t item) {
    void *p = calloc(count, item);
    assert_non_null(p);
    return p;
}

static UNUSED vt_tensors *golden(const char *name) {
    vt_tensors *st;
    vt_err e = {0};
    if (vt_tensors_open(&st, in_shared("golden/%s.safetensors", name), &e) != VT_OK) fail_msg("%s", e.text);
    return st;
}

static const vt_tensor *tensor(const vt_tensors *st, const char *name, size_t n) {
    const vt_tensor *t = vt_tensors_find(st, name);
    if (!t) fail_msg("%s: no tensor %s", vt_tensors_path(st), name);
    if (n && t->numel != n) fail_msg("%s: %s has %zu values, not %zu", vt_tensors_path(st), name, t->numel, n);
    return t;
}

/* The values of a tensor, to be freed; n = 0: as many as there are. */
static UNUSED double *doubles(const vt_tensors *st, const char *name, size_t n) {
    const vt_tensor *t = tensor(st, name, n);
    double *v = need(t->numel, sizeof *v);
    assert_int_equal(vt_tensor_f64(st, t, v, t->numel, NULL), VT_OK);
    return v;
}

static UNUSED int64_t *integers(const vt_tensors *st, const char *name, size_t n) {
    const vt_tensor *t = tensor(st, name, n);
    int64_t *v = need(t->numel, sizeof *v);
    assert_int_equal(vt_tensor_i64(st, t, v, t->numel, NULL), VT_OK);
    return v;
}

static UNUSED vt_model *checkpoint(const char *name) {
    vt_model *m;
    vt_err e = {0};
    if (vt_model_open(&m, in_shared("weights/%s/model.safetensors", name), NULL, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(m->config.image, 32);
    assert_int_equal(m->config.classes, CLASSES);
    return m;
}

typedef struct images {
    int n;
    float *x; /* [n, PIXELS] in [0,1]: u8 / 255 in float */
    int *label;
} images;

/* CIFAR-10 test images lo .. hi-1 in official order. */
static UNUSED images cifar_test(int lo, int hi) {
    images im = {hi - lo, need((size_t)(hi - lo) * PIXELS, sizeof(float)), need((size_t)(hi - lo), sizeof(int))};
    vt_dataset *d;
    vt_err e = {0};
    if (vt_dataset_open(&d, in_shared("datasets/cifar-10-batches-bin"), VT_SPLIT_TEST, &e) != VT_OK)
        fail_msg("%s", e.text);
    for (int i = lo; i < hi; i++) {
        vt_image one;
        if (vt_dataset_read(d, i, &one, &im.label[i - lo], &e) != VT_OK) fail_msg("%s", e.text);
        for (int k = 0; k < PIXELS; k++) im.x[(size_t)(i - lo) * PIXELS + (size_t)k] = (float)one.rgb[k] / 255.0f;
        vt_image_free(&one);
    }
    vt_dataset_close(d);
    return im;
}

static UNUSED void images_free(images *im) {
    free(im->x);
    free(im->label);
}

/* One thread's tools for attacks: model, oracle, ball, task. */
typedef struct rig {
    vt_classifier c;
    vt_oracle o;
    vt_ball ball;
    vt_task t;
    float *lo, *hi, *x_adv;
} rig;

enum { RIG_WORK = 12 * PIXELS + 8 * CLASSES + 1000 };

static UNUSED void rig_close(rig *g) {
    vt_oracle_close(&g->o);
    vt_classifier_close(&g->c);
    free(g->lo), free(g->hi), free(g->x_adv), free(g->t.work);
}

static UNUSED bool rig_open(rig *g, const vt_model *m) {
    memset(g, 0, sizeof *g);
    if (vt_classifier_open(&g->c, m, NULL) != VT_OK || vt_oracle_open(&g->o, &g->c, NULL) != VT_OK) return false;
    g->lo = calloc(PIXELS, sizeof(float)), g->hi = calloc(PIXELS, sizeof(float));
    g->x_adv = calloc(PIXELS, sizeof(float)), g->t.work = calloc(RIG_WORK, sizeof(float));
    g->o.mode = VT_ORACLE_EXHAUSTIVE; /* as the references: never ended early because a point is good enough */
    return g->lo && g->hi && g->x_adv && g->t.work;
}

/* The next image. */
static UNUSED void rig_aim(rig *g, vt_norm norm, double eps, const float *x, int label, int index, const char *attack) {
    float *work = g->t.work;
    vt_ball_init(&g->ball, norm, eps, x, PIXELS, g->lo, g->hi);
    g->t = (vt_task){.x = x, .n = PIXELS, .shape = {3, 32, 32}, .classes = CLASSES, .label = label};
    g->t.ball = &g->ball, g->t.x_adv = g->x_adv, g->t.work = work;
    g->t.rng = (vt_rng){.seed = 0, .purpose = vt_rng_purpose(attack), .image = (uint32_t)index};
    vt_oracle_reset(&g->o, &g->ball, label, true);
}

/* A parsed stage on the image aimed at; black-box attacks get no gradients. */
static UNUSED vt_status rig_run(rig *g, const vt_attack_stage *s) {
    g->o.gradients_allowed = s->def->white_box;
    if (vt_attack_work_len(s, &g->t) > RIG_WORK) return VT_E_MEMORY;
    return s->def->run(&g->o, s->params, &g->t);
}

static int golden_main(int argc, char **argv, const char *name, const struct CMUnitTest *tests, size_t n) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s SHARED_FOLDER\n", argv[0]);
        return 2;
    }
    shared_folder = argv[1];
    setvbuf(stdout, NULL, _IOLBF, 0);
    vt_blas_single_thread(); /* the loops here are parallel over images */
    return _cmocka_run_group_tests(name, tests, n, NULL, NULL);
}

#endif
