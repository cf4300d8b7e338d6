/* SPDX-License-Identifier: MIT */
/* SHA-256 and base64 (libcrypto). */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* A hash under way; takes no memory and cannot fail. */
typedef struct vt_sha {
    uint64_t state[16]; /* libcrypto's */
} vt_sha;
/* Begins a hash of nothing. */
void vt_sha_begin(vt_sha *s);
/* Adds bytes to the hash. */
void vt_sha_update(vt_sha *s, const void *data, size_t bytes);
/* Ends the hash: writes its 64 hex digits and a 0. */
void vt_sha_end(vt_sha *s, char hex[65]);
/* Writes the SHA-256 of the bytes as 64 hex digits and a 0. */
void vt_sha_hex(const void *data, size_t bytes, char hex[65]);
/* Writes Base64 (RFC 4648) of the bytes into out [4 * ceil(bytes / 3) + 1]; returns its length. */
size_t vt_base64(char *out, const void *data, size_t bytes);
