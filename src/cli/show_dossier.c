/* SPDX-License-Identifier: MIT */
#include "cli/show_dossier.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/files.h"
#include "base/json.h"
#include "cli/run_args.h"
#include "eval/header.h"
#include "eval/report/page.h"
#include "eval/report/dossier.h"
#include "eval/run_folder.h"
#include "selftest/selftest.h"

extern const vt_command vt_command_eval, vt_command_info, vt_command_selftest, vt_command_verify;

enum { WORDS_MOST = 512, JSON_MOST = 1 << 24 };

typedef struct job {
    vt_dossier d;
    vt_run_folder run;
    vt_summary summary;
    json_t *selftest;
    vt_cli made; /* the command of a run.json, as one of vitrine eval */
    char *words[WORDS_MOST];
    char name[100], verdict[VT_VERDICT_ROOM], images[400], data[VT_PATH_MAX];
} job;

/* ---- commands that give numbers again ---- */

/* Appends text as it stands to a command. */
static void add_text(char *out, const char *text) {
    size_t n = strlen(out);
    snprintf(out + n, VT_COMMAND_ROOM - n, "%s", text);
}

/* Appends a word, quoted for a shell. */
static void add_word(char *out, const char *word) { vt_cli_add_word(out, VT_COMMAND_ROOM, word); }

/* Appends --name, and its value if it takes one. */
static void add_option(char *out, const vt_arg *a, const char *value) {
    char word[80];
    snprintf(word, sizeof word, "--%s", a->name);
    add_word(out, word);
    if (a->value) add_word(out, value);
}

/* Begins a command that runs in a folder. */
static void begin_in(char *out, const char *folder) {
    *out = 0;
    add_text(out, "cd"), add_word(out, folder), add_text(out, " && vitrine");
}

/* Drops a command that was cut, of which nothing is better than a part. */
static void drop_if_cut(char *out) {
    if (strlen(out) + 1 >= VT_COMMAND_ROOM) *out = 0;
}

/* Reads the command that run.json names into j->made; returns the folder in which it ran, or NULL if it is none of
 * vitrine eval. */
static const char *read_command(job *j, const json_t *run) {
    const json_t *list = json_object_get(run, "command");
    const char *folder = json_string_value(json_object_get(run, "directory")), *word;
    const int n = (int)json_array_size(list);
    j->made = (vt_cli){.command = &vt_command_eval};
    for (int i = 0; i < n && i < WORDS_MOST; i++) {
        if (!(word = json_string_value(json_array_get(list, (size_t)i)))) return NULL;
        j->words[i] = (char *)(uintptr_t)word;
    }
    if (n < 3 || n > WORDS_MOST || !folder || strcmp(j->words[1], "eval")) return NULL;
    return vt_cli_parse(&j->made, n - 2, j->words + 2, NULL) == VT_OK ? folder : NULL;
}

/* Is the name in a list that ends at NULL? */
static bool is_in(const char *const *list, const char *name) {
    while (*list && strcmp(*list, name)) list++;
    return *list != NULL;
}

/* Writes the evaluation of j->made into the folder `to`: without what limits, prints or judges it. h: of one run of
 * several (seeds, corruptions), whose header says which it is; NULL: all of them. resume: `to` holds a part of it. */
static void write_eval(const job *j, char *out, const char *folder, const vt_header *h, const char *to, bool resume) {
    static const char *const dropped[] = {"out",     "resume", "hours",      "minutes",       "json",        "quiet",
                                          "verbose", "seeds",  "fail-under", "expect-robust", "allow-mixed", NULL};
    static const char *const told[] = {"seed", "corruption", "severity", NULL};
    const vt_cli *c = &j->made;
    char text[24];
    add_text(out, *out ? " && cd" : "cd"), add_word(out, folder), add_text(out, " && vitrine eval");
    for (int i = 0; i < c->n_positional; i++) add_word(out, c->positional[i]);
    for (int i = 0; i < c->given.n; i++)
        if (!is_in(dropped, c->given.list[i].name) && !(h && is_in(told, c->given.list[i].name)))
            add_option(out, c->row[i], c->given.list[i].value);
    if (h) {
        snprintf(text, sizeof text, "%llu", (unsigned long long)h->seed);
        add_text(out, " --seed"), add_word(out, text);
    }
    if (h && h->data.severity) {
        snprintf(text, sizeof text, "%d", h->data.severity);
        add_text(out, " --corruption"), add_word(out, h->data.corruption), add_text(out, " --severity");
        add_word(out, text);
    }
    add_text(out, resume ? " --resume --out" : " --out"), add_word(out, to);
    drop_if_cut(out);
}

