/* SPDX-License-Identifier: MIT */
/* Double alone: the numeric rooms' headers are read as their second copy sees them. */
#define VT_DOUBLE
#include "research/analysis/hessian.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "parallel/threads.h"
#include "models/net/session.h"
#include "nn/loss.h"

/* H v = |v| (g(theta + t u) - g(theta - t u)) / 2t with u = v / |v|, t = step (1 + |theta|).
 *
 * Truncation: g is analytic (softmax, GELU, LayerNorm), so what is left out is t^2/6 |D^3 g [u, u, u]|, or (t/L)^2/6
 * of |H u|, where L is the length over which H changes along u. Rounding: a gradient of size G carries 2^-53 c G (c: a
 * few, from sums over tokens), and theta +- t u is itself rounded by 2^-54 |theta|, which H makes a gradient of:
 * together 2^-53 R / t with R = c G + |H||theta|. Trained ViTs (142,026 and 546,186 parameters, |theta| 30 and 50) have
 * L = 0.009 and |H u| = 100 to 700 along the first eigenvector, R = 30 and |H u| = 1 to 5 along random directions: at
 * t = 3e-6 truncation is 2e-8 of |H u| along the one, rounding 1e-9 along the other. Fourth order with t = 3e-5 should,
 * by the same terms, reach 1e-10 along both for twice the gradients; that is not needed here. */
#define STEP 1e-7

typedef struct vt_hessian_worker { /* one thread's */
    vt_session_f64 *session;       /* of one image */
    double *grad;                  /* [params.total] */
    double *x, *dz;                /* [pixels], [K] */
    float *target;                 /* [K] */
} worker;

typedef struct pass { /* of one pass over the images */
    vt_hessian *h;
    int points;
    const double *at[2]; /* [params.total] where, and ... */
    double factor[2];    /* ... what its gradient counts */
    double *out;         /* [n] accumulated, or NULL */
    double *logits;      /* [images, K], or NULL */
    double *losses;      /* [images] at the first point, or NULL */
} pass;

/* min(threads, images), at least 1. */
static int threads_for(size_t images, int threads) {
    return (size_t)threads < images ? threads : images ? (int)images : 1;
}

/* Takes weights, moved weights and each thread's buffers from a; an arena without base only counts the bytes. */
static void lay_out_buffers(vt_hessian *h, vt_arena *a) {
    const vt_config *c = &h->model->config;
    size_t total = h->model->params.total, k = (size_t)c->classes;
    h->theta = vt_arena_take(a, total, sizeof(double));
    for (int i = 0; i < 2; i++) h->moved[i] = vt_arena_take(a, total, sizeof(double));
    struct vt_hessian_worker none, *w = vt_arena_take(a, (size_t)h->threads, sizeof *w);
    h->workers = w;
    for (int i = 0; i < h->threads; i++) {
        worker *one = w ? &w[i] : &none;
        one->grad = vt_arena_take(a, total, sizeof(double));
        one->x = vt_arena_take(a, vt_config_input_pixels(c), sizeof(double));
        one->dz = vt_arena_take(a, k, sizeof(double));
        one->target = vt_arena_take(a, k, sizeof(float));
    }
}

size_t vt_hessian_bytes(const vt_model *m, size_t images, int threads) {
    vt_hessian h = {.model = m, .threads = threads_for(images, threads)};
    vt_arena a = {0};
    lay_out_buffers(&h, &a);
    return a.used + (size_t)h.threads * vt_session_bytes_f64(m, 1, VT_GRAD_PARAMS);
}

vt_status vt_hessian_open(vt_hessian *h, const vt_model *m, size_t images, int threads, vt_err *e) {
    *h = (vt_hessian){.model = m, .threads = threads_for(images, threads), .step = STEP};
    h->n = vt_model_param_count(m);
    vt_arena a = {0};
    lay_out_buffers(h, &a);
    a = (vt_arena){.base = vt_alloc(a.used), .size = a.used};
    if (!a.base) return vt_fail(e, VT_E_MEMORY, "no memory for the Hessian of %zu parameters", h->n);
    lay_out_buffers(h, &a);
    for (size_t i = 0; i < m->params.total; i++) h->theta[i] = (double)m->w[i];
    vt_status s = VT_OK;
    for (int i = 0; i < h->threads && s == VT_OK; i++)
        s = vt_session_open_f64(&h->workers[i].session, m, 1, VT_GRAD_PARAMS, e);
    if (s != VT_OK) vt_hessian_close(h);
    return s;
}

void vt_hessian_close(vt_hessian *h) {
    for (int i = 0; i < h->threads && h->workers; i++) vt_session_close_f64(h->workers[i].session);
    free(h->theta); /* the arena's first */
    *h = (vt_hessian){0};
}

