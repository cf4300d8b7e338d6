/* SPDX-License-Identifier: MIT */
/* PNG and JPEG pictures, one sub-folder for each class, in the order of torchvision's ImageFolder: classes by name, in
 * a class folder by folder (walked recursively), then by file name, all by byte value. A class folder without
 * pictures keeps its number, or every later label would shift; names that begin with a dot are skipped. Tiny
 * ImageNet's val/ has its pictures in images/ and the classes in a file: they are read as if they lay in folders. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"
#include "data/dataset.h"

#define MAX_DEPTH 16                      /* below a class folder; ends a circle of links */
#define ANNOTATIONS "val_annotations.txt" /* of Tiny ImageNet: the labels of the pictures in images/ beside it */
#define EXPECTED "expected is a folder with one sub-folder of .png, .jpg or .jpeg files for each class"

typedef struct entry {
    char *path; /* class/.../name.png */
    size_t dir; /* length of its folder part */
    int label;
} entry;

/* Endings of pictures that are not read. */
static const char *const endings[] = {"webp", "heic", "heif", "avif", "bmp", "tif", "tiff", "gif", "jp2", "jfif",
                                      "jpe",  "ppm",  "pgm",  "pbm",  "pnm", "tga", "jxl",  "dng", "dcm", "psd"};
enum { ENDINGS = sizeof endings / sizeof *endings };

typedef struct folder {
    char root[VT_PATH_MAX]; /* the folder that holds the class folders */
    vt_folders classes;
    bool annotated; /* the pictures lie in images/, the first part of their paths is the class alone */
    entry *e;
    size_t n, left[ENDINGS]; /* left: files of each of the endings */
} folder;

/* Returns the next entry that is not hidden, links followed; NULL at the end (errno 0) or on a read error. */
static const char *read_next_entry(DIR *dir, bool *is_folder) {
    struct stat s;
    for (struct dirent *d; errno = 0, (d = readdir(dir));) {
        if (d->d_name[0] == '.' || fstatat(dirfd(dir), d->d_name, &s, 0)) continue;
        *is_folder = S_ISDIR(s.st_mode);
        if (*is_folder || S_ISREG(s.st_mode)) return d->d_name;
    }
    return NULL;
}

/* Returns whether the path is a picture, or a folder that holds folders or pictures. */
static bool folder_probe(const char *path) {
    if (!vt_is_folder(path)) return vt_is_picture(path);
    DIR *dir = opendir(path); /* errno says it where there is no memory to look */
    bool sub, found = false;
    for (const char *name; dir && !found && (name = read_next_entry(dir, &sub));) found = sub || vt_is_picture(name);
    if (dir) closedir(dir);
    return found;
}

static vt_status no_memory(const folder *f, vt_err *e) {
    return vt_fail(e, VT_E_MEMORY, "%s: no memory for its file names", f->root);
}

/* Appends picture dir/name of class `label` to f->e, if it is one that is read; counts the endings of f->left. */
static vt_status add_picture(folder *f, const char *dir, const char *name, int label, vt_err *e) {
    const char *dot = strrchr(name, '.');
    for (int i = 0; dot && i < ENDINGS; i++) f->left[i] += !strcasecmp(dot + 1, endings[i]);
    if (!vt_is_picture(name)) return VT_OK;
    if (!vt_grow(&f->e, f->n, sizeof *f->e) || asprintf(&f->e[f->n].path, "%s/%s", dir, name) < 0)
        return no_memory(f, e);
    f->e[f->n].dir = strlen(dir), f->e[f->n++].label = label;
    return VT_OK;
}

/* Appends all pictures of root/`rel` to f->e, in no order yet; VT_E_IO: a folder cannot be listed or lies too deep. */
static vt_status collect_pictures(folder *f, const char *rel, int label, int depth, vt_err *e) {
    char path[VT_PATH_MAX], below[VT_PATH_MAX];
    VT_TRY(vt_path_in(path, f->root, rel, e));
    DIR *dir = depth <= MAX_DEPTH ? opendir(path) : NULL;
    if (!dir)
        return vt_fail(e, VT_E_IO, "%s: cannot be listed: %s", path,
                       depth <= MAX_DEPTH ? strerror(errno) : "more than 16 folders deep in its class");
    vt_status r = VT_OK;
    bool sub;
    for (const char *name; r == VT_OK && (name = read_next_entry(dir, &sub));) {
        r = sub ? vt_path_in(below, rel, name, e) : add_picture(f, rel, name, label, e);
        if (sub && r == VT_OK) r = collect_pictures(f, below, label, depth + 1, e);
    }
    if (r == VT_OK && errno) r = vt_fail(e, VT_E_IO, "%s: cannot be listed: %s", path, strerror(errno));
    closedir(dir);
    return r;
}

