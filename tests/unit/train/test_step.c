/* SPDX-License-Identifier: MIT */
/* One step of training, from image numbers to new weights: the gradient of a batch against a double session that is
 * handed the same images one by one, clipping, averaged weights. */
#include "base/real.h"
#include "recipe_fixture.h"

#include "linalg/gemm.h"
#include "tools/draw.h"
#include "models/net/session64.h"
#include "train/batch.h"
#include "train/train.h"
#include "train/update.h"

static char root[] = "/tmp/vitrine-step-XXXXXX";
static vt_dataset *data;

enum { BATCH = 10, SIDE = 32, PIXELS = 3 * SIDE * SIDE, CLASSES = 10, EPOCH = 1, STEP = 3 };

/* SGD without momentum or decay: the change of the weights is the gradient. micro_batch leaves a rest of two. */
#define BASE                                                                                                           \
    "epochs: 1\nbatch: 10\nmicro_batch: 4\nlr: 0.5\nschedule: {kind: constant}\nweight_decay: 0\noptimiser: sgd\n"     \
    "sgd: {momentum: 0}\nmodel: {patch: 8, dim: 16, depth: 2, heads: 2, hidden: 24, mean: 0.5, std: 0.25}\n"           \
    "probe: {images: 0}\n"
#define MIXED BASE "label_smoothing: 0.1\naugment: {mix_prob: 1}\n"
#define PLAIN MIXED "objective: ce\n"
#define ATTACKED MIXED "objective: at\nattack: {eps: 8/255, spec: 'pgd:steps=2,alpha=5/255'}\n"
#define PAIRS                                                                                                          \
    BASE "label_smoothing: 0\naugment: {mix_prob: 0}\nattack: {eps: 8/255, spec: "                                     \
         "'pgd:steps=2,alpha=5/255,random_start=0'}\n"

static const int32_t ids[BATCH] = {7, 3, 19, 0, 11, 5, 2, 39, 8, 30};

static int setup(void **state) {
    (void)state;
    vt_err e = {0};
    vt_blas_single_thread();
    if (!mkdtemp(root) || vt_draw_write(root, 40, 20, 5, &e) != VT_OK) return 1;
    return vt_dataset_open(&data, root, VT_SPLIT_TRAIN, &e) != VT_OK;
}

static int teardown(void **state) {
    (void)state;
    char line[100];
    vt_dataset_close(data);
    snprintf(line, sizeof line, "rm -rf %s", root);
    return system(line);
}

static vt_model *model(vt_recipe *r) {
    vt_model *m;
    vt_err e = {0};
    if (vt_train_model(&m, r, data, NULL, &e) != VT_OK) fail_msg("%s", e.text);
    return m;
}

/* ---- the gradient of a batch ---- */

/* Image `at` of the step as training is said to see it: augmented, mixed with the reversed batch, attacked. */
static void image(float *x, float *clean, float *target, const vt_recipe *r, const vt_model *m, int at) {
    static float partner[PIXELS];
    vt_mix mix = vt_mix_draw(&r->augment, (uint64_t)r->top.seed, STEP, SIDE);
    int y, yr, other = ids[BATCH - 1 - at];
    uint64_t seed = (uint64_t)r->top.seed;
    vt_err e = {0};
    assert_int_equal(vt_augment_image(clean, &y, data, ids[at], SIDE, &r->augment, seed, EPOCH, &e), VT_OK);
    assert_int_equal(vt_augment_image(partner, &yr, data, other, SIDE, &r->augment, seed, EPOCH, &e), VT_OK);
    assert_true((mix.kind != VT_MIX_NONE) == (r->augment.mix_prob > 0));
    if (mix.kind != VT_MIX_NONE) vt_mix_images(clean, partner, &mix, SIDE);
    vt_mix_target(target, y, yr, &mix, r->top.label_smoothing, CLASSES);
    memcpy(x, clean, PIXELS * sizeof *x);
    const vt_objective_def_f32 *o = vt_objective_find_f32(r->top.objective);
    if (o->inner == VT_INNER_NONE) return;
    vt_inner in;
    assert_int_equal(vt_inner_open(&in, m, r->attack.spec, VT_LINF, o->inner, o->start_sigma, &r->attack, seed, &e),
                     VT_OK);
    assert_int_equal(vt_inner_run(&in, x, clean, target, r->attack.eps, ids[at], EPOCH, STEP, 1, NULL), VT_OK);
    vt_inner_close(&in);
}

