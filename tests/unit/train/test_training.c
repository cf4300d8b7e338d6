/* SPDX-License-Identifier: MIT */
/* The training loop as a whole, on drawn images and a tiny ViT: what a run's bytes depend on (recipe, data) and what
 * not (threads, interruptions), what is refused, and what it says it will take. */
#include "training_fixture.h"

#include <sys/file.h>
#include <unistd.h>
#include "linalg/svd.h"
#include "parallel/threads.h"
#include "tensors/tensors.h"
#include "models/arch.h"
#include "models/model.h"

#define BASE                                                                                                           \
    "epochs: 3\nbatch: 16\nmicro_batch: 4\nlr: 0.01\noptimiser: adamw\nmodel: {patch: 8, dim: 16, depth: 2, heads: "   \
    "2, "                                                                                                              \
    "hidden: 24, mean: 0.5, std: 0.25}\n"

#define PLAIN BASE "objective: ce\nprobe: {images: 6, split: test, eps: 2/255}\n"

/* everything that draws random numbers or keeps state */
#define HARD                                                                                                           \
    BASE "objective: at\nema: 0.9\nlabel_smoothing: 0.1\nattack: {eps: 8/255, spec: 'pgd:steps=2,alpha=5/255', ard: "  \
         "1, "                                                                                                         \
         "prm: 1, drop_rate: 0.7}\naugment: {mix_prob: 0.5}\nmsvp: {lambda: 0.01}\nprobe: {images: 6, split: test}\n"

#define TRADES                                                                                                         \
    BASE "objective: trades\nattack: {eps: 8/255, spec: 'pgd:steps=2,alpha=5/255,random_start=0'}\n"                   \
         "augment: {mix_prob: 0}\nattention_optimiser: md\nprobe: {images: 0}\n"

static const char *const recipes[] = {PLAIN, HARD, TRADES};

static void test_threads(void **state) {
    (void)state;
    for (size_t i = 0; i < T_COUNT(recipes); i++) {
        char one[20], two[20];
        snprintf(one, sizeof one, "one%zu", i), snprintf(two, sizeof two, "two%zu", i);
        check_train(recipes[i], in(one), (options){.threads = 1});
        check_train(recipes[i], in(two), (options){.threads = 2});
        same_run(in(one), in(two));
        if (i < 2) same_file(in(one), in(two), "best.safetensors");
        /* 40 images: two steps an epoch (the odd 8 are left out), six in all */
        assert_int_equal(lines(in(one), "{\"step\""), 6);
        assert_int_equal(lines(in(one), "\"epoch_end\""), 3);
    }
}

/* Stopped after every possible step, gone on with: the same files as in one piece. */
static void test_resume(void **state) {
    (void)state;
    check_train(HARD, in("whole"), (options){.threads = 1});
    for (int stop = 1; stop < 6; stop++) {
        char name[20];
        vt_err e = {0};
        snprintf(name, sizeof name, "part%d", stop);
        options o = {.threads = 2, .max_steps = stop};
        t_says(train(HARD, NULL, in(name), o, &e), VT_INTERRUPTED, &e, "--resume", "of 6");
        check_train(HARD, in(name), (options){.resume = true});
        same_run(in("whole"), in(name));
        same_file(in("whole"), in(name), "best.safetensors");
        assert_int_equal(lines(in(name), "{\"step\""), 6);
        assert_int_equal(lines(in(name), "\"epoch_end\""), 3);
        check_train(HARD, in(name), (options){.resume = true}); /* finished: nothing to do, no complaint */
        same_run(in("whole"), in(name));
    }
}

/* BatchNorm's statistics are the same bytes after training as before: in the weights, in their averages, through kills
 * and resumes, with a penalty, weight decay, clipping and steps that are left out. The weights beside them did move. */
#define FROZEN                                                                                                         \
    "epochs: 3\nbatch: 16\nmicro_batch: 4\nlr: 0.01\noptimiser: adamw\nweight_decay: 0.1\nclip: 0.5\nema: 0.9\n"       \
    "objective: at\nattack: {eps: 8/255, spec: 'pgd:steps=2,alpha=5/255', ard: 1, drop_rate: 0.7}\n"                   \
    "msvp: {lambda: 0.01}\ngate: {l2: 0.001}\nprobe: {images: 0}\n"

