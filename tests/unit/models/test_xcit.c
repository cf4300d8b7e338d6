/* SPDX-License-Identifier: MIT */
/* XCiT: against what PyTorch computed (tests/fixtures/gen_xcit.py, timm's modules), parameter counts, what files and
 * options tell, where it has no gradients to trust (zero norms), attention variants in its class attention, its start
 * and its training. Gradients of every tensor, modes, ARD and files: test_forms.c. */
#define VT_DOUBLE
#include "base/real.h"
#include "recipe_fixture.h"
#include "judge.h"

#include "tools/draw.h"
#include "train/train.h"
#include "xcit_fixture.h"

static vt_session_f64 *open64(const vt_model *m) {
    vt_session_f64 *s;
    vt_err e = {0};
    if (vt_session_open_f64(&s, m, B, VT_GRAD_PARAMS, &e) != VT_OK) fail_msg("%s", e.text);
    return s;
}

/* ---- against PyTorch ---- */

static vt_model *judged(const char *form) {
    char key[100];
    vt_err e = {0};
    int shape[7];
    vt_config c = {.arch = "xcit", .attn = "dot", .ln_eps = 1e-6};
    snprintf(key, sizeof key, "%s.shape", form);
    assert_int_equal(sscanf(vt_tensors_meta(ref, key), "%d,%d,%d,%d,%d,%d,%d", shape, shape + 1, shape + 2, shape + 3,
                            shape + 4, shape + 5, shape + 6),
                     7);
    c.patch = shape[0], c.dim = shape[1], c.depth = shape[2], c.heads = shape[3], c.hidden = shape[4];
    c.classes = shape[5], c.qkv_bias = shape[6], c.attn_scale = 1 / sqrt((double)c.dim / c.heads);
    memcpy(c.mean, (double[]){0.4914, 0.4822, 0.4465}, sizeof c.mean);
    memcpy(c.std, (double[]){0.2471, 0.2435, 0.2616}, sizeof c.std);
    int forms; /* "image=48 class_blocks=2 ..." */
    assert_int_equal(sscanf(vt_tensors_meta(ref, form), "image=%d %n", &c.image, &forms), 1);
    if (vt_form_parse(&c, vt_tensors_meta(ref, form) + forms, form, &e) != VT_OK) fail_msg("%s", e.text);
    vt_model *m;
    if (vt_model_new(&m, &c, &e) != VT_OK) fail_msg("%s: %s", form, e.text);
    snprintf(key, sizeof key, "%s.w", form);
    judge_weights(m, key);
    return m;
}

static void test_torch(void **state) {
    (void)state;
    int forms = 0;
    ref = reference_open("tests/fixtures/golden/xcit.safetensors");
    for (int i = 0; vt_tensors_meta_key(ref, i); i++) {
        if (strchr(vt_tensors_meta_key(ref, i), '.')) continue; /* NAME.shape */
        vt_model *m = judged(vt_tensors_meta_key(ref, i));
        judge(m, vt_tensors_meta_key(ref, i), VT_GRAD_PARAMS);
        vt_model_close(m);
        forms++;
    }
    assert_int_equal(forms, 4);
}

/* ---- zero norms ---- */

/* Queries, keys or both zero over all tokens: the floor stands in for their norms; everything stays finite, in float
 * too, and attention is uniform over the channels, whatever tau. */
static void test_zero_rows(void **state) {
    (void)state;
    vt_config c = small("");
    for (int zeros = 1; zeros <= 3; zeros++) {
        vt_model *m = model_of(&c);
        const vt_param *w = vt_model_param(m, "blocks.0.attn.qkv.weight"),
                       *b = vt_model_param(m, "blocks.0.attn.qkv.bias");
        for (int part = 0; part < 2; part++) {
            if (!(zeros >> part & 1)) continue;
            memset(m->w + w->offset + (size_t)(part * 64), 0, 64 * sizeof *m->w);
            memset(m->w + b->offset + (size_t)(part * 8), 0, 8 * sizeof *m->w);
        }
        vt_model_refresh(m);
        size_t n = B * vt_config_pixels(&c);
        double *x = malloc(n * sizeof *x), *dx = malloc(n * sizeof *dx), *grad = calloc(m->params.total, sizeof *grad);
        float *xf = malloc(n * sizeof *xf), *dxf = malloc(n * sizeof *dxf),
              *gradf = calloc(m->params.total, sizeof *gradf);
        float cotf[B * K];
        double cot[B * K], z[B * K];
        t_normals(x, n, 1, 0.2), t_normals(cot, B * K, 2, 1);
        for (size_t i = 0; i < n; i++) xf[i] = (float)(x[i] = fabs(x[i]));
        for (int i = 0; i < B * K; i++) cotf[i] = (float)cot[i];
        vt_session_f64 *s = open64(m);
        memcpy(z, vt_session_forward_f64(s, x, B, true), sizeof z);
        vt_session_backward_f64(s, cot, dx, grad);
        assert_true(isfinite(t_norm(z, B * K)) && isfinite(t_norm(dx, n)) && isfinite(t_norm(grad, m->params.total)));
        m->w[vt_model_param(m, "blocks.0.attn.temperature")->offset] = 7;
        t_le(t_max_diff(vt_session_forward_f64(s, x, B, false), z, B * K), 1e-13, "tau beside zero norms");
        vt_session_f32 *f;
        assert_int_equal(vt_session_open_f32(&f, m, B, VT_GRAD_PARAMS, NULL), VT_OK);
        const float *zf = vt_session_forward_f32(f, xf, B, true);
        for (int i = 0; i < B * K; i++)
            t_le(fabs((double)zf[i] - z[i]), 2e-5 * (1 + t_max(z, B * K)), "float, zero norms");
        vt_session_backward_f32(f, cotf, dxf, gradf);
        for (size_t i = 0; i < n; i++) assert_true(isfinite(dxf[i]));
        for (size_t i = 0; i < m->params.total; i++) assert_true(isfinite(gradf[i]));
        vt_session_close_f64(s), vt_session_close_f32(f);
        vt_model_close(m);
        free(x), free(dx), free(grad), free(xf), free(dxf), free(gradf);
    }
}

