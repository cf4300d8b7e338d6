/* SPDX-License-Identifier: MIT */
#include "checkpoint/names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/files.h"
#include "base/opt.h"
#include "base/text.h"
#include "tensors/tensors.h"
#include "checkpoint/steps.h"
#include "models/detect.h"

static const vt_names_map maps[] = {
#include "maps.inc"
};
enum { MAPS = sizeof maps / sizeof *maps, MAX_FILE = 1 << 20 };

const vt_names_map *vt_names_maps(int *n) {
    *n = MAPS;
    return maps;
}

void vt_names_close(vt_names *n) {
    free(n->map);
    n->map = NULL;
}

/* Adds what a map that an option names sets to the metadata, where they lack the key: detection looks there
 * (no_embed_class). Nothing for a map that no option names. */
static vt_status add_map_metadata(const vt_names *n, vt_tensors *st, vt_err *e) {
    for (int i = 0; n->asked && i < n->map->n_pairs; i++) {
        const char *key = n->map->pairs[i].key, *value = n->map->pairs[i].value;
        if (vt_tensors_meta(st, key)) continue;
        const char *k = vt_tensors_text(st, e, "%s", key), *v = vt_tensors_text(st, e, "%s", value);
        if (!k || !v) return vt_fail(e, VT_E_MEMORY, "%s: no memory", vt_tensors_path(st));
        VT_TRY(vt_tensors_add_meta(st, k, v, e));
    }
    return VT_OK;
}

/* Parses a map; for a classifier beside the prefix (n->beside) with a line more that renames it to head., and the map's
 * own lines for head. as maybe. */
static vt_status parse_map(const vt_names *n, vt_rename **map, const char *text, size_t size, const char *who,
                           vt_err *e) {
    char *all = malloc(size + 160);
    if (!all) return vt_fail(e, VT_E_MEMORY, "%s: no memory", who);
    int at = n->beside ? snprintf(all, 160, "maybe %s* -> head.*\n", n->beside) : 0;
    memcpy(all + at, text, size);
    vt_status s = vt_rename_parse(map, all, size + (size_t)at, who, e);
    free(all);
    for (int i = 0; s == VT_OK && n->beside && i < (*map)->count; i++) {
        vt_rename_rule *r = &(*map)->rules[i];
        r->maybe = r->maybe || (r->to == 1 && !strncmp(r->ours[0], "head.", 5));
    }
    return s;
}

/* Is it Swin's table of which row of the bias belongs to two places of a window: by their distance, rows first? */
static bool is_usual_index(const vt_tensors *st, const vt_tensor *t) {
    int64_t side = 1, *all = calloc(t->numel + 1, sizeof *all);
    while ((size_t)(side * side * side * side) < t->numel) side++;
    const int64_t n = side * side, wide = 2 * side - 1;
    bool usual = all && (size_t)(n * n) == t->numel && vt_tensor_i64(st, t, all, t->numel, NULL) == VT_OK;
    for (int64_t i = 0; usual && i < n * n; i++) {
        const int64_t a = i / n, b = i % n;
        usual = all[i] == (a / side - b / side + side - 1) * wide + a % side - b % side + side - 1;
    }
    free(all);
    return usual;
}

/* Fails with VT_E_FORMAT if a table of relative positions that the map left out is not the one that follows from the
 * window. */
static vt_status check_left_out(const vt_names *n, const vt_tensors *st, vt_err *e) {
    static const char end[] = ".relative_position_index";
    for (int i = 0; i < n->n_rows; i++) {
        const vt_tensor *t = &n->rows[i].was;
        const size_t len = strlen(t->name);
        if (n->rows[i].became || len < sizeof end || strcmp(t->name + len + 1 - sizeof end, end)) continue;
        if (t->dtype == VT_I64 && !is_usual_index(st, t))
            return vt_fail(e, VT_E_FORMAT,
                           "%s: tensor %s holds other relative positions than Swin's own, which vitrine does not "
                           "compute; " VT_WAY,
                           vt_tensors_path(st), n->rows[i].origin);
    }
    return VT_OK;
}

