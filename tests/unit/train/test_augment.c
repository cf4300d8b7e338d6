/* SPDX-License-Identifier: MIT */
/* src/train/augment: orders, draws of Mixup and CutMix, mixed images and targets, crops and flips. Statistical bounds
 * are multiples of the standard deviation of what is counted; seeds are fixed, so that a result never changes. */
#include "t.h"

#include "train/augment.h"

enum { SIDE = 32, AREA = SIDE * SIDE, PIXELS = 3 * AREA, DRAWS = 20000 };

static const vt_recipe_augment mo =
    {.crop = 4, .flip = 0.5, .mix_prob = 0.3, .mixup_alpha = 0.8, .cutmix_alpha = 1, .cutmix_switch = 0.5};

/* ---- order of an epoch ---- */

static void test_order(void **state) {
    (void)state;
    enum { N = 5000 };
    static int32_t a[N], b[N], seen[N];
    vt_epoch_order(a, N, 7, 3);
    for (int i = 0; i < N; i++) assert_true(a[i] >= 0 && a[i] < N && !seen[a[i]]++);
    vt_epoch_order(b, N, 7, 3);
    assert_memory_equal(a, b, sizeof a);
    /* a fixed point has probability 1/N: of two independent orders one place agrees on average (Poisson) */
    static const struct {
        uint64_t seed;
        int epoch;
    } others[] = {{7, 4}, {8, 3}, {7, 2}, {7ull << 32, 3}};
    for (size_t k = 0; k < T_COUNT(others); k++) {
        int same = 0;
        vt_epoch_order(b, N, others[k].seed, others[k].epoch);
        for (int i = 0; i < N; i++) same += a[i] == b[i];
        t_le(same, 8, "places that agree");
    }
    int32_t one = 9;
    vt_epoch_order(&one, 0, 1, 1);
    assert_int_equal(one, 9);
    vt_epoch_order(&one, 1, 1, 1);
    assert_int_equal(one, 0);
}

/* Every item comes to every place equally often, and of three items every order. */
static void test_order_uniform(void **state) {
    (void)state;
    int count[10][10] = {{0}}, orders[27] = {0};
    for (int epoch = 0; epoch < DRAWS; epoch++) {
        int32_t o[10];
        vt_epoch_order(o, 10, 1, epoch);
        for (int i = 0; i < 10; i++) count[i][o[i]]++;
        vt_epoch_order(o, 3, 1, epoch);
        orders[9 * o[0] + 3 * o[1] + o[2]]++;
    }
    for (int i = 0; i < 100; i++) /* 5 sigma: 1 of 17,000 seeds would fail one of 100 cells */
        t_le(fabs(count[i / 10][i % 10] - DRAWS * 0.1), 5 * sqrt(DRAWS * 0.1 * 0.9), "item %d at place %d", i % 10,
             i / 10);
    for (int i = 0; i < 27; i++)
        if (i / 9 != i / 3 % 3 && i / 9 != i % 3 && i / 3 % 3 != i % 3)
            t_le(fabs(orders[i] - DRAWS / 6.0), 5 * sqrt(DRAWS * 5 / 36.0), "order %d", i);
}

/* ---- how a step is mixed ---- */

static bool same_mix(vt_mix a, vt_mix b) {
    return a.kind == b.kind && a.lambda == b.lambda && a.y0 == b.y0 && a.y1 == b.y1 && a.x0 == b.x0 && a.x1 == b.x1;
}

static void test_mix_shares(void **state) {
    (void)state;
    int active = 0, cutmix = 0;
    double mean = 0, variance = 0;
    for (int step = 0; step < DRAWS; step++) {
        vt_mix m = vt_mix_draw(&mo, 1, step, SIDE);
        if (m.kind == VT_MIX_MIXUP) mean += m.lambda, variance += (m.lambda - 0.5) * (m.lambda - 0.5);
        active += m.kind != VT_MIX_NONE;
        cutmix += m.kind == VT_MIX_CUTMIX;
        assert_true(m.lambda >= 0 && m.lambda <= 1);
        if (m.kind == VT_MIX_NONE) assert_true(m.lambda == 1);
    }
    t_le(fabs(active - 0.3 * DRAWS), 4 * sqrt(DRAWS * 0.3 * 0.7), "steps that mix");
    t_le(fabs(cutmix - 0.5 * active), 4 * sqrt(active * 0.25), "of them by CutMix");
    /* lambda does not know of the two choices before it: moments of Beta(.8,.8) as in test_beta_moments */
    double n = active - cutmix, s2 = 1 / 10.4, fourth = s2 * s2 * (3 - 6 / 4.6);
    t_le(fabs(mean / n - 0.5), 4 * sqrt(s2 / n), "mean of lambda");
    t_le(fabs(variance / n - s2), 4 * sqrt((fourth - s2 * s2) / n), "variance of lambda");
}

