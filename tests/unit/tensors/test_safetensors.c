/* SPDX-License-Identifier: MIT */
/* Reading and writing safetensors: what is refused, what a header may claim, conversions, a write that fails. */
#include "io_fixture.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/files.h"
#include "base/hash.h"
#include "tensors/tensors.h"

static int files_in(const char *folder) {
    char cmd[500];
    int n = -1;
    snprintf(cmd, sizeof cmd, "ls -A '%s' | wc -l", folder);
    FILE *p = popen(cmd, "r");
    assert_int_equal(fscanf(p, "%d", &n), 1);
    pclose(p);
    return n;
}

/* A file image: length, JSON, `data` bytes 0, 1, 2, ... */
static uint8_t *st_bytes(const char *json, size_t data, size_t *n) {
    uint64_t len = strlen(json);
    uint8_t *b = malloc(8 + len + data);
    memcpy(b, &len, 8);
    memcpy(b + 8, json, len);
    for (size_t i = 0; i < data; i++) b[8 + len + i] = (uint8_t)i;
    *n = 8 + len + data;
    return b;
}

#define T(name, dtype, shape, b, e)                                                                                    \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" #b "," #e "]}"

static void test_st_refused(void **state) {
    (void)state;
    static const struct {
        const char *json;
        size_t data;
        const char *text;
    } bad[] = {
        {"{" T("a", "U8", "4", 0, 4) "," T("b", "U8", "4", 6, 10) "}", 10, "data bytes 4 to 6"},
        {"{" T("a", "U8", "4", 2, 6) "}", 6, "data bytes 0 to 2"},
        {"{" T("a", "U8", "4", 0, 4) "," T("b", "U8", "4", 2, 6) "}", 6, "b begins at byte 2, but a ends at 4"},
        {"{" T("a", "U8", "4", 0, 4) "," T("b", "U8", "4", 0, 4) "}", 4, "b begins at byte 0"},
        {"{" T("a", "U8", "4", 0, 4) "}", 5, "end at byte 4 but the data is 5"},
        {"{}", 1, "end at byte 0 but the data is 1"},
        {"{" T("head.weight", "U8", "90", 0, 90) "}", 80,
         "tensor head.weight ends at byte 90 but the data is 80 bytes long"},
        {"{" T("a", "F32", "2,2", 0, 12) "}", 12, "spans 12 bytes but F32 [2,2] takes 16"},
        {"{" T("a", "U8", "4294967296,4294967296,0", 0, 0) "}", 0, "too large"},
        {"{" T("a", "F64", "2305843009213693952", 0, 0) "}", 0, "too large"},
        {"{" T("a", "U8", "1,1,1,1,1,1,1,1,1", 0, 1) "}", 1, "9 dimensions, the limit is 8"},
        {"{" T("a", "U8", "2,-1", 0, 1) "}", 1, "dimension 1 of tensor a"},
        {"{" T("a", "U8", "1.0", 0, 1) "}", 1, "dimension 0 of tensor a"},
        {"{" T("a", "U8", "99999999999999999999", 0, 1) "}", 1, "JSON"},
        {"{" T("a", "F4", "2", 0, 1) "}", 1, "dtype F4, which is not one of"},
        {"{" T("a", "f32", "", 0, 4) "}", 4, "dtype f32"},
        {"{" T("a", "U8", "1", 0, 1) "," T("a", "U8", "1", 1, 2) "}", 2, "duplicate"},
        {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "duplicate"},
        {"{\"__metadata__\":{\"epoch\":3}}", 0, "metadata epoch is not a text"},
        {"{\"__metadata__\":[]}", 0, "__metadata__ is not an object"},
        {"{\"a\":1}", 0, "the entry of tensor a has no dtype"},
        {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "dtype"},
        {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "shape"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "data_offsets"},
        {"{" T("a", "U8", "0", 1, 0) "}", 1, "data_offsets"},
        {"{" T("a", "U8", "1", -1, 0) "}", 1, "data_offsets"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,1]}}", 1, "data_offsets"},
        {"{" T("a", "U8", "1", 0, 1) "", 1, "JSON"},
        {"{} x", 0, "JSON"},
        {" {}", 0, "begin with {"},
        {"", 0, "begin with {"},
        {"[]", 0, "begin with {"},
        {"{\"\xff\":1}", 0, "JSON"},
    };
    for (size_t i = 0; i < T_COUNT(bad); i++) {
        size_t n;
        uint8_t *b = st_bytes(bad[i].json, bad[i].data, &n);
        vt_tensors *st = (vt_tensors *)b;
        vt_err e = {0};
        t_says(vt_tensors_parse(&st, b, n, "w.safetensors", &e), VT_E_FORMAT, &e, "w.safetensors: ", bad[i].text);
        assert_null(st);
        free(b);
    }
}

