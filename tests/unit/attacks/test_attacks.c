/* SPDX-License-Identifier: MIT */
/* What every attack of the registry must keep, on planted classifiers (planted.h): ball and box exactly, eps 0, seeds,
 * counts, refusals, faults, few classes. */
#include "attack_fixture.h"
#include "attacks/attacker.h"
#include "base/opt.h"

/* ---- the registry, generically ---- */

/* Small budgets by option name, whatever the attack; ensembles take none. */
static vt_attack parse_small(const vt_attack_def *def, vt_norm norm, bool restarts) {
    char spec[120] = "";
    for (const vt_opt *o = def->opts; o && o->key; o++) {
        const char *value = !strcmp(o->key, "steps") ? "12" : !strcmp(o->key, "queries") ? "250" : NULL;
        if (!strcmp(o->key, "lr")) value = "0.1"; /* so that 12 steps lead somewhere */
        if (def->published && !strcmp(o->key, "alpha")) value = "0.05";
        if (def->published && !strcmp(o->key, "eps")) value = "0"; /* the ball's */
        if (!strcmp(o->key, "restarts") && restarts) value = "2";
        size_t at = strlen(spec);
        if (value) snprintf(spec + at, sizeof spec - at, "%s%s=%s", at ? "," : ":", o->key, value);
    }
    char whole[160];
    snprintf(whole, sizeof whole, "%s%s", def->name, spec);
    vt_attack a;
    vt_err e = {0};
    if (vt_attack_parse(&a, whole, norm, &e) != VT_OK) fail_msg("%s", e.text);
    return a;
}

/* The patch threat has a file of its own, and so has what leaves the ball on purpose (test_published.c). */
static bool can(const vt_attack_def *d, vt_norm norm) {
    return (d->norms & 1u << norm) != 0 && !(d->traits & VT_LEAVES_BALL);
}

/* Calls f for every stage of every attack and every norm. Long ensembles run their stages at full budget once
 * only. */
static void each_stage(void (*f)(const vt_attack_stage *s, vt_norm norm, void *arg), void *arg, bool ensembles) {
    int n;
    const vt_attack_def *const *defs = vt_attack_defs(&n);
    assert_true(n >= 10);
    for (int i = 0; i < n; i++)
        for (vt_norm norm = VT_LINF; norm < VT_NORM_COUNT; norm++)
            for (int restarts = 0; restarts < 2; restarts++) {
                if (!can(defs[i], norm)) continue;
                vt_attack a = parse_small(defs[i], norm, restarts);
                if (a.n_stages == 1 || (ensembles && !restarts))
                    for (int k = 0; k < a.n_stages; k++) f(&a.stages[k], norm, arg);
                vt_attack_free(&a);
            }
}

/* The oracle's counters are the classifier's own. A forward asked for by itself may serve a gradient at the
 * same point (VT_SHARES_FORWARDS): then all of the model's are asked for, or those that no gradient followed. */
static void assert_counts(const bench *b, const vt_attack_stage *s, vt_status st) {
    const planted *p = b->p;
    int64_t alone = p->forwards - p->keeps;
    assert_int_equal(b->o.gradients, p->backwards + b->surrogate.backwards);
    assert_int_equal(s->def->surrogate || s->def->inside ? p->backwards : b->surrogate.backwards,
                     0); /* one or the other */
    if (s->def->looks)
        assert_in_range(b->o.forwards, alone, alone + 1); /* attention on the clean image */
    else if (!(s->def->traits & VT_SHARES_FORWARDS))
        assert_int_equal(b->o.forwards, alone);
    else if (st == VT_OK)
        assert_true(b->o.forwards == alone + p->groups || b->o.forwards == p->forwards);
    assert_in_range(b->o.forwards, alone, p->forwards);
}

/* PDPGD moves every value at first: in l0 it takes them back in hundreds of steps (test_l0.c), not in 12. */
static bool is_slow(const vt_attack_stage *s, vt_norm norm) { return norm == VT_L0 && !strcmp(s->def->name, "pdpgd"); }

static int stops, ends;

