/* SPDX-License-Identifier: MIT */
/* The certificates masks and smooth as eval asks for them: what each refuses, what certifies at the run's threat, and
 * which broken points contradict them. */
#include "t.h"

#include "eval/certifier.h"
#include "eval/options.h"
#include "eval/report/summary.h"
#include "planted.h"

enum { SIDE = 6, N = 3 * SIDE * SIDE };

typedef struct scene {
    planted p;
    vt_classifier c;
    vt_subject subject;
    vt_eval_options v;
    float x[N];
} scene;

/* A linear network of two classes under the wrap, and a run that asks for the method. */
static void scene_open(scene *s, const char *wrap, const char *method) {
    vt_err e = {0};
    memset(s, 0, sizeof *s);
    assert_true(planted_linear(&s->p, 2, SIDE, SIDE, 7));
    vt_rng_uniforms(&(vt_rng){.seed = 3}, s->x, N);
    s->c = s->p.c;
    assert_int_equal(vt_wrap_parse(&s->subject.wrap, wrap, &e), VT_OK);
    assert_int_equal(vt_wrap_classifier(&s->subject.wrap, &s->c, (vt_shape){3, SIDE, SIDE}, false, &e), VT_OK);
    s->v = (vt_eval_options){.subject = &s->subject, .norm = VT_L2, .eps = 0.1, .eps_text = "0.1"};
    assert_int_equal(vt_certifier_parse(&s->v.certify, method, &e), VT_OK);
}

static void scene_close(scene *s) {
    vt_certifier_free(&s->v.certify);
    vt_classifier_close(&s->c);
    vt_wrap_free(&s->subject.wrap);
    planted_free(&s->p);
}

/* Asks the method about s->x. */
static vt_certificate certify(scene *s, int32_t label) {
    const vt_certifier_def *d = s->v.certify.def;
    vt_certificate out = {.radius = NAN};
    const vt_rng key = {.seed = 1};
    void *self = NULL;
    if (d->open) assert_int_equal(d->open(&self, NULL, s->v.certify.params, &s->v, NULL), VT_OK);
    vt_classifier_begin(&s->c, &key);
    assert_int_equal(d->image(self, &s->c, &key, s->x, label, &out, NULL), VT_OK);
    if (d->close) d->close(self);
    return out;
}

static void test_masks(void **state) {
    (void)state;
    scene s;
    vt_err e = {0};
    char text[400];
    scene_open(&s, "patchcleanser:patch=2,masks=2", "masks");
    t_says(vt_certifier_check(&s.v, &e), VT_E_USAGE, &e, "needs --threat patch", "l2");
    s.v.patch = (vt_patch){.size = 3, .count = 1}, s.v.norm = VT_LINF, s.v.eps = 1;
    t_says(vt_certifier_check(&s.v, &e), VT_E_USAGE, &e, "size is 3 pixels", "up to 2");
    s.v.patch.size = 2, s.v.patch.count = 2;
    t_says(vt_certifier_check(&s.v, &e), VT_E_USAGE, &e, "one patch", "count=2");
    s.v.patch.count = 1;
    assert_int_equal(vt_certifier_check(&s.v, &e), VT_OK);
    s.p.b[0] += 1e4; /* class 0 under every mask: 4 masks, 10 predictions */
    vt_certificate c = certify(&s, 0);
    assert_true(c.certified && c.forwards == 10 && isnan(c.radius));
    c = certify(&s, 1);
    assert_true(!c.certified && c.forwards == 1);
    s.v.certify.def->sentence(s.v.certify.params, &s.v, text, sizeof text);
    assert_non_null(strstr(text, "patchcleanser:patch=2,masks=2"));
    assert_non_null(strstr(text, "2 pixels"));
    scene_close(&s);
    scene_open(&s, "noise", "masks");
    t_says(vt_certifier_check(&s.v, &e), VT_E_USAGE, &e, "needs --wrap", "patchcleanser");
    scene_close(&s);
}

