/* SPDX-License-Identifier: MIT */
/* vitrine new: a checkpoint of random weights of any supported shape. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "cli/cli.h"
#include "base/opt.h"
#include "models/forms.h"
#include "models/net/attention.h"

/* --set key=value, by the rules of base/opt, on top of a preset. Fields that --set may leave to other options or to a
 * rule begin as 0: image, heads, hidden, ln_eps; pool as POOL_UNSET. */
typedef struct shape {
    vt_config c;
    double mlp_ratio;
} shape;
enum { POOL_UNSET = -1 };

static const vt_opt keys[] = {
    VT_OPT_I("image", shape, c.image, "side of the input in pixels", 0, 1, 4096),
    VT_OPT_I("patch", shape, c.patch, "side of a patch", 0, 1, 4096),
    VT_OPT_I("dim", shape, c.dim, "width", 0, 1, 16384),
    VT_OPT_I("depth", shape, c.depth, "blocks", 0, 1, 512),
    VT_OPT_I("heads", shape, c.heads, "attention heads (default: dim / 64, at least 1)", 0, 1, 16384),
    VT_OPT_I("hidden", shape, c.hidden, "MLP width (default: 4 dim)", 0, 1, 131072),
    VT_OPT_R("mlp_ratio", shape, mlp_ratio, "MLP width as a multiple of dim", 0, 0.01, 64),
    VT_OPT_I("classes", shape, c.classes, "classes", 0, 2, 100000),
    VT_OPT_B("qkv_bias", shape, c.qkv_bias, "bias of the q, k, v projection", 0),
    VT_OPT_B("distilled", shape, c.dist_token, "distillation token and second head", 0),
    VT_OPT_C("pool", shape, c.pool, "what the head reads", "token|avg|all|token_avg", 0),
    VT_OPT_R("ln_eps", shape, c.ln_eps, "LayerNorm epsilon", 0, 1e-12, 1),
    VT_OPT_END,
};

/* Returns the heads for a width that is not the preset's: dim / 64 if that is whole, else the preset's or 1. */
static int usual_heads(int dim, int preset_heads) {
    if (dim >= 64 && dim % 64 == 0) return dim / 64;
    return dim % preset_heads == 0 ? preset_heads : 1;
}

/* Fills the fields that --set left open. */
static void complete_shape(shape *s, const vt_config *preset, const vt_overrides *o) {
    vt_config *c = &s->c;
    bool same_width = c->dim == preset->dim;
    if (!c->image) c->image = o->image ? o->image : preset->image;
    if (!c->heads) c->heads = o->heads ? o->heads : same_width ? preset->heads : usual_heads(c->dim, preset->heads);
    if (!c->hidden && s->mlp_ratio > 0) c->hidden = (int)lrint(s->mlp_ratio * c->dim);
    if (!c->hidden) c->hidden = same_width ? preset->hidden : 4 * c->dim;
    if (!(c->ln_eps > 0)) c->ln_eps = o->ln_eps > 0 ? o->ln_eps : preset->ln_eps;
    if ((int)c->pool == POOL_UNSET) c->pool = preset->pool;
    c->attn_scale = 1 / sqrt((double)c->dim / c->heads);
}

/* Reads the --set pairs into *s; operands from first_operand on belong to the --set before them ("--set a=1 b=2"). */
static vt_status read_shape(const vt_cli *c, shape *s, int first_operand, vt_err *e) {
    const char *text;
    s->c.image = s->c.heads = s->c.hidden = 0, s->c.ln_eps = 0, s->c.pool = (vt_pool)POOL_UNSET;
    for (int i = 0; (text = vt_cli_nth(c, "set", i)); i++) VT_TRY(vt_opt_parse(keys, s, text, "--set", e));
    for (int i = first_operand; i < c->n_positional; i++) VT_TRY(vt_opt_parse(keys, s, c->positional[i], "--set", e));
    return VT_OK;
}

/* Refuses an option and a --set key that name one thing with different values; 0: not given. */
static vt_status check_same_value(const char *option, double a, const char *key, double b, vt_err *e) {
    if (!(a > 0 && b > 0) || a == b) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "%s is %g, but --set says %s=%g: give one of them", option, a, key, b);
}

