/* SPDX-License-Identifier: MIT */
/* VNN-LIB files: every way to write a box and a condition gives the same cases; what is not VNN-LIB 1.0, or says
 * nothing, is refused by name. */
#include <float.h>
#include <zlib.h>
#include "t.h"
#include "scratch.h"
#include "spec/spec.h"

#define XS "(declare-const X_0 Real) (declare-const X_1 Real)\n"
#define YS "(declare-const Y_0 Real) (declare-const Y_1 Real) (declare-const Y_2 Real)\n"
#define BOX "(assert (>= X_0 0.1)) (assert (<= X_0 0.3)) (assert (>= X_1 -1)) (assert (<= X_1 2e-1))\n"
#define LAST "(assert (>= Y_1 Y_0))\n"

static vt_spec *read_text(const char *text) {
    vt_spec *s;
    vt_err e = {0};
    if (vt_spec_parse(&s, text, strlen(text), "f", &e) != VT_OK) fail_msg("refused: %s", e.text);
    return s;
}

static void refuse(const char *text, const char *says) {
    vt_spec *s;
    vt_err e = {0};
    t_says(vt_spec_parse(&s, text, strlen(text), "f.vnnlib", &e), VT_E_FORMAT, &e, "f.vnnlib: ", says);
    assert_null(s);
}

static void check_box(const vt_spec *s, int box) {
    static const double lo[] = {0.1, -1}, hi[] = {0.3, 0.2};
    assert_int_equal(s->inputs, 2), assert_int_equal(s->outputs, 3);
    assert_memory_equal(s->boxes[box].lo, lo, sizeof lo);
    assert_memory_equal(s->boxes[box].hi, hi, sizeof hi);
}

/* Violation of case k at outputs y. */
static double miss(const vt_spec *s, int k, double y0, double y1, double y2) {
    return vt_spec_violation(s, &s->cases[k], (const double[]){y0, y1, y2}, NULL);
}

static void test_boxes_in_all_styles(void **state) {
    (void)state;
    static const char *const styles[] = {
        XS YS BOX LAST,
        "; a comment ) (\n" XS "\n" YS BOX "; another\r\n" LAST,
        XS YS "(assert (and (>= X_0 0.1) (<= X_0 0.3) (>= X_1 -1) (<= X_1 0.2)))" LAST,
        XS YS "(assert (<= 0.1 X_0)) (assert (>= 0.3 X_0)) (assert (<= (- 1) X_1)) (assert (>= 0.20 X_1))" LAST,
        XS YS "(assert(or(and(>= X_0 .1)(<= X_0 .3)(>= X_1 (- 1.))(<= X_1 (/ 1 5))(<= Y_0 Y_1))))",
        XS YS BOX "(assert (<= X_0 0.9)) (assert (>= X_1 -3))" LAST,
        "(declare-const X_1 Real)(declare-const X_0 Real)" YS BOX "(assert (<= (- X_0) 5))" LAST,
    };
    for (size_t i = 0; i < T_COUNT(styles); i++) {
        vt_spec *s = read_text(styles[i]);
        assert_int_equal(s->n_boxes, 1), assert_int_equal(s->n_cases, 1);
        check_box(s, 0);
        assert_true(miss(s, 0, 2, 3, 0) == -1 && miss(s, 0, 3, 2, 0) == 1 && miss(s, 0, 1, 1, 0) == 0);
        vt_spec_close(s);
    }
}

