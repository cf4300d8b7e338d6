/* SPDX-License-Identifier: MIT */
#include "research/lab/teacher.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/rand.h"
#include "parallel/threads.h"

enum { TEACHER = 0x7EAC }; /* the run that keys a teacher's weights; students count from 0 */

size_t vt_teacher_bytes(const vt_two_layer *net, int train, int test) {
    size_t n = (size_t)train + (size_t)test;
    return sizeof(float) * (n * (size_t)(net->in + net->out) + vt_two_layer_at(net, VT_AT_END));
}

/* a [in]: `relevant` ones among zeros, every place equally likely (the first of a shuffle), keyed by seed and run. */
static vt_status draw_true_mask(float *a, int in, int relevant, uint64_t seed, uint32_t run, vt_err *e) {
    int *order = malloc((size_t)in * sizeof *order);
    if (!order) return vt_fail(e, VT_E_MEMORY, "no memory for a mask of %d inputs", in);
    vt_rng key = {.seed = seed, .purpose = vt_rng_purpose("teacher mask"), .run = run};
    for (int i = 0; i < in; i++) order[i] = i, a[i] = 0;
    for (int i = 0; i < relevant; i++) {
        int j = i + (int)vt_rng_below(&key, (uint64_t)i, (uint32_t)(in - i)), keep = order[i];
        order[i] = order[j], order[j] = keep;
        a[order[i]] = 1;
    }
    free(order);
    return VT_OK;
}

typedef struct drawing {
    vt_teacher *t;
    uint64_t seed;
    uint32_t run;
} drawing;

enum { BLOCK = 1024 }; /* points drawn at once */

/* Work item of vt_for_each: normals x of BLOCK points, each keyed by (seed, run, its index), and their outputs y. */
static vt_status draw_points(void *ctx, int thread, size_t block, vt_err *e) {
    (void)thread;
    const drawing *d = ctx;
    vt_teacher *t = d->t;
    int all = t->train + t->test, from = (int)block * BLOCK, to = from + BLOCK < all ? from + BLOCK : all;
    size_t in = (size_t)t->net.in, out = (size_t)t->net.out;
    vt_rng key = {.seed = d->seed, .purpose = vt_rng_purpose("teacher x"), .run = d->run};
    for (int i = from; i < to; i++) {
        key.image = (uint32_t)i;
        vt_rng_normals(&key, t->x + (size_t)i * in, in);
    }
    return vt_two_layer_outputs(t->y + (size_t)from * out, t->x + (size_t)from * in, to - from, t->theta, &t->net, e);
}

vt_status vt_teacher_open(vt_teacher *out, const vt_two_layer *net, int relevant, double scale, int train, int test,
                          uint32_t run, const vt_lab *lab, vt_err *e) {
    size_t n = (size_t)train + (size_t)test;
    *out = (vt_teacher){.net = *net, .relevant = relevant, .train = train, .test = test};
    out->theta = vt_alloc(vt_two_layer_at(net, VT_AT_END) * sizeof *out->theta);
    out->x = vt_alloc(n * (size_t)net->in * sizeof *out->x);
    out->y = vt_alloc(n * (size_t)net->out * sizeof *out->y);
    vt_status s = VT_OK;
    if (!out->theta || !out->x || !out->y)
        s = vt_fail(e, VT_E_MEMORY, "no memory for %zu points of %d inputs", n, net->in);
    if (s == VT_OK) {
        vt_two_layer_init_f32(out->theta, net, scale, lab->seed, TEACHER + run);
        if (net->front == VT_FRONT_MASK) s = draw_true_mask(out->theta, net->in, relevant, lab->seed, run, e);
        for (size_t i = 0; i < vt_two_layer_size(net, VT_AT_FRONT) / 3 * 2 && net->front == VT_FRONT_SELF; i++)
            out->theta[i] *= 2; /* W_Q and W_K: scores of deviation 4 instead of 1, else its softmax is nearly flat */
    }
    drawing d = {out, lab->seed, run};
    if (s == VT_OK) s = vt_for_each((n + BLOCK - 1) / BLOCK, lab->threads, draw_points, &d, e);
    if (s != VT_OK) {
        vt_teacher_close(out);
        return s;
    }
    vt_sgd_points p = vt_teacher_test(out);
    for (size_t i = 0; i < (size_t)p.n * (size_t)net->out; i++) out->power += (double)p.y[i] * (double)p.y[i] / p.n;
    return VT_OK;
}

void vt_teacher_close(vt_teacher *t) {
    free(t->theta);
    free(t->x);
    free(t->y);
    *t = (vt_teacher){0};
}

vt_sgd_points vt_teacher_train(const vt_teacher *t, int n) { return (vt_sgd_points){t->x, t->y, n}; }

vt_sgd_points vt_teacher_test(const vt_teacher *t) {
    size_t at = (size_t)t->train;
    return (vt_sgd_points){t->x + at * (size_t)t->net.in, t->y + at * (size_t)t->net.out, t->test};
}

bool vt_teacher_relevant(const vt_teacher *t, int input) {
    return t->net.front != VT_FRONT_MASK || t->theta[input] != 0;
}

/* ---- PGD ---- */

