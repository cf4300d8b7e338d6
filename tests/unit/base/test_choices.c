/* SPDX-License-Identifier: MIT */
/* Lists of choices: the last of a name counts, all can be walked, numbers are held to their limits; and forms, which
 * stand several in a text. */
#include "t.h"

#include "base/opt.h"
#include "eval/prepare.h"
#include "models/forms.h"

static void lists(void **state) {
    (void)state;
    vt_choices c = {0};
    long long v;
    vt_err e = {0};
    assert_null(vt_chosen(&c, "seed"));
    assert_false(vt_is_chosen(&c, "seed"));
    assert_true(vt_choose(&c, "seed", "3") && vt_choose(&c, "quiet", "") && vt_choose(&c, "seed", "4"));
    assert_string_equal(vt_chosen(&c, "seed"), "4");
    assert_string_equal(vt_chosen_nth(&c, "seed", 0), "3");
    assert_string_equal(vt_chosen_nth(&c, "seed", 1), "4");
    assert_null(vt_chosen_nth(&c, "seed", 2));
    assert_true(vt_is_chosen(&c, "quiet"));
    assert_int_equal(vt_chosen_int(&c, "seed", 0, 4, 9, &v, &e), VT_OK);
    assert_int_equal(v, 4);
    assert_int_equal(vt_chosen_int(&c, "threads", 1, 4, 9, &v, &e), VT_OK);
    assert_int_equal(v, 9);
    assert_int_equal(vt_chosen_int(&c, "seed", 0, 3, 9, &v, &e), VT_E_USAGE);
    assert_string_equal(e.text, "--seed is 4, must be between 0 and 3");
    e = (vt_err){0};
    assert_int_equal(vt_chosen_int(&c, "quiet", 0, 3, 9, &v, &e), VT_E_USAGE);
    assert_string_equal(e.text, "--quiet is '', must be a whole number between 0 and 3");
    while (c.n < VT_CHOICES_MOST) assert_true(vt_choose(&c, "form", "act=relu"));
    assert_false(vt_choose(&c, "form", "act=relu"));
}

static void forms(void **state) {
    (void)state;
    vt_choices c = {0};
    vt_overrides o;
    vt_err e = {0};
    char value[VT_FORM_VALUE];
    vt_choose(&c, "form", " post_norm=1  act=relu "), vt_choose(&c, "form", "window=4"),
        vt_choose(&c, "form", "act=gelu");
    vt_choose(&c, "mean", "0.5"), vt_choose(&c, "ln-eps", "1e-5");
    if (vt_prepare_overrides(&c, &o, &e) != VT_OK) fail_msg("%s", e.text);
    assert_true(o.has_mean && !o.has_std && o.mean[2] == 0.5 && o.ln_eps == 1e-5 && o.n_form == 3);
    assert_string_equal(vt_form_given(&o, "post_norm", value), "1");
    assert_string_equal(vt_form_given(&o, "act", value), "gelu");
    assert_string_equal(vt_form_given(&o, "window", value), "4");
    assert_null(vt_form_given(&o, "norm", value)); /* post_norm is another */
    assert_null(vt_form_given(&o, "wind", value));
    for (int i = 0; i < 14; i++) vt_choose(&c, "form", "act=relu");
    assert_int_equal(vt_prepare_overrides(&c, &o, &e), VT_E_USAGE);
    assert_string_equal(e.text, "--form is given more than 16 times");
    c.n = 0, e = (vt_err){0};
    vt_choose(&c, "ln-eps", "0");
    assert_int_equal(vt_prepare_overrides(&c, &o, &e), VT_E_USAGE);
    assert_string_equal(e.text, "--ln-eps is '0', must be a number above 0 (timm's ViT: 1e-6)");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lists), cmocka_unit_test(forms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
