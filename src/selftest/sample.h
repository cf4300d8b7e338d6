/* SPDX-License-Identifier: MIT */
/* Which images the self-test looks at: how each image of a run ended, and samples of them. */
#ifndef VT_SELFTEST_SAMPLE_H
#define VT_SELFTEST_SAMPLE_H

#include "selftest/checks.h"

typedef struct vt_standing {
    int32_t pred;
    bool right, white, broken; /* right; broken by an attack that follows gradients; by any */
    bool random, random_broke; /* a random search tried it; and broke it */
    bool looked;               /* some check was made on it */
} vt_standing;

/* s [t->v->n_images], in the order of t->v->images, from the ledger; *cost: forward-equivalents of the whole run. */
void vt_standings(const vt_selftest *t, vt_standing *s, double *cost);

/* Right images into `images` [n_images], in an order drawn by the seed: any first part of it is a uniform sample. Those
 * that no attack broke come first with `survivors_first`. *n: how many. */
vt_status vt_sample(const vt_selftest *t, const vt_standing *s, bool survivors_first, int32_t *images, size_t *n,
                    vt_err *e);
/* That of one of the run's images. */
vt_standing *vt_standing_of(const vt_selftest *t, vt_standing *s, int32_t image);
/* Another image for `image`, of another predicted class where there is one. */
int32_t vt_partner(const vt_selftest *t, const vt_standing *s, int32_t image);

#endif
