/* SPDX-License-Identifier: MIT */
/* What XCiT is: parameter counts of its presets, strides, what files and options tell, what is refused, where roles
 * lie, how weights start. */
#define VT_DOUBLE
#include "base/real.h"
#include "t.h"

#include "tensors/tensors.h"
#include "models/arch.h"
#include "models/model.h"
#include "models/xcit.h"
#include "xcit_fixture.h"

/* ---- shapes ---- */

static size_t count(const vt_config *c) {
    vt_param_list l = {0};
    size_t n = 0;
    vt_err e = {0};
    if (vt_config_check(c, NULL, &e) != VT_OK) fail_msg("%s", e.text);
    vt_arch_find("xcit")->params(&l, c);
    assert_false(l.failed);
    for (int i = 0; i < l.count; i++) n += l.items[i].buffer ? 0 : l.items[i].numel;
    vt_param_list_free(&l);
    return n;
}

/* timm 0.9.16's own counts; RobustBench's from the tensors of its checkpoints (78fcc9e4). */
static void test_counts(void **state) {
    (void)state;
    static const struct {
        const char *preset;
        int classes; /* 0: the preset's */
        size_t count;
    } all[] = {{"xcit_nano_12_p16_224", 0, 3053224},    {"xcit_nano_12_p8_224", 0, 3049016},
               {"xcit_tiny_12_p16_224", 0, 6716272},    {"xcit_tiny_12_p8_224", 0, 6706504},
               {"xcit_tiny_24_p16_224", 0, 12116896},   {"xcit_tiny_24_p8_224", 0, 12107128},
               {"xcit_small_12_p16_224", 0, 26253304},  {"xcit_small_12_p8_224", 0, 26213032},
               {"xcit_small_24_p16_224", 0, 47671384},  {"xcit_small_24_p8_224", 0, 47631112},
               {"xcit_medium_24_p16_224", 0, 84395752}, {"xcit_medium_24_p8_224", 0, 84323624},
               {"xcit_large_24_p16_224", 0, 189096136}, {"xcit_large_24_p8_224", 0, 188932648},
               {"xcit_medium_12_p16_224", 0, 46401160}, {"xcit_large_12_p16_224", 0, 103792648},
               {"xcit_small_12_cifar", 0, 25872154},    {"xcit_small_12_cifar", 100, 25906804},
               {"xcit_medium_12_cifar", 0, 45893290},   {"xcit_medium_12_cifar", 100, 45939460},
               {"xcit_large_12_cifar", 0, 103031338},   {"xcit_large_12_cifar", 100, 103100548}};
    for (size_t i = 0; i < T_COUNT(all); i++) {
        vt_config c;
        const vt_preset *p = vt_preset_find(all[i].preset);
        if (!p) fail_msg("no preset %s", all[i].preset);
        vt_preset_config(p, &c);
        if (all[i].classes) c.classes = all[i].classes;
        if (count(&c) != all[i].count) fail_msg("%s: %zu parameters, not %zu", p->name, count(&c), all[i].count);
        assert_int_equal(vt_arch_find("xcit")->tokens(&c), c.image == 32 ? 64 : c.patch == 8 ? 784 : 196);
        assert_true(c.eta == (c.depth == 24 ? 1e-5 : 0) && c.tokens_norm == (c.dim != 128));
        assert_true(c.image == 224 || (c.mean[0] == 0.4914 && c.std[0] == 0.2471));
    }
}

static void test_strides(void **state) {
    (void)state;
    static const struct {
        int image, patch;
        const char *forms;
        int strides[4], side;
    } all[] = {{224, 16, "", {2, 2, 2, 2}, 14},
               {32, 16, "", {1, 1, 2, 2}, 8},
               {48, 16, "", {2, 2, 2, 2}, 3},
               {224, 8, "", {2, 2, 2}, 28},
               {32, 8, "", {2, 2, 2}, 4},
               {32, 16, "stem_stride=2,2,2,2", {2, 2, 2, 2}, 2},
               {24, 8, "stem_stride=2,1,2", {2, 1, 2}, 6},
               {16, 16, "stem_stride=1,1,1,1", {1, 1, 1, 1}, 16}};
    for (size_t i = 0; i < T_COUNT(all); i++) {
        vt_config c = small(all[i].forms);
        c.image = all[i].image, c.patch = all[i].patch;
        vt_stem s = vt_stem_of(&c);
        assert_int_equal(s.convs, c.patch == 8 ? 3 : 4);
        for (int k = 0; k < s.convs; k++) assert_int_equal(s.conv[k].stride, all[i].strides[k]);
        assert_int_equal(vt_stem_tokens(&s), all[i].side * all[i].side);
        assert_int_equal(s.widths[s.convs], c.dim);
        assert_int_equal(s.widths[1], c.patch == 8 ? 2 : 1);
    }
}

