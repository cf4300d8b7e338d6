/* SPDX-License-Identifier: MIT */
/* vitrine spectrum: largest singular values of W_Q, W_K and W_V as tables, bars, CSV and a figure. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "research/analysis/spectrum.h"
#include "cli/cli.h"
#include "cli/known.h"
#include "core/files.h"
#include "core/chart.h"
#include "core/markup.h"

enum { MOST = 16, WIDTH = 80 }; /* checkpoints; characters in a line */

typedef struct shown {
    int n, deepest; /* checkpoints; blocks of the deepest */
    vt_spectrum s[MOST];
    vt_config config[MOST];
    const char *path[MOST];
    vt_part split;
    int roles; /* W_Q, W_K, W_V, or all six */
} shown;

/* ---- numbers ---- */

/* Five significant digits in at most 8 characters, four below 0.01; "-" where there is none. */
static void format_number(double x, char out[16]) {
    if (isnan(x))
        snprintf(out, 16, "-");
    else if (x != 0 && (x < 0.01 || x >= 1e6))
        snprintf(out, 16, "%.3e", x);
    else
        snprintf(out, 16, "%.*f", x >= 10000 ? 0 : x >= 1000 ? 1 : x >= 100 ? 2 : x >= 10 ? 3 : x >= 1 ? 4 : 5, x);
}

/* ---- tables ---- */

typedef struct column {
    vt_role role;
    vt_part part;
    int head;
} column;

/* Rows are the layers, then their mean. */
static void print_layer_rows(const vt_spectrum *s, const column *c, int n) {
    char text[16];
    for (int b = 0; b <= s->depth; b++) {
        if (b < s->depth)
            printf("%5d", b);
        else
            printf(" mean");
        for (int k = 0; k < n; k++) {
            format_number(vt_spectrum_get(s, b < s->depth ? b : -1, c[k].role, c[k].part, c[k].head), text);
            printf(" %8s", text);
        }
        printf("\n");
    }
}

static void print_columns(const vt_spectrum *s, const column *c, int n) {
    printf("\nlayer");
    for (int k = 0; k < n; k++) printf(" %8s", vt_role_name(c[k].role));
    printf("\n");
    print_layer_rows(s, c, n);
}

static void print_matrices(const vt_spectrum *s, int roles, vt_part split) {
    column c[VT_ROLE_COUNT + 3];
    int n = 0;
    for (int r = 0; r < roles; r++) c[n++] = (column){(vt_role)r, VT_PART_WHOLE, 0};
    for (int r = 0; r < 3; r++) c[n++] = (column){(vt_role)r, split, -1};
    bool fits = 5 + 9 * n <= WIDTH; /* else one below the other */
    printf("\n%-*s%s", fits ? 7 + 9 * roles : 0, "      whole matrix", fits ? "largest of the heads" : "");
    print_columns(s, c, fits ? n : roles);
    if (fits) return;
    printf("\n      largest of the heads");
    print_columns(s, c + roles, n - roles);
}

static void print_heads(const vt_spectrum *s, vt_role role, vt_part split) {
    enum { PER_LINE = 8 };
    for (int from = 0; from < s->heads; from += PER_LINE) {
        column c[PER_LINE];
        int n = 0;
        for (int h = from; h < s->heads && n < PER_LINE; h++) c[n++] = (column){role, split, h};
        printf("\n      %s by head\nlayer", vt_role_name(role));
        for (int k = 0; k < n; k++) printf(" %8d", c[k].head);
        printf("\n");
        print_layer_rows(s, c, n);
    }
}

/* ---- bars, after Fig. 2(a): checkpoints side by side ---- */

static char checkpoint_letter(int i) { return (char)('A' + i); }

static void print_bar(double x, double full, int width, bool last) {
    char text[16];
    format_number(x, text);
    int n = x > 0 && full > 0 ? (int)lrint(x / full * width) : 0;
    printf("  %8s%s", text, n || !last ? " " : "");
    for (int k = 0; k < (last ? n : width); k++) putchar(k < n ? '#' : ' ');
}

