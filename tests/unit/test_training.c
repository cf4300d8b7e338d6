/* The training loop as a whole, on drawn images and a tiny ViT: what a run's bytes depend on (recipe, data) and what
 * not (threads, interruptions), its guard rails, and what it says it will take. */
#include "recipe_bench.h"

#include <sys/file.h>
#include <unistd.h>
#include "core/threads.h"
#include "eval/files.h"
#include "core/svd.h"
#include "io/draw.h"
#include "io/image.h"
#include "io/safetensors.h"
#include "models/roles.h"
#include "models/session.h"
#include "train/msvp.h"
#include "train/train.h"
#include "train/watch.h"

static char root[] = "/tmp/vitrine-training-XXXXXX";

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

static const char *in(const char *name) {
    static char path[4][200];
    static int k;
    k = (k + 1) % 4;
    snprintf(path[k], sizeof path[k], "%s/%s", root, name);
    return path[k];
}

static int setup(void **state) {
    (void)state;
    vt_err e = {0};
    if (!mkdtemp(root)) return 1;
    return vt_draw_write(in("data"), 40, 20, 5, &e) != VT_OK;
}

static int teardown(void **state) {
    (void)state;
    char line[100];
    snprintf(line, sizeof line, "rm -rf %s", root);
    return system(line);
}

typedef struct spoken {
    char text[4000];
} spoken;

static void listen(void *ctx, const char *text, bool live) {
    (void)live;
    spoken *s = ctx;
    size_t n = strlen(s->text);
    snprintf(s->text + n, sizeof s->text - n, "%s\n", text);
}

typedef struct options {
    int threads;
    int64_t max_steps;
    bool resume;
    spoken *heard;
    const vt_model *init;
} options;

static vt_status train(const char *text, const char *set, const char *out, options o, vt_err *e) {
    vt_recipe *r = of_set(text, set);
    vt_dataset *data, *test;
    vt_model *m;
    assert_int_equal(vt_dataset_open(&data, in("data"), VT_SPLIT_TRAIN, e), VT_OK);
    assert_int_equal(vt_dataset_open(&test, in("data"), VT_SPLIT_TEST, e), VT_OK);
    assert_int_equal(vt_train_model(&m, r, data, o.init, e), VT_OK);
    vt_train t = {.recipe = r,
                  .model = m,
                  .data = data,
                  .watch_data = r->probe.images ? test : NULL,
                  .out = out,
                  .threads = o.threads ? o.threads : 1,
                  .max_steps = o.max_steps,
                  .resume = o.resume,
                  .say = o.heard ? listen : NULL,
                  .say_ctx = o.heard};
    vt_status s = vt_train_run(&t, e);
    vt_model_close(m);
    vt_dataset_close(data), vt_dataset_close(test);
    vt_recipe_free(r);
    return s;
}

static void check_train(const char *text, const char *out, options o) {
    vt_err e = {0};
    if (train(text, NULL, out, o, &e) != VT_OK) fail_msg("%s", e.text);
}

static void same_file(const char *a, const char *b, const char *name) {
    char p[300], q[300], *x, *y;
    size_t n, k;
    vt_err e = {0};
    snprintf(p, sizeof p, "%s/%s", a, name), snprintf(q, sizeof q, "%s/%s", b, name);
    if (vt_read_file(p, &x, &n, &e) != VT_OK || vt_read_file(q, &y, &k, &e) != VT_OK) fail_msg("%s", e.text);
    if (n != k || memcmp(x, y, n)) fail_msg("%s and %s differ", p, q);
    free(x), free(y);
}

static void same_run(const char *a, const char *b) {
    same_file(a, b, "model.safetensors");
    same_file(a, b, "state.safetensors");
}

