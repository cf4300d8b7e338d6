/* SPDX-License-Identifier: MIT */
/* lab sample-complexity: how many samples a network with attention needs, and one without. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "linalg/gemm.h"
#include "base/mem.h"
#include "research/lab/sample_complexity.h"

/* UAM, Table 1 (and 2's twin): test loss against the number of samples, with and without attention. Neither the number
 * of relevant inputs, nor batch, teacher's scale, lambda or the start of a can be read in the paper: they are options
 * here, and docs/labs_uam.md says which values were guessed. */

static const vt_opt opts[] = {
    VT_OPT_C("model", vt_complexity, model, "mask: Table 1; self: the twin of Table 2, teacher and student of eq. 3",
             "mask|self", 0),
    VT_OPT_B("full", vt_complexity, full,
             "the paper's sizes, 400,000 steps, 5 runs (hours of one core) instead of the two-minute version", 0),
    VT_OPT_S("sizes", vt_complexity, sizes,
             "training points, as A+B+...; 0: 10000+20000+50000, with full the paper's six", "0"),
    VT_OPT_I("steps", vt_complexity, steps, "SGD steps; 0: 60000, with full 400000", 0, 0, 1e8),
    VT_OPT_I("runs", vt_complexity, runs, "teachers, data and starts to average over; 0: 1, with full 5", 0, 0, 100),
    VT_OPT_I("test", vt_complexity, test, "test points", 5000, 1, 1e6),
    VT_OPT_S("relevant", vt_complexity, relevant,
             "s0, the ones in the teacher's mask, of 256; several, as A+B+...: a sweep, a teacher for each", "32"),
    VT_OPT_R("scale", vt_complexity, scale, "deviation of the teacher's weights, in He's; 0: 2, with self 1", 0, 0,
             100),
    VT_OPT_I("batch", vt_complexity, batch, "points in a step", 32, 1, 10000),
    VT_OPT_R("rate", vt_complexity, rate, "learning rate", 0.001, 1e-9, 10),
    VT_OPT_R("lambda", vt_complexity, lambda,
             "of the penalties on a at 10,000 points: lambda |a|_1, or lambda / 2 |a|^2", 0.05, 0, 1e6),
    VT_OPT_B("fixed_lambda", vt_complexity, fixed_lambda, "the same lambda at every size, not lambda 10000 / n", 0),
    VT_OPT_R("decay", vt_complexity, decay, "decay / 2 (|W1|^2 + |W2|^2) for all students", 0, 0, 1e6),
    VT_OPT_R("eps", vt_complexity, eps, "radius of the robust twin's attack on x, whose norm is about 16 (self: 8)", 1,
             0, 1e6),
    VT_OPT_C("attack_norm", vt_complexity, norm, "of that attack", "l2|linf", VT_ROBUST_L2),
    VT_OPT_I("attack_steps", vt_complexity, attack_steps, "of PGD", 20, 1, 10000),
    VT_OPT_I("attack_points", vt_complexity, attack_points, "test points attacked, the first ones", 500, 1, 1e6),
    VT_OPT_END,
};

static const vt_variant mask_variants[] = {
    {"baseline", VT_FRONT_PLAIN, 0, 0, true},      {"attention", VT_FRONT_MASK, 0, 0, true},
    {"attention L1", VT_FRONT_MASK, 1, 0, true},   {"attention L2", VT_FRONT_MASK, 0, 1, false},
    {"sum-to-one", VT_FRONT_SIMPLEX, 0, 0, false}, {"known mask", VT_FRONT_KNOWN, 0, 0, false},
    {NULL, VT_FRONT_PLAIN, 0, 0, false},
};
static const vt_variant self_variants[] = {
    {"baseline", VT_FRONT_PLAIN, 0, 0, true},
    {"self-attention", VT_FRONT_SELF, 0, 0, true},
    {NULL, VT_FRONT_PLAIN, 0, 0, false},
};

enum { MOST = 1000000000 };

/* Appends the rising numbers, 1 to `most`, of "A+B" to out; VT_E_USAGE names the option `what`, `as`: example. */
static vt_status read_list(int *out, int *count, const char *text, const char *what, int most, const char *as,
                           vt_err *e) {
    const char *at = text;
    for (;;) {
        char *end;
        long n = strtol(at, &end, 10);
        if (end == at || n < 1 || n > most || (*end && *end != '+') || *count == VT_COMPLEXITY_SIZES)
            return vt_fail(e, VT_E_USAGE, "%s must be at most %d numbers, 1 to %d, as %s, not '%s'", what,
                           VT_COMPLEXITY_SIZES, most, as, text);
        if (*count && n <= out[*count - 1])
            return vt_fail(e, VT_E_USAGE, "%s must rise, but %ld follows %d", what, n, out[*count - 1]);
        out[(*count)++] = (int)n;
        if (!*end) return VT_OK;
        at = end + 1;
    }
}

