/* SPDX-License-Identifier: MIT */
/* Pairs of numbers of each head turned by the angles of their positions, given as cosines and sines. */
#include "graph/op.h"

/* Sets *y to input k, a cache [positions, pairs] at the positions of input 3, or [N, positions, pairs] without it, as
 * [N, positions, 1, pairs]. x: sides of what is turned. */
static vt_status take_cache(vt_import *im, int k, const vt_dims *x, int64_t pairs, int *y, vt_err *e) {
    int v, at = vt_input(im, 3);
    size_t slice;
    int32_t *map;
    VT_TRY(vt_real_input(im, k, &v, e));
    const vt_dims to = {4, {x->d[0], x->d[1], 1, pairs}};
    *y = v;
    if (at >= 0) {
        const vt_value places = *vt_import_value(im, at);
        VT_TRY(vt_constant_input(im, 3, &at, e));
        VT_TRY(vt_emit_reshape(im, at, &(vt_dims){2, {(int64_t)places.n, 1}}, &at, e));
        VT_TRY(vt_import_place_map(im, v, at, 0, &map, &slice, e));
        VT_TRY(vt_emit_map(im, v, &(vt_dims){2, {(int64_t)places.n, (int64_t)slice}}, map, 0, y, e));
    }
    return vt_emit_reshape(im, *y, &to, y, e);
}

/* Sets *y to x [N, positions, heads, 2 pairs] turned; interleaved: pairs are neighbours, else halves. */
static vt_status turn_pairs(vt_import *im, int x, bool interleaved, int *y, vt_err *e) {
    const vt_dims d = vt_import_value(im, x)->dims;
    const int64_t pairs = d.d[3] / 2;
    int half[2], cache[2], part[2], other;
    for (int k = 0; k < 2; k++) {
        VT_TRY(vt_emit_slice(im, x, 3, interleaved ? k : k * pairs, pairs, interleaved ? 2 : 1, &half[k], e));
        VT_TRY(take_cache(im, 1 + k, &d, pairs, &cache[k], e));
    }
    for (int k = 0; k < 2; k++) {
        VT_TRY(vt_emit_binary(im, "Mul", cache[k], half[0], &part[k], e));
        VT_TRY(vt_emit_binary(im, "Mul", cache[1 - k], half[1], &other, e));
        VT_TRY(vt_emit_binary(im, k ? "Add" : "Sub", part[k], other, &part[k], e));
    }
    if (!interleaved) return vt_emit_concat(im, part, 2, 3, y, e);
    const vt_dims each = {5, {d.d[0], d.d[1], d.d[2], pairs, 1}};
    for (int k = 0; k < 2; k++) VT_TRY(vt_emit_reshape(im, part[k], &each, &part[k], e));
    VT_TRY(vt_emit_concat(im, part, 2, 4, y, e));
    return vt_emit_reshape(im, *y, &d, y, e);
}

static vt_status import(vt_import *im, vt_err *e) {
    const int64_t heads = vt_attr_int(im, "num_heads", 0);
    int64_t turned = vt_attr_int(im, "rotary_embedding_dim", 0);
    int x, y, parts[2];
    VT_TRY(vt_input_count(im, 3, 4, e));
    VT_TRY(vt_real_input(im, 0, &x, e));
    const vt_dims d = vt_import_value(im, x)->dims;
    if (d.rank == 4) VT_TRY(vt_emit_transpose(im, x, (const int[]){0, 2, 1, 3}, &x, e));
    if (d.rank == 3 && heads > 0 && d.d[2] % heads == 0)
        VT_TRY(vt_emit_reshape(im, x, &(vt_dims){4, {d.d[0], d.d[1], heads, d.d[2] / heads}}, &x, e));
    const vt_dims s = vt_import_value(im, x)->dims;
    if (s.rank != 4) return vt_import_fail(im, e, "has an input of %d sides and %lld heads", d.rank, (long long)heads);
    if (!turned) turned = s.d[3];
    if (turned < 2 || turned % 2 || turned > s.d[3])
        return vt_import_fail(im, e, "turns %lld of %lld numbers", (long long)turned, (long long)s.d[3]);
    VT_TRY(vt_emit_slice(im, x, 3, 0, turned, 1, &parts[0], e));
    VT_TRY(turn_pairs(im, parts[0], vt_attr_int(im, "interleaved", 0) != 0, &parts[0], e));
    if (turned < s.d[3]) VT_TRY(vt_emit_slice(im, x, 3, turned, s.d[3] - turned, 1, &parts[1], e));
    VT_TRY(vt_emit_concat(im, parts, turned < s.d[3] ? 2 : 1, 3, &y, e));
    if (d.rank == 4) VT_TRY(vt_emit_transpose(im, y, (const int[]){0, 2, 1, 3}, &y, e));
    VT_TRY(vt_emit_reshape(im, y, &d, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(rotaryembedding, "RotaryEmbedding", import, .summary = "constant positions", .since = 23)
