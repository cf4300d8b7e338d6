/* SPDX-License-Identifier: MIT */
/* --save-adv, --save-npz: what a finished run keeps in adv.bin, as one safetensors file and as PNGs, or for NumPy. */
#ifndef VT_EVAL_REPORT_SAVE_ADV_H
#define VT_EVAL_REPORT_SAVE_ADV_H

#include "eval/ledger.h"

/* dir/adv.safetensors: for the k-th attack (named NAME, or NAME#k when a name repeats) NAME.x_adv [n,3,H,W] float32 in
 * [0,1], NAME.index, NAME.label, NAME.pred [n] int64, NAME.broken [n] U8. dir/adv/NAME/INDEX.png: the same rounded to 8
 * bits (rounding can leave the ball or undo an attack; the float file is what was verified). Call after
 * vt_ledger_finish, whose order makes every attack's images one block of adv.bin.
 *
 * npz: instead dir/adv/NAME.npz with x_adv, indices, labels, preds (the same numbers) and status [n] uint8, 1 where the
 * image is broken. */
vt_status vt_save_adv(const vt_ledger *l, bool npz, vt_err *e);

#endif
