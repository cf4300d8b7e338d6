/* SPDX-License-Identifier: MIT */
/* A training recipe: YAML with a schema. Keys are flat ("epochs") or one level deep ("attack.eps"); the sections are
 * tables of base/opt, and every objective, optimiser and penalty brings a section under its own name. The resolved
 * recipe is text again, stands in the checkpoint's metadata, and reads back to the same text. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "attacks/ball.h"
#include "base/opt.h"
#include "base/status.h"
#include "models/config.h"

/* Sections, a field for each key: recipe_keys.c has its meaning, range and default. */
typedef struct vt_recipe_top {
    char name[64], objective[24], optimiser[24], attention_optimiser[24], freeze[200], extra[64];
    int seed, epochs, batch, micro_batch;
    double lr, attention_lr_scale, layer_decay, weight_decay, clip, ema, label_smoothing;
} vt_recipe_top;

/* 0, "" or -1 (in recipes "auto"): what the preset or the data say. */
typedef struct vt_recipe_model {
    char preset[64], attn[VT_ATTN_TEXT], forms[224];
    int image, patch, dim, depth, heads, hidden, classes, native, native_filter, qkv_bias, pool;
    bool patch_gate, has_norm; /* has_norm: mean and std were given; else they hold no numbers of use */
    double drop_path, mean[3], std[3];
} vt_recipe_model;

typedef enum vt_head_init { VT_HEAD_KEEP, VT_HEAD_FRESH } vt_head_init;
typedef enum vt_pos_init { VT_POS_BILINEAR, VT_POS_BICUBIC } vt_pos_init;

typedef struct vt_recipe_init {
    int head, pos_embed; /* vt_head_init, vt_pos_init */
    char part[96], sha256[68];
} vt_recipe_init;

typedef struct vt_recipe_attack {
    int norm, prm_patch; /* norm: vt_norm */
    char spec[96];
    bool ard, prm;
    double eps, drop_rate, warm, noise, ramp_begin, ramp_end;
} vt_recipe_attack;

typedef struct vt_recipe_awp {
    double gamma, warmup;
} vt_recipe_awp;

typedef struct vt_recipe_schedule {
    int kind;
    char drops[96];
    double min_lr, warmup, factor;
} vt_recipe_schedule;

typedef struct vt_recipe_augment {
    int crop, randaugment, magnitude;
    double flip, erase, gaussian, mix_prob, mixup_alpha, cutmix_alpha, cutmix_switch;
} vt_recipe_augment;

typedef struct vt_recipe_probe {
    int images, split;
    double eps;
    char attack[96];
} vt_recipe_probe;

#define VT_RECIPE_GROUPS 16
#define VT_RECIPE_DROPS 8
#define VT_RECIPE_EXTRA 4

typedef struct vt_recipe {
    vt_recipe_top top;
    vt_recipe_model model;
    vt_recipe_init init;
    vt_recipe_attack attack;
    vt_recipe_awp awp;
    vt_recipe_schedule schedule;
    vt_recipe_augment augment;
    vt_recipe_probe probe;
    /* groups.PATTERN: weight decay of tensors whose name fits (fnmatch), first match wins, else top.weight_decay */
    struct {
        char pattern[64];
        double weight_decay;
    } groups[VT_RECIPE_GROUPS];
    int n_groups, n_drops, n_extra;
    double drops[VT_RECIPE_DROPS], extra[VT_RECIPE_EXTRA]; /* schedule.drops and top.extra, parsed */
    max_align_t plugins[]; /* parameters of every plug-in, in the order of their sections */
} vt_recipe;

/* Where a section comes from. */
typedef enum vt_recipe_family {
    VT_RECIPE_OWN,
    VT_RECIPE_OBJECTIVE,
    VT_RECIPE_OPTIM,
    VT_RECIPE_PENALTY
} vt_recipe_family;

/* Allocates a recipe of all defaults. */
vt_status vt_recipe_new(vt_recipe **out, vt_err *e);
void vt_recipe_free(vt_recipe *r); /* accepts NULL */
/* Applies a YAML file to r: one mapping of scalars, or of
 * mappings of scalars; several numbers may be a sequence. Unknown keys are refused with the nearest one, keys given
 * twice too. After a failure r is good for vt_recipe_free alone. */
