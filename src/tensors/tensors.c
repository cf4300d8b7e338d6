/* SPDX-License-Identifier: MIT */
/* vt_tensors: what every reader of weights fills, and what the rest of the program reads. */
#include "tensors/tensors.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tensor data are little-endian and are used in place"
#endif

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
#define VT_DTYPE_ROW(id, bytes) {#id, bytes},
    VT_DTYPE_LIST(VT_DTYPE_ROW)
#undef VT_DTYPE_ROW
};

const char *vt_dtype_name(vt_dtype d) { return (unsigned)d < VT_DTYPE_COUNT ? dtypes[d].name : "?"; }
size_t vt_dtype_size(vt_dtype d) { return (unsigned)d < VT_DTYPE_COUNT ? dtypes[d].size : 0; }

const char *vt_shape_text(char *buf, size_t size, const int64_t *shape, int ndim) {
    size_t at = 0;
    for (int i = 0; i < ndim && at < size; i++)
        at += (size_t)snprintf(buf + at, size - at, "%s%lld", i ? "," : "[", (long long)shape[i]);
    if (at < size) snprintf(buf + at, size - at, ndim > 0 ? "]" : "[]");
    return buf;
}

bool vt_shape_bytes(const int64_t *shape, int ndim, vt_dtype d, size_t *numel, size_t *bytes) {
    size_t n = 1;
    for (int i = 0; i < ndim; i++)
        if (!vt_mul(n, (size_t)shape[i], &n)) return false;
    *numel = n;
    return vt_mul(n, vt_dtype_size(d), bytes);
}

size_t vt_tensor_bytes(const vt_tensor *t) { return t->numel * vt_dtype_size(t->dtype); }

/* ---- making ---- */

vt_status vt_tensors_begin(vt_tensors **out, const char *path, const uint8_t *bytes, size_t n, vt_err *e) {
    vt_tensors *st = calloc(1, sizeof *st);
    vt_status r = VT_OK;
    *out = NULL;
    if (!st || !(st->path = strdup(path))) r = vt_fail(e, VT_E_MEMORY, "%s: no memory to open it", path);
    if (r == VT_OK && !bytes) r = vt_mapped_open(&st->map, path, e);
    if (r != VT_OK) {
        vt_tensors_close(st);
        return r;
    }
    st->part = st->parts = st->inside = "";
    st->bytes = bytes ? bytes : st->map.bytes, st->size = bytes ? n : st->map.n;
    st->left = st->size > (SIZE_MAX - VT_ST_SPARE) / VT_ST_TIMES ? SIZE_MAX : VT_ST_SPARE + VT_ST_TIMES * st->size;
    *out = st;
    return VT_OK;
}

void vt_tensors_close(vt_tensors *st) {
    if (!st) return;
    for (int i = 0; i < st->shard_count; i++) vt_tensors_close(st->shards[i]);
    for (int i = 0; i < st->owned_count; i++) st->owned[i].release(st->owned[i].block);
    json_decref(st->root);
    vt_mapped_close(&st->map);
    free(st->shards), free(st->owned), free(st->t), free(st->origin), free(st->by_name);
    free(st->meta), free(st->notes), free(st->path);
    free(st);
}

/* Fails for want of memory, naming the file. */
static vt_status no_memory(const vt_tensors *st, vt_err *e) {
    return vt_fail(e, VT_E_MEMORY, "%s: no memory", st->path);
}

vt_status vt_tensors_keep(vt_tensors *st, void *block, void (*release)(void *), vt_err *e) {
    if (!block || !vt_grow(&st->owned, (size_t)st->owned_count, sizeof *st->owned)) {
        release(block);
        return no_memory(st, e);
    }
    st->owned[st->owned_count].block = block, st->owned[st->owned_count++].release = release;
    return VT_OK;
}

/* Takes bytes off st->left, what the file may still take; VT_E_FORMAT if it is less. */
static vt_status count_against_limit(vt_tensors *st, size_t bytes, vt_err *e) {
    if (bytes > st->left)
        return vt_fail(e, VT_E_FORMAT,
                       "%s: its %zu bytes claim more memory than %d times the file and %zu MB: tensors that are "
                       "views of one storage must be saved as .clone()",
                       st->path, st->size, VT_ST_TIMES, VT_ST_SPARE >> 20);
    st->left -= bytes;
    return VT_OK;
}

void *vt_tensors_take(vt_tensors *st, size_t bytes, vt_err *e) {
    if (count_against_limit(st, bytes, e) != VT_OK) return NULL;
    void *p = malloc(bytes ? bytes : 1);
    return vt_tensors_keep(st, p, free, e) == VT_OK ? p : NULL;
}

