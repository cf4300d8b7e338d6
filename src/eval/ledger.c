/* SPDX-License-Identifier: MIT */
#include "eval/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/files.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/progress.h"
#include "eval/header.h"

uint64_t vt_sha_prefix(const void *data, size_t bytes) {
    char hex[65];
    vt_sha_hex(data, bytes, hex);
    hex[16] = 0;
    return strtoull(hex, NULL, 16);
}

bool vt_ledger_exists(const char *dir) {
    char path[VT_PATH_MAX];
    struct stat s;
    return vt_path(path, dir, "ledger.jsonl") && stat(path, &s) == 0;
}

void vt_ledger_close(vt_ledger *l) {
    if (!l) return;
    if (l->fd >= 0) {
        vt_ledger_sync(l, NULL);
        close(l->fd);
    }
    if (l->adv_fd >= 0) close(l->adv_fd);
    pthread_mutex_destroy(&l->lock);
    vt_header_free(l->header);
    free(l->records);
    free(l->dir);
    free(l);
}

/* Allocates a ledger without files; *out is to be closed after a failure too. VT_E_MEMORY. */
static vt_status new_ledger(vt_ledger **out, const char *dir, size_t pixels, vt_err *e) {
    vt_ledger *l = *out = calloc(1, sizeof *l);
    if (!l) return vt_fail(e, VT_E_MEMORY, "%s: no memory for a ledger", dir);
    l->fd = l->adv_fd = -1;
    pthread_mutex_init(&l->lock, NULL);
    l->pixels = pixels;
    return (l->dir = strdup(dir)) ? VT_OK : vt_fail(e, VT_E_MEMORY, "%s: no memory for a ledger", dir);
}

/* Returns s; unless it is VT_OK, closes *out and sets it to NULL. */
static vt_status close_on_failure(vt_ledger **out, vt_status s) {
    if (s == VT_OK) return s;
    vt_ledger_close(*out);
    *out = NULL;
    return s;
}

/* Appends a record in memory alone. VT_E_MEMORY. */
static vt_status add_record(vt_ledger *l, const vt_record *r, vt_err *e) {
    if (!vt_grow(&l->records, l->count, sizeof *r))
        return vt_fail(e, VT_E_MEMORY, "%s: no memory for %zu ledger lines", l->dir, l->count + 1);
    l->records[l->count++] = *r;
    return VT_OK;
}

/* ---- lines ---- */

/* Sets l->bound, the hash of l's header, which is part of every line's checksum. VT_E_MEMORY. */
static vt_status store_header_hash(vt_ledger *l, vt_err *e) {
    char *text = vt_json_hashed(l->header->document, JSON_COMPACT);
    if (!text) return vt_fail(e, VT_E_MEMORY, "%s: no memory for the header", l->dir);
    l->bound = vt_sha_prefix(text, strlen(text));
    free(text);
    return VT_OK;
}

vt_status vt_ledger_check(const vt_ledger *l, vt_err *e) {
    if (!l->altered) return VT_OK;
    const vt_record *r = &l->records[l->altered - 2];
    return vt_fail(e, VT_E_FORMAT,
                   "%s/ledger.jsonl: line %d (image %d, entry %d, stage %d) is not as it was written, or the header is "
                   "not: its checksum is another one; without the line the image is done again",
                   l->dir, l->altered, r->image, r->entry, r->stage);
}

vt_status vt_ledger_parse(vt_ledger *l, const char *text, size_t n, size_t *good, const char *path, vt_err *e) {
    size_t at = 0;
    *good = 0;
    for (int line = 1; at < n; line++) {
        const char *end = memchr(text + at, '\n', n - at);
        if (!end) break; /* cut in half by a kill: dropped, that image is done again */
        size_t len = (size_t)(end - text) - at;
        json_error_t why;
        json_t *o = vt_json(text + at, len, &why);
        if (!o && vt_json_why(&why) == VT_E_MEMORY)
            return vt_fail(e, VT_E_MEMORY, "%s: no memory for line %d", path, line);
        vt_record r;
        bool bad = !json_is_object(o) || (line > 1 && !vt_line_parse(&r, o));
        if (!bad && line > 1 && !l->altered && !vt_line_is_as_written(l, o, &r)) l->altered = line;
        if (bad || line > 1) json_decref(o);
        if (bad)
            return vt_fail(e, VT_E_FORMAT, "%s: line %d is not a %s", path, line,
                           line == 1 ? "ledger header" : "ledger line");
        if (line == 1) VT_TRY(vt_header_read(&l->header, o, path, e));
        VT_TRY(line > 1 ? add_record(l, &r, e) : store_header_hash(l, e));
        at += len + 1;
        *good = at;
    }
    return VT_OK; /* without a complete line: no header */
}

