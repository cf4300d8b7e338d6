/* SPDX-License-Identifier: MIT */
/* Memory: checked products, aligned blocks, and an arena for "plan, then run": sizes are added up from shapes
 * first, one block is taken at open, and the hot path only hands out pieces of it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "base/status.h"

/* Sets *out = a * b; false on overflow, *out untouched. */
bool vt_mul(size_t a, size_t b, size_t *out);
/* Sets *out = a + b; false on overflow, *out untouched. */
bool vt_add(size_t a, size_t b, size_t *out);

/* Makes room for one more item in a malloc'ed array (a pointer to its pointer) of n items, whose room is always the
 * next power of two and at most 2^31. false: no memory, the array is as it was. */
bool vt_grow(void *array, size_t n, size_t item);
/* Returns a zeroed block aligned to 64 bytes, NULL when there is no memory; free() releases it. */
void *vt_alloc(size_t bytes);

/* Returns whether this process can map that many bytes more now. Limits on addresses (ulimit -v) count, a shortage of
 * the machine's memory does not. */
bool vt_has_room(size_t bytes);

/* Returns the bytes that this process may ever hold: the machine's memory, its control group's share of it, or its
 * limit on addresses (ulimit -v); 0: unknown. */
size_t vt_memory(void);
/* Fails with VT_E_MEMORY if `bytes` exceed vt_memory, unless that is unknown: "WHAT would need 9.5 GiB of memory, this
 * machine has 7.8 GiB". */
vt_status vt_memory_check(const char *what, size_t bytes, vt_err *e);

/* One block carved from the front. With base NULL it only measures: vt_arena_take returns NULL and adds up
 * `used`, so the same carving code first plans and then runs. */
typedef struct vt_arena {
    char *base;
    size_t used, size, longest; /* longest: items of the longest piece */
} vt_arena;
/* Takes the next `count` items of `item` bytes, aligned to 64: adds them to `used`, never compared with `size`, and
 * raises `longest`. NULL while it only measures, or on overflow, after which `used` is more than any block. */
void *vt_arena_take(vt_arena *a, size_t count, size_t item);
