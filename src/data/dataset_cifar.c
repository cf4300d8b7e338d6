/* SPDX-License-Identifier: MIT */
/* CIFAR-10 and CIFAR-100 as their authors publish them (cs.toronto.edu/~kriz/cifar.html). Binary version: a folder with
 * data_batch_1..5.bin and test_batch.bin (CIFAR-10) or train.bin and test.bin (CIFAR-100, fine labels). Python version,
 * which torchvision keeps: pickles of the same names without an end. Python 2 wrote the official ones; Python 3 writes
 * the same again with bytes for its texts. Or one such file. The files may hold any number of records. Pixels are
 * stored as planes, rows first: already the layout of vt_image. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "data/dataset.h"
#include "data/records.h"
#include "tensors/pickle.h"

#define BATCHES 5

typedef struct part {
    char path[VT_PATH_MAX];
    vt_mapped map;        /* a binary file */
    vt_cifar_py py;       /* else one of the Python version */
    int64_t first, count; /* records, numbered through the split */
} part;

typedef struct cifar {
    int record; /* VT_CIFAR10 or VT_CIFAR100 */
    int n;
    part parts[BATCHES];
} cifar;

/* What the four archives hold. */
typedef struct version {
    int record;
    bool python;
    const char *name, *train, *test, *archive; /* *: 1 to BATCHES */
} version;
static const version versions[] = {
    {VT_CIFAR10, false, "CIFAR-10", "data_batch_*.bin", "test_batch.bin", "cifar-10-binary.tar.gz"},
    {VT_CIFAR100, false, "CIFAR-100", "train.bin", "test.bin", "cifar-100-binary.tar.gz"},
    {VT_CIFAR10, true, "CIFAR-10", "data_batch_*", "test_batch", "cifar-10-python.tar.gz"},
    {VT_CIFAR100, true, "CIFAR-100", "train", "test", "cifar-100-python.tar.gz"},
};
#define VERSIONS ((int)(sizeof versions / sizeof *versions))

/* ---- numpy.core.multiarray._reconstruct(...) with the state (version, shape, dtype, Fortran order, bytes) ---- */

/* Reads an array's shape of one or two sides into a->ndim and a->shape; false: it is none. */
static bool read_shape(vt_npy *a, const vt_node *shape) {
    if (!shape || shape->kind != VT_NODE_TUPLE || shape->u.list.n < 1 || shape->u.list.n > 2) return false;
    a->ndim = (int)shape->u.list.n;
    for (int i = 0; i < a->ndim; i++)
        if (!vt_node_int(vt_node_item(shape, (uint32_t)i), &a->shape[i]) || a->shape[i] < 0) return false;
    return true;
}

/* Reads a pickled NumPy array, in place; false: it is none, or not of plain numbers. */
static bool read_array(vt_npy *a, const vt_node *n) {
    size_t bytes;
    const vt_node *state = n && n->kind == VT_NODE_OPAQUE ? vt_node_item(n, 1) : NULL, *data = vt_node_item(state, 4);
    const vt_node *fortran = vt_node_item(state, 3);
    *a = (vt_npy){.ndim = 0};
    if (!data || (data->kind != VT_NODE_TEXT && data->kind != VT_NODE_BYTES)) return false;
    if (!read_shape(a, vt_node_item(state, 1)) || !vt_node_dtype(vt_node_item(state, 2), &a->dtype, &a->swap))
        return false;
    if (!vt_shape_bytes(a->shape, a->ndim, a->dtype, &a->numel, &bytes) || bytes != data->u.text.n) return false;
    vt_npy_set_strides(a, fortran->kind == VT_NODE_BOOL && fortran->u.i);
    a->data = (const uint8_t *)data->u.text.s;
    return true;
}

/* ---- the dictionary ---- */

/* Returns a label as a byte, 255 if it does not fit. */
static uint8_t as_byte(int64_t label) { return label >= 0 && label < 255 ? (uint8_t)label : 255; }

