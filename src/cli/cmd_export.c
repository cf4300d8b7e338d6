/* SPDX-License-Identifier: MIT */
/* vitrine export: a run's adversarial images as files that other tools load. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "cli/run_args.h"
#include "eval/run_folder.h"
#include "base/files.h"
#include "base/opt.h"
#include "eval/report/export.h"
#include "eval/report/proof.h"
#include "eval/report/queries.h"
#include "eval/header.h"

/* Finds the format that --format names, npz by default. */
static vt_status format_of(const vt_cli *c, const vt_export_format **out, vt_err *e) {
    const char *name = vt_cli_get(c, "format");
    *out = vt_export_find(name ? name : "npz");
    return *out ? VT_OK : vt_fail(e, VT_E_USAGE, "--format is '%s', must be npz, npy, safetensors or png", name);
}

/* Finds the entry that --attack names (name or id) among those of this scoring: 1, 2, ...; *entry 0: no --attack, so
 * all of them. */
static vt_status entry_of(const vt_cli *c, const vt_ledger *l, vt_scoring scoring, int *entry, vt_err *e) {
    const char *want = vt_cli_get(c, "attack"), *names[64];
    size_t n = l->header->n_attacks < 64 ? (size_t)l->header->n_attacks : 64, scored = 0;
    *entry = 0;
    for (size_t i = 0; i < n; i++) {
        const vt_header_attack *a = &l->header->attacks[i];
        bool fits = a->scoring == scoring;
        names[i] = a->name;
        scored += fits;
        if (!*entry && want && fits && (!strcmp(want, names[i]) || !strcmp(want, a->id))) *entry = (int)i + 1;
    }
    if (!scored && scoring == VT_SCORE_EIGHT_BIT)
        return vt_fail(e, VT_E_USAGE, "%s has no 8-bit rows: it was evaluated without --eight-bit", l->dir);
    if (*entry || !want) return VT_OK;
    const char *near = vt_nearest(want, names, n);
    return vt_fail(e, VT_E_USAGE, "%s has no attack '%s'%s%s%s", l->dir, want, near ? "; did you mean '" : "",
                   near ? near : "", near ? "'?" : "");
}

/* Refuses two of the things that an export can be. */
static vt_status one_kind(const vt_cli *c, vt_err *e) {
    static const char *const kinds[] = {"proof", "robustbench", "queries", "out", "format"};
    int given = 0;
    for (int k = 0; k < 5; k++) {
        bool also = k == 4 && vt_cli_has(c, "out"); /* --format and --out go together */
        if (vt_cli_has(c, kinds[k]) && !also && ++given > 1)
            return vt_fail(e, VT_E_USAGE, "give one of --proof, --robustbench, --queries, or --format and --out");
    }
    return VT_OK;
}

/* Writes a proof of the points. */
static vt_status write_proof(const vt_cli *c, const vt_export *x, const vt_subject *s, const char *path, vt_err *e) {
    int threads;
    VT_TRY(vt_threads_parse(&c->given, s, &threads, e));
    return vt_proof_write(x, s, threads, path, e);
}

/* Opens the run, collects its adversarial images and writes them in the chosen format. */
static vt_status export_run(const vt_cli *c, vt_run_folder *r, vt_export *x, vt_err *e) {
    char path[VT_PATH_MAX];
    char model[100];
    const char *dir = c->positional[0], *proof = vt_cli_get(c, "proof"), *bench = vt_cli_get(c, "robustbench");
    const char *out = proof ? proof : bench ? bench : vt_cli_get(c, "out");
    const vt_export_format *format;
    int entry;
    VT_TRY(format_of(c, &format, e));
    if (out ? snprintf(path, sizeof path, "%s", out) >= (int)sizeof path : !vt_path(path, dir, format->where))
        return vt_fail(e, VT_E_USAGE, "%s: path is too long", out ? out : dir);
    if (!vt_cli_has(c, "force") && access(path, F_OK) == 0)
        return vt_fail(e, VT_E_USAGE, "%s exists: choose another --out, or --force", path);
    VT_TRY(vt_run_folder_open(r, dir, &c->given, e));
    vt_scoring scoring = vt_cli_has(c, "eight-bit") ? VT_SCORE_EIGHT_BIT : VT_SCORE_BALL;
    VT_TRY(entry_of(c, r->ledger, scoring, &entry, e));
    VT_TRY(vt_export_make(x, r->ledger, r->subject.model, r->subject.data, entry, scoring, e));
    VT_TRY(vt_run_model_name(dir, vt_cli_get(c, "weights"), model, e));
    VT_TRY(proof   ? write_proof(c, x, &r->subject, path, e)
           : bench ? vt_robustbench_write(x, model, path, e)
                   : format->write(x, path, e));
    printf("%s: %lld images, %lld of them adversarial (%s%s), the others clean\n", path, (long long)x->n,
           (long long)x->broken, scoring == VT_SCORE_EIGHT_BIT ? "8-bit: " : "",
           entry ? vt_cli_get(c, "attack") : "the point of the largest margin of any attack");
    if (bench) printf("%s/issue.md: fill in what stands in <>\n", path);
    if (!strcmp(format->name, "png") && scoring != VT_SCORE_EIGHT_BIT)
        printf("pictures are rounded to 8 bits, which can leave the ball or undo an attack: they are no proof\n");
    return VT_OK;
}

