/* SPDX-License-Identifier: MIT */
/* The oracle's stop rule, and rules of attacks that a run as a whole does not show: on classifiers whose
 * logits are written down here. */
#include "ask.h"
#include "base/real.h"
#include "t.h"

#include "attacks/attacker.h"
#include "attacks/fab.h"

enum { K = 3, N = 12 }; /* 3 channels, 2 x 2 pixels */

/* Linear logits z = w x + b in double; the float ones are off by `noise` in the last class. */
typedef struct toy {
    double w[K][N], b[K];
    float noise;
    float seen[16][N]; /* queries */
    int calls;
    float kept[N];
} toy;

static vt_status toy_logits64(void *self, const float *x, double *z, vt_err *e) {
    const toy *t = self;
    (void)e;
    for (int k = 0; k < K; k++) {
        z[k] = t->b[k];
        for (int i = 0; i < N; i++) z[k] += t->w[k][i] * (double)x[i];
    }
    return VT_OK;
}

static vt_status toy_logits(void *self, const float *x, float *z, bool keep, vt_err *e) {
    toy *t = self;
    double d[K];
    VT_TRY(toy_logits64(self, x, d, e));
    for (int k = 0; k < K; k++) z[k] = (float)d[k] + (k == K - 1 ? t->noise : 0);
    memcpy(t->seen[t->calls++ % 16], x, sizeof t->seen[0]);
    if (keep) memcpy(t->kept, x, sizeof t->kept);
    return VT_OK;
}

static vt_status toy_backward(void *self, const vt_loss *loss, float *value, float *dx, vt_err *e) {
    const toy *t = self;
    double d[K];
    float z[K], dz[K];
    VT_TRY(toy_logits64(self, t->kept, d, e));
    for (int k = 0; k < K; k++) z[k] = (float)d[k];
    *value = vt_loss_eval_f32(dz, loss, z, K);
    for (int i = 0; i < N; i++) {
        double s = 0;
        for (int k = 0; k < K; k++) s += (double)dz[k] * t->w[k][i];
        dx[i] = (float)s;
    }
    return VT_OK;
}

/* A toy behind an oracle; label 0, all pixels 0.5. */
typedef struct scene {
    toy t;
    vt_classifier c;
    vt_oracle o;
    vt_ball ball;
    float x[N], lo[N], hi[N], out[N], work[256];
    vt_task task;
} scene;

static void scene_open(scene *s, vt_norm norm, double eps) {
    memset(s, 0, sizeof *s);
    s->c = (vt_classifier){.classes = K,
                           .pixels = N,
                           .self = &s->t,
                           .logits = toy_logits,
                           .logits64 = toy_logits64,
                           .backward = toy_backward};
    for (int i = 0; i < N; i++) s->x[i] = 0.5f;
    vt_ball_init(&s->ball, norm, eps, s->x, N, s->lo, s->hi);
    vt_err e = {0};
    assert_int_equal(vt_oracle_open(&s->o, &s->c, &e), VT_OK);
    vt_oracle_reset(&s->o, &s->ball, 0, true);
    s->task = (vt_task){.x = s->x,
                        .n = N,
                        .shape = {3, 2, 2},
                        .classes = K,
                        .label = 0,
                        .ball = &s->ball,
                        .rng = {.seed = 9, .image = 4},
                        .x_adv = s->out,
                        .work = s->work};
}

/* Final only in the ball, wrong in both precisions, and by more than four times the float noise of the
 * logits. */
