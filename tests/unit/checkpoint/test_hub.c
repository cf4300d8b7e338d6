/* SPDX-License-Identifier: MIT */
/* What timm and Hugging Face write beside a checkpoint. */
#include "base/real.h"
#include "t.h"

#include "checkpoint/hub.h"

static const char *from;

static vt_hub hub_of(const char *config, const char *pre) {
    vt_hub h = {.config_path = "config.json", .pre_path = "preprocessor_config.json"};
    vt_err e = {0};
    if (config && vt_hub_parse(&h.config, config, strlen(config), "config.json", &e) != VT_OK) fail_msg("%s", e.text);
    if (pre && vt_hub_parse(&h.pre, pre, strlen(pre), "pre", &e) != VT_OK) fail_msg("%s", e.text);
    return h;
}

/* timm 0.9.16 timm/data/transforms_factory.py: floor(size / crop_pct), crop_mode; transformers' ViT and DeiT
 * processors. */
static void test_transform(void **state) {
    (void)state;
    static const struct {
        const char *config, *pre, *want; /* want NULL: nothing */
    } rows[] =
        {{"{\"pretrained_cfg\": {\"input_size\": [3,224,224], \"interpolation\": \"bicubic\", \"crop_pct\": 0.9}}",
          NULL, "short:248,bicubic,crop:224"},
         {"{\"pretrained_cfg\": {\"input_size\": [3,224,224], \"crop_pct\": 1.0, \"interpolation\": \"bilinear\"}}",
          NULL, "short:224,bilinear,crop:224"},
         {"{\"pretrained_cfg\": {\"input_size\": [3,384,384], \"crop_pct\": 1.0, \"crop_mode\": \"squash\"}}", NULL,
          "squash:384,bicubic,crop:384"},
         {"{\"pretrained_cfg\": {\"input_size\": [3,224,224]}}", NULL, "short:256,bicubic,crop:224"}, /* 0.875 */
         {"{\"pretrained_cfg\": {\"input_size\": [3,224,224], \"crop_mode\": \"border\"}}", NULL, NULL},
         {"{\"pretrained_cfg\": {\"input_size\": [3,224,192]}}", NULL, NULL},
         {"{\"pretrained_cfg\": {\"input_size\": [3,224,224], \"crop_pct\": 0}}", NULL, NULL},
         {"{\"pretrained_cfg\": {\"input_size\": [3,224,224], \"interpolation\": \"random\"}}", NULL, NULL},
         {"{\"image_size\": 224}", NULL, NULL}, /* Hugging Face's says nothing of pictures */
         {NULL, "{\"do_resize\": true, \"size\": 224, \"resample\": 2}", "squash:224,bilinear"},
         {NULL, "{\"size\": {\"height\": 224, \"width\": 224}, \"resample\": 3}", "squash:224,bicubic"},
         {NULL,
          "{\"size\": {\"height\": 256, \"width\": 256}, \"resample\": 3, \"do_center_crop\": true, \"crop_size\": "
          "{\"height\": 224, \"width\": 224}}",
          "squash:256,bicubic,crop:224"},
         {NULL, "{\"size\": {\"shortest_edge\": 256}, \"resample\": 3, \"do_center_crop\": true, \"crop_size\": 224}",
          "short:256,bicubic,crop:224"},
         {NULL, "{\"do_resize\": false, \"size\": 224, \"do_center_crop\": true, \"crop_size\": 32}", "crop:32"},
         {NULL, "{\"do_resize\": false, \"size\": 224}", NULL},
         {NULL, "{\"size\": {\"height\": 224, \"width\": 192}}", NULL},
         {NULL, "{\"size\": 224, \"resample\": 9}", NULL},
         {NULL, "{\"size\": 224.5}", NULL},
         {"{\"pretrained_cfg\": {\"input_size\": [3,224,224]}}", "{\"size\": 64}", "squash:64,bilinear"},
         {NULL, NULL, NULL}};
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        vt_hub h = hub_of(rows[i].config, rows[i].pre);
        char out[64];
        bool said = vt_hub_transform(&h, out, sizeof out, &from);
        if (said != (rows[i].want != NULL)) fail_msg("row %zu: %s", i, said ? out : "nothing");
        if (said) assert_string_equal(out, rows[i].want);
        if (said) assert_string_equal(from, rows[i].pre ? "preprocessor_config.json" : "config.json");
        vt_hub_close(&h);
    }
}

