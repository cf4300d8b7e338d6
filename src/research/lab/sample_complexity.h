/* SPDX-License-Identifier: MIT */
/* What lab_sample_complexity runs, and what sample_complexity.c reports. */
#pragma once

#include "research/lab/teacher.h"

enum { VT_COMPLEXITY_SIZES = 8, VT_COMPLEXITY_VARIANTS = 6, VT_COMPLEXITY_MARKS = 20 };
enum { VT_COMPLEXITY_MASK, VT_COMPLEXITY_SELF };

typedef struct vt_complexity {
    int model;
    bool full;
    char sizes[100], relevant[100];
    int steps, runs, test, batch;
    double scale, rate, lambda, decay, eps;
    bool fixed_lambda;
    int norm, attack_steps, attack_points;
} vt_complexity;

typedef struct vt_variant {
    const char *name;
    vt_front front;
    double l1, l2; /* of lambda */
    bool every;    /* of Table 1: run at every size */
} vt_variant;

typedef struct vt_complexity_item {
    int size, variant;
} vt_complexity_item;

typedef struct vt_complexity_result {
    vt_measure curve[VT_COMPLEXITY_MARKS][2]; /* train, test */
    double w1, w2;                            /* |W1|_F, |W2|_F */
    double mask_on, mask_off;                 /* mean |a| where the teacher's mask is one, zero */
    vt_robust_result robust, irrelevant;      /* all inputs may move; those that do not count */
} vt_complexity_result;

typedef struct vt_complexity_run {
    const vt_complexity *p;
    const vt_variant *variants;
    int n_variants, n_sizes, n_relevant, n_items, steps, runs;
    int sizes[VT_COMPLEXITY_SIZES], relevant[VT_COMPLEXITY_SIZES]; /* n; s0, of self one, all inputs */
    vt_two_layer teacher;
    vt_complexity_item items[VT_COMPLEXITY_SIZES * VT_COMPLEXITY_VARIANTS];
    vt_complexity_result *results;     /* [runs][n_relevant][n_items] */
    double power[VT_COMPLEXITY_SIZES]; /* mean |y|^2 of each s0 */
} vt_complexity_run;

/* Prints all tables, stores results in lab->json and draws the figure; VT_E_MEMORY, or the figure's failure. */
vt_status vt_complexity_report(const vt_complexity_run *r, vt_lab *lab, vt_err *e);
/* Judges the paper's claims by the results; VT_E_MEMORY. */
vt_status vt_complexity_claims(const vt_complexity_run *r, vt_lab *lab, vt_err *e);
