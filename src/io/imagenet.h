/* SPDX-License-Identifier: MIT */
/* ImageNet-1k: the class indices of its 1000-way heads, and which files are of its validation set. */
#ifndef VT_IO_IMAGENET_H
#define VT_IO_IMAGENET_H

#include "io/dataset.h"

#define VT_IMAGENET_CLASSES 1000

/* The class index of a wnid ("n01440764" is 0): its place among the 1000 in sorted order, which is how torchvision's
 * ImageFolder, timm and Hugging Face number the outputs. -1: not one of them. */
int vt_imagenet_index(const char *wnid);
/* A file of ImageNet's validation set: its name begins with ILSVRC2012_val_. */
bool vt_imagenet_is_val(const char *path);
/* Images of the split that are, or -1 when its classes are not named by wnids of ImageNet. In Imagenette's second
 * version, whose validation folder mixes ImageNet training pictures in, they are the 500 of the first version. */
int64_t vt_imagenet_val_count(const vt_dataset *d);

#endif
