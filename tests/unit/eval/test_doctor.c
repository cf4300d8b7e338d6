/* SPDX-License-Identifier: MIT */
/* The doctor against planted mistakes: a model names the images itself under a true setting, so that only this one is
 * right on all of them, and is then examined under another. */
#include "toy.h"

#include "eval/doctor/doctor.h"
#include "models/forms.h"
#include "models/net/session.h"
#include "nn/loss.h"

enum { N = 600, SIDE = 8, K = 4 };

/* ---- images: smooth random colours, labels by a model ---- */

static int32_t named[N];

static vt_status read_image(const vt_dataset *d, int64_t i, vt_image *im, int *label, vt_err *e) {
    (void)d, (void)e;
    float z[12];
    *im = (vt_image){vt_shape_rgb(SIDE), malloc(3 * SIDE * SIDE), NULL};
    vt_rng_normals(&(vt_rng){.seed = 3, .purpose = 0xD0C, .image = (uint32_t)i}, z, 12);
    for (int c = 0; c < 3; c++)
        for (int p = 0; p < SIDE * SIDE; p++) {
            double x = (p % SIDE) / 7.0 - 0.5, y = (p / SIDE) / 7.0 - 0.5;
            double v = 110 + 40 * ((double)z[c] + 2 * x * (double)z[3 + c] + 2 * y * (double)z[6 + c] +
                                   4 * x * y * (double)z[9 + c]);
            im->rgb[c * SIDE * SIDE + p] = (uint8_t)fmin(fmax(v, 0), 255);
        }
    *label = named[i];
    return VT_OK;
}

static const vt_dataset_def def = {.name = "planted", .read = read_image};
static vt_dataset data = {.def = &def, .path = (char *)"planted", .count = N, .classes = K};
static int32_t order[N];

static vt_model *model_as(const vt_config *c) { return toy_sharp_model(c, 50, 0.3, 0.5); }

static vt_model *model_of(bool dist) {
    vt_config c = {.arch = "vit",
                   .attn = "dot",
                   .image = SIDE,
                   .patch = 4,
                   .dim = 12,
                   .depth = 2,
                   .heads = 3,
                   .hidden = 24,
                   .classes = K,
                   .qkv_bias = true,
                   .dist_token = dist,
                   .ln_eps = 1e-6,
                   .attn_scale = 0.5,
                   .mean = {0.4914, 0.4822, 0.4465},
                   .std = {0.247, 0.2435, 0.2616}};
    return model_as(&c);
}

/* Logits of all images [N, K] under a setting. */
static float *answers(const vt_model *m, const vt_setting *truth) {
    vt_model v = *m;
    vt_session_f32 *s;
    vt_err e = {0};
    static float x[3 * SIDE * SIDE], z[N * K];
    v.config = truth->config;
    if (vt_session_open_f32(&s, &v, 1, VT_GRAD_NONE, &e) != VT_OK) fail_msg("%s", e.text);
    for (int i = 0; i < N; i++) {
        vt_image im;
        int label;
        read_image(&data, i, &im, &label, &e);
        for (int k = 0; k < 3 * SIDE * SIDE; k++) x[k] = (float)im.rgb[k] / 255;
        vt_image_free(&im);
        memcpy(z + i * K, vt_session_forward_f32(s, x, 1, false), K * sizeof *z);
    }
    vt_session_close_f32(s);
    return z;
}

/* Labels: what the model says under this setting. */
static void name_images(vt_model *m, const vt_setting *truth) {
    const float *z = answers(m, truth);
    const vt_param *p = vt_model_param(m, "head.bias");
    for (int k = 0; k < K; k++) { /* no class is the answer to everything */
        double mean = 0;
        for (int i = 0; i < N; i++) mean += (double)z[i * K + k] / N;
        m->w[p->offset + (size_t)k] -= (float)mean * (m->config.dist_token ? 2 : 1);
    }
    z = answers(m, truth);
    for (int i = 0; i < N; i++) named[i] = vt_argmax_f32(z + i * K, K);
}

static vt_doctor *doctor_of(const vt_model *m, size_t n, unsigned aspects) {
    static vt_doctor d;
    for (int i = 0; i < N; i++) order[i] = i;
    d = (vt_doctor){.model = m, .data = &data, .images = order, .n_images = n, .threads = 2, .aspects = aspects};
    return &d;
}

