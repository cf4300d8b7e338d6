/* safetensors reader and writer. Format and checks: huggingface/safetensors, "Format" (spec section F.1). */
#include "io/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "core/mem.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tensor data are little-endian and are used in place"
#endif

#define HEADER_MAX 100000000u
#define META "__metadata__"
/* Names come from the file; cut, so that they do not push the value out of a sentence. */
#define NAME "%.160s"
#define SHAPE(t) vt_shape_text((char[200]){0}, 200, (t)->shape, (t)->ndim)

struct vt_st {
    char *path;
    void *map;           /* NULL when the bytes belong to the caller */
    const uint8_t *data; /* what follows the header */
    size_t map_size, data_size;
    json_t *root; /* owns every name and every metadata text */
    vt_tensor *t; /* in order of data offset */
    const vt_tensor **by_name;
    const char **meta_keys;
    int count, meta_count;
};

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

/* False when the number of items or of bytes does not fit a size_t. */
static bool shape_bytes(const int64_t *shape, int ndim, vt_dtype d, size_t *numel, size_t *bytes) {
    size_t n = 1;
    for (int i = 0; i < ndim; i++)
        if (!vt_mul(n, (size_t)shape[i], &n)) return false;
    *numel = n;
    return vt_mul(n, dtypes[d].size, bytes);
}

/* ---- reading ---- */

static vt_status read_dtype(const vt_st *st, const char *name, const json_t *j, vt_dtype *out, vt_err *e) {
    if (!json_is_string(j)) return vt_fail(e, VT_E_FORMAT, "%s: tensor " NAME " has no dtype text", st->path, name);
    for (int d = 0; d < VT_DTYPE_COUNT; d++)
        if (!strcmp(dtypes[d].name, json_string_value(j))) return *out = (vt_dtype)d, VT_OK;
    return vt_fail(e, VT_E_FORMAT,
                   "%s: tensor " NAME " has dtype %.40s, which is not one of BOOL, U8, I8, F8_E5M2, F8_E4M3, "
                   "I16, U16, F16, BF16, I32, U32, F32, F64, I64, U64",
                   st->path, name, json_string_value(j));
}

static vt_status read_shape(const vt_st *st, const json_t *j, vt_tensor *t, vt_err *e) {
    if (!json_is_array(j)) return vt_fail(e, VT_E_FORMAT, "%s: tensor " NAME " has no shape", st->path, t->name);
    size_t n = json_array_size(j);
    if (n > VT_ST_MAX_DIMS)
        return vt_fail(e, VT_E_FORMAT, "%s: tensor " NAME " has %zu dimensions, the limit is %d", st->path, t->name, n,
                       VT_ST_MAX_DIMS);
    t->ndim = (int)n;
    for (size_t i = 0; i < n; i++) {
        const json_t *dim = json_array_get(j, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0)
            return vt_fail(e, VT_E_FORMAT, "%s: dimension %zu of tensor " NAME " is not a number of items", st->path, i,
                           t->name);
        t->shape[i] = json_integer_value(dim);
    }
    return VT_OK;
}

static vt_status read_offsets(const vt_st *st, const json_t *j, vt_tensor *t, size_t bytes, vt_err *e) {
    const json_t *jb = json_array_get(j, 0), *je = json_array_get(j, 1);
    if (json_array_size(j) != 2 || !json_is_integer(jb) || !json_is_integer(je) || json_integer_value(jb) < 0 ||
        json_integer_value(je) < json_integer_value(jb))
        return vt_fail(e, VT_E_FORMAT, "%s: data_offsets of tensor " NAME " are not two ascending integers", st->path,
                       t->name);
    size_t begin = (size_t)json_integer_value(jb), end = (size_t)json_integer_value(je);
    if (end > st->data_size)
        return vt_fail(e, VT_E_FORMAT, "%s: tensor " NAME " ends at byte %zu but the data is %zu bytes long", st->path,
                       t->name, end, st->data_size);
    if (end - begin != bytes)
        return vt_fail(e, VT_E_FORMAT, "%s: tensor " NAME " spans %zu bytes but %s %s takes %zu", st->path, t->name,
                       end - begin, vt_dtype_name(t->dtype), SHAPE(t), bytes);
    t->data = st->data + begin;
    return VT_OK;
}