static void test_stop(void **state) {
    (void)state;
    static const struct {
        double margin; /* of class 1 over the label */
        float noise;
        bool outside, exhaustive, stops, found;
    } cases[] = {
        {0.41, 0.1f, false, false, true, true},  {0.39, 0.1f, false, false, false, true},
        {1e-9, 0, false, false, true, true},     {0.41, 0.1f, true, false, false, false},
        {0.41, 0.1f, false, true, false, true},  {-0.5, 0.1f, false, false, false, false},
        {-0.5, 2.0f, false, false, false, true}, /* class 2 wins in float alone */
        {0, 0, false, false, false, false},      /* a tie belongs to the lower index, the label */
    };
    for (size_t i = 0; i < T_COUNT(cases); i++) {
        scene s;
        float x[N];
        scene_open(&s, VT_LINF, 0.1);
        s.t.b[1] = cases[i].margin, s.t.b[2] = -1, s.t.noise = cases[i].noise;
        s.o.mode = cases[i].exhaustive ? VT_ORACLE_EXHAUSTIVE : VT_ORACLE_SEARCH;
        memcpy(x, s.x, sizeof x);
        x[3] = cases[i].outside ? 0.61f : 0.59f;
        vt_status got = vt_oracle_logits(&s.o, x, NULL);
        if (got != (cases[i].stops ? VT_STOP : VT_OK)) fail_msg("case %zu: status %d", i, got);
        assert_int_equal(s.o.has_found, cases[i].found);
        assert_int_equal(vt_oracle_may_end(&s.o, false), cases[i].exhaustive);
        if (cases[i].found) assert_memory_equal(s.o.found, x, sizeof x);
        vt_oracle_close(&s.o);
    }
}

/* F3: where the label leads by so much that cross-entropy has no gradient left, the margin's is given and counted, the
 * surrogate's too; not in training and in papers' evaluators, and not for losses that are flat by themselves. */
static void test_vanished(void **state) {
    (void)state;
    static const struct {
        double lead;
        vt_loss_kind kind;
        bool judging, vanished;
    } cases[] = {
        {31, VT_LOSS_CE, true, false},       {34, VT_LOSS_CE, true, true},     {1000, VT_LOSS_CE, true, true},
        {1000, VT_LOSS_CE, false, false},    {31, VT_LOSS_PM, true, false},    {1e6, VT_LOSS_PM, true, true},
        {1e6, VT_LOSS_PO, true, true},       {-1000, VT_LOSS_CE, true, false}, {-1000, VT_LOSS_PM, true, true},
        {1000, VT_LOSS_MARGIN, true, false}, {1000, VT_LOSS_DLR, true, false},
    };
    for (size_t i = 0; i < T_COUNT(cases); i++) {
        scene s;
        float got[N], want[N], value, margin, z[K];
        scene_open(&s, VT_LINF, 0.1);
        s.o.surrogate = &s.c, s.o.mode = cases[i].judging ? VT_ORACLE_EXHAUSTIVE : VT_ORACLE_NO_VERDICT;
        for (int k = 0; k < N; k++) s.t.w[0][k] = 0.01 * k, s.t.w[1][k] = 0.02 * (k % 3), s.t.w[2][k] = -0.01;
        s.t.b[0] = cases[i].lead, s.t.b[2] = -100;
        vt_loss asked = vt_oracle_loss(&s.o, cases[i].kind), other = vt_oracle_loss(&s.o, VT_LOSS_MARGIN);
        assert_int_equal(vt_oracle_gradient(&s.o, s.x, &asked, z, &value, got), VT_OK);
        assert_int_equal(s.o.vanished, cases[i].vanished);
        assert_int_equal(s.o.gradients, 1);
        ask_logits(&s.c, s.x, z, true);
        ask_backward(&s.c, cases[i].vanished ? &other : &asked, &margin, want);
        assert_memory_equal(got, want, sizeof want);
        assert_true(value == margin);
        assert_int_equal(vt_oracle_surrogate_gradient(&s.o, s.x, &asked, &value, got), VT_OK);
        assert_memory_equal(got, want, sizeof want);
        assert_int_equal(s.o.vanished, 2 * cases[i].vanished);
        vt_oracle_reset(&s.o, &s.ball, 0, true);
        assert_int_equal(s.o.vanished, 0);
        vt_oracle_close(&s.o);
    }
}

