/* SPDX-License-Identifier: MIT */
/* The figure of a training run, from its log. */
#pragma once

#include "base/status.h"

/* Loss, accuracies and learning rate over the epochs of a training log (one JSON object a line). Step lines hold epoch
 * and lr; epoch lines epoch_end, loss, clean_train, robust_train, clean_probe, robust_probe (shares). What a log does
 * not have is left out; a last line that was cut off is ignored. */
vt_status vt_plot_training(const char *log_jsonl, const char *title, const char *out_svg, vt_err *e);
