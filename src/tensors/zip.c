/* SPDX-License-Identifier: MIT */
#include "tensors/zip.h"

#include <stdbool.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>
#include "base/files.h"

typedef struct entry {
    const uint8_t *bytes; /* NULL: not looked at yet */
    size_t n;
    void *inflated;
} entry;

struct vt_zip {
    const char *path;
    const uint8_t *bytes;
    size_t n, at;
    size_t last_read; /* where libzip last read: it does not tell where an entry lies, but it reads through us */
    size_t left;      /* bytes that may still be inflated */
    zip_error_t error;
    zip_t *zip;
    int64_t count;
    entry *entries;
};

/* Answers libzip's commands on a source, the archive in memory. */
static zip_int64_t handle_source_command(void *ctx, void *data, zip_uint64_t len, zip_source_cmd_t cmd) {
    vt_zip *z = ctx;
    switch (cmd) {
    case ZIP_SOURCE_OPEN:
        z->at = 0;
        return 0;
    case ZIP_SOURCE_CLOSE:
    case ZIP_SOURCE_FREE:
        return 0;
    case ZIP_SOURCE_READ: {
        size_t n = z->n - z->at < len ? z->n - z->at : (size_t)len;
        if (n) memcpy(data, z->bytes + z->at, n);
        z->last_read = z->at;
        z->at += n;
        return (zip_int64_t)n;
    }
    case ZIP_SOURCE_SEEK: {
        zip_int64_t at = zip_source_seek_compute_offset(z->at, z->n, data, len, &z->error);
        if (at < 0) return -1;
        z->at = (size_t)at;
        return 0;
    }
    case ZIP_SOURCE_TELL:
        return (zip_int64_t)z->at;
    case ZIP_SOURCE_STAT: {
        zip_stat_t *s = ZIP_SOURCE_GET_ARGS(zip_stat_t, data, len, &z->error);
        if (!s) return -1;
        zip_stat_init(s);
        s->valid = ZIP_STAT_SIZE, s->size = z->n;
        return sizeof *s;
    }
    case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&z->error, data, len);
    case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT,
                                              ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE, ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL,
                                              ZIP_SOURCE_SUPPORTS, -1);
    default:
        zip_error_set(&z->error, ZIP_ER_OPNOTSUPP, 0);
        return -1;
    }
}

/* Returns VT_E_MEMORY or VT_E_FORMAT for libzip's last failure, whose own code does not always say memory. */
static vt_status status_of_errno(void) { return errno == ENOMEM ? VT_E_MEMORY : VT_E_FORMAT; }

vt_status vt_zip_open(vt_zip **out, const uint8_t *bytes, size_t n, const char *path, vt_err *e) {
    vt_zip *z = calloc(1, sizeof *z);
    *out = NULL;
    if (!z) return vt_fail(e, VT_E_MEMORY, "%s: no memory to open it", path);
    z->path = path, z->bytes = bytes, z->n = n;
    z->left = n > (SIZE_MAX - VT_ZIP_SPARE) / VT_ZIP_TIMES ? SIZE_MAX : VT_ZIP_SPARE + VT_ZIP_TIMES * n;
    zip_error_init(&z->error);
    zip_error_t why;
    zip_error_init(&why);
    errno = 0;
    zip_source_t *s = zip_source_function_create(handle_source_command, z, &why);
    if (s) z->zip = zip_open_from_source(s, ZIP_RDONLY, &why);
    if (s && !z->zip) zip_source_free(s);
    vt_status r = VT_OK;
    if (!z->zip)
        r = vt_fail(e, status_of_errno(), "%s: is not a whole zip archive: %s", path, zip_error_strerror(&why));
    zip_error_fini(&why);
    z->count = z->zip ? zip_get_num_entries(z->zip, 0) : 0;
    if (r == VT_OK && !(z->entries = calloc((size_t)z->count + 1, sizeof *z->entries)))
        r = vt_fail(e, VT_E_MEMORY, "%s: no memory for its %lld entries", path, (long long)z->count);
    if (r != VT_OK) {
        vt_zip_close(z);
        return r;
    }
    *out = z;
    return VT_OK;
}

