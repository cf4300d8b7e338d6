/* SPDX-License-Identifier: MIT */
/* How libraries name their tensors: by which tensors a library's model is recognised, and its name map
 * (maps/known/X.map). Networks that are not computed, recognised in the same way. */
#include <stdlib.h>
#include <string.h>
#include "checkpoint/names.h"
#include "models/detect.h"
#include "known.inc"

static const vt_names_def defs[] = {
    {"dinov2", "DINOv2's linear classifiers by their authors (backbone.*, linear_head)", "linear_head.*", false, false},
    {"huggingface",
     "Hugging Face transformers 4 and 5: ViT, DeiT, Swin, BEiT and data2vec of absolute positions, for image "
     "classification",
     "*classifier.*", false, true},
    {"huggingface-clip", "Hugging Face transformers 4 and 5: CLIP and SigLIP for image classification", "classifier.*",
     true, false},
    {"huggingface-dinov2",
     "Hugging Face transformers 4 and 5: DINOv2 for image classification, with and without registers", "classifier.*",
     false, false},
    {"swin-old", "Swin by its authors and timm before 0.9 (layers.i.downsample after its stage, head)", "head.*", false,
     false},
    {"timm", "timm: ViT, DeiT, ConViT, XCiT, Swin since 0.9 (patch_embed.proj, blocks.i.attn.qkv, head)", "head.*",
     false, false},
    {"torchvision", "torchvision: vit_* (conv_proj, encoder_layer_i), swin_t, swin_s, swin_b (features.i)", "head*",
     false, true},
    {"xcit-official", "XCiT by its authors (pos_embeder, cls_attn_blocks.i.attn.qkv)", "head.*", false, false},
};
enum { DEFS = sizeof defs / sizeof *defs };

#define HF_PATCHES "@embeddings.patch_embeddings.projection.weight"
#define CLIP_PATCHES "vision_model.embeddings.patch_embedding.weight"
#define SWIN_TABLE "layers.0.blocks.0.attn.relative_position_bias_table"

/* DINOv2 resizes positions as dinov2/hub/backbones.py says: with registers, antialiased. Its heads are 64 wide in all
 * sizes (dinov2/models/vision_transformer.py). */
#define DINOV2(width, heads)                                                                                           \
    {"dinov2", "",    "linear_head.weight", "backbone.register_tokens",                                                \
     "",       width, map_dinov2,           "set pos_filter bicubic_aa\n" heads},                                      \
    {                                                                                                                  \
        "dinov2", "", "linear_head.weight", "backbone.patch_embed.proj.weight", "", width, map_dinov2,                 \
            "set pos_filter bicubic_offset\n" heads                                                                    \
    }

/* A kind of model of one library. The first that fits a file counts: a specific one stands before a general one. */
static const struct variant {
    const char *def;                /* the library's name in defs */
    const char *prefix;             /* stands for @ in all texts */
    const char *has, *also, *lacks; /* tensors that tell it; also NULL: has alone does */
    int width;                      /* of the class token; 0: any */
    const char *map, *more;         /* lines, and further ones */
} variants[] = {
    DINOV2(384, "set heads 6\n"),
    DINOV2(768, "set heads 12\n"),
    DINOV2(1024, "set heads 16\n"),
    DINOV2(0, ""),
    {"huggingface", "vit.", HF_PATCHES, NULL, "", 0, map_huggingface_vit, "classifier.* -> head.*\n"},
    {"huggingface", "deit.", HF_PATCHES, "cls_classifier.weight", "", 0, map_huggingface_vit,
     "@embeddings.distillation_token -> dist_token\n"
     "cls_classifier.* -> head.*\n"
     "distillation_classifier.* -> head_dist.*\n"},
    /* one classifier, on the class token: the distillation token stays in the sequence as a register */
    {"huggingface", "deit.", HF_PATCHES, NULL, "", 0, map_huggingface_vit,
     "@embeddings.distillation_token -> reg_token\n"
     "classifier.* -> head.*\n"},
    {"huggingface", "swin.", HF_PATCHES, NULL, "", 0, map_huggingface_swin, ""},
    {"huggingface", "beit.", HF_PATCHES, NULL, "", 0, map_huggingface_beit, ""},
    {"huggingface", "data2vec_vision.", HF_PATCHES, NULL, "", 0, map_huggingface_beit, ""},
    /* a base model beside a classifier of one's own */
    {"huggingface", "", HF_PATCHES, NULL, "", 0, map_huggingface_vit, "embeddings.distillation_token -> reg_token\n"},
    {"huggingface-clip", "", CLIP_PATCHES, "vision_model.embeddings.class_embedding", "", 0, map_huggingface_clip, ""},
    {"huggingface-clip", "", CLIP_PATCHES, NULL, "", 0, map_huggingface_siglip, ""},
    /* at another resolution: interpolate_pos_encoding there */
    {"huggingface-dinov2", "dinov2.", HF_PATCHES, NULL, "", 0, map_huggingface_dinov2, "set pos_filter bicubic\n"},
    {"huggingface-dinov2", "dinov2_with_registers.", HF_PATCHES, NULL, "", 0, map_huggingface_dinov2,
     "set pos_filter bicubic_aa\n"},
    /* without a head, the place of the merging tells: after stage 0 in Microsoft's swin_transformer.py */
    {"swin-old", "", SWIN_TABLE, "head.weight", "head.fc.weight", 0, map_swin_old, ""},
    {"swin-old", "", SWIN_TABLE, "layers.0.downsample.reduction.weight", "head.fc.weight", 0, map_swin_old, ""},
    {"xcit-official", "", "pos_embeder.token_projection.weight", NULL, "", 0, map_xcit_official, ""},
    {"timm", "", "patch_embed.proj.weight", NULL, "", 0, map_timm, ""},
    {"timm", "", "patch_embed.proj.0.0.weight", NULL, "", 0, map_timm, ""},
    {"timm", "", "patch_embed.proj.stem.0.weight", NULL, "", 0, map_timm, ""},
    {"torchvision", "", "features.0.0.weight", "features.1.0.attn.qkv.weight", "", 0, map_torchvision_swin, ""},
    {"torchvision", "", "conv_proj.weight", NULL, "", 0, map_torchvision_vit, ""},
    {"torchvision", "", "conv_proj.conv_1.weight", NULL, "", 0, map_torchvision_vit, ""},
};
enum { VARIANTS = sizeof variants / sizeof *variants };

