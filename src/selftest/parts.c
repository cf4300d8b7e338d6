/* SPDX-License-Identifier: MIT */
/* The parts of the self-test in their order, on how many images each runs, and what it may cost. */
#include "selftest/selftest.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "parallel/threads.h"
#include "models/model.h"
#include "inference/sensors.h"
#include "selftest/tools.h"

/* Most images of a part; the fewest that are worth it; survivors that are drawn for. */
enum { DIRECT_MOST = 32, SCALE_MOST = 32, ATTACKED_MOST = 32, OTHER_MOST = 32, ACTIVE_MOST = VT_PART_MOST };
enum { AGAIN_MOST = 16, GLANCE_MOST = 9, SCOUTS_MOST = 3, WOKEN_MOST = 16, LEAST = 4, LEAST_SCALE = 8, ENOUGH = 6 };
#define WAKEUP_SHARE 0.4 /* of the allowance, at most: 0.6 of what the points leave, or 0.3 of all */
#define MAINSTREAM 0.1   /* of the right images stand to the end: sizes are chosen so that the share is kept there */
/* Forward-equivalents of an image in the parts, from counts: single points; the ball's scale (39 gradients, 9 forwards
 * and a double gradient); a survivor of part 3 (10 + 25 + 100 + 150 gradients); one that falls; other ways (60 random
 * points, 20 gradients on the twin and on each probe, of half the network on the mean, 48 of the smoothed attack);
 * Square; the active test. */
#define COST_DIRECT(ratio) (7 + 5 * (ratio))
#define COST_SCALE(ratio) (10 + VT_COST_DOUBLE + 40 * (ratio))
#define COST_SURVIVOR(ratio) (285 * (ratio))
#define COST_FALLEN(ratio) (60 * (ratio))
#define COST_OTHER(ratio) (70 + (20 + 10 * VT_PROBES + 48) * (ratio))
#define COST_FIT (96 * (1 + (VT_PROBES + 1) / 2.0)) /* probes.c: samples, forward through each of them */
#define COST_SQUARE 1000
#define COST_AGAIN(ratio) (5000 + 3 * 21 * (ratio))
#define COST_SETUP (VT_ACTIVE_INNER + 6)
#define COST_ACTIVE(ratio) (COST_SETUP + VT_ACTIVE_RANDOM + 60 * (ratio))

typedef enum kind { CLEAN, GLANCE, DIRECT, SCALE, STRENGTH, WAKEUP, OTHER, SEARCH, ACTIVE, AGAIN } kind;
static const struct {
    const char *name;
    unsigned needs;
    vt_status (*check)(vt_tester *g, int32_t image, vt_evidence *f, vt_err *e); /* NULL: see check_item */
} kinds[] = {
    [CLEAN] = {"self-test: clean", 0, NULL},
    [GLANCE] = {"self-test: logits", 0, NULL},
    [DIRECT] = {"self-test: points", VT_NEED_LOOK, vt_direct_image},
    [SCALE] = {"self-test: scale", VT_NEED_DOUBLE, vt_scale_image},
    [STRENGTH] = {"self-test: attacks", 0, vt_strength_image},
    [WAKEUP] = {"self-test: wake-up", 0, NULL},
    [OTHER] = {"self-test: other ways", VT_NEED_TWIN | VT_NEED_PROBES, vt_ways_image},
    [SEARCH] = {"self-test: square", 0, vt_square_image},
    [ACTIVE] = {"self-test: active", VT_NEED_ACTIVE, vt_active_image},
    [AGAIN] = {"self-test: harder", VT_NEED_TWIN, vt_again_image},
};

typedef struct part {
    vt_selftest *t;
    vt_tester *workers;
    const int32_t *images;
    bool witness;
    vt_standing *standing;                      /* of t->v->images */
    float *glance;                              /* [GLANCE_MOST, classes] */
    vt_evidence found[AGAIN + 1][VT_PART_MOST]; /* by kind; of WAKEUP on the survivors */
    size_t from;                                /* the place of the first image in found */
    size_t woken, scouts;
    int32_t *survivors; /* left by the run, or by part 3 */
    size_t n_survivors;
    kind kind;
    pthread_mutex_t lock;
    vt_progress progress;
    size_t done;
    double seconds, spent; /* of all parts so far, and the forward-equivalents that they took */
} part;

