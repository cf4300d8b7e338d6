/* SPDX-License-Identifier: MIT */
/* A loaded model: configuration, parameter table and float32 weights. Constant after load and shared by all threads;
 * what changes during a computation lives in a session (models/net/session.h). */
#pragma once

#include "base/status.h"
#include "models/config.h"

/* Which gradients a session can compute; more needs more memory. NONE: forward only. */
typedef enum vt_grad_mode { VT_GRAD_NONE, VT_GRAD_INPUT, VT_GRAD_PARAMS } vt_grad_mode;

typedef struct vt_model {
    vt_config config;
    vt_source source;
    vt_certainty certainty[VT_FIELD_COUNT];
    vt_param_list params;
    float *w;           /* all parameters, each aligned to 64 bytes */
    float *wt;          /* transposed copies of the matrices, or NULL until vt_model_prepare */
    char sha256[65];    /* of the file; empty for models made in memory */
    const char *seal;   /* the checksum in its file's metadata (VT_ST_FILE, VT_ST_SHA), or NULL */
    char naming[80];    /* naming scheme recognised: "timm" (checkpoint/names.h) */
    char own_map[48];   /* the shipped map that applied unasked: --names with it makes its word the user's; or "" */
    char transform[64]; /* what is done to a picture first, as data/transform reads it; empty: nobody says */
    char *path;
    char *part,
        *parts;       /* of a file with several state dicts (tensors/tensors.h): which was read, and of which; or "" */
    bool part_asked;  /* an option named it */
    char unread[120]; /* what the file or its configuration holds and nothing here reads; or "" */
    char *labels;     /* its own names of its outputs, one a line (data/dataset.h), or NULL */
    char *recipe;     /* how vitrine train made it: the text in the file's metadata, or NULL */
} vt_model;

/* Values given on the command line; they win over everything in files. Unset: 0 / false / NULL. */
typedef struct vt_overrides {
    int heads;
    int image; /* side of the input, for architectures whose tensors leave it open */
    int shown; /* side of the images at hand, which counts where nothing else tells */
    bool has_mean, has_std;
    double mean[3], std[3];
    double ln_eps;          /* 0: unset */
    const char *attn_scale; /* "head", "dim" or a number */
    const char *preset;
    const char *attn;
    const char *form[16]; /* "key=value", rows of models/forms: what tensors cannot tell */
    int n_form;
    /* Pairs key, value that stand before the file's own metadata (and read as that), and what to call them; a map
     * file's `set` lines. */
    const char *const *pairs;
    int n_pairs;
    const char *pairs_from;
    /* Of ONNX files. onnx: one will do, as the caller needs logits and gradients alone; raw: input and output are to be
     * those of the file; own_pixels: the input is. */
    bool onnx, raw, own_pixels;
    int64_t shape[3]; /* C, H, W of the image; 0: the file's */
    const char *layout, *output;
    const char *part;  /* which state dict of several in the file; NULL: the usual one (tensors/tensors.h) */
    const char *names; /* a map file, or a scheme or map that is compiled in (checkpoint/names.h); NULL: recognised */
} vt_overrides;

/* Reads a checkpoint (tensors/tensors.h); a folder means its model.safetensors. `o` may be NULL. A value that is
 * not given is guessed and marked in `certainty`: before results are shown, checkpoint/provenance must be consulted.
 * Every value is read once: NaN and Inf are refused. Pages of the file are given back as they are read: the peak is the
 * weights themselves. */
vt_status vt_model_open(vt_model **out, const char *path, const vt_overrides *o, vt_err *e);
/* Before many float32 computations: keeps a transposed copy of every matrix, as much memory again, for forward products
 * that take 14 % less time. Without it everything works too; the last bits of logits may be others, as some kernels (of
 * OpenBLAS for Cooperlake, for one) add small products up in another order then. Not while sessions of the model are
 * computing. */
vt_status vt_model_prepare(vt_model *m, vt_err *e);
/* Describes a checkpoint by the checks of vt_model_open and keeps no weights (w and wt are NULL), for vitrine info. */
vt_status vt_model_inspect(vt_model **out, const char *path, const vt_overrides *o, vt_err *e);
/* Makes a model with the table of parameters alone, the first half of vt_model_new. VT_E_UNKNOWN: no such architecture;
 * else what vt_config_check refuses. */
