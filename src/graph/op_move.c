/* SPDX-License-Identifier: MIT */
/* Each number of the result is one of x's, or a constant: what Transpose, Slice, Gather, Pad and the like become. */
#include <stdlib.h>
#include <string.h>
#include "graph/move.h"
#include "graph/op.h"

#ifndef VT_DOUBLE
void vt_move_runs(vt_move *m) {
    static const size_t runs[] = {4096, 1024, 256, 128, 64, 32, 16, 8, 4};
    m->run = 1;
    for (size_t k = 0; k < sizeof runs / sizeof *runs && m->run == 1; k++) {
        bool fits = m->n % runs[k] == 0 && m->n > 0;
        for (size_t i = 0; fits && i < m->n; i++) {
            const size_t first = i - i % runs[k];
            fits = m->map[i] == (m->map[first] < 0 ? -1 : m->map[first] + (int32_t)(i - first));
        }
        if (fits) m->run = runs[k];
    }
}

bool vt_move_look(vt_move *m, size_t n) {
    bool *seen = calloc(n + 1, sizeof *seen);
    if (!seen) return false;
    m->apart = m->n == n;
    for (size_t i = 0; m->apart && i < n; i++) {
        m->apart = m->map[i] >= 0 && !seen[m->map[i]];
        if (m->apart) seen[m->map[i]] = true;
    }
    free(seen);
    return true;
}
#endif

static void forward(const VT_R(vt_call) *c) {
    const vt_move *m = c->n->with;
    const real *x = c->x[0], fill = (real)m->fill;
    real *y = c->y;
    if (m->run == 1) {
        for (size_t i = 0; i < m->n; i++) y[i] = m->map[i] < 0 ? fill : x[m->map[i]];
        return;
    }
    for (size_t i = 0; i < m->n; i += m->run)
        if (m->map[i] < 0)
            for (size_t k = 0; k < m->run; k++) y[i + k] = fill;
        else
            memcpy(y + i, x + m->map[i], m->run * sizeof *y);
}

static void backward(const VT_R(vt_call) *c) {
    const vt_move *m = c->n->with;
    real *dx = c->dx[0];
    if (!dx) return;
    for (size_t i = 0; !c->add[0] && m->apart && i < m->n; i += m->run)
        if (m->run == 1)
            dx[m->map[i]] = c->dy[i];
        else
            memcpy(dx + m->map[i], c->dy + i, m->run * sizeof *dx);
    if (!c->add[0] && m->apart) return;
    if (!c->add[0]) memset(dx, 0, c->g->values[c->n->in[0]].n * sizeof *dx);
    for (size_t i = 0; i < m->n; i += m->run)
        for (size_t k = 0; m->map[i] >= 0 && k < m->run; k++) dx[(size_t)m->map[i] + k] += c->dy[i + k];
}

extern const VT_R(vt_op) VT_R(vt_op_move);
const VT_R(vt_op) VT_R(vt_op_move) = {.name = "(move)", .forward = forward, .backward = backward};
