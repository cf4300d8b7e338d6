/* SPDX-License-Identifier: MIT */
/* The library as a caller sees it: what it computes is held against the rooms behind it and against differences; a
 * model given as a caller's own classifier must be judged as the model itself is; whatever is passed, a sentence comes
 * back.
 */
#include <pthread.h>
#include <unistd.h>
#include "api_fixture.h"
#include "linalg/gemm.h"
#include "models/net/session.h"

static float other[N * PIXELS];

static void test_logits_are_the_networks(void **state) {
    (void)state;
    vt_model *m;
    vt_session_f32 *s;
    vt_err why = {0};
    vitrine_err e;
    float z[N * CLASSES], one[CLASSES];
    assert_int_equal(vt_model_open(&m, weights, NULL, &why), VT_OK);
    assert_int_equal(vt_model_prepare(m, &why), VT_OK);
    assert_int_equal(vt_session_open_f32(&s, m, 1, VT_GRAD_NONE, &why), VT_OK);
    assert_int_equal(vitrine_logits(model, N, x, z, 2, &e), VITRINE_OK);
    for (int i = 0; i < N; i++) {
        assert_memory_equal(z + i * CLASSES, vt_session_forward_f32(s, x + i * PIXELS, 1, false), sizeof one);
        assert_int_equal(vitrine_logits(model, 1, x + i * PIXELS, one, 1, &e), VITRINE_OK);
        assert_memory_equal(one, z + i * CLASSES, sizeof one);
    }
    vt_session_close_f32(s);
    vt_model_close(m);
    assert_int_equal(vitrine_classes(model), CLASSES);
    assert_int_equal(vitrine_pixels(model), PIXELS);
    assert_int_equal(strlen(vitrine_sha256(model)), 64);
}

/* Central differences along one direction: (f(x + hd) - f(x - hd)) / 2h, h 1e-3. Float logits carry 1e-6 of their size
 * (about 10), divided by h; the third derivative adds less. */
static void test_vjp_is_the_derivative(void **state) {
    (void)state;
    vitrine_err e;
    static float up[PIXELS], down[PIXELS], dx[2 * PIXELS];
    float dz[2 * CLASSES] = {0}, zu[CLASSES], zd[CLASSES];
    double d[PIXELS];
    t_normals(d, PIXELS, 7, 1);
    for (int c = 0; c < CLASSES; c++) dz[CLASSES + c] = (float)c / 4 - 1;
    dz[3] = 1;
    assert_int_equal(vitrine_vjp(model, 2, x, dz, dx, 2, &e), VITRINE_OK);
    for (int i = 0; i < 2; i++) {
        double along = 0, difference = 0, h = 1e-3;
        for (int k = 0; k < PIXELS; k++) {
            up[k] = x[i * PIXELS + k] + (float)(h * d[k]), down[k] = x[i * PIXELS + k] - (float)(h * d[k]);
            along += (double)dx[i * PIXELS + k] * ((double)up[k] - (double)down[k]) / (2 * h);
        }
        assert_int_equal(vitrine_logits(model, 1, up, zu, 1, &e), VITRINE_OK);
        assert_int_equal(vitrine_logits(model, 1, down, zd, 1, &e), VITRINE_OK);
        for (int c = 0; c < CLASSES; c++)
            difference += (double)dz[i * CLASSES + c] * ((double)zu[c] - (double)zd[c]) / (2 * h);
        t_le(fabs(along - difference), 0.02 * (1 + fabs(along)), "image %d: vjp %g, difference %g", i, along,
             difference);
    }
}

/* ---- attacks ---- */

static void test_an_array_is_judged_as_a_data_set(void **state) {
    (void)state;
    static const char *const attacks[] = {"pgd:steps=5", "apgd-ce:steps=5+square:queries=50"};
    const char *options[] = {"weights=weights/shapes10-vit",
                             "data=datasets/shapes10",
                             "images=0:12",
                             "eps=4/255",
                             "attack=pgd:steps=5",
                             "attack=apgd-ce:steps=5+square:queries=50",
                             "seed=3",
                             NULL};
    vitrine_err e;
    vitrine_run *r;
    vitrine_verdict v[N], w[N], back[N];
    vitrine_status s = vitrine_evaluate(&r, options, NULL, &e);
    if (s != VITRINE_OK) fail_msg("%s", e.text);
    assert_int_equal(vitrine_run_entries(r), 2);
    assert_int_equal(vitrine_run_images(r), N);
    for (int k = 0; k < 2; k++) {
        vitrine_attack_plan plan = VITRINE_ATTACK(attacks[k], "linf", 4.0 / 255);
        plan.seed = 3, plan.threads = 2, plan.batch = 1 + k;
        assert_int_equal(vitrine_attack(model, &plan, N, x, labels, x_adv, v, &e), VITRINE_OK);
        assert_int_equal(vitrine_run_verdicts(r, k + 1, w, &e), VITRINE_OK);
        int broken = 0;
        for (int i = 0; i < N; i++) {
            same_verdict(&v[i], &w[i]);
            bool moved = memcmp(x_adv + i * PIXELS, x + i * PIXELS, PIXELS * sizeof(float)) != 0;
            assert_int_equal(moved, v[i].outcome == VITRINE_BROKEN);
            broken += moved;
        }
        assert_true(broken > 0);
        /* the points alone say the same */
        vitrine_attack_plan terms = VITRINE_JUDGE("linf", 4.0 / 255);
        assert_int_equal(vitrine_judge(model, &terms, N, x, x_adv, labels, back, &e), VITRINE_OK);
        for (int i = 0; i < N; i++)
            if (v[i].outcome == VITRINE_BROKEN) {
                assert_int_equal(back[i].outcome, VITRINE_BROKEN);
                assert_true(back[i].margin == v[i].margin && back[i].linf == v[i].linf);
            }
    }
    vitrine_run_close(r);
}

