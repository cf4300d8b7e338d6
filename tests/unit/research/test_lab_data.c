/* SPDX-License-Identifier: MIT */
/* What the UAM labs feed their networks: digits in noise, teachers and their true masks, the attack on x; and SGD, held
 * against steps done by hand. */
#include "research/lab/digits.h"
#include "research/lab/teacher.h"
#include "scratch.h"
#include "t.h"

#include "scratch.h"

static const vt_lab lab = {.seed = 3, .threads = 1};

/* ---- digits ---- */

static double distance(const float *a, const float *b, int n) {
    double s = 0;
    for (int i = 0; i < n; i++) s += pow((double)a[i] - (double)b[i], 2);
    return sqrt(s);
}

/* A drawn digit is nearest to its own model digit more often than chance could say, at every size; ink is in [0, 1]. */
static void test_digits_are_digits(void **state) {
    (void)state;
    static const struct {
        int s;
        double least; /* share right by nearest model: measured 0.82, 0.79, 0.80; chance is 0.1 */
    } rows[] = {{5, 0.7}, {8, 0.7}, {15, 0.7}};
    for (size_t k = 0; k < T_COUNT(rows); k++) {
        int s = rows[k].s, right = 0;
        float model[10][225], ink[225];
        for (int d = 0; d < 10; d++) vt_digit_draw(model[d], s, d, 0, -1);
        for (int i = 0; i < 500; i++) {
            int label = vt_digit_label(9, i), best = 0;
            vt_digit_draw(ink, s, label, 9, i);
            for (int j = 0; j < s * s; j++) assert_true(ink[j] >= 0 && ink[j] <= 1);
            for (int d = 1; d < 10; d++)
                if (distance(ink, model[d], s * s) < distance(ink, model[best], s * s)) best = d;
            right += best == label;
        }
        if (!(right / 500.0 >= rows[k].least)) fail_msg("s = %d: %d of 500 near their model", s, right);
    }
}

/* The digit stands where it should and nowhere else: noise outside is uniform, the same place inside for all. */
static void test_pictures(void **state) {
    (void)state;
    enum { SIDE = 24, S = 8, N = 400 };
    vt_digits d, again, later;
    vt_err e = {0};
    assert_int_equal(vt_digits_open(&d, SIDE, S, 0, N, &lab, &e), VT_OK);
    int count[10] = {0}, inside = 0;
    double mean = 0, square = 0;
    for (int p = 0; p < SIDE * SIDE; p++) inside += vt_digits_inside(&d, p);
    assert_int_equal(inside, S * S);
    assert_true(vt_digits_inside(&d, 8 * SIDE + 8) && vt_digits_inside(&d, 15 * SIDE + 15));
    assert_false(vt_digits_inside(&d, 7 * SIDE + 8) || vt_digits_inside(&d, 16 * SIDE + 15));
    for (int i = 0; i < N; i++) {
        int label = vt_digit_label(lab.seed, i);
        float ink[S * S];
        vt_digit_draw(ink, S, label, lab.seed, i);
        count[label]++;
        for (int j = 0; j < 10; j++) assert_true(d.y[i * 10 + j] == (j == label));
        for (int p = 0; p < SIDE * SIDE; p++) {
            double x = (double)d.x[i * SIDE * SIDE + p];
            if (vt_digits_inside(&d, p)) {
                int at = (p / SIDE - d.row) * S + p % SIDE - d.column;
                t_le(fabs(x - ((double)ink[at] - 0.5) * sqrt(12)), 1e-6, "ink");
            } else {
                mean += x, square += x * x;
            }
        }
    }
    double outside = (double)N * (SIDE * SIDE - S * S);
    t_le(fabs(mean / outside), 4 / sqrt(outside), "mean of the noise"); /* four deviations */
    t_le(fabs(square / outside - 1), 4 * sqrt(0.8 / outside),
         "its variance");                                                     /* kurtosis 1.8: variance of x^2 is 0.8 */
    for (int k = 0; k < 10; k++) assert_true(count[k] > 15 && count[k] < 70); /* 40 +- 6 */
    vt_lab three = lab;
    three.threads = 3;
    assert_int_equal(vt_digits_open(&again, SIDE, S, 0, N, &three, &e), VT_OK);
    assert_memory_equal(again.x, d.x, N * SIDE * SIDE * sizeof *d.x);
    assert_int_equal(vt_digits_open(&later, SIDE, S, 10, 5, &three, &e), VT_OK); /* a test set follows */
    assert_memory_equal(later.x, d.x + 10 * SIDE * SIDE, 5 * SIDE * SIDE * sizeof *d.x);
    vt_digits_close(&d), vt_digits_close(&again), vt_digits_close(&later);
    t_says(vt_digits_open(&d, 24, 25, 0, 1, &lab, &e), VT_E_RANGE, &e, "25 x 25", "1 to 24");
}

