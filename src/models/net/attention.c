/* SPDX-License-Identifier: MIT */
#include "models/net/attention.h"

#include <math.h>
#include <string.h>
#include "nn/nn.h"

#define VT_KIND VT_R(vt_attn_ops)
#define VT_KIND_NAME(x) VT_R(vt_attn_ops_##x)
#define VT_KIND_LIST "attns.inc"
#define VT_KIND_TEXT(d) (d)->is->name
#include "base/registry.inc"

const VT_R(vt_attn_ops) *VT_R(vt_attn_ops_find)(const char *text) {
    size_t n = strcspn(text, ":");
    for (int i = 0; i < COUNT; i++)
        if (strlen(defs[i]->is->name) == n && !strncmp(defs[i]->is->name, text, n)) return defs[i];
    return NULL;
}

/* ---- sizes: one head's piece of `saved` is the variant's own | values [t, d] | P before mixing [tq, ldp] | its row
 * sums [tq] ---- */

typedef struct sizes {
    const VT_R(vt_attn_shape) *s;
    bool own_values;
    int tq, t, d, ldp;
    size_t values, unmixed, sums, saved; /* offsets and length of a head's piece */
} sizes;

static size_t round_up_to_16(size_t n) { return (n + 15) / 16 * 16; }

/* Computes the lengths of what is saved for an image and head. */
static void init_sizes(sizes *r, const VT_R(vt_attn_shape) *s) {
    *r = (sizes){.s = s, .tq = s->tq ? s->tq : s->t, .t = s->t, .d = s->c / s->heads};
    r->ldp = vt_attn_ldp(s->t);
    r->own_values = s->def->is->needs && (s->def->is->needs(&s->options) & VT_ATTN_OWN_VALUES);
    r->values = s->def->saved_len ? round_up_to_16(s->def->saved_len(r->tq, r->t, r->d)) : 0;
    r->unmixed = r->values + (r->own_values ? round_up_to_16((size_t)r->t * (size_t)r->d) : 0);
    r->sums = r->unmixed + (s->pos ? (size_t)r->tq * (size_t)r->ldp : 0);
    r->saved = r->sums + (s->pos ? round_up_to_16((size_t)r->tq) : 0);
}

size_t VT_R(vt_attn_p_len)(const VT_R(vt_attn_shape) *s) {
    return (size_t)s->heads * (size_t)(s->tq ? s->tq : s->t) * (size_t)vt_attn_ldp(s->t);
}

size_t VT_R(vt_attn_saved_len)(const VT_R(vt_attn_shape) *s) {
    sizes r;
    init_sizes(&r, s);
    return (size_t)s->heads * r.saved;
}

/* dP [tq, ldp], and behind it the Gram matrix of `ortho` [t, ldp], a tied dK or a tangent of values [t, d] */
size_t VT_R(vt_attn_scratch_len)(const VT_R(vt_attn_shape) *s) {
    sizes r;
    init_sizes(&r, s);
    return (size_t)r.tq * (size_t)r.ldp + (size_t)r.t * (size_t)(r.ldp > r.d ? r.ldp : r.d);
}

/* ---- for variants ---- */

void VT_R(vt_attn_softmax)(real *p, real scale, const VT_R(vt_attn_head) *h) {
    if (!h->bias && !h->mask) {
        VT_R(vt_softmax_forward)(p, p, scale, h->tq, h->t, h->ldp);
        return;
    }
    for (int i = 0; i < h->tq; i++) {
        size_t row = (size_t)i * (size_t)h->ldp;
        const real *bias = h->bias ? h->bias + row : h->mask + row, *mask = h->bias && h->mask ? h->mask + row : NULL;
        for (int j = 0; j < h->t; j++) p[row + (size_t)j] = scale * p[row + (size_t)j] + bias[j];
        for (int j = 0; mask && j < h->t; j++) p[row + (size_t)j] += mask[j];
    }
    VT_R(vt_softmax_forward)(p, p, 1, h->tq, h->t, h->ldp);
}

/* z = scale s + bias + mask:  dbias = dz,  ds = scale dz. In this order whether dbias is wanted or not: ds has the same
 * bits. */
void VT_R(vt_attn_dsoftmax)(real *dp, const real *p, real scale, const VT_R(vt_attn_head) *h) {
    const bool apart = h->bias || h->dbias;
    VT_R(vt_softmax_backward)(dp, dp, p, apart ? 1 : scale, h->tq, h->t, h->ldp);
    for (int i = 0; apart && i < h->tq; i++) {
        real *g = dp + (size_t)i * (size_t)h->ldp, *to = h->dbias ? h->dbias + (size_t)i * (size_t)h->ldp : NULL;
        for (int j = 0; to && j < h->t; j++) to[j] += g[j];
        for (int j = 0; j < h->t; j++) g[j] *= scale;
    }
}

