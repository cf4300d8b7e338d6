/* SPDX-License-Identifier: MIT */
#include "spec/spec.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/gzip.h"
#include "spec/formula.h"

typedef struct builder {
    const vt_formula *f;
    vt_spec *s;
    double *lo, *hi;               /* [2][inputs] of every case; then of the case at hand */
    int *lo_line, *hi_line;        /* [2][inputs] where they stand; 0: nowhere */
    const vt_formula_and **chosen; /* [n_choices] */
    char empty[300];               /* why the first empty case is */
} builder;

static vt_status fail_memory(const builder *b, vt_err *e) {
    return vt_fail(e, VT_E_MEMORY, "%s: no memory to read it", b->f->path);
}

/* Applies a's bounds to lo, hi and their lines from index `at` on; the tightest of all counts. */
static void apply_bounds(builder *b, const vt_formula_and *a, size_t at) {
    for (size_t i = 0; i < a->n; i++) {
        if (a->items[i] < 0) continue;
        const vt_formula_bound *w = &b->f->bounds[a->items[i]];
        const size_t k = at + (size_t)w->x;
        if (w->upper && (!b->hi_line[k] || w->value < b->hi[k])) b->hi[k] = w->value, b->hi_line[k] = w->line;
        if (!w->upper && (!b->lo_line[k] || w->value > b->lo[k])) b->lo[k] = w->value, b->lo_line[k] = w->line;
    }
}

/* Sets *empty: no point lies between the bounds of the case at hand; b->empty gets the first reason. VT_E_FORMAT: a
 * bound is missing, or beyond float32. */
static vt_status check_box(builder *b, bool *empty, vt_err *e) {
    const size_t n = (size_t)b->s->inputs;
    const double *lo = b->lo + n, *hi = b->hi + n;
    const int *lo_line = b->lo_line + n, *hi_line = b->hi_line + n;
    *empty = false;
    for (size_t i = 0; i < n; i++) {
        if (!lo_line[i] || !hi_line[i])
            return vt_fail(e, VT_E_FORMAT, "%s: X_%zu has no %s bound%s", b->f->path, i, lo_line[i] ? "upper" : "lower",
                           b->f->n_choices ? " in every case" : "");
        if (lo[i] < -(double)FLT_MAX || hi[i] > (double)FLT_MAX)
            return vt_fail(e, VT_E_FORMAT, "%s: line %d: X_%zu is bounded by %g, which float32 does not hold",
                           b->f->path, lo[i] < -(double)FLT_MAX ? lo_line[i] : hi_line[i], i,
                           lo[i] < -(double)FLT_MAX ? lo[i] : hi[i]);
        if (lo[i] <= hi[i]) continue;
        if (!*b->empty)
            snprintf(b->empty, sizeof b->empty, "line %d: X_%zu is at least %.17g, but at most %.17g by line %d",
                     lo_line[i], i, lo[i], hi[i], hi_line[i]);
        *empty = true;
        return VT_OK;
    }
    return VT_OK;
}

/* Sets x->near[i] and far[i] to the first and last float32 within [lo, hi]; if none is, both to lo, counted in
 * x->between. */
static void round_inwards(vt_spec_box *x, size_t i) {
    float near = (float)x->lo[i], far = (float)x->hi[i];
    if ((double)near < x->lo[i]) near = nextafterf(near, INFINITY);
    if ((double)far > x->hi[i]) far = nextafterf(far, -INFINITY);
    if (near > far) near = far = (float)x->lo[i], x->between++;
    x->near[i] = near, x->far[i] = far;
}

/* Sets *out to the box of the case at hand, one of the last eight if equal, else added; VT_E_FORMAT: too many
 * numbers. */
