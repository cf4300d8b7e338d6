/* SPDX-License-Identifier: MIT */
/* What nobody told of a checkpoint: marked as assumed where a convention is overwhelming, as open where it is not, and
 * never silent. */
#include "checkpoint_fixture.h"

#include "models/checkpoint/doubt.h"

static vt_model *opened(file *f) {
    vt_model *m;
    vt_err e = {0};
    if (write_and_open(f, &m, &e) != VT_OK) fail_msg("%s", e.text);
    vt_model_close(f->m);
    return m;
}

/* A toy as other programs write it: nothing but tensors. */
static void begin_bare(file *f) {
    begin(f, false);
    f->no_heads = f->no_mean = true;
}

static void is(const vt_model *m, vt_field f, vt_doubt d, const char *source) {
    if (m->doubt[f] != d || strcmp(m->source[f], source))
        fail_msg("%s: doubt %d of '%s', not %d of '%s'", vt_field_label(f), m->doubt[f], m->source[f], d, source);
}

static void says_missing(const vt_model *m, int count, const char *what, const char *options) {
    char a[1000], b[300];
    assert_int_equal(vt_model_missing(m, true, a, sizeof a, b, sizeof b), count);
    assert_string_equal(a, what);
    assert_string_equal(b, options);
}

/* Without values: none is before the others. */
static void says_options(const vt_model *m, const char *options) {
    char a[1000], b[300];
    vt_model_missing(m, false, a, sizeof a, b, sizeof b);
    assert_string_equal(b, options);
}

static void says_assumed(const vt_model *m, const char *text) {
    char a[1000];
    vt_model_assumed(m, a, sizeof a);
    assert_string_equal(a, text);
}

/* By hand: divisors with heads 16 to 128 wide, by the distance of log2(width) from 6. */
static void test_likely_heads(void **state) {
    (void)state;
    static const struct {
        int dim, n, heads[8];
    } rows[] = {{192, 6, {3, 4, 2, 6, 8, 12}},
                {64, 3, {1, 2, 4}},
                {128, 4, {2, 4, 1, 8}},
                {48, 3, {1, 2, 3}},
                {12, 6, {1, 2, 3, 4, 6, 12}},
                {7, 2, {1, 7}},
                {1, 1, {1}}};
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        int got[VT_HEADS_MOST];
        assert_int_equal(vt_heads_likely(rows[i].dim, got), rows[i].n);
        for (int k = 0; k < rows[i].n; k++) assert_int_equal(got[k], rows[i].heads[k]);
    }
}

static void test_bare(void **state) {
    (void)state;
    file f;
    begin_bare(&f);
    vt_model *m = opened(&f);
    is(m, VT_FIELD_HEADS, VT_OPEN, "a guess");
    is(m, VT_FIELD_MEAN, VT_OPEN, "a guess");
    is(m, VT_FIELD_STD, VT_OPEN, "a guess");
    is(m, VT_FIELD_DIM, VT_KNOWN, "tensors");
    is(m, VT_FIELD_LN_EPS, VT_ASSUMED, "default of timm's ViT");
    says_missing(m, 3,
                 "heads (1, 2, 3, 4, 6 or 12), mean (0.4914,0.4822,0.4465 CIFAR-10, 0.485,0.456,0.406 ImageNet, 0.5 "
                 "timm's ViT, 0 none), std (0.2470,0.2435,0.2616, 0.229,0.224,0.225, 0.5 or 1 there)",
                 " --heads 1 --mean 0.4914,0.4822,0.4465 --std 0.247,0.2435,0.2616");
    says_options(m, " --heads HEADS --mean MEAN --std STD");
    says_assumed(m, "pool class token, attention dot, attention scale 0.288675135, LayerNorm eps 1e-06, activation "
                    "gelu, pre-norm, channels RGB");
    vt_model_close(m);
}

