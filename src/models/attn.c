/* SPDX-License-Identifier: MIT */
#include "models/attn.h"

#include <stdio.h>
#include <string.h>
#include "base/real.h"

/* Both copies of a variant's file hold its description; the float one stands for them. */
#define VT_KIND vt_attn
#define VT_KIND_NAME(x) VT_R(vt_attn_is_##x)
#define VT_KIND_LIST "attns.inc"
#include "base/registry.inc"

const vt_attn *const *vt_attns(int *n) {
    *n = COUNT;
    return defs;
}

const vt_attn *vt_attn_find(const char *text) {
    size_t n = strcspn(text, ":");
    for (int i = 0; i < COUNT; i++)
        if (strlen(defs[i]->name) == n && !strncmp(defs[i]->name, text, n)) return defs[i];
    return NULL;
}

/* VT_E_UNKNOWN for an attention variant, with the nearest name. */
static vt_status fail_unknown_variant(const char *text, vt_err *e) {
    const char *names[COUNT];
    char name[32];
    size_t n = 0;
    for (; n < COUNT; n++) names[n] = defs[n]->name;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, ":"), text);
    return vt_fail_unknown("attention variant", name, names, n, "vitrine list models", e);
}

bool vt_attn_may_be_few(const vt_config *c, int n_read, int tokens) {
    bool plain = vt_attn_find(c->attn)->dot && !c->qk_norm && vt_config_attn_dim(c) == c->dim;
    return plain && n_read > 0 && n_read * (c->heads + 1) <= tokens;
}

vt_status vt_attn_parse(vt_attn_spec *out, const char *text, vt_err *e) {
    memset(out, 0, sizeof *out);
    const vt_attn *is = out->is = vt_attn_find(text);
    if (!is) return fail_unknown_variant(text, e);
    const char *given = text + strcspn(text, ":");
    if (*given && !given[1]) return vt_fail(e, VT_E_USAGE, "attention '%s' ends in a colon", text);
    char who[48], options[200];
    snprintf(who, sizeof who, "attention %s", is->name);
    vt_opt_defaults(is->opts, &out->options);
    VT_TRY(vt_opt_parse(is->opts, &out->options, *given ? given + 1 : "", who, e));
    vt_opt_text(is->opts, &out->options, options, sizeof options);
    int n = snprintf(out->text, sizeof out->text, "%s%s%s", is->name, *options ? ":" : "", options);
    if (n >= VT_ATTN_TEXT)
        return vt_fail(e, VT_E_RANGE, "attention '%s' takes %d bytes with all options written out, at most %d", text, n,
                       VT_ATTN_TEXT - 1);
    out->needs = is->needs ? is->needs(&out->options) : 0;
    return VT_OK;
}
