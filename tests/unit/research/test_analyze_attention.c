/* SPDX-License-Identifier: MIT */
/* src/research/analysis: rows of attention against the bounds of Theorem 2.1 and their tight forms in random cases;
 * shapes of attention whose numbers are known; selection radii against moves that try to cross them; the hooks that
 * show a network's attention. */
#define VT_DOUBLE
#include "base/real.h"
#include "toy.h"

#include "models/net/session.h"
#include "models/net/session64.h"
#include "nn/loss.h"
#include "research/analysis/affinity.h"
#include "research/analysis/layers.h"
#include "research/analysis/operator.h"
#include "research/analysis/selection.h"

static double draw(uint64_t seed, double from, double to) {
    double u = (double)vt_rng_uniform(&(vt_rng){.seed = seed, .purpose = 0xB8}, 0);
    return from + u * (to - from);
}

enum { MOST_T = 9, MOST_D = 6 };

/* 20,000 random heads: no bound is ever passed (rounding: 1e-9, since tiny moves are differences of near equals), the
 * paper's is never reached by more than a quarter. */
static void test_affinity(void **state) {
    (void)state;
    vt_affinity all = {0};
    for (uint64_t n = 0; n < 20000; n++) {
        uint64_t seed = 60 * n + 5;
        int t = 1 + (int)draw(seed, 0, MOST_T - 0.01), d = 1 + (int)draw(seed + 1, 0, MOST_D - 0.01);
        double a[4][MOST_T * MOST_D], size = exp(draw(seed + 2, -2, 2)), step = exp(draw(seed + 3, -3, 1));
        for (uint64_t k = 0; k < 4; k++) t_normals(a[k], (size_t)(t * d), seed + 10 + k, k < 2 ? size : step);
        if (n % 2) /* keys far from the origin: what the centring is for */
            for (int i = 0; i < t * d; i++) a[1][i] += 5;
        for (int i = 0; i < t * d; i++) a[2][i] += a[0][i], a[3][i] += a[1][i];
        vt_affinity_pair p = {.t = t,
                              .d = d,
                              .scale = 1 / sqrt(d),
                              .q = a[0],
                              .k = a[1],
                              .q1 = a[2],
                              .k1 = a[3],
                              .ldq = d,
                              .ldk = d,
                              .ldq1 = d,
                              .ldk1 = d};
        vt_affinity one = {0};
        assert_int_equal(vt_affinity_add(&one, &p, NULL), VT_OK);
        t_le(one.centred, 1 + 1e-9, "case %d: centred", (int)n);
        t_le(one.half, one.centred * (1 + 1e-9), "case %d: centring never hurts", (int)n);
        t_le(one.paper, 0.25 + 1e-9, "case %d: the paper's", (int)n);
        t_le(one.l1, 1 + 1e-9, "case %d: l1", (int)n);
        t_le(one.extended, 1 + 1e-9, "case %d: keys moved", (int)n);
        vt_affinity_merge(&all, &one);
    }
    assert_true(all.half > 0.9 && all.centred > 0.9 && all.l1 > 0.9 && all.extended > 0.5 && all.paper > 0.2);
}

/* K = [1; -1], q = 0: rows begin at (1/2, 1/2), where the softmax moves by 1/2; in the limit all of 1/2 |K| e. */
static void test_affinity_attained(void **state) {
    (void)state;
    const double q[2] = {0, 0}, k[2] = {1, -1}, q1[2] = {1e-4, 0};
    vt_affinity s = {0};
    vt_affinity_pair p = {2, 1, 1, q, k, q1, k, 1, 1, 1, 1};
    assert_int_equal(vt_affinity_add(&s, &p, NULL), VT_OK);
    t_le(fabs(s.centred - 1), 1e-8, "centred"); /* third order: e^2/3 */
    t_le(fabs(s.paper - 0.25), 1e-8, "paper");
    assert_int_equal(s.rows, 2);
    t_le(fabs(s.fixed - sqrt(2) * 0.5 * 1e-4), 1e-12, "the one row that moved");
}

/* ---- shapes ---- */

