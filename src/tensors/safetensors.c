/* SPDX-License-Identifier: MIT */
/* safetensors. Format, checks and layout: huggingface/safetensors, README, "Format". */
#include <stdlib.h>
#include <string.h>
#include "base/files.h"
#include "base/json.h"
#include "base/mem.h"
#include "tensors/tensors.h"

#define HEADER_MAX 100000000u
#define META "__metadata__"
static const char zeros[] =
    "0000000000000000000000000000000000000000000000000000000000000000"; /* for VT_ST_FILE's value */
enum { DIGITS = sizeof zeros - 1 };

typedef struct body { /* what follows the header */
    const char *path;
    const uint8_t *data;
    size_t size;
} body;

/* Parses a tensor's dtype; VT_E_FORMAT for one that safetensors has not. */
static vt_status read_dtype(const body *b, const char *name, const char *text, vt_dtype *out, vt_err *e) {
    int d = 0;
    while (d < VT_DTYPE_COUNT && strcmp(vt_dtype_name((vt_dtype)d), text) != 0) d++;
    *out = (vt_dtype)d;
    if (d < VT_DTYPE_COUNT) return VT_OK;
    return vt_fail(e, VT_E_FORMAT,
                   "%s: tensor " VT_NAME " has dtype %.40s, which is not one of BOOL, U8, I8, F8_E5M2, F8_E4M3, "
                   "I16, U16, F16, BF16, I32, U32, F32, F64, I64, U64",
                   b->path, name, text);
}

/* Reads a list of sides into t->ndim and t->shape; VT_E_FORMAT: anything else, or more than VT_ST_MAX_DIMS. */
static vt_status read_shape(const body *b, const json_t *j, vt_tensor *t, vt_err *e) {
    size_t n = json_array_size(j);
    if (n > VT_ST_MAX_DIMS)
        return vt_fail(e, VT_E_FORMAT, "%s: tensor " VT_NAME " has %zu dimensions, the limit is %d", b->path, t->name,
                       n, VT_ST_MAX_DIMS);
    t->ndim = (int)n;
    for (size_t i = 0; i < n; i++) {
        t->shape[i] = json_integer_value(json_array_get(j, i));
        if (!json_is_integer(json_array_get(j, i)) || t->shape[i] < 0)
            return vt_fail(e, VT_E_FORMAT, "%s: dimension %zu of tensor " VT_NAME " is not a number of items", b->path,
                           i, t->name);
    }
    if (json_is_array(j)) return VT_OK;
    return vt_fail(e, VT_E_FORMAT, "%s: the shape of tensor " VT_NAME " is not a list of numbers of items", b->path,
                   t->name);
}

/* Fills *t from the entry j of the header; VT_E_FORMAT: malformed, outside the body, or not as long as its shape
 * takes. */
static vt_status read_tensor(const body *b, const char *name, json_t *j, vt_tensor *t, vt_err *e) {
    const char *dtype;
    json_t *shape;
    json_int_t begin = 0, end = 0;
    size_t bytes, before = vt_json_refused();
    t->name = name;
    const bool unpacked =
        !json_unpack(j, "{s:s, s:o, s:[I,I!]}", "dtype", &dtype, "shape", &shape, "data_offsets", &begin, &end);
    if (vt_json_refused() != before) return vt_fail(e, VT_E_MEMORY, "%s: no memory for its header", b->path);
    if (!unpacked)
        return vt_fail(e, VT_E_FORMAT,
                       "%s: the entry of tensor " VT_NAME " has no dtype, shape and data_offsets of two integers",
                       b->path, name);
    if (begin < 0 || end < begin)
        return vt_fail(e, VT_E_FORMAT, "%s: the data_offsets of tensor " VT_NAME " are %lld and %lld, must ascend",
                       b->path, name, (long long)begin, (long long)end);
    VT_TRY(read_dtype(b, name, dtype, &t->dtype, e));
    VT_TRY(read_shape(b, shape, t, e));
    if (!vt_shape_bytes(t->shape, t->ndim, t->dtype, &t->numel, &bytes))
        return vt_fail(e, VT_E_FORMAT, "%s: shape %s of tensor " VT_NAME " is too large for this machine", b->path,
                       VT_SHAPE(t), name);
    if ((size_t)end > b->size)
        return vt_fail(e, VT_E_FORMAT, "%s: tensor " VT_NAME " ends at byte %lld but the data is %zu bytes long",
                       b->path, name, (long long)end, b->size);
    if ((size_t)(end - begin) != bytes)
        return vt_fail(e, VT_E_FORMAT, "%s: tensor " VT_NAME " spans %lld bytes but %s %s takes %zu", b->path, name,
                       (long long)(end - begin), dtype, VT_SHAPE(t), bytes);
    t->data = b->data + begin;
    return VT_OK;
}

