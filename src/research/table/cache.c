/* SPDX-License-Identifier: MIT */
#include "research/table/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/files.h"
#include "base/json.h"
#include "base/hash.h"
#include "base/version.h"

enum { FORMAT = 1 };          /* of this folder; a change of what determines a cell raises it */
enum { JSON_MOST = 4 << 20 }; /* bytes of cell.json, which holds a recipe of a megabyte at most */
enum { CELL_MOST = 256 };     /* GB: ImageNet's 50,000 adversarial images three times over are 90 */

bool vt_cell_hash(const json_t *key, char hex[65]) {
    char *text = vt_json_hashed(key, JSON_SORT_KEYS | JSON_COMPACT);
    if (!text) return false;
    vt_sha_hex(text, strlen(text), hex);
    free(text);
    return true;
}

/* Writes DIR/name with sorted keys, replacing it in one step; VT_E_IO, or VT_E_MEMORY for o NULL. */
static vt_status write_json(const char *dir, const char *name, const json_t *o, vt_err *e) {
    return vt_json_save(dir, name, o, JSON_INDENT(1) | JSON_SORT_KEYS, e);
}

/* Reads at most JSON_MOST bytes of JSON; *out NULL: not there, or damaged. The caller owns it. */
static vt_status load_json(json_t **out, const char *path, vt_err *e) {
    return vt_json_file(out, path, JSON_MOST, NULL, e);
}

/* Locks a folder: LOCK_EX keeps others from it, LOCK_SH from changing it. Closing the descriptor releases it, and so
 * does the end of the process. -1: it is not held, errno says why. */
static int lock_folder(const char *dir, int how) {
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || TEMP_FAILURE_RETRY(flock(fd, how)) == 0) return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

void vt_cell_release(int fd) {
    if (fd >= 0) close(fd);
}

/* Whether the folder holds anything; false if it cannot be read. */
static bool has_entries(const char *dir) {
    DIR *d = opendir(dir);
    bool any = false;
    for (struct dirent *x; d && !any && (x = readdir(d));) any = strcmp(x->d_name, ".") && strcmp(x->d_name, "..");
    if (d) closedir(d);
    return any;
}

/* Sets *there to whether dir is a cache of this version; false if it is absent or empty. VT_E_USAGE for other contents
 * or versions. */
static vt_status inspect_cache(const char *dir, bool *there, vt_err *e) {
    char path[VT_PATH_MAX];
    struct stat s;
    *there = false;
    if (!vt_path(path, dir, "cache.json")) return vt_fail(e, VT_E_USAGE, "%.100s...: path is too long", dir);
    if (stat(dir, &s) != 0) return VT_OK;
    if (!S_ISDIR(s.st_mode)) return vt_fail(e, VT_E_USAGE, "%s: exists and is not a folder", dir);
    if (access(path, F_OK) != 0) {
        if (!has_entries(dir)) return VT_OK;
        return vt_fail(e, VT_E_USAGE, "%s holds files and is no cache of vitrine table: name a new folder", dir);
    }
    json_t *o;
    VT_TRY(load_json(&o, path, e));
    int format = (int)json_integer_value(json_object_get(o, "format"));
    const char *version = json_string_value(json_object_get(o, "vitrine"));
    vt_status st = VT_OK;
    if (!version)
        st = vt_fail(e, VT_E_USAGE, "%s: is damaged; name another folder", path);
    else if (format != FORMAT || strcmp(version, VT_VERSION))
        st = vt_fail(e, VT_E_USAGE,
                     "%s: this cache was written by vitrine %.40s (format %d), this is vitrine %s (format %d): its "
                     "cells are not this version's; name another folder",
                     path, version, format, VT_VERSION, FORMAT);
    json_decref(o);
    *there = st == VT_OK;
    return st;
}

/* Beside another that is making it, this waits until it is made. A folder that could not be locked because it was
 * absent is absent: by now another may have begun it. */
vt_status vt_cache_look(const char *dir, bool *there, vt_err *e) {
    int lock = lock_folder(dir, LOCK_SH);
    *there = false;
    if (lock < 0 && errno == ENOENT) return VT_OK;
    vt_status s = inspect_cache(dir, there, e);
    vt_cell_release(lock);
    return s;
}

/* Writes cache.json, unless it is there, and makes cells/; the folder must exist. */
static vt_status make_cache(const char *dir, vt_err *e) {
    bool there;
    VT_TRY(inspect_cache(dir, &there, e));
    if (!there) { /* first of all, so that a killed start leaves nothing that looks like something else */
        json_t *o = json_pack("{s:i,s:s}", "format", FORMAT, "vitrine", VT_VERSION);
        vt_status s = write_json(dir, "cache.json", o, e);
        json_decref(o);
        VT_TRY(s);
    }
    return vt_make_dir_in(dir, "cells", e);
}