static void test_draws_follow_the_image_not_its_place(void **state) {
    (void)state;
    static float turned[N * PIXELS];
    int32_t numbers[N], turned_labels[N];
    vitrine_err e;
    vitrine_verdict v[N], w[N];
    vitrine_attack_plan plan = VITRINE_ATTACK("pgd:steps=3", "l2", 0.5);
    for (int i = 0; i < N; i++) {
        memcpy(turned + i * PIXELS, x + (N - 1 - i) * PIXELS, PIXELS * sizeof(float));
        turned_labels[i] = labels[N - 1 - i], numbers[i] = N - 1 - i;
    }
    assert_int_equal(vitrine_attack(model, &plan, N, x, labels, x_adv, v, &e), VITRINE_OK);
    plan.images = numbers;
    assert_int_equal(vitrine_attack(model, &plan, N, turned, turned_labels, other, w, &e), VITRINE_OK);
    for (int i = 0; i < N; i++) {
        same_verdict(&v[i], &w[N - 1 - i]);
        assert_memory_equal(x_adv + i * PIXELS, other + (N - 1 - i) * PIXELS, PIXELS * sizeof(float));
    }
}

/* ---- a classifier of the caller's ---- */

typedef struct mirror {
    int calls, fail_at, nan_at;
    float bad;   /* where it is not finite: stands in a gradient's last value */
    float above; /* of a dz that has a value above this */
} mirror;

static int mirror_logits(void *self, int n, const float *in, float *z) {
    mirror *m = self;
    if (++m->calls == m->fail_at) return 7;
    if (vitrine_logits(model, (size_t)n, in, z, 1, NULL) != VITRINE_OK) return 1;
    if (m->calls == m->nan_at) z[0] = NAN;
    return 0;
}

static int mirror_vjp(void *self, int n, const float *in, const float *dz, float *dx) {
    const mirror *m = self;
    if (vitrine_vjp(model, (size_t)n, in, dz, dx, 1, NULL) != VITRINE_OK) return 1;
    for (int i = 0; !isfinite(m->bad) && i < n; i++)
        for (int k = 0; k < CLASSES; k++)
            if (dz[i * CLASSES + k] > m->above) dx[(i + 1) * PIXELS - 1] = m->bad;
    return 0;
}

static vitrine_classifier mirrored(mirror *m, int batch) {
    return (vitrine_classifier){.size = sizeof(vitrine_classifier),
                                .name = "mirror",
                                .classes = CLASSES,
                                .channels = 3,
                                .height = SIDE,
                                .width = SIDE,
                                .batch = batch,
                                .self = m,
                                .logits = mirror_logits,
                                .vjp = mirror_vjp};
}

static void test_an_own_classifier_falls_as_the_model(void **state) {
    (void)state;
    static const char *const attacks[] = {"fgsm", "pgd:steps=5", "cw20",
                                          "apgd-ce:steps=5+fab-t:steps=2+square:queries=20"};
    for (int batch = 1; batch < 6; batch += 4)
        for (size_t k = 0; k < T_COUNT(attacks); k++) {
            mirror self = {0};
            vitrine_classifier c = mirrored(&self, batch);
            vitrine_model *own;
            vitrine_err e;
            vitrine_verdict v[N], w[N];
            vitrine_attack_plan plan = VITRINE_ATTACK(attacks[k], "linf", 4.0 / 255);
            assert_int_equal(vitrine_own(&own, &c, &e), VITRINE_OK);
            assert_int_equal(vitrine_attack(model, &plan, N, x, labels, x_adv, v, &e), VITRINE_OK);
            vitrine_status s = vitrine_attack(own, &plan, N, x, labels, other, w, &e);
            if (s != VITRINE_OK) fail_msg("%s: %s", attacks[k], e.text);
            for (int i = 0; i < N; i++) {
                assert_int_equal(v[i].outcome, w[i].outcome);
                assert_int_equal(v[i].pred, w[i].pred);
            }
            vitrine_close(own);
        }
}

