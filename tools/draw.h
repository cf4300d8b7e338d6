/* SPDX-License-Identifier: MIT */
/* A ten-class set of 32x32 RGB images of shapes and textures, drawn from a seed: small enough to travel with
 * the program, hard enough that clean accuracy stays below 100 %. Integer arithmetic only, so that the bytes
 * are the same on every machine, compiler and thread count. */
#ifndef VT_TOOLS_DRAW_H
#define VT_TOOLS_DRAW_H

#include <stdint.h>
#include "base/status.h"

#define VT_DRAW_CLASSES 10
#define VT_DRAW_SIDE 32
#define VT_DRAW_BYTES (3 * VT_DRAW_SIDE * VT_DRAW_SIDE)
#define VT_DRAW_MAX 10000000 /* images a split */

/* Writes dir/data_batch_1.bin (train images), dir/test_batch.bin (test images), both in the CIFAR-10 binary
 * format, and dir/batches.meta.txt; makes `dir` if it is missing. Overwrites nothing, and leaves all three
 * files or, when it fails, none. */
vt_status vt_draw_write(const char *dir, int64_t train, int64_t test, uint64_t seed, vt_err *e);

#endif
