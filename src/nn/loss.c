/* SPDX-License-Identifier: MIT */
#include "nn/loss.h"

#include <math.h>

const char *const VT_R(vt_loss_names)[VT_LOSS_COUNT] = {
#define VT_LOSS_NAME(id, name, text) name,
    VT_LOSS_LIST(VT_LOSS_NAME)
#undef VT_LOSS_NAME
};

int VT_R(vt_argmax)(const real *z, int classes) {
    int best = 0;
    for (int k = 1; k < classes; k++)
        if (z[k] > z[best]) best = k;
    return best;
}

int VT_R(vt_best_other)(const real *z, int y, int classes) {
    int best = y == 0 ? 1 : 0;
    for (int k = best + 1; k < classes; k++)
        if (k != y && z[k] > z[best]) best = k;
    return best;
}

real VT_R(vt_margin)(const real *z, int y, int classes) { return z[VT_R(vt_best_other)(z, y, classes)] - z[y]; }

/* Indices of the four largest logits (fewer when there are fewer classes), descending. */
static void find_four_largest(int idx[4], const real *z, int classes) {
    int n = 0;
    for (int k = 0; k < classes; k++) {
        int at = n < 4 ? n : 4;
        while (at > 0 && z[k] > z[idx[at - 1]]) at--;
        if (at >= 4) continue;
        for (int j = n < 3 ? n : 3; j > at; j--) idx[j] = idx[j - 1];
        idx[at] = k;
        if (n < 4) n++;
    }
}

/* sum_k t_k (lse - z_k), dz_j = (sum_k t_k) p_j - t_j. In double for both precisions: K terms cost nothing, and
 * p_y - 1 of a confident image cancels in float. */
static real cross_entropy(real *dz, const float *t, const real *z, int classes) {
    double top = (double)z[VT_R(vt_argmax)(z, classes)], sum = 0, mass = 0, value = 0;
    for (int k = 0; k < classes; k++) sum += exp((double)z[k] - top);
    double lse = log(sum);
    for (int k = 0; k < classes; k++) {
        mass += (double)t[k];
        if (t[k] != 0) value += (double)t[k] * (lse - ((double)z[k] - top));
    }
    if (dz)
        for (int k = 0; k < classes; k++) dz[k] = (real)(mass * exp((double)z[k] - top) / sum - (double)t[k]);
    return (real)value;
}

/* -(z_y - z_m) / D with D = z[a] - (z[b] + z[c])/2 (b = c: one entry), or 1e-12 where that is 0 (the authors add it
 * everywhere, which logits of that size would feel and others do not); D = 1 when a < 0.
 * With N = z_y - z_m:  d/dz = -(e_y - e_m)/D + N/D^2 (e_a - e_b/2 - e_c/2); indices may coincide, so accumulate. */
static real logit_ratio_loss(real *dz, const real *z, int y, int m, int a, int b, int c) {
    real num = z[y] - z[m];
    real den = a < 0 ? 1 : z[a] - (real)0.5 * (z[b] + z[c]);
    if (den == 0) den = (real)1e-12;
    if (dz) {
        dz[y] -= 1 / den;
        dz[m] += 1 / den;
        if (a >= 0) {
            real s = num / den / den; /* a square could underflow */
            dz[a] += s;
            dz[b] -= (real)0.5 * s;
            dz[c] -= (real)0.5 * s;
        }
    }
    return -num / den;
}

/* p_m - w p_y of the softmax, m the largest wrong class; dz is overwritten (or NULL): dz_j = p_m ([j = m] - p_j) - w
 * p_y ([j = y] - p_j). In double as ce is, and 1 - p is the sum of the other entries: of a confident image p_y rounds
 * to 1. */
static real probability_margin_loss(real *dz, const real *z, int y, int classes, double w) {
    int m = VT_R(vt_best_other)(z, y, classes);
    double top = (double)z[VT_R(vt_argmax)(z, classes)], sum = 0, rest = 0;
    for (int k = 0; k < classes; k++) sum += exp((double)z[k] - top);
    double pm = exp((double)z[m] - top) / sum, py = exp((double)z[y] - top) / sum;
    for (int k = 0; dz && k < classes; k++) {
        if (k == m || k == y) continue;
        double p = exp((double)z[k] - top) / sum;
        dz[k] = (real)(p * (w * py - pm));
        rest += p;
    }
    if (dz) dz[m] = (real)(pm * (rest + py + w * py)), dz[y] = (real)(-py * (pm + w * (rest + pm)));
    return (real)(pm - w * py);
}

/* Returns a loss and overwrites dz with its gradient (NULL: not wanted), before the loss's sign. */
static real loss_before_sign(real *dz, const vt_loss *loss, const real *z, int classes) {
    if (loss->kind == VT_LOSS_CE) return cross_entropy(dz, loss->target, z, classes);
    if (dz)
        for (int k = 0; k < classes; k++) dz[k] = 0;
    if (loss->kind == VT_LOSS_LINEAR) {
        real s = 0;
        for (int k = 0; k < classes; k++) {
            s += (real)loss->target[k] * z[k];
            if (dz) dz[k] = (real)loss->target[k];
        }
        return s;
    }
    int y = vt_target_label(loss->target, classes), pi[4] = {0};
    find_four_largest(pi, z, classes);
    switch (loss->kind) {
    case VT_LOSS_DLR:
        return logit_ratio_loss(dz, z, y, VT_R(vt_best_other)(z, y, classes), classes >= 3 ? pi[0] : -1, pi[2], pi[2]);
    case VT_LOSS_DLR_T:
        return logit_ratio_loss(dz, z, y, loss->other, classes >= 4 ? pi[0] : -1, pi[2], pi[3]);
    case VT_LOSS_PM:
    case VT_LOSS_PO:
        return probability_margin_loss(dz, z, y, classes, loss->kind == VT_LOSS_PM ? 1 : 0);
    default:
        return logit_ratio_loss(dz, z, y, VT_R(vt_best_other)(z, y, classes), -1, 0, 0);
    }
}

real VT_R(vt_loss_eval)(real *dz, const vt_loss *loss, const real *z, int classes) {
    real value = loss_before_sign(dz, loss, z, classes);
    if (!loss->towards) return value;
    for (int k = 0; dz && k < classes; k++) dz[k] = -dz[k];
    return -value;
}
