/* src/io: safetensors, PNG, CIFAR and folders of pictures. Runs from the repository root (tests/fixtures). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "core/hash.h"
#include "io/dataset.h"
#include "io/safetensors.h"
#include "scratch.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- helpers ---- */

static void put(const char *path, const void *bytes, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static uint8_t *get(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s is missing", path);
    uint8_t *b = malloc(1 << 20);
    *n = fread(b, 1, 1 << 20, f);
    fclose(f);
    return b;
}

/* The call failed with this status and a one-line sentence that holds both texts. */
static void says(vt_status got, vt_status want, vt_err *e, const char *a, const char *b) {
    if (got != want) fail_msg("status %d instead of %d (%s): %s", got, want, b, e->text);
    assert_int_equal(e->code, want);
    if (!strstr(e->text, a)) fail_msg("'%s' does not mention '%s'", e->text, a);
    if (!strstr(e->text, b)) fail_msg("'%s' does not mention '%s'", e->text, b);
    assert_null(strchr(e->text, '\n'));
    *e = (vt_err){0};
}

static int files_in(const char *folder) {
    char cmd[500];
    int n = -1;
    snprintf(cmd, sizeof cmd, "ls -A '%s' | wc -l", folder);
    FILE *p = popen(cmd, "r");
    assert_int_equal(fscanf(p, "%d", &n), 1);
    pclose(p);
    return n;
}

/* ---- safetensors ---- */

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
        {"{" T("a", "U8", "2,-1", 0, 1) "}", 1, "dimension 1"},
        {"{" T("a", "U8", "1.0", 0, 1) "}", 1, "dimension 0"},
        {"{" T("a", "U8", "99999999999999999999", 0, 1) "}", 1, "JSON"},
        {"{" T("a", "F4", "2", 0, 1) "}", 1, "dtype F4, which is not one of"},
        {"{" T("a", "f32", "", 0, 4) "}", 4, "dtype f32"},
        {"{" T("a", "U8", "1", 0, 1) "," T("a", "U8", "1", 1, 2) "}", 2, "duplicate"},
        {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "duplicate"},
        {"{\"__metadata__\":{\"epoch\":3}}", 0, "metadata epoch is not a text"},
        {"{\"__metadata__\":[]}", 0, "__metadata__ is not an object"},
        {"{\"a\":1}", 0, "a is not an object"},
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
    for (size_t i = 0; i < COUNT(bad); i++) {
        size_t n;
        uint8_t *b = st_bytes(bad[i].json, bad[i].data, &n);
        vt_st *st = (vt_st *)b;
        vt_err e = {0};
        says(vt_st_parse(&st, b, n, "w.safetensors", &e), VT_E_FORMAT, &e, "w.safetensors: ", bad[i].text);
        assert_null(st);
        free(b);
    }
}

