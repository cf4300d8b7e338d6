/* SPDX-License-Identifier: MIT */
#include "nn/window.h"

#include <stdbool.h>
#include <string.h>

void VT_R(vt_window_order)(int *from, int side, int window, int shift) {
    int across = vt_window_across(side, window), area = window * window;
    for (int n = 0; n < across * across; n++)
        for (int t = 0; t < area; t++) {
            int y = n / across * window + t / window, x = n % across * window + t % window;
            *from++ = y < side && x < side ? (y + shift) % side * side + (x + shift) % side : -1;
        }
}

/* Did the roll carry this row or column over the edge? (Of the three slices of the paper's code, [0, -window),
 * [-window, -shift), [-shift, end), the first two meet between windows.) */
static bool is_wrapped(int at, int padded, int shift) { return at >= padded - shift; }

void VT_R(vt_window_mask)(real *mask, int side, int window, int shift, int ld) {
    int across = vt_window_across(side, window), padded = across * window, area = window * window;
    for (int n = 0; n < across * across; n++)
        for (int i = 0; i < area; i++, mask += ld) {
            int top = n / across * window, left = n % across * window;
            bool y = is_wrapped(top + i / window, padded, shift), x = is_wrapped(left + i % window, padded, shift);
            for (int j = 0; j < area; j++) {
                bool same = is_wrapped(top + j / window, padded, shift) == y &&
                            is_wrapped(left + j % window, padded, shift) == x;
                mask[j] = same ? 0 : -100;
            }
        }
}

void VT_R(vt_merge_order)(int *from, int side) {
    for (int y = 0; y < side; y += 2)
        for (int x = 0; x < side; x += 2)
            for (int k = 0; k < 4; k++) *from++ = (y + k % 2) * side + x + k / 2;
}

void VT_R(vt_rows_take)(real *out, const real *in, const int *from, int images, int n, int rows, int c) {
    size_t row = (size_t)c * sizeof *out;
    for (int b = 0; b < images; b++, in += (size_t)rows * (size_t)c)
        for (int i = 0; i < n; i++, out += c)
            if (from[i] < 0)
                memset(out, 0, row);
            else
                memcpy(out, in + (size_t)from[i] * (size_t)c, row);
}

void VT_R(vt_rows_put)(real *in, const real *out, const int *from, int images, int n, int rows, int c) {
    for (int b = 0; b < images; b++, in += (size_t)rows * (size_t)c)
        for (int i = 0; i < n; i++, out += c)
            if (from[i] >= 0) memcpy(in + (size_t)from[i] * (size_t)c, out, (size_t)c * sizeof *in);
}

/* The table's row for query i and key j. */
static int relative_position_row(int i, int j, int window) {
    int dy = i / window - j / window, dx = i % window - j % window;
    return (dy + window - 1) * (2 * window - 1) + dx + window - 1;
}

void VT_R(vt_window_bias)(real *bias, const real *table, int window, int heads, int ld) {
    int area = window * window;
    for (int i = 0; i < area; i++)
        for (int j = 0; j < area; j++) {
            const real *row = table + relative_position_row(i, j, window) * heads;
            for (int h = 0; h < heads; h++) bias[(size_t)(h * area + i) * (size_t)ld + (size_t)j] = row[h];
        }
}

void VT_R(vt_window_bias_backward)(real *dtable, const real *dbias, int window, int heads, int ld) {
    int area = window * window;
    for (int i = 0; i < area; i++)
        for (int j = 0; j < area; j++) {
            real *row = dtable + relative_position_row(i, j, window) * heads;
            for (int h = 0; h < heads; h++) row[h] += dbias[(size_t)(h * area + i) * (size_t)ld + (size_t)j];
        }
}
