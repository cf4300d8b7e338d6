/* SPDX-License-Identifier: MIT */
/* What training hangs into a model: dropped attention branches (ARD), the attention penalty L_AM, the patch gate.
 * Against PyTorch in double (tests/fixtures/golden/hooks, made by tools/gen_hooks_fixture.py), against central
 * differences, and switched off again. One text for both precisions: test_hooks.c defines VT_DOUBLE, test_hooks32.c
 * does not. */
#ifndef HOOKS_H
#define HOOKS_H

#include "base/real.h"
#include "reference.h"

#include "linalg/gemm.h"
#include "models/net/session.h"
#include "nn/loss.h"

#define FIXTURE "tests/fixtures/golden/hooks.safetensors"
#define FACTOR 0.01 /* of L_AM in the fixture */

enum { IMAGES = 3, CLASSES = 5, PIXELS = 3 * 8 * 8, PATCHES = 4, DEPTH = 3 };

#define IS64 (sizeof(real) == 8)

static vt_tensors *ref;

static int setup(void **state) {
    (void)state;
    vt_err e = {0};
    vt_blas_single_thread();
    if (vt_tensors_open(&ref, FIXTURE, &e) == VT_OK) return 0;
    print_error("%s\n", e.text);
    return 1;
}

static int teardown(void **state) {
    (void)state;
    vt_tensors_close(ref);
    return 0;
}

/* ---- reading ---- */

static void floats(float *out, size_t n, const char *name) {
    double *v = reference(ref, n, "%s", name);
    for (size_t i = 0; i < n; i++) out[i] = (float)v[i];
    free(v);
}

static void images(real *x) {
    double *v = reference(ref, IMAGES * PIXELS, "x");
    for (int i = 0; i < IMAGES * PIXELS; i++) x[i] = (real)v[i];
    free(v);
}

/* The fixture's model; mean pooling reads the final norm's weights as fc_norm's. */
static vt_model *model(vt_pool pool, bool gate) {
    vt_config c = {.arch = "vit",
                   .attn = "dot",
                   .image = 8,
                   .patch = 4,
                   .dim = 16,
                   .depth = DEPTH,
                   .heads = 2,
                   .hidden = 24,
                   .classes = CLASSES,
                   .qkv_bias = true,
                   .patch_gate = gate,
                   .pool = pool,
                   .ln_eps = 1e-6,
                   .attn_scale = sqrt(0.125),
                   .mean = {0.4914, 0.4822, 0.4465},
                   .std = {0.2470, 0.2435, 0.2616}};
    vt_model *m = NULL;
    vt_err e = {0};
    if (vt_model_new(&m, &c, &e) != VT_OK) fail_msg("%s", e.text);
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        char name[80];
        snprintf(name, sizeof name, "w.%s", p->name + (strncmp(p->name, "fc_norm.", 8) ? 0 : 3));
        floats(m->w + p->offset, p->numel, strcmp(p->name, "patch_gate") ? name : "gate");
    }
    vt_model_refresh(m);
    return m;
}

/* ---- running ---- */

/* What is switched on. */
typedef struct hooks {
    double ortho;
    const unsigned char *open; /* branch_open */
} hooks;

/* Of the summed cross entropy with the fixture's soft labels (plus ortho L_AM). */
typedef struct answer {
    real logits[IMAGES * CLASSES], dx[IMAGES * PIXELS], *grad;
    double ortho;
} answer;

/* dz [n, K] of the loss; returns its sum. */
static double soft_ce(real *dz, const real *z, int n) {
    static float target[IMAGES * CLASSES];
    double sum = 0;
    if (target[0] == 0) floats(target, T_COUNT(target), "target");
    for (int i = 0; i < n * CLASSES; i += CLASSES)
        sum += (double)VT_R(vt_loss_eval)(dz + i, &(vt_loss){.kind = VT_LOSS_CE, .target = target + i}, z + i, CLASSES);
    return sum;
}

static VT_R(vt_session) *session(const vt_model *m, int n, vt_grad_mode mode) {
    VT_R(vt_session) *s;
    vt_err e = {0};
    if (VT_R(vt_session_open)(&s, m, n, mode, &e) != VT_OK) fail_msg("%s", e.text);
    return s;
}

/* a->grad is to be freed. */
static void run(answer *a, VT_R(vt_session) *s, int n, hooks h) {
    real x[IMAGES * PIXELS], dz[IMAGES * CLASSES];
    memset(a, 0, sizeof *a);
    images(x);
    s->ortho = (real)h.ortho, s->branch_open = h.open;
    a->grad = calloc(s->model->params.total, sizeof *a->grad);
    memcpy(a->logits, VT_R(vt_session_forward)(s, x, n, true), (size_t)(n * CLASSES) * sizeof *x);
    soft_ce(dz, a->logits, n);
    VT_R(vt_session_backward)(s, dz, a->dx, a->grad);
    a->ortho = s->ortho_value;
}