static void test_st_claims(void **state) {
    (void)state;
    const uint64_t claims[] = {UINT64_MAX, (uint64_t)1 << 32, 100000001, 100000000, 3};
    for (size_t i = 0; i < COUNT(claims); i++) {
        uint8_t b[10] = {[8] = '{', [9] = '}'};
        vt_st *st;
        vt_err e = {0};
        memcpy(b, &claims[i], 8);
        says(vt_st_parse(&st, b, 10, "w", &e), VT_E_FORMAT, &e, "w: ", i < 3 ? "limit is 100000000" : "only 2 bytes");
    }
    vt_st *st;
    vt_err e = {0};
    says(vt_st_open(&st, at("none"), &e), VT_E_IO, &e, at("none"), "No such file");
    says(vt_st_open(&st, tmp, &e), VT_E_IO, &e, tmp, "regular");
    put(at("empty"), "", 0);
    says(vt_st_open(&st, at("empty"), &e), VT_E_FORMAT, &e, at("empty"), "not 0");
    assert_int_equal(mkfifo(at("fifo"), 0600), 0);
    says(vt_st_open(&st, at("fifo"), &e), VT_E_IO, &e, at("fifo"), "regular");
    vt_st_close(NULL);
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
    vt_st *st;
    size_t n, m;
    float f[6];
    assert_int_equal(vt_st_write(at("w.st"), sample, 5, sample_meta, 2, &e), VT_OK);
    assert_int_equal(vt_st_open(&st, at("w.st"), &e), VT_OK);
    assert_int_equal(vt_st_count(st), 5);
    assert_string_equal(vt_st_path(st), at("w.st"));
    for (int i = 0; i < 5; i++) assert_string_equal(vt_st_at(st, i)->name, order[i]);
    assert_null(vt_st_at(st, 5));
    assert_null(vt_st_at(st, -1));
    assert_null(vt_st_find(st, "head"));
    assert_null(vt_st_find(st, "__metadata__"));
    assert_string_equal(vt_st_meta(st, "note"), sample_meta[3]);
    assert_string_equal(vt_st_meta_key(st, 0), "format");
    assert_null(vt_st_meta_key(st, 2));
    assert_null(vt_st_meta(st, "head.weight"));
    const vt_tensor *t = vt_st_find(st, "head.weight");
    assert_int_equal(t->ndim, 2);
    assert_int_equal(t->shape[1], 3);
    assert_int_equal(vt_tensor_f32(st, t, f, 6, &e), VT_OK);
    assert_memory_equal(f, weights, sizeof f);
    /* backwards in, same bytes out */
    vt_tensor again[5];
    for (int i = 0; i < 5; i++) again[4 - i] = *vt_st_at(st, i);
    assert_int_equal(vt_st_write(at("w2.st"), again, 5, sample_meta, 2, &e), VT_OK);
    vt_st_close(st);
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
        says(vt_st_parse(&st, cut, k, "cut", &e), VT_E_FORMAT, &e, "cut: ", "");
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
    vt_st *st;
    uint8_t *b = st_bytes("{" T("a.b", "U64", "1", 0, 8) "}", 8, &n);
    for (size_t i = 0; i < COUNT(want); i++) {
        vt_tensor t = {"t", want[i].dtype, 1, {(int64_t)want[i].n}, want[i].n, raw, NULL, 0};
        assert_int_equal(vt_tensor_i64(NULL, &t, out, want[i].n, &e), VT_OK);
        assert_true(out[0] == want[i].first && out[want[i].n - 1] == want[i].last);
    }
    assert_int_equal(vt_st_parse(&st, b, n, "w.st", &e), VT_OK);
    const vt_tensor *t = vt_st_find(st, "a.b");
    float f;
    says(vt_tensor_i64(st, t, out, 1, &e), VT_E_FORMAT, &e, "w.st: tensor a.b", "U64");
    says(vt_tensor_f32(st, t, &f, 1, &e), VT_E_FORMAT, &e, "w.st: tensor a.b", "U64");
    vt_tensor r = {"r", VT_F32, 1, {2}, 2, raw, NULL, 0};
    says(vt_tensor_f32(st, &r, &f, 1, &e), VT_E_SHAPE, &e, "w.st: tensor r is [2] with 2 items", "1 are needed");
    vt_st_close(st);
    free(b);
}

static void test_st_many_and_large(void **state) {
    (void)state;
    enum { N = 20000 };
    vt_tensor *t = calloc(N, sizeof *t);
    char(*names)[16] = calloc(N, sizeof *names);
    vt_err e = {0};
    vt_st *st;
    for (int i = 0; i < N; i++) {
        snprintf(names[i], 16, "t%d", i * 7919 % N);
        t[i] = (vt_tensor){names[i], VT_F32, 0, {0}, 1, &weights[i % 6], NULL, 0};
    }
    assert_int_equal(vt_st_write(at("many.st"), t, N, NULL, 0, &e), VT_OK);
    assert_int_equal(vt_st_open(&st, at("many.st"), &e), VT_OK);
    assert_int_equal(vt_st_count(st), N);
    for (int i = 0; i < N; i++) assert_memory_equal(vt_st_find(st, names[i])->data, t[i].data, 4);
    vt_st_close(st);
    free(t);
    free(names);
    /* 90 MB that nobody reads: the file is a hole, opening it touches the header only */
    size_t n;
    uint8_t *b = st_bytes("{" T("a", "F32", "22500000", 0, 90000000) "}", 0, &n);
    put(at("large.st"), b, n);
    assert_int_equal(truncate(at("large.st"), (off_t)n + 90000000), 0);
    struct timespec t0, t1;
    clock_gettime(CLOCK_MONOTONIC, &t0);
    assert_int_equal(vt_st_open(&st, at("large.st"), &e), VT_OK);
    clock_gettime(CLOCK_MONOTONIC, &t1);
    assert_int_equal(vt_st_at(st, 0)->numel, 22500000);
    assert_true((double)(t1.tv_sec - t0.tv_sec) + 1e-9 * (double)(t1.tv_nsec - t0.tv_nsec) <= 0.1);
    vt_st_close(st);
    free(b);
}

