/* SPDX-License-Identifier: MIT */
/* A pool: one thread that runs several items at a time, each in a fiber with a stack of its own. An item with
 * a request that is better served together with others' sleeps in the middle of its code; when all fibers sleep, the
 * pool serves the requests, and the fibers that were served continue. Code that runs in a fiber is straight-line and
 * independent of the others. Everything happens on the thread that calls vt_fiber_run: nothing needs a lock. A pool of
 * one fiber takes no stack: its item runs on the caller's, and is served at once. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "base/status.h"

enum { VT_FIBER_MOST = 1024 };             /* fibers */
#define VT_FIBER_STACK ((size_t)256 << 10) /* bytes of a fiber's stack; a page below it cannot be touched */

typedef struct vt_fiber_pool vt_fiber_pool;

typedef struct vt_fiber_job {
    /* The next item for this fiber; false: it stays empty from now on. */
    bool (*next)(void *ctx, int slot, size_t *item);
    /* One item, in its fiber. The first status that is not VT_OK ends the pool: nothing more is begun, items at work go
     * to their end. */
    vt_status (*run)(void *ctx, int slot, size_t item, vt_err *e);
    /* All fibers that are at work sleep: answers at least one, by vt_fiber_wake. Runs on the thread's own stack. */
    void (*serve)(void *ctx);
    void *ctx;
} vt_fiber_job;

/* Opens a pool of `slots` fibers; VT_E_RANGE: not 1 to VT_FIBER_MOST. */
vt_status vt_fiber_open(vt_fiber_pool **l, int slots, vt_err *e);
void vt_fiber_close(vt_fiber_pool *l); /* accepts NULL; not inside vt_fiber_run */
size_t vt_fiber_bytes(int slots);      /* the bytes that a pool takes */

/* Runs items until there is none left, or one fails: returns the first failure, with its sentence. */
vt_status vt_fiber_run(vt_fiber_pool *l, const vt_fiber_job *j, vt_err *e);
/* Puts the fiber that calls it to sleep until it is woken; in a pool of one fiber calls serve instead. */
void vt_fiber_sleep(vt_fiber_pool *l);
/* Marks a sleeping fiber, inside serve, as ready to go on: its answer is there. */
void vt_fiber_wake(vt_fiber_pool *l, int slot);
