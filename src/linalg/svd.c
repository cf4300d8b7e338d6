/* SPDX-License-Identifier: MIT */
#include "linalg/svd.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "linalg/gemm.h"
#include "base/mem.h"

/* Divide and conquer (Gu and Eisenstat 1995). LAPACK's Fortran symbols are part of libopenblas, its C interface is not.
 * Column-major; gfortran appends the length of every text. */
extern void dgesdd_(const char *jobz, const int *m, const int *n, double *a, const int *lda, double *s, double *u,
                    const int *ldu, double *vt, const int *ldvt, double *work, const int *lwork, int *iwork, int *info,
                    size_t jobz_len);
/* Divide and conquer again: symmetric, and symmetric tridiagonal. */
extern void dsyevd_(const char *jobz, const char *uplo, const int *n, double *a, const int *lda, double *w,
                    double *work, const int *lwork, int *iwork, const int *liwork, int *info, size_t jobz_len,
                    size_t uplo_len);
extern void dstevd_(const char *jobz, const int *n, double *d, double *e, double *z, const int *ldz, double *work,
                    const int *lwork, int *iwork, const int *liwork, int *info, size_t jobz_len);

/* Cholesky's factors, and a system with them. */
extern void dposv_(const char *uplo, const int *n, const int *nrhs, double *a, const int *lda, double *b,
                   const int *ldb, int *info, size_t uplo_len);

/* Row-major A [rows, cols] is LAPACK's A^T [m = cols, n = rows], so A = U S V^T arrives as A^T = V S U^T. */
typedef struct plan {
    const char *jobz; /* "N": values alone, "S": the vectors of all of them too */
    int m, n, k;      /* k = min(m, n) */
    int lwork;
    double *a, *s, *v, *ut, *work; /* [n][m], [k], v column-major [m, k], u^T column-major [k, n], [lwork] */
    int *iwork;                    /* [8 k] */
} plan;

/* Calls LAPACK's dgesdd with the plan; returns its info: 0 on success. */
static int call_dgesdd(plan *p) {
    int info = 0;
    dgesdd_(p->jobz, &p->m, &p->n, p->a, &p->m, p->s, p->v, &p->m, p->ut, &p->k, p->work, &p->lwork, p->iwork, &info,
            1);
    return info;
}

/* VT_E_SHAPE unless the matrix has rows and columns, VT_E_NUMERIC unless all its numbers are finite; reserves memory
 * for the products inside LAPACK. */
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
    return vt_blas_reserve(1, e);
}

/* Sets p->lwork to the workspace that LAPACK needs, and p's pointers to nothing of use; VT_E_RANGE: above 32-bit
 * sizes. */
static vt_status query_workspace(plan *p, vt_err *e) {
    double wanted = 0, none = 0;
    int unused = 0;
    p->lwork = -1, p->a = p->s = p->v = p->ut = &none, p->work = &wanted, p->iwork = &unused;
    if (call_dgesdd(p) != 0 || !(wanted >= 1 && wanted < INT_MAX))
        return vt_fail(e, VT_E_RANGE, "a %d x %d matrix is too large for LAPACK's 32-bit sizes", p->n, p->m);
    p->lwork = (int)wanted + 1;
    return VT_OK;
}

/* Computes A's singular values into p->s, with jobz "S" vectors into p->v and ut; p->a is to be freed also after a
 * failure. VT_E_NUMERIC: no convergence. */
static vt_status run(plan *p, const char *jobz, const double *a, int rows, int cols, int ld, vt_err *e) {
    *p = (plan){.jobz = jobz, .m = cols, .n = rows, .k = rows < cols ? rows : cols};
    VT_TRY(check(a, rows, cols, ld, e));
    vt_status s = query_workspace(p, e);
    p->a = NULL;
    VT_TRY(s);
    size_t m = (size_t)cols, n = (size_t)rows, k = (size_t)p->k, vectors = *jobz == 'S' ? k : 0; /* less than A's own */
    size_t doubles = m * n + k + (m + n) * vectors + (size_t)p->lwork;
    p->a = vt_alloc(doubles * sizeof *p->a + 8 * k * sizeof *p->iwork);
    if (!p->a) return vt_fail(e, VT_E_MEMORY, "no memory for the singular values of a %d x %d matrix", rows, cols);
    p->s = p->a + m * n, p->v = p->s + k, p->ut = p->v + m * vectors, p->work = p->ut + n * vectors;
    p->iwork = (int *)(void *)(p->a + doubles);
    for (int i = 0; i < rows; i++) memcpy(p->a + (size_t)i * m, a + (size_t)i * (size_t)ld, m * sizeof *a);
    if (call_dgesdd(p) != 0)
        return vt_fail(e, VT_E_NUMERIC, "the singular values of a %d x %d matrix did not converge", rows, cols);
    return VT_OK;
}

vt_status vt_svd_values(double *sigma, const double *a, int rows, int cols, int ld, vt_err *e) {
    plan p;
    vt_status s = run(&p, "N", a, rows, cols, ld, e);
    if (s == VT_OK) memcpy(sigma, p.s, (size_t)p.k * sizeof *sigma);
    free(p.a);
    return s;
}