/* Predicts a clean image into s->pred and right; VT_E_NUMERIC: its logits are not finite. */
static vt_status predict_clean_image(vt_tester *g, int32_t image, vt_standing *s, vt_err *e) {
    VT_TRY(vt_tester_load(g, image, "clean", e));
    vt_tester_logits(g, &g->model.c, g->x, g->z, false);
    for (int k = 0; k < g->classes; k++)
        if (!isfinite(g->z[k])) return vt_fail(e, VT_E_NUMERIC, "image %d: the model's logits are not finite", image);
    s->pred = vt_argmax_f32(g->z, g->classes);
    s->right = s->pred == g->label;
    return VT_OK;
}

/* Writes the logits of an image of the run into row i of p->glance; the last of the part's n is a picture of noise. */
static vt_status glance_image(part *p, vt_tester *g, int32_t image, size_t i, vt_err *e) {
    VT_TRY(vt_tester_load(g, image, "selftest glance", e));
    if (i + 1 == p->progress.total) vt_rng_uniforms(&g->key, g->x, g->pixels);
    vt_tester_logits(g, &g->model.c, g->x, p->glance + i * (size_t)g->classes, false);
    return VT_OK;
}

/* Wake-up at one point of the network: adds what it found on the survivors to p->found, under the lock. */
static vt_status wake_point(part *p, vt_tester *g, int point, vt_err *e) {
    vt_evidence found[WOKEN_MOST] = {{0}};
    VT_TRY(vt_wakeup_point(g, point, p->survivors, p->woken, p->scouts, found, e));
    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < p->woken; i++)
        p->found[WAKEUP][i].tried |= found[i].tried, p->found[WAKEUP][i].against |= found[i].against;
    pthread_mutex_unlock(&p->lock);
    return VT_OK;
}

/* Checks item i of the part, an image, or for wake-up a point of the network, with its kind's function. */
static vt_status check_item(part *p, vt_tester *g, size_t i, vt_err *e) {
    int32_t item = p->images[i];
    if (p->kind == CLEAN) return predict_clean_image(g, item, &p->standing[i], e);
    if (p->kind == GLANCE) return glance_image(p, g, item, i, e);
    if (p->kind == WAKEUP) return wake_point(p, g, (int)item, e);
    g->partner = vt_partner(p->t, p->standing, item), g->witness = p->witness;
    return kinds[p->kind].check(g, item, &p->found[p->kind][p->from + i], e);
}

/* Does item i of the part on a thread's tester and moves the progress. */
static vt_status run_item(void *ctx, int thread, size_t i, vt_err *e) {
    part *p = ctx;
    if (p->t->v->interrupt && *p->t->v->interrupt) return VT_INTERRUPTED;
    VT_TRY(check_item(p, &p->workers[thread], i, e));
    VT_TRY(vt_tester_failure(&p->workers[thread], e));
    pthread_mutex_lock(&p->lock);
    vt_progress_step(&p->progress, ++p->done, NULL);
    pthread_mutex_unlock(&p->lock);
    return VT_OK;
}

/* Runs a part over n images (of STRENGTH, n more), counts what it finds and marks them as looked at; its cost in
 * forward-equivalents is added to *cost. Nothing if n is 0. */
