/* SPDX-License-Identifier: MIT */
/* x/2 (1 + erf(x / p)), p being about the root of 2: what the fusion makes of an exported GELU. The double copy reads p
 * as the file has it; the float copy takes the root of 2 and ignores p. */
#include "graph/elementwise.h"
#include "nn/vecmath.h"

#ifdef VT_DOUBLE
/* Returns the factor of v, (1 + erf(v / p)) / 2, and sets *density to its derivative. */
static inline double cdf_of(double v, double p, double *density) {
    *density = exp(-(v / p) * (v / p)) / (1.77245385090551602730 * p);
    return 0.5 * erfc(-v / p);
}
#else
static inline float cdf_of(float v, float p, float *density) {
    float e, cdf = vt_normcdff(v, &e);
    (void)p;
    *density = 0.39894228040143267794f * e;
    return cdf;
}
#endif

static inline real value_at(real v, real p) {
    real density;
    return v * cdf_of(v, p, &density);
}

/* Returns the derivative of value_at by v. */
static inline real slope_at(real v, real p) {
    real density, cdf = cdf_of(v, p, &density);
    return cdf + v * density;
}

VT_UNARY(gelufused, "(gelu)", NULL, VT_KEEP_X, value_at(v, p), slope_at(v, p))
