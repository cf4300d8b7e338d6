/* SPDX-License-Identifier: MIT */
/* Scaled cosine similarity attention, P = softmax(tau Q^ K^T), rows of Q and K divided by their norms (Qi et al. 2023,
 * LipsFormer). The released code divides by max(|x|, 1e-12), has tau = 10 and leaves the values alone; the paper
 * divides by sqrt(|x|^2 + eps) and multiplies nu V^. Which nu, tau and eps the paper used is not known, so the code's
 * form is the default: eps = 0 is its floor, nu = 0 its values. The model's attention scale has no part in it. */
#include "models/net/attention.h"

#include <math.h>
#include "nn/nn.h"

#define FLOOR 1e-12

typedef struct options {
    double tau, nu, eps;
} options;
_Static_assert(sizeof(options) <= sizeof(vt_attn_options), "options too large");

static const vt_opt opts[] = {{.key = "tau",
                               .help = "factor on the cosines",
                               .type = VT_OPT_REAL,
                               .offset = offsetof(options, tau),
                               .preset = 10,
                               .min = 1e-3,
                               .max = 1000},
                              {.key = "nu",
                               .help = "values are nu V / |V| by rows; 0: V",
                               .type = VT_OPT_REAL,
                               .offset = offsetof(options, nu),
                               .max = 1000},
                              {.key = "eps",
                               .help = "norms are sqrt(|x|^2 + eps); 0: max(|x|, 1e-12)",
                               .type = VT_OPT_REAL,
                               .offset = offsetof(options, eps),
                               .max = 1},
                              {0}};

/* Returns the options (tau, nu, eps) that a head of this attention carries. */
static const options *options_of(const VT_R(vt_attn_head) *h) { return h->options; }
static unsigned needs(const void *o) { return ((const options *)o)->nu > 0 ? VT_ATTN_OWN_VALUES : 0; }

/* Returns the reals of saved: one over the norms of queries [tq], keys [t], values [t]. */
static size_t saved_len(int tq, int t, int d) {
    (void)d;
    return (size_t)tq + 2 * (size_t)t;
}

/* Sets r [rows] to 1 / sqrt(|x|^2 + eps) of each row; for eps 0 to 1 / max(|x|, 1e-12). */
static void inverse_norms(real *r, const real *x, int rows, int d, int ld, double eps) {
    for (int i = 0; i < rows; i++, x += ld) {
        double s = (double)VT_R(vt_row_dot)(x, x, d);
        double norm = eps > 0 ? sqrt(s + eps) : sqrt(s);
        r[i] = (real)(1 / (eps == 0 && norm < FLOOR ? FLOOR : norm));
    }
}

/* y = r x, r = 1 / sqrt(|x|^2 + eps):  ty = r tx - r^3 <x, tx> x, symmetric, so g = r dy becomes dx = g - r^2 <x, g> x.
 * Below the floor r is constant and dx = g: a zero row has the finite gradient 1e12 dy (as torch's normalize). */
static real projection_factor(const real *x, const real *g, real r, int d, double eps) {
    return eps == 0 && r >= (real)(1 / FLOOR) ? 0 : r * r * VT_R(vt_row_dot)(x, g, d);
}

/* Turns g, the gradient of normalised rows times r, into that of x. */
static void through_norms(real *g, int ldg, const real *x, int ldx, const real *r, int rows, int d, double eps) {
    for (int i = 0; i < rows; i++, g += ldg, x += ldx) {
        real f = projection_factor(x, g, r[i], d, eps);
        for (int j = 0; j < d; j++) g[j] -= f * x[j];
    }
}

/* m_ij *= a_i b_j, m [tq, t] in rows of ldp, a [tq], b [t] */
static void scale_both(real *m, const real *a, const real *b, const VT_R(vt_attn_head) *h) {
    for (int i = 0; i < h->tq; i++, m += h->ldp)
        for (int j = 0; j < h->t; j++) m[j] *= a[i] * b[j];
}

/* Computes P = softmax of the scaled cosines of q and k; keeps one over their norms in saved. */
static void probs(real *p, real *saved, const VT_R(vt_attn_head) *h) {
    real *rq = saved, *rk = rq + h->tq;
    inverse_norms(rq, h->q, h->tq, h->d, h->ldq, options_of(h)->eps);
    inverse_norms(rk, h->k, h->t, h->d, h->ldk, options_of(h)->eps);
    VT_R(vt_attn_scores)(p, h);
    scale_both(p, rq, rk, h);
    VT_R(vt_attn_softmax)(p, (real)options_of(h)->tau, h);
}

/* Computes the gradients of q and k through the cosines, which overwrite g's; dp is overwritten. */
static void dprobs(const VT_R(vt_attn_grad) *g, real *dp, const real *p, const real *saved,
                   const VT_R(vt_attn_head) *h) {
    const real *rq = saved, *rk = rq + h->tq;
    VT_R(vt_attn_dsoftmax)(dp, p, (real)options_of(h)->tau, h);
    scale_both(dp, rq, rk, h);
    VT_R(vt_attn_dscores)(g, dp, h);
    through_norms(g->q, g->ldq, h->q, h->ldq, rq, h->tq, h->d, options_of(h)->eps);
    through_norms(g->k, g->ldk, h->k, h->ldk, rk, h->t, h->d, options_of(h)->eps);
}

