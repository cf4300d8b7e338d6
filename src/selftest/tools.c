/* SPDX-License-Identifier: MIT */
#include "selftest/tools.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "eval/result_index.h"
#include "eval/verify.h"
#include "models/arch.h"
#include "inference/classifier.h"
#include "models/surgery.h"

static const char *const specs[VT_TOOL_COUNT] = {
    [VT_TOOL_HALF] = "apgd-ce:steps=25",
    [VT_TOOL_BRIEF] = "apgd-ce:steps=10",
    [VT_TOOL_CE] = "apgd-ce:steps=100",
    [VT_TOOL_T] = "apgd-t:steps=50,targets=3",
    [VT_TOOL_WHOLE] = "apgd-t:steps=50,targets=3",
    [VT_TOOL_SQUARE] = "square:queries=1000",
    [VT_TOOL_TRANSFER] = "pgd:loss=margin,steps=20",
    [VT_TOOL_SMOOTH] = "smooth-pgd:steps=8,draws=6",
    [VT_TOOL_LONG] = "square:queries=5000",
};

/* ---- images ---- */

/* Sets in its image's standing what an attack's line adds: broken, also by a white box, searched at random, broken so.
 * Nothing of attacks scored as published. */
static void update_standing(const vt_eval_options *v, const vt_record *r, vt_standing *s) {
    const vt_attack *a = &v->attacks[r->entry - 1];
    if (a->scoring == VT_SCORE_PUBLISHED || r->stage < 0 || r->stage >= a->n_stages) return;
    const vt_attack_def *d = a->stages[r->stage].def;
    bool broken = r->status == VT_RECORD_BROKEN, search = !d->white_box && !d->surrogate && !d->inside;
    bool gone = broken || r->status == VT_RECORD_NOT_FINITE;
    s->broken |= gone, s->white |= gone && d->white_box;
    s->random |= search, s->random_broke |= search && broken;
}

void vt_standings(const vt_selftest *t, vt_standing *s, double *cost) {
    const vt_eval_options *v = t->v;
    *cost = 0;
    for (size_t i = 0; i < t->ledger->count; i++) {
        const vt_record *r = &t->ledger->records[i];
        size_t k = vt_image_place(v->images, v->n_images, r->image);
        if (k == SIZE_MAX || r->entry > v->n_attacks) continue;
        if (r->entry) {
            update_standing(v, r, &s[k]);
            *cost += (double)r->forwards + t->ratio * (double)r->gradients;
        } else {
            s[k].right = r->status == VT_RECORD_CORRECT, s[k].pred = r->pred;
        }
    }
}

typedef struct ticket {
    bool last;
    uint64_t draw;
    int32_t image;
} ticket;

/* Orders tickets for qsort: those marked last behind, then by draw, then by image. */
static int compare_tickets(const void *a_, const void *b_) {
    const ticket *a = a_, *b = b_;
    if (a->last != b->last) return a->last - b->last;
    return a->draw != b->draw ? (a->draw > b->draw ? 1 : -1) : (a->image > b->image) - (a->image < b->image);
}

vt_status vt_sample(const vt_selftest *t, const vt_standing *s, bool survivors_first, int32_t *images, size_t *n,
                    vt_err *e) {
    ticket *tickets = calloc(t->v->n_images + 1, sizeof *tickets);
    if (!tickets) return vt_fail(e, VT_E_MEMORY, "no memory for the self-test");
    *n = 0;
    for (size_t i = 0; i < t->v->n_images; i++) {
        vt_rng r = vt_selftest_key(t, "selftest sample", t->v->images[i]);
        uint64_t draw = (uint64_t)vt_rng_bits(&r, 0) << 32 | vt_rng_bits(&r, 1);
        if (s[i].right) tickets[(*n)++] = (ticket){survivors_first && s[i].broken, draw, t->v->images[i]};
    }
    qsort(tickets, *n, sizeof *tickets, compare_tickets);
    for (size_t i = 0; i < *n; i++) images[i] = tickets[i].image;
    free(tickets);
    return VT_OK;
}

vt_standing *vt_standing_of(const vt_selftest *t, vt_standing *s, int32_t image) {
    return &s[vt_image_place(t->v->images, t->v->n_images, image)];
}

