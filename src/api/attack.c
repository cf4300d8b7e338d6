/* SPDX-License-Identifier: MIT */
/* Attacks on arrays of the caller's: the arrays are a data set, and an evaluation without files runs on it. */
#include <stdlib.h>
#include <string.h>
#include "api/api.h"
#include "base/hash.h"
#include "parallel/threads.h"
#include "eval/evaluate.h"
#include "eval/options.h"
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
    const int32_t *labels, *targets; /* targets: NULL, or classes to reach */
    numbered *order;                 /* [n] ascending by number */
} arrays;

/* Orders rows for qsort and bsearch by image number. */
static int by_number(const void *a, const void *b) {
    int32_t x = ((const numbered *)a)->number, y = ((const numbered *)b)->number;
    return (x > y) - (x < y);
}

/* Returns the row of image `number`, which is there. */
static size_t row_of(const arrays *a, int32_t number) {
    numbered key = {number, 0};
    const numbered *at = bsearch(&key, a->order, a->n, sizeof key, by_number);
    return (size_t)at->row;
}

/* Makes image number i, floats, of the caller's arrays, and its label (vt_dataset_def.read). */
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

/* VT_E_RANGE for labels and targets that are no class of the model, a target that is the label, and pixels outside of
 * [0,1]. */
static vt_status check_arrays(const arrays *a, int classes, vt_err *e) {
    for (size_t i = 0; i < a->n; i++) {
        if (a->labels[i] < 0 || a->labels[i] >= classes)
            return vt_fail(e, VT_E_RANGE, "labels[%zu] is %d, must be 0 to %d", i, a->labels[i], classes - 1);
        if (a->targets && (a->targets[i] < 0 || a->targets[i] >= classes || a->targets[i] == a->labels[i]))
            return vt_fail(e, VT_E_RANGE, "targets[%zu] is %d, must be 0 to %d and not the label, %d", i, a->targets[i],
                           classes - 1, a->labels[i]);
        const float *x = a->x + i * a->pixels;
        for (size_t k = 0; k < a->pixels; k++)
            if (!(x[k] >= 0 && x[k] <= 1))
                return vt_fail(e, VT_E_RANGE, "x[%zu]: value %zu is %.9g, must be in [0,1]", i, k, (double)x[k]);
    }
    return VT_OK;
}

/* Sets a->order, to be freed: the rows by image number (images NULL: 0, 1, ...). VT_E_RANGE: a number out of range;
 * VT_E_USAGE: one twice. */
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
                   (int)VITRINE_INVALID == VT_RECORD_INVALID && (int)VITRINE_NOT_FINITE == VT_RECORD_NOT_FINITE &&
                   (int)VITRINE_CERTIFIED == VT_RECORD_CERTIFIED && (int)VITRINE_UNDECIDED == VT_RECORD_UNDECIDED &&
                   (int)VITRINE_ENTRY_CERTIFY == VT_ENTRY_CERTIFY,
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
    int last; /* entry, whose points are the caller's */
} found;

/* Stores a ledger line's verdict and, of the entry f->last, its point in the caller's arrays. An image's stages and
 * entries come one after another. */
static void store_verdict(void *ctx, const vt_record *r, const float *x_adv) {
    const found *f = ctx;
    size_t row = row_of(f->a, r->image);
    vt_api_verdict(&f->verdicts[row], r);
    if (x_adv && f->x_adv && r->entry == f->last)
        memcpy(f->x_adv + row * f->a->pixels, x_adv, f->a->pixels * sizeof(float));
}

/* ---- an attack ---- */

/* Sets norm and eps by the plan, or *patch or *rotation by its threat (then linf and 1). VT_E_USAGE: both are given, or
 * one is not read; else as vt_patch_fit, vt_rotation_fit. */
static vt_status read_threat(vt_norm *norm, double *eps, vt_patch *patch, vt_rotation *rotation,
                             const vitrine_attack_plan *p, const vitrine_model *m, vt_err *e) {
    const vt_model *of = m->subject.model;
    char text[40];
    *norm = VT_LINF, *eps = 1;
    if (!p->threat) {
        VT_TRY(vt_api_norm(p->norm, norm, e));
        return vt_eps_parse(vt_api_real(text, p->eps), *norm, eps, e);
    }
    if (p->norm || p->eps != 0)
        return vt_fail(e, VT_E_USAGE, "threat %.60s stands in place of norm and eps: leave them NULL and 0", p->threat);
    if (vt_rotation_named(p->threat)) {
        if (p->eight_bit)
            return vt_fail(e, VT_E_USAGE, "eight_bit rounds points, and an image of threat rotation is what it is");
        VT_TRY(vt_rotation_parse(rotation, p->threat, e));
        return vt_rotation_fit(rotation, vt_subject_shape(&m->subject), e);
    }
    VT_TRY(vt_patch_parse(patch, p->threat, e));
    return vt_patch_fit(patch, &of->config, of->path, e);
}

