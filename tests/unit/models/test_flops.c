/* SPDX-License-Identifier: MIT */
/* vt_arch.flops against the products that a session really forms, counted at vt_gemm_f64 (the linker's --wrap). */
#include "base/real.h"
#include "toy.h"

#include "linalg/gemm.h"
#include "models/arch.h"
#include "models/net/session64.h"

static double counted; /* floating-point operations since it was set to 0 */

void __real_vt_gemm_f64(bool ta, bool tb, int m, int n, int k, double alpha, const double *a, int lda, const double *b,
                        int ldb, double beta, double *c, int ldc);
void __wrap_vt_gemm_f64(bool ta, bool tb, int m, int n, int k, double alpha, const double *a, int lda, const double *b,
                        int ldb, double beta, double *c, int ldc);
void __wrap_vt_gemm_f64(bool ta, bool tb, int m, int n, int k, double alpha, const double *a, int lda, const double *b,
                        int ldb, double beta, double *c, int ldc) {
    counted += 2.0 * m * n * k;
    __real_vt_gemm_f64(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

static void check(const vt_config *c, const char *name) {
    enum { IMAGES = 3 };
    vt_model *m = toy_model(c, 1);
    vt_session_f64 *s;
    vt_err e = {0};
    if (vt_session_open_f64(&s, m, IMAGES, VT_GRAD_PARAMS, &e) != VT_OK) fail_msg("%s: %s", name, e.text);
    size_t pixels = vt_config_input_pixels(c), k = (size_t)c->classes;
    double *x = malloc(IMAGES * pixels * 8), *dx = malloc(IMAGES * pixels * 8), *cot = malloc(IMAGES * k * 8),
           *grad = calloc(m->params.total, 8);
    t_normals(x, IMAGES * pixels, 2, 0.3), t_normals(cot, IMAGES * k, 3, 1);
    for (int alone = 0; alone < 2; alone++) {
        int b = alone ? 1 : IMAGES;
        double forward, gradient;
        vt_arch_find(c->arch)->flops(c, alone, &forward, &gradient);
        counted = 0;
        vt_session_forward_f64(s, x, b, true);
        t_le(fabs(counted / b / forward - 1), 1e-9, "%s, of %d: forward", name, b);
        vt_session_backward_f64(s, cot, dx, NULL);
        t_le(fabs(counted / b / gradient - 1), 1e-9, "%s, of %d: gradient step", name, b);
        if (alone) continue;
        counted = 0; /* three forwards are said: patches, whose own gradient nobody wants, take two */
        vt_session_forward_f64(s, x, b, true);
        vt_session_backward_f64(s, cot, NULL, grad);
        t_le(fabs(counted / b / (3 * forward) - 0.95), 0.05, "%s: training", name);
    }
    vt_session_close_f64(s), vt_model_close(m);
    free(x), free(dx), free(cot), free(grad);
}

static void test_flops(void **state) {
    (void)state;
    vt_config c = toy_config("dot", VT_POOL_TOKEN, false, true);
    check(&c, "class token");
    c.tied_qk = true;
    check(&c, "tied");
    c = toy_config("dot", VT_POOL_TOKEN, false, true), c.pool = VT_POOL_AVG;
    check(&c, "mean");
    c = toy_config("dot", VT_POOL_TOKEN, true, true), c.heads = 2;
    check(&c, "distilled");
    c = toy_config("dot", VT_POOL_TOKEN, false, true), c.registers = 2, c.no_embed_class = true;
    check(&c, "registers");
    c = toy_config("dot", VT_POOL_TOKEN, false, true), c.qk_norm = true;
    check(&c, "q/k norm");
    c = toy_config("dot", VT_POOL_TOKEN, false, true), c.proj = VT_PROJ_NONE;
    check(&c, "no projection");
    c = toy_config("dot", VT_POOL_TOKEN, false, true), snprintf(c.arch, sizeof c.arch, "convit"), c.local_blocks = 1;
    check(&c, "convit");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_flops)};
    return cmocka_run_group_tests_name("flops", tests, NULL, NULL);
}
