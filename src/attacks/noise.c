/* SPDX-License-Identifier: MIT */
#include "attacks/noise.h"

#include <math.h>

void vt_noise_draw(const vt_task *t, const vt_rng *r, double eps, float *u) {
    double f = eps;
    if (t->ball->norm == VT_LINF) {
        vt_rng_uniforms(r, u, t->n);
        for (size_t i = 0; i < t->n; i++) u[i] = 2 * u[i] - 1;
    } else {
        vt_rng_normals(r, u, t->n);
        double length = vt_length(t->ball->norm, u, t->n);
        f = length > 0 ? eps * (double)vt_rng_uniform(r, (uint64_t)t->n * 2) / length : 0;
    }
    for (size_t i = 0; i < t->n; i++) u[i] = (float)(f * (double)u[i]);
}

const float *vt_noise_beside(const vt_task *t, const float *u, float sign, float *y) {
    for (size_t i = 0; i < t->n; i++) y[i] = fminf(fmaxf(t->x_adv[i] + sign * u[i], 0), 1);
    return y;
}
