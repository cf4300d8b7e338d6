/* SPDX-License-Identifier: MIT */
/* Files that may be packed by gzip. */
#pragma once

#include "base/files.h"

#define VT_GZIP_TIMES 64                 /* what is unpacked takes at most this many times the file, */
#define VT_GZIP_SPARE ((size_t)64 << 20) /* and this */

/* vt_mapped_open of a file's contents: those of a file that begins as gzip does are unpacked into memory. A path
 * without a file stands for PATH.gz if that is there. */
vt_status vt_unpacked_open(vt_mapped *m, const char *path, vt_err *e);
