/* SPDX-License-Identifier: MIT */
/* JSON objects by a table: a row has a key, its type and range, and where its value stands in a struct. The same rows
 * read an object into the struct and write the struct as an object, in their order. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include "base/status.h"

/* The member that a row stands for. */
typedef enum vt_key_type {
    VT_KEY_TEXT,   /* const char *, which belongs to the object */
    VT_KEY_CHARS,  /* char[most]: one line; "" reads as absent */
    VT_KEY_INT,    /* int */
    VT_KEY_SEED,   /* uint64_t, any whole number */
    VT_KEY_REAL,   /* double */
    VT_KEY_TRIPLE, /* double[3] */
    VT_KEY_BOOL,   /* bool */
    VT_KEY_CHOICE, /* int: the index of the text in `names` */
    VT_KEY_OBJECT, /* const json_t *, which belongs to the object */
    VT_KEY_TEXTS,  /* the same of a list of texts */
    VT_KEY_GROUP,  /* an object whose keys are `keys`, in the same struct */
    VT_KEY_ITEMS   /* a list of objects, `keys` of each: T *, calloc'ed, at most `most`, and int at `count` */
} vt_key_type;

enum {
    VT_KEY_MUST = 1,   /* an object without it is refused */
    VT_KEY_ALWAYS = 2, /* written even if it has the value that an absent key reads as */
    VT_KEY_NULL = 4,   /* of a text: absent is NULL, not "" */
    VT_KEY_READ = 8,   /* only read: another row writes this key */
    VT_KEY_WRITE = 16  /* only written; a list is appended to that of an earlier row */
};

typedef struct vt_key {
    const char *key;
    vt_key_type type;
    size_t at;                 /* in the struct */
    size_t given;              /* of an int in the struct: if that is not 0, as VT_KEY_ALWAYS; 0: of none */
    unsigned flags;            /* VT_KEY_MUST ... */
    double least, most;        /* of numbers, where most is above least; of CHARS and ITEMS see there */
    double absent;             /* of a REAL: what an absent key reads as */
    const char *const *names;  /* of a TEXT or CHOICE: all that are known, and NULL; without them any text will do */
    const struct vt_key *keys; /* of GROUP and ITEMS */
    size_t size, count;        /* of ITEMS: of an item; where their number stands */
} vt_key;

/* Reads o (NULL: absent) by the rows, which end at key NULL, into a zeroed struct. `name`: what sentences call the
 * object up to a key, "run/ledger.jsonl: the header's model.". VT_E_FORMAT names key, value and limit. ITEMS that were
 * read before a failure are there, with their count. */
vt_status vt_keys_read(void *to, const json_t *o, const vt_key *keys, const char *name, vt_err *e);
/* Adds the struct's values to o; texts of the struct become those of the object. What there is no memory for is
 * missing (vt_json_refused). */
void vt_keys_write(json_t *o, void *from, const vt_key *keys);
