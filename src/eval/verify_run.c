/* SPDX-License-Identifier: MIT */
#include "eval/verify_run.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "linalg/gemm.h"
#include "base/mem.h"
#include "base/text.h"
#include "data/box.h"
#include "parallel/threads.h"
#include "base/version.h"
#include "eval/verify.h"
#include "eval/result_index.h"
#include "eval/header.h"
#include "eval/options.h"
#include "eval/targets.h"

#define TEXT 240

void vt_findings_add(vt_findings *f, const char *format, ...) {
    char text[600];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    vt_text_plain(text, strlen(text), "", NULL); /* names of files are part of it */
    size_t at = f->n++;
    if (at < VT_FINDINGS_KEPT && !(f->text[at] = strdup(text))) f->lost = true;
}

void vt_findings_free(vt_findings *f) {
    for (size_t i = 0; i < f->n && i < VT_FINDINGS_KEPT; i++) free(f->text[i]);
    *f = (vt_findings){0};
}

/* One thread: what it found of its item. */
typedef struct worker {
    vt_verifier judge;
    void *certifier; /* the method's state, in runs with certificates */
    float *bounds;   /* [2, pixels] of a box, or NULL */
    char text[TEXT];
    bool broken, borderline, open;
    bool moved; /* a margin is not the ledger's to the last bit */
} worker;

typedef struct job {
    vt_run_verifier *r;
    vt_findings *found;
    worker *workers;
    vt_norm norm;
    double eps;
    uint64_t seed;
    vt_patch patch;    /* size 0: a norm's ball, or a box */
    vt_box box;        /* path NULL: none */
    size_t *items, n;  /* records to look at */
    vt_eval_options v; /* what certificates are of: subject, threat, seed, method */
    void *shared;      /* of the method */
} job;

/* "image 7 after pgd" */
static const char *describe_record(const vt_ledger *l, const vt_record *r, char buf[100]) {
    if (r->entry && r->entry != VT_ENTRY_CERTIFY)
        snprintf(buf, 100, "image %d after %.32s", r->image,
                 vt_header_entry(l->header, r->entry)->stages[r->stage].name);
    else
        snprintf(buf, 100, "image %d", r->image);
    return buf;
}

/* Another build multiplies in another order. A logit then moves by about its float noise, which the verdict itself has
 * measured; in double by 1e-11 of its size. */
