/* SPDX-License-Identifier: MIT */
#include "base/hash.h"

#define OPENSSL_API_COMPAT 0x10100000L /* sha.h: the interface that takes no memory, and so cannot fail */
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/files.h"

struct vt_sha {
    SHA256_CTX ctx;
};

vt_sha *vt_sha_new(void) {
    vt_sha *s = calloc(1, sizeof *s);
    if (s) SHA256_Init(&s->ctx);
    return s;
}

void vt_sha_update(vt_sha *s, const void *data, size_t bytes) { SHA256_Update(&s->ctx, data, bytes); }

static void finish_hex_digest(SHA256_CTX *ctx, char hex[65]) {
    unsigned char d[SHA256_DIGEST_LENGTH];
    SHA256_Final(d, ctx);
    for (int i = 0; i < SHA256_DIGEST_LENGTH; i++) snprintf(hex + 2 * i, 3, "%02x", d[i]);
}

void vt_sha_end(vt_sha *s, char hex[65]) {
    finish_hex_digest(&s->ctx, hex);
    free(s);
}

void vt_sha_hex(const void *data, size_t bytes, char hex[65]) {
    SHA256_CTX ctx;
    SHA256_Init(&ctx);
    SHA256_Update(&ctx, data, bytes);
    finish_hex_digest(&ctx, hex);
}

vt_status vt_sha_file(const char *path, char hex[65], vt_err *e) {
    FILE *f;
    VT_TRY(vt_file_stream(&f, path, e));
    SHA256_CTX ctx;
    char buf[1 << 16];
    size_t n = 0;
    SHA256_Init(&ctx);
    while ((n = fread(buf, 1, sizeof buf, f)) > 0) SHA256_Update(&ctx, buf, n);
    int bad = ferror(f);
    fclose(f);
    finish_hex_digest(&ctx, hex);
    return bad ? vt_fail(e, VT_E_IO, "%s: read error while hashing", path) : VT_OK;
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
