/* SPDX-License-Identifier: MIT */
/* vitrine eval: from options to an evaluation, its reports, and what is said and tested after it. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli/eval_many.h"
#include "cli/run_args.h"
#include "base/files.h"
#include "linalg/gemm.h"
#include "eval/cost.h"
#include "eval/evaluate.h"
#include "eval/report/summary.h"
#include "eval/report/published.h"
#include "eval/report/export.h"
#include "eval/report/checksums.h"
#include "eval/run_folder.h"

extern const vt_command vt_command_selftest;

/* Everything a run holds; freed in one place. */
typedef struct job {
    vt_eval_options v;
    vt_cli_run r;
    vt_floor floor;
    const vt_paper *paper;                            /* --as-published, or NULL */
    vt_named_attack published[2 * VT_PUBLISHED_ROWS]; /* its rows, each as published and corrected */
    bool brief;                                       /* one of many: its table goes into files alone */
} job;

/* --as-published PAPER: for each row of its tables the evaluator that was run, and the corrected one. */
static vt_status parse_paper(job *j, const vt_cli *c, vt_err *e) {
    const char *name = vt_cli_get(c, "as-published"), *eps_text = vt_cli_get(c, "eps");
    double eps = 0;
    vt_norm norm;
    if (!name) return VT_OK;
    VT_TRY(vt_paper_find(&j->paper, name, e));
    if (vt_cli_nth(c, "as-published", 1)) return vt_fail(e, VT_E_USAGE, "give --as-published once: one paper a run");
    if (vt_cli_has(c, "exhaustive"))
        return vt_fail(e, VT_E_USAGE, "--as-published %s compares with a scoring that --exhaustive changes: give one",
                       name);
    VT_TRY(vt_cli_norm(c, &norm, e));
    if (norm == VT_LINF && !vt_cli_has(c, "threat")) VT_TRY(vt_eps_parse(eps_text, norm, &eps, e));
    VT_TRY(vt_paper_fits(j->paper, norm, vt_cli_get(c, "threat"), eps, eps_text, e));
    j->v.named = j->published;
    for (int i = 0; i < VT_PUBLISHED_ROWS && j->paper->rows[i].label; i++) {
        const vt_published_row *r = &j->paper->rows[i];
        j->published[j->v.n_named++] = (vt_named_attack){r->published, r->label, 0};
        j->published[j->v.n_named++] = (vt_named_attack){r->corrected, r->label, 0};
    }
    return VT_OK;
}

/* What --as-published cannot go with. */
static vt_status paper_alone(const job *j, const vt_cli *c, vt_err *e) {
    if (!j->paper || !vt_cli_has(c, "targets")) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "--as-published %s compares with attacks that took any class: leave --targets out",
                   vt_cli_get(c, "as-published"));
}

/* With a limit of time and a ball, but nothing to attack with, AutoAttack it is. */
static void attack_by_default(vt_eval_options *v, const vt_cli *c) {
    static vt_named_attack preset = {"autoattack", "autoattack", 0};
    static const char *const attacks[] = {"attack", "profile", "as-published", "surrogate", "surrogate-oracle"};
    bool any = v->seconds == 0 || !vt_cli_has(c, "eps");
    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++) any = any || vt_cli_has(c, attacks[i]);
    if (!any) v->named = &preset, v->n_named = 1;
}

/* --hours or --minutes: *seconds, 0 without. */
static vt_status parse_limit(double *seconds, const vt_cli *c, vt_err *e) {
    const char *hours = vt_cli_get(c, "hours"), *minutes = vt_cli_get(c, "minutes"), *text = hours ? hours : minutes;
    *seconds = 0;
    if (!text) return VT_OK;
    if (hours && minutes) return vt_fail(e, VT_E_USAGE, "--hours and --minutes are one limit: give one of them");
    if (!vt_parse_real(text, seconds) || !(*seconds > 0 && *seconds <= 1e5))
        return vt_fail(e, VT_E_USAGE, "--%s is '%s', must be a number above 0, at most 100000",
                       hours ? "hours" : "minutes", text);
    *seconds *= hours ? 3600 : 60;
    if (c->team || vt_eval_many_corruptions(c) || vt_cli_has(c, "seeds"))
        return vt_fail(e, VT_E_USAGE, "--%s is a limit of one evaluation: leave it out with %s",
                       hours ? "hours" : "minutes",
                       c->team                  ? "several ranks"
                       : vt_cli_has(c, "seeds") ? "--seeds"
                                                : "several corruptions");
    return VT_OK;
}

