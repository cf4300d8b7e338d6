/* SPDX-License-Identifier: MIT */
#include "base/hash.h"

#define OPENSSL_API_COMPAT 0x10100000L /* sha.h: the interface that takes no memory, and so cannot fail */
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>

struct vt_sha {
    SHA256_CTX ctx;
};

vt_sha *vt_sha_new(void) {
    vt_sha *s = calloc(1, sizeof *s);
    if (s) SHA256_Init(&s->ctx);
    return s;
}

void vt_sha_update(vt_sha *s, const void *data, size_t bytes) { SHA256_Update(&s->ctx, data, bytes); }

static void write_hex(char hex[65], const unsigned char digest[SHA256_DIGEST_LENGTH]) {
    for (int i = 0; i < SHA256_DIGEST_LENGTH; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

void vt_sha_end(vt_sha *s, char hex[65]) {
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256_Final(digest, &s->ctx);
    write_hex(hex, digest);
    free(s);
}

void vt_sha_hex(const void *data, size_t bytes, char hex[65]) {
    unsigned char digest[SHA256_DIGEST_LENGTH];
    write_hex(hex, SHA256(data, bytes, digest));
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
