/* The registry of image sources and what all of them share. */
#include "io/dataset.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "io/imagenet.h"

#define VT_WHAT 400

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
    VT_TRY(d->def->read(d, i, im, label, e));
    if (d->head && !d->restricted) *label = d->head[*label];
    return VT_OK;
}

/* "PATH: image 3 (n01440764/x.JPEG)"; returns what */
static const char *describe(const vt_dataset *d, int64_t i, char what[VT_WHAT]) {
    const char *name = vt_dataset_image_name(d, i);
    snprintf(what, VT_WHAT, "%s: image %lld%s%s%s", d->path, (long long)i, name ? " (" : "", name ? name : "",
             name ? ")" : "");
    return what;
}

vt_status vt_dataset_read_square(const vt_dataset *d, int64_t i, int side, vt_image *im, int *label, vt_err *e) {
    char what[VT_WHAT];
    VT_TRY(vt_dataset_read(d, i, im, label, e));
    int w = im->width, h = im->height;
    vt_status s = vt_transform_apply(im, &d->transform, describe(d, i, what), e);
    if (s == VT_OK && im->width == side && im->height == side) return VT_OK;
    bool done = !vt_transform_is_none(&d->transform);
    if (s == VT_OK && done)
        s = vt_fail(e, VT_E_SHAPE, "%s is %d x %d pixels, preprocessing makes it %d x %d, the model wants %d x %d",
                    what, w, h, im->width, im->height, side, side);
    if (s == VT_OK)
        s = vt_fail(e, VT_E_SHAPE,
                    "%s is %d x %d pixels, the model wants %d x %d (--preprocess short:%d,bicubic,crop:%d would make "
                    "it so%s)",
                    what, w, h, side, side, (int)(side / 0.875), side,
                    w == h ? "; with --attack-at native the model resizes it itself" : "");
    vt_image_free(im);
    return s;
}

const char *vt_dataset_image_name(const vt_dataset *d, int64_t i) { return d->def->file ? d->def->file(d, i) : NULL; }

vt_status vt_dataset_fit_head(vt_dataset *d, int outputs, bool restricted, const char *model, vt_err *e) {
    free(d->head);
    d->head = NULL, d->restricted = false;
    if (d->classes_open && d->classes < outputs) d->classes = outputs;
    if (d->classes == outputs) return VT_OK;
    bool imagenet = outputs == VT_IMAGENET_CLASSES && d->names;
    for (int k = 0; imagenet && k < d->classes; k++) imagenet = vt_imagenet_index(d->names[k]) >= 0;
    if (!imagenet)
        return vt_fail(e, VT_E_SHAPE, "%s has %d classes, but the model %s has %d%s", d->path, d->classes, model,
                       outputs,
                       outputs == VT_IMAGENET_CLASSES && d->names
                           ? " (and its folders are not named by ImageNet's wnids)"
                           : "");
    if (restricted && d->classes < 2)
        return vt_fail(e, VT_E_USAGE, "%s has one class: restricted to it, every image would be right", d->path);
    if (!(d->head = calloc((size_t)d->classes, sizeof *d->head)))
        return vt_fail(e, VT_E_MEMORY, "%s: no memory for its classes", d->path);
    for (int k = 0; k < d->classes; k++) d->head[k] = vt_imagenet_index(d->names[k]);
    d->restricted = restricted;
    return VT_OK;
}

void vt_dataset_close(vt_dataset *d) {
    if (!d) return;
    d->def->close(d); /* also after a failed open: state may be NULL */
    free(d->head);
    free(d->path);
    free(d);
}
