/* SPDX-License-Identifier: MIT */
/* What becomes of pixels before the network: mean and std, resize and crop. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/opt.h"
#include "checkpoint/resolve.h"

/* Returns what a data set of small, or of large, images usually has for mean or std. */
static const char *guess_triple(const vt_config *c, bool is_std) {
    if (c->image <= 64) return is_std ? "0.2470,0.2435,0.2616" : "0.4914,0.4822,0.4465";
    return is_std ? "0.229,0.224,0.225" : "0.485,0.456,0.406";
}

/* Writes three numbers with commas between them; returns buf. */
static const char *triple_text(char buf[100], const double v[3]) {
    snprintf(buf, 100, "%.17g,%.17g,%.17g", v[0], v[1], v[2]);
    return buf;
}

/* Sets mean or std by its source, or as images of this size usually have it. */
static void resolve_triple(vt_config *c, const vt_sources *s, bool is_std) {
    static const char *const keys[][2] = {{"mean", NULL}, {"std", NULL}};
    const vt_overrides *o = s->o;
    double hub[3], *out = is_std ? c->std : c->mean;
    char given[100], hub_text[100], preset[100];
    vt_config p;
    vt_setting k = {is_std ? VT_OPTION "std" : VT_OPTION "mean", .keys = keys[is_std]};
    if (is_std ? o->has_std : o->has_mean) k.given = triple_text(given, is_std ? o->std : o->mean);
    if (vt_hub_pixels(&s->hub, is_std, hub, &k.hub_from)) k.hub = triple_text(hub_text, hub);
    if (o->preset) vt_preset_config(s->preset, &p), k.preset = triple_text(preset, is_std ? p.std : p.mean);
    vt_found f = vt_sources_find(s, &k);
    if (!f.text && vt_tensors_meta(s->st, "input_norm")) /* a normalisation layer in the file is the only one */
        f = (vt_found){is_std ? "1" : "0", "", VT_KNOWN, false};
    else if (!f.text)
        f = (vt_found){guess_triple(c, is_std), "a guess", VT_OPEN, false};
    vt_sources_mark(s, is_std ? VT_FIELD_STD : VT_FIELD_MEAN, f.from, f.certainty);
    if (!vt_parse_triple(f.text, out)) out[0] = NAN; /* refused by vt_config_check */
}

/* Marks as open what a file says of other pixels than those in [0,1] here, and sets what it would be in [0,1]: a mean
 * far above 1 is of 0 to 255; below 0, a std above 1, or of a layer below 0.01, is added, or a factor. */
static void mark_pixels(vt_config *c, const vt_sources *s) {
    double *const v[2] = {c->mean, c->std}, high = 0, low = 0, wide = 0, thin = 1;
    bool theirs[2];
    for (int f = 0; f < 2; f++) {
        const char *source = s->t->source[VT_FIELD_MEAN + f];
        const bool hub = !strcmp(source, "config.json") || !strcmp(source, "preprocessor_config.json") ||
                         !strcmp(source, s->hub.args_from);
        const bool own = s->whole && !strcmp(s->whole, VT_OWN_METADATA); /* as a user said it once */
        theirs[f] = hub || !strcmp(source, vt_sources_layer) || (!own && !strcmp(source, VT_OWN_METADATA));
        for (int k = 0; theirs[f] && k < 3; k++) {
            if (f) wide = fmax(wide, c->std[k]), thin = hub ? thin : fmin(thin, c->std[k]);
            if (!f) high = fmax(high, c->mean[k]), low = fmin(low, c->mean[k]);
        }
    }
    const bool bytes = high > 1.5 || wide > 10;
    for (int f = 0; f < 2 && (bytes || wide > 1 || thin < 0.01 || low < 0); f++) {
        char text[100];
        if (!theirs[f]) continue;
        snprintf(text, sizeof text, VT_FILE_SAYS " %.6g,%.6g,%.6g: %s", v[f][0], v[f][1], v[f][2],
                 bytes           ? "of pixels 0 to 255?"
                 : f && wide > 1 ? "a factor?"
                 : !f && low < 0 ? "added, not subtracted?"
                                 : "as it is?");
        for (int k = 0; k < 3; k++)
            v[f][k] = bytes ? v[f][k] / 255 : f && wide > 1 ? 1 / v[f][k] : !f && low < 0 ? -v[f][k] : v[f][k];
        vt_sources_mark(s, VT_FIELD_MEAN + (vt_field)f, text, VT_OPEN);
    }
}

/* Merges a BatchNorm on the input (tensors/strip_training) into mean and std, after what an option or a file says of
 * pixels: (x - mean - std m) / (std s). Nothing without one. */
static void add_input_norm(vt_config *c, const vt_sources *s) {
    double n[6];
    const char *text = vt_tensors_meta(s->st, "input_norm");
    if (!text || sscanf(text, "%lf,%lf,%lf,%lf,%lf,%lf", n, n + 1, n + 2, n + 3, n + 4, n + 5) != 6) return;
    for (int k = 0; k < 3; k++) c->mean[k] += c->std[k] * n[k], c->std[k] *= n[3 + k];
    for (int f = VT_FIELD_MEAN; f <= (int)VT_FIELD_STD; f++)
        if (s->t->certainty[f] == VT_KNOWN)
            vt_sources_mark(s, (vt_field)f,
                            *s->t->source[f] ? "before the file's BatchNorm, eps 1e-5"
                                             : "the file's BatchNorm, eps 1e-5",
                            VT_ASSUMED);
}

/* Sets the preprocessing that a source names, if one does. */
static void resolve_transform(const vt_sources *s) {
    static const char *const keys[] = {"transform", NULL};
    char hub[sizeof s->t->transform];
    vt_setting k = {.keys = keys};
    if (vt_hub_transform(&s->hub, hub, sizeof hub, &k.hub_from)) k.hub = hub;
    const vt_found f = vt_sources_find(s, &k);
    if (!f.text) return;
    snprintf(s->t->transform, sizeof s->t->transform, "%.63s", f.text);
    vt_sources_mark(s, VT_FIELD_TRANSFORM, f.from, VT_KNOWN);
}

void vt_resolve_pixels(vt_config *c, const vt_sources *s) {
    resolve_triple(c, s, false);
    resolve_triple(c, s, true);
    mark_pixels(c, s);
    add_input_norm(c, s);
    resolve_transform(s);
}
