/* SPDX-License-Identifier: MIT */
/* Standard input, output and error of every command. */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include "base/columns.h"

/* Standard input, output and error as the commands may rely on them; first of all in main.
 * Descriptors 0 to 2 that are closed are taken, so that no file of a run becomes one of them and gets the messages;
 * they are taken the wrong way round, so that who prints or reads still learns that there is nothing. What is printed
 * passes through vt_text_plain: names, notes and recipes of files reach the terminal as text. On a terminal the lines
 * of standard output are broken between words, before its right edge; into a pipe or file they go as they are. */
void vt_streams_open(void);
/* Columns of the terminal; 80 where there is none. */
int vt_streams_width(void);
/* From here on lines of standard output are broken between words at 80 columns, or the terminal's width if that is
 * less, in a pipe too: for text that is only read. Returns the columns. */
int vt_streams_wrap(void);

/* What follows is set so, where f is a terminal's standard output that may show it: not under NO_COLOR or in a pipe. */
void vt_streams_style(FILE *f, vt_style style);
/* A line of progress on standard error, over the one before it and cut to the terminal's width; last: whole, and it
 * stays. Whatever else is printed next begins a new line. Without a terminal, a line of its own. */
void vt_streams_live(const char *text, bool last);
/* From here on what is printed to standard output is dropped; returns the stream that is not. */
FILE *vt_streams_mute(void);
