/* SPDX-License-Identifier: MIT */
/* How sharp the minimum is where training stopped: the Hessian of the mean cross-entropy over the images, its largest
 * eigenvalues and its trace ("Understanding Attention Mechanisms", Fig. 3, for whole checkpoints), on clean images and,
 * with an attack, on the attacked ones held fixed. Beside each raw number stands the one in relative coordinates,
 * theta (1 + delta): Theorem 4 makes the raw one anything without changing the function, and --rescale does so here. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "research/analysis/analyze.h"
#include "research/analysis/hessian.h"
#include "research/analysis/lines.h"
#include "base/mem.h"

typedef struct params {
    int k, most, probes;
    double tol, rescale;
} params;

static const vt_opt opts[] = {
    VT_OPT_I("k", params, k, "largest eigenvalues wanted", 5, 1, 1000),
    VT_OPT_I("most", params, most, "most products for a spectrum (0: 4 k + 100); each is kept as a vector", 0, 0,
             100000),
    VT_OPT_R("tol", params, tol, "residual of an eigenvalue, relative to the largest", 1e-5, 1e-12, 0.1),
    VT_OPT_I("probes", params, probes, "random vectors for a trace", 10, 2, 100000),
    VT_OPT_R("rescale", params, rescale, "factor of W_V, and W_O over it: the same function once more (1: no)", 1,
             0.001, 1000),
    VT_OPT_END,
};

enum { CLEAN, ATTACKED, RESCALED, LOSSES };
static const char *const names[LOSSES] = {"clean", "attacked", "rescaled"};

/* One operator's numbers. */
typedef struct spectrum {
    double *values, *residuals; /* [k] */
    double lowest, trace, error, converged, products;
} spectrum;

typedef struct sharpness {
    bool there;
    double loss;
    spectrum raw, relative;
    vt_hessian_check check;
    size_t gradients;
} sharpness;

typedef struct job {
    const vt_analyze *a;
    const params *p;
    const vt_model *model;
    size_t pixels;
    float *x, *adv; /* [images, pixels]; adv NULL: no attack */
    int *labels;
    vt_hessian h;
    double *vectors, *size, *scratch, *logits[2]; /* [k, n], [n], [n], [images, K] */
    double *values;                               /* of all spectra */
    sharpness s[LOSSES];
    double moved; /* by --rescale: largest change of a logit, relative to the largest logit */
} job;

/* Lanczos parameters from the options; the seed draws the start vector. */
static vt_lanczos lanczos_params(const params *p, uint64_t seed) {
    return (vt_lanczos){.k = p->k, .most = p->most, .tol = p->tol, .seed = seed};
}

/* Takes the images, vectors, logits and spectra from r; an arena without base only counts the bytes. */
static void lay_out_buffers(job *j, vt_arena *r) {
    size_t n = j->a->n_images, k = (size_t)j->p->k, numbers = vt_model_param_count(j->model);
    j->x = vt_arena_take(r, n * j->pixels, sizeof(float));
    j->adv = j->a->attack ? vt_arena_take(r, n * j->pixels, sizeof(float)) : NULL;
    j->labels = vt_arena_take(r, n, sizeof(int));
    j->vectors = vt_arena_take(r, k * numbers, sizeof(double));
    j->size = vt_arena_take(r, numbers, sizeof(double));
    j->scratch = vt_arena_take(r, numbers, sizeof(double));
    for (int i = 0; i < 2; i++) j->logits[i] = vt_arena_take(r, n * (size_t)j->model->config.classes, sizeof(double));
    j->values = vt_arena_take(r, (size_t)LOSSES * 4 * k, sizeof(double));
}

/* The job's buffers, the Hessian's workers and the Lanczos basis. */
static size_t bytes(const vt_analyze *a, const vt_analyzed *s, const void *params_) {
    job j = {.a = a, .p = params_, .model = s->model, .pixels = vt_config_input_pixels(&s->model->config)};
    vt_lanczos l = lanczos_params(j.p, a->seed);
    vt_arena r = {0};
    lay_out_buffers(&j, &r);
    return r.used + vt_hessian_bytes(s->model, a->n_images, a->threads) +
           vt_lanczos_bytes(vt_model_param_count(s->model), &l);
}

/* Allocates *block, which the caller frees, and points the job's arrays and spectra into it; VT_E_MEMORY. */
static vt_status open_job(job *j, void **block, vt_err *e) {
    vt_arena r = {0};
    lay_out_buffers(j, &r);
    *block = vt_alloc(r.used);
    if (!*block) return vt_fail(e, VT_E_MEMORY, "no memory for %zu images and their Hessian", j->a->n_images);
    lay_out_buffers(j, &(vt_arena){.base = *block, .size = r.used});
    for (int i = 0; i < LOSSES; i++) {
        double *at = j->values + 4 * i * j->p->k;
        spectrum *both[2] = {&j->s[i].raw, &j->s[i].relative};
        for (int q = 0; q < 2; q++)
            both[q]->values = at + 2 * q * j->p->k, both[q]->residuals = at + (2 * q + 1) * j->p->k;
    }
    return VT_OK;
}

