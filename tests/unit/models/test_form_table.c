/* SPDX-License-Identifier: MIT */
/* The table of forms: its words, forms that cannot be, the spectral start, roles of tied matrices. */
#include "forms_fixture.h"

#include "linalg/svd.h"
#include "models/forms.h"
#include "models/model.h"

static void test_words(void **state) {
    (void)state;
    vt_config c = {.dim = 1}, zero = {.dim = 1};
    vt_err e = {0};
    char text[1200];
    int n;
    const vt_form *all = vt_forms(&n);
    assert_int_equal(vt_forms_text(&c, text, sizeof text), 0);
    for (int i = 0; i < n; i++) {
        assert_ptr_equal(vt_form_find(all[i].opt.key), &all[i]);
        assert_true(vt_form_is_default(&c, &all[i]));
        for (int k = 0; k < i; k++) assert_true(all[k].field != all[i].field);
    }
    static const char some[] = "pool=all norm=center act=relu qk_norm=1 registers=4 factor=layer_scale "
                               "factor_start=0.1 stage_depth=2,2,18,2 stem_stride=1,1,2,2 eta=1e-05";
    assert_int_equal(vt_form_parse(&c, some, "t", &e), VT_OK);
    assert_true(c.pool == VT_POOL_ALL && c.norm == VT_NORM_CENTER && c.act == VT_ACT_RELU && c.qk_norm &&
                c.registers == 4 && c.factor == VT_FACTOR_LAYER_SCALE && c.stage_depth[2] == 18 &&
                c.stem_stride[1] == 1 && c.stem_stride[3] == 2 && c.eta == 1e-5);
    vt_forms_text(&c, text, sizeof text);
    vt_config again = zero;
    assert_int_equal(vt_form_parse(&again, text, "t", &e), VT_OK);
    assert_memory_equal(&again, &c, sizeof c);
    static const char *const acts[][2] = {{"act=gelu_new", "act=gelu_tanh"},
                                          {"act=nn.ReLU", "act=relu"},
                                          {"act=gelu_pytorch_tanh", "act=gelu_tanh"},
                                          {"act=quickgelu", "act=quick_gelu"}};
    for (size_t i = 0; i < T_COUNT(acts); i++) {
        again = zero;
        assert_int_equal(vt_form_parse(&again, acts[i][0], "t", &e), VT_OK);
        vt_forms_text(&again, text, sizeof text);
        assert_string_equal(text, acts[i][1]);
    }
    static const struct {
        const char *text, *a, *b;
        vt_status status;
    } bad[] = {{"nrom=batch", "'nrom' is no form", "did you mean 'norm'", VT_E_UNKNOWN},
               {"norm=batched", "norm is 'batched'", "layer|batch|center|none", VT_E_USAGE},
               {"act=silu", "silu", "gelu|gelu_tanh|relu|quick_gelu", VT_E_USAGE},
               {"pool=map", "'map'", "token|avg|all|token_avg", VT_E_USAGE},
               {"norm", "'norm'", "key=value", VT_E_USAGE},
               {"stage_depth=1,2,3,4,5", "stage_depth", "up to four", VT_E_USAGE},
               {"stage_depth=2,", "stage_depth", "up to four", VT_E_USAGE},
               {"stage_depth=", "stage_depth", "up to four", VT_E_USAGE},
               {"stage_depth=2,-1", "stage_depth", "up to four", VT_E_USAGE},
               {"stage_depth=2,x", "stage_depth", "up to four", VT_E_USAGE},
               {"registers=2000", "registers", "1024", VT_E_USAGE}};
    for (size_t i = 0; i < T_COUNT(bad); i++)
        t_says(vt_form_parse(&again, bad[i].text, "t", &e), bad[i].status, &e, bad[i].a, bad[i].b);
    static const char *const own[][3] = {/* form, whose alone, of another */
                                         {"local_blocks=1", "convit", "vit"},    {"conv_stem=48", "vit", "xcit"},
                                         {"head_layers=2", "vit", "convit"},     {"no_embed_reg=1", "vit", "swin"},
                                         {"stages=2", "swin", "xcit"},           {"no_shift=1", "swin", "vit"},
                                         {"patch_norm=in", "vit", "convit"},     {"class_blocks=1", "xcit", "convit"},
                                         {"stem_stride=1,1,2,2", "xcit", "swin"}};
    for (size_t i = 0; i < T_COUNT(own); i++) {
        again = zero;
        snprintf(again.arch, sizeof again.arch, "%s", own[i][1]);
        assert_int_equal(vt_form_parse(&again, own[i][0], "t", &e), VT_OK);
        snprintf(again.arch, sizeof again.arch, "%s", own[i][2]);
        snprintf(text, sizeof text, "a form of %s alone, and this is a %s", own[i][1], own[i][2]);
        t_says(vt_form_parse(&again, own[i][0], "t", &e), VT_E_USAGE, &e, text, "t: ");
        assert_int_equal(vt_form_parse(&again, "norm=center init=spectral", "t", &e), VT_OK);
    }
}