static void check_stage(const vt_attack_stage *s, vt_norm norm, void *arg) {
    static const double eps[VT_NORM_COUNT][3] = {{1.0 / 255, 8.0 / 255, 0.3}, {0.1, 0.5, 2}, {0.5, 3, 12}, {1, 4, 30}};
    static const vt_shape shapes[] = {{3, 8, 8}, {3, 5, 9}, {3, 1, 1}, {3, 7, 3}, /* three times, then once: */
                                      {1, 7, 5}, {5, 4, 9}, {2, 9, 2}, {6, 1, 8}};
    (void)arg;
    for (int i = 0; i < 16; i++) {
        planted p;
        vt_shape shape = shapes[i < 12 ? i % 4 : i - 8];
        if (s->def->looks && shape.channels != 3) continue;
        assert_true(i % 2 ? planted_mlp_of(&p, 10, shape, (uint64_t)i) : planted_linear_of(&p, 10, shape, (uint64_t)i));
        bench b;
        bench_open(&b, &p, (uint32_t)i, i % 6 == 5);
        b.seed = (uint64_t)i * 1000003;
        bench_ball(&b, norm, eps[norm][i / 4 % 3]);
        b.o.mode = i % 3 == 0 ? VT_ORACLE_EXHAUSTIVE : VT_ORACLE_SEARCH;
        vt_status st = bench_run(&b, s, true);
        assert_true(st == VT_OK || (st == VT_STOP && b.o.mode == VT_ORACLE_SEARCH));
        assert_counts(&b, s, st);
        assert_found(&b, st);
        if (st == VT_OK && !b.o.has_found) assert_int_equal(predicted(&p, b.x_adv), b.label);
        stops += st == VT_STOP, ends += st == VT_OK;
        bench_close(&b);
        planted_free(&p);
    }
}

static void test_every_attack(void **state) {
    (void)state;
    stops = ends = 0;
    each_stage(check_stage, NULL, true);
    assert_true(stops > 50 && ends > 50); /* both outcomes were met */
}

static void zero_ball(const vt_attack_stage *s, vt_norm norm, void *arg) {
    (void)arg;
    planted p;
    assert_true(planted_linear(&p, 5, 6, 6, 3));
    bench b;
    bench_open(&b, &p, 4, false);
    bench_ball(&b, norm, 0);
    assert_int_equal(bench_run(&b, s, true), VT_OK);
    assert_memory_equal(b.x_adv, b.x, p.n * sizeof(float));
    assert_false(b.o.has_found);
    bench_close(&b);
    planted_free(&p);
}

static void test_zero_eps(void **state) {
    (void)state;
    each_stage(zero_ball, NULL, false);
}

static void note_query(void *arg, const float *x, int64_t call, float *z) {
    uint64_t *hash = arg;
    (void)z;
    if (call == 0) *hash = 0;
    for (size_t i = 0; i < 192; i++) {
        uint32_t word;
        memcpy(&word, x + i, sizeof word);
        *hash = (*hash ^ word) * 1099511628211u;
    }
}

/* The same key gives the same queries and the same result, whatever ran in between; another seed, or another
 * image number, gives other queries. (The result may be the same: the corner of a small ball.) */
static void same_seed(const vt_attack_stage *s, vt_norm norm, void *arg) {
    (void)arg;
    planted p;
    uint64_t hash, first_hash;
    assert_true(planted_mlp(&p, 10, 8, 8, 21));
    p.watch = note_query, p.arg = &hash;
    bench b, other;
    bench_open(&b, &p, 5, true);
    bench_open(&other, &p, 6, true);
    /* not broken: the whole budget is spent */
    bench_ball(&b, norm, norm == VT_LINF ? 0.001 : norm == VT_L0 ? 1 : 0.01);
    bench_ball(&other, norm, norm == VT_L0 ? 3 : 0.1);
    float *first = floats(p.n);
    assert_int_equal(bench_run(&b, s, true), VT_OK);
    assert_true(norm == VT_L0 || !b.o.has_found); /* the least of l0, one value, is much */
    memcpy(first, b.x_adv, p.n * sizeof(float));
    first_hash = hash;
    bench_run(&other, s, true);
    assert_int_equal(bench_run(&b, s, true), VT_OK);
    assert_memory_equal(first, b.x_adv, p.n * sizeof(float));
    assert_true(hash == first_hash);
    bool random = !(s->def->traits & VT_DRAWS_NOTHING);
    if (s->def->traits & VT_DRAWS_RESTARTS) random = strstr(s->id, "restarts=2") != NULL; /* all but the first run */
    b.seed++;
    assert_int_equal(bench_run(&b, s, true), VT_OK);
    assert_int_equal(hash != first_hash, random);
    b.seed--, b.image++;
    assert_int_equal(bench_run(&b, s, true), VT_OK);
    assert_int_equal(hash != first_hash, random);
    free(first);
    bench_close(&b), bench_close(&other);
    planted_free(&p);
}

