/* SPDX-License-Identifier: MIT */
/* Schemes and maps that no fixture has: their names, a tensor each, and what becomes of them. */
#include "names_fixture.h"

static const struct {
    const char *names, *scheme, *becomes; /* the names separated by blanks, each a [2,2]; one that must then be there */
} rows[] = {
    {"register_tokens to_patch_embedding.1.weight to_patch_embedding.2.bias to_patch_embedding.3.weight "
     "transformer.layers.0.0.norm.weight transformer.layers.0.0.to_qkv.weight transformer.layers.0.0.to_out.weight "
     "transformer.layers.0.1.net.0.weight transformer.layers.0.1.net.1.weight transformer.layers.0.1.net.3.weight "
     "transformer.norm.weight linear_head.weight",
     "map simple-vit-registers,", "reg_token"},
    {"cls_token pos_embedding to_patch_embedding.1.weight to_patch_embedding.2.bias to_patch_embedding.3.weight "
     "transformer.layers.0.0.norm.weight transformer.layers.0.0.to_q.weight transformer.layers.0.0.to_kv.weight "
     "transformer.layers.0.0.to_out.0.weight transformer.layers.0.1.net.0.weight transformer.layers.0.1.net.1.weight "
     "transformer.layers.0.1.net.4.weight mlp_head.0.weight mlp_head.1.weight",
     "map vit-pytorch-memory,", "blocks.0.attn.qkv.weight"},
    {"beit.embeddings.patch_embeddings.projection.bias beit.embeddings.patch_embeddings.projection.weight "
     "beit.encoder.layer.0.attention.attention.query.bias beit.encoder.layer.0.attention.attention.value.bias "
     "beit.encoder.layer.0.lambda_1 beit.pooler.layernorm.weight classifier.weight",
     "huggingface", "blocks.0.ls1.gamma"},
    {"data2vec_vision.embeddings.patch_embeddings.projection.weight data2vec_vision.layernorm.weight "
     "classifier.1.weight",
     "huggingface", "head.weight"},
    {"vision_model.embeddings.patch_embedding.weight vision_model.embeddings.class_embedding "
     "vision_model.pre_layrnorm.weight vision_model.post_layernorm.weight classifier.weight",
     "huggingface-clip", "norm_pre.weight"},
    {"vision_model.embeddings.patch_embedding.weight vision_model.post_layernorm.weight vision_model.head.probe "
     "classifier.weight",
     "huggingface-clip", "norm.weight"},
};

/* Tensors [2,2] of those names; of a norm [2], a patch embedding's weight [2,3,1,1]. */
static vt_tensors *named(const char *names) {
    static char text[1200];
    item items[32];
    int n = 0;
    snprintf(text, sizeof text, "%s", names);
    for (char *save = NULL, *w = strtok_r(text, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        bool patch = strstr(w, "patch_embed") && strstr(w, "projection.weight");
        bool norm = strstr(w, "norm") || strstr(w, "mlp_head.0");
        items[n] = (item){w, norm ? 1 : 2, {2, norm ? 0 : 2}, 0};
        if (patch || strstr(w, "patch_embedding.weight")) items[n] = (item){w, 4, {2, 3, 1, 1}, 0};
        n++;
    }
    return made(items, n);
}

static void test_schemes(void **state) {
    (void)state;
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        vt_tensors *st = named(rows[i].names);
        vt_names n;
        vt_err e = {0};
        if (vt_names_apply(&n, st, NULL, NULL, &e) != VT_OK) fail_msg("%s: %s", rows[i].scheme, e.text);
        if (strncmp(n.naming, rows[i].scheme, strlen(rows[i].scheme))) fail_msg("read as %s", n.naming);
        if (!vt_tensors_find(st, rows[i].becomes)) fail_msg("%s: no %s", rows[i].scheme, rows[i].becomes);
        vt_names_close(&n), vt_tensors_close(st);
    }
}

/* q, zeros, v: the key has no bias. */
static void test_key_without_bias(void **state) {
    (void)state;
    vt_tensors *st = named(rows[2].names);
    vt_names n;
    vt_err e = {0};
    double v[12];
    assert_int_equal(vt_names_apply(&n, st, NULL, NULL, &e), VT_OK);
    const vt_tensor *bias = vt_tensors_find(st, "blocks.0.attn.qkv.bias");
    assert_non_null(bias);
    assert_int_equal(bias->numel, 12);
    assert_int_equal(vt_tensor_f64(st, bias, v, 12, &e), VT_OK);
    for (int i = 0; i < 12; i++) assert_int_equal(v[i] != 0, i < 4 || i >= 8);
    vt_names_close(&n), vt_tensors_close(st);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(test_schemes, t_drop),
                                       cmocka_unit_test(test_key_without_bias)};
    return cmocka_run_group_tests_name("schemes", tests, make_tmp, remove_tmp);
}
