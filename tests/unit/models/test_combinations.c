/* SPDX-License-Identifier: MIT */
/* Every architecture with every attention variant: gradients in double of input and weights against central
 * differences, two steps of PGD, a step of adversarial training with the penalties, save and reload bit for bit; and
 * one-sentence refusals of what does not go together. An architecture adds one row to `archs`, a variant one to
 * `variants`: a registered one without a row fails. */
#define VT_DOUBLE
#include "base/real.h"
#include "export_fixture.h"
#include "recipe_fixture.h"
#include "session32.h"

#include "linalg/gemm.h"
#include "linalg/svd.h"
#include "tools/draw.h"
#include "models/arch.h"
#include "models/forms.h"
#include "models/net/session.h"
#include "train/inner.h"
#include "train/train.h"

double vt_loss_eval_f64(double *dz, const vt_loss *loss, const double *z, int classes);

enum { B = 2, SIDE = 32, PIXELS = 3 * SIDE * SIDE, CLASSES = 10 };

/* ---- the tables ---- */

/* 32 x 32 pixels (what is drawn to train on), ten classes, three heads of width 4. `refuses`: words of variants' rows
 * that this architecture has not; `ortho`: terms of that penalty, all by default; `plain`: it has no attention, and so
 * one head, hidden as wide as the stream, and none of the penalties. */
typedef struct arch {
    const char *name, *forms, *refuses[8], *ortho;
    int patch, depth;
    bool plain;
} arch;

static const arch archs[] = {
    {.name = "vit", .forms = "", .patch = 8, .depth = 2},
    /* a ConvStem, DINOv2's head and registers, OpenAI's activation */
    {.name = "vit",
     .forms = "conv_stem=4 act=quick_gelu registers=2 no_embed_reg=1 pool=token_avg norm_first=1 head_layers=2",
     .patch = 8,
     .depth = 2},
    /* vit-pytorch's: norms around the patch embedding, attention wider than the model */
    {.name = "vit",
     .forms = "patch_norm=both attn_dim=15 proj=plain positions=sincos",
     .ortho = "AM",
     .patch = 8,
     .depth = 2},
    {.name = "convit", .forms = "local_blocks=1", .patch = 8, .depth = 3},
    {.name = "swin", /* 4 tokens a side in windows of 3, shifted and padded; then one window of 2 */
     .forms = "pool=avg norm_first=1 no_cls=1 stages=2 stage_depth=2,2 stage_heads=3,6 window=3",
     .patch = 8,
     .depth = 4},
    /* factors of its own, pre-norm; the full form multiplies the query of every token, which only a tied one is */
    {.name = "xcit",
     .forms = "class_blocks=2 tokens_norm=1 eta=0.5",
     .refuses = {"factor", "post_norm", "l2:full=1"},
     .ortho = "LA",
     .patch = 8,
     .depth = 2},
    {.name = "shift", /* one channel for most of the nine steps, two for the rest */
     .forms = "pool=avg no_cls=1 norm=none final_norm=none",
     .refuses = {"tied_qk", "l2", "lipnorm", "scsa"},
     .patch = 8,
     .depth = 2,
     .plain = true},
};

typedef struct variant {
    const char *attn, *forms;
    bool no_bias;
} variant;

#define LIPSFORMER "norm=center final_norm=center factor=alpha init=spectral"
static const variant variants[] = {
    {"dot", "", false},
    {"dot", "tied_qk=1", false},
    {"l2", "", false},
    {"l2:tied=1", "tied_qk=1", false},
    {"l2:full=1", "", true},
    {"l2:tied=1,full=1", "tied_qk=1", true},
    {"lipnorm", "", false},
    {"lipnorm", "tied_qk=1", true},
    {"scsa", LIPSFORMER, false},
    {"scsa:nu=1.5,eps=0.001", "tied_qk=1", true},
    {"scsa:tau=4,nu=1", LIPSFORMER " post_norm=1", false},
};

