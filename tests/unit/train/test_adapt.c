/* SPDX-License-Identifier: MIT */
/* src/train/adapt: resized position grids and shrunken kernels against PyTorch (tests/fixtures/golden/adapt, made by
 * tools/gen_adapt_fixture.py), the law that the shrunken kernel obeys, what is copied and what is refused. */
#include "base/real.h"
#include "reference.h"
#include "toy.h"

#include "linalg/gemm.h"
#include "models/net/session64.h"
#include "train/train.h"

#define FIXTURE "tests/fixtures/golden/adapt.safetensors"

static const vt_recipe_init keep = {.head = VT_HEAD_KEEP, .pos_embed = VT_POS_BILINEAR};
static const vt_recipe_init fresh = {.head = VT_HEAD_FRESH, .pos_embed = VT_POS_BILINEAR};

/* A model whose weights are all 7: what adapt does not write stands out. */
static vt_model *blank(const vt_config *c) {
    vt_model *m = NULL;
    vt_err e = {0};
    if (vt_model_new(&m, c, &e) != VT_OK || vt_model_prepare(m, &e) != VT_OK) fail_msg("%s", e.text);
    for (size_t i = 0; i < m->params.total; i++) m->w[i] = 7;
    return m;
}

static void adapt(vt_model *to, const vt_model *from, const vt_recipe_init *how, uint64_t seed) {
    vt_err e = {0};
    if (vt_adapt(to, from, how, seed, &e) != VT_OK) fail_msg("%s", e.text);
}

static float *weights(const vt_model *m, const char *name, size_t *n) {
    const vt_param *p = vt_model_param(m, name);
    assert_non_null(p);
    *n = p->numel;
    return m->w + p->offset;
}

static bool same_tensor(const vt_model *a, const vt_model *b, const char *name) {
    size_t n, k;
    const float *x = weights(a, name, &n), *y = weights(b, name, &k);
    return n == k && !memcmp(x, y, n * sizeof *x);
}

/* The transposed copies that forward products read belong to the weights. */
static void check_fresh_copies(vt_model *m) {
    size_t bytes = m->params.t_total * sizeof(float);
    float *now = malloc(bytes + 1);
    assert_non_null(now);
    memcpy(now, m->wt, bytes);
    vt_model_refresh(m);
    assert_memory_equal(now, m->wt, bytes);
    free(now);
}

/* ---- against PyTorch ---- */

static void fill(float *w, const vt_tensors *st, const char *name, size_t n) {
    vt_err e = {0};
    const vt_tensor *t = vt_tensors_find(st, name);
    if (!t || vt_tensor_f32(st, t, w, n, &e) != VT_OK) fail_msg("%s: %s", name, e.text);
}

/* Relative 2^-24: the one rounding to float. Absolute 1e-13: weights of the taps from coordinates up to 14, error
 * 2e-15 times slope 2 times values up to 4, on 4 or 16 taps; PyTorch may order its double sums otherwise. */
static void check_rounded(const float *got, const double *want, size_t n, const char *what) {
    for (size_t i = 0; i < n; i++)
        t_le(fabs((double)got[i] - want[i]), 0x1p-24 * fabs(want[i]) + 1e-13, "%s, element %zu", what, i);
}

static vt_config shape(int image, int patch, bool dist) {
    vt_config c = toy_config("dot", VT_POOL_TOKEN, dist, true);
    c.image = image, c.patch = patch, c.dim = 4, c.heads = 2, c.hidden = 8;
    return c;
}

