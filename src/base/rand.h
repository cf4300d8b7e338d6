/* SPDX-License-Identifier: MIT */
/* Random numbers as a function of a key, not a stream (Philox4x32-10; Salmon et al. 2011): the value depends on
 * (seed, purpose, image, run, step) and the position alone, never on threads, batches or order. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct vt_rng {
    uint64_t seed;
    uint32_t purpose; /* hash of the attack's or caller's name: vt_rng_purpose */
    uint32_t image;   /* index of the image within its split */
    uint32_t run;     /* restart or target */
    uint32_t step;
} vt_rng;

/* Returns a hash of a purpose's name (FNV-1a), for vt_rng.purpose. */
uint32_t vt_rng_purpose(const char *name);
/* Computes one block of Philox4x32-10. */
void vt_philox(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2]);

/* Returns 32 random bits at position i of the key's sequence. */
uint32_t vt_rng_bits(const vt_rng *r, uint64_t i);
/* Returns an integer in [0, n), by position i: the high word of a 64-bit product, so that no value is more than n /
 * 2^32 (relative) too likely: 1e-5 for 50,000 images. It never rejects: every draw has a fixed position. */
static inline uint32_t vt_rng_below(const vt_rng *r, uint64_t i, uint32_t n) {
    return (uint32_t)((uint64_t)vt_rng_bits(r, i) * n >> 32);
}
/* Returns a number uniform in [0,1), of 24 bits, at position i. */
float vt_rng_uniform(const vt_rng *r, uint64_t i);
/* Fills out [n] with vt_rng_uniform of positions 0 to n - 1. */
void vt_rng_uniforms(const vt_rng *r, float *out, size_t n);
/* Fills out [n] with standard normal numbers (Box-Muller in double); each depends on the key and its place alone. */
void vt_rng_normals(const vt_rng *r, float *out, size_t n);
/* Moves w [rows, n / rows], each number by `share` of its row's root mean square times a normal of r: a heavy row does
 * not make noise of the others. false: no memory. */
bool vt_rng_move_rows(const vt_rng *r, float *w, size_t n, size_t rows, double share);
