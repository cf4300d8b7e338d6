/* SPDX-License-Identifier: MIT */
/* The whole spectrum of W_Q, W_K, W_V, W_O and the MLP (SpecFormer's Fig. 2(a) shows the largest of the first three),
 * by LAPACK; and the largest value once more by the power iteration that a training step can afford. */
#include <math.h>
#include <stdlib.h>
#include "research/analysis/analyze.h"
#include "research/analysis/lines.h"
#include "research/analysis/operator.h"
#include "research/analysis/spectrum.h"
#include "core/gemm.h"
#include "core/mem.h"
#include "core/threads.h"
#include "models/roles.h"

typedef struct params {
    int steps;
} params;

static const vt_opt opts[] = {
    VT_OPT_I("steps", params, steps, "most steps of the power iteration that is compared", 10000, 1, 10000000),
    VT_OPT_END,
};

/* What is measured of a matrix beside its values (analysis/spectrum.h). */
typedef struct piece {
    bool there, converged;
    double power, frobenius;
} piece;

typedef struct job {
    const vt_analyze *a;
    const params *p;
    const vt_model *m;
    vt_spectrum spectrum;
    piece *pieces; /* [blocks][VT_ROLE_COUNT] */
} job;

typedef struct dense {
    const double *a;
    int rows, cols;
} dense;

static void apply(void *ctx, double *y, const double *x) {
    const dense *d = ctx;
    vt_gemm_f64(false, false, d->rows, 1, d->cols, 1, d->a, d->cols, x, 1, 0, y, 1);
}

static void transposed(void *ctx, double *x, const double *y) {
    const dense *d = ctx;
    vt_gemm_f64(true, false, d->cols, 1, d->rows, 1, d->a, d->cols, y, 1, 0, x, 1);
}

static vt_status run_power_iteration(piece *p, const double *a, const vt_matrix *x, const job *j, size_t i, vt_err *e) {
    vt_norm_found f;
    dense d = {a, x->rows, x->cols};
    vt_operator op = {.n = (size_t)x->cols, .m = (size_t)x->rows, .apply = apply, .transposed = transposed, .ctx = &d};
    vt_rng key = {.seed = j->a->seed, .purpose = vt_rng_purpose("analyze spectrum"), .image = (uint32_t)i};
    VT_TRY(vt_operator_norm(&f, &op, &key, j->p->steps, 1e-9, e));
    *p = (piece){true, f.converged, f.sigma, vt_length64(a, (size_t)x->rows * (size_t)x->cols)};
    return VT_OK;
}

static vt_status measure_matrix(void *ctx, int thread, size_t i, vt_err *e) {
    job *j = ctx;
    vt_matrix x;
    (void)thread;
    int role = (int)(i % VT_ROLE_COUNT), block = (int)(i / VT_ROLE_COUNT);
    if (!vt_model_matrix(j->m, block, (vt_role)role, &x)) return VT_OK;
    size_t n = (size_t)x.rows * (size_t)x.cols;
    double *a = vt_alloc(n * sizeof *a);
    if (!a) return vt_fail(e, VT_E_MEMORY, "no memory for %s of block %d", vt_role_name((vt_role)role), block);
    for (size_t k = 0; k < n; k++) a[k] = (double)j->m->w[x.offset + k];
    vt_status s = run_power_iteration(&j->pieces[i], a, &x, j, i, e);
    free(a);
    return s;
}

/* ---- what comes out ---- */

enum { LARGEST, LARGEST_HEAD, MIDDLE, SMALLEST, RANK, MEASURES };
static const char *const headings[MEASURES] = {"largest singular value", "largest of a head's", "median", "smallest",
                                               "stable rank |W|_F^2 / sigma_max^2"};

static double spectral_measure(const job *j, int block, vt_role role, int which) {
    const vt_spectrum_matrix *x = vt_spectrum_at(&j->spectrum, block, role);
    double frobenius = j->pieces[block * VT_ROLE_COUNT + (int)role].frobenius;
    if (!x->n) return NAN;
    switch (which) {
    case LARGEST:
        return x->values[0];
    case LARGEST_HEAD:
        return vt_spectrum_get(&j->spectrum, block, role, VT_PART_ROWS, -1);
    case MIDDLE:
        return (x->values[(x->n - 1) / 2] + x->values[x->n / 2]) / 2;
    case SMALLEST:
        return x->values[x->n - 1];
    default:
        return frobenius * frobenius / (x->values[0] * x->values[0]);
    }
}

static void print_table(const job *j, int blocks, FILE *out) {
    double off = 0;
    int open = 0;
    for (int k = 0; k < MEASURES; k++) {
        vt_columns t;
        fprintf(out, "      %s\n", headings[k]);
        vt_columns_titles(&t, "layer\tW_Q\tW_K\tW_V\tW_O\tFC1\tFC2");
        for (int b = 0; b < blocks; b++) {
            vt_columns_cell(&t, "%d", b);
            for (int r = 0; r < VT_ROLE_COUNT; r++) vt_analyze_cell(&t, spectral_measure(j, b, (vt_role)r, k));
        }
        vt_columns_end(&t, out, VT_LOOK_PAGE);
    }
    for (int i = 0; i < blocks * VT_ROLE_COUNT; i++) {
        const piece *p = &j->pieces[i];
        if (!p->there) continue;
        double largest = j->spectrum.matrices[i].values[0];
        open += !p->converged;
        if (p->converged && largest > 0) off = fmax(off, fabs(p->power - largest) / largest);
    }
    fprintf(out, "power iteration: within %.1e of the largest value%s", off, open ? "" : "\n");
    if (open) fprintf(out, "; %d matrices had not converged (--steps)\n", open);
}

