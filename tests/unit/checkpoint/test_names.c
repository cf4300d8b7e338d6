/* SPDX-License-Identifier: MIT */
/* Names: every scheme against timm's names of the same numbers (tests/fixtures/gen_names.py); which map is taken, what
 * is refused by name, who wins. Runs from the repository root. */
#include "names_fixture.h"

static void write_text(const char *path, const char *text) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* ---- schemes ---- */

static const struct {
    const char *file, *timm, *scheme, *map;
} files[] = {{"vit", "vit", "timm", NULL},
             {"vit_hf4", "vit", "huggingface", NULL},
             {"vit_hf5", "vit", "huggingface", NULL},
             {"vit_tv", "vit", "torchvision", NULL},
             {"vit_tv_old", "vit", "torchvision", NULL},
             {"vit_home", "vit", "map home.map", "# channels last\n* -> *\nset patch_order hwc\n"},
             {"deit_hf4", "deit", "huggingface", NULL},
             {"deit_hf5", "deit", "huggingface", NULL},
             {"register_hf4", "register", "huggingface", NULL},
             {"swin", "swin", "timm", NULL},
             {"swin_old", "swin", "swin-old", NULL},
             {"swin_hf4", "swin", "huggingface", NULL},
             {"swin_hf5", "swin", "huggingface", NULL},
             {"swin_tv", "swin", "torchvision", NULL},
             {"xcit", "xcit", "timm", NULL},
             {"xcit_official", "xcit", "xcit-official", NULL}};

static void test_schemes(void **state) {
    (void)state;
    for (size_t k = 0; k < T_COUNT(files); k++) {
        vt_tensors *a = fixture(files[k].file), *b = fixture(files[k].timm);
        vt_names n, m;
        vt_err e = {0};
        if (files[k].map) write_text(at("home.map"), files[k].map);
        if (vt_names_apply(&n, a, files[k].map ? at("home.map") : NULL, NULL, &e) != VT_OK) fail_msg("%s", e.text);
        assert_int_equal(vt_names_apply(&m, b, NULL, NULL, &e), VT_OK);
        assert_string_equal(n.naming, files[k].scheme);
        assert_string_equal(m.naming, "timm");
        assert_int_equal(n.asked, files[k].map != NULL);
        same_tensors(a, b, files[k].file);
        for (int i = 0; i < n.n_rows; i++) assert_true(!n.rows[i].became == !!n.rows[i].why);
        vt_names_close(&n), vt_names_close(&m);
        vt_tensors_close(a), vt_tensors_close(b);
    }
}

/* q, k and v are not gathered before they are read: a file must not be in memory twice. */
static void test_nothing_copied(void **state) {
    (void)state;
    vt_tensors *st = fixture("vit_hf4"), *official = fixture("xcit_official");
    vt_names n, o;
    vt_err e = {0};
    assert_int_equal(vt_names_apply(&n, st, NULL, NULL, &e), VT_OK);
    const vt_tensor *t = vt_tensors_find(st, "blocks.1.attn.qkv.weight");
    assert_non_null(t);
    assert_true(t->n_parts == 3 && !t->data && t->numel == 36 * 12);
    assert_string_equal(t->parts[1].name, "vit.encoder.layer.1.attention.attention.key.weight");
    assert_string_equal(vt_tensors_origin(st, (int)(t - vt_tensors_at(st, 0))),
                        "vit.encoder.layer.1.attention.attention.query.weight + "
                        "vit.encoder.layer.1.attention.attention.key.weight + "
                        "vit.encoder.layer.1.attention.attention.value.weight");
    double d[36 * 12];
    int64_t k[3];
    assert_int_equal(vt_tensor_f64(st, t, d, 36 * 12, &e), VT_OK);
    t_says(vt_tensor_f64(st, t, d, 36, &e), VT_E_SHAPE, &e, "blocks.1.attn.qkv.weight", "432 items");
    t_says(vt_tensor_i64(st, t, k, 36 * 12, &e), VT_E_FORMAT, &e, "blocks.1.attn.qkv.weight", "integers");
    assert_int_equal(vt_names_apply(&o, official, NULL, NULL, &e), VT_OK);
    const vt_tensor *q = vt_tensors_find(official, "cls_attn_blocks.0.attn.q.weight");
    const vt_tensor *v = vt_tensors_find(official, "cls_attn_blocks.0.attn.v.weight");
    assert_true(q && v && !v->n_parts && (const char *)v->data == (const char *)q->data + 2 * 64 * sizeof(float));
    vt_names_close(&n), vt_names_close(&o);
    vt_tensors_close(st), vt_tensors_close(official);
}

