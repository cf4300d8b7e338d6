/* SPDX-License-Identifier: MIT */
/* A network of an ONNX file (graph/network.h): whatever its operators make of it, without blocks or parameters of ours.
 */
#include "graph/network.h"
#include "models/arch.h"

static bool recognises(const vt_tensors *st) {
    (void)st;
    return false; /* checkpoint/onnx_file opens them */
}

static vt_status detect(const vt_tensors *st, vt_config *c, vt_source src, vt_err *e) {
    (void)c, (void)src;
    return vt_fail(e, VT_E_FORMAT, "%s: is no ONNX file", vt_tensors_path(st));
}

static vt_status check(const vt_config *c, const char *path, vt_err *e) {
    (void)c;
    return vt_fail(e, VT_E_USAGE, "%s: a network of this kind is made from an ONNX file alone", path);
}

static void params(vt_param_list *l, const vt_config *c) { (void)l, (void)c; }
static int blocks(const vt_config *c) {
    (void)c;
    return 0;
}

static void flops(const vt_config *c, bool alone, double *forward, double *gradient) {
    (void)alone;
    vt_graph_flops(c->network->g, forward, gradient);
}

extern const vt_arch vt_arch_onnx;
const vt_arch vt_arch_onnx = {
    .name = "onnx",
    .summary = "any network of an ONNX file",
    .recognises = recognises,
    .detect = detect,
    .check = check,
    .params = params,
    .blocks = blocks,
    .flops = flops,
    .no_token_maps = true,
};
