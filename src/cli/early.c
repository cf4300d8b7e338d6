/* SPDX-License-Identifier: MIT */
/* Before the libraries begin. OpenBLAS 0.3.29 (Debian 13) takes a buffer for itself and one for each thread that it
 * starts while it is loaded, long before main, and where a limit leaves no memory for them it asks again without end.
 * What stands in .preinit_array runs before that: under a limit this starts the program again with one thread, and ends
 * it with a sentence where there is no room for one buffer. A package's command goes on as a faster one first. No
 * library is ready here, the C library's memory and system calls are. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "cli/levels.h"
#include "linalg/gemm.h"
#include "base/mem.h"

#ifndef __SANITIZE_ADDRESS__ /* whose code may not run before it is ready itself, and which no limit suits */

#define ALONE "OPENBLAS_NUM_THREADS=1"

static bool has_one_blas_thread(char **env) {
    for (; *env; env++)
        if (!strncmp(*env, ALONE, strlen(ALONE) - 1)) return !strcmp(*env, ALONE);
    return false;
}

static void again_alone(char **argv, char **env) {
    size_t n = 0;
    while (env[n]) n++;
    char **with = calloc(n + 2, sizeof *with), self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (!with || length < 0) return;
    self[length] = 0;
    with[0] = ALONE; /* the first of a name counts */
    memcpy(with + 1, env, n * sizeof *with);
    execve(self, argv, with);
    free(with);
}

static void begin(int argc, char **argv, char **env) {
    static const char no[] =
        "vitrine: no memory for matrix products: OpenBLAS takes 128 MB (a higher limit, ulimit -v, "
        "would do)\n";
    struct rlimit most;
    (void)argc;
    vt_levels_choose(argv, env);
    if (getrlimit(RLIMIT_AS, &most) || most.rlim_cur == RLIM_INFINITY) return;
    if (!has_one_blas_thread(env)) again_alone(argv, env);
    if (vt_has_room(VT_BLAS_BUFFER)) return;
    if (write(STDERR_FILENO, no, sizeof no - 1) < 0) _exit(1);
    _exit(1);
}

__attribute__((section(".preinit_array"), used)) static void (*const first)(int, char **, char **) = begin;

#endif
