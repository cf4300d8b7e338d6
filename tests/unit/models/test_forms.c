/* SPDX-License-Identifier: MIT */
/* Every form of every architecture, one row each: gradients in double against central differences, float against
 * double, all modes of a session, ARD, save and reload. Then the same forms against what PyTorch computed
 * (tests/fixtures/gen_forms.py). An architecture adds rows here. The table of forms itself: test_form_table.c. */
#include "export_fixture.h"
#include "forms_fixture.h"

#include "base/files.h"
#include "models/forms.h"
#include "models/net/session.h"

enum { MAX_OUT = 64 };

/* ---- the table ---- */

/* The same with nine patches. */
static vt_config nine_patches(void) {
    vt_config c = small_vit();
    c.image = 12;
    return c;
}

/* The same with sixteen patches. */
static vt_config many_patches(void) {
    vt_config c = small_vit();
    c.image = 16;
    return c;
}

/* The same with patches of 2: a stem of one convolution. */
static vt_config half_patches(void) {
    vt_config c = small_vit();
    c.image = 4, c.patch = 2;
    return c;
}

/* Four blocks. */
static vt_config deep_vit(void) {
    vt_config c = small_vit();
    c.depth = 4;
    return c;
}

/* An XCiT of 24 x 24 pixels, 3 x 3 tokens behind a stem of three convolutions. */
static vt_config small_xcit(void) {
    vt_config c = small_vit();
    snprintf(c.arch, sizeof c.arch, "xcit");
    c.image = 24, c.patch = 8, c.dim = 8, c.heads = 2;
    return c;
}

/* Four convolutions, 4 x 4 tokens of 16 x 16 pixels by the strides of the row. */
static vt_config fine_xcit(void) {
    vt_config c = small_xcit();
    c.image = 16, c.patch = 16;
    return c;
}

/* A ConViT of nine patches and four blocks. */
static vt_config small_convit(void) {
    vt_config c = nine_patches();
    strcpy(c.arch, "convit");
    c.depth = 4, c.ln_eps = 1e-6;
    return c;
}

/* A Swin of two stages, 6 and 3 tokens a side: windows of 4, shifted and padded, then one of 3. */
static vt_config small_swin(void) {
    vt_config c = small_vit();
    strcpy(c.arch, "swin");
    c.image = 12, c.patch = 2, c.dim = 8, c.depth = 3, c.heads = 2, c.pool = VT_POOL_AVG;
    c.norm_first = c.no_cls = true, c.stages = 2, c.window = 4;
    c.stage_depth[0] = c.stage_heads[0] = c.stage_heads[1] = 2, c.stage_depth[1] = 1;
    return c;
}

/* The same with whole windows of 3, which leave the side of the image open. */
static vt_config even_swin(void) {
    vt_config c = small_swin();
    c.window = 3;
    return c;
}

typedef struct row {
    const char *forms; /* key=value of models/forms; also the row's name */
    vt_config (*base)(void);
    bool dist, no_bias;
} row;

