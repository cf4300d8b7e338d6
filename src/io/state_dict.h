/* SPDX-License-Identifier: MIT */
/* From the tree of a pickle to the tensors of a state dict. */
#ifndef VT_IO_STATE_DICT_H
#define VT_IO_STATE_DICT_H

#include "io/pickle.h"

/* Where a file keeps its storages; asked only for those whose tensors are wanted. */
typedef struct vt_stores {
    vt_status (*find)(void *ctx, const vt_node_store *s, const uint8_t **bytes, size_t *n, vt_err *e);
    void *ctx;
    bool big_endian;
} vt_stores;

/* Adds the state dict inside root to st, with notes on the rest; want as in vt_weights_open. */
vt_status vt_state_add(vt_tensors *st, vt_node *root, const vt_stores *from, const char *want, vt_err *e);
/* The dictionary of training arguments, a Namespace's or one itself; NULL: it is neither. */
const vt_node *vt_state_args(const vt_node *n);
/* Keeps in st->args what they tell, where they are timm's. */
vt_status vt_timm_args(vt_tensors *st, const vt_node *args, vt_err *e);
/* The names of the model's outputs, where the file has them beside the weights: the text "labels", one a line. */
vt_status vt_pickled_names(vt_tensors *st, const vt_node *root, vt_err *e);
/* One tensor: in place when it is contiguous and little-endian, else gathered into memory of st. */
vt_status vt_state_tensor(vt_tensors *st, const char *name, const vt_node_tensor *t, const vt_stores *from, vt_err *e);

#endif
