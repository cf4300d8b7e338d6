/* SPDX-License-Identifier: MIT */
#include "base/hash.h"

#define OPENSSL_API_COMPAT 0x10100000L /* sha.h: the interface that takes no memory, and so cannot fail */
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdio.h>

_Static_assert(sizeof(vt_sha) >= sizeof(SHA256_CTX), "a vt_sha holds libcrypto's state");

void vt_sha_begin(vt_sha *s) { SHA256_Init((SHA256_CTX *)s); }

void vt_sha_update(vt_sha *s, const void *data, size_t bytes) { SHA256_Update((SHA256_CTX *)s, data, bytes); }

void vt_sha_end(vt_sha *s, char hex[65]) {
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256_Final(digest, (SHA256_CTX *)s);
    for (int i = 0; i < SHA256_DIGEST_LENGTH; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

void vt_sha_hex(const void *data, size_t bytes, char hex[65]) {
    vt_sha s;
    vt_sha_begin(&s);
    vt_sha_update(&s, data, bytes);
    vt_sha_end(&s, hex);
}

size_t vt_base64(char *out, const void *data, size_t bytes) {
    const unsigned char *from = data;
    size_t done = 0;
    enum { PIECE = 3 << 20 }; /* libcrypto counts in int */
    do {
        size_t n = bytes < PIECE ? bytes : PIECE;
        done += (size_t)EVP_EncodeBlock((unsigned char *)out + done, from, (int)n);
        from += n, bytes -= n;
    } while (bytes);
    return done;
}