static void test_seeds(void **state) {
    (void)state;
    each_stage(same_seed, NULL, false);
}

static void without_gradients(const vt_attack_stage *s, vt_norm norm, void *arg) {
    (void)arg;
    planted p;
    assert_true(planted_linear(&p, 10, 6, 6, 5));
    bench b;
    bench_open(&b, &p, 1, true);
    bench_ball(&b, norm, 0.001);
    assert_int_equal(bench_run(&b, s, false), s->def->white_box ? VT_E_FORBIDDEN : VT_OK);
    assert_int_equal(p.backwards, 0);
    assert_int_equal(b.o.gradients, b.surrogate.backwards);
    assert_true(s->def->surrogate || s->def->inside || !b.surrogate.backwards);
    b.o.surrogate = NULL;
    assert_int_equal(bench_run(&b, s, false), s->def->white_box || s->def->surrogate ? VT_E_FORBIDDEN : VT_OK);
    assert_int_equal(p.backwards, 0);
    bench_close(&b);
    planted_free(&p);
}

static void test_black_box(void **state) {
    (void)state;
    each_stage(without_gradients, NULL, true);
}

/* The flag is raised inside the k-th forward: there is no further one. NaN or infinity among the logits ends
 * the image at the very call. */
static void faults(const vt_attack_stage *s, vt_norm norm, void *arg) {
    (void)arg;
    static const float poisons[] = {NAN, INFINITY, -INFINITY};
    planted p;
    assert_true(planted_mlp(&p, 10, 6, 6, 5));
    bench b;
    bench_open(&b, &p, 1, true);
    bench_ball(&b, norm, 0.001);
    assert_int_equal(bench_run(&b, s, true), VT_OK);
    int64_t all = p.forwards;
    for (int64_t k = 1; k < all && k < 10; k += 2) {
        p.flag_after = k;
        assert_int_equal(bench_run(&b, s, true), VT_INTERRUPTED);
        assert_int_equal(p.forwards, k);
        p.flag_after = 0, p.poison_after = k, p.poison = poisons[k / 2 % 3];
        assert_int_equal(bench_run(&b, s, true), VT_E_NUMERIC);
        assert_int_equal(p.forwards, k + 1);
        p.poison_after = 0;
    }
    bench_close(&b);
    planted_free(&p);
}

static void test_faults(void **state) {
    (void)state;
    each_stage(faults, NULL, true);
}

/* A model that fails (a device, another process) ends the attack at that call with VT_E_MODEL and its own sentence,
 * whichever of its three answers it was. */
static void failures(const vt_attack_stage *s, vt_norm norm, void *arg) {
    int *seen = arg;
    planted p;
    assert_true(planted_mlp(&p, 10, 6, 6, 5));
    bench b;
    bench_open(&b, &p, 1, true);
    bench_ball(&b, norm, 0.001);
    assert_int_equal(bench_run(&b, s, true), VT_OK);
    int64_t all = p.forwards;
    for (int64_t k = 1; k < all && k < 10; k += 2) {
        p.fail_after = k;
        assert_int_equal(bench_run(&b, s, true), VT_E_MODEL);
        assert_int_equal(p.forwards, k);
        assert_non_null(strstr(vt_attacker_why(&b.o, VT_E_MODEL), "is one too many"));
        p.fail_after = 0;
    }
    bool pulls = p.backwards + b.surrogate.backwards > 0; /* of the model or of its surrogate */
    p.fail_backward = true;
    assert_int_equal(bench_run(&b, s, true), pulls ? VT_E_MODEL : VT_OK);
    assert_true(!pulls || strstr(vt_attacker_why(&b.o, VT_E_MODEL), "no gradient here"));
    p.fail_backward = false, p.fail64 = true;
    bench_ball(&b, norm, norm == VT_LINF ? 0.5 : norm == VT_L2 ? 4 : 30);
    b.o.mode = VT_ORACLE_SEARCH;
    vt_status st = bench_run(&b, s, true); /* not OK with a found point that nothing confirmed */
    assert_true(st == VT_E_MODEL ? p.forwards64 == 1 : st == VT_OK && !b.o.has_found && !p.forwards64);
    if (st == VT_E_MODEL) assert_non_null(strstr(vt_attacker_why(&b.o, st), "no double here"));
    seen[0] += pulls, seen[1] += st == VT_E_MODEL;
    bench_close(&b);
    planted_free(&p);
}

