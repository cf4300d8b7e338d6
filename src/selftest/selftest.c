#include "selftest/selftest.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "core/threads.h"
#include "models/session.h"
#include "selftest/tools.h"

enum { DIRECT_MOST = 32, ATTACKED_MOST = 32, ACTIVE_MOST = 96, LEAST = 4, AGAIN_MOST = 16 };
#define MAINSTREAM 0.1 /* of the right images stand to the end: sizes are chosen so that the share is kept there */
/* Forward-equivalents of an image in the parts, from counts: an image of part 1, a survivor of part 2 (10 + 25 + 100 +
 * 150 + 40 gradients, 1000 queries and 100 random points), one that falls, an image of the active test. */
#define COST_DIRECT(ratio) (7 + 3 * (ratio))
#define COST_SURVIVOR(ratio) (1100 + 325 * (ratio))
#define COST_FALLEN(ratio) (60 * (ratio))
#define COST_ACTIVE(ratio) (VT_ACTIVE_INNER + VT_ACTIVE_RANDOM + 6 + 60 * (ratio))

typedef struct part {
    vt_selftest *t;
    vt_gear *gears;
    const int32_t *images;
    vt_attack tools[8];
    bool witness;
    unsigned *bits;
    vt_found *found;
    vt_active_bits *active;
    bool *right;
    int32_t *preds;
    int kind; /* 0 clean, 1 direct, 2 attacks, 3 active, 4 again */
    pthread_mutex_t lock;
    vt_progress progress;
    size_t done;
} part;

static vt_status clean_image(vt_gear *g, int32_t image, bool *right, int32_t *pred, vt_err *e) {
    int label;
    VT_TRY(vt_eval_image(g->t->v, image, g->x, &label, e));
    vt_rng r = vt_selftest_key(g->t, "clean", image);
    vt_classifier_begin(&g->model, &r);
    g->model.logits(g->model.self, g->x, g->z, false);
    g->forwards++;
    for (int k = 0; k < g->classes; k++)
        if (!isfinite(g->z[k])) return vt_fail(e, VT_E_NUMERIC, "image %d: the model's logits are not finite", image);
    *pred = vt_argmax_f32(g->z, g->classes);
    *right = *pred == label;
    return VT_OK;
}

static vt_status one_item(void *ctx, int thread, size_t i, vt_err *e) {
    part *p = ctx;
    vt_gear *g = &p->gears[thread];
    int32_t image = p->images[i];
    if (p->t->v->interrupt && *p->t->v->interrupt) return VT_INTERRUPTED;
    switch (p->kind) {
    case 0:
        VT_TRY(clean_image(g, image, &p->right[i], &p->preds[i], e));
        break;
    case 1:
        VT_TRY(vt_direct_image(g, image, &p->bits[i], e));
        break;
    case 2:
        VT_TRY(vt_found_image(g, p->tools, image, p->witness, &p->found[i], e));
        break;
    case 3:
        VT_TRY(vt_active_image(g, image, &p->active[i], e));
        break;
    default:
        VT_TRY(vt_found_again(g, p->tools, image, &p->found[i], e));
    }
    pthread_mutex_lock(&p->lock);
    vt_progress_step(&p->progress, ++p->done, NULL);
    pthread_mutex_unlock(&p->lock);
    return VT_OK;
}

/* Runs a part over n images; its cost in forward-equivalents is added to *cost. */
static vt_status run_part(part *p, int kind, const int32_t *images, size_t n, double *cost, vt_err *e) {
    static const char *const names[] = {"self-test: clean", "self-test: gradients", "self-test: attacks",
                                        "self-test: active", "self-test: harder"};
    const vt_eval *v = p->t->v;
    int threads = (size_t)v->threads < n ? v->threads : (int)n;
    vt_status s = VT_OK;
    if (!n) return VT_OK;
    p->gears = calloc((size_t)threads, sizeof *p->gears);
    if (!p->gears) return vt_fail(e, VT_E_MEMORY, "no memory for the self-test");
    p->kind = kind, p->images = images, p->done = 0, p->progress = v->progress;
    for (int i = 0; s == VT_OK && i < threads; i++)
        s = vt_gear_open(&p->gears[i], p->t, i ? &p->gears[0] : NULL, kind == 1, kind == 2 || kind == 4, kind == 3, e);
    vt_progress_begin(&p->progress, names[kind], 0, n);
    if (s == VT_OK) s = vt_for_each(n, threads, one_item, p, e);
    vt_progress_end(&p->progress, NULL);
    double forwards = 0, gradients = 0; /* sums of halves: the same for any number of threads */
    for (int i = threads; i-- > 0;) {
        forwards += p->gears[i].forwards, gradients += p->gears[i].gradients;
        vt_gear_close(&p->gears[i]);
    }
    free(p->gears);
    *cost += forwards + p->t->ratio * gradients;
    return s;
}

