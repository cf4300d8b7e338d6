/* SPDX-License-Identifier: MIT */
/* vitrine info: what a checkpoint is and where each value was read. */
#include <stdio.h>
#include <string.h>
#include "cli/cli.h"
#include "cli/explain.h"
#include "cli/info_json.h"
#include "cli/script.h"
#include "core/gemm.h"
#include "core/text.h"
#include "models/arch.h"
#include "models/checkpoint/doubt.h"

static void print_row(const char *key, const char *value, const char *from) {
    char a[400], b[400]; /* parts and preprocessing are the file's own words: no line of ours is theirs to write */
    from = from ? vt_text_line(b, sizeof b, from) : "";
    printf("  %-20s %-40s %s%s%s\n", key, vt_text_line(a, sizeof a, value), *from ? "(" : "", from, *from ? ")" : "");
}

/* A value that nobody told is not shown as if somebody had. */
static void print_field(const vt_model *m, vt_field f) {
    static const char *const how[] = {[VT_KNOWN] = "", [VT_ASSUMED] = "assumed: ", [VT_OPEN] = "not told: "};
    char value[64], from[100];
    vt_field_text(m, f, value, sizeof value);
    snprintf(from, sizeof from, "%s%s", how[m->doubt[f]], m->source[f]);
    print_row(vt_field_label(f), value, from);
}

static void print_config(const vt_model *m) {
    for (int f = 0; f < VT_FIELD_COUNT; f++)
        if (vt_field_shown(m, (vt_field)f)) print_field(m, (vt_field)f);
}

static void print_missing(const vt_model *m) {
    char what[1000], options[300];
    if (vt_model_missing(m, what, sizeof what, options, sizeof options))
        printf("\nnot told: %s; commands that compute with it ask for%s\n", what, options);
}

static vt_status run(const vt_cli *c, vt_err *e) {
    vt_model *m;
    vt_overrides o;
    VT_TRY(vt_cli_overrides(c, &o, e));
    vt_status known = vt_model_inspect(&m, c->positional[0], &o, e);
    if (known != VT_OK) { /* what is known of its tensors helps to write a map */
        if (vt_cli_has(c, "explain"))
            (void)vt_cli_explain(c->positional[0], o.part, o.names, NULL);
        else if (!o.names)
            vt_cli_show_unknown(c->positional[0], o.part);
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
        print_row("part", m->part, from);
    }
    print_row("names", m->naming, "");
    print_config(m);
    if (*m->unread) print_row("not read", m->unread, "");
    char text[64];
    snprintf(text, sizeof text, "%zu in %d tensors", vt_model_param_count(m), m->params.count);
    print_row("parameters", text, "all finite");
    double fwd, grad;
    vt_arch_find(m->config.arch)->flops(&m->config, true, &fwd, &grad);
    snprintf(text, sizeof text, "%.4g / %.4g GFLOP", fwd * 1e-9, grad * 1e-9);
    print_row("one image", text, "forward / gradient step");
    printf("  %-12s %s\n", "sha256", m->sha256); /* as wide as a terminal bears */
    print_row("checksum", m->seal ? m->seal : "none in the file",
              !m->seal                       ? ""
              : !strcmp(m->seal, VT_ST_FILE) ? "of the whole file: as it was written"
                                             : "of its tensors: as written; its metadata are held by nothing");
    print_missing(m);
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

static const vt_arg args[] = {
    VT_MODEL_ARGS,
    {"tensors", NULL, "list every tensor with its shape", VT_OF_OUTPUT},
    {"explain", NULL, "what every tensor of the file became, or why it was ignored", VT_OF_OUTPUT},
    VT_JSON_ARG,
    {0},
};

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
