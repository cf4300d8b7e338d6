/* SPDX-License-Identifier: MIT */
#include "attacks/ball.h"

#include <math.h>
#include <string.h>
#include <strings.h>

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

/* Returns the largest float h, at most 1, whose h - x is at most eps in double. */
static float upper_bound(double x, double eps) {
    float h = (float)(x + eps);
    while ((double)h - x > eps) h = nextafterf(h, -INFINITY);
    return h > 1 ? 1 : h;
}

/* Returns the smallest float l, at least 0, whose x - l is at most eps in double. */
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

void vt_ball_box(vt_ball *b, const float *x, size_t n, const float *lo, const float *hi) {
    *b = (vt_ball){.norm = VT_LINF, .n = n, .x = x, .lo = lo, .hi = hi, .box = true};
    for (size_t i = 0; i < n; i++)
        b->eps = fmax(b->eps, fmax((double)x[i] - (double)lo[i], (double)hi[i] - (double)x[i]));
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

/* Clamps x [n] to the ball's box lo to hi. */
static void clamp_to_box(const vt_ball *b, float *x) {
    for (size_t i = 0; i < b->n; i++) {
        float v = x[i] > b->lo[i] ? x[i] : b->lo[i]; /* NaN goes to lo */
        x[i] = v < b->hi[i] ? v : b->hi[i];
    }
}

/* Sets x [n] to centre + factor (x - centre). */
static void scale_to(const vt_ball *b, float *x, double factor) {
    for (size_t i = 0; i < b->n; i++) x[i] = (float)((double)b->x[i] + factor * ((double)x[i] - (double)b->x[i]));
}

/* Scales x [n] to length eps, clips it to the box, and shrinks it until the stored floats are inside. */
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

/* Keeps the eps values of x [n] that differ most from the centre (the first of equals), takes the others back. */
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

/* Draws t [n]: uniform in [-1,1] in linf, else normal. */
static void draw_noise(const vt_ball *b, const vt_rng *r, float *t) {
    if (b->norm != VT_LINF) {
        vt_rng_normals(r, t, b->n);
        return;
    }
    vt_rng_uniforms(r, t, b->n);
    for (size_t i = 0; i < b->n; i++) t[i] = 2 * t[i] - 1;
}

/* Sets out = project(x + f out). */
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
    if (b->box) {
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
    if (b->box) {
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

/* ---- l1 ---- */

/* Returns one entry's length of the projection's move from the centre: |y - x| - lambda, as the box allows. */
static inline double shortened_move(float y, float x, double lambda) {
    double left = fabs((double)y - (double)x) - lambda, room = y > x ? 1 - (double)x : (double)x;
    left = left < room ? left : room;
    return left > 0 ? left : 0; /* NaN: 0 */
}

/* Returns the sum of the moves' lengths over all entries; *shrinking: how many of them still shrink with lambda. */
static double sum_of_moves(const float *y, const float *x, size_t n, double lambda, double *shrinking) {
    double sum[4] = {0}, count[4] = {0};
    for (size_t i = 0; i < n; i++) {
        double room = y[i] > x[i] ? 1 - (double)x[i] : (double)x[i], v = shortened_move(y[i], x[i], lambda);
        sum[i % 4] += v;
        count[i % 4] += v > 0 && fabs((double)y[i] - (double)x[i]) - lambda <= room;
    }
    *shrinking = (count[0] + count[1]) + (count[2] + count[3]);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* Returns the lambda at which the lengths sum to eps. The sum falls piecewise linearly: Newton's steps inside a
 * bracket, which is halved where they leave it and at every fourth step, so that it closes. */
static double solve_for_lambda(const float *y, const float *x, size_t n, double eps) {
    double low = 0, high = 0, lambda = 0, shrinking;
    for (size_t i = 0; i < n; i++) high = fmax(high, fabs((double)y[i] - (double)x[i]));
    for (int k = 1; k <= 400; k++) {
        double sum = sum_of_moves(y, x, n, lambda, &shrinking);
        if (sum > eps)
            low = lambda;
        else
            high = lambda;
        double next = lambda + (sum - eps) / shrinking; /* none shrinks: infinite or NaN, outside the bracket */
        if (next == lambda) return lambda;
        if (k % 4 == 0 || !(next >= low && next <= high)) next = low + (high - low) / 2;
        if (next == lambda) return high;
        lambda = next;
    }
    return high;
}

/* Moves entries by one unit in the last place towards the centre until the sum is inside. */
static void shrink_by_ulps(float *x, const float *centre, size_t n, double eps) {
    double shrinking;
    for (int pass = 0; pass < 8; pass++) {
        double over = sum_of_moves(x, centre, n, 0, &shrinking) - eps;
        if (over <= 0) return;
        for (size_t i = 0; i < n && over > 0; i++) {
            float nearer = x[i] > 0 ? nextafterf(x[i], centre[i]) : 0; /* above 0 units are too small to help */
            over -= fabs((double)x[i] - (double)nearer);
            x[i] = nearer;
        }
    }
    if (!(sum_of_moves(x, centre, n, 0, &shrinking) <= eps)) memcpy(x, centre, n * sizeof *x); /* x was not finite */
}

void vt_l1_project(float *x, const float *centre, size_t n, double eps) {
    eps *= 1 - (double)n * 0x1p-52; /* this sum's error and another's */
    double shrinking, lambda = 0;
    bool inside = sum_of_moves(x, centre, n, 0, &shrinking) <= eps;
    if (!inside) lambda = solve_for_lambda(x, centre, n, eps);
    for (size_t i = 0; i < n; i++) {
        if (inside && x[i] >= 0 && x[i] <= 1) continue;
        double move = shortened_move(x[i], centre[i], lambda);
        x[i] = (float)((double)centre[i] + (x[i] > centre[i] ? move : -move));
    }
    shrink_by_ulps(x, centre, n, eps);
}

/* Returns the value that would stand at index k if v were sorted (Hoare's selection); reorders v. No NaN. */
static float select_value(float *v, size_t n, size_t k) {
    ptrdiff_t first = 0, last = (ptrdiff_t)n - 1, at = (ptrdiff_t)k;
    while (first < last) {
        float pivot = v[at];
        ptrdiff_t i = first, j = last;
        do {
            while (v[i] < pivot) i++;
            while (v[j] > pivot) j--;
            if (i > j) break;
            float t = v[i];
            v[i++] = v[j], v[j--] = t;
        } while (i <= j);
        if (j < at) first = i;
        if (i > at) last = j;
    }
    return v[at];
}

void vt_l1_sparse_step(float *out, const float *g, size_t n, size_t count, double step) {
    for (size_t i = 0; i < n; i++) {
        float a = fabsf(g[i]);
        out[i] = a >= 0 ? a : 0;
    }
    float least = select_value(out, n, n - count);
    size_t chosen = 0;
    for (size_t i = 0; i < n; i++) chosen += fabsf(g[i]) >= least && g[i] != 0;
    float s = (float)(step / ((double)chosen + 1e-10));
    for (size_t i = 0; i < n; i++) out[i] = !(fabsf(g[i]) >= least) ? 0 : g[i] > 0 ? s : g[i] < 0 ? -s : 0;
}

size_t vt_l1_moved(const float *a, const float *b, size_t n) {
    size_t k = 0;
    for (size_t i = 0; i < n; i++) k += fabsf(a[i] - b[i]) > 1e-6f;
    return k;
}

size_t vt_l1_two_thirds(size_t entries) { return entries < 2 ? 1 : 2 * entries / 3; }

void vt_l1_drop_blocked(float *g, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        if ((g[i] > 0 && x[i] >= 1) || (g[i] < 0 && x[i] <= 0)) g[i] = 0;
}
