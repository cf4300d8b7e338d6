#include "nn/nn.h"
#include "nn/vecmath.h"

/* p_j = exp(scale s_j - max) / sum */
void VT_R(vt_softmax_forward)(real *p, const real *s, real scale, int m, int n, int ld) {
    for (int i = 0; i < m; i++) {
        const real *si = s + (size_t)i * (size_t)ld;
        real *pi = p + (size_t)i * (size_t)ld;
        real lane[16], top, total = 0;
        int j = 0;
        for (int l = 0; l < 16; l++) lane[l] = l < n ? scale * si[l] : scale * si[0];
        for (; j + 16 <= n; j += 16)
            for (int l = 0; l < 16; l++) {
                real v = scale * si[j + l];
                lane[l] = v > lane[l] ? v : lane[l];
            }
        top = lane[0];
        for (int l = 1; l < 16; l++) top = lane[l] > top ? lane[l] : top;
        for (; j < n; j++) top = scale * si[j] > top ? scale * si[j] : top;
        for (j = 0; j < n; j++) pi[j] = vt_exp(scale * si[j] - top);
        for (int l = 0; l < 16; l++) lane[l] = 0;
        for (j = 0; j + 16 <= n; j += 16)
            for (int l = 0; l < 16; l++) lane[l] += pi[j + l];
        for (; j < n; j++) lane[0] += pi[j];
        for (int l = 0; l < 16; l++) total += lane[l];
        real inv = 1 / total;
        for (j = 0; j < n; j++) pi[j] *= inv;
    }
}

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
