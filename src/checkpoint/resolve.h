/* SPDX-License-Identifier: MIT */
/* What tensors cannot tell (heads, norm order, activation, LayerNorm eps, attention scale, mean, std), from where
 * people write it down: options, a map, safetensors metadata, config.json beside the file; and what is supposed where
 * nobody did: a shipped map's word, a preset of the same shape, defaults. */
#pragma once

#include "checkpoint/provenance.h"

/* c and provenance->source hold what the tensors say; fills the rest. What nobody tells is set to the likeliest value
 * and marked in provenance->certainty; contradictions and values out of range fail. */
vt_status vt_config_resolve(vt_config *c, vt_provenance *provenance, const vt_tensors *st, const vt_names *names,
                            const vt_overrides *o, vt_err *e);
