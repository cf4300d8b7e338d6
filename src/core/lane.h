/* SPDX-License-Identifier: MIT */
/* A lane: one thread that runs several items at a time, each in a slot with a stack of its own. An item whose question
 * is better answered together with others' sleeps in the middle of its code; when all slots sleep, the lane has what
 * was asked answered, and those whose answer is there go on where they were. Code that runs in a slot stays
 * straight-line and knows nothing of its neighbours. Everything happens on the thread that calls vt_lane_run: nothing
 * needs a lock.
 *
 * A lane of one slot takes no stack: its item runs on the caller's, and is answered at once. */
#ifndef VT_CORE_LANE_H
#define VT_CORE_LANE_H

#include <stdbool.h>
#include <stddef.h>
#include "core/status.h"

enum { VT_LANE_MOST = 1024 };             /* slots */
#define VT_LANE_STACK ((size_t)256 << 10) /* bytes of a slot's stack; a page below it cannot be touched */

typedef struct vt_lane vt_lane;

typedef struct vt_lane_job {
    /* The next item for this slot; false: it stays empty from now on. */
    bool (*next)(void *ctx, int slot, size_t *item);
    /* One item, in its slot. The first status that is not VT_OK ends the lane: nothing more is begun, items at work go
     * to their end. */
    vt_status (*run)(void *ctx, int slot, size_t item, vt_err *e);
    /* All slots that are at work sleep: answers at least one, by vt_lane_wake. Runs on the thread's own stack. */
    void (*serve)(void *ctx);
    void *ctx;
} vt_lane_job;

/* VT_E_RANGE: not 1 to VT_LANE_MOST slots. */
vt_status vt_lane_open(vt_lane **l, int slots, vt_err *e);
void vt_lane_close(vt_lane *l); /* accepts NULL; not inside vt_lane_run */
size_t vt_lane_bytes(int slots);

/* Runs items until there is none left. */
vt_status vt_lane_run(vt_lane *l, const vt_lane_job *j, vt_err *e);
/* In a slot: until it is woken. */
void vt_lane_sleep(vt_lane *l);
/* In serve: the slot's answer is there. */
void vt_lane_wake(vt_lane *l, int slot);

#endif
