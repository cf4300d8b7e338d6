/* SPDX-License-Identifier: MIT */
/* Logits that a network gave are matched with the reading that gives them: every one of them found from a wrong one, in
 * double and in float; a network that no reading describes; and files that are refused. */
#include "toy.h"

#include "eval/doctor/doctor_logits.h"
#include "tensors/npy.h"
#include "models/net/session.h"
#include "models/net/session64.h"
#include "scratch.h"

enum { N = 4, SIDE = 8, K = 5, PIXELS = 3 * SIDE * SIDE };

static vt_model *model_of(vt_patch_order order) {
    vt_config c = {.arch = "vit",
                   .attn = "dot",
                   .image = SIDE,
                   .patch = 4,
                   .dim = 32,
                   .depth = 2,
                   .heads = 2,
                   .hidden = 48,
                   .classes = K,
                   .qkv_bias = true,
                   .ln_eps = 1e-6,
                   .attn_scale = 0.25,
                   .patch_order = order,
                   .mean = {0.5, 0.5, 0.5},
                   .std = {0.5, 0.5, 0.5}};
    return toy_sharp_model(&c, 9, 0.3, 0.3);
}

/* What m says under `truth`, as another program would save it. */
static vt_saved_logits saved_of(const vt_model *m, const vt_setting *truth, bool precise) {
    vt_saved_logits s = {.n = N, .of = N, .classes = K, .shape = vt_shape_rgb(SIDE), .precise = precise};
    vt_model v = *m;
    vt_session_f64 *f64;
    vt_session_f32 *f32;
    double low = INFINITY, high = -INFINITY;
    v.config = truth->config;
    assert_int_equal(vt_doctor_variant(&v, m, NULL), VT_OK);
    assert_int_equal(vt_session_open_f64(&f64, &v, 1, VT_GRAD_NONE, NULL), VT_OK);
    assert_int_equal(vt_session_open_f32(&f32, &v, 1, VT_GRAD_NONE, NULL), VT_OK);
    s.x = malloc(N * PIXELS * sizeof *s.x), s.z = malloc(N * K * sizeof *s.z);
    for (int i = 0; i < N; i++) {
        float x[PIXELS];
        const vt_rng rng = {.seed = 2, .purpose = 0xD0C, .image = (uint32_t)i};
        for (int p = 0; p < PIXELS; p++)
            s.x[i * PIXELS + p] = (double)(x[p] = (float)vt_rng_uniform(&rng, (uint64_t)p));
        const double *z = vt_session_forward_f64(f64, s.x + (size_t)i * PIXELS, 1, false);
        const float *z32 = vt_session_forward_f32(f32, x, 1, false);
        for (int k = 0; k < K; k++) {
            s.z[i * K + k] = precise ? z[k] : (double)z32[k];
            low = fmin(low, s.z[i * K + k]), high = fmax(high, s.z[i * K + k]);
        }
    }
    s.span = high - low;
    vt_session_close_f64(f64), vt_session_close_f32(f32);
    if (v.w != m->w) free(v.w);
    return s;
}

static void imagenet(vt_config *c) {
    memcpy(c->mean, (double[3]){0.485, 0.456, 0.406}, sizeof c->mean);
    memcpy(c->std, (double[3]){0.229, 0.224, 0.225}, sizeof c->std);
}
static void heads(vt_config *c) { c->heads = 1, c->attn_scale = 1 / sqrt(32); }
static void act(vt_config *c) { c->act = VT_ACT_GELU_TANH; }
static void relu(vt_config *c) { c->act = VT_ACT_RELU, c->post_norm = true; }
static void eps(vt_config *c) { c->ln_eps = 1e-5; }
static void pool(vt_config *c) { c->pool = VT_POOL_AVG, c->norm_first = true; }
static void behind(vt_config *c) { c->pool = VT_POOL_ALL; }
static void order(vt_config *c) { c->patch_order = VT_PATCH_HWC; }
static void scale(vt_config *c) { c->attn_scale = 1 / sqrt(32); }

