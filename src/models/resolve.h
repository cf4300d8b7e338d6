/* What tensors cannot tell (heads, LayerNorm eps, attention scale, mean, std), from where people write it down:
 * options, safetensors metadata, config.json beside the file, a preset of the same shape, timm's defaults. */
#ifndef VT_MODELS_RESOLVE_H
#define VT_MODELS_RESOLVE_H

#include "io/safetensors.h"
#include "models/model.h"

/* c and src hold what the tensors told; fills the rest or fails with a sentence that lists the choices. */
vt_status vt_config_resolve(vt_config *c, vt_source src, const vt_st *st, const vt_overrides *o, vt_err *e);

#endif
