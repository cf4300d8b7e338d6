/* SPDX-License-Identifier: MIT */
/* Published numbers as text, with the footnotes that they need. */
#pragma once

#include <stdio.h>
#include "research/table/consistency.h"

/* Prints the table of this name, or all for NULL: a block for each table, training and backbone, its columns data set
 * and attack; below them every finding, numbered; a cell carries the numbers of those that name it. VT_E_USAGE if
 * there is no such table. */
vt_status vt_published_show(FILE *out, const vt_published *p, const vt_oddities *f, const char *table, vt_err *e);
