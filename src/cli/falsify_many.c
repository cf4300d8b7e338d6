/* SPDX-License-Identifier: MIT */
#include "cli/falsify_many.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/hash.h"
#include "base/text.h"
#include "spec/instances.h"

typedef struct job {
    const vt_cli *c;
    const char *out; /* folder, or NULL */
    vt_falsify_options o;
    vt_instances all, done;
    char folder[VT_PATH_MAX]; /* of the list: its paths begin there */
    char category[300];
    char *results; /* text of DIR/results.csv */
    int sat, unknown, failed;
} job;

/* Sets to to path, which is relative to the list's folder unless it begins with a slash; fails if it is too long. */
static vt_status resolve_path(char to[VT_PATH_MAX], const job *j, const char *path, vt_err *e) {
    return vt_path_in(to, *path == '/' ? "" : j->folder, path + (*path == '/'), e);
}

/* Sets j's folder, category (the folder's name, its commas made _) and instances from the list at csv. VT_E_USAGE: it
 * has a wrong line, or none. */
static vt_status open_lists(job *j, const char *csv, vt_err *e) {
    const char *slash = strrchr(csv, '/');
    if (strlen(csv) >= VT_PATH_MAX) return vt_fail(e, VT_E_USAGE, "%.80s...: the path is too long", csv);
    snprintf(j->folder, sizeof j->folder, "%.*s", slash ? (int)(slash - csv) : 1, slash ? csv : ".");
    const char *name = strrchr(j->folder, '/') ? strrchr(j->folder, '/') + 1 : j->folder;
    snprintf(j->category, sizeof j->category, "%.200s", strcmp(name, ".") ? name : "");
    for (char *p = j->category; *p; p++)
        if (*p == ',') *p = '_';
    vt_status s = vt_instances_read(&j->all, csv, false, e);
    if (s == VT_E_FORMAT) return VT_E_USAGE;
    if (s == VT_OK && !j->all.n) return vt_fail(e, VT_E_USAGE, "%s: lists no instance", csv);
    return s;
}

/* Frees the two lists of instances and the results that were read; accepts a zeroed job. */
static void close_job(job *j) {
    vt_instances_free(&j->all);
    vt_instances_free(&j->done);
    free(j->results);
}

/* Writes DIR/settings.txt, on which a folder's results depend: options and the list's hash. VT_E_USAGE if it is there
 * and says others. */
static vt_status check_settings(job *j, const char *csv, vt_err *e) {
    char path[VT_PATH_MAX], text[400], hash[65], *before = NULL;
    VT_TRY(vt_sha_file(csv, hash, e));
    snprintf(text, sizeof text, "steps %d, restarts %d, seconds %g, seed %llu, list %.16s\n", j->o.steps, j->o.rounds,
             j->o.seconds, (unsigned long long)j->o.seed, hash);
    VT_TRY(vt_path_in(path, j->out, "settings.txt", e));
    if (access(path, F_OK)) return vt_file_replace(path, &(vt_span){text, strlen(text)}, 1, e);
    VT_TRY(vt_file_text(path, sizeof text, &before, e));
    vt_status s = VT_OK;
    if (strcmp(before, text)) {
        vt_text_plain(before, strlen(before), "", NULL);
        s = vt_fail(e, VT_E_USAGE, "%s holds results of other options (%.*s; now: %.*s): choose another --out", j->out,
                    (int)strcspn(before, "?"), before, (int)strlen(text) - 1, text);
    }
    free(before);
    return s;
}

/* Makes the folder, checks its settings, and reads results.csv into j->results and j->done; both empty if there is
 * none. */
static vt_status open_results(job *j, const char *csv, vt_err *e) {
    char path[VT_PATH_MAX];
    VT_TRY(vt_make_dir(j->out, e));
    VT_TRY(check_settings(j, csv, e));
    VT_TRY(vt_path_in(path, j->out, "results.csv", e));
    j->results = strdup("");
    if (!j->results) return vt_fail(e, VT_E_MEMORY, "%s: no memory", path);
    if (access(path, F_OK)) return VT_OK;
    free(j->results);
    j->results = NULL;
    VT_TRY(vt_file_text(path, VT_INSTANCES_BYTES, &j->results, e));
    return vt_instances_read(&j->done, path, true, e);
}

