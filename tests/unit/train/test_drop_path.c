/* SPDX-License-Identifier: MIT */
/* Stochastic depth. The computation, in double: a branch multiplied by u is the branch of a network whose last weights
 * (or factors) are multiplied by u, of which sessions without drops are the judge; the weights' gradient is u times
 * that network's. The draws: rates by block, what they depend on. */
#define VT_DOUBLE
#include "base/real.h"
#include "toy.h"

#include "linalg/gemm.h"
#include "models/forms.h"
#include "models/net/session.h"
#include "models/vit.h"
#include "models/xcit.h"
#include "train/augment.h"

enum { B = 3, SIDE = 24, PIXELS = 3 * SIDE * SIDE, CLASSES = 4 };

/* ---- networks ---- */

typedef struct network {
    const char *arch, *forms;
    int depth;
} network;

static const network networks[] = {
    {"vit", "", 3},
    {"vit", "post_norm=1 norm=center", 2},
    {"vit", "factor=layer_scale pool=avg", 2},
    {"vit", "factor=layer_scale proj=none", 2},
    {"convit", "local_blocks=1", 3},
    {"swin", "pool=avg norm_first=1 no_cls=1 stages=2 stage_depth=2,2 stage_heads=3,6 window=3", 4},
    {"xcit", "class_blocks=2 tokens_norm=1 eta=0.5", 2},
};

static vt_model *model_of(const network *n) {
    vt_err e = {0};
    vt_config c = toy_config("dot", VT_POOL_TOKEN, false, true);
    snprintf(c.arch, sizeof c.arch, "%s", n->arch);
    c.image = SIDE, c.patch = strcmp(n->arch, "swin") ? 8 : 4, c.depth = n->depth, c.classes = CLASSES;
    if (!strcmp(n->arch, "convit")) c.qkv_bias = false;
    if (vt_form_parse(&c, n->forms, n->arch, &e) != VT_OK) fail_msg("%s", e.text);
    vt_model *m = NULL;
    if (vt_model_new(&m, &c, &e) != VT_OK) fail_msg("%s %s: %s", n->arch, n->forms, e.text);
    assert_int_equal(vt_model_init(m, 1), VT_OK);
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        double *z = malloc(p->numel * sizeof *z);
        t_normals(z, p->numel, 40 + (uint64_t)i, 0.3);
        for (size_t k = 0; k < p->numel; k++)
            m->w[p->offset + k] = p->buffer ? 0.5f + fabsf((float)z[k]) : m->w[p->offset + k] + (float)z[k];
        free(z);
    }
    vt_model_refresh(m);
    return m;
}

/* The branch that the tensor ends, -1: none. A branch with a factor ends in it. */
static int branch_of(const vt_model *m, const vt_param *p) {
    const bool xcit = !strcmp(m->config.arch, "xcit"), factor = xcit || m->config.factor;
    if (strncmp(p->name, "blocks.", 7) && strncmp(p->name, "layers.", 7)) return -1;
    if (strstr(p->name, "downsample")) return -1;
    if (p->slot == VT_SLOT_FACTOR1 || (!factor && (p->slot == VT_SLOT_PROJ_W || p->slot == VT_SLOT_PROJ_B)))
        return VT_BRANCH_ATTN;
    if (p->slot == VT_SLOT_FACTOR2 || (!factor && (p->slot == VT_SLOT_FC2_W || p->slot == VT_SLOT_FC2_B)))
        return VT_BRANCH_MLP;
    return xcit && p->slot == VT_LPI_FACTOR ? VT_BRANCH_LPI : -1;
}

/* ---- the computation ---- */

typedef struct answer {
    double logits[B * CLASSES], dx[B * PIXELS], *grad;
} answer;

static void run(answer *a, const vt_model *m, const double *x, int images, const double *drop, const double *master) {
    static const double cotangent[CLASSES] = {1, -0.5, 0.25, -2};
    vt_session_f64 *s;
    vt_err e = {0};
    double dz[B * CLASSES];
    assert_int_equal(vt_session_open_f64(&s, m, images, VT_GRAD_PARAMS, &e), VT_OK);
    s->drop = drop, s->master = master;
    a->grad = calloc(m->params.total, sizeof *a->grad);
    memcpy(a->logits, vt_session_forward_f64(s, x, images, true), (size_t)(images * CLASSES) * sizeof(double));
    for (int i = 0; i < images * CLASSES; i++) dz[i] = cotangent[i % CLASSES];
    vt_session_backward_f64(s, dz, a->dx, a->grad);
    vt_session_close_f64(s);
}

/* Roundings of double in networks of a hundred products. */
static const double TOL = 1e-12;

static void close_to(const double *got, const double *want, size_t n, double most, const char *what,
                     const network *net) {
    for (size_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= TOL * most))
            fail_msg("%s %s, %s %zu: %.17g, not %.17g", net->arch, net->forms, what, i, got[i], want[i]);
}