static const row rows[] = {
    {"", small_vit, false, false},
    {"", small_vit, true, true},
    {"post_norm=1 act=relu", small_vit, false, false},
    {"post_norm=1 pool=avg final_norm=none", small_vit, false, true},
    {"post_norm=1 norm=batch pool=all act=gelu_tanh", small_vit, false, false},
    {"norm=batch final_norm=batch pool=all act=relu", small_vit, false, false},
    {"norm=batch final_norm=layer norm_pre=1", small_vit, true, false},
    {"norm=none final_norm=none act=gelu_tanh", small_vit, false, true},
    {"norm=none final_norm=layer pool=avg norm_first=1", small_vit, false, false},
    {"norm=center final_norm=center factor=alpha init=spectral", small_vit, false, false},
    {"norm=center final_norm=center factor=alpha post_norm=1 init=spectral", small_vit, true, false},
    {"factor=layer_scale factor_start=0.25", small_vit, false, false},
    {"factor=layer_scale factor_start=0.25 post_norm=1 pool=avg", small_vit, false, true},
    {"qk_norm=1", small_vit, false, false},
    {"qk_norm=1 post_norm=1 norm=batch factor=layer_scale factor_start=1", small_vit, false, true},
    {"registers=3", small_vit, false, false},
    {"registers=2 no_embed_class=1 pool=avg", small_vit, false, false},
    /* 9 positions: of 4 patches and 5 tokens before them, or of 9 patches alone */
    {"registers=4 pool=all norm_first=1", small_vit, false, false},
    {"registers=4 no_embed_class=1", nine_patches, false, false},
    {"no_embed_class=1", small_vit, false, false},
    {"no_cls=1 pool=avg", small_vit, false, false},
    {"no_cls=1 pool=all norm_first=1 factor=layer_scale factor_start=0.5", small_vit, false, false},
    {"no_cls=1 registers=1 pool=avg norm_pre=1 no_patch_bias=1", small_vit, false, false},
    {"norm_pre=1 no_patch_bias=1", small_vit, false, false},
    {"tied_qk=1", small_vit, false, false},
    {"tied_qk=1 post_norm=1 act=relu norm=center final_norm=none pool=avg", small_vit, false, true},
    {"native=5", small_vit, false, false},
    {"native=11 native_filter=bicubic_aa bgr=1", small_vit, true, false},
    {"bgr=1", small_vit, false, true},
    {"local_blocks=2", small_convit, false, true},
    {"native=7 native_filter=bicubic bgr=1 local_blocks=2", small_convit, false, true},
    {"act=relu final_norm=none local_blocks=1", small_convit, false, false},
    {"norm=center final_norm=center post_norm=1 factor=alpha init=spectral local_blocks=2", small_convit, false, true},
    {"norm=batch tied_qk=1 factor=layer_scale factor_start=0.25 local_blocks=2", small_convit, false, false},
    {"class_blocks=2 tokens_norm=1 eta=0.5", small_xcit, false, false},
    {"class_blocks=3 act=gelu_tanh norm=center final_norm=center", small_xcit, false, true},
    {"native=9 native_filter=bilinear_aa bgr=1 class_blocks=2", small_xcit, false, false},
    {"class_blocks=2 stem_stride=1,1,2,2", fine_xcit, false, false},
    {"class_blocks=2 tokens_norm=1 tied_qk=1 stem_stride=2,1,2,1 act=relu", fine_xcit, false, true},
    {"", small_swin, false, false},
    {"act=relu stage_heads=2,4", even_swin, false, true},
    {"norm=batch final_norm=none act=gelu_tanh factor=layer_scale factor_start=0.25", small_swin, false, false},
    {"norm=center final_norm=center factor=alpha post_norm=1 no_shift=1 init=spectral", small_swin, false, false},
    {"norm=none final_norm=layer qk_norm=1", even_swin, false, false},
    {"post_norm=1 tied_qk=1", small_swin, false, true},
    {"norm_pre=1 act=quick_gelu", small_vit, false, false},
    {"conv_stem=3", small_vit, false, false},
    {"pool=token_avg norm_first=1", small_vit, false, false},
    {"pool=avg_token norm_first=1 registers=1", small_vit, false, false},
    {"pool=avg_token norm_first=1 head_layers=2", small_vit, false, true},
    {"pool=tokens norm_first=1 head_layers=2", small_vit, false, false},
    {"pool=tokens norm_first=1 head_layers=4 registers=2 norm=batch final_norm=batch", deep_vit, false, true},
    {"pool=token_avg norm_first=1 registers=2 no_embed_reg=1 factor=layer_scale factor_start=0.5", small_vit, false,
     true},
    {"pool=token_avg norm_first=1 head_layers=2 registers=1", small_vit, false, false},
    {"pool=token_avg norm_first=1 head_layers=3 norm=batch final_norm=batch act=quick_gelu", deep_vit, false, false},
    {"pool=token_avg norm_first=1 head_layers=3 conv_stem=3 post_norm=1 registers=4", deep_vit, false, false},
    {"pos_grid=5", small_vit, false, false},
    {"pos_grid=3 pos_filter=bicubic_aa registers=2 no_embed_reg=1", many_patches, false, false},
    {"pos_grid=7 pos_filter=bicubic_offset no_embed_class=1 conv_stem=3", nine_patches, false, false},
    {"registers=4 no_embed_reg=1", small_vit, false, false}, /* 5 positions, of 4 patches and a class token */
    /* 17 positions: of a class token and 16 patches, or of 9 patches and 8 tokens before them */
    {"registers=7 no_embed_reg=1", many_patches, false, false},
    {"registers=7", nine_patches, false, false},
    {"conv_stem=4 act=relu norm=batch pool=avg native=5 bgr=1", small_vit, false, true},
    {"conv_stem=5 no_embed_class=1 factor=layer_scale factor_start=0.25", half_patches, true, false},
    {"patch_norm=both", small_vit, false, true},
    {"patch_norm=in registers=2 norm_pre=1", small_vit, false, false},
    {"patch_norm=out no_cls=1 pool=avg norm_first=1", small_vit, false, false},
    {"positions=none", small_vit, true, false},
    {"positions=sincos no_cls=1 pool=avg patch_norm=both", nine_patches, false, true},
    {"positions=sincos_mae registers=2", nine_patches, false, false},
    {"positions=sincos_moco pool=all norm_pre=1", nine_patches, false, false},
    {"positions=sincos_timm no_cls=1 pool=avg norm_first=1", nine_patches, false, true},
    {"attn_dim=15", small_vit, true, false},
    {"attn_dim=24 proj=plain qk_norm=1 factor=layer_scale factor_start=0.5", small_vit, false, true},
    {"attn_dim=9 tied_qk=1 post_norm=1 pool=avg", small_vit, false, false},
    {"attn_dim=18 tied_qk=1 proj=plain", small_vit, false, true}, /* qkv [36,12], as of untied q, k, v */
    {"attn_dim=15 patch_norm=both pool=all norm_first=1 act=relu", small_vit, false, true},
    {"proj=none", small_vit, false, true},
    {"proj=none factor=layer_scale factor_start=0.5", small_vit, false, false},
    {"proj=none post_norm=1 pool=avg factor=alpha norm=center final_norm=center", small_vit, false, true},
    {"conv_stem=4 patch_norm=both attn_dim=15 proj=plain positions=sincos registers=2 pool=token_avg norm_first=1",
     small_vit, false, false},
};