static vt_status add_box(builder *b, int *out, vt_err *e) {
    vt_spec *s = b->s;
    const size_t n = (size_t)s->inputs;
    for (int k = s->n_boxes - 1; k >= 0 && k > s->n_boxes - 9; k--)
        if (!memcmp(s->boxes[k].lo, b->lo + n, n * sizeof *b->lo) &&
            !memcmp(s->boxes[k].hi, b->hi + n, n * sizeof *b->hi)) {
            *out = k;
            return VT_OK;
        }
    if (n > VT_SPEC_NUMBERS / ((size_t)s->n_boxes + 1))
        return vt_fail(e, VT_E_FORMAT, "%s: has more than %d boxes of %zu numbers, 2^26 numbers are read", b->f->path,
                       s->n_boxes, n);
    vt_spec_box *x = &s->boxes[s->n_boxes];
    x->lo = vt_heap_take(&s->heap, n, sizeof *x->lo), x->hi = vt_heap_take(&s->heap, n, sizeof *x->hi);
    x->near = vt_heap_take(&s->heap, n, sizeof *x->near), x->far = vt_heap_take(&s->heap, n, sizeof *x->far);
    if (!x->lo || !x->hi || !x->near || !x->far) return fail_memory(b, e);
    memcpy(x->lo, b->lo + n, n * sizeof *x->lo), memcpy(x->hi, b->hi + n, n * sizeof *x->hi);
    for (size_t i = 0; i < n; i++) round_inwards(x, i);
    *out = s->n_boxes++;
    return VT_OK;
}

/* Writes the rows among a's comparisons (rows NULL: does not); returns how many. */
static int add_rows(const vt_formula_and *a, int *rows) {
    int n = 0;
    for (size_t i = 0; i < a->n; i++)
        if (a->items[i] < 0) {
            if (rows) rows[n] = -1 - a->items[i];
            n++;
        }
    return n;
}

/* Adds the case of b->chosen to the specification, or counts it in n_empty. VT_E_FORMAT: it has no row, or a bound is
 * missing. */
static vt_status add_case(builder *b, vt_err *e) {
    const vt_formula *f = b->f;
    vt_spec *s = b->s;
    const size_t n = (size_t)s->inputs;
    vt_spec_case *c = &s->cases[s->n_cases];
    bool empty;
    c->n = add_rows(&f->always, NULL);
    memcpy(b->lo + n, b->lo, n * sizeof *b->lo), memcpy(b->hi + n, b->hi, n * sizeof *b->hi);
    memcpy(b->lo_line + n, b->lo_line, n * sizeof(int)), memcpy(b->hi_line + n, b->hi_line, n * sizeof(int));
    for (size_t k = 0; k < f->n_choices; k++) {
        apply_bounds(b, b->chosen[k], n);
        c->n += add_rows(b->chosen[k], NULL);
    }
    if (!c->n)
        return vt_fail(e, VT_E_FORMAT, "%s: says nothing about an output Y%s, so that any input would do", f->path,
                       f->n_choices ? " in every case" : "");
    VT_TRY(check_box(b, &empty, e));
    if (empty) {
        s->n_empty++;
        return VT_OK;
    }
    int *rows = vt_heap_take(&s->heap, (size_t)c->n, sizeof *rows), at = 0;
    if (!rows) return fail_memory(b, e);
    at = add_rows(&f->always, rows);
    for (size_t k = 0; k < f->n_choices; k++) at += add_rows(b->chosen[k], rows + at);
    c->rows = rows;
    VT_TRY(add_box(b, &c->box, e));
    s->n_cases++;
    return VT_OK;
}

