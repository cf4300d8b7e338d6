/* SPDX-License-Identifier: MIT */
/* Judges, writes and reads single points. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/gzip.h"
#include "base/mem.h"
#include "spec/falsify.h"

/* Returns how far x [n] leaves the box; 0: it is within. */
static double distance_to(const vt_spec_box *b, const double *x, int n) {
    double most = 0;
    for (int i = 0; i < n; i++) most = fmax(most, fmax(b->lo[i] - x[i], x[i] - b->hi[i]));
    return most;
}

/* Sets w->at, outside and both violations to those of the case to which w->x, y and y_double come nearest. */
static void find_nearest_case(vt_witness *w, const vt_spec *s) {
    double least = INFINITY, outside = 0;
    w->at = -1;
    for (int k = 0, box = -1; k < s->n_cases; k++) {
        const vt_spec_case *c = &s->cases[k];
        if (c->box != box) outside = distance_to(&s->boxes[box = c->box], w->x, s->inputs);
        const double v = vt_spec_violation(s, c, w->y, NULL), v64 = vt_spec_violation(s, c, w->y_double, NULL);
        const double far = fmax(outside, fmax(v, v64));
        if (w->at >= 0 && !(far < least)) continue;
        least = far, w->at = k, w->outside = outside, w->violation = v, w->violation_double = v64;
    }
}

vt_status vt_witness_judge(vt_witness *w, const vt_spec *s, const vt_spec_network *n, const double *x, vt_err *e) {
    const size_t inputs = (size_t)s->inputs, outputs = (size_t)s->outputs;
    vt_evaluator_f32 *in_float = NULL;
    vt_evaluator_f64 *in_double = NULL;
    float *rounded = vt_alloc(inputs * sizeof *rounded);
    *w = (vt_witness){.x = vt_alloc(inputs * sizeof *w->x),
                      .y = vt_alloc(outputs * sizeof *w->y),
                      .y_double = vt_alloc(outputs * sizeof *w->y_double)};
    vt_status st = rounded && w->x && w->y && w->y_double ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for a witness");
    if (st == VT_OK) st = vt_evaluator_open_f32(&in_float, n, false, e);
    if (st == VT_OK) st = vt_evaluator_open_f64(&in_double, n, false, e);
    if (st == VT_OK) {
        for (size_t i = 0; i < inputs; i++) w->x[i] = x[i], rounded[i] = (float)x[i];
        vt_evaluator_forward_f32(in_float, w->y, rounded);
        vt_evaluator_forward_f64(in_double, w->y_double, w->x);
        find_nearest_case(w, s);
    }
    vt_evaluator_close_f32(in_float);
    vt_evaluator_close_f64(in_double);
    free(rounded);
    if (st != VT_OK) vt_witness_free(w);
    return st;
}

void vt_witness_free(vt_witness *w) {
    free(w->x), free(w->y), free(w->y_double);
    *w = (vt_witness){0};
}

vt_status vt_witness_write(const char *path, bool verdict, const vt_spec *s, const vt_witness *w, vt_err *e) {
    vt_file f;
    VT_TRY(vt_file_begin_path(&f, path, e));
    if (verdict) fputs(w ? "sat\n" : "unknown\n", f.stream);
    for (int i = 0; w && i < s->inputs; i++) fprintf(f.stream, "%s(X_%d %.17g)\n", i ? " " : "(", i, w->x[i]);
    for (int i = 0; w && i < s->outputs; i++)
        fprintf(f.stream, " (Y_%d %.17g)%s\n", i, w->y[i], i + 1 < s->outputs ? "" : ")");
    return vt_file_commit(&f, e);
}

/* Writes the next word between blanks and parentheses; false: there is none, or it is longer than any that belongs
 * here. */
static bool next_word(const char **p, const char *end, char word[64]) {
    size_t n = 0;
    while (*p < end && (!**p || strchr(" \t\r\n()", **p))) ++*p;
    while (*p < end && **p && !strchr(" \t\r\n()", **p) && n < 63) word[n++] = *(*p)++;
    word[n] = 0;
    return n > 0 && n < 63;
}

/* Sets x [inputs] to the values of (X_i v); seen [inputs]: zeros. VT_E_FORMAT unless each is there once, finite. */
static vt_status read_values(double *x, char *seen, const vt_mapped *m, const char *path, int inputs, vt_err *e) {
    const char *p = (const char *)m->bytes, *end = p + m->n;
    char name[64], value[64];
    int found = 0;
    while (next_word(&p, end, name)) {
        char *rest;
        if (!strcmp(name, "sat")) continue;
        const bool input = name[0] == 'X' && name[1] == '_';
        if ((!input && strncmp(name, "Y_", 2)) || !next_word(&p, end, value)) break;
        const long i = strtol(name + 2, &rest, 10);
        if (*rest || !name[2] || i < 0 || (input && i >= inputs)) break;
        if (!input) continue;
        x[i] = strtod(value, &rest);
        if (*rest || !isfinite(x[i]) || seen[i]) break;
        seen[i] = 1, found++;
    }
    if (found == inputs) return VT_OK;
    return vt_fail(e, VT_E_FORMAT, "%s: holds %d of %d inputs as (X_0 v), each once and finite", path, found, inputs);
}

vt_status vt_witness_read(double **x, const char *path, int inputs, vt_err *e) {
    vt_mapped m;
    *x = NULL;
    VT_TRY(vt_unpacked_open(&m, path, e));
    double *values = vt_alloc((size_t)inputs * sizeof *values);
    char *seen = calloc((size_t)inputs, 1);
    vt_status s = values && seen ? VT_OK : vt_fail(e, VT_E_MEMORY, "%s: no memory to read it", path);
    if (s == VT_OK && m.n) s = read_values(values, seen, &m, path, inputs, e);
    if (s == VT_OK && !m.n) s = vt_fail(e, VT_E_FORMAT, "%s: is empty", path);
    vt_mapped_close(&m);
    free(seen);
    if (s == VT_OK)
        *x = values;
    else
        free(values);
    return s;
}
