#include "core/svd.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/mem.h"

/* Divide and conquer (Gu and Eisenstat 1995). LAPACK's Fortran symbols are part of libopenblas, its C interface is not.
 * Column-major; gfortran appends the length of every text. */
extern void dgesdd_(const char *jobz, const int *m, const int *n, double *a, const int *lda, double *s, double *u,
                    const int *ldu, double *vt, const int *ldvt, double *work, const int *lwork, int *iwork, int *info,
                    size_t jobz_len);

/* Row-major A [rows, cols] is LAPACK's A^T [m = cols, n = rows], so A = U S V^T arrives as A^T = V S U^T. */
typedef struct plan {
    const char *jobz; /* "N": values alone, "S": the vectors of all of them too */
    int m, n, k;      /* k = min(m, n) */
    int lwork;
    double *a, *s, *v, *ut, *work; /* [n][m], [k], v column-major [m, k], u^T column-major [k, n], [lwork] */
    int *iwork;                    /* [8 k] */
} plan;

static int decompose(plan *p) {
    int info = 0;
    dgesdd_(p->jobz, &p->m, &p->n, p->a, &p->m, p->s, p->v, &p->m, p->ut, &p->k, p->work, &p->lwork, p->iwork, &info,
            1);
    return info;
}

static void carve(plan *p, vt_arena *r) {
    size_t m = (size_t)p->m, n = (size_t)p->n, k = (size_t)p->k, vectors = *p->jobz == 'S' ? k : 0;
    p->a = vt_arena_take(r, m * n, sizeof *p->a); /* two ints: no overflow */
    p->s = vt_arena_take(r, k, sizeof *p->s);
    p->v = vt_arena_take(r, m * vectors, sizeof *p->v);
    p->ut = vt_arena_take(r, n * vectors, sizeof *p->ut);
    p->work = vt_arena_take(r, (size_t)p->lwork, sizeof *p->work);
    p->iwork = vt_arena_take(r, 8 * k, sizeof *p->iwork);
}

static vt_status check(const double *a, int rows, int cols, int ld, vt_err *e) {
    if (rows < 1 || cols < 1 || ld < cols)
        return vt_fail(e, VT_E_SHAPE,
                       "a matrix of %d x %d with a row stride of %d has no singular values; all must be at least 1, "
                       "and "
                       "the stride at least the width",
                       rows, cols, ld);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++)
            if (!isfinite(a[(size_t)i * (size_t)ld + (size_t)j]))
                return vt_fail(e, VT_E_NUMERIC, "element [%d,%d] of a %d x %d matrix is %g, must be finite", i, j, rows,
                               cols, a[(size_t)i * (size_t)ld + (size_t)j]);
    return VT_OK;
}

/* Asks LAPACK for the workspace it wants. */
static vt_status ask(plan *p, vt_err *e) {
    double wanted = 0, none = 0;
    int unused = 0;
    p->lwork = -1, p->a = p->s = p->v = p->ut = &none, p->work = &wanted, p->iwork = &unused;
    if (decompose(p) != 0 || !(wanted >= 1 && wanted < INT_MAX))
        return vt_fail(e, VT_E_RANGE, "a %d x %d matrix is too large for LAPACK's 32-bit sizes", p->n, p->m);
    p->lwork = (int)wanted + 1;
    return VT_OK;
}

static vt_status run(plan *p, void **block, const char *jobz, const double *a, int rows, int cols, int ld, vt_err *e) {
    VT_TRY(check(a, rows, cols, ld, e));
    *p = (plan){.jobz = jobz, .m = cols, .n = rows, .k = rows < cols ? rows : cols};
    VT_TRY(ask(p, e));
    vt_arena r = {0};
    carve(p, &r);
    r = (vt_arena){.base = *block = vt_alloc(r.used), .size = r.used};
    if (!r.base) return vt_fail(e, VT_E_MEMORY, "no memory for the singular values of a %d x %d matrix", rows, cols);
    carve(p, &r);
    for (int i = 0; i < rows; i++)
        memcpy(p->a + (size_t)i * (size_t)cols, a + (size_t)i * (size_t)ld, (size_t)cols * sizeof *a);
    if (decompose(p) != 0)
        return vt_fail(e, VT_E_NUMERIC, "the singular values of a %d x %d matrix did not converge", rows, cols);
    return VT_OK;
}

vt_status vt_svd_values(double *sigma, const double *a, int rows, int cols, int ld, vt_err *e) {
    plan p;
    void *block = NULL;
    vt_status s = run(&p, &block, "N", a, rows, cols, ld, e);
    if (s == VT_OK) memcpy(sigma, p.s, (size_t)p.k * sizeof *sigma);
    free(block);
    return s;
}

vt_status vt_svd_largest(double *sigma, double *u, double *v, const double *a, int rows, int cols, int ld, vt_err *e) {
    plan p;
    void *block = NULL;
    vt_status s = run(&p, &block, "S", a, rows, cols, ld, e);
    if (s == VT_OK) {
        *sigma = p.s[0];
        for (int i = 0; i < rows; i++) u[i] = p.ut[(size_t)i * (size_t)p.k]; /* first row of U^T */
        memcpy(v, p.v, (size_t)cols * sizeof *v);                            /* first column of V */
    }
    free(block);
    return s;
}
