/* SPDX-License-Identifier: MIT */
/* Swin: whole networks against PyTorch (tests/fixtures/gen_swin.py), L_AM over windows, matrices, penalties. Gradients,
 * modes and files of its forms are tested in test_forms.c, those of its attention variants in test_combinations.c. */
#include "swin_fixture.h"

#include "models/net/session.h"
#include "research/analysis/spectrum.h"

/* ---- against PyTorch ---- */

static void test_torch(void **state) {
    (void)state;
    static const char *const names[] = {"whole", "shifted", "padded", "lips"};
    for (size_t i = 0; i < T_COUNT(names); i++) {
        vt_model *m = judged(names[i]);
        judge(m, names[i], VT_GRAD_PARAMS);
        vt_model_close(m);
    }
}

/* The second image of a batch has the logits that it has alone, up to the order of sums in products of another size. */
static void test_alone(void **state) {
    (void)state;
    vt_model *m = judged("padded");
    size_t n = B * vt_config_pixels(&m->config);
    double *x = reference(ref, n, "padded.x"), z[B * CLASSES];
    vt_session_f64 *s;
    vt_err e = {0};
    assert_int_equal(vt_session_open_f64(&s, m, B, VT_GRAD_NONE, &e), VT_OK);
    memcpy(z, vt_session_forward_f64(s, x, B, false), sizeof z);
    const double *one = vt_session_forward_f64(s, x + n / B, 1, false);
    t_le(t_max_diff(one, z + CLASSES, CLASSES), 1e-13 * (1 + t_max(z, B * CLASSES)), "logits of an image alone");
    vt_session_close_f64(s);
    vt_model_close(m);
    free(x);
}

/* L_AM over windows, the padded ones too: the gradient of cot * logits + f * its value, along random directions. */
typedef struct penalised {
    vt_session_f64 *s;
    double *x, *dx, cot[B * CLASSES];
} penalised;

static double with_ortho(penalised *a) {
    double z = t_dot(vt_session_forward_f64(a->s, a->x, B, true), a->cot, B * CLASSES);
    vt_session_backward_f64(a->s, a->cot, a->dx, NULL);
    return z + a->s->ortho * a->s->ortho_value;
}

static void test_ortho(void **state) {
    (void)state;
    enum { TRIES = 6 };
    vt_model *m = judged("padded");
    size_t n = B * vt_config_pixels(&m->config);
    double num[TRIES], ana[TRIES], *g = malloc(n * sizeof *g), *d = malloc(n * sizeof *d);
    penalised a = {.x = reference(ref, n, "padded.x"), .dx = malloc(n * sizeof *a.dx)};
    vt_err e = {0};
    assert_int_equal(vt_session_open_f64(&a.s, m, B, VT_GRAD_INPUT, &e), VT_OK);
    t_normals(a.cot, B * CLASSES, 4, 1);
    with_ortho(&a);
    memcpy(g, a.dx, n * sizeof *g);
    a.s->ortho = 0.3;
    with_ortho(&a);
    assert_true(t_rel(a.dx, g, n) > 1e-3); /* it does count */
    memcpy(g, a.dx, n * sizeof *g);
    for (int k = 0; k < TRIES; k++) {
        double side[2];
        t_normals(d, n, 60 + (uint64_t)k, 1 / sqrt((double)n));
        for (int up = 0; up < 2; up++) {
            for (size_t i = 0; i < n; i++) a.x[i] += (up ? 2 : -1) * T_GRAD_STEP * d[i];
            side[up] = with_ortho(&a);
        }
        for (size_t i = 0; i < n; i++) a.x[i] -= T_GRAD_STEP * d[i];
        num[k] = (side[1] - side[0]) / (2 * T_GRAD_STEP), ana[k] = t_dot(g, d, n);
    }
    t_le(t_rel(ana, num, TRIES), T_GRAD_TOL, "gradient with L_AM");
    vt_session_close_f64(a.s);
    vt_model_close(m);
    free(g), free(d), free(a.x), free(a.dx);
}

/* ---- matrices ---- */

