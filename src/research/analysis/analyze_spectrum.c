/* SPDX-License-Identifier: MIT */
/* The whole spectrum of W_Q, W_K, W_V, W_O and the MLP by LAPACK, and the largest value once more by the power
 * iteration that a training step can afford; or only the largest values, as SpecFormer's Fig. 2(a) shows them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "research/analysis/analyze.h"
#include "research/analysis/lines.h"
#include "research/analysis/operator.h"
#include "research/analysis/spectrum.h"
#include "base/files.h"
#include "linalg/gemm.h"
#include "base/markup.h"
#include "base/mem.h"
#include "parallel/threads.h"
#include "models/model.h"

typedef struct params {
    int steps, split;
    bool largest, all;
    char csv[1000], plot[1000];
} params;

static const vt_opt opts[] = {
    VT_OPT_I("steps", params, steps, "most steps of the power iteration that is compared", 10000, 1, 10000000),
    VT_OPT_B("largest", params, largest, "the largest values alone, as tables by layer and head, and bars", 0),
    VT_OPT_C("parts", params, split, "which heads the tables of largest show", "rows|columns", 0),
    VT_OPT_B("all", params, all, "with largest: also W_O and the two matrices of the MLP", 0),
    VT_OPT_S("csv", params, csv, "file for the largest values: weights, layer, matrix, part, sigma", "none"),
    VT_OPT_S("plot", params, plot, "file for a figure of them, as SVG", "none"),
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
    vt_spectrum *spectrum;
    piece *pieces; /* [blocks][VT_WEIGHT_KINDS] */
} job;

typedef struct dense {
    const double *a;
    int rows, cols;
} dense;

/* y [rows] = A x [cols] */
static void apply_dense(void *ctx, double *y, const double *x) {
    const dense *d = ctx;
    vt_gemm_f64(false, false, d->rows, 1, d->cols, 1, d->a, d->cols, x, 1, 0, y, 1);
}

/* x [cols] = A^T y [rows] */
static void apply_dense_transposed(void *ctx, double *x, const double *y) {
    const dense *d = ctx;
    vt_gemm_f64(true, false, d->cols, 1, d->rows, 1, d->a, d->cols, y, 1, 0, x, 1);
}

/* Sets all of *p: the largest singular value of a [x->rows, x->cols] to 1e-9, and |a|_F; the random start is keyed by
 * (seed, i). */
static vt_status run_power_iteration(piece *p, const double *a, const vt_matrix *x, const job *j, size_t i, vt_err *e) {
    vt_norm_found f;
    dense d = {a, x->rows, x->cols};
    vt_operator op = {.n = (size_t)x->cols,
                      .m = (size_t)x->rows,
                      .apply = apply_dense,
                      .transposed = apply_dense_transposed,
                      .ctx = &d};
    vt_rng key = {.seed = j->a->seed, .purpose = vt_rng_purpose("analyze spectrum"), .image = (uint32_t)i};
    VT_TRY(vt_operator_norm(&f, &op, &key, j->p->steps, 1e-9, e));
    *p = (piece){true, f.converged, f.sigma, vt_length64(a, (size_t)x->rows * (size_t)x->cols)};
    return VT_OK;
}

/* Work item of vt_for_each: sets pieces[i], i = block * kinds + kind, with `largest` only its Frobenius norm; a matrix
 * that the block lacks is skipped. */
static vt_status measure_matrix(void *ctx, int thread, size_t i, vt_err *e) {
    job *j = ctx;
    vt_matrix x;
    (void)thread;
    int kind = (int)(i % VT_WEIGHT_KINDS), block = (int)(i / VT_WEIGHT_KINDS);
    if (!vt_model_matrix(j->m, block, (vt_weight_kind)kind, &x) ||
        !vt_spectrum_at(j->spectrum, block, (vt_weight_kind)kind)->n)
        return VT_OK;
    size_t n = (size_t)x.rows * (size_t)x.cols;
    double *a = vt_alloc(n * sizeof *a);
    if (!a)
        return vt_fail(e, VT_E_MEMORY, "no memory for %s of block %d", vt_weight_kind_name((vt_weight_kind)kind),
                       block);
    for (size_t k = 0; k < n; k++) a[k] = (double)j->m->w[x.offset + k];
    vt_status s = VT_OK;
    if (j->p->largest)
        j->pieces[i] = (piece){true, false, NAN, vt_length64(a, n)};
    else
        s = run_power_iteration(&j->pieces[i], a, &x, j, i, e);
    free(a);
    return s;
}

