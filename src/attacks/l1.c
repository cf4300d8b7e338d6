/* SPDX-License-Identifier: MIT */
#include "attacks/l1.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* The length of the projection's move from the centre in one entry: |y - x| shortened by lambda, at most as long as
 * the box allows. */
static inline double shortened_move(float y, float x, double lambda) {
    double left = fabs((double)y - (double)x) - lambda, room = y > x ? 1 - (double)x : (double)x;
    left = left < room ? left : room;
    return left > 0 ? left : 0; /* NaN: 0 */
}

/* Sum of these lengths, and how many of them still shrink with lambda. */
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

/* The lambda at which the lengths sum to eps. The sum falls piecewise linearly: Newton's steps inside a bracket, which
 * is halved where they leave it and at every fourth step, so that it closes. */
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

/* The value that would stand at index k if v were sorted (Hoare's selection); reorders v, which holds no NaN. */
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
