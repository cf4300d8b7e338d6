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
#include <unistd.h>
#include "base/mem.h"
#include "base/text.h"
#include "data/classes.h"

static bool ends_in(const char *name, const char *end) {
    size_t n = strlen(name), k = strlen(end);
    return n > k && !strcasecmp(name + n - k, end);
}

bool vt_is_picture(const char *name) {
    return ends_in(name, ".png") || ends_in(name, ".jpg") || ends_in(name, ".jpeg");
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

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
    if (f->n) qsort(f->name, (size_t)f->n, sizeof *f->name, by_text);
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

/* ---- splits ---- */

/* How many characters all names share at the front (or end), up to a separator. */
static size_t common_affix_length(const vt_folders *f, bool end) {
    size_t most = strlen(f->name[0]), hit = 0;
    for (int i = 1; i < f->n; i++) {
        size_t k = 0, n = strlen(f->name[0]), m = strlen(f->name[i]);
        while (k < n && k < m && f->name[0][end ? n - 1 - k : k] == f->name[i][end ? m - 1 - k : k]) k++;
        if (k < most) most = k;
    }
    for (size_t k = 0, n = strlen(f->name[0]); k < most; k++)
        if (strchr("_- .", f->name[0][end ? n - 1 - k : k])) hit = k + 1;
    return hit;
}

/* Which of the folders are splits: by their names, or, if all are, by what tells their names apart ("seg_train",
 * "seg_test"). split[i] -1: none. Returns how many. */
static int find_splits(const vt_folders *f, int *split) {
    char middle[256];
    vt_split s;
    int n = 0, whole = 0;
    for (int i = 0; i < f->n; i++) n += (split[i] = vt_split_named(f->name[i], &s) ? (int)s : -1) >= 0;
    if (n || f->n < 2) return n;
    size_t front = common_affix_length(f, false), end = common_affix_length(f, true);
    for (int i = 0; i < f->n; i++) {
        size_t k = strlen(f->name[i]);
        snprintf(middle, sizeof middle, "%.*s", k > front + end ? (int)(k - front - end) : 0, f->name[i] + front);
        whole += vt_split_named(middle, &s);
        split[i] = (int)s;
    }
    for (int i = 0; whole < f->n && i < f->n; i++) split[i] = -1;
    return whole == f->n ? whole : 0;
}

/* Does a split's folder hold class folders, or pictures whose classes stand in a file? */
static vt_status is_labelled(const char *path, bool *out, vt_err *e) {
    char annotations[VT_PATH_MAX];
    vt_folders f;
    VT_TRY(vt_path_in(annotations, path, VT_ANNOTATIONS, e));
    vt_status s = vt_folders_list(&f, path, e);
    *out = s == VT_OK && f.n > 0 && (!vt_folders_bare(&f) || access(annotations, F_OK) == 0);
    vt_folders_free(&f);
    return s;
}

/* The splits that stand for each, the first that has labels. */
static const vt_split stands_for[][2] = {[VT_SPLIT_TEST] = {VT_SPLIT_TEST, VT_SPLIT_VAL},
                                         [VT_SPLIT_TRAIN] = {VT_SPLIT_TRAIN, VT_SPLIT_TRAIN},
                                         [VT_SPLIT_VAL] = {VT_SPLIT_VAL, VT_SPLIT_VAL}};

/* The folder of split `want`, with labels; the usual name first. -1: none; *bare: one without labels. */
static vt_status find_split(const vt_dataset *d, const vt_folders *f, const int *split, vt_split want, int *hit,
                            int *bare, vt_err *e) {
    char path[VT_PATH_MAX];
    bool labelled;
    *hit = -1;
    for (int i = 0; i < f->n; i++) {
        if (split[i] != (int)want) continue;
        VT_TRY(vt_path_in(path, d->path, f->name[i], e));
        VT_TRY(is_labelled(path, &labelled, e));
        bool usual = !strcmp(f->name[i], vt_split_name(want));
        if (!labelled && *bare < 0) *bare = i;
        if (labelled && *hit >= 0 && !usual && strcmp(f->name[*hit], vt_split_name(want)) != 0)
            return vt_fail(e, VT_E_USAGE,
                           "%s: has several folders for the %s split, %.80s and %.80s: name one, as @data %s/%s",
                           d->path, vt_split_name(want), f->name[*hit], f->name[i], d->path, f->name[i]);
        if (labelled && (*hit < 0 || usual)) *hit = i;
    }
    return VT_OK;
}

static vt_status no_split(const vt_dataset *d, const vt_folders *f, const int *split, vt_err *e) {
    static const char *const names[] =
        {[VT_SPLIT_TEST] = "test or val", [VT_SPLIT_TRAIN] = "train", [VT_SPLIT_VAL] = "val"};
    int i = 0;
    while (i < f->n && split[i] < 0) i++;
    if (i == f->n)
        return vt_fail(e, VT_E_IO, "%s: has no folder %s, so there is no %s split", d->path, names[d->split],
                       vt_split_name(d->split));
    return vt_fail(e, VT_E_IO,
                   "%s: has no folder %s, so there is no %s split, but %.80s: give @split %s; if that is a class, "
                   "@class-order FILE, with one class a line, says so",
                   d->path, names[d->split], vt_split_name(d->split), f->name[i], vt_split_name((vt_split)split[i]));
}

/* Archives that hold a folder of their own name: training_set/training_set. */
static vt_status enter_same(char root[VT_PATH_MAX], vt_err *e) {
    for (bool same = true; same;) {
        vt_folders f;
        char next[VT_PATH_MAX];
        const char *slash = strrchr(root, '/');
        vt_status s = vt_folders_list(&f, root, e);
        same = s == VT_OK && f.n == 1 && !f.pictures && slash && !strcmp(slash + 1, f.name[0]);
        if (same) s = vt_path_in(next, root, f.name[0], e);
        if (same && s == VT_OK) memcpy(root, next, sizeof next);
        vt_folders_free(&f);
        VT_TRY(s);
    }
    return VT_OK;
}

/* Into d->train the names of the class folders of the train split. */
static vt_status keep_train(vt_dataset *d, const vt_folders *f, const int *split, vt_err *e) {
    char path[VT_PATH_MAX];
    int hit, bare = -1;
    vt_folders g;
    vt_err ignored = {0}; /* of several none counts */
    if (find_split(d, f, split, VT_SPLIT_TRAIN, &hit, &bare, &ignored) != VT_OK)
        return ignored.code == VT_E_MEMORY ? vt_fail(e, VT_E_MEMORY, "%s", ignored.text) : VT_OK;
    if (hit < 0) return VT_OK;
    VT_TRY(vt_path_in(path, d->path, f->name[hit], e));
    VT_TRY(enter_same(path, e));
    vt_status s = vt_folders_list(&g, path, e);
    size_t bytes = 1, at = 0;
    for (int i = 0; i < g.n; i++) bytes += strlen(g.name[i]) + 1;
    if (s == VT_OK && !(d->train = malloc(bytes)))
        s = vt_fail(e, VT_E_MEMORY, "%s: no memory for its file names", path);
    for (int i = 0; s == VT_OK && i < g.n; i++) at += (size_t)snprintf(d->train + at, bytes - at, "%s\n", g.name[i]);
    if (s == VT_OK) d->train[at] = 0;
    vt_folders_free(&g);
    return s;
}

static vt_status choose_split_folder(char root[VT_PATH_MAX], vt_dataset *d, const vt_folders *f, int *split,
                                     vt_err *e) {
    int hit = -1, bare = -1, splits = find_splits(f, split);
    for (int k = 0; hit < 0 && k < 2; k++) VT_TRY(find_split(d, f, split, stands_for[d->split][k], &hit, &bare, e));
    if (hit >= 0 && bare >= 0)
        vt_text_item(d->said, sizeof d->said, "; ", "%s has no class folders, so %s was read", f->name[bare],
                     f->name[hit]);
    if (hit < 0) hit = bare; /* what it lacks will be said */
    if (hit >= 0 && d->split != VT_SPLIT_TRAIN) VT_TRY(keep_train(d, f, split, e));
    if (hit >= 0) return vt_path_in(root, d->path, f->name[hit], e);
    if (splits || d->split != VT_SPLIT_TEST) return no_split(d, f, split, e);
    snprintf(root, VT_PATH_MAX, "%s", d->path);
    return VT_OK;
}

/* NAME/SEVERITY of ImageNet-C. */
static vt_status corruption_root(char root[VT_PATH_MAX], const vt_dataset *d, vt_err *e) {
    VT_TRY(vt_corruption_check(d, e));
    int n = snprintf(root, VT_PATH_MAX, "%s/%s/%d", d->path, d->corruption.name, d->corruption.severity);
    if (n >= VT_PATH_MAX) return vt_fail(e, VT_E_IO, "%s: path is too long", d->path);
    if (access(root, F_OK) == 0) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "%s: is not there: %s has no severity %d", root, d->corruption.name,
                   d->corruption.severity);
}

