/* SPDX-License-Identifier: MIT */
/* What kind of weights a file or folder holds, by content, and what it is if it holds none. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/json.h"
#include "base/text.h"
#include "tensors/tensors.h"

#define ST_FILE "model.safetensors"
#define BIN_FILE "pytorch_model.bin"
#define INDEX ".index.json"
#define INDEX_MAX 100000000u

/* ---- kinds of files that are named in a refusal, not read ---- */

#define EXPORT "its weights must be saved under names, by torch.save(model.state_dict(), FILE) or as safetensors"
#define PICKLE "a Python pickle, but not one that torch.save wrote"
#define PAGE "a web page, not the file that it should have linked to"

#define STARTS(bytes, at, what)                                                                                        \
    { bytes, sizeof bytes - 1, at, what }
static const struct {
    const char *bytes;
    size_t n, at;
    const char *what;
} kinds[] = {
    STARTS("ustar", 257,
           "a tar archive (PyTorch before 0.1.10, or a packed folder): unpack it (tar xf) and give what comes out, or "
           "load and save it again"),
    STARTS("\x1f\x8b", 0, "compressed by gzip: unpack it first (tar xf, or gunzip) and give what comes out"),
    STARTS("\375\067zXZ", 0, "compressed by xz: unpack it first (tar xf, or unxz) and give what comes out"),
    STARTS("BZh", 0, "compressed by bzip2: unpack it first (tar xf, or bunzip2) and give what comes out"),
    STARTS("\x28\xb5\x2f\xfd", 0, "compressed by zstd: unpack it first (tar xf, or unzstd) and give what comes out"),
    STARTS("7z\xbc\xaf\x27\x1c", 0, "a 7z archive: unpack it first and give what comes out"),
    STARTS("Rar!", 0, "a RAR archive: unpack it first and give what comes out"),
    STARTS("\x89HDF", 0, "an HDF5 file (Keras, MATLAB): not read; " EXPORT),
    STARTS("MATLAB 5.0 MAT-file", 0,
           "a MATLAB file: not read; CIFAR's Python and binary versions are, and so are NumPy's arrays"),
    STARTS("PAR1", 0,
           "a Parquet table (a data set of the Hugging Face hub): not read; NumPy's arrays and folders of "
           "pictures are"),
    STARTS("\x93NUMPY", 0, "a NumPy array, not weights"),
    STARTS("GGUF", 0, "a GGUF file: not read; " EXPORT),
    STARTS("TFL3", 4, "a TensorFlow Lite model: not read; " EXPORT),
    STARTS("\x08\x01\x12", 0, "a TensorFlow SavedModel: not read; " EXPORT),
    STARTS("\x80\x02", 0, PICKLE),
    STARTS("\x80\x03", 0, PICKLE),
    STARTS("\x80\x04", 0, PICKLE),
    STARTS("\x80\x05", 0, PICKLE),
    STARTS("version https://git-lfs", 0, "a Git LFS pointer, not the file it stands for: git lfs pull fetches that"),
    STARTS("<!DOCTYPE", 0, PAGE),
    STARTS("<html", 0, PAGE),
};

/* Returns whether the file begins as a protocol buffer with ir_version, a small number, then a field that a ModelProto
 * may have next (onnx.proto: producer_name, producer_version, domain, model_version, doc_string, graph,
 * opset_import). */
static bool is_onnx(const uint8_t *b, size_t n) {
    static const char next[] = "\x12\x1a\x22\x28\x32\x3a\x42";
    return n > 3 && b[0] == 0x08 && b[1] >= 2 && b[1] < 32 && memchr(next, b[2], sizeof next - 1);
}

/* Returns whether the file begins with a header's length that fits it, and a {. */
static bool is_safetensors(const uint8_t *b, size_t n) {
    uint64_t header;
    return n > 8 && (memcpy(&header, b, 8), header <= n - 8) && b[8] == '{';
}