static vt_model *with_statistics(void) {
    vt_config c = {.arch = "vit", .attn = "dot", .image = 32, .patch = 8, .dim = 16, .depth = 2, .heads = 2};
    vt_err e = {0};
    vt_model *m;
    c.hidden = 24, c.classes = 10, c.qkv_bias = true, c.ln_eps = 1e-5, c.attn_scale = 0.35;
    c.norm = c.final_norm = VT_NORM_BATCH, c.pool = VT_POOL_ALL, c.act = VT_ACT_RELU;
    for (int k = 0; k < 3; k++) c.mean[k] = 0.5, c.std[k] = 0.25;
    if (vt_model_new(&m, &c, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(vt_model_init(m, 2), VT_OK);
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        for (size_t k = 0; p->buffer && k < p->numel; k++) m->w[p->offset + k] = 0.5f + 0.01f * (float)k;
    }
    return m;
}

static void test_statistics_stay(void **state) {
    (void)state;
    vt_model *m = with_statistics(), *out;
    vt_err e = {0};
    check_train(FROZEN, in("bn"), (options){.init = m, .threads = 2});
    char path[300];
    snprintf(path, sizeof path, "%s/model.safetensors", in("bn"));
    if (vt_model_open(&out, path, NULL, &e) != VT_OK) fail_msg("%s", e.text);
    int buffers = 0;
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        bool same = !memcmp(m->w + p->offset, out->w + p->offset, p->numel * sizeof *m->w);
        if (same != p->buffer) fail_msg("%s %s", p->name, same ? "did not move" : "moved");
        buffers += p->buffer;
    }
    assert_int_equal(buffers, 2 * (2 * m->config.depth + 1));
    for (int stop = 1; stop < 6; stop += 2) {
        char name[20];
        snprintf(name, sizeof name, "bn%d", stop);
        options o = {.init = m, .max_steps = stop};
        t_says(train(FROZEN, NULL, in(name), o, &e), VT_INTERRUPTED, &e, "--resume", "of 6");
        check_train(FROZEN, in(name), (options){.init = m, .resume = true});
        same_run(in("bn"), in(name));
    }
    vt_model_close(m), vt_model_close(out);
}

/* One power iteration a step follows the weights while they train: after 60 steps every estimate is within 1 % of the
 * largest singular value by LAPACK, and none is above it (but for float's rounding in sums of 16). */
static void test_msvp_follows(void **state) {
    (void)state;
    enum { PARTS = 2 * 3 * 2, WIDTH = 16, ROWS = 8 };
    vt_err e = {0};
    char text[600];
    snprintf(text, sizeof text, "%smsvp: {lambda: 0.001}\n", PLAIN);
    vt_tensors *st;
    vt_model *m;
    assert_int_equal(train(text, "epochs=30", in("sigma"), (options){0}, &e), VT_OK);
    assert_int_equal(vt_model_open(&m, in("sigma/model.safetensors"), NULL, &e), VT_OK);
    assert_int_equal(vt_tensors_open(&st, in("sigma/state.safetensors"), &e), VT_OK);
    const vt_tensor *t = vt_tensors_find(st, "penalty.msvp");
    assert_non_null(t);
    float *uv = malloc(t->numel * sizeof *uv);
    assert_int_equal(vt_tensor_f32(st, t, uv, t->numel, &e), VT_OK);
    assert_int_equal(t->numel, PARTS * (ROWS + WIDTH));
    for (int i = 0; i < PARTS; i++) {
        const float *left = uv + i * (ROWS + WIDTH), *right = left + ROWS;
        vt_matrix w;
        double a[ROWS * WIDTH], u[ROWS], v[WIDTH], top, sigma = 0;
        assert_true(vt_model_matrix(m, i / 6, (vt_weight_kind)(VT_WEIGHT_Q + i / 2 % 3), &w));
        for (int k = 0; k < ROWS * WIDTH; k++) a[k] = (double)m->w[w.offset + (size_t)(i % 2 * ROWS * WIDTH + k)];
        for (int k = 0; k < ROWS * WIDTH; k++) sigma += (double)left[k / WIDTH] * a[k] * (double)right[k % WIDTH];
        assert_int_equal(vt_svd_largest(&top, u, v, a, ROWS, WIDTH, WIDTH, &e), VT_OK);
        t_le(sigma, top * (1 + 32 * 0x1p-24), "part %d: estimate above sigma", i);
        t_le(0.99 * top, sigma, "part %d: estimate not within 1 %%", i);
    }
    free(uv);
    vt_tensors_close(st);
    vt_model_close(m);
}

