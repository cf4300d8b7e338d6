/* SPDX-License-Identifier: MIT */
/* Training: from a recipe, a model and a data set to a folder with checkpoints and a log. Results depend on the recipe,
 * the weights and the data alone: not on threads, nor on interruptions. */
#pragma once

#include <signal.h>
#include "base/progress.h"
#include "parallel/team.h"
#include "data/dataset.h"
#include "eval/options.h"
#include "models/model.h"
#include "train/recipe.h"
#include "train/sampler.h"

typedef struct vt_train {
    const vt_recipe *recipe;      /* resolved */
    vt_model *model;              /* trained in place */
    const vt_dataset *data;       /* training split */
    const vt_extra *extra;        /* further training images, by recipe.extra; NULL: none */
    const vt_dataset *watch_data; /* data of probe.split; may be `data` */
    const char *out;              /* folder: model, best, state .safetensors, log.jsonl */
    int threads;
    vt_team *team;     /* ranks that train together, with the same of all this; rank 0 alone has files. NULL: alone */
    bool resume;       /* go on where state.safetensors is, if there is one */
    int64_t max_steps; /* stop (with a checkpoint) after this many steps of this call; 0: none */
    vt_progress progress;
    const volatile sig_atomic_t *interrupt;
} vt_train;

/* Makes the model that a recipe describes, before the first step: from scratch (timm's initialisation, seeded) or
 * fitted from the checkpoint `init` (NULL: none). What was left open in r->model is filled in. */
vt_status vt_train_model(vt_model **out, vt_recipe *r, const vt_dataset *data, const vt_model *init, vt_err *e);

/* Carries a checkpoint over to a model of another input size, patch or class count: fills `to` (weights allocated,
 * shapes fixed) from `from`: initial values by seed first (vt_model_init), then every tensor that can be carried over.
 * Same architecture, attention, width, depth, heads, MLP, qkv bias and tokens, else VT_E_SHAPE with `to` untouched.
 * What may differ: patch kernels shrink by block sums when from's patch is a multiple (Mo et al.'s code: the sum, not
 * the mean); the position grid is resized bilinearly (align_corners false, no antialias: Mo et al.) or bicubically (a =
 * -0.75, likewise: timm 0.5.4), prefix tokens copied; a head of another class count is drawn anew (seed) when init.head
 * is fresh, and refused otherwise with the key to set; fresh draws it anew in any case. Tensors that `from` has not
 * (patch_gate) keep their initial values; the reverse is refused. Equal shapes are copied bit for bit. Mean, std,
 * LayerNorm eps and attention scale are to's own. */
vt_status vt_adapt(vt_model *to, const vt_model *from, const vt_recipe_init *how, uint64_t seed, vt_err *e);

/* Fails with VT_E_USAGE for a checkpoint `init` whose SHA-256 does not begin with init.sha256. */
vt_status vt_train_check_hash(const vt_recipe *r, const vt_model *init, vt_err *e);
enum { VT_MODEL_TEXT = 1200 };
/* out: the settings of a model that are not in its recipe: options that changed how its checkpoint was read. A line
 * "key: value" each. */
void vt_train_model_text(char *out, size_t size, const vt_config *c);
/* Fails with VT_E_USAGE for a model.preset of another architecture or size than the checkpoint `init`, whose shape the
 * training takes; nothing without a preset. */
vt_status vt_train_check_preset(const vt_recipe *r, const vt_model *init, vt_err *e);

/* The shape of that model, where the images themselves need not be there: preset or given checkpoint, then what the
 * recipe says, then what the data say. */
typedef struct vt_train_images {
    const char *path; /* for sentences */
    int side, classes;
} vt_train_images;
/* Fills *c with that shape; VT_E_USAGE if recipe and data contradict each other. */
vt_status vt_train_config(vt_config *c, const vt_recipe *r, const vt_train_images *d, const vt_model *init, vt_err *e);
/* Computes the floating-point operations of one step's matrix products, inner attack included. */
vt_status vt_train_flops(double *flops, const vt_recipe *r, const vt_config *c, vt_err *e);

/* What a run will take; refuses what cannot work (a batch larger than the set, a penalty that does not fit the model).
 * bytes: memory held by weights, gradients, optimiser, sessions and buffers of `threads` threads. */
typedef struct vt_train_plan {
    int64_t images, per_epoch, steps, watched;
    size_t bytes;
    double flops; /* of matrix products, for one step (inner attack included) */
} vt_train_plan;
/* Fills *p for a training t whose recipe, model and data are set. VT_E_USAGE: fewer images than a batch, or a key that
 * does not fit; VT_E_SHAPE: a penalty that does not. */
vt_status vt_train_measure(vt_train_plan *p, const vt_train *t, vt_err *e);

/* Runs the training. VT_INTERRUPTED: stopped on request, after a checkpoint. VT_E_NUMERIC: guard rails gave up. */
vt_status vt_train_run(const vt_train *t, vt_err *e);

/* ---- a training by its options ---- */

/* Everything that a training holds. */
typedef struct vt_train_job {
    vt_recipe *recipe;
    vt_dataset *data, *test; /* test: of probe.split, or NULL */
    vt_extra extra;
    vt_model *init, *model; /* init: the checkpoint that model was made from, or NULL */
    char note[460];         /* what the user should know of init, or "" */
    vt_train t;
} vt_train_job;

/* Opens what the options name (those of VT_TRAIN_ARGS; `data` must be chosen) into a zeroed job, and fills j->t but for
 * threads, team, progress and interrupt. The recipe is a file, or where that is NULL the one in the checkpoint `from`.
 */
vt_status vt_train_open(vt_train_job *j, const vt_choices *c, const char *recipe, const char *from, vt_known_fn known,
                        void *ctx, vt_err *e);
void vt_train_close(vt_train_job *j); /* accepts a zeroed one */
