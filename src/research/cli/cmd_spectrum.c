/* SPDX-License-Identifier: MIT */
/* vitrine spectrum: another word for vitrine analyze spectrum --largest. */
#include <stdio.h>
#include <string.h>
#include "cli/cli.h"

extern const vt_command vt_command_analyze;

/* Parses its words anew as those of `analyze spectrum --largest`, where --split is called --parts, and runs that. */
static vt_status run(const vt_cli *c, vt_err *e) {
    static vt_cli as;
    static char names[VT_CHOICES_MOST][40];
    const char *words[2 * VT_CHOICES_MOST + 20] = {"spectrum", "--largest"};
    int n = 2;
    for (int i = 0; i < c->given.n; i++) {
        const char *name = c->given.list[i].name;
        snprintf(names[i], sizeof names[i], "--%s", strcmp(name, "split") ? name : "parts");
        words[n++] = names[i];
        if (c->row[i]->value) words[n++] = c->given.list[i].value;
    }
    words[n++] = "--";
    for (int i = 0; i < c->n_positional; i++) words[n++] = c->positional[i];
    as = (vt_cli){.command = &vt_command_analyze, .argc = c->argc, .argv = c->argv};
    VT_TRY(vt_cli_parse(&as, n, (char **)(uintptr_t)words, e));
    return vt_command_analyze.run(&as, e);
}

static const vt_arg args[] = {
    {"split", "rows|columns", "which heads to show (default rows)", VT_OF_OUTPUT},
    {"all", NULL, "also W_O and the two matrices of the MLP", VT_OF_RUN},
    {"csv", "FILE", "write every value: weights, layer, matrix, part, sigma", VT_OF_OUTPUT},
    {"plot", "FILE", "write the figure as SVG", VT_OF_OUTPUT},
    VT_THREADS_ARG,
    VT_MODEL_ARGS,
    {0},
};

const vt_command vt_command_spectrum = {
    .name = "spectrum",
    .summary = "largest singular values of W_Q, W_K, W_V, by layer and head",
    .operands = "WEIGHTS...",
    .min_operands = 1,
    .max_operands = 15,
    .args = args,
    .details = "The same as vitrine analyze spectrum WEIGHTS... --largest; without --largest that shows all singular "
               "values. Several checkpoints are compared side by side, as in Fig. 2(a) of SpecFormer (Hu et al. 2024). "
               "Layers and heads count from 0, as in tensor names. --split rows: head h is the rows of W that make its "
               "outputs (the paper); columns: the same range of input columns (the released code). The CSV holds both.",
    .examples = {"vitrine spectrum weights/shapes10-vit",
                 "vitrine spectrum weights/shapes10-plain weights/shapes10-specformer --all --csv sigma.csv"},
    .run = run,
};