static void test_positions(void **state) {
    (void)state;
    static const struct {
        int old, new, mode;
        const char *from, *to;
    } cases[] = {{14, 8, VT_POS_BILINEAR, "pos14", "pos14.bilinear8"},
                 {14, 8, VT_POS_BICUBIC, "pos14", "pos14.bicubic8"},
                 {4, 7, VT_POS_BILINEAR, "pos4", "pos4.bilinear7"},
                 {4, 7, VT_POS_BICUBIC, "pos4", "pos4.bicubic7"}};
    vt_tensors *st = reference_open(FIXTURE);
    for (size_t k = 0; k < 2 * T_COUNT(cases); k++) {
        int i = (int)k / 2, dist = (int)k % 2;
        vt_config a = shape(4 * cases[i].old, 4, dist), b = shape(4 * cases[i].new, 4, dist);
        vt_model *from = toy_model(&a, 3), *to = blank(&b);
        size_t n, m, prefix = 4 * (size_t)(1 + dist);
        float *old = weights(from, "pos_embed", &n);
        fill(old + prefix, st, cases[i].from, n - prefix);
        vt_recipe_init how = {.pos_embed = cases[i].mode};
        adapt(to, from, &how, 1);
        const float *pos = weights(to, "pos_embed", &m);
        double *want = reference(st, m - prefix, "%s", cases[i].to);
        assert_memory_equal(pos, old, prefix * sizeof *pos);
        check_rounded(pos + prefix, want, m - prefix, cases[i].to);
        free(want);
        vt_model_close(from);
        vt_model_close(to);
    }
    vt_tensors_close(st);
}

static void test_kernels(void **state) {
    (void)state;
    static const struct {
        int patch;
        const char *name;
    } cases[] = {{8, "kernel16.to8"}, {4, "kernel16.to4"}};
    vt_tensors *st = reference_open(FIXTURE);
    for (size_t i = 0; i < T_COUNT(cases); i++) {
        vt_config a = shape(32, 16, false), b = shape(2 * cases[i].patch, cases[i].patch, false);
        vt_model *from = toy_model(&a, 3), *to = blank(&b);
        size_t n;
        float *w = weights(from, "patch_embed.proj.weight", &n);
        fill(w, st, "kernel16", n);
        adapt(to, from, &keep, 1);
        w = weights(to, "patch_embed.proj.weight", &n);
        double *want = reference(st, n, "%s", cases[i].name);
        check_rounded(w, want, n, cases[i].name);
        check_fresh_copies(to);
        free(want);
        vt_model_close(from);
        vt_model_close(to);
    }
    vt_tensors_close(st);
}

/* ---- the law of the shrunken kernel ---- */

/* answer [o, N] of a kernel to every patch of x [3, side, side] enlarged r times, in the plainest way */
static double answer(const vt_model *m, const double *x, int side, int r, int o, int py, int px) {
    size_t n;
    const float *w = weights(m, "patch_embed.proj.weight", &n);
    int p = m->config.patch;
    double sum = 0;
    for (int c = 0; c < 3; c++)
        for (int u = 0; u < p; u++)
            for (int v = 0; v < p; v++)
                sum += (double)w[((o * 3 + c) * p + u) * p + v] *
                       x[(c * side + (py * p + u) / r) * side + (px * p + v) / r];
    return sum;
}

/* The weights lie on a grid of 2^-17 and sums of 16 of them stay below 64, so that block sums are exact in float. */
static void test_law_of_patches(void **state) {
    (void)state;
    vt_config a = shape(32, 16, false), b = shape(8, 4, false);
    vt_model *from = toy_model(&a, 5), *to = blank(&b);
    adapt(to, from, &keep, 1);
    double *x = toy_images(to, 1, 2);
    for (int o = 0; o < 4; o++)
        for (int k = 0; k < 4; k++) {
            double small = answer(to, x, 8, 1, o, k / 2, k % 2), large = answer(from, x, 8, 4, o, k / 2, k % 2);
            t_le(fabs(small - large), 768 * 0x1p-53 * 200, "output %d, patch %d", o, k); /* 768 terms, |sums| < 200 */
            assert_true(fabs(large) > 1e-3);
        }
    free(x);
    vt_model_close(from);
    vt_model_close(to);
}

/* Hence a whole model of the shrunken kernel answers an image as the old one answers the enlarged image (same grid of
 * patches, so that positions are copied). */
