/* SPDX-License-Identifier: MIT */
#include "eval/cost.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include "base/columns.h"
#include "base/files.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/stats.h"
#include "parallel/threads.h"
#include "models/arch.h"
#include "inference/classifier.h"

enum { ROUNDS_MOST = 201, ROUNDS_LEAST = 3 };
#define SECONDS 0.3

/* A classifier and what its calls need; and seconds of its calls, a round each. */
typedef struct bench {
    vt_classifier c;
    float *x, *dx, *z, *target;
    double *z64;
    double forward[ROUNDS_MOST], gradient[ROUNDS_MOST], verdict[ROUNDS_MOST];
    int n;
} bench;

/* Accepts a zeroed one. */
static void bench_close(bench *b) {
    vt_classifier_close(&b->c);
    free(b->x), free(b->dx), free(b->z), free(b->target), free(b->z64);
}

/* Opens a classifier with buffers for one grey image; close it after a failure too. */
static vt_status bench_open(bench *b, const vt_model *m, vt_err *e) {
    *b = (bench){0};
    VT_TRY(vt_classifier_open(&b->c, m, e));
    size_t n = b->c.pixels, k = (size_t)b->c.classes;
    b->x = vt_alloc(n * sizeof *b->x), b->dx = vt_alloc(n * sizeof *b->dx);
    b->z = vt_alloc(k * sizeof *b->z), b->target = vt_alloc(k * sizeof *b->target);
    b->z64 = vt_alloc((size_t)vt_classifier_votes(&b->c) * k * sizeof *b->z64);
    if (!b->x || !b->dx || !b->z || !b->target || !b->z64) return vt_fail(e, VT_E_MEMORY, "no memory to measure");
    for (size_t i = 0; i < n; i++) b->x[i] = 0.5f;
    b->target[0] = 1;
    return VT_OK;
}

/* Returns the processor time of this thread in seconds, so that other work of the machine is left out. */
static double thread_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Times a forward, a gradient (kept forward, backward) and a verdict (forwards in float and double), in seconds. */
static vt_status one_round(bench *b, vt_err *e) {
    vt_loss loss = {.kind = VT_LOSS_CE, .target = b->target};
    float value;
    double t0 = thread_seconds();
    VT_TRY(vt_classifier_logits(&b->c, b->x, b->z, false, e));
    double t1 = thread_seconds();
    VT_TRY(vt_classifier_logits(&b->c, b->x, b->z, true, e));
    VT_TRY(vt_classifier_backward(&b->c, &loss, &value, b->dx, e));
    double t2 = thread_seconds();
    VT_TRY(vt_classifier_logits64(&b->c, b->x, b->z64, e));
    b->forward[b->n] = t1 - t0, b->gradient[b->n] = t2 - t1, b->verdict[b->n] = t1 - t0 + thread_seconds() - t2;
    return VT_OK;
}

/* Repeats rounds on bench `item` for SECONDS, within the limits of their number. */
static vt_status run_rounds(void *benches, int thread, size_t item, vt_err *e) {
    bench *b = (bench *)benches + item;
    (void)thread;
    VT_TRY(one_round(b, e)); /* the first prepares products */
    double began = vt_now();
    for (; b->n < ROUNDS_MOST && (b->n < ROUNDS_LEAST || vt_now() - began < SECONDS); b->n++) VT_TRY(one_round(b, e));
    return VT_OK;
}

vt_status vt_measure_seconds(vt_seconds *s, const vt_model *m, int threads, vt_err *e) {
    bench *b = calloc((size_t)threads, sizeof *b);
    vt_status st = b ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory to measure");
    for (int i = 0; i < threads && st == VT_OK; i++) st = bench_open(&b[i], m, e);
    if (st == VT_OK) st = vt_for_each((size_t)threads, threads, run_rounds, b, e);
    *s = (vt_seconds){0};
    for (int i = 0; i < threads && st == VT_OK; i++) {
        size_t n = (size_t)b[i].n;
        s->forward += vt_median(b[i].forward, n) / threads, s->gradient += vt_median(b[i].gradient, n) / threads;
        s->verdict += vt_median(b[i].verdict, n) / threads;
    }
    for (int i = 0; b && i < threads; i++) bench_close(&b[i]);
    free(b);
    return st;
}

vt_status vt_measure_hours(double *hours, const vt_model *m, double flops, int threads, vt_err *e) {
    double forward, gradient;
    vt_seconds s;
    VT_TRY(vt_measure_seconds(&s, m, threads, e));
    vt_arch_find(m->config.arch)->flops(&m->config, true, &forward, &gradient);
    *hours = flops / (forward + gradient) * (s.forward + s.gradient) / threads / 3600;
    return VT_OK;
}

const char *vt_hours_text(char buf[32], double hours) {
    if (hours * 3600 < 100)
        snprintf(buf, 32, "%.2g s", hours * 3600);
    else if (hours * 60 < 100)
        snprintf(buf, 32, "%.2g min", hours * 60);
    else
        snprintf(buf, 32, "%.3g h", hours);
    return buf;
}

