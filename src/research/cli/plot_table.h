/* SPDX-License-Identifier: MIT */
/* The figures of a table, as its manifest names them: accuracy in one column over accuracy in another. */
#pragma once

#include "research/table/result.h"

/* Writes the manifest's figures, which it must have, as one SVG: a panel for each, a point for each row with 95 %
 * intervals of both means over its seeds (none for one seed), rows of one `curve` joined in the manifest's order. */
vt_status vt_plot_table(const vt_table *t, const char *out_svg, vt_err *e);
