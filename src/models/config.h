/* SPDX-License-Identifier: MIT */
/* What a network is, apart from its weights: everything that shapes are derived from, and what tensors cannot tell. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/shape.h"
#include "base/status.h"
#include "nn/kinds.h"

/* What the head reads: the class token, the mean over the patch tokens, the mean over all tokens; or several side by
 * side: class token and mean over the patch tokens (DINOv2), the same with the mean first, class tokens of the last
 * blocks without a mean (DINO). */
typedef enum vt_pool {
    VT_POOL_TOKEN,
    VT_POOL_AVG,
    VT_POOL_ALL,
    VT_POOL_TOKEN_AVG,
    VT_POOL_AVG_TOKEN,
    VT_POOL_TOKENS
} vt_pool;
#define VT_POOL_WORDS "token|avg|all|token_avg|avg_token|tokens"

/* What a distilled model answers: the mean of both heads (timm, in evaluation), or one of them. */
typedef enum vt_dist_head { VT_DIST_MEAN, VT_DIST_CLASS, VT_DIST_DIST } vt_dist_head;

/* A factor for each channel of a residual branch: timm's LayerScale (ls1.gamma, ls2.gamma), or LipsFormer's weighted
 * residual (alpha1, alpha2; starts at 1/depth). The same computation under two names. */
typedef enum vt_factor { VT_FACTOR_NONE, VT_FACTOR_LAYER_SCALE, VT_FACTOR_ALPHA } vt_factor;

/* LayerNorms around the patch embedding (vit-pytorch since 1.0; Kumar et al. 2023, dual PatchNorm): of each flattened
 * patch before it, of its token behind it. Two bits. */
typedef enum vt_patch_norm {
    VT_PATCH_NORM_NONE,
    VT_PATCH_NORM_IN,
    VT_PATCH_NORM_OUT,
    VT_PATCH_NORM_BOTH
} vt_patch_norm;

/* What stands between the heads and the residual stream: a linear map, one without bias (vit-pytorch's SimpleViT), or
 * nothing (vit-pytorch with one head as wide as the model). */
typedef enum vt_proj { VT_PROJ_BIAS, VT_PROJ_PLAIN, VT_PROJ_NONE } vt_proj;

/* Positions of the patches: a tensor, none at all, or computed (models/net/patch_rows). */
typedef enum vt_positions_kind {
    VT_POSITIONS_LEARNED,
    VT_POSITIONS_NONE,
    VT_POSITIONS_SINCOS,
    VT_POSITIONS_SINCOS_MAE,
    VT_POSITIONS_SINCOS_MOCO,
    VT_POSITIONS_SINCOS_TIMM
} vt_positions_kind;

/* How weights of linear maps and convolutions start: timm's way, divided by the largest singular value (LipsFormer), or
 * such that radii of interval bounds stay as they are (Shi et al. 2021). */
typedef enum vt_init_rule { VT_INIT_RULE_TIMM, VT_INIT_RULE_SPECTRAL, VT_INIT_RULE_INTERVAL } vt_init_rule;

/* How a model resizes its input inside (nn/interpolate, F.interpolate with align_corners=False); _AA: antialias=True.
 */
typedef enum vt_native_filter {
    VT_NATIVE_BILINEAR,
    VT_NATIVE_BICUBIC,
    VT_NATIVE_NEAREST,
    VT_NATIVE_BILINEAR_AA,
    VT_NATIVE_BICUBIC_AA
} vt_native_filter;

/* How positions are resampled, always bicubic: F.interpolate(size=...), with antialias=True, or with scale_factor
 * (n + 0.1) / grid (DINOv2 without registers). */
typedef enum vt_pos_filter { VT_POS_FILTER_BICUBIC, VT_POS_FILTER_AA, VT_POS_FILTER_OFFSET } vt_pos_filter;

/* A patch embedding that is a Linear over flattened patches: how its columns run, which no shape tells. CONV: it is a
 * convolution, as timm's. */
typedef enum vt_patch_order { VT_PATCH_CONV, VT_PATCH_CHW, VT_PATCH_HWC } vt_patch_order;

/* The rows of a file's attn.qkv: all q, then k, then v (timm); q, k and v of each head in turn; or of each dimension of
 * each head in turn. */
typedef enum vt_qkv_rows { VT_QKV_ROWS, VT_QKV_HEADS, VT_QKV_DIMS } vt_qkv_rows;

#define VT_ATTN_TEXT 64 /* bytes of an attention variant's canonical text, "scsa:tau=10,nu=0,eps=0" */

