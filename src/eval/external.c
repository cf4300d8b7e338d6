/* SPDX-License-Identifier: MIT */
#include "eval/external.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include "base/json.h"
#include "parallel/threads.h"

static const char *const names[] = {
#define VT_EXTERNAL_NAME(id, text) text,
    VT_EXTERNAL_LIST(VT_EXTERNAL_NAME)
#undef VT_EXTERNAL_NAME
};

static const char *status_name(vt_external_status s) { return s < VT_EXTERNAL_COUNT ? names[s] : "?"; }

double vt_external_allowance(const vt_external *f) {
    const vt_terms t = {.norm = f->norm, .patch = f->patch};
    return vt_allowance(f->allowance, &t, vt_subject_pixels(f->subject));
}

typedef struct job {
    vt_external *f;
    vt_verifier *judges;
    size_t done;
    pthread_mutex_t lock;
} job;

/* ---- one point ---- */

/* Sets p's counts of values outside of [0,1] and of values that are not finite, over x [n]. */
static void count_values(vt_external_point *p, const float *x, size_t n) {
    p->outside = p->not_finite = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            p->not_finite++;
        else
            p->outside += x[i] < 0 || x[i] > 1;
    }
}

/* Returns the status that follows from the verdict and the clean prediction: outside comes before wrong, wrong before
 * broken. */
static vt_external_status status_of(const vt_external_point *p) {
    if (!p->v.inside) return VT_EXTERNAL_VIOLATION;
    if (p->clean != p->label) return VT_EXTERNAL_WRONG;
    return p->v.broken ? VT_EXTERNAL_BROKEN : VT_EXTERNAL_ROBUST;
}

/* Judges one point and its clean image on a thread's verifier, into its place of f->result. VT_INTERRUPTED when asked;
 * VT_E_NUMERIC: finite values give logits that are not. */
static vt_status verify_point(void *ctx, int thread, size_t item, vt_err *e) {
    job *k = ctx;
    vt_external *f = k->f;
    vt_verifier *j = &k->judges[thread];
    vt_external_point *p = &f->result[item];
    vt_verdict clean;
    bool unsure;
    if (f->interrupt && *f->interrupt) return VT_INTERRUPTED;
    *p = (vt_external_point){.image = f->images[item]};
    VT_TRY(vt_subject_image(j->subject, p->image, j->x, &p->label, e));
    vt_adv_file_read(f->points, (int64_t)item, j->x_adv);
    VT_TRY(vt_predict(&clean, &unsure, &j->model, j->x, p->label, j->z, j->z64, e));
    p->clean = clean.pred;
    count_values(p, j->x_adv, j->model.pixels);
    double eps = f->eps + vt_external_allowance(f);
    VT_TRY(vt_verify(&p->v, &j->model, j->x, j->x_adv, p->label, f->norm, eps, j->z, j->z64, e));
    if (f->patch.size) vt_verify_patch(&p->v, j->x, j->x_adv, j->shape, &f->patch);
    if (!p->not_finite && !p->v.finite)
        return vt_fail(e, VT_E_NUMERIC, "image %lld: the model's logits are not finite", (long long)p->image);
    p->excess = fmax(0, (f->norm == VT_L1   ? p->v.l1
                         : f->norm == VT_L2 ? p->v.l2
                         : f->norm == VT_L0 ? p->v.l0
                                            : p->v.linf) -
                            f->eps);
    p->status = status_of(p);
    pthread_mutex_lock(&k->lock);
    vt_progress_step(&f->progress, ++k->done, "");
    pthread_mutex_unlock(&k->lock);
    return VT_OK;
}

vt_status vt_external_run(vt_external *f, vt_err *e) {
    job k = {.f = f, .judges = calloc((size_t)f->threads, sizeof *k.judges)};
    f->result = calloc((size_t)f->points->n, sizeof *f->result);
    vt_status s =
        k.judges && f->result ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for %lld points", (long long)f->points->n);
    for (int i = 0; i < f->threads && s == VT_OK; i++) s = vt_verifier_open(&k.judges[i], f->subject, e);
    pthread_mutex_init(&k.lock, NULL);
    if (s == VT_OK) {
        vt_progress_begin(&f->progress, "verify", 0, (size_t)f->points->n);
        s = vt_for_each((size_t)f->points->n, f->threads, verify_point, &k, e);
        vt_progress_end(&f->progress, "done");
    }
    pthread_mutex_destroy(&k.lock);
    for (int i = 0; k.judges && i < f->threads; i++) vt_verifier_close(&k.judges[i]);
    free(k.judges);
    for (int64_t i = 0; s == VT_OK && i < f->points->n; i++) {
        const vt_external_point *p = &f->result[i];
        f->count[p->status]++;
        f->borderline += p->status == VT_EXTERNAL_BROKEN && p->v.borderline;
        f->allowed += p->status != VT_EXTERNAL_VIOLATION && p->excess > 0;
    }
    return s;
}

void vt_external_free(vt_external *f) {
    free(f->result);
    f->result = NULL;
}

/* ---- words ---- */

/* Writes why a point is a violation, or "borderline"; "": there is nothing to say. */
static void describe_point(const vt_external *f, const vt_external_point *p, char *buf, size_t size) {
    bool far = p->excess > vt_external_allowance(f);
    *buf = 0;
    if (p->not_finite)
        snprintf(buf, size, "%lld values are not finite", (long long)p->not_finite);
    else if (p->outside && far)
        snprintf(buf, size, "%.3g beyond eps, and %lld values outside [0,1]", p->excess, (long long)p->outside);
    else if (p->outside)
        snprintf(buf, size, "%lld values outside [0,1]", (long long)p->outside);
    else if (far)
        snprintf(buf, size, "%.3g beyond eps", p->excess);
    else if (p->status == VT_EXTERNAL_VIOLATION)
        snprintf(buf, size, "more has changed than fits into the squares");
    else if (p->status == VT_EXTERNAL_BROKEN && p->v.borderline)
        snprintf(buf, size, "borderline");
}

