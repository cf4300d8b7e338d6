/* SPDX-License-Identifier: MIT */
/* Training of a universal patch: its draws written anew, the gradient of the expected loss by central differences of
 * double forwards, steps, threads, and what it counts. */
#include "ask.h"
#include "scratch.h"
#include "toy.h"

#include "eval/universal.h"
#include "linalg/gemm.h"
#include "tools/draw.h"

enum { SIDE = 32, SIZE = 6, IMAGES = 12, DRAWS = 5, VALUES = 3 * SIZE * SIZE, PIXELS = 3 * SIDE * SIDE };

static vt_subject subject;
static int32_t images[IMAGES];
static vt_eval_options options;

static int open_subject(void **state) {
    if (make_tmp(state)) return -1;
    vt_blas_single_thread();
    vt_config c = toy_config("dot", VT_POOL_TOKEN, false, true);
    c.image = SIDE, c.patch = 8, c.classes = 10;
    subject.model = toy_model(&c, 5);
    for (int i = 0; i < IMAGES; i++) images[i] = 3 + i;
    options = (vt_eval_options){.subject = &subject, .images = images, .n_images = IMAGES, .seed = 7, .threads = 1};
    options.patch = (vt_patch){.size = SIZE, .count = 2, .grid = 1}, options.eps = 1, options.eps_text = "1";
    assert_int_equal(vt_draw_write(at("d"), 10, IMAGES + 8, 1, NULL), VT_OK);
    return vt_dataset_open(&subject.data, at("d"), VT_SPLIT_TEST, NULL) == VT_OK ? 0 : -1;
}

static int close_subject(void **state) {
    vt_subject_close(&subject);
    return remove_tmp(state);
}

static vt_universal opened(vt_eval_options *v, int target) {
    vt_universal u = {.v = v, .steps = 3, .draws = DRAWS, .rate = 0.1, .target = target};
    vt_err e = {0};
    if (vt_universal_open(&u, &e) != VT_OK) fail_msg("%s", e.text);
    return u;
}

/* ---- the expected loss, in double ---- */

/* Draw `item` of a step: the image, and rows and columns of its squares. */
static int32_t drawn(const vt_eval_options *v, int step, int item, int y[2], int x[2]) {
    vt_rng key = {.seed = v->seed, .purpose = vt_rng_purpose("universal image"), .step = (uint32_t)step};
    const int32_t image = images[vt_rng_below(&key, (uint64_t)item, IMAGES)];
    const uint32_t across = SIDE - SIZE + 1;
    key.purpose = vt_rng_purpose("universal place"), key.image = (uint32_t)image, key.run = (uint32_t)item;
    for (int k = 0; k < v->patch.count; k++) {
        const uint32_t at = vt_rng_below(&key, (uint64_t)k, across * across);
        y[k] = (int)(at / across), x[k] = (int)(at % across);
    }
    return image;
}

/* The mean over the draws of the largest other logit minus the label's; of the target's minus the largest other. */
static double expected_loss(const vt_eval_options *v, const vt_classifier *c, const float *picture, int step,
                            int target) {
    static float px[PIXELS];
    double sum = 0;
    for (int item = 0; item < DRAWS; item++) {
        int y[2], x[2], label;
        double z[10], other = -INFINITY;
        assert_int_equal(vt_subject_image(&subject, drawn(v, step, item, y, x), px, &label, NULL), VT_OK);
        for (int k = 0; k < v->patch.count; k++)
            for (int i = 0; i < VALUES; i++)
                px[(i / (SIZE * SIZE) * SIDE + y[k] + i / SIZE % SIZE) * SIDE + x[k] + i % SIZE] = picture[i];
        ask_logits64(c, px, z);
        const int of = target < 0 ? label : target;
        for (int k = 0; k < 10; k++) other = k == of ? other : fmax(other, z[k]);
        sum += (target < 0 ? 1 : -1) * (other - z[of]) / DRAWS;
    }
    return sum;
}

