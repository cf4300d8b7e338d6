/* SPDX-License-Identifier: MIT */
/* Opens the folder of a finished run for a command, also those of versions that stored only the command line. */
#pragma once

#include "cli/cli.h"
#include "cli/run_args.h"
#include "eval/run_folder.h"

/* vt_run_folder_read and _open, with the options of VT_RUN_ARGS that c gives. */
vt_status vt_run_open(vt_run_folder *r, const char *dir, const vt_cli *c, vt_err *e);
/* What people call the checkpoint of a run: --weights, or what run.json names; "" where nothing says. */
vt_status vt_run_model_name(const char *dir, const vt_cli *c, char out[100], vt_err *e);

// clang-format off
#define VT_RUN_ARGS                                                                                                    \
    {"weights", "FILE", "the checkpoint; of a run, where it is not as run.json says", VT_OF_MODEL}, VT_ORACLE_ARGS,    \
    {"data", "FOLDER", "the data; of a run, where they are not as run.json says", VT_OF_DATA},                         \
    {"split", "test|train|val", "which split", VT_OF_DATA}, VT_CLASS_ORDER_ARG,                                        \
    {"preprocess", "TEXT", "as in vitrine eval", VT_OF_DATA}, VT_ATTACK_AT_ARG, VT_RESTRICT_ARG
// clang-format on