/* z = the sums of the image's two halves and a class that never leads; dx as that says. */
static int halves_logits(void *self, int n, const float *in, float *z) {
    const int pixels = *(int *)self;
    for (int i = 0; i < n; i++) {
        z[3 * i] = z[3 * i + 1] = 0, z[3 * i + 2] = -100;
        for (int k = 0; k < pixels; k++) z[3 * i + (2 * k >= pixels)] += in[i * pixels + k];
    }
    return 0;
}

static int halves_vjp(void *self, int n, const float *in, const float *dz, float *dx) {
    const int pixels = *(int *)self;
    (void)in;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < pixels; k++) dx[i * pixels + k] = dz[3 * i + (2 * k >= pixels)];
    return 0;
}

/* 5 x 4 x 9 values of which the first half leads by 9: all of them together close that at eps 0.05. */
static void test_an_own_classifier_of_another_shape(void **state) {
    (void)state;
    enum { VALUES = 180 };
    int pixels = VALUES;
    float one[VALUES], adv[VALUES];
    vitrine_err e;
    vitrine_model *own;
    vitrine_verdict v;
    vitrine_classifier c = {.size = sizeof c, .name = "halves", .classes = 3, .batch = 2, .self = &pixels};
    c.logits = halves_logits, c.vjp = halves_vjp, c.channels = 5, c.height = 4, c.width = 9;
    for (int k = 0; k < VALUES; k++) one[k] = k < VALUES / 2 ? 0.6f : 0.5f;
    assert_int_equal(vitrine_own(&own, &c, &e), VITRINE_OK);
    assert_true(vitrine_side(own) == 0 && vitrine_pixels(own) == VALUES);
    assert_true(vitrine_channels(own) == 5 && vitrine_height(own) == 4 && vitrine_width(own) == 9);
    for (int k = 0; k < 2; k++) {
        vitrine_attack_plan plan = VITRINE_ATTACK("pgd:steps=20+square:queries=50", "linf", k ? 0.051 : 0.049);
        vitrine_status s = vitrine_attack(own, &plan, 1, one, (int32_t[]){0}, adv, &v, &e);
        if (s != VITRINE_OK) fail_msg("%s", e.text);
        assert_int_equal(v.outcome, k ? VITRINE_BROKEN : VITRINE_ROBUST);
    }
    vitrine_close(own);
    c.width = 0;
    refused(vitrine_own(&own, &c, &e), VITRINE_E_USAGE, &e, "its images are 5 x 4 x 0");
    c.width = 9, c.size = offsetof(vitrine_classifier, vjp);
    refused(vitrine_own(&own, &c, &e), VITRINE_E_USAGE, &e, "size is");
}

static void test_an_own_classifier_that_fails_is_told_apart(void **state) {
    (void)state;
    vitrine_err e;
    vitrine_verdict v[N];
    float z[CLASSES];
    mirror self = {.fail_at = 1};
    vitrine_classifier c = mirrored(&self, 4);
    vitrine_model *own;
    vitrine_attack_plan plan = VITRINE_ATTACK("pgd:steps=3", "linf", 4.0 / 255);
    assert_int_equal(vitrine_own(&own, &c, &e), VITRINE_OK);
    refused(vitrine_logits(own, 1, x, z, 1, &e), VITRINE_E_MODEL, &e, "the model mirror: its logits returned 7");
    for (int at = 2; at < 9; at++) {
        self = (mirror){.fail_at = at};
        refused(vitrine_attack(own, &plan, N, x, labels, x_adv, v, &e), VITRINE_E_MODEL, &e, "returned 7");
    }
    self = (mirror){.nan_at = 1};
    refused(vitrine_attack(own, &plan, N, x, labels, x_adv, v, &e), VITRINE_E_NUMERIC, &e, "not finite");
    for (int k = 0; k < 2; k++) { /* not "robust" */
        self = (mirror){.bad = k ? NAN : -INFINITY};
        refused(vitrine_attack(own, &plan, N, x, labels, x_adv, v, &e), VITRINE_E_MODEL, &e,
                "a gradient that is not finite");
        self.above = 1e-20f; /* too large for float alone: the smaller loss's is followed */
        assert_int_equal(vitrine_attack(own, &plan, N, x, labels, x_adv, v, &e), VITRINE_OK);
    }
    vitrine_close(own);
    c.vjp = NULL;
    assert_int_equal(vitrine_own(&own, &c, &e), VITRINE_OK);
    self = (mirror){0};
    refused(vitrine_attack(own, &plan, N, x, labels, x_adv, v, &e), VITRINE_E_USAGE, &e, "follows gradients");
    refused(vitrine_vjp(own, 1, x, z, x_adv, 1, &e), VITRINE_E_FORBIDDEN, &e, "gives no gradients");
    plan.attack = "transfer";
    refused(vitrine_attack(own, &plan, N, x, labels, x_adv, v, &e), VITRINE_E_USAGE, &e, "surrogate");
    plan.attack = "square:queries=10";
    assert_int_equal(vitrine_attack(own, &plan, N, x, labels, x_adv, v, &e), VITRINE_OK);
    vitrine_close(own);
}

