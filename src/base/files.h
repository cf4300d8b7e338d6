/* SPDX-License-Identifier: MIT */
/* Files: paths, files read whole, and files that appear complete or not at all. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "base/hash.h"
#include "base/status.h"

#define VT_PATH_MAX 4096

bool vt_path(char out[VT_PATH_MAX], const char *dir, const char *name); /* writes dir/name; false: too long */
/* Writes dir/name; VT_E_IO "DIR: path is too long". */
vt_status vt_path_in(char out[VT_PATH_MAX], const char *dir, const char *name, vt_err *e);
bool vt_ends_in(const char *path, const char *end); /* whether path ends in `end`, after something else */
bool vt_is_folder(const char *path);                /* links are followed */
/* Makes dir and its parents, unless they are there; VT_E_IO if it cannot or one is no folder. */
vt_status vt_make_dir(const char *dir, vt_err *e);
/* Makes dir, and in it `below` and its parents. VT_E_IO also if one of these is a link: what is written below dir stays
 * there. */
vt_status vt_make_dir_in(const char *dir, const char *below, vt_err *e);

/* ---- opening and reading ---- */

/* Opens a regular file without waiting; how: O_RDONLY, or O_RDWR and what goes with it, which follow no link. *size:
 * its bytes (may be NULL). VT_E_IO, with *fd -1: it cannot, or is anything else. */
vt_status vt_file_open(int *fd, int64_t *size, const char *path, int how, vt_err *e);
/* Opens a regular file for reading, as a stream. On failure *f is NULL. */
vt_status vt_file_stream(FILE **f, const char *path, vt_err *e);
/* Writes the SHA-256 of a regular file as 64 hex digits and a 0; VT_E_IO if it cannot be read. */
vt_status vt_sha_file(const char *path, char hex[65], vt_err *e);
/* Reads up to the first n bytes of a regular file; returns how many there were, 0 if it cannot be read. */
size_t vt_file_start(const char *path, void *bytes, size_t n);

/* Reads all of a regular file into *text, malloc'ed, with a 0 after it. VT_E_FORMAT: more than `most` bytes; VT_E_IO,
 * VT_E_MEMORY. On failure *text is NULL. */
vt_status vt_file_load(const char *path, size_t most, char **text, size_t *n, vt_err *e);
/* Reads all of a file or pipe, as vt_file_load; VT_E_IO also for a pipe without writer. */
vt_status vt_file_read(const char *path, size_t most, char **text, size_t *n, vt_err *e);
/* Reads a file or pipe as text, malloc'ed. VT_E_FORMAT: more than `most` bytes, or a byte 0 in it; else as
 * vt_file_read. */
vt_status vt_file_text(const char *path, size_t most, char **text, vt_err *e);
#define VT_FILE_ANY ((size_t)1 << 40) /* no limit of ours: memory is */

/* A whole regular file, mapped into memory for reading. If it is cut while it is mapped, a look at what was cut off
 * ends in a signal (SIGBUS) and cannot return. The command has a sentence for it (vt_cli_guard_mapped); the library
 * installs no handler in its user's process. */
typedef struct vt_mapped {
    const uint8_t *bytes; /* of an empty file: NULL */
    size_t n;
} vt_mapped;
/* Maps a file; on failure *m is empty. */
vt_status vt_mapped_open(vt_mapped *m, const char *path, vt_err *e);
/* Maps what `write` writes, as if it were a file; it lies in memory alone. what: for sentences. */
vt_status vt_mapped_make(vt_mapped *m, const char *what, vt_status (*write)(const void *ctx, FILE *to, vt_err *e),
                         const void *ctx, vt_err *e);
void vt_mapped_close(vt_mapped *m); /* safe twice */
/* Hashes the bytes from `from` on; pages leave memory as they are done with. */
void vt_mapped_hash(const vt_mapped *m, size_t from, vt_sha *sha);
/* Lets bytes [at, at + n) leave memory until they are looked at again; pages shared with neighbours stay. */
void vt_mapped_release(const vt_mapped *m, size_t at, size_t n);

/* ---- writing ---- */

/* Runs fsync, again when a signal ends it; returns 0 or an errno. A file system without it (EINVAL) counts as 0. */
int vt_sync(int fd);
/* Writes all of data at an offset, or nothing: a partial write (full disk) is cut off again. */
vt_status vt_write_at(int fd, const void *data, size_t n, int64_t offset, const char *dir, const char *name, vt_err *e);
/* Locks a file against other writers, until it is closed. false: another process held the lock for a third of a second
 * (after a kill the kernel frees it with a delay). true if the file system has no locks, as some of NFS. */
bool vt_file_lock(int fd);
/* Removes dir/name if it is there; reports nothing. */
void vt_remove_in(const char *dir, const char *name);

/* ---- whole files ---- */

/* A file written beside its place under a new name, which no other process can have prepared, then made durable and
 * renamed; it is there complete or, on any failure, as before. If its place is taken by anything but a
 * regular file (a link, a device), it is refused: a link is neither followed, out of the folder, nor lost. */
typedef struct vt_file {
    FILE *stream;
    int folder, fd; /* fd: stream's */
    char path[VT_PATH_MAX], temp[VT_PATH_MAX + 64];
} vt_file;
/* Begins the file dir/name; f->stream takes its bytes. VT_E_IO, with nothing to abandon: it cannot, or the place is
 * taken. */
vt_status vt_file_begin(vt_file *f, const char *dir, const char *name, vt_err *e);
/* Begins the file at path, as vt_file_begin does dir/name. */
vt_status vt_file_begin_path(vt_file *f, const char *path, vt_err *e);
/* Opens f again after a library wrote (and may replace) `temp` by its name: goes on with what it left there. VT_E_IO: f
 * is as before, to be abandoned. */
vt_status vt_file_reopen(vt_file *f, vt_err *e);
/* Makes what was written durable and gives it its name; ends f in any case. VT_E_IO: the place is as before. */
vt_status vt_file_commit(vt_file *f, vt_err *e);
/* Removes what was written; the place is as before. */
void vt_file_abandon(vt_file *f);

/* The parts, one after another, as a whole file. */
typedef struct vt_span {
    const void *data;
    size_t bytes;
} vt_span;
/* Writes the n parts as the file at path, complete or not at all. */
vt_status vt_file_replace(const char *path, const vt_span *parts, int n, vt_err *e);

/* Checks a path: VT_OK if nothing is there or a regular file, so that a whole file may be put there; else VT_E_IO. */
vt_status vt_file_place(const char *path, vt_err *e);
/* Fails with VT_E_USAGE if a file is at the path that does not begin with `start`, as what is to replace it does: it
 * may be anything of the user's. */
vt_status vt_file_may_replace(const char *path, const char *start, vt_err *e);
/* As vt_file_place before long work, also that its folder is there and takes a file: begins one and removes it. */
vt_status vt_file_writable(const char *path, vt_err *e);
/* Whether it is the name of a file that is being written, or that a killed writer left. */
bool vt_file_is_temporary(const char *name);
/* Removes what killed writers left in dir and, `levels` - 1 deep, in its folders. The caller must have locked dir. */
void vt_file_tidy(const char *dir, int levels);

/* Sets *text = what write(f, data) wrote, to be freed; NULL: no memory, which a sentence says of `what`. */
vt_status vt_text_of(char **text, void (*write)(FILE *f, const void *data), const void *data, const char *what,
                     vt_err *e);