static void examine(vt_doctor *d, const vt_setting *present) {
    vt_err e = {0};
    if (vt_doctor_round(d, present, &e) != VT_OK) fail_msg("%s", e.text);
}

/* ---- one mistake at a time ---- */

typedef struct plant {
    const char *what, *options; /* the row that must come first, what it says to type */
    void (*change)(vt_setting *s);
} plant;

static void std_2023(vt_setting *s) {
    memcpy(s->config.std, (double[3]){0.2023, 0.1994, 0.2010}, sizeof s->config.std);
}
static void halves(vt_setting *s) {
    for (int k = 0; k < 3; k++) s->config.mean[k] = s->config.std[k] = 0.5;
}
static void raw(vt_setting *s) {
    for (int k = 0; k < 3; k++) s->config.mean[k] = 0, s->config.std[k] = 1 / 255.0;
}
static void range(vt_setting *s) {
    for (int k = 0; k < 3; k++) s->config.mean[k] /= 255, s->config.std[k] /= 255;
}
static void bgr(vt_setting *s) { s->config.bgr = true; }
static void relu(vt_setting *s) { s->config.act = VT_ACT_RELU; }
static void scale(vt_setting *s) { s->config.attn_scale = 1 / sqrt(12); }
static void one_head(vt_setting *s) { s->config.dist_head = VT_DIST_CLASS; }

static const plant plants[] = {
    {"CIFAR-10, std .2023", "--mean 0.4914,0.4822,0.4465 --std 0.2023,0.1994,0.201", std_2023},
    {"0.5 / 0.5 (timm's ViT)", "--mean 0.5 --std 0.5", halves},
    {"raw pixels 0 to 255", "--mean 0 --std 0.00392156863", raw},
    {"mean and std, on pixels 0 to 255",
     "--mean 0.00192705882,0.00189098039,0.00175098039 --std 0.000968627451,0.000954901961,0.00102588235", range},
    {"blue, green, red", "--form bgr=1", bgr},
    {"ReLU", "--form act=relu", relu},
    {"attention scale: width ^ -0.5", "--attn-scale dim", scale},
    {"class head alone", "--form dist_head=class", one_head},
};

static void test_plants(void **state) {
    (void)state;
    vt_model *m = model_of(true);
    for (size_t i = 0; i < T_COUNT(plants); i++) {
        const plant *p = &plants[i];
        vt_setting present = {.config = m->config}, truth = present;
        p->change(&truth);
        name_images(m, &truth);
        vt_doctor *d = doctor_of(m, 300, VT_ASPECT_ALL);
        examine(d, &present);
        const vt_trial *t = vt_doctor_better(d);
        char text[300];
        if (!t) fail_msg("%s: nothing was found", p->what);
        assert_string_equal(t->what, p->what);
        assert_int_equal(t->right, d->n_images);
        assert_true(t->only_here > 0 && t->only_there == 0);
        vt_setting_options(text, sizeof text, &t->setting, &present, NULL, VT_OPEN);
        assert_string_equal(text, p->options);
        /* seen from the truth, nothing is better, and it comes first */
        examine(d, &truth);
        assert_null(vt_doctor_better(d));
        assert_true(vt_doctor_present(d) == &d->trials[0]);
        vt_doctor_free(d);
    }
    vt_model_close(m);
}

/* ---- the network: heads, order of the norms, activation, all of them wrong at once; pooling ---- */

static vt_model *wide(vt_pool pool, bool mean_first) {
    vt_config c = {.arch = "vit",
                   .attn = "dot",
                   .image = SIDE,
                   .patch = 4,
                   .dim = 64,
                   .depth = 2,
                   .heads = 4,
                   .hidden = 24,
                   .classes = K,
                   .qkv_bias = true,
                   .pool = pool,
                   .norm_first = pool != VT_POOL_TOKEN && !mean_first,
                   .ln_eps = 1e-6,
                   .attn_scale = 0.25,
                   .mean = {0.5, 0.5, 0.5},
                   .std = {0.25, 0.25, 0.25}};
    vt_model *m = model_as(&c);
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        /* attention that is no choice of one token, and MLPs whose inputs are near 0, where GELU is not ReLU */
        float f = strstr(p->name, "qkv") ? 0.3f : strstr(p->name, "fc1") ? 0.1f : strstr(p->name, "fc2") ? 8.0f : 1.0f;
        for (size_t k = 0; k < p->numel; k++) m->w[p->offset + k] *= f;
    }
    vt_model_refresh(m);
    return m;
}

