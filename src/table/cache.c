#include "table/cache.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "core/files.h"
#include "core/hash.h"
#include "core/version.h"

enum { FORMAT = 1 }; /* of this folder; a change of what determines a cell raises it */

bool vt_cell_hash(const json_t *key, char hex[65]) {
    char *text = json_dumps(key, JSON_SORT_KEYS | JSON_COMPACT);
    if (!text) return false;
    vt_sha_hex(text, strlen(text), hex);
    free(text);
    return true;
}

static vt_status write_json(const char *dir, const char *name, const json_t *o, vt_err *e) {
    vt_file f;
    if (!o) return vt_fail(e, VT_E_MEMORY, "%s: no memory for %s", dir, name);
    VT_TRY(vt_file_begin(&f, dir, name, e));
    json_dumpf(o, f.stream, JSON_INDENT(1) | JSON_SORT_KEYS);
    fputc('\n', f.stream);
    return vt_file_commit(&f, e);
}

/* ---- the folder ---- */

/* Does it hold anything? */
static bool holds(const char *dir) {
    DIR *d = opendir(dir);
    bool any = false;
    for (struct dirent *x; d && !any && (x = readdir(d));) any = strcmp(x->d_name, ".") && strcmp(x->d_name, "..");
    if (d) closedir(d);
    return any;
}

vt_status vt_cache_look(const char *dir, bool *there, vt_err *e) {
    char path[VT_PATH_MAX];
    struct stat s;
    *there = false;
    if (!vt_path(path, dir, "cache.json")) return vt_fail(e, VT_E_USAGE, "%.100s...: path is too long", dir);
    if (stat(dir, &s) != 0) return VT_OK;
    if (!S_ISDIR(s.st_mode)) return vt_fail(e, VT_E_USAGE, "%s: exists and is not a folder", dir);
    if (access(path, F_OK) != 0) {
        if (!holds(dir)) return VT_OK;
        return vt_fail(e, VT_E_USAGE, "%s holds files and is no cache of vitrine table: name a new folder", dir);
    }
    json_t *o = json_load_file(path, 0, NULL);
    int format = (int)json_integer_value(json_object_get(o, "format"));
    const char *version = json_string_value(json_object_get(o, "vitrine"));
    vt_status st = VT_OK;
    if (!version)
        st = vt_fail(e, VT_E_USAGE, "%s: is damaged; name another folder", path);
    else if (format != FORMAT || strcmp(version, VT_VERSION))
        st = vt_fail(e, VT_E_USAGE,
                     "%s: this cache was written by vitrine %.40s (format %d), this is vitrine %s (format %d): its "
                     "cells are "
                     "not this version's; name another folder",
                     path, version, format, VT_VERSION, FORMAT);
    json_decref(o);
    *there = st == VT_OK;
    return st;
}

vt_status vt_cache_make(const char *dir, vt_err *e) {
    bool there;
    char cells[VT_PATH_MAX];
    VT_TRY(vt_cache_look(dir, &there, e));
    if (!vt_path(cells, dir, "cells")) return vt_fail(e, VT_E_USAGE, "%.100s...: path is too long", dir);
    VT_TRY(vt_make_dir(dir, e));
    if (!there) { /* first of all, so that a killed start leaves nothing that looks like something else */
        json_t *o = json_pack("{s:i,s:s}", "format", FORMAT, "vitrine", VT_VERSION);
        vt_status s = write_json(dir, "cache.json", o, e);
        json_decref(o);
        VT_TRY(s);
    }
    return vt_make_dir(cells, e);
}

/* ---- a cell ---- */

vt_status vt_cell_path(char *out, const char *dir, const char *hash, const char *file, vt_err *e) {
    int n = snprintf(out, VT_PATH_MAX, "%s/cells/%s%s%s", dir, hash, file ? "/" : "", file ? file : "");
    return n < VT_PATH_MAX ? VT_OK : vt_fail(e, VT_E_USAGE, "%.100s...: path is too long", dir);
}