/* Two threads attack with one handle; calls of a classifier that is not parallel never overlap. */
static volatile int inside, overlaps;
static int alone_logits(void *self, int n, const float *in, float *z) {
    if (__atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST) > 1) overlaps++;
    usleep(200);
    int s = mirror_logits(self, n, in, z);
    __atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
    return s;
}

static void *attack_it(void *own) {
    static vitrine_verdict v[2][N];
    static int which;
    vitrine_attack_plan plan = VITRINE_ATTACK("square:queries=20", "linf", 4.0 / 255);
    vitrine_err e;
    vitrine_attack(own, &plan, N, x, labels, NULL, v[__atomic_fetch_add(&which, 1, __ATOMIC_SEQ_CST)], &e);
    return e.code ? strdup(e.text) : NULL;
}

static void test_calls_that_are_not_parallel_wait(void **state) {
    (void)state;
    mirror self = {0};
    vitrine_classifier c = mirrored(&self, 4);
    vitrine_model *own;
    vitrine_err e;
    pthread_t other_thread;
    void *said;
    c.logits = alone_logits;
    assert_int_equal(vitrine_own(&own, &c, &e), VITRINE_OK);
    assert_int_equal(pthread_create(&other_thread, NULL, attack_it, own), 0);
    assert_null(attack_it(own));
    assert_int_equal(pthread_join(other_thread, &said), 0);
    assert_null(said);
    assert_int_equal(overlaps, 0);
    vitrine_close(own);
}

static void test_wrong_arguments_are_sentences(void **state) {
    (void)state;
    vitrine_err e = {0};
    vitrine_model *m = model;
    vitrine_run *r;
    vitrine_verdict v[N];
    float z[N * CLASSES];
    int32_t bad_labels[N] = {0}, twice[N] = {0};
    refused(vitrine_open(NULL, weights, NULL, &e), VITRINE_E_USAGE, &e, "out is NULL");
    refused(vitrine_open(&m, NULL, NULL, &e), VITRINE_E_USAGE, &e, "path is NULL");
    assert_null(m);
    refused(vitrine_open(&m, "nowhere", NULL, &e), VITRINE_E_IO, &e, "nowhere");
    refused(vitrine_open(&m, weights, (const char *[]){"head=3", NULL}, &e), VITRINE_E_UNKNOWN, &e, "'head'");
    refused(vitrine_open(&m, weights, (const char *[]){"heads=3", NULL}, &e), VITRINE_E_SHAPE, &e, "3");
    refused(vitrine_connect(&m, "false", 5, &e), VITRINE_E_MODEL, &e, "false");
    refused(vitrine_connect(&m, "true", NAN, &e), VITRINE_E_USAGE, &e, "timeout");
    refused(vitrine_own(&m, NULL, &e), VITRINE_E_USAGE, &e, "c is NULL");
    mirror self = {0};
    vitrine_classifier c = mirrored(&self, 1);
    c.size = 3;
    refused(vitrine_own(&m, &c, &e), VITRINE_E_USAGE, &e, "size is 3");
    c = mirrored(&self, 1), c.classes = 1;
    refused(vitrine_own(&m, &c, &e), VITRINE_E_USAGE, &e, "classes is 1");
    c = mirrored(&self, 0);
    refused(vitrine_own(&m, &c, &e), VITRINE_E_USAGE, &e, "batch is 0");
    refused(vitrine_logits(model, 0, x, z, 1, &e), VITRINE_E_USAGE, &e, "n is 0");
    refused(vitrine_logits(model, SIZE_MAX, x, z, 1, &e), VITRINE_E_USAGE, &e, "n is");
    refused(vitrine_logits(model, 1, x, z, -1, &e), VITRINE_E_USAGE, &e, "threads is -1");
    refused(vitrine_logits(NULL, 1, x, z, 1, &e), VITRINE_E_USAGE, &e, "m is NULL");
    vitrine_attack_plan plan = VITRINE_ATTACK("pgd", "linf", 8);
    refused(vitrine_attack(model, &plan, N, x, labels, x_adv, v, &e), VITRINE_E_USAGE, &e, "8/255?");
    plan.eps = 1.1;
    refused(vitrine_attack(model, &plan, N, x, labels, x_adv, v, &e), VITRINE_E_USAGE, &e, "eps is 1.1, but");
    plan.eps = NAN;
    refused(vitrine_attack(model, &plan, N, x, labels, x_adv, v, &e), VITRINE_E_USAGE, &e, "eps is 'nan'");
    plan.eps = 0.03, plan.norm = "l7";
    refused(vitrine_attack(model, &plan, N, x, labels, x_adv, v, &e), VITRINE_E_USAGE, &e, "'l7'");
    plan.norm = "linf", plan.attack = "pdg";
    refused(vitrine_attack(model, &plan, N, x, labels, x_adv, v, &e), VITRINE_E_UNKNOWN, &e, "pdg");
    plan.attack = "pgd", plan.batch = -2;
    refused(vitrine_attack(model, &plan, N, x, labels, x_adv, v, &e), VITRINE_E_USAGE, &e, "batch is -2");
    plan.batch = 0, bad_labels[3] = 10;
    refused(vitrine_attack(model, &plan, N, x, bad_labels, x_adv, v, &e), VITRINE_E_RANGE, &e, "labels[3] is 10");
    refused(vitrine_attack(model, &plan, N, x, labels, x, v, &e), VITRINE_E_USAGE, &e, "x_adv is x");
    plan.images = twice;
    refused(vitrine_attack(model, &plan, N, x, labels, x_adv, v, &e), VITRINE_E_USAGE, &e, "holds 0 twice");
    plan.images = NULL;
    memcpy(other, x, sizeof x);
    other[PIXELS + 5] = 1.5F;
    refused(vitrine_attack(model, &plan, N, other, labels, x_adv, v, &e), VITRINE_E_RANGE, &e, "x[1]: value 5 is 1.5");
    other[PIXELS + 5] = nextafterf(1, 2);
    refused(vitrine_attack(model, &plan, N, other, labels, x_adv, v, &e), VITRINE_E_RANGE, &e, "is 1.00000012,");
    other[PIXELS + 5] = NAN;
    refused(vitrine_attack(model, &plan, N, other, labels, x_adv, v, &e), VITRINE_E_RANGE, &e, "nan");
    refused(vitrine_judge(model, &plan, N, x, NULL, labels, v, &e), VITRINE_E_USAGE, &e, "x_adv is NULL");
    plan.allowance = 0.1;
    refused(vitrine_judge(model, &plan, N, x, x_adv, labels, v, &e), VITRINE_E_USAGE, &e, "allowance is 0.1");
    refused(vitrine_evaluate(&r, NULL, NULL, &e), VITRINE_E_USAGE, &e, "options is NULL");
    refused(vitrine_evaluate(&r, (const char *[]){"data=datasets/shapes10", NULL}, NULL, &e), VITRINE_E_USAGE, &e,
            "needs the option weights");
    refused(vitrine_evaluate(&r, (const char *[]){"exhaustive=0", NULL}, NULL, &e), VITRINE_E_USAGE, &e,
            "exhaustive takes no value, but '0' was given");
    refused(vitrine_train((const char *[]){"resume=", NULL}, NULL, &e), VITRINE_E_USAGE, &e, "takes no value");
    refused(vitrine_run_verdicts(NULL, 0, v, &e), VITRINE_E_USAGE, &e, "r is NULL");
    vitrine_close(NULL), vitrine_run_close(NULL), vitrine_free(NULL);
    assert_int_equal(vitrine_open(&m, weights, NULL, NULL), VITRINE_OK); /* nobody wants the sentence */
    vitrine_close(m);
}

