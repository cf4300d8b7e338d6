/* SPDX-License-Identifier: MIT */
/* An engine's answers for an image have the same bits alone, in any batch and at any place of it, whoever the
 * neighbours are: logits and vjps, in every architecture, at a width where products of a batch choose other kernels
 * than those of one image. A session's own batch, which training uses, agrees to float rounding. What an engine
 * refuses. All of it in float32 and with products of inputs rounded to bfloat16. */
#include "ask.h"
#include "t.h"

#include "linalg/gemm.h"
#include "models/forms.h"
#include "models/net/session.h"

enum { SIDE = 32, PIXELS = 3 * SIDE * SIDE, CLASSES = 10, BATCH = 4, DIM = 192, DEPTH = 2, WIDEST = 4 * DIM };

static const struct {
    const char *arch, *forms;
    int patch;
} nets[] = {{"vit", "", 4},
            {"vit", "pool=avg norm_first=1", 4},
            {"convit", "local_blocks=1", 4},
            {"swin", "pool=avg norm_first=1 no_cls=1 stages=1 stage_depth=2 stage_heads=3 window=4", 4},
            {"xcit", "class_blocks=1 tokens_norm=1 eta=0.5", 8}};

static vt_model *network(size_t i) {
    vt_config c = {.image = SIDE,
                   .patch = nets[i].patch,
                   .dim = DIM,
                   .depth = DEPTH,
                   .heads = 3,
                   .hidden = WIDEST,
                   .classes = CLASSES,
                   .qkv_bias = true,
                   .ln_eps = 1e-6,
                   .attn_scale = 0.125,
                   .mean = {0.5, 0.5, 0.5},
                   .std = {0.25, 0.25, 0.25}};
    vt_err e = {0};
    vt_model *m;
    snprintf(c.arch, sizeof c.arch, "%s", nets[i].arch), snprintf(c.attn, sizeof c.attn, "dot");
    if (vt_form_parse(&c, nets[i].forms, nets[i].arch, &e) != VT_OK) fail_msg("%s", e.text);
    if (vt_model_new(&m, &c, &e) != VT_OK) fail_msg("%s: %s", nets[i].arch, e.text);
    assert_int_equal(vt_model_init(m, 5), VT_OK);
    float *noise = malloc(m->params.total * sizeof *noise);
    vt_rng_normals(&(vt_rng){.seed = 6, .purpose = 0x7E57}, noise, m->params.total);
    for (int k = 0; k < m->params.count; k++) {
        const vt_param *p = &m->params.items[k];
        for (size_t j = p->offset; j < p->offset + p->numel; j++) m->w[j] += p->buffer ? 0 : 0.05f * noise[j];
    }
    free(noise);
    if (vt_model_prepare(m, &e) != VT_OK) fail_msg("%s", e.text);
    return m;
}

static float x[BATCH][PIXELS], dx[BATCH][PIXELS], alone[BATCH][PIXELS], cot[BATCH * CLASSES];

static int draw(void **state) {
    (void)state;
    vt_blas_single_thread();
    for (size_t i = 0; i < BATCH; i++)
        for (uint64_t k = 0; k < PIXELS; k++)
            x[i][k] = vt_rng_uniform(&(vt_rng){.seed = 3, .purpose = 0x7E57, .image = (uint32_t)i}, k);
    vt_rng_normals(&(vt_rng){.seed = 4, .purpose = 0x7E57}, cot, BATCH * CLASSES);
    return 0;
}

static void ask(const vt_engine *n, const int *images, int b, float *z, float *const *out) {
    const float *at[BATCH] = {0};
    float *to[BATCH] = {0};
    vt_err e = {0};
    for (int i = 0; i < b; i++) at[i] = x[images[i]], to[i] = z + i * CLASSES;
    if (vt_engine_forward(n, to, at, true, &e) != VT_OK) fail_msg("%s", e.text);
    for (int round = 0; round < 2; round++) { /* as often as wanted */
        vt_vjp rows[BATCH] = {0};
        for (int i = 0; i < b; i++) rows[i] = (vt_vjp){.dx = out[i], .dz = cot + images[i] * CLASSES};
        if (vt_engine_vjp(n, rows, &e) != VT_OK) fail_msg("%s", e.text);
    }
}

