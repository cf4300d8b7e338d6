/* SPDX-License-Identifier: MIT */
/* PGD on cross entropy plus attention's scores (Lovisotto et al. 2022): every query shall look at one key token, in the
 * heads that are nearest to doing so (log-sum-exp over blocks and heads). The scores are taken before the softmax,
 * whose gradient vanishes where attention is peaked. */
#include <math.h>
#include <string.h>
#include "attacks/ascent.h"

typedef struct params {
    int steps, restarts, loss, query, key, layers, decay;
    double alpha, lambda, momentum;
    bool normalise, random_start;
} params;

static const vt_opt opts[] = {
    VT_OPT_I("steps", params, steps, "gradient steps", 100, 1, 100000),
    VT_OPT_R_OR("alpha", params, alpha, "first step in pixel units", "eps/4", 0, 0, 1000),
    VT_OPT_C("decay", params, decay, "how steps shrink", "cosine|none", 0),
    VT_OPT_R("momentum", params, momentum, "share of the direction kept (0: none)", 0.9, 0, 0.999),
    VT_OPT_C("loss", params, loss, "what is maximised besides attention", "ce|margin|dlr|none", 0),
    VT_OPT_R("lambda", params, lambda, "factor of attention's loss", 1, 0, 1e6),
    VT_OPT_C("query", params, query, "queries that count; class: the first token, where it is no patch", "all|class",
             0),
    VT_OPT_I("key", params, key,
             "patch whose token is looked at (-1: the patch threat's, else the one that gets most attention)", -1, -1,
             65535),
    VT_OPT_B("normalise", params, normalise, "queries and keys are divided by their mean length", 1),
    VT_OPT_I("layers", params, layers, "the last so many blocks (0: all)", 0, 0, 1000),
    VT_OPT_B("random_start", params, random_start, "start at a random point of the ball", 1),
    VT_OPT_I("restarts", params, restarts, "independent runs", 1, 1, 1000),
    VT_OPT_END,
};

/* Sets *out to the key token: as asked (at most the last), under the patch threat's first square, or the one looked at
 * most, which takes one forward. scratch [n] */
static vt_status key_token(vt_oracle *o, const params *p, const vt_task *t, int *out, float *scratch) {
    const vt_tokens *tokens = &o->model->tokens;
    const vt_squares *s = t->ball->squares;
    int count = tokens->side * tokens->side;
    *out = p->key < count ? p->key : count - 1;
    if (p->key >= 0) return VT_OK;
    if (s) {
        *out = vt_patch_token(tokens, s->at[0], s->size, t->shape);
        return VT_OK;
    }
    VT_TRY(vt_oracle_attention(o, t->x, vt_patch_layer(tokens), scratch));
    *out = 0;
    for (int k = 1; k < count; k++)
        if (scratch[k] > scratch[*out]) *out = k;
    return VT_OK;
}

/* Returns the attention loss that the options describe, towards patch token `key`. */
static vt_attn_loss attention_of(const vt_tokens *tokens, const params *p, int key) {
    return (vt_attn_loss){.kind = VT_ATTN_LOSS_SCORE,
                          .patch = key,
                          .first = p->layers && p->layers < tokens->layers ? tokens->layers - p->layers : 0,
                          .last = tokens->layers - 1,
                          .class_query = p->query == 1 && tokens->prefix > 0,
                          .normalise = p->normalise,
                          .alone = p->loss == 3,
                          .weight = p->lambda};
}

/* Sets m [n] <- momentum m + (1 - momentum) g / |g|; of a zero gradient the first term alone. */
static void update_momentum(float *m, const float *g, double momentum, size_t n) {
    double length = vt_length(VT_L2, g, n), add = length > 0 ? (1 - momentum) / length : 0;
    for (size_t i = 0; i < n; i++) m[i] = (float)(momentum * (double)m[i] + add * (double)g[i]);
}

/* Ascends the loss for p->steps from t->x_adv, in place, and asks the model about the last iterate; its failures, and
 * VT_STOP, end it. */
static vt_status run_once(vt_oracle *o, const params *p, const vt_task *t, const vt_loss *loss) {
    float *g = t->work, *m = g + t->n, *step = m + t->n, value;
    double alpha = p->alpha > 0 ? p->alpha : t->ball->eps / 4;
    memset(m, 0, t->n * sizeof *m);
    for (int k = 0; k < p->steps; k++) {
        VT_TRY(vt_oracle_gradient(o, t->x_adv, loss, NULL, &value, g));
        for (size_t i = 0; i < t->n; i++) /* what cannot move has no say in the direction's length */
            if (!(t->ball->lo[i] < t->ball->hi[i])) g[i] = 0;
        update_momentum(m, g, p->momentum, t->n);
        vt_ascent_step(t, m, p->decay ? alpha : alpha * vt_cosine(k, p->steps), step);
    }
    return vt_oracle_logits(o, t->x_adv, NULL);
}

/* Runs the restarts until one breaks the image; t->x_adv: the last one's last iterate. VT_E_FORBIDDEN without gradients
 * or attention. */
static vt_status run(vt_oracle *o, const void *params_, const vt_task *t) {
    static const vt_loss_kind kinds[] = {VT_LOSS_CE, VT_LOSS_MARGIN, VT_LOSS_DLR, VT_LOSS_CE};
    const params *p = params_;
    int key;
    if (!o->gradients_allowed || !o->model->tokens.layers) return VT_E_FORBIDDEN;
    VT_TRY(key_token(o, p, t, &key, t->work));
    vt_attn_loss a = attention_of(&o->model->tokens, p, key);
    vt_loss loss = vt_oracle_loss(o, kinds[p->loss]);
    loss.attention = &a;
    for (int r = 0; r < p->restarts; r++) {
        vt_ascent_start(t, r, p->random_start);
        VT_TRY(run_once(o, p, t, &loss));
        if (vt_oracle_may_end(o, false)) break;
    }
    return VT_OK;
}

/* the first forward: for the key token */
VT_COST(params, .forwards = (p->key < 0 && !d->patch) + p->restarts, .gradients = (double)p->restarts * p->steps,
        .unread = p->restarts)

const vt_attack_def vt_attack_def_attention_pgd = {
    .name = "attention-pgd",
    .summary = "PGD that also drives the queries of all heads to one key token",
    .reference = "Lovisotto et al. 2022 (CVPR), Attention-Fool, section 4",
    .norms = VT_CAN_LINF | VT_CAN_L2 | VT_CAN_PATCH,
    .white_box = true,
    .looks = true,
    VT_ATTACK_CODE(params, .images = 3),
};
