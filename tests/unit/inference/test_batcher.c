/* SPDX-License-Identifier: MIT */
/* Attacks that wait for the model together find what each finds alone: every attack, bit for bit, for 1, 3, 8 and 64
 * images at a time and one or two threads; counts too. What the batcher asks of its engine: together what can be, and a
 * gradient of the point that its caller kept, though another forward came between. */
#include "scratch.h"
#include "toy.h"
#include "run_header.h"

#include "eval/evaluate.h"
#include "tools/draw.h"
#include "inference/batcher.h"

enum { SIDE = 32, IMAGES = 20 };

static vt_subject subject;
static int32_t images[IMAGES];

static int open_subject(void **state) {
    if (make_tmp(state)) return -1;
    vt_config c = toy_config("dot", VT_POOL_TOKEN, false, true);
    c.image = SIDE, c.patch = 8, c.classes = 10;
    subject.model = toy_model(&c, 5);
    for (int i = 0; i < IMAGES; i++) images[i] = i;
    assert_int_equal(vt_draw_write(at("d"), 10, IMAGES, 1, NULL), VT_OK);
    return vt_dataset_open(&subject.data, at("d"), VT_SPLIT_TEST, NULL) == VT_OK ? 0 : -1;
}

static int close_subject(void **state) {
    vt_subject_close(&subject);
    return remove_tmp(state);
}

/* ---- every attack ---- */

/* Two steps or forty queries of it, so that all of an attack's parts are run. */
static void parse(vt_attack *a, const vt_attack_def *def, vt_eval_options *v) {
    static const vt_norm norms[] = {VT_LINF, VT_L2, VT_L1, VT_L0};
    char spec[64];
    vt_err e = {0};
    vt_status s = VT_E_RANGE;
    snprintf(spec, sizeof spec, "%s", def->name);
    for (const vt_opt *o = def->opts; o && o->key; o++)
        if (!strcmp(o->key, "steps") || !strcmp(o->key, "queries"))
            snprintf(spec, sizeof spec, "%s:%s=%d", def->name, o->key, *o->key == 's' ? 5 : 40);
    for (size_t i = 0; i < T_COUNT(norms) && s == VT_E_RANGE; i++) {
        if (!(def->norms & 1u << norms[i])) continue;
        v->norm = norms[i], v->eps = norms[i] == VT_LINF ? 4.0 / 255 : norms[i] == VT_L2 ? 0.5 : 8;
        s = vt_attack_parse(a, spec, norms[i], &e);
    }
    if (def->norms == VT_CAN_ROTATION) {
        v->rotation = (vt_rotation){30, 2, 5, 3}, v->eps = 0;
        s = vt_attack_parse(a, spec, VT_NORM_ROTATION, &e);
    } else if (s == VT_E_RANGE) {
        static const float picture[3 * 8 * 8];
        v->picture = picture, v->picture_sha256 = "";
        v->patch = (vt_patch){.size = 8, .count = 1, .grid = 8}, v->eps = 1;
        s = vt_attack_parse(a, spec, VT_NORM_PATCH, &e);
    }
    if (s != VT_OK) fail_msg("%s: %s", spec, e.text);
}

static int by_place(const void *a, const void *b) {
    const vt_record *x = a, *y = b;
    if (x->entry != y->entry) return x->entry - y->entry;
    return x->stage != y->stage ? x->stage - y->stage : x->image - y->image;
}

/* The lines of a run, in order, without the places of their points. */
static size_t lines(vt_record *out, const vt_eval_options *asked) {
    vt_ledger *l;
    vt_err e = {0};
    vt_eval_options typed = *asked, *v = &typed;
    char eps[40];
    snprintf(eps, sizeof eps, "%.17g", v->eps);
    v->eps_text = eps;
    vt_header *h = t_header_of(v);
    if (vt_ledger_memory(&l, h, 3 * SIDE * SIDE, &e) != VT_OK) fail_msg("%s", e.text);
    if (vt_eval_run(v, l, &e) != VT_OK) fail_msg("%s", e.text);
    size_t n = l->count;
    memcpy(out, l->records, n * sizeof *out);
    for (size_t i = 0; i < n; i++) out[i].adv = 0;
    qsort(out, n, sizeof *out, by_place);
    vt_ledger_close(l);
    vt_header_free(h);
    return n;
}