static void test_failures(void **state) {
    int seen[2] = {0};
    (void)state;
    each_stage(failures, seen, true);
    assert_true(seen[0] > 20 && seen[1] > 40);
}

/* Every attack breaks an easy image of 2, 3 and 4 classes, where DLR has no denominator or a shorter one, and
 * there are fewer classes than targets. FGSM is not asked to succeed on more than two. */
static void few_classes(const vt_attack_stage *s, vt_norm norm, void *arg) {
    (void)arg;
    if (is_slow(s, norm)) return;
    for (int classes = 2; classes <= 4; classes++) {
        planted p;
        assert_true(planted_linear(&p, classes, 6, 6, 40 + (uint64_t)classes));
        bench b;
        bench_open(&b, &p, 2, true);
        bench_ball(&b, norm, norm == VT_LINF ? 0.2 : norm == VT_L2 ? 3 : 20);
        for (int exhaustive = 0; exhaustive < 2; exhaustive++) {
            b.o.mode = exhaustive ? VT_ORACLE_EXHAUSTIVE : VT_ORACLE_SEARCH;
            vt_status st = bench_run(&b, s, true);
            if (st != (exhaustive ? VT_OK : VT_STOP))
                fail_msg("%s did not break %d classes in %s", s->id, classes, vt_norm_name(norm));
            if (!b.o.has_found) fail_msg("%s did not break %d classes in %s", s->id, classes, vt_norm_name(norm));
            assert_found(&b, st);
        }
        bench_close(&b);
        planted_free(&p);
    }
}

static void test_few_classes(void **state) {
    (void)state;
    each_stage(few_classes, NULL, false);
}

/* ---- a class of one's choice ---- */

enum { AIMS = 5 };

/* In a ball that holds points of every class each attack that says it can reaches each class but the label, and what
 * ends an image is of that class. FGSM's one step is not asked to. */
static void aims(const vt_attack_stage *s, vt_norm norm, void *arg) {
    int *reached = arg;
    if ((s->def->traits & VT_CANNOT_AIM) || !strcmp(s->def->name, "fgsm") || is_slow(s, norm)) return;
    for (int exhaustive = 0; exhaustive < 2; exhaustive++)
        for (int goal = 0; goal < AIMS; goal++) {
            planted p;
            bench b;
            assert_true(planted_linear(&p, AIMS, 6, 6, 77));
            bench_open(&b, &p, 2, true);
            bench_ball(&b, norm, norm == VT_LINF ? 0.45 : norm == VT_L2 ? 6 : norm == VT_L1 ? 50 : 80);
            b.o.mode = exhaustive ? VT_ORACLE_EXHAUSTIVE : VT_ORACLE_SEARCH;
            b.goal = &goal;
            if (goal != b.label) {
                vt_status st = bench_run(&b, s, true);
                if (st != (exhaustive ? VT_OK : VT_STOP) || !b.o.has_found)
                    fail_msg("%s did not reach class %d in %s", s->id, goal, vt_norm_name(norm));
                assert_int_equal(predicted(&p, b.o.found), goal);
                assert_found(&b, st);
                reached[norm]++;
            }
            bench_close(&b);
            planted_free(&p);
        }
}

static void test_aims(void **state) {
    int reached[VT_NORM_COUNT] = {0};
    (void)state;
    each_stage(aims, reached, false);
    for (vt_norm norm = VT_LINF; norm < VT_NORM_COUNT; norm++) assert_true(reached[norm] >= 4 * (AIMS - 1));
}

