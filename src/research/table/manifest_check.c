/* SPDX-License-Identifier: MIT */
/* What the schema of a manifest cannot say: that names exist, paths lie beside it, and keys agree with each other. */
#include "research/table/manifest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/files.h"
#include "base/mem.h"
#include "base/opt.h"

bool vt_words_have(const vt_words *w, const char *word) {
    for (int i = 0; i < w->n; i++)
        if (!strcmp(w->word[i], word)) return true;
    return false;
}

/* Sets *out to a copy of `text` that m keeps and frees; VT_E_MEMORY. */
static vt_status store_copy(vt_manifest *m, const char **out, const char *text, vt_err *e) {
    if (!vt_grow(&m->joined, (size_t)m->n_joined, sizeof *m->joined)) return vt_manifest_no_memory(m, e);
    if (!(m->joined[m->n_joined] = strdup(text))) return vt_manifest_no_memory(m, e);
    *out = m->joined[m->n_joined++];
    return VT_OK;
}

/* Makes a path (NULL: none) relative to the manifest's folder absolute; VT_E_USAGE if it is too long. */
static vt_status resolve_path(vt_manifest *m, const char **path, vt_err *e) {
    char buf[VT_PATH_MAX];
    if (!*path || **path == '/') return VT_OK;
    if (!vt_path(buf, m->dir, *path)) return vt_fail(e, VT_E_USAGE, "%s: the path %.80s is too long", m->path, *path);
    return store_copy(m, path, buf, e);
}

/* Resolves the path of an option names=FILE.map; other words stay. */
static vt_status resolve_map(vt_manifest *m, const char **word, vt_err *e) {
    char option[VT_PATH_MAX + 8];
    const char *path = *word + 6;
    if (strncmp(*word, "names=", 6) || !strstr(path, ".map")) return VT_OK;
    VT_TRY(resolve_path(m, &path, e));
    snprintf(option, sizeof option, "names=%.*s", VT_PATH_MAX, path);
    return store_copy(m, word, option, e);
}

/* r->seeds: the row's own, or the manifest's, or 0; VT_E_USAGE for a seed that is no number or occurs twice. */
static vt_status read_seeds(const vt_manifest *m, vt_manifest_row *r, vt_err *e) {
    const vt_words *w = r->seed_words.n ? &r->seed_words : &m->seed_words;
    r->seeds = calloc((size_t)w->n + 1, sizeof *r->seeds);
    if (!r->seeds) return vt_manifest_no_memory(m, e);
    r->n_seeds = w->n ? w->n : 1; /* none named: seed 0 */
    for (int i = 0; i < w->n; i++) {
        long long v;
        if (!vt_parse_int(w->word[i], &v) || v < 0 || v > INT32_MAX)
            return vt_fail(e, VT_E_USAGE, "%s: row %s has the seed '%.40s', must be a whole number from 0", m->path,
                           r->name, w->word[i]);
        for (int k = 0; k < i; k++)
            if (r->seeds[k] == (uint64_t)v)
                return vt_fail(e, VT_E_USAGE, "%s: row %s has the seed %lld twice", m->path, r->name, v);
        r->seeds[i] = (uint64_t)v;
    }
    return VT_OK;
}

