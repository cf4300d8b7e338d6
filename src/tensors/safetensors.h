/* SPDX-License-Identifier: MIT */
/* safetensors, strictly: header of at most 100,000,000 bytes, no duplicate names, holes, overlaps or trailing bytes,
 * every offset and product checked against the file's size (huggingface/safetensors, README, "Format"). The file is
 * memory-mapped; tensor data point into the mapping and live until vt_tensors_close. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

#define VT_ST_MAX_DIMS 8

/* dtype: name in the file, bytes an item */
#define VT_DTYPE_LIST(X)                                                                                               \
    X(BOOL, 1)                                                                                                         \
    X(U8, 1)                                                                                                           \
    X(I8, 1)                                                                                                           \
    X(F8_E5M2, 1)                                                                                                      \
    X(F8_E4M3, 1) X(I16, 2) X(U16, 2) X(F16, 2) X(BF16, 2) X(I32, 4) X(U32, 4) X(F32, 4) X(F64, 8) X(I64, 8) X(U64, 8)

typedef enum vt_dtype {
#define VT_DTYPE_ENUM(id, bytes) VT_##id,
    VT_DTYPE_LIST(VT_DTYPE_ENUM)
#undef VT_DTYPE_ENUM
        VT_DTYPE_COUNT
} vt_dtype;

const char *vt_dtype_name(vt_dtype d);
size_t vt_dtype_size(vt_dtype d);

typedef struct vt_tensor {
    const char *name;
    vt_dtype dtype;
    int ndim; /* 0: a scalar */
    int64_t shape[VT_ST_MAX_DIMS];
    size_t numel;
    const void *data; /* little-endian, row-major, not necessarily aligned when read from a file */
    /* Made of the rows of several tensors, one after another (data is NULL), or NULL: checkpoint/rename. */
    const struct vt_tensor *parts;
    int n_parts;
} vt_tensor;

typedef struct vt_tensors vt_tensors;

vt_status vt_tensors_open(vt_tensors **out, const char *path, vt_err *e);
/* The same for bytes in memory, which must outlive the handle; `path` only names them in errors. */
vt_status vt_tensors_parse(vt_tensors **out, const uint8_t *bytes, size_t n, const char *path, vt_err *e);
void vt_tensors_close(vt_tensors *st); /* accepts NULL */

const char *vt_tensors_path(const vt_tensors *st);
int vt_tensors_count(const vt_tensors *st);
const vt_tensor *vt_tensors_at(const vt_tensors *st, int i);              /* in order of data offset */
const vt_tensor *vt_tensors_find(const vt_tensors *st, const char *name); /* NULL: not there */
const char *vt_tensors_meta(const vt_tensors *st, const char *key);       /* NULL: not there */
const char *vt_tensors_meta_key(const vt_tensors *st, int i);             /* in the file's order; NULL past the end */

/* Converts F64, F32, F16 or BF16 to float / double; VT_E_FORMAT for other dtypes, naming path and tensor.
 * Integers (I64, I32, I16, I8, U8, U16, U32, BOOL) to int64. `n` must equal numel, else VT_E_SHAPE. */
vt_status vt_tensor_f32(const vt_tensors *st, const vt_tensor *t, float *out, size_t n, vt_err *e);
vt_status vt_tensor_f64(const vt_tensors *st, const vt_tensor *t, double *out, size_t n, vt_err *e);
vt_status vt_tensor_i64(const vt_tensors *st, const vt_tensor *t, int64_t *out, size_t n, vt_err *e);

/* "[3,64,64]" into buf; returns buf. */
const char *vt_shape_text(char *buf, size_t size, const int64_t *shape, int ndim);

/* Writes a whole file (vt_file_replace): on failure (full disk) the old one is untouched. Tensors are laid out as by
 * the reference writer: by dtype (larger items first, VT_DTYPE_LIST backwards), then name. meta: n_meta pairs key,
 * value. The value of VT_ST_FILE may be NULL: it becomes the SHA-256 of the file with zeros in the place of its digits.
 */
#define VT_ST_FILE "file_sha256"
#define VT_ST_SHA "tensors_sha256" /* of all that follows the header: what files of before have */
vt_status vt_tensors_write(const char *path, const vt_tensor *t, int n, const char *const *meta, int n_meta, vt_err *e);
/* VT_E_FORMAT if the file's metadata (each shard's) hold VT_ST_FILE or VT_ST_SHA and it is another file's. */
vt_status vt_tensors_check(const vt_tensors *st, vt_err *e);
/* Which of the two holds it, the stronger one of both; NULL: neither, or it is in shards. */
const char *vt_tensors_seal(const vt_tensors *st);
