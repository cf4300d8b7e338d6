/* SPDX-License-Identifier: MIT */
/* What a folder holds: sub-folders, which are splits, classes or corruptions of a data set; and pictures. */
#pragma once

#include "base/files.h"

/* The sub-folders of a folder in the order of their bytes, links followed, without those that begin with a dot and
 * __MACOSX; and how many pictures lie beside them. */
typedef struct vt_folders {
    char **name;
    int n;
    size_t pictures;
} vt_folders;

/* Lists the folders in a folder into *f, sorted by name, and counts its pictures; hidden ones are left out. VT_E_IO if
 * it cannot. f is to be freed also after a failure. */
vt_status vt_folders_list(vt_folders *f, const char *path, vt_err *e);
/* Appends a name; path: whose memory ran out, for the sentence. */
vt_status vt_folders_add(vt_folders *f, const char *name, const char *path, vt_err *e);
/* Frees the names and zeroes *f. */
void vt_folders_free(vt_folders *f);

/* Returns whether there is one folder alone, which is called as no class is: images/, of pictures without labels. */
bool vt_folders_bare(const vt_folders *f);
bool vt_is_picture(const char *name); /* by its ending: .png, .jpg, .jpeg */

typedef enum vt_split { VT_SPLIT_TEST, VT_SPLIT_TRAIN, VT_SPLIT_VAL } vt_split;
const char *vt_split_name(vt_split s); /* "test", "train", "val" */
/* Sets *out to the split that a name stands for: "train", "Test", "training_set", "validation". false: none, *out
 * stays. */
bool vt_split_named(const char *name, vt_split *out);
bool vt_folders_splits(const vt_folders *f); /* Does one of the names? */
