/* SPDX-License-Identifier: MIT */
/* Data sets of CIFAR records. */
#include "io_fixture.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/hash.h"
#include "data/records.h"

/* `n` records whose labels count from `first`, pixels a function of record and position; bytes cut off the
 * end. */
static void put_cifar(const char *path, int record, int n, int first, int limit, size_t cut) {
    size_t size = (size_t)record, head = size - VT_CIFAR_PIXELS;
    uint8_t *b = calloc((size_t)n, size);
    for (int i = 0; i < n; i++) {
        b[(size_t)i * size + head - 1] = (uint8_t)((first + i) % limit);
        for (size_t k = head; k < size; k++) b[(size_t)i * size + k] = (uint8_t)((size_t)(first + i) * 31 + k - head);
    }
    put(path, b, (size_t)n * size - cut);
    free(b);
}

static void check_images(const vt_dataset *d, int first) {
    for (int64_t i = 0; i < d->count; i++) {
        vt_image im;
        int label;
        assert_int_equal(vt_dataset_read(d, i, &im, &label, NULL), VT_OK);
        assert_true(im.shape.width == 32 && im.shape.height == 32 && label == (first + i) % d->classes);
        for (int k = 0; k < VT_CIFAR_PIXELS; k++) assert_int_equal(im.rgb[k], (uint8_t)((first + i) * 31 + k));
        vt_image_free(&im);
    }
}

static void *reader(void *d) {
    check_images(d, 0);
    return NULL;
}

static void test_cifar10(void **state) {
    (void)state;
    vt_dataset *d;
    vt_err e = {0};
    vt_image im;
    int label;
    char hex[65];
    assert_int_equal(mkdir(at("c10"), 0700), 0);
    put_cifar(at("c10/data_batch_1.bin"), VT_CIFAR10, 300, 0, 10, 0); /* longer than one read */
    refuse_set(at("c10"), VT_SPLIT_TEST, VT_E_IO, at("c10/test_batch.bin"), "No such file");
    put_cifar(at("c10/data_batch_2.bin"), VT_CIFAR10, 7, 300, 10, 0);
    put_cifar(at("c10/test_batch.bin"), VT_CIFAR10, 2, 5, 10, 0);
    assert_int_equal(vt_dataset_open(&d, at("c10"), VT_SPLIT_TRAIN, &e), VT_OK);
    assert_true(d->count == 307 && d->classes == 10);
    pthread_t t[3];
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&t[i], NULL, reader, d), 0);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    t_says(vt_dataset_read(d, 307, &im, &label, &e), VT_E_RANGE, &e, "image 307", "0 to 306");
    t_says(vt_dataset_read(d, -1, &im, &label, &e), VT_E_RANGE, &e, "image -1", "train");
    size_t n, m;
    uint8_t *a = get(at("c10/data_batch_1.bin"), &n), *b = get(at("c10/data_batch_2.bin"), &m);
    memcpy(a + n, b, m);
    vt_sha_hex(a, n + m, hex);
    assert_string_equal(d->hash, hex);
    put_cifar(at("c10/data_batch_2.bin"), VT_CIFAR10, 7, 8, 267, 0); /* written anew while it is open */
    t_says(vt_dataset_read(d, 306, &im, &label, &e), VT_E_RANGE, &e, "data_batch_2.bin: record 6", "label 14");
    vt_dataset_close(d);
    assert_int_equal(vt_dataset_open(&d, at("c10"), VT_SPLIT_TEST, &e), VT_OK);
    assert_int_equal(d->count, 2);
    check_images(d, 5);
    vt_dataset_close(d);
    vt_dataset_close(NULL);
    put_cifar(at("c10/data_batch_4.bin"), VT_CIFAR10, 7, 0, 10, 0);
    put_cifar(at("c10/data_batch_2.bin"), VT_CIFAR10, 7, 300, 10, 0);
    refuse_set(at("c10"), VT_SPLIT_TRAIN, VT_E_IO, at("c10/data_batch_3.bin"), "No such file");
    put_cifar(at("c10/train.bin"), VT_CIFAR100, 1, 0, 100, 0);
    refuse_set(at("c10"), VT_SPLIT_TEST, VT_E_FORMAT, "CIFAR-10 (", "CIFAR-100 (");
    free(a);
    free(b);
}

