/* SPDX-License-Identifier: MIT */
/* What vt_names_apply does to a state dict besides renaming, each step with a note or an assumption that says so. */
#pragma once

#include "checkpoint/rename.h"

/* Wrappers: takes their words out of all names (_orig_mod, _fsdp_wrapped_module, ...) and leaves out the counters of
 * metrics. */
vt_status vt_unwrap_words(vt_tensors *st, vt_err *e);

/* Weights that PyTorch stores in parts and multiplies in every forward (torch.nn.utils: weight_norm, spectral_norm,
 * prune; and the same as parametrizations) become the weights that they stand for, computed in double. Other parts,
 * and adapters beside the weights (LoRA), are refused with what to do in PyTorch. */
vt_status vt_fold_parts(vt_tensors *st, vt_err *e);

/* What st, as its names are now, is to the name maps. `beside`: the classifier stands elsewhere in the file. */
typedef enum vt_fit { VT_FIT_NONE, VT_FIT_BASE, VT_FIT_WHOLE } vt_fit;
/* Finds whether a name map or library knows the names: none, a base model, or a whole one. */
vt_status vt_names_fit(vt_fit *out, const vt_tensors *st, bool beside, vt_err *e);
/* If no name map knows the names as they are: strips the one prefix that leaves names that are known. *head: what the
 * tensors of a classifier beside it begin with ("fc."), or NULL. Two prefixes that would do, or a tensor without the
 * prefix that is no classifier: refused. No prefix: VT_OK, and nothing is changed. */
vt_status vt_unwrap_prefix(vt_tensors *st, const char **head, vt_err *e);

enum { VT_HEAD_ASSUMED = 72 };
/* Settles the linear layers of a head, on canonical names: a classifier in an nn.Sequential becomes one matrix (a
 * BatchNorm before it is multiplied into it), one output becomes two logits, a bias that no layer of a kind has is
 * zero. rows [n]: what became of each tensor of the file, kept up to date. assumed: what no tensor tells of the head as
 * it was read ("one output z, read as the logits 0 and z"), or "". A head of several matrices, or with a norm that no
 * architecture has, is refused by that word. */
vt_status vt_head_settle(vt_tensors *st, vt_names_row *rows, int n, char assumed[VT_HEAD_ASSUMED], vt_err *e);
