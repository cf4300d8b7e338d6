/* SPDX-License-Identifier: MIT */
/* Tensors of a file of weights as one checked handle: safetensors, PyTorch files (zip or legacy) or an index of shards.
 * docs/formats.md lists what is read, what is refused, and why. The file is memory-mapped; tensor data point into the
 * mapping and live until vt_tensors_close. Nothing of a pickle is ever executed. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/files.h"
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

/* Returns the type's name in safetensors files, "F32"; "?" for any other number. */
const char *vt_dtype_name(vt_dtype d);
/* Returns the bytes of one item; 0 for any other number. */
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

/* ---- opening ---- */

/* Opens all tensors of a file, of a kind known by its content, under their own names. In what torch.save wrote, keys
 * and places in lists are joined by dots ("adv_complete", "a.1"; a tensor alone is ""). On failure (VT_E_FORMAT,
 * VT_E_IO) *out is NULL. */
vt_status vt_tensors_open(vt_tensors **out, const char *path, vt_err *e);
/* Opens n bytes in memory, which must outlive the handle, as vt_tensors_open does a file; `path` only names them. */
vt_status vt_tensors_parse(vt_tensors **out, const uint8_t *bytes, size_t n, const char *path, vt_err *e);
/* Opens the weights of a model: a file, an index of shards (model.safetensors.index.json), or a folder that holds such
 * files. A wrapper around the state dict ("state_dict", "model", ...) is looked through; `want` (NULL: by the table in
 * state_dict.c) names the entry to take instead, say "model_ema", or "ema.module" of an entry within one; safetensors
 * have none. Prefixes that all names share ("module.", ...) are stripped, and a normalisation layer becomes the texts
 * "mean" and "std" (vt_tensors_meta). */
vt_status vt_weights_open(vt_tensors **out, const char *path, const char *want, vt_err *e);
/* Opens the weights of a model in n bytes of memory as vt_weights_open does a file; an index of shards is not read. */
vt_status vt_weights_parse(vt_tensors **out, const uint8_t *bytes, size_t n, const char *path, const char *want,
                           vt_err *e);
void vt_tensors_close(vt_tensors *st); /* accepts NULL */

/* Says what a file is that people often give in place of weights or images, by its first bytes, and what to do, to
 * stand after "is ": "an ONNX model: ..."; NULL: none that is known. */
const char *vt_unsupported_file(const uint8_t *bytes, size_t n);

/* ---- reading ---- */

/* Returns the path that the handle was opened with. */
const char *vt_tensors_path(const vt_tensors *st);
const char *vt_tensors_format(const vt_tensors *st); /* "safetensors", "PyTorch zip", "PyTorch legacy" ... */
/* Returns the number of tensors. */
int vt_tensors_count(const vt_tensors *st);
const vt_tensor *vt_tensors_at(const vt_tensors *st, int i);              /* in order of data offset */
const vt_tensor *vt_tensors_find(const vt_tensors *st, const char *name); /* NULL: not there */
const char *vt_tensors_origin(const vt_tensors *st, int i);         /* tensor i's name in its file; NULL past the end */
const char *vt_tensors_meta(const vt_tensors *st, const char *key); /* NULL: not there */
const char *vt_tensors_meta_key(const vt_tensors *st, int i);       /* in the file's order; NULL past the end */

/* Converts a tensor of F64, F32, F16 or BF16 to float [n]; VT_E_FORMAT for other dtypes, naming path and tensor;
 * VT_E_SHAPE unless n is numel. */
vt_status vt_tensor_f32(const vt_tensors *st, const vt_tensor *t, float *out, size_t n, vt_err *e);
/* Converts a tensor to double [n], as vt_tensor_f32 does to float. */
vt_status vt_tensor_f64(const vt_tensors *st, const vt_tensor *t, double *out, size_t n, vt_err *e);
/* Converts a tensor of I64, I32, I16, I8, U8, U16, U32 or BOOL to int64 [n]; fails as vt_tensor_f32 does. */
vt_status vt_tensor_i64(const vt_tensors *st, const vt_tensor *t, int64_t *out, size_t n, vt_err *e);

