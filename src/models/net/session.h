/* SPDX-License-Identifier: MIT */
/* A session is one thread's workspace for a model: activations of up to `capacity` images, all memory taken at open.
 * forward, then backward; nothing allocates in between. Two precisions from one source: the float one reads the
 * model's weights in place, the double one converts one layer at a time, so that it holds no second copy. */
#pragma once

#include "base/mem.h"
#include "models/model.h"
#include "models/net/attention.h"

/* A block's residual branches; XCiT alone has the third. */
enum { VT_BRANCH_ATTN, VT_BRANCH_MLP, VT_BRANCH_LPI, VT_BRANCHES };

/* Takes n numbers of the arena; none, NULL, where n is 0. */
static inline real *VT_R(vt_reals)(vt_arena *a, size_t n) { return n ? vt_arena_take(a, n, sizeof(real)) : NULL; }

typedef struct VT_R(vt_session) VT_R(vt_session);
struct VT_R(vt_bounds);

/* What a session's watcher is shown of a block's attention of all tokens to all, while its tensors are bound: after its
 * forward (d_o NULL) and in its backward (d_o set). q = x w_q^T + b_q, then its norm where there is one; k and v
 * likewise; o = P v, and o w_o^T joins the stream (with its bias and factor). */
typedef struct VT_R(vt_attn_record) {
    int block;
    int dim;                          /* width of x */
    const VT_R(vt_attn_shape) *shape; /* tokens t, width c, heads, scale, variant; ConViT's positions and gates */
    const VT_R(vt_attn_in) *in;       /* q, k, v */
    const real *x;                    /* [b*t, dim] what is projected; NULL in backward */
    const real *p, *saved;            /* vt_attn_forward's */
    const real *d_o;                  /* [b*t, c] the loss's gradient of o */
    const real *w_q, *w_k, *w_v, *w_o, *b_q, *b_k,
        *b_v; /* [c, dim] out x in, w_o [dim, c] or NULL: the identity, [c]; no bias: NULL; VT_ATTN_FULL: w_v is
                 the W_V of v = q W_Q W_V^T scale */
    const real *q_norm[2], *k_norm[2]; /* LayerNorm of each head's q and k: scale, shift; or NULL */
    double eps;                        /* theirs */
    bool tied, full;
} VT_R(vt_attn_record);

/* Attention of one block as a kept forward left it: q, k [t, heads*d], p [heads, t, vt_attn_ldp(t)]; the first `prefix`
 * tokens are no patches. */
typedef struct VT_R(vt_attn_view) {
    VT_R(vt_attn_in) in;
    const real *p;
    int t, d, heads, prefix;
    real scale;
} VT_R(vt_attn_view);

/* What an architecture (models/arch.h) computes: a file net/net_*.c. */
typedef struct VT_R(vt_arch_ops) {
    const char *name, *also; /* the architecture's, and another one's that is a form of it, or NULL */
    size_t state_size;
    /* Carves all buffers; called twice, first with an arena that only measures. */
    void (*plan)(VT_R(vt_session) *s, vt_arena *a);
    /* x [b,3,h,w] -> s->logits [b,K]; keep: save for backward. */
    void (*forward)(VT_R(vt_session) *s, const real *x, int b, bool keep);
    /* dlogits [b,K] -> dx [b,3,h,w] (NULL: not wanted), parameter gradients into s->grad (NULL: not wanted). dlogits
     * NULL, with a `view` alone: the loss is s->inject's, whose last block is s->inject_last. */
    void (*backward)(VT_R(vt_session) *s, const real *dlogits, real *dx);
    /* Attention of one of vt_model_blocks after a kept forward of one image, when queries of all
     * tokens see keys of all. [may be NULL: it cannot be looked at, and vt_arch.shows_attention is false] */
    void (*view)(VT_R(vt_session) *s, int block, VT_R(vt_attn_view) *v);
    /* Interval bounds through the blocks (bounds.h), whose input and result are b->tokens, and the way back: of their
     * gradient. [may be NULL, both] */
    void (*bound_forward)(struct VT_R(vt_bounds) *b);
    void (*bound_backward)(struct VT_R(vt_bounds) *b);
} VT_R(vt_arch_ops);

const VT_R(vt_arch_ops) *VT_R(vt_arch_ops_find)(const char *name); /* NULL: unknown */

