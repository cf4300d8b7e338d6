/* SPDX-License-Identifier: MIT */
/* What an attention variant is, whatever the precision: its name, options and ONNX graph, the first half of a file
 * net/attn_*.c. The second half is what it computes (models/net/attention.h: vt_attn_ops). */
#pragma once

#include "base/opt.h"
#include "graph/write.h"
#include "models/config.h"

/* Room for any variant's option struct. */
typedef union vt_attn_options {
    double align;
    char bytes[64];
} vt_attn_options;

/* Attention's inputs as values of a graph that is written (graph/write.h): q, k, v [..., heads, T, d], of so many
 * sides.
 */
typedef struct vt_put_heads {
    int q, k, v, rank;
    double scale;
} vt_put_heads;

typedef struct vt_attn {
    const char *name, *summary, *reference;
    const vt_opt *opts; /* "name:key=value,..."; ends at key NULL, or NULL; the struct fits vt_attn_options */
    unsigned (*needs)(const void *options); /* VT_ATTN_*; NULL: nothing */
    /* The same as nodes of a graph: scores [..., heads, T, T] that the softmax takes, without bias and mask; and what P
     * multiplies (NULL: v). */
    int (*put_scores)(vt_put *p, const vt_put_heads *h, const void *options);
    int (*put_values)(vt_put *p, const vt_put_heads *h, const void *options);
    bool dot; /* P = softmax(scale Q K^T) and values v, nothing else: for few queries keys and values can be left out
                 (net/mha.c) */
} vt_attn;

/* Returns all variants; *n: how many. */
const vt_attn *const *vt_attns(int *n);
/* Returns the variant of "name" or "name:options" (which are not looked at); NULL: unknown. */
const vt_attn *vt_attn_find(const char *text);

/* A parsed "name" or "name:key=value,...". */
typedef struct vt_attn_spec {
    const vt_attn *is;
    vt_attn_options options;
    unsigned needs;
    char text[VT_ATTN_TEXT]; /* canonical: every option written out */
} vt_attn_spec;

/* Is attention of the first `n_read` of so many tokens, where nothing reads the others, computed without keys and
 * values (net/mha.c)? Not where keys have a norm, nor where the rows that stand for them, one a query and head, would
 * need more room. */
bool vt_attn_may_be_few(const vt_config *c, int n_read, int tokens);

/* Parses "name" or "name:key=value,..."; options that are not given have their defaults. VT_E_UNKNOWN or VT_E_USAGE: no
 * such variant or option; VT_E_RANGE: text would not hold all options. */
vt_status vt_attn_parse(vt_attn_spec *out, const char *text, vt_err *e);

/* What a variant's options ask for. The first two are the block's to provide, the third is done here. */
enum {
    VT_ATTN_TIED = 1,       /* one tensor for W_Q and W_K: q and k are the same memory */
    VT_ATTN_FULL = 2,       /* v = q W_Q^T W_V scale (vt_attn_full_*) instead of x W_V */
    VT_ATTN_OWN_VALUES = 4, /* P multiplies values(v), not v */
};

/* Returns the row stride of a [tq, t] matrix of probabilities or scores, in reals (rows padded to whole vectors). */
static inline int vt_attn_ldp(int t) { return (t + 15) / 16 * 16; }
