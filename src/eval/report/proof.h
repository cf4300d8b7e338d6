/* SPDX-License-Identifier: MIT */
/* A proof that travels: a run's points in one .npz with all that is needed to judge them again without the run: images,
 * labels, indices, x_adv, preds, status (1: broken) and logits (of x_adv, in double), and `manifest`, a JSON text with
 * threat, counts, what the model is, and the SHA-256 of weights, data and every array (docs/formats.md). */
#pragma once

#include "eval/report/export.h"
#include "eval/subject.h"
#include "tensors/npy.h"
#include "tensors/zip.h"

/* Writes the points of x, with clean images and logits by the subject. VT_E_USAGE: curves, patches, known cheats and
 * models in other processes, whose points a file does not prove. */
vt_status vt_proof_write(const vt_export *x, const vt_subject *s, int threads, const char *path, vt_err *e);

/* A proof that is open. Texts belong to the manifest. */
typedef struct vt_proof {
    vt_mapped map;
    struct vt_zip *zip;
    json_t *manifest;
    const char *norm, *eps, *weights, *data; /* hashes of the last two */
    int64_t images, broken;                  /* as the manifest counts them */
    vt_npy status, logits;                   /* [images], [images, K] */
} vt_proof;

/* Opens a proof, on a zeroed p, and checks its arrays against the manifest's hashes and counts. VT_E_FORMAT: it is no
 * proof, or an array is not as it was written. Close it after a failure too. */
vt_status vt_proof_open(vt_proof *p, const char *path, vt_err *e);
void vt_proof_close(vt_proof *p); /* accepts a zeroed one */
/* Returns the margin of row i's logits in double: the largest of other classes minus that of `label`. */
double vt_proof_margin(const vt_proof *p, int64_t i, int label);