static vt_status run_part(part *p, kind what, const int32_t *images, size_t n, double *cost, vt_err *e) {
    const vt_eval_options *v = p->t->v;
    int threads = (size_t)v->threads < n ? v->threads : (int)n;
    vt_status s = VT_OK;
    if (!n) return VT_OK;
    p->from = what == STRENGTH ? (size_t)p->t->attacked : 0;
    p->workers = calloc((size_t)threads, sizeof *p->workers);
    if (!p->workers) return vt_fail(e, VT_E_MEMORY, "no memory for the self-test");
    p->kind = what, p->images = images, p->done = 0, p->progress = v->progress;
    for (int i = 0; s == VT_OK && i < threads; i++)
        s = vt_tester_open(&p->workers[i], p->t, i ? &p->workers[0] : NULL, kinds[what].needs, e);
    vt_progress_begin(&p->progress, kinds[what].name, 0, n);
    if (s == VT_OK) s = vt_for_each(n, threads, run_item, p, e);
    vt_progress_end(&p->progress, NULL);
    p->seconds += vt_now() - p->progress.began;
    double forwards = 0, gradients = 0; /* sums of halves: the same for any number of threads */
    for (int i = threads; i-- > 0;) {
        forwards += p->workers[i].forwards, gradients += p->workers[i].gradients;
        vt_tester_close(&p->workers[i]);
    }
    free(p->workers);
    *cost += forwards + p->t->ratio * gradients, p->spent += forwards + p->t->ratio * gradients;
    if (what == WAKEUP) images = p->survivors, n = p->woken;
    if (what > GLANCE) vt_count(p->t, p->found[what] + p->from, images, n);
    if (what == WAKEUP && p->scouts < n) n = p->scouts;
    for (size_t i = 0; i < n && what > GLANCE; i++) vt_standing_of(p->t, p->standing, images[i])->looked = true;
    return s;
}

/* ---- what the attack under test costs ---- */

/* Returns forward-equivalents of the attack under test on all right images, if the share `stand` of them stood to the
 * end. */
static double estimate_attack_cost(const vt_selftest *t, double stand) {
    const vt_subject *s = t->v->subject;
    vt_cost_dims d = {.classes = vt_subject_classes(s), .layers = vt_model_blocks(s->model), .norm = t->v->norm};
    vt_passes p = vt_attack_cost(t->attack, &d);
    double full = p.forwards + t->ratio * p.gradients;
    return (double)t->correct * (stand * full + (1 - stand) * COST_FALLEN(t->ratio) / 2);
}

/* Sets what the self-test may cost, by the cost of the attack under test, in forward-equivalents. */
static void set_allowance(vt_selftest *t, double reference) {
    t->allowance = fmax(VT_SELFTEST_SHARE * reference, VT_SELFTEST_LEAST * (double)t->v->n_images);
}

/* ---- the parts: how many images each takes ---- */

/* Returns how many images `pays` forward-equivalents pay for, at `each` an image; fewer than `least` only if needed. */
static size_t affordable_images(double pays, double each, size_t least, size_t most, size_t available, bool needed) {
    size_t n = pays > 0 ? (size_t)fmin(pays / each, 1e9) : 0;
    if (n < least) n = needed ? least : 0;
    if (n > most) n = most;
    return n < available ? n : available;
}

/* Returns what may still be spent, in forward-equivalents. */
static double remaining_allowance(const vt_selftest *t) { return t->allowance - t->cost; }

/* Finds the images that the model has right (t->correct; of a run t->left too), and whether its predictions are of
 * several classes. */
static vt_status find_right(part *p, vt_err *e) {
    vt_selftest *t = p->t;
    size_t n = t->v->n_images;
    double ignored = 0; /* the evaluation does the same */
    if (t->ledger)
        vt_standings(t, p->standing, &t->reference);
    else
        VT_TRY(run_part(p, CLEAN, t->v->images, n, &ignored, e));
    t->reference_measured = t->ledger != NULL;
    for (size_t i = 0; i < n; i++) {
        p->witness |= p->standing[i].pred != p->standing[0].pred;
        t->correct += p->standing[i].right;
        t->left += t->ledger && p->standing[i].right && !p->standing[i].broken;
    }
    return VT_OK;
}

/* Writes into t->nothing why nothing can be tested, if so: no image is right, the logits are constant (equal to the bit
 * on images of the run and on noise, all of one predicted class), or accuracy is that of chance. */
static vt_status find_nothing(part *p, vt_err *e) {
    vt_selftest *t = p->t;
    int32_t images[GLANCE_MOST];
    size_t run = t->v->n_images, n = run < GLANCE_MOST ? run : GLANCE_MOST - 1;
    size_t row = (size_t)vt_subject_classes(t->v->subject) * sizeof *p->glance;
    bool constant = !p->witness;
    if (!t->correct) snprintf(t->nothing, sizeof t->nothing, "no image is right");
    if (!t->correct) return VT_OK;
    for (size_t i = 0; i < n; i++) images[i] = t->v->images[i * run / n];
    images[n] = images[0];
    VT_TRY(run_part(p, GLANCE, images, n + 1, &t->cost, e));
    for (size_t i = 1; i <= n; i++) constant = constant && !memcmp(p->glance, (const char *)p->glance + i * row, row);
    if (constant)
        snprintf(t->nothing, sizeof t->nothing, "the logits are constant");
    else if (vt_selftest_guesses(t->correct, (int64_t)run, vt_subject_classes(t->v->subject)))
        snprintf(t->nothing, sizeof t->nothing,
                 "%lld of %zu images right is no more than chance gives; read the model first (vitrine doctor)",
                 (long long)t->correct, run);
    return VT_OK;
}

