/* SPDX-License-Identifier: MIT */
#include "eval/targets.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/files.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/opt.h"
#include "base/rand.h"

enum { FILE_MOST = 1 << 26 }; /* bytes */

typedef struct vt_target_row row;

/* Orders rows for qsort and bsearch by image. */
static int by_image(const void *a, const void *b) {
    const row *x = a, *y = b;
    return (x->image > y->image) - (x->image < y->image);
}

/* Returns the next word of a line, ended in place, "" at its end; *rest becomes what follows it. */
static char *next_word(char **rest) {
    char *at = *rest + strspn(*rest, " \t\r,"), *end = at + strcspn(at, " \t\r,");
    *rest = *end ? end + 1 : end;
    *end = 0;
    return at;
}

/* Adds a row of the file, whose text it cuts up; VT_E_FORMAT names its line. */
static vt_status add_target_row(vt_targets *t, int line, char *text, vt_err *e) {
    long long image, target;
    char whole[60];
    snprintf(whole, sizeof whole, "%.40s", text);
    char *first = next_word(&text), *second = next_word(&text), *third = next_word(&text);
    if (!vt_parse_int(first, &image) || !vt_parse_int(second, &target) || *third || image < 0 || image > INT32_MAX ||
        target < 0 || target > INT32_MAX)
        return vt_fail(e, VT_E_FORMAT, "%s: line %d is '%s', must be an image's index and its target, as 7,3", t->path,
                       line, whole);
    if (!vt_grow(&t->rows, t->n, sizeof *t->rows))
        return vt_fail(e, VT_E_MEMORY, "%s: no memory for %zu targets", t->path, t->n + 1);
    t->rows[t->n++] = (row){(int32_t)image, (int32_t)target, line};
    return VT_OK;
}

/* Reads all rows of a file's text, which it cuts up, and sorts them by image. VT_E_USAGE: none, or two of one image. */
static vt_status parse(vt_targets *t, char *text, vt_err *e) {
    char *rest = text, *line;
    for (int n = 1; (line = strsep(&rest, "\n")); n++)
        if (line[strspn(line, " \t\r")] && *line != '#') VT_TRY(add_target_row(t, n, line, e));
    if (!t->n) return vt_fail(e, VT_E_USAGE, "%s: holds no targets", t->path);
    qsort(t->rows, t->n, sizeof *t->rows, by_image);
    for (size_t i = 1; i < t->n; i++)
        if (t->rows[i].image == t->rows[i - 1].image)
            return vt_fail(e, VT_E_USAGE, "%s: image %d has two targets", t->path, t->rows[i].image);
    return VT_OK;
}

/* Reads the file of targets and its hash. VT_E_USAGE: it cannot be read. */
static vt_status read_file(vt_targets *t, vt_err *e) {
    char *text;
    vt_err why = {0};
    vt_status s = vt_file_text(t->path, FILE_MOST, &text, &why);
    if (s == VT_E_MEMORY || s == VT_E_FORMAT) return vt_fail(e, s, "%s", why.text);
    if (s != VT_OK)
        return vt_fail(e, VT_E_USAGE, "@targets is '%s', which is neither least-likely nor random nor a file (%s)",
                       t->path, why.text);
    vt_sha_hex(text, strlen(text), t->sha256);
    s = parse(t, text, e);
    free(text);
    return s;
}

vt_status vt_targets_open(vt_targets *out, const char *text, vt_err *e) {
    static const char *const ways[] = {"least-likely", "random"};
    *out = (vt_targets){.by = "file", .path = text};
    for (int i = 0; i < 2; i++)
        if (!strcasecmp(text, ways[i])) out->by = ways[i], out->path = NULL;
    if (!out->path) return VT_OK;
    vt_status s = read_file(out, e);
    if (s != VT_OK) vt_targets_close(out);
    return s;
}

void vt_targets_close(vt_targets *t) {
    free(t->rows);
    *t = (vt_targets){0};
}

/* Returns the row of an image, or NULL. */
static const row *find_target_row(const vt_targets *t, int32_t image) {
    const row key = {.image = image};
    return t->n ? bsearch(&key, t->rows, t->n, sizeof key, by_image) : NULL;
}

vt_status vt_targets_fit(const vt_targets *t, int32_t image, int label, int classes, vt_err *e) {
    const row *r = find_target_row(t, image);
    if (!t->path) return VT_OK;
    if (!r) return vt_fail(e, VT_E_USAGE, "%s: says no target for image %d, which is of the run", t->path, image);
    if (r->target >= classes)
        return vt_fail(e, VT_E_USAGE, "%s: line %d: image %d has the target %d, but the model has the classes 0 to %d",
                       t->path, r->line, image, r->target, classes - 1);
    if (r->target == label)
        return vt_fail(e, VT_E_USAGE, "%s: line %d: image %d has the target %d, which is its label", t->path, r->line,
                       image, label);
    return VT_OK;
}

int vt_target_drawn(uint64_t seed, int32_t image, int label, int classes) {
    const vt_rng r = {.seed = seed, .purpose = vt_rng_purpose("target"), .image = (uint32_t)image};
    int k = (int)(vt_rng_bits(&r, 0) % (uint32_t)(classes - 1));
    return k + (k >= label);
}

int vt_target_least(const float *z, int label, int classes) {
    int least = label == 0;
    for (int k = least + 1; k < classes; k++)
        if (k != label && z[k] < z[least]) least = k;
    return least;
}

int vt_targets_class(const vt_targets *t, uint64_t seed, int32_t image, int label, const float *z, int classes) {
    if (t->path) return find_target_row(t, image)->target;
    return *t->by == 'r' ? vt_target_drawn(seed, image, label, classes) : vt_target_least(z, label, classes);
}

json_t *vt_targets_json(const vt_targets *t) {
    return t->path ? json_pack("{s:s,s:s}", "by", t->by, "sha256", t->sha256) : json_pack("{s:s}", "by", t->by);
}
