/* SPDX-License-Identifier: MIT */
/* lab flatness: how sharp the minima of a network with attention are. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "research/numeric/lanczos.h"
#include "linalg/gemm.h"
#include "base/mem.h"
#include "research/lab/digits.h"
#include "research/lab/teacher.h"
#include "research/lab/two_layer.h"

/* UAM, Fig. 3 and Theorem 4: the Hessian's largest eigenvalues with a mask and without (576-16-10 on digits of 24 x 24
 * pixels), and what a change of scale that leaves the function alone does to them; the same for self-attention. Beside
 * each raw value stands the one in relative coordinates, theta (1 + delta), which such a change cannot move. */

enum { SIDE = 24, MOST_RUNS = 20, NETS = 2, MOST_K = 400, SCALES = 4 };

typedef struct params {
    int k, steps, train, samples, s, runs, self_steps, self_points, probes;
    double rate, tol;
} params;

static const vt_opt opts[] = {
    VT_OPT_I("k", params, k, "eigenvalues of Fig. 3", 100, 1, MOST_K),
    VT_OPT_I("runs", params, runs, "starts; Fig. 3's spectrum is the first one's", 3, 1, MOST_RUNS),
    VT_OPT_I("steps", params, steps, "SGD steps of 32 pictures", 20000, 1, 1e8),
    VT_OPT_R("rate", params, rate, "learning rate", 0.02, 1e-9, 10),
    VT_OPT_I("s", params, s, "side of the digit in 24 x 24", 15, 1, SIDE),
    VT_OPT_I("train", params, train, "pictures to train on", 4000, 1, 1e6),
    VT_OPT_I("samples", params, samples, "of them in the Hessian, the first ones", 2000, 1, 1e6),
    VT_OPT_I("self_steps", params, self_steps, "SGD steps of the self-attention student", 10000, 1, 1e8),
    VT_OPT_I("self_points", params, self_points, "points that it is trained on, all of them in its Hessian", 1000, 1,
             1e5),
    VT_OPT_I("probes", params, probes, "random vectors for the trace", 20, 2, 10000),
    VT_OPT_R("tol", params, tol, "residual of an eigenvalue, relative to the largest", 1e-6, 1e-14, 0.1),
    VT_OPT_END,
};

typedef struct hessian {
    vt_two_layer net;
    const double *x, *y;
    int n;
    double *theta, *size, *scratch, *work; /* size: |theta| */
    const vt_lab *lab;
} hessian;

/* hv = H v of the net's mean loss at theta, all [parameters]; stops on an interrupt. */
static vt_status multiply_by_hessian(void *ctx, const double *v, double *hv, vt_err *e) {
    hessian *h = ctx;
    VT_TRY(vt_lab_alive(h->lab, e));
    vt_two_layer_hessian_f64(hv, v, h->x, h->y, h->theta, h->n, &h->net, h->work);
    return VT_OK;
}

/* Takes the vectors and scratch from r; an arena without base only counts the bytes. */
static void lay_out_buffers(hessian *h, vt_arena *r) {
    size_t count = vt_two_layer_at(&h->net, VT_AT_END);
    h->theta = vt_arena_take(r, count, sizeof(double));
    h->size = vt_arena_take(r, count, sizeof(double));
    h->scratch = vt_arena_take(r, count, sizeof(double));
    h->work = vt_arena_take(r, vt_two_layer_work_f64(&h->net, h->n, 1), sizeof(double));
}

/* Returns the bytes that open_hessian allocates for n samples. */
static size_t hessian_bytes(const vt_two_layer *net, int n) {
    hessian h = {.net = *net, .n = n};
    vt_arena r = {0};
    lay_out_buffers(&h, &r);
    return r.used;
}

/* Allocates *block, which the caller frees, and points h's buffers into it; VT_E_MEMORY. */
static vt_status open_hessian(hessian *h, void **block, vt_err *e) {
    size_t bytes = hessian_bytes(&h->net, h->n);
    *block = vt_alloc(bytes);
    if (!*block) return vt_fail(e, VT_E_MEMORY, "no memory for the Hessian of %d samples", h->n);
    lay_out_buffers(h, &(vt_arena){.base = *block, .size = bytes});
    return VT_OK;
}

typedef struct sharpness {
    double loss, largest, relative, lowest, trace, trace_error, relative_trace;
    int products;
} sharpness;

