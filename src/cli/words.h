/* SPDX-License-Identifier: MIT */
/* What may stand where, for shells to complete: told by the value in an option's row ("DIR", "test|train", "PRESET") or
 * by a command's operands. */
#ifndef VT_CLI_WORDS_H
#define VT_CLI_WORDS_H

#include <stdio.h>
#include "cli/cli.h"

typedef enum vt_words_kind {
    VT_WORDS_NONE,   /* nothing to choose from: a number, a free text */
    VT_WORDS_FILE,   /* a path */
    VT_WORDS_FOLDER, /* the path of a folder */
    VT_WORDS_ONE,    /* one of some words; one that ends in '=' is followed by its value */
    VT_WORDS_LIST    /* some of them, with '+' or ',' between */
} vt_words_kind;

/* The words, of kinds ONE and LIST alone, go to f, a blank before each. Paths may be given beside words where `*paths`
 * becomes true. value NULL: nothing. */
vt_words_kind vt_words(FILE *f, const char *value, bool *paths);

#endif