const char *vt_tensors_text(vt_tensors *st, vt_err *e, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *p = n < 0 ? NULL : vt_tensors_take(st, (size_t)n + 1, e);
    va_start(ap, fmt);
    if (p) vsnprintf(p, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return p;
}

vt_status vt_tensors_add(vt_tensors *st, const vt_tensor *t, vt_err *e) {
    VT_TRY(count_against_limit(st, sizeof *t + 2 * sizeof(void *), e));
    if (!vt_grow(&st->t, (size_t)st->count, sizeof *st->t) ||
        !vt_grow(&st->origin, (size_t)st->count, sizeof *st->origin))
        return no_memory(st, e);
    st->t[st->count] = *t;
    st->origin[st->count++] = t->name;
    return VT_OK;
}

void vt_tensors_drop(vt_tensors *st, const bool *gone) {
    int kept = 0;
    for (int i = 0; i < st->count; i++)
        if (!gone[i]) st->t[kept] = st->t[i], st->origin[kept++] = st->origin[i];
    st->count = kept;
}

vt_status vt_tensors_add_meta(vt_tensors *st, const char *key, const char *value, vt_err *e) {
    if (!vt_grow(&st->meta, (size_t)st->meta_count, 2 * sizeof *st->meta)) return no_memory(st, e);
    st->meta[2 * st->meta_count] = key, st->meta[2 * st->meta_count++ + 1] = value;
    return VT_OK;
}

vt_status vt_tensors_add_note(vt_tensors *st, vt_note_kind kind, const char *name, const char *text, vt_err *e) {
    vt_note n = {kind, vt_tensors_text(st, e, "%s", name), vt_tensors_text(st, e, "%s", text)};
    if (!n.name || !n.text) return e ? e->code : VT_E_MEMORY;
    VT_TRY(count_against_limit(st, sizeof n, e));
    if (!vt_grow(&st->notes, (size_t)st->note_count, sizeof n)) return no_memory(st, e);
    st->notes[st->note_count++] = n;
    return VT_OK;
}

/* Compares two pointers to tensors by name. */
static int compare_names(const void *pa, const void *pb) {
    const vt_tensor *const *a = pa, *const *b = pb;
    return strcmp((*a)->name, (*b)->name);
}

vt_status vt_tensors_index(vt_tensors *st, vt_err *e) {
    free(st->by_name);
    st->by_name = calloc((size_t)st->count + 1, sizeof *st->by_name);
    if (!st->by_name) return no_memory(st, e);
    for (int i = 0; i < st->count; i++) st->by_name[i] = &st->t[i];
    qsort(st->by_name, (size_t)st->count, sizeof *st->by_name, compare_names);
    for (int i = 1; i < st->count; i++)
        if (!compare_names(&st->by_name[i - 1], &st->by_name[i]))
            return vt_fail(e, VT_E_FORMAT, "%s: tensor " VT_NAME " is there twice", st->path, st->by_name[i]->name);
    return VT_OK;
}

/* ---- reading it ---- */

const char *vt_tensors_path(const vt_tensors *st) { return st->path; }
const char *vt_tensors_format(const vt_tensors *st) { return st->format; }
int vt_tensors_count(const vt_tensors *st) { return st->count; }
const vt_tensor *vt_tensors_at(const vt_tensors *st, int i) { return i >= 0 && i < st->count ? &st->t[i] : NULL; }
const char *vt_tensors_origin(const vt_tensors *st, int i) { return i >= 0 && i < st->count ? st->origin[i] : NULL; }
const vt_note *vt_tensors_note(const vt_tensors *st, int i) {
    return i >= 0 && i < st->note_count ? &st->notes[i] : NULL;
}

const vt_tensor *vt_tensors_find(const vt_tensors *st, const char *name) {
    vt_tensor key = {.name = name};
    if (!st->count) return NULL; /* bsearch must not be given a null pointer */
    const vt_tensor *p = &key, **hit = bsearch(&p, st->by_name, (size_t)st->count, sizeof p, compare_names);
    return hit ? *hit : NULL;
}

const char *vt_tensors_meta(const vt_tensors *st, const char *key) {
    for (int i = 0; i < st->meta_count; i++)
        if (!strcmp(st->meta[2 * i], key)) return st->meta[2 * i + 1];
    return NULL;
}

const char *vt_tensors_meta_key(const vt_tensors *st, int i) {
    return i >= 0 && i < st->meta_count ? st->meta[2 * i] : NULL;
}

void vt_tensors_hash(const vt_tensors *st, size_t from, vt_sha *sha) {
    if (st->map.bytes)
        vt_mapped_hash(&st->map, from, sha);
    else
        vt_sha_update(sha, st->bytes + from, st->size - from);
}

void vt_weights_sha(const vt_tensors *st, char hex[65]) {
    vt_sha sha;
    vt_sha_begin(&sha);
    if (!st->shard_count) vt_tensors_hash(st, 0, &sha);
    for (int i = 0; i < st->shard_count; i++) vt_tensors_hash(st->shards[i], 0, &sha);
    vt_sha_end(&sha, hex);
}

void vt_tensors_release(const vt_tensors *st, const vt_tensor *t) {
    const uint8_t *data = t->data, *map = st->map.bytes;
    for (int i = 0; i < t->n_parts; i++) vt_tensors_release(st, &t->parts[i]);
    for (int i = 0; i < st->shard_count; i++) vt_tensors_release(st->shards[i], t);
    if (map && data >= map && data < map + st->map.n)
        vt_mapped_release(&st->map, (size_t)(data - map), vt_tensor_bytes(t));
}

/* ---- conversion ---- */

/* Converts IEEE binary16 to binary32, exact: subnormals become normal numbers, a NaN keeps its payload. */
static float half_to_float(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = h >> 10 & 31, man = h & 1023;
    if (exp == 0) return (sign ? -0x1p-24f : 0x1p-24f) * (float)man; /* -2^-24 * 0 is -0, as it should be */
    uint32_t bits = sign | (exp == 31 ? 0x7f800000 : (exp + 112) << 23) | man << 13;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

/* Returns item i of a floating tensor; every source type is exact in double. Data may be unaligned, hence memcpy. */
static double real_at(const vt_tensor *t, size_t i) {
    const uint8_t *p = (const uint8_t *)t->data + i * vt_dtype_size(t->dtype);
    uint16_t h;
    float f;
    double d;
    if (t->dtype == VT_F64) {
        memcpy(&d, p, 8);
        return d;
    }
    if (t->dtype == VT_F32) {
        memcpy(&f, p, 4);
        return f;
    }
    memcpy(&h, p, 2);
    if (t->dtype == VT_F16) return half_to_float(h);
    memcpy(&f, &(uint32_t){(uint32_t)h << 16}, 4);
    return f; /* BF16: the upper half of a binary32 */
}

/* VT_E_FORMAT unless ok (t's type is one of `want`), VT_E_SHAPE unless t has n items. */
static vt_status check_convert(const vt_tensors *st, const vt_tensor *t, size_t n, bool ok, const char *want,
                               vt_err *e) {
    if (!ok)
        return vt_fail(e, VT_E_FORMAT, "%s: tensor " VT_NAME " is %s, but %s are needed", st->path, t->name,
                       vt_dtype_name(t->dtype), want);
    if (t->numel == n) return VT_OK;
    return vt_fail(e, VT_E_SHAPE, "%s: tensor " VT_NAME " is %s with %zu items, but %zu are needed", st->path, t->name,
                   VT_SHAPE(t), t->numel, n);
}

/* VT_E_FORMAT unless t has floating-point numbers, VT_E_SHAPE unless n of them. */
static vt_status check_real(const vt_tensors *st, const vt_tensor *t, size_t n, vt_err *e) {
    bool ok = t->dtype == VT_F64 || t->dtype == VT_F32 || t->dtype == VT_F16 || t->dtype == VT_BF16;
    return check_convert(st, t, n, ok, "floating-point numbers (F64, F32, F16 or BF16)", e);
}

/* A tensor made of several: each part's numbers follow those of the part before; the sizes add up to numel. */
#define EACH_PART(convert)                                                                                             \
    for (int i_ = 0; i_ < t->n_parts; out += t->parts[i_++].numel)                                                     \
        VT_TRY(convert(st, &t->parts[i_], out, t->parts[i_].numel, e));                                                \
    if (t->n_parts) return VT_OK

vt_status vt_tensor_f32(const vt_tensors *st, const vt_tensor *t, float *out, size_t n, vt_err *e) {
    VT_TRY(check_real(st, t, n, e));
    EACH_PART(vt_tensor_f32);
    if (t->dtype == VT_F32 && n) {
        memcpy(out, t->data, n * sizeof *out);
        return VT_OK;
    }
    for (size_t i = 0; i < n; i++) out[i] = (float)real_at(t, i);
    return VT_OK;
}

vt_status vt_tensor_f64(const vt_tensors *st, const vt_tensor *t, double *out, size_t n, vt_err *e) {
    VT_TRY(check_real(st, t, n, e));
    EACH_PART(vt_tensor_f64);
    for (size_t i = 0; i < n; i++) out[i] = real_at(t, i);
    return VT_OK;
}

vt_status vt_tensor_i64(const vt_tensors *st, const vt_tensor *t, int64_t *out, size_t n, vt_err *e) {
    bool ok = t->dtype == VT_BOOL || t->dtype == VT_U8 || t->dtype == VT_I8 || t->dtype == VT_I16 ||
              t->dtype == VT_U16 || t->dtype == VT_I32 || t->dtype == VT_U32 || t->dtype == VT_I64;
    VT_TRY(check_convert(st, t, n, ok, "integers (BOOL, U8, I8, I16, U16, I32, U32 or I64)", e));
    EACH_PART(vt_tensor_i64);
    size_t size = vt_dtype_size(t->dtype);
    bool is_signed = t->dtype == VT_I8 || t->dtype == VT_I16 || t->dtype == VT_I32;
    for (size_t i = 0; i < n; i++) {
        uint64_t u = 0, top = (uint64_t)1 << (8 * size - 1);
        memcpy(&u, (const uint8_t *)t->data + i * size, size);
        if (is_signed) u = (u ^ top) - top; /* extends the sign */
        out[i] = t->dtype == VT_BOOL ? u != 0 : (int64_t)u;
    }
    return VT_OK;
}