/* Parses the attack as out [n]: itself and, for n 2, the same in 8 bits, all to be freed also after a failure.
 * VT_E_USAGE: it has no 8-bit points; VT_E_UNKNOWN. */
static vt_status read_attack(vt_attack *out, int n, const vitrine_attack_plan *p, vt_norm norm, vt_err *e) {
    for (int k = 0; k < n; k++) {
        vt_attack *a = &out[k];
        VT_TRY(vt_attack_parse(a, p->attack, norm, e));
        if (n > 1 && a->scoring != VT_SCORE_BALL)
            return vt_fail(e, VT_E_USAGE, "attack %s is scored as a paper's evaluator was: it has no 8-bit points",
                           a->name);
        if (k) a->scoring = VT_SCORE_EIGHT_BIT;
    }
    return VT_OK;
}

/* Fills an evaluation's options from a plan, but for images, threads and batch; attacks: to be freed in any case.
 * VT_E_USAGE: a seed or batch out of range. */
static vt_status make_ready(vt_eval_options *v, vt_attack attacks[2], const vitrine_attack_plan *p,
                            const vitrine_model *m, vt_err *e) {
    VT_TRY(read_threat(&v->norm, &v->eps, &v->patch, &v->rotation, p, m, e));
    if (p->seed > INT64_MAX) return vt_fail(e, VT_E_USAGE, "seed is above %lld", (long long)INT64_MAX);
    if (p->batch < 0 || p->batch > VT_FIBER_MOST)
        return vt_fail(e, VT_E_USAGE, "batch is %d, must be 1 to %d, or 0", p->batch, VT_FIBER_MOST);
    v->seed = p->seed, v->exhaustive = p->exhaustive != 0, v->interrupt = p->interrupt;
    v->attacks = attacks, v->n_attacks = p->eight_bit ? 2 : 1;
    return read_attack(attacks, v->n_attacks, p, vt_eval_norm(v), e);
}

/* Sets v->threads and batch, images of each thread at a time: as planned, or as the model takes them, at most 64. */
static vt_status set_pace(vt_eval_options *v, const vitrine_model *m, const vitrine_attack_plan *p, vt_err *e) {
    enum { MOST = 64 };
    bool foreign = m->subject.remote || m->subject.own;
    int takes = m->subject.remote ? vt_remote_usual(m->subject.remote) : vt_subject_takes(&m->subject);
    VT_TRY(vt_api_threads(m, p->threads, &v->threads, e));
    v->batch = p->batch ? p->batch : foreign ? (takes < MOST ? takes : MOST) : 1;
    return VT_OK;
}

/* Runs an evaluation in memory, and sets v->eps_text; its lines go to f (store_verdict). */
static vt_status run_on(vt_eval_options *v, const found *f, vt_err *e) {
    vt_ledger *l = NULL;
    char eps[40];
    v->eps_text = vt_api_real(eps, v->eps);
    VT_TRY(vt_eval_check(v, e));
    vt_header *header;
    VT_TRY(vt_eval_header(&header, v, e));
    vt_status s = vt_ledger_memory(&l, header, f->a->pixels, e);
    vt_header_free(header);
    if (s != VT_OK) return s;
    l->on_line = store_verdict, l->on_line_ctx = (void *)(uintptr_t)f;
    s = vt_eval_run(v, l, e);
    vt_ledger_close(l);
    return s;
}

/* Fills *t with the caller's targets as those of a file; t->rows to be freed. */
static vt_status read_targets(vt_targets *t, const arrays *a, const int32_t *targets, vt_err *e) {
    *t = (vt_targets){.by = "file", .path = "targets", .n = a->n, .rows = calloc(a->n, sizeof *t->rows)};
    if (!t->rows) return vt_fail(e, VT_E_MEMORY, "no memory for %zu targets", a->n);
    for (size_t i = 0; i < a->n; i++)
        t->rows[i].image = a->order[i].number, t->rows[i].target = targets[a->order[i].row];
    vt_sha_hex(targets, a->n * sizeof *targets, t->sha256);
    return VT_OK;
}

