/* SPDX-License-Identifier: MIT */
#include "research/lab/sample_complexity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LAST = VT_COMPLEXITY_MARKS - 1 };

/* ---- numbers: means over runs; NaN where a variant did not run ---- */

typedef double (*pick_fn)(const vt_complexity_result *x);

static double test_error(const vt_complexity_result *x) { return x->curve[LAST][1].error; }
static double train_error(const vt_complexity_result *x) { return x->curve[LAST][0].error; }
static double norm_w1(const vt_complexity_result *x) { return x->w1; }
static double norm_w2(const vt_complexity_result *x) { return x->w2; }
static double mask_on(const vt_complexity_result *x) { return x->mask_on; }
static double mask_off(const vt_complexity_result *x) { return x->mask_off; }
static double robust_error(const vt_complexity_result *x) { return x->robust.error; }
static double robust_share(const vt_complexity_result *x) { return 100 * x->robust.share; }
static double irrelevant_error(const vt_complexity_result *x) { return x->irrelevant.error; }

/* Rows of the tables: they go through the sizes of the first s0, then through those of the next. */
static int row_count(const vt_complexity_run *r) { return r->n_relevant * r->n_sizes; }

/* Result of an item in one run with one s0, by index. */
static const vt_complexity_result *result_at(const vt_complexity_run *r, int run, int relevant, int item) {
    return &r->results[(size_t)(run * r->n_relevant + relevant) * (size_t)r->n_items + (size_t)item];
}

/* Mean over runs of `pick` in a table row; NaN if the variant did not run at that size. */
static double mean_over_runs(const vt_complexity_run *r, int row, int variant, pick_fn pick) {
    for (int i = 0; i < r->n_items; i++) {
        if (r->items[i].size != row % r->n_sizes || r->items[i].variant != variant) continue;
        double sum = 0;
        for (int k = 0; k < r->runs; k++) sum += pick(result_at(r, k, row / r->n_sizes, i));
        return sum / r->runs;
    }
    return NAN;
}

/* Mean test error over mean |y|^2, which can be compared between teachers; NaN if the variant did not run. */
static double relative_error(const vt_complexity_run *r, int row, int variant) {
    return mean_over_runs(r, row, variant, test_error) / r->power[row / r->n_sizes];
}

/* Index of the variant of that name; -1: none. */
static int find_variant(const vt_complexity_run *r, const char *name) {
    for (int v = 0; v < r->n_variants; v++)
        if (!strcmp(r->variants[v].name, name)) return v;
    return -1;
}

/* Starts a table with the titles `first` (tab-separated) and a column for each variant. */
static void begin_table(vt_columns *t, const vt_complexity_run *r, const char *first) {
    char titles[300];
    snprintf(titles, sizeof titles, "%s", first);
    for (int v = 0; v < r->n_variants; v++) vt_text_item(titles, sizeof titles, "\t", "%s", r->variants[v].name);
    vt_columns_titles(t, "%s", titles);
}

/* Prints means for each row and variant, "-" if it did not run; pick NULL: the relative test error. */
static void print_table(const vt_complexity_run *r, FILE *out, const char *title, pick_fn pick, int decimals) {
    vt_columns t;
    fprintf(out, "\n%s\n", title);
    begin_table(&t, r, r->n_relevant > 1 ? "s0\tn" : "n");
    for (int row = 0; row < row_count(r); row++) {
        if (r->n_relevant > 1) vt_columns_cell(&t, "%d", r->relevant[row / r->n_sizes]);
        vt_columns_cell(&t, "%d", r->sizes[row % r->n_sizes]);
        for (int v = 0; v < r->n_variants; v++) {
            double x = pick ? mean_over_runs(r, row, v, pick) : relative_error(r, row, v);
            vt_columns_cell(&t, isnan(x) ? "-" : "%.*f", decimals, x);
        }
    }
    vt_columns_end(&t, out, VT_LOOK_PAGE);
}