/* ---- opening ---- */

/* Reads header and lines into l and sets l->length to the bytes of complete lines. VT_E_FORMAT: it is no ledger; of an
 * empty file or a header cut in half, l->header stays NULL. */
static vt_status load_ledger_file(vt_ledger *l, const char *path, vt_err *e) {
    char *text;
    size_t n, good = 0;
    VT_TRY(vt_file_read(path, VT_FILE_ANY, &text, &n, e));
    vt_status s = vt_ledger_parse(l, text, n, &good, path, e);
    static const char start[] = "{\"format\":\"vitrine ledger";
    size_t known = n < sizeof start - 1 ? n : sizeof start - 1;
    if (s == VT_OK && !l->header && memcmp(text, start, known) != 0) /* not a header cut in half: somebody's file */
        s = vt_fail(e, VT_E_FORMAT, "%s: line 1 is not a ledger header", path);
    free(text);
    l->length = (int64_t)good;
    return s;
}

/* Is the open file still the one that this path names, and not one that has been renamed away or replaced? */
static bool is_at(int fd, const char *path) {
    struct stat open, there;
    return fstat(fd, &open) == 0 && stat(path, &there) == 0 && open.st_dev == there.st_dev &&
           open.st_ino == there.st_ino;
}

/* Opens ledger.jsonl, locked if it is to be written, and adv.bin with open(2)'s flags; sets both lengths. VT_E_IO:
 * another process holds the lock. */
static vt_status open_files(vt_ledger *l, int flags, vt_err *e) {
    char path[VT_PATH_MAX];
    VT_TRY(vt_path_in(path, l->dir, "ledger.jsonl", e));
    bool writes = (flags & O_ACCMODE) != O_RDONLY;
    do {
        if (l->fd >= 0) close(l->fd);
        l->fd = -1;
        VT_TRY(vt_file_open(&l->fd, &l->length, path, flags, e));
        if (writes && !vt_file_lock(l->fd)) return vt_fail(e, VT_E_IO, "%s: another vitrine is writing this run", path);
    } while (writes &&
             !is_at(l->fd, path)); /* its writer has finished it meanwhile: this is the lock of a file that is gone */
    vt_path(path, l->dir, "adv.bin");
    return vt_file_open(&l->adv_fd, &l->adv_length, path, flags & ~O_EXCL, e);
}

/* Writes the header as the file's first line and sets l->bound and l->length. */
static vt_status write_header(vt_ledger *l, vt_err *e) {
    VT_TRY(store_header_hash(l, e));
    char *text = vt_json_text(l->header->document, JSON_COMPACT);
    if (!text) return vt_fail(e, VT_E_MEMORY, "%s: no memory for the header", l->dir);
    size_t n = strlen(text);
    text[n] = '\n'; /* the terminator's place */
    vt_status s = vt_write_at(l->fd, text, n + 1, 0, l->dir, "ledger.jsonl", e);
    free(text);
    if (s == VT_OK) l->length = (int64_t)n + 1;
    return s;
}