static vt_config config(const arch *a, const variant *v) {
    vt_config c = {.image = SIDE,
                   .patch = a->patch,
                   .dim = 12,
                   .depth = a->depth,
                   .heads = a->plain ? 1 : 3,
                   .hidden = a->plain ? 12 : 10,
                   .classes = CLASSES,
                   .qkv_bias = !v->no_bias,
                   .ln_eps = 1e-5,
                   .attn_scale = 0.5,
                   .mean = {0.5, 0.5, 0.5},
                   .std = {0.25, 0.25, 0.25}};
    vt_attn_spec attn;
    vt_err e = {0};
    if (vt_attn_parse(&attn, v->attn, &e) != VT_OK) fail_msg("%s", e.text);
    snprintf(c.arch, sizeof c.arch, "%s", a->name), snprintf(c.attn, sizeof c.attn, "%s", attn.text);
    if (vt_form_parse(&c, a->forms, a->name, &e) != VT_OK) fail_msg("%s", e.text);
    if (vt_form_parse(&c, v->forms, v->attn, &e) != VT_OK) fail_msg("%s", e.text);
    return c;
}

static bool refused(const arch *a, const variant *v) {
    for (int i = 0; i < 8 && a->refuses[i]; i++)
        if (strstr(v->attn, a->refuses[i]) || strstr(v->forms, a->refuses[i])) return true;
    return false;
}

/* A model with a normal of size 0.2 on top of every first weight. */
static vt_model *model_of(const vt_config *c) {
    vt_model *m;
    vt_err e = {0};
    if (vt_model_new(&m, c, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(vt_model_init(m, 5), VT_OK);
    float *noise = malloc(m->params.total * sizeof *noise);
    vt_rng_normals(&(vt_rng){.seed = 6, .purpose = 0x7E57}, noise, m->params.total);
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        for (size_t k = p->offset; k < p->offset + p->numel; k++)
            m->w[k] = p->buffer ? m->w[k] : m->w[k] + 0.2f * noise[k];
    }
    free(noise);
    vt_model_refresh(m);
    return m;
}

/* Runs check on every legal combination; the others must be refused. */
static void each(void (*check)(vt_model *m, const char *name)) {
    int run = 0;
    for (size_t i = 0; i < T_COUNT(archs); i++)
        for (size_t k = 0; k < T_COUNT(variants); k++) {
            char name[160];
            vt_err e = {0};
            vt_config c = config(&archs[i], &variants[k]);
            snprintf(name, sizeof name, "%s %s %s", c.arch, c.attn, variants[k].forms);
            if (refused(&archs[i], &variants[k])) {
                if (vt_config_check(&c, name, &e) == VT_OK) fail_msg("%s was accepted", name);
                t_says(e.code, e.code, &e, name, ": ");
                continue;
            }
            if (vt_config_check(&c, name, &e) != VT_OK) fail_msg("%s", e.text);
            vt_model *m = model_of(&c);
            check(m, name);
            vt_model_close(m);
            run++;
        }
    assert_true(run >= (int)T_COUNT(variants));
}

static void test_registry(void **state) {
    (void)state;
    int n;
    const vt_arch *const *defs = vt_archs(&n);
    for (int i = 0; i < n; i++) {
        bool there = !strcmp(defs[i]->name, "onnx"); /* which has no configuration: tests/unit/graph */
        for (size_t k = 0; k < T_COUNT(archs); k++) there |= !strcmp(archs[k].name, defs[i]->name);
        if (!there) fail_msg("architecture %s has no row", defs[i]->name);
        const vt_arch_ops_f64 *ops = vt_arch_ops_find_f64(defs[i]->name);
        if (!ops) fail_msg("architecture %s has no operations: src/models/net/net_*.c", defs[i]->name);
        assert_int_equal(ops->view != NULL, defs[i]->shows_attention);
    }
    const vt_attn *const *attns = vt_attns(&n);
    for (int i = 0; i < n; i++) {
        bool there = false;
        for (size_t k = 0; k < T_COUNT(variants); k++) there |= vt_attn_find(variants[k].attn) == attns[i];
        if (!there) fail_msg("attention variant %s has no row", attns[i]->name);
    }
}

/* ---- gradients ---- */

typedef struct whole {
    vt_session_f64 *s;
    double *x, *w, cot[B * CLASSES];
} whole;

/* No softmax sees what moves whole rows of scores (a bias of keys alone in dot products), or q and k alike where
 * distances count. */
static bool unseen(const vt_model *m, const char *name) {
    bool tied = strstr(m->config.attn, "l2:tied=1"), dot = !strcmp(m->config.attn, "dot");
    return strstr(name, "attn.pos_proj.bias") || (dot && strstr(name, "attn.k.bias")) ||
           (tied && (strstr(name, "attn.qk.bias") || strstr(name, "attn.q.bias")));
}

static double scalar(const whole *a) {
    return t_dot(vt_session_forward_f64(a->s, a->x, B, false), a->cot, B * CLASSES);
}

/* at [n] (of input or weights) along random directions of length 1, against its gradient. Differences of fourth order
 * with h = 1e-4 (the largest row of lipnorm in a window seldom changes within it): truncation h^4 |f5| / 30 ~ 3e-18
 * |f5|, which leaves room for scsa's 1 / |q|^4, and rounding 2^-53 |f| / h ~ 1e-12 |f|. Gradients that are zero by
 * mathematics are measured against `least`. Returns the numeric size. */
static double check_along(const whole *a, double *at, const double *grad, size_t n, double least, const char *what) {
    enum { TRIES = 4 };
    static const double step[4] = {1, -1, 2, -2}, weight[4] = {8, -8, -1, 1}, h = 1e-4;
    double *kept = malloc(n * sizeof *kept), *d = malloc(n * sizeof *d), num[TRIES], ana[TRIES];
    memcpy(kept, at, n * sizeof *kept);
    for (int k = 0; k < TRIES; k++) {
        t_normals(d, n, vt_rng_purpose(what) + (uint64_t)k, 1);
        double length = t_norm(d, n);
        num[k] = 0;
        for (int i = 0; i < 4; i++) {
            for (size_t j = 0; j < n; j++) at[j] = kept[j] + step[i] * h * d[j] / length;
            num[k] += weight[i] * scalar(a) / (12 * h);
        }
        ana[k] = t_dot(d, grad, n) / length;
        memcpy(at, kept, n * sizeof *kept);
    }
    free(kept), free(d);
    double size = t_norm(num, TRIES);
    for (int k = 0; k < TRIES; k++) num[k] -= ana[k];
    t_le(t_norm(num, TRIES) / fmax(size, least), T_GRAD_TOL, "%s", what);
    return size;
}

static void check_gradients(vt_model *m, const char *name) {
    size_t total = m->params.total;
    double *grad = calloc(total, sizeof *grad), *dx = malloc(B * PIXELS * sizeof *dx);
    whole a = {.x = malloc(B * PIXELS * sizeof *a.x), .w = malloc(total * sizeof *a.w)};
    vt_err e = {0};
    char what[240];
    if (vt_session_open_f64(&a.s, m, B, VT_GRAD_PARAMS, &e) != VT_OK) fail_msg("%s: %s", name, e.text);
    for (size_t i = 0; i < total; i++) a.w[i] = (double)m->w[i];
    t_normals(a.x, B * PIXELS, 1, 0.3), t_normals(a.cot, B * CLASSES, 2, 1);
    a.s->master = a.w;
    vt_session_forward_f64(a.s, a.x, B, true);
    vt_session_backward_f64(a.s, a.cot, dx, grad);
    snprintf(what, sizeof what, "%s: dx", name);
    assert_true(check_along(&a, a.x, dx, B * PIXELS, 0, what) > 0);
    double least = 1e-3 * t_norm(grad, total) / sqrt((double)total);
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        snprintf(what, sizeof what, "%s: %s", name, p->name);
        if (p->buffer) continue;
        double size = check_along(&a, a.w + p->offset, grad + p->offset, p->numel, least, what);
        if (!(size > least / 10) && !unseen(m, p->name)) fail_msg("%s has no gradient", what);
    }
    vt_session_close_f64(a.s);
    free(grad), free(dx), free(a.x), free(a.w);
}