static void test_shapes(void **state) {
    (void)state;
    enum { T = 6, LD = 7 };
    double a[T * LD] = {0};
    vt_attention_shape s;
    for (int i = 0; i < T; i++) a[i * LD + (i + 1) % T] = 1; /* a permutation */
    assert_int_equal(vt_attention_shape_of(&s, a, T, LD, 2, NULL), VT_OK);
    t_le(fabs(s.entropy) + fabs(s.effective - 1) + fabs(s.top - 1) + fabs(s.norm - 1) + s.gap, 1e-14, "permutation");
    t_le(fabs(s.below - 5 / 6.0), 1e-14, "share below 1/N");
    for (int i = 0; i < T * LD; i++) a[i] = 1.0 / T;
    assert_int_equal(vt_attention_shape_of(&s, a, T, LD, 2, NULL), VT_OK);
    t_le(fabs(s.entropy - log(T)) + fabs(s.effective - T) + fabs(s.top - 2.0 / T) + fabs(s.norm - 1), 1e-13, "uniform");
    t_le(fabs(s.gap * s.gap - (T - 1)), 1e-12, "gap of the uniform"); /* |P|_F^2 - 2 tr P + N = N - 1 */
    for (int i = 0; i < T; i++)
        for (int j = 0; j < T; j++) a[i * LD + j] = j == 2;
    assert_int_equal(vt_attention_shape_of(&s, a, T, LD, 2, NULL), VT_OK);
    t_le(fabs(s.norm - sqrt(T)) + fabs(s.gap * s.gap - T * (T - 1)), 1e-12, "one token for all");
    for (uint64_t seed = 1; seed < 200; seed++) { /* |A|^2 <= 1 + |A^T A - I|_F */
        double x[T * T];
        t_normals(x, T * T, seed, exp(draw(seed, -2, 3)));
        for (int i = 0; i < T; i++) {
            double sum = 0;
            for (int j = 0; j < T; j++) sum += x[i * T + j] = exp(x[i * T + j]);
            for (int j = 0; j < T; j++) x[i * T + j] /= sum;
        }
        assert_int_equal(vt_attention_shape_of(&s, x, T, T, 3, NULL), VT_OK);
        t_le(s.norm * s.norm - (1 + s.gap), 1e-12, "seed %d", (int)seed);
    }
}

/* ---- selection ---- */

enum { C = 5 };

typedef struct head {
    vt_head_at h;
    double x[MOST_T * C], w[3][MOST_D * C], b[2][MOST_D], qkv[3][MOST_T * MOST_D], p[MOST_T * MOST_T];
} head;

static void project(head *s, const double *x) {
    for (int m = 0; m < 3; m++)
        for (int i = 0; i < s->h.t; i++)
            for (int k = 0; k < s->h.d; k++)
                s->qkv[m][i * s->h.d + k] = t_dot(x + i * C, s->w[m] + k * C, C) + (m < 2 ? s->b[m][k] : 0);
}

static void make(head *s, uint64_t seed) {
    int t = 2 + (int)draw(seed, 0, MOST_T - 2.01), d = 1 + (int)draw(seed + 1, 0, MOST_D - 0.01);
    t_normals(s->x, (size_t)(t * C), seed + 2, 1);
    for (int m = 0; m < 3; m++) t_normals(s->w[m], (size_t)(d * C), seed + 3 + (uint64_t)m, exp(draw(seed + 9, -1, 1)));
    for (int m = 0; m < 2; m++) t_normals(s->b[m], (size_t)d, seed + 6 + (uint64_t)m, 0.5);
    s->h = (vt_head_at){.t = t, .d = d, .c = C, .scale = 1 / sqrt(d), .ldq = d, .ldk = d, .ldv = d, .ldp = t};
    s->h.x = s->x, s->h.q = s->qkv[0], s->h.k = s->qkv[1], s->h.v = s->qkv[2], s->h.p = s->p, s->h.b_q = s->b[0];
    s->h.w_q = s->w[0], s->h.w_k = s->w[1], s->h.w_v = s->w[2];
    project(s, s->x);
}

/* In the direction in which s_i,alpha - s_it falls fastest: each of the three tokens moved by len along its gradient.
 */
static void push(double *y, const head *s, int i, int alpha, int t, double len) {
    double g[MOST_T * C] = {0};
    int d = s->h.d;
    for (int k = 0; k < d; k++)
        for (int c = 0; c < C; c++) {
            double q = s->qkv[0][i * d + k];
            g[alpha * C + c] -= q * s->w[1][k * C + c], g[t * C + c] += q * s->w[1][k * C + c];
            g[i * C + c] -= (s->qkv[1][alpha * d + k] - s->qkv[1][t * d + k]) * s->w[0][k * C + c];
        }
    memcpy(y, s->x, sizeof s->x);
    for (int j = 0; j < s->h.t; j++) {
        double n = t_norm(g + j * C, C);
        for (int c = 0; n > 0 && c < C; c++) y[j * C + c] += len * g[j * C + c] / n;
    }
}