vt_status vt_ledger_create(vt_ledger **out, const char *dir, vt_header *header, size_t pixels, vt_err *e) {
    *out = NULL;
    VT_TRY(vt_make_dir(dir, e));
    if (vt_ledger_exists(dir))
        return vt_fail(e, VT_E_IO,
                       "%s already holds a run (ledger.jsonl): continue it with @resume or choose another @out", dir);
    static const char *const others[] = {"adv.bin", "results.json", "run.json",
                                         "SHA256SUMS"}; /* of a run without its ledger, or of somebody else */
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char path[VT_PATH_MAX];
        if (vt_path(path, dir, others[i]) && access(path, F_OK) == 0)
            return vt_fail(e, VT_E_IO,
                           "%s holds %s but no ledger.jsonl: choose another @out, so that nothing is overwritten", dir,
                           others[i]);
    }
    vt_status s = new_ledger(out, dir, pixels, e);
    vt_ledger *l = *out;
    if (s == VT_OK) {
        l->header = vt_header_share(header);
        s = open_files(l, O_RDWR | O_CREAT | O_EXCL, e); /* of two processes at once, one makes it */
    }
    if (s == VT_OK) s = write_header(l, e);
    if (s == VT_OK) s = vt_ledger_sync(l, e);
    if (s != VT_OK && l && l->fd >= 0 && l->length == 0) { /* a full disk leaves nothing behind */
        vt_remove_in(dir, "ledger.jsonl");
        if (l->adv_fd >= 0 && l->adv_length == 0) vt_remove_in(dir, "adv.bin");
    }
    return close_on_failure(out, s);
}

bool vt_ledger_has_point(const vt_ledger *l, const vt_record *r) {
    return r->adv < 0 || r->adv + (int64_t)(l->pixels * sizeof(float)) <= l->adv_length;
}

/* Drops, in memory, the lines whose point never reached the disk (power lost between two syncs). Returns whether there
 * were any. */
static bool drop_lines_without_point(vt_ledger *l) {
    size_t kept = 0;
    for (size_t i = 0; i < l->count; i++)
        if (vt_ledger_has_point(l, &l->records[i])) l->records[kept++] = l->records[i];
    bool dropped = kept < l->count;
    l->count = kept;
    return dropped;
}

/* Opens a run to continue it (vt_ledger_resume) into an empty l: cuts off a line without end, removes what killed
 * writers left, and writes anew what lost points. VT_E_USAGE: made with another header. */
static vt_status resume_run(vt_ledger *l, vt_header *header, bool allow_mixed, vt_err *e) {
    char path[VT_PATH_MAX], names[200];
    int64_t bytes = (int64_t)(l->pixels * sizeof(float));
    VT_TRY(vt_path_in(path, l->dir, "ledger.jsonl", e));
    VT_TRY(open_files(l, O_RDWR | O_CREAT, e));
    VT_TRY(load_ledger_file(l, path, e));
    if (!l->header) { /* killed before the header was complete: nothing was recorded yet */
        l->header = vt_header_share(header);
        VT_TRY(write_header(l, e));
    }
    vt_file_tidy(l->dir, 3); /* adv/NAME/ is the deepest */
    if (vt_header_difference(l->header->document, header->document, allow_mixed, names, sizeof names))
        return vt_fail(e, VT_E_USAGE, "%s: cannot be resumed, it was made with another %s%s%s%s", path, names,
                       strstr(names, "blas") ? " (" : "", strstr(names, "blas") ? vt_argument("allow-mixed") : "",
                       strstr(names, "blas") ? " accepts another BLAS kernel)" : "");
    VT_TRY(vt_ledger_check(l, e));
    if (ftruncate(l->fd, l->length) != 0)
        return vt_fail(e, VT_E_IO, "%s: its cut last line cannot be dropped: %s", path, strerror(errno));
    l->adv_length = l->adv_length / bytes * bytes;
    return drop_lines_without_point(l) ? vt_ledger_finish(l, e) : VT_OK;
}

vt_status vt_ledger_resume(vt_ledger **out, const char *dir, vt_header *header, size_t pixels, bool allow_mixed,
                           vt_err *e) {
    vt_status s = new_ledger(out, dir, pixels, e);
    return close_on_failure(out, s == VT_OK ? resume_run(*out, header, allow_mixed, e) : s);
}

/* Opens a run to read it into an empty l, and sets l->pixels by the header. VT_E_FORMAT: no header, or one without an
 * image size. */
static vt_status read_run(vt_ledger *l, vt_err *e) {
    char path[VT_PATH_MAX];
    VT_TRY(vt_path_in(path, l->dir, "ledger.jsonl", e));
    VT_TRY(open_files(l, O_RDONLY, e));
    VT_TRY(load_ledger_file(l, path, e));
    if (!l->header) return vt_fail(e, VT_E_FORMAT, "%s: has no header line", path);
    l->pixels = vt_shape_values(l->header->shape);
    return l->pixels ? VT_OK : vt_fail(e, VT_E_FORMAT, "%s: its header does not state the model's image size", path);
}

