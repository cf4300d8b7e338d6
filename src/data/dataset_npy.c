/* SPDX-License-Identifier: MIT */
/* Images and labels as NumPy arrays: an archive x.npz, two files "x.npy,y.npy", or a folder with images.npy and
 * labels.npy. Images are [N,C,H,W] or [N,H,W,C], as the model wants them (vt_dataset_expect), or grey [N,H,W]; uint8,
 * or floats in [0,1], which stay floats: rounded to bytes, an adversarial example would be another image. Labels are
 * whole numbers [N] or [N,1], or rows with a single 1, [N,classes]. A folder of corruptions has one labels.npy and many
 * NAME.npy, of which d->corruption picks one and a fifth of it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/text.h"
#include "data/dataset.h"
#include "tensors/npy.h"
#include "tensors/zip.h"

#define MAX_CLASSES 1000000

/* Names of the two arrays, those of a split before those of the whole; the first pair that is there counts. */
static const struct {
    int split; /* -1: any */
    const char *images, *labels;
} keys[] = {
    {VT_SPLIT_TEST, "x_test", "y_test"},
    {VT_SPLIT_TEST, "test_images", "test_labels"},
    {VT_SPLIT_TRAIN, "x_train", "y_train"},
    {VT_SPLIT_TRAIN, "train_images", "train_labels"},
    {VT_SPLIT_VAL, "x_val", "y_val"},
    {VT_SPLIT_VAL, "val_images", "val_labels"},
    {-1, "images", "labels"},
    {-1, "x", "y"},
    {-1, "x_adv", "labels"},
    {-1, "arr_0", "arr_1"},
};
#define KEYS (sizeof keys / sizeof *keys)

typedef struct arrays {
    vt_mapped map[3]; /* the archive; or images, labels and classes */
    vt_zip *zip;
    vt_npy images, labels;
    int columns;   /* of labels that are rows with a single 1; else 0 */
    int64_t first; /* of the images, where a severity is a part of them */
    vt_shape shape;
    bool last;      /* the channels stand last */
    size_t step[4]; /* items from an image, a channel, a row, a column to the next */
} arrays;

/* Returns of "x.npy,y.npy" the second name, else NULL. */
static const char *labels_path(const char *path) {
    const char *comma = strstr(path, ".npy,");
    return comma && vt_ends_in(comma + 5, ".npy") ? comma + 5 : NULL;
}

/* Returns whether the archive, or the folder if zip is NULL, has an array NAME.npy. */
static bool has_array(const char *folder, const vt_zip *zip, const char *name) {
    char file[VT_PATH_MAX], path[VT_PATH_MAX];
    snprintf(file, sizeof file, "%s.npy", name);
    return zip ? vt_zip_find(zip, file) >= 0 : vt_path(path, folder, file) && !access(path, F_OK);
}

/* Returns whether the path is "x.npy,y.npy", a file of NumPy's by its ending, or a folder that holds such arrays. */
static bool npy_probe(const char *path) {
    if (access(path, F_OK)) return labels_path(path) != NULL;
    if (!vt_is_folder(path)) return vt_ends_in(path, ".npz") || vt_ends_in(path, ".npy");
    for (size_t i = 0; i < KEYS; i++)
        if (has_array(path, NULL, keys[i].images)) return true;
    return has_array(path, NULL, "labels");
}

/* ---- finding the arrays ---- */

/* Maps a .npy file and parses its array, in place. */
static vt_status read_file(vt_npy *out, vt_mapped *map, const char *path, vt_err *e) {
    VT_TRY(vt_mapped_open(map, path, e));
    return vt_npy_parse(out, map->bytes, map->n, path, e);
}

/* Reads NAME.npy of the archive, or of the folder into map[k]. */
static vt_status read_array(vt_npy *out, vt_dataset *d, arrays *a, int k, const char *name, vt_err *e) {
    char file[80], path[VT_PATH_MAX + 100];
    const uint8_t *bytes;
    size_t n;
    snprintf(file, sizeof file, "%s.npy", name);
    snprintf(path, sizeof path, "%.4000s%s%s", d->path, a->zip ? ": " : "/", file);
    if (!a->zip) return read_file(out, &a->map[k], path, e);
    VT_TRY(vt_zip_entry(a->zip, vt_zip_find(a->zip, file), &bytes, &n, e));
    return vt_npy_parse(out, bytes, n, path, e);
}

