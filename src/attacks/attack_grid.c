/* SPDX-License-Identifier: MIT */
/* Every point of the rotation threat's grid, in a random order, until one breaks the image (Engstrom et al. 2019,
 * "Exploring the Landscape of Spatial Robustness", section 3: grid search; worst of k draws points of this grid, where
 * the authors' code draws from the whole range). */
#include <math.h>
#include <string.h>
#include "attacks/attack.h"

typedef struct params {
    int tries;
} params;

static const vt_opt opts[] = {
    VT_OPT_I_OR("tries", params, tries, "so many points of the grid, drawn without repetition, instead of all", "all",
                0, 0, VT_ROTATION_POINTS),
    VT_OPT_END,
};

/* Returns how many of the grid's points are asked. */
static int point_count(const params *p, int points) { return p->tries && p->tries < points ? p->tries : points; }

static size_t work_len(const void *p, const vt_task *dims) {
    (void)p;
    return dims->rotation ? (size_t)vt_rotation_points(dims->rotation) : 0;
}

/* Asks the points in the order of a shuffle by the attack's key; t->x_adv: the one of the largest margin. */
static vt_status run(vt_oracle *o, const void *params_, const vt_task *t) {
    float *next = t->work, *z = next + t->n, worst = -INFINITY;
    int32_t *order = (int32_t *)(void *)(z + t->classes);
    const int points = vt_rotation_points(t->rotation), n = point_count(params_, points);
    vt_rng r = t->rng;
    r.run = r.step = 0;
    for (int i = 0; i < points; i++) order[i] = i;
    for (int i = 0; i < n; i++) {
        const int k = i + (int)vt_rng_below(&r, (uint64_t)i, (uint32_t)(points - i)), point = order[k];
        order[k] = order[i];
        vt_rotation_apply(next, t->x, t->shape, vt_rotation_point(t->rotation, point));
        VT_TRY(vt_oracle_logits(o, next, z));
        const float margin = vt_oracle_margin(o, z);
        if (i && !(margin > worst)) continue;
        worst = margin;
        memcpy(t->x_adv, next, t->n * sizeof *next);
    }
    return VT_OK;
}

VT_COST(params, .forwards = point_count(p, d->points))

const vt_attack_def vt_attack_def_grid = {
    .name = "grid",
    .summary = "every rotation and translation of the threat's grid; black-box, exact for the grid",
    .reference = "Engstrom et al. 2019, section 3, grid search",
    .norms = VT_CAN_ROTATION,
    .traits = VT_FROM_LABELS,
    .work_len = work_len,
    VT_ATTACK_CODE(params, .images = 1, .logits = 1),
};
