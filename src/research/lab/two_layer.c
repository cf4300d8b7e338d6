/* SPDX-License-Identifier: MIT */
#include "research/lab/two_layer.h"

#include <math.h>
#include <string.h>
#include "base/mem.h"
#include "base/rand.h"
#include "linalg/products.h"
#ifdef VT_DOUBLE
#endif

/* What a pass keeps, B rows of each; a second one holds the tangents of all of it. */
typedef struct side {
    real *z, *h, *p, *u;     /* features, hidden before and after phi, outputs and then dL/df */
    real *dh, *dz;           /* dL/dh, dL/dz */
    real *prob;              /* softmax of the outputs */
    real *m, *dm;            /* mask [in] and its gradient */
    real *q, *k, *v, *a;     /* self: [B tokens, d] and [B tokens, tokens] */
    real *dq, *dk, *dv, *ds; /* their gradients; ds of the scores */
} side;

/* Takes a pass's arrays for `batch` points from r; an arena without base only counts the bytes. */
static void lay_out_buffers(side *s, const vt_two_layer *n, int batch, vt_arena *r) {
    size_t b = (size_t)batch, hidden = (size_t)n->hidden;
    size_t features = n->front == VT_FRONT_PLAIN ? 0 : (size_t)vt_two_layer_features(n); /* else x is z */
    bool self = n->front == VT_FRONT_SELF;
    size_t in = vt_two_layer_masked(n) ? (size_t)n->in : 0, rows = self ? b * (size_t)n->tokens : 0, d = (size_t)n->d;
    s->z = vt_arena_take(r, b * features, sizeof(real));
    s->dz = vt_arena_take(r, b * features, sizeof(real));
    s->h = vt_arena_take(r, b * hidden, sizeof(real));
    s->p = vt_arena_take(r, b * hidden, sizeof(real));
    s->dh = vt_arena_take(r, b * hidden, sizeof(real));
    s->u = vt_arena_take(r, b * (size_t)n->out, sizeof(real));
    s->prob = vt_arena_take(r, b * (size_t)n->out, sizeof(real));
    s->m = vt_arena_take(r, in, sizeof(real));
    s->dm = vt_arena_take(r, in, sizeof(real));
    real **narrow[] = {&s->q, &s->k, &s->v, &s->dq, &s->dk, &s->dv};
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++) *narrow[i] = vt_arena_take(r, rows * d, sizeof(real));
    s->a = vt_arena_take(r, rows * (size_t)n->tokens, sizeof(real));
    s->ds = vt_arena_take(r, rows * (size_t)n->tokens, sizeof(real));
}

size_t VT_R(vt_two_layer_work)(const vt_two_layer *n, int batch, int hessian) {
    vt_arena r = {0};
    side s;
    lay_out_buffers(&s, n, batch, &r);
    if (hessian) lay_out_buffers(&s, n, batch, &r);
    return r.used / sizeof(real) + 16; /* 64 bytes for alignment */
}

/* Points s and tangent (or NULL) into work, from its first multiple of 64 bytes on. */
static void open_sides(side *s, side *tangent, const vt_two_layer *n, int batch, real *work) {
    vt_arena r = {.base = (char *)(((uintptr_t)work + 63) & ~(uintptr_t)63), .size = SIZE_MAX};
    lay_out_buffers(s, n, batch, &r);
    if (tangent) lay_out_buffers(tangent, n, batch, &r);
}

typedef struct tensors {
    const real *front, *w1, *b1, *w2, *b2;
} tensors;

/* The tensors of theta, as pointers. */
static tensors split_parameters(const vt_two_layer *n, const real *theta) {
    return (tensors){theta, theta + vt_two_layer_at(n, VT_AT_W1), theta + vt_two_layer_at(n, VT_AT_B1),
                     theta + vt_two_layer_at(n, VT_AT_W2), theta + vt_two_layer_at(n, VT_AT_B2)};
}

/* ---- products: C (+)= A op(B), dense and row-major ---- */

