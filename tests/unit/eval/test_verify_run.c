/* SPDX-License-Identifier: MIT */
/* eval/verify_run and eval/report/checksums: a run that is as it was has no findings; each thing that is changed in its
 * ledger is found, by the judge alone. */
#include "scratch.h"
#include "toy.h"
#include "run_header.h"

#include <sys/stat.h>
#include "eval/report/summary.h"
#include "eval/evaluate.h"
#include "eval/verify_run.h"
#include "eval/report/checksums.h"
#include "tools/draw.h"

enum { SIDE = 32, IMAGES = 60 };

typedef struct bench {
    vt_subject subject;
    vt_ledger *ledger;
    char dir[300];
    int32_t images[IMAGES];
} bench;

static bench b;

/* A run of pgd on drawn images, in floats and in 8 bits, finished and sealed. */
static int open_bench(void **state) {
    vt_err e = {0};
    vt_attack a[2];
    vt_summary s;
    if (make_tmp(state)) return -1;
    vt_config c = toy_config("dot", VT_POOL_TOKEN, false, true);
    c.image = SIDE, c.patch = 8, c.classes = 10;
    b.subject.model = toy_model(&c, 5);
    snprintf(b.dir, sizeof b.dir, "%s", at("run"));
    for (int i = 0; i < IMAGES; i++) b.images[i] = i;
    assert_int_equal(vt_draw_write(at("d"), 10, IMAGES, 1, &e), VT_OK);
    assert_int_equal(vt_dataset_open(&b.subject.data, at("d"), VT_SPLIT_TEST, &e), VT_OK);
    for (int i = 0; i < 2; i++) assert_int_equal(vt_attack_parse(&a[i], "pgd:steps=3", VT_LINF, &e), VT_OK);
    a[1].scoring = VT_SCORE_EIGHT_BIT;
    vt_eval_options v = {.subject = &b.subject, .images = b.images, .n_images = IMAGES, .eps = 8.0 / 255};
    v.eps_text = "8/255", v.threads = 2, v.attacks = a, v.n_attacks = 2;
    vt_header *header = t_header_of(&v);
    if (vt_ledger_create(&b.ledger, b.dir, header, 3 * SIDE * SIDE, &e) != VT_OK) fail_msg("%s", e.text);
    if (vt_eval_run(&v, b.ledger, &e) != VT_OK) fail_msg("%s", e.text);
    if (vt_ledger_finish(b.ledger, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(vt_summary_make(&s, b.ledger, 0, &e), VT_OK);
    assert_int_equal(vt_reports_write(&s, b.dir, NULL, &e), VT_OK);
    vt_summary_free(&s);
    assert_int_equal(vt_checksums_write(b.dir, &e), VT_OK);
    struct stat st;
    b.ledger->adv_length = stat(at("run/adv.bin"), &st) == 0 ? (int64_t)st.st_size : -1;
    vt_header_free(header);
    vt_attack_free(&a[0]), vt_attack_free(&a[1]);
    return 0;
}

static int close_bench(void **state) {
    vt_ledger_close(b.ledger);
    vt_subject_close(&b.subject);
    return remove_tmp(state);
}

static vt_status recheck(vt_findings *found, vt_run_verifier *r, vt_err *e) {
    *found = (vt_findings){0};
    *r = (vt_run_verifier){.ledger = b.ledger, .subject = &b.subject, .threads = 2};
    return vt_verify_run(r, found, e);
}

/* The first record of a kind. */
static vt_record *first(vt_record_status status) {
    for (size_t i = 0; i < b.ledger->count; i++)
        if (b.ledger->records[i].status == (uint8_t)status) return &b.ledger->records[i];
    fail_msg("the run has no image that is %s", vt_record_status_name(status));
    return NULL;
}

static void test_untouched(void **state) {
    (void)state;
    vt_findings found;
    vt_run_verifier r;
    vt_err e = {0};
    int64_t broken = 0;
    for (size_t i = 0; i < b.ledger->count; i++) broken += b.ledger->records[i].status == VT_RECORD_BROKEN;
    assert_true(broken > 0);
    if (recheck(&found, &r, &e) != VT_OK) fail_msg("%s", e.text);
    if (found.n) fail_msg("%s", found.text[0]);
    if (vt_checksums_check(b.ledger, &found, &e) != VT_OK) fail_msg("%s", e.text);
    if (found.n) fail_msg("%s", found.text[0]);
    assert_true(r.exact && r.clean == IMAGES && r.points == broken && r.broken == broken);
}

/* One finding that holds the words; then the record is put back. */
static void found_once(vt_record *r, const vt_record *changed, const char *words) {
    vt_findings found;
    vt_run_verifier c;
    vt_err e = {0};
    vt_record kept = *r;
    *r = *changed;
    if (recheck(&found, &c, &e) != VT_OK) fail_msg("%s", e.text);
    *r = kept;
    if (found.n != 1) fail_msg("%zu findings instead of one with '%s'", found.n, words);
    if (!strstr(found.text[0], words)) fail_msg("'%s' does not hold '%s'", found.text[0], words);
    vt_findings_free(&found);
}

static void test_changes(void **state) {
    (void)state;
    vt_record *broken = first(VT_RECORD_BROKEN), *wrong = first(VT_RECORD_WRONG), c;
#define CHANGED(record, field, value, words)                                                                           \
    do {                                                                                                               \
        c = *(record), c.field = (value);                                                                              \
        found_once(record, &c, words);                                                                                 \
    } while (0)
    CHANGED(broken, status, VT_RECORD_ROBUST, "is broken, the ledger says robust");
    CHANGED(broken, status, VT_RECORD_INVALID, "is broken, the ledger says invalid");
    CHANGED(broken, pred, (broken->pred + 1) % 10, "is taken for class");
    CHANGED(broken, pred64, (broken->pred64 + 1) % 10, "in double)");
    CHANGED(broken, linf, nextafter(broken->linf, 1), "lies at linf");
    CHANGED(broken, l2, nextafter(broken->l2, 0), "lies at linf");
    CHANGED(broken, l1, nextafter(broken->l1, 0), "lies at linf");
    CHANGED(broken, margin, nextafter(broken->margin, 9), "has margin");
    CHANGED(broken, margin64, nextafter(broken->margin64, 9), "has margin");
    CHANGED(broken, borderline, !broken->borderline, "borderline");
    CHANGED(broken, sha, broken->sha ^ 1, "is not there");
    CHANGED(broken, label, (broken->label + 1) % 10, "has label");
    CHANGED(wrong, pred, (wrong->pred + 1) % 10, "is taken for class");
    CHANGED(wrong, margin, nextafter(wrong->margin, 9), "has margin");
    CHANGED(wrong, sha, wrong->sha ^ 1, "its pixels are not those");
#undef CHANGED
}

/* The float point of the same image in place of an 8-bit one: inside for floats, but no point of whole levels. */
static void test_eight_bit(void **state) {
    (void)state;
    vt_record *eight = NULL, *plain = NULL;
    for (size_t i = 0; i < b.ledger->count; i++) {
        vt_record *r = &b.ledger->records[i];
        if (r->entry == 2 && r->status == VT_RECORD_BROKEN && !eight) eight = r;
    }
    assert_non_null(eight);
    for (size_t i = 0; i < b.ledger->count; i++) {
        vt_record *r = &b.ledger->records[i];
        if (r->entry == 1 && r->image == eight->image) plain = r;
    }
    assert_true(plain && plain->status == VT_RECORD_BROKEN && plain->sha != eight->sha);
    vt_record c = *plain;
    c.entry = 2;
    found_once(eight, &c, "is invalid, the ledger says broken");
}

/* Missing tensors and unfinished runs are no findings but refusals. */
static void test_refusals(void **state) {
    (void)state;
    vt_findings found;
    vt_run_verifier r;
    vt_err e = {0};
    vt_record *broken = first(VT_RECORD_BROKEN), kept = *broken;
    broken->adv = -1;
    t_says(recheck(&found, &r, &e), VT_E_USAGE, &e, "is broken, but its line names no tensor", b.dir);
    broken->adv = b.ledger->adv_length - 12287;
    t_says(recheck(&found, &r, &e), VT_E_USAGE, &e, "is missing", "adv.bin");
    *broken = kept;
    b.ledger->count--;
    t_says(recheck(&found, &r, &e), VT_E_USAGE, &e, "is not finished", "1 image-stages");
    b.ledger->count++;
}

/* A model that draws noise at every call: how many calls an attack made is written nowhere, and yet the same verdicts
 * come out, for any number of threads; with another seed, or without the noise, they do not. */
static void test_noise(void **state) {
    (void)state;
    vt_findings found = {0};
    vt_err e = {0};
    vt_attack a;
    vt_subject noisy = b.subject;
    assert_int_equal(vt_attack_parse(&a, "pgd:steps=3", VT_LINF, &e), VT_OK);
    assert_int_equal(vt_wrap_parse(&noisy.wrap, "noise:sigma=0.1", &e), VT_OK);
    vt_eval_options v = {.subject = &b.subject, .images = b.images, .n_images = IMAGES, .eps = 8.0 / 255};
    v.eps_text = "8/255", v.threads = 2, v.attacks = &a, v.n_attacks = 1, v.subject = &noisy, v.seed = 9;
    vt_header *header = t_header_of(&v);
    vt_ledger *l;
    if (vt_ledger_create(&l, at("noisy"), header, 3 * SIDE * SIDE, &e) != VT_OK) fail_msg("%s", e.text);
    if (vt_eval_run(&v, l, &e) != VT_OK || vt_ledger_finish(l, &e) != VT_OK) fail_msg("%s", e.text);
    struct stat st;
    l->adv_length = stat(at("noisy/adv.bin"), &st) == 0 ? (int64_t)st.st_size : -1;
    vt_run_verifier r = {.ledger = l, .subject = &noisy};
    for (r.threads = 1; r.threads <= 3; r.threads += 2, r.points = 0) {
        if (vt_verify_run(&r, &found, &e) != VT_OK) fail_msg("%s", e.text);
        if (found.n) fail_msg("%s", found.text[0]);
        assert_true(r.exact && r.points > 0);
    }
    r.threads = 2;
    l->header->seed = 8;
    assert_int_equal(vt_verify_run(&r, &found, &e), VT_OK);
    assert_true(found.n > 0);
    vt_findings_free(&found);
    l->header->seed = 9;
    r.subject = &b.subject;
    assert_int_equal(vt_verify_run(&r, &found, &e), VT_OK);
    assert_true(found.n > 0);
    vt_findings_free(&found);
    vt_ledger_close(l);
    vt_header_free(header);
    vt_attack_free(&a);
    vt_wrap_free(&noisy.wrap);
}

/* The first image that fails is named, whatever the order of the lines; others follow, each once. */
static void test_expect(void **state) {
    (void)state;
    vt_header *header;
    vt_err e = {0};
    json_t *document = json_pack("{s:[{s:s},{s:s}]}", "attacks", "name", "one", "name", "two");
    assert_int_equal(vt_header_read(&header, document, "run", &e), VT_OK);
    vt_record lines[] = {
        {.image = 4, .entry = 0, .status = VT_RECORD_CORRECT}, {.image = 9, .entry = 0, .status = VT_RECORD_CORRECT},
        {.image = 4, .entry = 1, .status = VT_RECORD_ROBUST},  {.image = 9, .entry = 1, .status = VT_RECORD_ROBUST},
        {.image = 9, .entry = 2, .status = VT_RECORD_ROBUST},  {.image = 4, .entry = 2, .status = VT_RECORD_ROBUST},
    };
    vt_ledger l = {.dir = b.dir, .header = header, .records = lines, .count = T_COUNT(lines)};
    assert_int_equal(vt_expect_robust(&l, &e), VT_OK);
    lines[4].status = VT_RECORD_BROKEN;
    t_says(vt_expect_robust(&l, &e), VT_E_RANGE, &e, "image 9 is not robust", "two found");
    lines[5].status = VT_RECORD_BROKEN, lines[3].status = VT_RECORD_BROKEN;
    t_says(vt_expect_robust(&l, &e), VT_E_RANGE, &e, "image 4 is not robust", "nor are images 9");
    lines[0].status = VT_RECORD_WRONG;
    t_says(vt_expect_robust(&l, &e), VT_E_RANGE, &e, "image 4 is not robust", "without perturbation");
    lines[5].status = lines[4].status = lines[3].status =
        VT_RECORD_INVALID; /* a point that left the ball breaks nothing */
    lines[0].status = VT_RECORD_CORRECT;
    assert_int_equal(vt_expect_robust(&l, &e), VT_OK);
    vt_header_free(header);
}

/* What is at work at a time is no more than there are images, whatever a model greets with. */
static void test_fits(void **state) {
    (void)state;
    vt_eval_options v = {.subject = &b.subject, .images = b.images, .n_images = 3, .threads = 8, .batch = 64};
    size_t many = vt_eval_bytes(&v);
    v.threads = v.batch = 3;
    assert_int_equal(many, vt_eval_bytes(&v));
    v.threads = 8, v.batch = 0;
    vt_eval_fit(&v);
    assert_true(v.threads == 3 && v.batch == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_untouched), cmocka_unit_test(test_changes), cmocka_unit_test(test_eight_bit),
        cmocka_unit_test(test_refusals),  cmocka_unit_test(test_noise),   cmocka_unit_test(test_expect),
        cmocka_unit_test(test_fits),
    };
    return cmocka_run_group_tests_name("recheck", tests, open_bench, close_bench);
}