static const vt_products rounding; /* emulated: no processor is asked for */

static void same_bits(const vt_products *by) {
    static const int orders[][BATCH] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 1, 3, 1}, {2, 0, 2, 3}};
    for (size_t net = 0; net < T_COUNT(nets); net++) {
        vt_model *m = network(net);
        vt_engine one, many;
        vt_err e = {0};
        float z[BATCH * CLASSES], want[BATCH][CLASSES];
        assert_int_equal(vt_engine_open(&one, m, 1, false, by, &e), VT_OK);
        assert_int_equal(vt_engine_open(&many, m, BATCH, false, by, &e), VT_OK);
        for (int i = 0; i < BATCH; i++) ask(&one, &i, 1, want[i], &(float *){alone[i]});
        assert_true(memcmp(want[0], want[1], sizeof want[0]) != 0 && memcmp(alone[0], alone[1], sizeof alone[0]) != 0);
        for (size_t o = 0; o < T_COUNT(orders); o++)
            for (int b = 1; b <= BATCH; b++) {
                memset(dx, 0x7F, sizeof dx);
                float *out[BATCH] = {dx[0], dx[1], b == BATCH ? NULL : dx[2], dx[3]}; /* one that nobody wants */
                ask(&many, orders[o], b, z, out);
                for (int i = 0; i < b; i++) {
                    assert_memory_equal(z + i * CLASSES, want[orders[o][i]], sizeof want[0]);
                    if (out[i]) assert_memory_equal(out[i], alone[orders[o][i]], sizeof alone[0]);
                }
            }
        vt_engine_close(&one), vt_engine_close(&many), vt_model_close(m);
    }
}

static void same_bits_float32(void **state) {
    (void)state;
    same_bits(NULL);
}

static void same_bits_rounded(void **state) {
    (void)state;
    same_bits(&rounding);
}

/* Rounded products move logits and gradients, by an amount that rounding explains: 4 DEPTH + 2 products deep, 2^-7 of
 * the terms' size each (both inputs are within 2^-8), relative to the largest of each kind and twice over on the way
 * back; and the float32 engine beside it stays what it was. */
static void rounded(void **state) {
    (void)state;
    const double tol = 2 * (4 * DEPTH + 2) * 0x1p-7;
    for (size_t net = 0; net < T_COUNT(nets); net++) {
        vt_model *m = network(net);
        vt_engine exact, coarse;
        vt_err e = {0};
        float z[CLASSES], want[CLASSES], again[CLASSES];
        const int image = 1;
        assert_int_equal(vt_engine_open(&exact, m, 1, false, NULL, &e), VT_OK);
        assert_int_equal(vt_engine_open(&coarse, m, 1, false, &rounding, &e), VT_OK);
        ask(&exact, &image, 1, want, &(float *){alone[0]});
        ask(&coarse, &image, 1, z, &(float *){dx[0]});
        ask(&exact, &image, 1, again, &(float *){alone[1]});
        assert_memory_equal(again, want, sizeof want);
        assert_memory_equal(alone[1], alone[0], sizeof alone[0]);
        double top = 0, off = 0, steepest = 0, bent = 0;
        for (int k = 0; k < CLASSES; k++)
            top = fmax(top, fabs((double)want[k])), off = fmax(off, fabs((double)z[k] - (double)want[k]));
        for (int k = 0; k < PIXELS; k++)
            steepest = fmax(steepest, fabs((double)alone[0][k])),
            bent = fmax(bent, fabs((double)dx[0][k] - (double)alone[0][k]));
        if (!(off > 0 && bent > 0)) fail_msg("%s: nothing was rounded", nets[net].arch);
        t_le(off, tol * top, "%s: logits of rounded products", nets[net].arch);
        t_le(bent, tol * steepest, "%s: gradients of rounded products", nets[net].arch);
        vt_engine_close(&exact), vt_engine_close(&coarse), vt_model_close(m);
    }
}