/* ---- attention variants, in the class attention alone ---- */

typedef struct whole {
    vt_session_f64 *s;
    double *x, *w, cot[B * K];
} whole;

static double scalar(void *ctx) {
    whole *a = ctx;
    return t_dot(vt_session_forward_f64(a->s, a->x, B, false), a->cot, B * K);
}

/* Central differences of fourth order in h, with h = 1e-3 / sqrt(n) along a random sign vector of each tensor: errors
 * of h^4 and of 1e-16 / h, both below 1e-10 of the tensor's gradient; 1e-7 leaves room for sharp variants. */
static void along_signs(whole *a, const vt_param *p, const double *grad, double top, const char *attn) {
    size_t n = p->numel;
    double h = 1e-3 / sqrt((double)n), f[4], ana = 0, *w = a->w + p->offset, *kept = malloc(n * sizeof *kept);
    const double steps[4] = {-2, -1, 1, 2};
    vt_rng r = {.seed = 5, .purpose = vt_rng_purpose(p->name)};
    memcpy(kept, w, n * sizeof *kept);
    for (int k = 0; k < 4; k++) {
        for (size_t i = 0; i < n; i++) w[i] = kept[i] + steps[k] * h * (vt_rng_bits(&r, i) & 1 ? 1 : -1);
        f[k] = scalar(a);
    }
    for (size_t i = 0; i < n; i++) ana += grad[p->offset + i] * (vt_rng_bits(&r, i) & 1 ? 1 : -1);
    memcpy(w, kept, n * sizeof *kept);
    free(kept);
    double num = (8 * (f[2] - f[1]) - (f[3] - f[0])) / (12 * h);
    t_le(fabs(num - ana) / fmax(t_norm(grad + p->offset, n), 1e-2 * top), 1e-7, "%s: gradient of %s", attn, p->name);
}

static void test_variants(void **state) {
    (void)state;
    static const struct {
        const char *attn, *forms;
        bool no_bias;
        int image; /* 0: as small() has it */
    } all[] = {{"dot", "class_blocks=1", false, 0},
               {"dot", "tokens_norm=1 tied_qk=1", false, 0},
               {"dot", "tokens_norm=1", false, 8}, /* a single token: buffers at their smallest */
               {"l2", "", false, 0},
               {"l2:tied=1", "tied_qk=1 class_blocks=1", false, 0},
               {"l2:tied=1,full=1", "tied_qk=1 tokens_norm=1", true, 0},
               {"lipnorm", "tokens_norm=1", false, 0},
               {"lipnorm", "tied_qk=1", true, 0},
               {"scsa", "", false, 0},
               {"scsa:nu=1", "class_blocks=1 tokens_norm=1", false, 0}};
    for (size_t i = 0; i < T_COUNT(all); i++) {
        vt_config c = small(all[i].forms);
        if (all[i].image) c.image = all[i].image;
        vt_attn_spec spec;
        vt_err e = {0};
        if (vt_attn_parse(&spec, all[i].attn, &e) != VT_OK) fail_msg("%s", e.text);
        snprintf(c.attn, sizeof c.attn, "%s", spec.text);
        c.qkv_bias = !all[i].no_bias;
        vt_model *m = model_of(&c);
        size_t n = B * vt_config_pixels(&c), total = m->params.total;
        whole a = {.s = open64(m), .x = malloc(n * sizeof *a.x), .w = malloc(total * sizeof *a.w)};
        double *dx = malloc(n * sizeof *dx), *grad = calloc(total, sizeof *grad);
        for (size_t k = 0; k < total; k++) a.w[k] = (double)m->w[k];
        t_normals(a.x, n, 1, 0.3), t_normals(a.cot, B * K, 2, 1);
        a.s->master = a.w;
        vt_session_forward_f64(a.s, a.x, B, true);
        vt_session_backward_f64(a.s, a.cot, dx, grad);
        const double top = t_max(grad, total);
        for (int k = 0; k < m->params.count; k++)
            if (!m->params.items[k].buffer) along_signs(&a, &m->params.items[k], grad, top, all[i].attn);
        vt_param image = {.name = "dx", .numel = n};
        double *w = a.w;
        a.w = a.x;
        along_signs(&a, &image, dx, t_max(dx, n), all[i].attn);
        a.w = w;
        vt_session_close_f64(a.s);
        vt_model_close(m);
        free(a.x), free(a.w), free(dx), free(grad);
    }
}