vt_status vt_model_table(vt_model **out, const vt_config *config, vt_err *e);
/* Takes the memory of the weights, not set: the second half of vt_model_new. VT_E_MEMORY. */
vt_status vt_model_take(vt_model *m, vt_err *e);
/* Makes a model of that configuration with zero weights (vt_model_init fills them). */
vt_status vt_model_new(vt_model **out, const vt_config *config, vt_err *e);
/* Fills the weights by timm's initialisation, or what config.init says, seeded; no memory is the only way to fail. */
vt_status vt_model_init(vt_model *m, uint64_t seed);
/* Refreshes the transposed copies, if there are any: to be called after weights were written by hand. */
void vt_model_refresh(vt_model *m);
void vt_model_refresh_param(vt_model *m, int i); /* one tensor */
/* Writes safetensors with the configuration in the metadata, so that vt_model_open needs no options. */
vt_status vt_model_save(const vt_model *m, const char *path, vt_err *e);
/* Writes safetensors as vt_model_save does, but of weights w [params.total], with n_extra more metadata pairs (key,
 * value). */
vt_status vt_model_save_as(const vt_model *m, const float *w, const char *const *extra, int n_extra, const char *path,
                           vt_err *e);
void vt_model_close(vt_model *m); /* accepts NULL */

const vt_param *vt_model_param(const vt_model *m, const char *name); /* NULL: none */
const vt_param *vt_model_param_at(const vt_model *m, size_t offset); /* the tensor that holds this number; NULL: none */
size_t vt_model_param_count(const vt_model *m);                      /* scalars, without buffers */
int vt_model_tokens(const vt_model *m);                              /* that the first block sees */

/* The model's matrices in bfloat16, in the order of the products that use them (linalg/products.h): each of them as a
 * forward and as a backward multiplies by it. The model, which must be prepared before (vt_model_prepare) if it will
 * be, outlives it and does not change. */
struct vt_packed;
/* Makes those matrices, freed by vt_packed_free. VT_E_MEMORY alone. */
vt_status vt_model_pack(struct vt_packed **out, const vt_model *m, vt_err *e);
size_t vt_model_packed_bytes(const vt_model *m); /* 0: this processor multiplies no bfloat16 */

/* ---- the matrices of each block: W_Q, W_K, W_V, W_O and the two of the MLP, in an architecture's tensors; row-major
 * [rows, cols] (out x in, as PyTorch stores them) ---- */

typedef enum vt_weight_kind {
    VT_WEIGHT_Q,
    VT_WEIGHT_K,
    VT_WEIGHT_V,
    VT_WEIGHT_O,
    VT_WEIGHT_FC1,
    VT_WEIGHT_FC2,
    VT_WEIGHT_KINDS
} vt_weight_kind;
const char *vt_weight_kind_name(vt_weight_kind r); /* "W_Q", ... "FC2" */

typedef struct vt_matrix {
    size_t offset;  /* of element [0,0] in reals */
    int rows, cols; /* contiguous: row stride is cols */
    int heads;      /* the block's attention heads */
    bool again;     /* the same numbers as an earlier role's (W_K = W_Q): who sums over roles counts them once */
} vt_matrix;

/* Returns the number of attention blocks: those of which vt_model_matrix speaks. */
int vt_model_blocks(const vt_model *m);
/* Finds the matrix of a block in [0, vt_model_blocks); false: this architecture has none, *out stays. */
bool vt_model_matrix(const vt_model *m, int block, vt_weight_kind kind, vt_matrix *out);

/* Presets: rows of known shapes, by timm name. */
typedef struct vt_preset {
    const char *name;
    const char *arch, *attn;
    int image, patch, dim, depth, heads, hidden, classes;
    bool qkv_bias, dist_token;
    double ln_eps;
    double mean, std;  /* timm's default for the family, all channels; 0, 0: ImageNet's; -1, 0: CIFAR-10's */
    const char *forms; /* "key=value key=value" of models/forms, or NULL: everything that has no column */
    const char *note;
} vt_preset;
/* Returns all presets; *n: how many. */
const vt_preset *vt_presets(int *n);
/* Returns the preset of that name, or NULL. */
const vt_preset *vt_preset_find(const char *name);
/* Finds the preset of that name. VT_E_UNKNOWN: there is none, with the nearest name. */
vt_status vt_preset_named(const char *name, const vt_preset **out, vt_err *e);
/* Fills a configuration, all of it, from a preset. */
void vt_preset_config(const vt_preset *p, vt_config *c);