static void test_cases(void **state) {
    (void)state;
    vt_spec *s = read_text(
        XS YS "(assert (or (and (>= X_0 0.1) (<= X_0 0.3) (>= Y_0 Y_2)) (and (>= X_0 0.1) (<= X_0 0.3) (>= Y_1 "
              "Y_2)) (and (>= X_0 1) (<= X_0 1.5) (>= Y_1 7))))(assert (>= X_1 -1)) (assert (<= X_1 0.2))");
    assert_int_equal(s->n_cases, 3), assert_int_equal(s->n_boxes, 2);
    check_box(s, s->cases[0].box), check_box(s, s->cases[1].box);
    assert_true(s->boxes[s->cases[2].box].lo[0] == 1 && s->boxes[s->cases[2].box].hi[0] == 1.5);
    assert_true(miss(s, 0, 1, 5, 2) == 1 && miss(s, 1, 1, 5, 2) == -3 && miss(s, 2, 1, 5, 2) == 2);
    vt_spec_close(s);
    /* a conjunction of choices is every pair of them; (and (or ...)) is the same; atoms may stand in an `or` */
    static const char *const same[] = {XS YS BOX
                                       "(assert (or (<= Y_0 1) (<= Y_0 2))) (assert (or (and (<= Y_1 3)) (<= Y_1 4)))",
                                       XS YS BOX
                                       "(assert (and (or (<= Y_0 1) (<= Y_0 2)) (or (<= Y_1 3) (<= Y_1 4))))"};
    for (size_t i = 0; i < T_COUNT(same); i++) {
        s = read_text(same[i]);
        assert_int_equal(s->n_cases, 4), assert_int_equal(s->n_boxes, 1);
        for (int k = 0; k < 4; k++) assert_true(miss(s, k, 1.5, 3.5, 0) == (k < 2 || k % 2 == 0 ? 0.5 : -0.5));
        vt_spec_close(s);
    }
    s = read_text(XS YS BOX "(assert (and (or (<= Y_0 1) (<= Y_0 2)) (<= Y_1 3) (<= Y_2 0)))");
    assert_int_equal(s->n_cases, 2);
    assert_true(miss(s, 0, 0, 5, 1) == 2 && miss(s, 1, 0, 5, 1) == 2 && miss(s, 1, 0, 0, 7) == 7);
    vt_spec_close(s);
    /* a case whose box is empty is left out */
    s = read_text(XS YS BOX "(assert (or (and (<= X_0 0.05) (<= Y_0 0)) (<= Y_1 0)))");
    assert_int_equal(s->n_cases, 1), assert_int_equal(s->n_empty, 1);
    assert_true(miss(s, 0, 0, 2, 0) == 2);
    vt_spec_close(s);
}

static void test_linear_conditions(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double at; /* its violation at Y = 1, 2, 4 */
    } rows[] = {{"(<= Y_0 Y_1)", -1},
                {"(>= Y_0 Y_1)", 1},
                {"(<= 3.5 Y_2)", -0.5},
                {"(<= (+ Y_0 Y_1 Y_2) 10)", -3},
                {"(>= (- Y_2 Y_0 1) (* 2 Y_1))", 2},
                {"(<= (* Y_2 (/ 1 4)) (/ Y_1 (- 4)))", 1.5},
                {"(<= (- (* 2 (+ Y_0 0.5))) 0)", -3},
                {"(= (+ Y_0 Y_1) 2)", 1},
                {"(< Y_0 1)", DBL_EPSILON / 2},
                {"(> Y_1 2)", 2 * DBL_EPSILON},
                {"(> Y_1 Y_0)", -1}};
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        char text[600];
        snprintf(text, sizeof text, XS YS BOX "(assert %s)", rows[i].text);
        vt_spec *s = read_text(text);
        const double v = miss(s, 0, 1, 2, 4);
        if (v != rows[i].at) fail_msg("%s: %.17g instead of %.17g", rows[i].text, v, rows[i].at);
        vt_spec_close(s);
    }
    vt_spec *s = read_text(XS YS BOX "(assert (> Y_1 Y_0))");
    assert_true(miss(s, 0, 1, 1, 0) > 0 && miss(s, 0, 1, NAN, 0) == INFINITY);
    vt_spec_close(s);
}