const char *vt_unsupported_file(const uint8_t *bytes, size_t n) {
    if (is_safetensors(bytes, n)) return NULL; /* whatever its length looks like */
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (n >= kinds[i].at + kinds[i].n && !memcmp(bytes + kinds[i].at, kinds[i].bytes, kinds[i].n))
            return kinds[i].what;
    return is_onnx(bytes, n) ? "an ONNX model: not read; " EXPORT : NULL;
}

/* ---- one file ---- */

/* Returns whether the file has these n bytes at offset `at`. */
static bool has_bytes_at(const vt_tensors *st, const char *bytes, size_t n, size_t at) {
    return st->size >= at + n && !memcmp(st->bytes + at, bytes, n);
}

/* Returns whether torch.save before 1.6 wrote the file: it wrote this number first, as a pickle of its own. */
static bool is_legacy(const vt_tensors *st) {
    static const char magic[] = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
    return has_bytes_at(st, "\x80", 1, 0) && memmem(st->bytes, st->size < 32 ? st->size : 32, magic, sizeof magic - 1);
}

/* Returns whether the file begins as a JSON object and not as a safetensors file. */
static bool is_index(const vt_tensors *st) { /* a safetensors file that begins so would have a header of 8 GB or more */
    return has_bytes_at(st, "{", 1, 0) && memchr(st->bytes, '"', st->size < 64 ? st->size : 64) &&
           !has_bytes_at(st, "\0", 1, 7);
}

static vt_status read_index(vt_tensors *st, vt_err *e);

/* Fails with VT_E_UNKNOWN: an entry `want` is asked for, but the file's format has none. */
static vt_status no_entries(const vt_tensors *st, const char *want, vt_err *e) {
    return vt_fail(e, VT_E_UNKNOWN, "%s: has no entry '%s': %s of tensors alone", st->path, want,
                   st->shard_count ? "an index speaks" : "a safetensors file consists");
}

/* Adds the file's tensors to st by its kind; shard: an index of shards is not taken for one. want: NULL, an entry
 * (VT_E_UNKNOWN if the format has none) or vt_state_all. VT_E_FORMAT: no kind that is read. */
static vt_status read_file(vt_tensors *st, const char *want, bool shard, vt_err *e) {
    if (is_index(st) && st->map.bytes && !shard) {
        VT_TRY(read_index(st, e));
        return want ? no_entries(st, want, e) : VT_OK;
    }
    if (has_bytes_at(st, "PK\3\4", 4, 0) || has_bytes_at(st, "PK\5\6", 4, 0)) return vt_tensors_read_zip(st, want, e);
    if (is_legacy(st)) return vt_tensors_read_legacy(st, want, e);
    const char *kind = vt_unsupported_file(st->bytes, st->size);
    if (kind) return vt_fail(e, VT_E_FORMAT, "%s: is %s", st->path, kind);
    VT_TRY(vt_tensors_read_safetensors(st, e));
    return want && want != vt_state_all ? no_entries(st, want, e) : VT_OK;
}

/* Opens a file of weights of any format, or n bytes (not NULL). want: as read_file takes it; whole: an index is read
 * and what training wrapped around is stripped. On failure *out is NULL. */
static vt_status open_weights(vt_tensors **out, const char *path, const uint8_t *bytes, size_t n, const char *want,
                              bool whole, vt_err *e) {
    vt_tensors *st;
    vt_err mine = {0}; /* readers return its code */
    if (!e) e = &mine;
    *out = NULL;
    VT_TRY(vt_tensors_begin(&st, path, bytes, n, e));
    vt_status s = read_file(st, want, !whole, e);
    if (s == VT_OK) s = vt_tensors_index(st, e);
    if (s == VT_OK && whole) s = vt_tensors_strip_training(st, e);
    if (s != VT_OK) {
        vt_tensors_close(st);
        return s;
    }
    *out = st;
    return VT_OK;
}