static void test_mix_switches(void **state) {
    (void)state;
    static const struct {
        double prob, mixup, cutmix, share;
        int only;
    } cases[] = {
        {0, 0.8, 1, 0.5, VT_MIX_NONE}, {1, 0, 0, 0.5, VT_MIX_NONE},  {1, 0.8, 0, 1, VT_MIX_MIXUP},
        {1, 0, 1, 0, VT_MIX_CUTMIX},   {1, 0.8, 1, 0, VT_MIX_MIXUP}, {1, 0.8, 1, 1, VT_MIX_CUTMIX},
    };
    for (size_t k = 0; k < T_COUNT(cases); k++) {
        vt_recipe_augment a = {.mix_prob = cases[k].prob,
                               .mixup_alpha = cases[k].mixup,
                               .cutmix_alpha = cases[k].cutmix,
                               .cutmix_switch = cases[k].share};
        for (int step = 0; step < 200; step++) assert_int_equal(vt_mix_draw(&a, 1, step, SIDE).kind, cases[k].only);
    }
}

/* The same step gives the same draw in any order; other steps (high words too) and seeds give others. */
static void test_mix_keys(void **state) {
    (void)state;
    vt_recipe_augment a = mo;
    a.mix_prob = 1;
    vt_mix forth[100];
    for (int i = 0; i < 100; i++) forth[i] = vt_mix_draw(&a, 5, i, SIDE);
    for (int i = 99; i >= 0; i--) assert_true(same_mix(forth[i], vt_mix_draw(&a, 5, i, SIDE)));
    int same = 0;
    for (int i = 0; i < 100; i++) {
        same += same_mix(forth[i], vt_mix_draw(&a, 6, i, SIDE));
        same += same_mix(forth[i], vt_mix_draw(&a, 5, i + (1ll << 32), SIDE));
        same += i && same_mix(forth[i], forth[i - 1]);
    }
    assert_int_equal(same, 0);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void draw_lambdas(double *l, double alpha) {
    vt_recipe_augment a = {.mix_prob = 1, .mixup_alpha = alpha};
    for (int step = 0; step < DRAWS; step++) l[step] = vt_mix_draw(&a, 3, step, SIDE).lambda;
}

/* Beta(a,a): mean 1/2, variance s2 = 1/(4(2a+1)), fourth central moment s2^2 (3 - 6/(2a+3)); hence the standard
 * deviations of the sample's mean and variance. */
static void test_beta_moments(void **state) {
    (void)state;
    static double l[DRAWS];
    static const double alphas[] = {0.01, 0.2, 0.8, 1, 3, 40};
    for (size_t k = 0; k < T_COUNT(alphas); k++) {
        double a = alphas[k], s2 = 1 / (4 * (2 * a + 1)), fourth = s2 * s2 * (3 - 6 / (2 * a + 3)), m = 0, v = 0;
        draw_lambdas(l, a);
        for (int i = 0; i < DRAWS; i++) m += l[i] / DRAWS, v += (l[i] - 0.5) * (l[i] - 0.5) / DRAWS;
        t_le(fabs(m - 0.5), 4 * sqrt(s2 / DRAWS), "mean of Beta(%g,%g)", a, a);
        t_le(fabs(v - s2), 4 * sqrt((fourth - s2 * s2) / DRAWS), "variance of Beta(%g,%g)", a, a);
    }
}

/* Kolmogorov's distance to distribution functions with a closed form; 2.3 / sqrt(n) is exceeded with probability
 * 2 exp(-2 * 2.3^2) = 5e-5. */
static void test_beta_distribution(void **state) {
    (void)state;
    static double l[DRAWS];
    static const double alphas[] = {0.5, 1, 2};
    for (size_t k = 0; k < T_COUNT(alphas); k++) {
        double far = 0;
        draw_lambdas(l, alphas[k]);
        qsort(l, DRAWS, sizeof *l, by_value);
        for (int i = 0; i < DRAWS; i++) {
            double x = l[i], f = k == 0 ? 2 / acos(-1) * asin(sqrt(x)) : k == 1 ? x : x * x * (3 - 2 * x);
            far = fmax(far, fmax(fabs(f - (double)i / DRAWS), fabs((i + 1.0) / DRAWS - f)));
        }
        t_le(far, 2.3 / sqrt(DRAWS), "distance to Beta(%g,%g)", alphas[k], alphas[k]);
    }
}

/* The mean cut area of CutMix with alpha 1, exactly: 1 - lambda is uniform, so that the side int(S r) is k with
 * probability ((k+1)^2 - k^2) / S^2; row and column centres are independent and uniform. */
static void test_cutmix_area(void **state) {
    (void)state;
    vt_recipe_augment a = {.mix_prob = 1, .cutmix_alpha = 1}, mixup = {.mix_prob = 1, .mixup_alpha = 1};
    double mean = 0, square = 0, got = 0, rows = 0, columns = 0;
    for (int k = 0; k < SIDE; k++) {
        double p = (2 * k + 1.0) / AREA, len = 0, len2 = 0;
        for (int c = 0; c < SIDE; c++) {
            double from = fmax(c - k / 2, 0), to = fmin(c + k / 2, SIDE), n = to - from;
            len += n / SIDE, len2 += n * n / SIDE;
        }
        mean += p * len * len / AREA, square += p * len2 * len2 / AREA / AREA;
    }
    for (int step = 0; step < DRAWS; step++) {
        vt_mix m = vt_mix_draw(&a, 2, step, SIDE);
        int h = m.y1 - m.y0, w = m.x1 - m.x0;
        /* before the correction lambda is what Mixup of the same alpha would draw */
        int full = (int)(SIDE * sqrt(1 - vt_mix_draw(&mixup, 2, step, SIDE).lambda)) / 2 * 2;
        assert_true(m.y0 >= 0 && h >= 0 && m.y1 <= SIDE && m.x0 >= 0 && w >= 0 && m.x1 <= SIDE);
        assert_true(m.y0 > 0 && m.y1 < SIDE ? h == full : h <= full && h >= full / 2);
        assert_true(m.x0 > 0 && m.x1 < SIDE ? w == full : w <= full && w >= full / 2);
        assert_true(m.lambda == 1 - (double)(h * w) / AREA);
        got += (1 - m.lambda) / DRAWS, rows += h, columns += w;
    }
    t_le(fabs(got - mean), 4 * sqrt((square - mean * mean) / DRAWS), "mean cut area");
    t_le(fabs(rows / columns - 1), 0.02, "rows and columns alike"); /* each mean has a deviation of 0.4 % */
}

/* ---- mixed images and targets ---- */

static void uniforms(float *x, uint64_t seed) {
    vt_rng_uniforms(&(vt_rng){.seed = seed, .purpose = 0x7E57}, x, PIXELS);
}

static void test_mixup_images(void **state) {
    (void)state;
    float *x = t_take(PIXELS * sizeof *x), *r = t_take(PIXELS * sizeof *r), *y = t_take(PIXELS * sizeof *y);
    static const double lambdas[] = {0, 1e-9, 0.1, 1.0 / 3, 0.5, 0.7, 1 - 1e-9, 1};
    for (size_t k = 0; k < T_COUNT(lambdas); k++) {
        double l = lambdas[k], err = 0;
        vt_mix m = {.kind = VT_MIX_MIXUP, .lambda = l};
        uniforms(x, 1), uniforms(r, 2);
        for (int i = 0; i < 100; i++) x[i] = r[i] = 1; /* white on white may not leave the box */
        t_freeze(r);
        memcpy(y, x, PIXELS * sizeof *y);
        vt_mix_images(y, r, &m, SIDE);
        for (int i = 0; i < PIXELS; i++) {
            assert_true(y[i] >= 0 && y[i] <= 1);
            err = fmax(err, fabs((double)y[i] - (l * (double)x[i] + (1 - l) * (double)r[i])));
        }
        /* two weights, two products and the sum, each rounded by at most 2^-25 */
        t_le(err, 5 * 0x1p-25, "lambda %g", l);
        t_check("mixup");
    }
    vt_mix none = {.kind = VT_MIX_NONE, .lambda = 1};
    uniforms(x, 3);
    memcpy(y, x, PIXELS * sizeof *y);
    vt_mix_images(y, r, &none, SIDE);
    assert_memory_equal(x, y, PIXELS * sizeof *y);
    t_release("mixup");
}

/* Pixels from the partner are exactly those of the region, and their share is 1 - lambda. */
static void test_cutmix_images(void **state) {
    (void)state;
    float *x = t_take(PIXELS * sizeof *x), *r = t_take(PIXELS * sizeof *r);
    vt_recipe_augment a = {.mix_prob = 1, .cutmix_alpha = 1};
    int empty = 0;
    for (int i = 0; i < PIXELS; i++) r[i] = (float)(i + 1);
    t_freeze(r);
    for (int step = 0; step < 500; step++) {
        vt_mix m = vt_mix_draw(&a, 4, step, SIDE);
        int other = 0;
        memset(x, 0, PIXELS * sizeof *x);
        vt_mix_images(x, r, &m, SIDE);
        for (int i = 0; i < PIXELS; i++) {
            int row = i % AREA / SIDE, column = i % SIDE;
            bool in = row >= m.y0 && row < m.y1 && column >= m.x0 && column < m.x1;
            assert_true(x[i] == (in ? (float)(i + 1) : 0));
            other += in;
        }
        assert_true((double)other / PIXELS == 1 - m.lambda); /* multiples of 2^-10: exact */
        empty += !other;
        t_check("cutmix");
    }
    assert_true(empty < 50); /* an empty region has probability 4/1024 */
    t_release("cutmix");
}

static void test_target(void **state) {
    (void)state;
    enum { K = 10 };
    float *t = t_take(K * sizeof *t);
    static const struct {
        int y, yr;
        double lambda, smoothing;
    } cases[] = {{3, 7, 0.3, 0}, {3, 3, 0.3, 0}, {0, 9, 0.3, 0.1}, {4, 4, 0.8, 0.1}, {2, 1, 1, 0.25}, {2, 1, 0, 1}};
    for (size_t k = 0; k < T_COUNT(cases); k++) {
        double l = cases[k].lambda, s = cases[k].smoothing, sum = 0;
        vt_mix m = {.kind = VT_MIX_MIXUP, .lambda = l};
        vt_mix_target(t, cases[k].y, cases[k].yr, &m, s, K);
        for (int i = 0; i < K; i++) {
            double want = s / K + (1 - s) * (l * (i == cases[k].y) + (1 - l) * (i == cases[k].yr));
            t_le(fabs((double)t[i] - want), 0x1p-25 + 1e-15, "case %zu, class %d", k, i); /* rounded once, at most 1 */
            sum += (double)t[i];
        }
        t_le(fabs(sum - 1), 0x1p-24 + 1e-15, "case %zu: sum", k); /* each class relative 2^-24 */
    }
    t_release("target");
}

/* ---- crop and flip ---- */

static vt_dataset *open_train(void) {
    vt_dataset *d;
    vt_err e = {0};
    if (vt_dataset_open(&d, "datasets/shapes10", VT_SPLIT_TRAIN, &e) != VT_OK) fail_msg("%s", e.text);
    return d;
}

static int augment(float *x, const vt_dataset *d, int64_t i, const vt_recipe_augment *a, uint64_t seed, int epoch) {
    int label = -1;
    vt_err e = {0};
    if (vt_augment_image(x, &label, d, i, SIDE, a, seed, epoch, &e) != VT_OK) fail_msg("%s", e.text);
    return label;
}

/* The image on a black margin of 4, then the window at (dy, dx), then the mirror: as torchvision composes them. */
static bool is_window(const float *x, const uint8_t *rgb, int dy, int dx, bool flip) {
    for (int i = 0; i < PIXELS; i++) {
        int c = i / AREA, y = i % AREA / SIDE, column = i % SIDE;
        int py = y + dy - 4, px = (flip ? SIDE - 1 - column : column) + dx - 4;
        bool black = py < 0 || py >= SIDE || px < 0 || px >= SIDE;
        if (x[i] != (black ? 0 : (float)rgb[c * AREA + py * SIDE + px] / 255.0f)) return false;
    }
    return true;
}

/* Every result is one of the 9 x 9 x 2 windows, found by trying all; offsets and flips are uniform. */
static void test_windows(void **state) {
    (void)state;
    enum { EPOCHS = 30 };
    vt_dataset *d = open_train();
    int n = (int)d->count, row[9] = {0}, column[9] = {0}, flips = 0, used[162] = {0}, first[162] = {0};
    float *x = t_take(PIXELS * sizeof *x);
    for (int i = 0; i < n; i++) {
        vt_image im;
        int label;
        assert_int_equal(vt_dataset_read(d, i, &im, &label, NULL), VT_OK);
        for (int epoch = 0; epoch < EPOCHS; epoch++) {
            int found = 0;
            assert_int_equal(augment(x, d, i, &mo, 1, epoch), label);
            for (int w = 0; w < 162; w++) {
                int dy = w / 18, dx = w / 2 % 9, flip = w % 2;
                if (!is_window(x, im.rgb, dy, dx, flip)) continue;
                found++, row[dy]++, column[dx]++, flips += flip, used[w]++, first[w] += i == 0;
            }
            assert_int_equal(found, 1);
        }
        vt_image_free(&im);
    }
    t_check("windows");
    double all = n * EPOCHS;
    assert_true(all >= 3000);
    for (int k = 0; k < 9; k++) {
        t_le(fabs(row[k] - all / 9), 5 * sqrt(all * 8 / 81), "row offset %d", k);
        t_le(fabs(column[k] - all / 9), 5 * sqrt(all * 8 / 81), "column offset %d", k);
    }
    t_le(fabs(flips - all / 2), 5 * sqrt(all / 4), "flips");
    int distinct = 0;
    for (int w = 0; w < 162; w++) {
        assert_true(used[w] > 0); /* all / 162 > 18 expected: row, column and flip are independent */
        distinct += first[w] > 0;
    }
    assert_true(distinct > EPOCHS / 2); /* epochs differ: 2.7 repeats expected among 30 draws from 162 */
    t_release("windows");
    vt_dataset_close(d);
}

/* Without crop: the pixels as evaluation reads them, or their mirror. */
static void test_plain(void **state) {
    (void)state;
    vt_dataset *d = open_train();
    float *x = t_take(PIXELS * sizeof *x);
    for (int flip = 0; flip < 2; flip++) {
        vt_recipe_augment a = {.crop = 0, .flip = flip};
        for (int i = 0; i < 20; i++) {
            vt_image im;
            int label;
            assert_int_equal(vt_dataset_read(d, i, &im, &label, NULL), VT_OK);
            augment(x, d, i, &a, 1, i);
            assert_true(is_window(x, im.rgb, 4, 4, flip));
            vt_image_free(&im);
        }
    }
    t_release("plain");
    vt_dataset_close(d);
}

/* An image's draws depend on (seed, epoch, image) alone, and on each of them. */
static void test_image_keys(void **state) {
    (void)state;
    enum { N = 20 };
    static float forth[N][PIXELS], back[PIXELS];
    vt_dataset *d = open_train();
    int seed_same = 0;
    for (int i = 0; i < N; i++) augment(forth[i], d, i, &mo, 9, 2);
    for (int i = N - 1; i >= 0; i--) {
        augment(back, d, (i + 7) % N, &mo, 9, 3);
        augment(back, d, i, &mo, 9, 2);
        assert_memory_equal(back, forth[i], sizeof back);
        augment(back, d, i, &mo, 10, 2);
        seed_same += !memcmp(back, forth[i], sizeof back);
    }
    t_le(seed_same, 3, "images that another seed treats alike"); /* 20 / 162 expected */
    vt_dataset_close(d);
}

static void test_refusals(void **state) {
    (void)state;
    vt_dataset *d = open_train();
    static float x[3 * 24 * 24];
    int label;
    vt_err e = {0};
    t_says(vt_augment_image(x, &label, d, 5, 24, &mo, 1, 0, &e), VT_E_SHAPE, &e, "shapes10: image 5 is 32 x 32",
           "24 x 24");
    assert_true(vt_augment_image(x, &label, d, d->count, 24, &mo, 1, 0, &e) != VT_OK);
    vt_dataset_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_order_uniform),
        cmocka_unit_test(test_mix_shares),
        cmocka_unit_test(test_mix_switches),
        cmocka_unit_test(test_mix_keys),
        cmocka_unit_test(test_beta_moments),
        cmocka_unit_test(test_beta_distribution),
        cmocka_unit_test(test_cutmix_area),
        cmocka_unit_test_teardown(test_mixup_images, t_drop),
        cmocka_unit_test_teardown(test_cutmix_images, t_drop),
        cmocka_unit_test_teardown(test_target, t_drop),
        cmocka_unit_test_teardown(test_windows, t_drop),
        cmocka_unit_test_teardown(test_plain, t_drop),
        cmocka_unit_test(test_image_keys),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("augment", tests, NULL, NULL);
}