typedef struct scaled { /* Theorem 4's factors: of the front, of W1 (and b1), and W2 / (front W1) */
    double front, w1;
    double moved; /* largest change of an output */
    sharpness s;
} scaled;

typedef struct trained {
    sharpness s;
    double test_error;
    int converged;
    double values[MOST_K]; /* first run alone */
    scaled scales[SCALES]; /* first run with a front alone */
} trained;

typedef struct job {
    const params *p;
    vt_lab *lab;
    vt_digits digits, tests;
    double *x, *y; /* of the first samples */
    trained r[MOST_RUNS * NETS];
    trained self;
} job;

/* Sets all of *out: loss, and of the Hessian at h->theta largest, lowest, trace, and largest and trace in relative
 * coordinates. seed: of Lanczos's start and the probes. Overwrites h->size. */
static vt_status measure_sharpness(sharpness *out, hessian *h, const params *p, uint64_t seed, vt_err *e) {
    size_t count = vt_two_layer_at(&h->net, VT_AT_END);
    double value, residual;
    for (size_t i = 0; i < count; i++) h->size[i] = fabs(h->theta[i]);
    vt_symmetric raw = {count, multiply_by_hessian, h};
    vt_relative r = {raw, h->size, h->scratch};
    vt_symmetric relative = vt_relative_operator(&r);
    vt_lanczos one = {.k = 1, .tol = p->tol, .seed = seed};
    vt_lanczos_result got = {.values = &value, .residuals = &residual};
    out->loss = vt_two_layer_loss_f64(NULL, NULL, NULL, h->x, h->y, h->theta, h->n, &h->net, h->work);
    VT_TRY(vt_lanczos_run(&got, &raw, &one, e));
    out->largest = value, out->lowest = got.lowest, out->products = got.products;
    VT_TRY(vt_lanczos_run(&got, &relative, &one, e));
    out->relative = value;
    VT_TRY(vt_hutchinson_trace(&out->trace, &out->trace_error, &raw, p->probes, seed, e));
    return vt_hutchinson_trace(&out->relative_trace, &residual, &relative, p->probes, seed, e);
}

/* Sets out->values to the k largest eigenvalues, or all, and converged to how many reached tol. seed: of Lanczos's
 * start. */
static vt_status compute_spectrum(trained *out, hessian *h, const params *p, uint64_t seed, vt_err *e) {
    size_t count = vt_two_layer_at(&h->net, VT_AT_END);
    double residuals[MOST_K];
    int k = (size_t)p->k < count ? p->k : (int)count;
    vt_lanczos_result got = {.values = out->values, .residuals = residuals};
    VT_TRY(vt_lanczos_run(&got, &(vt_symmetric){count, multiply_by_hessian, h},
                          &(vt_lanczos){.k = k, .tol = p->tol, .seed = seed}, e));
    out->converged = got.converged;
    return VT_OK;
}

/* Scales theta's front (`front`) and W1 (w1) without changing the function: ReLU is homogeneous, so b1 is scaled with
 * what precedes it, W2 by the inverse. For self-attention front must be 1 (the softmax would notice a scale of its
 * weights). */
static void rescale_parameters(double *theta, const vt_two_layer *n, double front, double w1) {
    size_t at[VT_AT_END + 1];
    for (int t = 0; t <= VT_AT_END; t++) at[t] = vt_two_layer_at(n, (vt_tensor)t);
    for (size_t i = at[VT_AT_FRONT]; i < at[VT_AT_W1] && front != 1; i++) theta[i] *= front;
    for (size_t i = at[VT_AT_W1]; i < at[VT_AT_B1]; i++) theta[i] *= w1;
    for (size_t i = at[VT_AT_B1]; i < at[VT_AT_W2]; i++) theta[i] *= front * w1;
    for (size_t i = at[VT_AT_W2]; i < at[VT_AT_B2]; i++) theta[i] /= front * w1;
}

/* Fills out->scales: the sharpness for each of the scales, and the largest change of an output; h->theta is
 * restored. */
