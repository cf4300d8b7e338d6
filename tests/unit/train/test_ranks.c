/* SPDX-License-Identifier: MIT */
/* Training by several ranks (threads that stand for processes): the same bytes as by one, from a gradient's sum to a
 * whole run, its penalties, its watched images, its resumption by another number; and who is refused. */
#include "threads_team.h"
#include "training_fixture.h"

#include "base/rand.h"
#include "train/penalty.h"
#include "train/batch.h"

/* ---- the sum ---- */

enum { NUMBERS = 101, MICROS = 9 };
static float gradients[MICROS][NUMBERS];

typedef struct sum {
    int micros;
    vt_status s;
    float grad[NUMBERS];
} sum;

static void reduce(vt_team *t, void *ctx) {
    sum *x = ctx;
    vt_reduce r;
    x->s = vt_reduce_open(&r, t, NUMBERS, x->micros, NULL);
    for (int m = t->rank, k = 0; m < x->micros; m += t->size) vt_reduce_put(&r, k++, gradients[m]);
    if (vt_team_agree(t, x->s, NULL) == VT_OK) vt_reduce_sum(&r, x->grad);
    vt_reduce_close(&r);
}

/* Numbers of very different sizes, whose sum in another order has other bits. */
static void test_sum(void **state) {
    (void)state;
    vt_rng rng = {.seed = 4, .purpose = vt_rng_purpose("test")};
    for (int m = 0; m < MICROS; m++) {
        rng.run = (uint32_t)m;
        vt_rng_normals(&rng, gradients[m], NUMBERS);
        for (int i = 0; i < NUMBERS; i++) gradients[m][i] *= exp2f((float)((i * 7 + m * 5) % 23));
    }
    int other_order = 0;
    for (int micros = 1; micros <= MICROS; micros++)
        for (int size = 2; size <= 6; size++) {
            sum x[TT_MOST] = {{0}};
            float want[NUMBERS], back[NUMBERS] = {0};
            memcpy(want, gradients[0], sizeof want);
            for (int m = 1; m < micros; m++)
                for (int i = 0; i < NUMBERS; i++) want[i] += gradients[m][i];
            for (int m = micros - 1; m >= 0; m--)
                for (int i = 0; i < NUMBERS; i++) back[i] += gradients[m][i];
            other_order += memcmp(want, back, sizeof want) != 0;
            for (int k = 0; k < size; k++) x[k].micros = micros;
            tt_run(size, reduce, x, sizeof *x);
            int own = 0;
            for (int k = 0; k < size; k++) {
                assert_int_equal(x[k].s, VT_OK);
                assert_memory_equal(x[k].grad, want, sizeof want);
                own += vt_reduce_own(k, size, micros);
            }
            assert_int_equal(own, micros);
        }
    assert_true(other_order > 30); /* so that a sum in another order would be noticed */
}

/* ---- whole runs ---- */

#define BASE                                                                                                           \
    "epochs: 3\nbatch: 16\nmicro_batch: 3\nlr: 0.01\noptimiser: adamw\nmodel: {patch: 8, dim: 16, depth: 3, heads: "   \
    "2, "                                                                                                              \
    "hidden: 24, mean: 0.5, std: 0.25}\n"
/* all that keeps a state: averages, an attack, a penalty of each kind, watched images */
#define HARD                                                                                                           \
    BASE "objective: at\nema: 0.9\nlabel_smoothing: 0.1\nattack: {eps: 8/255, spec: 'pgd:steps=2,alpha=5/255', ard: "  \
         "1, prm: 1, drop_rate: 0.7}\naugment: {mix_prob: 0.5}\nmsvp: {lambda: 0.01}\northo: {variant: VAR-III, "      \
         "lambda: 0.001}\nprobe: {images: 7, split: test, eps: 2/255}\n"
#define EXACT                                                                                                          \
    BASE "objective: trades\nattack: {eps: 8/255, spec: 'pgd:steps=2,random_start=0'}\naugment: {mix_prob: 0}\nmsvp: " \
         "{lambda: 0.01, method: svd}\n"

typedef struct rank {
    vt_train t;
    vt_recipe *r;
    vt_dataset *data, *test;
    vt_model *m;
    vt_status s;
    vt_err e;
} rank;

static void run(vt_team *t, void *ctx) {
    rank *x = ctx;
    x->t.team = t;
    x->s = vt_train_run(&x->t, &x->e);
    x->s = vt_team_leave(t, x->s, &x->e);
}

typedef struct how {
    int size, threads;
    const char *other; /* a --set of rank 1 alone */
    int64_t max_steps;
    bool resume;
} how;

