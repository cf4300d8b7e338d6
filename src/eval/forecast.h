/* SPDX-License-Identifier: MIT */
/* What an evaluation will cost at most: every image right, and standing to the end of every attack. */
#ifndef VT_EVAL_FORECAST_H
#define VT_EVAL_FORECAST_H

#include <stdio.h>
#include "eval/cost.h"
#include "eval/evaluate.h"

/* One call of all images of a row: clean, an entry, or (level 1) a stage of an entry that has several. */
typedef struct vt_forecast_row {
    char label[64];
    int level;
    double images; /* a stage on a share of the survivors: the mean of those drawn */
    double forwards, gradients, verdicts, tflop;
} vt_forecast_row;

/* Row i; the last one is the sum. false past the end. */
bool vt_forecast_row_at(const vt_eval *v, int i, vt_forecast_row *r);
/* Hours of a row on all threads. */
double vt_forecast_hours(const vt_forecast_row *r, const vt_seconds *s, int threads);
void vt_forecast_print(FILE *f, const vt_eval *v, const vt_seconds *s);
/* "3.2 h", "4.1 min", "12 s". */
const char *vt_hours_text(char buf[32], double hours);

#endif
