/* SPDX-License-Identifier: MIT */
#include "models/checkpoint/kin.h"

#include <string.h>

#include "models/checkpoint/pattern.h"
#include "models/detect.h"

/* Two tensors that tell: patterns of models/checkpoint/pattern.h. The first row whose both are there counts. Names are
 * of timm 0.9.16 and 1.0.29, transformers, vit-pytorch and the authors' repositories. */
// clang-format off
static const struct {
    const char *one, *two, *what;
} kinds[] = {
    /* states rather than networks */
    {"*base_encoder.*", "*momentum_encoder.*", "MoCo's pre-training, a base model without classifier"},
    {"*decoder_blocks.{i}.*", "*decoder_embed.*", "MAE's pre-training, a base model without classifier"},
    {"*decoder_pred.*", "*mask_token", "a masked autoencoder's pre-training, a base model without classifier"},
    {"*blocks.{i}.attn.rel_pos_h", "neck.*", "SAM's image encoder, a base model without classifier"},
    {"*student*.cls_token", "*teacher*.cls_token", "a pre-training of student and teacher (DINO): save the state_dict of one of them, with a classifier"},
    {"model*{i}.*patch_embed.proj.weight", "model*{i}.*head*.weight", "an ensemble of networks (its names are numbered): save the state_dict of each"},
    {"*temperature", "*patch_embed.proj.weight", "a network with a temperature on its logits (calibration), or with one in its attention"},
    {"*meansparse*.running_mean", "*blocks.{i}.*", "a network with MeanSparse layers"},
    /* convolutional */
    {"*stages.{i}.blocks.{b}.attn.w_g", "stem.{k}.*", "a SwiftFormer"},
    {"*stages.{i}.blocks.{b}.token_mixer.pwconv1.*", "stem.conv.*", "a MetaFormer (CAFormer, ConvFormer and the like)"},
    {"*stages.{i}.blocks.{b}.local_representation.*", "stem.{k}.*", "a SwiftFormer"},
    {"*layer{i}.{b}.conv3.weight", "*layer{i}.{b}.bn1.*", "a ResNet (of bottlenecks)"},
    {"*layer{i}.{b}.conv1.weight", "*layer{i}.{b}.bn1.*", "a ResNet"},
    {"*block{i}.layer.{b}.conv1.weight", "*block{i}.layer.{b}.bn1.*", "a WideResNet"},
    {"*layer.{i}.block.{b}.conv_*.weight", "*layer.{i}.block.{b}.batchnorm_*", "a WideResNet"},
    {"*layer{i}.{b}.*onv*.weight", "*bn*.running_mean", "a convolutional network (ResNet-like)"},
    {"features.denseblock{i}.*", "features.norm*.weight", "a DenseNet"},
    {"dense{i}.{b}.conv*.weight", "trans{i}.*", "a DenseNet"},
    {"features.{i}.weight", "classifier*.weight", "a VGG or AlexNet"},
    {"conv_stem.weight", "blocks.{i}.{b}.*conv*.weight", "an EfficientNet or MobileNet"},
    {"features.{i}.*conv.{b}.*", "classifier*.weight", "a MobileNet"},
    {"*stages.{i}.blocks.{b}.gamma_xca", "*stages.{i}.blocks.{b}.xca.*", "an EdgeNeXt"},
    {"*blocks.{b}.conv_dw.weight", "*blocks.{b}.mlp.fc1.weight", "a ConvNeXt"},
    {"*.conv_dw.weight", "*stem.{c}.weight", "a ConvNeXt"},
    {"*stages.{i}.{b}.dwconv.weight", "*downsample_layers.{i}.{b}.weight", "a ConvNeXt"},
    {"*stages.{i}.{b}.dwconv.weight", "*downsample_layers.{i}.stem.*", "a ConvNeXt with a ConvStem"},
    {"*.dwconv.weight", "*.pwconv1.weight", "a ConvNeXt"},
    {"features.{i}.{b}.block.0.weight", "features.{i}.{b}.layer_scale", "a ConvNeXt"},
    {"{i}.{b}.fn.0.weight", "{i}.{b}.fn.2.running_mean", "a ConvMixer"},
    {"*blocks.{i}.0.fn.0.weight", "*blocks.{i}.0.fn.2.running_mean", "a ConvMixer"},
    /* MLPs */
    {"*blocks.{i}.mlp_channels.gate.*", "*blocks.{i}.norm.weight", "a gMLP"},
    {"*blocks.{i}.linear_tokens.weight", "*blocks.{i}.mlp_channels.*", "a ResMLP"},
    {"*blocks.{i}.mlp_tokens.*", "*blocks.{i}.mlp_channels.*", "an MLP-Mixer"},
    {"{i}.0.fn.{b}.weight", "{i}.1.fn.{b}.weight", "an MLP-Mixer"},
    {"*.token_mixing.*", "*.channel_mixing.*", "an MLP-Mixer"},
    /* relatives of Swin */
    {"*.logit_scale", "*.continuous_position_bias_mlp.*", "a Swin V2"},
    {"*.logit_scale", "*.cpb_mlp.*", "a Swin V2 (torchvision's swin_v2, timm's and Microsoft's names)"},
    {"*.attn.logit_scale", "*.attn.meta_mlp.*", "a Swin V2 (CR)"},
    {"*blocks.{i}.modulation.f.weight", "*blocks.{i}.norm1.weight", "a FocalNet"},
    {"*.attention_block.fn.fn.*", "*.patch_partition.linear.*", "a Swin of vision-transformers-cifar10"},
    {"*layers.{i}.blocks.{b}.attn.qkv.conv.weight", "*layers.{i}.*", "a Swin of separable convolutions"},
    /* pyramids and hybrids */
    {"*.attn.rel_pos.relative_position_bias_table", "*stages.{i}.global_block.*", "a GC ViT"},
    {"*patch_embeds.{i}.proj.weight", "*pos_block.{i}.proj.*", "a Twins"},
    {"*stages.{i}.blocks.{b}.attn.sr.weight", "*stages.{i}.patch_embed.*", "a PVT"},
    {"*stages.{i}.blocks.{b}.attn.kv.weight", "*stages.{i}.blocks.{b}.mlp.dwconv.weight", "a PVT v2"},
    {"*block{i}.{b}.attn.kv.weight", "*patch_embed{i}.proj.weight", "a PVT"},
    {"*stages.{i}.blocks.{b}.attn.rel_pos_h", "*stages.{i}.blocks.{b}.attn.qkv.weight", "an MViT"},
    {"*blocks.{i}.attn.pool_*", "*blocks.{i}.attn.norm_*", "an MViT"},
    {"*stages.{i}.blocks.{b}.attn_block.*", "*stages.{i}.blocks.{b}.attn_grid.*", "a MaxViT"},
    {"*blocks.{i}.layers.{b}.layers.window_attention.*", "*blocks.{i}.layers.{b}.layers.grid_attention.*", "a MaxViT"},
    {"*layers.{i}.{b}.fn.rel_pos_bias.weight", "*conv_stem.{k}.weight", "a MaxViT"},
    {"stem.conv1.weight", "stages.{i}.blocks.{b}.attn.rel_pos.*", "a CoAtNet or MaxViT"},
    {"stem.conv1.weight", "stages.{i}.blocks.{b}.conv2_kxk.weight", "a CoAtNet"},
    {"*.attn.attention_biases", "*stages.{i}.blocks.{b}.conv{k}.*", "a TinyViT"},
    {"*.local_conv.*", "*stages.{i}.*", "a TinyViT"},
    {"*backbone.{i}.layers.{b}.{k}.pos_indices", "*conv_embedding.*", "a LeViT"},
    {"*transformers.{i}.blocks.{b}.*", "*transformers.{i}.pool.*", "a PiT"},
    {"*layers.{i}.downsample.net.*", "*layers.{i}.cls_ff.*", "a PiT"},
    {"*pixel_embed.proj.weight", "*norm1_proj.weight", "a TNT"},
    {"*post_network.{i}.*", "*network.{i}.{b}.*", "a VOLO"},
    {"*serial_blocks{i}.{b}.*", "*crpe{i}.*", "a CoaT"},
    {"*patch_embed.{i}.proj.weight", "*blocks.{i}.fusion.*", "a CrossViT"},
    {"*sm_image_embedder.*", "*lg_image_embedder.*", "a CrossViT"},
    {"*levels.{i}.transformer_encoder.*", "*levels.{i}.pos_embed", "a NesT"},
    {"*layers.{i}.{b}.pos_emb", "*layers.{i}.{b}.layers.*", "a NesT"},
    {"*stages.{i}.blocks.{b}.{k}.cpe1.*", "*stages.{i}.blocks.{b}.{k}.attn.*", "a DaViT"},
    {"*stages.{i}.blocks.{b}.token_mixer.*", "stem.conv1.*", "an EfficientFormer, RepViT or FastViT"},
    {"stem.{k}.conv_kxk.*", "*stages.{i}.blocks.{b}.*", "a FastViT"},
    {"*stages.{i}.blocks.{b}.ls*.gamma", "stem.conv1.*", "an EfficientFormer"},
    {"*stages.{i}.blocks.{b}.token_mixer.*", "stem.{k}.*", "a MetaFormer (InceptionNeXt and the like)"},
    {"*stages.{i}.blocks.{b}.layer_scale1.scale", "stem.conv.weight", "a PoolFormer"},
    {"stem.in_conv.*", "*stages.{i}.blocks.{b}.*", "an EfficientViT"},
    {"patch_embed.conv1.conv.weight", "*stages.{i}.blocks.{b}.dw0.*", "an EfficientViT"},
    {"*stages.{i}.{b}.transformer.{k}.*", "*stages.{i}.{b}.conv_kxk.*", "a MobileViT"},
    {"*mvit.{i}.*", "*mv2.{i}.*", "a MobileViT"},
    {"*trunk.{i}.{b}.transformer.*", "stem.{i}.*", "a MobileViT"},
    {"*stages.{i}.blocks.{b}.e_mhsa.*", "*stages.{i}.*", "a Next-ViT"},
    {"*stages.{i}.blocks.{b}.rnn_tokens.*", "*stages.{i}.*", "a Sequencer"},
    {"*stages.{i}.blocks.{b}.token_mixer.*", "*", "a MetaFormer, RepViT or the like"},
    {"*.attention_biases*", "*blocks.{b}.*", "a LeViT, or another network of attention biases"},
    /* relatives of ViT under timm's names, and Hugging Face's */
    {"*blocks_token_only.{i}.*", "*attn.proj_l.weight", "a CaiT"},
    {"*blocks_token_only.{i}.*", "*blocks.{i}.gamma_1", "a CaiT"},
    {"*.mix_heads_pre_attn", "*.mix_heads_post_attn", "a CaiT of talking heads"},
    {"*.layer.{i}.lambda_{k}", "*relative_position_bias*", "a BEiT or data2vec"},
    {"*beit.embeddings.*", "*.layer.{i}.*", "a BEiT"},
    {"*data2vec_vision.*", "*.layer.{i}.*", "a data2vec"},
    {"*blocks.{i}.attn.relative_position_bias_table", "*blocks.{i}.gamma_1", "a BEiT"},
    {"*rel_pos_bias.relative_position_bias_table", "*blocks.{i}.*", "a BEiT or a ViT of relative positions"},
    {"*blocks.{i}.attn.relative_position_bias_table", "*blocks.{i}.attn.q_bias", "a BEiT"},
    {"*rope*.periods", "*.attn.qkv.weight", "a DINOv3"},
    {"*layer.{i}.attention.q_proj.weight", "*rope_embeddings.*", "a DINOv3"},
    {"*storage_tokens", "*blocks.{i}.*", "a DINOv3"},
    {"*reg_token", "*blocks.{i}.gamma_1", "a DINOv3 or another ViT of rotary positions (RoPE)"},
    {"*rope.freqs*", "*blocks.{i}.*", "a ViT of rotary positions (RoPE)"},
    {"*.rope.*", "*blocks.{i}.*", "a ViT of rotary positions (RoPE)"},
    {"*blocks.{i}.mlp.fc1_g.*", "*blocks.{i}.mlp.fc1_x.*", "an EVA02 or a ViT of SwiGLU MLPs"},
    {"*blocks.{i}.mlp.w12.*", "*blocks.{i}.mlp.w3.*", "a ViT of SwiGLU MLPs (DINOv2's ViT-g), a SwiGLU"},
    {"*.mlp.weights_in.*", "*.mlp.weights_out.*", "a DINOv2 of SwiGLU MLPs, a SwiGLU"},
    {"*blocks.{i}.mlp.w1.*", "*blocks.{i}.mlp.w3.*", "a ViT of SwiGLU MLPs"},
    {"*blocks.{i}.mlp.gate_proj.*", "*blocks.{i}.mlp.up_proj.*", "a ViT of SwiGLU MLPs"},
    {"*blocks.{i}.attn.rel_pos.*", "*blocks.{b}.mlp.fc1.*", "a ViT of relative positions"},
    {"*shared_rel_pos.*", "*blocks.{i}.*", "a ViT of relative positions"},
    {"*attn_pool.latent", "*blocks.{i}.*", "a ViT with attention pooling (SigLIP, Perception Encoder)"},
    {"*vision_model.head.probe", "*vision_model.encoder.*", "a SigLIP with attention pooling"},
    {"*blocks.{i}.attns.{k}.*", "*blocks.{i}.ffns.{k}.*", "a ViT of parallel blocks"},
    {"*blocks.{i}.in_proj.weight", "*blocks.{i}.attn_out_proj.weight", "a ViT of parallel blocks"},
    {"*blocks.{i}.attn.lambda_q{k}", "*blocks.{i}.*", "a ViT of differential attention"},
    {"*blocks.{i}.attn.norm.weight", "*blocks.{i}.attn.qkv.weight", "a ViT with a norm behind its attention"},
    {"*blocks.{i}.attn.norm.weight", "*blocks.{i}.attn.q_proj.weight", "a ViT with a norm behind its attention (EVA)"},
    {"*blocks.{i}.norm1.alpha", "*blocks.{i}.mlp.fc1.weight", "a ViT of dynamic tanh in place of LayerNorm (DyT)"},
    {"*transformer.layers.{i}.*.norm.alpha", "*transformer.layers.{i}.*", "a ViT of dynamic tanh in place of LayerNorm (dyt of vision-transformers-cifar10)"},
    {"*patch_embed.backbone.stem.conv1.weight", "*patch_embed.backbone.stages.{i}.*", "a ViTamin or another hybrid ViT"},
    {"*patch_embed.backbone.*", "*blocks.{i}.attn.qkv.weight", "a hybrid ViT (a convolutional network before its blocks)"},
    {"*hybrid_model.*", "*transformer.encoder.*", "a hybrid ViT (a ResNet before its blocks)"},
    {"*embeds.pos_embed", "*embeds.proj.weight", "a NaFlexViT"},
    {"*pos_embed_window", "*blocks.{i}.*", "a Hiera"},
    {"*blocks.{i}.proj.weight", "head.projection.weight", "a Hiera"},
    {"*blocks.{i}.proj.weight", "head.fc.weight", "a Hiera"},
    /* vit-pytorch's relatives */
    {"*pos_embed_height*", "*transformer.layers.{i}.*", "a NaViT"},
    {"*.attention_pool.weight", "*tokenizer.conv_layers.{i}.*", "a CCT, CVT or ViT-Lite"},
    {"*.blocks.{i}.pre_norm.weight", "*.blocks.{i}.self_attn.qkv.weight", "a CCT, CVT or ViT-Lite"},
    {"*to_patch_embedding.to_patch_tokens.*", "*transformer.layers.{i}.*", "a ViT that has shifted patch tokenisation or locality self-attention (SPT, LSA: vit_small and vit_tiny of vision-transformers-cifar10, vit-pytorch's vit_for_small_dataset)"},
    {"*.reattn_weights", "*.to_qkv.weight", "a DeepViT, of re-attention"},
    {"*transformer.layers.{i}.*.fns.{k}.*", "*to_patch_embedding.*", "a ViT of parallel blocks, or with a class token of its own layers"},
    {"*transformer.patch_merger.*", "*transformer.layers.{i}.*", "a ViT with a patch merger"},
    {"*transformer.pos_emb.scales", "*transformer.layers.{i}.*", "an RvT"},
    {"*transformer.layers.{i}.{k}.fn.fn.net.{b}.net.*", "*to_patch_embedding.*", "a LocalViT"},
    {"*to_patch_embedding.{i}.layers.{b}.*", "*transformer.layers.{i}.*", "a T2T-ViT"},
    {"*jumbo_cls_token", "*jumbo_ff.*", "a ViT with a jumbo class token"},
    {"*transformer.layers.{i}.{k}.to_residual_mix.*", "*to_patch_embedding.*", "a SimpleViT of value residuals"},
    {"*transformer.layers.{i}.{k}.block.*", "*linear_head.*", "a SimpleViT of orthogonal residual updates"},
    {"*transformer.layers.{i}.{k}.q_norm.gamma", "*transformer.layers.{i}.*", "a SimpleViT with q/k norm"},
    {"*transformer.layers.{i}.0.weight", "*register_tokens", "a SimpleUViT"},
    {"*register_tokens", "*transformer.layers.{i}.*", "a SimpleViT with register tokens"},
    {"*to_freq_embedding.*", "*to_patch_embedding.*", "a SimpleViT of Fourier features"},
    {"*layers.{i}.{k}.q_scale", "*layers.{i}.{k}.k_scale", "a normalised ViT (nViT)"},
    {"*layers.{i}.{k}.to_q.linear.*", "*residual_lerp_scales.*", "a normalised ViT (nViT)"},
    {"*.to_q.net.{i}.weight", "*.to_kv.net.{i}.weight", "a CvT"},
    {"*layers.{i}.{b}.layers.{k}.{j}.dpb.*", "*layers.*", "a CrossFormer"},
    {"*local_encoder.*", "*region_encoder.*", "a RegionViT"},
    {"*xcit_transformer.layers.{i}.*", "*cls_transformer.*", "vit-pytorch's XCiT, which has other names and strides than its authors'"},
    {"*.highres_norm.*", "*.lowres_norm.*", "a LookViT"},
    {"*layers.{i}.{b}.proj.fn.weight", "*layers.{i}.{b}.layers.*", "a Twins or another pyramid"},
    {"*.g", "*layers.{i}.*", "a network of channel norms (Twins, ScalableViT, SepViT, CrossFormer)"},
    {"*patch_to_embedding.weight", "*transformer.*.fn.fn.*", "a ViT of vit-pytorch before 0.7, whose head is an MLP or whose form no map has"},
    {"*patch_to_emb.{i}.weight", "*enc_to_dec.*", "vit-pytorch's MAE, a pre-training without a classifier of its own"},
    {"*transformer.layers.{i}.0.to_kv.weight", "*mlp_head.{k}.weight", "a relative of vit-pytorch's ViT (learnable memories, ...)"},
    {"*transformer.layers.{i}.0.to_qkv.weight", "*mlp_head.{k}.weight", "a relative of vit-pytorch's ViT (adaptive token sampling, ...)"},
    {"*attention.heads.{k}.query.weight", "*attention.heads.{k}.value.weight", "a ViT whose heads have matrices of their own"},
    {"*enc.{i}.la{k}.weight", "*enc.{i}.msa.q.weight", "omihub777's ViT-CIFAR, whose MLP has a second GELU"},
    /* texts and towers */
    {"*embeddings.word_embeddings.weight", "*encoder.layer.{i}.*", "a BERT, a transformer of texts"},
    {"*wte.weight", "*h.{i}.attn.c_attn.*", "a GPT, a transformer of texts"},
    {"*embed_tokens.weight", "*layers.{i}.*", "a language model"},
    {"visual.*", "token_embedding.weight", "a CLIP with its tower of texts"},
    {"*text_model.*", "*vision_model.*", "a CLIP or SigLIP with its tower of texts"},
    {"*vision_model.*", "visual_projection.weight", "a CLIP's image tower with its projection, a base model without classifier"},
    {"visual.transformer.*", "visual.proj", "a CLIP's image tower, a base model without classifier"},
    {"transformer.resblocks.{i}.*", "proj", "a CLIP's image tower, a base model without classifier"},
    {"*.bn.running_mean", "*.conv.weight", "a network of convolutions and BatchNorm"},
};
// clang-format on

