/* SPDX-License-Identifier: MIT */
/* The 8-bit threat: adversarial images whose every value is k/255, as a picture file holds them. A point is bytes [n];
 * distances are counted in levels, in whole numbers: two neighbours k/255 and (k+1)/255 as float32 are often 1/255
 * apart only up to 2^-25, so that half of the points at eps = n/255 would fall out of the float ball. eps is in pixel
 * units: linf |k' - k| <= 255 eps, l2 the sum of (k' - k)^2 <= (255 eps)^2, l1 the sum of |k' - k| <= 255 eps. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "attacks/ball.h"
#include "base/status.h"

/* 255 eps is a rounded product: what lies nearer to a whole number than this share of it is that number. */
#define VT_LEVELS_SLACK 1e-12

typedef struct vt_level_move {
    float key;
    uint32_t at;
} vt_level_move;

/* The points around one image, and what an attack has met there (used by oracle_8bit.c). */
typedef struct vt_grid8 {
    size_t n;
    vt_norm norm;
    int64_t most;             /* of the norm's sum: levels, squared levels, levels */
    int reach;                /* levels that one entry may be away from the centre */
    uint8_t *clean, *lo, *hi; /* [n] centre, and the box: linf ball or free squares, within 0 and 255 */
    float *best, best_margin; /* [n] the misclassified float query of the largest margin */
    uint8_t *point;           /* [n] the grid point of the largest margin */
    float point_margin;       /* of point */
    bool has_best, has_point;
    bool searching;       /* vt_search_rounding is at work: its own points are not rounded again */
    uint8_t *q, *p;       /* [n] scratch */
    float *x, *slope;     /* [n] scratch: q as floats; what an entry's move is worth */
    vt_level_move *moves; /* [n] scratch */
} vt_grid8;

/* Allocates the buffers for points of n values; VT_E_MEMORY leaves nothing to close. */
vt_status vt_grid8_open(vt_grid8 *l, size_t n, vt_err *e);
void vt_grid8_close(vt_grid8 *l); /* accepts a zeroed one */

/* Returns the largest sum of a point inside: 255 eps, in l2 its square, rounded down with VT_LEVELS_SLACK (eps = n/255
 * gives n); below 1 only the centre is. */
int64_t vt_grid8_most(vt_norm norm, double eps);
/* Begins a new ball, of a norm or of squares: forgets all that was met. VT_E_RANGE: a value of its centre is no k/255;
 * l is to be aimed anew. */
vt_status vt_grid8_aim(vt_grid8 *l, const vt_ball *b);
/* Returns whether q [n] lies in the box and the norm's ball. */
bool vt_grid8_contains(const vt_grid8 *l, const uint8_t *q);
/* Sets x [n] = q / 255, as data sets make their images. */
void vt_grid8_floats(const vt_grid8 *l, float *x, const uint8_t *q);

typedef enum vt_rounding {
    VT_ROUND_NEAREST,
    VT_ROUND_AWAY, /* from the centre */
    VT_ROUND_DRAWN /* up with the fraction's probability */
} vt_rounding;

/* Sets q = x rounded, inside: linf clamps; in l2 and l1 entries go back to the centre by levels, those first that lose
 * least (squared distance to x) for what the norm's sum gains. rng: keys VT_ROUND_DRAWN's draws. */
void vt_grid8_round(vt_grid8 *l, uint8_t *q, const float *x, vt_rounding how, const vt_rng *rng);
/* Sets q = p after a step along gradient g [n]: t >= 1: every entry by t levels; below, the share t of those that can
 * move, of the largest |g|, by one. Moved inside as by vt_grid8_round, losing |g|. false: q equals p. */
bool vt_grid8_step(vt_grid8 *l, uint8_t *q, const uint8_t *p, const float *g, double t);
