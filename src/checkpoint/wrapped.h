/* SPDX-License-Identifier: MIT */
/* What stands around names that a scheme knows: the words of wrappers anywhere in them, a prefix of the user's own, a
 * classifier beside the backbone, and counters of metrics. All of it is found, none of it is a list of prefixes. */
#pragma once

#include "tensors/weights.h"

/* What st, as its names are now, is to the schemes. `beside`: the classifier stands elsewhere in the file. */
typedef enum vt_fit { VT_FIT_NONE, VT_FIT_BASE, VT_FIT_WHOLE } vt_fit;
typedef vt_status vt_fits(vt_fit *out, const vt_tensors *st, bool beside, void *ctx, vt_err *e);

/* Takes the wrappers' words out of all names (_orig_mod, _fsdp_wrapped_module, ...) and leaves metrics' counters out,
 * with a note of each. */
vt_status vt_unwrap_words(vt_tensors *st, vt_err *e);
/* If no scheme knows the names as they are: strips the one prefix that leaves names that are known. *head: what the
 * tensors of a classifier beside it begin with ("fc."), or NULL. Two prefixes that would do, or a tensor without the
 * prefix that is no classifier: refused. No prefix: VT_OK, and nothing is changed. */
vt_status vt_unwrap_prefix(vt_tensors *st, const char **head, vt_fits *fits, void *ctx, vt_err *e);
