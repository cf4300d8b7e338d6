/* SPDX-License-Identifier: MIT */
/* What runs before the libraries begin (.preinit_array); only the C library is ready here.
 * 1. A package's command is built for every x86-64 machine (make LEVEL=x86-64-v2); the same sources built for AVX2
 *    (x86-64-v3) or AVX-512 (x86-64-v4) lie in ../libexec/vitrine/LEVEL, and the best that runs here is started.
 * 2. OpenBLAS 0.3.29 (Debian 13) takes a buffer for itself and one for each thread while it is loaded, and tries again
 *    without end if a limit leaves no memory for them: under a limit the program starts again with one thread, or ends
 *    with a sentence if there is no memory for one buffer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "cli/cli.h"
#include "linalg/gemm.h"
#include "base/mem.h"

bool vt_cli_own_path(char out[VT_PATH_MAX]) {
    ssize_t n = readlink("/proc/self/exe", out, VT_PATH_MAX - 1);
    if (n > 0) out[n] = 0;
    return n > 0;
}

#ifndef __SANITIZE_ADDRESS__ /* its own code may not run before it is ready, and no limit suits it */

/* ---- the build for this processor ---- */

#if defined VT_LEVEL_BASE && defined __x86_64__

/* Can this processor run code built for that level of x86-64? */
static bool cpu_supports_level(const char *level) {
    __builtin_cpu_init();
    if (!strcmp(level, "x86-64-v4")) return __builtin_cpu_supports("x86-64-v4");
    if (!strcmp(level, "x86-64-v3")) return __builtin_cpu_supports("x86-64-v3");
    return !strcmp(level, VT_LEVEL);
}

/* Returns the value of VITRINE_LEVEL, or NULL; getenv is not ready yet. */
static const char *requested_level(char **env) {
    static const char name[] = "VITRINE_LEVEL=";
    for (; *env; env++)
        if (!strncmp(*env, name, sizeof name - 1) && (*env)[sizeof name - 1]) return *env + sizeof name - 1;
    return NULL;
}

/* FOLDER/../libexec/vitrine/LEVEL/NAME of this program FOLDER/NAME (vitrine-mpi must not go on as vitrine); false: it
 * is not there. */
static bool find_level_binary(char *out, size_t size, const char *level) {
    char self[VT_PATH_MAX], *slash;
    if (!vt_cli_own_path(self) || !(slash = strrchr(self, '/'))) return false;
    int k = snprintf(out, size, "%.*s/../libexec/vitrine/%s%s", (int)(slash - self), self, level, slash);
    return k > 0 && (size_t)k < size && access(out, X_OK) == 0;
}

/* Refuses a VITRINE_LEVEL that cannot be run, with status 2. */
static void exit_bad_level(const char *level) {
    char text[300];
    int n = snprintf(text, sizeof text,
                     "vitrine: VITRINE_LEVEL is '%.60s', must be x86-64-v2, x86-64-v3 or x86-64-v4, and one that this "
                     "processor has and that is installed\n",
                     level);
    if (write(STDERR_FILENO, text, (size_t)n) < 0) _exit(2);
    _exit(2);
}

/* Starts the best installed build that this processor can run, or the one that VITRINE_LEVEL names; returns if this
 * program is it. */
static void start_best_build(char **argv, char **env) {
    static const char *const levels[] = {"x86-64-v4", "x86-64-v3"};
    char path[VT_PATH_MAX];
    const char *only = requested_level(env);
    if (only && !strcmp(only, VT_LEVEL)) return;
    for (int i = 0; i < 2; i++) {
        if (only && strcmp(only, levels[i])) continue;
        if (cpu_supports_level(levels[i]) && find_level_binary(path, sizeof path, levels[i])) execve(path, argv, env);
    }
    if (only) exit_bad_level(only);
}

#else

static void start_best_build(char **argv, char **env) { (void)argv, (void)env; }

#endif

/* ---- memory ---- */

#define ALONE "OPENBLAS_NUM_THREADS=1"

/* Does the environment limit OpenBLAS to one thread? */
static bool has_one_blas_thread(char **env) {
    for (; *env; env++)
        if (!strncmp(*env, ALONE, strlen(ALONE) - 1)) return !strcmp(*env, ALONE);
    return false;
}

/* Starts this program again with OpenBLAS limited to one thread; returns if that fails. */
static void restart_with_one_thread(char **argv, char **env) {
    size_t n = 0;
    while (env[n]) n++;
    char **with = calloc(n + 2, sizeof *with), self[VT_PATH_MAX];
    if (!with || !vt_cli_own_path(self)) return;
    with[0] = ALONE; /* the first of a name counts */
    memcpy(with + 1, env, n * sizeof *with);
    execve(self, argv, with);
    free(with);
}

/* Runs before main and the libraries: chooses the build, then checks that a memory limit leaves room for OpenBLAS. */
static void begin(int argc, char **argv, char **env) {
    static const char no[] =
        "vitrine: no memory for matrix products: OpenBLAS takes 128 MB (a higher limit, ulimit -v, would do)\n";
    struct rlimit most;
    (void)argc;
    start_best_build(argv, env);
    if (getrlimit(RLIMIT_AS, &most) || most.rlim_cur == RLIM_INFINITY) return;
    if (!has_one_blas_thread(env)) restart_with_one_thread(argv, env);
    if (vt_has_room(VT_BLAS_BUFFER)) return;
    if (write(STDERR_FILENO, no, sizeof no - 1) < 0) _exit(1);
    _exit(1);
}

__attribute__((section(".preinit_array"), used)) static void (*const first)(int, char **, char **) = begin;

#endif