/* Copies image i, its attacked copy and its label into the job's batch. */
static vt_status collect_image(void *ctx, vt_analysis_worker *b, size_t i, vt_err *e) {
    job *j = ctx;
    (void)e;
    memcpy(j->x + i * j->pixels, b->x, j->pixels * sizeof *j->x);
    if (j->adv) memcpy(j->adv + i * j->pixels, b->attacker.x_adv, j->pixels * sizeof *j->adv);
    j->labels[i] = b->label;
    return VT_OK;
}

/* Sets all of *out: the k largest eigenvalues with residuals, how many converged, products, lowest Ritz value, trace
 * and its error; seeded by the analysis. vectors [k, n], or NULL: not kept. */
static vt_status measure_spectrum(spectrum *out, const vt_symmetric *a, const job *j, double *vectors, vt_err *e) {
    const vt_lanczos l = lanczos_params(j->p, j->a->seed);
    vt_lanczos_result got = {.values = out->values, .residuals = out->residuals, .vectors = vectors};
    VT_TRY(vt_lanczos_run(&got, a, &l, e));
    out->lowest = got.lowest, out->converged = got.converged, out->products = got.products;
    return vt_hutchinson_trace(&out->trace, &out->error, a, j->p->probes, j->a->seed, e);
}

/* The most image gradients of one loss, for the progress bar: two a product, both operators, four for checks. */
static size_t gradient_budget(const job *j) {
    size_t most = j->p->most ? (size_t)j->p->most : 4 * (size_t)j->p->k + 100;
    return 2 * j->a->n_images * (2 * (most + (size_t)j->p->probes) + 4);
}

/* Sets s[which]: loss, both spectra and symmetry checks of the clean, attacked or rescaled loss; logits [images, K], or
 * NULL. Points h at those images and overwrites j's vectors, size and scratch. */
static vt_status measure_sharpness(job *j, int which, double *logits, vt_err *e) {
    vt_hessian *h = &j->h;
    sharpness *s = &j->s[which];
    vt_symmetric raw = vt_hessian_operator(h);
    vt_relative r = {raw, j->size, j->scratch};
    vt_symmetric relative = vt_relative_operator(&r);
    char stage[64];
    snprintf(stage, sizeof stage, "Hessian, %s", names[which]);
    h->x = which == ATTACKED ? j->adv : j->x, h->labels = j->labels, h->images = j->a->n_images, h->gradients = 0;
    if (h->progress) vt_progress_begin(h->progress, stage, 0, gradient_budget(j));
    vt_hessian_size(h, j->size);
    VT_TRY(vt_hessian_loss(h, &s->loss, NULL, logits, e));
    VT_TRY(measure_spectrum(&s->raw, &raw, j, j->vectors, e));
    VT_TRY(measure_spectrum(&s->relative, &relative, j, NULL, e));
    VT_TRY(vt_hessian_examine(&s->check, h, j->vectors, j->a->seed, e));
    s->there = true, s->gradients = h->gradients;
    if (h->progress) vt_progress_end(h->progress, NULL);
    return VT_OK;
}

/* Rescales W_V and W_O in h.theta, sets s[RESCALED], and j->moved: the largest change of a logit over the largest
 * logit. */
static vt_status measure_rescaled(job *j, vt_err *e) {
    size_t n = j->a->n_images * (size_t)j->model->config.classes;
    double moved = 0, most = 0;
    vt_hessian_rescale(&j->h, VT_WEIGHT_V, VT_WEIGHT_O, j->p->rescale);
    VT_TRY(measure_sharpness(j, RESCALED, j->logits[1], e));
    for (size_t i = 0; i < n; i++) {
        moved = fmax(moved, fabs(j->logits[1][i] - j->logits[0][i]));
        most = fmax(most, fabs(j->logits[0][i]));
    }
    j->moved = moved / most;
    return VT_OK;
}

/* Opens the Hessian, then measures the clean, the attacked (with an attack) and the rescaled loss (with --rescale). */
static vt_status measure_losses(job *j, vt_err *e) {
    const vt_analyze *a = j->a;
    VT_TRY(vt_hessian_open(&j->h, j->model, a->n_images, a->threads, e));
    j->h.interrupt = a->interrupt, j->h.progress = a->progress;
    VT_TRY(measure_sharpness(j, CLEAN, j->logits[0], e));
    if (a->attack) VT_TRY(measure_sharpness(j, ATTACKED, NULL, e));
    return j->p->rescale != 1 ? measure_rescaled(j, e) : VT_OK;
}

