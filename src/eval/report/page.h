/* SPDX-License-Identifier: MIT */
/* What all HTML pages share: head and style, light and dark, for screens from a phone to a wide monitor. Pages hold
 * no script and load nothing from a network; they are well-formed XML too, so that any parser can check them. */
#pragma once

#include <stdio.h>
#include "base/status.h"
#include "data/image.h"

#define VT_PAGE_START "<!DOCTYPE html>" /* what all pages begin with */
/* Writes a page down into its style, to which rules may be added before vt_page_main; title: unescaped text. */
void vt_page_begin(FILE *f, const char *title);
/* Ends the style and opens the page's <main>. */
void vt_page_main(FILE *f);
/* Ends the page. */
void vt_page_end(FILE *f);
/* Writes rules between vt_page_begin and vt_page_main: from `width` pixels down, rows of tables of class `name` become
 * blocks, the text of data-of in front of each cell. */
void vt_page_blocks(FILE *f, const char *name, int width);
/* Writes a <p> of class `kind` ("": none) with unescaped text. */
void vt_page_paragraph(FILE *f, const char *kind, const char *text);
/* Writes the picture as a data URI of a PNG, for an attribute. VT_E_MEMORY; a write error is left in f. */
vt_status vt_page_picture(FILE *f, const vt_image *im, vt_err *e);