/* ---- the cost estimate that is shown before the self-test begins ---- */

/* Returns estimated forward-equivalents of all parts: the allowance, between their least and their largest samples.
 * after: a run, which t->left says the outcome of; without one the allowance assumes that no image falls. The costs of
 * an image are means: a tenth on top. */
static double forecast_cost(const vt_selftest *t, bool after) {
    double r = t->ratio, right = (double)t->correct, left = after ? (double)t->left : right;
    double allowance = after ? t->allowance : fmax(t->allowance, VT_SELFTEST_SHARE * estimate_attack_cost(t, 1));
    double direct = COST_DIRECT(r), scale = COST_SCALE(r), each = after ? 0.1 * allowance / direct : DIRECT_MOST;
    double least = fmin(right, fmax(LEAST, each)) * direct;
    double most = fmin(right, DIRECT_MOST) * direct + fmin(right, SCALE_MOST) * scale;
    least += fmin(right, fmax(LEAST_SCALE, after ? 0.33 * (allowance - least) / scale : 0)) * scale;
    if (!t->points_only && left > 0) {
        least += COST_FIT + fmin(LEAST, left) * COST_OTHER(r);
        if (!after)
            least += fmin(right, fmax(LEAST, right / 8)) * COST_SURVIVOR(r) + fmin(LEAST, right) * COST_ACTIVE(r);
        if (!t->v->subject->remote) most += vt_wakeup_cost(t, SCOUTS_MOST);
        most += fmin(ATTACKED_MOST, right) * COST_SURVIVOR(r) + COST_FIT + fmin(ACTIVE_MOST, right) * COST_ACTIVE(r) +
                fmin(OTHER_MOST, left) * (COST_OTHER(r) + COST_SQUARE);
    }
    return 1.1 * fmin(most, fmax(least, allowance));
}

/* Returns estimated forward-equivalents of n survivors that are tried again. */
static double forecast_escalation(const vt_selftest *t, double n) { return 1.1 * n * COST_AGAIN(t->ratio); }

void vt_selftest_plan(vt_selftest *t, vt_passes run) {
    double forward, gradient;
    vt_subject_flops(t->v->subject, &forward, &gradient);
    t->ratio = gradient / forward, t->correct = t->left = (int64_t)t->v->n_images;
    t->reference = run.forwards + t->ratio * run.gradients;
    set_allowance(t, t->reference);
    t->forecast = forecast_cost(t, true);
    if (t->points_only) return;
    if (!t->v->subject->remote) t->forecast += WAKEUP_SHARE * t->allowance; /* it may be taken from the other ways */
    t->escalation_forecast = forecast_escalation(t, fmin((double)t->left, AGAIN_MOST));
}

/* Shows one line of at most 80 columns; its time assumes that forwards last as long as in the parts before. */
static void show_progress_line(const part *p, const char *what, double forwards, bool first) {
    const vt_selftest *t = p->t;
    const vt_progress *to = &t->v->progress;
    char text[200], share[60] = "", time[24] = "under 1 s";
    double seconds = p->spent > 0 ? forwards * p->seconds / p->spent : 0;
    if (!to->show) return;
    if (first && t->ledger && t->reference > 0)
        snprintf(share, sizeof share, ", %.0f %% of the run", 100 * forwards / t->reference);
    if (seconds >= 1) vt_duration(seconds, time, sizeof time);
    snprintf(text, sizeof text, "self-test: %sup to %.0f forwards%s, %s%s", what, forwards, share, time,
             first && t->ledger ? "; skip: " VT_OPTION "no-selftest" : "");
    to->show(to->ctx, text, false);
}