enum { LARGEST, LARGEST_HEAD, MIDDLE, SMALLEST, RANK, MEASURES };
static const char *const headings[MEASURES] = {"largest singular value", "largest of a head's", "median", "smallest",
                                               "stable rank |W|_F^2 / sigma_max^2"};

/* LARGEST, LARGEST_HEAD, MIDDLE (median), SMALLEST or RANK (stable rank) of a matrix; NaN if there is none. */
static double spectral_measure(const job *j, int block, vt_weight_kind kind, int which) {
    const vt_spectrum_matrix *x = vt_spectrum_at(j->spectrum, block, kind);
    double frobenius = j->pieces[block * VT_WEIGHT_KINDS + (int)kind].frobenius;
    if (!x->n) return NAN;
    switch (which) {
    case LARGEST:
        return x->values[0];
    case LARGEST_HEAD:
        return vt_spectrum_get(j->spectrum, block, kind, VT_PART_ROWS, -1);
    case MIDDLE:
        return (x->values[(x->n - 1) / 2] + x->values[x->n / 2]) / 2;
    case SMALLEST:
        return x->values[x->n - 1];
    default:
        return frobenius * frobenius / (x->values[0] * x->values[0]);
    }
}

/* Prints a table over layers for each measure, then how far the power iteration was from LAPACK's value. */
static void print_table(const job *j, int blocks, FILE *out) {
    double off = 0;
    int open = 0;
    for (int k = 0; k < MEASURES; k++) {
        vt_columns t;
        fprintf(out, "      %s\n", headings[k]);
        vt_columns_titles(&t, "layer\tW_Q\tW_K\tW_V\tW_O\tFC1\tFC2");
        for (int b = 0; b < blocks; b++) {
            vt_columns_cell(&t, "%d", b);
            for (int r = 0; r < VT_WEIGHT_KINDS; r++) vt_analyze_cell(&t, spectral_measure(j, b, (vt_weight_kind)r, k));
        }
        vt_columns_end(&t, out, VT_LOOK_PAGE);
    }
    for (int i = 0; i < blocks * VT_WEIGHT_KINDS; i++) {
        const piece *p = &j->pieces[i];
        if (!p->there) continue;
        double largest = j->spectrum->matrices[i].values[0];
        open += !p->converged;
        if (p->converged && largest > 0) off = fmax(off, fabs(p->power - largest) / largest);
    }
    fprintf(out, "power iteration: within %.1e of the largest value%s", off, open ? "" : "\n");
    if (open) fprintf(out, "; %d matrices had not converged (--steps)\n", open);
}

/* JSON of one matrix: values, those of its heads, power iteration and Frobenius norm. */
static json_t *describe_matrix(const piece *p, const vt_spectrum_matrix *x, int block, int kind) {
    json_t *heads = json_array();
    for (int h = 0; h < x->heads && x->head_n; h++)
        json_array_append_new(heads, vt_analyze_reals(vt_spectrum_head(x, h), x->head_n));
    return json_pack("{s:i,s:s,s:o,s:b,s:f,s:o,s:o}", "layer", block, "matrix",
                     vt_weight_kind_name((vt_weight_kind)kind), "sigma_power", vt_json_real(p->power), "converged",
                     p->converged, "frobenius", p->frobenius, "values", vt_analyze_reals(x->values, x->n), "heads",
                     heads);
}