/* ---- who is looked at ---- */

typedef struct ticket {
    uint64_t draw;
    int32_t image;
} ticket;

static int by_draw(const void *a_, const void *b_) {
    const ticket *a = a_, *b = b_;
    return a->draw != b->draw ? (a->draw > b->draw ? 1 : -1) : (a->image > b->image) - (a->image < b->image);
}

/* Images that are right, in an order drawn by the seed: any first part of it is a uniform sample. */
static vt_status shuffle(const vt_selftest *t, int32_t *images, size_t n, vt_err *e) {
    ticket *tickets = calloc(n + 1, sizeof *tickets);
    if (!tickets) return vt_fail(e, VT_E_MEMORY, "no memory for the self-test");
    for (size_t i = 0; i < n; i++) {
        vt_rng r = vt_selftest_key(t, "selftest sample", images[i]);
        tickets[i] = (ticket){(uint64_t)vt_rng_bits(&r, 0) << 32 | vt_rng_bits(&r, 1), images[i]};
    }
    qsort(tickets, n, sizeof *tickets, by_draw);
    for (size_t i = 0; i < n; i++) images[i] = tickets[i].image;
    free(tickets);
    return VT_OK;
}

/* Right images into `images`; witness: predictions are not all of one class. */
static vt_status find_right(part *p, int32_t *images, size_t *n, vt_err *e) {
    vt_selftest *t = p->t;
    int32_t first = -1;
    *n = 0;
    for (size_t i = 0; t->ledger && i < t->ledger->count; i++) {
        const vt_record *r = &t->ledger->records[i];
        if (r->entry) continue;
        if (r->status == VT_RECORD_CORRECT) images[(*n)++] = r->image;
        if (first < 0) first = r->pred;
        p->witness |= r->pred != first;
    }
    if (!t->ledger) {
        double ignored = 0; /* the evaluation does the same */
        VT_TRY(run_part(p, 0, t->v->images, t->v->n_images, &ignored, e));
        for (size_t i = 0; i < t->v->n_images; i++) {
            if (p->right[i]) images[(*n)++] = t->v->images[i];
            p->witness |= p->preds[i] != p->preds[0];
        }
    }
    t->correct = (int64_t)*n;
    return shuffle(t, images, *n, e);
}

/* ---- what the attack under test costs ---- */

static long long option(const vt_attack_stage *s, const char *key, long long absent) {
    for (const vt_opt *o = s->def->opts; o && o->key; o++)
        if (o->type == VT_OPT_INT && !strcmp(o->key, key)) return *(const int *)((const char *)s->params + o->offset);
    return absent;
}

/* Of one image that stands to the end, in forward-equivalents. */
static double full_cost(const vt_selftest *t, int classes) {
    double sum = 0;
    for (int i = 0; i < t->attack->n_stages; i++) {
        const vt_attack_stage *s = &t->attack->stages[i];
        double runs = (double)option(s, "restarts", 1), targets = (double)option(s, "targets", 1);
        double steps = (double)option(s, "steps", 1);
        if (targets > classes - 1) targets = classes - 1;
        bool fab = !strncmp(s->def->name, "fab", 3); /* a forward beside each gradient */
        sum += s->def->white_box ? runs * targets * steps * (t->ratio + fab) : runs * (double)option(s, "queries", 1);
    }
    return sum;
}

static void measure(vt_selftest *t, size_t right, size_t *left) {
    size_t broken = 0;
    t->reference_measured = true;
    for (size_t i = 0; i < t->ledger->count; i++) {
        const vt_record *r = &t->ledger->records[i];
        if (r->entry != t->entry) continue;
        t->reference += (double)r->forwards + t->ratio * (double)r->gradients;
        broken += r->status == VT_RECORD_BROKEN;
    }
    *left = right - broken; /* a profile's last stages see a sample of them */
}

/* ---- evidence ---- */

static void hit(vt_check *c, bool against, int32_t image) {
    c->trials++;
    if (!against) return;
    c->hits++;
    if (c->n_images < (int)(sizeof c->images / sizeof *c->images)) c->images[c->n_images++] = image;
}

static void count_direct(vt_selftest *t, const part *p, const int32_t *images, size_t n) {
    const vt_arch_def_f32 *arch = vt_arch_find_f32(t->v->model->config.arch);
    for (size_t i = 0; i < n; i++)
        for (int k = VT_CHECK_RANDOM; k <= VT_CHECK_WRONG; k++)
            if (k != VT_CHECK_ATTENTION || arch->view) hit(&t->checks[k], p->bits[i] >> k & 1, images[i]);
    t->direct = (int64_t)n;
}