/* C (+)= A B, [m,k] [k,n] */
static void multiply_ab(real *c, const real *a, const real *b, int m, int n, int k, bool add) { /* [m,k] [k,n] */
    VT_GEMM(NULL, false, false, m, n, k, 1, a, k, b, n, add, c, n);
}
/* C (+)= A B^T, [m,k] [n,k]^T */
static void multiply_abt(real *c, const real *a, const real *b, int m, int n, int k, bool add) { /* [m,k] [n,k]^T */
    VT_GEMM(NULL, false, true, m, n, k, 1, a, k, b, k, add, c, n);
}
/* C (+)= A^T B, [k,m]^T [k,n] */
static void multiply_atb(real *c, const real *a, const real *b, int m, int n, int k, bool add) { /* [k,m]^T [k,n] */
    VT_GEMM(NULL, true, false, m, n, k, 1, a, m, b, n, add, c, n);
}

/* Adds b [cols] to every row of y [rows, cols]. */
static void add_rows(real *y, const real *b, int rows, int cols) {
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++) y[(size_t)i * (size_t)cols + (size_t)j] += b[j];
}

/* out [cols] = the sum of the rows of y [rows, cols]. */
static void sum_rows(real *out, const real *y, int rows, int cols) {
    for (int j = 0; j < cols; j++) out[j] = 0;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++) out[j] += y[(size_t)i * (size_t)cols + (size_t)j];
}

/* ---- phi ---- */

/* phi(h) */
static real activation_at(const vt_two_layer *n, real h) {
    if (n->tau == 0) return h > 0 ? h : 0;
    double t = n->tau * (double)h;
    return (real)((t > 0 ? t + log1p(exp(-t)) : log1p(exp(t))) / n->tau);
}

/* phi'(h); ReLU's is 0 at 0. */
static real activation_slope_at(const vt_two_layer *n, real h) {
    return n->tau == 0 ? (real)(h > 0) : (real)(1 / (1 + exp(-n->tau * (double)h)));
}

/* phi''(h); ReLU's is 0. */
static real activation_curvature_at(const vt_two_layer *n, real h) {
    if (n->tau == 0) return 0;
    double s = 1 / (1 + exp(-n->tau * (double)h));
    return (real)(n->tau * s * (1 - s));
}

/* ---- fronts ---- */

void VT_R(vt_two_layer_mask)(real *m, const real *theta, const vt_two_layer *n) {
    double most = -INFINITY, sum = 0;
    for (int i = 0; i < n->in; i++) {
        m[i] = n->front == VT_FRONT_PLAIN ? 1 : theta[i];
        most = fmax(most, (double)m[i]);
    }
    if (n->front != VT_FRONT_SIMPLEX) return;
    for (int i = 0; i < n->in; i++) sum += exp((double)theta[i] - most);
    for (int i = 0; i < n->in; i++) m[i] = (real)(n->in * exp((double)theta[i] - most) / sum);
}

/* z [batch, in] = x o m, m [in]. */
static void apply_mask(real *z, const real *x, const real *m, int batch, int in) {
    for (int b = 0; b < batch; b++)
        for (int i = 0; i < in; i++)
            z[(size_t)b * (size_t)in + (size_t)i] = x[(size_t)b * (size_t)in + (size_t)i] * m[i];
}

/* dm [in] = sum over rows of x o dz. */
static void mask_gradient(real *dm, const real *x, const real *dz, int batch, int in) {
    for (int i = 0; i < in; i++) dm[i] = 0;
    for (int b = 0; b < batch; b++)
        for (int i = 0; i < in; i++)
            dm[i] += x[(size_t)b * (size_t)in + (size_t)i] * dz[(size_t)b * (size_t)in + (size_t)i];
}

/* sum_i (m_i / in) g_i, for the mask m = in softmax(s): ds_i = m_i (dm_i - sum_j (m_j / in) dm_j). */
static real mean_under(const real *m, const real *g, int in) {
    double sum = 0;
    for (int i = 0; i < in; i++) sum += (double)m[i] * (double)g[i];
    return (real)(sum / in);
}

/* a [n] = softmax(a), in place. */
static void softmax_row(real *a, int n) {
    real most = a[0], sum = 0;
    for (int i = 1; i < n; i++) most = a[i] > most ? a[i] : most;
    for (int i = 0; i < n; i++) sum += a[i] = (real)exp((double)(a[i] - most));
    for (int i = 0; i < n; i++) a[i] /= sum;
}

