/* SPDX-License-Identifier: MIT */
#include "spec/falsify.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/progress.h"
#include "base/rand.h"
#include "parallel/threads.h"

enum { TARGETS = 9 }; /* cases of a box that the first round aims at; each further round at twice as many */

/* What a run aims at: a case, or (-1) at each step the case of the box that is nearest. */
typedef struct target {
    int box, c;
    double key; /* violation at the box's centre */
} target;

typedef struct worker {
    vt_evaluator_f32 *v;
    float *x, *prev, *top, *g; /* [inputs] the point, the one before it, the run's best one, a gradient */
    float *dy;                 /* [outputs] */
    double *y, *best;          /* [outputs], [cases] */
} worker;

typedef struct search {
    const vt_spec *s;
    const vt_spec_network *n;
    const vt_falsify_options *o;
    worker *workers;
    target *ranked, *items; /* [cases] by box and key; of the round */
    int *first;             /* [boxes + 1] in ranked */
    int round;
    size_t begun, n_items; /* runs of earlier rounds; of this one */
    double deadline;
    vt_evaluator_f32 *float_judge; /* without gradients; both under the lock */
    vt_evaluator_f64 *judge;
    double *x, *y; /* the judges' */
    double *found; /* [inputs] the witness of run found_at, the lowest */
    atomic_size_t found_at;
    atomic_llong runs, steps, borderline;
    atomic_bool late;
    pthread_mutex_t lock;
} search;

/* ---- what a run minimises ---- */

/* Returns the sum of the violations of a case's rows (sum), or the largest one; dy [outputs] (may be NULL): its
 * gradient. If y meets the case, the largest one in any case. */
static double case_loss(const search *q, const vt_spec_case *c, const double *y, bool sum, float *dy) {
    const vt_spec *s = q->s;
    int worst = 0;
    double loss = vt_spec_violation(s, c, y, &worst), all = 0;
    sum = sum && loss > 0; /* else the case is met in float32, but not in double: on with what is nearest its limit */
    if (dy) memset(dy, 0, (size_t)s->outputs * sizeof *dy);
    for (int i = 0; i < c->n; i++) {
        const double v = vt_spec_row_violation(s, c->rows[i], y);
        const vt_spec_row *r = &s->rows[c->rows[i]];
        if (sum && v > 0) all += v;
        if (!dy || (sum ? v <= 0 : c->rows[i] != worst)) continue;
        for (int k = r->first; k < r->first + r->n; k++) dy[s->terms[k].y] += (float)s->terms[k].c;
    }
    return sum ? all : loss;
}

/* Returns whether float32, computed without gradients, and double agree that x meets the case. Then x is the witness
 * (q->found) of this run, unless an earlier one has one; else it counts as borderline. */
static bool confirm_witness(search *q, const vt_spec_case *c, const float *x, size_t run) {
    const vt_spec_box *b = &q->s->boxes[c->box];
    pthread_mutex_lock(&q->lock);
    for (int i = 0; i < q->s->inputs; i++) q->x[i] = vt_spec_input(b, i, x[i]);
    vt_evaluator_forward_f64(q->judge, q->y, q->x);
    bool met = vt_spec_violation(q->s, c, q->y, NULL) <= 0;
    if (met) vt_evaluator_forward_f32(q->float_judge, q->y, x);
    met = met && vt_spec_violation(q->s, c, q->y, NULL) <= 0;
    if (met && run < atomic_load(&q->found_at)) {
        memcpy(q->found, q->x, (size_t)q->s->inputs * sizeof *q->x);
        atomic_store(&q->found_at, run);
    }
    pthread_mutex_unlock(&q->lock);
    if (!met) atomic_fetch_add(&q->borderline, 1);
    return met;
}

/* Computes w->y at w->x, and updates w->best; *aim, *loss: the case that the run follows from here and its loss. true:
 * a case is met, and confirmed. */
static bool look_at_point(search *q, worker *w, const target *t, size_t run, bool sum, int *aim, double *loss) {
    const vt_spec *s = q->s;
    vt_evaluator_forward_f32(w->v, w->y, w->x);
    atomic_fetch_add(&q->steps, 1);
    *aim = t->c, *loss = t->c >= 0 ? case_loss(q, &s->cases[t->c], w->y, sum, NULL) : INFINITY;
    for (int k = q->first[t->box]; k < q->first[t->box + 1]; k++) {
        const int c = q->ranked[k].c;
        const double v = vt_spec_violation(s, &s->cases[c], w->y, NULL);
        if (v < w->best[c]) w->best[c] = v;
        if (v <= 0 && confirm_witness(q, &s->cases[c], w->x, run)) return true;
        if (t->c >= 0) continue;
        const double l = sum ? case_loss(q, &s->cases[c], w->y, true, NULL) : v;
        if (*aim < 0 || l < *loss) *aim = c, *loss = l;
    }
    return false;
}

