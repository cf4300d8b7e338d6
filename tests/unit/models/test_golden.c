/* SPDX-License-Identifier: MIT */
/* Models against numbers that PyTorch and timm computed in float64: NAME.weights.safetensors,
 * NAME.golden.safetensors and models.json in tests/fixtures/golden (tools/gen_fixtures.py made them), or in
 * the folder VITRINE_GOLDEN. */
#include "base/real.h"
#include "t.h"

#include <jansson.h>
#include "linalg/gemm.h"
#include "tensors/tensors.h"
#include "models/net/batch_gradients.h"

typedef struct golden {
    char name[80];
    vt_model *m;
    vt_tensors *ref;
    int n;
    double *x, *logits, *dx_ce;
    int64_t *labels, *targets;
    double grad_top; /* largest parameter gradient of all */
} golden;

static const char *folder(void) {
    const char *p = getenv("VITRINE_GOLDEN");
    return p && *p ? p : "tests/fixtures/golden";
}

/* ---- reading ---- */

static double *tensor(const golden *g, const char *name, size_t *n) {
    const vt_tensor *t = vt_tensors_find(g->ref, name);
    vt_err e = {0};
    if (!t) fail_msg("%s: the golden file has no %s", g->name, name);
    double *v = malloc((t->numel + 1) * sizeof *v);
    if (vt_tensor_f64(g->ref, t, v, t->numel, &e) != VT_OK) fail_msg("%s", e.text);
    if (n) *n = t->numel;
    return v;
}

static int64_t *integers(const golden *g, const char *name) {
    const vt_tensor *t = vt_tensors_find(g->ref, name);
    vt_err e = {0};
    if (!t || t->numel != (size_t)g->n) fail_msg("%s: %s is not one for each image", g->name, name);
    int64_t *v = malloc((t->numel + 1) * sizeof *v);
    if (vt_tensor_i64(g->ref, t, v, t->numel, &e) != VT_OK) fail_msg("%s", e.text);
    return v;
}

static double number(const json_t *v) {
    if (!json_is_number(v)) fail_msg("models.json: a number is missing");
    return json_number_value(v);
}

/* What the tensors cannot tell, from models.json. The scale is given only where it is not the default, so
 * that the default is tested too. */
