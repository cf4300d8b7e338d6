/* SPDX-License-Identifier: MIT */
/* Losses of attention itself (models/net/attention_loss.h): against PyTorch's autograd
 * (tests/fixtures/golden/attention_loss, made by tools/gen_attention_loss_fixture.py), against central differences in
 * every form of a model that shows its attention, and that they leave nothing behind. */
#define VT_DOUBLE
#include "base/real.h"
#include "t.h"

#include "linalg/gemm.h"
#include "tensors/tensors.h"
#include "models/net/attention_loss.h"
#include "session32.h"
#include "nn/loss.h"

double vt_session_attention_loss_f32(vt_session_f32 *s, const vt_attn_loss *a);

#define HOOKS "tests/fixtures/golden/hooks.safetensors"
#define FIXTURE "tests/fixtures/golden/attention_loss.safetensors"

enum { SIDE = 8, PIXELS = 3 * SIDE * SIDE, CLASSES = 5, PATCHES = 4, DEPTH = 3 };

static vt_tensors *hooks, *ref;

static int setup(void **state) {
    (void)state;
    vt_err e = {0};
    vt_blas_single_thread();
    if (vt_tensors_open(&hooks, HOOKS, &e) == VT_OK && vt_tensors_open(&ref, FIXTURE, &e) == VT_OK) return 0;
    print_error("%s\n", e.text);
    return 1;
}

static int teardown(void **state) {
    (void)state;
    vt_tensors_close(hooks);
    vt_tensors_close(ref);
    return 0;
}

static void read(double *out, const vt_tensors *from, const char *name, size_t n) {
    const vt_tensor *t = vt_tensors_find(from, name);
    vt_err e = {0};
    if (!t || vt_tensor_f64(from, t, out, n, &e) != VT_OK) fail_msg("%s: %s", name, e.text);
}

static vt_config tiny(void) {
    return (vt_config){.arch = "vit",
                       .attn = "dot",
                       .image = SIDE,
                       .patch = 4,
                       .dim = 16,
                       .depth = DEPTH,
                       .heads = 2,
                       .hidden = 24,
                       .classes = CLASSES,
                       .qkv_bias = true,
                       .ln_eps = 1e-6,
                       .attn_scale = sqrt(0.125),
                       .mean = {0.4914, 0.4822, 0.4465},
                       .std = {0.2470, 0.2435, 0.2616}};
}

static vt_model *fixture_model(void) {
    vt_config c = tiny();
    vt_model *m = NULL;
    vt_err e = {0};
    if (vt_model_new(&m, &c, &e) != VT_OK) fail_msg("%s", e.text);
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        char name[80];
        double *w = malloc(p->numel * sizeof *w);
        snprintf(name, sizeof name, "w.%s", p->name);
        read(w, hooks, name, p->numel);
        for (size_t k = 0; k < p->numel; k++) m->w[p->offset + k] = (float)w[k];
        free(w);
    }
    vt_model_refresh(m);
    return m;
}

static vt_session_f64 *session(const vt_model *m) {
    vt_session_f64 *s;
    vt_err e = {0};
    if (vt_session_open_f64(&s, m, 1, VT_GRAD_INPUT, &e) != VT_OK) fail_msg("%s", e.text);
    return s;
}

/* The cases of the fixture: of the loss alone. */
static const struct {
    const char *name;
    vt_attn_loss loss;
} cases[] = {
    {"log.one", {VT_ATTN_LOSS_LOG, 2, 1, 1, false, false, true, 1}},
    {"log.all", {VT_ATTN_LOSS_LOG, 0, 0, 2, false, false, true, 1}},
    {"kq.raw", {VT_ATTN_LOSS_SCORE, 3, 0, 2, false, false, true, 1}},
    {"kq.normal", {VT_ATTN_LOSS_SCORE, 3, 0, 2, false, true, true, 1}},
    {"class.raw", {VT_ATTN_LOSS_SCORE, 1, 0, 2, true, false, true, 1}},
    {"class.normal", {VT_ATTN_LOSS_SCORE, 1, 1, 2, true, true, true, 1}},
};

/* ---- against PyTorch ---- */

/* Both sides round in other orders only: 1e-9 of the largest, as test_golden.c has it; float 1e-4, as there. */
static void test_reference(void **state) {
    (void)state;
    vt_model *m = fixture_model();
    vt_session_f64 *s = session(m);
    vt_session_f32 *f;
    assert_int_equal(vt_session_open_f32(&f, m, 1, VT_GRAD_INPUT, NULL), VT_OK);
    double x[3 * PIXELS], dx[PIXELS], want[PIXELS], value;
    float xf[PIXELS], dxf[PIXELS];
    read(x, hooks, "x", 3 * PIXELS);
    for (int i = 0; i < PIXELS; i++) xf[i] = (float)x[i];
    for (size_t k = 0; k < T_COUNT(cases); k++) {
        char name[40];
        snprintf(name, sizeof name, "%s.value", cases[k].name);
        read(&value, ref, name, 1);
        snprintf(name, sizeof name, "%s.dx", cases[k].name);
        read(want, ref, name, PIXELS);
        vt_session_forward_f64(s, x, 1, true);
        t_le(fabs(vt_session_attention_loss_f64(s, &cases[k].loss) - value), 1e-9, "%s", cases[k].name);
        vt_session_backward_f64(s, NULL, dx, NULL);
        vt_session_forward_f32(f, xf, 1, true);
        t_le(fabs(vt_session_attention_loss_f32(f, &cases[k].loss) - value), 1e-4, "%s, float", cases[k].name);
        vt_session_backward_f32(f, NULL, dxf, NULL);
        double top = t_max(want, PIXELS), worst = 0, worst32 = 0;
        for (int i = 0; i < PIXELS; i++) {
            worst = fmax(worst, fabs(dx[i] - want[i]) + (isnan(dx[i]) ? INFINITY : 0));
            worst32 = fmax(worst32, fabs((double)dxf[i] - want[i]) + (isnan(dxf[i]) ? INFINITY : 0));
        }
        t_le(worst, 1e-9 * top, "%s", name);
        t_le(worst32, 1e-4 * top, "%s, float", name);
    }
    double mean[PATCHES];
    read(want, ref, "mean.1", PATCHES);
    vt_session_attention_mean_f64(s, 1, mean);
    for (int i = 0; i < PATCHES; i++) t_le(fabs(mean[i] - want[i]), 1e-12, "mean attention");
    vt_session_close_f64(s), vt_session_close_f32(f), vt_model_close(m);
}

