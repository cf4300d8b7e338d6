/* SPDX-License-Identifier: MIT */
/* Entries of a zip archive (libzip) in memory. What is stored plainly is handed out in place, what is deflated is
 * inflated once. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

/* All that is inflated from an archive together: at most VT_ZIP_SPARE bytes and VT_ZIP_TIMES its size. */
#define VT_ZIP_SPARE ((size_t)16 << 20)
#define VT_ZIP_TIMES 32

typedef struct vt_zip vt_zip;
/* Opens an archive in memory; VT_E_FORMAT, *out NULL: it is none. `bytes`, and `path`, which only names them, must
 * outlive the handle. */
vt_status vt_zip_open(vt_zip **out, const uint8_t *bytes, size_t n, const char *path, vt_err *e);
void vt_zip_close(vt_zip *z); /* accepts NULL; frees what was inflated */

/* One entry of a new archive: `head`, then data. */
typedef struct vt_zip_part {
    char name[300], head[512];
    const void *data;
    size_t n_head, bytes;
} vt_zip_part;
/* Writes n parts as an archive, stored, without a time of day: the same parts give the same bytes. Complete or not at
 * all. */
vt_status vt_zip_write(const char *path, const vt_zip_part *parts, int n, vt_err *e);

/* Returns the number of entries. */
int64_t vt_zip_count(const vt_zip *z);
/* Returns the name of entry i; "" if it has none. */
const char *vt_zip_name(const vt_zip *z, int64_t i);
int64_t vt_zip_find(const vt_zip *z, const char *name); /* -1: not there */
/* Sets *bytes [*n] to entry i's content, in the archive or inflated once, until vt_zip_close. VT_E_FORMAT: damaged,
 * encrypted, over the limit. Checksums are verified of deflated entries alone, as torch.load does for none. */
vt_status vt_zip_entry(vt_zip *z, int64_t i, const uint8_t **bytes, size_t *n, vt_err *e);
