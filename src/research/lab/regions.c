/* SPDX-License-Identifier: MIT */
#include "research/lab/regions.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

double vt_regions_lower(int n, int s) { return n < s ? -INFINITY : s * log10((double)(n / s)); }

double vt_regions_most(int n, int s) {
    /* log10 of a sum: the largest term out in front */
    double most = 0, sum = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int j = 0; j <= s && j <= n; j++) {
            double term = (lgamma(n + 1.0) - lgamma(j + 1.0) - lgamma(n - j + 1.0)) / log(10);
            if (pass == 0)
                most = fmax(most, term);
            else
                sum += pow(10, term - most);
        }
    return most + log10(sum);
}

double vt_regions_condition(int p, int s) { return exp((p * log(p) - s * log(s)) / (p - s)); }

/* ---- deletion and restriction ---- */

enum { MOST_N = 24, MOST_S = 8, ROW = MOST_S + 1 };
static const double ZERO = 1e-9;

typedef struct arrangement {
    int n, s;
    double row[MOST_N][ROW]; /* w, then b */
} arrangement;

/* Divides a row (w [s], b) by its largest w, sign included; returns its place, or -1: |w| <= 1e-9 `size`, unchanged. */
static int scale_row(double *row, int s, double size) {
    int k = 0;
    for (int j = 1; j < s; j++)
        if (fabs(row[j]) > fabs(row[k])) k = j;
    if (s == 0 || !(fabs(row[k]) > ZERO * size)) return -1;
    double c = row[k];
    for (int j = 0; j <= s; j++) row[j] /= c;
    return k;
}

static long long count_cells(const arrangement *a);

/* Pieces into which hyperplanes 0 .. i-1 cut hyperplane i; 0 if it equals one of them or its w is zero. */
static long long count_pieces(const arrangement *a, int i) {
    arrangement below = {.s = a->s - 1};
    double own[ROW];
    memcpy(own, a->row[i], sizeof own);
    int k = scale_row(own, a->s, 1);
    if (k < 0) return 0;
    for (int j = 0; j < i; j++) { /* x_k = -(b + sum of the others) put into row j */
        double *to = below.row[below.n], from = a->row[j][k], size = 0;
        int at = 0;
        for (int c = 0; c <= a->s; c++) {
            if (c == k) continue;
            to[at] = a->row[j][c] - from * own[c];
            size = fmax(size, fmax(fabs(a->row[j][c]), fabs(from * own[c])));
            at++;
        }
        double w = 0;
        for (int c = 0; c < below.s; c++) w = fmax(w, fabs(to[c]));
        if (w > ZERO * size)
            below.n++; /* cuts */
        else if (fabs(to[below.s]) <= ZERO * size)
            return 0; /* the same hyperplane */
    }
    return count_cells(&below);
}

/* Returns the number of cells: 1 and the pieces of each hyperplane. */
static long long count_cells(const arrangement *a) {
    long long sum = 1;
    for (int i = 0; i < a->n; i++) sum += count_pieces(a, i);
    return sum;
}

vt_status vt_regions_count(long long *out, const double *w, const double *b, int n, int s, vt_err *e) {
    if (n < 0 || n > MOST_N || s < 1 || s > MOST_S)
        return vt_fail(e, VT_E_RANGE, "regions of %d hyperplanes in %d dimensions; at most %d and %d", n, s, MOST_N,
                       MOST_S);
    arrangement a = {.s = s};
    for (int i = 0; i < n; i++) {
        double *row = a.row[a.n];
        for (int j = 0; j < s; j++) row[j] = w[i * s + j];
        row[s] = b[i];
        double before[ROW];
        memcpy(before, row, sizeof before);
        bool flat = true;
        for (int j = 0; j < s; j++) flat = flat && before[j] == 0;
        if (!flat) scale_row(row, s, 0), a.n++; /* a dead unit cuts nothing */
    }
    *out = count_cells(&a);
    return VT_OK;
}

/* ---- polygons ---- */

enum { CORNERS = 4 + MOST_N, POLYGONS = 1 + MOST_N * (MOST_N + 1) / 2 };

typedef struct polygon {
    int n;
    double x[CORNERS][2];
} polygon;

/* w x + b in the plane: its sign is the side of x. */
static double side_of_line(const double *w, double b, const double *x) { return w[0] * x[0] + w[1] * x[1] + b; }

/* out: the part of `in` where sign * (w x + b) > 0; corners within `near` of the line count as on it. */
static void clip_polygon(polygon *out, const polygon *in, const double *w, double b, double sign, double near) {
    out->n = 0;
    for (int i = 0; i < in->n; i++) {
        const double *p = in->x[i], *q = in->x[(i + 1) % in->n];
        double dp = sign * side_of_line(w, b, p), dq = sign * side_of_line(w, b, q);
        if (dp >= -near && out->n < CORNERS) memcpy(out->x[out->n++], p, sizeof *out->x);
        if ((dp > near && dq < -near) || (dp < -near && dq > near)) {
            double t = dp / (dp - dq);
            if (out->n == CORNERS) continue;
            out->x[out->n][0] = p[0] + t * (q[0] - p[0]);
            out->x[out->n++][1] = p[1] + t * (q[1] - p[1]);
        }
    }
}

/* Half the side of a square around the origin that holds every crossing and every line's nearest point. */
static double enclosing_half_side(const double *w, const double *b, int n) {
    double most = 1;
    for (int i = 0; i < n; i++) {
        most = fmax(most, fabs(b[i]) / hypot(w[2 * i], w[2 * i + 1]));
        for (int j = 0; j < i; j++) {
            double det = w[2 * i] * w[2 * j + 1] - w[2 * i + 1] * w[2 * j];
            if (det == 0) continue;
            most = fmax(most, fabs((b[j] * w[2 * i + 1] - b[i] * w[2 * j + 1]) / det));
            most = fmax(most, fabs((b[i] * w[2 * j] - b[j] * w[2 * i]) / det));
        }
    }
    return 2 * most;
}

vt_status vt_regions_cut(long long *out, const double *w, const double *b, int n, vt_err *e) {
    if (n < 0 || n > MOST_N) return vt_fail(e, VT_E_RANGE, "regions of %d lines; at most %d", n, MOST_N);
    for (int i = 0; i < n; i++)
        if (w[2 * i] == 0 && w[2 * i + 1] == 0) return vt_fail(e, VT_E_RANGE, "line %d has no direction", i);
    polygon *p = calloc(POLYGONS, sizeof *p);
    if (!p) return vt_fail(e, VT_E_MEMORY, "no memory for %d polygons", POLYGONS);
    double r = enclosing_half_side(w, b, n);
    p[0] = (polygon){4, {{-r, -r}, {r, -r}, {r, r}, {-r, r}}};
    int count = 1;
    for (int i = 0; i < n; i++) {
        double near = 1e-12 * r * hypot(w[2 * i], w[2 * i + 1]);
        for (int k = 0, before = count; k < before; k++) {
            polygon left, right;
            clip_polygon(&left, &p[k], w + 2 * i, b[i], 1, near);
            clip_polygon(&right, &p[k], w + 2 * i, b[i], -1, near);
            if (left.n < 3 || right.n < 3 || count == POLYGONS) continue; /* the line passes by */
            p[k] = left, p[count++] = right;
        }
    }
    free(p);
    *out = count;
    return VT_OK;
}
