/* SPDX-License-Identifier: MIT */
/* An evaluation: clean predictions, then every attack stage by stage, images in parallel, each stage on the survivors
 * of the one before. Nothing an image yields depends on other images, on threads or on interruptions. */
#pragma once

#include "eval/ledger.h"
#include "eval/options.h"

/* The ledger header of this evaluation. */
vt_status vt_eval_header(vt_header **out, const vt_eval_options *v, vt_err *e);
/* Does what the ledger does not hold yet. l may hold a part of it (resumed). VT_INTERRUPTED: stopped on request, all
 * finished lines are in the ledger. With ranks (v->place, l from vt_parts_open) rank 0's ledger has every line then;
 * the others' are not to be read. */
vt_status vt_eval_run(const vt_eval_options *v, vt_ledger *l, vt_err *e);
