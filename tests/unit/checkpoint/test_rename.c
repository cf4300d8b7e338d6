/* SPDX-License-Identifier: MIT */
/* The language of maps of names: what lines do to tensors, which maps and applications are refused, patterns. */
#include "tensors/tensors.h"
#include "names_fixture.h"

static double first_of(const vt_tensors *st, const char *name) {
    const vt_tensor *t = vt_tensors_find(st, name);
    double v[256];
    if (!t) fail_msg("no tensor %s", name);
    assert_true(t->numel <= T_COUNT(v));
    assert_int_equal(vt_tensor_f64(st, t, v, t->numel, NULL), VT_OK);
    return v[0];
}

static void test_apply(void **state) {
    (void)state;
    static const item items[] = {{"a.0.w", 2, {2, 3}, 0}, {"a.1.w", 2, {2, 3}, 0}, {"b.3.c.x", 1, {6}, 0},
                                 {"q", 1, {4}, 0},        {"k", 1, {2}, 0},        {"tok", 1, {5}, 0},
                                 {"pos", 2, {3, 5}, 0},   {"pe", 2, {2, 12}, 0},   {"junk", 1, {1}, 0}};
    static const char text[] = "a.{i}.* -> blocks.{2i+1}.*  # a comment\n"
                               "\tb.{i+1}.*.x -> {i}.p* + {i}.q* + {i}.r*\r\n"
                               "q + k -> qk\n\n"
                               "tok -> cls_token\npos -> pos_embed\npe -> patch_embed.proj.weight\n"
                               "drop junk\nset patch_order chw\nset mean 0.1, 0.2, 0.3\nis act relu\n";
    vt_rename *m = map_of(text);
    vt_tensors *st = made(items, T_COUNT(items));
    vt_names_row *rows;
    int n;
    vt_err e = {0};
    assert_true(vt_rename_covers(m, st));
    if (vt_rename_apply(m, st, true, &rows, &n, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(n, T_COUNT(items));
    assert_int_equal(vt_tensors_count(st), 9);
    assert_true(vt_tensors_find(st, "blocks.1.w") && vt_tensors_find(st, "blocks.3.w"));
    assert_true(first_of(st, "2.qc") - first_of(st, "2.pc") == 2 && first_of(st, "2.rc") - first_of(st, "2.pc") == 4);
    const vt_tensor *qk = vt_tensors_find(st, "qk"), *tok = vt_tensors_find(st, "cls_token"),
                    *pos = vt_tensors_find(st, "pos_embed");
    assert_true(qk && qk->ndim == 1 && qk->shape[0] == 6 && qk->numel == 6);
    double v[6];
    assert_int_equal(vt_tensor_f64(st, qk, v, 6, &e), VT_OK);
    for (int i = 0; i < 6; i++) assert_true(v[i] == v[0] + i); /* all of q, then k, which lies behind it */
    assert_true(tok && tok->ndim == 3 && tok->shape[0] == 1 && tok->shape[1] == 1 && tok->shape[2] == 5);
    assert_true(pos && pos->ndim == 3 && pos->shape[0] == 1 && pos->shape[1] == 3 && pos->shape[2] == 5);
    const vt_tensor *pe = vt_tensors_find(st, "patch_embed.proj.weight");
    assert_true(pe && pe->ndim == 4 && pe->shape[1] == 3 && pe->shape[2] == 2 && pe->shape[3] == 2);
    assert_string_equal(vt_rename_value(m, "mean"), "0.1,0.2,0.3");
    assert_null(vt_rename_value(m, "std"));
    assert_string_equal(vt_rename_value(m, "act"), "relu");
    assert_true(vt_rename_proven(m, "act") && !vt_rename_proven(m, "mean") && !vt_rename_proven(m, "std"));
    free(m), vt_tensors_close(st);
}

/* A line that fits nothing, a tensor that no line fits: a shipped map then stays away. */
static void test_covers(void **state) {
    (void)state;
    static const item items[] = {{"a.0.w", 1, {2}, 0}, {"a.1.w", 1, {2}, 0}, {"bn.num_batches_tracked", 1, {1}, 0}};
    static const struct {
        const char *map;
        bool covers;
    } rows[] = {{"a.{i}.w -> {i}\n", true},
                {"a.0.w -> x\n", false},
                {"a.0.w -> x\na.1.w -> y\n", true},
                {"a.0.w -> x\na.1.w -> y\nz -> z\n", false},
                {"a.0.w + a.1.w -> x\n", true},
                {"a.{i}.w + a.{i}.b -> {i}\n", false},
                {"drop a.*\n", true},
                {"maybe z -> z\na.{i}.w -> {i}\n", true},
                {"maybe a.0.w -> x\n", false},
                {"maybe -> x\na.{i}.w -> {i}\n", false}, /* a tensor called maybe */
                {"a.{i}.w -> {i}\na.0.w -> x\n", false}, /* the first line takes it */
                {"a.0{i}.w -> {i}\na.1.w -> x\n", false}};
    vt_tensors *st = made(items, T_COUNT(items));
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        vt_rename *m = map_of(rows[i].map);
        if (vt_rename_covers(m, st) != rows[i].covers) fail_msg("row %zu: %s", i, rows[i].map);
        free(m);
    }
    vt_tensors_close(st);
}

/* What all names of the file begin with may stand in a line, of joined tensors too. */
static void test_common_prefix(void **state) {
    (void)state;
    static const item items[] = {{"a.w", 1, {2}, 0}, {"b.w", 1, {3}, 0}};
    static const char *const maps[] = {"net.a.w + net.b.w -> x\n", "a.w + net.b.w -> x\n", "a.w + b.w -> x\n"};
    for (size_t i = 0; i < T_COUNT(maps); i++) {
        vt_tensors *st = made(items, T_COUNT(items));
        vt_rename *m = map_of(maps[i]);
        vt_names_row *rows;
        int n;
        vt_err e = {0};
        st->origin[0] = "net.a.w", st->origin[1] = "net.b.w";
        assert_true(vt_rename_covers(m, st));
        if (vt_rename_apply(m, st, true, &rows, &n, &e) != VT_OK) fail_msg("%s", e.text);
        const vt_tensor *x = vt_tensors_find(st, "x");
        assert_true(vt_tensors_count(st) == 1 && x && x->numel == 5);
        assert_string_equal(vt_tensors_origin(st, 0), "net.a.w + net.b.w");
        free(m), vt_tensors_close(st);
    }
}

static void test_refused_applications(void **state) {
    (void)state;
    static const item items[] = {{"a.0.w", 2, {2, 3}, 0},  {"a.1.w", 2, {4, 3}, 0}, {"a.2.w", 2, {2, 4}, 0},
                                 {"h", 2, {2, 3}, VT_F32}, {"s", 0, {0}, 0},        {"pe", 2, {2, 13}, 0},
                                 {"pf", 2, {2, 12}, 0}};
    static const struct {
        const char *map, *a, *b;
        vt_status code;
    } rows[] = {{"a.0.w -> x\n", "tensor a.1.w and 5 more: no line of x.map fits", "--explain", VT_E_FORMAT},
                {"* -> *\nb.* -> c.*\n", "x.map: line 2: no tensor of", "fits 'b.*'", VT_E_FORMAT},
                {"a.{i}.w -> x\n* -> *\n", "a.0.w and a.1.w both become x", "x.map: lines 1 and 1", VT_E_FORMAT},
                {"h -> a.0.w\n* -> *\n", "both become a.0.w", "lines ", VT_E_FORMAT},
                {"a.{i}.w + a.{i}.b -> x.{i}\n* -> *\n", "tensor a.0.b is missing", "line 1 joins it with a.0.w",
                 VT_E_FORMAT},
                {"a.0.w + a.2.w -> x\n* -> *\n", "a.0.w F64 [2,3] and a.2.w F64 [2,4]", "cannot be joined", VT_E_SHAPE},
                {"a.0.w + h -> x\n* -> *\n", "F64 [2,3] and h F32 [2,3]", "cannot be joined", VT_E_SHAPE},
                {"s + s -> x\n* -> *\n", "s F64 [] and s F64 []", "cannot be joined", VT_E_SHAPE},
                {"a.0.w -> x + y + z\n* -> *\n", "tensor a.0.w [2,3] has no 3 equal parts", "line 1", VT_E_SHAPE},
                {"s -> x + y\n* -> *\n", "tensor s [] has no 2 equal parts", "line 1", VT_E_SHAPE},
                {"a.{i}.w -> x.{i-1}\n* -> *\n", "line 1 makes no name", "a.0.w", VT_E_FORMAT},
                {"a.0.w* -> *\n* -> *\n", "line 1 makes no name", "a.0.w", VT_E_FORMAT},
                {"pe -> patch_embed.proj.weight\n* -> *\n", "[2,13]", "3 * patch * patch", VT_E_SHAPE}};
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        vt_rename *m = map_of(rows[i].map);
        vt_tensors *st = made(items, T_COUNT(items));
        vt_names_row *r;
        int n;
        vt_err e = {0};
        t_says(vt_rename_apply(m, st, true, &r, &n, &e), rows[i].code, &e, rows[i].a, rows[i].b);
        assert_int_equal(n, T_COUNT(items)); /* what explain shows */
        free(m), vt_tensors_close(st);
    }
}