void vt_zip_close(vt_zip *z) {
    if (!z) return;
    for (int64_t i = 0; z->entries && i < z->count; i++) free(z->entries[i].inflated);
    free(z->entries);
    if (z->zip) zip_discard(z->zip);
    zip_error_fini(&z->error);
    free(z);
}

int64_t vt_zip_count(const vt_zip *z) { return z->count; }

const char *vt_zip_name(const vt_zip *z, int64_t i) {
    const char *name = zip_get_name(z->zip, (zip_uint64_t)i, ZIP_FL_ENC_RAW);
    return name ? name : "";
}

int64_t vt_zip_find(const vt_zip *z, const char *name) { return zip_name_locate(z->zip, name, ZIP_FL_ENC_RAW); }

/* Fails: entry i cannot be read, with the reason; VT_E_MEMORY if errno says so. */
static vt_status refuse_entry(const vt_zip *z, int64_t i, const char *why, vt_err *e) {
    return vt_fail(e, status_of_errno(), "%s: entry %.160s: %s", z->path, vt_zip_name(z, i), why);
}

/* Sets en->bytes to where entry i's en->n stored bytes lie in the archive, found by reading one; VT_E_FORMAT: not all
 * there. */
static vt_status locate_stored_entry(vt_zip *z, int64_t i, entry *en, vt_err *e) {
    uint8_t first;
    if (!en->n) {
        en->bytes = z->bytes;
        return VT_OK;
    }
    zip_file_t *f = zip_fopen_index(z->zip, (zip_uint64_t)i, ZIP_FL_COMPRESSED);
    if (!f) return refuse_entry(z, i, zip_error_strerror(zip_get_error(z->zip)), e);
    bool got = zip_fread(f, &first, 1) == 1;
    size_t at = z->last_read;
    zip_fclose(f);
    if (!got || at >= z->n || z->bytes[at] != first || en->n > z->n - at)
        return refuse_entry(z, i, "its bytes are not all in the file", e);
    en->bytes = z->bytes + at;
    return VT_OK;
}

/* Inflates entry i (en->n bytes) into memory, en->bytes and inflated, and takes that off z->left. VT_E_FORMAT: more
 * than z->left, or size or checksum differ from the archive's. */
static vt_status inflate_entry(vt_zip *z, int64_t i, entry *en, vt_err *e) {
    if (en->n > z->left)
        return vt_fail(e, VT_E_FORMAT,
                       "%s: entry %.160s claims to inflate to %zu bytes; all entries together may take %d times the "
                       "archive's %zu bytes and %zu MB",
                       z->path, vt_zip_name(z, i), en->n, VT_ZIP_TIMES, z->n, VT_ZIP_SPARE >> 20);
    zip_file_t *f = zip_fopen_index(z->zip, (zip_uint64_t)i, 0);
    if (!f) return refuse_entry(z, i, zip_error_strerror(zip_get_error(z->zip)), e);
    uint8_t *p = malloc(en->n + 1);
    size_t got = 0;
    zip_int64_t k = 1;
    while (p && k > 0 &&
           got <= en->n) { /* one byte more than claimed is asked for: the checksum is judged at the end */
        k = zip_fread(f, p + got, en->n + 1 - got);
        if (k > 0) got += (size_t)k;
    }
    vt_status r = VT_OK;
    if (!p)
        r = vt_fail(e, VT_E_MEMORY, "%s: no memory for entry %.160s", z->path, vt_zip_name(z, i));
    else if (k < 0)
        r = refuse_entry(z, i, zip_error_strerror(zip_file_get_error(f)), e);
    else if (got != en->n)
        r = refuse_entry(z, i, "has another length than the archive says", e);
    zip_fclose(f);
    if (r != VT_OK) {
        free(p);
        return r;
    }
    z->left -= en->n;
    en->bytes = en->inflated = p;
    return VT_OK;
}

