#include "attacks/ball.h"

#include <math.h>

const char *vt_norm_name(vt_norm n) { return n == VT_LINF ? "linf" : "l2"; }

/* The float nearest below (above) the real bound, so that the stored value satisfies it in double. */
static float upper(double x, double eps) {
    float h = (float)(x + eps);
    while ((double)h - x > eps) h = nextafterf(h, -INFINITY);
    return h > 1 ? 1 : h;
}

static float lower(double x, double eps) {
    float l = (float)(x - eps);
    while (x - (double)l > eps) l = nextafterf(l, INFINITY);
    return l < 0 ? 0 : l;
}

void vt_ball_init(vt_ball *b, vt_norm norm, double eps, const float *x, size_t n, float *lo, float *hi) {
    *b = (vt_ball){.norm = norm, .eps = eps, .n = n, .x = x, .lo = lo, .hi = hi};
    for (size_t i = 0; i < n; i++) {
        lo[i] = norm == VT_LINF ? lower((double)x[i], eps) : 0;
        hi[i] = norm == VT_LINF ? upper((double)x[i], eps) : 1;
    }
}

double vt_distance(vt_norm norm, const float *a, const float *b, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)a[i] - (double)b[i];
        if (norm == VT_L2)
            s += d * d;
        else if (!(fabs(d) <= s))
            s = fabs(d); /* NaN stays */
    }
    return norm == VT_L2 ? sqrt(s) : s;
}

double vt_length(vt_norm norm, const float *v, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)v[i];
        if (norm == VT_L2)
            s += d * d;
        else if (!(fabs(d) <= s))
            s = fabs(d);
    }
    return norm == VT_L2 ? sqrt(s) : s;
}

bool vt_ball_contains(const vt_ball *b, const float *x) {
    for (size_t i = 0; i < b->n; i++)
        if (!(x[i] >= b->lo[i] && x[i] <= b->hi[i])) return false;
    return b->norm == VT_LINF || vt_distance(VT_L2, x, b->x, b->n) <= b->eps;
}

static void clamp(const vt_ball *b, float *x) {
    for (size_t i = 0; i < b->n; i++) {
        float v = x[i] > b->lo[i] ? x[i] : b->lo[i]; /* NaN goes to lo */
        x[i] = v < b->hi[i] ? v : b->hi[i];
    }
}

static void scale_to(const vt_ball *b, float *x, double factor) {
    for (size_t i = 0; i < b->n; i++) x[i] = (float)((double)b->x[i] + factor * ((double)x[i] - (double)b->x[i]));
}

void vt_ball_project(const vt_ball *b, float *x) {
    if (b->norm == VT_LINF) {
        clamp(b, x);
        return;
    }
    double d = vt_distance(VT_L2, x, b->x, b->n);
    if (d > b->eps) scale_to(b, x, b->eps / d);
    clamp(b, x);
    /* Rounding to float32 moves each element by up to 2^-25: shrink by that share until the double norm is inside. */
    for (double shrink = 1e-8; vt_distance(VT_L2, x, b->x, b->n) > b->eps; shrink *= 2) {
        double over = vt_distance(VT_L2, x, b->x, b->n);
        scale_to(b, x, shrink < 1 ? b->eps / over * (1 - shrink) : 0);
    }
}

/* Of a box that is wider than the image is far from its border: uniform in it. */
static void start_in_box(const vt_ball *b, const vt_rng *r, float *out) {
    vt_rng_uniforms(r, out, b->n);
    for (size_t i = 0; i < b->n; i++) out[i] = b->lo[i] + out[i] * (b->hi[i] - b->lo[i]);
    clamp(b, out);
}

void vt_ball_start_surface(const vt_ball *b, const vt_rng *r, float *out) {
    if (b->squares) return start_in_box(b, r, out);
    if (b->norm == VT_LINF) {
        vt_rng_uniforms(r, out, b->n);
        for (size_t i = 0; i < b->n; i++) out[i] = 2 * out[i] - 1;
    } else {
        vt_rng_normals(r, out, b->n);
    }
    double f = b->eps / (vt_length(b->norm, out, b->n) + 1e-12);
    for (size_t i = 0; i < b->n; i++) out[i] = (float)((double)b->x[i] + f * (double)out[i]);
    vt_ball_project(b, out);
}

void vt_ball_start_inside(const vt_ball *b, const vt_rng *r, float *out) {
    if (b->squares) return start_in_box(b, r, out);
    double f = b->eps;
    if (b->norm == VT_LINF) {
        vt_rng_uniforms(r, out, b->n);
        for (size_t i = 0; i < b->n; i++) out[i] = 2 * out[i] - 1;
    } else {
        vt_rng_normals(r, out, b->n);
        f *= (double)vt_rng_uniform(r, (uint64_t)b->n * 2) / (vt_length(VT_L2, out, b->n) + 1e-12);
    }
    for (size_t i = 0; i < b->n; i++) out[i] = (float)((double)b->x[i] + f * (double)out[i]);
    vt_ball_project(b, out);
}

void vt_ball_step(const vt_ball *b, float *out, const float *g, double step) {
    float s = (float)step;
    if (b->norm == VT_LINF)
        for (size_t i = 0; i < b->n; i++) out[i] = g[i] > 0 ? s : g[i] < 0 ? -s : 0;
    else {
        float f = (float)(step / (vt_length(VT_L2, g, b->n) + 1e-12));
        for (size_t i = 0; i < b->n; i++) out[i] = g[i] * f;
    }
}
