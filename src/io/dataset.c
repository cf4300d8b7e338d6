/* The registry of image sources and what all of them share. */
#include "io/dataset.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define VT_PLUGIN(name) extern const vt_dataset_def vt_dataset_def_##name;
#include "datasets.inc"
#undef VT_PLUGIN

const vt_dataset_def *const *vt_dataset_defs(int *n) {
    static const vt_dataset_def *const defs[] = {
#define VT_PLUGIN(name) &vt_dataset_def_##name,
#include "datasets.inc"
#undef VT_PLUGIN
    };
    *n = (int)(sizeof defs / sizeof *defs);
    return defs;
}

const char *vt_split_name(vt_split s) { return s == VT_SPLIT_TRAIN ? "train" : "test"; }

static vt_status no_format(const char *path, vt_err *e) {
    char list[400];
    size_t at = 0;
    int n;
    const vt_dataset_def *const *defs = vt_dataset_defs(&n);
    for (int i = 0; i < n && at < sizeof list; i++)
        at +=
            (size_t)snprintf(list + at, sizeof list - at, "%s%s (%s)", i ? ", " : "", defs[i]->name, defs[i]->summary);
    return vt_fail(e, VT_E_FORMAT, "%s: is not a data set of a known format: %s", path, list);
}

vt_status vt_dataset_open(vt_dataset **out, const char *path, vt_split split, vt_err *e) {
    struct stat s;
    int n;
    const vt_dataset_def *const *defs = vt_dataset_defs(&n), *def = NULL;
    *out = NULL;
    if (stat(path, &s)) return vt_fail(e, VT_E_IO, "%s: cannot be opened: %s", path, strerror(errno));
    for (int i = 0; i < n && !def; i++)
        if (defs[i]->probe(path)) def = defs[i];
    if (!def) return no_format(path, e);
    vt_dataset *d = calloc(1, sizeof *d);
    if (!d || !(d->path = strdup(path))) {
        free(d);
        return vt_fail(e, VT_E_MEMORY, "%s: no memory to open it", path);
    }
    d->def = def;
    d->split = split;
    vt_status r = def->open(d, e);
    if (r != VT_OK) return vt_dataset_close(d), r;
    *out = d;
    return VT_OK;
}

vt_status vt_dataset_read(const vt_dataset *d, int64_t i, vt_image *im, int *label, vt_err *e) {
    *im = (vt_image){0};
    if (i < 0 || i >= d->count)
        return vt_fail(e, VT_E_RANGE, "%s: image %lld is asked for, but the %s split has images 0 to %lld", d->path,
                       (long long)i, vt_split_name(d->split), (long long)d->count - 1);
    return d->def->read(d, i, im, label, e);
}

vt_status vt_dataset_read_square(const vt_dataset *d, int64_t i, int side, vt_image *im, int *label, vt_err *e) {
    VT_TRY(vt_dataset_read(d, i, im, label, e));
    if (im->width == side && im->height == side) return VT_OK;
    vt_status s = vt_fail(e, VT_E_SHAPE, "%s: image %lld is %d x %d pixels, the model wants %d x %d", d->path,
                          (long long)i, im->width, im->height, side, side);
    vt_image_free(im);
    return s;
}

void vt_dataset_close(vt_dataset *d) {
    if (!d) return;
    d->def->close(d); /* also after a failed open: state may be NULL */
    free(d->path);
    free(d);
}