typedef struct vt_config {
    char arch[24];           /* registry name: "vit" */
    char attn[VT_ATTN_TEXT]; /* canonical, see vt_attn_parse: "dot" */
    int image;               /* side of the square that is cut into patches, pixels; 3 channels */
    int patch, dim, depth, heads, hidden, classes;
    bool qkv_bias, dist_token;
    bool patch_gate; /* a learnable factor for each input patch, tensor patch_gate [patches] (Liu et al.,
                        "Understanding Attention Mechanisms", eq. 1: global attention) */
    vt_pool pool;
    double ln_eps;          /* of LayerNorm and BatchNorm */
    double attn_scale;      /* multiplies Q K^T */
    double mean[3], std[3]; /* of the normalisation inside the model; images are in [0,1] */

    /* Forms, one row each in forms.c (metadata, --form, presets). All zero is timm's ViT. */
    int native; /* side of the model's input, which it resizes to image itself; 0: image */
    vt_native_filter native_filter;
    bool bgr;          /* the input's channels are reversed before the normalisation: trained on blue, green, red */
    vt_norm_kind norm; /* of the blocks */
    vt_norm_kind final_norm; /* before the head */
    vt_act act;
    bool post_norm;     /* x = norm1(x + attn x), x = norm2(x + mlp x), as torch's TransformerEncoderLayer */
    bool norm_first;    /* with a mean: the final norm runs over the tokens before it (norm.*), not after (fc_norm.*) */
    bool norm_pre;      /* a norm before the first block (CLIP) */
    bool no_patch_bias; /* patch_embed.proj has no bias (CLIP) */
    bool no_cls;        /* no class token */
    bool no_embed_class;      /* positions for the patches alone */
    int registers;            /* register tokens, between class token and patches */
    bool no_embed_reg;        /* registers have no position (DINOv2) */
    int pos_grid;             /* side of the grid that positions are stored for, when it is not the image's; 0: it is */
    vt_pos_filter pos_filter; /* how they are resampled then */
    int head_layers;          /* several side by side: class tokens of that many last blocks, oldest first; 0: one */
    int conv_stem; /* channels of the first of log2(patch) convolutions, which stand before a 1 x 1 patch embedding; 0:
                      none */
    vt_dist_head dist_head;
    bool qk_norm; /* LayerNorm over each head's q and k, before the scale */
    bool tied_qk; /* W_Q = W_K, one tensor: attn.qkv.weight is [2D, D], rows q (and k) | v */
    vt_factor factor;
    double factor_start; /* of LayerScale, for `vitrine new`; 0: 1e-5 */
    vt_init_rule init;

    /* Of the file that was read: the weights here are always timm's (checkpoint/reorder). */
    vt_patch_order patch_order;
    vt_qkv_rows qkv_rows; /* ViT */
    bool class_last;      /* ViT: its position is the last one of pos_embed */
    double embed_scale;   /* ViT: factor of the patches' embedding before positions are added; 0: 1 */

    vt_patch_norm patch_norm;                           /* ViT */
    int attn_dim;                                       /* ViT: width of attention, heads times head width; 0: dim */
    vt_proj proj;                                       /* ViT */
    vt_positions_kind positions;                        /* ViT */
    int local_blocks;                                   /* ConViT: GPSA blocks, before the class token joins */
    int stages, stage_depth[4], stage_heads[4], window; /* Swin */
    bool no_shift;                                      /* Swin: windows stand still (LipsFormer) */
    int class_blocks;                                   /* XCiT: class-attention blocks */
    bool tokens_norm;                                   /* XCiT: they normalise all tokens */
    double eta;                                         /* XCiT: start of the branch factors */
    int stem_stride[4];                                 /* XCiT: of the stem's convolutions; 0: by the image */

    /* Images of a model that is no network of ours, of which nothing else is known but `arch` and `classes`; zero: it
     * is one, and takes three square planes. */
    vt_shape foreign;
    const struct vt_network *network; /* of an ONNX file, the model's own; NULL: none (graph/network.h) */
} vt_config;

/* Returns patches a side of a ViT. */
static inline int vt_config_side(const vt_config *c) { return c->image / c->patch; }
/* Returns the tokens of a ViT before its patches: class, distillation and register tokens. */
static inline int vt_config_prefix(const vt_config *c) { return !c->no_cls + c->dist_token + c->registers; }
/* Returns the side of the grid, in patches, that positions are stored for. */
static inline int vt_config_grid(const vt_config *c) { return c->pos_grid ? c->pos_grid : vt_config_side(c); }
/* Returns how many of the tokens before the patches have a position; a ConViT's class token, which joins later, has
 * none. */
