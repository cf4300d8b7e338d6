/* SPDX-License-Identifier: MIT */
#include "certify/spectral.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "linalg/gemm.h"

#define ULP 0x1p-53
enum { SQUARINGS_MOST = 16, WEIGHTS = 9 /* squarings for weights: 768 rows cost 0.3 % */ };

/* Returns a bound from above of the Frobenius norm of a [rows, cols], whose rows lie ld apart. */
static double frobenius_norm(const double *a, int rows, int cols, int ld) {
    double sum = 0;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++)
            sum += a[(size_t)i * (size_t)ld + (size_t)j] * a[(size_t)i * (size_t)ld + (size_t)j];
    return sqrt(sum) * (1 + ((double)rows * cols + 8) * ULP);
}

size_t vt_norm_above_work(int rows, int cols) {
    const size_t n = (size_t)(rows < cols ? rows : cols);
    return 2 * n * n;
}

/* Copies the lower triangle up: what was rounded one way on one side is the same on the other. */
static void mirror_lower(double *a, int n) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++) a[(size_t)j * (size_t)n + (size_t)i] = a[(size_t)i * (size_t)n + (size_t)j];
}

/* Bound of the spectral norm of a symmetric h [n, n], which is overwritten, as is other. |h| = f |h / f|, and
 * |h / f|^2 = |(h / f)^2|, which lies within `lost` of what is computed. */
static double symmetric_above(double *h, double *other, int n, int squarings) {
    const double lost = ((double)n + 8) * ULP * 1.01 + 1e-290;
    double f[SQUARINGS_MOST], bound;
    int k = 0;
    for (; k < squarings; k++) {
        f[k] = frobenius_norm(h, n, n, n);
        if (!(f[k] > 0) || !isfinite(f[k])) break;
        for (size_t i = 0; i < (size_t)n * (size_t)n; i++) h[i] /= f[k];
        vt_gemm_f64(false, false, n, n, n, 1, h, n, h, n, 0, other, n);
        double *last = h;
        h = other, other = last;
        mirror_lower(h, n);
    }
    bound = frobenius_norm(h, n, n, n);
    while (k-- > 0) bound = f[k] * (sqrt(bound + lost) * (1 + 4 * ULP) + 2 * ULP) * (1 + 4 * ULP);
    return bound;
}

double vt_norm_above(const double *a, int rows, int cols, int ld, int squarings, double *work) {
    const bool wide = rows < cols;
    const int n = wide ? rows : cols, inner = wide ? cols : rows;
    const double whole = frobenius_norm(a, rows, cols, ld);
    if (whole == 0 || !isfinite(whole) || !(whole > 1e-140)) { /* squares are lost: of the largest number */
        double top = 0;
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < cols; j++) {
                const double v = fabs(a[(size_t)i * (size_t)ld + (size_t)j]);
                if (!(v <= top)) top = v; /* a NaN stays */
            }
        return whole > 1 || isnan(whole) ? INFINITY : top * sqrt((double)rows * cols) * (1 + 8 * ULP);
    }
    if (n == 1) return whole;
    vt_gemm_f64(!wide, wide, n, n, inner, 1 / (whole * whole), a, ld, a, ld, 0, work, n);
    mirror_lower(work, n);
    const double lost = ((double)inner + 16) * ULP * 1.01 + 1e-290;
    const double gram = symmetric_above(work, work + (size_t)n * (size_t)n, n, squarings);
    return fmin(whole, whole * sqrt(gram + lost) * (1 + 16 * ULP));
}

/* ---- convolutions, on an endless map, of which any other is a part ---- */

/* Returns the greatest common divisor. */
static int64_t divisor_of(int64_t a, int64_t b) {
    while (b) {
        const int64_t rest = a % b;
        a = b, b = rest;
    }
    return a;
}

int64_t vt_windows_overlap(const vt_windows *w, int s) {
    const int64_t most = (w->kernel[s] * divisor_of(w->dilation[s], w->stride[s]) + w->stride[s] - 1) / w->stride[s];
    return most < w->out[s] ? most : w->out[s];
}

/* One group's symbol: a matrix for each frequency, whose columns are input channels, once for each phase of the stride;
 * its numbers are polynomials of degree `degree` in each frequency, seen at n frequencies a side. */
typedef struct symbol {
    const vt_windows *w;
    int o, i;
    int64_t step[3], phases, degree[3];
    int n[3];
} symbol;

/* Returns the symbol of a group with o outputs and i inputs, but for n. */
static symbol symbol_of(const vt_windows *w, int o, int i) {
    symbol y = {.w = w, .o = o, .i = i, .phases = 1};
    for (int s = 0; s < 3; s++) {
        const int64_t common = divisor_of(w->dilation[s], w->stride[s]);
        y.step[s] = w->stride[s] / common, y.phases *= y.step[s];
        y.degree[s] = ((w->kernel[s] - 1) * (w->dilation[s] / common) / y.step[s] + 1) / 2; /* about the middle */
    }
    return y;
}

/* Adds the angle of tap k, in turns, at frequency f; returns its phase. */
static int64_t tap_at(const symbol *y, int64_t k, const int64_t f[3], double *turn) {
    const vt_windows *w = y->w;
    const int64_t t[3] = {k / w->kernel[2] / w->kernel[1], k / w->kernel[2] % w->kernel[1], k % w->kernel[2]};
    int64_t phase = 0;
    *turn = 0;
    for (int s = 0; s < 3; s++) {
        const int64_t at = t[s] * (w->dilation[s] / divisor_of(w->dilation[s], w->stride[s]));
        phase = phase * y->step[s] + at % y->step[s];
        *turn += (double)(f[s] * (at / y->step[s]) % y->n[s]) / y->n[s];
    }
    return phase;
}

