/* SPDX-License-Identifier: MIT */
/* Wide tables in parts: cut where all rows are blank, the first field again in each part. */
#include "t.h"

#include "core/fold.h"

static void check(const char *text, int width, const char *want) {
    char *got;
    size_t n;
    FILE *f = open_memstream(&got, &n);
    assert_non_null(f);
    vt_fold(f, text, strlen(text), width);
    fclose(f);
    assert_string_equal(got, want);
    free(got);
}

static bool row(const char *line) { return vt_fold_is_row(line, strlen(line)); }

static void rows(void **state) {
    (void)state;
    assert_true(row("layer     W_Q   W_K"));
    assert_true(row("    0  1.25  3.50"));
    assert_false(row("a sentence, however long it may be and whatever it says"));
    assert_false(row("A  weights/one"));
    assert_false(row(""));
    assert_false(row("      W_Q by head"));
}

static void what_fits_stays(void **state) {
    (void)state;
    check("k    a    b\n1   10   20\n", 11, "k    a    b\n1   10   20\n");
}

static void parts_repeat_the_label(void **state) {
    (void)state;
    check("k    a    b\n1   10   20\n", 10, "k    a\n1   10\n\nk    b\n1   20\n");
    check("k    a    b    c\n1   10   20   30\n", 12, "k    a    b\n1   10   20\n\nk    c\n1   30\n");
}

/* A heading over two columns is never cut, nor is a field that no column allows to be. */
static void headings_stay_whole(void **state) {
    (void)state;
    check("k  a long heading  x\n1       2      3   4\n", 18, "k  a long heading\n1       2      3\n\nk  x\n1  4\n");
    check("one-very-long-field-that-has-no-gap\n", 10, "one-very-long-field-that-has-no-gap\n");
}

/* Nor is a sentence at the end of a row. */
static void sentences_stay_whole(void **state) {
    (void)state;
    check("k    a    b\n1   10   no limit here\n", 12, "k    a\n1   10\n\nk    b\n1   no limit here\n");
}

static void short_rows(void **state) {
    (void)state;
    check("k    a    b\n1   10\n2", 10, "k    a\n1   10\n2\n\nk    b\n1\n2\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows),
        cmocka_unit_test(what_fits_stays),
        cmocka_unit_test(parts_repeat_the_label),
        cmocka_unit_test(headings_stay_whole),
        cmocka_unit_test(sentences_stay_whole),
        cmocka_unit_test(short_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
