/* SPDX-License-Identifier: MIT */
/* Which images of a split a text stands for, and of how many classes they are. */
#include "data/dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/files.h"
#include "base/mem.h"
#include "base/opt.h"

enum { LIST_MOST = 1 << 26 }; /* bytes of a list of images */

/* For qsort: ascending numbers. */
static int compare_int32(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

bool vt_image_range(const char *text, long long *first, long long *end) {
    char a[32];
    const char *colon = strchr(text, ':');
    if (!colon || colon - text >= (int)sizeof a) return false;
    snprintf(a, sizeof a, "%.*s", (int)(colon - text), text);
    return vt_parse_int(a, first) && vt_parse_int(colon + 1, end);
}

/* Sets *out [*n] to the images A to B - 1 of a text "A:B"; VT_E_USAGE: no such text, or not all in the split. */
static vt_status list_range(const char *text, const vt_dataset *d, int32_t **out, size_t *n, vt_err *e) {
    long long first, end;
    if (!vt_image_range(text, &first, &end))
        return vt_fail(e, VT_E_USAGE,
                       "@images is '%s', must be A:B with whole numbers, spread:N, or a file with one image a line",
                       text);
    if (first < 0 || end <= first)
        return vt_fail(e, VT_E_USAGE, "@images is '%s': A must be at least 0 and below B (images A to B-1)", text);
    if (end > d->count)
        return vt_fail(e, VT_E_USAGE, "@images is '%s', but %s has %lld images in its %s split", text, d->path,
                       (long long)d->count, vt_split_name(d->split));
    *n = (size_t)(end - first);
    *out = calloc(*n, sizeof **out);
    if (!*out) return vt_fail(e, VT_E_MEMORY, "no memory for %zu images", *n);
    for (size_t i = 0; i < *n; i++) (*out)[i] = (int32_t)(first + (long long)i);
    return VT_OK;
}

/* ---- N images, evenly over the classes ---- */

/* Sets class_of to the class of every image of d, and have to how many each of the *classes has; both to be freed, also
 * after a failure to read. */
static vt_status count_classes(const vt_dataset *d, int **class_of, int64_t **have, int *classes, vt_err *e) {
    vt_image im;
    *classes = 0;
    *class_of = calloc((size_t)d->count, sizeof **class_of);
    for (int64_t i = 0; *class_of && i < d->count; i++) {
        int *c = *class_of + i;
        if (d->def->class_of) {
            *c = d->def->class_of(d, i);
        } else {
            VT_TRY(vt_dataset_read(d, i, &im, c, e));
            vt_image_free(&im);
        }
        if (*c >= *classes) *classes = *c + 1;
    }
    *have = calloc((size_t)*classes + 1, sizeof **have);
    if (!*class_of || !*have) return vt_fail(e, VT_E_MEMORY, "%s: no memory for its classes", d->path);
    for (int64_t i = 0; i < d->count; i++) (*have)[(*class_of)[i]]++;
    return VT_OK;
}

/* Adds to take[c], all 0, the images to take of each class, n together: rounds of one image for each class that has
 * more; a last round with too few images for all serves evenly spaced classes. */
static void share_among_classes(int64_t *take, const int64_t *have, int classes, int64_t n) {
    for (int64_t left = n, open = 1; left && open;) {
        open = 0;
        for (int c = 0; c < classes; c++) open += take[c] < have[c];
        int64_t now = left < open ? left : open, at = 0, given = 0;
        for (int c = 0; c < classes; c++) {
            if (take[c] >= have[c]) continue;
            if (given < now && at == given * open / now) take[c]++, given++;
            at++;
        }
        left -= given;
    }
}

/* Writes to out the images to use: take[c] of the have[c] of each class, evenly spaced. seen [classes]: zeros. */
static void pick_images_evenly(int32_t *out, const vt_dataset *d, const int *class_of, const int64_t *have,
                               const int64_t *take, int64_t *seen) {
    for (int64_t i = 0; i < d->count; i++) {
        int c = class_of[i];
        int64_t k = seen[c]++;
        if (take[c] && (k + 1) * take[c] / have[c] > k * take[c] / have[c]) *out++ = (int32_t)i;
    }
}

/* Sets *out [*n] to N images of a text "spread:N", evenly over the classes; VT_E_USAGE: no such text, or too many. */
static vt_status list_spread(const char *text, const vt_dataset *d, int32_t **out, size_t *n, vt_err *e) {
    long long want;
    if (!vt_parse_int(text + strlen(VT_IMAGES_SPREAD), &want) || want < 1 || want > d->count)
        return vt_fail(e, VT_E_USAGE, "@images is '%s', must be spread:N with N from 1 to %lld, the images of %s", text,
                       (long long)d->count, d->path);
    int *class_of = NULL, classes;
    int64_t *have = NULL, *take = NULL;
    vt_status s = count_classes(d, &class_of, &have, &classes, e);
    if (s == VT_OK) take = calloc((size_t)classes * 2 + 1, sizeof *take);
    if (s == VT_OK && (!take || !(*out = calloc((size_t)want, sizeof **out))))
        s = vt_fail(e, VT_E_MEMORY, "no memory for %lld images", want);
    if (s == VT_OK) {
        *n = (size_t)want;
        share_among_classes(take, have, classes, want);
        pick_images_evenly(*out, d, class_of, have, take, take + classes);
    }
    free(class_of), free(have), free(take);
    return s;
}

int vt_image_classes(const vt_dataset *d, const int32_t *images, size_t n, int *all) {
    bool *seen = d->def->class_of ? calloc((size_t)d->classes + 1, 2 * sizeof *seen) : NULL;
    int hit = 0;
    *all = 0;
    for (int64_t i = 0; seen && i < d->count; i++) seen[d->def->class_of(d, i)] = true;
    for (int c = 0; seen && c < d->classes; c++) *all += seen[c];
    for (size_t i = 0; seen && i < n; i++) {
        bool *now = seen + d->classes + d->def->class_of(d, images[i]);
        hit += !*now;
        *now = true;
    }
    free(seen);
    return hit;
}

bool vt_image_classes_text(const vt_dataset *d, const int32_t *images, size_t n, char *out, size_t size) {
    int all, hit = vt_image_classes(d, images, n, &all);
    snprintf(out, size, "these %zu images hold %d of %d classes (%s spread:%zu takes them from all)", n, hit, all,
             vt_argument("images"), n);
    return hit < all && n > 1;
}

/* ---- a file ---- */

typedef struct place {
    const char *path; /* below the split, or its last part alone */
    int32_t image;
} place;

/* For qsort and bsearch: by path, byte by byte. */
static int compare_paths(const void *a, const void *b) {
    return strcmp(((const place *)a)->path, ((const place *)b)->path);
}

/* Sets p->sorted[alone] to all images by path, or (alone) by the path's last part. */
static vt_status sort_places(vt_image_paths *p, bool alone, vt_err *e) {
    const vt_dataset *d = p->d;
    place *all = calloc((size_t)d->count, sizeof *all);
    if (!all) return vt_fail(e, VT_E_MEMORY, "%s: no memory for the paths of its images", d->path);
    for (int64_t i = 0; i < d->count; i++) {
        const char *path = vt_dataset_image_name(d, i);
        all[i] = (place){alone ? basename(path) : path, (int32_t)i};
    }
    qsort(all, (size_t)d->count, sizeof *all, compare_paths);
    p->sorted[alone] = all;
    return VT_OK;
}

vt_status vt_image_find(vt_image_paths *p, const char *text, int64_t *image, vt_err *e) {
    size_t n = (size_t)p->d->count;
    bool alone = !strchr(text, '/');
    *image = -1;
    if (!p->d->def->file) return VT_OK;
    if (!p->sorted[alone]) VT_TRY(sort_places(p, alone, e));
    const place *all = p->sorted[alone];
    for (const char *rest = text; rest && (alone || strchr(rest, '/')); rest = alone ? NULL : strchr(rest, '/')) {
        rest += *rest == '/';
        const place key = {rest, 0}, *hit = bsearch(&key, all, n, sizeof key, compare_paths);
        if (!hit) continue;
        bool twice = (hit > all && !compare_paths(hit - 1, hit)) || (hit < all + n - 1 && !compare_paths(hit, hit + 1));
        if (!twice) *image = hit->image;
        return VT_OK;
    }
    return VT_OK;
}

void vt_image_paths_free(vt_image_paths *p) { free(p->sorted[0]), free(p->sorted[1]); }

typedef struct list {
    const char *path;
    const vt_dataset *d;
    vt_image_paths paths;
    int32_t *image; /* [n] */
    size_t n;
} list;

/* Appends to l the image that a line of a file names, by index or path; VT_E_FORMAT or VT_E_USAGE: there is none. */
static vt_status add_image_line(list *l, int line, const char *text, vt_err *e) {
    long long v;
    int64_t image = -1;
    const vt_dataset *d = l->d;
    bool index = vt_parse_int(text, &v);
    if (!index) VT_TRY(vt_image_find(&l->paths, text, &image, e));
    if (!index && image < 0 && (!d->def->file || (!strchr(text, '/') && !strchr(text, '.'))))
        return vt_fail(e, VT_E_FORMAT, "%s: line %d is '%.40s', which is not an image index", l->path, line, text);
    if (!index && image < 0)
        return vt_fail(e, VT_E_USAGE, "%s: line %d is '%.200s', which is no image of the %s split of %s", l->path, line,
                       text, vt_split_name(d->split), d->path);
    if (index && (v < 0 || v >= d->count))
        return vt_fail(e, VT_E_USAGE, "%s: line %d is image %lld, but %s has images 0 to %lld", l->path, line, v,
                       d->path, (long long)d->count - 1);
    if (!vt_grow(&l->image, l->n, sizeof *l->image))
        return vt_fail(e, VT_E_MEMORY, "%s: no memory for %zu indices", l->path, 2 * l->n);
    l->image[l->n++] = (int32_t)(index ? v : image);
    return VT_OK;
}

/* Sets *out [*n] to the images that a file names, one a line, ascending; VT_E_USAGE: no such file, none, or one twice.
 * *out is to be freed also after a failure. */
static vt_status list_from_file(const char *path, const vt_dataset *d, int32_t **out, size_t *n, vt_err *e) {
    char *text;
    list l = {.path = path, .d = d, .paths = {.d = d}};
    vt_err why = {0};
    vt_status s = vt_file_text(path, LIST_MOST, &text, &why);
    if (s == VT_E_FORMAT || s == VT_E_MEMORY) return vt_fail(e, s, "%s", why.text);
    if (s != VT_OK)
        return vt_fail(e, VT_E_USAGE, "@images is '%s', which is neither A:B nor a readable file (%s)", path, why.text);
    char *rest = text, *start;
    for (int line = 1; s == VT_OK && (start = strsep(&rest, "\n")); line++) {
        start += strspn(start, " \t\r");
        char *end = start + strlen(start);
        while (end > start && strchr(" \t\r", end[-1])) *--end = 0;
        if (*start && *start != '#') s = add_image_line(&l, line, start, e);
    }
    free(text), vt_image_paths_free(&l.paths);
    *out = l.image, *n = l.n;
    if (s == VT_OK && !*n) s = vt_fail(e, VT_E_USAGE, "%s: holds no image index", path);
    if (s != VT_OK) return s;
    qsort(*out, *n, sizeof **out, compare_int32);
    for (size_t i = 1; i < *n; i++)
        if ((*out)[i] == (*out)[i - 1]) return vt_fail(e, VT_E_USAGE, "%s: image %d is listed twice", path, (*out)[i]);
    return VT_OK;
}

/* Sets *out to the images that make up Imagenette's first validation set, those of ImageNet's own, and adds to *n, 0,
 * their number; VT_E_USAGE: there are none. */
static vt_status list_imagenette_v1(const vt_dataset *d, int32_t **out, size_t *n, vt_err *e) {
    int64_t count = vt_imagenet_val_count(d);
    if (count <= 0)
        return vt_fail(e, VT_E_USAGE,
                       "@images is imagenette-v1, but %s holds no ILSVRC2012_val_* pictures in folders named by wnids",
                       d->path);
    *out = calloc((size_t)count, sizeof **out);
    if (!*out) return vt_fail(e, VT_E_MEMORY, "no memory for %lld images", (long long)count);
    for (int64_t i = 0; i < d->count; i++)
        if (vt_imagenet_is_val(vt_dataset_image_name(d, i))) (*out)[(*n)++] = (int32_t)i;
    return VT_OK;
}

vt_status vt_image_list(int32_t **out, size_t *n, const char *text, const vt_dataset *d, vt_err *e) {
    char all[48];
    *out = NULL, *n = 0;
    if (d->count > INT32_MAX)
        return vt_fail(e, VT_E_RANGE, "%s has %lld images, more than 2^31", d->path, (long long)d->count);
    if (text && !strcmp(text, VT_IMAGENETTE_V1)) return list_imagenette_v1(d, out, n, e);
    if (!text) {
        snprintf(all, sizeof all, "0:%lld", (long long)d->count);
        text = all;
    }
    if (!strncmp(text, VT_IMAGES_SPREAD, strlen(VT_IMAGES_SPREAD))) return list_spread(text, d, out, n, e);
    const char *colon = strchr(text, ':');
    bool range = colon && strspn(text, "+-0123456789:") == strlen(text);
    bool file = !range && access(text, F_OK) == 0;
    vt_status s = colon && !file ? list_range(text, d, out, n, e) : list_from_file(text, d, out, n, e);
    if (s != VT_OK) {
        free(*out);
        *out = NULL;
    }
    return s;
}