/* What cannot be is refused in a sentence, for a new model and for a file alike. */
static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *forms, *a, *b;
        bool dist;
    } bad[] = {{"no_cls=1", "class token", "pool must be avg or all", false},
               {"no_cls=1 pool=avg", "distillation", "class token", true},
               {"pool=all", "distillation", "mean pooling", true},
               {"registers=1", "distillation", "register", true},
               {"norm_first=1", "norm_first", "mean", false},
               {"norm_first=1 pool=avg final_norm=none", "norm_first", "final norm", false},
               {"pool=token_avg", "token_avg", "needs norm_first", false},
               {"pool=token_avg norm_first=1 no_cls=1", "class token", "pool must be avg or all", false},
               {"head_layers=2", "head_layers is 2", "token_avg", false},
               {"pool=token_avg norm_first=1 head_layers=3", "head_layers is 3", "up to the depth, 2", false},
               {"no_embed_reg=1", "no_embed_reg", "without register tokens", false},
               {"no_embed_reg=1 registers=1 no_embed_class=1", "no_embed_reg", "positions", false},
               {"conv_stem=4 no_patch_bias=1", "stem", "bias", false},
               {"norm_pre=1 norm=none", "norm_pre", "norm", false},
               {"post_norm=1 norm=none", "post_norm", "norm", false},
               {"qk_norm=1 tied_qk=1", "q/k norm", "W_Q = W_K", false},
               {"positions=sincos no_embed_class=1", "no_embed_class", "learned positions", false},
               {"positions=sincos registers=1 no_embed_reg=1", "no_embed_reg", "learned positions", false},
               {"positions=none pos_grid=5", "pos_grid", "learned positions", false},
               {"attn_dim=10", "attention width 10", "3 heads", false},
               {"attn_dim=15 proj=none", "output projection", "attn_dim 15", false}};
    for (size_t i = 0; i < T_COUNT(bad); i++) {
        vt_config c = small_vit();
        vt_model *m;
        vt_err e = {0};
        assert_int_equal(vt_form_parse(&c, bad[i].forms, "t", &e), VT_OK);
        c.dist_token = bad[i].dist;
        t_says(vt_config_check(&c, "file", &e), VT_E_SHAPE, &e, bad[i].a, bad[i].b);
        t_says(vt_model_new(&m, &c, &e), VT_E_SHAPE, &e, bad[i].a, "model");
    }
    vt_config c = small_vit(), swin = small_vit();
    vt_err e = {0};
    strcpy(swin.arch, "swin"), swin.patch_norm = VT_PATCH_NORM_OUT;
    t_says(vt_config_check(&swin, "file", &e), VT_E_SHAPE, &e, "patch_norm", "this is a swin");
    c.positions = VT_POSITIONS_SINCOS, c.dim = 18;
    t_says(vt_config_check(&c, "file", &e), VT_E_SHAPE, &e, "width is 18", "multiple of 4, at least 8");
    c.positions = VT_POSITIONS_LEARNED, c.dim = c.heads = 1, c.norm = VT_NORM_CENTER;
    t_says(vt_config_check(&c, "file", &e), VT_E_RANGE, &e, "CenterNorm", "width");
    c = small_vit();
    c.conv_stem = 4, c.patch = 32, c.image = 64;
    t_says(vt_config_check(&c, "file", &e), VT_E_RANGE, &e, "patch is 32", "2, 4, 8 or 16");
    c.patch = 6, c.image = 12;
    t_says(vt_config_check(&c, "file", &e), VT_E_RANGE, &e, "patch is 6", "2, 4, 8 or 16");
    c.patch = 4, c.conv_stem = 4096;
    t_says(vt_config_check(&c, "file", &e), VT_E_RANGE, &e, "4096 channels", "at most 2048");
}

