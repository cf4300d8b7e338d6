/* SPDX-License-Identifier: MIT */
/* eval/report/compare of two curves: counts, tests and medians by hand, from ledgers whose norms are planted. */
#include "t.h"
#include "run_header.h"

#include <string.h>
#include "eval/report/compare.h"

typedef struct planted {
    int image;
    double a, b; /* norms that fmn found; 0: the prediction is wrong, INFINITY: none */
} planted;

/* Ten images; 4 and 9 are of A's or B's alone where a test says so. */
static const planted rows[] = {{0, 0, 0},      {1, 0, 0.3},   {2, 0.1, 0.2}, {3, 0.15, 0.3}, {4, 0.15, INFINITY},
                               {5, 0.3, 0.25}, {6, 0.4, 0.4}, {7, 0.2, 0.5}, {8, 0.05, 0.6}, {9, INFINITY, INFINITY}};
enum { N = sizeof rows / sizeof *rows };

static json_t *attack(const char *name, const char *id, const char *eps, double value) {
    json_t *a = json_pack("{s:s,s:s,s:[{s:s,s:s}]}", "name", name, "id", id, "stages", "name", name, "id", id);
    if (eps) json_object_set_new(a, "at", json_pack("{s:s,s:f}", "eps", eps, "value", value));
    return a;
}

/* fmn with that id, and pgd at each of the eps. */
static json_t *header(const char *fmn, const double *eps, int n_eps, const char *pgd) {
    json_t *list = json_array();
    char text[20];
    json_array_append_new(list, attack("fmn", fmn, NULL, 0));
    for (int i = 0; i < n_eps; i++) {
        snprintf(text, sizeof text, "%g", eps[i]);
        json_array_append_new(list, attack("pgd", pgd, text, eps[i]));
    }
    return json_pack("{s:s,s:b,s:o}", "norm", "linf", "curve", 1, "attacks", list);
}

static void put(vt_ledger *l, int image, int entry, vt_record_status status, double linf) {
    vt_record r = {.image = image, .target = -1, .entry = entry, .status = (uint8_t)status, .linf = linf};
    vt_err e = {0};
    assert_int_equal(vt_ledger_append(l, &r, NULL, &e), VT_OK);
}

/* The curve of A (side 0) or B. pgd breaks image 6 at 0.2 in B, and nothing else; images from `from` on. */
static vt_ledger *curve(int side, json_t *h, const double *eps, int n_eps, int from) {
    vt_ledger *l;
    vt_err e = {0};
    vt_header *header = t_header(h);
    assert_int_equal(vt_ledger_memory(&l, header, 3, &e), VT_OK);
    vt_header_free(header);
    for (int i = from; i < N; i++) {
        double d = side ? rows[i].b : rows[i].a;
        put(l, rows[i].image, 0, d > 0 ? VT_RECORD_CORRECT : VT_RECORD_WRONG, 0);
        if (!(d > 0)) continue;
        put(l, rows[i].image, 1, isfinite(d) ? VT_RECORD_BROKEN : VT_RECORD_ROBUST, d);
        bool fell = false;
        for (int k = 0; k < n_eps; k++) {
            bool breaks = side && rows[i].image == 6 && eps[k] == 0.2;
            if (d > eps[k] && !fell) put(l, rows[i].image, k + 2, breaks ? VT_RECORD_BROKEN : VT_RECORD_ROBUST, eps[k]);
            fell = fell || breaks;
        }
    }
    return l;
}

static const double at_a[] = {0.12, 0.2}, at_b[] = {0.2, 0.35};

static void row_is(const vt_pair *p, const char *name, int64_t images, int64_t only_a, int64_t only_b, int64_t right_a,
                   int64_t right_b, const char *remark) {
    assert_string_equal(p->name, name);
    assert_int_equal(p->images, images);
    assert_int_equal(p->only_a, only_a), assert_int_equal(p->only_b, only_b);
    assert_int_equal(p->right_a, right_a), assert_int_equal(p->right_b, right_b);
    vt_mcnemar want = vt_mcnemar_exact(only_a, only_b);
    assert_true(p->test.two_sided == want.two_sided && p->low <= p->high);
    if (!p->remark != !remark || (remark && !strstr(p->remark, remark)))
        fail_msg("%s: remark '%s'", name, p->remark ? p->remark : "");
}

/* A, with fmn:1 and pgd:1 at at_a, and another curve; compared where both have all images. */
typedef struct two {
    vt_ledger *a, *b;
    vt_pair p[10];
    int n;
    vt_err e;
} two;

static two open_two(vt_ledger *b) {
    return (two){.a = curve(0, header("fmn:1", at_a, 2, "pgd:1"), at_a, 2, 0), .b = b};
}

