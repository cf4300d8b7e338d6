/* SPDX-License-Identifier: MIT */
/* vitrine compare: two or more runs, or curves, over the same images, paired image by image. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli/run_args.h"
#include "eval/report/compare.h"
#include "eval/transfers.h"
#include "base/json.h"
#include "base/files.h"
#include "base/opt.h"

#define MOST 130 /* rows of a pair: clean and 64 attacks, or the eps of two curves and their norms */

/* Whether B is better: where the test is significant the other way, it is worse. */
static const char *verdict_text(const vt_pair *r) {
    return r->b_better == VT_CLAIM_NOT ? "worse" : vt_claim_name(r->b_better);
}

/* Prints what a curve's pair says: which run needs larger perturbations on how many images, medians, and the sign test.
 * */
static void print_norms(const vt_pair *r) {
    long long of = (long long)r->images, a = (long long)r->only_a, b = (long long)r->only_b;
    printf("\n%-12s %7lld images: larger under A on %lld, under B on %lld, equal on %lld; median %.5g under A, %.5g "
           "under B\n%20s sign test p %.3g, p (Holm) %.3g, B better: %s; larger under B minus under A, of all: 95 %% "
           "[%+.2f, %+.2f]\n",
           r->name, of, a, b, of - a - b, r->median_a, r->median_b, "", r->test.two_sided, r->adjusted, verdict_text(r),
           100 * r->low, 100 * r->high);
}

static const vt_column columns[] =
    {{"", true, 0},          {"images", false, 6},  {"A right %", false, 0},     {"B right %", false, 0},
     {"B - A", false, 0},    {"A alone", false, 5}, {"B alone", false, 4},       {"p", false, 3},
     {"p (Holm)", false, 1}, {"B better", true, 0}, {"95 % of B - A", false, 2}, {"agree %", false, 7}};

/* Adds a pair of accuracies to the table as one row of `columns`. */
static void print_row(vt_columns *t, const vt_pair *r) {
    static const vt_style styles[] =
        {[VT_CLAIM_UNDECIDED] = VT_STYLE_NONE, [VT_CLAIM_HELD] = VT_STYLE_GOOD, [VT_CLAIM_NOT] = VT_STYLE_BAD};
    double of = (double)r->images;
    vt_columns_cell(t, "%s", r->name);
    vt_columns_cells(t, "%lld\t%.2f\t%.2f\t%+.2f\t%lld\t%lld\t%.3g\t%.3g", (long long)r->images,
                     100 * (double)r->right_a / of, 100 * (double)r->right_b / of,
                     100 * (double)(r->only_b - r->only_a) / of, (long long)r->only_a, (long long)r->only_b,
                     r->test.two_sided, r->adjusted);
    vt_columns_styled(t, styles[r->b_better], "%s", verdict_text(r));
    vt_columns_cells(t, "[%+.2f, %+.2f]\t%.2f", 100 * r->low, 100 * r->high,
                     100 - 100 * (double)(r->only_a + r->only_b) / of);
}

/* Where a run was searched in another precision than float32, its name says so. */
static void print_name(char which, const char *dir, const vt_header *h) {
    printf("%c  %s%s%s%s\n", which, dir, *h->search ? "  (searched in " : "", h->search, *h->search ? ")" : "");
}

/* Prints which attacks run a alone ran, if there are any. */
static void print_alone(char which, const vt_ledger *a, const vt_ledger *b) {
    char text[600];
    int n = vt_compare_alone(text, sizeof text, a, b);
    if (n) printf("%c alone ran %s: not compared\n", which, text);
}

/* Prints one comparison of two runs: who they are, a table of rows, distances and remarks. */
static void print_pair(const vt_ledger *a, const vt_ledger *b, const vt_pair *rows, int n, const vt_look *look) {
    vt_columns t;
    print_name('A', a->dir, a->header), print_name('B', b->dir, b->header);
    if (strcmp(a->header->search, b->header->search) != 0)
        printf("They searched in different precisions: what either broke is proved, but that one left an image\n"
               "standing may be its search's doing, not the checkpoint's.\n");
    putchar('\n');
    vt_columns_begin(&t, columns, (int)(sizeof columns / sizeof *columns));
    for (int i = 0; i < n; i++)
        if (!rows[i].norms) print_row(&t, &rows[i]);
    vt_columns_end(&t, stdout, look);
    for (int i = 0; i < n; i++)
        if (rows[i].norms) print_norms(&rows[i]);
    for (int i = 0; i < n; i++)
        if (rows[i].remark) printf("%s: %s\n", rows[i].name, rows[i].remark);
    print_alone('A', a, b), print_alone('B', b, a);
    printf("\n");
}

