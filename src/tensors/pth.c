/* SPDX-License-Identifier: MIT */
/* PyTorch's two file formats: the zip archive (since 1.6) and the older stream of pickles (_load and _legacy_load of
 * its torch/serialization.py). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/files.h"
#include "base/mem.h"
#include "tensors/pickle.h"
#include "tensors/zip.h"

/* ---- tensors ---- */

/* Sets *base to the byte at which the meant part of t's storage begins; VT_E_FORMAT if t's numel > 0 items leave that
 * part. The last item fits an int64_t, so that sums of steps, which are smaller, do too. */
static vt_status check_span(const vt_tensors *st, const char *name, const vt_node_tensor *t, size_t numel, size_t *base,
                            vt_err *e) {
    const vt_node_store *s = t->store->u.store;
    size_t store_item = vt_dtype_size(s->dtype), item = vt_dtype_size(t->dtype), bytes, last = (size_t)t->offset, reach;
    bool ok = vt_mul((size_t)s->view_numel, store_item, &bytes) && vt_mul((size_t)s->view, store_item, base);
    for (int i = 0; ok && i < t->ndim; i++)
        ok = vt_mul((size_t)t->shape[i] - 1, (size_t)t->stride[i], &reach) && vt_add(last, reach, &last);
    if (!ok || last >= bytes / item || last > INT64_MAX)
        return vt_fail(e, VT_E_FORMAT,
                       "%s: tensor " VT_NAME " (%zu items from item %lld on, with its strides) leaves storage %.*s of "
                       "%lld items",
                       st->path, name, numel, (long long)t->offset, (int)s->key.n, s->key.s, (long long)s->view_numel);
    return VT_OK;
}

/* VT_E_FORMAT if two elements may be one item of the storage: taken in the order of strides, a side must step over all
 * that smaller ones reach. No layer has such weights, and a stride of 0 makes gigabytes of a few bytes. */
static vt_status check_apart(const vt_tensors *st, const char *name, const vt_node_tensor *t, vt_err *e) {
    bool done[VT_ST_MAX_DIMS] = {0};
    for (int64_t reach = 0;;) {
        int next = -1;
        for (int i = 0; i < t->ndim; i++)
            if (t->shape[i] > 1 && !done[i] && (next < 0 || t->stride[i] < t->stride[next])) next = i;
        if (next < 0) return VT_OK;
        if (t->stride[next] <= reach)
            return vt_fail(e, VT_E_FORMAT,
                           "%s: tensor " VT_NAME " of shape %s overlaps itself: a step of %lld along side %d meets "
                           "items that other sides reach; save it with .contiguous()",
                           st->path, name, VT_SHAPE(t), (long long)t->stride[next], next);
        reach += (t->shape[next] - 1) * t->stride[next]; /* inside the storage: check_span */
        done[next] = true;
    }
}

/* Returns whether t is row-major without gaps. Sides of one item may have any stride. */
static bool is_contiguous(const vt_node_tensor *t) {
    int64_t want = 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        if (t->shape[i] != 1 && t->stride[i] != want) return false;
        want *= t->shape[i]; /* the product of all sides fits: checked before */
    }
    return true;
}

/* Copies the numel items of t, by its strides from its first one at `from`, row-major into out; swap: with bytes
 * reversed. */
static void copy_strided(uint8_t *out, const uint8_t *from, const vt_node_tensor *t, size_t numel, bool swap) {
    int64_t at[VT_ST_MAX_DIMS] = {0}, offset = 0;
    size_t item = vt_dtype_size(t->dtype);
    for (size_t k = 0; k < numel; k++, out += item) {
        const uint8_t *p = from + (size_t)offset * item;
        for (size_t b = 0; b < item; b++) out[b] = p[swap ? item - 1 - b : b];
        for (int i = t->ndim - 1; i >= 0; i--) { /* the next index, last side fastest */
            offset += t->stride[i];
            if (++at[i] < t->shape[i]) break;
            offset -= at[i] * t->stride[i];
            at[i] = 0;
        }
    }
}

