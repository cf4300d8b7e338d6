/* SPDX-License-Identifier: MIT */
/* Labelled images on disk, read one at a time (never the whole set in memory), in the official order. A source is one
 * file dataset_*.c with one vt_dataset_def; the Makefile collects them. Reading is thread-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/status.h"
#include "data/folders.h"
#include "data/transform.h"

/* One file of a folder of corrupted test images (CIFAR-10-C: Hendrycks and Dietterich 2019), NAME.npy, and one fifth of
 * it: the severities stand one after another; of ImageNet-C the class folders in NAME/SEVERITY. */
enum { VT_SEVERITIES = 5, VT_CORRUPTION_ROOM = 64 };
typedef struct vt_corruption {
    char name[VT_CORRUPTION_ROOM]; /* empty: none */
    int severity;                  /* 1 to VT_SEVERITIES */
} vt_corruption;

typedef struct vt_dataset vt_dataset;

typedef struct vt_dataset_def {
    const char *name;    /* "cifar" */
    const char *summary; /* one sentence for `vitrine list formats` */
    /* Does `path` look like this format (names only; no content is judged here)? */
    bool (*probe)(const char *path);
    bool corruptions; /* may d->corruption have a name? */
    size_t state;     /* bytes of d->state, which is zeroed before `open` and freed after `close` */
    /* Fills d->count, d->classes, d->hash; what is cheap to check of every record (file sizes, labels) is checked here,
     * so that a bad set is refused before a long run starts. */
    vt_status (*open)(vt_dataset *d, vt_err *e);
    /* Image i in [0, count): pixels into *im (allocated), label in [0, classes). */
    vt_status (*read)(const vt_dataset *d, int64_t i, vt_image *im, int *label, vt_err *e);
    /* Where image i lies below the split, "n01440764/x.JPEG"; NULL for sources without files of their own. */
    const char *(*file)(const vt_dataset *d, int64_t i);
    int (*class_of)(const vt_dataset *d, int64_t i); /* its class, without reading it; NULL: it has to be read */
    void (*expect)(vt_dataset *d, vt_shape want);    /* vt_dataset_expect; NULL: there is one layout */
    void (*close)(vt_dataset *d);                    /* also after a failed open */
} vt_dataset_def;

struct vt_dataset {
    const vt_dataset_def *def;
    char *path; /* as given */
    vt_split split;
    vt_corruption corruption;
    int64_t count;
    int classes;              /* number of classes the source declares (10, 100, or folders) */
    bool classes_open;        /* it declares none: classes is one more than the largest label, a model may have more */
    const char *const *names; /* [classes], or NULL: the source does not name them */
    const char *asked;        /* --class-order as given, the caller's; NULL: not given */
    int *order;               /* [classes] by `asked`: the output that is meant by each class; NULL: as they stand */
    int order_lines;          /* classes that its file names */
    char extra[60];           /* the first of them that has no folder, or "" */
    const char *root;         /* the folder that holds the class folders; NULL: these are none */
    char *train;              /* the class folders of the train split beside this one, one a line, or NULL */
    char said[400];           /* sentences on what was left out or passed over; "" */
    bool floats;              /* images are the floats of the file, not bytes */
    bool jpeg;                /* some images are JPEGs: pixels depend on the decoder */
    /* Set by the caller. transform: done to every image of vt_dataset_read_as. labels: the model's own names of its
     * outputs, one a line, with a tab between two names of one; NULL: it has none. */
    vt_transform transform;
    const char *labels;
    /* By vt_dataset_fit_head. head [classes]: the model's output that stands for each class (NULL: class k is output
     * k); how: how that was found, where it has to be said; ordered: by names. */
    int *head;
    char how[200];
    bool ordered;
    bool restricted; /* with head: labels stay 0 to classes-1, and only the outputs in head are looked at */
    /* SHA-256 of the split. CIFAR: the records in order, as the binary version has them. Folders: the class names, each
     * with '/' and a zero byte; then for every image its path below the split, a zero byte, its size (8 bytes,
     * little-endian) and its bytes. NumPy, idx: the file contents, images first; of a corruption's severity, the labels
     * as bytes with their images, as CIFAR-10's records. */
    char hash[65];
    void *state;
};

const vt_dataset_def *const *vt_dataset_defs(int *n); /* the registry */

/* Opens `path` as whatever format recognises it; VT_E_FORMAT, with a list of the formats: none does; VT_E_IO: not
 * there. A folder that holds one of the folders which CIFAR's archives unpack to (torchvision's `root`) stands for that
 * one. */
vt_status vt_dataset_open(vt_dataset **out, const char *path, vt_split split, vt_err *e);
/* Opens a data set as vt_dataset_open, but the test images under a corruption (NULL or no name: none), with class
 * folders in an order (NULL: not given; classes.c), whose text must outlive it. VT_E_USAGE: the data have no such
 * thing. */
vt_status vt_dataset_open_asked(vt_dataset **out, const char *path, vt_split split, const vt_corruption *c,
                                const char *class_order, vt_err *e);
/* Reads image i of the split into *im (allocated), and its label: the class, or by d->head the model's output.
 * VT_E_RANGE: there is no image i. */
vt_status vt_dataset_read(const vt_dataset *d, int64_t i, vt_image *im, int *label, vt_err *e);
/* Chooses, if channels may stand first or last in the source's arrays, the layout that gives images of this shape, if
 * one does; otherwise no effect. Call it before anything else is read. */