/* 2,000 heads, every query, moves at 0.999 of the radius: along the worst gradient for each token and at random. None
 * may change the choice. Ten times as far, many do: the test can fail. */
static void test_radius(void **state) {
    (void)state;
    static head s, moved;
    long tried = 0, beyond = 0;
    for (uint64_t n = 0; n < 2000; n++) {
        vt_head_norms w;
        vt_selection at[MOST_T], then[MOST_T];
        make(&s, 70 * n + 1);
        assert_int_equal(vt_head_norms_of(&w, &s.h, NULL), VT_OK);
        assert_int_equal(vt_selections_of(at, &s.h, w.qk, NULL), VT_OK);
        for (int i = 0; i < s.h.t; i++)
            for (int t = -2; t < s.h.t; t++)
                for (int far = 0; far < 2; far++) {
                    double len = (far ? 10 : 0.999) * at[i].radius;
                    moved = s, moved.h.q = moved.qkv[0], moved.h.k = moved.qkv[1];
                    if (t >= 0)
                        push(moved.x, &s, i, at[i].token, t, len);
                    else
                        for (int j = 0; j < s.h.t; j++) {
                            double g[C];
                            t_normals(g, C, 90 * n + (uint64_t)(i * 20 + j * 2 + t + 2), 1);
                            for (int c = 0; c < C; c++) moved.x[j * C + c] += len * g[c] / t_norm(g, C);
                        }
                    project(&moved, moved.x);
                    assert_int_equal(vt_selections_of(then, &moved.h, w.qk, NULL), VT_OK);
                    bool flip = then[i].token != at[i].token;
                    if (!far && flip) fail_msg("head %d, query %d: the choice changed within its radius", (int)n, i);
                    tried += !far, beyond += far && flip;
                }
        for (int i = 0; i < s.h.t; i++) { /* P_i,alpha >= 1 / (1 + (N - 1) e^-m) */
            double sum = 0, best = 0, score;
            for (int j = 0; j < s.h.t; j++) {
                score = s.h.scale * t_dot(s.qkv[0] + i * s.h.d, s.qkv[1] + j * s.h.d, (size_t)s.h.d);
                sum += exp(score), best = j == at[i].token ? exp(score) : best;
            }
            t_le(1 / (1 + (s.h.t - 1) * exp(-at[i].margin)) - best / sum, 1e-12, "mass of the selected token");
        }
    }
    assert_true(tried > 60000 && beyond > tried / 10);
}

static void test_merged_norm(void **state) {
    (void)state;
    static head s;
    make(&s, 4);
    double sum = 0, cube = 0;
    for (int i = 0; i < C; i++)
        for (int j = 0; j < C; j++) {
            double a = 0;
            for (int k = 0; k < s.h.d; k++) a += s.w[0][k * C + i] * s.w[1][k * C + j];
            sum += a * a * s.h.scale * s.h.scale, cube += pow(fabs(a * s.h.scale), 3);
        }
    t_le(fabs(vt_merged_norm(&s.h, 2) - sqrt(sum)) / sqrt(sum), 1e-13, "p = 2");
    t_le(fabs(vt_merged_norm(&s.h, 3) - cbrt(cube)) / cbrt(cube), 1e-13, "p = 3");
    vt_head_norms w;
    assert_int_equal(vt_head_norms_of(&w, &s.h, NULL), VT_OK);
    t_le(w.qk, sqrt(sum) * (1 + 1e-13), "spectral below Frobenius");
}

/* ---- the hooks ---- */

typedef struct hooked {
    const vt_model *m;
    int forward, backward;
    double d_o[2][11 * 12], v[2][11 * 12], worst;
} hooked;

static vt_status on_forward(void *ctx, const vt_layer *l, vt_err *e) {
    hooked *s = ctx;
    (void)e;
    assert_int_equal(l->block, s->forward++);
    assert_true(l->x && !l->d_o && l->plain && l->dot);
    for (int h = 0; h < l->heads; h++) /* p is the softmax of what q and k are said to be */
        for (int i = 0; i < l->t; i++) {
            double sum = 0, row[16];
            for (int j = 0; j < l->t; j++)
                sum += row[j] =
                    exp(l->scale * t_dot(l->q + i * l->ldq + h * l->d, l->k + j * l->ldk + h * l->d, (size_t)l->d));
            for (int j = 0; j < l->t; j++)
                s->worst = fmax(s->worst, fabs(row[j] / sum - l->p[(h * l->t + i) * l->ldp + j]));
        }
    for (int i = 0; i < l->t; i++) /* and they are projections of x */
        for (int c = 0; c < l->c; c++) {
            double q = t_dot(l->x + i * l->c, l->w_q + c * l->c, (size_t)l->c) + (l->b_q ? l->b_q[c] : 0);
            s->worst = fmax(s->worst, fabs(q - l->q[i * l->ldq + c]));
        }
    return VT_OK;
}