static const vt_names_row *row_of(const vt_names *n, const char *origin) {
    for (int i = 0; i < n->n_rows; i++)
        if (!strcmp(n->rows[i].origin, origin)) return &n->rows[i];
    fail_msg("no row of %s", origin);
    return NULL;
}

static void test_rows(void **state) {
    (void)state;
    vt_tensors *st = fixture("vit_hf4"), *x = fixture("xcit_official");
    vt_names n, m;
    vt_err e = {0};
    char theirs[300];
    assert_int_equal(vt_names_apply(&n, st, NULL, NULL, &e), VT_OK);
    assert_string_equal(row_of(&n, "vit.layernorm.weight")->became, "norm.weight");
    assert_string_equal(row_of(&n, "vit.encoder.layer.1.attention.attention.value.bias")->became,
                        "blocks.1.attn.qkv.bias (part 3 of 3)");
    assert_null(row_of(&n, "vit.pooler.dense.bias")->became);
    assert_string_equal(row_of(&n, "vit.pooler.dense.bias")->why, "the classifier does not use it");
    assert_true(vt_rename_theirs(n.map, "blocks.3.attn.qkv.bias", theirs, sizeof theirs));
    assert_non_null(strstr(theirs, "layer.3.attention.attention.key.bias + vit."));
    assert_false(vt_rename_theirs(n.map, "nothing.like.it", theirs, sizeof theirs));
    assert_int_equal(vt_names_apply(&m, x, NULL, NULL, &e), VT_OK);
    assert_string_equal(row_of(&m, "cls_attn_blocks.0.attn.qkv.bias")->became,
                        "cls_attn_blocks.0.attn.q.bias + cls_attn_blocks.0.attn.k.bias + "
                        "cls_attn_blocks.0.attn.v.bias");
    assert_string_equal(row_of(&m, "patch_embed.proj.2.1.num_batches_tracked")->why,
                        "counts the batches of a BatchNorm");
    assert_false(vt_rename_theirs(m.map, "norm.weight", theirs, sizeof theirs)); /* the name stays */
    vt_names_close(&n), vt_names_close(&m);
    vt_tensors_close(st), vt_tensors_close(x);
}

/* Both as models: what each says of itself, and the weights. */
static void test_models(void **state) {
    (void)state;
    static const char *const pairs[][2] = {{"vit_hf4", "vit"},    {"vit_hf5", "vit"},   {"vit_tv", "vit"},
                                           {"deit_hf4", "deit"},  {"deit_hf5", "deit"}, {"register_hf4", "register"},
                                           {"vit_tv_old", "vit"}, {"vit_home", "vit"},  {"swin_old", "swin"},
                                           {"swin_hf4", "swin"},  {"swin_hf5", "swin"}, {"swin_tv", "swin"}};
    write_text(at("home.map"), "* -> *\nset patch_order hwc\nset heads 3\nset std 0.25\nset mean 0.5,0.25,0.125\n"
                               "set ln_eps 1e-6\n"); /* a map's default is torch's 1e-5 */
    for (size_t k = 0; k < T_COUNT(pairs); k++) {
        char path[2][100];
        vt_model *m[2];
        vt_err e = {0};
        bool home = !strcmp(pairs[k][0], "vit_home");
        for (int i = 0; i < 2; i++) {
            vt_overrides o = {.ln_eps = 1e-6, .has_mean = true, .has_std = true, .heads = 3};
            if (!strncmp(pairs[k][0], "swin", 4)) o.heads = 0;
            for (int c = 0; c < 3; c++) o.mean[c] = 0.5 / (1 << c), o.std[c] = 0.25;
            if (home && !i) o = (vt_overrides){.names = at("home.map")};
            snprintf(path[i], sizeof path[i], FOLDER "%s.safetensors", pairs[k][i]);
            if (vt_model_open(&m[i], path[i], &o, &e) != VT_OK) fail_msg("%s", e.text);
        }
        const vt_config *a = &m[0]->config, *b = &m[1]->config;
        assert_true(a->heads == b->heads && a->registers == b->registers && a->dist_token == b->dist_token);
        assert_true(a->ln_eps == b->ln_eps && a->attn_scale == b->attn_scale && a->pool == b->pool);
        assert_memory_equal(a->mean, b->mean, sizeof a->mean);
        assert_memory_equal(a->std, b->std, sizeof a->std);
        assert_int_equal(m[0]->params.total, m[1]->params.total);
        for (int i = 0; i < m[0]->params.count; i++) {
            const vt_param *p = &m[0]->params.items[i], *q = &m[1]->params.items[i];
            assert_string_equal(p->name, q->name);
            assert_memory_equal(m[0]->w + p->offset, m[1]->w + q->offset, p->numel * sizeof(float));
        }
        assert_int_equal(a->registers, !strncmp(pairs[k][0], "register", 8));
        if (home) assert_string_equal(m[0]->source[VT_FIELD_STD], "map home.map");
        vt_model_close(m[0]), vt_model_close(m[1]);
    }
}

