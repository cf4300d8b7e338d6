/* SPDX-License-Identifier: MIT */
/* State dicts as people have them (tests/fixtures/gen_home.py): each is recognised by itself, needs heads, mean and std
 * and at most one option more, computes what PyTorch does, and is converted to timm's names without loss. */
#define VT_DOUBLE
#include "base/real.h"
#include "judge.h"
#include "scratch.h"

#include "linalg/gemm.h"
#include "models/model.h"
#include "models/net/patch_rows.h"

#define FOLDER "tests/fixtures/home/"

typedef struct row {
    const char *file, *naming; /* the latter begins so */
    int heads;
    const char *form[2]; /* what --form says more */
} row;

static const row rows[] = {
    {"lucid.safetensors", "map vit-pytorch,", 2, {NULL}},
    {"lucid_1_0.safetensors", "map vit-pytorch-1,", 2, {NULL}},
    {"lucid_0.safetensors", "map vit-pytorch-0,", 2, {NULL}},
    {"lucid_0_mean.safetensors", "map vit-pytorch-0,", 2, {"pool=all"}},
    {"lucid_mean.safetensors", "map vit-pytorch,", 2, {NULL}},
    {"lucid_wide.safetensors", "map vit-pytorch,", 3, {NULL}},
    {"lucid_one.safetensors", "map vit-pytorch,", 1, {NULL}},
    {"simple.safetensors", "map simple-vit,", 2, {NULL}},
    {"simple_1_0.safetensors", "map simple-vit,", 3, {NULL}},
    {"kent_simple.safetensors", "map simple-vit-0,", 2, {NULL}},
    {"kent_vit_wide.pth", "map vit-pytorch-0,", 4, {NULL}},
    {"encoder.safetensors", "map encoder-layer,", 2, {"post_norm=1", "act=relu"}},
    {"encoder_mean.safetensors", "map encoder-layer-mean,", 2, {NULL}},
    {"lightning.pth", "map encoder-layer,", 4, {NULL}},
};

static vt_overrides options(const row *r) {
    vt_overrides o = {.heads = r->heads,
                      .has_mean = true,
                      .has_std = true,
                      .mean = {0.4914, 0.4822, 0.4465},
                      .std = {0.2023, 0.1994, 0.2010},
                      .shown = 8};
    while (o.n_form < 2 && r->form[o.n_form]) o.form[o.n_form] = r->form[o.n_form], o.n_form++;
    return o;
}

static vt_model *opened(const row *r) {
    char path[200];
    vt_model *m;
    vt_err e = {0};
    const vt_overrides o = options(r);
    snprintf(path, sizeof path, FOLDER "%s", r->file);
    if (vt_model_open(&m, path, &o, &e) != VT_OK) fail_msg("%s", e.text);
    return m;
}

static void each(void (*check)(vt_model *m, const char *name)) {
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        char name[80];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(rows[i].file, "."), rows[i].file);
        vt_model *m = opened(&rows[i]);
        if (strncmp(m->naming, rows[i].naming, strlen(rows[i].naming))) fail_msg("%s: read as %s", name, m->naming);
        check(m, name);
        vt_model_close(m);
    }
}

static void check_torch(vt_model *m, const char *name) { judge(m, name, VT_GRAD_INPUT); }

static void test_torch(void **state) {
    (void)state;
    ref = reference_open(FOLDER "golden.safetensors");
    each(check_torch);
}

/* Saved under timm's names and read without any option: the same weights, the same form, no guess. */
static void check_saved(vt_model *m, const char *name) {
    vt_model *again;
    vt_err e = {0};
    if (vt_model_save(m, at("a.safetensors"), &e) != VT_OK) fail_msg("%s: %s", name, e.text);
    if (vt_model_open(&again, at("a.safetensors"), NULL, &e) != VT_OK) fail_msg("%s: %s", name, e.text);
    assert_string_equal(again->naming, "timm");
    assert_int_equal(m->params.total, again->params.total);
    assert_memory_equal(m->w, again->w, m->params.total * sizeof *m->w);
    vt_config was = m->config;
    was.patch_order = VT_PATCH_CONV; /* as saved */
    assert_memory_equal(&was, &again->config, sizeof was);
    vt_model_close(again);
}

static void test_saved(void **state) {
    (void)state;
    each(check_saved);
}

/* Heads are never taken from the naming: no map may know them. */
static void test_heads_are_asked(void **state) {
    (void)state;
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        char path[200];
        vt_model *m;
        vt_err e = {0};
        vt_overrides o = options(&rows[i]);
        o.heads = 0;
        snprintf(path, sizeof path, FOLDER "%s", rows[i].file);
        if (vt_model_open(&m, path, &o, &e) != VT_OK) fail_msg("%s", e.text);
        assert_int_equal(m->certainty[VT_FIELD_HEADS], VT_OPEN);
        vt_model_close(m);
    }
}