static void test_gradients(void **state) {
    (void)state;
    each(check_gradients);
}

/* ---- features ---- */

/* The head's affine function of what a session calls features is the logits, for every image of a batch. */
static void check_features(vt_model *m, const char *name) {
    vt_session_f64 *s;
    vt_err e = {0};
    const vt_param *w = vt_model_param(m, "head.weight"), *b = vt_model_param(m, "head.bias");
    if (!w) w = vt_model_param(m, "head.fc.weight"), b = vt_model_param(m, "head.fc.bias");
    int len = 0;
    double *x = malloc(B * PIXELS * sizeof *x);
    t_normals(x, B * PIXELS, 1, 0.3);
    if (vt_session_open_f64(&s, m, B, VT_GRAD_NONE, &e) != VT_OK) fail_msg("%s: %s", name, e.text);
    const double *z = vt_session_forward_f64(s, x, B, false);
    for (int i = 0; i < B; i++) {
        const double *f = vt_session_features_f64(s, i, &len);
        assert_true(len == w->shape[1] && len == vt_session_feature_len_f64(m));
        for (int k = 0; k < CLASSES; k++) {
            double sum = (double)m->w[b->offset + (size_t)k];
            for (int j = 0; j < len; j++) sum += (double)m->w[w->offset + (size_t)(k * len + j)] * f[j];
            t_le(fabs(sum - z[i * CLASSES + k]), 1e-13 * (1 + fabs(sum)), "%s: logit %d of image %d", name, k, i);
        }
        assert_true(t_norm(f, (size_t)len) > 0);
    }
    vt_session_close_f64(s), free(x);
}

