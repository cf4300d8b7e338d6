/* SPDX-License-Identifier: MIT */
#include "research/analysis/tsne.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "parallel/threads.h"

/* Sums over points go through LANES lanes, added up in order: the compiler may vectorise them without the licence of
 * -ffast-math, and every machine adds alike. Threads share out blocks of ROWS rows; what is summed over rows is summed
 * in their order afterwards. */
enum { LANES = 8, ROWS = 16 };
typedef double lanes __attribute__((vector_size(LANES * sizeof(double))));

/* LANES doubles from p, of any alignment. */
static inline lanes load_vector(const double *p) {
    lanes v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* The lanes' sum, in their order. */
static inline double sum_vector(lanes v) {
    double s = 0;
    for (int l = 0; l < LANES; l++) s += v[l];
    return s;
}

/* A pass over all rows, each on one thread. */
typedef struct pass {
    void (*row)(struct pass *s, size_t i);
    size_t n, d;
    const double *x, *p, *y; /* [n, d], [n, n], [2, n] */
    double factor, perplexity;
    double *out, *g, *work; /* [n, n], [2, n], [3, n] */
    bool *apart;            /* [n] */
} pass;

/* Work item of vt_for_each: calls s->row for ROWS rows. */
static vt_status process_row_block(void *ctx, int thread, size_t item, vt_err *e) {
    pass *s = ctx;
    (void)thread, (void)e;
    for (size_t i = item * ROWS; i < (item + 1) * ROWS && i < s->n; i++) s->row(s, i);
    return VT_OK;
}

/* Calls s->row for all n rows, on `threads` threads; it cannot fail. */
static void over_rows(pass *s, int threads) {
    vt_for_each((s->n + ROWS - 1) / ROWS, threads, process_row_block, s, NULL);
}

/* The sum of n numbers in index order. */
static double sum_in_order(const double *of_row, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++) s += of_row[i];
    return s;
}

/* |a - b|^2 of two rows of d numbers, from differences, not from a product: an attacked copy lies near its image. */
static double squared_distance(const double *a, const double *b, size_t d) {
    lanes sum = {0};
    size_t k = 0;
    for (; k + LANES <= d; k += LANES) {
        lanes t = load_vector(a + k) - load_vector(b + k);
        sum += t * t;
    }
    double s = sum_vector(sum);
    for (; k < d; k++) s += (a[k] - b[k]) * (a[k] - b[k]);
    return s;
}

/* Perplexity at sharpness b of row i, p [n] squared distances less their least; *sum: of exp(-b p_j), j != i. */
static double perplexity_at(double *sum, double b, const double *p, size_t n, size_t i) {
    double s = 0, t = 0;
    for (size_t j = 0; j < n; j++) {
        double w = j == i ? 0 : exp(-b * p[j]);
        s += w, t += p[j] * w;
    }
    *sum = s;
    return exp(log(s) + b * t / s); /* of the entropy sum_j w_j / s (log s + b p_j) */
}

/* Turns row i's squared distances p [n] into p_j|i by bisection on the sharpness, to 1e-9 of the perplexity. False:
 * not reached; p is the nearest found. */
static bool fit_to_perplexity(double *p, size_t n, size_t i, double perplexity) {
    double least = INFINITY, mean = 0, low = 0, high = INFINITY, sum = 1;
    for (size_t j = 0; j < n; j++)
        if (j != i && p[j] < least) least = p[j];
    for (size_t j = 0; j < n; j++) p[j] = j == i ? 0 : p[j] - least, mean += p[j] / (double)n;
    double b = mean > 0 ? 1 / mean : 1;
    bool found = false;
    for (int step = 0; step < 200 && !found && isfinite(b); step++) {
        double at = perplexity_at(&sum, b, p, n, i);
        found = fabs(at - perplexity) <= 1e-9 * perplexity;
        if (found) break;
        if (at > perplexity)
            low = b;
        else
            high = b;
        b = isfinite(high) ? (low + high) / 2 : 2 * low;
    }
    if (!found) b = isfinite(b) ? b : low, perplexity_at(&sum, b, p, n, i);
    for (size_t j = 0; j < n; j++) p[j] = j == i ? 0 : exp(-b * p[j]) / sum;
    return found;
}

/* Row function: sets row i of out to p_j|i by the distances to all points, and apart[i]: its perplexity was missed. */
static void conditional_row(pass *s, size_t i) {
    double *p = s->out + i * s->n;
    for (size_t j = 0; j < s->n; j++) p[j] = squared_distance(s->x + i * s->d, s->x + j * s->d, s->d);
    s->apart[i] = !fit_to_perplexity(p, s->n, i, s->perplexity);
}

