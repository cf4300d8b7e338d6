/* SPDX-License-Identifier: MIT */
/* The search on networks small enough to know the answer, its independence of threads, single points, and lists. */
#include <math.h>
#include "t.h"
#include "scratch.h"
#include "spec/falsify.h"
#include "spec/instances.h"

#define NETS "tests/fixtures/vnnlib/"

static vt_falsify_options options(int rounds, int threads) {
    return (vt_falsify_options){.steps = 30, .rounds = rounds, .threads = threads, .seed = 5};
}

static const char *write_text(const char *name, const char *text) {
    const char *path = at("%s", name);
    FILE *f = fopen(path, "w");
    assert_true(f && fputs(text, f) >= 0 && !fclose(f));
    return path;
}

static void open_pair(vt_spec_pair *p, const char *net, const char *spec) {
    vt_err e = {0};
    if (vt_spec_pair_open(p, net, spec, NULL, &e) != VT_OK) fail_msg("refused: %s", e.text);
}

static void search(vt_falsify_result *r, const vt_spec_pair *p, const vt_falsify_options *o) {
    vt_err e = {0};
    if (vt_falsify(r, p->spec, &p->network, o, &e) != VT_OK) fail_msg("failed: %s", e.text);
}

/* A witness lies in its box by the text's numbers and meets its case, also when it is computed here. */
static void test_witnesses(void **state) {
    (void)state;
    static const char *const files[][2] = {{NETS "linear.onnx", NETS "sat.vnnlib"},
                                           {NETS "row.onnx", NETS "row.vnnlib"}};
    for (size_t i = 0; i < T_COUNT(files); i++) {
        vt_spec_pair p;
        vt_falsify_result r;
        open_pair(&p, files[i][0], files[i][1]);
        const vt_falsify_options o = options(3, 1);
        search(&r, &p, &o);
        assert_true(r.sat);
        const double *x = r.witness.x, *y = r.witness.y_double;
        const vt_spec_box *b = &p.spec->boxes[0];
        for (int k = 0; k < p.spec->inputs; k++)
            assert_true(x[k] >= b->lo[k] && x[k] <= b->hi[k] && ((double)(float)x[k] == x[k] || b->lo[k] == b->hi[k]));
        if (i == 0) {
            assert_true(y[1] >= y[0] && r.witness.at == 1 && p.spec->outputs == 2);
            t_le(fabs(y[1] - (-x[0] + 0.25 * x[1] + 0.5 * x[2])), 1e-15, "Y_1");
        } else {
            const double h0 = x[0] + x[1] - x[2] + 0.5 * x[3], h1 = -x[0] + x[1] + x[2] + 0.5 * x[3];
            assert_true(x[1] == 0.1 && y[0] <= -2.5 && p.spec->outputs == 1);
            t_le(fabs(y[0] - (fmax(h0, 0) - fmax(h1, 0))), 1e-15, "Y_0");
        }
        vt_falsify_free(&r);
        vt_spec_pair_close(&p);
    }
}

/* No point of the box meets it: the least violation is what the corner has, 0.25. */
static void test_unknown(void **state) {
    (void)state;
    vt_spec_pair p;
    vt_falsify_result r;
    open_pair(&p, NETS "linear.onnx", NETS "unsat.vnnlib");
    const vt_falsify_options o = options(3, 2);
    search(&r, &p, &o);
    assert_true(!r.sat && r.rounds == 3 && r.run == 3 && !r.timed_out && !r.borderline);
    t_le(fabs(r.best[0] - 0.25), 1e-6, "the corner's violation");
    vt_falsify_free(&r);
    vt_spec_pair_close(&p);
}

static const char *many_cases(int cases) {
    static char text[20000];
    int n =
        sprintf(text, "(declare-const X_0 Real)(declare-const X_1 Real)(declare-const X_2 Real)(declare-const Y_0 Real)"
                      "(declare-const Y_1 Real)(assert (>= X_0 -1))(assert (<= X_0 1))(assert (>= X_1 -1))"
                      "(assert (<= X_1 1))(assert (>= X_2 -1))(assert (<= X_2 1))(assert (or ");
    for (int i = 0; i < cases; i++)
        n += sprintf(text + n, "(and (>= Y_0 %g) (<= Y_1 %g) (>= Y_1 %g))", 1.6 - 0.001 * i, -0.9 + 0.01 * i,
                     -0.901 + 0.01 * i);
    sprintf(text + n, "))");
    return write_text("many.vnnlib", text);
}

