/* SPDX-License-Identifier: MIT */
/* Files that may be packed by gzip. */
#pragma once

#include "base/files.h"

#define VT_GZIP_TIMES 64                 /* what is unpacked takes at most this many times the file, */
#define VT_GZIP_SPARE ((size_t)64 << 20) /* and this */

/* Opens a file's contents as vt_mapped_open does, unpacked into memory if it begins as gzip does; without a file at
 * path, that of PATH.gz. VT_E_FORMAT: damaged, or over the limit above; VT_E_IO, VT_E_MEMORY. */
vt_status vt_unpacked_open(vt_mapped *m, const char *path, vt_err *e);