static void test_st_claims(void **state) {
    (void)state;
    const uint64_t claims[] = {UINT64_MAX, (uint64_t)1 << 32, 100000001, 100000000, 3};
    for (size_t i = 0; i < T_COUNT(claims); i++) {
        uint8_t b[10] = {[8] = '{', [9] = '}'};
        vt_tensors *st;
        vt_err e = {0};
        memcpy(b, &claims[i], 8);
        t_says(vt_tensors_parse(&st, b, 10, "w", &e), VT_E_FORMAT, &e,
               "w: ", i < 3 ? "limit is 100000000" : "only 2 bytes");
    }
    vt_tensors *st;
    vt_err e = {0};
    t_says(vt_tensors_open(&st, at("none"), &e), VT_E_IO, &e, at("none"), "No such file");
    t_says(vt_tensors_open(&st, tmp, &e), VT_E_IO, &e, tmp, "regular");
    put(at("empty"), "", 0);
    t_says(vt_tensors_open(&st, at("empty"), &e), VT_E_FORMAT, &e, at("empty"), "not 0");
    assert_int_equal(mkfifo(at("fifo"), 0600), 0);
    t_says(vt_tensors_open(&st, at("fifo"), &e), VT_E_IO, &e, at("fifo"), "regular");
    vt_tensors_close(NULL);
}

static const float weights[6] = {1, -2, 3.5f, 0, -0.0f, INFINITY};

static const uint8_t bytes7[7] = {0, 1, 2, 3, 4, 5, 255};

static const int64_t longs[2] = {-1, INT64_MAX};

static const vt_tensor sample[] = {
    {"z.bytes", VT_U8, 1, {7}, 7, bytes7, NULL, 0},
    {"head.weight", VT_F32, 2, {2, 3}, 6, weights, NULL, 0},
    {"a.longs", VT_I64, 1, {2}, 2, longs, NULL, 0},
    {"scalar \"q\" \xc3\xa9", VT_F32, 0, {0}, 1, weights + 2, NULL, 0},
    {"empty", VT_F32, 3, {2, 0, 5}, 0, weights, NULL, 0},
};

static const char *const sample_meta[] = {"format", "pt", "note", "one \"two\"\nthree"};