/* Prints one line: the images of a row that are right under run `who` alone. */
static void print_images(const char *row, const char *who, const int32_t *images, int64_t n) {
    printf("%s, right under %s alone:", row, who);
    for (int64_t i = 0; i < n; i++) printf(" %d", images[i]);
    printf("%s\n", n ? "" : " none");
}

/* Prints, for each row, which images are right under A alone and under B alone. */
static void print_changed(const vt_pair *rows, int n) {
    for (int i = 0; i < n; i++) {
        if (rows[i].norms) continue;
        print_images(rows[i].name, "A", rows[i].changed, rows[i].only_a);
        print_images(rows[i].name, "B", rows[i].changed + rows[i].only_a, rows[i].only_b);
    }
    printf("\n");
}

/* ---- --json ---- */

/* Returns a row of a comparison as an object of `compare --json`; NULL: no memory. */
static json_t *row_json(const vt_pair *r) {
    json_t *o =
        json_pack("{s:s,s:s,s:I,s:I,s:I,s:o,s:o,s:s,s:[f,f]}", "row", r->name, "kind", r->norms ? "norms" : "right",
                  "images", (json_int_t)r->images, "only_a", (json_int_t)r->only_a, "only_b", (json_int_t)r->only_b,
                  "p", vt_json_real(r->test.two_sided), "p_holm", vt_json_real(r->adjusted), "b_better",
                  vt_claim_name(r->b_better), "interval95", 100 * r->low, 100 * r->high);
    json_object_update_new(o, r->norms ? json_pack("{s:o,s:o}", "median_a", vt_json_real(r->median_a), "median_b",
                                                   vt_json_real(r->median_b))
                                       : json_pack("{s:I,s:I}", "right_a", (json_int_t)r->right_a, "right_b",
                                                   (json_int_t)r->right_b));
    if (r->remark) json_object_set_new(o, "remark", json_string(r->remark));
    return o;
}

/* Returns in which precision a run searched: "float32", or what its header says. */
static const char *search_precision(const vt_ledger *l) { return *l->header->search ? l->header->search : "float32"; }

/* Prints all comparisons with the first run as one JSON document. */
static vt_status print_json(const vt_cli *c, vt_ledger *const *runs, const vt_pair *rows, const int *count,
                            double alpha, vt_err *e) {
    json_t *pairs = json_array();
    for (int i = 1, at = 0; i < c->n_positional; at += count[i++]) {
        json_t *list = json_array();
        for (int k = 0; k < count[i]; k++) json_array_append_new(list, row_json(&rows[at + k]));
        json_t *pair = json_pack("{s:s,s:s,s:o}", "a", c->positional[0], "b", c->positional[i], "rows", list);
        if (*runs[0]->header->search || *runs[i]->header->search)
            json_object_set_new(pair, "searched",
                                json_pack("[s,s]", search_precision(runs[0]), search_precision(runs[i])));
        char text[600];
        if (vt_compare_alone(text, sizeof text, runs[0], runs[i]))
            json_object_set_new(pair, "a_alone", json_string(text));
        if (vt_compare_alone(text, sizeof text, runs[i], runs[0]))
            json_object_set_new(pair, "b_alone", json_string(text));
        json_array_append_new(pairs, pair);
    }
    return vt_script_print(json_pack("{s:i,s:f,s:o}", "version", 1, "alpha", alpha, "pairs", pairs), e);
}

