/* SPDX-License-Identifier: MIT */
/* What people do to a checkpoint around its names: prefixes, wrappers' words, classifiers of their own, weights stored
 * in parts. Each file is tests/fixtures/names/vit.safetensors, dressed up; read again it must be that. */
#include <math.h>
#include "names_fixture.h"
#include "toy.h"

#include "models/detect.h"

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
    {"another name for the classifier", {{"head.", "fc."}}, {{NULL}}, NULL},
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
    {"two classifiers",
     {{"", "vit."}},
     {{"fc.weight", 2, {3, 5}, 0}, {"fc.bias", 1, {3}, 0}},
     "classifier of its own and fc.* behind it"},
    {"the same name", {{"", "vit."}}, {{"head.weight", 2, {3, 5}, 0}}, "one beside it"},
    {"an MLP",
     {{"head.", "head.2."}},
     {{"head.0.weight", 2, {12, 12}, 0}},
     "head is an MLP of 2 layers (head.0, head.2)"},
    {"a chain with a short bias",
     {{"head.", "head.1."}},
     {{"head.0.weight", 2, {12, 12}, 0}, {"head.0.bias", 1, {3}, 0}},
     "weight and bias of layer head.0 do not fit each other"},
    {"a second norm",
     {{"head.", "head.1."}},
     {{"head.0.weight", 1, {12}, 0}, {"head.0.bias", 1, {12}, 0}},
     "second norm, before its classifier (head.0)"},
    {"a norm behind", {{"head.", "head.0."}}, {{"head.1.weight", 1, {5}, 0}}, "norm behind its classifier (head.1)"},
    {"no classifier", {{"head.", "projector."}, {"", "net."}}, {{NULL}}, "projector.bias beside them"},
    {"a temperature", {{"", "net."}}, {{"temperature", 1, {1}, 0}}, "learned temperature in its attention"},
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
        vt_status s = vt_names_apply(&n, st, NULL, NULL, &e);
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
    t_says(vt_names_apply(&n, st, NULL, NULL, &e), VT_E_FORMAT, &e, "holds two networks, left.* and right.*", "two.");
    vt_names_close(&n), vt_tensors_close(st);
}

/* ---- schemes and maps ---- */

