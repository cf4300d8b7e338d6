/* SPDX-License-Identifier: MIT */
/* Readers of weights: PyTorch files against what torch.load makes of them (tests/fixtures/gen_pth.py), shards, folders,
 * prefixes, and what is refused. Runs from the repository root. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/hash.h"
#include "tensors/tensors.h"
#include "tensors/pickle.h"
#include "scratch.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define CORPUS "tests/fuzz/corpus/pth/"

static vt_tensors *open_good(const char *path, const char *want) {
    vt_tensors *st;
    vt_err e = {0};
    if (vt_weights_open(&st, path, want, &e) != VT_OK) fail_msg("%s", e.text);
    return st;
}

static void refused(const char *path, const char *want, vt_status code, const char *text) {
    vt_tensors *st = (vt_tensors *)tmp;
    vt_err e = {0};
    vt_status s = vt_weights_open(&st, path, want, &e);
    if (s == VT_OK) fail_msg("%s is accepted, '%s' was expected", path, text);
    if (s != code || e.code != code) fail_msg("status %d instead of %d: %s", s, code, e.text);
    if (!strstr(e.text, text)) fail_msg("'%s' does not mention '%s'", e.text, text);
    if (strncmp(e.text, path, strlen(path))) fail_msg("'%s' does not begin with the file", e.text);
    assert_null(st);
}

static const vt_note *note(const vt_tensors *st, vt_note_kind kind, const char *name) {
    for (int i = 0; vt_tensors_note(st, i); i++)
        if (vt_tensors_note(st, i)->kind == kind && !strcmp(vt_tensors_note(st, i)->name, name))
            return vt_tensors_note(st, i);
    return NULL;
}

static void has_note(const vt_tensors *st, vt_note_kind kind, const char *name, const char *text) {
    const vt_note *n = note(st, kind, name);
    if (!n) fail_msg("%s: no note %d on %s", vt_tensors_path(st), kind, name);
    if (!strstr(n->text, text)) fail_msg("%s: note on %s is '%s', not '%s'", vt_tensors_path(st), name, n->text, text);
}

/* ---- against torch.load ---- */

