/* SPDX-License-Identifier: MIT */
/* A run's adversarial images in the form in which others load them and leaderboards accept them: one point for every
 * evaluated image in the order of their numbers, float32 in [0,1], the clean image where nothing broke it. */
#pragma once

#include "attacks/ball.h"
#include "eval/ledger.h"
#include "data/dataset.h"
#include "models/model.h"

typedef struct vt_export {
    const vt_ledger *ledger;
    int entry;          /* whose points: 1 for the run's first attack, 2 ...; 0: of all entries of that scoring */
    vt_scoring scoring; /* the one of the largest margin */
    char name[64];      /* of a file or folder (vt_save_adv) */
    int64_t n, broken;
    vt_shape shape;
    size_t pixels;
    float *x_adv;                      /* [n, shape] */
    int64_t *indices, *labels, *preds; /* [n]; preds: the class of the point */
    uint8_t *status;                   /* [n] 1: broken */
} vt_export;

/* Clean images are read from the data and held against the ledger's hashes. Free also after a failure. */
vt_status vt_export_make(vt_export *x, const vt_ledger *l, const vt_model *m, const vt_dataset *d, int entry,
                         vt_scoring scoring, vt_err *e);
/* Accepts a zeroed one. */
void vt_export_free(vt_export *x);

/* --save-adv: dir/adv.safetensors: for the k-th attack (named NAME, or NAME#k when a name repeats) NAME.x_adv [n,3,H,W]
 * float32 in [0,1], NAME.index, NAME.label, NAME.pred [n] int64, NAME.broken [n] U8. dir/adv/NAME/INDEX.png: the same
 * rounded to 8 bits (rounding can leave the ball or undo an attack; the float file is what was verified). Call after
 * vt_ledger_finish, whose order makes every attack's images one block of adv.bin.
 *
 * npz, --save-npz: instead dir/adv/NAME.npz with x_adv, indices, labels, preds (the same numbers) and status [n] uint8,
 * 1 where the image is broken. */
vt_status vt_save_adv(const vt_ledger *l, bool npz, vt_err *e);

/* Writes into dir x_adv as torch.load reads it, and the text of RobustBench's issue "New external evaluation(s)" as far
 * as a run knows it. VT_E_USAGE: another threat than its leaderboards have. */
vt_status vt_robustbench_write(const vt_export *x, const char *model, const char *dir, vt_err *e);

typedef struct vt_export_format {
    const char *name, *where, *summary; /* "npz", "export.npz": below the run, if no path is given */
    vt_status (*write)(const vt_export *x, const char *path, vt_err *e);
} vt_export_format;
const vt_export_format *vt_export_find(const char *name); /* NULL: not there */
