/* SPDX-License-Identifier: MIT */
/* vitrine convert: any checkpoint that can be read becomes safetensors under timm's names. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "cli/cli.h"

/* What the new file was made of: the last part of the path, and the hash. */
static void describe_source(char *out, size_t size, const vt_model *m) {
    const char *slash = strrchr(m->path, '/');
    bool several = *m->parts != 0;
    snprintf(out, size, "%.150s%s%.80s%s, %s", slash ? slash + 1 : m->path, several ? " (" : "", several ? m->part : "",
             several ? ")" : "", m->sha256);
}

static vt_status run(const vt_cli *c, vt_err *e) {
    const char *out = c->positional[1];
    const size_t n = strlen(out);
    struct stat s;
    vt_model *m;
    vt_overrides o;
    char source[360];
    if (n < 12 || strcmp(out + n - 12, ".safetensors"))
        return vt_fail(e, VT_E_USAGE, "%s: the converted file must be called *.safetensors", out);
    if (!vt_cli_has(c, "force") && !lstat(out, &s))
        return vt_fail(e, VT_E_USAGE, "%s: is there already: another name, or --force to replace it", out);
    VT_TRY(vt_cli_overrides(c, &o, e));
    VT_TRY(vt_model_open(&m, c->positional[0], &o, e));
    vt_status status = vt_cli_known(c, m, e);
    describe_source(source, sizeof source, m);
    const char *extra[] = {"source", source, "recipe", m->recipe};
    if (status == VT_OK) status = vt_model_save_as(m, m->w, extra, m->recipe ? 2 : 1, out, e);
    if (status == VT_OK)
        printf("%s: %zu parameters in %d tensors, timm's names, of %s%s%s (%s)\n", out, vt_model_param_count(m),
               m->params.count, c->positional[0], *m->part ? ", part " : "", m->part, m->naming);
    vt_model_close(m);
    return status;
}

static const vt_arg args[] = {
    {"force", NULL, "replace OUT if it is there", VT_OF_OUTPUT},
    VT_MODEL_ARGS,
    {0},
};

const vt_command vt_command_convert = {
    .name = "convert",
    .summary = "any checkpoint to safetensors with timm's names and all that is known of it",
    .operands = "WEIGHTS OUT.safetensors",
    .min_operands = 2,
    .max_operands = 2,
    .args = args,
    .details =
        "OUT needs no options: heads, norms, mean, std and the like stand in its metadata. It evaluates to the same "
        "bits;\nhalf-precision weights become F32. vitrine info --explain shows what each tensor becomes.",
    .examples = {"vitrine convert weights/shapes10-vit timm.safetensors",
                 "vitrine convert weights/shapes10-vit narrow.safetensors --ln-eps 1e-5 --attn-scale dim"},
    .run = run,
};
