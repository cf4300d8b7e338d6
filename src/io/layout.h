/* SPDX-License-Identifier: MIT */
/* What the folders below a data set's are: splits, classes, or several versions of one data set. */
#ifndef VT_IO_LAYOUT_H
#define VT_IO_LAYOUT_H

#include "core/files.h"
#include "io/dataset.h"

/* The folder that holds the class folders of d->split: d->path, or a folder of it that a split is called by. What was
 * passed over goes to d->said. */
vt_status vt_layout_root(char root[VT_PATH_MAX], vt_dataset *d, vt_err *e);
/* Where the folders of d->path are no classes but versions of one data set, which each hold the same folders (as
 * ImageNet-C's NAME/SEVERITY), or there is one alone: the path of the first in d->inside, and how many folders it has.
 */
vt_status vt_layout_inside(vt_dataset *d, const char *root, vt_err *e);
#define VT_ANNOTATIONS "val_annotations.txt" /* of Tiny ImageNet: the labels of the pictures in images/ beside it */

#endif
