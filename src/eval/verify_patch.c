/* SPDX-License-Identifier: MIT */
/* The judge of patch threats: exact search for squares that cover every pixel that changed, by its own means (it does
 * not ask where the attack put them). */
#include <stdint.h>
#include <string.h>
#include "eval/verify.h"

#define NODES_MOST 2000000 /* squares tried; past them the answer is no (a true patch is found at the first try) */

typedef struct cover {
    const float *x, *x_adv;
    vt_shape shape;
    int size, grid;
    long nodes;
    vt_square placed[VT_PATCH_MOST];
    int n;
} cover;

static bool is_changed_pixel(const cover *c, int y, int x) {
    size_t area = vt_shape_plane(c->shape), at = (size_t)y * (size_t)c->shape.width + (size_t)x;
    for (size_t k = 0; k < (size_t)c->shape.channels; k++)
        if (c->x[k * area + at] != c->x_adv[k * area + at]) return true;
    return false;
}

static bool is_covered_pixel(const cover *c, int y, int x) {
    for (int k = 0; k < c->n; k++) {
        vt_square s = c->placed[k];
        if (y >= s.y && y < s.y + c->size && x >= s.x && x < s.x + c->size) return true;
    }
    return false;
}

/* The first pixel, row by row, that changed and no square covers. */
static bool next_open(const cover *c, vt_square *out) {
    for (int y = 0; y < c->shape.height; y++)
        for (int x = 0; x < c->shape.width; x++)
            if (is_changed_pixel(c, y, x) && !is_covered_pixel(c, y, x)) {
                *out = (vt_square){y, x};
                return true;
            }
    return false;
}

/* Nothing open lies above the first open pixel, so its square may as well begin in its row (or as low as the grid
 * allows); every column from which it reaches the pixel is tried, the pixel's own first. A square that hangs over the
 * border covers no more than one that is moved inside. */
static bool is_coverable_by(cover *c, int left) {
    vt_square open;
    if (!next_open(c, &open)) return true;
    if (!left) return false;
    int y = open.y / c->grid * c->grid;
    for (int x = open.x / c->grid * c->grid; x >= 0 && x > open.x - c->size; x -= c->grid) {
        if (++c->nodes > NODES_MOST) return false;
        c->placed[c->n++] = (vt_square){y, x};
        bool done = is_coverable_by(c, left - 1);
        c->n--;
        if (done) return true;
    }
    return false;
}

void vt_verify_patch(vt_verdict *v, const float *x, const float *x_adv, vt_shape shape, const vt_patch *p) {
    cover c = {.x = x, .x_adv = x_adv, .shape = shape, .size = p->size, .grid = p->grid};
    if (v->inside && is_coverable_by(&c, p->count)) return;
    v->inside = v->broken = v->borderline = false;
}
