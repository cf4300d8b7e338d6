/* SPDX-License-Identifier: MIT */
/* Attacks on arrays of the caller's: the arrays are a data set, and an evaluation without files runs on it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "api/api.h"
#include "core/hash.h"
#include "core/mem.h"
#include "eval/evaluate.h"
#include "eval/request.h"
#include "eval/verify.h"

/* ---- arrays as a data set ---- */

typedef struct numbered {
    int32_t number; /* of the image */
    int32_t row;    /* in the caller's arrays */
} numbered;

typedef struct arrays {
    size_t n, pixels;
    vt_shape shape;
    const float *x;
    const int32_t *labels;
    numbered *order; /* [n] ascending by number */
} arrays;

static int by_number(const void *a, const void *b) {
    int32_t x = ((const numbered *)a)->number, y = ((const numbered *)b)->number;
    return (x > y) - (x < y);
}

/* The row of image `number`, which is there. */
static size_t row_of(const arrays *a, int32_t number) {
    numbered key = {number, 0};
    const numbered *at = bsearch(&key, a->order, a->n, sizeof key, by_number);
    return (size_t)at->row;
}

static vt_status read_row(const vt_dataset *d, int64_t i, vt_image *im, int *label, vt_err *e) {
    const arrays *a = d->state;
    size_t row = row_of(a, (int32_t)i);
    im->f = malloc(a->pixels * sizeof *im->f);
    if (!im->f) return vt_fail(e, VT_E_MEMORY, "no memory for image %lld", (long long)i);
    memcpy(im->f, a->x + row * a->pixels, a->pixels * sizeof *im->f);
    im->shape = a->shape;
    *label = a->labels[row];
    return VT_OK;
}

static const vt_dataset_def in_memory = {.name = "arrays", .summary = "the caller's arrays", .read = read_row};

/* Are these images and labels of the model's? */
static vt_status check_arrays(const arrays *a, int classes, vt_err *e) {
    for (size_t i = 0; i < a->n; i++) {
        if (a->labels[i] < 0 || a->labels[i] >= classes)
            return vt_fail(e, VT_E_RANGE, "labels[%zu] is %d, must be 0 to %d", i, a->labels[i], classes - 1);
        const float *x = a->x + i * a->pixels;
        for (size_t k = 0; k < a->pixels; k++)
            if (!(x[k] >= 0 && x[k] <= 1))
                return vt_fail(e, VT_E_RANGE, "x[%zu]: value %zu is %.9g, must be in [0,1]", i, k, (double)x[k]);
    }
    return VT_OK;
}

static vt_status number_rows(arrays *a, const int32_t *images, vt_err *e) {
    a->order = calloc(a->n, sizeof *a->order);
    if (!a->order) return vt_fail(e, VT_E_MEMORY, "no memory for %zu images", a->n);
    for (size_t i = 0; i < a->n; i++) {
        a->order[i] = (numbered){images ? images[i] : (int32_t)i, (int32_t)i};
        if (a->order[i].number < 0 || a->order[i].number == INT32_MAX)
            return vt_fail(e, VT_E_RANGE, "images[%zu] is %d, must be 0 to %d", i, images[i], INT32_MAX - 1);
    }
    qsort(a->order, a->n, sizeof *a->order, by_number);
    for (size_t i = 1; i < a->n; i++)
        if (a->order[i].number == a->order[i - 1].number)
            return vt_fail(e, VT_E_USAGE, "images holds %d twice", a->order[i].number);
    return VT_OK;
}

/* ---- what is found ---- */

_Static_assert((int)VITRINE_CORRECT == VT_RECORD_CORRECT && (int)VITRINE_WRONG == VT_RECORD_WRONG &&
                   (int)VITRINE_ROBUST == VT_RECORD_ROBUST && (int)VITRINE_BROKEN == VT_RECORD_BROKEN &&
                   (int)VITRINE_INVALID == VT_RECORD_INVALID && (int)VITRINE_NOT_FINITE == VT_RECORD_NOT_FINITE,
               "public outcomes are ours");

void vt_api_verdict(vitrine_verdict *v, const vt_record *r) {
    int64_t forwards = r->entry ? v->forwards : 0, gradients = r->entry ? v->gradients : 0;
    int32_t clean = r->entry ? v->clean : r->pred;
    *v = (vitrine_verdict){.image = r->image,
                           .label = r->label,
                           .clean = clean,
                           .outcome = r->status,
                           .pred = r->pred,
                           .pred64 = r->pred64,
                           .borderline = r->borderline,
                           .stage = r->stage,
                           .margin = r->margin,
                           .margin64 = r->margin64,
                           .linf = r->linf,
                           .l2 = r->l2,
                           .l1 = r->l1,
                           .l0 = r->l0,
                           .forwards = forwards + (r->entry ? r->forwards : 0),
                           .gradients = gradients + r->gradients};
}

