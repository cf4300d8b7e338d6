/* SPDX-License-Identifier: MIT */
/* Probes: the network cut off after some of its blocks, each with a linear head fitted to the network's own answers
 * (ridge regression on its predictions; Alain and Bengio 2017 for the idea). A mask that was put on top of a working
 * network leaves that network inside: what is found on a probe and breaks the model too did not need the model's
 * gradients. */
#include <stdlib.h>
#include <string.h>
#include "graph/parts.h"
#include "linalg/svd.h"
#include "selftest/tools.h"

#define RIDGE 0.01 /* times the mean squared length of the standardised features */
enum { IMAGES = 64, MIXES = 32, SAMPLES = IMAGES + MIXES };

typedef struct fit {
    int n, classes;
    int answer[SAMPLES]; /* [n] the network's prediction */
    double gram[SAMPLES * SAMPLES], work[SAMPLES * SAMPLES], target[SAMPLES];
    double *head, *bias, *mean, *inverse; /* [classes, phi], [classes], [phi], [phi] */
    float *x, *features;                  /* [n, pixels], [n, phi] */
    double block[];                       /* of all these */
} fit;

/* Allocates a fit in one block, to be freed; NULL: no memory. */
static fit *fit_new(size_t pixels, size_t phi, int classes) {
    size_t n = SAMPLES, k = (size_t)classes;
    fit *f = calloc(1, sizeof *f + (k * phi + k + 2 * phi) * sizeof *f->block + n * (pixels + phi) * sizeof *f->x);
    if (!f) return NULL;
    f->classes = classes;
    f->head = f->block, f->bias = f->head + k * phi, f->mean = f->bias + k, f->inverse = f->mean + phi;
    f->x = (float *)(f->inverse + phi), f->features = f->x + n * pixels;
    return f;
}

/* Fills f with images of the data set, spread over it, and the middles between two of them, and with the network's
 * answers. No label is looked at. */
static vt_status gather_samples(fit *f, vt_tester *g, vt_err *e) {
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
        vt_tester_logits(g, &g->model.c, f->x + (size_t)i * n, g->z, false);
        f->answer[i] = vt_argmax_f32(g->z, g->classes);
    }
    return VT_OK;
}

/* Standardises the features to mean 0 and deviation 1, column by column. */
static void standardise_features(fit *f, size_t phi) {
    vt_standardise(f->mean, f->inverse, f->features, f->n, phi);
    for (size_t i = 0; i < (size_t)f->n * phi; i++)
        f->features[i] = (float)(((double)f->features[i] - f->mean[i % phi]) * f->inverse[i % phi]);
}

/* Fits head and bias: ridge regression of (is it class c?) - 1/classes on the standardised features, in its dual form;
 * a class that is never predicted stays below all others. */
static vt_status fit_ridge_head(fit *f, size_t phi, vt_err *e) {
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
        for (size_t j = 0; j < phi; j++) w[j] *= f->inverse[j], f->bias[c] -= w[j] * f->mean[j];
    }
    return VT_OK;
}

/* Fills f->features with what `bare`, the network up to block `depth` without a head, makes of the samples. */
static vt_status gather_features(fit *f, vt_tester *g, int depth, const vt_model *bare, vt_err *e) {
    const size_t phi = vt_feature_count(bare);
    vt_classifier seen = {0};
    vt_status s = vt_classifier_open(&seen, bare, e);
    for (int i = 0; s == VT_OK && i < f->n; i++) {
        s = vt_classifier_logits(&seen, f->x + (size_t)i * g->pixels, f->features + (size_t)i * phi, false, e);
        g->forwards += (double)depth / g->t->v->subject->model->config.depth;
    }
    vt_classifier_close(&seen);
    return s;
}

/* Makes the network up to block `depth` with a fitted head; *out NULL: it cannot be cut there. */
static vt_status make_probe(vt_model **out, fit *f, vt_tester *g, int depth, vt_err *e) {
    const vt_model *m = g->t->v->subject->model;
    vt_model *bare;
    *out = NULL;
    const size_t phi = m->config.network ? vt_network_features(m->config.network, depth - 1) : g->phi;
    VT_TRY(vt_cut_behind(&bare, m, depth, (int)phi, e));
    if (!bare) return VT_OK;
    vt_head_set(bare, NULL, NULL, (int)phi, phi);
    vt_status s = gather_features(f, g, depth, bare, e);
    vt_model_close(bare);
    VT_TRY(s);
    standardise_features(f, phi);
    VT_TRY(fit_ridge_head(f, phi, e));
    VT_TRY(vt_cut_behind(out, m, depth, f->classes, e));
    vt_head_set(*out, f->head, f->bias, f->classes, phi);
    return VT_OK;
}

vt_status vt_probes_make(vt_tester *g, vt_err *e) {
    const vt_model *m = g->t->v->subject->model;
    int depth = m->config.depth, last = 0;
    size_t most = g->phi;
    for (int k = 0; m->config.network && k < depth; k++)
        most = vt_network_features(m->config.network, k) > most ? vt_network_features(m->config.network, k) : most;
    fit *f = fit_new(g->pixels, most, g->classes);
    if (!f) return vt_fail(e, VT_E_MEMORY, "no memory for the self-test's probes");
    vt_status s = gather_samples(f, g, e);
    for (int i = 0; s == VT_OK && i < VT_PROBES; i++) { /* from the last block down, evenly */
        int cut = depth - i * depth / VT_PROBES;
        if (cut != last) s = make_probe(&g->probe[i].own, f, g, cut, e);
        last = cut;
    }
    free(f);
    return s == VT_OK ? vt_tester_failure(g, e) : s;
}