static void open_model(golden *g, const json_t *c) {
    char path[400], scale[40];
    const json_t *kwargs = json_object_get(c, "kwargs"), *heads = json_object_get(kwargs, "num_heads");
    const bool list = json_is_array(heads); /* of stages, whose tensors tell */
    vt_overrides o = {.heads = list ? 0 : (int)number(heads),
                      .shown = (int)number(json_object_get(kwargs, "img_size")),
                      .has_mean = true,
                      .has_std = true,
                      .ln_eps = number(json_array_get(json_object_get(c, "ln_eps"), 0))};
    for (size_t k = 0; k < 3; k++) {
        o.mean[k] = number(json_array_get(json_object_get(c, "mean"), k));
        o.std[k] = number(json_array_get(json_object_get(c, "std"), k));
    }
    double s = number(json_array_get(json_object_get(c, "attn_scale"), 0)),
           dim = number(json_object_get(c, "total_embed_dim")),
           first = list ? number(json_array_get(heads, 0)) : o.heads;
    snprintf(scale, sizeof scale, "%.17g", s);
    if (fabs(s * sqrt(dim / first) - 1) > 1e-12) o.attn_scale = scale;
    snprintf(path, sizeof path, "%s/%s.weights.safetensors", folder(), g->name);
    vt_err e = {0};
    if (vt_model_open(&g->m, path, &o, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(vt_model_param_count(g->m), (size_t)number(json_object_get(c, "parameters")));
}

static void open_golden(golden *g, const char *name, const json_t *c) {
    memset(g, 0, sizeof *g);
    snprintf(g->name, sizeof g->name, "%s", name);
    open_model(g, c);
    char path[400];
    vt_err e = {0};
    snprintf(path, sizeof path, "%s/%s.golden.safetensors", folder(), name);
    if (vt_tensors_open(&g->ref, path, &e) != VT_OK) fail_msg("%s", e.text);
    size_t len;
    g->x = tensor(g, "x", &len);
    size_t pixels = 3 * (size_t)g->m->config.image * (size_t)g->m->config.image;
    g->n = (int)(len / pixels);
    assert_true(g->n > 0 && len % pixels == 0);
    g->logits = tensor(g, "logits", NULL), g->dx_ce = tensor(g, "dx_ce", NULL);
    g->labels = integers(g, "labels"), g->targets = integers(g, "targets");
    for (int i = 0; i < vt_tensors_count(g->ref); i++) {
        const char *key = vt_tensors_at(g->ref, i)->name;
        if (strncmp(key, "grad.", 5)) continue;
        double *v = tensor(g, key, &len);
        g->grad_top = fmax(g->grad_top, t_max(v, len));
        free(v);
    }
}

static void close_golden(golden *g) {
    vt_model_close(g->m);
    vt_tensors_close(g->ref);
    free(g->x), free(g->logits), free(g->dx_ce), free(g->labels), free(g->targets);
}

static void each_golden(void (*check)(const golden *g)) {
    char path[400];
    json_error_t why;
    snprintf(path, sizeof path, "%s/models.json", folder());
    json_t *all = json_load_file(path, 0, &why), *c;
    if (!all) fail_msg("%s: %s", path, why.text); /* missing fixtures are a failure, not a skip */
    assert_true(json_object_size(all) > 0);
    const char *name;
    json_object_foreach(all, name, c) {
        golden g;
        open_golden(&g, name, c);
        check(&g);
        close_golden(&g);
    }
    json_decref(all);
}

/* ---- judging ---- */

static vt_batch_gradients probe(const golden *g, int kind, bool f64) {
    vt_batch_gradients p;
    vt_err e = {0};
    vt_status s =
        (f64 ? vt_batch_gradients_run_f64 : vt_batch_gradients_run_f32)(&p, g->m, g->x, g->n, g->labels,
                                                                        kind == VT_LOSS_DLR_T ? g->targets : NULL, NULL,
                                                                        (vt_loss_kind)kind, kind == VT_LOSS_CE, &e);
    if (s != VT_OK) fail_msg("%s: %s", g->name, e.text);
    return p;
}

/* |got - ref| <= tol * max(largest |ref| of the tensor, floor). The floors serve gradients that are zero by
 * mathematics (the key part of qkv.bias; dlr of a label ranked third), which are measured against their
 * family. */
static void compare(const golden *g, const char *key, const double *got, size_t n, double tol, double floor) {
    size_t len;
    double *ref = tensor(g, key, &len), top;
    if (len != n) fail_msg("%s: %s has %zu numbers, we have %zu", g->name, key, len, n);
    top = fmax(t_max(ref, n), floor);
    t_le(t_max_diff(got, ref, n) / (top > 0 ? top : 1), tol, "%s: %s", g->name, key);
    free(ref);
}

/* Every gradient of ce; as many as the model has tensors. */
static void param_grads(const golden *g, const vt_batch_gradients *p, double tol) {
    for (int i = 0; i < g->m->params.count; i++) {
        const vt_param *q = &g->m->params.items[i];
        if (q->buffer) continue;
        char key[80];
        snprintf(key, sizeof key, "grad.%s", q->name);
        compare(g, key, p->dparams + q->offset, q->numel, tol, 1e-3 * g->grad_top);
    }
}

/* The four losses whose gradients the golden files hold; a large model's file may leave out dx of all but ce.
 */
static const int kinds[] = {VT_LOSS_CE, VT_LOSS_MARGIN, VT_LOSS_DLR, VT_LOSS_DLR_T};

static bool key_of(const golden *g, char key[32], const char *what, int kind) {
    snprintf(key, 32, "%s_%s", what, vt_loss_names_f32[kind]);
    return vt_tensors_find(g->ref, key) != NULL;
}

/* Double against double: both round in other orders only, 1e-13 or so after ten products; 1e-9 of the
 * tensor's largest value leaves room for the images on which a loss cancels. */
static void check64(const golden *g) {
    char key[32];
    int gradients = 0;
    for (size_t k = 0; k < T_COUNT(kinds); k++) {
        vt_batch_gradients p = probe(g, kinds[k], true);
        size_t n = (size_t)g->n;
        compare(g, "logits", p.logits, n * (size_t)p.classes, 1e-9, 0);
        assert_true(key_of(g, key, "loss", kinds[k]));
        compare(g, key, p.loss, n, 1e-9, 0);
        if (key_of(g, key, "dx", kinds[k]))
            gradients++, compare(g, key, p.dx, n * p.pixels, 1e-9, 1e-3 * t_max(g->dx_ce, n * p.pixels));
        if (p.dparams) param_grads(g, &p, 1e-9);
        vt_batch_gradients_free(&p);
    }
    assert_true(gradients >= 1);
}

/* Float: logits 2e-5 (1 + max|z|); torch's own float32 stays within 3e-6, a factor of seven for another order
 * of sums. dx 1e-4 of the image's largest element (torch: up to 2.5e-5, where a confident image cancels in 1
 * - p), at least 1e-5 of its ce gradient for gradients that are zero by mathematics. */
static void dx32(const golden *g, const char *key, const vt_batch_gradients *p) {
    double *ref = tensor(g, key, NULL);
    for (int i = 0; i < g->n; i++) {
        const double *r = ref + (size_t)i * p->pixels, *got = p->dx + (size_t)i * p->pixels;
        double tol = fmax(1e-4 * t_max(r, p->pixels), 1e-5 * t_max(g->dx_ce + (size_t)i * p->pixels, p->pixels));
        t_le(t_max_diff(got, r, p->pixels), tol, "%s: float %s of image %d", g->name, key, i);
    }
    free(ref);
}

/* A loss moves with its logits: by at most twice their error, divided by the denominator for the ratios,
 * whose own error enters with the factor |loss|. */
static void loss32(const golden *g, const char *key, const vt_batch_gradients *p, int kind, double logit_tol) {
    double *ref = tensor(g, key, NULL);
    for (int i = 0; i < g->n; i++) {
        const double *z = g->logits + i * p->classes;
        double sorted[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY}, den = 1;
        for (int k = 0; k < p->classes; k++)
            for (int at = 0; at < 4; at++)
                if (z[k] > sorted[at]) {
                    memmove(sorted + at + 1, sorted + at, (size_t)(3 - at) * sizeof *sorted);
                    sorted[at] = z[k];
                    break;
                }
        if (kind == VT_LOSS_DLR && p->classes >= 3) den = sorted[0] - sorted[2];
        if (kind == VT_LOSS_DLR_T && p->classes >= 4) den = sorted[0] - (sorted[2] + sorted[3]) / 2;
        t_le(fabs(p->loss[i] - ref[i]), 2 * logit_tol * (1 + fabs(ref[i])) / fmin(den, 1), "%s: float %s of image %d",
             g->name, key, i);
    }
    free(ref);
}

static void check32(const golden *g) {
    char key[32];
    for (size_t k = 0; k < T_COUNT(kinds); k++) {
        vt_batch_gradients p = probe(g, kinds[k], false);
        size_t len = (size_t)g->n * (size_t)p.classes;
        double tol = 2e-5 * (1 + t_max(g->logits, len));
        t_le(t_max_diff(p.logits, g->logits, len), tol, "%s: float logits", g->name);
        assert_true(key_of(g, key, "loss", kinds[k]));
        loss32(g, key, &p, kinds[k], tol);
        if (key_of(g, key, "dx", kinds[k])) dx32(g, key, &p);
        if (p.dparams) param_grads(g, &p, 1e-4); /* torch's float32: up to 3.3e-6 */
        vt_batch_gradients_free(&p);
    }
}

static void test_f64(void **state) {
    (void)state;
    each_golden(check64);
}

static void test_f32(void **state) {
    (void)state;
    each_golden(check32);
}

int main(void) {
    vt_blas_single_thread();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_f64), cmocka_unit_test(test_f32)};
    return cmocka_run_group_tests_name("golden", tests, NULL, NULL);
}