/* Checks and numbers the caller's arrays, and makes them v's images and targets; *images, t and a->order are to be
 * freed also after a failure. VT_E_RANGE or VT_E_USAGE: check_arrays, number_rows. */
static vt_status attach_arrays(vt_eval_options *v, vt_targets *t, int32_t **images, arrays *a,
                               const vitrine_attack_plan *p, vt_err *e) {
    VT_TRY(check_arrays(a, v->subject->data->classes, e));
    VT_TRY(number_rows(a, p->images, e));
    if (p->targets) VT_TRY(read_targets(t, a, p->targets, e));
    v->targets = p->targets ? t : NULL;
    v->images = *images = calloc(a->n, sizeof **images), v->n_images = a->n;
    if (!*images) return vt_fail(e, VT_E_MEMORY, "no memory for %zu images", a->n);
    for (size_t i = 0; i < a->n; i++) (*images)[i] = a->order[i].number;
    return VT_OK;
}

/* Attacks the caller's arrays and fills verdicts and points of f, which are the images themselves until an attack has
 * better ones; a->order is to be freed. */
static vt_status attack_arrays(const vitrine_model *m, const vitrine_attack_plan *p, arrays *a, const found *f,
                               vt_err *e) {
    vt_attack attacks[2] = {0};
    vt_targets targets = {0};
    vt_eval_options v = {0};
    vt_dataset d = {.def = &in_memory,
                    .path = (char *)(uintptr_t) "the caller's arrays",
                    .count = INT32_MAX,
                    .classes = vitrine_classes(m),
                    .floats = true,
                    .state = a};
    vt_subject s = m->subject;
    int32_t *images = NULL;
    s.data = &d, v.subject = &s;
    vt_status st = make_ready(&v, attacks, p, m, e);
    if (st == VT_OK) st = set_pace(&v, m, p, e);
    if (st == VT_OK) st = attach_arrays(&v, &targets, &images, a, p, e);
    if (st == VT_OK && f->x_adv) memcpy(f->x_adv, a->x, a->n * a->pixels * sizeof(float));
    vt_sha_hex(a->labels, a->n * sizeof *a->labels, d.hash);
    if (st == VT_OK) st = run_on(&v, f, e);
    free(images);
    vt_targets_close(&targets);
    for (int k = 0; k < 2; k++) vt_attack_free(&attacks[k]);
    return st;
}

/* Fails with VITRINE_E_USAGE if the plan has neither norm nor threat, or n is no number of images. */
static vitrine_status check_plan(const char *who, const vitrine_attack_plan *p, size_t n, vitrine_err *e) {
    if (!p->norm && !p->threat) return vt_api_usage(e, "%s: plan->norm is NULL", who);
    if (!n || n >= INT32_MAX) return vt_api_usage(e, "%s: n is %zu, must be 1 to %d images", who, n, INT32_MAX - 1);
    return VITRINE_OK;
}

/* Returns n images and labels of the caller's as a data set's state, not yet numbered. */
static arrays arrays_of(const vitrine_model *m, const vitrine_attack_plan *plan, size_t n, const float *x,
                        const int32_t *labels) {
    return (arrays){.n = n,
                    .pixels = vitrine_pixels(m),
                    .shape = vt_subject_shape(&m->subject),
                    .x = x,
                    .labels = labels,
                    .targets = plan->targets};
}

vitrine_status vitrine_attack(const vitrine_model *m, const vitrine_attack_plan *plan, size_t n, const float *x,
                              const int32_t *labels, float *x_adv, vitrine_verdict *verdicts, vitrine_err *e) {
    VT_API_NEEDS(m, plan);
    VT_API_NEEDS(x, labels, verdicts);
    VT_API_SIZED(plan, "the plan's size", vitrine_attack_plan);
    if (check_plan(__func__, plan, n, e) != VITRINE_OK) return VITRINE_E_USAGE;
    VT_API_NEEDS(plan->attack);
    if (x_adv == x) return vt_api_usage(e, "%s: x_adv is x: the images are asked for again", __func__);
    vt_err why = {0};
    arrays a = arrays_of(m, plan, n, x, labels);
    found f = {&a, x_adv, verdicts, plan->eight_bit ? 2 : 1};
    vt_status s = attack_arrays(m, plan, &a, &f, &why);
    free(a.order);
    return vt_api_end(e, s, &why);
}

/* ---- a verdict alone ---- */

typedef struct judging {
    const vitrine_attack_plan *plan;
    const arrays *a;
    const float *x_adv;
    vt_terms terms;      /* without a target */
    vt_verifier *judges; /* [threads] */
    vitrine_verdict *out;
} judging;

