/* SPDX-License-Identifier: MIT */
/* A batcher: one engine seen as several classifiers, one for each row of its batch. A classifier's call sleeps in its
 * pool's fiber until all fibers of the pool wait; then their calls of one kind are one batch of the engine. So an
 * attack is straight-line code for one image, and the model still sees batches. Gradients and double logits come first,
 * so that no forward overwrites what a gradient still needs; forwards run when no other calls wait, which keeps the
 * fibers in step. */
#pragma once

#include "parallel/fibers.h"
#include "inference/classifier.h"

typedef struct vt_batcher vt_batcher;

/* Takes over what *n holds (also on failure). The fibers of `pool`, which must outlive the batcher, are the engine's
 * rows: as many as its capacity. pool NULL, and a capacity of 1: calls are answered at once. */
vt_status vt_batcher_open(vt_batcher **g, vt_engine *n, vt_fiber_pool *pool, vt_err *e);
void vt_batcher_close(vt_batcher *g); /* accepts NULL */
/* Returns the classifier of a fiber, to be used inside that fiber alone. Closing it closes what was put around it
 * since, and leaves the batcher. */
vt_classifier vt_batcher_classifier(vt_batcher *g, int slot);
/* Makes *c, a classifier of one image, of an engine of capacity 1; takes over what *n holds (also on failure). */
vt_status vt_classifier_of(vt_classifier *c, vt_engine *n, vt_err *e);
/* Serves the n batchers, for the pool's job: answers the calls for which its fibers sleep. */
void vt_batchers_serve(vt_batcher *const *g, int n);