/* Runs check on each row. Attention variants meet forms in test_combinations.c. */
static void each(void (*check)(vt_model *m, const char *name)) {
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        char name[160];
        vt_err e = {0};
        vt_config c = rows[i].base();
        c.dist_token = rows[i].dist, c.qkv_bias = !rows[i].no_bias;
        if (vt_form_parse(&c, rows[i].forms, "row", &e) != VT_OK) fail_msg("%s", e.text);
        snprintf(name, sizeof name, "%s %s%s%s", c.arch, rows[i].forms, c.dist_token ? " dist" : "",
                 c.qkv_bias ? "" : " no-bias");
        vt_model *m = model_of(&c, 11 + i);
        check(m, name);
        vt_model_close(m);
    }
}

static size_t pixels(const vt_model *m) { return vt_config_input_pixels(&m->config); }

static double *images(const vt_model *m, int n) {
    size_t len = (size_t)n * pixels(m);
    double *x = malloc(len * sizeof *x);
    vt_rng r = {.seed = 5, .purpose = 0x1A6E};
    for (size_t i = 0; i < len; i++) x[i] = (double)vt_rng_uniform(&r, i);
    return x;
}

static vt_session_f64 *open64(const vt_model *m, vt_grad_mode mode) {
    vt_session_f64 *s;
    vt_err e = {0};
    if (vt_session_open_f64(&s, m, B, mode, &e) != VT_OK) fail_msg("%s", e.text);
    return s;
}

static vt_session_f32 *open32(const vt_model *m, vt_grad_mode mode) {
    vt_session_f32 *s;
    vt_err e = {0};
    if (vt_session_open_f32(&s, m, B, mode, &e) != VT_OK) fail_msg("%s", e.text);
    return s;
}

static float *floats(const double *x, size_t n) {
    float *f = malloc((n + 1) * sizeof *f);
    for (size_t i = 0; i < n; i++) f[i] = (float)x[i];
    return f;
}

/* ---- gradients: the tolerance of t.h ---- */

typedef struct whole {
    vt_session_f64 *s;
    double *x, *w, cot[B * MAX_OUT]; /* images, weights, cotangent of the logits */
    size_t outputs;
} whole;

