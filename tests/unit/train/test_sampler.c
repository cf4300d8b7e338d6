/* SPDX-License-Identifier: MIT */
/* train/sampler: which images a step takes of one set and of several, and that a batch is read from the right ones. */
#include "recipe_fixture.h"

#include <sys/stat.h>
#include "linalg/gemm.h"
#include "base/hash.h"
#include "tools/draw.h"
#include "train/batch.h"
#include "train/train.h"
#include "train/validation.h"

static char root[] = "/tmp/vitrine-sampler-XXXXXX";
static char path[3][100]; /* of 40, 30 and 20 images */

static int setup(void **state) {
    (void)state;
    vt_err e = {0};
    vt_blas_single_thread();
    if (!mkdtemp(root)) return 1;
    for (int i = 0; i < 3; i++) {
        snprintf(path[i], sizeof path[i], "%s/%d", root, i);
        if (mkdir(path[i], 0777) || vt_draw_write(path[i], 40 - 10 * i, 20, 5 + (uint64_t)i, &e) != VT_OK) return 1;
    }
    return 0;
}

static int teardown(void **state) {
    (void)state;
    char line[100];
    snprintf(line, sizeof line, "rm -rf %s", root);
    return system(line);
}

static vt_dataset *open_set(int i) {
    vt_dataset *d;
    vt_err e = {0};
    if (vt_dataset_open(&d, path[i], VT_SPLIT_TRAIN, &e) != VT_OK) fail_msg("%s", e.text);
    return d;
}

#define SMALL "seed: 3\nbatch: 10\nmicro_batch: 4\naugment: {mix_prob: 0}\n"

/* One set: an epoch's order, in whole batches, without what is watched. */
static void test_one(void **state) {
    (void)state;
    vt_dataset *d = open_set(0);
    vt_recipe *r = of(SMALL, true);
    vt_sampler s;
    vt_err e = {0};
    int32_t order[36];
    assert_int_equal(vt_sampler_open(&s, r, d, 4, NULL, &e), VT_OK);
    for (int epoch = 0; epoch < 3; epoch++) {
        vt_epoch_order(order, 36, 3, epoch);
        for (int step = 0; step < 3; step++) { /* 36 images are 3 batches */
            vt_sampler_step(&s, 3 * epoch + step);
            assert_int_equal(s.sets[0].pass, epoch);
            for (int i = 0; i < 10; i++) assert_int_equal(s.ids[i], vt_unwatched_image(order[10 * step + i], 4, 40));
        }
    }
    vt_sampler_step(&s, 1); /* back again */
    vt_epoch_order(order, 36, 3, 0);
    assert_int_equal(s.ids[0], vt_unwatched_image(order[10], 4, 40));
    char hash[65];
    vt_sampler_hash(hash, d, NULL);
    assert_string_equal(hash, d->hash);
    vt_sampler_close(&s);
    vt_recipe_free(r);
    vt_dataset_close(d);
}

/* Three sets with 3, 5 and 2 of ten images: every pass of each takes each image once, in another order than the last.
 */
static void test_three(void **state) {
    (void)state;
    static const int takes[] = {3, 5, 2}, counts[] = {40, 30, 20};
    vt_dataset *d = open_set(0);
    vt_recipe *r = of(SMALL "extra: [0.5, 0.2]\n", true);
    vt_extra x = {0};
    vt_sampler s;
    vt_err e = {0};
    assert_int_equal(vt_extra_open(&x, &(vt_choices){.list = {{"extra", path[1]}, {"extra", path[2]}}, .n = 2}, r, d,
                                   &e),
                     VT_OK);
    assert_int_equal(vt_sampler_open(&s, r, d, 0, &x, &e), VT_OK);
    int seen[3][40] = {{0}}, same = 0;
    int32_t before[30];
    for (int step = 0; step < 60; step++) {
        vt_sampler_step(&s, step);
        for (int i = 0; i < 10; i++) {
            int k = i < 3 ? 0 : i < 8 ? 1 : 2;
            assert_true(vt_sampler_set(&s, i) == &s.sets[k] && s.sets[k].data->count == counts[k]);
            assert_int_equal(s.sets[k].pass, step / (counts[k] / takes[k]));
            assert_true(s.ids[i] >= 0 && s.ids[i] < counts[k]);
            seen[k][s.ids[i]]++;
            if (k != 1) continue;
            int place = step % 6 * 5 + i - 3;
            same += step >= 6 && before[place] == s.ids[i];
            before[place] = s.ids[i];
        }
        for (int k = 0; k < 3; k++) {
            int steps = counts[k] / takes[k], passes = (step + 1) / steps;
            for (int i = 0; i < counts[k] && (step + 1) % steps == 0; i++) /* 13 steps of 3 leave one of 40 */
                assert_true(k ? seen[k][i] == passes : seen[k][i] <= passes);
        }
    }
    t_le(same, 9 * 4, "places that agree with the pass before, 9 passes of 30"); /* one each on average */
    char hash[65], want[65], lines[3 * 65 + 1];
    vt_sampler_hash(hash, d, &x);
    snprintf(lines, sizeof lines, "%s\n%s\n%s\n", d->hash, x.sets[0]->hash, x.sets[1]->hash);
    vt_sha_hex(lines, strlen(lines), want);
    assert_string_equal(hash, want);
    assert_int_equal(vt_sampler_bytes(40, &x), 90 * sizeof(int32_t));
    vt_sampler_close(&s);
    vt_extra_close(&x);
    vt_recipe_free(r);
    vt_dataset_close(d);
}