/* Reads all options, opens data and model, and makes the ledger's header. */
static vt_status parse(job *j, const vt_cli *c, vt_err *e) {
    vt_cli_eval_options(&j->v, c);
    VT_TRY(parse_paper(j, c, e));
    VT_TRY(paper_alone(j, c, e));
    VT_TRY(parse_limit(&j->v.seconds, c, e));
    attack_by_default(&j->v, c);
    VT_TRY(vt_eval_options_read(&j->v, e));
    VT_TRY(vt_floor_parse(&j->floor, c, j->v.n_attacks > 0, e));
    VT_TRY(vt_cli_eval_open(c, &j->v, e));
    VT_TRY(vt_eval_header(&j->r.header, &j->v, e));
    return j->paper ? vt_published_describe(j->r.header, j->paper, j->published, e) : VT_OK;
}

/* Prints the table and writes reports, adversarial images and run.json into --out. */
static vt_status report_results(job *j, const vt_cli *c, vt_err *e) {
    const char *out = vt_cli_get(c, "out");
    vt_summary s;
    if (out) VT_TRY(vt_ledger_finish(j->r.ledger, e));
    VT_TRY(vt_summary_make(&s, j->r.ledger, (int64_t)j->v.n_images, e));
    s.look = vt_cli_look(c);
    vt_status st = vt_reports_write(&s, out, j->brief ? NULL : stdout, e);
    if (st == VT_OK && vt_script_stream() && !vt_cli_has(c, "seeds"))
        st = vt_report_write(vt_report_find("json"), vt_script_stream(), &s, e);
    if (st == VT_OK && out && vt_cli_has(c, "save-adv")) st = vt_save_adv(j->r.ledger, false, e);
    if (st == VT_OK && out && vt_cli_has(c, "save-adv") && !vt_picture_is(j->r.ledger->header->shape))
        fprintf(stderr, "vitrine: images of %d channels are not drawn: %s has adv.safetensors, and no pictures\n",
                j->r.ledger->header->shape.channels, out);
    if (st == VT_OK && out && vt_cli_has(c, "save-npz")) st = vt_save_adv(j->r.ledger, true, e);
    vt_seconds measured;
    double cost = NAN; /* profiles count in forwards: is their ratio that of this machine? */
    for (int i = 0; i < j->v.n_attacks && isnan(cost); i++)
        if (j->v.attacks[i].def->profile && !j->v.subject->remote &&
            vt_measure_seconds(&measured, j->v.subject->model, 1, NULL) == VT_OK)
            cost = measured.gradient / measured.forward;
    if (st == VT_OK && out) st = vt_cli_eval_json(c, out, &j->v, &j->r, cost, e);
    vt_summary_free(&s);
    if (st != VT_OK || j->brief) return st;
    char kernels[128];
    vt_gemm_kernels(kernels, sizeof kernels);
    if (isfinite(cost)) printf("measured here, a gradient costs %.2f forwards\n", cost);
    printf("\n%.1f s, %d thread%s, %s on %s\n", j->r.seconds, j->v.threads, j->v.threads == 1 ? "" : "s", kernels,
           vt_cpu_isa());
    if (j->r.ledger->repeated)
        printf("%lld of these gradients were known already: the attack went in circles\n",
               (long long)j->r.ledger->repeated);
    return VT_OK;
}

/* Returns the first entry whose survivors would be reported as robust (vt_attack_def.tested), or NULL. */
static const vt_attack *to_be_tested(const job *j) {
    for (int i = 0; i < j->v.n_attacks; i++)
        for (int k = 0; k < j->v.attacks[i].n_stages; k++)
            if (j->v.attacks[i].stages[k].def->tested && j->v.attacks[i].scoring == VT_SCORE_BALL)
                return &j->v.attacks[i];
    return NULL;
}

/* Returns the entry whose self-test follows the run; NULL: none does. */
static const vt_attack *self_tested(const job *j, const vt_cli *c) {
    bool left_out = vt_cli_has(c, "no-selftest") || j->v.norm == VT_L0 || j->v.targets;
    return left_out ? NULL : to_be_tested(j);
}

/* A run with Auto-PGD tests itself; after a smaller one a line says how. unfinished: images that attacks have not
 * reached are no survivors, so gradients alone are tested. */