int32_t vt_partner(const vt_selftest *t, const vt_standing *s, int32_t image) {
    const vt_eval_options *v = t->v;
    size_t n = v->n_images, own = vt_image_place(v->images, v->n_images, image);
    vt_rng r = vt_selftest_key(t, "selftest partner", image);
    size_t first = (size_t)(vt_rng_uniform(&r, 0) * (float)n);
    for (size_t i = 0; i < n; i++)
        if (s[(first + i) % n].pred != s[own].pred) return v->images[(first + i) % n];
    return v->images[(own + 1) % n];
}

/* ---- worker ---- */

/* Parses the tools, and opens an attacker with scratch for the hungriest of them and of the attack under test. */
static vt_status open_attacker(vt_tester *g, vt_err *e) {
    vt_task dims = vt_attacker_dims(vt_subject_shape(g->t->v->subject), g->classes, &g->t->v->patch);
    size_t most = g->t->attack ? vt_attacker_work(g->t->attack, &dims) : 1;
    for (int i = 0; i < VT_TOOL_COUNT; i++) {
        VT_TRY(vt_attack_parse(&g->tools[i], specs[i], g->t->v->norm, e));
        size_t need = vt_attacker_work(&g->tools[i], &dims);
        if (need > most) most = need;
    }
    return vt_attacker_open(&g->attacker, dims.shape, most, e);
}

/* Opens the oracle of a network. */
static vt_status open_oracle(vt_tested_net *net, const vt_selftest *t, vt_err *e) {
    VT_TRY(vt_oracle_open(&net->o, &net->c, e));
    net->o.interrupt = t->v->interrupt;
    return VT_OK;
}

/* Opens the feature network and the network with two classes; first: the tester that holds the features, or NULL.
 * VT_E_UNKNOWN: the model has no head to replace. */
static vt_status open_active(vt_tester *g, const vt_tester *first, vt_err *e) {
    const vt_subject *s = g->t->v->subject;
    size_t n = VT_ACTIVE_INNER + 2;
    if (!g->phi)
        return vt_fail(e, VT_E_UNKNOWN, "%s: no head to replace", s->model->path ? s->model->path : "the model");
    if (!first) {
        VT_TRY(vt_other_head(&g->features.own, s->model, (int)g->phi, e));
        vt_head_set(g->features.own, NULL, NULL, (int)g->phi, g->phi);
    }
    VT_TRY(vt_other_head(&g->two.own, s->model, 2, e));
    VT_TRY(vt_classifier_open(&g->features.c, first ? first->features.own : g->features.own, e));
    VT_TRY(vt_wrap_classifier(&s->wrap, &g->features.c, vt_subject_shape(s), true, e));
    VT_TRY(vt_classifier_open(&g->two.c, g->two.own, e));
    VT_TRY(vt_wrap_classifier(&s->wrap, &g->two.c, vt_subject_shape(s), true, e));
    VT_TRY(open_oracle(&g->two, g->t, e));
    g->points = vt_alloc(n * g->phi * sizeof *g->points);
    g->fit = vt_alloc((n * n + 4 * n + 8 * g->phi + 16) * sizeof *g->fit);
    return g->points && g->fit ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for the active test");
}

/* Allocates the buffers of one image. */
static vt_status allocate_buffers(vt_tester *g, vt_err *e) {
    size_t n = g->pixels, k = (size_t)g->t->v->subject->model->config.classes + 2;
    g->x = vt_alloc((5 * n + 3 * k) * sizeof *g->x);
    g->wide = vt_alloc((n + (size_t)vt_classifier_votes(&g->model.c) * k) * sizeof *g->wide);
    if (!g->x || !g->wide) return vt_fail(e, VT_E_MEMORY, "no memory for one more thread");
    g->y = g->x + n, g->dx = g->y + n, g->dy = g->dx + n, g->planted = g->dy + n, g->z = g->planted + n;
    g->z64 = g->wide + n;
    return VT_OK;
}

/* Opens classifiers of the probes; first: the tester that holds them, or NULL, and then they are made. */
static vt_status open_probes(vt_tester *g, const vt_tester *first, vt_err *e) {
    if (!first) VT_TRY(vt_probes_make(g, e));
    for (int i = 0; i < VT_PROBES; i++) {
        const vt_model *m = first ? first->probe[i].own : g->probe[i].own;
        if (!m) continue;
        VT_TRY(vt_classifier_open(&g->probe[i].c, m, e));
        VT_TRY(open_oracle(&g->probe[i], g->t, e));
    }
    return VT_OK;
}

