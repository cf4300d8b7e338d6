/* SPDX-License-Identifier: MIT */
/* The forms of a network as a table: one row makes a value of vt_config writable as key=value in presets, in metadata,
 * in --form and, by its key there, in config.json. Rows at their default are written nowhere. */
#pragma once

#include "base/opt.h"
#include "models/model.h"

typedef struct vt_form {
    vt_opt opt;       /* key, help, type, offset into vt_config, default, range */
    vt_field field;   /* its place in vt_source */
    bool four;        /* int[4], written "2,2,6,2" (opt.type is INT) */
    const char *json; /* another key, as config.json files have it, or NULL */
} vt_form;

/* Returns all rows; *n: how many. */
const vt_form *vt_forms(int *n);
const vt_form *vt_form_find(const char *key); /* NULL: none */

enum { VT_FORM_VALUE = 64 };
/* Returns the value of "form key=value", the last one given, copied into value; or NULL. A text of o may hold several
 * words. */
const char *vt_form_given(const vt_overrides *o, const char *key, char value[VT_FORM_VALUE]);

/* Sets the field of c that row f describes by a value in words, "gelu", "2" or, for four numbers, "2,2,6,2". Words of
 * other libraries (gelu_new, nn.ReLU) are understood. VT_E_USAGE, `who` before it: no such value. */
vt_status vt_form_set(vt_config *c, const vt_form *f, const char *value, const char *who, vt_err *e);
/* Sets every form of "key=value key=value". VT_E_UNKNOWN: no such key, with the nearest one; VT_E_USAGE: a word without
 * "=", or a form that another architecture than c->arch has alone ("": not known yet). Those before it are set then. */
vt_status vt_form_parse(vt_config *c, const char *text, const char *who, vt_err *e);
/* Writes a form's value in c as vt_form_set reads it; returns the length that snprintf would. */
int vt_form_text(const vt_config *c, const vt_form *f, char *buf, size_t size);
/* Is a form in c at the value that c's architecture has without it? */
bool vt_form_is_default(const vt_config *c, const vt_form *f);
/* Does it say how a file is read (patch_order), and nothing of the network? */
bool vt_form_of_file(const vt_form *f);
/* Returns the key of the first form of vt_form_of_file that is not at its default in c, or NULL. */
const char *vt_forms_of_file(const vt_config *c);
/* Writes all that are not at their default, "key=value key=value"; returns the length that snprintf would. */
int vt_forms_text(const vt_config *c, char *buf, size_t size);

/* ---- values of a configuration in words ---- */

/* Returns what a value is called in metadata, maps, --form and results.json: "ln_eps". */
const char *vt_field_key(vt_field f);
/* Returns a field's label for people: "activation". */
const char *vt_field_label(vt_field f);
/* Writes the model's value of a field for people: "gelu", "0.125"; 64 bytes suffice. */
void vt_field_text(const vt_model *m, vt_field f, char *buf, size_t size);
/* Is it shown? Every value of all networks is; a form, where it differs from timm's ViT or a source names it. */
bool vt_field_shown(const vt_model *m, vt_field f);
