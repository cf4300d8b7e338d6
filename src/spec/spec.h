/* SPDX-License-Identifier: MIT */
/* What a VNN-LIB 1.0 file asks: is there an input X in a box for which the outputs Y meet linear conditions? A file is
 * a list of cases, each a box and conditions that must all hold; one case that can be met makes it sat. Bounds are the
 * text's numbers in double. */
#pragma once

#include <stdint.h>
#include "base/status.h"
#include "graph/graph.h"

enum { VT_SPEC_DEPTH = 64, VT_SPEC_CASES = 1 << 16 };
#define VT_SPEC_BYTES ((size_t)1 << 30) /* of a file, unpacked */
#define VT_SPEC_ATOMS                                                                                                  \
    ((size_t)1 << 26) /* comparisons, those of an `and` of `or`s counted as often as they are combined */
#define VT_SPEC_NUMBERS ((size_t)1 << 26) /* of all boxes that differ */
#define VT_SPEC_INPUTS ((size_t)1 << 26)
#define VT_SPEC_OUTPUTS 100000

/* sum of c[k] Y[y[k]] <= limit; of a strict comparison the limit is the next double below. */
typedef struct vt_spec_row {
    int first, n; /* terms */
    double limit;
    int line;
} vt_spec_row;

typedef struct vt_spec_term {
    int y;
    double c;
} vt_spec_term;

/* lo <= X <= hi; near and far are the first and the last float32 within. Where none is, both are lo rounded, which
 * float32 is computed with, and X itself is lo. */
typedef struct vt_spec_box {
    double *lo, *hi;   /* [inputs] */
    float *near, *far; /* [inputs] */
    int between;       /* inputs without a float32 */
} vt_spec_box;

typedef struct vt_spec_case {
    int box;
    const int *rows; /* [n] */
    int n;
} vt_spec_case;

typedef struct vt_spec {
    int inputs, outputs;
    vt_spec_box *boxes;
    vt_spec_case *cases;
    int n_boxes, n_cases, n_empty; /* n_empty: further cases, whose box holds no point */
    const vt_spec_row *rows;
    const vt_spec_term *terms;
    vt_heap heap;
} vt_spec;

/* Reads a file, which may be packed by gzip; vt_spec_parse: n bytes of text. VT_E_FORMAT: "FILE: line L: ...". On
 * failure *out is NULL. */
vt_status vt_spec_open(vt_spec **out, const char *path, vt_err *e);
vt_status vt_spec_parse(vt_spec **out, const char *text, size_t n, const char *path, vt_err *e);
void vt_spec_close(vt_spec *s); /* accepts NULL */

/* Returns the input that a float32 of the box stands for. */
static inline double vt_spec_input(const vt_spec_box *b, int i, float x) {
    return (double)x < b->lo[i] || (double)x > b->hi[i] ? b->lo[i] : (double)x;
}
/* Returns by how much outputs miss a case's conditions: the largest of sum - limit; <= 0: they hold. A sum that is no
 * number gives INFINITY. *worst (may be NULL): the row of it. */
double vt_spec_violation(const vt_spec *s, const vt_spec_case *c, const double *y, int *worst);
double vt_spec_row_violation(const vt_spec *s, int row, const double *y);
