#include <stdio.h>
#include <string.h>
#include "cli/cli.h"
#include "cli/explain.h"
#include "cli/info_json.h"
#include "cli/script.h"
#include "core/gemm.h"
#include "core/text.h"
#include "models/forms.h"
#include "models/session.h"

static void row(const char *key, const char *value, const char *from) {
    char a[400], b[400]; /* parts and preprocessing are the file's own words: no line of ours is theirs to write */
    from = from ? vt_text_line(b, sizeof b, from) : "";
    printf("  %-20s %-40s %s%s%s\n", key, vt_text_line(a, sizeof a, value), *from ? "(" : "", from, *from ? ")" : "");
}

static void print_config(const vt_model *m) {
    const vt_config *c = &m->config;
    static const char *const keys[VT_FIELD_COUNT] = {
#define VT_FIELD_NAME(id, text) text,
        VT_FIELD_LIST(VT_FIELD_NAME)
#undef VT_FIELD_NAME
    };
    char v[VT_FIELD_COUNT][64];
    snprintf(v[VT_FIELD_ARCH], 64, "%s", c->arch);
    snprintf(v[VT_FIELD_IMAGE], 64, "3 x %d x %d", c->image, c->image);
    snprintf(v[VT_FIELD_PATCH], 64, "%d (%d tokens)", c->patch, vt_model_tokens(m));
    snprintf(v[VT_FIELD_DIM], 64, "%d", c->dim);
    snprintf(v[VT_FIELD_DEPTH], 64, "%d", c->depth);
    snprintf(v[VT_FIELD_HEADS], 64, "%d of width %d", c->heads, c->dim / c->heads);
    snprintf(v[VT_FIELD_HIDDEN], 64, "%d", c->hidden);
    snprintf(v[VT_FIELD_CLASSES], 64, "%d", c->classes);
    snprintf(v[VT_FIELD_QKV_BIAS], 64, "%s", c->qkv_bias ? "yes" : "no");
    snprintf(v[VT_FIELD_DIST], 64, "%s", c->dist_token ? "yes (logits = mean of both heads)" : "no");
    snprintf(v[VT_FIELD_POOL], 64, "%s",
             c->pool == VT_POOL_TOKEN ? "class token"
             : c->pool == VT_POOL_AVG ? "mean of the patch tokens"
             : c->pool == VT_POOL_ALL ? "mean of all tokens"
                                      : "class token and mean of the patch tokens");
    snprintf(v[VT_FIELD_ATTN], 64, "%s", c->attn);
    snprintf(v[VT_FIELD_SCALE], 64, "%.9g", c->attn_scale);
    snprintf(v[VT_FIELD_LN_EPS], 64, "%g", c->ln_eps);
    snprintf(v[VT_FIELD_MEAN], 64, "%.6g, %.6g, %.6g", c->mean[0], c->mean[1], c->mean[2]);
    snprintf(v[VT_FIELD_STD], 64, "%.6g, %.6g, %.6g", c->std[0], c->std[1], c->std[2]);
    for (int i = 0; i < VT_FIELD_NORM; i++) row(keys[i], v[i], m->source[i]);
    int n;
    const vt_form *forms = vt_forms(&n);
    for (int i = 0; i < n; i++) { /* forms that timm's ViT has not */
        const vt_form *f = &forms[i];
        const char *from = m->source[f->field];
        if (f->field < VT_FIELD_NORM || (vt_form_is_default(c, f) && (!*from || !strcmp(from, "tensors")))) continue;
        vt_form_text(c, f, v[f->field], sizeof v[0]);
        const char *text = f->four && !strncmp(v[f->field], "0,", 2) ? "not given" : v[f->field];
        row(keys[f->field], f->opt.type != VT_OPT_BOOL ? text : *text == '1' ? "yes" : "no", from);
    }
}

static vt_status run(const vt_cli *c, vt_err *e) {
    vt_model *m;
    vt_overrides o;
    VT_TRY(vt_cli_overrides(c, &o, e));
    vt_status known = vt_model_inspect(&m, c->positional[0], &o, e);
    if (known != VT_OK) { /* what is known of its tensors helps to write a map */
        if (vt_cli_has(c, "explain")) (void)vt_cli_explain(c->positional[0], o.part, o.names, NULL);
        return known;
    }
    if (vt_script_stream()) {
        known = vt_script_print(vt_cli_info_json(m), e);
        vt_model_close(m);
        return known;
    }
    printf("%s\n", c->positional[0]);
    if (*m->part) {
        char from[240];
        snprintf(from, sizeof from, *m->parts ? "one of %s: --part tells" : "the entry with tensors", m->parts);
        row("part", m->part, from);
    }
    row("names", m->naming, "");
    print_config(m);
    char text[64];
    if (*m->transform) row("preprocessing", m->transform, m->source[VT_FIELD_TRANSFORM]);
    snprintf(text, sizeof text, "%zu in %d tensors", vt_model_param_count(m), m->params.count);
    row("parameters", text, "all finite");
    double fwd, grad;
    vt_arch_find_f32(m->config.arch)->flops(&m->config, &fwd, &grad);
    snprintf(text, sizeof text, "%.4g / %.4g GFLOP", fwd * 1e-9, grad * 1e-9);
    row("one image", text, "forward / gradient step");
    printf("  %-20s %s\n", "sha256", m->sha256);
    if (m->recipe)
        printf("\nmade by vitrine train with this recipe (repeat it with vitrine train --from):\n%s", m->recipe);
    if (vt_cli_has(c, "explain")) known = vt_cli_explain(c->positional[0], o.part, o.names, e);
    if (vt_cli_has(c, "tensors"))
        for (int i = 0; i < m->params.count; i++) {
            char shape[96] = "";
            const vt_param *p = &m->params.items[i];
            for (int k = 0, n = 0; k < p->ndim; k++)
                n += snprintf(shape + n, sizeof shape - (size_t)n, "%s%lld", k ? "," : "", (long long)p->shape[k]);
            printf("  %-36s [%s]\n", p->name, shape);
        }
    vt_model_close(m);
    return known;
}

static const vt_arg args[] = {VT_MODEL_ARGS,
                              {"tensors", NULL, "list every tensor with its shape"},
                              {"explain", NULL, "what every tensor of the file became, or why it was ignored"},
                              VT_JSON_ARG,
                              {NULL, NULL, NULL}};

const vt_command vt_command_info = {
    .name = "info",
    .summary = "what a checkpoint is, and where each value was read",
    .operands = "WEIGHTS",
    .min_operands = 1,
    .max_operands = 1,
    .args = args,
    .examples = {"vitrine info weights/shapes10-vit", "vitrine info weights/shapes10-vit --tensors",
                 "vitrine info weights/cifar10-at --explain"},
    .run = run,
};
