/* SPDX-License-Identifier: MIT */
/* Writes a name map to fill in. */
#include "checkpoint/names.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "base/text.h"
#include "tensors/tensors.h"
#include "models/forms.h"

enum { LEAST = 6 /* tensors of a block */, DIGITS = 3, NAME_MOST = 200 };

/* A tensor that needs a line. */
typedef struct row {
    const vt_tensor *t;
    char name[256]; /* with {i} for the block's number */
} row;

typedef struct table {
    row *rows;
    int n;
} table;

/* ---- which tensors ---- */

/* Can a map hold this name: no sign, word or length that a map gives a meaning to? */
static bool is_writable_name(const char *name) {
    size_t n = strlen(name);
    return n && n <= NAME_MOST && n == strcspn(name, " \t\r\n#+*{}?") && vt_text_is_plain(name) && strcmp(name, "->") &&
           strcmp(name, "set") && strcmp(name, "drop") && strcmp(name, "maybe");
}

/* Does every map leave this tensor out? */
static bool is_always_dropped(const vt_rename *standing, const char *name) {
    vt_binding b;
    for (int i = 0; i < standing->count; i++)
        if (vt_pattern_match(standing->rules[i].theirs[0], name, &b)) return true;
    return false;
}

/* Collects the tensors that need a line in s->rows, malloc'ed, and s->n; names that no map can hold become comments in
 * f. */
static vt_status take_rows(table *s, FILE *f, const vt_tensors *st, vt_err *e) {
    vt_rename *standing;
    char strange[64];
    VT_TRY(vt_rename_parse(&standing, "", 0, "no map", e));
    s->rows = calloc((size_t)vt_tensors_count(st) + 1, sizeof *s->rows);
    for (int i = 0; s->rows && i < vt_tensors_count(st); i++) {
        const vt_tensor *t = vt_tensors_at(st, i);
        if (is_always_dropped(standing, t->name)) continue;
        if (is_writable_name(t->name)) {
            s->rows[s->n].t = t;
            snprintf(s->rows[s->n++].name, sizeof s->rows->name, "%s", t->name);
        } else {
            vt_text_line(strange, sizeof strange, t->name);
            fprintf(f, "# a name that no map can hold (blanks, signs of maps, or too long): %s\n", strange);
        }
    }
    free(standing);
    return s->rows ? VT_OK : vt_fail(e, VT_E_MEMORY, "%s: no memory for its names", vt_tensors_path(st));
}

/* ---- what repeats ---- */

/* Reads a whole number without leading zero of at most DIGITS digits. Returns its end, or NULL. */
static const char *read_number(const char *p, int *out) {
    char *end;
    if (!isdigit((unsigned char)*p) || (*p == '0' && isdigit((unsigned char)p[1]))) return NULL;
    long v = strtol(p, &end, 10);
    if (end - p > DIGITS) return NULL;
    *out = (int)v;
    return end;
}

/* Returns what follows `stem` [n] and a number, *v, in a row's name; NULL: the row has another name. */
static const char *rest_after_number(const row *r, const char *stem, size_t n, int *v) {
    return strncmp(r->name, stem, n) ? NULL : read_number(r->name + n, v);
}

/* Returns how many tensors are `stem` [n], a number and a rest, if every number has the same rests, as blocks have;
 * else 0. *first: the smallest number. */
static int count_block_tensors(const table *s, const char *stem, size_t n, int *first) {
    int all = 0, numbers = 0, rests = 0, v, w;
    *first = INT_MAX;
    for (int i = 0; i < s->n; i++) {
        const char *rest = rest_after_number(&s->rows[i], stem, n, &v), *other;
        bool new_number = true, new_rest = true;
        if (!rest) continue;
        for (int k = 0; k < i; k++) {
            if (!(other = rest_after_number(&s->rows[k], stem, n, &w))) continue;
            new_number = new_number && v != w, new_rest = new_rest && strcmp(rest, other) != 0;
        }
        all++, numbers += new_number, rests += new_rest;
        if (v < *first) *first = v;
    }
    return rests >= LEAST && rests * numbers == all ? all : 0;
}

