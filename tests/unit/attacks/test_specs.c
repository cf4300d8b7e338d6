/* SPDX-License-Identifier: MIT */
/* What users write: specs of attacks, and of the patch threat. */
#include "t.h"

#include "attacks/attack.h"

static void test_attack_specs(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        vt_status want;
    } rows[] = {
        {"pgd", VT_OK},
        {"pgd:steps=7,alpha=2/255", VT_OK},
        {"cw20:alpha=2/255", VT_OK},
        {"autoattack", VT_OK},
        {"autoattack:steps=3", VT_E_USAGE},
        {"autoattack:version=standard", VT_OK},
        {"autoattack:version=plus", VT_OK},
        {"autoattack:version=rand", VT_OK},
        {"autoattack:version=", VT_E_UNKNOWN},
        {"autoattack:version=fast", VT_E_UNKNOWN},
        {"pgd:version=plus", VT_E_UNKNOWN},
        {"apgd-ce+fab-t:steps=5+square", VT_OK},
        {"pgd:alpha=1e+0+fgsm", VT_OK},
        {"autoattack+mt-pgd", VT_OK},
        {"apgd-ce+", VT_E_UNKNOWN},
        {"+apgd-ce", VT_E_UNKNOWN},
        {"apgd-ce++square", VT_E_UNKNOWN},
        {"autoattack+autoattack+autoattack+autoattack", VT_OK},
        {"autoattack+autoattack+autoattack+autoattack+fgsm", VT_E_USAGE},
        {"pgdd", VT_E_UNKNOWN},
        {"", VT_E_UNKNOWN},
        {"pgd:", VT_E_USAGE},
        {"a-name-that-is-much-longer-than-any-attack-has", VT_E_UNKNOWN},
    };
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        vt_attack a;
        vt_err e = {0};
        vt_status got = vt_attack_parse(&a, rows[i].spec, VT_LINF, &e);
        if (got != rows[i].want) fail_msg("%s: %s", rows[i].spec, vt_status_name(got));
        assert_int_equal(e.text[0] == 0, rows[i].want == VT_OK);
        if (rows[i].want == VT_OK) vt_attack_free(&a);
    }
    static const char *const bad[] = {"pgd:steps=0",  "pgd:steps=1.5", "pgd:stepz=3",        "pgd:loss=hinge",
                                      "pgd:steps=3,", "pgd:steps",     "apgd-ce:rho=nan",    "square:p_init=2",
                                      "fab:beta=-1",  "fgsm:steps=3",  "pgd:random_start=7", "pgd:alpha=1/0"};
    for (size_t i = 0; i < T_COUNT(bad); i++) {
        vt_attack a;
        vt_err e = {0};
        assert_int_not_equal(vt_attack_parse(&a, bad[i], VT_LINF, &e), VT_OK);
        assert_true(e.text[0] != 0);
    }
}
static void test_patch_threat(void **state) {
    (void)state;
    vt_patch p;
    vt_err e = {0};
    assert_int_equal(vt_patch_parse(&p, "patch:size=16,count=2,aligned=1", &e), VT_OK);
    assert_true(p.size == 16 && p.count == 2 && p.aligned);
    assert_int_equal(vt_patch_parse(&p, "patch:size=3", &e), VT_OK);
    assert_true(p.size == 3 && p.count == 1 && !p.aligned);
    static const struct {
        const char *text, *says;
    } bad[] = {{"patch", "needs a size"},         {"patch:", "needs a size"},    {"patch:size=0", "between 1"},
               {"patch:size=3,count=17", "16"},   {"patches:size=3", "must be"}, {"linf", "must be"},
               {"patch:size=3,cuont=1", "count"}, {"patch:size=x", "patch"},     {"", "must be"}};
    for (size_t i = 0; i < T_COUNT(bad); i++) {
        e = (vt_err){0};
        assert_int_not_equal(vt_patch_parse(&p, bad[i].text, &e), VT_OK);
        if (!strstr(e.text, bad[i].says)) fail_msg("'%s' does not mention '%s'", e.text, bad[i].says);
    }
    vt_config c = {.image = 32, .patch = 4};
    assert_int_equal(vt_patch_fit(&(vt_patch){.size = 32, .count = 1}, &c, NULL, NULL), VT_OK);
    e = (vt_err){0};
    t_says(vt_patch_fit(&(vt_patch){.size = 33, .count = 1}, &c, NULL, &e), VT_E_USAGE, &e, "33", "32 x 32");
    t_says(vt_patch_fit(&(vt_patch){.size = 6, .count = 1, .aligned = true}, &c, NULL, &e), VT_E_USAGE, &e, "4 pixels",
           "got 6");
    c.image = 64, c.patch = 16, c.native = 16; /* resized inside: a token is 4 pixels of the input */
    p = (vt_patch){.size = 8, .count = 1, .aligned = true};
    assert_int_equal(vt_patch_fit(&p, &c, NULL, NULL), VT_OK);
    assert_int_equal(p.grid, 4);
    c.native = 18;
    t_says(vt_patch_fit(&p, &c, NULL, &e), VT_E_USAGE, &e, "whole pixels", "4 tokens");
    vt_attack a;
    e = (vt_err){0};
    t_says(vt_attack_parse(&a, "square:where=saliency", VT_NORM_PATCH, &e), VT_E_USAGE, &e, "black-box", "random");
    static const char *const specs[] = {"fgsm", "fab", "autoattack", "pgd:where=left", "pgd:places=0"};
    for (size_t i = 0; i < T_COUNT(specs); i++)
        assert_int_not_equal(vt_attack_parse(&a, specs[i], VT_NORM_PATCH, NULL), VT_OK);
    assert_int_equal(vt_attack_parse(&a,
                                     "attention-fool:alpha=0.0313725490196078,momentum=0.12345678,lambda=123456."
                                     "75,"
                                     "key=65535,query=class,where=attention,places=64",
                                     VT_NORM_PATCH, NULL),
                     VT_OK);
    assert_non_null(strstr(a.id, ",where=attention,places=64")); /* nothing is cut */
    vt_attack_free(&a);
    static const char *const norms[] = {"patch-fool", "attention-fool", "pgd:where=corner"};
    for (size_t i = 0; i < T_COUNT(norms); i++)
        for (vt_norm n = VT_LINF; n <= VT_L2; n++) assert_int_not_equal(vt_attack_parse(&a, norms[i], n, NULL), VT_OK);
}
int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_attack_specs), cmocka_unit_test(test_patch_threat)};
    return cmocka_run_group_tests_name("specs", tests, NULL, NULL);
}