/* getrusage's figure begins with that of the process that started this one. */
double vt_resident_mb(void) {
    char text[4096] = "";
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    vt_file_start("/proc/self/status", text, sizeof text - 1);
    const char *peak = strstr(text, "VmHWM:");
    return peak ? strtod(peak + 6, NULL) / 1024 : (double)u.ru_maxrss / 1024;
}

double vt_forecast_mb(double more) {
    char text[100] = "";
    unsigned long long pages;
    const double peak = vt_resident_mb();
    vt_file_start("/proc/self/statm", text, sizeof text - 1);
    if (sscanf(text, "%*u %llu", &pages) != 1) return peak + more;
    return fmax(peak, (double)pages * (double)sysconf(_SC_PAGESIZE) / 1048576 + more);
}

/* Measured; products too small for oneDNN (linalg/gemm.c) take next to nothing. */
double vt_libraries_mb(const vt_model *m, int threads) {
    double product = (double)vt_model_tokens(m) * m->config.dim * m->config.dim;
    return product < 1e6 ? 1 : 4 + 2.0 * threads;
}

/* ---- an evaluation at most ---- */

/* Returns the forwards and gradients of a stage on one image, at most. */
static vt_passes stage_passes(const vt_eval_options *v, const vt_attack_stage *s) {
    vt_cost_dims d = {.classes = vt_subject_classes(v->subject),
                      .layers = v->subject->model->config.depth,
                      .norm = v->norm,
                      .aimed = v->targets != NULL,
                      .points = vt_rotation_points(&v->rotation),
                      .count = v->patch.count};
    if (v->patch.size) d.points = vt_patch_places(&v->patch, vt_subject_shape(v->subject));
    return vt_attack_stage_cost(s, d);
}

/* Calls for all images; of a stage on a share of the survivors for the mean of those drawn. */
typedef struct work {
    double forwards, gradients, verdicts;
} work;

/* Adds the calls of stage k on all its images; of an 8-bit entry, which searches, a rounded query for each query of the
 * attack and the repair (attacks/oracle.h). */
static void add_stage(work *w, const vt_eval_options *v, const vt_attack *a, int k) {
    const vt_attack_stage *s = &a->stages[k];
    vt_passes p = stage_passes(v, s);
    double images = s->share * (double)v->n_images;
    if (a->scoring == VT_SCORE_EIGHT_BIT && !v->exhaustive) {
        p.forwards += p.forwards + p.gradients + vt_rounding_forwards(vt_subject_pixels(v->subject), s->def->white_box);
        p.gradients += s->def->white_box ? VT_ROUNDING_GRADIENTS : 0;
    }
    w->forwards += p.forwards * images, w->gradients += p.gradients * images, w->verdicts += images;
}

typedef struct estimate {
    vt_columns t;
    const vt_eval_options *v;
    vt_seconds s;
} estimate;

/* Adds a row of the estimate: images, forwards, gradients, TFLOP, time on this machine. */
static void add_row(estimate *x, const char *label, const char *scoring, double images, const work *w) {
    double forward, gradient;
    char time[32], tflop[16] = "?";
    const vt_eval_options *v = x->v;
    vt_subject_flops(v->subject, &forward, &gradient);
    if (!v->subject->remote)
        snprintf(tflop, sizeof tflop, "%.3g", 1e-12 * (w->forwards * forward + w->gradients * gradient));
    double seconds = w->forwards * x->s.forward + w->gradients * x->s.gradient + w->verdicts * x->s.verdict;
    vt_columns_cells(&x->t, "%.40s%s%s\t%.0f\t%.0f\t%.0f\t%s\t%s", label, *scoring ? ", " : "", scoring, images,
                     w->forwards, w->gradients, tflop, vt_hours_text(time, seconds / v->threads / 3600));
}

/* Returns the calls of the clean predictions and of every entry, at most. */
static work all_work(const vt_eval_options *v) {
    work w = {.forwards = (double)v->n_images};
    for (int i = 0; i < v->n_attacks; i++)
        for (int k = 0; k < v->attacks[i].n_stages; k++) add_stage(&w, v, &v->attacks[i], k);
    return w;
}

vt_passes vt_cost_passes(const vt_eval_options *v) {
    work w = all_work(v);
    return (vt_passes){.forwards = w.forwards, .gradients = w.gradients};
}

/* Adds the rows of an entry and, if it has several, of its stages. */
static void add_attack(estimate *x, const vt_attack *a) {
    work whole = {0};
    double images = (double)x->v->n_images;
    const char *scoring = a->scoring == VT_SCORE_BALL ? "" : vt_scoring_name(a->scoring);
    for (int k = 0; k < a->n_stages; k++) add_stage(&whole, x->v, a, k);
    add_row(x, a->name, scoring, images, &whole);
    for (int k = 0; k < a->n_stages && a->n_stages > 1; k++) {
        char label[64];
        work stage = {0};
        add_stage(&stage, x->v, a, k);
        snprintf(label, sizeof label, "  %s", a->stages[k].def->name);
        add_row(x, label, scoring, a->stages[k].share * images, &stage);
    }
}