vt_status vt_cache_make(const char *dir, vt_err *e) {
    bool there;
    VT_TRY(vt_cache_look(dir, &there, e));
    VT_TRY(vt_make_dir(dir, e));
    int lock = lock_folder(dir, LOCK_EX);
    vt_status s = make_cache(dir, e);
    vt_cell_release(lock);
    return s;
}

vt_status vt_cell_path(char *out, const char *dir, const char *hash, const char *file, vt_err *e) {
    int n = snprintf(out, VT_PATH_MAX, "%s/cells/%s%s%s", dir, hash, file ? "/" : "", file ? file : "");
    return n < VT_PATH_MAX ? VT_OK : vt_fail(e, VT_E_USAGE, "%.100s...: path is too long", dir);
}

/* What a table reads of a cell: an evaluation's lines, the times of steps, trained weights, singular values. */
static const char *const counted[] = {"run/ledger.jsonl", "run/log.jsonl", "run/model.safetensors",
                                      "run/best.safetensors", "sigma.csv"};
enum { COUNTED = sizeof counted / sizeof *counted };

/* hex: the ledger's hash in the evaluation's own SHA256SUMS; false if there is none. */
static bool read_ledger_checksum(const char *dir, const char *hash, char hex[65]) {
    char path[VT_PATH_MAX], line[VT_PATH_MAX];
    bool found = false;
    if (vt_cell_path(path, dir, hash, "run/SHA256SUMS", NULL) != VT_OK) return false;
    FILE *f;
    vt_file_stream(&f, path, NULL);
    while (f && !found && fgets(line, sizeof line, f))
        found = sscanf(line, "%64[0-9a-f]", hex) == 1 && !strcmp(line + strlen(hex), "  ledger.jsonl\n");
    if (f) fclose(f);
    return found;
}

/* VT_E_FORMAT if `file` of a finished cell is not what `sums` has the hash of, or only one of the two is there. sums
 * NULL (an older cache): a ledger is checked by its run's SHA256SUMS, other files are not. */
static vt_status check_file_unchanged(const char *dir, const char *hash, const json_t *sums, const char *file,
                                      vt_err *e) {
    char path[VT_PATH_MAX], hex[65], then[65] = "";
    const char *said = json_string_value(json_object_get(sums, file));
    VT_TRY(vt_cell_path(path, dir, hash, file, e));
    bool there = access(path, F_OK) == 0;
    snprintf(then, sizeof then, "%s", said ? said : "");
    if (!sums && (strcmp(file, counted[0]) || !read_ledger_checksum(dir, hash, then))) return VT_OK;
    if (!there && !*then) return VT_OK;
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return vt_fail(e, VT_E_FORMAT, "%s: is no regular file, though its cell is finished: remove the cell's folder",
                       path);
    VT_TRY(vt_sha_file(path, hex, e));
    if (!strcmp(hex, then)) return VT_OK;
    return vt_fail(e, VT_E_FORMAT,
                   "%s: is not what its cell was finished with (SHA-256 %.12s..., was %.12s...): remove the cell's "
                   "folder, and it is made again",
                   path, hex, *then ? then : "none");
}

/* VT_E_FORMAT if done.json or a file whose hash it holds is damaged. */
static vt_status check_finished_cell(const char *dir, const char *hash, vt_err *e) {
    char path[VT_PATH_MAX];
    VT_TRY(vt_cell_path(path, dir, hash, "done.json", e));
    json_t *done;
    VT_TRY(load_json(&done, path, e));
    vt_status s = done ? VT_OK : vt_fail(e, VT_E_FORMAT, "%s: is damaged: remove the cell's folder", path);
    for (int i = 0; s == VT_OK && i < COUNTED; i++)
        s = check_file_unchanged(dir, hash, json_object_get(done, "sha256"), counted[i], e);
    json_decref(done);
    return s;
}

/* VT_E_IO if cells/, the cell or its run/ is no folder: a cache reads and writes only within its own folders. */
static vt_status refuse_links(const char *dir, const char *hash, vt_err *e) {
    char path[VT_PATH_MAX];
    struct stat s;
    for (int i = 0; i < 3; i++) {
        if (i > 0) VT_TRY(vt_cell_path(path, dir, hash, i == 2 ? "run" : NULL, e));
        if (i == 0 && !vt_path(path, dir, "cells")) return VT_OK; /* too long: said elsewhere */
        if (lstat(path, &s) == 0 && !S_ISDIR(s.st_mode))
            return vt_fail(e, VT_E_IO, "%s: is a link or a file, must be a folder: remove it", path);
    }
    return VT_OK;
}

