/* SPDX-License-Identifier: MIT */
/* Lipschitz bounds of the network (certify/lipschitz.h): the largest l2 radius within which the class is the image's.
 */
#include <stdio.h>
#include <stdlib.h>
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
    (void)with;
    VT_TRY(vt_certifier_network("lipschitz", VT_L2, v, e));
    network *w = *shared = calloc(1, sizeof *w);
    if (!w) return vt_fail(e, VT_E_MEMORY, "no memory for bounds");
    VT_TRY(vt_model_network(&w->n, v->subject->model, e));
    return vt_lipschitz_open(&w->by, w->n->g, &(vt_certify_options){.norm = VT_CERTIFY_L2}, e);
}

/* A worker's bounds, and the image in double. */
typedef struct state {
    vt_lipschitz *by;
    vt_certifier_image image;
} state;

static void close_state(void *self) {
    state *s = self;
    if (s) vt_lipschitz_close(s->by), free(s->image.x);
    free(s);
}

/* Sets *self to one thread's copy of the network's Lipschitz bounds; VT_E_MEMORY. */
static vt_status open_state(void **self, const void *shared, const void *with, const vt_eval_options *v, vt_err *e) {
    const network *w = shared;
    state *s = *self = calloc(1, sizeof *s);
    (void)with;
    if (!s) return vt_fail(e, VT_E_MEMORY, "no memory for bounds");
    VT_TRY(vt_certifier_image_open(&s->image, v, e));
    return vt_lipschitz_copy(&s->by, w->by, e);
}

/* Certifies one image. */
static vt_status certify_one(void *self, const vt_classifier *c, const vt_rng *key, const float *x, int32_t label,
                             vt_certificate *out, vt_err *e) {
    state *s = self;
    vt_certified r;
    (void)c, (void)key;
    const int output = vt_certifier_image_set(&s->image, x, label);
    VT_TRY(vt_lipschitz_point(s->by, s->image.x, output, &r, e));
    *out = (vt_certificate){.certified = r.radius >= s->image.eps && r.radius > 0, .radius = r.radius, .forwards = 1};
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
