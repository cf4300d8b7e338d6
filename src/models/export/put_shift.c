/* SPDX-License-Identifier: MIT */
/* A shift network as an ONNX graph: what models/net/net_shift.c computes. A shift is one Gather of a token's numbers
 * and fold a PRelu with slopes 1 and -1, so that bounds see a permutation and a function that keeps distances. */
#define VT_DOUBLE
#include "base/real.h"
#include "models/export/export.h"

#include <stdio.h>
#include <stdlib.h>
#include "base/mem.h"
#include "models/shift.h"

/* Returns [T * D]: which of an image's numbers comes to each place in a shift; -1: no memory. */
static int put_places(vt_export *x) {
    const int tokens = vt_rows_count(x->c), d = x->c->dim;
    int64_t *from = vt_alloc((size_t)tokens * (size_t)d * sizeof *from);
    for (int k = 0; from && k < VT_SHIFTS; k++)
        for (int t = 0; t < tokens; t++)
            for (int j = vt_shift_channel(x->c, k); j < vt_shift_channel(x->c, k + 1); j++)
                from[t * d + j] = vt_shift_from(x->c, t, k) * d + j;
    const int v = from ? vt_put_integer_table(x->p, VT_DIMS(tokens * d), from) : vt_put_failed(x->p);
    free(from);
    return v;
}

/* Returns fold's slopes below 0, [D]; -1: no memory. */
static int put_slopes(vt_export *x) {
    double *slope = vt_alloc((size_t)x->c->dim * sizeof *slope);
    for (int j = 0; slope && j < x->c->dim; j++) slope[j] = j % 2 ? -1 : 1;
    const int v = slope ? vt_put_reals(x->p, VT_DIMS(x->c->dim), slope) : vt_put_failed(x->p);
    free(slope);
    return v;
}

static int put(vt_export *x, int pixels) {
    const vt_config *c = x->c;
    const int tokens = vt_rows_count(c), d = c->dim;
    int v = vt_export_rows(x, pixels, VT_NORM_NONE);
    v = vt_put_binary(x->p, "Add", v, vt_export_tensor(x, VT_VIT_POS, NULL));
    vt_put_name(x->p, v, "output");
    const int places = put_places(x), slopes = put_slopes(x);
    char scope[48];
    for (int i = 0; i < c->depth; i++) {
        snprintf(scope, sizeof scope, "blocks.%d.", i);
        vt_export_bind(x, 1 + i, scope);
        v = vt_put_along(x->p, "Gather", vt_put_reshape(x->p, v, VT_DIMS(0, tokens * d)), places, 1);
        v = vt_export_linear(x, vt_put_reshape(x->p, v, VT_DIMS(0, tokens, d)), VT_SHIFT_W);
        v = vt_put_binary(x->p, "PRelu", v, slopes);
        vt_put_name(x->p, v, "output");
    }
    return vt_export_readout(x, v, -1, 1 + c->depth, tokens, d);
}

extern const vt_export_arch vt_export_arch_shift;
const vt_export_arch vt_export_arch_shift = {.name = "shift", .put = put};
