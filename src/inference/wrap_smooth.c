/* SPDX-License-Identifier: MIT */
/* Randomised smoothing around a network (inference/smoothing.h). Its class has most of the votes that the network gives
 * to n0 noisy copies; if a binomial test at alpha cannot tell the first two classes apart, it is uncertain (Cohen et
 * al.'s PREDICT abstains). Draw i is a function of the image's key and i: two calls at one point agree. Its logits are
 * log(mean softmax) over the copies, the first two exchanged where the votes say so; their cross-entropy is the loss of
 * Salman et al. 2019 (SmoothAdv, eq. 5 and 6), and the gradient goes through all n0 copies. Both precisions count the
 * votes of the float32 network, which is what is smoothed. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/stats.h"
#include "inference/smoothing.h"
#include "inference/wrap.h"
#include "models/net/session64.h"

typedef struct params {
    double sigma, alpha;
    int n0, n;
} params;

static const vt_opt opts[] = {
    VT_OPT_R("sigma", params, sigma, "standard deviation of the noise in pixel units", 0.25, 1e-6, 100),
    VT_OPT_I("n0", params, n0, "noisy copies of a prediction, and of a certificate's guess", 100, 1, 10000000),
    VT_OPT_I("n", params, n, "noisy copies of a certificate's bound", 1000, 1, 10000000),
    VT_OPT_R("alpha", params, alpha, "probability that an answer, or a certificate, is wrong", 0.001, 1e-12, 0.4),
    VT_OPT_END,
};

typedef struct smoother {
    vt_classifier all;
    params p;
    vt_rng key;
    bool unsure;
    float *kept, *y, *step;                   /* [pixels] x of the kept call; a noisy copy; its gradient */
    float *z, *dz, *z_kept;                   /* [classes] */
    double *share, *share_kept, *soft, *wide; /* [classes] mean softmax of the last and of the kept call; that of one
                                                 copy; logits */
    int64_t *votes;                           /* [classes] */
    int top, voted;                           /* of the kept call: the classes whose logits are exchanged */
} smoother;

/* Sets c->y to copy i of x. */
static void draw_copy(smoother *c, const float *x, int64_t i) {
    c->key.step = (uint32_t)i;
    vt_rng_normals(&c->key, c->y, c->all.pixels);
    for (size_t k = 0; k < c->all.pixels; k++) c->y[k] = x[k] + (float)c->p.sigma * c->y[k];
}

/* Computes c->soft, the softmax of logits c->z. */
static void softmax_of_copy(smoother *c) {
    double sum = 0, most = (double)c->z[vt_argmax_f32(c->z, c->all.classes)];
    for (int k = 0; k < c->all.classes; k++) sum += c->soft[k] = exp((double)c->z[k] - most);
    for (int k = 0; k < c->all.classes; k++) c->soft[k] /= sum;
}

/* Returns the logarithm of a mean softmax; NaN stays. */
static double log_share(double share) { return log(share < DBL_MIN ? DBL_MIN : share); }

/* Sets c->votes and c->share to those of copies first to first + n - 1 of x; VT_INTERRUPTED. */
static vt_status count_votes(smoother *c, const float *x, int64_t first, int64_t n,
                             const volatile sig_atomic_t *interrupt, vt_err *e) {
    const size_t classes = (size_t)c->all.classes;
    memset(c->votes, 0, classes * sizeof *c->votes), memset(c->share, 0, classes * sizeof *c->share);
    for (int64_t i = first; i < first + n; i++) {
        if (interrupt && *interrupt) return VT_INTERRUPTED;
        draw_copy(c, x, i);
        VT_TRY(vt_classifier_logits(&c->all, c->y, c->z, false, e));
        c->votes[vt_argmax_f32(c->z, c->all.classes)]++;
        softmax_of_copy(c);
        for (size_t k = 0; k < classes; k++) c->share[k] += c->soft[k] / (double)n;
    }
    return VT_OK;
}

