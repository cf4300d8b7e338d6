/* SPDX-License-Identifier: MIT */
#include "cli/eval_seeds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli/script.h"
#include "core/files.h"
#include "core/json.h"
#include "core/opt.h"
#include "eval/report/checksums.h"
#include "eval/report/summary.h"

enum { MOST = 64 };

typedef struct seeds {
    long long seed[MOST];
    char text[MOST][24], out[MOST][VT_PATH_MAX];
    vt_ledger *ledger[MOST];
    vt_summary summary[MOST];
    vt_floor floor;
    int n, opened;
} seeds;

static vt_status parse(seeds *s, const char *text, const char *out, vt_err *e) {
    char buf[1024], *rest;
    if (snprintf(buf, sizeof buf, "%s", text) >= (int)sizeof buf)
        return vt_fail(e, VT_E_USAGE, "--seeds is longer than %zu characters", sizeof buf - 1);
    for (char *word = strtok_r(buf, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        if (s->n == MOST) return vt_fail(e, VT_E_USAGE, "--seeds names more than %d seeds", MOST);
        if (!vt_parse_int(word, &s->seed[s->n]) || s->seed[s->n] < 0)
            return vt_fail(e, VT_E_USAGE, "--seeds is '%s', must be whole numbers from 0, separated by commas", text);
        for (int i = 0; i < s->n; i++)
            if (s->seed[i] == s->seed[s->n])
                return vt_fail(e, VT_E_USAGE, "--seeds is '%s', which names %lld twice", text, s->seed[i]);
        snprintf(s->text[s->n], sizeof s->text[0], "%lld", s->seed[s->n]);
        if (snprintf(s->out[s->n], sizeof s->out[0], "%s/seed-%lld", out, s->seed[s->n]) >= (int)sizeof s->out[0])
            return vt_fail(e, VT_E_USAGE, "%s: path is too long", out);
        s->n++;
    }
    return s->n > 1 ? VT_OK : vt_fail(e, VT_E_USAGE, "--seeds is '%s', must name at least two seeds", text);
}

static vt_status run_all(seeds *s, const vt_cli *c, vt_status (*once)(const vt_cli *c, vt_err *e), vt_err *e) {
    static vt_cli one;
    char below[32];
    if (c->given.n + 2 > VT_CHOICES_MOST) return vt_fail(e, VT_E_USAGE, "too many options");
    for (int i = 0; i < s->n; i++) {
        one = *c;
        snprintf(below, sizeof below, "seed-%s", s->text[i]);
        VT_TRY(vt_make_dir_in(vt_cli_get(c, "out"), below, e));
        vt_cli_set(&one, "seed", s->text[i]);
        vt_cli_set(&one, "out", s->out[i]);
        printf("\n---- seed %s ----\n", s->text[i]);
        VT_TRY(once(&one, e));
    }
    for (int i = 0; i < s->n; i++, s->opened++) {
        VT_TRY(vt_ledger_open(&s->ledger[i], s->out[i], e));
        vt_status st = vt_summary_make(&s->summary[i], s->ledger[i], 0, e);
        if (st != VT_OK) {
            vt_ledger_close(s->ledger[i]);
            return st;
        }
    }
    return VT_OK;
}

/* Under how many seeds each image is broken or wrong: broken[image]. */
static void count_broken_seeds(const vt_ledger *l, uint8_t *seen, uint8_t *broken, size_t n) {
    memset(seen, 0, n);
    for (size_t i = 0; i < l->count; i++) {
        const vt_record *r = &l->records[i];
        if ((size_t)r->image < n && vt_record_fails(l, r) && !seen[r->image]) seen[r->image] = 1, broken[r->image]++;
    }
}

/* Images that some seeds break and others do not, and those that none breaks. */
static vt_status count_across_seeds(const seeds *s, int64_t *depends, int64_t *robust, vt_err *e) {
    size_t n = 0;
    const vt_ledger *first = s->ledger[0];
    for (size_t i = 0; i < first->count; i++)
        if ((size_t)first->records[i].image >= n) n = (size_t)first->records[i].image + 1;
    uint8_t *seen = calloc(2 * n + 1, 1), *broken = seen + n;
    if (!seen) return vt_fail(e, VT_E_MEMORY, "no memory for %zu images", n);
    for (int i = 0; i < s->n; i++) count_broken_seeds(s->ledger[i], seen, broken, n);
    *depends = *robust = 0;
    for (size_t i = 0; i < first->count; i++) {
        const vt_record *r = &first->records[i];
        if (r->entry) continue;
        *robust += !broken[r->image];
        *depends += broken[r->image] && broken[r->image] < s->n;
    }
    free(seen);
    return VT_OK;
}

static const vt_column columns[] = {{"", true, 0},
                                    {"mean %", false, 0},
                                    {"least %", false, 0},
                                    {"most %", false, 0},
                                    {"range", false, 0}};

static vt_status report_seeds(const seeds *s, const char *out, vt_look look, vt_err *e) {
    vt_row r;
    int64_t depends = 0, robust = 0;
    VT_TRY(count_across_seeds(s, &depends, &robust, e));
    size_t before = vt_json_refused();
    json_t *rows = json_array(), *list = json_array();
    vt_columns t;
    vt_columns_begin(&t, columns, (int)(sizeof columns / sizeof *columns));
    printf("\n---- %d seeds ----\n", s->n);
    for (int i = 0; vt_summary_row(&s->summary[0], i, &r); i++) {
        double sum = 0, low = 101, high = -1;
        json_t *counts = json_array();
        for (int k = 0; k < s->n; k++) {
            vt_summary_row(&s->summary[k], i, &r);
            sum += r.percent;
            low = r.percent < low ? r.percent : low, high = r.percent > high ? r.percent : high;
            json_array_append_new(counts, json_integer((json_int_t)r.count));
        }
        double values[] = {sum / s->n, low, high, high - low};
        vt_columns_cell(&t, "%s%s", r.level ? "  " : "", r.label);
        for (int k = 0; k < 4; k++) vt_columns_cell(&t, "%.2f", values[k]);
        json_array_append_new(rows, json_pack("{s:s,s:i,s:o,s:I,s:f,s:f,s:f}", "row", r.label, "level", r.level,
                                              "counts", counts, "total", (json_int_t)r.total, "mean", sum / s->n, "low",
                                              low, "high", high));
    }
    vt_columns_end(&t, stdout, &look);
    printf("\n%lld of %lld images are broken under some seeds and not under others; %lld under none\n",
           (long long)depends, (long long)s->summary[0].total, (long long)robust);
    for (int k = 0; k < s->n; k++) json_array_append_new(list, json_integer(s->seed[k]));
    json_t *o = json_pack("{s:o,s:o,s:I,s:I}", "seeds", list, "rows", rows, "depends_on_seed", (json_int_t)depends,
                          "robust_under_all", (json_int_t)robust);
    o = vt_json_whole(o, before);
    vt_status st = vt_json_save(out, "seeds.json", o, JSON_INDENT(1), e);
    if (st == VT_OK) vt_checksums_list(stdout, out);
    if (st == VT_OK) return vt_script_print(o, e);
    json_decref(o);
    return st;
}

vt_status vt_eval_seeds(const vt_cli *c, vt_status (*once)(const vt_cli *c, vt_err *e), vt_err *e) {
    const char *out = vt_cli_get(c, "out");
    if (!out) return vt_fail(e, VT_E_USAGE, "--seeds needs --out FOLDER");
    if (vt_cli_has(c, "seed")) return vt_fail(e, VT_E_USAGE, "give --seed or --seeds, not both");
    seeds *s = calloc(1, sizeof *s);
    if (!s) return vt_fail(e, VT_E_MEMORY, "no memory for --seeds");
    vt_status st = parse(s, vt_cli_get(c, "seeds"), out, e);
    if (st == VT_OK) st = vt_floor_parse(&s->floor, c, true, e);
    if (st == VT_OK) st = run_all(s, c, once, e);
    if (st == VT_OK) st = report_seeds(s, out, vt_cli_look(c), e);
    for (int i = 0; i < s->n && st == VT_OK; i++) st = vt_floor_check(&s->floor, &s->summary[i], e);
    for (int i = 0; i < s->opened; i++) vt_summary_free(&s->summary[i]), vt_ledger_close(s->ledger[i]);
    free(s);
    return st;
}
