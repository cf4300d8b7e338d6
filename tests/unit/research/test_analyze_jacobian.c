/* SPDX-License-Identifier: MIT */
/* src/research/analysis/jacobian: sigma_max of the input-logit Jacobian by power iteration against LAPACK's of a matrix
 * built from central differences alone, in both forms; Proposition 1's ratio. */
#define VT_DOUBLE
#include "base/real.h"
#include "toy.h"

#include "linalg/svd.h"
#include "models/net/session64.h"
#include "research/analysis/jacobian.h"

static void test_sigma(void **state) {
    (void)state;
    static const char *const variants[] = {"dot", "l2", "lipnorm", "scsa"};
    for (size_t v = 0; v < T_COUNT(variants); v++) {
        vt_config c = toy_config(variants[v], VT_POOL_TOKEN, false, true);
        vt_model *m = toy_model(&c, 3 + v);
        vt_session_f64 *s;
        vt_jacobian dense, free_form;
        vt_norm_found f[2];
        size_t n = toy_pixels(m), k = (size_t)c.classes;
        double *x = toy_images(m, 1, 5), *jac = calloc(k * n, sizeof *jac), *step = calloc(n, sizeof *step), sigma[8];
        assert_int_equal(vt_session_open_f64(&s, m, 1, VT_GRAD_INPUT, NULL), VT_OK);
        /* columns by central differences of the forward pass: error h^2 and 2^-53/h, some 1e-9 of an entry */
        const double h = 0x1p-15;
        for (size_t i = 0; i < n; i++) {
            memcpy(step, x, n * sizeof *x);
            for (int side = 1; side >= -1; side -= 2) {
                step[i] = x[i] + side * h;
                const double *z = vt_session_forward_f64(s, step, 1, false);
                for (size_t a = 0; a < k; a++) jac[a * n + i] += side * z[a] / (2 * h);
            }
        }
        assert_int_equal(vt_svd_values(sigma, jac, (int)k, (int)n, (int)n, NULL), VT_OK);
        assert_int_equal(vt_jacobian_open(&dense, s, m, true, NULL), VT_OK);
        assert_int_equal(vt_jacobian_open(&free_form, s, m, false, NULL), VT_OK);
        vt_jacobian *both[] = {&dense, &free_form};
        for (int i = 0; i < 2; i++) {
            vt_operator op = vt_jacobian_operator(both[i]);
            vt_jacobian_at(both[i], x);
            assert_int_equal(vt_operator_norm(&f[i], &op, &(vt_rng){.seed = 1}, 20000, 1e-9, NULL), VT_OK);
            assert_true(f[i].converged);
            t_le(fabs(f[i].sigma - sigma[0]) / sigma[0], 1e-6, "%s, %s", variants[v], i ? "differences" : "rows");
        }
        t_le(t_rel(dense.rows, jac, k * n), 1e-7, "%s: rows", variants[v]);
        /* small steps move the logits by at most sigma_max, and along a row's own direction by its length at least */
        for (size_t i = 0; i < n; i++) step[i] = x[i] + dense.rows[i] * 1e-6 / t_norm(dense.rows, n);
        double ratio = vt_jacobian_ratio(&dense, step, 1);
        t_le(ratio / sigma[0], 1 + 1e-5, "%s: ratio at a small d", variants[v]);
        t_le(t_norm(dense.rows, n) / ratio, 1 + 1e-5, "%s: along a row", variants[v]);
        assert_true(vt_jacobian_ratio(&dense, x, 1) == 0);
        vt_jacobian_close(&dense), vt_jacobian_close(&free_form);
        vt_session_close_f64(s), vt_model_close(m);
        free(x), free(jac), free(step);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sigma)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