/* Compares two tensors by offset, then size, then name. */
static int compare_offsets(const void *pa, const void *pb) {
    const vt_tensor *a = pa, *b = pb;
    if (a->data != b->data) return (const uint8_t *)a->data < (const uint8_t *)b->data ? -1 : 1;
    size_t na = vt_tensor_bytes(a), nb = vt_tensor_bytes(b);
    return na != nb ? (na < nb ? -1 : 1) : strcmp(a->name, b->name); /* empty tensors share an offset */
}

/* VT_E_FORMAT unless every byte of the body belongs to exactly one of t [n], sorted by compare_offsets. */
static vt_status check_cover(const body *b, const vt_tensor *t, int n, vt_err *e) {
    size_t end = 0;
    for (int i = 0; i < n; i++) {
        size_t begin = (size_t)((const uint8_t *)t[i].data - b->data);
        if (begin > end)
            return vt_fail(e, VT_E_FORMAT, "%s: data bytes %zu to %zu, before " VT_NAME ", belong to no tensor",
                           b->path, end, begin, t[i].name);
        if (begin < end)
            return vt_fail(e, VT_E_FORMAT, "%s: tensor " VT_NAME " begins at byte %zu, but " VT_NAME " ends at %zu",
                           b->path, t[i].name, begin, t[i - 1].name, end);
        end = begin + vt_tensor_bytes(&t[i]);
    }
    if (end == b->size) return VT_OK;
    return vt_fail(e, VT_E_FORMAT, "%s: the tensors end at byte %zu but the data is %zu bytes long", b->path, end,
                   b->size);
}

/* Adds the header's metadata (NULL: none) to st; VT_E_FORMAT unless it is an object of texts. */
static vt_status read_meta(vt_tensors *st, json_t *meta, vt_err *e) {
    const char *key;
    json_t *value;
    if (!meta) return VT_OK;
    if (!json_is_object(meta)) return vt_fail(e, VT_E_FORMAT, "%s: " META " is not an object", st->path);
    json_object_foreach(meta, key, value) {
        if (!json_is_string(value))
            return vt_fail(e, VT_E_FORMAT, "%s: metadata " VT_NAME " is not a text", st->path, key);
        VT_TRY(vt_tensors_add_meta(st, key, json_string_value(value), e));
    }
    return VT_OK;
}

/* Reads all entries of st->root but the metadata into t, which has room for them, and adds them to st by offset.
 * VT_E_FORMAT: an entry, or the cover of the body, is refused. */
static vt_status read_tensors(vt_tensors *st, const body *b, vt_tensor *t, vt_err *e) {
    const char *name;
    json_t *j;
    int n = 0;
    json_object_foreach(st->root, name, j) {
        if (!strcmp(name, META)) continue;
        VT_TRY(read_tensor(b, name, j, &t[n++], e));
    }
    qsort(t, (size_t)n, sizeof *t, compare_offsets);
    VT_TRY(check_cover(b, t, n, e));
    for (int i = 0; i < n; i++) VT_TRY(vt_tensors_add(st, &t[i], e));
    return VT_OK;
}

vt_status vt_tensors_read_safetensors(vt_tensors *st, vt_err *e) {
    const uint8_t *bytes = st->bytes;
    size_t n = st->size;
    if (n < 8) return vt_fail(e, VT_E_FORMAT, "%s: a safetensors file has 8 bytes or more, not %zu", st->path, n);
    unsigned long long len;
    memcpy(&len, bytes, 8);
    if (len > HEADER_MAX)
        return vt_fail(e, VT_E_FORMAT,
                       "%s: is no file of weights that is known; as safetensors it would have a header of %llu bytes, "
                       "the limit is %u",
                       st->path, len, HEADER_MAX);
    if (len > n - 8)
        return vt_fail(e, VT_E_FORMAT, "%s: claims a header of %llu bytes but only %zu bytes follow", st->path, len,
                       n - 8);
    if (!len || bytes[8] != '{') return vt_fail(e, VT_E_FORMAT, "%s: the header does not begin with {", st->path);
    json_error_t j;
    body b = {st->path, bytes + 8 + len, n - 8 - (size_t)len};
    st->format = "safetensors";
    st->root = vt_json((const char *)bytes + 8, (size_t)len, &j);
    if (!st->root)
        return vt_fail(e, vt_json_why(&j), "%s: its JSON is not valid near byte %d: %.160s", st->path, j.position,
                       j.text);
    VT_TRY(read_meta(st, json_object_get(st->root, META), e));
    vt_tensor *t = calloc(json_object_size(st->root) + 1, sizeof *t);
    if (!t) return vt_fail(e, VT_E_MEMORY, "%s: no memory for %zu names", st->path, json_object_size(st->root));
    vt_status s = read_tensors(st, &b, t, e);
    free(t);
    return s;
}

/* Returns where the header (after its 8 bytes of length) has the digits of VT_ST_FILE, or NULL: a text or name that
 * holds the pattern has its quotes escaped. */