/* Renames st by n->map, or by this text if there is none, and makes the head canonical; sets n's map, rows and assumed,
 * and st's metadata. all_lines: each must fit a tensor. */
static vt_status apply_map(vt_names *n, vt_tensors *st, const char *text, size_t size, const char *who, bool all_lines,
                           vt_err *e) {
    if (!n->map) VT_TRY(parse_map(n, &n->map, text, size, who, e));
    const char *set = n->asked ? vt_rename_value(n->map, "patch_order") : NULL;
    n->map->patch_order = n->order ? n->order : set ? set : vt_tensors_meta(st, "patch_order");
    VT_TRY(vt_rename_apply(n->map, st, all_lines, &n->rows, &n->n_rows, e));
    VT_TRY(check_left_out(n, st, e));
    VT_TRY(vt_head_settle(st, n->rows, n->n_rows, n->assumed, e));
    if (n->beside && !*n->assumed) snprintf(n->assumed, sizeof n->assumed, "no activation before it");
    return add_map_metadata(n, st, e);
}

/* Has the state dict a classifier by that library's pattern, names that begin with `beside` (or NULL) apart? */
static bool has_head(const vt_names_def *d, const vt_tensors *st, const char *beside) {
    vt_binding b;
    for (int i = 0; i < vt_tensors_count(st); i++) {
        const char *name = vt_tensors_at(st, i)->name;
        if (vt_pattern_match(d->head, name, &b) && !(beside && !strncmp(name, beside, strlen(beside)))) return true;
    }
    return false;
}

/* Renames st by the map of a library; sets n->naming and n->def. VT_E_FORMAT: it has no classifier, or one that no map
 * can read. */
static vt_status use_library(vt_names *n, vt_tensors *st, const vt_names_def *d, vt_err *e) {
    char who[80];
    snprintf(n->naming, sizeof n->naming, "%s", d->name);
    snprintf(who, sizeof who, "the names of %s", d->name);
    n->def = d;
    VT_TRY(vt_names_refuse(st, d, e));
    if (!n->beside && !has_head(d, st, NULL))
        return vt_fail(e, VT_E_FORMAT,
                       "%s: is a base model without classifier: save the state_dict of the whole model, or fine-tune "
                       "it with a classifier first",
                       vt_tensors_path(st));
    if (n->beside && has_head(d, st, n->beside))
        return vt_fail(e, VT_E_FORMAT,
                       "%s: has a classifier of its own and %s* behind it, an MLP of 2 layers: vitrine computes a "
                       "classifier of one matrix; " VT_WAY,
                       vt_tensors_path(st), n->beside);
    bool pooler = vt_detect_any(st, "", "pooler.dense.weight");
    if (n->beside && (d->own_class || pooler))
        return vt_fail(e, VT_E_FORMAT,
                       "%s: what the classifier %s* reads of this network (%s), no name tells%s: `vitrine map FILE > "
                       "my.map` writes a map to fill in, for @names MAP",
                       vt_tensors_path(st), n->beside, d->name,
                       pooler ? ", its pooler or not (add_pooling_layer=False leaves that out)" : "");
    char *text = vt_names_known_map(st, d);
    vt_status s = text ? apply_map(n, st, text, strlen(text), who, false, e) : vt_fail(e, VT_E_MEMORY, "no memory");
    free(text);
    return s;
}

/* ---- by an option ---- */

/* Fails with VT_E_USAGE for a name that is neither a file nor built in, with the nearest one; err: errno of the
 * file. */
