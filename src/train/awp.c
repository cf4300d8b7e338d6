/* SPDX-License-Identifier: MIT */
#include "train/awp.h"

#include <math.h>
#include <string.h>
#include "core/threads.h"

bool vt_awp_active(const vt_recipe *r, double share) { return r->awp.gamma > 0 && share >= r->awp.warmup; }

typedef struct climb {
    vt_update *u;
    const float *grad;
    double gamma;
} climb;

/* Tensor `item`: w += gamma ||w|| / (||g|| + 1e-20) g */
static vt_status perturb_weights(void *ctx, int thread, size_t item, vt_err *e) {
    (void)thread, (void)e;
    const climb *a = ctx;
    vt_model *m = a->u->m;
    const vt_param *p = &m->params.items[item];
    if (p->buffer || p->ndim < 2 || !strstr(p->name, "weight")) return VT_OK;
    float *w = m->w + p->offset;
    const float *g = a->grad + p->offset;
    double ww = 0, gg = 0;
    for (size_t i = 0; i < p->numel; i++) ww += (double)w[i] * (double)w[i], gg += (double)g[i] * (double)g[i];
    double scale = a->gamma * sqrt(ww) / (sqrt(gg) + 1e-20);
    for (size_t i = 0; i < p->numel; i++) w[i] = (float)((double)w[i] + scale * (double)g[i]);
    vt_model_refresh_param(m, (int)item);
    return VT_OK;
}

vt_status vt_awp_gradient(vt_batch *b, vt_update *u, vt_err *e) {
    climb a = {.u = u, .grad = b->grad, .gamma = b->r->awp.gamma};
    size_t bytes = u->m->params.total * sizeof(float);
    memcpy(u->before, u->m->w, bytes);
    vt_for_each((size_t)u->m->params.count, u->threads, perturb_weights, &a, NULL);
    vt_status s = vt_batch_again(b, e);
    memcpy(u->m->w, u->before, bytes);
    vt_update_refresh(u);
    return s;
}