/* Whatever is wrong with an option, the sentence names it as it was given, and no option of the command. */
static void test_sentences_name_arguments(void **state) {
    (void)state;
    static const char *const eval[][2] = {
        {"eps=8", "eps is 8"},
        {"eps=x", "eps is 'x'"},
        {"norm=l7", "norm is 'l7'"},
        {"norm=l1", "did you mean norm linf?"},  /* eps 0.01 */
        {"threat=patch", "threat patch stands"}, /* beside eps */
        {"targets=nowhere", "targets is 'nowhere'"},
        {"resume", "resume needs out FOLDER"},
        {"search=half", "search is 'half'"},
        {"images=0:99999", "images is '0:99999'"},
        {"images=x", "images is 'x'"},
        {"threads=0", "threads is 0"},
        {"seed=x", "seed is 'x'"},
        {"severity=3", "severity needs corruption NAME"},
        {"split=all", "split is 'all'"},
        {"attack=patch-fool", "threat patch:size=N"},
        {"preprocess=x", "preprocess"},
        {"surrogate=nowhere", "surrogate: nowhere"},
        {"heads=x", "heads is 'x'"},
        {"mean=x", "mean is 'x'"},
        {"form=x", "form: 'x'"},
        {"form=act=tanh", "act"},
        {"image-size=7", "image-size"},
        {"attn=x", "attn"},
        {"names=nowhere", "names is 'nowhere'"},
        {"attack-at=x", "attack-at is 'x'"},
        {"ln-eps=-1", "ln-eps is '-1'"},
        {"attn-scale=x", "attn-scale"},
        {"preset=x", "preset"},
        {"part=x", "has no entry 'x'"},
        {"heads", "heads needs a value"},
    };
    static const char *const train[][2] = {{"set=lr", "set 'lr' is not of the form"},
                                           {"set=lr=x", "set: "},
                                           {"max-steps=0", "max-steps is 0"},
                                           {"heads=2", "heads says how"}};
    vitrine_err e;
    vitrine_run *r;
    vitrine_model *m;
    for (size_t i = 0; i < T_COUNT(eval); i++) {
        const char *threat = strncmp(eval[i][0], "eps", 3) ? "eps=4/255" : "seed=1";
        if (!strcmp(eval[i][0], "norm=l1")) threat = "eps=0.01";
        const char *options[] = {"weights=weights/shapes10-vit",
                                 "data=datasets/shapes10",
                                 "images=0:2",
                                 "attack=pgd:steps=1",
                                 threat,
                                 eval[i][0],
                                 NULL};
        if (vitrine_evaluate(&r, options, NULL, &e) == VITRINE_OK) fail_msg("%s: taken", eval[i][0]);
        if (!strstr(e.text, eval[i][1]) || strstr(e.text, "--")) fail_msg("%s: %s", eval[i][0], e.text);
    }
    for (size_t i = 0; i < T_COUNT(train); i++) {
        const char *options[] = {"recipe=recipes/shapes10_plain.yaml", "data=datasets/shapes10", "out=nowhere/x",
                                 train[i][0], NULL};
        if (vitrine_train(options, NULL, &e) == VITRINE_OK) fail_msg("%s: taken", train[i][0]);
        if (!strstr(e.text, train[i][1]) || strstr(e.text, "--")) fail_msg("%s: %s", train[i][0], e.text);
    }
    refused(vitrine_connect(&m, "sleep 9", 0.1, &e), VITRINE_E_MODEL, &e, "within 0.1 s (oracle-timeout)");
    /* what a caller wrote stays as it is, and so does what names a command */
    refused(vitrine_connect(&m, "false --eps 3", 5, &e), VITRINE_E_MODEL, &e, "false --eps 3");
    assert_int_equal(vt_fail(NULL, VT_E_USAGE, "x"), VT_E_USAGE);
    vt_err why = {0};
    vt_fail(&why, VT_E_USAGE, "@%s -- is %s: (vitrine info @explain), @names a@b @ -", "eps", "--x @y");
    assert_string_equal(why.text, "eps -- is --x @y: (vitrine info --explain), names a@b @ -");
}

