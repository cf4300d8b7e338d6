#include "attacks/attack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/mem.h"

#define VT_PLUGIN(x) extern const vt_attack_def vt_attack_def_##x;
#include "attacks.inc"
#undef VT_PLUGIN

static const vt_attack_def *const defs[] = {
#define VT_PLUGIN(x) &vt_attack_def_##x,
#include "attacks.inc"
#undef VT_PLUGIN
};

const vt_attack_def *const *vt_attack_defs(int *n) {
    *n = (int)(sizeof defs / sizeof *defs);
    return defs;
}

const vt_attack_def *vt_attack_find(const char *name) {
    for (size_t i = 0; i < sizeof defs / sizeof *defs; i++)
        if (!strcmp(defs[i]->name, name)) return defs[i];
    return NULL;
}

void vt_attack_free(vt_attack *a) {
    for (int i = 0; i < a->n_stages; i++) free(a->stages[i].params);
    free(a->stages);
    memset(a, 0, sizeof *a);
}

static vt_status unknown(const char *name, vt_err *e) {
    const char *names[64];
    size_t n = 0;
    for (size_t i = 0; i < sizeof defs / sizeof *defs && n < 64; i++) names[n++] = defs[i]->name;
    const char *near = vt_nearest(name, names, n);
    return vt_fail(e, VT_E_UNKNOWN, "unknown attack '%s'%s%s%s", name,
                   near ? "; did you mean '" : " (see 'vitrine list attacks')", near ? near : "", near ? "'?" : "");
}

/* Splits "name:options" into *def and *options ("" when there are none). */
static vt_status split(const char *spec, char name[32], const vt_attack_def **def, const char **options, vt_err *e) {
    size_t n = strcspn(spec, ":");
    if (n >= 32) return vt_fail(e, VT_E_UNKNOWN, "unknown attack '%.40s...'", spec);
    snprintf(name, 32, "%.*s", (int)n, spec);
    *def = vt_attack_find(name);
    if (!*def) return unknown(name, e);
    *options = spec[n] ? spec + n + 1 : "";
    if (spec[n] && !**options) return vt_fail(e, VT_E_USAGE, "attack '%s' ends in a colon", spec);
    return VT_OK;
}

static vt_status make_stage(vt_attack_stage *s, const char *spec, const char *extra, vt_norm norm, vt_err *e) {
    char name[32], who[48], options[160];
    const char *given;
    VT_TRY(split(spec, name, &s->def, &given, e));
    if (!(s->def->norms & 1u << norm))
        return vt_fail(e, VT_E_USAGE, "attack %s does not support --norm %s", name, vt_norm_name(norm));
    s->params = calloc(1, s->def->params_size ? s->def->params_size : 1);
    if (!s->params) return vt_fail(e, VT_E_MEMORY, "no memory for attack %s", name);
    vt_opt_defaults(s->def->opts, s->params);
    snprintf(who, sizeof who, "attack %s", name);
    VT_TRY(vt_opt_parse(s->def->opts, s->params, given, who, e));
    VT_TRY(vt_opt_parse(s->def->opts, s->params, extra, who, e));
    vt_opt_text(s->def->opts, s->params, options, sizeof options);
    snprintf(s->id, sizeof s->id, "%s%s%s", name, *options ? ":" : "", options);
    return VT_OK;
}

vt_status vt_attack_parse(vt_attack *out, const char *spec, vt_norm norm, vt_err *e) {
    memset(out, 0, sizeof *out);
    const char *options;
    VT_TRY(split(spec, out->name, &out->def, &options, e));
    const char *self[] = {out->def->name, NULL};
    const char *const *list = out->def->stages ? out->def->stages : self;
    int n = 0;
    while (list[n]) n++;
    /* an alias (one stage) hands its options on; an ensemble is a fixed thing and takes none */
    if (n > 1 && *options)
        return vt_fail(e, VT_E_USAGE, "attack %s takes no options (it is defined as a whole); got '%s'", out->name,
                       options);
    out->stages = calloc((size_t)n, sizeof *out->stages);
    if (!out->stages) return vt_fail(e, VT_E_MEMORY, "no memory for attack %s", out->name);
    out->n_stages = n;
    vt_status st = VT_OK;
    for (int i = 0; i < n && st == VT_OK; i++) st = make_stage(&out->stages[i], list[i], options, norm, e);
    for (int i = 0; i < n && st == VT_OK; i++)
        snprintf(out->id + strlen(out->id), sizeof out->id - strlen(out->id), "%s%s", i ? "+" : "", out->stages[i].id);
    if (st != VT_OK) vt_attack_free(out);
    return st;
}