/* A gradient beyond float's range keeps its direction: it is asked for again, and counted again. */
static void test_gradient_beyond_float(void **state) {
    (void)state;
    for (int judging = 0; judging < 2; judging++) {
        scene s;
        float got[N], value;
        scene_open(&s, VT_LINF, 0.1);
        memset(s.x, 0, sizeof s.x);
        s.o.mode = judging ? VT_ORACLE_SEARCH : VT_ORACLE_NO_VERDICT, s.t.b[0] = 3, s.t.b[1] = 1, s.t.b[2] = -1;
        for (int k = 0; k < N; k++) s.t.w[0][k] = k % 2 ? 3e38 : -3e38, s.t.w[1][k] = -s.t.w[0][k];
        vt_loss asked = vt_oracle_loss(&s.o, VT_LOSS_MARGIN);
        assert_int_equal(vt_oracle_gradient(&s.o, s.x, &asked, NULL, &value, got), VT_OK);
        assert_true(value == -2);
        assert_int_equal(s.o.gradients, 1 + judging);
        for (int k = 0; k < N; k++) assert_true(isfinite(got[k]) == judging && (got[k] > 0) == (k % 2 == 0));
        vt_oracle_close(&s.o);
    }
}

/* sign(0) = 0: a pixel without gradient does not move. */
static void test_step(void **state) {
    (void)state;
    scene s;
    static const float g[N] = {0, -0.0f, 3, -4, 0, 0, 0, 0, 0, 0, 0, 0};
    float out[N];
    scene_open(&s, VT_LINF, 0.1);
    vt_ball_step(&s.ball, out, g, 0.25);
    for (int i = 0; i < N; i++) assert_true(out[i] == (i == 2 ? 0.25f : i == 3 ? -0.25f : 0));
    vt_oracle_close(&s.o);
    scene_open(&s, VT_L2, 0.1);
    vt_ball_step(&s.ball, out, g, 0.25);
    for (int i = 0; i < N; i++)
        t_le(fabs((double)out[i] - (i == 2 ? 0.15 : i == 3 ? -0.2 : 0)), 1e-7, "l2 step"); /* one float rounding */
    vt_oracle_close(&s.o);
}

/* Restart r of PGD begins at the point that run r of the key gives. */
static void test_pgd_restarts(void **state) {
    (void)state;
    for (int norm = VT_LINF; norm <= VT_L2; norm++) {
        scene s;
        vt_attack a;
        vt_err e = {0};
        scene_open(&s, (vt_norm)norm, 0.1);
        s.t.b[0] = 5; /* never broken */
        assert_int_equal(vt_attack_parse(&a, "pgd:steps=1,restarts=3", (vt_norm)norm, &e), VT_OK);
        assert_int_equal(a.stages[0].def->run(&s.o, a.stages[0].params, &s.task), VT_OK);
        assert_int_equal(s.t.calls, 6); /* a gradient and the last iterate's logits, three times */
        for (uint32_t r = 0; r < 3; r++) {
            vt_rng rng = s.task.rng;
            float start[N];
            rng.run = r;
            vt_ball_start_inside(&s.ball, &rng, start);
            assert_memory_equal(s.t.seen[2 * r], start, sizeof start);
            if (r) assert_memory_not_equal(s.t.seen[2 * r], s.t.seen[0], sizeof start);
        }
        vt_attack_free(&a);
        vt_oracle_close(&s.o);
    }
}

/* FAB on a linear boundary at distance d, far from the faces of the box. Iteration 1: to 1.05 d, back to
 * 0.945 d. Iteration 2: a1 = 0.055 d, a2 = d, alpha = 0.055 / 1.055, below its limit of 0.1, and so (1 -
 * alpha)(0.945 + 1.05 * 0.055) + alpha 1.05 = 1.0052133 d, which is the smallest norm of the two. */
