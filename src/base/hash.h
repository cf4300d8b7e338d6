/* SPDX-License-Identifier: MIT */
/* SHA-256 and base64 (libcrypto). */
#pragma once

#include <stddef.h>

typedef struct vt_sha vt_sha;
vt_sha *vt_sha_new(void); /* NULL: out of memory */
void vt_sha_update(vt_sha *s, const void *data, size_t bytes);
void vt_sha_end(vt_sha *s, char hex[65]); /* writes 64 hex digits and frees s */

void vt_sha_hex(const void *data, size_t bytes, char hex[65]);
/* Base64 (RFC 4648) of the bytes into out [4 * ceil(bytes / 3) + 1]; returns its length. */
size_t vt_base64(char *out, const void *data, size_t bytes);
