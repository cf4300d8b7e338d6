/* SPDX-License-Identifier: MIT */
#include "research/numeric/lanczos.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "linalg/svd.h"

double vt_dot(const double *a, const double *b, size_t n) {
    double s[8] = {0}; /* eight sums: the loop vectorises, and the order is fixed */
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (size_t j = 0; j < 8; j++) s[j] += a[i + j] * b[i + j];
    for (; i < n; i++) s[0] += a[i] * b[i];
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

double vt_norm2(const double *a, size_t n) { return sqrt(vt_dot(a, a, n)); }

/* y += c x, both [n]. */
static void add_scaled(double *y, double c, const double *x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] += c * x[i];
}

/* Removes from x the parts along the m orthonormal rows of V [m, n], one by one, twice: x -= V^T (V x). */
static void project_out(double *x, const double *v, int m, size_t n) {
    for (int pass = 0; pass < 2; pass++) /* twice is enough (Parlett, after Kahan) */
        for (int j = 0; j < m; j++) add_scaled(x, -vt_dot(v + (size_t)j * n, x, n), v + (size_t)j * n, n);
}

typedef struct run {
    const vt_symmetric *a;
    const vt_lanczos *p;
    int most, m;          /* products allowed, basis vectors so far */
    double *v;            /* [most][n] */
    double *w;            /* [n] */
    double *alpha, *beta; /* [most]: beta[j] couples vectors j and j + 1 */
    double *theta, *s;    /* [most], [most][most]: Ritz values, largest first, and their vectors in the basis */
    double scale;         /* largest |theta| */
} run;

/* Products allowed: p->most, or 4 k + 100 if that is 0; at most n. */
static int max_products(size_t n, const vt_lanczos *p) {
    size_t most = p->most ? (size_t)p->most : 4 * (size_t)p->k + 100;
    return (int)(most < n ? most : n);
}

/* Takes the basis and the tridiagonal's arrays; an arena without base only counts the bytes. */
static void allocate_from_arena(run *r, size_t n, vt_arena *arena) {
    size_t m = (size_t)r->most;
    r->v = vt_arena_take(arena, m * n, sizeof *r->v);
    r->w = vt_arena_take(arena, n, sizeof *r->w);
    r->alpha = vt_arena_take(arena, m, sizeof *r->alpha);
    r->beta = vt_arena_take(arena, m, sizeof *r->beta);
    r->theta = vt_arena_take(arena, m, sizeof *r->theta);
    r->s = vt_arena_take(arena, m * m, sizeof *r->s);
}

size_t vt_lanczos_bytes(size_t n, const vt_lanczos *p) {
    run r = {.most = max_products(n, p)};
    vt_arena arena = {0};
    allocate_from_arena(&r, n, &arena);
    return arena.used;
}

/* Sets r->w to a unit vector of normals, keyed by (seed, m), at right angles to the basis: the start, and the way on
 * when the Krylov space is exhausted, which is how a multiple eigenvalue shows. False: the basis is complete. */
static bool draw_orthogonal_vector(run *r) {
    size_t n = r->a->n;
    vt_rng key = {.seed = r->p->seed, .purpose = vt_rng_purpose("lanczos"), .step = (uint32_t)r->m};
    for (size_t i = 0; i < n; i += 256) {
        float z[256];
        size_t k = n - i < 256 ? n - i : 256;
        key.image = (uint32_t)(i / 256);
        vt_rng_normals(&key, z, k);
        for (size_t j = 0; j < k; j++) r->w[i + j] = (double)z[j];
    }
    double before = vt_norm2(r->w, n);
    project_out(r->w, r->v, r->m, n);
    double after = vt_norm2(r->w, n);
    if (!(after > 1e-10 * before)) return false;
    for (size_t i = 0; i < n; i++) r->w[i] /= after;
    return true;
}

/* |A v - theta v| of Ritz pair i = |beta_m times the last entry of its vector|. */
static double ritz_residual(const run *r, int i) {
    return fabs(r->beta[r->m - 1] * r->s[(size_t)i * (size_t)r->m + (size_t)r->m - 1]);
}

/* How many of the first k Ritz values, from the largest on, have a residual of at most tol * scale. */
static int count_converged(const run *r) {
    int i = 0;
    while (i < r->p->k && i < r->m && ritz_residual(r, i) <= r->p->tol * r->scale) i++;
    return i;
}

/* Appends r->w to the basis by one product: sets alpha of the new vector, w to the next unit vector, beta to its length
 * before (0: the space is invariant), and adds 1 to m. VT_E_NUMERIC if the product is not finite. */
static vt_status extend_basis(run *r, vt_err *e) {
    size_t n = r->a->n;
    double *v = r->v + (size_t)r->m * n;
    memcpy(v, r->w, n * sizeof *v);
    VT_TRY(r->a->apply(r->a->ctx, v, r->w, e));
    double alpha = vt_dot(v, r->w, n), size = vt_norm2(r->w, n);
    if (!isfinite(size))
        return vt_fail(e, VT_E_NUMERIC, "product %d of the operator [%zu x %zu] is not finite", r->m + 1, n, n);
    r->alpha[r->m++] = alpha;
    project_out(r->w, r->v, r->m, n);
    double beta = vt_norm2(r->w, n);
    /* what is left after cancellation this deep is rounding: the space is invariant */
    if (beta <= 64 * 0x1p-53 * size * sqrt((double)n)) beta = 0;
    r->beta[r->m - 1] = beta;
    for (size_t i = 0; i < n && beta > 0; i++) r->w[i] /= beta;
    return VT_OK;
}

/* Extends the basis until all k have converged and no invariant space hides another copy of one, or the products are
 * spent; sets theta, s and scale. Fails as a product does. */