/* ---- files ---- */

/* The tensors of a model as PyTorch saves them, BatchNorm's counters among them, with these metadata; extra: one more.
 */
static void write_file(const vt_model *m, const char *path, const char *const *meta, int n_meta, const char *extra) {
    static const int64_t count = 12345;
    vt_tensor *t = calloc((size_t)(2 * m->params.count) + 1, sizeof *t);
    char(*names)[96] = calloc((size_t)m->params.count, sizeof *names);
    int n = 0;
    vt_err e = {0};
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        t[n] =
            (vt_tensor){.name = p->name, .dtype = VT_F32, .ndim = p->ndim, .numel = p->numel, .data = m->w + p->offset};
        memcpy(t[n++].shape, p->shape, sizeof p->shape);
        const char *mean = strstr(p->name, "running_mean");
        if (!mean) continue;
        snprintf(names[i], sizeof names[i], "%.*snum_batches_tracked", (int)(mean - p->name), p->name);
        t[n++] = (vt_tensor){.name = names[i], .dtype = VT_I64, .numel = 1, .data = &count};
    }
    if (extra) t[n++] = (vt_tensor){.name = extra, .dtype = VT_I64, .numel = 1, .data = &count};
    if (vt_tensors_write(path, t, n, meta, n_meta, &e) != VT_OK) fail_msg("%s", e.text);
    free(t), free(names);
}

static const char *const untold[] = {"mean", "0.5", "std", "0.25"};

/* What tensors tell, what nothing tells, and who wins. */
static void test_files(void **state) {
    (void)state;
    vt_config c = small("class_blocks=3");
    c.patch = 16, c.image = 64, c.depth = 2;
    vt_model *m = model_of(&c), *got;
    vt_err e = {0};
    write_file(m, at("plain.safetensors"), untold, 2, NULL);
    if (vt_model_open(&got, at("plain.safetensors"), NULL, &e) != VT_OK) fail_msg("%s", e.text);
    const vt_config *d = &got->config;
    assert_true(d->patch == 16 && d->dim == 8 && d->depth == 2 && d->heads == 2 && d->hidden == 12 && d->classes == K);
    assert_true(d->class_blocks == 3 && d->qkv_bias && !d->tied_qk && d->ln_eps == 1e-6);
    assert_string_equal(got->source[VT_FIELD_HEADS], "tensors");
    assert_true(d->image == 224 && d->tokens_norm && d->stem_stride[0] == 0);
    assert_non_null(strstr(got->source[VT_FIELD_IMAGE], "--image-size"));
    assert_non_null(strstr(got->source[VT_FIELD_TOKENS_NORM], "default"));
    assert_non_null(strstr(got->source[VT_FIELD_STEM_STRIDE], "default"));
    vt_model_close(got);
    /* the images at hand, then metadata, then options */
    vt_overrides o = {.shown = 32};
    assert_int_equal(vt_model_open(&got, at("plain.safetensors"), &o, &e), VT_OK);
    assert_true(got->config.image == 32 && strstr(got->source[VT_FIELD_IMAGE], "images"));
    assert_int_equal(vt_model_tokens(got), 64);
    assert_int_equal(vt_model_save(got, at("saved.safetensors"), &e), VT_OK);
    vt_model_close(got);
    static const char *const told[] = {"mean", "0.5",         "std", "0.25",        "image",
                                       "48",   "tokens_norm", "0",   "stem_stride", "1,2,2,2"};
    write_file(m, at("told.safetensors"), told, 5, NULL);
    assert_int_equal(vt_model_open(&got, at("told.safetensors"), &o, &e), VT_OK);
    assert_true(got->config.image == 48 && !got->config.tokens_norm && vt_model_tokens(got) == 36);
    vt_model_close(got);
    o.image = 64, o.form[0] = "stem_stride=2,2,2,1", o.form[1] = "tokens_norm=1", o.n_form = 2;
    assert_int_equal(vt_model_open(&got, at("told.safetensors"), &o, &e), VT_OK);
    assert_true(got->config.image == 64 && got->config.tokens_norm && vt_model_tokens(got) == 64);
    vt_model_close(got);
    /* saved: the side is told, and the other way about */
    assert_int_equal(vt_model_open(&got, at("saved.safetensors"), NULL, &e), VT_OK);
    assert_true(got->config.image == 32 && got->config.tokens_norm);
    vt_model_close(got);
    write_file(m, at("counter.safetensors"), untold, 2, "blocks.0.norm1.num_batches_tracked");
    assert_int_equal(vt_model_open(&got, at("counter.safetensors"), NULL, &e), VT_OK); /* a counter, wherever it is */
    vt_model_close(got);
    write_file(m, at("stray.safetensors"), untold, 2, "blocks.0.norm1.running_mode");
    t_says(vt_model_open(&got, at("stray.safetensors"), NULL, &e), VT_E_FORMAT, &e, "norm1.running_mode",
           "does not belong");
    o = (vt_overrides){.form = {"class_blocks=2"}, .n_form = 1};
    t_says(vt_model_open(&got, at("plain.safetensors"), &o, &e), VT_E_USAGE, &e, "class_blocks=2", "which say 3");
    vt_model_close(m);
}

