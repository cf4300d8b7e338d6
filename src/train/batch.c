/* SPDX-License-Identifier: MIT */
#include "train/batch.h"

#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "parallel/threads.h"

/* ---- the sum over ranks ---- */

int vt_reduce_own(int rank, int size, int micros) { return (micros - rank + size - 1) / size; }

/* Returns where rank's slice of a gradient [total] begins. */
static size_t slice_at(const vt_reduce *r, int rank) { return r->total * (size_t)rank / (size_t)r->team->size; }
/* Returns how many numbers of a gradient rank's slice has. */
static size_t slice_len(const vt_reduce *r, int rank) { return slice_at(r, rank + 1) - slice_at(r, rank); }

size_t vt_reduce_bytes(int size, size_t total, int micros) {
    size_t own = (size_t)vt_reduce_own(0, size, micros), slice = total / (size_t)size + 1;
    return (own * total + (size_t)micros * slice) * sizeof(float);
}

vt_status vt_reduce_open(vt_reduce *r, vt_team *t, size_t total, int micros, vt_err *e) {
    *r = (vt_reduce){.team = t, .total = total, .micros = micros};
    size_t own = (size_t)vt_reduce_own(t->rank, t->size, micros);
    r->out = vt_alloc((own * total + 1) * sizeof(float));
    r->in = vt_alloc(((size_t)micros * slice_len(r, t->rank) + 1) * sizeof(float));
    r->messages = calloc(own * (size_t)t->size + (size_t)micros + 2 * (size_t)t->size, sizeof *r->messages);
    if (r->out && r->in && r->messages) return VT_OK;
    return vt_fail(e, VT_E_MEMORY, "no memory for the gradients of %d micro-batches (%zu bytes)", micros,
                   vt_reduce_bytes(t->size, total, micros));
}

void vt_reduce_close(vt_reduce *r) {
    free(r->out), free(r->in), free(r->messages);
    *r = (vt_reduce){0};
}

void vt_reduce_put(vt_reduce *r, int own, const float *grad) {
    memcpy(r->out + (size_t)own * r->total, grad, r->total * sizeof *grad);
}

/* Sends every rank its slice of this rank's micro-batches, and receives this rank's slice of all. */
static void exchange_slices(vt_reduce *r) {
    vt_team *t = r->team;
    int own = vt_reduce_own(t->rank, t->size, r->micros);
    vt_message *out = r->messages, *in = out;
    size_t mine = slice_len(r, t->rank), n = 0;
    for (int to = 0; to < t->size; to++)
        for (int k = 0; k < own; k++)
            out[n++] =
                (vt_message){to, r->out + (size_t)k * r->total + slice_at(r, to), slice_len(r, to) * sizeof(float)};
    in += n;
    for (int m = 0; m < r->micros; m++)
        in[m] = (vt_message){m % t->size, r->in + (size_t)m * mine, mine * sizeof(float)};
    t->ops->exchange(t->ctx, out, n, in, (size_t)r->micros);
}

/* Sends the sum of this rank's slice to all others, and receives theirs. */
static void share_sums(vt_reduce *r, float *grad) {
    vt_team *t = r->team;
    vt_message *out = r->messages, *in = out + t->size;
    size_t n = 0;
    for (int k = 0; k < t->size; k++) {
        if (k == t->rank) continue;
        out[n] = (vt_message){k, grad + slice_at(r, t->rank), slice_len(r, t->rank) * sizeof *grad};
        in[n++] = (vt_message){k, grad + slice_at(r, k), slice_len(r, k) * sizeof *grad};
    }
    t->ops->exchange(t->ctx, out, n, in, n);
}

void vt_reduce_sum(vt_reduce *r, float *grad) {
    size_t n = slice_len(r, r->team->rank);
    float *to = grad + slice_at(r, r->team->rank);
    exchange_slices(r);
    memcpy(to, r->in, n * sizeof *to);
    for (int m = 1; m < r->micros; m++)
        for (size_t i = 0; i < n; i++) to[i] += r->in[(size_t)m * n + i];
    share_sums(r, grad);
}