/* Checks gradients at single points on a sample of right images; sets t->direct. */
static vt_status run_point_checks(part *p, const int32_t *images, vt_err *e) {
    vt_selftest *t = p->t;
    size_t n = affordable_images(t->ledger ? 0.1 * t->allowance : INFINITY, COST_DIRECT(t->ratio), LEAST, DIRECT_MOST,
                                 (size_t)t->correct, true);
    VT_TRY(run_part(p, DIRECT, images, n, &t->cost, e));
    t->direct = (int64_t)n;
    return VT_OK;
}

/* Checks gradients at the ball's scale on a sample, survivors first: where an attack got through, its gradients were
 * good enough. Sets t->scaled. */
static vt_status run_scale_checks(part *p, const int32_t *images, vt_err *e) {
    vt_selftest *t = p->t;
    size_t n = affordable_images(0.33 * remaining_allowance(t), COST_SCALE(t->ratio), LEAST_SCALE, SCALE_MOST,
                                 (size_t)t->correct, true);
    VT_TRY(run_part(p, SCALE, images, n, &t->cost, e));
    t->scaled = (int64_t)n;
    return VT_OK;
}

/* Makes white-box attacks on n more images of part 3; sets t->attacked and survivors. */
static vt_status attack_more(part *p, const int32_t *images, size_t n, vt_err *e) {
    vt_selftest *t = p->t;
    size_t done = (size_t)t->attacked;
    VT_TRY(run_part(p, STRENGTH, images + done, n, &t->cost, e));
    t->attacked += (int64_t)n, t->survivors = t->attacked - t->flags[VT_FLAG_BROKEN];
    return VT_OK;
}

/* After a run: white-box attacks of several strengths on a sample of right images, if it left any. */
static vt_status run_strength_checks(part *p, const int32_t *images, vt_err *e) {
    vt_selftest *t = p->t;
    size_t right = (size_t)t->correct;
    double stand = right ? (double)t->left / (double)right : 0;
    double each = stand * COST_SURVIVOR(t->ratio) + (1 - stand) * COST_FALLEN(t->ratio);
    size_t n = affordable_images(0.3 * remaining_allowance(t), each, LEAST, ATTACKED_MOST, right, false);
    return attack_more(p, images, t->left ? n : 0, e);
}

/* Without a run: an eighth of the right images, then as many as, at the rate at which these stood, leave enough
 * survivors to try otherwise, for at most four tenths of what may be spent; where none of the first stood, images that
 * fall are cheap, and more are attacked. Sets p->survivors, t->reference and the allowance. */
static vt_status attack_for_survivors(part *p, const int32_t *images, vt_err *e) {
    vt_selftest *t = p->t;
    size_t right = (size_t)t->correct;
    VT_TRY(attack_more(p, images, affordable_images((double)right / 8, 1, LEAST, ATTACKED_MOST, right, true), e));
    t->reference_tenth = estimate_attack_cost(t, MAINSTREAM);
    double stand = (double)t->survivors / (double)t->attacked;
    double each = stand * COST_SURVIVOR(t->ratio) + (1 - stand) * COST_FALLEN(t->ratio);
    set_allowance(t, t->survivors ? estimate_attack_cost(t, stand) : t->reference_tenth);
    size_t most = (right < ATTACKED_MOST ? right : ATTACKED_MOST) - (size_t)t->attacked, need = most;
    if (t->survivors) need = t->survivors < ENOUGH ? (size_t)ceil((double)(ENOUGH - t->survivors) / stand) : 0;
    VT_TRY(attack_more(p, images,
                       affordable_images(0.4 * t->allowance - t->cost, each, 0, need < most ? need : most, most, false),
                       e));
    for (size_t i = 0; i < (size_t)t->attacked; i++) {
        bool broken = p->found[STRENGTH][i].flags >> VT_FLAG_BROKEN & 1;
        vt_standing_of(t, p->standing, images[i])->broken = broken;
        if (!broken) p->survivors[p->n_survivors++] = images[i];
    }
    t->reference = estimate_attack_cost(t, (double)t->survivors / (double)t->attacked);
    set_allowance(t, t->reference);
    return VT_OK;
}

/* Runs wake-up at each point of the network on survivors, of which the first few are the scouts; nothing without
 * survivors, or if it costs more than is left. */