/* ---- a run ---- */

/* Returns v cut to side i of the box, in double, in which a box that spans all of float32 has a width. What is no
 * number becomes the lower bound. */
static float clip_to_box(const vt_spec_box *b, int i, double v) {
    return v > (double)b->far[i] ? b->far[i] : v >= (double)b->near[i] ? (float)v : b->near[i];
}

/* Returns the length of the box's side i. */
static double side_of(const vt_spec_box *b, int i) { return (double)b->far[i] - (double)b->near[i]; }

/* Sets x to the centre (round 0), a corner (odd rounds) or a random point of the box, drawn by seed, case, round and
 * box. */
static void start_run(const search *q, const target *t, float *x) {
    const vt_spec_box *b = &q->s->boxes[t->box];
    const vt_rng rng = {.seed = q->o->seed,
                        .purpose = vt_rng_purpose("falsify"),
                        .image = (uint32_t)(t->c + 1),
                        .run = (uint32_t)q->round,
                        .step = (uint32_t)t->box};
    for (int i = 0; i < q->s->inputs; i++) {
        double at = 0.5;
        if (q->round) at = (double)vt_rng_uniform(&rng, (uint64_t)i);
        if (q->round & 1) at = at < 0.5 ? 0 : 1;
        x[i] = clip_to_box(b, i, (double)b->near[i] + at * side_of(b, i));
    }
}

/* Returns where the runs of a round start, for sentences. */
static const char *start_name(int round) { return !round ? "the centre" : round & 1 ? "a corner" : "a random point"; }

/* Moves w->x, and w->prev to where it was, by a step of length alpha, in sides of the box, against the gradient's sign,
 * or (scaled) the gradient, with `momentum` of the last step. false: the gradient is 0 or not finite. */
static bool take_step(worker *w, const vt_spec_box *b, int n, double alpha, bool scaled, double momentum) {
    double most = 0;
    for (int i = 0; i < n; i++) most = fmax(most, fabs((double)w->g[i] * side_of(b, i)));
    if (!(most > 0) || !isfinite(most)) return false;
    for (int i = 0; i < n; i++) {
        const double side = side_of(b, i), slope = (double)w->g[i] * side, x = (double)w->x[i];
        const double along = scaled ? slope / most : (slope > 0) - (slope < 0);
        const double to = (double)clip_to_box(b, i, x - alpha * side * along);
        const double next = x + (1 - momentum) * (to - x) + momentum * (x - (double)w->prev[i]);
        w->prev[i] = w->x[i], w->x[i] = clip_to_box(b, i, next);
    }
    return true;
}

/* Steps are halved as in Auto-PGD: where a window of steps brought too little, back at the best point. */
typedef struct pace {
    int window, left, rising;
    double alpha, last, best, best_before;
    bool halved;
} pace;

/* Counts a step of this loss; returns whether its window ends and brought too little, and begins the next one. */
static bool should_halve(pace *p, int steps, double loss) {
    p->rising += loss < p->last;
    p->last = loss;
    if (--p->left) return false;
    const bool halve = p->rising <= 0.75 * p->window || (!p->halved && p->best_before <= p->best);
    const int shorter = p->window - steps * 3 / 100, least = steps * 6 / 100;
    p->halved = halve, p->best_before = p->best, p->rising = 0;
    p->window = shorter > least ? shorter : least > 1 ? least : 1;
    p->left = p->window;
    return halve;
}

/* Returns whether run `run` may go on: no earlier one has found a witness, and it is not late; sets q->late. */
static bool may_go_on(search *q, size_t run) {
    if (q->deadline > 0 && vt_now() > q->deadline) atomic_store(&q->late, true);
    if (q->o->interrupt && *q->o->interrupt) atomic_store(&q->late, true);
    return !atomic_load(&q->late) && run < atomic_load(&q->found_at);
}