/* Writes the runs beside each other as a LaTeX table to --tex FILE; nothing without --tex. */
static vt_status write_tex(const vt_cli *c, vt_ledger *const *runs, vt_err *e) {
    const char *path = vt_cli_get(c, "tex");
    vt_file out;
    if (!path) return VT_OK;
    if (vt_cli_has(c, "common"))
        return vt_fail(e, VT_E_USAGE, "--tex is a table of runs over the same images: leave out --common");
    VT_TRY(vt_file_begin_path(&out, path, e));
    vt_status s = vt_compare_tex(out.stream, runs, c->n_positional, e);
    if (s == VT_OK) return vt_file_commit(&out, e);
    vt_file_abandon(&out);
    return s;
}

/* Opens the runs, compares each with the first, corrects all p-values together, and prints what was asked for. */
static vt_status compare_all(const vt_cli *c, vt_ledger **runs, vt_pair *rows, double alpha, vt_err *e) {
    int total = 0, count[16] = {0};
    vt_look look = vt_cli_look(c);
    for (int i = 0; i < c->n_positional; i++) VT_TRY(vt_ledger_open(&runs[i], c->positional[i], e));
    for (int i = 1; i < c->n_positional; i++, total += count[i - 1])
        VT_TRY(vt_compare(rows + total, MOST, &count[i], runs[0], runs[i], vt_cli_has(c, "common"), e));
    vt_compare_adjust(rows, total, alpha);
    VT_TRY(write_tex(c, runs, e));
    if (vt_script_stream()) return print_json(c, runs, rows, count, alpha, e);
    for (int i = 1, at = 0; i < c->n_positional; at += count[i++]) {
        print_pair(runs[0], runs[i], rows + at, count[i], &look);
        if (vt_cli_has(c, "changed")) print_changed(rows + at, count[i]);
    }
    printf("McNemar's exact two-sided test on the same images; Holm's correction over all %d rows; level %g.\n", total,
           alpha);
    printf("The interval of B - A is Tango's score interval for paired shares, in points.\n");
    printf("The test compares these checkpoints on these images, not the methods that made them.\n");
    return VT_OK;
}

/* ---- --transfer ---- */

/* Prints the matrix: a row for the points of each run, a column for the model of each. */
static void print_matrix(const vt_transfers *t, const vt_cli *c) {
    vt_columns table;
    vt_column heads[VT_TRANSFERS_MOST + 2] = {{"points of", true, 0}, {"points", false, 0}};
    char names[VT_TRANSFERS_MOST][2];
    for (int k = 0; k < t->n; k++) {
        printf("%c  %s\n", 'A' + k, c->positional[k]);
        snprintf(names[k], sizeof names[k], "%c", 'A' + k);
        heads[k + 2] = (vt_column){names[k], false, 0};
    }
    printf("\n");
    vt_columns_begin(&table, heads, t->n + 2);
    for (int i = 0; i < t->n; i++) {
        vt_columns_cells(&table, "%s\t%lld", names[i], (long long)t->points[i]);
        for (int k = 0; k < t->n; k++) {
            long long broken = t->broken[i][k], right = t->right[i][k];
            if (right)
                vt_columns_cell(&table, "%.2f (%lld/%lld)", 100 * (double)broken / (double)right, broken, right);
            else
                vt_columns_cell(&table, "-");
        }
    }
    vt_look look = vt_cli_look(c);
    vt_columns_end(&table, stdout, &look);
    printf(
        "\nPercentage of a row's points that break the model of a column, of those whose clean image it has right.\n");
}

/* Prints the same as one JSON document. */
static vt_status print_matrix_json(const vt_transfers *t, const vt_cli *c, vt_err *e) {
    size_t before = vt_json_refused();
    json_t *list = json_array();
    for (int i = 0; i < t->n; i++)
        for (int k = 0; k < t->n; k++)
            json_array_append_new(list, json_pack("{s:s,s:s,s:I,s:I,s:I}", "points_of", c->positional[i], "model_of",
                                                  c->positional[k], "points", (json_int_t)t->points[i], "right",
                                                  (json_int_t)t->right[i][k], "broken", (json_int_t)t->broken[i][k]));
    return vt_script_print(vt_json_whole(json_pack("{s:i,s:o}", "version", 1, "transfer", list), before), e);
}

