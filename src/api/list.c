/* SPDX-License-Identifier: MIT */
/* What there is to choose from, for menus and bindings: attacks with their options, and norms, from their tables. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "api/api.h"
#include "attacks/attack.h"

int vitrine_list_attack(int i, vitrine_attack_info *out) {
    int n;
    const vt_attack_def *const *defs = vt_attack_defs(&n);
    if (i < 0 || i >= n || !out || out->size != sizeof *out) return 0;
    const vt_attack_def *d = defs[i];
    *out = (vitrine_attack_info){.size = sizeof *out,
                                 .name = d->name,
                                 .summary = d->summary,
                                 .reference = d->reference,
                                 .gradients = d->white_box,
                                 .surrogate = d->surrogate};
    for (int k = 0; k <= VT_NORM_COUNT; k++) {
        size_t at = strlen(out->norms);
        const char *name = k < VT_NORM_COUNT ? vt_norm_name((vt_norm)k) : "patch"; /* VT_CAN_PATCH is the last bit */
        if (d->norms & 1u << k) snprintf(out->norms + at, sizeof out->norms - at, "%s%s", at ? " " : "", name);
    }
    return 1;
}

int vitrine_list_option(const char *attack, int k, vitrine_option_info *out) {
    static const char *const types[] = {[VT_OPT_INT] = "integer",   [VT_OPT_REAL] = "real",     [VT_OPT_BOOL] = "flag",
                                        [VT_OPT_CHOICE] = "choice", [VT_OPT_TRIPLE] = "triple", [VT_OPT_TEXT] = "text"};
    const vt_attack_def *d = attack ? vt_attack_find(attack) : NULL;
    const vt_opt *o = attack ? d ? d->opts : NULL : vt_place_opts;
    if (!o || k < 0 || !out || out->size != sizeof *out) return 0;
    for (; k && o->key; k--) o++;
    void *defaults = o->key ? calloc(1, (d ? d->params_size : sizeof(vt_place)) + 1) : NULL;
    if (!defaults) return 0;
    *out = (vitrine_option_info){.size = sizeof *out,
                                 .name = o->key,
                                 .help = o->help,
                                 .type = types[o->type],
                                 .choices = o->type == VT_OPT_CHOICE ? o->choices : NULL,
                                 .min = o->type == VT_OPT_TEXT ? 0 : o->min,
                                 .max = o->type == VT_OPT_TEXT ? 0 : o->max};
    vt_opt_defaults(d ? d->opts : vt_place_opts, defaults);
    vt_opt_value(o, defaults, out->preset, sizeof out->preset);
    free(defaults);
    return 1;
}

const char *vitrine_list_norm(int i) { return i < 0 || i >= VT_NORM_COUNT ? NULL : vt_norm_name((vt_norm)i); }
