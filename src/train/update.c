/* SPDX-License-Identifier: MIT */
#include "train/update.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "parallel/threads.h"
#include "models/model.h"

#define PIECE ((size_t)1 << 15) /* weights; a tensor's pieces fit the cache of a core */

/* Tells whether the tensor is one of attention's matrices (W_Q, W_K, W_V, W_O). */
static bool in_attention(const vt_model *m, const vt_param *p) {
    vt_matrix x;
    for (int b = 0; b < vt_model_blocks(m); b++)
        for (int r = VT_WEIGHT_Q; r <= VT_WEIGHT_O; r++)
            if (vt_model_matrix(m, b, (vt_weight_kind)r, &x) && vt_model_param_at(m, x.offset) == p) return true;
    return false;
}

/* Returns tensor p's optimiser, parameters, weight decay and learning-rate factor by the recipe. */
static vt_tensor_rule optimiser_rule_of(const vt_model *m, const vt_param *p, const vt_recipe *r) {
    bool attention = in_attention(m, p), own = attention && strcmp(r->top.attention_optimiser, "same");
    const char *name = own ? r->top.attention_optimiser : r->top.optimiser;
    const vt_optim_def_f32 *def = vt_optim_find_f32(name);
    const bool all = def->everywhere && def->everywhere(vt_recipe_params(r, VT_RECIPE_OPTIM, name));
    bool matrix =
        p->ndim > 1 && strstr(p->name, "weight") && (all || (p->layer > 0 && p->layer < m->params.layers - 1));
    if (def->others && !matrix) name = def->others, def = vt_optim_find_f32(name);
    int rows = def->step_matrix ? (int)p->shape[0] : 0;
    return (vt_tensor_rule){.def = def,
                            .rows = rows,
                            .cols = rows ? (int)(p->numel / (size_t)rows) : 0,
                            .params = vt_recipe_params(r, VT_RECIPE_OPTIM, name),
                            .weight_decay = vt_recipe_weight_decay(r, p->name),
                            .lr_scale = (attention ? r->top.attention_lr_scale : 1) *
                                        pow(r->top.layer_decay, m->params.layers - 1 - p->layer)};
}

/* Returns the bytes of one number of the optimiser's state. */
static size_t state_item_size(const vt_tensor_rule *t) { return t->def->wide ? sizeof(double) : sizeof(float); }

/* Returns the bytes of all slots of a tensor, each rounded up to 64; 0 of a frozen tensor. */
static size_t state_bytes_of(const vt_tensor_rule *t, const vt_param *p) {
    size_t room = p->buffer ? 0 : (p->numel * state_item_size(t) + 63) / 64 * 64;
    return room * (size_t)t->def->slots;
}

/* Returns the reals of scratch that a tensor's rule takes. */
static size_t work_len(const vt_tensor_rule *t) { return t->rows ? t->def->work_len(t->rows, t->cols) : 0; }

size_t vt_update_bytes(const vt_model *m, const vt_recipe *r, int threads) {
    size_t sum = m->params.total * sizeof(float) * (r->top.ema > 0 ? 2 : 1), work = 0;
    for (int i = 0; i < m->params.count; i++) {
        vt_tensor_rule t = optimiser_rule_of(m, &m->params.items[i], r);
        sum += 2 * state_bytes_of(&t, &m->params.items[i]); /* and as it was before a step */
        if (!m->params.items[i].buffer && work_len(&t) > work) work = work_len(&t);
    }
    return sum + work * (size_t)threads * sizeof(float);
}

/* Counts the pieces of all trained tensors into u->n_pieces and lists them in out, if it is not NULL. */
static void split_into_pieces(vt_update *u, vt_piece *out) {
    u->n_pieces = 0;
    for (int i = 0; i < u->m->params.count; i++) {
        const vt_param *p = &u->m->params.items[i];
        size_t piece = u->rules[i].rows ? p->numel : PIECE;
        for (size_t at = 0; at < p->numel && !p->buffer; at += piece, u->n_pieces++)
            if (out)
                out[u->n_pieces] = (vt_piece){.param = i,
                                              .offset = p->offset + at,
                                              .n = p->numel - at < piece ? p->numel - at : piece};
    }
}

void *vt_update_slot(const vt_update *u, int param, int slot) {
    const vt_tensor_rule *t = &u->rules[param];
    return u->state + t->at + (size_t)slot * (state_bytes_of(t, &u->m->params.items[param]) / (size_t)t->def->slots);
}