/* Prints test errors along the training at the smallest size, first run (Fig. 7). */
static void print_curves(const vt_complexity_run *r, FILE *out) {
    vt_columns t;
    fprintf(out, "\ntest error after so many steps, n = %d, first run%s\n", r->sizes[0],
            r->p->model ? "" : " (Fig. 7)");
    begin_table(&t, r, "steps");
    for (int m = 1; m < VT_COMPLEXITY_MARKS; m += 2) {
        vt_columns_cell(&t, "%lld", (long long)r->steps * (m + 1) / VT_COMPLEXITY_MARKS);
        for (int i = 0; i < r->n_variants; i++) {
            bool there = i < r->n_items && r->items[i].size == 0;
            vt_columns_cell(&t, there ? "%.4f" : "", there ? r->results[i].curve[m][1].error : 0);
        }
    }
    vt_columns_end(&t, out, VT_LOOK_PAGE);
}

/* Prints the networks' sizes, the teachers, and how students are trained. */
static void print_preface(const vt_complexity_run *r, FILE *out) {
    const vt_two_layer *n = &r->teacher;
    vt_two_layer base = *n;
    base.front = VT_FRONT_PLAIN;
    fprintf(out, "%d-%d-%d, ReLU, x ~ N(0, I); parameters: %zu baseline, %zu with attention\n",
            vt_two_layer_features(&base), n->hidden, n->out, vt_two_layer_at(&base, VT_AT_END),
            vt_two_layer_at(n, VT_AT_END));
    if (n->front == VT_FRONT_SELF)
        fprintf(out, "teacher of eq. 3: %d tokens of %d numbers, d_q = d_v = %d; mean |y|^2 %.4g\n", n->tokens,
                n->in / n->tokens, n->d, r->power[0]);
    else
        for (int k = 0; k < r->n_relevant; k++)
            fprintf(out, "teacher: %d of %d inputs count; mean |y|^2 %.4g\n", r->relevant[k], n->in, r->power[k]);
    fprintf(out, "SGD, %d steps of %d points, rate %g; %d test points; %d run%s\n", r->steps, r->p->batch, r->p->rate,
            r->p->test, r->runs, r->runs == 1 ? "" : "s");
}

/* JSON array of errors at the marks: 0 train, 1 test. */
static json_t *curve_json(const vt_complexity_result *x, int which) {
    json_t *a = json_array();
    for (int m = 0; m < VT_COMPLEXITY_MARKS; m++) json_array_append_new(a, json_real(x->curve[m][which].error));
    return a;
}

/* Stores every student's result, the teachers' power and the steps; VT_E_MEMORY. */
static vt_status store_results(const vt_complexity_run *r, vt_lab *lab, vt_err *e) {
    json_t *all = json_array(), *powers = vt_lab_numbers(r->power, (size_t)r->n_relevant);
    for (int k = 0; k < r->runs * r->n_relevant; k++)
        for (int i = 0; i < r->n_items; i++) {
            const vt_complexity_result *x = result_at(r, k / r->n_relevant, k % r->n_relevant, i);
            json_array_append_new(all, json_pack("{s:i,s:i,s:i,s:s,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:o,s:o}", "n",
                                                 r->sizes[r->items[i].size], "relevant", r->relevant[k % r->n_relevant],
                                                 "run", k / r->n_relevant, "variant",
                                                 r->variants[r->items[i].variant].name, "train", train_error(x), "test",
                                                 test_error(x), "W1", x->w1, "W2", x->w2, "mask_on", x->mask_on,
                                                 "mask_off", x->mask_off, "robust", x->robust.error, "irrelevant_share",
                                                 x->robust.share, "robust_irrelevant", x->irrelevant.error,
                                                 "train_curve", curve_json(x, 0), "test_curve", curve_json(x, 1)));
        }
    vt_status s = vt_lab_put(lab->json, "power", powers, e), t = vt_lab_put(lab->json, "runs", all, e);
    VT_TRY(s != VT_OK ? s : t);
    return vt_lab_put(lab->json, "steps", json_integer(r->steps), e);
}

