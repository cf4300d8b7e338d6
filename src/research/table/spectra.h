/* SPDX-License-Identifier: MIT */
/* What a table takes from a measured spectrum. */
#pragma once

#include "research/table/plan.h"

/* *sigma: the largest singular value of the heads of W_Q, W_K or W_V ("q", "k", "v"; a head is the rows that make its
 * outputs), as a mean over the layers: what SpecFormer's penalty lowers (Hu et al. 2024, eq. 12). VT_E_FORMAT: the
 * finished cell does not hold it. */
vt_status vt_spectra_read(const vt_plan *p, const vt_plan_cell *c, const char *which, double *sigma, vt_err *e);
