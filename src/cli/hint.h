/* SPDX-License-Identifier: MIT */
/* Before hours go into a wrongly read model: its accuracy on a few images, and a line on stderr where that is low. */
#pragma once

#include "data/dataset.h"
#include "models/model.h"

/* Looks at up to 64 of the images (NULL: of the whole split), spread evenly. Changes no result; what cannot be tried is
 * passed over. */
void vt_cli_hint(const vt_model *m, const vt_dataset *data, const int32_t *images, size_t n, int threads);
