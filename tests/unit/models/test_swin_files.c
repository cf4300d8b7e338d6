/* SPDX-License-Identifier: MIT */
/* What a Swin is: what detection tells, guesses and refuses, presets, stages, how weights start. */
#include "swin_fixture.h"

#include <unistd.h>
#include "models/arch.h"
#include "models/swin.h"

/* ---- detection ---- */

/* Writes the tensors of a model without the metadata that vt_model_save gives; but for those that `edit` changes, and
 * without those of which it says so. Pairs: more metadata. */
static void write_bare(const vt_model *m, const char *path, bool (*edit)(vt_tensor *t), const char *const *pairs,
                       int n_pairs) {
    vt_tensor *t = calloc((size_t)m->params.count, sizeof *t);
    vt_err e = {0};
    int n = 0;
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        t[n] =
            (vt_tensor){.name = p->name, .dtype = VT_F32, .ndim = p->ndim, .numel = p->numel, .data = m->w + p->offset};
        memcpy(t[n].shape, p->shape, sizeof p->shape);
        if (!edit || edit(&t[n])) n++;
    }
    if (vt_tensors_write(path, t, n, pairs, n_pairs, &e) != VT_OK) fail_msg("%s", e.text);
    free(t);
}

static const vt_overrides imagenet = {.has_mean = true, .has_std = true, .std = {1, 1, 1}};

static vt_model *opened(const char *path, const vt_overrides *o) {
    vt_model *m;
    vt_err e = {0};
    if (vt_model_open(&m, path, o, &e) != VT_OK) fail_msg("%s", e.text);
    return m;
}

/* What the tensors tell of each reference network, file after file. */
static void test_detected(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int image; /* what is said without metadata */
        const char *from;
    } all[] = {{"whole", 16, "tensors"},   /* its second stage is smaller than its window */
               {"shifted", 24, "a guess"}, /* right, by luck */
               {"padded", 16, "a guess"},  /* 2 * 4 * 2 pixels; 20 in truth */
               {"lips", 12, "tensors"}};
    for (size_t i = 0; i < T_COUNT(all); i++) {
        vt_model *m = judged(all[i].name), *got;
        char a[300], b[300];
        write_bare(m, at("bare.safetensors"), NULL, NULL, 0);
        vt_overrides o = imagenet;
        if (!strcmp(all[i].name, "lips")) /* of these no tensor tells */
            o.form[0] = "norm=center", o.form[1] = "final_norm=center", o.form[2] = "post_norm=1",
            o.form[3] = "no_shift=1", o.n_form = 4;
        got = opened(at("bare.safetensors"), &o);
        const vt_config *c = &m->config, *d = &got->config;
        vt_forms_text(c, a, sizeof a), vt_forms_text(d, b, sizeof b);
        assert_string_equal(a, b);
        assert_true(!strcmp(d->arch, "swin") && d->image == all[i].image && d->patch == c->patch &&
                    d->depth == c->depth && d->heads == c->heads && d->hidden == c->hidden &&
                    d->qkv_bias == c->qkv_bias && d->ln_eps == 1e-5 && d->attn_scale == c->attn_scale);
        assert_true(!strncmp(got->source[VT_FIELD_IMAGE], all[i].from, strlen(all[i].from)));
        assert_string_equal(got->source[VT_FIELD_STAGE_HEADS], "tensors");
        assert_string_equal(got->source[VT_FIELD_WINDOW], "tensors");
        vt_model_close(m), vt_model_close(got);
    }
}