static void test_features(void **state) {
    (void)state;
    each(check_features);
}

/* ---- attack, training, files ---- */

static char root[] = "/tmp/vitrine-combinations-XXXXXX";
static vt_dataset *data;

static const char *in(const char *name) {
    static char path[100];
    snprintf(path, sizeof path, "%s/%s", root, name);
    return path;
}

static int setup(void **state) {
    (void)state;
    vt_err e = {0};
    vt_blas_single_thread();
    if (!mkdtemp(root) || vt_draw_write(in("data"), 20, 20, 5, &e) != VT_OK) return 1;
    return vt_dataset_open(&data, in("data"), VT_SPLIT_TRAIN, &e) != VT_OK;
}

static int teardown(void **state) {
    (void)state;
    char line[100];
    vt_dataset_close(data);
    snprintf(line, sizeof line, "rm -rf %s", root);
    return system(line);
}

/* ce of image x, in double on float logits. */
static double loss_of(const vt_model *m, const float *x, const float *target) {
    vt_session_f32 *s;
    vt_err e = {0};
    double z[CLASSES];
    if (vt_session_open_f32(&s, m, 1, VT_GRAD_NONE, &e) != VT_OK) fail_msg("%s", e.text);
    const float *got = vt_session_forward_f32(s, x, 1, false);
    for (int k = 0; k < CLASSES; k++) z[k] = (double)got[k];
    vt_session_close_f32(s);
    return vt_loss_eval_f64(NULL, &(vt_loss){.kind = VT_LOSS_CE, .target = target}, z, CLASSES);
}

/* PGD-2 without random start in a ball so small that the loss is nearly linear: it rises, inside ball and box. */
static void check_attack(vt_model *m, const char *name) {
    const double eps = 0.5 / 255;
    float x[PIXELS], adv[PIXELS], target[CLASSES] = {0, 0, 1};
    vt_inner pgd;
    vt_err e = {0};
    vt_rng r = {.seed = 8, .purpose = 0x1A6E};
    for (int i = 0; i < PIXELS; i++) x[i] = vt_rng_uniform(&r, (uint64_t)i);
    if (vt_inner_open(&pgd, m, "pgd:steps=2,alpha=0.25/255,random_start=0", VT_LINF, VT_INNER_LABEL, 0, NULL, 1, &e) !=
        VT_OK)
        fail_msg("%s: %s", name, e.text);
    assert_int_equal(vt_inner_run(&pgd, adv, x, target, eps, 0, 0, 0, 1, NULL), VT_OK);
    vt_inner_close(&pgd);
    for (int i = 0; i < PIXELS; i++)
        assert_true(fabs((double)adv[i] - (double)x[i]) <= eps && adv[i] >= 0 && adv[i] <= 1);
    t_le(loss_of(m, x, target) - loss_of(m, adv, target), -1e-5, "%s: PGD-2, minus its gain", name);
}

static void test_attack(void **state) {
    (void)state;
    each(check_attack);
}

