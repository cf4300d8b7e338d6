/* SPDX-License-Identifier: MIT */
/* What an evaluation will cost at most: every image right, and standing to the end of every attack. */
#ifndef VT_EVAL_COST_ESTIMATE_H
#define VT_EVAL_COST_ESTIMATE_H

#include <stdio.h>
#include "eval/cost.h"
#include "eval/evaluate.h"

void vt_cost_estimate_print(FILE *f, const vt_eval_options *v, const vt_seconds *s);
/* "3.2 h", "4.1 min", "12 s". */
const char *vt_hours_text(char buf[32], double hours);

#endif