/* ---- the step ---- */

double vt_batch_eps(const vt_recipe *r, double share) {
    double a = r->attack.ramp_begin, b = r->attack.ramp_end;
    if (share < a) return 0;
    return share < b ? r->attack.eps * (share - a) / (b - a) : r->attack.eps;
}

const vt_penalty_def_f32 *vt_next_penalty(const vt_recipe *r, int *i, const void **params) {
    int n;
    const vt_penalty_def_f32 *const *all = vt_penalty_defs_f32(&n);
    while (*i < n) {
        const vt_penalty_def_f32 *p = all[(*i)++];
        *params = vt_recipe_params(r, VT_RECIPE_PENALTY, p->name);
        if (p->active(*params)) return p;
    }
    return NULL;
}

/* Returns the micro-batches of a step, of all ranks. */
static int micro_batches(const vt_recipe *r) { return (r->top.batch + r->top.micro_batch - 1) / r->top.micro_batch; }

/* Returns the most micro-batches that one of `size` ranks computes. */
static int most_own(const vt_recipe *r, int size) { return vt_reduce_own(0, size, micro_batches(r)); }

/* Returns how many of `threads` threads have a micro-batch to compute on one of `size` ranks. */
static int worker_count(const vt_recipe *r, int threads, int size) {
    return threads < most_own(r, size) ? threads : most_own(r, size);
}

/* Returns the bytes of the adversarial images that a step keeps for its second gradient. */
static size_t kept_bytes(const vt_recipe *r, const vt_model *m) {
    bool kept = r->awp.gamma > 0 && vt_objective_find_f32(r->top.objective)->inner != VT_INNER_NONE;
    return kept ? (size_t)r->top.batch * vt_config_input_pixels(&m->config) * sizeof(float) : 0;
}

/* Opens one thread's session, inner attack and buffers. */
static vt_status open_worker(vt_batch_worker *w, const vt_batch *b, vt_err *e) {
    const vt_objective_def_f32 *o = b->objective;
    int views = vt_views_f32(o);
    size_t n = (size_t)b->r->top.micro_batch, k = (size_t)b->m->config.classes,
           px = vt_config_input_pixels(&b->m->config);
    VT_TRY(vt_session_open_f32(&w->session, b->m, views * b->r->top.micro_batch, VT_GRAD_PARAMS, e));
    w->session->ortho = (float)b->ortho;
    if (o->bounds) {
        VT_TRY(vt_bounds_open_f32(&w->bounds, w->session, e));
        w->session->bounds = &w->bounds;
    }
    if (o->inner != VT_INNER_NONE)
        VT_TRY(vt_inner_open(&w->inner, b->m, b->r->attack.spec, (vt_norm)b->r->attack.norm, o->inner, o->start_sigma,
                             &b->r->attack, (uint64_t)b->r->top.seed, e));
    w->grad = vt_alloc(b->m->params.total * sizeof(float));
    w->x = vt_alloc(2 * n * px * sizeof(float)), w->partner = vt_alloc(px * sizeof(float));
    w->target = vt_alloc(n * k * sizeof(float)), w->dz = vt_alloc(2 * n * k * sizeof(float));
    if (b->r->model.drop_path > 0) w->drop = vt_alloc(vt_drop_path_len(b->m, views * (int)n) * sizeof(float));
    if (w->grad && w->x && w->partner && w->target && w->dz && (w->drop || !(b->r->model.drop_path > 0))) return VT_OK;
    return vt_fail(e, VT_E_MEMORY, "no memory for one more thread of training (%zu bytes)",
                   vt_batch_bytes(b->r, b->m, 1, 1));
}

