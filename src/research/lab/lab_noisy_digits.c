/* SPDX-License-Identifier: MIT */
/* lab noisy-digits: a small digit in a noisy picture, with a mask and without. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "linalg/gemm.h"
#include "base/mem.h"
#include "research/lab/digits.h"
#include "research/lab/teacher.h"

/* UAM's NoisyMNIST, Figs. 2 and 4 to 6: a small digit at a fixed place of a noisy picture, classified by a two-layer
 * network with a mask and without. digits.c draws the digits, or reads those of --digits. And Fig. 7: the curves of
 * Table 1's students. */

enum { MARKS = 10, SIZES = 3, RATES = 2, NETS = 2, RUNS = SIZES * RATES * NETS, STUDENTS = 3 };

typedef struct params {
    bool full;
    int s, side, train, test, steps, hidden, batch, fig7;
    double rate;
    char digits[1024];
} params;

static const vt_opt opts[] = {
    VT_OPT_B("full", params, full,
             "40,000 steps on 20,000 pictures, Fig. 7 with 400,000 steps, instead of the two-minute version", 0),
    VT_OPT_S("digits", params, digits, "folder with MNIST's four idx files, whose digits to take; drawn: draw them",
             "drawn"),
    VT_OPT_I("s", params, s, "side of the digit; 0: 5, 8 and 15", 0, 0, 64),
    VT_OPT_R("rate", params, rate, "learning rate; 0: 0.001 and 0.005", 0, 0, 10),
    VT_OPT_I("side", params, side, "side of the picture", 48, 4, 256),
    VT_OPT_I("train", params, train, "pictures to train on; 0: 5000, with full 20000", 0, 0, 1e6),
    VT_OPT_I("test", params, test, "pictures to test on", 2000, 1, 1e6),
    VT_OPT_I("steps", params, steps, "SGD steps; 0: 3000, with full 40000", 0, 0, 1e8),
    VT_OPT_I("hidden", params, hidden, "units", 128, 1, 10000),
    VT_OPT_I("batch", params, batch, "pictures in a step", 32, 1, 10000),
    VT_OPT_I("fig7", params, fig7,
             "SGD steps of Fig. 7's students at n = 10,000; 0: 20000, with full 400000; -1: leave it out", 0, -1, 1e8),
    VT_OPT_END,
};

typedef struct result {
    vt_measure curve[MARKS][2];
    double inside;  /* share of the energy of the weights on pixels, a_i^2 sum_j W1_ji^2, within the digit */
    double on, off; /* mean |a| within the digit and outside */
} result;

typedef struct plan {
    const params *p;
    vt_lab *lab;
    int sizes[SIZES], n_sizes, n_rates, train, steps, fig7;
    double rates[RATES];
    vt_two_layer net;
    vt_digits digits[SIZES], tests[SIZES];
    result r[RUNS];
    vt_measure fig7_curve[STUDENTS][MARKS][2];
    vt_teacher teacher;
    char hash[2][65]; /* of the digits' training and test split; "": drawn */
} plan;

static const char *const net_names[NETS] = {"baseline", "attention"};
static const struct {
    const char *name;
    vt_front front;
    double l1;
} students[STUDENTS] = {{"baseline", VT_FRONT_PLAIN, 0},
                        {"attention", VT_FRONT_MASK, 0},
                        {"attention L1", VT_FRONT_MASK, 0.05}};

/* Networks on noisy digits, without Fig. 7's students. */
static int run_count(const plan *j) { return j->n_sizes * j->n_rates * NETS; }
/* The result of digit size, rate and net, by index. */
static result *result_at(plan *j, int size, int rate, int net) {
    return &j->r[(size * j->n_rates + rate) * NETS + net];
}

