/* SPDX-License-Identifier: MIT */
/* Swin by Microsoft's code and timm up to 0.8: merging at the end of the stage before, and a plain head. timm's own
 * conversion (swin_transformer.py, checkpoint_filter_fn) is the same two lines. */
#include "checkpoint/names.h"

/* Without a head, where the merging stands tells: after the blocks of stage 0 in Microsoft's swin_transformer.py
 * (BasicLayer.downsample). */
bool vt_names_old_swin(const vt_tensors *st) {
    return vt_tensors_find(st, "layers.0.blocks.0.attn.relative_position_bias_table") &&
           !vt_tensors_find(st, "head.fc.weight") &&
           (vt_tensors_find(st, "head.weight") || vt_tensors_find(st, "layers.0.downsample.reduction.weight"));
}

static const char *map(const vt_tensors *st) {
    (void)st;
    return "layers.{s}.downsample.* -> layers.{s+1}.downsample.*\n"
           "head.* -> head.fc.*\n"
           "* -> *\n";
}

const vt_names_def vt_names_def_swin_old = {
    .name = "swin-old",
    .summary = "Swin by its authors and timm before 0.9 (layers.i.downsample after its stage, head)",
    .recognises = vt_names_old_swin,
    .head = "head.*",
    .map = map,
};
