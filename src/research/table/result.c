/* SPDX-License-Identifier: MIT */
#include "research/table/result.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/files.h"
#include "base/stats.h"
#include "eval/result_index.h"
#include "eval/header.h"

vt_table_cell *vt_table_at(const vt_table *t, int row, int data, int attack) {
    return &t->cells[((size_t)row * (size_t)t->m->n_data + (size_t)data) * (size_t)t->m->n_attacks + (size_t)attack];
}

/* right [n]: which images are right under the ledger's last entry, or certified; VT_E_FORMAT if one is not finished. */
static vt_status mark_right_images(uint8_t *right, const vt_ledger *l, const int32_t *images, size_t n, vt_err *e) {
    vt_result_index b = {0};
    const int last = l->header->certify.method ? VT_ENTRY_CERTIFY : l->header->n_attacks;
    vt_status s = vt_result_index_open(&b, l->header, images, n, e);
    if (s == VT_OK) s = vt_result_index_note(&b, l, 0, e);
    for (size_t i = 0; s == VT_OK && i < n; i++) {
        if (!vt_result_index_done(&b, last, i))
            s = vt_fail(e, VT_E_FORMAT, "%s: image %d is not finished, though the cell is", l->dir, images[i]);
        else
            right[i] = vt_result_index_right(&b, last, i);
    }
    vt_result_index_close(&b);
    return s;
}

/* Gives the first seed's images [n] to the cell; frees those of later seeds, VT_E_FORMAT if they differ. */
static vt_status take_images(vt_table_cell *cell, const vt_ledger *l, int32_t *images, size_t n, vt_err *e) {
    if (!cell->images) {
        cell->images = images;
        cell->total = (int64_t)n;
        return VT_OK;
    }
    bool same = (int64_t)n == cell->total && !memcmp(images, cell->images, n * sizeof *images);
    free(images);
    return same ? VT_OK
                : vt_fail(e, VT_E_FORMAT, "%s: has %zu images, which are not the %lld of another seed", l->dir, n,
                          (long long)cell->total);
}

/* all: the text that every ledger has, or "several". */
static void merge_text(char *all, size_t size, const char *one) {
    if (!*all)
        snprintf(all, size, "%s", one);
    else if (strcmp(all, one))
        snprintf(all, size, "several");
}

/* Checks that the ledger answers its cell (else VT_E_FORMAT), sets cell->right[seed] (allocated), and cell->images and
 * total if it is the first seed; VT_E_FORMAT if it is not and has other images. */
static vt_status read_ledger(vt_table *t, const vt_plan_cell *c, vt_table_cell *cell, int seed, const vt_ledger *l,
                             vt_err *e) {
    int32_t *images = calloc(l->count + 1, sizeof *images);
    if (!images) return vt_manifest_no_memory(t->m, e);
    size_t n = vt_result_index_images(l, images);
    vt_status s = vt_plan_answers(t->plan, c, l, images, n, e);
    if (s != VT_OK) {
        free(images);
        return s;
    }
    VT_TRY(take_images(cell, l, images, n, e));
    if (!(cell->right[seed] = calloc(n + 1, 1))) return vt_manifest_no_memory(t->m, e);
    return mark_right_images(cell->right[seed], l, cell->images, n, e);
}

/* Opens a finished cell's ledger and sets cell->right[seed]: which images it says are right; merges its kernels and
 * version into t's. VT_E_FORMAT if it does not answer the cell or has other images than another seed. */
static vt_status read_cell(vt_table *t, const vt_plan_cell *c, vt_table_cell *cell, int seed, vt_err *e) {
    char run[VT_PATH_MAX];
    vt_ledger *l;
    VT_TRY(vt_cell_path(run, t->plan->out, c->hash, "run", e));
    VT_TRY(vt_ledger_open(&l, run, e));
    merge_text(t->kernels, sizeof t->kernels, l->header->kernels);
    merge_text(t->version, sizeof t->version, l->header->version);
    vt_status s = read_ledger(t, c, cell, seed, l, e);
    vt_ledger_close(l);
    return s;
}

bool vt_table_same_group(const vt_manifest *m, int a, int b) {
    const char *x = m->rows[a].group, *y = m->rows[b].group;
    return x && y ? !strcmp(x, y) : x == y;
}

