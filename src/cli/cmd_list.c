/* SPDX-License-Identifier: MIT */
/* vitrine list: attacks, certificates, models, formats, wraps, labs and analyses with their options, from their tables.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "attacks/attack.h"
#include "cli/cli.h"
#include "eval/report/summary.h"
#include "data/dataset.h"
#include "data/image.h"
#include "eval/certifier.h"
#include "models/arch.h"
#include "checkpoint/names.h"
#include "models/forms.h"
#include "inference/wrap.h"
#include "research/analysis/analyze.h"
#include "research/lab/lab.h"

/* Prints an option with its range or choices and its default. */
static void list_option(const vt_opt *o, const void *defaults) {
    char text[600];
    vt_opt_value(o, defaults, text, sizeof text);
    printf("      %-14s %s", o->key, o->help);
    if (o->type == VT_OPT_CHOICE)
        printf(": %s", o->choices);
    else if (o->type == VT_OPT_INT || (o->type == VT_OPT_REAL && o->max < 1e6))
        printf(", %.6g to %.6g", o->min, o->max);
    printf(" (default %s)\n", text);
}

/* Prints all options of a plug-in; params_size: bytes of its parameters. */
static vt_status list_options(const vt_opt *opts, size_t params_size, vt_err *e) {
    void *defaults = calloc(1, params_size + 1);
    if (!defaults) return vt_fail(e, VT_E_MEMORY, "no memory");
    vt_opt_defaults(opts, defaults);
    for (const vt_opt *o = opts; o && o->key; o++) list_option(o, defaults);
    free(defaults);
    return VT_OK;
}

/* Prints every attack with its norms, access to the model, stages and options. */
static vt_status list_attacks(vt_err *e) {
    int n;
    const vt_attack_def *const *defs = vt_attack_defs(&n);
    for (int i = 0; i < n; i++) {
        const vt_attack_def *d = defs[i];
        printf("%-12s %s\n    %s; ", d->name, d->summary, d->reference);
        int named = 0;
        for (int k = 0; k < VT_NORM_COUNT; k++)
            if (d->norms & 1u << k) printf("%s%s", named++ ? ", " : "", vt_norm_name((vt_norm)k));
        if (d->norms & VT_CAN_PATCH) printf("%spatch", named ? ", " : "");
        if (d->norms & VT_CAN_ROTATION) printf("rotation");
        printf("; %s\n", d->white_box   ? "uses gradients"
                         : d->inside    ? "climbs what is inside the model"
                         : d->surrogate ? "black-box, uses a surrogate's gradients"
                                        : "black-box");
        for (int k = 0; d->stages && d->stages[k]; k++) printf("    %s %s\n", k ? "then" : "=   ", d->stages[k]);
        for (int k = 0; d->stages_l1 && d->stages_l1[k]; k++)
            printf("    %s %s\n", k ? "then" : "l1: ", d->stages_l1[k]);
        VT_TRY(list_options(d->opts, d->params_size, e));
    }
    printf("under --threat patch:size=N,count=N every attack that knows patches also takes\n");
    VT_TRY(list_options(vt_place_opts, sizeof(vt_place), e));
    printf("      (where is attention in patch-fool, corner in attention-fool)\n");
    printf("under --threat box work those that know linf and patch, under --threat rotation grid alone\n");
    printf(
        "\nUse: --attack NAME or --attack NAME:key=value,key=value; sizes are in pixel units, fractions like 2/255 are "
        "exact.\nLists: --attack A+B+C runs each on the survivors of the one before; --attack autoattack:version=plus "
        "is autoattack-plus;\n--individual runs every part on all images.\nEvery attack takes share=P (0 to 1), last "
        "in a list: it is run on that random share of the survivors, and the report\nbounds what the rest may hold. "
        "Profiles (--profile) are quick, standard and paranoid.\nIn l2 those that step along a gradient take floor=F: "
        "added to the length that a step divides by, 0; authors' code has 1e-12.\n");
    return VT_OK;
}

/* Prints architectures, attention variants, presets and forms. */
static vt_status list_models(vt_err *e) {
    int n;
    printf("architectures\n");
    const vt_arch *const *archs = vt_archs(&n);
    for (int i = 0; i < n; i++) printf("  %-12s %s\n", archs[i]->name, archs[i]->summary);
    printf("attention variants\n");
    const vt_attn *const *attns = vt_attns(&n);
    for (int i = 0; i < n; i++) {
        printf("  %-12s %s (%s)\n", attns[i]->name, attns[i]->summary, attns[i]->reference);
        VT_TRY(list_options(attns[i]->opts, sizeof(vt_attn_options), e));
    }
    const vt_preset *p = vt_presets(&n);
    printf("presets%29s image patch   dim depth heads   mlp classes\n", "");
    for (int i = 0; i < n; i++)
        printf("  %-34s %5d %5d %5d %5d %5d %5d %7d  %s\n", p[i].name, p[i].image, p[i].patch, p[i].dim, p[i].depth,
               p[i].heads, p[i].hidden, p[i].classes, p[i].note);
    const vt_form *f = vt_forms(&n);
    printf("forms (--form KEY=VALUE: what tensors cannot tell, or, for vitrine new, everything else)\n");
    for (int i = 0; i < n; i++) {
        bool yes_no = f[i].opt.type == VT_OPT_BOOL;
        const char *values = yes_no ? "0|1" : f[i].opt.choices ? f[i].opt.choices : f[i].four ? "N,N,N,N" : "N";
        printf("  %-16s %-26s %s\n", f[i].opt.key, values, f[i].opt.help);
    }
    return VT_OK;
}

