/* SPDX-License-Identifier: MIT */
/* CIFAR-10 and CIFAR-100 as their authors publish them (cs.toronto.edu/~kriz/cifar.html). Binary version: a folder with
 * data_batch_1..5.bin and test_batch.bin (CIFAR-10) or train.bin and test.bin (CIFAR-100, fine labels). Python version,
 * which torchvision keeps: the same names without an end (data/records.h). Or one such file. The files may hold any
 * number of records. Pixels are stored as planes, rows first: already the layout of vt_image. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/files.h"
#include "base/hash.h"
#include "data/dataset.h"
#include "data/records.h"

#define BATCHES 5
#define CHUNK 256 /* records read at once while the labels are checked */

typedef struct part {
    char path[VT_PATH_MAX];
    int fd;               /* of a binary file, else -1 */
    int64_t size;         /* its bytes */
    vt_cifar_py py;       /* of the Python version */
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

/* Pickles since protocol 2 begin with 0x80: "train" and "test" may be files of any kind, or folders. */
static bool is_pickle(const char *path) {
    char first = 0;
    return vt_file_start(path, &first, 1) == 1 && first == '\x80';
}

/* A file of the split, of several the i-th, from 1 on; false: its path is too long. */
static bool file_path(char path[VT_PATH_MAX], const char *folder, const version *v, bool train, int i) {
    char name[32], *star;
    snprintf(name, sizeof name, "%s", train ? v->train : v->test);
    if ((star = strchr(name, '*'))) *star = (char)('0' + i);
    return vt_path(path, folder, name);
}

/* The last of the split's files that is there, from 1 on; 0: none. */
static int last_file(const char *folder, const version *v, bool train) {
    char path[VT_PATH_MAX];
    int last = 0, n = strchr(train ? v->train : v->test, '*') ? BATCHES : 1;
    for (int i = 1; i <= n; i++)
        if (file_path(path, folder, v, train, i) && (v->python ? is_pickle(path) : !access(path, F_OK))) last = i;
    return last;
}

/* The version whose files the folder holds, or NULL; *other: a second one, or NULL. */
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

/* A single file of the Python version keeps its name. */
static bool is_python_file(const char *path) {
    const char *name = basename(path);
    bool known = !strncmp(name, "data_batch_", 11) || !strcmp(name, "test_batch") || !strcmp(name, "train") ||
                 !strcmp(name, "test");
    return known && is_pickle(path);
}

static bool cifar_probe(const char *path) {
    const version *other;
    if (vt_is_folder(path)) return find_version(path, &other) != NULL;
    return (vt_ends_in(path, ".bin") && !access(path, F_OK)) || is_python_file(path);
}

/* Opens the part whose path is set. v: which archive it should be of, or NULL. */
static vt_status open_part(cifar *c, bool python, const version *v, vt_err *e) {
    part *p = &c->parts[c->n++];
    vt_err why = {0};
    char where[200] = "";
    p->fd = -1;
    if (v) snprintf(where, sizeof where, " (%s holds it: " VT_CIFAR_URL ")", v->archive);
    vt_status s = python ? vt_cifar_py_open(&p->py, NULL, 0, p->path, &why)
                         : vt_file_open(&p->fd, &p->size, p->path, O_RDONLY, &why);
    if (s != VT_OK) return vt_fail(e, s, "%s%s", why.text, s == VT_E_IO ? where : "");
    if (!python) return p->size ? VT_OK : vt_fail(e, VT_E_FORMAT, "%s: is empty", p->path);
    if (c->record && p->py.record != c->record)
        return vt_fail(e, VT_E_FORMAT, "%s: holds images of CIFAR-%d, the folder is one of CIFAR-%d", p->path,
                       classes_of(p->py.record), classes_of(c->record));
    c->record = p->py.record;
    return VT_OK;
}

static vt_status add_folder(cifar *c, const vt_dataset *d, vt_err *e) {
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

/* One file is what its size says it is, for either split. */
static vt_status add_single(cifar *c, const vt_dataset *d, vt_err *e) {
    bool python = is_python_file(d->path);
    snprintf(c->parts->path, sizeof c->parts->path, "%s", d->path);
    VT_TRY(open_part(c, python, NULL, e));
    if (python) return VT_OK;
    long long size = c->parts->size;
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

/* Bytes of up to n records from number `first` on; fewer than n records only at the end of the file. Thread-safe. */
static vt_status read_records(const part *p, int record, uint8_t *out, size_t n, int64_t first, size_t *got,
                              vt_err *e) {
    size_t bytes = n * (size_t)record;
    ssize_t k = 1;
    for (*got = 0; p->fd < 0 && *got < bytes && first < p->py.count; *got += (size_t)record)
        vt_cifar_py_read(&p->py, first++, out + *got);
    while (p->fd >= 0 && *got < bytes && k > 0) {
        k = TEMP_FAILURE_RETRY(pread(p->fd, out + *got, bytes - *got, first * record + (int64_t)*got));
        if (k < 0) return vt_fail(e, VT_E_IO, "%s: cannot be read: %s", p->path, strerror(errno));
        *got += (size_t)k;
    }
    return VT_OK;
}

/* One pass: hashes the file and checks its records. */
static vt_status hash_and_check_part(part *p, int record, vt_sha *sha, uint8_t *buf, vt_err *e) {
    size_t want = (size_t)CHUNK * (size_t)record, got = want;
    while (got == want) {
        VT_TRY(read_records(p, record, buf, CHUNK, p->count, &got, e));
        VT_TRY(vt_cifar_check(buf, got, record, p->count, p->path, e));
        vt_sha_update(sha, buf, got);
        p->count += (int64_t)(got / (size_t)record);
    }
    return VT_OK;
}

static vt_status scan_all(vt_dataset *d, cifar *c, vt_err *e) {
    vt_sha *sha = vt_sha_new();
    uint8_t *buf = malloc((size_t)CHUNK * (size_t)c->record);
    vt_status r = sha && buf ? VT_OK : vt_fail(e, VT_E_MEMORY, "%s: no memory to read it", d->path);
    for (int i = 0; r == VT_OK && i < c->n; i++) {
        c->parts[i].first = d->count;
        r = hash_and_check_part(&c->parts[i], c->record, sha, buf, e);
        d->count += c->parts[i].count;
    }
    free(buf);
    if (sha) vt_sha_end(sha, d->hash);
    return r;
}

static vt_status cifar_open(vt_dataset *d, vt_err *e) {
    cifar *c = d->state;
    VT_TRY(vt_is_folder(d->path) ? add_folder(c, d, e) : add_single(c, d, e));
    d->classes = classes_of(c->record);
    return scan_all(d, c, e);
}

static vt_status cifar_read(const vt_dataset *d, int64_t i, vt_image *im, int *label, vt_err *e) {
    const cifar *c = d->state;
    const part *p = c->parts;
    uint8_t buf[VT_CIFAR100];
    size_t got, head = (size_t)c->record - VT_CIFAR_PIXELS;
    while (i >= p->first + p->count) p++;
    VT_TRY(read_records(p, c->record, buf, 1, i - p->first, &got, e));
    if (got == 0)
        return vt_fail(e, VT_E_IO, "%s: record %lld is gone since the file was opened", p->path,
                       (long long)(i - p->first));
    VT_TRY(vt_cifar_check(buf, got, c->record, i - p->first, p->path, e)); /* the file may have changed */
    uint8_t *rgb = malloc(VT_CIFAR_PIXELS);
    if (!rgb) return vt_fail(e, VT_E_MEMORY, "%s: no memory for an image", p->path);
    memcpy(rgb, buf + head, VT_CIFAR_PIXELS);
    *im = (vt_image){vt_shape_rgb(32), rgb, NULL};
    *label = buf[head - 1];
    return VT_OK;
}

static void cifar_close(vt_dataset *d) {
    cifar *c = d->state;
    for (int i = 0; i < c->n; i++) {
        if (c->parts[i].fd >= 0) close(c->parts[i].fd);
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