/* Orders pictures as ImageFolder sorts whole folder paths, then the names in each: "a-b/x" stands before "a/c/x". */
static int compare_places(const void *pa, const void *pb) {
    const entry *a = pa, *b = pb;
    if (a->label != b->label) return a->label < b->label ? -1 : 1;
    int c = memcmp(a->path, b->path, a->dir < b->dir ? a->dir : b->dir);
    if (c) return c;
    if (a->dir != b->dir) return a->dir < b->dir ? -1 : 1;
    return strcmp(a->path + a->dir, b->path + b->dir);
}

/* ---- the folder of a split ---- */

/* Returns how many characters all names share at the front (or end), up to a separator. */
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

/* Finds which of the folders are splits: by their names, or, if all are, by what tells their names apart ("seg_train",
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

/* Sets *out: a split's folder holds class folders, or pictures whose classes stand in a file. */
static vt_status is_labelled(const char *path, bool *out, vt_err *e) {
    char annotations[VT_PATH_MAX];
    vt_folders f;
    VT_TRY(vt_path_in(annotations, path, ANNOTATIONS, e));
    vt_status s = vt_folders_list(&f, path, e);
    *out = s == VT_OK && f.n > 0 && (!vt_folders_bare(&f) || access(annotations, F_OK) == 0);
    vt_folders_free(&f);
    return s;
}

/* Sets *hit to a labelled folder of split `want`, the usual name first; -1: none. Sets *bare, if -1, to one without
 * labels. VT_E_USAGE: several, none of the usual name. */
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

/* Fails with VT_E_IO: there is no folder for the split that is asked for, with a split that there is. */
static vt_status refuse_split(const vt_dataset *d, const vt_folders *f, const int *split, vt_err *e) {
    static const char *const names[] =
        {[VT_SPLIT_TEST] = "test or val", [VT_SPLIT_TRAIN] = "train", [VT_SPLIT_VAL] = "val"};
    int i = 0;
    while (i < f->n && split[i] < 0) i++;
    if (i == f->n || d->split == VT_SPLIT_TRAIN) /* a training has no option for it */
        return vt_fail(e, VT_E_IO, "%s: has no folder %s, so there is no %s split", d->path, names[d->split],
                       vt_split_name(d->split));
    return vt_fail(e, VT_E_IO,
                   "%s: has no folder %s, so there is no %s split, but %.80s: give @split %s; if that is a class, "
                   "@class-order FILE, with one class a line, says so",
                   d->path, names[d->split], vt_split_name(d->split), f->name[i], vt_split_name((vt_split)split[i]));
}