/* Returns the class of most votes, the first of several, other than `but`. */
static int most_votes(const smoother *c, int but) {
    int best = -1;
    for (int k = 0; k < c->all.classes; k++)
        if (k != but && (best < 0 || c->votes[k] > c->votes[best])) best = k;
    return best;
}

/* Computes z [K] of x in double, and whether its class is uncertain. */
static vt_status answer_by_votes(smoother *c, const float *x, double *z, bool keep, vt_err *e) {
    VT_TRY(count_votes(c, x, 0, c->p.n0, NULL, e));
    const int top = vt_argmax_f64(c->share, c->all.classes), voted = most_votes(c, -1), next = most_votes(c, voted);
    c->unsure = next >= 0 && vt_mcnemar_exact(c->votes[voted], c->votes[next]).two_sided > c->p.alpha;
    for (int k = 0; k < c->all.classes; k++) z[k] = log_share(c->share[k]);
    double exchanged = z[top];
    z[top] = z[voted], z[voted] = exchanged;
    if (keep) c->top = top, c->voted = voted;
    return VT_OK;
}

/* Computes z [K] of the smoothed network. A logit that is not finite in any copy makes it so. */
static vt_status voted_logits64(void *self, const float *x, double *z, vt_err *e) {
    return answer_by_votes(self, x, z, false, e);
}

/* Computes z [K] likewise, rounded to float; keep: backward may follow. */
static vt_status voted_logits(void *self, const float *x, float *z, bool keep, vt_err *e) {
    smoother *c = self;
    VT_TRY(answer_by_votes(c, x, c->wide, keep, e));
    for (int k = 0; k < c->all.classes; k++) z[k] = (float)c->wide[k];
    if (!keep) return VT_OK;
    memcpy(c->share_kept, c->share, (size_t)c->all.classes * sizeof *c->share);
    memcpy(c->kept, x, c->all.pixels * sizeof *c->kept);
    memcpy(c->z_kept, z, (size_t)c->all.classes * sizeof *c->z_kept);
    return VT_OK;
}

/* Adds the gradient through copy i. z_k = log(mean p_k), so p_k's cotangent is w_k = dz_k / (n0 mean p_k), and through
 * softmax the copy's logits have p_k (w_k - sum_j p_j w_j). */
static vt_status add_copy_gradient(smoother *c, int64_t i, const vt_loss *loss, float *dx, vt_err *e) {
    const int n = c->all.classes;
    double sum = 0;
    float value;
    draw_copy(c, c->kept, i);
    VT_TRY(vt_classifier_logits(&c->all, c->y, c->z, true, e));
    softmax_of_copy(c);
    for (int k = 0; k < n; k++) c->wide[k] = (double)c->dz[k] / (c->p.n0 * fmax(c->share_kept[k], DBL_MIN));
    for (int k = 0; k < n; k++) sum += c->soft[k] * c->wide[k];
    for (int k = 0; k < n; k++) c->z[k] = (float)(c->soft[k] * (c->wide[k] - sum));
    const vt_loss linear = {.kind = VT_LOSS_LINEAR, .target = c->z, .open = loss->open};
    VT_TRY(vt_classifier_backward(&c->all, &linear, &value, c->step, e));
    for (size_t k = 0; k < c->all.pixels; k++) dx[k] += c->step[k];
    return VT_OK;
}

/* Computes loss and gradient at the kept point, through all n0 copies. */
static vt_status backward(void *self, const vt_loss *loss, float *value, float *dx, vt_err *e) {
    smoother *c = self;
    *value = vt_loss_eval_f32(c->dz, loss, c->z_kept, c->all.classes);
    float exchanged = c->dz[c->top];
    c->dz[c->top] = c->dz[c->voted], c->dz[c->voted] = exchanged;
    memset(dx, 0, c->all.pixels * sizeof *dx);
    for (int64_t i = 0; i < c->p.n0; i++) VT_TRY(add_copy_gradient(c, i, loss, dx, e));
    return VT_OK;
}

/* Begins an image: the draws follow from *rng. */
static void begin(void *self, const vt_rng *rng) {
    smoother *c = self;
    c->key = *rng;
    c->key.purpose ^= vt_rng_purpose("wrap smooth");
    vt_classifier_begin(&c->all, rng);
}

