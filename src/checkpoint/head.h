/* SPDX-License-Identifier: MIT */
/* What people do to a network's linear layers, undone on canonical names: a classifier in an nn.Sequential becomes one
 * matrix (a BatchNorm before it is multiplied into it), one output becomes two logits, a bias that no layer of a kind
 * has is zero. */
#pragma once

#include "checkpoint/rename.h"

/* rows [n]: what became of each tensor of the file, kept up to date. supposed [72]: what no tensor tells of the head as
 * it was read ("one output z, read as the logits 0 and z"), or "". A head of several matrices, or with a norm that no
 * architecture has, is refused by that word. */
vt_status vt_head_settle(vt_tensors *st, vt_names_row *rows, int n, char *supposed, vt_err *e);
