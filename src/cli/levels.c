/* SPDX-License-Identifier: MIT */
#include "cli/levels.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined VT_LEVEL_BASE && defined __x86_64__

static bool cpu_supports_level(const char *level) {
    __builtin_cpu_init();
    if (!strcmp(level, "x86-64-v4")) return __builtin_cpu_supports("x86-64-v4");
    if (!strcmp(level, "x86-64-v3")) return __builtin_cpu_supports("x86-64-v3");
    return !strcmp(level, VT_LEVEL);
}

static const char *requested_level(char **env) {
    static const char name[] = "VITRINE_LEVEL=";
    for (; *env; env++)
        if (!strncmp(*env, name, sizeof name - 1) && (*env)[sizeof name - 1]) return *env + sizeof name - 1;
    return NULL;
}

/* FOLDER/../libexec/vitrine/LEVEL/NAME of this program FOLDER/NAME (vitrine-mpi must not go on as vitrine); false: it
 * is not there. */
static bool find_level_binary(char *out, size_t size, const char *level) {
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0) return false;
    self[n] = 0;
    char *slash = strrchr(self, '/');
    if (!slash) return false;
    int k = snprintf(out, size, "%.*s/../libexec/vitrine/%s%s", (int)(slash - self), self, level, slash);
    return k > 0 && (size_t)k < size && access(out, X_OK) == 0;
}

static void exit_bad_level(const char *level) {
    char text[300];
    int n = snprintf(text, sizeof text,
                     "vitrine: VITRINE_LEVEL is '%.60s', must be x86-64-v2, x86-64-v3 or x86-64-v4, and one that this "
                     "processor has and that is installed\n",
                     level);
    if (write(STDERR_FILENO, text, (size_t)n) < 0) _exit(2);
    _exit(2);
}

void vt_levels_choose(char **argv, char **env) {
    static const char *const levels[] = {"x86-64-v4", "x86-64-v3"};
    char path[4096];
    const char *only = requested_level(env);
    if (only && !strcmp(only, VT_LEVEL)) return;
    for (int i = 0; i < 2; i++) {
        if (only && strcmp(only, levels[i])) continue;
        if (cpu_supports_level(levels[i]) && find_level_binary(path, sizeof path, levels[i])) execve(path, argv, env);
    }
    if (only) exit_bad_level(only);
}

#else

void vt_levels_choose(char **argv, char **env) { (void)argv, (void)env; }

#endif
