/* SPDX-License-Identifier: MIT */
/* What timm and Hugging Face write beside a checkpoint: config.json and preprocessor_config.json. */
#ifndef VT_MODELS_CHECKPOINT_HUB_H
#define VT_MODELS_CHECKPOINT_HUB_H

#include <jansson.h>
#include "models/config.h"

typedef struct vt_hub {
    json_t *config, *pre; /* objects, or NULL */
    char config_path[512], pre_path[512];
} vt_hub;

/* Both files of the folder in which the weights are; a file that is not there is left NULL. */
vt_status vt_hub_open(vt_hub *h, const char *weights, vt_err *e);
vt_status vt_hub_parse(json_t **out, const char *bytes, size_t n, const char *path, vt_err *e);
void vt_hub_close(vt_hub *h);

/* A value of config.json: model_args.<key>, pretrained_cfg.<key>, or <key> at the top (the forms timm puts on the hub).
 */
const json_t *vt_hub_get(const vt_hub *h, const char *key);
/* timm's name of the architecture, without tag ("vit_tiny_patch16_224"), into out; false: none. */
bool vt_hub_architecture(const vt_hub *h, char *out, size_t size);
/* Does that name say OpenAI's activation (timm's vit_*_clip_quickgelu_*)? */
bool vt_hub_quick_gelu(const vt_hub *h);
/* Mean, or std, of pixels in [0,1], and which file said so; false: none does. Hugging Face's rescale_factor is in them.
 */
bool vt_hub_pixels(const vt_hub *h, bool std, double out[3], const char **from);
/* Resize and crop as io/transform reads them ("short:248,bicubic,crop:224"); false: nothing, or nothing of that form.
 */
bool vt_hub_transform(const vt_hub *h, char *out, size_t size, const char **from);
/* Side of the input in pixels; 0: not said. */
int vt_hub_image(const vt_hub *h);
/* A sentence if config.json contradicts what the tensors say (`weights` names them). */
vt_status vt_hub_check(const vt_hub *h, const vt_config *c, const char *weights, vt_err *e);

#endif
