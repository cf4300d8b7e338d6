/* SPDX-License-Identifier: MIT */
#include "models/checkpoint/sketch.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "core/text.h"
#include "io/tensors.h"
#include "models/checkpoint/names.h"
#include "models/forms.h"

enum { LEAST = 6 /* tensors of a block */, DIGITS = 3, BLOCKS = 1000, NAME_MOST = 200 };

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
    item *items;
    int n;
    vt_sketch_units units;
} sketch;

/* ---- what wants a line ---- */

/* Names with what a map gives a meaning to, or ends a word with. */
static bool is_writable_name(const char *name) {
    size_t n = strlen(name);
    return n && n <= NAME_MOST && n == strcspn(name, " \t\r\n#+*{}?") && vt_text_is_plain(name) && strcmp(name, "->") &&
           strcmp(name, "set") && strcmp(name, "drop") && strcmp(name, "maybe");
}

/* What is left out whatever the map says. */
static bool is_always_dropped(const vt_rename *standing, const char *name) {
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
    s->units.u = calloc((size_t)n + 1, sizeof *s->units.u);
    for (int i = 0; s->items && s->units.u && i < n; i++) {
        const vt_tensor *t = vt_tensors_at(s->st, i);
        char strange[64];
        if (is_always_dropped(standing, t->name)) continue;
        if (is_writable_name(t->name)) {
            item *it = &s->items[s->n++];
            it->t = t;
            snprintf(it->key, sizeof it->key, "%s", t->name);
        } else {
            vt_text_line(strange, sizeof strange, t->name);
            fprintf(s->f, "# a name that no map can hold (blanks, signs of maps, or too long): %s\n", strange);
        }
    }
    vt_rename_free(standing);
    return s->items && s->units.u ? VT_OK
                                  : vt_fail(e, VT_E_MEMORY, "%s: no memory for its names", vt_tensors_path(s->st));
}

/* ---- what repeats ---- */

/* A whole number that ends where no digit follows: its end, or NULL. */
static const char *read_number(const char *p, int *out) {
    char *end;
    if (!isdigit((unsigned char)*p) || (*p == '0' && isdigit((unsigned char)p[1]))) return NULL;
    long v = strtol(p, &end, 10);
    if (end - p > DIGITS) return NULL;
    *out = (int)v;
    return end;
}

/* What follows `stem` [n] and a number in tensor i; NULL: it has other names. */
static const char *rest_after_number(const sketch *s, int i, const char *stem, size_t n, int *v) {
    return strncmp(s->items[i].key, stem, n) ? NULL : read_number(s->items[i].key + n, v);
}

/* How many tensors are `stem`, a number and something, where every number has the same, as blocks have; else 0. */
static int count_block_tensors(const sketch *s, const char *stem, size_t n, int *least, int *numbers) {
    int count[BLOCKS] = {0}, all = 0, v;
    const char *one, *other;
    for (int i = 0; i < s->n; i++)
        if (rest_after_number(s, i, stem, n, &v)) count[v]++, all++;
    *numbers = 0;
    for (int k = BLOCKS - 1; k >= 0; k--)
        if (count[k]) ++*numbers, *least = k;
    if (!all || count[*least] < LEAST || count[*least] * *numbers != all) return 0;
    for (int i = 0; i < s->n; i++) { /* each of the first number's names has one of every number */
        int alike = 0;
        if (!(one = rest_after_number(s, i, stem, n, &v)) || v != *least) continue;
        for (int k = 0; k < s->n; k++) alike += (other = rest_after_number(s, k, stem, n, &v)) && !strcmp(one, other);
        if (alike != *numbers) return 0;
    }
    return all;
}

static void replace_block_number(item *it, size_t n, int least) {
    int v;
    char rest[224], plus[16] = "";
    const char *end = read_number(it->key + n, &v);
    if (!end) return;
    snprintf(rest, sizeof rest, "%s", end);
    if (least) snprintf(plus, sizeof plus, "+%d", least);
    snprintf(it->key + n, sizeof it->key - n, "{i%s}%s", plus, rest);
    it->block = true;
    it->suffix = (size_t)(strchr(it->key + n, '}') - it->key) + 1;
    if (it->key[it->suffix] == '.') it->suffix++;
}

