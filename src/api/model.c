/* SPDX-License-Identifier: MIT */
/* The public handle of a model: a checkpoint, one in another process, or the caller's own; its logits and vjps. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "api/api.h"
#include "base/hash.h"
#include "base/mem.h"
#include "parallel/threads.h"
#include "eval/args.h"
#include "eval/prepare.h"
#include "checkpoint/provenance.h"

static const vt_arg known_options[] = {VT_MODEL_ARGS, VT_ATTACK_AT_ARG, {0}};

vt_status vt_api_known(const vt_model *m, char *text, size_t size, vt_err *e) {
    char what[1000], options[700], *at = options;
    *text = 0;
    if (vt_model_missing(m, what, sizeof what, options, sizeof options)) {
        while ((at = strstr(at, " --"))) { /* " heads 4" is our "heads=4" */
            memmove(at + 1, at + 3, strlen(at + 2));
            at += 1 + strcspn(at + 1, " ");
            if (*at) *at++ = '=';
        }
        return vt_fail(e, VT_E_USAGE,
                       "%s: neither its tensors nor anything beside them tell %s: give what is true, as the options%s",
                       m->path, what, options);
    }
    const char *parts = vt_model_part_text(m, what, sizeof what) ? what : "";
    vt_model_assumed(m, options, sizeof options);
    snprintf(text, size, "%s%s%s", parts, *parts && *options ? "; " : "", options);
    return VT_OK;
}

vt_status vt_api_known_say(void *listener, const vt_model *m, bool other, vt_err *e) {
    const vitrine_listener *l = listener;
    (void)other;
    char text[1000], line[1500];
    VT_TRY(vt_api_known(m, text, sizeof text, e));
    snprintf(line, sizeof line, "%.400s: assumed, not in the file: %s", m->path, text);
    if (*text && l && l->say) l->say(l->ctx, line);
    return VT_OK;
}

/* ---- opening ---- */

/* Returns an empty handle; NULL: no memory, with e set to VT_E_MEMORY. */
static vitrine_model *new_model(vt_err *e) {
    vitrine_model *m = calloc(1, sizeof *m);
    if (m)
        pthread_mutex_init(&m->own.lock, NULL);
    else
        vt_fail(e, VT_E_MEMORY, "no memory for a model");
    return m;
}

/* Hands the opened model over to *out, or closes it after a failure; returns the public status. */
static vitrine_status finish_opening(vitrine_model **out, vitrine_model *m, vt_status s, const vt_err *why,
                                     vitrine_err *e) {
    if (s == VT_OK)
        *out = m;
    else
        vitrine_close(m);
    return vt_api_end(e, s, why);
}

/* Opens a checkpoint as m->subject.model, to be closed with m, and sets m->assumed. VT_E_USAGE: open settings, or
 * options not read. */
static vt_status open_checkpoint(vitrine_model *m, const char *path, const vt_choices *c, vt_err *e) {
    vt_overrides o;
    VT_TRY(vt_prepare_overrides(c, &o, e));
    VT_TRY(vt_prepare_open(&m->subject.model, path, &o, e));
    VT_TRY(vt_api_known(m->subject.model, m->assumed, sizeof m->assumed, e));
    return vt_prepare_attack_at(c, m->subject.model, 0, e);
}

vitrine_status vitrine_open(vitrine_model **out, const char *path, const char *const *options, vitrine_err *e) {
    if (out) *out = NULL;
    VT_API_NEEDS(out, path);
    vt_err why = {0};
    vitrine_model *m = new_model(&why);
    vt_api_options *o = m ? malloc(sizeof *o) : NULL;
    vt_status s = o ? vt_api_options_read(o, __func__, options, known_options, &why) : VT_E_MEMORY;
    if (s == VT_OK) s = open_checkpoint(m, path, &o->c, &why);
    if (o) vt_api_options_free(o);
    free(o);
    return finish_opening(out, m, s, &why, e);
}

vitrine_status vitrine_connect(vitrine_model **out, const char *where, double timeout, vitrine_err *e) {
    if (out) *out = NULL;
    VT_API_NEEDS(out, where);
    if (!(timeout >= 0.1) || !(timeout <= 1e6))
        return vt_api_usage(e, "%s: timeout is %g, must be seconds, from 0.1 to 1e6", __func__, timeout);
    char text[40];
    vt_err why = {0};
    vt_choices c = {.n = 0};
    snprintf(text, sizeof text, "%.17g", timeout);
    vt_choose(&c, "oracle-timeout", text);
    vitrine_model *m = new_model(&why);
    vt_status s = m ? vt_subject_remote(&m->subject.remote, &m->subject.model, &c, where, &why) : VT_E_MEMORY;
    return finish_opening(out, m, s, &why, e);
}

