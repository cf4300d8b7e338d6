/* SPDX-License-Identifier: MIT */
/* src/io: class folders: which names are splits, which level holds the classes, which output each class is, and lists
 * of images. */
#include "io_fixture.h"

#include "data/dataset.h"

/* A picture below tmp, with the folders of its path. */
static void picture(const char *path) {
    char cmd[1000];
    snprintf(cmd, sizeof cmd, "mkdir -p \"$(dirname '%s/%s')\" && cp tests/fixtures/png/rgb8.png '%s/%s'", tmp, path,
             tmp, path);
    assert_int_equal(system(cmd), 0);
}

static vt_dataset *open_set(const char *path, vt_split split, const char *order) {
    vt_dataset *d;
    vt_err e = {0};
    if (vt_dataset_open_asked(&d, path, split, NULL, order, &e) != VT_OK) fail_msg("%s", e.text);
    return d;
}

static void fits(vt_dataset *d, int outputs, const char *labels, const int *head) {
    vt_err e = {0};
    d->labels = labels;
    if (vt_dataset_fit_head(d, outputs, false, "m", &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(d->head != NULL, head != NULL);
    for (int k = 0; head && k < d->classes; k++) assert_int_equal(d->head[k], head[k]);
}

static void unfit(vt_dataset *d, int outputs, const char *labels, vt_status want, const char *a, const char *b) {
    vt_err e = {0};
    d->labels = labels;
    t_says(vt_dataset_fit_head(d, outputs, false, "m", &e), want, &e, a, b);
    assert_null(d->head);
}

static void test_split_names(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int split;
    } names[] = {{"train", VT_SPLIT_TRAIN},
                 {"Training Set", VT_SPLIT_TRAIN},
                 {"train2017", VT_SPLIT_TRAIN},
                 {"02_test", VT_SPLIT_TEST},
                 {"TEST", VT_SPLIT_TEST},
                 {"test_set", VT_SPLIT_TEST},
                 {"testing-images", VT_SPLIT_TEST},
                 {"validation", VT_SPLIT_VAL},
                 {"valid", VT_SPLIT_VAL},
                 {"hold_out", VT_SPLIT_VAL},
                 {"dev", VT_SPLIT_VAL},
                 {"bullet_train", -1},
                 {"train_station", -1},
                 {"test_tube", -1},
                 {"set", -1},
                 {"", -1},
                 {"trainer", -1},
                 {"0", -1},
                 {"validity", -1}};
    for (size_t i = 0; i < T_COUNT(names); i++) {
        vt_split s = VT_SPLIT_TEST;
        bool is = vt_split_named(names[i].name, &s);
        if (is != (names[i].split >= 0) || (is && (int)s != names[i].split)) fail_msg("%s", names[i].name);
    }
}

/* The split's folder, whatever it is called and whatever else lies there; the usual name before another. */
static void test_split_folders(void **state) {
    (void)state;
    static const char *const files[] = {"s/test_set/test_set/a/x.png",
                                        "s/test_set/test_set/b/x.png",
                                        "s/Train/a/x.png",
                                        "s/Train/b/y.png",
                                        "s/Train/b/z.png",
                                        "s/notes/x.png",
                                        "t/test/images/x.png",
                                        "t/valid/a/x.png",
                                        "u/test/a/x.png",
                                        "u/testing/b/x.png",
                                        "v/dev/a/x.png",
                                        "v/eval/a/x.png"};
    for (size_t i = 0; i < T_COUNT(files); i++) picture(files[i]);
    static const struct {
        const char *dir;
        vt_split split;
        int count;
        const char *first;
    } sets[] = {{"s", VT_SPLIT_TEST, 2, "a/x.png"},
                {"s", VT_SPLIT_TRAIN, 3, "a/x.png"},
                {"t", VT_SPLIT_TEST, 1, "a/x.png"},
                {"t", VT_SPLIT_VAL, 1, "a/x.png"},
                {"u", VT_SPLIT_TEST, 1, "a/x.png"}};
    for (size_t i = 0; i < T_COUNT(sets); i++) {
        vt_dataset *d = open_set(at("%s", sets[i].dir), sets[i].split, NULL);
        assert_int_equal(d->count, sets[i].count);
        assert_string_equal(vt_dataset_image_name(d, 0), sets[i].first);
        assert_int_equal(*d->said != 0, i == 2);
        vt_dataset_close(d);
    }
    refuse_set(at("v"), VT_SPLIT_TEST, VT_E_USAGE, "several folders for the val split", "dev and eval");
    refuse_set(at("s"), VT_SPLIT_VAL, VT_E_IO, "no folder val, so there is no val split, but Train", "--split train");
    refuse_set(at("v"), VT_SPLIT_TRAIN, VT_E_IO, "no folder train", "there is no train split");
}

/* Folders that hold as many folders as the model has classes are no classes. */
static void test_versions(void **state) {
    (void)state;
    char name[100];
    for (int s = 1; s <= 3; s++)
        for (int k = 0; k < 3; k++) {
            snprintf(name, sizeof name, "c/fog/%d/%c/x.png", s, 'a' + k), picture(name);
            snprintf(name, sizeof name, "parts/class%d/%s/x.png", s, k % 2 ? "left" : "right"), picture(name);
        }
    vt_dataset *d = open_set(at("c"), VT_SPLIT_TEST, NULL);
    unfit(d, 1000, NULL, VT_E_SHAPE, "1 classes", "1000");
    vt_dataset_close(d);
    d = open_set(at("c/fog"), VT_SPLIT_TEST, NULL);
    unfit(d, 3, NULL, VT_E_USAGE, "(1, 2) may be splits or versions", "or give --class-order text");
    vt_dataset_close(d);
    d = open_set(at("c/fog"), VT_SPLIT_TEST, "text");
    fits(d, 3, NULL, NULL);
    vt_dataset_close(d);
    d = open_set(at("parts"), VT_SPLIT_TEST, NULL); /* a model of another number of classes than they have parts */
    unfit(d, 2, NULL, VT_E_SHAPE, "3 classes", "parts/class1, which has 2?");
    fits(d, 3, NULL, NULL);
    vt_dataset_close(d);
}

static void test_orders(void **state) {
    (void)state;
    static const int numbers[] = {0, 2, 1}, file[] = {2, 0, 1};
    picture("n/0/x.png"), picture("n/10/x.png"), picture("n/2/x.png");
    vt_dataset *d = open_set(at("n"), VT_SPLIT_TEST, NULL);
    unfit(d, 3, NULL, VT_E_USAGE, "10 stands before 2 as text", "--class-order text");
    fits(d, 3, "0\n2\n10\n", numbers); /* the model's own names say it */
    fits(d, 3, "0\n10\n2\n", NULL);
    vt_dataset_close(d);
    d = open_set(at("n"), VT_SPLIT_TEST, "number");
    fits(d, 3, "x\ny\nz\n", numbers);
    vt_dataset_close(d);
    put(at("order"), "10\r\n\n2\n0", 8);
    d = open_set(at("n"), VT_SPLIT_TEST, at("order"));
    fits(d, 3, NULL, file);
    unfit(d, 4, NULL, VT_E_SHAPE, "3 classes", "has 4");
    vt_dataset_close(d);
    put(at("order"), "10\n2\n", 5);
    vt_err e = {0};
    t_says(vt_dataset_open_asked(&d, at("n"), VT_SPLIT_TEST, NULL, at("order"), &e), VT_E_USAGE, &e, "does not name",
           "'0'");
}

static void test_labels(void **state) {
    (void)state;
    static const int moved[] = {2, 0, 1}, few[] = {4, 1, 3}, synonyms[] = {1, 0, 2};
    picture("l/Cat/x.png"), picture("l/big-dog/x.png"), picture("l/eel/x.png");
    vt_dataset *d = open_set(at("l"), VT_SPLIT_TEST, NULL);
    fits(d, 3, "Big Dog\nEEL\ncat\n", moved);
    fits(d, 3, "cat\nbig dog\neel\n", NULL);
    fits(d, 5, "x\nbig_dog\ny\neel\ncat\n", few);
    fits(d, 3, "n1\tbig dog, large dog\ncat, house cat\nn3\teel\n", synonyms);
    assert_true(!*d->how == !d->head);
    unfit(d, 3, "eel\nbig dog\nhorse\n", VT_E_USAGE, "calls its output 0 'eel', which is class folder 2",
          "no name 'Cat'");
    unfit(d, 5, "x\nbig_dog\ny\nz\ncat\n", VT_E_SHAPE, "3 classes", "has 5");
    unfit(d, 4, "cat\ncat\nbig dog\neel\n", VT_E_SHAPE, "3 classes", "has 4"); /* which of two? */
    fits(d, 3, "cat\nbig dog\nconger\n", NULL); /* where names agree, so does the order */
    assert_int_equal(*d->how, 0);
    fits(d, 3, "a\nb\nc\n", NULL);
    assert_non_null(strstr(d->how, "the model's own names (a first) are others"));
    vt_dataset_close(d);
}

/* Of fewer folders than outputs: by those of the train split, if these are as many. */
static void test_train_classes(void **state) {
    (void)state;
    static const int few[] = {0, 2};
    picture("r/train/a/x.png"), picture("r/train/b/x.png"), picture("r/train/c/x.png");
    picture("r/test/a/x.png"), picture("r/test/c/x.png");
    vt_dataset *d = open_set(at("r"), VT_SPLIT_TEST, NULL);
    fits(d, 3, NULL, few);
    fits(d, 2, NULL, NULL);
    unfit(d, 4, NULL, VT_E_SHAPE, "2 classes", "--class-order FILE with the names of all outputs");
    vt_dataset_close(d);
    d = open_set(at("r"), VT_SPLIT_TRAIN, NULL);
    assert_null(d->train);
    vt_dataset_close(d);
}

static void test_lists(void **state) {
    (void)state;
    static const int many[] = {5, 1, 3, 1};
    char name[60];
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < many[k]; i++)
            snprintf(name, sizeof name, "i/%c/%d.png", 'a' + k, 10 * k + i), picture(name);
    vt_dataset *d = open_set(at("i"), VT_SPLIT_TEST, NULL);
    static const struct {
        const char *text;
        int n, image[10];
    } want[] = {{"spread:1", 1, {4}},
                {"spread:2", 2, {4, 8}},
                {"spread:4", 4, {4, 5, 8, 9}},
                {"spread:6", 6, {2, 4, 5, 7, 8, 9}},
                {"spread:10", 10, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
                {"2:4", 2, {2, 3}}};
    for (size_t i = 0; i < T_COUNT(want); i++) {
        int32_t *list;
        size_t n;
        vt_err e = {0};
        if (vt_image_list(&list, &n, want[i].text, d, &e) != VT_OK) fail_msg("%s", e.text);
        assert_int_equal(n, want[i].n);
        for (size_t k = 0; k < n; k++)
            if (list[k] != want[i].image[k]) fail_msg("%s: place %zu is %d", want[i].text, k, list[k]);
        int all, hit = vt_image_classes(d, list, n, &all);
        assert_true(all == 4 && hit == (i == 0 || i == 5 ? 1 : i == 1 ? 2 : 4));
        free(list);
    }
    static const struct {
        const char *lines, *text;
    } bad[] = {{"a/9.png", "line 1 is 'a/9.png', which is no image"},
               {"a/0.png\n0\n", "image 0 is listed twice"},
               {"nothing", "line 1 is 'nothing', which is not an image index"},
               {"x.png", "line 1 is 'x.png', which is no"}};
    for (size_t i = 0; i < T_COUNT(bad); i++) {
        int32_t *list;
        size_t n;
        vt_err e = {0};
        put(at("list"), bad[i].lines, strlen(bad[i].lines));
        vt_status s = vt_image_list(&list, &n, at("list"), d, &e);
        t_says(s, s == VT_E_FORMAT ? s : VT_E_USAGE, &e, bad[i].text, "");
        assert_null(list);
    }
    put(at("list"), "deep/er/a/4.png\n20.png\n ./a/0.png \n", 35);
    int32_t *list;
    size_t n;
    assert_int_equal(vt_image_list(&list, &n, at("list"), d, NULL), VT_OK);
    assert_true(n == 3 && list[0] == 0 && list[1] == 4 && list[2] == 6);
    free(list);
    vt_dataset_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split_names), cmocka_unit_test(test_split_folders), cmocka_unit_test(test_versions),
        cmocka_unit_test(test_orders),      cmocka_unit_test(test_labels),        cmocka_unit_test(test_train_classes),
        cmocka_unit_test(test_lists),
    };
    return cmocka_run_group_tests_name("folders", tests, make_tmp, remove_tmp);
}
