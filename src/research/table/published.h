/* SPDX-License-Identifier: MIT */
/* Published numbers: a CSV file whose columns are keys (table, training, backbone, method, dataset, attack, ...) and,
 * last, one number: `accuracy` in percent, `points` of accuracy, `relative_time`, a `score` (0 to 100, higher is
 * better), a `gain` in percent, a number of `parameters`, or an `error` (less is better). Lines that begin with # are
 * comments. Facts, never changed: findings about them are listed beside them (table/consistency.h). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "base/status.h"

enum { VT_PUBLISHED_KEYS = 12 };
typedef enum vt_published_unit {
    VT_PERCENT,
    VT_POINTS,
    VT_FACTOR,
    VT_SCORE,
    VT_GAIN,
    VT_COUNT,
    VT_ERROR
} vt_published_unit;

typedef struct vt_published {
    char *path, *text; /* the file, cut into the strings that the cells point at */
    const char *keys[VT_PUBLISHED_KEYS];
    int n_keys;
    vt_published_unit unit;
    struct vt_published_cell {
        const char *at[VT_PUBLISHED_KEYS];
        const char *shown; /* the number as printed */
        double value;
        int line;
    } * cells;
    int n;
} vt_published;

/* Reads a file of published numbers; VT_E_USAGE if it is no such file: another unit (accuracies from 0 to 1), a
 * number out of range, a cell given twice. *out is then NULL. */
vt_status vt_published_open(vt_published **out, const char *path, vt_err *e);
/* Reads published numbers from text [n], which is copied; path names it in errors. Fails as vt_published_open. */
vt_status vt_published_parse(vt_published **out, const char *text, size_t n, const char *path, vt_err *e);
/* Frees it; accepts NULL. */
void vt_published_close(vt_published *p);

/* Index of a key column, -1: none. */
int vt_published_key(const vt_published *p, const char *key);
/* Value of cell i under a key; "": there is no such column, or it is empty. */
const char *vt_published_at(const vt_published *p, int i, const char *key);
/* Whether key is in keys, which ends at NULL. */
bool vt_published_listed(const char *const *keys, const char *key);
/* Whether cells a and b agree in all keys but those in `but`, which ends at NULL. */
bool vt_published_agree(const vt_published *p, int a, int b, const char *const *but);
