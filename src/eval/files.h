/* Small file chores of a run directory: paths, whole files, and files that appear complete or not at all. */
#ifndef VT_EVAL_FILES_H
#define VT_EVAL_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "core/status.h"

#define VT_PATH_MAX 4096

bool vt_path(char out[VT_PATH_MAX], const char *dir, const char *name); /* false: too long */
/* Makes dir and its parents. */
vt_status vt_make_dir(const char *dir, vt_err *e);
vt_status vt_read_file(const char *path, char **text, size_t *n, vt_err *e);
/* All of data at an offset, or nothing: a partial write (full disk) is cut off again. */
vt_status vt_write_at(int fd, const void *data, size_t n, int64_t offset, const char *dir, const char *name, vt_err *e);
void vt_remove_in(const char *dir, const char *name);

/* dir/name written under a temporary name, then fsynced and renamed. */
typedef struct vt_file {
    FILE *stream;
    char path[VT_PATH_MAX], temp[VT_PATH_MAX + 8];
} vt_file;
vt_status vt_file_begin(vt_file *f, const char *dir, const char *name, vt_err *e);
vt_status vt_file_begin_path(vt_file *f, const char *path, vt_err *e); /* the same, for a path in one piece */
vt_status vt_file_commit(vt_file *f, vt_err *e);
void vt_file_abandon(vt_file *f);

#endif
