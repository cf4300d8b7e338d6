/* SPDX-License-Identifier: MIT */
/* A claim checked against a run: on images whose robustness has been proven, no attack may succeed. */
#ifndef VT_EVAL_REPORT_EXPECT_H
#define VT_EVAL_REPORT_EXPECT_H

#include "eval/ledger.h"

/* VT_OK when every image is right and unbroken. Else the sentence names the first image that is not, the attack and the
 * distance of its point, and the numbers of the others. */
vt_status vt_expect_robust(const vt_ledger *l, vt_err *e);

#endif
