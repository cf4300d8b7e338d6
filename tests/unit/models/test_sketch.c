/* SPDX-License-Identifier: MIT */
/* Maps that are guessed (models/checkpoint/sketch.h): which lines home-made state dicts get, that a filled one works,
 * and what is refused. */
#include "io/tensors.h"
#include "models/checkpoint/unsupported.h"
#include "models/checkpoint/sketch.h"
#include "names_fixture.h"

/* A state dict of lines "name 64 192"; its numbers are not used. */
static vt_tensors *dict(const char *lines) {
    static const float zero;
    vt_tensors *st;
    char *text = strdup(lines), *rest = text, *save;
    assert_int_equal(vt_tensors_begin(&st, "some/mine.pth", (const uint8_t *)"", 0, NULL), VT_OK);
    st->left = SIZE_MAX;
    for (char *line; (line = strsep(&rest, "\n"));) {
        const char *name = strtok_r(line, " ", &save), *side;
        if (!name) continue;
        vt_tensor t = {.name = vt_tensors_text(st, NULL, "%s", name), .dtype = VT_F32, .numel = 1, .data = &zero};
        while ((side = strtok_r(NULL, " ", &save))) t.numel *= (size_t)(t.shape[t.ndim++] = atoi(side));
        assert_int_equal(vt_tensors_add(st, &t, NULL), VT_OK);
    }
    assert_int_equal(vt_tensors_index(st, NULL), VT_OK);
    free(text);
    return st;
}

/* The map of st, with single blanks between words. */
static char *sketch(const vt_tensors *st) {
    char *text;
    size_t size, to = 0;
    vt_err e = {0};
    FILE *f = open_memstream(&text, &size);
    if (vt_sketch(f, st, "my.map", &e) != VT_OK) fail_msg("%s", e.text);
    fclose(f);
    for (size_t i = 0; i < size; i++)
        if (text[i] != ' ' || (to && text[to - 1] != ' ')) text[to++] = text[i];
    text[to] = 0;
    return text;
}

static void holds(const char *text, const char *line) {
    char want[400];
    snprintf(want, sizeof want, "\n%s", line);
    const char *at = strstr(text, want);
    if (!at || !strchr(" \n", at[strlen(want)])) fail_msg("no line '%s' in:\n%s", line, text);
}

/* Names of one block of width 8, `%s` for what stands before them. */
#define BLOCK(p)                                                                                                       \
    p "norm1.weight 8\n" p "norm1.bias 8\n" p "att.qkv.weight 24 8\n" p "att.qkv.bias 24\n" p "att.o.weight 8 8\n" p   \
      "att.o.bias 8\n" p "norm2.weight 8\n" p "norm2.bias 8\n" p "ff.0.weight 32 8\n" p "ff.0.bias 32\n" p             \
      "ff.2.weight 8 32\n" p "ff.2.bias 8\n"