/* ---- which map, and what is refused by name ---- */

static void test_wishes(void **state) {
    (void)state;
    int n_maps, n_defs;
    vt_names n;
    vt_err e = {0};
    const vt_names_map *maps = vt_names_maps(&n_maps);
    assert_non_null(vt_names_defs(&n_defs));
    assert_true(n_maps >= 3 && n_defs >= 5);
    for (int i = 0; i < n_maps; i++) { /* a summary, and no line that is wrong */
        free(map_of(maps[i].text));
        assert_int_equal(strncmp(maps[i].text, "# ", 2), 0);
    }
    vt_tensors *st = fixture("vit");
    t_says(vt_names_apply(&n, st, "vit-scrach", NULL, &e), VT_E_USAGE, &e, "neither a file",
           "did you mean 'vit-scratch'");
    vt_names_close(&n);
    t_says(vt_names_apply(&n, st, "vit-scratch", NULL, &e), VT_E_FORMAT, &e, "no line of map vit-scratch fits",
           "and 31 more");
    vt_names_close(&n);
    assert_int_equal(vt_names_apply(&n, st, "timm", NULL, &e), VT_OK);
    assert_true(n.asked);
    vt_names_close(&n), vt_tensors_close(st);
    for (size_t k = 0; k < T_COUNT(files); k++) {
        st = fixture(files[k].file);
        const vt_names_def *d = vt_names_def_of(st);
        if (!d || (!files[k].map && strcmp(d->name, files[k].scheme) != 0))
            fail_msg("%s: %s", files[k].file, d ? d->name : "none");
        vt_tensors_close(st);
    }
}

