/* SPDX-License-Identifier: MIT */
/* What people do to a checkpoint around its names: prefixes, wrappers' words, classifiers of their own, weights stored
 * in parts. Each file is tests/fixtures/names/vit.safetensors, dressed up; read again it must be that. */
#include <math.h>
#include "names_fixture.h"

enum { MOST = 64 };

/* "from" at a name's beginning becomes "to"; the first that fits. */
typedef struct swap {
    const char *from, *to;
} swap;

typedef struct dressed {
    const char *what;
    swap swaps[4];
    item more[4];     /* tensors beside */
    const char *says; /* of a refusal; NULL: it is read */
} dressed;

static vt_tensors *dress(const dressed *d) {
    vt_tensors *st = fixture("vit");
    vt_tensor t[MOST];
    static char names[MOST][120];
    static double numbers[512];
    vt_err e = {0};
    int n = vt_tensors_count(st);
    for (int i = 0; i < n; i++) {
        t[i] = *vt_tensors_at(st, i);
        snprintf(names[i], sizeof names[i], "%s", t[i].name);
        for (int k = 0; k < 4 && d->swaps[k].to; k++) {
            size_t len = strlen(d->swaps[k].from);
            if (strncmp(t[i].name, d->swaps[k].from, len)) continue;
            snprintf(names[i], sizeof names[i], "%s%s", d->swaps[k].to, t[i].name + len);
            break;
        }
        t[i].name = names[i];
    }
    for (int k = 0; k < 4 && d->more[k].name; k++, n++) {
        const item *m = &d->more[k];
        t[n] = (vt_tensor){.name = m->name, .dtype = VT_F64, .ndim = m->ndim, .numel = 1, .data = numbers};
        memcpy(t[n].shape, m->shape, sizeof m->shape);
        for (int i = 0; i < m->ndim; i++) t[n].numel *= (size_t)m->shape[i];
    }
    if (vt_tensors_write(at("dressed.safetensors"), t, n, NULL, 0, &e) != VT_OK) fail_msg("%s", e.text);
    vt_tensors_close(st);
    return open_file(at("dressed.safetensors"));
}

static const dressed rows[] = {
    {"a prefix of one's own", {{"", "my.own."}}, {{NULL}}, NULL},
    {"nn.Sequential", {{"", "0."}}, {{NULL}}, NULL},
    {"TimmWrapper", {{"", "timm_model."}}, {{NULL}}, NULL},
    {"a classifier beside", {{"head.", "fc."}, {"", "vit."}}, {{NULL}}, NULL},
    {"a Sequential beside", {{"head.", "classifier.1."}, {"", "backbone."}}, {{NULL}}, NULL},
    {"encoder and fc", {{"head.", "fc."}, {"", "encoder."}}, {{NULL}}, NULL},
    {"a Sequential", {{"head.", "head.1."}}, {{NULL}}, NULL},
    {"torch.compile within", {{"head.", "head."}, {"", "net._orig_mod."}}, {{NULL}}, NULL},
    {"FSDP",
     {{"blocks.0.", "_fsdp_wrapped_module.blocks.0._fsdp_wrapped_module."},
      {"blocks.1.", "_fsdp_wrapped_module.blocks.1._checkpoint_wrapped_module."},
      {"", "_fsdp_wrapped_module."}},
     {{NULL}},
     NULL},
    {"torchmetrics",
     {{"", "model."}},
     {{"train_acc.tp", 1, {1}, 0}, {"val_loss.mean_value", 0, {0}, 0}, {"val_loss.weight", 0, {0}, 0}},
     NULL},
    {"an outer network", {{"", "vit."}}, {{"decoder.weight", 2, {4, 4}, 0}}, "decoder.weight beside them"},
    {"two classifiers", {{"", "vit."}}, {{"fc.weight", 2, {3, 5}, 0}, {"fc.bias", 1, {3}, 0}}, "both become head."},
    {"the same name", {{"", "vit."}}, {{"head.weight", 2, {3, 5}, 0}}, "one beside it"},
    {"an MLP",
     {{"head.", "head.2."}},
     {{"head.0.weight", 2, {12, 12}, 0}},
     "head is an MLP of 2 layers (head.0, head.2)"},
    {"a second norm",
     {{"head.", "head.1."}},
     {{"head.0.weight", 1, {12}, 0}, {"head.0.bias", 1, {12}, 0}},
     "second norm, before its classifier (head.0)"},
    {"a norm behind", {{"head.", "head.0."}}, {{"head.1.weight", 1, {5}, 0}}, "norm behind its classifier (head.1)"},
    {"no classifier", {{"head.", "projector."}, {"", "net."}}, {{NULL}}, "projector.bias beside them"},
    {"LoRA", {{NULL, NULL}}, {{"blocks.0.attn.qkv.lora_A.default.weight", 2, {4, 12}, 0}}, "merge_and_unload()"},
    {"parametrised",
     {{NULL, NULL}},
     {{"blocks.0.attn.proj.parametrizations.weight.0.base", 2, {4, 12}, 0}},
     "remove_parametrizations"},
};