void vt_dataset_expect(vt_dataset *d, vt_shape want);
/* Reads image i as vt_dataset_read does, transformed for a model; VT_E_SHAPE unless it is of shape `want` then. */
vt_status vt_dataset_read_as(const vt_dataset *d, int64_t i, vt_shape want, vt_image *im, int *label, vt_err *e);
const char *vt_dataset_image_name(const vt_dataset *d, int64_t i); /* NULL: none */
void vt_dataset_close(vt_dataset *d);                              /* accepts NULL */

/* Lists sub-folders that look like data sets of their own, "a, b", as one of them may be meant; returns how many. */
int vt_dataset_inside(const char *path, char *list, size_t size);

/* Sets *names, to be freed also after a failure, to the corruptions that `path` (or the CIFAR-10-C within it) has,
 * sorted: its arrays NAME.npy with labels.npy, or folders that hold folders 1 to 5 (ImageNet-C). VT_E_USAGE: none. */
vt_status vt_corruptions_list(vt_folders *names, const char *path, vt_err *e);
bool vt_corruptions_text(const char *path, char *out, size_t size); /* "fog, snow"; false: it has none */
/* VT_E_USAGE unless d->corruption.name is one that vt_corruptions_list finds, and the split test. The name is no path
 * then. */
vt_status vt_corruption_check(const vt_dataset *d, vt_err *e);

#define VT_CIFAR_URL "https://www.cs.toronto.edu/~kriz/cifar.html"

/* ---- classes: their names, and which output of the model each of them is (classes.c) ---- */

#define VT_IMAGENET_CLASSES 1000

/* Returns the class index of a wnid ("n01440764" is 0): its place among the 1000 in sorted order, which is how
 * torchvision's ImageFolder, timm and Hugging Face number the outputs. -1: not one of them. */
int vt_imagenet_index(const char *wnid);
/* Returns whether the name of a file is one of ImageNet's validation set: it begins with ILSVRC2012_val_. */
bool vt_imagenet_is_val(const char *path);
/* Returns the number of images of ImageNet's validation set in the split: 500 in Imagenette's second version, whose
 * validation folder also has ImageNet training pictures. -1: the classes are not named by ImageNet's wnids. */
int64_t vt_imagenet_val_count(const vt_dataset *d);

/* Writes the name of a label as vt_dataset_read gives it (or of a model's output): a folder's, or of the list that lies
 * beside CIFAR's files, cut to fit; "class 7" if nothing names it. */
void vt_dataset_class_name(const vt_dataset *d, int label, char *out, size_t size);

/* Orders the classes: d->asked, "text", "number" or a file with the name of one class a line in the model's order,
 * becomes d->order. VT_E_USAGE for a file that names a class twice, or not all; one that names more must name all
 * outputs of the model. d->names are known. */
vt_status vt_class_order(vt_dataset *d, vt_err *e);
/* Sets *all to whether d->asked is a file that names all of names [n], n > 0. VT_E_USAGE: it cannot be read. */
vt_status vt_class_order_names(const vt_dataset *d, char *const *names, int n, bool *all, vt_err *e);

/* Fits the labels to a model of `outputs` classes: by d->order; else by names, if every class folder is called as one
 * output is (d->labels); else by ImageNet's wnids, if they name the folders and there are 1000 outputs; else class k is
 * output k, if there are as many; else by the class folders of the train split, if these are as many. A source that
 * declares no classes has the model's, if no label is beyond them. If classes are fewer than outputs, the arg-max is
 * taken over all outputs; with `restricted` labels stay and d->head says which outputs are compared. Anything else is
 * VT_E_SHAPE, and VT_E_USAGE if the order is not certain. */
vt_status vt_dataset_fit_head(vt_dataset *d, int outputs, bool restricted, const char *model, vt_err *e);

/* ---- which images of a split (image_list.c): "A:B", "spread:N" (N of them, evenly over the classes, and in a class
 * evenly over its images), a file with one image a line (an index, or a path below the split), or a set that has a
 * name ---- */

/* The images of ImageNet's validation set in Imagenette's first version: 50 of each of its ten classes. */
#define VT_IMAGENETTE_V1 "imagenette-v1"
enum { VT_IMAGENETTE_V1_COUNT = 500 };

#define VT_IMAGES_SPREAD "spread:"

/* Sets *first and *end to the two numbers of "A:B", whatever they are; false: it is no such text. */
bool vt_image_range(const char *text, long long *first, long long *end);
/* The image at a path below the split, of which folders at the front may be missing in the data, or that of a file name
 * which is there once; -1: none. Zero it, but for d. */
typedef struct vt_image_paths {
    const vt_dataset *d;
    void *sorted[2]; /* by path, by the last part: when first asked */
} vt_image_paths;
/* Sets *image to the index of the image that text names, or -1 (VT_OK). VT_E_MEMORY: the paths could not be sorted. */
vt_status vt_image_find(vt_image_paths *p, const char *text, int64_t *image, vt_err *e);
/* Frees the sorted paths; accepts a zeroed one. */
void vt_image_paths_free(vt_image_paths *p);
/* Sets *out [*n], to be freed, to indices of d, ascending and distinct; text NULL: all. VT_E_USAGE, naming --images:
 * text is none of these or leaves the split; VT_E_FORMAT: of a file, a line. *out is then NULL. */
vt_status vt_image_list(int32_t **out, size_t *n, const char *text, const vt_dataset *d, vt_err *e);
/* Returns how many classes these images [n] are of, and in *all how many all images are; both 0 if that is not known
 * without reading them. */
int vt_image_classes(const vt_dataset *d, const int32_t *images, size_t n, int *all);
/* Writes "these 12 images hold 2 of 10 classes ..."; returns whether these images miss a class. */
bool vt_image_classes_text(const vt_dataset *d, const int32_t *images, size_t n, char *out, size_t size);
