/* SPDX-License-Identifier: MIT */
/* Whole runs of training on drawn images and a tiny ViT. */
#ifndef TRAINING_BENCH_H
#define TRAINING_BENCH_H

#include "recipe_fixture.h"
#include "scratch.h"

#include "base/files.h"
#include "tools/draw.h"
#include "train/train.h"

static inline const char *in(const char *name) { return at("%s", name); }

static inline int setup(void **state) {
    vt_err e = {0};
    return make_tmp(state) || vt_draw_write(in("data"), 40, 20, 5, &e) != VT_OK;
}

typedef struct spoken {
    char text[4000];
} spoken;

static inline void listen(void *ctx, const char *text, bool live) {
    (void)live;
    spoken *s = ctx;
    size_t n = strlen(s->text);
    snprintf(s->text + n, sizeof s->text - n, "%s\n", text);
}

typedef struct options {
    int threads;
    int64_t max_steps;
    bool resume;
    spoken *heard;
    const vt_model *init;
} options;

static inline vt_status train(const char *text, const char *set, const char *out, options o, vt_err *e) {
    vt_recipe *r = of_set(text, set);
    vt_dataset *data, *test;
    vt_model *m;
    assert_int_equal(vt_dataset_open(&data, in("data"), VT_SPLIT_TRAIN, e), VT_OK);
    assert_int_equal(vt_dataset_open(&test, in("data"), VT_SPLIT_TEST, e), VT_OK);
    assert_int_equal(vt_train_model(&m, r, data, o.init, e), VT_OK);
    vt_train t = {.recipe = r,
                  .model = m,
                  .data = data,
                  .watch_data = r->probe.images ? test : NULL,
                  .out = out,
                  .threads = o.threads ? o.threads : 1,
                  .max_steps = o.max_steps,
                  .resume = o.resume,
                  .progress = {.show = o.heard ? listen : NULL, .ctx = o.heard}};
    vt_status s = vt_train_run(&t, e);
    vt_model_close(m);
    vt_dataset_close(data), vt_dataset_close(test);
    vt_recipe_free(r);
    return s;
}

static inline void check_train(const char *text, const char *out, options o) {
    vt_err e = {0};
    if (train(text, NULL, out, o, &e) != VT_OK) fail_msg("%s", e.text);
}

static inline void same_file(const char *a, const char *b, const char *name) {
    char p[300], q[300], *x, *y;
    size_t n, k;
    vt_err e = {0};
    snprintf(p, sizeof p, "%s/%s", a, name), snprintf(q, sizeof q, "%s/%s", b, name);
    if (vt_file_read(p, (size_t)1 << 28, &x, &n, &e) != VT_OK || vt_file_read(q, (size_t)1 << 28, &y, &k, &e) != VT_OK)
        fail_msg("%s", e.text);
    if (n != k || memcmp(x, y, n)) fail_msg("%s and %s differ", p, q);
    free(x), free(y);
}

static inline void same_run(const char *a, const char *b) {
    same_file(a, b, "model.safetensors");
    same_file(a, b, "state.safetensors");
}

static inline int lines(const char *dir, const char *with) {
    char path[300], *text, *at;
    size_t n;
    int count = 0;
    vt_err e = {0};
    snprintf(path, sizeof path, "%s/log.jsonl", dir);
    assert_int_equal(vt_file_read(path, (size_t)1 << 28, &text, &n, &e), VT_OK);
    for (at = text; (at = strstr(at, with)); at++) count++;
    free(text);
    return count;
}

#endif
