/* SPDX-License-Identifier: MIT */
/* S3: the linear case, of Sun, Ahn, Thrampoulidis and Azizan ("Mirror descent maximizes generalized margin and can be
 * implemented efficiently", arXiv 2205.12808): descent with exponent p on separable data tends to the largest l_p
 * margin. Every run is judged by every margin; the largest of each column must stand on the diagonal.
 *
 * exp loss, whose normalised gradient is -sum_i a_i y_i x_i / |.|_q with a = softmax(-y_i w^T x_i): weights formed from
 * differences of exponents stay right when the loss itself underflows (|w| grows like k^(1/(p-1)): k^10 at p = 1.1). */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/rand.h"
#include "research/lab/attgd_lab.h"
#include "research/lab/attsvm.h"

enum { RUNS = 5, POINTS = 60, DIM = 200, ACTIVE = 5, STEPS = 40000, QUICK_STEPS = 8000 };
static const double ps[RUNS] = {1.1, 1.25, 1.5, 2, 3};
static const double eta = 0.02, start_scale = 0.01;

typedef struct job {
    vt_lab *lab;
    int steps;
    double rows[POINTS * DIM];    /* y_i x_i */
    double margin[RUNS][RUNS];    /* [run][margin of exponent] */
    double best[RUNS], gap[RUNS]; /* what the machine reaches */
    double sparsity[RUNS];
} job;

/* Draws rows [POINTS, DIM] = y_i x_i: x normal, y the sign of a teacher that sees 5 of 200 coordinates; all keyed by
 * the lab's seed. */
static void draw_data(job *j) {
    float f[POINTS * DIM];
    float teacher[ACTIVE];
    vt_rng r = {.seed = j->lab->seed, .purpose = vt_rng_purpose("lab attgd margin")};
    vt_rng_normals(&r, f, POINTS * DIM);
    r.step = 1;
    vt_rng_normals(&r, teacher, ACTIVE);
    for (int i = 0; i < POINTS; i++) {
        double score = 0;
        for (int k = 0; k < ACTIVE; k++) score += (double)teacher[k] * (double)f[i * DIM + k];
        for (int k = 0; k < DIM; k++) j->rows[i * DIM + k] = (score < 0 ? -1 : 1) * (double)f[i * DIM + k];
    }
}

/* out [POINTS] = y_i w^T x_i; returns the smallest. */
static double compute_margins(const job *j, const double *w, double *out) {
    double least = INFINITY;
    for (int i = 0; i < POINTS; i++) {
        double s = 0;
        for (int k = 0; k < DIM; k++) s += j->rows[i * DIM + k] * w[k];
        out[i] = s;
        least = fmin(least, s);
    }
    return least;
}

/* g [DIM] = -sum_i a_i y_i x_i, a = softmax(-y_i w^T x_i): the gradient of the log of the exp loss. */
static void compute_gradient(const job *j, const double *w, double *g) {
    double m[POINTS], least = compute_margins(j, w, m), sum = 0;
    for (int i = 0; i < POINTS; i++) sum += m[i] = exp(least - m[i]);
    memset(g, 0, DIM * sizeof *g);
    for (int i = 0; i < POINTS; i++)
        for (int k = 0; k < DIM; k++) g[k] -= m[i] / sum * j->rows[i * DIM + k];
}

/* Work item: the whole descent with exponent ps[item] from a start keyed by the lab's seed alone; sets the item's
 * margins by every exponent, sparsity, and the machine's best and gap. VT_INTERRUPTED, VT_E_NUMERIC. */
static vt_status run_exponent(void *ctx, int thread, size_t item, vt_err *e) {
    (void)thread;
    job *j = ctx;
    vt_mirror m = {.p = ps[item], .eta = eta, .normalised = true};
    double w[DIM], theta[DIM], g[DIM], unused[POINTS];
    float start[DIM];
    vt_svm svm;
    vt_rng r = {.seed = j->lab->seed, .purpose = vt_rng_purpose("lab attgd margin"), .step = 2};
    vt_rng_normals(&r, start, DIM);
    for (int k = 0; k < DIM; k++) w[k] = start_scale * (double)start[k];
    vt_lp_power(theta, w, DIM, m.p - 1);
    for (int k = 0; k < j->steps; k++) {
        if (k % 1000 == 0) VT_TRY(vt_lab_alive(j->lab, e));
        compute_gradient(j, w, g);
        vt_mirror_step(&m, theta, w, g, DIM);
    }
    double least = compute_margins(j, w, unused);
    for (int k = 0; k < RUNS; k++) j->margin[item][k] = least / vt_lp_norm(w, DIM, ps[k]);
    j->sparsity[item] = vt_lp_sparsity(w, DIM);
    VT_TRY(vt_svm_solve(w, NULL, &svm, j->rows, POINTS, DIM, ps[item], e));
    j->best[item] = 1 / svm.norm, j->gap[item] = svm.gap;
    return VT_OK;
}

