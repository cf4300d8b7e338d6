/* SPDX-License-Identifier: MIT */
#include "eval/doctor/doctor_logits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/text.h"
#include "parallel/threads.h"
#include "data/adv_file.h"
#include "models/arch.h"
#include "models/net/session.h"
#include "models/net/session64.h"

/* ---- the file ---- */

/* Sets *a in place to array `name`; VT_E_USAGE: not there, not of ndim sides, an empty side, or neither F32 nor F64. */
static vt_status floats_of(vt_npy *a, const vt_adv_file *f, const char *path, const char *name, int ndim, vt_err *e) {
    VT_TRY(vt_adv_file_array(f, path, name, a, e));
    if (a->ndim != ndim || a->shape[0] < 1 || a->shape[1] < 1)
        return vt_fail(e, VT_E_USAGE, "%s: %s is %s, must be %s", path, name,
                       vt_shape_text((char[200]){0}, 200, a->shape, a->ndim), ndim == 4 ? "[N,C,H,W]" : "[N,K]");
    if (a->dtype == VT_F32 || a->dtype == VT_F64) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "%s: %s is %s, must be F32 or F64: save it from a model in float32 or double", path,
                   name, vt_dtype_name(a->dtype));
}

/* Sets *out, to be freed also after a failure, to the first n items of an array in C order; VT_E_USAGE unless each
 * number lies in [low, high]. */
static vt_status read_first_items(double **out, const vt_npy *a, const char *path, const char *name, int64_t n,
                                  double low, double high, vt_err *e) {
    size_t each = a->numel / (size_t)a->shape[0], total = (size_t)n * each;
    *out = vt_alloc(total * sizeof **out);
    if (!*out) return vt_fail(e, VT_E_MEMORY, "%s: no memory for %zu numbers", path, total);
    for (size_t k = 0; k < total; k++) {
        size_t at = 0, rest = k;
        for (int i = a->ndim - 1; i >= 0; rest /= (size_t)a->shape[i--])
            at += rest % (size_t)a->shape[i] * a->stride[i];
        double v = (*out)[k] = vt_npy_real(a, at);
        if (!isfinite(v) || v < low || v > high)
            return vt_fail(e, VT_E_USAGE, "%s: %s holds %g, must be %s", path, name, v,
                           low < 0 ? "finite" : "pixels in [0,1], as they are before mean and std");
    }
    return VT_OK;
}

/* Sets s's images and logits, sizes, span and precision; VT_E_USAGE: as vt_saved_logits_read. */
static vt_status read_arrays(vt_saved_logits *s, const vt_adv_file *f, const char *path, vt_err *e) {
    vt_npy x, z;
    double low = INFINITY, high = -INFINITY;
    VT_TRY(floats_of(&x, f, path, "x", 4, e));
    VT_TRY(floats_of(&z, f, path, "logits", 2, e));
    if (x.shape[0] != z.shape[0])
        return vt_fail(e, VT_E_USAGE, "%s: x has %lld images, logits %lld", path, (long long)x.shape[0],
                       (long long)z.shape[0]);
    s->of = (int)x.shape[0], s->n = s->of < VT_LOGITS_MOST ? s->of : VT_LOGITS_MOST;
    s->shape = f->shape, s->classes = (int)z.shape[1];
    VT_TRY(read_first_items(&s->x, &x, path, "x", s->n, 0, 1, e));
    VT_TRY(read_first_items(&s->z, &z, path, "logits", s->n, -INFINITY, INFINITY, e));
    for (int i = 0; i < s->n * s->classes; i++) {
        low = fmin(low, s->z[i]), high = fmax(high, s->z[i]);
        s->precise = s->precise || (double)(float)s->z[i] != s->z[i];
    }
    s->span = high - low;
    if (s->span > 0) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "%s: all its logits are %g, which tells no reading from another", path, low + 0);
}

vt_status vt_saved_logits_read(vt_saved_logits *s, const char *path, vt_err *e) {
    vt_adv_file f;
    *s = (vt_saved_logits){0};
    vt_status st = vt_adv_file_open(&f, path, "x", e);
    if (st == VT_OK) st = read_arrays(s, &f, path, e);
    vt_adv_file_close(&f);
    return st;
}

void vt_saved_logits_free(vt_saved_logits *s) {
    free(s->x), free(s->z);
    s->x = s->z = NULL;
}

/* ---- one reading ---- */

typedef struct look {
    const vt_saved_logits *s;
    size_t pixels;
    vt_session_f32 **f32; /* [threads]; or */
    vt_session_f64 **f64;
    float *x;   /* [threads, pixels], of f32 */
    double *at; /* [n] the largest difference of each image's logits; NaN: not finite */
    double *z;  /* [n, K] this reading's logits; or NULL */
} look;

/* Sets l->at[i] to the largest difference of image i's logits from those saved, INFINITY if one is not finite, and l->z
 * if it is not NULL. */
