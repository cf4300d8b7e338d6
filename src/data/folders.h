/* SPDX-License-Identifier: MIT */
/* What a folder holds: sub-folders, which are splits, classes or several versions of one data set; and pictures. */
#pragma once

#include "base/files.h"
#include "data/dataset.h"

/* The sub-folders of a folder in the order of their bytes, links followed, without those that begin with a dot and
 * __MACOSX; and how many pictures lie beside them. */
typedef struct vt_folders {
    char **name;
    int n;
    size_t pictures;
} vt_folders;

/* f is to be freed also after a failure. */
vt_status vt_folders_list(vt_folders *f, const char *path, vt_err *e);
vt_status vt_folders_add(vt_folders *f, const char *name, const char *path, vt_err *e);
void vt_folders_free(vt_folders *f);

/* One folder alone, which is called as no class is: images/, of pictures without labels. */
bool vt_folders_bare(const vt_folders *f);

bool vt_is_picture(const char *name); /* by its ending: .png, .jpg, .jpeg */
/* Does the name say a split: "train", "Test", "training_set", "validation"? Does one of them? */
bool vt_split_named(const char *name, vt_split *out);
bool vt_folders_splits(const vt_folders *f);

/* The folder that holds the class folders of d->split: d->path, or a folder of it that a split is called by. What was
 * passed over goes to d->said. */
vt_status vt_layout_root(char root[VT_PATH_MAX], vt_dataset *d, vt_err *e);
/* If the folders of d->path are no classes but versions of one data set, which each hold the same folders (as
 * ImageNet-C's NAME/SEVERITY), or there is one alone: fills d->inside with the path of the first. */
vt_status vt_layout_inside(vt_dataset *d, const char *root, vt_err *e);
#define VT_ANNOTATIONS "val_annotations.txt" /* of Tiny ImageNet: the labels of the pictures in images/ beside it */

/* The corruptions that `path` (or the CIFAR-10-C within it) has, sorted: its arrays NAME.npy with labels.npy, or
 * folders that hold folders 1 to 5 (ImageNet-C). To be freed also after a failure. */
vt_status vt_corruptions_list(vt_folders *names, const char *path, vt_err *e);
bool vt_corruptions_text(const char *path, char *out, size_t size); /* "fog, snow"; false: it has none */
/* Is d->corruption one of them, and the split test? The name is no path then. */
vt_status vt_corruption_check(const vt_dataset *d, vt_err *e);
