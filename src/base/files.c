/* SPDX-License-Identifier: MIT */
#include "base/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/text.h"

bool vt_path(char out[VT_PATH_MAX], const char *dir, const char *name) {
    return snprintf(out, VT_PATH_MAX, "%s/%s", dir, name) < VT_PATH_MAX;
}

vt_status vt_path_in(char out[VT_PATH_MAX], const char *dir, const char *name, vt_err *e) {
    return vt_path(out, dir, name) ? VT_OK : vt_fail(e, VT_E_IO, "%s: path is too long", dir);
}

bool vt_ends_in(const char *path, const char *end) {
    size_t n = strlen(path), k = strlen(end);
    return n > k && !strcmp(path + n - k, end);
}

bool vt_is_folder(const char *path) {
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

/* Makes the folders that path names up to each '/' from `at` on, and up to its end; path is cut at one that fails.
 * VT_E_IO, also for a file among them or a link unless `links`, which leaves files to the caller. */
static vt_status make_folders(char *path, char *at, bool links, vt_err *e) {
    struct stat s;
    for (char *p = at;; p++) {
        if (*p && *p != '/') continue;
        char kept = *p;
        *p = 0;
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            return vt_fail(e, VT_E_IO, "%s: the folder cannot be made: %s", path, strerror(errno));
        if (!links && (lstat(path, &s) != 0 || !S_ISDIR(s.st_mode)))
            return vt_fail(e, VT_E_IO, "%s: is a link or a file, must be a folder: remove it", path);
        *p = kept;
        if (!kept) return VT_OK;
    }
}

vt_status vt_make_dir(const char *dir, vt_err *e) {
    char path[VT_PATH_MAX];
    if (!*dir || snprintf(path, sizeof path, "%s", dir) >= (int)sizeof path)
        return vt_fail(e, VT_E_IO, "'%.80s' cannot be used as a folder: its path is empty or longer than %d bytes", dir,
                       VT_PATH_MAX - 1);
    VT_TRY(make_folders(path, path + 1, true, e));
    return vt_is_folder(dir) ? VT_OK : vt_fail(e, VT_E_IO, "%s: exists and is not a folder", dir);
}

vt_status vt_make_dir_in(const char *dir, const char *below, vt_err *e) {
    char path[VT_PATH_MAX];
    VT_TRY(vt_make_dir(dir, e));
    VT_TRY(vt_path_in(path, dir, below, e));
    return make_folders(path, path + strlen(dir) + 1, false, e);
}

/* ---- opening and reading ---- */

/* Names a link that is not followed, or found where nothing may be. O_NONBLOCK: refuses a pipe without waiting. */
vt_status vt_file_open(int *fd, int64_t *size, const char *path, int how, vt_err *e) {
    struct stat s = {0};
    bool writes = (how & O_ACCMODE) != O_RDONLY;
    *fd = TEMP_FAILURE_RETRY(open(path, how | O_CLOEXEC | O_NONBLOCK | (writes ? O_NOFOLLOW : 0), 0666));
    int why = *fd < 0 || fstat(*fd, &s) ? errno : 0;
    if (size) *size = (int64_t)s.st_size;
    if (!why && S_ISREG(s.st_mode)) return VT_OK;
    if (*fd >= 0) close(*fd);
    *fd = -1;
    if (!why) return vt_fail(e, VT_E_IO, "%s: is not a regular file", path);
    if (writes && (why == ELOOP || why == EEXIST)) VT_TRY(vt_file_place(path, e));
    return vt_fail(e, VT_E_IO, "%s: cannot be %s: %s", path, writes ? "written" : "opened", strerror(why));
}

/* Waits after a read that would block until there is more; false: errno is another failure. */
static bool wait_for_more(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return errno == EINTR || (errno == EAGAIN && (poll(&p, 1, -1) >= 0 || errno == EINTR));
}

/* Reads fd to its end into *text (grown, `room` bytes at first) with a 0 after its *n bytes. Returns 0 or an errno;
 * above `most` bytes it may stop with EFBIG. *text is to be freed in any case. */
static int read_all(int fd, size_t room, size_t most, char **text, size_t *n) {
    for (;;) {
        char *more = realloc(*text, room + 1);
        if (!more) return ENOMEM;
        *text = more;
        while (*n < room) {
            ssize_t k = read(fd, *text + *n, room - *n);
            if (k < 0 && !wait_for_more(fd)) return errno;
            if (k == 0) {
                (*text)[*n] = 0;
                return 0;
            }
            if (k > 0) *n += (size_t)k;
        }
        if (*n > most) return EFBIG;
        room = room <= most / 2 ? 2 * room : most + 1;
    }
}

/* Reads all of fd into *text, malloc'ed, and closes fd; statuses as vt_file_read's, and *text is then NULL. */
static vt_status read_whole(int fd, const char *path, size_t most, char **text, size_t *n, vt_err *e) {
    struct stat s = {0};
    int why = fstat(fd, &s) ? errno : EFBIG;
    size_t size = S_ISREG(s.st_mode) ? (size_t)s.st_size : 0;
    if (why == EFBIG && size <= most) why = read_all(fd, size < 4096 ? 4096 : size + 1, most, text, n);
    close(fd);
    bool unfed = !why && !*n && S_ISFIFO(s.st_mode);
    if (!why && *n <= most && !unfed) return VT_OK;
    free(*text);
    *text = NULL, *n = 0;
    if (unfed) return vt_fail(e, VT_E_IO, "%s: is a pipe that nobody writes to", path);
    if (!why || why == EFBIG) return vt_fail(e, VT_E_FORMAT, "%s: is longer than %zu bytes, the limit", path, most);
    return vt_fail(e, why == ENOMEM ? VT_E_MEMORY : VT_E_IO, "%s: cannot be read: %s", path, strerror(why));
}

/* O_NONBLOCK: a pipe without a writer is at its end at once. */
vt_status vt_file_read(const char *path, size_t most, char **text, size_t *n, vt_err *e) {
    *text = NULL, *n = 0;
    int fd = TEMP_FAILURE_RETRY(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (fd < 0) return vt_fail(e, VT_E_IO, "%s: cannot be opened: %s", path, strerror(errno));
    return read_whole(fd, path, most, text, n, e);
}

vt_status vt_file_text(const char *path, size_t most, char **text, vt_err *e) {
    size_t n;
    VT_TRY(vt_file_read(path, most, text, &n, e));
    if (strlen(*text) == n) return VT_OK;
    vt_fail(e, VT_E_FORMAT, "%s: holds a byte 0 at %zu: it is no text", path, strlen(*text));
    free(*text);
    *text = NULL;
    return VT_E_FORMAT;
}

vt_status vt_file_load(const char *path, size_t most, char **text, size_t *n, vt_err *e) {
    int fd;
    *text = NULL, *n = 0;
    VT_TRY(vt_file_open(&fd, NULL, path, O_RDONLY, e));
    return read_whole(fd, path, most, text, n, e);
}

vt_status vt_file_stream(FILE **f, const char *path, vt_err *e) {
    int fd;
    *f = NULL;
    VT_TRY(vt_file_open(&fd, NULL, path, O_RDONLY, e));
    *f = fdopen(fd, "r");
    if (*f) return VT_OK;
    close(fd);
    return vt_fail(e, VT_E_MEMORY, "%s: no memory to read it", path);
}

size_t vt_file_start(const char *path, void *bytes, size_t n) {
    int fd;
    if (vt_file_open(&fd, NULL, path, O_RDONLY, NULL) != VT_OK) return 0;
    ssize_t there = pread(fd, bytes, n, 0);
    close(fd);
    return there > 0 ? (size_t)there : 0;
}

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

vt_status vt_mapped_make(vt_mapped *m, const char *what, vt_status (*write)(const void *ctx, FILE *to, vt_err *e),
                         const void *ctx, vt_err *e) {
    struct stat is = {0};
    void *map = MAP_FAILED;
    *m = (vt_mapped){0};
    int fd = memfd_create("made", MFD_CLOEXEC);
    FILE *to = fd >= 0 ? fdopen(fd, "w+") : NULL;
    vt_status s = to ? write(ctx, to, e) : VT_OK;
    if (s == VT_OK && to && fflush(to) == 0 && fstat(fd, &is) == 0 && is.st_size)
        map = mmap(NULL, (size_t)is.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (s == VT_OK && map == MAP_FAILED) s = vt_fail(e, VT_E_MEMORY, "%s: no memory for it as a file", what);
    if (s == VT_OK) *m = (vt_mapped){map, (size_t)is.st_size};
    if (to)
        fclose(to);
    else if (fd >= 0)
        close(fd);
    return s;
}

void vt_mapped_close(vt_mapped *m) {
    if (m->bytes) munmap((void *)(uintptr_t)m->bytes, m->n);
    *m = (vt_mapped){0};
}

void vt_mapped_release(const vt_mapped *m, size_t at, size_t n) {
    const size_t around = (size_t)2 << 20; /* a look at a page maps its folio, also what was released of it before */
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

vt_status vt_sha_file(const char *path, char hex[65], vt_err *e) {
    vt_mapped m;
    vt_sha sha;
    VT_TRY(vt_mapped_open(&m, path, e));
    vt_sha_begin(&sha);
    vt_mapped_hash(&m, 0, &sha);
    vt_sha_end(&sha, hex);
    vt_mapped_close(&m);
    return VT_OK;
}

/* ---- writing ---- */

/* Writes up to n bytes. RLIMIT_FSIZE raises SIGXFSZ, whose default ends the process: held back here, and taken off the
 * queue, so that the caller sees EFBIG like any other write error. offset < 0: where the file stands. */
static ssize_t write_some(int fd, const char *data, size_t n, int64_t offset) {
    sigset_t xfsz, old;
    sigemptyset(&xfsz);
    sigaddset(&xfsz, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &xfsz, &old);
    ssize_t k = offset < 0 ? write(fd, data, n) : pwrite(fd, data, n, offset);
    int why = errno;
    if (k < 0 && why == EFBIG && !sigismember(&old, SIGXFSZ)) sigtimedwait(&xfsz, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = why;
    return k;
}

vt_status vt_write_at(int fd, const void *data, size_t n, int64_t offset, const char *dir, const char *name,
                      vt_err *e) {
    size_t done = 0;
    int why = 0;
    while (done < n && !why) { /* a second turn only after a short write, to learn why it was short */
        ssize_t k = write_some(fd, (const char *)data + done, n - done, offset + (int64_t)done);
        if (k > 0)
            done += (size_t)k;
        else if (k == 0 || errno != EINTR)
            why = k == 0 ? ENOSPC : errno;
    }
    if (!why) return VT_OK;
    if (done > 0 && TEMP_FAILURE_RETRY(ftruncate(fd, offset)) != 0) why = errno;
    return vt_fail(e, VT_E_IO, "%s/%s: %zu bytes at %lld cannot be written: %s", dir, name, n, (long long)offset,
                   strerror(why));
}

int vt_sync(int fd) { return TEMP_FAILURE_RETRY(fsync(fd)) == 0 || errno == EINVAL ? 0 : errno; }

bool vt_file_lock(int fd) {
    const struct timespec tick = {.tv_nsec = 20000000};
    for (int i = 0; i < 15; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
        if (errno != EWOULDBLOCK && errno != EINTR) return true; /* this file system has no locks: some of NFS */
        nanosleep(&tick, NULL);
    }
    return false;
}

void vt_remove_in(const char *dir, const char *name) {
    char path[VT_PATH_MAX];
    if (vt_path(path, dir, name)) unlink(path);
}

/* ---- whole files ---- */

#define TEMPORARY ".vitrine-*.tmp*" /* libzip appends seven characters to a name that it is given */

vt_status vt_file_place(const char *path, vt_err *e) {
    struct stat s;
    if (lstat(path, &s) != 0 || S_ISREG(s.st_mode)) return VT_OK;
    if (S_ISLNK(s.st_mode))
        return vt_fail(e, VT_E_IO, "%s: is a link and is not written through: name the file itself", path);
    return vt_fail(e, VT_E_IO, "%s: is not a regular file and is not replaced", path);
}

/* Returns the part of a path after its last '/'. */
static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Writes for a stream of stream_to; returns the bytes written, fewer than n on failure. */
static ssize_t stream_write(void *fd, const char *data, size_t n) {
    size_t done = 0;
    while (done < n) {
        ssize_t k = write_some((int)(intptr_t)fd, data + done, n - done, -1);
        if (k == 0 || (k < 0 && errno != EINTR)) break;
        if (k > 0) done += (size_t)k;
    }
    return (ssize_t)done;
}

/* Closes a stream's file; a close that a signal interrupts has closed it all the same. */
static int stream_close(void *fd) { return close((int)(intptr_t)fd) == 0 || errno == EINTR ? 0 : -1; }

/* Returns a stream that writes all bytes to fd even after EINTR and closes it; NULL: no memory, and fd stays open. */
static FILE *stream_to(int fd) {
    return fopencookie((void *)(intptr_t)fd, "w",
                       (cookie_io_functions_t){.write = stream_write, .close = stream_close});
}

/* Opens a new temporary file beside f->path: sets f->temp, folder, fd and stream. VT_E_IO, with nothing left behind. */
static vt_status begin(vt_file *f, vt_err *e) {
    static atomic_uint serial;
    VT_TRY(vt_file_place(f->path, e));
    char *slash = strrchr(f->path, '/');
    int dir = slash ? (int)(slash - f->path) + 1 : 0, fd, why;
    f->stream = NULL;
    snprintf(f->temp, sizeof f->temp, "%.*s", dir ? dir : 1, dir ? f->path : ".");
    f->folder = TEMP_FAILURE_RETRY(open(f->temp, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (f->folder < 0) return vt_fail(e, VT_E_IO, "%s: cannot be written: %s", f->path, strerror(errno));
    do {
        snprintf(f->temp + dir, sizeof f->temp - (size_t)dir, ".vitrine-%ld-%u.tmp", (long)getpid(),
                 atomic_fetch_add(&serial, 1));
        fd = openat(f->folder, f->temp + dir, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    } while (fd < 0 && (errno == EEXIST || errno == EINTR));
    f->fd = fd;
    if (fd >= 0 && (f->stream = stream_to(fd))) return VT_OK;
    why = errno;
    if (fd >= 0) close(fd), unlink(f->temp);
    close(f->folder);
    return vt_fail(e, VT_E_IO, "%s: cannot be written: %s", f->path, strerror(why));
}

vt_status vt_file_begin(vt_file *f, const char *dir, const char *name, vt_err *e) {
    VT_TRY(vt_path_in(f->path, dir, name, e));
    return begin(f, e);
}

vt_status vt_file_begin_path(vt_file *f, const char *path, vt_err *e) {
    if (!*path || snprintf(f->path, sizeof f->path, "%s", path) >= (int)sizeof f->path)
        return vt_fail(e, VT_E_IO, "'%.80s' cannot be written: its path is empty or longer than %d bytes", path,
                       VT_PATH_MAX - 1);
    return begin(f, e);
}

vt_status vt_file_reopen(vt_file *f, vt_err *e) {
    int fd = openat(f->folder, base_name(f->temp), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    FILE *now = fd >= 0 ? stream_to(fd) : NULL;
    if (!now) {
        int why = errno;
        if (fd >= 0) close(fd);
        return vt_fail(e, VT_E_IO, "%s: cannot be written: %s", f->path, strerror(why));
    }
    fclose(f->stream);
    f->stream = now, f->fd = fd;
    return VT_OK;
}

void vt_file_abandon(vt_file *f) {
    if (f->stream) fclose(f->stream);
    f->stream = NULL;
    unlinkat(f->folder, base_name(f->temp), 0);
    close(f->folder);
}

vt_status vt_file_writable(const char *path, vt_err *e) {
    vt_file f;
    VT_TRY(vt_file_begin_path(&f, path, e));
    vt_file_abandon(&f);
    return VT_OK;
}

vt_status vt_file_commit(vt_file *f, vt_err *e) {
    bool whole = fflush(f->stream) == 0 && !ferror(f->stream);
    int why = whole ? 0 : errno ? errno : EIO;
    if (!why) why = vt_sync(f->fd);
    if (fclose(f->stream) != 0 && !why) why = errno;
    f->stream = NULL;
    if (!why && renameat(f->folder, base_name(f->temp), f->folder, base_name(f->path)) != 0) why = errno;
    if (why) {
        vt_file_abandon(f);
        return vt_fail(e, VT_E_IO, "%s: cannot be written: %s", f->path, strerror(why));
    }
    why = vt_sync(f->folder);
    close(f->folder);
    return why ? vt_fail(e, VT_E_IO, "%s: cannot be written: %s", f->path, strerror(why)) : VT_OK;
}

vt_status vt_file_replace(const char *path, const vt_span *parts, int n, vt_err *e) {
    vt_file f;
    VT_TRY(vt_file_begin_path(&f, path, e));
    for (int i = 0; i < n && !ferror(f.stream); i++)
        if (parts[i].bytes) fwrite(parts[i].data, 1, parts[i].bytes, f.stream);
    return vt_file_commit(&f, e);
}

vt_status vt_file_may_replace(const char *path, const char *start, vt_err *e) {
    char old[32];
    struct stat s;
    if (lstat(path, &s) != 0 || !S_ISREG(s.st_mode)) return VT_OK; /* a link is refused when it is written */
    size_t want = strlen(start), n = vt_file_start(path, old, want < sizeof old ? want : sizeof old);
    if (!n || !strncmp(old, start, n)) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "%s: is there and was not written by such a command: name another file", path);
}

bool vt_file_is_temporary(const char *name) { return !fnmatch(TEMPORARY, name, 0); }

void vt_file_tidy(const char *dir, int levels) {
    char path[VT_PATH_MAX];
    struct stat s;
    DIR *d = opendir(dir);
    for (const struct dirent *x; d && (x = readdir(d));) {
        if (!vt_path(path, dir, x->d_name) || lstat(path, &s) != 0) continue;
        if (S_ISREG(s.st_mode) && vt_file_is_temporary(x->d_name)) unlink(path);
        if (S_ISDIR(s.st_mode) && levels > 1 && x->d_name[0] != '.') vt_file_tidy(path, levels - 1);
    }
    if (d) closedir(d);
}

vt_status vt_text_of(char **text, void (*write)(FILE *f, const void *data), const void *data, const char *what,
                     vt_err *e) {
    vt_text_stream w;
    FILE *f = vt_text_stream_open(&w);
    if (f) write(f, data);
    *text = vt_text_stream_close(&w);
    return *text ? VT_OK : vt_fail(e, VT_E_MEMORY, "%s: no memory to put its text together", what);
}