/* A logit lies 4 DEPTH + 2 products deep, each a sum of at most WIDEST terms that float rounds to within WIDEST 2^-24
 * of the terms' size; three times that on the way back. Relative to the largest of each kind. */
static void session_batch(void **state) {
    (void)state;
    const double tol = (4 * DEPTH + 2) * WIDEST * 0x1p-24;
    for (size_t net = 0; net < T_COUNT(nets); net++) {
        vt_model *m = network(net);
        vt_session_f32 *s;
        vt_engine one;
        vt_err e = {0};
        float want[CLASSES], z[BATCH * CLASSES];
        assert_int_equal(vt_engine_open(&one, m, 1, false, NULL, &e), VT_OK);
        assert_int_equal(vt_session_open_f32(&s, m, BATCH, VT_GRAD_INPUT, &e), VT_OK);
        memcpy(z, vt_session_forward_f32(s, x[0], BATCH, true), sizeof z);
        vt_session_backward_f32(s, cot, dx[0], NULL);
        for (int i = 0; i < BATCH; i++) {
            double off = 0, size = 0, off_dx = 0, size_dx = 0;
            ask(&one, &i, 1, want, &(float *){alone[i]});
            for (int k = 0; k < CLASSES; k++) {
                off = fmax(off, fabs((double)z[i * CLASSES + k] - (double)want[k]));
                size = fmax(size, fabs((double)want[k]));
            }
            for (int k = 0; k < PIXELS; k++) {
                off_dx = fmax(off_dx, fabs((double)dx[i][k] - (double)alone[i][k]));
                size_dx = fmax(size_dx, fabs((double)alone[i][k]));
            }
            t_le(off, tol * size, "%s: logits of image %d", nets[net].arch, i);
            t_le(off_dx, 3 * tol * size_dx, "%s: gradient of image %d", nets[net].arch, i);
        }
        vt_session_close_f32(s), vt_engine_close(&one), vt_model_close(m);
    }
}

/* The vjp with the mask of attention branches and with a loss of attention is the classifier's gradient: bits, since
 * both are one code, and values that differ from the plain ones. Each row has its own. */
static void extras(void **state) {
    (void)state;
    vt_model *m = network(0);
    vt_engine n;
    vt_classifier c;
    vt_err e = {0};
    const unsigned char open[DEPTH] = {1, 0};
    float z[3][CLASSES], value;
    const vt_attn_loss a = {.patch = 5, .last = DEPTH - 1, .weight = 2};
    vt_vjp asked[] = {{.dx = dx[0], .dz = cot},
                      {.dx = dx[1], .dz = cot, .open = open},
                      {.dx = dx[2], .dz = cot, .attention = &a}};
    assert_int_equal(vt_engine_open(&n, m, 3, false, NULL, &e), VT_OK);
    assert_int_equal(vt_classifier_open(&c, m, &e), VT_OK);
    assert_int_equal(vt_engine_tokens(&n, 2).layers, DEPTH);
    float *to[] = {z[0], z[1], z[2]};
    const float *at[] = {x[0], x[0], x[0]};
    assert_int_equal(vt_engine_forward(&n, to, at, true, &e), VT_OK);
    assert_int_equal(vt_engine_vjp(&n, asked, &e), VT_OK);
    for (size_t i = 0; i < T_COUNT(asked); i++) {
        vt_loss loss = {.kind = VT_LOSS_LINEAR, .target = cot, .open = asked[i].open, .attention = asked[i].attention};
        ask_logits(&c, x[0], z[0], true);
        ask_backward(&c, &loss, &value, alone[0]);
        assert_memory_equal(dx[i], alone[0], sizeof alone[0]);
        if (i) assert_true(memcmp(dx[i], dx[0], sizeof dx[0]) != 0);
    }
    vt_tokens seen = vt_engine_tokens(&n, 2);
    assert_true(asked[2].attention_value != 0 && asked[2].attention_value == seen.loss(seen.self, &a));
    vt_classifier_close(&c), vt_engine_close(&n), vt_model_close(m);
}

