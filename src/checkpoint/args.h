/* SPDX-License-Identifier: MIT */
/* Do timm's training arguments in a checkpoint agree with what was taken from elsewhere in it or beside it? */
#pragma once

#include "checkpoint/provenance.h"
#include "checkpoint/hub.h"

/* VT_E_USAGE: two files, or two parts of one, differ in heads, mean, std or a form, and no option said which is true.
 */
vt_status vt_args_agree(const vt_hub *h, const vt_config *c, const vt_provenance *t, const char *weights, vt_err *e);
