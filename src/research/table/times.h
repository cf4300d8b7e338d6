/* SPDX-License-Identifier: MIT */
/* How long training steps took: from a training's log. */
#pragma once

#include "research/table/plan.h"

/* Quartiles of the seconds of c->timed steps, from the training's log. VT_E_FORMAT: it has fewer. */
vt_status vt_times_read(const vt_plan *p, const vt_plan_cell *c, double quartiles[3], vt_err *e);
