/* SPDX-License-Identifier: MIT */
#include "train/drop_path.h"

#include <string.h>
#include "core/rand.h"
#include "models/net/session.h"
#include "models/roles.h"

size_t vt_drop_path_len(const vt_model *m, int images) {
    return (size_t)m->params.layers * VT_BRANCHES * (size_t)images;
}

void vt_drop_path_draw(float *drop, const vt_model *m, double rate, int image, int images, uint64_t seed, int64_t id,
                       int64_t step, int view) {
    const bool xcit = !strcmp(m->config.arch, "xcit");
    const int blocks = xcit ? m->config.depth : vt_model_blocks(m);
    const vt_rng r = {.seed = seed,
                      .purpose = vt_rng_purpose("drop path") + (uint32_t)view,
                      .image = (uint32_t)id,
                      .run = (uint32_t)((uint64_t)step >> 32),
                      .step = (uint32_t)step};
    for (int i = 0; i < m->params.layers * VT_BRANCHES; i++) drop[i * images + image] = 1;
    for (int b = 0; b < blocks; b++) {
        vt_matrix q;
        if (!vt_model_matrix(m, b, VT_ROLE_Q, &q)) continue;
        int layer = vt_model_param_at(m, q.offset)->layer;
        double p = xcit ? rate : blocks > 1 ? rate * b / (blocks - 1) : 0;
        for (int k = 0; k < VT_BRANCHES; k++) {
            bool stays = (double)vt_rng_uniform(&r, (uint64_t)(b * VT_BRANCHES + k)) >= p;
            drop[(layer * VT_BRANCHES + k) * images + image] = stays ? (float)(1 / (1 - p)) : 0;
        }
    }
}
