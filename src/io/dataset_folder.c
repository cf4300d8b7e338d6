/* SPDX-License-Identifier: MIT */
/* PNG and JPEG pictures, one sub-folder for each class, in the order of torchvision's ImageFolder: classes by name, in
 * a class folder by folder (walked recursively), then by file name, all by byte value. A class folder without
 * pictures keeps its number, or every later label would shift; names that begin with a dot are skipped. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include "core/files.h"
#include "core/hash.h"
#include "io/dataset.h"
#include "io/image_jpeg.h"

#define MAX_DEPTH 16 /* below a class folder; ends a circle of links */
#define EXPECTED "expected is a folder with one sub-folder of .png, .jpg or .jpeg files for each class"

typedef struct entry {
    char *path; /* below the root: class/.../name.png */
    size_t dir; /* length of its folder part */
    int label;
} entry;

typedef struct folder {
    char *root; /* the folder that holds the class folders */
    char **classes;
    int n_classes;
    entry *e;
    size_t n, room;
} folder;

static bool ends_in(const char *name, const char *end) {
    size_t n = strlen(name), k = strlen(end);
    return n > k && !strcasecmp(name + n - k, end);
}

static bool is_picture(const char *name) {
    return ends_in(name, ".png") || ends_in(name, ".jpg") || ends_in(name, ".jpeg");
}

static char *join(const char *a, const char *b) {
    char *p = NULL;
    return asprintf(&p, "%s/%s", a, b) < 0 ? NULL : p;
}

static bool is_dir(const char *path) {
    struct stat s;
    return !stat(path, &s) && S_ISDIR(s.st_mode);
}

/* The next entry that is not hidden, links followed; NULL at the end (errno 0) or on a read error. */
static const char *next(DIR *dir, bool *is_folder) {
    struct stat s;
    for (struct dirent *d; errno = 0, (d = readdir(dir));) {
        if (d->d_name[0] == '.' || fstatat(dirfd(dir), d->d_name, &s, 0)) continue;
        *is_folder = S_ISDIR(s.st_mode);
        if (*is_folder || S_ISREG(s.st_mode)) return d->d_name;
    }
    return NULL;
}

/* What stands directly in a folder. false: there is no memory to look (errno says it too). */
static bool tally(const char *path, size_t *folders, size_t *pictures) {
    DIR *dir = opendir(path);
    bool sub, looked = dir || errno != ENOMEM;
    *folders = *pictures = 0;
    for (const char *name; dir && (name = next(dir, &sub));) {
        *folders += sub;
        *pictures += !sub && is_picture(name);
    }
    if (dir) closedir(dir);
    return looked;
}

static bool folder_probe(const char *path) {
    size_t folders, pictures;
    if (!is_dir(path)) return is_picture(path);
    tally(path, &folders, &pictures);
    return folders || pictures;
}

/* The array with room for item n (doubled when full); NULL, and the array as it was, when there is no memory.
 */
static void *grow(void *array, size_t n, size_t *room, size_t item) {
    if (n < *room) return array;
    size_t want = *room ? 2 * *room : 64;
    void *more = realloc(array, want * item);
    if (more) *room = want;
    return more;
}

static vt_status no_memory(const folder *f, vt_err *e) {
    return vt_fail(e, VT_E_MEMORY, "%s: no memory for its file names", f->root);
}

static vt_status add_file(folder *f, const char *dir, const char *name, int label, vt_err *e) {
    if (!is_picture(name)) return VT_OK;
    char *path = join(dir, name);
    entry *all = grow(f->e, f->n, &f->room, sizeof *f->e);
    if (all) f->e = all;
    if (!path || !all) {
        free(path);
        return no_memory(f, e);
    }
    f->e[f->n++] = (entry){path, strlen(dir), label};
    return VT_OK;
}

