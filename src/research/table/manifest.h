/* SPDX-License-Identifier: MIT */
/* A table's manifest: which rows, columns, seeds and images, and where the published numbers are (docs/tables.md). YAML
 * with a schema; unknown keys and names are refused with the nearest one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"
#include "base/yaml.h"

typedef struct vt_words {
    const char **word;
    int n;
} vt_words;
/* Whether the list has that word. */
bool vt_words_have(const vt_words *w, const char *word);

typedef struct vt_keyed { /* key: value lines */
    struct {
        const char *key, *value;
    } * pair;
    int n;
} vt_keyed;

/* Images, and what --dry-run may know of them without seeing them. */
typedef struct vt_manifest_data {
    const char *name, *path, *images, *split, *label; /* label: in the published file; NULL: name */
    int64_t side, classes, train, test;               /* 0: not given */
    vt_words set;                                     /* recipe keys of every row trained on it */
    vt_words options;                                 /* of vitrine eval, "preprocess=short:248" */
} vt_manifest_data;

/* A column: accuracy under an attack, or what its last fields say. */
typedef struct vt_manifest_attack {
    const char *name, *spec, *eps, *norm, *label; /* spec NULL: clean accuracy */
    const char *images;                           /* instead of the data set's */
    vt_words data;                                /* only these data sets; none: all */
    vt_words seed_words;                          /* only these seeds of a row; none: all of them */
    int64_t steps;         /* instead: the time of this many training steps, relative to the group's first row */
    const char *orderings; /* "none": not compared; NULL: compared */
    const char *certify;   /* instead: images that this method proves at eps, "linear" (eval/certifier.h) */
    const char *spectrum;  /* instead: sigma_max of W_Q, W_K or W_V ("q", "k", "v"); NULL: no */
} vt_manifest_attack;

typedef struct vt_manifest_row {
    const char *name, *recipe, *checkpoint, *init, *weights,
        *group;        /* recipe: a file's path; weights: "last" or "best"; group: rows
                        that are compared; NULL: all without one */
    const char *curve; /* of the figure: rows with the same are joined; NULL: a point of its own */
    vt_words set, options, init_options, attacks, data;
    vt_words seed_words;
    uint64_t *seeds;
    int n_seeds;
    vt_keyed published;          /* keys of the published file; method: the row's name by default */
    const vt_yaml_node *set_for; /* data set: recipe keys; NULL: none */
} vt_manifest_row;

/* A comparison that was fixed before anything ran, one of the few whose p-values are corrected for each other. */
typedef struct vt_manifest_primary {
    const char *name, *above_name, *below_name, *column_name, *data_name, *at_name;
    vt_words frontier_names;     /* instead of below: rows that are joined by lines, robust accuracy over `at` */
    int above, column, data, at; /* indices; at -1: none */
    int *rows;                   /* [n_rows] below alone, or the frontier */
    int n_rows;
} vt_manifest_primary;

/* A value that was chosen as the best of an ordered grid. Without points the grid is the rows themselves, in a column;
 * with them it was measured elsewhere, and the rows are those that have the best value. */
typedef struct vt_manifest_calibration {
    const char *name, *column_name, *data_name;
    vt_words row_names;
    vt_keyed points; /* value of the grid: what was measured there, more is better */
    int *rows;       /* [n_rows] */
    int n_rows, column, data;
} vt_manifest_calibration;

/* A panel of the picture: one column's accuracy over another's. */
typedef struct vt_manifest_figure {
    const char *name, *x_name, *y_name, *data_name;
    int x, y, data; /* indices */
} vt_manifest_figure;

typedef struct vt_manifest {
    char *path, *dir;
    vt_yaml_node *tree; /* all strings point into it */
    const char *name, *title, *table, *published_file, *claims_file;
    vt_words seed_words, subjects, orderings, notes;
    vt_words comparable; /* backbones of the published file that are near this table's networks in size */
    vt_keyed match;      /* keys of the published file that all cells share */
    vt_keyed sources;    /* of files that rows start from, by name without folder: where to fetch them */
    vt_manifest_data *data;
    vt_manifest_attack *attacks;
    vt_manifest_row *rows;
    vt_manifest_primary *primary; /* [n_primary]; none: all orderings are one family */
    vt_manifest_figure *figures;
    vt_manifest_calibration *calibrations;
    int n_data, n_attacks, n_rows, n_primary, n_figures, n_calibrations;
    char **joined; /* paths made here */
    int n_joined;
} vt_manifest;

/* Reads and checks a manifest; VT_E_USAGE, with the line, for all that is wrong, or VT_E_MEMORY: *out NULL. */
vt_status vt_manifest_open(vt_manifest **out, const char *path, vt_err *e);
/* Reads and checks a manifest from text [n], not kept; path: for messages and relative paths. As vt_manifest_open. */
vt_status vt_manifest_parse(vt_manifest **out, const char *text, size_t n, const char *path, vt_err *e);
/* Frees it; accepts NULL. */
void vt_manifest_close(vt_manifest *m);

/* Returns the bytes of the longest row name, 26 at least: the width of a column. */
int vt_manifest_row_width(const vt_manifest *m);
typedef enum vt_manifest_kind { VT_MANIFEST_DATA, VT_MANIFEST_ATTACK, VT_MANIFEST_ROW } vt_manifest_kind;
/* *out (or NULL): index of a data set, attack or row; VT_E_USAGE, begun with `where`, has the nearest name. */
vt_status vt_manifest_named(const vt_manifest *m, vt_manifest_kind kind, const char *name, const char *where, int *out,
                            vt_err *e);
/* Whether the row has a cell on that data set in that column, by the lists of both. */
bool vt_manifest_has(const vt_manifest *m, int row, int data, int attack);
/* Whether the row has this seed and the column wants it. */
bool vt_manifest_seeded(const vt_manifest *m, int row, int attack, uint64_t seed);
/* Whether the column is an accuracy, clean or under attack. */
bool vt_manifest_accuracy(const vt_manifest *m, int attack);
/* Cuts "A > B" at " > " into the names, of at most 79 bytes; false: not of that form. */
bool vt_ordering_cut(const char *text, char above[80], char below[80]);

/* ---- for manifest*.c and plan.c ---- */
/* Checks a manifest that was read, makes paths of recipes, maps and published files absolute, sets indices and seeds;
 * VT_E_USAGE, VT_E_MEMORY. */
vt_status vt_manifest_check(vt_manifest *m, vt_err *e);
/* Fails with VT_E_MEMORY and the manifest's path. */
vt_status vt_manifest_no_memory(const vt_manifest *m, vt_err *e);
enum { VT_MANIFEST_MOST = 512 }; /* data sets, attacks, rows */
/* w: a list of words, or one word alone, which point into the node; VT_E_USAGE if x is neither. */
vt_status vt_manifest_words(const vt_manifest *m, vt_words *w, const vt_yaml_node *x, vt_err *e);