/* ---- teachers ---- */

static const vt_two_layer mask = {VT_FRONT_MASK, .in = 32, .hidden = 16, .out = 3};

static void test_teacher(void **state) {
    (void)state;
    vt_teacher t, more;
    vt_err e = {0};
    assert_int_equal(vt_teacher_open(&t, &mask, 5, 2, 1500, 700, 1, &lab, &e), VT_OK);
    int relevant = 0;
    for (int i = 0; i < mask.in; i++) relevant += vt_teacher_relevant(&t, i);
    assert_int_equal(relevant, 5);
    /* y depends on inputs that count alone, to the bit */
    vt_sgd_points p = vt_teacher_test(&t);
    float x[32 * 50], y[3 * 50];
    memcpy(x, p.x, sizeof x);
    for (int i = 0; i < 32 * 50; i++)
        if (!vt_teacher_relevant(&t, i % 32)) x[i] = 100;
    assert_int_equal(vt_two_layer_outputs(y, x, 50, t.theta, &t.net, &e), VT_OK);
    for (int i = 0; i < 150; i++) t_le(fabs((double)y[i] - (double)p.y[i]), 1e-6, "y at the same relevant inputs");
    double sum = 0;
    for (int i = 0; i < 700 * 3; i++) sum += (double)p.y[i] * (double)p.y[i] / 700;
    t_le(fabs(sum / t.power - 1), 1e-12, "power");
    vt_lab two = lab;
    two.threads = 2;
    assert_int_equal(vt_teacher_open(&more, &mask, 5, 2, 1500, 700, 1, &two, &e), VT_OK);
    assert_memory_equal(more.x, t.x, 2200 * 32 * sizeof *t.x);
    assert_memory_equal(more.y, t.y, 2200 * 3 * sizeof *t.y);
    vt_teacher_close(&more);
    assert_int_equal(vt_teacher_open(&more, &mask, 5, 2, 10, 10, 2, &lab, &e), VT_OK); /* another run, other data */
    assert_true(memcmp(more.x, t.x, 32 * sizeof *t.x) != 0);
    vt_teacher_close(&more), vt_teacher_close(&t);
}

/* PGD: error rises; the teacher itself cannot be moved through inputs that do not count, and a student that reads only
 * the inputs that count spends nothing on the others. */