vt_status vt_update_open(vt_update *u, vt_model *m, const vt_recipe *r, int threads, vt_err *e) {
    *u = (vt_update){.m = m, .threads = threads, .ema_decay = r->top.ema};
    u->rules = calloc((size_t)m->params.count, sizeof *u->rules);
    if (u->rules) {
        for (int i = 0; i < m->params.count; i++) {
            u->rules[i] = optimiser_rule_of(m, &m->params.items[i], r);
            u->rules[i].at = u->state_bytes;
            u->state_bytes += state_bytes_of(&u->rules[i], &m->params.items[i]);
            if (!m->params.items[i].buffer && work_len(&u->rules[i]) > u->work_len)
                u->work_len = work_len(&u->rules[i]);
        }
        split_into_pieces(u, NULL);
    }
    u->pieces = calloc((size_t)u->n_pieces, sizeof *u->pieces);
    u->part = calloc((size_t)u->n_pieces, sizeof *u->part);
    u->work = vt_alloc((u->work_len * (size_t)threads + 1) * sizeof(float));
    u->state = vt_alloc(u->state_bytes + 64), u->state_before = vt_alloc(u->state_bytes + 64);
    u->before = vt_alloc(m->params.total * sizeof(float));
    if (r->top.ema > 0) u->ema = vt_alloc(m->params.total * sizeof(float));
    if (!u->rules || !u->pieces || !u->part || !u->state || !u->state_before || !u->before || !u->work ||
        (r->top.ema > 0 && !u->ema))
        return vt_fail(e, VT_E_MEMORY, "no memory for the optimiser's state (%zu bytes)",
                       vt_update_bytes(m, r, threads));
    split_into_pieces(u, u->pieces);
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        void *slots[VT_OPTIM_SLOTS] = {0};
        for (int k = 0; k < u->rules[i].def->slots; k++) slots[k] = vt_update_slot(u, i, k);
        if (u->rules[i].def->start && !p->buffer)
            u->rules[i].def->start(slots, m->w + p->offset, p->numel, u->rules[i].params);
    }
    if (u->ema) memcpy(u->ema, m->w, m->params.total * sizeof(float));
    return VT_OK;
}

void vt_update_close(vt_update *u) {
    free(u->rules), free(u->pieces), free(u->part), free(u->state), free(u->state_before), free(u->ema),
        free(u->before), free(u->work);
    memset(u, 0, sizeof *u);
}

int vt_update_stuck(const vt_update *u, const char **first) {
    int count = 0;
    for (int i = 0; i < u->m->params.count; i++) {
        const vt_param *p = &u->m->params.items[i];
        const vt_tensor_rule *t = &u->rules[i];
        bool zero = !p->buffer && t->def->keeps_zero && t->def->keeps_zero(t->params);
        for (size_t k = 0; zero && k < p->numel; k++) zero = u->m->w[p->offset + k] == 0;
        if (zero && !count++) *first = p->name;
    }
    return count;
}

typedef struct pass {
    vt_update *u;
    const float *grad_read;
    float *grad;
    double lr, factor;
    int64_t t;
} pass;

/* For vt_for_each: u->part[item] = the sum of squares of the gradient's piece. */
static vt_status sum_squares_of_piece(void *ctx, int thread, size_t item, vt_err *e) {
    (void)thread, (void)e;
    pass *a = ctx;
    const vt_piece *p = &a->u->pieces[item];
    const float *g = a->grad_read + p->offset;
    double lane[16] = {0}, sum = 0;
    size_t i = 0;
    for (; i + 16 <= p->n; i += 16)
        for (size_t k = 0; k < 16; k++) lane[k] += (double)g[i + k] * (double)g[i + k];
    for (; i < p->n; i++) lane[0] += (double)g[i] * (double)g[i];
    for (int k = 0; k < 16; k++) sum += lane[k];
    a->u->part[item] = sum;
    return VT_OK;
}

double vt_update_norm(vt_update *u, const float *grad) {
    pass a = {.u = u, .grad_read = grad};
    vt_for_each((size_t)u->n_pieces, u->threads, sum_squares_of_piece, &a, NULL);
    double sum = 0;
    for (int i = 0; i < u->n_pieces; i++) sum += u->part[i];
    return sqrt(sum);
}

/* Returns 0, or NaN when one of n numbers is not finite. */
static double not_finite(const void *numbers, size_t n, bool wide) {
    const float *f = numbers;
    const double *d = numbers;
    float bad = 0;
    double worse = 0;
    for (size_t i = 0; !wide && i < n; i++) bad += f[i] * 0.0f;
    for (size_t i = 0; wide && i < n; i++) worse += d[i] * 0.0;
    return (double)bad + worse;
}

/* For vt_for_each: steps one piece's weights, keeping what they and their state were; scales its gradient by the pass's
 * factor. u->part[item] = 0, or NaN if a weight or its state is not finite. */