static void test_st_write_refused(void **state) {
    (void)state;
    vt_err e = {0};
    vt_tensor two[2] = {sample[1], sample[1]};
    const char *const twice[] = {"k", "1", "k", "2"}, *const latin[] = {"k", "\xe9"};
    says(vt_st_write(at("r.st"), two, 2, NULL, 0, &e), VT_E_FORMAT, &e, at("r.st"), "head.weight is already taken");
    two[0].name = "__metadata__";
    says(vt_st_write(at("r.st"), two, 1, NULL, 0, &e), VT_E_FORMAT, &e, at("r.st"), "taken");
    two[0].name = "\xff";
    says(vt_st_write(at("r.st"), two, 1, NULL, 0, &e), VT_E_FORMAT, &e, at("r.st"), "UTF-8");
    two[1].numel = 5;
    says(vt_st_write(at("r.st"), two + 1, 1, NULL, 0, &e), VT_E_SHAPE, &e, at("r.st"), "5 items");
    says(vt_st_write(at("r.st"), sample, 1, twice, 2, &e), VT_E_FORMAT, &e, at("r.st"), "k is given twice");
    says(vt_st_write(at("r.st"), sample, 1, latin, 1, &e), VT_E_FORMAT, &e, at("r.st"), "k is not UTF-8");
    assert_int_equal(access(at("r.st"), F_OK), -1);
    says(vt_st_write(at("no/r.st"), sample, 1, NULL, 0, &e), VT_E_IO, &e, at("no/r.st"), "No such file");
    assert_int_equal(mkfifo(at("pipe"), 0600), 0); /* stands for /dev/null, which a failing test must not harm */
    says(vt_st_write(at("pipe"), sample, 1, NULL, 0, &e), VT_E_IO, &e, at("pipe"), "regular");
    says(vt_st_write(tmp, sample, 1, NULL, 0, &e), VT_E_IO, &e, tmp, "regular");
}