/* ---- central differences, the tolerance of t.h ---- */

typedef struct whole {
    vt_session_f64 *s;
    vt_attn_loss a;
    double x[PIXELS], dz[CLASSES]; /* the logits' part: <dz, z> */
} whole;

static double scalar(void *ctx) {
    whole *w = ctx;
    const double *z = vt_session_forward_f64(w->s, w->x, 1, true);
    double sum = vt_session_attention_loss_f64(w->s, &w->a);
    for (int k = 0; k < CLASSES && !w->a.alone; k++) sum += w->dz[k] * z[k];
    return sum;
}

static void check_model(const vt_config *c, const char *what, uint64_t seed) {
    vt_model *m = NULL;
    vt_err e = {0};
    if (vt_model_new(&m, c, &e) != VT_OK) fail_msg("%s: %s", what, e.text);
    assert_int_equal(vt_model_init(m, seed), VT_OK);
    double *big = malloc(m->params.total * sizeof *big);
    t_normals(big, m->params.total, seed, 0.2); /* timm's start is so near zero that attention hardly depends on x */
    for (size_t i = 0; i < m->params.total; i++) m->w[i] += (float)big[i];
    free(big);
    whole w = {.s = session(m)};
    t_normals(w.x, PIXELS, seed + 1, 0.2);
    t_normals(w.dz, CLASSES, seed + 2, 1);
    for (size_t k = 0; k < T_COUNT(cases); k++)
        for (int alone = 0; alone < 2; alone++) {
            double dx[PIXELS];
            w.a = cases[k].loss;
            w.a.alone = alone, w.a.weight = 0.7;
            scalar(&w); /* the forward is kept, and the loss asked for */
            vt_session_backward_f64(w.s, alone ? NULL : w.dz, dx, NULL);
            if (!(t_norm(dx, PIXELS) > 1e-6)) fail_msg("%s, %s: no gradient", what, cases[k].name);
            char name[80];
            snprintf(name, sizeof name, "%s, %s%s", what, cases[k].name, alone ? ", alone" : "");
            t_grad(scalar, &w, w.x, PIXELS, dx, name);
        }
    vt_session_close_f64(w.s);
    vt_model_close(m);
}

static void test_differences(void **state) {
    (void)state;
    vt_config c = tiny();
    check_model(&c, "class token", 11);
    c.pool = VT_POOL_AVG;
    check_model(&c, "mean", 12);
    c = tiny(), c.dist_token = true;
    check_model(&c, "distilled", 13);
    c = tiny(), c.registers = 2, c.no_embed_class = true;
    check_model(&c, "registers", 14);
    c = tiny(), c.qk_norm = true;
    check_model(&c, "q/k norm", 15);
    c = tiny(), c.tied_qk = true;
    check_model(&c, "tied", 16);
    c = tiny(), c.post_norm = true;
    check_model(&c, "post-norm", 17);
    c = tiny(), snprintf(c.attn, sizeof c.attn, "scsa");
    check_model(&c, "scsa", 18);
    c = tiny(), c.native = 8, c.bgr = true;
    check_model(&c, "reversed channels", 19);
    c = tiny(), snprintf(c.arch, sizeof c.arch, "convit"), c.local_blocks = 2;
    check_model(&c, "convit", 20);
}

/* ---- off is off, and what is asked for is asked for once ---- */

static void test_once(void **state) {
    (void)state;
    vt_model *m = fixture_model();
    vt_session_f64 *s = session(m);
    double x[3 * PIXELS], plain[PIXELS], with[PIXELS], after[PIXELS], alone[PIXELS], dz[CLASSES] = {1, -1, 0.5, 0, 0};
    read(x, hooks, "x", 3 * PIXELS);
    vt_session_forward_f64(s, x, 1, true);
    vt_session_backward_f64(s, dz, plain, NULL);
    vt_attn_loss a = cases[1].loss;
    vt_session_attention_loss_f64(s, &a);
    vt_session_backward_f64(s, dz, with, NULL);
    vt_session_backward_f64(s, dz, after, NULL);
    assert_memory_equal(plain, after, sizeof plain);
    vt_session_attention_loss_f64(s, &a);
    vt_session_backward_f64(s, NULL, alone, NULL);
    for (int i = 0; i < PIXELS; i++) /* linear; sums of numbers below 10 */
        t_le(fabs(with[i] - plain[i] - alone[i]), 1e-13, "pixel %d", i);
    vt_session_attention_loss_f64(s, &a); /* asked for, and then another image comes */
    vt_session_forward_f64(s, x, 1, true);
    vt_session_backward_f64(s, dz, after, NULL);
    assert_memory_equal(plain, after, sizeof plain);
    vt_session_close_f64(s), vt_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_differences),
        cmocka_unit_test(test_once),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