static vt_status on_backward(void *ctx, const vt_layer *l, vt_err *e) {
    hooked *s = ctx;
    (void)e;
    assert_int_equal(l->block, s->m->config.depth - 1 - s->backward++);
    assert_true(!l->x && l->d_o);
    for (int i = 0; i < l->t * l->c; i++) s->d_o[l->block][i] = l->d_o[i];
    for (int i = 0; i < l->t; i++)
        for (int c = 0; c < l->c; c++) s->v[l->block][i * l->c + c] = l->v[i * l->ldv + c];
    return VT_OK;
}

static double loss_of(const vt_model *m, const double *x, int label) {
    vt_session_f64 *s;
    assert_int_equal(vt_session_open_f64(&s, m, 1, VT_GRAD_INPUT, NULL), VT_OK);
    const double *z = vt_session_forward_f64(s, x, 1, false);
    double most = z[0], sum = 0, value;
    for (int k = 1; k < m->config.classes; k++) most = fmax(most, z[k]);
    for (int k = 0; k < m->config.classes; k++) sum += exp(z[k] - most);
    value = most + log(sum) - z[label];
    vt_session_close_f64(s);
    return value;
}

/* d_o against a central difference: attn.proj.weight row r, o -> proj: raising the value bias of channel c by h raises
 * every token's o by h (rows of P sum to one), so that sum_i d_o[i][c] = dL/d(b_v[c]). */
static void test_hooks(void **state) {
    (void)state;
    vt_model *m = toy(VT_POOL_TOKEN, false, true);
    hooked s = {.m = m};
    vt_session_f64 *session;
    double *x = toy_images(m, 1, 2), dz[8], sum = 0;
    const double *z;
    vt_err e = {0};
    int k = m->config.classes, label = 1, c = m->config.dim;
    assert_int_equal(vt_session_open_f64(&session, m, 1, VT_GRAD_INPUT, &e), VT_OK);
    assert_int_equal(vt_layers_forward(session, x, true, on_forward, &s, &z, &e), VT_OK);
    t_le(s.worst, 1e-13, "what is shown");
    for (int i = 0; i < k; i++) sum += dz[i] = exp(z[i]);
    for (int i = 0; i < k; i++) dz[i] = dz[i] / sum - (i == label);
    assert_int_equal(vt_layers_backward(session, dz, on_backward, &s, &e), VT_OK);
    assert_int_equal(s.forward, 2), assert_int_equal(s.backward, 2);
    for (int block = 0; block < 2; block++)
        for (int j = 0; j < c; j += 5) {
            char name[64];
            snprintf(name, sizeof name, "blocks.%d.attn.qkv.bias", block);
            float *b = m->w + vt_model_param(m, name)->offset + 2 * c + j, was = *b;
            double all = 0, h = 0x1p-10; /* a power of two on the weights' grid; error h^2 times a third derivative */
            for (int i = 0; i < 10; i++) all += s.d_o[block][i * c + j];
            *b = was + (float)h;
            double up = loss_of(m, x, label);
            *b = was - (float)h;
            double down = loss_of(m, x, label);
            *b = was;
            t_le(fabs((up - down) / (2 * h) - all), 1e-5, "block %d, channel %d", block, j);
            assert_true(fabs(all) > 1e-4);
        }
    vt_session_close_f64(session), vt_model_close(m);
    free(x);
}

/* Windows and channels are not shown, and it is said which architectures are. */
static void test_refusal(void **state) {
    (void)state;
    vt_config c = toy_config("dot", VT_POOL_AVG, false, true);
    vt_model m = {.config = c};
    vt_err e = {0};
    assert_int_equal(vt_layers_check(&m, &e), VT_OK);
    snprintf(m.config.arch, sizeof m.config.arch, "swin");
    t_says(vt_layers_check(&m, &e), VT_E_UNKNOWN, &e, "swin", "vit");
    snprintf(m.config.arch, sizeof m.config.arch, "xcit");
    t_says(vt_layers_check(&m, &e), VT_E_UNKNOWN, &e, "xcit", "convit");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_affinity), cmocka_unit_test(test_affinity_attained), cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_radius),   cmocka_unit_test(test_merged_norm),       cmocka_unit_test(test_hooks),
        cmocka_unit_test(test_refusal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