/* Prints the tables (unless `largest`), adds curves of the largest values and of W_Q's spectra, and stores the JSON. */
static vt_status report_subject(const job *j, int subject, vt_lines *f, vt_lines *whole, FILE *out, json_t *json,
                                vt_err *e) {
    int blocks = vt_model_blocks(j->m);
    json_t *list = json_array();
    if (!j->p->largest) vt_analyze_title(out, j->a, subject), print_table(j, blocks, out);
    for (int r = 0; r < VT_WEIGHT_KINDS; r++) {
        double *y = vt_lines_add(f, j->a, subject, vt_weight_kind_name((vt_weight_kind)r));
        for (int b = 0; b < blocks; b++) y[b] = spectral_measure(j, b, (vt_weight_kind)r, LARGEST);
    }
    for (int i = 0; i < blocks * VT_WEIGHT_KINDS; i++)
        if (j->pieces[i].there)
            json_array_append_new(list, describe_matrix(&j->pieces[i], &j->spectrum->matrices[i], i / VT_WEIGHT_KINDS,
                                                        i % VT_WEIGHT_KINDS));
    for (int b = 0; b < blocks; b++) {
        char name[40];
        const vt_spectrum_matrix *x = vt_spectrum_at(j->spectrum, b, VT_WEIGHT_Q);
        snprintf(name, sizeof name, "W_Q, layer %d", b);
        double *y = vt_lines_add(whole, j->a, subject, name);
        for (int k = 0; k < x->n && k < whole->points; k++) y[k] = x->values[k];
    }
    return vt_analyze_put(json, subject, json_pack("{s:o}", "matrices", list), e);
}

typedef struct shown {
    const vt_analyze *a;
    const params *p;
    int kinds, deepest; /* W_Q, W_K, W_V, or all six; blocks of the deepest */
    vt_spectrum s[VT_ANALYZE_MOST];
} shown;

typedef struct column {
    vt_weight_kind kind;
    vt_part part;
    int head;
} column;

/* Prints n columns: a row for each layer, then their mean. */
static void print_columns(FILE *out, const vt_spectrum *s, vt_columns *t, const column *c, int n) {
    for (int b = 0; b <= s->depth; b++) {
        vt_columns_cell(t, b < s->depth ? "%d" : "mean", b);
        for (int k = 0; k < n; k++)
            vt_analyze_cell(t, vt_spectrum_get(s, b < s->depth ? b : -1, c[k].kind, c[k].part, c[k].head));
    }
    vt_columns_end(t, out, VT_LOOK_PAGE);
}

/* Prints the tables of largest values: whole matrices and the largest head, then eight heads a table. */
static void print_checkpoint(const shown *v, int i, FILE *out) {
    const vt_spectrum *s = &v->s[i];
    const vt_part split = v->p->split ? VT_PART_COLUMNS : VT_PART_ROWS;
    column c[VT_COLUMNS_MOST - 1];
    char titles[200] = "layer";
    vt_columns t;
    if (v->a->n > 1) fprintf(out, "\n%c  ", 'A' + i);
    fprintf(out, "%s: %d layers, width %d, %d heads by %s; largest singular values\n\n", v->a->subjects[i].path,
            s->depth, v->a->subjects[i].model->config.dim, s->heads, vt_part_name(split));
    for (int k = 0; k < v->kinds + 3; k++) {
        bool whole = k < v->kinds;
        c[k] =
            whole ? (column){(vt_weight_kind)k, VT_PART_WHOLE, 0} : (column){(vt_weight_kind)(k - v->kinds), split, -1};
        vt_text_item(titles, sizeof titles, "\t", "%s%s", vt_weight_kind_name(c[k].kind), whole ? "" : ", head");
    }
    fprintf(out, "      whole matrices, and the largest of the heads\n");
    vt_columns_titles(&t, "%s", titles);
    print_columns(out, s, &t, c, v->kinds + 3);
    for (int r = 0; r < 3; r++)
        for (int from = 0; from < s->heads; from += 8) {
            int n = s->heads - from < 8 ? s->heads - from : 8;
            snprintf(titles, sizeof titles, "layer");
            for (int h = 0; h < n; h++) {
                c[h] = (column){(vt_weight_kind)r, split, from + h};
                vt_text_item(titles, sizeof titles, "\t", "%d", from + h);
            }
            fprintf(out, "\n      %s by head\n", vt_weight_kind_name((vt_weight_kind)r));
            vt_columns_titles(&t, "%s", titles);
            print_columns(out, s, &t, c, n);
        }
}

