/* SPDX-License-Identifier: MIT */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>
#include "cli/script.h"
#include "cli/streams.h"
#include "core/opt.h"
#include "core/threads.h"

const char *vt_cli_nth(const vt_cli *c, const char *name, int i) {
    for (int k = 0; k < c->n_given; k++)
        if (!strcmp(c->given[k].arg->name, name) && i-- == 0) return c->given[k].value;
    return NULL;
}

bool vt_cli_has(const vt_cli *c, const char *name) {
    for (int k = 0; k < c->n_given; k++)
        if (!strcmp(c->given[k].arg->name, name)) return true;
    return false;
}

const char *vt_cli_get(const vt_cli *c, const char *name) {
    for (int k = c->n_given - 1; k >= 0; k--)
        if (!strcmp(c->given[k].arg->name, name)) return c->given[k].value;
    return NULL;
}

vt_status vt_cli_int(const vt_cli *c, const char *name, long long min, long long max, long long absent, long long *out,
                     vt_err *e) {
    const char *text = vt_cli_get(c, name);
    *out = absent;
    if (!text) return VT_OK;
    if (!vt_parse_int(text, out))
        return vt_fail(e, VT_E_USAGE, "--%s is '%s', must be a whole number between %lld and %lld", name, text, min,
                       max);
    if (*out < min || *out > max)
        return vt_fail(e, VT_E_USAGE, "--%s is %s, must be between %lld and %lld", name, text, min, max);
    return VT_OK;
}

vt_status vt_cli_threads(const vt_cli *c, long long *out, vt_err *e) {
    int usual = 1;
    if (!vt_cli_has(c, "threads")) VT_TRY(vt_thread_count(&usual, e));
    return vt_cli_int(c, "threads", 1, VT_THREADS_MOST, usual, out, e);
}

static vt_status triple(const vt_cli *c, const char *name, bool *has, double out[3], vt_err *e) {
    const char *text = vt_cli_get(c, name);
    if (!text) return VT_OK;
    if (!vt_parse_triple(text, out))
        return vt_fail(e, VT_E_USAGE,
                       "--%s is '%s', must be three numbers separated by commas (or one for all channels)", name, text);
    *has = true;
    return VT_OK;
}

/* "post_norm=1 act=relu" is two forms, as in a preset or a recipe. The words live as long as the process, which reads
 * them once. */
static vt_status take_forms(const vt_cli *c, vt_overrides *o, vt_err *e) {
    static char words[4096];
    size_t used = 0;
    const char *text;
    for (int i = 0; (text = vt_cli_nth(c, "form", i)); i++)
        for (const char *p = text + strspn(text, " "); *p; p += strspn(p, " ")) {
            size_t n = strcspn(p, " ");
            if (o->n_form == sizeof o->form / sizeof *o->form || used + n >= sizeof words)
                return vt_fail(e, VT_E_USAGE, "--form is given more than %d times, or is too long", o->n_form);
            o->form[o->n_form++] = memcpy(words + used, p, n);
            words[used + n] = 0;
            used += n + 1, p += n;
        }
    return VT_OK;
}

vt_status vt_cli_overrides(const vt_cli *c, vt_overrides *o, vt_err *e) {
    memset(o, 0, sizeof *o);
    long long heads, image;
    VT_TRY(vt_cli_int(c, "heads", 1, 16384, 0, &heads, e));
    o->heads = (int)heads;
    VT_TRY(vt_cli_int(c, "image-size", 1, 4096, 0, &image, e));
    o->image = (int)image;
    VT_TRY(triple(c, "mean", &o->has_mean, o->mean, e));
    VT_TRY(triple(c, "std", &o->has_std, o->std, e));
    const char *eps = vt_cli_get(c, "ln-eps");
    if (eps && (!vt_parse_real(eps, &o->ln_eps) || !(o->ln_eps > 0)))
        return vt_fail(e, VT_E_USAGE, "--ln-eps is '%s', must be a number above 0 (timm's ViT: 1e-6)", eps);
    o->attn_scale = vt_cli_get(c, "attn-scale");
    o->preset = vt_cli_get(c, "preset");
    o->attn = vt_cli_get(c, "attn");
    o->names = vt_cli_get(c, "names");
    o->part = vt_cli_get(c, "part");
    return take_forms(c, o, e);
}

vt_status vt_cli_open(vt_model **out, const char *path, const vt_overrides *o, vt_err *e) {
    VT_TRY(vt_model_open(out, path, o, e));
    vt_status s = vt_model_prepare(*out, e);
    if (s != VT_OK) vt_model_close(*out), *out = NULL;
    return s;
}

vt_status vt_cli_model(const vt_cli *c, vt_model **out, vt_err *e) {
    vt_overrides o;
    VT_TRY(vt_cli_overrides(c, &o, e));
    return vt_cli_open(out, c->positional[0], &o, e);
}

static volatile sig_atomic_t interrupted;

static void on_signal(int number) {
    interrupted = 1;
    signal(number, SIG_DFL);
}

const volatile sig_atomic_t *vt_cli_interruptible(void) {
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    return &interrupted;
}

void vt_cli_show(void *ctx, const char *text, bool live) {
    (void)ctx;
    if (!vt_script_quiet()) vt_streams_live(text, !live);
}

vt_look vt_cli_look(const vt_cli *c) {
    return (vt_look){vt_cli_has(c, "verbose") ? 0 : vt_streams_width(), vt_streams_style};
}
