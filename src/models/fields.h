/* SPDX-License-Identifier: MIT */
/* The values of a network's configuration in words: their keys, labels and texts. */
#pragma once

#include "models/model.h"

/* What a value is called in metadata, maps, --form and results.json: "ln_eps". */
const char *vt_field_key(vt_field f);
/* Its label and text for people: "activation", "gelu"; 64 bytes suffice. */
const char *vt_field_label(vt_field f);
void vt_field_text(const vt_model *m, vt_field f, char *buf, size_t size);
/* Is it shown? Every value of all networks is; a form, where it differs from timm's ViT or a source names it. */
bool vt_field_shown(const vt_model *m, vt_field f);
