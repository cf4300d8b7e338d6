/* SPDX-License-Identifier: MIT */
/* Certificates of a run on paper: which images attacks take, what a summary counts, contradictions; specs; linear
 * bounds of a native network. */
#include "t.h"
#include "run_header.h"
#include "toy.h"

#include <math.h>
#include <string.h>
#include "eval/certifier.h"
#include "eval/options.h"
#include "inference/classifier.h"
#include "eval/report/summary.h"
#include "eval/result_index.h"

enum { IMAGES = 6 };

/* An attack of two stages, the second on a share; image 0 is wrong, 1 and 2 are certified, 3 to 5 undecided. */
static vt_ledger *play(bool first, double share) {
    vt_ledger *l;
    vt_err e = {0};
    json_t *o = json_pack("{s:s,s:[{s:s,s:s,s:[{s:s,s:s},{s:s,s:s,s:f}]}],s:{s:s,s:s}}", "norm", "linf", "attacks",
                          "name", "two", "id", "a+b", "stages", "name", "a", "id", "a", "name", "b", "id", "b", "share",
                          share, "certify", "method", "linear:boxes=9", "sentence", "proven");
    if (first) json_object_set_new(json_object_get(o, "certify"), "first", json_true());
    vt_header *h = t_header(o);
    assert_int_equal(vt_ledger_memory(&l, h, 3, &e), VT_OK);
    vt_header_free(h);
    for (int i = 0; i < IMAGES; i++) {
        vt_record r = {.image = i, .target = -1, .status = i ? VT_RECORD_CORRECT : VT_RECORD_WRONG};
        assert_int_equal(vt_ledger_append(l, &r, NULL, &e), VT_OK);
        r.entry = VT_ENTRY_CERTIFY, r.status = i < 3 ? VT_RECORD_CERTIFIED : VT_RECORD_UNDECIDED;
        if (i) assert_int_equal(vt_ledger_append(l, &r, NULL, &e), VT_OK);
    }
    return l;
}

static void attack(vt_ledger *l, int image, int stage, vt_record_status status) {
    vt_err e = {0};
    vt_record r = {.image = image, .target = -1, .entry = 1, .stage = stage, .status = status, .linf = 0.25};
    assert_int_equal(vt_ledger_append(l, &r, NULL, &e), VT_OK);
}

static vt_summary summary_of(const vt_ledger *l) {
    vt_summary s;
    vt_err e = {0};
    if (vt_summary_make(&s, l, IMAGES, &e) != VT_OK) fail_msg("%s", e.text);
    return s;
}

/* Certified images are left out of every stage, and stay right; all others are taken. */
static void test_first(void **state) {
    (void)state;
    vt_err e = {0};
    for (int first = 0; first < 2; first++) {
        vt_ledger *l = play(first, 1);
        vt_result_index b;
        assert_int_equal(vt_result_index_read(&b, l, &e), VT_OK);
        for (size_t i = 0; i < IMAGES; i++) {
            assert_int_equal(vt_result_index_takes(&b, VT_ENTRY_CERTIFY, 0, i), i > 0);
            assert_int_equal(vt_result_index_takes(&b, 1, 0, i), i > (first ? 2 : 0));
            assert_int_equal(vt_result_index_right(&b, VT_ENTRY_CERTIFY, i), i == 1 || i == 2);
            assert_true(vt_result_index_done(&b, VT_ENTRY_CERTIFY, i));
            assert_int_equal(vt_result_index_done(&b, 1, i), i <= (first ? 2 : 0));
        }
        vt_result_index_close(&b);
        vt_ledger_close(l);
    }
}

static void test_counts(void **state) {
    (void)state;
    vt_err e = {0};
    vt_ledger *l = play(true, 1);
    for (int i = 3; i < IMAGES; i++) attack(l, i, 0, i == 3 ? VT_RECORD_BROKEN : VT_RECORD_ROBUST);
    for (int i = 4; i < IMAGES; i++) attack(l, i, 1, VT_RECORD_ROBUST);
    vt_summary s = summary_of(l);
    assert_true(s.pending == 0 && s.correct == 5 && s.worst_robust == 4 && s.entries[0].all.robust == 4);
    assert_true(s.certify.certified == 2 && s.certify.undecided == 2 && s.certify.broken == 1);
    assert_true(s.certify.contradictions == 0 && s.certify.saved == 2);
    assert_string_equal(s.rows[1].label, "certified (linear)");
    assert_true(s.rows[1].count == 2 && s.rows[1].reached);
    assert_string_equal(vt_summary_note(&s, 0), "proven");
    assert_non_null(strstr(vt_summary_note(&s, 1), "2 images, 2 attacks saved"));
    assert_null(vt_summary_note(&s, 2));
    assert_int_equal(vt_expect_no_contradiction(l, &e), VT_OK);
    vt_summary_free(&s);
    vt_ledger_close(l);
}

/* Of a stage on a share of the survivors: certified ones are not among those that it might still break. */
static void test_share(void **state) {
    (void)state;
    vt_ledger *l = play(true, 0.5);
    for (int i = 3; i < IMAGES; i++) attack(l, i, 0, VT_RECORD_ROBUST);
    vt_summary s = summary_of(l);
    assert_int_equal(s.entries[0].sample.survivors, 3);
    vt_summary_free(&s);
    vt_ledger_close(l);
}