/* Reads a list of whole numbers, or an array, one for each image, into b->labels[at], b->labels[at + step], ...;
 * VT_E_FORMAT: it is neither, or of another length. key: its name. */
static vt_status read_labels(vt_cifar_py *b, const vt_node *n, const char *key, size_t at, size_t step, vt_err *e) {
    vt_npy a;
    bool array = read_array(&a, n) && a.ndim == 1 && !vt_npy_is_real(&a), list = n && n->kind == VT_NODE_LIST;
    int64_t count = array ? a.shape[0] : list ? (int64_t)n->u.list.n : -1, v;
    if (count != b->count)
        return vt_fail(e, VT_E_FORMAT, "%s: has %lld images, and '%s' is no list of as many numbers", b->st->path,
                       (long long)b->count, key);
    for (int64_t i = 0; i < count; i++) {
        if (array)
            v = vt_npy_whole(&a, (size_t)i);
        else if (!vt_node_int(n->u.list.v[i], &v))
            return vt_fail(e, VT_E_FORMAT, "%s: the label of image %lld in '%s' is %s, not a whole number", b->st->path,
                           (long long)i, key, vt_node_name(n->u.list.v[i]));
        b->labels[at + (size_t)i * step] = as_byte(v);
    }
    return VT_OK;
}

/* Sets b->pixels, count, record and labels (allocated) by a batch's dictionary; VT_E_FORMAT: it is none of CIFAR. */
static vt_status read_batch(vt_cifar_py *b, const vt_node *root, vt_err *e) {
    const char *path = b->st->path;
    const vt_node *data = vt_node_get(root, "data");
    if (!data)
        return vt_fail(e, VT_E_FORMAT, "%s: is a Python pickle, but no batch of CIFAR: it holds no 'data'", path);
    char shape[200] = "no array";
    bool array = read_array(&b->pixels, data);
    if (array) vt_shape_text(shape, sizeof shape, b->pixels.shape, b->pixels.ndim);
    if (!array || b->pixels.dtype != VT_U8 || b->pixels.ndim != 2 || b->pixels.shape[1] != VT_CIFAR_PIXELS)
        return vt_fail(e, VT_E_FORMAT, "%s: its 'data' is %s, must be a NumPy array [N,%d] of uint8, all in the file",
                       path, shape, VT_CIFAR_PIXELS);
    b->count = b->pixels.shape[0];
    bool hundred = vt_node_get(root, "fine_labels") != NULL;
    size_t each = hundred ? 2 : 1;
    b->record = hundred ? VT_CIFAR100 : VT_CIFAR10;
    b->labels = calloc((size_t)b->count + 1, each); /* the file holds 3072 bytes for each */
    if (!b->labels) return vt_fail(e, VT_E_MEMORY, "%s: no memory for its labels", path);
    if (!b->count) return vt_fail(e, VT_E_FORMAT, "%s: holds no images", path);
    if (!hundred) return read_labels(b, vt_node_get(root, "labels"), "labels", 0, 1, e);
    VT_TRY(read_labels(b, vt_node_get(root, "coarse_labels"), "coarse_labels", 0, 2, e));
    return read_labels(b, vt_node_get(root, "fine_labels"), "fine_labels", 1, 2, e);
}

vt_status vt_cifar_py_open(vt_cifar_py *b, const uint8_t *bytes, size_t n, const char *path, vt_err *e) {
    vt_node *root;
    size_t at = 0;
    vt_err mine = {0};
    *b = (vt_cifar_py){0};
    if (!e) e = &mine;
    VT_TRY(vt_tensors_begin(&b->st, path, bytes, n, e));
    VT_TRY(vt_pickle_read(&root, b->st, b->st->bytes, b->st->size, &at, "", NULL, e));
    return read_batch(b, root, e);
}

void vt_cifar_py_close(vt_cifar_py *b) {
    vt_tensors_close(b->st);
    free(b->labels);
}

