/* SPDX-License-Identifier: MIT */
/* The one place that starts threads: a loop over independent items (images), each on one thread, BLAS on one thread.
 * No barriers inside; threads take the next item when they are free. */
#pragma once

#include <stddef.h>
#include "base/status.h"

enum { VT_THREADS_MOST = 1024 };
/* Returns how many threads to use by default: OMP_NUM_THREADS (VT_E_USAGE if it is no such number), else the processors
 * of the affinity mask, no more than the control group's quota pays for. */
vt_status vt_thread_count(int *out, vt_err *e);
/* Returns the control group's quota of processors, rounded up, of cgroup version 1 or 2 from the files below `root`
 * ("": those of this machine); 0: none. */
int vt_cgroup_cpus(const char *root);

/* fn(ctx, thread, item) for every item in [0, n); thread in [0, threads). The first status that is not VT_OK ends the
 * loop (items already running finish) and is returned; e receives that call's sentence. VT_E_MEMORY before the first
 * item when there is no memory for the stacks of the threads or for their products (vt_blas_reserve). With e NULL the
 * loop is one that cannot fail, whose items multiply no matrices: no memory is reserved. */
typedef vt_status (*vt_item_fn)(void *ctx, int thread, size_t item, vt_err *e);
/* Runs fn for items 0 to n - 1 on at most `threads` threads; see vt_item_fn for failures. */
vt_status vt_for_each(size_t n, int threads, vt_item_fn fn, void *ctx, vt_err *e);

/* Runs the loop of vt_for_each; after fn(item) the thread waits its turn and calls commit(ctx, thread, item): one at a
 * time, in the order of items, none after a failure. A sum formed in commit has the same bits for any number of
 * threads. */
typedef void (*vt_commit_fn)(void *ctx, int thread, size_t item);
vt_status vt_for_each_in_order(size_t n, int threads, vt_item_fn fn, vt_commit_fn commit, void *ctx, vt_err *e);