/* [[Re, -Im], [Im, Re]] of the symbol at one frequency, from weights [o, i, taps]. *lost: Frobenius norm of its
 * rounding errors, at most. */
static void set_symbol(double *m, double *lost, const symbol *y, const double *weights, const int64_t f[3]) {
    const size_t half = (size_t)y->i * (size_t)y->phases, ld = 2 * half;
    double size = 0, turn;
    memset(m, 0, 2 * (size_t)y->o * ld * sizeof *m);
    for (int64_t k = 0; k < y->w->taps; k++) {
        const size_t phase = (size_t)tap_at(y, k, f, &turn);
        const double c = cos(2 * 3.14159265358979324 * turn), d = sin(2 * 3.14159265358979324 * turn);
        for (int r = 0; r < y->o; r++)
            for (int j = 0; j < y->i; j++) {
                const double v = weights[((int64_t)r * y->i + j) * y->w->taps + k];
                double *at = m + (size_t)r * ld + phase * (size_t)y->i + (size_t)j, *below = at + (size_t)y->o * ld;
                at[0] += v * c, below[half] += v * c, below[0] += v * d, at[half] -= v * d;
                size += v * v;
            }
    }
    /* a number's error is at most (taps + 64) 2^-52 times a sum of at most `taps` sizes, squared and added */
    *lost = sqrt(2 * size * (double)y->w->taps) * ((double)y->w->taps + 64) * ULP * 2;
}

/* Largest bound over all frequencies. Between them a polynomial rises by at most 1 / cos(pi degree / n), n > 2 degree
 * (Ehlich and Zeller 1964). */
static double symbols_above(const symbol *y, const double *weights, double *work) {
    const int o = 2 * y->o, i = 2 * y->i * (int)y->phases, *n = y->n;
    double best = 0, lost, *square = work + (size_t)o * (size_t)i;
    for (int64_t f = 0; f < (int64_t)n[0] * n[1] * n[2]; f++) {
        const int64_t at[3] = {f / n[2] / n[1], f / n[2] % n[1], f % n[2]};
        int64_t twin = 0; /* the opposite frequency, whose symbol is the conjugate */
        for (int s = 0; s < 3; s++) twin = twin * n[s] + (n[s] - at[s]) % n[s];
        if (twin < f) continue;
        set_symbol(work, &lost, y, weights, at);
        for (int squarings = 1; squarings <= WEIGHTS; squarings += WEIGHTS - 1) {
            const double here = vt_norm_above(work, o, i, i, squarings, square) + lost;
            if (here <= best) break;
            if (squarings > 1) best = here;
        }
    }
    for (int s = 0; s < 3; s++)
        if (y->degree[s]) best /= cos(3.14159265358979324 * (double)y->degree[s] / n[s]) * (1 - 1e-12);
    return best;
}

/* Chooses as many frequencies as cost at most some seconds; false: too few for a bound. */
static bool choose_frequencies(symbol *y, int64_t groups) {
    const double o = 2.0 * y->o, i = 2.0 * y->i * (double)y->phases, least = o < i ? o : i;
    for (int side = 32; side >= 6; side /= 2) {
        double all = (double)groups / 2;
        bool fits = true;
        for (int s = 0; s < 3; s++) {
            y->n[s] = y->degree[s] ? side : 1, all *= y->n[s];
            fits = fits && y->n[s] > 3 * y->degree[s];
        }
        if (fits && all * 4 * least * least * (o + i) <= 2e10) return true;
    }
    return false;
}

vt_status vt_conv_norm_above(double *out, const vt_conv *p, const double *w, vt_err *e) {
    const int o = (int)(p->out / p->groups), i = (int)(p->w.channels / p->groups), cols = i * (int)p->w.taps;
    symbol y = symbol_of(&p->w, o, i);
    const int wide = 2 * i * (int)y.phases;
    const size_t each = (size_t)o * (size_t)cols, matrix = vt_norm_above_work(o, cols),
                 lattice = 2 * (size_t)o * (size_t)wide + vt_norm_above_work(2 * o, wide);
    double *work = vt_alloc(((matrix > lattice ? matrix : lattice) + 1) * sizeof *work), windows = 0, symbols = 0,
           seen = 1;
    if (!work) return vt_fail(e, VT_E_MEMORY, "no memory for the norm of a convolution");
    for (int s = 0; s < 3; s++) seen *= (double)vt_windows_overlap(&p->w, s);
    const bool some = seen > 1 && choose_frequencies(&y, p->groups);
    for (int64_t g = 0; g < p->groups; g++) {
        const double here = vt_norm_above(w + (size_t)g * each, o, cols, cols, WEIGHTS, work);
        if (!(here <= windows)) windows = here;
        const double there = some ? symbols_above(&y, w + (size_t)g * each, work) : INFINITY;
        if (!(there <= symbols)) symbols = there;
    }
    windows *= sqrt(seen) * (1 + 4 * ULP);
    *out = isfinite(windows) && symbols < windows ? symbols : windows;
    free(work);
    return VT_OK;
}