/* Lines that a killed run wrote after its last checkpoint, and a last line cut short, are not there twice. */
static void test_log_is_cut(void **state) {
    (void)state;
    vt_err e = {0};
    options o = {.max_steps = 3};
    assert_int_equal(train(PLAIN, NULL, in("cut"), o, &e), VT_INTERRUPTED);
    FILE *f = fopen(in("cut/log.jsonl"), "a");
    fprintf(f, "{\"step\":4,\"loss\":1}\n{\"epoch_end\":2}\n{\"step\":5,\"lo");
    fclose(f);
    check_train(PLAIN, in("cut"), (options){.resume = true});
    assert_int_equal(lines(in("cut"), "{\"step\""), 6);
    assert_int_equal(lines(in("cut"), "\"epoch_end\""), 3);
}

static void test_refusals(void **state) {
    (void)state;
    vt_err e = {0};
    check_train(PLAIN, in("done"), (options){0});
    options again = {0}, resume = {.resume = true};
    t_says(train(PLAIN, NULL, in("done"), again, &e), VT_E_USAGE, &e, "done", "--resume");
    t_says(train(PLAIN, "lr=0.02", in("done"), resume, &e), VT_E_USAGE, &e, "another recipe", "lr (0.01 -> 0.02)");
    t_says(train(PLAIN, "batch=42", in("new"), again, &e), VT_E_USAGE, &e, "batch is 42", "40 images");
    FILE *busy = fopen(in("done/log.jsonl"), "r"); /* another process at work on the folder */
    assert_int_equal(flock(fileno(busy), LOCK_EX), 0);
    t_says(train(PLAIN, NULL, in("done"), resume, &e), VT_E_IO, &e, "done", "another vitrine");
    assert_int_equal(lines(in("done"), "{\"step\""), 6);
    fclose(busy);
    FILE *f = fopen(in("done/state.safetensors"), "r+");
    assert_int_equal(ftruncate(fileno(f), 500), 0);
    fclose(f);
    t_says(train(PLAIN, NULL, in("done"), resume, &e), VT_E_FORMAT, &e, "state.safetensors", "");
}

/* The same item order of commits for any number of threads; a failing item ends the loop. */
static void item_cost(int n) {
    volatile double x = 0;
    for (int i = 0; i < n; i++) x += i;
}

typedef struct trace {
    size_t order[64], n, fail_at;
} trace;

static vt_status work(void *ctx, int thread, size_t item, vt_err *e) {
    (void)thread;
    trace *t = ctx;
    item_cost(item % 3 ? 1000 : 200000);
    return item == t->fail_at ? vt_fail(e, VT_E_IO, "item %zu", item) : VT_OK;
}

static void commit(void *ctx, int thread, size_t item) {
    (void)thread;
    trace *t = ctx;
    t->order[t->n++] = item;
}

static void test_commits_in_order(void **state) {
    (void)state;
    vt_err e = {0};
    for (int threads = 1; threads <= 4; threads++) {
        trace t = {.fail_at = 1000};
        assert_int_equal(vt_for_each_in_order(64, threads, work, commit, &t, &e), VT_OK);
        assert_int_equal(t.n, 64);
        for (size_t i = 0; i < 64; i++) assert_int_equal(t.order[i], i);
        trace f = {.fail_at = 20};
        t_says(vt_for_each_in_order(64, threads, work, commit, &f, &e), VT_E_IO, &e, "item 20", "");
        assert_true(f.n <= 20);
        for (size_t i = 0; i < f.n; i++) assert_int_equal(f.order[i], i);
    }
}