/* The Jacobian of the softmax is symmetric. */
void VT_R(vt_attn_tsoftmax)(real *tp, const real *p, real scale, const VT_R(vt_attn_head) *h) {
    VT_R(vt_softmax_backward)(tp, tp, p, scale, h->tq, h->t, h->ldp);
}

void VT_R(vt_attn_scores)(real *s, const VT_R(vt_attn_head) *h) {
    VT_GEMM(h->by, false, true, h->tq, h->t, h->d, 1, h->q, h->ldq, h->k, h->ldk, 0, s, h->ldp);
}

void VT_R(vt_attn_dscores)(const VT_R(vt_attn_grad) *g, const real *ds, const VT_R(vt_attn_head) *h) {
    VT_GEMM(h->by, false, false, h->tq, h->d, h->t, 1, ds, h->ldp, h->k, h->ldk, 0, g->q, g->ldq);
    VT_GEMM(h->by, true, false, h->t, h->d, h->tq, 1, ds, h->ldp, h->q, h->ldq, 0, g->k, g->ldk);
}

void VT_R(vt_attn_tscores)(real *ts, const VT_R(vt_attn_head) *h, const VT_R(vt_attn_in) *t) {
    VT_GEMM(h->by, false, true, h->tq, h->t, h->d, 1, t->q, t->ldq, h->k, h->ldk, 0, ts, h->ldp);
    VT_GEMM(h->by, false, true, h->tq, h->t, h->d, 1, h->q, h->ldq, t->k, t->ldk, 1, ts, h->ldp);
}

/* ---- ConViT's mixture, A = M / r, M = (1 - g) P + g pos, r = row sums of M ---- */

/* Returns the sum of n numbers, in 16 partial sums whose order is fixed. */
static real sum_of_row(const real *a, int n) {
    real lane[16] = {0}, sum = 0;
    int j = 0;
    for (; j + 16 <= n; j += 16)
        for (int l = 0; l < 16; l++) lane[l] += a[j + l];
    for (; j < n; j++) lane[0] += a[j];
    for (int l = 0; l < 16; l++) sum += lane[l];
    return sum;
}

/* Mixes P with a positional map, a = ((1 - g) p + g pos) / sums, row by row; sums [tq]: of the mixed rows. */
static void pos_mix_forward(real *a, real *sums, const real *p, const real *pos, real g, const sizes *r) {
    for (int i = 0; i < r->tq; i++, a += r->ldp, p += r->ldp, pos += r->ldp) {
        for (int j = 0; j < r->t; j++) a[j] = (1 - g) * p[j] + g * pos[j];
        sums[i] = sum_of_row(a, r->t);
        for (int j = 0; j < r->t; j++) a[j] /= sums[i];
    }
}

/* dM = (dA - <A, dA>) / r,  dP = (1 - g) dM,  dpos += g dM (or NULL),  dg = <pos - P, dM>; dA, in dp, becomes dP.
 * Returns dg. */
static real pos_mix_backward(real *dp, real *dpos, const real *a, const real *sums, const real *p, const real *pos,
                             real g, const sizes *r) {
    real dg = 0;
    for (int i = 0; i < r->tq; i++, dp += r->ldp, a += r->ldp, p += r->ldp, pos += r->ldp) {
        real inner = VT_R(vt_row_dot)(a, dp, r->t), inv = 1 / sums[i];
        for (int j = 0; j < r->t; j++) dp[j] = (dp[j] - inner) * inv;
        dg += VT_R(vt_row_dot)(pos, dp, r->t) - VT_R(vt_row_dot)(p, dp, r->t);
        for (int j = 0; dpos && j < r->t; j++) dpos[(size_t)i * (size_t)r->ldp + (size_t)j] += g * dp[j];
        for (int j = 0; j < r->t; j++) dp[j] *= 1 - g;
    }
    return dg;
}

/* tA = (1 - g) tP / r: rows of tP sum to zero, so r stands still. */
static void pos_mix_tangent(real *tp, const real *sums, real g, const sizes *r) {
    for (int i = 0; i < r->tq; i++, tp += r->ldp)
        for (int j = 0; j < r->t; j++) tp[j] *= (1 - g) / sums[i];
}

/* ---- a loss of attention itself (attention_loss.h) ---- */

