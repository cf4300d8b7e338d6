/* SPDX-License-Identifier: MIT */
/* Reading a proof (eval/report/proof.h): what is refused, and the margins of its logits. Proofs that are written, and
 * judged by numpy: tests/cli/export.bats. */
#include "eval/report/proof.h"

#include <unistd.h>
#include "base/hash.h"
#include "t.h"

enum { N = 2, K = 3, PIXELS = 3, ARRAYS = 7 };

/* A proof of two images of one pixel, as arrays that a test may change before it is written. */
typedef struct draft {
    float images[N * PIXELS], x_adv[N * PIXELS];
    int64_t labels[N], indices[N], preds[N];
    uint8_t status[N];
    double logits[N * K];
    const char *manifest; /* a format with the seven hashes' JSON in its %s; NULL: the usual one */
    const char *wrong;    /* the array whose hash is another's */
    int rows;             /* of status; 0: N */
} draft;

static const draft usual = {.x_adv = {0, 0, 0, 0.25f, 0, 0},
                            .labels = {0, 1},
                            .indices = {4, 7},
                            .preds = {0, 2},
                            .status = {0, 1},
                            .logits = {3, 1, 2.5, -1, 0.25, 4}};

#define KEYS "\"format\":\"vitrine proof 1\",\"norm\":\"linf\",\"eps\":\"8/255\",\"weights\":{\"sha256\":\"ab\"},"
#define DATA "\"data\":{\"sha256\":\"cd\"},"
#define COUNTS "\"counts\":{\"images\":2,\"broken\":1}"

static char path[200];

static void write_draft(const draft *d) {
    const int64_t rows = d->rows ? d->rows : N;
    vt_tensor t[ARRAYS + 1] = {
        {.name = "images", .dtype = VT_F32, .ndim = 4, .shape = {N, 3, 1, 1}, .numel = N * PIXELS, .data = d->images},
        {.name = "x_adv", .dtype = VT_F32, .ndim = 4, .shape = {N, 3, 1, 1}, .numel = N * PIXELS, .data = d->x_adv},
        {.name = "labels", .dtype = VT_I64, .ndim = 1, .shape = {N}, .numel = N, .data = d->labels},
        {.name = "indices", .dtype = VT_I64, .ndim = 1, .shape = {N}, .numel = N, .data = d->indices},
        {.name = "preds", .dtype = VT_I64, .ndim = 1, .shape = {N}, .numel = N, .data = d->preds},
        {.name = "status", .dtype = VT_U8, .ndim = 1, .shape = {rows}, .numel = (size_t)rows, .data = d->status},
        {.name = "logits", .dtype = VT_F64, .ndim = 2, .shape = {N, K}, .numel = N * K, .data = d->logits},
    };
    char hashes[1000] = "\"arrays\":{", text[2000], hex[65];
    for (int k = 0; k < ARRAYS; k++) {
        bool wrong = d->wrong && !strcmp(d->wrong, t[k].name);
        vt_sha_hex(t[k].data, vt_tensor_bytes(&t[k]) - wrong, hex);
        snprintf(hashes + strlen(hashes), 100, "%s\"%s\":\"%s\"", k ? "," : "", t[k].name, hex);
    }
    snprintf(text, sizeof text, "%s%s}}", d->manifest ? d->manifest : "{" KEYS DATA COUNTS ",", hashes);
    t[ARRAYS] = (vt_tensor){.name = "manifest", .dtype = VT_U8, .ndim = 1, .numel = strlen(text), .data = text};
    t[ARRAYS].shape[0] = (int64_t)strlen(text);
    vt_err e = {0};
    if (vt_npz_write(path, t, ARRAYS + 1, &e) != VT_OK) fail_msg("%s", e.text);
}

static void test_read(void **state) {
    (void)state;
    vt_proof p = {0};
    vt_err e = {0};
    write_draft(&usual);
    if (vt_proof_open(&p, path, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(p.images, N);
    assert_int_equal(p.broken, 1);
    assert_string_equal(p.norm, "linf");
    assert_string_equal(p.eps, "8/255");
    assert_string_equal(p.weights, "ab");
    assert_string_equal(p.data, "cd");
    assert_true(vt_proof_margin(&p, 0, 0) == -0.5); /* 2.5 - 3 */
    assert_true(vt_proof_margin(&p, 1, 1) == 3.75);
    assert_true(vt_proof_margin(&p, 1, 2) == -3.75);
    vt_proof_close(&p);
}

static void refused(const draft *d, const char *a, const char *b) {
    vt_proof p = {0};
    vt_err e = {0};
    write_draft(d);
    t_says(vt_proof_open(&p, path, &e), VT_E_FORMAT, &e, a, b);
    vt_proof_close(&p);
}

static void test_refused(void **state) {
    (void)state;
    static const char *const names[] = {"images", "x_adv", "labels", "indices", "preds", "status", "logits"};
    for (int k = 0; k < ARRAYS; k++) {
        draft d = usual;
        d.wrong = names[k];
        refused(&d, names[k], "is not as it was written");
    }
    draft d = usual;
    d.status[0] = 1;
    refused(&d, "counts 1 broken images", "status has 2");
    d = usual, d.rows = 1;
    refused(&d, "'status'", "is not of 2 rows");
    d = usual, d.manifest = "{" KEYS COUNTS ",";
    refused(&d, "its manifest lacks", "hash");
    d = usual, d.manifest = "{" KEYS DATA;
    refused(&d, "its manifest lacks", "counts");
    d = usual, d.manifest = "{" KEYS DATA COUNTS ",\"format\":\"x\",";
    refused(&d, "its manifest is no JSON", "");
    d = usual,
    d.manifest =
        "{\"format\":\"vitrine proof 2\",\"norm\":\"l2\",\"eps\":\"1\",\"weights\":{\"sha256\":\"ab\"}," DATA COUNTS
        ",";
    refused(&d, "its format is 'vitrine proof 2'", "'vitrine proof 1'");
}

int main(void) {
    char dir[] = "/tmp/vitrine-proof-XXXXXX";
    if (!mkdtemp(dir)) return 1;
    snprintf(path, sizeof path, "%s/p.npz", dir);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_read), cmocka_unit_test(test_refused)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path), rmdir(dir);
    return failed;
}