/* out = a o (g - sum(a o g)): softmax's derivative at probabilities a times g, forward and backward alike. */
static void softmax_row_times(real *out, const real *a, const real *g, int n) {
    real sum = 0;
    for (int i = 0; i < n; i++) sum += a[i] * g[i];
    for (int i = 0; i < n; i++) out[i] = a[i] * (g[i] - sum);
}

typedef struct heads { /* sizes of the self-attention */
    int tokens, width, d, rows;
    size_t weights; /* numbers in W_Q */
    real scale;
} heads;

/* Sizes of the self-attention for a batch. */
static heads attention_sizes(const vt_two_layer *n, int batch) {
    int width = n->in / n->tokens;
    return (
        heads){n->tokens, width, n->d, batch * n->tokens, (size_t)width * (size_t)n->d, (real)(1 / sqrt((double)n->d))};
}

/* c (+)= scale q k^T of one sample: [tokens, d] x 2 -> [tokens, tokens]. */
static void compute_scores(real *c, const real *q, const real *k, const heads *g, bool add) {
    VT_GEMM(NULL, false, true, g->tokens, g->tokens, g->d, g->scale, q, g->d, k, g->d, add, c, g->tokens);
}

/* s->q, k, v, a and z = softmax(scale Q K^T) V of every sample; w: W_Q, W_K, W_V. */
static void self_forward(side *s, const real *x, const real *w, const vt_two_layer *n, int batch) {
    heads g = attention_sizes(n, batch);
    multiply_ab(s->q, x, w, g.rows, g.d, g.width, false);
    multiply_ab(s->k, x, w + g.weights, g.rows, g.d, g.width, false);
    multiply_ab(s->v, x, w + 2 * g.weights, g.rows, g.d, g.width, false);
    for (int b = 0; b < batch; b++) {
        size_t at = (size_t)b * (size_t)(g.tokens * g.d);
        real *a = s->a + (size_t)b * (size_t)(g.tokens * g.tokens);
        compute_scores(a, s->q + at, s->k + at, &g, false);
        for (int i = 0; i < g.tokens; i++) softmax_row(a + i * g.tokens, g.tokens);
        multiply_ab(s->z + at, a, s->v + at, g.tokens, g.d, g.tokens, false);
    }
}

/* From s->dz: dv = A^T dz, dA = dz V^T, ds, dq = scale ds K, dk = scale ds^T Q; then dw and dx, or NULL. */
static void self_backward(side *s, real *dw, real *dx, const real *x, const real *w, const vt_two_layer *n, int batch) {
    heads g = attention_sizes(n, batch);
    int t = g.tokens, d = g.d;
    for (int b = 0; b < batch; b++) {
        size_t at = (size_t)b * (size_t)(t * d), sq = (size_t)b * (size_t)(t * t);
        multiply_atb(s->dv + at, s->a + sq, s->dz + at, t, d, t, false);
        multiply_abt(s->ds + sq, s->dz + at, s->v + at, t, t, d, false);
        for (int i = 0; i < t; i++) softmax_row_times(s->ds + sq + i * t, s->a + sq + i * t, s->ds + sq + i * t, t);
        VT_GEMM(NULL, false, false, t, d, t, g.scale, s->ds + sq, t, s->k + at, d, 0, s->dq + at, d);
        VT_GEMM(NULL, true, false, t, d, t, g.scale, s->ds + sq, t, s->q + at, d, 0, s->dk + at, d);
    }
    const real *const grads[3] = {s->dq, s->dk, s->dv};
    for (size_t i = 0; i < 3; i++) {
        if (dw) multiply_atb(dw + i * g.weights, x, grads[i], g.width, d, g.rows, false);
        if (dx) multiply_abt(dx, grads[i], w + i * g.weights, g.rows, g.width, d, i > 0);
    }
}

/* Features, hidden layer and outputs s->u of a batch. */
static void forward(side *s, const real *x, const real *theta, int batch, const vt_two_layer *n) {
    tensors t = split_parameters(n, theta);
    int features = vt_two_layer_features(n);
    if (n->front == VT_FRONT_SELF) self_forward(s, x, t.front, n, batch);
    if (vt_two_layer_masked(n)) {
        VT_R(vt_two_layer_mask)(s->m, theta, n);
        apply_mask(s->z, x, s->m, batch, n->in);
    }
    const real *z = n->front == VT_FRONT_PLAIN ? x : s->z;
    multiply_abt(s->h, z, t.w1, batch, n->hidden, features, false);
    add_rows(s->h, t.b1, batch, n->hidden);
    size_t count = (size_t)batch * (size_t)n->hidden;
    if (n->tau == 0)
        for (size_t i = 0; i < count; i++) s->p[i] = s->h[i] > 0 ? s->h[i] : 0;
    else
        for (size_t i = 0; i < count; i++) s->p[i] = activation_at(n, s->h[i]);
    multiply_abt(s->u, s->p, t.w2, batch, n->out, n->hidden, false);
    add_rows(s->u, t.b2, batch, n->out);
}