/* The float32 box lies within the text's; where no float32 does, X is the text's bound. */
static void test_float_box(void **state) {
    (void)state;
    vt_spec *s = read_text(XS YS BOX LAST);
    const vt_spec_box *b = &s->boxes[0];
    for (int i = 0; i < 2; i++) {
        assert_true((double)b->near[i] >= b->lo[i] && (double)b->far[i] <= b->hi[i]);
        assert_true((double)nextafterf(b->near[i], -INFINITY) < b->lo[i]);
        assert_true((double)nextafterf(b->far[i], INFINITY) > b->hi[i]);
        assert_true(vt_spec_input(b, i, b->near[i]) == (double)b->near[i]);
    }
    assert_int_equal(b->between, 0);
    vt_spec_close(s);
    s = read_text(XS YS "(assert (= X_0 0.1)) (assert (> X_1 0)) (assert (< X_1 0.25))" LAST);
    b = &s->boxes[0];
    assert_int_equal(b->between, 1);
    assert_true(b->near[0] == 0.1f && b->far[0] == 0.1f && vt_spec_input(b, 0, 0.1f) == 0.1);
    assert_true(b->near[1] > 0 && b->near[1] < 1e-44f && b->far[1] == nextafterf(0.25f, 0));
    vt_spec_close(s);
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"", "declares no input X_0"},
        {XS, "declares no output Y_0"},
        {XS YS BOX, "says nothing about an output"},
        {XS YS BOX "(assert (or (<= Y_0 1) (<= X_0 0.2)))", "says nothing about an output Y in every case"},
        {XS YS LAST, "X_0 has no lower bound"},
        {XS YS "(assert (>= X_0 0)) (assert (<= X_0 1)) (assert (>= X_1 0))" LAST, "X_1 has no upper bound"},
        {XS YS BOX "(assert (<= X_1 -1.5))" LAST,
         "its box is empty: line 3: X_1 is at least -1, but at most -1.5 by line 4"},
        {XS YS BOX "(assert (> X_0 0.3))" LAST, "its box is empty"},
        {XS YS BOX "(assert (<= X_1 nan))", "line 4: 'nan' is no decimal number"},
        {XS YS BOX "(assert (<= X_1 inf))", "'inf' is no decimal number"},
        {XS YS BOX "(assert (<= X_1 1e999))", "'1e999' is beyond the largest double"},
        {XS YS "(assert (<= X_0 1e39)) (assert (>= X_0 0)) (assert (= X_1 0))" LAST, "X_0 is bounded by 1e+39"},
        {XS YS BOX "(assert (<= X_1 0x1p-2))", "'0x1p-2'"},
        {XS YS BOX "(assert (<= X_1 0.3abc))", "'0.3abc'"},
        {XS YS BOX "(assert (<= X_1 0,3))", "'0,3'"},
        {XS YS BOX "(assert (<= X_1 1e))", "'1e'"},
        {XS YS BOX "(assert (<= X_1 .))", "'.'"},
        {XS YS BOX "(assert (<= X_2 1))", "'X_2' is not declared"},
        {XS YS BOX "(assert (<= X_01 1))", "'X_01'"},
        {XS YS BOX "(assert (<= Y_0 X_0))", "an output is compared with an input"},
        {XS YS BOX "(assert (<= X_1 X_0))", "bounded by more than a number"},
        {XS YS BOX "(assert (<= (* 2 X_0) 1))", "bounded by more than a number"},
        {XS YS BOX "(assert (<= (+ X_0 1) 1))", "bounded by more than a number"},
        {XS YS BOX "(assert (>= (* Y_0 Y_1) 1))", "(* ...) of two variables"},
        {XS YS BOX "(assert (>= (/ 1 Y_1) 1))", "(/ ...) of two variables"},
        {XS YS BOX "(assert (>= (/ Y_1 0) 1))", "a division by 0"},
        {XS YS BOX "(assert (>= (+ Y_1) 1))", "has 1 operand, which is too few"},
        {XS YS BOX "(assert (>= (- ) Y_0))", "has 0 operands"},
        {XS YS BOX "(assert (>= (* 1e300 1e300) Y_0))", "a constant beyond the largest double"},
        {XS YS BOX "(assert (>= 1 2))", "a comparison of numbers alone"},
        {XS YS BOX "(assert (<= 1 Y_0 2))", "'2' stands where ')' must"},
        {XS YS BOX "(assert (<= Y_0))", "')' stands where a number must"},
        {XS YS BOX "(assert (or (and)))", "an empty (and), which is always true"},
        {XS YS BOX "(assert (or))", "an empty (or), which is always false"},
        {XS YS BOX "(assert (not (<= Y_0 1)))", "'not' is no condition"},
        {XS YS BOX "(assert Y_0)", "'Y_0' stands where '(' must"},
        {XS YS BOX "(assert (<= Y_0 1)", "the file's end stands where ')' must"},
        {XS YS BOX "(check-sat)", "'check-sat' is no command"},
        {"(vnnlib-version <2.0>)", "is of VNN-LIB 2.0"},
        {XS YS BOX LAST ")", "')' stands where a command must begin"},
        {XS "(declare-const X_0 Real)", "'X_0' is declared twice"},
        {"(declare-const X_0 Int)", "sort 'Int', must be Real"},
        {"(declare-const Z_0 Real)", "'Z_0' is declared, must be X_0"},
        {"(declare-const X_0 Real)(declare-const X_2 Real)(declare-const Y_0 Real)", "declares X_2, but not X_1"},
        {"(declare-const X_60000000 Real)", "not all of a lower number"},
        {"(declare-const X_99999999 Real)", "at most"},
    };
    for (size_t i = 0; i < T_COUNT(rows); i++) refuse(rows[i].text, rows[i].says);
}

