/* SPDX-License-Identifier: MIT */
/* Probes: the network cut off behind some of its blocks, each with a linear head fitted to the network's own answers
 * (ridge regression on its predictions; Alain and Bengio 2017 for the idea). A mask that was put on top of a working
 * network leaves that network inside: what is found on a probe and breaks the model too did not need the model's
 * gradients. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/mem.h"
#include "core/svd.h"
#include "selftest/tools.h"

#define RIDGE 0.01 /* times the mean squared length of the standardised features */
enum { IMAGES = 64, MIXES = 32, SAMPLES = IMAGES + MIXES };

typedef struct fit {
    int n, classes;
    float *x;    /* [n, pixels] */
    int *answer; /* [n] the network's prediction */
    float *features;
    double *gram, *work, *target; /* [n, n], [n, n], [n] */
    double *head, *bias;          /* [classes, phi], [classes] */
} fit;

static void fit_free(fit *f) {
    void *blocks[] = {f->x, f->answer, f->features, f->gram, f->work, f->target, f->head, f->bias};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) free(blocks[i]);
}

static vt_status fit_open(fit *f, size_t pixels, size_t phi, int classes, vt_err *e) {
    size_t n = SAMPLES, k = (size_t)classes;
    *f = (fit){.classes = classes};
    f->x = vt_alloc(n * pixels * sizeof *f->x), f->answer = calloc(n, sizeof *f->answer);
    f->features = vt_alloc(n * phi * sizeof *f->features);
    f->gram = vt_alloc(n * n * sizeof *f->gram), f->work = vt_alloc(n * n * sizeof *f->work);
    f->target = vt_alloc(n * sizeof *f->target);
    f->head = vt_alloc(k * phi * sizeof *f->head), f->bias = vt_alloc(k * sizeof *f->bias);
    if (f->x && f->answer && f->features && f->gram && f->work && f->target && f->head && f->bias) return VT_OK;
    return vt_fail(e, VT_E_MEMORY, "no memory for the self-test's probes");
}

/* Images of the data set, spread over it, and the middles between two of them; and the network's answers. No label is
 * looked at. */
static vt_status gather_samples(fit *f, vt_selftest_worker *g, vt_err *e) {
    const vt_eval_options *v = g->t->v;
    int ignored, images = v->subject->data->count < IMAGES ? (int)v->subject->data->count : IMAGES;
    size_t n = g->pixels;
    for (int i = 0; i < images; i++)
        VT_TRY(vt_subject_image(v->subject, (int32_t)((int64_t)i * (int64_t)v->subject->data->count / images),
                                f->x + (size_t)i * n, &ignored, e));
    f->n = images > 1 ? images + MIXES : images;
    for (int i = images; i < f->n; i++) {
        const float *a = f->x + (size_t)(i * 7 % images) * n, *b = f->x + (size_t)((i * 7 + i / 7 + 1) % images) * n;
        for (size_t k = 0; k < n; k++) f->x[(size_t)i * n + k] = (a[k] + b[k]) / 2;
    }
    for (int i = 0; i < f->n; i++) {
        vt_selftest_worker_logits(g, &g->model.c, f->x + (size_t)i * n, g->z, false);
        f->answer[i] = vt_argmax_f32(g->z, g->classes);
    }
    return VT_OK;
}

/* Rows of features to mean 0 and deviation 1, column by column; mean and 1/deviation [phi]. */
static void standardise_features(const fit *f, size_t phi, double *mean, double *inverse) {
    vt_standardise(mean, inverse, f->features, f->n, phi);
    for (size_t i = 0; i < (size_t)f->n * phi; i++)
        f->features[i] = (float)(((double)f->features[i] - mean[i % phi]) * inverse[i % phi]);
}

/* head, bias: ridge regression of (is it class c?) - 1/classes on the standardised features, in its dual form; a class
 * that is nobody's answer stays below all others. */