vt_status vt_tester_open(vt_tester *g, const vt_selftest *t, const vt_tester *first, unsigned needs, vt_err *e) {
    const vt_subject *s = t->v->subject;
    if (s->remote) needs = 0; /* it shows neither attention nor weights */
    *g = (vt_tester){.t = t, .pixels = vt_subject_pixels(s), .phi = vt_feature_count(s->model)};
    g->classes = vt_subject_classes(s);
    VT_TRY(open_attacker(g, e));
    VT_TRY(vt_subject_classifier(&g->model.c, s, NULL, e));
    VT_TRY(allocate_buffers(g, e));
    VT_TRY(open_oracle(&g->model, t, e));
    const vt_arch *arch = vt_arch_find(s->model->config.arch);
    if (needs & VT_NEED_LOOK && arch && arch->shows_attention)
        VT_TRY(vt_session_open_f32(&g->look, s->model, 1, VT_GRAD_INPUT, e));
    if (needs & VT_NEED_DOUBLE && !vt_wrap_covers(&s->wrap))
        VT_TRY(vt_session_open_f64(&g->look64, s->model, 1, VT_GRAD_INPUT, e));
    if (needs & VT_NEED_TWIN) {
        if (!first) VT_TRY(vt_model_twin(&g->twin.own, s->model, t->v->seed, e));
        VT_TRY(vt_subject_classifier(&g->twin.c, s, first ? first->twin.own : g->twin.own, e));
        VT_TRY(open_oracle(&g->twin, t, e));
    }
    if (needs & VT_NEED_PROBES) VT_TRY(open_probes(g, first, e));
    return needs & VT_NEED_ACTIVE ? open_active(g, first, e) : VT_OK;
}

/* Closes a network, its classifier and its oracle; accepts a zeroed one. */
static void close_net(vt_tested_net *net) {
    vt_oracle_close(&net->o);
    vt_classifier_close(&net->c);
    vt_model_close(net->own);
}

void vt_tester_close(vt_tester *g) {
    vt_attacker_close(&g->attacker);
    for (int i = 0; i < VT_TOOL_COUNT; i++) vt_attack_free(&g->tools[i]);
    for (int i = 0; i < VT_PROBES; i++) close_net(&g->probe[i]);
    close_net(&g->model), close_net(&g->twin), close_net(&g->features), close_net(&g->two);
    vt_session_close_f32(g->look);
    vt_session_close_f64(g->look64);
    free(g->x), free(g->wide), free(g->points), free(g->fit);
    *g = (vt_tester){0};
}

vt_status vt_tester_load(vt_tester *g, int32_t image, const char *purpose, vt_err *e) {
    VT_TRY(vt_subject_image(g->t->v->subject, image, g->x, &g->label, e));
    g->image = image;
    if (!purpose) return VT_OK;
    g->key = vt_selftest_key(g->t, purpose, image);
    vt_classifier_begin(&g->model.c, &g->key);
    return VT_OK;
}

void vt_tester_logits(vt_tester *g, const vt_classifier *c, const float *x, float *z, bool keep) {
    g->forwards += !keep;
    if (!g->failed.code && vt_classifier_logits(c, x, z, keep, &g->failed) == VT_OK) return;
    memset(z, 0, (size_t)c->classes * sizeof *z);
}

void vt_tester_backward(vt_tester *g, const vt_classifier *c, const vt_loss *loss, float *value, float *dx) {
    if (!g->failed.code && vt_classifier_backward(c, loss, value, dx, &g->failed) == VT_OK) return;
    *value = 0, memset(dx, 0, c->pixels * sizeof *dx);
}

vt_status vt_tester_failure(vt_tester *g, vt_err *e) {
    vt_status s = g->failed.code;
    if (s != VT_OK && e && e->code == VT_OK) *e = g->failed;
    g->failed = (vt_err){0};
    return s;
}

vt_rng vt_selftest_key(const vt_selftest *t, const char *purpose, int32_t image) {
    return (vt_rng){.seed = t->v->seed, .purpose = vt_rng_purpose(purpose), .image = (uint32_t)image};
}

