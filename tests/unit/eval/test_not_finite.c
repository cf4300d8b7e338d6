/* SPDX-License-Identifier: MIT */
/* F10: a query whose logits are not finite ends its image, with a status of its own, and not the run: the image counts
 * neither as robust nor as broken, in every report; a resumed run has the same bytes; the stored query is judged again.
 * The network's head is so large that clean images are just in float's range. And what reports say of a vanished
 * cross-entropy (F3). */
#include "ask.h"
#include "scratch.h"
#include "t.h"
#include "run_header.h"

#include <float.h>
#include "linalg/gemm.h"
#include "eval/report/summary.h"
#include "eval/report/curve.h"
#include "eval/evaluate.h"
#include "base/files.h"
#include "eval/verify_run.h"

enum { SIDE = 32, FIRST = 40, ENTRIES = 3 };

typedef struct bench {
    vt_subject subject;
    vt_attack attacks[ENTRIES];
    int32_t images[FIRST];
    int n;
    vt_eval_options v;
} bench;

static bench b;

static vt_model *network(double scale) {
    vt_model *m;
    vt_err e = {0};
    if (vt_model_open(&m, "weights/shapes10-plain/model.safetensors", NULL, &e) != VT_OK) fail_msg("%s", e.text);
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        for (size_t k = 0; !strncmp(p->name, "head.", 5) && k < p->numel; k++)
            m->w[p->offset + k] = (float)(scale * (double)m->w[p->offset + k]);
    }
    vt_model_refresh(m);
    return m;
}

/* Of the first images those whose clean logits are finite: without them nothing is attacked. */
static void choose_images(void) {
    static float x[3 * SIDE * SIDE];
    vt_classifier c;
    vt_err e = {0};
    assert_int_equal(vt_classifier_open(&c, b.subject.model, &e), VT_OK);
    for (int i = 0; i < FIRST; i++) {
        float z[10];
        int label;
        bool finite = true;
        assert_int_equal(vt_subject_image(&b.subject, i, x, &label, &e), VT_OK);
        ask_logits(&c, x, z, false);
        for (int k = 0; k < 10; k++) finite = finite && isfinite(z[k]);
        if (finite) b.images[b.n++] = i;
    }
    vt_classifier_close(&c);
}

static void parse(const char *a0, const char *a1, const char *a2) {
    const char *specs[] = {a0, a1, a2};
    vt_err e = {0};
    for (int i = 0; i < ENTRIES; i++) {
        if (vt_attack_parse(&b.attacks[i], specs[i], b.v.norm, &e) != VT_OK) fail_msg("%s", e.text);
        b.attacks[i].scoring = i == 1 ? VT_SCORE_EIGHT_BIT : VT_SCORE_BALL;
    }
}

static int open_bench(void **state) {
    vt_err e = {0};
    if (make_tmp(state)) return -1;
    vt_blas_single_thread();
    assert_int_equal(vt_dataset_open(&b.subject.data, "datasets/shapes10", VT_SPLIT_TEST, &e), VT_OK);
    b.v = (vt_eval_options){.subject = &b.subject, .images = b.images, .eps = 8.0 / 255, .eps_text = "8/255"};
    b.v.threads = 2, b.v.attacks = b.attacks, b.v.n_attacks = ENTRIES;
    b.subject.model = network(3.6e37);
    choose_images();
    b.v.n_images = (size_t)b.n;
    parse("pgd:steps=5,loss=margin", "pgd:steps=5,loss=margin", "apgd-t:steps=5+square:queries=50");
    return 0;
}

static int close_bench(void **state) {
    for (int i = 0; i < ENTRIES; i++) vt_attack_free(&b.attacks[i]);
    vt_subject_close(&b.subject);
    return remove_tmp(state);
}

static char *text_of(const char *dir, const char *name, size_t *n) {
    char *text;
    vt_err e = {0};
    if (vt_file_read(at("%s/%s", dir, name), (size_t)1 << 28, &text, n, &e) != VT_OK) fail_msg("%s", e.text);
    return text;
}

/* The first bytes of a file of another run. */
static void begin_with(const char *dir, const char *from, const char *name, int lines) {
    size_t n, cut = 0;
    vt_err e = {0};
    char *text = text_of(from, name, &n);
    for (int i = 0; i < lines; i++) cut += strcspn(text + cut, "\n") + 1;
    assert_true(cut < n);
    assert_int_equal(vt_make_dir(at("%s", dir), &e), VT_OK);
    FILE *f = fopen(at("%s/%s", dir, name), "w");
    assert_non_null(f);
    n = lines ? cut : n;
    assert_int_equal(fwrite(text, 1, n, f), n);
    fclose(f);
    free(text);
}

