/* SPDX-License-Identifier: MIT */
/* Orthogonality constraints (Zhang et al. 2021): L_LA on the attention matrices of a block, L_LF on those of its MLP,
 * both ||W^T W - I||_F^2, and L_AM = ||A^T A - I||_F^2 on attention probabilities, whose gradient the backward pass
 * of the model injects. Sums over blocks (and heads).
 * The paper leaves open how W_Q, W_K, W_V, W_O are concatenated: stack puts them below each other (P^T P = I can be
 * met, and bounds every norm by 1), wide beside each other (P^T P of rank D: at least 3 D), each is a term a matrix. */
#include "models/arch.h"
#include "models/model.h"
#include "nn/nn.h"
#include "train/penalty.h"

enum { STACK, WIDE, EACH };
enum { MEAN, SUM };

typedef struct params {
    int variant, la_form, am_reduce;
    double lambda;
} params;

static const vt_opt opts[] = {
    VT_OPT_C("variant", params, variant, "terms: VAR-I = AM, VAR-II = AM + LA, VAR-III = AM + LA + LF",
             "none|LA|LF|AM|VAR-I|VAR-II|VAR-III", 0),
    VT_OPT_R("lambda", params, lambda, "weight of every term", 1e-6, 0, 1),
    VT_OPT_C("la_form", params, la_form, "how LA takes W_Q, W_K, W_V, W_O together", "stack|wide|each", 0),
    VT_OPT_C("am_reduce", params, am_reduce, "AM over the images of a step", "mean|sum", 0),
    VT_OPT_END,
};

static const struct {
    bool la, lf, am;
} terms[] = {
    {false, false, false}, {true, false, false}, {false, true, false}, {false, false, true},
    {false, false, true},  {true, false, true},  {true, true, true},
};

/* Matrices that share a Gram matrix, the smaller one: left: sum W W^T [rows, rows], else sum W^T W [cols, cols]. */
typedef struct group {
    vt_matrix w[4];
    int n;
    bool left;
} group;
enum { MOST_GROUPS = 6 };

static const vt_weight_kind attention_kinds[] = {VT_WEIGHT_Q, VT_WEIGHT_K, VT_WEIGHT_V, VT_WEIGHT_O};
static const vt_weight_kind mlp_kinds[] = {VT_WEIGHT_FC1, VT_WEIGHT_FC2};

static group single_matrix_group(vt_matrix w) { return (group){.w = {w}, .n = 1, .left = w.rows < w.cols}; }

/* Collects the groups of a block; 0 of them when the model has not all matrices. */
static int collect_groups(group out[MOST_GROUPS], const params *p, const vt_model *m, int block) {
    int n = 0;
    group all = {.left = p->la_form == WIDE};
    for (int k = 0; k < 4 && terms[p->variant].la; k++) {
        vt_matrix w;
        if (!vt_model_matrix(m, block, attention_kinds[k], &w)) return 0;
        if (w.again) continue; /* W_K = W_Q counts once */
        all.w[all.n++] = w;
        if (p->la_form == EACH) out[n++] = single_matrix_group(w);
    }
    if (terms[p->variant].la && p->la_form != EACH) out[n++] = all;
    for (int k = 0; k < 2 && terms[p->variant].lf; k++) {
        vt_matrix w;
        if (!vt_model_matrix(m, block, mlp_kinds[k], &w)) return 0;
        out[n++] = single_matrix_group(w);
    }
    return n;
}

/* Returns the side of the Gram matrix of the group's matrix k. */
static int gram_side(const group *g, int k) { return g->left ? g->w[k].rows : g->w[k].cols; }

/* Tells whether the penalty has a weight. */
static bool active(const void *params_) {
    const params *p = params_;
    return p->variant > 0 && p->lambda > 0;
}

/* Fails with VT_E_SHAPE for a model without attention maps or matrices that a term needs, or whose matrices do not fit
 * each other. */
