/* SPDX-License-Identifier: MIT */
/* Text that is put together by writing to a stream. */
#ifndef VT_CORE_WRITTEN_H
#define VT_CORE_WRITTEN_H

#include <stdio.h>
#include "core/status.h"

/* *text = what write(f, data) wrote, the caller's to free; NULL where memory ran out. what: whose text it is, for the
 * sentence. */
vt_status vt_written(char **text, void (*write)(FILE *f, const void *data), const void *data, const char *what,
                     vt_err *e);

#endif
