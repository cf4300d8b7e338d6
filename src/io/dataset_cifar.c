/* CIFAR-10 and CIFAR-100 in their official binary form (cs.toronto.edu/~kriz/cifar.html, "Binary version"): a folder
 * with data_batch_1..5.bin and test_batch.bin (CIFAR-10) or train.bin and test.bin (CIFAR-100, fine labels), or one
 * such file. The files may hold any number of records. Pixels are stored as planes, rows first: already the layout of
 * vt_image. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "core/hash.h"
#include "io/dataset.h"

#define BATCHES 5
#define CHUNK 256 /* records read at once while the labels are checked */

typedef struct part {
    char *path;
    int fd;
    int64_t first, count; /* records, numbered through the split */
} part;

typedef struct cifar {
    int record; /* VT_CIFAR10 or VT_CIFAR100 */
    int n;
    part parts[BATCHES];
} cifar;

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

/* `folder`/`name`; NULL when there is no memory. */
static char *join(const char *folder, const char *name) {
    char *p = NULL;
    return asprintf(&p, "%s/%s", folder, name) < 0 ? NULL : p;
}

static bool has(const char *folder, const char *name) {
    char *p = join(folder, name);
    bool there = p && !access(p, F_OK);
    free(p);
    return there;
}

static const char *batch_name(char buf[32], int i) {
    snprintf(buf, 32, "data_batch_%d.bin", i);
    return buf;
}

static bool has_cifar10(const char *folder) {
    char name[32];
    bool any = has(folder, "test_batch.bin");
    for (int i = 1; i <= BATCHES && !any; i++) any = has(folder, batch_name(name, i));
    return any;
}

static bool has_cifar100(const char *folder) { return has(folder, "train.bin") || has(folder, "test.bin"); }

static bool cifar_probe(const char *path) {
    struct stat s;
    size_t n = strlen(path);
    if (stat(path, &s)) return false;
    if (S_ISDIR(s.st_mode)) return has_cifar10(path) || has_cifar100(path);
    return n > 4 && !strcmp(path + n - 4, ".bin");
}

/* Appends a file; takes `path` over. */
static vt_status add_part(cifar *c, char *path, vt_err *e) {
    struct stat s;
    if (!path) return vt_fail(e, VT_E_MEMORY, "no memory for the name of a CIFAR file");
    part *p = &c->parts[c->n];
    p->path = path;
    p->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (p->fd < 0) {
        vt_status r = vt_fail(e, VT_E_IO, "%s: cannot be opened: %s", path, strerror(errno));
        return free(path), r;
    }
    c->n++;
    if (fstat(p->fd, &s) || !S_ISREG(s.st_mode)) return vt_fail(e, VT_E_IO, "%s: is not a regular file", path);
    return s.st_size ? VT_OK : vt_fail(e, VT_E_FORMAT, "%s: is empty", path);
}

static vt_status add_train10(cifar *c, const char *folder, vt_err *e) {
    char name[32];
    int last = 0;
    for (int i = 1; i <= BATCHES; i++)
        if (has(folder, batch_name(name, i))) last = i;
    if (!last) last = 1; /* the sentence about the missing file names data_batch_1.bin */
    for (int i = 1; i <= last; i++) VT_TRY(add_part(c, join(folder, batch_name(name, i)), e));
    return VT_OK;
}

static vt_status add_folder(cifar *c, const vt_dataset *d, vt_err *e) {
    bool ten = has_cifar10(d->path), train = d->split == VT_SPLIT_TRAIN;
    if (ten && has_cifar100(d->path))
        return vt_fail(e, VT_E_FORMAT,
                       "%s: holds files of CIFAR-10 (data_batch_*.bin, test_batch.bin) and of CIFAR-100 (train.bin, "
                       "test.bin); name one file or keep one kind",
                       d->path);
    c->record = ten ? VT_CIFAR10 : VT_CIFAR100;
    if (ten && train) return add_train10(c, d->path, e);
    return add_part(c, join(d->path, ten ? "test_batch.bin" : train ? "train.bin" : "test.bin"), e);
}

