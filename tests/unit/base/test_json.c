/* SPDX-License-Identifier: MIT */
/* src/base/json.c: what a text of JSON may take of memory, at every door that reads one. */
#include "scratch.h"
#include "t.h"

#include "base/json.h"
#include "eval/ledger.h"
#include "tensors/tensors.h"
#include "checkpoint/hub.h"

/* "begin", then the item so often that there are `bytes` or more, then "end"; %d in the item counts. */
static char *text_of(const char *begin, const char *item, const char *end, size_t bytes, size_t *n) {
    char *text = malloc(bytes + 1000), *p = text;
    assert_non_null(text);
    p += sprintf(p, "%s", begin);
    for (int i = 0; p < text + bytes; i++) {
        if (i) *p++ = ',';
        const char *d = strchr(item, '#');
        p += d ? sprintf(p, "%.*s%d%s", (int)(d - item), item, i, d + 1) : sprintf(p, "%s", item);
    }
    p += sprintf(p, "%s", end);
    *n = (size_t)(p - text);
    return text;
}

/* ---- what jansson really takes ---- */

static size_t taken, peak;

static void *count(size_t n) {
    size_t *p = malloc(n + 16);
    if (!p) return NULL;
    *p = n;
    taken += n + 16; /* as malloc counts */
    if (taken > peak) peak = taken;
    return p + 2;
}

static void uncount(void *q) {
    size_t *p = q;
    if (!p) return;
    taken -= p[-2] + 16;
    free(p - 2);
}

/* Whatever is parsed takes no more than the limit says, and what the formats hold is parsed. */
static void test_finding_8_bound(void **state) {
    (void)state;
    static const struct {
        const char *begin, *item, *end;
        bool fits;
    } rows[] = {{"[", "{}", "]", false},
                {"[", "[]", "]", false},
                {"[", "[{}]", "]", false},
                {"[", "0", "]", false},
                {"[", "\"\"", "]", false},
                {"[", "\"\\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[{{{{{{{{\"", "]", true},
                {"{", "\"#\":0", "}", false},
                {"{", "\"#\":\"\"", "}", false},
                {"{", "\"#\":{}", "}", false},
                {"{", "\"blocks.#.weight\":\"model-00001-of-00002.safetensors\"", "}", true},
                {"{", "\"#\":\"n00004475, organism, being\"", "}", true},
                {"{",
                 "\"encoder.layer.#.attention.weight\":{\"dtype\":\"F32\",\"shape\":[192,192],\"data_offsets\":["
                 "1234567,2345678]}",
                 "}", true}};
    json_set_alloc_funcs(count, uncount);
    for (size_t i = 0; i < T_COUNT(rows); i++)
        for (size_t bytes = 1000; bytes < 20000000; bytes *= 100) {
            size_t n;
            json_error_t why;
            char *text = text_of(rows[i].begin, rows[i].item, rows[i].end, bytes, &n);
            peak = taken;
            size_t before = taken;
            json_t *o = vt_json(text, n, &why);
            if (!o && (rows[i].fits || bytes == 1000)) fail_msg("%s is refused: %s", rows[i].item, why.text);
            if (!o && !strstr(why.text, "MB of memory")) fail_msg("%s: %s", rows[i].item, why.text);
            if (peak - before > VT_JSON_SPARE + VT_JSON_TIMES * n)
                fail_msg("%s: %zu bytes take %zu", rows[i].item, n, peak - before);
            json_decref(o);
            assert_int_equal(taken, before);
            free(text);
        }
    json_set_alloc_funcs(malloc, free);
}

/* ---- the doors ---- */