static void close_wrap(void *self) {
    smoother *c = self;
    vt_classifier_close(&c->all);
    free(c->kept), free(c->share), free(c->votes), free(c);
}

/* Refuses draws that are too few to prove or to say anything. */
static vt_status check_draws(const void *params_, vt_shape shape, vt_err *e) {
    const params *p = params_;
    const double least = log(1 / p->alpha) / log(2);
    (void)shape;
    if (!(p->n > least))
        return vt_fail(e, VT_E_USAGE,
                       "wrap smooth: n is %d, but with alpha=%g even equal votes prove no radius; at least %.0f are "
                       "needed",
                       p->n, p->alpha, floor(least) + 1);
    if (!(p->n0 >= least + 1))
        return vt_fail(e, VT_E_USAGE,
                       "wrap smooth: n0 is %d, but with alpha=%g even equal votes decide nothing; at least %.0f are "
                       "needed",
                       p->n0, p->alpha, ceil(least + 1));
    return VT_OK;
}

/* Puts smoothing around *c, for images of any shape. */
static vt_status wrap_in_noise(vt_classifier *c, const void *params_, vt_shape shape, vt_err *e) {
    const size_t n = c->pixels, k = (size_t)c->classes;
    smoother *own = calloc(1, sizeof *own);
    float *images = vt_alloc((3 * n + 3 * k) * sizeof *images);
    double *shares = vt_alloc(4 * k * sizeof *shares);
    int64_t *votes = calloc(k, sizeof *votes);
    (void)shape;
    if (!own || !images || !shares || !votes) {
        free(own), free(images), free(shares), free(votes);
        return vt_fail(e, VT_E_MEMORY, "no memory for a wrap");
    }
    *own = (smoother){.all = *c, .p = *(const params *)params_, .kept = images, .share = shares, .votes = votes};
    own->y = images + n, own->step = own->y + n, own->z = own->step + n, own->dz = own->z + k;
    own->z_kept = own->dz + k;
    own->share_kept = shares + k, own->soft = own->share_kept + k, own->wide = own->soft + k;
    c->self = own, c->alone = NULL, c->unsure = &own->unsure, c->tokens = (vt_tokens){0};
    c->logits = voted_logits, c->logits64 = voted_logits64, c->backward = backward, c->begin = begin,
    c->close = close_wrap;
    return VT_OK;
}

/* An answer takes a forward of each copy, a gradient that and one of each. */
static void cost(const void *params_, double *forward, double *gradient) {
    const int n0 = ((const params *)params_)->n0;
    *gradient = n0 * (*forward + *gradient), *forward *= n0;
}

double vt_smooth_radius(int64_t count, int64_t n, double sigma, double alpha) {
    double p = vt_share_lower(count, n, alpha);
    return p > 0.5 ? sigma * vt_normal_quantile(p) : 0;
}

vt_status vt_smooth_certify(int *class, double *radius, int64_t *forwards, const vt_classifier *c, const float *x,
                            const volatile sig_atomic_t *interrupt, vt_err *e) {
    if (c->logits != voted_logits) return vt_fail(e, VT_E_USAGE, "smooth certifies the wrap smooth alone");
    smoother *own = c->self;
    const params *p = &own->p;
    VT_TRY(count_votes(own, x, 0, p->n0, interrupt, e));
    *class = most_votes(own, -1);
    VT_TRY(count_votes(own, x, p->n0, p->n, interrupt, e));
    *radius = vt_smooth_radius(own->votes[*class], p->n, p->sigma, p->alpha);
    *forwards = (int64_t)p->n0 + p->n;
    return VT_OK;
}

const vt_wrap_def vt_wrap_def_smooth = {
    .name = "smooth",
    .summary = "a defence: most votes under Gaussian noise, certified in l2",
    .reference = "Cohen et al. 2019; gradients: Salman et al. 2019",
    .params_size = sizeof(params),
    .opts = opts,
    .around = wrap_in_noise,
    .fit = check_draws,
    .cost = cost,
    .blurs = true,
};