static vt_status test_itself(job *j, const vt_cli *c, bool unfinished, vt_err *e) {
    const vt_attack *a = to_be_tested(j);
    char text[2000];
    if (vt_cli_has(c, "no-selftest") || !j->v.n_attacks) return VT_OK;
    if (j->v.norm == VT_L0 && !j->brief)
        printf("the self-test has no attacks in l0: test the gradients in another norm, as vitrine selftest ... --eps "
               "4/255\n");
    if (j->v.norm == VT_L0 || j->v.rotation.angles) return VT_OK;
    if (j->v.targets) {
        if (!j->brief)
            printf("the self-test asks whether images fall to any class: run vitrine selftest, or eval without "
                   "--targets\n");
        return VT_OK;
    }
    if (a && unfinished && !j->brief) printf("attacks and survivors are tested when the run is finished\n");
    if (a) return vt_cli_selftest(c, &j->v, a, j->r.ledger, j->r.points_only || unfinished, e);
    if (j->brief || !vt_subject_differentiable(j->v.subject)) return VT_OK;
    vt_cli_again(text, sizeof text, c, &vt_command_selftest);
    if (vt_eval_norm(&j->v) >= VT_NORM_COUNT)
        printf("are these gradients to be believed? an entry with apgd-ce or apgd-t is followed by the self-test\n");
    else
        printf("are these gradients to be believed? vitrine selftest %s --eps %s\n", text, j->v.eps_text);
    return VT_OK;
}

/* Prints the table of what is done so far; under a limit of time that is the result, and goes where results go (a
 * continued run writes them again). */
static vt_status report_unfinished(job *j, const vt_cli *c, bool limit, vt_err *e) {
    vt_summary s;
    const char *out = limit ? vt_cli_get(c, "out") : NULL;
    VT_TRY(vt_summary_make(&s, j->r.ledger, (int64_t)j->v.n_images, e));
    s.look = vt_cli_look(c);
    vt_status st = vt_reports_write(&s, out, stdout, e);
    if (st == VT_OK && limit && vt_script_stream())
        st = vt_report_write(vt_report_find("json"), vt_script_stream(), &s, e);
    vt_summary_free(&s);
    return st;
}

/* What --hours ends with: reports of what is done and what was left out, and the self-test. */
static vt_status report_at_limit(job *j, const vt_cli *c, vt_err *e) {
    const char *out = vt_cli_get(c, "out");
    VT_TRY(report_unfinished(j, c, true, e));
    if (out) VT_TRY(vt_cli_eval_json(c, out, &j->v, &j->r, NAN, e));
    printf("\nthe time is up after %.1f s: %s\n", j->r.seconds,
           out ? "the same command goes on with --resume, with a new limit or none"
               : "without --out nothing is kept to go on with");
    return test_itself(j, c, true, e);
}

/* Prints the table of what is done so far, and fails with VT_INTERRUPTED; the ledger can be continued. */
static vt_status report_partial(job *j, const vt_cli *c, vt_err *e) {
    VT_TRY(report_unfinished(j, c, false, e));
    return vt_fail(e, VT_INTERRUPTED, "interrupted; %zu ledger lines are %s", j->r.ledger->count,
                   vt_cli_has(c, "out") ? "kept: continue with --resume" : "lost, since no --out was given");
}

/* Checks the run's accuracies against --fail-under; VT_E_RANGE: one is below. */
static vt_status check_floor(const job *j, vt_err *e) {
    vt_summary s;
    VT_TRY(vt_summary_make(&s, j->r.ledger, (int64_t)j->v.n_images, e));
    vt_status st = vt_floor_check(&j->floor, &s, e);
    vt_summary_free(&s);
    return st;
}

/* Takes from j->v.seconds (--hours) the time since `began` and an estimate of the self-test to come, at most a quarter;
 * leaves at least 1%. Starts the alarm for what remains. Fails if the network cannot be timed. */
static vt_status set_alarm(job *j, double began, vt_err *e) {
    enum { FORWARDS = 5000 }; /* parts 1 and 2 of the self-test: 32 images, 140 forwards each (docs/selftest.md) */
    vt_seconds each = {0};
    if (j->r.tested && !j->v.subject->remote) VT_TRY(vt_measure_seconds(&each, j->v.subject->model, 1, e));
    const double test = fmin(FORWARDS * each.forward / j->v.threads, j->v.seconds / 4);
    j->v.seconds = fmax(j->v.seconds - test - (vt_now() - began), 0.01 * j->v.seconds);
    vt_cli_alarm(j->v.seconds);
    return VT_OK;
}