/* Writes and prints at which query images fell to the run's black-box attacks. */
static vt_status export_queries(const vt_cli *c, vt_run_folder *r, const char *path, vt_err *e) {
    vt_queries *q;
    vt_file f;
    int n;
    if (!vt_cli_has(c, "force") && access(path, F_OK) == 0)
        return vt_fail(e, VT_E_USAGE, "%s exists: choose another --queries, or --force", path);
    VT_TRY(vt_ledger_open(&r->ledger, c->positional[0], e));
    vt_status s = vt_queries_make(&q, &n, r->ledger, e);
    if (s == VT_OK && !n)
        s = vt_fail(e, VT_E_USAGE, "%s has no black-box attack that ended at the query which broke an image%s",
                    c->positional[0], r->ledger->header->exhaustive ? " (--exhaustive)" : "");
    if (s == VT_OK) s = vt_file_begin_path(&f, path, e);
    if (s == VT_OK) {
        vt_queries_csv(f.stream, q, n);
        s = vt_file_commit(&f, e);
    }
    for (int k = 0; k < n && s == VT_OK; k++) {
        printf("%s: %lld of %lld images fell", q[k].label, (long long)q[k].broken, (long long)q[k].tried);
        if (q[k].broken)
            printf(", half of them within %lld queries, the last at %lld", (long long)q[k].at[(q[k].broken - 1) / 2],
                   (long long)q[k].at[q[k].broken - 1]);
        putchar('\n');
    }
    vt_queries_free(q, n);
    return s;
}

/* Runs vitrine export: writes a run's adversarial points as arrays or pictures. */
static vt_status run(const vt_cli *c, vt_err *e) {
    static vt_run_folder r;
    vt_export x = {0};
    const char *queries = vt_cli_get(c, "queries");
    VT_TRY(one_kind(c, e));
    vt_status s = queries ? export_queries(c, &r, queries, e) : export_run(c, &r, &x, e);
    vt_export_free(&x);
    vt_run_folder_close(&r);
    return s;
}

static const vt_arg args[] = {
    {"format", "npz|npy|safetensors|png", "default npz", VT_OF_OUTPUT},
    {"out", "PATH", "file or folder (default: export.npz, export.safetensors, export/ or export-png/ in RUNDIR)",
     VT_OF_OUTPUT},
    {"proof", "FILE.npz",
     "instead: images, points, logits and hashes, for vitrine verify FILE.npz and "
     "python/examples/check_proof.py",
     VT_OF_OUTPUT},
    {"robustbench", "DIR", "instead: adversarial.pt and issue.md, as RobustBench takes external evaluations",
     VT_OF_OUTPUT},
    {"queries", "FILE.csv", "instead: at how many queries images fell to black-box attacks (needs no data)",
     VT_OF_OUTPUT},
    {"attack", "NAME", "the points of one attack of the run (default: of all, the largest margin)", VT_OF_OUTPUT},
    {"eight-bit", NULL, "the 8-bit points (of a run with --eight-bit), which a PNG holds to the last bit",
     VT_OF_OUTPUT},
    {"force", NULL, "overwrite what is there", VT_OF_OUTPUT},
    VT_THREADS_ARG,
    VT_RUN_ARGS,
    VT_MODEL_ARGS,
    {0},
};

const vt_command vt_command_export = {
    .name = "export",
    .summary = "a run's adversarial images as arrays that others load",
    .operands = "RUNDIR",
    .min_operands = 1,
    .max_operands = 1,
    .args = args,
    .details = "x_adv [N,C,H,W] float32 in [0,1], labels, indices, preds [N] int64 and status [N] uint8 (1: broken), "
               "one row for every evaluated image in the order of their numbers; where nothing broke an image the "
               "clean one stands, as leaderboards want it. tools/check_export.py judges an export again in PyTorch.",
    .examples =
        {"vitrine eval weights/shapes10-vit --data datasets/shapes10 --images 0:20 --eps 4/255 --attack pgd --out run",
         "vitrine export run", "vitrine export run --format png --out pictures", "vitrine export run --proof proof.npz",
         "vitrine export run --robustbench bench"},
    .run = run,
};