/* Makes one run of the round, from a start to a met case, its steps' end or a flat gradient; always VT_OK. */
static vt_status run_item(void *ctx, int thread, size_t item, vt_err *e) {
    search *q = ctx;
    (void)e;
    worker *w = &q->workers[thread];
    const target *t = &q->items[item];
    const vt_spec_box *b = &q->s->boxes[t->box];
    const size_t run = q->begun + item, bytes = (size_t)q->s->inputs * sizeof *w->x;
    const int steps = q->o->steps, window = steps * 22 / 100;
    const bool sum = q->round & 1, scaled = q->round & 2;
    pace p = {.window = window > 1 ? window : 1,
              .alpha = 1,
              .last = INFINITY,
              .best = INFINITY,
              .best_before = INFINITY};
    p.left = p.window;
    p.halved = true;
    if (!may_go_on(q, run)) return VT_OK;
    atomic_fetch_add(&q->runs, 1);
    start_run(q, t, w->x);
    memcpy(w->prev, w->x, bytes);
    for (int k = 0; k <= steps && may_go_on(q, run); k++) {
        int aim;
        double loss;
        if (look_at_point(q, w, t, run, sum, &aim, &loss)) return VT_OK;
        if (!k || loss < p.best) p.best = loss, memcpy(w->top, w->x, bytes);
        if (k && should_halve(&p, steps, loss)) {
            p.alpha /= 2;
            memcpy(w->x, w->top, bytes), memcpy(w->prev, w->top, bytes);
            if (look_at_point(q, w, t, run, sum, &aim, &loss)) return VT_OK;
        }
        case_loss(q, &q->s->cases[aim], w->y, sum, w->dy);
        vt_evaluator_gradient_f32(w->v, w->g, w->dy, w->x);
        if (!take_step(w, b, q->s->inputs, p.alpha, scaled, k ? 0.25 : 0)) return VT_OK;
    }
    return VT_OK;
}

/* ---- rounds ---- */

/* For qsort: by box, in it by key, then by case. */
static int compare_targets(const void *a, const void *b) {
    const target *x = a, *y = b;
    if (x->box != y->box) return x->box < y->box ? -1 : 1;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->c < y->c ? -1 : 1;
}

/* Sets q->ranked and q->first: cases by their box, in it by how near its centre comes to them (all alike after the
 * deadline). */
static void rank_cases(search *q) {
    const vt_spec *s = q->s;
    worker *w = &q->workers[0];
    int box = -1;
    for (int c = 0; c < s->n_cases; c++) {
        q->ranked[c] = (target){s->cases[c].box, c, 0};
        if (q->deadline > 0 && vt_now() > q->deadline) continue;
        if (s->cases[c].box != box) {
            start_run(q, &q->ranked[c], w->x);
            vt_evaluator_forward_f32(w->v, w->y, w->x);
        }
        box = s->cases[c].box;
        q->ranked[c].key = vt_spec_violation(s, &s->cases[c], w->y, NULL);
    }
    qsort(q->ranked, (size_t)s->n_cases, sizeof *q->ranked, compare_targets);
    for (int k = s->n_cases - 1; k >= 0; k--) q->first[q->ranked[k].box] = k;
    q->first[s->n_boxes] = s->n_cases;
}

/* Sets q->items and n_items to the targets of the round: each box as a whole, then its nearest cases, twice as many
 * each round. */
static void list_round(search *q) {
    const vt_spec *s = q->s;
    const int most = q->round < 13 ? TARGETS << q->round : VT_SPEC_CASES;
    q->n_items = 0;
    for (int b = 0; b < s->n_boxes; b++) q->items[q->n_items++] = (target){b, -1, 0};
    for (int b = 0; b < s->n_boxes; b++) {
        const int n = q->first[b + 1] - q->first[b];
        for (int k = 0; n > 1 && k < n && k < most; k++) q->items[q->n_items++] = q->ranked[q->first[b] + k];
    }
}

/* Runs rounds until a witness, the deadline or their end, and fills *r. VT_INTERRUPTED; VT_E_NUMERIC: a witness that is
 * none when computed again. */
static vt_status search_rounds(search *q, vt_falsify_result *r, vt_err *e) {
    rank_cases(q);
    for (q->round = 0; q->round < (q->o->rounds ? q->o->rounds : INT_MAX); q->round++) {
        list_round(q);
        VT_TRY(vt_for_each(q->n_items, q->o->threads, run_item, q, e));
        VT_TRY(vt_check_interrupt(q->o->interrupt, "a search", e));
        r->rounds = q->round + 1;
        if (atomic_load(&q->found_at) != SIZE_MAX) break;
        q->begun += q->n_items;
        if (atomic_load(&q->late)) break;
    }
    const size_t at = atomic_load(&q->found_at);
    r->timed_out = atomic_load(&q->late);
    r->borderline = atomic_load(&q->borderline), r->steps = atomic_load(&q->steps);
    r->run = at == SIZE_MAX ? atomic_load(&q->runs) : (int64_t)at + 1;
    for (int c = 0; c < q->s->n_cases; c++)
        for (int k = 0; k < q->o->threads; k++) r->best[c] = fmin(r->best[c], q->workers[k].best[c]);
    if (at == SIZE_MAX) return VT_OK;
    VT_TRY(vt_witness_judge(&r->witness, q->s, q->n, q->found, e));
    if (!vt_witness_met(&r->witness, 0))
        return vt_fail(e, VT_E_NUMERIC, "a witness was found that is none when it is computed again");
    r->sat = true, r->from = start_name(q->round);
    return VT_OK;
}

