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

/* What is attacked, as the parser wants to know it. */
typedef struct threat {
    vt_norm norm;
    bool patch;
} threat;

static vt_status supports(const vt_attack_def *d, threat t, vt_err *e) {
    if (t.patch && !(d->norms & VT_CAN_PATCH))
        return vt_fail(e, VT_E_USAGE, "attack %s does not support --threat patch", d->name);
    if (!t.patch && !(d->norms & 1u << t.norm))
        return vt_fail(e, VT_E_USAGE, "attack %s does not support --norm %s%s", d->name, vt_norm_name(t.norm),
                       d->norms == VT_CAN_PATCH ? " (it is for --threat patch:size=N)" : "");
    return VT_OK;
}

/* The definition's options; under the patch threat those of the place behind them, at `at` in the same memory. */
enum { MOST_OPTS = 40 };
static void all_options(vt_opt out[MOST_OPTS], const vt_attack_def *d, bool patch, size_t at, vt_where where) {
    int n = 0;
    for (const vt_opt *o = d->opts; o && o->key && n < MOST_OPTS - 3; o++) out[n++] = *o;
    for (const vt_opt *o = vt_place_opts; patch && o->key; o++) {
        out[n] = *o;
        out[n].offset += at;
        if (!strcmp(o->key, "where")) out[n].preset = where;
        n++;
    }
    out[n] = (vt_opt){0};
}

/* What chooses must be what the attack may see. */
static vt_status place_fits(const vt_attack_stage *s, vt_err *e) {
    bool looks = s->place->where == VT_WHERE_ATTENTION || s->place->where == VT_WHERE_SALIENCY;
    if (!looks || s->def->white_box) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "attack %s is black-box: where must be random, centre or corner", s->def->name);
}

static vt_status make_stage(vt_attack_stage *s, const char *spec, const char *extra, const vt_attack_def *whole,
                            threat t, vt_err *e) {
    char name[32], who[48], options[160];
    const char *given;
    vt_opt opts[MOST_OPTS];
    VT_TRY(split(spec, name, &s->def, &given, e));
    VT_TRY(supports(s->def, t, e));
    size_t at = (s->def->params_size + 15) / 16 * 16;
    s->params = calloc(1, at + sizeof *s->place);
    if (!s->params) return vt_fail(e, VT_E_MEMORY, "no memory for attack %s", name);
    if (t.patch) s->place = (const vt_place *)(const void *)((char *)s->params + at);
    all_options(opts, s->def, t.patch, at, whole->where);
    vt_opt_defaults(opts, s->params);
    snprintf(who, sizeof who, "attack %s", name);
    VT_TRY(vt_opt_parse(opts, s->params, given, who, e));
    VT_TRY(vt_opt_parse(opts, s->params, extra, who, e));
    if (t.patch) VT_TRY(place_fits(s, e));
    vt_opt_text(opts, s->params, options, sizeof options);
    snprintf(s->id, sizeof s->id, "%s%s%s", name, *options ? ":" : "", options);
    return VT_OK;
}

static vt_status parse(vt_attack *out, const char *spec, threat t, vt_err *e) {
    memset(out, 0, sizeof *out);
    const char *options;
    VT_TRY(split(spec, out->name, &out->def, &options, e));
    VT_TRY(supports(out->def, t, e));
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
    for (int i = 0; i < n && st == VT_OK; i++) st = make_stage(&out->stages[i], list[i], options, out->def, t, e);
    for (int i = 0; i < n && st == VT_OK; i++)
        snprintf(out->id + strlen(out->id), sizeof out->id - strlen(out->id), "%s%s", i ? "+" : "", out->stages[i].id);
    if (st != VT_OK) vt_attack_free(out);
    return st;
}

vt_status vt_attack_parse(vt_attack *out, const char *spec, vt_norm norm, vt_err *e) {
    return parse(out, spec, (threat){.norm = norm}, e);
}

vt_status vt_attack_parse_patch(vt_attack *out, const char *spec, vt_err *e) {
    return parse(out, spec, (threat){.patch = true}, e);
}

/* ---- running ---- */

size_t vt_attack_work_len(const vt_attack_stage *s, const vt_task *dims) {
    size_t own = s->def->work_len ? s->def->work_len(s->params, dims) : 0;
    return own + (s->place ? vt_patch_work_len(dims) : 0);
}

vt_status vt_attack_stage_run(vt_oracle *o, const vt_attack_stage *s, const vt_task *t) {
    return s->place ? vt_patch_run(o, s, t) : s->def->run(o, s->params, t);
}