/* 2 orders, 2 activations, 2 numbers of heads, each true once: read all wrong, with one wrong and as it is, the truth
 * stands in the first row. */
static void test_network(void **state) {
    (void)state;
    vt_model *m = wide(VT_POOL_TOKEN, false);
    for (int truth = 0; truth < 8; truth++)
        for (int k = 0; k < 3; k++) {
            int read = truth ^ (k == 0 ? 7 : k == 1 ? 1 << truth % 3 : 0);
            vt_setting s[2] = {{.config = m->config}, {.config = m->config}};
            for (int i = 0; i < 2; i++) {
                int bits = i ? read : truth;
                s[i].config.heads = bits & 1 ? 2 : 4;
                s[i].config.attn_scale = 1 / sqrt(64.0 / s[i].config.heads);
                s[i].config.post_norm = bits & 2, s[i].config.act = bits & 4 ? VT_ACT_RELU : VT_ACT_GELU;
            }
            name_images(m, &s[0]);
            vt_doctor *d = doctor_of(m, 64, VT_ASPECT_ALL);
            examine(d, &s[1]);
            const vt_trial *t = &d->trials[0];
            if (t->aspect != (truth == read ? VT_ASPECT_NONE : VT_ASPECT_NETWORK) ||
                t->setting.config.heads != s[0].config.heads || t->setting.config.post_norm != s[0].config.post_norm ||
                t->setting.config.act != s[0].config.act)
                fail_msg("truth %d read as %d: '%s' comes first", truth, read, t->what);
            assert_int_equal(t->right, d->n_images);
            vt_doctor_free(d);
        }
    vt_model_close(m);
}

/* Where GELU and ReLU answer alike, nothing speaks against what was read. */
static void test_fewest(void **state) {
    (void)state;
    vt_model *m = wide(VT_POOL_TOKEN, false);
    for (int b = 0; b < 2; b++) {
        const vt_param *p = vt_model_param(m, b ? "blocks.1.mlp.fc1.bias" : "blocks.0.mlp.fc1.bias");
        for (size_t k = 0; k < p->numel; k++) m->w[p->offset + k] += 20; /* GELU(x) = ReLU(x) = x in floats */
    }
    vt_setting truth = {.config = m->config}, read = truth;
    read.config.heads = 2, read.config.attn_scale = 1 / sqrt(32.0), read.config.act = VT_ACT_RELU;
    name_images(m, &truth);
    vt_doctor *d = doctor_of(m, 128, 1u << VT_ASPECT_NETWORK);
    examine(d, &read);
    assert_string_equal(d->trials[0].what, "4 heads");
    assert_int_equal(d->trials[0].judgement, VT_JUDGE_BETTER);
    int as_good = 0;
    for (int i = 1; i < d->n_trials; i++) as_good += d->trials[i].judgement == VT_JUDGE_AS_GOOD;
    assert_int_equal(as_good, 1); /* "4 heads, GELU" */
    vt_doctor_free(d);
    vt_model_close(m);
}

/* What tensors tell is not tried. */
static void test_told(void **state) {
    (void)state;
    vt_model *m = wide(VT_POOL_TOKEN, false);
    vt_setting present = {.config = m->config};
    name_images(m, &present);
    snprintf(m->source[VT_FIELD_HEADS], sizeof m->source[0], "tensors");
    vt_doctor *d = doctor_of(m, 20, 1u << VT_ASPECT_NETWORK);
    examine(d, &present);
    assert_int_equal(d->n_trials, 4);
    for (int i = 0; i < d->n_trials; i++) assert_int_equal(d->trials[i].setting.config.heads, 4);
    vt_doctor_free(d);
    vt_model_close(m);
}

