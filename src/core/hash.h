/* SHA-256 (libcrypto), incremental and whole-file. */
#ifndef VT_CORE_HASH_H
#define VT_CORE_HASH_H

#include <stddef.h>
#include "core/status.h"

typedef struct vt_sha vt_sha;
vt_sha *vt_sha_new(void); /* NULL: out of memory */
void vt_sha_update(vt_sha *s, const void *data, size_t bytes);
void vt_sha_end(vt_sha *s, char hex[65]); /* writes 64 hex digits and frees s */

void vt_sha_hex(const void *data, size_t bytes, char hex[65]);
vt_status vt_sha_file(const char *path, char hex[65], vt_err *e);

#endif
