/* SPDX-License-Identifier: MIT */
#include "attacks/ball.h"

#include <math.h>
#include <string.h>
#include <strings.h>
#include "attacks/l1.h"

static const struct {
    const char *name;
    vt_norm dual;
} norms[VT_NORM_COUNT] =
    {[VT_LINF] = {"linf", VT_L1}, [VT_L2] = {"l2", VT_L2}, [VT_L1] = {"l1", VT_LINF}, [VT_L0] = {"l0", VT_L0}};

const char *vt_norm_name(vt_norm n) { return norms[n].name; }
vt_norm vt_norm_dual(vt_norm n) { return norms[n].dual; }

bool vt_norm_find(const char *name, vt_norm *out) {
    for (int n = 0; n < VT_NORM_COUNT; n++)
        if (!strcasecmp(norms[n].name, name)) {
            *out = (vt_norm)n;
            return true;
        }
    return false;
}

/* The float nearest below (above) the real bound, so that the stored value satisfies it in double. */
static float upper_bound(double x, double eps) {
    float h = (float)(x + eps);
    while ((double)h - x > eps) h = nextafterf(h, -INFINITY);
    return h > 1 ? 1 : h;
}

static float lower_bound(double x, double eps) {
    float l = (float)(x - eps);
    while (x - (double)l > eps) l = nextafterf(l, INFINITY);
    return l < 0 ? 0 : l;
}

void vt_ball_init(vt_ball *b, vt_norm norm, double eps, const float *x, size_t n, float *lo, float *hi) {
    *b = (vt_ball){.norm = norm, .eps = eps, .n = n, .x = x, .lo = lo, .hi = hi};
    for (size_t i = 0; i < n; i++) {
        lo[i] = norm == VT_LINF ? lower_bound((double)x[i], eps) : 0;
        hi[i] = norm == VT_LINF ? upper_bound((double)x[i], eps) : 1;
    }
}

/* Returns the norm's running sum after one more entry of length d. */
static inline double add_to_norm(vt_norm norm, double sum, double d) {
    if (norm == VT_L2) return sum + d * d;
    if (norm == VT_L1) return sum + fabs(d);
    if (norm == VT_L0) return sum + (d != 0);
    return fabs(d) > sum || isnan(d) ? fabs(d) : sum; /* NaN stays */
}

double vt_distance(vt_norm norm, const float *a, const float *b, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++) s = add_to_norm(norm, s, (double)a[i] - (double)b[i]);
    return norm == VT_L2 ? sqrt(s) : s;
}

double vt_length(vt_norm norm, const float *v, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++) s = add_to_norm(norm, s, (double)v[i]);
    return norm == VT_L2 ? sqrt(s) : s;
}

bool vt_ball_contains(const vt_ball *b, const float *x) {
    for (size_t i = 0; i < b->n; i++)
        if (!(x[i] >= b->lo[i] && x[i] <= b->hi[i])) return false;
    return b->norm == VT_LINF || vt_distance(b->norm, x, b->x, b->n) <= b->eps;
}

static void clamp_to_box(const vt_ball *b, float *x) {
    for (size_t i = 0; i < b->n; i++) {
        float v = x[i] > b->lo[i] ? x[i] : b->lo[i]; /* NaN goes to lo */
        x[i] = v < b->hi[i] ? v : b->hi[i];
    }
}

static void scale_to(const vt_ball *b, float *x, double factor) {
    for (size_t i = 0; i < b->n; i++) x[i] = (float)((double)b->x[i] + factor * ((double)x[i] - (double)b->x[i]));
}

static void project_l2(const vt_ball *b, float *x) {
    double d = vt_distance(VT_L2, x, b->x, b->n);
    if (d > b->eps) scale_to(b, x, b->eps / d);
    clamp_to_box(b, x);
    /* Rounding to float32 moves each element by up to 2^-25: shrink by that share until the double norm is inside. */
    for (double shrink = 1e-8; vt_distance(VT_L2, x, b->x, b->n) > b->eps; shrink *= 2) {
        double over = vt_distance(VT_L2, x, b->x, b->n);
        scale_to(b, x, shrink < 1 ? b->eps / over * (1 - shrink) : 0);
    }
}

/* Returns how many values differ from the centre by more than `size`. */
static size_t count_beyond(const vt_ball *b, const float *x, double size) {
    size_t n = 0;
    for (size_t i = 0; i < b->n; i++) n += fabs((double)x[i] - (double)b->x[i]) > size;
    return n;
}