static vt_status fail_no_such_map(const char *path, int err, vt_err *e) {
    int n;
    const vt_names_def *defs = vt_names_defs(&n);
    const char *known[MAPS + 16];
    for (int i = 0; i < n; i++) known[i] = defs[i].name;
    for (int i = 0; i < MAPS; i++) known[n + i] = maps[i].name;
    const char *near = vt_nearest(path, known, (size_t)(n + MAPS));
    return vt_fail(e, VT_E_USAGE, "@names is '%.200s', which is neither a file (%s) nor a known scheme%s%s%s", path,
                   strerror(err), near ? "; did you mean '" : "", near ? near : " (vitrine list formats shows them)",
                   near ? "'?" : "");
}

/* Renames st by a map file, whose lines must all fit; sets n->naming. VT_E_USAGE: there is no such file. */
static vt_status use_map_file(vt_names *n, vt_tensors *st, const char *path, vt_err *e) {
    char *text;
    size_t size;
    if (access(path, F_OK) != 0) return fail_no_such_map(path, errno, e);
    VT_TRY(vt_file_read(path, MAX_FILE, &text, &size, e));
    const char *slash = strrchr(path, '/');
    snprintf(n->naming, sizeof n->naming, "map %.70s", slash ? slash + 1 : path);
    vt_status s = apply_map(n, st, text, size, path, true, e);
    free(text);
    return s;
}

/* Renames st by what an option names: a library, a map that is compiled in, or a file; sets n->asked and n->naming. */
static vt_status use_named_map(vt_names *n, vt_tensors *st, const char *wish, vt_err *e) {
    n->asked = true;
    if (vt_names_def_named(wish)) return use_library(n, st, vt_names_def_named(wish), e);
    for (int i = 0; i < MAPS; i++) {
        if (strcmp(maps[i].name, wish)) continue;
        char who[80];
        snprintf(who, sizeof who, "map %s", wish);
        snprintf(n->naming, sizeof n->naming, "%s", who);
        return apply_map(n, st, maps[i].text, strlen(maps[i].text), who, true, e);
    }
    return use_map_file(n, st, wish, e);
}

/* ---- by content ---- */

/* Finds the map of maps/ that covers st, one without a `maybe` before those that have some; sets n's map, own_map and
 * naming, or leaves them. VT_E_FORMAT: two alike cover it. */
static vt_status find_covering_map(vt_names *n, const vt_tensors *st, vt_err *e) {
    for (int i = 0; i < MAPS; i++) {
        char who[80];
        vt_rename *m;
        snprintf(who, sizeof who, "map %s", maps[i].name);
        VT_TRY(parse_map(n, &m, maps[i].text, strlen(maps[i].text), who, e));
        bool better = n->map && !m->inexact && n->map->inexact, worse = n->map && m->inexact && !n->map->inexact;
        if (worse || !vt_rename_covers(m, st)) {
            free(m);
        } else if (n->map && !better) {
            vt_status s = vt_fail(e, VT_E_FORMAT, "%s: %s and %s both cover its tensors: name one with @names",
                                  vt_tensors_path(st), n->map->who, who);
            free(m);
            return s;
        } else {
            free(n->map), n->map = m, n->own_map = maps[i].name;
            snprintf(n->naming, sizeof n->naming, "map %.40s, whose patterns cover the file", maps[i].name);
        }
    }
    return VT_OK;
}

/* Is it a classifier that was saved alone: a matrix, and vectors that belong to it? */
static bool is_head_alone(const vt_tensors *st) {
    int matrices = 0, n = vt_tensors_count(st);
    for (int i = 0; i < n; i++) {
        const vt_tensor *t = vt_tensors_at(st, i);
        if (t->ndim > 2 || !strchr(t->name, '.') || strchr(t->name, '.') != strrchr(t->name, '.')) return false;
        matrices += t->ndim == 2;
    }
    return matrices == 1 && n <= 6;
}

