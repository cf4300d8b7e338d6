/* SPDX-License-Identifier: MIT */
/* S1: random problems, the decoder v fixed, W from a random start. Where descent with exponent p goes is compared with
 * the l_p' support vector machines, in D_psi of the path's own p, in two ways: as the released code does it, with the
 * machine of another run (whose start, and so whose tokens, differ), and for the tokens that the path itself selects.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/rand.h"
#include "research/lab/attgd_lab.h"
#include "research/lab/attsvm.h"

enum { SAMPLES = 6, TOKENS = 8, WIDTH = 10, SIZE = WIDTH * WIDTH, PATHS = VT_ATTGD_PATHS, MARKS = 24 };

/* What one random problem gives; [path] or [path][machine]. */
typedef struct trial {
    double other[PATHS][PATHS], same[PATHS][PATHS], curve[PATHS][PATHS][MARKS];
    double norm[PATHS], most[PATHS], gap; /* |W|_p, mean of the largest attention, worst duality gap */
    /* shares: of samples whose token has the best score; 1 if all tokens are locally optimal; of samples whose token
     * two paths share. stall: the first step after which |g|_q stays below the floor */
    double best[PATHS], local[PATHS], agree[PATHS][PATHS], stall[PATHS];
    int alpha[PATHS][SAMPLES];
    double w[PATHS][SIZE], mm[PATHS][SIZE]; /* the end; the machine of the path's own p and tokens */
} trial;

typedef struct job {
    const vt_attgd_options *o;
    vt_lab *lab;
    trial *trials;
} job;

/* Step at which a path's curve is kept, k = 0 to MARKS - 1: geometric, the last is the end. */
static int step_of_mark(int path, int k) {
    double steps = vt_attgd_paths[path].steps;
    return (int)lrint(pow(steps, (k + 1.0) / MARKS));
}

/* Sets out [n] to normals keyed by r, with `step` in place of its own. */
static void draw_normals(double *out, size_t n, const vt_rng *r, uint32_t step) {
    float f[SAMPLES * TOKENS * WIDTH];
    vt_rng key = *r;
    key.step = step;
    vt_rng_normals(&key, f, n);
    for (size_t i = 0; i < n; i++) out[i] = (double)f[i];
}

/* x /= |x|_2 */
static void normalise_vector(double *x, size_t n) {
    double norm = vt_lp_norm(x, n, 2);
    for (size_t i = 0; i < n; i++) x[i] /= norm;
}

/* Draws a's X_it, z_i and v, normals (of key r at steps 0, 1 and 2) brought to length 1, and y_i, the signs of normals
 * at step 3. */
static void draw_problem(vt_att *a, const vt_rng *r) {
    draw_normals(a->x, SAMPLES * TOKENS * WIDTH, r, 0), draw_normals(a->z, SAMPLES * WIDTH, r, 1);
    draw_normals(a->v, WIDTH, r, 2), draw_normals(a->y, SAMPLES, r, 3);
    for (int k = 0; k < SAMPLES * TOKENS; k++) normalise_vector(a->x + k * WIDTH, WIDTH);
    for (int i = 0; i < SAMPLES; i++) normalise_vector(a->z + i * WIDTH, WIDTH), a->y[i] = a->y[i] < 0 ? -1 : 1;
    normalise_vector(a->v, WIDTH);
}

/* Takes the whole descent of a path, to t->w and stall, from normals keyed by r and the path; marks [MARKS, SIZE]: W at
 * the marks. */
static void run_descent(trial *t, const vt_att *a, int path, const vt_rng *r, double *marks) {
    const vt_attgd_path *s = &vt_attgd_paths[path];
    vt_mirror m = {.p = s->p, .eta = VT_ATTGD_ETA, .normalised = true, .floor = VT_ATTGD_FLOOR};
    double theta[SIZE], g[SIZE], *w = t->w[path];
    vt_rng start = *r;
    start.run = (uint32_t)path + 1; /* the released code seeds the data, not W(0): every path has its own */
    draw_normals(w, SIZE, &start, 4);
    vt_lp_power(theta, w, SIZE, s->p - 1);
    t->stall[path] = 0;
    for (int k = 1, at = 0; k <= s->steps; k++) {
        vt_att_gradient(a, w, VT_ATT_PLAIN, g, NULL);
        if (vt_mirror_step(&m, theta, w, g, SIZE) >= m.floor) t->stall[path] = k + 1;
        for (; at < MARKS && step_of_mark(path, at) == k; at++) memcpy(marks + at * SIZE, w, sizeof theta);
    }
}