/* Largest of W_Q, W_K and W_V of all checkpoints and layers: one scale, so that all figures compare. */
static double largest_singular_value(const shown *v) {
    double most = 0;
    for (int i = 0; i < v->a->n; i++)
        for (int b = 0; b < v->s[i].depth; b++)
            for (int r = 0; r < 3; r++)
                most = fmax(most, vt_spectrum_get(&v->s[i], b, (vt_weight_kind)r, VT_PART_WHOLE, 0));
    return most;
}

/* Prints bars of '#' for one matrix, a column for each checkpoint (Fig. 2(a)); `full` is the value of a full bar. */
static void print_bars(const shown *v, vt_weight_kind kind, double full, FILE *out) {
    enum { SIDE_BY_SIDE = 4, NUMBER = 14, MOST = 60 };
    char hashes[MOST + 1], titles[100] = "layer", number[16];
    int n = v->a->n < SIDE_BY_SIDE ? v->a->n : SIDE_BY_SIDE, width = 75 / n - NUMBER;
    vt_columns t;
    if (width > MOST) width = MOST;
    memset(hashes, '#', sizeof hashes);
    for (int i = 0; i < v->a->n; i++) vt_text_item(titles, sizeof titles, "\t", "-%c", 'A' + i);
    fprintf(out, "\n      largest singular value of %s, a full bar is %.5g\n", vt_weight_kind_name(kind), full);
    vt_columns_titles(&t, "%s", v->a->n > 1 ? titles : "\t-");
    for (int b = 0; b <= v->deepest; b++) {
        vt_columns_cell(&t, b < v->deepest ? "%d" : "mean", b);
        for (int i = 0; i < v->a->n; i++) {
            double x = vt_spectrum_get(&v->s[i], b < v->deepest ? b : -1, kind, VT_PART_WHOLE, 0);
            int bar = x > 0 && full > 0 ? (int)lrint(x / full * width) : 0;
            vt_analyze_number(x, number);
            vt_columns_cell(&t, "%6s%s%.*s", number, bar ? " " : "", bar, hashes);
        }
    }
    vt_columns_end(&t, out, VT_LOOK_PAGE);
}

/* Writes one line of the CSV; nothing if the value is NaN. */
static void write_csv_row(FILE *f, const shown *v, int i, int block, const column *c) {
    double x = vt_spectrum_get(&v->s[i], block, c->kind, c->part, c->head);
    if (isnan(x)) return;
    vt_csv(f, v->a->subjects[i].path);
    fprintf(f, ",%d,%s,%s", block, vt_weight_kind_name(c->kind), vt_part_name(c->part));
    if (c->part != VT_PART_WHOLE) fprintf(f, ":%d", c->head);
    fprintf(f, ",%.17g\n", x);
}

/* Writes --csv: whole matrices, and the heads by both splits. */
static vt_status write_csv(const shown *v, vt_err *e) {
    vt_file f;
    VT_TRY(vt_file_may_replace(v->p->csv, "weights,layer,", e));
    VT_TRY(vt_file_begin_path(&f, v->p->csv, e));
    fprintf(f.stream, "weights,layer,matrix,part,sigma\n");
    for (int i = 0; i < v->a->n; i++)
        for (int b = 0; b < v->s[i].depth; b++)
            for (int r = 0; r < v->kinds; r++)
                for (int p = 0; p < VT_PART_COUNT; p++)
                    for (int h = 0; h < (p == VT_PART_WHOLE ? 1 : v->s[i].heads); h++)
                        write_csv_row(f.stream, v, i, b, &(column){(vt_weight_kind)r, (vt_part)p, h});
    return vt_file_commit(&f, e);
}