static bool any(const char *pattern, const vt_tensors *st, const vt_names_row *rows, int n) {
    vt_binding b;
    for (int i = 0; i < (n ? n : vt_tensors_count(st)); i++)
        if (vt_pattern_match(pattern, n ? rows[i].was.name : vt_tensors_at(st, i)->name, &b)) return true;
    return false;
}

/* By canonical names and shapes: what a block has in place of a LayerNorm, or of an MLP. */
static const char *by_shape(const vt_tensors *st, const vt_names_row *rows, int n) {
    if ((vt_detect_any(st, "", ".norm1.weight") && !vt_detect_any(st, "", ".norm1.bias")) ||
        (vt_detect_any(st, "", ".q_norm.weight") && !vt_detect_any(st, "", ".q_norm.bias")))
        return "a ViT whose norms have no bias (RMSNorm, or LayerNorm without bias)";
    for (int i = 0; i < (n ? n : vt_tensors_count(st)); i++) {
        const vt_tensor *t = n ? &rows[i].was : vt_tensors_at(st, i);
        const size_t len = strlen(t->name);
        if (t->numel == 3 && len > 13 && !strcmp(t->name + len - 13, ".running_mean"))
            return "a network with a BatchNorm on its input";
    }
    if (vt_tensors_find(st, "cls_attn_blocks.0.norm1.weight") &&
        !vt_detect_any(st, "pos_embed", ".token_projection.weight"))
        return "an XCiT without positions";
    if (vt_tensors_find(st, "blocks.0.attn.gating_param") && !vt_tensors_find(st, "pos_embed"))
        return "a ConViT without positions";
    const vt_tensor *a = vt_tensors_find(st, "blocks.0.mlp.fc1.weight"),
                    *b = vt_tensors_find(st, "blocks.0.mlp.fc2.weight");
    bool gated = a && b && a->ndim == 2 && b->ndim == 2 && a->shape[0] == 2 * b->shape[1];
    return gated ? "a ViT of gated MLPs (SwiGLU or GLU: fc1 has twice the rows of fc2's columns)" : NULL;
}

const char *vt_kin_of(const vt_tensors *st, const vt_names_row *rows, int n) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (any(kinds[i].one, st, rows, n) && any(kinds[i].two, st, rows, n)) return kinds[i].what;
    return by_shape(st, rows, n);
}

const char *vt_kin(const vt_tensors *st) { return vt_kin_of(st, NULL, 0); }