static int top(const double *z) {
    int k = 0;
    for (int i = 1; i < CLASSES; i++)
        if (z[i] > z[k]) k = i;
    return k;
}

typedef struct judged {
    double *grad, loss, ortho; /* of the mean; sums */
    int right, right_clean;
} judged;

/* The objectives by their definitions, with soft cross entropy for ce and at (there z is the only view). */
static double literal(const char *name, const double *z_clean, const double *z, const double *t) {
    double p[CLASSES], n[CLASSES], sp = 0, sn = 0, ce = 0, kl = 0, rival = 0;
    int y = top(t);
    for (int k = 0; k < CLASSES; k++) sp += exp(z[k]), sn += z_clean ? exp(z_clean[k]) : 0;
    for (int k = 0; k < CLASSES; k++) p[k] = exp(z[k]) / sp, n[k] = z_clean ? exp(z_clean[k]) / sn : 0;
    if (!strcmp(name, "trades") || !strcmp(name, "mart"))
        for (int k = 0; k < CLASSES; k++) kl += n[k] * log(n[k] / p[k]);
    for (int k = 0; k < CLASSES; k++) rival = k != y && p[k] > rival ? p[k] : rival;
    for (int k = 0; k < CLASSES; k++) ce -= t[k] * log(!strcmp(name, "trades") ? n[k] : p[k]);
    if (!strcmp(name, "trades")) return ce + 6 * kl;
    if (!strcmp(name, "mart")) return -log(p[y]) - log(1.0001 - rival) + 6 * (1.0000001 - n[y]) * kl;
    return ce;
}

/* In double, an image and a view at a time, of images that are attacked at m's
 * weights and judged at those of judge_at; the gradient by the logits by
 * central differences (right to 1e-9). */
static judged judge(const vt_recipe *r, const vt_model *m, const vt_model *judge_at, double ortho) {
    judged j = {.grad = calloc(m->params.total, sizeof(double))};
    vt_session_f64 *s;
    vt_err e = {0};
    static float x[PIXELS], clean[PIXELS];
    static double x64[2][PIXELS];
    const vt_objective_def_f32 *o = vt_objective_find_f32(r->top.objective);
    int views = vt_views_f32(o);
    assert_int_equal(vt_session_open_f64(&s, judge_at, 1, VT_GRAD_PARAMS, &e), VT_OK);
    vt_session_f32 *am; /* for L_AM alone, whose gradient test_hooks.c holds in double */
    float *g = calloc(m->params.total, sizeof *g), none[CLASSES] = {0};
    assert_int_equal(vt_session_open_f32(&am, judge_at, 1, VT_GRAD_PARAMS, &e), VT_OK);
    am->ortho = (float)(ortho / (BATCH * views));
    for (int i = 0; i < BATCH; i++) {
        float target[CLASSES];
        double t[CLASSES], z[2][CLASSES], dz[2][CLASSES]; /* 0: what is attacked, 1: clean */
        image(x, clean, target, r, m, i);
        for (int k = 0; k < PIXELS; k++) x64[0][k] = (double)x[k], x64[1][k] = (double)clean[k];
        for (int k = 0; k < CLASSES; k++) t[k] = (double)target[k];
        for (int v = 0; v < views; v++) memcpy(z[v], vt_session_forward_f64(s, x64[v], 1, false), sizeof z[v]);
        const double *other = views > 1 ? z[1] : NULL;
        j.loss += literal(o->name, other, z[0], t);
        for (int v = 0; v < views; v++)
            for (int k = 0; k < CLASSES; k++) {
                double at = z[v][k], up, down;
                z[v][k] = at + 1e-5, up = literal(o->name, other, z[0], t);
                z[v][k] = at - 1e-5, down = literal(o->name, other, z[0], t);
                z[v][k] = at;
                dz[v][k] = (up - down) / 2e-5 / BATCH;
            }
        j.right += top(z[0]) == top(t), j.right_clean += views > 1 && top(z[1]) == top(t);
        for (int v = 0; v < views; v++) {
            vt_session_forward_f64(s, x64[v], 1, true);
            vt_session_backward_f64(s, dz[v], NULL, j.grad);
            vt_session_forward_f32(am, v ? clean : x, 1, true);
            vt_session_backward_f32(am, none, NULL, g);
            j.ortho += am->ortho_value;
        }
    }
    for (size_t i = 0; i < m->params.total; i++) j.grad[i] += (double)g[i];
    vt_session_close_f64(s), vt_session_close_f32(am);
    free(g);
    return j;
}

