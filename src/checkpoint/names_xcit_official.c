/* SPDX-License-Identifier: MIT */
/* XCiT by its authors: pos_embeder, and class attention with one qkv, of which timm (xcit.py, checkpoint_filter_fn)
 * makes q, k and v. */
#include "checkpoint/names.h"

static bool probe(const vt_tensors *st) { return vt_tensors_find(st, "pos_embeder.token_projection.weight") != NULL; }

static const char *map(const vt_tensors *st) {
    (void)st;
    return "pos_embeder.* -> pos_embed.*\n"
           "cls_attn_blocks.{i}.attn.qkv.* -> cls_attn_blocks.{i}.attn.q.* + cls_attn_blocks.{i}.attn.k.* + "
           "cls_attn_blocks.{i}.attn.v.*\n"
           "* -> *\n";
}

const vt_names_def vt_names_def_xcit_official = {
    .name = "xcit-official",
    .summary = "XCiT by its authors (pos_embeder, cls_attn_blocks.i.attn.qkv)",
    .recognises = probe,
    .head = "head.*",
    .map = map,
};