vt_status vt_manifest_named(const vt_manifest *m, vt_manifest_kind of, const char *name, const char *where, int *out,
                            vt_err *e) {
    static const char *const nouns[] = {"data set", "attack", "row"};
    const char *list[VT_MANIFEST_MOST];
    size_t n = 0;
    int count = of == VT_MANIFEST_DATA ? m->n_data : of == VT_MANIFEST_ATTACK ? m->n_attacks : m->n_rows;
    for (int i = 0; i < count && i < VT_MANIFEST_MOST; i++)
        list[n++] = of == VT_MANIFEST_DATA     ? m->data[i].name
                    : of == VT_MANIFEST_ATTACK ? m->attacks[i].name
                                               : m->rows[i].name;
    for (size_t i = 0; i < n; i++)
        if (!strcmp(list[i], name)) {
            if (out) *out = (int)i;
            return VT_OK;
        }
    const char *near = vt_nearest(name, list, n);
    return vt_fail(e, VT_E_USAGE, "%s: unknown %s '%.60s'%s%s%s", where, nouns[of], name,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

int vt_manifest_row_width(const vt_manifest *m) {
    int width = 26;
    for (int r = 0; r < m->n_rows; r++)
        if ((int)strlen(m->rows[r].name) > width) width = (int)strlen(m->rows[r].name);
    return width;
}

/* VT_E_USAGE unless each of the words names a data set, attack or row. */
static vt_status check_names(const vt_manifest *m, vt_manifest_kind which, const vt_words *w, const char *where,
                             vt_err *e) {
    for (int i = 0; i < w->n; i++) VT_TRY(vt_manifest_named(m, which, w->word[i], where, NULL, e));
    return VT_OK;
}

/* VT_E_USAGE for recipe keys that the manifest's own decide: the seed, which would change nothing. */
static vt_status check_set(const vt_words *w, const char *where, vt_err *e) {
    for (int i = 0; i < w->n; i++)
        if (!strncmp(w->word[i], "seed=", 5))
            return vt_fail(e, VT_E_USAGE, "%s: set has '%.40s': seeds are the key seeds", where, w->word[i]);
    return VT_OK;
}

/* VT_E_USAGE for an option that the manifest's own keys decide. Options are passed to the command that makes a cell
 * after its own words, and the last one counts: one that repeats a key would make the table state what was not
 * measured. */
static vt_status check_options(const vt_words *w, const char *where, vt_err *e) {
    static const char taken[] =
        " data extra images split attack profile surrogate as-published eight-bit eps individual targets norm threat "
        "certify certify-first box patch hours minutes "
        "seed seeds wrap out resume threads init from no-selftest verbose set dry-run expect-robust skip-not-finite "
        "max-steps exhaustive corruption severity json quiet fail-under batch oracle oracle-timeout surrogate-oracle "
        "search ";
    char word[80];
    for (int i = 0; i < w->n; i++) {
        snprintf(word, sizeof word, " %.70s", w->word[i]);
        word[strcspn(word, "=")] = 0;
        if (strstr(taken, strcat(word, " ")))
            return vt_fail(e, VT_E_USAGE,
                           "%s: the option '%.60s' is refused: what is asked of a cell is for the manifest's own keys, "
                           "options say how a model and its images are read",
                           where, w->word[i]);
    }
    return VT_OK;
}

/* Checks one row's keys against each other and its names, makes the paths of its recipe and maps absolute, and reads
 * its seeds. VT_E_USAGE, VT_E_MEMORY. */
static vt_status check_row(vt_manifest *m, vt_manifest_row *r, vt_err *e) {
    char where[400];
    snprintf(where, sizeof where, "%.300s: row %.60s", m->path, r->name);
    if (!r->recipe == !r->checkpoint)
        return vt_fail(e, VT_E_USAGE, "%s needs a recipe or a checkpoint%s", where, r->recipe ? ", not both" : "");
    if (r->checkpoint && (r->set.n || r->set_for || r->init || r->weights || r->init_options.n))
        return vt_fail(e, VT_E_USAGE, "%s is a checkpoint: set, set_for, init, init_options and weights are of recipes",
                       where);
    if (!r->init && r->init_options.n) return vt_fail(e, VT_E_USAGE, "%s has init_options, and no init", where);
    if (r->weights && strcmp(r->weights, "last") && strcmp(r->weights, "best"))
        return vt_fail(e, VT_E_USAGE, "%s: weights is '%.40s', must be last or best", where, r->weights);
    VT_TRY(check_options(&r->options, where, e));
    VT_TRY(check_options(&r->init_options, where, e));
    VT_TRY(check_set(&r->set, where, e));
    VT_TRY(check_names(m, VT_MANIFEST_ATTACK, &r->attacks, where, e));
    VT_TRY(check_names(m, VT_MANIFEST_DATA, &r->data, where, e));
    for (int a = 0; r->checkpoint && a < m->n_attacks; a++)
        if (m->attacks[a].steps && (!r->attacks.n || vt_words_have(&r->attacks, m->attacks[a].name)))
            return vt_fail(e, VT_E_USAGE, "%s is a checkpoint, which has no training steps to time (%s)", where,
                           m->attacks[a].name);
    if (r->set_for && r->set_for->kind != VT_YAML_MAP)
        return vt_fail(e, VT_E_USAGE, "%s:%d: %s takes data sets, each with recipe keys", m->path, r->set_for->line,
                       r->set_for->key);
    for (int i = 0; r->set_for && i < r->set_for->n; i++) {
        const vt_yaml_node *x = &r->set_for->items[i];
        VT_TRY(vt_manifest_named(m, VT_MANIFEST_DATA, x->key, where, NULL, e));
        vt_words w = {0};
        vt_status s = vt_manifest_words(m, &w, x, e);
        if (s == VT_OK) s = check_set(&w, where, e);
        free(w.word);
        VT_TRY(s);
    }
    VT_TRY(resolve_path(m, &r->recipe, e));
    for (int i = 0; i < r->init_options.n; i++) VT_TRY(resolve_map(m, &r->init_options.word[i], e));
    return read_seeds(m, r, e);
}

/* Whether the word is that seed. */
static bool is_seed(const char *word, uint64_t seed) {
    long long v;
    return vt_parse_int(word, &v) && v >= 0 && (uint64_t)v == seed;
}

/* VT_E_USAGE unless subjects and orderings name rows, an ordering as "ROW > ROW". */
static vt_status check_orderings(const vt_manifest *m, vt_err *e) {
    char above[80], below[80];
    VT_TRY(check_names(m, VT_MANIFEST_ROW, &m->subjects, m->path, e));
    for (int i = 0; i < m->orderings.n; i++) {
        if (!vt_ordering_cut(m->orderings.word[i], above, below))
            return vt_fail(e, VT_E_USAGE, "%s: the ordering '%.80s' is not of the form ROW > ROW", m->path,
                           m->orderings.word[i]);
        VT_TRY(vt_manifest_named(m, VT_MANIFEST_ROW, above, m->path, NULL, e));
        VT_TRY(vt_manifest_named(m, VT_MANIFEST_ROW, below, m->path, NULL, e));
        if (!strcmp(above, below))
            return vt_fail(e, VT_E_USAGE, "%s: the ordering '%.80s' compares a row with itself", m->path,
                           m->orderings.word[i]);
    }
    return VT_OK;
}

/* VT_E_USAGE unless a column's keys fit together: an attack, steps, or a spectrum. */
static vt_status check_column(const vt_manifest *m, const vt_manifest_attack *a, vt_err *e) {
    static const char *const of = "spec, eps, norm and images are of attacks";
    bool attack = a->spec || a->norm || a->images;
    if (a->orderings && strcmp(a->orderings, "none"))
        return vt_fail(e, VT_E_USAGE, "%s: attack %s has the orderings '%.40s', must be none (or left out)", m->path,
                       a->name, a->orderings);
    if (a->certify && (a->spec || a->steps || a->spectrum))
        return vt_fail(e, VT_E_USAGE, "%s: attack %s is a certificate: spec, steps and spectrum are of other columns",
                       m->path, a->name);
    if (a->steps && attack)
        return vt_fail(e, VT_E_USAGE, "%s: attack %s has steps, which are timed: %s", m->path, a->name, of);
    if (!a->spectrum) return VT_OK;
    if (attack || a->steps)
        return vt_fail(e, VT_E_USAGE, "%s: attack %s is a spectrum: %s, steps of timings", m->path, a->name, of);
    if (strcmp(a->spectrum, "q") && strcmp(a->spectrum, "k") && strcmp(a->spectrum, "v"))
        return vt_fail(e, VT_E_USAGE, "%s: attack %s has the spectrum '%.40s', must be q, k or v", m->path, a->name,
                       a->spectrum);
    return VT_OK;
}

/* VT_E_USAGE unless each seed that a column names is one of some row's, and each row of the column has one. */
static vt_status check_column_seeds(const vt_manifest *m, int attack, vt_err *e) {
    const vt_manifest_attack *a = &m->attacks[attack];
    for (int i = 0; i < a->seed_words.n; i++) {
        bool found = false;
        for (int r = 0; r < m->n_rows && !found; r++)
            for (int s = 0; s < m->rows[r].n_seeds; s++)
                found = found || is_seed(a->seed_words.word[i], m->rows[r].seeds[s]);
        if (!found)
            return vt_fail(e, VT_E_USAGE, "%s: attack %s has the seed '%.40s', which no row has", m->path, a->name,
                           a->seed_words.word[i]);
    }
    for (int r = 0; r < m->n_rows; r++) {
        bool any = m->rows[r].attacks.n && !vt_words_have(&m->rows[r].attacks, a->name);
        for (int s = 0; s < m->rows[r].n_seeds; s++) any = any || vt_manifest_seeded(m, r, attack, m->rows[r].seeds[s]);
        if (!any)
            return vt_fail(e, VT_E_USAGE, "%s: row %s has no seed of the column %s", m->path, m->rows[r].name, a->name);
    }
    return VT_OK;
}

/* VT_E_USAGE unless the row has its cells, of a seed that the comparison's first row has too. */
static vt_status check_primary_row(const vt_manifest *m, const vt_manifest_primary *p, int row, const char *where,
                                   vt_err *e) {
    int common = 0;
    for (int k = 0; k < 2; k++) {
        int column = k ? p->at : p->column;
        if (column >= 0 && !vt_manifest_has(m, row, p->data, column))
            return vt_fail(e, VT_E_USAGE, "%s: row %s has no cell in the column %s", where, m->rows[row].name,
                           m->attacks[column].name);
    }
    for (int i = 0; i < m->rows[row].n_seeds; i++)
        for (int k = 0; k < m->rows[p->above].n_seeds; k++) {
            uint64_t seed = m->rows[row].seeds[i];
            common += seed == m->rows[p->above].seeds[k] && vt_manifest_seeded(m, row, p->column, seed) &&
                      (p->at < 0 || vt_manifest_seeded(m, row, p->at, seed));
        }
    if (common) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "%s: rows %s and %s have no seed in common", where, m->rows[p->above].name,
                   m->rows[row].name);
}

/* Sets *out to the index of the column of that name; VT_E_USAGE if it holds no accuracy. */
static vt_status accuracy_column(const vt_manifest *m, const char *name, const char *where, int *out, vt_err *e) {
    VT_TRY(vt_manifest_named(m, VT_MANIFEST_ATTACK, name, where, out, e));
    if (vt_manifest_accuracy(m, *out)) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "%s: the column %s holds no accuracy", where, name);
}