/* A finished run in a folder; resumed: what is there already goes on. */
static vt_ledger *run(const char *dir, bool resumed) {
    vt_err e = {0};
    vt_ledger *l;
    vt_summary s;
    vt_header *header = t_header_of(&b.v);
    vt_status st = resumed ? vt_ledger_resume(&l, at("%s", dir), header, 3 * SIDE * SIDE, false, &e)
                           : vt_ledger_create(&l, at("%s", dir), header, 3 * SIDE * SIDE, &e);
    if (st != VT_OK || vt_eval_run(&b.v, l, &e) != VT_OK || vt_ledger_finish(l, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(vt_summary_make(&s, l, 0, &e), VT_OK);
    assert_int_equal(vt_reports_write(&s, at("%s", dir), NULL, &e), VT_OK);
    vt_summary_free(&s);
    vt_header_free(header);
    return l;
}

static void holds(const char *dir, const char *name, const char *words) {
    size_t n;
    char *text = text_of(dir, name, &n);
    if (!strstr(text, words)) fail_msg("%s does not hold '%s':\n%s", name, words, text);
    free(text);
}

static int count(const vt_ledger *l, int entry, vt_record_status status) {
    int n = 0;
    for (size_t i = 0; i < l->count; i++) n += l->records[i].entry == entry && l->records[i].status == (uint8_t)status;
    return n;
}

static void test_counted_apart(void **state) {
    (void)state;
    vt_err e = {0};
    vt_summary s;
    char words[60];
    vt_ledger *l = run("run", false);
    assert_int_equal(vt_summary_make(&s, l, b.n, &e), VT_OK);
    int apart = count(l, 1, VT_RECORD_NOT_FINITE);
    assert_true(apart > 0 && count(l, 1, VT_RECORD_BROKEN) > 0 && !s.pending);
    for (int k = 0; k < ENTRIES; k++) {
        const vt_entry_summary *en = &s.entries[k];
        assert_int_equal(en->all.not_finite, count(l, k + 1, VT_RECORD_NOT_FINITE));
        assert_int_equal(en->all.robust + en->all.broken + en->all.not_finite, s.correct);
    }
    assert_true(s.worst_robust <= s.entries[0].all.robust && s.worst_eight_bit <= s.correct - apart);
    vt_summary_free(&s);
    snprintf(words, sizeof words, "on %d image%s it met logits that are not finite", apart, apart > 1 ? "s" : "");
    holds("run", "table.md", words), holds("run", "table.tex", words), holds("run", "results.json", words);
    snprintf(words, sizeof words, "logits not finite,1,%d,%d,", apart, b.n);
    holds("run", "table.csv", words);
    snprintf(words, sizeof words, "\"not_finite\": %d", apart);
    holds("run", "results.json", words);
    holds("run", "ledger.jsonl", "\"status\":\"not-finite\"");
    assert_int_equal(vt_expect_robust(l, &e), VT_E_RANGE);
    vt_ledger_close(l);
}

static void test_judged_again(void **state) {
    (void)state;
    vt_err e = {0};
    vt_findings found = {0};
    vt_ledger *l;
    assert_int_equal(vt_ledger_open(&l, at("run"), &e), VT_OK);
    vt_run_verifier r = {.ledger = l, .subject = &b.subject, .threads = 2};
    if (vt_verify_run(&r, &found, &e) != VT_OK) fail_msg("%s", e.text);
    if (found.n) fail_msg("%s", found.text[0]);
    size_t i = 0;
    while (l->records[i].status != VT_RECORD_NOT_FINITE) i++;
    assert_true(l->records[i].adv >= 0);
    l->records[i].status = VT_RECORD_INVALID;
    if (vt_verify_run(&r, &found, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(found.n, 1);
    assert_non_null(strstr(found.text[0], "is not-finite, the ledger says invalid"));
    vt_findings_free(&found);
    vt_ledger_close(l);
}

static void test_resumed(void **state) {
    (void)state;
    static const char *const names[] = {"ledger.jsonl", "results.json", "table.md", "table.csv"};
    begin_with("part", "run", "ledger.jsonl", b.n + 8); /* header, clean lines, some of pgd's */
    begin_with("part", "run", "adv.bin", 0);
    vt_ledger_close(run("part", true));
    for (size_t i = 0; i < T_COUNT(names); i++) {
        size_t n;
        char *x = text_of("run", names[i], &n), *y = text_of("part", names[i], &n);
        assert_string_equal(x, y);
        free(x), free(y);
    }
}

/* A curve: an image whose search ended unfinished is robust at no radius. */
static void test_curve(void **state) {
    (void)state;
    vt_err e = {0};
    vt_curve c;
    vt_radius radius = {INFINITY, ""};
    vt_eval_options kept = b.v;
    vt_attack a;
    assert_int_equal(vt_attack_parse(&a, "fmn:steps=20", VT_LINF, &e), VT_OK);
    b.v.attacks = &a, b.v.n_attacks = 1, b.v.radii = &radius, b.v.eps = 1, b.v.eps_text = "1";
    vt_ledger *l = run("curve", false);
    assert_int_equal(vt_curve_make(&c, l, &e), VT_OK);
    int apart = count(l, 1, VT_RECORD_NOT_FINITE);
    assert_true(apart > 0);
    assert_int_equal(c.entries[0].not_finite, apart);
    assert_int_equal(c.entries[0].found, count(l, 1, VT_RECORD_BROKEN));
    assert_int_equal(vt_curve_robust(&c, 0), (int64_t)c.right - apart);
    assert_int_equal(vt_curve_unconfirmed(&c, 0), (int64_t)c.right - apart);
    vt_curve_free(&c);
    vt_ledger_close(l);
    vt_attack_free(&a);
    b.v = kept;
}

/* F3: on which images the margin stood in is in the ledger, and in the reports; on none, in neither. */
static void test_vanished_is_said(void **state) {
    (void)state;
    vt_eval_options kept = b.v;
    vt_subject other = b.subject;
    b.v.subject = &other;
    vt_err e = {0};
    vt_attack a[2];
    for (int large = 0; large < 2; large++) {
        const char *dir = large ? "large" : "plain";
        char words[80];
        size_t n;
        vt_model *m = network(large ? 1e6 : 1);
        assert_int_equal(vt_attack_parse(&a[0], "fgsm", VT_LINF, &e), VT_OK);
        assert_int_equal(vt_attack_parse(&a[1], "pgd:steps=3+apgd-dlr:steps=3", VT_LINF, &e), VT_OK);
        other.model = m, b.v.attacks = a, b.v.n_attacks = 2;
        vt_ledger *l = run(dir, false);
        int images[2] = {0}, ratio = 0;
        for (size_t i = 0; i < l->count; i++) {
            const vt_record *r = &l->records[i];
            assert_true(r->vanished >= 0 && r->vanished <= r->gradients);
            if (r->entry && r->stage == 0) images[r->entry - 1] += r->vanished > 0;
            ratio += r->stage == 1 && r->vanished;
        }
        assert_true(ratio == 0 && (images[0] > 0) == large && (images[1] > 0) == large);
        char *text = text_of(dir, "ledger.jsonl", &n), *table = text_of(dir, "table.md", &n);
        assert_int_equal(strstr(text, "\"vanished\":") != NULL, large);
        assert_int_equal(strstr(table, "vanished") != NULL, large);
        free(text), free(table);
        snprintf(words, sizeof words, "%s: cross-entropy's gradient vanished on %d image", "fgsm", images[0]);
        if (large) holds(dir, "table.md", words), holds(dir, "results.json", words), holds(dir, "table.tex", words);
        snprintf(words, sizeof words, "pgd+apgd-dlr, pgd: cross-entropy's gradient vanished on %d image", images[1]);
        if (large) holds(dir, "results.json", words);
        vt_ledger_close(l);
        assert_int_equal(vt_ledger_open(&l, at("%s", dir), &e), VT_OK); /* read back as written */
        int again = 0;
        for (size_t i = 0; i < l->count; i++) again += l->records[i].entry == 1 && l->records[i].vanished > 0;
        assert_int_equal(again, images[0]);
        vt_ledger_close(l);
        vt_attack_free(&a[0]), vt_attack_free(&a[1]);
        vt_model_close(m);
    }
    b.v = kept;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counted_apart), cmocka_unit_test(test_judged_again),     cmocka_unit_test(test_resumed),
        cmocka_unit_test(test_curve),         cmocka_unit_test(test_vanished_is_said),
    };
    return cmocka_run_group_tests_name("not finite", tests, open_bench, close_bench);
}
