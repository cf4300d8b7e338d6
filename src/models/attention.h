/* Multi-head self-attention with a pluggable way to score tokens. The shared part projects to q, k, v, splits heads,
 * mixes values and projects back; a variant (attn_*.c) supplies only the probabilities and their adjoint. The hook is
 * on the probabilities, not the scores, because gates (ConViT) act after the softmax; v is passed because some
 * divisors (LipschitzNorm) depend on it. */
#ifndef VT_MODELS_ATTENTION_H
#define VT_MODELS_ATTENTION_H

#include "core/real.h"
#include "models/config.h"

/* Extra parameter of a variant, one tensor per block: name below "blocks.i.", shape in terms of heads. */
typedef struct vt_attn_param {
    const char *name; /* "attn.tau" */
    bool per_head;    /* shape [heads], else [1] */
    vt_init init;
} vt_attn_param;

#define VT_ATTN_MAX_PARAMS 4

/* One head of one image. q, k, v: [t, d] with row stride ld. */
typedef struct VT_R(vt_attn_head) {
    int t, d, ld, ldp, head; /* ldp: row stride of p */
    real scale;
    const real *q, *k, *v;
    const real *const *w; /* the variant's parameters, in the order of its table */
} VT_R(vt_attn_head);

typedef struct VT_R(vt_attn_def) {
    const char *name, *summary, *reference;
    const vt_attn_param *params;
    int n_params;
    /* reals saved per head for the adjoint, beyond p */
    size_t (*saved_len)(int t, int d);
    /* p [t, t] (stride ldp), rows sum to one */
    void (*probs)(real *p, real *saved, const VT_R(vt_attn_head) *h);
    /* dp [t, t] (may be overwritten) -> dq, dk, dv [t, d] (stride ld); dq and dk overwritten, dv accumulated (it
     * already holds p^T do); dw[i] accumulate, dw NULL: not wanted */
    void (*dprobs)(real *dq, real *dk, real *dv, real *const *dw, real *dp, const real *p, const real *saved,
                   const VT_R(vt_attn_head) *h);
} VT_R(vt_attn_def);

const VT_R(vt_attn_def) *const *VT_R(vt_attn_defs)(int *n);
const VT_R(vt_attn_def) *VT_R(vt_attn_find)(const char *name); /* NULL: unknown */

typedef struct VT_R(vt_attn_shape) {
    const VT_R(vt_attn_def) *def;
    int b, t, c, heads; /* images, tokens, width, heads */
    real scale;
    real ortho;         /* backward: the loss has a term ortho * ||P^T P - I||_F^2 for every head */
    double ortho_value; /* ... whose sum, without the factor, backward adds here */
} VT_R(vt_attn_shape);

/* Row stride of a [t, t] probability matrix (rows padded to whole vectors) and reals per image. */
static inline int vt_attn_ldp(int t) { return (t + 15) / 16 * 16; }
size_t VT_R(vt_attn_p_len)(const VT_R(vt_attn_shape) *s);
size_t VT_R(vt_attn_saved_len)(const VT_R(vt_attn_shape) *s);

/* o[b*t, c] = concatenated heads P v (before the output projection); p, saved: kept for backward, per image.
 * qkv [b*t, 3c]: q | k | v, each head-major (timm). */
void VT_R(vt_attention_forward)(real *o, real *p, real *saved, const real *qkv, const real *const *w,
                                const VT_R(vt_attn_shape) *s);
/* dqkv [b*t, 3c] overwritten; dw: the variant's parameter gradients or NULL; scratch: 2 vt_attn_ldp(t)*t reals. */
void VT_R(vt_attention_backward)(real *dqkv, real *const *dw, real *scratch, const real *d_o, const real *p,
                                 const real *saved, const real *qkv, const real *const *w, VT_R(vt_attn_shape) *s);

#endif