/* Allocates what the sum over ranks needs; nothing without a team. */
static vt_status open_team(vt_batch *b, vt_err *e) {
    int size = vt_team_size(b->team), most = most_own(b->r, size);
    if (!b->team) return VT_OK;
    VT_TRY(vt_reduce_open(&b->reduce, b->team, b->m->params.total, micro_batches(b->r), e));
    b->all_sums = calloc((size_t)most * ((size_t)size + 1), sizeof *b->all_sums);
    return b->all_sums ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for training");
}

vt_status vt_batch_open(vt_batch *b, const vt_recipe *r, const vt_model *m, const vt_dataset *data, int threads,
                        vt_team *team, vt_err *e) {
    *b = (vt_batch){.r = r, .m = m, .data = data, .team = team};
    b->threads = worker_count(r, threads, vt_team_size(team));
    VT_TRY(open_team(b, e));
    b->objective = vt_objective_find_f32(r->top.objective);
    b->objective_params = vt_recipe_params(r, VT_RECIPE_OBJECTIVE, r->top.objective);
    const vt_penalty_def_f32 *p;
    const void *params;
    for (int i = 0; (p = vt_next_penalty(r, &i, &params));)
        if (p->attention) b->ortho += p->attention(params, r->top.batch * vt_views_f32(b->objective));
    b->grad = vt_alloc(m->params.total * sizeof(float));
    if (kept_bytes(r, m) && !(b->adv = vt_alloc(kept_bytes(r, m))))
        return vt_fail(e, VT_E_MEMORY, "no memory for a step's adversarial images (%zu bytes)", kept_bytes(r, m));
    b->workers = calloc((size_t)b->threads, sizeof *b->workers);
    if (!b->grad || !b->workers) return vt_fail(e, VT_E_MEMORY, "no memory for training");
    for (int i = 0; i < b->threads; i++) VT_TRY(open_worker(&b->workers[i], b, e));
    return VT_OK;
}

void vt_batch_close(vt_batch *b) {
    for (int i = 0; b->workers && i < b->threads; i++) {
        vt_batch_worker *w = &b->workers[i];
        vt_bounds_close_f32(&w->bounds);
        vt_session_close_f32(w->session);
        vt_inner_close(&w->inner);
        free(w->grad), free(w->x), free(w->partner), free(w->target), free(w->dz), free(w->drop);
    }
    vt_reduce_close(&b->reduce);
    free(b->workers), free(b->grad), free(b->all_sums), free(b->adv);
    memset(b, 0, sizeof *b);
}

size_t vt_batch_bytes(const vt_recipe *r, const vt_model *m, int threads, int size) {
    const vt_objective_def_f32 *o = vt_objective_find_f32(r->top.objective);
    size_t n = (size_t)r->top.micro_batch, k = (size_t)m->config.classes, px = vt_config_input_pixels(&m->config);
    size_t one = vt_session_bytes_f32(m, vt_views_f32(o) * r->top.micro_batch, VT_GRAD_PARAMS) +
                 sizeof(float) * (m->params.total + (2 * n + 1) * px + 3 * n * k);
    if (r->model.drop_path > 0) one += vt_drop_path_len(m, vt_views_f32(o) * (int)n) * sizeof(float);
    if (o->bounds) one += vt_bounds_bytes_f32(m, r->top.micro_batch);
    if (o->inner != VT_INNER_NONE) one += vt_inner_bytes(m, r->attack.spec, (vt_norm)r->attack.norm);
    return (size_t)worker_count(r, threads, size) * one + m->params.total * sizeof(float) + kept_bytes(r, m) +
           (size > 1 ? vt_reduce_bytes(size, m->params.total, micro_batches(r)) : 0);
}