/* ---- the Python version, as Python 2 wrote the official files ---- */

typedef struct batch {
    uint8_t b[64 + 400 + 310 * (VT_CIFAR_PIXELS + 8)];
    size_t n;
} batch;

static void add(batch *o, const void *bytes, size_t n) {
    memcpy(o->b + o->n, bytes, n);
    o->n += n;
}
#define ADD(o, text) add(o, text, sizeof(text) - 1)

static void add_labels(batch *o, const char *key, const uint8_t *records, int record, int at, int n) {
    uint8_t head[2] = {'U', (uint8_t)strlen(key)};
    add(o, head, 2), add(o, key, strlen(key));
    ADD(o, "]q\x03(");
    for (int i = 0; i < n; i++) add(o, (uint8_t[2]){'K', records[(size_t)i * (size_t)record + (size_t)at]}, 2);
    ADD(o, "e");
}

/* The records of a binary file as a pickle. */
static void put_python(const char *path, const uint8_t *records, int record, int n) {
    static batch o;
    uint32_t bytes = (uint32_t)n * VT_CIFAR_PIXELS;
    o.n = 0;
    ADD(&o, "\x80\x02}q\x01(U\x0b"
            "batch_labelq\x02U\x15testing batch 1 of 1.q\x03");
    if (record == VT_CIFAR100) add_labels(&o, "coarse_labels", records, record, 0, n);
    add_labels(&o, record == VT_CIFAR100 ? "fine_labels" : "labels", records, record, record - VT_CIFAR_PIXELS - 1, n);
    ADD(&o, "U\x04"
            "dataq\x06"
            "cnumpy.core.multiarray\n_reconstruct\nq\x07"
            "cnumpy\nndarray\nq\x08K\x00\x85U\x01"
            "b\x87Rq\t(K\x01M");
    add(&o, (uint8_t[2]){(uint8_t)n, (uint8_t)(n >> 8)}, 2);
    ADD(&o,
        "M\x00\x0c\x86"
        "cnumpy\ndtype\nq\nU\x02u1K\x00K\x01\x87Rq\x0b(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T");
    add(&o, &bytes, 4);
    for (int i = 0; i < n; i++) add(&o, records + (size_t)(i + 1) * (size_t)record - VT_CIFAR_PIXELS, VT_CIFAR_PIXELS);
    ADD(&o, "tbu.");
    put(path, o.b, o.n);
}