/* Prints naming schemes, name maps, data sources and report formats. */
static vt_status list_formats(vt_err *e) {
    (void)e;
    int n;
    printf("checkpoints (safetensors or PyTorch files: F32, F16, BF16, F64), by tensor names\n");
    const vt_names_def *names = vt_names_defs(&n);
    for (int i = 0; i < n; i++) printf("  %-16s %s\n", names[i].name, names[i].summary);
    const vt_names_map *maps = vt_names_maps(&n);
    for (int i = 0; i < n; i++)
        printf("  %-16s map: %.*s\n", maps[i].name, (int)strcspn(maps[i].text + 2, "\n"), maps[i].text + 2);
    printf("images\n");
    const vt_dataset_def *const *data = vt_dataset_defs(&n);
    for (int i = 0; i < n; i++) printf("  %-12s %s\n", data[i]->name, data[i]->summary);
    printf("  JPEG is decoded by %s %s%s\n", vt_jpeg_decoder, vt_jpeg_version,
           strcmp(vt_jpeg_decoder, "libjpeg-turbo") ? ", whose pixels differ slightly from Pillow's"
                                                    : ", as by Pillow");
    printf("reports\n");
    const vt_report_def *const *reports = vt_report_defs(&n);
    for (int i = 0; i < n; i++)
        printf("  %-12s %s%s%s\n", reports[i]->name, reports[i]->summary, reports[i]->file ? ": " : "",
               reports[i]->file ? reports[i]->file : "");
    return VT_OK;
}

/* Prints the wraps and their options. */
static vt_status list_wraps(vt_err *e) {
    int n;
    const vt_wrap_def *const *defs = vt_wrap_defs(&n);
    for (int i = 0; i < n; i++) {
        printf("%-12s %s\n    %s\n", defs[i]->name, defs[i]->summary, defs[i]->reference);
        VT_TRY(list_options(defs[i]->opts, defs[i]->params_size, e));
    }
    printf(
        "\nUse: vitrine selftest or eval --wrap NAME:key=value; a wrap is a cheat that the self-test must notice, or a "
        "defence.\n");
    return VT_OK;
}

/* Prints the methods that prove images, and their options. */
static vt_status list_certificates(vt_err *e) {
    int n;
    const vt_certifier_def *const *defs = vt_certifier_defs(&n);
    for (int i = 0; i < n; i++) {
        printf("%-12s %s\n    %s\n", defs[i]->name, defs[i]->summary, defs[i]->reference);
        VT_TRY(list_options(defs[i]->opts, defs[i]->params_size, e));
    }
    printf("\nUse: vitrine eval --certify NAME:key=value (docs/certify.md).\n");
    return VT_OK;
}

/* Prints the labs and their options. */
static vt_status list_labs(vt_err *e) {
    int n;
    const vt_lab_def *const *defs = vt_lab_defs(&n);
    for (int i = 0; i < n; i++) {
        printf("%-12s %s\n    %s\n", defs[i]->name, defs[i]->summary, defs[i]->source);
        VT_TRY(list_options(defs[i]->opts, defs[i]->params_size, e));
    }
    printf(
        "\nUse: vitrine lab NAME --key value, or --set key=value; an option that is 0 or 1 is also a flag: --key.\n");
    return VT_OK;
}

/* Prints the analyses, what they look at, and their options. */
static vt_status list_analyses(vt_err *e) {
    int n;
    const vt_analysis_def *const *defs = vt_analysis_defs(&n);
    for (int i = 0; i < n; i++) {
        unsigned w = defs[i]->wants;
        printf("%-13s %s\n    %s\n    looks at weights%s%s\n", defs[i]->name, defs[i]->summary, defs[i]->source,
               w & VT_WANTS_IMAGES ? " and images" : "",
               (w & VT_WANTS_ATTACK) == VT_WANTS_ATTACK ? ", which are attacked (--eps)"
               : w & VT_TAKES_ATTACK                    ? ", which may be attacked (--eps)"
                                                        : "");
        VT_TRY(list_options(defs[i]->opts, defs[i]->params_size, e));
    }
    printf("\nUse: vitrine analyze KIND WEIGHTS... --key value (docs/analysis.md).\n");
    return VT_OK;
}

/* Runs vitrine list: prints things of the kind of operand 0. VT_E_USAGE: no such kind. */
static vt_status run(const vt_cli *c, vt_err *e) {
    static const struct {
        const char *name;
        vt_status (*list)(vt_err *e);
    } kinds[] = {{"attacks", list_attacks},           {"models", list_models},
                 {"formats", list_formats},           {"wraps", list_wraps},
                 {"certificates", list_certificates}, {"labs", list_labs},
                 {"analyses", list_analyses}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(c->positional[0], kinds[i].name)) return kinds[i].list(e);
    return vt_fail(e, VT_E_USAGE,
                   "vitrine list: '%s' is not one of attacks, certificates, models, formats, wraps, labs, analyses",
                   c->positional[0]);
}

const vt_command vt_command_list = {
    .name = "list",
    .summary = "attacks with their options, certificates, models, file formats, wraps, labs, analyses",
    .operands = "attacks|certificates|models|formats|wraps|labs|analyses",
    .min_operands = 1,
    .max_operands = 1,
    .examples = {"vitrine list attacks", "vitrine list formats"},
    .run = run,
};
