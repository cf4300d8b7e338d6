/* SPDX-License-Identifier: MIT */
#include "parallel/threads.h"

#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "linalg/gemm.h"
#include "base/mem.h"

typedef struct queue {
    vt_item_fn fn;
    vt_commit_fn commit;
    void *ctx;
    pthread_mutex_t lock;
    pthread_cond_t turn;
    size_t next; /* to be committed */
    bool failed;
} queue;

/* Runs an item, and commits it when all lower ones are. Item i was taken after every lower one, so each item that is
 * waited for is being worked on: no deadlock. */
static vt_status run_item_in_order(void *ctx, int thread, size_t item, vt_err *e) {
    queue *q = ctx;
    vt_status s = q->fn(q->ctx, thread, item, e);
    pthread_mutex_lock(&q->lock);
    while (q->next != item && !q->failed) pthread_cond_wait(&q->turn, &q->lock);
    if (s != VT_OK) q->failed = true;
    if (!q->failed) q->commit(q->ctx, thread, item);
    q->next = item + 1;
    pthread_cond_broadcast(&q->turn);
    pthread_mutex_unlock(&q->lock);
    return s;
}

vt_status vt_for_each_in_order(size_t n, int threads, vt_item_fn fn, vt_commit_fn commit, void *ctx, vt_err *e) {
    queue q = {.fn = fn, .commit = commit, .ctx = ctx};
    pthread_mutex_init(&q.lock, NULL);
    pthread_cond_init(&q.turn, NULL);
    vt_status s = vt_for_each(n, threads, run_item_in_order, &q, e);
    pthread_cond_destroy(&q.turn);
    pthread_mutex_destroy(&q.lock);
    return s;
}

/* Fails if there is no memory for that many threads, for which OpenMP would end the process. Its threads stay, so each
 * number is tried once. */
static vt_status reserve_thread_memory(int threads, vt_err *e) {
    static atomic_int started = 1;
    pthread_attr_t attr;
    size_t stack = 0;
    VT_TRY(vt_blas_reserve(threads, e));
    if (threads <= atomic_load(&started)) return VT_OK;
    if (pthread_attr_init(&attr) == 0) {
        pthread_attr_getstacksize(&attr, &stack);
        pthread_attr_destroy(&attr);
    }
    if (stack && !vt_has_room((size_t)(threads - 1) * stack))
        return vt_fail(e, VT_E_MEMORY, "no memory for the stacks of %d threads, %zu MB each (fewer @threads help)",
                       threads, stack >> 20);
    atomic_store(&started, threads);
    return VT_OK;
}

typedef struct items {
    vt_item_fn fn;
    void *ctx;
    size_t n;
    atomic_size_t next;
    atomic_int first; /* status that is not VT_OK */
    vt_err *e;
} items;

/* Takes and runs items until none is left or one has failed. */
static void run_items(items *a, int thread) {
    size_t i;
    while (atomic_load(&a->first) == VT_OK && (i = atomic_fetch_add(&a->next, 1)) < a->n) {
        vt_err mine = {0};
        vt_status s = a->fn(a->ctx, thread, i, &mine);
        int none = VT_OK;
        if (s != VT_OK && atomic_compare_exchange_strong(&a->first, &none, (int)s) && a->e) *a->e = mine;
    }
}

#ifdef __SANITIZE_THREAD__
/* The sanitizer sees the beginnings and ends of POSIX threads, but not of OpenMP's. */
typedef struct part {
    items *a;
    int thread;
    pthread_t id;
} part;

static void *thread_entry(void *p) {
    run_items(((part *)p)->a, ((part *)p)->thread);
    return NULL;
}

static void run_in_parallel(items *a, int threads) {
    part parts[VT_THREADS_MOST];
    for (int k = 1; k < threads; k++) {
        parts[k] = (part){.a = a, .thread = k};
        if (pthread_create(&parts[k].id, NULL, thread_entry, &parts[k]) != 0) __builtin_trap();
    }
    run_items(a, 0);
    for (int k = 1; k < threads; k++) pthread_join(parts[k].id, NULL);
}
#else
static void run_in_parallel(items *a, int threads) {
#pragma omp parallel num_threads(threads)
    run_items(a, omp_get_thread_num());
}
#endif

vt_status vt_for_each(size_t n, int threads, vt_item_fn fn, void *ctx, vt_err *e) {
    items a = {.fn = fn, .ctx = ctx, .n = n, .e = e};
    if ((size_t)threads > n) threads = n ? (int)n : 1;
    if (e) VT_TRY(reserve_thread_memory(threads, e));
    run_in_parallel(&a, threads);
    return (vt_status)atomic_load(&a.first);
}
