/* SPDX-License-Identifier: MIT */
#include "inference/wrap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/mem.h"

#define VT_KIND vt_wrap_def
#define VT_KIND_NAME(x) vt_wrap_def_##x
#define VT_KIND_LIST "wraps.inc"
#define VT_KIND_SAME strcasecmp
#define VT_KIND_DEFS vt_wrap_defs
#define VT_KIND_FIND vt_wrap_find
#include "base/registry.inc"

/* Fails: an unknown wrap, with the nearest name. */
static vt_status fail_unknown_wrap(const char *name, vt_err *e) {
    const char *names[COUNT];
    for (int i = 0; i < COUNT; i++) names[i] = defs[i]->name;
    return vt_fail_unknown("wrap", name, names, COUNT, "vitrine list wraps", e);
}

vt_status vt_wrap_parse(vt_wrap *out, const char *spec, vt_err *e) {
    char name[64], who[80];
    *out = (vt_wrap){0};
    const char *colon = strchr(spec, ':');
    size_t n = colon ? (size_t)(colon - spec) : strlen(spec);
    snprintf(name, sizeof name, "%.*s", (int)(n < 63 ? n : 63), spec);
    const vt_wrap_def *def = vt_wrap_find(name);
    if (!def) return fail_unknown_wrap(name, e);
    void *params = calloc(1, def->params_size);
    if (!params) return vt_fail(e, VT_E_MEMORY, "no memory for wrap %s", name);
    vt_opt_defaults(def->opts, params);
    snprintf(who, sizeof who, "wrap %s", name);
    vt_status s = colon ? vt_opt_parse(def->opts, params, colon + 1, who, e) : VT_OK;
    if (s != VT_OK) {
        free(params);
        return s;
    }
    *out = (vt_wrap){.def = def, .params = params};
    int at = snprintf(out->id, sizeof out->id, "%s:", def->name);
    vt_opt_text(def->opts, params, out->id + at, sizeof out->id - (size_t)at);
    return VT_OK;
}

void vt_wrap_free(vt_wrap *w) {
    free(w->params);
    *w = (vt_wrap){0};
}

vt_status vt_wrap_model(const vt_wrap *w, vt_model *m, vt_err *e) {
    if (!w || !w->def || !w->def->alter) return VT_OK;
    w->def->alter(&m->config, w->params);
    return vt_config_check(&m->config, m->path, e);
}

/* ---- around a classifier ---- */

typedef struct cover {
    const vt_wrap_def *def;
    vt_classifier all;
    vt_rng key;
    double factor;
    float *seen, *z, *dz; /* [pixels], [classes] scaled logits of the last kept call, [classes] cotangent */
    double params[];      /* a copy */
} cover;

/* Returns what the network sees in place of x [pixels]: x itself, or c->seen. */
static const float *seen_image(cover *c, const float *x) {
    if (!c->def->see) return x;
    c->def->see(c->params, &c->key, x, c->seen, c->all.pixels);
    return c->seen;
}

/* Computes z [K] at the altered image, times the factor. */
static vt_status logits(void *self, const float *x, float *z, bool keep, vt_err *e) {
    cover *c = self;
    VT_TRY(vt_classifier_logits(&c->all, seen_image(c, x), z, keep, e));
    for (int k = 0; k < c->all.classes; k++) z[k] = (float)(c->factor * (double)z[k]);
    if (keep) memcpy(c->z, z, (size_t)c->all.classes * sizeof *z);
    return VT_OK;
}

/* Computes z [K] in double at the altered image, times the factor. */
static vt_status logits64(void *self, const float *x, double *z, vt_err *e) {
    cover *c = self;
    VT_TRY(vt_classifier_logits64(&c->all, seen_image(c, x), z, e));
    for (int k = 0; k < vt_classifier_votes(&c->all) * c->all.classes; k++) z[k] *= c->factor;
    return VT_OK;
}

/* Computes loss and gradient of z = factor u by dz and u: du = factor dz. */
static vt_status backward(void *self, const vt_loss *loss, float *value, float *dx, vt_err *e) {
    cover *c = self;
    float linear;
    vt_loss cotangent = {.kind = VT_LOSS_LINEAR, .target = c->dz, .open = loss->open};
    if (c->def->factor) {
        *value = vt_loss_eval_f32(c->dz, loss, c->z, c->all.classes);
        for (int k = 0; k < c->all.classes; k++) c->dz[k] = (float)(c->factor * (double)c->dz[k]);
    }
    VT_TRY(
        vt_classifier_backward(&c->all, c->def->factor ? &cotangent : loss, c->def->factor ? &linear : value, dx, e));
    if (c->def->hides_gradient && c->def->hides_gradient(c->params)) memset(dx, 0, c->all.pixels * sizeof *dx);
    return VT_OK;
}

/* Begins an image: the wrap's draws follow from *rng and its name. */
static void begin(void *self, const vt_rng *rng) {
    cover *c = self;
    char purpose[80];
    snprintf(purpose, sizeof purpose, "wrap %s", c->def->name);
    c->key = *rng;
    c->key.purpose ^= vt_rng_purpose(purpose);
    c->key.step = 0;
    vt_classifier_begin(&c->all, rng);
}

static void close(void *self) {
    cover *c = self;
    vt_classifier_close(&c->all);
    free(c->seen), free(c);
}

bool vt_wrap_defends(const vt_wrap *w) { return w && w->def && w->def->around; }

bool vt_wrap_covers(const vt_wrap *w) { return w && w->def && (w->def->see || w->def->factor || w->def->around); }

vt_status vt_wrap_fit(const vt_wrap *w, vt_shape shape, vt_err *e) {
    return vt_wrap_defends(w) ? w->def->fit(w->params, shape, e) : VT_OK;
}

void vt_wrap_cost(const vt_wrap *w, double *forward, double *gradient) {
    if (vt_wrap_defends(w)) w->def->cost(w->params, forward, gradient);
}

vt_status vt_wrap_classifier(const vt_wrap *w, vt_classifier *c, vt_shape shape, bool other_head, vt_err *e) {
    if (!vt_wrap_covers(w) || (other_head && !w->def->see)) return VT_OK;
    if (w->def->around) {
        VT_TRY(w->def->around(c, w->params, shape, e));
        c->exact = false;
        return VT_OK;
    }
    cover *around = calloc(1, sizeof *around + w->def->params_size);
    float *room = vt_alloc((c->pixels + 2 * (size_t)c->classes) * sizeof *room);
    if (!around || !room) {
        free(around), free(room);
        return vt_fail(e, VT_E_MEMORY, "no memory for a wrap");
    }
    *around = (cover){.def = w->def, .all = *c, .seen = room, .z = room + c->pixels};
    around->dz = around->z + c->classes, around->factor = w->def->factor ? w->def->factor(w->params) : 1;
    memcpy(around->params, w->params, w->def->params_size);
    c->self = around, c->alone = NULL, c->exact = false;
    c->logits = logits, c->logits64 = logits64, c->backward = backward, c->begin = begin, c->close = close;
    return VT_OK;
}
