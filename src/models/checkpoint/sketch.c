/* SPDX-License-Identifier: MIT */
#include "models/checkpoint/sketch.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "core/text.h"
#include "io/tensors.h"
#include "models/checkpoint/names.h"
#include "models/forms.h"

enum { LEAST = 6 /* tensors of a block */, DIGITS = 4, NAME_MOST = 200 };

/* A tensor that wants a line. */
typedef struct item {
    const vt_tensor *t;
    bool block;
    char key[256]; /* its name, with {i} for the block's number */
    size_t suffix; /* where the part behind the number begins, or 0 */
} item;

typedef struct sketch {
    FILE *f;
    const vt_tensors *st;
    const char *map;
    const vt_rename *known; /* whose lines are written; or NULL */
    item *items;
    int n;
    char (*strange)[64]; /* names that no map can hold, made printable and cut */
    int strangers;
    vt_sketch_units units;
} sketch;

/* ---- what wants a line ---- */

/* Names with what a map gives a meaning to, or ends a word with. */
static bool writable(const char *name) {
    size_t n = strlen(name);
    return n && n <= NAME_MOST && n == strcspn(name, " \t\r\n#+*{}?") && vt_text_is_plain(name) && strcmp(name, "->") &&
           strcmp(name, "set") && strcmp(name, "drop") && strcmp(name, "maybe");
}

/* What is left out whatever the map says. */
static bool dropped(const vt_rename *standing, const char *name) {
    vt_binding b;
    for (int i = 0; i < standing->count; i++)
        if (vt_pattern_match(standing->rules[i].theirs[0], name, &b)) return true;
    return false;
}

static vt_status take_items(sketch *s, vt_err *e) {
    vt_rename *standing;
    int n = vt_tensors_count(s->st);
    VT_TRY(vt_rename_parse(&standing, "", 0, "no map", e));
    s->items = calloc((size_t)n + 1, sizeof *s->items);
    s->strange = calloc((size_t)n + 1, sizeof *s->strange);
    for (int i = 0; s->items && s->strange && i < n; i++) {
        const vt_tensor *t = vt_tensors_at(s->st, i);
        if (dropped(standing, t->name)) continue;
        if (!writable(t->name)) {
            vt_text_line(s->strange[s->strangers++], sizeof *s->strange, t->name);
            continue;
        }
        item *it = &s->items[s->n++];
        it->t = t;
        snprintf(it->key, sizeof it->key, "%s", t->name);
    }
    vt_rename_free(standing);
    return s->items && s->strange ? VT_OK
                                  : vt_fail(e, VT_E_MEMORY, "%s: no memory for its names", vt_tensors_path(s->st));
}

/* ---- what repeats ---- */

/* A whole number that ends where no digit follows: its end, or NULL. */
static const char *number(const char *p, int *out) {
    char *end;
    if (!isdigit((unsigned char)*p) || (*p == '0' && isdigit((unsigned char)p[1]))) return NULL;
    long v = strtol(p, &end, 10);
    if (end - p > DIGITS) return NULL;
    *out = (int)v;
    return end;
}

