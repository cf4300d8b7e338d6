#include "models/attention.h"

#include <string.h>
#include "nn/nn.h"

#define VT_PLUGIN(x) extern const VT_R(vt_attn_def) VT_R(vt_attn_def_##x);
#include "attns.inc"
#undef VT_PLUGIN

static const VT_R(vt_attn_def) *const defs[] = {
#define VT_PLUGIN(x) &VT_R(vt_attn_def_##x),
#include "attns.inc"
#undef VT_PLUGIN
};

const VT_R(vt_attn_def) *const *VT_R(vt_attn_defs)(int *n) {
    *n = (int)(sizeof defs / sizeof *defs);
    return defs;
}

const VT_R(vt_attn_def) *VT_R(vt_attn_find)(const char *name) {
    for (size_t i = 0; i < sizeof defs / sizeof *defs; i++)
        if (!strcmp(defs[i]->name, name)) return defs[i];
    return NULL;
}

size_t VT_R(vt_attn_p_len)(const VT_R(vt_attn_shape) *s) {
    return (size_t)s->heads * (size_t)s->t * (size_t)vt_attn_ldp(s->t);
}

static size_t head_saved(const VT_R(vt_attn_shape) *s) {
    return s->def->saved_len ? s->def->saved_len(s->t, s->c / s->heads) : 0;
}

size_t VT_R(vt_attn_saved_len)(const VT_R(vt_attn_shape) *s) { return (size_t)s->heads * head_saved(s); }

static VT_R(vt_attn_head) head_view(const VT_R(vt_attn_shape) *s, const real *qkv, const real *const *w, int image,
                                    int head) {
    int d = s->c / s->heads;
    const real *row = qkv + (size_t)image * (size_t)s->t * (size_t)(3 * s->c) + (size_t)(head * d);
    return (VT_R(vt_attn_head)){.t = s->t,
                                .d = d,
                                .ld = 3 * s->c,
                                .ldp = vt_attn_ldp(s->t),
                                .head = head,
                                .scale = s->scale,
                                .q = row,
                                .k = row + s->c,
                                .v = row + 2 * s->c,
                                .w = w};
}

void VT_R(vt_attention_forward)(real *o, real *p, real *saved, const real *qkv, const real *const *w,
                                const VT_R(vt_attn_shape) *s) {
    for (int i = 0; i < s->b; i++)
        for (int h = 0; h < s->heads; h++) {
            VT_R(vt_attn_head) v = head_view(s, qkv, w, i, h);
            size_t at = (size_t)(i * s->heads + h);
            real *ph = p + at * (size_t)s->t * (size_t)v.ldp;
            s->def->probs(ph, saved + at * head_saved(s), &v);
            /* o_h = P v */
            real *oh = o + (size_t)i * (size_t)s->t * (size_t)s->c + (size_t)(h * v.d);
            VT_GEMM(false, false, s->t, v.d, s->t, 1, ph, v.ldp, v.v, v.ld, 0, oh, s->c);
        }
}

/* L = ||P^T P - I||_F^2 (companion paper OC, L_AM):  dP += f 4 P (P^T P - I). gram: t*ldp scratch. Returns L. */
static double add_ortho(real *dp, real *gram, const real *p, real f, int t, int ldp) {
    double value = 0;
    VT_GEMM(true, false, t, t, t, 1, p, ldp, p, ldp, 0, gram, ldp);
    for (int i = 0; i < t; i++) {
        gram[(size_t)i * (size_t)ldp + (size_t)i] -= 1;
        for (int j = 0; j < t; j++) value += (double)(gram[i * ldp + j] * gram[i * ldp + j]);
    }
    VT_GEMM(false, false, t, t, t, 4 * f, p, ldp, gram, ldp, 1, dp, ldp);
    return value;
}

void VT_R(vt_attention_backward)(real *dqkv, real *const *dw, real *scratch, const real *d_o, const real *p,
                                 const real *saved, const real *qkv, const real *const *w, VT_R(vt_attn_shape) *s) {
    for (int i = 0; i < s->b; i++)
        for (int h = 0; h < s->heads; h++) {
            VT_R(vt_attn_head) v = head_view(s, qkv, w, i, h);
            size_t at = (size_t)(i * s->heads + h);
            const real *ph = p + at * (size_t)s->t * (size_t)v.ldp;
            const real *doh = d_o + (size_t)i * (size_t)s->t * (size_t)s->c + (size_t)(h * v.d);
            real *dq = dqkv + (v.q - qkv), *dk = dqkv + (v.k - qkv), *dv = dqkv + (v.v - qkv);
            /* o_h = P v:  dP = do v^T,  dv = P^T do */
            VT_GEMM(false, true, s->t, s->t, v.d, 1, doh, s->c, v.v, v.ld, 0, scratch, v.ldp);
            VT_GEMM(true, false, s->t, v.d, s->t, 1, ph, v.ldp, doh, s->c, 0, dv, v.ld);
            if (s->ortho > 0)
                s->ortho_value += add_ortho(scratch, scratch + (size_t)s->t * (size_t)v.ldp, ph, s->ortho, s->t, v.ldp);
            s->def->dprobs(dq, dk, dv, dw, scratch, ph, saved + at * head_saved(s), &v);
        }
}