/* Sets inside, on and off (both 0 before): where the first layer's energy and the mask lie; without a mask |a| is 1. */
static void measure_weights(result *out, const float *theta, const vt_two_layer *n, const vt_digits *d) {
    const float *w1 = theta + vt_two_layer_at(n, VT_AT_W1);
    double in = 0, all = 0;
    int inside = d->s * d->s;
    for (int i = 0; i < n->in; i++) {
        double a = n->front == VT_FRONT_MASK ? (double)theta[i] : 1, sum = 0;
        for (int j = 0; j < n->hidden; j++) sum += pow(a * (double)w1[(size_t)j * (size_t)n->in + (size_t)i], 2);
        all += sum;
        if (vt_digits_inside(d, i))
            in += sum, out->on += fabs(a) / inside;
        else
            out->off += fabs(a) / (n->in - inside);
    }
    out->inside = in / all;
}

/* Trains network `item` on its digits' size and rate, from a start keyed by the lab's seed: sets j->r[item], curve and
 * weights. VT_INTERRUPTED, VT_E_NUMERIC. */
static vt_status train_network(plan *j, int item, vt_err *e) {
    int net = item % NETS, rate = item / NETS % j->n_rates, size = item / NETS / j->n_rates;
    vt_sgd s = {.net = j->net,
                .train = {j->digits[size].x, j->digits[size].y, j->train},
                .test = {j->tests[size].x, j->tests[size].y, j->p->test},
                .batch = j->p->batch,
                .steps = j->steps,
                .rate = j->rates[rate],
                .marks = MARKS};
    s.net.front = net ? VT_FRONT_MASK : VT_FRONT_PLAIN;
    float *theta = vt_alloc(vt_two_layer_at(&s.net, VT_AT_END) * sizeof *theta);
    if (!theta) return vt_fail(e, VT_E_MEMORY, "no memory for a network");
    vt_two_layer_init_f32(theta, &s.net, 1, j->lab->seed, 0);
    vt_status got = vt_sgd_run(theta, j->r[item].curve, &s, j->lab, e);
    if (got == VT_OK) measure_weights(&j->r[item], theta, &s.net, &j->digits[size]);
    free(theta);
    return got;
}

/* Trains student k of Fig. 7 on 10,000 points of the teacher, from a start keyed by the lab's seed: sets
 * j->fig7_curve[k]. VT_INTERRUPTED, VT_E_NUMERIC. */
static vt_status train_fig7_student(plan *j, int k, vt_err *e) {
    vt_sgd s = {.net = j->teacher.net,
                .train = vt_teacher_train(&j->teacher, 10000),
                .test = vt_teacher_test(&j->teacher),
                .batch = 32,
                .steps = j->fig7,
                .rate = 0.001,
                .l1 = students[k].l1,
                .marks = MARKS};
    s.net.front = students[k].front;
    float *theta = vt_alloc(vt_two_layer_at(&s.net, VT_AT_END) * sizeof *theta);
    if (!theta) return vt_fail(e, VT_E_MEMORY, "no memory for a network");
    vt_two_layer_init_f32(theta, &s.net, 1, j->lab->seed, 0);
    vt_status got = vt_sgd_run(theta, j->fig7_curve[k], &s, j->lab, e);
    free(theta);
    return got;
}

/* Work item: a network on noisy digits, or after them a student of Fig. 7. */
static vt_status run_item(void *ctx, int thread, size_t i, vt_err *e) {
    (void)thread;
    plan *j = ctx;
    return (int)i < run_count(j) ? train_network(j, (int)i, e) : train_fig7_student(j, (int)i - run_count(j), e);
}

/* Draws or reads the training and test pictures with digits of size k: sets j's digits[k], tests[k] and, if they are
 * read, hash. */
static vt_status open_pictures(plan *j, int k, vt_err *e) {
    const params *p = j->p;
    vt_digits *train = &j->digits[k], *test = &j->tests[k];
    int s = j->sizes[k];
    if (!strcmp(p->digits, "drawn")) {
        VT_TRY(vt_digits_open(train, p->side, s, 0, j->train, j->lab, e));
        return vt_digits_open(test, p->side, s, j->train, p->test, j->lab, e);
    }
    VT_TRY(vt_digits_read(train, p->side, s, p->digits, VT_SPLIT_TRAIN, j->train, j->lab, j->hash[0], e));
    return vt_digits_read(test, p->side, s, p->digits, VT_SPLIT_TEST, p->test, j->lab, j->hash[1], e);
}

