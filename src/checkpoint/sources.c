/* SPDX-License-Identifier: MIT */
/* Where a setting stands and how sure it is; do timm's training arguments agree with it? */
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
    *from = !set ? name_metadata(s->st, key) : s->names->def ? s->names->map->who : s->names->naming;
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

/* ---- do two files agree? ---- */

/* Is the field's value from a file? An option overrides files knowingly. */
static bool is_from_file(const vt_provenance *t, vt_field f) {
    static const char *const files[] = {"config.json", "preprocessor_config.json", "architecture in config.json",
                                        "model_type in config.json", "normalisation layer in the file"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (!strcmp(t->source[f], files[i])) return true;
    return false;
}

/* timm's training arguments and what was taken from elsewhere. */
typedef struct two {
    const vt_hub *h;
    const vt_provenance *t;
    const char *weights;
} two;

/* Fails with VT_E_USAGE for a field that timm's arguments set to another value. */
static vt_status fail_disagreement(const two *w, vt_field f, const char *is, const char *said, vt_err *e) {
    const char *key = vt_field_key(f);
    return vt_fail(e, VT_E_USAGE, "%s: %s is %s (%s), but %s says %s: say which is true with @%s", w->weights,
                   vt_field_label(f), is, w->t->source[f], w->h->args_from, said, vt_form_find(key) ? "form" : key);
}

/* Fails with VT_E_USAGE for a mean or std from a file other than that of timm's arguments. */
static vt_status check_mean_or_std(const two *w, const vt_config *c, vt_field f, vt_err *e) {
    const bool std = f == VT_FIELD_STD;
    const double *v = std ? c->std : c->mean;
    double in[3], away = 0, none = 0;
    char is[64], said[64];
    if (!is_from_file(w->t, f) || !vt_hub_triple(vt_hub_args(w->h, vt_field_key(f)), in)) return VT_OK;
    for (int k = 0; k < 3; k++) away = fmax(away, fabs(in[k] - v[k])), none = fmax(none, fabs(in[k] - std));
    bool layer = !strncmp(w->t->source[f], "normalisation", 13);
    if (away <= 1e-9 || (layer && none <= 1e-9)) return VT_OK; /* a layer does it, so the loader does nothing */
    snprintf(is, sizeof is, "%.6g,%.6g,%.6g", v[0], v[1], v[2]);
    snprintf(said, sizeof said, "%.6g,%.6g,%.6g", in[0], in[1], in[2]);
    return fail_disagreement(w, f, is, said, e);
}

/* Fails with VT_E_USAGE for a form's value from a file other than that of timm's arguments. */
static vt_status check_form(const two *w, const vt_config *c, const vt_form *f, vt_err *e) {
    char word[VT_FORM_VALUE], is[64], said[64];
    const json_t *v = f->json ? vt_hub_args(w->h, f->json) : NULL;
    const char *text = v && is_from_file(w->t, f->field) ? vt_hub_word(v, word, sizeof word) : NULL;
    vt_config wish = *c;
    if (!text) return VT_OK;
    VT_TRY(vt_form_set(&wish, f, text, w->h->args_from, e));
    vt_form_text(c, f, is, sizeof is), vt_form_text(&wish, f, said, sizeof said);
    return strcmp(is, said) ? fail_disagreement(w, f->field, is, said, e) : VT_OK;
}

vt_status vt_args_agree(const vt_hub *h, const vt_config *c, const vt_provenance *t, const char *weights, vt_err *e) {
    const two w = {h, t, weights};
    char is[16], said[32];
    if (!h->args) return VT_OK;
    VT_TRY(check_mean_or_std(&w, c, VT_FIELD_MEAN, e));
    VT_TRY(check_mean_or_std(&w, c, VT_FIELD_STD, e));
    const json_t *heads = vt_hub_args(h, "num_heads");
    snprintf(is, sizeof is, "%d", c->heads), snprintf(said, sizeof said, "%.9g", json_number_value(heads));
    if (json_is_number(heads) && is_from_file(t, VT_FIELD_HEADS) && json_number_value(heads) != c->heads)
        return fail_disagreement(&w, VT_FIELD_HEADS, is, said, e);
    int n;
    const vt_form *forms = vt_forms(&n);
    for (int i = 0; i < n; i++) VT_TRY(check_form(&w, c, &forms[i], e));
    return VT_OK;
}