static vt_status check(const void *params_, const vt_model *m, vt_err *e) {
    const params *p = params_;
    const vt_arch *arch = vt_arch_find(m->config.arch);
    if (!vt_model_blocks(m))
        return vt_fail(e, VT_E_SHAPE, "ortho: a %s model has no attention to penalise", m->config.arch);
    if (terms[p->variant].am && arch && arch->no_token_maps)
        return vt_fail(e, VT_E_SHAPE,
                       "ortho: L_AM holds maps of attention between all tokens, which %s models do not have; set "
                       "ortho.variant to LA or LF",
                       m->config.arch);
    for (int b = 0; b < vt_model_blocks(m); b++) {
        for (int r = 0; r < VT_WEIGHT_KINDS; r++)
            if ((r < VT_WEIGHT_FC1 ? terms[p->variant].la : terms[p->variant].lf) &&
                !vt_model_matrix(m, b, (vt_weight_kind)r, &(vt_matrix){0}))
                return vt_fail(e, VT_E_SHAPE, "ortho: block %d of this %s model has no %s", b, m->config.arch,
                               vt_weight_kind_name((vt_weight_kind)r));
        group g[MOST_GROUPS];
        int n = collect_groups(g, p, m, b);
        for (int i = 0; i < n; i++)
            for (int k = 1; k < g[i].n; k++)
                if (gram_side(&g[i], k) != gram_side(&g[i], 0))
                    return vt_fail(e, VT_E_SHAPE,
                                   "ortho: %s of block %d is %d x %d, which does not fit W_Q, %d x %d; set "
                                   "ortho.la_form to each",
                                   vt_weight_kind_name(attention_kinds[k]), b, g[i].w[k].rows, g[i].w[k].cols,
                                   g[i].w[0].rows, g[i].w[0].cols);
    }
    return VT_OK;
}

/* Returns the scratch's length, that of the largest Gram matrix. */
static size_t work_len(const void *params_, const vt_model *m) {
    size_t most = 0;
    for (int b = 0; b < vt_model_blocks(m); b++) {
        group g[MOST_GROUPS];
        int n = collect_groups(g, params_, m, b);
        for (int i = 0; i < n; i++)
            if ((size_t)gram_side(&g[i], 0) > most) most = (size_t)gram_side(&g[i], 0);
    }
    return most * most;
}

/* Adds the gradient of lambda times this to grad and returns its value; s [side, side]: scratch.
 * ||P^T P - I||^2 of the group; left: = ||P P^T - I||^2 + cols - rows (all columns side by side).
 * With S = sum_j W_j^T W_j - I:  d/dW_k = 4 W_k S;  left, with S = sum_j W_j W_j^T - I:  d/dW_k = 4 S W_k. */
static double add_group_term(real *grad, real *s, const real *w, const group *g, double lambda) {
    int side = gram_side(g, 0), other = 0;
    for (int k = 0; k < g->n; k++) {
        const vt_matrix *a = &g->w[k];
        int inner = g->left ? a->cols : a->rows;
        other += inner;
        VT_GEMM(NULL, !g->left, g->left, side, side, inner, 1, w + a->offset, a->cols, w + a->offset, a->cols, k > 0, s,
                side);
    }
    double value = g->left ? other - side : 0;
    for (int i = 0; i < side; i++) {
        real *row = s + (size_t)i * (size_t)side;
        row[i] -= 1;
        for (int j = 0; j < side; j++) {
            value += (double)row[j] * (double)row[j];
            row[j] *= (real)(4 * lambda); /* here, so that the products below need no factor (oneDNN takes 1 only) */
        }
    }
    for (int k = 0; k < g->n; k++) {
        const vt_matrix *a = &g->w[k];
        const real *left = g->left ? s : w + a->offset, *right = g->left ? w + a->offset : s;
        VT_GEMM(NULL, false, false, a->rows, a->cols, side, 1, left, g->left ? side : a->cols, right,
                g->left ? a->cols : side, 1, grad + a->offset, a->cols);
    }
    return lambda * value;
}

/* Adds the penalty's gradient to grad and returns its value (vt_penalty_def.apply). */
static double apply(real *grad, real *state, real *work, const real *w, const vt_model *m, const void *params_) {
    (void)state;
    const params *p = params_;
    double value = 0;
    for (int b = 0; b < vt_model_blocks(m); b++) {
        group g[MOST_GROUPS];
        int n = collect_groups(g, p, m, b);
        for (int i = 0; i < n; i++) value += add_group_term(grad, work, w, &g[i], p->lambda);
    }
    return value;
}

/* Returns the factor of L_AM for one image of `batch`; 0: the variant has no such term. */
static double attention(const void *params_, int batch) {
    const params *p = params_;
    if (!terms[p->variant].am) return 0;
    return p->am_reduce == MEAN ? p->lambda / batch : p->lambda;
}

const VT_R(vt_penalty_def) VT_R(vt_penalty_def_ortho) = {
    .name = "ortho",
    .summary = "orthogonality of attention and MLP matrices and of attention probabilities (OC)",
    .reference =
        "Zhang et al. 2021 (ACL, short 48), L_LA, L_LF, L_AM and VAR-I to III; concatenation and reduction ours",
    .params_size = sizeof(params),
    .opts = opts,
    .active = active,
    .check = check,
    .work_len = work_len,
    .apply = apply,
    .attention = attention,
};