static void check(const network *net) {
    static const double factors[] = {0, 1, 1.25, 2};
    vt_model *m = model_of(net);
    size_t total = m->params.total;
    double *x = toy_images(m, B, 5), *want = calloc(total, sizeof *want), *master = malloc(total * sizeof *master);
    double *drop = malloc((size_t)m->params.layers * VT_BRANCHES * B * sizeof *drop);
    answer all, one;
    int scaled = 0;
    for (int i = 0; i < m->params.layers * VT_BRANCHES * B; i++) drop[i] = 1;
    for (int i = 0, draw = 0; i < m->params.count; i++)
        for (int k = 0; branch_of(m, &m->params.items[i]) >= 0 && k < B; k++, scaled++)
            drop[(m->params.items[i].layer * VT_BRANCHES + branch_of(m, &m->params.items[i])) * B + k] =
                factors[draw++ * 7 % 10 % 4];
    assert_true(scaled >= 2 * B * net->depth);
    run(&all, m, x, B, drop, NULL);
    for (int k = 0; k < B; k++) {
        double *u = malloc(total * sizeof *u);
        for (int i = 0; i < m->params.count; i++) {
            const vt_param *p = &m->params.items[i];
            int branch = branch_of(m, p);
            for (size_t j = p->offset; j < p->offset + p->numel; j++) {
                u[j] = branch < 0 ? 1 : drop[(p->layer * VT_BRANCHES + branch) * B + k];
                master[j] = u[j] * (double)m->w[j];
            }
        }
        run(&one, m, x + k * PIXELS, 1, NULL, master);
        close_to(all.logits + k * CLASSES, one.logits, CLASSES, t_max(one.logits, CLASSES), "logit", net);
        close_to(all.dx + k * PIXELS, one.dx, PIXELS, t_max(one.dx, PIXELS), "pixel", net);
        for (int i = 0; i < m->params.count; i++)
            for (size_t j = m->params.items[i].offset, n = j + m->params.items[i].numel; j < n; j++)
                want[j] += u[j] * one.grad[j];
        free(one.grad), free(u);
    }
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        if (!p->buffer) close_to(all.grad + p->offset, want + p->offset, p->numel, t_max(want, total), p->name, net);
    }
    free(all.grad), free(x), free(want), free(master), free(drop);
    vt_model_close(m);
}

static void test_networks(void **state) {
    (void)state;
    for (size_t i = 0; i < T_COUNT(networks); i++) check(&networks[i]);
}

/* ---- the draws ---- */

/* How often block b's branch is left out among n images, and that what stays is divided by the probability. */
static int dropped(const float *drop, int layer, int branch, int n, double p) {
    int zeros = 0;
    for (int i = 0; i < n; i++) {
        float u = drop[(layer * VT_BRANCHES + branch) * n + i];
        assert_true(u == 0 || u == (float)(1 / (1 - p)));
        zeros += u == 0;
    }
    return zeros;
}

static void test_rates(void **state) {
    (void)state;
    enum { N = 4000 };
    const double rate = 0.4;
    for (size_t i = 0; i < T_COUNT(networks); i++) {
        const network *net = &networks[i];
        vt_model *m = model_of(net);
        float *drop = malloc(vt_drop_path_len(m, N) * sizeof *drop);
        for (int k = 0; k < N; k++) vt_drop_path_draw(drop, m, rate, k, N, 1, k, 3, 0);
        int blocks = 0;
        for (int layer = 0, last = -1; layer < m->params.layers; layer++) {
            int branch = -1;
            for (int t = 0; t < m->params.count; t++)
                if (m->params.items[t].layer == layer && branch_of(m, &m->params.items[t]) >= 0) branch = layer;
            if (branch < 0) { /* no block: nothing is left out */
                for (int k = 0; k < VT_BRANCHES; k++) assert_int_equal(dropped(drop, layer, k, N, 0), 0);
                continue;
            }
            assert_true(layer > last), last = layer;
            double p = strcmp(net->arch, "xcit") ? rate * blocks / (net->depth - 1) : rate; /* torch.linspace */
            for (int k = 0; k < VT_BRANCHES; k++) /* 4 standard deviations of a binomial */
                t_le(fabs(dropped(drop, layer, k, N, p) - N * p), 4 * sqrt(N * p * (1 - p)), "%s, layer %d", net->arch,
                     layer);
            blocks++;
        }
        assert_int_equal(blocks, net->depth);
        free(drop);
        vt_model_close(m);
    }
}

/* On seed, image, step (64 bits) and view; not on where in which batch the image stands. */
static void test_keys(void **state) {
    (void)state;
    const vt_model *m = model_of(&networks[4]);
    size_t n = vt_drop_path_len(m, 1);
    float a[200], b[200], two[400];
    assert_true(n <= T_COUNT(a));
    const struct {
        uint64_t seed;
        int64_t id, step;
        int view;
    } keys[] = {{2, 5, 9, 0}, {1, 6, 9, 0}, {1, 5, 10, 0}, {1, 5, 9, 1}, {1, 5, 9 + (INT64_C(1) << 32), 0}};
    int differ[T_COUNT(keys)] = {0};
    vt_drop_path_draw(a, m, 0.5, 0, 1, 1, 5, 9, 0);
    vt_drop_path_draw(two, m, 0.5, 1, 2, 1, 5, 9, 0);
    for (size_t i = 0; i < n; i++) assert_true(a[i] == two[2 * i + 1]);
    for (int try = 0; try < 8; try++) /* 6 draws of a half and 3 of a quarter each: one in 700 is the same by chance */
        for (size_t k = 0; k < T_COUNT(keys); k++) {
            vt_drop_path_draw(a, m, 0.5, 0, 1, 1, 5 + 100 * try, 9, 0);
            vt_drop_path_draw(b, m, 0.5, 0, 1, keys[k].seed, keys[k].id + 100 * try, keys[k].step, keys[k].view);
            differ[k] += memcmp(a, b, n * sizeof *a) != 0;
        }
    for (size_t k = 0; k < T_COUNT(keys); k++) assert_true(differ[k] >= 6);
    vt_model_close((vt_model *)m);
}

int main(void) {
    vt_blas_single_thread();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_networks), cmocka_unit_test(test_rates),
                                       cmocka_unit_test(test_keys)};
    return cmocka_run_group_tests_name("drop_path", tests, NULL, NULL);
}
