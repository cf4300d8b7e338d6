/* SPDX-License-Identifier: MIT */
/* The registry of image sources and what all of them share. */
#include "data/dataset.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include "base/opt.h"
#include "base/text.h"
#include "tensors/tensors.h"

#define VT_WHAT 400

#define VT_KIND vt_dataset_def
#define VT_KIND_NAME(x) vt_dataset_def_##x
#define VT_KIND_LIST "datasets.inc"
#define VT_KIND_DEFS vt_dataset_defs
#include "base/registry.inc"

/* Writes `folder`/`name` into buf if there is such a file; false: too long, or not there. */
static bool join_existing_path(char buf[VT_PATH_MAX], const char *folder, const char *name) {
    return vt_path(buf, folder, name) && !access(buf, F_OK);
}

/* Returns the format that recognises the path; NULL: none, or no memory to look (errno ENOMEM). */
static const vt_dataset_def *find_def(const char *path) {
    errno = 0;
    for (int i = 0; i < COUNT && errno != ENOMEM; i++)
        if (defs[i]->probe(path)) return defs[i];
    return NULL;
}

/* ---- what was given instead of a data set ---- */

/* Writes the name of an archive or packed file in a folder; false: there is none. */
static bool find_packed(const char *path, char name[256]) {
    static const char *const ends[] = {".tar.gz", ".tgz", ".tar", ".zip", ".tar.xz", ".gz"};
    DIR *dir = opendir(path);
    bool found = false;
    for (struct dirent *d; dir && !found && (d = readdir(dir));)
        for (size_t i = 0; i < sizeof ends / sizeof *ends && !found; i++)
            if ((found = vt_ends_in(d->d_name, ends[i]))) snprintf(name, 256, "%s", d->d_name);
    if (dir) closedir(dir);
    return found;
}

/* Fails with VT_E_FORMAT: the path is no data set, with what it is instead, if that is known. */
static vt_status refuse_format(const char *path, vt_err *e) {
    char list[600] = "", name[256];
    uint8_t bytes[512];
    size_t n = vt_is_folder(path) ? 0 : vt_file_start(path, bytes, sizeof bytes);
    const char *kind = vt_unsupported_file(bytes, n);
    if (kind) return vt_fail(e, VT_E_FORMAT, "%s: is %s", path, kind);
    if (vt_is_folder(path) && find_packed(path, name))
        return vt_fail(e, VT_E_FORMAT, "%s: holds no images, but %.120s: unpack it there", path, name);
    for (int i = 0; i < COUNT; i++) vt_text_item(list, sizeof list, ", ", "%s (%s)", defs[i]->name, defs[i]->summary);
    return vt_fail(e, VT_E_FORMAT, "%s: is not a data set of a known format: %s", path, list);
}

/* Fails with VT_E_IO by errno for a path that does not exist; for CIFAR, says where to get it. */
static vt_status refuse_missing(const char *path, vt_err *e) {
    bool cifar = !strncasecmp(basename(path), "cifar", 5);
    return vt_fail(e, VT_E_IO, "%s: cannot be opened: %s%s", path, strerror(errno),
                   cifar ? " (" VT_CIFAR_URL " has cifar-10-python.tar.gz and cifar-10-binary.tar.gz: unpack one)"
                         : "");
}

/* Returns whether path is a data set of a format recognised by its files, or a folder with split folders. */
static bool looks_like_set(const char *path) {
    const vt_dataset_def *def = find_def(path);
    if (def && strcmp(def->name, "folder")) return true;
    vt_folders f;
    bool split = vt_folders_list(&f, path, NULL) == VT_OK && vt_folders_splits(&f);
    vt_folders_free(&f);
    return split;
}

int vt_dataset_inside(const char *path, char *list, size_t size) {
    vt_folders f;
    char buf[VT_PATH_MAX];
    int found = 0;
    *list = 0;
    vt_folders_list(&f, path, NULL);
    for (int i = 0; i < f.n; i++) {
        if (!vt_path(buf, path, f.name[i]) || !looks_like_set(buf)) continue;
        vt_text_item(list, size, ", ", "%.60s", f.name[i]);
        found++;
    }
    vt_folders_free(&f);
    return found;
}

/* ---- opening ---- */

/* Fails with VT_E_USAGE: the path holds no corruptions. */
static vt_status refuse_corruption(const char *path, vt_err *e) {
    return vt_fail(e, VT_E_USAGE,
                   "%s: @corruption wants a folder of NAME.npy files with labels.npy (CIFAR-10-C), or of folders "
                   "NAME/SEVERITY/CLASS (ImageNet-C)",
                   path);
}

/* Folders that archives unpack to, and whether they hold corruptions. */
static const struct {
    const char *name;
    bool corrupted;
} usual[] = {{"cifar-10-batches-py", false}, {"cifar-10-batches-bin", false},
             {"cifar-100-python", false},    {"cifar-100-binary", false},
             {"CIFAR-10-C", true},           {"CIFAR-100-C", true}};

/* Sets *out to the data set that a folder above it stands for, in buf, or to path itself; VT_E_USAGE: there are
 * several. */
