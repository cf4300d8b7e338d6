/* SPDX-License-Identifier: MIT */
/* Settings that tensors do not hold (heads, norm order, activation, LayerNorm eps, attention scale, mean, std): where
 * it is looked for, and how sure it is. */
#pragma once

#include "checkpoint/hub.h"
#include "checkpoint/provenance.h"

/* Sets the settings of *c that tensors do not prove (provenance->source says which they do). A value without a source
 * is the likeliest one and marked in provenance->certainty; contradictions and values out of range fail. */
vt_status vt_config_resolve(vt_config *c, vt_provenance *provenance, const vt_tensors *st, const vt_names *names,
                            const vt_overrides *o, vt_err *e);

/* ---- for the parts of resolve ---- */

typedef struct vt_sources {
    const vt_tensors *st;
    const char *path; /* of st */
    const vt_overrides *o;
    const vt_names *names;
    vt_hub hub;
    const vt_preset *preset; /* that an option names, or whose shape is the file's; or NULL */
    char preset_why[72];
    const vt_preset *named; /* timm's architecture that config.json, or timm's training arguments, name */
    const char *named_from;
    const char *whole; /* the source that describes the whole network: what it leaves out is at its default; or NULL */
    vt_provenance *t;
} vt_sources;

/* Where one setting may stand, all values as texts, NULL: not there. The first of these wins: the option; a map that an
 * option names, and metadata; config.json and the like; the preset that an option names; a map that was recognised. */
typedef struct vt_setting {
    const char *option, *given; /* --heads and its value */
    const char *const *keys;    /* in maps and metadata, ends at NULL; the first one is its own */
    const char *hub, *hub_from; /* of config.json, preprocessor_config.json or timm's arguments */
    const char *preset;         /* "": the preset leaves it at its default, whatever a map says */
} vt_setting;

typedef struct vt_found {
    const char *text, *from; /* text NULL: nowhere */
    vt_certainty certainty;
    bool by_map; /* of a map that was recognised, not named by an option */
} vt_found;

/* Returns the value of a setting from the first source that has one (the order is that of vt_setting); text NULL: none
 * has. */
vt_found vt_sources_find(const vt_sources *s, const vt_setting *setting);
/* A default: certain if a source describes the whole network. */
vt_found vt_sources_default(const vt_sources *s, const char *text, const char *from);
/* Notes where field f is from and how sure it is. */
void vt_sources_mark(const vt_sources *s, vt_field f, const char *from, vt_certainty d);

enum { VT_NUMBER = 32 };
/* Writes a number as a text; NULL if it is 0. */
const char *vt_number_text(char buf[VT_NUMBER], double v);
/* Returns a text's number; NaN if it is none: the range checks refuse that. */
double vt_text_number(const char *text);

extern const char vt_sources_layer[]; /* the source of mean and std of a normalisation layer among the tensors */

/* Sets mean and std of *c, marks where they are from, and sets what is done to a picture before (resolve_pixels.c). */
void vt_resolve_pixels(vt_config *c, const vt_sources *s);
/* VT_E_USAGE: timm's training arguments differ from config.json and the like in heads, mean, std or a form, and no
 * option says which is true. */
vt_status vt_args_agree(const vt_hub *h, const vt_config *c, const vt_provenance *t, const char *weights, vt_err *e);