/* timm's config.json; a width of 128 is timm's nano, which has no norm over all tokens. */
static void test_config_json(void **state) {
    (void)state;
    vt_config c = small("");
    c.dim = 128, c.hidden = 16;
    vt_model *m = model_of(&c), *got;
    vt_err e = {0};
    write_file(m, at("nano.safetensors"), untold, 2, NULL);
    assert_int_equal(vt_model_open(&got, at("nano.safetensors"), NULL, &e), VT_OK);
    assert_true(!got->config.tokens_norm && strstr(got->source[VT_FIELD_TOKENS_NORM], "nano"));
    assert_int_equal(vt_model_save(got, at("again.safetensors"), &e), VT_OK);
    vt_model_close(got);
    static const char *const texts[] = {"{\"model_args\": {\"img_size\": 40, \"tokens_norm\": true}, "
                                        "\"pretrained_cfg\": {\"input_size\": [3, 224, 224]}}",
                                        "{\"pretrained_cfg\": {\"input_size\": [3, 40, 40]}, \"tokens_norm\": true}",
                                        "{\"image_size\": 40, \"tokens_norm\": true}"};
    for (size_t i = 0; i < T_COUNT(texts); i++) {
        FILE *f = fopen(at("config.json"), "w");
        fputs(texts[i], f), fclose(f);
        assert_int_equal(vt_model_open(&got, at("nano.safetensors"), NULL, &e), VT_OK);
        assert_true(got->config.image == 40 && got->config.tokens_norm);
        assert_string_equal(got->source[VT_FIELD_IMAGE], "config.json");
        vt_model_close(got);
    }
    remove(at("config.json"));
    assert_int_equal(vt_model_open(&got, at("again.safetensors"), NULL, &e), VT_OK);
    assert_true(!got->config.tokens_norm);
    assert_string_equal(got->source[VT_FIELD_TOKENS_NORM], "safetensors metadata, which assume it");
    vt_model_close(got);
    vt_model_close(m);
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *forms, *a, *b;
        int patch, dim;
    } bad[] = {{"", "patch is 4", "16 or 8", 4, 8},
               {"", "width 12", "multiple of 8", 16, 12},
               {"class_blocks=0", "class-attention blocks are 0", "between 1 and 64", 8, 8},
               {"stem_stride=1,2", "1,2,0,0", "3 strides of 1 or 2", 8, 8},
               {"stem_stride=2,2,2,2", "2,2,2,2", "3 strides", 8, 8},
               {"stem_stride=2,2,3,2", "2,2,3,2", "4 strides of 1 or 2", 16, 8},
               {"stem_stride=0,1,2", "stem_stride", "begins with 0", 8, 8},
               {"pool=avg", "XCiT has no", "pooling", 8, 8},
               {"norm=batch", "XCiT has no", "layer or center", 8, 8},
               {"post_norm=1", "XCiT has no", "post-norm", 8, 8},
               {"factor=alpha", "XCiT has no", "gamma1", 8, 8},
               {"registers=1", "XCiT has no", "register", 8, 8},
               {"qk_norm=1", "XCiT has no", "q/k norm", 8, 8}};
    vt_err e = {0};
    for (size_t i = 0; i < T_COUNT(bad); i++) {
        vt_config c = small(bad[i].forms);
        c.patch = bad[i].patch, c.dim = bad[i].dim, c.image = 48;
        vt_status s = vt_config_check(&c, "file", &e);
        t_says(s, s == VT_E_RANGE ? VT_E_RANGE : VT_E_SHAPE, &e, bad[i].a, bad[i].b);
    }
    vt_config c = small("tied_qk=0");
    snprintf(c.attn, sizeof c.attn, "l2:tied=0,full=1");
    c.qkv_bias = false;
    t_says(vt_config_check(&c, "file", &e), VT_E_SHAPE, &e, "XCiT needs W_Q = W_K", "l2");
}

