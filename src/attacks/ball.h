/* SPDX-License-Identifier: MIT */
/* The feasible set of one image: |x' - x|_p <= eps and 0 <= x' <= 1, exactly: the norm of the stored float32 values,
 * computed in double, has no tolerance. eps in pixel units. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "base/rand.h"

/* l0 is no norm: the number of values that differ, whatever their size; a pixel has three. VT_NORM_PATCH,
 * VT_NORM_BOX and VT_NORM_ROTATION stand for the patch threat, bounds of each value and a grid of rotations in a norm's
 * place (vt_attack_parse). */
typedef enum vt_norm {
    VT_LINF,
    VT_L2,
    VT_L1,
    VT_L0,
    VT_NORM_COUNT,
    VT_NORM_PATCH = VT_NORM_COUNT,
    VT_NORM_BOX,
    VT_NORM_ROTATION
} vt_norm;
const char *vt_norm_name(vt_norm n); /* "linf", "l2", "l1", "l0" */
/* Sets *out to the norm of that name, in capitals or not; false, and *out stays: there is none. */
bool vt_norm_find(const char *name, vt_norm *out);
vt_norm vt_norm_dual(vt_norm n); /* linf and l1 are each other's, l2 is its own; l0 has none, and is given itself */

/* What an entry's verdicts are about: points of the ball; its points of 8 bits (after the same attack's entry in
 * floats); whatever the point of a paper's evaluator, which is scored as the paper did. */
#define VT_SCORING_LIST(X) X(BALL, "ball") X(EIGHT_BIT, "8-bit") X(PUBLISHED, "as published")
typedef enum vt_scoring {
#define VT_SCORING_ENUM(id, text) VT_SCORE_##id,
    VT_SCORING_LIST(VT_SCORING_ENUM)
#undef VT_SCORING_ENUM
        VT_SCORING_COUNT
} vt_scoring;
/* Returns "ball", "8-bit" or "as published"; "?" for any other number. */
const char *vt_scoring_name(vt_scoring s);
vt_scoring vt_scoring_find(const char *name); /* VT_SCORE_BALL for any other text */

typedef struct vt_ball {
    vt_norm norm;
    double eps;
    size_t n;
    const float *x;       /* [n] centre */
    const float *lo, *hi; /* [n] largest box of floats inside: linf ball and [0,1] (other norms: [0,1] alone) */
    bool box;             /* lo and hi are the threat itself: random starts are uniform between them */
    double floor;         /* added to the length that vt_ball_step divides by in l2: 0, or what an authors' code adds */
    const struct vt_squares *squares; /* a patch threat's, in which lo and hi are 0 and 1 (attacks/patch.h), or NULL */
} vt_ball;

/* Makes the ball of radius eps around x [n]. lo, hi: [n] buffers that the ball keeps. */
void vt_ball_init(vt_ball *b, vt_norm norm, double eps, const float *x, size_t n, float *lo, float *hi);
/* Makes the box from lo to hi [n], which it keeps and x [n] lies in: linf, its radius the furthest bound's distance. */
void vt_ball_box(vt_ball *b, const float *x, size_t n, const float *lo, const float *hi);

/* Returns |a - b| in the norm, in double. */
double vt_distance(vt_norm norm, const float *a, const float *b, size_t n);
/* Returns |v|, v [n], in the norm, in double. */
double vt_length(vt_norm norm, const float *v, size_t n);
/* Returns whether x [n] lies in the ball and in its box, without tolerance; false for NaN. */
bool vt_ball_contains(const vt_ball *b, const float *x);

/* Projects x [n] <- nearest point by the attacks' convention: linf clamps; l2 scales the difference to length eps, then
 * clips to the box, then removes what rounding to float32 left outside; l1 the nearest point of ball and box
 * (vt_l1_project); l0 keeps the eps values that differ most (of equal ones the first), clips them, and takes the others
 * back. */
void vt_ball_project(const vt_ball *b, float *x);
/* Sets x <- x + step, projected. */
void vt_ball_move(const vt_ball *b, float *x, const float *step);

/* Draws out = a point of the ball: linf x + eps t / max|t| (t uniform in [-1,1]); l2 and l1 x + eps t / |t| (t normal);
 * projected. APGD's start in linf and l2 (AutoAttack's autopgd_base.py), FAB's at half the radius in all (its
 * fab_base.py). In boxes, here and in start_inside: uniform. */
void vt_ball_start_surface(const vt_ball *b, const vt_rng *r, float *out);
/* Draws out = x + t (t normal), projected: APGD's start in l1 (Croce and Hein 2021, section 3). */
void vt_ball_start_projected(const vt_ball *b, const vt_rng *r, float *out);
/* Draws out = x + uniform in [-eps, eps] per element; l2 and l1: normal direction, radius eps U[0,1] (torchattacks'
 * convention for l2). */
void vt_ball_start_inside(const vt_ball *b, const vt_rng *r, float *out);

/* Computes the ascent direction: out = sign(g) (0 stays 0), or g / |g| whatever its length (0 where that is 0), or for
 * l1 sign(g) / k on the k entries of the largest hundredth of |g| (Tramer and Boneh 2019, SLIDE, their 99th
 * percentile); times step. */
void vt_ball_step(const vt_ball *b, float *out, const float *g, double step);

/* ---- l1: the projection onto ball and box together, and sparse steps ---- */

/* Sets x [n] <- its nearest point (Euclidean) of {|x' - centre|_1 <= eps, 0 <= x' <= 1}; centre [n] in [0,1]. Solved in
 * double, each value rounded to the nearest float; what the sum then lies above eps is taken off in single units in the
 * last place. eps is kept by a margin that covers the rounding of a sum of n doubles in any order. Croce and Hein 2021,
 * "Mind the box", proposition 2.1, solved without sorting. NaN goes to the centre. */
void vt_l1_project(float *x, const float *centre, size_t n, double eps);

/* Sets out [n] = step sign(g) / k on the `count` (1 to n) entries of largest |g|, more where the last of them are tied,
 * 0 elsewhere; k of them are not 0. */
void vt_l1_sparse_step(float *out, const float *g, size_t n, size_t count, double step);

/* Sets g [n] <- 0 where a step along sign(g) from x [n] would leave the box at once: else a sparse step spends itself
 * there again and again. */
void vt_l1_drop_blocked(float *g, const float *x, size_t n);

/* Entries that differ by more than rounding leaves; the authors' code of L1-APGD counts that too. */
size_t vt_l1_moved(const float *a, const float *b, size_t n);
/* Returns how many entries a step changes: of those changed so far, two thirds (Croce and Hein 2021, section 3).
 * Rounded down; rounded up, as in the authors' code, two entries would stay two for ever. */
size_t vt_l1_two_thirds(size_t entries);
