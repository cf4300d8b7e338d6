/* SPDX-License-Identifier: MIT */
/* How long a whole run will still take: what its images have cost so far in forwards, how fast that went, and what is
 * still to be done. An estimate for a line of progress; it changes no result. */
#ifndef VT_EVAL_ETA_H
#define VT_EVAL_ETA_H

#include "eval/options.h"

typedef struct vt_eta {
    const vt_eval_options *v;
    double ratio; /* forwards that a gradient costs, by products */
    double began, work;
    double standing, falling; /* forwards behind this stage: of an image that it leaves, of one that it breaks */
    double stage_work;        /* done of this stage, in this run */
    size_t stage_done;
} vt_eta;

void vt_eta_begin(vt_eta *o, const vt_eval_options *v);
/* From here on images of this stage are counted (VT_ENTRY_CLEAN: clean predictions). */
void vt_eta_stage(vt_eta *o, int entry, int stage);
/* One more image, which took so many passes. `done` of `total` images of the stage have a line, `robust` of them stand;
 * returns the seconds that the run will still take. */
double vt_eta_image(vt_eta *o, int64_t forwards, int64_t gradients, size_t done, size_t total, size_t robust);

#endif
