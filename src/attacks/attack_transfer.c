/* SPDX-License-Identifier: MIT */
/* Transfer: the momentum iterative method (Dong et al. 2018, "Boosting Adversarial Attacks with Momentum", algorithm 1,
 * MI-FGSM) along a surrogate's gradients; the model itself is asked for logits alone. g <- mu g + grad / |grad|_1, then
 * x <- project(x + alpha sign(g)) in linf, x + alpha g / |g| in l2 (their section 3.3), SLIDE's sparse step in l1, as
 * in pgd. The result is the point, of those that the model was asked about, of its largest margin. */
#include <math.h>
#include <string.h>
#include "attacks/ascent.h"

enum { ASK_ALL, ASK_LAST };

typedef struct params {
    int steps, restarts, loss, ask;
    double alpha, momentum, diversity;
} params;

static const vt_opt opts[] = {
    VT_OPT_I("steps", params, steps, "gradient steps on the surrogate", 50, 1, 100000),
    VT_OPT_I("restarts", params, restarts, "runs: the first from the clean image, others from random points", 1, 1,
             1000),
    VT_OPT_R_OR("alpha", params, alpha, "step size in pixel units", "eps/10", 0, 0, 1000),
    VT_OPT_R("momentum", params, momentum, "share of the gradients before that is kept", 1, 0, 10),
    VT_OPT_C("loss", params, loss, "what is maximised on the surrogate", "ce|margin|dlr", 0),
    VT_OPT_C("ask", params, ask, "which points the model is asked about: all, or the last of each run", "all|last",
             ASK_ALL),
    VT_OPT_R("diversity", params, diversity,
             "probability that the surrogate sees the image shrunk by up to a tenth, on black", 0, 0, 1),
    VT_OPT_END,
};

/* One image's buffers, in task->work; [n] each but z [K]. */
typedef struct flight {
    const params *p;
    const vt_task *t;
    float *g, *momentum, *step, *seen, *best, *z;
    float margin; /* of best */
} flight;

/* ---- input diversity (Xie et al. 2019, "Improving Transferability of Adversarial Examples with Input Diversity") ----
 */

/* The image as h x w pixels at (top, left), black around it: nearest pixels, as in the authors' code (which enlarges
 * where we shrink: a surrogate has one size of input). h = 0: as it is. */
typedef struct frame {
    int h, w, top, left;
} frame;

/* Draws a side of 0.9 to 1 times `size` pixels, from position i of the key's draws. */
static int draw_shrunk_size(const vt_rng *r, uint64_t i, int size) {
    return size - (int)(vt_rng_uniform(r, i) * (float)(size / 10 + 1));
}

/* Draws how the surrogate sees the image at this step: h 0 (as it is) with probability 1 - diversity. */
static frame draw_frame(const flight *f, const vt_rng *r) {
    frame d = {0};
    if (!(f->p->diversity > 0) || (double)vt_rng_uniform(r, 0) >= f->p->diversity) return d;
    d.h = draw_shrunk_size(r, 1, f->t->shape.height), d.w = draw_shrunk_size(r, 2, f->t->shape.width);
    d.top = (int)(vt_rng_uniform(r, 3) * (float)(f->t->shape.height - d.h + 1));
    d.left = (int)(vt_rng_uniform(r, 4) * (float)(f->t->shape.width - d.w + 1));
    return d;
}

/* Sets out [n] to the frame of x [n]; back: to the frame's adjoint at x. */
static void apply_frame(const vt_task *t, frame d, bool back, float *out, const float *x) {
    memset(out, 0, t->n * sizeof *out);
    for (int c = 0; c < t->shape.channels; c++)
        for (int y = 0; y < d.h; y++)
            for (int i = 0; i < d.w; i++) {
                int from =
                    (c * t->shape.height + y * t->shape.height / d.h) * t->shape.width + i * t->shape.width / d.w;
                int to = (c * t->shape.height + d.top + y) * t->shape.width + d.left + i;
                if (back)
                    out[from] += x[to];
                else
                    out[to] = x[from];
            }
}

/* ---- the attack ---- */

/* Sets f->g to the gradient of the surrogate's loss at x_adv, seen through a frame drawn by r; f->seen and f->step are
 * scratch. */
