/* SPDX-License-Identifier: MIT */
/* Which layer of a ViT is this? By shapes first, then by the words that people use, then by order. Names are compared
 * in small letters. */
#include <ctype.h>
#include <math.h>
#include <string.h>
#include <strings.h>
#include "models/checkpoint/sketch.h"

/* ---- words ---- */

static bool has(const vt_unit *u, const char *word) { return strcasestr(u->suffix, word) != NULL; }

static bool has_any(const vt_unit *u, const char *const *words) {
    for (; *words; words++)
        if (has(u, *words)) return true;
    return false;
}

/* The last part of the name, "to_q". */
static const char *last_part(const vt_unit *u) {
    const char *dot = strrchr(u->suffix, '.');
    return dot ? dot + 1 : u->suffix;
}

/* Is the last part `letter` in one of its dresses: q, query, to_q, q_proj, Wq, w_q, fc_q, q_linear, queries? */
static bool is_letter(const vt_unit *u, const char *letter, const char *word, const char *many) {
    static const char *const before[] = {"", "to_", "w_", "w", "fc_", "linear_", "proj_", "lin_", "to", NULL};
    static const char *const after[] = {"",    "_proj", "_linear", "_lin", "_layer", "_projection",
                                        "_fc", "_w",    "s",       NULL};
    const char *cores[] = {letter, word, many}, *name = last_part(u);
    for (int b = 0; before[b]; b++) {
        size_t n = strlen(before[b]);
        if (strncasecmp(name, before[b], n)) continue;
        for (int c = 0; c < 3; c++) {
            size_t k = strlen(cores[c]);
            if (strncasecmp(name + n, cores[c], k)) continue;
            for (int a = 0; after[a]; a++)
                if (!strcasecmp(name + n + k, after[a])) return true;
        }
    }
    return false;
}

/* ---- shapes ---- */

static int64_t side(const vt_unit *u, int i) { return i < u->weight->ndim ? u->weight->shape[i] : 0; }
static bool matrix(const vt_unit *u) { return u->weight->ndim == 2 && u->sep; }
static bool is_matrix(const vt_unit *u, int64_t rows, int64_t columns) {
    return matrix(u) && side(u, 0) == rows && side(u, 1) == columns;
}
/* A norm's weight and bias. */
static bool is_norm(const vt_unit *u, int64_t length) { return u->sep && u->weight->ndim == 1 && side(u, 0) == length; }
static bool is_vector(const vt_unit *u, int64_t length) {
    return !u->sep && (int64_t)u->weight->numel == length &&
           (u->weight->ndim < 1 || side(u, u->weight->ndim - 1) == length);
}
/* [.., N, length]: positions or tokens; also an nn.Embedding's weight. */
static bool is_table(const vt_unit *u, int64_t length) {
    return u->weight->ndim >= 2 && side(u, u->weight->ndim - 1) == length && !u->bias;
}

/* The first unit of blocks (or outside of them) without a role that `fits`. */
typedef bool fits_fn(const vt_sketch_units *s, const vt_unit *u);

static vt_unit *first(vt_sketch_units *s, bool block, fits_fn *fits) {
    for (int i = 0; i < s->n; i++)
        if (s->u[i].block == block && !s->u[i].role && s->u[i].weight && fits(s, &s->u[i])) return &s->u[i];
    return NULL;
}

static vt_unit *last(vt_sketch_units *s, bool block, fits_fn *fits) {
    for (int i = s->n - 1; i >= 0; i--)
        if (s->u[i].block == block && !s->u[i].role && s->u[i].weight && fits(s, &s->u[i])) return &s->u[i];
    return NULL;
}

static void name(vt_unit *u, const char *role) {
    if (u) u->role = role;
}

/* ---- attention ---- */

static bool is_qkv(const vt_sketch_units *s, const vt_unit *u) {
    static const char *const words[] = {"qkv", "in_proj", "in-proj", NULL};
    if (!matrix(u) || side(u, 1) != s->width || side(u, 0) % 3) return false;
    return side(u, 0) == 3 * s->width || has_any(u, words);
}
static bool is_q(const vt_sketch_units *s, const vt_unit *u) {
    return matrix(u) && side(u, 1) == s->width && is_letter(u, "q", "query", "queries");
}
static bool is_k(const vt_sketch_units *s, const vt_unit *u) {
    return matrix(u) && side(u, 1) == s->width && is_letter(u, "k", "key", "keys");
}
static bool is_v(const vt_sketch_units *s, const vt_unit *u) {
    return matrix(u) && side(u, 1) == s->width && is_letter(u, "v", "value", "values");
}
static bool is_kv(const vt_sketch_units *s, const vt_unit *u) {
    return matrix(u) && side(u, 1) == s->width && is_letter(u, "kv", "key_value", "keyvalue");
}