/* Returns the mean loss; u [batch, out]: outputs, then dL/df; q [batch, out] (or NULL): softmax for cross-entropy. */
static double loss_and_gradient(real *u, real *q, const real *y, int batch, const vt_two_layer *n) {
    double loss = 0, share = 1.0 / batch;
    for (int b = 0; b < batch; b++) {
        real *f = u + (size_t)b * (size_t)n->out;
        const real *want = y + (size_t)b * (size_t)n->out;
        if (n->fit == VT_FIT_CLASSES) {
            double most = -INFINITY, sum = 0;
            for (int j = 0; j < n->out; j++) most = fmax(most, (double)f[j]);
            for (int j = 0; j < n->out; j++) sum += exp((double)f[j] - most);
            for (int j = 0; j < n->out; j++) {
                double log_p = (double)f[j] - most - log(sum);
                loss -= share * (double)want[j] * log_p;
                f[j] = (real)exp(log_p);
                if (q) q[(size_t)b * (size_t)n->out + (size_t)j] = f[j];
            }
        }
        for (int j = 0; j < n->out; j++) {
            double off = (double)f[j] - (double)want[j];
            if (n->fit == VT_FIT_SQUARES) loss += share * off * off / 2;
            f[j] = (real)(share * off);
        }
    }
    return loss;
}

/* s->dh = (u W2) o phi'(h), u = dL/df. */
static void hidden_backward(side *s, const real *w2, int batch, const vt_two_layer *n) {
    multiply_ab(s->dh, s->u, w2, batch, n->hidden, n->out, false);
    size_t count = (size_t)batch * (size_t)n->hidden;
    if (n->tau == 0)
        for (size_t i = 0; i < count; i++) s->dh[i] = s->h[i] > 0 ? s->dh[i] : 0;
    else
        for (size_t i = 0; i < count; i++) s->dh[i] *= activation_slope_at(n, s->h[i]);
}

/* From s->u = dL/df: overwrites grad [parameters] (zero for a known mask) and dx [batch, in], each if not NULL. */
static void backward(side *s, real *grad, real *dx, const real *x, const real *theta, int batch,
                     const vt_two_layer *n) {
    tensors t = split_parameters(n, theta);
    int features = vt_two_layer_features(n);
    bool plain = n->front == VT_FRONT_PLAIN;
    const real *z = plain ? x : s->z;
    hidden_backward(s, t.w2, batch, n);
    if (grad) {
        multiply_atb(grad + vt_two_layer_at(n, VT_AT_W2), s->u, s->p, n->out, n->hidden, batch, false);
        sum_rows(grad + vt_two_layer_at(n, VT_AT_B2), s->u, batch, n->out);
        multiply_atb(grad + vt_two_layer_at(n, VT_AT_W1), s->dh, z, n->hidden, features, batch, false);
        sum_rows(grad + vt_two_layer_at(n, VT_AT_B1), s->dh, batch, n->hidden);
    }
    if (plain && !dx) return;
    real *dz = plain ? dx : s->dz;
    multiply_ab(dz, s->dh, t.w1, batch, features, n->hidden, false);
    if (n->front == VT_FRONT_SELF) self_backward(s, grad, dx, x, t.front, n, batch);
    if (plain || n->front == VT_FRONT_SELF) return;
    if (dx) apply_mask(dx, dz, s->m, batch, n->in);
    if (!grad) return;
    if (n->front == VT_FRONT_KNOWN) {
        memset(grad, 0, (size_t)n->in * sizeof *grad);
        return;
    }
    mask_gradient(s->dm, x, dz, batch, n->in);
    real c = n->front == VT_FRONT_SIMPLEX ? mean_under(s->m, s->dm, n->in) : 0;
    for (int i = 0; i < n->in; i++) grad[i] = n->front == VT_FRONT_SIMPLEX ? s->m[i] * (s->dm[i] - c) : s->dm[i];
}