vt_status vt_zip_entry(vt_zip *z, int64_t i, const uint8_t **bytes, size_t *n, vt_err *e) {
    zip_stat_t s;
    const zip_uint64_t need = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
    entry *en = &z->entries[i];
    if (!en->bytes) {
        errno = 0;
        if (zip_stat_index(z->zip, (zip_uint64_t)i, 0, &s) || (s.valid & need) != need)
            return refuse_entry(z, i, "has no readable header", e);
        if (s.encryption_method != ZIP_EM_NONE) return refuse_entry(z, i, "is encrypted", e);
        if (s.comp_method != ZIP_CM_STORE && s.comp_method != ZIP_CM_DEFLATE)
            return refuse_entry(z, i, "is neither stored nor deflated", e);
        bool stored = s.comp_method == ZIP_CM_STORE;
        if (stored && s.comp_size != s.size) return refuse_entry(z, i, "is stored with two different lengths", e);
        en->n = (size_t)s.size;
        VT_TRY(stored ? locate_stored_entry(z, i, en, e) : inflate_entry(z, i, en, e));
    }
    *bytes = en->bytes, *n = en->n;
    return VT_OK;
}

/* ---- writing ---- */

/* Adds a part, which must live until the archive is closed. */
static vt_status add_part(zip_t *z, const char *path, const vt_zip_part *p, vt_err *e) {
    zip_error_t why;
    zip_buffer_fragment_t parts[2] = {{(zip_uint8_t *)(uintptr_t)p->head, p->n_head},
                                      {(zip_uint8_t *)(uintptr_t)p->data, p->bytes}};
    zip_error_init(&why);
    errno = 0;
    zip_source_t *s =
        zip_source_buffer_fragment_create(parts + !p->n_head, (zip_uint64_t) !!p->n_head + !!p->bytes, 0, &why);
    zip_int64_t i = s ? zip_file_add(z, p->name, s, ZIP_FL_ENC_UTF_8) : -1;
    zip_error_fini(&why);
    if (s && i < 0) zip_source_free(s);
    if (i < 0 || zip_set_file_compression(z, (zip_uint64_t)i, ZIP_CM_STORE, 0) ||
        zip_file_set_dostime(z, (zip_uint64_t)i, 0, 0x21, 0)) /* 1 January 1980 */
        return vt_fail(e, errno == ENOMEM ? VT_E_MEMORY : VT_E_IO, "%s: %s cannot be added: %s", path, p->name,
                       zip_strerror(z));
    return VT_OK;
}

/* Writes the archive as the file `temp`, which libzip replaces by one of its own. */
static vt_status write_parts(const char *temp, const char *path, const vt_zip_part *parts, int n, vt_err *e) {
    int code;
    vt_status s = VT_OK;
    zip_t *z = zip_open(temp, ZIP_CREATE | ZIP_TRUNCATE, &code);
    if (!z) return vt_fail(e, VT_E_IO, "%s: cannot be written: %s", path, strerror(errno));
    for (int i = 0; i < n && s == VT_OK; i++) s = add_part(z, path, &parts[i], e);
    errno = 0;
    if (s == VT_OK && zip_close(z) == 0) return VT_OK;
    if (s == VT_OK)
        s = vt_fail(e, errno == ENOMEM ? VT_E_MEMORY : VT_E_IO, "%s: cannot be written: %s", path, zip_strerror(z));
    zip_discard(z);
    return s;
}

vt_status vt_zip_write(const char *path, const vt_zip_part *parts, int n, vt_err *e) {
    vt_file f;
    VT_TRY(vt_file_begin_path(&f, path, e));
    vt_status s = write_parts(f.temp, path, parts, n, e);
    if (s == VT_OK) s = vt_file_reopen(&f, e);
    if (s == VT_OK) return vt_file_commit(&f, e);
    vt_file_abandon(&f);
    return s;
}