/* One step from m on; `trained` is m after it. */
static void train_step(vt_model **trained, const vt_model *m, const char *out, const char *name) {
    char text[600];
    const char *ortho = "VAR-III";
    const bool plain = !vt_model_blocks(m);
    for (size_t i = 0; i < T_COUNT(archs); i++)
        if (!strcmp(archs[i].name, m->config.arch) && archs[i].ortho &&
            !strstr(archs[i].forms, "attn_dim") == !m->config.attn_dim)
            ortho = archs[i].ortho;
    snprintf(text, sizeof text,
             "epochs: 1\nbatch: 4\nmicro_batch: 4\nlr: 0.05\nweight_decay: 0\nobjective: at\nmsvp: {lambda: %s}\n"
             "ortho: {variant: %s, lambda: 0.001}\nschedule: {kind: constant}\nprobe: {images: 0}\n"
             "attack: {eps: 8/255, spec: 'pgd:steps=2,alpha=5/255', ard: %d, drop_rate: 0.7}\n",
             plain ? "0" : "0.01", plain ? "none" : ortho, !plain);
    vt_recipe *r = of(text, true);
    vt_err e = {0};
    if (vt_train_model(trained, r, data, m, &e) != VT_OK) fail_msg("%s: %s", name, e.text);
    assert_memory_equal((*trained)->w, m->w, m->params.total * sizeof *m->w);
    vt_train t = {.recipe = r, .model = *trained, .data = data, .out = out, .threads = 1, .max_steps = 1};
    vt_status s = vt_train_run(&t, &e);
    if (s != VT_OK && s != VT_INTERRUPTED) fail_msg("%s: %s", name, e.text);
    vt_recipe_free(r);
}

/* Every tensor moves to finite numbers (buffers stay), and the file of the run, opened
 * without an option, is the model: weights, configuration and logits, bit for bit. */
static void check_training(vt_model *m, const char *name) {
    char path[200];
    vt_model *trained, *again;
    vt_err e = {0};
    snprintf(path, sizeof path, "%s", in("run"));
    train_step(&trained, m, path, name);
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        bool same = !memcmp(m->w + p->offset, trained->w + p->offset, p->numel * sizeof *m->w);
        if (same != p->buffer && !unseen(m, p->name))
            fail_msg("%s: %s %s", name, p->name, same ? "stands still" : "moves");
        for (size_t k = 0; k < p->numel; k++) assert_true(isfinite(trained->w[p->offset + k]));
    }
    strcat(path, "/model.safetensors");
    if (vt_model_open(&again, path, NULL, &e) != VT_OK) fail_msg("%s: %s", name, e.text);
    /* as the trained one is: some kernels sum x w and x wt in different orders */
    assert_int_equal(vt_model_prepare(again, &e), VT_OK);
    const vt_config *c = &trained->config, *d = &again->config;
    char a[240], b[240];
    vt_forms_text(c, a, sizeof a), vt_forms_text(d, b, sizeof b);
    assert_string_equal(a, b);
    assert_true(!strcmp(c->arch, d->arch) && !strcmp(c->attn, d->attn) && c->attn_scale == d->attn_scale);
    assert_memory_equal(again->w, trained->w, m->params.total * sizeof *m->w);
    vt_session_f32 *s[2];
    const float *z[2];
    float x[PIXELS];
    for (int i = 0; i < PIXELS; i++) x[i] = (float)(i % 251) / 250;
    for (int k = 0; k < 2; k++) {
        assert_int_equal(vt_session_open_f32(&s[k], k ? again : trained, 1, VT_GRAD_NONE, &e), VT_OK);
        z[k] = vt_session_forward_f32(s[k], x, 1, false);
    }
    assert_memory_equal(z[0], z[1], CLASSES * sizeof **z);
    vt_session_close_f32(s[0]), vt_session_close_f32(s[1]);
    vt_model_close(trained), vt_model_close(again);
    char line[240];
    snprintf(line, sizeof line, "rm -rf %s", in("run"));
    assert_int_equal(system(line), 0);
}

static void test_training(void **state) {
    (void)state;
    each(check_training);
}

/* Muon's orthogonal steps keep the singular values of every matrix at 1, of embedding and head too. */
static void test_orthogonal(void **state) {
    (void)state;
    const arch *a = &archs[T_COUNT(archs) - 1];
    assert_true(a->plain);
    vt_config c = config(a, &variants[0]);
    vt_model *m = model_of(&c), *trained;
    vt_recipe *r = of("epochs: 1\nbatch: 4\nmicro_batch: 4\nlr: 0.01\nweight_decay: 0\nobjective: margin\n"
                      "optimiser: muon\nmuon: {orthogonal: true}\nschedule: {kind: constant}\nprobe: {images: 0}\n",
                      true);
    vt_err e = {0};
    if (vt_train_model(&trained, r, data, m, &e) != VT_OK) fail_msg("%s", e.text);
    vt_train t = {.recipe = r, .model = trained, .data = data, .out = in("run"), .threads = 1, .max_steps = 2};
    vt_status s = vt_train_run(&t, &e);
    if (s != VT_OK && s != VT_INTERRUPTED) fail_msg("%s", e.text);
    int matrices = 0;
    for (int i = 0; i < trained->params.count; i++) {
        const vt_param *p = &trained->params.items[i];
        double w[12 * 192], sigma[192];
        if (!strstr(p->name, "weight")) continue;
        for (size_t k = 0; k < p->numel; k++) w[k] = (double)trained->w[p->offset + k];
        const int rows = (int)p->shape[0], cols = (int)p->numel / rows, least = rows < cols ? rows : cols;
        assert_int_equal(vt_svd_values(sigma, w, rows, cols, cols, &e), VT_OK);
        t_le(fmax(sigma[0] - 1, 1 - sigma[least - 1]), 3e-6, "%s: singular values", p->name); /* sums of 192 floats */
        matrices++;
    }
    assert_int_equal(matrices, 4);
    vt_recipe_free(r), vt_model_close(m), vt_model_close(trained);
}

