/* SPDX-License-Identifier: MIT */
#include "cli/dry_run.h"

#include <stdio.h>
#include <sys/resource.h>
#include "models/arch.h"

double vt_resident_mb(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_maxrss / 1024;
}

/* Measured; products too small for oneDNN (core/gemm.c) take next to nothing. */
double vt_libraries_mb(const vt_model *m, int threads) {
    double product = (double)vt_model_tokens(m) * m->config.dim * m->config.dim;
    return product < 1e6 ? 1 : 4 + 2.0 * threads;
}

vt_status vt_cli_hours(double *hours, const vt_model *m, double flops, int threads, vt_err *e) {
    double forward, gradient;
    vt_seconds s;
    VT_TRY(vt_measure_seconds(&s, m, threads, e));
    vt_arch_find(m->config.arch)->flops(&m->config, true, &forward, &gradient);
    *hours = flops / (forward + gradient) * (s.forward + s.gradient) / threads / 3600;
    return VT_OK;
}

vt_status vt_dry_run(vt_eval_options *v, vt_err *e) {
    vt_seconds s;
    vt_eval_fit(v);
    double before = vt_resident_mb(), more = (double)vt_eval_bytes(v) / 1048576;
    VT_TRY(vt_measure_seconds(&s, v->subject->model, v->threads, e));
    vt_cost_estimate_print(stdout, v, &s);
    printf("memory: %.0f MB peak with %d thread%s\n", before + more + vt_libraries_mb(v->subject->model, v->threads),
           v->threads, v->threads == 1 ? "" : "s");
    return VT_OK;
}
