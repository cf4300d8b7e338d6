/* SPDX-License-Identifier: MIT */
/* What commands that run on images, or read a finished run, share: their options, run.json, the self-test. */
#pragma once

#include "attacks/ball.h"
#include "cli/cli.h"
#include "eval/evaluate.h"
#include "eval/prepare.h"
#include "eval/options.h"
#include "eval/run_folder.h"
#include "data/dataset.h"
#include "models/model.h"
#include "selftest/selftest.h"

/* Reads --norm, linf by default. */
vt_status vt_cli_norm(const vt_cli *c, vt_norm *out, vt_err *e);
/* Opens --data with --split, --corruption, --severity and --preprocess; VT_E_USAGE without --data. */
vt_status vt_cli_data(const vt_cli *c, vt_dataset **out, vt_err *e);
/* Reads --images (data/dataset.h) into *out [*n], ascending and distinct, to be freed; all by default. */
vt_status vt_cli_images(const vt_cli *c, const vt_dataset *d, int32_t **out, size_t *n, vt_err *e);

/* Prints on stderr what was left out of the data, how their labels were found if that is not plain, and of how many
 * classes the images [n] are that --images names. */
void vt_cli_say_data(const vt_cli *c, const vt_dataset *d, const int32_t *images, size_t n);

/* Finds the model: operand 0, or NULL with --oracle. VT_E_USAGE: neither or both are given. */
vt_status vt_cli_weights(const vt_cli *c, const char **weights, vt_err *e);
/* Opens the model that the command line names, fits it to image `first` of s->data, which is open, and refuses open
 * settings (vt_cli_known). */
vt_status vt_cli_subject(const vt_cli *c, vt_subject *s, int32_t first, vt_err *e);
/* Calls vt_cli_known for the command line c, or for none if m is another model than the judged one (vt_known_fn). */
vt_status vt_cli_check_known(void *c, const vt_model *m, bool other, vt_err *e);
/* Sets options to be read from this command line. If it may wait for another process, signals set its flag from here
 * on. */
void vt_cli_eval_options(vt_eval_options *v, const vt_cli *c);
/* Opens data and model of options that were read from the command line, --data and WEIGHTS or --oracle, and prints what
 * vt_cli_say_data does. VT_E_USAGE: one of them is missing. */
vt_status vt_cli_eval_open(const vt_cli *c, vt_eval_options *v, vt_err *e);

/* An evaluation or curve that a command runs. */
typedef struct vt_cli_run {
    vt_header *header; /* set before vt_cli_evaluate */
    vt_run_place place;
    vt_ledger *ledger;       /* NULL: not opened (--dry-run) */
    const vt_attack *tested; /* the entry whose self-test follows the run, for --dry-run; NULL: none does */
    bool points_only;        /* its gradients alone */
    double seconds;          /* of the run */
    bool complete;           /* it ended, and this process reports it (rank 0, no --dry-run) */
} vt_cli_run;
/* Runs the evaluation v, which is ready otherwise: opens the ledger in --out (else in memory), prints what --search
 * auto chose and a hint on stderr, and attacks. With --dry-run prints the cost alone. VT_INTERRUPTED: the ledger holds
 * what is done. */
vt_status vt_cli_evaluate(const vt_cli *c, vt_cli_run *r, vt_eval_options *v, vt_err *e);
void vt_cli_run_close(vt_cli_run *r); /* accepts a zeroed one */
/* Writes DIR/run.json of that evaluation (vt_cli_run_json) with its subject, what --search asked for and used, the
 * gradients that cycles spared, and the measured cost of a gradient in forwards (NaN: left out). */
vt_status vt_cli_eval_json(const vt_cli *c, const char *dir, const vt_eval_options *v, const vt_cli_run *r,
                           double gradient_cost, vt_err *e);

/* DIR/run.json: the command line, and what depends on the machine and the moment, kept out of the deterministic files.
 * more: further keys, or NULL. */
vt_status vt_cli_run_json(const vt_cli *c, const char *dir, int threads, double seconds, const json_t *more, vt_err *e);

/* Before hours go into a wrongly read model: accuracy on up to 64 of the images (NULL: of the whole split), spread
 * evenly, and a hint on stderr if it is low. Changes no result; what cannot be tried is left out. */
void vt_cli_hint(const vt_model *m, const vt_dataset *data, const int32_t *images, size_t n, int threads);
/* Prints vt_cli_hint's hint for an evaluation that begins; by rank 0 alone, and not for an external model or corrupted
 * images. */
void vt_cli_hint_run(const vt_cli *c, const vt_eval_options *v);

/* Runs the self-test of an attack, prints its verdict and, with --out, writes selftest.json. ledger: a finished run of
 * v, or NULL. points_only: tests the gradients alone, not what attacks find. */
vt_status vt_cli_selftest(const vt_cli *c, const vt_eval_options *v, const vt_attack *attack, const vt_ledger *ledger,
                          bool points_only, vt_err *e);
