/* SPDX-License-Identifier: MIT */
/* Hugging Face transformers: CLIPForImageClassification and SiglipForImageClassification
 * (src/transformers/models/{clip,siglip}/modeling_*.py there). Both classify the mean of the patches: CLIP's that of
 * the last block, SigLIP's after post_layernorm. */
#include "checkpoint/names.h"

#define P "vision_model."
#define L P "encoder.layers.{i}."

static bool is_clip(const vt_tensors *st) { return vt_tensors_find(st, P "embeddings.class_embedding") != NULL; }
static bool probe(const vt_tensors *st) { return vt_tensors_find(st, P "embeddings.patch_embedding.weight") != NULL; }

#define LINES                                                                                                          \
    P "embeddings.patch_embedding.* -> patch_embed.proj.*\n" P "embeddings.position_embedding.weight -> pos_embed\n"   \
      "drop " P "embeddings.position_ids  counts the positions\n" L "layer_norm1.* -> blocks.{i}.norm1.*\n" L          \
      "layer_norm2.* -> blocks.{i}.norm2.*\n" L "self_attn.q_proj.* + " L "self_attn.k_proj.* + " L                    \
      "self_attn.v_proj.* -> blocks.{i}.attn.qkv.*\n" L "self_attn.out_proj.* -> blocks.{i}.attn.proj.*\n" L           \
      "mlp.fc1.* -> blocks.{i}.mlp.fc1.*\n" L "mlp.fc2.* -> blocks.{i}.mlp.fc2.*\n"                                    \
      "classifier.* -> head.*\n"                                                                                       \
      "set pool avg\n"

static const char clip[] = LINES P "embeddings.class_embedding -> cls_token\n" P "pre_layrnorm.* -> norm_pre.*\n"
                                   "drop " P "post_layernorm.*  CLIPForImageClassification does not use it\n"
                                   "set ln_eps 1e-5\n"
                                   "set act quick_gelu\n";
static const char siglip[] = LINES P "post_layernorm.* -> norm.*\n"
                                     "drop " P "head.*  SiglipForImageClassification does not use it\n"
                                     "set ln_eps 1e-6\n"
                                     "set act gelu_tanh\n";

static const char *map(const vt_tensors *st) { return is_clip(st) ? clip : siglip; }

const vt_names_def vt_names_def_huggingface_clip = {
    .name = "huggingface-clip",
    .summary = "Hugging Face transformers 4 and 5: CLIP and SigLIP for image classification",
    .recognises = probe,
    .head = "classifier.*",
    .own_class = true,
    .map = map,
};
