/* SPDX-License-Identifier: MIT */
/* A run's folder, opened again with the weights and data that it was made with: for what checks, shows or exports it.
 */
#ifndef VT_CLI_RUN_OPEN_H
#define VT_CLI_RUN_OPEN_H

#include <jansson.h>
#include "cli/cli.h"
#include "eval/describe.h"
#include "eval/ledger.h"
#include "io/dataset.h"
#include "models/wrap/wrap.h"

typedef struct vt_run_again {
    vt_ledger *ledger;
    vt_model *model;
    vt_wrap wrap; /* the ledger's; its other half has altered the model */
    vt_dataset *data;
    vt_input_story input;
    json_t *command; /* run.json */
    vt_cli cli;      /* the evaluation's command line, with this command's options behind it */
    char weights[4096], folder[4096], severity[16];
} vt_run_again;

/* Paths and options are those of run.json's command, relative paths also from where it ran; --weights, --data and the
 * options of VT_RUN_ARGS that c gives come after them. Weights, data and model that are not the ledger's are refused,
 * by their hashes. */
vt_status vt_run_open(vt_run_again *r, const char *dir, const vt_cli *c, vt_err *e);
void vt_run_close(vt_run_again *r);
/* How a person calls a checkpoint: the path without folders and suffix; of "cifar10-at/model.safetensors" the folder.
 */
void vt_model_nickname(const char *path, char out[100]);
/* The same of a run's: --weights, or what run.json names; "" where nothing says. */
void vt_run_model_name(const char *dir, const vt_cli *c, char out[100]);
/* VT_E_USAGE for a run whose tensors, adv.bin, are gone. */
vt_status vt_run_has_tensors(const char *dir, vt_err *e);

#define VT_RUN_ARGS                                                                                                    \
    {"weights", "FILE", "the checkpoint; of a run, where it is not as run.json says"},                                 \
        {"data", "FOLDER", "the data; of a run, where they are not as run.json says"},                                 \
        {"split", "test|train", "which split"}, {"preprocess", "TEXT", "as in vitrine eval"}, VT_ATTACK_AT_ARG, {      \
        "restrict-classes", NULL, "as in vitrine eval"                                                                 \
    }

#endif