/* A variant is another function, and it is one of the class attention alone: where gamma1 closes that, all are the same
 * to the bit. */
static void test_variants_where(void **state) {
    (void)state;
    static const char *const all[] = {"dot", "l2", "lipnorm", "scsa"};
    double z[T_COUNT(all)][2][B * K], *x = NULL;
    for (size_t i = 0; i < T_COUNT(all); i++) {
        vt_config c = small("");
        snprintf(c.attn, sizeof c.attn, "%s", all[i]);
        vt_model *m = model_of(&c);
        size_t n = B * vt_config_pixels(&c);
        if (!x) t_normals(x = malloc(n * sizeof *x), n, 1, 0.3);
        for (int closed = 0; closed < 2; closed++) {
            for (int k = 0; closed && k < c.class_blocks; k++) {
                char name[64];
                snprintf(name, sizeof name, "cls_attn_blocks.%d.gamma1", k);
                memset(m->w + vt_model_param(m, name)->offset, 0, (size_t)c.dim * sizeof *m->w);
            }
            vt_session_f64 *s = open64(m);
            memcpy(z[i][closed], vt_session_forward_f64(s, x, B, false), sizeof z[i][closed]);
            vt_session_close_f64(s);
        }
        vt_model_close(m);
        if (i) assert_memory_equal(z[i][1], z[0][1], sizeof z[0][1]);
        for (size_t k = 0; k < i; k++) assert_true(t_max_diff(z[i][0], z[k][0], B * K) > 1e-6);
    }
    free(x);
}

/* ---- training ---- */

#define RECIPE                                                                                                         \
    "epochs: 1\nbatch: 16\nmicro_batch: 4\nlr: 0.01\noptimiser: adamw\nweight_decay: 0.1\nclip: 0.5\nema: 0.9\n"       \
    "objective: at\nattack: {eps: 8/255, spec: 'pgd:steps=2,alpha=5/255', ard: 1, drop_rate: 0.5}\n"                   \
    "msvp: {lambda: 0.01}\northo: {variant: LF, lambda: 0.001}\nprobe: {images: 0}\n"

static vt_status train(const vt_model *from, const char *set, const char *out, vt_err *e) {
    vt_recipe *r = of_set(RECIPE, set);
    vt_dataset *data;
    vt_model *m = NULL;
    assert_int_equal(vt_dataset_open(&data, at("data"), VT_SPLIT_TRAIN, e), VT_OK);
    vt_status s = vt_train_model(&m, r, data, from, e);
    vt_train t = {.recipe = r, .model = m, .data = data, .out = out, .threads = 2};
    if (s == VT_OK) s = vt_train_run(&t, e);
    vt_model_close(m);
    vt_dataset_close(data);
    vt_recipe_free(r);
    return s;
}

/* PGD-2 training with MSVP, L_LF, ARD: every weight moves, no statistic does, and the file needs no options. L_AM is
 * refused; mirror descent finds the attention's matrices. */
static void test_training(void **state) {
    (void)state;
    vt_config c = small("");
    c.image = 224, c.patch = 16, c.classes = 10; /* trained at 32, where the stem's strides are others */
    vt_model *m = model_of(&c), *got;
    vt_err e = {0};
    if (train(m, NULL, at("run"), &e) != VT_OK) fail_msg("%s", e.text);
    char path[300];
    snprintf(path, sizeof path, "%s/model.safetensors", at("run"));
    if (vt_model_open(&got, path, NULL, &e) != VT_OK) fail_msg("%s", e.text);
    assert_true(got->config.image == 32 && vt_model_tokens(got) == 64);
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        const float *now = got->w + vt_model_param(got, p->name)->offset;
        bool same = !memcmp(now, m->w + p->offset, p->numel * sizeof *now);
        if (same != p->buffer) fail_msg("%s: %s", p->name, same ? "did not move" : "a statistic moved");
    }
    vt_model_close(got);
    t_says(train(m, "ortho.variant=AM", at("am"), &e), VT_E_SHAPE, &e, "L_AM", "xcit");
    if (train(m, "attention_optimiser=md", at("md"), &e) != VT_OK) fail_msg("%s", e.text);
    vt_model_close(m);
}

static int setup(void **state) {
    vt_err e = {0};
    return xcit_setup(state) || vt_draw_write(at("data"), 20, 4, 5, &e) != VT_OK;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_torch, close_ref),
        cmocka_unit_test(test_zero_rows),
        cmocka_unit_test(test_variants),
        cmocka_unit_test(test_variants_where),
        cmocka_unit_test(test_training),
    };
    return cmocka_run_group_tests(tests, setup, remove_tmp);
}