static vt_status one_image(void *ctx, int thread, size_t i, vt_err *e) {
    const look *l = ctx;
    size_t k = (size_t)l->s->classes;
    const double *x = l->s->x + i * l->pixels, *want = l->s->z + i * k, *z64 = NULL;
    const float *z32 = NULL;
    float *x32 = l->f32 ? l->x + (size_t)thread * l->pixels : NULL;
    (void)e;
    for (size_t p = 0; x32 && p < l->pixels; p++) x32[p] = (float)x[p];
    if (x32)
        z32 = vt_session_forward_f32(l->f32[thread], x32, 1, false);
    else
        z64 = vt_session_forward_f64(l->f64[thread], x, 1, false);
    l->at[i] = 0;
    for (size_t j = 0; j < k; j++) {
        double z = z32 ? (double)z32[j] : z64[j], d = fabs(z - want[j]);
        if (!(d <= l->at[i])) l->at[i] = isfinite(d) ? d : INFINITY;
        if (l->z) l->z[i * k + j] = z;
    }
    return VT_OK;
}

/* Sets *out to the largest difference of a reading's logits from those saved, over the first n images; precise: in
 * double. z [n, K]: gets the logits, or NULL. */
static vt_status measure_difference(double *out, const vt_doctor *d, const vt_saved_logits *s,
                                    const vt_setting *reading, int n, bool precise, double *z, vt_err *e) {
    vt_model v = *d->model;
    size_t threads = (size_t)(d->threads < n ? d->threads : n);
    look l = {.s = s, .z = z, .at = calloc((size_t)n, sizeof *l.at)};
    void **sessions = calloc(threads, sizeof *sessions);
    v.config = reading->config;
    l.pixels = vt_config_input_pixels(&v.config);
    l.x = vt_alloc(threads * l.pixels * sizeof *l.x);
    vt_status st = l.at && sessions && l.x ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for %zu threads", threads);
    if (st == VT_OK) st = vt_doctor_variant(&v, d->model, e);
    if (precise)
        l.f64 = (vt_session_f64 **)sessions;
    else
        l.f32 = (vt_session_f32 **)sessions;
    for (size_t i = 0; i < threads && st == VT_OK; i++)
        st = precise ? vt_session_open_f64(&l.f64[i], &v, 1, VT_GRAD_NONE, e)
                     : vt_session_open_f32(&l.f32[i], &v, 1, VT_GRAD_NONE, e);
    if (st == VT_OK) st = vt_for_each((size_t)n, (int)threads, one_image, &l, e);
    *out = 0;
    for (int i = 0; st == VT_OK && i < n; i++) *out = fmax(*out, l.at[i]);
    for (size_t i = 0; sessions && i < threads; i++)
        precise ? vt_session_close_f64(l.f64[i]) : vt_session_close_f32(l.f32[i]);
    if (v.w != d->model->w) free(v.w);
    free(l.at), free(l.x), free(sessions);
    return st;
}

/* ---- the search ---- */

/* Readings are looked at in float on FIRST images, and in double on all where they differ by less than NEAR of the
 * logits' span. EQUAL of it: what positions that PyTorch computes in float32 move logits by, and no option does less.
 */
enum { FIRST = 2, DEEPEST = 5, LEAST = 200, MOST = 30000 };
#define NEAR 1e-3
#define EQUAL 1e-6
#define BUDGET 4e13 /* FLOP, after LEAST readings */

typedef struct search {
    vt_doctor *d;
    const vt_saved_logits *s;
    vt_logits_match *best;
    double nearest; /* what `best` differed by at first sight, where none is equal */
    double flops;   /* of one reading's first look */
    struct {
        vt_setting setting;
        double difference;
        char what[64];
    } equal[16];
    int n_equal;
} search;

/* Sets *out to how much equal readings may differ: rounding; of logits saved in float32 up to eight times what float32
 * and double differ here. */
static vt_status measure_tolerance(double *out, const search *q, const vt_setting *reading, vt_err *e) {
    size_t count = (size_t)q->s->n * (size_t)q->s->classes;
    double ignored;
    *out = EQUAL * q->s->span;
    if (q->s->precise) return VT_OK;
    double *z = vt_alloc(2 * count * sizeof *z);
    vt_status s = z ? measure_difference(&ignored, q->d, q->s, reading, q->s->n, false, z, e)
                    : vt_fail(e, VT_E_MEMORY, "no memory for the logits of %d images", q->s->n);
    if (s == VT_OK) s = measure_difference(&ignored, q->d, q->s, reading, q->s->n, true, z + count, e);
    for (size_t i = 0; s == VT_OK && i < count; i++) *out = fmax(*out, 8 * fabs(z[i] - z[count + i]));
    free(z);
    return s;
}

/* Shows which reading is tried. */
static void show_progress(const search *q, int tried, const char *what) {
    const vt_progress *p = &q->d->progress;
    char text[120];
    snprintf(text, sizeof text, "doctor: reading %d, changes at once: %d: %s", tried, q->best->changes, what);
    if (p->show && p->live) p->show(p->ctx, text, true);
}

/* Compares one reading, first in float on few images; counts it, keeps it in q->best if it is the nearest, and adds it
 * to q->equal, if there is room, if it is equal. VT_INTERRUPTED. */
