/* SPDX-License-Identifier: MIT */
/* A whole file, mapped into memory for reading. */
#ifndef VT_IO_MAPPED_H
#define VT_IO_MAPPED_H

#include <stddef.h>
#include <stdint.h>
#include "core/hash.h"
#include "core/status.h"

typedef struct vt_mapped {
    const uint8_t *bytes; /* of an empty file: NULL */
    size_t n;
} vt_mapped;

/* Regular files only. A file that is cut while it is mapped ends in a signal (SIGBUS): a look at what was cut off
 * cannot return. The command has a sentence for it (vt_cli_guard_mapped); the library installs no handler in its user's
 * process. */
vt_status vt_mapped_open(vt_mapped *m, const char *path, vt_err *e);
void vt_mapped_close(vt_mapped *m); /* safe twice */
/* Hashes the bytes from `from` on; pages leave memory as they are done with. */
void vt_mapped_hash(const vt_mapped *m, size_t from, vt_sha *sha);
/* Bytes [at, at + n) may leave memory until they are looked at again; pages shared with neighbours stay. */
void vt_mapped_release(const vt_mapped *m, size_t at, size_t n);

#endif