static void test_refused_maps(void **state) {
    (void)state;
    static const struct {
        const char *map, *a, *b;
        vt_status code;
    } rows[] = {{"a => b\n", "x.map: line 1: 'a' begins neither", "theirs -> timm", VT_E_FORMAT},
                {"\n\na -> \n", "line 3", "from 1 to 8 names", VT_E_FORMAT},
                {"-> b\n", "line 1", "from 1 to 8 names", VT_E_FORMAT},
                {"a b -> c\n", "joined by +", "near 'b'", VT_E_FORMAT},
                {"a + -> c\n", "joined by +", "near '+'", VT_E_FORMAT},
                {"+ a -> c\n", "joined by +", "near '+'", VT_E_FORMAT},
                {"a + b -> c + d\n", "joins and splits", "line 1", VT_E_FORMAT},
                {"a + b + c + d + e + f + g + h + i -> x\n", "from 1 to 8", "line 1", VT_E_FORMAT},
                {"a.{i}.b + a.{j}.c -> {i}\n", "same letters", "a.{j}.c", VT_E_FORMAT},
                {"a.* + a.b -> c\n", "same letters", "a.b", VT_E_FORMAT},
                {"a -> b.*\n", "'b.*' has a letter or star", "left side", VT_E_FORMAT},
                {"a.{i} -> b.{j}\n", "'b.{j}' has a letter or star", "left side", VT_E_FORMAT},
                {"a** -> b\n", "two side by side", "a**", VT_E_FORMAT},
                {"*.*.* -> b\n", "more than 2 stars", "*.*.*", VT_E_FORMAT},
                {"a{ -> b\n", "of the form {i} or {2i+1}", "'a{'", VT_E_FORMAT},
                {"a} -> b\n", "of the form {i}", "'a}'", VT_E_FORMAT},
                {"a{0i} -> b\n", "of the form {i}", "{0i}", VT_E_FORMAT},
                {"a{i+} -> b\n", "of the form {i}", "{i+}", VT_E_FORMAT},
                {"a{I} -> b\n", "of the form {i}", "{I}", VT_E_FORMAT},
                {"a{i+1234567} -> b\n", "of the form {i}", "1234567", VT_E_FORMAT},
                {"set heads\n", "set KEY VALUE", "line 1", VT_E_FORMAT},
                {"set head 3\n", "'head' is no key", "did you mean 'heads'", VT_E_UNKNOWN},
                {"set zzzzzzzz 3\n", "'zzzzzzzz' is no key", "set", VT_E_UNKNOWN},
                {"set heads 0\n", "heads is '0'", "from 1 to 16384", VT_E_USAGE},
                {"set ln_eps -1\n", "ln_eps is '-1'", "above 0", VT_E_USAGE},
                {"set attn_scale fast\n", "attn_scale is 'fast'", "head, dim", VT_E_USAGE},
                {"set mean 1,2\n", "mean is '1,2'", "three numbers", VT_E_USAGE},
                {"set patch_order cwh\n", "patch_order is 'cwh'", "conv|chw|hwc", VT_E_USAGE},
                {"set norm bach\n", "x.map: line 1", "norm", VT_E_USAGE},
                {"set std 1\nset std 2\n", "line 2", "sets std a second time", VT_E_FORMAT},
                {"drop\n", "must be of the form drop NAME WHY", "line 1", VT_E_FORMAT},
                {"dropx a\n", "begins neither", "'dropx'", VT_E_FORMAT},
                {"drop a{\n", "of the form {i}", "line 1", VT_E_FORMAT}};
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        vt_rename *m;
        vt_err e = {0};
        t_says(vt_rename_parse(&m, rows[i].map, strlen(rows[i].map), "x.map", &e), rows[i].code, &e, rows[i].a,
               rows[i].b);
        assert_null(m);
    }
    vt_rename *m;
    vt_err e = {0};
    t_says(vt_rename_parse(&m, "a\0b", 3, "x.map", &e), VT_E_FORMAT, &e, "NUL at byte 1", "x.map");
    char many[20000];
    memset(many, '\n', sizeof many);
    t_says(vt_rename_parse(&m, many, sizeof many, "x.map", &e), VT_E_FORMAT, &e, "20000 bytes in 20001 lines", "x.map");
}