/* Prints a row for each of up to `most` points, of the violations or of all the others, in the file's order. */
static void print_rows(FILE *out, const vt_external *f, bool violations, int64_t most) {
    char why[96];
    int64_t shown = 0;
    for (int64_t i = 0; i < f->points->n && shown < most; i++) {
        const vt_external_point *p = &f->result[i];
        if ((p->status == VT_EXTERNAL_VIOLATION) != violations) continue;
        describe_point(f, p, why, sizeof why);
        fprintf(out, "%8lld %6d %6d %6d %11.4g %12.7g %12.7g %12.7g  %s%s%s\n", (long long)p->image, p->label, p->clean,
                p->v.pred, p->v.margin, p->v.linf, p->v.l2, p->v.l1, status_name(p->status), *why ? ": " : "", why);
        shown++;
    }
}

void vt_external_table(FILE *out, const vt_external *f, int64_t most) {
    long long n = (long long)f->points->n, left = (long long)(most && n > most ? n - most : 0);
    long long bad = (long long)f->count[VT_EXTERNAL_VIOLATION];
    if (!most) most = n;
    fprintf(out, "%8s %6s %6s %6s %11s %12s %12s %12s  %s\n", "image", "label", "clean", "pred", "margin", "linf", "l2",
            "l1", "status");
    print_rows(out, f, true, most);
    if (bad < most) print_rows(out, f, false, most - bad);
    if (left) fprintf(out, "... and %lld more (" VT_OPTION "csv FILE writes all)\n", left);
    fprintf(out,
            "\n%lld points, %s eps %s: %lld broken (%lld borderline), %lld robust, %lld wrong without perturbation\n",
            n, vt_norm_name(f->norm), f->eps_text, (long long)f->count[VT_EXTERNAL_BROKEN], (long long)f->borderline,
            (long long)f->count[VT_EXTERNAL_ROBUST], (long long)f->count[VT_EXTERNAL_WRONG]);
    fprintf(out,
            "%lld violation%s; allowance for rounding %.4g a pixel, %.4g on the norm: %lld point%s inside by it "
            "alone\n",
            bad, bad == 1 ? "" : "s", f->allowance, vt_external_allowance(f), (long long)f->allowed,
            f->allowed == 1 ? " is" : "s are");
}

void vt_external_csv(FILE *out, const vt_external *f) {
    fprintf(out, "image,label,clean_pred,pred,pred64,margin,margin64,linf,l2,l1,excess,outside,not_finite,status,"
                 "borderline\n");
    for (int64_t i = 0; i < f->points->n; i++) {
        const vt_external_point *p = &f->result[i];
        /* in two: glibc takes memory for one with so many values, and gives up without it */
        fprintf(out, "%lld,%d,%d,%d,%d,%.9g,%.17g,", (long long)p->image, p->label, p->clean, p->v.pred, p->v.pred64,
                p->v.margin, p->v.margin64);
        fprintf(out, "%.17g,%.17g,%.17g,%.9g,%lld,%lld,%s,%d\n", p->v.linf, p->v.l2, p->v.l1, p->excess,
                (long long)p->outside, (long long)p->not_finite, status_name(p->status), p->v.borderline);
    }
}

/* Returns a number; one that is not finite, which JSON lacks, as null. */
static json_t *or_null(double v) { return isfinite(v) ? json_real(v) : json_null(); }

json_t *vt_external_json(const vt_external *f) {
    size_t before = vt_json_refused();
    json_t *list = json_array(), *o;
    for (int64_t i = 0; i < f->points->n; i++) {
        const vt_external_point *p = &f->result[i];
        json_array_append_new(list,
                              json_pack("{s:I,s:i,s:i,s:i,s:i,s:o,s:o,s:o,s:o,s:o,s:o,s:I,s:I,s:s,s:b}", "image",
                                        (json_int_t)p->image, "label", p->label, "clean_pred", p->clean, "pred",
                                        p->v.pred, "pred64", p->v.pred64, "margin", or_null(p->v.margin), "margin64",
                                        or_null(p->v.margin64), "linf", or_null(p->v.linf), "l2", or_null(p->v.l2),
                                        "l1", or_null(p->v.l1), "excess", or_null(p->excess), "outside",
                                        (json_int_t)p->outside, "not_finite", (json_int_t)p->not_finite, "status",
                                        status_name(p->status), "borderline", p->v.borderline));
    }
    o = json_pack("{s:s,s:s,s:s,s:s,s:f,s:f,s:f,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:o}", "weights", f->subject->model->sha256,
                  "data", f->subject->data->hash, "norm", vt_norm_name(f->norm), "eps", f->eps_text, "eps_value",
                  f->eps, "allowance", f->allowance, "allowance_on_norm", vt_external_allowance(f), "points",
                  (json_int_t)f->points->n, "broken", (json_int_t)f->count[VT_EXTERNAL_BROKEN], "borderline",
                  (json_int_t)f->borderline, "robust", (json_int_t)f->count[VT_EXTERNAL_ROBUST], "wrong",
                  (json_int_t)f->count[VT_EXTERNAL_WRONG], "violations", (json_int_t)f->count[VT_EXTERNAL_VIOLATION],
                  "inside_by_allowance", (json_int_t)f->allowed, "images", list);
    return vt_json_whole(o, before);
}
