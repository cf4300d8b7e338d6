/* SPDX-License-Identifier: MIT */
/* Shapes known by name. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/opt.h"
#include "models/attn.h"
#include "models/forms.h"

/* The systems that SpecFormer's tables compare, on a backbone. The paper names their parts and leaves the constants
 * open: those here are our choice. L2Former: L2 attention with one tensor for W_Q and W_K, values X W_V (what most
 * ports do). LNFormer: LipschitzNorm attention. LipsFormer: scaled cosine similarities as its released code has them
 * (tau = 10), CenterNorm for every norm in its place, branches weighted from 1 / depth on, spectral initialisation;
 * without the depthwise convolutions of its Swin. SpecFormer: the backbone itself; what it changes is the loss (recipe
 * key msvp). X: name, arch, patch, dim, depth, heads, hidden, qkv bias, ln_eps, mean/std, forms */
#define SYSTEM(system, attn, more, note, name, arch, patch, dim, depth, heads, hidden, bias, eps, mean, forms)         \
    {                                                                                                                  \
        system "-" name, arch, attn, 224, patch, dim, depth, heads, hidden, 1000, bias, false, eps, mean, mean,        \
            forms more, note                                                                                           \
    }
#define SYSTEMS(...)                                                                                                   \
    SYSTEM("l2former", "l2:tied=1", "tied_qk=1", "L2 attention, W_Q = W_K", __VA_ARGS__),                              \
        SYSTEM("lnformer", "lipnorm", "", "LipschitzNorm attention", __VA_ARGS__),                                     \
        SYSTEM("lipsformer", "scsa", "norm=center final_norm=center factor=alpha init=spectral",                       \
               "cosine attention, CenterNorm, weighted residual", __VA_ARGS__),                                        \
        SYSTEM("specformer", "dot", "", "the backbone itself; train it with msvp", __VA_ARGS__)

/* What every Swin is, and the stages of Swin-T. */
#define SWIN "pool=avg norm_first=1 no_cls=1 stages=4 "
#define SWIN_T "stage_depth=2,2,6,2 stage_heads=3,6,12,24"

#define XCIT(name, image, patch, dim, depth, heads, classes, mean, std, forms, note)                                   \
    {                                                                                                                  \
        name, "xcit", "dot", image, patch, dim, depth, heads, 4 * dim, classes, true, false, 1e-6, mean, std,          \
            "class_blocks=2" forms, note                                                                               \
    }

