/* SPDX-License-Identifier: MIT */
/* Published numbers as text, with the footnotes that they need. */
#pragma once

#include <stdio.h>
#include "research/table/consistency.h"

/* Only the table of this name, NULL: all. A block for each table, training and backbone, its columns data set and
 * attack; below them every finding, numbered; a cell carries the numbers of those that name it. */
vt_status vt_published_show(FILE *out, const vt_published *p, const vt_oddities *f, const char *table, vt_err *e);
