/* SPDX-License-Identifier: MIT */
/* Losses on one image's logits, all to be maximised by an attack, with exact gradients. */
#pragma once

#include <stdbool.h>
#include "base/real.h"

/* name, meaning (z logits, y the class of the largest target entry, pi sorted descending) */
#define VT_LOSS_LIST(X)                                                                                                \
    X(CE, "ce", "sum_k t_k (logsumexp(z) - z_k); t may be soft")                                                       \
    X(MARGIN, "margin", "max_{j!=y} z_j - z_y")                                                                        \
    X(DLR, "dlr", "-(z_y - max_{j!=y} z_j) / (pi1 - pi3); Croce and Hein 2020, eq. 6")                                 \
    X(DLR_T, "dlr_t", "-(z_y - z_t) / (pi1 - (pi3 + pi4)/2); Croce and Hein 2020, eq. 7")                              \
    X(PM, "pm", "max_{j!=y} p_j - p_y with p = softmax(z)")                                                            \
    X(PO, "po", "max_{j!=y} p_j")                                                                                      \
    X(LINEAR, "linear", "sum_k t_k z_k: any cotangent of the logits (FAB, Jacobians)")

typedef enum vt_loss_kind {
#define VT_LOSS_ENUM(id, name, text) VT_LOSS_##id,
    VT_LOSS_LIST(VT_LOSS_ENUM)
#undef VT_LOSS_ENUM
        VT_LOSS_COUNT
} vt_loss_kind;

extern const char *const VT_R(vt_loss_names)[VT_LOSS_COUNT];

/* What a model call maximises. target: [K], one-hot or soft (for LINEAR: the cotangent). other: class t of DLR_T.
 * attention: a term of attention itself (models/net/attention_loss.h), which the model adds, or NULL. */
typedef struct vt_loss {
    vt_loss_kind kind;
    const float *target;
    int other;
    bool towards; /* what is maximised is minus the loss: it rises towards the target's class, not away from it */
    const struct vt_attn_loss *attention;
    const unsigned char
        *open; /* [attention blocks] 0: its branch passes no gradient to the input (ARD); NULL: all do */
} vt_loss;

/* Returns the loss at logits z [K]; dz [K]: its gradient, or NULL. K >= 2. With K = 2 (dlr) and K <= 3 (dlr_t) there is
 * no denominator, because the sorted entries it needs do not exist. */
real VT_R(vt_loss_eval)(real *dz, const vt_loss *loss, const real *z, int classes);

/* Returns the class of the largest entry, the lowest index among equals. */
int VT_R(vt_argmax)(const real *z, int classes);
/* Returns the class of a target's largest entry, the lowest among equals: its label. Targets are float in both
 * precisions. */
static inline int vt_target_label(const float *target, int classes) {
    int y = 0;
    for (int k = 1; k < classes; k++)
        if (target[k] > target[y]) y = k;
    return y;
}
/* Returns the class of the largest entry but that of y. */
int VT_R(vt_best_other)(const real *z, int y, int classes);
/* Returns max_{j != y} z_j - z_y. */
real VT_R(vt_margin)(const real *z, int y, int classes);
