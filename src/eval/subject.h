/* SPDX-License-Identifier: MIT */
/* What is judged: a network, the wrap around it, the data it is judged on, the input that both agreed on, and another
 * checkpoint whose gradients may be followed. Opened once, read by all threads; every room that looks at it gets a
 * classifier of its own. */
#pragma once

#include "base/opt.h"
#include "eval/prepare.h"
#include "data/dataset.h"
#include "models/model.h"
#include "inference/sensors.h"
#include "inference/batcher.h"
#include "remote/remote.h"
#include "inference/wrap.h"

typedef struct vt_subject {
    /* Of a model in another process (`remote`) a description alone: the shape that it greeted with, and no weights. */
    vt_model *model;
    vt_remote *remote; /* NULL: the model is here */
    /* A classifier of a caller of the library (src/api), which `model` describes as it does a remote's; NULL: none. */
    const vt_engine_source *own;
    vt_wrap wrap; /* a known cheat or a defence around it, whose other half has altered the model; empty: none */
    vt_dataset *data;
    vt_input_provenance input;
    /* Another checkpoint, for attacks that transfer from one (transfer): of the same classes and input, seen without
     * the wrap; and its name in reports. NULL: they transfer from a twin of the model (models/surgery.h). */
    vt_model *surrogate;
    vt_remote *surrogate_remote; /* which is in another process; NULL: here */
    char surrogate_name[VT_WEIGHTS_NAME];
    vt_precision search;       /* how products are formed where attacks search; never where they are judged */
    const vt_sensors *sensors; /* what can be climbed inside the model, owned by the caller; or NULL */
    const vt_packed *packed;   /* of VT_PRODUCTS_BF16: the model's matrices, of whoever runs the attacks */
} vt_subject;

/* A model in another process, as docs/oracle.md: where is the choice "oracle" or "surrogate-oracle", with the choice
 * "oracle-timeout"; what it says of itself becomes a description, with its hash (as claimed, else that of its greeting)
 * in sha256 and `where` as path. */
vt_status vt_subject_remote(vt_remote **r, vt_model **description, const vt_choices *c, const char *where, vt_err *e);
/* Makes s->model a description of an external model that a ledger names, without connecting to it: a command that a
 * file names is not run. Queries fail with VT_E_USAGE, naming `where` for the user to give as --oracle. */
vt_status vt_subject_described(vt_subject *s, vt_shape shape, int classes, const char *sha256, const char *where,
                               vt_err *e);
bool vt_subject_is_remote(const vt_subject *s); /* no network of ours: in another process, reached or described; own */
int vt_subject_takes(const vt_subject *s);      /* images that it takes at once; of ours INT_MAX */
bool vt_subject_differentiable(const vt_subject *s); /* does it give gradients? */
/* Opens the checkpoint, or with the choice "oracle" the model in another process (weights may be NULL, and choices that
 * describe a checkpoint are refused), for s->data, which is open. `first`: an image of the run, whose size decides. */
vt_status vt_subject_open(vt_subject *s, const vt_choices *c, const char *weights, int32_t first, vt_err *e);
/* After the caller has checked that nothing of the model is open: puts the wrap of the choice "wrap" around it, unless
 * s->wrap names one already, and fits the input to image `first`. */
vt_status vt_subject_fit(vt_subject *s, const vt_choices *c, int32_t first, vt_err *e);
/* other NULL: the network as it is judged, with the wrap around it. Else another network for the same data (the
 * surrogate, a twin), without the wrap. A restricted data set shows only the outputs of its classes. The subject and
 * `other` must outlive the classifier. */
vt_status vt_subject_classifier(vt_classifier *c, const vt_subject *s, const vt_model *other, vt_err *e);
/* Returns the subject's pictures for inference/sensors.h; s must outlive them. */
vt_sensor_images vt_subject_pictures(const vt_subject *s, uint64_t seed);
/* Opens an engine of `rows` images on the judged network (other NULL) or on another one, without wrap and restriction;
 * judged: with its double copy, if it has one. */
vt_status vt_subject_engine(vt_engine *n, const vt_subject *s, const vt_model *other, int rows, bool judged, vt_err *e);
/* Opens an engine of `rows` images on the judged network with the products of s->search, in float alone. */
vt_status vt_subject_draft_engine(vt_engine *n, const vt_subject *s, int rows, vt_err *e);
/* Makes the classifier of vt_subject_classifier in one slot of a batcher g of such an engine (inference/batcher.h). */
vt_status vt_subject_seat(vt_classifier *c, const vt_subject *s, const vt_model *other, vt_batcher *g, int slot,
                          vt_err *e);
/* What a forward and a gradient cost: in FLOP; of a model in another process nobody knows, and one gradient counts as
 * three forwards of 1. */
void vt_subject_flops(const vt_subject *s, double *forward, double *gradient);
int vt_subject_classes(
    const vt_subject *s); /* outputs that are compared: the model's, or those of the classes present */
vt_shape vt_subject_shape(const vt_subject *s); /* of the images that are attacked */
size_t vt_subject_pixels(const vt_subject *s);  /* floats of one */
/* x [pixels] (NULL: not wanted) and label of an image, as every attack sees it. */
vt_status vt_subject_image(const vt_subject *s, int64_t image, float *x, int *label, vt_err *e);
void vt_subject_close(vt_subject *s); /* accepts a zeroed one */