/* Another class does not end an image, is not kept and is not confirmed: the goal here is out of reach. */
static void keeps_on(const vt_attack_stage *s, vt_norm norm, void *arg) {
    static const int goal = 3;
    (void)arg;
    if (s->def->traits & VT_CANNOT_AIM) return;
    for (vt_oracle_mode mode = VT_ORACLE_SEARCH; mode <= VT_ORACLE_MIN_DISTANCE; mode++) {
        planted p;
        bench b;
        assert_true(planted_linear(&p, AIMS, 6, 6, 77));
        p.b[goal] -= 1e3;
        bench_open(&b, &p, 2, true);
        assert_true(b.label != goal);
        bench_ball(&b, norm, norm == VT_LINF ? 0.45 : norm == VT_L2 ? 6 : norm == VT_L1 ? 50 : 80);
        b.o.mode = mode, b.goal = &goal;
        assert_int_equal(bench_run(&b, s, true), VT_OK);
        if (b.o.has_found || p.forwards64) fail_msg("%s ends beside its goal in %s", s->id, vt_norm_name(norm));
        bench_close(&b);
        planted_free(&p);
    }
}

static void test_keeps_on(void **state) {
    (void)state;
    each_stage(keeps_on, NULL, false);
}

/* ---- what an attack costs ---- */

/* Right by a margin of `gap` in the whole box, with gradients that are small and nowhere zero: nothing ends early. */
static void robust(planted *p, int classes, double gap) {
    assert_true(planted_linear(p, classes, 6, 6, 5));
    for (size_t i = 0; i < (size_t)classes * p->n; i++) p->w[i] *= 1e-4;
    p->b[0] += gap;
}

/* What a run to the end asks for is what the definition says, to the call: judged, and without a judge (training),
 * where logits that nobody reads are not computed. less: the attack ends early by a rule of its own. */
static void counted_towards(const vt_attack_stage *s, vt_norm norm, int classes, double gap, bool less,
                            const int *goal) {
    planted p;
    bench b;
    robust(&p, classes, gap);
    bench_open(&b, &p, 1, true);
    bench_ball(&b, norm, norm == VT_L0 ? 3 : 0.1);
    vt_attack whole = {.stages = (vt_attack_stage *)(uintptr_t)s, .n_stages = 1};
    vt_cost_dims d = {.classes = classes, .layers = p.c.tokens.layers, .norm = norm, .aimed = goal != NULL};
    vt_passes c = vt_attack_cost(&whole, &d);
    b.goal = goal;
    assert_true(c.unread >= 0 && c.unread <= c.forwards);
    for (int judged = 0; judged < 2; judged++) {
        b.o.mode = judged ? VT_ORACLE_EXHAUSTIVE : VT_ORACLE_NO_VERDICT;
        assert_int_equal(bench_run(&b, s, true), VT_OK);
        assert_false(b.o.has_found);
        double f = s->share * (double)b.o.forwards, g = s->share * (double)b.o.gradients;
        double want = c.forwards - (judged ? 0 : c.unread);
        if (less ? f > want || g > c.gradients : fabs(f - want) > 1e-9 * want || fabs(g - c.gradients) > 1e-9 * g)
            fail_msg("%s, %d classes, %s: %g forwards and %g gradients, cost says %g and %g", s->id, classes,
                     vt_norm_name(norm), f, g, want, c.gradients);
    }
    bench_close(&b);
    planted_free(&p);
}

static void counted(const vt_attack_stage *s, vt_norm norm, int classes, double gap, bool less) {
    static const int goal = 1;
    counted_towards(s, norm, classes, gap, less, NULL);
    if (s->def->traits & VT_CANNOT_AIM) return;
    counted_towards(s, norm, classes, gap, less, &goal);
}

static void default_cost(const vt_attack_stage *s, vt_norm norm, void *arg) {
    (void)arg;
    bool full = strstr(s->id, "steps=100") || strstr(s->id, "steps=200") || strstr(s->id, "queries=5000");
    for (int classes = 2; classes <= 10; classes += full ? 8 : 4)
        counted(s, norm, classes, 5, (s->def->traits & VT_ENDS_ITSELF) != 0);
}

