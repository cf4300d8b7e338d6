/* SPDX-License-Identifier: MIT */
/* Checkpoints: saving and reading back, what is refused and in which words. */
#include "checkpoint_fixture.h"

/* ---- save and read back ---- */

static char *bytes_of(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *b = malloc(1 << 20);
    *n = fread(b, 1, 1 << 20, f);
    fclose(f);
    return b;
}

/* Copies exist once they are asked for, each matrix [out, in] as [in, out]; asking again keeps them. */
static void check_transposes(vt_model *m) {
    vt_err e = {0};
    int matrices = 0;
    assert_null(m->wt);
    assert_int_equal(vt_model_prepare(m, &e), VT_OK);
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        if (p->t_offset == SIZE_MAX) continue;
        size_t rows = (size_t)p->shape[0], cols = p->numel / rows;
        matrices++;
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < cols; c++)
                assert_true(m->wt[p->t_offset + c * rows + r] == m->w[p->offset + r * cols + c]);
    }
    assert_true(matrices > 4 * m->config.depth);
    const float *kept = m->wt;
    assert_int_equal(vt_model_prepare(m, &e), VT_OK);
    assert_ptr_equal(kept, m->wt);
}

static void round_trip(vt_pool pool, bool dist, bool bias) {
    vt_model *m = toy(pool, dist, bias), *again = NULL;
    m->config.attn_scale = 0.3217, m->config.ln_eps = 3e-6; /* no one's default */
    vt_err e = {0};
    if (vt_model_save(m, at("a.safetensors"), &e) != VT_OK) fail_msg("%s", e.text);
    if (vt_model_open(&again, at("a.safetensors"), NULL, &e) != VT_OK) fail_msg("%s", e.text);
    const vt_config *c = &m->config, *d = &again->config;
    assert_string_equal(c->arch, d->arch);
    assert_string_equal(c->attn, d->attn);
    assert_true(c->image == d->image && c->patch == d->patch && c->dim == d->dim && c->depth == d->depth &&
                c->heads == d->heads);
    assert_true(c->hidden == d->hidden && c->classes == d->classes && c->qkv_bias == d->qkv_bias &&
                c->dist_token == d->dist_token);
    assert_true(c->pool == d->pool && c->ln_eps == d->ln_eps && c->attn_scale == d->attn_scale);
    assert_memory_equal(c->mean, d->mean, sizeof c->mean);
    assert_memory_equal(c->std, d->std, sizeof c->std);
    assert_int_equal(m->params.total, again->params.total);
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        assert_memory_equal(m->w + p->offset, again->w + p->offset, p->numel * sizeof(float));
    }
    check_transposes(again);
    assert_string_equal(again->naming, "timm");
    assert_string_equal(again->path, at("a.safetensors"));
    assert_int_equal(strlen(again->sha256), 64);
    assert_string_equal(again->source[VT_FIELD_HEADS], "safetensors metadata");
    assert_int_equal(vt_model_save(again, at("b.safetensors"), &e), VT_OK);
    size_t na, nb;
    char *a = bytes_of(at("a.safetensors"), &na), *b = bytes_of(at("b.safetensors"), &nb);
    assert_int_equal(na, nb);
    assert_memory_equal(a, b, na);
    free(a), free(b);
    vt_model_close(m), vt_model_close(again);
    unlink(at("a.safetensors")), unlink(at("b.safetensors"));
}

static void test_round_trip(void **state) {
    (void)state;
    round_trip(VT_POOL_TOKEN, false, true);
    round_trip(VT_POOL_AVG, false, false);
    round_trip(VT_POOL_TOKEN, true, true);
}

/* ---- refusals ---- */