static vt_status try_reading(search *q, const vt_trial *t, vt_err *e) {
    double d, allowed;
    int first = q->s->n < FIRST ? q->s->n : FIRST;
    VT_TRY(vt_check_interrupt(q->d->interrupt, "the search", e));
    VT_TRY(measure_difference(&d, q->d, q->s, &t->setting, first, false, NULL, e));
    show_progress(q, ++q->best->tried, t->what);
    if (d < q->nearest) q->nearest = d, q->best->setting = t->setting;
    if (!(d <= NEAR * q->s->span)) return VT_OK;
    VT_TRY(measure_difference(&d, q->d, q->s, &t->setting, q->s->n, true, NULL, e));
    VT_TRY(measure_tolerance(&allowed, q, &t->setting, e));
    if (d > allowed || q->n_equal == (int)(sizeof q->equal / sizeof *q->equal)) return VT_OK;
    q->equal[q->n_equal].setting = t->setting, q->equal[q->n_equal].difference = d;
    snprintf(q->equal[q->n_equal++].what, sizeof q->equal->what, "%s", t->what);
    return VT_OK;
}

/* Returns whether enough readings have been tried, by number or FLOP. */
static bool is_budget_spent(const search *q) {
    return q->best->tried >= MOST || (q->best->tried >= LEAST && q->best->tried * q->flops > BUDGET);
}

/* Tries the readings that are `from` with exactly `left` of the aspects changed, each set of aspects once, until the
 * budget is spent or one of two changes or more is equal. */
static vt_status try_changes(search *q, const vt_setting *from, unsigned aspects, int left, vt_err *e) {
    vt_trial *list = calloc(VT_DOCTOR_TRIALS, sizeof *list);
    vt_doctor d = *q->d;
    d.aspects = aspects & ~(1u << VT_ASPECT_RESIZE);
    int n = list ? vt_doctor_list(&d, from, 0, 0, list, VT_DOCTOR_TRIALS) : -1;
    vt_status s = n < 0 ? vt_fail(e, VT_E_MEMORY, "no memory for the readings to try") : VT_OK;
    for (int i = 0; i < n && s == VT_OK && !is_budget_spent(q); i++) {
        unsigned later = d.aspects & ~((2u << list[i].aspect) - 1);
        if ((list[i].aspect == VT_ASPECT_NONE) != !left) continue;
        if (left > 1 && q->n_equal) break; /* the first will do */
        s = left > 1 ? try_changes(q, &list[i].setting, later, left - 1, e) : try_reading(q, &list[i], e);
    }
    free(list);
    return s;
}

/* Keeps in q->equal those that differ at most ten times what the nearest does, as rounding may, in their order. */
static void keep_nearest_equals(search *q) {
    double least = INFINITY;
    int kept = 0;
    for (int i = 0; i < q->n_equal; i++) least = fmin(least, q->equal[i].difference);
    for (int i = 0; i < q->n_equal; i++)
        if (q->equal[i].difference <= 10 * fmax(least, 1e-13 * q->s->span)) q->equal[kept++] = q->equal[i];
    q->n_equal = kept;
}

/* Tries what is one change away from q->equal[0], the reading found: it may be nearer still, or give the same logits.
 * Sets q->best's equal, setting, difference and also. */
static vt_status confirm_match(search *q, vt_err *e) {
    vt_logits_match *m = q->best;
    keep_nearest_equals(q);
    q->n_equal = 1;
    VT_TRY(try_changes(q, &q->equal[0].setting, q->d->aspects, 1, e));
    keep_nearest_equals(q);
    m->equal = true, m->setting = q->equal[0].setting, m->difference = q->equal[0].difference;
    for (int i = 1; i < q->n_equal; i++) vt_text_item(m->also, sizeof m->also, "; ", "%s", q->equal[i].what);
    return VT_OK;
}

vt_status vt_doctor_logits(vt_logits_match *out, vt_doctor *d, const vt_saved_logits *s, const vt_setting *present,
                           vt_err *e) {
    double gradient;
    search q = {.d = d, .s = s, .best = out, .nearest = INFINITY};
    *out = (vt_logits_match){.setting = *present};
    vt_arch_find(present->config.arch)->flops(&present->config, true, &q.flops, &gradient);
    q.flops *= FIRST;
    for (int tried = -1; out->changes <= DEEPEST && tried < out->tried && !is_budget_spent(&q); out->changes++) {
        tried = out->tried;
        VT_TRY(try_changes(&q, present, d->aspects, out->changes, e));
        if (q.n_equal) break;
    }
    out->all = !is_budget_spent(&q);
    if (q.n_equal) VT_TRY(confirm_match(&q, e));
    VT_TRY(measure_difference(&out->present, d, s, present, s->n, true, NULL, e));
    if (!out->equal) VT_TRY(measure_difference(&out->difference, d, s, &out->setting, s->n, true, NULL, e));
    if (out->present <= out->difference) out->setting = *present, out->difference = out->present;
    return measure_tolerance(&out->tolerance, &q, &out->setting, e);
}
