#include "nn/lanes.h"
#include "nn/nn.h"
#include "nn/vecmath.h"

/* p_j = exp(scale s_j - max) / sum */
#ifdef VT_DOUBLE
void VT_R(vt_softmax_forward)(real *p, const real *s, real scale, int m, int n, int ld) {
    for (int i = 0; i < m; i++) {
        const real *si = s + (size_t)i * (size_t)ld;
        real *pi = p + (size_t)i * (size_t)ld, top = scale * si[0], total = 0;
        for (int j = 1; j < n; j++) top = scale * si[j] > top ? scale * si[j] : top;
        for (int j = 0; j < n; j++) total += pi[j] = vt_exp(scale * si[j] - top);
        for (int j = 0; j < n; j++) pi[j] /= total;
    }
}
#else
/* Rows of 65 or 197 are short: sixteen lanes at a time, the rest of a row in a padded copy, and sums by halves, or the
 * chains of scalar operations at a row's end would cost more than the row. */
void VT_R(vt_softmax_forward)(real *p, const real *s, real scale, int m, int n, int ld) {
    int full = n / 16 * 16, rest = n - full;
    for (int i = 0; i < m; i++) {
        const float *si = s + (size_t)i * (size_t)ld;
        float *pi = p + (size_t)i * (size_t)ld, end[16];
        for (int l = 0; l < 16; l++) end[l] = l < rest ? scale * si[full + l] : -INFINITY;
        vt_lanes tail = vt_lanes_load(end), top = tail;
        for (int j = 0; j < full; j += 16) top = vt_lanes_max(vt_lanes_load(si + j) * scale, top);
        float most = vt_lanes_largest(top);
        tail = vt_lanes_exp(tail - most);
        vt_lanes sum = tail;
        for (int j = 0; j < full; j += 16) {
            vt_lanes v = vt_lanes_exp(vt_lanes_load(si + j) * scale - most);
            vt_lanes_store(pi + j, v);
            sum += v;
        }
        float inv = 1 / vt_lanes_sum(sum);
        for (int j = 0; j < full; j += 16) vt_lanes_store(pi + j, vt_lanes_load(pi + j) * inv);
        vt_lanes_store(end, tail * inv);
        for (int l = 0; l < rest; l++) pi[full + l] = end[l];
    }
}
#endif

/* dL/ds_j = scale p_j (dp_j - sum_k p_k dp_k) */
void VT_R(vt_softmax_backward)(real *ds, const real *dp, const real *p, real scale, int m, int n, int ld) {
    for (int i = 0; i < m; i++) {
        const real *pi = p + (size_t)i * (size_t)ld, *gi = dp + (size_t)i * (size_t)ld;
        real *oi = ds + (size_t)i * (size_t)ld;
        real lane[16] = {0}, dot = 0;
        int j = 0;
        for (; j + 16 <= n; j += 16)
            for (int l = 0; l < 16; l++) lane[l] += pi[j + l] * gi[j + l];
        for (; j < n; j++) lane[0] += pi[j] * gi[j];
        for (int l = 0; l < 16; l++) dot += lane[l];
        for (j = 0; j < n; j++) oi[j] = scale * pi[j] * (gi[j] - dot);
    }
}