static int lines(const char *dir, const char *with) {
    char path[300], *text, *at;
    size_t n;
    int count = 0;
    vt_err e = {0};
    snprintf(path, sizeof path, "%s/log.jsonl", dir);
    assert_int_equal(vt_read_file(path, &text, &n, &e), VT_OK);
    for (at = text; (at = strstr(at, with)); at++) count++;
    free(text);
    return count;
}

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
    vt_recipe *r = of_set(text, "epochs=30");
    vt_st *st;
    vt_model *m;
    double sigma[PARTS];
    assert_int_equal(train(text, "epochs=30", in("sigma"), (options){0}, &e), VT_OK);
    assert_int_equal(vt_model_open(&m, in("sigma/model.safetensors"), NULL, &e), VT_OK);
    assert_int_equal(vt_st_open(&st, in("sigma/state.safetensors"), &e), VT_OK);
    const vt_tensor *t = vt_st_find(st, "penalty.msvp");
    assert_non_null(t);
    float *uv = malloc(t->numel * sizeof *uv);
    assert_int_equal(vt_tensor_f32(st, t, uv, t->numel, &e), VT_OK);
    assert_int_equal(vt_msvp_sigmas_f32(sigma, PARTS, uv, m->w, m, vt_recipe_penalty(r, "msvp")), PARTS);
    for (int i = 0; i < PARTS; i++) {
        vt_matrix w;
        double a[ROWS * WIDTH], u[ROWS], v[WIDTH], top;
        assert_true(vt_model_matrix(m, i / 6, (vt_role)(VT_ROLE_Q + i / 2 % 3), &w));
        for (int k = 0; k < ROWS * WIDTH; k++) a[k] = (double)m->w[w.offset + (size_t)(i % 2 * ROWS * WIDTH + k)];
        assert_int_equal(vt_svd_largest(&top, u, v, a, ROWS, WIDTH, WIDTH, &e), VT_OK);
        t_le(sigma[i], top * (1 + 32 * 0x1p-24), "part %d: estimate above sigma", i);
        t_le(0.99 * top, sigma[i], "part %d: estimate not within 1 %%", i);
    }
    free(uv);
    vt_st_close(st);
    vt_model_close(m);
    vt_recipe_free(r);
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

static void number_is(const char *dir, const char *key, double want) {
    char path[300];
    vt_st *st;
    vt_err e = {0};
    snprintf(path, sizeof path, "%s/state.safetensors", dir);
    assert_int_equal(vt_st_open(&st, path, &e), VT_OK);
    assert_non_null(vt_st_meta(st, key));
    double got = strtod(vt_st_meta(st, key), NULL);
    if (got != want) fail_msg("%s of %s is %g, not %g", key, dir, got, want);
    vt_st_close(st);
}

/* The weights of a run's checkpoints give finite logits. */
static void check_usable(const char *run) {
    static const char *const names[] = {"model", "state"};
    enum { PIXELS = 3 * 32 * 32 };
    static float x[PIXELS];
    vt_err e = {0};
    vt_model *m;
    vt_st *st;
    char path[300];
    for (int i = 0; i < PIXELS; i++) x[i] = (float)(i % 7) / 7;
    snprintf(path, sizeof path, "%s/%s.safetensors", in(run), names[0]);
    if (vt_model_open(&m, path, NULL, &e) != VT_OK) fail_msg("%s", e.text); /* NaN and Inf are refused at the door */
    snprintf(path, sizeof path, "%s/%s.safetensors", in(run), names[1]);
    if (vt_st_open(&st, path, &e) != VT_OK) fail_msg("%s", e.text);
    for (size_t f = 0; f < T_COUNT(names); f++) {
        if (f == 1) /* the weights of the state are those that --resume goes on with */
            for (int i = 0; i < m->params.count; i++) {
                const vt_param *p = &m->params.items[i];
                char name[200];
                snprintf(name, sizeof name, "weight.%s", p->name);
                const vt_tensor *t = vt_st_find(st, name);
                assert_non_null(t);
                assert_int_equal(vt_tensor_f32(st, t, m->w + p->offset, p->numel, &e), VT_OK);
            }
        vt_model_refresh(m);
        vt_session_f32 *s;
        assert_int_equal(vt_session_open_f32(&s, m, 1, VT_GRAD_INPUT, &e), VT_OK);
        const float *z = vt_session_forward_f32(s, x, 1, false);
        for (int k = 0; k < m->config.classes; k++)
            if (!isfinite(z[k])) fail_msg("%s/%s.safetensors: logit %d is %g", run, names[f], k, (double)z[k]);
        vt_session_close_f32(s);
    }
    vt_st_close(st);
    vt_model_close(m);
}