static void test_forms(void **state) {
    (void)state;
    static const struct {
        const char *dict, *lines[9];
    } cases[] = {
        {"cls 1 1 8\npos 1 5 8\nemb.weight 8 3 4 4\nemb.bias 8\n" BLOCK("net.0.")
             BLOCK("net.1.") "n.weight 8\nn.bias 8\nfc.weight 10 8\nfc.bias 10\n",
         {"cls -> cls_token", "pos -> pos_embed", "emb.* -> patch_embed.proj.*",
          "net.{i}.norm1.* -> blocks.{i}.norm1.*", "net.{i}.att.o.* -> blocks.{i}.attn.proj.*",
          "net.{i}.ff.2.* -> blocks.{i}.mlp.fc2.*", "n.* -> norm.*", "fc.* -> head.*", "set heads ?"}},
        /* wherever the computation may differ: no value is guessed */
        {BLOCK("b.0."), {"set attn_scale ?", "set post_norm ?", "set pool ?", "set ln_eps ?", "set act ?"}},
        /* Compact Transformers: norm1 comes after attention, and pre_norm's value is the residual */
        {"b.0.pre_norm.weight 8\nb.0.pre_norm.bias 8\nb.0.att.qkv.weight 24 8\nb.0.att.proj.weight 8 "
         "8\nb.0.norm1.weight 8\nb.0.norm1.bias 8\nb.0.linear1.weight 16 8\nb.0.linear2.weight 8 16\n",
         {"b.{i}.pre_norm.* -> ? # [8]; norm1 or norm2, if the block is the one above",
          "b.{i}.norm1.* -> ? # [8]; norm1 or norm2, if the block is the one above",
          "b.{i}.linear2.* -> blocks.{i}.mlp.fc2.*"}},
        /* counted from 1; one block alone is none that repeats, but still one */
        {BLOCK("b1.") BLOCK("b2.") BLOCK("b3."),
         {"b{i+1}.att.qkv.* -> blocks.{i}.attn.qkv.*", "b{i+1}.norm2.* -> blocks.{i}.norm2.*"}},
        {BLOCK("b.0."), {"b.{i}.att.qkv.* -> blocks.{i}.attn.qkv.*", "b.{i}.ff.0.* -> blocks.{i}.mlp.fc1.*"}},
        /* as many tensors under each number, but of other names: no blocks */
        {"l.0.a.weight 8 8\nl.0.b.weight 8\nl.0.b.bias 8\nl.0.c.weight 8\nl.0.c.bias 8\nl.0.d 8\n"
         "l.1.a.weight 8 8\nl.1.b.weight 8\nl.1.b.bias 8\nl.1.c.weight 8\nl.1.c.bias 8\nl.1.e 8\n",
         {"l.0.b.* -> ?", "l.1.e -> ?"}},
        /* names that begin alike get no star */
        {"h.0.a.weight 24 8\nh.0.a.bias 24\nh.0.a.out.weight 8 8\nh.0.a.out.bias 8\nh.0.n.weight 8\nh.0.n.bias 8\n",
         {"h.{i}.a.weight -> blocks.{i}.attn.qkv.weight", "h.{i}.a.bias -> blocks.{i}.attn.qkv.bias",
          "h.{i}.a.out.* -> blocks.{i}.attn.proj.*"}},
        /* q, k, v apart, all with a bias or none; with a bias of q and v alone nothing can be joined */
        {"h.0.to_q.weight 8 8\nh.0.to_k.weight 8 8\nh.0.to_v.weight 8 8\nh.0.out.weight 8 8\nh.0.n.weight "
         "8\nh.0.n.bias 8\n",
         {"h.{i}.to_q.* + h.{i}.to_k.* + h.{i}.to_v.* -> blocks.{i}.attn.qkv.*",
          "h.{i}.out.* -> blocks.{i}.attn.proj.*"}},
        {"h.0.q.weight 8 8\nh.0.q.bias 8\nh.0.k.weight 8 8\nh.0.v.weight 8 8\nh.0.v.bias 8\nh.0.out.weight 8 8\n",
         {"h.{i}.q.* -> ?", "h.{i}.k.* -> ?", "h.{i}.v.* -> ?", "h.{i}.out.* -> blocks.{i}.attn.proj.*"}},
        {"h.0.to_q.weight 8 8\nh.0.to_kv.weight 16 8\nh.0.o.weight 8 8\nh.0.n.weight 8\nh.0.n.bias 8\nh.0.x.weight 8\n",
         {"h.{i}.to_q.* + h.{i}.to_kv.* -> blocks.{i}.attn.qkv.*", "h.{i}.o.* -> blocks.{i}.attn.proj.*"}},
        /* heads of another width than the model, norms named by what follows, LayerScale */
        {"h.0.ffn_norm.weight 8\nh.0.ffn_norm.bias 8\nh.0.attention_norm.weight 8\nh.0.attention_norm.bias "
         "8\nh.0.w.qkv.weight 36 8\nh.0.w.out.weight 8 12\nh.0.gamma_1 8\nh.0.gamma_2 8\n",
         {"h.{i}.ffn_norm.* -> blocks.{i}.norm2.*", "h.{i}.attention_norm.* -> blocks.{i}.norm1.*",
          "h.{i}.w.qkv.* -> blocks.{i}.attn.qkv.*", "h.{i}.w.out.* -> blocks.{i}.attn.proj.*",
          "h.{i}.gamma_1 -> blocks.{i}.ls1.gamma", "h.{i}.gamma_2 -> blocks.{i}.ls2.gamma",
          "set heads ? # attention heads; width 12 allows"}},
        /* a Linear patch embedding between norms, an nn.Embedding of positions, names of their own for weight and bias
         */
        {"patch.1.weight 48\npatch.1.bias 48\npatch.2.weight 8 48\npatch.2.bias 8\npatch.3.weight 8\npatch.3.bias "
         "8\npos.weight 17 8\nlast.gamma 8\nlast.beta 8\n",
         {"patch.1.* -> patch_embed.norm_in.*", "patch.2.* -> patch_embed.proj.*", "patch.3.* -> patch_embed.norm.*",
          "pos.weight -> pos_embed", "last.gamma -> norm.weight", "last.beta -> norm.bias", "set patch_order ?",
          "set pool ?"}},
        /* what BatchNorm keeps; what is left out by itself gets no line; what nothing suggests is left blank */
        {BLOCK("b.0.") "x.running_mean 8\nx.running_var 8\nx.weight 8\nx.bias 8\nx.num_batches_tracked\ntemperature\n",
         {"x.* -> norm.*", "temperature -> ?"}},
    };
    for (size_t i = 0; i < T_COUNT(cases); i++) {
        vt_tensors *st = dict(cases[i].dict);
        char *text = sketch(st);
        for (int k = 0; k < 9 && cases[i].lines[k]; k++) holds(text, cases[i].lines[k]);
        assert_null(strstr(text, "num_batches"));
        assert_non_null(strstr(text, "x = x + fc2(act(fc1(norm2(x))))")); /* what will be computed */
        free(text);
        vt_tensors_close(st);
    }
}