static void rows(vt_config *c) { c->qkv_rows = VT_QKV_DIMS; }
static void last(vt_config *c) { c->class_last = true; }
static void none(vt_config *c) { (void)c; }
static const struct {
    void (*change[2])(vt_config *);
    const char *options;
} cases[] = {
    {{none}, ""},
    {{imagenet}, "--mean 0.485,0.456,0.406 --std 0.229,0.224,0.225"},
    {{heads}, "--heads 1"},
    {{act}, "--form act=gelu_tanh"},
    {{eps}, "--ln-eps 1e-05"},
    {{rows}, "--form qkv_rows=dims"},
    {{behind}, "--form pool=all --form norm_first=0"},
    {{last}, "--form class_last=1"},
    {{order, scale}, "--attn-scale dim --form patch_order=hwc"},
    {{relu, pool}, "--form post_norm=1 --ln-eps 1e-06 --form act=relu --form pool=avg"},
};

static vt_logits_match match(const vt_model *m, const vt_saved_logits *s, const vt_setting *present, unsigned aspects) {
    static vt_doctor d;
    vt_logits_match r;
    vt_err e = {0};
    d = (vt_doctor){.model = m, .threads = 2, .aspects = aspects};
    if (vt_doctor_logits(&r, &d, s, present, &e) != VT_OK) fail_msg("%s", e.text);
    return r;
}

static void test_found(void **state) {
    (void)state;
    vt_model *m = model_of(VT_PATCH_CHW);
    m->certainty[VT_FIELD_QKV_ROWS] = m->certainty[VT_FIELD_CLASS_LAST] = VT_ASSUMED;
    const vt_setting present = {.config = m->config};
    for (size_t i = 0; i < 2 * T_COUNT(cases); i++) {
        vt_setting truth = present;
        char text[300];
        bool precise = i < T_COUNT(cases);
        for (int k = 0; k < 2 && cases[i % T_COUNT(cases)].change[k]; k++)
            cases[i % T_COUNT(cases)].change[k](&truth.config);
        vt_saved_logits s = saved_of(m, &truth, precise);
        vt_logits_match r = match(m, &s, &present, VT_ASPECT_ALL);
        vt_setting_options(text, sizeof text, &r.setting, &present, NULL, VT_OPEN);
        assert_true(r.equal && r.difference <= r.tolerance);
        assert_string_equal(text, cases[i % T_COUNT(cases)].options);
        if (precise) t_le(r.difference, 1e-13 * s.span, "the same network");
        assert_true(r.present <= r.tolerance || *text);
        if (precise) assert_string_equal(r.also, "");
        vt_saved_logits_free(&s);
    }
    vt_model_close(m);
}

/* The scale of one head is that of the whole width: it is no longer so with the heads that are found. */
static void test_scale(void **state) {
    (void)state;
    vt_model *m = model_of(VT_PATCH_CONV);
    vt_setting truth = {.config = m->config};
    char text[300];
    scale(&truth.config), heads(&m->config);
    const vt_setting present = {.config = m->config};
    vt_saved_logits s = saved_of(m, &truth, true);
    vt_logits_match r = match(m, &s, &present, VT_ASPECT_ALL);
    vt_setting_options(text, sizeof text, &r.setting, &present, NULL, VT_OPEN);
    assert_true(r.equal);
    assert_string_equal(text, "--heads 2 --attn-scale dim");
    m->certainty[VT_FIELD_HEADS] = VT_OPEN;
    vt_setting_options(text, sizeof text, &r.setting, &present, m, VT_OPEN);
    assert_string_equal(text, "--heads 2 --attn-scale dim");
    vt_saved_logits_free(&s);
    vt_model_close(m);
}

/* A network that no option describes: nothing is called equal, and the nearest is named with its difference. */
static void test_none(void **state) {
    (void)state;
    vt_model *m = model_of(VT_PATCH_CONV), *other = model_of(VT_PATCH_CONV);
    const vt_setting present = {.config = m->config};
    const unsigned few = 1u << VT_ASPECT_NETWORK | 1u << VT_ASPECT_POOL | 1u << VT_ASPECT_CHANNELS;
    vt_saved_logits s = saved_of(m, &present, true);
    const vt_param *p = vt_model_param(other, "blocks.1.norm1.bias");
    other->w[p->offset] += 0.05f;
    vt_logits_match r = match(other, &s, &present, few);
    if (r.equal || !r.all || r.tried < 40 || !(r.difference > 1e-4 * s.span) || !(r.difference <= r.present))
        fail_msg("equal %d, all %d, tried %d, differs by %g of %g", r.equal, r.all, r.tried, r.difference, s.span);
    s.z[3] += 1e-3 * s.span; /* of one image among others */
    r = match(m, &s, &present, few);
    assert_false(r.equal);
    vt_saved_logits_free(&s);
    vt_model_close(m), vt_model_close(other);
}

