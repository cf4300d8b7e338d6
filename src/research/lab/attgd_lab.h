/* SPDX-License-Identifier: MIT */
/* The parts of `vitrine lab attgd`, and what they share. */
#pragma once

#include "research/lab/attgd.h"
#include "research/lab/lab.h"

typedef struct vt_attgd_options {
    int part;  /* 0: all; else 1 + index of the part */
    int seeds; /* of the local part */
    bool quick;
} vt_attgd_options;

/* The released code's constant in the denominators of normalised gradients. */
#define VT_ATTGD_FLOOR 2.2e-16

/* The runs of the paper's synthetic experiments: p, and for how many steps of 0.1 along the normalised gradient. */
enum { VT_ATTGD_PATHS = 3 };
typedef struct vt_attgd_path {
    double p;
    int steps;
} vt_attgd_path;
extern const vt_attgd_path vt_attgd_paths[VT_ATTGD_PATHS];
#define VT_ATTGD_ETA 0.1

/* S1: random problems, v fixed. Prints, stores and judges its results, as every part; a failure stops the lab. */
vt_status vt_attgd_local(const vt_attgd_options *o, vt_lab *lab, vt_err *e);
/* S2: two samples, W and v descend together; nothing is random. */
vt_status vt_attgd_joint(const vt_attgd_options *o, vt_lab *lab, vt_err *e);
/* S3: linear models, Sun et al.; fewer steps if quick. */
vt_status vt_attgd_margin(const vt_attgd_options *o, vt_lab *lab, vt_err *e);
/* Constant steps along the gradient itself, Lemmas 20 to 30; fewer steps if quick. */
vt_status vt_attgd_rates(const vt_attgd_options *o, vt_lab *lab, vt_err *e);

/* One run of S2: two samples of three tokens in the plane, W and v from 0. floor 0: none, |G|_q alone divides. */
typedef struct vt_joint {
    int alpha[2];
    double w[4], v[2], w_mm[4], v_mm[2];  /* the ends, and the machines for the tokens alpha */
    double d_w, d_v, norm_w, norm_v, gap; /* divergences from them, |.|_p, the worse duality gap */
    /* first steps, 0: never: from which on, to the end, |G_W|_q < 2.2e-16, G_W = 0, |W|_p grows by less than 1e-3 in
     * all (the stall); at which some sample's attention has rounded to 1 */
    int tiny, zero, stall, one;
    double most[100], right[100]; /* first steps: means of the largest attention, of the selected token's probability */
} vt_joint;
/* Runs S2 along a path; floor 0: |G|_q alone divides. VT_E_NUMERIC if a machine cannot be solved. */
vt_status vt_attgd_joint_run(vt_joint *out, const vt_attgd_path *path, double floor, vt_att_form form, vt_err *e);
