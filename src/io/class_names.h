/* SPDX-License-Identifier: MIT */
/* The names of a data set's classes. */
#ifndef VT_IO_CLASS_NAMES_H
#define VT_IO_CLASS_NAMES_H

#include "io/dataset.h"

/* The name of a label as vt_dataset_read gives it (or of a model's output): a folder's, or of the list that lies beside
 * CIFAR's files, cut to fit; "class 7" where nothing names it. */
void vt_dataset_class_name(const vt_dataset *d, int label, char *out, size_t size);

#endif