static vt_status measure_rescaled(trained *out, hessian *h, const params *p, uint64_t seed, vt_err *e) {
    static const double mask[SCALES][2] = {{1, 1}, {0.1, 1}, {1, 0.1}, {10, 1}};
    static const double self[SCALES][2] = {{1, 1}, {1, 0.1}, {1, 0.3}, {1, 10}};
    size_t count = vt_two_layer_at(&h->net, VT_AT_END), outputs = (size_t)h->n * (size_t)h->net.out;
    double *f = vt_alloc((2 * outputs + count) * sizeof *f), *g = f + outputs, *theta = g + outputs;
    if (!f) return vt_fail(e, VT_E_MEMORY, "no memory for the outputs of %d samples", h->n);
    memcpy(theta, h->theta, count * sizeof *theta);
    vt_two_layer_loss_f64(NULL, NULL, f, h->x, NULL, theta, h->n, &h->net, h->work);
    vt_status s = VT_OK;
    for (int k = 0; k < SCALES && s == VT_OK; k++) {
        scaled *c = &out->scales[k];
        c->front = h->net.front == VT_FRONT_SELF ? self[k][0] : mask[k][0];
        c->w1 = h->net.front == VT_FRONT_SELF ? self[k][1] : mask[k][1];
        memcpy(h->theta, theta, count * sizeof *theta);
        rescale_parameters(h->theta, &h->net, c->front, c->w1);
        vt_two_layer_loss_f64(NULL, NULL, g, h->x, NULL, h->theta, h->n, &h->net, h->work);
        for (size_t i = 0; i < outputs; i++) c->moved = fmax(c->moved, fabs(g[i] - f[i]));
        s = measure_sharpness(&c->s, h, p, seed, e);
    }
    memcpy(h->theta, theta, count * sizeof *theta);
    free(f);
    return s;
}

/* Trains a start keyed by lab seed and s->run in float, measures on x, y [samples] in double: sets out's test_error and
 * s; if `first` also the spectrum (not of self-attention) and scales (not of plain). */
static vt_status train_and_measure(trained *out, const vt_sgd *s, const double *x, const double *y, int samples,
                                   bool first, const job *j, vt_err *e) {
    size_t count = vt_two_layer_at(&s->net, VT_AT_END);
    hessian h = {.net = s->net, .x = x, .y = y, .n = samples, .lab = j->lab};
    void *block = NULL;
    vt_measure end;
    float *theta = vt_alloc(count * sizeof *theta);
    vt_status got = theta ? open_hessian(&h, &block, e) : vt_fail(e, VT_E_MEMORY, "no memory for a network");
    if (got == VT_OK) {
        vt_two_layer_init_f32(theta, &s->net, 1, j->lab->seed, s->run);
        got = vt_sgd_run(theta, NULL, s, j->lab, e);
    }
    if (got == VT_OK) got = vt_two_layer_measure(&end, &s->test, theta, &s->net, e);
    if (got == VT_OK) {
        out->test_error = end.error;
        for (size_t i = 0; i < count; i++) h.theta[i] = (double)theta[i];
        got = measure_sharpness(&out->s, &h, j->p, j->lab->seed, e);
    }
    if (got == VT_OK && first && s->net.front != VT_FRONT_SELF) got = compute_spectrum(out, &h, j->p, j->lab->seed, e);
    if (got == VT_OK && first && s->net.front != VT_FRONT_PLAIN) got = measure_rescaled(out, &h, j->p, j->lab->seed, e);
    free(theta);
    free(block);
    return got;
}

/* Theorem 4 for self-attention: fills j->self by training a student of eq. 3 on points of a teacher and measuring
 * it. */
static vt_status self_student(job *j, vt_err *e) {
    enum { TESTS = 1000 };
    int points = j->p->self_points;
    vt_two_layer net = {VT_FRONT_SELF, .in = 64, .hidden = 128, .out = 10, .tokens = 8, .d = 8};
    vt_teacher t;
    vt_lab own = *j->lab;
    own.threads = 1; /* this is one item of a parallel loop */
    VT_TRY(vt_teacher_open(&t, &net, net.in, 1, points, TESTS, 0, &own, e));
    double *x = vt_alloc((size_t)points * (size_t)(net.in + net.out) * sizeof *x), *y = x + points * net.in;
    vt_status s = x ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for %d points", points);
    if (s == VT_OK) {
        for (int i = 0; i < points * net.in; i++) x[i] = (double)t.x[i];
        for (int i = 0; i < points * net.out; i++) y[i] = (double)t.y[i];
        vt_sgd sgd = {.net = net,
                      .train = vt_teacher_train(&t, points),
                      .test = vt_teacher_test(&t),
                      .batch = 32,
                      .steps = j->p->self_steps,
                      .rate = 0.001};
        s = train_and_measure(&j->self, &sgd, x, y, points, true, j, e);
    }
    free(x);
    vt_teacher_close(&t);
    return s;
}

