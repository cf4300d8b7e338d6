/* SPDX-License-Identifier: MIT */
/* Sparse-RS: random search over which values (or whole pixels) are changed, all of them to 0 or 1, scores only (Croce
 * et al. 2022, "Sparse-RS: a Versatile Framework for Query-Efficient Sparse Black-Box Adversarial Attacks", algorithms
 * 1 and 2, for l0; schedule and constants of the authors' code). */
#include <string.h>
#include "attacks/attack.h"

enum { FEATURE, PIXEL };

typedef struct params {
    int queries, restarts, unit;
    double alpha;
} params;

static const vt_opt opts[] = {
    VT_OPT_I("queries", params, queries, "forwards of a run, the start among them", 5000, 1, 10000000),
    VT_OPT_I("restarts", params, restarts, "independent runs", 1, 1, 1000),
    VT_OPT_R("alpha", params, alpha, "share of the set that is exchanged at first", 0.3, 1e-6, 1),
    VT_OPT_C("unit", params, unit,
             "what is changed: single values, or pixels with all their channels (the authors' l0; in RGB three times "
             "eps)",
             "feature|pixel", FEATURE),
    VT_OPT_END,
};

/* One image: `all` units, of which the first k of `order` are changed. */
typedef struct search {
    const vt_task *t;
    size_t plane, all, k, each;      /* values of a channel; units; changed at a time; values of a unit */
    uint32_t *order;                 /* [all] */
    float *to;                       /* [n] what a changed value becomes */
    float before[VT_SHAPE_CHANNELS]; /* of a unit that was recoloured alone */
    uint32_t recoloured;
    vt_rng r;
    uint64_t drawn;
} search;

/* Returns the run's next random number in [0, below), keyed by the attack, the run and how many were drawn before. */
static uint32_t draw_below(search *s, size_t below) { return vt_rng_bits(&s->r, s->drawn++) % (uint32_t)below; }

/* Returns the index into an image [n] of channel c of a unit. */
static size_t value_index(const search *s, uint32_t unit, size_t c) {
    return s->each == 1 ? unit : c * s->plane + unit;
}

/* Draws 0 or 1 for every value of a unit, into s->to. */
static void recolour_unit(search *s, uint32_t unit) {
    for (size_t c = 0; c < s->each; c++) s->to[value_index(s, unit, c)] = (float)(draw_below(s, 2));
}

/* Swaps positions a and b of the order. */
static void swap_units(search *s, size_t a, size_t b) {
    uint32_t u = s->order[a];
    s->order[a] = s->order[b], s->order[b] = u;
}

/* Sets x [n] to the candidate image: the first k of the order become what they are changed to. */
static void build_candidate(const search *s, float *x) {
    memcpy(x, s->t->x, s->t->n * sizeof *x);
    for (size_t i = 0; i < s->k; i++)
        for (size_t c = 0; c < s->each; c++) x[value_index(s, s->order[i], c)] = s->to[value_index(s, s->order[i], c)];
}

/* Draws the first k units of the order, which is set up anew, and their colours. */
static void draw_initial_set(search *s) {
    for (size_t i = 0; i < s->all; i++) s->order[i] = (uint32_t)i;
    for (size_t i = 0; i < s->k; i++) {
        swap_units(s, i, i + draw_below(s, s->all - i));
        recolour_unit(s, s->order[i]);
    }
}

/* Returns how many of s->k iteration i exchanges: s->k alpha / `by`, which grows on the way, at least 1 and at most as
 * many as are not changed (0: all are). */
static size_t exchange_count(const params *p, const search *s, int i) {
    static const struct {
        int until;
        double by;
    } parts[] = {{0, 1}, {50, 2}, {200, 4}, {500, 5}, {1000, 6}, {2000, 8}, {4000, 10}, {6000, 12}, {8000, 15}};
    double at = (double)i / p->queries * 10000, by = 20;
    for (size_t k = sizeof parts / sizeof *parts; k-- > 0;)
        if ((int)at <= parts[k].until) by = parts[k].by;
    size_t m = (size_t)(p->alpha / by * (double)s->k), rest = s->all - s->k;
    if (m < 1) m = 1;
    return m < rest ? m : rest;
}

