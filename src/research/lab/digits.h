/* SPDX-License-Identifier: MIT */
/* Digits in noise, after UAM's NoisyMNIST: an s x s digit at one fixed place of a side x side picture of noise. The
 * digits are drawn here from strokes, with a little slant, turn, stretch, shift and thickness of their own, and grey
 * edges, or read from a data set; noise and digit share [0, 1], pixels are then centred and scaled to unit deviation of
 * the noise. A digit that moved would make a global mask useless, so it does not. */
#pragma once

#include "data/dataset.h"
#include "research/lab/sgd.h"

typedef struct vt_digits {
    int side, s, row, column; /* the digit's upper left corner */
    int n;
    float *x, *y; /* [n, side * side], [n, 10] one-hot */
} vt_digits;

/* Draws ink in [0, 1], [s, s], of digit `label`, varied by (seed, index); index < 0: not varied. */
void vt_digit_draw(float *ink, int s, int label, uint64_t seed, int index);
/* Label 0 to 9 of a picture, keyed by seed and index. */
int vt_digit_label(uint64_t seed, int index);

/* Returns the bytes of n pictures of side x side and their labels. */
size_t vt_digits_bytes(int side, int n);
/* Draws n pictures with an s x s digit in the middle, numbered from `first` on, so that a test set may follow a
 * training set. VT_E_RANGE unless s is 1 to min(side, 64), VT_E_MEMORY; vt_digits_close frees them. */
vt_status vt_digits_open(vt_digits *out, int side, int s, int first, int n, const vt_lab *lab, vt_err *e);
/* Makes pictures from the first n images of a data set's split instead of drawn digits: ten classes of one channel,
 * resized to s x s by means over areas (MNIST; UAM does not say how it resized). hash: the split's SHA-256, of 65
 * bytes. VT_E_USAGE if the data set has fewer images or others. */
vt_status vt_digits_read(vt_digits *out, int side, int s, const char *data, vt_split split, int n, const vt_lab *lab,
                         char *hash, vt_err *e);
/* Frees and zeroes d; accepts a zeroed one. */
void vt_digits_close(vt_digits *d);
/* Whether a pixel, counted by rows, lies within the digit's s x s square. */
bool vt_digits_inside(const vt_digits *d, int pixel);