static inline int vt_config_placed(const vt_config *c) {
    return c->no_embed_class || c->positions || c->local_blocks
               ? 0
               : vt_config_prefix(c) - (c->no_embed_reg ? c->registers : 0);
}
/* Returns the tokens in a ViT's sequence, patches and those before them; other architectures: vt_model_tokens. */
static inline int vt_config_tokens(const vt_config *c) {
    return vt_config_side(c) * vt_config_side(c) + vt_config_prefix(c);
}

/* Returns the width of attention: channels of each of q, k and v. */
static inline int vt_config_attn_dim(const vt_config *c) { return c->attn_dim ? c->attn_dim : c->dim; }

/* Returns the side of the input of a network of ours, in pixels: what attacks move, and everybody outside an
 * architecture sees. */
static inline int vt_config_input(const vt_config *c) { return c->native ? c->native : c->image; }
/* Returns the shape of any model's input. */
static inline vt_shape vt_config_shape(const vt_config *c) {
    return c->foreign.channels ? c->foreign : vt_shape_rgb(vt_config_input(c));
}
/* Returns the numbers of any model's input image. */
static inline size_t vt_config_input_pixels(const vt_config *c) { return vt_shape_values(vt_config_shape(c)); }

/* Returns the numbers of one image as an architecture sees it, [3, image, image]. */
static inline size_t vt_config_pixels(const vt_config *c) { return 3 * (size_t)c->image * (size_t)c->image; }

/* VT_E_RANGE or VT_E_SHAPE, with one sentence, for numbers that are out of range or contradict each other, for every
 * architecture and (by its own check) for this one. path: names the file, or NULL. */
vt_status vt_config_check(const vt_config *c, const char *path, vt_err *e);

/* The values of a configuration: label, and key in metadata, maps, --form and results.json (NULL: a form, whose row in
 * forms.c has it). */
// clang-format off
#define VT_FIELD_LIST(X) \
    X(ARCH, "architecture", "architecture") X(IMAGE, "image", "image") X(PATCH, "patch", "patch") \
    X(DIM, "dim", "dim") X(DEPTH, "depth", "depth") X(HEADS, "heads", "heads") X(HIDDEN, "mlp hidden", "mlp_hidden") \
    X(CLASSES, "classes", "classes") X(QKV_BIAS, "qkv bias", "qkv_bias") \
    X(DIST, "distillation token", "distillation_token") X(POOL, "pool", NULL) X(ATTN, "attention", "attention") \
    X(SCALE, "attention scale", "attn_scale") X(LN_EPS, "LayerNorm eps", "ln_eps") X(MEAN, "mean", "mean") \
    X(STD, "std", "std") X(NORM, "norm", NULL) X(FINAL_NORM, "final norm", NULL) X(ACT, "activation", NULL) \
    X(POST_NORM, "post-norm", NULL) X(NATIVE, "input side", NULL) X(NATIVE_FILTER, "resize inside", NULL) \
    X(BGR, "channels", NULL) X(DIST_HEAD, "heads read", NULL) X(NORM_FIRST, "norm before the mean", NULL) \
    X(NORM_PRE, "norm before blocks", NULL) X(NO_PATCH_BIAS, "no patch bias", NULL) \
    X(NO_CLS, "no class token", NULL) X(NO_EMBED_CLASS, "no class position", NULL) \
    X(REGISTERS, "register tokens", NULL) X(PATCH_ORDER, "patch order", NULL) X(QK_NORM, "q/k norm", NULL) \
    X(TIED_QK, "W_Q = W_K", NULL) X(FACTOR, "branch factors", NULL) X(FACTOR_START, "factors start at", NULL) \
    X(INIT, "initialisation", NULL) X(NO_EMBED_REG, "no register position", NULL) \
    X(POS_GRID, "grid of positions", NULL) X(POS_FILTER, "positions resized", NULL) \
    X(HEAD_LAYERS, "class tokens read", NULL) X(CONV_STEM, "convolutional stem", NULL) \
    X(PATCH_NORM, "patch norms", NULL) X(ATTN_DIM, "attention width", NULL) X(PROJ, "output projection", NULL) \
    X(POSITIONS, "positions", NULL) X(QKV_ROWS, "rows of qkv", NULL) X(CLASS_LAST, "class token last", NULL) \
    X(EMBED_SCALE, "embedding times", NULL) X(LOCAL_BLOCKS, "local blocks", NULL) X(STAGES, "stages", NULL) \
    X(STAGE_DEPTH, "stage depths", NULL) X(STAGE_HEADS, "stage heads", NULL) X(WINDOW, "window", NULL) \
    X(NO_SHIFT, "no shift", NULL) X(CLASS_BLOCKS, "class blocks", NULL) X(TOKENS_NORM, "tokens norm", NULL) \
    X(ETA, "eta", NULL) X(STEM_STRIDE, "stem strides", NULL) X(TRANSFORM, "preprocessing", "transform")
