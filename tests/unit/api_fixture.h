/* SPDX-License-Identifier: MIT */
/* The library as a caller sees it: a dozen images, a model of theirs, and how a refused call looks. */
#ifndef API_FIXTURE_H
#define API_FIXTURE_H

#include "t.h"
#include "scratch.h"
#include "vitrine.h"

enum { N = 12, SIDE = 32, PIXELS = 3 * SIDE * SIDE, CLASSES = 10, RECORD = 1 + PIXELS };
static const char weights[] = "weights/shapes10-vit";
static float x[N * PIXELS], x_adv[N * PIXELS];
static int32_t labels[N];
static vitrine_model *model;

static inline int begin(void **state) {
    vitrine_err e;
    unsigned char record[RECORD];
    FILE *f = fopen("datasets/shapes10/test_batch.bin", "rb");
    if (!f || make_tmp(state)) return 1;
    for (int i = 0; i < N; i++) {
        if (fread(record, RECORD, 1, f) != 1) return 1;
        labels[i] = record[0];
        for (int k = 0; k < PIXELS; k++) x[i * PIXELS + k] = (float)record[1 + k] / 255;
    }
    fclose(f);
    return vitrine_open(&model, weights, NULL, &e) != VITRINE_OK;
}

static inline int end(void **state) {
    vitrine_close(model);
    return remove_tmp(state);
}

/* The call failed as it should: a status, one sentence with this text. */
static inline void refused(vitrine_status got, vitrine_status want, vitrine_err *e, const char *text) {
    if (got != want || e->code != want) fail_msg("status %d (%d) instead of %d: %s", got, e->code, want, e->text);
    if (!strstr(e->text, text)) fail_msg("'%s' does not mention '%s'", e->text, text);
    assert_null(strchr(e->text, '\n'));
    memset(e, 0, sizeof *e);
}

static inline void same_verdict(const vitrine_verdict *a, const vitrine_verdict *b) {
    assert_int_equal(a->image, b->image);
    assert_int_equal(a->outcome, b->outcome);
    assert_int_equal(a->pred, b->pred);
    assert_int_equal(a->clean, b->clean);
    assert_int_equal(a->stage, b->stage);
    assert_int_equal(a->borderline, b->borderline);
    assert_true(a->margin == b->margin || (isnan(a->margin) && isnan(b->margin)));
    assert_true(a->linf == b->linf && a->l2 == b->l2);
}

#endif