/* Sets all of *j but results: settles sizes, rates and steps from the options, checks that all fits the memory, opens
 * pictures and (unless fig7 is -1) the teacher. */
static vt_status prepare_plan(plan *j, const params *p, vt_lab *lab, vt_err *e) {
    static const int sizes[SIZES] = {5, 8, 15};
    *j = (plan){.p = p, .lab = lab, .n_sizes = p->s ? 1 : SIZES, .n_rates = p->rate > 0 ? 1 : RATES};
    for (int k = 0; k < j->n_sizes; k++) j->sizes[k] = p->s ? p->s : sizes[k];
    j->rates[0] = p->rate > 0 ? p->rate : 0.001, j->rates[1] = 0.005;
    j->train = p->train ? p->train : p->full ? 20000 : 5000;
    j->steps = p->steps ? p->steps : p->full ? 40000 : 3000;
    j->fig7 = p->fig7 ? p->fig7 : p->full ? 400000 : 20000;
    j->net =
        (vt_two_layer){VT_FRONT_PLAIN, .in = p->side * p->side, .hidden = p->hidden, .out = 10, .fit = VT_FIT_CLASSES};
    vt_two_layer with = j->net;
    with.front = VT_FRONT_MASK;
    size_t net = sizeof(float) * (2 * vt_two_layer_at(&with, VT_AT_END) + vt_two_layer_work_f32(&with, p->batch, 0));
    size_t bytes = (size_t)j->n_sizes * vt_digits_bytes(p->side, j->train + p->test) + (size_t)lab->threads * net;
    VT_TRY(vt_memory_check("the pictures, and a network for every thread,", bytes, e));
    for (int k = 0; k < j->n_sizes; k++) VT_TRY(open_pictures(j, k, e));
    vt_two_layer table1 = {VT_FRONT_MASK, .in = 256, .hidden = 128, .out = 10};
    return j->fig7 < 0 ? VT_OK : vt_teacher_open(&j->teacher, &table1, 32, 2, 10000, 5000, 0, lab, e);
}

/* Prints a digit size's test loss and error over steps by rate and net, then training loss and weights. */
static void print_curves(plan *j, int size, FILE *out) {
    int s = j->sizes[size];
    char titles[200] = "steps";
    vt_columns t;
    fprintf(out, "\ndigit of %d x %d in %d x %d, test loss and error in %% (Figs. 2, 4 to 6)\n", s, s, j->p->side,
            j->p->side);
    fprintf(out, "last row: share of the first layer's energy on the digit (evenly %.1f %%), mean |a| on it, off it\n",
            100.0 * s * s / (j->p->side * j->p->side));
    for (int r = 0; r < j->n_rates; r++)
        for (int n = 0; n < NETS; n++) vt_text_item(titles, sizeof titles, "\t", "%s %g", net_names[n], j->rates[r]);
    vt_columns_titles(&t, "%s", titles);
    for (int m = 0; m < MARKS + 2; m++) {
        vt_columns_cell(&t, m < MARKS ? "%lld" : m == MARKS ? "training" : "", (long long)j->steps * (m + 1) / MARKS);
        for (int i = 0; i < j->n_rates * NETS; i++) {
            const result *x = result_at(j, size, i / NETS, i % NETS);
            const vt_measure *y = m < MARKS ? &x->curve[m][1] : &x->curve[MARKS - 1][0];
            if (m <= MARKS)
                vt_columns_cell(&t, "%.4f %6.1f", y->loss, 100 * y->error);
            else
                vt_columns_cell(&t, "%.1f %% %.2f %.2f", 100 * x->inside, x->on, x->off);
        }
    }
    vt_columns_end(&t, out, VT_LOOK_PAGE);
}