static void check_gradient(int target, int count) {
    vt_eval_options v = options;
    vt_classifier c;
    double most = 0;
    v.patch.count = count;
    vt_universal u = opened(&v, target);
    assert_int_equal(vt_classifier_open(&c, subject.model, NULL), VT_OK);
    for (u.step = 0; u.step < 3; u.step += 2) {
        assert_int_equal(vt_universal_gradient(&u, NULL), VT_OK);
        t_le(fabs(u.loss - expected_loss(&v, &c, u.picture, u.step, target)), 1e-5, "loss"); /* float32 logits */
        for (int i = 0; i < VALUES; i++) most = fmax(most, fabs((double)u.gradient[i]));
        assert_true(most > 1e-4);
        for (int i = u.step; i < VALUES; i += 11) {
            const float at = u.picture[i], h = 0x1p-9f;
            u.picture[i] = at + h;
            const double above = expected_loss(&v, &c, u.picture, u.step, target), high = (double)u.picture[i];
            u.picture[i] = at - h;
            const double below = expected_loss(&v, &c, u.picture, u.step, target), low = (double)u.picture[i];
            u.picture[i] = at;
            /* h^2 times a third derivative of the gradient's size; float32 */
            t_le(fabs((double)u.gradient[i] - (above - below) / (high - low)), 2e-4 * most, "value %d", i);
        }
    }
    vt_classifier_close(&c);
    vt_universal_close(&u);
}

static void test_gradient(void **state) {
    (void)state;
    check_gradient(-1, 1), check_gradient(-1, 2), check_gradient(4, 2);
}

/* Overlapping squares show the last one: what it covers of an earlier one has no gradient. */
static void test_overlap(void **state) {
    (void)state;
    const vt_shape s = {2, 5, 6};
    const vt_squares q = {.size = 3, .n = 3, .at = {{0, 0}, {2, 3}, {1, 1}}};
    float picture[18], x[60], dx[60], g[18], got = 0, want = 0;
    for (int i = 0; i < 18; i++) picture[i] = (float)(i * i % 7) + 1;
    for (int i = 0; i < 60; i++) x[i] = 0, dx[i] = (float)(i * 5 % 11);
    vt_patch_paste(x, &q, s, picture);
    for (int i = 0; i < 60; i++) {
        const int y = i / 6 % 5, col = i % 6;
        float seen = 0;
        for (int k = 0; k < 3; k++) {
            const int r = y - q.at[k].y, w = col - q.at[k].x;
            if (r >= 0 && r < 3 && w >= 0 && w < 3) seen = picture[i / 30 * 9 + r * 3 + w];
        }
        assert_true(x[i] == seen);
        want += seen * dx[i]; /* the image is linear in the picture: <A p, dx> = <p, A' dx>; whole numbers, exact */
    }
    vt_patch_paste_backward(g, dx, &q, s);
    for (int i = 0; i < 18; i++) got += picture[i] * g[i];
    assert_true(got == want);
}

/* A step moves every value by the rate along the gradient's sign; the noise is k/255; threads change nothing. */
static void test_training(void **state) {
    (void)state;
    vt_eval_options v = options, two = options;
    float first[VALUES], start[VALUES];
    two.threads = 3;
    vt_universal u = opened(&v, -1), w = opened(&two, -1);
    u.steps = 1;
    memcpy(start, u.picture, sizeof start);
    for (int i = 0; i < VALUES; i++) assert_true(start[i] == rintf(255 * start[i]) / 255);
    assert_int_equal(vt_universal_gradient(&u, NULL), VT_OK);
    memcpy(first, u.gradient, sizeof first);
    assert_int_equal(vt_universal_train(&u, NULL), VT_OK);
    for (int i = 0; i < VALUES; i++) {
        const double to = fmin(fmax((double)start[i] + copysign(0.1, (double)first[i]), 0), 1);
        t_le(fabs((double)u.picture[i] - to), 0.5 / 255 + 1e-6, "value %d", i); /* its rounding */
    }
    u.steps = 3;
    memcpy(u.picture, start, sizeof start);
    assert_int_equal(vt_universal_train(&u, NULL), VT_OK);
    assert_int_equal(vt_universal_train(&w, NULL), VT_OK);
    assert_memory_equal(u.picture, w.picture, sizeof start);
    assert_true(u.loss == w.loss);
    vt_universal_close(&u), vt_universal_close(&w);
}

