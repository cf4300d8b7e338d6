/* SPDX-License-Identifier: MIT */
/* Models whose input is not what is cut into patches: resized inside, channels reversed. Against PyTorch
 * (tests/fixtures/gen_native.py); through classifier, probe and training. Gradients in double against central
 * differences are rows of test_forms.c. */
#define VT_DOUBLE
#include "base/real.h"
#include "judge.h"

#include "models/forms.h"
#include "models/net/session.h"

static vt_model *model_of(const char *form) {
    vt_config c = {.arch = "vit",
                   .attn = "dot",
                   .image = 8,
                   .patch = 4,
                   .dim = 8,
                   .depth = 2,
                   .heads = 2,
                   .hidden = 12,
                   .classes = 5,
                   .qkv_bias = true,
                   .ln_eps = 1e-6,
                   .attn_scale = 0.5,
                   .mean = {0.4914, 0.4822, 0.4465},
                   .std = {0.247, 0.2435, 0.2616}};
    vt_err e = {0};
    vt_model *m;
    if (vt_form_parse(&c, form, form, &e) != VT_OK || vt_model_new(&m, &c, &e) != VT_OK) fail_msg("%s", e.text);
    return m;
}

static void test_torch(void **state) {
    (void)state;
    int forms = 0;
    ref = reference_open("tests/fixtures/golden/native.safetensors");
    for (const char *key; (key = vt_tensors_meta_key(ref, forms)); forms++) {
        vt_model *m = model_of(vt_tensors_meta(ref, key));
        judge_weights(m, "w");
        judge(m, key, VT_GRAD_INPUT);
        vt_model_close(m);
    }
    assert_int_equal(forms, 7);
}

/* The normalisation may as well come before the resize: the weights of every filter sum to 1. */
static void test_commutes(void **state) {
    (void)state;
    static const char *const filters[] = {"bilinear", "bicubic", "nearest", "bilinear_aa", "bicubic_aa"};
    for (size_t i = 0; i < T_COUNT(filters); i++) {
        char form[64];
        vt_err e = {0};
        snprintf(form, sizeof form, "native=5 native_filter=%s", filters[i]);
        vt_model *m = model_of(form);
        vt_session_f64 *s;
        static double x[3 * 25], y[3 * 25], z[5];
        t_normals(x, T_COUNT(x), 3, 1);
        assert_int_equal(vt_model_init(m, 4), VT_OK);
        assert_int_equal(vt_session_open_f64(&s, m, 1, VT_GRAD_NONE, &e), VT_OK);
        memcpy(z, vt_session_forward_f64(s, x, 1, false), sizeof z);
        for (size_t k = 0; k < T_COUNT(x); k++) y[k] = (x[k] - m->config.mean[k / 25]) / m->config.std[k / 25];
        for (int k = 0; k < 3; k++) m->config.mean[k] = 0, m->config.std[k] = 1;
        t_le(t_max_diff(vt_session_forward_f64(s, y, 1, false), z, 5), 1e-12 * (1 + t_max(z, 5)), "%s", form);
        vt_session_close_f64(s);
        vt_model_close(m);
    }
}

/* Of a distilled model: one head alone, or the mean of both, logits and gradients. */
static void test_heads(void **state) {
    (void)state;
    static const char *const heads[] = {"dist_head=class", "dist_head=dist", "dist_head=mean"};
    static double x[3 * 64], cot[5], z[3][5], dx[3][3 * 64];
    double *grad[3];
    t_normals(x, T_COUNT(x), 3, 1), t_normals(cot, 5, 9, 1);
    vt_err e = {0};
    vt_model *plain = model_of("");
    vt_config c = plain->config;
    vt_model_close(plain);
    c.dist_token = true;
    for (int i = 0; i < 3; i++) {
        vt_model *m;
        vt_session_f64 *s;
        if (vt_form_parse(&c, heads[i], "row", &e) != VT_OK) fail_msg("%s", e.text);
        assert_int_equal(vt_model_new(&m, &c, &e), VT_OK);
        assert_int_equal(vt_model_init(m, 4), VT_OK);
        grad[i] = calloc(m->params.total, sizeof **grad);
        assert_int_equal(vt_session_open_f64(&s, m, 1, VT_GRAD_PARAMS, &e), VT_OK);
        memcpy(z[i], vt_session_forward_f64(s, x, 1, true), sizeof z[i]);
        vt_session_backward_f64(s, cot, dx[i], grad[i]);
        vt_session_close_f64(s);
        if (i == 2) {
            for (int k = 0; k < 5; k++) t_le(fabs(z[2][k] - (z[0][k] + z[1][k]) / 2), 1e-15, "logit");
            for (int k = 0; k < 3 * 64; k++) t_le(fabs(dx[2][k] - (dx[0][k] + dx[1][k]) / 2), 1e-15, "dx");
            for (size_t k = 0; k < m->params.total; k++)
                t_le(fabs(grad[2][k] - (grad[0][k] + grad[1][k]) / 2), 1e-14, "gradient %zu", k);
            const vt_param *p = vt_model_param(m, "head_dist.weight"), *q = vt_model_param(m, "head.weight");
            assert_true(t_norm(grad[0] + p->offset, p->numel) == 0 && t_norm(grad[1] + q->offset, q->numel) == 0);
            assert_true(t_norm(grad[1] + p->offset, p->numel) > 0 && t_norm(grad[0] + q->offset, q->numel) > 0);
        }
        vt_model_close(m);
    }
    for (int i = 0; i < 3; i++) free(grad[i]);
    c.dist_token = false, c.dist_head = VT_DIST_CLASS;
    vt_model *none;
    t_says(vt_model_new(&none, &c, &e), VT_E_SHAPE, &e, "dist_head", "without distillation token");
}

/* All room is planned: the two pictures inside, the weights of the resize and its scratch. */
static void test_bytes(void **state) {
    (void)state;
    vt_model *plain = model_of(""), *native = model_of("native=5"), *reversed = model_of("bgr=1");
    for (int mode = VT_GRAD_NONE; mode <= VT_GRAD_PARAMS; mode++) {
        size_t inside = (mode == VT_GRAD_NONE ? 1 : 2) * 3 * 8 * 8 * B * sizeof(float), few = 4096;
        size_t base = vt_session_bytes_f32(plain, B, (vt_grad_mode)mode);
        size_t n = vt_session_bytes_f32(native, B, (vt_grad_mode)mode) - base;
        assert_int_equal(vt_session_bytes_f32(reversed, B, (vt_grad_mode)mode) - base, inside);
        assert_true(n > inside && n < inside + few);
    }
    vt_model_close(plain), vt_model_close(native), vt_model_close(reversed);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(test_torch, close_ref),
                                       cmocka_unit_test(test_commutes), cmocka_unit_test(test_heads),
                                       cmocka_unit_test(test_bytes)};
    return cmocka_run_group_tests_name("native", tests, NULL, NULL);
}
