/* SPDX-License-Identifier: MIT */
/* The provenance of settings: explicit, assumed (a convention) or open. checkpoint/resolve marks them; here they become
 * sentences and options. Commands that show results refuse open ones (cli/known). */
#pragma once

#include "checkpoint/names.h"
#include "models/forms.h"

/* Where every value of a configuration comes from, and how sure it is; of preprocessing its text too (empty: none
 * known), and the names of the outputs as in vt_model, malloc'ed (NULL: none). */
typedef struct vt_provenance {
    vt_source source;
    vt_certainty certainty[VT_FIELD_COUNT];
    char transform[64];
    char unread[120]; /* what the file or its configuration holds and nothing here reads */
    char *labels;
} vt_provenance;
#define VT_FILE_SAYS "the file says" /* how the source of a mean or std begins that cannot be of pixels in [0,1] */
#define VT_OWN_METADATA "safetensors metadata"

/* Marks forms without a source in *t: known by `whole`, which describes the network as a whole (or NULL), else assumed
 * by convention, or open where none is usual. Names tell where tensors belong, not what is computed between them. */
void vt_provenance_defaults(const vt_config *c, vt_provenance *t, const vt_names *names, const char *whole);
/* Is it a field that tensors suggest and do not prove: which tokens are pooled, before or after the norm, ...? */
bool vt_provenance_suggested(vt_field f);
/* Marks as assumed in *t what metadata say was assumed ("act,ln_eps"; NULL: nothing), unless another source has it, and
 * sets what is not read (NULL: left). */
void vt_provenance_assumed(vt_provenance *t, const char *list, const char *unread);
/* Appends to t->unread the tensors that the names leave out and a classifier could have read (a pooler); nothing if an
 * option names the map. */
void vt_provenance_left_out(vt_provenance *t, const vt_names *names);

enum { VT_HEADS_MOST = 16 };
/* Fills out with likely numbers of heads, the likeliest first: divisors of the width that make heads 16 to 128 wide,
 * nearest to 64 first; if there are none, all. Returns how many. */
int vt_heads_likely(int dim, int out[VT_HEADS_MOST]);

/* Writes the open values with their possible ones, none before the others, "heads (2, 4, 8 or another divisor of 128),
 * ...", and the options that say them, with HEADS and the like in the places of values. Returns how many there are. */
int vt_model_missing(const vt_model *m, char *what, size_t what_size, char *options, size_t options_size);
/* Writes the values that are assumed, and what is not read: "activation gelu, pre-norm, ...". Returns how many. */
int vt_model_assumed(const vt_model *m, char *text, size_t size);
/* Writes which state dict of several was read: "state_dict was read, one of its parts ..."; false, buf left: an option
 * named it, or there is one alone. */
bool vt_model_part_text(const vt_model *m, char *buf, size_t size);
/* Writes the keys of values that are assumed or open, "act,post_norm", for metadata: what was not known is not known
 * better once it is copied. Returns how many. */
int vt_model_uncertain(const vt_model *m, char *text, size_t size);