static vt_status iterate_until_converged(run *r, vt_err *e) {
    if (!draw_orthogonal_vector(r)) return VT_OK;
    for (;;) {
        VT_TRY(extend_basis(r, e));
        bool full = r->m == r->most, closed = r->beta[r->m - 1] == 0;
        /* a decomposition costs m^2 to m^3: not at every step */
        if (full || closed || (r->m >= r->p->k && r->m % 10 == 0)) {
            VT_TRY(vt_eigen_tridiagonal(r->theta, r->s, r->alpha, r->m > 1 ? r->beta : NULL, r->m, e));
            r->scale = fmax(fabs(r->theta[0]), fabs(r->theta[r->m - 1]));
            if (full || (!closed && count_converged(r) == r->p->k)) return VT_OK;
            if (closed && !draw_orthogonal_vector(r)) return VT_OK;
        }
    }
}

/* out [have, n]: the first Ritz vectors, s's rows times the basis. */
static void compute_ritz_vectors(const run *r, int have, double *out) {
    size_t n = r->a->n;
    for (int i = 0; i < have; i++) {
        double *x = out + (size_t)i * n;
        memset(x, 0, n * sizeof *x);
        for (int j = 0; j < r->m; j++)
            add_scaled(x, r->s[(size_t)i * (size_t)r->m + (size_t)j], r->v + (size_t)j * n, n);
    }
}

/* VT_E_RANGE unless 1 <= k <= n, most is 0 or at least k, and tol > 0. */
static vt_status check(const vt_symmetric *a, const vt_lanczos *p, vt_err *e) {
    if (a->n < 1 || p->k < 1 || (size_t)p->k > a->n)
        return vt_fail(e, VT_E_RANGE, "%d eigenvalues of a %zu x %zu operator; there must be 1 to %zu", p->k, a->n,
                       a->n, a->n);
    if (p->most != 0 && p->most < p->k)
        return vt_fail(e, VT_E_RANGE, "%d eigenvalues from at most %d products; there must be as many products", p->k,
                       p->most);
    if (!(p->tol > 0)) return vt_fail(e, VT_E_RANGE, "tolerance of eigenvalues %g, must be above 0", p->tol);
    return VT_OK;
}

vt_status vt_lanczos_run(vt_lanczos_result *out, const vt_symmetric *a, const vt_lanczos *p, vt_err *e) {
    VT_TRY(check(a, p, e));
    run r = {.a = a, .p = p, .most = max_products(a->n, p)};
    vt_arena arena = {0};
    allocate_from_arena(&r, a->n, &arena);
    arena = (vt_arena){.base = vt_alloc(arena.used), .size = arena.used};
    if (!arena.base) return vt_fail(e, VT_E_MEMORY, "no memory for %d vectors of %zu numbers (Lanczos)", r.most, a->n);
    allocate_from_arena(&r, a->n, &arena);
    vt_status s = iterate_until_converged(&r, e);
    if (s == VT_OK) {
        out->lowest = r.theta[r.m - 1], out->products = r.m, out->converged = count_converged(&r);
        for (int i = 0; i < p->k; i++) out->values[i] = r.theta[i], out->residuals[i] = ritz_residual(&r, i);
        if (out->vectors) compute_ritz_vectors(&r, p->k, out->vectors);
    }
    free(arena.base);
    return s;
}

/* ---- trace ---- */

void vt_random_signs(double *z, size_t n, const vt_rng *key) {
    for (size_t i = 0; i < n; i++) z[i] = vt_rng_bits(key, i / 32) >> (i % 32) & 1 ? 1 : -1;
}

vt_status vt_hutchinson_trace(double *trace, double *error, const vt_symmetric *a, int samples, uint64_t seed,
                              vt_err *e) {
    if (a->n < 1 || samples < 1)
        return vt_fail(e, VT_E_RANGE, "trace of a %zu x %zu operator from %d samples; both must be at least 1", a->n,
                       a->n, samples);
    double *z = vt_alloc(2 * a->n * sizeof *z), sum = 0, squares = 0;
    if (!z) return vt_fail(e, VT_E_MEMORY, "no memory for two vectors of %zu numbers", a->n);
    vt_rng key = {.seed = seed, .purpose = vt_rng_purpose("hutchinson")};
    vt_status s = VT_OK;
    for (int k = 0; k < samples && s == VT_OK; k++) {
        key.step = (uint32_t)k;
        vt_random_signs(z, a->n, &key);
        s = a->apply(a->ctx, z, z + a->n, e);
        double x = vt_dot(z, z + a->n, a->n), mean = k ? sum / k : 0;
        squares += k ? (x - mean) * (x - mean) * k / (k + 1) : 0; /* Welford */
        sum += x;
    }
    free(z);
    if (s != VT_OK) return s;
    if (!isfinite(sum)) return vt_fail(e, VT_E_NUMERIC, "a product of the operator is not finite");
    *trace = sum / samples;
    *error = samples > 1 ? sqrt(squares / (samples - 1) / samples) : NAN;
    return VT_OK;
}

/* ---- relative coordinates ---- */

/* vt_symmetric.apply of vt_relative: y = D A D x, both [n]; fails as A's product does. */
static vt_status apply_relative_operator(void *ctx, const double *x, double *y, vt_err *e) {
    vt_relative *r = ctx;
    for (size_t i = 0; i < r->inner.n; i++) r->scratch[i] = r->d[i] * x[i];
    VT_TRY(r->inner.apply(r->inner.ctx, r->scratch, y, e));
    for (size_t i = 0; i < r->inner.n; i++) y[i] *= r->d[i];
    return VT_OK;
}

vt_symmetric vt_relative_operator(vt_relative *r) { return (vt_symmetric){r->inner.n, apply_relative_operator, r}; }