/* Work item: fills j->r[i], network i % NETS of run i / NETS; the last item is the self-attention student. */
static vt_status run_item(void *ctx, int thread, size_t i, vt_err *e) {
    (void)thread;
    job *j = ctx;
    const params *p = j->p;
    if ((int)i == NETS * p->runs) return self_student(j, e);
    vt_sgd s = {.net = {.front = i % NETS ? VT_FRONT_MASK : VT_FRONT_PLAIN,
                        .in = SIDE * SIDE,
                        .hidden = 16,
                        .out = 10,
                        .fit = VT_FIT_CLASSES},
                .train = {j->digits.x, j->digits.y, p->train},
                .test = {j->tests.x, j->tests.y, j->tests.n},
                .batch = 32,
                .steps = p->steps,
                .rate = p->rate,
                .run = (uint32_t)(i / NETS)};
    int samples = p->samples < p->train ? p->samples : p->train;
    return train_and_measure(&j->r[i], &s, j->x, j->y, samples, i < NETS, j, e);
}

/* Checks that all fits the memory, draws training and test pictures, and widens the first samples to double: sets j's
 * digits, tests, x and y. VT_E_MEMORY, VT_E_RANGE. */
static vt_status prepare_data(job *j, vt_err *e) {
    const params *p = j->p;
    enum { TESTS = 2000 };
    int samples = p->samples < p->train ? p->samples : p->train;
    vt_two_layer net = {VT_FRONT_MASK, .in = SIDE * SIDE, .hidden = 16, .out = 10};
    size_t one =
        hessian_bytes(&net, samples) + vt_lanczos_bytes(vt_two_layer_at(&net, VT_AT_END), &(vt_lanczos){.k = p->k});
    VT_TRY(vt_memory_check("the pictures and a Hessian's products for every thread",
                           vt_digits_bytes(SIDE, p->train + TESTS) + (size_t)j->lab->threads * one, e));
    VT_TRY(vt_digits_open(&j->digits, SIDE, p->s, 0, p->train, j->lab, e));
    VT_TRY(vt_digits_open(&j->tests, SIDE, p->s, p->train, TESTS, j->lab, e));
    size_t xs = (size_t)samples * SIDE * SIDE, ys = (size_t)samples * 10;
    j->x = vt_alloc((xs + ys) * sizeof *j->x);
    if (!j->x) return vt_fail(e, VT_E_MEMORY, "no memory for %d pictures in double", samples);
    j->y = j->x + xs;
    for (size_t i = 0; i < xs; i++) j->x[i] = (double)j->digits.x[i];
    for (size_t i = 0; i < ys; i++) j->y[i] = (double)j->digits.y[i];
    return VT_OK;
}

/* Prints chosen eigenvalues of the first run's two spectra. */
static void print_fig3(const job *j, FILE *out) {
    static const int rows[] = {1, 2, 3, 5, 10, 20, 50, 100, 200, 400};
    fprintf(out, "\nlargest eigenvalues of the Hessian, first run (Fig. 3)\n%6s %12s %12s\n", "i", "baseline",
            "attention");
    for (size_t k = 0; k < sizeof rows / sizeof *rows && rows[k] <= j->p->k; k++)
        fprintf(out, "%6d %12.5g %12.5g\n", rows[k], j->r[0].values[rows[k] - 1], j->r[1].values[rows[k] - 1]);
    fprintf(out, "of %d, %d and %d reached a residual of %g times the largest\n", j->p->k, j->r[0].converged,
            j->r[1].converged, j->p->tol);
}

