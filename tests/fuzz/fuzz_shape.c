/* SPDX-License-Identifier: MIT */
/* Small networks of every architecture whose sides and metadata are changed, where bytes alone would hardly get past
 * the header. The input: which network, how many tensors are changed, three bytes for each of those (tensor, side,
 * value), then two for each word of metadata (key, value). */
#include <stdint.h>
#include "tensors/tensors.h"
#include "network.h"
#include "scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

#define COUNT(a) (sizeof(a) / sizeof *(a))
enum { TENSORS = 200, PAIRS = 60, ZEROS = 1 << 18 };

static const int64_t sides[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,   12,  15,  16,  17,  24,
                                25, 31, 32, 33, 48, 49, 50, 64, 65, 100, 128, 255, 256, 1000};
static const char *const keys[] = {"num_heads",      "image_size",   "img_size",    "window",
                                   "stages",         "stage_depth",  "stage_heads", "stem_stride",
                                   "class_blocks",   "local_blocks", "pool",        "norm",
                                   "final_norm",     "act",          "post_norm",   "norm_first",
                                   "norm_pre",       "registers",    "native",      "native_filter",
                                   "qk_norm",        "tied_qk",      "factor",      "attn",
                                   "attn_scale",     "bgr",          "dist_head",   "no_cls",
                                   "no_embed_class", "no_shift",     "tokens_norm", "heads",
                                   "image"};
static const char *const words[] =
    {"1",          "2",       "3",           "4",       "8",       "16",      "32",   "7",
     "0",          "-1",      "1,1,0,0",     "2,2,0,0", "1,2,4,8", "2,2,2,2", "avg",  "all",
     "token",      "batch",   "layer",       "center",  "none",    "relu",    "gelu", "bilinear",
     "bicubic_aa", "nearest", "layer_scale", "alpha",   "l2",      "lipnorm", "scsa", "l2:tied=1,full=1",
     "mean",       "dist",    "dot",         "64",      "12",      "1e-300",  "1e300"};

static vt_tensors *base[NETWORKS];
static const char *file;

static void start(void) {
    vt_err e = {0};
    file = scratch("m.safetensors");
    for (int k = 0; k < NETWORKS; k++) {
        const char *path = scratch((char[]){'a' + (char)k, 0});
        network_save(k, path);
        if (vt_weights_open(&base[k], path, NULL, &e) != VT_OK) abort();
    }
}

/* Tensor t with another side, or another number of sides; false: too large. */
static bool change(vt_tensor *t, uint8_t how, int64_t side) {
    static const float zeros[ZEROS];
    size_t numel = 1;
    if (how >= 128) t->ndim = 1 + how % 4;
    if (how < 128 && t->ndim) t->shape[how % t->ndim] = side;
    for (int d = 0; d < t->ndim; d++) {
        if (t->shape[d] <= 0) t->shape[d] = side;
        numel *= (size_t)t->shape[d];
        if (numel > ZEROS) return false;
    }
    if (numel != t->numel) t->data = zeros, t->numel = numel, t->dtype = VT_F32;
    return true;
}

/* Sets a key of the pairs, or adds it. */
static void say(const char **meta, int *n, const char *key, const char *value) {
    int at = 0;
    while (at < *n && strcmp(meta[2 * at], key)) at++;
    if (at == *n && *n == PAIRS) return;
    meta[2 * at] = key, meta[2 * at + 1] = value;
    *n += at == *n;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    vt_tensor t[TENSORS];
    const char *meta[2 * PAIRS];
    int pairs = 0, count, left = 0;
    vt_err e = {0};
    if (!file) start();
    if (n < 3) return 0;
    const vt_tensors *st = base[bytes[0] % NETWORKS];
    if ((count = vt_tensors_count(st)) > TENSORS) abort();
    for (int i = 0; i < count; i++) t[i] = *vt_tensors_at(st, i);
    for (int i = 0; vt_tensors_meta_key(st, i); i++)
        say(meta, &pairs, vt_tensors_meta_key(st, i), vt_tensors_meta(st, vt_tensors_meta_key(st, i)));
    size_t at = 2;
    for (int k = bytes[1] % 4; k > 0 && at + 3 <= n; k--, at += 3) {
        vt_tensor *x = &t[bytes[at] * 3 % count];
        if (bytes[at + 1] == 255)
            x->name = NULL; /* left out */
        else if (x->name && !change(x, bytes[at + 1], sides[bytes[at + 2] % COUNT(sides)]))
            return 0;
    }
    for (; at + 2 <= n; at += 2) say(meta, &pairs, keys[bytes[at] % COUNT(keys)], words[bytes[at + 1] % COUNT(words)]);
    for (int i = 0; i < count; i++)
        if (t[i].name) t[left++] = t[i];
    if (vt_tensors_write(file, t, left, meta, pairs, &e) != VT_OK) abort();
    network_try(file);
    return 0;
}