/* Both versions hold the same images, so they have the same hash. */
static void test_python(void **state) {
    (void)state;
    static const struct {
        int record, limit;
        const char *bin, *py, *bin_file, *py_file;
    } v[] = {{VT_CIFAR10, 10, "bin10", "cifar-10-batches-py", "bin10/test_batch.bin", "cifar-10-batches-py/test_batch"},
             {VT_CIFAR100, 100, "bin100", "cifar-100-python", "bin100/test.bin", "cifar-100-python/test"}};
    char root[400];
    assert_int_equal(mkdir(at("root"), 0700), 0);
    for (int i = 0; i < 2; i++) {
        vt_dataset *d;
        vt_err e = {0};
        char hex[65];
        size_t n;
        assert_int_equal(mkdir(at("%s", v[i].bin), 0700) | mkdir(at("root/%s", v[i].py), 0700), 0);
        put_cifar(at("%s", v[i].bin_file), v[i].record, 300, 0, v[i].limit, 0);
        uint8_t *records = get(at("%s", v[i].bin_file), &n);
        put_python(at("root/%s", v[i].py_file), records, v[i].record, 300);
        free(records);
        assert_int_equal(vt_dataset_open(&d, at("%s", v[i].bin), VT_SPLIT_TEST, &e), VT_OK);
        memcpy(hex, d->hash, 65);
        vt_dataset_close(d);
        /* the folder, one file of it, and (while there is one alone) the folder above it */
        const char *paths[] = {at("root/%s", v[i].py), at("root/%s", v[i].py_file), at("root")};
        for (int k = 0; k < 3 - i; k++) {
            if (vt_dataset_open(&d, paths[k], VT_SPLIT_TEST, &e) != VT_OK) fail_msg("%s", e.text);
            assert_true(d->count == 300 && d->classes == v[i].limit);
            assert_string_equal(d->hash, hex);
            check_images(d, 0);
            vt_dataset_close(d);
        }
        refuse_set(at("root/%s", v[i].py), VT_SPLIT_TRAIN, VT_E_IO, "cannot be opened",
                   i ? "cifar-100-python.tar.gz" : "cifar-10-python.tar.gz");
    }
    snprintf(root, sizeof root, "%s", at("root"));
    refuse_set(root, VT_SPLIT_TEST, VT_E_USAGE, "several data sets", "(cifar-10-batches-py, cifar-100-python)");
    put_cifar(at("root/cifar-10-batches-py/test_batch.bin"), VT_CIFAR10, 1, 0, 10, 0);
    refuse_set(at("root/cifar-10-batches-py"), VT_SPLIT_TEST, VT_E_FORMAT, "test_batch.bin)",
               "data_batch_*, test_batch)");
}

/* Bytes of a good pickle, changed: each is refused with its file and reason. */
static void test_python_refused(void **state) {
    (void)state;
#define CASE(find, put, want)                                                                                          \
    { find, put, sizeof(find) - 1, want }
    static const struct {
        const char *find, *put;
        size_t n;
        const char *want;
    } cases[] = {
        CASE("K\x02K\x03", "K\x02K\x0a", "record 3 has label 10"), /* the only one out of range */
        CASE("K\x02K\x03", "K\x02N\x88", "'labels' is no list of as many numbers"),
        CASE("K\x02K\x03", "NM\x03\0", "the label of image 2 in 'labels' is None"),
        CASE("U\x06labels", "U\x06labelz", "'labels' is no list of as many numbers"),
        CASE("U\x04"
             "data",
             "U\x04"
             "dato",
             "holds no 'data'"),
        CASE("U\x02u1", "U\x02i1", "must be a NumPy array [N,3072] of uint8"),
        CASE("U\x02u1", "U\x02i2", "its 'data' is no array"),
        CASE("U\x02u1", "U\x02O8", "its 'data' is no array"),
        CASE("M\x00\x0c", "M\x01\x0c", "its 'data' is no array"),
        CASE("numpy\nndarray", "posix\nsystem!", "posix system!"),
        CASE("_reconstruct", "_reconstruck", "nothing of it was run"),
        CASE("\x80\x02}", "\x80\x02]", "items are added to a list"),
        CASE("\x80\x02}", "\x80\x07}", "pickle protocol 7"),
    };
    size_t n, m;
    assert_int_equal(mkdir(at("broken"), 0700), 0);
    put_cifar(at("few.bin"), VT_CIFAR10, 7, 0, 10, 0);
    uint8_t *records = get(at("few.bin"), &m);
    put_python(at("broken/test_batch"), records, VT_CIFAR10, 7);
    uint8_t *good = get(at("broken/test_batch"), &n), *bad = malloc(n);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memcpy(bad, good, n);
        uint8_t *place = memmem(bad, n, cases[i].find, cases[i].n);
        assert_non_null(place);
        memcpy(place, cases[i].put, cases[i].n);
        put(at("broken/test_batch"), bad, n);
        refuse_set(at("broken"), VT_SPLIT_TEST, i ? VT_E_FORMAT : VT_E_RANGE, at("broken/test_batch"), cases[i].want);
    }
    for (size_t k = 1; k < n; k += 1 + k / 50) { /* cuts */
        put(at("broken/test_batch"), good, k);
        refuse_set(at("broken"), VT_SPLIT_TEST, VT_E_FORMAT, at("broken/test_batch"), "byte");
    }
    free(records), free(good), free(bad);
}