/* With S = Q K^T and t log r_i = -f_i:  t(r_i s_ij r_j) = r_i r_j (ts_ij - (f_i + f_j) s_ij) */
static void tprobs(real *tp, const real *p, const real *saved, const VT_R(vt_attn_head) *h, const VT_R(vt_attn_in) *t) {
    const real *rq = saved, *rk = rq + h->tq;
    const double eps = options_of(h)->eps;
    VT_R(vt_attn_scores)(tp, h);
    for (int j0 = 0; j0 < h->t; j0 += 16) { /* sixteen columns at a time */
        real fj[16];
        int n = h->t - j0 < 16 ? h->t - j0 : 16;
        for (int l = 0; l < n; l++)
            fj[l] = projection_factor(h->k + (size_t)(j0 + l) * (size_t)h->ldk,
                                      t->k + (size_t)(j0 + l) * (size_t)t->ldk, rk[j0 + l], h->d, eps);
        for (int i = 0; i < h->tq; i++) {
            size_t qi = (size_t)i * (size_t)h->ldq, ti = (size_t)i * (size_t)t->ldq;
            real fi = projection_factor(h->q + qi, t->q + ti, rq[i], h->d, eps),
                 *row = tp + (size_t)i * (size_t)h->ldp + j0;
            for (int l = 0; l < n; l++) row[l] *= -(fi + fj[l]);
        }
    }
    VT_GEMM(h->by, false, true, h->tq, h->t, h->d, 1, t->q, t->ldq, h->k, h->ldk, 1, tp, h->ldp);
    VT_GEMM(h->by, false, true, h->tq, h->t, h->d, 1, h->q, h->ldq, t->k, t->ldk, 1, tp, h->ldp);
    scale_both(tp, rq, rk, h);
    VT_R(vt_attn_tsoftmax)(tp, p, (real)options_of(h)->tau, h);
}

/* u_j = nu r_j v_j; keeps r in saved. */
static void values(real *u, real *saved, const VT_R(vt_attn_head) *h) {
    real *rv = saved + h->tq + h->t;
    inverse_norms(rv, h->v, h->t, h->d, h->ldv, options_of(h)->eps);
    for (int i = 0; i < h->t; i++)
        for (int j = 0; j < h->d; j++)
            u[i * h->d + j] = (real)options_of(h)->nu * rv[i] * h->v[(size_t)i * (size_t)h->ldv + (size_t)j];
}

/* g = nu r tv or nu r du, then through the norm: the Jacobian is symmetric */
static void along_values(real *g, int ldg, const real *tv, int ldt, const real *saved, const VT_R(vt_attn_head) *h) {
    const real *rv = saved + h->tq + h->t;
    for (int i = 0; i < h->t; i++)
        for (int j = 0; j < h->d; j++)
            g[(size_t)i * (size_t)ldg + (size_t)j] =
                (real)options_of(h)->nu * rv[i] * tv[(size_t)i * (size_t)ldt + (size_t)j];
    through_norms(g, ldg, h->v, h->ldv, rv, h->t, h->d, options_of(h)->eps);
}

/* Turns the gradient of the normalised values into that of v, in place. */
static void dvalues(real *dv, int ld, const real *saved, const VT_R(vt_attn_head) *h) {
    along_values(dv, ld, dv, ld, saved, h);
}

/* Computes the change of the normalised values along the tangent of v. */
static void tvalues(real *tu, const real *saved, const VT_R(vt_attn_head) *h, const VT_R(vt_attn_in) *t) {
    along_values(tu, h->d, t->v, t->ldv, saved, h);
}

/* Rows over their norms. max(|x|, 1e-12) is the root of max(|x|^2, 1e-24): a row of zeros keeps a finite gradient. */
static int put_directions(vt_put *p, int x, const options *o) {
    int s = vt_put_reduce(p, "ReduceSum", vt_put_binary(p, "Mul", x, x), -1);
    s = vt_put_binary(p, o->eps > 0 ? "Add" : "Max", s, vt_put_real(p, o->eps > 0 ? o->eps : FLOOR * FLOOR));
    return vt_put_binary(p, "Div", x, vt_put_unary(p, "Sqrt", s));
}

static int put_scores(vt_put *p, const vt_put_heads *h, const void *o) {
    const int q = put_directions(p, h->q, o), k = h->k == h->q ? q : put_directions(p, h->k, o);
    return vt_put_binary(p, "Mul", vt_put_times_transposed(p, q, k, h->rank),
                         vt_put_real(p, ((const options *)o)->tau));
}

static int put_values(vt_put *p, const vt_put_heads *h, const void *o) {
    const double nu = ((const options *)o)->nu;
    return nu > 0 ? vt_put_binary(p, "Mul", put_directions(p, h->v, o), vt_put_real(p, nu)) : h->v;
}

const vt_attn VT_R(vt_attn_is_scsa) = {
    .name = "scsa",
    .summary = "softmax of scaled cosine similarities (LipsFormer)",
    .reference = "Qi et al. 2023, section 3.3; its released code",
    .opts = opts,
    .put_scores = put_scores,
    .put_values = put_values,
    .needs = needs,
};

const VT_R(vt_attn_ops) VT_R(vt_attn_ops_scsa) = {
    .is = &VT_R(vt_attn_is_scsa),
    .saved_len = saved_len,
    .probs = probs,
    .dprobs = dprobs,
    .tprobs = tprobs,
    .values = values,
    .dvalues = dvalues,
    .tvalues = tvalues,
};