/* Figure: error over the size of the training set, or over s0 at the smallest size; and over the steps at that size. */
static void draw_errors(vt_figure *f, const void *data) {
    const vt_complexity_run *r = data;
    bool sweep = r->n_relevant > 1;
    static const vt_panel over_size = {"test error", .x = "training points", .kind = VT_LOG_Y},
                          over_s0 = {"test error over mean |y|^2", .x = "inputs that count", .kind = VT_LOG_Y},
                          over_steps = {"test error at the smallest size", .x = "steps", .kind = VT_LOG_Y};
    vt_figure_panel(f, sweep ? &over_s0 : &over_size);
    for (int v = 0; v < r->n_variants; v++) {
        vt_figure_series(f, VT_LINE | VT_MARKS, "%s", r->variants[v].name);
        for (int k = 0; k < (sweep ? r->n_relevant : r->n_sizes); k++)
            vt_figure_point(f, sweep ? r->relevant[k] : r->sizes[k],
                            sweep ? relative_error(r, k * r->n_sizes, v) : mean_over_runs(r, k, v, test_error));
    }
    vt_figure_panel(f, &over_steps);
    for (int i = 0; i < r->n_items; i++) {
        if (r->items[i].size != 0) continue;
        vt_figure_series(f, VT_LINE | VT_MARKS, "%s", r->variants[r->items[i].variant].name);
        for (int m = 0; m < VT_COMPLEXITY_MARKS; m++)
            vt_figure_point(f, (double)r->steps * (m + 1) / VT_COMPLEXITY_MARKS, r->results[i].curve[m][1].error);
    }
}

vt_status vt_complexity_report(const vt_complexity_run *r, vt_lab *lab, vt_err *e) {
    FILE *out = lab->out;
    char title[200];
    print_preface(r, out);
    snprintf(title, sizeof title, "test error: mean over points of the sum over outputs of (f - y)^2 (Table %s)",
             r->p->model ? "2's twin" : "1");
    print_table(r, out, title, test_error, 4);
    print_table(r, out, "training error, the same", train_error, 4);
    if (r->n_relevant > 1) print_table(r, out, "test error over mean |y|^2", NULL, 4);
    print_curves(r, out);
    print_table(r, out, "|W1|_F", norm_w1, 2);
    print_table(r, out, "|w2|", norm_w2, 2);
    if (!r->p->model) {
        print_table(r, out, "mean |a| on inputs that count", mask_on, 3);
        print_table(r, out, "mean |a| on inputs that do not", mask_off, 3);
    }
    snprintf(title, sizeof title, "robust twin: test error under PGD on x, %s, eps %g", r->p->norm ? "linf" : "l2",
             r->p->eps);
    print_table(r, out, title, robust_error, 3);
    if (!r->p->model) {
        snprintf(title, sizeof title,
                 "share of that perturbation's energy on inputs that do not count, %% (evenly%s: %.1f)",
                 r->n_relevant > 1 ? ", first s0" : "", 100.0 * (r->teacher.in - r->relevant[0]) / r->teacher.in);
        print_table(r, out, title, robust_share, 1);
        print_table(r, out, "test error when PGD may move those inputs alone", irrelevant_error, 3);
    }
    VT_TRY(store_results(r, lab, e));
    return vt_lab_figure(lab, "sample-complexity", "Test error over training points and steps", draw_errors, r, e);
}

/* Returns at how many sizes up to `most` variant a's number is below variant b's; *all: at how many both ran. */
static int count_sizes_below(const vt_complexity_run *r, int a, int b, pick_fn pick, int most, int *all) {
    int good = 0;
    *all = 0;
    for (int s = 0; s < r->n_sizes && r->sizes[s] <= most; s++) {
        double x = mean_over_runs(r, s, a, pick), y = mean_over_runs(r, s, b, pick);
        if (isnan(x) || isnan(y)) continue;
        good += x < y, ++*all;
    }
    return good;
}

/* Claims that attention's error is 3.8 times lower at every size, or more; weakened if it is lower at any size. */
static vt_status claim_error_gain(const vt_complexity_run *r, int attention, vt_lab *lab, vt_err *e) {
    double least = INFINITY, most = 0;
    for (int s = 0; s < r->n_sizes; s++) {
        double q = mean_over_runs(r, s, 0, test_error) / mean_over_runs(r, s, attention, test_error);
        least = fmin(least, q), most = fmax(most, q);
    }
    vt_finding f = least >= 3.8 ? VT_SUPPORTED : most > 1 ? VT_WEAKENED : VT_CONTRADICTED;
    return vt_lab_claim(lab, f, "Table 1: attention's test error is 3.8 to 10.8 times lower", e,
                        "here %.2f to %.2f times", least, most);
}

