/* SPDX-License-Identifier: MIT */
/* What a user chose: pairs of a name and a text, from a command line's options or from the fields of a file. The
 * texts belong to the caller and must outlive the list. */
#pragma once

#include <stdbool.h>
#include "base/status.h"

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
    const char *value; /* as help shows it, from which completion tells what it may be; NULL: a flag */
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

/* The last value of a name, or NULL; whether there is one; the i-th one. */
const char *vt_chosen(const vt_choices *c, const char *name);
bool vt_is_chosen(const vt_choices *c, const char *name);
const char *vt_chosen_nth(const vt_choices *c, const char *name, int i);
/* One more pair behind the others: for vt_chosen it replaces earlier ones of its name. False: there are too many. */
bool vt_choose(vt_choices *c, const char *name, const char *value);
/* A value as a whole number within [min, max], or `absent`. */
vt_status vt_chosen_int(const vt_choices *c, const char *name, long long min, long long max, long long absent,
                        long long *out, vt_err *e);