/* Sets r->sizes and n_sizes (0 before) to those given, or the default of the model and of --full. VT_E_USAGE. */
static vt_status read_sizes(vt_complexity_run *r, const vt_complexity *p, vt_err *e) {
    const char *text = strcmp(p->sizes, "0") ? p->sizes
                       : p->model            ? p->full ? "1000+2000+5000+10000+20000+50000" : "2000+5000+20000"
                       : p->full             ? "10000+14000+16000+18000+20000+50000"
                                             : "10000+20000+50000";
    return read_list(r->sizes, &r->n_sizes, text, "sizes", MOST, "10000+20000", e);
}

/* Whether a variant runs at a size: without --full one that is not of Table 1 runs at the first size alone. */
static bool runs_at(const vt_complexity_run *r, int size, int variant) {
    return r->variants[variant].every || r->p->full || size == 0;
}

/* Sets all of *r: sizes, variants, steps, runs, the teacher's shape and items; checks memory for the data, and
 * allocates results, which the lab's run frees. VT_E_USAGE, VT_E_MEMORY. */
static vt_status make_plan(vt_complexity_run *r, const vt_complexity *p, vt_err *e) {
    *r = (vt_complexity_run){.p = p, .variants = p->model ? self_variants : mask_variants};
    VT_TRY(read_sizes(r, p, e));
    while (r->variants[r->n_variants].name) r->n_variants++;
    r->steps = p->steps ? p->steps : p->full ? 400000 : 60000;
    r->runs = p->runs ? p->runs : p->full ? 5 : 1;
    r->teacher = (vt_two_layer){VT_FRONT_MASK, .in = 256, .hidden = 128, .out = 10};
    if (p->model) r->teacher = (vt_two_layer){VT_FRONT_SELF, .in = 64, .hidden = 128, .out = 10, .tokens = 8, .d = 8};
    if (p->model) r->relevant[r->n_relevant++] = r->teacher.in;
    if (!p->model) VT_TRY(read_list(r->relevant, &r->n_relevant, p->relevant, "relevant", r->teacher.in, "8+16+32", e));
    size_t most = (size_t)r->sizes[r->n_sizes - 1];
    VT_TRY(vt_memory_check("the training and test points",
                           vt_teacher_bytes(&r->teacher, (int)most, p->test) +
                               sizeof(float) * 4 * (size_t)p->attack_points * (size_t)r->teacher.in,
                           e));
    for (int s = 0; s < r->n_sizes; s++)
        for (int v = 0; v < r->n_variants; v++)
            if (runs_at(r, s, v)) r->items[r->n_items++] = (vt_complexity_item){s, v};
    size_t students = (size_t)r->runs * (size_t)r->n_relevant * (size_t)r->n_items;
    r->results = vt_alloc(students * sizeof *r->results);
    return r->results ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for the results of %zu runs", students);
}

typedef struct job {
    vt_complexity_run *r;
    const vt_teacher *t;
    vt_lab *lab;
    int run;
    size_t first; /* of its results */
} job;

/* Penalty weight at n points: lambda 10000 / n, or lambda if fixed. */
static double lambda_at(const vt_complexity *p, int n) { return p->fixed_lambda ? p->lambda : p->lambda * 10000 / n; }

/* Sums into out's mask_on and mask_off, 0 before, the means of |mask| where the teacher's is one and where it is zero
 * (no such input: 0). VT_E_MEMORY. */
static vt_status mask_means(vt_complexity_result *out, const vt_teacher *t, const float *theta, const vt_two_layer *net,
                            vt_err *e) {
    float *m = vt_alloc((size_t)net->in * sizeof *m);
    if (!m) return vt_fail(e, VT_E_MEMORY, "no memory for a mask of %d inputs", net->in);
    vt_two_layer_mask_f32(m, theta, net);
    for (int i = 0; i < net->in; i++)
        *(vt_teacher_relevant(t, i) ? &out->mask_on : &out->mask_off) += fabs((double)m[i]);
    out->mask_on /= t->relevant;
    if (t->relevant < net->in) out->mask_off /= net->in - t->relevant;
    free(m);
    return VT_OK;
}

/* Trains theta as s says; sets out's curve, norms, mask means (not of self-attention) and losses under attack
 * (irrelevant: only of a mask's teacher). VT_INTERRUPTED, VT_E_NUMERIC. */