enum { SIDES = 2 };
static const char *const sides[SIDES] = {"", ", relative"};

/* The spectrum of the Hessian (0) or of its relative form (1). */
static const spectrum *spectrum_of_side(const sharpness *s, int side) { return side ? &s->relative : &s->raw; }

/* Adds a row of one number an operator: eigenvalue i, or for i < 0 the double at `offset` of spectrum; whole: a count.
 */
static void print_row(const job *j, const char *name, int i, size_t offset, bool whole, vt_columns *t) {
    vt_columns_cell(t, "%s", name);
    for (int k = 0; k < LOSSES; k++)
        for (int q = 0; q < SIDES && j->s[k].there; q++) {
            const spectrum *p = spectrum_of_side(&j->s[k], q);
            double x = i < 0 ? *(const double *)((const char *)p + offset) : p->values[i];
            if (whole)
                vt_columns_cell(t, "%.0f", x);
            else
                vt_analyze_cell(t, x);
        }
}

/* Adds a row of one number a loss, the double at `offset` of sharpness; the relative column stays empty. */
static void print_loss_row(const job *j, const char *name, size_t offset, vt_columns *t) {
    vt_columns_cell(t, "%s", name);
    for (int k = 0; k < LOSSES; k++)
        if (j->s[k].there) {
            vt_analyze_cell(t, *(const double *)((const char *)&j->s[k] + offset));
            vt_columns_cell(t, "%s", "");
        }
}

/* Warns of products that are not symmetric or depend on the step (a kink: ReLU, a maximum); prints --rescale. */
static void print_warnings(const job *j, FILE *out) {
    for (int k = 0; k < LOSSES; k++) {
        const vt_hessian_check *c = &j->s[k].check;
        if (j->s[k].there && !(c->symmetry <= 1e-6 && c->halved <= 1e-4))
            fprintf(out, "%s: the products are not those of one symmetric matrix; the loss is not smooth there\n",
                    names[k]);
    }
    if (j->p->rescale == 1) return;
    fprintf(out, "rescaled: W_V times %g, W_O over it; the largest change of a logit is %.1e of the largest logit\n",
            j->p->rescale, j->moved);
    if (!(j->moved <= 1e-9)) fprintf(out, "rescaled: that is another function; this network looks at the scale of V\n");
}

/* Prints a column for each loss and side: loss, eigenvalues, trace, products and checks. */
static void print_table(const job *j, int subject, FILE *out) {
    char name[40], titles[200] = "-";
    vt_columns t;
    vt_analyze_title(out, j->a, subject);
    fprintf(out, "%zu parameters\n", j->h.n);
    for (int k = 0; k < LOSSES; k++)
        for (int q = 0; q < SIDES && j->s[k].there; q++)
            vt_text_item(titles, sizeof titles, "\t", "%s%s", names[k], sides[q]);
    vt_columns_titles(&t, "%s", titles);
    print_loss_row(j, "mean cross-entropy", offsetof(sharpness, loss), &t);
    for (int i = 0; i < j->p->k; i++) {
        snprintf(name, sizeof name, "eigenvalue %d", i + 1);
        print_row(j, name, i, 0, false, &t);
    }
    print_row(j, "  of them converged", -1, offsetof(spectrum, converged), true, &t);
    print_row(j, "lowest Ritz value", -1, offsetof(spectrum, lowest), false, &t);
    print_row(j, "trace", -1, offsetof(spectrum, trace), false, &t);
    print_row(j, "  standard error", -1, offsetof(spectrum, error), false, &t);
    print_row(j, "Lanczos products", -1, offsetof(spectrum, products), true, &t);
    print_loss_row(j, "asymmetry", offsetof(sharpness, check.symmetry), &t);
    print_loss_row(j, "step halved", offsetof(sharpness, check.halved), &t);
    vt_columns_end(&t, out, VT_LOOK_PAGE);
    print_warnings(j, out);
}

/* JSON of one operator's k eigenvalues with residuals, lowest Ritz value and trace. */
static json_t *spectrum_json(const spectrum *p, int k) {
    return json_pack("{s:o,s:o,s:i,s:i,s:o,s:o,s:o}", "eigenvalues", vt_analyze_reals(p->values, k), "residuals",
                     vt_analyze_reals(p->residuals, k), "converged", (int)p->converged, "products", (int)p->products,
                     "lowest", vt_json_real(p->lowest), "trace", vt_json_real(p->trace), "trace_error",
                     vt_json_real(p->error));
}

