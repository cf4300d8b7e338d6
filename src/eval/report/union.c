/* SPDX-License-Identifier: MIT */
#include "eval/report/union.h"

#include "base/json.h"
#include "base/stats.h"
#include "eval/result_index.h"
#include "eval/header.h"
#include "base/markup.h"

/* Returns what a run is called: its name, or its folder. */
static const char *name_of_run(const vt_union_run *r) { return r->name ? r->name : r->ledger->dir; }

/* Refuses, with VT_E_USAGE, runs of another model or other data; names the key. */
static vt_status check_comparable(const vt_union_run *a, const vt_union_run *b, vt_err *e) {
    static const char *const keys[] = {"weights", "model", "wrap", "oracle", "data", "targets"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!vt_header_agree(a->ledger->header, b->ledger->header, keys[i]))
            return vt_fail(e, VT_E_USAGE, "%s and %s are of another %s: a union is of one model on the same images",
                           a->ledger->dir, b->ledger->dir, keys[i]);
    return VT_OK;
}

/* Refuses a run that is not finished, a curve, or without attacks in the ball (the latter two VT_E_USAGE). */
static vt_status check_run_fits_union(const vt_union_run *r, vt_err *e) {
    const vt_header *h = r->ledger->header;
    int64_t images;
    bool any = false;
    VT_TRY(vt_result_index_finished(r->ledger, &images, e));
    for (int k = 0; k < h->n_attacks; k++) any = any || h->attacks[k].scoring == VT_SCORE_BALL;
    if (h->curve)
        return vt_fail(e, VT_E_USAGE, "%s is a curve, which has no one threat: a union is of evaluations",
                       r->ledger->dir);
    return any ? VT_OK : vt_fail(e, VT_E_USAGE, "%s attacked nothing: a union is of threats", r->ledger->dir);
}

/* Refuses runs 0 and k, with VT_E_USAGE and the first image that differs, unless they have the same images, right
 * without perturbation in both. */
static vt_status same_images(const vt_union *u, const vt_result_index *s, int k, vt_err *e) {
    const vt_result_index *x = &s[0], *y = &s[k];
    const char *a = u->runs[0].ledger->dir, *b = u->runs[k].ledger->dir;
    for (size_t i = 0; i < x->n || i < y->n; i++) {
        if (i < x->n && i < y->n && x->images[i] == y->images[i]) {
            if (vt_result_index_right(x, 0, i) != vt_result_index_right(y, 0, i))
                return vt_fail(e, VT_E_USAGE, "image %d is right in one of %s and %s alone: they are not one model",
                               x->images[i], a, b);
            continue;
        }
        bool first = i < x->n && (i >= y->n || x->images[i] < y->images[i]);
        return vt_fail(e, VT_E_USAGE, "image %d is in %s and not in %s: a union is of the same images",
                       first ? x->images[i] : y->images[i], first ? a : b, first ? b : a);
    }
    return VT_OK;
}

/* Adds to u's and its runs' counts the images that stand under each threat, under all, and fall under one alone. */
static void count_survivors(vt_union *u, const vt_result_index *s) {
    u->images = (int64_t)s[0].n;
    for (size_t i = 0; i < s[0].n; i++) {
        bool clean = vt_result_index_right(&s[0], 0, i);
        int falls = 0, last = 0;
        for (int k = 0; k < u->n; k++) {
            bool stands = vt_result_index_stands(&s[k], VT_SCORE_BALL, i);
            u->runs[k].right += stands;
            if (!stands) falls++, last = k;
        }
        u->clean += clean, u->right += !falls;
        if (clean && falls == 1) u->runs[last].alone++;
    }
}

vt_status vt_union_make(vt_union *u, vt_err *e) {
    vt_result_index s[VT_UNION_MOST] = {{0}};
    vt_status st = VT_OK;
    u->images = u->clean = u->right = 0;
    for (int k = 0; k < u->n && st == VT_OK; k++) {
        vt_union_run *r = &u->runs[k];
        r->right = r->alone = 0;
        vt_header_threat(r->ledger->header, r->threat, sizeof r->threat);
        st = check_run_fits_union(r, e);
        if (st == VT_OK && k) st = check_comparable(&u->runs[0], r, e);
        if (st == VT_OK) st = vt_result_index_read(&s[k], r->ledger, e);
        if (st == VT_OK && k) st = same_images(u, s, k, e);
    }
    if (st == VT_OK) count_survivors(u, s);
    for (int k = 0; k < u->n; k++) vt_result_index_close(&s[k]);
    return st;
}

/* Returns {"right", "percent", "interval95"} of `right` of `images`, which is not 0; NULL: no memory. */
static json_t *accuracy_json(int64_t right, int64_t images) {
    double low, high;
    vt_wilson(right, images, &low, &high);
    return json_pack("{s:I,s:f,s:[f,f]}", "right", (json_int_t)right, "percent", 100 * (double)right / (double)images,
                     "interval95", low, high);
}

json_t *vt_union_json(const vt_union *u) {
    size_t before = vt_json_refused();
    const vt_header *h = u->runs[0].ledger->header;
    json_t *runs = json_array(), *all = accuracy_json(u->right, u->images);
    for (int k = 0; k < u->n; k++) {
        const vt_union_run *r = &u->runs[k];
        json_t *o = accuracy_json(r->right, u->images), *attacks = json_array();
        for (int i = 0; i < r->ledger->header->n_attacks; i++)
            json_array_append_new(attacks, json_string(r->ledger->header->attacks[i].id));
        json_object_set_new(o, "name", json_string(name_of_run(r)));
        json_object_set_new(o, "threat", json_string(r->threat));
        json_object_set_new(o, "falls_here_alone", json_integer((json_int_t)r->alone));
        json_object_set_new(o, "attacks", attacks);
        json_array_append_new(runs, o);
    }
    json_t *o =
        json_pack("{s:s,s:s,s:I,s:o,s:o,s:o}", "weights", h->weights, "data", h->data.sha256, "images",
                  (json_int_t)u->images, "clean", accuracy_json(u->clean, u->images), "runs", runs, "union", all);
    return vt_json_whole(o, before);
}

/* Writes a row of the table, shares of `images`, which is not 0; alone -1: no number. */
static void write_markdown_row(FILE *f, const char *name, const char *threat, int64_t right, int64_t images,
                               int64_t alone) {
    double low, high;
    vt_wilson(right, images, &low, &high);
    fputs("| ", f), vt_md(f, name);
    fputs(" | ", f), vt_md(f, threat);
    fprintf(f, " | %lld / %lld | %.2f | [%.2f, %.2f] | ", (long long)right, (long long)images,
            100 * (double)right / (double)images, low, high);
    if (alone >= 0) fprintf(f, "%lld ", (long long)alone);
    fputs("|\n", f);
}

void vt_union_md(FILE *f, const void *data) {
    const vt_union *u = data;
    fputs("| | threat | right / all | % | 95 % interval | falls here alone |\n|---|---|---:|---:|---:|---:|\n", f);
    write_markdown_row(f, "clean", "", u->clean, u->images, -1);
    for (int k = 0; k < u->n; k++)
        write_markdown_row(f, name_of_run(&u->runs[k]), u->runs[k].threat, u->runs[k].right, u->images,
                           u->runs[k].alone);
    write_markdown_row(f, "union", "any of these", u->right, u->images, -1);
}