/* Whether training error is at most half of test error: else the network still learns, or a penalty holds it back,
 * and a claim about samples is not tested. True if it did not run. */
static bool is_trained(const vt_complexity_run *r, int row, int variant) {
    double test = mean_over_runs(r, row, variant, test_error);
    return isnan(test) || mean_over_runs(r, row, variant, train_error) <= test / 2;
}

/* Adds a claim as not tested, because the variant in this row has too large a training error. */
static vt_status claim_untrained(const vt_complexity_run *r, int row, int variant, const char *claim, vt_lab *lab,
                                 vt_err *e) {
    return vt_lab_claim(lab, VT_NOT_TESTED, claim, e,
                        "%s at n = %d: training error %.4f, above half of test error %.4f", r->variants[variant].name,
                        r->sizes[row % r->n_sizes], mean_over_runs(r, row, variant, train_error),
                        mean_over_runs(r, row, variant, test_error));
}

/* Claims that attention reaches the baseline's error of the largest size at a smaller one; weakened if only there. */
static vt_status claim_sample_saving(const vt_complexity_run *r, int attention, const char *claim, vt_lab *lab,
                                     vt_err *e) {
    int last = r->n_sizes - 1, s = 0;
    double base = mean_over_runs(r, last, 0, test_error);
    while (s < r->n_sizes && !(mean_over_runs(r, s, attention, test_error) <= base)) s++;
    int at = s < last ? s : last - 1; /* the size at which attention is judged */
    if (last == 0) return vt_lab_claim(lab, VT_NOT_TESTED, claim, e, "one size only, n = %d", r->sizes[0]);
    if (!is_trained(r, last, 0)) return claim_untrained(r, last, 0, claim, lab, e);
    if (!is_trained(r, at, attention)) return claim_untrained(r, at, attention, claim, lab, e);
    return vt_lab_claim(lab,
                        s < last   ? VT_SUPPORTED
                        : s > last ? VT_CONTRADICTED
                                   : VT_WEAKENED,
                        claim, e, "attention at n = %d: %.4f, the baseline at n = %d: %.4f", r->sizes[at],
                        mean_over_runs(r, at, attention, test_error), r->sizes[last], base);
}

/* Claims that a's test error is below b's at sizes up to `most`; no difference beyond 2 % only weakens it. */
static vt_status claim_ordering(const vt_complexity_run *r, int a, int b, int most, const char *claim, vt_lab *lab,
                                vt_err *e) {
    int all, good = count_sizes_below(r, a, b, test_error, most, &all), near = 0;
    for (int s = 0; s < r->n_sizes && r->sizes[s] <= most; s++)
        near += fabs(mean_over_runs(r, s, a, test_error) / mean_over_runs(r, s, b, test_error) - 1) < 0.02;
    vt_finding f = vt_lab_by_count(good, all);
    if (f == VT_CONTRADICTED && near == all) f = VT_WEAKENED; /* within 2 %: no difference that one run could tell */
    return vt_lab_claim(lab, f, claim, e, "lower at %d of %d sizes; n = %d: %.4f against %.4f", good, all, r->sizes[0],
                        mean_over_runs(r, 0, a, test_error), mean_over_runs(r, 0, b, test_error));
}

/* claim_ordering at all sizes, but not tested if a variant is not trained (is_trained) at a size. */
static vt_status claim_fewer_samples(const vt_complexity_run *r, int a, int b, const char *claim, vt_lab *lab,
                                     vt_err *e) {
    for (int s = 0; s < r->n_sizes; s++) {
        if (isnan(mean_over_runs(r, s, a, test_error)) || isnan(mean_over_runs(r, s, b, test_error))) continue;
        if (!is_trained(r, s, a)) return claim_untrained(r, s, a, claim, lab, e);
        if (!is_trained(r, s, b)) return claim_untrained(r, s, b, claim, lab, e);
    }
    return claim_ordering(r, a, b, 1 << 30, claim, lab, e);
}