vt_status vt_cell_look(const char *dir, const char *hash, const json_t *key, vt_cell_state *state, vt_err *e) {
    char path[VT_PATH_MAX];
    *state = VT_CELL_MISSING;
    VT_TRY(vt_cell_path(path, dir, hash, "cell.json", e));
    if (access(path, F_OK) != 0) return VT_OK;
    json_t *o = json_load_file(path, 0, NULL);
    bool same = o && json_equal(o, key);
    json_decref(o);
    if (!same) return vt_fail(e, VT_E_FORMAT, "%s: is damaged: it is not what its folder's name is the hash of", path);
    VT_TRY(vt_cell_path(path, dir, hash, "done.json", e));
    *state = access(path, F_OK) == 0 ? VT_CELL_DONE : VT_CELL_BEGUN;
    return VT_OK;
}

vt_status vt_cell_begin(const char *dir, const char *hash, const json_t *key, vt_err *e) {
    char path[VT_PATH_MAX];
    VT_TRY(vt_cell_path(path, dir, hash, NULL, e));
    VT_TRY(vt_make_dir(path, e));
    return write_json(path, "cell.json", key, e);
}

vt_status vt_cell_end(const char *dir, const char *hash, double seconds, vt_err *e) {
    char path[VT_PATH_MAX];
    VT_TRY(vt_cell_path(path, dir, hash, NULL, e));
    json_t *o = json_pack("{s:f}", "seconds", seconds);
    vt_status s = write_json(path, "done.json", o, e);
    json_decref(o);
    return s;
}

/* ---- merging ---- */

static vt_status copy_file(const char *to, const char *from, vt_err *e) {
    char buf[1 << 16];
    vt_file f;
    FILE *in = fopen(from, "rb");
    if (!in) return vt_fail(e, VT_E_IO, "%s: cannot be opened: %s", from, strerror(errno));
    vt_status s = vt_file_begin_path(&f, to, e);
    if (s == VT_OK) {
        for (size_t n; (n = fread(buf, 1, sizeof buf, in)) > 0;) fwrite(buf, 1, n, f.stream);
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

static vt_status copy_tree(const char *to, const char *from, int depth, vt_err *e) {
    char a[VT_PATH_MAX], b[VT_PATH_MAX];
    struct stat st;
    VT_TRY(vt_make_dir(to, e));
    DIR *d = opendir(from);
    vt_status s = d ? VT_OK : vt_fail(e, VT_E_IO, "%s: cannot be read: %s", from, strerror(errno));
    for (struct dirent *x; s == VT_OK && (x = readdir(d));) {
        if (!strcmp(x->d_name, ".") || !strcmp(x->d_name, "..") || (!depth && !strcmp(x->d_name, "done.json")))
            continue;
        if (!vt_path(a, to, x->d_name) || !vt_path(b, from, x->d_name) || depth > 8)
            s = vt_fail(e, VT_E_IO, "%s: path is too long", from);
        else if (stat(b, &st) == 0 && S_ISDIR(st.st_mode))
            s = copy_tree(a, b, depth + 1, e);
        else
            s = copy_file(a, b, e);
    }
    if (d) closedir(d);
    return s;
}

/* done.json comes last: a cell whose copy was cut off is not finished. */
static vt_status merge_cell(const char *to, const char *from, const char *hash, int *n, vt_err *e) {
    char a[VT_PATH_MAX], b[VT_PATH_MAX];
    vt_cell_state here, there;
    VT_TRY(vt_cell_path(b, from, hash, "cell.json", e));
    json_t *key = json_load_file(b, 0, NULL);
    char hex[65] = "";
    if (!key || !vt_cell_hash(key, hex) || strcmp(hex, hash)) {
        json_decref(key);
        return vt_fail(e, VT_E_FORMAT, "%s: is damaged: it is not what its folder's name is the hash of", b);
    }
    vt_status s = vt_cell_look(to, hash, key, &here, e);
    if (s == VT_OK) s = vt_cell_look(from, hash, key, &there, e);
    json_decref(key);
    if (s != VT_OK || here == VT_CELL_DONE || there != VT_CELL_DONE) return s;
    VT_TRY(vt_cell_path(a, to, hash, NULL, e));
    VT_TRY(vt_cell_path(b, from, hash, NULL, e));
    VT_TRY(copy_tree(a, b, 0, e));
    VT_TRY(vt_cell_path(a, to, hash, "done.json", e));
    VT_TRY(vt_cell_path(b, from, hash, "done.json", e));
    VT_TRY(copy_file(a, b, e));
    ++*n;
    return VT_OK;
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