typedef struct found {
    const arrays *a;
    float *x_adv;
    vitrine_verdict *verdicts;
} found;

/* Stages of an image come one after another. */
static void told(void *ctx, const vt_record *r, const float *x_adv) {
    const found *f = ctx;
    size_t row = row_of(f->a, r->image);
    vt_api_verdict(&f->verdicts[row], r);
    if (x_adv && f->x_adv) memcpy(f->x_adv + row * f->a->pixels, x_adv, f->a->pixels * sizeof(float));
}

/* ---- an attack ---- */

static vt_status make_ready(vt_eval *v, vt_attack *attack, const vitrine_attack_plan *p, vt_err *e) {
    char eps[40];
    VT_TRY(vt_api_norm(p->norm, &v->norm, e));
    VT_TRY(vt_request_eps(vt_api_real(eps, p->eps), v->norm, &v->eps, e));
    if (p->seed > INT64_MAX) return vt_fail(e, VT_E_USAGE, "seed is above %lld", (long long)INT64_MAX);
    if (p->batch < 0 || p->batch > VT_LANE_MOST)
        return vt_fail(e, VT_E_USAGE, "batch is %d, must be 1 to %d, or 0", p->batch, VT_LANE_MOST);
    v->seed = p->seed, v->exhaustive = p->exhaustive != 0, v->interrupt = p->interrupt;
    VT_TRY(vt_attack_parse(attack, p->attack, v->norm, e));
    v->attacks = attack, v->n_attacks = 1;
    return VT_OK;
}

static vt_status set_pace(vt_eval *v, const vitrine_model *m, const vitrine_attack_plan *p, vt_err *e) {
    enum { MOST = 64 };
    bool foreign = m->subject.remote || m->subject.own;
    int takes = m->subject.remote ? vt_remote_usual(m->subject.remote) : vt_subject_takes(&m->subject);
    VT_TRY(vt_api_threads(p->threads, &v->threads, e));
    if (foreign && (m->subject.remote || !m->own.c.parallel)) v->threads = 1;
    v->batch = p->batch ? p->batch : foreign ? (takes < MOST ? takes : MOST) : 1;
    return VT_OK;
}

static vt_status run_on(vt_eval *v, const found *f, vt_err *e) {
    vt_ledger *l = NULL;
    char eps[40];
    v->eps_text = vt_api_real(eps, v->eps);
    VT_TRY(vt_eval_check(v, e));
    json_t *header = vt_eval_header(v);
    if (!header) return vt_fail(e, VT_E_MEMORY, "no memory for the run's header");
    vt_status s = vt_ledger_memory(&l, header, f->a->pixels, e);
    json_decref(header);
    if (s != VT_OK) return s;
    l->told = told, l->told_ctx = (void *)(uintptr_t)f;
    s = vt_eval_run(v, l, e);
    vt_ledger_close(l);
    return s;
}

static vt_status attack_arrays(const vitrine_model *m, const vitrine_attack_plan *p, arrays *a, const found *f,
                               vt_err *e) {
    vt_attack attack = {0};
    vt_eval v = {0};
    vt_dataset d = {.def = &in_memory,
                    .path = (char *)(uintptr_t) "the caller's arrays",
                    .count = INT32_MAX,
                    .classes = vitrine_classes(m),
                    .floats = true,
                    .state = a};
    vt_subject s = m->subject;
    s.data = &d, v.subject = &s;
    VT_TRY(make_ready(&v, &attack, p, e));
    int32_t *images = NULL;
    vt_status st = set_pace(&v, m, p, e);
    if (st == VT_OK) st = check_arrays(a, d.classes, e);
    if (st == VT_OK) st = number_rows(a, p->images, e);
    if (st == VT_OK && !(images = calloc(a->n, sizeof *images))) st = vt_fail(e, VT_E_MEMORY, "no memory");
    for (size_t i = 0; st == VT_OK && i < a->n; i++) images[i] = a->order[i].number;
    v.images = images, v.n_images = a->n;
    if (f->x_adv && f->x_adv != a->x && st == VT_OK) memcpy(f->x_adv, a->x, a->n * a->pixels * sizeof(float));
    vt_sha_hex(a->labels, a->n * sizeof *a->labels, d.hash);
    if (st == VT_OK) st = run_on(&v, f, e);
    free(images);
    vt_attack_free(&attack);
    return st;
}