static vt_status find_unpacked_set(const char **out, const char *path, bool corrupted, char buf[VT_PATH_MAX],
                                   vt_err *e) {
    const char *first = NULL;
    char full[VT_PATH_MAX];
    const vt_dataset_def *def = vt_is_folder(path) ? find_def(path) : NULL;
    *out = path;
    if (!vt_is_folder(path) || (def && strcmp(def->name, "folder"))) return VT_OK; /* it is one itself */
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        if (usual[i].corrupted != corrupted || !vt_path(full, path, usual[i].name) || !vt_is_folder(full)) continue;
        if (first)
            return vt_fail(e, VT_E_USAGE, "%s: holds several data sets (%s, %s): name one of them", path, first,
                           usual[i].name);
        first = usual[i].name, *out = memcpy(buf, full, sizeof full);
    }
    return VT_OK;
}

vt_status vt_dataset_open_asked(vt_dataset **out, const char *path, vt_split split, const vt_corruption *c,
                                const char *class_order, vt_err *e) {
    char root[VT_PATH_MAX];
    bool corrupted = c && *c->name;
    *out = NULL;
    VT_TRY(find_unpacked_set(&path, path, corrupted, root, e));
    const vt_dataset_def *def = find_def(path);
    if (!def && errno == ENOMEM) return vt_fail(e, VT_E_MEMORY, "%s: no memory to look at it", path);
    if (!def && access(path, F_OK)) return refuse_missing(path, e);
    if (!def) return refuse_format(path, e);
    if (corrupted && !def->corruptions) return refuse_corruption(path, e);
    vt_dataset *d = calloc(1, sizeof *d);
    if (!d) return vt_fail(e, VT_E_MEMORY, "%s: no memory to open it", path);
    d->def = def, d->split = split, d->asked = class_order;
    d->path = strdup(path), d->state = calloc(1, def->state);
    if (corrupted) d->corruption = *c;
    vt_status r = d->path && d->state ? def->open(d, e) : vt_fail(e, VT_E_MEMORY, "%s: no memory to open it", path);
    if (r == VT_OK && d->asked && !d->order)
        r = vt_fail(e, VT_E_USAGE, "%s: @class-order is for class folders, these data have none", d->path);
    if (r != VT_OK) {
        vt_dataset_close(d);
        return r;
    }
    *out = d;
    return VT_OK;
}

vt_status vt_dataset_open(vt_dataset **out, const char *path, vt_split split, vt_err *e) {
    return vt_dataset_open_asked(out, path, split, NULL, NULL, e);
}

/* ---- corruptions ---- */

/* For scandir: takes NAME.npy but labels.npy. */
static int is_corruption_array(const struct dirent *d) {
    return vt_ends_in(d->d_name, ".npy") && strlen(d->d_name) < VT_CORRUPTION_ROOM + 4 && *d->d_name != '.' &&
           strcmp(d->d_name, "labels.npy");
}

/* Returns whether a folder's name is a digit from 1 to VT_SEVERITIES. */
static int is_severity(const char *name) { return *name >= '1' && *name <= '0' + VT_SEVERITIES && !name[1]; }

/* Adds the names of the arrays beside labels.npy (CIFAR-10-C), sorted; without labels.npy none. */
static vt_status list_corruption_arrays(vt_folders *names, const char *path, vt_err *e) {
    char labels[VT_PATH_MAX];
    struct dirent **all = NULL;
    vt_status s = VT_OK;
    int n = join_existing_path(labels, path, "labels.npy") ? scandir(path, &all, is_corruption_array, alphasort) : 0;
    for (int i = 0; i < n; i++) {
        all[i]->d_name[strlen(all[i]->d_name) - strlen(".npy")] = 0;
        if (s == VT_OK) s = vt_folders_add(names, all[i]->d_name, path, e);
        free(all[i]);
    }
    free(all);
    return s;
}

/* Adds the names of folders that hold folders 1 to 5 and no others (ImageNet-C). */
static vt_status list_corruption_trees(vt_folders *names, const char *path, vt_err *e) {
    char tree[VT_PATH_MAX];
    vt_folders f, g;
    vt_status s = vt_folders_list(&f, path, e);
    for (int i = 0; s == VT_OK && i < f.n; i++) {
        if (strlen(f.name[i]) >= VT_CORRUPTION_ROOM || !vt_path(tree, path, f.name[i])) continue;
        s = vt_folders_list(&g, tree, e);
        bool hit = s == VT_OK && g.n;
        for (int k = 0; k < g.n; k++) hit = hit && is_severity(g.name[k]);
        vt_folders_free(&g);
        if (hit) s = vt_folders_add(names, f.name[i], path, e);
    }
    vt_folders_free(&f);
    return s;
}

vt_status vt_corruptions_list(vt_folders *names, const char *path, vt_err *e) {
    char root[VT_PATH_MAX];
    *names = (vt_folders){0};
    VT_TRY(find_unpacked_set(&path, path, true, root, e));
    VT_TRY(list_corruption_arrays(names, path, e));
    if (!names->n && vt_is_folder(path)) VT_TRY(list_corruption_trees(names, path, e));
    return names->n ? VT_OK : refuse_corruption(path, e);
}

