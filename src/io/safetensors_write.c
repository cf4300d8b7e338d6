/* SPDX-License-Identifier: MIT */
/* The writer of safetensors. Layout as the reference writer's (huggingface/safetensors, README, "Format"). */
#include <stdlib.h>
#include <string.h>
#include "core/files.h"
#include "core/hash.h"
#include "core/json.h"
#include "core/mem.h"
#include "io/tensors.h"

#define HEADER_MAX 100000000u
#define META "__metadata__"

/* As the reference writer: larger items first (dtypes stand in its order), then by name. */
static int by_layout(const void *pa, const void *pb) {
    const vt_tensor *a = *(const vt_tensor *const *)pa, *b = *(const vt_tensor *const *)pb;
    return a->dtype != b->dtype ? (a->dtype > b->dtype ? -1 : 1) : strcmp(a->name, b->name);
}

static vt_status meta_json(const char *path, json_t *root, const char *const *meta, int n, vt_err *e) {
    char zeros[VT_ST_DIGITS + 1] = "";
    memset(zeros, '0', VT_ST_DIGITS);
    json_t *j = n ? json_object() : NULL;
    if (n && json_object_set_new(root, META, j)) return vt_fail(e, VT_E_MEMORY, "%s: no memory for its header", path);
    for (int i = 0; i < n; i++) {
        const char *key = meta[2 * i], *value = meta[2 * i + 1];
        if (json_object_get(j, key))
            return vt_fail(e, VT_E_FORMAT, "%s: metadata " VT_NAME " is given twice", path, key);
        if (!value && !strcmp(key, VT_ST_FILE)) value = zeros;
        size_t before = vt_json_refused();
        if (json_object_set_new(j, key, json_string(value)) == 0) continue;
        if (vt_json_refused() != before) return vt_fail(e, VT_E_MEMORY, "%s: no memory for its header", path);
        return vt_fail(e, VT_E_FORMAT, "%s: metadata " VT_NAME " is not UTF-8 text", path, key);
    }
    return VT_OK;
}

/* Adds t's entry, whose data begin at *end, and moves *end behind it. */
static vt_status tensor_json(const char *path, json_t *root, const vt_tensor *t, size_t *end, vt_err *e) {
    size_t numel, bytes, begin = *end;
    bool ok = (unsigned)t->dtype < VT_DTYPE_COUNT && t->ndim >= 0 && t->ndim <= VT_ST_MAX_DIMS;
    for (int i = 0; ok && i < t->ndim; i++) ok = t->shape[i] >= 0;
    if (!ok || !vt_shape_bytes(t->shape, t->ndim, t->dtype, &numel, &bytes) || numel != t->numel ||
        !vt_add(begin, bytes, end) || *end > INT64_MAX)
        return vt_fail(e, VT_E_SHAPE, "%s: dtype, shape and %zu items of tensor " VT_NAME " do not fit", path, t->numel,
                       t->name);
    if (!strcmp(t->name, META) || json_object_get(root, t->name))
        return vt_fail(e, VT_E_FORMAT, "%s: tensor name " VT_NAME " is already taken", path, t->name);
    json_t *shape = json_array();
    json_t *j = json_pack("{s:s, s:o, s:[I,I]}", "dtype", vt_dtype_name(t->dtype), "shape", shape, "data_offsets",
                          (json_int_t)begin, (json_int_t)*end); /* takes shape over */
    int bad = !j;
    for (int i = 0; !bad && i < t->ndim; i++) bad = json_array_append_new(shape, json_integer(t->shape[i]));
    if (bad) {
        json_decref(j);
        return vt_fail(e, VT_E_MEMORY, "%s: no memory for its header", path);
    }
    size_t before = vt_json_refused();
    if (json_object_set_new(root, t->name, j) == 0) return VT_OK;
    if (vt_json_refused() != before) return vt_fail(e, VT_E_MEMORY, "%s: no memory for its header", path);
    return vt_fail(e, VT_E_FORMAT, "%s: tensor name " VT_NAME " is not UTF-8 text", path, t->name);
}

/* Length and JSON text, padded with spaces so that the data begin at a multiple of 8; *out to be freed. */
static vt_status header_text(const char *path, const json_t *root, char **out, size_t *bytes, vt_err *e) {
    char *json = vt_json_text(root, JSON_COMPACT);
    size_t n = json ? strlen(json) : 0, padded = (n + 7) / 8 * 8;
    char *text = *out = n && padded <= HEADER_MAX ? malloc(8 + padded) : NULL;
    if (text) {
        memset(text, ' ', 8 + padded);
        memcpy(text, &(uint64_t){padded}, 8);
        memcpy(text + 8, json, n);
        *bytes = 8 + padded;
    }
    free(json);
    if (padded > HEADER_MAX)
        return vt_fail(e, VT_E_RANGE, "%s: header of %zu bytes, the limit is %u", path, padded, HEADER_MAX);
    return text ? VT_OK : vt_fail(e, VT_E_MEMORY, "%s: no memory for its header", path);
}

/* The file's hash into its header, where that has zeros for it. */
static vt_status insert_file_hash(const char *path, char *head, const vt_span *parts, int n, vt_err *e) {
    char hex[VT_ST_DIGITS + 1], *digits = vt_tensors_digits(head + 8, parts[0].bytes - 8);
    vt_sha *sha = vt_sha_new();
    if (!sha || !digits) {
        free(sha);
        return vt_fail(e, VT_E_MEMORY, "%s: no memory to hash it", path);
    }
    for (int i = 0; i < n; i++) vt_sha_update(sha, parts[i].data, parts[i].bytes);
    vt_sha_end(sha, hex);
    memcpy(digits, hex, VT_ST_DIGITS);
    return VT_OK;
}

vt_status vt_tensors_write(const char *path, const vt_tensor *t, int n, const char *const *meta, int n_meta,
                           vt_err *e) {
    vt_span *parts = calloc((size_t)n + 1, sizeof *parts);
    const vt_tensor **order = calloc((size_t)n + 1, sizeof *order);
    json_t *root = json_object();
    char *head = NULL;
    size_t end = 0;
    vt_status r = VT_OK;
    if (!parts || !order || !root) r = vt_fail(e, VT_E_MEMORY, "%s: no memory to write %d tensors", path, n);
    for (int i = 0; r == VT_OK && i < n; i++) order[i] = &t[i];
    if (r == VT_OK) qsort(order, (size_t)n, sizeof *order, by_layout);
    if (r == VT_OK) r = meta_json(path, root, meta, n_meta, e);
    for (int i = 0; r == VT_OK && i < n; i++) {
        r = tensor_json(path, root, order[i], &end, e);
        parts[i + 1] = (vt_span){order[i]->data, r == VT_OK ? vt_tensor_bytes(order[i]) : 0};
    }
    if (r == VT_OK) r = header_text(path, root, &head, &parts[0].bytes, e);
    if (r == VT_OK) parts[0].data = head;
    for (int i = 0; r == VT_OK && i < n_meta; i++)
        if (!meta[2 * i + 1] && !strcmp(meta[2 * i], VT_ST_FILE)) r = insert_file_hash(path, head, parts, n + 1, e);
    if (r == VT_OK) r = vt_file_replace(path, parts, n + 1, e);
    free(head);
    json_decref(root);
    free(order);
    free(parts);
    return r;
}