static void test_refused_models(void **state) {
    (void)state;
    static const struct {
        item items[3];
        const char *says;
    } rows[] = {{{{"embeddings.patch_embeddings.projection.weight", 1, {1}, 0}}, "base model without classifier"},
                {{{"vit.embeddings.patch_embeddings.projection.weight", 1, {1}, 0}}, "base model without classifier"},
                {{{"deit.embeddings.patch_embeddings.projection.weight", 1, {1}, 0}}, "base model without classifier"},
                {{{"swin.embeddings.patch_embeddings.projection.weight", 1, {1}, 0},
                  {"swin.embeddings.position_embeddings", 1, {1}, 0},
                  {"classifier.weight", 1, {1}, 0}},
                 "absolute positions"},
                {{{"conv_proj.weight", 1, {1}, 0}}, "base model without classifier"},
                {{{"conv_proj.conv_1.weight", 1, {1}, 0}}, "convolutional stem"},
                {{{"conv_proj.weight", 1, {1}, 0}, {"heads.pre_logits.weight", 1, {1}, 0}}, "heads.pre_logits"},
                {{{"features.0.0.weight", 1, {1}, 0},
                  {"features.1.0.attn.cpb_mlp.0.weight", 1, {1}, 0},
                  {"features.1.0.attn.logit_scale", 1, {1}, 0}},
                 "Swin V2 (torchvision's swin_v2"},
                {{{"patch_embed.proj.weight", 1, {1}, 0},
                  {"layers.0.blocks.0.attn.logit_scale", 1, {1}, 0},
                  {"layers.0.blocks.0.attn.cpb_mlp.0.weight", 1, {1}, 0}},
                 "is a Swin V2"},
                {{{"layers.0.blocks.0.attn.relative_position_bias_table", 1, {1}, 0},
                  {"layers.0.downsample.reduction.weight", 1, {1}, 0}},
                 "base model without classifier"},
                {{{"foo.weight", 1, {1}, 0}, {"bar", 1, {1}, 0}}, "no known naming scheme"}};
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        int n = 0;
        vt_names names;
        vt_err e = {0};
        while (n < 3 && rows[i].items[n].name) n++;
        vt_tensors *st = made(rows[i].items, n);
        t_says(vt_names_apply(&names, st, NULL, NULL, &e), VT_E_FORMAT, &e, rows[i].says, "made.safetensors");
        vt_names_close(&names), vt_tensors_close(st);
    }
}

/* What a tensor is called in the file stands in the sentence about it. */
static void test_sentences(void **state) {
    (void)state;
    static const item items[] = {{"class_token", 3, {1, 1, 8}, 0},
                                 {"encoder.pos_embedding", 3, {1, 5, 8}, 0},
                                 {"conv_proj.weight", 4, {8, 3, 4, 4}, 0},
                                 {"conv_proj.bias", 1, {8}, 0},
                                 {"encoder.layers.encoder_layer_0.mlp.0.weight", 2, {8, 8}, 0},
                                 {"encoder.layers.encoder_layer_0.mlp.0.bias", 1, {8}, 0},
                                 {"encoder.layers.encoder_layer_0.mlp.3.weight", 2, {8, 8}, 0},
                                 {"encoder.layers.encoder_layer_0.mlp.3.bias", 1, {8}, 0},
                                 {"encoder.layers.encoder_layer_0.ln_1.weight", 1, {8}, 0},
                                 {"encoder.layers.encoder_layer_0.ln_1.bias", 1, {8}, 0},
                                 {"encoder.ln.weight", 1, {9}, 0},
                                 {"heads.head.weight", 2, {3, 8}, 0}};
    vt_overrides o = {.heads = 2, .has_mean = true, .has_std = true, .std = {1, 1, 1}};
    vt_model *m;
    vt_err e = {0};
    vt_tensors_close(made(items, T_COUNT(items)));
    t_says(vt_model_open(&m, at("made.safetensors"), &o, &e), VT_E_FORMAT, &e, "is missing",
           "(of encoder.layers.encoder_layer_0.");
    assert_null(m);
}

/* ---- who wins ---- */