static void test_law_of_models(void **state) {
    (void)state;
    vt_config a = shape(48, 16, true), b = shape(12, 4, true);
    vt_model *from = toy_model(&a, 6), *to = blank(&b);
    adapt(to, from, &keep, 1);
    double *x = toy_images(to, 1, 3), *large = malloc(3 * 48 * 48 * sizeof *large);
    for (int i = 0; i < 3 * 48 * 48; i++) large[i] = x[i / (48 * 48) * 144 + i % (48 * 48) / 48 / 4 * 12 + i % 48 / 4];
    vt_session_f64 *s, *t;
    vt_err e = {0};
    if (vt_session_open_f64(&s, from, 1, VT_GRAD_NONE, &e) || vt_session_open_f64(&t, to, 1, VT_GRAD_NONE, &e))
        fail_msg("%s", e.text);
    const double *z = vt_session_forward_f64(s, large, 1, false), *got = vt_session_forward_f64(t, x, 1, false);
    /* rounding of 768-term sums through two blocks: below 1e-12 relative; a wrong kernel changes whole digits */
    t_le(t_max_diff(got, z, 5), 1e-11 * (1 + t_max(z, 5)), "logits");
    vt_session_close_f64(s);
    vt_session_close_f64(t);
    free(x);
    free(large);
    vt_model_close(from);
    vt_model_close(to);
}

/* ---- what is copied and what is new ---- */

static void test_identity(void **state) {
    (void)state;
    for (int form = 0; form < 4; form++) {
        vt_config c = toy_config("dot", form == 3 ? VT_POOL_AVG : VT_POOL_TOKEN, form == 1, form != 2);
        vt_model *from = toy_model(&c, 8), *to = blank(&c);
        float *before = malloc(from->params.total * sizeof *before);
        memcpy(before, from->w, from->params.total * sizeof *before);
        for (int mode = 0; mode < 2; mode++) {
            vt_recipe_init how = {.head = VT_HEAD_KEEP, .pos_embed = mode};
            adapt(to, from, &how, 1);
            for (int i = 0; i < to->params.count; i++) assert_true(same_tensor(to, from, to->params.items[i].name));
            check_fresh_copies(to);
        }
        assert_memory_equal(before, from->w, from->params.total * sizeof *before);
        free(before);
        vt_model_close(from);
        vt_model_close(to);
    }
}

static void test_head(void **state) {
    (void)state;
    static const char *const heads[] = {"head.weight", "head.bias", "head_dist.weight", "head_dist.bias"};
    for (int classes = 5; classes <= 8; classes += 3) {
        vt_config a = toy_config("dot", VT_POOL_TOKEN, true, true), b = a;
        b.classes = classes;
        vt_model *from = toy_model(&a, 8), *to = blank(&b), *drawn = blank(&b), *again = blank(&b);
        vt_model_init(drawn, 11);
        adapt(to, from, &fresh, 11);
        adapt(again, from, &fresh, 12);
        for (int i = 0; i < to->params.count; i++) {
            const char *name = to->params.items[i].name;
            bool head = false;
            for (size_t k = 0; k < T_COUNT(heads); k++) head |= !strcmp(heads[k], name);
            assert_true(same_tensor(to, head ? drawn : from, name));
        }
        assert_false(same_tensor(to, again, "head.weight"));
        assert_false(same_tensor(to, again, "head_dist.weight"));
        vt_model_close(from);
        vt_model_close(to);
        vt_model_close(drawn);
        vt_model_close(again);
    }
}

/* A tensor that the checkpoint does not have yet keeps its initial value; one too many is refused. */
static void test_missing(void **state) {
    (void)state;
    vt_config c = toy_config("dot", VT_POOL_TOKEN, false, true);
    vt_model *from = toy_model(&c, 8), *to = blank(&c), *drawn = blank(&c);
    vt_err e = {0};
    vt_model_init(drawn, 4);
    vt_param *p = (vt_param *)vt_model_param(from, "blocks.1.attn.proj.weight");
    vt_param last = from->params.items[from->params.count - 1];
    *p = last; /* the table's last row takes the place of the tensor that is taken away */
    from->params.count--;
    adapt(to, from, &keep, 4);
    assert_true(same_tensor(to, drawn, "blocks.1.attn.proj.weight"));
    assert_true(same_tensor(to, from, "blocks.0.attn.proj.weight"));
    assert_true(same_tensor(to, from, last.name));
    from->params.count++;
    snprintf(p->name, sizeof p->name, "patch_gate");
    t_says(vt_adapt(to, from, &keep, 4, &e), VT_E_SHAPE, &e, "tensor patch_gate", "no place");
    vt_model_close(from);
    vt_model_close(to);
    vt_model_close(drawn);
}

/* ---- refusals ---- */