const vt_names_def *vt_names_defs(int *n) {
    *n = DEFS;
    return defs;
}

/* Copies `text` with the prefix in place of each @ (out NULL: nowhere). Returns the length of the copy. */
static size_t expand_prefix(char *out, const char *text, const char *prefix) {
    size_t n = 0;
    for (; *text; text++) {
        const size_t part = *text == '@' ? strlen(prefix) : 1;
        if (out) memcpy(out + n, *text == '@' ? prefix : text, part);
        n += part;
    }
    return n;
}

/* Returns the tensor of that name with the variant's prefix for @, or NULL. */
static const vt_tensor *find_tensor(const vt_tensors *st, const struct variant *v, const char *name) {
    char full[120];
    full[expand_prefix(full, name, v->prefix)] = 0;
    return vt_tensors_find(st, full);
}

/* Does a state dict have the tensors of this variant? */
static bool fits(const struct variant *v, const vt_tensors *st) {
    const vt_tensor *cls = v->width ? vt_tensors_find(st, "backbone.cls_token") : NULL;
    return find_tensor(st, v, v->has) && (!v->also || find_tensor(st, v, v->also)) && !find_tensor(st, v, v->lacks) &&
           (!v->width || (cls && cls->ndim && cls->shape[cls->ndim - 1] == v->width));
}

const vt_names_def *vt_names_def_named(const char *name) {
    for (int i = 0; i < DEFS; i++)
        if (!strcmp(defs[i].name, name)) return &defs[i];
    return NULL;
}

const vt_names_def *vt_names_def_of(const vt_tensors *st) {
    for (int i = 0; i < VARIANTS; i++)
        if (fits(&variants[i], st)) return vt_names_def_named(variants[i].def);
    return NULL;
}

char *vt_names_known_map(const vt_tensors *st, const vt_names_def *d) {
    const struct variant *v = NULL;
    for (int i = 0; i < VARIANTS && !(v && fits(v, st)); i++)
        if (!strcmp(variants[i].def, d->name)) v = &variants[i];
    const size_t n = expand_prefix(NULL, v->map, v->prefix);
    char *text = malloc(n + expand_prefix(NULL, v->more, v->prefix) + 1);
    if (!text) return NULL;
    expand_prefix(text, v->map, v->prefix);
    text[n + expand_prefix(text + n, v->more, v->prefix)] = 0;
    return text;
}

vt_status vt_names_refuse(const vt_tensors *st, const vt_names_def *d, vt_err *e) {
    static const struct {
        const char *def, *has, *lacks, *what;
    } rows[] = {
        {"huggingface", "swin.embeddings.position_embeddings", "",
         "is a Swin with absolute positions, which vitrine does not compute; " VT_WAY},
        {"huggingface", "embeddings.patch_embeddings.projection.weight", "layernorm.weight",
         "is a base model without classifier: save a ...ForImageClassification of Hugging Face"},
        {"torchvision", "conv_proj.conv_1.weight", "",
         "is torchvision's ViT with a convolutional stem, which vitrine does not compute; " VT_WAY},
        {"torchvision", "heads.pre_logits.weight", "",
         "has a representation layer (heads.pre_logits), which vitrine does not compute; " VT_WAY},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].def, d->name) && vt_tensors_find(st, rows[i].has) && !vt_tensors_find(st, rows[i].lacks))
            return vt_fail(e, VT_E_FORMAT, "%s: %s", vt_tensors_path(st), rows[i].what);
    return VT_OK;
}

/* ---- networks that are not computed ---- */

/* Two tensors that every network of a kind has (maps/networks.txt). */
static const struct {
    const char *one, *two, *what;
} kinds[] = {
#include "networks.inc"
};

/* Does a tensor, or a row's original name, match the pattern? */
static bool has_matching_name(const char *pattern, const vt_tensors *st, const vt_names_row *rows, int n) {
    vt_binding b;
    for (int i = 0; i < (n ? n : vt_tensors_count(st)); i++)
        if (vt_pattern_match(pattern, n ? rows[i].was.name : vt_tensors_at(st, i)->name, &b)) return true;
    return false;
}

/* Returns, by canonical names and shapes, what a block has in place of a LayerNorm or of an MLP; or NULL. */
static const char *find_unsupported_shape(const vt_tensors *st) {
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

const char *vt_unsupported_network(const vt_tensors *st, const vt_names_row *rows, int n) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (has_matching_name(kinds[i].one, st, rows, n) && has_matching_name(kinds[i].two, st, rows, n))
            return kinds[i].what;
    return find_unsupported_shape(st);
}
