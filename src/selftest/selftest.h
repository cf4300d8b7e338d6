/* SPDX-License-Identifier: MIT */
/* An evaluation that tests itself: are the gradients that its attacks follow to be believed? What
 * gradients are at single points and at the scale of the ball, what attacks of different kinds find
 * on the same images, and the active test (Zimmermann et al. 2022), in which an adversarial image
 * is known to exist. Every check is an exact test of a stated null hypothesis; Holm's correction
 * over all of them bounds the chance of accusing a model whose gradients lead. */
#ifndef VT_SELFTEST_SELFTEST_H
#define VT_SELFTEST_SELFTEST_H

#include <jansson.h>
#include <stdio.h>
#include "selftest/checks.h"

vt_status vt_selftest_run(vt_selftest *t, vt_err *e);
/* What is in selftest.json; NULL: no memory. */
json_t *vt_selftest_json(const vt_selftest *t);
/* Why it cost more than its share, in words; NULL: it did not. */
const char *vt_selftest_excess(const vt_selftest *t);
vt_status vt_selftest_print(FILE *f, const vt_selftest *t, vt_err *e);
/* The verdict of DIR/selftest.json in the words that vt_selftest_print uses, also of an earlier
 * version's; "": DIR has none. VT_E_FORMAT: the file holds no verdict. */
enum { VT_VERDICT_ROOM = 1000 };
vt_status vt_selftest_read(const char *dir, char text[VT_VERDICT_ROOM], vt_err *e);

#endif