static void same_for_any(const vt_eval_options *v_, const char *name) {
    static const int batches[] = {1, 3, 8, 64};
    static vt_record want[8 * IMAGES], got[8 * IMAGES];
    vt_eval_options v = *v_;
    v.threads = 1, v.batch = 0;
    size_t n = lines(want, &v);
    for (size_t b = 0; b < T_COUNT(batches); b++)
        for (v.threads = 1; v.threads <= 2; v.threads++) {
            v.batch = batches[b];
            assert_int_equal(lines(got, &v), n);
            if (memcmp(got, want, n * sizeof *got))
                fail_msg("%s: %d at a time on %d threads find something else", name, v.batch, v.threads);
        }
}

static vt_eval_options evaluation(const vt_attack *a, int n) {
    return (vt_eval_options){.subject = &subject, .images = images, .n_images = IMAGES, .attacks = a, .n_attacks = n};
}

static void every_attack(void **state) {
    int n;
    (void)state;
    const vt_attack_def *const *defs = vt_attack_defs(&n);
    for (int i = 0; i < n; i++) {
        if (defs[i]->stages) continue; /* an ensemble: its stages are others' */
        vt_attack a;
        vt_eval_options v = evaluation(&a, 1);
        parse(&a, defs[i], &v);
        same_for_any(&v, defs[i]->name);
        vt_attack_free(&a);
    }
}

/* A random wrap, 8 bits, a search that ends nothing, a curve's nearest point. */
static void other_ways(void **state) {
    (void)state;
    vt_attack a[2];
    vt_wrap noise;
    vt_radius radii[2] = {{8.0 / 255, "8/255"}, {4.0 / 255, "4/255"}};
    for (int i = 0; i < 2; i++) assert_int_equal(vt_attack_parse(&a[i], "pgd:steps=4", VT_LINF, NULL), VT_OK);
    vt_eval_options v = evaluation(a, 2);
    v.eps = 8.0 / 255;
    a[1].scoring = VT_SCORE_EIGHT_BIT;
    same_for_any(&v, "8 bits");
    a[1].scoring = VT_SCORE_BALL;
    v.exhaustive = true;
    same_for_any(&v, "exhaustive");
    v.exhaustive = false, v.radii = radii, v.eps = 1;
    same_for_any(&v, "curve");
    v.radii = NULL, v.eps = 8.0 / 255;
    assert_int_equal(vt_wrap_parse(&noise, "noise", NULL), VT_OK);
    subject.wrap = noise;
    same_for_any(&v, "noise");
    vt_wrap_free(&subject.wrap);
    subject.wrap = (vt_wrap){0};
    vt_attack_free(&a[0]), vt_attack_free(&a[1]);
}

/* ---- what the engine is asked ---- */

enum { ROWS = 4, K = 2, N = 3 };

/* z = (sum x, 0) and counts; one kept batch, as of a model in another process. */
typedef struct counted {
    int forwards, rows, vjps, vjp_rows, doubles;
    bool kept[ROWS], fails;
} counted;

static vt_status forward(void *self, float *const *z, const float *const *x, bool keep, vt_err *e) {
    counted *c = self;
    if (c->fails) return vt_fail(e, VT_E_MODEL, "the model is gone");
    c->forwards++;
    for (int i = 0; i < ROWS; i++) {
        c->kept[i] = keep && x[i];
        if (!x[i]) continue;
        c->rows++, z[i][0] = x[i][0] + x[i][1] + x[i][2], z[i][1] = 0;
    }
    return VT_OK;
}

static vt_status vjp(void *self, vt_vjp *rows, vt_err *e) {
    counted *c = self;
    c->vjps++;
    for (int i = 0; i < ROWS; i++) {
        if (!rows[i].dx) continue;
        if (!c->kept[i]) return vt_fail(e, VT_E_FORBIDDEN, "row %d is not kept", i);
        c->vjp_rows++;
        for (int k = 0; k < N; k++) rows[i].dx[k] = rows[i].dz[0];
    }
    return VT_OK;
}

static vt_status forward64(void *self, double *const *z, const float *const *x, vt_err *e) {
    (void)e;
    ((counted *)self)->doubles++;
    for (int i = 0; i < ROWS; i++)
        if (x[i]) z[i][0] = (double)x[i][0], z[i][1] = 0;
    return VT_OK;
}