vt_status vt_cell_look(const char *dir, const char *hash, const json_t *key, vt_cell_state *state, vt_err *e) {
    char path[VT_PATH_MAX];
    *state = VT_CELL_MISSING;
    VT_TRY(refuse_links(dir, hash, e));
    VT_TRY(vt_cell_path(path, dir, hash, "cell.json", e));
    if (access(path, F_OK) != 0) return VT_OK;
    json_t *o;
    VT_TRY(load_json(&o, path, e));
    bool same = o && json_equal(o, key);
    json_decref(o);
    if (!same) return vt_fail(e, VT_E_FORMAT, "%s: is damaged: it is not what its folder's name is the hash of", path);
    VT_TRY(vt_cell_path(path, dir, hash, "done.json", e));
    *state = access(path, F_OK) == 0 ? VT_CELL_DONE : VT_CELL_BEGUN;
    return *state == VT_CELL_DONE ? check_finished_cell(dir, hash, e) : VT_OK;
}

vt_status vt_cell_begin(const char *dir, const char *hash, const json_t *key, int *lock, vt_err *e) {
    char path[VT_PATH_MAX];
    char below[80];
    snprintf(below, sizeof below, "cells/%.64s", hash);
    VT_TRY(vt_make_dir_in(dir, below, e));
    VT_TRY(vt_cell_path(path, dir, hash, NULL, e));
    *lock = lock_folder(path, LOCK_EX | LOCK_NB);
    if (*lock < 0 && errno == EWOULDBLOCK)
        return vt_fail(e, VT_E_IO, "%s: another vitrine table is at work on this cell", path);
    vt_status s = write_json(path, "cell.json", key, e);
    if (s != VT_OK) vt_cell_release(*lock);
    return s;
}

vt_status vt_cell_end(const char *dir, const char *hash, double seconds, vt_err *e) {
    char path[VT_PATH_MAX], hex[65];
    size_t before = vt_json_refused();
    json_t *sums = json_object();
    vt_status s = VT_OK;
    for (int i = 0; s == VT_OK && i < COUNTED; i++) {
        s = vt_cell_path(path, dir, hash, counted[i], e);
        if (s != VT_OK || access(path, F_OK) != 0) continue;
        s = vt_sha_file(path, hex, e);
        if (s == VT_OK) json_object_set_new(sums, counted[i], json_string(hex));
    }
    if (s == VT_OK) s = vt_cell_path(path, dir, hash, NULL, e);
    if (s == VT_OK && !json_object_size(sums) && vt_json_refused() == before)
        s = vt_fail(e, VT_E_IO, "%s: its run has left no result", path);
    json_t *o = vt_json_whole(json_pack("{s:f,s:o}", "seconds", seconds, "sha256", sums), before);
    if (s == VT_OK) s = write_json(path, "done.json", o, e);
    json_decref(o);
    return s;
}

vt_status vt_cell_sha(const char *dir, const char *hash, const char *file, char hex[65], vt_err *e) {
    char path[VT_PATH_MAX];
    VT_TRY(vt_cell_path(path, dir, hash, "done.json", e));
    json_t *done;
    VT_TRY(load_json(&done, path, e));
    const char *said = json_string_value(json_object_get(json_object_get(done, "sha256"), file));
    snprintf(hex, 65, "%s", said ? said : "");
    json_decref(done);
    if (*hex) return VT_OK;
    VT_TRY(vt_cell_path(path, dir, hash, file, e));
    return vt_sha_file(path, hex, e);
}

/* ---- merging ---- */

/* Copies a regular file, replacing `to` in one step; VT_E_IO. */
static vt_status copy_file(const char *to, const char *from, vt_err *e) {
    char buf[1 << 16];
    vt_file f;
    FILE *in;
    VT_TRY(vt_file_stream(&in, from, e));
    vt_status s = vt_file_begin_path(&f, to, e);
    if (s == VT_OK) {
        for (size_t n; !ferror(f.stream) && (n = fread(buf, 1, sizeof buf, in)) > 0;) fwrite(buf, 1, n, f.stream);
        if (ferror(in)) {
            vt_file_abandon(&f);
            s = vt_fail(e, VT_E_IO, "%s: cannot be read: %s", from, strerror(errno));
        } else {
            s = vt_file_commit(&f, e);
        }
    }
    fclose(in);
    return s;
}

/* Copies a file, or a folder (at depth 0 without done.json, which the caller copies last); `to` NULL: only checks.
 * VT_E_FORMAT for links, pipes and more than *left bytes, which it lowers: the cache may be another person's. */