/* Adds x's line to j->results and writes results.csv anew; the file appears whole. */
static vt_status add_result(job *j, const vt_instance *x, const char *verdict, double seconds, vt_err *e) {
    char path[VT_PATH_MAX], line[2 * VT_PATH_MAX];
    VT_TRY(vt_path_in(path, j->out, "results.csv", e));
    int n = snprintf(line, sizeof line, "%s,%s,%s,0,%s,%.3f\n", j->category, x->network, x->spec, verdict, seconds);
    const size_t old = strlen(j->results);
    if (n < 0 || (size_t)n >= sizeof line) return vt_fail(e, VT_E_RANGE, "%s: a line of %d letters", path, n);
    char *more = realloc(j->results, old + (size_t)n + 1);
    if (!more) return vt_fail(e, VT_E_MEMORY, "%s: no memory", path);
    memcpy(more + old, line, (size_t)n + 1);
    j->results = more;
    return vt_file_replace(path, &(vt_span){more, old + (size_t)n}, 1, e);
}

/* Opens x's network and specification (to be closed after success alone) and sets their paths. */
static vt_status open_instance(vt_spec_pair *p, const job *j, const vt_instance *x, char model[VT_PATH_MAX],
                               char spec[VT_PATH_MAX], vt_err *e) {
    VT_TRY(resolve_path(model, j, x->network, e));
    VT_TRY(resolve_path(spec, j, x->spec, e));
    return vt_falsify_open(p, j->c, model, spec, e);
}

/* Sets to to dir/NAME.counterexample, NAME being the instance's; fails if it is too long. */
static vt_status witness_path(char to[VT_PATH_MAX], const char *dir, const vt_instance *x, vt_err *e) {
    char name[400];
    snprintf(name, sizeof name, "%s.counterexample", x->name);
    return vt_path_in(to, dir, name, e);
}

/* Searches a counterexample of x; *verdict: "sat", "unknown" or "error", whose sentence is printed. Counts it in j, and
 * with j->out writes a witness and a line of results.csv. Fails only for VT_E_MEMORY, VT_INTERRUPTED and failures to
 * write. */
static vt_status attack_instance(job *j, const vt_instance *x, const char **verdict, vt_err *e) {
    char model[VT_PATH_MAX], spec[VT_PATH_MAX], path[VT_PATH_MAX];
    vt_falsify_result r = {0};
    vt_falsify_options o = j->o;
    vt_spec_pair p = {0};
    const double began = vt_now();
    vt_err why = {0};
    if (x->seconds > 0 && (o.seconds <= 0 || x->seconds < o.seconds)) o.seconds = x->seconds;
    if (!o.rounds && o.seconds <= 0) o.rounds = 10;
    vt_status s = open_instance(&p, j, x, model, spec, &why);
    if (s == VT_OK) s = vt_falsify(&r, p.spec, &p.network, &o, &why);
    if (s == VT_E_MEMORY || s == VT_INTERRUPTED) *e = why;
    if (s == VT_OK && r.sat && j->out) {
        s = witness_path(path, j->out, x, e);
        if (s == VT_OK) s = vt_witness_write(path, false, p.spec, &r.witness, e);
        if (s != VT_OK) vt_falsify_free(&r), vt_spec_pair_close(&p);
        VT_TRY(s);
    }
    *verdict = s != VT_OK ? "error" : r.sat ? "sat" : "unknown";
    j->failed += s != VT_OK, j->sat += r.sat, j->unknown += s == VT_OK && !r.sat;
    vt_falsify_free(&r);
    vt_spec_pair_close(&p);
    if (s == VT_E_MEMORY || s == VT_INTERRUPTED) return s;
    if (s != VT_OK) fprintf(stderr, "vitrine: %s\n", why.text);
    return j->out ? add_result(j, x, *verdict, vt_now() - began, e) : VT_OK;
}

/* Returns x's verdict in results.csv as it was read, and counts it in j; NULL: none. */
static const char *known_verdict(job *j, const vt_instance *x) {
    const vt_instance *d = vt_instances_find(&j->done, x->name);
    if (!d) return NULL;
    j->sat += !strcmp(d->verdict, "sat"), j->unknown += !strcmp(d->verdict, "unknown");
    j->failed += !strcmp(d->verdict, "error");
    return d->verdict;
}