/* All ranks' folders are `out`; the statuses are equal, and returned with rank 0's sentence. */
static vt_status by_ranks(const char *text, const char *out, how h, vt_err *e) {
    rank x[TT_MOST];
    char folder[300];
    snprintf(folder, sizeof folder, "%s", out);
    for (int k = 0; k < h.size; k++) {
        x[k] = (rank){.r = of_set(text, k == 1 ? h.other : NULL)};
        assert_int_equal(vt_dataset_open(&x[k].data, in("data"), VT_SPLIT_TRAIN, e), VT_OK);
        assert_int_equal(vt_dataset_open(&x[k].test, in("data"), VT_SPLIT_TEST, e), VT_OK);
        assert_int_equal(vt_train_model(&x[k].m, x[k].r, x[k].data, NULL, e), VT_OK);
        x[k].t = (vt_train){.recipe = x[k].r,
                            .model = x[k].m,
                            .data = x[k].data,
                            .watch_data = x[k].r->probe.images ? x[k].test : NULL,
                            .out = folder,
                            .threads = h.threads ? h.threads : 1,
                            .max_steps = h.max_steps,
                            .resume = h.resume};
    }
    tt_run(h.size, run, x, sizeof *x);
    for (int k = 0; k < h.size; k++) {
        assert_int_equal(x[k].s, x[0].s);
        if (x[0].s == VT_OK) assert_memory_equal(x[k].m->w, x[0].m->w, x[0].m->params.total * sizeof(float));
    }
    for (int k = 0; k < h.size; k++) {
        vt_model_close(x[k].m);
        vt_dataset_close(x[k].data), vt_dataset_close(x[k].test);
        vt_recipe_free(x[k].r);
    }
    *e = x[0].e;
    return x[0].s;
}

static void check(const char *text, const char *out, how h) {
    vt_err e = {0};
    if (by_ranks(text, out, h, &e) != VT_OK) fail_msg("%s", e.text);
}

static void test_same_bytes(void **state) {
    (void)state;
    static const char *const recipes[] = {HARD, EXACT};
    for (size_t i = 0; i < T_COUNT(recipes); i++) {
        char alone[20], name[20];
        snprintf(alone, sizeof alone, "alone%zu", i);
        check_train(recipes[i], in(alone), (options){.threads = 2});
        for (int size = 2; size <= 7; size += size == 4 ? 3 : 1) { /* 7: six micro-batches, so one rank has none */
            snprintf(name, sizeof name, "ranks%zu-%d", i, size);
            check(recipes[i], in(name), (how){.size = size, .threads = size % 2 + 1});
            same_run(in(alone), in(name));
            if (!i) same_file(in(alone), in(name), "best.safetensors");
            assert_int_equal(lines(in(name), "{\"step\""), lines(in(alone), "{\"step\""));
        }
    }
}

/* Stopped and gone on with by other numbers of ranks, one of them a process alone. */
static void test_resume(void **state) {
    (void)state;
    vt_err e = {0};
    check_train(HARD, in("whole"), (options){.threads = 1});
    t_says(by_ranks(HARD, in("parts"), (how){.size = 3, .max_steps = 2}, &e), VT_INTERRUPTED, &e, "--resume", "2 of 6");
    t_says(by_ranks(HARD, in("parts"), (how){.size = 2, .max_steps = 1, .resume = true}, &e), VT_INTERRUPTED, &e,
           "--resume", "3 of 6");
    options o = {.resume = true, .max_steps = 1};
    t_says(train(HARD, NULL, in("parts"), o, &e), VT_INTERRUPTED, &e, "--resume", "4 of 6");
    check(HARD, in("parts"), (how){.size = 4, .resume = true});
    same_run(in("whole"), in("parts"));
    same_file(in("whole"), in("parts"), "best.safetensors");
}

/* A rank with another recipe is named before anything is written; a folder that holds a run is refused once, for all.
 */
static void test_refusals(void **state) {
    (void)state;
    vt_err e = {0};
    t_says(by_ranks(HARD, in("none"), (how){.size = 3, .other = "lr=0.02"}, &e), VT_E_USAGE, &e, "rank 1 on ", "lr");
    assert_int_not_equal(access(in("none"), F_OK), 0);
    e = (vt_err){0};
    check_train(HARD, in("there"), (options){.threads = 1, .max_steps = 0});
    t_says(by_ranks(HARD, in("there"), (how){.size = 2}, &e), VT_E_USAGE, &e, "holds a training run already",
           "--resume");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sum), cmocka_unit_test(test_same_bytes),
                                       cmocka_unit_test(test_resume), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, setup, remove_tmp);
}
