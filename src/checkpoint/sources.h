/* SPDX-License-Identifier: MIT */
/* Where checkpoint/resolve looks for what tensors cannot tell, and how it marks what it found. */
#pragma once

#include "checkpoint/provenance.h"
#include "checkpoint/hub.h"

/* The sources in the order in which they win: options, a map that was asked for, metadata, config.json and
 * preprocessor_config.json, a preset that was asked for. What follows is supposed, not told: what a naming scheme or a
 * shipped map sets, a preset of the same shape, defaults. */
typedef struct vt_sources {
    const vt_tensors *st;
    const vt_overrides *o;
    const vt_names *names;
    vt_hub hub;
    const vt_preset *preset;
    char preset_why[72];
    const vt_preset *named; /* timm's architecture that config.json, or timm's training arguments, name */
    const char *named_from;
    const char *whole; /* the source that describes the whole network: what it leaves out is at its default; or NULL */
    vt_provenance *t;
} vt_sources;

void vt_sources_mark(const vt_sources *s, vt_field f, const char *from, vt_certainty d);
void vt_sources_known(const vt_sources *s, vt_field f, const char *from); /* known */
/* From a convention: known if a source describes the whole network. */
void vt_sources_convention(const vt_sources *s, vt_field f, const char *from);
/* From a scheme that no option asked for: convention, but for what the names prove, and for the forms that a
 * shipped map has from one laboratory. */
void vt_sources_scheme_known(const vt_sources *s, vt_field f, const char *key);
/* Do the names themselves prove it, whatever describes the rest? */
bool vt_sources_proven(const vt_sources *s, const char *key);

/* A value of the metadata, or of the pairs that stand before it; *from names which. */
const char *vt_sources_meta(const vt_sources *s, const char *key, const char **from);
extern const char vt_sources_layer[]; /* what a normalisation layer among the tensors is called there */
/* What the scheme sets if no other source does. A map that no option asked for is silent beside a description of the
 * whole, but for what the names prove. */
const char *vt_sources_scheme(const vt_sources *s, const char *key, const char **from);
/* Written, but no number: NaN, which the range checks refuse by name. Always true. */
bool vt_sources_parse(const char *text, double *out);
/* A number from metadata (any of the keys) or config.json; *from names the source; false: nowhere. */
bool vt_sources_number(const vt_sources *s, const char *const *keys, double *out, const char **from);
/* The same from the scheme, where no preset was asked for. */
bool vt_sources_scheme_number(const vt_sources *s, const char *key, double *out, const char **from);

/* Mean, std and what is done to a picture before (resolve_pixels.c). */
void vt_resolve_pixels(vt_config *c, const vt_sources *s);