/* Attacks the list's instances that results.csv lacks, and prints the counts of all. */
static vt_status run_instances(job *j, const char *csv, vt_err *e) {
    VT_TRY(open_lists(j, csv, e));
    VT_TRY(open_results(j, csv, e));
    vt_progress p = vt_cli_progress();
    p.unit = "instances";
    vt_progress_begin(&p, "falsify", j->done.n < j->all.n ? j->done.n : j->all.n, j->all.n);
    for (size_t i = 0; i < j->all.n; i++) {
        const char *verdict = known_verdict(j, &j->all.list[i]);
        if (!verdict) VT_TRY(attack_instance(j, &j->all.list[i], &verdict, e));
        vt_progress_step(&p, i + 1, verdict);
    }
    vt_progress_end(&p, "");
    printf("%zu instances: %d sat, %d unknown, %d refused; %s/results.csv\n", j->all.n, j->sat, j->unknown, j->failed,
           j->out);
    return VT_OK;
}

/* Searches a witness for each listed instance; results go into --out. VT_E_USAGE: no --out, or no such list. */
vt_status vt_falsify_instances(const vt_cli *c, const char *csv, vt_err *e) {
    job j = {.c = c, .out = vt_cli_get(c, "out")};
    if (!j.out) return vt_fail(e, VT_E_USAGE, "--instances needs --out DIR");
    VT_TRY(vt_falsify_options_read(&j.o, c, e));
    vt_status s = run_instances(&j, csv, e);
    close_job(&j);
    return s;
}

/* ---- the referee ---- */

typedef struct referee {
    job j;
    vt_instances results;
    char folder[VT_PATH_MAX]; /* of the results: their witnesses lie there, or in the category's folder below */
    double tolerance;
    int attacked, refuted, held, near, wrong, missing, other, unread;
    vt_columns table; /* of findings */
    bool begun;
} referee;

/* Sets path to x's witness, beside the results or in the category's folder below; false: there is none, packed or not.
 * */
static bool find_witness(const referee *r, const vt_instance *x, const vt_instance *verdict, char path[VT_PATH_MAX]) {
    char dir[VT_PATH_MAX], packed[VT_PATH_MAX + 3];
    for (int k = 0; k < 2; k++) {
        if (k && (!*verdict->category || strchr(verdict->category, '/'))) return false;
        if (k ? !vt_path(dir, r->folder, verdict->category) : !vt_path(dir, r->folder, ".")) return false;
        if (witness_path(path, dir, x, NULL) != VT_OK) return false;
        snprintf(packed, sizeof packed, "%s.gz", path);
        if (!access(path, F_OK) || !access(packed, F_OK)) return true;
    }
    return false;
}

/* Adds a row to the table of findings, with its titles before the first one; format takes the number a. */
static void add_finding(referee *r, const vt_instance *x, const vt_instance *v, const char *format, double a) {
    char text[300];
    if (!r->begun) vt_columns_titles(&r->table, "-instance\t-verifier\t-here");
    r->begun = true;
    snprintf(text, sizeof text, format, a);
    vt_columns_cells(&r->table, "%s\t%s\t%s", x->name, v->verdict, text);
}

/* Judges the witness of an instance called sat: counts it in r as held, near, wrong, missing or unread, and adds what
 * is wrong to the findings. Fails for VT_E_MEMORY, and for VT_E_IO once the network is open. */
static vt_status replay_witness(referee *r, const vt_instance *x, const vt_instance *v, vt_err *e) {
    char model[VT_PATH_MAX], spec[VT_PATH_MAX], path[VT_PATH_MAX];
    vt_spec_pair p;
    vt_witness w = {0};
    double *values = NULL;
    vt_err why = {0};
    if (!find_witness(r, x, v, path)) {
        r->missing++;
        add_finding(r, x, v, "gives no witness", 0);
        return VT_OK;
    }
    vt_status s = open_instance(&p, &r->j, x, model, spec, &why);
    const bool opened = s == VT_OK;
    if (s == VT_OK) s = vt_witness_read(&values, path, p.spec->inputs, &why);
    if (s == VT_OK) s = vt_witness_judge(&w, p.spec, &p.network, values, &why);
    const double miss = fmax(w.violation, w.violation_double);
    const bool stop = s == VT_E_MEMORY || (opened && s == VT_E_IO);
    if (stop) *e = why;
    if (s == VT_OK && vt_witness_met(&w, 0)) {
        r->held++;
    } else if (s == VT_OK && vt_witness_met(&w, r->tolerance)) {
        r->near++;
    } else if (s == VT_OK) {
        r->wrong++;
        if (w.outside > r->tolerance)
            add_finding(r, x, v, "its witness leaves the box by %.3g", w.outside);
        else
            add_finding(r, x, v, "its witness misses the condition by %.3g", miss);
    } else if (!stop && opened) {
        r->wrong++;
        fprintf(stderr, "vitrine: %s\n", why.text);
        add_finding(r, x, v, "its witness cannot be read", 0);
    } else if (!stop) {
        r->unread++;
        fprintf(stderr, "vitrine: %s\n", why.text);
    }
    vt_witness_free(&w);
    free(values);
    if (opened) vt_spec_pair_close(&p);
    return stop ? s : VT_OK;
}

