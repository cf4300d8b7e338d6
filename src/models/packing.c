/* SPDX-License-Identifier: MIT */
#include "models/packing.h"

#include <stdlib.h>

/* w [n, k] is multiplied by from the right as w^T in forwards (its transposed copy, if there is one) and as it is in
 * backwards. */
static int list_all(vt_packed_from *list, const vt_model *m) {
    int count = 0;
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        if (p->t_offset == SIZE_MAX) continue;
        int n = (int)p->shape[0], k = (int)(p->numel / (size_t)n);
        const float *w = m->w + p->offset, *wt = m->wt ? m->wt + p->t_offset : NULL;
        list[count++] = (vt_packed_from){.b = wt ? wt : w, .k = k, .n = n, .ld = wt ? n : k, .transposed = !wt};
        list[count++] = (vt_packed_from){.b = w, .k = n, .n = k, .ld = k};
    }
    return count;
}

vt_status vt_model_pack(vt_packed **out, const vt_model *m, vt_err *e) {
    vt_packed_from *list = calloc(2 * (size_t)m->params.count, sizeof *list);
    *out = NULL;
    if (!list) return vt_fail(e, VT_E_MEMORY, "no memory for the weights in bfloat16");
    vt_status s = vt_packed_make(out, list, list_all(list, m), vt_model_tokens(m), e);
    free(list);
    return s;
}

size_t vt_model_packed_bytes(const vt_model *m) {
    vt_packed_from *list = vt_bf16_hardware() ? calloc(2 * (size_t)m->params.count, sizeof *list) : NULL;
    size_t bytes = list ? vt_packed_bytes(list, list_all(list, m), vt_model_tokens(m)) : 0;
    free(list);
    return bytes;
}
