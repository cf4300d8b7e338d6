/* SPDX-License-Identifier: MIT */
/* --as-published: the table of papers, and the two numbers beside each other as a function of a ledger. */
#include "t.h"
#include "run_header.h"

#include "attacks/attack.h"
#include "eval/report/published.h"

static const char *const names[] = {"specformer", "specformer-imagenet", "mo2022", "mo2022-imagenet", "trades"};

static vt_attack parse(const char *spec) {
    vt_attack a;
    vt_err e = {0};
    if (vt_attack_parse(&a, spec, VT_LINF, &e) != VT_OK) fail_msg("%s", e.text);
    return a;
}

/* Every row names a published evaluator and a corrected attack, of the same steps and step size. */
static void test_table(void **state) {
    (void)state;
    for (size_t k = 0; k < T_COUNT(names); k++) {
        const vt_paper *p;
        assert_int_equal(vt_paper_find(&p, names[k], NULL), VT_OK);
        assert_string_equal(p->name, names[k]);
        assert_true(*p->citation && p->rows[0].label);
        for (int i = 0; i < VT_PUBLISHED_ROWS && p->rows[i].label; i++) {
            vt_attack a = parse(p->rows[i].published), b = parse(p->rows[i].corrected);
            assert_int_equal(a.scoring, VT_SCORE_PUBLISHED);
            assert_int_equal(b.scoring, VT_SCORE_BALL);
            assert_true(strlen(p->rows[i].label) < sizeof a.name && strlen(p->rows[i].why) > 20);
            char x[64], y[64];
            const char *steps = strstr(a.id, "steps="), *other = strstr(b.id, "steps=");
            if (!strcmp(p->rows[i].label, "FGSM")) {
                assert_true(!steps && !other);
            } else {
                assert_int_equal(sscanf(steps, "%63[^,],%*[^,]", x), 1); /* steps=20 */
                assert_int_equal(sscanf(other, "%63[^,]", y), 1);
                assert_string_equal(x, y);
                assert_int_equal(atoi(x + 6), atoi(strchr(p->rows[i].label, '-') + 1));
                assert_int_equal(sscanf(strstr(a.id, "alpha="), "%63[^,]", x), 1);
                assert_int_equal(sscanf(strstr(b.id, "alpha="), "%63[^,]", y), 1);
                assert_string_equal(x, y);
                bool margin = strstr(b.id, "loss=margin") != NULL;
                assert_int_equal(margin, !strcmp(p->rows[i].label, "CW-20"));
                assert_int_equal(margin, strstr(a.id, "loss=cw") != NULL);
            }
            vt_attack_free(&a), vt_attack_free(&b);
        }
    }
}

/* What --individual makes of a published entry is published still. */
static void test_single(void **state) {
    (void)state;
    vt_attack a = parse("pgd-specformer:loss=cw"), one;
    assert_int_equal(vt_attack_single(&one, &a, 0, NULL), VT_OK);
    assert_int_equal(one.scoring, VT_SCORE_PUBLISHED);
    vt_attack_free(&a), vt_attack_free(&one);
}

static void test_refusals(void **state) {
    (void)state;
    const vt_paper *p = NULL;
    vt_err e = {0};
    t_says(vt_paper_find(&p, "tradse", &e), VT_E_USAGE, &e, "'tradse'", "did you mean 'trades'?");
    t_says(vt_paper_find(&p, "", &e), VT_E_USAGE, &e, "unknown paper ''", "mo2022-imagenet and trades");
    assert_null(p);
    assert_int_equal(vt_paper_find(&p, "trades", &e), VT_OK);
    assert_int_equal(vt_paper_fits(p, VT_LINF, NULL, 8.0 / 255, "8/255", &e), VT_OK);
    assert_int_equal(vt_paper_fits(p, VT_LINF, NULL, 0.031, "0.031", &e), VT_OK);
    t_says(vt_paper_fits(p, VT_LINF, NULL, 4.0 / 255, "4/255", &e), VT_E_USAGE, &e, "--eps is 4/255", "8/255");
    t_says(vt_paper_fits(p, VT_LINF, NULL, NAN, "nan", &e), VT_E_USAGE, &e, "0.031", "nan");
    t_says(vt_paper_fits(p, VT_L1, NULL, 8.0 / 255, "8/255", &e), VT_E_USAGE, &e, "trades", "--norm l1");
    assert_int_equal(vt_paper_find(&p, "mo2022", &e), VT_OK);
    assert_int_equal(vt_paper_fits(p, VT_LINF, NULL, 0.5, "0.5", &e), VT_OK);
    t_says(vt_paper_fits(p, VT_LINF, "patch:size=4", 1, "1", &e), VT_E_USAGE, &e, "mo2022", "--threat patch:size=4");
}

/* A run of two entries whose header has these rows, as it is read again; NULL: it is refused. */
static vt_header *run_of(const vt_paper *p, const vt_named_attack *entries) {
    vt_header *h = t_header(json_pack("{s:[{s:s},{}]}", "attacks", "scoring", "as published")), *again;
    vt_err e = {0};
    if (p) assert_int_equal(vt_published_describe(h, p, entries, NULL), VT_OK);
    vt_status s = vt_header_read(&again, json_deep_copy(h->document), "run", &e);
    assert_true(s == (again ? VT_OK : VT_E_FORMAT));
    vt_header_free(h);
    return again;
}

/* Rows are read from the header, which is a file: one with numbers that it does not have is refused. */
static void test_pairs(void **state) {
    (void)state;
    vt_entry_summary entries[2] = {{.all.robust = 7}, {.all.robust = 4}};
    vt_published_pair pair;
    const vt_paper *p;
    char title[100];
    vt_header *none = run_of(NULL, NULL);
    vt_summary s = {.header = none, .total = 20, .entries = entries, .n_entries = 2};
    assert_false(vt_published_pair_at(&s, 0, &pair));
    assert_null(vt_published_title(&s, title, sizeof title));
    vt_header_free(none);
    assert_int_equal(vt_paper_find(&p, "trades", NULL), VT_OK);
    vt_header *h = run_of(p, (const vt_named_attack[]){{.entry = 1}, {.entry = 2}});
    s.header = h;
    assert_true(vt_published_pair_at(&s, 0, &pair));
    assert_true(pair.published == 7 && pair.corrected == 4 && pair.total == 20 && pair.points == 15);
    assert_string_equal(pair.label, "PGD-20");
    assert_false(vt_published_pair_at(&s, 1, &pair));
    assert_false(vt_published_pair_at(&s, -1, &pair));
    assert_string_equal(vt_published_title(&s, title, sizeof title), "trades: Zhang et al. 2019 (ICML), TRADES");
    s.total = 0;
    assert_true(vt_published_pair_at(&s, 0, &pair) && pair.points == 0);
    vt_header_free(h);
    static const int wrong[][2] = {{0, 1}, {1, 3}, {-1, 2}, {1, INT32_MAX}};
    for (size_t k = 0; k < T_COUNT(wrong); k++)
        assert_null(run_of(p, (const vt_named_attack[]){{.entry = wrong[k][0]}, {.entry = wrong[k][1]}}));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table), cmocka_unit_test(test_single),
                                       cmocka_unit_test(test_refusals), cmocka_unit_test(test_pairs)};
    return cmocka_run_group_tests_name("papers", tests, NULL, NULL);
}