static vt_status read_images_and_labels(vt_dataset *d, arrays *a, const char *images, const char *labels, vt_err *e) {
    VT_TRY(read_array(&a->images, d, a, 0, images, e));
    return read_array(&a->labels, d, a, 1, labels, e);
}

/* Sets a->images and labels to the arrays of usual names; VT_E_FORMAT with the names that there are, VT_E_USAGE for a
 * folder of corruptions. */
static vt_status find_arrays(vt_dataset *d, arrays *a, vt_err *e) {
    for (size_t k = 0; k < KEYS; k++) {
        if (keys[k].split >= 0 && keys[k].split != (int)d->split) continue;
        if (has_array(d->path, a->zip, keys[k].images) && has_array(d->path, a->zip, keys[k].labels))
            return read_images_and_labels(d, a, keys[k].images, keys[k].labels, e);
    }
    char all[600] = "";
    if (!a->zip && vt_corruptions_text(d->path, all, sizeof all))
        return vt_fail(e, VT_E_USAGE, "%s: is a folder of corruptions: give @corruption, one of %s, or all", d->path,
                       all);
    for (int64_t i = 0; a->zip && i < vt_zip_count(a->zip); i++) {
        const char *name = vt_zip_name(a->zip, i);
        vt_text_item(all, sizeof all, ", ", "%.*s", (int)strcspn(name, "."), name);
    }
    return vt_fail(e, VT_E_FORMAT,
                   "%s: has no arrays named images and labels, x and y, x_%s and y_%s, or arr_0 and arr_1%s%s%s",
                   d->path, vt_split_name(d->split), vt_split_name(d->split), *all ? " (it has: " : "", all,
                   *all ? ")" : "");
}

/* ---- checks ---- */

/* Sets a->step, shape and last, for images [N,C,H,W], or [N,H,W,C] if the channels stand last. */
static void set_layout(arrays *a, bool last) {
    const vt_npy *x = &a->images;
    const int at[4] = {0, last ? 3 : 1, last ? 1 : 2, last ? 2 : 3}; /* image, channel, row, column */
    for (int k = 0; k < 4; k++) a->step[k] = x->stride[at[k]];
    a->shape = (vt_shape){(int)x->shape[at[1]], (int)x->shape[at[2]], (int)x->shape[at[3]]};
    a->last = last;
}

/* Sets the layout (set_layout); VT_E_SHAPE if no side can be the channels, three equal ones, or too large. Until a
 * model is known (npy_expect) a side of three is the channels, else a last side of one, else the first. shape: as
 * text. */
static vt_status check_layout(const vt_dataset *d, arrays *a, const char *shape, vt_err *e) {
    const vt_npy *x = &a->images;
    bool four = x->ndim == 4, first = four && x->shape[1] == 3, last = four && x->shape[3] == 3;
    bool cube = four && x->shape[1] > 1 && x->shape[1] == x->shape[2] && x->shape[2] == x->shape[3];
    if (!four || cube || (first && last))
        return vt_fail(e, VT_E_SHAPE, "%s: its images are %s, must be %s", d->path, shape,
                       !four  ? "[N,C,H,W], [N,H,W,C] or [N,H,W]"
                       : last ? "of other sides than 3: [N,3,H,W] and [N,H,W,3] cannot be told apart"
                              : "of sides that differ: [N,C,H,W] and [N,H,W,C] cannot be told apart");
    for (int k = 1; k < 4; k++)
        if (x->shape[k] < 1 || x->shape[k] > VT_IMAGE_MAX_SIDE)
            return vt_fail(e, VT_E_SHAPE, "%s: its images are %s, sides must be between 1 and %d", d->path, shape,
                           VT_IMAGE_MAX_SIDE);
    if (x->shape[1] * x->shape[2] * x->shape[3] > 3 * (int64_t)VT_IMAGE_MAX_PIXELS)
        return vt_fail(e, VT_E_SHAPE, "%s: its images are %s, must have at most %d values each", d->path, shape,
                       3 * VT_IMAGE_MAX_PIXELS);
    set_layout(a, last || (!first && x->shape[3] == 1));
    return VT_OK;
}