/* ---- roles and first weights ---- */

static void test_roles(void **state) {
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        vt_config c = small(tied ? "tied_qk=1" : "");
        vt_model *m = model_of(&c);
        const vt_param *qkv = vt_model_param(m, "blocks.0.attn.qkv.weight");
        static const char *const tensors[] = {"q", "k", "v", "proj"};
        vt_matrix x;
        assert_int_equal(vt_model_blocks(m), 3);
        for (int r = VT_WEIGHT_Q; r <= VT_WEIGHT_V; r++) {
            assert_true(vt_model_matrix(m, 0, (vt_weight_kind)r, &x));
            assert_true(x.offset == qkv->offset + (size_t)r * 64 && x.rows == 8 && x.cols == 8 && x.heads == 2 &&
                        !x.again);
        }
        for (int r = VT_WEIGHT_Q; r <= VT_WEIGHT_O; r++) {
            char name[64];
            snprintf(name, sizeof name, "cls_attn_blocks.1.attn.%s.weight", tensors[tied && r == VT_WEIGHT_K ? 0 : r]);
            assert_true(vt_model_matrix(m, 2, (vt_weight_kind)r, &x));
            assert_true(x.offset == vt_model_param(m, name)->offset && x.rows == 8 && x.cols == 8 && x.heads == 2);
            assert_true(x.again == (tied && r == VT_WEIGHT_K));
        }
        assert_true(vt_model_matrix(m, 0, VT_WEIGHT_FC1, &x) && x.rows == 12 && x.cols == 8);
        assert_true(vt_model_matrix(m, 2, VT_WEIGHT_FC2, &x) && x.rows == 8 && x.cols == 12);
        assert_false(vt_model_matrix(m, 3, VT_WEIGHT_Q, &x));
        vt_model_close(m);
    }
}

/* timm's: gammas eta, temperatures and norms 1, linear maps normal of 0.02, convolutions uniform within 1 /
 * sqrt(fan-in), 9 for the depthwise ones, biases likewise. */
static void test_first_weights(void **state) {
    (void)state;
    vt_config c = small("eta=1e-5");
    c.dim = 64, c.patch = 16, c.image = 32;
    vt_model *m;
    vt_err e = {0};
    assert_int_equal(vt_model_new(&m, &c, &e), VT_OK);
    assert_int_equal(vt_model_init(m, 1), VT_OK);
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        const float *w = m->w + p->offset;
        double most = 0, square = 0;
        bool same = true;
        for (size_t k = 0; k < p->numel; k++) {
            most = fmax(most, fabs((double)w[k])), square += (double)w[k] * (double)w[k];
            same &= w[k] == w[0];
        }
        double fan = strstr(p->name, "proj.0.0")           ? 27
                     : strstr(p->name, "proj.2.0")         ? 72
                     : strstr(p->name, "proj.4.0")         ? 144
                     : strstr(p->name, "proj.6.0")         ? 288
                     : strstr(p->name, "token_projection") ? 64
                     : strstr(p->name, "local_mp.conv")    ? 9
                                                           : 0;
        double bound = fan > 0 ? 1 / sqrt(fan) : 0;
        if (strstr(p->name, "gamma"))
            assert_true(same && w[0] == 1e-5f);
        else if (strstr(p->name, "temperature"))
            assert_true(same && w[0] == 1);
        else if (fan > 0)
            assert_true(most <= bound && most > 0.9 * bound &&
                        fabs(sqrt(square / (double)p->numel) * sqrt(3) / bound - 1) < 0.2);
        else if (p->ndim == 2 || !strcmp(p->name, "cls_token"))
            assert_true(fabs(sqrt(square / (double)p->numel) / 0.02 - 1) < 0.25);
        else if (strstr(p->name, ".bias") || strstr(p->name, "running_mean"))
            assert_true(most == 0);
        else
            assert_true(same && w[0] == 1);
    }
    vt_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),        cmocka_unit_test(test_strides),  cmocka_unit_test(test_files),
        cmocka_unit_test(test_config_json),   cmocka_unit_test(test_refusals), cmocka_unit_test(test_roles),
        cmocka_unit_test(test_first_weights),
    };
    return cmocka_run_group_tests(tests, xcit_setup, remove_tmp);
}
