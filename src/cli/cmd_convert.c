/* SPDX-License-Identifier: MIT */
/* vitrine convert: any checkpoint that can be read becomes safetensors under timm's names, or an ONNX file. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/files.h"
#include "cli/cli.h"
#include "models/export/export.h"

/* What the new file was made of: the last part of the path, and the hash. */
static void describe_source(char *out, size_t size, const vt_model *m) {
    const char *slash = strrchr(m->path, '/');
    bool several = *m->parts != 0;
    snprintf(out, size, "%.150s%s%.80s%s, %s", slash ? slash + 1 : m->path, several ? " (" : "", several ? m->part : "",
             several ? ")" : "", m->sha256);
}

/* Writes the model under timm's names, with the file it came from and its recipe in the metadata, and says so. */
static vt_status write_safetensors(const vt_cli *c, const vt_model *m, const char *out, vt_err *e) {
    char source[360];
    describe_source(source, sizeof source, m);
    const char *extra[] = {"source", source, "recipe", m->recipe};
    VT_TRY(vt_model_save_as(m, m->w, extra, m->recipe ? 2 : 1, out, e));
    printf("%s: %zu parameters in %d tensors, timm's names, of %s%s%s (%s)\n", out, vt_model_param_count(m),
           m->params.count, c->positional[0], *m->part ? ", part " : "", m->part, m->naming);
    return VT_OK;
}

/* Writes the model as ONNX, with mean and std inside or outside, and says what goes in and comes out. */
static vt_status write_onnx(const vt_cli *c, const vt_model *m, const char *out, vt_err *e) {
    const char *how = vt_cli_get(c, "normalise");
    const bool outside = how && !strcmp(how, "outside");
    vt_export_size size;
    double mean[3], std[3];
    VT_TRY(vt_model_export(m, outside ? VT_NORMALISE_OUTSIDE : VT_NORMALISE_INSIDE, out, &size, e));
    vt_export_statistics(&m->config, mean, std);
    const int side = vt_config_input(&m->config);
    printf("%s: ONNX, opset 17, %d nodes, %zu numbers, of %s%s%s (%s)\n", out, size.nodes, size.numbers,
           c->positional[0], *m->part ? ", part " : "", m->part, m->naming);
    printf("input pixels [N,3,%d,%d], output logits [N,%d]; ", side, side, m->config.classes);
    if (outside)
        printf("pixels are (x - mean) / std of images in [0,1]: mean %.9g,%.9g,%.9g, std %.9g,%.9g,%.9g\n", mean[0],
               mean[1], mean[2], std[0], std[1], std[2]);
    else
        printf("pixels are images in [0,1]\n");
    return VT_OK;
}

/* Is what the options ask for a file that can be written? *onnx: of which kind. */
static vt_status check_output(const vt_cli *c, const char *out, bool *onnx, vt_err *e) {
    const char *how = vt_cli_get(c, "normalise");
    struct stat s;
    *onnx = vt_ends_in(out, ".onnx");
    if (!*onnx && !vt_ends_in(out, ".safetensors"))
        return vt_fail(e, VT_E_USAGE, "%s: the converted file must be called *.safetensors or *.onnx", out);
    if (how && !*onnx)
        return vt_fail(e, VT_E_USAGE, "%s: --normalise is of ONNX files; safetensors hold mean and std", out);
    if (how && strcmp(how, "inside") && strcmp(how, "outside"))
        return vt_fail(e, VT_E_USAGE, "--normalise is '%.40s', must be inside or outside", how);
    if (!vt_cli_has(c, "force") && !lstat(out, &s))
        return vt_fail(e, VT_E_USAGE, "%s: is there already: another name, or --force to replace it", out);
    return VT_OK;
}

static vt_status run(const vt_cli *c, vt_err *e) {
    const char *out = c->positional[1];
    bool onnx;
    vt_model *m;
    vt_overrides o;
    VT_TRY(check_output(c, out, &onnx, e));
    VT_TRY(vt_cli_overrides(c, &o, e));
    VT_TRY(vt_model_open(&m, c->positional[0], &o, e));
    vt_status status = vt_cli_known(c, m, e);
    if (status == VT_OK) status = (onnx ? write_onnx : write_safetensors)(c, m, out, e);
    vt_model_close(m);
    return status;
}

static const vt_arg args[] = {
    {"force", NULL, "replace OUT if it is there", VT_OF_OUTPUT},
    {"normalise", "inside|outside", "ONNX: where mean and std apply (inside)", VT_OF_OUTPUT},
    VT_MODEL_ARGS,
    {0},
};

const vt_command vt_command_convert = {
    .name = "convert",
    .summary = "any checkpoint to safetensors with timm's names and all that is known of it, or to ONNX",
    .operands = "WEIGHTS OUT.safetensors|OUT.onnx",
    .min_operands = 2,
    .max_operands = 2,
    .args = args,
    .details = "OUT needs no options: heads, norms, mean, std and the like stand in its metadata. It evaluates to the "
               "same bits; half-precision weights become F32. vitrine info --explain shows what each tensor becomes.\n"
               "\n"
               "OUT.onnx (opset 17, float32) is the same network for other programs: pixels [N,3,H,W] -> logits [N,K]; "
               "read back by vitrine in double, logits and gradients agree to 1e-12. --normalise inside: the graph "
               "takes images in [0,1]; outside: it takes (x - mean) / std, and the last line says both.",
    .examples = {"vitrine convert weights/shapes10-vit timm.safetensors",
                 "vitrine convert weights/shapes10-vit narrow.safetensors --ln-eps 1e-5 --attn-scale dim",
                 "vitrine convert weights/shapes10-vit network.onnx --normalise outside"},
    .run = run,
};