/* Sets the layout, d->count and d->floats. VT_E_SHAPE: the shape is not read, or no five severities; VT_E_FORMAT: the
 * type is not read, or no images. */
static vt_status check_images(vt_dataset *d, arrays *a, vt_err *e) {
    vt_npy *x = &a->images;
    char shape[200];
    vt_shape_text(shape, sizeof shape, x->shape, x->ndim);
    vt_npy_grey(x);
    VT_TRY(check_layout(d, a, shape, e));
    if (x->dtype != VT_U8 && !vt_npy_is_real(x))
        return vt_fail(e, VT_E_FORMAT,
                       "%s: its images are %s, must be uint8, or floats in [0,1]: save x.astype('uint8') if they are 0 "
                       "to 255",
                       d->path, vt_dtype_name(x->dtype));
    d->count = x->shape[0];
    if (*d->corruption.name && d->count % VT_SEVERITIES)
        return vt_fail(e, VT_E_SHAPE, "%s: the images of %s are %s, which are not %d equal parts", d->path,
                       d->corruption.name, shape, VT_SEVERITIES);
    d->floats = x->dtype != VT_U8;
    if (!d->count) return vt_fail(e, VT_E_FORMAT, "%s: has no images (%s)", d->path, shape);
    return VT_OK;
}

/* Returns the label of image i; of a row the place of its 1. -1: a row of other numbers than 0 and a single 1. */
static int64_t label_at(const arrays *a, int64_t i) {
    const vt_npy *y = &a->labels;
    int64_t hit = -1;
    if (!a->columns) return vt_npy_whole(y, (size_t)i * y->stride[0]);
    for (int k = 0; k < a->columns; k++) {
        double v = vt_npy_real(y, (size_t)i * y->stride[0] + (size_t)k * y->stride[1]);
        if (v == 0) continue;
        if (v != 1 || hit >= 0) return -1;
        hit = k;
    }
    return hit;
}

/* Sets a->columns, d->classes and d->said for labels that are rows with a single 1; VT_E_SHAPE: a row is not. shape: as
 * text. */
static vt_status check_one_hot_rows(vt_dataset *d, arrays *a, const char *shape, vt_err *e) {
    a->columns = (int)a->labels.shape[1];
    for (int64_t i = 0; i < d->count; i++)
        if (label_at(a, i) < 0)
            return vt_fail(e, VT_E_SHAPE,
                           "%s: its labels are %s, and row %lld is not one 1 among zeros: with one class for each "
                           "image, save y.argmax(1)",
                           d->path, shape, (long long)i);
    vt_text_item(d->said, sizeof d->said, "; ", "labels %s are rows with a single 1, whose place is the class", shape);
    d->classes = a->columns;
    return VT_OK;
}

/* Sets d->classes, classes_open and a->columns; VT_E_SHAPE, VT_E_FORMAT or VT_E_RANGE unless labels are one class for
 * each image. */
static vt_status check_labels(vt_dataset *d, arrays *a, vt_err *e) {
    const vt_npy *y = &a->labels;
    char shape[200];
    vt_shape_text(shape, sizeof shape, y->shape, y->ndim);
    bool flat = y->ndim == 1 || (y->ndim == 2 && y->shape[1] == 1), rows = y->ndim == 2 && y->shape[1] > 1;
    if ((!flat && !rows) || y->shape[0] != d->count || (rows && y->shape[1] > MAX_CLASSES))
        return vt_fail(e, VT_E_SHAPE, "%s: its labels are %s, must be [%lld], one for each image", d->path, shape,
                       (long long)d->count);
    if (rows) return check_one_hot_rows(d, a, shape, e);
    if (vt_npy_is_real(y))
        return vt_fail(e, VT_E_FORMAT, "%s: its labels are %s, must be whole numbers: save y.astype('int64')", d->path,
                       vt_dtype_name(y->dtype));
    for (int64_t i = 0; i < d->count; i++) {
        int64_t label = label_at(a, i);
        if (label < 0 || label >= MAX_CLASSES)
            return vt_fail(e, VT_E_RANGE, "%s: label %lld of image %lld is not between 0 and %d", d->path,
                           (long long)label, (long long)i, MAX_CLASSES - 1);
        if (label >= d->classes) d->classes = (int)label + 1;
    }
    d->classes_open = true;
    return VT_OK;
}