static void test_pool(void **state) {
    (void)state;
    static const struct {
        vt_pool truth, read;
        bool mean_first;
        const char *options;
    } rows[] = {{VT_POOL_AVG, VT_POOL_TOKEN, false, "--form pool=avg"},
                {VT_POOL_ALL, VT_POOL_TOKEN, false, "--form pool=all"},
                {VT_POOL_TOKEN, VT_POOL_AVG, false, "--form pool=token"},
                {VT_POOL_ALL, VT_POOL_AVG, true, "--form pool=all"}};
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        vt_model *m = wide(rows[i].mean_first ? VT_POOL_AVG : VT_POOL_TOKEN, rows[i].mean_first);
        vt_setting truth = {.config = m->config}, present = truth;
        char text[300];
        truth.config.pool = rows[i].truth, present.config.pool = rows[i].read;
        truth.config.norm_first = rows[i].truth != VT_POOL_TOKEN && !rows[i].mean_first;
        present.config.norm_first = rows[i].read != VT_POOL_TOKEN && !rows[i].mean_first;
        name_images(m, &truth);
        vt_doctor *d = doctor_of(m, 300, VT_ASPECT_ALL);
        examine(d, &present);
        const vt_trial *t = vt_doctor_better(d);
        assert_non_null(t);
        vt_setting_options(text, sizeof text, &t->setting, &present, NULL, VT_OPEN);
        assert_string_equal(text, rows[i].options);
        assert_int_equal(t->right, d->n_images);
        vt_doctor_free(d);
        vt_model_close(m);
    }
}

/* Rows of 3 pixels' numbers, those of a patch, as they are where channels-last ones were taken for ours, or (hwc) ours
 * for channels-last ones. */
static void misread(vt_model *m, const float *was, const char *name, size_t pixels, bool hwc) {
    const vt_param *p = vt_model_param(m, name);
    for (size_t d = 0; p && d < p->numel / (3 * pixels); d++)
        for (size_t c = 0; c < 3; c++)
            for (size_t i = 0; i < pixels; i++) {
                size_t ours = p->offset + (d * 3 + c) * pixels + i, last = p->offset + d * 3 * pixels + i * 3 + c;
                m->w[hwc ? ours : last] = was[hwc ? last : ours];
            }
}

/* A Linear patch embedding read by the wrong order of its columns, both ways; with a norm before it. */
static void check_patch_order(vt_model *m) {
    const size_t pixels = (size_t)(m->config.patch * m->config.patch), size = m->params.total * sizeof(float);
    float *was = malloc(size);
    for (int k = 0; k < 2; k++) {
        vt_setting truth = {.config = m->config}, read;
        char text[300];
        name_images(m, &truth);
        memcpy(was, m->w, size);
        misread(m, was, "patch_embed.proj.weight", pixels, k);
        misread(m, was, "patch_embed.norm_in.weight", pixels, k);
        misread(m, was, "patch_embed.norm_in.bias", pixels, k);
        m->config.patch_order = k ? VT_PATCH_HWC : VT_PATCH_CHW;
        vt_model_refresh(m);
        read = (vt_setting){.config = m->config};
        vt_doctor *d = doctor_of(m, 200, VT_ASPECT_ALL);
        examine(d, &read);
        const vt_trial *t = vt_doctor_better(d);
        assert_non_null(t);
        vt_setting_options(text, sizeof text, &t->setting, &read, NULL, VT_OPEN);
        assert_string_equal(text, k ? "--form patch_order=chw" : "--form patch_order=hwc");
        assert_int_equal(t->right, d->n_images);
        vt_doctor_free(d);
        memcpy(m->w, was, size);
        m->config.patch_order = VT_PATCH_CONV;
    }
    free(was);
    vt_model_close(m);
}

/* A norm on the wrong side of the mean; rows of the head in another order; a mean where there is none. */
static void test_readouts(void **state) {
    (void)state;
    static const struct {
        const char *truth, *read, *options;
    } rows[] = {{"pool=avg", "norm_first=1", "--form norm_first=0"},
                {"pool=avg norm_first=1 no_cls=1", "norm_first=0", "--form norm_first=1"},
                {"pool=avg_token norm_first=1", "pool=token_avg", "--form pool=avg_token"},
                {"pool=tokens norm_first=1 head_layers=2", "pool=token_avg head_layers=0", "--form pool=tokens"}};
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        vt_model *base = model_of(false);
        vt_config c = base->config;
        char text[300];
        vt_err e = {0};
        if (vt_form_parse(&c, rows[i].truth, "truth", &e) != VT_OK) fail_msg("%s", e.text);
        vt_model *m = model_as(&c);
        vt_setting truth = {.config = m->config}, read = truth;
        name_images(m, &truth);
        if (vt_form_parse(&read.config, rows[i].read, "read", &e) != VT_OK) fail_msg("%s", e.text);
        vt_doctor *d = doctor_of(m, 400, VT_ASPECT_ALL);
        examine(d, &read);
        const vt_trial *t = vt_doctor_better(d);
        if (!t) fail_msg("row %zu: nothing is better", i);
        vt_setting_options(text, sizeof text, &t->setting, &read, NULL, VT_OPEN);
        assert_string_equal(text, rows[i].options);
        assert_int_equal(t->right, d->n_images);
        vt_doctor_free(d), vt_model_close(m), vt_model_close(base);
    }
}