/* A file size limit stands for a full disk: the write fails half-way. */
static void test_write_keeps_old(void **state) {
    (void)state;
    struct rlimit old, small;
    static float big[10000];
    vt_tensor t = {"big", VT_F32, 1, {10000}, 10000, big, NULL, 0};
    static uint8_t rgb[3 * 100 * 100];
    for (size_t i = 0; i < sizeof rgb; i++) rgb[i] = (uint8_t)(i * i * 2654435761u >> 13); /* does not compress */
    vt_image im = {100, 100, rgb, NULL};
    vt_err e = {0};
    size_t n;
    assert_int_equal(mkdir(at("keep"), 0700), 0);
    put(at("keep/w.st"), "old", 3);
    assert_int_equal(symlink("w.st", at("keep/link")), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 4096;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    vt_status a = vt_st_write(at("keep/w.st"), &t, 1, NULL, 0, &e);
    vt_err e2 = {0};
    vt_status b = vt_png_write(at("keep/w.st"), &im, &e2);
    setrlimit(RLIMIT_FSIZE, &old);
    says(a, VT_E_IO, &e, at("keep/w.st"), "File too large");
    says(b, VT_E_IO, &e2, at("keep/w.st"), "File too large");
    uint8_t *now = get(at("keep/w.st"), &n);
    assert_int_equal(n, 3);
    assert_memory_equal(now, "old", 3);
    free(now);
    assert_int_equal(files_in(at("keep")), 2); /* no temporary file is left */
    assert_int_equal(vt_st_write(at("keep/link"), &t, 1, NULL, 0, &e), VT_OK);
    struct stat s;
    assert_true(!lstat(at("keep/link"), &s) && S_ISLNK(s.st_mode));
    assert_true(!lstat(at("keep/w.st"), &s) && s.st_size > 40000);
    assert_int_equal(files_in(at("keep")), 2);
    assert_int_equal(chdir(at("keep")), 0); /* a name without folder */
    a = vt_st_write("here.st", &t, 1, NULL, 0, &e);
    b = access("here.st", F_OK) ? VT_E_IO : VT_OK;
    assert_int_equal(chdir(getenv("VT_TEST_ROOT")), 0);
    assert_int_equal(a, VT_OK);
    assert_int_equal(b, VT_OK);
}

/* ---- PNG ---- */

static const char *const pngs[] = {"grey1",         "grey2",          "grey4",          "grey8",
                                   "grey16",        "grey16_low",     "grey8_trns",     "grey2_adam7",
                                   "grey16_adam7",  "palette1",       "palette2",       "palette4",
                                   "palette8",      "palette1_trns",  "palette2_trns",  "palette4_trns",
                                   "palette8_trns", "palette8_short", "palette4_adam7", "la8",
                                   "la16",          "rgb8",           "rgb16",          "rgb8_trns",
                                   "rgb8_gama",     "rgb8_adam7",     "rgba8",          "rgba16",
                                   "rgba16_adam7"};

/* Every colour type against Pillow; every prefix and every flipped pixel-data byte refused, silently. */
static void test_png_types(void **state) {
    (void)state;
    int saved = dup(2), sink = open(at("stderr"), O_RDWR | O_CREAT, 0600);
    dup2(sink, 2);
    for (size_t i = 0; i < COUNT(pngs); i++) {
        char path[100];
        size_t n, m;
        vt_image im;
        vt_err e = {0};
        snprintf(path, sizeof path, "tests/fixtures/png/%s.rgb", pngs[i]);
        uint8_t *want = get(path, &m);
        memcpy(path + strlen(path) - 3, "png", 3);
        if (vt_png_read(path, &im, &e) != VT_OK) fail_msg("%s", e.text);
        assert_true(im.width == 5 && im.height == 4 && m == 60);
        if (memcmp(im.rgb, want, m)) fail_msg("%s differs from Pillow", path);
        vt_image_free(&im);
        vt_image_free(&im);
        uint8_t *b = get(path, &n);
        for (size_t k = 0; k < n; k++) {
            uint8_t *cut = malloc(k ? k : 1);
            memcpy(cut, b, k);
            says(vt_png_parse(cut, k, path, &im, &e), VT_E_FORMAT, &e, path, k < 8 ? "not a PNG" : "truncated PNG");
            assert_null(im.rgb);
            free(cut);
        }
        b[n - 20] ^= 1; /* in IDAT's data or checksum */
        says(vt_png_parse(b, n, path, &im, &e), VT_E_FORMAT, &e, path, "damaged PNG: ");
        free(b);
        free(want);
    }
    size_t n;
    vt_image im;
    uint8_t *b = get("tests/fixtures/png/rgb8_gama.png", &n);
    b[33 + 8] ^= 1; /* a wrong checksum on a chunk that is not needed: libpng warns */
    assert_int_equal(vt_png_parse(b, n, "x.png", &im, NULL), VT_OK);
    vt_image_free(&im);
    free(b);
    assert_int_equal(lseek(sink, 0, SEEK_END), 0); /* libpng said nothing */
    dup2(saved, 2);
    close(saved);
    close(sink);
}

static void test_png_claims(void **state) {
    (void)state;
    static const struct {
        uint8_t size[8];
        const char *text;
    } bad[] = {{{0x7f, 255, 255, 255, 0x7f, 255, 255, 255}, "2147483647 x 2147483647"},
               {{0, 0, 0, 5, 0, 0, 0x40, 1}, "5 x 16385, sides must be from 1 to 16384"},
               {{0, 0, 0x40, 0, 0, 0, 0x40, 0}, "268435456 pixels, the limit is 67108864"},
               {{0, 0, 0, 0, 0, 0, 0, 4}, "0 x 4"},
               {{255, 255, 255, 255, 0, 0, 0, 1}, "4294967295 x 1"}};
    size_t n;
    vt_image im;
    vt_err e = {0};
    uint8_t *b = get("tests/fixtures/png/rgb8.png", &n);
    for (size_t i = 0; i < COUNT(bad); i++) {
        memcpy(b + 16, bad[i].size, 8);
        says(vt_png_parse(b, n, "x.png", &im, &e), VT_E_RANGE, &e, "x.png: ", bad[i].text);
    }
    free(b);
    says(vt_png_read(at("none.png"), &im, &e), VT_E_IO, &e, at("none.png"), "No such file");
    says(vt_png_read(tmp, &im, &e), VT_E_IO, &e, tmp, "regular");
}

static void test_png_write(void **state) {
    (void)state;
    vt_image im = {3, 2, (uint8_t[]){0, 1, 2, 3, 4, 5, 60, 70, 80, 90, 100, 110, 255, 254, 253, 252, 251, 250}, NULL},
             back;
    vt_err e = {0};
    assert_int_equal(vt_png_write(at("w.png"), &im, &e), VT_OK);
    assert_int_equal(vt_png_read(at("w.png"), &back, &e), VT_OK);
    assert_true(back.width == 3 && back.height == 2);
    assert_memory_equal(back.rgb, im.rgb, 18);
    vt_image_free(&back);
    says(vt_png_write(at("no/w.png"), &im, &e), VT_E_IO, &e, at("no/w.png"), "No such file");
    im.width = 0;
    says(vt_png_write(at("w0.png"), &im, &e), VT_E_RANGE, &e, at("w0.png"), "0 x 2");
    im.width = -1;
    says(vt_png_write(at("w0.png"), &im, &e), VT_E_RANGE, &e, at("w0.png"), "sides");
}

/* ---- CIFAR ---- */

/* `n` records whose labels count from `first`, pixels a function of record and position; bytes cut off the
 * end. */
static void put_cifar(const char *path, int record, int n, int first, int limit, size_t cut) {
    size_t size = (size_t)record, head = size - VT_CIFAR_PIXELS;
    uint8_t *b = calloc((size_t)n, size);
    for (int i = 0; i < n; i++) {
        b[(size_t)i * size + head - 1] = (uint8_t)((first + i) % limit);
        for (size_t k = head; k < size; k++) b[(size_t)i * size + k] = (uint8_t)((size_t)(first + i) * 31 + k - head);
    }
    put(path, b, (size_t)n * size - cut);
    free(b);
}

static void check_images(const vt_dataset *d, int first) {
    for (int64_t i = 0; i < d->count; i++) {
        vt_image im;
        int label;
        assert_int_equal(vt_dataset_read(d, i, &im, &label, NULL), VT_OK);
        assert_true(im.width == 32 && im.height == 32 && label == (first + i) % d->classes);
        for (int k = 0; k < VT_CIFAR_PIXELS; k++) assert_int_equal(im.rgb[k], (uint8_t)((first + i) * 31 + k));
        vt_image_free(&im);
    }
}

static void *reader(void *d) { return check_images(d, 0), NULL; }

static void refuse_set(const char *path, vt_split split, vt_status want, const char *a, const char *b) {
    vt_dataset *d;
    vt_err e = {0};
    says(vt_dataset_open(&d, path, split, &e), want, &e, a, b);
    assert_null(d);
}

static void test_cifar10(void **state) {
    (void)state;
    vt_dataset *d;
    vt_err e = {0};
    vt_image im;
    int label;
    char hex[65];
    assert_int_equal(mkdir(at("c10"), 0700), 0);
    put_cifar(at("c10/data_batch_1.bin"), VT_CIFAR10, 300, 0, 10, 0); /* longer than one read */
    refuse_set(at("c10"), VT_SPLIT_TEST, VT_E_IO, at("c10/test_batch.bin"), "No such file");
    put_cifar(at("c10/data_batch_2.bin"), VT_CIFAR10, 7, 300, 10, 0);
    put_cifar(at("c10/test_batch.bin"), VT_CIFAR10, 2, 5, 10, 0);
    assert_int_equal(vt_dataset_open(&d, at("c10"), VT_SPLIT_TRAIN, &e), VT_OK);
    assert_true(d->count == 307 && d->classes == 10);
    pthread_t t[3];
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&t[i], NULL, reader, d), 0);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    says(vt_dataset_read(d, 307, &im, &label, &e), VT_E_RANGE, &e, "image 307", "0 to 306");
    says(vt_dataset_read(d, -1, &im, &label, &e), VT_E_RANGE, &e, "image -1", "train");
    size_t n, m;
    uint8_t *a = get(at("c10/data_batch_1.bin"), &n), *b = get(at("c10/data_batch_2.bin"), &m);
    memcpy(a + n, b, m);
    vt_sha_hex(a, n + m, hex);
    assert_string_equal(d->hash, hex);
    put_cifar(at("c10/data_batch_2.bin"), VT_CIFAR10, 7, 300, 10, 100); /* cut while it is open */
    says(vt_dataset_read(d, 306, &im, &label, &e), VT_E_FORMAT, &e, "data_batch_2.bin: record 6", "2973 of its 3073");
    vt_dataset_close(d);
    assert_int_equal(vt_dataset_open(&d, at("c10"), VT_SPLIT_TEST, &e), VT_OK);
    assert_int_equal(d->count, 2);
    check_images(d, 5);
    vt_dataset_close(d);
    vt_dataset_close(NULL);
    put_cifar(at("c10/data_batch_4.bin"), VT_CIFAR10, 7, 0, 10, 0);
    put_cifar(at("c10/data_batch_2.bin"), VT_CIFAR10, 7, 300, 10, 0);
    refuse_set(at("c10"), VT_SPLIT_TRAIN, VT_E_IO, at("c10/data_batch_3.bin"), "No such file");
    put_cifar(at("c10/train.bin"), VT_CIFAR100, 1, 0, 100, 0);
    refuse_set(at("c10"), VT_SPLIT_TEST, VT_E_FORMAT, "CIFAR-10 (", "CIFAR-100 (");
    free(a);
    free(b);
}