/* Points that no attack made: NaN, outside of box or ball. */
static void test_any_point_is_judged(void **state) {
    (void)state;
    vitrine_err e;
    vitrine_verdict v[N];
    memcpy(x_adv, x, sizeof x);
    x_adv[5] = NAN, x_adv[PIXELS] = 2, x_adv[2 * PIXELS] = x[2 * PIXELS] > 0.5F ? 0 : 1;
    vitrine_attack_plan terms = VITRINE_JUDGE("linf", 0.01);
    assert_int_equal(vitrine_judge(model, &terms, N, x, x_adv, labels, v, &e), VITRINE_OK);
    assert_int_equal(v[0].outcome, VITRINE_NOT_FINITE);
    assert_int_equal(v[1].outcome, VITRINE_INVALID);
    assert_int_equal(v[2].outcome, VITRINE_INVALID);
    assert_true(v[2].linf > 0.01);
}

/* What every program in float32 returns: up to 2^-25 beyond the ball, by rounding. */
static void test_points_of_other_programs_have_an_allowance(void **state) {
    (void)state;
    assert_true(VITRINE_ALLOWANCE == 0x1p-24); /* eval/verify.h: VT_ALLOWANCE */
    vitrine_err e;
    vitrine_verdict v[N], w[N];
    const char *const norms[] = {"linf", "l2", "l1", "l0"};
    const double values = PIXELS, adds[] = {1, sqrt(values), values, 0};
    for (int i = 0; i < N * PIXELS; i++) x_adv[i] = fminf(1, x[i] + (float)(8.0 / 255));
    vitrine_attack_plan terms = VITRINE_JUDGE("linf", 8.0 / 255);
    assert_int_equal(vitrine_judge(model, &terms, N, x, x_adv, labels, v, &e), VITRINE_OK);
    terms.threads = 2, terms.allowance = 0;
    assert_int_equal(vitrine_judge(model, &terms, N, x, x_adv, labels, w, &e), VITRINE_OK);
    for (int i = 0; i < N; i++) {
        assert_true(v[i].linf > 8.0 / 255 && v[i].linf == w[i].linf && v[i].margin == w[i].margin);
        assert_int_equal(v[i].outcome, v[i].pred == labels[i] ? VITRINE_ROBUST : VITRINE_BROKEN);
        assert_int_equal(w[i].outcome, VITRINE_INVALID);
    }
    for (int k = 0; k < 4; k++) { /* as much as it says, and no more */
        double length = k == 0 ? v[0].linf : k == 1 ? v[0].l2 : k == 2 ? v[0].l1 : v[0].l0;
        for (int more = 0; more < 2; more++) {
            terms = (vitrine_attack_plan)VITRINE_JUDGE(norms[k], length - (more ? 0.9 : 1.1) * 1e-6 * adds[k]);
            terms.allowance = 1e-6;
            if (k == 3) terms.eps = length - !more;
            assert_int_equal(vitrine_judge(model, &terms, 1, x, x_adv, labels, w, &e), VITRINE_OK);
            if ((w[0].outcome != VITRINE_INVALID) != more) fail_msg("%s: outcome %d", norms[k], w[0].outcome);
        }
    }
}