static void count_found(vt_selftest *t, const part *p, const int32_t *images, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const vt_found *f = &p->found[i];
        if (f->brief != f->white) hit(&t->checks[VT_CHECK_STEPS], f->brief, images[i]);
        if (f->half != f->white) hit(&t->checks[VT_CHECK_RADIUS], f->half, images[i]);
        if (f->whole_tried) hit(&t->checks[VT_CHECK_WHOLE], !f->whole, images[i]);
        if (f->white) continue;
        t->survivors++;
        hit(&t->checks[VT_CHECK_NOISE], f->noise, images[i]);
        hit(&t->checks[VT_CHECK_SQUARE], f->square, images[i]);
        hit(&t->checks[VT_CHECK_TWIN], f->twin, images[i]);
    }
    t->attacked += (int64_t)n;
}

/* The evaluation's own black-box stage saw all survivors of its white-box ones, at full strength; one that follows a
 * surrogate's gradients is no random search. */
static void count_square(vt_selftest *t) {
    vt_check c = {.rate = 0.02};
    for (int k = 1; k < t->attack->n_stages; k++) {
        const vt_attack_def *d = t->attack->stages[k].def;
        if (d->white_box || d->surrogate) continue;
        for (size_t i = 0; i < t->ledger->count; i++) {
            const vt_record *r = &t->ledger->records[i];
            if (r->entry == t->entry && r->stage == k) hit(&c, r->status == VT_RECORD_BROKEN, r->image);
        }
    }
    if (c.trials > t->checks[VT_CHECK_SQUARE].trials) t->checks[VT_CHECK_SQUARE] = c;
}

static void count_active(vt_selftest *t, const part *p, const int32_t *images, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const vt_active_bits *b = &p->active[i];
        t->active.images++;
        t->active.setup_failed += !b->setup;
        t->active.random_surface += b->surface, t->active.random_corner += b->corner;
        if (!b->setup) continue;
        t->active.found += b->found;
        hit(&t->checks[VT_CHECK_ACTIVE], !b->found, images[i]);
    }
}

/* ---- the run ---- */

static size_t within(double wanted, size_t least, size_t most, size_t available) {
    size_t n = wanted > 0 ? (size_t)fmin(wanted, 1e9) : 0;
    if (n < least) n = least;
    if (n > most) n = most;
    return n < available ? n : available;
}

/* How many images part 2 takes: what 40 % of the allowance pays for; without a run to measure, an eighth, which costs 4
 * % of an attack that leaves a tenth of the images and less of one that leaves more. */
static size_t attacked(const vt_selftest *t, size_t right, size_t left) {
    if (!t->ledger) return within((double)right / 8, LEAST, ATTACKED_MOST, right);
    double stand = (double)left / (double)right;
    double each = stand * COST_SURVIVOR(t->ratio) + (1 - stand) * COST_FALLEN(t->ratio);
    size_t n = left ? within(0.4 * (VT_SELFTEST_SHARE * t->reference - t->cost) / each, 0, ATTACKED_MOST, right) : 0;
    return n < LEAST ? 0 : n;
}

/* What the attack under test would cost on all right images if that share of them stood to the end. */
static double estimate(const vt_selftest *t, size_t right, double stand) {
    int classes = t->v->data->restricted ? t->v->data->classes : t->v->model->config.classes;
    return (double)right * (stand * full_cost(t, classes) + (1 - stand) * COST_FALLEN(t->ratio) / 2);
}

/* Where nothing of a sample stood, a tenth of all may still: what that would pay for is spent. */
static size_t active(const vt_selftest *t, size_t right, size_t left) {
    bool none = !t->ledger && !t->survivors;
    double reference = none ? t->reference_tenth : t->reference;
    double n = (VT_SELFTEST_SHARE * reference - t->cost) / COST_ACTIVE(t->ratio);
    if (!t->ledger && t->survivors) return within(n, LEAST, ACTIVE_MOST, right);
    return (t->ledger && !left) || n < LEAST ? 0 : within(n, 0, ACTIVE_MOST, right);
}

/* Part 2; where nothing of a small sample stood, images that fall are cheap, and more of them are attacked: with six
 * tenths of what a tenth standing would pay for. */