vt_status vt_ledger_open_altered(vt_ledger **out, const char *dir, vt_err *e) {
    vt_status s = new_ledger(out, dir, 0, e);
    return close_on_failure(out, s == VT_OK ? read_run(*out, e) : s);
}

vt_status vt_ledger_open(vt_ledger **out, const char *dir, vt_err *e) {
    VT_TRY(vt_ledger_open_altered(out, dir, e));
    return close_on_failure(out, vt_ledger_check(*out, e));
}

vt_status vt_ledger_memory(vt_ledger **out, vt_header *header, size_t pixels, vt_err *e) {
    vt_status s = new_ledger(out, "(memory)", pixels, e);
    if (s == VT_OK && header) (*out)->header = vt_header_share(header);
    return close_on_failure(out, s);
}

/* ---- writing ---- */

vt_status vt_ledger_sync(vt_ledger *l, vt_err *e) {
    l->synced = vt_now();
    const char *file = "adv.bin";
    int why = vt_sync(l->adv_fd);
    if (!why || why == EROFS) file = "ledger.jsonl", why = vt_sync(l->fd);
    if (!why || why == EROFS) return VT_OK;
    return vt_fail(e, VT_E_IO, "%s/%s: cannot be written to disk: %s", l->dir, file, strerror(why));
}

/* Appends point and line to the files, sets r->adv, and the record to memory, which loses it again when the line cannot
 * be written; syncs once a second. The caller holds the lock. */
static vt_status append_locked(vt_ledger *l, vt_record *r, const float *x_adv, vt_err *e) {
    char line[VT_LINE_ROOM];
    size_t bytes = l->pixels * sizeof(float);
    if (l->fd < 0) return add_record(l, r, e);
    if (x_adv) {
        VT_TRY(vt_write_at(l->adv_fd, x_adv, bytes, l->adv_length, l->dir, "adv.bin", e));
        r->adv = l->adv_length;
        l->adv_length += (int64_t)bytes;
    }
    int n = vt_line_text(line, l, r);
    VT_TRY(add_record(l, r, e));
    vt_status s = vt_write_at(l->fd, line, (size_t)n, l->length, l->dir, "ledger.jsonl", e);
    if (s != VT_OK) {
        l->count--;
        return s;
    }
    l->length += n;
    return vt_now() - l->synced >= 1 ? vt_ledger_sync(l, e) : VT_OK;
}

vt_status vt_ledger_append(vt_ledger *l, vt_record *r, const float *x_adv, vt_err *e) {
    r->adv = -1;
    if (x_adv) r->sha = vt_sha_prefix(x_adv, l->pixels * sizeof(float));
    pthread_mutex_lock(&l->lock);
    vt_status s = append_locked(l, r, x_adv, e);
    if (s == VT_OK && l->on_line) l->on_line(l->on_line_ctx, r, x_adv);
    pthread_mutex_unlock(&l->lock);
    return s;
}

/* Returns the bytes that the points of all lines take in adv.bin when nothing else is there. */
static int64_t bytes_of_tensors(const vt_ledger *l) {
    int64_t n = 0;
    for (size_t i = 0; i < l->count; i++) n += l->records[i].adv >= 0;
    return n * (int64_t)(l->pixels * sizeof(float));
}

/* Reads x [pixels] from byte `at` of adv.bin. Returns whether all of it was there and has the record's hash. */
static bool is_point_at(const vt_ledger *l, const vt_record *r, float *x, int64_t at) {
    size_t bytes = l->pixels * sizeof(float);
    return pread(l->adv_fd, x, bytes, at) == (ssize_t)bytes && vt_sha_prefix(x, bytes) == r->sha;
}

vt_status vt_ledger_read_adv(const vt_ledger *l, const vt_record *r, float *x, vt_err *e) {
    int64_t bytes = (int64_t)(l->pixels * sizeof(float));
    if (r->adv >= 0 && is_point_at(l, r, x, r->adv)) return VT_OK;
    /* A kill between the two renames of vt_ledger_finish leaves offsets of the old order: the hash finds the image. A
     * file that holds much more than the tensors of the lines is not searched for each of them. */
    bool search = r->adv >= 0 && l->adv_length <= 2 * bytes_of_tensors(l) + (1 << 20);
    for (int64_t at = 0; search && at + bytes <= l->adv_length; at += bytes)
        if (is_point_at(l, r, x, at)) return VT_OK;
    return vt_fail(e, VT_E_FORMAT,
                   "%s/adv.bin: the adversarial image of image %d, entry %d is not there (byte %lld, hash %016llx)",
                   l->dir, r->image, r->entry, (long long)r->adv, (unsigned long long)r->sha);
}

