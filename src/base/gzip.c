/* SPDX-License-Identifier: MIT */
#include "base/gzip.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>
#include "base/mem.h"

enum { PIECE = 1 << 16 };

/* A file in memory, so that vt_mapped_release may give its pages back. */
typedef struct unpacked {
    const char *path;
    int fd;
    size_t n, most;
} unpacked;

/* Appends n bytes to u's file and counts them in u->n; VT_E_FORMAT if that exceeds u->most. */
static vt_status write_piece(unpacked *u, const uint8_t *bytes, size_t n, vt_err *e) {
    if (n > u->most - u->n)
        return vt_fail(e, VT_E_FORMAT, "%s: unpacks to more than %zu bytes (%d times its size and %zu MB)", u->path,
                       u->most, VT_GZIP_TIMES, VT_GZIP_SPARE >> 20);
    for (size_t done = 0; done < n;) {
        ssize_t k = write(u->fd, bytes + done, n - done);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return vt_fail(e, VT_E_MEMORY, "%s: no memory to unpack it: %s", u->path, strerror(errno));
        done += (size_t)k;
    }
    u->n += n;
    return VT_OK;
}

/* Unpacks gzip's members one after another into u, joined. VT_E_FORMAT: damaged, cut, or more than u->most bytes. */
static vt_status unpack_members(unpacked *u, z_stream *z, const vt_mapped *from, vt_err *e) {
    uint8_t out[PIECE];
    size_t left = from->n;
    z->next_in = (Bytef *)(uintptr_t)from->bytes;
    for (int r = Z_OK;;) {
        if (!z->avail_in) z->avail_in = left < PIECE ? (uInt)left : PIECE, left -= z->avail_in;
        if (!z->avail_in)
            return r == Z_STREAM_END ? VT_OK : vt_fail(e, VT_E_FORMAT, "%s: is cut: gzip's end is missing", u->path);
        if (r == Z_STREAM_END && inflateReset(z) != Z_OK) return vt_fail(e, VT_E_FORMAT, "%s: no gzip file", u->path);
        z->next_out = out, z->avail_out = PIECE;
        r = inflate(z, Z_NO_FLUSH);
        if (r == Z_MEM_ERROR) return vt_fail(e, VT_E_MEMORY, "%s: no memory to unpack it", u->path);
        if (r != Z_OK && r != Z_STREAM_END)
            return vt_fail(e, VT_E_FORMAT, "%s: is damaged: %s", u->path, z->msg ? z->msg : "gzip cannot unpack it");
        VT_TRY(write_piece(u, out, PIECE - z->avail_out, e));
    }
}

/* Unpacks a gzip file of one member or several into u; VT_E_FORMAT, VT_E_MEMORY. */
static vt_status unpack_stream(unpacked *u, const vt_mapped *from, vt_err *e) {
    z_stream z = {0};
    if (inflateInit2(&z, 15 + 16) != Z_OK) return vt_fail(e, VT_E_MEMORY, "%s: no memory to unpack it", u->path);
    vt_status s = unpack_members(u, &z, from, e);
    inflateEnd(&z);
    return s;
}

vt_status vt_unpacked_open(vt_mapped *m, const char *path, vt_err *e) {
    char packed[VT_PATH_MAX];
    bool other =
        access(path, F_OK) && snprintf(packed, sizeof packed, "%s.gz", path) < VT_PATH_MAX && !access(packed, F_OK);
    VT_TRY(vt_mapped_open(m, other ? packed : path, e));
    if (m->n < 2 || m->bytes[0] != 0x1f || m->bytes[1] != 0x8b) return VT_OK;
    unpacked u = {.path = path, .fd = memfd_create("unpacked", MFD_CLOEXEC)};
    vt_status s = VT_OK;
    void *map = NULL;
    if (u.fd < 0) s = vt_fail(e, VT_E_IO, "%s: no place to unpack it: %s", path, strerror(errno));
    if (!vt_mul(m->n, VT_GZIP_TIMES, &u.most) || !vt_add(u.most, VT_GZIP_SPARE, &u.most)) u.most = SIZE_MAX;
    if (s == VT_OK) s = unpack_stream(&u, m, e);
    if (s == VT_OK && u.n) map = mmap(NULL, u.n, PROT_READ, MAP_PRIVATE, u.fd, 0);
    if (map == MAP_FAILED) s = vt_fail(e, VT_E_MEMORY, "%s: no memory to unpack it: %s", path, strerror(errno));
    if (u.fd >= 0) close(u.fd);
    vt_mapped_close(m);
    if (s == VT_OK) *m = (vt_mapped){map, u.n};
    return s;
}
