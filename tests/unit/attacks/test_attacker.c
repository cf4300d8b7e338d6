/* SPDX-License-Identifier: MIT */
/* One image through one stage: which point stands for it in each mode, what a task hands on, what it leaves. A
 * planted linear classifier is the judge: what is broken is known by hand. */
#include "attack_fixture.h"
#include "attacks/attacker.h"
#include "eval/verify.h"

enum { CLASSES = 3, SIDE = 6 };

typedef struct scene {
    planted p;
    bench b; /* an image, its label */
    vt_attacker a;
    vt_attack attack;
} scene;

static void open_scene(scene *s, const char *spec) {
    vt_err e = {0};
    assert_true(planted_linear(&s->p, CLASSES, SIDE, SIDE, 41));
    bench_open(&s->b, &s->p, 2, true);
    if (vt_attack_parse(&s->attack, spec, VT_LINF, &e) != VT_OK) fail_msg("%s", e.text);
    vt_task dims = vt_attacker_dims(s->p.shape, CLASSES, NULL);
    assert_true(vt_shape_same(dims.shape, vt_shape_rgb(SIDE)) && dims.n == s->p.n && !dims.patch);
    assert_int_equal(vt_attacker_open(&s->a, s->p.shape, vt_attacker_work(&s->attack, &dims), &e), VT_OK);
}

static void close_scene(scene *s) {
    vt_attacker_close(&s->a);
    vt_attack_free(&s->attack);
    bench_close(&s->b);
    planted_free(&s->p);
}

static vt_task task_of(const scene *s, vt_oracle_mode mode, double eps) {
    return (vt_task){.clean = s->b.x,
                     .label = s->b.label,
                     .classes = CLASSES,
                     .norm = VT_LINF,
                     .eps = eps,
                     .mode = mode,
                     .rng = {.seed = 1, .purpose = 7}};
}

static bool wrong(scene *s, const float *x) { return predicted(&s->p, x) != s->b.label; }

/* Searching it ends at the confirmed query, which is the candidate; exhaustive the last iterate is, and the oracle's
 * best another; unjudged nothing is kept; the nearest lies nearer than where a search ends. */
static void modes(void **state) {
    (void)state;
    scene s;
    open_scene(&s, "pgd:steps=20,alpha=0.02,random_start=0");
    const vt_attack_stage *st = &s.attack.stages[0];
    vt_task t = task_of(&s, VT_ORACLE_SEARCH, 0.2);
    assert_int_equal(vt_attacker_run(&s.a, &s.b.o, st, &t), VT_OK);
    assert_true(s.b.o.has_found && s.a.at == s.b.o.found && wrong(&s, s.a.at));
    int64_t early = s.b.o.gradients;
    double first = vt_distance(VT_LINF, s.a.at, s.b.x, s.p.n);
    t.mode = VT_ORACLE_EXHAUSTIVE;
    assert_int_equal(vt_attacker_run(&s.a, &s.b.o, st, &t), VT_OK);
    assert_true(s.a.at == s.a.x_adv && s.b.o.has_found && s.b.o.gradients > early);
    t.mode = VT_ORACLE_NO_VERDICT;
    assert_int_equal(vt_attacker_run(&s.a, &s.b.o, st, &t), VT_OK);
    assert_true(s.a.at == s.a.x_adv && !s.b.o.has_found && wrong(&s, s.a.at));
    t.mode = VT_ORACLE_MIN_DISTANCE;
    assert_int_equal(vt_attacker_run(&s.a, &s.b.o, st, &t), VT_OK);
    assert_true(s.b.o.has_found && s.a.at == s.b.o.found && wrong(&s, s.a.at));
    assert_true(vt_distance(VT_LINF, s.a.at, s.b.x, s.p.n) <= first);
    t.mode = VT_ORACLE_SEARCH, t.eps = 1e-4; /* out of reach: the last point stands */
    assert_int_equal(vt_attacker_run(&s.a, &s.b.o, st, &t), VT_OK);
    assert_true(!s.b.o.has_found && s.a.at == s.a.x_adv && !wrong(&s, s.a.at));
    for (size_t i = 0; i < s.p.n; i++)
        assert_true(fabs((double)s.a.at[i] - (double)s.b.x[i]) <= 1e-4 && s.a.at[i] >= 0 && s.a.at[i] <= 1);
    close_scene(&s);
}