static void test_st_round_trip(void **state) {
    (void)state;
    static const char *const order[] = {"a.longs", "empty", "head.weight", "scalar \"q\" \xc3\xa9", "z.bytes"};
    vt_err e = {0};
    vt_tensors *st;
    size_t n, m;
    float f[6];
    assert_int_equal(vt_tensors_write(at("w.st"), sample, 5, sample_meta, 2, &e), VT_OK);
    assert_int_equal(vt_tensors_open(&st, at("w.st"), &e), VT_OK);
    assert_int_equal(vt_tensors_count(st), 5);
    assert_string_equal(vt_tensors_path(st), at("w.st"));
    for (int i = 0; i < 5; i++) assert_string_equal(vt_tensors_at(st, i)->name, order[i]);
    assert_null(vt_tensors_at(st, 5));
    assert_null(vt_tensors_at(st, -1));
    assert_null(vt_tensors_find(st, "head"));
    assert_null(vt_tensors_find(st, "__metadata__"));
    assert_string_equal(vt_tensors_meta(st, "note"), sample_meta[3]);
    assert_string_equal(vt_tensors_meta_key(st, 0), "format");
    assert_null(vt_tensors_meta_key(st, 2));
    assert_null(vt_tensors_meta(st, "head.weight"));
    const vt_tensor *t = vt_tensors_find(st, "head.weight");
    assert_int_equal(t->ndim, 2);
    assert_int_equal(t->shape[1], 3);
    assert_int_equal(vt_tensor_f32(st, t, f, 6, &e), VT_OK);
    assert_memory_equal(f, weights, sizeof f);
    /* backwards in, same bytes out */
    vt_tensor again[5];
    for (int i = 0; i < 5; i++) again[4 - i] = *vt_tensors_at(st, i);
    assert_int_equal(vt_tensors_write(at("w2.st"), again, 5, sample_meta, 2, &e), VT_OK);
    vt_tensors_close(st);
    uint8_t *a = get(at("w.st"), &n), *b = get(at("w2.st"), &m);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    assert_int_equal(a[0] % 8, 0);
    const char *head =
        "{\"__metadata__\":{\"format\":\"pt\",\"note\":\"one \\\"two\\\"\\nthree\"},\"a.longs\":{\"dtype\":"
        "\"I64\",\"shape\":[2],\"data_offsets\":[0,16]},\"empty\":{\"dtype\":\"F32\",\"shape\":[2,0,5],";
    assert_memory_equal(a + 8, head, strlen(head));
    for (size_t k = 0; k < n; k++) { /* no prefix of a good file is good; exact-size copies for the sanitizer */
        uint8_t *cut = malloc(k ? k : 1);
        memcpy(cut, a, k);
        t_says(vt_tensors_parse(&st, cut, k, "cut", &e), VT_E_FORMAT, &e, "cut: ", "");
        free(cut);
    }
    free(a);
    free(b);
}

static void test_st_convert(void **state) {
    (void)state;
    static uint16_t h[65536];
    static float f[65536];
    static double d[65536];
    for (int i = 0; i < 65536; i++) h[i] = (uint16_t)i;
    uint8_t *unaligned = malloc(1 + sizeof h);
    memcpy(unaligned + 1, h, sizeof h);
    for (int kind = 0; kind < 2; kind++) { /* F16 has 5 exponent and 10 fraction bits, BF16 8 and 7 */
        vt_tensor t = {"h", kind ? VT_BF16 : VT_F16, 1, {65536}, 65536, unaligned + 1, NULL, 0};
        int frac = kind ? 7 : 10, bias = kind ? 127 : 15, top = kind ? 255 : 31;
        assert_int_equal(vt_tensor_f32(NULL, &t, f, 65536, NULL), VT_OK);
        assert_int_equal(vt_tensor_f64(NULL, &t, d, 65536, NULL), VT_OK);
        for (int i = 0; i < 65536; i++) {
            int m = i & ((1 << frac) - 1), x = (i & 0x7fff) >> frac;
            double v = x == 0 ? ldexp(m, 1 - bias - frac) : ldexp((1 << frac) + m, x - bias - frac);
            if (x == top) v = m ? NAN : INFINITY;
            if (i & 0x8000) v = -v;
            assert_true(isnan(v) ? isnan(f[i]) && isnan(d[i]) : f[i] == v && d[i] == v);
            assert_int_equal(!!signbit(f[i]), i >> 15);
        }
    }
    free(unaligned);
    const double wide[3] = {0.1, 1e300, -3};
    vt_tensor w = {"w", VT_F64, 1, {3}, 3, wide, NULL, 0};
    assert_int_equal(vt_tensor_f32(NULL, &w, f, 3, NULL), VT_OK);
    assert_true(f[0] == 0.1f && isinf(f[1]) && f[2] == -3);
}

