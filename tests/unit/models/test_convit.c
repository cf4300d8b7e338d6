/* SPDX-License-Identifier: MIT */
/* ConViT beyond what test_forms.c and test_golden.c hold of every architecture: locality initialisation, where its
 * matrices lie, that L_AM sees the mixed attention, positions at another image size, files that do not fit. */
#define VT_DOUBLE
#include "base/real.h"
#include "t.h"

#include "linalg/gemm.h"
#include "tensors/tensors.h"
#include "models/net/session.h"
#include "train/train.h"

enum { DIM = 12, HEADS = 3, DEPTH = 3, LOCAL = 2, CLASSES = 4 };

static vt_config config(int image) {
    return (vt_config){.arch = "convit",
                       .attn = "dot",
                       .image = image,
                       .patch = 4,
                       .dim = DIM,
                       .depth = DEPTH,
                       .heads = HEADS,
                       .hidden = 10,
                       .classes = CLASSES,
                       .local_blocks = LOCAL,
                       .ln_eps = 1e-6,
                       .attn_scale = 0.5,
                       .std = {1, 1, 1}};
}

static vt_model *model(const vt_config *c) {
    vt_model *m;
    vt_err e = {0};
    if (vt_model_new(&m, c, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(vt_model_init(m, 3), VT_OK);
    return m;
}

static float *tensor(const vt_model *m, const char *name, size_t n) {
    const vt_param *p = vt_model_param(m, name);
    if (!p || p->numel != n) fail_msg("no tensor %s of %zu numbers", name, n);
    return m->w + p->offset;
}

/* Normals on every tensor. */
static void randomise(vt_model *m) {
    vt_rng r = {.seed = 9, .purpose = 0xC0};
    vt_rng_normals(&r, m->w, m->params.total);
    for (size_t i = 0; i < m->params.total; i++) m->w[i] *= 0.5f;
    vt_model_refresh(m);
}

/* ---- initialisation ---- */

/* What timm 0.9.16's ConVit holds after its constructor. */
static const float four[4][3] = {{-1, -1, -1}, {-1, 1, -1}, {1, -1, -1}, {1, 1, -1}};
static const float nine[9][3] = {{-2, -2, -1}, {-2, 0, -1}, {-2, 2, -1}, {0, -2, -1}, {0, 0, -1},
                                 {0, 2, -1},   {2, -2, -1}, {2, 0, -1},  {2, 2, -1}};

/* The first heads of a model with so many: those values; the others: normals of 0.02 (6 or 15 numbers, none beyond five
 * standard deviations). Values are the identity, gates 1, every bias 0; W_Q and W_K are random. */
static void check_local(int heads, const float (*want)[3], int square) {
    vt_config c = config(8);
    c.dim = 2 * heads, c.heads = heads, c.qkv_bias = true;
    vt_model *m = model(&c);
    size_t d = (size_t)c.dim, h = (size_t)heads;
    for (int i = 0; i < LOCAL; i++) {
        char name[6][40];
        static const char *const tensors[] = {"pos_proj.weight", "v.weight", "gating_param",
                                              "pos_proj.bias",   "v.bias",   "qk.weight"};
        for (int k = 0; k < 6; k++) snprintf(name[k], sizeof name[k], "blocks.%d.attn.%s", i, tensors[k]);
        const float *pos = tensor(m, name[0], 3 * h), *v = tensor(m, name[1], d * d), *gate = tensor(m, name[2], h);
        const float *bias = tensor(m, name[3], h), *vb = tensor(m, name[4], d), *qk = tensor(m, name[5], 2 * d * d);
        assert_memory_equal(pos, want, (size_t)square * 3 * sizeof *pos);
        for (int k = 3 * square; k < 3 * heads; k++) assert_true(pos[k] != 0 && fabsf(pos[k]) < 0.1f);
        for (size_t k = 0; k < d * d; k++) assert_true(v[k] == (k % (d + 1) == 0));
        for (size_t k = 0; k < h; k++) assert_true(gate[k] == 1 && bias[k] == 0);
        for (size_t k = 0; k < d; k++) assert_true(vb[k] == 0);
        double sum = 0;
        for (size_t k = 0; k < 2 * d * d; k++) sum += (double)(qk[k] * qk[k]);
        t_le(fabs(sqrt(sum / (double)(2 * d * d)) / 0.02 - 1), 0.5, "spread of W_Q and W_K");
    }
    vt_model_close(m);
}

static void test_local_init(void **state) {
    (void)state;
    check_local(4, four, 4);
    check_local(9, nine, 9);
    check_local(5, four, 4);
    check_local(14, nine, 9);
}

/* ---- roles ---- */

/* W_Q is the upper half of attn.qk.weight, W_K the lower, W_V is attn.v.weight; thirds of attn.qkv.weight later. */
static void test_roles(void **state) {
    (void)state;
    vt_config c = config(12);
    vt_model *m = model(&c);
    assert_int_equal(vt_model_blocks(m), DEPTH);
    for (int b = 0; b < DEPTH; b++) {
        static const char *const local[] = {"qk", "qk", "v", "proj"}, *const late[] = {"qkv", "qkv", "qkv", "proj"};
        static const size_t local_part[] = {0, 1, 0, 0}, late_part[] = {0, 1, 2, 0};
        for (int r = VT_WEIGHT_Q; r <= VT_WEIGHT_O; r++) {
            char name[40];
            vt_matrix x;
            snprintf(name, sizeof name, "blocks.%d.attn.%s.weight", b, b < LOCAL ? local[r] : late[r]);
            assert_true(vt_model_matrix(m, b, (vt_weight_kind)r, &x));
            size_t part = b < LOCAL ? local_part[r] : late_part[r];
            assert_int_equal(x.offset, vt_model_param(m, name)->offset + part * DIM * DIM);
            assert_true(x.rows == DIM && x.cols == DIM && x.heads == HEADS && !x.again);
        }
    }
    vt_model_close(m);
}

/* Tied: W_K is W_Q once more, which who sums counts once. */
static void test_tied_roles(void **state) {
    (void)state;
    vt_config c = config(12);
    c.tied_qk = true;
    vt_model *m = model(&c);
    vt_matrix q, k, v;
    for (int b = 0; b < DEPTH; b++) {
        assert_true(vt_model_matrix(m, b, VT_WEIGHT_Q, &q) && vt_model_matrix(m, b, VT_WEIGHT_K, &k));
        assert_true(vt_model_matrix(m, b, VT_WEIGHT_V, &v));
        assert_true(q.offset == k.offset && q.rows == DIM && k.again && !q.again && !v.again && v.offset != q.offset);
    }
    tensor(m, "blocks.0.attn.qk.weight", DIM * DIM);
    vt_model_close(m);
}

/* ---- L_AM ---- */

typedef struct am {
    vt_session_f64 *s;
    vt_model *m;
    double *w, *grad, x[3 * 144], dx[3 * 144], cot[CLASSES];
    size_t at;
} am;

/* <cot, z> + 0.01 L_AM */
static double with_am(void *ctx) {
    am *a = ctx;
    double z = t_dot(vt_session_forward_f64(a->s, a->x, 1, true), a->cot, CLASSES);
    vt_session_backward_f64(a->s, a->cot, NULL, NULL);
    return z + a->s->ortho * a->s->ortho_value;
}

/* The gradients of a loss with L_AM, and that it is the mixed attention that L_AM sees: with values of zero in block 0
 * its gate moves nothing but the A of that block. */
static void test_am(void **state) {
    (void)state;
    vt_config c = config(12);
    am a = {.m = model(&c)};
    randomise(a.m);
    vt_err e = {0};
    if (vt_session_open_f64(&a.s, a.m, 1, VT_GRAD_PARAMS, &e) != VT_OK) fail_msg("%s", e.text);
    size_t total = a.m->params.total;
    a.w = malloc(total * sizeof *a.w), a.grad = calloc(total, sizeof *a.grad);
    for (size_t i = 0; i < total; i++) a.w[i] = (double)a.m->w[i];
    t_normals(a.x, T_COUNT(a.x), 1, 0.5), t_normals(a.cot, CLASSES, 2, 1);
    a.s->master = a.w, a.s->ortho = 0.01;
    vt_session_forward_f64(a.s, a.x, 1, true);
    vt_session_backward_f64(a.s, a.cot, a.dx, a.grad);
    t_grad(with_am, &a, a.x, T_COUNT(a.x), a.dx, "dx with L_AM");
    static const char *const names[] = {"blocks.0.attn.gating_param", "blocks.1.attn.pos_proj.weight",
                                        "blocks.1.attn.qk.weight", "cls_token"};
    for (size_t k = 0; k < T_COUNT(names); k++) {
        const vt_param *p = vt_model_param(a.m, names[k]);
        t_grad(with_am, &a, a.w + p->offset, p->numel, a.grad + p->offset, names[k]);
    }
    memset(a.w + vt_model_param(a.m, "blocks.0.attn.v.weight")->offset, 0, DIM * DIM * sizeof *a.w);
    double *gate = a.w + vt_model_param(a.m, "blocks.0.attn.gating_param")->offset, was = with_am(&a);
    for (int h = 0; h < HEADS; h++) gate[h] += 1;
    assert_true(fabs(with_am(&a) - was) > 1e-6);
    vt_session_close_f64(a.s);
    vt_model_close(a.m);
    free(a.w), free(a.grad);
}

/* ---- another image size ---- */

/* 3 x 3 positions stretched to 5 x 5, channel 0 the row and channel 1 the column: bilinearly that is the clamped source
 * coordinate (bilinear without aligned corners, as Mo et al. resize), and there is no row for the class token.
 * Everything else is carried over. */
static void test_resize(void **state) {
    (void)state;
    vt_config small = config(12), large = config(20);
    vt_model *from = model(&small), *to = model(&large);
    randomise(from);
    float *pos = tensor(from, "pos_embed", 9 * DIM);
    for (int i = 0; i < 9; i++) pos[i * DIM] = (float)(i / 3), pos[i * DIM + 1] = (float)(i % 3);
    const vt_recipe_init how = {.head = VT_HEAD_KEEP, .pos_embed = VT_POS_BILINEAR};
    vt_err e = {0};
    if (vt_adapt(to, from, &how, 1, &e) != VT_OK) fail_msg("%s", e.text);
    const float *got = tensor(to, "pos_embed", 25 * DIM);
    for (int i = 0; i < 25; i++)
        for (int k = 0; k < 2; k++) {
            double at = ((k ? i % 5 : i / 5) + 0.5) * 3 / 5 - 0.5;
            t_le(fabs((double)got[i * DIM + k] - fmin(fmax(at, 0), 2)), 2e-7, "position %d", i); /* one rounding of 2 */
        }
    for (int i = 0; i < from->params.count; i++) {
        const vt_param *p = &from->params.items[i];
        if (!strcmp(p->name, "pos_embed")) continue;
        assert_memory_equal(tensor(to, p->name, p->numel), from->w + p->offset, p->numel * sizeof(float));
    }
    small.local_blocks = 1;
    vt_model *other = model(&small);
    t_says(vt_adapt(other, from, &how, 1, &e), VT_E_SHAPE, &e, "local_blocks is 2", "has 1");
    vt_model_close(from), vt_model_close(to), vt_model_close(other);
}

/* ---- refusals ---- */

static void test_configs(void **state) {
    (void)state;
    const vt_config good = config(12);
    vt_err e = {0};
    vt_config c = good;
    assert_int_equal(vt_config_check(&c, "x", &e), VT_OK);
#define BAD(assignment, status, what)                                                                                  \
    c = good, c.assignment;                                                                                            \
    t_says(vt_config_check(&c, "x", &e), status, &e, "x: ", what)
    BAD(local_blocks = 0, VT_E_RANGE, "local_blocks is 0, must be between 1 and 2");
    BAD(local_blocks = DEPTH, VT_E_RANGE, "local_blocks is 3");
    BAD(dist_token = true, VT_E_SHAPE, "no distillation token");
    BAD(registers = 1, VT_E_SHAPE, "no register tokens");
    BAD(no_cls = true, VT_E_SHAPE, "no form without class token");
    BAD(pool = VT_POOL_AVG, VT_E_SHAPE, "by the class token");
    BAD(patch_gate = true, VT_E_SHAPE, "no patch gate");
    BAD(norm_pre = true, VT_E_SHAPE, "no norm before the first block");
    BAD(no_patch_bias = true, VT_E_SHAPE, "without bias");
    BAD(qk_norm = true, VT_E_SHAPE, "no q/k norm");
    c = good, c.post_norm = true, c.norm = VT_NORM_NONE;
    t_says(vt_config_check(&c, "x", &e), VT_E_SHAPE, &e, "x: post_norm", "exclude");
#undef BAD
}

/* A file of this model with one tensor renamed, left out (to: "") or of another shape (sides of it, or {0}). */
static void refused(const char *name, const char *to, const int64_t shape[4], vt_status want, const char *what) {
    vt_config c = config(12);
    vt_model *m = model(&c), *got;
    vt_tensor t[128];
    int n = 0;
    vt_err e = {0};
    char path[] = "/tmp/vitrine-convit-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && m->params.count <= 128);
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        bool this = !strcmp(p->name, name);
        if (this && to && !*to) continue;
        t[n] = (vt_tensor){.name = this && to ? to : p->name,
                           .dtype = VT_F32,
                           .ndim = p->ndim,
                           .numel = p->numel,
                           .data = m->w + p->offset};
        memcpy(t[n].shape, p->shape, sizeof p->shape);
        if (this && shape)
            for (t[n].ndim = 0, t[n].numel = 1; t[n].ndim < 4 && shape[t[n].ndim]; t[n].ndim++)
                t[n].shape[t[n].ndim] = shape[t[n].ndim], t[n].numel *= (size_t)shape[t[n].ndim];
        n++;
    }
    assert_int_equal(vt_tensors_write(path, t, n, (const char *const[]){"mean", "0,0,0", "std", "1,1,1"}, 2, &e),
                     VT_OK);
    t_says(vt_model_open(&got, path, NULL, &e), want, &e, path, what);
    remove(path);
    vt_model_close(m);
}

static void test_files(void **state) {
    (void)state;
    refused("pos_embed", NULL, (int64_t[4]){1, 8, DIM}, VT_E_SHAPE, "no square of patches");
    refused("blocks.0.attn.gating_param", "", NULL, VT_E_FORMAT, "blocks.0.attn.gating_param is missing");
    refused("blocks.1.attn.gating_param", "", NULL, VT_E_FORMAT, "blocks.1.attn.gating_param is missing");
    refused("blocks.1.attn.pos_proj.weight", "", NULL, VT_E_FORMAT, "blocks.1.attn.qkv.weight is missing");
    refused("blocks.1.attn.pos_proj.weight", "blocks.2.attn.pos_proj.weight", NULL, VT_E_FORMAT,
            "blocks.1.attn.pos_proj.weight is missing");
    refused("blocks.2.attn.qkv.weight", "blocks.2.attn.pos_proj.weight", NULL, VT_E_RANGE, "local_blocks is 3");
    refused("blocks.0.attn.gating_param", NULL, (int64_t[4]){5}, VT_E_SHAPE, "5 heads");
    refused("patch_embed.proj.weight", NULL, (int64_t[4]){DIM, 3, 4, 2}, VT_E_SHAPE, "[dim,3,patch,patch]");
    refused("cls_token", "dist_token", NULL, VT_E_FORMAT, "cls_token is missing");
}

static int setup(void **state) {
    (void)state;
    vt_blas_single_thread();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_local_init), cmocka_unit_test(test_roles),  cmocka_unit_test(test_tied_roles),
        cmocka_unit_test(test_am),         cmocka_unit_test(test_resize), cmocka_unit_test(test_configs),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests_name("convit", tests, setup, NULL);
}