static void test_cifar100(void **state) {
    (void)state;
    vt_dataset *d;
    vt_err e = {0};
    assert_int_equal(mkdir(at("c100"), 0700), 0);
    put_cifar(at("c100/test.bin"), VT_CIFAR100, 120, 3, 100, 0);
    refuse_set(at("c100"), VT_SPLIT_TRAIN, VT_E_IO, at("c100/train.bin"), "No such file");
    for (int i = 0; i < 2; i++) { /* the folder, then its file */
        assert_int_equal(vt_dataset_open(&d, i ? at("c100/test.bin") : at("c100"), VT_SPLIT_TEST, &e), VT_OK);
        assert_true(d->count == 120 && d->classes == 100);
        check_images(d, 3);
        vt_dataset_close(d);
    }
    size_t n;
    uint8_t *b = get(at("c100/test.bin"), &n);
    b[2 * VT_CIFAR100] = 20;
    put(at("c100/test.bin"), b, n);
    refuse_set(at("c100"), VT_SPLIT_TEST, VT_E_RANGE, "record 2 has coarse label 20", "limit is 19");
    b[2 * VT_CIFAR100] = 19;
    b[2 * VT_CIFAR100 + 1] = 100;
    put(at("c100/test.bin"), b, n);
    refuse_set(at("c100"), VT_SPLIT_TEST, VT_E_RANGE, "record 2 has label 100", "limit is 99");
    free(b);
}