/* A step's work is its three passes for each view, and for each image what the attack asks for: by hand, in forwards
 * and gradients. The logits at the last iterate are read by nobody and not computed; trades looks at the clean image
 * first. */
static void test_work(void **state) {
    (void)state;
    static const struct {
        const char *objective, *spec;
        double forwards, gradients;
    } rows[] = {
        {"at", "pgd:steps=3", 0, 3},
        {"at", "pgd:steps=3,restarts=2", 1, 6},
        {"at", "apgd-ce:steps=5", 0, 6},
        {"at", "apgd-ce:steps=5,eot=2", 0, 12},
        {"at", "mt-pgd:steps=2,targets=3,restarts=1", 1 + 3, 6},
        {"at", "fgsm", 0, 1},
        {"trades", "pgd:steps=3,random_start=0", 1, 3},
    };
    vt_config c;
    const vt_train_images d = {.path = "data", .side = 32, .classes = 10};
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        char text[400];
        double got, forward, gradient;
        vt_err e = {0};
        snprintf(text, sizeof text,
                 "epochs: 1\nbatch: 8\nobjective: %s\nmodel: {preset: vit_cifar_dim192_depth9}\n"
                 "attack: {eps: 8/255, spec: '%s'}\naugment: {mix_prob: 0}\n",
                 rows[i].objective, rows[i].spec);
        vt_recipe *r = of(text, true);
        assert_int_equal(vt_train_config(&c, r, &d, NULL, &e), VT_OK);
        assert_int_equal(vt_train_flops(&got, r, &c, &e), VT_OK);
        vt_arch_find(c.arch)->flops(&c, false, &forward, &gradient);
        int views = strcmp(rows[i].objective, "trades") ? 1 : 2;
        double want = 8 * ((3 * views + rows[i].forwards) * forward + rows[i].gradients * gradient);
        t_le(fabs(got / want - 1), 1e-12, "%s, %s", rows[i].objective, rows[i].spec);
        vt_recipe_free(r);
    }
}

/* Memory follows the micro-batch and the threads, not the batch. */
static size_t measured(const char *set, int threads) {
    vt_err e = {0};
    vt_recipe *r = of_set(HARD, set);
    vt_dataset *data;
    vt_model *m;
    vt_train_plan p;
    assert_int_equal(vt_dataset_open(&data, in("data"), VT_SPLIT_TRAIN, &e), VT_OK);
    assert_int_equal(vt_train_model(&m, r, data, NULL, &e), VT_OK);
    vt_train t = {.recipe = r, .model = m, .data = data, .threads = threads};
    assert_int_equal(vt_train_measure(&p, &t, &e), VT_OK);
    vt_model_close(m);
    vt_dataset_close(data);
    vt_recipe_free(r);
    return p.bytes;
}

static void test_memory(void **state) {
    (void)state;
    size_t base = measured("micro_batch=4", 2);
    assert_int_equal(measured("batch=32", 2), base);
    size_t twice = measured("micro_batch=8", 2), four = measured("micro_batch=16", 1),
           one = measured("micro_batch=4", 1);
    assert_true(twice > base);
    assert_true(base > one && four > one);
    /* activations are linear in the micro-batch: m=8 adds to m=4 (two threads) what m=16 adds to m=4 (one thread), less
     * the difference of 4 images on the one and 12 on the other */
    t_le(fabs((double)(twice - base) / 8 - (double)(four - one) / 12), 1e-3 * (double)(twice - base),
         "bytes of an image");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),      cmocka_unit_test(test_resume),     cmocka_unit_test(test_statistics_stay),
        cmocka_unit_test(test_msvp_follows), cmocka_unit_test(test_log_is_cut), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_memory),       cmocka_unit_test(test_work),       cmocka_unit_test(test_commits_in_order),
    };
    return cmocka_run_group_tests_name("training", tests, setup, remove_tmp);
}
