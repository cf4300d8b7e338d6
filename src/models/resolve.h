/* What tensors cannot tell (heads, LayerNorm eps, attention scale, mean, std), from where people write it down:
 * options, a map, safetensors metadata, config.json beside the file, a preset of the same shape, timm's defaults. */
#ifndef VT_MODELS_RESOLVE_H
#define VT_MODELS_RESOLVE_H

#include "models/model.h"
#include "models/names.h"

/* c and src hold what the tensors told; fills the rest and `transform` (empty: nobody says), or fails with a sentence
 * that lists the choices. */
vt_status vt_config_resolve(vt_config *c, vt_source src, char transform[64], const vt_st *st, const vt_names *names,
                            const vt_overrides *o, vt_err *e);

#endif