// clang-format on

typedef enum vt_field {
#define VT_FIELD_ENUM(id, label, key) VT_FIELD_##id,
    VT_FIELD_LIST(VT_FIELD_ENUM)
#undef VT_FIELD_ENUM
        VT_FIELD_COUNT
} vt_field;

/* Where each came from, for `vitrine info`: a short phrase, or empty. */
typedef char vt_source[VT_FIELD_COUNT][72];

/* How sure a value is. KNOWN: read from tensors, metadata or config.json, or given by the user. ASSUMED: not given, but
 * a convention is overwhelming (timm's GELU). OPEN: not given, and other values are common (heads): a guess. */
typedef enum vt_certainty { VT_KNOWN, VT_ASSUMED, VT_OPEN } vt_certainty;

/* How `vitrine new` initialises a tensor (timm's non-JAX initialisation, init_weights_vit_timm of its
 * vision_transformer.py). LINEAR is TRUNC02 for the weights of linear maps, which the spectral rule treats otherwise;
 * VALUE is vt_param.value; CONV is PyTorch's default of a convolution, whose bias stands right after its weight. */
typedef enum vt_init {
    VT_INIT_ZERO,
    VT_INIT_ONE,
    VT_INIT_TRUNC02,
    VT_INIT_TINY,
    VT_INIT_CONV,
    VT_INIT_LINEAR,
    VT_INIT_VALUE
} vt_init;

/* One tensor of an architecture. Layers group tensors that are used together; the slot is the architecture's
 * own number of the tensor within its layer. */
typedef struct vt_param {
    char name[64];
    int ndim;
    int64_t shape[4];
    size_t numel, offset; /* in reals, into the block of all parameters */
    size_t t_offset;      /* of the transposed copy, into the block of transposed copies; SIZE_MAX: none */
    int layer, slot;
    vt_init init;
    float value; /* with VT_INIT_VALUE */
    bool buffer; /* no weight but a statistic (BatchNorm): saved and loaded; no gradient, and no training moves it */
} vt_param;

#define VT_MAX_SLOTS 64

typedef struct vt_param_list {
    vt_param *items;
    int count, layers;
    size_t total, t_total, layer_max; /* reals: all parameters, transposed copies, the largest layer */
    int layer;                        /* of the tensors to be added next */
    char prefix[48];                  /* what their names begin with */
    float value;                      /* theirs, with VT_INIT_VALUE */
    bool failed;                      /* out of memory or over a limit */
} vt_param_list;

/* Sets layer and prefix of the tensors to be added next. */
__attribute__((format(printf, 3, 4))) void vt_param_place(vt_param_list *l, int layer, const char *prefix, ...);
/* Appends a tensor at the place and with the value that l holds; shape ends at the first 0. matrix: a [out, in] weight
 * that wants a transposed copy. Returns the row, or NULL: l->failed is set, or was, and nothing is added. */
vt_param *vt_param_add(vt_param_list *l, int slot, bool matrix, vt_init init, const char *name, const int64_t shape[4]);
/* Appends name.weight and, in the next slot, if asked for, name.bias [shape[0]] of a linear map (VT_INIT_LINEAR) or a
 * convolution (VT_INIT_CONV). */
void vt_param_add_map(vt_param_list *l, int slot, bool matrix, vt_init init, bool bias, const char *name,
                      const int64_t shape[4]);
enum { VT_NORM_W, VT_NORM_B, VT_NORM_MEAN, VT_NORM_VAR, VT_NORM_SLOTS };
/* Appends the tensors of a normalisation of d channels, name.weight and so on, in slots slot to slot + VT_NORM_SLOTS -
 * 1. */
void vt_param_add_norm(vt_param_list *l, int slot, vt_norm_kind kind, const char *name, int d);
/* Accepts a zeroed one. */
void vt_param_list_free(vt_param_list *l);
