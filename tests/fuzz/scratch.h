/* SPDX-License-Identifier: MIT */
/* Files of a fuzz target's own, removed when it ends: in memory where there is such a folder, for writers sync at every
 * input. */
#ifndef FUZZ_SCRATCH_H
#define FUZZ_SCRATCH_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SCRATCH_FILES = 20 };

static char scratch_folder[64], scratch_files[SCRATCH_FILES][96];
static int scratch_count;

static inline void scratch_clean(void) {
    while (scratch_count > 0) remove(scratch_files[--scratch_count]);
    rmdir(scratch_folder);
}

/* The path of one more file (or folder, before what lies in it) in the folder, which the first call makes. */
static inline const char *scratch(const char *name) {
    if (!*scratch_folder) {
        const char *base = access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm";
        snprintf(scratch_folder, sizeof scratch_folder, "%s/vitrine-fuzz-XXXXXX", base);
        if (!mkdtemp(scratch_folder) || atexit(scratch_clean)) abort();
    }
    if (scratch_count == SCRATCH_FILES) abort();
    char *path = scratch_files[scratch_count++];
    snprintf(path, sizeof *scratch_files, "%s/%s", scratch_folder, name);
    return path;
}

static inline void scratch_write(const char *path, const void *bytes, size_t n) {
    FILE *f = fopen(path, "wb");
    if (!f || (n && fwrite(bytes, 1, n, f) != n) || fclose(f)) abort();
}

#endif