vt_status vt_recipe_read(vt_recipe *r, const char *path, vt_err *e);
/* Applies a YAML text of n bytes to r as vt_recipe_read does a file; path names it in errors. */
vt_status vt_recipe_parse(vt_recipe *r, const char *text, size_t n, const char *path, vt_err *e);
/* Applies one KEY=VALUE. A key may be set again. VT_E_UNKNOWN: no such key; VT_E_USAGE: no such value. */
vt_status vt_recipe_set(vt_recipe *r, const char *assignment, vt_err *e);
/* Completes a recipe after everything is set: fills what depends on other keys (attack.spec from the objective,
 * probe.eps), parses drops, and refuses contradictions in one sentence. Needed before vt_recipe_lr. */
vt_status vt_recipe_resolve(vt_recipe *r, vt_err *e);
/* Returns canonical YAML of the resolved recipe, to be freed, without plug-ins that are not in use. NULL: no memory. */
char *vt_recipe_text(const vt_recipe *r);
/* Keys whose values differ between two canonical texts, "a.b (1 -> 2), c (none -> 3)"; "" when none; ends in "..." when
 * out is too small for all. */
void vt_recipe_diff(const char *before, const char *now, char *out, size_t size);
/* Prints every key with its default, range and meaning: `vitrine help recipe`. */
void vt_recipe_help(FILE *f);

/* Returns the parameters of a plug-in by registry name; NULL: the family has none of that name. */
const void *vt_recipe_params(const vt_recipe *r, vt_recipe_family family, const char *name);
/* Returns the weight decay of a tensor by its name: of the first pattern in groups that fits, else the recipe's. */
double vt_recipe_weight_decay(const vt_recipe *r, const char *tensor);
/* Returns the learning rate at a share t in [0,1] of the training: lr; lr times factor for every drop at or before t;
 * or min_lr + (lr - min_lr) (1 + cos(pi t)) / 2. Before warmup times a line from 1/1000 at t = 0 (no step is wasted on
 * rate 0) to 1. onecycle (Smith and Topin 2018, as torch.optim.lr_scheduler.OneCycleLR): half a cosine from lr / 25 to
 * lr at warmup, half a cosine down to min_lr at 1. */
double vt_recipe_lr(const vt_recipe *r, double t);

/* ---- the keys: sections as tables of options ---- */

#define VT_RECIPE_NONE "none" /* of a number whose preset does nothing */

typedef struct vt_recipe_section {
    const char *name; /* "attack"; "": the keys at the top */
    const char *intro, *reference;
    const vt_opt *opts; /* NULL: no keys */
    void *params;       /* what the offsets of opts are into; NULL without a recipe */
    size_t params_size; /* of plug-ins */
    vt_recipe_family family;
} vt_recipe_section;

enum { VT_RECIPE_KEY_MAX = 96, VT_RECIPE_VALUE_MAX = 256 }; /* bytes, with the end */

/* Fills *out with section i = 0, 1, ...; false beyond the last. r may be NULL: then *out has no parameters. */
bool vt_recipe_section_at(const vt_recipe *r, int i, vt_recipe_section *out);
/* Fills *out with the section of that name ("": the keys at the top); false: there is none. r may be NULL. */
bool vt_recipe_section_named(const vt_recipe *r, const char *name, vt_recipe_section *out);
/* Returns whether the section changes what the recipe does. */
bool vt_recipe_in_use(const vt_recipe *r, const vt_recipe_section *s);
/* Writes "attack.eps" for "attack" and "eps", "epochs" for "" and "epochs"; false: too long. */
bool vt_recipe_full_key(char out[VT_RECIPE_KEY_MAX], const char *section, const char *key);
/* Returns the row of a full key, and its section in *of; NULL: unknown. */
const vt_opt *vt_recipe_key(const vt_recipe *r, const char *key, vt_recipe_section *of);
