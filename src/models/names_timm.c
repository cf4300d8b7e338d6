/* timm's names of ViT, DeiT and Swin, the canonical ones (algorithms.md B.2). */
#include "models/names.h"
#include "models/swin.h"

static bool probe(const vt_st *st) {
    bool xcit = vt_st_find(st, "patch_embed.proj.0.0.weight") && vt_st_find(st, "pos_embed.token_projection.weight");
    return xcit || (vt_st_find(st, "patch_embed.proj.weight") && (vt_st_find(st, "pos_embed") || vt_swin_probe(st)));
}

static const char *file_name(const char *canonical, char *buf, size_t size) {
    (void)buf, (void)size;
    return canonical;
}

const vt_names_def vt_names_def_timm = {
    .name = "timm",
    .summary = "timm's names of ViT, DeiT, ConViT, Swin and XCiT (patch_embed.proj, blocks.i.attn.qkv, head)",
    .probe = probe,
    .file_name = file_name,
};