void vt_cifar_py_read(const vt_cifar_py *b, int64_t i, uint8_t *record) {
    size_t head = (size_t)b->record - VT_CIFAR_PIXELS, first = (size_t)i * b->pixels.stride[0];
    memcpy(record, b->labels + (size_t)i * head, head);
    for (size_t k = 0; k < VT_CIFAR_PIXELS; k++) record[head + k] = b->pixels.data[first + k * b->pixels.stride[1]];
}

/* ---- finding the files ---- */

static int classes_of(int record) { return record == VT_CIFAR10 ? 10 : 100; }

vt_status vt_cifar_check(const uint8_t *bytes, size_t n, int record, int64_t first, const char *path, vt_err *e) {
    size_t size = (size_t)record, whole = n / size;
    for (size_t i = 0; i < whole; i++) {
        const uint8_t *r = bytes + i * size;
        int label = r[record == VT_CIFAR100], limit = classes_of(record) - 1;
        if (label > limit)
            return vt_fail(e, VT_E_RANGE, "%s: record %lld has label %d, the limit is %d", path,
                           (long long)first + (long long)i, label, limit);
        if (record == VT_CIFAR100 && r[0] > 19)
            return vt_fail(e, VT_E_RANGE, "%s: record %lld has coarse label %d, the limit is 19", path,
                           (long long)first + (long long)i, r[0]);
    }
    if (n % size == 0) return VT_OK;
    return vt_fail(e, VT_E_FORMAT, "%s: record %lld is incomplete: %zu of its %d bytes are there", path,
                   (long long)first + (long long)whole, n % size, record);
}

/* Returns whether the file is a pickle, which since protocol 2 begins with 0x80: "train" and "test" may be anything. */
static bool is_pickle(const char *path) {
    char first = 0;
    return vt_file_start(path, &first, 1) == 1 && first == '\x80';
}

/* Writes the path of the split's file, or of its i-th, from 1 on, if it has several; false: its path is too long. */
static bool file_path(char path[VT_PATH_MAX], const char *folder, const version *v, bool train, int i) {
    char name[32], *star;
    snprintf(name, sizeof name, "%s", train ? v->train : v->test);
    if ((star = strchr(name, '*'))) *star = (char)('0' + i);
    return vt_path(path, folder, name);
}

/* Returns the number of the last of the split's files that is there, from 1 on; 0: none. */
static int last_file(const char *folder, const version *v, bool train) {
    char path[VT_PATH_MAX];
    int last = 0, n = strchr(train ? v->train : v->test, '*') ? BATCHES : 1;
    for (int i = 1; i <= n; i++)
        if (file_path(path, folder, v, train, i) && (v->python ? is_pickle(path) : !access(path, F_OK))) last = i;
    return last;
}

/* Returns the version whose files the folder holds, or NULL; *other: a second one, or NULL. */
static const version *find_version(const char *folder, const version **other) {
    const version *found = NULL;
    *other = NULL;
    for (int i = 0; i < VERSIONS; i++) {
        if (!last_file(folder, &versions[i], false) && !last_file(folder, &versions[i], true)) continue;
        if (!found)
            found = &versions[i];
        else if (!*other)
            *other = &versions[i];
    }
    return found;
}

/* Returns whether the file has a name of the Python version's files, and is a pickle. */
static bool is_python_file(const char *path) {
    const char *name = basename(path);
    bool known = !strncmp(name, "data_batch_", 11) || !strcmp(name, "test_batch") || !strcmp(name, "train") ||
                 !strcmp(name, "test");
    return known && is_pickle(path);
}

/* Returns whether the path is a folder of CIFAR files, or one such file. */
static bool cifar_probe(const char *path) {
    const version *other;
    if (vt_is_folder(path)) return find_version(path, &other) != NULL;
    return (vt_ends_in(path, ".bin") && !access(path, F_OK)) || is_python_file(path);
}