static vt_status run_wakeup_check(part *p, vt_err *e) {
    vt_selftest *t = p->t;
    int points = t->v->subject->remote ? 0 : vt_sensor_points(t->v->subject->model);
    double pays = fmax(0.6 * remaining_allowance(t), 0.3 * t->allowance);
    p->scouts = points && p->n_survivors ? SCOUTS_MOST : 0;
    while (p->scouts && vt_wakeup_cost(t, p->scouts) > pays) p->scouts--;
    if (!p->scouts) return VT_OK;
    p->woken = p->n_survivors < WOKEN_MOST ? p->n_survivors : WOKEN_MOST;
    int32_t *items = calloc((size_t)points, sizeof *items);
    if (!items) return vt_fail(e, VT_E_MEMORY, "no memory for the self-test");
    for (int i = 0; i < points; i++) items[i] = i;
    vt_status s = run_part(p, WAKEUP, items, (size_t)points, &t->cost, e);
    free(items);
    return s;
}

/* Runs attacks on survivors that use no gradient of the model, or not one at a point; Square unless the run's own
 * counts. Sets t->other. */
static vt_status other_ways(part *p, vt_err *e) {
    vt_selftest *t = p->t;
    size_t n = affordable_images(0.6 * remaining_allowance(t) - COST_FIT, COST_OTHER(t->ratio), LEAST, OTHER_MOST,
                                 p->n_survivors, true);
    VT_TRY(run_part(p, OTHER, p->survivors, n, &t->cost, e));
    size_t searched = vt_count_square(t, p->standing)
                          ? 0
                          : affordable_images(0.5 * remaining_allowance(t), COST_SQUARE, LEAST, OTHER_MOST, n, false);
    VT_TRY(run_part(p, SEARCH, p->survivors, searched, &t->cost, e));
    t->other = (int64_t)n;
    return VT_OK;
}

/* Makes the active test on as many images as is left for, and sets t->active. If no image of the sample survived, a
 * tenth of all may still: the budget is what that would allow. */
static vt_status run_active_test(part *p, const int32_t *images, vt_err *e) {
    vt_selftest *t = p->t;
    double pays = remaining_allowance(t);
    if (!t->ledger && !t->survivors) pays = VT_SELFTEST_SHARE * t->reference_tenth - t->cost;
    size_t n = affordable_images(pays, COST_ACTIVE(t->ratio), LEAST, ACTIVE_MOST, (size_t)t->correct,
                                 !t->ledger && t->survivors);
    if ((t->ledger && !t->left) || t->v->subject->remote || vt_wrap_defends(&t->v->subject->wrap))
        n = 0; /* no head to replace; a defence votes on classes, and the test's two are others */
    VT_TRY(run_part(p, ACTIVE, images, n, &t->cost, e));
    int64_t attacked = t->checks[VT_CHECK_ACTIVE].trials;
    t->active = (vt_active){.images = (int64_t)n,
                            .setup_failed = (int64_t)n - attacked,
                            .attacked = attacked,
                            .found = attacked - t->checks[VT_CHECK_ACTIVE].hits,
                            .random_surface = t->flags[VT_FLAG_SURFACE],
                            .random_corner = t->flags[VT_FLAG_CORNER]};
    return VT_OK;
}

/* Attacks survivors again, harder, after a verdict that is doubtful or worse; sets t->escalated and what goes with
 * it. */
static vt_status retry_survivors(part *p, vt_err *e) {
    vt_selftest *t = p->t;
    size_t n = (size_t)t->other < AGAIN_MOST ? (size_t)t->other : AGAIN_MOST;
    char what[60];
    if (!n) return VT_OK;
    t->escalated = true, t->escalated_images = (int64_t)n;
    for (size_t i = 0; i < n; i++)
        p->found[AGAIN][i].against = p->found[OTHER][i].against | p->found[SEARCH][i].against;
    int64_t broken = t->flags[VT_FLAG_BROKEN];
    t->escalation_forecast = forecast_escalation(t, (double)n);
    snprintf(what, sizeof what, "in doubt, %zu survivor%s once more: ", n, n == 1 ? "" : "s");
    show_progress_line(p, what, t->escalation_forecast, false);
    VT_TRY(run_part(p, AGAIN, p->survivors, n, &t->escalation_cost, e));
    t->further = t->flags[VT_FLAG_BROKEN] - broken;
    return VT_OK;
}