static int steps;
static void count(void *ctx, int k, float *x_adv) {
    assert_ptr_equal(ctx, &steps);
    assert_true(k == steps && x_adv);
    steps++;
}

/* What a task says reaches the attack: no gradients where it is blind, the start, the callback, the key of its draws.
 */
static void requests(void **state) {
    (void)state;
    scene s;
    open_scene(&s, "pgd:steps=3,random_start=0");
    const vt_attack_stage *st = &s.attack.stages[0];
    vt_task t = task_of(&s, VT_ORACLE_EXHAUSTIVE, 0.05);
    t.blind = true;
    assert_int_equal(vt_attacker_run(&s.a, &s.b.o, st, &t), VT_E_FORBIDDEN);
    t.blind = false, t.before_step = count, t.ctx = &steps, steps = 0;
    assert_int_equal(vt_attacker_run(&s.a, &s.b.o, st, &t), VT_OK);
    assert_int_equal(steps, 3);
    float target[CLASSES] = {0}; /* away from another class: the label's own score rises or stays */
    target[(s.b.label + 1) % CLASSES] = 1;
    t.before_step = NULL, t.target = target;
    assert_int_equal(vt_attacker_run(&s.a, &s.b.o, st, &t), VT_OK);
    double z[PLANTED_MOST], z0[PLANTED_MOST];
    s.p.logits(&s.p, s.a.at, z), s.p.logits(&s.p, s.b.x, z0);
    int k = (s.b.label + 1) % CLASSES;
    double rest = 0, rest0 = 0;
    for (int c = 0; c < CLASSES; c++) rest += exp(z[c] - z[k]), rest0 += exp(z0[c] - z0[k]);
    assert_true(rest > rest0); /* the cross entropy with that class has grown */
    close_scene(&s);
    open_scene(&s, "pgd:steps=1,alpha=0.001,random_start=1");
    float first[3 * SIDE * SIDE];
    t = task_of(&s, VT_ORACLE_EXHAUSTIVE, 0.05);
    assert_int_equal(vt_attacker_run(&s.a, &s.b.o, &s.attack.stages[0], &t), VT_OK);
    memcpy(first, s.a.at, sizeof first);
    assert_int_equal(vt_attacker_run(&s.a, &s.b.o, &s.attack.stages[0], &t), VT_OK);
    assert_memory_equal(first, s.a.at, sizeof first);
    t.rng.seed = 2;
    assert_int_equal(vt_attacker_run(&s.a, &s.b.o, &s.attack.stages[0], &t), VT_OK);
    assert_true(memcmp(first, s.a.at, sizeof first) != 0);
    close_scene(&s);
}

/* No verdict on a point that the model did not answer for. */
static void unanswered(void **state) {
    (void)state;
    scene s;
    open_scene(&s, "fgsm");
    vt_verdict v;
    bool unsure;
    float z[CLASSES];
    double z64[CLASSES];
    vt_rng key = vt_verdict_key(1, 2, 1, 0);
    const vt_terms terms = {.norm = VT_LINF, .eps = 0.1};
    for (int at = 0; at < 2; at++) {
        vt_err e = {0};
        s.p.forwards = 1, s.p.fail_after = at ? 0 : 1, s.p.fail64 = at;
        const char *want = at ? "no double here" : "call 2 is one too many";
        assert_int_equal(vt_verify_by(&v, &terms, &s.p.c, &key, s.b.x, s.b.x, vt_shape_rgb(SIDE), s.b.label, z, z64,
                                      &e),
                         VT_E_MODEL);
        assert_string_equal(e.text, want);
        e = (vt_err){0};
        assert_int_equal(vt_predict(&v, &unsure, &s.p.c, s.b.x, s.b.label, z, NULL, &e), at ? VT_OK : VT_E_MODEL);
        assert_string_equal(e.text, at ? "" : want);
    }
    close_scene(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(modes), cmocka_unit_test(requests),
                                       cmocka_unit_test(unanswered)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
