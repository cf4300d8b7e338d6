/* SPDX-License-Identifier: MIT */
/* Which layer of a ViT is this? By shapes first, then by the words that people use, then by order. Names are compared
 * in small letters. */
#include <ctype.h>
#include <math.h>
#include <string.h>
#include <strings.h>
#include "models/checkpoint/sketch.h"

/* ---- words ---- */

/* One of "cls|class" in the unit's own name; of none: true. */
static bool has_any(const vt_unit *u, const char *words) {
    const char *w = words;
    for (; *w; w += strcspn(w, "|"), w += *w == '|') {
        char one[16];
        size_t n = strcspn(w, "|");
        memcpy(one, w, n), one[n] = 0;
        if (strcasestr(u->suffix, one)) return true;
    }
    return !*words;
}

/* The last part of the name, "to_q". */
static const char *last_part(const vt_unit *u) {
    const char *dot = strrchr(u->suffix, '.');
    return dot ? dot + 1 : u->suffix;
}

/* Is the last part one of a letter's dresses: q, query, to_q, q_proj, Wq, w_q, fc_q, q_linear, queries? */
static bool is_letter(const vt_unit *u, char letter) {
    static const char *const before[] = {"", "to_", "w_", "w", "fc_", "linear_", "proj_", "lin_", "to", NULL};
    static const char *const after[] = {"",    "_proj", "_linear", "_lin", "_layer", "_projection",
                                        "_fc", "_w",    "s",       NULL};
    static const char *const cores[][3] = {{"q", "query", "queries"},
                                           {"k", "key", "keys"},
                                           {"v", "value", "values"},
                                           {"kv", "key_value", "keyvalue"}};
    const char *const *core = cores[strchr("qkvb", letter) - "qkvb"], *name = last_part(u);
    for (int b = 0; before[b]; b++)
        for (int c = 0; c < 3 && !strncasecmp(name, before[b], strlen(before[b])); c++) {
            const char *at = name + strlen(before[b]);
            size_t k = strlen(core[c]);
            for (int a = 0; after[a] && !strncasecmp(at, core[c], k); a++)
                if (!strcasecmp(at + k, after[a])) return true;
        }
    return false;
}

/* q_norm, norm_q, qnorm, q_ln, ln_q */
static bool is_head_norm(const vt_unit *u, char letter) {
    char core[16];
    size_t n = 0;
    for (const char *p = last_part(u); *p && n < sizeof core - 1; p++)
        if (*p != '_') core[n++] = (char)tolower((unsigned char)*p);
    core[n] = 0;
    if (n && core[n - 1] == letter) core[n - 1] = 0;
    const char *rest = core[0] == letter ? core + 1 : core;
    return strlen(rest) == n - 1 && (!strcmp(rest, "norm") || !strcmp(rest, "ln"));
}

/* ---- shapes ---- */

static int64_t dimension_at(const vt_unit *u, int i) { return i < u->t[0]->ndim ? u->t[0]->shape[i] : 0; }

static bool is_input(const vt_unit *u) {
    return is_letter(u, 'q') || is_letter(u, 'k') || is_letter(u, 'v') || is_letter(u, 'b');
}

/* A side of a matrix: w the model's width, i attention's, 3 three times the width, x any multiple of 3, p what flattens
 * square patches of 3 channels, * any. */
static bool is_side(const vt_sketch_units *s, char want, int64_t n) {
    int64_t p = llround(sqrt((double)n / 3));
    switch (want) {
    case 'w':
        return n == s->width;
    case 'i':
        return n == s->inner;
    case '3':
        return n == 3 * s->width;
    case 'x':
        return n % 3 == 0;
    case 'p':
        return p > 0 && 3 * p * p == n;
    default:
        return true;
    }
}

/* v: a lone vector; t: positions or tokens, also an nn.Embedding's weight; n: a norm; f: a norm of flattened patches;
 * c: a convolution of patches; q, k: a norm of each head's; a letter of is_letter in capitals: a matrix of that name;
 * else the two sides of a matrix. */