static void write_text(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_true(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* Who tells the side of the image where tensors do not, the first that speaks winning. */
static void test_image(void **state) {
    (void)state;
    vt_model *m = judged("padded"), *got;
    vt_err e = {0};
    const char *pairs[] = {"image", "20"};
    struct {
        int option, shown, want;
        bool meta;
        const char *json, *from;
    } all[] = {{28, 36, 28, true, "{\"image_size\": 44}", "--image-size"},
               {0, 36, 20, true, "{\"image_size\": 44}", "safetensors metadata"},
               {0, 36, 44, false, "{\"image_size\": 44}", "config.json"},
               {0, 36, 52, false, "{\"pretrained_cfg\": {\"input_size\": [3, 52, 52]}}", "config.json"},
               {0, 36, 36, false, NULL, "the images given"},
               {0, 0, 16, false, NULL, "a guess"}};
    for (size_t i = 0; i < T_COUNT(all); i++) {
        write_bare(m, at("w.safetensors"), NULL, pairs, all[i].meta);
        if (all[i].json)
            write_text(at("config.json"), all[i].json);
        else
            unlink(at("config.json"));
        vt_overrides o = imagenet;
        o.image = all[i].option, o.shown = all[i].shown;
        got = opened(at("w.safetensors"), &o);
        assert_int_equal(got->config.image, all[i].want);
        assert_true(!strncmp(got->source[VT_FIELD_IMAGE], all[i].from, strlen(all[i].from)));
        vt_model_close(got);
    }
    unlink(at("config.json"));
    assert_int_equal(vt_model_save(m, at("w.safetensors"), &e), VT_OK);
    got = opened(at("w.safetensors"), NULL);
    assert_int_equal(got->config.image, 20);
    vt_model_close(got);
    write_bare(m, at("w.safetensors"), NULL, NULL, 0);
    vt_overrides o = imagenet;
    o.image = 18;
    t_says(vt_model_open(&got, at("w.safetensors"), &o, &e), VT_E_SHAPE, &e, "9 x 9 tokens", "multiple of 4");
    pairs[1] = "20.5";
    write_bare(m, at("w.safetensors"), NULL, pairs, 1);
    t_says(vt_model_open(&got, at("w.safetensors"), &imagenet, &e), VT_E_RANGE, &e, "20.5", "whole number");
    vt_model_close(m);
    m = judged("whole");
    write_bare(m, at("w.safetensors"), NULL, NULL, 0);
    o.image = 32;
    t_says(vt_model_open(&got, at("w.safetensors"), &o, &e), VT_E_USAGE, &e, "--image-size 32", "16");
    vt_model_close(m);
}

static bool table_cut(vt_tensor *t) {
    if (!strcmp(t->name, "layers.1.blocks.0.attn.relative_position_bias_table")) t->shape[0]--, t->numel -= 4;
    return true;
}

static bool other_table(vt_tensor *t) {
    if (!strcmp(t->name, "layers.1.blocks.1.attn.relative_position_bias_table")) t->shape[0] = 25, t->numel = 100;
    return true;
}

static bool no_head(vt_tensor *t) { return strcmp(t->name, "head.fc.weight") != 0; }

static bool no_merging(vt_tensor *t) { return strcmp(t->name, "layers.1.downsample.reduction.weight") != 0; }

static bool thin_kernel(vt_tensor *t) {
    if (!strcmp(t->name, "patch_embed.proj.weight")) t->shape[3] = 1, t->numel /= 2;
    return true;
}

static bool stray(vt_tensor *t) {
    if (!strcmp(t->name, "norm.bias")) t->name = "norm.bios";
    return true;
}

static void test_damaged(void **state) {
    (void)state;
    static const struct {
        bool (*edit)(vt_tensor *t);
        vt_status status;
        const char *a, *b;
    } all[] = {{table_cut, VT_E_SHAPE, "layers.1.blocks.0.attn.relative_position_bias_table has 48 rows",
                "(2 w - 1)^2"},
               {other_table, VT_E_SHAPE, "layers.1.blocks.1.attn.relative_position_bias_table",
                "[25,4], must be [49,4]"},
               {no_head, VT_E_FORMAT, "head.fc.weight", "missing"},
               {no_merging, VT_E_FORMAT, "layers.1.downsample.reduction.weight", "missing"},
               {thin_kernel, VT_E_SHAPE, "patch_embed.proj.weight", "[dim,3,patch,patch]"},
               {stray, VT_E_FORMAT, "norm.bias", "missing"}};
    vt_model *m = judged("padded"), *got;
    vt_err e = {0};
    for (size_t i = 0; i < T_COUNT(all); i++) {
        write_bare(m, at("bare.safetensors"), all[i].edit, NULL, 0);
        t_says(vt_model_open(&got, at("bare.safetensors"), &imagenet, &e), all[i].status, &e, all[i].a, all[i].b);
    }
    vt_model_close(m);
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *forms, *a, *b;
        vt_status status;
    } bad[] = {{"pool=token", "mean of the normalised tokens", "pool=avg", VT_E_SHAPE},
               {"norm_first=0", "mean of the normalised tokens", "norm_first=1", VT_E_SHAPE},
               {"no_cls=0", "mean of the normalised tokens", "no_cls=1", VT_E_SHAPE},
               {"registers=1", "Swin", "register", VT_E_SHAPE},
               {"norm_pre=1", "Swin", "norm", VT_E_SHAPE},
               {"post_norm=1 norm=none", "post_norm", "norm", VT_E_SHAPE},
               {"qk_norm=1 tied_qk=1", "q/k norm", "W_Q = W_K", VT_E_SHAPE},
               {"stages=0", "stages are 0", "between 1 and 4", VT_E_RANGE},
               {"stages=3", "stage_depth of stage 2 is 0", "between 1", VT_E_RANGE},
               {"stages=1", "stage 1", "stages are 1", VT_E_SHAPE},
               {"stage_heads=2,3", "stage_heads of stage 1 is 3", "width 8", VT_E_SHAPE},
               {"stage_heads=1,4", "2 heads", "begins with 1", VT_E_SHAPE},
               {"stage_depth=2,3", "depth 4", "adds up to 5", VT_E_SHAPE},
               {"window=0", "window is 0", "between 1 and", VT_E_RANGE},
               {"window=11", "window is 11", "10 tokens", VT_E_RANGE}};
    for (size_t i = 0; i < T_COUNT(bad); i++) {
        vt_config c = config_of("padded");
        vt_err e = {0};
        assert_int_equal(vt_form_parse(&c, bad[i].forms, "t", &e), VT_OK);
        t_says(vt_config_check(&c, "file", &e), bad[i].status, &e, bad[i].a, bad[i].b);
    }
    vt_config c = config_of("padded");
    vt_err e = {0};
    c.dist_token = true;
    t_says(vt_config_check(&c, "file", &e), VT_E_SHAPE, &e, "Swin", "distillation");
    c = config_of("padded"), c.image = 4096, c.patch = 1, c.dim = 512, c.hidden = 2048;
    t_says(vt_config_check(&c, "file", &e), VT_E_RANGE, &e, "stage 0", "tokens");
}

/* ---- presets ---- */

/* timm's counts for 1000 classes, and 10 classes; the CIFAR row as timm's SwinTransformer counts it. Products by hand:
 * what Liu et al. print as 4.5, 8.7 and 15.4 GFLOP are multiply-adds. */
static void test_presets(void **state) {
    (void)state;
    static const struct {
        const char *preset;
        int classes;
        size_t parameters;
        double giga; /* multiply-adds */
    } all[] = {{"swin_tiny_patch4_window7_224", 1000, 28288354, 4.5},
               {"swin_tiny_patch4_window7_224", 10, 27527044, 4.5},
               {"swin_small_patch4_window7_224", 1000, 49606258, 8.7},
               {"swin_base_patch4_window7_224", 1000, 87768224, 15.4},
               {"swin_tiny_patch2_window4_32", 10, 27505108, 0.36}};
    for (size_t i = 0; i < T_COUNT(all); i++) {
        const vt_preset *p = vt_preset_find(all[i].preset);
        vt_config c;
        vt_err e = {0};
        if (!p) fail_msg("no preset %s", all[i].preset);
        vt_preset_config(p, &c);
        c.classes = all[i].classes;
        if (vt_config_check(&c, p->name, &e) != VT_OK) fail_msg("%s", e.text);
        vt_param_list l = {0};
        vt_arch_find("swin")->params(&l, &c);
        assert_false(l.failed);
        vt_model m = {.params = l};
        assert_int_equal(vt_model_param_count(&m), all[i].parameters);
        vt_param_list_free(&l);
        double forward, gradient;
        vt_arch_find("swin")->flops(&c, true, &forward, &gradient);
        t_le(fabs(forward / 2e9 / all[i].giga - 1), 0.02, "%s: products", p->name);
        assert_true(gradient > 2 * forward && gradient < 2.1 * forward);
    }
}

/* Stages of Swin-T: the last one is a single window and is not shifted; at 32 pixels windows shrink with the stage. */
static void test_stages(void **state) {
    (void)state;
    static const struct {
        const char *preset;
        int side[4], window[4], shift[4], windows[4];
    } all[] = {{"swin_tiny_patch4_window7_224", {56, 28, 14, 7}, {7, 7, 7, 7}, {3, 3, 3, 0}, {64, 16, 4, 1}},
               {"swin_tiny_patch2_window4_32", {16, 8, 4, 2}, {4, 4, 4, 2}, {2, 2, 0, 0}, {16, 4, 1, 1}}};
    for (size_t i = 0; i < T_COUNT(all); i++) {
        vt_config c;
        vt_preset_config(vt_preset_find(all[i].preset), &c);
        for (int s = 0; s < 4; s++) {
            vt_swin_stage g = vt_swin_stage_of(&c, s);
            assert_true(g.side == all[i].side[s] && g.window == all[i].window[s] && g.shift == all[i].shift[s] &&
                        g.windows == all[i].windows[s] && g.dim == 96 << s && g.hidden == 384 << s &&
                        g.heads == 3 << s && g.scale == c.attn_scale);
            c.no_shift = true;
            assert_int_equal(vt_swin_stage_of(&c, s).shift, 0);
            c.no_shift = false;
        }
    }
}

/* First weights: tables and linear maps normal of .02, norms one, biases zero. */
static void test_init(void **state) {
    (void)state;
    vt_config c = config_of("whole");
    vt_err e = {0};
    vt_model *m;
    c.dim = 24, c.hidden = 96, c.attn_scale = 0.3;
    if (vt_model_new(&m, &c, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(vt_model_init(m, 5), VT_OK);
    int normals = 0;
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        const float *w = m->w + p->offset;
        bool norm = strstr(p->name, "norm") != NULL, table = strstr(p->name, "_table") != NULL;
        double sum = 0;
        for (size_t k = 0; k < p->numel; k++) sum += (double)w[k] * (double)w[k];
        double rms = sqrt(sum / (double)p->numel);
        if (norm || (p->ndim == 1 && strncmp(p->name, "patch_embed.proj", 16))) {
            bool one = norm && strstr(p->name, ".weight");
            for (size_t k = 0; k < p->numel; k++) assert_true(w[k] == (one ? 1 : 0));
        } else if (strncmp(p->name, "patch_embed.proj", 16)) {
            /* the root mean square of n normals is off by 1/sqrt(2n); five times that */
            t_le(fabs(rms / 0.02 - 1), 5 / sqrt(2 * (double)p->numel), "%s", p->name);
            normals++;
        }
        if (table) assert_int_equal(p->ndim, 2);
    }
    assert_int_equal(normals, 3 * 5 + 1 + 1); /* table, qkv, proj, fc1, fc2 of three blocks; merging; head */
    vt_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_detected, open_ref, close_ref),
        cmocka_unit_test_setup_teardown(test_image, open_ref, close_ref),
        cmocka_unit_test_setup_teardown(test_damaged, open_ref, close_ref),
        cmocka_unit_test_setup_teardown(test_refusals, open_ref, close_ref),
        cmocka_unit_test(test_presets),
        cmocka_unit_test(test_stages),
        cmocka_unit_test_setup_teardown(test_init, open_ref, close_ref),
    };
    return cmocka_run_group_tests_name("swin files", tests, setup, remove_tmp);
}
