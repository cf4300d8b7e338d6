/* SPDX-License-Identifier: MIT */
#include "parallel/threads.h"

#include <limits.h>
#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/files.h"
#include "linalg/gemm.h"
#include "base/mem.h"
#include "base/opt.h"

typedef struct queue {
    vt_item_fn fn;
    vt_commit_fn commit;
    void *ctx;
    pthread_mutex_t lock;
    pthread_cond_t turn;
    size_t next; /* to be committed */
    bool failed;
} queue;

/* Runs an item, and commits it when all lower ones are, unless one has failed. Item i was taken after every lower one,
 * so each item that is waited for is being worked on: no deadlock. */
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

/* VT_E_MEMORY if there is no memory for that many threads, for which OpenMP would end the process, or their products.
 * Threads stay, so each number is tried once. */
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

/* Takes and runs items until none is left or one has failed: a->first and *a->e get the first failure. */
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

/* Runs run_items on `threads` threads at once, this one among them. */
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

/* ---- the control group's quota ---- */

/* Returns the processors that a folder of the cgroup file system grants: microseconds of computing over their period;
 * INFINITY: no limit. Version 2: cpu.max, "max 100000" or "150000 100000"; version 1 (`first`): two files, -1 for no
 * limit. */
static double cpu_quota_of_dir(const char *dir, bool first) {
    char path[VT_PATH_MAX], quota[32] = "";
    double period = 0;
    FILE *f = vt_path(path, dir, first ? "cpu.cfs_quota_us" : "cpu.max") ? fopen(path, "r") : NULL;
    if (f && fscanf(f, "%31s %lf", quota, &period) < 1) quota[0] = 0;
    if (f) fclose(f);
    f = first && vt_path(path, dir, "cpu.cfs_period_us") ? fopen(path, "r") : NULL;
    if (f && fscanf(f, "%lf", &period) != 1) period = 0;
    if (f) fclose(f);
    double most = atof(quota);
    return most > 0 && period > 0 ? most / period : INFINITY;
}

/* Returns the least quota of a group and all groups around it, INFINITY without one; `group` is cut. first: cgroup
 * version 1. In a container the path may be the host's, which is not there: then the mounted folder is the container's
 * own. */
static double smallest_group_quota(const char *mount, char *group, bool first) {
    char dir[VT_PATH_MAX];
    double most = INFINITY;
    for (;;) {
        if (snprintf(dir, sizeof dir, "%s%s", mount, group) < (int)sizeof dir)
            most = fmin(most, cpu_quota_of_dir(dir, first));
        char *slash = strrchr(group, '/');
        if (!slash) return most;
        *slash = 0;
    }
}

/* Returns the processors granted to the group that a line of /proc/self/cgroup names, INFINITY for no limit; the line
 * is cut. "0::/group" of version 2, "4:cpu,cpuacct:/group" of version 1. */
static double quota_of_line(const char *root, char *line) {
    static const char *const mounts[] = {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"};
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
    char mount[VT_PATH_MAX], again[VT_PATH_MAX];
    double most = INFINITY;
    if (!group) return most;
    *group++ = 0, controllers++;
    group[strcspn(group, "\n")] = 0;
    if (!*controllers) {
        snprintf(mount, sizeof mount, "%.4000s/sys/fs/cgroup", root);
        return smallest_group_quota(mount, group, false);
    }
    char all[VT_PATH_MAX];
    snprintf(all, sizeof all, ",%.4000s,", controllers);
    for (size_t i = 0; strstr(all, ",cpu,") && i < sizeof mounts / sizeof *mounts; i++) {
        snprintf(mount, sizeof mount, "%.4000s%s", root, mounts[i]);
        snprintf(again, sizeof again, "%s", group);
        most = fmin(most, smallest_group_quota(mount, again, true));
    }
    return most;
}

int vt_cgroup_cpus(const char *root) {
    char path[VT_PATH_MAX], line[VT_PATH_MAX];
    double most = INFINITY;
    FILE *f = vt_path(path, root, "proc/self/cgroup") ? fopen(path, "r") : NULL;
    while (f && fgets(line, sizeof line, f)) most = fmin(most, quota_of_line(root, line));
    if (f) fclose(f);
    return most < VT_THREADS_MOST ? (int)ceil(most) : 0; /* one and a half processors keep two threads busy */
}

/* ---- how many threads ---- */

static int smaller_int(int a, int b) { return a < b ? a : b; }

/* Sets *out to the first number of OMP_NUM_THREADS, which has one for each level of nesting; VT_E_USAGE unless all are
 * 1 to VT_THREADS_MOST. */
static vt_status parse_omp_num_threads(const char *text, int *out, vt_err *e) {
    char list[200], *rest = NULL;
    long long n = 0;
    *out = 0;
    bool good = snprintf(list, sizeof list, "%s", text) < (int)sizeof list;
    for (char *word = strtok_r(list, ", \t", &rest); word && good; word = strtok_r(NULL, ", \t", &rest)) {
        good = vt_parse_int(word, &n) && n >= 1 && n <= VT_THREADS_MOST;
        if (!*out) *out = (int)n;
    }
    if (good && *out) return VT_OK;
    return vt_fail(e, VT_E_USAGE,
                   "OMP_NUM_THREADS is '%.40s', must be a number of threads from 1 to %d, or several with commas "
                   "between "
                   "(or give @threads)",
                   text, VT_THREADS_MOST);
}

vt_status vt_thread_count(int *out, vt_err *e) {
    const char *text = getenv("OMP_NUM_THREADS");
    if (text && text[strspn(text, " \t")]) return parse_omp_num_threads(text, out, e);
    int quota = vt_cgroup_cpus("");
    *out = smaller_int(omp_get_num_procs(), VT_THREADS_MOST); /* those of the affinity mask */
    if (quota) *out = smaller_int(*out, quota);
    return VT_OK;
}