/* What logits cannot tell is said: without MLP weights every activation gives the same. */
static void test_also(void **state) {
    (void)state;
    vt_model *m = model_of(VT_PATCH_CONV);
    const vt_setting present = {.config = m->config};
    for (int b = 0; b < 2; b++) {
        const vt_param *p = vt_model_param(m, b ? "blocks.1.mlp.fc2.weight" : "blocks.0.mlp.fc2.weight");
        memset(m->w + p->offset, 0, p->numel * sizeof(float));
    }
    vt_saved_logits s = saved_of(m, &present, true);
    vt_logits_match r = match(m, &s, &present, VT_ASPECT_ALL);
    assert_true(r.equal && strstr(r.also, "activation quick_gelu") && strstr(r.also, "ReLU"));
    assert_null(strstr(r.also, "head"));
    vt_saved_logits_free(&s);
    vt_model_close(m);
}

static vt_tensor array(const char *name, vt_dtype type, const void *data, int ndim, const int64_t *shape) {
    vt_tensor t = {.name = name, .dtype = type, .data = data, .ndim = ndim, .numel = 1};
    for (int k = 0; k < ndim; k++) t.shape[k] = shape[k], t.numel *= (size_t)shape[k];
    return t;
}

static void test_files(void **state) {
    (void)state;
    static float x[N * PIXELS], bad[N * PIXELS];
    static double z[N * K], flat[N * K], nan[N * K];
    const char *path = at("logits.npz");
    const int64_t images[] = {N, 3, SIDE, SIDE}, rows[] = {N, K}, less[] = {N - 1, K};
    for (int i = 0; i < N * K; i++) z[i] = i / 3.0, nan[i] = i == 7 ? NAN : 1 - i;
    for (int i = 0; i < N * PIXELS; i++) x[i] = (float)(i % 2), bad[i] = i == 9 ? -0.5f : 0;
    const struct {
        vt_tensor x, z;
        const char *a, *b;
    } refused[] = {
        {array("x", VT_F32, x, 4, images), array("z", VT_F64, z, 2, rows), "has no tensor logits", "it has: x, z"},
        {array("y", VT_F32, x, 4, images), array("logits", VT_F64, z, 2, rows), "has no tensor x", "it has: y, logits"},
        {array("x", VT_F32, x, 4, images), array("logits", VT_F64, z, 2, less), "x has 4 images", "logits 3"},
        {array("x", VT_F32, x, 4, images), array("logits", VT_F64, z, 1, rows), "logits is [4]", "must be [N,K]"},
        {array("x", VT_F32, x, 2, rows), array("logits", VT_F64, z, 2, rows), "x is [4,5]", "[N,C,H,W]"},
        {array("x", VT_F32, bad, 4, images), array("logits", VT_F64, z, 2, rows), "x holds -0.5", "pixels in [0,1]"},
        {array("x", VT_F32, x, 4, images), array("logits", VT_F64, nan, 2, rows), "logits holds nan", "finite"},
        {array("x", VT_F32, x, 4, images), array("logits", VT_F64, flat, 2, rows), "all its logits are 0", "tells"},
        {array("x", VT_U8, x, 4, images), array("logits", VT_F64, z, 2, rows), "x is U8", "must be F32 or F64"},
    };
    vt_saved_logits s;
    vt_err e = {0};
    for (size_t i = 0; i < T_COUNT(refused); i++) {
        vt_tensor both[2] = {refused[i].x, refused[i].z};
        assert_int_equal(vt_npz_write(path, both, 2, &e), VT_OK);
        t_says(vt_saved_logits_read(&s, path, &e), VT_E_USAGE, &e, refused[i].a, refused[i].b);
        vt_saved_logits_free(&s);
    }
    vt_tensor both[2] = {array("x", VT_F32, x, 4, images), array("logits", VT_F64, z, 2, rows)};
    assert_int_equal(vt_npz_write(path, both, 2, &e), VT_OK);
    assert_int_equal(vt_saved_logits_read(&s, path, &e), VT_OK);
    assert_true(s.n == N && s.classes == K && s.precise && s.z[4] == z[4] && s.x[PIXELS + 1] == 1 && s.span == z[19]);
    vt_saved_logits_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found), cmocka_unit_test(test_scale), cmocka_unit_test(test_none),
        cmocka_unit_test(test_also),  cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests_name("doctor against logits", tests, make_tmp, remove_tmp);
}
