/* SPDX-License-Identifier: MIT */
/* What the unit tests share: cmocka, judgements in which NaN fails, seeded numbers, buffers with guard words
 * and frozen inputs, central differences. Numbers are double unless a function says otherwise. */
#ifndef T_H
#define T_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/rand.h"
#include "base/status.h"

#define T_COUNT(a) (sizeof(a) / sizeof *(a))

/* err <= tol, so that NaN fails. */
#define t_le(err, tol, ...) t_le_at(__FILE__, __LINE__, err, tol, __VA_ARGS__)
__attribute__((format(printf, 5, 6))) static inline void t_le_at(const char *file, int line, double err, double tol,
                                                                 const char *format, ...) {
    if (err <= tol) return;
    char what[300];
    va_list ap;
    va_start(ap, format);
    vsnprintf(what, sizeof what, format, ap);
    va_end(ap);
    print_error("%s:%d: %s: error %.3g, must be at most %.3g\n", file, line, what, err, tol);
    _fail(file, line);
}

/* The call failed with this status and one line that holds both texts. */
static inline void t_says(vt_status got, vt_status want, vt_err *e, const char *a, const char *b) {
    if (got != want) fail_msg("status %d (%s) instead of %d: %s", got, vt_status_name(got), want, e->text);
    assert_int_equal(e->code, want);
    if (!strstr(e->text, a)) fail_msg("'%s' does not mention '%s'", e->text, a);
    if (!strstr(e->text, b)) fail_msg("'%s' does not mention '%s'", e->text, b);
    assert_null(strchr(e->text, '\n'));
    *e = (vt_err){0};
}

/* ---- numbers ---- */

/* scale times standard normals; the seed is the test's own number. */
static inline void t_normals(double *out, size_t n, uint64_t seed, double scale) {
    float *f = malloc((n + 1) * sizeof *f);
    assert_non_null(f);
    vt_rng_normals(&(vt_rng){.seed = seed, .purpose = 0x7E57}, f, n);
    for (size_t i = 0; i < n; i++) out[i] = scale * (double)f[i];
    free(f);
}

static inline double t_norm(const double *a, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++) s += a[i] * a[i];
    return sqrt(s);
}

static inline double t_dot(const double *a, const double *b, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++) s += a[i] * b[i];
    return s;
}

static inline double t_max(const double *a, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++)
        if (!(fabs(a[i]) <= s)) s = fabs(a[i]);
    return s;
}

/* Largest difference, infinite when any is NaN. */
static inline double t_max_diff(const double *a, const double *b, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs(a[i] - b[i]);
        if (!(d <= 1e300)) return INFINITY;
        if (d > s) s = d;
    }
    return s;
}

/* |a - ref| / |ref| */
static inline double t_rel(const double *a, const double *ref, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++) s += (a[i] - ref[i]) * (a[i] - ref[i]);
    return sqrt(s) / t_norm(ref, n);
}

/* ---- buffers: 64 guard bytes on either side, and copies of what must not change ---- */

enum { T_GUARD = 64, T_MAX_BUFFERS = 64 };

typedef struct t_buffer {
    unsigned char *block, *frozen;
    size_t bytes;
} t_buffer;

static t_buffer t_buffers[T_MAX_BUFFERS];
static int t_n_buffers;

static inline void *t_take(size_t bytes) {
    assert_true(t_n_buffers < T_MAX_BUFFERS);
    t_buffer *b = &t_buffers[t_n_buffers++];
    *b = (t_buffer){.block = aligned_alloc(64, (bytes + 2 * T_GUARD + 63) / 64 * 64), .bytes = bytes};
    assert_non_null(b->block);
    memset(b->block, 0xA5, bytes + 2 * T_GUARD);
    return b->block + T_GUARD;
}

/* A buffer of n doubles: scale times normals (scale 0: a pattern that must be overwritten). */
static inline double *t_doubles(size_t n, uint64_t seed, double scale) {
    double *p = t_take(n * sizeof *p);
    if (scale > 0) t_normals(p, n, seed, scale);
    return p;
}

/* From here on t_check expects these bytes (calling again moves the mark). */
static inline void t_freeze(const void *p) {
    for (int i = 0; i < t_n_buffers; i++) {
        t_buffer *b = &t_buffers[i];
        if (b->block + T_GUARD != (const unsigned char *)p) continue;
        if (!b->frozen) b->frozen = malloc(b->bytes + 1);
        assert_non_null(b->frozen);
        memcpy(b->frozen, p, b->bytes);
        return;
    }
    fail_msg("t_freeze: not a buffer of t_take");
}

/* No guard byte and no frozen buffer changed. */
static inline void t_check(const char *what) {
    for (int i = 0; i < t_n_buffers; i++) {
        const t_buffer *b = &t_buffers[i];
        for (size_t k = 0; k < T_GUARD; k++)
            if (b->block[k] != 0xA5 || b->block[T_GUARD + b->bytes + k] != 0xA5)
                fail_msg("%s: wrote outside buffer %d (%zu bytes), guard byte %zu", what, i, b->bytes, k);
        if (b->frozen && memcmp(b->frozen, b->block + T_GUARD, b->bytes))
            fail_msg("%s: changed its input, buffer %d", what, i);
    }
}

static inline void t_release(const char *what) {
    t_check(what);
    while (t_n_buffers > 0) {
        t_buffer *b = &t_buffers[--t_n_buffers];
        free(b->block);
        free(b->frozen);
    }
}

/* Teardown of every test that uses buffers: a failed one leaves its own behind. */
static inline int t_drop(void **state) {
    (void)state;
    while (t_n_buffers > 0) {
        t_buffer *b = &t_buffers[--t_n_buffers];
        free(b->block);
        free(b->frozen);
    }
    return 0;
}

/* ---- central differences ---- */

/* Gradients in double, step 1e-5, relative L2 over a tensor: truncation is h^2 |f'''| / 6 ~ 2e-11 |f'''| and
 * rounding 2^-53 |f| / h ~ 1e-11 |f|, both relative to |f'|, so that correct code stays near 1e-9 and 1e-7
 * leaves room for sharp functions. A term that is off by 0.01 % shows as 1e-5 to 1e-4. */
#define T_GRAD_TOL 1e-7
#define T_GRAD_STEP 1e-5

/* g [n] is the gradient of f(ctx) by p [n], which f reads. */
static inline void t_grad(double (*f)(void *), void *ctx, double *p, size_t n, const double *g, const char *what) {
    double *num = malloc(n * sizeof *num);
    assert_non_null(num);
    for (size_t i = 0; i < n; i++) {
        double at = p[i], up, down;
        p[i] = at + T_GRAD_STEP, up = f(ctx);
        p[i] = at - T_GRAD_STEP, down = f(ctx);
        p[i] = at;
        num[i] = (up - down) / ((at + T_GRAD_STEP) - (at - T_GRAD_STEP));
    }
    double norm = t_norm(num, n), err = t_rel(g, num, n);
    free(num);
    if (!(norm > 0)) fail_msg("%s: the numeric gradient is zero, the check would be empty", what);
    t_le(err, T_GRAD_TOL, "%s", what);
}

#endif