static vt_status step_piece(void *ctx, int thread, size_t item, vt_err *e) {
    (void)e;
    const pass *a = ctx;
    const vt_update *u = a->u;
    const vt_piece *p = &u->pieces[item];
    const vt_tensor_rule *t = &u->rules[p->param];
    float *w = u->m->w + p->offset, *g = a->grad + p->offset, f = (float)a->factor;
    size_t skip = (p->offset - u->m->params.items[p->param].offset) * state_item_size(t);
    void *slots[VT_OPTIM_SLOTS] = {0};
    for (int k = 0; k < t->def->slots; k++) slots[k] = (char *)vt_update_slot(u, p->param, k) + skip;
    if (a->factor != 1)
        for (size_t i = 0; i < p->n; i++) g[i] *= f;
    memcpy(u->before + p->offset, w, p->n * sizeof *w);
    for (int k = 0; k < t->def->slots; k++)
        memcpy(u->state_before + ((char *)slots[k] - u->state), slots[k], p->n * state_item_size(t));
    if (t->rows)
        t->def->step_matrix(w, slots, g, t->rows, t->cols, t->params, a->lr * t->lr_scale, t->weight_decay,
                            u->work + (size_t)thread * u->work_len);
    else
        t->def->step(w, slots, g, p->n, t->params, a->lr * t->lr_scale, t->weight_decay, a->t);
    double bad = not_finite(w, p->n, false);
    for (int k = 0; k < t->def->slots; k++) bad += not_finite(slots[k], p->n, t->def->wide);
    u->part[item] = bad;
    return VT_OK;
}

/* For vt_for_each: moves one piece of the averaged weights towards the weights. */
static vt_status update_ema_piece(void *ctx, int thread, size_t item, vt_err *e) {
    (void)thread, (void)e;
    const vt_update *u = ((pass *)ctx)->u;
    const vt_piece *p = &u->pieces[item];
    float rate = (float)(1 - u->ema_decay), *ema = u->ema + p->offset;
    const float *w = u->m->w + p->offset;
    for (size_t i = 0; i < p->n; i++) ema[i] += rate * (w[i] - ema[i]);
    return VT_OK;
}

/* For vt_for_each: renews what the model keeps of tensor `item`; ctx: the vt_update. */
static vt_status refresh_param(void *ctx, int thread, size_t item, vt_err *e) {
    (void)thread, (void)e;
    vt_model_refresh_param(((vt_update *)ctx)->m, (int)item);
    return VT_OK;
}

void vt_update_refresh(vt_update *u) { vt_for_each((size_t)u->m->params.count, u->threads, refresh_param, u, NULL); }

bool vt_update_step(vt_update *u, float *grad, double factor, double lr, int64_t t) {
    pass a = {.u = u, .grad = grad, .factor = factor, .lr = lr, .t = t};
    double bad = 0;
    vt_for_each((size_t)u->n_pieces, u->threads, step_piece, &a, NULL);
    for (int i = 0; i < u->n_pieces; i++) bad += u->part[i];
    if (bad != 0) {
        for (int i = 0; i < u->n_pieces; i++) { /* buffers have no pieces, and were not touched */
            size_t at = u->pieces[i].offset;
            memcpy(u->m->w + at, u->before + at, u->pieces[i].n * sizeof(float));
        }
        memcpy(u->state, u->state_before, u->state_bytes);
        return false;
    }
    if (u->ema) vt_for_each((size_t)u->n_pieces, u->threads, update_ema_piece, &a, NULL);
    vt_update_refresh(u);
    return true;
}

void vt_update_swap_ema(vt_update *u) {
    if (!u->ema) return;
    float *w = u->m->w;
    u->m->w = u->ema, u->ema = w;
    vt_update_refresh(u);
}

/* ---- adversarial weight perturbation ---- */

bool vt_awp_active(const vt_recipe *r, double share) { return r->awp.gamma > 0 && share >= r->awp.warmup; }

/* For vt_for_each: moves the weights of tensor `item`, if it is a trained "weight" of two sides or more: w += factor
 * ||w|| / (||g|| + 1e-20) g */
static vt_status perturb_weights(void *ctx, int thread, size_t item, vt_err *e) {
    (void)thread, (void)e;
    const pass *a = ctx;
    vt_model *m = a->u->m;
    const vt_param *p = &m->params.items[item];
    if (p->buffer || p->ndim < 2 || !strstr(p->name, "weight")) return VT_OK;
    float *w = m->w + p->offset;
    const float *g = a->grad_read + p->offset;
    double ww = 0, gg = 0;
    for (size_t i = 0; i < p->numel; i++) ww += (double)w[i] * (double)w[i], gg += (double)g[i] * (double)g[i];
    double scale = a->factor * sqrt(ww) / (sqrt(gg) + 1e-20);
    for (size_t i = 0; i < p->numel; i++) w[i] = (float)((double)w[i] + scale * (double)g[i]);
    vt_model_refresh_param(m, (int)item);
    return VT_OK;
}

vt_status vt_awp_gradient(vt_batch *b, vt_update *u, vt_err *e) {
    pass a = {.u = u, .grad_read = b->grad, .factor = b->r->awp.gamma};
    size_t bytes = u->m->params.total * sizeof(float);
    memcpy(u->before, u->m->w, bytes);
    vt_for_each((size_t)u->m->params.count, u->threads, perturb_weights, &a, NULL);
    vt_status s = vt_batch_again(b, e);
    memcpy(u->m->w, u->before, bytes);
    vt_update_refresh(u);
    return s;
}
