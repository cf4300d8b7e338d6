/* SPDX-License-Identifier: MIT */
#include "table/result.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/files.h"
#include "core/sort.h"
#include "eval/board.h"
#include "eval/summary.h"
#include "table/times.h"

vt_table_cell *vt_table_at(const vt_table *t, int row, int data, int attack) {
    return &t->cells[((size_t)row * (size_t)t->m->n_data + (size_t)data) * (size_t)t->m->n_attacks + (size_t)attack];
}

static vt_status no_memory(const vt_table *t, vt_err *e) {
    return vt_fail(e, VT_E_MEMORY, "%s: no memory", t->m->path);
}

/* ---- what a ledger says ---- */

/* Right under the last entry (the attack, or the clean prediction where there is none), image by image. */
static vt_status judge(uint8_t *right, const vt_ledger *l, const int32_t *images, size_t n, vt_err *e) {
    vt_board b = {0};
    vt_status s = vt_board_open(&b, l->header, images, n, e);
    if (s == VT_OK) s = vt_board_note(&b, l, 0, e);
    for (size_t i = 0; s == VT_OK && i < n; i++) {
        if (!vt_board_done(&b, b.n_entries, i))
            s = vt_fail(e, VT_E_FORMAT, "%s: image %d is not finished, though the cell is", l->dir, images[i]);
        else
            right[i] = vt_board_right(&b, b.n_entries, i);
    }
    vt_board_close(&b);
    return s;
}

/* The first seed's images are the cell's. */
static vt_status take_images(vt_table_cell *cell, const vt_ledger *l, int32_t *images, size_t n, vt_err *e) {
    if (!cell->images) return cell->images = images, cell->total = (int64_t)n, VT_OK;
    bool same = (int64_t)n == cell->total && !memcmp(images, cell->images, n * sizeof *images);
    free(images);
    return same ? VT_OK
                : vt_fail(e, VT_E_FORMAT, "%s: has %zu images, which are not the %lld of another seed", l->dir, n,
                          (long long)cell->total);
}

static void same_text(char *all, size_t size, const char *one) {
    if (!*all)
        snprintf(all, size, "%s", one);
    else if (strcmp(all, one))
        snprintf(all, size, "several");
}

static vt_status read_ledger(vt_table *t, const vt_plan_cell *c, vt_table_cell *cell, int seed, const vt_ledger *l,
                             vt_err *e) {
    int32_t *images = calloc(l->count + 1, sizeof *images);
    if (!images) return no_memory(t, e);
    size_t n = vt_board_images(l, images);
    vt_status s = vt_plan_answers(t->plan, c, l, images, n, e);
    if (s != VT_OK) return free(images), s;
    VT_TRY(take_images(cell, l, images, n, e));
    if (!(cell->right[seed] = calloc(n + 1, 1))) return no_memory(t, e);
    return judge(cell->right[seed], l, cell->images, n, e);
}

static vt_status read_cell(vt_table *t, const vt_plan_cell *c, vt_table_cell *cell, int seed, vt_err *e) {
    char run[VT_PATH_MAX];
    vt_ledger *l;
    VT_TRY(vt_cell_path(run, t->plan->out, c->hash, "run", e));
    VT_TRY(vt_ledger_open(&l, run, e));
    same_text(t->kernels, sizeof t->kernels, vt_header_text(l->header, "blas"));
    same_text(t->version, sizeof t->version, vt_header_text(l->header, "vitrine"));
    vt_status s = read_ledger(t, c, cell, seed, l, e);
    vt_ledger_close(l);
    return s;
}

static bool same_group(const vt_manifest *m, int a, int b) {
    const char *x = m->rows[a].group, *y = m->rows[b].group;
    return x && y ? !strcmp(x, y) : x == y;
}

/* Quartile q of a row's times as a factor of the first row's median, round by round, in order; returns how many. */
static int factors(double *f, const vt_table_cell *c, const vt_table_cell *by, int q) {
    int n = 0;
    for (int s = 0; s < c->seeds && s < by->seeds; s++)
        if (!isnan(c->seconds[s][q] / by->seconds[s][1])) f[n++] = c->seconds[s][q] / by->seconds[s][1];
    vt_sort(f, (size_t)n);
    return n;
}

