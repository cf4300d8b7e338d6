/* SPDX-License-Identifier: MIT */
/* Text that is put together by writing to a stream in memory. */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include "base/status.h"

/* A stream into memory that says in the end whether all of it was kept. (glibc's open_memstream does not: where memory
 * runs out in the middle it leaves the rest out, in its fclose all of it, and calls both a success.) */
typedef struct vt_text_stream {
    FILE *stream;
    char *text;
    size_t n, room; /* length; bytes taken */
    bool short_of;  /* there was no memory for some of it */
} vt_text_stream;
FILE *vt_text_stream_open(vt_text_stream *w);  /* NULL: no memory; vt_text_stream_close is then still to be called */
char *vt_text_stream_close(vt_text_stream *w); /* the text, w->n bytes and a 0 behind, to be freed; NULL: no memory */

/* *text = what write(f, data) wrote, the caller's to free; NULL where memory ran out. what: whose text it is, for the
 * sentence. */
vt_status vt_text_of(char **text, void (*write)(FILE *f, const void *data), const void *data, const char *what,
                     vt_err *e);
