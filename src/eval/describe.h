/* SPDX-License-Identifier: MIT */
/* The parts of a run's header that say what pixels and labels mean. */
#ifndef VT_EVAL_DESCRIBE_H
#define VT_EVAL_DESCRIBE_H

#include <jansson.h>
#include "attacks/attack.h"
#include "core/products.h"
#include "io/dataset.h"
#include "eval/header.h"
#include "models/model.h"
#include "models/wrap/wire.h"

/* Adds a sentence to the "notes" of a header or of a part of it: every report shows it. */
void vt_describe_note(json_t *owner, const char *text);

/* Adds to the header's "data", where there is something to say: "preprocess" (text), "jpeg" (the decoder's name),
 * "corruption" and "severity", "head" (outputs, present, restricted), and "notes", the sentences that every report
 * shows. outputs: of the model. */
void vt_describe_data(json_t *data, const vt_dataset *d, int outputs);

/* The header's "sources": every value of the model's configuration as {"value", "source", "assumed"}. They tell of the
 * reading, not of the model: two runs that differ in them alone are runs of one model. */
json_t *vt_describe_sources(const vt_model *m);

/* The shape of a foreign model's images in the header's "model": "image" for three squares, else "channels", "height",
 * "width". */
void vt_describe_shape(json_t *model, vt_shape s);

/* Where the pixels that the model sees come from. */
typedef struct vt_input_provenance {
    char from[96];    /* who asked for the data's transform: "preprocess", "the model's own: config.json"; empty: nobody
                       */
    const char *left; /* text of the model's own where it was left out, since the images have its size; NULL: none */
} vt_input_provenance;

/* Adds to the header's "model": "input" where images are floats, "native" and "native_filter" when the model resizes
 * its input itself, and "notes": at which resolution perturbations live whenever images and network differ in size, and
 * who chose the preprocessing. */
void vt_describe_input(json_t *model, const vt_config *c, const vt_dataset *d, const vt_input_provenance *story);

/* Adds to the "notes" of the header itself what the attacks do differently because there are so few classes. */
void vt_describe_attacks(json_t *header, const vt_attack *attacks, int n, int classes);

/* Adds to them that eps is a published rounding of 8/255. */
void vt_describe_radius(json_t *header, vt_norm norm, double eps);

/* Adds the header's "surrogate": whose gradients a transfer follows (NULL: the model's own twin), with the sentence
 * that every report shows. A key of its own: "model" describes what is judged, and a run is verified without the
 * surrogate. */
/* How attacks search where it is not in float32: the key "search", a note, and in "blas" what forms the products. */
void vt_describe_search(json_t *header, vt_precision search);
void vt_describe_surrogate(json_t *header, const vt_model *surrogate, const char *name);

/* The header's "oracle": what a model in another process said of itself; its "weights_name"; and the sentence by what
 * it is judged (docs/oracle.md). */
void vt_describe_remote(json_t *header, const vt_hello *h);

/* What people call a checkpoint: its file, or the folder of a model.safetensors, in printable ASCII; the same however
 * the path was typed. */
enum { VT_WEIGHTS_NAME = 128 };
void vt_weights_name(char *out, size_t size, const char *path);
/* Adds it to the header as "weights_name", unless path is NULL. Runs of the same weights under two names are one
 * (vt_header_difference): the hash says what was judged, this is for reading. */
void vt_describe_weights(json_t *header, const char *path);

#endif
