/* SPDX-License-Identifier: MIT */
/* Lipschitz bounds of the network (certify/lipschitz.h): the largest l2 radius within which the class is the image's.
 */
#include <stdio.h>
#include <stdlib.h>
#include "base/mem.h"
#include "certify/lipschitz.h"
#include "eval/certifier.h"
#include "eval/options.h"
#include "models/export/export.h"

static const vt_opt opts[] = {VT_OPT_END};

/* The network of single operators, with the norms of its layers. */
typedef struct network {
    vt_network *n;
    vt_lipschitz *by;
} network;

static void release_network(void *shared) {
    network *w = shared;
    if (w) vt_lipschitz_close(w->by), vt_network_close(w->n);
    free(w);
}

/* Refuses what the bounds do not know, and computes the norms. */
static vt_status prepare_network(void **shared, const void *with, const vt_eval_options *v, vt_err *e) {
    const vt_subject *s = v->subject;
    (void)with;
    if (v->patch.size || v->norm != VT_L2)
        return vt_fail(e, VT_E_USAGE, "@certify lipschitz knows l2 alone, the threat is %s",
                       v->patch.size ? "a patch" : vt_norm_name(v->norm));
    if (s->wrap.def)
        return vt_fail(e, VT_E_USAGE, "@certify lipschitz bounds the network itself: it knows no wrap %s",
                       s->wrap.def->name);
    if (vt_subject_is_remote(s))
        return vt_fail(e, VT_E_USAGE,
                       "@certify lipschitz bounds what is inside a network, which a model in another process does not "
                       "show");
    network *w = *shared = calloc(1, sizeof *w);
    if (!w) return vt_fail(e, VT_E_MEMORY, "no memory for bounds");
    VT_TRY(vt_model_network(&w->n, s->model, e));
    return vt_lipschitz_open(&w->by, w->n->g, &(vt_certify_options){.norm = VT_CERTIFY_L2}, e);
}

/* A worker's bounds, and the image in double. */
typedef struct state {
    vt_lipschitz *by;
    double *x, eps;
    const int *head; /* output of each class; NULL: the same */
    size_t n;
} state;

static void close_state(void *self) {
    state *s = self;
    if (s) vt_lipschitz_close(s->by), free(s->x);
    free(s);
}

static vt_status open_state(void **self, const void *shared, const void *with, const vt_eval_options *v, vt_err *e) {
    const network *w = shared;
    state *s = *self = calloc(1, sizeof *s);
    (void)with;
    if (!s) return vt_fail(e, VT_E_MEMORY, "no memory for bounds");
    s->n = vt_subject_pixels(v->subject), s->eps = v->eps;
    s->head = v->subject->data->restricted ? v->subject->data->head : NULL;
    s->x = vt_alloc(s->n * sizeof *s->x);
    return s->x ? vt_lipschitz_copy(&s->by, w->by, e) : vt_fail(e, VT_E_MEMORY, "no memory for bounds");
}

/* Certifies one image; with restricted classes the label wins against all outputs, which is more than is asked. */
static vt_status certify_one(void *self, const vt_classifier *c, const vt_rng *key, const float *x, int32_t label,
                             vt_certificate *out, vt_err *e) {
    state *s = self;
    vt_certified r;
    (void)c, (void)key;
    for (size_t i = 0; i < s->n; i++) s->x[i] = (double)x[i];
    VT_TRY(vt_lipschitz_point(s->by, s->x, s->head ? s->head[label] : label, &r, e));
    *out = (vt_certificate){.certified = r.radius >= s->eps && r.radius > 0, .radius = r.radius, .forwards = 1};
    return VT_OK;
}

static void write_sentence(const void *with, const vt_eval_options *v, char *text, size_t size) {
    (void)with;
    snprintf(text, size,
             "certified by Lipschitz bounds: the plain classifier%s gives no other class within l2 eps %s; proven, not "
             "estimated; %s",
             v->subject->model->config.network ? "" : " (as the graph that vitrine convert writes)", v->eps_text,
             vt_certify_arithmetic);
}

const vt_certifier_def vt_certifier_def_lipschitz = {
    .name = "lipschitz",
    .summary = "Lipschitz bounds of the network, for l2 (docs/certify.md)",
    .reference = "Tsuzuku et al. 2018; Delattre et al. 2023",
    .params_size = 0,
    .opts = opts,
    .prepare = prepare_network,
    .release = release_network,
    .open = open_state,
    .close = close_state,
    .image = certify_one,
    .sentence = write_sentence,
};