/* Claim, Theorem 1's premise: |W1| and |w2| within 1.1 of the baseline's; weakened if their product is within 2. */
static vt_status claim_equal_norms(const vt_complexity_run *r, int variant, vt_lab *lab, vt_err *e) {
    double w1 = 0, w2 = 0;
    for (int s = 0; s < r->n_sizes; s++) {
        w1 = fmax(w1, mean_over_runs(r, s, variant, norm_w1) / mean_over_runs(r, s, 0, norm_w1));
        w2 = fmax(w2, mean_over_runs(r, s, variant, norm_w2) / mean_over_runs(r, s, 0, norm_w2));
    }
    vt_finding f = w1 <= 1.1 && w2 <= 1.1 ? VT_SUPPORTED : w1 * w2 <= 2 ? VT_WEAKENED : VT_CONTRADICTED;
    char claim[100];
    snprintf(claim, sizeof claim, "Theorem 1's premise: baseline and %s keep to the same weight bounds C1, C2",
             r->variants[variant].name);
    return vt_lab_claim(lab, f, claim, e, "|W1|_F with %s is at most %.2f, |w2| %.2f times the baseline's",
                        r->variants[variant].name, w1, w2);
}

/* ---- the sweep over s0 ---- */

/* The power of s0 by which the relative error at size s grows from the first s0 to the last. */
static double error_exponent(const vt_complexity_run *r, int s, int variant) {
    int last = r->n_relevant - 1;
    return log(relative_error(r, last * r->n_sizes + s, variant) / relative_error(r, s, variant)) /
           log((double)r->relevant[last] / r->relevant[0]);
}

/* The first row in which a variant is not trained (is_trained), or -1. */
static int first_untrained_row(const vt_complexity_run *r, int variant) {
    for (int row = 0; row < row_count(r); row++)
        if (!is_trained(r, row, variant)) return row;
    return -1;
}

/* Returns buf: "s0^-0.10, 0.32, 1.16 at n = 1000, 2000, 4000", sizes at which the variant ran. */
static const char *exponents_text(const vt_complexity_run *r, int variant, char *buf, size_t size) {
    size_t used = (size_t)snprintf(buf, size, "s0^");
    for (int sizes = 0; sizes < 2; sizes++)
        for (int s = 0, ran = 0; s < r->n_sizes && used < size; s++) {
            if (isnan(relative_error(r, s, variant))) continue;
            const char *before = ran++ ? ", " : sizes ? " at n = " : "";
            if (sizes)
                used += (size_t)snprintf(buf + used, size - used, "%s%d", before, r->sizes[s]);
            else
                used += (size_t)snprintf(buf + used, size - used, "%s%.2f", before, error_exponent(r, s, variant));
        }
    return buf;
}

/* Claims that the relative error grows from each s0 to the next, at each size (vt_lab_by_count); not tested if a row is
 * not trained. Theorem 1 and Proposition 1 have s0^2 where a network without attention has p^2: at a fixed n the bound
 * grows as s0. */
static vt_status claim_error_growth(const vt_complexity_run *r, int variant, const char *claim, vt_lab *lab,
                                    vt_err *e) {
    int up = 0, all = 0, late = first_untrained_row(r, variant);
    if (late >= 0) return claim_untrained(r, late, variant, claim, lab, e);
    for (int row = r->n_sizes; row < row_count(r); row++) {
        double before = relative_error(r, row - r->n_sizes, variant), now = relative_error(r, row, variant);
        if (isnan(now)) continue;
        up += now > before, all++;
    }
    char text[200];
    return vt_lab_claim(lab, vt_lab_by_count(up, all), claim, e,
                        "at %d of %d steps; from s0 = %d to %d as %s (the bound: s0^1)", up, all, r->relevant[0],
                        r->relevant[r->n_relevant - 1], exponents_text(r, variant, text, sizeof text));
}

/* Claims that the baseline's error exponent is below half of attention's; weakened if not at all sizes. */
static vt_status claim_no_growth(const vt_complexity_run *r, int attention, vt_lab *lab, vt_err *e) {
    static const char claim[] = "Theorem 1: without attention the error does not grow so (p in place of s0)";
    int good = 0, late = first_untrained_row(r, 0), other = first_untrained_row(r, attention);
    if (late >= 0) return claim_untrained(r, late, 0, claim, lab, e);
    if (other >= 0) return claim_untrained(r, other, attention, claim, lab, e);
    for (int s = 0; s < r->n_sizes; s++) {
        double with = error_exponent(r, s, attention);
        good += with > 0 && error_exponent(r, s, 0) < with / 2;
    }
    char text[200];
    return vt_lab_claim(lab, vt_lab_by_count(good, r->n_sizes), claim, e,
                        "exponent below half of attention's at %d of %d sizes: %s", good, r->n_sizes,
                        exponents_text(r, 0, text, sizeof text));
}

