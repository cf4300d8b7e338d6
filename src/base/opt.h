/* SPDX-License-Identifier: MIT */
/* Options as tables: one vt_opt row gives parsing of "key=value", default, range check, help and the canonical text
 * that stands in every report. Also the parsers of numbers that the command line shares, and nearest-name search. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "base/status.h"

typedef enum vt_opt_type {
    VT_OPT_INT,
    VT_OPT_REAL,
    VT_OPT_BOOL,
    VT_OPT_CHOICE,
    VT_OPT_TRIPLE,
    VT_OPT_TEXT
} vt_opt_type;

typedef struct vt_opt {
    const char *key, *help;
    vt_opt_type type;
    size_t offset;           /* into the parameter struct: int, double, bool, int (choice), double[3], char[max] */
    double preset;           /* default; of a text: preset_text */
    double min, max;         /* inclusive; TRIPLE: of each; TEXT: max is the size of the buffer; choices: unused */
    const char *choices;     /* "ce|margin" */
    const char *preset_text; /* the default as text if no number states it ("eps/4"), or NULL */
} vt_opt;

/* Rows of such tables: whole number, real, three reals, yes or no, choice, text; T is the parameter struct, f its
 * field. With _OR the default reads as `said`, whatever number stands for it. A choice's default is an index. */
#define VT_OPT_ROW(key_, T, f, help_, kind, ...)                                                                       \
    { .key = key_, .help = help_, .type = VT_OPT_##kind, .offset = offsetof(T, f), __VA_ARGS__ }
#define VT_OPT_I(key, T, f, help, preset_, lo, hi)                                                                     \
    VT_OPT_ROW(key, T, f, help, INT, .preset = preset_, .min = lo, .max = hi)
#define VT_OPT_R(key, T, f, help, preset_, lo, hi)                                                                     \
    VT_OPT_ROW(key, T, f, help, REAL, .preset = preset_, .min = lo, .max = hi)
#define VT_OPT_3(key, T, f, help, preset_, lo, hi)                                                                     \
    VT_OPT_ROW(key, T, f, help, TRIPLE, .preset = preset_, .min = lo, .max = hi)
#define VT_OPT_I_OR(key, T, f, help, said, preset_, lo, hi)                                                            \
    VT_OPT_ROW(key, T, f, help, INT, .preset = preset_, .min = lo, .max = hi, .preset_text = said)
#define VT_OPT_R_OR(key, T, f, help, said, preset_, lo, hi)                                                            \
    VT_OPT_ROW(key, T, f, help, REAL, .preset = preset_, .min = lo, .max = hi, .preset_text = said)
#define VT_OPT_3_OR(key, T, f, help, said, preset_, lo, hi)                                                            \
    VT_OPT_ROW(key, T, f, help, TRIPLE, .preset = preset_, .min = lo, .max = hi, .preset_text = said)
#define VT_OPT_B(key, T, f, help, preset_) VT_OPT_ROW(key, T, f, help, BOOL, .preset = preset_, .max = 1)
#define VT_OPT_C(key, T, f, help, words, preset_)                                                                      \
    VT_OPT_ROW(key, T, f, help, CHOICE, .preset = preset_, .choices = words)
#define VT_OPT_S(key, T, f, help, said)                                                                                \
    VT_OPT_ROW(key, T, f, help, TEXT, .max = sizeof(((T *)0)->f), .preset_text = said)
#define VT_OPT_END                                                                                                     \
    { .key = NULL }

/* Parses "A/B" (B > 0) or a decimal number; false, *out untouched, unless the whole text is used and the result
 * finite. */
bool vt_parse_real(const char *text, double *out);
/* Parses a decimal whole number, with a sign or without; false: the text is none, or out of range. */
bool vt_parse_int(const char *text, long long *out);
/* Parses "A,B,C", or one number for all three, each as vt_parse_real; false: it is neither. */
bool vt_parse_triple(const char *text, double out[3]);

/* Returns the name in list [n] nearest to word (edit distance, in any case), or NULL if none is near: a third of its
 * letters, one to three, may be others, or it is the beginning, of two letters or more, of the name. */
const char *vt_nearest(const char *word, const char *const *list, size_t n);
/* Fails with VT_E_UNKNOWN: an unknown WHAT, with the nearest name of the list [n], or else where to look (a command)
 * or, with NULL, the list. */
vt_status vt_fail_unknown(const char *what, const char *word, const char *const *list, size_t n, const char *look,
                          vt_err *e);

/* Fills params with the defaults of opts (ends at key NULL; opts may be NULL). */
void vt_opt_defaults(const vt_opt *opts, void *params);
/* Applies "key=value,key=value" to params, up to the first that fails: VT_E_UNKNOWN: no such key; VT_E_USAGE: form,
 * value or range. Letters count in any case. who: the owner in errors, "attack pgd". */
vt_status vt_opt_parse(const vt_opt *opts, void *params, const char *text, const char *who, vt_err *e);
/* Sets one option of params. VT_E_UNKNOWN, with the nearest key: opts has no such key; VT_E_USAGE: no value, not of its
 * type, or out of range. */
vt_status vt_opt_set(const vt_opt *opts, void *params, const char *key, const char *value, const char *who, vt_err *e);
/* Sets *out to option `key` if there is one and it is a whole number; false, *out untouched, if not. */
bool vt_opt_int(const vt_opt *opts, const void *params, const char *key, int *out);
/* Writes the canonical text of one option's value; returns the length that snprintf would. */
int vt_opt_value(const vt_opt *o, const void *params, char *buf, size_t size);
/* Writes the canonical "key=value,..." of all options, in table order; returns the length that snprintf would. */
int vt_opt_text(const vt_opt *opts, const void *params, char *buf, size_t size);

/* ---- what a user chose: a command line's options, or the fields of a file ---- */

/* What an option is about; help shows them in this order, those of the run last. */
typedef enum vt_about {
    VT_OF_RUN,
    VT_OF_MODEL,
    VT_OF_DATA,
    VT_OF_THREAT,
    VT_OF_ATTACK,
    VT_OF_OUTPUT,
    VT_ABOUTS
} vt_about;

/* An option that may be chosen, in a table that ends at name NULL. */
typedef struct vt_arg {
    const char *name;  /* long option without dashes ("eps"), one letter for a short one ("o") */
    const char *value; /* as help shows it; completion derives the possible values from it; NULL: a flag */
    const char *help;  /* one line, with the default */
    vt_about about;
} vt_arg;
const vt_arg *vt_arg_find(const vt_arg *table, const char *name); /* NULL: not there; table may be NULL */

enum { VT_CHOICES_MOST = 256 };

typedef struct vt_choices {
    struct {
        const char *name, *value; /* of a flag the value is "" */
    } list[VT_CHOICES_MOST];
    int n;
} vt_choices;

/* Returns the last value of a name; NULL: it was not chosen. */
const char *vt_chosen(const vt_choices *c, const char *name);
/* Returns whether a name was chosen. */
bool vt_is_chosen(const vt_choices *c, const char *name);
/* Returns the i-th value of a name, i = 0, 1, ...; NULL: there are fewer. */
const char *vt_chosen_nth(const vt_choices *c, const char *name, int i);
/* Appends a pair: for vt_chosen it replaces earlier ones of its name. False: there are too many. */
bool vt_choose(vt_choices *c, const char *name, const char *value);
/* Sets *out to a name's last value, a whole number within [min, max], or to `absent`; VT_E_USAGE: another value. */
vt_status vt_chosen_int(const vt_choices *c, const char *name, long long min, long long max, long long absent,
                        long long *out, vt_err *e);
