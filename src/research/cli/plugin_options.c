/* SPDX-License-Identifier: MIT */
#include "research/cli/plugin_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether two keys are equal; _ in tables may be typed as - on the command line. */
static bool same_key(const char *a, const char *b) {
    for (; *a && *b; a++, b++)
        if (*a != *b && !(strchr("-_", *a) && strchr("-_", *b))) return false;
    return *a == *b;
}

/* The option of that key, with - or _; NULL: none. */
static const vt_opt *find_opt(const vt_plugin_options *own, const char *key) {
    for (const vt_opt *o = own->opts; o && o->key; o++)
        if (same_key(o->key, key)) return o;
    return NULL;
}

/* VT_E_UNKNOWN with the nearest of its own and the command's options, and a list of its own. */
static vt_status fail_unknown_option(const vt_plugin_options *own, const vt_cli *c, const char *key, vt_err *e) {
    enum { MOST = 128 };
    const char *names[MOST];
    char all[400] = "";
    size_t n = 0;
    for (const vt_opt *o = own->opts; o && o->key && n < MOST / 2; o++) {
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", n ? ", " : "", o->key);
        names[n++] = o->key;
    }
    for (const vt_arg *a = c->command->args; a && a->name && n < MOST; a++) names[n++] = a->name;
    const char *near = vt_nearest(key, names, n);
    return vt_fail(e, VT_E_UNKNOWN, "%s %s has no option '%s'%s%s%s; its options are: %s", own->what, own->name, key,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "", *all ? all : "none");
}

vt_status vt_plugin_options_find(const vt_plugin_options *own, const vt_cli *c, const char *key, vt_arg *out,
                                 vt_err *e) {
    const vt_opt *o = find_opt(own, key);
    if (!o) return fail_unknown_option(own, c, key, e);
    *out = (vt_arg){o->key, o->type == VT_OPT_BOOL ? NULL : "VALUE", o->help, VT_OF_RUN};
    return VT_OK;
}

/* Sets one option in params; key with - or _. VT_E_UNKNOWN, or vt_opt_set's failure. */
static vt_status set_option(const vt_plugin_options *own, const vt_cli *c, void *params, const char *key,
                            const char *value, vt_err *e) {
    char who[80];
    const vt_opt *o = find_opt(own, key);
    snprintf(who, sizeof who, "%s %s", own->what, own->name);
    return o ? vt_opt_set(own->opts, params, o->key, value, who, e) : fail_unknown_option(own, c, key, e);
}

/* Sets an option in params from the key=value of --set; VT_E_USAGE if it is none, or set_option's failure. */
static vt_status set_pair(const vt_plugin_options *own, const vt_cli *c, void *params, const char *pair, vt_err *e) {
    char key[64];
    size_t n = strcspn(pair, "=");
    if (!pair[n] || n == 0 || n >= sizeof key)
        return vt_fail(e, VT_E_USAGE, "--set takes key=value, but '%s' was given", pair);
    snprintf(key, sizeof key, "%.*s", (int)n, pair);
    return set_option(own, c, params, key, pair + n + 1, e);
}

vt_status vt_plugin_options_parse(const vt_plugin_options *own, const vt_cli *c, size_t size, void **params,
                                  vt_err *e) {
    *params = calloc(1, size + 1);
    if (!*params) return vt_fail(e, VT_E_MEMORY, "no memory for %s %s", own->what, own->name);
    vt_opt_defaults(own->opts, *params);
    for (int i = 0; i < c->given.n; i++) {
        const vt_arg *a = c->row[i];
        const char *value = a->value ? c->given.list[i].value : "1";
        if (a >= c->more && a < c->more + c->n_more) VT_TRY(set_option(own, c, *params, a->name, value, e));
        if (!strcmp(a->name, "set")) VT_TRY(set_pair(own, c, *params, value, e));
    }
    return VT_OK;
}