/* Work item of vt_for_each_in_order: loss and logits of image i at the first point, and its gradients at all points,
 * each times its factor, summed in the thread's grad. */
static vt_status evaluate_image(void *ctx, int thread, size_t i, vt_err *e) {
    const pass *p = ctx;
    const vt_hessian *h = p->h;
    worker *w = &h->workers[thread];
    size_t pixels = vt_config_input_pixels(&h->model->config), k = (size_t)h->model->config.classes;
    VT_TRY(vt_check_interrupt(h->interrupt, "an analysis", e));
    for (size_t j = 0; j < pixels; j++) w->x[j] = (double)h->x[i * pixels + j];
    memset(w->grad, 0, h->model->params.total * sizeof *w->grad);
    memset(w->target, 0, k * sizeof *w->target);
    w->target[h->labels[i]] = 1;
    for (int q = 0; q < p->points; q++) {
        w->session->master = p->at[q];
        const double *z = vt_session_forward_f64(w->session, w->x, 1, p->out != NULL);
        double loss = vt_loss_eval_f64(w->dz, &(vt_loss){.kind = VT_LOSS_CE, .target = w->target}, z, (int)k);
        if (q == 0 && p->losses) p->losses[i] = loss;
        if (q == 0 && p->logits) memcpy(p->logits + i * k, z, k * sizeof *z);
        for (size_t j = 0; j < k; j++) w->dz[j] *= p->factor[q];
        if (p->out) vt_session_backward_f64(w->session, w->dz, NULL, w->grad); /* adds to what is there */
    }
    return VT_OK;
}

/* In image order: adds the thread's gradient to out [n], without the gaps between tensors; steps the progress. */
static void add_image_gradient(void *ctx, int thread, size_t i) {
    const pass *p = ctx;
    vt_hessian *h = p->h;
    const vt_param_list *l = &h->model->params;
    const double *grad = h->workers[thread].grad;
    double *y = p->out;
    (void)i;
    for (int t = 0; t < l->count && y; t++) {
        const vt_param *q = &l->items[t];
        for (size_t j = 0; j < q->numel && !q->buffer; j++) y[j] += grad[q->offset + j];
        if (!q->buffer) y += q->numel;
    }
    if (p->out) h->gradients += (size_t)p->points;
    if (h->progress) vt_progress_step(h->progress, h->gradients, NULL);
}

vt_status vt_hessian_loss(vt_hessian *h, double *loss, double *gradient, double *logits, vt_err *e) {
    double *losses = calloc(h->images, sizeof *losses), share = 1 / (double)h->images;
    pass p = {.h = h, .points = 1, .at = {h->theta}, .factor = {share}, .out = gradient, .logits = logits};
    if (!losses) return vt_fail(e, VT_E_MEMORY, "no memory for the losses of %zu images", h->images);
    p.losses = losses;
    if (gradient) memset(gradient, 0, h->n * sizeof *gradient);
    vt_status s = vt_for_each_in_order(h->images, h->threads, evaluate_image, add_image_gradient, &p, e);
    *loss = 0;
    for (size_t i = 0; i < h->images; i++) *loss += losses[i] * share;
    free(losses);
    return s;
}

/* |theta|_2 over all parameters but buffers. */
static double length_of_weights(const vt_hessian *h) {
    double s = 0;
    for (int i = 0; i < h->model->params.count; i++) {
        const vt_param *p = &h->model->params.items[i];
        if (!p->buffer) s += vt_dot(h->theta + p->offset, h->theta + p->offset, p->numel);
    }
    return sqrt(s);
}

/* moved[0], moved[1] = theta +- t v, v [n]. */
static void perturb_weights(vt_hessian *h, const double *v, double t) {
    const vt_param_list *l = &h->model->params;
    for (int k = 0; k < 2; k++) memcpy(h->moved[k], h->theta, l->total * sizeof *h->theta);
    for (int i = 0; i < l->count; i++) {
        const vt_param *p = &l->items[i];
        if (p->buffer) continue;
        for (size_t j = 0; j < p->numel; j++) {
            h->moved[0][p->offset + j] += t * v[j];
            h->moved[1][p->offset + j] -= t * v[j];
        }
        v += p->numel;
    }
}