static void check_gradient(const char *text, const char *set, int threads, double ortho) {
    vt_recipe *r = of_set(text, set);
    vt_model *m = model(r);
    vt_batch b;
    vt_err e = {0};
    if (vt_batch_open(&b, r, m, data, threads, NULL, &e) != VT_OK) fail_msg("%s", e.text);
    judged j = judge(r, m, m, ortho);
    for (int again = 0; again < 2; again++) { /* nothing of a step stays for the next */
        if (vt_batch_gradient(&b, ids, EPOCH, STEP, 1, &e) != VT_OK) fail_msg("%s", e.text);
        bool adv = b.objective->inner != VT_INNER_NONE, both = b.objective->needs_clean && adv;
        for (int i = 0; i < m->params.count; i++) {
            const vt_param *p = &m->params.items[i];
            const double *want = j.grad + p->offset;
            double worst = 0;
            for (size_t k = 0; k < p->numel; k++) {
                double d = fabs((double)b.grad[p->offset + k] - want[k]);
                if (!(d <= worst)) worst = d; /* NaN stays */
            }
            /* a float backward: 1e-4 of the tensor's largest value, as test_golden.c */
            t_le(worst / t_max(want, p->numel), 1e-4, "%s", p->name);
        }
        t_le(fabs(b.sums.loss - j.loss) / j.loss, 1e-5, "loss"); /* float logits of size 1 */
        assert_int_equal(b.sums.images, BATCH);
        assert_int_equal(adv ? b.sums.right_adv : b.sums.right_clean, j.right);
        /* clean accuracy under at: the first micro-batch alone */
        assert_int_equal(b.sums.clean_images, adv && !both ? r->top.micro_batch : BATCH);
        if (both) assert_int_equal(b.sums.right_clean, j.right_clean);
        /* L_AM: the mean over the images that the model sees, each image of a pair one of them */
        if (ortho > 0) {
            double want = ortho * j.ortho / (BATCH * vt_views_f32(b.objective));
            t_le(fabs(b.ortho * b.sums.ortho - want), 1e-5 * want, "L_AM"); /* float probabilities */
        }
    }
    vt_batch_close(&b);
    vt_model_close(m);
    vt_recipe_free(r);
    free(j.grad);
}

static void test_gradient(void **state) {
    (void)state;
    check_gradient(PLAIN, NULL, 1, 0);
    check_gradient(PLAIN, "micro_batch=10", 1, 0);
    check_gradient(ATTACKED, NULL, 2, 0);
    check_gradient(ATTACKED, "micro_batch=1", 1, 0);
}

/* Two views of an image, the clean and the attacked. */
static void test_pairs(void **state) {
    (void)state;
    check_gradient(PAIRS "objective: trades\n", NULL, 2, 0);
    check_gradient(PAIRS "objective: mart\n", NULL, 1, 0);
}

static void test_attention_penalty(void **state) {
    (void)state;
#define AM "ortho: {variant: AM, lambda: 0.125}\n"
    check_gradient(PLAIN AM, NULL, 1, 0.125);
    check_gradient(ATTACKED AM, NULL, 1, 0.125);
    check_gradient(PAIRS AM "objective: trades\n", NULL, 2, 0.125);
    check_gradient(PAIRS AM "objective: mart\n", "micro_batch=10", 1, 0.125);
}

/* ---- adversarial weight perturbation ---- */

