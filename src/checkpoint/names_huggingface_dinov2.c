/* SPDX-License-Identifier: MIT */
/* Hugging Face transformers: Dinov2ForImageClassification and Dinov2WithRegistersForImageClassification, names of 4.x
 * and of 5.x (src/transformers/models/{dinov2,dinov2_with_registers}/modeling_*.py there), whose one classifier reads
 * class token and mean of the patches. */
#include "checkpoint/names.h"

#define PLAIN "dinov2."
#define REGISTERS "dinov2_with_registers."
#define PATCHES "embeddings.patch_embeddings.projection.weight"

static bool has_registers(const vt_tensors *st) { return vt_tensors_find(st, REGISTERS PATCHES) != NULL; }
static bool probe(const vt_tensors *st) { return vt_tensors_find(st, PLAIN PATCHES) || has_registers(st); }

/* P is the model's prefix, L a layer's, A its attention's in 4.x. */
#define LINES(P, L, A)                                                                                                 \
    P "embeddings.cls_token -> cls_token\n" P "embeddings.position_embeddings -> pos_embed\n" P                        \
      "embeddings.register_tokens -> reg_token\n" P "embeddings.patch_embeddings.projection.* -> patch_embed.proj.*\n" \
      "drop " P "embeddings.mask_token  for masked pre-training\n" L "norm1.* -> blocks.{i}.norm1.*\n" L               \
      "norm2.* -> blocks.{i}.norm2.*\n" A "attention.query.* + " A "attention.key.* + " A                              \
      "attention.value.* -> blocks.{i}.attn.qkv.*\n" A "output.dense.* -> blocks.{i}.attn.proj.*\n" A "q_proj.* + " A  \
      "k_proj.* + " A "v_proj.* -> blocks.{i}.attn.qkv.*\n" A "o_proj.* -> blocks.{i}.attn.proj.*\n" L                 \
      "layer_scale1.lambda1 -> blocks.{i}.ls1.gamma\n" L "layer_scale2.lambda1 -> blocks.{i}.ls2.gamma\n" L            \
      "mlp.fc1.* -> blocks.{i}.mlp.fc1.*\n" L "mlp.fc2.* -> blocks.{i}.mlp.fc2.*\n" P "layernorm.* -> norm.*\n"        \
      "classifier.* -> head.*\n"                                                                                       \
      "set ln_eps 1e-6\n"
#define OF(P) LINES(P, P "encoder.layer.{i}.", P "encoder.layer.{i}.attention.")

/* At another resolution: interpolate_pos_encoding there. */
static const char plain[] = OF(PLAIN) "set pos_filter bicubic\n",
                  registers[] = OF(REGISTERS) "set pos_filter bicubic_aa\n";

static const char *map(const vt_tensors *st) { return has_registers(st) ? registers : plain; }

const vt_names_def vt_names_def_huggingface_dinov2 = {
    .name = "huggingface-dinov2",
    .summary = "Hugging Face transformers 4 and 5: DINOv2 for image classification, with and without registers",
    .recognises = probe,
    .head = "classifier.*",
    .map = map,
};