/* Marks a range of checks as not made. */
static void mark_untested(vt_selftest *t, vt_check_id first, vt_check_id last) {
    for (int i = first; i <= (int)last; i++) t->untested |= 1u << i;
}

/* Marks in t->untested the checks that were not made although images survived: the verdict names them. */
static void find_untested(part *p) {
    vt_selftest *t = p->t;
    if (t->points_only) mark_untested(t, VT_CHECK_STEPS, VT_CHECK_ACTIVE);
    if (t->v->subject->remote) mark_untested(t, VT_CHECK_TWIN, VT_CHECK_HEAD);
    if (t->points_only || (!p->n_survivors && (t->ledger || t->attacked))) return;
    if (!t->attacked) mark_untested(t, VT_CHECK_STEPS, p->witness ? VT_CHECK_WHOLE : VT_CHECK_RADIUS);
    if (!t->checks[VT_CHECK_WAKEUP].trials) mark_untested(t, VT_CHECK_WAKEUP, VT_CHECK_WAKEUP);
    if (!t->other) mark_untested(t, VT_CHECK_NOISE, VT_CHECK_SQUARE);
    if (!t->checks[VT_CHECK_SQUARE].trials) mark_untested(t, VT_CHECK_SQUARE, VT_CHECK_SQUARE);
    if (!t->active.attacked) mark_untested(t, VT_CHECK_ACTIVE, VT_CHECK_ACTIVE);
}

/* Runs all parts and judges; images, first [n_images]: room for samples. */
static vt_status run_all_parts(part *p, int32_t *images, int32_t *first, vt_err *e) {
    vt_selftest *t = p->t;
    size_t right;
    VT_TRY(find_right(p, e));
    VT_TRY(find_nothing(p, e));
    if (*t->nothing) {
        vt_selftest_judge(t);
        return VT_OK;
    }
    set_allowance(t, t->reference);
    t->forecast = forecast_cost(t, t->ledger != NULL);
    show_progress_line(p, "", t->forecast, true);
    VT_TRY(vt_sample(t, p->standing, false, images, &right, e));
    VT_TRY(run_point_checks(p, images, e));
    if (!t->ledger && !t->points_only) VT_TRY(attack_for_survivors(p, images, e));
    VT_TRY(vt_sample(t, p->standing, true, first, &right, e));
    VT_TRY(run_scale_checks(p, first, e));
    if (!t->points_only) {
        if (t->ledger) memcpy(p->survivors, first, (size_t)t->left * sizeof *first), p->n_survivors = (size_t)t->left;
        VT_TRY(run_wakeup_check(p, e));
        VT_TRY(other_ways(p, e));
        if (t->ledger) VT_TRY(run_strength_checks(p, images, e));
        VT_TRY(run_active_test(p, images, e));
    }
    find_untested(p);
    for (size_t i = 0; i < t->v->n_images; i++) t->looked += p->standing[i].looked;
    vt_selftest_judge(t);
    return t->grade == VT_GRADE_DOUBTFUL || t->grade == VT_GRADE_MASKED ? retry_survivors(p, e) : VT_OK;
}

vt_status vt_selftest_run(vt_selftest *t, vt_err *e) {
    double forward, gradient;
    size_t n = t->v->n_images + 1;
    vt_subject_flops(t->v->subject, &forward, &gradient);
    t->ratio = gradient / forward;
    vt_selftest_rates(t);
    part p = {.t = t, .standing = calloc(n, sizeof *p.standing), .survivors = calloc(3 * n, sizeof *p.survivors)};
    p.glance = calloc(GLANCE_MOST * (size_t)vt_subject_classes(t->v->subject), sizeof *p.glance);
    pthread_mutex_init(&p.lock, NULL);
    vt_status s = p.standing && p.survivors && p.glance ? run_all_parts(&p, p.survivors + n, p.survivors + 2 * n, e)
                                                        : vt_fail(e, VT_E_MEMORY, "no memory for the self-test");
    pthread_mutex_destroy(&p.lock);
    free(p.standing), free(p.survivors), free(p.glance);
    return s;
}