static double scalar(void *ctx) {
    whole *w = ctx;
    return t_dot(vt_session_forward_f64(w->s, w->x, B, false), w->cot, w->outputs);
}

/* One tensor along directions: single entries of small tensors; of larger ones 16 random sign vectors, which every
 * entry enters, and 16 entries. Of fourth order, because some variants are sharp; the step along a sign vector of n
 * entries is shortened by sqrt(n). */
static void check_param(whole *w, const vt_param *p, const double *grad, double top, const char *name) {
    enum { ALL = 32, SIGNS = 16, SINGLE = 16 };
    size_t n = p->numel;
    int tries = n <= ALL ? (int)n : SIGNS + SINGLE;
    double num[ALL], ana[ALL], *at = w->w + p->offset, *kept = malloc(n * sizeof *kept), *d = malloc(n * sizeof *d);
    vt_rng r = {.seed = 77, .purpose = vt_rng_purpose(p->name)};
    memcpy(kept, at, n * sizeof *kept);
    for (int k = 0; k < tries; k++) {
        bool signs = n > ALL && k < SIGNS;
        double h = 2 * T_GRAD_STEP / (signs ? sqrt((double)n) : 1), f[4];
        static const double along[4] = {1, -1, 2, -2};
        r.step = (uint32_t)k;
        for (size_t i = 0; i < n; i++) d[i] = signs ? (vt_rng_bits(&r, i) & 1 ? 1 : -1) : 0;
        if (!signs) d[n <= ALL ? (size_t)k : vt_rng_bits(&r, 0) % n] = 1;
        for (int i = 0; i < 4; i++) {
            for (size_t j = 0; j < n; j++) at[j] = kept[j] + along[i] * h * d[j];
            f[i] = scalar(w);
        }
        num[k] = (8 * (f[0] - f[1]) - (f[2] - f[3])) / (12 * h), ana[k] = t_dot(d, grad + p->offset, n);
        memcpy(at, kept, n * sizeof *kept);
    }
    free(kept), free(d);
    /* what shifts all keys alike moves no softmax: a gradient of zero, up to rounding */
    if (!strstr(p->name, "k_norm.bias") && !strstr(p->name, "attn.k.bias") && !strstr(p->name, "pos_proj.bias") &&
        !(t_norm(num, (size_t)tries) > 1e-4 * top))
        fail_msg("%s: %s has a zero numeric gradient", name, p->name);
    double diff = 0, size = fmax(t_norm(num, (size_t)tries), 1e-3 * top);
    for (int k = 0; k < tries; k++) diff += (num[k] - ana[k]) * (num[k] - ana[k]);
    t_le(sqrt(diff) / size, T_GRAD_TOL, "%s: gradient of %s", name, p->name);
}

static void check_gradients(vt_model *m, const char *name) {
    size_t total = m->params.total, len = B * pixels(m);
    double *grad = calloc(total, sizeof *grad), *dx = malloc(len * sizeof *dx), *w = malloc(total * sizeof *w);
    for (size_t i = 0; i < total; i++) w[i] = (double)m->w[i];
    whole a = {.s = open64(m, VT_GRAD_PARAMS), .x = images(m, B), .w = w, .outputs = B * (size_t)m->config.classes};
    t_normals(a.cot, a.outputs, 4, 1);
    a.s->master = w;
    vt_session_forward_f64(a.s, a.x, B, true);
    vt_session_backward_f64(a.s, a.cot, dx, grad);
    char what[200];
    snprintf(what, sizeof what, "%s: dx", name);
    t_grad(scalar, &a, a.x, len, dx, what);
    double top = t_max(grad, total);
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        for (size_t k = 0; p->buffer && k < p->numel; k++) assert_true(grad[p->offset + k] == 0);
        if (!p->buffer) check_param(&a, p, grad, top, name);
    }
    vt_session_close_f64(a.s);
    free(a.x), free(grad), free(dx), free(w);
}

static void test_gradients(void **state) {
    (void)state;
    each(check_gradients);
}

/* ---- sessions ---- */