static void run_once(answer *a, const vt_model *m, int n, vt_grad_mode mode, hooks h) {
    VT_R(vt_session) *s = session(m, n, mode);
    run(a, s, n, h);
    VT_R(vt_session_close)(s);
}

/* ---- against PyTorch ---- */

/* Of the tensor's largest value. Double: both sides round in other orders only (1e-13 after ten products), 1e-9 as
 * test_golden.c has it. Float: 1e-4 as there (torch's own float32 comes within 2.5e-5). */
static void compare(const char *pool, const char *what, const real *got, size_t n) {
    char name[120];
    snprintf(name, sizeof name, "%s.%s", pool, what);
    double *want = reference(ref, n, "%s", name), worst = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)got[i] - want[i]);
        if (!(d <= worst)) worst = d;
    }
    double top = t_max(want, n); /* 0: without attention no pixel reaches the class token */
    t_le(worst, (IS64 ? 1e-9 : 1e-4) * top, "%s", name);
    free(want);
}

/* As many gradients as the fixture has. */
static void compare_grads(const char *what, const vt_model *m, const answer *a, int count) {
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        char name[120], full[140];
        snprintf(name, sizeof name, "%s.grad.%s", what, p->name), snprintf(full, sizeof full, "token.%s", name);
        if (!vt_tensors_find(ref, full)) continue;
        compare("token", name, a->grad + p->offset, p->numel);
        count--;
    }
    assert_int_equal(count, 0);
}

static void check_pool(vt_pool pool, const char *name, int n) {
    static const char *const patterns[] = {"101", "000", "011"};
    answer a;
    vt_model *m = model(pool, false), *g = model(pool, true);
    size_t pixels = (size_t)(n * PIXELS);
    for (size_t k = 0; k < T_COUNT(patterns); k++) {
        unsigned char open[DEPTH];
        char what[20];
        for (int i = 0; i < DEPTH; i++) open[i] = patterns[k][i] == '1';
        run_once(&a, m, n, VT_GRAD_INPUT, (hooks){.open = open}); /* as an attack does */
        snprintf(what, sizeof what, "ard.%s", patterns[k]);
        compare(name, what, a.dx, pixels);
        free(a.grad);
    }

    run_once(&a, m, n, VT_GRAD_PARAMS, (hooks){.ortho = FACTOR});
    compare(name, "ortho.value", &(real){(real)a.ortho}, 1);
    compare(name, "ortho.dx", a.dx, pixels);
    /* class token, positions, 2 of the patch kernel; norm1, qkv, proj; norm and head */
    if (pool == VT_POOL_TOKEN) compare_grads("ortho", m, &a, 4 + 6 * DEPTH + 4);
    free(a.grad);

    run_once(&a, g, n, VT_GRAD_PARAMS, (hooks){0});
    compare(name, "gate.logits", a.logits, (size_t)(n * CLASSES));
    compare(name, "gate.dx", a.dx, pixels);
    if (pool == VT_POOL_TOKEN) compare_grads("gate", g, &a, 5 + 2); /* with the gate; head */
    free(a.grad);
    vt_model_close(m), vt_model_close(g);
}

static void test_reference(void **state) {
    (void)state;
    check_pool(VT_POOL_TOKEN, "token", IMAGES);
    check_pool(VT_POOL_AVG, "avg", 1);
}

/* ---- central differences: every weight and pixel, CE + 0.5 L_AM behind a gate, the tolerance of t.h ---- */

#ifdef VT_DOUBLE
typedef struct whole {
    vt_session_f64 *s;
    int n;
    double x[IMAGES * PIXELS];
} whole;

static double scalar(void *ctx) {
    whole *w = ctx;
    double dz[IMAGES * CLASSES];
    double sum = soft_ce(dz, vt_session_forward_f64(w->s, w->x, w->n, true), w->n);
    vt_session_backward_f64(w->s, dz, NULL, NULL);
    return sum + w->s->ortho * w->s->ortho_value;
}

static void test_differences(void **state) {
    (void)state;
    for (int pool = VT_POOL_TOKEN; pool <= VT_POOL_AVG; pool++) {
        vt_model *m = model((vt_pool)pool, true);
        int n = pool == VT_POOL_TOKEN ? IMAGES : 1;
        size_t total = m->params.total;
        double dx[IMAGES * PIXELS], dz[IMAGES * CLASSES];
        double *grad = calloc(total, sizeof *grad), *master = malloc(total * sizeof *master);
        for (size_t i = 0; i < total; i++) master[i] = (double)m->w[i];
        whole w = {.s = session(m, n, VT_GRAD_PARAMS), .n = n};
        images(w.x);
        w.s->ortho = 0.5, w.s->master = master;
        soft_ce(dz, vt_session_forward_f64(w.s, w.x, n, true), n);
        vt_session_backward_f64(w.s, dz, dx, grad);
        t_grad(scalar, &w, w.x, (size_t)(n * PIXELS), dx, "dx");
        for (int i = 0; i < m->params.count; i++) {
            const vt_param *p = &m->params.items[i];
            t_grad(scalar, &w, master + p->offset, p->numel, grad + p->offset, p->name);
        }
        vt_session_close_f64(w.s);
        vt_model_close(m);
        free(grad), free(master);
    }
}
#endif

