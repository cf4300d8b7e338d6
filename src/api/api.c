/* SPDX-License-Identifier: MIT */
#include "api/api.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "attacks/attack.h"
#include "linalg/gemm.h"
#include "parallel/threads.h"
#include "base/version.h"

_Static_assert((int)VITRINE_INTERRUPTED == VT_INTERRUPTED && (int)VITRINE_E_USAGE == VT_E_USAGE &&
                   (int)VITRINE_E_IO == VT_E_IO && (int)VITRINE_E_FORMAT == VT_E_FORMAT &&
                   (int)VITRINE_E_SHAPE == VT_E_SHAPE && (int)VITRINE_E_RANGE == VT_E_RANGE &&
                   (int)VITRINE_E_MEMORY == VT_E_MEMORY && (int)VITRINE_E_FORBIDDEN == VT_E_FORBIDDEN &&
                   (int)VITRINE_E_NUMERIC == VT_E_NUMERIC && (int)VITRINE_E_UNKNOWN == VT_E_UNKNOWN &&
                   (int)VITRINE_E_MODEL == VT_E_MODEL,
               "public statuses are ours");

const char *vitrine_version(void) { return VT_VERSION; }

/* Names a status; VT_STOP is between attacks and evaluations, and has no public number: "unknown status". */
const char *vitrine_status_name(vitrine_status s) {
    return (int)s == VT_STOP ? vt_status_name((vt_status)-1) : vt_status_name((vt_status)s);
}

void vitrine_free(void *p) { free(p); }

/* ---- failures ---- */

/* A caller gives arguments, not the options of a command line, which is never linked with this file. */
bool vt_bare_arguments(void) { return true; }

vitrine_status vt_api_end(vitrine_err *e, vt_status s, const vt_err *why) {
    if (e) {
        e->code = (vitrine_status)s;
        snprintf(e->text, sizeof e->text, "%s", s == VT_OK ? "" : *why->text ? why->text : vt_status_name(s));
    }
    return (vitrine_status)s;
}

vitrine_status vt_api_usage(vitrine_err *e, const char *fmt, ...) {
    vt_err why = {.code = VT_E_USAGE};
    va_list args;
    va_start(args, fmt);
    vsnprintf(why.text, sizeof why.text, fmt, args);
    va_end(args);
    return vt_api_end(e, VT_E_USAGE, &why);
}

bool vt_api_missing(const char *who, const char *names, const void *const *given, size_t n, vitrine_err *e) {
    for (size_t i = 0; i < n; i++, names += strcspn(names, ",") + strlen(", ")) {
        if (given[i]) continue;
        vt_api_usage(e, "%s: %.*s is NULL", who, (int)strcspn(names, ","), names);
        return true;
    }
    return false;
}

void vt_api_say(void *listener, const char *text, bool live) {
    const vitrine_listener *l = listener;
    (void)live;
    l->say(l->ctx, text);
}

/* ---- the environment ---- */

/* Returns the i-th of what the command sets, and is not set, before it starts itself again (cli/early, cli/main). */
const char *vitrine_environment(int i) {
    if (i < 0) return NULL;
    static const char *const fixed[] = {"OPENBLAS_NUM_THREADS=1", "OMP_WAIT_POLICY=passive"};
    static const char *const cores[] = {"OPENBLAS_CORETYPE=Haswell", "OPENBLAS_CORETYPE=SkylakeX"};
    const char *better = vt_blas_better_kernel();
    for (int k = 0; k < 2; k++) {
        size_t name = strcspn(fixed[k], "=");
        char key[40];
        snprintf(key, sizeof key, "%.*s", (int)name, fixed[k]);
        if (!getenv(key) && i-- == 0) return fixed[k];
    }
    for (int k = 0; better && !getenv("OPENBLAS_CORETYPE") && k < 2; k++)
        if (!strcmp(strchr(cores[k], '=') + 1, better) && i-- == 0) return cores[k];
    return NULL;
}

/* ---- options ---- */

vt_status vt_api_options_read(vt_api_options *o, const char *call, const char *const *options, const vt_arg *known,
                              vt_err *e) {
    memset(o, 0, sizeof *o);
    for (int i = 0; options && options[i]; i++) {
        if (i == VT_CHOICES_MOST) return vt_fail(e, VT_E_USAGE, "%s: more than %d options", call, VT_CHOICES_MOST);
        char *copy = o->copies[i] = strdup(options[i]);
        if (!copy) return vt_fail(e, VT_E_MEMORY, "%s: no memory for its options", call);
        char *value = strchr(copy, '=');
        if (value) *value++ = 0;
        const vt_arg *a = vt_arg_find(known, copy);
        if (!a) return vt_fail(e, VT_E_UNKNOWN, "%s: unknown option '%.100s'", call, copy);
        if (a->value && !value) return vt_fail(e, VT_E_USAGE, "%s: %s needs a value: %s=VALUE", call, copy, copy);
        if (!a->value && value)
            return vt_fail(e, VT_E_USAGE, "%s: %s takes no value, but '%.100s' was given", call, copy, value);
        vt_choose(&o->c, copy, value ? value : "");
    }
    return VT_OK;
}

void vt_api_options_free(vt_api_options *o) {
    for (int i = 0; i < VT_CHOICES_MOST; i++) free(o->copies[i]);
}

vt_status vt_api_threads(const vitrine_model *m, int asked, int *threads, vt_err *e) {
    *threads = asked;
    if (asked < 0 || asked > VT_THREADS_MOST)
        return vt_fail(e, VT_E_USAGE, "threads is %d, must be 0 (all processors) to %d", asked, VT_THREADS_MOST);
    if (!asked) VT_TRY(vt_thread_count(threads, e));
    if (m && (m->subject.remote || (m->subject.own && !m->own.c.parallel))) *threads = 1;
    return VT_OK;
}

const char *vt_api_real(char *out, double value) {
    enum { ROOM = 40, DIGITS = 17 };
    for (int digits = 6; digits <= DIGITS; digits++) {
        snprintf(out, ROOM, "%.*g", digits, value);
        if (strtod(out, NULL) == value) break;
    }
    return out;
}

vt_status vt_api_norm(const char *name, vt_norm *norm, vt_err *e) {
    if (vt_norm_find(name, norm)) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "norm is '%.40s', must be linf, l2, l1 or l0", name);
}

/* ---- what there is to choose from, for menus and bindings ---- */

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
    for (int k = 0; k <= VT_NORM_ROTATION; k++) {
        size_t at = strlen(out->norms);
        const char *name = k < VT_NORM_COUNT ? vt_norm_name((vt_norm)k) : k == VT_NORM_PATCH ? "patch" : "rotation";
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
