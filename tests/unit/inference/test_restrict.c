/* SPDX-License-Identifier: MIT */
/* inference/restrict: a classifier restricted to some outputs is the classifier whose head has only these rows. */
#include "ask.h"
#include "toy.h"
#include "run_header.h"

#include "inference/classifier.h"

enum { ALL = 9, SOME = 4 };
static const int head[SOME] = {1, 4, 5, 8};

/* Every loss at a few points: logits in both precisions, value and gradient, relative to the largest entry. */
static void same(const vt_classifier *a, const vt_classifier *b, double tol) {
    size_t n = a->pixels;
    float *x = malloc(n * sizeof *x), *ga = malloc(n * sizeof *ga), *gb = malloc(n * sizeof *gb);
    assert_true(x && ga && gb && b->pixels == n && a->classes == SOME && b->classes == SOME);
    for (uint64_t point = 0; point < 3; point++)
        for (int kind = 0; kind < 3 * VT_LOSS_COUNT;
             kind++) { /* as it is, with a loss of attention, without the logits */
            float za[SOME], zb[SOME], va, vb, target[SOME] = {0.1f, 0, 0.7f, 0.2f};
            double wa[SOME], wb[SOME], largest = 0;
            vt_attn_loss look = {.kind = VT_ATTN_LOSS_LOG, .weight = 0.3, .alone = kind / VT_LOSS_COUNT == 2};
            vt_loss loss = {.kind = (vt_loss_kind)(kind % VT_LOSS_COUNT), .target = target, .other = 3};
            if (kind >= VT_LOSS_COUNT) loss.attention = &look;
            vt_rng r = {.seed = point, .purpose = 0x2E57};
            for (size_t i = 0; i < n; i++) x[i] = vt_rng_uniform(&r, i);
            ask_logits(a, x, za, true), ask_logits(b, x, zb, true);
            ask_logits64(a, x, wa), ask_logits64(b, x, wb);
            for (int k = 0; k < SOME; k++) {
                t_le(fabs((double)za[k] - (double)zb[k]), tol * (1 + fabs((double)zb[k])), "logit %d", k);
                t_le(fabs(wa[k] - wb[k]), tol * (1 + fabs(wb[k])), "logit %d in double", k);
            }
            ask_backward(a, &loss, &va, ga), ask_backward(b, &loss, &vb, gb);
            t_le(fabs((double)va - (double)vb), tol * (1 + fabs((double)vb)), "value of loss %d", kind);
            for (size_t i = 0; i < n; i++) largest = fmax(largest, fabs((double)gb[i]));
            assert_true(largest > 0);
            for (size_t i = 0; i < n; i++)
                t_le(fabs((double)ga[i] - (double)gb[i]), tol * largest, "loss %d, pixel %zu", kind, i);
        }
    free(x), free(ga), free(gb);
}

/* Weights and biases of the head, rows `head` of the one with ALL classes. */
static void copy_rows(vt_model *to, const vt_model *from) {
    for (int i = 0; i < from->params.count; i++) {
        const vt_param *p = &from->params.items[i], *q = vt_model_param(to, p->name);
        assert_non_null(q);
        bool rows = p->shape[0] == ALL && q->shape[0] == SOME;
        size_t row = rows ? p->numel / ALL : p->numel;
        for (int k = 0; k < (rows ? SOME : 1); k++)
            memcpy(to->w + q->offset + (size_t)k * row, from->w + p->offset + (rows ? (size_t)head[k] : 0) * row,
                   row * sizeof *to->w);
    }
    vt_model_refresh(to);
}

static void test_model(void **state) {
    (void)state;
    vt_config c = toy_config("dot", VT_POOL_TOKEN, false, true);
    c.classes = ALL;
    vt_model *all = toy_model(&c, 1);
    c.classes = SOME;
    vt_model *some = toy_model(&c, 2);
    copy_rows(some, all);
    vt_classifier a, b;
    vt_err e = {0};
    assert_int_equal(vt_classifier_open(&a, all, &e), VT_OK);
    assert_int_equal(vt_classifier_open(&b, some, &e), VT_OK);
    assert_int_equal(vt_classifier_restrict(&a, head, SOME, &e), VT_OK);
    same(&a, &b, 1e-5); /* sums of 12 to 27 float32 terms, possibly in another order, through two blocks */
    vt_classifier_close(&a), vt_classifier_close(&b);
    vt_model_close(all), vt_model_close(some);
}

/* What the header says; the sentences are those of the report. */
static void test_describe(void **state) {
    (void)state;
    const vt_dataset_def def = {.name = "x"};
    int present[2] = {0, 497};
    vt_config c = toy_config("dot", VT_POOL_TOKEN, false, true);
    c.classes = 1000;
    vt_model *m = toy_model(&c, 1);
    vt_dataset d = {.def = &def, .classes = 2, .count = 5};
    vt_subject s = {.model = m, .data = &d};
    const vt_eval_options v = {.subject = &s, .eps_text = "0"};
    vt_header *h = t_header_of(&v);
    assert_int_equal(json_object_size(h->data.document), 4); /* nothing to say, nothing but what every run says */
    vt_header_free(h);
    d.head = present, d.restricted = true, d.jpeg = true;
    d.transform = (vt_transform){VT_FIT_SQUASH, 32, VT_FILTER_BICUBIC, 0};
    h = t_header_of(&v);
    assert_string_equal(h->data.preprocess, "squash:32,bicubic");
    assert_true(*h->data.jpeg);
    assert_true(json_is_true(json_object_get(h->data.head, "restricted")));
    assert_int_equal(json_integer_value(json_array_get(json_object_get(h->data.head, "present"), 1)), 497);
    assert_int_equal(json_array_size(h->data.notes), 1);
    assert_non_null(strstr(h->notes[0], "(restricted)"));
    vt_header_free(h);
    vt_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_model), cmocka_unit_test(test_describe)};
    return cmocka_run_group_tests_name("restrict", tests, NULL, NULL);
}