/* Checkpoints [from, to) below one heading; `full` is what fills a bar. */
static void print_bars(const shown *v, vt_role role, int from, int to, double full) {
    int width = (WIDTH - 5) / (to - from) - 11;
    if (width > 60) width = 60;
    printf("\n      largest singular value of %s, a full bar is %.5g\n", vt_role_name(role), full);
    if (v->n > 1) {
        printf("layer");
        for (int i = from; i < to; i++) printf("  %8c%*s", checkpoint_letter(i), i < to - 1 ? 1 + width : 0, "");
        printf("\n");
    }
    for (int b = 0; b <= v->deepest; b++) {
        if (b < v->deepest)
            printf("%5d", b);
        else
            printf(" mean");
        for (int i = from; i < to; i++)
            print_bar(vt_spectrum_get(&v->s[i], b < v->deepest ? b : -1, role, VT_PART_WHOLE, 0), full, width,
                      i == to - 1);
        printf("\n");
    }
}

/* One scale for all, so that layers, matrices and checkpoints compare. */
static double largest_singular_value(const shown *v) {
    double most = 0;
    for (int i = 0; i < v->n; i++)
        for (int b = 0; b < v->s[i].depth; b++)
            for (int r = 0; r < 3; r++) most = fmax(most, vt_spectrum_get(&v->s[i], b, (vt_role)r, VT_PART_WHOLE, 0));
    return most;
}

static void print_all(const shown *v) {
    for (int i = 0; i < v->n; i++) {
        const vt_config *c = &v->config[i];
        if (v->n > 1) printf("%s%c  ", i ? "\n" : "", checkpoint_letter(i));
        printf("%s: %d layers, width %d, %d heads by %s; largest singular values\n", v->path[i], v->s[i].depth, c->dim,
               v->s[i].heads, vt_part_name(v->split));
        print_matrices(&v->s[i], v->roles, v->split);
        for (int r = 0; r < 3; r++) print_heads(&v->s[i], (vt_role)r, v->split);
    }
    double full = largest_singular_value(v);
    for (int from = 0; from < v->n; from += 4)
        for (int r = 0; r < 3; r++) print_bars(v, (vt_role)r, from, from + 4 < v->n ? from + 4 : v->n, full);
}

/* ---- files ---- */

static void csv_row(FILE *f, const shown *v, int i, int block, vt_role role, vt_part part, int head) {
    double x = vt_spectrum_get(&v->s[i], block, role, part, head);
    if (isnan(x)) return;
    vt_csv(f, v->path[i]);
    fprintf(f, ",%d,%s,%s", block, vt_role_name(role), vt_part_name(part));
    if (part != VT_PART_WHOLE) fprintf(f, ":%d", head);
    fprintf(f, ",%.17g\n", x);
}

/* Whole matrices, and the heads by both splits. */
static vt_status write_csv(const shown *v, const char *path, vt_err *e) {
    vt_file f;
    VT_TRY(vt_file_begin_path(&f, path, e));
    fprintf(f.stream, "weights,layer,matrix,part,sigma\n");
    for (int i = 0; i < v->n; i++)
        for (int b = 0; b < v->s[i].depth; b++)
            for (int r = 0; r < v->roles; r++)
                for (int p = 0; p < VT_PART_COUNT; p++)
                    for (int h = 0; h < (p == VT_PART_WHOLE ? 1 : v->s[i].heads); h++)
                        csv_row(f.stream, v, i, b, (vt_role)r, (vt_part)p, h);
    return vt_file_commit(&f, e);
}

/* Three panels, W_Q, W_K and W_V, on one scale; a line for each checkpoint. */
static void draw_spectra(vt_figure *f, const void *data) {
    const shown *v = data;
    vt_panel panel = {.x = "layer", .y = "largest singular value", .y_to = 1.05 * largest_singular_value(v)};
    for (int r = 0; r < 3; r++) {
        snprintf(panel.title, sizeof panel.title, "%s", vt_role_name((vt_role)r));
        vt_figure_panel(f, &panel);
        for (int i = 0; i < v->n; i++) {
            vt_figure_series(f, VT_LINE | VT_MARKS, "%s", v->path[i]);
            for (int b = 0; b < v->s[i].depth; b++)
                vt_figure_point(f, b, vt_spectrum_get(&v->s[i], b, (vt_role)r, VT_PART_WHOLE, 0));
        }
    }
}

