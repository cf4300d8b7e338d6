/* SPDX-License-Identifier: MIT */
#include "research/table/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/files.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/opt.h"
#include "data/dataset.h"
#include "models/model.h"

/* paths[i]: the folder that --data NAME=PATH gives data set i; VT_E_USAGE if the manifest has no such one. */
static vt_status override_path(const vt_plan *p, const char *word, char **paths, vt_err *e) {
    const char *cut = strchr(word, '=');
    if (!cut || cut == word || !cut[1])
        return vt_fail(e, VT_E_USAGE, "--data is '%.80s', must be NAME=FOLDER with a data set of %s", word, p->m->path);
    for (int i = 0; i < p->m->n_data; i++) {
        const char *name = p->m->data[i].name;
        if (strlen(name) != (size_t)(cut - word) || strncmp(name, word, strlen(name))) continue;
        if (paths[i]) return vt_fail(e, VT_E_USAGE, "--data %.80s: its data set is given twice", word);
        paths[i] = strdup(cut + 1);
        return paths[i] ? VT_OK : vt_manifest_no_memory(p->m, e);
    }
    return vt_fail(e, VT_E_USAGE, "--data %.80s: %s has no such data set", word, p->m->path);
}

/* Sets first, n and key (a text that determines the images) from x->text (NULL: all). of: "images of CIFAR-10". all:
 * images of the split, 0: not known. VT_E_USAGE for a wrong range or an unreadable file. */
static vt_status choose_images(const vt_plan *p, vt_plan_images *x, const char *of, int64_t all, vt_err *e) {
    long long a, b;
    char hex[65];
    x->first = x->text ? -1 : 0;
    if (!x->text) {
        snprintf(x->key, sizeof x->key, "all");
        x->n = all;
        return VT_OK;
    }
    snprintf(x->key, sizeof x->key, "%s", x->text);
    if (!strcmp(x->text, VT_IMAGENETTE_V1)) {
        x->n = VT_IMAGENETTE_V1_COUNT;
        return VT_OK;
    }
    if (!strncmp(x->text, VT_IMAGES_SPREAD, strlen(VT_IMAGES_SPREAD))) {
        x->first = -1;
        if (!vt_parse_int(x->text + strlen(VT_IMAGES_SPREAD), &b) || b < 1 || (all && b > all))
            return vt_fail(e, VT_E_USAGE, "%s: %s is '%.40s', must be spread:N with N from 1 to the number of images",
                           p->m->path, of, x->text);
        x->n = b;
        return VT_OK;
    }
    if (strchr(x->text, ':')) {
        if (!vt_image_range(x->text, &a, &b) || a < 0 || b <= a)
            return vt_fail(e, VT_E_USAGE, "%s: %s is '%.40s', must be A:B with 0 <= A < B, or a file", p->m->path, of,
                           x->text);
        if (all && b > all)
            return vt_fail(e, VT_E_USAGE, "%s: %s is %s, but there are %lld", p->m->path, of, x->text, (long long)all);
        x->first = a;
        x->n = b - a;
        return VT_OK;
    }
    vt_err why = {0};
    if (vt_sha_file(x->text, hex, &why) != VT_OK) return vt_fail(e, VT_E_USAGE, "%s: %s: %s", p->m->path, of, why.text);
    snprintf(x->key, sizeof x->key, "%s", hex);
    return VT_OK;
}

/* Sets the images of each column on data set i: the column's own, or the data set's. VT_E_USAGE, VT_E_MEMORY. */
static vt_status choose_all_images(vt_plan *p, int i, vt_err *e) {
    const vt_manifest_data *d = &p->m->data[i];
    vt_plan_data *x = &p->data[i];
    int64_t all = x->images ? x->images->count : d->test;
    x->of = calloc((size_t)p->m->n_attacks, sizeof *x->of);
    if (!x->of) return vt_manifest_no_memory(p->m, e);
    for (int a = 0; a < p->m->n_attacks; a++) {
        const char *own = p->m->attacks[a].images;
        char of[160];
        snprintf(of, sizeof of, "images of %s%s%s", d->name, own ? " under " : "", own ? p->m->attacks[a].name : "");
        x->of[a].text = own ? own : d->images;
        VT_TRY(choose_images(p, &x->of[a], of, all, e));
    }
    return VT_OK;
}

/* Whether a row with a recipe has a cell on the data set. */
static bool trained_on(const vt_manifest *m, int data) {
    for (int r = 0; r < m->n_rows; r++)
        for (int a = 0; m->rows[r].recipe && a < m->n_attacks; a++)
            if (vt_manifest_has(m, r, data, a)) return true;
    return false;
}

