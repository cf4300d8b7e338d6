/* SPDX-License-Identifier: MIT */
/* Leaderboard ViTs under their authors' names, from file to gradient: tests/fixtures/stems against what PyTorch
 * computed of them (tools/gen_stems_fixture.py). Runs from the repository root. */
#include "forms_fixture.h"

#include "models/forms.h"

static const struct {
    const char *name, *file, *naming, *forms; /* what the file must tell of itself */
    const char *given;                        /* --form */
    int image, shown;                         /* side of the input; --image-size */
    double ln_eps;                            /* --ln-eps */
    bool pixels;                              /* mean 0 and std 1 are given: nothing says them */
    bool inputs;                              /* --mean and --std of ImageNet are given */
} rows[] = {
    {"cvst_s", "cvst_s.safetensors", "timm", "conv_stem=3", NULL, 32, 0, 0, false, false},
    {"cvst_m", "cvst_m.pth", "timm", "no_embed_class=1 factor=layer_scale conv_stem=4", NULL, 32, 0, 0, true, false},
    {"dinov2_lc", "dinov2_lc.safetensors", "dinov2", "pool=token_avg norm_first=1 factor=layer_scale", NULL, 12, 0, 0,
     false, false},
    {"dinov2_reg_lc4", "dinov2_reg_lc4.safetensors", "dinov2",
     "pool=token_avg norm_first=1 registers=3 factor=layer_scale no_embed_reg=1 head_layers=4", NULL, 12, 0, 0, false,
     false},
    {"dinov2_small", "dinov2_small.safetensors", "dinov2",
     "pool=token_avg norm_first=1 factor=layer_scale pos_grid=5 pos_filter=bicubic_offset", NULL, 12, 12, 0, false,
     false},
    {"dinov2_reg_small", "dinov2_reg_small.safetensors", "dinov2",
     "pool=token_avg norm_first=1 registers=2 factor=layer_scale no_embed_reg=1 pos_grid=5 pos_filter=bicubic_aa "
     "head_layers=4",
     NULL, 12, 12, 0, false, false},
    {"hf_small", "hf_small.safetensors", "huggingface-dinov2",
     "pool=token_avg norm_first=1 factor=layer_scale pos_grid=2", NULL, 12, 12, 0, false, true},
    {"hf", "hf.safetensors", "huggingface-dinov2", "pool=token_avg norm_first=1 factor=layer_scale", NULL, 12, 0, 0,
     false, true},
    {"hf_reg", "hf_reg.safetensors", "huggingface-dinov2",
     "pool=token_avg norm_first=1 registers=4 factor=layer_scale no_embed_reg=1", NULL, 12, 0, 0, false, true},
    {"clip", "clip.safetensors", "timm", "act=quick_gelu norm_pre=1 no_patch_bias=1", "act=quick_gelu", 8, 0, 1e-5,
     false, true},
};

static vt_model *opened(size_t i) {
    char path[120];
    vt_model *m;
    vt_err e = {0};
    vt_overrides o = {.heads = 2, .image = rows[i].shown, .ln_eps = rows[i].ln_eps};
    if (rows[i].given) o.form[o.n_form++] = rows[i].given;
    if (rows[i].pixels || rows[i].inputs) {
        static const double mean[3] = {0.485, 0.456, 0.406}, std[3] = {0.229, 0.224, 0.225};
        o.has_mean = o.has_std = true;
        for (int k = 0; k < 3; k++) o.mean[k] = rows[i].pixels ? 0 : mean[k], o.std[k] = rows[i].pixels ? 1 : std[k];
    }
    snprintf(path, sizeof path, "tests/fixtures/stems/%s", rows[i].file);
    if (vt_model_open(&m, path, &o, &e) != VT_OK) fail_msg("%s", e.text);
    return m;
}

/* In float, of the largest logit and gradient: five blocks or four convolutions of some 30 roundings of 6e-8 each,
 * which a LayerNorm over a stem's few channels enlarges; measured 8e-7 at most. */
static void judge_closely(const vt_model *m, const char *form) {
    size_t n = B * vt_config_input_pixels(&m->config), k = B * (size_t)m->config.classes;
    double *x = reference(ref, n, "%s.x", form), *cot = reference(ref, k, "%s.cot", form);
    double *z = reference(ref, k, "%s.logits", form), *dx = reference(ref, n, "%s.dx", form);
    float *xf = malloc(n * sizeof *xf), *dxf = malloc(n * sizeof *dxf), cotf[B * 8];
    vt_session_f32 *s;
    vt_err e = {0};
    for (size_t i = 0; i < n; i++) xf[i] = (float)x[i];
    for (size_t i = 0; i < k; i++) cotf[i] = (float)cot[i];
    if (vt_session_open_f32(&s, m, B, VT_GRAD_INPUT, &e) != VT_OK) fail_msg("%s", e.text);
    const float *zf = vt_session_forward_f32(s, xf, B, true);
    for (size_t i = 0; i < k; i++) t_le(fabs((double)zf[i] - z[i]), 1e-5 * t_max(z, k), "%s: float logit", form);
    vt_session_backward_f32(s, cotf, dxf, NULL);
    for (size_t i = 0; i < n; i++) t_le(fabs((double)dxf[i] - dx[i]), 1e-5 * t_max(dx, n), "%s: float dx", form);
    vt_session_close_f32(s);
    free(x), free(cot), free(z), free(dx), free(xf), free(dxf);
}

/* Logits and gradients to 1e-9 in double, to 1e-5 in float; and once more of the same model written by us and read
 * without a single option. */
static void test_torch(void **state) {
    (void)state;
    ref = reference_open("tests/fixtures/golden/stems.safetensors");
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        vt_model *m = opened(i), *again;
        vt_err e = {0};
        char forms[200];
        vt_forms_text(&m->config, forms, sizeof forms);
        assert_string_equal(forms, rows[i].forms);
        assert_string_equal(m->naming, rows[i].naming);
        assert_int_equal(m->config.image, rows[i].image);
        judge(m, rows[i].name, VT_GRAD_PARAMS);
        judge_closely(m, rows[i].name);
        if (vt_model_save(m, at("again.safetensors"), &e) != VT_OK) fail_msg("%s", e.text);
        if (vt_model_open(&again, at("again.safetensors"), NULL, &e) != VT_OK) fail_msg("%s", e.text);
        judge(again, rows[i].name, VT_GRAD_INPUT);
        assert_memory_equal(m->w, again->w, m->params.total * sizeof *m->w);
        vt_model_close(m), vt_model_close(again);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(test_torch, close_ref)};
    return cmocka_run_group_tests_name("stems", tests, setup, remove_tmp);
}
