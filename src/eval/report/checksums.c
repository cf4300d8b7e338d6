/* SPDX-License-Identifier: MIT */
#include "eval/report/checksums.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/files.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"
#include "eval/report/summary.h"

#define SUMS "SHA256SUMS"
#define DIGITS 64
enum { TEXT_MOST = 1 << 26 }; /* bytes of a list, a report, run.json */
static const char zeros[] = "0000000000000000000000000000000000000000000000000000000000000000";

/* ---- the list ---- */

/* Writes the line "SHA256 NAME" of dir/NAME; nothing if that is no regular file. */
static vt_status add_file(FILE *out, const char *dir, const char *name, vt_err *e) {
    char path[VT_PATH_MAX], hex[DIGITS + 1];
    struct stat s;
    VT_TRY(vt_path_in(path, dir, name, e));
    if (lstat(path, &s) || !S_ISREG(s.st_mode)) return VT_OK;
    VT_TRY(vt_sha_file(path, hex, e));
    fprintf(out, "%s  %s\n", hex, name);
    return VT_OK;
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

/* Writes the lines of the files in dir/name and its folders, `levels` deep: adv/NAME.npz, adv/NAME/INDEX.png; none with
 * a leading dot (left by killed writers or a desktop). VT_E_IO: the folder is a link. */
static vt_status add_folder(FILE *out, const char *dir, const char *name, int levels, vt_err *e) {
    char path[VT_PATH_MAX], inner[VT_PATH_MAX];
    struct dirent **list = NULL;
    struct stat is;
    vt_status s = VT_OK;
    if (!vt_path(path, dir, name) || lstat(path, &is) || S_ISREG(is.st_mode)) return VT_OK;
    if (S_ISLNK(is.st_mode)) return vt_fail(e, VT_E_IO, "%s: is a link, which is not followed: remove it", path);
    int n = S_ISDIR(is.st_mode) ? scandir(path, &list, NULL, by_name) : 0;
    if (n < 0) return vt_fail(e, VT_E_IO, "%s: cannot be read: %s", path, strerror(errno));
    for (int i = 0; i < n; i++) {
        const char *item = list[i]->d_name;
        if (s == VT_OK && item[0] != '.' && vt_path(inner, name, item)) {
            s = add_file(out, dir, inner, e);
            if (s == VT_OK && levels > 1) s = add_folder(out, dir, inner, levels - 1, e);
        }
        free(list[i]);
    }
    free(list);
    return s;
}

/* Writes the lines of all files that a run may have, in alphabetical order. */
static vt_status add_all(FILE *out, const char *dir, vt_err *e) {
    int n;
    const vt_report_def *const *defs = vt_report_defs(&n);
    VT_TRY(add_file(out, dir, "adv.bin", e));
    VT_TRY(add_file(out, dir, "adv.safetensors", e));
    VT_TRY(add_folder(out, dir, "adv", 2, e));
    VT_TRY(add_file(out, dir, "curve.csv", e));
    VT_TRY(add_file(out, dir, "curve.json", e));
    VT_TRY(add_file(out, dir, "ledger.jsonl", e));
    for (int i = 0; i < n; i++)
        if (defs[i]->file) VT_TRY(add_file(out, dir, defs[i]->file, e));
    return add_file(out, dir, "selftest.json", e);
}

void vt_checksums_list(FILE *f, const char *dir) {
    static const char *const first[] = {"results.json", "curve.json", "curve.csv", "curve.svg", "seeds.json"};
    static const char *const last[] = {"ledger.jsonl", "adv.bin", "adv.safetensors", "adv", "selftest.json",
                                       "run.json",     SUMS};
    enum { FIRST = sizeof first / sizeof *first, LAST = sizeof last / sizeof *last };
    char path[VT_PATH_MAX];
    const char *before = "";
    int n;
    const vt_report_def *const *defs = vt_report_defs(&n);
    fprintf(f, "%s: ", dir);
    for (int i = 0; i < FIRST + n + LAST; i++) {
        int report = i - FIRST;
        const char *name = report < 0 ? first[i] : report < n ? defs[report]->file : last[report - n];
        bool again = report >= 0 && report < n && name && !strcmp(name, first[0]);
        if (!name || again || !vt_path(path, dir, name) || access(path, F_OK)) continue;
        fprintf(f, "%s%s%s", before, name, strcmp(name, "adv") ? "" : "/");
        before = ", ";
    }
    fputc('\n', f);
}

/* Makes the text of SHA256SUMS for the files as they are now, to be freed; NULL after a failure. */
static vt_status sums_text(char **text, const char *dir, vt_err *e) {
    vt_text_stream w;
    FILE *out = vt_text_stream_open(&w);
    vt_status s = out ? add_all(out, dir, e) : VT_OK;
    *text = vt_text_stream_close(&w);
    if (s == VT_OK && !*text) s = vt_fail(e, VT_E_MEMORY, "%s: no memory for its hashes", dir);
    if (s == VT_OK) return VT_OK;
    free(*text);
    *text = NULL;
    return s;
}

vt_status vt_checksums_write(const char *dir, vt_err *e) {
    char *text;
    vt_file f;
    VT_TRY(sums_text(&text, dir, e));
    vt_status s = vt_file_begin(&f, dir, SUMS, e);
    if (s == VT_OK) {
        fputs(text, f.stream);
        s = vt_file_commit(&f, e);
    }
    free(text);
    return s;
}

/* ---- the check ---- */

/* Returns the beginning of the line of `text` that ends in "  NAME" [n], or NULL. */
static const char *line_of(const char *text, const char *name, size_t n) {
    for (const char *p = text; *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : p + strlen(p)) {
        size_t len = strcspn(p, "\n");
        if (len == DIGITS + 2 + n && !memcmp(p + DIGITS, "  ", 2) && !memcmp(p + DIGITS + 2, name, n)) return p;
    }
    return NULL;
}

/* Adds a finding for each line of `a` that b lacks or, unless stored, has with another hash; stored: a is SHA256SUMS, b
 * the files now, else the reverse. Damaged lines are findings too, up to what is kept. */
static void report_differing_lines(const char *a, const char *b, bool stored, vt_findings *found) {
    int damaged = 0;
    for (const char *p = a; *p && damaged < VT_FINDINGS_KEPT;) { /* no list: the rest tells nothing */
        size_t len = strcspn(p, "\n");
        bool whole = len > DIGITS + 2 && p[len] == '\n';
        const char *name = p + DIGITS + 2, *other = whole ? line_of(b, name, len - DIGITS - 2) : NULL;
        int shown = whole ? (int)(len - DIGITS - 2) : 0;
        if (!whole)
            vt_findings_add(found, SUMS ": a line is damaged: %.*s", (int)(len < 90 ? len : 90), p), damaged++;
        else if (!other && stored)
            vt_findings_add(found, "%.*s is named by " SUMS ", but is missing", shown, name);
        else if (!other)
            vt_findings_add(found, "%.*s is not named by " SUMS, shown, name);
        else if (!stored && memcmp(p, other, DIGITS))
            vt_findings_add(found, "%.*s is changed: its SHA-256 is %.12s..., " SUMS " says %.12s...", shown, name, p,
                            other);
        p += len + (p[len] == '\n');
    }
}

/* Adds why a file cannot be read as a finding; fails, with VT_E_MEMORY, only where that was want of memory. */
static vt_status report_unreadable_file(vt_status s, const vt_err *why, vt_findings *found, vt_err *e) {
    if (s == VT_E_MEMORY) return vt_fail(e, s, "%s", why->text);
    vt_findings_add(found, "%s", why->text);
    return VT_OK;
}

vt_status vt_checksums_files(const char *dir, vt_findings *found, vt_err *e) {
    char path[VT_PATH_MAX], *now, *then;
    size_t n;
    vt_err why = {0};
    VT_TRY(vt_path_in(path, dir, SUMS, e));
    vt_status s = vt_file_read(path, TEXT_MOST, &then, &n, &why);
    if (s != VT_OK) return report_unreadable_file(s, &why, found, e);
    s = sums_text(&now, dir, e);
    if (s == VT_OK && (strlen(then) != n || strcmp(now, then))) {
        size_t before = found->n;
        report_differing_lines(now, then, false, found);
        report_differing_lines(then, now, true, found);
        if (found->n == before) vt_findings_add(found, SUMS " is changed, the files that it names are not");
    }
    if (s == VT_OK) free(now);
    free(then);
    return s;
}

/* Adds a finding for each report that is there and is not what the ledger gives: reports are functions of it, so
 * written again they are the same bytes. */
static vt_status check_reports(const vt_ledger *l, vt_findings *found, vt_err *e) {
    int n;
    vt_summary sum;
    const vt_report_def *const *defs = vt_report_defs(&n);
    VT_TRY(vt_summary_make(&sum, l, 0, e));
    vt_status s = VT_OK;
    for (int i = 0; i < n && s == VT_OK; i++) {
        char path[VT_PATH_MAX], *then;
        size_t have;
        vt_err why = {0};
        if (!defs[i]->file || !vt_path(path, l->dir, defs[i]->file)) continue;
        if (access(path, F_OK) != 0) continue; /* vt_checksums_files has said so if it was there once */
        s = vt_file_read(path, TEXT_MOST, &then, &have, &why);
        if (s != VT_OK) {
            s = report_unreadable_file(s, &why, found, e);
            continue;
        }
        vt_text_stream w;
        FILE *f = vt_text_stream_open(&w);
        if (f) s = vt_report_write(defs[i], f, &sum, e);
        char *now = vt_text_stream_close(&w);
        if (s == VT_OK && !now) s = vt_fail(e, VT_E_MEMORY, "no memory for %s", defs[i]->file);
        if (s == VT_OK && (have != w.n || memcmp(now, then, w.n)))
            vt_findings_add(found, "%s is not what the ledger gives", defs[i]->file);
        free(now), free(then);
    }
    vt_summary_free(&sum);
    return s;
}

/* Adds a finding if run.json is not what its own hash, the last one in it, says; it may be absent. */
static vt_status check_json(const char *dir, vt_findings *found, vt_err *e) {
    char path[VT_PATH_MAX], *text, hex[DIGITS + 1], stored[DIGITS + 1];
    size_t n;
    vt_err why = {0};
    static const char key[] = "\"sha256\": \"";
    if (!vt_path(path, dir, "run.json") || access(path, F_OK) != 0) return VT_OK; /* a merged run */
    vt_status s = vt_file_read(path, TEXT_MOST, &text, &n, &why);
    if (s != VT_OK) return report_unreadable_file(s, &why, found, e);
    char *at = NULL;
    for (char *p = text; (p = strstr(p, key)); p++) at = p;
    at = at ? at + sizeof key - 1 : NULL;
    if (!at || strlen(at) < DIGITS) {
        vt_findings_add(found, "run.json is changed: it does not state its hash");
    } else {
        memcpy(stored, at, DIGITS);
        stored[DIGITS] = 0;
        memcpy(at, zeros, DIGITS);
        vt_sha_hex(text, n, hex);
        if (strcmp(hex, stored))
            vt_findings_add(found, "run.json is changed: its SHA-256 is not the one that it states");
    }
    free(text);
    return VT_OK;
}

vt_status vt_checksums_check(const vt_ledger *l, vt_findings *found, vt_err *e) {
    VT_TRY(vt_checksums_files(l->dir, found, e));
    VT_TRY(check_json(l->dir, found, e));
    return check_reports(l, found, e);
}

vt_status vt_checksums_json(json_t *o, FILE *f, vt_err *e) {
    char hex[DIGITS + 1];
    json_object_set_new(o, "sha256", json_string(zeros));
    char *text = vt_json_text(o, JSON_INDENT(1)), *at = text ? strstr(text, zeros) : NULL;
    if (!at) {
        free(text);
        return vt_fail(e, VT_E_MEMORY, "no memory for run.json");
    }
    for (char *p = at; (p = strstr(p + 1, zeros));) at = p; /* the last one is ours */
    size_t n = strlen(text);
    text[n] = '\n'; /* the terminator's place */
    vt_sha_hex(text, n + 1, hex);
    memcpy(at, hex, DIGITS);
    fwrite(text, 1, n + 1, f);
    free(text);
    return VT_OK;
}