static bool same_number(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

/* Is a number now what it was: equal, or, of another build, nearer than slack? */
static bool is_within_slack(const vt_run_verifier *r, double now, double then, double slack) {
    return same_number(now, then) || (!r->exact && fabs(now - then) <= slack);
}

/* Is a line's "borderline" another one than now, by more than another build's rounding explains? */
static bool other_flag(const vt_run_verifier *c, const vt_record *r, const vt_verdict *v) {
    if ((v->broken && v->borderline) == r->borderline) return false;
    if (c->exact || !v->broken || !r->entry) return !c->subject->remote;
    return !v->again && fabs(v->margin - v->noise) > 8 * v->noise + 1e-4;
}

/* Votes of a model that draws leave open what they may be next time, where the line says so or they do; but not what no
 * vote of them says. */
static bool left_open(const vt_record *r, const vt_verdict *v) {
    bool fails = r->status == VT_RECORD_BROKEN || r->status == VT_RECORD_WRONG;
    return v->votes && (vt_verdict_open(v) || r->borderline) && v->inside && v->finite &&
           v->wrong != (fails ? 0 : v->votes);
}

/* Writes into w->text how a verdict differs from its line, if it does. */
static void check_against_ledger(worker *w, const vt_run_verifier *c, const vt_record *r, const vt_verdict *v,
                                 int status) {
    char at[100];
    describe_record(c->ledger, r, at);
    double wide = 8 * v->noise + 1e-4, narrow = v->again ? wide : 1e-9 * (1 + fabs(v->margin64));
    w->open = w->open || left_open(r, v);
    w->moved = !same_number(v->margin, r->margin) || !same_number(v->margin64, r->margin64);
    if (status != r->status && !w->open)
        snprintf(w->text, TEXT, "%s is %s, the ledger says %s", at, vt_record_status_name((vt_record_status)status),
                 vt_record_status_name((vt_record_status)r->status));
    else if (r->entry && (v->linf != r->linf || v->l2 != r->l2 || !(v->l1 == r->l1 || (isnan(v->l1) && isnan(r->l1))) ||
                          (c->ledger->header->norm == VT_L0 ? v->l0 : 0) != r->l0))
        snprintf(w->text, TEXT, "%s lies at linf %.9g, l2 %.9g, l1 %.9g, the ledger says %.9g, %.9g, %.9g", at, v->linf,
                 v->l2, v->l1, r->linf, r->l2, r->l1);
    else if (v->votes)
        return; /* its answers are others every time */
    else if (v->pred != r->pred || v->pred64 != r->pred64)
        snprintf(w->text, TEXT, "%s is taken for class %d (%d in double), the ledger says %d (%d)", at, v->pred,
                 v->pred64, r->pred, r->pred64);
    else if (!is_within_slack(c, v->margin, r->margin, wide) || !is_within_slack(c, v->margin64, r->margin64, narrow))
        snprintf(w->text, TEXT, "%s has margin %.9g (%.9g in double), the ledger says %.9g (%.9g)", at, v->margin,
                 v->margin64, r->margin, r->margin64);
    else if (other_flag(c, r, v))
        snprintf(w->text, TEXT, "%s is %sborderline, the ledger says otherwise", at, r->borderline ? "not " : "");
}

/* The clean line's target, where the run says how it came to be: another one drawn, or one that is less likely by more
 * than another build's logits differ. */
static void check_target(worker *w, const job *k, const vt_record *r, const vt_verdict *v) {
    const vt_header *h = k->r->ledger->header;
    const vt_verifier *j = &w->judge;
    int classes = j->model.classes, want = r->target;
    if (!h->targets || *w->text) return;
    if (!strcmp(h->targets, "random")) want = vt_target_drawn(k->seed, r->image, r->label, classes);
    if (!strcmp(h->targets, "least-likely") && !j->model.random) {
        double slack = k->r->exact ? 0 : 8 * v->noise + 1e-4;
        int least = vt_target_least(j->z, r->label, classes);
        if ((double)j->z[r->target] - (double)j->z[least] > slack) want = least;
    }
    if (want != r->target)
        snprintf(w->text, TEXT, "image %d has the target %d, the ledger says %d", r->image, want, r->target);
}

/* Judges a clean image again by its line. */
static vt_status judge_clean(worker *w, const job *k, const vt_record *r, vt_err *e) {
    vt_verdict v;
    bool unsure;
    vt_verifier *j = &w->judge;
    if (vt_sha_prefix(j->x, j->model.pixels * sizeof(float)) != r->sha) {
        snprintf(w->text, TEXT, "image %d: its pixels are not those that were evaluated", r->image);
        return VT_OK;
    }
    vt_rng key = vt_verdict_key(k->seed, r->image, 0, 0);
    vt_classifier_begin(&j->model, &key);
    VT_TRY(vt_predict(&v, &unsure, &j->model, j->x, r->label, j->z, j->z64, e));
    check_target(w, k, r, &v);
    if (*w->text) return VT_OK;
    w->open = v.votes ? left_open(r, &v) : unsure && r->borderline; /* it does not agree with itself */
    if (w->open) return VT_OK;
    check_against_ledger(w, k->r, r, &v, vt_clean_status(&v, r->label));
    return VT_OK;
}

/* An attack may have had a radius of its own (a curve's points). */
static double radius_of_record(const job *k, const vt_record *r) {
    double own = vt_header_entry(k->r->ledger->header, r->entry)->radius;
    return isfinite(own) ? own : k->eps;
}

/* Judges a stored point again by its line. */
static vt_status judge_point(worker *w, const job *k, const vt_record *r, vt_err *e) {
    vt_verdict v;
    vt_err why = {0};
    vt_verifier *j = &w->judge;
    if (vt_ledger_read_adv(k->r->ledger, r, j->x_adv, &why) != VT_OK) {
        snprintf(w->text, TEXT, "%.239s", why.text);
        return VT_OK;
    }
    float *lo = w->bounds, *hi = lo ? lo + j->model.pixels : NULL;
    if (lo) VT_TRY(vt_box_read(&k->box, r->image, lo, hi, e));
    const vt_header *h = k->r->ledger->header;
    vt_scoring scoring = vt_header_scoring(h, r->entry);
    vt_terms terms = {k->norm,    radius_of_record(k, r), k->patch, scoring, r->target >= 0 ? &r->target : NULL, lo, hi,
                      h->rotation};
    vt_rng key = vt_verdict_key(k->seed, r->image, r->entry, r->stage);
    VT_TRY(vt_verify_by(&v, &terms, &j->model, &key, j->x, j->x_adv, j->shape, r->label, j->z, j->z64, e));
    w->broken = v.broken, w->borderline = v.borderline;
    check_against_ledger(w, k->r, r, &v, vt_verdict_status(&v));
    return VT_OK;
}

/* Proves an image again by its line, or finds it undecided again. */
static vt_status judge_certificate(worker *w, const job *k, const vt_record *r, vt_err *e) {
    vt_record now = {.image = r->image, .label = r->label};
    const vt_verifier *j = &w->judge;
    VT_TRY(vt_certify_record(&now, &k->v, w->certifier, &j->model, j->x, e));
    const double then[] = {r->linf, r->l2, r->l1}, is[] = {now.linf, now.l2, now.l1};
    bool same = true;
    for (int i = 0; i < 3; i++) same = same && same_number(then[i], is[i]);
    if (now.status != r->status)
        snprintf(w->text, TEXT, "image %d is %s, the ledger says %s", r->image,
                 vt_record_status_name((vt_record_status)now.status),
                 vt_record_status_name((vt_record_status)r->status));
    else if (k->r->exact && (!same || now.forwards != r->forwards))
        snprintf(w->text, TEXT, "image %d has another certified radius or cost than the ledger says", r->image);
    return VT_OK;
}

/* Judges item `item`'s line on a thread; a difference is a text, not a failure. */
static vt_status judge_record(void *ctx, int thread, size_t item, vt_err *e) {
    job *k = ctx;
    worker *w = &k->workers[thread];
    const vt_record *r = &k->r->ledger->records[k->items[item]];
    int label;
    if (k->r->interrupt && *k->r->interrupt) return VT_INTERRUPTED;
    *w->text = 0, w->broken = w->borderline = w->open = w->moved = false;
    VT_TRY(vt_subject_image(k->r->subject, r->image, w->judge.x, &label, e));
    if (r->target >= w->judge.model.classes) {
        snprintf(w->text, TEXT, "image %d has the target %d, the model has the classes 0 to %d", r->image, r->target,
                 w->judge.model.classes - 1);
        return VT_OK;
    }
    if (label == r->label)
        return (r->entry == VT_ENTRY_CERTIFY ? judge_certificate : r->entry ? judge_point : judge_clean)(w, k, r, e);
    snprintf(w->text, TEXT, "image %d has label %d, the ledger says %d", r->image, label, r->label);
    return VT_OK;
}

/* Adds a judged line to findings and counts, in the order of items. */
static void commit_result(void *ctx, int thread, size_t item) {
    job *k = ctx;
    const worker *w = &k->workers[thread];
    const vt_record *r = &k->r->ledger->records[k->items[item]];
    if (*w->text) vt_findings_add(k->found, "%s", w->text);
    const bool proof = r->entry == VT_ENTRY_CERTIFY;
    k->r->clean += r->entry == VT_ENTRY_CLEAN, k->r->certificates += proof, k->r->points += r->entry && !proof;
    k->r->moved += w->moved;
    k->r->broken += w->broken, k->r->borderline += w->borderline, k->r->open += w->open;
    char note[48];
    snprintf(note, sizeof note, "findings %zu", k->found->n);
    vt_progress_step(&k->r->progress, item + 1, note);
}

/* Before any work: is every tensor there that a broken image needs? */
static vt_status tensors_there(const vt_ledger *l, vt_findings *found, vt_err *e) {
    int64_t bytes = (int64_t)(l->pixels * sizeof(float)), stored = 0;
    char at[100];
    for (size_t i = 0; i < l->count; i++) {
        const vt_record *r = &l->records[i];
        if (r->entry && vt_record_ends(r->status) && r->adv < 0)
            return vt_fail(e, VT_E_USAGE, "%s/ledger.jsonl: %s is %s, but its line names no tensor in adv.bin", l->dir,
                           describe_record(l, r, at), vt_record_status_name((vt_record_status)r->status));
        if (r->adv > l->adv_length - bytes && r->adv >= 0)
            return vt_fail(e, VT_E_USAGE, "%s/adv.bin has %lld bytes: the tensor of %s, at byte %lld, is missing",
                           l->dir, (long long)l->adv_length, describe_record(l, r, at), (long long)r->adv);
        stored += r->adv >= 0;
    }
    if (l->adv_length != stored * bytes)
        vt_findings_add(found, "adv.bin has %lld bytes, %lld tensors take %lld", (long long)l->adv_length,
                        (long long)stored, (long long)(stored * bytes));
    return VT_OK;
}

/* Reads norm and radius, or squares, and the seed from the header, of other threats nothing else; false: they are
 * missing. */
static bool read_threat(job *k, const vt_header *h) {
    const bool any = vt_header_is_threat(h); /* of any radius, whatever the header says of a ball */
    k->eps = any ? 1 : h->eps;
    k->seed = h->seed;
    k->patch = (vt_patch){.size = h->patch.size, .count = h->patch.count, .aligned = h->patch.aligned};
    return !isnan(h->eps) && (any || vt_norm_find(h->norm_name, &k->norm));
}

/* Opens the box of the run again: the file that has its hash. */
static vt_status open_box(job *k, vt_err *e) {
    const vt_ledger *l = k->r->ledger;
    const char *then = l->header->box, *path = k->r->box;
    const vt_config *m = &k->r->subject->model->config;
    if (!then) return VT_OK;
    if (!path) return vt_fail(e, VT_E_USAGE, "%s: run.json does not say where its box is: give @box FILE", l->dir);
    VT_TRY(vt_box_open(&k->box, path, e));
    if (strcmp(then, k->box.sha256))
        return vt_fail(e, VT_E_FORMAT, "%s is not the box of %s: its SHA-256 is %.16s..., the ledger says %.16s...",
                       path, l->dir, k->box.sha256, then);
    return vt_box_fit(&k->box, vt_subject_shape(k->r->subject), m->mean, m->std, e);
}

/* Opens the method of the run's certificates, with a state for each thread. */
static vt_status open_certifier(job *k, vt_err *e) {
    const vt_header *h = k->r->ledger->header;
    vt_err why = {0};
    if (!h->certify.method) return VT_OK;
    k->v = (vt_eval_options){.subject = k->r->subject, .norm = k->norm, .patch = k->patch, .eps = k->eps};
    k->v.eps_text = h->eps_text, k->v.seed = k->seed;
    vt_certifier *by = &k->v.certify;
    if (vt_certifier_parse(by, h->certify.method, &why) != VT_OK)
        return vt_fail(e, VT_E_FORMAT, "%s/ledger.jsonl: its certificates '%.80s' are none of this program: %s",
                       k->r->ledger->dir, h->certify.method, why.text);
    VT_TRY(by->def->prepare(&k->shared, by->params, &k->v, e));
    char sentence[VT_CERTIFIER_TEXT];
    by->def->sentence(by->params, &k->v, sentence, sizeof sentence);
    const char *said = h->certify.sentence ? h->certify.sentence : "";
    if (strcmp(sentence, said) != 0)
        return vt_fail(e, VT_E_FORMAT, "%s/ledger.jsonl: its certificates are said to mean '%.80s...', but mean '%s'",
                       k->r->ledger->dir, said, sentence);
    for (int i = 0; by->def->open && i < k->r->threads; i++)
        VT_TRY(by->def->open(&k->workers[i].certifier, k->shared, by->params, &k->v, e));
    return VT_OK;
}

/* Closes what open_certifier opened. */
static void close_certifier(job *k) {
    const vt_certifier_def *by = k->v.certify.def;
    if (!by) return;
    for (int i = 0; k->workers && by->open && i < k->r->threads; i++) by->close(k->workers[i].certifier);
    by->release(k->shared);
    vt_certifier_free(&k->v.certify);
}

/* Reads threat and seed from the header, lists the lines to judge, and opens a verifier for each thread. */
static vt_status prepare_job(job *k, vt_err *e) {
    const vt_ledger *l = k->r->ledger;
    char kernels[128];
    vt_gemm_kernels(kernels, sizeof kernels);
    k->r->exact =
        !k->r->subject->remote && !strcmp(kernels, l->header->kernels) && !strcmp(VT_COMPILER, l->header->compiler);
    if (!read_threat(k, l->header))
        return vt_fail(e, VT_E_FORMAT, "%s/ledger.jsonl: its header does not state norm and eps", l->dir);
    if (k->patch.size) VT_TRY(vt_patch_fit(&k->patch, &k->r->subject->model->config, k->r->subject->model->path, e));
    if (l->header->rotation.angles) VT_TRY(vt_rotation_fit(&l->header->rotation, vt_subject_shape(k->r->subject), e));
    VT_TRY(open_box(k, e));
    k->items = calloc(l->count + 1, sizeof *k->items);
    k->workers = calloc((size_t)k->r->threads, sizeof *k->workers);
    if (!k->items || !k->workers) return vt_fail(e, VT_E_MEMORY, "%s: no memory to check it", l->dir);
    for (size_t i = 0; i < l->count; i++)
        if (l->records[i].entry == VT_ENTRY_CLEAN || l->records[i].entry == VT_ENTRY_CERTIFY || l->records[i].adv >= 0)
            k->items[k->n++] = i;
    for (int i = 0; i < k->r->threads; i++) {
        worker *w = &k->workers[i];
        VT_TRY(vt_verifier_open(&w->judge, k->r->subject, e));
        if (k->box.path && !(w->bounds = vt_alloc(2 * w->judge.model.pixels * sizeof(float))))
            return vt_fail(e, VT_E_MEMORY, "no memory for one more thread");
    }
    return open_certifier(k, e);
}

vt_status vt_verify_run(vt_run_verifier *r, vt_findings *found, vt_err *e) {
    job k = {.r = r, .found = found};
    int64_t images;
    VT_TRY(vt_result_index_finished(r->ledger, &images, e));
    VT_TRY(tensors_there(r->ledger, found, e));
    vt_status s = prepare_job(&k, e);
    if (s == VT_OK) {
        vt_progress_begin(&r->progress, "verify", 0, k.n);
        s = vt_for_each_in_order(k.n, r->threads, judge_record, commit_result, &k, e);
        vt_progress_end(&r->progress, "done");
    }
    close_certifier(&k);
    for (int i = 0; k.workers && i < r->threads; i++) vt_verifier_close(&k.workers[i].judge), free(k.workers[i].bounds);
    vt_box_close(&k.box);
    free(k.workers), free(k.items);
    return s;
}