vt_status vt_tsne_conditional(double *p, size_t *apart, const double *x, size_t n, size_t d, double perplexity,
                              int threads, vt_err *e) {
    pass s = {.row = conditional_row, .n = n, .d = d, .x = x, .out = p, .perplexity = perplexity};
    if (!(perplexity < (double)n - 1))
        return vt_fail(e, VT_E_RANGE, "perplexity %g of %zu points; it must be below %g", perplexity, n, (double)n - 1);
    if (!(s.apart = calloc(n, sizeof *s.apart))) return vt_fail(e, VT_E_MEMORY, "no memory for %zu points", n);
    over_rows(&s, threads);
    *apart = 0;
    for (size_t i = 0; i < n; i++) *apart += s.apart[i];
    free(s.apart);
    return VT_OK;
}

void vt_tsne_joint(double *p, size_t n) {
    double scale = 0.5 / (double)n;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++) p[i * n + j] = p[j * n + i] = (p[i * n + j] + p[j * n + i]) * scale;
}

/* What LANES points j do to point i: q = 1 / (1 + |y_i - y_j|^2), pulls p q (y_i - y_j), pushes q^2 (y_i - y_j). */
typedef struct forces {
    lanes q, pull[2], push[2];
} forces;

/* Adds the forces of LANES points at differences (u, v) with similarities p. */
static inline void add_forces(forces *f, lanes p, lanes u, lanes v) {
    lanes q = 1 / (1 + u * u + v * v), pq = p * q, qq = q * q;
    f->q += q;
    f->pull[0] += pq * u, f->pull[1] += pq * v;
    f->push[0] += qq * u, f->push[1] += qq * v;
}

/* g_i = 4 sum_j (factor p_ij - q_ij / Z) q_ij (y_i - y_j), Z the sum of all q_ij, which is not known yet: stores the
 * pull in g, row i's part of Z and the push in work. */
static void forces_row(pass *s, size_t i) {
    size_t n = s->n, j = 0;
    const double *p = s->p + i * n, *y0 = s->y, *y1 = s->y + n;
    forces f = {0};
    for (; j + LANES <= n; j += LANES)
        add_forces(&f, load_vector(p + j), y0[i] - load_vector(y0 + j), y1[i] - load_vector(y1 + j));
    /* the rest; an empty lane is the point itself, whose q is 1 and which moves nothing */
    double rest[3][LANES] = {{0}};
    size_t empty = (LANES - n % LANES) % LANES;
    for (int l = 0; j < n; j++, l++) rest[0][l] = p[j], rest[1][l] = y0[i] - y0[j], rest[2][l] = y1[i] - y1[j];
    if (empty) add_forces(&f, load_vector(rest[0]), load_vector(rest[1]), load_vector(rest[2]));
    s->work[i] = sum_vector(f.q) - (double)(1 + empty);
    s->g[i] = 4 * s->factor * sum_vector(f.pull[0]), s->g[n + i] = 4 * s->factor * sum_vector(f.pull[1]);
    s->work[n + i] = 4 * sum_vector(f.push[0]), s->work[2 * n + i] = 4 * sum_vector(f.push[1]);
}

void vt_tsne_gradient(double *g, const double *p, const double *y, size_t n, double factor, int threads, double *work) {
    pass s = {.row = forces_row, .n = n, .p = p, .y = y, .factor = factor, .g = g, .work = work};
    over_rows(&s, threads);
    double z = sum_in_order(work, n);
    for (size_t i = 0; i < 2 * n; i++) g[i] -= work[n + i] / z;
}

/* work [3, n] of row i: its part of Z, sum_j p_ij log(p_ij (1 + |y_i - y_j|^2)), and sum_j p_ij. */
static void kl_row(pass *s, size_t i) {
    size_t n = s->n;
    double z = 0, sum = 0, mass = 0;
    for (size_t j = 0; j < n; j++) {
        double u = s->y[i] - s->y[j], v = s->y[n + i] - s->y[n + j], near = 1 + u * u + v * v, p = s->p[i * n + j];
        if (j != i) z += 1 / near;
        if (p > 0) sum += p * log(p * near), mass += p;
    }
    s->work[i] = z, s->work[n + i] = sum, s->work[2 * n + i] = mass;
}

double vt_tsne_kl(const double *p, const double *y, size_t n, int threads, double *work) {
    pass s = {.row = kl_row, .n = n, .p = p, .y = y, .work = work};
    over_rows(&s, threads);
    return sum_in_order(work + n, n) + sum_in_order(work + 2 * n, n) * log(sum_in_order(work, n));
}