static void test_patch_order(void **state) {
    (void)state;
    vt_model *m = model_of(false);
    vt_config c = m->config;
    c.patch_norm = VT_PATCH_NORM_BOTH;
    check_patch_order(m);
    check_patch_order(model_as(&c));
}

/* ---- images ---- */

/* A draw holds each image once, hangs on the seed alone, and any place may hold any image. */
static void test_draw(void **state) {
    (void)state;
    int32_t all[100], out[40], again[40];
    int met[100] = {0}, first[100] = {0};
    for (int i = 0; i < 100; i++) all[i] = 10 * i;
    for (uint64_t seed = 0; seed < 1000; seed++) {
        bool seen[100] = {false};
        assert_int_equal(vt_doctor_draw(out, 40, all, 100, seed), 40);
        vt_doctor_draw(again, 40, all, 100, seed);
        assert_memory_equal(out, again, sizeof out);
        for (int i = 0; i < 40; i++) {
            assert_true(out[i] % 10 == 0 && !seen[out[i] / 10]);
            seen[out[i] / 10] = true, met[out[i] / 10]++;
        }
        first[out[0] / 10]++;
    }
    for (int i = 0; i < 100; i++) { /* 400 and 10 are expected; 5 standard deviations */
        assert_in_range(met[i], 400 - 78, 400 + 78);
        assert_in_range(first[i], 0, 26);
    }
    assert_int_equal(vt_doctor_draw(out, 40, all, 7, 1), 7);
}

/* ---- images that tell nothing ---- */

static void test_blind(void **state) {
    (void)state;
    static const struct {
        int n, classes, met; /* labels 0 to met-1 in turn */
        const char *why;     /* NULL: they may tell */
    } rows[] = {{29, 10, 10, "29 images are too few"},
                {30, 10, 10, NULL},
                {600, 10, 1, "hold 1 of 10 classes"},
                {600, 10, 2, "hold 2 of 10 classes"},
                {600, 10, 3, NULL},
                {600, 2, 2, NULL},
                {600, 2, 1, "hold 1 of 2 classes"},
                {500, 1000, 100, NULL},
                {500, 1000, 90, "hold 90 of 1000 class"},
                {50, 1000, 13, NULL},
                {50, 1000, 12, "hold 12 of 1000"}};
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        int32_t labels[N];
        vt_dataset of = {.classes = rows[i].classes};
        vt_doctor d = {.data = &of, .labels = labels, .n_images = (size_t)rows[i].n};
        char text[200] = "";
        for (int k = 0; k < rows[i].n; k++) labels[k] = k % rows[i].met;
        assert_int_equal(vt_doctor_blind(&d, 30, text, sizeof text), rows[i].why != NULL);
        if (rows[i].why && !strstr(text, rows[i].why)) fail_msg("'%s' is not in '%s'", rows[i].why, text);
        of.classes_open = true, of.classes = 1000; /* of a source without names: as many as its labels say */
        assert_int_equal(vt_doctor_blind(&d, 30, NULL, 0), rows[i].n < 30 || rows[i].met == 1);
    }
}

/* ---- chance, and what a run is told ---- */