static void test_costs(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        double gap;
        bool less;
    } rows[] = {
        {"apgd-ce:steps=1", 5, false},
        {"apgd-ce:steps=2,eot=3", 5, false},
        {"apgd-dlr:steps=3,eot=2,restarts=3", 5, false},
        {"apgd-ce:steps=7,large_eps=0", 5, false},
        {"apgd-t:steps=3,targets=2,restarts=2,eot=2", 5, false},
        {"apgd-t:steps=3,targets=30,choose=malt", 5, false},
        {"mt-pgd:steps=3,targets=2,restarts=3,choose=malt", 5, false},
        {"fab:steps=3,restarts=3", 5, false},
        {"fab-t:steps=3,targets=2,restarts=3", 5, false},
        {"pgd:steps=5,restarts=3,loss=margin,kappa=0", 5, false},
        {"pgd-specformer:steps=5,loss=cw", 5, false},
        {"pgd-specformer:steps=5,loss=cw", 20, true}, /* right by more than 10: no gradient, no step */
        {"deepfool:steps=4,candidates=3", 5, false},
        {"deepfool:steps=4,candidates=0", 5, false},
        {"cw-l2:steps=30,search=3,abort_early=0", 5, false},
        {"cw-l2:steps=30,search=3,lr=1e-9", 5, true},
        {"transfer:steps=4,restarts=2,ask=last", 5, false},
        {"attention-pgd:steps=4,key=1,restarts=2", 5, false},
        {"pma:steps=5,restarts=2", 5, false},
        {"pgd:steps=8,share=0.25", 5, false},
        {"square:queries=20,restarts=3,share=0.1", 5, false},
    };
    int n;
    const vt_attack_def *const *defs = vt_attack_defs(&n);
    for (int i = 0; i < n; i++) assert_true(!defs[i]->run == !defs[i]->cost);
    each_stage(default_cost, NULL, true);
    for (size_t i = 0; i < COUNT(rows); i++)
        for (vt_norm norm = VT_LINF; norm < VT_NORM_COUNT; norm++) {
            vt_attack a;
            if (vt_attack_parse(&a, rows[i].spec, norm, NULL) != VT_OK) continue; /* not in this norm */
            counted(&a.stages[0], norm, 10, rows[i].gap, rows[i].less);
            vt_attack_free(&a);
        }
}

/* By hand: AutoAttack's stages on ten classes, and a profile's, of which some are run on a tenth alone. */
static void test_whole_costs(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        double forwards, gradients;
        bool aimed;
    } rows[] = {
        {"autoattack", 1 + (1 + 100) + 5001, 101 + 101 + 100, true},
        {"mt-pgd:choose=malt+fab:restarts=2", 1 + 2 + 200, 2 * 100 + 200, true},
        {"autoattack", 1 + (1 + 900) + 5001, 101 + 9 * 101 + 900, false},
        {"autoattack-rand", 0, 2 * 20 * 101, false},
        {"quick", 1 + 1 + 1 + 0.1 * (1 + 901 + 5001), 10 + 10 + 101 + (9 + 3 * 101) + 0.1 * (9 * 101 + 900), false},
        {"fgsm+square:queries=10", 1 + 11, 1, false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        vt_attack a;
        assert_int_equal(vt_attack_parse(&a, rows[i].spec, VT_LINF, NULL), VT_OK);
        vt_passes c =
            vt_attack_cost(&a, &(vt_cost_dims){.classes = 10, .layers = 12, .norm = VT_LINF, .aimed = rows[i].aimed});
        assert_true(fabs(c.forwards - rows[i].forwards) <= 1e-9 * rows[i].forwards);
        assert_true(fabs(c.gradients - rows[i].gradients) <= 1e-9 * rows[i].gradients);
        vt_attack_free(&a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_attack), cmocka_unit_test(test_zero_eps),    cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_black_box),    cmocka_unit_test(test_faults),      cmocka_unit_test(test_failures),
        cmocka_unit_test(test_few_classes),  cmocka_unit_test(test_aims),        cmocka_unit_test(test_keeps_on),
        cmocka_unit_test(test_costs),        cmocka_unit_test(test_whole_costs),
    };
    return cmocka_run_group_tests_name("attacks", tests, NULL, NULL);
}