static void test_names(void **state) {
    (void)state;
    static const char *const needed[] =
        {"cls_token",   "blocks.1.norm2.bias",    "blocks.0.attn.proj.weight", "norm.weight", "blocks.0.mlp.fc2.bias",
         "head.weight", "blocks.0.mlp.fc1.weight"};
    file f;
    for (size_t i = 0; i < T_COUNT(needed); i++) {
        begin(&f, false);
        drop(&f, needed[i]);
        refused(&f, VT_E_FORMAT, needed[i], "missing");
    }
    begin(&f, true);
    drop(&f, "head_dist.bias");
    refused(&f, VT_E_FORMAT, "head_dist.bias", "missing");
    begin(&f, false);
    find(&f, "blocks.1.norm2.bias")->name = "blocks.1.norm2.bais"; /* the likely culprit is named */
    refused(&f, VT_E_FORMAT, "blocks.1.norm2.bias is missing", "unknown name blocks.1.norm2.bais");
    begin(&f, false);
    f.t[f.n] = *find(&f, "head.bias");
    f.t[f.n++].name = "head.bios";
    refused(&f, VT_E_FORMAT, "head.bios does not belong", "nearest known name: head.bias");
    begin(&f, false);
    f.t[f.n] = *find(&f, "blocks.0.norm1.weight");
    f.t[f.n++].name = "entirely.different.thing";
    refused(&f, VT_E_FORMAT, "entirely.different.thing", "does not belong");
    begin(&f, false);
    drop(&f, "pos_embed"); /* positions may be computed: test_home.c; then nothing tells the side either */
    refused(&f, VT_E_USAGE, "side of the input image", "--image-size");
    begin(&f, false);
    drop(&f, "blocks.1.norm1.weight"); /* depth is read off this name: the rest of block 1 is then extra */
    refused(&f, VT_E_FORMAT, "blocks.1.", "");
}

static void test_shapes(void **state) {
    (void)state;
    file f;
    begin(&f, false);
    find(&f, "blocks.1.attn.proj.weight")->ndim = 1;
    find(&f, "blocks.1.attn.proj.weight")->shape[0] = 144;
    refused(&f, VT_E_SHAPE, "blocks.1.attn.proj.weight has shape [144]", "[12,12]");
    begin(&f, false);
    vt_tensor *t = find(&f, "blocks.1.mlp.fc1.weight"); /* transposed: same count, same bytes */
    t->shape[0] = 12, t->shape[1] = 20;
    refused(&f, VT_E_SHAPE, "blocks.1.mlp.fc1.weight has shape [12,20]", "[20,12]");
    begin(&f, false);
    t = find(&f, "head.bias");
    t->shape[0] = 4, t->numel = 4;
    refused(&f, VT_E_SHAPE, "head.bias has shape [4]", "[5]");
    begin(&f, false);
    t = find(&f, "pos_embed");
    t->shape[1] = 8, t->numel = 8 * 12;
    refused(&f, VT_E_SHAPE, "8 positions", "not a square");
    begin(&f, false);
    t = find(&f, "pos_embed");
    t->ndim = 4, t->shape[0] = 2, t->shape[1] = 1, t->shape[2] = 5, t->shape[3] = 12;
    refused(&f, VT_E_SHAPE, "pos_embed has shape [2,1,5,12]", "3 dimensions");
    begin(&f, false);
    t = find(&f, "patch_embed.proj.weight");
    t->shape[2] = 2, t->shape[3] = 8;
    refused(&f, VT_E_SHAPE, "[12,3,2,8]", "[dim,3,patch,patch]");
    begin(&f, true); /* a distilled model has no mean pooling (timm refuses it as well) */
    find(&f, "norm.weight")->name = "fc_norm.weight", find(&f, "norm.bias")->name = "fc_norm.bias";
    refused(&f, VT_E_SHAPE, "distillation token", "fc_norm");
}

static void test_values(void **state) {
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    static const char *const where[] = {"cls_token", "blocks.1.attn.qkv.weight", "head.bias"};
    static const int element[] = {0, 401, 4};
    file f;
    for (size_t i = 0; i < T_COUNT(bad); i++)
        for (size_t k = 0; k < T_COUNT(where); k++) {
            char text[40];
            begin(&f, false);
            values(&f, where[k])[element[k]] = bad[i];
            snprintf(text, sizeof text, "at element %d", element[k]);
            refused(&f, VT_E_NUMERIC, where[k], text);
        }
    static const int late[] = {4095, 4096, 6143}; /* a tensor larger than the piece that is looked at at a time */
    for (size_t i = 0; i < T_COUNT(late); i++) {
        char text[40];
        vt_config c = toy_config("dot", VT_POOL_TOKEN, false, true);
        c.hidden = 512;
        begin_with(&f, toy_model(&c, 1));
        values(&f, "blocks.1.mlp.fc2.weight")[late[i]] = NAN;
        snprintf(text, sizeof text, "at element %d;", late[i]);
        refused(&f, VT_E_NUMERIC, "blocks.1.mlp.fc2.weight", text);
    }
    double huge[5] = {0, 1, 2, 1e300, 4}; /* finite in the file, not in float32 */
    begin(&f, false);
    vt_tensor *t = find(&f, "head.bias");
    t->dtype = VT_F64, t->data = huge;
    refused(&f, VT_E_NUMERIC, "head.bias", "at element 3");
    static const int64_t whole[5] = {1, 2, 3, 4, 5};
    begin(&f, false);
    t = find(&f, "head.bias");
    t->dtype = VT_I64, t->data = whole;
    refused(&f, VT_E_FORMAT, "head.bias", "I64");
}