static void test_patterns(void **state) {
    (void)state;
    static const struct {
        const char *pattern, *name, *to, *out; /* out NULL: does not fit */
    } rows[] = {{"a", "a", "b", "b"},
                {"a", "ab", "b", NULL},
                {"a*", "a", "b*", "b"},
                {"*a", "aaa", "*", "aa"},
                {"*.*", "a.b.c", "* *", "a b.c"},
                {"*x*y", "axbxy", "*|*", "a|bx"},
                {"l{i}", "l0", "{i}", "0"},
                {"l{i}", "l00", "{i}", NULL},
                {"l{i}", "l1234567", "{i}", NULL},
                {"l{i}", "l999999", "{i+1}", "1000000"},
                {"l{i}", "l", "{i}", NULL},
                {"l{i}.{i}", "l1.2", "", NULL},
                {"l{i}.{i}", "l2.2", "{i}", "2"},
                {"l{i}.{i+1}", "l2.3", "{3i}", "6"},
                {"{2i+1}.{b}", "5.7", "{i} {b}", "2 7"},
                {"{2i+1}", "4", "{i}", NULL},
                {"{i+3}", "2", "{i}", NULL},
                {"{i-3}", "2", "{i}", "5"},
                {"{i}*", "12x", "{i}*", "12x"}};
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        vt_binding b;
        char out[VT_NAME_MAX + 1];
        bool fits = vt_pattern_match(rows[i].pattern, rows[i].name, &b);
        if (fits != (rows[i].out != NULL)) fail_msg("%s and %s", rows[i].pattern, rows[i].name);
        if (!fits) continue;
        assert_true(vt_pattern_expand(rows[i].to, &b, out));
        assert_string_equal(out, rows[i].out);
    }
    vt_binding b;
    char out[VT_NAME_MAX + 1], name[VT_NAME_MAX + 2];
    memset(name, 'a', sizeof name), name[VT_NAME_MAX + 1] = 0;
    assert_false(vt_pattern_match("*", name, &b));
    name[VT_NAME_MAX] = 0;
    assert_true(vt_pattern_match("*", name, &b) && vt_pattern_expand("*", &b, out));
    assert_false(vt_pattern_expand("*b", &b, out));
    assert_false(vt_pattern_expand("{k}", &b, out));
    assert_false(vt_pattern_expand("*.*", &b, out));
}