/* ---- off is off ---- */

static bool same(const answer *a, const answer *b, size_t total) {
    return !memcmp(a->dx, b->dx, sizeof a->dx) && !memcmp(a->grad, b->grad, total * sizeof *a->grad);
}

/* One session through every switch and back: open branches and a zero factor leave no bit changed. */
static void test_switches(void **state) {
    (void)state;
    static const unsigned char all[DEPTH] = {1, 1, 1}, some[DEPTH] = {0, 1, 1};
    static const hooks steps[] = {{0, NULL}, {0, all}, {0, some}, {0, NULL}, {0.5, NULL}, {0, NULL}};
    vt_model *m = model(VT_POOL_TOKEN, false);
    VT_R(vt_session) *s = session(m, IMAGES, VT_GRAD_PARAMS);
    answer a[T_COUNT(steps)];
    for (size_t k = 0; k < T_COUNT(steps); k++) {
        run(&a[k], s, IMAGES, steps[k]);
        bool plain = steps[k].open != some && steps[k].ortho <= 0;
        assert_true(plain == same(&a[k], &a[0], m->params.total));
        assert_true((a[k].ortho > 0) == (steps[k].ortho > 0));
        if (k) free(a[k].grad);
    }
    free(a[0].grad);
    VT_R(vt_session_close)(s);
    vt_model_close(m);
}

/* A closed branch gets no gradient: neither do its weights; what stands behind it keeps its own. */
static void test_closed_weights(void **state) {
    (void)state;
    static const unsigned char open[DEPTH] = {1, 0, 1};
    vt_model *m = model(VT_POOL_TOKEN, false);
    answer a, b;
    run_once(&a, m, IMAGES, VT_GRAD_PARAMS, (hooks){.open = open});
    run_once(&b, m, IMAGES, VT_GRAD_PARAMS, (hooks){0});
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        bool closed = strstr(p->name, "blocks.1.attn") || strstr(p->name, "blocks.1.norm1"), zero = true;
        for (size_t k = 0; k < p->numel; k++) zero = zero && a.grad[p->offset + k] == 0;
        assert_true(closed == zero);
        if (strstr(p->name, "blocks.2.") || strstr(p->name, "blocks.1.mlp"))
            assert_memory_equal(a.grad + p->offset, b.grad + p->offset, p->numel * sizeof *a.grad);
    }
    free(a.grad), free(b.grad);
    vt_model_close(m);
}

/* A factor of zero hides its patch from the model and from attacks, yet has a gradient itself. An attack's session,
 * whose patches and their gradient share memory, sees the same. */
static void test_gate_zero(void **state) {
    (void)state;
    vt_model *g = model(VT_POOL_TOKEN, true);
    answer a, b;
    run_once(&a, g, IMAGES, VT_GRAD_PARAMS, (hooks){0});
    for (int i = 0; i < IMAGES * PIXELS; i++) {
        int y = i / 8 % 8, x = i % 8;
        assert_true((a.dx[i] == 0) == (y >= 4 && x < 4)); /* patch 2 */
    }
    const real *dgate = a.grad + vt_model_param(g, "patch_gate")->offset;
    assert_true(fabs((double)dgate[2]) > 1e-3); /* the others are of size 1 */
    run_once(&b, g, IMAGES, VT_GRAD_INPUT, (hooks){0});
    assert_memory_equal(a.dx, b.dx, sizeof a.dx);
    free(a.grad), free(b.grad);
    vt_model_close(g);
}

/* A gate of ones is no gate, to the last bit. */
static void test_gate_ones(void **state) {
    (void)state;
    vt_model *m = model(VT_POOL_TOKEN, false), *g = model(VT_POOL_TOKEN, true);
    const vt_param *gate = vt_model_param(g, "patch_gate");
    answer a, b;
    for (size_t i = 0; i < gate->numel; i++) g->w[gate->offset + i] = 1;
    run_once(&a, m, IMAGES, VT_GRAD_PARAMS, (hooks){0});
    run_once(&b, g, IMAGES, VT_GRAD_PARAMS, (hooks){0});
    assert_memory_equal(a.logits, b.logits, sizeof a.logits);
    assert_memory_equal(a.dx, b.dx, sizeof a.dx);
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i], *q = vt_model_param(g, p->name);
        assert_memory_equal(a.grad + p->offset, b.grad + q->offset, p->numel * sizeof *a.grad);
    }
    free(a.grad), free(b.grad);
    vt_model_close(m), vt_model_close(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),   cmocka_unit_test(test_switches),  cmocka_unit_test(test_closed_weights),
        cmocka_unit_test(test_gate_zero),   cmocka_unit_test(test_gate_ones),
#ifdef VT_DOUBLE
        cmocka_unit_test(test_differences),
#endif
    };
    return cmocka_run_group_tests_name(IS64 ? "hooks, double" : "hooks, float", tests, setup, teardown);
}

#endif