static void test_fab_two_steps(void **state) {
    (void)state;
    for (int norm = VT_LINF; norm <= VT_L2; norm++) {
        scene s;
        double distance, length = 0, sum = 0;
        float best[N];
        scene_open(&s, (vt_norm)norm, 0.4);
        s.o.mode = VT_ORACLE_EXHAUSTIVE;
        for (int i = 0; i < N; i++) {
            s.t.w[1][i] = (i % 3 - 1) * (1 + 0.1 * i);
            sum += s.t.w[1][i] / 2;
            length += norm == VT_LINF ? fabs(s.t.w[1][i]) : s.t.w[1][i] * s.t.w[1][i];
        }
        if (norm == VT_L2) length = sqrt(length);
        s.t.b[1] = -sum - 0.1 * length, s.t.b[2] = -100; /* 0.1 away from the boundary */
        vt_fab_params p = {.steps = 2, .restarts = 1, .targets = 1, .alpha_max = 0.1, .eta = 1.05, .beta = 0.9};
        assert_int_equal(vt_fab_run(&s.o, &p, &s.task, 1, false, &s.task.rng, best, &distance), VT_OK);
        double alpha = 0.055 / 1.055, want = 0.1 * ((1 - alpha) * (0.945 + 1.05 * 0.055) + alpha * 1.05);
        t_le(fabs(distance - want), 2e-6, "FAB after two steps, %s",
             vt_norm_name((vt_norm)norm)); /* pixels are floats near 0.5 */
        vt_oracle_close(&s.o);
    }
}

/* A second toy that searches in the first one's place. */
typedef struct draft_scene {
    scene s;
    toy t;
    vt_classifier c;
} draft_scene;

static void draft_open(draft_scene *s, int64_t calls) {
    scene_open(&s->s, VT_LINF, 0.1);
    memset(&s->t, 0, sizeof s->t);
    s->c = s->s.c;
    s->c.self = &s->t, s->c.logits64 = NULL; /* nobody may ask it for a verdict */
    s->s.t.b[2] = s->t.b[2] = -9;
    s->s.o.draft.classifier = &s->c, s->s.o.draft.calls = calls;
}

/* What the draft takes for misclassified is asked again, and the model's answer counts: it alone ends the
 * image, and is what the attack hears. A forward that was asked again is counted. */
static void test_asked_again(void **state) {
    (void)state;
    static const struct {
        double draft, model; /* margins of class 1 over the label */
        bool outside;
        vt_status status;
        bool found;
        int asked; /* the model */
    } cases[] = {
        {0.4, 0.3, false, VT_STOP, true, 1},  {0.4, -0.3, false, VT_OK, false, 1},
        {-0.4, 0.3, false, VT_OK, false, 0}, /* missed: too high a number, never a wrong one */
        {-0.4, -0.3, false, VT_OK, false, 0}, {0.4, 0.3, true, VT_OK, false, 0},
    };
    for (size_t i = 0; i < T_COUNT(cases); i++)
        for (int gradient = 0; gradient < 2; gradient++) {
            draft_scene c;
            vt_oracle *o = &c.s.o;
            float x[N], z[K], value, dx[N];
            draft_open(&c, 100);
            c.t.b[1] = cases[i].draft, c.s.t.b[1] = cases[i].model;
            memcpy(x, c.s.x, sizeof x);
            x[3] = cases[i].outside ? 0.61f : 0.59f;
            vt_loss ce = vt_oracle_loss(o, VT_LOSS_CE);
            vt_status got = gradient ? vt_oracle_gradient(o, x, &ce, z, &value, dx) : vt_oracle_logits(o, x, z);
            if (got != cases[i].status) fail_msg("case %zu: status %d", i, got);
            assert_int_equal(o->has_found, cases[i].found);
            assert_int_equal(o->draft.asked_again, cases[i].asked);
            assert_int_equal(o->forwards, cases[i].asked + !gradient);
            assert_int_equal(o->gradients, gradient);
            assert_int_equal(c.t.calls, 1);
            assert_int_equal(c.s.t.calls, cases[i].asked);
            assert_true(z[1] == (float)(cases[i].asked ? cases[i].model : cases[i].draft));
            vt_oracle_close(o);
        }
}