/* Opens data set i's split, and its training split if a row needs it, unless the folder is missing (both stay NULL);
 * chooses images. VT_E_USAGE for an unknown split. */
static vt_status open_data(vt_plan *p, int i, vt_err *e) {
    const vt_manifest_data *d = &p->m->data[i];
    vt_plan_data *x = &p->data[i];
    vt_split which = VT_SPLIT_TEST;
    for (vt_split s = VT_SPLIT_TEST; d->split && s <= VT_SPLIT_VAL; s++)
        if (!strcmp(d->split, vt_split_name(s))) which = s;
    if (d->split && strcmp(d->split, vt_split_name(which)) != 0)
        return vt_fail(e, VT_E_USAGE, "%s: split of %s is '%.40s', must be test, train or val", p->m->path, d->name,
                       d->split);
    if (access(x->path, F_OK) == 0) {
        VT_TRY(vt_dataset_open(&x->images, x->path, which, e));
        if (trained_on(p->m, i)) VT_TRY(vt_dataset_open(&x->train, x->path, VT_SPLIT_TRAIN, e));
    }
    return choose_all_images(p, i, e);
}

/* Opens all data sets with the paths of --data, and allocates inits; VT_E_MEMORY, VT_E_USAGE. */
static vt_status open_all(vt_plan *p, const vt_plan_ask *ask, vt_err *e) {
    char *paths[512] = {0};
    vt_status s = VT_OK;
    p->data = calloc((size_t)p->m->n_data, sizeof *p->data);
    p->inits = calloc((size_t)p->m->n_rows, sizeof *p->inits);
    if (!p->data || !p->inits) return vt_manifest_no_memory(p->m, e);
    for (int i = 0; s == VT_OK && i < ask->n_paths; i++) s = override_path(p, ask->paths[i], paths, e);
    for (int i = 0; i < p->m->n_data; i++) p->data[i].path = paths[i] ? paths[i] : strdup(p->m->data[i].path);
    for (int i = 0; s == VT_OK && i < p->m->n_data; i++)
        s = p->data[i].path ? open_data(p, i, e) : vt_manifest_no_memory(p->m, e);
    return s;
}

/* Appends a cell; VT_E_MEMORY frees what it owns. */
static vt_status add_cell(vt_plan *p, const vt_plan_cell *c, vt_err *e) {
    if (vt_grow(&p->cells, (size_t)p->n, sizeof *c)) {
        p->cells[p->n++] = *c;
        return VT_OK;
    }
    free(c->recipe), json_decref(c->key);
    return vt_manifest_no_memory(p->m, e);
}

/* VT_E_USAGE unless each attack's eps is a number above 0, of linf at most 1. */
static vt_status check_eps(const vt_manifest *m, vt_err *e) {
    for (int i = 0; i < m->n_attacks; i++) {
        double v = 1;
        const vt_manifest_attack *a = &m->attacks[i];
        if (a->eps && (!vt_parse_real(a->eps, &v) || !(v > 0)))
            return vt_fail(e, VT_E_USAGE, "%s: attack %s has eps '%.40s', must be above 0, like 8/255", m->path,
                           a->name, a->eps);
        if (v > 1 && (!a->norm || !strcmp(a->norm, "linf")))
            return vt_fail(e, VT_E_USAGE, "%s: attack %s has eps %s, but linf eps is in pixel units, at most 1",
                           m->path, a->name, a->eps);
    }
    return VT_OK;
}

/* Adds the cells of one row on one data set with one seed: the training first, then one for each column. */
static vt_status add_model(vt_plan *p, int row, int data, uint64_t seed, vt_err *e) {
    const vt_manifest *m = p->m;
    vt_plan_cell c = {.row = row, .data = data, .attack = -1, .seed = seed, .model = -1, .train = true, .tflop = NAN};
    int model = -1;
    bool any = false; /* something to evaluate: timings train nothing to its end */
    for (int a = 0; a < m->n_attacks; a++)
        any = any || (vt_manifest_has(m, row, data, a) && vt_manifest_seeded(m, row, a, seed) && !m->attacks[a].steps);
    if (m->rows[row].recipe && any) {
        vt_status s = vt_plan_key(p, &c, e);
        model = p->n;
        VT_TRY(add_cell(p, &c, e));
        VT_TRY(s);
    }
    for (int a = 0; a < m->n_attacks; a++) {
        if (!vt_manifest_has(m, row, data, a) || !vt_manifest_seeded(m, row, a, seed)) continue;
        int64_t timed = m->attacks[a].steps;
        c = (vt_plan_cell){.row = row,
                           .data = data,
                           .attack = a,
                           .seed = seed,
                           .model = timed ? -1 : model,
                           .timed = timed,
                           .spectrum = m->attacks[a].spectrum != NULL,
                           .tflop = NAN};
        vt_status s = vt_plan_key(p, &c, e);
        VT_TRY(add_cell(p, &c, e));
        VT_TRY(s);
    }
    return VT_OK;
}

