/* SPDX-License-Identifier: MIT */
/* Opens a network and its specification together. */
#include "checkpoint/onnx_file.h"
#include "spec/falsify.h"

/* VT_E_SHAPE unless network and specification have as many inputs and outputs, VT_E_RANGE unless a checkpoint's boxes
 * are in [0,1]. */
static vt_status check_fit(const vt_spec_pair *p, const char *model, const char *spec, vt_err *e) {
    const vt_spec *s = p->spec;
    if (s->inputs != p->network.inputs || s->outputs != p->network.outputs)
        return vt_fail(e, VT_E_SHAPE, "%s: declares %d inputs and %d outputs, %s has %d and %d", spec, s->inputs,
                       s->outputs, model, p->network.inputs, p->network.outputs);
    for (int b = 0; p->model && b < s->n_boxes; b++)
        for (int i = 0; i < s->inputs; i++)
            if (s->boxes[b].lo[i] < 0 || s->boxes[b].hi[i] > 1)
                return vt_fail(e, VT_E_RANGE,
                               "%s: X_%d lies in [%g,%g], but %s takes pixels in [0,1] and normalises them itself; an "
                               "ONNX file takes what it was exported for",
                               spec, i, s->boxes[b].lo[i], s->boxes[b].hi[i], model);
    return VT_OK;
}

/* Opens p->graph if the file is ONNX (also .onnx.gz), which ignores o, else p->model. */
static vt_status open_network(vt_spec_pair *p, const char *model, const vt_overrides *o, vt_err *e) {
    if (!vt_is_onnx(model) && !vt_ends_in(model, ".onnx.gz")) return vt_model_open(&p->model, model, o, e);
    return vt_network_open(&p->graph, model, &(vt_import_options){.as_file = true}, e);
}

vt_status vt_spec_pair_open(vt_spec_pair *p, const char *model, const char *spec, const vt_overrides *o, vt_err *e) {
    *p = (vt_spec_pair){0};
    vt_status s = vt_spec_open(&p->spec, spec, e);
    if (s == VT_OK) s = open_network(p, model, o, e);
    if (s == VT_OK) vt_spec_network_of(&p->network, p->graph, p->model);
    if (s == VT_OK) s = check_fit(p, model, spec, e);
    if (s != VT_OK) vt_spec_pair_close(p);
    return s;
}

void vt_spec_pair_close(vt_spec_pair *p) {
    vt_spec_close(p->spec);
    vt_network_close(p->graph);
    vt_model_close(p->model);
    *p = (vt_spec_pair){0};
}