vt_status vt_layout_root(char root[VT_PATH_MAX], vt_dataset *d, vt_err *e) {
    vt_folders f;
    if (*d->corruption.name) return corruption_root(root, d, e);
    vt_status s = vt_folders_list(&f, d->path, e);
    int *split = calloc((size_t)f.n + 1, sizeof *split);
    if (s == VT_OK && !split) s = vt_fail(e, VT_E_MEMORY, "%s: no memory to list it", d->path);
    bool classes = false; /* named so, whatever they are called */
    if (s == VT_OK) s = vt_class_order_names(d, f.name, f.n, &classes, e);
    if (s == VT_OK && classes) snprintf(root, VT_PATH_MAX, "%s", d->path);
    if (s == VT_OK && !classes) s = choose_split_folder(root, d, &f, split, e);
    free(split);
    vt_folders_free(&f);
    return s == VT_OK ? enter_same(root, e) : s;
}

/* ---- versions ---- */

static int count_common_names(const vt_folders *a, const vt_folders *b) {
    int n = 0;
    for (int i = 0; i < a->n; i++) n += bsearch(&a->name[i], b->name, (size_t)b->n, sizeof *b->name, by_text) != NULL;
    return n;
}

/* Do the folders hold no pictures, but each mostly the same folders? */
static vt_status are_versions(const char *path, const vt_folders *f, bool *out, vt_err *e) {
    vt_folders first = {0}, other = {0};
    char next[VT_PATH_MAX];
    vt_status s = VT_OK;
    *out = f->n > 1;
    for (int i = 0; s == VT_OK && *out && i < f->n; i++) {
        vt_folders *now = i ? &other : &first;
        s = vt_path_in(next, path, f->name[i], e);
        if (s == VT_OK) s = vt_folders_list(now, next, e);
        int least = first.n < now->n ? first.n : now->n, both = count_common_names(&first, now);
        *out = s == VT_OK && !now->pictures && both > 1 && 2 * both >= least;
        vt_folders_free(&other);
    }
    vt_folders_free(&first);
    return s;
}

vt_status vt_layout_inside(vt_dataset *d, const char *root, vt_err *e) {
    enum { DEEPEST = 8 };
    char at[VT_PATH_MAX], next[VT_PATH_MAX];
    bool deeper = true;
    vt_status s = VT_OK;
    snprintf(at, sizeof at, "%s", root);
    for (int depth = 0; s == VT_OK && deeper && depth < DEEPEST; depth++) {
        vt_folders f;
        s = vt_folders_list(&f, at, e);
        bool plain = s == VT_OK && !f.pictures && !(depth && vt_folders_splits(&f));
        deeper = plain && f.n == 1;
        if (plain && f.n > 1) s = are_versions(at, &f, &deeper, e);
        if (s == VT_OK && depth && !deeper && f.n > 1) {
            free(d->inside);
            d->inside_classes = f.n;
            if (!(d->inside = strdup(at))) s = vt_fail(e, VT_E_MEMORY, "%s: no memory to list it", root);
        }
        if (s == VT_OK && deeper) s = vt_path_in(next, at, f.name[0], e);
        if (s == VT_OK && deeper) memcpy(at, next, sizeof at);
        vt_folders_free(&f);
    }
    return s;
}