/* Prints what the rows count. */
static void say_what_counts(FILE *f, const vt_eval_options *v, const vt_cost_selftest *test) {
    double forward, gradient;
    vt_subject_flops(v->subject, &forward, &gradient);
    fprintf(f, "\nAn image that is wrong as it is, or that an attack breaks, costs less than this.\n");
    if (vt_eval_eight_bit(v) && !v->exhaustive)
        fprintf(f,
                "8-bit rows: beside the attack's own, a rounded query for each of its queries,\n"
                "and a repair of at most %d forwards and %d gradients for each image and stage.\n",
                vt_rounding_forwards(vt_subject_pixels(v->subject), true), VT_ROUNDING_GRADIENTS);
    if (test)
        fprintf(f, "self-test: a gradient counts as %.2f forwards; without it: " VT_OPTION "no-selftest\n",
                gradient / forward);
}

vt_status vt_cost_print(FILE *f, vt_eval_options *v, const vt_cost_selftest *test, vt_err *e) {
    estimate x = {.v = v};
    vt_eval_fit(v);
    double images = (double)v->n_images, libraries = vt_libraries_mb(v->subject->model, v->threads);
    double memory = vt_forecast_mb((double)vt_eval_bytes(v) / 1048576 + libraries);
    VT_TRY(vt_measure_seconds(&x.s, v->subject->model, v->threads, e));
    const double alone = x.s.forward;
    vt_wrap_cost(&v->subject->wrap, &x.s.forward, &x.s.gradient);
    x.s.verdict *= x.s.forward / alone;
    vt_columns_titles(&x.t, "-at most\timages\tforwards\tgradients\tTFLOP\t-time here");
    add_row(&x, "clean", "", images, &(work){.forwards = images});
    for (int i = 0; i < v->n_attacks; i++) add_attack(&x, &v->attacks[i]);
    work all = all_work(v);
    if (test) {
        all.forwards += test->parts + test->doubt;
        add_row(&x, "self-test", "", images, &(work){.forwards = test->parts + test->doubt});
        add_row(&x, "  its parts", "", images, &(work){.forwards = test->parts});
        add_row(&x, "  harder, if in doubt", "", images, &(work){.forwards = test->doubt});
    }
    if (v->n_attacks) add_row(&x, "all, at most", "", images, &all);
    vt_columns_end(&x.t, f, VT_LOOK_PAGE);
    say_what_counts(f, v, test);
    fprintf(f,
            "time: with %d thread%s and no other work, by what was measured here:\n"
            "forward %.3g ms, gradient %.3g ms, verdict %.3g ms\n",
            v->threads, v->threads == 1 ? "" : "s", 1e3 * x.s.forward, 1e3 * x.s.gradient, 1e3 * x.s.verdict);
    if (v->certify.def) fprintf(f, "certificates (%s) are not counted, neither time nor memory\n", v->certify.id);
    fprintf(f, "memory: %.0f MB peak with %d thread%s\n", memory, v->threads, v->threads == 1 ? "" : "s");
    return VT_OK;
}

/* ---- the time that is left ---- */

void vt_eta_begin(vt_eta *o, const vt_eval_options *v) {
    double forward, gradient;
    vt_subject_flops(v->subject, &forward, &gradient);
    *o = (vt_eta){.v = v, .ratio = gradient / forward, .began = vt_now()};
}

/* Images that stand now are taken to stand against what follows too. Tried on those that fall: the 8-bit entry behind
 * this one, and of a curve, whose minimum-norm attacks break everything, every radius that is confirmed. */
void vt_eta_stage(vt_eta *o, int entry, int stage) {
    o->stage_work = o->standing = o->falling = 0, o->stage_done = 0;
    for (int i = entry ? entry - 1 : 0; i < o->v->n_attacks; i++) {
        const vt_attack *a = &o->v->attacks[i];
        bool eight = a->scoring == VT_SCORE_EIGHT_BIT;
        for (int k = i == entry - 1 ? stage + 1 : 0; k < a->n_stages; k++) {
            vt_passes p = stage_passes(o->v, &a->stages[k]);
            double each = a->stages[k].share * (p.forwards + o->ratio * p.gradients);
            if (!eight) o->standing += each;
            if (eight || o->v->radii || a->scoring == VT_SCORE_PUBLISHED) o->falling += each;
        }
    }
}

double vt_eta_image(vt_eta *o, int64_t forwards, int64_t gradients, size_t done, size_t total, size_t robust) {
    double passes = (double)forwards + o->ratio * (double)gradients;
    double stand = ((double)robust + 1) / ((double)done + 2); /* not 0 or 1 after the first image */
    o->work += passes, o->stage_work += passes, o->stage_done++;
    double here = o->stage_work / (double)o->stage_done * (double)(total - done);
    double behind = (stand * o->standing + (1 - stand) * o->falling) * (double)total;
    double seconds = vt_now() - o->began;
    return o->work > 0 ? (here + behind) * seconds / o->work : 0;
}
