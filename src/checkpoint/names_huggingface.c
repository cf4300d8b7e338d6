/* SPDX-License-Identifier: MIT */
/* Hugging Face transformers: ViT, DeiT and Swin ForImageClassification, names up to 4.x and of 5.x
 * (src/transformers/models/{vit,deit,swin}/modeling_*.py there). q, k and v are the three row blocks of timm's qkv. */
#include "checkpoint/unsupported.h"
#include "checkpoint/names.h"

#include <string.h>

enum kind { NONE, VIT, DEIT, SWIN, BEIT, DATA2VEC, BASE };

/* BASE: the names of a model without head, which have no prefix. */
static enum kind kind_of(const vt_tensors *st) {
    static const char *const begin[] =
        {[VIT] = "vit.", [DEIT] = "deit.", [SWIN] = "swin.", [BEIT] = "beit.", [DATA2VEC] = "data2vec_vision.",
         [BASE] = ""};
    for (int k = VIT; k <= BASE; k++) {
        char name[80] = "";
        strcat(strcpy(name, begin[k]), "embeddings.patch_embeddings.projection.weight");
        if (vt_tensors_find(st, name)) return (enum kind)k;
    }
    return NONE;
}

static bool probe(const vt_tensors *st) { return kind_of(st) != NONE; }

/* ViT and DeiT differ in their prefix P; B is a block's, 4.x, C 5.x. */
#define VIT_LINES(P, B, C)                                                                                             \
    P "embeddings.cls_token -> cls_token\n" P "embeddings.position_embeddings -> pos_embed\n" P                        \
      "embeddings.patch_embeddings.projection.* -> patch_embed.proj.*\n"                                               \
      "drop " P "embeddings.mask_token  for masked pre-training\n"                                                     \
      "drop " P "pooler.*  the classifier does not use it\n" B "layernorm_before.* -> blocks.{i}.norm1.*\n" B          \
      "layernorm_after.* -> blocks.{i}.norm2.*\n" B "attention.attention.query.* + " B                                 \
      "attention.attention.key.* + " B "attention.attention.value.* -> blocks.{i}.attn.qkv.*\n" B                      \
      "attention.output.dense.* -> blocks.{i}.attn.proj.*\n" B "intermediate.dense.* -> blocks.{i}.mlp.fc1.*\n" B      \
      "output.dense.* -> blocks.{i}.mlp.fc2.*\n" C "layernorm_before.* -> blocks.{i}.norm1.*\n" C                      \
      "layernorm_after.* -> blocks.{i}.norm2.*\n" C "attention.q_proj.* + " C "attention.k_proj.* + " C                \
      "attention.v_proj.* -> blocks.{i}.attn.qkv.*\n" C "attention.o_proj.* -> blocks.{i}.attn.proj.*\n" C             \
      "mlp.fc1.* -> blocks.{i}.mlp.fc1.*\n" C "mlp.fc2.* -> blocks.{i}.mlp.fc2.*\n" P "layernorm.* -> norm.*\n"        \
      "layernorm.* -> norm.*\n" /* of early conversions */                                                             \
      "set ln_eps 1e-12\n"

/* BEiT and data2vec with absolute positions alone: their key has no bias, and the classifier reads the mean of the
 * patches after the pooler's norm. Tables of relative positions have no line here. */
#define BEIT_LINES(P, B)                                                                                               \
    P "embeddings.cls_token -> cls_token\n" P "embeddings.position_embeddings -> pos_embed\n" P                        \
      "embeddings.patch_embeddings.projection.* -> patch_embed.proj.*\n"                                               \
      "drop " P "embeddings.mask_token  for masked pre-training\n" B "layernorm_before.* -> blocks.{i}.norm1.*\n" B    \
      "layernorm_after.* -> blocks.{i}.norm2.*\n" B "attention.attention.query.bias + 0 + " B                          \
      "attention.attention.value.bias -> blocks.{i}.attn.qkv.bias\n" B "attention.attention.query.weight + " B         \
      "attention.attention.key.weight + " B "attention.attention.value.weight -> blocks.{i}.attn.qkv.weight\n" B       \
      "attention.output.dense.* -> blocks.{i}.attn.proj.*\n" B "intermediate.dense.* -> blocks.{i}.mlp.fc1.*\n" B      \
      "output.dense.* -> blocks.{i}.mlp.fc2.*\n" B "lambda_1 -> blocks.{i}.ls1.gamma\n" B                              \
      "lambda_2 -> blocks.{i}.ls2.gamma\n" P "layernorm.* -> norm.*\n" P "pooler.layernorm.* -> fc_norm.*\n"           \
      "classifier.* -> head.*\n"                                                                                       \
      "set ln_eps 1e-12\n"
static const char beit[] = BEIT_LINES("beit.", "beit.encoder.layer.{i}."),
                  data2vec[] = BEIT_LINES("data2vec_vision.", "data2vec_vision.encoder.layer.{i}.");