/* Loads image `at` of the batch, from its set, as it is before mixing: augmented, into x, and its label. */
static vt_status load_one(const vt_batch *b, int at, float *x, int *label, vt_err *e) {
    const vt_sampled *set = b->sampler ? vt_sampler_set(b->sampler, at) : NULL;
    return vt_augment_image(x, label, set ? set->data : b->data, b->ids[at], vt_config_input(&b->m->config),
                            &b->r->augment, (uint64_t)b->r->top.seed, set ? set->pass : b->epoch, e);
}

/* Loads image `at` of the batch into x, mixed with its partner (the reversed batch, into w->partner), and its label
 * distribution into target. */
static vt_status load_mixed_image(vt_batch *b, vt_batch_worker *w, int at, float *x, float *target, vt_err *e) {
    const vt_recipe *r = b->r;
    int y, yr;
    VT_TRY(load_one(b, at, x, &y, e));
    yr = y;
    if (b->mix.kind != VT_MIX_NONE) {
        VT_TRY(load_one(b, r->top.batch - 1 - at, w->partner, &yr, e));
        vt_mix_images(x, w->partner, &b->mix, vt_config_input(&b->m->config));
    }
    vt_mix_target(target, y, yr, &b->mix, r->top.label_smoothing, b->m->config.classes);
    if (r->augment.gaussian > 0)
        vt_augment_gaussian(x, w->partner, vt_config_input_pixels(&b->m->config), r->augment.gaussian,
                            (uint64_t)r->top.seed, b->step, at);
    return VT_OK;
}

/* Returns how many of `images` rows of logits z have their arg-max at that of target, both [images, k]. */
static int count_right(const float *z, const float *target, int images, int k) {
    int right = 0;
    for (int i = 0; i < images; i++) right += vt_argmax_f32(z + i * k, k) == vt_argmax_f32(target + i * k, k);
    return right;
}

/* Draws stochastic depth, by seed, image, step and view, for n images from position `first` of the batch on, each in
 * all its views; returns w->drop, NULL if there is none. */
static const float *draw_depth(vt_batch *b, vt_batch_worker *w, int first, int n) {
    int views = vt_views_f32(b->objective);
    for (int i = 0; w->drop && i < views * n; i++)
        vt_drop_path_draw(w->drop, b->m, b->r->model.drop_path, i, views * n, (uint64_t)b->r->top.seed,
                          b->ids[first + i % n], b->step, i / n);
    return w->drop;
}

/* For vt_for_each: loads, attacks and differentiates micro-batch `item` into worker `thread`'s grad and sums. Keeps the
 * adversarial images in b->adv, if it is there, or takes them from it (b->again). */
static vt_status micro_gradient(void *ctx, int thread, size_t item, vt_err *e) {
    vt_batch *b = ctx;
    vt_batch_worker *w = &b->workers[thread];
    const vt_objective_def_f32 *o = b->objective;
    int micro = b->r->top.micro_batch, first = (int)item * micro, k = b->m->config.classes;
    int n = b->r->top.batch - first < micro ? b->r->top.batch - first : micro;
    size_t px = vt_config_input_pixels(&b->m->config);
    float *clean = w->x, *adv = w->x + (size_t)n * px;
    double eps = vt_batch_eps(b->r, b->share);
    for (int i = 0; i < n; i++) {
        VT_TRY(load_mixed_image(b, w, first + i, clean + (size_t)i * px, w->target + i * k, e));
        if (o->inner == VT_INNER_NONE) continue;
        float *x = adv + (size_t)i * px, *kept = b->adv ? b->adv + (size_t)(first + i) * px : NULL;
        if (b->again) {
            memcpy(x, kept, px * sizeof *x);
            continue;
        }
        VT_TRY(vt_inner_run(&w->inner, x, clean + (size_t)i * px, w->target + i * k, eps, b->ids[first + i], b->epoch,
                            b->step, b->share, e));
        if (kept) memcpy(kept, x, px * sizeof *x);
    }
    bool extra_look = !o->needs_clean && item == 0 && !b->again;
    int right = extra_look ? count_right(vt_session_forward_f32(w->session, clean, n, false), w->target, n, k) : 0;
    memset(w->grad, 0, b->m->params.total * sizeof(float));
    w->session->drop = draw_depth(b, w, first, n), w->bounds.eps = eps;
    vt_micro_gradient_f32(w->grad, &w->sums, w->session, o, b->objective_params, o->needs_clean ? clean : adv,
                          w->target, n, 1.0 / b->r->top.batch, w->dz);
    w->session->drop = NULL;
    if (extra_look) w->sums.clean_images = n, w->sums.right_clean = right;
    return VT_OK;
}