/* Writes the path of a folder that is there from the root, and of the one beside it for a second run. */
static vt_status find_folder(char dir[VT_PATH_MAX], char again[VT_PATH_MAX], const char *path, vt_err *e) {
    if (!realpath(path, dir)) return vt_fail(e, VT_E_IO, "%s: cannot be found", path);
    if (snprintf(again, VT_PATH_MAX, "%s-again", dir) < VT_PATH_MAX) return VT_OK;
    return vt_fail(e, VT_E_IO, "%s: path is too long", path);
}

/* Writes the command that compares a file of the run with the second run's; "" if a path is too long. */
static void write_compare(char *out, const char *dir, const char *again, const char *name) {
    char a[VT_PATH_MAX], b[VT_PATH_MAX];
    if (!vt_path(a, dir, name) || !vt_path(b, again, name)) return;
    add_text(out, "cmp"), add_word(out, a), add_word(out, b);
}

/* Writes the commands that need how the run was made: again, its checkpoint, a self-test if it has none. */
static void write_made(job *j, const char *dir, const char *again) {
    vt_dossier *d = &j->d;
    const vt_header *h = j->run.ledger->header;
    char *const *to = d->again, text[VT_COMMAND_ROOM / 2];
    const char *folder = read_command(j, j->run.document), *images;
    if (!folder) return;
    images = vt_cli_get(&j->made, "images");
    snprintf(j->images, sizeof j->images, "%s", images ? images : "");
    d->images = images ? j->images : NULL;
    if (!d->finished)
        add_text(to[VT_AGAIN_RUN], "cp -r"), add_word(to[VT_AGAIN_RUN], dir), add_word(to[VT_AGAIN_RUN], again);
    write_eval(j, to[VT_AGAIN_RUN], folder, h, again, !d->finished);
    if (!h->oracle) {
        vt_cli_again(text, sizeof text, &j->made, &vt_command_info);
        begin_in(to[VT_AGAIN_MODEL], folder), add_text(to[VT_AGAIN_MODEL], " info "),
            add_text(to[VT_AGAIN_MODEL], text);
        drop_if_cut(to[VT_AGAIN_MODEL]);
    }
    if (*d->verdict && d->finished) write_compare(to[VT_AGAIN_SELFTEST], dir, again, "selftest.json");
    const char *oracle = vt_cli_get(&j->made, "oracle");
    if (oracle) { /* verify starts no process that it is not asked for */
        begin_in(to[VT_AGAIN_VERIFY], folder), add_text(to[VT_AGAIN_VERIFY], " verify");
        add_word(to[VT_AGAIN_VERIFY], d->finished ? dir : again);
        add_text(to[VT_AGAIN_VERIFY], " --oracle"), add_word(to[VT_AGAIN_VERIFY], oracle);
    }
    bool tests = vt_subject_differentiable(&j->run.subject) && h->norm != VT_L0 && !vt_header_is_threat(h);
    if (*d->verdict || !h->n_attacks || !tests) return;
    vt_cli_again(text, sizeof text, &j->made, &vt_command_selftest);
    char *o = to[VT_AGAIN_SELFTEST];
    begin_in(o, folder), add_text(o, " selftest "), add_text(o, text), add_text(o, " --eps"), add_word(o, h->eps_text);
    drop_if_cut(o);
}

/* Appends the options given here that say where weights and data are. */
static void add_places(char *out, const vt_cli *c) {
    for (int i = 0; i < c->given.n; i++)
        if (c->row[i]->about != VT_OF_OUTPUT && vt_arg_find(vt_command_verify.args, c->row[i]->name))
            add_option(out, c->row[i], c->given.list[i].value);
}