/* One file is what its size says it is, for either split. */
static vt_status add_single(cifar *c, const vt_dataset *d, vt_err *e) {
    struct stat s;
    VT_TRY(add_part(c, strdup(d->path), e));
    if (fstat(c->parts[0].fd, &s)) return vt_fail(e, VT_E_IO, "%s: %s", d->path, strerror(errno));
    bool ten = s.st_size % VT_CIFAR10 == 0, hundred = s.st_size % VT_CIFAR100 == 0;
    if (ten && hundred)
        return vt_fail(e, VT_E_FORMAT,
                       "%s: %lld bytes are whole records of CIFAR-10 (%d bytes) and of CIFAR-100 (%d bytes); put the "
                       "file into a folder, under the name test_batch.bin (CIFAR-10) or test.bin (CIFAR-100)",
                       d->path, (long long)s.st_size, VT_CIFAR10, VT_CIFAR100);
    if (!ten && !hundred)
        return vt_fail(e, VT_E_FORMAT,
                       "%s: %lld bytes end inside record %lld of CIFAR-10 (%d bytes a record, %lld too many) and "
                       "inside record %lld of CIFAR-100 (%d bytes a record, %lld too many)",
                       d->path, (long long)s.st_size, (long long)s.st_size / VT_CIFAR10, VT_CIFAR10,
                       (long long)s.st_size % VT_CIFAR10, (long long)s.st_size / VT_CIFAR100, VT_CIFAR100,
                       (long long)s.st_size % VT_CIFAR100);
    c->record = ten ? VT_CIFAR10 : VT_CIFAR100;
    return VT_OK;
}

/* Up to n bytes from `at`; fewer only at the end of the file. Thread-safe. */
static vt_status read_at(const part *p, uint8_t *out, size_t n, int64_t at, size_t *got, vt_err *e) {
    for (*got = 0; *got < n;) {
        ssize_t k = pread(p->fd, out + *got, n - *got, at + (int64_t)*got);
        if (k == 0) break;
        if (k < 0 && errno != EINTR) return vt_fail(e, VT_E_IO, "%s: cannot be read: %s", p->path, strerror(errno));
        if (k > 0) *got += (size_t)k;
    }
    return VT_OK;
}

/* One pass: hashes the file and checks its records. */
static vt_status scan(part *p, int record, vt_sha *sha, uint8_t *buf, vt_err *e) {
    size_t want = (size_t)CHUNK * (size_t)record, got = want;
    while (got == want) {
        VT_TRY(read_at(p, buf, want, p->count * record, &got, e));
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
        r = scan(&c->parts[i], c->record, sha, buf, e);
        d->count += c->parts[i].count;
    }
    free(buf);
    if (sha) vt_sha_end(sha, d->hash);
    return r;
}

static vt_status cifar_open(vt_dataset *d, vt_err *e) {
    struct stat s;
    cifar *c = d->state = calloc(1, sizeof *c);
    if (!c) return vt_fail(e, VT_E_MEMORY, "%s: no memory to open it", d->path);
    if (stat(d->path, &s)) return vt_fail(e, VT_E_IO, "%s: cannot be opened: %s", d->path, strerror(errno));
    VT_TRY(S_ISDIR(s.st_mode) ? add_folder(c, d, e) : add_single(c, d, e));
    d->classes = classes_of(c->record);
    return scan_all(d, c, e);
}

static vt_status cifar_read(const vt_dataset *d, int64_t i, vt_image *im, int *label, vt_err *e) {
    const cifar *c = d->state;
    const part *p = c->parts;
    uint8_t buf[VT_CIFAR100];
    size_t got, head = (size_t)c->record - VT_CIFAR_PIXELS;
    while (i >= p->first + p->count) p++;
    VT_TRY(read_at(p, buf, (size_t)c->record, (i - p->first) * c->record, &got, e));
    if (got == 0)
        return vt_fail(e, VT_E_IO, "%s: record %lld is gone since the file was opened", p->path,
                       (long long)(i - p->first));
    VT_TRY(vt_cifar_check(buf, got, c->record, i - p->first, p->path, e)); /* the file may have changed */
    uint8_t *rgb = malloc(VT_CIFAR_PIXELS);
    if (!rgb) return vt_fail(e, VT_E_MEMORY, "%s: no memory for an image", p->path);
    memcpy(rgb, buf + head, VT_CIFAR_PIXELS);
    *im = (vt_image){32, 32, rgb, NULL};
    *label = buf[head - 1];
    return VT_OK;
}

static void cifar_close(vt_dataset *d) {
    cifar *c = d->state;
    for (int i = 0; c && i < c->n; i++) {
        close(c->parts[i].fd);
        free(c->parts[i].path);
    }
    free(c);
    d->state = NULL;
}

const vt_dataset_def vt_dataset_def_cifar = {
    .name = "cifar",
    .summary = "CIFAR-10 or CIFAR-100, official binary folder or one of its .bin files",
    .probe = cifar_probe,
    .open = cifar_open,
    .read = cifar_read,
    .close = cifar_close,
};
