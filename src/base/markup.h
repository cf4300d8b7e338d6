/* SPDX-License-Identifier: MIT */
/* Text from files and users (names, notes, ids of a foreign ledger or manifest) written into HTML, LaTeX, Markdown
 * and CSV: it reads as it stands there, and contains nothing that those formats, a terminal or a spreadsheet would
 * obey. Control characters become '?'. */
#pragma once

#include <stdio.h>

/* Writes text as it stands in HTML inside an element or attribute; well-formed whatever its bytes are. */
void vt_html(FILE *f, const char *text);
/* Writes markup as it stands and text (vt_html) in turn, up to NULL. */
void vt_html_parts(FILE *f, const char *markup, ...) __attribute__((sentinel));
/* Writes text for TeX, in a paragraph, a cell or a comment. */
void vt_tex(FILE *f, const char *text);
/* Writes text for Markdown, in a paragraph or a cell. */
void vt_md(FILE *f, const char *text);
/* Writes text for Markdown between backticks, which this writes too. */
void vt_md_code(FILE *f, const char *text);
/* Writes a field of RFC 4180, in quotes where it needs them; a ' goes before what a spreadsheet takes for a formula. */
void vt_csv(FILE *f, const char *text);