/* Writes all commands of the page. */
static vt_status write_commands(job *j, const vt_cli *c, vt_err *e) {
    char dir[VT_PATH_MAX], again[VT_PATH_MAX], here[VT_PATH_MAX], path[VT_PATH_MAX];
    char *const *to = j->d.again;
    VT_TRY(find_folder(dir, again, c->positional[0], e));
    if (!getcwd(here, sizeof here)) return vt_fail(e, VT_E_IO, "the working folder cannot be found");
    write_made(j, dir, again);
    if (j->d.finished && *to[VT_AGAIN_RUN]) write_compare(to[VT_AGAIN_SAME], dir, again, "ledger.jsonl");
    if (!*to[VT_AGAIN_VERIFY] && (j->d.finished || *to[VT_AGAIN_RUN])) {
        if (c->given.n > 1)
            begin_in(to[VT_AGAIN_VERIFY], here);
        else
            add_text(to[VT_AGAIN_VERIFY], "vitrine");
        add_text(to[VT_AGAIN_VERIFY], " verify"), add_word(to[VT_AGAIN_VERIFY], j->d.finished ? dir : again);
        add_places(to[VT_AGAIN_VERIFY], c);
    }
    VT_TRY(vt_path_in(path, dir, "ledger.jsonl", e));
    add_text(to[VT_AGAIN_HEADER], "head -n 1"), add_word(to[VT_AGAIN_HEADER], path);
    if (j->d.finished)
        add_text(to[VT_AGAIN_FILES], "cd"), add_word(to[VT_AGAIN_FILES], dir),
            add_text(to[VT_AGAIN_FILES], " && sha256sum -c SHA256SUMS");
    snprintf(path, sizeof path, "%.*s-queries.csv", VT_PATH_MAX - 20, dir);
    add_text(to[VT_AGAIN_QUERIES], "vitrine export"), add_word(to[VT_AGAIN_QUERIES], dir);
    add_text(to[VT_AGAIN_QUERIES], " --queries"), add_word(to[VT_AGAIN_QUERIES], path);
    begin_in(to[VT_AGAIN_PAGE], here), add_text(to[VT_AGAIN_PAGE], " show");
    for (int i = 0; i < c->n_positional; i++) add_word(to[VT_AGAIN_PAGE], c->positional[i]);
    add_places(to[VT_AGAIN_PAGE], c);
    add_text(to[VT_AGAIN_PAGE], " --dossier"), add_word(to[VT_AGAIN_PAGE], vt_cli_get(c, "dossier"));
    for (int k = 0; k < VT_AGAIN_COUNT; k++) drop_if_cut(to[k]);
    return VT_OK;
}

/* ---- what the page shows ---- */

/* Reads dir/name, which may be absent: *out is NULL then. */
static vt_status read_document(json_t **out, const char *dir, const char *name, vt_err *e) {
    char path[VT_PATH_MAX];
    vt_err why = {0};
    *out = NULL;
    VT_TRY(vt_path_in(path, dir, name, e));
    if (access(path, F_OK) != 0) return VT_OK;
    VT_TRY(vt_json_file(out, path, JSON_MOST, &why, e));
    return *out ? VT_OK : vt_fail(e, why.code, "%s", why.text);
}

/* Opens the first run of a folder of runs on corrupted images, which corruptions.json names. */
static vt_status open_sweep(vt_dossier_other *o, char first[VT_PATH_MAX], const char *dir, vt_err *e) {
    char folder[300];
    const json_t *row = json_array_get(json_object_get(o->sweep, "rows"), 0);
    const char *name = json_object_iter_key(json_object_iter(json_object_get(row, "corruptions")));
    const json_t *severity = json_array_get(json_object_get(o->sweep, "severities"), 0);
    if (!name || strchr(name, '/') || !json_is_integer(severity))
        return vt_fail(e, VT_E_FORMAT, "%s/corruptions.json names no corruption and severity", dir);
    snprintf(folder, sizeof folder, "%.250s-%lld", name, (long long)json_integer_value(severity));
    VT_TRY(vt_path_in(first, dir, folder, e));
    return vt_ledger_open(&o->ledger, first, e);
}

