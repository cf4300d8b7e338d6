/* SPDX-License-Identifier: MIT */
/* Weights of any kind of file, as one checked handle, vt_tensors (safetensors.h): tensors, texts, and notes on what was
 * found. docs/formats.md lists what is read, what is refused, and why. */
#pragma once

#include "tensors/safetensors.h"

/* `path` is recognised by its content: safetensors, an index of shards (model.safetensors.index.json), a PyTorch file
 * (zip or legacy), or a folder that holds such files. A wrapper around the state dict ("state_dict", "model", ...) is
 * looked through; `want` (NULL: by the table in state_dict.c) names the entry to take instead, say "model_ema", or
 * "ema.module" of an entry within one; safetensors have none. Prefixes that all names share ("module.", ...) are
 * stripped, and a normalisation layer becomes the texts "mean" and "std" (vt_tensors_meta). Nothing of a pickle is ever
 * executed. */
vt_status vt_weights_open(vt_tensors **out, const char *path, const char *want, vt_err *e);
/* The same on bytes in memory, which must outlive the handle; `path` only names them. No index, no folder. */
vt_status vt_weights_parse(vt_tensors **out, const uint8_t *bytes, size_t n, const char *path, const char *want,
                           vt_err *e);

/* All tensors of a file that is no checkpoint, under their names: of what torch.save wrote, keys and places in lists
 * joined by dots ("adv_complete", "0", "a.1"; a tensor alone is ""), whatever holds them. */
vt_status vt_saved_open(vt_tensors **out, const char *path, vt_err *e);

const char *vt_tensors_format(const vt_tensors *st); /* "safetensors", "PyTorch zip", "PyTorch legacy" ... */
/* The name that tensor i has in its file; NULL past the end. */
const char *vt_tensors_origin(const vt_tensors *st, int i);

/* part: the entry that was read, "ema.module"; "": the file is no wrapper. parts: the names of the state dicts among
 * which it was chosen, "model, ema"; inside: those of its dictionaries with tensors, if no tensor stands beside them
 * ("generator, critic": one model or several); else "". */
const char *vt_tensors_part(const vt_tensors *st);
const char *vt_tensors_parts(const vt_tensors *st);
const char *vt_tensors_inside(const vt_tensors *st);

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
const vt_note *vt_tensors_note(const vt_tensors *st, int i);

/* What timm's training arguments in a .pth say of the network and its pixels, as the text of a JSON object (`mean`,
 * `std`, `model_kwargs`, ... by their names there; `gp` is "global_pool"). NULL: the file has none. */
const char *vt_tensors_args(const vt_tensors *st);

/* SHA-256 of the bytes of the file; of several shards, of one after another in the order of their names. */
vt_status vt_weights_sha(const vt_tensors *st, char hex[65], vt_err *e);
/* The tensor's pages of the file may leave memory (they come back when looked at again): call it after a large tensor
 * has been converted, and the file and its copy are never in memory together. */
void vt_tensors_release(const vt_tensors *st, const vt_tensor *t);

/* What a file is that people often give in place of weights or images, by its first bytes, and what to do, to stand
 * after "is ": "an ONNX model: ..."; NULL: none that is known. */
const char *vt_unsupported_file(const uint8_t *bytes, size_t n);