static void test_cifar100(void **state) {
    (void)state;
    vt_dataset *d;
    vt_err e = {0};
    assert_int_equal(mkdir(at("c100"), 0700), 0);
    put_cifar(at("c100/test.bin"), VT_CIFAR100, 120, 3, 100, 0);
    refuse_set(at("c100"), VT_SPLIT_TRAIN, VT_E_IO, at("c100/train.bin"), "No such file");
    for (int i = 0; i < 2; i++) { /* the folder, then its file */
        assert_int_equal(vt_dataset_open(&d, i ? at("c100/test.bin") : at("c100"), VT_SPLIT_TEST, &e), VT_OK);
        assert_true(d->count == 120 && d->classes == 100);
        check_images(d, 3);
        vt_dataset_close(d);
    }
    size_t n;
    uint8_t *b = get(at("c100/test.bin"), &n);
    b[2 * VT_CIFAR100] = 20;
    put(at("c100/test.bin"), b, n);
    refuse_set(at("c100"), VT_SPLIT_TEST, VT_E_RANGE, "record 2 has coarse label 20", "limit is 19");
    b[2 * VT_CIFAR100] = 19;
    b[2 * VT_CIFAR100 + 1] = 100;
    put(at("c100/test.bin"), b, n);
    refuse_set(at("c100"), VT_SPLIT_TEST, VT_E_RANGE, "record 2 has label 100", "limit is 99");
    free(b);
}

static void test_cifar_bad(void **state) {
    (void)state;
    assert_int_equal(mkdir(at("cb"), 0700), 0);
    put_cifar(at("cb/test_batch.bin"), VT_CIFAR10, 260, 0, 10, 1);
    refuse_set(at("cb"), VT_SPLIT_TEST, VT_E_FORMAT, at("cb/test_batch.bin"),
               "record 259 is incomplete: 3072 of its 3073");
    put_cifar(at("cb/test_batch.bin"), VT_CIFAR10, 260, 8, 267, 0); /* labels 8, 9, 10, ... */
    refuse_set(at("cb"), VT_SPLIT_TEST, VT_E_RANGE, "record 2 has label 10", "limit is 9");
    put(at("cb/test_batch.bin"), "", 0);
    refuse_set(at("cb"), VT_SPLIT_TEST, VT_E_FORMAT, at("cb/test_batch.bin"), "empty");
    put(at("one.bin"), "", 0);
    refuse_set(at("one.bin"), VT_SPLIT_TEST, VT_E_FORMAT, at("one.bin"), "empty");
    put_cifar(at("one.bin"), VT_CIFAR10, 3, 0, 10, 3);
    refuse_set(at("one.bin"), VT_SPLIT_TEST, VT_E_FORMAT, "record 2 of CIFAR-10 (3073 bytes a record, 3070 too many)",
               at("one.bin"));
    assert_int_equal(truncate(at("one.bin"), 3073 * 3074), 0);
    refuse_set(at("one.bin"), VT_SPLIT_TEST, VT_E_FORMAT, "test_batch.bin (CIFAR-10)", "test.bin (CIFAR-100)");
    refuse_set(at("nowhere"), VT_SPLIT_TEST, VT_E_IO, at("nowhere"), "No such file");
    put(at("set.tar"), "x", 1);
    refuse_set(at("set.tar"), VT_SPLIT_TEST, VT_E_FORMAT, "cifar (", "folder (");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cifar10),        cmocka_unit_test(test_cifar100),  cmocka_unit_test(test_python),
        cmocka_unit_test(test_python_refused), cmocka_unit_test(test_cifar_bad),
    };
    return cmocka_run_group_tests_name("cifar", tests, make_tmp, remove_tmp);
}