/* name, arch, attn, image, patch, dim, depth, heads, hidden, classes, qkv bias, dist, ln_eps, mean/std, forms, note */
static const vt_preset presets[] = {
    {"vit_tiny_patch16_224", "vit", "dot", 224, 16, 192, 12, 3, 768, 1000, true, false, 1e-6, 0.5, 0.5, NULL, "timm"},
    {"vit_small_patch16_224", "vit", "dot", 224, 16, 384, 12, 6, 1536, 1000, true, false, 1e-6, 0.5, 0.5, NULL,
     "timm >= 0.4.12"},
    {"vit_base_patch16_224", "vit", "dot", 224, 16, 768, 12, 12, 3072, 1000, true, false, 1e-6, 0.5, 0.5, NULL, "timm"},
    {"vit_small_patch16_224_old", "vit", "dot", 224, 16, 768, 8, 8, 2304, 1000, false, false, 1e-5, 0.5, 0.5, NULL,
     "timm <= 0.4.9, SpecFormer's ViT-S; scale 96^-0.5 (its pre-trained file: " VT_OPTION "attn-scale dim)"},
    {"deit_tiny_patch16_224", "vit", "dot", 224, 16, 192, 12, 3, 768, 1000, true, false, 1e-6, 0, 0, NULL, "DeiT-Ti"},
    {"deit_small_patch16_224", "vit", "dot", 224, 16, 384, 12, 6, 1536, 1000, true, false, 1e-6, 0, 0, NULL, "DeiT-S"},
    {"deit_base_patch16_224", "vit", "dot", 224, 16, 768, 12, 12, 3072, 1000, true, false, 1e-6, 0, 0, NULL, "DeiT-B"},
    {"deit_tiny_distilled_patch16_224", "vit", "dot", 224, 16, 192, 12, 3, 768, 1000, true, true, 1e-6, 0, 0, NULL,
     "DeiT-Ti distilled"},
    {"deit_small_distilled_patch16_224", "vit", "dot", 224, 16, 384, 12, 6, 1536, 1000, true, true, 1e-6, 0, 0, NULL,
     "DeiT-S distilled"},
    {"deit_base_distilled_patch16_224", "vit", "dot", 224, 16, 768, 12, 12, 3072, 1000, true, true, 1e-6, 0, 0, NULL,
     "DeiT-B distilled"},
    {"vit_cifar_dim192_depth9", "vit", "dot", 32, 4, 192, 9, 3, 768, 10, true, false, 1e-6, 0.5, 0.5, NULL,
     "32 x 32, for CIFAR"},
    {"vit_s_cvst", "vit", "dot", 224, 16, 384, 12, 6, 1536, 1000, true, false, 1e-6, 0, 0, "conv_stem=48",
     "ViT-S + ConvStem (Singh2023Revisiting_ViT-S-ConvStem)"},
    {"vit_m_cvst", "vit", "dot", 224, 16, 512, 12, 8, 2048, 1000, true, false, 1e-6, 0, 1,
     "conv_stem=48 no_embed_class=1 factor=layer_scale factor_start=1e-6",
     "ViT-M + ConvStem (Singh et al. 2023); no normalisation"},
    {"vit_b_cvst", "vit", "dot", 224, 16, 768, 12, 12, 3072, 1000, true, false, 1e-6, 0, 1, "conv_stem=48",
     "ViT-B + ConvStem (Singh2023Revisiting_ViT-B-ConvStem); no normalisation"},
    {"convit_tiny", "convit", "dot", 224, 16, 192, 12, 4, 768, 1000, false, false, 1e-6, 0, 0, "local_blocks=10",
     "ConViT-Ti"},
    {"convit_small", "convit", "dot", 224, 16, 432, 12, 9, 1728, 1000, false, false, 1e-6, 0, 0, "local_blocks=10",
     "ConViT-S"},
    {"convit_base", "convit", "dot", 224, 16, 768, 12, 16, 3072, 1000, false, false, 1e-6, 0, 0, "local_blocks=10",
     "ConViT-B"},
    {"convit_tiny_cifar", "convit", "dot", 32, 4, 192, 12, 4, 768, 10, false, false, 1e-6, 0.5, 0.5, "local_blocks=10",
     "ConViT-Ti for 32 x 32, for CIFAR"},
    {"swin_tiny_patch4_window7_224", "swin", "dot", 224, 4, 96, 12, 3, 384, 1000, true, false, 1e-5, 0, 0,
     SWIN "window=7 " SWIN_T, "Swin-T"},
    {"swin_small_patch4_window7_224", "swin", "dot", 224, 4, 96, 24, 3, 384, 1000, true, false, 1e-5, 0, 0,
     SWIN "window=7 stage_depth=2,2,18,2 stage_heads=3,6,12,24", "Swin-S"},
    {"swin_base_patch4_window7_224", "swin", "dot", 224, 4, 128, 24, 4, 512, 1000, true, false, 1e-5, 0, 0,
     SWIN "window=7 stage_depth=2,2,18,2 stage_heads=4,8,16,32", "Swin-B"},
    {"swin_tiny_patch2_window4_32", "swin", "dot", 32, 2, 96, 12, 3, 384, 10, true, false, 1e-5, 0.5, 0.5,
     SWIN "window=4 " SWIN_T, "Swin-T's widths, 32 x 32, for CIFAR"},
    SYSTEMS("vit-small", "vit", 16, 768, 8, 8, 2304, false, 1e-5, 0.5, ""),
    SYSTEMS("vit-base", "vit", 16, 768, 12, 12, 3072, true, 1e-6, 0.5, ""),
    SYSTEMS("deit-tiny", "vit", 16, 192, 12, 3, 768, true, 1e-6, 0, ""),
    SYSTEMS("deit-small", "vit", 16, 384, 12, 6, 1536, true, 1e-6, 0, ""),
    SYSTEMS("convit-tiny", "convit", 16, 192, 12, 4, 768, false, 1e-6, 0, "local_blocks=10 "),
    SYSTEMS("convit-small", "convit", 16, 432, 12, 9, 1728, false, 1e-6, 0, "local_blocks=10 "),
    SYSTEMS("swin-tiny", "swin", 4, 96, 12, 3, 384, true, 1e-5, 0, SWIN "window=7 " SWIN_T " "),
    XCIT("xcit_nano_12_p16_224", 224, 16, 128, 12, 4, 1000, 0, 0, "", "XCiT-N12/16"),
    XCIT("xcit_tiny_12_p16_224", 224, 16, 192, 12, 4, 1000, 0, 0, " tokens_norm=1", "XCiT-T12/16"),
    XCIT("xcit_tiny_24_p16_224", 224, 16, 192, 24, 4, 1000, 0, 0, " tokens_norm=1 eta=1e-5", "XCiT-T24/16"),
    XCIT("xcit_small_12_p16_224", 224, 16, 384, 12, 8, 1000, 0, 0, " tokens_norm=1", "XCiT-S12/16"),
    XCIT("xcit_small_24_p16_224", 224, 16, 384, 24, 8, 1000, 0, 0, " tokens_norm=1 eta=1e-5", "XCiT-S24/16"),
    XCIT("xcit_medium_24_p16_224", 224, 16, 512, 24, 8, 1000, 0, 0, " tokens_norm=1 eta=1e-5", "XCiT-M24/16"),
    XCIT("xcit_large_24_p16_224", 224, 16, 768, 24, 16, 1000, 0, 0, " tokens_norm=1 eta=1e-5", "XCiT-L24/16"),
    XCIT("xcit_nano_12_p8_224", 224, 8, 128, 12, 4, 1000, 0, 0, "", "XCiT-N12/8"),
    XCIT("xcit_tiny_12_p8_224", 224, 8, 192, 12, 4, 1000, 0, 0, " tokens_norm=1", "XCiT-T12/8"),
    XCIT("xcit_tiny_24_p8_224", 224, 8, 192, 24, 4, 1000, 0, 0, " tokens_norm=1 eta=1e-5", "XCiT-T24/8"),
    XCIT("xcit_small_12_p8_224", 224, 8, 384, 12, 8, 1000, 0, 0, " tokens_norm=1", "XCiT-S12/8"),
    XCIT("xcit_small_24_p8_224", 224, 8, 384, 24, 8, 1000, 0, 0, " tokens_norm=1 eta=1e-5", "XCiT-S24/8"),
    XCIT("xcit_medium_24_p8_224", 224, 8, 512, 24, 8, 1000, 0, 0, " tokens_norm=1 eta=1e-5", "XCiT-M24/8"),
    XCIT("xcit_large_24_p8_224", 224, 8, 768, 24, 16, 1000, 0, 0, " tokens_norm=1 eta=1e-5", "XCiT-L24/8"),
    XCIT("xcit_medium_12_p16_224", 224, 16, 512, 12, 8, 1000, 0, 1, " tokens_norm=1",
         "XCiT-M12/16 of RobustBench, not of timm; no normalisation"),
    XCIT("xcit_large_12_p16_224", 224, 16, 768, 12, 16, 1000, 0, 1, " tokens_norm=1",
         "XCiT-L12/16 of RobustBench, not of timm; no normalisation"),
    XCIT("xcit_small_12_cifar", 32, 16, 384, 12, 8, 10, -1, 0, " tokens_norm=1 stem_stride=1,1,2,2",
         "RobustBench's on 32 x 32: 8 x 8 tokens"),
    XCIT("xcit_medium_12_cifar", 32, 16, 512, 12, 8, 10, -1, 0, " tokens_norm=1 stem_stride=1,1,2,2",
         "RobustBench's on 32 x 32: 8 x 8 tokens"),
    XCIT("xcit_large_12_cifar", 32, 16, 768, 12, 16, 10, -1, 0, " tokens_norm=1 stem_stride=1,1,2,2",
         "RobustBench's on 32 x 32: 8 x 8 tokens"),
    {"shift_cifar_dim144_depth6", "shift", "dot", 32, 4, 144, 6, 1, 144, 10, true, false, 1e-6, 0.5, 0.25,
     "pool=avg no_cls=1 norm=none final_norm=none init=spectral", "ours: no attention, for certified l2 radii"},
};