/* Definition 3: sample i's chosen token scores higher than all of margin 1. rows: vt_attsvm_rows. */
static bool locally_optimal(const vt_att *a, const double *rows, const double *mm, int i, int chosen) {
    for (int t = 0, j = i * (TOKENS - 1); t < TOKENS; t++) {
        double margin = 0;
        if (t == chosen) continue;
        for (int k = 0; k < SIZE; k++) margin += rows[j * SIZE + k] * mm[k];
        j++;
        /* duality gaps of 1e-12 leave errors of 1e-6 in w */
        if (margin < 1 + 1e-5 && !(vt_att_score(a, i, chosen) > vt_att_score(a, i, t))) return false;
    }
    return true;
}

/* Sets a path's most and best, means over samples for the token alpha, and local, 1 if all are locally optimal; needs
 * alpha, mm and a->s. */
static void measure_selection(trial *t, const vt_att *a, int path) {
    double rows[SAMPLES * (TOKENS - 1) * SIZE];
    t->most[path] = 0;
    int tops = 0, optimal = 0;
    vt_attsvm_rows(rows, a, t->alpha[path]);
    for (int i = 0; i < SAMPLES; i++) {
        int c = t->alpha[path][i], best = 0;
        for (int k = 1; k < TOKENS; k++)
            if (vt_att_score(a, i, k) > vt_att_score(a, i, best)) best = k;
        tops += best == c;
        optimal += locally_optimal(a, rows, t->mm[path], i, c);
        t->most[path] += a->s[i * TOKENS + c] / SAMPLES;
    }
    t->best[path] = tops / (double)SAMPLES, t->local[path] = optimal == SAMPLES;
}

/* Runs a path, then solves its tokens' machine for each p: sets the path's w, stall, alpha, norm, curve, same, mm,
 * most, best and local, and raises gap. VT_E_NUMERIC if a machine cannot be solved. */
static vt_status evaluate_path(trial *t, const vt_att *a, int path, const vt_rng *r, vt_err *e) {
    double marks[MARKS * SIZE] = {0}, mm[SIZE], p = vt_attgd_paths[path].p;
    run_descent(t, a, path, r, marks);
    vt_att_loss(a, t->w[path]); /* a->s at the end */
    for (int i = 0; i < SAMPLES; i++) t->alpha[path][i] = vt_att_chosen(a, i);
    t->norm[path] = vt_lp_norm(t->w[path], SIZE, p);
    for (int k = 0; k < PATHS; k++) {
        vt_svm svm;
        VT_TRY(vt_attsvm(mm, &svm, a, t->alpha[path], vt_attgd_paths[k].p, e));
        t->gap = fmax(t->gap, svm.gap);
        for (int at = 0; at < MARKS; at++) t->curve[path][k][at] = vt_lp_direction(mm, marks + at * SIZE, SIZE, p);
        t->same[path][k] = vt_lp_direction(mm, t->w[path], SIZE, p);
        if (k == path) memcpy(t->mm[path], mm, sizeof mm);
    }
    measure_selection(t, a, path);
    return VT_OK;
}

/* Work item of vt_for_each_in_order: fills trial `item`, a problem keyed by (lab seed, item), along all paths.
 * VT_INTERRUPTED, or a machine that cannot be solved. */