vt_status vt_state_tensor(vt_tensors *st, const char *name, const vt_node_tensor *t, const vt_stores *from, vt_err *e) {
    const vt_node_store *s = t->store->u.store;
    vt_tensor out = {.name = name, .dtype = t->dtype, .ndim = t->ndim, .data = st->bytes};
    size_t bytes, base, have, need;
    const uint8_t *data;
    memcpy(out.shape, t->shape, sizeof out.shape);
    if (!vt_shape_bytes(t->shape, t->ndim, t->dtype, &out.numel, &bytes) || out.numel > INT64_MAX)
        return vt_fail(e, VT_E_FORMAT, "%s: shape %s of tensor " VT_NAME " is too large for this machine", st->path,
                       VT_SHAPE(t), name);
    if (!out.numel) return vt_tensors_add(st, &out, e);
    VT_TRY(check_span(st, name, t, out.numel, &base, e));
    VT_TRY(check_apart(st, name, t, e));
    VT_TRY(from->find(from->ctx, s, &data, &have, e));
    if (!vt_mul((size_t)s->numel, vt_dtype_size(s->dtype), &need) || have < need)
        return vt_fail(e, VT_E_FORMAT,
                       "%s: storage %.*s of tensor " VT_NAME " has %zu bytes in the file, but %lld items are claimed",
                       st->path, (int)s->key.n, s->key.s, name, have, (long long)s->numel);
    data += base + (size_t)t->offset * vt_dtype_size(t->dtype);
    bool swap = from->big_endian && vt_dtype_size(t->dtype) > 1;
    if (is_contiguous(t) && !swap) {
        out.data = data;
        return vt_tensors_add(st, &out, e);
    }
    uint8_t *copy = vt_tensors_take(st, bytes, e);
    if (!copy) return e->code;
    copy_strided(copy, data, t, out.numel, swap);
    out.data = copy;
    return vt_tensors_add(st, &out, e);
}

/* ---- zip ---- */

typedef struct archive {
    vt_tensors *st;
    vt_zip *zip;
    char root[200]; /* the folder inside the archive, with its slash */
} archive;

/* Sets *bytes [*n] to the archive's entry `name` below its root; VT_E_FORMAT if it has none, or as vt_zip_entry. */
static vt_status read_entry(archive *a, const char *name, const uint8_t **bytes, size_t *n, vt_err *e) {
    char full[400];
    snprintf(full, sizeof full, "%s%s", a->root, name);
    int64_t i = vt_zip_find(a->zip, full);
    if (i < 0) return vt_fail(e, VT_E_FORMAT, "%s: the archive has no entry %s", a->st->path, full);
    return vt_zip_entry(a->zip, i, bytes, n, e);
}

/* For vt_stores: finds a storage in the zip archive; ctx: the archive. */
static vt_status find_zip_storage(void *ctx, const vt_node_store *s, const uint8_t **bytes, size_t *n, vt_err *e) {
    char name[120];
    snprintf(name, sizeof name, "data/%.*s", (int)s->key.n, s->key.s);
    return read_entry(ctx, name, bytes, n, e);
}

/* Sets a->root to the folder of data.pkl. VT_E_FORMAT, by the names of the entries: none (then NumPy and Keras are
 * named), one of 200 letters or more, or a TorchScript archive. */
static vt_status find_root(archive *a, vt_err *e) {
    int64_t count = vt_zip_count(a->zip), pkl = -1, far = -1;
    const char *what = "without data.pkl";
    for (int64_t i = 0; i < count && pkl < 0; i++) {
        const char *name = vt_zip_name(a->zip, i);
        if (vt_ends_in(name, ".npy")) what = "of NumPy arrays (npz)";
        if (vt_ends_in(name, ".weights.h5")) what = "of Keras";
        if (vt_ends_in(name, "/data.pkl")) *(strlen(name) < sizeof a->root ? &pkl : &far) = i;
    }
    if (pkl < 0 && far >= 0)
        return vt_fail(e, VT_E_FORMAT, "%s: the name of %.40s... in the archive has %zu letters, may have %zu",
                       a->st->path, vt_zip_name(a->zip, far), strlen(vt_zip_name(a->zip, far)), sizeof a->root - 1);
    if (pkl < 0)
        return vt_fail(e, VT_E_FORMAT, "%s: is a zip archive %s, not weights that torch.save wrote", a->st->path, what);
    const char *name = vt_zip_name(a->zip, pkl);
    memcpy(a->root, name, strlen(name) - strlen("data.pkl"));
    char other[220];
    snprintf(other, sizeof other, "%scode/", a->root);
    for (int64_t i = 0; i < count; i++)
        if (!strncmp(vt_zip_name(a->zip, i), other, strlen(other)) ||
            vt_ends_in(vt_zip_name(a->zip, i), "/constants.pkl"))
            return vt_fail(e, VT_E_FORMAT,
                           "%s: is a TorchScript archive (it holds %.100s), a program and not weights; save "
                           "torch.save(torch.jit.load(FILE).state_dict(), OTHER)",
                           a->st->path, vt_zip_name(a->zip, i));
    return VT_OK;
}