/* Part of attention's input, also where it could not be joined. */
static bool is_input(const vt_sketch_units *s, const vt_unit *u) {
    return is_q(s, u) || is_k(s, u) || is_v(s, u) || is_kv(s, u);
}

static const char *const mlp_words[] = {"mlp", "ffn", "ff.", "feed", "fc1", "fc2", "intermediate", NULL};

static bool is_proj(const vt_sketch_units *s, const vt_unit *u) {
    static const char *const words[] = {"out", "proj", "attn", "attention", "msa", "mha", "dense", "unify", NULL};
    return is_matrix(u, s->width, s->inner) && !is_input(s, u) && !has_any(u, mlp_words) && has_any(u, words);
}
static bool is_any_proj(const vt_sketch_units *s, const vt_unit *u) {
    return is_matrix(u, s->width, s->inner) && !is_input(s, u);
}

/* Rows of several matrices that become one. What one of them has, say a bias, all must have: a line that joins takes
 * its part of each. */
static void join(vt_unit *const *units, int n, const char *role) {
    bool same = true, mixed = false;
    for (int i = 0; i < n; i++) {
        same = same && !strcmp(units[i]->weight_name, units[0]->weight_name) &&
               !strcmp(units[i]->bias_name, units[0]->bias_name) && !units[i]->stat[0] && !units[i]->stat[1];
        mixed = mixed || units[i]->mixed;
    }
    for (int i = 0; same && i < n; i++)
        units[i]->role = role, units[i]->part = i + 1, units[i]->parts = n, units[i]->mixed = mixed;
}

static void guess_attention(vt_sketch_units *s) {
    const char *qkv = "blocks.{i}.attn.qkv";
    vt_unit *whole = first(s, true, is_qkv), *q = first(s, true, is_q), *k = first(s, true, is_k),
            *v = first(s, true, is_v), *kv = first(s, true, is_kv);
    s->inner = s->width;
    if (whole) {
        name(whole, qkv), s->inner = side(whole, 0) / 3;
    } else if (q && k && v) {
        join((vt_unit *[]){q, k, v}, 3, qkv), s->inner = side(q, 0);
    } else if (q && kv && side(kv, 0) == 2 * side(q, 0)) {
        join((vt_unit *[]){q, kv}, 2, qkv), s->inner = side(q, 0);
    }
    vt_unit *proj = first(s, true, is_proj);
    name(proj ? proj : first(s, true, is_any_proj), "blocks.{i}.attn.proj");
}

/* ---- the rest of a block ---- */

static bool is_fc1(const vt_sketch_units *s, const vt_unit *u) {
    return matrix(u) && side(u, 1) == s->width && !is_input(s, u);
}
static bool is_fc2(const vt_sketch_units *s, const vt_unit *u) {
    return matrix(u) && side(u, 0) == s->width && !is_input(s, u);
}

static bool is_head_norm(const vt_unit *u, const char *letter) {
    static const char *const forms[][2] = {{"", "_norm"}, {"norm_", ""}, {"", "norm"}, {"", "_ln"}, {"ln_", ""}};
    const char *part = last_part(u);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t n = strlen(forms[i][0]);
        if (!strncasecmp(part, forms[i][0], n) && tolower((unsigned char)part[n]) == *letter &&
            !strcasecmp(part + n + 1, forms[i][1]))
            return true;
    }
    return false;
}
static bool is_q_norm(const vt_sketch_units *s, const vt_unit *u) {
    (void)s;
    return u->weight->ndim == 1 && is_head_norm(u, "q");
}
static bool is_k_norm(const vt_sketch_units *s, const vt_unit *u) {
    (void)s;
    return u->weight->ndim == 1 && is_head_norm(u, "k");
}
static bool is_block_norm(const vt_sketch_units *s, const vt_unit *u) { return is_norm(u, s->width); }
static bool is_scale(const vt_sketch_units *s, const vt_unit *u) {
    static const char *const words[] = {"gamma", "ls", "scale", "lambda", NULL};
    return is_vector(u, s->width) && has_any(u, words);
}

/* Above 0: this norm stands before attention, by its name. */
static int leaning(const vt_unit *u) {
    static const char *const one[] = {"attn", "attention", "msa", "mha", "before", "pre", NULL};
    static const char *const two[] = {"mlp", "ffn", "ff", "feed", "after", "post", NULL};
    size_t n = strlen(u->suffix);
    char digit = n ? u->suffix[n - 1] : 0;
    return (int)has_any(u, one) - (int)has_any(u, two) + (digit == '1') - (digit == '2');
}