vt_shape vt_api_own_shape(const vitrine_classifier *c) { return (vt_shape){c->channels, c->height, c->width}; }

/* Fails with VITRINE_E_USAGE for images without channels or sides, or larger than the library takes. */
static vitrine_status check_shape(vt_shape s, const char *who, vitrine_err *e) {
    bool good = s.channels >= 1 && s.channels <= VT_SHAPE_CHANNELS && s.height >= 1 && s.height <= VT_SHAPE_SIDE &&
                s.width >= 1 && s.width <= VT_SHAPE_SIDE && vt_shape_values(s) <= VT_SHAPE_VALUES;
    if (good) return VITRINE_OK;
    return vt_api_usage(e,
                        "%s: its images are " VT_CHW
                        ", must have 1 to %d channels, sides of 1 to %d and at most %d values",
                        who, VT_CHW_OF(s), VT_SHAPE_CHANNELS, VT_SHAPE_SIDE, VT_SHAPE_VALUES);
}

vitrine_status vitrine_own(vitrine_model **out, const vitrine_classifier *c, vitrine_err *e) {
    enum { CLASSES = 1 << 20, BATCH = 1 << 16 };
    if (out) *out = NULL;
    VT_API_NEEDS(out, c);
    VT_API_SIZED(c, "size", vitrine_classifier);
    if (!c->logits) return vt_api_usage(e, "%s: c->logits is NULL", __func__);
    if (c->classes < 2 || c->classes > CLASSES)
        return vt_api_usage(e, "%s: classes is %d, must be 2 to %d", __func__, c->classes, CLASSES);
    vitrine_status shaped = check_shape(vt_api_own_shape(c), __func__, e);
    if (shaped != VITRINE_OK) return shaped;
    if (c->batch < 1 || c->batch > BATCH)
        return vt_api_usage(e, "%s: batch is %d, must be 1 to %d", __func__, c->batch, BATCH);
    const char *name = c->name ? c->name : "the caller's classifier";
    char sha[65];
    vt_sha_hex(name, strlen(name), sha);
    vt_err why = {0};
    vitrine_model *m = new_model(&why);
    vt_status s = m ? vt_subject_described(&m->subject, vt_api_own_shape(c), c->classes, sha, name, &why) : VT_E_MEMORY;
    if (s == VT_OK) {
        m->own.c = *c, m->own.c.name = m->subject.model->path;
        m->source = vt_api_own_source(&m->own);
        m->subject.own = &m->source;
    }
    return finish_opening(out, m, s, &why, e);
}

void vitrine_close(vitrine_model *m) {
    if (!m) return;
    vt_subject_close(&m->subject);
    pthread_mutex_destroy(&m->own.lock);
    free(m);
}

int vitrine_classes(const vitrine_model *m) { return m ? m->subject.model->config.classes : 0; }
static vt_shape shape_of(const vitrine_model *m) { return m ? vt_subject_shape(&m->subject) : (vt_shape){0, 0, 0}; }
int vitrine_side(const vitrine_model *m) { return vt_shape_side(shape_of(m)); }
int vitrine_channels(const vitrine_model *m) { return shape_of(m).channels; }
int vitrine_height(const vitrine_model *m) { return shape_of(m).height; }
int vitrine_width(const vitrine_model *m) { return shape_of(m).width; }
size_t vitrine_pixels(const vitrine_model *m) { return m ? vt_subject_pixels(&m->subject) : 0; }
const char *vitrine_sha256(const vitrine_model *m) { return m ? m->subject.model->sha256 : ""; }
const char *vitrine_assumed(const vitrine_model *m) { return m ? m->assumed : ""; }

/* ---- logits and vjps ---- */

/* One call: images in parts of `rows`, each asked by one thread's engine. */
typedef struct job {
    const vitrine_model *m;
    size_t n, pixels, classes;
    const float *x, *dz;
    float *z, *dx; /* dx NULL: logits alone */
    int rows;
    vt_engine *engines; /* [threads] */
} job;

typedef struct part {
    const float **x;
    float **z;
    vt_vjp *want;
    float *scratch; /* [rows, classes] for logits that are not wanted */
} part;

/* Computes logits (into p->scratch if j->z is NULL), and with j->dx gradients, of up to j->rows images from number
 * `from` on. */