/* Runs one evaluation from its options to reports, self-test and checksums. */
static vt_status run_evaluation(job *j, const vt_cli *c, vt_err *e) {
    const double began = vt_now();
    VT_TRY(parse(j, c, e));
    j->r.tested = self_tested(j, c), j->r.points_only = vt_eval_norm(&j->v) >= VT_NORM_COUNT;
    if (j->v.seconds > 0) VT_TRY(set_alarm(j, began, e));
    vt_status s = vt_cli_evaluate(c, &j->r, &j->v, e);
    const bool up = vt_cli_time_is_up();
    if (s == VT_INTERRUPTED && up) return report_at_limit(j, c, e);
    if (s == VT_INTERRUPTED && !vt_team_rank(c->team)) return report_partial(j, c, e);
    if (!j->r.complete) return s;
    VT_TRY(report_results(j, c, e));
    VT_TRY(test_itself(j, c, false, e));
    const char *out = vt_cli_get(c, "out");
    if (out) VT_TRY(vt_checksums_write(out, e)); /* after the last file */
    if (out) putchar('\n'), vt_checksums_list(stdout, out);
    VT_TRY(vt_expect_no_contradiction(j->r.ledger, e));
    if (vt_cli_has(c, "expect-robust")) VT_TRY(vt_expect_robust(j->r.ledger, e));
    return vt_cli_has(c, "seeds") ? VT_OK : check_floor(j, e); /* of several seeds each is judged when all are done */
}

/* Runs one evaluation and frees it; brief: one of many, whose table goes into files alone. */
static vt_status run_job(const vt_cli *c, bool brief, vt_err *e) {
    static job j;
    j = (job){.brief = brief};
    vt_status s = run_evaluation(&j, c, e);
    vt_cli_run_close(&j.r);
    vt_eval_options_close(&j.v);
    return s;
}

static vt_status run_once(const vt_cli *c, vt_err *e) { return run_job(c, false, e); }
static vt_status run_briefly(const vt_cli *c, vt_err *e) { return run_job(c, true, e); }

/* Runs vitrine eval on the ranks of a launcher, if there is one. */
static vt_status run(const vt_cli *c, vt_err *e) {
    if (vt_cli_has(c, "dry-run")) return run_once(c, e);
    if (c->team && (vt_eval_many_corruptions(c) || vt_cli_has(c, "seeds")))
        return vt_fail(e, VT_E_USAGE, "several ranks do one evaluation at a time: give one --%s",
                       vt_cli_has(c, "seeds") ? "seed instead of --seeds" : "corruption with one --severity");
    if (c->team && !vt_cli_has(c, "out"))
        return vt_fail(e, VT_E_USAGE, "an evaluation by several ranks needs --out FOLDER");
    if (vt_eval_many_corruptions(c)) return vt_eval_corruptions(c, run_briefly, e);
    return vt_cli_has(c, "seeds") ? vt_eval_seeds(c, run_once, e) : run_once(c, e);
}

static const vt_arg args[] = {
    VT_EVAL_ARGS,
    {"as-published", "PAPER",
     "what it ran, beside the same corrected: specformer, mo2022 (-imagenet: its steps), trades", VT_OF_ATTACK},
    {"hours", "N",
     "stop then: images are attacked (without --attack by AutoAttack) in a random order, and what was left out is "
     "bounded; --resume goes on",
     VT_OF_RUN},
    {"minutes", "N", "the same in minutes", VT_OF_RUN},
    {"seeds", "A,B,...", "once with each seed, into OUT/seed-N; prints mean and range", VT_OF_RUN},
    VT_DRY_RUN_ARG,
    VT_JSON_ARG,
    VT_QUIET_ARG,
    VT_VERBOSE_ARG,
    VT_FLOOR_ARG,
    {"expect-robust", NULL, "exit status 1, naming the image, if any attack succeeds (certified images)", VT_OF_RUN},
    {"no-selftest", NULL, "leave out the self-test at the end of a run with autoattack or a profile", VT_OF_RUN},
    {0},
};

const vt_command vt_command_eval = {
    .name = "eval",
    .summary = "clean and robust accuracy of a checkpoint on real images",
    .operands = "WEIGHTS",
    .max_operands = 1,
    .args = args,
    .details =
        "Every image counted as broken was checked again by separate code: norm and box in double on the stored "
        "float32 values, label by a fresh forward in float and in double. 'borderline' counts those whose double "
        "verdict disagrees or whose margin is below the float noise. 'vitrine list attacks' shows attacks and options.",
    .examples =
        {"vitrine eval weights/shapes10-vit --data datasets/shapes10 --images 0:50",
         "vitrine eval weights/shapes10-vit --data datasets/shapes10 --images 0:20 --eps 4/255 --attack pgd --attack "
         "cw20 --out run",
         "vitrine eval weights/shapes10-vit --data datasets/shapes10 --images 0:8 --norm l2 --eps 0.5 --profile quick"},
    .run = run,
    .ranks = true,
};
