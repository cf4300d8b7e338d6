/* SPDX-License-Identifier: MIT */
/* Which output of the model each class of the data is: as asked for, by the names of both, by ImageNet's wnids, else
 * in the order in which the classes stand (vt_dataset_fit_head). */
#ifndef VT_IO_CLASS_ORDER_H
#define VT_IO_CLASS_ORDER_H

#include "io/dataset.h"

/* d->asked, "text", "number" or a file with the name of one class a line in the model's order, becomes d->order.
 * VT_E_USAGE for a file that names a class twice, or not all; one that names more must name all outputs of the model.
 * d->names are known. */
vt_status vt_class_order(vt_dataset *d, vt_err *e);
/* Is d->asked a file that names all of these? */
vt_status vt_class_order_names(const vt_dataset *d, char *const *names, int n, bool *all, vt_err *e);

#endif