/* Nesting, and cases that multiply, end in a sentence; control characters are not shown. */
static void test_limits(void **state) {
    (void)state;
    enum { OPEN = 200000 };
    char *deep = malloc(OPEN + 200);
    memset(deep, '(', OPEN), deep[OPEN] = 0;
    refuse(deep, "'(' is no command");
    int n = sprintf(deep, XS YS "(assert ");
    for (int i = 0; i < 30000; i++) n += sprintf(deep + n, "(or ");
    refuse(deep, "more than 64 parentheses are open");
    n = sprintf(deep, XS YS "(assert (<= ");
    for (int i = 0; i < 30000; i++) n += sprintf(deep + n, "(- ");
    refuse(deep, "more than 64 parentheses are open");
    for (int kind = 0; kind < 2; kind++) {
        n = sprintf(deep, XS YS BOX "%s", kind ? "(assert (and " : "");
        for (int i = 0; i < 17; i++)
            n += sprintf(deep + n, kind ? "(or (<= Y_0 %d) (<= Y_1 1)) " : "(assert (or (<= Y_0 %d) (<= Y_1 1)))", i);
        sprintf(deep + n, kind ? "))" : "");
        refuse(deep, kind ? "more than 65536 cases" : "have more than 65536 cases together");
    }
    refuse("(\x1b[31m)", "'?[31m' is no command");
    free(deep);
}

static void test_packed_files(void **state) {
    (void)state;
    const char *path = at("a.vnnlib");
    char packed[300];
    vt_spec *s;
    vt_err e = {0};
    snprintf(packed, sizeof packed, "%s.gz", path);
    gzFile z = gzopen(packed, "wb");
    assert_true(z && gzputs(z, XS YS BOX LAST) > 0 && gzclose(z) == Z_OK);
    for (int k = 0; k < 2; k++) { /* by its name, and by that of the file that it stands for */
        assert_int_equal(vt_spec_open(&s, k ? path : packed, &e), VT_OK);
        check_box(s, 0);
        vt_spec_close(s);
    }
    assert_int_equal(truncate(packed, 60), 0);
    t_says(vt_spec_open(&s, packed, &e), VT_E_FORMAT, &e, "a.vnnlib.gz: ", "is cut");
    z = gzopen(packed, "wb9");
    char *blanks = calloc(1, 1 << 20);
    for (int k = 0; k < 200; k++) assert_true(gzwrite(z, blanks, 1 << 20) > 0);
    assert_int_equal(gzclose(z), Z_OK);
    free(blanks);
    t_says(vt_spec_open(&s, packed, &e), VT_E_FORMAT, &e, "unpacks to more than", "");
    FILE *f = fopen(packed, "wb");
    assert_true(f && fwrite("\x1f\x8bno", 1, 4, f) == 4 && !fclose(f));
    t_says(vt_spec_open(&s, packed, &e), VT_E_FORMAT, &e, "is damaged", "");
    t_says(vt_spec_open(&s, at("none"), &e), VT_E_IO, &e, "none", "");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_boxes_in_all_styles),
                                       cmocka_unit_test(test_cases),
                                       cmocka_unit_test(test_linear_conditions),
                                       cmocka_unit_test(test_float_box),
                                       cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_limits),
                                       cmocka_unit_test(test_packed_files)};
    return cmocka_run_group_tests(tests, make_tmp, remove_tmp);
}