/* Checks a primary comparison and sets its indices and rows (data: 0 if there is one alone; at: -1 without one).
 * VT_E_USAGE, VT_E_MEMORY. */
static vt_status check_primary(const vt_manifest *m, vt_manifest_primary *p, vt_err *e) {
    char where[400];
    snprintf(where, sizeof where, "%.300s: primary %.60s", m->path, p->name);
    const vt_words below = {.word = &p->below_name, .n = 1}, *rows = p->below_name ? &below : &p->frontier_names;
    if (!p->above_name || !p->column_name || !p->below_name == !p->frontier_names.n)
        return vt_fail(e, VT_E_USAGE, "%s needs above, column, and below or frontier", where);
    if (!p->frontier_names.n != !p->at_name || p->frontier_names.n == 1)
        return vt_fail(e, VT_E_USAGE, "%s: a frontier has two rows or more, and the column that they are compared `at`",
                       where);
    if (!p->data_name && m->n_data > 1) return vt_fail(e, VT_E_USAGE, "%s needs data: there are several", where);
    VT_TRY(vt_manifest_named(m, VT_MANIFEST_ROW, p->above_name, where, &p->above, e));
    VT_TRY(accuracy_column(m, p->column_name, where, &p->column, e));
    p->at = -1;
    if (p->at_name) VT_TRY(accuracy_column(m, p->at_name, where, &p->at, e));
    if (p->data_name) VT_TRY(vt_manifest_named(m, VT_MANIFEST_DATA, p->data_name, where, &p->data, e));
    if (!(p->rows = calloc((size_t)rows->n, sizeof *p->rows))) return vt_manifest_no_memory(m, e);
    VT_TRY(check_primary_row(m, p, p->above, where, e));
    for (; p->n_rows < rows->n; p->n_rows++) {
        VT_TRY(vt_manifest_named(m, VT_MANIFEST_ROW, rows->word[p->n_rows], where, &p->rows[p->n_rows], e));
        if (p->rows[p->n_rows] == p->above)
            return vt_fail(e, VT_E_USAGE, "%s: row %s is compared with itself", where, p->above_name);
        for (int i = 0; i < p->n_rows; i++)
            if (p->rows[i] == p->rows[p->n_rows])
                return vt_fail(e, VT_E_USAGE, "%s: row %s stands twice in the frontier", where, rows->word[p->n_rows]);
        VT_TRY(check_primary_row(m, p, p->rows[p->n_rows], where, e));
    }
    return VT_OK;
}