static void test_normalisation(void **state) {
    (void)state;
    static const struct {
        const char *config, *pre;
        double mean, std; /* of the first channel; std 0: nothing */
    } rows[] =
        {{"{\"pretrained_cfg\": {\"mean\": [0.5,0.25,0.125], \"std\": [0.75,1,1]}}", NULL, 0.5, 0.75},
         {"{\"mean\": [0.5,0.25,0.125], \"std\": [0.75,1,1]}", "{\"do_normalize\": false}", 0.5, 0.75},
         {"{\"mean\": [0.5,0.25,0.125]}", NULL, 0, 0},
         {"{\"mean\": [0.5,0.25], \"std\": [1,1]}", NULL, 0, 0},
         {NULL, "{\"image_mean\": [0.5,0.5,0.5], \"image_std\": [0.25,0.5,0.5]}", 0.5, 0.25},
         {NULL,
          "{\"image_mean\": [0.5,0.5,0.5], \"image_std\": [0.25,0.5,0.5], \"rescale_factor\": 0.00392156862745098}",
          0.5, 0.25},
         {NULL, "{\"image_mean\": [0.5,0.5,0.5], \"image_std\": [0.25,0.5,0.5], \"do_normalize\": false}", 0, 1},
         /* bytes / 127.5 are 2 x: (2 x - 1) / 0.5 = (x - 0.5) / 0.25 */
         {NULL, "{\"image_mean\": [1,1,1], \"image_std\": [0.5,0.5,0.5], \"rescale_factor\": 0.00784313725490196}", 0.5,
          0.25},
         {NULL, "{\"image_mean\": [127.5,1,1], \"image_std\": [255,1,1], \"do_rescale\": false}", 0.5, 1},
         {NULL, "{\"do_normalize\": false, \"do_rescale\": false}", 0, 1.0 / 255},
         {NULL, "{\"image_mean\": [0.5,0.5,0.5]}", 0, 0},
         {NULL, NULL, 0, 0}};
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        vt_hub h = hub_of(rows[i].config, rows[i].pre);
        double mean[3], std[3];
        bool said = vt_hub_pixels(&h, false, mean, &from) && vt_hub_pixels(&h, true, std, &from);
        if (said != (rows[i].std > 0)) fail_msg("row %zu", i);
        if (said) { /* quotients of decimal numbers: some roundings of double */
            t_le(fabs(mean[0] - rows[i].mean), 1e-12, "mean of row %zu", i);
            t_le(fabs(std[0] - rows[i].std), 1e-12, "std of row %zu", i);
        }
        vt_hub_close(&h);
    }
    /* a factor of 1/255 leaves the numbers as they are written */
    vt_hub h = hub_of(NULL, "{\"image_mean\": [0.485,0.456,0.406], \"image_std\": [0.229,0.224,0.225], "
                            "\"rescale_factor\": 0.00392156862745098}");
    double mean[3], std[3];
    assert_true(vt_hub_pixels(&h, false, mean, &from) && vt_hub_pixels(&h, true, std, &from));
    assert_true(mean[0] == 0.485 && std[2] == 0.225);
    vt_hub_close(&h);
}