static vt_status compute_part(const job *j, const vt_engine *n, const part *p, size_t from, vt_err *e) {
    for (int i = 0; i < j->rows; i++) {
        size_t at = from + (size_t)i;
        bool there = at < j->n;
        p->x[i] = there ? j->x + at * j->pixels : NULL;
        p->z[i] = !there ? NULL : j->z ? j->z + at * j->classes : p->scratch + (size_t)i * j->classes;
        p->want[i] = (vt_vjp){0};
        if (there && j->dx) p->want[i].dx = j->dx + at * j->pixels, p->want[i].dz = j->dz + at * j->classes;
    }
    VT_TRY(vt_engine_forward(n, p->z, p->x, j->dx != NULL, e));
    return j->dx ? vt_engine_vjp(n, p->want, e) : VT_OK;
}

/* Computes part `item` on a thread's engine, which it opens at first use. */
static vt_status one_part(void *ctx, int thread, size_t item, vt_err *e) {
    const job *j = ctx;
    size_t rows = (size_t)j->rows;
    part p = {calloc(rows, sizeof *p.x), calloc(rows, sizeof *p.z), calloc(rows, sizeof *p.want),
              calloc(rows * j->classes, sizeof(float))};
    vt_status s = p.x && p.z && p.want && p.scratch ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for %zu images", rows);
    if (s == VT_OK && !j->engines[thread].self)
        s = vt_subject_engine(&j->engines[thread], &j->m->subject, NULL, j->rows, false, e);
    if (s == VT_OK) s = compute_part(j, &j->engines[thread], &p, item * rows, e);
    free(p.x), free(p.z), free(p.want), free(p.scratch);
    return s;
}

/* Computes all parts, on up to `threads` threads (0: all processors); sets j->rows to what an engine takes, at most
 * 64. */
static vt_status run_job(job *j, int threads, vt_err *e) {
    enum { MOST = 64 };
    const vt_subject *s = &j->m->subject;
    int takes = vt_subject_takes(s);
    j->rows = takes < MOST ? takes : MOST;
    if (!s->own && !s->remote) j->rows = 1;
    if ((size_t)j->rows > j->n) j->rows = (int)j->n;
    size_t parts = (j->n + (size_t)j->rows - 1) / (size_t)j->rows;
    VT_TRY(vt_api_threads(j->m, threads, &threads, e));
    if ((size_t)threads > parts) threads = (int)parts;
    j->engines = calloc((size_t)threads, sizeof *j->engines);
    if (!j->engines) return vt_fail(e, VT_E_MEMORY, "no memory for %d threads", threads);
    vt_status st = vt_for_each(parts, threads, one_part, j, e);
    for (int i = 0; i < threads; i++) vt_engine_close(&j->engines[i]);
    free(j->engines);
    return st;
}

/* Computes logits or, with j->dx, vector-Jacobian products of j->n images. VITRINE_E_USAGE: n is out of range;
 * VITRINE_E_FORBIDDEN: the model gives no gradients. */
static vitrine_status ask(const char *who, job *j, int threads, vitrine_err *e) {
    const vitrine_model *m = j->m;
    vt_err why = {0};
    size_t bytes;
    j->pixels = vitrine_pixels(m), j->classes = (size_t)vitrine_classes(m);
    if (!j->n || j->n > INT32_MAX || !vt_mul(j->n, j->pixels * sizeof(float), &bytes) || bytes > PTRDIFF_MAX)
        return vt_api_usage(e, "%s: n is %zu, must be 1 to %d images", who, j->n, INT32_MAX);
    vt_status s = j->dx && !vt_subject_differentiable(&m->subject)
                      ? vt_fail(&why, VT_E_FORBIDDEN, "the model %.300s gives no gradients", m->subject.model->path)
                      : run_job(j, threads, &why);
    return vt_api_end(e, s, &why);
}

vitrine_status vitrine_logits(const vitrine_model *m, size_t n, const float *x, float *z, int threads, vitrine_err *e) {
    VT_API_NEEDS(m, x, z);
    return ask(__func__, &(job){.m = m, .n = n, .x = x, .z = z}, threads, e);
}

vitrine_status vitrine_vjp(const vitrine_model *m, size_t n, const float *x, const float *dz, float *dx, int threads,
                           vitrine_err *e) {
    VT_API_NEEDS(m, x);
    VT_API_NEEDS(dz, dx);
    return ask(__func__, &(job){.m = m, .n = n, .x = x, .dz = dz, .dx = dx}, threads, e);
}