/* Adds to dp [tq, ldp] of one head, in the key's column, what a loss LOG injects; nothing of a loss SCORE. */
static void inject_probs(real *dp, const VT_R(vt_attn_inject) *inject, const VT_R(vt_attn_head) *h) {
    for (int i = 0; inject->rows && i < h->tq; i++)
        dp[(size_t)i * (size_t)h->ldp + (size_t)inject->key] += inject->rows[i];
}

static const real *row_at(const real *x, int ld, int i) { return x + (size_t)i * (size_t)ld; }

/* Returns the length of row i. */
static real row_length(const real *x, int ld, int i, int d) {
    return (real)sqrt((double)VT_R(vt_row_dot)(row_at(x, ld, i), row_at(x, ld, i), d));
}

/* Mean length of the rows of x [t, d]. */
static real mean_length(const real *x, int ld, int t, int d) {
    real sum = 0;
    for (int i = 0; i < t; i++) sum += row_length(x, ld, i, d);
    return sum / (real)t;
}

/* L = f (1/n) sum_j <Q_j, K_k> over the queries that count, f = scale, or scale / (c_Q c_K) with the mean lengths. */
typedef struct score {
    real value, f, cq, ck;
    int n; /* queries 0 to n - 1 */
} score;

/* Returns the mean score q k^T of one key over the class token's query or all queries; normalise: of q and k of mean
 * length 1 (f and value 0 if one's is 0). */
static score score_of(const VT_R(vt_attn_head) *h, int key, bool class_query, bool normalise) {
    score s = {.f = h->scale, .cq = 1, .ck = 1, .n = class_query ? 1 : h->tq};
    if (normalise) {
        s.cq = mean_length(h->q, h->ldq, h->tq, h->d), s.ck = mean_length(h->k, h->ldk, h->t, h->d);
        s.f = s.cq > 0 && s.ck > 0 ? h->scale / (s.cq * s.ck) : 0;
    }
    for (int j = 0; j < s.n; j++) s.value += VT_R(vt_row_dot)(row_at(h->q, h->ldq, j), row_at(h->k, h->ldk, key), h->d);
    s.value *= s.f / (real)s.n;
    return s;
}

/* c = (1/t) sum_i |X_i|:  dX_i += a X_i / |X_i| with a = (1/t) dc */
static void mean_length_backward(real *dx, int lddx, const real *x, int ld, real a, int t, int d) {
    for (int i = 0; i < t; i++) {
        real length = row_length(x, ld, i, d), by = length > 0 ? a / length : 0;
        for (int c = 0; c < d; c++) dx[(size_t)i * (size_t)lddx + (size_t)c] += by * row_at(x, ld, i)[c];
    }
}

/* Adds to g's q and k what a loss SCORE injects; nothing of a loss LOG. dQ_j += w (f/n) K_k,  dK_k += w (f/n) sum_j
 * Q_j;  if normalised, through dc_Q = -w L / c_Q,  dc_K = -w L / c_K */
static void inject_scores(const VT_R(vt_attn_grad) *g, const VT_R(vt_attn_inject) *inject,
                          const VT_R(vt_attn_head) *h) {
    if (!inject->heads) return;
    const score s = score_of(h, inject->key, inject->class_query, inject->normalise);
    const real w = inject->heads[h->head], by = w * s.f / (real)s.n, *key = row_at(h->k, h->ldk, inject->key);
    real *dkey = g->k + (size_t)inject->key * (size_t)g->ldk;
    for (int j = 0; j < s.n; j++)
        for (int c = 0; c < h->d; c++) {
            g->q[(size_t)j * (size_t)g->ldq + (size_t)c] += by * key[c];
            dkey[c] += by * row_at(h->q, h->ldq, j)[c];
        }
    if (!inject->normalise || s.f == 0) return;
    mean_length_backward(g->q, g->ldq, h->q, h->ldq, -w * s.value / (s.cq * (real)h->tq), h->tq, h->d);
    mean_length_backward(g->k, g->ldk, h->k, h->ldk, -w * s.value / (s.ck * (real)h->t), h->t, h->d);
}

real VT_R(vt_attn_inject_score)(const VT_R(vt_attn_inject) *inject, const VT_R(vt_attn_head) *h) {
    return score_of(h, inject->key, inject->class_query, inject->normalise).value;
}

/* ---- all heads ---- */

