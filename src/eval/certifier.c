/* SPDX-License-Identifier: MIT */
#include "eval/certifier.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/mem.h"
#include "eval/ledger.h"
#include "eval/options.h"

#define VT_KIND vt_certifier_def
#define VT_KIND_NAME(x) vt_certifier_def_##x
#define VT_KIND_LIST "certifiers.inc"
#define VT_KIND_SAME strcasecmp
#define VT_KIND_DEFS vt_certifier_defs
#define VT_KIND_FIND vt_certifier_find
#include "base/registry.inc"

vt_status vt_certifier_parse(vt_certifier *out, const char *spec, vt_err *e) {
    char name[64], who[80];
    const char *names[COUNT], *colon = strchr(spec, ':');
    *out = (vt_certifier){0};
    snprintf(name, sizeof name, "%.*s", colon ? (int)(colon - spec) : 63, spec);
    const vt_certifier_def *def = vt_certifier_find(name);
    for (int i = 0; i < COUNT; i++) names[i] = defs[i]->name;
    if (!def) return vt_fail_unknown("certificate", name, names, COUNT, NULL, e);
    void *params = calloc(1, def->params_size + 1);
    if (!params) return vt_fail(e, VT_E_MEMORY, "no memory for certificate %s", name);
    vt_opt_defaults(def->opts, params);
    snprintf(who, sizeof who, "certificate %s", name);
    vt_status s = colon ? vt_opt_parse(def->opts, params, colon + 1, who, e) : VT_OK;
    *out = (vt_certifier){.def = def, .params = params};
    int at = snprintf(out->id, sizeof out->id, "%s:", def->name);
    vt_opt_text(def->opts, params, out->id + at, sizeof out->id - (size_t)at);
    if (s != VT_OK) vt_certifier_free(out);
    return s;
}

void vt_certifier_free(vt_certifier *c) {
    free(c->params);
    *c = (vt_certifier){0};
}

vt_status vt_certifier_check(const vt_eval_options *v, vt_err *e) {
    void *shared = NULL;
    if (!v->certify.def) return VT_OK;
    if (v->box || v->rotation.angles)
        return vt_fail(e, VT_E_USAGE, "@certify %s knows no threat of a %s", v->certify.def->name,
                       v->box ? "box" : "rotation");
    vt_status s = v->certify.def->prepare(&shared, v->certify.params, v, e);
    v->certify.def->release(shared);
    return s;
}

vt_status vt_certifier_network(const char *name, vt_norm norm, const vt_eval_options *v, vt_err *e) {
    const vt_subject *s = v->subject;
    if (v->patch.size || v->norm != norm)
        return vt_fail(e, VT_E_USAGE, "@certify %s knows %s alone, the threat is %s", name, vt_norm_name(norm),
                       v->patch.size ? "a patch" : vt_norm_name(v->norm));
    if (s->wrap.def)
        return vt_fail(e, VT_E_USAGE, "@certify %s bounds the network itself: it knows no wrap %s", name,
                       s->wrap.def->name);
    if (vt_subject_is_remote(s))
        return vt_fail(e, VT_E_USAGE,
                       "@certify %s bounds what is inside a network, which a model in another process does not show",
                       name);
    return VT_OK;
}

vt_status vt_certifier_image_open(vt_certifier_image *i, const vt_eval_options *v, vt_err *e) {
    i->n = vt_subject_pixels(v->subject), i->eps = v->eps;
    i->head = v->subject->data->restricted ? v->subject->data->head : NULL;
    i->x = vt_alloc(i->n * sizeof *i->x);
    return i->x ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for bounds");
}

int vt_certifier_image_set(vt_certifier_image *i, const float *x, int label) {
    for (size_t k = 0; k < i->n; k++) i->x[k] = (double)x[k];
    return i->head ? i->head[label] : label;
}

vt_status vt_certify_record(vt_record *r, const vt_eval_options *v, void *self, const vt_classifier *c, const float *x,
                            vt_err *e) {
    char purpose[80];
    vt_certificate out = {.radius = NAN, .interrupt = v->interrupt};
    snprintf(purpose, sizeof purpose, "certify %s", v->certify.def->name);
    const vt_rng key = {.seed = v->seed, .purpose = vt_rng_purpose(purpose), .image = (uint32_t)r->image};
    vt_classifier_begin(c, &key);
    vt_status s = v->certify.def->image(self, c, &key, x, r->label, &out, e);
    if (s != VT_OK) return s;
    r->entry = VT_ENTRY_CERTIFY, r->stage = 0;
    r->status = out.certified ? VT_RECORD_CERTIFIED : VT_RECORD_UNDECIDED;
    r->pred = r->label, r->pred64 = -1, r->forwards = out.forwards;
    r->margin = r->margin64 = r->linf = r->l2 = r->l1 = NAN;
    if (!v->patch.size && v->norm == VT_LINF) r->linf = out.radius;
    if (!v->patch.size && v->norm == VT_L2) r->l2 = out.radius;
    if (!v->patch.size && v->norm == VT_L1) r->l1 = out.radius;
    return VT_OK;
}
