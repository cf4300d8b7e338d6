/* SPDX-License-Identifier: MIT */
#include "research/analysis/jacobian.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "linalg/gemm.h"
#include "base/mem.h"
#include "models/net/session64.h"

enum { MOST_CLASSES = 256, MOST_ROWS = 64 << 20 };

/* Returns the bytes of the dense rows [classes, pixels] in double. */
static size_t row_bytes(const vt_model *m) {
    return (size_t)m->config.classes * vt_config_input_pixels(&m->config) * sizeof(double);
}

bool vt_jacobian_dense(const vt_model *m) {
    return m->config.classes <= MOST_CLASSES && row_bytes(m) <= (size_t)MOST_ROWS;
}

size_t vt_jacobian_bytes(const vt_model *m) {
    size_t n = vt_config_input_pixels(&m->config), k = (size_t)m->config.classes;
    return (2 * n + 2 * k) * sizeof(double) + (vt_jacobian_dense(m) ? row_bytes(m) : 0);
}

vt_status vt_jacobian_open(vt_jacobian *j, struct vt_session_f64 *s, const vt_model *m, bool dense, vt_err *e) {
    *j = (vt_jacobian){.session = s,
                       .pixels = vt_config_input_pixels(&m->config),
                       .classes = m->config.classes,
                       .dense = dense};
    size_t k = (size_t)j->classes;
    j->x = vt_alloc(2 * j->pixels * sizeof *j->x), j->z = vt_alloc(2 * k * sizeof *j->z);
    j->rows = dense ? vt_alloc(row_bytes(m)) : NULL;
    if (!j->x || !j->z || (dense && !j->rows)) {
        vt_jacobian_close(j);
        return vt_fail(e, VT_E_MEMORY, "no memory for a Jacobian of %d logits and %zu pixels", m->config.classes,
                       vt_config_input_pixels(&m->config));
    }
    j->v = j->x + j->pixels, j->dz = j->z + k;
    return VT_OK;
}

void vt_jacobian_close(vt_jacobian *j) {
    free(j->x), free(j->z), free(j->rows);
    *j = (vt_jacobian){0};
}

void vt_jacobian_at(vt_jacobian *j, const double *x) {
    size_t k = (size_t)j->classes;
    memcpy(j->x, x, j->pixels * sizeof *x);
    memcpy(j->z, vt_session_forward_f64(j->session, j->x, 1, true), k * sizeof *j->z);
    for (size_t i = 0; j->dense && i < k; i++) {
        memset(j->dz, 0, k * sizeof *j->dz);
        j->dz[i] = 1;
        vt_session_backward_f64(j->session, j->dz, j->rows + i * j->pixels, NULL);
    }
}

/* y [classes] = (f(x + h v/|v|) - f(x - h v/|v|)) |v| / 2h = J v, to O(h^2) and 2^-53 |f| / h. */
static void central_difference(vt_jacobian *j, double *y, const double *v) {
    const double length = vt_length64(v, j->pixels), h = length > 0 ? 0x1p-14 / length : 0;
    for (int side = 1; side >= -1; side -= 2) {
        for (size_t i = 0; i < j->pixels; i++) j->v[i] = j->x[i] + side * h * v[i];
        const double *z = vt_session_forward_f64(j->session, j->v, 1, false);
        for (int k = 0; k < j->classes; k++) y[k] = side > 0 ? z[k] : h > 0 ? (y[k] - z[k]) / (2 * h) : 0;
    }
}

/* y [classes] = J v, v [pixels], from the rows or by a central difference. */
static void jacobian_product(void *self, double *y, const double *v) {
    vt_jacobian *j = self;
    if (!j->dense) {
        central_difference(j, y, v);
        return;
    }
    for (int k = 0; k < j->classes; k++) y[k] = vt_dot64(j->rows + (size_t)k * j->pixels, v, j->pixels);
}

/* x [pixels] = J^T u, u [classes], from the rows or by a forward and a backward pass. */
static void transposed_product(void *self, double *x, const double *u) {
    vt_jacobian *j = self;
    if (j->dense) {
        memset(x, 0, j->pixels * sizeof *x);
        for (int k = 0; k < j->classes; k++) {
            const double *row = j->rows + (size_t)k * j->pixels;
            for (size_t i = 0; i < j->pixels; i++) x[i] += u[k] * row[i];
        }
        return;
    }
    vt_session_forward_f64(j->session, j->x, 1, true); /* a difference has been elsewhere since */
    vt_session_backward_f64(j->session, u, x, NULL);
}

vt_operator vt_jacobian_operator(vt_jacobian *j) {
    return (vt_operator){.n = j->pixels,
                         .m = (size_t)j->classes,
                         .apply = jacobian_product,
                         .transposed = transposed_product,
                         .ctx = j};
}

double vt_jacobian_ratio(vt_jacobian *j, const double *to, double t) {
    double length = 0, moved = 0;
    for (size_t i = 0; i < j->pixels; i++) {
        double d = t * (to[i] - j->x[i]);
        j->v[i] = j->x[i] + d, length += d * d;
    }
    const double *z = vt_session_forward_f64(j->session, j->v, 1, false);
    for (int k = 0; k < j->classes; k++) moved += (z[k] - j->z[k]) * (z[k] - j->z[k]);
    return length > 0 ? sqrt(moved / length) : 0;
}
