/* SPDX-License-Identifier: MIT */
/* The oracle's 8-bit threat: queries rounded to the grid, and the search for a rounding that stays misclassified. */
#include <math.h>
#include <string.h>
#include "attacks/oracle.h"

vt_status vt_oracle_try_rounded(vt_oracle *o, const float *x, float margin) {
    vt_grid8 *l = o->eight_bit;
    if (l->searching || (l->has_best && !(margin > l->best_margin))) return VT_OK;
    memcpy(l->best, x, l->n * sizeof(float));
    l->has_best = true, l->best_margin = margin;
    vt_grid8_round(l, l->q, x, VT_ROUND_NEAREST, NULL);
    return vt_oracle_levels(o, l->q, false, &margin);
}

vt_status vt_oracle_levels(vt_oracle *o, const uint8_t *q, bool keep, float *margin) {
    vt_grid8 *l = o->eight_bit;
    vt_grid8_floats(l, l->x, q);
    VT_TRY(vt_oracle_forward(o, l->x, NULL, keep));
    o->forwards++;
    if (!vt_all_finite(o->own.z, o->model->classes)) return vt_oracle_fail_not_finite(o, l->x);
    *margin = vt_oracle_margin(o, o->own.z);
    if (!l->has_point || *margin > l->point_margin) {
        memmove(l->point, q, l->n);
        l->has_point = true, l->point_margin = *margin;
    }
    return vt_oracle_reached(o, o->own.z) && vt_grid8_contains(l, q) ? vt_oracle_keep(o, l->x, *margin) : VT_OK;
}

/* Returns the key of draw k of roundings: the attack's, under another purpose, run 0, step k. */
static vt_rng draw_key(const vt_rng *attack, int k) {
    vt_rng r = *attack;
    r.purpose += vt_rng_purpose("8-bit rounding");
    r.run = 0, r.step = (uint32_t)k;
    return r;
}

/* Tries the best query rounded away from the centre, then VT_ROUNDING_DRAWS random roundings of it. */
static vt_status other_roundings(vt_oracle *o, const vt_rng *attack) {
    vt_grid8 *l = o->eight_bit;
    float margin;
    vt_grid8_round(l, l->q, l->best, VT_ROUND_AWAY, NULL);
    VT_TRY(vt_oracle_levels(o, l->q, false, &margin));
    for (int k = 0; k < VT_ROUNDING_DRAWS; k++) {
        vt_rng key = draw_key(attack, k);
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

/* Searches from the best point met, then from roundings drawn anew, while there are gradients. VT_STOP: a query ended
 * the image. */
static vt_status climb_with_restarts(vt_oracle *o, const vt_rng *attack) {
    vt_grid8 *l = o->eight_bit;
    int left = VT_ROUNDING_GRADIENTS;
    float margin = l->point_margin;
    memcpy(l->p, l->point, l->n);
    for (int k = VT_ROUNDING_DRAWS; left > 0; k++) {
        VT_TRY(climb_margin(o, margin, l->slope, &left));
        vt_rng key = draw_key(attack, k);
        vt_grid8_round(l, l->p, l->best, VT_ROUND_DRAWN, &key);
        if (left > 0) VT_TRY(vt_oracle_levels(o, l->p, true, &margin));
    }
    return VT_OK;
}

/* A climb tries at most log2(2 n) + 1 steps that halve from 1 down to half an entry, and two more for each gradient:
 * one that helps, and the halving that undoes its doubling. */
int vt_rounding_forwards(size_t n, bool gradients) {
    int halvings = 1;
    while ((size_t)1 << halvings < 2 * n) halvings++;
    return 1 + VT_ROUNDING_DRAWS + (gradients ? VT_ROUNDING_GRADIENTS * (halvings + 3) : 0);
}

vt_status vt_search_rounding(vt_oracle *o, const vt_rng *attack, float *x_adv) {
    vt_grid8 *l = o->eight_bit;
    vt_status st = VT_OK;
    l->searching = true;
    if (o->mode == VT_ORACLE_SEARCH && l->has_best) {
        st = other_roundings(o, attack);
        if (st == VT_OK && o->gradients_allowed) st = climb_with_restarts(o, attack);
    }
    l->searching = false;
    if (st != VT_OK) return st;
    if (o->mode != VT_ORACLE_SEARCH || !l->has_point) vt_grid8_round(l, l->q, x_adv, VT_ROUND_NEAREST, NULL);
    vt_grid8_floats(l, x_adv, o->mode != VT_ORACLE_SEARCH || !l->has_point ? l->q : l->point);
    return VT_OK;
}
