/* SPDX-License-Identifier: MIT */
#include "models/wrap/wrap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define VT_KIND vt_wrap_def
#define VT_KIND_NAME(x) vt_wrap_def_##x
#define VT_KIND_LIST "wraps.inc"
#include "core/registry.inc"

const vt_wrap_def *const *vt_wrap_defs(int *n) {
    *n = COUNT;
    return defs;
}

const vt_wrap_def *vt_wrap_find(const char *name) {
    for (int i = 0; i < COUNT; i++)
        if (!strcasecmp(defs[i]->name, name)) return defs[i];
    return NULL;
}

static vt_status fail_unknown_wrap(const char *name, vt_err *e) {
    const char *names[COUNT], *near;
    for (int i = 0; i < COUNT; i++) names[i] = defs[i]->name;
    near = vt_nearest(name, names, COUNT);
    if (near) return vt_fail(e, VT_E_USAGE, "unknown wrap '%s'; did you mean %s?", name, near);
    return vt_fail(e, VT_E_USAGE, "unknown wrap '%s'; vitrine list wraps shows them", name);
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

vt_status vt_wrap_classifier(const vt_wrap *w, vt_classifier *c, bool other_head, vt_err *e) {
    if (!w || !w->def || !w->def->cover || (other_head && w->def->after_head)) return VT_OK;
    return w->def->cover(c, w->params, e);
}