/* f: quartile q of a row's times as a factor of the first row's median, round by round, sorted; returns how many. */
static int time_factors(double *f, const vt_table_cell *c, const vt_table_cell *by, int q) {
    int n = 0;
    for (int s = 0; s < c->seeds && s < by->seeds; s++)
        if (!isnan(c->seconds[s][q] / by->seconds[s][1])) f[n++] = c->seconds[s][q] / by->seconds[s][1];
    vt_sort(f, (size_t)n);
    return n;
}

/* Sets mean, quartiles, range and difference of a timed column's cells: factors of the median of their group's first
 * row; a cell stays NaN without its own time and that row's. VT_E_MEMORY. */
static vt_status compute_relative_times(vt_table *t, int data, int attack, vt_err *e) {
    for (int r = 0; r < t->m->n_rows; r++) {
        vt_table_cell *c = vt_table_at(t, r, data, attack);
        int first = 0;
        while (first < r && !(vt_table_same_group(t->m, first, r) && vt_table_at(t, first, data, attack)->wanted))
            first++;
        const vt_table_cell *by = vt_table_at(t, first, data, attack);
        if (!c->done || !by->done) continue;
        double *f = calloc((size_t)c->seeds, sizeof *f);
        if (!f) return vt_manifest_no_memory(t->m, e);
        int n = time_factors(f, c, by, 1);
        if (n) c->mean = vt_median(f, (size_t)n), c->least = f[0], c->most = f[n - 1];
        if (n)
            c->low = vt_median(f, (size_t)time_factors(f, c, by, 0)),
            c->high = vt_median(f, (size_t)time_factors(f, c, by, 2));
        free(f);
        if (c->published >= 0) c->difference = c->mean - t->published->cells[c->published].value;
    }
    return VT_OK;
}

/* Sets c->kind, timed, total and seconds: a round for each seed, NaN if not there (the seed changes no time, but the
 * machine's load may); counts in c->asked and done, t->wanted and done. VT_E_FORMAT: a log lacks times. */
static vt_status read_times(vt_table *t, int row, int data, int attack, vt_table_cell *c, vt_err *e) {
    c->kind = VT_CELL_TIME, c->timed = t->m->attacks[attack].steps;
    c->seconds = calloc((size_t)c->seeds, sizeof *c->seconds);
    if (!c->seconds) return vt_manifest_no_memory(t->m, e);
    for (int s = 0; s < c->seeds; s++) {
        const vt_plan_cell *of = vt_plan_find(t->plan, row, data, attack, t->m->rows[row].seeds[s]);
        for (int q = 0; q < 3; q++) c->seconds[s][q] = NAN;
        if (!of) continue;
        t->wanted++, c->asked++;
        if (of->state != VT_CELL_DONE) continue;
        VT_TRY(vt_times_read(t->plan, of, c->seconds[s], e));
        c->total = c->timed, c->done++, t->done++;
    }
    return VT_OK;
}

/* Sets mean, least and most of the values that are not NaN, and adds their number to done. */
static void summarise_seeds(vt_table_cell *c) {
    double sum = 0;
    for (int s = 0; s < c->seeds; s++) {
        double v = c->value[s];
        if (isnan(v)) continue;
        c->least = c->done ? fmin(c->least, v) : v, c->most = c->done ? fmax(c->most, v) : v;
        sum += v, c->done++;
    }
    if (c->done) c->mean = sum / c->done;
}

/* Sets value, percent right, from right of each seed, then mean, range and done, and Wilson's interval if a seed is
 * there. */
static void compute_accuracies(vt_table_cell *c) {
    for (int s = 0; s < c->seeds; s++) {
        int64_t right = 0;
        for (int64_t i = 0; c->right[s] && i < c->total; i++) right += c->right[s][i];
        if (c->right[s]) c->value[s] = 100.0 * (double)right / (double)c->total;
    }
    summarise_seeds(c);
    if (c->done) vt_wilson(llround(c->mean / 100 * (double)c->total), c->total, &c->low, &c->high);
}

/* Sets c->kind and value, the singular value of each seed's training, then mean, range and (of two or more) Student's
 * interval; counts in c->asked and done, t->wanted and done. VT_E_FORMAT: a finished cell lacks it. */