/* What the names of a class prove is known; what is an argument of torch's layer is asked for. */
static void test_proven(void **state) {
    (void)state;
    static const vt_field fields[] = {VT_FIELD_ACT, VT_FIELD_POST_NORM, VT_FIELD_LN_EPS, VT_FIELD_PATCH_ORDER};
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        const bool bare = strstr(rows[i].naming, "encoder-layer") != NULL, said = bare && rows[i].form[0];
        vt_model *m = opened(&rows[i]);
        for (size_t k = 0; k < T_COUNT(fields); k++) {
            const vt_certainty d = m->certainty[fields[k]];
            if (!bare) assert_int_equal(d, VT_KNOWN);
            if (bare && !said && k < 2) assert_int_equal(d, VT_OPEN);
        }
        if (bare) assert_int_equal(m->certainty[VT_FIELD_LN_EPS], VT_ASSUMED);
        if (m->config.positions) assert_int_equal(m->certainty[VT_FIELD_POSITIONS], VT_KNOWN);
        vt_model_close(m);
    }
}

/* What is no ViT of ours is refused by what it is. */
static void test_relatives(void **state) {
    (void)state;
    vt_overrides o = {.heads = 2};
    vt_model *m;
    vt_err e = {0};
    t_says(vt_model_open(&m, FOLDER "kent_vit_small.safetensors", &o, &e), VT_E_FORMAT, &e,
           "has shifted patch tokenisation or locality self-attention (SPT", "vit_small and vit_tiny of");
}

/* ---- computed positions ---- */

/* A row each against torch (gen_home.py): all four conventions on a grid of 3 x 3, 12 channels. */
static void test_positions(void **state) {
    (void)state;
    static const struct {
        vt_positions_kind kind;
        const char *key;
    } kinds[] = {{VT_POSITIONS_SINCOS, "positions.simple"},
                 {VT_POSITIONS_SINCOS_MAE, "positions.mae"},
                 {VT_POSITIONS_SINCOS_MOCO, "positions.moco"},
                 {VT_POSITIONS_SINCOS_TIMM, "positions.timm"}};
    vt_tensors *st = reference_open(FOLDER "golden.safetensors");
    for (size_t i = 0; i < T_COUNT(kinds); i++) {
        double got[9 * 12], *want = reference(st, T_COUNT(got), "%s", kinds[i].key);
        vt_sincos_f64(got, kinds[i].kind, 3, 12);
        t_le(t_max_diff(got, want, T_COUNT(got)), 1e-15, "%s", kinds[i].key); /* of 1: a few roundings of pow, sin */
        free(want);
    }
    vt_tensors_close(st);
}

/* A file without positions, and nobody who says which: asked for, with the words. */
static void test_no_positions(void **state) {
    (void)state;
    static const row simple = {"simple.safetensors", "", 2, {"positions=learned"}};
    vt_overrides o = options(&simple);
    vt_model *m;
    vt_err e = {0};
    t_says(vt_model_open(&m, FOLDER "simple.safetensors", &o, &e), VT_E_FORMAT, &e, "has no positions",
           "--form positions=KIND");
    o.form[0] = "positions=none"; /* what is said is done */
    assert_int_equal(vt_model_open(&m, FOLDER "simple.safetensors", &o, &e), VT_OK);
    assert_int_equal(m->config.positions, VT_POSITIONS_NONE);
    vt_model_close(m);
    o.form[0] = "positions=sincos", o.shown = 0;
    t_says(vt_model_open(&m, FOLDER "simple.safetensors", &o, &e), VT_E_USAGE, &e, "side of the input", "--image-size");
    const row lucid = rows[0];
    o = options(&lucid), o.form[o.n_form++] = "positions=sincos";
    t_says(vt_model_open(&m, FOLDER "lucid.safetensors", &o, &e), VT_E_USAGE, &e, "contradicts the tensors", "learned");
}

static int start(void **state) {
    vt_blas_single_thread();
    return make_tmp(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_torch, close_ref),
        cmocka_unit_test(test_saved),
        cmocka_unit_test(test_heads_are_asked),
        cmocka_unit_test(test_proven),
        cmocka_unit_test(test_relatives),
        cmocka_unit_test(test_positions),
        cmocka_unit_test(test_no_positions),
    };
    return cmocka_run_group_tests_name("home", tests, start, remove_tmp);
}
