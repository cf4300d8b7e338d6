/* SPDX-License-Identifier: MIT */
/* Success over queries (eval/report/queries.h), on ledgers that are written down here. A black-box attack run again
 * with a smaller budget is the judge of real ones: tests/cli/show.bats. */
#include "eval/report/queries.h"

#include "eval/header.h"
#include "t.h"

static vt_header_stage stages[] = {{.name = "pgd"}, {.name = "square"}, {.name = "square"},
                                   {.name = "nes"}, {.name = "square"}, {.name = "pgd"}};
static vt_header_attack attacks[] = {{.name = "pgd", .stages = stages, .n_stages = 1},
                                     {.name = "square", .stages = stages + 1, .n_stages = 1},
                                     {.name = "square+nes", .stages = stages + 2, .n_stages = 2},
                                     {.name = "square+pgd", .stages = stages + 4, .n_stages = 2}};

/* image, entry, stage, forwards, broken: in no order */
static vt_record lines[] = {
    {.image = 4, .entry = 2, .forwards = 9, .status = VT_RECORD_BROKEN},
    {.image = 1, .entry = 0, .forwards = 1, .status = VT_RECORD_CORRECT},
    {.image = 1, .entry = 3, .stage = 1, .forwards = 30, .status = VT_RECORD_BROKEN},
    {.image = 1, .entry = 1, .forwards = 1, .status = VT_RECORD_BROKEN},
    {.image = 1, .entry = 2, .forwards = 100, .status = VT_RECORD_ROBUST},
    {.image = 1, .entry = 3, .stage = 0, .forwards = 100, .status = VT_RECORD_ROBUST},
    {.image = 2, .entry = 2, .forwards = 9, .status = VT_RECORD_BROKEN},
    {.image = 3, .entry = 2, .forwards = 50, .status = VT_RECORD_BROKEN},
    {.image = 4, .entry = 3, .stage = 0, .forwards = 7, .status = VT_RECORD_BROKEN},
    {.image = 3, .entry = 4, .stage = 0, .forwards = 7, .status = VT_RECORD_BROKEN},
};

static vt_header header = {.attacks = attacks, .n_attacks = T_COUNT(attacks)};
static vt_ledger ledger = {.dir = (char *)"run", .header = &header, .records = lines, .count = T_COUNT(lines)};

static void test_counts(void **state) {
    (void)state;
    vt_queries *q;
    int n;
    assert_int_equal(vt_queries_make(&q, &n, &ledger, NULL), VT_OK);
    assert_int_equal(n, 2); /* neither pgd nor the list with it */
    assert_string_equal(q[0].label, "square");
    assert_int_equal(q[0].tried, 4);
    assert_int_equal(q[0].broken, 3);
    assert_true(q[0].at[0] == 9 && q[0].at[1] == 9 && q[0].at[2] == 50);
    assert_string_equal(q[1].label, "square+nes");
    assert_int_equal(q[1].tried, 2);
    assert_int_equal(q[1].broken, 2);
    assert_true(q[1].at[0] == 7 && q[1].at[1] == 130); /* both stages' queries */
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    vt_queries_csv(f, q, n);
    fclose(f);
    assert_string_equal(text, "attack,queries,broken,tried,percent\nsquare,9,2,4,50.0000\nsquare,50,3,4,75.0000\n"
                              "square+nes,7,1,2,50.0000\nsquare+nes,130,2,2,100.0000\n");
    free(text);
    vt_mark marks[8];
    assert_int_equal(vt_queries_marks(marks, 8, q, n), 4);
    assert_true(marks[0].x == 9 && marks[0].y == 50 && marks[1].x == 50 && marks[1].y == 75);
    assert_true(marks[3].x == 130 && marks[3].y == 100 && marks[3].series == q[1].label);
    assert_int_equal(vt_queries_marks(marks, 2, q, n), 2); /* one each: the last */
    assert_true(marks[0].x == 50 && marks[1].x == 130);
    vt_queries_free(q, n);
}

/* Where attacks go on after the query that broke the image, counts do not say which it was. */
static void test_none(void **state) {
    (void)state;
    vt_queries *q;
    int n;
    header.exhaustive = true;
    assert_int_equal(vt_queries_make(&q, &n, &ledger, NULL), VT_OK);
    assert_int_equal(n, 0);
    vt_queries_free(q, n);
    header.exhaustive = false, header.curve = true;
    assert_int_equal(vt_queries_make(&q, &n, &ledger, NULL), VT_OK);
    assert_int_equal(n, 0);
    vt_queries_free(q, n);
    header.curve = false;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_counts), cmocka_unit_test(test_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