/* Returns q, k and v of one image and head. */
static VT_R(vt_attn_in) in_at(const VT_R(vt_attn_in) *x, const sizes *r, int image, int head) {
    size_t q = (size_t)image * (size_t)r->tq, k = (size_t)image * (size_t)r->t, col = (size_t)(head * r->d);
    VT_R(vt_attn_in) y = *x;
    y.q += q * (size_t)x->ldq + col, y.k += k * (size_t)x->ldk + col, y.v += k * (size_t)x->ldv + col;
    return y;
}

/* Returns the gradients of q, k and v of one image and head. */
static VT_R(vt_attn_grad) grad_at(const VT_R(vt_attn_grad) *x, const sizes *r, int image, int head) {
    size_t q = (size_t)image * (size_t)r->tq, k = (size_t)image * (size_t)r->t, col = (size_t)(head * r->d);
    VT_R(vt_attn_grad) y = *x;
    y.q += q * (size_t)x->ldq + col, y.k += k * (size_t)x->ldk + col, y.v += k * (size_t)x->ldv + col;
    return y;
}

/* One head of one image: its view, its pieces of the buffers, what P multiplies. */
typedef struct head_view {
    VT_R(vt_attn_head) h;
    size_t o, p, saved; /* offsets */
    const real *u;      /* [t, d], stride ldu: v or values(v) */
    int ldu;
    const real *pos; /* [tq, ldp] or NULL */
    real gate, *dpos, *dgate;
} head_view;

/* Returns where one image's head has its inputs, map, saved values and output. */
static head_view head_view_at(const sizes *r, const real *saved, const VT_R(vt_attn_in) *in, int image, int head) {
    const VT_R(vt_attn_shape) *s = r->s;
    const VT_R(vt_attn_in) x = in_at(in, r, image, head);
    size_t item = (size_t)image * (size_t)s->heads + (size_t)head, map = (size_t)r->tq * (size_t)r->ldp;
    head_view l = {.o = (size_t)image * (size_t)r->tq * (size_t)s->c + (size_t)(head * r->d),
                   .p = item * map,
                   .saved = item * r->saved,
                   .u = x.v,
                   .ldu = x.ldv};
    l.h = (VT_R(vt_attn_head)){.tq = r->tq,
                               .t = r->t,
                               .d = r->d,
                               .head = head,
                               .scale = s->scale,
                               .ldq = x.ldq,
                               .ldk = x.ldk,
                               .ldv = x.ldv,
                               .ldp = r->ldp,
                               .q = x.q,
                               .k = x.k,
                               .v = x.v,
                               .options = &s->options,
                               .by = s->by};
    if (r->own_values) l.u = saved + l.saved + r->values, l.ldu = r->d;
    if (s->bias) l.h.bias = s->bias + (size_t)head * map;
    if (s->mask) l.h.mask = s->mask + (size_t)(image % s->windows) * map;
    if (s->dbias) l.h.dbias = s->dbias + (size_t)head * map;
    if (s->pos) l.pos = s->pos + (size_t)head * map, l.gate = s->gate[head];
    if (s->dpos) l.dpos = s->dpos + (size_t)head * map;
    if (s->dgate) l.dgate = s->dgate + head;
    return l;
}

void VT_R(vt_attn_forward)(real *o, real *p, real *saved, const VT_R(vt_attn_in) *in, const VT_R(vt_attn_shape) *s) {
    sizes r;
    init_sizes(&r, s);
    for (int i = 0; i < s->b; i++)
        for (int h = 0; h < s->heads; h++) {
            head_view l = head_view_at(&r, saved, in, i, h);
            real *a = p + l.p, *own = saved + l.saved;
            s->def->probs(l.pos ? own + r.unmixed : a, own, &l.h);
            if (l.pos) pos_mix_forward(a, own + r.sums, own + r.unmixed, l.pos, l.gate, &r);
            if (r.own_values) s->def->values(own + r.values, own, &l.h);
            /* o_h = A u */
            VT_GEMM(s->by, false, false, r.tq, r.d, r.t, 1, a, r.ldp, l.u, l.ldu, 0, o + l.o, s->c);
        }
}

/* L = ||P^T P - I||_F^2 (Zhang et al. 2021, "On Orthogonality Constraints for Transformers", L_AM):
 *   dP += ortho 4 P (P^T P - I)
 * gram: t*ldp scratch. Returns L. */
