/* A ten-class set of 32x32 RGB images of shapes and textures, drawn from a seed: small enough to travel with
 * the program, hard enough that clean accuracy stays below 100 %. Integer arithmetic only, so that the bytes
 * are the same on every machine, compiler and thread count. */
#ifndef VT_IO_DRAW_H
#define VT_IO_DRAW_H

#include <stdint.h>
#include "core/status.h"

#define VT_DRAW_CLASSES 10
#define VT_DRAW_SIDE 32
#define VT_DRAW_BYTES (3 * VT_DRAW_SIDE * VT_DRAW_SIDE)
#define VT_DRAW_MAX 10000000 /* images a split */

/* "disc", ...; NULL outside [0, VT_DRAW_CLASSES). */
const char *vt_draw_class_name(int label);

/* Picture `index` of a seed, as class `label` (in [0, VT_DRAW_CLASSES)); rgb is planar (3, 32, 32). */
void vt_draw_image(uint8_t rgb[VT_DRAW_BYTES], int label, uint64_t seed, uint64_t index);

/* Label of picture `index`: every ten consecutive indices hold each class once, in an order of their own. */
int vt_draw_label(uint64_t seed, uint64_t index);

/* Index of image i of a split; the two splits never meet. */
uint64_t vt_draw_train_index(int64_t i);
uint64_t vt_draw_test_index(int64_t i);

/* Writes dir/data_batch_1.bin (train images), dir/test_batch.bin (test images), both in the CIFAR-10 binary
 * format, and dir/batches.meta.txt; makes `dir` if it is missing. Overwrites nothing, and leaves all three
 * files or, when it fails, none. */
vt_status vt_draw_write(const char *dir, int64_t train, int64_t test, uint64_t seed, vt_err *e);

#endif