/* How a file of these names comes of one that is read already: by a map. */
static const struct {
    const char *file, *how, *scheme; /* or behind a !, what a refusal says */
} named[] = {
    {"home/lucid_0",
     "transformer.layers.{i}.0.norm.* -> transformer.layers.{i}.0.fn.norm.*\n"
     "transformer.layers.{i}.1.norm.* -> transformer.layers.{i}.1.fn.norm.*\n"
     "transformer.layers.{i}.{k}.fn.* -> transformer.layers.{i}.{k}.fn.fn.*\n* -> *\n",
     "map vit-pytorch-residual,"},
    {"home/lucid_0",
     "transformer.layers.{i}.0.norm.* -> transformer.layers.{i}.0.fn.norm.*\n"
     "transformer.layers.{i}.1.norm.* -> transformer.layers.{i}.1.fn.norm.*\n"
     "transformer.layers.{i}.{k}.fn.* -> transformer.layers.{i}.{k}.fn.fn.*\n"
     "to_patch_embedding.1.* -> patch_to_embedding.*\n* -> *\n",
     "map vit-pytorch-residual-0,"},
    {"home/lucid_0",
     "transformer.layers.{i}.0.fn.* -> transformer.layers.{i}.0.*\n"
     "transformer.layers.{i}.1.norm.* -> transformer.layers.{i}.1.net.0.*\n"
     "transformer.layers.{i}.1.fn.net.0.* -> transformer.layers.{i}.1.net.1.*\n"
     "transformer.layers.{i}.1.fn.net.3.* -> transformer.layers.{i}.1.net.4.*\n* -> *\n",
     "map vit-pytorch-dropout,"},
    {"home/lucid",
     "transformer.layers.{i}.1.net.0.* -> transformer.layers.{i}.1.norm.*\n"
     "transformer.layers.{i}.1.net.1.* -> transformer.layers.{i}.1.net.0.*\n"
     "transformer.layers.{i}.1.net.4.* -> transformer.layers.{i}.1.net.3.*\n* -> *\n",
     "map vit-pytorch-decorr,"},
    {"home/lucid", "* -> vit.*\n", "map vit-pytorch,"},
    {"names/vit_hf4", "drop vit.pooler.*\nclassifier.* -> fc.*\nvit.* -> backbone.*\n", "huggingface"},
    {"names/vit_hf4", "drop vit.pooler.*\nclassifier.* -> head.1.*\nvit.* -> vit.*\n", "huggingface"},
    {"names/vit_hf4", "classifier.* -> fc.*\nvit.* -> backbone.*\n", "!its pooler or not"},
    {"names/vit_hf4", "classifier.* -> fc.*\nvit.* -> vit.*\n", "!its pooler or not"},
    {"names/vit",
     "cls_token -> vision_model.embeddings.class_embedding\n"
     "pos_embed -> vision_model.embeddings.position_embedding.weight\n"
     "patch_embed.proj.* -> vision_model.embeddings.patch_embedding.*\n"
     "blocks.{i}.norm{k}.* -> vision_model.encoder.layers.{i}.layer_norm{k}.*\n"
     "blocks.{i}.attn.qkv.* -> vision_model.encoder.layers.{i}.self_attn.q_proj.* + "
     "vision_model.encoder.layers.{i}.self_attn.k_proj.* + vision_model.encoder.layers.{i}.self_attn.v_proj.*\n"
     "blocks.{i}.attn.proj.* -> vision_model.encoder.layers.{i}.self_attn.out_proj.*\n"
     "blocks.{i}.mlp.* -> vision_model.encoder.layers.{i}.mlp.*\n"
     "norm.* -> vision_model.post_layernorm.*\nhead.* -> classifier.*\n",
     "huggingface-clip"},
    {"names/vit",
     "cls_token -> transformer.embeddings.cls_token\npos_embed -> transformer.embeddings.position_embeddings\n"
     "patch_embed.proj.* -> transformer.embeddings.patch_embeddings.*\n"
     "blocks.{i}.norm1.* -> transformer.encoder.layer.{i}.attention_norm.*\n"
     "blocks.{i}.norm2.* -> transformer.encoder.layer.{i}.ffn_norm.*\n"
     "blocks.{i}.attn.qkv.* -> transformer.encoder.layer.{i}.attn.query.* + "
     "transformer.encoder.layer.{i}.attn.key.* + transformer.encoder.layer.{i}.attn.value.*\n"
     "blocks.{i}.attn.proj.* -> transformer.encoder.layer.{i}.attn.out.*\n"
     "blocks.{i}.mlp.* -> transformer.encoder.layer.{i}.ffn.*\n"
     "norm.* -> transformer.encoder.encoder_norm.*\nhead.* -> head.*\n",
     "map vit-jeonsworld,"},
    {"names/vit",
     "cls_token -> embedding.cls_token\npos_embed -> embedding.position_embeddings\n"
     "patch_embed.proj.* -> embedding.patch_embeddings.projection.*\n"
     "blocks.{i}.norm{k}.* -> encoder.blocks.{i}.layernorm_{k}.*\n"
     "blocks.{i}.attn.qkv.* -> encoder.blocks.{i}.attention.qkv_projection.*\n"
     "blocks.{i}.attn.proj.* -> encoder.blocks.{i}.attention.output_projection.*\n"
     "blocks.{i}.mlp.fc{k}.* -> encoder.blocks.{i}.mlp.dense_{k}.*\ndrop norm.*\nhead.* -> classifier.*\n",
     "map vit-tintn,"},
};

