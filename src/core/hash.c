/* SPDX-License-Identifier: MIT */
#include "core/hash.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/files.h"

struct vt_sha {
    EVP_MD_CTX *ctx;
};

vt_sha *vt_sha_new(void) {
    vt_sha *s = calloc(1, sizeof *s);
    if (s && (s->ctx = EVP_MD_CTX_new()) && EVP_DigestInit_ex(s->ctx, EVP_sha256(), NULL)) return s;
    if (s) EVP_MD_CTX_free(s->ctx);
    free(s);
    return NULL;
}

void vt_sha_update(vt_sha *s, const void *data, size_t bytes) { EVP_DigestUpdate(s->ctx, data, bytes); }

void vt_sha_end(vt_sha *s, char hex[65]) {
    unsigned char d[EVP_MAX_MD_SIZE] = {0};
    EVP_DigestFinal_ex(s->ctx, d, NULL);
    for (int i = 0; i < 32; i++) snprintf(hex + 2 * i, 3, "%02x", d[i]);
    EVP_MD_CTX_free(s->ctx);
    free(s);
}

void vt_sha_hex(const void *data, size_t bytes, char hex[65]) {
    unsigned char d[EVP_MAX_MD_SIZE] = {0};
    EVP_Digest(data, bytes, d, NULL, EVP_sha256(), NULL);
    for (int i = 0; i < 32; i++) snprintf(hex + 2 * i, 3, "%02x", d[i]);
}

vt_status vt_sha_file(const char *path, char hex[65], vt_err *e) {
    FILE *f;
    VT_TRY(vt_file_stream(&f, path, e));
    vt_sha *s = vt_sha_new();
    char buf[1 << 16];
    size_t n = 0;
    while (s && (n = fread(buf, 1, sizeof buf, f)) > 0) vt_sha_update(s, buf, n);
    int bad = ferror(f);
    fclose(f);
    if (!s) return vt_fail(e, VT_E_MEMORY, "%s: no memory to hash it", path);
    vt_sha_end(s, hex);
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