/* Prints a line of sharpness for each run and network. */
static void print_runs(const job *j, FILE *out) {
    vt_columns c;
    fprintf(out,
            "\nby run: training loss, test error, largest eigenvalue, the same in relative coordinates, traces "
            "(Hutchinson, %d probes)\n",
            j->p->probes);
    vt_columns_titles(&c, "run\t-\tloss\terror %%\tlambda max\trelative\tleast\ttrace");
    for (int i = 0; i < NETS * j->p->runs; i++) {
        const trained *t = &j->r[i];
        vt_columns_cells(&c, "%d\t%s\t%.3g\t%.1f\t%.4g\t%.4g\t%.3g\t%.4g +- %6.2g", i / NETS,
                         i % NETS ? "attention" : "baseline", t->s.loss, 100 * t->test_error, t->s.largest,
                         t->s.relative, t->s.lowest, t->s.trace, t->s.trace_error);
    }
    vt_columns_end(&c, out, VT_LOOK_PAGE);
}

/* Prints a line for each change of scale: factors, change of outputs, eigenvalues and traces. */
static void print_theorem4(const trained *t, FILE *out, const char *title, const char *front) {
    vt_columns table;
    fprintf(out, "\n%s\n", title);
    vt_columns_titles(&table, "%s\tW1\tW2\toutputs moved\tlambda max\trelative\ttrace\trel. trace", front);
    for (int k = 0; k < SCALES; k++) {
        const scaled *c = &t->scales[k];
        vt_columns_cells(&table, "%g\t%g\t%g\t%.2g\t%.5g\t%.5g\t%.5g\t%.5g", c->front, c->w1, 1 / (c->front * c->w1),
                         c->moved, c->s.largest, c->s.relative, c->s.trace, c->s.relative_trace);
    }
    vt_columns_end(&table, out, VT_LOOK_PAGE);
}

/* JSON array of the changes of scale and what they do. */
static json_t *scales_json(const trained *t) {
    json_t *a = json_array();
    for (int k = 0; k < SCALES; k++)
        json_array_append_new(a, json_pack("{s:f,s:f,s:f,s:f,s:f}", "front", t->scales[k].front, "W1", t->scales[k].w1,
                                           "moved", t->scales[k].moved, "largest", t->scales[k].s.largest, "relative",
                                           t->scales[k].s.relative));
    return a;
}

/* Stores runs, spectra and changes of scale; VT_E_MEMORY. */
static vt_status store_results(const job *j, vt_err *e) {
    json_t *runs = json_array(), *spectra = json_object();
    for (int i = 0; i < NETS * j->p->runs; i++) {
        const trained *t = &j->r[i];
        json_array_append_new(runs, json_pack("{s:i,s:s,s:f,s:f,s:f,s:f,s:f,s:f}", "run", i / NETS, "net",
                                              i % NETS ? "attention" : "baseline", "loss", t->s.loss, "test_error",
                                              t->test_error, "largest", t->s.largest, "relative", t->s.relative,
                                              "trace", t->s.trace, "relative_trace", t->s.relative_trace));
        if (i >= NETS) continue;
        json_object_set_new(spectra, i ? "attention" : "baseline", vt_lab_numbers(t->values, (size_t)j->p->k));
    }
    VT_TRY(vt_lab_put(j->lab->json, "runs", runs, e));
    VT_TRY(vt_lab_put(j->lab->json, "spectra", spectra, e));
    VT_TRY(vt_lab_put(j->lab->json, "mask_rescaled", scales_json(&j->r[1]), e));
    return vt_lab_put(j->lab->json, "self_rescaled", scales_json(&j->self), e);
}

/* Figure: both spectra of the first run, eigenvalues (log) over their number. */
static void draw_spectra(vt_figure *f, const void *data) {
    const job *j = data;
    vt_figure_panel(f, &(vt_panel){.x = "number of the eigenvalue", .y = "eigenvalue", .kind = VT_LOG_Y});
    for (int net = 0; net < NETS; net++) {
        vt_figure_series(f, VT_LINE | VT_MARKS, net ? "attention" : "baseline");
        for (int k = 0; k < j->p->k; k++) vt_figure_point(f, k + 1, j->r[net].values[k]);
    }
}

/* Claims Theorem 4: supported if outputs stay within 1e-9 while the largest raw eigenvalue changes more than twofold.
 */