double VT_R(vt_two_layer_loss)(real *grad, real *dx, real *f, const real *x, const real *y, const real *theta,
                               int batch, const vt_two_layer *n, real *work) {
    side s;
    open_sides(&s, NULL, n, batch, work);
    forward(&s, x, theta, batch, n);
    if (f) memcpy(f, s.u, (size_t)batch * (size_t)n->out * sizeof *f);
    if (!y) return 0;
    double loss = loss_and_gradient(s.u, NULL, y, batch, n);
    if (grad || dx) backward(&s, grad, dx, x, theta, batch, n);
    return loss;
}

/* ---- the R-operator: every line above once more, differentiated along v. r holds R{.} of what s holds. ---- */

/* R of self_forward: r's q, k, v, a and z for weights moving along v. */
static void self_forward_r(const side *s, side *r, const real *x, const real *v, const vt_two_layer *n, int batch) {
    heads g = attention_sizes(n, batch);
    int t = g.tokens, d = g.d;
    multiply_ab(r->q, x, v, g.rows, d, g.width, false);
    multiply_ab(r->k, x, v + g.weights, g.rows, d, g.width, false);
    multiply_ab(r->v, x, v + 2 * g.weights, g.rows, d, g.width, false);
    for (int b = 0; b < batch; b++) {
        size_t at = (size_t)b * (size_t)(t * d), sq = (size_t)b * (size_t)(t * t);
        compute_scores(r->a + sq, r->q + at, s->k + at, &g, false);
        compute_scores(r->a + sq, s->q + at, r->k + at, &g, true);
        for (int i = 0; i < t; i++) softmax_row_times(r->a + sq + i * t, s->a + sq + i * t, r->a + sq + i * t, t);
        multiply_ab(r->z + at, r->a + sq, s->v + at, t, d, t, false);
        multiply_ab(r->z + at, s->a + sq, r->v + at, t, d, t, true);
    }
}

/* R{ds} of ds = a o (g - sum(a o g)): Ra o (g - c) + a o (Rg - Rc), c = sum(a o g). g and Rg are in the buffers of ds
 * and Rds, so this comes before s->ds is finished. */
static void softmax_row_times_r(real *out, const real *a, const real *ra, const real *g, const real *rg, int n) {
    real c = 0, rc = 0;
    for (int i = 0; i < n; i++) c += a[i] * g[i], rc += ra[i] * g[i] + a[i] * rg[i];
    for (int i = 0; i < n; i++) out[i] = ra[i] * (g[i] - c) + a[i] * (rg[i] - rc);
}

/* R of self_backward: sets hv [3 weights] to the front's part of H v, from both sides' dz; overwrites s->ds. */
static void self_backward_r(side *s, side *r, real *hv, const real *x, const vt_two_layer *n, int batch) {
    heads g = attention_sizes(n, batch);
    int t = g.tokens, d = g.d;
    for (int b = 0; b < batch; b++) {
        size_t at = (size_t)b * (size_t)(t * d), sq = (size_t)b * (size_t)(t * t);
        multiply_atb(r->dv + at, r->a + sq, s->dz + at, t, d, t, false);
        multiply_atb(r->dv + at, s->a + sq, r->dz + at, t, d, t, true);
        multiply_abt(s->ds + sq, s->dz + at, s->v + at, t, t, d, false); /* dA */
        multiply_abt(r->ds + sq, r->dz + at, s->v + at, t, t, d, false);
        multiply_abt(r->ds + sq, s->dz + at, r->v + at, t, t, d, true);
        for (int i = 0; i < t; i++) {
            size_t row = sq + (size_t)(i * t);
            softmax_row_times_r(r->ds + row, s->a + row, r->a + row, s->ds + row, r->ds + row, t);
            softmax_row_times(s->ds + row, s->a + row, s->ds + row, t);
        }
        VT_GEMM(NULL, false, false, t, d, t, g.scale, r->ds + sq, t, s->k + at, d, 0, r->dq + at, d);
        VT_GEMM(NULL, false, false, t, d, t, g.scale, s->ds + sq, t, r->k + at, d, 1, r->dq + at, d);
        VT_GEMM(NULL, true, false, t, d, t, g.scale, r->ds + sq, t, s->q + at, d, 0, r->dk + at, d);
        VT_GEMM(NULL, true, false, t, d, t, g.scale, s->ds + sq, t, r->q + at, d, 1, r->dk + at, d);
    }
    const real *const grads[3] = {r->dq, r->dk, r->dv};
    for (size_t i = 0; i < 3; i++) multiply_atb(hv + i * g.weights, x, grads[i], g.width, d, g.rows, false);
}