/* The names that are `stem`, a number and something: how many, how many numbers, and how many different somethings. */
typedef struct family {
    int count, numbers, suffixes, least;
} family;

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }
static int by_number(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static family count_family(const sketch *s, const char *stem, size_t n, const char **ends, int *numbers) {
    family f = {0, 0, 0, 0};
    for (int i = 0; i < s->n; i++) {
        const char *key = s->items[i].key;
        if (strncmp(key, stem, n) || !(ends[f.count] = number(key + n, &numbers[f.count]))) continue;
        f.count++;
    }
    qsort(ends, (size_t)f.count, sizeof *ends, by_text);
    qsort(numbers, (size_t)f.count, sizeof *numbers, by_number);
    for (int i = 0; i < f.count; i++) {
        f.suffixes += !i || strcmp(ends[i - 1], ends[i]) != 0;
        f.numbers += !i || numbers[i - 1] != numbers[i];
    }
    if (f.count) f.least = numbers[0];
    return f;
}

/* Every number has the same names behind it: then the numbers are those of blocks. */
static bool blocks(const family *f) { return f->count == f->numbers * f->suffixes && f->suffixes >= LEAST; }

static void fold(item *it, size_t n, int least) {
    int v;
    char rest[224];
    const char *end = number(it->key + n, &v);
    snprintf(rest, sizeof rest, "%s", end);
    if (least)
        snprintf(it->key + n, sizeof it->key - n, "{i+%d}%s", least, rest);
    else
        snprintf(it->key + n, sizeof it->key - n, "{i}%s", rest);
    it->block = true;
    it->suffix = (size_t)(strchr(it->key + n, '}') - it->key) + 1;
    if (it->key[it->suffix] == '.') it->suffix++;
}

/* The stem that the most tensors share as blocks. Each new place of a number is looked at once: a name whose beginning
 * the one before has too is of the same family. */
static vt_status find_blocks(sketch *s, vt_err *e) {
    const char **ends = calloc((size_t)s->n + 1, sizeof *ends);
    int *numbers = calloc((size_t)s->n + 1, sizeof *numbers), v;
    family best = {0, 0, 0, 0};
    char stem[256] = "";
    for (int i = 0; ends && numbers && i < s->n; i++) {
        const char *key = s->items[i].key;
        for (const char *p = key; *p; p++) {
            size_t n = (size_t)(p - key);
            if ((n && isdigit((unsigned char)p[-1])) || !number(p, &v)) continue;
            if (i && !strncmp(s->items[i - 1].key, key, n) && isdigit((unsigned char)s->items[i - 1].key[n])) continue;
            family f = count_family(s, key, n, ends, numbers);
            if (!blocks(&f) || f.count <= best.count) continue;
            best = f;
            snprintf(stem, sizeof stem, "%.*s", (int)n, key);
        }
    }
    free(ends), free(numbers);
    if (!ends || !numbers) return vt_fail(e, VT_E_MEMORY, "%s: no memory for its names", vt_tensors_path(s->st));
    size_t n = strlen(stem);
    for (int i = 0; best.count && i < s->n; i++)
        if (!strncmp(s->items[i].key, stem, n) && number(s->items[i].key + n, &v)) fold(&s->items[i], n, best.least);
    s->units.blocks = best.numbers;
    return VT_OK;
}

/* ---- layers ---- */

static const char *const stats[] = {"running_mean", "running_var"}; /* BatchNorm's */

/* What the last part of a name is: 1 a weight, 2 a bias, 3 something that goes with them, 0 none of these. */
static int last_kind(const char *part) {
    static const struct {
        const char *name;
        int kind;
    } parts[] = {{"weight", 1}, {"bias", 2}, {"running_mean", 3}, {"running_var", 3},
                 {"gamma", 1},  {"beta", 2}, {"alpha", 1},        {"scale", 1}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strcmp(part, parts[i].name)) return parts[i].kind;
    return 0;
}

/* Where the last part begins: behind the last dot, or of in_proj_weight behind the last line. */
static size_t last_part_at(const char *key) {
    const char *dot = strrchr(key, '.'), *line = strrchr(key, '_'), *from = dot ? dot + 1 : key;
    if (last_kind(from)) return (size_t)(from - key);
    if (line && line > from && last_kind(line + 1)) return (size_t)(line + 1 - key);
    return strlen(key);
}

/* gamma and scale are weights where a beta or bias stands beside them, else vectors of their own (LayerScale). */
static bool has_bias(const sketch *s, const char *base, size_t n) {
    for (int i = 0; i < s->n; i++)
        if (!strncmp(s->items[i].key, base, n) && last_kind(s->items[i].key + n) == 2) return true;
    return false;
}

static vt_unit *unit_of(sketch *s, const item *it, size_t at) {
    size_t n = at && it->key[at] ? at - 1 : strlen(it->key);
    for (int i = 0; i < s->units.n; i++) {
        vt_unit *u = &s->units.u[i];
        if (!strncmp(u->base, it->key, n) && !u->base[n] && (u->sep == 0) == (it->key[at] == 0)) return u;
    }
    vt_unit *u = &s->units.u[s->units.n++];
    snprintf(u->base, sizeof u->base, "%.*s", (int)n, it->key);
    u->sep = it->key[at] ? it->key[at - 1] : 0;
    u->block = it->block;
    u->suffix = u->base + (it->suffix < strlen(u->base) ? it->suffix : 0);
    return u;
}

static void keep(const vt_tensor **t, char name[64], const item *it, const char *part) {
    if (!*t) *t = it->t, snprintf(name, 64, "%s", part);
}

static void add_to_unit(sketch *s, const item *it) {
    size_t at = last_part_at(it->key);
    const char *part = it->key + at;
    int kind = last_kind(part);
    bool odd = kind == 1 && strcmp(part, "weight") && !has_bias(s, it->key, at);
    vt_unit *u = at && kind && !odd ? unit_of(s, it, at) : NULL;
    bool second = u && ((kind == 1 && u->weight && strcmp(part, u->weight_name)) ||
                        (kind == 2 && u->bias && strcmp(part, u->bias_name))); /* a bias and a beta: one stands alone */
    if (!u || second) {
        u = unit_of(s, it, strlen(it->key));
        keep(&u->weight, u->weight_name, it, "");
    } else if (kind == 3) {
        u->stat[!strcmp(part, stats[1])] = it->t;
    } else {
        keep(kind == 1 ? &u->weight : &u->bias, kind == 1 ? u->weight_name : u->bias_name, it, part);
    }
}

static bool own_part(const vt_unit *u, const char *part) {
    return *part && (!strcmp(part, u->weight_name) || !strcmp(part, u->bias_name) || last_kind(part) == 3);
}

/* Would NAME.* take another unit's tensors? */
static void find_mixed(sketch *s, vt_unit *u) {
    size_t n = strlen(u->base);
    for (int i = 0; u->sep && i < s->n && !u->mixed; i++) {
        const char *key = s->items[i].key, *part = key + n + 1;
        u->mixed = !strncmp(key, u->base, n) && key[n] == u->sep && !own_part(u, part);
    }
}

static vt_status find_units(sketch *s, vt_err *e) {
    int64_t best = 0;
    int most = 0;
    s->units.u = calloc((size_t)s->n + 1, sizeof *s->units.u);
    if (!s->units.u) return vt_fail(e, VT_E_MEMORY, "%s: no memory for its names", vt_tensors_path(s->st));
    for (int i = 0; i < s->n; i++) add_to_unit(s, &s->items[i]);
    for (int i = 0; i < s->units.n; i++) find_mixed(s, &s->units.u[i]);
    for (int i = 0; i < s->n; i++) {
        int count = 0;
        const vt_tensor *t = s->items[i].t;
        for (int k = 0; t->ndim == 1 && k < s->n; k++)
            count += s->items[k].t->ndim == 1 && s->items[k].t->shape[0] == t->shape[0];
        if (count > most) most = count, best = t->shape[0];
    }
    s->units.width = best;
    return VT_OK;
}

/* ---- writing ---- */

static void shape_of(char *out, size_t size, const vt_tensor *t) {
    char shape[200] = "";
    if (t) vt_shape_text(shape, sizeof shape, t->shape, t->ndim);
    snprintf(out, size, "%.120s", shape);
}

/* "theirs -> ours  # [64,192]"; ours NULL: a blank. */
static void put_line(sketch *s, const char *theirs, const char *ours, const vt_tensor *t) {
    char shape[128], text[1100];
    shape_of(shape, sizeof shape, t);
    snprintf(text, sizeof text, "%-40s -> %s", theirs, ours ? ours : "?");
    fprintf(s->f, "%-76s # %s\n", text, shape);
}

/* Every unit that is joined into this one, in order, "q.* + k.* + v.*". */
static void joined(const sketch *s, const vt_unit *u, const char *end, char *out, size_t size) {
    size_t at = 0;
    for (int part = 1; part <= u->parts; part++)
        for (int i = 0; i < s->units.n; i++) {
            const vt_unit *o = &s->units.u[i];
            if (o->role != u->role || o->part != part || at >= size) continue;
            at += (size_t)snprintf(out + at, size - at, "%s%s%c%s", at ? " + " : "", o->base, o->sep, end);
        }
}

/* One line for a weight and a bias where a star may stand for both, else a line each. */
static void put_end(sketch *s, const vt_unit *u, const char *end, const char *ours_end, const vt_tensor *t) {
    char theirs[900], ours[300] = "";
    if (u->part)
        joined(s, u, end, theirs, sizeof theirs);
    else
        snprintf(theirs, sizeof theirs, "%s%c%s", u->base, u->sep, end);
    if (u->role) snprintf(ours, sizeof ours, "%s.%s", u->role, ours_end);
    put_line(s, theirs, u->role ? ours : NULL, t);
}

static bool lone_role(const char *role) { /* a tensor, not a layer */
    return role && (!strncmp(role, "cls_", 4) || !strncmp(role, "dist_", 5) || !strncmp(role, "reg_", 4) ||
                    !strncmp(role, "pos_", 4) || strstr(role, ".gamma"));
}

static void put_unit(sketch *s, const vt_unit *u) {
    char theirs[400];
    if (u->part > 1) return; /* its line is the first part's */
    if (!u->sep) {
        put_line(s, u->base, u->role, u->weight);
    } else if (lone_role(u->role)) { /* the weight of an nn.Embedding */
        snprintf(theirs, sizeof theirs, "%s%c%s", u->base, u->sep, u->weight_name);
        put_line(s, theirs, u->role, u->weight);
    } else if (!u->mixed && (!*u->weight_name || !strcmp(u->weight_name, "weight")) &&
               (!*u->bias_name || !strcmp(u->bias_name, "bias"))) {
        put_end(s, u, "*", "*", u->weight ? u->weight : u->bias);
    } else {
        if (u->weight) put_end(s, u, u->weight_name, "weight", u->weight);
        if (u->bias) put_end(s, u, u->bias_name, "bias", u->bias);
        for (int k = 0; k < 2; k++)
            if (u->stat[k]) put_end(s, u, stats[k], stats[k], u->stat[k]);
    }
}

/* A value that a tensor, metadata, a normalisation layer or the known names tell needs no line. */
static void put_blank(const sketch *s, const char *key, const char *why) {
    if (!vt_tensors_meta(s->st, key) && !(s->known && vt_rename_proven(s->known, key)))
        fprintf(s->f, "set %-12s ?   # %s\n", key, why);
}

static void put_heads(const sketch *s) {
    char why[400];
    int64_t width = s->units.inner ? s->units.inner : s->units.width;
    size_t at = (size_t)snprintf(why, sizeof why, "attention heads; width %lld allows", (long long)width);
    for (int64_t h = 1; h <= width && h <= 64; h++)
        if (width % h == 0 && at < sizeof why)
            at += (size_t)snprintf(why + at, sizeof why - at, "%s %lld", h > 1 ? "," : "", (long long)h);
    if (!vt_tensors_meta(s->st, "num_heads")) put_blank(s, "heads", why);
}

static void put_proven(const sketch *s) {
    bool first = true;
    for (int i = 0; s->known && i < s->known->n_pairs; i++) {
        const char *const *pair = s->known->pairs + 2 * (size_t)i;
        if (!s->known->proven[i]) continue;
        if (first) fputs("\n# What these names prove.\n", s->f);
        fprintf(s->f, "is %-13s %s\n", pair[0], pair[1]), first = false;
    }
}

static void put_values(const sketch *s) {
    const vt_form *act = vt_form_find("act");
    char words[200];
    snprintf(words, sizeof words, "activation of the MLP: %s", act && act->opt.choices ? act->opt.choices : "gelu");
    put_proven(s);
    fputs("\n# What no tensor tells. vitrine doctor WEIGHTS --data FOLDER --names THIS compares some of it.\n", s->f);
    put_heads(s);
    if (s->units.linear)
        put_blank(s, "patch_order",
                  "columns of the Linear patch embedding: chw (nn.Unfold, Flatten) or hwc (einops' p1 p2 c)");
    put_blank(s, "mean", "of the input normalisation, as 0.4914, 0.4822, 0.4465; 0 without one");
    put_blank(s, "std", "as 0.2470, 0.2435, 0.2616; 1 without one");
    put_blank(s, "ln_eps", "1e-5: nn.LayerNorm's own; 1e-6: timm's");
    put_blank(s, "post_norm", "0: x + f(norm(x)); 1: norm(x + f(x)), nn.TransformerEncoderLayer's own");
    put_blank(s, "act", words);
    if (!vt_tensors_meta(s->st, "pool"))
        fprintf(s->f, "set %-12s %s # what the head reads: token (class token), avg (mean of patches), all\n", "pool",
                s->units.cls ? "token" : "avg");
}

/* ---- names that are known ---- */

static bool fits(const vt_rename_rule *r, const vt_names_row *row) {
    vt_binding b;
    for (int k = 0; k < r->from; k++)
        if (vt_pattern_match(r->theirs[k], row->was.name, &b) || vt_pattern_match(r->theirs[k], row->origin, &b))
            return true;
    return false;
}

static void put_sum(FILE *f, const char *const *names, int n) {
    for (int k = 0; k < n; k++) fprintf(f, "%s%s", k ? " + " : "", names[k]);
}

static void put_rule(FILE *f, const vt_rename_rule *r) {
    if (!r->to) {
        fprintf(f, "drop %s %s\n", r->theirs[0], r->why);
        return;
    }
    put_sum(f, r->theirs, r->from);
    fputs(" -> ", f);
    put_sum(f, r->ours, r->to);
    fputc('\n', f);
}

/* The lines of the scheme's map that take a tensor; each takes those that none before it does. */
static vt_status put_known(const sketch *s, const vt_names *known, vt_err *e) {
    bool *used = calloc((size_t)known->map->count + 1, sizeof *used);
    if (!used) return vt_fail(e, VT_E_MEMORY, "%s: no memory for its names", vt_tensors_path(s->st));
    for (int i = 0; i < known->n_rows; i++) {
        int k = 0;
        while (k < known->map->count && !fits(&known->map->rules[k], &known->rows[i])) k++;
        used[k] = k < known->map->count;
    }
    for (int k = 0; k < known->map->count; k++)
        if (used[k] && known->map->rules[k].line) put_rule(s->f, &known->map->rules[k]);
    free(used);
    return VT_OK;
}

static void put_head(const sketch *s, const vt_names *known) {
    const char *slash = strrchr(vt_tensors_path(s->st), '/');
    char file[200], map[200];
    vt_text_line(file, sizeof file, slash ? slash + 1 : vt_tensors_path(s->st));
    vt_text_line(map, sizeof map, s->map);
    fprintf(s->f, "# Map of names for %s: %d tensors, %d blocks, width %lld.\n", file, vt_tensors_count(s->st),
            s->units.blocks, (long long)s->units.width);
    if (known)
        fprintf(s->f, "# Its names are known (%s): no map is needed for them. Values that are set here win.\n",
                known->scheme);
    else
        fputs("# theirs -> timm's, guessed from names and shapes: check it. Fill in every ?, or write drop NAME.\n",
              s->f);
    fprintf(s->f, "# Then: vitrine info FILE --names %s (docs/models.md, Maps)\n\n", map);
}

static void put_all(sketch *s) {
    for (int i = 0; i < s->strangers; i++)
        fprintf(s->f, "# a name that no map can hold (blanks, signs of maps, or too long): %s\n", s->strange[i]);
    for (int k = 0; k < 2; k++) { /* blocks stand together, between what comes before and behind them */
        bool seen = false;
        for (int i = 0; i < s->units.n; i++) {
            const vt_unit *u = &s->units.u[i];
            bool late = u->role && (!strcmp(u->role, "norm") || !strncmp(u->role, "head", 4));
            if (!k && !u->block && !late) put_unit(s, u);
            if (k && u->block) put_unit(s, u), seen = true;
        }
        if (!k || seen) fputc('\n', s->f);
    }
    for (int i = 0; i < s->units.n; i++) {
        const vt_unit *u = &s->units.u[i];
        if (!u->block && u->role && (!strcmp(u->role, "norm") || !strncmp(u->role, "head", 4))) put_unit(s, u);
    }
}

vt_status vt_sketch(FILE *f, const vt_tensors *st, const vt_names *known, const char *map, vt_err *e) {
    sketch s = {.f = f, .st = st, .map = map, .known = known ? known->map : NULL};
    if (vt_tensors_count(st) > VT_SKETCH_MOST)
        return vt_fail(e, VT_E_RANGE, "%s: has %d tensors, a map is guessed for at most %d", vt_tensors_path(st),
                       vt_tensors_count(st), VT_SKETCH_MOST);
    vt_status status = take_items(&s, e);
    if (status == VT_OK) status = find_blocks(&s, e);
    if (status == VT_OK) status = find_units(&s, e);
    if (status == VT_OK) {
        vt_sketch_guess(&s.units);
        put_head(&s, known);
        if (known)
            status = put_known(&s, known, e);
        else
            put_all(&s);
        if (known && known->def)
            fputs("\n# set KEY VALUE for what neither the file nor a config.json beside it tells (vitrine info).\n", f);
        else
            put_values(&s);
    }
    free(s.items), free(s.strange), free(s.units.u);
    return status;
}