static vt_status read_tensor(const vt_st *st, const char *name, const json_t *j, vt_tensor *t, vt_err *e) {
    size_t bytes;
    t->name = name;
    if (!json_is_object(j))
        return vt_fail(e, VT_E_FORMAT, "%s: the entry of tensor " NAME " is not an object", st->path, name);
    VT_TRY(read_dtype(st, name, json_object_get(j, "dtype"), &t->dtype, e));
    VT_TRY(read_shape(st, json_object_get(j, "shape"), t, e));
    if (!shape_bytes(t->shape, t->ndim, t->dtype, &t->numel, &bytes))
        return vt_fail(e, VT_E_FORMAT, "%s: shape %s of tensor " NAME " is too large for this machine", st->path,
                       SHAPE(t), name);
    return read_offsets(st, json_object_get(j, "data_offsets"), t, bytes, e);
}

static size_t tensor_bytes(const vt_tensor *t) { return t->numel * dtypes[t->dtype].size; }

static int by_offset(const void *pa, const void *pb) {
    const vt_tensor *a = pa, *b = pb;
    if (a->data != b->data) return (const uint8_t *)a->data < (const uint8_t *)b->data ? -1 : 1;
    size_t na = tensor_bytes(a), nb = tensor_bytes(b);
    return na != nb ? (na < nb ? -1 : 1) : strcmp(a->name, b->name); /* empty tensors share an offset */
}

static int by_name(const void *pa, const void *pb) {
    const vt_tensor *const *a = pa, *const *b = pb;
    return strcmp((*a)->name, (*b)->name);
}

/* Every data byte belongs to exactly one tensor. */
static vt_status check_cover(const vt_st *st, vt_err *e) {
    size_t end = 0;
    for (int i = 0; i < st->count; i++) {
        const vt_tensor *t = &st->t[i];
        size_t begin = (size_t)((const uint8_t *)t->data - st->data);
        if (begin > end)
            return vt_fail(e, VT_E_FORMAT, "%s: data bytes %zu to %zu, before " NAME ", belong to no tensor", st->path,
                           end, begin, t->name);
        if (begin < end)
            return vt_fail(e, VT_E_FORMAT, "%s: tensor " NAME " begins at byte %zu, but " NAME " ends at %zu", st->path,
                           t->name, begin, st->t[i - 1].name, end);
        end = begin + tensor_bytes(t);
    }
    if (end == st->data_size) return VT_OK;
    return vt_fail(e, VT_E_FORMAT, "%s: the tensors end at byte %zu but the data is %zu bytes long", st->path, end,
                   st->data_size);
}

static vt_status read_meta(vt_st *st, json_t *meta, vt_err *e) {
    const char *key;
    json_t *value;
    if (!meta) return VT_OK;
    if (!json_is_object(meta)) return vt_fail(e, VT_E_FORMAT, "%s: " META " is not an object", st->path);
    st->meta_keys = calloc(json_object_size(meta) + 1, sizeof *st->meta_keys);
    if (!st->meta_keys) return vt_fail(e, VT_E_MEMORY, "%s: no memory for its metadata", st->path);
    json_object_foreach(meta, key, value) {
        if (!json_is_string(value))
            return vt_fail(e, VT_E_FORMAT, "%s: metadata " NAME " is not a text", st->path, key);
        st->meta_keys[st->meta_count++] = key;
    }
    return VT_OK;
}