static void test_st_integers(void **state) {
    (void)state;
    static const uint8_t raw[8] = {0xfe, 0xff, 0xff, 0xff, 0x02, 0, 0, 0x80};
    static const struct {
        vt_dtype dtype;
        int64_t first, last;
        size_t n;
    } want[] = {{VT_I8, -2, -128, 8},
                {VT_U8, 254, 128, 8},
                {VT_BOOL, 1, 1, 8},
                {VT_I16, -2, INT16_MIN, 4},
                {VT_U16, 65534, 32768, 4},
                {VT_I32, -2, INT32_MIN + 2, 2},
                {VT_U32, 4294967294, 2147483650, 2},
                {VT_I64, INT64_MIN + 0x2fffffffeLL, INT64_MIN + 0x2fffffffeLL, 1}};
    int64_t out[8];
    vt_err e = {0};
    size_t n;
    vt_tensors *st;
    uint8_t *b = st_bytes("{" T("a.b", "U64", "1", 0, 8) "}", 8, &n);
    for (size_t i = 0; i < T_COUNT(want); i++) {
        vt_tensor t = {"t", want[i].dtype, 1, {(int64_t)want[i].n}, want[i].n, raw, NULL, 0};
        assert_int_equal(vt_tensor_i64(NULL, &t, out, want[i].n, &e), VT_OK);
        assert_true(out[0] == want[i].first && out[want[i].n - 1] == want[i].last);
    }
    assert_int_equal(vt_tensors_parse(&st, b, n, "w.st", &e), VT_OK);
    const vt_tensor *t = vt_tensors_find(st, "a.b");
    float f;
    t_says(vt_tensor_i64(st, t, out, 1, &e), VT_E_FORMAT, &e, "w.st: tensor a.b", "U64");
    t_says(vt_tensor_f32(st, t, &f, 1, &e), VT_E_FORMAT, &e, "w.st: tensor a.b", "U64");
    vt_tensor r = {"r", VT_F32, 1, {2}, 2, raw, NULL, 0};
    t_says(vt_tensor_f32(st, &r, &f, 1, &e), VT_E_SHAPE, &e, "w.st: tensor r is [2] with 2 items", "1 are needed");
    vt_tensors_close(st);
    free(b);
}

static void test_st_many_and_large(void **state) {
    (void)state;
    enum { N = 20000 };
    vt_tensor *t = calloc(N, sizeof *t);
    char(*names)[16] = calloc(N, sizeof *names);
    vt_err e = {0};
    vt_tensors *st;
    for (int i = 0; i < N; i++) {
        snprintf(names[i], 16, "t%d", i * 7919 % N);
        t[i] = (vt_tensor){names[i], VT_F32, 0, {0}, 1, &weights[i % 6], NULL, 0};
    }
    assert_int_equal(vt_tensors_write(at("many.st"), t, N, NULL, 0, &e), VT_OK);
    assert_int_equal(vt_tensors_open(&st, at("many.st"), &e), VT_OK);
    assert_int_equal(vt_tensors_count(st), N);
    for (int i = 0; i < N; i++) assert_memory_equal(vt_tensors_find(st, names[i])->data, t[i].data, 4);
    vt_tensors_close(st);
    free(t);
    free(names);
    /* 90 MB that nobody reads: the file is a hole, opening it touches the header only */
    size_t n;
    uint8_t *b = st_bytes("{" T("a", "F32", "22500000", 0, 90000000) "}", 0, &n);
    put(at("large.st"), b, n);
    assert_int_equal(truncate(at("large.st"), (off_t)n + 90000000), 0);
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    assert_int_equal(vt_tensors_open(&st, at("large.st"), &e), VT_OK);
    getrusage(RUSAGE_SELF, &after);
    assert_int_equal(vt_tensors_at(st, 0)->numel, 22500000);
    /* read whole, its 22,000 pages would come at most 16 at a time */
    assert_true(after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt <= 500);
    vt_tensors_close(st);
    free(b);
}