/* Sets a->root, reads byte order and data.pkl, and adds their state dict to a->st (vt_state_add). */
static vt_status read_archive(archive *a, const char *want, vt_err *e) {
    const uint8_t *bytes;
    size_t n, at = 0;
    vt_node *root;
    vt_stores from = {.find = find_zip_storage, .ctx = a};
    VT_TRY(find_root(a, e));
    char order[220];
    snprintf(order, sizeof order, "%sbyteorder", a->root);
    if (vt_zip_find(a->zip, order) >= 0) {
        VT_TRY(read_entry(a, "byteorder", &bytes, &n, e));
        from.big_endian = n == 3 && !memcmp(bytes, "big", 3);
        if (!from.big_endian && (n != 6 || memcmp(bytes, "little", 6)))
            return vt_fail(e, VT_E_FORMAT, "%s: %s is neither little nor big", a->st->path, order);
    }
    VT_TRY(read_entry(a, "data.pkl", &bytes, &n, e));
    VT_TRY(vt_pickle_read(&root, a->st, bytes, n, &at, "data.pkl, ", NULL, e));
    return vt_state_add(a->st, root, &from, want, e);
}

static void close_zip(void *z) { vt_zip_close(z); }

vt_status vt_tensors_read_zip(vt_tensors *st, const char *want, vt_err *e) {
    archive a = {.st = st};
    st->format = "PyTorch zip";
    VT_TRY(vt_zip_open(&a.zip, st->bytes, st->size, st->path, e));
    VT_TRY(vt_tensors_keep(st, a.zip, close_zip, e)); /* tensors may lie in what it inflated */
    return read_archive(&a, want, e);
}

/* ---- legacy: magic, protocol, system, object, keys, then for each key a count and its numbers ---- */

typedef struct place {
    const vt_node_store *store;
    const uint8_t *bytes; /* NULL: not in the file */
    size_t n;
} place;

typedef struct stream {
    vt_tensors *st;
    place *places; /* sorted by key */
    uint32_t n;
} stream;

/* Compares two places by their storage's key. */
static int compare_keys(const void *pa, const void *pb) {
    const vt_node_text *a = &((const place *)pa)->store->key, *b = &((const place *)pb)->store->key;
    int c = memcmp(a->s, b->s, a->n < b->n ? a->n : b->n);
    return c ? c : (a->n > b->n) - (a->n < b->n);
}

/* Returns the place of a storage's key; NULL: no tensor names it. */
static place *find_place(const stream *s, const vt_node_store *store) {
    place key = {.store = store};
    return s->n ? bsearch(&key, s->places, s->n, sizeof key, compare_keys) : NULL;
}

/* For vt_stores: finds a storage in the legacy stream; ctx: the stream. */
static vt_status find_legacy_storage(void *ctx, const vt_node_store *s, const uint8_t **bytes, size_t *n, vt_err *e) {
    const stream *m = ctx;
    const place *p = find_place(m, s);
    if (!p || !p->bytes)
        return vt_fail(e, VT_E_FORMAT, "%s: storage %.*s is not in the file", m->st->path, (int)s->key.n, s->key.s);
    *bytes = p->bytes, *n = p->n;
    return VT_OK;
}

/* Sets m->places [m->n], sorted, to one without bytes for each storage of the list; VT_E_FORMAT: one key has two types
 * or lengths. */
static vt_status make_places(stream *m, const vt_node_list *stores, vt_err *e) {
    if (!(m->places = vt_tensors_take(m->st, (stores->n + (size_t)1) * sizeof *m->places, e))) return e->code;
    for (uint32_t i = 0; i < stores->n; i++) m->places[i] = (place){.store = stores->v[i]->u.store};
    qsort(m->places, stores->n, sizeof *m->places, compare_keys);
    for (uint32_t i = 0; i < stores->n; i++) {
        const vt_node_store *a = m->n ? m->places[m->n - 1].store : NULL, *b = m->places[i].store;
        if (!a || compare_keys(&m->places[m->n - 1], &m->places[i])) {
            m->places[m->n++] = m->places[i];
        } else if (a->dtype != b->dtype || a->numel != b->numel) {
            return vt_fail(e, VT_E_FORMAT, "%s: storage %.*s is named with two types or lengths", m->st->path,
                           (int)a->key.n, a->key.s);
        }
    }
    return VT_OK;
}

/* Sets the bytes of m's places for the storages in the list `keys`, which follow one another from offset `at` of the
 * file. VT_E_FORMAT: a key that no place has, or a storage not whole. */
