/* SPDX-License-Identifier: MIT */
/* LipschitzNorm attention, P = softmax(scale Q K^T / (c + 1e-12)), c = max{ |Q|_F K*, |Q|_F V*, K* V* } with |Q|_F over
 * all queries of the head and K*, V* the largest row norms of its keys and values (Dasoulas et al. 2021; the form of
 * SpecFormer's appendix D; scale 1/sqrt(d) as the authors' code keeps it). c is differentiated; where a maximum is
 * shared, the first row and the first product take the gradient (as torch.max over a dimension; amax would share it).
 */
#include "models/net/attention.h"

#include <math.h>
#include "nn/nn.h"

#define FLOOR ((real)1e-12)

/* saved: three norms, the rows of K* and V*, which product is largest */
enum { Q_NORM, K_NORM, V_NORM, K_ROW, V_ROW, WHICH, SAVED };
enum { QK, QV, KV };

/* Returns the reals of `saved` (vt_attn_ops.saved_len). */
static size_t saved_len(int tq, int t, int d) {
    (void)tq, (void)t, (void)d;
    return SAVED;
}

/* The largest row norm and its row; NaN is larger than any. */
static void find_longest_row(real *norm, real *row, const real *x, int rows, int d, int ld) {
    real most = 0;
    *row = 0;
    for (int i = 0; i < rows; i++, x += ld) {
        real s = VT_R(vt_row_dot)(x, x, d);
        if (!(s <= most)) most = s, *row = (real)i;
    }
    *norm = (real)sqrt((double)most);
}

/* c + 1e-12 */
static real score_divisor(const real *saved) {
    const real a = saved[Q_NORM], b = saved[K_NORM], c = saved[V_NORM];
    const real product[] = {[QK] = a * b, [QV] = a * c, [KV] = b * c};
    return product[(int)saved[WHICH]] + FLOOR;
}

/* Computes P of scores that are divided by norms of q, k and v; keeps those in saved. */
static void probs(real *p, real *saved, const VT_R(vt_attn_head) *h) {
    double sum = 0;
    for (int i = 0; i < h->tq; i++) {
        const real *q = h->q + (size_t)i * (size_t)h->ldq;
        sum += (double)VT_R(vt_row_dot)(q, q, h->d);
    }
    saved[Q_NORM] = (real)sqrt(sum);
    find_longest_row(&saved[K_NORM], &saved[K_ROW], h->k, h->t, h->d, h->ldk);
    find_longest_row(&saved[V_NORM], &saved[V_ROW], h->v, h->t, h->d, h->ldv);
    const real a = saved[Q_NORM], b = saved[K_NORM], c = saved[V_NORM];
    saved[WHICH] = c <= a && c <= b ? QK : b <= a ? QV : KV; /* the product without the smallest norm */
    VT_R(vt_attn_scores)(p, h);
    VT_R(vt_attn_softmax)(p, h->scale / score_divisor(saved), h);
}

/* to += f x */
static void add_scaled(real *to, const real *x, real f, int n) {
    for (int j = 0; j < n; j++) to[j] += f * x[j];
}

static const real *row_of(const real *x, real row, int ld) { return x + (size_t)row * (size_t)ld; }

/* z = a S, S = Q K^T, a = scale / (c + 1e-12):  dS = a dz as for any factor, and dc = -<dz, S> a / (c + 1e-12) = -<Q,
 * dS K> / (c + 1e-12);  d|x| = <x, dx> / |x|, 0 at x = 0. Overwrites g's q and k, and dp; adds to g's v. */
