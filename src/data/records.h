/* SPDX-License-Identifier: MIT */
/* Parsers of data set files, which the sources dataset_*.c share with the fuzz targets. */
#pragma once

#include "tensors/npy.h"

/* CIFAR records, `record` bytes each: VT_CIFAR10 (label, pixels) or VT_CIFAR100 (coarse label, fine label, pixels). */
#define VT_CIFAR_PIXELS 3072
#define VT_CIFAR10 (1 + VT_CIFAR_PIXELS)
#define VT_CIFAR100 (2 + VT_CIFAR_PIXELS)
/* VT_E_FORMAT unless the n bytes, of which the first are record number `first` of the file, are whole records;
 * VT_E_RANGE for labels out of range. path: what errors name. */
vt_status vt_cifar_check(const uint8_t *bytes, size_t n, int record, int64_t first, const char *path, vt_err *e);

/* One file of CIFAR's Python version (data_batch_1, test_batch; train, test): a pickle of a dictionary whose "data" is
 * a NumPy array [N,3072] of bytes, read by the reader that executes nothing (tensors/pickle.h). It is handed out as
 * records of the binary version, so that both versions are one data set with one hash. */
typedef struct vt_cifar_py {
    int record; /* VT_CIFAR10 (there are "labels") or VT_CIFAR100 ("fine_labels", "coarse_labels") */
    int64_t count;
    struct vt_tensors *st; /* the file and the tree of its pickle */
    vt_npy pixels;
    uint8_t *labels; /* [count], or [count,2]: coarse, fine */
} vt_cifar_py;
/* Opens a file of the Python version; bytes (NULL: of the file `path`) must outlive b. VT_E_FORMAT: it is none. Close
 * also after a failure. */
vt_status vt_cifar_py_open(vt_cifar_py *b, const uint8_t *bytes, size_t n, const char *path, vt_err *e);
void vt_cifar_py_close(vt_cifar_py *b); /* accepts a zeroed one */
/* Writes record i [b->record] as the binary version has it. Thread-safe. Labels that no byte holds become 255, which
 * vt_cifar_check refuses. */
void vt_cifar_py_read(const vt_cifar_py *b, int64_t i, uint8_t *record);

/* The idx format of MNIST (yann.lecun.com/exdb/mnist): 4 bytes (0, 0, type, number of sides), the sides as big-endian
 * 32-bit numbers, the values. Unsigned bytes alone (type 8). */
enum { VT_IDX_LABELS = 0x801, VT_IDX_IMAGES = 0x803 }; /* magic numbers: bytes with one side, with three */
typedef struct vt_idx {
    int64_t n;           /* images or labels */
    int height, width;   /* of an image; 1 and 1 of a label */
    const uint8_t *data; /* [n, height, width], within the bytes that were parsed */
} vt_idx;
/* Parses an IDX file into *x, which points into the bytes. VT_E_USAGE: another magic number, a size that no file has,
 * bytes that lack or are too many. */
vt_status vt_idx_parse(vt_idx *x, const uint8_t *bytes, size_t n, unsigned magic, const char *path, vt_err *e);