static void test_roles(void **state) {
    (void)state;
    vt_model *m = judged("shifted");
    static const char *const prefixes[] = {"layers.0.blocks.0.", "layers.0.blocks.1.", "layers.1.blocks.0.",
                                           "layers.1.blocks.1.", "layers.2.blocks.0."};
    static const int width[] = {4, 4, 8, 8, 16}, heads[] = {1, 1, 4, 4, 2};
    vt_matrix x;
    assert_int_equal(vt_model_blocks(m), 5);
    for (int b = 0; b < 5; b++) {
        char name[80];
        int d = width[b];
        snprintf(name, sizeof name, "%sattn.qkv.weight", prefixes[b]);
        const vt_param *qkv = vt_model_param(m, name);
        for (int k = 0; k < 3; k++) {
            assert_true(vt_model_matrix(m, b, (vt_weight_kind)(VT_WEIGHT_Q + k), &x));
            assert_true(x.offset == qkv->offset + (size_t)(k * d * d) && x.rows == d && x.cols == d &&
                        x.heads == heads[b]);
        }
        snprintf(name, sizeof name, "%smlp.fc1.weight", prefixes[b]);
        assert_true(vt_model_matrix(m, b, VT_WEIGHT_FC1, &x) && x.offset == vt_model_param(m, name)->offset &&
                    x.rows == 10 * d / 4 && x.cols == d);
        snprintf(name, sizeof name, "%smlp.fc2.weight", prefixes[b]);
        assert_true(vt_model_matrix(m, b, VT_WEIGHT_FC2, &x) && x.offset == vt_model_param(m, name)->offset &&
                    x.rows == d && x.cols == 10 * d / 4);
        snprintf(name, sizeof name, "%sattn.proj.weight", prefixes[b]);
        assert_true(vt_model_matrix(m, b, VT_WEIGHT_O, &x) && x.offset == vt_model_param(m, name)->offset);
    }
    assert_false(vt_model_matrix(m, 5, VT_WEIGHT_Q, &x));
    vt_model_close(m);
}

/* MSVP moves all of q, k, v and nothing else; ortho's gradient over matrices of three widths is that of its value. */
static void test_penalties(void **state) {
    (void)state;
    bench b = bench_open("msvp", "lambda=0.5", judged("shifted"));
    t_freeze(b.w);
    assert_true(bench_apply(&b) > 0);
    for (int i = 0; i < b.m->params.count; i++) {
        const vt_param *p = &b.m->params.items[i];
        int third = (int)p->numel / 3, moved = 0;
        for (int k = 0; k < 3; k++) moved += t_norm(b.last + p->offset + k * third, (size_t)third) > 1e-9;
        assert_int_equal(moved, strstr(p->name, "qkv.weight") ? 3 : 0);
    }
    bench_close(&b, "msvp");
    b = bench_open("ortho", "variant=VAR-III;lambda=0.5", judged("shifted"));
    assert_true(bench_scalar(&b) > 0);
    double *g = malloc(b.total * sizeof *g);
    memcpy(g, b.last, b.total * sizeof *g);
    for (int block = 0; block < 5; block++) {
        vt_matrix q = matrix(&b, block, VT_WEIGHT_Q);
        size_t n = (size_t)(3 * q.rows * q.cols);
        t_grad(bench_scalar, &b, b.w + q.offset, n, g + q.offset, "ortho of a block");
    }
    free(g);
    bench_close(&b, "ortho");
}

/* Every block's matrices are found, whole and by its own number of heads. */
static void test_spectrum(void **state) {
    (void)state;
    static const int heads[] = {1, 1, 4, 4, 2};
    vt_model *m = judged("shifted");
    vt_spectrum s;
    vt_err e = {0};
    assert_int_equal(vt_spectrum_measure(&s, m, true, 1, &e), VT_OK);
    assert_true(s.depth == 5 && s.heads == 4);
    for (int b = 0; b < 5; b++) {
        for (int r = 0; r < VT_WEIGHT_KINDS; r++)
            assert_true(vt_spectrum_get(&s, b, (vt_weight_kind)r, VT_PART_WHOLE, 0) > 0);
        for (int h = 0; h < 4; h++)
            assert_true((vt_spectrum_get(&s, b, VT_WEIGHT_V, VT_PART_ROWS, h) > 0) == (h < heads[b]));
    }
    vt_spectrum_free(&s);
    vt_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_torch, open_ref, close_ref),
        cmocka_unit_test_setup_teardown(test_alone, open_ref, close_ref),
        cmocka_unit_test_setup_teardown(test_ortho, open_ref, close_ref),
        cmocka_unit_test_setup_teardown(test_roles, open_ref, close_ref),
        cmocka_unit_test_setup_teardown(test_penalties, open_ref, close_ref),
        cmocka_unit_test_setup_teardown(test_spectrum, open_ref, close_ref),
    };
    return cmocka_run_group_tests_name("swin", tests, setup, remove_tmp);
}