/* Sets the state of each cell that has a key, from the cache --out. */
static vt_status read_cell_states(vt_plan *p, vt_err *e) {
    bool there = false;
    if (p->out) VT_TRY(vt_cache_look(p->out, &there, e));
    for (int i = 0; there && i < p->n; i++)
        if (p->cells[i].key) VT_TRY(vt_cell_look(p->out, p->cells[i].hash, p->cells[i].key, &p->cells[i].state, e));
    return VT_OK;
}

/* What --only, --only-data and --only-column leave; all of what is not restricted. */
typedef struct chosen {
    bool rows[512], data[512], columns[512];
} chosen;

/* out [n]: the indices that `only` names, or all if it is empty; VT_E_USAGE names the option. */
static vt_status choose_names(bool *out, const vt_manifest *m, vt_manifest_kind kind, int n, const char *const *only,
                              int n_only, const char *option, vt_err *e) {
    int at;
    for (int i = 0; i < n; i++) out[i] = !n_only;
    for (int i = 0; i < n_only; i++) {
        VT_TRY(vt_manifest_named(m, kind, only[i], option, &at, e));
        out[at] = true;
    }
    return VT_OK;
}

/* Sets *of_all to what --only, --only-data and --only-column leave; VT_E_USAGE for a name that the manifest does not
 * have. */
static vt_status read_restrictions(chosen *of_all, const vt_manifest *m, const vt_plan_ask *ask, vt_err *e) {
    VT_TRY(choose_names(of_all->rows, m, VT_MANIFEST_ROW, m->n_rows, ask->only, ask->n_only, "--only", e));
    VT_TRY(
        choose_names(of_all->data, m, VT_MANIFEST_DATA, m->n_data, ask->only_data, ask->n_only_data, "--only-data", e));
    return choose_names(of_all->columns, m, VT_MANIFEST_ATTACK, m->n_attacks, ask->only_column, ask->n_only_column,
                        "--only-column", e);
}

/* Sets `chosen` by the restrictions and --shard. The cells of one training go to one shard: by the training's hash,
 * without one by the evaluation's; without hashes by row, data and seed. */
static void choose_cells(vt_plan *p, const vt_plan_ask *ask, const chosen *of_all) {
    for (int i = 0; i < p->n; i++) {
        vt_plan_cell *c = &p->cells[i];
        const vt_plan_cell *of = c->model >= 0 ? &p->cells[c->model] : c;
        char text[64], hex[65];
        snprintf(text, sizeof text, "%d %d %llu", of->row, of->data, (unsigned long long)of->seed);
        vt_sha_hex(text, strlen(text), hex);
        unsigned long h = 0;
        sscanf(*of->hash ? of->hash : hex, "%8lx", &h);
        c->chosen = of_all->rows[c->row] && of_all->data[c->data] && (c->attack < 0 || of_all->columns[c->attack]) &&
                    (!ask->shards || (int)(h % (unsigned long)ask->shards) == ask->shard - 1);
    }
}

vt_status vt_plan_make(vt_plan *p, const vt_manifest *m, const vt_plan_ask *ask, vt_err *e) {
    chosen of_all;
    *p = (vt_plan){.m = m, .out = ask->out};
    VT_TRY(read_restrictions(&of_all, m, ask, e));
    VT_TRY(check_eps(m, e));
    VT_TRY(open_all(p, ask, e));
    for (int s = 0, more = 1; more; s++) { /* every row's first seed, then their second: rounds, for what is timed */
        more = 0;
        for (int r = 0; r < m->n_rows; r++)
            for (int d = 0; d < m->n_data && s < m->rows[r].n_seeds; d++, more = 1)
                VT_TRY(add_model(p, r, d, m->rows[r].seeds[s], e));
    }
    choose_cells(p, ask, &of_all);
    return read_cell_states(p, e);
}

void vt_plan_free(vt_plan *p) {
    for (int i = 0; p->data && i < p->m->n_data; i++) {
        free(p->data[i].path), free(p->data[i].of);
        vt_dataset_close(p->data[i].images), vt_dataset_close(p->data[i].train);
    }
    for (int i = 0; i < p->n; i++) json_decref(p->cells[i].key), free(p->cells[i].recipe);
    for (int i = 0; p->inits && i < p->m->n_rows; i++) vt_model_close(p->inits[i]);
    free(p->data), free(p->cells), free(p->inits);
    *p = (vt_plan){0};
}

