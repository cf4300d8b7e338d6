/* SPDX-License-Identifier: MIT */
/* Relatives of vit-pytorch's ViT with its names and other computations: recognised by their own tensors, to be refused
 * by what they are. */
#include <string.h>
#include "models/checkpoint/names.h"

#define SPT_LSA                                                                                                        \
    "shifted patch tokenisation or locality self-attention (SPT: shifted patches; LSA: a learned temperature, a "      \
    "masked "                                                                                                          \
    "diagonal), as vit_small and vit_tiny of vision-transformers-cifar10 and vit-pytorch's vit_for_small_dataset "     \
    "have it"

static const struct {
    const char *begin, *end; /* of a tensor's name */
    bool scalar;
    const char *what;
} signs[] = {
    {"transformer.layers.", ".temperature", true, SPT_LSA},
    {"to_patch_embedding.to_patch_tokens.", "", false, SPT_LSA},
    {"transformer.layers.", ".norm.alpha", true,
     "dynamic tanh in place of LayerNorm (dyt of vision-transformers-cifar10)"},
    {"transformer.layers.", ".reattn_weights", false, "re-attention (DeepViT)"},
    {"", ".mix_heads_pre_attn", false, "talking heads (CaiT)"},
};

static bool is_sign(const vt_tensor *t, size_t i) {
    size_t n = strlen(t->name), begin = strlen(signs[i].begin), end = strlen(signs[i].end);
    return n >= begin + end && !strncmp(t->name, signs[i].begin, begin) && !strcmp(t->name + n - end, signs[i].end) &&
           (!signs[i].scalar || t->numel == 1);
}

static const char *sign_of(const vt_tensors *st) {
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        for (int k = 0; k < vt_tensors_count(st); k++)
            if (is_sign(vt_tensors_at(st, k), i)) return signs[i].what;
    return NULL;
}

static bool probe(const vt_tensors *st) { return sign_of(st) != NULL; }

static const char *map(const vt_tensors *st) {
    (void)st;
    return "* -> *\n";
}

static vt_status check(const vt_tensors *st, vt_err *e) {
    const char *what = sign_of(st);
    return vt_fail(e, VT_E_FORMAT, "%s: has %s, which vitrine does not compute", vt_tensors_path(st),
                   what ? what : "none of the tensors that this scheme knows");
}

const vt_names_def vt_names_def_vit_small = {
    .name = "vit-small",
    .summary = "vit_small (SPT, LSA), dyt, DeepViT, CaiT: refused by name",
    .recognises = probe,
    .map = map,
    .check = check,
};