static void test_check(void **state) {
    (void)state;
    const vt_config c = {.arch = "vit", .classes = 10, .dim = 192, .depth = 12, .hidden = 768, .patch = 16};
    static const struct {
        const char *config, *a, *b; /* a NULL: agrees */
        vt_status code;
    } rows[] = {{"{\"num_classes\": 10, \"hidden_size\": 192, \"num_hidden_layers\": 12, \"intermediate_size\": 768, "
                 "\"patch_size\": 16}",
                 NULL, NULL, VT_OK},
                {"{\"num_classes\": 10, \"pretrained_cfg\": {\"num_classes\": 1000}}", NULL, NULL, VT_OK},
                {"{\"num_classes\": 1000}", "num_classes is 1000", "w.pth say 10", VT_E_SHAPE},
                {"{\"num_labels\": 2}", "num_labels is 2", "say 10", VT_E_SHAPE},
                {"{\"hidden_size\": 384}", "hidden_size is 384", "say 192", VT_E_SHAPE},
                {"{\"num_hidden_layers\": 11}", "num_hidden_layers is 11", "say 12", VT_E_SHAPE},
                {"{\"id2label\": {\"0\": \"a\", \"1\": \"b\"}}", "id2label names 2", "has 10", VT_E_SHAPE},
                {"{\"architecture\": \"vit_tiny_patch16_224.augreg_in21k\"}", NULL, NULL, VT_OK},
                {"{\"architecture\": \"vit_base_patch32_clip_quickgelu_224\"}", NULL, NULL, VT_OK}};
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        vt_hub h = hub_of(rows[i].config, NULL);
        vt_err e = {0};
        vt_status s = vt_hub_check(&h, &c, "w.pth", &e);
        if (rows[i].a)
            t_says(s, rows[i].code, &e, rows[i].a, rows[i].b);
        else if (s != VT_OK)
            fail_msg("%s", e.text);
        vt_hub_close(&h);
    }
    vt_hub h = hub_of("{\"architecture\": \"vit_tiny_patch16_224.augreg_in21k\", \"hidden_size\": 384}", NULL);
    vt_config other = {.arch = "convit", .classes = 10};
    char name[80];
    vt_err e = {0};
    assert_true(vt_hub_architecture(&h, name, sizeof name, &from));
    assert_string_equal(name, "vit_tiny_patch16_224");
    t_says(vt_hub_check(&h, &other, "w.pth", &e), VT_E_SHAPE, &e, "vit_tiny_patch16_224, which is a vit", "a convit");
    vt_hub_close(&h);
}

/* What timm's names of architectures say, where they are no preset's. */
static void test_architectures(void **state) {
    (void)state;
    static const struct {
        const char *name, *refused, *act; /* NULL: it is not; none */
    } rows[] = {{"vit_small_patch16_rope_ape_224", "'rope'", NULL},
                {"eva02_base_patch14_448.mim_in22k", "'eva'", NULL},
                {"vit_base_patch16_siglip_224.webli", "'siglip'", "gelu"},
                {"vit_base_patch16_siglip_gap_224.webli", NULL, "gelu"},
                {"vit_so400m_patch14_siglip_gap_224", NULL, "gelu"},
                {"vit_so400m_patch16_siglip_gap_256", NULL, "gelu_tanh"},
                {"vit_large_patch16_siglip_gap_384", NULL, "gelu"},
                {"vit_large_patch16_siglip_gap_512", NULL, "gelu_tanh"},
                {"vit_base_patch32_clip_quickgelu_224", NULL, "quick_gelu"},
                {"vit_small_patch14_reg4_dinov2", NULL, NULL},
                {"vit_medium_reg4_map_256", "'map'", NULL},
                {"vit_mapped_evaluation_respostal", NULL, NULL},
                {"vit_tiny_patch16_224", NULL, NULL}};
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        char json[120], name[80];
        vt_err e = {0};
        snprintf(json, sizeof json, "{\"architecture\": \"%s\"}", rows[i].name);
        vt_hub h = hub_of(json, NULL);
        assert_true(vt_hub_architecture(&h, name, sizeof name, &from));
        const char *act = vt_hub_act(name);
        if (!act || !rows[i].act ? act != rows[i].act : strcmp(act, rows[i].act)) fail_msg("%s: %s", name, act);
        vt_status s = vt_hub_computed(&h, "w.pth", &e);
        if (rows[i].refused)
            t_says(s, VT_E_FORMAT, &e, name, rows[i].refused);
        else if (s != VT_OK)
            fail_msg("%s", e.text);
        vt_hub_close(&h);
    }
    vt_hub h = hub_of("{\"architecture\": \"vit_base_patch16_siglip_224\", \"global_pool\": \"avg\"}", NULL);
    assert_int_equal(vt_hub_computed(&h, "w.pth", NULL), VT_OK);
    vt_hub_close(&h);
}