/* Weight decay that multiplies the weights by -10^4 a step leaves float's range: steps are left out with halved rates,
 * named by their images, then the run ends with a sentence; the checkpoint on disk is whole and finite. */
static void test_guard_rails(void **state) {
    (void)state;
    static spoken heard;
    vt_err e = {0};
    const char *wild =
        "epochs: 40\nbatch: 16\nmicro_batch: 4\noptimiser: sgd\nclip: 0\nlr: 1000\nweight_decay: 10\n"
        "augment: {mix_prob: 0}\nschedule: {kind: constant}\nmodel: {patch: 8, dim: 16, depth: 2, heads: 2, "
        "hidden: 24, mean: 0.5, std: 0.25}\nprobe: {images: 0}\nsgd: {momentum: 0}\n";
    options o = {.heard = &heard};
    t_says(train(wild, NULL, in("wild"), o, &e), VT_E_NUMERIC, &e, "4th time", "last good checkpoint");
    assert_non_null(strstr(heard.text, "images "));
    assert_int_equal(lines(in("wild"), "\"not finite\""), 4);
    check_usable("wild");
    /* a checkpoint after every step: none that the next forward pass finds unusable */
    heard.text[0] = 0;
    t_says(train(wild, "batch=40", in("wilder"), o, &e), VT_E_NUMERIC, &e, "4th time", "last good checkpoint");
    check_usable("wilder");
    /* the last step is left out, or leaves weights that no forward pass can use: no success; else the last step is kept
     */
    int ended = 0;
    for (int steps = 1; steps <= 8; steps++) {
        char text[800], run[20];
        snprintf(text, sizeof text, "epochs: %d\nbatch: 40\n%s", steps, strstr(wild, "micro_batch"));
        snprintf(run, sizeof run, "short%d", steps);
        vt_status s = train(text, "lr=10", in(run), o, &e);
        if (s != VT_OK) t_says(s, VT_E_NUMERIC, &e, "not finite", "last good checkpoint");
        check_usable(run);
        if (s == VT_OK) number_is(in(run), "step", steps), ended++;
    }
    assert_true(ended > 0 && ended < 8);
}

/* The first steps leave float's range (mirror descent raises lr times a gradient to the 20th power), the rate's drop
 * ends that: the run goes on, with half the rate for each step left out, and finishes; also when it is interrupted. */
#define STUMBLES                                                                                                       \
    "epochs: 3\nbatch: 16\nmicro_batch: 4\noptimiser: sgd\nsgd: {momentum: 0.9}\nlr: 1000\nweight_decay: 0\n"          \
    "attention_optimiser: md\nmd: {p: 1.05}\nattention_lr_scale: 1e4\naugment: {mix_prob: 0}\nclip: 0\n"               \
    "model: {patch: 8, dim: 16, depth: 2, heads: 2, hidden: 24, mean: 0.5, std: 0.25}\nprobe: {images: 0}\n"

