/* SPDX-License-Identifier: MIT */
#include "core/written.h"

#include <stdbool.h>
#include <stdlib.h>

vt_status vt_written(char **text, void (*write)(FILE *f, const void *data), const void *data, const char *what,
                     vt_err *e) {
    size_t size;
    *text = NULL;
    FILE *f = open_memstream(text, &size);
    if (f) write(f, data);
    bool good = f && !ferror(f);
    if (f && fclose(f) != 0) good = false;
    if (good) return VT_OK;
    free(*text), *text = NULL;
    return vt_fail(e, VT_E_MEMORY, "%s: no memory to put its text together", what);
}
