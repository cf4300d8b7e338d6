/* SPDX-License-Identifier: MIT */
/* Sparse gates (Liu et al., "Understanding Attention Mechanisms"): an l1 term on the learned gate of the patches, and
 * an l2 term on the matrices. Alone, l1 is degenerate: the gate shrinks and the weights behind it grow (their theorem
 * 4). Literal l1 on attention probabilities would do nothing: rows of a softmax sum to 1, so its gradient is zero. */
#include <math.h>
#include <string.h>
#include "train/penalty.h"

typedef struct params {
    double l1, l2;
} params;

static const vt_opt opts[] = {
    VT_OPT_R("l1", params, l1, "weight of the sum of |gate|", 0, 0, 1),
    VT_OPT_R("l2", params, l2, "weight of the sum of squares of all matrices", 0, 0, 1),
    VT_OPT_END,
};

/* Tells whether the penalty has a weight. */
static bool active(const void *params_) {
    const params *p = params_;
    return p->l1 > 0 || p->l2 > 0;
}

/* Fails with VT_E_SHAPE for l1 and a model without patch_gate. */
static vt_status check(const void *params_, const vt_model *m, vt_err *e) {
    const params *p = params_;
    if (p->l1 > 0 && !vt_model_param(m, "patch_gate"))
        return vt_fail(e, VT_E_SHAPE, "gate.l1 is %g, but the model has no patch_gate; set model.patch_gate to true",
                       p->l1);
    return VT_OK;
}

/* Tensors with two sides that are no linear map. */
static const char *const no_matrix[] = {"pos_embed", "cls_token", "dist_token", "patch_gate"};

/* Returns whether a tensor is a linear map: two sides or more, and not one of no_matrix. */
static bool is_matrix(const vt_param *t) {
    for (size_t i = 0; i < sizeof no_matrix / sizeof *no_matrix; i++)
        if (!strcmp(t->name, no_matrix[i])) return false;
    return t->ndim >= 2;
}

/* Adds the gradients of l1 |gate| and l2 w^2 to grad and returns their sum; d|a|/da = sgn(a), 0 at 0; d(w^2)/dw = 2
 * w */
static double apply(real *grad, real *state, real *work, const real *w, const vt_model *m, const void *params_) {
    (void)state, (void)work;
    const params *p = params_;
    double value = 0;
    const vt_param *gate = p->l1 > 0 ? vt_model_param(m, "patch_gate") : NULL;
    for (size_t i = gate ? gate->offset : 0, end = gate ? i + gate->numel : 0; i < end; i++) {
        value += p->l1 * fabs((double)w[i]);
        grad[i] += (real)p->l1 * (real)((w[i] > 0) - (w[i] < 0));
    }
    for (int k = 0; k < m->params.count && p->l2 > 0; k++) {
        const vt_param *t = &m->params.items[k];
        if (!is_matrix(t)) continue;
        for (size_t i = t->offset; i < t->offset + t->numel; i++) {
            value += p->l2 * (double)w[i] * (double)w[i];
            grad[i] += (real)(2 * p->l2) * w[i];
        }
    }
    return value;
}

const VT_R(vt_penalty_def) VT_R(vt_penalty_def_gate) = {
    .name = "gate",
    .summary = "l1 on the patch gate, l2 on the matrices",
    .reference = "Liu et al. (OpenReview BylDrRNKvH), eq. 1 with an l1 term; paired with l2 by us",
    .params_size = sizeof(params),
    .opts = opts,
    .active = active,
    .check = check,
    .apply = apply,
};