/* Opens c's next part, whose path is set, counts it in c->n, and of a Python file sets c->record. v: its archive, for
 * sentences, or NULL. VT_E_FORMAT: empty, damaged, or of another CIFAR than c->record says. */
static vt_status open_part(cifar *c, bool python, const version *v, vt_err *e) {
    part *p = &c->parts[c->n++];
    vt_err why = {0};
    char where[200] = "";
    if (v) snprintf(where, sizeof where, " (%s holds it: " VT_CIFAR_URL ")", v->archive);
    vt_status s = python ? vt_cifar_py_open(&p->py, NULL, 0, p->path, &why) : vt_mapped_open(&p->map, p->path, &why);
    if (s != VT_OK) return vt_fail(e, s, "%s%s", why.text, s == VT_E_IO ? where : "");
    if (!python) return p->map.n ? VT_OK : vt_fail(e, VT_E_FORMAT, "%s: is empty", p->path);
    if (c->record && p->py.record != c->record)
        return vt_fail(e, VT_E_FORMAT, "%s: holds images of CIFAR-%d, the folder is one of CIFAR-%d", p->path,
                       classes_of(p->py.record), classes_of(c->record));
    c->record = p->py.record;
    return VT_OK;
}

/* Opens the files of d->split in a folder into c->parts, n and record. VT_E_FORMAT: it holds two versions; VT_E_USAGE:
 * the split val; VT_E_IO: a file is missing. */
static vt_status open_folder_parts(cifar *c, const vt_dataset *d, vt_err *e) {
    bool train = d->split == VT_SPLIT_TRAIN;
    if (d->split == VT_SPLIT_VAL)
        return vt_fail(e, VT_E_USAGE, "%s: CIFAR has the splits train and test, and no val", d->path);
    const version *other, *v = find_version(d->path, &other);
    if (!v) return vt_fail(e, VT_E_IO, "%s: its files of CIFAR are gone", d->path);
    if (other)
        return vt_fail(e, VT_E_FORMAT,
                       "%s: holds files of %s (%s, %s) and of %s (%s, %s); name one file or keep one kind", d->path,
                       v->name, v->train, v->test, other->name, other->train, other->test);
    c->record = v->record;
    int last = last_file(d->path, v, train);
    if (!last) last = 1; /* the sentence about the missing file names the first */
    for (int i = 1; i <= last; i++) {
        if (!file_path(c->parts[c->n].path, d->path, v, train, i))
            return vt_fail(e, VT_E_IO, "%s: path is too long", d->path);
        VT_TRY(open_part(c, v->python, v, e));
    }
    return VT_OK;
}

/* Opens one file as either split, into c->parts, n and record: it is what its size says it is. VT_E_FORMAT: that is not
 * certain. */
static vt_status open_single_part(cifar *c, const vt_dataset *d, vt_err *e) {
    bool python = is_python_file(d->path);
    snprintf(c->parts->path, sizeof c->parts->path, "%s", d->path);
    VT_TRY(open_part(c, python, NULL, e));
    if (python) return VT_OK;
    long long size = (long long)c->parts->map.n;
    bool ten = size % VT_CIFAR10 == 0, hundred = size % VT_CIFAR100 == 0;
    if (ten && hundred)
        return vt_fail(e, VT_E_FORMAT,
                       "%s: %lld bytes are whole records of CIFAR-10 (%d bytes) and of CIFAR-100 (%d bytes); put the "
                       "file into a folder, under the name test_batch.bin (CIFAR-10) or test.bin (CIFAR-100)",
                       d->path, size, VT_CIFAR10, VT_CIFAR100);
    if (!ten && !hundred)
        return vt_fail(e, VT_E_FORMAT,
                       "%s: %lld bytes end inside record %lld of CIFAR-10 (%d bytes a record, %lld too many) and "
                       "inside record %lld of CIFAR-100 (%d bytes a record, %lld too many)",
                       d->path, size, size / VT_CIFAR10, VT_CIFAR10, size % VT_CIFAR10, size / VT_CIFAR100, VT_CIFAR100,
                       size % VT_CIFAR100);
    c->record = ten ? VT_CIFAR10 : VT_CIFAR100;
    return VT_OK;
}