vt_status vt_svd_largest(double *sigma, double *u, double *v, const double *a, int rows, int cols, int ld, vt_err *e) {
    plan p;
    vt_status s = run(&p, "S", a, rows, cols, ld, e);
    if (s == VT_OK) {
        *sigma = p.s[0];
        for (int i = 0; i < rows; i++) u[i] = p.ut[(size_t)i * (size_t)p.k]; /* first row of U^T */
        memcpy(v, p.v, (size_t)cols * sizeof *v);                            /* first column of V */
    }
    free(p.a);
    return s;
}

/* ---- symmetric eigenvalues ---- */

/* The workspace of dsyevd and dstevd, from their manual pages, for n >= 1 and all vectors. */
typedef struct eigen {
    int n, lwork, liwork;
    double *a, *d, *b, *work; /* [n][n], [n], [n], [1 + 6 n + 2 n^2]; a is the block, to be freed (close_eigen) */
    int *iwork;               /* [3 + 5 n] */
} eigen;

/* Allocates the workspace for an n x n matrix; VT_E_RANGE unless n is 1 to MOST, with nothing to free. */
static vt_status open_eigen(eigen *p, int n, vt_err *e) {
    enum { MOST = 20000 }; /* 2 n^2 must fit LAPACK's 32-bit sizes; this is 3 GB of matrix */
    if (n < 1 || n > MOST)
        return vt_fail(e, VT_E_RANGE, "eigenvalues of a %d x %d matrix; the side must be 1 to %d", n, n, MOST);
    *p = (eigen){.n = n, .lwork = 1 + 6 * n + 2 * n * n, .liwork = 3 + 5 * n};
    size_t side = (size_t)n, doubles = side * side + 2 * side + (size_t)p->lwork;
    p->a = vt_alloc(doubles * sizeof *p->a + (size_t)p->liwork * sizeof *p->iwork);
    if (!p->a) return vt_fail(e, VT_E_MEMORY, "no memory for the eigenvalues of a %d x %d matrix", n, n);
    p->d = p->a + side * side, p->b = p->d + side, p->work = p->b + side, p->iwork = (int *)(void *)(p->a + doubles);
    return VT_OK;
}

/* Frees the workspace, and copies the results out unless LAPACK's info says no convergence (VT_E_NUMERIC). LAPACK's
 * values rise; its vectors, columns there, are rows here. */
static vt_status close_eigen(eigen *p, int info, double *values, double *vectors, vt_err *e) {
    size_t n = (size_t)p->n;
    for (size_t i = 0; i < n && info == 0; i++) {
        values[i] = p->d[n - 1 - i];
        if (vectors) memcpy(vectors + i * n, p->a + (n - 1 - i) * n, n * sizeof *vectors);
    }
    free(p->a);
    if (info == 0) return VT_OK;
    return vt_fail(e, VT_E_NUMERIC, "the eigenvalues of a %d x %d matrix did not converge", (int)n, (int)n);
}

vt_status vt_eigen_symmetric(double *values, double *vectors, const double *a, int n, vt_err *e) {
    eigen p;
    int info = 0;
    if (n > 0) VT_TRY(check(a, n, n, n, e));
    VT_TRY(open_eigen(&p, n, e));
    memcpy(p.a, a, (size_t)n * (size_t)n * sizeof *a);
    /* the row-major lower triangle is the column-major upper one */
    dsyevd_(vectors ? "V" : "N", "U", &p.n, p.a, &p.n, p.d, p.work, &p.lwork, p.iwork, &p.liwork, &info, 1, 1);
    return close_eigen(&p, info, values, vectors, e);
}

vt_status vt_eigen_tridiagonal(double *values, double *vectors, const double *diagonal, const double *beside, int n,
                               vt_err *e) {
    eigen p;
    int info = 0;
    if (n > 0) VT_TRY(check(diagonal, 1, n, n, e));
    if (n > 1) VT_TRY(check(beside, 1, n - 1, n - 1, e));
    VT_TRY(open_eigen(&p, n, e));
    memcpy(p.d, diagonal, (size_t)n * sizeof *diagonal);
    if (n > 1) memcpy(p.b, beside, (size_t)(n - 1) * sizeof *beside);
    dstevd_(vectors ? "V" : "N", &p.n, p.d, p.b, p.a, &p.n, p.work, &p.lwork, p.iwork, &p.liwork, &info, 1);
    return close_eigen(&p, info, values, vectors, e);
}

/* ---- symmetric positive definite systems ---- */

vt_status vt_solve_positive(double *x, double *a, int n, vt_err *e) {
    int info = 0, one = 1;
    if (n > 0) VT_TRY(check(a, n, n, n, e));
    if (n > 0) VT_TRY(check(x, 1, n, n, e));
    if (n > 0) dposv_("U", &n, &one, a, &n, x, &n, &info, 1); /* the row-major lower triangle again */
    if (n > 0 && info == 0) return VT_OK;
    return vt_fail(e, VT_E_NUMERIC, "a %d x %d matrix is not positive definite", n, n);
}