static json_t *reals_as_json(const double *v, int n) {
    json_t *a = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(a, json_real(v[i]));
    return a;
}

static json_t *describe_matrix(const piece *p, const vt_spectrum_matrix *x, int block, int role) {
    json_t *heads = json_array();
    for (int h = 0; h < x->heads && x->head_n; h++)
        json_array_append_new(heads, reals_as_json(vt_spectrum_head(x, h), x->head_n));
    return json_pack("{s:i,s:s,s:f,s:b,s:f,s:o,s:o}", "layer", block, "matrix", vt_role_name((vt_role)role),
                     "sigma_power", p->power, "converged", p->converged, "frobenius", p->frobenius, "values",
                     reals_as_json(x->values, x->n), "heads", heads);
}

static vt_status report_subject(const job *j, int subject, vt_lines *f, vt_lines *whole, FILE *out, json_t *json,
                                vt_err *e) {
    int blocks = vt_model_blocks(j->m);
    json_t *list = json_array();
    vt_analyze_title(out, j->a, subject);
    print_table(j, blocks, out);
    for (int r = 0; r < VT_ROLE_COUNT; r++) {
        double *y = vt_lines_add(f, j->a, subject, vt_role_name((vt_role)r));
        for (int b = 0; b < blocks; b++) y[b] = spectral_measure(j, b, (vt_role)r, LARGEST);
    }
    for (int i = 0; i < blocks * VT_ROLE_COUNT; i++)
        if (j->pieces[i].there)
            json_array_append_new(list, describe_matrix(&j->pieces[i], &j->spectrum.matrices[i], i / VT_ROLE_COUNT,
                                                        i % VT_ROLE_COUNT));
    for (int b = 0; b < blocks; b++) {
        char name[40];
        const vt_spectrum_matrix *x = vt_spectrum_at(&j->spectrum, b, VT_ROLE_Q);
        snprintf(name, sizeof name, "W_Q, layer %d", b);
        double *y = vt_lines_add(whole, j->a, subject, name);
        for (int k = 0; k < x->n && k < whole->points; k++) y[k] = x->values[k];
    }
    return vt_analyze_put(json, subject, json_pack("{s:o}", "matrices", list), e);
}

static vt_status analyze_subject(const vt_analyze *a, int i, const params *p, vt_lines *f, vt_lines *whole, FILE *out,
                                 json_t *json, vt_err *e) {
    job j = {.a = a, .p = p, .m = a->subjects[i].model};
    size_t n = (size_t)vt_model_blocks(j.m) * VT_ROLE_COUNT;
    j.pieces = calloc(n, sizeof *j.pieces);
    if (!j.pieces) return vt_fail(e, VT_E_MEMORY, "no memory for %zu matrices", n);
    vt_status s = vt_spectrum_measure(&j.spectrum, j.m, true, a->threads, e);
    if (s == VT_OK) s = vt_for_each(n, a->threads, measure_matrix, &j, e);
    if (s == VT_OK) s = report_subject(&j, i, f, whole, out, json, e);
    vt_spectrum_free(&j.spectrum);
    free(j.pieces);
    return s;
}

static vt_status run(const vt_analyze *a, const void *params_, FILE *out, json_t *json, vt_err *e) {
    vt_lines f = {0}, whole = {0};
    int deepest = 1, widest = 1;
    for (int i = 0; i < a->n; i++) {
        const vt_model *m = a->subjects[i].model;
        if (vt_model_blocks(m) > deepest) deepest = vt_model_blocks(m);
        if (m->config.dim > widest) widest = m->config.dim;
    }
    vt_status s = vt_lines_open(&f, deepest, "Largest singular values", "sigma max", false, e);
    if (s == VT_OK) s = vt_lines_open(&whole, widest, "Singular values of W_Q", "singular value", true, e);
    whole.x = "index";
    for (int i = 0; i < a->n && s == VT_OK; i++) s = analyze_subject(a, i, params_, &f, &whole, out, json, e);
    if (s == VT_OK) s = vt_lines_draw(&f, a, "spectrum", e);
    if (s == VT_OK) s = vt_lines_draw(&whole, a, "spectrum_whole", e);
    vt_lines_free(&f), vt_lines_free(&whole);
    return s;
}

const vt_analysis_def vt_analysis_def_spectrum = {
    .name = "spectrum",
    .summary = "every singular value of W_Q, W_K, W_V, W_O and the MLP, by layer and head",
    .source = "SpecFormer (Hu et al. 2024), Fig. 2(a)",
    .opts = opts,
    .params_size = sizeof(params),
    .run = run,
};