/* Every number of heads: told it is the user's, untold it is open; the other values stay where they were. */
static void test_told(void **state) {
    (void)state;
    file f;
    static const int heads[] = {1, 2, 3, 4, 6, 12};
    for (size_t i = 0; i < T_COUNT(heads); i++) {
        begin_bare(&f);
        f.o = (vt_overrides){.heads = heads[i], .has_mean = true, .has_std = true, .std = {1, 1, 1}};
        vt_model *m = opened(&f);
        assert_int_equal(m->config.heads, heads[i]);
        says_missing(m, 0, "", "");
        is(m, VT_FIELD_HEADS, VT_KNOWN, "--heads");
        is(m, VT_FIELD_ACT, VT_ASSUMED, "default");
        is(m, VT_FIELD_POST_NORM, VT_ASSUMED, "default");
        vt_model_close(m);
    }
    begin_bare(&f);
    f.o = (vt_overrides){.heads = 3,
                         .has_mean = true,
                         .has_std = true,
                         .std = {1, 1, 1},
                         .ln_eps = 1e-5,
                         .attn = "dot",
                         .attn_scale = "head",
                         .form = {"act=relu", "post_norm=1", "pool=token", "bgr=0"},
                         .n_form = 4};
    vt_model *m = opened(&f);
    says_missing(m, 0, "", "");
    says_assumed(m, "");
    vt_model_close(m);
}

/* Who describes the network as a whole leaves nothing open: what he does not say is at its default. */
static void test_whole(void **state) {
    (void)state;
    static const struct {
        const char *json, *source;
    } rows[] = {{"{\"architecture\": \"vit_tiny_patch16_224\", \"model_args\": {\"num_heads\": 4}, \"pretrained_cfg\": "
                 "{\"mean\": [0,0,0], \"std\": [1,1,1]}}",
                 "architecture in config.json"},
                {"{\"model_type\": \"vit\", \"num_attention_heads\": 4, \"layer_norm_eps\": 1e-12, \"mean\": [0,0,0], "
                 "\"std\": [1,1,1]}",
                 "model_type in config.json"}};
    file f;
    vt_err e = {0};
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        begin_bare(&f);
        f.config_json = rows[i].json;
        vt_model *m = opened(&f);
        says_missing(m, 0, "", "");
        says_assumed(m, "");
        is(m, VT_FIELD_HEADS, VT_KNOWN, "config.json");
        is(m, VT_FIELD_ACT, VT_KNOWN, rows[i].source);
        is(m, VT_FIELD_POST_NORM, VT_KNOWN, rows[i].source);
        vt_model_close(m);
    }
    begin(&f, false);
    vt_model *m;
    unlink(at("config.json"));
    if (vt_model_save(f.m, at("m.safetensors"), &e) != VT_OK) fail_msg("%s", e.text);
    if (vt_model_open(&m, at("m.safetensors"), NULL, &e) != VT_OK) fail_msg("%s", e.text);
    says_missing(m, 0, "", "");
    says_assumed(m, "");
    is(m, VT_FIELD_ACT, VT_KNOWN, "safetensors metadata");
    vt_model_close(m), vt_model_close(f.m);
    begin_bare(&f); /* an architecture that is not known by name is no description */
    f.config_json = "{\"architecture\": \"vit_other\", \"num_heads\": 4, \"mean\": [0,0,0], \"std\": [1,1,1]}";
    m = opened(&f);
    is(m, VT_FIELD_HEADS, VT_KNOWN, "config.json");
    is(m, VT_FIELD_ACT, VT_ASSUMED, "default");
    vt_model_close(m);
}

/* ---- names ---- */