/* ---- memory ---- */

/* Allocates a worker's buffers, sets its best values to INFINITY and opens its float network with gradients. */
static vt_status open_worker(search *q, worker *w, vt_err *e) {
    const size_t n = (size_t)q->s->inputs, k = (size_t)q->s->outputs;
    w->x = vt_alloc(n * sizeof *w->x), w->prev = vt_alloc(n * sizeof *w->prev), w->top = vt_alloc(n * sizeof *w->top);
    w->g = vt_alloc(n * sizeof *w->g), w->dy = vt_alloc(k * sizeof *w->dy), w->y = vt_alloc(k * sizeof *w->y);
    w->best = vt_alloc((size_t)q->s->n_cases * sizeof *w->best);
    if (!w->x || !w->prev || !w->top || !w->g || !w->dy || !w->y || !w->best)
        return vt_fail(e, VT_E_MEMORY, "no memory for a search");
    for (int c = 0; c < q->s->n_cases; c++) w->best[c] = INFINITY;
    return vt_evaluator_open_f32(&w->v, q->n, true, e);
}

/* Allocates q's buffers, workers and judges, and r->best, set to INFINITY; closed also after a failure. */
static vt_status open_search(search *q, vt_falsify_result *r, vt_err *e) {
    const size_t n = (size_t)q->s->inputs, cases = (size_t)q->s->n_cases, boxes = (size_t)q->s->n_boxes;
    q->workers = calloc((size_t)q->o->threads, sizeof *q->workers);
    q->ranked = calloc(cases, sizeof *q->ranked), q->items = calloc(cases + boxes, sizeof *q->items);
    q->first = calloc(boxes + 1, sizeof *q->first);
    q->x = vt_alloc(n * sizeof *q->x), q->y = vt_alloc((size_t)q->s->outputs * sizeof *q->y);
    q->found = vt_alloc(n * sizeof *q->found), r->best = vt_alloc(cases * sizeof *r->best);
    if (!q->workers || !q->ranked || !q->items || !q->first || !q->x || !q->y || !q->found || !r->best)
        return vt_fail(e, VT_E_MEMORY, "no memory for a search");
    for (size_t c = 0; c < cases; c++) r->best[c] = INFINITY;
    for (int k = 0; k < q->o->threads; k++) VT_TRY(open_worker(q, &q->workers[k], e));
    VT_TRY(vt_evaluator_open_f32(&q->float_judge, q->n, false, e));
    return vt_evaluator_open_f64(&q->judge, q->n, false, e);
}

/* Frees workers, buffers and judges, also after a failed open_search, and destroys the lock. */
static void close_search(search *q) {
    for (int k = 0; q->workers && k < q->o->threads; k++) {
        worker *w = &q->workers[k];
        free(w->x), free(w->prev), free(w->top), free(w->g), free(w->dy), free(w->y), free(w->best);
        vt_evaluator_close_f32(w->v);
    }
    free(q->workers), free(q->ranked), free(q->items), free(q->first), free(q->x), free(q->y), free(q->found);
    vt_evaluator_close_f32(q->float_judge);
    vt_evaluator_close_f64(q->judge);
    pthread_mutex_destroy(&q->lock);
}

vt_status vt_falsify(vt_falsify_result *r, const vt_spec *s, const vt_spec_network *n, const vt_falsify_options *o,
                     vt_err *e) {
    const double began = vt_now();
    search q = {.s = s, .n = n, .o = o, .deadline = o->seconds > 0 ? began + o->seconds : 0};
    *r = (vt_falsify_result){0};
    pthread_mutex_init(&q.lock, NULL);
    atomic_init(&q.found_at, SIZE_MAX);
    vt_status st = open_search(&q, r, e);
    if (st == VT_OK) st = search_rounds(&q, r, e);
    close_search(&q);
    r->seconds = vt_now() - began;
    if (st != VT_OK) vt_falsify_free(r);
    return st;
}

void vt_falsify_free(vt_falsify_result *r) {
    vt_witness_free(&r->witness);
    free(r->best);
    *r = (vt_falsify_result){0};
}