/* Attacks an instance called unsat, unless --out knows its verdict; counts it in r and adds a witness found to the
 * findings. */
static vt_status attack_verdict(referee *r, const vt_instance *x, const vt_instance *v, vt_err *e) {
    const char *verdict = known_verdict(&r->j, x);
    if (!verdict) VT_TRY(attack_instance(&r->j, x, &verdict, e));
    r->attacked++, r->refuted += !strcmp(verdict, "sat"), r->unread += !strcmp(verdict, "error");
    if (!strcmp(verdict, "sat")) add_finding(r, x, v, r->j.out ? "sat: its witness lies in --out" : "sat", 0);
    return VT_OK;
}

/* Replays the witness of sat or violated, attacks unsat or holds, counts others and missing results as other. */
static vt_status judge_all(referee *r, vt_err *e) {
    vt_progress p = vt_cli_progress();
    p.unit = "instances";
    vt_progress_begin(&p, "referee", 0, r->j.all.n);
    for (size_t i = 0; i < r->j.all.n; i++) {
        const vt_instance *x = &r->j.all.list[i], *v = vt_instances_find(&r->results, x->name);
        if (v && (!strcmp(v->verdict, "unsat") || !strcmp(v->verdict, "holds")))
            VT_TRY(attack_verdict(r, x, v, e));
        else if (v && (!strcmp(v->verdict, "sat") || !strcmp(v->verdict, "violated")))
            VT_TRY(replay_witness(r, x, v, e));
        else
            r->other++;
        vt_progress_step(&p, i + 1, v ? v->verdict : "");
    }
    vt_progress_end(&p, "");
    return VT_OK;
}

/* Reads list and results, judges them, and prints findings and counts. VT_E_RANGE: a verdict is contradicted. */
static vt_status run_referee(referee *r, const char *results, const char *csv, vt_err *e) {
    const char *slash = strrchr(results, '/');
    VT_TRY(open_lists(&r->j, csv, e));
    vt_status s = vt_instances_read(&r->results, results, true, e);
    if (s == VT_E_FORMAT) return VT_E_USAGE;
    VT_TRY(s);
    if (r->j.out) VT_TRY(open_results(&r->j, csv, e));
    snprintf(r->folder, sizeof r->folder, "%.*s", slash ? (int)(slash - results) : 1, slash ? results : ".");
    const vt_look look = vt_cli_look(r->j.c);
    s = judge_all(r, e);
    const int found = r->refuted + r->wrong + r->missing;
    if (r->begun) vt_columns_end(&r->table, stdout, &look);
    VT_TRY(s);
    printf("called unsat: %d, of which %d have a witness\n"
           "called sat: %d; witnesses that hold %d, within %g %d, wrong %d, missing %d\n"
           "other or no verdict: %d; refused here: %d\n",
           r->attacked, r->refuted, r->held + r->near + r->wrong + r->missing, r->held, r->tolerance, r->near, r->wrong,
           r->missing, r->other, r->unread);
    if (!found) return VT_OK;
    return vt_fail(e, VT_E_RANGE, "%s: %d verdict%s contradicted", results, found, found == 1 ? " is" : "s are");
}

/* Judges a verifier's results of the list's instances and prints the counts. VT_E_RANGE: a verdict is contradicted. */
vt_status vt_falsify_referee(const vt_cli *c, const char *results, const char *csv, vt_err *e) {
    const char *tolerance = vt_cli_get(c, "tolerance");
    referee r = {.j = {.c = c, .out = vt_cli_get(c, "out")}, .tolerance = 1e-4};
    if (tolerance && (!vt_parse_real(tolerance, &r.tolerance) || r.tolerance < 0))
        return vt_fail(e, VT_E_USAGE, "--tolerance is '%s', must be a number, at least 0", tolerance);
    VT_TRY(vt_falsify_options_read(&r.j.o, c, e));
    vt_status s = run_referee(&r, results, csv, e);
    vt_instances_free(&r.results);
    close_job(&r.j);
    return s;
}