static void dprobs(const VT_R(vt_attn_grad) *g, real *dp, const real *p, const real *saved,
                   const VT_R(vt_attn_head) *h) {
    const real c = score_divisor(saved);
    VT_R(vt_attn_dsoftmax)(dp, p, h->scale / c, h);
    VT_R(vt_attn_dscores)(g, dp, h);
    double inner = 0;
    for (int i = 0; i < h->tq; i++)
        inner += (double)VT_R(vt_row_dot)(h->q + (size_t)i * (size_t)h->ldq, g->q + (size_t)i * (size_t)g->ldq, h->d);
    const real dc = (real)-inner / c, *norm = saved;
    const int which = (int)saved[WHICH];
    /* the factor of x in its gradient: dc times the other norm over its own */
    const real other_q = which == QK ? norm[K_NORM] : norm[V_NORM], other_k = which == QK ? norm[Q_NORM] : norm[V_NORM],
               other_v = which == QV ? norm[Q_NORM] : norm[K_NORM];
    if (which != KV && norm[Q_NORM] > 0)
        for (int i = 0; i < h->tq; i++)
            add_scaled(g->q + (size_t)i * (size_t)g->ldq, h->q + (size_t)i * (size_t)h->ldq,
                       dc * other_q / norm[Q_NORM], h->d);
    if (which != QV && norm[K_NORM] > 0)
        add_scaled(g->k + (size_t)saved[K_ROW] * (size_t)g->ldk, row_of(h->k, saved[K_ROW], h->ldk),
                   dc * other_k / norm[K_NORM], h->d);
    if (which != QK && norm[V_NORM] > 0)
        add_scaled(g->v + (size_t)saved[V_ROW] * (size_t)g->ldv, row_of(h->v, saved[V_ROW], h->ldv),
                   dc * other_v / norm[V_NORM], h->d);
}

/* tz = a tS - z tc / (c + 1e-12),  tc = (t|x| / |x| + t|y| / |y|) c for c = |x| |y| */
static void tprobs(real *tp, const real *p, const real *saved, const VT_R(vt_attn_head) *h, const VT_R(vt_attn_in) *t) {
    const int which = (int)saved[WHICH];
    const real c = score_divisor(saved);
    double q = 0;
    for (int i = 0; which != KV && i < h->tq; i++)
        q += (double)VT_R(vt_row_dot)(h->q + (size_t)i * (size_t)h->ldq, t->q + (size_t)i * (size_t)t->ldq, h->d);
    const real k = VT_R(vt_row_dot)(row_of(h->k, saved[K_ROW], h->ldk), row_of(t->k, saved[K_ROW], t->ldk), h->d);
    const real v = VT_R(vt_row_dot)(row_of(h->v, saved[V_ROW], h->ldv), row_of(t->v, saved[V_ROW], t->ldv), h->d);
    real relative = 0; /* tc / c */
    if (which != KV && saved[Q_NORM] > 0) relative += (real)q / (saved[Q_NORM] * saved[Q_NORM]);
    if (which != QV && saved[K_NORM] > 0) relative += k / (saved[K_NORM] * saved[K_NORM]);
    if (which != QK && saved[V_NORM] > 0) relative += v / (saved[V_NORM] * saved[V_NORM]);
    VT_R(vt_attn_tscores)(tp, h, t);
    VT_GEMM(h->by, false, true, h->tq, h->t, h->d, -relative * (c - FLOOR) / c, h->q, h->ldq, h->k, h->ldk, 1, tp,
            h->ldp);
    VT_R(vt_attn_tsoftmax)(tp, p, h->scale / c, h);
}

/* |x|_F of a head's rows, or the largest norm of a row: [..., heads, 1, 1] */
static int put_norm(vt_put *p, int x, bool largest) {
    x = vt_put_reduce(p, "ReduceSum", vt_put_binary(p, "Mul", x, x), -1);
    return vt_put_unary(p, "Sqrt", vt_put_reduce(p, largest ? "ReduceMax" : "ReduceSum", x, -2));
}

static int put_scores(vt_put *p, const vt_put_heads *h, const void *o) {
    (void)o;
    const int q = put_norm(p, h->q, false), k = put_norm(p, h->k, true), v = put_norm(p, h->v, true);
    int c = vt_put_binary(p, "Max", vt_put_binary(p, "Mul", q, k), vt_put_binary(p, "Mul", q, v));
    c = vt_put_binary(p, "Max", c, vt_put_binary(p, "Mul", k, v));
    c = vt_put_binary(p, "Add", c, vt_put_real(p, 1e-12));
    const int s = vt_put_times_transposed(p, h->q, h->k, h->rank);
    return vt_put_binary(p, "Mul", s, vt_put_binary(p, "Div", vt_put_real(p, h->scale), c));
}

const vt_attn VT_R(vt_attn_is_lipnorm) = {
    .name = "lipnorm",
    .summary = "softmax of dot products over the largest product of norms (LNFormer)",
    .reference = "Dasoulas et al. 2021; SpecFormer appendix D",
    .put_scores = put_scores,
};

const VT_R(vt_attn_ops) VT_R(vt_attn_ops_lipnorm) = {
    .is = &VT_R(vt_attn_is_lipnorm),
    .saved_len = saved_len,
    .probs = probs,
    .dprobs = dprobs,
    .tprobs = tprobs,
};