/* Writes "[3,64,64]" into buf; returns buf. */
const char *vt_shape_text(char *buf, size_t size, const int64_t *shape, int ndim);
#define VT_SHAPE(t) vt_shape_text((char[200]){0}, 200, (t)->shape, (t)->ndim)

/* What was found in the file besides the tensors, in the order in which it was met; NULL past the end.
 *   CHOSEN   name: the entry that was taken;               text: why, and what else there was
 *   IGNORED  name: an entry or tensor that was left out;   text: why
 *   RENAMED  name: a prefix that was stripped;             text: from how many names
 *   MEAN_STD name: tensors that became "mean" and "std";   text: the values
 *   VALUE    name: a plain value ("epoch", "args.heads");  text: the value */
typedef enum vt_note_kind {
    VT_NOTE_CHOSEN,
    VT_NOTE_IGNORED,
    VT_NOTE_RENAMED,
    VT_NOTE_MEAN_STD,
    VT_NOTE_VALUE
} vt_note_kind;
typedef struct vt_note {
    vt_note_kind kind;
    const char *name, *text;
} vt_note;
/* Returns note i = 0, 1, ...; NULL past the end. */
const vt_note *vt_tensors_note(const vt_tensors *st, int i);

/* Computes the SHA-256 of the file's bytes; of several shards, of one after another in the order of their names. */
void vt_weights_sha(const vt_tensors *st, char hex[65]);
/* Lets the tensor's pages of the file leave memory (they come back when looked at again): call it after a large tensor
 * has been converted, and the file and its copy are never in memory together. */
void vt_tensors_release(const vt_tensors *st, const vt_tensor *t);

/* ---- safetensors: writing and checksums ---- */

/* Writes a whole file (vt_file_replace): on failure (full disk) the old one is untouched. Tensors are laid out as by
 * the reference writer: by dtype (larger items first, VT_DTYPE_LIST backwards), then name. meta: n_meta pairs key,
 * value. The value of VT_ST_FILE may be NULL: it becomes the SHA-256 of the file with zeros in the place of its digits.
 */
#define VT_ST_FILE "file_sha256"
#define VT_ST_SHA "tensors_sha256" /* of all that follows the header: what older files have */
vt_status vt_tensors_write(const char *path, const vt_tensor *t, int n, const char *const *meta, int n_meta, vt_err *e);
/* Writes one row-major float32 tensor as torch.save would (a zip archive), complete or not at all. */
vt_status vt_pth_write(const char *path, const vt_tensor *t, vt_err *e);
/* Fails with VT_E_FORMAT if the file's metadata (each shard's) hold another file's VT_ST_FILE or VT_ST_SHA. */
vt_status vt_tensors_check(const vt_tensors *st, vt_err *e);
/* Returns which of VT_ST_FILE and VT_ST_SHA the metadata hold, VT_ST_FILE if both; NULL: neither, or shards, or another
 * format. */
const char *vt_tensors_seal(const vt_tensors *st);

/* ---- the inside, for readers: they add what they have checked, then call vt_tensors_index ---- */

#define VT_NAME "%.160s" /* a name from the file; cut, so that it does not push the value out of a sentence */

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
    /* What timm's training arguments in a .pth say of the network and its pixels, as the text of a JSON object (`mean`,
     * `std`, `model_kwargs`, ... by their names there; `gp` is "global_pool"). NULL: the file has none. */
    const char *args;
    vt_note *notes;
    /* part: the entry that was read, "ema.module"; "": the file is no wrapper. parts: the names of the state dicts
     * among which it was chosen, "model, ema"; inside: those of its dictionaries with tensors, if no tensor stands
     * beside them ("generator, critic": one model or several); else "". Never NULL. */
    const char *part, *parts, *inside;
    int count, meta_count, note_count;
};

