/* SPDX-License-Identifier: MIT */
/* vitrine merge: joins runs over different images of one evaluation; --worst: runs of different threats on the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cli/cli.h"
#include "base/columns.h"
#include "base/files.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/stats.h"
#include "eval/ledger.h"
#include "eval/report/checksums.h"
#include "eval/result_index.h"
#include "eval/header.h"
#include "eval/report/summary.h"
#include "eval/report/union.h"

/* Appends all lines of a part, with their points, to the merged ledger; x [pixels]: scratch. */
static vt_status add_part(vt_ledger *to, const vt_ledger *part, float *x, vt_err *e) {
    for (size_t i = 0; i < part->count; i++) {
        vt_record r = part->records[i];
        if (r.adv >= 0) VT_TRY(vt_ledger_read_adv(part, &r, x, e));
        VT_TRY(vt_ledger_append(to, &r, r.adv >= 0 ? x : NULL, e));
    }
    return VT_OK;
}

/* Orders numbers of images for qsort. */
static int by_image(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Parts must hold different images: the clean line stands for the image. */
static vt_status check_disjoint(vt_ledger *const *parts, int n, vt_err *e) {
    size_t total = 1, k = 0;
    for (int i = 0; i < n; i++) total += parts[i]->count;
    int32_t *images = calloc(total, sizeof *images);
    if (!images) return vt_fail(e, VT_E_MEMORY, "no memory for %zu ledger lines", total);
    for (int i = 0; i < n; i++)
        for (size_t j = 0; j < parts[i]->count; j++)
            if (parts[i]->records[j].entry == VT_ENTRY_CLEAN) images[k++] = parts[i]->records[j].image;
    qsort(images, k, sizeof *images, by_image);
    vt_status s = VT_OK;
    for (size_t i = 1; i < k && s == VT_OK; i++)
        if (images[i] == images[i - 1])
            s = vt_fail(e, VT_E_USAGE, "image %d is in two of the runs: parts must not overlap", images[i]);
    free(images);
    return s;
}

/* What is joined is sealed anew: a part whose files are not as they were when it ended is not. */
static vt_status check_checksums(const vt_ledger *part, vt_err *e) {
    vt_findings found = {0};
    vt_status s = vt_checksums_files(part->dir, &found, e);
    if (s == VT_OK && found.lost) s = vt_fail(e, VT_E_MEMORY, "%s: no memory for what is not as it was", part->dir);
    if (s == VT_OK && found.n)
        s = vt_fail(e, VT_E_FORMAT, "%s is not as it was when it ended: %.300s (vitrine verify lists it all)",
                    part->dir, found.text[0]);
    vt_findings_free(&found);
    return s;
}

/* A merge is not continued: it is made again. */
static vt_status check_out_unused(const char *out, vt_err *e) {
    char path[VT_PATH_MAX];
    if (!vt_ledger_exists(out)) return VT_OK;
    bool ended = vt_path(path, out, "SHA256SUMS") && access(path, F_OK) == 0;
    return vt_fail(e, VT_E_IO, "%s already holds a run%s: choose another --out", out,
                   ended ? ""
                         : " that did not end (no SHA256SUMS; if an interrupted merge left it, it can be removed)");
}

/* Finishes the merged ledger, prints its table and writes reports and checksums into out. */
static vt_status finish_merged_run(vt_ledger *l, const char *out, vt_look look, vt_err *e) {
    vt_summary s;
    VT_TRY(vt_ledger_finish(l, e));
    VT_TRY(vt_summary_make(&s, l, 0, e));
    s.look = look;
    vt_status st = vt_reports_write(&s, out, stdout, e);
    if (st == VT_OK && vt_script_stream()) st = vt_report_write(vt_report_find("json"), vt_script_stream(), &s, e);
    vt_summary_free(&s);
    if (st == VT_OK) st = vt_checksums_write(out, e);
    if (st == VT_OK) putchar('\n'), vt_checksums_list(stdout, out);
    return st;
}

/* Joins runs over different images into --out; what it opens is the caller's to close. */
static vt_status merge_runs(const vt_cli *c, vt_ledger **parts, vt_ledger **to, float **x, vt_err *e) {
    char names[200];
    int64_t images;
    const char *out = vt_cli_get(c, "out");
    if (!out) return vt_fail(e, VT_E_USAGE, "vitrine merge needs --out DIR");
    for (int i = 0; i < c->n_positional; i++) {
        VT_TRY(vt_ledger_open(&parts[i], c->positional[i], e));
        if (i && vt_header_difference(parts[0]->header->document, parts[i]->header->document,
                                      vt_cli_has(c, "allow-mixed"), names, sizeof names))
            return vt_fail(e, VT_E_USAGE, "%s and %s were made with another %s%s", c->positional[0], c->positional[i],
                           names, strstr(names, "blas") ? " (--allow-mixed accepts another BLAS kernel)" : "");
    }
    VT_TRY(check_disjoint(parts, c->n_positional, e));
    for (int i = 0; i < c->n_positional; i++) VT_TRY(vt_result_index_finished(parts[i], &images, e));
    for (int i = 0; i < c->n_positional; i++) VT_TRY(check_checksums(parts[i], e));
    VT_TRY(check_out_unused(out, e));
    *x = vt_alloc(parts[0]->pixels * sizeof(float));
    if (!*x) return vt_fail(e, VT_E_MEMORY, "no memory for an image");
    VT_TRY(vt_ledger_create(to, out, parts[0]->header, parts[0]->pixels, e));
    for (int i = 0; i < c->n_positional; i++) VT_TRY(add_part(*to, parts[i], *x, e));
    return finish_merged_run(*to, out, vt_cli_look(c), e);
}

/* ---- the union of threats ---- */

/* Prints the table of a union: clean, each run, images that stand in all runs. */
static void print_union(const vt_union *u, const vt_look *look) {
    static const vt_column columns[] = {{"", true, 0},   {"threat", true, 0}, {"right / all", false, 0},
                                        {"%", false, 0}, {"95 %", false, 1},  {"falls here alone", false, 0}};
    vt_columns t;
    double low, high;
    vt_columns_begin(&t, columns, (int)(sizeof columns / sizeof *columns));
    for (int k = -1; k <= u->n; k++) {
        const vt_union_run *r = k >= 0 && k < u->n ? &u->runs[k] : NULL;
        int64_t right = r ? r->right : k < 0 ? u->clean : u->right;
        vt_wilson(right, u->images, &low, &high);
        vt_columns_cell(&t, "%s", r ? (r->name ? r->name : r->ledger->dir) : k < 0 ? "clean" : "union");
        vt_columns_cell(&t, "%s", r ? r->threat : k < 0 ? "" : "any of these");
        vt_columns_cells(&t, "%lld / %lld\t%.2f\t[%.2f, %.2f]", (long long)right, (long long)u->images,
                         100 * (double)right / (double)u->images, low, high);
        if (r)
            vt_columns_cell(&t, "%lld", (long long)r->alone);
        else
            vt_columns_cell(&t, "%s", "");
    }
    vt_columns_end(&t, stdout, look);
}

/* Writes both files of a union into dir. */
static vt_status write_union(const vt_union *u, const char *dir, vt_err *e) {
    vt_file f;
    VT_TRY(vt_make_dir(dir, e));
    VT_TRY(vt_file_begin(&f, dir, "worst.md", e));
    vt_union_md(f.stream, u);
    VT_TRY(vt_file_commit(&f, e));
    json_t *o = vt_union_json(u);
    vt_status s = vt_json_save(dir, "worst.json", o, JSON_INDENT(1), e);
    json_decref(o);
    return s;
}

/* Prints the union of threats of all operands and writes it to --out. An operand is a folder, or NAME=FOLDER if no
 * folder has that whole name. */
static vt_status report_worst_case(const vt_cli *c, vt_ledger **parts, char names[][64], vt_err *e) {
    vt_union u = {.n = c->n_positional};
    vt_look look = vt_cli_look(c);
    const char *out = vt_cli_get(c, "out");
    if (u.n < 2) return vt_fail(e, VT_E_USAGE, "vitrine merge --worst needs two runs at least: linf=RUN l2=RUN");
    for (int i = 0; i < u.n; i++) {
        const char *dir = c->positional[i], *equals = strchr(dir, '=');
        if (equals && equals > dir && equals - dir < 64 && !vt_ledger_exists(dir)) {
            snprintf(names[i], 64, "%.*s", (int)(equals - dir), dir);
            u.runs[i].name = names[i], dir = equals + 1;
        }
        VT_TRY(vt_ledger_open(&parts[i], dir, e));
        u.runs[i].ledger = parts[i];
        for (int k = 0; k < i; k++)
            if (u.runs[i].name && u.runs[k].name && !strcmp(u.runs[i].name, u.runs[k].name))
                return vt_fail(e, VT_E_USAGE, "two runs are called %s", names[i]);
    }
    VT_TRY(vt_union_make(&u, e));
    print_union(&u, &look);
    VT_TRY(vt_script_print(vt_union_json(&u), e));
    return out ? write_union(&u, out, e) : VT_OK;
}

/* Runs vitrine merge: parts of one run become one, or with --worst runs under several threats are joined. */
static vt_status run(const vt_cli *c, vt_err *e) {
    char names[16][64];
    vt_ledger *parts[16] = {NULL}, *to = NULL;
    float *x = NULL;
    vt_status s = vt_cli_has(c, "worst") ? report_worst_case(c, parts, names, e) : merge_runs(c, parts, &to, &x, e);
    vt_ledger_close(to);
    for (int i = 0; i < 16; i++) vt_ledger_close(parts[i]);
    free(x);
    return s;
}

static const vt_arg args[] = {
    {"out", "DIR", "folder for the merged run; --worst: for worst.md and worst.json (default: none)", VT_OF_OUTPUT},
    {"worst", NULL, "runs of one model and the same images under different threats: who stands in all of them",
     VT_OF_RUN},
    VT_JSON_ARG,
    VT_QUIET_ARG,
    {"allow-mixed", NULL, "merge although another BLAS kernel was in use", VT_OF_RUN},
    VT_VERBOSE_ARG,
    {0},
};

const vt_command vt_command_merge = {
    .name = "merge",
    .summary = "join runs over different images of one evaluation",
    .operands = "RUN_A RUN_B ...",
    .min_operands = 1,
    .max_operands = 16,
    .args = args,
    .details = "The runs must agree in weights, data and options; the result is byte-identical to one run over all "
               "images.\n\nWith --worst they agree in model, data and images, and differ in their threat: linf=RUN "
               "l2=RUN l1=RUN. The last row counts the images that no attack of any of them broke.",
    .examples = {"vitrine eval weights/shapes10-vit --data datasets/shapes10 --images 0:10 --eps 4/255 --attack pgd "
                 "--out first",
                 "vitrine eval weights/shapes10-vit --data datasets/shapes10 --images 10:20 --eps 4/255 --attack pgd "
                 "--out second",
                 "vitrine merge first second --out both",
                 "vitrine verify both --weights weights/shapes10-vit --data datasets/shapes10",
                 "vitrine eval weights/shapes10-vit --data datasets/shapes10 --images 0:20 --norm l2 --eps 0.5 "
                 "--attack pgd --out l2",
                 "vitrine merge --worst linf=both l2=l2"},
    .run = run,
};
