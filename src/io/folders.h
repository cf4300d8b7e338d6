/* SPDX-License-Identifier: MIT */
/* What stands in a folder: sub-folders, pictures; and whose names say a split. */
#ifndef VT_IO_FOLDERS_H
#define VT_IO_FOLDERS_H

#include "io/dataset.h"

/* The sub-folders of a folder in the order of their bytes, links followed, without those that begin with a dot and
 * __MACOSX; and how many pictures lie beside them. */
typedef struct vt_folders {
    char **name;
    int n;
    size_t pictures;
} vt_folders;

/* Also what is to be freed after a failure. */
vt_status vt_folders_list(vt_folders *f, const char *path, vt_err *e);
void vt_folders_free(vt_folders *f);

/* One folder alone, which is called as no class is: images/, of pictures without labels. */
bool vt_folders_bare(const vt_folders *f);

bool vt_is_picture(const char *name); /* by its ending: .png, .jpg, .jpeg */
/* Does the name say a split: "train", "Test", "training_set", "validation"? */
bool vt_split_named(const char *name, vt_split *out);

#endif