/* The run with the lowest number wins, whichever thread is quicker; a seed gives the same bits again. */
static void test_threads_change_nothing(void **state) {
    (void)state;
    vt_spec_pair p;
    vt_falsify_result a, b;
    open_pair(&p, NETS "linear.onnx", many_cases(20));
    for (int threads = 1; threads <= 4; threads += 3) {
        vt_falsify_options o = options(8, threads);
        search(threads == 1 ? &a : &b, &p, &o);
    }
    assert_true(a.sat && b.sat && a.run == b.run && a.witness.at == b.witness.at);
    assert_memory_equal(a.witness.x, b.witness.x, 3 * sizeof *a.witness.x);
    assert_true(a.witness.violation <= 0 && a.witness.violation_double <= 0);
    vt_falsify_free(&a), vt_falsify_free(&b);
    vt_spec_pair_close(&p);
}

/* A point at which float32 rounds Y_0 up: what only the rounded output meets is borderline, no witness. */
static void test_borderline(void **state) {
    (void)state;
    static const char form[] =
        "(declare-const X_0 Real)(declare-const X_1 Real)(declare-const X_2 Real)(declare-const Y_0 "
        "Real)(declare-const Y_1 Real)(assert (= X_0 %.17g))(assert (= X_1 %.17g))(assert (= X_2 "
        "%.17g))(assert (>= Y_0 %.17g))";
    vt_falsify_result r;
    vt_spec_pair p;
    vt_witness w;
    vt_err e = {0};
    char text[1000];
    double x[3];
    open_pair(&p, NETS "linear.onnx", NETS "sat.vnnlib");
    for (int i = 1;; i++) {
        for (int k = 0; k < 3; k++) x[k] = (double)(float)(0.1 * (k + 1) + 0.01 * i);
        assert_int_equal(vt_witness_judge(&w, p.spec, &p.network, x, &e), VT_OK);
        snprintf(text, sizeof text, form, x[0], x[1], x[2], w.y[0]);
        const bool up = w.y[0] > w.y_double[0];
        vt_witness_free(&w);
        if (up) break;
        assert_true(i < 100);
    }
    vt_spec_pair_close(&p);
    open_pair(&p, NETS "linear.onnx", write_text("up.vnnlib", text));
    const vt_falsify_options o = options(2, 1);
    search(&r, &p, &o);
    assert_true(!r.sat && r.borderline > 0 && r.best[0] <= 0);
    vt_falsify_free(&r);
    vt_spec_pair_close(&p);
}

static void test_time_is_held(void **state) {
    (void)state;
    vt_spec_pair p;
    vt_falsify_result r;
    open_pair(&p, NETS "linear.onnx", NETS "unsat.vnnlib");
    const vt_falsify_options o = {.steps = 30, .seconds = 0.2, .threads = 1};
    search(&r, &p, &o);
    assert_true(!r.sat && r.timed_out && r.seconds >= 0.2 && r.seconds < 1.2 && r.rounds > 1);
    vt_falsify_free(&r);
    vt_spec_pair_close(&p);
}

static void test_witness_files(void **state) {
    (void)state;
    vt_spec_pair p;
    vt_witness w;
    vt_err e = {0};
    double *x;
    open_pair(&p, NETS "linear.onnx", NETS "sat.vnnlib");
    const double point[] = {0.1f, 0.1, 0.3};
    assert_int_equal(vt_witness_judge(&w, p.spec, &p.network, point, &e), VT_OK);
    assert_int_equal(w.at, 1);
    t_le(fabs(w.violation_double - 0.25), 1e-7, "2 X_0 + X_1 / 4 - 3 X_2 / 4 + 1/4");
    assert_true(w.outside == 0 && !vt_witness_met(&w, 0.2) && vt_witness_met(&w, 0.26));
    for (int verdict = 0; verdict < 2; verdict++) {
        assert_int_equal(vt_witness_write(at("w"), verdict, p.spec, &w, &e), VT_OK);
        assert_int_equal(vt_witness_read(&x, at("w"), 3, &e), VT_OK);
        assert_memory_equal(x, point, sizeof point);
        free(x);
    }
    vt_witness_free(&w);
    assert_int_equal(vt_witness_judge(&w, p.spec, &p.network, (const double[]){-0.5, 0.1, 0.3}, &e), VT_OK);
    t_le(fabs(w.outside - 0.1), 1e-15, "beyond -0.4");
    vt_witness_free(&w);
    vt_spec_pair_close(&p);
    static const struct {
        const char *text, *says;
    } bad[] = {{"", "is empty"},
               {"sat\n((X_0 1)\n(X_1 2))", "holds 2 of 3 inputs"},
               {"((X_0 1)(X_0 2)(X_1 1)(X_2 1))", "holds 1 of 3"},
               {"((X_0 1)(X_1 nan)(X_2 1))", "holds 1 of 3"},
               {"((X_0 1)(X_1 1)(X_3 1))", "holds 2 of 3"},
               {"((Z_0 1)(X_1 1)(X_2 1))", "holds 0 of 3"}};
    for (size_t i = 0; i < T_COUNT(bad); i++)
        t_says(vt_witness_read(&x, write_text("bad", bad[i].text), 3, &e), VT_E_FORMAT, &e, "bad: ", bad[i].says);
}

