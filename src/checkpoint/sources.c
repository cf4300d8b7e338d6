/* SPDX-License-Identifier: MIT */
#include "checkpoint/sources.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/opt.h"
#include "models/forms.h"

void vt_sources_mark(const vt_sources *s, vt_field f, const char *from, vt_certainty d) {
    snprintf(s->t->source[f], sizeof s->t->source[f], "%.71s", from);
    s->t->certainty[f] = d;
}

void vt_sources_known(const vt_sources *s, vt_field f, const char *from) { vt_sources_mark(s, f, from, VT_KNOWN); }

void vt_sources_convention(const vt_sources *s, vt_field f, const char *from) {
    vt_sources_mark(s, f, from, s->whole ? VT_KNOWN : VT_ASSUMED);
}

bool vt_sources_proven(const vt_sources *s, const char *key) { return vt_rename_proven(s->names->map, key); }

void vt_sources_scheme_known(const vt_sources *s, vt_field f, const char *key) {
    if (vt_sources_proven(s, key))
        vt_sources_known(s, f, s->names->map->who);
    else if (s->names->own_map && vt_form_find(key))
        vt_sources_mark(s, f, s->names->map->who, VT_OPEN);
    else
        vt_sources_convention(s, f, s->names->map->who);
}

const char vt_sources_layer[] = "normalisation layer in the file";

/* Mean and std of a normalisation layer stand among the metadata too (tensors/strip_training). */
static const char *meta_name(const vt_tensors *st, const char *key) {
    bool pixels = !strcmp(key, "mean") || !strcmp(key, "std");
    for (int i = 0; pixels && vt_tensors_note(st, i); i++)
        if (vt_tensors_note(st, i)->kind == VT_NOTE_MEAN_STD) return vt_sources_layer;
    return VT_OWN_METADATA;
}

const char *vt_sources_meta(const vt_sources *s, const char *key, const char **from) {
    for (int i = 0; i < s->o->n_pairs; i++)
        if (!strcmp(s->o->pairs[2 * i], key)) {
            *from = s->o->pairs_from;
            return s->o->pairs[2 * i + 1];
        }
    const char *set = s->names->asked ? vt_rename_value(s->names->map, key) : NULL;
    if (set) { /* without its folder */
        *from = s->names->def ? s->names->map->who : s->names->scheme;
        return set;
    }
    *from = meta_name(s->st, key);
    return vt_tensors_meta(s->st, key);
}

const char *vt_sources_scheme(const vt_sources *s, const char *key, const char **from) {
    *from = s->names->map->who;
    bool silent = s->names->asked || (s->names->own_map && s->whole && !vt_sources_proven(s, key));
    return silent ? NULL : vt_rename_value(s->names->map, key);
}

bool vt_sources_parse(const char *text, double *out) {
    if (!vt_parse_real(text, out)) *out = NAN;
    return true;
}

bool vt_sources_number(const vt_sources *s, const char *const *keys, double *out, const char **from) {
    for (int i = 0; keys[i]; i++) {
        const char *m = vt_sources_meta(s, keys[i], from);
        if (m) return vt_sources_parse(m, out);
    }
    for (int i = 0; keys[i]; i++) {
        const json_t *v = vt_hub_get(&s->hub, keys[i], from);
        if (json_is_number(v)) {
            *out = json_number_value(v);
            return true;
        }
    }
    return false;
}

bool vt_sources_scheme_number(const vt_sources *s, const char *key, double *out, const char **from) {
    const char *text = s->o->preset && !vt_sources_proven(s, key) ? NULL : vt_sources_scheme(s, key, from);
    return text && vt_sources_parse(text, out);
}
