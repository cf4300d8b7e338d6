/* SPDX-License-Identifier: MIT */
/* The classes of a data set: their names, and which output of the model each of them is: as asked for, by the names of
 * both, by ImageNet's wnids, else in the order in which the classes stand (vt_dataset_fit_head). */
#pragma once

#include "data/dataset.h"

#define VT_IMAGENET_CLASSES 1000

/* The class index of a wnid ("n01440764" is 0): its place among the 1000 in sorted order, which is how torchvision's
 * ImageFolder, timm and Hugging Face number the outputs. -1: not one of them. */
int vt_imagenet_index(const char *wnid);
/* Is it a file of ImageNet's validation set (its name begins with ILSVRC2012_val_)? */
bool vt_imagenet_is_val(const char *path);
/* How many images of the split are; -1: its classes are not named by wnids of ImageNet. In Imagenette's second version,
 * whose validation folder mixes ImageNet training pictures in, they are the 500 of the first version. */
int64_t vt_imagenet_val_count(const vt_dataset *d);

/* The name of a label as vt_dataset_read gives it (or of a model's output): a folder's, or of the list that lies beside
 * CIFAR's files, cut to fit; "class 7" if nothing names it. */
void vt_dataset_class_name(const vt_dataset *d, int label, char *out, size_t size);

/* d->asked, "text", "number" or a file with the name of one class a line in the model's order, becomes d->order.
 * VT_E_USAGE for a file that names a class twice, or not all; one that names more must name all outputs of the model.
 * d->names are known. */
vt_status vt_class_order(vt_dataset *d, vt_err *e);
/* Is d->asked a file that names all of these? */
vt_status vt_class_order_names(const vt_dataset *d, char *const *names, int n, bool *all, vt_err *e);
