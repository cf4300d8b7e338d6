/* SPDX-License-Identifier: MIT */
/* Printed tables that are too wide for a terminal: their columns in parts, one below the other. */
#ifndef VT_CORE_FOLD_H
#define VT_CORE_FOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Does this line of n bytes look like a row of a table: at least three fields, two spaces or more apart? */
bool vt_fold_is_row(const char *line, size_t n);
/* Prints lines of a table, n bytes, to f. Where one is wider than width, they are cut at columns that are blank in all
 * of them, and each further part repeats the first field. */
void vt_fold(FILE *f, const char *text, size_t n, int width);

#endif
