/* SPDX-License-Identifier: MIT */
/* Preloaded into a program under test (helpers.bash: hold): stops its own process with SIGSTOP once it has N times
   written to a file called NAME, or renamed another file to it. GATE=NAME:N says which. A test then does what it wants
   to the stopped process, however busy the machine is; SIGCONT lets it go on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_long seen;

static void count(const char *path) {
    const char *gate = getenv("GATE"), *colon = gate ? strrchr(gate, ':') : NULL, *last = strrchr(path, '/');
    size_t length = colon ? (size_t)(colon - gate) : 0;
    last = last ? last + 1 : path;
    if (!colon || strlen(last) != length || memcmp(last, gate, length) != 0) return;
    if (atomic_fetch_add(&seen, 1) + 1 == atol(colon + 1)) kill(getpid(), SIGSTOP);
}

static void count_file(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return;
    path[length] = '\0';
    count(path);
}

/* the library's own function behind a name */
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *data, size_t n) {
    ssize_t done = NEXT(write)(fd, data, n);
    if (done > 0) count_file(fd);
    return done;
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at) {
    ssize_t done = NEXT(pwrite)(fd, data, n, at);
    if (done > 0) count_file(fd);
    return done;
}

int renameat(int from, const char *old, int to, const char *name) {
    int failed = NEXT(renameat)(from, old, to, name);
    if (!failed) count(name);
    return failed;
}

int renameat2(int from, const char *old, int to, const char *name, unsigned flags) {
    int failed = NEXT(renameat2)(from, old, to, name, flags);
    if (!failed) count(name);
    return failed;
}