/* r->m: R of the mask along v (0 for a known one), and r->z = x o r->m. */
static void mask_forward_r(const side *s, side *r, const real *x, const real *v, const vt_two_layer *n, int batch) {
    real c = n->front == VT_FRONT_SIMPLEX ? mean_under(s->m, v, n->in) : 0;
    for (int i = 0; i < n->in; i++) r->m[i] = n->front == VT_FRONT_SIMPLEX ? s->m[i] * (v[i] - c) : v[i];
    if (n->front == VT_FRONT_KNOWN) memset(r->m, 0, (size_t)n->in * sizeof *r->m);
    apply_mask(r->z, x, r->m, batch, n->in);
}

/* hv [in]: the mask parameters' part of H v, from both sides' dz. */
static void mask_backward_r(side *s, side *r, real *hv, const real *x, const vt_two_layer *n, int batch) {
    mask_gradient(s->dm, x, s->dz, batch, n->in);
    mask_gradient(r->dm, x, r->dz, batch, n->in);
    bool simplex = n->front == VT_FRONT_SIMPLEX;
    real c = mean_under(s->m, s->dm, n->in), rc = mean_under(r->m, s->dm, n->in) + mean_under(s->m, r->dm, n->in);
    for (int i = 0; i < n->in; i++) hv[i] = simplex ? r->m[i] * (s->dm[i] - c) + s->m[i] * (r->dm[i] - rc) : r->dm[i];
    if (n->front == VT_FRONT_KNOWN) memset(hv, 0, (size_t)n->in * sizeof *hv);
}

/* R of forward: r's features, hidden layer and outputs, for parameters moving along v. */
static void forward_r(const side *s, side *r, const real *x, const real *theta, const real *v, int batch,
                      const vt_two_layer *n) {
    tensors t = split_parameters(n, theta), dt = split_parameters(n, v);
    int features = vt_two_layer_features(n);
    bool plain = n->front == VT_FRONT_PLAIN;
    if (n->front == VT_FRONT_SELF)
        self_forward_r(s, r, x, dt.front, n, batch);
    else if (!plain)
        mask_forward_r(s, r, x, dt.front, n, batch);
    multiply_abt(r->h, plain ? x : s->z, dt.w1, batch, n->hidden, features, false);
    if (!plain) multiply_abt(r->h, r->z, t.w1, batch, n->hidden, features, true);
    add_rows(r->h, dt.b1, batch, n->hidden);
    for (size_t i = 0; i < (size_t)batch * (size_t)n->hidden; i++) r->p[i] = activation_slope_at(n, s->h[i]) * r->h[i];
    multiply_abt(r->u, r->p, t.w2, batch, n->out, n->hidden, false);
    multiply_abt(r->u, s->p, dt.w2, batch, n->out, n->hidden, true);
    add_rows(r->u, dt.b2, batch, n->out);
}

/* R of dL/df, in place of Rf: Rf / B, or q o (Rf - sum(q o Rf)) / B for cross-entropy. */
static void loss_gradient_r(real *ru, const real *q, int batch, const vt_two_layer *n) {
    for (int b = 0; b < batch; b++) {
        real *f = ru + (size_t)b * (size_t)n->out;
        if (n->fit == VT_FIT_CLASSES) softmax_row_times(f, q + (size_t)b * (size_t)n->out, f, n->out);
        for (int j = 0; j < n->out; j++) f[j] /= (real)batch;
    }
}

