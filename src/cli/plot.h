/* SPDX-License-Identifier: MIT */
/* Figures as SVG, drawn by gnuplot where it is installed. The script holds its data and goes to gnuplot's standard
 * input, so no file name reaches it but as a label; the same script gives the same bytes of one gnuplot version. */
#ifndef VT_CLI_PLOT_H
#define VT_CLI_PLOT_H

#include <stdbool.h>
#include <stdio.h>
#include "core/status.h"

/* VT_OK, or the sentence that vt_plot_svg would fail with: for a command to ask before it works for hours. */
vt_status vt_plot_check(vt_err *e);
bool vt_plot_available(void);

/* Runs gnuplot on script_body, which holds its data as $NAME << EOD blocks and finds the terminal and the title set (of
 * several panels: set multiplot ... title picture noenhanced); out_svg appears complete or not at all. title: one line
 * of any text, the picture's <title> too. */
vt_status vt_plot_svg(const char *out_svg, const char *title, const char *script_body, vt_err *e);

/* The same of a script that write(f, data) puts together. */
vt_status vt_plot_written(const char *out_svg, const char *title, void (*write)(FILE *script, const void *data),
                          const void *data, vt_err *e);

/* Text (a path) as a string of gnuplot's, in which nothing is special. */
void vt_plot_quote(FILE *script, const char *text);

/* Loss and learning rate, and accuracies, over the epochs of a training log (one JSON object a line). Step lines hold
 * epoch and lr; epoch lines epoch_end, loss, clean_train, robust_train, clean_probe, robust_probe (shares). What a log
 * does not have is left out; a last line that was cut off is ignored. */
vt_status vt_plot_training(const char *log_jsonl, const char *title, const char *out_svg, vt_err *e);

#endif