static void test_chance(void **state) {
    (void)state;
    assert_true(vt_doctor_chance(19, 100, 10) && !vt_doctor_chance(20, 100, 10));
    assert_true(vt_doctor_chance(1, 1000, 1000) && !vt_doctor_chance(2, 1000, 1000));
    assert_true(vt_doctor_chance(74, 100, 2) && !vt_doctor_chance(75, 100, 2)); /* always right would be below twice */
    vt_model *m = model_of(false);
    vt_setting present = {.config = m->config};
    char text[400];
    for (int i = 0; i < N; i++) named[i] = i * 7 / 3 % K; /* labels that nothing explains */
    vt_doctor *d = doctor_of(m, N, 0);
    examine(d, &present);
    assert_true(vt_doctor_chance(vt_doctor_present(d)->right, N, K));
    assert_false(vt_doctor_labels(d, vt_doctor_present(d), text, sizeof text));
    vt_doctor_free(d);
    vt_model_close(m);
}

/* Of readings that are right on as many images the data set's own mean and std rank first. */
static void test_own_norm(void **state) {
    (void)state;
    static const vt_dataset_def cifar = {.name = "cifar", .read = read_image};
    static int32_t alike[N];
    vt_dataset ten = {.def = &cifar, .path = (char *)"planted", .count = N, .classes = 10};
    vt_model *m = model_of(false);
    vt_setting truth = {.config = m->config}, other = truth, present = truth;
    size_t n = 0;
    halves(&other), raw(&present);
    name_images(m, &truth);
    const float *z = answers(m, &other);
    for (int i = 0; i < N; i++)
        if (vt_argmax_f32(z + i * K, K) == named[i]) alike[n++] = i;
    for (int k = 0; k < 2; k++) {
        vt_doctor *d = doctor_of(m, n, 1u << VT_ASPECT_NORM);
        d->images = alike, d->data = k ? &data : &ten;
        examine(d, &present);
        const vt_trial *t = vt_doctor_better(d);
        assert_non_null(t);
        assert_int_equal(t->right, n);
        assert_string_equal(t->what, k ? "0.5 / 0.5 (timm's ViT)" : "CIFAR-10, std .2470");
        vt_doctor_free(d);
    }
    vt_model_close(m);
}

/* Two mistakes, one after the other. */
static void test_two(void **state) {
    (void)state;
    vt_model *m = model_of(false);
    vt_setting present = {.config = m->config}, truth = present;
    bgr(&truth), halves(&truth);
    name_images(m, &truth);
    vt_doctor *d = doctor_of(m, 300, VT_ASPECT_ALL);
    for (int i = 0; i < 2; i++) {
        examine(d, &present);
        const vt_trial *t = vt_doctor_better(d);
        assert_non_null(t);
        d->aspects &= ~(1u << t->aspect);
        present = t->setting;
    }
    assert_true(present.config.bgr && present.config.mean[0] == 0.5 && present.config.std[2] == 0.5);
    examine(d, &present);
    assert_null(vt_doctor_better(d));
    vt_doctor_free(d);
    vt_model_close(m);
}

/* Few images: what many would show stays undecided. And numbers do not depend on threads. */
static void test_undecided(void **state) {
    (void)state;
    vt_model *m = model_of(false);
    vt_setting present = {.config = m->config}, truth = present;
    std_2023(&truth);
    name_images(m, &truth);
    vt_doctor *d = doctor_of(m, 12, 1u << VT_ASPECT_NORM);
    examine(d, &present);
    assert_null(vt_doctor_better(d));
    vt_doctor_free(d);
    d = doctor_of(m, 200, 1u << VT_ASPECT_NORM);
    examine(d, &present);
    vt_trial first = d->trials[0];
    vt_doctor_free(d);
    d->threads = 1;
    examine(d, &present);
    assert_true(d->trials[0].right == first.right && d->trials[0].only_here == first.only_here);
    assert_string_equal(d->trials[0].what, first.what);
    vt_doctor_free(d);
    vt_model_close(m);
}

/* ---- labels ---- */

