/* SPDX-License-Identifier: MIT */
/* A training recipe: YAML with a schema. Keys are flat ("epochs") or one level deep ("attack.eps"); the sections are
 * tables of core/opt, and every objective, optimiser and penalty brings a section under its own name. The resolved
 * recipe is text again, stands in the checkpoint's metadata, and reads back to the same text. */
#ifndef VT_TRAIN_RECIPE_H
#define VT_TRAIN_RECIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "attacks/ball.h"
#include "core/opt.h"
#include "core/status.h"
#include "models/config.h"

typedef struct vt_recipe_top {
    char name[64]; /* free text */
    int seed, epochs, batch, micro_batch;
    char objective[24]; /* registry name */
    char optimiser[24];
    char attention_optimiser[24]; /* of W_Q, W_K, W_V, W_O: "same" or a registry name */
    double attention_lr_scale;    /* factor on the learning rate there */
    double lr;
    double weight_decay;
    double clip; /* global L2 norm of the gradient; 0: none */
    double ema;  /* decay of the averaged weights; 0: none */
    double label_smoothing;
    char freeze[200];   /* tensors that training leaves as they are (train.h, vt_train_freeze); "": none */
    char extra[64];     /* shares of a batch that further data sets have, "0.5,0.2"; "": there are none */
    double layer_decay; /* factor on the learning rate for each layer below the head; 1: none */
} vt_recipe_top;

/* model.*: the shape when training from scratch; 0 / "" / -1 (in recipes "auto"): what the preset or the data say. */
typedef struct vt_recipe_model {
    char preset[64], attn[VT_ATTN_TEXT];
    int image, patch, dim, depth, heads, hidden, classes;
    int native;         /* -1, or side of the images that the model resizes to image itself (0: it does not) */
    int native_filter;  /* -1, or vt_native_filter */
    int qkv_bias, pool; /* -1, or bool; -1, or vt_pool */
    bool patch_gate;
    double drop_path; /* stochastic depth: largest rate at which training drops residual branches; 0: none */
    char forms[224];  /* "key=value key=value" of models/forms; "": none given */
    bool has_norm;    /* mean and std were given; else they hold no numbers of use */
    double mean[3], std[3];
} vt_recipe_model;

typedef enum vt_head_init { VT_HEAD_KEEP, VT_HEAD_FRESH } vt_head_init;
typedef enum vt_pos_init { VT_POS_BILINEAR, VT_POS_BICUBIC } vt_pos_init;

/* init.*: how a given checkpoint is fitted to the shape (train/train.h, vt_adapt). */
typedef struct vt_recipe_init {
    int head;        /* keep | fresh */
    int pos_embed;   /* bilinear | bicubic */
    char part[96];   /* which state dict of a checkpoint that holds several; "": the usual one */
    char sha256[68]; /* of the checkpoint that training started from; "" : from scratch */
} vt_recipe_init;

typedef struct vt_recipe_attack {
    double eps; /* 0: missing */
    int norm;   /* vt_norm */
    char spec[96];
    bool ard, prm;
    double drop_rate, warm;      /* ARD and PRM: keep rate after the ramp, ramp length as a share of the epochs */
    int prm_patch;               /* 0: the model's patch */
    double noise;                /* the ball's centre is the image plus uniform noise of this many eps (N-FGSM) */
    double ramp_begin, ramp_end; /* eps grows from 0 to full between these shares of the training; 0 0: full at once */
} vt_recipe_attack;

/* awp.*: adversarial weight perturbation (train/update.h). */
typedef struct vt_recipe_awp {
    double gamma;  /* 0: none */
    double warmup; /* share of the training without it */
} vt_recipe_awp;

typedef struct vt_recipe_schedule {
    int kind;              /* constant | step | cosine | onecycle */
    double min_lr, warmup; /* warmup: share of the training */
    char drops[96];        /* step: shares of the training, "0.875,0.95" */
    double factor;
} vt_recipe_schedule;

typedef struct vt_recipe_augment {
    int crop;                                                  /* zero padding of the random crop, pixels; 0: none */
    double flip;                                               /* probability */
    int randaugment, magnitude;                                /* RandAugment: operations (0: none), their strength */
    double erase;                                              /* random erasing: probability */
    double mix_prob, mixup_alpha, cutmix_alpha, cutmix_switch; /* Mixup / CutMix with the reversed batch */
} vt_recipe_augment;

typedef struct vt_recipe_probe {
    int images; /* 0: no probe */
    int split;  /* train (held out of training) | test */
    double eps; /* 0: attack.eps */
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
    int n_groups;
    /* schedule.drops, parsed */
    double drops[VT_RECIPE_DROPS];
    int n_drops;
    /* extra, parsed */
    double extra[VT_RECIPE_EXTRA];
    int n_extra;
    max_align_t plugins[]; /* parameters of every plug-in, in the order of their sections (recipe_keys.h) */
} vt_recipe;

/* All defaults. */
vt_status vt_recipe_new(vt_recipe **out, vt_err *e);
void vt_recipe_free(vt_recipe *r); /* accepts NULL */
/* Applies a YAML file / text to r (path names it in errors, which give the line): one mapping of scalars, or of
 * mappings of scalars; several numbers may be a sequence. Unknown keys are refused with the nearest one, keys given
 * twice too. After a failure r is good for vt_recipe_free alone. */
vt_status vt_recipe_read(vt_recipe *r, const char *path, vt_err *e);
vt_status vt_recipe_parse(vt_recipe *r, const char *text, size_t n, const char *path, vt_err *e);
/* One --set KEY=VALUE. A key may be set again. */
vt_status vt_recipe_set(vt_recipe *r, const char *assignment, vt_err *e);
/* After everything is set: fills what depends on other keys (attack.spec from the objective, probe.eps), parses drops,
 * and refuses contradictions in one sentence. Needed before vt_recipe_lr. */
vt_status vt_recipe_resolve(vt_recipe *r, vt_err *e);
/* Canonical YAML of the resolved recipe, malloc'ed; sections of plug-ins that are not in use are left out. NULL: no
 * memory. */
char *vt_recipe_text(const vt_recipe *r);
/* Keys whose values differ between two canonical texts, "a.b (1 -> 2), c (none -> 3)"; "" when none; ends in "..." when
 * out is too small for all. */
void vt_recipe_diff(const char *before, const char *now, char *out, size_t size);
/* Every key with its default, range and meaning: `vitrine help recipe`. */
void vt_recipe_help(FILE *f);

/* Parameters of a plug-in by registry name; NULL: unknown. */
const void *vt_recipe_objective(const vt_recipe *r, const char *name);
const void *vt_recipe_optim(const vt_recipe *r, const char *name);
const void *vt_recipe_penalty(const vt_recipe *r, const char *name);
/* Weight decay of a tensor by its name. */
double vt_recipe_weight_decay(const vt_recipe *r, const char *tensor);
/* Learning rate at a share t in [0,1] of the training (fractional epoch / epochs): lr; lr times factor for every drop
 * at or before t; or min_lr + (lr - min_lr) (1 + cos(pi t)) / 2. Before warmup it is multiplied by a line from 1/1000
 * at t = 0 (no step is wasted on rate 0) to 1 at t = warmup. onecycle (Smith and Topin 2018, as
 * torch.optim.lr_scheduler.OneCycleLR): half a cosine from lr / 25 to lr at warmup, half a cosine down to min_lr at 1.
 */
double vt_recipe_lr(const vt_recipe *r, double t);

#endif