static void test_cifar_bad(void **state) {
    (void)state;
    assert_int_equal(mkdir(at("cb"), 0700), 0);
    put_cifar(at("cb/test_batch.bin"), VT_CIFAR10, 260, 0, 10, 1);
    refuse_set(at("cb"), VT_SPLIT_TEST, VT_E_FORMAT, at("cb/test_batch.bin"),
               "record 259 is incomplete: 3072 of its 3073");
    put_cifar(at("cb/test_batch.bin"), VT_CIFAR10, 260, 8, 267, 0); /* labels 8, 9, 10, ... */
    refuse_set(at("cb"), VT_SPLIT_TEST, VT_E_RANGE, "record 2 has label 10", "limit is 9");
    put(at("cb/test_batch.bin"), "", 0);
    refuse_set(at("cb"), VT_SPLIT_TEST, VT_E_FORMAT, at("cb/test_batch.bin"), "empty");
    put(at("one.bin"), "", 0);
    refuse_set(at("one.bin"), VT_SPLIT_TEST, VT_E_FORMAT, at("one.bin"), "empty");
    put_cifar(at("one.bin"), VT_CIFAR10, 3, 0, 10, 3);
    refuse_set(at("one.bin"), VT_SPLIT_TEST, VT_E_FORMAT, "record 2 of CIFAR-10 (3073 bytes a record, 3070 too many)",
               at("one.bin"));
    assert_int_equal(truncate(at("one.bin"), 3073 * 3074), 0);
    refuse_set(at("one.bin"), VT_SPLIT_TEST, VT_E_FORMAT, "test_batch.bin (CIFAR-10)", "test.bin (CIFAR-100)");
    refuse_set(at("nowhere"), VT_SPLIT_TEST, VT_E_IO, at("nowhere"), "No such file");
    put(at("set.tar"), "x", 1);
    refuse_set(at("set.tar"), VT_SPLIT_TEST, VT_E_FORMAT, "cifar (", "folder (");
}

