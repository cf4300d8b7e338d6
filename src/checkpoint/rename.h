/* SPDX-License-Identifier: MIT */
/* Name maps: how a state dict's names become timm's, the canonical ones. A text, a line for each kind of tensor; the
 * first line that fits a tensor counts. Buffers that every library leaves out (num_batches_tracked, Swin's index and
 * mask, ...) need no line. */
#pragma once

#include "tensors/tensors.h"

/* ---- patterns of tensor names (pattern.c) ---- */

#define VT_NAME_MAX 255 /* longer names fit no pattern */

/* What the letters and the stars of a pattern stand for in one name. */
typedef struct vt_binding {
    int64_t number[26];
    uint32_t known; /* bit k: letter 'a' + k */
    struct {
        const char *text;
        size_t n;
    } star[2];
    int stars;
} vt_binding;

/* Checks a pattern: letters stand for themselves, * for any characters (also none), {i} for a whole number, {2i+1} for
 * one of that form. letters: bit k is 'a' + k in braces. Errors begin with `who`. */
vt_status vt_pattern_check(const char *pattern, const char *who, uint32_t *letters, int *stars, vt_err *e);
/* Does the name fit a checked pattern? *b is then how. */
bool vt_pattern_match(const char *pattern, const char *name, vt_binding *b);
/* Makes a name of a pattern and a binding; false: too long, a negative number, or a letter or star without a value. */
bool vt_pattern_expand(const char *pattern, const vt_binding *b, char out[VT_NAME_MAX + 1]);

/* ---- maps ---- */

enum { VT_RENAME_PARTS = 8 };

/* A line about names:
 *
 *     theirs -> timm                  rename
 *     q.* + k.* + v.* -> qkv.*        rows of several tensors, one after another
 *     q_bias + 0 + v_bias -> qkv.bias the same, with as many rows of zeros as the first has
 *     qkv.* -> q.* + k.* + v.*        equal parts of the rows of one
 *     maybe theirs -> timm            a line that need not fit any tensor
 *     drop pooler.*  why              left out
 *
 * A word ? is a blank that vitrine map left (checkpoint/map_template.c), and is refused; # begins a comment. */
typedef struct vt_rename_rule {
    int line;     /* 0: of the lines that every map has */
    int from, to; /* how many names; to 0: drop. One of both is 1 at least. */
    const char *theirs[VT_RENAME_PARTS], *ours[VT_RENAME_PARTS];
    const char *why; /* of a drop */
    bool maybe;      /* no tensor need fit */
} vt_rename_rule;

/* A line "set heads 4", a setting that tensors do not hold (`keys` in rename.c), or "is patch_order hwc", the same if
 * the names themselves prove it: their class has no other value. */
typedef struct vt_rename_pair {
    const char *key, *value;
    bool proven; /* it was an is line */
} vt_rename_pair;

/* One block of memory, for free(). */
typedef struct vt_rename {
    const char *who; /* "map my.map" */
    vt_rename_rule *rules;
    int count;
    vt_rename_pair *pairs;
    int n_pairs;
    bool proves, inexact;    /* has an is line; has a maybe line */
    const char *patch_order; /* of a Linear patch embedding by a source that wins over set lines; or NULL */
} vt_rename;

/* What became of one tensor of the file. */
typedef struct vt_names_row {
    vt_tensor was;
    const char *origin; /* its name in the file; was.name is without common prefixes */
    const char *became; /* canonical name, with what part of it; NULL: left out */
    const char *why;    /* it was left out, or NULL */
} vt_names_row;

/* Parses a map's text of n bytes; `who` names the map in errors. VT_E_FORMAT, VT_E_USAGE or VT_E_UNKNOWN with the line.
 * To be freed. */
vt_status vt_rename_parse(vt_rename **out, const char *text, size_t n, const char *who, vt_err *e);
/* Returns the value of a set or is line, or NULL. */
const char *vt_rename_value(const vt_rename *m, const char *key);
/* Is the key set by an is line? */
bool vt_rename_proven(const vt_rename *m, const char *key);
/* Is this part of a sum the 0? */
bool vt_rename_zero(const vt_rename_rule *r, int part);

/* Do its lines fit every tensor, and has every line but a maybe a tensor? */
bool vt_rename_covers(const vt_rename *m, const vt_tensors *st);
/* Rewrites the names, shapes and order of st; rows [number of tensors before], in memory of st: what became of each
 * (also when it fails, as far as it got). `all_lines`: a line that fits nothing is refused. */
vt_status vt_rename_apply(const vt_rename *m, vt_tensors *st, bool all_lines, vt_names_row **rows, int *n_rows,
                          vt_err *e);
/* Writes what the file calls a canonical tensor ("a + b + c"); false: no line makes it, or the name stays. */
bool vt_rename_theirs(const vt_rename *m, const char *canonical, char *buf, size_t size);
