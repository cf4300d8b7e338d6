/* SPDX-License-Identifier: MIT */
/* The class that each image is to be turned into (eval --targets): a file's, the least likely one by the clean logits
 * (Kurakin, Goodfellow and Bengio 2017, "Adversarial examples in the physical world", section 2.3), or one drawn. An
 * image counts as broken where the model takes it for that class, and for no other. */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

typedef struct vt_targets {
    const char *by;   /* "file", "least-likely", "random" */
    const char *path; /* of the file, as given: it is not copied */
    char sha256[65];  /* of the file */
    struct vt_target_row {
        int32_t image, target;
        int line;
    } * rows; /* [n] of the file, ascending by image */
    size_t n;
} vt_targets;

/* Reads text: "least-likely" or "random", or a file, a line an image's index and its target, separated by a comma or
 * white space; empty lines and those from # say nothing. VT_E_USAGE, VT_E_FORMAT with file and line. */
vt_status vt_targets_open(vt_targets *out, const char *text, vt_err *e);
void vt_targets_close(vt_targets *t); /* accepts a zeroed one */

/* Refuses (VT_E_USAGE) an image of which the file says nothing, or whose target is its label or no class below
 * `classes`. Targets without a file always fit. */
vt_status vt_targets_fit(const vt_targets *t, int32_t image, int label, int classes, vt_err *e);
/* Returns the target of an image that vt_targets_fit lets pass; z [classes]: its clean logits, for "least-likely"
 * alone. */
int vt_targets_class(const vt_targets *t, uint64_t seed, int32_t image, int label, const float *z, int classes);

/* Returns the target by "random": uniform among the other classes, by seed and image; classes: at least 2. */
int vt_target_drawn(uint64_t seed, int32_t image, int label, int classes);
/* Returns the target by "least-likely": of the other classes that of the smallest logit, the lowest index among
 * equals. */
int vt_target_least(const float *z, int label, int classes);

/* Returns what the run's header says, {"by"} and of a file {"sha256"}; NULL: no memory. */
json_t *vt_targets_json(const vt_targets *t);