/* The stem that the most tensors share as blocks. Each new place of a number is looked at once: a name whose beginning
 * the one before has too is of the same family. */
static void find_blocks(sketch *s) {
    char stem[256] = "";
    int best = 0, start = 0, least = 0, numbers, v;
    for (int i = 0; i < s->n; i++) {
        const char *key = s->items[i].key, *before = i ? s->items[i - 1].key : "";
        for (size_t n = 0; key[n]; n++) {
            if ((n && isdigit((unsigned char)key[n - 1])) || !read_number(key + n, &v)) continue;
            if (i && !strncmp(before, key, n) && isdigit((unsigned char)before[n])) continue;
            int all = count_block_tensors(s, key, n, &least, &numbers);
            if (all <= best) continue;
            best = all, start = least, s->units.blocks = numbers;
            snprintf(stem, sizeof stem, "%.*s", (int)n, key);
        }
    }
    for (int i = 0; best && i < s->n; i++)
        if (!strncmp(s->items[i].key, stem, strlen(stem))) replace_block_number(&s->items[i], strlen(stem), start);
}

/* ---- layers ---- */

/* Which part of a layer a name's last part is, or -1. */
static int part_of(const char *name) {
    static const char *const parts[] = {"weight gamma alpha scale", "bias beta", "running_mean", "running_var"};
    for (int k = 0; k < VT_SKETCH_PARTS; k++) {
        const char *at = *name ? strstr(parts[k], name) : NULL;
        size_t n = strlen(name);
        if (at && (at == parts[k] || at[-1] == ' ') && (!at[n] || at[n] == ' ')) return k;
    }
    return -1;
}

/* Where the last part begins: after the last dot, or of in_proj_weight after the last line; else the end. */
static size_t last_part_at(const char *key) {
    const char *dot = strrchr(key, '.'), *line = strrchr(key, '_'), *from = dot ? dot + 1 : key;
    if (part_of(from) >= 0) return (size_t)(from - key);
    if (line && line > from && part_of(line + 1) >= 0) return (size_t)(line + 1 - key);
    return strlen(key);
}

static vt_unit *unit_of(sketch *s, const item *it, size_t at) {
    bool lone = !it->key[at];
    size_t n = lone ? at : at - 1;
    for (int i = 0; i < s->units.n; i++) {
        vt_unit *u = &s->units.u[i];
        if (!strncmp(u->base, it->key, n) && !u->base[n] && !u->sep == lone) return u;
    }
    vt_unit *u = &s->units.u[s->units.n++];
    snprintf(u->base, sizeof u->base, "%.*s", (int)n, it->key);
    u->sep = lone ? 0 : it->key[n];
    u->block = it->block;
    u->suffix = u->base + (it->suffix < strlen(u->base) ? it->suffix : 0);
    return u;
}

/* gamma and scale are weights where a beta or bias stands beside them, else vectors of their own (LayerScale). */
static bool has_bias(const sketch *s, const char *base, size_t n) {
    for (int i = 0; i < s->n; i++)
        if (!strncmp(s->items[i].key, base, n) && part_of(s->items[i].key + n) == VT_SKETCH_BIAS) return true;
    return false;
}

static void add_to_unit(sketch *s, const item *it) {
    size_t at = last_part_at(it->key);
    const char *name = it->key + at;
    int k = part_of(name);
    bool odd = k == VT_SKETCH_WEIGHT && strcmp(name, "weight") && !has_bias(s, it->key, at);
    vt_unit *u = at && k >= 0 && !odd ? unit_of(s, it, at) : NULL;
    if (!u || (u->t[k] && strcmp(u->part[k], name))) /* a bias and a beta: one stands alone */
        u = unit_of(s, it, strlen(it->key)), k = 0, name = "";
    if (!u->t[k]) u->t[k] = it->t, snprintf(u->part[k], sizeof u->part[k], "%s", name);
}

