/* SPDX-License-Identifier: MIT */
/* The files in --out of a command that prints tables as it goes (lab, analyze): tables.txt, figures, arrays,
 * run.json, and last a JSON document. */
#pragma once

#include <jansson.h>
#include <stdio.h>
#include "cli/cli.h"
#include "base/files.h"
#include "base/text.h"

enum { VT_FOLDER_FILES = 32 };

typedef struct vt_result_dir {
    const char *dir;      /* NULL: terminal only */
    const char *document; /* "lab.json" */
    FILE *out;            /* for tables: the terminal as they come, and tables.txt */
    vt_file tables;
    vt_text_at at;                /* in tables.txt, which may be shown in a terminal */
    char *files[VT_FOLDER_FILES]; /* names of figures and arrays that are there */
    int n_files;
} vt_result_dir;

/* Opens f->out; dir (NULL: none) is made, or must be empty. Call vt_result_dir_close also after a failure. */
vt_status vt_result_dir_open(vt_result_dir *f, const char *dir, const char *document, vt_err *e);
/* Writes DIR/name.svg, as it is, and notes its name in f->files; ctx: a vt_result_dir with a folder. VT_E_IO,
 * VT_E_MEMORY. */
vt_status vt_result_dir_picture(void *ctx, const char *name, const char *svg, vt_err *e);
/* Writes DIR/name.npy, doubles [rows, cols], and notes its name in f->files; ctx: a vt_result_dir with a folder.
 * VT_E_IO, VT_E_MEMORY. */
vt_status vt_result_dir_array(void *ctx, const char *name, const double *values, size_t rows, size_t cols, vt_err *e);
/* Prints the document with --json; with a folder, writes tables.txt, run.json and last the document: a folder that
 * has it is complete. Prints the files' names. */
vt_status vt_result_dir_keep(vt_result_dir *f, const vt_cli *c, const json_t *doc, int threads, double seconds,
                             vt_err *e);
/* Closes and frees all; done false: removes what a failed run left. Accepts one that was never opened, zeroed. */
void vt_result_dir_close(vt_result_dir *f, bool done);