/* r->dh = R of hidden_backward; v2: W2's direction, dp [batch, hidden]: scratch, dL/dp on return. */
static void hidden_backward_r(const side *s, side *r, const real *w2, const real *v2, int batch, const vt_two_layer *n,
                              real *dp) {
    size_t count = (size_t)batch * (size_t)n->hidden;
    multiply_ab(dp, s->u, w2, batch, n->hidden, n->out, false); /* dL/dp */
    multiply_ab(r->dh, r->u, w2, batch, n->hidden, n->out, false);
    multiply_ab(r->dh, s->u, v2, batch, n->hidden, n->out, true);
    for (size_t i = 0; i < count; i++)
        r->dh[i] = r->dh[i] * activation_slope_at(n, s->h[i]) + dp[i] * activation_curvature_at(n, s->h[i]) * r->h[i];
}

void VT_R(vt_two_layer_hessian)(real *hv, const real *v, const real *x, const real *y, const real *theta, int batch,
                                const vt_two_layer *n, real *work) {
    side s, r;
    open_sides(&s, &r, n, batch, work);
    tensors t = split_parameters(n, theta), dt = split_parameters(n, v);
    int features = vt_two_layer_features(n);
    bool plain = n->front == VT_FRONT_PLAIN;
    const real *z = plain ? x : s.z;
    forward(&s, x, theta, batch, n);
    forward_r(&s, &r, x, theta, v, batch, n);
    loss_and_gradient(s.u, s.prob, y, batch, n);
    loss_gradient_r(r.u, s.prob, batch, n);
    hidden_backward_r(&s, &r, t.w2, dt.w2, batch, n, s.dh);
    hidden_backward(&s, t.w2, batch, n);
    multiply_atb(hv + vt_two_layer_at(n, VT_AT_W2), r.u, s.p, n->out, n->hidden, batch, false);
    multiply_atb(hv + vt_two_layer_at(n, VT_AT_W2), s.u, r.p, n->out, n->hidden, batch, true);
    sum_rows(hv + vt_two_layer_at(n, VT_AT_B2), r.u, batch, n->out);
    multiply_atb(hv + vt_two_layer_at(n, VT_AT_W1), r.dh, z, n->hidden, features, batch, false);
    if (!plain) multiply_atb(hv + vt_two_layer_at(n, VT_AT_W1), s.dh, r.z, n->hidden, features, batch, true);
    sum_rows(hv + vt_two_layer_at(n, VT_AT_B1), r.dh, batch, n->hidden);
    if (plain) return;
    multiply_ab(s.dz, s.dh, t.w1, batch, features, n->hidden, false);
    multiply_ab(r.dz, r.dh, t.w1, batch, features, n->hidden, false);
    multiply_ab(r.dz, s.dh, dt.w1, batch, features, n->hidden, true);
    if (n->front == VT_FRONT_SELF)
        self_backward_r(&s, &r, hv, x, n, batch);
    else
        mask_backward_r(&s, &r, hv, x, n, batch);
}

/* out [n]: scale times normals keyed by (seed, run, tensor). */
static void draw_normals(real *out, size_t n, double scale, uint64_t seed, uint32_t run, uint32_t tensor) {
    vt_rng key = {.seed = seed, .purpose = vt_rng_purpose("two-layer"), .run = run, .step = tensor};
    for (size_t i = 0; i < n; i += 256) {
        float z[256];
        size_t k = n - i < 256 ? n - i : 256;
        key.image = (uint32_t)(i / 256);
        vt_rng_normals(&key, z, k);
        for (size_t j = 0; j < k; j++) out[i + j] = (real)(scale * (double)z[j]);
    }
}

void VT_R(vt_two_layer_init)(real *theta, const vt_two_layer *n, double scale, uint64_t seed, uint32_t run) {
    memset(theta, 0, vt_two_layer_at(n, VT_AT_END) * sizeof *theta);
    if (n->front == VT_FRONT_MASK || n->front == VT_FRONT_KNOWN)
        for (int i = 0; i < n->in; i++) theta[i] = 1;
    if (n->front == VT_FRONT_SELF)
        draw_normals(theta, vt_two_layer_size(n, VT_AT_FRONT), sqrt(2.0 / (n->in / n->tokens + n->d)), seed, run, 0);
    draw_normals(theta + vt_two_layer_at(n, VT_AT_W1), vt_two_layer_size(n, VT_AT_W1),
                 scale * sqrt(2.0 / vt_two_layer_features(n)), seed, run, 1);
    draw_normals(theta + vt_two_layer_at(n, VT_AT_W2), vt_two_layer_size(n, VT_AT_W2), scale * sqrt(2.0 / n->hidden),
                 seed, run, 2);
}