const vt_preset *vt_presets(int *n) {
    *n = (int)(sizeof presets / sizeof *presets);
    return presets;
}

const vt_preset *vt_preset_find(const char *name) {
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (!strcasecmp(presets[i].name, name)) return &presets[i];
    return NULL;
}

vt_status vt_preset_named(const char *name, const vt_preset **out, vt_err *e) {
    size_t n = sizeof presets / sizeof *presets;
    const char *names[sizeof presets / sizeof *presets];
    for (size_t i = 0; i < n; i++) names[i] = presets[i].name;
    *out = vt_preset_find(name);
    return *out ? VT_OK : vt_fail_unknown("preset", name, names, n, "vitrine list models", e);
}

void vt_preset_config(const vt_preset *p, vt_config *c) {
    static const double means[2][3] = {{0.485, 0.456, 0.406}, {0.4914, 0.4822, 0.4465}}; /* ImageNet, CIFAR-10 */
    static const double stds[2][3] = {{0.229, 0.224, 0.225}, {0.2471, 0.2435, 0.2616}};
    const int cifar = p->mean < 0;
    memset(c, 0, sizeof *c);
    snprintf(c->arch, sizeof c->arch, "%s", p->arch);
    vt_attn_spec attn;
    if (vt_attn_parse(&attn, p->attn, NULL) == VT_OK) snprintf(c->attn, sizeof c->attn, "%s", attn.text);
    c->image = p->image, c->patch = p->patch, c->dim = p->dim, c->depth = p->depth, c->heads = p->heads;
    c->hidden = p->hidden, c->classes = p->classes, c->qkv_bias = p->qkv_bias, c->dist_token = p->dist_token;
    c->pool = VT_POOL_TOKEN, c->ln_eps = p->ln_eps, c->attn_scale = 1 / sqrt((double)p->dim / p->heads);
    for (int k = 0; k < 3; k++) {
        c->mean[k] = p->std > 0 ? p->mean : means[cifar][k];
        c->std[k] = p->std > 0 ? p->std : stds[cifar][k];
    }
    if (p->forms) vt_form_parse(c, p->forms, p->name, NULL); /* a unit test reads every row */
}