static vt_status read_sigmas(vt_table *t, int row, int data, int attack, vt_table_cell *c, vt_err *e) {
    double there[64], mean, p;
    int n = 0;
    c->kind = VT_CELL_SIGMA;
    for (int s = 0; s < c->seeds; s++) {
        const vt_plan_cell *of = vt_plan_find(t->plan, row, data, attack, t->m->rows[row].seeds[s]);
        if (!of) continue;
        t->wanted++, c->asked++;
        if (of->state != VT_CELL_DONE) continue;
        VT_TRY(vt_spectra_read(t->plan, of, t->m->attacks[attack].spectrum, &c->value[s], e));
        if (n < 64) there[n++] = c->value[s];
    }
    summarise_seeds(c);
    t->done += c->done;
    if (n > 1) vt_mean_interval(there, n, 0, &mean, &c->low, &c->high, &p);
    return VT_OK;
}

/* Sets all fields of one cell from what is finished, with its published number and (not of times) the difference; adds
 * to t->wanted and done. A cell that is not wanted: NaN, published -1. */
static vt_status fill_cell(vt_table *t, int row, int data, int attack, vt_err *e) {
    const vt_manifest_row *r = &t->m->rows[row];
    vt_table_cell *c = vt_table_at(t, row, data, attack);
    c->published = -1, c->difference = NAN;
    c->wanted = vt_manifest_has(t->m, row, data, attack);
    c->mean = c->low = c->high = c->least = c->most = NAN;
    if (!c->wanted) return VT_OK;
    c->seeds = r->n_seeds;
    c->right = calloc((size_t)c->seeds, sizeof *c->right), c->value = calloc((size_t)c->seeds, sizeof *c->value);
    if (!c->right || !c->value) return vt_manifest_no_memory(t->m, e);
    for (int s = 0; s < c->seeds; s++) c->value[s] = NAN;
    if (t->published) c->published = vt_table_published(t->published, t->m, row, data, attack);
    if (t->m->attacks[attack].steps) return read_times(t, row, data, attack, c, e);
    if (t->m->attacks[attack].spectrum) return read_sigmas(t, row, data, attack, c, e);
    for (int s = 0; s < r->n_seeds; s++) {
        const vt_plan_cell *of = vt_plan_find(t->plan, row, data, attack, r->seeds[s]);
        if (!of) continue;
        t->wanted++, c->asked++;
        if (of->state == VT_CELL_DONE) VT_TRY(read_cell(t, of, c, s, e));
    }
    compute_accuracies(c);
    t->done += c->done;
    if (c->published >= 0) c->difference = c->mean - t->published->cells[c->published].value;
    return VT_OK;
}

/* ---- published numbers ---- */

/* The value under key; NULL: none. */
static const char *find_value(const vt_keyed *k, const char *key) {
    for (int i = 0; i < k->n; i++)
        if (!strcmp(k->pair[i].key, key)) return k->pair[i].value;
    return NULL;
}

int vt_table_published(const vt_published *p, const vt_manifest *m, int row, int data, int attack) {
    const vt_manifest_row *r = &m->rows[row];
    const vt_manifest_data *d = &m->data[data];
    const vt_manifest_attack *a = &m->attacks[attack];
    for (int i = 0; i < p->n; i++) {
        bool fits = true;
        for (int k = 0; k < p->n_keys && fits; k++) {
            const char *key = p->keys[k], *want = find_value(&r->published, key);
            if (!want) want = find_value(&m->match, key);
            if (!want && !strcmp(key, "table")) want = m->table;
            if (!want && !strcmp(key, "method")) want = r->name;
            if (!want && !strcmp(key, "dataset")) want = d->label ? d->label : d->name;
            if (!want && !strcmp(key, "attack")) want = a->label ? a->label : a->name;
            fits = !strcmp(p->cells[i].at[k], want ? want : "");
        }
        if (fits) return i;
    }
    return -1;
}

/* VT_E_USAGE unless the backbones that the manifest calls comparable are in the published file. */
static vt_status check_comparable(const vt_table *t, vt_err *e) {
    for (int i = 0; i < t->m->comparable.n; i++) {
        int k = 0;
        while (k < t->published->n && strcmp(vt_published_at(t->published, k, "backbone"), t->m->comparable.word[i]))
            k++;
        if (k == t->published->n)
            return vt_fail(e, VT_E_USAGE, "%s: comparable names '%.60s', which is no backbone of %s", t->m->path,
                           t->m->comparable.word[i], t->published->path);
    }
    return VT_OK;
}

