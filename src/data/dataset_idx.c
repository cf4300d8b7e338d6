/* SPDX-License-Identifier: MIT */
/* MNIST, Fashion-MNIST, KMNIST and EMNIST as published: a folder with train-images-idx3-ubyte, train-labels-idx1-ubyte,
 * t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte (or "test" for t10k, a dot before idx, a name before them), or one
 * images file of them, whose labels lie beside it. Pictures have one channel, as the file has them. */
#include <dirent.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/files.h"
#include "data/dataset.h"
#include "data/records.h"

typedef struct pair {
    char path[2][VT_PATH_MAX];
    vt_mapped map[2];
    vt_idx images, labels;
} pair;

/* ---- the format ---- */

vt_status vt_idx_parse(vt_idx *x, const uint8_t *bytes, size_t n, unsigned magic, const char *path, vt_err *e) {
    size_t sides = magic & 0xff, head = 4 + 4 * sides;
    uint32_t found = 0, side[3] = {1, 1, 1};
    const char *what = magic == VT_IDX_IMAGES ? "images" : "labels";
    if (n >= 4) memcpy(&found, bytes, 4);
    if (n >= 4 && be32toh(found) != magic)
        return vt_fail(e, VT_E_USAGE, "%s: begins with the magic number 0x%08x, but idx %s begin with 0x%08x", path,
                       be32toh(found), what, magic);
    if (n < head)
        return vt_fail(e, VT_E_USAGE, "%s: is cut short: %zu bytes are there, the head of idx %s has %zu", path, n,
                       what, head);
    memcpy(side, bytes + 4, 4 * sides);
    for (size_t i = 0; i < sides; i++) side[i] = be32toh(side[i]);
    if (side[1] < 1 || side[2] < 1 || side[1] > VT_IMAGE_MAX_SIDE || side[2] > VT_IMAGE_MAX_SIDE)
        return vt_fail(e, VT_E_USAGE, "%s: its images are %u x %u, sides must be between 1 and %d", path, side[2],
                       side[1], VT_IMAGE_MAX_SIDE);
    uint64_t want = (uint64_t)side[0] * side[1] * side[2];
    if (n - head != want)
        return vt_fail(e, VT_E_USAGE, "%s: %s: %u %s of %u x %u are %llu bytes after the head, %zu are there", path,
                       n - head < want ? "is cut short" : "is too long", side[0], what, side[2], side[1],
                       (unsigned long long)want, n - head);
    *x = (vt_idx){side[0], (int)side[1], (int)side[2], bytes + head};
    return VT_OK;
}

/* ---- files ---- */

/* Returns whether a path ends as MNIST's files of images do. */
static bool is_images_name(const char *name) {
    size_t n = strlen(name);
    return n >= 17 && (!strcmp(name + n - 17, "images-idx3-ubyte") || !strcmp(name + n - 17, "images.idx3-ubyte"));
}

/* Returns whether a file's name says that it belongs to the split. */
static bool is_of_split(const char *name, vt_split s) {
    bool train = strstr(name, "train") != NULL, test = strstr(name, "t10k") || strstr(name, "test");
    return s == VT_SPLIT_TRAIN ? train && !test : test && !train;
}

/* Returns how many files of images the folder holds, of one split or of any (s NULL); writes the first by name, or
 * "". */
static int count_images(const char *folder, const vt_split *s, char first[VT_PATH_MAX]) {
    DIR *dir = opendir(folder);
    int n = 0;
    *first = 0;
    for (struct dirent *d; dir && (d = readdir(dir));) {
        if (!is_images_name(d->d_name) || (s && !is_of_split(d->d_name, *s))) continue;
        if (!n++ || strcmp(d->d_name, first) < 0) snprintf(first, VT_PATH_MAX, "%s", d->d_name);
    }
    if (dir) closedir(dir);
    return n;
}

/* Returns whether the path is a folder of IDX files, or one such file. */
static bool idx_probe(const char *path) {
    char first[VT_PATH_MAX];
    return vt_is_folder(path) ? count_images(path, NULL, first) > 0 : is_images_name(path) && !access(path, F_OK);
}

/* Sets p->path[0] to the file of images: d->path, or the folder's one of d->split; VT_E_USAGE: none, several, or
 * val. */
