/* SPDX-License-Identifier: MIT */
#include "attacks/requantise.h"

#include <math.h>
#include <string.h>

/* The draws' own key: the attack's, under another purpose. */
static vt_rng draw_key(const vt_task *t, int k) {
    vt_rng r = t->rng;
    r.purpose += vt_rng_purpose("8-bit rounding");
    r.run = 0, r.step = (uint32_t)k;
    return r;
}

static vt_status other_roundings(vt_oracle *o, const vt_task *t) {
    vt_grid8 *l = o->eight_bit;
    float margin;
    vt_grid8_round(l, l->q, l->best, VT_ROUND_AWAY, NULL);
    VT_TRY(vt_oracle_levels(o, l->q, false, &margin));
    for (int k = 0; k < VT_REQUANTISE_DRAWS; k++) {
        vt_rng key = draw_key(t, k);
        vt_grid8_round(l, l->q, l->best, VT_ROUND_DRAWN, &key);
        VT_TRY(vt_oracle_levels(o, l->q, false, &margin));
    }
    return VT_OK;
}

/* Climbs the margin from l->p, whose margin is `here`: steps that double while they help and halve while they do not;
 * up to where no step helps, or the gradients are spent. g [n]. */
static vt_status climb_margin(vt_oracle *o, float here, float *g, int *left) {
    vt_grid8 *l = o->eight_bit;
    float margin, value;
    double step = 1;
    vt_loss loss = vt_oracle_loss(o, VT_LOSS_MARGIN);
    for (bool moved = true; moved && *left > 0;) {
        vt_grid8_floats(l, l->x, l->p);
        VT_TRY(vt_oracle_gradient(o, l->x, &loss, NULL, &value, g));
        (*left)--;
        moved = false;
        for (; !moved && step * (double)l->n > 0.5; step *= moved ? 2 : 0.5) {
            if (!vt_grid8_step(l, l->q, l->p, g, step)) continue;
            VT_TRY(vt_oracle_levels(o, l->q, true, &margin));
            moved = margin > here;
            if (moved) memcpy(l->p, l->q, l->n), here = margin;
        }
        step = fmin(step, 2 * l->reach); /* from one border to the other */
    }
    return VT_OK;
}

/* From the best point met, then from roundings drawn anew, while there are gradients. */
static vt_status climb_with_restarts(vt_oracle *o, const vt_task *t) {
    vt_grid8 *l = o->eight_bit;
    int left = VT_REQUANTISE_GRADIENTS;
    float margin = l->point_margin;
    memcpy(l->p, l->point, l->n);
    for (int k = VT_REQUANTISE_DRAWS; left > 0; k++) {
        VT_TRY(climb_margin(o, margin, l->slope, &left));
        vt_rng key = draw_key(t, k);
        vt_grid8_round(l, l->p, l->best, VT_ROUND_DRAWN, &key);
        if (left > 0) VT_TRY(vt_oracle_levels(o, l->p, true, &margin));
    }
    return VT_OK;
}

vt_status vt_requantise(vt_oracle *o, const vt_task *t) {
    vt_grid8 *l = o->eight_bit;
    vt_status st = VT_OK;
    l->searching = true;
    if (o->mode == VT_ORACLE_SEARCH && l->has_best) {
        st = other_roundings(o, t);
        if (st == VT_OK && o->gradients_allowed) st = climb_with_restarts(o, t);
    }
    l->searching = false;
    if (st != VT_OK) return st;
    if (o->mode != VT_ORACLE_SEARCH || !l->has_point) vt_grid8_round(l, l->q, t->x_adv, VT_ROUND_NEAREST, NULL);
    vt_grid8_floats(l, t->x_adv, o->mode != VT_ORACLE_SEARCH || !l->has_point ? l->q : l->point);
    return VT_OK;
}
