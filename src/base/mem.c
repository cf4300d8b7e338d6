/* SPDX-License-Identifier: MIT */
#include "base/mem.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

bool vt_mul(size_t a, size_t b, size_t *out) { return !__builtin_mul_overflow(a, b, out); }
bool vt_add(size_t a, size_t b, size_t *out) { return !__builtin_add_overflow(a, b, out); }

bool vt_grow(void *array, size_t n, size_t item) {
    void **p = array;
    if (n & (n - 1)) return true;
    if (n > INT32_MAX / 2) return false;
    void *more = realloc(*p, (n ? 2 * n : 1) * item);
    if (more) *p = more;
    return more != NULL;
}

void *vt_alloc(size_t bytes) {
    if (bytes > SIZE_MAX - 64) return NULL;
    size_t rounded = (bytes + 63) / 64 * 64;
    void *p = aligned_alloc(64, rounded ? rounded : 64);
    if (p) memset(p, 0, rounded ? rounded : 64);
    return p;
}

bool vt_has_room(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p != MAP_FAILED && munmap(p, bytes) == 0;
}

/* Returns the smaller of `most` (0: unlimited) and the control group's limit that a file holds, in bytes; "max" and
 * absent files leave `most`. */
static size_t group_limit(const char *path, size_t most) {
    FILE *f = fopen(path, "r");
    unsigned long long n;
    if (f && fscanf(f, "%llu", &n) == 1 && (!most || n < most)) most = (size_t)n;
    if (f) fclose(f);
    return most;
}

size_t vt_memory(void) {
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    size_t most = pages > 0 && size > 0 ? (size_t)pages * (size_t)size : 0;
    most = group_limit("/sys/fs/cgroup/memory.max", most);
    most = group_limit("/sys/fs/cgroup/memory/memory.limit_in_bytes", most);
    struct rlimit r;
    return getrlimit(RLIMIT_AS, &r) == 0 && (!most || r.rlim_cur < most) ? (size_t)r.rlim_cur : most;
}

vt_status vt_memory_check(const char *what, size_t bytes, vt_err *e) {
    size_t have = vt_memory();
    if (!have || bytes <= have) return VT_OK;
    return vt_fail(e, VT_E_MEMORY, "%s would need %.1f GiB of memory, this machine has %.1f GiB", what,
                   (double)bytes / 1073741824, (double)have / 1073741824);
}

void *vt_arena_take(vt_arena *a, size_t count, size_t item) {
    const size_t most = SIZE_MAX - 127; /* a multiple of 64, so that rounding up stays below it */
    size_t bytes;
    if (!vt_mul(count, item, &bytes) || bytes > most - a->used) {
        a->used = most; /* makes the later allocation fail instead of the arithmetic */
        return NULL;
    }
    if (count > a->longest) a->longest = count;
    void *p = a->base ? a->base + a->used : NULL;
    a->used += (bytes + 63) / 64 * 64;
    return p;
}
