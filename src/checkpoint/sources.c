/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/opt.h"
#include "checkpoint/resolve.h"
#include "models/forms.h"

const char vt_sources_layer[] = "normalisation layer in the file";

void vt_sources_mark(const vt_sources *s, vt_field f, const char *from, vt_certainty d) {
    snprintf(s->t->source[f], sizeof s->t->source[f], "%.71s", from);
    s->t->certainty[f] = d;
}

const char *vt_number_text(char buf[VT_NUMBER], double v) {
    snprintf(buf, VT_NUMBER, "%.17g", v);
    return v != 0 ? buf : NULL;
}

double vt_text_number(const char *text) {
    double v;
    return vt_parse_real(text, &v) ? v : NAN;
}

/* Returns the source of a metadata key: mean and std of a normalisation layer stand there too
 * (tensors/strip_training). */
static const char *name_metadata(const vt_tensors *st, const char *key) {
    bool pixels = !strcmp(key, "mean") || !strcmp(key, "std");
    for (int i = 0; pixels && vt_tensors_note(st, i); i++)
        if (vt_tensors_note(st, i)->kind == VT_NOTE_MEAN_STD) return vt_sources_layer;
    return VT_OWN_METADATA;
}

/* Returns the value of the pairs that stand before the metadata, of a map that an option names, or of the metadata. */
static const char *find_metadata(const vt_sources *s, const char *key, const char **from) {
    for (int i = 0; i < s->o->n_pairs; i++)
        if (!strcmp(s->o->pairs[2 * i], key)) {
            *from = s->o->pairs_from;
            return s->o->pairs[2 * i + 1];
        }
    const char *set = s->names->asked ? vt_rename_value(s->names->map, key) : NULL;
    *from = !set ? name_metadata(s->st, key) : s->names->def ? s->names->map->who : s->names->scheme;
    return set ? set : vt_tensors_meta(s->st, key);
}

/* What a recognised map sets: certain if the names prove it, open if it is a form of one lab, else a convention. Beside
 * a description of the whole network a map of maps/ counts for what the names prove alone. */
static vt_found find_in_map(const vt_sources *s, const char *key) {
    const vt_rename *map = s->names->map;
    const bool proven = vt_rename_proven(map, key), lab = s->names->own_map;
    vt_found f = {.from = map->who, .by_map = true};
    if (!s->names->asked && (proven || !lab || !s->whole)) f.text = vt_rename_value(map, key);
    f.certainty = proven || (s->whole && !(lab && vt_form_find(key))) ? VT_KNOWN : VT_ASSUMED;
    if (!proven && lab && vt_form_find(key)) f.certainty = VT_OPEN;
    return f;
}

vt_found vt_sources_find(const vt_sources *s, const vt_setting *k) {
    const char *from;
    if (k->given) return (vt_found){k->given, k->option, VT_KNOWN, false};
    for (int i = 0; k->keys[i]; i++) {
        const char *text = find_metadata(s, k->keys[i], &from);
        if (text) return (vt_found){text, from, VT_KNOWN, false};
    }
    if (k->hub) return (vt_found){k->hub, k->hub_from, VT_KNOWN, false};
    if (k->preset && !vt_rename_proven(s->names->map, k->keys[0]))
        return (vt_found){k->preset, s->preset_why, VT_KNOWN, false};
    return find_in_map(s, k->keys[0]);
}

vt_found vt_sources_default(const vt_sources *s, const char *text, const char *from) {
    return s->whole ? (vt_found){text, s->whole, VT_KNOWN, false} : (vt_found){text, from, VT_ASSUMED, false};
}
