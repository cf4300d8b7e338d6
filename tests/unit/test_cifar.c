/* Data sets of CIFAR records. */
#include "io_bench.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>
#include "core/hash.h"

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
        assert_true(im.width == 32 && im.height == 32 && label == (first + i) % d->classes);
        for (int k = 0; k < VT_CIFAR_PIXELS; k++) assert_int_equal(im.rgb[k], (uint8_t)((first + i) * 31 + k));
        vt_image_free(&im);
    }
}

static void *reader(void *d) { return check_images(d, 0), NULL; }

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
    put_cifar(at("c10/data_batch_2.bin"), VT_CIFAR10, 7, 300, 10, 100); /* cut while it is open */
    t_says(vt_dataset_read(d, 306, &im, &label, &e), VT_E_FORMAT, &e, "data_batch_2.bin: record 6", "2973 of its 3073");
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
        cmocka_unit_test(test_cifar10),
        cmocka_unit_test(test_cifar100),
        cmocka_unit_test(test_cifar_bad),
    };
    return cmocka_run_group_tests_name("cifar", tests, make_tmp, remove_tmp);
}
