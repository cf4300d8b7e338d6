/* SPDX-License-Identifier: MIT */
/* What all HTML pages share: head and style, light and dark, for screens from a phone to a wide monitor. Pages hold
 * no script and load nothing from a network; they are well-formed XML too, so that any parser can check them. */
#pragma once

#include <stdio.h>
#include "base/status.h"
#include "data/image.h"

/* Down into the style, to which rules may be added before vt_page_main opens the page's <main>; title: as it reads. */
void vt_page_begin(FILE *f, const char *title);
void vt_page_main(FILE *f);
void vt_page_end(FILE *f);
/* Between the two: from `width` pixels down rows of the tables of class `name` become blocks, the text of data-of in
 * front of each cell. */
void vt_page_blocks(FILE *f, const char *name, int width);
/* <p>, text as it reads. */
void vt_page_paragraph(FILE *f, const char *kind, const char *text);
/* The picture as a data URI of a PNG, for an attribute. */
vt_status vt_page_picture(FILE *f, const vt_image *im, vt_err *e);
