/* SPDX-License-Identifier: MIT */
/* The oracle's verdicts on single points around the border of a classifier. Its stop rule: test_oracle.c. */
#include "attack_fixture.h"

static void skew(void *arg, const float *x, int64_t call, float *z) { /* the float logits alone are off */
    (void)x, (void)call;
    z[1] += *(float *)arg;
}

/* Asks about the point with margin s (s = 1 is the edge of the ball). */
static vt_status ask(bench *b, double s, float *at) {
    for (size_t i = 0; i < b->p->n; i++)
        at[i] = (float)((double)b->x[i] + s * 0.999999 * b->ball.eps * (b->p->w[i] > 0 ? 1 : -1));
    return vt_oracle_logits(&b->o, at, NULL);
}

static void test_verdicts(void **state) {
    (void)state;
    planted p;
    bench b;
    float off = 0, at[192], first[192];
    assert_true(planted_init(&p, 2, 8, 8));
    bench_open(&b, &p, 1, true);
    bench_ball(&b, VT_LINF, 0.1);
    free(p.kept);
    assert_true(planted_ridge(&p, 2, 8, 8, 1, tilt_profile, &b.ball));
    p.watch = skew, p.arg = &off;
    static const struct {
        double s;
        float off;
        bool exhaustive, stop, found;
    } rows[] = {
        {0.01, 0, false, true, true},       {0.01, 0.002f, false, true, true}, /* 5 times the noise */
        {0.01, 0.003f, false, false, true},                                    /* 3.3 times */
        {-0.01, 0.02f, false, false, true},                                    /* double says right */
        {-0.01, 0, false, false, false},    {1.1, 0, false, false, false},     /* outside of the ball */
        {0.01, 0, true, false, true},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        vt_oracle_reset(&b.o, &b.ball, 0, false);
        b.o.mode = rows[i].exhaustive ? VT_ORACLE_EXHAUSTIVE : VT_ORACLE_SEARCH, off = rows[i].off;
        assert_int_equal(ask(&b, rows[i].s, at), rows[i].stop ? VT_STOP : VT_OK);
        assert_int_equal(b.o.has_found, rows[i].found);
        assert_int_equal(vt_oracle_may_end(&b.o, false), rows[i].exhaustive);
        if (rows[i].found) assert_memory_equal(b.o.found, at, sizeof at);
    }
    /* not yet good enough, a little better, worse (not asked again), good enough */
    vt_oracle_reset(&b.o, &b.ball, 0, false);
    b.o.mode = VT_ORACLE_SEARCH, off = 0.003f, p.forwards64 = 0;
    assert_int_equal(ask(&b, 0.01, first), VT_OK);
    assert_int_equal(ask(&b, 0.005, at), VT_OK);
    assert_memory_equal(b.o.found, first, sizeof first);
    assert_int_equal(p.forwards64, 1);
    assert_int_equal(ask(&b, 0.011, at), VT_OK);
    assert_memory_equal(b.o.found, at, sizeof at);
    assert_int_equal(ask(&b, 0.02, at), VT_STOP);
    assert_int_equal(b.o.forwards, 4);
    bench_close(&b);
    planted_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verdicts),
    };
    return cmocka_run_group_tests_name("verdicts", tests, NULL, NULL);
}