/* In double as a session in double, beside what is kept. */
static void doubles(void **state) {
    (void)state;
    vt_model *m = network(0);
    vt_engine n, unjudged;
    vt_classifier c;
    vt_err e = {0};
    double z64[2][CLASSES], want[CLASSES];
    float z[CLASSES];
    const float *at[] = {NULL, x[1]};
    assert_int_equal(vt_engine_open(&n, m, 2, true, NULL, &e), VT_OK);
    assert_int_equal(vt_engine_open(&unjudged, m, 2, false, NULL, &e), VT_OK);
    assert_int_equal(vt_classifier_open(&c, m, &e), VT_OK);
    assert_int_equal(vt_engine_forward(&n, (float *[]){NULL, z}, at, true, &e), VT_OK);
    assert_int_equal(vt_engine_forward64(&n, (double *[]){NULL, z64[1]}, at, &e), VT_OK);
    assert_int_equal(vt_classifier_logits64(&c, x[1], want, &e), VT_OK);
    assert_memory_equal(z64[1], want, sizeof want);
    vt_vjp rows[] = {{0}, {.dx = dx[1], .dz = cot}};
    assert_int_equal(vt_engine_vjp(&n, rows, &e), VT_OK);
    t_says(vt_engine_forward64(&unjudged, (double *[]){NULL, z64[1]}, at, &e), VT_E_FORBIDDEN, &e, "no copy", "double");
    vt_classifier_close(&c), vt_engine_close(&n), vt_engine_close(&unjudged), vt_model_close(m);
}

static void refusals(void **state) {
    (void)state;
    vt_model *m = network(0), *blind = network(3);
    vt_engine n, swin;
    float z[2][CLASSES];
    const float *both[] = {x[0], x[1]}, *one[] = {x[0], NULL};
    float *to[] = {z[0], z[1]};
    const vt_attn_loss a = {.last = 0, .weight = 1};
    vt_vjp plain[] = {{.dx = dx[0], .dz = cot}, {0}}, other[] = {{0}, {.dx = dx[1], .dz = cot}},
           look[] = {{.dx = dx[0], .dz = cot, .attention = &a}, {0}};
    assert_int_equal(vt_engine_open(&n, m, 2, false, NULL, NULL), VT_OK);
    assert_int_equal(vt_engine_open(&swin, blind, 2, false, NULL, NULL), VT_OK);
    assert_int_equal(vt_engine_vjp(&n, plain, NULL), VT_E_FORBIDDEN);
    assert_int_equal(vt_engine_forward(&n, to, both, true, NULL), VT_OK);
    assert_int_equal(vt_engine_vjp(&n, look, NULL), VT_OK);
    assert_int_equal(vt_engine_forward(&n, to, one, true, NULL), VT_OK); /* forgets the other row */
    assert_int_equal(vt_engine_vjp(&n, plain, NULL), VT_OK);
    assert_int_equal(vt_engine_vjp(&n, other, NULL), VT_E_FORBIDDEN);
    assert_int_equal(vt_engine_forward(&n, to, both, false, NULL), VT_OK);
    assert_int_equal(vt_engine_vjp(&n, plain, NULL), VT_E_FORBIDDEN);
    assert_int_equal(vt_engine_forward(&swin, to, both, true, NULL), VT_OK);
    assert_int_equal(vt_engine_vjp(&swin, look, NULL), VT_E_RANGE);
    assert_null(vt_engine_tokens(&swin, 0).loss);
    vt_engine_close(&n), vt_engine_close(&swin), vt_engine_close(&swin);
    vt_model_close(m), vt_model_close(blind);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits_float32),
                                       cmocka_unit_test(same_bits_rounded),
                                       cmocka_unit_test(rounded),
                                       cmocka_unit_test(session_batch),
                                       cmocka_unit_test(extras),
                                       cmocka_unit_test(doubles),
                                       cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, draw, NULL);
}
