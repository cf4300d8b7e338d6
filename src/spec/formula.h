/* SPDX-License-Identifier: MIT */
/* A VNN-LIB file as it is read: comparisons of one input with a number (bounds) or of outputs (rows), and which of them
 * must hold together. For src/spec alone. */
#pragma once

#include "spec/spec.h"

/* X_x >= value, or <= (upper). */
typedef struct vt_formula_bound {
    int x, line;
    bool upper;
    double value;
} vt_formula_bound;

/* Comparisons that all hold: k >= 0 is bound k, k < 0 is row -1 - k. */
typedef struct vt_formula_and {
    int *items;
    size_t n, room;
} vt_formula_and;

/* One of these holds. */
typedef struct vt_formula_or {
    vt_formula_and *ands;
    size_t n, room;
    int line;
} vt_formula_or;

typedef struct vt_formula {
    const char *path, *text;
    size_t n; /* of the text */
    int inputs, outputs;
    vt_formula_bound *bounds;
    vt_spec_row *rows;
    vt_spec_term *terms;
    size_t n_bounds, n_rows, n_terms;
    vt_formula_and always; /* what every case has */
    vt_formula_or *choices;
    size_t n_choices, room_choices;
    vt_heap heap; /* of all of it */
} vt_formula;

/* Reads the text into *f, whose path, text and n are given, the rest zero. VT_E_FORMAT: "PATH: line L: ...". f->heap is
 * to be freed in any case. */
vt_status vt_formula_read(vt_formula *f, vt_err *e);
/* Makes room for one more of n items in `array` (a pointer to its pointer), which moves them to twice the *room. false:
 * no memory. */
bool vt_formula_grow(vt_heap *h, void *array, size_t n, size_t *room, size_t item);