static vt_status run_trial(void *ctx, int thread, size_t item, vt_err *e) {
    (void)thread;
    job *j = ctx;
    trial *t = &j->trials[item];
    vt_rng r = {.seed = j->lab->seed, .purpose = vt_rng_purpose("lab attgd local"), .image = (uint32_t)item};
    vt_att a;
    VT_TRY(vt_lab_alive(j->lab, e));
    VT_TRY(vt_att_open(&a, SAMPLES, TOKENS, WIDTH, e));
    draw_problem(&a, &r);
    vt_status s = VT_OK;
    for (int path = 0; path < PATHS && s == VT_OK; path++) s = evaluate_path(t, &a, path, &r, e);
    for (int path = 0; path < PATHS && s == VT_OK; path++)
        for (int k = 0; k < PATHS; k++) {
            int shared = 0;
            for (int i = 0; i < SAMPLES; i++) shared += t->alpha[path][i] == t->alpha[k][i];
            t->agree[path][k] = shared / (double)SAMPLES;
            t->other[path][k] = vt_lp_direction(t->mm[k], t->w[path], SIZE, vt_attgd_paths[path].p);
        }
    vt_att_close(&a);
    return s;
}

typedef struct table {
    double mean[PATHS][PATHS], deviation[PATHS][PATHS];
} table;

typedef struct summary {
    table other, same;
    double curve[PATHS][PATHS][MARKS], norm[PATHS], most[PATHS], best[PATHS], local[PATHS], stall[PATHS], gap;
    double agree[PATHS][PATHS]; /* share of tokens that two paths have in common */
} summary;

/* Mean over problems of a number of trial, `first` that of the first; *deviation (or NULL): sample standard deviation.
 */
static double mean_over_trials(const job *j, const double *first, double *deviation) {
    double s = 0, ss = 0, n = j->o->seeds;
    for (int i = 0; i < j->o->seeds; i++)
        s += *(const double *)(const void *)((const char *)first + (size_t)i * sizeof(trial));
    for (int i = 0; i < j->o->seeds; i++) {
        double d = *(const double *)(const void *)((const char *)first + (size_t)i * sizeof(trial)) - s / n;
        ss += d * d;
    }
    if (deviation) *deviation = sqrt(ss / (n - 1));
    return s / n;
}

/* Means of all that trials hold; gap is the worst. */
static void summarise_trials(summary *s, const job *j) {
    const trial *t = j->trials;
    *s = (summary){0};
    for (int p = 0; p < PATHS; p++) {
        for (int k = 0; k < PATHS; k++) {
            s->other.mean[p][k] = mean_over_trials(j, &t->other[p][k], &s->other.deviation[p][k]);
            s->same.mean[p][k] = mean_over_trials(j, &t->same[p][k], &s->same.deviation[p][k]);
            s->agree[p][k] = mean_over_trials(j, &t->agree[p][k], NULL);
            for (int i = 0; i < j->o->seeds; i++)
                for (int at = 0; at < MARKS; at++) s->curve[p][k][at] += j->trials[i].curve[p][k][at] / j->o->seeds;
        }
        s->norm[p] = mean_over_trials(j, &t->norm[p], NULL), s->most[p] = mean_over_trials(j, &t->most[p], NULL);
        s->best[p] = mean_over_trials(j, &t->best[p], NULL), s->local[p] = mean_over_trials(j, &t->local[p], NULL);
        s->stall[p] = mean_over_trials(j, &t->stall[p], NULL);
    }
    for (int i = 0; i < j->o->seeds; i++) s->gap = fmax(s->gap, j->trials[i].gap);
}

/* Whether each row's own machine has the smallest mean. */
static bool diagonal_least(const table *t) {
    for (int p = 0; p < PATHS; p++)
        for (int k = 0; k < PATHS; k++)
            if (k != p && !(t->mean[p][p] < t->mean[p][k])) return false;
    return true;
}

/* Prints mean and deviation for each path and machine; * marks the path's own. */
static void print_table(FILE *f, const char *title, const table *t) {
    char titles[100] = "-descent";
    vt_columns c;
    for (int k = 0; k < PATHS; k++) vt_text_item(titles, sizeof titles, "\t", "-l_%.3g-SVM", vt_attgd_paths[k].p);
    fprintf(f, "\n%s\n", title);
    vt_columns_titles(&c, "%s", titles);
    for (int p = 0; p < PATHS; p++) {
        vt_columns_cell(&c, "p = %.3g", vt_attgd_paths[p].p);
        for (int k = 0; k < PATHS; k++)
            vt_columns_cell(&c, "%.5f +- %.5f%s", t->mean[p][k], t->deviation[p][k], k == p ? " *" : "");
    }
    vt_columns_end(&c, f, VT_LOOK_PAGE);
}