static void test_refusals(void **state) {
    (void)state;
    const vt_config base = toy_config("dot", VT_POOL_TOKEN, false, true);
    enum { N = 10 };
    vt_config b[N];
    static const char *const said[N][2] =
        {{"width (dim) is 12", "has 24"}, {"depth is 2", "has 3"},
         {"heads is 3", "has 2"},         {"mlp hidden is 20", "has 24"},
         {"qkv bias is 1", "has 0"},      {"distillation token is 0", "has 1"},
         {"pool is token", "has avg"},    {"patch is 4", "has 3"},
         {"patch is 4", "has 12"},        {"classes are 5, but the model to train has 7", "init.head: fresh"}};
    for (int i = 0; i < N; i++) b[i] = base;
    b[0].dim = 24, b[1].depth = 3, b[2].heads = 2, b[3].hidden = 24, b[4].qkv_bias = false, b[5].dist_token = true;
    b[6].pool = VT_POOL_AVG, b[7].patch = 3, b[8].patch = 12, b[9].classes = 7;
    vt_model *from = toy_model(&base, 8);
    from->path = strdup("weights/start.safetensors");
    for (int i = 0; i < N; i++) {
        vt_err e = {0};
        vt_model *to = blank(&b[i]);
        vt_status s = vt_adapt(to, from, &keep, 1, &e);
        assert_non_null(strstr(e.text, "weights/start.safetensors: "));
        t_says(s, VT_E_SHAPE, &e, said[i][0], said[i][1]);
        for (size_t k = 0; k < to->params.total; k++) assert_true(to->w[k] == 7);
        vt_model_close(to);
    }
    vt_model *to = blank(&base);
    vt_err e = {0};
    snprintf(to->config.attn, sizeof to->config.attn, "l2");
    t_says(vt_adapt(to, from, &keep, 1, &e), VT_E_SHAPE, &e, "attention is dot", "has l2");
    to->config = base;
    snprintf(to->config.arch, sizeof to->config.arch, "swin");
    t_says(vt_adapt(to, from, &keep, 1, &e), VT_E_SHAPE, &e, "architecture is vit", "has swin");
    vt_model_close(to);
    vt_model_close(from);
}

/* The checkpoint of another hash, and a preset of another shape, are refused. */
static void test_init_checks(void **state) {
    (void)state;
    vt_err e = {0};
    vt_recipe *r;
    vt_config c;
    const vt_preset *p;
    assert_int_equal(vt_recipe_new(&r, &e), VT_OK);
    assert_int_equal(vt_preset_named("deit_tiny_patch16_224", &p, &e), VT_OK);
    vt_preset_config(p, &c);
    c.image = 32, c.patch = 16;
    vt_model *m = blank(&c);
    m->path = strdup("w.pth");
    snprintf(m->sha256, sizeof m->sha256, "%s", "0123456789abcdef");
    assert_int_equal(vt_train_check_hash(r, m, &e), VT_OK);
    assert_int_equal(vt_train_check_preset(r, m, &e), VT_OK);
    snprintf(r->init.sha256, sizeof r->init.sha256, "01234567");
    snprintf(r->model.preset, sizeof r->model.preset, "specformer-deit-tiny");
    assert_int_equal(vt_train_check_hash(r, m, &e), VT_OK);
    assert_int_equal(vt_train_check_preset(r, m, &e), VT_OK);
    snprintf(r->init.sha256, sizeof r->init.sha256, "01234568");
    snprintf(r->model.preset, sizeof r->model.preset, "deit_small_patch16_224");
    t_says(vt_train_check_hash(r, m, &e), VT_E_USAGE, &e, "w.pth has sha256 0123456789abcdef", "starts from 01234568");
    t_says(vt_train_check_preset(r, m, &e), VT_E_USAGE, &e, "w.pth is a vit of width 192, depth 12 and MLP 768",
           "deit_small_patch16_224 is a vit of width 384");
    vt_model_close(m);
    vt_recipe_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_init_checks),    cmocka_unit_test(test_positions),     cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_law_of_patches), cmocka_unit_test(test_law_of_models), cmocka_unit_test(test_identity),
        cmocka_unit_test(test_head),           cmocka_unit_test(test_missing),       cmocka_unit_test(test_refusals),
    };
    vt_blas_single_thread();
    return cmocka_run_group_tests_name("adapt", tests, NULL, NULL);
}