/* While root holds nothing but a folder of its own name (training_set/training_set), appends that name. */
static vt_status enter_equal_name(char root[VT_PATH_MAX], vt_err *e) {
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

/* Sets d->train to the names of the train split's class folders, one a line; no effect if there is none, or several. */
static vt_status keep_train_classes(vt_dataset *d, const vt_folders *f, const int *split, vt_err *e) {
    char path[VT_PATH_MAX];
    int hit, bare = -1;
    vt_folders g;
    vt_err ignored = {0}; /* of several none counts */
    if (find_split(d, f, split, VT_SPLIT_TRAIN, &hit, &bare, &ignored) != VT_OK)
        return ignored.code == VT_E_MEMORY ? vt_fail(e, VT_E_MEMORY, "%s", ignored.text) : VT_OK;
    if (hit < 0) return VT_OK;
    VT_TRY(vt_path_in(path, d->path, f->name[hit], e));
    VT_TRY(enter_equal_name(path, e));
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

/* Sets root to the labelled folder of d->split (test: else val's; else a bare one), or to d->path if none is any
 * split's and the split is test; also split, d->train and d->said. VT_E_IO: there is no such split. */
static vt_status choose_split_folder(char root[VT_PATH_MAX], vt_dataset *d, const vt_folders *f, int *split,
                                     vt_err *e) {
    int hit = -1, bare = -1, splits = find_splits(f, split);
    VT_TRY(find_split(d, f, split, d->split, &hit, &bare, e));
    if (hit < 0 && d->split == VT_SPLIT_TEST) VT_TRY(find_split(d, f, split, VT_SPLIT_VAL, &hit, &bare, e));
    if (hit >= 0 && bare >= 0)
        vt_text_item(d->said, sizeof d->said, "; ", "%s has no class folders, so %s was read", f->name[bare],
                     f->name[hit]);
    if (hit < 0) hit = bare; /* what it lacks will be said */
    if (hit >= 0 && d->split != VT_SPLIT_TRAIN) VT_TRY(keep_train_classes(d, f, split, e));
    if (hit >= 0) return vt_path_in(root, d->path, f->name[hit], e);
    if (splits || d->split != VT_SPLIT_TEST) return refuse_split(d, f, split, e);
    snprintf(root, VT_PATH_MAX, "%s", d->path);
    return VT_OK;
}

/* Sets root to the folder NAME/SEVERITY of ImageNet-C; VT_E_USAGE if it is not there. */
static vt_status corruption_root(char root[VT_PATH_MAX], const vt_dataset *d, vt_err *e) {
    VT_TRY(vt_corruption_check(d, e));
    int n = snprintf(root, VT_PATH_MAX, "%s/%s/%d", d->path, d->corruption.name, d->corruption.severity);
    if (n >= VT_PATH_MAX) return vt_fail(e, VT_E_IO, "%s: path is too long", d->path);
    if (access(root, F_OK) == 0) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "%s: is not there: %s has no severity %d", root, d->corruption.name,
                   d->corruption.severity);
}

/* Sets root to the folder that holds the class folders of d->split: d->path, or a folder of it that a split is called
 * by. What was passed over goes to d->said. */
static vt_status find_class_root(char root[VT_PATH_MAX], vt_dataset *d, vt_err *e) {
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
    return s == VT_OK ? enter_equal_name(root, e) : s;
}

/* ---- Tiny ImageNet's val ---- */

enum { ANNOTATIONS_MOST = 1 << 26 }; /* bytes of the file of classes */

typedef struct line {
    char *name, *class;
} line;

/* Orders two lines by their classes' names. */
static int compare_classes(const void *a, const void *b) {
    return strcmp(((const line *)a)->class, ((const line *)b)->class);
}

/* Reads the lines "NAME<tab>CLASS<tab>..." into *lines [*n], which point into *text; both to be freed. VT_E_FORMAT. */
static vt_status read_annotation_lines(const char *path, char **text, line **lines, size_t *n, vt_err *e) {
    size_t room = 1, at = 0;
    *lines = NULL, *n = 0;
    VT_TRY(vt_file_text(path, ANNOTATIONS_MOST, text, e));
    for (const char *c = *text; *c; c++) room += *c == '\n';
    if (!(*lines = calloc(room, sizeof **lines))) return vt_fail(e, VT_E_MEMORY, "%s: no memory for its lines", path);
    for (char *l, *rest = *text; (l = strsep(&rest, "\n"));) {
        at++;
        if (!*l || !strcmp(l, "\r")) continue;
        char *name = strsep(&l, "\t"), *class = strsep(&l, "\t\r");
        if (!class || !*class || !*name || strchr(name, '/') || strchr(class, '/') || *class == '.')
            return vt_fail(e, VT_E_FORMAT, "%s: line %zu is not NAME, a tab, CLASS", path, at);
        (*lines)[(*n)++] = (line){name, class};
    }
    return *n ? VT_OK : vt_fail(e, VT_E_FORMAT, "%s: has no lines", path);
}

/* Adds to f->classes those of the lines, sorted by them, and to f->e each line's picture, if it is there. */
static vt_status add_annotated_pictures(folder *f, const line *lines, size_t n, vt_err *e) {
    char dir[VT_PATH_MAX], path[VT_PATH_MAX + 300];
    vt_status s = VT_OK;
    for (size_t i = 0; s == VT_OK && i < n; i++) {
        if (!i || strcmp(lines[i].class, lines[i - 1].class) != 0)
            VT_TRY(vt_folders_add(&f->classes, lines[i].class, f->root, e));
        snprintf(dir, sizeof dir, "%.200s/images", lines[i].class);
        snprintf(path, sizeof path, "%s/images/%.250s", f->root, lines[i].name);
        if (access(path, F_OK) == 0) s = add_picture(f, dir, lines[i].name, f->classes.n - 1, e);
    }
    return s;
}

/* VT_E_FORMAT unless the annotations, whose pictures are f->e, name every picture of images/. */
static vt_status check_all_annotated(const folder *f, const char *path, vt_err *e) {
    char images[VT_PATH_MAX];
    vt_folders all;
    VT_TRY(vt_path_in(images, f->root, "images", e));
    vt_status s = vt_folders_list(&all, images, e);
    size_t pictures = all.pictures;
    vt_folders_free(&all);
    if (s != VT_OK || pictures == f->n) return s;
    return vt_fail(e, VT_E_FORMAT, "%s: names the classes of %zu pictures, but %s holds %zu", path, f->n, images,
                   pictures);
}

/* Sets f->annotated, classes and e by the annotations file; VT_E_FORMAT: it is none, or not of all pictures. */
static vt_status read_annotations(folder *f, const char *path, vt_err *e) {
    char *text = NULL;
    line *lines = NULL;
    size_t n;
    f->annotated = true;
    vt_status s = read_annotation_lines(path, &text, &lines, &n, e);
    if (s == VT_OK) qsort(lines, n, sizeof *lines, compare_classes);
    if (s == VT_OK) s = add_annotated_pictures(f, lines, n, e);
    free(lines), free(text);
    return s == VT_OK ? check_all_annotated(f, path, e) : s;
}

/* ---- opening ---- */

/* Writes ".webp 2, .bmp 1", the files that are not read; returns whether there are any. */
static bool list_left(const folder *f, char *out, size_t size) {
    *out = 0;
    for (int i = 0; i < ENDINGS; i++)
        if (f->left[i]) vt_text_item(out, size, ", ", ".%s %zu", endings[i], f->left[i]);
    return *out;
}

/* Fails with VT_E_FORMAT: there are no pictures, with what the folder holds instead. */
static vt_status refuse_empty(const folder *f, const char *path, vt_err *e) {
    char list[200];
    if (vt_dataset_inside(f->root, list, sizeof list))
        return vt_fail(e, VT_E_FORMAT, "%s: holds no pictures, but what looks like data sets (%s): name one", f->root,
                       list);
    if (!f->classes.n)
        return vt_fail(e, VT_E_FORMAT, "%s: holds no class folder; " EXPECTED "%s", f->root,
                       strcmp(path, f->root) ? " (if this is a class: " VT_OPTION
                                               "class-order FILE, one class a line, says so)"
                                             : "");
    bool left = list_left(f, list, sizeof list);
    return vt_fail(e, VT_E_FORMAT, "%s: its %d class folders hold no .png, .jpg or .jpeg file%s%s%s", f->root,
                   f->classes.n, left ? ", but " : "", list,
                   left ? ": convert them to PNG (mogrify -format png FILES)" : "");
}

/* Adds one file to the split's hash; *jpeg stays true or becomes it. What is wrong and can be seen without decoding
 * (another format, a JPEG that ends too early) is refused here (vt_image_inspect), before a long run. */
static vt_status hash_file(vt_sha *sha, const char *path, const char *rel, bool *jpeg, vt_err *e) {
    char *text;
    size_t n;
    VT_TRY(vt_file_load(path, VT_IMAGE_FILE_MAX, &text, &n, e));
    const uint8_t *bytes = (uint8_t *)text;
    uint64_t size = n;
    vt_sha_update(sha, rel, strlen(rel) + 1);
    vt_sha_update(sha, &size, sizeof size);
    vt_sha_update(sha, bytes, n);
    *jpeg = *jpeg || vt_is_jpeg(bytes, n);
    vt_status r = vt_image_inspect(bytes, n, path, e);
    free(text);
    return r;
}

/* Writes the path of picture i; fails if it is too long. */
static vt_status picture_path(char out[VT_PATH_MAX], const folder *f, size_t i, vt_err *e) {
    return vt_path_in(out, f->root, f->e[i].path + (f->annotated ? strcspn(f->e[i].path, "/") + 1 : 0), e);
}

/* Hashes class names and pictures into hex; *jpeg: whether one is a JPEG. Refuses files that are damaged. */
static vt_status hash_pictures(const folder *f, char hex[65], bool *jpeg, vt_err *e) {
    char path[VT_PATH_MAX];
    vt_sha sha;
    vt_sha_begin(&sha);
    for (int i = 0; i < f->classes.n; i++) {
        vt_sha_update(&sha, f->classes.name[i], strlen(f->classes.name[i]));
        vt_sha_update(&sha, "/", 2);
    }
    vt_status r = VT_OK;
    for (size_t i = 0; r == VT_OK && i < f->n; i++) {
        r = picture_path(path, f, i, e);
        if (r == VT_OK) r = hash_file(&sha, path, f->e[i].path, jpeg, e);
    }
    vt_sha_end(&sha, hex);
    return r;
}

/* Sets f->classes and f->e to what lies below f->root, in no order yet, and d->root unless annotated. VT_E_FORMAT: no
 * classes. */
static vt_status list_pictures(folder *f, vt_dataset *d, vt_err *e) {
    char path[VT_PATH_MAX];
    if (vt_path(path, f->root, ANNOTATIONS) && access(path, F_OK) == 0) return read_annotations(f, path, e);
    VT_TRY(vt_folders_list(&f->classes, f->root, e));
    if (vt_folders_bare(&f->classes))
        return vt_fail(e, VT_E_FORMAT,
                       "%s: has no class folders, but %s alone, and no " ANNOTATIONS " with their classes", f->root,
                       f->classes.name[0]);
    d->root = f->root;
    for (int i = 0; i < f->classes.n; i++) VT_TRY(collect_pictures(f, f->classes.name[i], i, 1, e));
    return VT_OK;
}

/* Adds to d->said what was left out: empty class folders, stray pictures, other formats. Entries are not sorted yet. */
static void note_left_out(vt_dataset *d, const folder *f) {
    char left[200];
    int empty = 0, first = 0;
    size_t at = 0;
    for (int k = 0; k < f->classes.n; k++) {
        size_t from = at;
        while (at < f->n && f->e[at].label == k) at++;
        if (at > from) continue;
        if (!empty++) first = k;
    }
    if (empty)
        vt_text_item(d->said, sizeof d->said, "; ",
                     "%d class folder%s no pictures (%.60s), and %s a class all the same", empty,
                     empty == 1 ? " holds" : "s hold", f->classes.name[first], empty == 1 ? "is" : "each is");
    if (f->classes.pictures)
        vt_text_item(d->said, sizeof d->said, "; ",
                     "%zu picture%s beside the class folders %s no class and %s left out", f->classes.pictures,
                     f->classes.pictures == 1 ? "" : "s", f->classes.pictures == 1 ? "has" : "have",
                     f->classes.pictures == 1 ? "was" : "were");
    if (list_left(f, left, sizeof left))
        vt_text_item(d->said, sizeof d->said, "; ", "pictures of these endings were left out: %s (convert them to PNG)",
                     left);
}

/* Lists the split's classes and pictures, sorted, and hashes them (vt_dataset_def.open). */
static vt_status folder_open(vt_dataset *d, vt_err *e) {
    folder *f = d->state;
    if (!vt_is_folder(d->path)) return vt_fail(e, VT_E_FORMAT, "%s: a single picture has no label; " EXPECTED, d->path);
    VT_TRY(find_class_root(f->root, d, e));
    VT_TRY(list_pictures(f, d, e));
    if (!f->n) return refuse_empty(f, d->path, e);
    note_left_out(d, f);
    qsort(f->e, f->n, sizeof *f->e, compare_places);
    d->count = (int64_t)f->n;
    d->classes = f->classes.n;
    d->names = (const char *const *)f->classes.name;
    VT_TRY(vt_class_order(d, e));
    return hash_pictures(f, d->hash, &d->jpeg, e);
}

/* Decodes picture i. */
static vt_status folder_read(const vt_dataset *d, int64_t i, vt_image *im, int *label, vt_err *e) {
    const folder *f = d->state;
    char path[VT_PATH_MAX];
    *label = f->e[i].label;
    VT_TRY(picture_path(path, f, (size_t)i, e));
    return vt_image_read(path, im, e);
}

static const char *folder_file(const vt_dataset *d, int64_t i) { return ((const folder *)d->state)->e[i].path; }

static int folder_class(const vt_dataset *d, int64_t i) { return ((const folder *)d->state)->e[i].label; }

static void folder_close(vt_dataset *d) {
    folder *f = d->state;
    for (size_t i = 0; i < f->n; i++) free(f->e[i].path);
    vt_folders_free(&f->classes);
    free(f->e);
}

const vt_dataset_def vt_dataset_def_folder = {
    .name = "folder",
    .summary = "PNG or JPEG pictures, one sub-folder for each class, under folders for splits (train, test, val and "
               "the like) or not",
    .probe = folder_probe,
    .state = sizeof(folder),
    .corruptions = true,
    .open = folder_open,
    .read = folder_read,
    .file = folder_file,
    .class_of = folder_class,
    .close = folder_close,
};
