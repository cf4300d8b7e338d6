/* SPDX-License-Identifier: MIT */
/* A run as one HTML page for people (eval/report/page.h): the model's name, threat and data first. */
#pragma once

#include "base/chart.h"
#include "eval/ledger.h"
#include "eval/report/summary.h"
#include "data/dataset.h"

typedef struct vt_show {
    const char *name; /* of the model; NULL: nobody knows it */
    const vt_ledger *ledger;
    const vt_summary *summary;
    const char *selftest;   /* its verdict in words; NULL or "": none was made */
    const vt_dataset *data; /* NULL: no pictures */
    int pictures;           /* at most this many images in the grid */
    const vt_mark *curve;   /* accuracy over eps, x in units of the ledger's eps; less than two points: no chart */
    size_t n_curve;
    const char *axis; /* of the curve */
} vt_show;

/* Writes the page. VT_E_MEMORY, or the failure of a picture or stored point that cannot be read; a write error is left
 * in f. */
vt_status vt_show_write(FILE *f, const vt_show *s, vt_err *e);