const vt_plan_cell *vt_plan_find(const vt_plan *p, int row, int data, int attack, uint64_t seed) {
    for (int i = 0; i < p->n; i++) {
        const vt_plan_cell *c = &p->cells[i];
        if (!c->train && c->row == row && c->data == data && c->attack == attack && c->seed == seed) return c;
    }
    return NULL;
}

bool vt_plan_needs(const vt_plan *p, int cell) {
    const vt_plan_cell *c = &p->cells[cell];
    if (!c->chosen || c->state == VT_CELL_DONE) return false;
    if (!c->train) return true;
    for (int i = 0; i < p->n; i++)
        if (p->cells[i].model == cell && p->cells[i].chosen && p->cells[i].state != VT_CELL_DONE) return true;
    return false;
}

/* What a needed cell lacks, without the name: ": FILE does not exist"; NULL: nothing, or it is not needed. */
static const char *missing_file(const vt_plan *p, int cell) {
    return vt_plan_needs(p, cell) ? strstr(p->cells[cell].lacks, ": ") : NULL;
}

int vt_plan_lacking(const vt_plan *p, int cell) {
    const char *what = missing_file(p, cell), *same;
    int n = what != NULL;
    for (int i = 0; i < p->n && n; i++) {
        if (i == cell || !(same = missing_file(p, i)) || strcmp(same, what)) continue;
        n = i < cell ? 0 : n + 1;
    }
    return n;
}

vt_status vt_plan_ready(const vt_plan *p, vt_err *e) {
    char list[1500] = "";
    size_t used = 0;
    for (int i = 0; i < p->n && used < sizeof list; i++)
        if (vt_plan_lacking(p, i))
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? "; " : "", p->cells[i].lacks);
    return used ? vt_fail(e, VT_E_USAGE, "%s: %s", p->m->path, list) : VT_OK;
}

/* Whether the cell is finished here, or has done.json in one of the caches. */
static bool finished_in(const vt_plan_cell *c, const char *const *dirs, int n) {
    char path[VT_PATH_MAX];
    bool done = c->state == VT_CELL_DONE;
    for (int i = 0; i < n && !done && *c->hash; i++)
        done = vt_cell_path(path, dirs[i], c->hash, "done.json", NULL) == VT_OK && access(path, F_OK) == 0;
    return done;
}

/* VT_E_USAGE, with the seeds, if a primary comparison's row lacks cells of a column in the plan's cache and in dirs. */
static vt_status check_row_in(const vt_plan *p, const vt_manifest_primary *of, int row, int column,
                              const char *const *dirs, int n, vt_err *e) {
    const vt_manifest_row *r = &p->m->rows[row];
    char list[120] = "";
    size_t used = 0;
    for (int s = 0; s < r->n_seeds; s++) {
        const vt_plan_cell *c = vt_plan_find(p, row, of->data, column, r->seeds[s]);
        if (!c || finished_in(c, dirs, n) || used + 24 > sizeof list) continue;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%llu", used ? ", " : "",
                                 (unsigned long long)r->seeds[s]);
    }
    if (!used) return VT_OK;
    return vt_fail(e, VT_E_USAGE,
                   "%s: primary %s: row %s, column %s, lacks the seeds %s in these caches: merge all shards at once",
                   p->m->path, of->name, r->name, p->m->attacks[column].name, list);
}

vt_status vt_plan_primary_in(const vt_plan *p, const char *const *dirs, int n, vt_err *e) {
    for (int i = 0; i < p->m->n_primary; i++) {
        const vt_manifest_primary *of = &p->m->primary[i];
        for (int k = -1; k < of->n_rows; k++) {
            int row = k < 0 ? of->above : of->rows[k];
            VT_TRY(check_row_in(p, of, row, of->column, dirs, n, e));
            if (of->at >= 0) VT_TRY(check_row_in(p, of, row, of->at, dirs, n, e));
        }
    }
    return VT_OK;
}

void vt_plan_name(const vt_plan *p, int cell, char *out, size_t size) {
    const vt_plan_cell *c = &p->cells[cell];
    snprintf(out, size, "%s%s, %s%s%s, seed %llu",
             c->train      ? "train "
             : c->timed    ? "time "
             : c->spectrum ? "measure "
                           : "evaluate ",
             p->m->rows[c->row].name, p->m->data[c->data].name, c->train ? "" : ", ",
             c->train ? "" : p->m->attacks[c->attack].name, (unsigned long long)c->seed);
}