/* Replaces the number at byte n of a row's name by {i}, or {i+FIRST}. */
static void replace_block_number(row *r, size_t n, int first) {
    int v;
    char name[sizeof r->name], plus[16] = "";
    if (first) snprintf(plus, sizeof plus, "+%d", first);
    snprintf(name, sizeof name, "%.*s{i%s}%s", (int)n, r->name, plus, read_number(r->name + n, &v));
    memcpy(r->name, name, sizeof name);
}

/* Writes {i} for the block's number into the rows' names, after the stem that the most tensors share. Each new place of
 * a number is looked at once: a name whose beginning the one before has too is of the same family. */
static void find_blocks(table *s) {
    char stem[256] = "";
    int best = 0, start = 0, first, v;
    for (int i = 0; i < s->n; i++) {
        const char *name = s->rows[i].name, *before = i ? s->rows[i - 1].name : "";
        for (size_t n = 0; name[n]; n++) {
            if ((n && isdigit((unsigned char)name[n - 1])) || !read_number(name + n, &v)) continue;
            if (i && !strncmp(before, name, n) && isdigit((unsigned char)before[n])) continue;
            int all = count_block_tensors(s, name, n, &first);
            if (all <= best) continue;
            best = all, start = first;
            snprintf(stem, sizeof stem, "%.*s", (int)n, name);
        }
    }
    for (int i = 0; best && i < s->n; i++)
        if (rest_after_number(&s->rows[i], stem, strlen(stem), &v))
            replace_block_number(&s->rows[i], strlen(stem), start);
}

/* Is it a weight or bias whose stem, up to the last dot, has these two tensors alone? */
static bool is_pair(const table *s, const char *name) {
    const char *dot = strrchr(name, '.');
    const size_t n = dot ? (size_t)(dot + 1 - name) : 0;
    bool weight = false, bias = false;
    for (int i = 0; dot && i < s->n; i++) {
        const char *other = s->rows[i].name;
        if (strncmp(other, name, n)) continue;
        weight = weight || !strcmp(other + n, "weight"), bias = bias || !strcmp(other + n, "bias");
        if (strcmp(other + n, "weight") && strcmp(other + n, "bias")) return false;
    }
    return weight && bias;
}

/* ---- writing ---- */

/* Writes a line "NAME -> ?   # SHAPE" for each kind of tensor. */
static void put_rows(FILE *f, const table *s) {
    for (int i = 0; i < s->n; i++) {
        const row *r = &s->rows[i];
        const bool pair = is_pair(s, r->name), bias = pair && !strcmp(strrchr(r->name, '.'), ".bias");
        char shape[200], name[sizeof r->name];
        bool met = bias; /* the line of its weight is its own too */
        for (int k = 0; k < i && !met; k++) met = !strcmp(s->rows[k].name, r->name);
        if (met) continue;
        vt_shape_text(shape, sizeof shape, r->t->shape, r->t->ndim);
        snprintf(name, sizeof name, "%s", r->name);
        if (pair) strcpy(strrchr(name, '.'), ".*");
        fprintf(f, "%-40s -> ?   # %.120s\n", name, shape);
    }
}