static void test_attack(void **state) {
    (void)state;
    vt_teacher t;
    vt_err e = {0};
    assert_int_equal(vt_teacher_open(&t, &mask, 5, 2, 100, 200, 0, &lab, &e), VT_OK);
    vt_two_layer plain = mask;
    plain.front = VT_FRONT_PLAIN;
    float student[2000];
    vt_two_layer_init_f32(student, &plain, 1, 4, 0);
    for (int norm = 0; norm < 2; norm++) {
        vt_robust r = {(vt_robust_norm)norm, norm ? 0.1 : 0.5, 10, 100, false, 0};
        vt_robust_result got, weak;
        assert_int_equal(vt_teacher_attack(&got, &r, &t, student, &plain, &lab, &e), VT_OK);
        assert_true(got.error > 1.05 * got.clean && got.share > 0.3 && got.share < 1);
        r.irrelevant_only = true;
        assert_int_equal(vt_teacher_attack(&weak, &r, &t, student, &plain, &lab, &e), VT_OK);
        assert_true(weak.error > weak.clean && weak.error < got.error);
        t_le(fabs(weak.share - 1), 0, "all of the energy is where it may be");
        assert_int_equal(vt_teacher_attack(&weak, &r, &t, t.theta, &mask, &lab, &e), VT_OK);
        t_le(weak.error, 1e-8, "the teacher does not see those inputs"); /* float sums, squared */
        r.eps = 0;
        assert_int_equal(vt_teacher_attack(&weak, &r, &t, student, &plain, &lab, &e), VT_OK);
        t_le(fabs(weak.error - weak.clean), 0, "radius 0");
    }
    /* a larger ball holds worse points */
    vt_robust r = {VT_ROBUST_L2, 0.5, 20, 100, false, 0};
    vt_robust_result half, whole;
    assert_int_equal(vt_teacher_attack(&half, &r, &t, student, &plain, &lab, &e), VT_OK);
    r.eps = 1;
    assert_int_equal(vt_teacher_attack(&whole, &r, &t, student, &plain, &lab, &e), VT_OK);
    assert_true(whole.error > half.error);
    vt_teacher_close(&t);
}

/* ---- SGD ---- */

/* One step on one point by hand: theta - rate (gradient + penalties). */
static void test_step(void **state) {
    (void)state;
    vt_two_layer n = {VT_FRONT_MASK, .in = 4, .hidden = 3, .out = 2};
    size_t count = vt_two_layer_at(&n, VT_AT_END), w1 = vt_two_layer_at(&n, VT_AT_W1),
           b1 = vt_two_layer_at(&n, VT_AT_B1);
    float theta[64], want[64], grad[64], x[4] = {1, -2, 0.5f, 3}, y[2] = {1, -1}, work[4096];
    vt_err e = {0};
    assert_true(count <= 64 && vt_two_layer_work_f32(&n, 2, 0) <= 4096);
    vt_two_layer_init_f32(theta, &n, 1, 8, 0);
    theta[0] = -0.5f, theta[1] = 0;
    memcpy(want, theta, sizeof want);
    vt_two_layer_loss_f32(grad, NULL, NULL, x, y, theta, 1, &n, work);
    vt_sgd s = {.net = n,
                .train = {x, y, 1},
                .test = {x, y, 1},
                .batch = 2,
                .steps = 1,
                .rate = 0.1,
                .l1 = 0.3,
                .l2 = 0.2,
                .decay = 0.4,
                .marks = 1};
    for (size_t i = 0; i < count; i++) {
        double sign = (want[i] > 0) - (want[i] < 0), g = (double)grad[i];
        if (i < 4) g += 0.3 * sign + 0.2 * (double)want[i];
        if ((i >= w1 && i < b1) || (i >= vt_two_layer_at(&n, VT_AT_W2) && i < vt_two_layer_at(&n, VT_AT_B2)))
            g += 0.4 * (double)want[i];
        want[i] = (float)((double)want[i] - 0.1 * g);
    }
    vt_measure curve[1][2];
    assert_int_equal(vt_sgd_run(theta, curve, &s, &lab, &e), VT_OK); /* the point twice: the same mean */
    for (size_t i = 0; i < count; i++) t_le(fabs((double)theta[i] - (double)want[i]), 1e-6, "parameter %zu", i);
    double loss = vt_two_layer_loss_f32(NULL, NULL, NULL, x, y, theta, 1, &n, work);
    t_le(fabs(curve[0][1].loss - loss), 1e-6, "measured after the step");
    t_le(fabs(curve[0][1].error - 2 * loss), 1e-6, "error is twice eq. 4's loss");
}

