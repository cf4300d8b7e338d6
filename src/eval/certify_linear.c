/* SPDX-License-Identifier: MIT */
/* Linear bounds of the network (certify/certify.h): is every input within linf eps, in [0,1], of the image's class? */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "certify/certify.h"
#include "eval/certifier.h"
#include "eval/options.h"
#include "models/export/export.h"

typedef struct params {
    int boxes;
    bool refine, intervals;
} params;

static const vt_opt opts[] = {
    VT_OPT_I("boxes", params, boxes, "bounds that may be computed for one image, whose box is halved if it is small",
             500, 2, 1e9),
    VT_OPT_B("refine", params, refine,
             "improve bounds of larger images by gradient steps and cuts: many times the work", 0),
    VT_OPT_B("intervals", params, intervals,
             "interval bounds alone, which networks of objective ibp were trained for: thousands of times faster", 0),
    VT_OPT_END,
};

/* A worker's bounds, and the image in double. */
typedef struct state {
    vt_certify *by;
    vt_certifier_image image;
} state;

/* Refuses what the bounds do not know, and makes the network of single operators, *shared. */
static vt_status prepare_network(void **shared, const void *with, const vt_eval_options *v, vt_err *e) {
    (void)with;
    VT_TRY(vt_certifier_network("linear", VT_LINF, v, e));
    vt_certify *by = NULL;
    vt_network *n;
    VT_TRY(vt_model_network(&n, v->subject->model, e));
    vt_status st = vt_certify_open(&by, n->g, &(vt_certify_options){.threads = 1}, e);
    vt_certify_close(by);
    *shared = n;
    return st;
}

static void release_network(void *shared) { vt_network_close(shared); }

static void close_state(void *self) {
    state *s = self;
    if (s) vt_certify_close(s->by), free(s->image.x);
    free(s);
}

/* Sets *self to one thread's bounds over the network's graph, made for the run's radius; VT_E_MEMORY. */
static vt_status open_state(void **self, const void *shared, const void *with, const vt_eval_options *v, vt_err *e) {
    const vt_network *n = shared;
    const params *p = with;
    const vt_certify_options o = {.radius = v->eps,
                                  .seconds = INFINITY,
                                  .boxes = p->boxes,
                                  .plain = !p->refine,
                                  .intervals = p->intervals,
                                  .threads = 1,
                                  .interrupt = v->interrupt};
    state *s = *self = calloc(1, sizeof *s);
    if (!s) return vt_fail(e, VT_E_MEMORY, "no memory for bounds");
    VT_TRY(vt_certifier_image_open(&s->image, v, e));
    return vt_certify_open(&s->by, n->g, &o, e);
}

/* Certifies one image. */
static vt_status certify_one(void *self, const vt_classifier *c, const vt_rng *key, const float *x, int32_t label,
                             vt_certificate *out, vt_err *e) {
    state *s = self;
    vt_certified r;
    (void)c, (void)key;
    const int output = vt_certifier_image_set(&s->image, x, label);
    VT_TRY(vt_certify_point(s->by, s->image.x, output, &r, e));
    out->certified = r.radius >= s->image.eps, out->forwards = r.boxes;
    if (out->certified) out->radius = r.radius;
    return VT_OK;
}

static void write_sentence(const void *with, const vt_eval_options *v, char *text, size_t size) {
    (void)with;
    snprintf(text, size,
             "certified by linear bounds: the plain classifier%s gives no other class within linf eps %s in [0,1]; "
             "proven, not estimated; %s",
             v->subject->model->config.network ? "" : " (as the graph that vitrine convert writes)", v->eps_text,
             vt_certify_arithmetic);
}

const vt_certifier_def vt_certifier_def_linear = {
    .name = "linear",
    .summary = "linear bounds of the network over the linf ball (docs/certify.md)",
    .reference = "Zhang et al. 2018 (CROWN); Xu et al. 2021 (alpha-CROWN)",
    .params_size = sizeof(params),
    .opts = opts,
    .prepare = prepare_network,
    .release = release_network,
    .open = open_state,
    .close = close_state,
    .image = certify_one,
    .sentence = write_sentence,
};