static void test_labels(void **state) {
    (void)state;
    vt_model *m = model_of(false);
    vt_setting present = {.config = m->config};
    char text[400];
    static const int permuted[K] = {2, 1, 3, 0};
    name_images(m, &present);
    for (int i = 0; i < N; i += 4) named[i] = i / 4 % K; /* some are wrong anyway */
    int32_t right[N];
    memcpy(right, named, sizeof right);
    vt_doctor *d = doctor_of(m, N, 0);
    examine(d, &present);
    assert_false(vt_doctor_labels(d, vt_doctor_present(d), text, sizeof text));
    for (int i = 0; i < N; i++) named[i] = (right[i] + K - 1) % K;
    examine(d, &present);
    assert_true(vt_doctor_labels(d, vt_doctor_present(d), text, sizeof text));
    assert_non_null(strstr(text, "with 1 added to every label (modulo 4)"));
    for (int i = 0; i < N; i++) named[i] = permuted[right[i]];
    examine(d, &present);
    assert_true(vt_doctor_labels(d, vt_doctor_present(d), text, sizeof text));
    assert_non_null(strstr(text, "renumbered"));
    assert_non_null(strstr(text, " 0 as 3, 2 as 0, 3 as 2"));
    /* two labels for which the model mostly says the same: no renumbering */
    int seen[K] = {0}, often = 0;
    for (int i = 0; i < N; i++) seen[right[i]]++;
    for (int k = 1; k < K; k++)
        if (seen[k] > seen[often]) often = k;
    int other = (often + 1) % K, third = (often + 2) % K;
    for (int i = 0; i < N; i++)
        named[i] = right[i] == often && i % 3 ? other : right[i] == other && i % 5 ? third : right[i];
    examine(d, &present);
    assert_false(vt_doctor_labels(d, vt_doctor_present(d), text, sizeof text));
    vt_doctor_free(d);
    vt_model_close(m);
}

/* ---- samples, options ---- */

static void test_sample(void **state) {
    (void)state;
    int32_t all[128], out[128];
    for (int i = 0; i < 128; i++) all[i] = 10 * i;
    for (size_t n = 1; n <= 120; n += 7) {
        size_t k = vt_doctor_sample(out, n, all, 100);
        bool seen[100] = {false};
        assert_int_equal(k, n < 100 ? n : 100);
        for (size_t i = 0; i < k; i++) {
            assert_true(out[i] % 10 == 0 && out[i] >= 0 && out[i] < 1000 && !seen[out[i] / 10]);
            seen[out[i] / 10] = true;
        }
    }
    vt_doctor_sample(out, 64, NULL, 128);
    for (int i = 0; i < 64; i++) assert_int_equal(out[i], 2 * i);
}

/* What is to be typed when several things change, and when images are resized. */
static void test_options(void **state) {
    (void)state;
    char text[300];
    vt_setting a = {.config = {.image = 224, .dim = 12, .heads = 3, .attn_scale = 0.5, .ln_eps = 1e-6}}, b = a;
    vt_setting_options(text, sizeof text, &b, &a, NULL, VT_OPEN);
    assert_string_equal(text, "");
    b.config.native = 32, b.config.native_filter = VT_NATIVE_BICUBIC, b.config.ln_eps = 1e-5,
    b.config.act = VT_ACT_GELU_TANH;
    vt_setting_options(text, sizeof text, &b, &a, NULL, VT_OPEN);
    assert_string_equal(text, "--attack-at native --form native_filter=bicubic --ln-eps 1e-05 --form act=gelu_tanh");
    a = b, b.config.native = 0, b.transform = (vt_transform){VT_FIT_SHORT, 248, VT_FILTER_BICUBIC, 224};
    vt_setting_options(text, sizeof text, &b, &a, NULL, VT_OPEN);
    assert_string_equal(text, "--attack-at model --preprocess short:248,bicubic,crop:224");
    b.config.attn_scale = 0.25;
    vt_setting_options(text, sizeof text, &a, &b, NULL, VT_OPEN);
    assert_string_equal(text, "--attack-at native --preprocess none --attn-scale head");
    vt_setting_options(text, 8, &a, &b, NULL, VT_OPEN); /* too little room: cut, not overrun */
    assert_string_equal(text, "--attac");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plants),      cmocka_unit_test(test_two),
                                       cmocka_unit_test(test_network),     cmocka_unit_test(test_told),
                                       cmocka_unit_test(test_fewest),      cmocka_unit_test(test_pool),
                                       cmocka_unit_test(test_patch_order), cmocka_unit_test(test_readouts),
                                       cmocka_unit_test(test_chance),      cmocka_unit_test(test_own_norm),
                                       cmocka_unit_test(test_blind),       cmocka_unit_test(test_undecided),
                                       cmocka_unit_test(test_labels),      cmocka_unit_test(test_sample),
                                       cmocka_unit_test(test_draw),        cmocka_unit_test(test_options)};
    return cmocka_run_group_tests_name("doctor", tests, NULL, NULL);
}