/* Prints test errors of Fig. 7's students over steps. */
static void print_fig7(const plan *j, FILE *out) {
    fprintf(out,
            "\nFig. 7: test error of Table 1's students at n = 10,000 along the training (lab sample-complexity)\n");
    fprintf(out, "%8s %14s %14s %14s\n", "steps", students[0].name, students[1].name, students[2].name);
    for (int m = 0; m < MARKS; m++) {
        fprintf(out, "%8lld", (long long)j->fig7 * (m + 1) / MARKS);
        for (int k = 0; k < STUDENTS; k++) fprintf(out, " %14.4f", j->fig7_curve[k][m][1].error);
        fprintf(out, "\n");
    }
}

/* Stores runs, hashes of read digits and Fig. 7's curves; VT_E_MEMORY. */
static vt_status store_results(plan *j, vt_err *e) {
    json_t *all = json_array();
    for (int i = 0; i < run_count(j); i++) {
        json_t *loss = json_array(), *error = json_array();
        for (int m = 0; m < MARKS; m++) {
            json_array_append_new(loss, json_real(j->r[i].curve[m][1].loss));
            json_array_append_new(error, json_real(j->r[i].curve[m][1].error));
        }
        json_array_append_new(all, json_pack("{s:i,s:f,s:s,s:o,s:o,s:f,s:f,s:f,s:f}", "s",
                                             j->sizes[i / NETS / j->n_rates], "rate", j->rates[i / NETS % j->n_rates],
                                             "net", net_names[i % NETS], "test_loss", loss, "test_error", error,
                                             "train_loss", j->r[i].curve[MARKS - 1][0].loss, "digit_share",
                                             j->r[i].inside, "mask_on", j->r[i].on, "mask_off", j->r[i].off));
    }
    VT_TRY(vt_lab_put(j->lab->json, "runs", all, e));
    if (*j->hash[0]) VT_TRY(vt_lab_put(j->lab->json, "digits_sha256", json_pack("[ss]", j->hash[0], j->hash[1]), e));
    json_t *seven = json_object();
    for (int k = 0; k < STUDENTS && j->fig7 > 0; k++) {
        json_t *a = json_array();
        for (int m = 0; m < MARKS; m++) json_array_append_new(a, json_real(j->fig7_curve[k][m][1].error));
        json_object_set_new(seven, students[k].name, a);
    }
    return vt_lab_put(j->lab->json, "fig7", seven, e);
}

/* Figure: test loss over steps, a panel for each size of digit, a curve for each rate and net. */
static void draw_losses(vt_figure *f, const void *data) {
    const plan *j = data;
    for (int s = 0; s < j->n_sizes; s++) {
        vt_panel panel = {.x = "steps"};
        snprintf(panel.title, sizeof panel.title, "s = %d, test loss", j->sizes[s]);
        vt_figure_panel(f, &panel);
        for (int k = 0; k < j->n_rates * NETS; k++) {
            vt_figure_series(f, VT_LINE | VT_MARKS, "%s %g", net_names[k % NETS], j->rates[k / NETS]);
            for (int m = 0; m < MARKS; m++)
                vt_figure_point(f, (double)j->steps * (m + 1) / MARKS,
                                j->r[s * j->n_rates * NETS + k].curve[m][1].loss);
        }
    }
}