static void test_values(void **state) {
    (void)state;
    vt_hub h =
        hub_of("{\"a\": 1, \"model_args\": {\"a\": 2, \"b\": null}, \"b\": 3, \"pretrained_cfg\": {\"a\": 4}}", NULL);
    assert_int_equal(json_integer_value(vt_hub_get(&h, "a", &from)), 2);
    assert_int_equal(json_integer_value(vt_hub_get(&h, "b", &from)), 3);
    assert_null(vt_hub_get(&h, "c", &from));
    vt_hub_close(&h);
    static const char *const images[] =
        {"{\"image_size\": 32}", "{\"image_size\": [32, 32]}",
         "{\"model_args\": {\"img_size\": 32}, \"pretrained_cfg\": {\"input_size\": [3,8,8]}}",
         "{\"pretrained_cfg\": {\"input_size\": [3,32,32]}}"};
    for (size_t i = 0; i < T_COUNT(images); i++) {
        h = hub_of(images[i], NULL);
        assert_int_equal(vt_hub_image(&h, &from), i == 1 ? 0 : 32);
        vt_hub_close(&h);
    }
}

/* Names of outputs: all of them, or none. */
static void test_labels(void **state) {
    (void)state;
    static const struct {
        const char *config, *own, *want;
    } rows[] = {{"{\"id2label\": {\"0\": \"cat\", \"1\": \"big\\tdog\"}}", NULL, "cat\nbig dog\n"},
                {"{\"id2label\": [\"cat\", \"dog\"]}", NULL, "cat\ndog\n"},
                {"{\"id2label\": {\"0\": \"LABEL_0\", \"1\": \"LABEL_1\"}}", NULL, NULL},
                {"{\"id2label\": {\"0\": \"cat\", \"2\": \"dog\"}}", NULL, NULL},
                {"{\"id2label\": {\"0\": \"cat\", \"1\": 7}}", NULL, NULL},
                {"{\"id2label\": \"cat\"}", NULL, NULL},
                {"{\"label_names\": [\"n1\", \"n2\"], \"label_descriptions\": {\"n2\": \"dog, hound\"}}", NULL,
                 "n1\nn2\tdog, hound\n"},
                {"{\"pretrained_cfg\": {\"label_names\": [\"n1\", \"n2\"]}}", NULL, "n1\nn2\n"},
                {"{\"id2label\": {\"0\": \"cat\", \"1\": \"dog\"}}", "a\nb\n", "a\nb\n"},
                {NULL, "a\nb\nc\n", NULL},
                {NULL, "a\nb", NULL},
                {"{}", NULL, NULL},
                {NULL, NULL, NULL}};
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        vt_hub h = hub_of(rows[i].config, NULL);
        char *labels;
        assert_int_equal(vt_hub_labels(&h, 2, rows[i].own, &labels, NULL), VT_OK);
        if ((labels != NULL) != (rows[i].want != NULL)) fail_msg("row %zu: %s", i, labels ? labels : "nothing");
        if (labels) assert_string_equal(labels, rows[i].want);
        free(labels);
        vt_hub_close(&h);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transform), cmocka_unit_test(test_normalisation), cmocka_unit_test(test_check),
        cmocka_unit_test(test_values),    cmocka_unit_test(test_architectures), cmocka_unit_test(test_labels),
    };
    return cmocka_run_group_tests_name("hub", tests, NULL, NULL);
}