/* Writes a line for each setting that neither metadata nor a normalisation layer hold. */
static void put_values(FILE *f, const vt_tensors *st) {
    static const char *const values[][2] =
        {{"heads", "attention heads; a divisor of the width of q"},
         {"attn_scale", "on q k^T before the softmax: head (head width ^ -0.5), dim (width ^ -0.5) or a number"},
         {"qkv_rows", "qkv: all of q, of k, of v; heads: each head's q, k, v; dims: q, k, v of each number"},
         {"patch_order",
          "conv: a convolution; of a Linear patch embedding chw (nn.Unfold, Flatten) or hwc (einops' p1 p2 c)"},
         {"mean", "of the input normalisation, as 0.4914, 0.4822, 0.4465; 0 without one"},
         {"std", "as 0.2470, 0.2435, 0.2616; 1 without one"},
         {"ln_eps", "1e-5: nn.LayerNorm's own; 1e-6: timm's"},
         {"post_norm",
          "0: x + f(norm(x)); 1: norm(x + f(x)), nn.TransformerEncoderLayer's own; neither: " VT_OPTION "oracle"},
         {"pool", "what the head reads: token (class token), avg (mean of patches), all (of all tokens)"}};
    fputs("\n# What no tensor tells. vitrine doctor WEIGHTS " VT_OPTION "logits FILE " VT_OPTION
          "names THIS proves it (docs/models.md).\n",
          f);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (!vt_tensors_meta(st, i ? values[i][0] : "num_heads"))
            fprintf(f, "set %-12s ?   # %s\n", values[i][0], values[i][1]);
    fprintf(f, "set %-12s ?   # activation of the MLP: %s\n", "act", vt_form_find("act")->opt.choices);
}

static const char instructions[] =
    "# Write timm's name (below) for every ?, or \"drop NAME\" for a line that the network does not need. Then:\n"
    "# vitrine info FILE " VT_OPTION "names THIS (docs/models.md, Maps)\n"
    "#\n"
    "# Names of a ViT of width D with N tokens, patches of P x P, MLP width H and K classes; * is weight and bias:\n"
    "#   cls_token [1,1,D], pos_embed [1,N,D]; register tokens: reg_token [1,R,D]\n"
    "#   patch_embed.proj.* [D,3,P,P], or of a Linear [D,3PP]; a norm before it: patch_embed.norm_in.* [3PP], after\n"
    "#     it: patch_embed.norm.* [D]\n"
    "#   blocks.{i}.norm1.* [D], blocks.{i}.attn.qkv.* [3D,D], blocks.{i}.attn.proj.* [D,D]\n"
    "#   blocks.{i}.norm2.* [D], blocks.{i}.mlp.fc1.* [H,D], blocks.{i}.mlp.fc2.* [D,H]\n"
    "#   LayerScale: blocks.{i}.ls1.gamma [D], ls2.gamma; a norm of each head: blocks.{i}.attn.q_norm.*, k_norm.*\n"
    "#   norm.* [D] (fc_norm.* if it runs over the mean of tokens), head.* [K,D]\n"
    "#   DeiT: dist_token [1,1,D], head_dist.* [K,D]\n"
    "# q, k and v apart are one line, without lines of their own: Q.* + K.* + V.* -> blocks.{i}.attn.qkv.*\n"
    "#\n"
    "# A block computes x = x + proj(softmax(attn_scale q k^T) v) of norm1(x), then x = x + fc2(act(fc1(norm2(x))));\n"
    "# post_norm 1: x = norm1(x + ...) instead. No map makes another computation right, as a residual of the normed\n"
    "# x, or anything after fc2, softmax or proj: vitrine eval " VT_OPTION "oracle evaluates it (docs/oracle.md).\n\n";

vt_status vt_map_template(FILE *f, const vt_tensors *st, vt_err *e) {
    table s = {0};
    const char *slash = strrchr(vt_tensors_path(st), '/');
    char file[200];
    if (vt_tensors_count(st) > VT_MAP_TEMPLATE_MOST)
        return vt_fail(e, VT_E_RANGE, "%s: has %d tensors, a map is written for at most %d", vt_tensors_path(st),
                       vt_tensors_count(st), VT_MAP_TEMPLATE_MOST);
    vt_status status = take_rows(&s, f, st, e);
    if (status == VT_OK) {
        vt_text_line(file, sizeof file, slash ? slash + 1 : vt_tensors_path(st));
        fprintf(f, "# Name map for %s: %d tensors.\n%s", file, vt_tensors_count(st), instructions);
        find_blocks(&s), put_rows(f, &s), put_values(f, st);
    }
    free(s.rows);
    return status;
}