/* Fails with VT_E_FORMAT for names that nothing knows, with what to do. */
static vt_status fail_unknown_naming(const vt_tensors *st, vt_err *e) {
    char some[300] = "";
    for (int i = 0; i < vt_tensors_count(st) && i < 3; i++)
        vt_text_item(some, sizeof some, ", ", "%.80s", vt_tensors_at(st, i)->name);
    if (is_head_alone(st))
        return vt_fail(e, VT_E_FORMAT,
                       "%s: is a classifier without its network (%s): save the state_dict of the whole model",
                       vt_tensors_path(st), some);
    const char *parts = *st->inside ? st->inside : st->parts;
    return vt_fail(e, VT_E_FORMAT,
                   "%s: no known naming scheme fits its tensors (%s%s): %s%s%s%sfor a Vision Transformer `vitrine map "
                   "FILE > my.map` writes a map of them to fill in, for @names MAP; any other network is evaluated "
                   "where it runs, say in PyTorch, by `vitrine eval @oracle`",
                   vt_tensors_path(st), *some ? some : "there are none", vt_tensors_count(st) > 3 ? ", ..." : "",
                   *parts ? vt_argument("part") : "", *parts ? " NAME reads one of its parts (" : "", parts,
                   *parts ? "); " : "");
}

vt_status vt_names_blame(const vt_names *n, const vt_tensors *st, vt_status s, vt_err *e) {
    bool about = s == VT_E_FORMAT || s == VT_E_SHAPE || s == VT_E_USAGE || s == VT_E_RANGE;
    const char *known_as = about ? vt_unsupported_network(st, n->rows, n->n_rows) : NULL;
    return known_as ? vt_fail(e, VT_E_FORMAT, "%s: is %s; " VT_READS, vt_tensors_path(st), known_as) : s;
}

bool vt_names_linear(const vt_names *n) {
    for (int i = 0; i < n->n_rows; i++)
        if (n->rows[i].became && !strcmp(n->rows[i].became, "patch_embed.proj.weight")) return n->rows[i].was.ndim == 2;
    return false;
}

vt_status vt_names_fit(vt_fit *out, const vt_tensors *st, bool beside, vt_err *e) {
    vt_names n = {.beside = beside ? "beside." : NULL};
    *out = VT_FIT_NONE;
    vt_status s = find_covering_map(&n, st, e);
    if (n.map) *out = VT_FIT_WHOLE;
    vt_names_close(&n);
    if (s == VT_E_MEMORY) return s;
    const vt_names_def *d = *out == VT_FIT_NONE ? vt_names_def_of(st) : NULL;
    if (d)
        *out = vt_names_refuse(st, d, NULL) == VT_OK && (beside || has_head(d, st, NULL)) ? VT_FIT_WHOLE : VT_FIT_BASE;
    return VT_OK;
}

/* Strips wrappers and prefixes of st, folds parts of weights, and renames by the map that `wish` names, or that fits,
 * into n. VT_E_FORMAT: none fits. */
static vt_status rename_to_canonical(vt_names *n, vt_tensors *st, const char *wish, vt_err *e) {
    VT_TRY(vt_unwrap_words(st, e));
    VT_TRY(vt_fold_parts(st, e));
    bool by_map = wish && !vt_names_def_named(wish); /* which may have lines for what stands beside a prefix */
    vt_status s = vt_unwrap_prefix(st, &n->beside, by_map ? NULL : e);
    if (s == VT_E_MEMORY) return vt_fail(e, s, "%s: no memory", vt_tensors_path(st));
    if (by_map) n->beside = NULL;
    if (s != VT_OK && !by_map) return s;
    if (wish) return use_named_map(n, st, wish, e);
    VT_TRY(find_covering_map(n, st, e));
    if (n->map) return apply_map(n, st, NULL, 0, NULL, false, e);
    const vt_names_def *d = vt_names_def_of(st);
    return d ? use_library(n, st, d, e) : fail_unknown_naming(st, e);
}

vt_status vt_names_apply(vt_names *n, vt_tensors *st, const char *wish, const char *order, vt_err *e) {
    *n = (vt_names){.order = order};
    vt_status s = rename_to_canonical(n, st, wish, e);
    return s == VT_OK || wish ? s : vt_names_blame(n, st, s, e);
}
