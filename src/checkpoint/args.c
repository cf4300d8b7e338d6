/* SPDX-License-Identifier: MIT */
/* timm's training arguments against what the same file, or one beside it, says too. */
#include "checkpoint/resolve.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "models/forms.h"

/* Does a file say it? Who tells it by an option knows that there are two. */
static bool by_file(const vt_provenance *t, vt_field f) {
    static const char *const files[] = {"config.json", "preprocessor_config.json", "architecture in config.json",
                                        "model_type in config.json", "normalisation layer in the file"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (!strcmp(t->source[f], files[i])) return true;
    return false;
}

/* What the sentence is about. */
typedef struct two {
    const vt_hub *h;
    const vt_provenance *t;
    const char *weights;
} two;

static vt_status fail_disagreement(const two *w, vt_field f, const char *is, const char *said, vt_err *e) {
    const char *key = vt_field_key(f);
    return vt_fail(e, VT_E_USAGE, "%s: %s is %s (%s), but %s says %s: say which is true with @%s", w->weights,
                   vt_field_label(f), is, w->t->source[f], w->h->args_from, said, vt_form_find(key) ? "form" : key);
}

static vt_status check_mean_or_std(const two *w, const vt_config *c, vt_field f, vt_err *e) {
    const bool std = f == VT_FIELD_STD;
    const double *v = std ? c->std : c->mean;
    double in[3], away = 0, none = 0;
    char is[64], said[64];
    if (!by_file(w->t, f) || !vt_hub_triple(vt_hub_args(w->h, vt_field_key(f)), in)) return VT_OK;
    for (int k = 0; k < 3; k++) away = fmax(away, fabs(in[k] - v[k])), none = fmax(none, fabs(in[k] - std));
    bool layer = !strncmp(w->t->source[f], "normalisation", 13);
    if (away <= 1e-9 || (layer && none <= 1e-9)) return VT_OK; /* a layer does it, so the loader does nothing */
    snprintf(is, sizeof is, "%.6g,%.6g,%.6g", v[0], v[1], v[2]);
    snprintf(said, sizeof said, "%.6g,%.6g,%.6g", in[0], in[1], in[2]);
    return fail_disagreement(w, f, is, said, e);
}

static vt_status check_form(const two *w, const vt_config *c, const vt_form *f, vt_err *e) {
    char word[VT_FORM_VALUE], is[64], said[64];
    const json_t *v = f->json ? vt_hub_args(w->h, f->json) : NULL;
    const char *text = v && by_file(w->t, f->field) ? vt_hub_word(v, word, sizeof word) : NULL;
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
    if (json_is_number(heads) && by_file(t, VT_FIELD_HEADS) && json_number_value(heads) != c->heads)
        return fail_disagreement(&w, VT_FIELD_HEADS, is, said, e);
    int n;
    const vt_form *forms = vt_forms(&n);
    for (int i = 0; i < n; i++) VT_TRY(check_form(&w, c, &forms[i], e));
    return VT_OK;
}