static void test_finding_8_doors(void **state) {
    (void)state;
    vt_err e = {0};
    vt_tensors *st;
    json_t *o;
    vt_ledger *l;
    size_t n, good;
    char *text = text_of("{\"x\":[", "{}", "]}", 5000000, &n);
    t_says(vt_hub_parse(&o, text, n, "config.json", &e), VT_E_FORMAT, &e, "config.json: line 1: ", "MB of memory");
    uint8_t *file = malloc(n + 8);
    memcpy(file, &(uint64_t){n}, 8), memcpy(file + 8, text, n);
    t_says(vt_tensors_parse(&st, file, n + 8, "x.safetensors", &e), VT_E_FORMAT, &e, "x.safetensors: its JSON",
           "MB of memory");
    FILE *f = fopen(at("model.safetensors.index.json"), "wb");
    assert_true(f && fwrite(text, 1, n, f) == n && !fclose(f));
    t_says(vt_weights_open(&st, at("model.safetensors.index.json"), NULL, &e), VT_E_FORMAT, &e, "index.json: line 1",
           "MB of memory");
    assert_int_equal(vt_ledger_memory(&l, NULL, 3, &e), VT_OK);
    free(text);
    text = text_of("{\"x\":[", "{}", "]}\n", 5000000, &n);
    t_says(vt_ledger_parse(l, text, n, &good, "ledger.jsonl", &e), VT_E_FORMAT, &e, "ledger.jsonl: line 1", "header");
    vt_ledger_close(l);
    free(text), free(file);
}

/* ---- numbers in what is written ---- */

static void test_short(void **state) {
    (void)state;
    static const struct {
        double value;
        const char *text;
    } rows[] = {{0.1, "0.1"},
                {48.22, "48.22"},
                {100 * 30 / 99.0, "30.303030303030305"},
                {1, "1.0"},
                {-0.0, "-0.0"},
                {1e-6, "1e-6"},
                {1e22, "1e22"},
                {5e-324, "5e-324"},
                {1.7976931348623157e308, "1.7976931348623157e308"},
                {8.0 / 255, "0.03137254901960784"},
                {0.1 + 0.2, "0.30000000000000004"}};
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        json_t *o = json_real(rows[i].value);
        char *text = vt_json_text(o, JSON_ENCODE_ANY);
        assert_string_equal(text, rows[i].text);
        free(text);
        json_decref(o);
    }
}

/* Any double: the same one comes back. */
static void test_short_reads_back(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 20000; i++) {
        union {
            uint64_t bits;
            double v;
        } u = {.bits = (i + 1) * 0x9E3779B97F4A7C15u};
        char buf[VT_NUMBER_ROOM];
        if (!isfinite(u.v)) continue;
        vt_json_number(buf, u.v);
        if (strtod(buf, NULL) != u.v) fail_msg("%s for %.17g", buf, u.v);
    }
}

/* Numbers alone are written anew: not digits in a text or a key, not integers; and the long form is jansson's own, over
 * which hashes of earlier runs were taken. */
static void test_text(void **state) {
    (void)state;
    json_t *o =
        json_pack("{s:f,s:s,s:I,s:[f,b,n,f],s:{}}", "0.10000000000000001", 0.1, "a", "1.10 \" 0.10000000000000001 \\",
                  "n", (json_int_t)12345678901234567, "l", -0.2, 1, 1e-7, "e");
    char *text = vt_json_text(o, JSON_COMPACT);
    assert_string_equal(text, "{\"0.10000000000000001\":0.1,\"a\":\"1.10 \\\" 0.10000000000000001 \\\\\",\"n\":"
                              "12345678901234567,\"l\":[-0.2,true,null,1e-7],\"e\":{}}");
    json_t *again = vt_json(text, strlen(text), NULL);
    assert_true(json_equal(o, again));
    char *ours = vt_json_hashed(again, JSON_COMPACT), *theirs = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(17));
    assert_string_equal(ours, theirs);
    assert_non_null(strstr(ours, "9.9999999999999995e-8"));
    assert_null(vt_json_text(NULL, 0));
    free(text), free(ours), free(theirs);
    json_decref(o), json_decref(again);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_finding_8_bound), cmocka_unit_test(test_finding_8_doors),
                                       cmocka_unit_test(test_short), cmocka_unit_test(test_short_reads_back),
                                       cmocka_unit_test(test_text)};
    return cmocka_run_group_tests_name("json", tests, make_tmp, remove_tmp);
}
