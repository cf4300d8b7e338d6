/* SPDX-License-Identifier: MIT */
/* Name maps to fill in (checkpoint/map_template.c): which lines state dicts get, that a filled one works, and
 * what is refused. */
#include "tensors/tensors.h"
#include "checkpoint/names.h"
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

/* The template of st, with single blanks between words. */
static char *template_of(const vt_tensors *st) {
    char *text;
    size_t size, to = 0;
    vt_err e = {0};
    FILE *f = open_memstream(&text, &size);
    if (vt_map_template(f, st, &e) != VT_OK) fail_msg("%s", e.text);
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

static void test_lines(void **state) {
    (void)state;
    static const struct {
        const char *dict, *lines[9];
    } cases[] = {
        {"cls 1 1 8\npos 1 5 8\nemb.weight 8 3 4 4\nemb.bias 8\n" BLOCK("net.0.")
             BLOCK("net.1.") "n.weight 8\nn.bias 8\nfc.weight 10 8\nfc.bias 10\n",
         {"cls -> ? # [1,1,8]", "emb.* -> ? # [8,3,4,4]", "net.{i}.norm1.* -> ? # [8]", "net.{i}.att.o.* -> ? # [8,8]",
          "net.{i}.ff.2.* -> ? # [8,32]", "fc.* -> ? # [10,8]", "set heads ?"}},
        /* no value is guessed */
        {BLOCK("b.0."), {"set attn_scale ?", "set post_norm ?", "set pool ?", "set ln_eps ?", "set act ?"}},
        /* counted from 1; one block alone is none that repeats, but still one */
        {BLOCK("b1.") BLOCK("b2.") BLOCK("b3."), {"b{i+1}.att.qkv.* -> ?", "b{i+1}.norm2.* -> ?"}},
        {BLOCK("b.0."), {"b.{i}.att.qkv.* -> ?", "b.{i}.ff.0.* -> ?"}},
        /* of the numbers in a name the block's: a sequence of other parts repeats nothing */
        {"0.cls 1 1 8\n" BLOCK("1.0.") BLOCK("1.1.") "2.0.weight 8\n2.0.bias 8\n2.1.weight 10 8\n",
         {"0.cls -> ?", "1.{i}.ff.0.* -> ?", "2.0.* -> ?", "2.1.weight -> ?"}},
        /* as many tensors under each number, but of other names: no blocks */
        {"l.0.a.weight 8 8\nl.0.b.weight 8\nl.0.b.bias 8\nl.0.c.weight 8\nl.0.c.bias 8\nl.0.d 8\n"
         "l.1.a.weight 8 8\nl.1.b.weight 8\nl.1.b.bias 8\nl.1.c.weight 8\nl.1.c.bias 8\nl.1.e 8\n",
         {"l.0.b.* -> ?", "l.1.e -> ?"}},
        /* names that begin alike get no star */
        {"h.0.a.weight 24 8\nh.0.a.bias 24\nh.0.a.out.weight 8 8\nh.0.a.out.bias 8\nh.0.n.weight 8\nh.0.n.bias 8\n",
         {"h.{i}.a.weight -> ?", "h.{i}.a.bias -> ?", "h.{i}.a.out.* -> ?"}},
        /* what is left out by itself gets no line */
        {BLOCK("b.0.") "x.running_mean 8\nx.running_var 8\nx.weight 8\nx.bias 8\nx.num_batches_tracked\ntemperature\n",
         {"x.weight -> ?", "x.bias -> ?", "x.running_mean -> ?", "temperature -> ? # []"}},
    };
    for (size_t i = 0; i < T_COUNT(cases); i++) {
        vt_tensors *st = dict(cases[i].dict);
        char *text = template_of(st);
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
    char *text = template_of(st);
    vt_rename *m;
    vt_err e = {0};
    int comments = 0;
    for (const char *p = text; (p = strstr(p, "# a name that no map can hold")); p++) comments++;
    assert_int_equal(comments, 7);
    assert_null(strchr(text, '\x1b'));
    holds(text, "b.{i}.norm1.* -> ?");
    t_says(vt_rename_parse(&m, text, strlen(text), "x.map", &e), VT_E_USAGE, &e, "x.map: line ",
           "'b.{i}.norm1.*' is left blank (?)");
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

/* Filled in, with a sum, a tensor that is dropped and every value, it is a map that gives timm's names. */
static void test_filled(void **state) {
    (void)state;
    static const char *const fill[][2] = {{"cls", "cls_token"},
                                          {"pos", "pos_embed"},
                                          {"emb.*", "patch_embed.proj.*"},
                                          {"net.{i}.norm1.*", "blocks.{i}.norm1.*"},
                                          {"net.{i}.q.*", "+ net.{i}.k.* + net.{i}.v.* -> blocks.{i}.attn.qkv.*"},
                                          {"net.{i}.o.*", "blocks.{i}.attn.proj.*"},
                                          {"net.{i}.norm2.*", "blocks.{i}.norm2.*"},
                                          {"net.{i}.ff.0.*", "blocks.{i}.mlp.fc1.*"},
                                          {"net.{i}.ff.2.*", "blocks.{i}.mlp.fc2.*"},
                                          {"n.*", "norm.*"},
                                          {"fc.*", "head.*"},
                                          {"set heads", "2"},
                                          {"set attn_scale", "head"},
                                          {"set qkv_rows", "qkv"},
                                          {"set patch_order", "conv"},
                                          {"set mean", "0.5"},
                                          {"set std", "0.5"},
                                          {"set ln_eps", "1e-6"},
                                          {"set post_norm", "0"},
                                          {"set pool", "token"},
                                          {"set act", "gelu"}};
#define APART(p)                                                                                                       \
    p "norm1.weight 8\n" p "norm1.bias 8\n" p "q.weight 8 8\n" p "q.bias 8\n" p "k.weight 8 8\n" p "k.bias 8\n" p      \
      "v.weight 8 8\n" p "v.bias 8\n" p "o.weight 8 8\n" p "o.bias 8\n" p "norm2.weight 8\n" p "norm2.bias 8\n" p      \
      "ff.0.weight 32 8\n" p "ff.0.bias 32\n" p "ff.2.weight 8 32\n" p "ff.2.bias 8\n"
    vt_tensors *st = dict("cls 1 1 8\npos 1 5 8\ntemperature\nemb.weight 8 3 4 4\nemb.bias 8\n" APART("net.0.")
                              APART("net.1.") "n.weight 8\nn.bias 8\nfc.weight 10 8\nfc.bias 10\n");
    char *text = template_of(st), *rest = text, *line, *blank;
    vt_names names;
    vt_err e = {0};
    FILE *f = fopen(at("one.map"), "w");
    while ((line = strsep(&rest, "\n"))) {
        if (*line == '#' || !(blank = strstr(line, " ? #"))) continue;
        const bool set = !strncmp(line, "set ", 4), sum = !strncmp(line, "net.{i}.q.", 10);
        *blank = 0;
        if (!set) *strstr(line, " ->") = 0;
        size_t k = 0;
        while (k < T_COUNT(fill) && strcmp(fill[k][0], line)) k++;
        if (k < T_COUNT(fill))
            fprintf(f, "%s %s %s\n", line, set || sum ? "" : "->", fill[k][1]);
        else if (strncmp(line, "net.{i}.k", 9) && strncmp(line, "net.{i}.v", 9)) /* which stand in the sum */
            fprintf(f, "drop %s\n", line);
    }
    fclose(f);
    if (vt_names_apply(&names, st, at("one.map"), NULL, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(vt_tensors_count(st), 2 + 2 + 2 * 12 + 4);
    const vt_tensor *qkv = vt_tensors_find(st, "blocks.1.attn.qkv.weight");
    assert_true(qkv && qkv->shape[0] == 24 && qkv->shape[1] == 8);
    assert_true(vt_tensors_find(st, "blocks.0.mlp.fc2.bias") && vt_tensors_find(st, "head.weight"));
    vt_names_close(&names);
    vt_tensors_close(st);
    free(text);
}

static void test_too_many(void **state) {
    (void)state;
    vt_tensors *st;
    vt_err e = {0};
    static const float zero;
    assert_int_equal(vt_tensors_begin(&st, "big", (const uint8_t *)"", 0, NULL), VT_OK);
    for (int i = 0; i <= VT_MAP_TEMPLATE_MOST; i++) {
        vt_tensor t = {.name = vt_tensors_text(st, NULL, "x.%d", i), .dtype = VT_F32, .numel = 1, .data = &zero};
        assert_int_equal(vt_tensors_add(st, &t, NULL), VT_OK);
    }
    t_says(vt_map_template(NULL, st, &e), VT_E_RANGE, &e, "big: has 4097 tensors", "at most 4096");
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
        const char *kin = vt_unsupported_network(st, NULL, 0);
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
        if (vt_unsupported_network(st, NULL, 0))
            fail_msg("%s is taken for %s", path, vt_unsupported_network(st, NULL, 0));
        vt_tensors_close(st);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),  cmocka_unit_test(test_strange_names), cmocka_unit_test(test_blanks),
        cmocka_unit_test(test_filled), cmocka_unit_test(test_too_many),      cmocka_unit_test(test_kin),
    };
    return cmocka_run_group_tests_name("map template", tests, make_tmp, remove_tmp);
}