/* What nn.TransformerEncoder calls a tensor, as maps/vit-encoderlayer.map knows it. */
static char *torch_name(const char *name) {
    static const char *const parts[][2] = {{"attn.qkv.weight", "self_attn.in_proj_weight"},
                                           {"attn.qkv.bias", "self_attn.in_proj_bias"},
                                           {"attn.proj.", "self_attn.out_proj."},
                                           {"mlp.fc1.", "linear1."},
                                           {"mlp.fc2.", "linear2."},
                                           {"norm", "norm"}};
    char text[200];
    snprintf(text, sizeof text, "%s", name);
    if (!strncmp(name, "norm.", 5)) snprintf(text, sizeof text, "mlp_head.0.%s", name + 5);
    if (!strncmp(name, "head.", 5)) snprintf(text, sizeof text, "mlp_head.1.%s", name + 5);
    for (size_t k = 0; !strncmp(name, "blocks.", 7) && k < T_COUNT(parts); k++) {
        size_t n = strlen(parts[k][0]);
        if (!strncmp(name + 9, parts[k][0], n))
            snprintf(text, sizeof text, "transformer.layers.%c.%s%s", name[7], parts[k][1], name + 9 + n);
    }
    return strdup(text);
}

static vt_model *opened_torch(vt_overrides o) {
    file f;
    char *names[MAX_TENSORS];
    begin_bare(&f);
    f.o = o;
    for (int i = 0; i < f.n; i++) f.t[i].name = names[i] = torch_name(f.t[i].name);
    vt_model *m = opened(&f);
    for (int i = 0; i < f.n; i++) free(names[i]);
    return m;
}

/* A map that nobody asked for says where to begin, no more; asked for, its word is the user's. */
static void test_maps(void **state) {
    (void)state;
    vt_model *m = opened_torch((vt_overrides){0});
    assert_string_equal(m->own_map, "vit-encoderlayer");
    is(m, VT_FIELD_HEADS, VT_OPEN, "a guess"); /* 12 has no 8 heads */
    is(m, VT_FIELD_ACT, VT_OPEN, "map vit-encoderlayer");
    is(m, VT_FIELD_POST_NORM, VT_OPEN, "map vit-encoderlayer");
    is(m, VT_FIELD_LN_EPS, VT_ASSUMED, "map vit-encoderlayer");
    is(m, VT_FIELD_MEAN, VT_ASSUMED, "map vit-encoderlayer");
    is(m, VT_FIELD_STD, VT_ASSUMED, "map vit-encoderlayer");
    says_missing(m, 3,
                 "heads (1, 2, 3, 4, 6 or 12), activation (gelu, gelu_tanh, relu or quick_gelu), post-norm (0 or 1)",
                 " --heads 1 --form act=relu --form post_norm=1");
    says_options(m, " --heads HEADS --form act=ACT --form post_norm=POST_NORM");
    vt_model_close(m);
    m = opened_torch((vt_overrides){.heads = 3, .form = {"act=gelu", "post_norm=0"}, .n_form = 2});
    says_missing(m, 0, "", "");
    assert_true(m->config.act == VT_ACT_GELU && !m->config.post_norm && m->config.heads == 3);
    vt_model_close(m);
    m = opened_torch((vt_overrides){.heads = 3, .names = "vit-encoderlayer"});
    says_missing(m, 0, "", "");
    is(m, VT_FIELD_ACT, VT_KNOWN, "map vit-encoderlayer");
    is(m, VT_FIELD_LN_EPS, VT_KNOWN, "map vit-encoderlayer");
    assert_true(m->config.act == VT_ACT_RELU && m->config.post_norm && !*m->own_map);
    vt_model_close(m);
}

/* Names that are not timm's: PyTorch's own modules, whose LayerNorm has eps 1e-5. */
static void test_eps_by_names(void **state) {
    (void)state;
    static const struct {
        const char *map;
        double eps;
        vt_doubt doubt;
        const char *source;
    } rows[] = {{NULL, 1e-6, VT_ASSUMED, "default of timm's ViT"},
                {"* -> *\n", 1e-5, VT_ASSUMED, "default of PyTorch's modules"},
                {"* -> *\nset ln_eps 1e-3\n", 1e-3, VT_KNOWN, "map eps.map"}};
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        file f;
        begin_bare(&f);
        if (rows[i].map) put(at("eps.map"), rows[i].map), f.o.names = at("eps.map");
        vt_model *m = opened(&f);
        assert_true(m->config.ln_eps == rows[i].eps);
        is(m, VT_FIELD_LN_EPS, rows[i].doubt, rows[i].source);
        vt_model_close(m);
    }
}

