/* SPDX-License-Identifier: MIT */
/* One file of CIFAR's Python version (data_batch_1, test_batch; train, test): a pickle of a dictionary whose "data" is
 * a NumPy array [N,3072] of bytes, read by the reader that executes nothing (io/pickle.h). It is handed out as records
 * of the binary version, so that both versions are one data set with one hash. */
#ifndef VT_IO_CIFAR_PY_H
#define VT_IO_CIFAR_PY_H

#include <stddef.h>
#include <stdint.h>
#include "core/status.h"

typedef struct vt_cifar_py vt_cifar_py;

vt_status vt_cifar_py_open(vt_cifar_py **out, const char *path, vt_err *e);
/* The same of bytes, which must outlive the handle; `path` only names them. */
vt_status vt_cifar_py_parse(vt_cifar_py **out, const uint8_t *bytes, size_t n, const char *path, vt_err *e);
void vt_cifar_py_close(vt_cifar_py *b); /* accepts NULL */

/* Bytes of a record, VT_CIFAR10 (there are "labels") or VT_CIFAR100 ("fine_labels", "coarse_labels"); how many. */
int vt_cifar_py_record(const vt_cifar_py *b);
int64_t vt_cifar_py_count(const vt_cifar_py *b);
/* Record i as the binary version has it. Thread-safe. Labels that no byte holds become 255, which vt_cifar_check
 * refuses. */
void vt_cifar_py_read(const vt_cifar_py *b, int64_t i, uint8_t *record);

#endif
