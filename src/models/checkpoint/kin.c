/* SPDX-License-Identifier: MIT */
#include "models/checkpoint/kin.h"

#include "models/checkpoint/pattern.h"

/* Two tensors that tell: patterns of models/checkpoint/pattern.h. The first row whose both are there counts. */
static const struct {
    const char *one, *two, *what;
} kinds[] = {
    {"layer{i}.{b}.conv3.weight", "layer{i}.{b}.bn1.*", "a ResNet (of bottlenecks)"},
    {"layer{i}.{b}.conv1.weight", "layer{i}.{b}.bn1.*", "a ResNet"},
    {"block{i}.layer.{b}.conv1.weight", "block{i}.layer.{b}.bn1.*", "a WideResNet"},
    {"layer.{i}.block.{b}.conv_*.weight", "layer.{i}.block.{b}.batchnorm_*", "a WideResNet"},
    {"layer{i}.{b}.*onv*.weight", "*bn*.running_mean", "a convolutional network (ResNet-like)"},
    {"features.denseblock{i}.*", "features.norm*.weight", "a DenseNet"},
    {"dense{i}.{b}.conv*.weight", "trans{i}.*", "a DenseNet"},
    {"features.{i}.weight", "classifier*.weight", "a VGG or AlexNet"},
    {"conv_stem.weight", "blocks.{i}.{b}.conv_*.weight", "an EfficientNet or MobileNet"},
    {"features.{i}.*conv.{b}.*", "classifier*.weight", "a MobileNet"},
    {"stages.{i}.blocks.{b}.conv_dw.weight", "stem.{c}.weight", "a ConvNeXt"},
    {"stages.{i}.{b}.dwconv.weight", "downsample_layers.{i}.{b}.weight", "a ConvNeXt"},
    {"features.{i}.{b}.block.0.weight", "features.{i}.{b}.layer_scale", "a ConvNeXt"},
    {"blocks.{i}.mlp_tokens.*", "blocks.{i}.mlp_channels.*", "an MLP-Mixer"},
    {"*embeddings.word_embeddings.weight", "*encoder.layer.{i}.*", "a BERT, a transformer of texts"},
    {"*wte.weight", "*h.{i}.attn.c_attn.*", "a GPT, a transformer of texts"},
    {"*embed_tokens.weight", "*layers.{i}.*", "a language model"},
    {"visual.*", "token_embedding.weight", "a CLIP with its tower of texts"},
};

static bool any(const vt_tensors *st, const char *pattern) {
    vt_binding b;
    for (int i = 0; i < vt_tensors_count(st); i++)
        if (vt_pattern_match(pattern, vt_tensors_at(st, i)->name, &b)) return true;
    return false;
}

const char *vt_kin(const vt_tensors *st) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (any(st, kinds[i].one) && any(st, kinds[i].two)) return kinds[i].what;
    return NULL;
}