/* Makes a handle without tensors on the file `path` (mapped; VT_E_IO) or on n bytes (NULL: the file). On failure *out
 * is NULL. */
vt_status vt_tensors_begin(vt_tensors **out, const char *path, const uint8_t *bytes, size_t n, vt_err *e);

/* Memory that lives as long as the handle. What a file can make a reader take is bounded: VT_ST_SPARE bytes and
 * VT_ST_TIMES the size of the file, together for nodes of its pickle, gathered tensors, names and notes. */
#define VT_ST_SPARE ((size_t)16 << 20)
#define VT_ST_TIMES 4
void *vt_tensors_take(vt_tensors *st, size_t bytes, vt_err *e); /* NULL: *e says why */
/* Makes closing the handle call release(block); on failure, also for block NULL, it is called at once. */
vt_status vt_tensors_keep(vt_tensors *st, void *block, void (*release)(void *), vt_err *e);
/* Returns a formatted text that lives as long as the handle; NULL: *e says why. */
__attribute__((format(printf, 3, 4))) const char *vt_tensors_text(vt_tensors *st, vt_err *e, const char *fmt, ...);

/* Adds a copy of *t, counted against what the file may take (VT_E_FORMAT). t->name and t->parts must live as long as
 * the handle. */
vt_status vt_tensors_add(vt_tensors *st, const vt_tensor *t, vt_err *e);
/* Adds a pair of metadata. key and value must live as long as the handle. */
vt_status vt_tensors_add_meta(vt_tensors *st, const char *key, const char *value, vt_err *e);
/* Adds a note with copies of name and text, counted against what the file may take (VT_E_FORMAT or VT_E_MEMORY). */
vt_status vt_tensors_add_note(vt_tensors *st, vt_note_kind kind, const char *name, const char *text, vt_err *e);
/* Removes tensor i if gone[i]; the rest moves up, in order. Call vt_tensors_index after it. */
void vt_tensors_drop(vt_tensors *st, const bool *gone);
/* Sorts the names, for vt_tensors_find; VT_E_FORMAT if one is there twice. Call again after tensors were renamed or
 * removed. */
vt_status vt_tensors_index(vt_tensors *st, vt_err *e);

/* Hashes the file's bytes from `from` on. */
void vt_tensors_hash(const vt_tensors *st, size_t from, vt_sha *sha);
/* Sets *numel and *bytes to the items and bytes of a shape, whose sides are not negative; false: they do not fit a
 * size_t. */
bool vt_shape_bytes(const int64_t *shape, int ndim, vt_dtype d, size_t *numel, size_t *bytes);
/* Returns the bytes of a tensor's data. */
size_t vt_tensor_bytes(const vt_tensor *t);

/* Readers: each adds tensors to a handle that vt_tensors_begin made; want as in vt_weights_open, or vt_state_all: all
 * tensors, whatever holds them (vt_tensors_open). */
extern const char vt_state_all[];
/* Reads a safetensors file; sets st->format and st->root. VT_E_FORMAT: not one, or not all its bytes are tensors'. */
vt_status vt_tensors_read_safetensors(vt_tensors *st, vt_err *e);
/* Reads a PyTorch zip archive, and sets st->format; statuses as vt_state_add's. */
vt_status vt_tensors_read_zip(vt_tensors *st, const char *want, vt_err *e);
/* Reads a PyTorch legacy stream, and sets st->format; statuses as vt_state_add's. */
vt_status vt_tensors_read_legacy(vt_tensors *st, const char *want, vt_err *e);
/* Renames or takes out what only training needs: common prefixes, normalisation layers (to the texts "mean", "std"),
 * bookkeeping tensors. VT_E_FORMAT: two layers that differ, or a name twice. */
vt_status vt_tensors_strip_training(vt_tensors *st, vt_err *e);