static vt_status fit_ridge_head(fit *f, size_t phi, const double *mean, const double *inverse, vt_err *e) {
    int n = f->n;
    for (int i = 0; i < n; i++)
        for (int k = 0; k <= i; k++) {
            double s = 0;
            const float *a = f->features + (size_t)i * phi, *b = f->features + (size_t)k * phi;
            for (size_t j = 0; j < phi; j++) s += (double)a[j] * (double)b[j];
            f->gram[i * n + k] = f->gram[k * n + i] = s + 1 + (i == k ? RIDGE * (double)phi : 0);
        }
    for (int c = 0; c < f->classes; c++) {
        double *w = f->head + (size_t)c * phi, alpha = 0, members = 0;
        for (int i = 0; i < n; i++) f->target[i] = (f->answer[i] == c) - 1.0 / f->classes, members += f->answer[i] == c;
        memset(w, 0, phi * sizeof *w);
        f->bias[c] = -2;
        if (members == 0) continue;
        memcpy(f->work, f->gram, (size_t)n * (size_t)n * sizeof *f->work);
        VT_TRY(vt_solve_positive(f->target, f->work, n, e));
        for (int i = 0; i < n; i++) {
            alpha += f->target[i];
            for (size_t j = 0; j < phi; j++) w[j] += f->target[i] * (double)f->features[(size_t)i * phi + j];
        }
        f->bias[c] = alpha;
        for (size_t j = 0; j < phi; j++) w[j] *= inverse[j], f->bias[c] -= w[j] * mean[j];
    }
    return VT_OK;
}

/* *out: the network behind block `depth` with the fitted head; NULL where it cannot be cut there. */
static vt_status make_probe(vt_model **out, fit *f, vt_selftest_worker *g, int depth, vt_err *e) {
    const vt_model *m = g->t->v->subject->model;
    vt_model *bare = NULL;
    vt_classifier seen = {0};
    size_t phi = vt_feature_count(m);
    double *mean = vt_alloc(2 * phi * sizeof *mean);
    *out = NULL;
    vt_status s = mean ? vt_cut_behind(&bare, m, depth, (int)phi, e) : vt_fail(e, VT_E_MEMORY, "no memory for a probe");
    if (s == VT_OK && bare) {
        vt_head_set(bare, NULL, NULL, (int)phi, phi);
        s = vt_classifier_open(&seen, bare, e);
    }
    for (int i = 0; s == VT_OK && bare && i < f->n; i++) {
        s = vt_classifier_logits(&seen, f->x + (size_t)i * g->pixels, f->features + (size_t)i * phi, false, e);
        g->forwards += (double)depth / m->config.depth;
    }
    if (s == VT_OK && bare) {
        standardise_features(f, phi, mean, mean + phi);
        s = fit_ridge_head(f, phi, mean, mean + phi, e);
    }
    if (s == VT_OK && bare) s = vt_cut_behind(out, m, depth, f->classes, e);
    if (s == VT_OK && bare) vt_head_set(*out, f->head, f->bias, f->classes, phi);
    vt_classifier_close(&seen);
    vt_model_close(bare);
    free(mean);
    return s;
}

vt_status vt_probes_make(vt_selftest_worker *g, vt_err *e) {
    const vt_model *m = g->t->v->subject->model;
    int depth = m->config.depth, last = 0;
    fit f;
    vt_status s = fit_open(&f, g->pixels, vt_feature_count(m), g->classes, e);
    if (s == VT_OK) s = gather_samples(&f, g, e);
    for (int i = 0; s == VT_OK && i < VT_PROBES; i++) { /* from the last block down, evenly */
        int cut = depth - i * depth / VT_PROBES;
        if (cut != last) s = make_probe(&g->probe[i].own, &f, g, cut, e);
        last = cut;
    }
    fit_free(&f);
    return s == VT_OK ? vt_selftest_worker_said(g, e) : s;
}