static double add_ortho(real *dp, real *gram, const real *p, const sizes *r) {
    const vt_products *by = r->s->by;
    const int tq = r->tq, t = r->t, ldp = r->ldp;
    double value = 0;
    VT_GEMM(by, true, false, t, t, tq, 1, p, ldp, p, ldp, 0, gram, ldp);
    for (int i = 0; i < t; i++) {
        gram[(size_t)i * (size_t)ldp + (size_t)i] -= 1;
        for (int j = 0; j < t; j++) value += (double)(gram[i * ldp + j] * gram[i * ldp + j]);
    }
    VT_GEMM(by, false, false, tq, t, t, 4 * r->s->ortho, p, ldp, gram, ldp, 1, dp, ldp);
    return value;
}

/* dA (in dp, overwritten, with room for a tied dK after it) -> g's q and k, overwritten (tied: their sum); adds to g's
 * v what the probabilities do, and to l's dpos, dgate and dbias. */
static void backward_probs(const VT_R(vt_attn_grad) *g, real *dp, const real *a, const real *own, const head_view *l,
                           const sizes *r) {
    const real *p = a;
    if (l->pos) {
        p = own + r->unmixed;
        real dg = pos_mix_backward(dp, l->dpos, a, own + r->sums, p, l->pos, l->gate, r);
        if (l->dgate) *l->dgate += dg;
    }
    VT_R(vt_attn_grad) apart = *g;
    bool tied = g->q == g->k;
    if (tied) apart.k = dp + (size_t)r->tq * (size_t)r->ldp, apart.ldk = r->d;
    r->s->def->dprobs(&apart, dp, p, own, &l->h);
    for (int i = 0; tied && i < r->t; i++)
        VT_R(vt_add_to)(g->q + (size_t)i * (size_t)g->ldq, apart.k + (size_t)i * (size_t)r->d, (size_t)r->d);
}

void VT_R(vt_attn_backward)(const VT_R(vt_attn_grad) *g, real *scratch, const real *d_o, const real *p,
                            const real *saved, const VT_R(vt_attn_in) *in, VT_R(vt_attn_shape) *s) {
    sizes r;
    init_sizes(&r, s);
    for (int i = 0; i < s->b; i++)
        for (int h = 0; h < s->heads; h++) {
            head_view l = head_view_at(&r, saved, in, i, h);
            const real *a = p + l.p, *own = saved + l.saved, *doh = d_o + l.o;
            const VT_R(vt_attn_grad) gh = grad_at(g, &r, i, h);
            /* o_h = A u:  dA = do u^T,  du = A^T do */
            VT_GEMM(s->by, false, true, r.tq, r.t, r.d, 1, doh, s->c, l.u, l.ldu, 0, scratch, r.ldp);
            VT_GEMM(s->by, true, false, r.t, r.d, r.tq, 1, a, r.ldp, doh, s->c, 0, gh.v, gh.ldv);
            if (r.own_values) s->def->dvalues(gh.v, gh.ldv, own, &l.h);
            real *behind = scratch + (size_t)r.tq * (size_t)r.ldp;
            if (s->ortho > 0) s->ortho_value += add_ortho(scratch, behind, a, &r);
            if (s->inject) inject_probs(scratch, s->inject, &l.h);
            backward_probs(&gh, scratch, a, own, &l, &r);
            if (s->inject) inject_scores(&gh, s->inject, &l.h);
        }
}

/* o_h = A u:  to_h = tA u + A tu */
void VT_R(vt_attn_jvp)(real *to, real *scratch, const VT_R(vt_attn_in) *tangent, const real *p, const real *saved,
                       const VT_R(vt_attn_in) *in, const VT_R(vt_attn_shape) *s) {
    sizes r;
    init_sizes(&r, s);
    real *behind = scratch + (size_t)r.tq * (size_t)r.ldp;
    for (int i = 0; i < s->b; i++)
        for (int h = 0; h < s->heads; h++) {
            head_view l = head_view_at(&r, saved, in, i, h);
            const real *a = p + l.p, *own = saved + l.saved;
            const VT_R(vt_attn_in) t = in_at(tangent, &r, i, h);
            s->def->tprobs(scratch, l.pos ? own + r.unmixed : a, own, &l.h, &t);
            if (l.pos) pos_mix_tangent(scratch, own + r.sums, l.gate, &r);
            if (r.own_values) s->def->tvalues(behind, own, &l.h, &t);
            VT_GEMM(s->by, false, false, r.tq, r.d, r.t, 1, scratch, r.ldp, l.u, l.ldu, 0, to + l.o, s->c);
            const real *tu = r.own_values ? behind : t.v;
            VT_GEMM(s->by, false, false, r.tq, r.d, r.t, 1, a, r.ldp, tu, r.own_values ? r.d : t.ldv, 1, to + l.o,
                    s->c);
        }
}