/* The claims of a sweep over several s0. */
static vt_status sweep_claims(const vt_complexity_run *r, vt_lab *lab, vt_err *e) {
    int attention = find_variant(r, "attention");
    VT_TRY(claim_error_growth(r, attention, "Theorem 1: with attention the error at a fixed n grows with s0", lab, e));
    VT_TRY(claim_error_growth(r, find_variant(r, "attention L1"), "the same with L1 on a", lab, e));
    VT_TRY(claim_error_growth(r, find_variant(r, "known mask"), "Proposition 1: so it does where the mask is known",
                              lab, e));
    return claim_no_growth(r, attention, lab, e);
}

/* Claims that the networks have the paper's numbers of parameters. */
static vt_status claim_parameter_counts(const vt_complexity_run *r, vt_lab *lab, vt_err *e) {
    vt_two_layer base = r->teacher;
    base.front = VT_FRONT_PLAIN;
    size_t without = vt_two_layer_at(&base, VT_AT_END), with = vt_two_layer_at(&r->teacher, VT_AT_END);
    return vt_lab_claim(lab, without == 34186 && with == 34442 ? VT_SUPPORTED : VT_CONTRADICTED,
                        "Table 1: 34,186 parameters, 34,442 with attention", e, "%zu and %zu", without, with);
}

/* Claims that at the largest size, |a| off the teacher's mask is below 0.1 of that on it; weakened below 0.9. */
static vt_status claim_mask_found(const vt_complexity_run *r, int attention, vt_lab *lab, vt_err *e) {
    int last = r->n_sizes - 1;
    double off = mean_over_runs(r, last, attention, mask_off) / mean_over_runs(r, last, attention, mask_on);
    return vt_lab_claim(lab,
                        off < 0.1   ? VT_SUPPORTED
                        : off < 0.9 ? VT_WEAKENED
                                    : VT_CONTRADICTED,
                        "the learned mask finds the inputs that count", e,
                        "at n = %d mean |a| off the mask is %.2f of that on it", r->sizes[last], off);
}

/* The claims of Table 1, for one s0. */
static vt_status mask_claims(const vt_complexity_run *r, vt_lab *lab, vt_err *e) {
    int attention = find_variant(r, "attention"), l1 = find_variant(r, "attention L1");
    VT_TRY(claim_ordering(r, attention, 0, 1 << 30, "Table 1: attention's test error is below the baseline's", lab, e));
    VT_TRY(claim_error_gain(r, attention, lab, e));
    VT_TRY(claim_sample_saving(r, attention, "Theorem 1: attention needs fewer samples for the same error", lab, e));
    VT_TRY(claim_ordering(r, l1, attention, 18000, "Table 1: L1 on a lowers it further up to n = 18,000", lab, e));
    VT_TRY(claim_fewer_samples(r, find_variant(r, "sum-to-one"), attention,
                               "Corollary 1: a sum-to-one mask needs fewer samples still", lab, e));
    VT_TRY(claim_fewer_samples(r, find_variant(r, "known mask"), attention,
                               "Proposition 1: a known mask needs fewer samples still", lab, e));
    VT_TRY(claim_equal_norms(r, attention, lab, e));
    VT_TRY(claim_equal_norms(r, l1, lab, e));
    return claim_mask_found(r, attention, lab, e);
}

vt_status vt_complexity_claims(const vt_complexity_run *r, vt_lab *lab, vt_err *e) {
    if (!r->p->model) {
        VT_TRY(claim_parameter_counts(r, lab, e));
        return r->n_relevant > 1 ? sweep_claims(r, lab, e) : mask_claims(r, lab, e);
    }
    int self = find_variant(r, "self-attention");
    VT_TRY(claim_ordering(r, self, 0, 1 << 30, "Table 2: self-attention's test error is below the baseline's", lab, e));
    VT_TRY(claim_sample_saving(r, self, "self-attention needs fewer samples for the same error", lab, e));
    return claim_equal_norms(r, self, lab, e);
}