/* Prints both tables of divergences, then norms, selections and stalls by path. */
static void print_all(FILE *f, const summary *s, int seeds) {
    fprintf(f, "\n== local: %d problems of %d samples, %d tokens, width %d; v fixed, W(0) normal ==\n", seeds, SAMPLES,
            TOKENS, WIDTH);
    fprintf(f,
            "normalised steps of %g, G / (|G|_q + %.1e); D_psi between directions, mean +- deviation; * the path's own "
            "p\n",
            VT_ATTGD_ETA, VT_ATTGD_FLOOR);
    print_table(f, "same tokens: every machine for the tokens that the path selects", &s->same);
    print_table(f, "different tokens: the machine of another run, as the released code compares", &s->other);
    vt_columns t;
    char titles[200] = "-descent\tsteps\t|W|_p\tmax softmax\tbest score\tlocally opt.\tstalls at";
    for (int k = 0; k < PATHS; k++)
        vt_text_item(titles, sizeof titles, "\t", "shared with p = %.3g", vt_attgd_paths[k].p);
    fputc('\n', f);
    vt_columns_titles(&t, "%s", titles);
    for (int p = 0; p < PATHS; p++) {
        char stall[24] = "never";
        if (s->stall[p] <= vt_attgd_paths[p].steps) snprintf(stall, sizeof stall, "%.1f", s->stall[p]);
        vt_columns_cells(&t, "p = %.3g\t%d\t%.2f\t%.4f\t%.1f %%\t%.1f %%\t%s", vt_attgd_paths[p].p,
                         vt_attgd_paths[p].steps, s->norm[p], s->most[p], 100 * s->best[p], 100 * s->local[p], stall);
        for (int k = 0; k < PATHS; k++) vt_columns_cell(&t, "%.1f %%", 100 * s->agree[p][k]);
    }
    vt_columns_end(&t, f, VT_LOOK_PAGE);
    fprintf(f,
            "best score: share of samples whose selected token has the highest score; locally opt.: share of problems "
            "that meet\n"
            "Definition 3; stalls at: mean first step after which |G|_q stays below %.1e; machines: worst duality gap "
            "%.1e\n",
            VT_ATTGD_FLOOR, s->gap);
}

/* Figure: a panel for each path, its divergence from each machine over steps. */
static void draw_distances(vt_figure *f, const void *data) {
    const summary *s = data;
    vt_panel panel = {"", "step", "D_psi, same tokens", VT_LOG_X | VT_LOG_Y, 1e-3, 2};
    for (int p = 0; p < PATHS; p++) {
        snprintf(panel.title, sizeof panel.title, "descent with p = %.3g", vt_attgd_paths[p].p);
        vt_figure_panel(f, &panel);
        for (int k = 0; k < PATHS; k++) {
            vt_figure_series(f, VT_LINE | VT_MARKS, "l_%.3g-SVM", vt_attgd_paths[k].p);
            for (int at = 0; at < MARKS; at++) vt_figure_point(f, step_of_mark(p, at), s->curve[p][k][at]);
        }
    }
}

/* JSON of one table's means and deviations, [path][machine]. */
static json_t *table_json(const table *t) {
    json_t *mean = json_array(), *deviation = json_array();
    for (int p = 0; p < PATHS; p++) {
        json_array_append_new(mean, vt_lab_numbers(t->mean[p], PATHS));
        json_array_append_new(deviation, vt_lab_numbers(t->deviation[p], PATHS));
    }
    return json_pack("{s:o,s:o}", "mean", mean, "deviation", deviation);
}

/* JSON of path p's mean divergences from each machine at the marks. */
static json_t *curve_json(const summary *s, int p) {
    json_t *at = json_array(), *d = json_array();
    for (int k = 0; k < MARKS; k++) json_array_append_new(at, json_integer(step_of_mark(p, k)));
    for (int k = 0; k < PATHS; k++) json_array_append_new(d, vt_lab_numbers(s->curve[p][k], MARKS));
    return json_pack("{s:f,s:o,s:o}", "p", vt_attgd_paths[p].p, "step", at, "divergence", d);
}