static void test_smooth(void **state) {
    (void)state;
    scene s;
    vt_err e = {0};
    char text[400];
    scene_open(&s, "smooth:sigma=0.5,n0=20,n=100", "smooth");
    assert_int_equal(vt_certifier_check(&s.v, &e), VT_OK);
    s.p.b[0] += 1e4; /* all votes are of class 0: 0.5 Phi^-1(0.001^(1/100)) = 0.75024 */
    vt_certificate c = certify(&s, 0);
    assert_true(c.certified && c.forwards == 120);
    t_le(fabs(c.radius - 0.5 * 1.500475024121), 1e-8, "radius"); /* test_smoothing has its source */
    s.v.eps = 0.7503;
    c = certify(&s, 0);
    assert_true(!c.certified && c.radius > 0.75); /* it is said, and proves nothing at this eps */
    c = certify(&s, 1);
    assert_true(!c.certified && isnan(c.radius));
    s.v.certify.def->sentence(s.v.certify.params, &s.v, text, sizeof text);
    assert_non_null(strstr(text, "probability at least 1 - alpha"));
    s.v.norm = VT_LINF;
    t_says(vt_certifier_check(&s.v, &e), VT_E_USAGE, &e, "knows l2 alone", "linf");
    s.v.norm = VT_L2, s.v.patch.size = 2;
    t_says(vt_certifier_check(&s.v, &e), VT_E_USAGE, &e, "knows l2 alone", "a patch");
    scene_close(&s);
    scene_open(&s, "quantise", "smooth");
    t_says(vt_certifier_check(&s.v, &e), VT_E_USAGE, &e, "needs --wrap", "smooth");
    scene_close(&s);
}

/* One image: right, certified, broken, with or without doubt. A proof is contradicted by both, an estimate by the
 * verdict without doubt alone. */
static void test_contradictions(void **state) {
    (void)state;
    static const struct {
        const char *method;
        int borderline, contradiction;
    } cases[] = {{"masks", 0, 1}, {"masks", 1, 1}, {"smooth", 0, 1}, {"smooth", 1, 0}};
    for (size_t i = 0; i < T_COUNT(cases); i++) {
        vt_err e = {0};
        char method[16];
        vt_header_stage stage = {.id = "fgsm"};
        vt_header_attack attack = {.name = "fgsm", .id = "fgsm", .n_stages = 1, .stages = &stage};
        vt_header h = {.attacks = &attack, .n_attacks = 1, .model.classes = 2, .data.count = 1};
        vt_record lines[] = {{.label = 0, .status = VT_RECORD_CORRECT, .target = -1},
                             {.entry = VT_ENTRY_CERTIFY, .status = VT_RECORD_CERTIFIED, .target = -1},
                             {.entry = 1, .status = VT_RECORD_BROKEN, .target = -1, .pred = 1}};
        snprintf(method, sizeof method, "%s:", cases[i].method);
        h.certify.method = method;
        lines[2].borderline = cases[i].borderline;
        const vt_ledger l = {.dir = "r", .header = &h, .records = lines, .count = T_COUNT(lines)};
        if (cases[i].contradiction)
            t_says(vt_expect_no_contradiction(&l, &e), VT_E_RANGE, &e, "image 0 is certified", cases[i].method);
        else if (vt_expect_no_contradiction(&l, &e) != VT_OK)
            fail_msg("%s", e.text);
        vt_summary s;
        assert_int_equal(vt_summary_make(&s, &l, 1, &e), VT_OK);
        assert_int_equal(s.certify.contradictions, cases[i].contradiction);
        assert_true(s.certify.certified == 0 && s.certify.broken == 1);
        vt_summary_free(&s);
    }
}

int main(void) {
    (void)planted_ridge, (void)planted_mlp;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_masks), cmocka_unit_test(test_smooth),
                                       cmocka_unit_test(test_contradictions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
