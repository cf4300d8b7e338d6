/* SPDX-License-Identifier: MIT */
/* A native network as an ONNX graph (graph/write.h): the same sums as models/net forms, out of standard operators. Read
 * back by vitrine in double it agrees with the native network to 1e-12. Constants are vt_put_real's, so that they are
 * the native network's doubles; norms and square roots are composed of simple operators, because ONNX's attributes
 * (epsilon) are float32. Weights keep their names; a linear map's is written transposed, as NAME.T.
 * Tokens are [N, T, D], maps [N, C, H, W]. */
#pragma once

#include "graph/network.h"
#include "graph/write.h"
#include "models/model.h"
#include "models/stem.h"
#include "models/vit.h"
#include "nn/interpolate.h"

/* What the graph takes: pixels in [0,1], or (pixels - mean) / std, which is then the user's to compute. */
typedef enum vt_normalise { VT_NORMALISE_INSIDE, VT_NORMALISE_OUTSIDE } vt_normalise;

typedef struct vt_export_size {
    int nodes;
    size_t numbers; /* of weights and constants */
} vt_export_size;

/* Writes the file, whole or not at all, and sets *size. VT_E_RANGE: the model is larger than ONNX allows; VT_E_USAGE:
 * its architecture has no export. */
vt_status vt_model_export(const vt_model *m, vt_normalise how, const char *path, vt_export_size *size, vt_err *e);
/* Writes the file to a stream, whose own errors are the caller's to look for; fails as vt_model_export. */
vt_status vt_model_export_stream(const vt_model *m, vt_normalise how, FILE *to, vt_err *e);
/* The model as a network of single operators that takes pixels in [0,1], for bounds (certify/relax.h): an ONNX file
 * read again, or a native network by its graph in memory. m outlives it. */
vt_status vt_model_network(vt_network **out, const vt_model *m, vt_err *e);
/* Mean and standard deviation of the input's channels in their order (a model of BGR images reverses them itself). */
void vt_export_statistics(const vt_config *c, double mean[3], double std[3]);

/* ---- for architectures ---- */

typedef struct vt_export {
    vt_put *p;
    const vt_model *m;
    const vt_config *c;
    const vt_param *param[VT_MAX_SLOTS]; /* of the bound layer, by slot; NULL: the configuration has none */
    vt_attn_spec attn;
} vt_export;

/* What an architecture's file put_X.c defines: pixels, normalised, [N, 3, image, image] -> logits. */
typedef struct vt_export_arch {
    const char *name, *also; /* the architecture's, and another one's that is a form of it, or NULL */
    int (*put)(vt_export *x, int pixels);
} vt_export_arch;

/* Binds the tensors of a layer (x->param; the ones before go); names of values begin with `scope` from here on. */
void vt_export_bind(vt_export *x, int layer, const char *scope);
/* Returns the bound tensor in a slot, which must have one, with these sides (NULL: its own). Like all functions here,
 * -1 once memory ran out. */
int vt_export_tensor(vt_export *x, int slot, const vt_dims *dims);
/* Returns the transpose of the bound tensor in a slot, for a matrix or a kernel of one pixel. */
int vt_export_transposed(vt_export *x, int slot);
/* Returns v W^T + b of the tensors in `slot` and after it; an empty slot is the identity. */
int vt_export_linear(vt_export *x, int v, int slot);
/* Returns v normalised by the tensors in `slot`, of c channels: along the last side, or along side 1 of a map;
 * VT_NORM_NONE: v. */
int vt_export_norm(vt_export *x, int v, int slot, vt_norm_kind kind, double eps, int c, bool map);
int vt_export_act(vt_export *x, int v, vt_act act);
/* Returns a convolution of v with padding `pad` and the kernel in `slot`, its bias, if any, in the next. */
int vt_export_conv(vt_export *x, int v, int slot, int kernel, int stride, int pad, int groups);
/* Returns v times the factor in `slot`, of sides dims, or v without one. */
int vt_export_scale(vt_export *x, int v, int slot, const vt_dims *dims);
/* A grid of side `in` resampled to `out` (nn/interpolate.h): of maps [N, C, in, in], or of rows [1, in^2, d]. */
typedef struct vt_export_grid {
    vt_interp_kind kind;
    bool antialias;
    int in, out;
    double offset;
} vt_export_grid;
int vt_export_resample_map(vt_export *x, int v, const vt_export_grid *g);
int vt_export_resample_rows(vt_export *x, int v, int d, const vt_export_grid *g);
/* Returns a map [N, C, s, s] as tokens [N, T, C]; vt_export_map goes back. */
int vt_export_tokens(vt_export *x, int v, int c, int tokens);
int vt_export_map(vt_export *x, int v, int c, int side);
/* Returns a stem's last map: its convolutions, each with normalisation and, in the first s->acts, activation. */
int vt_export_stem(vt_export *x, int v, const vt_stem *s);
/* Returns patches of normalised pixels, embedded: [N, T, D]; `after`: the norm behind the embedding. Binds layer 0. */
int vt_export_rows(vt_export *x, int pixels, vt_norm_kind after);

/* ---- blocks ---- */

/* Multi-head attention. Tokens are [N, T, D], or [N, windows, T, D]. */
typedef struct vt_export_attention {
    int heads, width; /* of all heads together */
    double scale;
    bool windows;
    int bias, mask;      /* values added to the scores; -1: none */
    int pos, gate;       /* of ConViT: [heads, T, T] and [heads, 1, 1]; -1: none */
    int qk_slot, v_slot; /* tensors of q and k, of v, where they are two; v_slot 0: qk_slot has all */
} vt_export_attention;

/* Returns what a configuration gives all blocks of a ViT. */
vt_export_attention vt_export_attention_of(const vt_config *c);
/* Returns the mixed values of v, before the output projection. */
int vt_export_attend(vt_export *x, int v, const vt_export_attention *a);
/* Returns mixed values [..., heads, T, d] of q, k, v [..., heads, T, d]. */
int vt_export_mix(vt_export *x, int q, int k, int v, const vt_export_attention *a);
/* Returns v [..., T, parts heads d] as [parts, ..., heads, T, d]; vt_export_part: part k of that. */
int vt_export_split_heads(vt_export *x, int v, int parts, const vt_export_attention *a);
int vt_export_part(vt_export *x, int v, int k);
/* Returns the values of the full form: q (W_Q W_V^T scale), of transposed weights wq, wv [D, width]. */
int vt_export_full_values(vt_export *x, int q, int wq, int wv, const vt_export_attention *a);
/* Returns v [..., heads, T, d] as [..., T, heads d]. */
int vt_export_join_heads(vt_export *x, int v, const vt_export_attention *a);
/* Returns res + f v with the factor in slot `factor`; without one, res + v. */
int vt_export_branch(vt_export *x, int res, int v, int factor);
/* Returns fc2(act(fc1 v)) of the bound block. */
int vt_export_mlp(vt_export *x, int v);
/* Returns what the bound block of width d makes of v; mix(x, v, with): its token mixer. Names what its halves give:
 * attention, output. */
int vt_export_block(vt_export *x, int v, int d, int (*mix)(vt_export *x, int v, const void *with), const void *with);

/* ---- the end ---- */

/* Returns logits of tokens [N, t, d] and early [N, E, d], class tokens of earlier blocks (-1: none). Binds `layer`. */
int vt_export_readout(vt_export *x, int tokens, int early, int layer, int t, int d);
