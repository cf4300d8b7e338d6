/* SPDX-License-Identifier: MIT */
#include "cli/surrogate.h"

#include "cli/known.h"
#include "eval/prepare.h"

vt_status vt_cli_surrogate_open(vt_cli_surrogate *s, const vt_cli *c, int side, vt_err *e) {
    const char *path = vt_cli_get(c, "surrogate");
    vt_overrides o = {.shown = side};
    vt_err why = {0};
    if (!path) return VT_OK;
    if (vt_prepare_open(&s->model, path, &o, &why) != VT_OK || vt_cli_known_alone(s->model, &why) != VT_OK)
        return vt_fail(e, why.code, "--surrogate: %s", why.text);
    vt_weights_name(s->name, sizeof s->name, s->model->path);
    return VT_OK;
}

void vt_cli_surrogate_close(vt_cli_surrogate *s) {
    vt_model_close(s->model);
    *s = (vt_cli_surrogate){0};
}