/* VT_E_USAGE if an earlier primary comparison is the same one, in either direction: the correction would count it
 * twice. */
static vt_status refuse_repeated(const vt_manifest *m, int i, vt_err *e) {
    const vt_manifest_primary *p = &m->primary[i];
    for (int k = 0; k < i; k++) {
        const vt_manifest_primary *q = &m->primary[k];
        if (p->at >= 0 || q->at >= 0 || p->column != q->column || p->data != q->data) continue;
        if ((p->above == q->above && p->rows[0] == q->rows[0]) || (p->above == q->rows[0] && p->rows[0] == q->above))
            return vt_fail(e, VT_E_USAGE, "%s: primary %s compares what primary %s does", m->path, p->name, q->name);
    }
    return VT_OK;
}

/* Checks a calibration and sets its indices and rows (data: 0 if there is one alone). VT_E_USAGE, VT_E_MEMORY. */
static vt_status check_calibration(const vt_manifest *m, vt_manifest_calibration *c, vt_err *e) {
    char where[400];
    snprintf(where, sizeof where, "%.300s: calibration %.60s", m->path, c->name);
    if (!c->row_names.n || !c->points.n == !c->column_name)
        return vt_fail(e, VT_E_USAGE, "%s needs rows, and either a column or points", where);
    double at, last = -INFINITY, score;
    for (int i = 0; i < c->points.n; last = at, i++) {
        const char *key = c->points.pair[i].key, *value = c->points.pair[i].value;
        if (!vt_parse_real(value, &score))
            return vt_fail(e, VT_E_USAGE, "%s: the point %.40s is '%.40s', must be a number", where, key, value);
        if (!vt_parse_real(key, &at) || !(at > last))
            return vt_fail(e, VT_E_USAGE,
                           "%s: the points must be numbers in ascending order, but '%.40s' is not above "
                           "the one before it",
                           where, key);
    }
    if (!c->data_name && m->n_data > 1) return vt_fail(e, VT_E_USAGE, "%s needs data: there are several", where);
    if (c->data_name) VT_TRY(vt_manifest_named(m, VT_MANIFEST_DATA, c->data_name, where, &c->data, e));
    if (c->column_name) VT_TRY(accuracy_column(m, c->column_name, where, &c->column, e));
    if (!(c->rows = calloc((size_t)c->row_names.n, sizeof *c->rows))) return vt_manifest_no_memory(m, e);
    for (; c->n_rows < c->row_names.n; c->n_rows++) {
        int *row = &c->rows[c->n_rows];
        VT_TRY(vt_manifest_named(m, VT_MANIFEST_ROW, c->row_names.word[c->n_rows], where, row, e));
        if (c->column_name && !vt_manifest_has(m, *row, c->data, c->column))
            return vt_fail(e, VT_E_USAGE, "%s: row %s has no cell in the column %s", where, m->rows[*row].name,
                           c->column_name);
    }
    return VT_OK;
}