static void test_contradiction(void **state) {
    (void)state;
    vt_err e = {0};
    vt_ledger *l = play(false, 1);
    attack(l, 4, 0, VT_RECORD_BROKEN);
    assert_int_equal(vt_expect_no_contradiction(l, &e), VT_OK);
    attack(l, 2, 1, VT_RECORD_BROKEN);
    assert_int_equal(vt_expect_no_contradiction(l, &e), VT_E_RANGE);
    assert_non_null(strstr(e.text, "image 2 is certified (linear:boxes=9), but two broke it by a point at linf 0.25"));
    vt_summary s = summary_of(l);
    assert_true(s.certify.certified == 1 && s.certify.broken == 2 && s.certify.contradictions == 1);
    assert_non_null(strstr(vt_summary_note(&s, 1), "CONTRADICTION: 1 certified image is broken"));
    vt_summary_free(&s);
    vt_ledger_close(l);
}

/* A line of a certificate has its entry, and no other line has: what a ledger's text may say. */
static void test_lines(void **state) {
    (void)state;
    vt_ledger *l = play(false, 1);
    vt_record r = l->records[2], back; /* image 1's certificate */
    r.margin = r.margin64 = r.l2 = r.l1 = NAN, r.linf = 0.125, r.adv = -1;
    for (int entry = 0; entry < 3; entry++) {
        char text[VT_LINE_ROOM];
        json_error_t why;
        r.entry = entry == 2 ? VT_ENTRY_CERTIFY : entry;
        vt_line_text(text, l, &r);
        json_t *o = json_loads(text, 0, &why);
        assert_int_equal(vt_line_parse(&back, o), entry == 2);
        if (entry == 2) assert_true(back.linf == 0.125 && isnan(back.l2) && back.status == VT_RECORD_CERTIFIED);
        json_decref(o);
    }
    vt_ledger_close(l);
}

static void test_specs(void **state) {
    (void)state;
    vt_certifier c;
    vt_err e = {0};
    assert_int_equal(vt_certifier_parse(&c, "Linear:refine=1", &e), VT_OK);
    assert_string_equal(c.id, "linear:boxes=500,refine=1,intervals=0");
    vt_certifier_free(&c);
    assert_int_equal(vt_certifier_parse(&c, "linear:boxes=1", &e), VT_E_USAGE);
    assert_null(c.params);
    assert_int_equal(vt_certifier_parse(&c, "linaer", &e), VT_E_UNKNOWN);
    assert_non_null(strstr(e.text, "did you mean 'linear'?"));
}

/* A native network's images by its graph in memory: proven at a radius of 1e-6, not at one of the whole box; another
 * label than the network's is never proven; norms that the bounds do not know are refused. */
static void test_linear(void **state) {
    (void)state;
    vt_err e = {0};
    vt_config c = toy_config("dot", VT_POOL_TOKEN, false, true);
    c.image = 8, c.depth = 1, c.dim = 4, c.heads = 1, c.hidden = 4, c.classes = 3;
    vt_model *m = toy_model(&c, 5);
    vt_dataset d = {0};
    vt_subject s = {.model = m, .data = &d};
    vt_eval_options v = {.subject = &s, .norm = VT_LINF, .eps = 1e-6, .eps_text = "1e-6"};
    vt_classifier f;
    float x[3 * 8 * 8], z[3];
    double u[3 * 8 * 8];
    t_normals(u, T_COUNT(u), 4, 0.15);
    for (size_t i = 0; i < T_COUNT(x); i++) x[i] = (float)fmin(fmax(0.5 + u[i], 0), 1);
    assert_int_equal(vt_classifier_open(&f, m, &e), VT_OK);
    assert_int_equal(vt_classifier_logits(&f, x, z, false, &e), VT_OK);
    const int best = z[0] >= z[1] && z[0] >= z[2] ? 0 : z[1] >= z[2] ? 1 : 2;
    assert_int_equal(vt_certifier_parse(&v.certify, "linear:boxes=9", &e), VT_OK);
    const vt_certifier_def *by = v.certify.def;
    for (int k = 0; k < 3; k++) {
        void *shared = NULL, *self = NULL;
        vt_record r = {.label = k == 2 ? (best + 1) % 3 : best};
        v.eps = k == 1 ? 1 : 1e-6;
        if (by->prepare(&shared, v.certify.params, &v, &e) != VT_OK) fail_msg("%s", e.text);
        assert_int_equal(by->open(&self, shared, v.certify.params, &v, &e), VT_OK);
        if (vt_certify_record(&r, &v, self, &f, x, &e) != VT_OK) fail_msg("%s", e.text);
        assert_int_equal(r.status, k ? VT_RECORD_UNDECIDED : VT_RECORD_CERTIFIED);
        assert_true(k ? isnan(r.linf) : r.linf == 1e-6);
        assert_true(isnan(r.l2) && r.entry == VT_ENTRY_CERTIFY && r.forwards > 0);
        by->close(self), by->release(shared);
    }
    v.norm = VT_L2;
    assert_int_equal(vt_certifier_check(&v, &e), VT_E_USAGE);
    v.norm = VT_LINF, v.patch.size = 2;
    assert_int_equal(vt_certifier_check(&v, &e), VT_E_USAGE);
    vt_certifier_free(&v.certify);
    vt_classifier_close(&f);
    vt_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first),         cmocka_unit_test(test_counts), cmocka_unit_test(test_share),
        cmocka_unit_test(test_contradiction), cmocka_unit_test(test_lines),  cmocka_unit_test(test_specs),
        cmocka_unit_test(test_linear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
