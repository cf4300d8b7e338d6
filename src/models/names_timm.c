/* timm's names of ViT and DeiT, the canonical ones (algorithms.md B.2). */
#include "models/names.h"

static bool probe(const vt_st *st) {
    return (vt_st_find(st, "patch_embed.proj.weight") && vt_st_find(st, "pos_embed")) ||
           (vt_st_find(st, "patch_embed.proj.0.0.weight") && vt_st_find(st, "pos_embed.token_projection.weight"));
}

static const char *file_name(const char *canonical, char *buf, size_t size) {
    (void)buf, (void)size;
    return canonical;
}

const vt_names_def vt_names_def_timm = {
    .name = "timm",
    .summary = "timm's names of ViT, DeiT and XCiT (patch_embed.proj, blocks.i.attn.qkv, head)",
    .probe = probe,
    .file_name = file_name,
};