vitrine_status vitrine_attack(const vitrine_model *m, const vitrine_attack_plan *plan, size_t n, const float *x,
                              const int32_t *labels, float *x_adv, vitrine_verdict *verdicts, vitrine_err *e) {
    VT_API_NEEDS(m);
    VT_API_NEEDS(plan);
    VT_API_NEEDS(x);
    VT_API_NEEDS(labels);
    VT_API_NEEDS(verdicts);
    if (plan->size != sizeof *plan)
        return vt_api_usage(e, "%s: the plan's size is %zu, must be sizeof(vitrine_attack_plan), %zu", __func__,
                            plan->size, sizeof *plan);
    VT_API_NEEDS(plan->attack);
    VT_API_NEEDS(plan->norm);
    if (!n || n >= INT32_MAX)
        return vt_api_usage(e, "%s: n is %zu, must be 1 to %d images", __func__, n, INT32_MAX - 1);
    if (x_adv == x) return vt_api_usage(e, "%s: x_adv is x: the images are asked for again", __func__);
    vt_err why = {0};
    arrays a = {.n = n, .pixels = vitrine_pixels(m), .shape = vt_subject_shape(&m->subject), .x = x, .labels = labels};
    found f = {&a, x_adv, verdicts};
    vt_status s = attack_arrays(m, plan, &a, &f, &why);
    free(a.order);
    return vt_api_end(e, s, &why);
}

/* ---- a verdict alone ---- */

static vt_status judge_all(const vitrine_model *m, const vt_terms *t, const arrays *a, const float *x_adv,
                           vitrine_verdict *out, vt_err *e) {
    vt_classifier c = {0};
    size_t classes = (size_t)vitrine_classes(m);
    vt_subject with = m->subject;
    vt_dataset none = {.def = &in_memory};
    with.data = &none;
    VT_TRY(vt_subject_classifier(&c, &with, e));
    float *z = calloc(classes, sizeof *z);
    double *z64 = calloc(classes * (size_t)vt_classifier_opinions(&c), sizeof *z64);
    vt_status s = z && z64 ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for a verdict");
    for (size_t i = 0; s == VT_OK && i < a->n; i++) {
        vt_verdict v;
        vt_rng key = vt_verdict_key(0, (int32_t)i, 1, 0);
        s = vt_verify_by(&v, t, &c, &key, a->x + i * a->pixels, x_adv + i * a->pixels, a->shape, a->labels[i], z, z64,
                         e);
        vt_record r = {.image = (int32_t)i,
                       .entry = 1,
                       .label = a->labels[i],
                       .pred = v.pred,
                       .pred64 = v.pred64,
                       .status = (uint8_t)vt_verdict_status(&v),
                       .borderline = v.borderline,
                       .margin = v.margin,
                       .margin64 = v.margin64,
                       .linf = v.linf,
                       .l2 = v.l2,
                       .l1 = v.l1,
                       .l0 = v.l0};
        if (s != VT_OK) break;
        out[i] = (vitrine_verdict){.clean = -1};
        vt_api_verdict(&out[i], &r);
    }
    free(z), free(z64);
    vt_classifier_close(&c);
    return s;
}

vitrine_status vitrine_judge(const vitrine_model *m, const char *norm, double eps, size_t n, const float *x,
                             const float *x_adv, const int32_t *labels, vitrine_verdict *verdicts, vitrine_err *e) {
    VT_API_NEEDS(m);
    VT_API_NEEDS(norm);
    VT_API_NEEDS(x);
    VT_API_NEEDS(x_adv);
    VT_API_NEEDS(labels);
    VT_API_NEEDS(verdicts);
    if (!n || n >= INT32_MAX)
        return vt_api_usage(e, "%s: n is %zu, must be 1 to %d images", __func__, n, INT32_MAX - 1);
    vt_err why = {0};
    char text[40];
    arrays a = {.n = n, .pixels = vitrine_pixels(m), .shape = vt_subject_shape(&m->subject), .x = x, .labels = labels};
    vt_terms t = {.scoring = VT_SCORE_BALL};
    vt_status s = vt_api_norm(norm, &t.norm, &why);
    if (s == VT_OK) s = vt_request_eps(vt_api_real(text, eps), t.norm, &t.eps, &why);
    if (s == VT_OK) s = check_arrays(&a, vitrine_classes(m), &why);
    if (s == VT_OK) s = judge_all(m, &t, &a, x_adv, verdicts, &why);
    return vt_api_end(e, s, &why);
}