static bool is_shape(const vt_sketch_units *s, const vt_unit *u, const char *shape) {
    const vt_tensor *t = u->t[0];
    int64_t last = t->ndim ? dimension_at(u, t->ndim - 1) : s->width;
    switch (*shape) {
    case 'v':
        return !u->sep && (int64_t)t->numel == s->width && last == s->width;
    case 't':
        return t->ndim >= 2 && last == s->width && !u->t[1];
    case 'n':
        return u->sep && t->ndim == 1 && last == s->width;
    case 'f':
        return u->sep && t->ndim == 1 && s->flat && last == s->flat;
    case 'c':
        return u->sep && t->ndim == 4 && dimension_at(u, 0) == s->width && dimension_at(u, 1) == 3 &&
               dimension_at(u, 2) == dimension_at(u, 3);
    case 'q':
    case 'k':
        return t->ndim == 1 && is_head_norm(u, *shape);
    case 'Q':
    case 'K':
    case 'V':
    case 'B':
        return u->sep && t->ndim == 2 && dimension_at(u, 1) == s->width && is_letter(u, (char)tolower(*shape));
    default:
        return u->sep && t->ndim == 2 && is_side(s, shape[0], dimension_at(u, 0)) &&
               is_side(s, shape[1], dimension_at(u, 1)) && !is_input(u);
    }
}

/* ---- roles ---- */

typedef struct guess {
    const char *role, *shape, *words, *without; /* one of these words, none of those */
    bool last;                                  /* the last that fits; else the first */
} guess;

static const guess outside[] = {{"cls_token", "v", "cls|class", "", false},
                                {"dist_token", "v", "dist", "", false},
                                {"reg_token", "t", "reg|storage", "", false},
                                {"pos_embed", "t", "pos", "", false},
                                {"patch_embed.proj", "c", "", "", false},
                                {"patch_embed.proj", "wp", "patch|embed|proj|input|tokens", "", false},
                                {"patch_embed.norm_in", "f", "", "", false},
                                {"patch_embed.norm", "n", "patch|embed", "", false},
                                {"norm", "n", "", "patch|embed", true},
                                {"head", "*w", "head|classif|logit|fc", "dist", true},
                                {"head", "*w", "", "dist", true},
                                {"head_dist", "*w", "dist", "", false}};
#define MLP "mlp|ffn|ff.|feed|fc1|fc2|intermediate"
static const guess inside[] = {{"blocks.{i}.attn.proj", "wi", "out|proj|attn|attention|msa|mha|dense|unify", MLP,
                                false},
                               {"blocks.{i}.attn.proj", "wi", "", "", false},
                               {"blocks.{i}.mlp.fc1", "*w", "", "", false},
                               {"blocks.{i}.mlp.fc2", "w*", "", "", false},
                               {"blocks.{i}.attn.q_norm", "q", "", "", false},
                               {"blocks.{i}.attn.k_norm", "k", "", "", false},
                               {"blocks.{i}.norm1", "n", "", "", false},
                               {"blocks.{i}.norm2", "n", "", "", false},
                               {"blocks.{i}.ls1.gamma", "v", "gamma|ls|scale|lambda", "", false},
                               {"blocks.{i}.ls2.gamma", "v", "gamma|ls|scale|lambda", "", false}};

static vt_unit *with_role(vt_sketch_units *s, const char *role) {
    for (int i = 0; i < s->n; i++)
        if (s->u[i].role && !strcmp(s->u[i].role, role)) return &s->u[i];
    return NULL;
}

/* The unit without a role that fits, of the blocks or outside of them. */
static vt_unit *find_unassigned_unit(vt_sketch_units *s, bool block, const guess *g) {
    for (int k = 0; k < s->n; k++) {
        vt_unit *u = &s->u[g->last ? s->n - 1 - k : k];
        bool without = *g->without && has_any(u, g->without);
        if (u->block == block && !u->role && u->t[0] && is_shape(s, u, g->shape) && has_any(u, g->words) && !without)
            return u;
    }
    return NULL;
}

static vt_unit *assign_role(vt_sketch_units *s, bool block, const guess *g) {
    vt_unit *u = with_role(s, g->role) ? NULL : find_unassigned_unit(s, block, g);
    if (u) u->role = g->role;
    return u;
}