/* Times as factors of those of the group's first row. */
static vt_status relative(vt_table *t, int data, int attack, vt_err *e) {
    for (int r = 0; r < t->m->n_rows; r++) {
        vt_table_cell *c = vt_table_at(t, r, data, attack);
        int first = 0;
        while (first < r && !(same_group(t->m, first, r) && vt_table_at(t, first, data, attack)->wanted)) first++;
        const vt_table_cell *by = vt_table_at(t, first, data, attack);
        if (!c->done || !by->done) continue;
        double *f = calloc((size_t)c->seeds, sizeof *f);
        if (!f) return no_memory(t, e);
        int n = factors(f, c, by, 1);
        if (n) c->mean = vt_median(f, (size_t)n), c->least = f[0], c->most = f[n - 1];
        if (n)
            c->low = vt_median(f, (size_t)factors(f, c, by, 0)), c->high = vt_median(f, (size_t)factors(f, c, by, 2));
        free(f);
        if (c->published >= 0) c->difference = c->mean - t->published->cells[c->published].value;
    }
    return VT_OK;
}

/* A round of timings for each seed: what is drawn changes no time, what else the machine does may. */
static vt_status read_times(vt_table *t, int row, int data, int attack, vt_table_cell *c, vt_err *e) {
    c->timed = t->m->attacks[attack].steps;
    c->mean = c->low = c->high = c->least = c->most = NAN;
    c->seconds = calloc((size_t)c->seeds, sizeof *c->seconds);
    if (!c->seconds) return no_memory(t, e);
    for (int s = 0; s < c->seeds; s++) {
        const vt_plan_cell *of = vt_plan_find(t->plan, row, data, attack, t->m->rows[row].seeds[s]);
        for (int q = 0; q < 3; q++) c->seconds[s][q] = NAN;
        t->wanted++;
        if (of->state != VT_CELL_DONE) continue;
        VT_TRY(vt_times_read(t->plan, of, c->seconds[s], e));
        c->total = c->timed, c->done++, t->done++;
    }
    return VT_OK;
}

static void numbers(vt_table_cell *c) {
    double sum = 0;
    c->mean = c->least = c->most = c->low = c->high = NAN;
    for (int s = 0; s < c->seeds; s++) {
        int64_t right = 0;
        for (int64_t i = 0; c->right[s] && i < c->total; i++) right += c->right[s][i];
        if (!c->right[s]) continue;
        double percent = 100.0 * (double)right / (double)c->total;
        c->least = c->done ? fmin(c->least, percent) : percent, c->most = c->done ? fmax(c->most, percent) : percent;
        sum += percent, c->done++;
    }
    if (!c->done) return;
    c->mean = sum / c->done;
    vt_wilson(llround(c->mean / 100 * (double)c->total), c->total, &c->low, &c->high);
}

static vt_status fill(vt_table *t, int row, int data, int attack, vt_err *e) {
    const vt_manifest_row *r = &t->m->rows[row];
    vt_table_cell *c = vt_table_at(t, row, data, attack);
    c->published = -1, c->difference = NAN;
    c->wanted = vt_manifest_has(t->m, row, data, attack);
    if (!c->wanted) return c->mean = NAN, VT_OK;
    c->seeds = r->n_seeds;
    c->right = calloc((size_t)c->seeds, sizeof *c->right);
    if (!c->right) return no_memory(t, e);
    if (t->published) c->published = vt_table_published(t->published, t->m, row, data, attack);
    if (t->m->attacks[attack].steps) return read_times(t, row, data, attack, c, e);
    for (int s = 0; s < r->n_seeds; s++) {
        const vt_plan_cell *of = vt_plan_find(t->plan, row, data, attack, r->seeds[s]);
        t->wanted++;
        if (of->state == VT_CELL_DONE) VT_TRY(read_cell(t, of, c, s, e));
    }
    numbers(c);
    t->done += c->done;
    if (c->published >= 0) c->difference = c->mean - t->published->cells[c->published].value;
    return VT_OK;
}

/* ---- published numbers ---- */