/* ---- folders ---- */

static void copy_png(const char *name, const char *to) {
    char path[100];
    size_t n;
    snprintf(path, sizeof path, "tests/fixtures/png/%s.png", name);
    uint8_t *b = get(path, &n);
    put(to, b, n);
    free(b);
}

static void make_dirs(const char *const *names) {
    for (; *names; names++) assert_int_equal(mkdir(at("%s", *names), 0700), 0);
}

static void test_folder_order(void **state) {
    (void)state;
    make_dirs((const char *const[]){"f", "f/b", "f/a", "f/Z", "f/a/sub", "f/a/sub-1", "f/a/sub/deep", "f/empty",
                                    "f/.git", NULL});
    static const struct {
        const char *file, *png;
        int label;
    } want[] = {/* ImageFolder's order: Z < a < b < empty, folder by folder */
                {"Z/2.png", "rgb8", 0},        {"a/x.png", "grey8", 1},          {"a/sub/0.PNG", "la8", 1},
                {"a/sub-1/0.png", "rgb16", 1}, {"a/sub/deep/0.png", "grey2", 1}, {"b/10.png", "grey4", 2},
                {"b/9.png", "palette8", 2}};
    char hex[65];
    vt_dataset *d;
    vt_err e = {0};
    for (size_t i = COUNT(want); i-- > 0;) copy_png(want[i].png, at("f/%s", want[i].file));
    put(at("f/b/notes.txt"), "x", 1);
    put(at("f/b/._9.png"), "x", 1);
    put(at("f/b/1.gif"), "x", 1);
    vt_sha *sha = vt_sha_new();
    vt_sha_update(sha, "Z/\0a/\0b/\0empty/", 16);
    assert_int_equal(vt_dataset_open(&d, at("f"), VT_SPLIT_TEST, &e), VT_OK);
    assert_true(d->count == 7 && d->classes == 4);
    for (size_t i = 0; i < COUNT(want); i++) {
        char path[100];
        size_t n, m;
        int label;
        vt_image im;
        snprintf(path, sizeof path, "tests/fixtures/png/%s.rgb", want[i].png);
        uint8_t *rgb = get(path, &n), *b = get(at("f/%s", want[i].file), &m);
        assert_int_equal(vt_dataset_read(d, (int64_t)i, &im, &label, &e), VT_OK);
        assert_int_equal(label, want[i].label);
        if (memcmp(im.rgb, rgb, n)) fail_msg("image %zu is not %s", i, want[i].file);
        vt_sha_update(sha, want[i].file, strlen(want[i].file) + 1);
        vt_sha_update(sha, &(uint64_t){m}, 8);
        vt_sha_update(sha, b, m);
        vt_image_free(&im);
        free(rgb);
        free(b);
    }
    vt_sha_end(sha, hex);
    assert_string_equal(hex, d->hash);
    vt_dataset_close(d);
    assert_int_equal(symlink("..", at("f/a/loop")), 0); /* a circle */
    refuse_set(at("f"), VT_SPLIT_TEST, VT_E_IO, at("f/"), "16 folders deep");
}