static const char *find_digits(const char *header, size_t n) {
    static const char key[] = "\"" VT_ST_FILE "\":\"";
    const char *at = memmem(header, n, key, sizeof key - 1);
    return at && (size_t)(header + n - at) >= sizeof key - 1 + DIGITS ? at + sizeof key - 1 : NULL;
}

const char *vt_tensors_seal(const vt_tensors *st) {
    if (st->shard_count || strcmp(st->format, "safetensors") != 0) return NULL;
    return vt_tensors_meta(st, VT_ST_FILE) ? VT_ST_FILE : vt_tensors_meta(st, VT_ST_SHA) ? VT_ST_SHA : NULL;
}

vt_status vt_tensors_check(const vt_tensors *st, vt_err *e) {
    char hex[65];
    const char *key = vt_tensors_seal(st), *want = key ? vt_tensors_meta(st, key) : NULL;
    for (int i = 0; i < st->shard_count; i++) VT_TRY(vt_tensors_check(st->shards[i], e));
    if (!key) return VT_OK;
    bool whole = !strcmp(key, VT_ST_FILE);
    uint64_t len;
    memcpy(&len, st->bytes, 8);
    const char *bytes = (const char *)st->bytes, *digits = whole ? find_digits(bytes + 8, (size_t)len) : NULL;
    size_t from = digits ? (size_t)(digits - bytes) + DIGITS : whole ? 0 : 8 + (size_t)len;
    vt_sha sha;
    vt_sha_begin(&sha);
    if (digits) vt_sha_update(&sha, bytes, from - DIGITS), vt_sha_update(&sha, zeros, DIGITS);
    vt_tensors_hash(st, from, &sha);
    vt_sha_end(&sha, hex);
    if (!strcmp(hex, want)) return VT_OK;
    return vt_fail(e, VT_E_FORMAT,
                   "%s: %s not %s: %s SHA-256 is %.12s..., its metadata's %s %.12s... (damaged, or changed by a "
                   "program that kept the metadata: such a program leaves that key out)",
                   st->path, whole ? "is" : "its tensors are", whole ? "as it was written" : "those that were written",
                   whole ? "its" : "their", hex, key, want);
}

/* ---- writing ---- */

/* Orders tensors as the reference writer: larger items first (dtypes stand in its order), then by name. */
static int compare_layout(const void *pa, const void *pb) {
    const vt_tensor *a = *(const vt_tensor *const *)pa, *b = *(const vt_tensor *const *)pb;
    return a->dtype != b->dtype ? (a->dtype > b->dtype ? -1 : 1) : strcmp(a->name, b->name);
}

/* Adds n pairs of key and value as the header's metadata; a NULL value of VT_ST_FILE becomes zeros. VT_E_FORMAT: a key
 * twice, or no UTF-8. */
static vt_status add_metadata_json(const char *path, json_t *root, const char *const *meta, int n, vt_err *e) {
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

/* Adds t's entry to the header, its data from *end on, and moves *end past them. VT_E_SHAPE: dtype, shape and numel do
 * not fit; VT_E_FORMAT: a name taken, or no UTF-8. */
static vt_status add_tensor_json(const char *path, json_t *root, const vt_tensor *t, size_t *end, vt_err *e) {
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

/* Makes the header, *out [*bytes] to be freed: length and JSON text, padded so that the data begin at a multiple of 8.
 * VT_E_RANGE: longer than HEADER_MAX. */
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

/* Writes the SHA-256 of the parts [n] over the zeros of VT_ST_FILE in `head`, which is parts[0]; nothing without
 * them. */
static void insert_file_hash(char *head, const vt_span *parts, int n) {
    char hex[DIGITS + 1];
    const char *digits = find_digits(head + 8, parts[0].bytes - 8);
    vt_sha sha;
    vt_sha_begin(&sha);
    for (int i = 0; i < n; i++) vt_sha_update(&sha, parts[i].data, parts[i].bytes);
    vt_sha_end(&sha, hex);
    if (digits) memcpy(head + (digits - head), hex, DIGITS);
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
    if (r == VT_OK) qsort(order, (size_t)n, sizeof *order, compare_layout);
    if (r == VT_OK) r = add_metadata_json(path, root, meta, n_meta, e);
    for (int i = 0; r == VT_OK && i < n; i++) {
        r = add_tensor_json(path, root, order[i], &end, e);
        parts[i + 1] = (vt_span){order[i]->data, r == VT_OK ? vt_tensor_bytes(order[i]) : 0};
    }
    if (r == VT_OK) r = header_text(path, root, &head, &parts[0].bytes, e);
    if (r == VT_OK) parts[0].data = head;
    for (int i = 0; r == VT_OK && i < n_meta; i++)
        if (!meta[2 * i + 1] && !strcmp(meta[2 * i], VT_ST_FILE)) insert_file_hash(head, parts, n + 1);
    if (r == VT_OK) r = vt_file_replace(path, parts, n + 1, e);
    free(head), free(order), free(parts);
    json_decref(root);
    return r;
}