/* Whatever a session is for: the same logits and dx, bit for bit; a repeated backward, and one for other logits in
 * between, change nothing. Double against float: as test_model.c has it, 10 products of at most 48 terms (3e-5, three
 * times that on the way back), and twice that for norms that divide by small deviations. */
static void check_modes(vt_model *m, const char *name) {
    size_t n = B * pixels(m), k = B * (size_t)m->config.classes, bytes = n * sizeof(double);
    double *x = images(m, B), *dx = malloc(bytes), *other = malloc(bytes), z[B * MAX_OUT], cot[B * MAX_OUT];
    double *grad = calloc(m->params.total, sizeof *grad);
    float *xf = floats(x, n), *dxf = malloc(n * sizeof *dxf), *cotf;
    t_normals(cot, k, 4, 1);
    cotf = floats(cot, k);
    for (int mode = VT_GRAD_NONE; mode <= VT_GRAD_PARAMS; mode++)
        for (int keep = 0; keep < 2; keep++) {
            vt_session_f64 *s = open64(m, (vt_grad_mode)mode);
            const double *got = vt_session_forward_f64(s, x, B, keep);
            if (mode == VT_GRAD_NONE && !keep) memcpy(z, got, k * sizeof *z);
            assert_memory_equal(got, z, k * sizeof *z);
            if (mode > VT_GRAD_NONE && keep) {
                vt_session_backward_f64(s, z, other, mode == VT_GRAD_PARAMS ? grad : NULL);
                vt_session_backward_f64(s, cot, other, mode == VT_GRAD_PARAMS ? grad : NULL);
                if (mode == VT_GRAD_INPUT) memcpy(dx, other, bytes);
                assert_memory_equal(dx, other, bytes);
            }
            vt_session_close_f64(s);
        }
    vt_session_f32 *f = open32(m, VT_GRAD_INPUT);
    const float *zf = vt_session_forward_f32(f, xf, B, true);
    for (size_t i = 0; i < k; i++) t_le(fabs((double)zf[i] - z[i]), 6e-5 * (1 + t_max(z, k)), "%s: float logit", name);
    vt_session_backward_f32(f, cotf, dxf, NULL);
    for (size_t i = 0; i < n; i++) t_le(fabs((double)dxf[i] - dx[i]), 2e-4 * t_max(dx, n), "%s: float dx", name);
    vt_session_close_f32(f);
    free(x), free(dx), free(other), free(grad), free(xf), free(dxf), free(cotf);
}

static void test_modes(void **state) {
    (void)state;
    each(check_modes);
}

/* ARD: with every branch open nothing changes; with one closed its weights get nothing, and dx does change. */
static void check_ard(vt_model *m, const char *name) {
    enum { MOST = 64 };
    int blocks = vt_model_blocks(m);
    assert_true(blocks > 0 && blocks <= MOST);
    size_t n = B * pixels(m), bytes = n * sizeof(double);
    double *x = images(m, B), *dx = malloc(bytes), *other = malloc(bytes), cot[B * MAX_OUT];
    double *grad = calloc(m->params.total, sizeof *grad);
    unsigned char open[MOST];
    memset(open, 1, sizeof open);
    t_normals(cot, T_COUNT(cot), 4, 1);
    vt_session_f64 *s = open64(m, VT_GRAD_PARAMS);
    vt_session_forward_f64(s, x, B, true);
    vt_session_backward_f64(s, cot, dx, NULL);
    s->branch_open = open;
    vt_session_backward_f64(s, cot, other, NULL);
    assert_memory_equal(dx, other, bytes);
    for (int b = 0; b < blocks; b++) {
        vt_matrix q;
        open[b] = 0;
        memset(grad, 0, m->params.total * sizeof *grad);
        vt_session_backward_f64(s, cot, other, grad);
        t_le(-t_rel(other, dx, n), -1e-6, "%s: closing block %d; minus the difference", name, b);
        for (int k = 0; k < blocks; k++) {
            assert_true(vt_model_matrix(m, k, VT_WEIGHT_Q, &q));
            assert_true((t_norm(grad + q.offset, (size_t)q.rows * (size_t)q.cols) > 0) == (k != b));
        }
        open[b] = 1;
    }
    vt_session_close_f64(s);
    free(x), free(dx), free(other), free(grad);
}

