/* SPDX-License-Identifier: MIT */
/* The feasible set of one image: |x' - x|_p <= eps and 0 <= x' <= 1, exactly: the norm of the stored float32 values,
 * computed in double, has no tolerance. eps in pixel units. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "base/rand.h"

/* l0 is no norm: the number of values that differ, whatever their size; a pixel has three. VT_NORM_PATCH stands for the
 * patch threat in a norm's place (vt_attack_parse). */
typedef enum vt_norm { VT_LINF, VT_L2, VT_L1, VT_L0, VT_NORM_COUNT, VT_NORM_PATCH = VT_NORM_COUNT } vt_norm;
const char *vt_norm_name(vt_norm n); /* "linf", "l2", "l1", "l0" */
bool vt_norm_find(const char *name, vt_norm *out);
vt_norm vt_norm_dual(vt_norm n); /* linf and l1 are each other's, l2 is its own; l0 has none, and is given itself */

typedef struct vt_ball {
    vt_norm norm;
    double eps;
    size_t n;
    const float *x;       /* [n] centre */
    const float *lo, *hi; /* [n] largest box of floats inside: linf ball and [0,1] (other norms: [0,1] alone) */
    double floor;         /* added to the length that vt_ball_step divides by in l2: 0, or what an authors' code adds */
    const struct vt_squares *squares; /* a patch threat's, in which lo and hi are 0 and 1 (attacks/patch.h), or NULL */
} vt_ball;

/* lo, hi: [n] buffers that the ball keeps. */
void vt_ball_init(vt_ball *b, vt_norm norm, double eps, const float *x, size_t n, float *lo, float *hi);

/* |a - b| in the norm, in double. */
double vt_distance(vt_norm norm, const float *a, const float *b, size_t n);
double vt_length(vt_norm norm, const float *v, size_t n);
bool vt_ball_contains(const vt_ball *b, const float *x);

/* x <- nearest point by the attacks' convention: linf clamps; l2 scales the difference to length eps, then clips to
 * the box, then removes what rounding to float32 left outside; l1 the nearest point of ball and box (attacks/l1.h); l0
 * keeps the eps values that differ most (of equal ones the first), clips them, and takes the others back. */
void vt_ball_project(const vt_ball *b, float *x);
/* x <- x + step, projected. */
void vt_ball_move(const vt_ball *b, float *x, const float *step);

/* out = a point of the ball: linf x + eps t / max|t| (t uniform in [-1,1]); l2 and l1 x + eps t / |t| (t normal);
 * projected. APGD's start in linf and l2 (AutoAttack's autopgd_base.py), FAB's at half the radius in all (its
 * fab_base.py). In squares, here and in start_inside: uniform. */
void vt_ball_start_surface(const vt_ball *b, const vt_rng *r, float *out);
/* out = x + t (t normal), projected: APGD's start in l1 (Croce and Hein 2021, section 3). */
void vt_ball_start_projected(const vt_ball *b, const vt_rng *r, float *out);
/* out = x + uniform in [-eps, eps] per element; l2 and l1: normal direction, radius eps U[0,1] (torchattacks'
 * convention for l2). */
void vt_ball_start_inside(const vt_ball *b, const vt_rng *r, float *out);

/* The ascent direction: out = sign(g) (0 stays 0), or g / |g| whatever its length (0 where that is 0), or for l1
 * sign(g) / k on the k entries of the largest hundredth of |g| (Tramer and Boneh 2019, SLIDE, their 99th percentile);
 * times step. */
void vt_ball_step(const vt_ball *b, float *out, const float *g, double step);