/* Completes the shape by preset and model options; refuses options that only describe how a file is read. */
static vt_status apply_options(const vt_cli *c, shape *s, const vt_config *preset, vt_err *e) {
    vt_overrides o;
    vt_config *config = &s->c;
    int pool = (int)config->pool;
    const char *of_file;
    VT_TRY(vt_cli_overrides(c, &o, e));
    if (o.names || o.part)
        return vt_fail(e, VT_E_USAGE, "--%s says how a checkpoint is read; vitrine new reads none",
                       o.names ? "names" : "part");
    VT_TRY(check_same_value("--image-size", o.image, "image", config->image, e));
    VT_TRY(check_same_value("--heads", o.heads, "heads", config->heads, e));
    VT_TRY(check_same_value("--ln-eps", o.ln_eps, "ln_eps", config->ln_eps, e));
    complete_shape(s, preset, &o);
    if (o.has_mean) memcpy(config->mean, o.mean, sizeof o.mean);
    if (o.has_std) memcpy(config->std, o.std, sizeof o.std);
    vt_attn_spec attn;
    if (o.attn) {
        VT_TRY(vt_attn_parse(&attn, o.attn, e));
        snprintf(config->attn, sizeof config->attn, "%s", attn.text);
    }
    for (int i = 0; i < o.n_form; i++) VT_TRY(vt_form_parse(config, o.form[i], "--form", e));
    if (pool != POOL_UNSET && (int)config->pool != pool)
        return vt_fail(e, VT_E_USAGE, "--set and --form name different pools: give one of them");
    if ((of_file = vt_forms_of_file(config)))
        return vt_fail(e, VT_E_USAGE, "--form %s says how a checkpoint is read; vitrine new reads none", of_file);
    if (config->attn_dim) config->attn_scale = 1 / sqrt((double)config->attn_dim / config->heads);
    if (!o.attn_scale) return VT_OK;
    if (!strcmp(o.attn_scale, "dim"))
        config->attn_scale = 1 / sqrt((double)config->dim);
    else if (strcmp(o.attn_scale, "head") && !vt_parse_real(o.attn_scale, &config->attn_scale))
        return vt_fail(e, VT_E_USAGE, "--attn-scale is '%s', must be head, dim or a number", o.attn_scale);
    return VT_OK;
}

/* Finds the preset that the operand or --preset names, or the default one. */
static vt_status find_preset(const vt_cli *c, bool named, const vt_preset **out, vt_err *e) {
    const char *operand = named ? c->positional[0] : NULL, *option = vt_cli_get(c, "preset");
    if (operand && option && strcmp(operand, option))
        return vt_fail(e, VT_E_USAGE, "PRESET is '%s' and --preset is '%s': give one of them", operand, option);
    const char *name = operand ? operand : option;
    return vt_preset_named(name ? name : "vit_cifar_dim192_depth9", out, e);
}

/* Runs vitrine new: writes a checkpoint with random weights. */
static vt_status run(const vt_cli *c, vt_err *e) {
    const char *out = vt_cli_get(c, "o");
    bool named = c->n_positional && !strchr(c->positional[0], '=');
    const vt_preset *preset;
    shape s = {0};
    vt_config start;
    long long seed;
    if (!out) return vt_fail(e, VT_E_USAGE, "vitrine new needs -o FILE.safetensors");
    VT_TRY(find_preset(c, named, &preset, e));
    vt_preset_config(preset, &start);
    s.c = start;
    VT_TRY(read_shape(c, &s, named ? 1 : 0, e));
    VT_TRY(vt_cli_int(c, "seed", 0, INT64_MAX, 0, &seed, e));
    VT_TRY(apply_options(c, &s, &start, e));
    vt_model *m;
    VT_TRY(vt_model_new(&m, &s.c, e));
    vt_status st = vt_model_init(m, (uint64_t)seed);
    st = st == VT_OK ? vt_model_save(m, out, e) : vt_fail(e, st, "%s: no memory for the first weights", out);
    if (st == VT_OK) printf("%s: %zu parameters, seed %lld\n", out, vt_model_param_count(m), seed);
    vt_model_close(m);
    return st;
}

static const vt_arg args[] = {
    {"o", "FILE", "safetensors file to write", VT_OF_OUTPUT},
    {"seed", "N", "seed of the weights (default 0)", VT_OF_RUN},
    {"set", "K=V",
     "change the shape: image, patch, dim, depth, heads, hidden, mlp_ratio, classes, qkv_bias, distilled, pool, ln_eps",
     VT_OF_MODEL},
    VT_MODEL_ARGS,
    {0},
};

const vt_command vt_command_new = {
    .name = "new",
    .summary = "random weights of any supported shape",
    .operands = "[PRESET] [key=value ...]",
    .max_operands = 16,
    .args = args,
    .details = "Without PRESET (or --preset) the shape starts from vit_cifar_dim192_depth9. Initialised as timm does "
               "(normal, std 0.02; zero biases).",
    .examples = {"vitrine new vit_tiny_patch16_224 -o tiny.safetensors",
                 "vitrine new --set dim=192 depth=9 patch=4 image=32 classes=10 --seed 0 -o small.safetensors"},
    .run = run,
};
