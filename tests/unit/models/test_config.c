/* SPDX-License-Identifier: MIT */
/* Configurations: what is refused, the parameter counts of the presets, initialisation. */
#include "checkpoint_fixture.h"

#include "models/arch.h"

static void test_config_check(void **state) {
    (void)state;
    vt_config good = toy_config("dot", VT_POOL_TOKEN, false, true), c;
    vt_err e = {0};
    assert_int_equal(vt_config_check(&good, NULL, &e), VT_OK);
#define BAD(field, value, status, text)                                                                                \
    c = good, c.field = value;                                                                                         \
    t_says(vt_config_check(&c, "file", &e), status, &e, "file", text)
    BAD(image, 0, VT_E_RANGE, "image size");
    BAD(image, 4100, VT_E_RANGE, "4096");
    BAD(image, 14, VT_E_SHAPE, "multiple of patch size 4");
    BAD(patch, 13, VT_E_RANGE, "patch size");
    BAD(dim, 13, VT_E_SHAPE, "multiple of 3 heads");
    BAD(dim, 0, VT_E_RANGE, "dim");
    BAD(depth, 0, VT_E_RANGE, "depth");
    BAD(heads, 0, VT_E_RANGE, "heads");
    BAD(hidden, 0, VT_E_RANGE, "MLP");
    BAD(classes, 1, VT_E_RANGE, "classes");
    BAD(ln_eps, 0, VT_E_RANGE, "eps");
    BAD(ln_eps, NAN, VT_E_RANGE, "eps");
    BAD(attn_scale, 0, VT_E_RANGE, "scale");
    BAD(attn_scale, NAN, VT_E_RANGE, "scale");
    BAD(mean[1], NAN, VT_E_RANGE, "mean");
    BAD(std[2], 0, VT_E_RANGE, "std");
    BAD(std[0], -1, VT_E_RANGE, "std");
    BAD(std[0], INFINITY, VT_E_RANGE, "std");
#undef BAD
}

/* What timm's models of these names hold (the old ViT-S: up to 0.4.9): 224 pixels, patches of 16, 1000 classes; and 32
 * pixels, patches of 4, 10 classes. */
static void test_counts(void **state) {
    (void)state;
    static const struct {
        const char *preset;
        size_t imagenet, cifar;
    } table[] = {
        {"vit_small_patch16_224_old", 48754408, 47338762},
        {"vit_tiny_patch16_224", 5717416, 5362762},
        {"deit_tiny_patch16_224", 5717416, 5362762},
        {"vit_small_patch16_224", 22050664, 21342346},
        {"deit_small_patch16_224", 22050664, 21342346},
        {"vit_base_patch16_224", 86567656, 85152010},
        {"deit_base_patch16_224", 86567656, 85152010},
        {"deit_tiny_distilled_patch16_224", 5910800, 5365076},
        {"deit_small_distilled_patch16_224", 22436432, 21346964},
        {"deit_base_distilled_patch16_224", 87338192, 85161236},
        {"vit_s_cvst", 22777576, 21403978},
        {"vit_m_cvst", 39527272, 37973194},
        {"vit_b_cvst", 87147112, 85232074},
        {"convit_tiny", 5710512, 5355858},
        {"convit_small", 27777322, 26980588},
        {"convit_base", 86540040, 85124394},
    };
    for (size_t i = 0; i < T_COUNT(table); i++)
        for (int cifar = 0; cifar < 2; cifar++) {
            const vt_preset *p = vt_preset_find(table[i].preset);
            if (!p) fail_msg("no preset %s", table[i].preset);
            vt_config c;
            vt_err e = {0};
            vt_preset_config(p, &c);
            if (cifar) c.image = 32, c.patch = 4, c.classes = 10;
            if (vt_config_check(&c, p->name, &e) != VT_OK) fail_msg("%s", e.text);
            vt_param_list l = {0}; /* the table alone: no weights are allocated */
            vt_arch_find(c.arch)->params(&l, &c);
            assert_false(l.failed);
            vt_model m = {.params = l};
            size_t want = cifar ? table[i].cifar : table[i].imagenet;
            if (vt_model_param_count(&m) != want)
                fail_msg("%s: %zu parameters instead of %zu", p->name, vt_model_param_count(&m), want);
            vt_param_list_free(&l);
        }
    int n;
    const vt_preset *all = vt_presets(&n);
    for (int i = 0; i < n; i++) { /* every row is a model that can be made */
        vt_config c;
        vt_err e = {0};
        vt_preset_config(&all[i], &c);
        if (vt_config_check(&c, all[i].name, &e) != VT_OK) fail_msg("%s", e.text);
        assert_ptr_equal(vt_preset_find(all[i].name), &all[i]);
    }
    assert_null(vt_preset_find("no such preset"));
}

/* timm's initialisation: ones, zeros, normals of .02 (never above 2), the class token near zero, convolutions
 * uniform in +- 1/sqrt(48); a function of the seed. Moments within five standard errors. */
static void test_init(void **state) {
    (void)state;
    vt_config c = toy_config("dot", VT_POOL_TOKEN, true, true);
    c.dim = 48, c.hidden = 96;
    vt_model *m, *same, *other;
    vt_err e = {0};
    assert_true(vt_model_new(&m, &c, &e) == VT_OK && vt_model_new(&same, &c, &e) == VT_OK &&
                vt_model_new(&other, &c, &e) == VT_OK);
    vt_model_init(m, 7), vt_model_init(same, 7), vt_model_init(other, 8);
    assert_memory_equal(m->w, same->w, m->params.total * sizeof(float));
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        const float *w = m->w + p->offset;
        double n = (double)p->numel, sq = 0, top = 0;
        for (size_t k = 0; k < p->numel; k++)
            sq += (double)w[k] * (double)w[k] / n, top = fmax(top, fabs((double)w[k]));
        const char *dot = strrchr(p->name, '.');
        bool norm = strstr(p->name, "norm") != NULL, conv = strstr(p->name, "patch_embed") != NULL,
             bias = dot && !strcmp(dot, ".bias");
        double want = conv ? 1 / (3.0 * 48) : norm ? !bias : bias ? 0 : strstr(p->name, "cls_token") ? 1e-12 : 4e-4;
        t_le(fabs(sq - want), norm || (bias && !conv) ? 1e-12 : 5 * sqrt(2 / n) * want, "mean square of %s", p->name);
        if (conv) t_le(top, 1 / sqrt(48), "bound of %s", p->name);
        if (want != 0 && !norm) assert_memory_not_equal(w, other->w + p->offset, p->numel * sizeof(float));
    }
    vt_model_close(m), vt_model_close(same), vt_model_close(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config_check),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_init),
    };
    return cmocka_run_group_tests_name("config", tests, make_tmp, remove_tmp);
}