/* Figure: three panels, W_Q, W_K and W_V, on one scale; a line for each checkpoint. */
static void draw_spectra(vt_figure *f, const void *data) {
    const shown *v = data;
    vt_panel panel = {.x = "layer", .y = "largest singular value", .y_to = 1.05 * largest_singular_value(v)};
    for (int r = 0; r < 3; r++) {
        snprintf(panel.title, sizeof panel.title, "%s", vt_weight_kind_name((vt_weight_kind)r));
        vt_figure_panel(f, &panel);
        for (int i = 0; i < v->a->n; i++) {
            vt_figure_series(f, VT_LINE | VT_MARKS, "%s", v->a->subjects[i].path);
            for (int b = 0; b < v->s[i].depth; b++)
                vt_figure_point(f, b, vt_spectrum_get(&v->s[i], b, (vt_weight_kind)r, VT_PART_WHOLE, 0));
        }
    }
}

/* Prints tables and bars (with `largest`), and writes the files of --csv and --plot, if given. */
static vt_status report_largest(const shown *v, FILE *out, vt_err *e) {
    for (int i = 0; v->p->largest && i < v->a->n; i++) print_checkpoint(v, i, out);
    for (int r = 0; v->p->largest && r < 3; r++) print_bars(v, (vt_weight_kind)r, largest_singular_value(v), out);
    if (strcmp(v->p->csv, "none") != 0) VT_TRY(write_csv(v, e));
    if (!strcmp(v->p->plot, "none")) return VT_OK;
    return vt_figure_save(v->p->plot, "Largest singular values of W_Q, W_K and W_V by layer", draw_spectra, v, e);
}

/* Measures checkpoint i into v->s[i], which the caller frees, and reports it: JSON, curves and (unless `largest`)
 * tables. */
static vt_status analyze_subject(shown *v, int i, vt_lines *f, vt_lines *whole, FILE *out, json_t *json, vt_err *e) {
    job j = {.a = v->a, .p = v->p, .m = v->a->subjects[i].model, .spectrum = &v->s[i]};
    size_t n = (size_t)vt_model_blocks(j.m) * VT_WEIGHT_KINDS;
    VT_TRY(vt_spectrum_measure(j.spectrum, j.m, v->kinds > 3, v->a->threads, e));
    j.pieces = calloc(n, sizeof *j.pieces);
    if (!j.pieces) return vt_fail(e, VT_E_MEMORY, "no memory for %zu matrices", n);
    vt_status s = vt_for_each(n, v->a->threads, measure_matrix, &j, e);
    if (s == VT_OK) s = report_subject(&j, i, f, whole, out, json, e);
    free(j.pieces);
    return s;
}

static vt_status run(const vt_analyze *a, const void *params_, FILE *out, json_t *json, vt_err *e) {
    vt_lines f = {0}, whole = {0};
    const params *p = params_;
    shown v = {.a = a, .p = p, .kinds = p->largest && !p->all ? 3 : VT_WEIGHT_KINDS, .deepest = 1};
    int widest = 1;
    for (int i = 0; i < a->n; i++) {
        const vt_model *m = a->subjects[i].model;
        if (!vt_model_blocks(m))
            return vt_fail(e, VT_E_SHAPE, "%s: a %s model has no attention to look at", m->path, m->config.arch);
        if (vt_model_blocks(m) > v.deepest) v.deepest = vt_model_blocks(m);
        if (m->config.dim > widest) widest = m->config.dim;
    }
    vt_status s = vt_lines_open(&f, v.deepest, "Largest singular values", "sigma max", false, e);
    if (s == VT_OK) s = vt_lines_open(&whole, widest, "Singular values of W_Q", "singular value", true, e);
    whole.x = "index";
    for (int i = 0; i < a->n && s == VT_OK; i++) s = analyze_subject(&v, i, &f, &whole, out, json, e);
    if (s == VT_OK) s = report_largest(&v, out, e);
    if (s == VT_OK) s = vt_lines_draw(&f, a, "spectrum", e);
    if (s == VT_OK) s = vt_lines_draw(&whole, a, "spectrum_whole", e);
    for (int i = 0; i < a->n; i++) vt_spectrum_free(&v.s[i]);
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
