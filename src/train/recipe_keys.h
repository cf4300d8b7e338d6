/* SPDX-License-Identifier: MIT */
/* What the parts of the recipe share: its sections as tables of options, and setting one key. */
#pragma once

#include "train/recipe.h"

#define VT_RECIPE_NONE "none" /* of a number whose preset does nothing */

/* Where a section comes from. */
typedef enum vt_recipe_family {
    VT_RECIPE_OWN,
    VT_RECIPE_OBJECTIVE,
    VT_RECIPE_OPTIM,
    VT_RECIPE_PENALTY,
    VT_RECIPE_FAMILIES
} vt_recipe_family;

typedef struct vt_recipe_section {
    const char *name; /* "attack"; "": the keys at the top */
    const char *intro, *reference;
    const vt_opt *opts; /* NULL: no keys */
    void *params;       /* what the offsets of opts are into; NULL without a recipe */
    size_t params_size; /* of plug-ins */
    vt_recipe_family family;
} vt_recipe_section;

enum { VT_RECIPE_KEY_MAX = 96, VT_RECIPE_VALUE_MAX = 256 }; /* bytes, with the end */

/* Section i = 0, 1, ...; false beyond the last. r may be NULL. */
bool vt_recipe_section_at(const vt_recipe *r, int i, vt_recipe_section *out);
bool vt_recipe_section_named(const vt_recipe *r, const char *name, vt_recipe_section *out);
/* Is it the name of a section, or "groups"? */
bool vt_recipe_is_section(const char *name);
/* Does it change what the recipe does? */
bool vt_recipe_in_use(const vt_recipe *r, const vt_recipe_section *s);
/* "attack.eps" from "attack" and "eps", "epochs" from "" and "epochs"; false: too long. */
bool vt_recipe_full_key(char out[VT_RECIPE_KEY_MAX], const char *section, const char *key);
/* The row of a full key; NULL: unknown. */
const vt_opt *vt_recipe_key(const vt_recipe *r, const char *key, vt_recipe_section *of);
/* Several numbers, which YAML may also give as a sequence. */
bool vt_recipe_takes_list(const vt_opt *o);
/* Several words with blanks between them, likewise. */
bool vt_recipe_takes_words(const vt_opt *o);
/* What it may be, "0 to 1; " or "head|dim; ", in buf, which is returned; "" for a text. */
const char *vt_recipe_limits(char *buf, size_t size, const vt_opt *o);
/* Sets a full key; where ("file:3", "set") begins the sentence of a refusal. */
vt_status vt_recipe_apply(vt_recipe *r, const char *key, const char *value, const char *where, vt_err *e);
vt_status vt_recipe_no_section(const char *name, const char *where, vt_err *e);