static const char *given(const vt_keyed *k, const char *key) {
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
            const char *key = p->keys[k], *want = given(&r->published, key);
            if (!want) want = given(&m->match, key);
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

static vt_status open_published(vt_table *t, vt_err *e) {
    vt_published *claims = NULL;
    if (!t->m->published_file) return VT_OK;
    VT_TRY(vt_published_open(&t->published, t->m->published_file, e));
    vt_status s = t->m->claims_file ? vt_published_open(&claims, t->m->claims_file, e) : VT_OK;
    if (s == VT_OK) s = vt_published_check(&t->odd, t->published, claims, e);
    vt_published_close(claims);
    return s;
}

/* ---- tests ---- */

static bool same_images(const vt_table_cell *a, const vt_table_cell *b) {
    return a->total == b->total &&
           (a->images == b->images || !memcmp(a->images, b->images, (size_t)a->total * sizeof *a->images));
}

vt_mcnemar vt_table_test(const vt_table_cell *a, const uint64_t *seeds_a, int n_a, const vt_table_cell *b,
                         const uint64_t *seeds_b, int n_b, int64_t *more_a, int64_t *more_b, int *seeds) {
    int pairs[64][2], n = 0;
    for (int i = 0; i < n_a; i++)
        for (int k = 0; k < n_b && n < 64; k++)
            if (seeds_a[i] == seeds_b[k] && a->right[i] && b->right[k]) pairs[n][0] = i, pairs[n++][1] = k;
    for (int i = 0; i < n_a && !n; i++) /* no common seed (checkpoints have none of training's): the first of each */
        for (int k = 0; k < n_b && !n; k++)
            if (a->right[i] && b->right[k]) pairs[n][0] = i, pairs[n++][1] = k;
    *more_a = *more_b = 0, *seeds = n && same_images(a, b) ? n : 0;
    for (int64_t i = 0; *seeds && i < a->total; i++) {
        int lead = 0;
        for (int s = 0; s < n; s++) lead += a->right[pairs[s][0]][i] - b->right[pairs[s][1]][i];
        *more_a += lead > 0, *more_b += lead < 0;
    }
    return vt_mcnemar_exact(*more_a, *more_b);
}

static vt_mcnemar test(const vt_table *t, int a, int b, int data, int attack, int64_t *more_a, int64_t *more_b,
                       int *seeds) {
    const vt_manifest_row *x = &t->m->rows[a], *y = &t->m->rows[b];
    return vt_table_test(vt_table_at(t, a, data, attack), x->seeds, x->n_seeds, vt_table_at(t, b, data, attack),
                         y->seeds, y->n_seeds, more_a, more_b, seeds);
}

/* Is row r, whose mean is the highest of its group, better than each other one by the paired test with Holm's
 * correction? */
static bool ahead_of_all(const vt_table *t, int r, int data, int attack, double *p, double *adjusted) {
    int n = 0, seeds;
    int64_t a, b;
    for (int k = 0; k < t->m->n_rows; k++) {
        double mean = vt_table_at(t, k, data, attack)->mean;
        if (k == r || !same_group(t->m, k, r) || isnan(mean)) continue;
        if (mean >= vt_table_at(t, r, data, attack)->mean) return false;
        p[n++] = test(t, r, k, data, attack, &a, &b, &seeds).two_sided;
        if (!seeds || a <= b) return false;
    }
    vt_holm(adjusted, p, n);
    for (int i = 0; i < n; i++)
        if (!(adjusted[i] <= VT_TABLE_ALPHA)) return false;
    return n > 0;
}

static vt_status mark_best(vt_table *t, int data, int attack, vt_err *e) {
    double *p = calloc(2 * (size_t)t->m->n_rows, sizeof *p);
    if (!p) return no_memory(t, e);
    for (int r = 0; r < t->m->n_rows; r++) {
        vt_table_cell *c = vt_table_at(t, r, data, attack);
        c->best = !isnan(c->mean) && ahead_of_all(t, r, data, attack, p, p + t->m->n_rows);
    }
    free(p);
    return VT_OK;
}

/* ---- orderings ---- */

static vt_status add_ordering(vt_table *t, vt_table_ordering o, vt_err *e) {
    if (!vt_table_at(t, o.above, o.data, o.attack)->wanted || !vt_table_at(t, o.below, o.data, o.attack)->wanted)
        return VT_OK;
    vt_table_ordering *more = realloc(t->orderings, (size_t)(t->n_orderings + 1) * sizeof *more);
    if (!more) return no_memory(t, e);
    t->orderings = more;
    more[t->n_orderings++] = o;
    return VT_OK;
}

/* Published cells of one block: they differ in the method, and in what belongs to it, alone. */
static bool comparable(const vt_published *p, int a, int b) {
    static const char *const own[] = {"method", "lambda_q", "lambda_k", "lambda_v", NULL};
    for (int k = 0; k < p->n_keys; k++) {
        bool of_method = false;
        for (int i = 0; own[i]; i++) of_method = of_method || !strcmp(own[i], p->keys[k]);
        if (!of_method && strcmp(p->cells[a].at[k], p->cells[b].at[k])) return false;
    }
    return true;
}

/* A subject against each row that the paper has a number for in the same block, in the paper's direction. */
static vt_status published_orderings(vt_table *t, int data, int attack, const char *name, vt_err *e) {
    int subject;
    if (!t->published) return VT_OK;
    VT_TRY(vt_manifest_row_named(t->m, name, t->m->path, &subject, e));
    const vt_table_cell *s = vt_table_at(t, subject, data, attack);
    for (int r = 0; r < t->m->n_rows; r++) {
        const vt_table_cell *c = vt_table_at(t, r, data, attack);
        if (r == subject || s->published < 0 || c->published < 0) continue;
        if (!comparable(t->published, s->published, c->published)) continue;
        double gap = t->published->cells[s->published].value - t->published->cells[c->published].value;
        if (fabs(gap) < 1e-9) continue; /* the paper orders nothing */
        vt_table_ordering o = {.above = gap > 0 ? subject : r,
                               .below = gap > 0 ? r : subject,
                               .data = data,
                               .attack = attack,
                               .published = true,
                               .gap = fabs(gap)};
        VT_TRY(add_ordering(t, o, e));
    }
    return VT_OK;
}

static vt_status asked_orderings(vt_table *t, int data, int attack, vt_err *e) {
    char above[80], below[80];
    for (int i = 0; i < t->m->orderings.n; i++) {
        vt_table_ordering o = {.data = data, .attack = attack, .gap = NAN};
        vt_ordering_cut(t->m->orderings.word[i], above, below);
        VT_TRY(vt_manifest_row_named(t->m, above, t->m->path, &o.above, e));
        VT_TRY(vt_manifest_row_named(t->m, below, t->m->path, &o.below, e));
        VT_TRY(add_ordering(t, o, e));
    }
    return VT_OK;
}

static vt_status decide(vt_table *t, vt_err *e) {
    double *p = calloc(2 * (size_t)t->n_orderings + 1, sizeof *p), *adjusted = p + t->n_orderings;
    if (!p) return no_memory(t, e);
    for (int i = 0; i < t->n_orderings; i++) {
        vt_table_ordering *o = &t->orderings[i];
        vt_mcnemar x = test(t, o->above, o->below, o->data, o->attack, &o->for_it, &o->against, &o->seeds);
        o->images = o->seeds ? vt_table_at(t, o->above, o->data, o->attack)->total : 0;
        o->p = p[i] = o->seeds ? x.two_sided : NAN;
    }
    vt_holm(adjusted, p, t->n_orderings);
    for (int i = 0; i < t->n_orderings; i++) {
        vt_table_ordering *o = &t->orderings[i];
        bool ahead = o->for_it > o->against;
        o->adjusted = o->seeds ? adjusted[i] : NAN;
        o->verdict =
            vt_claim(ahead && o->seeds ? o->adjusted : 1, !ahead && o->seeds ? o->adjusted : 1, VT_TABLE_ALPHA);
    }
    free(p);
    return VT_OK;
}

vt_status vt_table_make(vt_table *t, const vt_plan *p, vt_err *e) {
    const vt_manifest *m = p->m;
    *t = (vt_table){.plan = p, .m = m};
    t->cells = calloc((size_t)m->n_rows * (size_t)m->n_data * (size_t)m->n_attacks, sizeof *t->cells);
    if (!t->cells) return no_memory(t, e);
    VT_TRY(open_published(t, e));
    for (int r = 0; r < m->n_rows; r++)
        for (int d = 0; d < m->n_data; d++)
            for (int a = 0; a < m->n_attacks; a++) VT_TRY(fill(t, r, d, a, e));
    for (int d = 0; d < m->n_data; d++)
        for (int a = 0; a < m->n_attacks; a++) {
            if (m->attacks[a].steps) { /* factors: no images to test on */
                VT_TRY(relative(t, d, a, e));
                continue;
            }
            VT_TRY(mark_best(t, d, a, e));
            for (int i = 0; i < m->subjects.n; i++) VT_TRY(published_orderings(t, d, a, m->subjects.word[i], e));
            VT_TRY(asked_orderings(t, d, a, e));
        }
    return decide(t, e);
}

void vt_table_free(vt_table *t) {
    size_t n = t->cells ? (size_t)t->m->n_rows * (size_t)t->m->n_data * (size_t)t->m->n_attacks : 0;
    for (size_t i = 0; i < n; i++) {
        for (int s = 0; t->cells[i].right && s < t->cells[i].seeds; s++) free(t->cells[i].right[s]);
        free(t->cells[i].right), free(t->cells[i].seconds), free(t->cells[i].images);
    }
    free(t->cells), free(t->orderings);
    vt_oddities_free(&t->odd);
    vt_published_close(t->published);
    *t = (vt_table){0};
}