/* Stores all as "local"; VT_E_MEMORY. */
static vt_status store_results(const summary *s, vt_lab *lab, int seeds, vt_err *e) {
    json_t *curves = json_array();
    for (int p = 0; p < PATHS; p++) json_array_append_new(curves, curve_json(s, p));
    json_t *o = json_pack("{s:i,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:f}", "problems", seeds, "same_tokens",
                          table_json(&s->same), "different_tokens", table_json(&s->other), "norm",
                          vt_lab_numbers(s->norm, PATHS), "max_softmax", vt_lab_numbers(s->most, PATHS), "best_score",
                          vt_lab_numbers(s->best, PATHS), "locally_optimal", vt_lab_numbers(s->local, PATHS), "stall",
                          vt_lab_numbers(s->stall, PATHS), "curves", curves, "worst_duality_gap", s->gap);
    return vt_lab_put(lab->json, "local", o, e);
}

/* Judges four claims of the paper by the mean tables. */
static vt_status record_claims(const summary *s, vt_lab *lab, vt_err *e) {
    const table *t = &s->same;
    double share = 0, least_most = 1, local = 1;
    for (int p = 0; p < PATHS; p++) {
        for (int k = 0; k < PATHS; k++)
            if (k != p) share += (t->mean[p][k] - t->mean[p][p]) / (s->other.mean[p][k] - s->other.mean[p][p]) / 6;
        least_most = fmin(least_most, s->most[p]), local = fmin(local, s->local[p]);
    }
    VT_TRY(vt_lab_claim(lab, diagonal_least(t) ? VT_SUPPORTED : VT_CONTRADICTED,
                        "W(k) with exponent p tends to the direction of the l_p machine", e,
                        "same tokens, own p: D = %.4f, %.4f, %.4f, %s of its row", t->mean[0][0], t->mean[1][1],
                        t->mean[2][2], diagonal_least(t) ? "each the smallest" : "not each the smallest"));
    VT_TRY(vt_lab_claim(lab, share < 0.5 ? VT_WEAKENED : VT_SUPPORTED,
                        "the distance between exponents in the published figure is one of geometry", e,
                        "with the tokens held fixed %.0f %% of the gap to the own machine is left; the rest is that "
                        "runs selected other tokens",
                        100 * share));
    VT_TRY(vt_lab_claim(lab, least_most > 0.99 ? VT_SUPPORTED : VT_CONTRADICTED, "attention ends on one token a sample",
                        e, "mean of the largest attention is at least %.4f", least_most));
    return vt_lab_claim(lab,
                        local > 0.95  ? VT_SUPPORTED
                        : local > 0.5 ? VT_WEAKENED
                                      : VT_CONTRADICTED,
                        "the selected tokens are locally optimal (Definition 3)", e,
                        "in at least %.0f %% of the problems; they have the best score in %.0f, %.0f, %.0f %% of "
                        "samples",
                        100 * local, 100 * s->best[0], 100 * s->best[1], 100 * s->best[2]);
}

vt_status vt_attgd_local(const vt_attgd_options *o, vt_lab *lab, vt_err *e) {
    job j = {.o = o, .lab = lab, .trials = calloc((size_t)o->seeds, sizeof *j.trials)};
    if (!j.trials) return vt_fail(e, VT_E_MEMORY, "lab attgd: no memory for %d problems", o->seeds);
    summary s;
    vt_status status = vt_lab_for_each(lab, "local", (size_t)o->seeds, run_trial, &j, e);
    if (status == VT_OK) {
        summarise_trials(&s, &j);
        print_all(lab->out, &s, o->seeds);
        status = store_results(&s, lab, o->seeds, e);
    }
    free(j.trials);
    if (status == VT_OK)
        status = vt_lab_figure(lab, "local", "Distance of descent to the l_p-SVM solutions", draw_distances, &s, e);
    return status == VT_OK ? record_claims(&s, lab, e) : status;
}
