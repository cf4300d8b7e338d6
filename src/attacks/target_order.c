/* SPDX-License-Identifier: MIT */
#include "attacks/target_order.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Returns the class at rank 1, 2, ... of z [classes], the largest first; of equal logits the higher index first. 0: no
 * such rank. */
static int class_at(const float *z, int classes, int rank) {
    for (int k = 0; k < classes; k++) {
        int above = 0;
        for (int j = 0; j < classes; j++) above += z[j] > z[k] || (z[j] == z[k] && j > k);
        if (above == rank - 1) return k;
    }
    return 0;
}

int vt_target_of_rank(const float *z, int classes, int label, int rank) {
    int t = class_at(z, classes, rank);
    return t != label ? t : class_at(z, classes, 1);
}

vt_loss vt_target_difference(const vt_task *t, int k, float *cotangent) {
    memset(cotangent, 0, (size_t)t->classes * sizeof(float));
    cotangent[k] = 1, cotangent[t->label] = -1;
    return (vt_loss){.kind = VT_LOSS_LINEAR, .target = cotangent};
}

/* Tells whether class k is among the candidates, by how many wrong classes have a larger logit. */
static bool is_candidate(const float *z, int classes, int label, int k) {
    int above = 0;
    for (int j = 0; j < classes; j++) above += j != label && j != k && (z[j] > z[k] || (z[j] == z[k] && j > k));
    return k != label && above < VT_MALT_CANDIDATES;
}

/* Computes merit [classes] by MALT's linear distances, one forward and a gradient for each candidate; z: room for 2
 * classes + n floats. */
static vt_status compute_malt_merits(vt_oracle *o, const vt_task *t, float *merit, float *z) {
    float *cotangent = z + t->classes, *g = cotangent + t->classes, value;
    vt_norm dual = vt_norm_dual(t->ball->norm);
    VT_TRY(vt_oracle_logits(o, t->x, z));
    for (int k = 0; k < t->classes; k++) {
        merit[k] = k == t->label ? INFINITY : -INFINITY;
        if (!is_candidate(z, t->classes, t->label, k)) continue;
        vt_loss loss = vt_target_difference(t, k, cotangent);
        VT_TRY(vt_oracle_gradient(o, t->x, &loss, NULL, &value, g));
        double length = vt_length(dual, g, t->n);
        merit[k] = length > 0 ? (float)(((double)z[k] - (double)z[t->label]) / length) : -FLT_MAX;
    }
    return VT_OK;
}

vt_status vt_target_merits(vt_oracle *o, const vt_task *t, int choose, float *merit) {
    if (choose == VT_BY_MALT && o->goal < 0) return compute_malt_merits(o, t, merit, merit + t->classes);
    return vt_oracle_logits(o, t->x, merit);
}

vt_passes vt_target_cost(int choose, const vt_cost_dims *d) {
    bool malt = choose == VT_BY_MALT && !d->aimed;
    return (vt_passes){.forwards = 1, .gradients = malt ? fmin(d->classes - 1, VT_MALT_CANDIDATES) : 0};
}

int vt_target_at(const vt_oracle *o, const vt_task *t, const float *merit, int r) {
    return o->goal >= 0 ? o->goal : vt_target_of_rank(merit, t->classes, t->label, r + 1);
}

int vt_target_count(int asked, int classes, bool aimed) {
    return aimed ? 1 : asked < classes - 1 ? asked : classes - 1;
}