static void test_folder_splits(void **state) {
    (void)state;
    static const struct {
        const char *folder;
        int test, train; /* classes, 0: refused */
    } steps[] = {{"s/c1", 1, 0}, {"s/train", 0, 2}, {"s/val", 3, 2}, {"s/test", 3, 2}, {"s/test/k", 1, 2}};
    make_dirs((const char *const[]){"s", NULL});
    for (size_t i = 0; i < COUNT(steps); i++) {
        make_dirs((const char *const[]){steps[i].folder, NULL});
        if (i == 0) copy_png("rgb8", at("s/c1/1.png"));
        int inside = i == 1 ? 2 : i == 2 ? 3 : 0;
        for (int k = 0; k < inside; k++) {
            assert_int_equal(mkdir(at("%s/%d", steps[i].folder, k), 0700), 0);
            copy_png("rgb8", at("%s/%d/1.png", steps[i].folder, k));
        }
        if (i == 4) copy_png("rgb8", at("s/test/k/1.png"));
        for (int train = 0; train < 2; train++) {
            vt_dataset *d;
            vt_err e = {0};
            int want = train ? steps[i].train : steps[i].test;
            vt_status s = vt_dataset_open(&d, at("s"), train ? VT_SPLIT_TRAIN : VT_SPLIT_TEST, &e);
            if (!want)
                says(s, VT_E_IO, &e, at("s"), train ? "no folder train" : "no folder test or val");
            else
                assert_true(s == VT_OK && d->classes == want);
            vt_dataset_close(d);
        }
    }
}

static void test_folder_bad(void **state) {
    (void)state;
    make_dirs((const char *const[]){"flat", "jpeg", "jpeg/c", "none", "none/c", "void", "bad", "bad/c", NULL});
    copy_png("rgb8", at("flat/1.png"));
    refuse_set(at("flat"), VT_SPLIT_TEST, VT_E_FORMAT, at("flat"),
               "one sub-folder of .png, .jpg or .jpeg files for each class");
    refuse_set(at("flat/1.png"), VT_SPLIT_TEST, VT_E_FORMAT, at("flat/1.png"), "has no label");
    put(at("jpeg/c/1.JPEG"), "x", 1);
    refuse_set(at("jpeg"), VT_SPLIT_TEST, VT_E_FORMAT, at("jpeg/c/1.JPEG"), "not a PNG or JPEG file");
    refuse_set(at("none"), VT_SPLIT_TEST, VT_E_FORMAT, at("none"), "1 class folders hold no .png, .jpg or .jpeg");
    refuse_set(at("void"), VT_SPLIT_TEST, VT_E_FORMAT, at("void"), "not a data set of a known format");
    put(at("bad/c/1.png"), "not a png", 9);
    refuse_set(at("bad"), VT_SPLIT_TEST, VT_E_FORMAT, at("bad/c/1.png"), "not a PNG");
    put(at("bad/c/1.png"), "", 0);
    refuse_set(at("bad"), VT_SPLIT_TEST, VT_E_FORMAT, at("bad/c/1.png"), "empty");
}

int main(void) {
    char root[400];
    if (!getcwd(root, sizeof root) || setenv("VT_TEST_ROOT", root, 1)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_st_refused),       cmocka_unit_test(test_st_claims),
        cmocka_unit_test(test_st_round_trip),    cmocka_unit_test(test_st_convert),
        cmocka_unit_test(test_st_integers),      cmocka_unit_test(test_st_many_and_large),
        cmocka_unit_test(test_st_write_refused), cmocka_unit_test(test_write_keeps_old),
        cmocka_unit_test(test_png_types),        cmocka_unit_test(test_png_claims),
        cmocka_unit_test(test_png_write),        cmocka_unit_test(test_cifar10),
        cmocka_unit_test(test_cifar100),         cmocka_unit_test(test_cifar_bad),
        cmocka_unit_test(test_folder_order),     cmocka_unit_test(test_folder_splits),
        cmocka_unit_test(test_folder_bad),
    };
    return cmocka_run_group_tests_name("io", tests, make_tmp, remove_tmp);
}