/* Names that would break the map stand in a comment; the rest goes on. */
static void test_strange_names(void **state) {
    (void)state;
    vt_tensors *st = dict(BLOCK("b.0.") "a#b 8\nstar* 8\n{i} 8\nset 8\n? 8\n-> 8\nline\x1b[31m 8\n");
    char *text = sketch(st);
    vt_rename *m;
    vt_err e = {0};
    int comments = 0;
    for (const char *p = text; (p = strstr(p, "# a name that no map can hold")); p++) comments++;
    assert_int_equal(comments, 7);
    assert_null(strchr(text, '\x1b'));
    holds(text, "b.{i}.norm1.* -> blocks.{i}.norm1.*");
    t_says(vt_rename_parse(&m, text, strlen(text), "x.map", &e), VT_E_USAGE, &e, "x.map: line ",
           "'heads' is left blank (?)");
    free(text);
    vt_tensors_close(st);
}

static void test_blanks(void **state) {
    (void)state;
    static const struct {
        const char *map, *want;
    } cases[] = {
        {"a -> b\nc -> ?\n",
         "x.map: line 2: 'c' is left blank (?): write timm's name, or drop the tensor, in place of the ?"},
        {"? -> b\n", "x.map: line 1: '?' is left blank"},
        {"# c -> ?\nset heads ?\n", "x.map: line 2: 'heads' is left blank (?): write a value in place of the ?"},
    };
    for (size_t i = 0; i < T_COUNT(cases); i++) {
        vt_rename *m;
        vt_err e = {0};
        t_says(vt_rename_parse(&m, cases[i].map, strlen(cases[i].map), "x.map", &e), VT_E_USAGE, &e, cases[i].want, "");
    }
}

