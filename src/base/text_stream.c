/* SPDX-License-Identifier: MIT */
#include "base/text_stream.h"

#include <stdlib.h>
#include <string.h>

static ssize_t append_bytes(void *cookie, const char *data, size_t n) {
    vt_text_stream *w = cookie;
    if (n >= w->room - w->n) {
        size_t room = 2 * (w->n + n) + 1;
        char *more = w->short_of ? NULL : realloc(w->text, room);
        if (!more) {
            w->short_of = true;
            return 0;
        }
        w->text = more, w->room = room;
    }
    memcpy(w->text + w->n, data, n);
    w->text[w->n += n] = 0;
    return (ssize_t)n;
}

FILE *vt_text_stream_open(vt_text_stream *w) {
    *w = (vt_text_stream){.text = calloc(1, 1), .room = 1};
    if (w->text) w->stream = fopencookie(w, "w", (cookie_io_functions_t){.write = append_bytes});
    if (!w->stream) free(w->text), w->text = NULL;
    return w->stream;
}

char *vt_text_stream_close(vt_text_stream *w) {
    if (w->stream && fclose(w->stream) != 0) w->short_of = true;
    if (w->short_of) free(w->text), w->text = NULL;
    return w->text;
}

vt_status vt_text_of(char **text, void (*write)(FILE *f, const void *data), const void *data, const char *what,
                     vt_err *e) {
    vt_text_stream w;
    FILE *f = vt_text_stream_open(&w);
    if (f) write(f, data);
    *text = vt_text_stream_close(&w);
    return *text ? VT_OK : vt_fail(e, VT_E_MEMORY, "%s: no memory to put its text together", what);
}
