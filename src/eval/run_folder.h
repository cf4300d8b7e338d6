/* SPDX-License-Identifier: MIT */
/* A finished run's folder, opened again with the weights and data that it was made with: for what checks, shows or
 * exports it. run.json says where they are and with which choices they were read; the ledger's hashes say whether they
 * are the same. */
#pragma once

#include <jansson.h>
#include "eval/ledger.h"
#include "eval/subject.h"

typedef struct vt_run_folder {
    vt_ledger *ledger;
    vt_subject subject;  /* the wrap is the ledger's */
    bool told;           /* run.json is there */
    json_t *document;    /* run.json; NULL: a merged run, which has none */
    const char *weights; /* the checkpoint, NULL: unknown */
    const char *where;   /* the command of a model in another process, as run.json names it, for a sentence alone */
    vt_choices choices;  /* with which it was read */
    char weights_path[4096], data_path[4096], order_path[4096], box_path[4096], severity[16];
} vt_run_folder;

/* For run.json's "subject": {"weights": path or null (a model in another process), "choices": [[name, text], ...]}, of
 * c what describes a subject. NULL: no memory. */
json_t *vt_subject_json(const char *weights, const vt_choices *c);

/* Opens a run, on a zeroed r: its ledger, unless r->ledger is one, and the subject that run.json describes. A relative
 * path that is not there is looked for where the run was made. The choices of `more`, "weights" and "oracle" among
 * them, come after the run's; without "oracle" a model in another process is described alone (vt_subject_described).
 * Texts of `more` outlive r. VT_E_USAGE without run.json, unless `more` names weights and data. Weights, data and model
 * that are not the ledger's are refused, by their hashes. To be closed after a failure too. */
vt_status vt_run_folder_open(vt_run_folder *r, const char *dir, const vt_choices *more, vt_err *e);
void vt_run_folder_close(vt_run_folder *r); /* accepts a zeroed one */

/* VT_E_USAGE for a run whose tensors, adv.bin, are gone. */
vt_status vt_run_has_tensors(const char *dir, vt_err *e);
/* A short name for a checkpoint: the path without folders and suffix; of "cifar10-at/model.safetensors" the folder. */
void vt_model_nickname(const char *path, char out[100]);
/* Writes the short name (vt_model_nickname) of a run's checkpoint: `weights` or, if that is NULL, what run.json names;
 * "" if nothing says. */
vt_status vt_run_model_name(const char *dir, const char *weights, char out[100], vt_err *e);
