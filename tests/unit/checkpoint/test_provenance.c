/* SPDX-License-Identifier: MIT */
/* What nobody told of a checkpoint: marked as assumed where a convention is overwhelming, as open where it is not, and
 * never silent. */
#include "checkpoint_fixture.h"

#include "checkpoint/provenance.h"
#include "models/forms.h"

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

static void is(const vt_model *m, vt_field f, vt_certainty d, const char *source) {
    if (m->certainty[f] != d || strcmp(m->source[f], source))
        fail_msg("%s: doubt %d of '%s', not %d of '%s'", vt_field_label(f), m->certainty[f], m->source[f], d, source);
}

static void says_missing(const vt_model *m, int count, const char *what, const char *options) {
    char a[1000], b[300];
    assert_int_equal(vt_model_missing(m, a, sizeof a, b, sizeof b), count);
    assert_string_equal(a, what);
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
                 " --heads HEADS --mean MEAN --std STD");
    says_assumed(m, "pool class token, attention dot, attention scale 0.288675135, LayerNorm eps 1e-06, activation "
                    "gelu, pre-norm, channels RGB, positions by the table alone, rows of qkv q then k then v, class "
                    "token first");
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
                         .form = {"act=relu post_norm=1 pool=token bgr=0 positions=learned qkv_rows=qkv class_last=0"},
                         .n_form = 1};
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
                 " --heads HEADS --form act=ACT --form post_norm=POST_NORM");
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
        vt_certainty certainty;
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
        is(m, VT_FIELD_LN_EPS, rows[i].certainty, rows[i].source);
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
    says_missing(m[2], 1, "patch order (chw or hwc)", " --form patch_order=PATCH_ORDER");
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

/* ---- names are evidence ---- */

/* A toy with these forms, nothing but tensors. */
static void begin_form(file *f, const char *forms) {
    vt_config c = toy_config("dot", VT_POOL_TOKEN, false, true);
    vt_err e = {0};
    if (vt_form_parse(&c, forms, "t", &e) != VT_OK) fail_msg("%s", e.text);
    begin_with(f, toy_model(&c, 1));
    f->no_heads = f->no_mean = true;
    f->o = (vt_overrides){.heads = 3, .has_mean = true, .has_std = true, .std = {1, 1, 1}};
}

static vt_model *opened_form(file *f, const char *form) {
    f->o.form[0] = form, f->o.n_form = form != NULL;
    return opened(f);
}

/* What one suggestion of tensors becomes: open or assumed, known once it is told, and the copy of a known one asks
 * nothing. */
static void test_suggested(void **state) {
    (void)state;
    static const struct {
        const char *forms, *map, *told;
        vt_field field;
        vt_certainty certainty;
        const char *options; /* that an open one asks for */
    } rows[] = {{"pool=token_avg norm_first=1", NULL, "pool=token_avg", VT_FIELD_POOL, VT_OPEN, " --form pool=POOL"},
                {"pool=avg no_cls=1", NULL, "pool=avg", VT_FIELD_POOL, VT_ASSUMED, ""},
                {"tied_qk=1", NULL, "tied_qk=1", VT_FIELD_TIED_QK, VT_OPEN, " --form tied_qk=TIED_QK"},
                {"pool=avg norm_first=1 no_cls=1", NULL, "norm_first=1", VT_FIELD_NORM_FIRST, VT_ASSUMED, ""},
                {"pool=avg norm_first=1 no_cls=1", "* -> *\n", "norm_first=1", VT_FIELD_NORM_FIRST, VT_OPEN,
                 " --form norm_first=NORM_FIRST"},
                {"pool=avg norm_first=1 no_cls=1", "* -> *\nis act gelu\n", NULL, VT_FIELD_NORM_FIRST, VT_KNOWN, ""},
                {"", NULL, "positions=learned", VT_FIELD_POSITIONS, VT_ASSUMED, ""},
                {"", "* -> *\nis act gelu\n", NULL, VT_FIELD_POSITIONS, VT_KNOWN, ""},
                {"", NULL, "class_last=0", VT_FIELD_CLASS_LAST, VT_ASSUMED, ""},
                {"", NULL, "qkv_rows=qkv", VT_FIELD_QKV_ROWS, VT_ASSUMED, ""},
                {"", NULL, NULL, VT_FIELD_EMBED_SCALE, VT_KNOWN, ""},
                {"", "* -> *\n", "embed_scale=1", VT_FIELD_EMBED_SCALE, VT_ASSUMED, ""}};
    for (size_t i = 0; i < T_COUNT(rows); i++)
        for (int told = 0; told < 1 + (rows[i].told != NULL); told++) {
            file f;
            vt_err e = {0};
            char what[1000], options[300];
            begin_form(&f, rows[i].forms);
            if (rows[i].map) put(at("one.map"), rows[i].map), f.o.names = at("one.map");
            vt_model *m = opened_form(&f, told ? rows[i].told : NULL), *copy;
            if (m->certainty[rows[i].field] != (told ? VT_KNOWN : rows[i].certainty))
                fail_msg("row %zu: %d of %s", i, m->certainty[rows[i].field], m->source[rows[i].field]);
            vt_model_missing(m, what, sizeof what, options, sizeof options);
            assert_string_equal(options, told ? "" : rows[i].options);
            if (vt_model_save(m, at("copy.safetensors"), &e) != VT_OK) fail_msg("%s", e.text);
            if (vt_model_open(&copy, at("copy.safetensors"), NULL, &e) != VT_OK) fail_msg("%s", e.text);
            assert_int_equal(copy->certainty[rows[i].field] == VT_KNOWN, m->certainty[rows[i].field] == VT_KNOWN);
            vt_model_close(m), vt_model_close(copy);
        }
}