/* The head times 2^20 is another network with the same classes: the picture keeps its bits. */
static void test_scale(void **state) {
    (void)state;
    vt_eval_options v = options;
    float first[VALUES];
    for (int scaled = 0; scaled < 2; scaled++) {
        const vt_param_list *params = &subject.model->params;
        for (int i = 0; scaled && i < params->count; i++)
            for (size_t k = 0; !strncmp(params->items[i].name, "head.", 5) && k < params->items[i].numel; k++)
                subject.model->w[params->items[i].offset + k] *= 0x1p20f;
        vt_model_refresh(subject.model);
        vt_universal u = opened(&v, -1);
        assert_int_equal(vt_universal_train(&u, NULL), VT_OK);
        if (scaled) assert_memory_equal(u.picture, first, sizeof first);
        memcpy(first, u.picture, sizeof first);
        vt_universal_close(&u);
    }
}

/* What fell: counted by forwards of the images with the picture pasted where the attack's key says. */
static void count_here(const vt_universal *u, const vt_classifier *c, int32_t *asked, size_t *n, int64_t count[2]) {
    static float px[PIXELS];
    *n = 0, count[0] = count[1] = 0;
    for (int32_t image = 20; image < 44; image++) {
        int label;
        float z[10];
        assert_int_equal(vt_subject_image(u->v->subject, image, px, &label, NULL), VT_OK);
        if (label == u->target) continue;
        asked[(*n)++] = image;
        ask_logits(c, px, z, false);
        if (vt_argmax_f32(z, 10) != label) continue;
        const vt_rng key = {.seed = 7, .purpose = vt_rng_purpose("patch place"), .image = (uint32_t)image};
        const uint32_t across = SIDE - SIZE + 1, at = vt_rng_below(&key, 0, across * across);
        for (int k = 0; k < VALUES; k++)
            px[(k / (SIZE * SIZE) * SIDE + (int)(at / across) + k / SIZE % SIZE) * SIDE + (int)(at % across) +
               k % SIZE] = u->picture[k];
        ask_logits(c, px, z, false);
        const int now = vt_argmax_f32(z, 10);
        count[0]++, count[1] += u->target < 0 ? now != label : now == u->target;
    }
}

static void test_score(void **state) {
    (void)state;
    vt_subject plain = {0};
    vt_eval_options v = options;
    int64_t right, fell, count[2], fallen[2] = {0};
    assert_int_equal(vt_model_open(&plain.model, "weights/shapes10-plain/model.safetensors", NULL, NULL), VT_OK);
    assert_int_equal(vt_dataset_open(&plain.data, "datasets/shapes10", VT_SPLIT_TEST, NULL), VT_OK);
    v.subject = &plain, v.patch.count = 1;
    for (int target = -1; target < 10; target += 5) {
        vt_classifier c;
        int32_t asked[24];
        size_t n;
        vt_universal u = opened(&v, target);
        assert_int_equal(vt_classifier_open(&c, plain.model, NULL), VT_OK);
        u.steps = 8, u.rate = 0.5;
        assert_int_equal(vt_universal_train(&u, NULL), VT_OK);
        count_here(&u, &c, asked, &n, count);
        assert_int_equal(vt_universal_score(&u, asked, n, &right, &fell, NULL), VT_OK);
        assert_int_equal(right, count[0]);
        assert_int_equal(fell, count[1]);
        assert_true(right > 15);
        fallen[target >= 0] += fell;
        vt_classifier_close(&c);
        vt_universal_close(&u);
    }
    assert_true(fallen[0] > 0 && fallen[1] > 0);
    vt_subject_close(&plain);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gradient), cmocka_unit_test(test_overlap),
                                       cmocka_unit_test(test_training), cmocka_unit_test(test_score),
                                       cmocka_unit_test(test_scale)};
    return cmocka_run_group_tests_name("universal", tests, open_subject, close_subject);
}