static void test_order_of_sources(void **state) {
    (void)state;
    static const char map[] = "* -> *\nset heads 2\nset ln_eps 1e-3\nset mean 0.25\nset std 0.5\nset attn_scale dim\n"
                              "set act relu\nset transform squash:8,bilinear\n";
    vt_tensors *st = fixture("vit");
    vt_tensor t[64];
    int n = vt_tensors_count(st);
    for (int i = 0; i < n; i++) t[i] = *vt_tensors_at(st, i);
    static const char *const meta[] = {"num_heads", "4", "ln_eps", "1e-4", "mean", "0.5", "act", "gelu_tanh"};
    vt_err e = {0};
    vt_model *m;
    assert_int_equal(vt_tensors_write(at("w.safetensors"), t, n, meta, 4, &e), VT_OK);
    vt_tensors_close(st);
    write_text(at("my.map"), map);
    /* a map that was asked for, before metadata; an option before both */
    if (vt_model_open(&m, at("w.safetensors"), &(vt_overrides){.names = at("my.map"), .ln_eps = 1e-2}, &e) != VT_OK)
        fail_msg("%s", e.text);
    assert_true(m->config.heads == 2 && m->config.ln_eps == 1e-2 && m->config.mean[1] == 0.25 &&
                m->config.std[2] == 0.5);
    assert_true(m->config.act == VT_ACT_RELU && fabs(m->config.attn_scale - 1 / sqrt(12)) < 1e-15);
    assert_string_equal(m->transform, "squash:8,bilinear");
    assert_string_equal(m->source[VT_FIELD_TRANSFORM], "map my.map");
    vt_model_close(m);
    /* metadata before config.json before what a scheme says */
    write_text(at("config.json"), "{\"num_attention_heads\": 3, \"layer_norm_eps\": 1e-5, \"std\": [0.1,0.1,0.1], "
                                  "\"mean\": [0.1,0.1,0.1], \"hidden_act\": \"relu\"}");
    assert_int_equal(vt_model_open(&m, at("w.safetensors"), NULL, &e), VT_OK);
    assert_true(m->config.heads == 4 && m->config.ln_eps == 1e-4 && m->config.mean[0] == 0.5 &&
                m->config.std[0] == 0.1);
    assert_true(m->config.act == VT_ACT_GELU_TANH);
    vt_model_close(m);
    st = fixture("vit_hf4");
    n = vt_tensors_count(st);
    for (int i = 0; i < n; i++) t[i] = *vt_tensors_at(st, i);
    assert_int_equal(vt_tensors_write(at("w.safetensors"), t, n, NULL, 0, &e), VT_OK);
    vt_tensors_close(st);
    assert_int_equal(vt_model_open(&m, at("w.safetensors"), NULL, &e), VT_OK);
    assert_true(m->config.heads == 3 && m->config.ln_eps == 1e-5 && m->config.act == VT_ACT_RELU);
    assert_string_equal(m->source[VT_FIELD_LN_EPS], "config.json");
    vt_model_close(m);
    unlink(at("config.json"));
    vt_overrides o = {.heads = 3, .has_mean = true, .has_std = true, .std = {1, 1, 1}};
    assert_int_equal(vt_model_open(&m, at("w.safetensors"), &o, &e), VT_OK);
    assert_true(m->config.ln_eps == 1e-12); /* Hugging Face's default, not timm's */
    vt_model_close(m);
}

/* A map that contradicts the tensors is refused; where tensors leave two answers, it decides; windows that do not
 * divide. */
static void test_maps_and_tensors(void **state) {
    (void)state;
    vt_overrides o = {.heads = 3, .has_mean = true, .has_std = true, .std = {1, 1, 1}, .names = at("my.map")};
    vt_model *m;
    vt_err e = {0};
    write_text(at("my.map"), "* -> *\nset norm center\n");
    assert_int_equal(vt_model_open(&m, FOLDER "vit.safetensors", &o, &e), VT_OK); /* LayerNorm or CenterNorm: open */
    vt_model_close(m);
    write_text(at("my.map"), "* -> *\nset no_cls 1\n");
    t_says(vt_model_open(&m, FOLDER "vit.safetensors", &o, &e), VT_E_USAGE, &e, "my.map no_cls=1 contradicts", "vit.");
    o = (vt_overrides){.has_mean = true, .has_std = true, .std = {1, 1, 1}};
    o.image = 24; /* 12, 6 and 3 tokens a side in windows of 2 */
    t_says(vt_model_open(&m, FOLDER "swin_hf4.safetensors", &o, &e), VT_E_SHAPE, &e, "stage 2 has 3 x 3 tokens",
           "window (2)");
    if (vt_model_open(&m, FOLDER "swin.safetensors", &o, &e) != VT_OK) fail_msg("%s", e.text);
    vt_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_schemes, t_drop),
        cmocka_unit_test(test_nothing_copied),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_wishes),
        cmocka_unit_test_teardown(test_refused_models, t_drop),
        cmocka_unit_test_teardown(test_sentences, t_drop),
        cmocka_unit_test(test_order_of_sources),
        cmocka_unit_test(test_maps_and_tensors),
    };
    return cmocka_run_group_tests_name("names", tests, make_tmp, remove_tmp);
}
