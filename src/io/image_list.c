/* SPDX-License-Identifier: MIT */
#include "io/image_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/files.h"
#include "core/opt.h"
#include "io/imagenet.h"

enum { LIST_MOST = 1 << 26 }; /* bytes of a list of images */

static int ascending(const void *a, const void *b) {
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

static vt_status from_range(const char *text, const vt_dataset *d, int32_t **out, size_t *n, vt_err *e) {
    long long first, end;
    if (!vt_image_range(text, &first, &end))
        return vt_fail(e, VT_E_USAGE,
                       "--images is '%s', must be A:B with whole numbers, or a file with one index a line", text);
    if (first < 0 || end <= first)
        return vt_fail(e, VT_E_USAGE, "--images is '%s': A must be at least 0 and below B (images A to B-1)", text);
    if (end > d->count)
        return vt_fail(e, VT_E_USAGE, "--images is '%s', but %s has %lld images in its %s split", text, d->path,
                       (long long)d->count, vt_split_name(d->split));
    *n = (size_t)(end - first);
    *out = calloc(*n, sizeof **out);
    if (!*out) return vt_fail(e, VT_E_MEMORY, "no memory for %zu images", *n);
    for (size_t i = 0; i < *n; i++) (*out)[i] = (int32_t)(first + (long long)i);
    return VT_OK;
}

static vt_status add_index(const char *path, int line, const char *text, const vt_dataset *d, int32_t **out, size_t *n,
                           size_t *cap, vt_err *e) {
    long long v;
    if (!vt_parse_int(text, &v))
        return vt_fail(e, VT_E_FORMAT, "%s: line %d is '%.40s', which is not an image index", path, line, text);
    if (v < 0 || v >= d->count)
        return vt_fail(e, VT_E_USAGE, "%s: line %d is image %lld, but %s has images 0 to %lld", path, line, v, d->path,
                       (long long)d->count - 1);
    if (*n == *cap) {
        *cap = *cap ? 2 * *cap : 256;
        int32_t *more = realloc(*out, *cap * sizeof **out);
        if (!more) return vt_fail(e, VT_E_MEMORY, "%s: no memory for %zu indices", path, *cap);
        *out = more;
    }
    (*out)[(*n)++] = (int32_t)v;
    return VT_OK;
}

static vt_status from_file(const char *path, const vt_dataset *d, int32_t **out, size_t *n, vt_err *e) {
    char *text;
    size_t cap = 0;
    vt_err why = {0};
    vt_status s = vt_file_text(path, LIST_MOST, &text, &why);
    if (s == VT_E_FORMAT) return vt_fail(e, s, "%s", why.text);
    if (s != VT_OK)
        return vt_fail(e, VT_E_USAGE, "--images is '%s', which is neither A:B nor a readable file (%s)", path,
                       why.text);
    char *rest = text, *start;
    for (int line = 1; s == VT_OK && (start = strsep(&rest, "\n")); line++) {
        start += strspn(start, " \t\r");
        char *end = start + strlen(start);
        while (end > start && strchr(" \t\r", end[-1])) *--end = 0;
        if (*start && *start != '#') s = add_index(path, line, start, d, out, n, &cap, e);
    }
    free(text);
    if (s == VT_OK && !*n) s = vt_fail(e, VT_E_USAGE, "%s: holds no image index", path);
    if (s != VT_OK) return s;
    qsort(*out, *n, sizeof **out, ascending);
    for (size_t i = 1; i < *n; i++)
        if ((*out)[i] == (*out)[i - 1]) return vt_fail(e, VT_E_USAGE, "%s: image %d is listed twice", path, (*out)[i]);
    return VT_OK;
}

/* The images that make up Imagenette's first validation set: those of ImageNet's own. */
static vt_status from_imagenet(const vt_dataset *d, int32_t **out, size_t *n, vt_err *e) {
    int64_t count = vt_imagenet_val_count(d);
    if (count <= 0)
        return vt_fail(e, VT_E_USAGE,
                       "--images is imagenette-v1, but %s holds no ILSVRC2012_val_* pictures in folders named by wnids",
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
    if (text && !strcmp(text, VT_IMAGENETTE_V1)) return from_imagenet(d, out, n, e);
    if (!text) {
        snprintf(all, sizeof all, "0:%lld", (long long)d->count);
        text = all;
    }
    const char *colon = strchr(text, ':');
    bool range = colon && strspn(text, "+-0123456789:") == strlen(text);
    bool file = !range && access(text, F_OK) == 0;
    vt_status s = colon && !file ? from_range(text, d, out, n, e) : from_file(text, d, out, n, e);
    if (s != VT_OK) {
        free(*out);
        *out = NULL;
    }
    return s;
}