/* A base model's, which has no prefix, beside a classifier of one's own. */
static const char bare[] =
    VIT_LINES("", "encoder.layer.{i}.", "layers.{i}.") "embeddings.distillation_token -> reg_token\n";

static const char vit[] = VIT_LINES("vit.", "vit.encoder.layer.{i}.", "vit.layers.{i}.") "classifier.* -> head.*\n";

#define DEIT_LINES VIT_LINES("deit.", "deit.encoder.layer.{i}.", "deit.layers.{i}.")
static const char deit_two_heads[] = DEIT_LINES "deit.embeddings.distillation_token -> dist_token\n"
                                                "cls_classifier.* -> head.*\n"
                                                "distillation_classifier.* -> head_dist.*\n";
/* One classifier, on the class token; the distillation token stays in the sequence, with a position and without a head:
 * a register. */
static const char deit_one_head[] = DEIT_LINES "deit.embeddings.distillation_token -> reg_token\n"
                                               "classifier.* -> head.*\n";

/* Stages count their merging at their end, as old timm does. */
#define SWIN_BLOCK "swin.encoder.layers.{s}.blocks.{b}."
static const char swin[] =
    "swin.embeddings.patch_embeddings.projection.* -> patch_embed.proj.*\n"
    "swin.embeddings.norm.* -> patch_embed.norm.*\n"
    "drop swin.embeddings.mask_token  for masked pre-training\n"
    "drop swin.pooler.*  holds no weights that the classifier uses\n" SWIN_BLOCK
    "layernorm_before.* -> layers.{s}.blocks.{b}.norm1.*\n" SWIN_BLOCK
    "layernorm_after.* -> layers.{s}.blocks.{b}.norm2.*\n" SWIN_BLOCK "attention.self.query.* + " SWIN_BLOCK
    "attention.self.key.* + " SWIN_BLOCK "attention.self.value.* -> layers.{s}.blocks.{b}.attn.qkv.*\n" SWIN_BLOCK
    "attention.self.relative_position_bias_table -> "
    "layers.{s}.blocks.{b}.attn.relative_position_bias_table\n" SWIN_BLOCK
    "attention.output.dense.* -> layers.{s}.blocks.{b}.attn.proj.*\n" SWIN_BLOCK
    "intermediate.dense.* -> layers.{s}.blocks.{b}.mlp.fc1.*\n" SWIN_BLOCK
    "output.dense.* -> layers.{s}.blocks.{b}.mlp.fc2.*\n" SWIN_BLOCK "attention.q_proj.* + " SWIN_BLOCK
    "attention.k_proj.* + " SWIN_BLOCK "attention.v_proj.* -> layers.{s}.blocks.{b}.attn.qkv.*\n" SWIN_BLOCK
    "attention.o_proj.* -> layers.{s}.blocks.{b}.attn.proj.*\n" SWIN_BLOCK
    "attention.relative_position_bias.relative_position_bias_table -> "
    "layers.{s}.blocks.{b}.attn.relative_position_bias_table\n" SWIN_BLOCK
    "mlp.fc1.* -> layers.{s}.blocks.{b}.mlp.fc1.*\n" SWIN_BLOCK "mlp.fc2.* -> layers.{s}.blocks.{b}.mlp.fc2.*\n"
    "swin.encoder.layers.{s}.downsample.* -> layers.{s+1}.downsample.*\n"
    "swin.layernorm.* -> norm.*\n"
    "classifier.* -> head.fc.*\n"
    "set ln_eps 1e-5\n";

static const char *map(const vt_tensors *st) {
    switch (kind_of(st)) {
    case DEIT:
        return !vt_tensors_find(st, "cls_classifier.weight") ? deit_one_head : deit_two_heads;
    case SWIN:
        return swin;
    case BEIT:
        return beit;
    case DATA2VEC:
        return data2vec;
    case BASE:
        return bare;
    default:
        return vit;
    }
}

static vt_status check(const vt_tensors *st, vt_err *e) {
    const enum kind kind = kind_of(st);
    if (kind == SWIN && vt_tensors_find(st, "swin.embeddings.position_embeddings"))
        return vt_fail(e, VT_E_FORMAT, "%s: is a Swin with absolute positions, which vitrine does not compute; " VT_WAY,
                       vt_tensors_path(st));
    if (kind != BASE || vt_tensors_find(st, "layernorm.weight")) return VT_OK;
    return vt_fail(e, VT_E_FORMAT,
                   "%s: is a base model without classifier: save a ...ForImageClassification of Hugging Face",
                   vt_tensors_path(st));
}

const vt_names_def vt_names_def_huggingface = {
    .name = "huggingface",
    .summary = "Hugging Face transformers 4 and 5: ViT, DeiT, Swin, BEiT and data2vec of absolute positions, for image "
               "classification",
    .recognises = probe,
    .head = "*classifier.*",
    .map = map,
    .check = check,
    .check_config = vt_names_check_padding,
};
