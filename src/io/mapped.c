/* SPDX-License-Identifier: MIT */
#include "io/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "core/files.h"

vt_status vt_mapped_open(vt_mapped *m, const char *path, vt_err *e) {
    int fd;
    int64_t size;
    void *map = NULL; /* an empty file cannot be mapped */
    *m = (vt_mapped){0};
    VT_TRY(vt_file_open(&fd, &size, path, O_RDONLY, e));
    if (size) map = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
    int err = errno;
    close(fd);
    if (map == MAP_FAILED) return vt_fail(e, VT_E_IO, "%s: cannot be mapped: %s", path, strerror(err));
    *m = (vt_mapped){map, (size_t)size};
    return VT_OK;
}

void vt_mapped_close(vt_mapped *m) {
    if (m->bytes) munmap((void *)(uintptr_t)m->bytes, m->n);
    *m = (vt_mapped){0};
}

void vt_mapped_release(const vt_mapped *m, size_t at, size_t n) {
    const size_t around =
        (size_t)2 << 20; /* a look at a page maps the folio it lies in, also what was released before */
    size_t page = (size_t)sysconf(_SC_PAGESIZE), begin = (at + page - 1) / page * page, end = (at + n) / page * page;
    if (at + n == m->n) end = m->n; /* the last page has no neighbour */
    begin -= begin < around ? begin : around;
    if (begin < end) madvise((void *)(uintptr_t)(m->bytes + begin), end - begin, MADV_DONTNEED);
}

void vt_mapped_hash(const vt_mapped *m, size_t from, vt_sha *sha) {
    const size_t piece = (size_t)4 << 20;
    for (size_t at = from; at < m->n; at += piece) {
        size_t n = m->n - at < piece ? m->n - at : piece;
        vt_sha_update(sha, m->bytes + at, n);
        vt_mapped_release(m, at, n);
    }
}
