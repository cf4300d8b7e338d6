/* SPDX-License-Identifier: MIT */
/* DINOv2's linear classifiers, dinov2_vits14_lc and the like (facebookresearch/dinov2, dinov2/hub/classifiers.py): the
 * backbone under `backbone.`, with timm's names but for register_tokens, and linear_head over class tokens and the mean
 * of the patches. Heads are 64 wide in all four sizes (dinov2/models/vision_transformer.py); pixels are normalised
 * outside the model, by ImageNet's mean and std (dinov2/data/transforms.py). */
#include "checkpoint/names.h"

static bool probe(const vt_tensors *st) {
    return vt_tensors_find(st, "linear_head.weight") && vt_tensors_find(st, "backbone.patch_embed.proj.weight");
}

/* At another resolution positions are resized as dinov2/hub/backbones.py says: with registers, antialiased. */
#define LINES(heads, filter)                                                                                           \
    "backbone.register_tokens -> reg_token\n"                                                                          \
    "drop backbone.mask_token  for masked pre-training\n"                                                              \
    "backbone.* -> *\n"                                                                                                \
    "linear_head.* -> head.*\n"                                                                                        \
    "set ln_eps 1e-6\n"                                                                                                \
    "set mean 0.485,0.456,0.406\n"                                                                                     \
    "set std 0.229,0.224,0.225\n"                                                                                      \
    "set pos_filter " filter "\n" heads
#define BOTH(heads)                                                                                                    \
    { LINES(heads, "bicubic_offset"), LINES(heads, "bicubic_aa") }

static const struct {
    int64_t width; /* 0: any */
    const char *lines[2];
} sizes[] = {{384, BOTH("set heads 6\n")},
             {768, BOTH("set heads 12\n")},
             {1024, BOTH("set heads 16\n")},
             {0, BOTH("")}};

static const char *map(const vt_tensors *st) {
    const vt_tensor *cls = vt_tensors_find(st, "backbone.cls_token");
    const bool registers = vt_tensors_find(st, "backbone.register_tokens") != NULL;
    size_t i = 0;
    while (sizes[i].width && !(cls && cls->ndim && cls->shape[cls->ndim - 1] == sizes[i].width)) i++;
    return sizes[i].lines[registers];
}

const vt_names_def vt_names_def_dinov2 = {
    .name = "dinov2",
    .summary = "DINOv2's linear classifiers by their authors (backbone.*, linear_head)",
    .recognises = probe,
    .head = "linear_head.*",
    .map = map,
};