vt_status vt_tensors_open(vt_tensors **out, const char *path, vt_err *e) {
    return open_weights(out, path, NULL, 0, vt_state_all, false, e);
}

vt_status vt_tensors_parse(vt_tensors **out, const uint8_t *bytes, size_t n, const char *path, vt_err *e) {
    return open_weights(out, path, bytes, n, vt_state_all, false, e);
}

vt_status vt_weights_parse(vt_tensors **out, const uint8_t *bytes, size_t n, const char *path, const char *want,
                           vt_err *e) {
    return open_weights(out, path, bytes, n, want, true, e);
}

/* ---- shards: {"weight_map": {tensor: file}} (Hugging Face) ---- */

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Sets *out [*n], to be freed also after a failure, to the files that the index's map names, each once, sorted; texts
 * are the map's. VT_E_FORMAT: one that is no file beside it. */
static vt_status shard_names(const vt_tensors *st, json_t *map, const char ***out, int *n, vt_err *e) {
    const char *name;
    json_t *file;
    int all = 0;
    const char **v = *out = calloc(json_object_size(map) + 1, sizeof *v);
    if (!v) return vt_fail(e, VT_E_MEMORY, "%s: no memory for its shards", st->path);
    json_object_foreach(map, name, file) {
        const char *f = json_string_value(file);
        if (!f || !*f || *f == '.' || strchr(f, '/'))
            return vt_fail(e, VT_E_FORMAT,
                           "%s: tensor " VT_NAME " is said to be in '%.80s', which is no file beside it", st->path,
                           name, f ? f : "");
        v[all++] = f;
    }
    qsort(v, (size_t)all, sizeof *v, by_text);
    *n = 0;
    for (int i = 0; i < all; i++)
        if (!*n || strcmp(v[*n - 1], v[i])) v[(*n)++] = v[i];
    return VT_OK;
}

/* Adds a shard's tensors to st (VT_E_FORMAT unless the map says of each that `file` has it), and its metadata but for
 * keys in `seen`, an object of those so far, which grows. */
static vt_status add_shard(vt_tensors *st, const vt_tensors *shard, const char *file, json_t *map, json_t *seen,
                           vt_err *e) {
    for (int i = 0; i < shard->count; i++) {
        const char *said = json_string_value(json_object_get(map, shard->t[i].name));
        if (!said || strcmp(said, file))
            return vt_fail(e, VT_E_FORMAT, "%s: tensor " VT_NAME " is not in the index %s", shard->path,
                           shard->t[i].name, st->path);
        VT_TRY(vt_tensors_add(st, &shard->t[i], e));
    }
    for (int i = 0; i < shard->meta_count; i++) {
        const char *key = shard->meta[2 * i];
        if (json_object_get(seen, key)) continue;
        if (json_object_set_new(seen, key, json_null()))
            return vt_fail(e, VT_E_MEMORY, "%s: no memory for its metadata", shard->path);
        VT_TRY(vt_tensors_add_meta(st, key, shard->meta[2 * i + 1], e));
    }
    return VT_OK;
}

/* Sets st->shards to the opened `files` [n] beside the index, and adds their tensors and metadata (add_shard). */
static vt_status open_shards(vt_tensors *st, const char *const *files, int n, json_t *map, json_t *seen, vt_err *e) {
    int folder = (int)(basename(st->path) - st->path);
    st->shards = calloc((size_t)n + 1, sizeof *st->shards);
    if (!st->shards) return vt_fail(e, VT_E_MEMORY, "%s: no memory for its shards", st->path);
    for (int i = 0; i < n; i++) {
        char path[VT_PATH_MAX];
        if (snprintf(path, sizeof path, "%.*s%s", folder, st->path, files[i]) >= (int)sizeof path)
            return vt_fail(e, VT_E_IO, "%.80s...: path is longer than %zu bytes", path, sizeof path - 1);
        VT_TRY(open_weights(&st->shards[i], path, NULL, 0, NULL, false, e));
        st->shard_count++;
        VT_TRY(add_shard(st, st->shards[i], files[i], map, seen, e));
    }
    return VT_OK;
}