static void test_ard(void **state) {
    (void)state;
    each(check_ard);
}

/* ---- files ---- */

/* Same bytes in both files. */
static void same_file(const char *a, const char *b, const char *name) {
    char *x, *y;
    size_t n, k;
    vt_err e = {0};
    if (vt_file_read(a, (size_t)1 << 28, &x, &n, &e) != VT_OK || vt_file_read(b, (size_t)1 << 28, &y, &k, &e) != VT_OK)
        fail_msg("%s", e.text);
    if (n != k || memcmp(x, y, n)) fail_msg("%s: saved again, the file is another", name);
    free(x), free(y);
}

/* Saved and read without any option: the same form, the same tensors in the same places, the same bits, the same file.
 */
static void check_round_trip(vt_model *m, const char *name) {
    char a[200], b[200];
    vt_model *again;
    vt_err e = {0};
    if (vt_model_save(m, at("a.safetensors"), &e) != VT_OK) fail_msg("%s: %s", name, e.text);
    if (vt_model_open(&again, at("a.safetensors"), NULL, &e) != VT_OK) fail_msg("%s: %s", name, e.text);
    vt_forms_text(&m->config, a, sizeof a), vt_forms_text(&again->config, b, sizeof b);
    assert_string_equal(a, b);
    const vt_config *c = &m->config, *d = &again->config;
    assert_string_equal(c->arch, d->arch);
    assert_true(!strncmp(c->attn, d->attn, strlen(c->attn))); /* a variant's options may be written out */
    assert_true(c->image == d->image && c->depth == d->depth && c->heads == d->heads && c->hidden == d->hidden &&
                c->dist_token == d->dist_token && c->qkv_bias == d->qkv_bias);
    assert_true(c->ln_eps == d->ln_eps && c->attn_scale == d->attn_scale);
    assert_int_equal(m->params.total, again->params.total);
    assert_memory_equal(m->w, again->w, m->params.total * sizeof *m->w);
    assert_int_equal(vt_model_save(again, at("b.safetensors"), &e), VT_OK);
    same_file(at("a.safetensors"), at("b.safetensors"), name);
    vt_model_close(again);
}

static void test_round_trip(void **state) {
    (void)state;
    each(check_round_trip);
}

/* Written as an ONNX graph and read again. */
static void check_onnx(vt_model *m, const char *name) {
    double *x = images(m, B);
    export_check(m, at("a.onnx"), x, B, name);
    free(x);
}

static void test_onnx(void **state) {
    (void)state;
    each(check_onnx);
}

/* ---- against PyTorch ---- */

/* The fixture's shape (tests/fixtures/gen_forms.py) and its weights. */
static vt_model *judged(const char *form) {
    char key[80];
    vt_err e = {0};
    vt_config c = small_vit();
    c.dim = 8, c.heads = 2, c.hidden = 12, c.classes = 5;
    snprintf(key, sizeof key, "%s.eps", form);
    c.ln_eps = atof(vt_tensors_meta(ref, key));
    if (vt_form_parse(&c, vt_tensors_meta(ref, form), form, &e) != VT_OK) fail_msg("%s", e.text);
    vt_model *m;
    if (vt_model_new(&m, &c, &e) != VT_OK) fail_msg("%s: %s", form, e.text);
    snprintf(key, sizeof key, "%s.w", form);
    judge_weights(m, key);
    return m;
}

static void test_torch(void **state) {
    (void)state;
    int forms = 0;
    ref = reference_open("tests/fixtures/golden/forms.safetensors");
    for (int i = 0; vt_tensors_meta_key(ref, i); i++) {
        if (strchr(vt_tensors_meta_key(ref, i), '.')) continue; /* NAME.eps */
        vt_model *m = judged(vt_tensors_meta_key(ref, i));
        judge(m, vt_tensors_meta_key(ref, i), VT_GRAD_PARAMS);
        vt_model_close(m);
        forms++;
    }
    assert_int_equal(forms, 13);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),  cmocka_unit_test(test_modes),
        cmocka_unit_test(test_ard),        cmocka_unit_test_teardown(test_torch, close_ref),
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_onnx),
    };
    return cmocka_run_group_tests_name("forms", tests, setup, remove_tmp);
}
