/* SPDX-License-Identifier: MIT */
/* From what was chosen (the texts of a command line's options, or of a run's folder) to model, data and input. The
 * order: data, then the model, whose side the first image may tell, then the input that both decide. Sentences name the
 * options. */
#pragma once

#include "base/opt.h"
#include "data/dataset.h"
#include "models/model.h"

/* Where the pixels that the model sees come from. */
typedef struct vt_input_provenance {
    char from[96];    /* who asked for the data's transform: "preprocess", "the model's own: config.json"; empty: nobody
                       */
    const char *left; /* text of the model's own where it was left out, since the images have its size; NULL: none */
} vt_input_provenance;

/* What people call a checkpoint: its file, or the folder of a model.safetensors, in printable ASCII; the same however
 * the path was typed. Runs of the same weights under two names are one (vt_header_difference). */
enum { VT_WEIGHTS_NAME = 128 };
/* Writes the name of the checkpoint at a path, links followed; of a path that does not exist, its last part. */
void vt_weights_name(char *out, size_t size, const char *path);

/* Fills *o with heads, image-size, mean, std, ln-eps, attn-scale, preset, attn, form, names, part and what is said of
 * ONNX: what tensors cannot tell. VT_E_USAGE names a bad one. Texts are borrowed from c. */
vt_status vt_prepare_overrides(const vt_choices *c, vt_overrides *o, vt_err *e);
/* Opens a checkpoint, an ONNX file too, for long computations (vt_model_prepare); *out is NULL after a failure. */
vt_status vt_prepare_open(vt_model **out, const char *path, const vt_overrides *o, vt_err *e);
/* Opens the data by the choices data, split, corruption, severity, class-order, preprocess. VT_E_USAGE: none named, or
 * a bad choice. */
vt_status vt_prepare_data(const vt_choices *c, vt_dataset **out, vt_err *e);
/* Opens the checkpoint with the options of vt_prepare_overrides. Where nothing else tells the side of its input and
 * attack-at is not given, that of image `first` counts, if it is square. */
vt_status vt_prepare_model(const vt_choices *c, const char *path, const vt_dataset *d, int32_t first, vt_model **out,
                           vt_err *e);
/* Sets d->transform and m->config.native, data and model being open, from preprocess, attack-at and what the model
 * carries; `first` is an image of the run, whose size decides. story: for the report. VT_E_SHAPE: no square. */
vt_status vt_prepare_input(const vt_choices *c, vt_model *m, vt_dataset *d, int32_t first, vt_input_provenance *story,
                           vt_err *e);
/* Prepares the input (vt_prepare_input), gives d the model's labels and sets which outputs are compared: the data's
 * classes within the model's, or with restrict-classes these alone. */
vt_status vt_prepare_fit(const vt_choices *c, vt_model *m, vt_dataset *d, int32_t first, vt_input_provenance *story,
                         vt_err *e);
/* Applies attack-at to m without a data set: native (a file, an option or `side`, in pixels, must say the side; 0:
 * unknown), model, or absent. VT_E_USAGE: another word, no side, or native for an ONNX file. */
vt_status vt_prepare_attack_at(const vt_choices *c, vt_model *m, int side, vt_err *e);