static void same_as_torch(const char *name) {
    char path[200], judge[200];
    vt_tensors *ref;
    vt_err e = {0};
    snprintf(path, sizeof path, CORPUS "%s", name);
    snprintf(judge, sizeof judge, "tests/fixtures/pth/%s.safetensors", name);
    vt_tensors *st = open_good(path, NULL);
    if (vt_tensors_open(&ref, judge, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(vt_tensors_count(st), vt_tensors_count(ref));
    for (int i = 0; i < vt_tensors_count(st); i++) {
        const vt_tensor *a = vt_tensors_at(st, i), *b = vt_tensors_find(ref, vt_tensors_origin(st, i));
        if (!b) fail_msg("%s: torch knows no %s", path, vt_tensors_origin(st, i));
        if (a->dtype != b->dtype || a->ndim != b->ndim || a->numel != b->numel ||
            memcmp(a->shape, b->shape, sizeof a->shape) || memcmp(a->data, b->data, a->numel * vt_dtype_size(a->dtype)))
            fail_msg("%s: %s is not what torch reads", path, a->name);
        assert_ptr_equal(vt_tensors_find(st, a->name), a);
    }
    vt_tensors_close(ref);
    vt_tensors_close(st);
}

static void test_same_as_torch(void **state) {
    (void)state;
    static const char *const names[] = {"plain", "kinds", "views", "parameter", "proto4", "wrapped"};
    for (size_t i = 0; i < COUNT(names); i++) {
        char name[80];
        snprintf(name, sizeof name, "good_zip_%s", names[i]);
        same_as_torch(name);
        snprintf(name, sizeof name, "good_legacy_%s", names[i]);
        same_as_torch(name);
    }
}

static void test_rarer_forms(void **state) {
    (void)state;
    static const char *const names[] = {"good_zip_nested",     "good_zip_zip64", "good_zip_deflated",
                                        "good_zip_big_endian", "good_zip_v3",    "good_zip_from_type",
                                        "good_legacy_python2"};
    for (size_t i = 0; i < COUNT(names); i++) same_as_torch(names[i]);
}

/* Contiguous little-endian tensors lie in the file's own bytes, and views share them. */
static void test_in_place(void **state) {
    (void)state;
    vt_tensors *st;
    vt_err e = {0};
    static uint8_t bytes[4096];
    FILE *f = fopen(CORPUS "good_zip_views", "rb");
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    assert_int_equal(vt_weights_parse(&st, bytes, n, "w.pth", NULL, &e), VT_OK);
    const uint8_t *base = vt_tensors_find(st, "base")->data, *part = vt_tensors_find(st, "part")->data;
    const uint8_t *turned = vt_tensors_find(st, "transposed")->data;
    assert_true(base > bytes && base + 96 <= bytes + n);
    assert_ptr_equal(part, base + 20);
    assert_true(turned < bytes || turned >= bytes + n);
    assert_string_equal(vt_tensors_format(st), "PyTorch zip");
    /* copies are bounded by the file: 16 MB and 4 times its size, of which a little is taken */
    assert_null(vt_tensors_take(st, (16u << 20) + 4 * n, &e));
    assert_true(e.code == VT_E_FORMAT && strstr(e.text, "claim more memory than 4 times the file"));
    assert_non_null(vt_tensors_take(st, 15u << 20, &e));
    vt_tensors_close(st);
}

/* ---- wrappers, prefixes, normalisation ---- */

static void test_wrapper(void **state) {
    (void)state;
    for (int legacy = 0; legacy < 2; legacy++) {
        const char *path = legacy ? CORPUS "good_legacy_wrapped" : CORPUS "good_zip_wrapped";
        vt_tensors *st = open_good(path, NULL);
        assert_int_equal(vt_tensors_count(st), 2);
        assert_non_null(vt_tensors_find(st, "fc.weight"));
        has_note(st, VT_NOTE_CHOSEN, "state_dict", "state_dict, model_ema");
        has_note(st, VT_NOTE_IGNORED, "model_ema", "outside the chosen");
        has_note(st, VT_NOTE_IGNORED, "optimizer", "not read");
        has_note(st, VT_NOTE_RENAMED, "module.", "all 2 names");
        static const char *const values[][2] = {{"epoch", "12"},         {"best", "71.25"},    {"count", "-3"},
                                                {"note", "caf\xc3\xa9"}, {"args.heads", "4"},  {"args.lr", "0.1"},
                                                {"args.name", "vit"},    {"args.cuda", "True"}};
        for (size_t i = 0; i < COUNT(values); i++) has_note(st, VT_NOTE_VALUE, values[i][0], values[i][1]);
        assert_null(note(st, VT_NOTE_VALUE, "args.layers"));
        float w[6], v[6];
        assert_int_equal(vt_tensor_f32(st, vt_tensors_find(st, "fc.weight"), w, 6, NULL), VT_OK);
        vt_tensors_close(st);
        st = open_good(path, "model_ema"); /* in it: shadow */
        has_note(st, VT_NOTE_CHOSEN, "model_ema", "asked for");
        has_note(st, VT_NOTE_CHOSEN, "shadow", "only entry");
        has_note(st, VT_NOTE_VALUE, "decay", "0.99");
        assert_int_equal(vt_tensor_f32(st, vt_tensors_find(st, "fc.weight"), v, 6, NULL), VT_OK);
        for (int i = 0; i < 6; i++) assert_true(v[i] != w[i]); /* one Adam step and 1 apart */
        vt_tensors_close(st);
        refused(path, "epoch", VT_E_UNKNOWN, "no entry 'epoch' with tensors; there are: state_dict, model_ema");
    }
    refused("weights/shapes10-vit/model.safetensors", "model", VT_E_UNKNOWN, "tensors alone");
}

/* Two ViTs in one file (tests/fixtures/gen_parts.py): which was read, and what else there was. */
static void test_parts(void **state) {
    (void)state;
    static const char ema[] = "tests/fixtures/pth/parts_ema.pth", open[] = "tests/fixtures/pth/parts_open.pth";
    static const struct {
        const char *path, *want, *part, *parts, *inside;
        bool second;
    } rows[] = {{ema, NULL, "model", "model, ema", "", false},
                {ema, "ema", "ema.module", "model, ema", "", true},
                {ema, "ema.module", "ema.module", "model, ema", "", true},
                {open, NULL, "", "", "first, second", false},
                {open, "first", "first", "first, second", "", false},
                {open, "second", "second", "first, second", "", true},
                {CORPUS "good_zip_plain", NULL, "", "", "", false}};
    float first[10], bias[10];
    for (size_t i = 0; i < COUNT(rows); i++) {
        vt_tensors *st = open_good(rows[i].path, rows[i].want);
        assert_string_equal(st->part, rows[i].part);
        assert_string_equal(st->parts, rows[i].parts);
        assert_string_equal(st->inside, rows[i].inside);
        if (*rows[i].part) {
            assert_int_equal(vt_tensors_count(st), 20);
            assert_int_equal(vt_tensor_f32(st, vt_tensors_find(st, "head.bias"), bias, 10, NULL), VT_OK);
            if (!i) memcpy(first, bias, sizeof first);
            assert_int_equal(memcmp(first, bias, sizeof first) != 0, rows[i].second);
        }
        vt_tensors_close(st);
    }
    refused(ema, "", VT_E_UNKNOWN, "no entry '' with tensors; there are: model, ema");
    refused(ema, "ema.", VT_E_UNKNOWN, "no entry 'ema.' with tensors; there are: ema.module");
    refused(ema, "ema.modul", VT_E_UNKNOWN, "there are: ema.module");
    refused(ema, "epoch", VT_E_UNKNOWN, "there are: model, ema");
    refused(open, "third", VT_E_UNKNOWN, "there are: first, second");
}

static void test_normalisation(void **state) {
    (void)state;
    static const struct {
        const char *file, *name;
        double mean[3], std[3]; /* float32 in the file */
    } cases[] = {
        {"good_zip_normalize", "fc.weight", {.4914f, .4822f, .4465f}, {.2470f, .2435f, .2616f}},
        {"good_zip_sequential", "fc.weight", {.4914f, .4822f, .4465f}, {.2470f, .2435f, .2616f}},
        {"good_zip_robustness", "fc.weight", {.5, .25, .125}, {.25, .5, 1}},
        {"good_zip_sigma", "fc.weight", {.5, .5, .5}, {.25, .25, .25}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char path[200];
        double got[3];
        snprintf(path, sizeof path, CORPUS "%s", cases[i].file);
        vt_tensors *st = open_good(path, NULL);
        assert_int_equal(vt_tensors_count(st), 1);
        assert_string_equal(vt_tensors_at(st, 0)->name, cases[i].name);
        for (int k = 0; k < 2; k++) {
            const double *want = k ? cases[i].std : cases[i].mean;
            const char *text = vt_tensors_meta(st, k ? "std" : "mean");
            assert_non_null(text);
            assert_int_equal(sscanf(text, "%lf,%lf,%lf", &got[0], &got[1], &got[2]), 3);
            for (int c = 0; c < 3; c++) assert_true(got[c] == want[c]); /* 17 digits are exact */
        }
        vt_tensors_close(st);
    }
    vt_tensors *st = open_good(CORPUS "good_zip_robustness", NULL);
    has_note(st, VT_NOTE_IGNORED, "module.attacker.model.fc.weight", "once more");
    has_note(st, VT_NOTE_MEAN_STD, "module.normalizer.new_mean, module.normalizer.new_std", "mean 0.5,0.25,0.125");
    vt_tensors_close(st);
}

static float ones[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

static void write_st(const char *path, const char *const *names, int n, const char *const *meta, int n_meta) {
    vt_tensor t[8];
    vt_err e = {0};
    for (int i = 0; i < n; i++)
        t[i] = (vt_tensor){.name = names[i], .dtype = VT_F32, .ndim = 1, .shape = {3}, .numel = 3, .data = ones + i};
    if (vt_tensors_write(path, t, n, meta, n_meta, &e) != VT_OK) fail_msg("%s", e.text);
}

static void test_prefixes(void **state) {
    (void)state;
    const char *path = at("p.safetensors");
    static const struct {
        const char *in[3], *out[3];
    } cases[] = {
        {{"module.a", "module.b.c"}, {"a", "b.c"}},
        {{"_orig_mod.module.model.a", "_orig_mod.module.model.b"}, {"a", "b"}},
        {{"backbone.a", "head.b"}, {"backbone.a", "head.b"}}, /* not shared by all */
        {{"encoder.a", "encoder.net.b"}, {"a", "net.b"}},
        {{"0.a", "1.b"}, {"0.a", "1.b"}},
        {{"model.", "model.b"}, {"model.", "model.b"}}, /* nothing would be left of the first */
        {{"n.mean", "n.b"}, {"n.mean", "n.b"}},         /* a mean alone is no normalisation */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        write_st(path, cases[i].in, 2, NULL, 0);
        vt_tensors *st = open_good(path, NULL);
        assert_int_equal(vt_tensors_count(st), 2);
        for (int k = 0; k < 2; k++) {
            assert_non_null(vt_tensors_find(st, cases[i].out[k]));
            for (int j = 0; j < 2; j++)
                if (!strcmp(vt_tensors_at(st, j)->name, cases[i].out[k]))
                    assert_string_equal(vt_tensors_origin(st, j), cases[i].in[k]);
        }
        vt_tensors_close(st);
    }
    /* the layer overrules the metadata; two layers must agree */
    const char *layer[] = {"model.w", "normalize.mean", "normalize.std"}, *meta[] = {"mean", "0", "std", "1", "k", "v"};
    write_st(path, layer, 3, meta, 3);
    vt_tensors *st = open_good(path, NULL);
    assert_string_equal(vt_tensors_meta(st, "mean"), "2,3,4");
    assert_string_equal(vt_tensors_meta(st, "std"), "3,4,5");
    assert_string_equal(vt_tensors_meta(st, "k"), "v");
    assert_non_null(vt_tensors_find(st, "w"));
    vt_tensors_close(st);
    const char *two[] = {"a.mean", "a.std", "b.mean", "b.std"};
    write_st(path, two, 4, NULL, 0);
    refused(path, NULL, VT_E_FORMAT, "two normalisation layers");
}

/* ---- folders and shards ---- */

static void put(const char *path, const char *text) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void test_shards(void **state) {
    (void)state;
    const char *dir = at("hub"), *index = at("hub/model.safetensors.index.json");
    const char *one[] = {"module.a", "module.b"}, *two[] = {"module.c"}, *meta[] = {"format", "pt"};
    assert_int_equal(mkdir(dir, 0777), 0);
    write_st(at("hub/m-1.safetensors"), one, 2, meta, 1);
    write_st(at("hub/m-2.safetensors"), two, 1, meta, 1);
#define MAP(x) "{\"metadata\":{\"total_size\":36},\"weight_map\":{" x "}}"
#define FIRST "\"module.a\":\"m-1.safetensors\",\"module.b\":\"m-1.safetensors\""
    put(index, MAP(FIRST ",\"module.c\":\"m-2.safetensors\""));
    for (int whole = 0; whole < 2; whole++) {
        vt_tensors *st = open_good(whole ? dir : index, NULL);
        assert_string_equal(vt_tensors_path(st), index);
        assert_string_equal(vt_tensors_format(st), "2 shards, safetensors");
        refused(index, "ema", VT_E_UNKNOWN, "has no entry 'ema': an index speaks of tensors alone");
        assert_string_equal(vt_tensors_meta(st, "format"), "pt");
        assert_int_equal(vt_tensors_count(st), 3);
        float v[3];
        assert_int_equal(vt_tensor_f32(st, vt_tensors_find(st, "b"), v, 3, NULL), VT_OK);
        assert_true(v[0] == 2 && v[2] == 4);
        char hex[65], both[65];
        vt_weights_sha(st, hex);
        char cmd[600];
        snprintf(cmd, sizeof cmd, "cat %s/m-1.safetensors %s/m-2.safetensors >%s/cat", dir, dir, tmp);
        assert_int_equal(system(cmd), 0);
        assert_int_equal(vt_sha_file(at("cat"), both, NULL), VT_OK);
        assert_string_equal(hex, both);
        vt_tensors_release(st, vt_tensors_find(st, "b")); /* numbers come back from the file */
        assert_int_equal(vt_tensor_f32(st, vt_tensors_find(st, "b"), v, 3, NULL), VT_OK);
        assert_true(v[0] == 2);
        vt_tensors_close(st);
    }
    put(index, MAP(FIRST ",\"module.c\":\"m-3.safetensors\""));
    refused(at("hub/m-3.safetensors"), NULL, VT_E_IO, "No such file");
    vt_tensors *st;
    vt_err e = {0};
    assert_int_equal(vt_weights_open(&st, dir, NULL, &e), VT_E_IO);
    assert_non_null(strstr(e.text, "m-3.safetensors: cannot be opened: No such file"));
    put(index, MAP(FIRST ",\"module.c\":\"m-1.safetensors\""));
    refused(index, NULL, VT_E_FORMAT, "tensor module.c is missing in m-1.safetensors");
    put(index, MAP("\"module.a\":\"m-1.safetensors\""));
    assert_int_equal(vt_weights_open(&st, dir, NULL, &e), VT_E_FORMAT);
    assert_non_null(strstr(e.text, "tensor module.b is not in the index"));
    put(index, MAP("\"a\":\"../m-1.safetensors\""));
    refused(index, NULL, VT_E_FORMAT, "no file beside it");
    put(index, MAP("\"a\":3"));
    refused(index, NULL, VT_E_FORMAT, "no file beside it");
    put(index, MAP("\"a\":\"model.safetensors.index.json\"")); /* itself */
    refused(index, NULL, VT_E_FORMAT, "header of");
    put(index, "{\"weight_map\":{}}");
    refused(index, NULL, VT_E_FORMAT, "without a weight_map");
    put(index, "{\"weight_map\":");
    refused(index, NULL, VT_E_FORMAT, "JSON is not valid");
}

/* Finding 17: shards with many metadata keys are opened in seconds, and of a key the first shard's text counts. */
static void test_finding_17_shards_with_many_keys(void **state) {
    (void)state;
    enum { KEYS = 200000 };
    static char text[KEYS][16];
    static const char *meta[2 * KEYS];
    const char *index = at("many.index.json"), *one[] = {"a"}, *two[] = {"b"};
    for (int i = 0; i < KEYS; i++) {
        snprintf(text[i], sizeof text[i], "k%d", i);
        meta[2 * i] = text[i], meta[2 * i + 1] = "first";
    }
    write_st(at("many-1.safetensors"), one, 1, meta, KEYS);
    meta[1] = meta[3] = "second", meta[2] = "more";
    write_st(at("many-2.safetensors"), two, 1, meta, 2);
    put(index, "{\"weight_map\":{\"a\":\"many-1.safetensors\",\"b\":\"many-2.safetensors\"}}");
    alarm(15);
    vt_tensors *st = open_good(index, NULL);
    alarm(0);
    assert_string_equal(vt_tensors_meta(st, "k0"), "first");
    assert_string_equal(vt_tensors_meta(st, "more"), "second");
    assert_string_equal(vt_tensors_meta_key(st, KEYS), "more");
    assert_null(vt_tensors_meta_key(st, KEYS + 1));
    vt_tensors_close(st);
}

static void test_result_dir(void **state) {
    (void)state;
    const char *dir = at("one"), *names[] = {"a"};
    assert_int_equal(mkdir(dir, 0777), 0);
    refused(dir, NULL, VT_E_IO, "a folder without weights");
    write_st(at("one/mine.pth"), names, 1, NULL, 0); /* by content, whatever the name */
    vt_tensors *st = open_good(dir, NULL);
    assert_string_equal(vt_tensors_path(st), at("one/mine.pth"));
    vt_tensors_close(st);
    write_st(at("one/other.pt"), names, 1, NULL, 0);
    refused(dir, NULL, VT_E_USAGE, "2 files of weights");
    write_st(at("one/pytorch_model.bin"), names, 1, NULL, 0);
    st = open_good(dir, NULL);
    assert_string_equal(vt_tensors_path(st), at("one/pytorch_model.bin"));
    vt_tensors_close(st);
}

/* ---- refusals ---- */

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *file, *text;
    } cases[] = {
        {"zip_system", "data.pkl, byte 31: the pickle names posix system"},
        {"legacy_system", "the pickle names posix system"},
        {"zip_module", "the pickle names __main__ Net"},
        {"legacy_module", "names torch.nn.modules.linear Linear: the file holds a whole model"},
        {"zip_script", "TorchScript"},
        {"tar", "a tar archive"},
        {"zip_past_end", "tensor a (25 items from item 0 on, with its strides) leaves storage 0 of 24 items"},
        {"zip_offset", "(24 items from item 1 on"},
        {"zip_stride", "leaves storage 0"},
        {"zip_negative_stride", "stride 0 is not a whole number from 0"},
        {"zip_negative_offset", "offset is not a number from 0"},
        {"zip_negative_size", "size 0 is not"},
        {"zip_negative_numel", "storage 0 has no number of items"},
        {"zip_overflow", "too large for this machine"},
        {"zip_stride_overflow", "leaves storage 0"},
        {"zip_offset_overflow", "leaves storage 0"},
        {"zip_claim", "has 96 bytes in the file, but 536870912 items are claimed"},
        {"zip_expanded", "tensor a of shape [1048576,512] overlaps itself: a step of 0 along side 0"},
        {"zip_repeated", "tensor a of shape [2,5] overlaps itself: a step of 0 along side 1"},
        {"zip_overlap", "tensor a of shape [3,4] overlaps itself: a step of 2 along side 0"},
        {"zip_dims", "9 dimensions, the limit is 8"},
        {"zip_ranks", "2 sizes and 1 strides"},
        {"zip_no_storage", "no entry w/data/9"},
        {"zip_list", "holds a list, not a state dict"},
        {"zip_no_tensors", "holds no tensors under names"},
        {"zip_memo", "memo 7 is used but was never set"},
        {"zip_underflow", "takes a value where there is none"},
        {"zip_mark", "there is none"},
        {"zip_opcode", "byte 3: opcode 0x30"},
        {"zip_protocol", "pickle protocol 1"},
        {"zip_cut", "an argument of 2147483647 bytes, but only 4 bytes follow"},
        {"zip_odd", "last key has no value"},
        {"zip_no_stop_name", "a name does not end"},
        {"zip_complex", "names torch ComplexFloatStorage"},
        {"zip_quantised", "names torch._utils _rebuild_qtensor"},
        {"zip_reduce_int", "a whole number is called with a tuple"},
        {"zip_huge_memo", "memo 4294967295 is beyond"},
        {"zip_zero_name", "has a zero in it"},
        {"zip_byte_name", "tensor a is there twice"},
        {"zip_self", "nested deeper than 16"},
        {"zip_laughs", "claim more memory"},
        {"zip_deep", "holds no tensors"},
        {"zip_untyped", "untyped storage has no type"},
        {"zip_view", "its view does not lie in its 24 items"},
        {"zip_byteorder", "neither little nor big"},
        {"zip_npz", "of NumPy arrays"},
        {"zip_bomb", "claims to inflate to 33554432 bytes"},
        {"legacy_twice", "storage 0 is named with two types or lengths"},
        {"legacy_short", "storage 0 of 24 items is not all in the file"},
        {"legacy_count", "storage 0 of 24 items is not all in the file"},
        {"legacy_no_keys", "storage 0 is not in the file"},
        {"legacy_stranger", "storage 0 of the list belongs to no tensor"},
        {"zip_half", "not a whole zip archive"},
        {"zip_tail", "not a whole zip archive"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char path[200];
        snprintf(path, sizeof path, CORPUS "bad_%s", cases[i].file);
        refused(path, NULL, VT_E_FORMAT, cases[i].text);
    }
}

static void test_other_kinds(void **state) {
    (void)state;
    static const struct {
        const char *bytes, *text;
    } cases[] = {
        {"\x1f\x8b\x08", "gzip"},
        {"\x89HDF\r\n", "HDF5"},
        {"\x93NUMPY", "NumPy"},
        {"\x80\x03}.", "a Python pickle, but not one that torch.save wrote"},
        {"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"},
        {"<!DOCTYPE html>", "a web page"},
        {"\x08\x07\x12\x07pytorch\x1a\x05"
         "1.13",
         "an ONNX model"},
        {"\x08\x01\x12\x80\x01", "a TensorFlow SavedModel"},
        {"\xfd"
         "7zXZ",
         "compressed by xz"},
        {"PAR1\x15\x04", "a Parquet table"},
        {"\x7f"
         "ELF\x02\x01\x01 ",
         "no file of weights that is known"},
        {"{\"a\": 1}", "without a weight_map"},
        {"", "8 bytes or more, not 0"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        put(at("kind"), cases[i].bytes);
        refused(at("kind"), NULL, VT_E_FORMAT, cases[i].text);
    }
}

/* Every cut of a good file is refused, or (behind what matters) gives the same tensors. */
static void test_cuts(void **state) {
    (void)state;
    static const char *const files[] = {CORPUS "good_zip_views", CORPUS "good_legacy_wrapped"};
    for (size_t f = 0; f < COUNT(files); f++) {
        uint8_t *whole = malloc(1 << 16);
        FILE *in = fopen(files[f], "rb");
        size_t n = fread(whole, 1, 1 << 16, in);
        fclose(in);
        for (size_t k = 0; k < n; k++) {
            uint8_t *cut = malloc(k + 1); /* the sanitizer sees a byte read too many */
            memcpy(cut, whole, k);
            vt_tensors *st;
            vt_err e = {0};
            if (vt_weights_parse(&st, cut, k, "cut", NULL, &e) == VT_OK) fail_msg("%zu bytes of %s", k, files[f]);
            assert_int_equal(strncmp(e.text, "cut: ", 5), 0);
            free(cut);
        }
        free(whole);
    }
}

static vt_status no_storage(void *ctx, const vt_node_store *s, const uint8_t **bytes, size_t *n, vt_err *e) {
    (void)ctx, (void)s, (void)bytes, (void)n;
    return vt_fail(e, VT_E_FORMAT, "the storage was asked for");
}

/* Finding 18: a storage of 2-byte items that claims 2^63 - 1 of them, read as bytes: strides that lead near 2^64 leave
 * it, before any sum of them is formed in 64 signed bits. */
static void test_finding_18_span(void **state) {
    (void)state;
    vt_node_store store = {.key = {"0", 1}, .dtype = VT_F16, .numel = INT64_MAX, .view_numel = INT64_MAX};
    vt_node node = {.kind = VT_NODE_STORE, .u.store = &store};
    vt_node_tensor t = {.store = &node,
                        .dtype = VT_U8,
                        .ndim = 2,
                        .shape = {2, 2},
                        .stride = {INT64_MAX, INT64_MAX - 1}};
    const uint8_t bytes[8] = {0};
    vt_tensors *st;
    vt_err e = {0};
    assert_int_equal(vt_tensors_begin(&st, "span.pth", bytes, sizeof bytes, &e), VT_OK);
    assert_int_equal(vt_state_tensor(st, "w", &t, &(vt_stores){.find = no_storage}, &e), VT_E_FORMAT);
    if (!strstr(e.text, "leaves storage 0")) fail_msg("%s", e.text);
    vt_tensors_close(st);
}

/* Finding 19: marks that are open at once count as memory of the file. */
static void test_finding_19_marks(void **state) {
    (void)state;
    const size_t n = ((size_t)1 << 20) + 1;
    uint8_t *bytes = malloc(n);
    memset(bytes, '(', n);
    vt_tensors *st;
    vt_node *root;
    vt_err e = {0};
    size_t at = 0;
    assert_int_equal(vt_tensors_begin(&st, "marks.pth", bytes, n, &e), VT_OK);
    assert_int_equal(vt_pickle_read(&root, st, bytes, n, &at, "", NULL, &e), VT_E_FORMAT);
    if (!strstr(e.text, "marks.pth: its 1048577 bytes claim more memory than")) fail_msg("%s", e.text);
    vt_tensors_close(st);
    free(bytes);
}

/* What names the classes, in whichever direction and wherever it lies; each number once. */
static void test_class_names(void **state) {
    (void)state;
    static const char *const files[][2] = {{"names_to_idx", "cat \ndog\neel\n"},
                                           {"names_from_idx", "cat\ndog\n"},
                                           {"names_list", "cat\ndog\neel\n"},
                                           {"names_twice", NULL}};
    for (size_t i = 0; i < COUNT(files); i++) {
        char path[200];
        snprintf(path, sizeof path, CORPUS "%s", files[i][0]);
        vt_tensors *st = open_good(path, NULL);
        const char *labels = vt_tensors_meta(st, "labels");
        if (files[i][1])
            assert_string_equal(labels, files[i][1]);
        else
            assert_null(labels);
        vt_tensors_close(st);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_torch),
        cmocka_unit_test(test_rarer_forms),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_wrapper),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_normalisation),
        cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_shards),
        cmocka_unit_test(test_finding_17_shards_with_many_keys),
        cmocka_unit_test(test_result_dir),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_other_kinds),
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_finding_18_span),
        cmocka_unit_test(test_finding_19_marks),
        cmocka_unit_test(test_class_names),
    };
    return cmocka_run_group_tests(tests, make_tmp, remove_tmp);
}