static void project_l0(const vt_ball *b, float *x) {
    size_t most = b->eps >= (double)b->n ? b->n : (size_t)b->eps;
    double low = -1, high = 0;
    clamp_to_box(b, x);
    for (size_t i = 0; i < b->n; i++) high = fmax(high, fabs((double)x[i] - (double)b->x[i]));
    while (count_beyond(b, x, low) > most) { /* the least size beyond which no more than `most` lie */
        double middle = (low + high) / 2;
        if (!(middle > low && middle < high)) break;
        if (count_beyond(b, x, middle) > most)
            low = middle;
        else
            high = middle;
    }
    bool few = count_beyond(b, x, low) <= most;
    size_t kept = few ? 0 : count_beyond(b, x, high), ties = most > kept ? most - kept : 0;
    for (size_t i = 0; i < b->n && !few; i++) {
        double d = fabs((double)x[i] - (double)b->x[i]);
        if (d > high) continue;
        if (d > low && ties)
            ties--;
        else
            x[i] = b->x[i];
    }
}

void vt_ball_project(const vt_ball *b, float *x) {
    if (b->norm == VT_LINF)
        clamp_to_box(b, x);
    else if (b->norm == VT_L2)
        project_l2(b, x);
    else if (b->norm == VT_L0)
        project_l0(b, x);
    else
        vt_l1_project(x, b->x, b->n, b->eps);
}

void vt_ball_move(const vt_ball *b, float *x, const float *step) {
    for (size_t i = 0; i < b->n; i++) x[i] += step[i];
    vt_ball_project(b, x);
}

/* t [n]: uniform in [-1,1] in linf, else normal. */
static void draw_noise(const vt_ball *b, const vt_rng *r, float *t) {
    if (b->norm != VT_LINF) {
        vt_rng_normals(r, t, b->n);
        return;
    }
    vt_rng_uniforms(r, t, b->n);
    for (size_t i = 0; i < b->n; i++) t[i] = 2 * t[i] - 1;
}

/* out = project(x + f out). */
static void project_offset(const vt_ball *b, float *out, double f) {
    for (size_t i = 0; i < b->n; i++) out[i] = (float)((double)b->x[i] + f * (double)out[i]);
    vt_ball_project(b, out);
}

/* Draws a point uniformly in the box lo to hi. */
static void start_in_box(const vt_ball *b, const vt_rng *r, float *out) {
    vt_rng_uniforms(r, out, b->n);
    for (size_t i = 0; i < b->n; i++) out[i] = b->lo[i] + out[i] * (b->hi[i] - b->lo[i]);
    clamp_to_box(b, out);
}

void vt_ball_start_surface(const vt_ball *b, const vt_rng *r, float *out) {
    if (b->squares) {
        start_in_box(b, r, out);
        return;
    }
    draw_noise(b, r, out);
    project_offset(b, out, b->eps / (vt_length(b->norm, out, b->n) + 1e-12));
}

void vt_ball_start_projected(const vt_ball *b, const vt_rng *r, float *out) {
    vt_rng_normals(r, out, b->n);
    project_offset(b, out, 1);
}

void vt_ball_start_inside(const vt_ball *b, const vt_rng *r, float *out) {
    if (b->squares) {
        start_in_box(b, r, out);
        return;
    }
    double f = b->eps;
    draw_noise(b, r, out);
    if (b->norm != VT_LINF)
        f *= (double)vt_rng_uniform(r, (uint64_t)b->n * 2) / (vt_length(b->norm, out, b->n) + 1e-12);
    project_offset(b, out, f);
}

void vt_ball_step(const vt_ball *b, float *out, const float *g, double step) {
    if (b->norm == VT_L1) {
        vt_l1_sparse_step(out, g, b->n, b->n < 100 ? 1 : b->n / 100, step);
        return;
    }
    float s = (float)step;
    if (b->norm == VT_LINF)
        for (size_t i = 0; i < b->n; i++) out[i] = g[i] > 0 ? s : g[i] < 0 ? -s : 0;
    else {
        double length = vt_length(VT_L2, g, b->n) + b->floor, f = length > 0 ? step / length : 0;
        for (size_t i = 0; i < b->n; i++) out[i] = (float)((double)g[i] * f);
    }
}
