/* SPDX-License-Identifier: MIT */
/* Randomised smoothing (Cohen, Rosenfeld and Kolter 2019, "Certified Adversarial Robustness via Randomized Smoothing"):
 * the class that a network gives most often to x + sigma N(0, 1). If that class has at least the share p > 1/2, it has
 * the largest share everywhere nearer than sigma Phi^-1(p) in l2 (their theorem 1). */
#pragma once

#include <signal.h>
#include "inference/classifier.h"

/* Certifies x [pixels] under the wrap `smooth`, which stands around c, by their algorithm CERTIFY: *class by the first
 * n0 draws of the key that the classifier began with, then the bound from the next n. *radius in pixel units, 0: no
 * certificate. *forwards: of the network. With probability at least 1 - alpha over the draws a radius above 0 is right.
 * VT_E_USAGE: another classifier; VT_INTERRUPTED once *interrupt (NULL: never) is set. */
vt_status vt_smooth_certify(int *class, double *radius, int64_t *forwards, const vt_classifier *c, const float *x,
                            const volatile sig_atomic_t *interrupt, vt_err *e);
/* Returns the radius that `count` votes of n for a class prove; 0: none. */
double vt_smooth_radius(int64_t count, int64_t n, double sigma, double alpha);
