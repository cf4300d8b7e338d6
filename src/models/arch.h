/* SPDX-License-Identifier: MIT */
/* What an architecture is, whatever the precision: a file arch_*.c. What it computes is another file, net/net_*.c
 * (models/net/session.h: vt_arch_ops), which a session finds by the same name. */
#pragma once

#include "tensors/tensors.h"
#include "models/config.h"

struct vt_model;

/* Members marked [may be NULL] fall back on what a ViT does. */
typedef struct vt_arch {
    const char *name, *summary;
    /* Are these the tensors of this architecture, by canonical (timm's) names? True for its own files alone. */
    bool (*recognises)(const vt_tensors *st);
    /* Fills what tensors tell and says so in src; leaves zero what they cannot tell (checkpoint/resolve does the
     * rest). A ln_eps set here, with no source, is the architecture's default. */
    vt_status (*detect)(const vt_tensors *st, vt_config *c, vt_source src, vt_err *e);
    /* Sets what a file leaves open when neither its tensors nor anything else tell: values that are not zero. They are
     * written to no metadata. [may be NULL] */
    void (*defaults)(vt_config *c);
    /* Combinations that it has not; path is never NULL. [may be NULL] */
    vt_status (*check)(const vt_config *c, const char *path, vt_err *e);
    /* Parameter table of a configuration. */
    void (*params)(vt_param_list *l, const vt_config *c);
    /* After the initialisation that the table describes: what it cannot. [may be NULL] */
    void (*init)(struct vt_model *m, uint64_t seed);
    /* Tokens that the first block sees, for people. [may be NULL] */
    int (*tokens)(const vt_config *c);
    /* Attention blocks: those that vt_model_matrix and branch_open count. [may be NULL: depth] */
    int (*blocks)(const vt_config *c);
    /* What the names of such a block's tensors begin with; returns its heads. [may be NULL: "blocks.i.", heads] */
    int (*locate)(const vt_config *c, int block, char *prefix, size_t size);
    /* Floating-point operations (2 per multiply-add) of the matrix products of one image's forward, and of a gradient
     * step with respect to the input: of an image alone, or of one among a batch, which may take more. */
    void (*flops)(const vt_config *c, bool alone, double *forward, double *gradient);
    bool any_image;       /* tensors do not always tell the image's side: saved files carry it in their metadata */
    bool no_token_maps;   /* no attention of all tokens to all: L_AM has nothing to hold on to */
    bool shows_attention; /* its operations have a `view`: attention can be looked at */
} vt_arch;

/* Returns all architectures; *n: how many. */
const vt_arch *const *vt_archs(int *n);
const vt_arch *vt_arch_find(const char *name); /* NULL: unknown */