/* ---- options of variants ---- */

static void logits_of(double *z, const arch *a, const variant *v) {
    vt_config c = config(a, v);
    vt_model *m = model_of(&c);
    vt_session_f64 *s;
    vt_err e = {0};
    double *x = malloc(PIXELS * sizeof *x);
    t_normals(x, PIXELS, 1, 0.3);
    assert_int_equal(vt_session_open_f64(&s, m, 1, VT_GRAD_NONE, &e), VT_OK);
    memcpy(z, vt_session_forward_f64(s, x, 1, false), CLASSES * sizeof *z);
    vt_session_close_f64(s);
    vt_model_close(m);
    free(x);
}

/* They reach the attention of every architecture: the same weights give other logits. */
static void test_options(void **state) {
    (void)state;
    static const variant pairs[][2] = {
        {{"scsa", "", true}, {"scsa:tau=4", "", true}},
        {{"scsa", "", true}, {"scsa:nu=2", "", true}},
        {{"scsa", "", true}, {"scsa:eps=0.1", "", true}},
        {{"l2", "", true}, {"l2:full=1", "", true}},
    };
    for (size_t i = 0; i < T_COUNT(archs); i++)
        for (size_t k = 0; k < T_COUNT(pairs); k++) {
            double z[2][CLASSES];
            if (refused(&archs[i], &pairs[k][0]) || refused(&archs[i], &pairs[k][1])) continue;
            for (int j = 0; j < 2; j++) logits_of(z[j], &archs[i], &pairs[k][j]);
            t_le(-t_max_diff(z[0], z[1], CLASSES), -1e-6, "%s: %s changes the logits; minus by how much", archs[i].name,
                 pairs[k][1].attn);
        }
}

/* ---- the same as an ONNX graph ---- */

static void check_onnx(vt_model *m, const char *name) {
    double *x = malloc(B * PIXELS * sizeof *x);
    t_normals(x, B * PIXELS, 1, 0.3);
    export_check(m, in("a.onnx"), x, B, name);
    free(x);
}

static void test_onnx(void **state) {
    (void)state;
    each(check_onnx);
}

/* ---- what a variant asks of its block ---- */

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        variant v;
        const char *says;
    } table[] = {
        {{"l2:tied=1", "", false}, "needs W_Q and W_K in one tensor (--form tied_qk=1)"},
        {{"l2:tied=1,full=1", "", true}, "needs W_Q and W_K in one tensor"},
        {{"l2:full=1", "", false}, "no bias of q, k, v"},
        {{"l2:tied=1,full=1", "tied_qk=1", false}, "no bias of q, k, v"},
        {{"l2:full=1", "qk_norm=1", true}, "no q/k norm"},
    };
    for (size_t i = 0; i < T_COUNT(archs); i++)
        for (size_t k = 0; k < T_COUNT(table); k++) {
            vt_err e = {0};
            vt_config c = config(&archs[i], &table[k].v);
            vt_model *m;
            t_says(vt_config_check(&c, "x", &e), VT_E_SHAPE, &e, "x: attention l2:", table[k].says);
            assert_int_equal(vt_model_new(&m, &c, &e), VT_E_SHAPE);
            assert_null(m);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_registry), cmocka_unit_test(test_gradients), cmocka_unit_test(test_features),
        cmocka_unit_test(test_attack),   cmocka_unit_test(test_training),  cmocka_unit_test(test_orthogonal),
        cmocka_unit_test(test_options),  cmocka_unit_test(test_refusals),  cmocka_unit_test(test_onnx),
    };
    return cmocka_run_group_tests_name("combinations", tests, setup, teardown);
}