/* Gradients are those of whoever was asked, also at a point that was asked again meanwhile. */
static void test_draft_gradient(void **state) {
    (void)state;
    draft_scene c;
    float value, dx[N];
    draft_open(&c, 100);
    for (int i = 0; i < N; i++) c.t.w[1][i] = 3, c.s.t.w[1][i] = 5;
    c.t.b[1] = 1 - 0.5 * N * 3, c.s.t.b[1] = -1 - 0.5 * N * 5;
    vt_oracle *o = &c.s.o;
    vt_loss margin = vt_oracle_loss(o, VT_LOSS_MARGIN);
    assert_int_equal(vt_oracle_logits_first(o, c.s.x, NULL), VT_OK);
    assert_int_equal(o->draft.asked_again, 1);
    assert_int_equal(vt_oracle_gradient(o, c.s.x, &margin, NULL, &value, dx), VT_OK);
    for (int i = 0; i < N; i++) assert_true(dx[i] == 3);
    assert_int_equal(c.t.calls, 1); /* it was kept */
    vt_oracle_close(o);
}

/* After so many calls, those asked again left out, the model itself is asked. */
static void test_finish(void **state) {
    (void)state;
    draft_scene c;
    draft_open(&c, 3);
    c.t.b[1] = 0.1, c.s.t.b[1] = -0.1; /* always asked again */
    for (int i = 0; i < 5; i++) {
        c.s.x[0] = 0.5f + 0.01f * (float)i;
        assert_int_equal(vt_oracle_logits(&c.s.o, c.s.x, NULL), VT_OK);
    }
    assert_int_equal(c.t.calls, 3);
    assert_int_equal(c.s.t.calls, 5);
    assert_int_equal(c.s.o.forwards, 8);
    vt_oracle_reset(&c.s.o, &c.s.ball, 0, true);
    assert_int_equal(c.s.o.draft.calls, 0);
    vt_oracle_close(&c.s.o);
}

/* Where its logits are not finite the model goes on alone, and the image stands. */
static void test_draft_not_finite(void **state) {
    (void)state;
    draft_scene c;
    draft_open(&c, 100);
    c.t.b[1] = NAN, c.s.t.b[1] = -1;
    assert_int_equal(vt_oracle_logits(&c.s.o, c.s.x, NULL), VT_OK);
    assert_false(c.s.o.not_finite);
    assert_int_equal(vt_oracle_logits(&c.s.o, c.s.x, NULL), VT_OK);
    assert_int_equal(c.t.calls, 1);
    assert_int_equal(c.s.t.calls, 2);
    vt_oracle_close(&c.s.o);
}

/* Of a stage's calls the draft answers nineteen twentieths; of a paper's evaluator, where nobody would ask
 * again, none. */
static void test_share(void **state) {
    (void)state;
    for (int judged = 0; judged < 2; judged++) {
        draft_scene c;
        vt_attack a;
        vt_attacker w;
        vt_err e = {0};
        draft_open(&c, 0);
        c.t.b[1] = c.s.t.b[1] = -1;
        assert_int_equal(vt_attack_parse(&a, "square:queries=100", VT_LINF, &e), VT_OK);
        assert_int_equal(vt_attacker_open(&w, c.s.task.shape, vt_attacker_work(&a, &c.s.task), &e), VT_OK);
        const vt_task t = {.clean = c.s.x,
                           .classes = K,
                           .norm = VT_LINF,
                           .eps = 0.1,
                           .mode = judged ? VT_ORACLE_SEARCH : VT_ORACLE_NO_VERDICT};
        assert_int_equal(vt_attacker_run(&w, &c.s.o, &a.stages[0], &t), VT_OK);
        assert_int_equal(c.t.calls, judged ? 95 : 0);
        assert_int_equal(c.s.t.calls, judged ? 6 : 101);
        vt_attacker_close(&w), vt_attack_free(&a), vt_oracle_close(&c.s.o);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stop),         cmocka_unit_test(test_vanished),
        cmocka_unit_test(test_step),         cmocka_unit_test(test_gradient_beyond_float),
        cmocka_unit_test(test_pgd_restarts), cmocka_unit_test(test_fab_two_steps),
        cmocka_unit_test(test_asked_again),  cmocka_unit_test(test_draft_gradient),
        cmocka_unit_test(test_finish),       cmocka_unit_test(test_draft_not_finite),
        cmocka_unit_test(test_share),
    };
    return cmocka_run_group_tests_name("oracle", tests, NULL, NULL);
}