/* The same head read three ways; tokens need no mean and one more block. */
static void test_wide(void **state) {
    (void)state;
    static const struct {
        const char *form;
        vt_pool pool;
        int layers;
    } rows[] = {{"pool=token_avg", VT_POOL_TOKEN_AVG, 0},
                {"pool=avg_token", VT_POOL_AVG_TOKEN, 0},
                {"pool=tokens", VT_POOL_TOKENS, 2}};
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        file f;
        vt_err e = {0};
        begin_form(&f, "pool=token_avg norm_first=1");
        vt_model *m = opened_form(&f, rows[i].form), *copy;
        assert_true(m->config.pool == rows[i].pool && m->config.head_layers == rows[i].layers);
        if (vt_model_save(m, at("copy.safetensors"), &e) != VT_OK) fail_msg("%s", e.text);
        if (vt_model_open(&copy, at("copy.safetensors"), NULL, &e) != VT_OK) fail_msg("%s", e.text);
        assert_true(copy->config.pool == rows[i].pool && copy->config.head_layers == rows[i].layers);
        vt_model_close(m), vt_model_close(copy);
    }
}

/* A norm after the mean is fc_norm here, whatever it is called there. */
static void test_norm_behind(void **state) {
    (void)state;
    file f;
    begin_form(&f, "pool=avg norm_first=1 no_cls=1");
    vt_model *m = opened_form(&f, "norm_first=0");
    assert_non_null(vt_model_param(m, "fc_norm.bias"));
    assert_true(!m->config.norm_first);
    vt_model_close(m);
    begin_form(&f, "pool=avg no_cls=1");
    m = opened_form(&f, "norm_first=1");
    assert_non_null(vt_model_param(m, "norm.bias"));
    vt_model_close(m);
}

/* ---- rows in another order ---- */

/* Row r of timm's q, k, v in a file of the other orders: 3 heads of width 4. */
static size_t there(size_t r, bool heads) {
    size_t part = r / 12, head = r % 12 / 4, j = r % 4;
    return heads ? head * 12 + part * 4 + j : head * 12 + j * 3 + part;
}

static void test_reorder(void **state) {
    (void)state;
    static const char *const forms[] = {"qkv_rows=heads", "qkv_rows=dims", "class_last=1", "embed_scale=2"},
                             *const names[] = {"blocks.1.attn.qkv.weight", "blocks.0.attn.qkv.bias", "pos_embed",
                                               "patch_embed.proj.bias"};
    for (size_t i = 0; i < T_COUNT(forms); i++) {
        file f;
        begin_form(&f, "");
        const vt_param *p = vt_model_param(f.m, names[i]);
        const size_t rows = p->ndim == 3 ? (size_t)p->shape[1] : (size_t)p->shape[0], width = p->numel / rows;
        float *is = values(&f, names[i]), was[3000];
        memcpy(was, is, p->numel * sizeof *was);
        vt_model *m = opened_form(&f, forms[i]);
        const float *got = m->w + vt_model_param(m, names[i])->offset;
        for (size_t r = 0; r < rows; r++) {
            const size_t from = i < 2 ? there(r, !i) : i == 2 ? (r + rows - 1) % rows : r;
            for (size_t k = 0; k < width; k++)
                assert_true(got[r * width + k] == was[from * width + k] * (i == 3 ? 2 : 1));
        }
        vt_model_close(m);
    }
}

/* ---- a configuration with a key that is not understood ---- */

#define TIMM(more)                                                                                                     \
    "{\"architecture\": \"vit_tiny_patch16_224\", \"model_args\": {\"num_heads\": 4" more "}, \"pretrained_cfg\": "    \
    "{\"mean\": [0,0,0], \"std\": [1,1,1]}}"
#define HF(more) "{\"model_type\": \"vit\", \"num_attention_heads\": 4, \"mean\": [0,0,0], \"std\": [1,1,1]" more "}"

