/* SPDX-License-Identifier: MIT */
/* Mirror descent on attention: which tokens it selects and in which geometry. Four parts, each in a file of its own;
 * what was measured is in docs/labs.md. */
#include "research/lab/attgd_lab.h"

#include <math.h>
#include <stddef.h>

const vt_attgd_path vt_attgd_paths[VT_ATTGD_PATHS] = {{1.75, 1500}, {2, 2000}, {3, 20000}};

static vt_status run(const void *params, vt_lab *lab, vt_err *e) {
    static vt_status (*const parts[])(const vt_attgd_options *, vt_lab *, vt_err *) = {vt_attgd_local, vt_attgd_joint,
                                                                                       vt_attgd_margin, vt_attgd_rates};
    vt_attgd_options o = *(const vt_attgd_options *)params;
    if (o.quick && o.seeds > 10) o.seeds = 10;
    for (int i = 0; i < 4; i++)
        if (!o.part || o.part == i + 1) VT_TRY(parts[i](&o, lab, e));
    return vt_lab_claim(lab, VT_NOT_TESTED, "l_p descent helps transformers on IMDb and CIFAR-10", e,
                        "those experiments need downloads and days; the theorem is about one merged matrix W, not W_Q "
                        "and W_K");
}

static const vt_opt opts[] = {
    VT_OPT_C("part", vt_attgd_options, part, "which experiment", "all|local|joint|margin|rates", 0),
    VT_OPT_I("seeds", vt_attgd_options, seeds, "random problems of the local part", 100, 2, 10000),
    VT_OPT_B("quick", vt_attgd_options, quick, "few problems and fewer steps: seconds, and weaker evidence", 0),
    VT_OPT_END,
};

const vt_lab_def vt_lab_def_attgd = {
    .name = "attgd",
    .summary = "l_p mirror descent on attention: selected tokens, geometry, rates",
    .source = "Julistiono, Tarzanagh, Azizan: Optimizing Attention with Mirror Descent, arXiv 2410.14581; part margin: "
              "Sun et al., arXiv 2205.12808",
    .opts = opts,
    .params_size = sizeof(vt_attgd_options),
    .run = run,
};
