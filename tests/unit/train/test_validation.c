/* SPDX-License-Identifier: MIT */
/* The images that a run watches: which they are, that none is learned from, when their accuracy has collapsed. */
#include "training_fixture.h"

#include "data/image.h"
#include "train/validation.h"

static void test_collapse(void **state) {
    (void)state;
    assert_true(vt_validation_collapsed(0.5, 0.4, 0.1, 0.3, 500));
    assert_false(vt_validation_collapsed(0.5, 0.4, 0.2, 0.3, 500));   /* still above half */
    assert_false(vt_validation_collapsed(0.4, 0.5, 0.1, 0.3, 500));   /* both fall: ordinary trouble */
    assert_false(vt_validation_collapsed(0.5, 0.4, 0.01, 0.04, 500)); /* was never robust */
    assert_false(vt_validation_collapsed(0.5, 0.4, 0.1, 0.3, 20));    /* two images instead of six: chance */
}

/* Watched and other images: both ascending, together every image once. */
static void test_watched_and_others(void **state) {
    (void)state;
    for (int64_t count = 1; count <= 130; count++)
        for (int64_t watched = 1; watched <= count; watched++) {
            int64_t w = 0, o = 0;
            for (int64_t image = 0; image < count; image++)
                if (w < watched && vt_validation_image(w, watched, count) == image)
                    w++;
                else if (o < count - watched && vt_unwatched_image(o, watched, count) == image)
                    o++;
                else
                    fail_msg("image %d of %d (%d watched) is in neither", (int)image, (int)count, (int)watched);
            if (w != watched || o != count - watched) fail_msg("%d of %d", (int)watched, (int)count);
        }
    /* large sets: a gap is count / watched, rounded either way */
    static const int64_t large[][2] = {{1281167, 500}, {1281167, 128116}, {50000, 500}, {INT32_MAX, 1000000}};
    for (size_t i = 0; i < T_COUNT(large); i++) {
        int64_t count = large[i][0], watched = large[i][1], gap = count / watched, last = -1;
        for (int64_t k = 0; k < watched; k++) {
            int64_t at = vt_validation_image(k, watched, count);
            assert_true(at > last && at < count && (!k || at - last == gap || at - last == gap + 1));
            if (at - k > 0)
                assert_true(vt_unwatched_image(at - k - 1, watched, count) < at); /* at - k others before it */
            if (at - k < count - watched) assert_true(vt_unwatched_image(at - k, watched, count) > at);
            last = at;
        }
        assert_true(vt_unwatched_image(count - watched - 1, watched, count) < count);
    }
}

enum { PNG_CLASSES = 4, PNG_EACH = 10, PNG_SIDE = 8, PNG_IMAGES = PNG_CLASSES * PNG_EACH };

/* A folder as people have them, class after class; the images of `changed` (by number in the split) are other ones. */
static void write_pngs(const char *dir, const bool *changed) {
    char path[300], line[400];
    vt_err e = {0};
    uint8_t rgb[3 * PNG_SIDE * PNG_SIDE];
    for (int i = 0; i < PNG_IMAGES; i++) {
        snprintf(path, sizeof path, "%s/train/class%d", dir, i / PNG_EACH);
        snprintf(line, sizeof line, "mkdir -p %s", path);
        assert_int_equal(system(line), 0);
        for (size_t k = 0; k < sizeof rgb; k++)
            rgb[k] = (uint8_t)((size_t)(i / PNG_EACH * 60 + i % PNG_EACH) + k % 5 * (changed[i] ? 9 : 3));
        snprintf(path, sizeof path, "%s/train/class%d/%02d.png", dir, i / PNG_EACH, i % PNG_EACH);
        vt_image im = {.shape = vt_shape_rgb(PNG_SIDE), .rgb = rgb};
        if (vt_png_write(path, &im, &e) != VT_OK) fail_msg("%s", e.text);
    }
}

static float *weights_after(const char *dir, const char *out, size_t *n) {
    vt_err e = {0};
    vt_dataset *data;
    vt_model *m;
    vt_recipe *r =
        of_set("epochs: 2\nbatch: 36\nmicro_batch: 4\nlr: 0.1\nmodel: {patch: 4, dim: 8, depth: 1, heads: 1, "
               "hidden: 8, mean: 0.5, std: 0.25}\naugment: {crop: 0, mix_prob: 0}\n"
               "probe: {images: 500, split: train}\n",
               NULL);
    if (vt_dataset_open(&data, dir, VT_SPLIT_TRAIN, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(data->count, PNG_IMAGES);
    bool seen[PNG_CLASSES] = {0};
    int64_t watched = vt_validation_count(r, data);
    assert_int_equal(watched, PNG_IMAGES / 10);
    for (int64_t k = 0; k < watched; k++) seen[vt_validation_image(k, watched, data->count) / PNG_EACH] = true;
    for (int c = 0; c < PNG_CLASSES; c++) assert_true(seen[c]);
    if (vt_train_model(&m, r, data, NULL, &e) != VT_OK) fail_msg("%s", e.text);
    vt_train t = {.recipe = r, .model = m, .data = data, .watch_data = data, .out = out, .threads = 1};
    if (vt_train_run(&t, &e) != VT_OK) fail_msg("%s", e.text);
    float *w = malloc(m->params.total * sizeof *w);
    memcpy(w, m->w, m->params.total * sizeof *w);
    *n = m->params.total;
    vt_model_close(m);
    vt_dataset_close(data);
    vt_recipe_free(r);
    return w;
}

/* Watched images of the training split reach no weight; every other image does. */
static void test_watched_are_not_learned(void **state) {
    (void)state;
    bool changed[PNG_IMAGES] = {0};
    size_t n;
    write_pngs(in("pngs"), changed);
    float *w = weights_after(in("pngs"), in("sorted"), &n);
    for (int i = 0; i < PNG_IMAGES; i++) {
        bool watched = false;
        for (int k = 0; k < 4; k++) watched = watched || vt_validation_image(k, 4, PNG_IMAGES) == i;
        if (!watched && i % PNG_EACH > 5) continue; /* enough of them */
        memset(changed, 0, sizeof changed), changed[i] = true;
        char out[20];
        snprintf(out, sizeof out, "sorted%d", i);
        write_pngs(in("pngs"), changed);
        float *v = weights_after(in("pngs"), in(out), &n);
        if (!memcmp(w, v, n * sizeof *w) != watched)
            fail_msg("image %d is %swatched, and the weights %s", i, watched ? "" : "not ",
                     watched ? "depend on it" : "do not depend on it");
        free(v);
    }
    free(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_collapse),
        cmocka_unit_test(test_watched_and_others),
        cmocka_unit_test(test_watched_are_not_learned),
    };
    return cmocka_run_group_tests_name("watch", tests, setup, remove_tmp);
}