/* Sets d->classes by classes.npy, a single whole number, if there is one, and then clears classes_open. VT_E_RANGE:
 * less than the labels need. */
static vt_status read_classes(vt_dataset *d, arrays *a, vt_err *e) {
    vt_npy c;
    if (!has_array(d->path, a->zip, "classes")) return VT_OK;
    VT_TRY(read_array(&c, d, a, 2, "classes", e));
    int64_t k = c.numel == 1 && !vt_npy_is_real(&c) ? vt_npy_whole(&c, 0) : -1;
    if (k < d->classes || k > MAX_CLASSES)
        return vt_fail(e, VT_E_RANGE,
                       "%s%sclasses.npy: must be one whole number between %d (the largest label and one) and %d",
                       d->path, a->zip ? ": " : "/", d->classes, MAX_CLASSES);
    d->classes = (int)k, d->classes_open = false;
    return VT_OK;
}

/* ---- pixels ---- */

/* Returns the index in the array of image i's value at channel, row and column. */
static size_t item_at(const arrays *a, int64_t i, const size_t at[3]) {
    return (size_t)(a->first + i) * a->step[0] + at[0] * a->step[1] + at[1] * a->step[2] + at[2] * a->step[3];
}

/* Moves `at` (channel, row, column) to the image's next value, columns first; false: there is none. */
static bool next_place(const arrays *a, size_t at[3]) {
    if (++at[2] == (size_t)a->shape.width) at[2] = 0, at[1]++;
    if (at[1] == (size_t)a->shape.height) at[1] = 0, at[0]++;
    return at[0] < (size_t)a->shape.channels;
}

/* Returns what to do with values outside [0,1], by the range of this image. */
static const char *suggest_conversion(const arrays *a, int64_t i) {
    double low = INFINITY, high = -INFINITY;
    size_t at[3] = {0};
    do {
        double v = vt_npy_real(&a->images, item_at(a, i, at));
        low = fmin(low, v), high = fmax(high, v);
    } while (next_place(a, at));
    if (low >= 0 && high > 2 && high <= 255) return ": they look like 0 to 255, save x.astype('uint8')";
    if (low >= -1 && high <= 1) return ": they look like -1 to 1, save (x + 1) / 2";
    return isfinite(low + high) && low >= -10 && high <= 10
               ? ": they look normalised, save the images before that, the model has its own mean and std"
               : "";
}

/* Writes image i as planes [channels,height,width]: to rgb if the file has bytes, else to f (NULL: only checks it).
 * VT_E_RANGE: a float outside [0,1]. */
static vt_status read_pixels(const vt_dataset *d, int64_t i, uint8_t *rgb, float *f, vt_err *e) {
    const arrays *a = d->state;
    size_t at[3] = {0};
    do {
        size_t k = item_at(a, i, at);
        if (!d->floats) {
            *rgb++ = a->images.data[k];
            continue;
        }
        double v = vt_npy_real(&a->images, k);
        if (!(v >= 0 && v <= 1))
            return vt_fail(e, VT_E_RANGE,
                           "%s: image %lld has the value %.17g at channel %zu, row %zu, column %zu; floats must lie in "
                           "[0,1]%s",
                           d->path, (long long)i, v, at[0], at[1], at[2], suggest_conversion(a, i));
        if (f) *f++ = (float)v; /* rounds f8, nothing else */
    } while (next_place(a, at));
    return VT_OK;
}

/* Adds the severity alone to the hash, as records of label and pixels: the file of all is five times as long, and a run
 * is of one. Floats are checked (read_pixels). */
static vt_status hash_severity(vt_dataset *d, const arrays *a, vt_sha *sha, vt_err *e) {
    size_t n = vt_shape_values(a->shape), size = d->floats ? n * sizeof(float) : n;
    void *image = malloc(size);
    if (!image) return vt_fail(e, VT_E_MEMORY, "%s: no memory for an image", d->path);
    vt_status s = VT_OK;
    for (int64_t i = 0; i < d->count && s == VT_OK; i++) {
        uint8_t label = (uint8_t)label_at(a, a->first + i);
        s = read_pixels(d, i, d->floats ? NULL : image, d->floats ? image : NULL, e);
        vt_sha_update(sha, &label, 1);
        vt_sha_update(sha, image, size);
    }
    free(image);
    return s;
}

