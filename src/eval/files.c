#include "eval/files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool vt_path(char out[VT_PATH_MAX], const char *dir, const char *name) {
    return snprintf(out, VT_PATH_MAX, "%s/%s", dir, name) < VT_PATH_MAX;
}

vt_status vt_make_dir(const char *dir, vt_err *e) {
    char path[VT_PATH_MAX];
    struct stat s;
    if (!*dir || snprintf(path, sizeof path, "%s", dir) >= (int)sizeof path)
        return vt_fail(e, VT_E_IO, "'%.80s' cannot be used as a folder: its path is empty or longer than %d bytes", dir,
                       VT_PATH_MAX - 1);
    for (char *p = path + 1;; p++) {
        if (*p && *p != '/') continue;
        char kept = *p;
        *p = 0;
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            return vt_fail(e, VT_E_IO, "%s: the folder cannot be made: %s", path, strerror(errno));
        *p = kept;
        if (!kept) break;
    }
    if (stat(dir, &s) != 0 || !S_ISDIR(s.st_mode)) return vt_fail(e, VT_E_IO, "%s: exists and is not a folder", dir);
    return VT_OK;
}

vt_status vt_read_file(const char *path, char **text, size_t *n, vt_err *e) {
    FILE *f = fopen(path, "rb");
    if (!f) return vt_fail(e, VT_E_IO, "%s: cannot be opened: %s", path, strerror(errno));
    struct stat s;
    char *buf = NULL;
    size_t size = fstat(fileno(f), &s) == 0 && S_ISREG(s.st_mode) ? (size_t)s.st_size : 0;
    buf = malloc(size + 1);
    size_t got = buf ? fread(buf, 1, size, f) : 0;
    bool bad = !buf || ferror(f);
    fclose(f);
    if (bad) {
        free(buf);
        return vt_fail(e, VT_E_IO, "%s: cannot be read", path);
    }
    buf[got] = 0;
    *text = buf, *n = got;
    return VT_OK;
}

vt_status vt_write_at(int fd, const void *data, size_t n, int64_t offset, const char *dir, const char *name,
                      vt_err *e) {
    size_t done = 0;
    int why = 0;
    while (done < n && !why) { /* a second turn only after a short write, to learn why it was short */
        ssize_t k = pwrite(fd, (const char *)data + done, n - done, offset + (int64_t)done);
        if (k > 0)
            done += (size_t)k;
        else if (k == 0 || errno != EINTR)
            why = k == 0 ? ENOSPC : errno;
    }
    if (!why) return VT_OK;
    if (done > 0 && ftruncate(fd, offset) != 0) why = errno;
    return vt_fail(e, VT_E_IO, "%s/%s: %zu bytes at %lld cannot be written: %s", dir, name, n, (long long)offset,
                   strerror(why));
}

void vt_remove_in(const char *dir, const char *name) {
    char path[VT_PATH_MAX];
    if (vt_path(path, dir, name)) unlink(path);
}

static vt_status begin(vt_file *f, vt_err *e) {
    snprintf(f->temp, sizeof f->temp, "%s.new", f->path);
    f->stream = fopen(f->temp, "wb");
    if (!f->stream) return vt_fail(e, VT_E_IO, "%s: cannot be written: %s", f->temp, strerror(errno));
    return VT_OK;
}

vt_status vt_file_begin(vt_file *f, const char *dir, const char *name, vt_err *e) {
    if (!vt_path(f->path, dir, name)) return vt_fail(e, VT_E_IO, "%s: path is too long", dir);
    return begin(f, e);
}

vt_status vt_file_begin_path(vt_file *f, const char *path, vt_err *e) {
    if (!*path || snprintf(f->path, sizeof f->path, "%s", path) >= (int)sizeof f->path)
        return vt_fail(e, VT_E_IO, "'%.80s' cannot be written: its path is empty or longer than %d bytes", path,
                       VT_PATH_MAX - 1);
    return begin(f, e);
}

void vt_file_abandon(vt_file *f) {
    if (f->stream) fclose(f->stream);
    f->stream = NULL;
    unlink(f->temp);
}

vt_status vt_file_commit(vt_file *f, vt_err *e) {
    bool good = fflush(f->stream) == 0 && !ferror(f->stream);
    if (good && fsync(fileno(f->stream)) != 0 && errno != EINVAL) good = false;
    int why = errno;
    if (fclose(f->stream) != 0 && good) good = false, why = errno;
    f->stream = NULL;
    if (good && rename(f->temp, f->path) == 0) return VT_OK;
    if (good) why = errno;
    unlink(f->temp);
    return vt_fail(e, VT_E_IO, "%s: cannot be written: %s", f->path, strerror(why));
}