/* ---- reading ---- */

/* Returns record i as the binary version has it: in the mapped file, or made in buf. Thread-safe. */
static const uint8_t *record_at(const part *p, int record, int64_t i, uint8_t buf[VT_CIFAR100]) {
    if (p->map.bytes) return p->map.bytes + (size_t)i * (size_t)record;
    vt_cifar_py_read(&p->py, i, buf);
    return buf;
}

/* Sets p->count, adds p's records (of its mapped bytes, else of its pickle) to the hash, and checks them
 * (vt_cifar_check) in one pass. VT_E_FORMAT: also an incomplete record at the end. */
static vt_status hash_and_check_part(part *p, int record, vt_sha *sha, vt_err *e) {
    uint8_t buf[VT_CIFAR100];
    size_t size = (size_t)record, rest = p->map.n % size;
    p->count = p->map.bytes ? (int64_t)(p->map.n / size) : p->py.count;
    for (int64_t i = 0; i < p->count; i++) {
        const uint8_t *r = record_at(p, record, i, buf);
        VT_TRY(vt_cifar_check(r, size, record, i, p->path, e));
        vt_sha_update(sha, r, size);
    }
    vt_mapped_release(&p->map, 0, p->map.n);
    return rest ? vt_cifar_check(p->map.bytes + p->map.n - rest, rest, record, p->count, p->path, e) : VT_OK;
}

/* Opens the split's files, checks and hashes them (vt_dataset_def.open). */
static vt_status cifar_open(vt_dataset *d, vt_err *e) {
    cifar *c = d->state;
    vt_sha sha;
    VT_TRY(vt_is_folder(d->path) ? open_folder_parts(c, d, e) : open_single_part(c, d, e));
    d->classes = classes_of(c->record);
    vt_sha_begin(&sha);
    for (int i = 0; i < c->n; d->count += c->parts[i++].count) {
        c->parts[i].first = d->count;
        VT_TRY(hash_and_check_part(&c->parts[i], c->record, &sha, e));
    }
    vt_sha_end(&sha, d->hash);
    return VT_OK;
}

/* Makes image i, and its label (of CIFAR-100 the fine one); refuses a record that has become damaged. */
static vt_status cifar_read(const vt_dataset *d, int64_t i, vt_image *im, int *label, vt_err *e) {
    const cifar *c = d->state;
    const part *p = c->parts;
    uint8_t buf[VT_CIFAR100];
    size_t size = (size_t)c->record, head = size - VT_CIFAR_PIXELS;
    while (i >= p->first + p->count) p++;
    const uint8_t *r = record_at(p, c->record, i - p->first, buf);
    VT_TRY(vt_cifar_check(r, size, c->record, i - p->first, p->path, e)); /* the file may have changed */
    VT_TRY(vt_image_make(im, vt_shape_rgb(32), p->path, e));
    memcpy(im->rgb, r + head, VT_CIFAR_PIXELS);
    *label = r[head - 1];
    return VT_OK;
}

static void cifar_close(vt_dataset *d) {
    cifar *c = d->state;
    for (int i = 0; i < c->n; i++) {
        vt_mapped_close(&c->parts[i].map);
        vt_cifar_py_close(&c->parts[i].py);
    }
}

const vt_dataset_def vt_dataset_def_cifar = {
    .name = "cifar",
    .summary = "CIFAR-10 or CIFAR-100, folder of the binary or Python version, or one file of it",
    .probe = cifar_probe,
    .state = sizeof(cifar),
    .open = cifar_open,
    .read = cifar_read,
    .close = cifar_close,
};
