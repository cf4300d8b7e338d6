/* SPDX-License-Identifier: MIT */
/* The inside of vt_tensors, for the readers of src/io: they add what they have checked, then call vt_tensors_index. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include "base/files.h"
#include "tensors/weights.h"

/* Names come from the file; cut, so that they do not push the value out of a sentence. */
#define VT_NAME "%.160s"
#define VT_SHAPE(t) vt_shape_text((char[200]){0}, 200, (t)->shape, (t)->ndim)

struct vt_tensors {
    char *path;
    const char *format;
    vt_mapped map;        /* empty when the bytes are the caller's */
    const uint8_t *bytes; /* the whole file */
    size_t size;
    size_t left; /* bytes of memory that may still be taken for what the file says (vt_tensors_take) */
    json_t *root;
    struct {
        void *block;
        void (*release)(void *);
    } * owned;
    vt_tensors **shards; /* whose tensors are in t */
    int owned_count, shard_count;
    vt_tensor *t;
    const char **origin; /* names as in the file */
    const vt_tensor **by_name;
    const char **meta; /* key, value, key, value, ... */
    const char *args;  /* vt_tensors_args */
    vt_note *notes;
    const char *part, *parts, *inside; /* vt_tensors_part, vt_tensors_parts, vt_tensors_inside; never NULL */
    int count, meta_count, note_count;
};

/* A handle without tensors on the file `path` (mapped) or on bytes (NULL: the file). */
vt_status vt_tensors_begin(vt_tensors **out, const char *path, const uint8_t *bytes, size_t n, vt_err *e);

/* Memory that lives as long as the handle. What a file can make a reader take is bounded: VT_ST_SPARE bytes and
 * VT_ST_TIMES the size of the file, together for nodes of its pickle, gathered tensors, names and notes. */
#define VT_ST_SPARE ((size_t)16 << 20)
#define VT_ST_TIMES 4
void *vt_tensors_take(vt_tensors *st, size_t bytes, vt_err *e); /* NULL: *e says why */
/* Calls release(block) when the handle is closed, or at once if this fails. */
vt_status vt_tensors_keep(vt_tensors *st, void *block, void (*release)(void *), vt_err *e);
__attribute__((format(printf, 3, 4))) const char *vt_tensors_text(vt_tensors *st, vt_err *e, const char *fmt, ...);

/* t->name and t->parts, key and value must live as long as the handle; name and text of a note are copied. */
vt_status vt_tensors_add(vt_tensors *st, const vt_tensor *t, vt_err *e);
vt_status vt_tensors_add_meta(vt_tensors *st, const char *key, const char *value, vt_err *e);
vt_status vt_tensors_add_note(vt_tensors *st, vt_note_kind kind, const char *name, const char *text, vt_err *e);
/* Removes the tensors that are marked; call vt_tensors_index after it. */
void vt_tensors_drop(vt_tensors *st, const bool *gone);
/* Sorts the names; VT_E_FORMAT when one is there twice. Call again after tensors were renamed or removed. */
vt_status vt_tensors_index(vt_tensors *st, vt_err *e);

/* Hashes the file's bytes from `from` on. */
void vt_tensors_hash(const vt_tensors *st, size_t from, vt_sha *sha);
/* False when the number of items or of bytes does not fit a size_t. Sides must not be negative. */
bool vt_shape_bytes(const int64_t *shape, int ndim, vt_dtype d, size_t *numel, size_t *bytes);
size_t vt_tensor_bytes(const vt_tensor *t);

/* Readers: each adds tensors to a handle that vt_tensors_begin made; want as in vt_weights_open, or vt_state_all: all
 * tensors, whatever holds them (vt_saved_open). */
extern const char vt_state_all[];
vt_status vt_tensors_read_safetensors(vt_tensors *st, vt_err *e);
vt_status vt_tensors_read_zip(vt_tensors *st, const char *want, vt_err *e);
vt_status vt_tensors_read_legacy(vt_tensors *st, const char *want, vt_err *e);
/* Common prefixes, normalisation layers, bookkeeping tensors. */
vt_status vt_tensors_strip_training(vt_tensors *st, vt_err *e);