static vt_status train_and_measure(vt_complexity_result *out, const vt_sgd *s, const job *j, float *theta, vt_err *e) {
    const vt_complexity *p = j->r->p;
    VT_TRY(vt_sgd_run(theta, out->curve, s, j->lab, e));
    out->w1 = vt_two_layer_norm(theta, &s->net, VT_AT_W1);
    out->w2 = vt_two_layer_norm(theta, &s->net, VT_AT_W2);
    if (s->net.front != VT_FRONT_SELF) VT_TRY(mask_means(out, j->t, theta, &s->net, e));
    int points = p->attack_points < p->test ? p->attack_points : p->test;
    vt_robust a = {(vt_robust_norm)p->norm, p->eps, p->attack_steps, points, false, s->run};
    VT_TRY(vt_teacher_attack(&out->robust, &a, j->t, theta, &s->net, j->lab, e));
    a.irrelevant_only = true;
    return p->model ? VT_OK : vt_teacher_attack(&out->irrelevant, &a, j->t, theta, &s->net, j->lab, e);
}

/* Work item: trains the item's variant at its size on the teacher's points, from a start keyed by (lab seed, run), and
 * fills its result. A known mask is the teacher's. */
static vt_status run_student(void *ctx, int thread, size_t item, vt_err *e) {
    (void)thread;
    const job *j = ctx;
    const vt_complexity *p = j->r->p;
    vt_complexity_item at = j->r->items[item];
    const vt_variant *v = &j->r->variants[at.variant];
    int n = j->r->sizes[at.size];
    vt_sgd s = {.net = j->r->teacher,
                .train = vt_teacher_train(j->t, n),
                .test = vt_teacher_test(j->t),
                .batch = p->batch,
                .steps = j->r->steps,
                .rate = p->rate,
                .decay = p->decay,
                .l1 = v->l1 * lambda_at(p, n),
                .l2 = v->l2 * lambda_at(p, n),
                .run = (uint32_t)j->run,
                .marks = VT_COMPLEXITY_MARKS};
    s.net.front = v->front;
    vt_complexity_result *out = &j->r->results[j->first + item];
    float *theta = vt_alloc(vt_two_layer_at(&s.net, VT_AT_END) * sizeof *theta);
    if (!theta) return vt_fail(e, VT_E_MEMORY, "no memory for a network");
    vt_two_layer_init_f32(theta, &s.net, 1, j->lab->seed, (uint32_t)j->run);
    if (s.net.front == VT_FRONT_KNOWN) memcpy(theta, j->t->theta, (size_t)s.net.in * sizeof *theta);
    vt_status got = train_and_measure(out, &s, j, theta, e);
    free(theta);
    return got;
}

/* Draws teacher `run` with the relevant-th mask size, trains its students (one work item each) and adds its share to
 * r->power. */
static vt_status run_teacher(vt_complexity_run *r, int run, int relevant, vt_lab *lab, vt_err *e) {
    const vt_complexity *p = r->p;
    vt_teacher t;
    double scale = p->scale > 0 ? p->scale : p->model ? 1 : 2;
    VT_TRY(vt_teacher_open(&t, &r->teacher, r->relevant[relevant], scale, r->sizes[r->n_sizes - 1], p->test,
                           (uint32_t)run, lab, e));
    job j = {r, &t, lab, run, (size_t)(run * r->n_relevant + relevant) * (size_t)r->n_items};
    r->power[relevant] += t.power / r->runs;
    vt_status s = vt_lab_for_each(lab, NULL, (size_t)r->n_items, run_student, &j, e);
    vt_teacher_close(&t);
    return s;
}

static vt_status run(const void *params, vt_lab *lab, vt_err *e) {
    vt_complexity_run r;
    vt_blas_single_thread();
    vt_status s = make_plan(&r, params, e);
    if (s == VT_OK) vt_progress_begin(&lab->progress, "students", 0, (size_t)(r.n_items * r.n_relevant * r.runs));
    for (int i = 0; i < r.runs * r.n_relevant && s == VT_OK; i++)
        s = run_teacher(&r, i / r.n_relevant, i % r.n_relevant, lab, e);
    if (s == VT_OK) vt_progress_end(&lab->progress, NULL);
    if (s == VT_OK) s = vt_complexity_report(&r, lab, e);
    if (s == VT_OK) s = vt_complexity_claims(&r, lab, e);
    free(r.results);
    return s;
}

const vt_lab_def vt_lab_def_sample_complexity = {
    .name = "sample-complexity",
    .summary = "how many samples a network with attention needs, and one without",
    .source =
        "Understanding Attention Mechanisms, Theorem 1, Corollary 1, Proposition 1, Table 1, Fig. 7; Table 2's twin",
    .opts = opts,
    .params_size = sizeof(vt_complexity),
    .run = run,
};