/* Would NAME.* take another unit's tensors? */
static void find_mixed(sketch *s, vt_unit *u) {
    size_t n = strlen(u->base);
    for (int i = 0; u->sep && i < s->n && !u->mixed; i++) {
        const char *key = s->items[i].key;
        if (strncmp(key, u->base, n) || key[n] != u->sep) continue;
        int k = part_of(key + n + 1);
        u->mixed = k < 0 || strcmp(u->part[k], key + n + 1) != 0;
    }
}

static void find_units(sketch *s) {
    int most = 0;
    for (int i = 0; i < s->n; i++) add_to_unit(s, &s->items[i]);
    for (int i = 0; i < s->units.n; i++) find_mixed(s, &s->units.u[i]);
    for (int i = 0; i < s->n; i++) {
        int count = 0;
        const vt_tensor *t = s->items[i].t;
        for (int k = 0; t->ndim == 1 && k < s->n; k++)
            count += s->items[k].t->ndim == 1 && s->items[k].t->shape[0] == t->shape[0];
        if (count > most) most = count, s->units.width = t->shape[0];
    }
}

/* ---- writing ---- */

/* "theirs -> ours  # [64,192]"; the tensors END of a unit, or of those joined with it. */
static void put_line(const sketch *s, const vt_unit *u, const char *end, const char *ours_end, const vt_tensor *t) {
    char theirs[900] = "", ours[300] = "?", text[1300], shape[200] = "";
    size_t at = 0;
    for (int k = u->items ? 1 : 0; k <= u->items; k++)
        for (int i = 0; i < s->units.n && at < sizeof theirs; i++) {
            const vt_unit *o = &s->units.u[i];
            if (k ? o->role != u->role || o->item != k : o != u) continue;
            at +=
                (size_t)snprintf(theirs + at, sizeof theirs - at, "%s%s%.1s%s", at ? " + " : "", o->base, &o->sep, end);
        }
    if (u->role) snprintf(ours, sizeof ours, "%s%s%s", u->role, *ours_end ? "." : "", ours_end);
    if (t) vt_shape_text(shape, sizeof shape, t->shape, t->ndim);
    snprintf(text, sizeof text, "%-40s -> %s", theirs, ours);
    fprintf(s->f, "%-76s # %.120s%s\n", text, shape, u->why ? u->why : "");
}

/* One line for a weight and a bias where a star may stand for both, else a line each. */
static void put_unit(const sketch *s, const vt_unit *u) {
    static const char *const ours[] = {"weight", "bias", "running_mean", "running_var"};
    bool lone = !u->sep ||
                (u->role && (strstr(u->role, "_token") || strstr(u->role, ".gamma") || !strcmp(u->role, "pos_embed")));
    bool star = !u->mixed;
    if (u->item > 1) return; /* its line is the first one's */
    if (lone) {              /* also the weight of an nn.Embedding */
        put_line(s, u, u->part[0], "", u->t[0]);
        return;
    }
    for (int k = 0; k < VT_SKETCH_PARTS; k++) star = star && (!u->t[k] || !strcmp(u->part[k], ours[k]));
    if (star) put_line(s, u, "*", "*", u->t[0] ? u->t[0] : u->t[1]);
    for (int k = 0; k < VT_SKETCH_PARTS && !star; k++)
        if (u->t[k]) put_line(s, u, u->part[k], ours[k], u->t[k]);
}

