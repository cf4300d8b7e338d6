/* SPDX-License-Identifier: MIT */
#include "cli/run_args.h"

#include <math.h>
#include "cli/known.h"
#include "core/opt.h"
#include "io/image_list.h"

vt_status vt_cli_norm(const vt_cli *c, vt_norm *out, vt_err *e) {
    const char *text = vt_cli_get(c, "norm");
    *out = VT_LINF;
    if (!text || vt_norm_find(text, out)) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "--norm is '%s', must be linf, l2, l1 or l0", text);
}

vt_status vt_cli_eps(const char *text, vt_norm norm, double *out, vt_err *e) {
    if (!text)
        return vt_fail(e, VT_E_USAGE, "attacks need --eps, in pixel units: 8/255, 0.031 (linf), 0.5 (l2) or 12 (l1)");
    if (!vt_parse_real(text, out))
        return vt_fail(e, VT_E_USAGE, "--eps is '%s', which is neither a fraction like 8/255 nor a number like 0.031",
                       text);
    if (!(*out > 0)) return vt_fail(e, VT_E_USAGE, "--eps is %s, must be above 0", text);
    if (norm == VT_LINF && !(*out <= 1)) {
        if (*out <= 255)
            return vt_fail(e, VT_E_USAGE,
                           "--eps is %s, but linf eps is in pixel units of [0,1] and at most 1; did you mean %s/255?",
                           text, text);
        return vt_fail(e, VT_E_USAGE, "--eps is %s, but linf eps is in pixel units of [0,1] and at most 1", text);
    }
    /* 0.1 is a change of 25 grey levels in one value of one pixel, and none elsewhere */
    if (norm == VT_L1 && *out < 0.1)
        return vt_fail(e, VT_E_USAGE,
                       "--eps is %s, but an l1 radius is the sum over all values of an image and at least 0.1 (12 is "
                       "usual for 32x32 pixels); did you mean --norm linf?",
                       text);
    if (norm == VT_L0 && *out != floor(*out))
        return vt_fail(e, VT_E_USAGE,
                       "--eps is %s, but an l0 radius counts the values that may change, three a pixel: a whole number",
                       text);
    if (!(*out <= 1e6)) return vt_fail(e, VT_E_USAGE, "--eps is %s, must be at most 1e6", text);
    return VT_OK;
}

vt_status vt_cli_images(const vt_cli *c, const vt_dataset *d, int32_t **out, size_t *n, vt_err *e) {
    return vt_image_list(out, n, vt_cli_get(c, "images"), d, e);
}

vt_status vt_cli_weights(const vt_cli *c, const char **weights, vt_err *e) {
    const char *oracle = vt_cli_get(c, "oracle");
    *weights = c->n_positional ? c->positional[0] : NULL;
    if (!*weights && !oracle)
        return vt_fail(e, VT_E_USAGE, "vitrine %s needs %s (see 'vitrine help %s')", c->command->name, "WEIGHTS",
                       c->command->name);
    if (*weights && oracle)
        return vt_fail(e, VT_E_USAGE, "give WEIGHTS (%.100s) or --oracle, not both: one model is judged", *weights);
    return VT_OK;
}

vt_status vt_cli_subject(const vt_cli *c, vt_subject *s, int32_t first, vt_err *e) {
    const char *weights;
    VT_TRY(vt_cli_weights(c, &weights, e));
    VT_TRY(vt_subject_open(s, &c->given, weights, first, e));
    if (s->remote) vt_remote_interruptible(s->remote, vt_cli_interruptible());
    if (!s->remote) VT_TRY(vt_cli_known(c, s->model, e));
    return vt_subject_fit(s, &c->given, first, e);
}

vt_status vt_cli_pace(const vt_cli *c, const vt_subject *s, int *threads, int *batch, vt_err *e) {
    enum { MOST = 64 };
    long long n = 1;
    if (!s->remote || vt_cli_has(c, "threads")) VT_TRY(vt_cli_threads(c, &n, e));
    *threads = (int)n;
    if (!batch) return VT_OK;
    VT_TRY(vt_cli_batch(c, batch, e));
    int takes = s->remote ? vt_remote_hello(s->remote)->batch : 1;
    if (s->remote && !vt_cli_has(c, "batch")) *batch = takes < MOST ? takes : MOST;
    return VT_OK;
}

vt_status vt_cli_data(const vt_cli *c, vt_dataset **out, vt_err *e) {
    if (!vt_cli_has(c, "data"))
        return vt_fail(e, VT_E_USAGE,
                       "vitrine %s needs --data FOLDER (CIFAR's folder, x.npz or x.npy,y.npy, or folders of PNGs "
                       "or JPEGs; CIFAR-10 is at " VT_CIFAR_URL ")",
                       c->command->name);
    return vt_prepare_data(&c->given, out, e);
}