/* Rows of several matrices that become one. What one of them has, say a bias, all must have: a line that joins takes
 * its part of each. */
static void assign_joined_role(vt_unit *const *units, int n, const char *role) {
    bool same = true, mixed = false;
    for (int i = 0; i < n; i++) {
        const vt_unit *u = units[i];
        same = same && !strcmp(u->part[0], units[0]->part[0]) && !strcmp(u->part[1], units[0]->part[1]) && !u->t[2] &&
               !u->t[3];
        mixed = mixed || u->mixed;
    }
    for (int i = 0; same && i < n; i++)
        units[i]->role = role, units[i]->item = i + 1, units[i]->items = n, units[i]->mixed = mixed;
}

static void guess_attention(vt_sketch_units *s) {
    static const char qkv[] = "blocks.{i}.attn.qkv";
    static const guess whole[] = {{qkv, "3w", "", "", false}, {qkv, "xw", "qkv|in_proj|in-proj", "", false}};
    static const guess apart[] = {{qkv, "Q", "", "", 0},
                                  {qkv, "K", "", "", 0},
                                  {qkv, "V", "", "", 0},
                                  {qkv, "B", "", "", 0}};
    vt_unit *u = assign_role(s, true, &whole[0]), *one[4];
    for (int k = 0; k < 4; k++) one[k] = find_unassigned_unit(s, true, &apart[k]);
    if (!u) u = assign_role(s, true, &whole[1]);
    s->inner = s->width;
    if (u) {
        s->inner = dimension_at(u, 0) / 3, s->fused = !has_any(u, "in_proj|in-proj");
    } else if (one[0] && one[1] && one[2]) {
        assign_joined_role(one, 3, qkv), s->inner = dimension_at(one[0], 0);
    } else if (one[0] && one[3] && dimension_at(one[3], 0) == 2 * dimension_at(one[0], 0)) {
        assign_joined_role((vt_unit *[]){one[0], one[3]}, 2, qkv), s->inner = dimension_at(one[0], 0);
    }
}

/* Above 0: this norm stands before attention, by its name. */
static int attention_norm_score(const vt_unit *u) {
    size_t n = strlen(u->suffix);
    char digit = n ? u->suffix[n - 1] : 0;
    return (int)has_any(u, "attn|attention|msa|mha|before|pre") - (int)has_any(u, "mlp|ffn|ff|feed|after|post") +
           (digit == '1') - (digit == '2');
}

/* Which norm stands before attention: its name, else its place. Two that both seem to (pre_norm, norm1) are of a block
 * of another kind (Compact Transformers: norm1 comes after attention, and the residual itself is normalised). */
static void order_norms(vt_sketch_units *s) {
    vt_unit *a = with_role(s, "blocks.{i}.norm1"), *b = with_role(s, "blocks.{i}.norm2");
    if (!a || !b) return;
    const char *first = a->role;
    if (attention_norm_score(a) < attention_norm_score(b)) a->role = b->role, b->role = first;
    if (attention_norm_score(a) != attention_norm_score(b) || !attention_norm_score(a)) return;
    a->role = b->role = NULL;
    a->why = b->why = "; norm1 or norm2, if the block is the one above";
}

void vt_sketch_guess(vt_sketch_units *s) {
    enum { PATCHES = 6, EARLY = 8 }; /* rows up to the patches' and their norms'; the others come after the blocks */
    for (int i = 0; i < EARLY && (i < PATCHES || with_role(s, "patch_embed.proj")); i++) {
        vt_unit *u = assign_role(s, false, &outside[i]);
        if (u && !strcmp(outside[i].shape, "wp")) s->flat = dimension_at(u, 1);
    }
    guess_attention(s);
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) assign_role(s, true, &inside[i]);
    order_norms(s);
    for (size_t i = EARLY; i < sizeof outside / sizeof *outside; i++) assign_role(s, false, &outside[i]);
    vt_unit *dist = with_role(s, "dist_token"), *norm = with_role(s, "norm");
    if (dist && !with_role(s, "head_dist")) dist->role = "reg_token"; /* without a head a token like any other */
    if (norm) norm->why = "; fc_norm if it runs over the mean, not before it";
}