static void guess_block(vt_sketch_units *s) {
    guess_attention(s);
    name(first(s, true, is_fc1), "blocks.{i}.mlp.fc1");
    name(first(s, true, is_fc2), "blocks.{i}.mlp.fc2");
    name(first(s, true, is_q_norm), "blocks.{i}.attn.q_norm");
    name(first(s, true, is_k_norm), "blocks.{i}.attn.k_norm");
    vt_unit *a = first(s, true, is_block_norm);
    name(a, "blocks.{i}.norm1");
    vt_unit *b = first(s, true, is_block_norm);
    name(b, "blocks.{i}.norm2");
    if (a && b && leaning(a) < leaning(b)) a->role = "blocks.{i}.norm2", b->role = "blocks.{i}.norm1";
    name(first(s, true, is_scale), "blocks.{i}.ls1.gamma");
    name(first(s, true, is_scale), "blocks.{i}.ls2.gamma");
}

/* ---- before and behind the blocks ---- */

static bool is_cls(const vt_sketch_units *s, const vt_unit *u) {
    return is_vector(u, s->width) && (has(u, "cls") || has(u, "class"));
}
static bool is_dist(const vt_sketch_units *s, const vt_unit *u) { return is_vector(u, s->width) && has(u, "dist"); }
static bool is_registers(const vt_sketch_units *s, const vt_unit *u) {
    return is_table(u, s->width) && (has(u, "reg") || has(u, "storage"));
}
static bool is_positions(const vt_sketch_units *s, const vt_unit *u) { return is_table(u, s->width) && has(u, "pos"); }
static bool is_patches(const vt_sketch_units *s, const vt_unit *u) {
    return u->sep && u->weight->ndim == 4 && side(u, 0) == s->width && side(u, 1) == 3 && side(u, 2) == side(u, 3);
}
static bool is_linear_patches(const vt_sketch_units *s, const vt_unit *u) {
    static const char *const words[] = {"patch", "embed", "proj", "input", "tokens", NULL};
    int64_t pixels = matrix(u) && side(u, 1) % 3 == 0 ? side(u, 1) / 3 : 0;
    int64_t p = llround(sqrt((double)pixels));
    return side(u, 0) == s->width && p > 0 && p * p == pixels && has_any(u, words);
}
static bool is_final_norm(const vt_sketch_units *s, const vt_unit *u) {
    return is_norm(u, s->width) && !has(u, "patch") && !has(u, "embed");
}
static bool is_patch_norm(const vt_sketch_units *s, const vt_unit *u) {
    return is_norm(u, s->width) && (has(u, "patch") || has(u, "embed"));
}
static bool is_head(const vt_sketch_units *s, const vt_unit *u) {
    return matrix(u) && side(u, 1) == s->width && !has(u, "dist") && u->bias;
}
static bool is_named_head(const vt_sketch_units *s, const vt_unit *u) {
    static const char *const words[] = {"head", "classif", "logit", "fc", NULL};
    return is_head(s, u) && has_any(u, words);
}
static bool is_any_head(const vt_sketch_units *s, const vt_unit *u) { return matrix(u) && side(u, 1) == s->width; }

/* A norm of the flattened patch, before a Linear. */
static void guess_patch_norms(vt_sketch_units *s, const vt_unit *patches) {
    for (int i = 0; s->linear && i < s->n; i++)
        if (!s->u[i].block && !s->u[i].role && s->u[i].weight && is_norm(&s->u[i], side(patches, 1)) &&
            &s->u[i] < patches) {
            s->u[i].role = "patch_embed.norm_in";
            break;
        }
    name(first(s, false, is_patch_norm), "patch_embed.norm");
}

void vt_sketch_guess(vt_sketch_units *s) {
    vt_unit *cls = first(s, false, is_cls);
    name(cls, "cls_token");
    s->cls = cls != NULL;
    vt_unit *dist = first(s, false, is_dist);
    name(dist, "dist_token");
    name(first(s, false, is_registers), "reg_token");
    name(first(s, false, is_positions), "pos_embed");
    vt_unit *patches = first(s, false, is_patches);
    if (!patches) s->linear = (patches = first(s, false, is_linear_patches)) != NULL;
    name(patches, "patch_embed.proj");
    if (patches) guess_patch_norms(s, patches);
    guess_block(s);
    name(last(s, false, is_final_norm), "norm");
    vt_unit *head = last(s, false, is_named_head);
    if (!head) head = last(s, false, is_head);
    name(head ? head : last(s, false, is_any_head), "head");
    vt_unit *other = first(s, false, is_any_head);
    if (other && has(other, "dist"))
        name(other, "head_dist");
    else
        name(dist, "reg_token"); /* without a head of its own it is a token like any other */
}