/* Checks a figure and sets its indices (data: 0 if there is one alone). VT_E_USAGE: x, y or, of several, data is not
 * given or is no column's or data's name. */
static vt_status check_figure(const vt_manifest *m, vt_manifest_figure *f, vt_err *e) {
    char where[400];
    snprintf(where, sizeof where, "%.300s: figure %.60s", m->path, f->name);
    if (!f->x_name || !f->y_name) return vt_fail(e, VT_E_USAGE, "%s needs x and y, two columns", where);
    if (!f->data_name && m->n_data > 1) return vt_fail(e, VT_E_USAGE, "%s needs data: there are several", where);
    if (f->data_name) VT_TRY(vt_manifest_named(m, VT_MANIFEST_DATA, f->data_name, where, &f->data, e));
    VT_TRY(accuracy_column(m, f->x_name, where, &f->x, e));
    return accuracy_column(m, f->y_name, where, &f->y, e);
}

vt_status vt_manifest_check(vt_manifest *m, vt_err *e) {
    if (!m->name ||
        strspn(m->name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != strlen(m->name) ||
        *m->name == '.' || !strcmp(m->name, "cache"))
        return vt_fail(e, VT_E_USAGE, "%s: name must be a word of letters, digits, '.', '_' and '-', and not cache",
                       m->path);
    static const char *const needed[] = {"data", "attacks", "rows"};
    for (int i = 0; i < 3; i++)
        if (!vt_yaml_get(m->tree, needed[i])) return vt_fail(e, VT_E_USAGE, "%s: has no %s", m->path, needed[i]);
    for (int i = 0; i < m->n_data; i++) {
        char where[400];
        snprintf(where, sizeof where, "%.300s: data %.60s", m->path, m->data[i].name);
        if (!m->data[i].path) return vt_fail(e, VT_E_USAGE, "%s has no path", where);
        VT_TRY(check_options(&m->data[i].options, where, e));
        VT_TRY(check_set(&m->data[i].set, where, e));
    }
    for (int i = 0; i < m->n_attacks; i++) {
        const vt_manifest_attack *a = &m->attacks[i];
        if (!(a->spec || a->certify) != !a->eps)
            return vt_fail(e, VT_E_USAGE, "%s: attack %s needs spec and eps (or neither: clean accuracy)", m->path,
                           a->name);
        VT_TRY(check_column(m, a, e));
        VT_TRY(check_names(m, VT_MANIFEST_DATA, &a->data, m->path, e));
    }
    for (int i = 0; i < m->n_rows; i++) VT_TRY(check_row(m, &m->rows[i], e));
    for (int i = 0; i < m->n_attacks; i++) VT_TRY(check_column_seeds(m, i, e));
    for (int i = 0; i < m->n_primary; i++) {
        VT_TRY(check_primary(m, &m->primary[i], e));
        VT_TRY(refuse_repeated(m, i, e));
    }
    VT_TRY(resolve_path(m, &m->published_file, e));
    VT_TRY(resolve_path(m, &m->claims_file, e));
    for (int i = 0; i < m->n_calibrations; i++) VT_TRY(check_calibration(m, &m->calibrations[i], e));
    for (int i = 0; i < m->n_figures; i++) VT_TRY(check_figure(m, &m->figures[i], e));
    return check_orderings(m, e);
}

bool vt_manifest_has(const vt_manifest *m, int row, int data, int attack) {
    const vt_manifest_row *r = &m->rows[row];
    const vt_manifest_attack *a = &m->attacks[attack];
    return (!r->attacks.n || vt_words_have(&r->attacks, a->name)) &&
           (!r->data.n || vt_words_have(&r->data, m->data[data].name)) &&
           (!a->data.n || vt_words_have(&a->data, m->data[data].name));
}

bool vt_manifest_seeded(const vt_manifest *m, int row, int attack, uint64_t seed) {
    const vt_words *w = &m->attacks[attack].seed_words;
    const vt_manifest_row *r = &m->rows[row];
    bool has = false, wanted = !w->n;
    for (int i = 0; i < r->n_seeds; i++) has = has || r->seeds[i] == seed;
    for (int i = 0; i < w->n; i++) wanted = wanted || is_seed(w->word[i], seed);
    return has && wanted;
}

bool vt_manifest_accuracy(const vt_manifest *m, int attack) {
    return !m->attacks[attack].steps && !m->attacks[attack].spectrum;
}