bool vt_corruptions_text(const char *path, char *out, size_t size) {
    vt_folders f;
    bool any = vt_corruptions_list(&f, path, NULL) == VT_OK;
    *out = 0;
    for (int i = 0; any && i < f.n; i++) vt_text_item(out, size, ", ", "%s", f.name[i]);
    vt_folders_free(&f);
    return any;
}

vt_status vt_corruption_check(const vt_dataset *d, vt_err *e) {
    char all[600];
    const char *name = d->corruption.name, *near;
    vt_folders f;
    int k = 0;
    if (d->split != VT_SPLIT_TEST)
        return vt_fail(e, VT_E_USAGE, "%s: its images are test images, there is no %s split", d->path,
                       vt_split_name(d->split));
    vt_status s = vt_corruptions_list(&f, d->path, e);
    while (k < f.n && strcmp(f.name[k], name) != 0) k++;
    if (s == VT_OK && k == f.n) {
        near = vt_nearest(name, (const char *const *)f.name, (size_t)f.n);
        vt_corruptions_text(d->path, all, sizeof all);
        s = vt_fail(e, VT_E_USAGE, "@corruption is '%s', but %s has %s%s%s%s", name, d->path, all,
                    near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    vt_folders_free(&f);
    return s;
}

/* ---- reading ---- */

vt_status vt_dataset_read(const vt_dataset *d, int64_t i, vt_image *im, int *label, vt_err *e) {
    *im = (vt_image){0};
    if (i < 0 || i >= d->count)
        return vt_fail(e, VT_E_RANGE, "%s: image %lld is asked for, but the %s split has images 0 to %lld", d->path,
                       (long long)i, vt_split_name(d->split), (long long)d->count - 1);
    VT_TRY(d->def->read(d, i, im, label, e));
    if (d->head && !d->restricted) *label = d->head[*label];
    return VT_OK;
}

/* Writes "PATH: image 3 (n01440764/x.JPEG)" into what, and returns it. */
static const char *describe_image(const vt_dataset *d, int64_t i, char what[VT_WHAT]) {
    const char *name = vt_dataset_image_name(d, i);
    snprintf(what, VT_WHAT, "%s: image %lld%s%s%s", d->path, (long long)i, name ? " (" : "", name ? name : "",
             name ? ")" : "");
    return what;
}

void vt_dataset_expect(vt_dataset *d, vt_shape want) {
    if (d->def->expect) d->def->expect(d, want);
}

/* Fails with VT_E_SHAPE. what: the image. was: its shape before it was transformed; got, which is not `want`: after. */
static vt_status refuse_shape(const vt_dataset *d, const char *what, vt_shape was, vt_shape got, vt_shape want,
                              vt_err *e) {
    int side = vt_shape_side(want);
    if (!side || got.channels != 3)
        return vt_fail(e, VT_E_SHAPE, "%s is " VT_CHW ", the model wants " VT_CHW " (channels, height, width)", what,
                       VT_CHW_OF(got), VT_CHW_OF(want));
    if (!vt_transform_is_none(&d->transform))
        return vt_fail(e, VT_E_SHAPE, "%s is %d x %d pixels, preprocessing makes it %d x %d, the model wants %d x %d",
                       what, was.width, was.height, got.width, got.height, side, side);
    if (d->split == VT_SPLIT_TRAIN) /* a training has no options for it */
        return vt_fail(e, VT_E_SHAPE, "%s is %d x %d pixels, the model wants %d x %d", what, was.width, was.height,
                       side, side);
    return vt_fail(e, VT_E_SHAPE,
                   "%s is %d x %d pixels, the model wants %d x %d (@preprocess short:%d,bicubic,crop:%d would make "
                   "it so%s%s%s)",
                   what, was.width, was.height, side, side, (int)(side / 0.875), side,
                   vt_shape_side(was) ? "; with " : "", vt_shape_side(was) ? vt_argument("attack-at") : "",
                   vt_shape_side(was) ? " native the model resizes it itself" : "");
}

vt_status vt_dataset_read_as(const vt_dataset *d, int64_t i, vt_shape want, vt_image *im, int *label, vt_err *e) {
    char what[VT_WHAT];
    VT_TRY(vt_dataset_read(d, i, im, label, e));
    vt_shape was = im->shape;
    vt_status s = vt_transform_apply(im, &d->transform, describe_image(d, i, what), e);
    if (s == VT_OK && vt_shape_same(im->shape, want)) return VT_OK;
    if (s == VT_OK) s = refuse_shape(d, what, was, im->shape, want, e);
    vt_image_free(im);
    return s;
}

const char *vt_dataset_image_name(const vt_dataset *d, int64_t i) { return d->def->file ? d->def->file(d, i) : NULL; }

void vt_dataset_close(vt_dataset *d) {
    if (!d) return;
    if (d->state) d->def->close(d);
    free(d->head), free(d->order), free(d->train), free(d->state), free(d->path);
    free(d);
}