static vt_status read_tensors(vt_st *st, vt_err *e) {
    const char *name;
    json_t *j;
    size_t n = json_object_size(st->root);
    st->t = calloc(n + 1, sizeof *st->t);
    st->by_name = calloc(n + 1, sizeof *st->by_name);
    if (!st->t || !st->by_name) return vt_fail(e, VT_E_MEMORY, "%s: no memory for %zu names", st->path, n);
    json_object_foreach(st->root, name, j) {
        if (!strcmp(name, META)) continue;
        VT_TRY(read_tensor(st, name, j, &st->t[st->count], e));
        st->count++;
    }
    qsort(st->t, (size_t)st->count, sizeof *st->t, by_offset);
    for (int i = 0; i < st->count; i++) st->by_name[i] = &st->t[i];
    qsort(st->by_name, (size_t)st->count, sizeof *st->by_name, by_name);
    return check_cover(st, e);
}

static vt_status parse(vt_st *st, const uint8_t *bytes, size_t n, vt_err *e) {
    if (n < 8) return vt_fail(e, VT_E_FORMAT, "%s: a safetensors file has 8 bytes or more, not %zu", st->path, n);
    unsigned long long len;
    memcpy(&len, bytes, 8);
    if (len > HEADER_MAX)
        return vt_fail(e, VT_E_FORMAT, "%s: header of %llu bytes, the limit is %u", st->path, len, HEADER_MAX);
    if (len > n - 8)
        return vt_fail(e, VT_E_FORMAT, "%s: claims a header of %llu bytes but only %zu bytes follow", st->path, len,
                       n - 8);
    if (!len || bytes[8] != '{') return vt_fail(e, VT_E_FORMAT, "%s: the header does not begin with {", st->path);
    json_error_t j;
    st->data = bytes + 8 + len;
    st->data_size = n - 8 - (size_t)len;
    st->root = json_loadb((const char *)bytes + 8, (size_t)len, JSON_REJECT_DUPLICATES, &j);
    if (!st->root)
        return vt_fail(e, json_error_code(&j) == json_error_out_of_memory ? VT_E_MEMORY : VT_E_FORMAT,
                       "%s: its JSON is not valid near byte %d: %.160s", st->path, j.position, j.text);
    VT_TRY(read_meta(st, json_object_get(st->root, META), e));
    return read_tensors(st, e);
}

