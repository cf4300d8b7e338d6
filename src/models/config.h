/* What a network is, apart from its weights: everything that shapes are derived from, and what tensors cannot tell. */
#ifndef VT_MODELS_CONFIG_H
#define VT_MODELS_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "core/status.h"

typedef enum vt_pool { VT_POOL_TOKEN, VT_POOL_AVG } vt_pool;

#define VT_ATTN_TEXT 64 /* bytes of an attention variant's canonical text, "scsa:tau=10,nu=0,eps=0" */

typedef struct vt_config {
    char arch[24];           /* registry name: "vit" */
    char attn[VT_ATTN_TEXT]; /* canonical, see vt_attn_parse: "dot" */
    int image;               /* side of the square input, pixels; 3 channels */
    int patch, dim, depth, heads, hidden, classes;
    bool qkv_bias, dist_token;
    bool patch_gate; /* a learnable factor for each input patch, tensor patch_gate [patches] (global attention, UAM eq.
                        1) */
    vt_pool pool;    /* class token, or mean over the patch tokens followed by fc_norm (timm global_pool='avg') */
    double ln_eps;   /* LayerNorm epsilon */
    double attn_scale;      /* multiplies Q K^T */
    double mean[3], std[3]; /* of the normalisation inside the model; images are in [0,1] */
} vt_config;

/* Tokens in the sequence, tokens before the patches, patches a side. */
static inline int vt_config_side(const vt_config *c) { return c->image / c->patch; }
static inline int vt_config_prefix(const vt_config *c) { return c->dist_token ? 2 : 1; }
static inline int vt_config_tokens(const vt_config *c) {
    return vt_config_side(c) * vt_config_side(c) + vt_config_prefix(c);
}

/* Numbers of one image, [3, image, image]. */
static inline size_t vt_config_pixels(const vt_config *c) { return 3 * (size_t)c->image * (size_t)c->image; }

/* One sentence if the numbers contradict each other or are out of range (path names the file, or NULL). */
vt_status vt_config_check(const vt_config *c, const char *path, vt_err *e);

/* How `vitrine new` initialises a tensor (timm's non-JAX initialisation, algorithms.md B.2). */
typedef enum vt_init { VT_INIT_ZERO, VT_INIT_ONE, VT_INIT_TRUNC02, VT_INIT_TINY, VT_INIT_CONV } vt_init;

/* One weight tensor of an architecture. Layers group tensors that are used together; the slot is the architecture's
 * own number of the tensor within its layer. */
typedef struct vt_param {
    char name[64];
    int ndim;
    int64_t shape[4];
    size_t numel, offset; /* in reals, into the block of all parameters */
    size_t t_offset;      /* of the transposed copy, into the block of transposed copies; SIZE_MAX: none */
    int layer, slot;
    vt_init init;
} vt_param;

#define VT_MAX_SLOTS 24

typedef struct vt_param_list {
    vt_param *items;
    int count, capacity, layers;
    size_t total, t_total, layer_max; /* reals: all parameters, transposed copies, the largest layer */
    bool failed;                      /* out of memory or over a limit */
} vt_param_list;

/* Appends a tensor; shape ends at the first 0. matrix: a [out, in] weight that wants a transposed copy. */
void vt_param_add(vt_param_list *l, int layer, int slot, bool matrix, vt_init init, const char *name,
                  const int64_t shape[4]);
void vt_param_list_free(vt_param_list *l);

#endif
