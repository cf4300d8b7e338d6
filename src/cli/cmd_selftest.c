/* SPDX-License-Identifier: MIT */
/* vitrine selftest: the self-test of an evaluation, without the evaluation. */
#include <string.h>
#include "cli/run_args.h"
#include "base/files.h"
#include "base/json.h"

/* ---- shared with eval and curve ---- */

extern const vt_command vt_command_eval;

vt_status vt_cli_selftest(const vt_cli *c, const vt_eval_options *v_, const vt_attack *attack, const vt_ledger *ledger,
                          bool points_only, vt_err *e) {
    const char *dir = vt_cli_get(c, "out");
    char text[2000];
    vt_eval_options v = *v_;
    v.progress = vt_cli_progress();
    v.interrupt = vt_cli_interruptible();
    vt_selftest t = {.v = &v, .attack = attack, .ledger = ledger, .points_only = points_only, .command = text};
    vt_cli_again(text, sizeof text, c, &vt_command_eval); /* what would decide is an evaluation */
    VT_TRY(vt_selftest_run(&t, e));
    VT_TRY(vt_selftest_print(stdout, &t, e));
    if (!strcmp(c->command->name, "selftest")) VT_TRY(vt_script_print(vt_selftest_json(&t), e));
    if (!dir) return VT_OK;
    VT_TRY(vt_make_dir(dir, e));
    json_t *o = vt_selftest_json(&t);
    vt_status s = vt_json_save(dir, "selftest.json", o, JSON_INDENT(1), e);
    json_decref(o);
    return s;
}

/* ---- the command ---- */

/* Reads all options and opens data and model; without --attack, AutoAttack is tested. */
static vt_status parse(vt_eval_options *v, const vt_cli *c, vt_err *e) {
    static vt_named_attack preset = {"autoattack", "autoattack", 0};
    vt_cli_eval_options(v, c);
    if (!vt_cli_has(c, "attack")) v->named = &preset, v->n_named = 1;
    VT_TRY(vt_eval_options_read(v, e));
    const vt_attack *a = &v->attacks[v->n_attacks - 1];
    if (a->scoring != VT_SCORE_BALL)
        return vt_fail(e, VT_E_USAGE, "attack %s is a paper's evaluator, scored as published: it tests no gradients",
                       a->name);
    VT_TRY(vt_cli_eval_open(c, v, e));
    if (vt_subject_differentiable(v->subject)) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "the self-test follows gradients, which the model %.300s does not give",
                   v->subject->model->path);
}

/* Runs vitrine selftest: tests the gradients of a model and what attacks find. */
static vt_status run(const vt_cli *c, vt_err *e) {
    static vt_eval_options v;
    vt_status s = parse(&v, c, e);
    if (s == VT_OK) s = vt_cli_selftest(c, &v, &v.attacks[v.n_attacks - 1], NULL, false, e);
    vt_eval_options_close(&v);
    return s;
}

static const vt_arg args[] = {
    VT_DATA_ARG,
    VT_EPS_ARG,
    {"norm", "linf|l2|l1", "threat model (default linf)", VT_OF_THREAT},
    {"attack", "ATTACK", "the attack whose evaluation is tested (default autoattack)", VT_OF_ATTACK},
    VT_IMAGES_ARGS,
    {"out", "DIR", "folder for selftest.json (default: terminal only)", VT_OF_OUTPUT},
    VT_SEED_ARG,
    VT_THREADS_ARG,
    VT_JSON_ARG,
    VT_QUIET_ARG,
    VT_WRAP_ARG,
    VT_ORACLE_ARGS,
    VT_MODEL_ARGS,
    {0},
};

const vt_command vt_command_selftest = {
    .name = "selftest",
    .summary = "may the gradients that an evaluation follows be believed?",
    .operands = "WEIGHTS",
    .max_operands = 1,
    .args = args,
    .details =
        "Five parts on samples of the images that are right: what gradients are at single points, and at the scale of "
        "the ball; what white-box attacks of several strengths find; which other ways lead to what they left (random "
        "points, a moved copy, probes inside the network, smoothed gradients, Square); and the active test, in which "
        "an adversarial image is known to exist. What the budget leaves out is named beside the verdict. Each check is "
        "an exact test of a stated null hypothesis, with Holm's correction over all: a model for which all hold is "
        "called doubtful with probability at most 0.05, masked with at most 0.01 (docs/selftest.md). The verdict is "
        "'no sign of masking', with the number of checks and images, 'doubtful' or 'gradients are masked'; without a "
        "right image, with constant logits or chance-level accuracy nothing can be tested. The exit status is 0 for "
        "each: it is a finding, not a failure. What it may cost is said before it begins.",
    .examples =
        {"vitrine selftest weights/shapes10-vit --data datasets/shapes10 --images 0:10 --eps 4/255 --attack pgd",
         "vitrine selftest weights/shapes10-vit --data datasets/shapes10 --images 0:10 --norm l2 --eps 0.5 --attack "
         "pgd --wrap saturate"},
    .run = run,
};