static void test_st_write_refused(void **state) {
    (void)state;
    vt_err e = {0};
    vt_tensor two[2] = {sample[1], sample[1]};
    const char *const twice[] = {"k", "1", "k", "2"}, *const latin[] = {"k", "\xe9"};
    t_says(vt_tensors_write(at("r.st"), two, 2, NULL, 0, &e), VT_E_FORMAT, &e, at("r.st"),
           "head.weight is already taken");
    two[0].name = "__metadata__";
    t_says(vt_tensors_write(at("r.st"), two, 1, NULL, 0, &e), VT_E_FORMAT, &e, at("r.st"), "taken");
    two[0].name = "\xff";
    t_says(vt_tensors_write(at("r.st"), two, 1, NULL, 0, &e), VT_E_FORMAT, &e, at("r.st"), "UTF-8");
    two[1].numel = 5;
    t_says(vt_tensors_write(at("r.st"), two + 1, 1, NULL, 0, &e), VT_E_SHAPE, &e, at("r.st"), "5 items");
    t_says(vt_tensors_write(at("r.st"), sample, 1, twice, 2, &e), VT_E_FORMAT, &e, at("r.st"), "k is given twice");
    t_says(vt_tensors_write(at("r.st"), sample, 1, latin, 1, &e), VT_E_FORMAT, &e, at("r.st"), "k is not UTF-8");
    assert_int_equal(access(at("r.st"), F_OK), -1);
    t_says(vt_tensors_write(at("no/r.st"), sample, 1, NULL, 0, &e), VT_E_IO, &e, at("no/r.st"), "No such file");
    assert_int_equal(mkfifo(at("pipe"), 0600), 0); /* stands for /dev/null, which a failing test must not harm */
    t_says(vt_tensors_write(at("pipe"), sample, 1, NULL, 0, &e), VT_E_IO, &e, at("pipe"), "regular");
    t_says(vt_tensors_write(tmp, sample, 1, NULL, 0, &e), VT_E_IO, &e, tmp, "regular");
}

/* A change of any byte of a sealed file is noticed, its header's too; but in the name of the key itself. Of a file of
 * before, whose hash is of the tensors alone, the header is not held. */
static void test_seal(void **state) {
    (void)state;
    const char *const meta[] = {"note", "\\\"" VT_ST_FILE "\":\"", VT_ST_FILE, NULL, "step", "12"};
    vt_err e = {0};
    vt_tensors *st;
    char hex[65];
    assert_int_equal(vt_tensors_write(at("s.st"), sample, T_COUNT(sample), meta, 3, &e), VT_OK);
    assert_int_equal(vt_tensors_open(&st, at("s.st"), &e), VT_OK);
    assert_string_equal(vt_tensors_seal(st), VT_ST_FILE);
    if (vt_tensors_check(st, &e) != VT_OK) fail_msg("%s", e.text);
    vt_tensors_close(st);
    char *bytes;
    size_t n, noticed = 0, unheld = 0;
    assert_int_equal(vt_file_read(at("s.st"), 1 << 20, &bytes, &n, &e), VT_OK);
    char *name = memmem(bytes, n, "\"" VT_ST_FILE "\":", sizeof VT_ST_FILE + 2);
    assert_non_null(name);
    for (size_t i = 0; i < n; i++) {
        bytes[i] ^= 1;
        vt_status s = vt_tensors_parse(&st, (const uint8_t *)bytes, n, "s.st", &e);
        if (s == VT_OK) {
            s = vt_tensors_check(st, &e);
            vt_tensors_close(st);
        }
        noticed += s == VT_E_FORMAT;
        if (s == VT_OK && !(bytes + i > name && bytes + i <= name + strlen(VT_ST_FILE)))
            fail_msg("byte %zu of %zu is another one, and nothing is noticed", i, n);
        bytes[i] ^= 1;
    }
    assert_true(noticed >= n - strlen(VT_ST_FILE));
    uint64_t len;
    memcpy(&len, bytes, 8);
    vt_sha_hex(bytes + 8 + len, n - 8 - len, hex);
    const char *const old[] = {VT_ST_SHA, hex, "step", "12"};
    assert_int_equal(vt_tensors_write(at("o.st"), sample, T_COUNT(sample), old, 2, &e), VT_OK);
    free(bytes);
    assert_int_equal(vt_file_read(at("o.st"), 1 << 20, &bytes, &n, &e), VT_OK);
    for (size_t i = 0; i < n; i++) {
        bytes[i] ^= 1;
        if (vt_tensors_parse(&st, (const uint8_t *)bytes, n, "o.st", &e) == VT_OK) {
            unheld += vt_tensors_check(st, &e) == VT_OK;
            memcpy(&len, bytes, 8);
            if (i >= 8 + len) t_says(vt_tensors_check(st, &e), VT_E_FORMAT, &e, "o.st: its tensors are not", VT_ST_SHA);
            vt_tensors_close(st);
        }
        bytes[i] ^= 1;
    }
    assert_true(unheld > 0);
    free(bytes);
}

