/* SPDX-License-Identifier: MIT */
/* The points that the real AutoAttack stored (torch, float32) under vitrine's judge, as `vitrine verify --adv` sees
 * them: all broken, all inside with the allowance for rounding, the class and the distance that torch saw. argv[1] =
 * shared folder. */
#include "golden.h"

#include "eval/external.h"

enum { POINTS = 20 };

static void check(const char *name, const char *weights, double eps) {
    char file[128];
    vt_err e = {0};
    vt_adv_file p;
    vt_dataset *d;
    vt_model *m = checkpoint(weights);
    vt_tensors *st = golden(name);
    snprintf(file, sizeof file, "golden/%s.safetensors", name);
    if (vt_adv_file_open(&p, in_shared(file), NULL, &e) != VT_OK) fail_msg("%s", e.text);
    if (vt_dataset_open(&d, in_shared("datasets/cifar-10-batches-bin"), VT_SPLIT_TEST, &e) != VT_OK)
        fail_msg("%s", e.text);
    assert_int_equal(p.n, POINTS);
    assert_true(p.n_index >= POINTS); /* the first N count */
    if (vt_adv_file_fit(&p, file, vt_shape_rgb(32), m->config.mean, m->config.std, &e) != VT_OK) fail_msg("%s", e.text);
    int64_t *pred = integers(st, "y_adv", (size_t)p.n_index);
    double *distance = doubles(st, "distance", (size_t)p.n_index);
    vt_subject s = {.model = m, .data = d};
    vt_external f = {.subject = &s, .points = &p, .images = p.index, .eps = eps, .threads = 2};
    f.eps_text = "", f.allowance = 0x1p-24;
    if (vt_external_run(&f, &e) != VT_OK) fail_msg("%s", e.text);
    printf("  %s: %lld broken, %lld borderline, %lld violations, %lld inside by the allowance alone\n", name,
           (long long)f.count[VT_EXTERNAL_BROKEN], (long long)f.borderline, (long long)f.count[VT_EXTERNAL_VIOLATION],
           (long long)f.allowed);
    assert_int_equal(f.count[VT_EXTERNAL_BROKEN], POINTS);
    assert_int_equal(f.count[VT_EXTERNAL_VIOLATION], 0);
    for (int i = 0; i < POINTS; i++) {
        assert_int_equal(f.result[i].v.pred, pred[i]);
        /* torch subtracts in float32: one rounding of a number below 1/16 */
        assert_true(fabs(f.result[i].v.linf - distance[i]) <= 0x1p-29);
    }
    int64_t allowed = f.allowed;
    vt_external_free(&f);
    f.allowance = 0, f.allowed = 0;
    memset(f.count, 0, sizeof f.count);
    if (vt_external_run(&f, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(f.count[VT_EXTERNAL_VIOLATION], allowed); /* it is the allowance that lets them in */
    assert_true(allowed > 0);
    vt_external_free(&f);
    free(pred), free(distance);
    vt_adv_file_close(&p);
    vt_dataset_close(d);
    vt_tensors_close(st);
    vt_model_close(m);
}

static void test_standard_1(void **state) { (void)state, check("aa_linf_1_255", "vit-cifar10", 1.0 / 255); }
static void test_standard_2(void **state) { (void)state, check("aa_linf_2_255", "vit-cifar10", 2.0 / 255); }
static void test_at_8(void **state) { (void)state, check("aa_at8_linf_8_255", "vit-cifar10-at8", 8.0 / 255); }

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_standard_1),
        cmocka_unit_test(test_standard_2),
        cmocka_unit_test(test_at_8),
    };
    return golden_main(argc, argv, "golden, verify", tests, COUNT(tests));
}