/* y [n] = H v [n] by central differences; two gradients an image. y = 0 for v = 0. */
static vt_status hessian_product(void *ctx, const double *v, double *y, vt_err *e) {
    vt_hessian *h = ctx;
    double size = vt_norm2(v, h->n);
    memset(y, 0, h->n * sizeof *y);
    if (!(size > 0)) return VT_OK;
    double t = h->step * (1 + length_of_weights(h)) / size;
    double share = 1 / (2 * t * (double)h->images);
    perturb_weights(h, v, t);
    pass p = {.h = h, .points = 2, .at = {h->moved[0], h->moved[1]}, .factor = {share, -share}, .out = y};
    return vt_for_each_in_order(h->images, h->threads, evaluate_image, add_image_gradient, &p, e);
}

vt_symmetric vt_hessian_operator(vt_hessian *h) { return (vt_symmetric){h->n, hessian_product, h}; }

void vt_hessian_size(const vt_hessian *h, double *d) {
    for (int i = 0; i < h->model->params.count; i++) {
        const vt_param *p = &h->model->params.items[i];
        for (size_t j = 0; j < p->numel && !p->buffer; j++) *d++ = fabs(h->theta[p->offset + j]);
    }
}

vt_status vt_hessian_examine(vt_hessian_check *out, vt_hessian *h, const double *along, uint64_t seed, vt_err *e) {
    size_t n = h->n;
    double *u = vt_alloc(4 * n * sizeof *u), *v = u + n, *hu = v + n, *hv = hu + n, whole = h->step;
    if (!u) return vt_fail(e, VT_E_MEMORY, "no memory for four vectors of %zu numbers", n);
    vt_random_signs(u, n, &(vt_rng){.seed = seed, .purpose = vt_rng_purpose("hessian"), .step = 0});
    vt_random_signs(v, n, &(vt_rng){.seed = seed, .purpose = vt_rng_purpose("hessian"), .step = 1});
    vt_status s = hessian_product(h, u, hu, e);
    if (s == VT_OK) s = hessian_product(h, v, hv, e);
    if (s == VT_OK) out->symmetry = fabs(vt_dot(u, hv, n) - vt_dot(v, hu, n)) / (vt_norm2(u, n) * vt_norm2(hv, n));
    if (s == VT_OK) s = hessian_product(h, along, hu, e);
    h->step = whole / 2;
    if (s == VT_OK) s = hessian_product(h, along, hv, e);
    h->step = whole;
    double size = vt_norm2(hu, n);
    for (size_t i = 0; i < n; i++) hv[i] -= hu[i];
    out->halved = vt_norm2(hv, n) / size;
    free(u);
    return s;
}

/* The bias in theta of a matrix's rows, [rows], or NULL. A matrix may be some rows of a tensor: then so is its bias. */
static double *find_bias(vt_hessian *h, const vt_matrix *m) {
    const vt_param *p = vt_model_param_at(h->model, m->offset);
    char name[sizeof p->name];
    if (!p || strlen(p->name) < strlen("weight")) return NULL;
    size_t stem = strlen(p->name) - strlen("weight");
    if (strcmp(p->name + stem, "weight") != 0) return NULL;
    snprintf(name, sizeof name, "%.*sbias", (int)stem, p->name);
    const vt_param *b = vt_model_param(h->model, name);
    return b ? h->theta + b->offset + (m->offset - p->offset) / (size_t)m->cols : NULL;
}

/* Multiplies a matrix of theta, and its bias if with_bias, by factor. */
static void scale_matrix(vt_hessian *h, const vt_matrix *m, bool with_bias, double factor) {
    double *bias = with_bias ? find_bias(h, m) : NULL;
    for (size_t i = 0; i < (size_t)m->rows * (size_t)m->cols; i++) h->theta[m->offset + i] *= factor;
    for (int i = 0; i < m->rows && bias; i++) bias[i] *= factor;
}

vt_status vt_hessian_can_rescale(const vt_model *m, vt_weight_kind up, vt_weight_kind down, vt_err *e) {
    for (int b = 0; b < vt_model_blocks(m); b++) {
        vt_matrix more, less;
        if (!vt_model_matrix(m, b, up, &more) || !vt_model_matrix(m, b, down, &less) || more.again || less.again)
            return vt_fail(e, VT_E_USAGE, "block %d of architecture %s has no %s and %s of its own to rescale", b,
                           m->config.arch, vt_weight_kind_name(up), vt_weight_kind_name(down));
    }
    return VT_OK;
}

void vt_hessian_rescale(vt_hessian *h, vt_weight_kind up, vt_weight_kind down, double factor) {
    for (int b = 0; b < vt_model_blocks(h->model); b++) {
        vt_matrix more, less;
        if (!vt_model_matrix(h->model, b, up, &more) || !vt_model_matrix(h->model, b, down, &less)) continue;
        scale_matrix(h, &more, true, factor);
        scale_matrix(h, &less, down != VT_WEIGHT_O, 1 / factor);
    }
}