/* A file size limit stands for a full disk: the write fails half-way. */
static void test_write_keeps_old(void **state) {
    (void)state;
    struct rlimit old, small;
    static float big[10000];
    vt_tensor t = {"big", VT_F32, 1, {10000}, 10000, big, NULL, 0};
    static uint8_t rgb[3 * 100 * 100];
    for (size_t i = 0; i < sizeof rgb; i++) rgb[i] = (uint8_t)(i * i * 2654435761u >> 13); /* does not compress */
    vt_image im = {vt_shape_rgb(100), rgb, NULL};
    vt_err e = {0};
    size_t n;
    assert_int_equal(mkdir(at("keep"), 0700), 0);
    put(at("keep/w.st"), "old", 3);
    assert_int_equal(symlink("w.st", at("keep/link")), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 4096;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    vt_status a = vt_tensors_write(at("keep/w.st"), &t, 1, NULL, 0, &e);
    vt_err e2 = {0};
    vt_status b = vt_png_write(at("keep/w.st"), &im, &e2);
    setrlimit(RLIMIT_FSIZE, &old);
    t_says(a, VT_E_IO, &e, at("keep/w.st"), "File too large");
    t_says(b, VT_E_IO, &e2, at("keep/w.st"), "File too large");
    uint8_t *now = get(at("keep/w.st"), &n);
    assert_int_equal(n, 3);
    assert_memory_equal(now, "old", 3);
    free(now);
    assert_int_equal(files_in(at("keep")), 2); /* no temporary file is left */
    t_says(vt_tensors_write(at("keep/link"), &t, 1, NULL, 0, &e), VT_E_IO, &e, at("keep/link"), "is a link");
    struct stat s;
    assert_true(!lstat(at("keep/link"), &s) && S_ISLNK(s.st_mode));
    assert_true(!lstat(at("keep/w.st"), &s) && s.st_size == 3);
    assert_int_equal(files_in(at("keep")), 2);
    assert_int_equal(chdir(at("keep")), 0); /* a name without folder */
    a = vt_tensors_write("here.st", &t, 1, NULL, 0, &e);
    b = access("here.st", F_OK) ? VT_E_IO : VT_OK;
    assert_int_equal(chdir(getenv("VT_TEST_ROOT")), 0);
    assert_int_equal(a, VT_OK);
    assert_int_equal(b, VT_OK);
}

int main(void) {
    char root[400];
    if (!getcwd(root, sizeof root) || setenv("VT_TEST_ROOT", root, 1)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_st_refused),       cmocka_unit_test(test_st_claims),
        cmocka_unit_test(test_st_round_trip),    cmocka_unit_test(test_st_convert),
        cmocka_unit_test(test_st_integers),      cmocka_unit_test(test_st_many_and_large),
        cmocka_unit_test(test_st_write_refused), cmocka_unit_test(test_seal),
        cmocka_unit_test(test_write_keeps_old),
    };
    return cmocka_run_group_tests_name("safetensors", tests, make_tmp, remove_tmp);
}
