/* SPDX-License-Identifier: MIT */
#include "base/choices.h"

#include <string.h>
#include "base/opt.h"

const vt_arg *vt_arg_find(const vt_arg *table, const char *name) {
    for (const vt_arg *a = table; a && a->name; a++)
        if (!strcmp(a->name, name)) return a;
    return NULL;
}

const char *vt_chosen_nth(const vt_choices *c, const char *name, int i) {
    for (int k = 0; k < c->n; k++)
        if (!strcmp(c->list[k].name, name) && i-- == 0) return c->list[k].value;
    return NULL;
}

bool vt_is_chosen(const vt_choices *c, const char *name) { return vt_chosen(c, name) != NULL; }

const char *vt_chosen(const vt_choices *c, const char *name) {
    for (int k = c->n - 1; k >= 0; k--)
        if (!strcmp(c->list[k].name, name)) return c->list[k].value;
    return NULL;
}

bool vt_choose(vt_choices *c, const char *name, const char *value) {
    if (c->n == VT_CHOICES_MOST) return false;
    c->list[c->n].name = name;
    c->list[c->n++].value = value;
    return true;
}

vt_status vt_chosen_int(const vt_choices *c, const char *name, long long min, long long max, long long absent,
                        long long *out, vt_err *e) {
    const char *text = vt_chosen(c, name);
    *out = absent;
    if (!text) return VT_OK;
    if (!vt_parse_int(text, out))
        return vt_fail(e, VT_E_USAGE, "@%s is '%s', must be a whole number between %lld and %lld", name, text, min,
                       max);
    if (*out < min || *out > max)
        return vt_fail(e, VT_E_USAGE, "@%s is %s, must be between %lld and %lld", name, text, min, max);
    return VT_OK;
}
