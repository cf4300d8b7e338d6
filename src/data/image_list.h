/* SPDX-License-Identifier: MIT */
/* Which images of a split: "A:B", "spread:N" (N of them, evenly over the classes, and in a class evenly over its
 * images), a file with one image a line (an index, or a path below the split), or a set that has a name. */
#pragma once

#include "data/dataset.h"

/* The images of ImageNet's validation set in Imagenette's first version: 50 of each of its ten classes. */
#define VT_IMAGENETTE_V1 "imagenette-v1"
enum { VT_IMAGENETTE_V1_COUNT = 500 };

#define VT_IMAGES_SPREAD "spread:"

/* The two numbers of "A:B", whatever they are; false: it is no such text. */
bool vt_image_range(const char *text, long long *first, long long *end);
/* The image at a path below the split, of which folders at the front may be missing in the data, or that of a file name
 * which is there once; -1: none. Zero it, but for d. */
typedef struct vt_image_paths {
    const vt_dataset *d;
    void *sorted[2]; /* by path, by the last part: when first asked */
} vt_image_paths;
vt_status vt_image_find(vt_image_paths *p, const char *text, int64_t *image, vt_err *e);
void vt_image_paths_free(vt_image_paths *p);
/* Indices of d, ascending and distinct, to be freed; text NULL: all. Sentences name --images. */
vt_status vt_image_list(int32_t **out, size_t *n, const char *text, const vt_dataset *d, vt_err *e);
/* How many classes these images are of, and how many all images are, where that is known without reading them (class
 * folders); else 0. In words, if they are not all: "these 12 images hold 2 of 10 classes". */
int vt_image_classes(const vt_dataset *d, const int32_t *images, size_t n, int *all);
bool vt_image_classes_text(const vt_dataset *d, const int32_t *images, size_t n, char *out, size_t size);