static vt_status claim_theorem4(const trained *t, const char *claim, vt_lab *lab, vt_err *e) {
    double least = INFINITY, most = 0, moved = 0, drift = 0;
    for (int k = 0; k < SCALES; k++) {
        least = fmin(least, t->scales[k].s.largest), most = fmax(most, t->scales[k].s.largest);
        moved = fmax(moved, t->scales[k].moved);
        drift = fmax(drift, fabs(t->scales[k].s.relative / t->scales[0].s.relative - 1));
    }
    return vt_lab_claim(lab, moved < 1e-9 && most > 2 * least ? VT_SUPPORTED : VT_CONTRADICTED, claim, e,
                        "outputs move by %.1g, lambda max from %.4g to %.4g; in relative coordinates by %.1g of itself",
                        moved, least, most, drift);
}

/* Judges Fig. 3 (flatter with attention) and Theorem 4 for both networks. */
static vt_status record_claims(const job *j, vt_err *e) {
    int raw = 0, relative = 0, values = 0, all = j->p->runs;
    for (int i = 0; i < all; i++) {
        raw += j->r[2 * i + 1].s.largest < j->r[2 * i].s.largest;
        relative += j->r[2 * i + 1].s.relative < j->r[2 * i].s.relative;
    }
    for (int k = 0; k < j->p->k; k++) values += j->r[1].values[k] < j->r[0].values[k];
    vt_finding f = raw < (all + 1) / 2 ? VT_CONTRADICTED : raw == all && relative == all ? VT_SUPPORTED : VT_WEAKENED;
    VT_TRY(vt_lab_claim(j->lab, f, "Fig. 3: with attention the minimum is flatter", e,
                        "largest eigenvalue lower in %d of %d runs (first: %.4g against %.4g; %d of %d eigenvalues "
                        "lower), in relative coordinates in %d of %d",
                        raw, all, j->r[1].s.largest, j->r[0].s.largest, values, j->p->k, relative, all));
    VT_TRY(claim_theorem4(&j->r[1], "Theorem 4: (a, W1, W2) may be rescaled to any lambda max", j->lab, e));
    return claim_theorem4(&j->self, "Theorem 4 for self-attention: (alpha W1, W2 / alpha)", j->lab, e);
}

/* Prints all tables, stores, draws and judges. */
static vt_status report_results(job *j, vt_err *e) {
    FILE *out = j->lab->out;
    vt_two_layer net = {VT_FRONT_PLAIN, .in = SIDE * SIDE, .hidden = 16, .out = 10};
    fprintf(out, "576-16-10, ReLU, cross-entropy; parameters: %zu baseline, %zu with attention\n",
            vt_two_layer_at(&net, VT_AT_END), vt_two_layer_at(&net, VT_AT_END) + SIDE * SIDE);
    fprintf(out, "a digit of %d x %d in 24 x 24; SGD, %d steps of 32 pictures of %d, rate %g; Hessian of %d pictures\n",
            j->p->s, j->p->s, j->p->steps, j->p->train, j->p->rate,
            j->p->samples < j->p->train ? j->p->samples : j->p->train);
    print_fig3(j, out);
    print_runs(j, out);
    print_theorem4(&j->r[1], out, "Theorem 4, first run with attention: factors of a, W1 (and b1), W2", "a");
    print_theorem4(&j->self, out, "Theorem 4 for self-attention (8 tokens of 8, eq. 3): factors of W1 (and b1), W2",
                   "front");
    VT_TRY(store_results(j, e));
    VT_TRY(vt_lab_figure(j->lab, "flatness", "Largest eigenvalues of the Hessian", draw_spectra, j, e));
    return record_claims(j, e);
}

static vt_status run(const void *params_, vt_lab *lab, vt_err *e) {
    job *j = calloc(1, sizeof *j);
    if (!j) return vt_fail(e, VT_E_MEMORY, "no memory for the lab");
    j->p = params_, j->lab = lab;
    vt_blas_single_thread();
    vt_status s = prepare_data(j, e);
    if (s == VT_OK) s = vt_lab_for_each(lab, "networks", (size_t)(NETS * j->p->runs + 1), run_item, j, e);
    if (s == VT_OK) s = report_results(j, e);
    vt_digits_close(&j->digits);
    vt_digits_close(&j->tests);
    free(j->x);
    free(j);
    return s;
}

const vt_lab_def vt_lab_def_flatness = {
    .name = "flatness",
    .summary = "how sharp the minima of a network with attention are, and what the number is worth",
    .source = "Understanding Attention Mechanisms, Fig. 3, Theorem 4",
    .opts = opts,
    .params_size = sizeof(params),
    .run = run,
};
