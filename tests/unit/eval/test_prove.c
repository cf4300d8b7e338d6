/* SPDX-License-Identifier: MIT */
/* What others' tensors and pages go through: data/adv_file, eval/external, base64. */
#include "base/markup.h"
#include "scratch.h"
#include "toy.h"

#include "base/files.h"
#include "base/hash.h"
#include "eval/external.h"
#include "tools/draw.h"
#include "tensors/tensors.h"

enum { SIDE = 32, PIXELS = 3 * SIDE * SIDE, IMAGES = 8 };

/* ---- data/adv_file ---- */

static vt_tensor tensor(const char *name, vt_dtype d, const void *data, int ndim, const int64_t *shape) {
    vt_tensor t = {.name = name, .dtype = d, .ndim = ndim, .numel = 1, .data = data};
    for (int i = 0; i < ndim; i++) t.shape[i] = shape[i], t.numel *= (size_t)shape[i];
    return t;
}

static const int64_t shape[] = {2, 3, 4, 5}, three[] = {3};
enum { ITEMS = 2 * 3 * 4 * 5 };

/* The same values through every container, type and order. */
static void check_values(const char *path, const char *name, bool indexed, const double *want, double tol) {
    vt_adv_file p;
    vt_err e = {0};
    float x[ITEMS / 2];
    if (vt_adv_file_open(&p, path, name, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(p.n, 2);
    assert_int_equal(p.shape.height, 4);
    assert_int_equal(p.shape.width, 5);
    assert_int_equal(p.n_index, indexed ? 3 : 0);
    for (int i = 0; i < (indexed ? 3 : 0); i++) assert_int_equal(p.index[i], 10 * i + 7);
    for (int64_t i = 0; i < 2; i++) {
        vt_adv_file_read(&p, i, x);
        for (int k = 0; k < ITEMS / 2; k++)
            t_le(fabs((double)x[k] - want[i * ITEMS / 2 + k]), tol, "%s: point %d, item %d", path, (int)i, k);
    }
    t_le(fabs(p.low - want[0]), tol, "%s: smallest", path);
    t_le(fabs(p.high - want[ITEMS - 1]), tol, "%s: largest", path);
    vt_adv_file_close(&p);
    vt_adv_file_close(&p);
}

static void test_points(void **state) {
    (void)state;
    double v[ITEMS];
    float f[ITEMS];
    uint8_t u[ITEMS];
    int64_t index[] = {7, 17, 27};
    for (int i = 0; i < ITEMS; i++) u[i] = (uint8_t)(2 * i), v[i] = u[i] / 255.0, f[i] = (float)v[i];
    const struct {
        vt_dtype type;
        const void *data;
        double tol;
    } kinds[] = {{VT_F64, v, 0x1p-24}, {VT_F32, f, 0x1p-24}, {VT_U8, u, 0x1p-24}};
    for (size_t i = 0; i < T_COUNT(kinds); i++) {
        vt_tensor t[] = {tensor("x_adv", kinds[i].type, kinds[i].data, 4, shape),
                         tensor("adv_index", VT_I64, index, 1, three)};
        vt_tensor named[] = {tensor("pgd.x_adv", kinds[i].type, kinds[i].data, 4, shape),
                             tensor("pgd.index", VT_I64, index, 1, three)};
        assert_int_equal(vt_tensors_write(at("a.safetensors"), t, 2, NULL, 0, NULL), VT_OK);
        assert_int_equal(vt_npz_write(at("a.npz"), t, 2, NULL), VT_OK);
        assert_int_equal(vt_npy_write(at("a.npy"), t, NULL), VT_OK);
        assert_int_equal(vt_tensors_write(at("b.safetensors"), named, 2, NULL, 0, NULL), VT_OK);
        check_values(at("a.safetensors"), NULL, true, v, kinds[i].tol);
        check_values(at("a.npz"), NULL, true, v, kinds[i].tol);
        check_values(at("a.npy"), NULL, false, v, kinds[i].tol);
        check_values(at("b.safetensors"), NULL, true, v, kinds[i].tol); /* the only one of four sides */
        check_values(at("b.safetensors"), "pgd.x_adv", true, v, kinds[i].tol);
    }
}

/* Fortran order: the first side is the fastest, as numpy.asfortranarray stores it. */
static void test_points_fortran(void **state) {
    (void)state;
    char head[128] = "\x93NUMPY\1\0v\0{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3, 4, 5), }";
    double want[ITEMS];
    float stored[ITEMS];
    size_t length = strlen(head + 10) + 10;
    memset(head + length, ' ', sizeof head - length);
    head[8] = 118, head[127] = '\n';
    for (int i = 0; i < ITEMS; i++) want[i] = i / 255.0;
    for (int a = 0, k = 0; a < 2; a++)
        for (int b = 0; b < 3; b++)
            for (int c = 0; c < 4; c++)
                for (int d = 0; d < 5; d++) stored[a + 2 * (b + 3 * (c + 4 * d))] = (float)want[k++];
    vt_span parts[] = {{head, sizeof head}, {stored, sizeof stored}};
    assert_int_equal(vt_file_replace(at("f.npy"), parts, 2, NULL), VT_OK);
    check_values(at("f.npy"), NULL, false, want, 0x1p-24);
}

/* What torch.save wrote of eight images, whose values are k/96; the sides of one that hold nothing are left out. */
static void test_points_saved(void **state) {
    (void)state;
    static const struct {
        const char *file, *tensor, *name;
        int n;
    } files[] = {{"saved_autoattack", NULL, "adv_complete", 8},
                 {"saved_torchattacks", NULL, "adv_inputs", 8},
                 {"saved_torchattacks", "clean_inputs", "clean_inputs", 8},
                 {"saved_pair", NULL, "0", 8},
                 {"saved_each", NULL, "0.x", 8},
                 {"saved_plain", NULL, "", 8},
                 {"saved_numbers", NULL, "adv", 2}};
    for (size_t i = 0; i < T_COUNT(files); i++) {
        vt_adv_file p;
        vt_err e = {0};
        char path[200];
        float x[12];
        snprintf(path, sizeof path, "tests/fuzz/corpus/adv_file/%s", files[i].file);
        if (vt_adv_file_open(&p, path, files[i].tensor, &e) != VT_OK) fail_msg("%s", e.text);
        assert_string_equal(p.name, files[i].name);
        assert_true(p.n == files[i].n && vt_shape_same(p.shape, vt_shape_rgb(2)));
        assert_true(p.n == 8 ? !p.index : p.n_index == 2 && p.index[0] == 7 && p.index[1] == 2);
        vt_adv_file_read(&p, 1, x);
        double first = i == 2 ? 0 : p.n == 8 ? 12 / 96.0 : 24 / 96.0;
        t_le(fabs((double)x[0] - first), 0x1p-24, "%s", path);
        vt_adv_file_close(&p);
    }
}

/* Pictures by their numbers, which are those of the images unless they run from 1. */
static void test_points_pictures(void **state) {
    (void)state;
    static const struct {
        const char *names[3];
        int order[3], index; /* index: of the second, -1: none */
    } sets[] = {{{"10.png", "9.png", "2.png"}, {2, 1, 0}, 9},
                {{"3.png", "2.png", "1.png"}, {2, 1, 0}, -1},
                {{"a10.png", "a9.png", "a2.png"}, {2, 1, 0}, -1},
                {{"x.png", "2.png", "a.png"}, {1, 2, 0}, -1},
                {{"0.png", "2.png", "1.png"}, {0, 2, 1}, 1}};
    for (size_t i = 0; i < T_COUNT(sets); i++) {
        char dir[300], path[400];
        snprintf(dir, sizeof dir, "%s/pictures%zu", tmp, i);
        assert_int_equal(vt_make_dir(dir, NULL), VT_OK);
        for (int k = 0; k < 3; k++) {
            uint8_t rgb[12] = {(uint8_t)(k * 10)};
            const vt_image im = {vt_shape_rgb(2), rgb, NULL};
            snprintf(path, sizeof path, "%s/%s", dir, sets[i].names[k]);
            assert_int_equal(vt_png_write(path, &im, NULL), VT_OK);
        }
        vt_adv_file p;
        vt_err e = {0};
        if (vt_adv_file_open(&p, dir, NULL, &e) != VT_OK) fail_msg("%s", e.text);
        assert_true(p.n == 3 && p.dtype == VT_U8);
        for (int k = 0; k < 3; k++) {
            float x[12];
            vt_adv_file_read(&p, k, x);
            t_le(fabs((double)x[0] * 255 - sets[i].order[k] * 10), 1e-4, "%s, place %d", dir, k);
        }
        assert_true(sets[i].index < 0 ? !p.index : p.index[1] == sets[i].index);
        vt_adv_file_close(&p);
    }
}

static void refused(const float *x, const int64_t *dims, const char *word) {
    static const double mean[] = {0.49, 0.48, 0.45}, std[] = {0.25, 0.24, 0.26};
    vt_adv_file p;
    vt_err e = {0};
    vt_tensor t = tensor("x_adv", VT_F32, x, 4, dims);
    assert_int_equal(vt_npy_write(at("x.npy"), &t, NULL), VT_OK);
    vt_status s = vt_adv_file_open(&p, at("x.npy"), NULL, &e);
    if (s == VT_OK) s = vt_adv_file_fit(&p, "x.npy", vt_shape_rgb(2), mean, std, &e);
    t_says(s, VT_E_USAGE, &e, "x.npy", word);
    vt_adv_file_close(&p);
}

static void test_points_range(void **state) {
    (void)state;
    static const int64_t good[] = {1, 3, 2, 2}, flat[] = {1, 12, 1, 1}, last[] = {2, 2, 1, 3}, large[] = {1, 3, 1, 4};
    float x[12] = {0};
    refused(x, flat, "is [1,12,1,1], must be [N,3,2,2]");
    refused(x, last, "transpose it");
    refused(x, large, "the model's input is 2 x 2");
    x[3] = 200;
    refused(x, good, "divide by 255");
    x[3] = 1.9f, x[4] = -1.8f;
    refused(x, good, "the model's mean and std");
    x[3] = 3.5f, x[4] = -3;
    refused(x, good, "some mean and std");
    x[3] = 1, x[4] = -1000;
    refused(x, good, "no range that is known");
}

/* ---- eval/external ---- */

typedef struct bench {
    vt_subject subject;
    float *x; /* [IMAGES, PIXELS] clean */
    int64_t images[IMAGES];
} bench;

static bench *bench_open(void) {
    static bench b;
    vt_err e = {0};
    vt_config c = toy_config("dot", VT_POOL_TOKEN, false, true);
    c.image = SIDE, c.patch = 8, c.classes = 10;
    b.subject.model = toy_model(&c, 3);
    b.x = calloc((size_t)IMAGES * PIXELS, sizeof *b.x);
    if (vt_draw_write(at("d"), 10, IMAGES, 1, &e) != VT_OK) fail_msg("%s", e.text);
    if (vt_dataset_open(&b.subject.data, at("d"), VT_SPLIT_TEST, &e) != VT_OK) fail_msg("%s", e.text);
    for (int64_t i = 0; i < IMAGES; i++) {
        vt_image im;
        int label;
        assert_int_equal(vt_dataset_read(b.subject.data, i, &im, &label, &e), VT_OK);
        for (int k = 0; k < PIXELS; k++) b.x[i * PIXELS + k] = (float)im.rgb[k] / 255;
        vt_image_free(&im);
        b.images[i] = i;
    }
    return &b;
}

static vt_adv_file judged; /* of judge() */

static void bench_close(bench *b) {
    vt_adv_file_close(&judged);
    vt_subject_close(&b->subject);
    free(b->x);
    assert_int_equal(remove(at("d/test_batch.bin")), 0);
    assert_int_equal(remove(at("d/data_batch_1.bin")), 0);
    assert_int_equal(remove(at("d/batches.meta.txt")), 0);
}

/* Judges the points y [IMAGES, PIXELS]; f->result is the caller's to free. */
static void judge(vt_external *f, const bench *b, const float *y, vt_norm norm, double eps, double allowance) {
    static const int64_t dims[] = {IMAGES, 3, SIDE, SIDE};
    vt_err e = {0};
    vt_tensor t = tensor("x_adv", VT_F32, y, 4, dims);
    assert_int_equal(vt_npy_write(at("y.npy"), &t, NULL), VT_OK);
    vt_adv_file_close(&judged);
    if (vt_adv_file_open(&judged, at("y.npy"), NULL, &e) != VT_OK) fail_msg("%s", e.text);
    *f = (vt_external){.subject = &b->subject, .points = &judged, .images = b->images, .norm = norm, .eps = eps};
    f->allowance = allowance, f->threads = 2, f->eps_text = "eps";
    if (vt_external_run(f, &e) != VT_OK) fail_msg("%s", e.text);
}

/* Rounding moves a pixel by half a unit of the last place, at most 2^-25 in [0,1]: points that a float program puts at
 * x + eps may lie outside by that. With the allowance they are inside and counted so, without they are not; twice as
 * far out they are not in either case. */
static void test_allowance(void **state) {
    (void)state;
    bench *b = bench_open();
    float *y = malloc((size_t)IMAGES * PIXELS * sizeof *y);
    double eps = 8.0 / 255;
    for (int out = 0; out < 3; out++) {
        vt_external f;
        int64_t inside = 0;
        for (int i = 0; i < IMAGES * PIXELS; i++) y[i] = b->x[i];
        for (int i = 0; i < IMAGES; i++) { /* one pixel at eps and `out` steps of 2^-24 more, in [1/4, 1/2) */
            int k = i * PIXELS;
            while (!(b->x[k] > 0.25f && b->x[k] + eps < 0.49)) k++;
            float edge = (float)((double)b->x[k] + eps);
            while ((double)edge - (double)b->x[k] > eps) edge = nextafterf(edge, 0);
            y[k] = edge + (float)out * 0x1p-24f;
            inside += (double)y[k] - (double)b->x[k] <= eps + 0x1p-24;
        }
        judge(&f, b, y, VT_LINF, eps, 0x1p-24);
        assert_int_equal(f.count[VT_EXTERNAL_VIOLATION], IMAGES - inside);
        assert_int_equal(f.allowed, out ? inside : 0);
        assert_int_equal(inside,
                         out < 2 ? IMAGES : 0); /* out 2: more than 2^-24 beyond, since edge was the last inside */
        vt_external_free(&f);
        judge(&f, b, y, VT_LINF, eps, 0);
        assert_int_equal(f.count[VT_EXTERNAL_VIOLATION], out ? IMAGES : 0);
        assert_int_equal(f.allowed, 0);
        vt_external_free(&f);
    }
    free(y);
    bench_close(b);
}

/* On other norms the allowance of a pixel grows with their number: sqrt for l2, in full for l1. */
static void test_allowance_norms(void **state) {
    (void)state;
    bench *b = bench_open();
    vt_external f = {.subject = &b->subject, .allowance = 0x1p-24};
    t_le(fabs(vt_external_allowance(&f) - 0x1p-24), 0, "linf");
    f.norm = VT_L2;
    t_le(fabs(vt_external_allowance(&f) - 0x1p-24 * sqrt(PIXELS)), 1e-20, "l2");
    f.norm = VT_L1;
    t_le(fabs(vt_external_allowance(&f) - 0x1p-24 * PIXELS), 1e-20, "l1");
    bench_close(b);
}

/* Every kind of point beside the model's own answers. */
static void test_statuses(void **state) {
    (void)state;
    bench *b = bench_open();
    float *y = malloc((size_t)IMAGES * PIXELS * sizeof *y);
    vt_external f;
    for (int i = 0; i < IMAGES * PIXELS; i++) y[i] = 1 - b->x[i];
    judge(&f, b, y, VT_LINF, 1, 0);
    int64_t counted[VT_EXTERNAL_COUNT] = {0};
    for (int i = 0; i < IMAGES; i++) {
        const vt_external_point *p = &f.result[i];
        counted[p->status]++;
        assert_int_equal(p->image, i);
        if (p->status == VT_EXTERNAL_WRONG) assert_int_not_equal(p->clean, p->label);
        if (p->status == VT_EXTERNAL_BROKEN) assert_true(p->clean == p->label && p->v.pred != p->label);
        if (p->status == VT_EXTERNAL_ROBUST) assert_true(p->clean == p->label && p->v.pred == p->label);
        double linf = 0;
        for (int k = 0; k < PIXELS; k++)
            linf = fmax(linf, fabs((double)y[i * PIXELS + k] - (double)b->x[i * PIXELS + k]));
        t_le(fabs(p->v.linf - linf), 0, "distance of %d", i);
    }
    for (int s = 0; s < VT_EXTERNAL_COUNT; s++) assert_int_equal(counted[s], f.count[s]);
    assert_int_equal(f.count[VT_EXTERNAL_VIOLATION], 0);
    vt_external_free(&f);
    y[5] = NAN, y[PIXELS + 7] = 1.25f, y[2 * PIXELS + 9] = -0x1p-24f; /* the box has no allowance */
    judge(&f, b, y, VT_LINF, 1, 0x1p-24);
    assert_int_equal(f.result[0].not_finite, 1);
    assert_int_equal(f.result[1].outside, 1);
    assert_int_equal(f.result[2].outside, 1);
    assert_int_equal(f.count[VT_EXTERNAL_VIOLATION], 3);
    vt_external_free(&f);
    free(y);
    bench_close(b);
}

/* ---- pages ---- */

static void html(const char *in, const char *want) {
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    vt_html(f, in);
    fclose(f);
    assert_string_equal(text, want);
    free(text);
}

static void test_html(void **state) {
    (void)state;
    html("a<b>&\"'", "a&lt;b&gt;&amp;&quot;&#39;");
    html("eps \xc3\x97 \xe2\x86\x92 \xf0\x9f\x98\x80", "eps \xc3\x97 \xe2\x86\x92 \xf0\x9f\x98\x80");
    html("\x01\x7f\n", "???");
    html("\xff|\xc0\xaf|\xe2\x86|\xed\xa0\x80|\xf4\x90\x80\x80|\xc3", "?|??|??|???|????|?"); /* none is UTF-8 */
    html("\xef\xbf\xbf", "???");                                                             /* U+FFFF: not XML */
}

static void test_base64(void **state) {
    (void)state;
    static const char *const cases[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"foobar", "Zm9vYmFy"}}; /* RFC 4648 */
    char out[32];
    for (size_t i = 0; i < T_COUNT(cases); i++) {
        assert_int_equal(vt_base64(out, cases[i][0], strlen(cases[i][0])), strlen(cases[i][1]));
        assert_string_equal(out, cases[i][1]);
    }
    size_t n = (3 << 20) + 4; /* more than one piece */
    char *data = calloc(n, 1), *text = malloc(4 * ((n + 2) / 3) + 1);
    data[n - 1] = 1;
    assert_int_equal(vt_base64(text, data, n), 4 * ((n + 2) / 3));
    assert_string_equal(text + 4 * ((n + 2) / 3) - 8, "AAAAAQ==");
    free(data), free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_points_saved),
        cmocka_unit_test(test_points_pictures),
        cmocka_unit_test(test_points),
        cmocka_unit_test(test_points_fortran),
        cmocka_unit_test(test_points_range),
        cmocka_unit_test(test_allowance),
        cmocka_unit_test(test_allowance_norms),
        cmocka_unit_test(test_statuses),
        cmocka_unit_test(test_html),
        cmocka_unit_test(test_base64),
    };
    return cmocka_run_group_tests_name("prove", tests, make_tmp, remove_tmp);
}
