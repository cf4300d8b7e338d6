/* SPDX-License-Identifier: MIT */
/* vitrine lab: runs one experiment and prints its verdicts. */
#include <stdlib.h>
#include "cli/cli.h"
#include "research/cli/result_dir.h"
#include "research/cli/plugin_options.h"
#include "research/lab/lab.h"

typedef struct job {
    const vt_lab_def *def;
    void *params;
    vt_lab lab;
    json_t *doc;
    vt_result_dir folder;
} job;

/* The options of a lab, for vt_plugin_options. */
static vt_plugin_options options_of(const vt_lab_def *d) { return (vt_plugin_options){"lab", d->name, d->opts}; }

/* Sets *out to --name as an option of the lab that the operands name. VT_E_USAGE if they name none yet, VT_E_UNKNOWN
 * for a lab or key that is not there. */
static vt_status find(const vt_cli *c, const char *name, vt_arg *out, vt_err *e) {
    const vt_lab_def *d;
    if (!c->n_positional)
        return vt_fail(e, VT_E_USAGE, "vitrine lab has no option '--%s' of its own: name the lab before its options",
                       name);
    VT_TRY(vt_lab_find(&d, c->positional[0], e));
    const vt_plugin_options own = options_of(d);
    return vt_plugin_options_find(&own, c, name, out, e);
}

/* Reads the lab, its options, seed and threads. */
static vt_status parse(job *j, const vt_cli *c, vt_err *e) {
    long long seed, threads;
    VT_TRY(vt_lab_find(&j->def, c->positional[0], e));
    const vt_plugin_options own = options_of(j->def);
    VT_TRY(vt_plugin_options_parse(&own, c, j->def->params_size, &j->params, e));
    VT_TRY(vt_cli_int(c, "seed", 0, INT64_MAX, 0, &seed, e));
    VT_TRY(vt_cli_threads(c, &threads, e));
    j->lab.seed = (uint64_t)seed, j->lab.threads = (int)threads;
    return VT_OK;
}

/* Parses, opens --out, runs the lab, prints its time, and keeps the document. */
static vt_status run_experiment(job *j, const vt_cli *c, vt_err *e) {
    VT_TRY(parse(j, c, e));
    VT_TRY(vt_result_dir_open(&j->folder, vt_cli_get(c, "out"), "lab.json", e));
    j->lab.out = j->folder.out, j->lab.dir = j->folder.dir;
    if (j->folder.dir) j->lab.picture = vt_result_dir_picture, j->lab.picture_ctx = &j->folder;
    j->lab.progress = vt_cli_progress(), j->lab.progress.unit = "runs";
    j->lab.interrupt = vt_cli_interruptible();
    double began = vt_now();
    VT_TRY(vt_lab_run(j->def, j->params, &j->lab, &j->doc, e));
    double seconds = vt_now() - began;
    printf("%.1f s, %d thread%s\n", seconds, j->lab.threads, j->lab.threads == 1 ? "" : "s");
    return vt_result_dir_keep(&j->folder, c, j->doc, j->lab.threads, seconds, e);
}

static vt_status run(const vt_cli *c, vt_err *e) {
    static job j;
    vt_status s = run_experiment(&j, c, e);
    vt_result_dir_close(&j.folder, s == VT_OK);
    json_decref(j.doc);
    free(j.params);
    return s;
}

static const vt_arg args[] = {
    VT_SEED_ARG,
    VT_JSON_ARG,
    VT_QUIET_ARG,
    VT_THREADS_ARG,
    {"out", "DIR", "folder for lab.json, tables.txt, run.json and figures", VT_OF_OUTPUT},
    {"set", "OPTION=VALUE", "an option of the lab; repeatable", VT_OF_RUN},
    {0},
};

const vt_command vt_command_lab = {
    .name = "lab",
    .summary = "small experiments that test what the papers claim",
    .operands = "LAB",
    .min_operands = 1,
    .max_operands = 1,
    .args = args,
    .details = "vitrine list labs shows the labs and their options, which are flags too: vitrine lab NAME --key value, "
               "after the name. A lab prints its tables, then claim by claim what it supports, weakens or contradicts: "
               "a finding, not a failure, so the exit status is 0. lab.json and tables.txt depend on seed and options "
               "alone; times and the machine are in run.json (docs/labs.md).",
    .examples = {"vitrine lab regions --most 50 --draws 2",
                 "vitrine lab attgd --part margin --quick --seed 1 --out margin"},
    .run = run,
    .find = find,
};