static vt_status attack(part *p, const int32_t *images, size_t right, size_t left, vt_err *e) {
    vt_selftest *t = p->t;
    size_t n = attacked(t, right, left);
    VT_TRY(run_part(p, 2, images, n, &t->cost, e));
    count_found(t, p, images, n);
    if (t->ledger || !n) return VT_OK;
    t->reference_tenth = estimate(t, right, MAINSTREAM);
    double pays = 0.6 * (VT_SELFTEST_SHARE * t->reference_tenth - t->cost) / COST_FALLEN(t->ratio);
    size_t most = (right < ATTACKED_MOST ? right : ATTACKED_MOST) - n, more = within(pays, 0, most, most);
    if (!t->survivors && more) {
        p->found += n; /* behind those that are there */
        vt_status s = run_part(p, 2, images + n, more, &t->cost, e);
        if (s == VT_OK) count_found(t, p, images + n, more);
        p->found -= n;
        VT_TRY(s);
    }
    t->reference = estimate(t, right, (double)t->survivors / (double)t->attacked);
    return VT_OK;
}

/* Doubtful: the survivors of part 2 are tried again, harder. */
static vt_status escalate(part *p, const int32_t *images, vt_err *e) {
    vt_selftest *t = p->t;
    int32_t again[AGAIN_MOST];
    size_t n = 0;
    for (int64_t i = 0; i < t->attacked && n < AGAIN_MOST; i++)
        if (!p->found[i].white) p->found[n] = p->found[i], again[n++] = images[i];
    if (!n) return VT_OK;
    t->escalated = true, t->escalated_images = (int64_t)n;
    VT_TRY(run_part(p, 4, again, n, &t->escalation_cost, e));
    for (size_t i = 0; i < n; i++) t->further += p->found[i].again;
    return VT_OK;
}

static vt_status run_all(part *p, int32_t *images, vt_err *e) {
    vt_selftest *t = p->t;
    size_t right, left = 0;
    VT_TRY(find_right(p, images, &right, e));
    if (!right) return VT_OK;
    if (t->ledger) measure(t, right, &left);
    double pays = t->ledger ? VT_SELFTEST_SHARE * t->reference / COST_DIRECT(t->ratio) : DIRECT_MOST;
    size_t n = within(pays, LEAST, DIRECT_MOST, right);
    VT_TRY(run_part(p, 1, images, n, &t->cost, e));
    count_direct(t, p, images, n);
    VT_TRY(attack(p, images, right, left, e));
    if (t->ledger) count_square(t);
    n = active(t, right, left);
    VT_TRY(run_part(p, 3, images, n, &t->cost, e));
    count_active(t, p, images, n);
    vt_selftest_judge(t);
    return t->grade == VT_GRADE_SOUND ? VT_OK : escalate(p, images, e);
}

static void set_rates(vt_selftest *t) {
    static const double rates[VT_CHECK_COUNT] =
        {[VT_CHECK_RANDOM] = 0.01,    [VT_CHECK_FLAT] = 0.01,      [VT_CHECK_ZERO] = 0.01,  [VT_CHECK_CONSTANT] = 0.01,
         [VT_CHECK_SATURATED] = 0.01, [VT_CHECK_ATTENTION] = 0.01, [VT_CHECK_WRONG] = 0.1,  [VT_CHECK_STEPS] = 0.5,
         [VT_CHECK_RADIUS] = 0.5,     [VT_CHECK_WHOLE] = 0.05,     [VT_CHECK_NOISE] = 0.05, [VT_CHECK_SQUARE] = 0.05,
         [VT_CHECK_TWIN] = 0.05,      [VT_CHECK_ACTIVE] = 0.05};
    for (int i = 0; i < VT_CHECK_COUNT; i++) t->checks[i] = (vt_check){.rate = rates[i], .p = 1, .adjusted = 1};
}

vt_status vt_selftest_run(vt_selftest *t, vt_err *e) {
    double forward, gradient;
    size_t n = t->v->n_images;
    part p = {.t = t};
    vt_arch_find_f32(t->v->model->config.arch)->flops(&t->v->model->config, &forward, &gradient);
    t->ratio = gradient / forward;
    set_rates(t);
    pthread_mutex_init(&p.lock, NULL);
    int32_t *images = calloc(n + 1, sizeof *images);
    p.right = calloc(n + 1, sizeof *p.right), p.preds = calloc(n + 1, sizeof *p.preds);
    p.bits = calloc(DIRECT_MOST, sizeof *p.bits), p.found = calloc(ATTACKED_MOST, sizeof *p.found);
    p.active = calloc(ACTIVE_MOST, sizeof *p.active);
    vt_status s = vt_attack_tools(p.tools, t->v->norm, t->v->eps, e);
    if (s == VT_OK && !(images && p.right && p.preds && p.bits && p.found && p.active))
        s = vt_fail(e, VT_E_MEMORY, "no memory for the self-test");
    if (s == VT_OK) s = run_all(&p, images, e);
    for (int i = 0; i < 8; i++) vt_attack_free(&p.tools[i]);
    free(images), free(p.right), free(p.preds), free(p.bits), free(p.found), free(p.active);
    pthread_mutex_destroy(&p.lock);
    return s;
}