static void test_unread(void **state) {
    (void)state;
    static const struct {
        const char *json, *unread;
    } rows[] = {{TIMM(", \"drop_path_rate\": 0.1, \"dynamic_img_pad\": false, \"act_layer\": null"), ""},
                {TIMM(", \"router\": true, \"gates\": null"), "router"},
                {HF(", \"architectures\": [\"ViTForImageClassification\"], \"qkv_bias\": true"), ""},
                {HF(", \"architectures\": [\"ViTWithGates\"], \"gates\": 3"), "gates, architectures"}};
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        file f;
        begin_bare(&f);
        f.config_json = rows[i].json;
        vt_model *m = opened(&f);
        assert_string_equal(m->unread, rows[i].unread);
        assert_int_equal(m->certainty[VT_FIELD_ACT], *m->unread ? VT_ASSUMED : VT_KNOWN);
        char text[1000];
        assert_true((vt_model_assumed(m, text, sizeof text) > 0) == (*m->unread != 0));
        assert_true(!*m->unread || strstr(text, " not read"));
        vt_model_close(m);
    }
    static const char *const other[][2] = {{TIMM(", \"block_fn\": \"ResPostBlock\""), "block_fn=ResPostBlock"},
                                           {TIMM(", \"scale_attn_norm\": true"), "scale_attn_norm=1"},
                                           {TIMM(", \"embed_layer\": [1]"), "embed_layer=..."},
                                           {HF(", \"rope_theta\": 100.0"), "rope_theta"}};
    for (size_t i = 0; i < T_COUNT(other); i++) {
        file f;
        begin_bare(&f);
        f.config_json = other[i][0];
        refused(&f, VT_E_FORMAT, other[i][1], "does not compute");
    }
}

/* ---- mean and std of other pixels ---- */

static void test_pixels(void **state) {
    (void)state;
    static const struct {
        const char *json;
        vt_certainty certainty;
        double mean, std; /* of the first channel */
    } rows[] = {{"\"mean\": [127.5,120,110], \"std\": [7.96875,8,8]", VT_OPEN, 0.5, 0.03125},
                {"\"mean\": [0.5,0.5,0.5], \"std\": [4,5,5]", VT_OPEN, 0.5, 0.25},
                {"\"mean\": [1.5,0.5,0.5], \"std\": [1,1,0.5]", VT_KNOWN, 1.5, 1}};
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        file f;
        char json[200], what[1000], options[300];
        begin_bare(&f);
        f.o.heads = 3;
        snprintf(json, sizeof json, "{%s}", rows[i].json);
        f.config_json = json;
        vt_model *m = opened(&f);
        assert_int_equal(m->certainty[VT_FIELD_STD], rows[i].certainty);
        assert_true(m->config.mean[0] == rows[i].mean && m->config.std[0] == rows[i].std);
        vt_model_missing(m, what, sizeof what, options, sizeof options); /* the line to type has the numbers */
        if (!i) assert_string_equal(options, " --mean 0.5,0.470588,0.431373 --std 0.03125,0.0313725,0.0313725");
        vt_model_close(m);
    }
    file f; /* metadata of others; vitrine's own are what a user said */
    begin_bare(&f);
    f.o.heads = 3, f.o.has_std = true, f.o.std[0] = f.o.std[1] = f.o.std[2] = 0.5;
    f.extra_key = "mean", f.extra_value = "255,255,255";
    vt_model *m = opened(&f);
    assert_true(m->certainty[VT_FIELD_MEAN] == VT_OPEN && m->config.mean[2] == 1 && m->config.std[0] == 0.5);
    vt_model_close(m);
    begin_bare(&f);
    f.o = (vt_overrides){.heads = 3, .has_mean = true, .has_std = true, .mean = {2, 2, 2}, .std = {3, 3, 3}};
    m = opened(&f);
    vt_err e = {0};
    vt_model *copy;
    if (vt_model_save(m, at("copy.safetensors"), &e) != VT_OK) fail_msg("%s", e.text);
    if (vt_model_open(&copy, at("copy.safetensors"), NULL, &e) != VT_OK) fail_msg("%s", e.text);
    assert_true(copy->certainty[VT_FIELD_MEAN] == VT_KNOWN && copy->config.mean[2] == 2 && copy->config.std[0] == 3);
    vt_model_close(m), vt_model_close(copy);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_likely_heads), cmocka_unit_test(test_bare),        cmocka_unit_test(test_told),
        cmocka_unit_test(test_whole),        cmocka_unit_test(test_maps),        cmocka_unit_test(test_eps_by_names),
        cmocka_unit_test(test_patch_order),  cmocka_unit_test(test_copies),      cmocka_unit_test(test_suggested),
        cmocka_unit_test(test_wide),         cmocka_unit_test(test_norm_behind), cmocka_unit_test(test_reorder),
        cmocka_unit_test(test_unread),       cmocka_unit_test(test_pixels),
    };
    return cmocka_run_group_tests_name("doubt", tests, make_tmp, remove_tmp);
}