/* Finding 18: empty tensors take no bytes, so their sides may be as large as 64 bits are; two of them have more rows
 * together than a side can say. */
static void test_finding_18_join(void **state) {
    (void)state;
    static const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[9223372036854775807,0],\"data_offsets\":[0,0]},"
                                 "\"b\":{\"dtype\":\"F32\",\"shape\":[9223372036854775807,0],\"data_offsets\":[0,0]}}";
    uint8_t bytes[8 + sizeof header - 1];
    memcpy(bytes, &(uint64_t){sizeof header - 1}, 8);
    memcpy(bytes + 8, header, sizeof header - 1);
    vt_rename *m = map_of("a + b -> c\n");
    vt_names_row *rows;
    vt_tensors *st;
    vt_err e = {0};
    int n;
    assert_int_equal(vt_tensors_parse(&st, bytes, sizeof bytes, "join.safetensors", &e), VT_OK);
    t_says(vt_rename_apply(m, st, true, &rows, &n, &e), VT_E_SHAPE, &e, "join.safetensors: tensors a F32",
           "have more rows together than 9223372036854775807");
    vt_tensors_close(st), free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_apply, t_drop),
        cmocka_unit_test_teardown(test_covers, t_drop),
        cmocka_unit_test_teardown(test_common_prefix, t_drop),
        cmocka_unit_test_teardown(test_refused_applications, t_drop),
        cmocka_unit_test(test_refused_maps),
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_finding_18_join),
    };
    return cmocka_run_group_tests_name("rename", tests, make_tmp, remove_tmp);
}