static void test_dressed(void **state) {
    (void)state;
    vt_tensors *plain = fixture("vit");
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        vt_tensors *st = dress(&rows[i]);
        vt_names n;
        vt_err e = {0};
        vt_status s = vt_names_apply(&n, st, NULL, &e);
        if (rows[i].says) {
            t_says(s, VT_E_FORMAT, &e, rows[i].says, "dressed.safetensors");
        } else {
            if (s != VT_OK) fail_msg("%s: %s", rows[i].what, e.text);
            same_tensors(st, plain, rows[i].what);
        }
        vt_names_close(&n), vt_tensors_close(st);
    }
    vt_tensors_close(plain);
}

/* Two networks under two prefixes: either would do, so none is taken. */
static void test_two_networks(void **state) {
    (void)state;
    vt_tensors *st = fixture("vit");
    vt_tensor t[2 * MOST];
    static char names[2 * MOST][120];
    vt_names n;
    vt_err e = {0};
    int count = vt_tensors_count(st);
    for (int i = 0; i < 2 * count; i++) {
        t[i] = *vt_tensors_at(st, i % count);
        snprintf(names[i], sizeof names[i], "%s.%s", i < count ? "left" : "right", t[i].name);
        t[i].name = names[i];
    }
    assert_int_equal(vt_tensors_write(at("two.safetensors"), t, 2 * count, NULL, 0, &e), VT_OK);
    vt_tensors_close(st);
    st = open_file(at("two.safetensors"));
    t_says(vt_names_apply(&n, st, NULL, &e), VT_E_FORMAT, &e, "holds two networks, left.* and right.*", "two.");
    vt_names_close(&n), vt_tensors_close(st);
}

/* ---- numbers ---- */

typedef struct part {
    const char *name;
    int ndim;
    int64_t shape[4];
    double x[12];
} part;

static vt_tensors *numbers(const part *p, int n, const char *drop) {
    vt_tensors *st = fixture("vit");
    vt_tensor t[MOST + 8];
    vt_err e = {0};
    int count = 0;
    for (int i = 0; i < vt_tensors_count(st); i++) {
        const vt_tensor *x = vt_tensors_at(st, i);
        if (strncmp(x->name, drop, strlen(drop))) t[count++] = *x;
    }
    for (int i = 0; i < n; i++) {
        t[count] = (vt_tensor){.name = p[i].name, .dtype = VT_F64, .ndim = p[i].ndim, .numel = 1, .data = p[i].x};
        memcpy(t[count].shape, p[i].shape, sizeof p[i].shape);
        for (int k = 0; k < p[i].ndim; k++) t[count].numel *= (size_t)p[i].shape[k];
        count++;
    }
    assert_int_equal(vt_tensors_write(at("numbers.safetensors"), t, count, NULL, 0, &e), VT_OK);
    vt_tensors_close(st);
    return open_file(at("numbers.safetensors"));
}

static void settled(vt_tensors *st, const char *name, const double *want, size_t n) {
    vt_names names;
    vt_err e = {0};
    double got[24];
    if (vt_names_apply(&names, st, NULL, &e) != VT_OK) fail_msg("%s", e.text);
    const vt_tensor *t = vt_tensors_find(st, name);
    assert_non_null(t);
    assert_int_equal(t->numel, n);
    assert_int_equal(vt_tensor_f64(st, t, got, n, &e), VT_OK);
    for (size_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= 1e-6)) fail_msg("%s: %g, not %g at %zu", name, got[i], want[i], i);
    vt_names_close(&names), vt_tensors_close(st);
}