static vt_status locate_storages(stream *m, const vt_node *keys, size_t at, vt_err *e) {
    if (keys->kind != VT_NODE_LIST)
        return vt_fail(e, VT_E_FORMAT, "%s: byte %zu: the list of storages is %s", m->st->path, at, vt_node_name(keys));
    for (uint32_t i = 0; i < keys->u.list.n; i++) {
        const vt_node *key = keys->u.list.v[i];
        vt_node_store want = {.key = key->u.text};
        place *p = key->kind == VT_NODE_TEXT ? find_place(m, &want) : NULL;
        if (!p) return vt_fail(e, VT_E_FORMAT, "%s: storage %u of the list belongs to no tensor", m->st->path, i);
        int64_t numel;
        size_t left = m->st->size - at, item = vt_dtype_size(p->store->dtype);
        if (left < 8 || (memcpy(&numel, m->st->bytes + at, 8), numel != p->store->numel) ||
            (size_t)numel > (left - 8) / item)
            return vt_fail(e, VT_E_FORMAT, "%s: byte %zu: storage %.*s of %lld items is not all in the file",
                           m->st->path, at, (int)p->store->key.n, p->store->key.s, (long long)p->store->numel);
        p->bytes = m->st->bytes + at + 8;
        p->n = (size_t)numel * item;
        at += 8 + p->n;
    }
    return VT_OK;
}

vt_status vt_tensors_read_legacy(vt_tensors *st, const char *want, vt_err *e) {
    stream m = {.st = st};
    vt_stores from = {.find = find_legacy_storage, .ctx = &m}; /* always little-endian: THPStorage_writeFileRaw */
    vt_node_list stores = {0};
    vt_node *part, *root;
    size_t at = 0;
    st->format = "PyTorch legacy";
    for (int i = 0; i < 3; i++) VT_TRY(vt_pickle_read(&part, st, st->bytes, st->size, &at, "", NULL, e));
    VT_TRY(vt_pickle_read(&root, st, st->bytes, st->size, &at, "", &stores, e));
    VT_TRY(vt_pickle_read(&part, st, st->bytes, st->size, &at, "", NULL, e));
    VT_TRY(make_places(&m, &stores, e));
    VT_TRY(locate_storages(&m, part, at, e));
    return vt_state_add(st, root, &from, want, e);
}

/* ---- writing ---- */

/* Appends n bytes to the pickle. */
static void put_bytes(vt_zip_part *p, const void *bytes, size_t n) {
    memcpy(p->head + p->n_head, bytes, n);
    p->n_head += n;
}

/* Appends a whole number (opcode LONG1, eight bytes, least first). */
static void put_number(vt_zip_part *p, int64_t v) {
    uint8_t code[10] = {0x8a, 8};
    for (int i = 0; i < 8; i++) code[2 + i] = (uint8_t)((uint64_t)v >> 8 * i);
    put_bytes(p, code, sizeof code);
}

#define PUT(p, text) put_bytes(p, text, sizeof text - 1)

/* Protocol 2 of pickle: _rebuild_tensor_v2(storage, 0, shape, strides, False, OrderedDict()). */
vt_status vt_pth_write(const char *path, const vt_tensor *t, vt_err *e) {
    vt_zip_part *parts = calloc(3, sizeof *parts), *p = parts;
    if (!parts) return vt_fail(e, VT_E_MEMORY, "%s: no memory to write it", path);
    PUT(p, "\x80\2ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"
           "0X\3\0\0\0cpu");
    put_number(p, (int64_t)t->numel);
    PUT(p, "tQK\0(");
    for (int i = 0; i < t->ndim; i++) put_number(p, t->shape[i]);
    PUT(p, "t(");
    for (int i = 0; i < t->ndim; i++) {
        int64_t stride = 1;
        for (int k = i + 1; k < t->ndim; k++) stride *= t->shape[k];
        put_number(p, stride);
    }
    PUT(p, "t\x89"
           "ccollections\nOrderedDict\n)RtR.");
    snprintf(parts[0].name, sizeof parts[0].name, "archive/data.pkl");
    snprintf(parts[1].name, sizeof parts[1].name, "archive/data/0");
    snprintf(parts[2].name, sizeof parts[2].name, "archive/version");
    parts[1].data = t->data, parts[1].bytes = vt_tensor_bytes(t);
    PUT(&parts[2], "3\n");
    vt_status s = vt_zip_write(path, parts, 3, e);
    free(parts);
    return s;
}
