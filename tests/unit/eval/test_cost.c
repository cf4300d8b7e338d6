/* SPDX-License-Identifier: MIT */
/* The forecast of memory: what was given back is not counted twice. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/mman.h>
#include "eval/cost.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(forecast_is_of_what_is_held_now)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