/* Runs whose own margin is not above every other run's; 0: the ordering holds. */
static int count_out_of_order(const job *j) {
    int n = 0;
    for (int k = 0; k < RUNS; k++) {
        bool beaten = false;
        for (int i = 0; i < RUNS; i++) beaten = beaten || (i != k && !(j->margin[k][k] > j->margin[i][k]));
        n += beaten;
    }
    return n;
}

/* Prints margins by run and exponent, and what the machines reach. */
static void print_all(FILE *f, const job *j) {
    char titles[100] = "-descent";
    vt_columns t;
    fprintf(f,
            "\n== margin: the claim of Sun et al. (2022) for linear models; %d points in %d dimensions, %d steps of %g "
            "==\n",
            POINTS, DIM, j->steps, eta);
    fprintf(f, "l_p margin min_i y_i w^T x_i / |w|_p; * the largest of its column\n");
    for (int k = 0; k < RUNS; k++) vt_text_item(titles, sizeof titles, "\t", "l_%.3g", ps[k]);
    vt_columns_titles(&t, "%s\tsparsity (Hoyer)", titles);
    for (int i = 0; i < RUNS; i++) {
        vt_columns_cell(&t, "p = %.3g", ps[i]);
        for (int k = 0; k < RUNS; k++) {
            bool most = true;
            for (int r = 0; r < RUNS; r++) most = most && (r == i || j->margin[i][k] > j->margin[r][k]);
            vt_columns_cell(&t, "%.4f%s", j->margin[i][k], most ? "*" : " ");
        }
        vt_columns_cell(&t, "%.3f", j->sparsity[i]);
    }
    for (int row = 0; row < 3; row++) {
        vt_columns_cell(&t, "%s", row == 0 ? "l_p-SVM" : row == 1 ? "duality gap" : "reached");
        for (int k = 0; k < RUNS; k++)
            vt_columns_cell(&t,
                            row == 0   ? "%.4f "
                            : row == 1 ? "%.1e "
                                       : "%.3f %%",
                            row == 0   ? j->best[k]
                            : row == 1 ? j->gap[k]
                                       : 100 * j->margin[k][k] / j->best[k]);
        vt_columns_cell(&t, "%s", "");
    }
    vt_columns_end(&t, f, VT_LOOK_PAGE);
}

/* Stores all as "margin"; VT_E_MEMORY. */
static vt_status store_results(const job *j, vt_err *e) {
    json_t *m = json_array();
    for (int i = 0; i < RUNS; i++) json_array_append_new(m, vt_lab_numbers(j->margin[i], RUNS));
    json_t *o = json_pack("{s:i,s:o,s:o,s:o,s:o,s:o}", "steps", j->steps, "p", vt_lab_numbers(ps, RUNS), "margin", m,
                          "largest_margin", vt_lab_numbers(j->best, RUNS), "duality_gap", vt_lab_numbers(j->gap, RUNS),
                          "sparsity", vt_lab_numbers(j->sparsity, RUNS));
    return vt_lab_put(j->lab->json, "margin", o, e);
}

/* Judges the ordering of margins and that sparsity falls with p. */
static vt_status record_claims(const job *j, vt_err *e) {
    double least = 1;
    bool sparser = true;
    for (int k = 0; k < RUNS; k++) least = fmin(least, j->margin[k][k] / j->best[k]);
    for (int k = 1; k < RUNS; k++) sparser = sparser && j->sparsity[k - 1] > j->sparsity[k];
    int wrong = count_out_of_order(j);
    VT_TRY(vt_lab_claim(j->lab, wrong ? VT_CONTRADICTED : VT_SUPPORTED,
                        "linear models (Sun et al.): descent with p has the largest l_p margin", e,
                        "%d of %d columns are largest on the diagonal, which reaches at least %.2f %% of the machine's "
                        "margin",
                        RUNS - wrong, RUNS, 100 * least));
    return vt_lab_claim(j->lab, sparser ? VT_SUPPORTED : VT_CONTRADICTED, "smaller p gives sparser solutions", e,
                        "Hoyer sparsity %.3f at p = 1.1, %.3f at 2, %.3f at 3", j->sparsity[0], j->sparsity[3],
                        j->sparsity[4]);
}

vt_status vt_attgd_margin(const vt_attgd_options *o, vt_lab *lab, vt_err *e) {
    job *j = calloc(1, sizeof *j);
    if (!j) return vt_fail(e, VT_E_MEMORY, "lab attgd: no memory for the margin part");
    j->lab = lab, j->steps = o->quick ? QUICK_STEPS : STEPS;
    draw_data(j);
    vt_status s = vt_lab_for_each(lab, "margin", RUNS, run_exponent, j, e);
    if (s == VT_OK) print_all(lab->out, j);
    if (s == VT_OK) s = store_results(j, e);
    if (s == VT_OK) s = record_claims(j, e);
    free(j);
    return s;
}