/* Maps the file; `st` then owns the mapping. O_NONBLOCK: a pipe is refused, not waited for. */
static vt_status map_file(vt_st *st, vt_err *e) {
    struct stat s;
    int fd = open(st->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return vt_fail(e, VT_E_IO, "%s: cannot be opened: %s", st->path, strerror(errno));
    bool regular = !fstat(fd, &s) && S_ISREG(s.st_mode);
    void *map = NULL; /* an empty file cannot be mapped */
    if (regular && s.st_size) map = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    int err = errno;
    close(fd);
    if (!regular) return vt_fail(e, VT_E_IO, "%s: is not a regular file", st->path);
    if (map == MAP_FAILED) return vt_fail(e, VT_E_IO, "%s: cannot be mapped: %s", st->path, strerror(err));
    st->map = map;
    st->map_size = (size_t)s.st_size;
    return VT_OK;
}

static vt_status make(vt_st **out, const char *path, const uint8_t *bytes, size_t n, bool map, vt_err *e) {
    vt_st *st = calloc(1, sizeof *st);
    *out = NULL;
    if (!st || !(st->path = strdup(path)))
        return vt_st_close(st), vt_fail(e, VT_E_MEMORY, "%s: no memory to open it", path);
    vt_status r = map ? map_file(st, e) : VT_OK;
    if (r == VT_OK) r = map ? parse(st, st->map, st->map_size, e) : parse(st, bytes, n, e);
    if (r == VT_OK) return *out = st, VT_OK;
    return vt_st_close(st), r;
}

vt_status vt_st_open(vt_st **out, const char *path, vt_err *e) { return make(out, path, NULL, 0, true, e); }

vt_status vt_st_parse(vt_st **out, const uint8_t *bytes, size_t n, const char *path, vt_err *e) {
    return make(out, path, bytes, n, false, e);
}

void vt_st_close(vt_st *st) {
    if (!st) return;
    json_decref(st->root);
    if (st->map) munmap(st->map, st->map_size);
    free(st->t);
    free(st->by_name);
    free(st->meta_keys);
    free(st->path);
    free(st);
}

const char *vt_st_path(const vt_st *st) { return st->path; }
int vt_st_count(const vt_st *st) { return st->count; }
const vt_tensor *vt_st_at(const vt_st *st, int i) { return i >= 0 && i < st->count ? &st->t[i] : NULL; }

const vt_tensor *vt_st_find(const vt_st *st, const char *name) {
    vt_tensor key = {.name = name};
    const vt_tensor *p = &key, **hit = bsearch(&p, st->by_name, (size_t)st->count, sizeof p, by_name);
    return hit ? *hit : NULL;
}

const char *vt_st_meta(const vt_st *st, const char *key) {
    return json_string_value(json_object_get(json_object_get(st->root, META), key));
}

const char *vt_st_meta_key(const vt_st *st, int i) { return i >= 0 && i < st->meta_count ? st->meta_keys[i] : NULL; }

/* ---- conversion ---- */

/* IEEE binary16 to binary32, exact: subnormals become normal numbers, a NaN keeps its payload. */
static float half_to_float(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = h >> 10 & 31, man = h & 1023;
    if (exp == 0) return (sign ? -0x1p-24f : 0x1p-24f) * (float)man; /* -2^-24 * 0 is -0, as it should be */
    uint32_t bits = sign | (exp == 31 ? 0x7f800000 : (exp + 112) << 23) | man << 13;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

/* Item i of a floating tensor; every source type is exact in double. Data may be unaligned, hence memcpy. */
static double real_at(const vt_tensor *t, size_t i) {
    const uint8_t *p = (const uint8_t *)t->data + i * dtypes[t->dtype].size;
    uint16_t h;
    float f;
    double d;
    if (t->dtype == VT_F64) return memcpy(&d, p, 8), d;
    if (t->dtype == VT_F32) return memcpy(&f, p, 4), f;
    memcpy(&h, p, 2);
    if (t->dtype == VT_F16) return half_to_float(h);
    return memcpy(&f, &(uint32_t){(uint32_t)h << 16}, 4), f; /* BF16: the upper half of a binary32 */
}

static vt_status check_convert(const vt_st *st, const vt_tensor *t, size_t n, bool ok, const char *want, vt_err *e) {
    if (!ok)
        return vt_fail(e, VT_E_FORMAT, "%s: tensor " NAME " is %s, but %s are needed", st->path, t->name,
                       vt_dtype_name(t->dtype), want);
    if (t->numel == n) return VT_OK;
    return vt_fail(e, VT_E_SHAPE, "%s: tensor " NAME " is %s with %zu items, but %zu are needed", st->path, t->name,
                   SHAPE(t), t->numel, n);
}

static vt_status check_real(const vt_st *st, const vt_tensor *t, size_t n, vt_err *e) {
    bool ok = t->dtype == VT_F64 || t->dtype == VT_F32 || t->dtype == VT_F16 || t->dtype == VT_BF16;
    return check_convert(st, t, n, ok, "floating-point numbers (F64, F32, F16 or BF16)", e);
}

vt_status vt_tensor_f32(const vt_st *st, const vt_tensor *t, float *out, size_t n, vt_err *e) {
    VT_TRY(check_real(st, t, n, e));
    if (t->dtype == VT_F32 && n) return memcpy(out, t->data, n * sizeof *out), VT_OK;
    for (size_t i = 0; i < n; i++) out[i] = (float)real_at(t, i);
    return VT_OK;
}

vt_status vt_tensor_f64(const vt_st *st, const vt_tensor *t, double *out, size_t n, vt_err *e) {
    VT_TRY(check_real(st, t, n, e));
    for (size_t i = 0; i < n; i++) out[i] = real_at(t, i);
    return VT_OK;
}

vt_status vt_tensor_i64(const vt_st *st, const vt_tensor *t, int64_t *out, size_t n, vt_err *e) {
    bool ok = t->dtype == VT_BOOL || t->dtype == VT_U8 || t->dtype == VT_I8 || t->dtype == VT_I16 ||
              t->dtype == VT_U16 || t->dtype == VT_I32 || t->dtype == VT_U32 || t->dtype == VT_I64;
    VT_TRY(check_convert(st, t, n, ok, "integers (BOOL, U8, I8, I16, U16, I32, U32 or I64)", e));
    size_t size = dtypes[t->dtype].size;
    bool is_signed = t->dtype == VT_I8 || t->dtype == VT_I16 || t->dtype == VT_I32;
    for (size_t i = 0; i < n; i++) {
        uint64_t u = 0, top = (uint64_t)1 << (8 * size - 1);
        memcpy(&u, (const uint8_t *)t->data + i * size, size);
        if (is_signed) u = (u ^ top) - top; /* extends the sign */
        out[i] = t->dtype == VT_BOOL ? u != 0 : (int64_t)u;
    }
    return VT_OK;
}

/* ---- writing ---- */

/* Writes all of it; returns an errno. RLIMIT_FSIZE raises SIGXFSZ, whose default ends the process: held back
 * here, and taken off the queue, so that the caller sees EFBIG like any other write error. */
static int write_all(int fd, const uint8_t *p, size_t n) {
    sigset_t xfsz, old;
    sigemptyset(&xfsz);
    sigaddset(&xfsz, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &xfsz, &old);
    int err = 0;
    while (n && !err) {
        ssize_t k = write(fd, p, n < 1 << 30 ? n : 1 << 30);
        if (k <= 0) err = k == 0 ? EIO : errno == EINTR ? 0 : errno;
        if (k > 0) p += k, n -= (size_t)k;
    }
    if (err == EFBIG && !sigismember(&old, SIGXFSZ)) sigtimedwait(&xfsz, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return err;
}

/* The parts into a new file of the folder `dir`, on disk, then in `base`'s place. Returns an errno. */
static int replace_in(const char *dir, const char *base, const vt_span *parts, int n) {
    static atomic_uint serial;
    char tmp[64];
    int fd, err = 0, folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return errno;
    do {
        snprintf(tmp, sizeof tmp, ".vitrine-%ld-%u.tmp", (long)getpid(), atomic_fetch_add(&serial, 1));
        fd = openat(folder, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (fd < 0 && errno == EEXIST);
    if (fd < 0) return err = errno, close(folder), err;
    for (int i = 0; i < n && !err; i++) err = write_all(fd, parts[i].data, parts[i].bytes);
    if (!err && fsync(fd)) err = errno;
    if (close(fd) && !err) err = errno;
    if (!err && renameat(folder, tmp, folder, base)) err = errno;
    if (err) unlinkat(folder, tmp, 0);
    if (!err && fsync(folder) && errno != EINVAL) err = errno; /* EINVAL: a file system without folder sync */
    close(folder);
    return err;
}

vt_status vt_file_replace(const char *path, const vt_span *parts, int n, vt_err *e) {
    struct stat s;
    if (!stat(path, &s) && !S_ISREG(s.st_mode))
        return vt_fail(e, VT_E_IO, "%s: is not a regular file and is not replaced", path);
    char *real = realpath(path, NULL); /* a link stays, the file it names is replaced */
    if (!real && !(real = strdup(path))) return vt_fail(e, VT_E_MEMORY, "%s: no memory to write it", path);
    char *slash = strrchr(real, '/');
    if (slash) *slash = 0;
    int err = replace_in(!slash ? "." : slash == real ? "/" : real, slash ? slash + 1 : real, parts, n);
    free(real);
    return err ? vt_fail(e, VT_E_IO, "%s: cannot be written: %s", path, strerror(err)) : VT_OK;
}

/* As the reference writer: larger items first (dtypes stand in its order), then by name. */
static int by_layout(const void *pa, const void *pb) {
    const vt_tensor *a = *(const vt_tensor *const *)pa, *b = *(const vt_tensor *const *)pb;
    return a->dtype != b->dtype ? (a->dtype > b->dtype ? -1 : 1) : strcmp(a->name, b->name);
}

static vt_status meta_json(const char *path, json_t *root, const char *const *meta, int n, vt_err *e) {
    json_t *j = n ? json_object() : NULL;
    if (n && json_object_set_new(root, META, j)) return vt_fail(e, VT_E_MEMORY, "%s: no memory for its header", path);
    for (int i = 0; i < n; i++) {
        const char *key = meta[2 * i];
        if (json_object_get(j, key)) return vt_fail(e, VT_E_FORMAT, "%s: metadata " NAME " is given twice", path, key);
        if (json_object_set_new(j, key, json_string(meta[2 * i + 1])))
            return vt_fail(e, VT_E_FORMAT, "%s: metadata " NAME " is not UTF-8 text", path, key);
    }
    return VT_OK;
}

/* Adds t's entry, whose data begin at *end, and moves *end behind it. */
static vt_status tensor_json(const char *path, json_t *root, const vt_tensor *t, size_t *end, vt_err *e) {
    size_t numel, bytes, begin = *end;
    bool ok = (unsigned)t->dtype < VT_DTYPE_COUNT && t->ndim >= 0 && t->ndim <= VT_ST_MAX_DIMS;
    for (int i = 0; ok && i < t->ndim; i++) ok = t->shape[i] >= 0;
    if (!ok || !shape_bytes(t->shape, t->ndim, t->dtype, &numel, &bytes) || numel != t->numel ||
        !vt_add(begin, bytes, end) || *end > INT64_MAX)
        return vt_fail(e, VT_E_SHAPE, "%s: dtype, shape and %zu items of tensor " NAME " do not fit", path, t->numel,
                       t->name);
    if (!strcmp(t->name, META) || json_object_get(root, t->name))
        return vt_fail(e, VT_E_FORMAT, "%s: tensor name " NAME " is already taken", path, t->name);
    json_t *shape = json_array();
    json_t *j = json_pack("{s:s, s:o, s:[I,I]}", "dtype", dtypes[t->dtype].name, "shape", shape, "data_offsets",
                          (json_int_t)begin, (json_int_t)*end); /* takes shape over */
    int bad = !j;
    for (int i = 0; !bad && i < t->ndim; i++) bad = json_array_append_new(shape, json_integer(t->shape[i]));
    if (bad) return json_decref(j), vt_fail(e, VT_E_MEMORY, "%s: no memory for its header", path);
    if (json_object_set_new(root, t->name, j))
        return vt_fail(e, VT_E_FORMAT, "%s: tensor name " NAME " is not UTF-8 text", path, t->name);
    return VT_OK;
}

/* Length and JSON text, padded with spaces so that the data begin at a multiple of 8; *out to be freed. */
static vt_status header_text(const char *path, const json_t *root, char **out, size_t *bytes, vt_err *e) {
    size_t n = json_dumpb(root, NULL, 0, JSON_COMPACT), padded = (n + 7) / 8 * 8;
    if (padded > HEADER_MAX)
        return vt_fail(e, VT_E_RANGE, "%s: header of %zu bytes, the limit is %u", path, padded, HEADER_MAX);
    char *text = *out = n ? malloc(8 + padded) : NULL;
    if (!text) return vt_fail(e, VT_E_MEMORY, "%s: no memory for its header", path);
    memset(text, ' ', 8 + padded);
    memcpy(text, &(uint64_t){padded}, 8);
    json_dumpb(root, text + 8, n, JSON_COMPACT);
    *bytes = 8 + padded;
    return VT_OK;
}

vt_status vt_st_write(const char *path, const vt_tensor *t, int n, const char *const *meta, int n_meta, vt_err *e) {
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
        parts[i + 1] = (vt_span){order[i]->data, r == VT_OK ? tensor_bytes(order[i]) : 0};
    }
    if (r == VT_OK) r = header_text(path, root, &head, &parts[0].bytes, e);
    if (r == VT_OK) parts[0].data = head, r = vt_file_replace(path, parts, n + 1, e);
    free(head);
    json_decref(root);
    free(order);
    free(parts);
    return r;
}