/* An option of the evaluation, and the same in a plan: the same verdicts; and the judge's on what was found. */
static void same_as_evaluated(const char *option, const char *norm, vitrine_attack_plan plan, int entry) {
    char attack[80];
    snprintf(attack, sizeof attack, "attack=%s", plan.attack);
    const char *options[] = {"weights=weights/shapes10-vit",
                             "data=datasets/shapes10",
                             "images=0:12",
                             attack,
                             norm ? "eps=12/255" : option,
                             option,
                             NULL};
    vitrine_err e;
    vitrine_run *r;
    vitrine_verdict v[N], w[N];
    int found = 0;
    if (vitrine_evaluate(&r, options + 0, NULL, &e) != VITRINE_OK) fail_msg("%s: %s", option, e.text);
    assert_int_equal(vitrine_run_verdicts(r, entry, w, &e), VITRINE_OK);
    vitrine_run_close(r);
    plan.threads = 2;
    if (vitrine_attack(model, &plan, N, x, labels, x_adv, v, &e) != VITRINE_OK) fail_msg("%s: %s", option, e.text);
    for (int i = 0; i < N; i++) same_verdict(&v[i], &w[i]), found += v[i].outcome == VITRINE_BROKEN;
    assert_int_equal(vitrine_judge(model, &plan, N, x, x_adv, labels, w, &e), VITRINE_OK);
    for (int i = 0; i < N; i++) {
        if (v[i].outcome != VITRINE_BROKEN) continue;
        assert_int_equal(w[i].outcome, VITRINE_BROKEN);
        assert_true(w[i].margin == v[i].margin);
        if (plan.targets) assert_int_equal(v[i].pred, plan.targets[i]);
        for (int k = 0; plan.eight_bit && k < PIXELS; k++)
            assert_true(x_adv[i * PIXELS + k] == (float)rintf(255 * x_adv[i * PIXELS + k]) / 255);
    }
    assert_true(found > 1);
}

static void test_a_plan_has_targets_patches_and_8_bits(void **state) {
    (void)state;
    char option[300];
    int32_t targets[N];
    vitrine_err e;
    vitrine_verdict v[N];
    FILE *f = fopen(at("targets"), "w");
    for (int i = 0; i < N; i++) targets[i] = (labels[i] + 1 + i % 3) % CLASSES, fprintf(f, "%d,%d\n", i, targets[i]);
    fclose(f);
    snprintf(option, sizeof option, "targets=%s", at("targets"));
    vitrine_attack_plan plan = VITRINE_ATTACK("pgd:steps=5", "linf", 12.0 / 255);
    vitrine_attack_plan aimed = plan, bits = plan, patch = VITRINE_ATTACK("pgd:steps=5", NULL, 0);
    aimed.targets = targets, bits.eight_bit = 1, patch.threat = "patch:size=12";
    same_as_evaluated(option, "linf", aimed, 1);
    same_as_evaluated("eight-bit", "linf", bits, 2);
    same_as_evaluated("threat=patch:size=12", NULL, patch, 1);
    vitrine_attack_plan turned = VITRINE_ATTACK("grid:tries=40", NULL, 0);
    turned.threat = "rotation:angle=20";
    same_as_evaluated("threat=rotation:angle=20", NULL, turned, 1);
    turned.threat = "rotation:angle=1,shift=0"; /* the points of the wider grid are none of this one */
    assert_int_equal(vitrine_judge(model, &turned, N, x, x_adv, labels, v, &e), VITRINE_OK);
    for (int i = 0; i < N; i++)
        assert_true(v[i].outcome == VITRINE_INVALID || !memcmp(x_adv + i * PIXELS, x + i * PIXELS, PIXELS * sizeof *x));
    turned.eight_bit = 1;
    refused(vitrine_attack(model, &turned, N, x, labels, NULL, v, &e), VITRINE_E_USAGE, &e, "eight_bit rounds points");
    turned.eight_bit = 0, turned.threat = "rotation:shift=32";
    refused(vitrine_judge(model, &turned, N, x, x_adv, labels, v, &e), VITRINE_E_USAGE, &e, "shift is 32 pixels");
    /* what none of them can be */
    patch.norm = "l2";
    refused(vitrine_attack(model, &patch, N, x, labels, NULL, v, &e), VITRINE_E_USAGE, &e, "leave them NULL and 0");
    patch.norm = NULL, patch.threat = "patch:size=40";
    refused(vitrine_judge(model, &patch, N, x, x_adv, labels, v, &e), VITRINE_E_USAGE, &e, "size is 40 pixels");
    targets[2] = labels[2];
    refused(vitrine_attack(model, &aimed, N, x, labels, NULL, v, &e), VITRINE_E_RANGE, &e, "targets[2] is");
    targets[2] = CLASSES;
    refused(vitrine_judge(model, &aimed, N, x, x_adv, labels, v, &e), VITRINE_E_RANGE, &e, "targets[2] is 10");
    memcpy(other, x, sizeof x);
    other[7] = 0.5F;
    refused(vitrine_attack(model, &bits, N, other, labels, NULL, v, &e), VITRINE_E_USAGE, &e, "which is no k/255");
    bits.attack = "fgsm-specformer", bits.norm = "linf";
    refused(vitrine_attack(model, &bits, N, x, labels, NULL, v, &e), VITRINE_E_USAGE, &e, "no 8-bit points");
}