static vt_status surrogate_gradient(vt_oracle *o, flight *f, const vt_rng *r) {
    static const vt_loss_kind kinds[] = {VT_LOSS_CE, VT_LOSS_MARGIN, VT_LOSS_DLR};
    vt_loss loss = vt_oracle_loss(o, kinds[f->p->loss]);
    float value;
    frame d = draw_frame(f, r);
    if (!d.h) return vt_oracle_surrogate_gradient(o, f->t->x_adv, &loss, &value, f->g);
    apply_frame(f->t, d, false, f->seen, f->t->x_adv);
    VT_TRY(vt_oracle_surrogate_gradient(o, f->seen, &loss, &value, f->step));
    apply_frame(f->t, d, true, f->g, f->step);
    return VT_OK;
}

/* Adds a gradient to the momentum. The sum runs in double: gradients of a confident surrogate are small, and so are
 * products with 1 / |grad|_1. */
static void update_momentum(flight *f) {
    double length = vt_length(VT_L1, f->g, f->t->n), scale = length > 0 ? 1 / length : 0;
    for (size_t i = 0; i < f->t->n; i++)
        f->momentum[i] = (float)(f->p->momentum * (double)f->momentum[i] + scale * (double)f->g[i]);
}

/* Asks the model about x_adv and copies it to f->best if its margin is the largest so far. */
static vt_status query_and_keep_best(vt_oracle *o, flight *f) {
    VT_TRY(vt_oracle_logits(o, f->t->x_adv, f->z));
    float margin = vt_oracle_margin(o, f->z);
    if (!(margin > f->margin)) return VT_OK;
    f->margin = margin;
    memcpy(f->best, f->t->x_adv, f->t->n * sizeof(float));
    return VT_OK;
}

/* Ascends on the surrogate for all steps from x_adv, frames drawn by rng with step k + 1, and asks the model at each
 * step or at the last one. */
static vt_status run_once(vt_oracle *o, flight *f, vt_rng rng) {
    const vt_task *t = f->t;
    double alpha = f->p->alpha > 0 ? f->p->alpha : t->ball->eps / 10;
    memset(f->momentum, 0, t->n * sizeof(float));
    for (int k = 0; k < f->p->steps; k++) {
        rng.step = (uint32_t)k + 1;
        VT_TRY(surrogate_gradient(o, f, &rng));
        update_momentum(f);
        memcpy(f->g, f->momentum, t->n * sizeof(float));
        vt_ascent_step(t, f->g, alpha, f->step);
        if (f->p->ask == ASK_ALL || k == f->p->steps - 1) VT_TRY(query_and_keep_best(o, f));
    }
    return VT_OK;
}

/* Runs restarts until one breaks the image; t->x_adv: the best point asked about, else the image. */
static vt_status run(vt_oracle *o, const void *params_, const vt_task *t) {
    float *w = t->work;
    size_t n = t->n;
    flight f = {params_, t, w, w + n, w + 2 * n, w + 3 * n, w + 4 * n, w + 5 * n, -INFINITY};
    memcpy(f.best, t->x, n * sizeof(float));
    for (int r = 0; r < f.p->restarts && !vt_oracle_may_end(o, false); r++) {
        VT_TRY(run_once(o, &f, vt_ascent_start(t, r, r > 0)));
    }
    memcpy(t->x_adv, f.best, n * sizeof(float));
    return VT_OK;
}

VT_COST(params, .forwards = (double)p->restarts * (p->ask == ASK_ALL ? p->steps : 1),
        .gradients = (double)p->restarts * p->steps)

const vt_attack_def vt_attack_def_transfer = {
    .name = "transfer",
    .summary = "momentum ascent on a surrogate (" VT_OPTION "surrogate WEIGHTS; without it a twin of the model)",
    .reference = "Dong et al. 2018, algorithm 1 (MI-FGSM); diversity: Xie et al. 2019",
    .norms = VT_CAN_ALL | VT_CAN_PATCH,
    .traits = VT_DRAWS_RESTARTS,
    .white_box = false,
    .surrogate = true,
    VT_ATTACK_CODE(params, .images = 5, .logits = 1),
};
