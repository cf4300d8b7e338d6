/* SPDX-License-Identifier: MIT */
#include "base/rand.h"

#include <math.h>
#include <stdlib.h>

uint32_t vt_rng_purpose(const char *name) { /* FNV-1a */
    uint32_t h = 2166136261u;
    for (; *name; name++) h = (h ^ (uint8_t)*name) * 16777619u;
    return h;
}

void vt_philox(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2]) {
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]}, k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c[1] ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
        c[0] = n0, c[1] = (uint32_t)p1, c[2] = n2, c[3] = (uint32_t)p0;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; i++) out[i] = c[i];
}

/* Generates one block: seed and purpose select the Philox key; image, run, step and position are the counter. */
static void generate_philox_block(const vt_rng *r, uint64_t b, uint32_t out[4]) {
    uint32_t key[2] = {(uint32_t)r->seed ^ r->purpose, (uint32_t)(r->seed >> 32) ^ (r->run * 0x85EBCA6Bu)};
    uint32_t counter[4] = {(uint32_t)b, (uint32_t)(b >> 32) ^ r->run, r->image, r->step};
    vt_philox(out, counter, key);
}

uint32_t vt_rng_bits(const vt_rng *r, uint64_t i) {
    uint32_t w[4];
    generate_philox_block(r, i / 4, w);
    return w[i % 4];
}

float vt_rng_uniform(const vt_rng *r, uint64_t i) { return (float)(vt_rng_bits(r, i) >> 8) * 0x1p-24f; }

void vt_rng_uniforms(const vt_rng *r, float *out, size_t n) {
    for (size_t i = 0; i < n; i += 4) {
        uint32_t w[4];
        generate_philox_block(r, i / 4, w);
        for (size_t j = 0; j < 4 && i + j < n; j++) out[i + j] = (float)(w[j] >> 8) * 0x1p-24f;
    }
}

void vt_rng_normals(const vt_rng *r, float *out, size_t n) {
    for (size_t i = 0; i < n; i += 2) {
        uint32_t w[4];
        generate_philox_block(r, i / 2, w);
        double u1 = ((double)w[0] + 1.0) * 0x1p-32, u2 = (double)w[1] * 0x1p-32;
        double rho = sqrt(-2 * log(u1)), theta = 6.283185307179586476925 * u2;
        out[i] = (float)(rho * cos(theta));
        if (i + 1 < n) out[i + 1] = (float)(rho * sin(theta));
    }
}

bool vt_rng_move_rows(const vt_rng *r, float *w, size_t n, size_t rows, double share) {
    const size_t cols = n / (rows ? rows : 1);
    float *noise = malloc((n + 1) * sizeof *noise);
    if (!noise) return false;
    vt_rng_normals(r, noise, n);
    for (size_t row = 0; row < rows; row++) {
        double sum = 0;
        for (size_t k = row * cols; k < (row + 1) * cols; k++) sum += (double)w[k] * (double)w[k];
        const double scale = share * sqrt(sum / (double)cols);
        for (size_t k = row * cols; k < (row + 1) * cols; k++) w[k] += (float)(scale * (double)noise[k]);
    }
    free(noise);
    return true;
}
