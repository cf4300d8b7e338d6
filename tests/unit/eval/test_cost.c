/* SPDX-License-Identifier: MIT */
/* The forecast of memory: what was given back is not counted twice; of calls: each query of an 8-bit entry may be
 * rounded, and each of its stages ends in a repair. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/mman.h>
#include "eval/cost.h"
#include "toy.h"

enum { MB = 1 << 20, GONE = 200 };

static void forecast_is_of_what_is_held_now(void **state) {
    (void)state;
    void *p = mmap(NULL, (size_t)GONE * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    for (size_t i = 0; i < (size_t)GONE * MB; i += 4096) ((volatile char *)p)[i] = 1;
    const double peak = vt_resident_mb();
    assert_true(peak >= GONE);
    assert_true(vt_forecast_mb(100) >= peak + 99); /* 1: what peak and pages are rounded by */
    munmap(p, (size_t)GONE * MB);
    assert_true(vt_forecast_mb(100) <= peak + 1); /* 100 of what was given back */
    assert_true(vt_forecast_mb(GONE + 100) >= peak + 60);
}

/* 3 images of 12 x 12: a climb halves its steps 10 times, from 1 to below half of one of 432 entries. */
static void eight_bit_queries_are_counted_twice_and_repaired(void **state) {
    (void)state;
    vt_model *m = toy(VT_POOL_TOKEN, false, true);
    vt_attack a[2];
    vt_dataset d = {.classes = m->config.classes};
    vt_subject s = {.model = m, .data = &d};
    vt_eval_options v = {.subject = &s, .n_images = 3, .attacks = a, .n_attacks = 1, .norm = VT_LINF};
    vt_err e = {0};
    assert_int_equal(toy_pixels(m), 432);
    for (int k = 0; k < 2; k++)
        assert_int_equal(vt_attack_parse(&a[k], "pgd:steps=5+square:queries=40", VT_LINF, &e), 0);
    vt_passes p = vt_cost_passes(&v);
    const double forwards = p.forwards, gradients = p.gradients, queries = forwards + gradients - 3;
    assert_true(gradients == 3 * 5 && forwards >= 3 * (1 + 40));
    a[1].scoring = VT_SCORE_EIGHT_BIT, v.n_attacks = 2;
    p = vt_cost_passes(&v);
    assert_true(p.gradients == 2 * gradients + 3 * 30);
    assert_true(p.forwards == 2 * forwards - 3 + queries + 3 * (5 + 30 * (10 + 3) + 5));
    v.exhaustive = true; /* the last iterate is rounded, nothing is searched */
    p = vt_cost_passes(&v);
    assert_true(p.gradients == 2 * gradients && p.forwards == 2 * forwards - 3);
    for (int k = 0; k < 2; k++) vt_attack_free(&a[k]);
    vt_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(forecast_is_of_what_is_held_now),
                                       cmocka_unit_test(eight_bit_queries_are_counted_twice_and_repaired)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
