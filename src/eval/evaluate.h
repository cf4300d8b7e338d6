/* SPDX-License-Identifier: MIT */
/* An evaluation: clean predictions, then every attack stage by stage, images in parallel, each stage on the survivors
 * of the one before. Nothing an image yields depends on other images, on threads or on interruptions. */
#pragma once

#include "eval/ledger.h"
#include "eval/options.h"

/* Makes the ledger header of this evaluation, to be freed with vt_header_free. */
vt_status vt_eval_header(vt_header **out, const vt_eval_options *v, vt_err *e);
/* Does what l does not hold yet. VT_INTERRUPTED: stopped on request; finished lines are in the ledger. With ranks
 * (v->place, l from vt_parts_open) rank 0's has every line then; the others' are not to be read. */
vt_status vt_eval_run(const vt_eval_options *v, vt_ledger *l, vt_err *e);
