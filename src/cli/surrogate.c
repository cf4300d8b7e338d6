/* SPDX-License-Identifier: MIT */
#include "cli/surrogate.h"

#include <stdio.h>
#include "cli/known.h"
#include "eval/prepare.h"

vt_status vt_cli_surrogate_open(vt_subject *s, const vt_cli *c, vt_err *e) {
    const char *path = vt_cli_get(c, "surrogate"), *where = vt_cli_get(c, "surrogate-oracle");
    vt_overrides o = {.shown = vt_subject_side(s)};
    vt_err why = {0};
    if (path && where) return vt_fail(e, VT_E_USAGE, "give --surrogate or --surrogate-oracle, not both");
    if (where) {
        VT_TRY(vt_subject_remote(&s->surrogate_remote, &s->surrogate, &c->given, where, e));
        vt_remote_interruptible(s->surrogate_remote, vt_cli_interruptible());
        snprintf(s->surrogate_name, sizeof s->surrogate_name, "%s", vt_remote_hello(s->surrogate_remote)->name);
        if (vt_remote_hello(s->surrogate_remote)->vjp) return VT_OK;
        return vt_fail(e, VT_E_USAGE, "--surrogate-oracle %.200s gives no gradients (vjp is false)", where);
    }
    if (!path) return VT_OK;
    if (vt_prepare_open(&s->surrogate, path, &o, &why) != VT_OK || vt_cli_known_alone(s->surrogate, &why) != VT_OK)
        return vt_fail(e, why.code, "--surrogate: %s", why.text);
    vt_weights_name(s->surrogate_name, sizeof s->surrogate_name, s->surrogate->path);
    return VT_OK;
}