static void check_awp(const char *text, int threads) {
    vt_recipe *r = of_set(text, "awp.gamma=0.02");
    vt_model *m = model(r), *up = model(r);
    size_t n = m->params.total;
    vt_batch b;
    vt_update u;
    vt_err e = {0};
    float *kept = malloc(n * sizeof *kept), *wt = malloc(m->params.t_total * sizeof *wt);
    if (vt_batch_open(&b, r, m, data, threads, NULL, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(vt_update_open(&u, m, r, threads, &e), VT_OK);
    judged here = judge(r, m, m, 0);
    int moved = 0;
    for (int i = 0; i < m->params.count; i++) { /* v = gamma ||w|| g / ||g|| of every matrix called weight */
        const vt_param *p = &m->params.items[i];
        double ww = 0, gg = 0;
        bool moves = p->ndim > 1 && strstr(p->name, "weight");
        for (size_t k = p->offset; k < p->offset + p->numel; k++)
            ww += (double)m->w[k] * (double)m->w[k], gg += here.grad[k] * here.grad[k];
        for (size_t k = p->offset; k < p->offset + p->numel; k++)
            if (moves) up->w[k] = (float)((double)m->w[k] + 0.02 * sqrt(ww / gg) * here.grad[k]);
        moved += moves;
    }
    assert_int_equal(moved, 2 + 4 * m->config.depth); /* patches, head; qkv, proj, fc1, fc2 */
    vt_model_refresh(up);
    judged there = judge(r, m, up, 0);
    memcpy(kept, m->w, n * sizeof *kept), memcpy(wt, m->wt, m->params.t_total * sizeof *wt);
    if (vt_batch_gradient(&b, ids, EPOCH, STEP, 1, &e) != VT_OK) fail_msg("%s", e.text);
    vt_step_sums sums = b.sums;
    if (vt_awp_gradient(&b, &u, &e) != VT_OK) fail_msg("%s", e.text);
    assert_memory_equal(kept, m->w, n * sizeof *kept); /* the weights are back, and their transposes */
    assert_memory_equal(wt, m->wt, m->params.t_total * sizeof *wt);
    assert_memory_equal(&sums, &b.sums, sizeof sums);
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        const double *want = there.grad + p->offset;
        double worst = 0, change = 0, top = t_max(want, p->numel);
        for (size_t k = 0; k < p->numel; k++) {
            worst = fmax(worst, fabs((double)b.grad[p->offset + k] - want[k]));
            change = fmax(change, fabs(here.grad[p->offset + k] - want[k]));
        }
        /* 1e-4 as in test_gradient, and as much again of a perturbation that follows a float gradient */
        t_le(worst / top, 2e-4, "%s", p->name);
        t_le(1e-3, change / top, "what the perturbation changes, %s", p->name);
    }
    vt_batch_close(&b), vt_update_close(&u);
    vt_model_close(m), vt_model_close(up);
    vt_recipe_free(r);
    free(here.grad), free(there.grad), free(kept), free(wt);
}

static void test_awp(void **state) {
    (void)state;
    check_awp(ATTACKED, 2);
    check_awp(PLAIN, 1);
    check_awp(PAIRS "objective: trades\n", 1);
    vt_recipe r = {.awp = {.gamma = 0.01, .warmup = 0.25}};
    assert_true(!vt_awp_active(&r, 0.2) && vt_awp_active(&r, 0.25));
    r.awp.gamma = 0;
    assert_false(vt_awp_active(&r, 0.5));
}

/* ---- from the gradient to the weights ---- */

static void test_update(void **state) {
    (void)state;
    vt_recipe *r = of_set(PLAIN, "ema=0.75");
    vt_model *m = model(r);
    vt_update u;
    vt_err e = {0};
    size_t n = m->params.total;
    assert_int_equal(vt_update_open(&u, m, r, 2, &e), VT_OK);
    float *g = malloc(n * sizeof *g), *w = malloc(n * sizeof *w), *kept = malloc(n * sizeof *kept);
    vt_rng_normals(&(vt_rng){.seed = 1}, g, n);
    memcpy(kept, g, n * sizeof *g), memcpy(w, m->w, n * sizeof *w);
    double sum = 0;
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        for (size_t k = p->offset; k < p->offset + p->numel; k++) sum += (double)g[k] * (double)g[k];
    }
    t_le(fabs(vt_update_norm(&u, g) / sqrt(sum) - 1), 1e-13, "norm"); /* both sums in double */
    assert_true(vt_update_step(&u, g, 0.25, 0.5, 1));
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        for (size_t k = p->offset; k < p->offset + p->numel; k++) {
            double want = (double)w[k] - 0.125 * (double)kept[k];
            t_le(fabs((double)m->w[k] - want), 6e-8 * fabs(want), "%s", p->name); /* one rounding */
            double mean = 0.75 * (double)w[k] + 0.25 * (double)m->w[k];
            t_le(fabs((double)u.ema[k] - mean), 1.5e-7 * (fabs((double)w[k]) + fabs(mean)), "averaged %s", p->name);
        }
    }
    /* the transposed copies follow */
    size_t bytes = m->params.t_total * sizeof *m->wt;
    float *wt = malloc(bytes + 1);
    memcpy(wt, m->wt, bytes);
    vt_model_refresh(m);
    assert_memory_equal(wt, m->wt, bytes);
    /* a number that is not finite: all weights stay */
    memcpy(w, m->w, n * sizeof *w), memcpy(g, kept, n * sizeof *g);
    g[m->params.items[m->params.count - 1].offset] = NAN;
    assert_false(vt_update_step(&u, g, 1, 0.5, 2));
    assert_memory_equal(w, m->w, n * sizeof *w);
    vt_update_close(&u);
    vt_model_close(m);
    vt_recipe_free(r);
    free(g), free(w), free(kept), free(wt);
}

