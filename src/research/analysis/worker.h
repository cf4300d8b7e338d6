/* SPDX-License-Identifier: MIT */
/* One thread's tools to look at a checkpoint on images: a double session, and a float classifier that attacks. */
#pragma once

#include "attacks/attacker.h"
#include "research/analysis/analyze.h"

struct vt_session_f64;

typedef struct vt_analysis_worker {
    const vt_analyze *a;
    const vt_analyzed *s;
    size_t pixels;
    vt_shape shape;
    int classes;
    struct vt_session_f64 *session; /* of one image, gradients of the input */
    vt_classifier model;
    vt_oracle oracle;
    vt_attacker attacker;
    float *x, *z;        /* [pixels], [classes] */
    double *x64, *adv64; /* the image and the attacked one, as the session takes them */
    double *z64;         /* [classes] */
    int32_t image;
    int label;
    bool attacked, broken; /* attacker.x_adv: of the attack, whose point the float network gets wrong */
} vt_analysis_worker;

size_t vt_analysis_worker_bytes(const vt_analyze *a, const vt_analyzed *s); /* of one */

/* Is called for image i of a->images, read and (with a->attack) attacked; i counts from 0. */
typedef vt_status (*vt_analysis_image_fn)(void *ctx, vt_analysis_worker *b, size_t i, vt_err *e);
/* All images of one checkpoint, over a->threads. fn writes to places of image i alone. */
vt_status vt_analysis_images(const vt_analyze *a, const vt_analyzed *s, vt_analysis_image_fn fn, void *ctx, vt_err *e);

/* The nearest point that the minimum-norm attack `stage` finds for the image that the bench holds, in norm; *distance
 * INFINITY: none. attacker.x_adv is overwritten. */
vt_status vt_analysis_worker_nearest(vt_analysis_worker *b, const vt_attack_stage *stage, vt_norm norm,
                                     double *distance, vt_err *e);