/* ---- descent ---- */

typedef struct descent {
    size_t n;
    double *p, *g, *move, *gain, *work; /* [n, n], [2, n] each, [3, n] */
} descent;

/* Takes the arrays for n points from r; an arena without base only counts the bytes. */
static void lay_out_buffers(descent *s, vt_arena *r) {
    size_t n = s->n, square;
    if (!vt_mul(n, n, &square)) square = SIZE_MAX; /* no memory has room for it */
    s->p = vt_arena_take(r, square, sizeof *s->p);
    s->g = vt_arena_take(r, 2 * n, sizeof *s->g);
    s->move = vt_arena_take(r, 2 * n, sizeof *s->move);
    s->gain = vt_arena_take(r, 2 * n, sizeof *s->gain);
    s->work = vt_arena_take(r, 3 * n, sizeof *s->work);
}

size_t vt_tsne_bytes(size_t n) {
    descent s = {.n = n};
    vt_arena r = {0};
    lay_out_buffers(&s, &r);
    return r.used;
}

/* One step of y [2, n] along -g. Gains (Jacobs 1988): + 0.2 if g opposes the last move, else x 0.8, >= 0.01. */
static void move_points(descent *s, double *y, double rate, double momentum) {
    for (size_t i = 0; i < 2 * s->n; i++) {
        double gain = s->move[i] * s->g[i] < 0 ? s->gain[i] + 0.2 : s->gain[i] * 0.8;
        s->gain[i] = gain < 0.01 ? 0.01 : gain;
        s->move[i] = momentum * s->move[i] - rate * s->gain[i] * s->g[i];
        y[i] += s->move[i];
    }
}

/* Takes all steps of y: VT_TSNE_EARLY with exaggeration and momentum 0.5, then 0.8. VT_E_NUMERIC if y diverges,
 * VT_INTERRUPTED. */
static vt_status run_descent(descent *s, double *y, double rate, const vt_tsne *o, vt_err *e) {
    size_t n = s->n;
    for (int k = 0; k < o->steps; k++) {
        bool early = k < VT_TSNE_EARLY;
        VT_TRY(vt_check_interrupt(o->interrupt, "an analysis", e));
        if (k == 0 || k == VT_TSNE_EARLY) /* gains and speed begin anew with the objective */
            for (size_t i = 0; i < 2 * n; i++) s->move[i] = 0, s->gain[i] = 1;
        vt_tsne_gradient(s->g, s->p, y, n, early ? o->exaggeration : 1, o->threads, s->work);
        move_points(s, y, rate, early ? 0.5 : 0.8);
        if (!isfinite(y[0]))
            return vt_fail(e, VT_E_NUMERIC, "t-SNE diverged at step %d, with learning rate %g", k + 1, rate);
        if (o->progress) vt_progress_step(o->progress, (size_t)k + 1, NULL);
    }
    return VT_OK;
}

/* vt_tsne_run with its arrays: similarities, descent, then the divergence and its gradient at the end. */
static vt_status embed(descent *s, double *y, vt_tsne_result *r, const double *x, size_t d, const vt_tsne *o,
                       vt_err *e) {
    size_t n = s->n;
    double automatic = (double)n / o->exaggeration / 4;
    r->rate = o->rate > 0 ? o->rate : automatic > 50 ? automatic : 50;
    VT_TRY(vt_tsne_conditional(s->p, &r->apart, x, n, d, o->perplexity, o->threads, e));
    vt_tsne_joint(s->p, n);
    VT_TRY(run_descent(s, y, r->rate, o, e));
    vt_tsne_gradient(s->g, s->p, y, n, 1, o->threads, s->work);
    r->gradient = 0;
    for (size_t i = 0; i < 2 * n; i++) r->gradient = fmax(r->gradient, fabs(s->g[i]));
    r->kl = vt_tsne_kl(s->p, y, n, o->threads, s->work);
    return VT_OK;
}

vt_status vt_tsne_run(double *y, vt_tsne_result *r, const double *x, size_t n, size_t d, const vt_tsne *o, vt_err *e) {
    descent s = {.n = n};
    vt_arena a = {0};
    *r = (vt_tsne_result){0};
    lay_out_buffers(&s, &a);
    a = (vt_arena){.base = vt_alloc(a.used), .size = a.used};
    if (!a.base) return vt_fail(e, VT_E_MEMORY, "no memory for the %zu x %zu similarities of t-SNE", n, n);
    lay_out_buffers(&s, &a);
    vt_status st = embed(&s, y, r, x, d, o, e);
    free(a.base);
    return st;
}