/* ---- both together ---- */

/* Norm of the weights' change over one step of a run; w [total], if not NULL: the new weights. */
static double moved(const char *set, float *w) {
    vt_recipe *r = of_set(PLAIN, set);
    vt_model *m = model(r), *start = model(r);
    char out[100], line[120];
    vt_err e = {0};
    snprintf(out, sizeof out, "%s/run", root), snprintf(line, sizeof line, "rm -rf %s", out);
    assert_int_equal(system(line), 0);
    vt_train t = {.recipe = r, .model = m, .data = data, .out = out, .threads = 1, .max_steps = 1};
    assert_int_equal(vt_train_run(&t, &e), VT_INTERRUPTED);
    double sum = 0;
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        for (size_t k = p->offset; k < p->offset + p->numel; k++)
            sum += ((double)m->w[k] - (double)start->w[k]) * ((double)m->w[k] - (double)start->w[k]);
    }
    if (w) memcpy(w, m->w, m->params.total * sizeof *w);
    vt_model_close(m), vt_model_close(start);
    vt_recipe_free(r);
    return sqrt(sum);
}

/* A step is lr min(1, clip / norm) times the gradient. */
static void test_clip(void **state) {
    (void)state;
    vt_recipe *r = of_set(PLAIN, NULL);
    vt_model *m = model(r);
    size_t n = m->params.total;
    float *free_w = calloc(n, sizeof *free_w), *w = calloc(n, sizeof *w);
    double whole = moved("clip=0", free_w), norm = whole / 0.5;
    assert_true(norm > 0.5); /* or the clips below would not bite */
    /* weights of size 0.02 to 1 are rounded at 1e-9 to 6e-8, changes are some 1e-3 each: 1e-4 of the norm at most; the
     * 1e-6 in clip / (norm + 1e-6) is less */
    t_le(fabs(moved("clip=0.5", w) - 0.5 * 0.5), 1e-4 * 0.25, "a clipped step");
    t_le(fabs(moved("clip=0.1", w) - 0.5 * 0.1), 1e-4 * 0.05, "a clipped step");
    char loose[40];
    snprintf(loose, sizeof loose, "clip=%g", 2 * norm);
    moved(loose, w);
    assert_memory_equal(w, free_w, n * sizeof *w);
    free(free_w), free(w);
    vt_model_close(m);
    vt_recipe_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradient), cmocka_unit_test(test_pairs),  cmocka_unit_test(test_attention_penalty),
        cmocka_unit_test(test_awp),      cmocka_unit_test(test_update), cmocka_unit_test(test_clip),
    };
    return cmocka_run_group_tests_name("step", tests, setup, teardown);
}