/* d [in]: sets inputs that may not move to zero, then projects into the ball. */
static void project_perturbation(float *d, const vt_robust *r, const vt_teacher *t) {
    double sum = 0;
    for (int i = 0; i < t->net.in; i++) {
        if (r->irrelevant_only && vt_teacher_relevant(t, i)) d[i] = 0;
        if (r->norm == VT_ROBUST_LINF) d[i] = fmaxf((float)-r->eps, fminf((float)r->eps, d[i]));
        sum += (double)d[i] * (double)d[i];
    }
    if (r->norm == VT_ROBUST_LINF || sqrt(sum) <= r->eps) return;
    for (int i = 0; i < t->net.in; i++) d[i] *= (float)(r->eps / sqrt(sum));
}

/* d += step g / |g|, or step sign(g); the norm counts only inputs that may move. */
static void step_along_gradient(float *d, const float *g, double step, const vt_robust *r, const vt_teacher *t) {
    double sum = 0;
    for (int i = 0; i < t->net.in; i++)
        if (!r->irrelevant_only || !vt_teacher_relevant(t, i)) sum += (double)g[i] * (double)g[i];
    if (!(sum > 0)) return;
    for (int i = 0; i < t->net.in; i++)
        d[i] +=
            r->norm == VT_ROBUST_LINF ? (float)(step * ((g[i] > 0) - (g[i] < 0))) : (float)(step / sqrt(sum)) * g[i];
}

typedef struct attack {
    float *d, *x, *g, *f, *work;
} attack;

/* Takes the attack's arrays for r->points points; an arena without base only counts the bytes. */
static void lay_out_buffers(attack *a, const vt_robust *r, const vt_two_layer *net, vt_arena *arena) {
    size_t n = (size_t)r->points, in = (size_t)net->in;
    a->d = vt_arena_take(arena, n * in, sizeof *a->d);
    a->x = vt_arena_take(arena, n * in, sizeof *a->x);
    a->g = vt_arena_take(arena, n * in, sizeof *a->g);
    a->f = vt_arena_take(arena, n * (size_t)net->out, sizeof *a->f);
    a->work = vt_arena_take(arena, vt_two_layer_work_f32(net, r->points, 0), sizeof *a->work);
}

/* Sets a->d and x [points, in]: the attack's perturbations and points. Starts within half of the ball, keyed by (seed,
 * r->run, point); 2.5 eps / steps is PGD's usual step. */
static void run_pgd(attack *a, const vt_robust *r, const vt_teacher *t, const float *theta, const vt_two_layer *net,
                    uint64_t seed) {
    vt_sgd_points p = vt_teacher_test(t);
    size_t in = (size_t)net->in;
    vt_rng key = {.seed = seed, .purpose = vt_rng_purpose("teacher attack"), .run = r->run};
    for (int i = 0; i < r->points; i++) {
        float *d = a->d + (size_t)i * in;
        key.image = (uint32_t)i;
        vt_rng_normals(&key, d, in);
        for (size_t j = 0; j < in; j++) d[j] *= (float)(r->eps / 2 / (r->norm == VT_ROBUST_L2 ? sqrt((double)in) : 1));
        project_perturbation(d, r, t);
    }
    for (int k = 0; k < r->steps; k++) {
        for (size_t j = 0; j < (size_t)r->points * in; j++) a->x[j] = p.x[j] + a->d[j];
        vt_two_layer_loss_f32(NULL, a->g, NULL, a->x, p.y, theta, r->points, net, a->work);
        for (int i = 0; i < r->points; i++) {
            float *d = a->d + (size_t)i * in;
            step_along_gradient(d, a->g + (size_t)i * in, 2.5 * r->eps / r->steps, r, t);
            project_perturbation(d, r, t);
        }
    }
    for (size_t j = 0; j < (size_t)r->points * in; j++) a->x[j] = p.x[j] + a->d[j];
}

vt_status vt_teacher_attack(vt_robust_result *out, const vt_robust *r, const vt_teacher *t, const float *theta,
                            const vt_two_layer *net, const vt_lab *lab, vt_err *e) {
    attack a;
    vt_arena arena = {0};
    lay_out_buffers(&a, r, net, &arena);
    arena = (vt_arena){.base = vt_alloc(arena.used), .size = arena.used};
    if (!arena.base) return vt_fail(e, VT_E_MEMORY, "no memory to attack %d points", r->points);
    lay_out_buffers(&a, r, net, &arena);
    run_pgd(&a, r, t, theta, net, lab->seed);
    vt_sgd_points p = vt_teacher_test(t), moved = {a.x, p.y, r->points};
    p.n = r->points;
    vt_measure before, after;
    vt_status s = vt_two_layer_measure(&before, &p, theta, net, e);
    if (s == VT_OK) s = vt_two_layer_measure(&after, &moved, theta, net, e);
    double all = 0, off = 0;
    for (size_t j = 0; j < (size_t)r->points * (size_t)net->in && s == VT_OK; j++) {
        double d = (double)a.d[j] * (double)a.d[j];
        all += d;
        if (!vt_teacher_relevant(t, (int)(j % (size_t)net->in))) off += d;
    }
    free(arena.base);
    if (s == VT_OK) *out = (vt_robust_result){before.error, after.error, all > 0 ? off / all : 0};
    return s;
}