static void rows_of(two *t, int n) {
    if (vt_compare(t->p, 10, &t->n, t->a, t->b, false, &t->e) != VT_OK) fail_msg("%s", t->e.text);
    assert_int_equal(t->n, n);
}

static void close_two(two *t) {
    vt_pairs_free(t->p, t->n);
    vt_ledger_close(t->a), vt_ledger_close(t->b);
}

static void test_rows(void **state) {
    (void)state;
    two t = open_two(curve(1, header("fmn:1", at_b, 2, "pgd:1"), at_b, 2, 0));
    vt_pair *p = t.p;
    rows_of(&t, 5);
    row_is(&p[0], "clean", 10, 0, 1, 8, 9, NULL);
    /* A: 3 4 5 6 7 9 above 0.12; B: 1 to 9 */
    row_is(&p[1], "0.12", 10, 0, 3, 6, 9, "in A alone");
    /* A: 5 6 9 above 0.2; B: 1 3 4 5 7 8 9 (2 falls at 0.2 itself, 6 by pgd) */
    row_is(&p[2], "0.2", 10, 1, 5, 3, 7, NULL);
    /* A: 6 9; B: 4 7 8 9 */
    row_is(&p[3], "0.35", 10, 1, 3, 2, 4, "in B alone");
    assert_int_equal(p[1].changed[0], 1), assert_int_equal(p[1].changed[1], 2), assert_int_equal(p[1].changed[2], 8);
    /* fmn's norms: larger under A on 5, under B on 1 2 3 4 7 8, equal on 0 6 9 */
    row_is(&p[4], "norms", 10, 1, 6, 0, 0, NULL);
    assert_true(p[4].norms && !p[0].norms);
    /* A: 0 0 .05 .1 .15 .15 .2 .3 .4 inf; B: 0 .2 .25 .3 .3 .4 .5 .6 inf inf */
    assert_true(p[4].median_a == 0.15 && p[4].median_b == (0.3 + 0.4) / 2);
    assert_true(fabs(p[4].test.two_sided - 2 * (1 + 7) / 128.0) <= 1e-12); /* 7 signs, 1 against */
    vt_compare_adjust(p, t.n, 0.2);
    assert_true(fabs(p[4].adjusted - 5 * 2 * 8 / 128.0) <= 1e-12); /* Holm over all five */
    close_two(&t);
}

/* Other attacks are said; norms of other minimum-norm attacks are not compared. */
static void test_other_attacks(void **state) {
    (void)state;
    two t = open_two(curve(1, header("fmn:2", at_a, 2, "pgd:2"), at_a, 2, 0));
    rows_of(&t, 3);
    row_is(&t.p[0], "clean", 10, 0, 1, 8, 9, "norms are not compared");
    row_is(&t.p[1], "0.12", 10, 0, 3, 6, 9, "not the same in A and B");
    close_two(&t);
}

static void test_refusals(void **state) {
    (void)state;
    two t = open_two(curve(1, header("fmn:1", at_a, 2, "pgd:1"), at_a, 2, 4));
    vt_ledger *a = t.a, *b = t.b;
    vt_pair *p = t.p;
    vt_err e = {0};
    int n;
    t_says(vt_compare(p, 10, &n, a, b, false, &e), VT_E_USAGE, &e, "over different images: 10 and 6", "--common");
    vt_pairs_free(p, n);
    assert_int_equal(vt_compare(p, 10, &n, a, b, true, &e), VT_OK);
    row_is(&p[0], "clean", 6, 0, 0, 6, 6, NULL);
    row_is(&p[3], "norms", 6, 1, 3, 0, 0, NULL);
    vt_pairs_free(p, n);
    b->count--; /* image 9 at 0.2 */
    t_says(vt_compare(p, 10, &n, a, b, true, &e), VT_E_USAGE, &e, "is not finished", "pgd has results for");
    vt_pairs_free(p, n);
    b->count++;
    json_object_set_new(b->header->document, "norm", json_string("l2"));
    t_says(vt_compare(p, 10, &n, a, b, true, &e), VT_E_USAGE, &e, "norm", "l2");
    vt_ledger *c =
        curve(0, json_pack("{s:s,s:[{s:s,s:s}]}", "norm", "linf", "attacks", "name", "fmn", "id", "fmn:1"), at_a, 0, 0);
    t_says(vt_compare(p, 10, &n, a, c, false, &e), VT_E_USAGE, &e, "is a curve over eps", "one eps");
    t_says(vt_compare(p, 10, &n, c, a, false, &e), VT_E_USAGE, &e, "is a curve over eps", "one eps");
    vt_ledger_close(a), vt_ledger_close(b), vt_ledger_close(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_other_attacks),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("compare_curve", tests, NULL, NULL);
}
