/* SPDX-License-Identifier: MIT */
/* Any bytes as an ONNX file are refused with one sentence, or are a network: then its forward and its vjp can be
 * computed, in float, within the plan's memory. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "graph/network.h"
#include "graph/op.h"
#include "graph/run.h"
#include "graph/windows.h"
#include "scratch.h"

enum { MOST_REALS = 1 << 22 }; /* larger ones are planned, not computed */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void compute(const vt_network *n) {
    const size_t pixels = vt_shape_values(n->shape);
    double forward, gradient;
    vt_arena measure = {0};
    vt_graph_run_f32 run;
    vt_graph_flops(n->g, &forward, &gradient);
    for (int i = 0; i < n->g->n_nodes; i++) { /* pools count as nothing there */
        const vt_node *k = &n->g->nodes[i];
        const char *op = vt_op_at_f32(k->op)->name;
        if (strstr(op, "Pool") && strncmp(op, "Global", 6) != 0)
            forward += 10 * (double)((const vt_windows *)k->with)->taps * (double)n->g->values[k->out].n;
    }
    if (n->plan[1].reals > MOST_REALS || pixels > MOST_REALS || forward > 1e8) return;
    vt_graph_run_plan_f32(&run, n->g, &n->plan[1], &measure);
    vt_arena a = {.base = malloc(measure.used + 64), .size = measure.used + 64};
    float *x = calloc(2 * pixels + 2 * (size_t)n->classes, sizeof *x), *dx = x + pixels, *z = dx + pixels;
    if (!a.base || !x) abort();
    vt_graph_run_plan_f32(&run, n->g, &n->plan[1], &a);
    for (size_t i = 0; i < pixels; i++) x[i] = (float)(i % 7) / 7;
    vt_graph_forward_f32(&run, z, x);
    vt_graph_backward_f32(&run, dx, z, x);
    free(a.base), free(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static const char *file;
    vt_network *net;
    vt_err e = {0};
    if (!file) file = scratch("net.onnx");
    scratch_write(file, bytes, n);
    for (int as_file = 0; as_file < 2; as_file++) {
        vt_status s = vt_network_open(&net, file, &(vt_import_options){.as_file = as_file}, &e);
        if ((s == VT_OK) != (net != NULL) || (s != VT_OK && (!e.text[0] || strchr(e.text, '\n')))) abort();
        if (net) compute(net);
        vt_network_close(net);
    }
    return 0;
}