/* Stores the checkpoint's JSON, one object for each loss measured; VT_E_MEMORY. */
static vt_status store_results(const job *j, json_t *json, int subject, vt_err *e) {
    json_t *o = json_pack("{s:I}", "parameters", (json_int_t)j->h.n);
    for (int k = 0; k < LOSSES && o; k++) {
        const sharpness *s = &j->s[k];
        if (!s->there) continue;
        json_object_set_new(o, names[k],
                            json_pack("{s:o,s:o,s:o,s:o,s:o,s:I}", "loss", vt_json_real(s->loss), "raw",
                                      spectrum_json(&s->raw, j->p->k), "relative", spectrum_json(&s->relative, j->p->k),
                                      "asymmetry", vt_json_real(s->check.symmetry), "halved",
                                      vt_json_real(s->check.halved), "gradients", (json_int_t)s->gradients));
    }
    if (j->p->rescale != 1) json_object_set_new(o, "logits_moved", vt_json_real(j->moved));
    return vt_analyze_put(json, subject, o, e);
}

/* Adds each loss's k eigenvalues as a curve to the figures of raw and relative eigenvalues. */
static void add_figure_lines(const job *j, int subject, vt_lines figures[SIDES]) {
    for (int k = 0; k < LOSSES; k++)
        for (int q = 0; q < SIDES && j->s[k].there; q++)
            memcpy(vt_lines_add(&figures[q], j->a, subject, names[k]), spectrum_of_side(&j->s[k], q)->values,
                   (size_t)j->p->k * sizeof(double));
}

/* Collects the images of checkpoint i, measures, prints, draws and stores; frees all it allocated. */
static vt_status analyze_subject(const vt_analyze *a, const params *p, int i, vt_lines figures[SIDES], FILE *out,
                                 json_t *json, vt_err *e) {
    const vt_analyzed *subject = &a->subjects[i];
    job j = {.a = a, .p = p, .model = subject->model, .pixels = vt_config_input_pixels(&subject->model->config)};
    void *block;
    VT_TRY(open_job(&j, &block, e));
    vt_status s = vt_analysis_images(a, subject, collect_image, &j, e);
    if (a->progress) a->progress->unit = "gradients";
    if (s == VT_OK) s = measure_losses(&j, e);
    if (a->progress) a->progress->unit = NULL;
    if (s == VT_OK) print_table(&j, i, out), add_figure_lines(&j, i, figures), s = store_results(&j, json, i, e);
    vt_hessian_close(&j.h);
    free(block);
    return s;
}

static vt_status run(const vt_analyze *a, const void *params_, FILE *out, json_t *json, vt_err *e) {
    const params *p = params_;
    vt_lines figures[SIDES] = {{0}};
    vt_status s = vt_lines_open(&figures[0], p->k, "Largest eigenvalues of the Hessian", "eigenvalue", true, e);
    if (s == VT_OK) s = vt_lines_open(&figures[1], p->k, "The same, relative to the weights", "eigenvalue", true, e);
    figures[0].x = figures[1].x = "index";
    for (int i = 0; i < a->n && s == VT_OK; i++) s = analyze_subject(a, p, i, figures, out, json, e);
    if (s == VT_OK) s = vt_lines_draw(&figures[0], a, "flatness", e);
    if (s == VT_OK) s = vt_lines_draw(&figures[1], a, "flatness_relative", e);
    vt_lines_free(&figures[0]), vt_lines_free(&figures[1]);
    return s;
}

/* VT_E_USAGE if k exceeds --most or the parameters, or --rescale is not possible for a checkpoint. */
static vt_status check(const vt_analyze *a, const void *params_, vt_err *e) {
    const params *p = params_;
    if (p->most && p->most < p->k)
        return vt_fail(e, VT_E_USAGE, "--most %d products cannot tell --k %d eigenvalues", p->most, p->k);
    for (int i = 0; i < a->n; i++) {
        size_t n = vt_model_param_count(a->subjects[i].model);
        if ((size_t)p->k > n)
            return vt_fail(e, VT_E_USAGE, "--k %d eigenvalues; %s has %zu parameters", p->k, a->subjects[i].path, n);
        if (p->rescale != 1) VT_TRY(vt_hessian_can_rescale(a->subjects[i].model, VT_WEIGHT_V, VT_WEIGHT_O, e));
    }
    return VT_OK;
}

const vt_analysis_def vt_analysis_def_flatness = {
    .name = "flatness",
    .summary = "largest eigenvalues and trace of the loss's Hessian, raw and relative to the weights",
    .source = "Understanding Attention Mechanisms, Fig. 3 and Theorem 4, for whole checkpoints",
    .wants = VT_WANTS_IMAGES | VT_TAKES_ATTACK,
    .opts = opts,
    .params_size = sizeof(params),
    .check = check,
    .bytes = bytes,
    .run = run,
};