/* Sets a->images and labels: of a corruption, of two files, of an archive or of a folder; VT_E_USAGE: one array
 * alone. */
static vt_status read_arrays(vt_dataset *d, arrays *a, vt_err *e) {
    char first[VT_PATH_MAX];
    const char *second = access(d->path, F_OK) ? labels_path(d->path) : NULL;
    if (*d->corruption.name) {
        VT_TRY(vt_corruption_check(d, e));
        return read_images_and_labels(d, a, d->corruption.name, "labels", e);
    }
    if (second) {
        snprintf(first, sizeof first, "%.*s", (int)(second - 1 - d->path), d->path);
        VT_TRY(read_file(&a->images, &a->map[0], first, e));
        return read_file(&a->labels, &a->map[1], second, e);
    }
    if (vt_ends_in(d->path, ".npy"))
        return vt_fail(e, VT_E_USAGE, "%s: is one array: name the images and the labels, as in @data x.npy,y.npy",
                       d->path);
    if (!vt_is_folder(d->path)) {
        VT_TRY(vt_mapped_open(&a->map[0], d->path, e));
        VT_TRY(vt_zip_open(&a->zip, a->map[0].bytes, a->map[0].n, d->path, e));
    }
    return find_arrays(d, a, e);
}

/* Opens the arrays, checks and hashes them (vt_dataset_def.open). */
static vt_status npy_open(vt_dataset *d, vt_err *e) {
    arrays *a = d->state;
    VT_TRY(read_arrays(d, a, e));
    VT_TRY(check_images(d, a, e));
    VT_TRY(check_labels(d, a, e));
    VT_TRY(read_classes(d, a, e));
    if (*d->corruption.name) {
        d->count /= VT_SEVERITIES;
        a->first = (d->corruption.severity - 1) * d->count;
    }
    for (int64_t i = 0; d->floats && i < d->count; i++) VT_TRY(read_pixels(d, i, NULL, NULL, e));
    vt_sha sha;
    vt_sha_begin(&sha);
    if (*d->corruption.name) VT_TRY(hash_severity(d, a, &sha, e));
    for (int k = 0; k < 2 && !*d->corruption.name; k++) vt_mapped_hash(&a->map[k], 0, &sha);
    vt_sha_end(&sha, d->hash);
    return VT_OK;
}

/* Makes image i, bytes or floats as the file has them. */
static vt_status npy_read(const vt_dataset *d, int64_t i, vt_image *im, int *label, vt_err *e) {
    const arrays *a = d->state;
    if (!d->floats) VT_TRY(vt_image_make(im, a->shape, d->path, e));
    if (d->floats) *im = (vt_image){.shape = a->shape, .f = malloc(vt_shape_values(a->shape) * sizeof *im->f)};
    if (d->floats && !im->f) return vt_fail(e, VT_E_MEMORY, "%s: no memory for an image", d->path);
    *label = (int)label_at(a, a->first + i);
    vt_status s = read_pixels(d, i, im->rgb, im->f, e);
    if (s != VT_OK) vt_image_free(im);
    return s;
}

/* Turns channels first into last, or back, if that gives images of shape `want`. */
static void npy_expect(vt_dataset *d, vt_shape want) {
    arrays *a = d->state;
    if (vt_shape_same(a->shape, want)) return;
    set_layout(a, !a->last);
    if (!vt_shape_same(a->shape, want)) set_layout(a, !a->last);
}

static void npy_close(vt_dataset *d) {
    arrays *a = d->state;
    vt_zip_close(a->zip);
    for (int k = 0; k < 3; k++) vt_mapped_close(&a->map[k]);
}

const vt_dataset_def vt_dataset_def_npy = {
    .name = "npy",
    .summary = "NumPy archive .npz, two files x.npy,y.npy, a folder with images.npy and labels.npy, or CIFAR-10-C",
    .probe = npy_probe,
    .state = sizeof(arrays),
    .corruptions = true,
    .open = npy_open,
    .read = npy_read,
    .expect = npy_expect,
    .close = npy_close,
};