static void test_goes_on(void **state) {
    (void)state;
    /* of six steps, those before the share of the drop; and the rate of the fourth: 1000 1e-6 / 2^faults */
    static const char *const drops[] = {"{kind: step, factor: 1e-6, drops: '0.1'}",
                                        "{kind: step, factor: 1e-6, drops: '0.3'}"};
    for (int faults = 1; faults <= 2; faults++) {
        static spoken heard;
        char text[800], rate[60], whole[20], part[20];
        snprintf(text, sizeof text, "%sschedule: %s\n", STUMBLES, drops[faults - 1]);
        snprintf(rate, sizeof rate, "\"lr\":%s", faults == 1 ? "0.0005" : "0.00025");
        snprintf(whole, sizeof whole, "stumble%d", faults), snprintf(part, sizeof part, "caught%d", faults);
        heard.text[0] = 0;
        check_train(text, in(whole), (options){.heard = &heard});
        assert_non_null(strstr(heard.text, "halved"));
        assert_int_equal(lines(in(whole), "\"not finite\""), faults);
        assert_int_equal(lines(in(whole), "\"epoch_end\""), 3);
        if (lines(in(whole), rate) < 6 - faults) fail_msg("no steps with %s", rate);
        number_is(in(whole), "faults", faults), number_is(in(whole), "lr_scale", faults == 1 ? 0.5 : 0.25);
        number_is(in(whole), "taken", 6 - faults), number_is(in(whole), "step", 6);
        for (int stop = 1; stop < 6; stop++) { /* right after a step left out, too */
            vt_err e = {0};
            options o = {.max_steps = stop};
            char line[200];
            snprintf(line, sizeof line, "rm -rf %s", in(part));
            assert_int_equal(system(line), 0);
            assert_int_equal(train(text, NULL, in(part), o, &e), VT_INTERRUPTED);
            number_is(in(part), "step", stop <= faults ? 0 : stop); /* none after a step that was left out */
            check_train(text, in(part), (options){.resume = true});
            same_run(in(whole), in(part));
            assert_int_equal(lines(in(part), "\"not finite\""), faults);
        }
    }
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

static void test_collapse(void **state) {
    (void)state;
    assert_true(vt_watch_collapsed(0.5, 0.4, 0.1, 0.3, 500));
    assert_false(vt_watch_collapsed(0.5, 0.4, 0.2, 0.3, 500));   /* still above half */
    assert_false(vt_watch_collapsed(0.4, 0.5, 0.1, 0.3, 500));   /* both fall: ordinary trouble */
    assert_false(vt_watch_collapsed(0.5, 0.4, 0.01, 0.04, 500)); /* was never robust */
    assert_false(vt_watch_collapsed(0.5, 0.4, 0.1, 0.3, 20));    /* two images instead of six: chance */
}

/* ---- images that are watched ---- */

/* Watched and other images: both ascending, together every image once. */
static void test_watched_and_others(void **state) {
    (void)state;
    for (int64_t count = 1; count <= 130; count++)
        for (int64_t watched = 1; watched <= count; watched++) {
            int64_t w = 0, o = 0;
            for (int64_t image = 0; image < count; image++)
                if (w < watched && vt_watch_image(w, watched, count) == image)
                    w++;
                else if (o < count - watched && vt_unwatched_image(o, watched, count) == image)
                    o++;
                else
                    fail_msg("image %d of %d (%d watched) is in neither", (int)image, (int)count, (int)watched);
            if (w != watched || o != count - watched) fail_msg("%d of %d", (int)watched, (int)count);
        }
    /* large sets: a gap is count / watched, rounded either way */
    static const int64_t large[][2] = {{1281167, 500}, {1281167, 128116}, {50000, 500}, {INT32_MAX, 1000000}};
    for (size_t i = 0; i < T_COUNT(large); i++) {
        int64_t count = large[i][0], watched = large[i][1], gap = count / watched, last = -1;
        for (int64_t k = 0; k < watched; k++) {
            int64_t at = vt_watch_image(k, watched, count);
            assert_true(at > last && at < count && (!k || at - last == gap || at - last == gap + 1));
            if (at - k > 0)
                assert_true(vt_unwatched_image(at - k - 1, watched, count) < at); /* at - k others before it */
            if (at - k < count - watched) assert_true(vt_unwatched_image(at - k, watched, count) > at);
            last = at;
        }
        assert_true(vt_unwatched_image(count - watched - 1, watched, count) < count);
    }
}

enum { PNG_CLASSES = 4, PNG_EACH = 10, PNG_SIDE = 8, PNG_IMAGES = PNG_CLASSES * PNG_EACH };

/* A folder as people have them, class after class; the images of `changed` (by number in the split) are other ones. */
static void write_pngs(const char *dir, const bool *changed) {
    char path[300], line[400];
    vt_err e = {0};
    uint8_t rgb[3 * PNG_SIDE * PNG_SIDE];
    for (int i = 0; i < PNG_IMAGES; i++) {
        snprintf(path, sizeof path, "%s/train/class%d", dir, i / PNG_EACH);
        snprintf(line, sizeof line, "mkdir -p %s", path);
        assert_int_equal(system(line), 0);
        for (size_t k = 0; k < sizeof rgb; k++)
            rgb[k] = (uint8_t)((size_t)(i / PNG_EACH * 60 + i % PNG_EACH) + k % 5 * (changed[i] ? 9 : 3));
        snprintf(path, sizeof path, "%s/train/class%d/%02d.png", dir, i / PNG_EACH, i % PNG_EACH);
        vt_image im = {.width = PNG_SIDE, .height = PNG_SIDE, .rgb = rgb};
        if (vt_png_write(path, &im, &e) != VT_OK) fail_msg("%s", e.text);
    }
}

static float *weights_after(const char *dir, const char *out, size_t *n) {
    vt_err e = {0};
    vt_dataset *data;
    vt_model *m;
    vt_recipe *r =
        of_set("epochs: 2\nbatch: 36\nmicro_batch: 4\nlr: 0.1\nmodel: {patch: 4, dim: 8, depth: 1, heads: 1, "
               "hidden: 8, mean: 0.5, std: 0.25}\naugment: {crop: 0, mix_prob: 0}\n"
               "probe: {images: 500, split: train}\n",
               NULL);
    if (vt_dataset_open(&data, dir, VT_SPLIT_TRAIN, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(data->count, PNG_IMAGES);
    bool seen[PNG_CLASSES] = {0};
    int64_t watched = vt_watch_count(r, data);
    assert_int_equal(watched, PNG_IMAGES / 10);
    for (int64_t k = 0; k < watched; k++) seen[vt_watch_image(k, watched, data->count) / PNG_EACH] = true;
    for (int c = 0; c < PNG_CLASSES; c++) assert_true(seen[c]);
    if (vt_train_model(&m, r, data, NULL, &e) != VT_OK) fail_msg("%s", e.text);
    vt_train t = {.recipe = r, .model = m, .data = data, .watch_data = data, .out = out, .threads = 1};
    if (vt_train_run(&t, &e) != VT_OK) fail_msg("%s", e.text);
    float *w = malloc(m->params.total * sizeof *w);
    memcpy(w, m->w, m->params.total * sizeof *w);
    *n = m->params.total;
    vt_model_close(m);
    vt_dataset_close(data);
    vt_recipe_free(r);
    return w;
}

/* Watched images of the training split reach no weight; every other image does. */
static void test_watched_are_not_learned(void **state) {
    (void)state;
    bool changed[PNG_IMAGES] = {0};
    size_t n;
    write_pngs(in("pngs"), changed);
    float *w = weights_after(in("pngs"), in("sorted"), &n);
    for (int i = 0; i < PNG_IMAGES; i++) {
        bool watched = false;
        for (int k = 0; k < 4; k++) watched = watched || vt_watch_image(k, 4, PNG_IMAGES) == i;
        if (!watched && i % PNG_EACH > 5) continue; /* enough of them */
        memset(changed, 0, sizeof changed), changed[i] = true;
        char out[20];
        snprintf(out, sizeof out, "sorted%d", i);
        write_pngs(in("pngs"), changed);
        float *v = weights_after(in("pngs"), in(out), &n);
        if (!memcmp(w, v, n * sizeof *w) != watched)
            fail_msg("image %d is %swatched, and the weights %s", i, watched ? "" : "not ",
                     watched ? "depend on it" : "do not depend on it");
        free(v);
    }
    free(w);
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
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_statistics_stay),
        cmocka_unit_test(test_msvp_follows),
        cmocka_unit_test(test_log_is_cut),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_collapse),
        cmocka_unit_test(test_guard_rails),
        cmocka_unit_test(test_commits_in_order),
        cmocka_unit_test(test_goes_on),
        cmocka_unit_test(test_watched_and_others),
        cmocka_unit_test(test_watched_are_not_learned),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