/* Linear maps and the patch embedding start with a largest singular value of 1, biases and norms as ever. */
static void test_spectral(void **state) {
    (void)state;
    vt_config c = small_vit();
    vt_err e = {0};
    assert_int_equal(vt_form_parse(&c, "init=spectral factor=alpha norm=center", "t", &e), VT_OK);
    vt_model *m;
    assert_int_equal(vt_model_new(&m, &c, &e), VT_OK);
    assert_int_equal(vt_model_init(m, 3), VT_OK);
    int maps = 0;
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        const float *w = m->w + p->offset;
        const char *dot = strrchr(p->name, '.');
        if (strstr(p->name, ".alpha")) assert_true(w[0] == 0.5f && w[p->numel - 1] == 0.5f); /* 1 / depth */
        if (!dot || strcmp(dot, ".weight") || strstr(p->name, "norm")) continue;
        double a[1000], sigma[64];
        int rows_of = (int)p->shape[0], cols = (int)(p->numel / (size_t)p->shape[0]);
        for (size_t k = 0; k < p->numel; k++) a[k] = (double)w[k];
        assert_int_equal(vt_svd_values(sigma, a, rows_of, cols, cols, &e), VT_OK);
        t_le(fabs(sigma[0] - 1), 1e-6, "largest singular value of %s", p->name); /* rounded to float */
        maps++;
    }
    assert_int_equal(maps, 2 + 4 * c.depth);
    assert_true(t_max((double[]){(double)m->w[vt_model_param(m, "head.bias")->offset]}, 1) == 0);
    vt_model_close(m);
}

/* Tied: one matrix for two roles, told by `again`; untied ones are three. 18 wide in 12, tied ones have as many rows as
 * untied ones of 12. */
static void check_roles(bool tied, int width) {
    vt_config c = small_vit();
    c.tied_qk = tied, c.attn_dim = width == 12 ? 0 : width;
    vt_model *m = model_of(&c, 1);
    const size_t one = 12 * (size_t)width;
    vt_matrix q, k, v, o;
    assert_int_equal(vt_model_blocks(m), 2);
    assert_true(vt_model_matrix(m, 1, VT_WEIGHT_Q, &q) && vt_model_matrix(m, 1, VT_WEIGHT_K, &k) &&
                vt_model_matrix(m, 1, VT_WEIGHT_V, &v) && vt_model_matrix(m, 1, VT_WEIGHT_O, &o));
    const vt_param *qkv = vt_model_param(m, "blocks.1.attn.qkv.weight");
    assert_int_equal(qkv->shape[0], (tied ? 2 : 3) * width);
    assert_true(q.offset == qkv->offset && k.offset == qkv->offset + (tied ? 0 : one));
    assert_true(v.offset == qkv->offset + (tied ? one : 2 * one) && v.rows == width && v.cols == 12 && v.heads == 3);
    assert_true(!q.again && !v.again && k.again == tied && o.rows == 12 && o.cols == width);
    assert_false(vt_model_matrix(m, 2, VT_WEIGHT_Q, &q));
    vt_model_close(m);
}

static void test_roles(void **state) {
    (void)state;
    for (int tied = 0; tied < 2; tied++)
        for (int width = 12; width <= 18; width += 6) check_roles(tied, width);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_spectral),
        cmocka_unit_test(test_roles),
    };
    return cmocka_run_group_tests_name("form table", tests, setup, remove_tmp);
}