/* Reads an index of shards: opens them, sets st->root and format, and sorts the names; VT_E_FORMAT unless the shards
 * hold exactly its tensors. */
static vt_status read_index(vt_tensors *st, vt_err *e) {
    json_error_t j;
    if (st->size > INDEX_MAX)
        return vt_fail(e, VT_E_FORMAT, "%s: an index of %zu bytes, the limit is %u", st->path, st->size, INDEX_MAX);
    st->root = vt_json((const char *)st->bytes, st->size, &j);
    if (!st->root)
        return vt_fail(e, vt_json_why(&j), "%s: line %d: its JSON is not valid: %.160s", st->path, j.line, j.text);
    json_t *map = json_object_get(st->root, "weight_map");
    if (!json_is_object(map) || !json_object_size(map))
        return vt_fail(e, VT_E_FORMAT, "%s: is JSON without a weight_map: neither weights nor an index of shards",
                       st->path);
    const char **files = NULL, *name;
    json_t *file;
    json_t *seen = json_object();
    int n = 0;
    vt_status s = shard_names(st, map, &files, &n, e);
    if (s == VT_OK) s = open_shards(st, files, n, map, seen, e);
    free(files), json_decref(seen);
    VT_TRY(s);
    VT_TRY(vt_tensors_index(st, e));
    json_object_foreach(map, name, file) {
        if (!vt_tensors_find(st, name))
            return vt_fail(e, VT_E_FORMAT, "%s: tensor " VT_NAME " is missing in %.80s", st->path, name,
                           json_string_value(file));
    }
    st->format = vt_tensors_text(st, e, "%d shards, %s", n, st->shards[0]->format);
    return st->format ? VT_OK : e->code;
}

/* ---- folders ---- */

/* Returns whether a file name has an ending of weights. */
static bool is_weight_file(const char *name) {
    static const char *const ends[] = {".safetensors", ".pth", ".pt", ".bin"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (*name != '.' && vt_ends_in(name, ends[i])) return true;
    return false;
}

/* Writes the path of a folder's file of weights, of the usual name or the only one; VT_E_IO: there is none, VT_E_USAGE:
 * several. */
static vt_status find_weight_file(const char *folder, char file[VT_PATH_MAX], vt_err *e) {
    static const char *const usual[] = {ST_FILE, ST_FILE INDEX, BIN_FILE, BIN_FILE INDEX};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        VT_TRY(vt_path_in(file, folder, usual[i], e));
        if (!access(file, F_OK)) return VT_OK;
    }
    DIR *dir = opendir(folder);
    if (!dir) return vt_fail(e, VT_E_IO, "%s: cannot be read: %s", folder, strerror(errno));
    char seen[200] = "";
    int found = 0;
    vt_status s = VT_OK;
    for (struct dirent *d; (d = readdir(dir));) {
        if (!is_weight_file(d->d_name)) continue;
        if (!found++) s = vt_path_in(file, folder, d->d_name, e);
        vt_text_item(seen, sizeof seen, ", ", "%.60s", d->d_name);
    }
    closedir(dir);
    if (found == 1) return s;
    if (found) return vt_fail(e, VT_E_USAGE, "%s: holds %d files of weights (%s): name the one", folder, found, seen);
    return vt_fail(e, VT_E_IO,
                   "%s: is a folder without weights: none of " ST_FILE ", " ST_FILE INDEX ", " BIN_FILE
                   ", and no file *.safetensors, *.pth, *.pt, *.bin",
                   folder);
}

vt_status vt_weights_open(vt_tensors **out, const char *path, const char *want, vt_err *e) {
    char file[VT_PATH_MAX];
    *out = NULL;
    if (vt_is_folder(path)) {
        VT_TRY(find_weight_file(path, file, e));
        path = file;
    }
    return open_weights(out, path, NULL, 0, want, true, e);
}