/* Judges the points of each run by the model of each, and prints the counts. */
static vt_status compare_transfers(vt_transfers *t, const vt_cli *c, vt_err *e) {
    static const char *const others[] = {"alpha", "changed", "common", "tex"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (vt_cli_has(c, others[i]))
            return vt_fail(e, VT_E_USAGE, "--%s goes with a comparison image by image, not with --transfer", others[i]);
    for (int i = 0; i < c->n_positional; i++) VT_TRY(vt_transfers_add(t, c->positional[i], e));
    VT_TRY(vt_threads_parse(&c->given, &t->run[0].subject, &t->threads, e));
    VT_TRY(vt_transfers_judge(t, e));
    if (vt_script_stream()) return print_matrix_json(t, c, e);
    print_matrix(t, c);
    return VT_OK;
}

/* ---- the command ---- */

/* Runs vitrine compare: the first run against each other one. */
static vt_status run(const vt_cli *c, vt_err *e) {
    vt_ledger *runs[16] = {0};
    double alpha = 0.05;
    if (vt_cli_has(c, "transfer")) {
        static vt_transfers t;
        t = (vt_transfers){.progress = vt_cli_progress()};
        vt_status st = compare_transfers(&t, c, e);
        vt_transfers_close(&t);
        return st;
    }
    if (vt_cli_has(c, "threads"))
        return vt_fail(e, VT_E_USAGE, "--threads goes with --transfer: the other tables run no model");
    const char *text = vt_cli_get(c, "alpha");
    if (text && (!vt_parse_real(text, &alpha) || !(alpha > 0 && alpha < 0.5)))
        return vt_fail(e, VT_E_USAGE, "--alpha is '%s', must be a number above 0 and below 0.5", text);
    vt_pair *rows = calloc(16 * MOST, sizeof *rows);
    if (!rows) return vt_fail(e, VT_E_MEMORY, "no memory to compare runs");
    vt_status s = compare_all(c, runs, rows, alpha, e);
    for (int i = 0; i < 16; i++) vt_ledger_close(runs[i]);
    vt_pairs_free(rows, 16 * MOST);
    free(rows);
    return s;
}

static const vt_arg args[] = {
    {"alpha", "X", "level of the verdict (default 0.05)", VT_OF_RUN},
    {"changed", NULL, "also list the images that are right under one run alone", VT_OF_OUTPUT},
    {"common", NULL, "compare the images that both runs have, where they differ", VT_OF_RUN},
    {"transfer", NULL, "print instead which broken points of each run break the model of each other one", VT_OF_RUN},
    {"tex", "FILE", "also write one LaTeX table (booktabs) of all runs: clean and every attack", VT_OF_OUTPUT},
    VT_THREADS_ARG,
    VT_VERBOSE_ARG,
    VT_JSON_ARG,
    {0},
};

const vt_command vt_command_compare = {
    .name = "compare",
    .summary = "two or more evaluations, or curves, of the same images, paired",
    .operands = "RUN_A RUN_B ...",
    .min_operands = 2,
    .max_operands = 16,
    .args = args,
    .details =
        "RUN is the --out folder of vitrine eval. Every run is compared with RUN_A, on clean images and under "
        "the attacks that both ran with the same options; the others are named. 'held', 'worse' or 'undecided' "
        "answers whether B is better. Curves (vitrine curve) are compared at every eps that one of them was "
        "confirmed at, and by the norms that the same minimum-norm attacks found, image by image (exact sign "
        "test; a wrong image has norm 0). --transfer judges the stored points of every run by the model of every "
        "run, found by run.json: a matrix of how many carry over.",
    .examples = {"vitrine eval weights/shapes10-plain --data datasets/shapes10 --images 0:20 --eps 2/255 --attack pgd "
                 "--out plain",
                 "vitrine eval weights/shapes10-specformer --data datasets/shapes10 --images 0:20 --eps 2/255 --attack "
                 "pgd --out specformer",
                 "vitrine compare plain specformer", "vitrine compare plain specformer --changed --alpha 0.01",
                 "vitrine compare plain specformer --tex both.tex", "vitrine compare --transfer plain specformer",
                 "vitrine compare --transfer plain specformer --threads 1 --json"},
    .run = run,
};