static vt_status copy_tree(const char *to, const char *from, int depth, int64_t *left, vt_err *e) {
    char a[VT_PATH_MAX], b[VT_PATH_MAX];
    struct stat st;
    if (lstat(from, &st) != 0) return vt_fail(e, VT_E_IO, "%s: cannot be read: %s", from, strerror(errno));
    if (S_ISREG(st.st_mode)) {
        if ((*left -= st.st_size) < 0)
            return vt_fail(e, VT_E_FORMAT, "%s: with it the cell is larger than %d GB, which none is", from, CELL_MOST);
        return to ? copy_file(to, from, e) : VT_OK;
    }
    if (!S_ISDIR(st.st_mode))
        return vt_fail(e, VT_E_FORMAT, "%s: is neither a regular file nor a folder, and a cache holds nothing else",
                       from);
    if (to) VT_TRY(vt_make_dir(to, e));
    DIR *d = opendir(from);
    vt_status s = d ? VT_OK : vt_fail(e, VT_E_IO, "%s: cannot be read: %s", from, strerror(errno));
    for (struct dirent *x; s == VT_OK && (x = readdir(d));) {
        if (!strcmp(x->d_name, ".") || !strcmp(x->d_name, "..")) continue;
        if (to && ((!depth && !strcmp(x->d_name, "done.json")) || vt_file_is_temporary(x->d_name))) continue;
        if ((to && !vt_path(a, to, x->d_name)) || !vt_path(b, from, x->d_name) || depth > 8)
            s = vt_fail(e, VT_E_IO, "%s: path is too long", from);
        else
            s = copy_tree(to ? a : NULL, b, depth + 1, left, e);
    }
    if (d) closedir(d);
    return s;
}

/* Copies a cell that `from` has finished and `to` has not, done.json last, and adds 1 to *n; any other: VT_OK.
 * VT_E_FORMAT if it is damaged, holds a link or is too large, whether it would be copied or not. */
static vt_status merge_cell(const char *to, const char *from, const char *hash, int *n, vt_err *e) {
    char a[VT_PATH_MAX], b[VT_PATH_MAX];
    vt_cell_state here, there;
    int64_t left = (int64_t)CELL_MOST << 30, again = left;
    VT_TRY(vt_cell_path(b, from, hash, NULL, e));
    VT_TRY(copy_tree(NULL, b, 0, &left, e));
    VT_TRY(vt_cell_path(b, from, hash, "cell.json", e));
    json_t *key;
    VT_TRY(load_json(&key, b, e));
    char hex[65] = "";
    if (!key || !vt_cell_hash(key, hex) || strcmp(hex, hash)) {
        json_decref(key);
        return vt_fail(e, VT_E_FORMAT, "%s: is damaged: it is not what its folder's name is the hash of", b);
    }
    vt_status s = vt_cell_look(to, hash, key, &here, e);
    if (s == VT_OK) s = vt_cell_look(from, hash, key, &there, e);
    bool take = s == VT_OK && here != VT_CELL_DONE && there == VT_CELL_DONE;
    int lock = -1;
    if (take) s = vt_cell_begin(to, hash, key, &lock, e);
    json_decref(key);
    if (!take || s != VT_OK) return s;
    s = vt_cell_path(a, to, hash, NULL, e);
    if (s == VT_OK) s = vt_cell_path(b, from, hash, NULL, e);
    if (s == VT_OK) vt_file_tidy(a, 2); /* of a merge that was killed */
    if (s == VT_OK) s = copy_tree(a, b, 0, &again, e);
    if (s == VT_OK) s = vt_cell_path(a, to, hash, "done.json", e);
    if (s == VT_OK) s = vt_cell_path(b, from, hash, "done.json", e);
    if (s == VT_OK) s = copy_file(a, b, e);
    vt_cell_release(lock);
    *n += s == VT_OK;
    return s;
}

vt_status vt_cache_merge(const char *to, const char *from, int *n, vt_err *e) {
    char cells[VT_PATH_MAX];
    bool there;
    *n = 0;
    VT_TRY(vt_cache_look(from, &there, e));
    if (!there) return vt_fail(e, VT_E_USAGE, "%s: is no cache of vitrine table", from);
    if (!vt_path(cells, from, "cells")) return vt_fail(e, VT_E_USAGE, "%.100s...: path is too long", from);
    DIR *d = opendir(cells);
    vt_status s = VT_OK;
    for (struct dirent *x; d && s == VT_OK && (x = readdir(d));)
        if (strspn(x->d_name, "0123456789abcdef") == 64 && strlen(x->d_name) == 64)
            s = merge_cell(to, from, x->d_name, n, e);
    if (d) closedir(d);
    return s;
}
