/* SPDX-License-Identifier: MIT */
/* Tables of text: widths, alignment, which columns leave, styles. */
#include "t.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/columns.h"

static const vt_column three[] = {{"", true, 0}, {"n", false, 0}, {"extra", false, 1}, {"more", true, 2}};

static void mark(FILE *f, vt_style s) { fputc("0BGX"[s], f); }

static char *printed(const vt_look *look) {
    char *text;
    size_t n;
    vt_columns t;
    FILE *f = open_memstream(&text, &n);
    assert_non_null(f);
    vt_columns_begin(&t, three, 4);
    const char *rows[][4] = {{"a", "1", "", "x"}, {"longer \xC3\xA9", "12345", "7", ""}};
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 4; k++)
            vt_columns_styled(&t, i && k == 1 ? VT_STYLE_BOLD : VT_STYLE_NONE, "%s", rows[i][k]);
    vt_columns_end(&t, f, look);
    fclose(f);
    return text;
}

static void check(const vt_look *look, const char *want) {
    char *text = printed(look);
    assert_string_equal(text, want);
    free(text);
}

static void everything(void **state) {
    (void)state;
    check(&(vt_look){0}, "              n  extra  more\n"
                         "a             1         x\n"
                         "longer \xC3\xA9  12345      7\n");
}

/* 28 characters hold all; one less and the largest rank leaves, then the next; what has rank 0 stays in any case. */
static void the_least_wanted_leaves(void **state) {
    (void)state;
    check(&(vt_look){.width = 28},
          "              n  extra  more\na             1         x\nlonger \xC3\xA9  12345      7\n");
    check(&(vt_look){.width = 27}, "              n  extra\na             1\nlonger \xC3\xA9  12345      7\n");
    check(&(vt_look){.width = 21}, "              n\na             1\nlonger \xC3\xA9  12345\n");
    check(&(vt_look){.width = 3}, "              n\na             1\nlonger \xC3\xA9  12345\n");
}

static void styles_stand_around_the_text(void **state) {
    (void)state;
    check(&(vt_look){.width = 21, .style = mark}, "              n\na             1\nlonger \xC3\xA9  B123450\n");
}

static void no_titles_no_line(void **state) {
    (void)state;
    static const vt_column bare[] = {{"", true, 0}, {"", true, 0}};
    char *text;
    size_t n;
    vt_columns t;
    FILE *f = open_memstream(&text, &n);
    assert_non_null(f);
    vt_columns_begin(&t, bare, 2);
    vt_columns_cell(&t, "%s", "k"), vt_columns_cell(&t, "%d", 5);
    vt_columns_end(&t, f, &(vt_look){0});
    fclose(f);
    assert_string_equal(text, "k  5\n");
    free(text);
}

static void what_is_too_wide_comes_in_parts(void **state) {
    (void)state;
    char *text;
    size_t n;
    vt_columns t;
    FILE *f = open_memstream(&text, &n);
    assert_non_null(f);
    vt_columns_titles(&t, "k\ta\t%s\t-c", "b");
    vt_columns_cells(&t, "%d\t%d\t20\t30", 1, 10);
    vt_columns_cell(&t, "2"), vt_columns_cells(&t, "\t\t300");
    vt_columns_end(&t, f, &(vt_look){.width = 9});
    fclose(f);
    assert_string_equal(text, "k   a   b\n1  10  20\n2\n\nk  c\n1  30\n2  300\n");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything),
        cmocka_unit_test(the_least_wanted_leaves),
        cmocka_unit_test(styles_stand_around_the_text),
        cmocka_unit_test(no_titles_no_line),
        cmocka_unit_test(what_is_too_wide_comes_in_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