/* Judges point i on its thread's verifier, keyed by seed and image number, and writes its verdict; VT_INTERRUPTED. */
static vt_status judge_one(void *ctx, int thread, size_t i, vt_err *e) {
    const judging *j = ctx;
    const arrays *a = j->a;
    const int32_t number = j->plan->images ? j->plan->images[i] : (int32_t)i;
    vt_verifier *by = &j->judges[thread];
    vt_terms t = j->terms;
    vt_verdict v;
    if (j->plan->interrupt && *j->plan->interrupt) return VT_INTERRUPTED;
    if (a->targets) t.target = &a->targets[i];
    vt_rng key = vt_verdict_key(j->plan->seed, number, 1, 0);
    VT_TRY(vt_verify_by(&v, &t, &by->model, &key, a->x + i * a->pixels, j->x_adv + i * a->pixels, a->shape,
                        a->labels[i], by->z, by->z64, e));
    vt_record r = {.image = number, .entry = 1, .label = a->labels[i], .status = vt_verdict_status(&v), .l0 = v.l0};
    vt_verdict_record(&r, &v);
    j->out[i] = (vitrine_verdict){.clean = -1};
    vt_api_verdict(&j->out[i], &r);
    return VT_OK;
}

/* Judges all points, in parallel, with one verifier a thread. */
static vt_status judge_all(judging *j, const vitrine_model *m, vt_err *e) {
    vt_subject with = m->subject;
    vt_dataset none = {.def = &in_memory};
    int threads;
    with.data = &none;
    VT_TRY(vt_api_threads(m, j->plan->threads, &threads, e));
    if ((size_t)threads > j->a->n) threads = (int)j->a->n;
    j->judges = calloc((size_t)threads, sizeof *j->judges);
    vt_status s = j->judges ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for %d threads", threads);
    for (int i = 0; i < threads && s == VT_OK; i++) s = vt_verifier_open(&j->judges[i], &with, e);
    if (s == VT_OK) s = vt_for_each(j->a->n, threads, judge_one, j, e);
    for (int i = 0; j->judges && i < threads; i++) vt_verifier_close(&j->judges[i]);
    free(j->judges);
    return s;
}

/* Sets *t to the terms of a verdict; eps includes the plan's allowance for rounding in other programs. VT_E_USAGE: an
 * allowance out of range, 8 bits in l0, or as read_threat. */
static vt_status read_terms(vt_terms *t, const vitrine_attack_plan *p, const vitrine_model *m, vt_err *e) {
    if (!(p->allowance >= 0) || !(p->allowance <= VT_ALLOWANCE_MOST))
        return vt_fail(e, VT_E_USAGE, "allowance is %g, must be 0 to %g", p->allowance, VT_ALLOWANCE_MOST);
    t->scoring = p->eight_bit ? VT_SCORE_EIGHT_BIT : VT_SCORE_BALL;
    VT_TRY(read_threat(&t->norm, &t->eps, &t->patch, &t->rotation, p, m, e));
    if (p->eight_bit && t->norm == VT_L0)
        return vt_fail(e, VT_E_USAGE, "eight_bit counts levels of linf, l2 and l1, and knows nothing of l0");
    if (!p->eight_bit) t->eps += vt_allowance(p->allowance, t, vitrine_pixels(m));
    return VT_OK;
}

vitrine_status vitrine_judge(const vitrine_model *m, const vitrine_attack_plan *plan, size_t n, const float *x,
                             const float *x_adv, const int32_t *labels, vitrine_verdict *verdicts, vitrine_err *e) {
    VT_API_NEEDS(m, plan);
    VT_API_NEEDS(x, x_adv);
    VT_API_NEEDS(labels, verdicts);
    VT_API_SIZED(plan, "the plan's size", vitrine_attack_plan);
    if (check_plan(__func__, plan, n, e) != VITRINE_OK) return VITRINE_E_USAGE;
    vt_err why = {0};
    arrays a = arrays_of(m, plan, n, x, labels);
    judging j = {.plan = plan, .a = &a, .x_adv = x_adv, .out = verdicts};
    vt_status s = read_terms(&j.terms, plan, m, &why);
    if (s == VT_OK) s = check_arrays(&a, vitrine_classes(m), &why);
    if (s == VT_OK) s = number_rows(&a, plan->images, &why);
    if (s == VT_OK) s = judge_all(&j, m, &why);
    free(a.order);
    return vt_api_end(e, s, &why);
}