static void test_heads(void **state) {
    (void)state;
    file f;
    begin(&f, false);
    f.o.heads = 5;
    refused(&f, VT_E_SHAPE, "not a multiple of 5 heads", "--heads");
    begin(&f, false);
    f.o.heads = -3;
    refused(&f, VT_E_SHAPE, "-3 heads", "--heads");
    static const char *const bad[] = {"0", "2.5", "13", "-1"};
    for (size_t i = 0; i < T_COUNT(bad); i++) {
        begin(&f, false);
        f.no_heads = true, f.extra_key = "num_heads", f.extra_value = bad[i];
        refused(&f, VT_E_RANGE, "metadata", "whole number between 1 and 12");
    }
    begin(&f, false);
    f.no_heads = true, f.extra_key = "num_heads", f.extra_value = "5";
    refused(&f, VT_E_SHAPE, "not a multiple of 5 heads", "metadata");
}

static void test_contradictions(void **state) {
    (void)state;
    static const struct {
        const char *json;
        vt_status status;
        const char *a, *b;
    } bad[] = {
        {"{\"num_classes\": 7}", VT_E_SHAPE, "num_classes is 7", "say 5"},
        {"{\"pretrained_cfg\": {\"num_classes\": 1000}}", VT_E_SHAPE, "num_classes is 1000", "config.json"},
        {"{\"model_args\": {\"num_classes\": 4}}", VT_E_SHAPE, "num_classes is 4", "config.json"},
        {"{\"num_classes\": 5", VT_E_FORMAT, "config.json", "line 1"},
        {"{\"num_classes\": 5, \"num_classes\": 6}", VT_E_FORMAT, "config.json", "duplicate"},
        {"[5]", VT_E_FORMAT, "config.json", "not a JSON object"},
        {"", VT_E_FORMAT, "config.json", "line"},
    };
    file f;
    for (size_t i = 0; i < T_COUNT(bad); i++) {
        begin(&f, false);
        f.config_json = bad[i].json;
        refused(&f, bad[i].status, bad[i].a, bad[i].b);
    }
    begin(&f, false);
    f.o.has_std = true; /* std 0 */
    refused(&f, VT_E_RANGE, "std is 0", "above 1e-6");
    begin(&f, false);
    f.o.attn_scale = "-1";
    refused(&f, VT_E_USAGE, "attention scale", "-1");
}

static void test_unknown_words(void **state) {
    (void)state;
    file f;
    begin(&f, false);
    f.extra_key = "attn", f.extra_value = "dott";
    refused(&f, VT_E_UNKNOWN, "dott", "attention variant");
    begin(&f, false);
    f.o.preset = "vit_tiny_patch16_244";
    refused(&f, VT_E_UNKNOWN, "vit_tiny_patch16_244", "vit_tiny_patch16_224");
    begin(&f, false);
    f.o.preset = "vit_tiny_patch16_224";
    refused(&f, VT_E_SHAPE, "width 12", "192");
    vt_model *m;
    vt_err e = {0};
    t_says(vt_model_open(&m, at("nowhere.safetensors"), NULL, &e), VT_E_IO, &e, "nowhere.safetensors", "");
    assert_null(m);
    vt_config c = toy_config("nope", VT_POOL_TOKEN, false, true);
    t_says(vt_model_new(&m, &c, &e), VT_E_UNKNOWN, &e, "nope", "attention");
    assert_null(m);
    snprintf(c.arch, sizeof c.arch, "vot");
    t_says(vt_model_new(&m, &c, &e), VT_E_UNKNOWN, &e, "vot", "architecture");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),    cmocka_unit_test(test_names), cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_values),        cmocka_unit_test(test_heads), cmocka_unit_test(test_contradictions),
        cmocka_unit_test(test_unknown_words),
    };
    return cmocka_run_group_tests_name("checkpoint", tests, make_tmp, remove_tmp);
}