typedef struct asking {
    vt_fiber_pool *lane;
    vt_batcher *b[2];
    vt_classifier c[ROWS], other[ROWS]; /* of two networks, as a model and its surrogate */
    size_t next;
    int what;
    counted engine, second;
} asking;

static bool next(void *ctx, int slot, size_t *item) {
    asking *a = ctx;
    (void)slot;
    *item = a->next++;
    return *item < ROWS;
}

static void serve(void *ctx) { vt_batchers_serve(((asking *)ctx)->b, 2); }

static vt_status gradient(const vt_classifier *c, vt_err *e) {
    const float target[] = {1, 0};
    float value, dx[N];
    const vt_loss loss = {.kind = VT_LOSS_LINEAR, .target = target};
    VT_TRY(vt_classifier_backward(c, &loss, &value, dx, e));
    assert_true(dx[0] == 1 && dx[N - 1] == 1);
    return VT_OK;
}

/* 0: the same of all. 1: odd slots ask in double between forward and gradient, even ones forward again at once: nobody
 * loses a kept forward. 2: while slot 0 waits for the other network, forwards of the rest overwrite what it kept. */
static vt_status run(void *ctx, int slot, size_t item, vt_err *e) {
    asking *a = ctx;
    const vt_classifier *c = &a->c[slot];
    const float x[N] = {(float)item, 1, 2};
    float z[K];
    double z64[K];
    VT_TRY(vt_classifier_logits(c, x, z, true, e));
    assert_true(z[0] == (float)item + 3);
    if (a->what == 1 && slot % 2) VT_TRY(vt_classifier_logits64(c, x, z64, e));
    if (a->what == 1 && slot % 2 == 0) VT_TRY(vt_classifier_logits(c, x, z, true, e));
    if (a->what == 2) VT_TRY(vt_classifier_logits(slot ? c : &a->other[slot], x, z, true, e));
    return gradient(c, e);
}

static vt_engine engine(counted *c) {
    return (vt_engine){.classes = K,
                       .capacity = ROWS,
                       .pixels = N,
                       .self = c,
                       .forward = forward,
                       .vjp = vjp,
                       .forward64 = forward64};
}

static vt_status ask(asking *a, int what, vt_err *e) {
    *a = (asking){.what = what, .engine.fails = what == 3};
    vt_engine one = engine(&a->engine), two = engine(&a->second);
    assert_int_equal(vt_fiber_open(&a->lane, ROWS, e), VT_OK);
    assert_int_equal(vt_batcher_open(&a->b[0], &one, a->lane, e), VT_OK);
    assert_int_equal(vt_batcher_open(&a->b[1], &two, a->lane, e), VT_OK);
    for (int i = 0; i < ROWS; i++)
        a->c[i] = vt_batcher_classifier(a->b[0], i), a->other[i] = vt_batcher_classifier(a->b[1], i);
    vt_status s = vt_fiber_run(a->lane, &(vt_fiber_job){next, run, serve, a}, e);
    vt_batcher_close(a->b[0]), vt_batcher_close(a->b[1]);
    vt_fiber_close(a->lane);
    return s;
}

static void together(void **state) {
    (void)state;
    static asking a;
    vt_err e = {0};
    assert_int_equal(ask(&a, 0, &e), VT_OK);
    assert_true(a.engine.forwards == 1 && a.engine.rows == ROWS && a.engine.vjps == 1 && a.engine.vjp_rows == ROWS);
    if (ask(&a, 1, &e) != VT_OK) fail_msg("%s", e.text);
    assert_true(a.engine.doubles == 1 && a.engine.vjp_rows == ROWS);
    assert_true(a.engine.forwards == 2 && a.engine.rows == ROWS + ROWS / 2);
    if (ask(&a, 2, &e) != VT_OK) fail_msg("%s", e.text);
    assert_true(a.second.forwards == 1 && a.second.rows == 1 && a.engine.vjp_rows == ROWS && a.engine.forwards == 3);
    assert_int_equal(ask(&a, 3, &e), VT_E_MODEL);
    assert_string_equal(e.text, "the model is gone");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_attack), cmocka_unit_test(other_ways),
                                       cmocka_unit_test(together)};
    return cmocka_run_group_tests(tests, open_subject, close_subject);
}
