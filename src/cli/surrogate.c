/* SPDX-License-Identifier: MIT */
#include "cli/surrogate.h"

#include "cli/known.h"
#include "eval/prepare.h"

vt_status vt_cli_surrogate_open(vt_subject *s, const vt_cli *c, vt_err *e) {
    const char *path = vt_cli_get(c, "surrogate");
    vt_overrides o = {.shown = vt_subject_side(s)};
    vt_err why = {0};
    if (!path) return VT_OK;
    if (vt_prepare_open(&s->surrogate, path, &o, &why) != VT_OK || vt_cli_known_alone(s->surrogate, &why) != VT_OK)
        return vt_fail(e, why.code, "--surrogate: %s", why.text);
    vt_weights_name(s->surrogate_name, sizeof s->surrogate_name, s->surrogate->path);
    return VT_OK;
}
