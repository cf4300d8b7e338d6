/* SPDX-License-Identifier: MIT */
/* eval/report/curve: the smallest norm of each image from ledger lines in any order, the curve it makes, and that it
 * never rises. */
#include "t.h"
#include "run_header.h"

#include "eval/report/curve.h"

static json_t *header(void) {
    return json_pack("{s:s,s:[{s:s,s:s},{s:s,s:s},{s:s,s:s,s:{s:s,s:f}}]}", "norm", "linf", "attacks", "name", "fmn",
                     "id", "fmn:a", "name", "fab", "id", "fab:b", "name", "apgd@0.2", "id", "apgd:c", "at", "eps",
                     "0.2", "value", 0.2);
}

static void line(vt_ledger *l, int image, int entry, vt_record_status status, double linf) {
    vt_record r = {.image = image,
                   .target = -1,
                   .entry = entry,
                   .status = (uint8_t)status,
                   .linf = linf,
                   .l2 = 99,
                   .gradients = 10};
    r.borderline = entry == 2;
    vt_err e = {0};
    assert_int_equal(vt_ledger_append(l, &r, NULL, &e), VT_OK);
}

/* Image 3 wrong; 5 broken at 0.1 by both (the first counts); 6 at 0.3 by fmn, then at 0.2 by apgd; 7 by fab alone at
 * 0.3; 9 by nothing. */
static void fill(vt_ledger *l, bool backwards) {
    static const struct {
        int image, entry;
        vt_record_status status;
        double linf;
    } rows[] = {{9, 0, VT_RECORD_CORRECT, 0},  {3, 0, VT_RECORD_WRONG, 0},    {7, 0, VT_RECORD_CORRECT, 0},
                {6, 0, VT_RECORD_CORRECT, 0},  {5, 0, VT_RECORD_CORRECT, 0},  {5, 1, VT_RECORD_BROKEN, 0.1},
                {5, 2, VT_RECORD_BROKEN, 0.1}, {6, 1, VT_RECORD_BROKEN, 0.3}, {6, 2, VT_RECORD_BROKEN, 0.4},
                {7, 1, VT_RECORD_ROBUST, 0},   {7, 2, VT_RECORD_BROKEN, 0.3}, {9, 1, VT_RECORD_ROBUST, 0},
                {9, 2, VT_RECORD_ROBUST, 0},   {6, 3, VT_RECORD_BROKEN, 0.2}, {7, 3, VT_RECORD_ROBUST, 0},
                {9, 3, VT_RECORD_ROBUST, 0}};
    int n = (int)T_COUNT(rows);
    for (int i = 0; i < n; i++) {
        int k = backwards ? n - 1 - i : i;
        line(l, rows[k].image, rows[k].entry, rows[k].status, rows[k].linf);
    }
}

static void test_points(void **state) {
    (void)state;
    static const struct {
        double eps;
        int64_t robust, broken;
        int entry;
        bool confirmed;
    } want[] = {{0, 4, 1, -1, false}, {0.1, 3, 1, 0, false}, {0.2, 2, 1, 2, true}, {0.3, 1, 1, 1, false}};
    for (int backwards = 0; backwards < 2; backwards++) {
        vt_err e = {0};
        vt_ledger *l;
        vt_curve c;
        vt_header *h = t_header(header());
        assert_int_equal(vt_ledger_memory(&l, h, 3, &e), VT_OK);
        fill(l, backwards);
        assert_int_equal(vt_curve_make(&c, l, &e), VT_OK);
        assert_int_equal(c.n, 5);
        assert_int_equal(c.right, 4);
        assert_int_equal(c.n_points, T_COUNT(want));
        for (size_t i = 0; i < T_COUNT(want); i++) {
            const vt_curve_point *p = &c.points[i];
            assert_true(p->eps == want[i].eps && p->low <= 100.0 * (double)p->robust / 5 &&
                        p->confirmed == want[i].confirmed);
            assert_int_equal(p->robust, want[i].robust);
            assert_int_equal(p->broken, want[i].broken);
            assert_int_equal(p->entry, want[i].entry);
        }
        static const double distance[] = {0, 0.1, 0.2, 0.3, INFINITY}, alone[] = {0, 0.1, 0.3, 0.3, INFINITY};
        for (size_t i = 0; i < 5; i++)
            assert_true(c.images[i].distance == distance[i] && c.images[i].unconfirmed == alone[i]);
        assert_false(c.images[1].borderline); /* fmn's point, not fab's */
        assert_true(c.images[3].borderline);
        assert_int_equal(vt_curve_unconfirmed(&c, 0.2), 3);
        assert_int_equal(vt_curve_robust(&c, 0.29), 2);
        assert_int_equal(c.entries[0].found, 2);
        assert_int_equal(c.entries[2].tried, 3);
        assert_int_equal(c.entries[1].gradients, 40);
        assert_true(isinf(vt_curve_median(&c, 0))); /* 0.1, 0.3, none, none */
        assert_true(vt_curve_median(&c, 1) == (0.3 + 0.4) / 2);
        vt_curve_free(&c);
        vt_ledger_close(l);
        vt_header_free(h);
    }
}

/* No right image, no attack that found anything. */
static void test_nothing(void **state) {
    (void)state;
    vt_err e = {0};
    vt_ledger *l;
    vt_curve c;
    vt_header *h = t_header(header());
    assert_int_equal(vt_ledger_memory(&l, h, 3, &e), VT_OK);
    line(l, 4, 0, VT_RECORD_WRONG, 0);
    assert_int_equal(vt_curve_make(&c, l, &e), VT_OK);
    assert_int_equal(c.n_points, 2); /* 0, and the confirmed eps */
    assert_int_equal(c.points[1].robust, 0);
    assert_true(isnan(vt_curve_median(&c, 0)));
    vt_curve_free(&c);
    vt_ledger_close(l);
    vt_header_free(h);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_points), cmocka_unit_test(test_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
