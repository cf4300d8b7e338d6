/* SPDX-License-Identifier: MIT */
#include "checkpoint/unsupported.h"

#include <string.h>

#include "checkpoint/pattern.h"

/* Two tensors that tell: maps/networks.txt. */
static const struct {
    const char *one, *two, *what;
} kinds[] = {
#include "networks.inc"
};

static bool has_matching_name(const char *pattern, const vt_tensors *st, const vt_names_row *rows, int n) {
    vt_binding b;
    for (int i = 0; i < (n ? n : vt_tensors_count(st)); i++)
        if (vt_pattern_match(pattern, n ? rows[i].was.name : vt_tensors_at(st, i)->name, &b)) return true;
    return false;
}

/* By canonical names and shapes: what a block has in place of a LayerNorm, or of an MLP. */
static const char *by_shape(const vt_tensors *st) {
    if ((vt_detect_any(st, "", ".norm1.weight") && !vt_detect_any(st, "", ".norm1.bias")) ||
        (vt_detect_any(st, "", ".q_norm.weight") && !vt_detect_any(st, "", ".q_norm.bias")))
        return "a ViT whose norms have no bias (RMSNorm, or LayerNorm without bias)";
    const vt_tensor *first = vt_tensors_find(st, "layers.0.blocks.0.attn.relative_position_bias_table"),
                    *later = vt_tensors_find(st, "layers.2.blocks.0.attn.relative_position_bias_table");
    if (first && later && first->ndim == 2 && later->ndim == 2 && later->shape[0] > first->shape[0])
        return "a Swin whose windows grow from stage to stage (S3)";
    const vt_tensor *a = vt_tensors_find(st, "blocks.0.mlp.fc1.weight"),
                    *b = vt_tensors_find(st, "blocks.0.mlp.fc2.weight");
    bool gated = a && b && a->ndim == 2 && b->ndim == 2 && a->shape[0] == 2 * b->shape[1];
    return gated ? "a ViT of gated MLPs (SwiGLU or GLU: fc1 has twice the rows of fc2's columns)" : NULL;
}

const char *vt_unsupported_of(const vt_tensors *st, const vt_names_row *rows, int n) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (has_matching_name(kinds[i].one, st, rows, n) && has_matching_name(kinds[i].two, st, rows, n))
            return kinds[i].what;
    return by_shape(st);
}

const char *vt_unsupported_network(const vt_tensors *st) { return vt_unsupported_of(st, NULL, 0); }