/* Numbers of inputs and outputs, and pixels of a checkpoint, must fit. */
static void test_pairs_that_do_not_fit(void **state) {
    (void)state;
    vt_spec_pair p;
    vt_err e = {0};
    t_says(vt_spec_pair_open(&p, NETS "row.onnx", NETS "sat.vnnlib", NULL, &e), VT_E_SHAPE, &e,
           "sat.vnnlib: declares 3 inputs and 2 outputs", "has 4 and 1");
    char *text = malloc(500000);
    int n = 0;
    for (int i = 0; i < 3072; i++)
        n += sprintf(text + n, "(declare-const X_%d Real)(assert (>= X_%d 0.5))(assert (<= X_%d %g))", i, i, i,
                     i < 3071 ? 0.6 : 1.5);
    for (int i = 0; i < 10; i++) n += sprintf(text + n, "(declare-const Y_%d Real)", i);
    sprintf(text + n, "(assert (or (>= Y_0 Y_1) (>= Y_1 Y_0)))");
    const char *net = "weights/shapes10-plain/model.safetensors", *spec = write_text("pixels.vnnlib", text);
    t_says(vt_spec_pair_open(&p, net, spec, NULL, &e), VT_E_RANGE, &e, "X_3071 lies in [0.5,1.5]", "pixels in [0,1]");
    memcpy(strstr(text, "1.5))"), "1.0", 3);
    vt_falsify_result r;
    const vt_falsify_options o = options(1, 1);
    open_pair(&p, net, write_text("pixels.vnnlib", text));
    search(&r, &p, &o);
    assert_true(r.sat && r.run == 1); /* any image has one logit above the other */
    vt_falsify_free(&r);
    vt_spec_pair_close(&p);
    free(text);
}

static void test_lists(void **state) {
    (void)state;
    vt_instances l;
    vt_err e = {0};
    const char *path = write_text("instances.csv", "onnx/a.b.onnx.gz, vnnlib/p_1.vnnlib ,  12.5\r\n\n# no\nc,d\n");
    assert_int_equal(vt_instances_read(&l, path, false, &e), VT_OK);
    assert_int_equal(l.n, 2);
    assert_string_equal(l.list[0].name, "a.b_p_1");
    assert_string_equal(l.list[0].spec, "vnnlib/p_1.vnnlib");
    assert_true(l.list[0].seconds == 12.5 && l.list[1].seconds == 0 && vt_instances_find(&l, "c_d") == &l.list[1]);
    vt_instances_free(&l);
    path = write_text("results.csv", "k,./x/a.onnx,./y/p.vnnlib,0.1,holds,3\na.onnx,p.vnnlib,sat,4\n");
    assert_int_equal(vt_instances_read(&l, path, true, &e), VT_OK);
    assert_string_equal(vt_instances_find(&l, "a_p")->verdict, "sat"); /* the last line */
    assert_string_equal(l.list[0].category, "k");
    assert_null(vt_instances_find(&l, "a_q"));
    vt_instances_free(&l);
    static const struct {
        const char *text, *says;
        bool results;
    } bad[] = {{"a,b,c,d\n", "line 1: has 4 fields", false},
               {"\na,,3\n", "line 2: an empty field", false},
               {"a,b,soon\n", "'soon' is no number", false},
               {"a,b,-1\n", "'-1' is no number", false},
               {"a.x,b.y\nc/a,b\n", "line 2: a_b occurs twice", false},
               {"a,b,c\n", "line 1: has 3 fields", true}};
    for (size_t i = 0; i < T_COUNT(bad); i++) {
        t_says(vt_instances_read(&l, write_text("bad.csv", bad[i].text), bad[i].results, &e), VT_E_FORMAT, &e,
               "bad.csv: ", bad[i].says);
        vt_instances_free(&l);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_witnesses),
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_threads_change_nothing),
        cmocka_unit_test(test_borderline),
        cmocka_unit_test(test_time_is_held),
        cmocka_unit_test(test_witness_files),
        cmocka_unit_test(test_pairs_that_do_not_fit),
        cmocka_unit_test(test_lists),
    };
    return cmocka_run_group_tests(tests, make_tmp, remove_tmp);
}