static void test_parts(void **state) {
    (void)state;
    static const part norm[] = {{"head.weight_g", 2, {2, 1}, {10, 1}}, {"head.weight_v", 2, {2, 2}, {3, 4, 0, 2}}};
    static const part columns[] = {{"head.parametrizations.weight.original0", 2, {1, 2}, {10, 4}},
                                   {"head.parametrizations.weight.original1", 2, {2, 2}, {3, 0, 4, 2}}};
    static const part spectral[] = {{"head.weight_orig", 2, {2, 2}, {3, 4, 0, 2}},
                                    {"head.weight_u", 1, {2}, {1, 0}},
                                    {"head.weight_v", 1, {2}, {0, 1}}};
    static const part pruned[] = {{"head.weight_orig", 2, {2, 2}, {3, 4, 5, 2}},
                                  {"head.weight_mask", 2, {2, 2}, {1, 0, 0, 1}}};
    settled(numbers(norm, 2, "head."), "head.weight", (const double[]){6, 8, 0, 1}, 4);
    settled(numbers(columns, 2, "head."), "head.weight", (const double[]){6, 0, 8, 4}, 4);
    settled(numbers(spectral, 3, "head."), "head.weight", (const double[]){0.75, 1, 0, 0.5}, 4);
    settled(numbers(pruned, 2, "head."), "head.weight", (const double[]){3, 0, 0, 2}, 4);
}

/* W (x - m) / sqrt(v + eps) + b, and one output as two. */
static void test_head(void **state) {
    (void)state;
    static const part probe[] = {{"head.0.running_mean", 1, {2}, {1, -2}},
                                 {"head.0.running_var", 1, {2}, {4 - 1e-6, 0.25 - 1e-6}},
                                 {"head.1.weight", 2, {3, 2}, {1, 2, 3, 4, 5, 6}},
                                 {"head.1.bias", 1, {3}, {1, 1, 1}}};
    static const part affine[] = {{"head.0.running_mean", 1, {2}, {1, -2}},
                                  {"head.0.running_var", 1, {2}, {4 - 1e-5, 0.25 - 1e-5}},
                                  {"head.0.weight", 1, {2}, {2, 1}},
                                  {"head.0.bias", 1, {2}, {0.5, 0}},
                                  {"head.1.weight", 2, {1, 2}, {1, 2}},
                                  {"head.1.bias", 1, {1}, {1}}};
    static const part one[] = {{"head.weight", 2, {1, 2}, {5, 6}}};
    settled(numbers(probe, 4, "head."), "head.weight", (const double[]){0.5, 4, 1.5, 8, 2.5, 12}, 6);
    settled(numbers(probe, 4, "head."), "head.bias", (const double[]){8.5, 15.5, 22.5}, 3);
    settled(numbers(affine, 6, "head."), "head.weight", (const double[]){0, 0, 1, 4}, 4);
    settled(numbers(affine, 6, "head."), "head.bias", (const double[]){0, 8.5}, 2);
    settled(numbers(one, 1, "head."), "head.weight", (const double[]){0, 0, 5, 6}, 4);
    settled(numbers(one, 1, "head."), "head.bias", (const double[]){0, 0}, 2);
    vt_tensors *st = numbers(one, 1, "head.");
    vt_names n;
    vt_err e = {0};
    assert_int_equal(vt_names_apply(&n, st, NULL, &e), VT_OK);
    assert_string_equal(n.supposed, "one output z, read as the logits 0 and z");
    vt_names_close(&n), vt_tensors_close(st);
}

/* The key has no bias; DeiT III's LayerScale. */
static void test_block(void **state) {
    (void)state;
    static const part bias[] = {{"blocks.0.attn.q_bias", 1, {2}, {1, 2}}, {"blocks.0.attn.v_bias", 1, {2}, {3, 4}}};
    static const part gamma[] = {{"blocks.1.gamma_2", 1, {2}, {1, 2}}};
    settled(numbers(bias, 2, "blocks.0.attn.qkv.bias"), "blocks.0.attn.qkv.bias", (const double[]){1, 2, 0, 0, 3, 4},
            6);
    settled(numbers(gamma, 1, "nothing"), "blocks.1.ls2.gamma", (const double[]){1, 2}, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_dressed, t_drop),
        cmocka_unit_test(test_two_networks),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_block),
    };
    return cmocka_run_group_tests_name("wrapped", tests, make_tmp, remove_tmp);
}