/* Every tensor of a that b has too is the same; it has all but the few that a scheme leaves out. */
static void same_but_for(vt_tensors *a, vt_tensors *b, int few, const char *who) {
    assert_true(vt_tensors_count(b) - vt_tensors_count(a) <= few);
    for (int i = 0; i < vt_tensors_count(a); i++) {
        const vt_tensor *x = vt_tensors_at(a, i), *y = vt_tensors_find(b, x->name);
        double p[1024], q[1024];
        if (!y || x->numel != y->numel || x->numel > 1024) fail_msg("%s: %s", who, x->name);
        assert_int_equal(vt_tensor_f64(a, x, p, x->numel, NULL), VT_OK);
        assert_int_equal(vt_tensor_f64(b, y, q, x->numel, NULL), VT_OK);
        if (memcmp(p, q, x->numel * sizeof *p)) fail_msg("%s: %s has other numbers", who, x->name);
    }
}

static void test_named(void **state) {
    (void)state;
    for (size_t i = 0; i < T_COUNT(named); i++) {
        char path[100];
        vt_names a, b;
        vt_names_row *rows_of;
        vt_err e = {0};
        vt_tensor t[MOST];
        int n;
        snprintf(path, sizeof path, "tests/fixtures/%s.safetensors", named[i].file);
        vt_tensors *plain = open_file(path), *st = open_file(path);
        vt_rename *how = map_of(named[i].how);
        if (vt_rename_apply(how, st, true, &rows_of, &n, &e) != VT_OK) fail_msg("%s", e.text);
        n = vt_tensors_count(st);
        for (int k = 0; k < n; k++) t[k] = *vt_tensors_at(st, k);
        assert_int_equal(vt_tensors_write(at("named.safetensors"), t, n, NULL, 0, &e), VT_OK);
        vt_tensors_close(st), free(how);
        st = open_file(at("named.safetensors"));
        vt_status s = vt_names_apply(&a, st, NULL, NULL, &e);
        if (*named[i].scheme == '!') {
            t_says(s, VT_E_FORMAT, &e, named[i].scheme + 1, "named.safetensors");
            vt_names_close(&a), vt_tensors_close(st), vt_tensors_close(plain);
            continue;
        }
        if (s != VT_OK) fail_msg("%s: %s", named[i].scheme, e.text);
        if (vt_names_apply(&b, plain, NULL, NULL, &e) != VT_OK) fail_msg("%s", e.text);
        if (strncmp(a.naming, named[i].scheme, strlen(named[i].scheme))) fail_msg("read as %s", a.naming);
        same_but_for(st, plain, 2, named[i].scheme);
        vt_names_close(&a), vt_names_close(&b);
        vt_tensors_close(st), vt_tensors_close(plain);
    }
}

/* ---- networks that are named ---- */

static const char *const networks[][3] = {
#include "networks.inc"
};

/* A name that fits: 2 for a number, "a" for a star. */
static void sample(const char *pattern, char out[VT_NAME_MAX + 1]) {
    size_t n = 0;
    for (; *pattern; pattern++) {
        if (*pattern == '{')
            out[n++] = '2', pattern = strchr(pattern, '}');
        else
            out[n++] = *pattern == '*' ? 'a' : *pattern;
    }
    out[n] = 0;
}

/* Each row's patterns may stand, and two tensors that they fit are named: by this row, or one before that fits both. */
static void test_networks(void **state) {
    (void)state;
    for (size_t i = 0; i < T_COUNT(networks); i++) {
        char one[VT_NAME_MAX + 1], two[VT_NAME_MAX + 1];
        uint32_t letters;
        int stars;
        vt_err e = {0};
        for (int k = 0; k < 2; k++)
            if (vt_pattern_check(networks[i][k], networks[i][2], &letters, &stars, &e) != VT_OK) fail_msg("%s", e.text);
        sample(networks[i][0], one), sample(networks[i][1], two);
        if (!strcmp(one, two)) strcat(two, "b");
        const item items[] = {{one, 1, {2}, 0}, {two, 1, {2}, 0}};
        vt_tensors *st = made(items, 2);
        const char *kin = vt_unsupported_network(st, NULL, 0);
        if (!kin) fail_msg("%s and %s: not named", one, two);
        size_t first = 0;
        while (strcmp(networks[first][2], kin)) first++;
        assert_true(first <= i);
        vt_tensors_close(st);
    }
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
    if (vt_names_apply(&names, st, NULL, NULL, &e) != VT_OK) fail_msg("%s", e.text);
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
    assert_int_equal(vt_names_apply(&n, st, NULL, NULL, &e), VT_OK);
    assert_string_equal(n.assumed, "no bias: a plain product, one output z, read as the logits 0 and z");
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

static vt_model *saved(const vt_config *c, const char *path) {
    vt_model *m;
    vt_tensor t[MOST];
    vt_err e = {0};
    if (vt_model_new(&m, c, &e) != VT_OK) fail_msg("%s", e.text);
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        t[i] =
            (vt_tensor){.name = p->name, .dtype = VT_F32, .ndim = p->ndim, .numel = p->numel, .data = m->w + p->offset};
        memcpy(t[i].shape, p->shape, sizeof p->shape);
    }
    assert_int_equal(vt_tensors_write(path, t, m->params.count, NULL, 0, &e), VT_OK);
    return m;
}

