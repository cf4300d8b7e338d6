/* SPDX-License-Identifier: MIT */
#include "data/folders.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include "base/mem.h"

/* Returns whether a name ends in `end`, in any case, after something else. */
static bool ends_in(const char *name, const char *end) {
    size_t n = strlen(name), k = strlen(end);
    return n > k && !strcasecmp(name + n - k, end);
}

bool vt_is_picture(const char *name) {
    return ends_in(name, ".png") || ends_in(name, ".jpg") || ends_in(name, ".jpeg");
}

/* For qsort of strings, byte by byte: "10" comes before "9". */
static int compare_texts(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

vt_status vt_folders_add(vt_folders *f, const char *name, const char *path, vt_err *e) {
    if (!vt_grow(&f->name, (size_t)f->n, sizeof *f->name) || !(f->name[f->n] = strdup(name)))
        return vt_fail(e, VT_E_MEMORY, "%s: no memory for its file names", path);
    f->n++;
    return VT_OK;
}

vt_status vt_folders_list(vt_folders *f, const char *path, vt_err *e) {
    *f = (vt_folders){0};
    DIR *dir = opendir(path);
    vt_status r = VT_OK;
    struct stat s;
    if (!dir && errno == ENOMEM) return vt_fail(e, VT_E_MEMORY, "%s: no memory to list it", path);
    if (!dir) return vt_fail(e, VT_E_IO, "%s: cannot be listed: %s", path, strerror(errno));
    for (struct dirent *d; r == VT_OK && (errno = 0, d = readdir(dir));) {
        if (d->d_name[0] == '.' || fstatat(dirfd(dir), d->d_name, &s, 0)) continue;
        f->pictures += S_ISREG(s.st_mode) && vt_is_picture(d->d_name);
        if (S_ISDIR(s.st_mode) && strcmp(d->d_name, "__MACOSX") != 0) r = vt_folders_add(f, d->d_name, path, e);
    }
    if (r == VT_OK && errno) r = vt_fail(e, VT_E_IO, "%s: cannot be listed: %s", path, strerror(errno));
    closedir(dir);
    if (f->n) qsort(f->name, (size_t)f->n, sizeof *f->name, compare_texts);
    return r;
}

void vt_folders_free(vt_folders *f) {
    for (int i = 0; i < f->n; i++) free(f->name[i]);
    free(f->name);
    *f = (vt_folders){0};
}

bool vt_folders_bare(const vt_folders *f) {
    static const char *const bare[] = {"images", "image",     "imgs",       "img",    "pictures",
                                       "photos", "unlabeled", "unlabelled", "unknown"};
    for (size_t i = 0; f->n == 1 && i < sizeof bare / sizeof *bare; i++)
        if (!strcasecmp(f->name[0], bare[i])) return true;
    return false;
}

const char *vt_split_name(vt_split s) {
    static const char *const names[] = {[VT_SPLIT_TEST] = "test", [VT_SPLIT_TRAIN] = "train", [VT_SPLIT_VAL] = "val"};
    return names[s];
}

bool vt_split_named(const char *name, vt_split *out) {
    static const struct {
        const char *word;
        vt_split split;
    } words[] = {{"train", VT_SPLIT_TRAIN}, {"training", VT_SPLIT_TRAIN}, {"trn", VT_SPLIT_TRAIN},
                 {"test", VT_SPLIT_TEST},   {"testing", VT_SPLIT_TEST},   {"tst", VT_SPLIT_TEST},
                 {"val", VT_SPLIT_VAL},     {"valid", VT_SPLIT_VAL},      {"validation", VT_SPLIT_VAL},
                 {"dev", VT_SPLIT_VAL},     {"eval", VT_SPLIT_VAL},       {"evaluation", VT_SPLIT_VAL},
                 {"holdout", VT_SPLIT_VAL}};
    static const char *const tails[] = {"dataset", "set", "data", "images", "imgs", "split", "samples"};
    char w[64] = "";
    size_t n = 0;
    name += strspn(name, "0123456789");
    for (; *name && n < sizeof w - 1; name++)
        if (!strchr("_-. ", *name)) w[n++] = (char)tolower((unsigned char)*name);
    while (n && isdigit((unsigned char)w[n - 1])) n--;
    w[n] = 0;
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        size_t k = strlen(tails[i]);
        if (n <= k || strcmp(w + n - k, tails[i]) != 0) continue;
        w[n -= k] = 0;
        break;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(w, words[i].word)) {
            *out = words[i].split;
            return true;
        }
    return false;
}

bool vt_folders_splits(const vt_folders *f) {
    vt_split ignored;
    for (int i = 0; i < f->n; i++)
        if (vt_split_named(f->name[i], &ignored)) return true;
    return false;
}