/* The guessed map of a library's fixture gives the names that its scheme gives, to the same numbers. */
static void test_guess_is_right(void **state) {
    (void)state;
    static const char *const files[] = {"vit_home", "vit_hf4", "vit_tv", "vit_tv_old", "register_hf4", "deit_hf4"};
    for (size_t i = 0; i < T_COUNT(files); i++) {
        char path[200], map[400], *rest, *line, *text;
        vt_names names;
        vt_err e = {0};
        snprintf(path, sizeof path, "tests/fixtures/names/%s.safetensors", files[i]);
        vt_tensors *st = open_file(path), *twin = open_file(path);
        text = rest = sketch(st);
        snprintf(map, sizeof map, "%s", at("%s.map", files[i]));
        FILE *f = fopen(map, "w");
        while ((line = strsep(&rest, "\n"))) {
            char *blank = *line != '#' ? strstr(line, " -> ? ") : NULL; /* a pooler */
            if (blank) *blank = 0, fputs("drop ", f);
            fprintf(f, "%s\n", !strstr(line, " ? ") ? line : strstr(line, "patch_order") ? "set patch_order hwc" : "");
        }
        fclose(f);
        if (vt_names_apply(&names, st, map, &e) != VT_OK) fail_msg("%s: %s\n", path, e.text);
        vt_names_close(&names);
        if (strcmp(files[i], "vit_home")) { /* which needs a map of its own */
            if (vt_names_apply(&names, twin, NULL, &e) != VT_OK) fail_msg("%s: %s\n", path, e.text);
            assert_int_equal(vt_tensors_count(st), vt_tensors_count(twin));
            for (int k = 0; k < vt_tensors_count(st); k++) {
                const vt_tensor *a = vt_tensors_at(st, k), *b = vt_tensors_find(twin, a->name);
                double x[4096], y[4096];
                if (!b) fail_msg("%s: %s is no name that its scheme gives", path, a->name);
                assert_true(a->numel == b->numel && a->numel <= T_COUNT(x));
                assert_int_equal(vt_tensor_f64(st, a, x, a->numel, &e), VT_OK);
                assert_int_equal(vt_tensor_f64(twin, b, y, b->numel, &e), VT_OK);
                assert_memory_equal(x, y, a->numel * sizeof *x);
            }
            vt_names_close(&names);
        }
        vt_tensors_close(st), vt_tensors_close(twin);
        free(text);
    }
}

static void test_too_many(void **state) {
    (void)state;
    vt_tensors *st;
    vt_err e = {0};
    static const float zero;
    assert_int_equal(vt_tensors_begin(&st, "big", (const uint8_t *)"", 0, NULL), VT_OK);
    for (int i = 0; i <= VT_SKETCH_MOST; i++) {
        vt_tensor t = {.name = vt_tensors_text(st, NULL, "x.%d", i), .dtype = VT_F32, .numel = 1, .data = &zero};
        assert_int_equal(vt_tensors_add(st, &t, NULL), VT_OK);
    }
    t_says(vt_sketch(NULL, st, "my.map", &e), VT_E_RANGE, &e, "big: has 4097 tensors", "at most 4096");
    vt_tensors_close(st);
}

static void test_kin(void **state) {
    (void)state;
    static const struct {
        const char *dict, *want;
    } cases[] = {
        {"conv1.weight 1\nlayer1.0.conv1.weight 1\nlayer1.0.bn1.weight 1\n", "a ResNet"},
        {"block1.layer.0.conv1.weight 1\nblock1.layer.0.bn1.weight 1\n", "a WideResNet"},
        {"features.0.weight 1\nclassifier.0.weight 1\n", "a VGG or AlexNet"},
        {"conv_stem.weight 1\nblocks.0.0.conv_dw.weight 1\n", "an EfficientNet or MobileNet"},
        {"stem.0.weight 1\nstages.0.blocks.0.conv_dw.weight 1\n", "a ConvNeXt"},
        {"blocks.0.mlp_tokens.fc1.weight 1\nblocks.0.mlp_channels.fc1.weight 1\n", "an MLP-Mixer"},
        {BLOCK("layer1.0."), NULL},
    };
    for (size_t i = 0; i < T_COUNT(cases); i++) {
        vt_tensors *st = dict(cases[i].dict);
        const char *kin = vt_unsupported_network(st);
        if (cases[i].want)
            assert_string_equal(kin ? kin : "none", cases[i].want);
        else
            assert_null(kin);
        vt_tensors_close(st);
    }
    int n = 0; /* no Vision Transformer is taken for one of them */
    static const char *const vits[] = {"vit",      "deit", "swin",   "swin_old", "swin_tv",
                                       "swin_hf4", "xcit", "vit_tv", "vit_hf5",  "xcit_official"};
    for (; n < (int)T_COUNT(vits); n++) {
        char path[200];
        snprintf(path, sizeof path, "tests/fixtures/names/%s.safetensors", vits[n]);
        vt_tensors *st = open_file(path);
        if (vt_unsupported_network(st)) fail_msg("%s is taken for %s", path, vt_unsupported_network(st));
        vt_tensors_close(st);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),          cmocka_unit_test(test_strange_names), cmocka_unit_test(test_blanks),
        cmocka_unit_test(test_guess_is_right), cmocka_unit_test(test_too_many),      cmocka_unit_test(test_kin),
    };
    return cmocka_run_group_tests_name("sketch", tests, make_tmp, remove_tmp);
}
