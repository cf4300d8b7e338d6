/* SPDX-License-Identifier: MIT */
#include "models/net/sincos.h"

#include <math.h>

/* A quarter of the channels each: sin or cos of x or y times 10000^(-k / last). Source: vit-pytorch's and big_vision's
 * posemb_sincos_2d (Beyer et al. 2022); MAE's get_2d_sincos_pos_embed, whose first half is of the column; MoCo v3's,
 * whose first half is of the row; timm's build_sincos2d_pos_embed, sines before cosines. Those whose classes store them
 * need no form: the file has them as pos_embed. */
static const struct {
    bool whole; /* the slowest wave is 10000^-1 itself: last = dim/4 - 1, not dim/4 */
    struct {
        bool y, cosine;
    } quarter[4];
} kinds[] = {
    [VT_POSITIONS_SINCOS] = {true, {{false, false}, {false, true}, {true, false}, {true, true}}},
    [VT_POSITIONS_SINCOS_MAE] = {false, {{false, false}, {false, true}, {true, false}, {true, true}}},
    [VT_POSITIONS_SINCOS_MOCO] = {false, {{true, false}, {true, true}, {false, false}, {false, true}}},
    [VT_POSITIONS_SINCOS_TIMM] = {false, {{true, false}, {false, false}, {true, true}, {false, true}}},
};

void VT_R(vt_sincos)(real *out, vt_positions_kind kind, int side, int dim) {
    const int n = dim / 4;
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++)
            for (int q = 0; q < 4; q++)
                for (int k = 0; k < n; k++) {
                    double wave = pow(10000, -(double)k / (kinds[kind].whole ? n - 1 : n));
                    double at = (kinds[kind].quarter[q].y ? y : x) * wave;
                    *out++ = (real)(kinds[kind].quarter[q].cosine ? cos(at) : sin(at));
                }
}