/* ---- a Linear patch embedding ---- */

static void begin_linear(file *f) {
    begin_bare(f);
    vt_tensor *t = find(f, "patch_embed.proj.weight");
    t->ndim = 2, t->shape[1] *= t->shape[2] * t->shape[3];
}

static void test_patch_order(void **state) {
    (void)state;
    file f;
    vt_model *m[3];
    static const char *const forms[] = {"patch_order=chw", "patch_order=hwc", NULL};
    for (int i = 0; i < 3; i++) {
        begin_linear(&f);
        f.o = (vt_overrides){.heads = 3, .has_mean = true, .has_std = true, .std = {1, 1, 1}};
        f.o.form[0] = forms[i], f.o.n_form = forms[i] != NULL;
        m[i] = opened(&f);
    }
    is(m[0], VT_FIELD_PATCH_ORDER, VT_KNOWN, "--form");
    is(m[2], VT_FIELD_PATCH_ORDER, VT_OPEN, "a guess");
    says_missing(m[0], 0, "", "");
    says_missing(m[2], 1, "patch order (chw or hwc)", " --form patch_order=hwc");
    const vt_param *p = vt_model_param(m[0], "patch_embed.proj.weight");
    const float *chw = m[0]->w + p->offset, *hwc = m[1]->w + p->offset;
    assert_memory_equal(hwc, m[2]->w + p->offset, p->numel * sizeof(float));
    for (size_t d = 0; d < 12; d++)
        for (size_t c = 0; c < 3; c++)
            for (size_t k = 0; k < 16; k++) assert_true(hwc[(d * 3 + c) * 16 + k] == chw[d * 48 + k * 3 + c]);
    for (int i = 0; i < 3; i++) vt_model_close(m[i]);
    begin_linear(&f);
    f.o = (vt_overrides){.form = {"patch_order=conv"}, .n_form = 1};
    refused(&f, VT_E_USAGE, "is a Linear", "chw or hwc");
    begin_bare(&f);
    f.o = (vt_overrides){.form = {"patch_order=hwc"}, .n_form = 1};
    refused(&f, VT_E_USAGE, "--form patch_order=hwc contradicts the tensors", "conv");
}

/* ---- what is written down ---- */

/* A copy does not make an assumption a fact. */
static void test_copies(void **state) {
    (void)state;
    file f;
    vt_err e = {0};
    vt_model *copy;
    begin_bare(&f);
    f.o = (vt_overrides){.heads = 3,
                         .has_mean = true,
                         .has_std = true,
                         .std = {1, 1, 1},
                         .form = {"act=gelu"},
                         .n_form = 1};
    vt_model *m = opened(&f);
    if (vt_model_save(m, at("copy.safetensors"), &e) != VT_OK) fail_msg("%s", e.text);
    if (vt_model_open(&copy, at("copy.safetensors"), NULL, &e) != VT_OK) fail_msg("%s", e.text);
    is(copy, VT_FIELD_HEADS, VT_KNOWN, "safetensors metadata");
    is(copy, VT_FIELD_ACT, VT_KNOWN, "safetensors metadata");
    char was[1000];
    vt_model_assumed(m, was, sizeof was);
    says_assumed(copy, was);
    assert_non_null(strstr(was, "pre-norm"));
    vt_model_close(m), vt_model_close(copy);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_likely_heads), cmocka_unit_test(test_bare),   cmocka_unit_test(test_told),
        cmocka_unit_test(test_whole),        cmocka_unit_test(test_maps),   cmocka_unit_test(test_eps_by_names),
        cmocka_unit_test(test_patch_order),  cmocka_unit_test(test_copies),
    };
    return cmocka_run_group_tests_name("doubt", tests, make_tmp, remove_tmp);
}