/* Adds the sums of a micro-batch to those of the step. */
static void add_sums(vt_step_sums *to, const vt_step_sums *of) {
    to->loss += of->loss, to->ortho += of->ortho;
    to->images += of->images, to->right_adv += of->right_adv;
    to->clean_images += of->clean_images, to->right_clean += of->right_clean;
}

/* For vt_for_each_in_order: adds worker `thread`'s gradient and sums to the step's; item 0 begins the sum. */
static void add_gradient(void *ctx, int thread, size_t item) {
    vt_batch *b = ctx;
    const vt_batch_worker *w = &b->workers[thread];
    const float *from = w->grad;
    float *to = b->grad;
    if (item == 0)
        memcpy(to, from, b->m->params.total * sizeof *to);
    else
        for (size_t i = 0; i < b->m->params.total; i++) to[i] += from[i];
    add_sums(&b->sums, &w->sums);
}

/* Computes gradient and sums of number `item` of this rank's micro-batches. */
static vt_status own_micro_gradient(void *ctx, int thread, size_t item, vt_err *e) {
    vt_batch *b = ctx;
    VT_TRY(micro_gradient(b, thread, item * (size_t)b->team->size + (size_t)b->team->rank, e));
    vt_reduce_put(&b->reduce, (int)item, b->workers[thread].grad);
    b->all_sums[item] = b->workers[thread].sums;
    return VT_OK;
}

/* Computes this rank's micro-batches and sums gradients and sums over all ranks. Collective. */
static vt_status gradient_of_ranks(vt_batch *b, vt_err *e) {
    vt_team *t = b->team;
    int micros = micro_batches(b->r), most = most_own(b->r, t->size);
    size_t own = (size_t)vt_reduce_own(t->rank, t->size, micros);
    vt_step_sums *all = b->all_sums + most;
    VT_TRY(vt_team_agree(t, vt_for_each(own, b->threads, own_micro_gradient, b, e), e));
    vt_reduce_sum(&b->reduce, b->grad);
    t->ops->gather(t->ctx, b->all_sums, (size_t)most * sizeof *all, all);
    for (int m = 0; m < micros; m++) add_sums(&b->sums, &all[m % t->size * most + m / t->size]);
    return VT_OK;
}

/* Computes b->grad and b->sums of the step that b describes, alone or with the other ranks. */
static vt_status sum_micro_batches(vt_batch *b, vt_err *e) {
    if (b->team) return gradient_of_ranks(b, e);
    return vt_for_each_in_order((size_t)micro_batches(b->r), b->threads, micro_gradient, add_gradient, b, e);
}

vt_status vt_batch_again(vt_batch *b, vt_err *e) {
    vt_step_sums sums = b->sums;
    b->again = true;
    vt_status s = sum_micro_batches(b, e);
    b->again = false, b->sums = sums;
    return s;
}

vt_status vt_batch_gradient(vt_batch *b, const int32_t *ids, int epoch, int64_t step, double share, vt_err *e) {
    b->ids = ids, b->epoch = epoch, b->step = step, b->share = share;
    b->mix = vt_mix_draw(&b->r->augment, (uint64_t)b->r->top.seed, step, vt_config_input(&b->m->config));
    b->sums = (vt_step_sums){0};
    return sum_micro_batches(b, e);
}