/* All pictures of root/`rel`, in no order yet. */
static vt_status walk(folder *f, const char *rel, int label, int depth, vt_err *e) {
    char *path = join(f->root, rel);
    if (!path) return no_memory(f, e);
    DIR *dir = depth <= MAX_DEPTH ? opendir(path) : NULL;
    vt_status r = VT_OK;
    bool sub;
    if (!dir)
        r = vt_fail(e, VT_E_IO, "%s: cannot be listed: %s", path,
                    depth <= MAX_DEPTH ? strerror(errno) : "more than 16 folders deep in its class");
    for (const char *name; r == VT_OK && (name = next(dir, &sub));) {
        char *below = sub ? join(rel, name) : NULL;
        if (!sub)
            r = add_file(f, rel, name, label, e);
        else
            r = below ? walk(f, below, label, depth + 1, e) : no_memory(f, e);
        free(below);
    }
    if (r == VT_OK && errno) r = vt_fail(e, VT_E_IO, "%s: cannot be listed: %s", path, strerror(errno));
    if (dir) closedir(dir);
    free(path);
    return r;
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* ImageFolder sorts whole folder paths, then the names in each: "a-b/x" stands before "a/c/x". */
static int by_place(const void *pa, const void *pb) {
    const entry *a = pa, *b = pb;
    if (a->label != b->label) return a->label < b->label ? -1 : 1;
    int c = memcmp(a->path, b->path, a->dir < b->dir ? a->dir : b->dir);
    if (c) return c;
    if (a->dir != b->dir) return a->dir < b->dir ? -1 : 1;
    return strcmp(a->path + a->dir, b->path + b->dir);
}

static vt_status list_classes(folder *f, vt_err *e) {
    DIR *dir = opendir(f->root);
    if (!dir) return vt_fail(e, VT_E_IO, "%s: cannot be listed: %s", f->root, strerror(errno));
    size_t room = 0;
    bool sub;
    vt_status r = VT_OK;
    for (const char *name; r == VT_OK && (name = next(dir, &sub));) {
        if (!sub) continue;
        char **all = grow(f->classes, (size_t)f->n_classes, &room, sizeof *all), *copy = strdup(name);
        if (all) f->classes = all;
        if (all && copy)
            f->classes[f->n_classes++] = copy;
        else
            free(copy), r = no_memory(f, e);
    }
    if (r == VT_OK && errno) r = vt_fail(e, VT_E_IO, "%s: cannot be listed: %s", f->root, strerror(errno));
    closedir(dir);
    if (f->n_classes) qsort(f->classes, (size_t)f->n_classes, sizeof *f->classes, by_text);
    return r;
}

/* f->root: path/train, path/test or path/val, or path itself where there is no such level. */
static vt_status pick_root(folder *f, const vt_dataset *d, vt_err *e) {
    char train[VT_PATH_MAX], test[VT_PATH_MAX], val[VT_PATH_MAX];
    bool is_train = d->split == VT_SPLIT_TRAIN;
    const char *pick = NULL;
    size_t folders, pictures;
    if (!vt_path(train, d->path, "train") || !vt_path(test, d->path, "test") || !vt_path(val, d->path, "val"))
        return vt_fail(e, VT_E_IO, "%s: path is too long", d->path);
    if (!is_train && is_dir(test) && !tally(test, &folders, &pictures))
        return vt_fail(e, VT_E_MEMORY, "%s: no memory to list it", test);
    if (is_train)
        pick = is_dir(train) ? train : NULL;
    else if (is_dir(test) && (folders || !is_dir(val)))
        pick = test; /* ImageNet's test folder has no classes: then val */
    else if (is_dir(val))
        pick = val;
    if (!pick && (is_train || is_dir(train)))
        return vt_fail(e, VT_E_IO, "%s: has no folder %s, so there is no %s split", d->path,
                       is_train ? "train" : "test or val", vt_split_name(d->split));
    f->root = strdup(pick ? pick : d->path);
    return f->root ? VT_OK : vt_fail(e, VT_E_MEMORY, "%s: no memory to open it", d->path);
}

static vt_status refuse_empty(const folder *f, vt_err *e) {
    size_t folders, pictures;
    char list[200];
    tally(f->root, &folders, &pictures);
    if (vt_dataset_inside(f->root, list, sizeof list))
        return vt_fail(e, VT_E_FORMAT, "%s: holds no pictures, but what looks like data sets (%s): name one", f->root,
                       list);
    if (!folders) return vt_fail(e, VT_E_FORMAT, "%s: holds no class folder; " EXPECTED, f->root);
    return vt_fail(e, VT_E_FORMAT, "%s: its %d class folders hold no .png, .jpg or .jpeg file", f->root, f->n_classes);
}

/* Adds one file to the split's hash. What is wrong with it and can be seen without decoding (another format, a JPEG
 * that ends too early) is refused here, before a long run. */
static vt_status hash_file(vt_sha *sha, const char *path, const char *rel, bool *jpeg, vt_err *e) {
    uint8_t *bytes;
    size_t n;
    VT_TRY(vt_image_load(path, &bytes, &n, e));
    uint64_t size = n;
    vt_sha_update(sha, rel, strlen(rel) + 1);
    vt_sha_update(sha, &size, sizeof size);
    vt_sha_update(sha, bytes, n);
    *jpeg = *jpeg || vt_is_jpeg(bytes, n);
    vt_status r = vt_image_inspect(bytes, n, path, e);
    free(bytes);
    return r;
}

static vt_status hash_all(const folder *f, char hex[65], bool *jpeg, vt_err *e) {
    vt_sha *sha = vt_sha_new();
    if (!sha) return vt_fail(e, VT_E_MEMORY, "%s: no memory to hash it", f->root);
    for (int i = 0; i < f->n_classes; i++) {
        vt_sha_update(sha, f->classes[i], strlen(f->classes[i]));
        vt_sha_update(sha, "/", 2);
    }
    vt_status r = VT_OK;
    for (size_t i = 0; r == VT_OK && i < f->n; i++) {
        char *path = join(f->root, f->e[i].path);
        r = path ? hash_file(sha, path, f->e[i].path, jpeg, e) : no_memory(f, e);
        free(path);
    }
    vt_sha_end(sha, hex);
    return r;
}

static vt_status folder_open(vt_dataset *d, vt_err *e) {
    folder *f = d->state = calloc(1, sizeof *f);
    if (!f) return vt_fail(e, VT_E_MEMORY, "%s: no memory to open it", d->path);
    if (!is_dir(d->path)) return vt_fail(e, VT_E_FORMAT, "%s: a single picture has no label; " EXPECTED, d->path);
    VT_TRY(pick_root(f, d, e));
    VT_TRY(list_classes(f, e));
    for (int i = 0; i < f->n_classes; i++) VT_TRY(walk(f, f->classes[i], i, 1, e));
    if (!f->n) return refuse_empty(f, e);
    qsort(f->e, f->n, sizeof *f->e, by_place);
    d->count = (int64_t)f->n;
    d->classes = f->n_classes;
    d->names = (const char *const *)f->classes;
    return hash_all(f, d->hash, &d->jpeg, e);
}

static vt_status folder_read(const vt_dataset *d, int64_t i, vt_image *im, int *label, vt_err *e) {
    const folder *f = d->state;
    char *path = join(f->root, f->e[i].path);
    if (!path) return no_memory(f, e);
    vt_status r = vt_image_read(path, im, e);
    *label = f->e[i].label;
    free(path);
    return r;
}

static const char *folder_file(const vt_dataset *d, int64_t i) { return ((const folder *)d->state)->e[i].path; }

static void folder_close(vt_dataset *d) {
    folder *f = d->state;
    if (!f) return;
    for (size_t i = 0; i < f->n; i++) free(f->e[i].path);
    for (int i = 0; i < f->n_classes; i++) free(f->classes[i]);
    free(f->e);
    free(f->classes);
    free(f->root);
    free(f);
    d->state = NULL;
}

const vt_dataset_def vt_dataset_def_folder = {
    .name = "folder",
    .summary = "PNG or JPEG pictures, one sub-folder for each class, under an optional train, test or val",
    .probe = folder_probe,
    .open = folder_open,
    .read = folder_read,
    .file = folder_file,
    .close = folder_close,
};
