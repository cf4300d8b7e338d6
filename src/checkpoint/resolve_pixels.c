/* SPDX-License-Identifier: MIT */
/* What becomes of pixels before the network: mean and std, resize and crop. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/opt.h"
#include "checkpoint/sources.h"

/* Without a source: what a data set of small, or of large, images usually has. */
static const char *guess_triple(const vt_config *c, bool is_std) {
    if (c->image <= 64) return is_std ? "0.2470,0.2435,0.2616" : "0.4914,0.4822,0.4465";
    return is_std ? "0.229,0.224,0.225" : "0.485,0.456,0.406";
}

/* What --mean or --std, metadata, the hub's files, a preset that was asked for, or the scheme says. */
static void resolve_triple(vt_config *c, const vt_sources *s, vt_field f) {
    const vt_overrides *o = s->o;
    const char *from = "", *text = NULL;
    const bool is_std = f == VT_FIELD_STD;
    double *out = is_std ? c->std : c->mean;
    vt_config p;
    if (is_std ? o->has_std : o->has_mean) {
        memcpy(out, is_std ? o->std : o->mean, sizeof c->std);
        vt_sources_known(s, f, is_std ? VT_OPTION "std" : VT_OPTION "mean");
    } else if ((text = vt_sources_meta(s, is_std ? "std" : "mean", &from)) ||
               vt_hub_pixels(&s->hub, is_std, out, &from)) {
        vt_sources_known(s, f, from);
    } else if (o->preset) {
        vt_preset_config(s->preset, &p);
        memcpy(out, is_std ? p.std : p.mean, sizeof p.std);
        vt_sources_known(s, f, s->preset_why);
    } else if ((text = vt_sources_scheme(s, is_std ? "std" : "mean", &from))) {
        vt_sources_scheme_known(s, f, is_std ? "std" : "mean");
    } else if (vt_tensors_meta(s->st, "input_norm")) {
        text = is_std ? "1" : "0"; /* as a normalisation layer in the file: the only one */
        vt_sources_known(s, f, "");
    } else {
        text = guess_triple(c, is_std);
        vt_sources_mark(s, f, "a guess", VT_OPEN);
    }
    if (text && !vt_parse_triple(text, out)) out[0] = NAN; /* refused by vt_config_check */
}

/* Pixels here are in [0,1]: a mean far above 1 is of pixels in [0,255]; a mean below 0, a std above 1, or of a layer
 * below 0.01, is of other pixels, added, or a factor. What a file says so is open, with what it would be in [0,1]. */
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

/* A BatchNorm on the input (tensors/strip_training), after what an option or a file says of pixels: (x - mean - std m)
 * / (std s). */
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

static void resolve_transform(const vt_sources *s) {
    char *out = s->t->transform;
    const size_t size = sizeof s->t->transform;
    const char *from, *text = vt_sources_meta(s, "transform", &from);
    bool hub = !text && vt_hub_transform(&s->hub, out, size, &from);
    if (!text && !hub) text = vt_sources_scheme(s, "transform", &from);
    if (text) snprintf(out, size, "%.63s", text);
    if (text || hub) vt_sources_known(s, VT_FIELD_TRANSFORM, from);
}

void vt_resolve_pixels(vt_config *c, const vt_sources *s) {
    resolve_triple(c, s, VT_FIELD_MEAN);
    resolve_triple(c, s, VT_FIELD_STD);
    mark_pixels(c, s);
    add_input_norm(c, s);
    resolve_transform(s);
}
