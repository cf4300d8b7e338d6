/* SPDX-License-Identifier: MIT */
/* vitrine falsify: searches inputs that meet a VNN-LIB specification of a network. */
#include <stdio.h>
#include "cli/cli.h"
#include "cli/falsify_many.h"

enum { SHOWN = 100 }; /* cases on the terminal */

vt_status vt_falsify_options_read(vt_falsify_options *o, const vt_cli *c, vt_err *e) {
    long long steps, rounds, seed, threads;
    vt_overrides network; /* of a list they are read with each network: refused here, not once for each */
    const char *seconds = vt_cli_get(c, "seconds");
    *o = (vt_falsify_options){0};
    if (seconds && (!vt_parse_real(seconds, &o->seconds) || o->seconds <= 0 || o->seconds > 1e7))
        return vt_fail(e, VT_E_USAGE, "--seconds is '%s', must be a number above 0, at most 10^7", seconds);
    VT_TRY(vt_cli_int(c, "steps", 1, 1000000, 100, &steps, e));
    VT_TRY(vt_cli_int(c, "restarts", 1, 1000000, seconds || vt_cli_has(c, "instances") ? 0 : 10, &rounds, e));
    VT_TRY(vt_cli_int(c, "seed", 0, INT64_MAX, 0, &seed, e));
    VT_TRY(vt_cli_threads(c, &threads, e));
    VT_TRY(vt_cli_overrides(c, &network, e));
    o->steps = (int)steps, o->rounds = (int)rounds, o->seed = (uint64_t)seed, o->threads = (int)threads;
    o->interrupt = vt_cli_interruptible();
    return VT_OK;
}

vt_status vt_falsify_open(vt_spec_pair *p, const vt_cli *c, const char *model, const char *spec, vt_err *e) {
    vt_overrides o;
    VT_TRY(vt_cli_overrides(c, &o, e));
    vt_status s = vt_spec_pair_open(p, model, spec, &o, e);
    if (s == VT_OK && p->model) s = vt_cli_known(c, p->model, e);
    if (s != VT_OK) vt_spec_pair_close(p);
    return s == VT_E_FORMAT || s == VT_E_SHAPE || s == VT_E_RANGE ? VT_E_USAGE : s;
}

/* Returns the specification's line in which case c ends. */
static int line_of(const vt_spec *s, int c) { return s->rows[s->cases[c].rows[s->cases[c].n - 1]].line; }

/* Prints "sat", the case that the witness meets and how far, and where it was found and written (out NULL: nowhere). */
static void show_sat(const vt_spec *s, const vt_falsify_result *r, const char *out) {
    const vt_witness *w = &r->witness;
    printf("sat\ncase %d of %d (line %d) is met by %.6g in float32, %.6g in double\n", w->at + 1, s->n_cases,
           line_of(s, w->at), -w->violation, -w->violation_double);
    printf("found from %s, run %lld, in %.1f s\n", r->from, (long long)r->run, r->seconds);
    int between = 0;
    for (int i = 0; i < s->inputs; i++) between += (double)(float)w->x[i] != w->x[i];
    if (between)
        printf("inputs without a float32 between their bounds: %d (written in double, computed rounded)\n", between);
    if (out) printf("witness in %s\n", out);
}

/* Prints "unknown", what was tried, and how near each case came. */
static void show_unknown(const vt_cli *c, const vt_spec *s, const vt_falsify_result *r, const vt_falsify_options *o) {
    const vt_look look = vt_cli_look(c);
    vt_columns t;
    printf("unknown\nprojected gradient descent in the box: %lld steps in %lld runs of at most %d, %d rounds (from the "
           "centre, corners and random points), %.1f s%s\n",
           (long long)r->steps, (long long)r->run, o->steps, r->rounds, r->seconds,
           r->timed_out ? ", the time is over" : "");
    if (r->borderline)
        printf("borderline: %lld points meet a case in float32, but not in double\n", (long long)r->borderline);
    if (s->n_empty) printf("%d further cases have an empty box\n", s->n_empty);
    vt_columns_titles(&t, "case\tline\tleast violation (0: met)");
    for (int k = 0; k < s->n_cases && k < SHOWN; k++)
        vt_columns_cells(&t, "%d\t%d\t%.6g", k + 1, line_of(s, k), r->best[k]);
    vt_columns_end(&t, stdout, &look);
    if (s->n_cases > SHOWN) printf("... and %d more cases\n", s->n_cases - SHOWN);
}

