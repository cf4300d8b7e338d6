/* SPDX-License-Identifier: MIT */
/* Accuracy over eps: per image the smallest norm at which any attack broke it, from a ledger of minimum-norm attacks
 * and of attacks at chosen eps. A pure function of the ledger, whose norms are the judge's (verify.h). */
#pragma once

#include <stdio.h>
#include "attacks/ball.h"
#include "eval/ledger.h"

typedef struct vt_curve_entry {
    const char *name, *id; /* from the header */
    const char *eps_text;  /* NULL: a minimum-norm attack */
    double eps;            /* INFINITY: a minimum-norm attack */
    int64_t tried, found;
    int64_t gradients, forwards;
    int64_t vanished, not_finite; /* images, as in vt_record */
} vt_curve_entry;

typedef struct vt_curve_image {
    int32_t image, label, pred;
    bool right, borderline; /* borderline: of the point at `distance` */
    double distance;        /* smallest norm found, 0 when wrong, INFINITY: none */
    double unconfirmed;     /* of the minimum-norm attacks alone */
    int entry;              /* that found it; -1: none */
} vt_curve_image;

/* The curve falls at eps = points[i].eps, or attacks were run there. */
typedef struct vt_curve_point {
    double eps;
    int64_t robust;   /* images right and unbroken within eps */
    int64_t broken;   /* images that fall at this very eps; at 0: the wrong ones */
    int entry;        /* that broke them (the first of several); -1: none */
    bool confirmed;   /* attacks of this radius were run on the images that stood */
    double low, high; /* 95 % Wilson interval in percent */
} vt_curve_point;

typedef struct vt_curve {
    const vt_header *header;
    vt_norm norm;
    size_t n, right, n_points;
    vt_curve_image *images; /* ascending */
    double *norms;          /* [n, entries] what each entry found; INFINITY: nothing, or not tried */
    vt_curve_entry *entries;
    int n_entries;
    vt_curve_point *points; /* ascending eps, from 0 */
} vt_curve;

/* Makes the curve of a ledger, which must outlive it. VT_E_MEMORY: nothing is left to free. */
vt_status vt_curve_make(vt_curve *c, const vt_ledger *l, vt_err *e);
/* Frees the curve and zeroes it; accepts a zeroed one. */
void vt_curve_free(vt_curve *c);

/* Returns the number of images that are right and that no attack broke within eps (in the curve's norm, pixels in
 * [0,1]). */
int64_t vt_curve_robust(const vt_curve *c, double eps);
/* Returns the number of images that are right and that no minimum-norm attack broke within eps. */
int64_t vt_curve_unconfirmed(const vt_curve *c, double eps);
/* Returns the median norm that entry k found over the right images, those it did not break counted as infinite; NaN: no
 * image, or no memory. */
double vt_curve_median(const vt_curve *c, int k);

/* Returns points and every image's norms (docs/formats.md); NULL: no memory. */
json_t *vt_curve_json(const vt_curve *c);
/* Writes dir/curve.csv, a line for each point, and dir/curve.json. After a failure the first may be there alone. */
vt_status vt_curve_write(const vt_curve *c, const char *dir, vt_err *e);