/* ---- measures that several parts take ---- */

double vt_box_diameter(vt_norm norm, size_t n) {
    return norm == VT_LINF ? 1 : norm == VT_L2 ? sqrt((double)n) : (double)n;
}

double vt_logit_difference(vt_tester *g, const float *x, int a, int b, float *dx) {
    vt_tester_logits(g, &g->model.c, x, g->z, dx != NULL);
    double d = (double)g->z[a] - (double)g->z[b];
    if (!dx) return d;
    float value, *target = g->model.o.own.label;
    memset(target, 0, (size_t)g->classes * sizeof *target);
    target[a] = 1, target[b] = -1;
    vt_tester_backward(g, &g->model.c, &(vt_loss){.kind = VT_LOSS_LINEAR, .target = target}, &value, dx);
    g->gradients++;
    return d;
}

double vt_predicted_change(const vt_tester *g, const float *dx, const float *y) {
    double sum = 0;
    for (size_t i = 0; i < g->pixels; i++) sum += (double)dx[i] * ((double)y[i] - (double)g->x[i]);
    return sum;
}

void vt_random_step(vt_tester *g, vt_rng r, double h) {
    for (size_t i = 0; i < g->pixels; i++)
        g->y[i] = (float)fmin(fmax((double)g->x[i] + (vt_rng_bits(&r, i) >> 31 ? h : -h), 0), 1);
}

/* ---- attacks ---- */

vt_status vt_try_attack(vt_tester *g, const vt_attack_stage *stage, const vt_attack_trial *t, bool *broken, vt_err *e) {
    vt_norm norm = g->t->v->norm;
    vt_oracle *o = &t->net->o;
    vt_task a = {.clean = g->x, .label = t->label, .classes = t->judge->classes, .norm = norm, .eps = t->eps};
    a.mode = t->to_the_end ? VT_ORACLE_EXHAUSTIVE : VT_ORACLE_SEARCH;
    a.rng = vt_selftest_key(g->t, t->purpose, g->image);
    vt_status s = vt_attacker_run(&g->attacker, o, stage, &a);
    g->forwards += (double)o->forwards, g->gradients += (double)o->gradients;
    if (s == VT_INTERRUPTED) return s;
    *broken = false;
    if (s == VT_E_NUMERIC) return VT_OK; /* beyond float's range: no evidence about gradients */
    if (s != VT_OK)
        return vt_fail(e, s, "image %d: %s failed in the self-test: %.1800s", g->image, stage->def->name,
                       vt_attacker_why(o, s));
    vt_verdict d;
    if (t->judge != o->model) vt_classifier_begin(t->judge, &a.rng);
    VT_TRY(vt_verify(&d, t->judge, g->x, g->attacker.at, t->label, norm, t->eps, g->z, g->z64, e));
    g->forwards += t->judge != o->model;
    *broken = d.broken && d.finite;
    return VT_OK;
}

void vt_draw_corner(const vt_ball *b, const vt_rng *r, float *out) {
    if (b->norm == VT_LINF)
        for (size_t i = 0; i < b->n; i++) out[i] = vt_rng_bits(r, i) >> 31 ? b->hi[i] : b->lo[i];
    else
        vt_ball_start_surface(b, r, out);
}

vt_status vt_try_noise(vt_tester *g, const vt_classifier *c, int label, int q, bool corners, bool *broken) {
    const vt_eval_options *v = g->t->v;
    vt_ball ball;
    vt_ball_init(&ball, v->norm, v->eps, g->x, g->pixels, g->attacker.lo, g->attacker.hi);
    vt_rng r = vt_selftest_key(g->t, corners ? "selftest corners" : "selftest surface", g->image);
    *broken = false;
    for (int i = 0; i < q && !*broken; i++) {
        if (v->interrupt && *v->interrupt) return VT_INTERRUPTED;
        r.step = (uint32_t)i + 1;
        (corners ? vt_draw_corner : vt_ball_start_surface)(&ball, &r, g->y);
        vt_tester_logits(g, c, g->y, g->z, false);
        *broken = vt_argmax_f32(g->z, c->classes) != label;
    }
    return VT_OK;
}
