/* SPDX-License-Identifier: MIT */
/* A classifier that sees only some outputs of another: a head of 1000 classes evaluated on ten of them. Loss, arg-max
 * and margins are those of the network whose head has only these rows. */
#pragma once

#include "inference/classifier.h"

/* Wraps *c, which it then owns: output k is output head[k], n of them (head must outlive it). On failure *c is as it
 * was. */
vt_status vt_classifier_restrict(vt_classifier *c, const int *head, int n, vt_err *e);