/* Adds every combination of the choices as a case; VT_E_FORMAT: more than VT_SPEC_CASES, or all are empty. */
static vt_status add_cases(builder *b, vt_err *e) {
    const vt_formula *f = b->f;
    size_t count = 1;
    for (size_t k = 0; k < f->n_choices; k++)
        if ((count *= f->choices[k].n) > VT_SPEC_CASES)
            return vt_fail(e, VT_E_FORMAT, "%s: line %d: its `or`s have more than %d cases together", f->path,
                           f->choices[k].line, VT_SPEC_CASES);
    const size_t n = (size_t)b->s->inputs;
    b->s->boxes = vt_heap_take(&b->s->heap, count, sizeof *b->s->boxes);
    b->s->cases = vt_heap_take(&b->s->heap, count, sizeof *b->s->cases);
    b->lo = calloc(2 * n, sizeof *b->lo), b->hi = calloc(2 * n, sizeof *b->hi);
    b->lo_line = calloc(2 * n, sizeof *b->lo_line), b->hi_line = calloc(2 * n, sizeof *b->hi_line);
    b->chosen = calloc(f->n_choices + 1, sizeof *b->chosen);
    if (!b->s->boxes || !b->s->cases || !b->lo || !b->hi || !b->lo_line || !b->hi_line || !b->chosen)
        return fail_memory(b, e);
    apply_bounds(b, &f->always, 0);
    for (size_t i = 0; i < count; i++) { /* the last choice changes fastest */
        size_t rest = i;
        for (size_t k = f->n_choices; k-- > 0; rest /= f->choices[k].n)
            b->chosen[k] = &f->choices[k].ands[rest % f->choices[k].n];
        VT_TRY(add_case(b, e));
    }
    if (!b->s->n_cases) return vt_fail(e, VT_E_FORMAT, "%s: its box is empty: %s", f->path, b->empty);
    return VT_OK;
}

/* Sets s's inputs, outputs, boxes, cases, rows and terms from the formula; VT_E_FORMAT: no case has a box that is not
 * empty. */
static vt_status build_spec(vt_spec *s, const vt_formula *f, vt_err *e) {
    builder b = {.f = f, .s = s};
    s->inputs = f->inputs, s->outputs = f->outputs;
    vt_status st = add_cases(&b, e);
    free(b.lo), free(b.hi), free(b.lo_line), free(b.hi_line), free(b.chosen);
    VT_TRY(st);
    vt_spec_row *rows = vt_heap_take(&s->heap, f->n_rows, sizeof *rows);
    vt_spec_term *terms = vt_heap_take(&s->heap, f->n_terms, sizeof *terms);
    if (!rows || !terms) return fail_memory(&b, e);
    memcpy(rows, f->rows, f->n_rows * sizeof *rows), memcpy(terms, f->terms, f->n_terms * sizeof *terms);
    s->rows = rows, s->terms = terms;
    return VT_OK;
}

vt_status vt_spec_parse(vt_spec **out, const char *text, size_t n, const char *path, vt_err *e) {
    vt_formula f = {.path = path, .text = text, .n = n};
    *out = NULL;
    vt_spec *s = calloc(1, sizeof *s);
    if (!s) return vt_fail(e, VT_E_MEMORY, "%s: no memory to read it", path);
    vt_status st = vt_formula_read(&f, e);
    if (st == VT_OK) st = build_spec(s, &f, e);
    vt_heap_free(&f.heap);
    if (st == VT_OK)
        *out = s;
    else
        vt_spec_close(s);
    return st;
}

vt_status vt_spec_open(vt_spec **out, const char *path, vt_err *e) {
    vt_mapped m;
    *out = NULL;
    VT_TRY(vt_unpacked_open(&m, path, e));
    vt_status s = vt_spec_parse(out, m.n ? (const char *)m.bytes : "", m.n, path, e);
    vt_mapped_close(&m);
    return s;
}

void vt_spec_close(vt_spec *s) {
    if (!s) return;
    vt_heap_free(&s->heap);
    free(s);
}

double vt_spec_row_violation(const vt_spec *s, int row, const double *y) {
    const vt_spec_row *r = &s->rows[row];
    double sum = 0;
    for (int i = 0; i < r->n; i++) sum += s->terms[r->first + i].c * y[s->terms[r->first + i].y];
    const double v = sum - r->limit;
    return v == v ? v : INFINITY;
}

double vt_spec_violation(const vt_spec *s, const vt_spec_case *c, const double *y, int *worst) {
    double most = -INFINITY;
    for (int i = 0; i < c->n; i++) {
        const double v = vt_spec_row_violation(s, c->rows[i], y);
        if (i && v <= most) continue;
        most = v;
        if (worst) *worst = c->rows[i];
    }
    return most;
}