/* Opens a run, or a folder of runs on corrupted images, to stand beside the page's own. */
static vt_status open_other(job *j, const char *path, vt_err *e) {
    static const char *const same[] = {"weights", "wrap", "sources"}, *const called[] = {"weights", "wrap", "settings"};
    char first[VT_PATH_MAX], dir[VT_PATH_MAX], again[VT_PATH_MAX];
    json_t *run;
    vt_dossier_other *o = &j->d.other[j->d.n_others++];
    *o = (vt_dossier_other){.name = path, .again = calloc(1, VT_COMMAND_ROOM)};
    if (!o->again) return vt_fail(e, VT_E_MEMORY, "no memory for %s", path);
    if (!vt_ledger_exists(path)) VT_TRY(read_document(&o->sweep, path, "corruptions.json", e));
    VT_TRY(o->sweep ? open_sweep(o, first, path, e) : vt_ledger_open(&o->ledger, path, e));
    if (!o->sweep) VT_TRY(vt_summary_make(&o->summary, o->ledger, 0, e));
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (!vt_header_agree(j->run.ledger->header, o->ledger->header, same[i]))
            return vt_fail(e, VT_E_USAGE, "%s is of another model than %s, by its %s: a dossier is of one model", path,
                           j->run.ledger->dir, called[i]);
    if (o->ledger->header->curve)
        return vt_fail(e, VT_E_USAGE, "%s is a curve: beside a dossier stand evaluations at one radius", path);
    VT_TRY(find_folder(dir, again, path, e));
    VT_TRY(read_document(&run, o->sweep ? first : path, "run.json", e));
    const char *folder = read_command(j, run);
    if (folder) write_eval(j, o->again, folder, o->sweep ? NULL : o->ledger->header, again, false);
    json_decref(run);
    return VT_OK;
}

/* Opens the run with its model and data, which must be the ledger's, and reads what the page shows of it. */
static vt_status open_run(job *j, const vt_cli *c, vt_err *e) {
    char path[VT_PATH_MAX];
    const char *dir = c->positional[0];
    vt_dossier *d = &j->d;
    VT_TRY(vt_run_folder_open(&j->run, dir, &c->given, e));
    if (j->run.ledger->header->curve)
        return vt_fail(e, VT_E_USAGE, "%s is a curve: a dossier is of an evaluation at one radius", dir);
    VT_TRY(vt_summary_make(&j->summary, j->run.ledger, 0, e));
    VT_TRY(vt_run_model_name(dir, vt_cli_get(c, "weights"), j->name, e));
    VT_TRY(vt_selftest_read(dir, j->verdict, e));
    VT_TRY(read_document(&j->selftest, dir, "selftest.json", e));
    VT_TRY(vt_path_in(path, dir, "SHA256SUMS", e));
    d->name = j->name, d->ledger = j->run.ledger, d->summary = &j->summary, d->verdict = j->verdict;
    d->weights = j->run.weights, d->data = j->run.subject.data->path;
    d->run = j->run.document, d->selftest = j->selftest;
    d->finished = access(path, F_OK) == 0;
    return VT_OK;
}

/* Opens all runs, writes the commands and then the page. */
static vt_status write_dossier(job *j, const vt_cli *c, vt_err *e) {
    const char *path = vt_cli_get(c, "dossier");
    vt_file f;
    if (vt_cli_has(c, "out") || vt_cli_has(c, "pictures"))
        return vt_fail(e, VT_E_USAGE, "--%s is of the other page: leave it out with --dossier",
                       vt_cli_has(c, "out") ? "out" : "pictures");
    for (int k = 0; k < VT_AGAIN_COUNT; k++)
        if (!(j->d.again[k] = calloc(1, VT_COMMAND_ROOM))) return vt_fail(e, VT_E_MEMORY, "no memory for a page");
    VT_TRY(open_run(j, c, e));
    for (int i = 1; i < c->n_positional; i++) VT_TRY(open_other(j, c->positional[i], e));
    VT_TRY(write_commands(j, c, e));
    VT_TRY(vt_file_may_replace(path, VT_PAGE_START, e));
    VT_TRY(vt_file_begin_path(&f, path, e));
    vt_status s = vt_dossier_write(f.stream, &j->d, e);
    if (s != VT_OK) {
        vt_file_abandon(&f);
        return s;
    }
    VT_TRY(vt_file_commit(&f, e));
    printf("%s\n", path);
    return VT_OK;
}

vt_status vt_show_dossier(const vt_cli *c, vt_err *e) {
    job *j = calloc(1, sizeof *j);
    if (!j) return vt_fail(e, VT_E_MEMORY, "no memory for a page");
    vt_status s = write_dossier(j, c, e);
    for (int i = 0; i < j->d.n_others; i++) {
        vt_dossier_other *o = &j->d.other[i];
        vt_summary_free(&o->summary), vt_ledger_close(o->ledger);
        json_decref(o->sweep), free(o->again);
    }
    for (int k = 0; k < VT_AGAIN_COUNT; k++) free(j->d.again[k]);
    vt_summary_free(&j->summary), vt_run_folder_close(&j->run);
    json_decref(j->selftest);
    free(j);
    return s;
}