/* It learns; runs are keyed; a rate too high is a sentence. */
static void test_learning(void **state) {
    (void)state;
    vt_teacher t;
    vt_err e = {0};
    assert_int_equal(vt_teacher_open(&t, &mask, 5, 1, 500, 300, 0, &lab, &e), VT_OK);
    float theta[2000], again[2000], other[2000];
    vt_measure curve[4][2];
    vt_sgd s = {.net = mask,
                .train = vt_teacher_train(&t, 500),
                .test = vt_teacher_test(&t),
                .batch = 16,
                .steps = 2000,
                .rate = 0.02,
                .marks = 4};
    size_t bytes = vt_two_layer_at(&mask, VT_AT_END) * sizeof *theta;
    float *all[] = {theta, again, other};
    for (int k = 0; k < 3; k++) {
        vt_two_layer_init_f32(all[k], &mask, 1, 1, 0);
        s.run = k == 2;
        assert_int_equal(vt_sgd_run(all[k], curve, &s, &lab, &e), VT_OK);
    }
    assert_memory_equal(theta, again, bytes);
    assert_true(memcmp(theta, other, bytes) != 0);
    assert_true(curve[3][0].error < 0.2 * t.power && curve[3][1].error < 0.7 * t.power);
    s.rate = 5;
    t_says(vt_sgd_run(theta, curve, &s, &lab, &e), VT_E_NUMERIC, &e, "learning rate of 5", "lower");
    again[0] = INFINITY;
    vt_sgd_points test = vt_teacher_test(&t);
    t_says(vt_two_layer_measure(curve[0], &test, again, &mask, &e), VT_E_NUMERIC, &e, "mean loss of 300", "rate");
    again[0] = 1;
    volatile sig_atomic_t stop = 1;
    vt_lab stopped = lab;
    stopped.interrupt = &stop, s.rate = 0.01;
    t_says(vt_sgd_run(again, curve, &s, &stopped, &e), VT_INTERRUPTED, &e, "interrupted", "");
    vt_teacher_close(&t);
}

/* Digits of a file: means over areas, of whole pixels (4 to 2) and of parts (4 to 3), in the middle of other noise than
 * the training's. */
static void test_digits_of_a_file(void **state) {
    (void)state;
    static const uint8_t image[4][4] = {{0, 60, 120, 240}, {60, 0, 0, 60}, {255, 255, 0, 0}, {255, 255, 0, 0}};
    static const double third[3] = {1, 1.0 / 3, 0}; /* of rows 0, 1, 2 in the first of three */
    uint8_t x[16 + 16] = {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 4}, y[9] = {0, 0, 8, 1, 0, 0, 0, 1, 7};
    vt_digits d;
    vt_err e = {0};
    char hash[65];

    memcpy(x + 16, image, sizeof image);
    for (int k = 0; k < 2; k++) {
        FILE *f = fopen(at(k ? "t10k-labels-idx1-ubyte" : "t10k-images-idx3-ubyte"), "wb");
        assert_non_null(f);
        fwrite(k ? y : x, 1, k ? sizeof y : sizeof x, f);
        fclose(f);
    }
    for (int s = 2; s <= 3; s++) {
        if (vt_digits_read(&d, 8, s, tmp, VT_SPLIT_TEST, 1, &lab, hash, &e) != VT_OK) fail_msg("%s", e.text);
        double want = s == 2 ? 30 : 0;
        for (int r = 0; s == 3 && r < 2; r++)
            for (int c = 0; c < 2; c++) want += third[r] * third[c] * image[r][c] * 9 / 16;
        t_le(fabs((double)d.x[d.row * 8 + d.column] - (want / 255 - 0.5) * 3.4641016), 1e-5, "the first pixel at %d",
             s);
        assert_true(d.y[7] == 1 && strlen(hash) == 64);
        if (s == 2) t_le(fabs((double)d.x[(d.row + 1) * 8 + d.column] - 0.5 * 3.4641016), 1e-5, "full ink");
        vt_digits_close(&d);
    }
    t_says(vt_digits_read(&d, 8, 2, tmp, VT_SPLIT_TEST, 2, &lab, hash, &e), VT_E_USAGE, &e, "2 test images",
           "it has 1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digits_are_digits),
        cmocka_unit_test(test_digits_of_a_file),
        cmocka_unit_test(test_pictures),
        cmocka_unit_test(test_teacher),
        cmocka_unit_test(test_attack),
        cmocka_unit_test(test_step),
        cmocka_unit_test(test_learning),
    };
    return cmocka_run_group_tests(tests, make_tmp, remove_tmp);
}
