/* SPDX-License-Identifier: MIT */
/* The figures of a table, as its manifest names them: accuracy in one column over accuracy in another. */
#pragma once

#include "research/table/result.h"

/* A panel a figure; a row is a point with 95 % intervals of both means over its seeds (of one seed none), rows of one
 * `curve` are joined in the manifest's order. The manifest has figures. */
vt_status vt_plot_table(const vt_table *t, const char *out_svg, vt_err *e);