/* ---- canonical form ---- */

int vt_record_by_place(const void *a, const void *b) {
    const vt_record *x = a, *y = b;
    if (x->entry != y->entry) return x->entry < y->entry ? -1 : 1;
    if (x->stage != y->stage) return x->stage < y->stage ? -1 : 1;
    return x->image < y->image ? -1 : x->image > y->image;
}

/* Writes header, lines in their present order and their points to two new files; changes adv of l's records to the new
 * places. A write error stays in the streams. */
static vt_status write_canonical_files(vt_ledger *l, FILE *lines, FILE *adv, vt_err *e) {
    float *x = malloc(l->pixels * sizeof *x);
    char *text = vt_json_text(l->header->document, JSON_COMPACT), line[VT_LINE_ROOM];
    int64_t at = 0;
    vt_status s = x && text ? VT_OK : vt_fail(e, VT_E_MEMORY, "%s: no memory to finish the ledger", l->dir);
    if (s == VT_OK) fprintf(lines, "%s\n", text);
    for (size_t i = 0; i < l->count && s == VT_OK; i++) {
        vt_record r = l->records[i];
        if (r.adv >= 0) {
            s = vt_ledger_read_adv(l, &r, x, e);
            if (s == VT_OK && fwrite(x, sizeof *x, l->pixels, adv) == l->pixels) r.adv = at;
            at += (int64_t)(l->pixels * sizeof *x);
        }
        l->records[i].adv = r.adv;
        vt_line_text(line, l, &r);
        fputs(line, lines);
    }
    free(text);
    free(x);
    return s;
}

int vt_record_by_image(const void *a, const void *b) {
    const vt_record *x = *(const vt_record *const *)a, *y = *(const vt_record *const *)b;
    if (x->image != y->image) return x->image < y->image ? -1 : 1;
    return x->entry != y->entry ? (x->entry < y->entry ? -1 : 1) : x->stage - y->stage;
}

vt_status vt_ledger_finish(vt_ledger *l, vt_err *e) {
    vt_file lines, adv;
    struct stat now;
    char path[VT_PATH_MAX];
    qsort(l->records, l->count, sizeof *l->records, vt_record_by_place);
    VT_TRY(vt_path_in(path, l->dir, "adv.bin", e));
    VT_TRY(vt_file_begin(&adv, l->dir, "adv.bin", e));
    vt_status s = vt_file_begin(&lines, l->dir, "ledger.jsonl", e);
    bool began = s == VT_OK;
    if (began) s = write_canonical_files(l, lines.stream, adv.stream, e);
    if (s == VT_OK)
        s = vt_file_commit(&adv, e);
    else
        vt_file_abandon(&adv);
    /* the new file is locked before it takes the old one's place, so that no other process comes between them */
    int fd = s == VT_OK ? fcntl(lines.fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (s == VT_OK && (fd < 0 || !vt_file_lock(fd)))
        s = vt_fail(e, VT_E_IO, "%s/ledger.jsonl: cannot be locked: %s", l->dir, strerror(errno));
    if (s == VT_OK)
        s = vt_file_commit(&lines, e);
    else if (began)
        vt_file_abandon(&lines);
    if (s != VT_OK) {
        if (fd >= 0) close(fd);
        return s;
    }
    close(l->fd), close(l->adv_fd);
    l->fd = fd, l->adv_fd = -1;
    if (fstat(fd, &now) == 0) l->length = now.st_size;
    return vt_file_open(&l->adv_fd, &l->adv_length, path, O_RDWR, e);
}

bool vt_record_fails(const vt_ledger *l, const vt_record *r) {
    if (vt_record_ends(r->status)) return vt_header_scoring(l->header, r->entry) == VT_SCORE_BALL;
    return r->status == VT_RECORD_WRONG;
}