/* VT_E_USAGE unless `key` is a column of the published file that holds `value`; where: what names them. */
static vt_status check_place(const vt_table *t, const char *where, const char *key, const char *value, vt_err *e) {
    const vt_published *p = t->published;
    if (vt_published_key(p, key) < 0)
        return vt_fail(e, VT_E_USAGE, "%s: %s has '%.40s', which is no column of %s", t->m->path, where, key, p->path);
    for (int i = 0; i < p->n; i++)
        if (!strcmp(vt_published_at(p, i, key), value)) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "%s: %s has the %.40s '%.60s', which is not in %s", t->m->path, where, key, value,
                   p->path);
}

/* VT_E_USAGE unless the columns of the published file that the manifest and its rows name are there, and hold what they
 * are said to be. */
static vt_status check_places(const vt_table *t, vt_err *e) {
    const vt_manifest *m = t->m;
    char where[80];
    if (m->table) VT_TRY(check_place(t, "the manifest", "table", m->table, e));
    for (int i = 0; i < m->match.n; i++)
        VT_TRY(check_place(t, "match", m->match.pair[i].key, m->match.pair[i].value, e));
    for (int r = 0; r < m->n_rows; r++)
        for (int i = 0; i < m->rows[r].published.n; i++) {
            snprintf(where, sizeof where, "row %s", m->rows[r].name);
            VT_TRY(check_place(t, where, m->rows[r].published.pair[i].key, m->rows[r].published.pair[i].value, e));
        }
    return VT_OK;
}

/* Sets t->published and t->odd from the manifest's published file, if it names one, and claims. VT_E_USAGE if a file
 * cannot be read or `comparable` names no backbone of it. */
static vt_status open_published(vt_table *t, vt_err *e) {
    vt_published *claims = NULL;
    if (!t->m->published_file) return VT_OK;
    VT_TRY(vt_published_open(&t->published, t->m->published_file, e));
    VT_TRY(check_comparable(t, e));
    VT_TRY(check_places(t, e));
    vt_status s = t->m->claims_file ? vt_published_open(&claims, t->m->claims_file, e) : VT_OK;
    if (s == VT_OK) s = vt_published_check(&t->odd, t->published, claims, e);
    vt_published_close(claims);
    return s;
}

vt_status vt_table_check_published(const vt_manifest *m, vt_err *e) {
    vt_table t = {.m = m};
    vt_status s = open_published(&t, e);
    vt_oddities_free(&t.odd), vt_published_close(t.published);
    return s;
}

vt_status vt_table_make(vt_table *t, const vt_plan *p, vt_err *e) {
    const vt_manifest *m = p->m;
    *t = (vt_table){.plan = p, .m = m};
    t->cells = calloc((size_t)m->n_rows * (size_t)m->n_data * (size_t)m->n_attacks, sizeof *t->cells);
    if (!t->cells) return vt_manifest_no_memory(t->m, e);
    VT_TRY(open_published(t, e));
    for (int r = 0; r < m->n_rows; r++)
        for (int d = 0; d < m->n_data; d++)
            for (int a = 0; a < m->n_attacks; a++) VT_TRY(fill_cell(t, r, d, a, e));
    for (int d = 0; d < m->n_data; d++)
        for (int a = 0; a < m->n_attacks; a++)
            if (m->attacks[a].steps) VT_TRY(compute_relative_times(t, d, a, e));
    return vt_table_decide(t, e);
}

void vt_table_free(vt_table *t) {
    size_t n = t->cells ? (size_t)t->m->n_rows * (size_t)t->m->n_data * (size_t)t->m->n_attacks : 0;
    for (size_t i = 0; i < n; i++) {
        for (int s = 0; t->cells[i].right && s < t->cells[i].seeds; s++) free(t->cells[i].right[s]);
        free(t->cells[i].right), free(t->cells[i].seconds), free(t->cells[i].images), free(t->cells[i].value);
    }
    free(t->cells), free(t->orderings);
    vt_oddities_free(&t->odd);
    vt_published_close(t->published);
    *t = (vt_table){0};
}
