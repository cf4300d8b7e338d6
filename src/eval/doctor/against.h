/* SPDX-License-Identifier: MIT */
/* Does a checkpoint compute what its authors' own ONNX export computes? Both run in double on the same images, and the
 * native network's layers (models/export names their outputs) are looked up among all values of the export: a layer is
 * equal where some value of the same size holds the same numbers, in any order. */
#pragma once

#include "models/model.h"

#define VT_AGAINST_TOL 1e-6 /* of the largest number of a layer: exports hold constants as float32 */

typedef struct vt_against_layer {
    char name[96];     /* "blocks.0.attention", "logits" */
    double difference; /* of the nearest value, over the largest number here; INFINITY: no value has this size, or NaN
                          in it */
    char nearest[96];  /* its name in the export, or "a value"; "": no value has this size */
} vt_against_layer;

/* A weight of the layer that no constant of the export equals, neither whole nor (q, k and v together) in parts. */
typedef struct vt_against_weight {
    char name[64], nearest[96]; /* nearest "": no constant has as many numbers */
    double difference;          /* of all numbers together, over the largest of the weight */
} vt_against_weight;

enum { VT_AGAINST_WEIGHTS = 32 };

typedef struct vt_against {
    bool normalised;          /* the export takes (x - mean) / std, not images in [0,1] */
    double logits, span;      /* largest difference of a logit; largest minus smallest native logit */
    vt_against_layer *layers; /* in the order in which they are computed; the last is the logits */
    int n_layers, first;      /* the first that differs; n_layers: none */
    vt_against_weight weights[VT_AGAINST_WEIGHTS];
    int n_weights; /* of layer `first` */
} vt_against;

/* Compares m with the export at path on x, n images in [0,1] of m's input, into *r, to be freed also after a failure.
 * VT_E_SHAPE: the export's images or classes are others. */
vt_status vt_doctor_against(vt_against *r, const vt_model *m, const char *path, const double *x, int n, vt_err *e);
void vt_against_free(vt_against *r);