/* What tensors tell of a block, and of tokens: heads by the width of q/k norm (one as wide as attention tells none),
 * registers beside nine patches and no class token. */
static void test_detected(void **state) {
    (void)state;
    vt_config c = toy_config("dot", VT_POOL_AVG, false, true);
    c.qk_norm = c.no_cls = c.no_embed_class = true, c.registers = 2;
    vt_model *m, *again;
    vt_err e = {0};
    for (int heads = 1; heads <= 3; heads += 2) {
        c.heads = heads;
        m = saved(&c, at("d.safetensors"));
        if (vt_model_open(&again, at("d.safetensors"), NULL, &e) != VT_OK) fail_msg("%s", e.text);
        assert_int_equal(again->certainty[VT_FIELD_HEADS], heads == 3 ? VT_KNOWN : VT_OPEN);
        if (heads == 3) assert_int_equal(again->config.heads, 3);
        assert_true(again->config.no_cls && again->config.no_embed_class && again->config.registers == 2 &&
                    again->config.image == 12);
        assert_int_equal(vt_config_placed(&again->config), 0);
        vt_model_close(again), vt_model_close(m);
    }
}

/* Two grids, 2 x 2 and 3 x 3, with four registers and a class token: the images given decide. Patches that overlap have
 * the positions of a larger image. */
static void test_images_at_hand(void **state) {
    (void)state;
    vt_config c = toy_config("dot", VT_POOL_TOKEN, false, true);
    c.registers = 4, c.no_embed_class = true;
    vt_overrides o = {.heads = 3};
    vt_model *m;
    vt_err e = {0};
    vt_model_close(saved(&c, at("grid.safetensors")));
    for (o.shown = 0; o.shown <= 12; o.shown += 12) {
        if (vt_model_open(&m, at("grid.safetensors"), &o, &e) != VT_OK) fail_msg("%s", e.text);
        assert_int_equal(m->config.image, o.shown ? 12 : 8);
        assert_int_equal(m->config.no_embed_class, o.shown == 12);
        vt_model_close(m);
    }
    c.registers = 0, c.no_embed_class = false, c.image = 28;
    vt_model_close(saved(&c, at("grid.safetensors")));
    o.shown = 16; /* 7 patches of 4 pixels at a stride of 2 */
    t_says(vt_model_open(&m, at("grid.safetensors"), &o, &e), VT_E_SHAPE, &e, "overlap at a stride of 2", "--oracle");
    o.shown = 17;
    assert_int_equal(vt_model_open(&m, at("grid.safetensors"), &o, &e), VT_OK);
    vt_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_dressed, t_drop),
        cmocka_unit_test(test_two_networks),
        cmocka_unit_test_teardown(test_named, t_drop),
        cmocka_unit_test_teardown(test_networks, t_drop),
        cmocka_unit_test(test_detected),
        cmocka_unit_test(test_images_at_hand),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_block),
    };
    return cmocka_run_group_tests_name("wrapped", tests, make_tmp, remove_tmp);
}
