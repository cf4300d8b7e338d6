/* SPDX-License-Identifier: MIT */
/* Turns what the parts found into hits and trials of each check. */
#ifndef VT_SELFTEST_EVIDENCE_H
#define VT_SELFTEST_EVIDENCE_H

#include "selftest/sample.h"
#include "selftest/tools.h"

void vt_count_direct(vt_selftest *t, const vt_direct *d, const int32_t *images, size_t n);
vt_status vt_count_scale(vt_selftest *t, const vt_scale *s, const int32_t *images, size_t n, vt_err *e);
void vt_count_strength(vt_selftest *t, const vt_strength *f, const int32_t *images, size_t n);
/* The first `searched` of the n were searched by Square too. */
vt_status vt_count_ways(vt_selftest *t, const vt_ways *w, const int32_t *images, size_t n, size_t searched, vt_err *e);
/* w [points, n] */
void vt_count_wakeup(vt_selftest *t, const vt_wakeup *w, int points, const int32_t *images, size_t n);
/* The run's own random search, which saw survivors of its white-box attacks at full strength; false: too few of them.
 */
bool vt_count_square(vt_selftest *t, vt_standing *s);
void vt_count_active(vt_selftest *t, const vt_active_bits *b, const int32_t *images, size_t n);

#endif