/* Judges the test errors, the losses along the training, what the mask finds, and Fig. 7's order. */
static vt_status record_claims(plan *j, vt_err *e) {
    int lower = 0, sooner = 0, finds = 0, all = j->n_sizes * j->n_rates;
    double ratio = 0;
    for (int s = 0; s < j->n_sizes; s++)
        for (int r = 0; r < j->n_rates; r++) {
            const result *base = result_at(j, s, r, 0), *with = result_at(j, s, r, 1);
            int ahead = 0;
            lower += with->curve[MARKS - 1][1].error < base->curve[MARKS - 1][1].error;
            for (int m = 0; m < MARKS; m++) ahead += with->curve[m][1].loss < base->curve[m][1].loss;
            sooner += ahead == MARKS;
            finds += with->inside > base->inside;
            ratio = fmax(ratio, with->on / with->off);
        }
    const result *base = result_at(j, 0, 0, 0), *with = result_at(j, 0, 0, 1);
    VT_TRY(vt_lab_claim(j->lab, vt_lab_by_count(lower, all),
                        "Figs. 2, 4 to 6: attention ends with the lower test error", e,
                        "in %d of %d settings; s = %d, rate %g: %.1f %% against %.1f %%", lower, all, j->sizes[0],
                        j->rates[0], 100 * with->curve[MARKS - 1][1].error, 100 * base->curve[MARKS - 1][1].error));
    VT_TRY(vt_lab_claim(j->lab, vt_lab_by_count(sooner, all), "Figs. 2, 4 to 6: its test loss is lower all along", e,
                        "at all %d marks in %d of %d settings", MARKS, sooner, all));
    VT_TRY(vt_lab_claim(j->lab,
                        ratio > 2 ? vt_lab_by_count(finds, all)
                        : finds   ? VT_WEAKENED
                                  : VT_CONTRADICTED,
                        "the mask finds the digit", e,
                        "more of the first layer's energy on it in %d of %d settings; mean |a| on it at most %.2f "
                        "times that off it",
                        finds, all, ratio));
    if (j->fig7 < 0) return VT_OK;
    int good = 0;
    for (int m = 0; m < MARKS; m++)
        good += j->fig7_curve[1][m][1].error < j->fig7_curve[0][m][1].error &&
                j->fig7_curve[2][m][1].error < j->fig7_curve[1][m][1].error;
    return vt_lab_claim(j->lab, vt_lab_by_count(good, MARKS),
                        "Fig. 7: baseline, attention, regularised lie in this order", e, "at %d of %d marks", good,
                        MARKS);
}

static vt_status run(const void *params_, vt_lab *lab, vt_err *e) {
    plan *j = calloc(1, sizeof *j);
    if (!j) return vt_fail(e, VT_E_MEMORY, "no memory for the lab");
    vt_blas_single_thread();
    vt_status s = prepare_plan(j, params_, lab, e);
    size_t count = s == VT_OK ? (size_t)(run_count(j) + (j->fig7 > 0 ? STUDENTS : 0)) : 0;
    if (s == VT_OK) {
        vt_two_layer with = j->net;
        with.front = VT_FRONT_MASK;
        fprintf(lab->out, "%d-%d-10, ReLU, cross-entropy; parameters: %zu baseline, %zu with attention\n", j->net.in,
                j->net.hidden, vt_two_layer_at(&j->net, VT_AT_END), vt_two_layer_at(&with, VT_AT_END));
        fprintf(lab->out, "SGD, %d steps of %d pictures; %d to train on, %d to test on\n", j->steps, j->p->batch,
                j->train, j->p->test);
        s = vt_lab_for_each(lab, "networks", count, run_item, j, e);
    }
    if (s == VT_OK) {
        for (int k = 0; k < j->n_sizes; k++) print_curves(j, k, lab->out);
        if (j->fig7 > 0) print_fig7(j, lab->out);
        s = store_results(j, e);
    }
    if (s == VT_OK) s = vt_lab_figure(lab, "noisy-digits", "Test loss on noisy digits", draw_losses, j, e);
    if (s == VT_OK) s = record_claims(j, e);
    for (int k = 0; k < SIZES; k++) vt_digits_close(&j->digits[k]), vt_digits_close(&j->tests[k]);
    vt_teacher_close(&j->teacher);
    free(j);
    return s;
}

const vt_lab_def vt_lab_def_noisy_digits = {
    .name = "noisy-digits",
    .summary = "a small digit in a noisy picture, with a mask and without",
    .source = "Understanding Attention Mechanisms, Figs. 2, 4 to 6 (NoisyMNIST) and 7",
    .opts = opts,
    .params_size = sizeof(params),
    .run = run,
};