/* Exchanges m changed units for m others, which get new colours; m 0, where all are changed: one gets a new colour. */
static void propose_exchange(search *s, size_t m) {
    for (size_t i = 0; i < m; i++) {
        swap_units(s, s->k - 1 - i, draw_below(s, s->k - i));                 /* to the end of the changed ones */
        swap_units(s, s->k + i, s->k + i + draw_below(s, s->all - s->k - i)); /* to the beginning of the others */
    }
    for (size_t i = 0; i < m; i++) {
        swap_units(s, s->k - 1 - i, s->k + i);
        recolour_unit(s, s->order[s->k - 1 - i]);
    }
    if (m) return;
    s->recoloured = s->order[draw_below(s, s->k)];
    for (size_t c = 0; c < s->each; c++) s->before[c] = s->to[value_index(s, s->recoloured, c)];
    recolour_unit(s, s->recoloured);
}

/* Undoes propose_exchange(s, m), but for colours of what is not changed any more. */
static void take_back(search *s, size_t m) {
    for (size_t i = 0; i < m; i++) swap_units(s, s->k - 1 - i, s->k + i);
    for (size_t c = 0; c < s->each && !m; c++) s->to[value_index(s, s->recoloured, c)] = s->before[c];
}

/* Searches on one image until it breaks; t->x_adv: the best point of the last restart, or x where eps is less than a
 * pixel. */
static vt_status run(vt_oracle *o, const void *params_, const vt_task *t) {
    const params *p = params_;
    float *next = t->work + 2 * t->n, *z = next + t->n, best;
    search s = {.t = t, .plane = vt_shape_plane(t->shape), .r = t->rng};
    s.each = p->unit == PIXEL ? (size_t)t->shape.channels : 1, s.all = t->n / s.each;
    s.k = (size_t)t->ball->eps / s.each;
    if (s.k > s.all) s.k = s.all;
    s.order = (uint32_t *)(void *)t->work, s.to = t->work + t->n;
    memcpy(t->x_adv, t->x, t->n * sizeof(float));
    if (!s.k) return vt_oracle_logits(o, t->x_adv, z); /* fewer values than a pixel has may change */
    for (int k = 0; k < p->restarts; k++) {
        s.r.run = (uint32_t)k, s.drawn = 0;
        draw_initial_set(&s);
        build_candidate(&s, t->x_adv);
        VT_TRY(vt_oracle_logits(o, t->x_adv, z));
        best = -vt_oracle_margin(o, z);
        for (int i = 1; i < p->queries && !vt_oracle_may_end(o, best < 0); i++) {
            size_t m = exchange_count(p, &s, i);
            propose_exchange(&s, m);
            build_candidate(&s, next);
            VT_TRY(vt_oracle_logits(o, next, z));
            float now = -vt_oracle_margin(o, z);
            if (now < best || now <= 0)
                memcpy(t->x_adv, next, t->n * sizeof(float));
            else
                take_back(&s, m);
            if (now < best) best = now;
        }
        if (vt_oracle_may_end(o, best < 0)) return VT_OK;
    }
    return VT_OK;
}

VT_COST(params, .forwards = (double)p->restarts * p->queries)

const vt_attack_def vt_attack_def_sparse_rs = {
    .name = "sparse-rs",
    .summary = "random search in l0: which values to change; black-box, scores only",
    .reference = "Croce, Andriushchenko, Singh, Flammarion and Hein 2022, algorithms 1 and 2",
    .norms = VT_CAN_L0,
    VT_ATTACK_CODE(params, .images = 3, .logits = 1),
};