/* ---- the command ---- */

static vt_status measure_checkpoints(shown *v, const vt_cli *c, int threads, vt_err *e) {
    vt_overrides o;
    VT_TRY(vt_cli_overrides(c, &o, e));
    for (; v->n < c->n_positional; v->n++) {
        vt_model *m;
        v->path[v->n] = c->positional[v->n];
        VT_TRY(vt_model_open(&m, v->path[v->n], &o, e));
        v->config[v->n] = m->config;
        vt_status s = vt_cli_known(c, m, e);
        if (s == VT_OK) s = vt_spectrum_measure(&v->s[v->n], m, v->roles > 3, threads, e);
        vt_model_close(m);
        VT_TRY(s);
        if (v->s[v->n].depth > v->deepest) v->deepest = v->s[v->n].depth;
    }
    return VT_OK;
}

static vt_status read_split(const vt_cli *c, vt_part *out, vt_err *e) {
    const char *text = vt_cli_get(c, "split");
    *out = VT_PART_ROWS;
    if (!text) return VT_OK;
    for (int p = VT_PART_ROWS; p < VT_PART_COUNT; p++)
        if (!strcmp(text, vt_part_name((vt_part)p))) {
            *out = (vt_part)p;
            return VT_OK;
        }
    return vt_fail(e, VT_E_USAGE, "--split is '%s', must be rows or columns", text);
}

static vt_status run(const vt_cli *c, vt_err *e) {
    const char *csv = vt_cli_get(c, "csv"), *svg = vt_cli_get(c, "plot");
    long long threads;
    shown v = {.roles = vt_cli_has(c, "all") ? VT_ROLE_COUNT : 3};
    VT_TRY(read_split(c, &v.split, e));
    VT_TRY(vt_cli_threads(c, &threads, e));
    vt_status s = measure_checkpoints(&v, c, (int)threads, e);
    if (s == VT_OK) print_all(&v);
    if (s == VT_OK && csv) s = write_csv(&v, csv, e);
    if (s == VT_OK && svg)
        s = vt_figure_save(svg, "Largest singular values of W_Q, W_K and W_V by layer", draw_spectra, &v, e);
    for (int i = 0; i < v.n; i++) vt_spectrum_free(&v.s[i]);
    return s;
}

static const vt_arg args[] = {
    {"split", "rows|columns", "which heads to show (default rows)", VT_OF_OUTPUT},
    {"all", NULL, "also W_O and the two matrices of the MLP", VT_OF_RUN},
    {"csv", "FILE", "write every value: weights, layer, matrix, part, sigma", VT_OF_OUTPUT},
    {"plot", "FILE", "write the figure as SVG", VT_OF_OUTPUT},
    VT_THREADS_ARG,
    VT_MODEL_ARGS,
    {0},
};

const vt_command vt_command_spectrum = {
    .name = "spectrum",
    .summary = "largest singular values of W_Q, W_K, W_V, by layer and head",
    .operands = "WEIGHTS...",
    .min_operands = 1,
    .max_operands = MOST,
    .args = args,
    .details =
        "Several checkpoints are compared side by side, as in Fig. 2(a) of SpecFormer (Hu et al. 2024). Layers and\n"
        "heads count from 0, as in tensor names. --split rows: head h is the rows of W that make its outputs (the\n"
        "paper); columns: the same range of input columns (the released code). The CSV holds both.\n"
        "All singular values: vitrine analyze spectrum.",
    .examples = {"vitrine spectrum weights/shapes10-vit",
                 "vitrine spectrum weights/shapes10-plain weights/shapes10-specformer --all --csv sigma.csv"},
    .run = run,
};
