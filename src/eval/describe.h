/* What a reader of results must know of pixels and labels. */
#ifndef VT_EVAL_DESCRIBE_H
#define VT_EVAL_DESCRIBE_H

#include <jansson.h>
#include "io/dataset.h"

/* Adds to the header's "data", where there is something to say: "preprocess" (text), "jpeg" (the decoder's name),
 * "head" (outputs, present, restricted), and "notes", the sentences that every report shows. outputs: of the model. */
void vt_describe_data(json_t *data, const vt_dataset *d, int outputs);

#endif
