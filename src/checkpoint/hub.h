/* SPDX-License-Identifier: MIT */
/* What timm and Hugging Face write beside a checkpoint, config.json and preprocessor_config.json, and what timm's
 * train.py writes into one: its arguments. */
#pragma once

#include <jansson.h>
#include "models/config.h"

typedef struct vt_hub {
    json_t *config, *pre, *args; /* objects, or NULL */
    char args_from[72];          /* "timm's training arguments in last.pth.tar" */
    char config_path[512], pre_path[512];
} vt_hub;

/* Sets *h to both files of the folder in which the weights are, and the arguments in them (vt_tensors.args); what is
 * not there is left NULL. VT_E_FORMAT: one is no JSON object; h is then closed. */
vt_status vt_hub_open(vt_hub *h, const char *weights, const char *args, vt_err *e);
/* Parses n bytes as a JSON object. VT_E_FORMAT: they are none; path: for sentences. */
vt_status vt_hub_parse(json_t **out, const char *bytes, size_t n, const char *path, vt_err *e);
/* Accepts a zeroed one. */
void vt_hub_close(vt_hub *h);

/* A value of config.json: model_args.<key>, pretrained_cfg.<key>, or <key> at the top (the forms timm puts on the hub);
 * else of the arguments: model_kwargs.<key>, or <key>. *from names which; NULL: neither has it, or holds null. */
const json_t *vt_hub_get(const vt_hub *h, const char *key, const char **from);
/* Finds the first key, by the order of vt_hub_get, that holds a number; returns it as a text of 17 digits in buf [32],
 * or NULL. */
const char *vt_hub_number(const vt_hub *h, const char *const *keys, char *buf, const char **from);
/* Returns a value of timm's training arguments alone, or NULL. */
const json_t *vt_hub_args(const vt_hub *h, const char *key);
/* Reads an array of three numbers; false: it is none. */
bool vt_hub_triple(const json_t *v, double out[3]);
/* A value in the words of a form (models/forms); NULL: none that it understands. */
const char *vt_hub_word(const json_t *v, char *buf, size_t size);
/* timm's name of the architecture, without tag ("vit_tiny_patch16_224"), into out, and its source; false: none. */
bool vt_hub_architecture(const vt_hub *h, char *out, size_t size, const char **from);
/* Mean, or std, of pixels in [0,1], and which file said so; false: none does. Hugging Face's rescale_factor is in them.
 */
bool vt_hub_pixels(const vt_hub *h, bool std, double out[3], const char **from);
/* Writes resize and crop as data/transform reads them ("short:248,bicubic,crop:224") into out, and into *from which
 * file says so; false: nothing, or nothing of that form. */
bool vt_hub_transform(const vt_hub *h, char *out, size_t size, const char **from);
/* Side of the input in pixels; 0: not said. */
int vt_hub_image(const vt_hub *h, const char **from);
/* The keys that no table here understands (hub_keys.c), "block_x, rotary": a file with one describes no network as a
 * whole. Empty: none. */
void vt_hub_unread(const vt_hub *h, char *buf, size_t size);
/* Does it name a class of transformers that classifies images? */
bool vt_hub_classifies(const vt_hub *h);
/* VT_E_FORMAT, with a sentence: a key's value, or the architecture by its name, is of a network that is not
 * computed. */
vt_status vt_hub_computed(const vt_hub *h, const char *weights, vt_err *e);
/* The activation that an architecture of timm has by its name, or NULL. */
const char *vt_hub_act(const char *name);
/* Writes the names of the outputs, one a line and a tab between two names of one: `own`, or config.json's id2label, or
 * timm's label_names and label_descriptions. *out: malloc'ed, or NULL with VT_OK where not all have one. */
vt_status vt_hub_labels(const vt_hub *h, int classes, const char *own, char **out, vt_err *e);
/* VT_E_SHAPE, with a sentence: config.json, or the arguments, contradict what the tensors say (`weights` names
 * them). */
vt_status vt_hub_check(const vt_hub *h, const vt_config *c, const char *weights, vt_err *e);