/* The gradient of a batch of two sets is the mean of its images' gradients, each augmented in its own set's pass. */
static void test_gradient(void **state) {
    (void)state;
    vt_dataset *d = open_set(0);
    vt_recipe *r = of(SMALL "extra: 0.6\nmodel: {patch: 8, dim: 16, depth: 1, heads: 2, hidden: 24}\n", true);
    vt_extra x = {0};
    vt_err e = {0};
    vt_model *m;
    vt_sampler s;
    vt_batch all, one;
    assert_int_equal(vt_extra_open(&x, &(vt_choices){.list = {{"extra", path[2]}}, .n = 1}, r, d, &e), VT_OK);
    assert_int_equal(vt_train_model(&m, r, d, NULL, &e), VT_OK);
    assert_int_equal(vt_sampler_open(&s, r, d, 0, &x, &e), VT_OK);
    vt_sampler_step(&s, 7); /* three steps a pass of the further set: its third pass, the other's first */
    assert_int_equal(s.sets[1].pass, 2);
    assert_int_equal(vt_batch_open(&all, r, m, d, 2, NULL, &e), VT_OK);
    all.sampler = &s;
    assert_int_equal(vt_batch_gradient(&all, s.ids, 0, 7, 0, &e), VT_OK);
    double *want = calloc(m->params.total, sizeof *want), loss = 0;
    for (int i = 0; i < 10; i++) { /* a batch of ten times one image has its gradient */
        int32_t ids[10];
        for (int k = 0; k < 10; k++) ids[k] = s.ids[i];
        assert_int_equal(vt_batch_open(&one, r, m, i < 4 ? d : x.sets[0], 1, NULL, &e), VT_OK);
        assert_int_equal(vt_batch_gradient(&one, ids, i < 4 ? 0 : 2, 7, 0, &e), VT_OK);
        for (size_t k = 0; k < m->params.total; k++) want[k] += (double)one.grad[k] / 10;
        loss += one.sums.loss / 10;
        vt_batch_close(&one);
    }
    double most = t_max(want, m->params.total);
    for (size_t k = 0; k < m->params.total; k++)
        t_le(fabs((double)all.grad[k] - want[k]), 1e-5 * most, "weight %zu", k); /* float sums of ten images */
    t_le(fabs(all.sums.loss - loss), 1e-5 * loss, "loss");
    vt_batch_close(&all);
    vt_sampler_close(&s);
    vt_extra_close(&x);
    vt_model_close(m);
    vt_recipe_free(r);
    vt_dataset_close(d);
    free(want);
}

static void test_refused(void **state) {
    (void)state;
    vt_dataset *d = open_set(0);
    vt_recipe *r = of("seed: 3\nbatch: 64\nextra: 0.5\n", true);
    vt_extra x = {0};
    vt_sampler s;
    vt_err e = {0};
    t_says(vt_extra_open(&x, &(vt_choices){0}, r, d, &e), VT_E_USAGE, &e, "extra has 1 share ('0.5')",
           "for 0 further data sets");
    assert_int_equal(vt_extra_open(&x, &(vt_choices){.list = {{"extra", path[1]}}, .n = 1}, r, d, &e), VT_OK);
    t_says(vt_sampler_open(&s, r, d, 0, &x, &e), VT_E_USAGE, &e, "has 30 images", "fewer than the 32");
    vt_sampler_close(&s);
    vt_extra_close(&x);
    vt_recipe_free(r);
    vt_dataset_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one), cmocka_unit_test(test_three),
                                       cmocka_unit_test(test_gradient), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests_name("sampler", tests, setup, teardown);
}