struct VT_R(vt_session) {
    const vt_model *model;
    const VT_R(vt_arch_ops) *ops;
    const vt_products *products; /* how products are formed: NULL in float32 and double, else `rounding` */
    vt_products rounding;
    vt_grad_mode mode;
    int capacity, batch; /* images: room for, in the last forward */
    bool kept;           /* the last forward saved what backward needs */
    real *logits;        /* [capacity, K] */
    /* What the heads read, behind final norm and pooling: image i's at features + i feature_stride, feature_len numbers
     * (several heads that count: one behind the other). Set by the architecture's plan, computed by every forward. */
    const real *features;
    int feature_len, feature_stride;
    struct VT_R(vt_interp) *resize; /* of a native input, or NULL */
    real *inside, *dinside;         /* [capacity, 3, image, image] what the architecture sees of a native or reversed
                                       input, and its gradient; NULL: the input itself */
    real *grad;                     /* parameter gradients in the model's layout during a backward, or NULL */
    void *state;                    /* the architecture's own buffers */
    void *block;                    /* the arena's memory */
    /* bound by vt_session_bind: tensors of one layer by slot, NULL where the configuration has none */
    const real *w[VT_MAX_SLOTS];
    real *dw[VT_MAX_SLOTS];
    const vt_param *param[VT_MAX_SLOTS];
    real *layer_w;      /* double only: the bound layer, converted */
    const real *master; /* [params.total] weights to use instead of the model's, or NULL: training in double */
    int layer;          /* the bound one */
    /* Training alone; off by default. */
    const real *drop; /* [params.layers, VT_BRANCHES, batch] factor of each image's residual branches (stochastic
                         depth), or NULL: 1 */
    const unsigned char
        *branch_open; /* [vt_model_blocks] 0: no gradient through this block's attention branch (ARD), or NULL */
    struct VT_R(vt_bounds) *bounds; /* for objectives that read interval bounds (bounds.h), or NULL */
    real ortho;                     /* adds ortho * sum ||A^T A - I||_F^2 over heads, blocks and images to the loss */
    double ortho_value;             /* ... and here the sum of the last backward, without the factor */
    /* vt_session_attention_loss: what the next backward adds in each block (attention_loss.h). */
    VT_R(vt_attn_inject) *inject; /* [inject_blocks] */
    real *inject_weights;         /* [inject_blocks, inject_len]: their weights */
    int inject_blocks, inject_len, inject_last;
    bool injecting;
    /* Analysis alone: called for every block whose token mixer shows its attention (vt_mha, ConViT's), or NULL. */
    void (*watch)(void *ctx, const VT_R(vt_attn_record) *a);
    void *watch_ctx;
    int *layer_first; /* [layers + 1]: index of each layer's first tensor */
};

/* Opens a session of up to `capacity` images and takes all its memory. VT_E_MEMORY, or VT_E_RANGE: a buffer of more
 * than INT_MAX numbers; *out NULL then. */
vt_status VT_R(vt_session_open)(VT_R(vt_session) **out, const vt_model *m, int capacity, vt_grad_mode mode, vt_err *e);
/* Opens a session, as vt_session_open does, whose products are formed in another way, of float sessions alone; by's
 * buffers are the session's to take. */
vt_status VT_R(vt_session_open_by)(VT_R(vt_session) **out, const vt_model *m, int capacity, vt_grad_mode mode,
                                   const vt_products *by, vt_err *e);
/* Returns the bytes that a session takes; 0 for an unknown architecture or without memory. */
size_t VT_R(vt_session_bytes)(const vt_model *m, int capacity, vt_grad_mode mode);
/* Returns the bytes that a session of vt_session_open_by takes. */
size_t VT_R(vt_session_bytes_by)(const vt_model *m, int capacity, vt_grad_mode mode, const vt_products *by);
int VT_R(vt_session_feature_len)(const vt_model *m); /* of vt_session_features */
void VT_R(vt_session_close)(VT_R(vt_session) *s);    /* accepts NULL */

/* Computes logits [b,K], valid until the next call, of x [b,3,h,w] in [0,1], pixel space, h = w = vt_config_input. keep
 * = false is cheaper: no backward may follow. */
const real *VT_R(vt_session_forward)(VT_R(vt_session) *s, const real *x, int b, bool keep);
/* Returns what is injected at a block's attention in this backward, or NULL. */
static inline const VT_R(vt_attn_inject) *VT_R(vt_session_inject)(const VT_R(vt_session) *s, int block) {
    return s->injecting && s->inject[block].key >= 0 ? &s->inject[block] : NULL;
}
/* Returns features of image i of the last forward, *len numbers, valid until the next call: the logits are the heads'
 * affine functions of them alone. */
const real *VT_R(vt_session_features)(const VT_R(vt_session) *s, int i, int *len);
/* Computes gradients after a kept forward (after another: nothing): dx [b,3,h,w] overwritten (NULL: not wanted); grad
 * [params.total] accumulated (NULL: not wanted, and then no weight gradient is computed). May be repeated for other
 * dlogits. dlogits NULL: of the attention loss alone that was asked for since. */
void VT_R(vt_session_backward)(VT_R(vt_session) *s, const real *dlogits, real *dx, real *grad);

/* Returns what stochastic depth multiplies a branch of the bound layer by, for each image of the batch; NULL: 1. */
static inline const real *VT_R(vt_session_drop)(const VT_R(vt_session) *s, int branch) {
    return s->drop ? s->drop + (s->layer * VT_BRANCHES + branch) * s->batch : NULL;
}

/* Makes s->w and s->dw point at the tensors of a layer, for architectures. */
void VT_R(vt_session_bind)(VT_R(vt_session) *s, int layer);
/* The bound linear map whose weight is in `slot` and its bias in the next; w NULL: the configuration has none. */
VT_R(vt_linear) VT_R(vt_linear_bound)(const VT_R(vt_session) *s, int slot);
/* The normalisation whose tensors are bound from `slot` on. */
VT_R(vt_norm) VT_R(vt_norm_bound)(const VT_R(vt_session) *s, int slot, vt_norm_kind kind, double eps);