/* Searches a witness of one network and one specification, prints the answer and writes it to --out. */
static vt_status falsify_one(const vt_cli *c, vt_err *e) {
    const char *out = vt_cli_get(c, "out");
    vt_falsify_options o;
    vt_falsify_result r = {0};
    vt_spec_pair p = {0};
    if (c->n_positional != 2)
        return vt_fail(e, VT_E_USAGE,
                       "vitrine falsify needs MODEL and SPEC, or --instances, or --referee (see 'vitrine "
                       "help falsify')");
    VT_TRY(vt_falsify_options_read(&o, c, e));
    if (out) VT_TRY(vt_file_writable(out, e));
    VT_TRY(vt_falsify_open(&p, c, c->positional[0], c->positional[1], e));
    vt_status s = vt_falsify(&r, p.spec, &p.network, &o, e);
    if (s == VT_OK && out) s = vt_witness_write(out, true, p.spec, r.sat ? &r.witness : NULL, e);
    if (s == VT_OK && r.sat) show_sat(p.spec, &r, out);
    if (s == VT_OK && !r.sat) show_unknown(c, p.spec, &r, &o);
    vt_falsify_free(&r);
    vt_spec_pair_close(&p);
    return s;
}

static vt_status run(const vt_cli *c, vt_err *e) {
    const char *instances = vt_cli_get(c, "instances"), *referee = vt_cli_get(c, "referee");
    if (!instances && !referee) return falsify_one(c, e);
    if (instances && referee) return vt_fail(e, VT_E_USAGE, "give --instances or --referee, not both");
    if (c->n_positional != (referee ? 1 : 0))
        return vt_fail(e, VT_E_USAGE,
                       referee ? "--referee RESULTS.csv goes with one operand: INSTANCES.csv"
                               : "--instances CSV goes with no operand");
    return referee ? vt_falsify_referee(c, referee, c->positional[0], e) : vt_falsify_instances(c, instances, e);
}

static const vt_arg args[] = {
    {"instances", "CSV", "instead of MODEL and SPEC: network, specification, seconds a line (VNN-COMP)", VT_OF_DATA},
    {"referee", "RESULTS.csv", "a verifier's results: attack what it calls unsat, judge its witnesses", VT_OF_DATA},
    {"tolerance", "T", "with --referee: by how much a witness may miss (default 1e-4)", VT_OF_DATA},
    {"steps", "N", "gradient steps of a run (default 100)", VT_OF_ATTACK},
    {"restarts", "N", "rounds of runs (default 10; with a limit of time: no limit)", VT_OF_ATTACK},
    {"seconds", "S", "for each search (default none; --instances: at most those of the list)", VT_OF_RUN},
    {"out", "FILE|DIR", "the verdict and its witness; of lists a folder: results.csv, NAME.counterexample",
     VT_OF_OUTPUT},
    VT_SEED_ARG,
    VT_THREADS_ARG,
    VT_VERBOSE_ARG,
    VT_MODEL_ARGS,
    {0},
};

const vt_command vt_command_falsify = {
    .name = "falsify",
    .summary = "search an input that meets a VNN-LIB specification; referee verifiers",
    .operands = "MODEL SPEC.vnnlib",
    .min_operands = 0,
    .max_operands = 2,
    .args = args,
    .details =
        "MODEL is an ONNX file, or a checkpoint whose inputs are pixels in [0,1]. ONNX files, specifications and\n"
        "witnesses may be packed by gzip.\n"
        "The first line is the verdict: sat, with an input that lies within the bounds exactly and meets the "
        "condition\n"
        "in float32 and in double, or unknown, with the least violation of each case. falsify never says unsat.\n"
        "Exit status 0: there is a verdict; 2: a file or the command line is refused; 1: anything else, with "
        "--referee\n"
        "also that results are contradicted. --steps and --restarts bound the work: then the seed decides the result.\n"
        "--instances resumes where DIR/results.csv ends (docs/verifiers.md).",
    .examples = {"vitrine falsify tests/fixtures/vnnlib/linear.onnx tests/fixtures/vnnlib/sat.vnnlib --out witness.txt",
                 "vitrine falsify tests/fixtures/vnnlib/linear.onnx tests/fixtures/vnnlib/unsat.vnnlib --restarts 3",
                 "vitrine falsify --instances tests/fixtures/vnnlib/instances.csv --out falsified",
                 "vitrine falsify --referee falsified/results.csv tests/fixtures/vnnlib/instances.csv --restarts 3"},
    .run = run,
};