static vt_status find_images_file(const vt_dataset *d, pair *p, vt_err *e) {
    char name[VT_PATH_MAX];
    if (!vt_is_folder(d->path)) {
        snprintf(p->path[0], VT_PATH_MAX, "%s", d->path);
        return VT_OK;
    }
    if (d->split == VT_SPLIT_VAL)
        return vt_fail(e, VT_E_USAGE, "%s: idx files have the splits train and test, and no val", d->path);
    int n = count_images(d->path, &d->split, name);
    if (n > 1)
        return vt_fail(e, VT_E_USAGE, "%s: holds %d files of %s images (%s is the first): name one of them", d->path, n,
                       vt_split_name(d->split), name);
    if (!n)
        return vt_fail(e, VT_E_USAGE, "%s: has no %s images: %s-images-idx3-ubyte is not there", d->path,
                       vt_split_name(d->split), d->split == VT_SPLIT_TRAIN ? "train" : "t10k");
    return vt_path_in(p->path[0], d->path, name, e);
}

/* Sets p->path[1], the labels' file, to that of the images with labels for images, and 1 for 3. */
static void name_labels(pair *p) {
    memcpy(p->path[1], p->path[0], VT_PATH_MAX);
    char *end = p->path[1] + strlen(p->path[1]) - 17;
    memcpy(end, "labels", 6);
    end[10] = '1';
}

/* VT_E_USAGE unless there are as many labels as images, and any; sets d->count, d->classes and d->classes_open. */
static vt_status check_labels(vt_dataset *d, const pair *p, vt_err *e) {
    if (p->labels.n != p->images.n)
        return vt_fail(e, VT_E_USAGE, "%s: has %lld labels, but %s has %lld images", p->path[1], (long long)p->labels.n,
                       p->path[0], (long long)p->images.n);
    if (!p->images.n) return vt_fail(e, VT_E_USAGE, "%s: has no images", p->path[0]);
    for (int64_t i = 0; i < p->labels.n; i++)
        if (p->labels.data[i] >= d->classes) d->classes = p->labels.data[i] + 1;
    d->count = p->images.n, d->classes_open = true;
    return VT_OK;
}

/* Maps the split's images and labels, checks and hashes them (vt_dataset_def.open). */
static vt_status idx_open(vt_dataset *d, vt_err *e) {
    pair *p = d->state;
    VT_TRY(find_images_file(d, p, e));
    name_labels(p);
    for (int k = 0; k < 2; k++) {
        VT_TRY(vt_mapped_open(&p->map[k], p->path[k], e));
        VT_TRY(vt_idx_parse(k ? &p->labels : &p->images, p->map[k].bytes, p->map[k].n,
                            k ? VT_IDX_LABELS : VT_IDX_IMAGES, p->path[k], e));
    }
    VT_TRY(check_labels(d, p, e));
    vt_sha sha;
    vt_sha_begin(&sha);
    for (int k = 0; k < 2; k++) vt_mapped_hash(&p->map[k], 0, &sha);
    vt_sha_end(&sha, d->hash);
    return VT_OK;
}

/* Makes image i, one plane of bytes, and its label. */
static vt_status idx_read(const vt_dataset *d, int64_t i, vt_image *im, int *label, vt_err *e) {
    const pair *p = d->state;
    size_t n = (size_t)p->images.height * (size_t)p->images.width;
    VT_TRY(vt_image_make(im, (vt_shape){1, p->images.height, p->images.width}, d->path, e));
    memcpy(im->rgb, p->images.data + (size_t)i * n, n);
    *label = p->labels.data[i];
    return VT_OK;
}

static int idx_class(const vt_dataset *d, int64_t i) { return ((const pair *)d->state)->labels.data[i]; }

static void idx_close(vt_dataset *d) {
    pair *p = d->state;
    for (int k = 0; k < 2; k++) vt_mapped_close(&p->map[k]);
}

const vt_dataset_def vt_dataset_def_idx = {
    .name = "idx",
    .summary =
        "MNIST, Fashion-MNIST, EMNIST: folder of idx files (t10k-images-idx3-ubyte and its like), or one of them",
    .probe = idx_probe,
    .state = sizeof(pair),
    .open = idx_open,
    .read = idx_read,
    .class_of = idx_class,
    .close = idx_close,
};