/* A value that metadata or a normalisation layer tell needs no line. */
static void put_blank(const sketch *s, const char *key, const char *why) {
    if (!vt_tensors_meta(s->st, key)) fprintf(s->f, "set %-12s ?   # %s\n", key, why);
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

static void put_values(const sketch *s) {
    static const char *const rows[][2] =
        {{"attn_scale", "on q k^T before the softmax: head (head width ^ -0.5), dim (width ^ -0.5) or a number"},
         {"mean", "of the input normalisation, as 0.4914, 0.4822, 0.4465; 0 without one"},
         {"std", "as 0.2470, 0.2435, 0.2616; 1 without one"},
         {"ln_eps", "1e-5: nn.LayerNorm's own; 1e-6: timm's"},
         {"post_norm",
          "0: x + f(norm(x)); 1: norm(x + f(x)), nn.TransformerEncoderLayer's own; neither: " VT_OPTION "oracle"},
         {"pool", "what the head reads: token (class token), avg (mean of patches), all (of all tokens)"}};
    char words[200];
    fputs("\n# What no tensor tells. vitrine doctor WEIGHTS " VT_OPTION "logits FILE " VT_OPTION
          "names THIS proves it (docs/models.md).\n",
          s->f);
    put_heads(s);
    if (s->units.flat)
        put_blank(s, "patch_order",
                  "columns of the Linear patch embedding: chw (nn.Unfold, Flatten) or hwc (einops' p1 p2 c)");
    if (s->units.fused && vt_form_find("qkv_rows"))
        put_blank(s, "qkv_rows", "qkv: all of q, of k, of v; heads: each head's q, k, v; dims: q, k, v of each number");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) put_blank(s, rows[i][0], rows[i][1]);
    snprintf(words, sizeof words, "activation of the MLP: %s", vt_form_find("act")->opt.choices);
    put_blank(s, "act", words);
}

static void put_head(const sketch *s, const char *name) {
    const char *slash = strrchr(vt_tensors_path(s->st), '/');
    char file[200], map[200];
    vt_text_line(file, sizeof file, slash ? slash + 1 : vt_tensors_path(s->st));
    vt_text_line(map, sizeof map, name);
    fprintf(s->f, "# Map of names for %s: %d tensors, %d blocks, width %lld.\n", file, vt_tensors_count(s->st),
            s->units.blocks, (long long)s->units.width);
    fputs("# theirs -> timm's, guessed from names and shapes: check it. Fill in every ?, or write drop NAME.\n"
          "# Each block then computes x = x + proj(softmax(attn_scale q k^T) v) of norm1(x), with q, k, v from "
          "qkv's\n"
          "# rows in this order, then x = x + fc2(act(fc1(norm2(x)))); post_norm 1: x = norm1(x + ...) instead. A "
          "block\n"
          "# whose residual is the normed x, or with anything behind fc2, softmax or proj, no map makes right:\n"
          "# vitrine eval " VT_OPTION "oracle evaluates it (docs/oracle.md).\n",
          s->f);
    fprintf(s->f, "# Then: vitrine info FILE " VT_OPTION "names %s (docs/models.md, Maps)\n\n", map);
}

/* Before the blocks, of the blocks, after them. */
static int section_of_unit(const vt_unit *u) {
    bool late = u->role && (!strcmp(u->role, "norm") || !strncmp(u->role, "head", 4));
    return u->block ? 1 : late ? 2 : 0;
}

static void put_units(const sketch *s) {
    for (int k = 0; k < 3; k++) {
        bool any = false;
        for (int i = 0; i < s->units.n; i++)
            if (section_of_unit(&s->units.u[i]) == k) put_unit(s, &s->units.u[i]), any = true;
        if (any && k < 2) fputc('\n', s->f);
    }
}

vt_status vt_sketch(FILE *f, const vt_tensors *st, const char *map, vt_err *e) {
    sketch s = {.f = f, .st = st};
    if (vt_tensors_count(st) > VT_SKETCH_MOST)
        return vt_fail(e, VT_E_RANGE, "%s: has %d tensors, a map is guessed for at most %d", vt_tensors_path(st),
                       vt_tensors_count(st), VT_SKETCH_MOST);
    vt_status status = take_items(&s, e);
    if (status == VT_OK) {
        find_blocks(&s), find_units(&s), vt_sketch_guess(&s.units);
        put_head(&s, map), put_units(&s), put_values(&s);
    }
    free(s.items), free(s.units.u);
    return status;
}