static void test_what_there_is_can_be_listed(void **state) {
    (void)state;
    vitrine_attack_info a = {.size = sizeof a};
    vitrine_option_info o = {.size = sizeof o};
    bool patch = false;
    int n = 0, major = -1, minor = -1, last = -1;
    for (; vitrine_list_attack(n, &a); n++) {
        vitrine_err e;
        vitrine_verdict v;
        char spec[600], norm[40];
        for (int k = 0; vitrine_list_option(a.name, k, &o); k++) { /* each default is taken as it is printed */
            snprintf(spec, sizeof spec, "%s:%s=%s", a.name, o.name, o.preset);
            vitrine_attack_plan plan = VITRINE_ATTACK(spec, NULL, 1);
            snprintf(norm, sizeof norm, "%.*s", (int)strcspn(a.norms, " "), a.norms);
            plan.threat = !strcmp(norm, "patch") ? "patch:size=4" : !strcmp(norm, "rotation") ? norm : NULL;
            if (plan.threat)
                plan.eps = 0;
            else
                plan.norm = norm;
            plan.images = (int32_t[]){-1}; /* refused after the attack is read, before anything is computed */
            refused(vitrine_attack(model, &plan, 1, x, labels, NULL, &v, &e), VITRINE_E_RANGE, &e, "images[0] is -1");
            assert_true(*o.help && *o.type && (strcmp(o.type, "choice") != 0) == !o.choices);
        }
        assert_true(*a.summary && *a.reference && *a.norms);
        patch = patch || strstr(a.norms, "patch");
    }
    assert_true(n > 20 && patch);
    assert_true(vitrine_list_option("pgd", 0, &o) && vitrine_list_option(NULL, 1, &o));
    assert_string_equal(o.name, "places");
    assert_true(!strcmp(o.type, "integer") && o.min == 0 && o.max == 1 << 28 && !strcmp(o.preset, "1"));
    assert_false(vitrine_list_option(NULL, 2, &o) || vitrine_list_option("pdg", 0, &o) || vitrine_list_attack(-1, &a));
    a.size--;
    assert_false(vitrine_list_attack(0, &a));
    assert_string_equal(vitrine_list_norm(3), "l0");
    assert_true(!vitrine_list_norm(4) && !vitrine_list_norm(-1));
    assert_string_equal(VITRINE_VERSION, vitrine_version());
    assert_int_equal(sscanf(VITRINE_VERSION, "%d.%d.%d", &major, &minor, &last), 3);
    assert_int_equal(VITRINE_VERSION_NUMBER, 10000 * major + 100 * minor + last);
    assert_string_equal(vitrine_status_name((vitrine_status)1), "unknown status");
}

static void test_what_was_assumed_is_told(void **state) {
    (void)state;
    const char *const options[] = {"heads=2", "mean=0.5", "std=0.5", NULL};
    vitrine_model *m;
    vitrine_err e;
    assert_string_equal(vitrine_assumed(model), "");
    if (vitrine_open(&m, "tests/fixtures/pth/parts_ema.pth", options, &e) != VITRINE_OK) fail_msg("%s", e.text);
    static const char *const said[] =
        {"model was read, one of its parts model, ema (the plain weights, not their average); ", "activation gelu",
         "positions by the table alone", "class token first"};
    for (size_t i = 0; i < T_COUNT(said); i++)
        if (!strstr(vitrine_assumed(m), said[i])) fail_msg("no '%s' in '%s'", said[i], vitrine_assumed(m));
    vitrine_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits_are_the_networks),
        cmocka_unit_test(test_what_was_assumed_is_told),
        cmocka_unit_test(test_vjp_is_the_derivative),
        cmocka_unit_test(test_an_array_is_judged_as_a_data_set),
        cmocka_unit_test(test_draws_follow_the_image_not_its_place),
        cmocka_unit_test(test_an_own_classifier_falls_as_the_model),
        cmocka_unit_test(test_an_own_classifier_of_another_shape),
        cmocka_unit_test(test_an_own_classifier_that_fails_is_told_apart),
        cmocka_unit_test(test_calls_that_are_not_parallel_wait),
        cmocka_unit_test(test_wrong_arguments_are_sentences),
        cmocka_unit_test(test_sentences_name_arguments),
        cmocka_unit_test(test_any_point_is_judged),
        cmocka_unit_test(test_points_of_other_programs_have_an_allowance),
        cmocka_unit_test(test_a_plan_has_targets_patches_and_8_bits),
        cmocka_unit_test(test_what_there_is_can_be_listed),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
