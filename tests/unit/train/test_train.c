/* SPDX-License-Identifier: MIT */
/* src/train in double: objectives' gradients against central differences and closed forms, optimisers against hand
 * formulas and their own laws. */
#define VT_DOUBLE
#include "base/real.h"
#include "options.h"
#include "t.h"

#include "attacks/attack.h"
#include "nn/loss.h"
#include "nn/nn.h"
#include "train/objective.h"
#include "train/optim.h"

/* ---- objectives ---- */

typedef struct pair {
    const vt_objective_def_f64 *def;
    void *params;
    double *z_clean, *z_adv, *dz_clean, *dz_adv; /* [classes], NULL where the objective does not look */
    float *target;
    int classes;
} pair;

static pair pair_open(const vt_objective_def_f64 *d, const char *options, int classes, uint64_t seed) {
    size_t n = (size_t)classes;
    pair p = {.def = d, .params = t_params(d->opts, d->params_size, options), .classes = classes};
    p.target = t_take(n * sizeof *p.target);
    if (d->needs_clean) p.z_clean = t_doubles(n, seed, 2), p.dz_clean = t_doubles(n, 0, 0);
    if (vt_reads_worst_f64(d)) p.z_adv = t_doubles(n, seed + 50, 2), p.dz_adv = t_doubles(n, 0, 0);
    double *soft = t_doubles(n, seed + 100, 1), sum = 0;
    for (int k = 0; k < classes; k++) sum += soft[k] = exp(soft[k]);
    for (int k = 0; k < classes; k++) p.target[k] = d->hard_labels ? k == (int)seed % classes : (float)(soft[k] / sum);
    return p;
}

static void pair_close(pair *p, const char *what) {
    free(p->params);
    t_release(what);
}

static double pair_eval(pair *p) {
    return p->def->eval(p->dz_clean, p->dz_adv, p->z_clean, p->z_adv, p->target, p->classes, p->params);
}

static double pair_scalar(void *ctx) {
    pair *p = ctx;
    return p->def->eval(NULL, NULL, p->z_clean, p->z_adv, p->target, p->classes, p->params);
}

/* Distance of the two largest logits of wrong classes: MART's rival changes where they tie. */
static double rival_gap(const pair *p) {
    double first = -INFINITY, second = -INFINITY;
    for (int k = 0; k < p->classes && p->z_adv; k++) {
        if (p->target[k] == 1) continue;
        if (p->z_adv[k] > first)
            second = first, first = p->z_adv[k];
        else
            second = fmax(second, p->z_adv[k]);
    }
    return p->z_adv && p->classes > 2 ? first - second : 1;
}

static int one_pair(const vt_objective_def_f64 *d, int classes, uint64_t seed) {
    char what[60];
    size_t n = (size_t)classes;
    snprintf(what, sizeof what, "%s, %d classes", d->name, classes);
    pair p = pair_open(d, "", classes, seed);
    int done = rival_gap(&p) > 0.01;
    if (done) {
        t_freeze(p.target);
        double value = pair_eval(&p);
        assert_true(isfinite(value) && value == pair_scalar(&p)); /* gradients not wanted: the same value */
        if (p.z_clean) t_grad(pair_scalar, &p, p.z_clean, n, p.dz_clean, what);
        if (p.z_adv) t_grad(pair_scalar, &p, p.z_adv, n, p.dz_adv, what);
        for (int k = 0; k < classes; k++) { /* logits count up to a constant; 100 costs two digits */
            if (p.z_clean) p.z_clean[k] += 100;
            if (p.z_adv) p.z_adv[k] -= 100;
        }
        t_le(fabs(pair_scalar(&p) - value), 1e-11 * (1 + fabs(value)), "%s: shifted logits", what);
    }
    pair_close(&p, what);
    return done;
}

static void test_objective_gradients(void **state) {
    (void)state;
    static const int sizes[] = {2, 3, 10};
    int n;
    const vt_objective_def_f64 *const *defs = vt_objective_defs_f64(&n);
    assert_true(n >= 5);
    for (int i = 0; i < n; i++) {
        assert_true(defs[i] == vt_objective_find_f64(defs[i]->name));
        for (size_t s = 0; s < T_COUNT(sizes); s++) {
            int done = 0;
            for (uint64_t seed = 1; seed <= 5; seed++) done += one_pair(defs[i], sizes[s], seed);
            assert_true(done >= 3);
        }
    }
    assert_null(vt_objective_find_f64("no such"));
}

/* Every objective with an inner goal names an attack that parses, and only those. */
static void test_objective_attacks(void **state) {
    (void)state;
    int n;
    const vt_objective_def_f64 *const *defs = vt_objective_defs_f64(&n);
    for (int i = 0; i < n; i++) {
        assert_true((defs[i]->inner == VT_INNER_NONE) == !defs[i]->attack);
        if (!defs[i]->attack) continue;
        vt_attack a;
        vt_err e = {0};
        if (vt_attack_parse(&a, defs[i]->attack, VT_LINF, &e) != VT_OK) fail_msg("%s: %s", defs[i]->name, e.text);
        assert_true(a.n_stages == 1 && a.stages[0].def->white_box);
        bool from_clean = strstr(a.id, "random_start=0") != NULL; /* a start of its own replaces the attack's */
        assert_true(from_clean == (defs[i]->start_sigma > 0));
        vt_attack_free(&a);
    }
}

/* Literal formulas, from probabilities. */
static void softmax(double *p, const double *z, int classes) {
    double sum = 0;
    for (int k = 0; k < classes; k++) sum += p[k] = exp(z[k]);
    for (int k = 0; k < classes; k++) p[k] /= sum;
}

static double literal_trades(const double *z, const double *z_adv, int y, int classes, double beta) {
    double p[16], q[16], kl = 0;
    softmax(p, z, classes), softmax(q, z_adv, classes);
    for (int k = 0; k < classes; k++) kl += p[k] * log(p[k] / q[k]);
    return -log(p[y]) + beta * kl;
}

static double literal_mart(const double *z, const double *z_adv, int y, int classes, double beta) {
    double n[16], p[16], rival = 0, kl = 0;
    softmax(n, z, classes), softmax(p, z_adv, classes);
    for (int k = 0; k < classes; k++) {
        if (k != y) rival = fmax(rival, p[k]);
        kl += n[k] * (log(n[k]) - log(p[k] + 1e-12));
    }
    return -log(p[y]) - log(1.0001 - rival + 1e-12) + beta * kl * (1.0000001 - n[y]);
}

/* T CE((z - offset y) / T), from probabilities; with offset 0 and T 1 the cross entropy itself. */
static void test_margin_values(void **state) {
    (void)state;
    static const struct {
        const char *options;
        double offset, temperature;
    } cases[] = {{"offset=0;temperature=1", 0, 1}, {"offset=0.3;temperature=0.5", 0.3, 0.5}};
    for (size_t c = 0; c < T_COUNT(cases); c++)
        for (uint64_t seed = 1; seed <= 6; seed++) {
            pair m = pair_open(vt_objective_find_f64("margin"), cases[c].options, 7, seed);
            pair ce = pair_open(vt_objective_find_f64("ce"), "", 7, seed);
            double z[7], p[7], want = 0;
            for (int k = 0; k < 7; k++)
                z[k] = (m.z_clean[k] - cases[c].offset * (double)m.target[k]) / cases[c].temperature;
            softmax(p, z, 7);
            for (int k = 0; k < 7; k++) want -= cases[c].temperature * (double)m.target[k] * log(p[k]);
            t_le(fabs(pair_eval(&m) - want), 1e-13, "%s", cases[c].options);
            if (!c) t_le(fabs(pair_eval(&ce) - want), 1e-13, "as the cross entropy");
            free(ce.params), pair_close(&m, "margin");
        }
}

static void test_objective_values(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double (*literal)(const double *, const double *, int, int, double);
    } cases[] = {{"trades", literal_trades}, {"mart", literal_mart}};
    static const double betas[] = {0, 1, 6};
    for (size_t c = 0; c < T_COUNT(cases); c++)
        for (size_t b = 0; b < T_COUNT(betas); b++)
            for (uint64_t seed = 1; seed <= 6; seed++) {
                char options[40];
                snprintf(options, sizeof options, "beta=%g", betas[b]);
                pair p = pair_open(vt_objective_find_f64(cases[c].name), options, 7, seed);
                double want = cases[c].literal(p.z_clean, p.z_adv, (int)seed % 7, 7, betas[b]);
                t_le(fabs(pair_eval(&p) - want), 1e-13 * (1 + fabs(want)), "%s", cases[c].name);
                /* gradients with respect to logits sum to zero */
                double one[7] = {1, 1, 1, 1, 1, 1, 1};
                t_le(fabs(t_dot(one, p.dz_clean, 7)), 1e-14 * (1 + betas[b]), "%s: sum of dz_clean", cases[c].name);
                t_le(fabs(t_dot(one, p.dz_adv, 7)), 1e-14 * (1 + betas[b]), "%s: sum of dz_adv", cases[c].name);
                pair_close(&p, cases[c].name);
            }
}

/* Where the predictions agree there is no divergence: TRADES is the cross entropy and pulls at the clean image alone;
 * MART's divergence is - sum_k n_k log(1 + 1e-12 / n_k) = -1e-12 K. fast and at are one loss. */
static void test_objective_agreement(void **state) {
    (void)state;
    double ce[5];
    pair p = pair_open(vt_objective_find_f64("trades"), "beta=1000", 5, 3);
    memcpy(p.z_adv, p.z_clean, 5 * sizeof *p.z_adv);
    vt_loss loss = {.kind = VT_LOSS_CE, .target = p.target};
    double value = vt_loss_eval_f64(ce, &loss, p.z_clean, 5);
    t_le(fabs(pair_eval(&p) - value), 1e-14, "TRADES without divergence");
    t_le(t_max_diff(p.dz_clean, ce, 5), 1e-12, "its clean gradient"); /* 1000 times rounding of a zero */
    t_le(t_max(p.dz_adv, 5), 1e-12, "its adversarial gradient");
    pair_close(&p, "trades");
    p = pair_open(vt_objective_find_f64("mart"), "beta=1000", 5, 3);
    memcpy(p.z_adv, p.z_clean, 5 * sizeof *p.z_adv);
    t_le(fabs(pair_eval(&p) - literal_mart(p.z_clean, p.z_clean, 3, 5, 0)), 1000 * 6e-12, "MART without divergence");
    pair_close(&p, "mart");
    p = pair_open(vt_objective_find_f64("at"), "", 5, 3);
    value = pair_eval(&p);
    memcpy(ce, p.dz_adv, sizeof ce);
    p.def = vt_objective_find_f64("fast");
    assert_true(pair_eval(&p) == value && !memcmp(ce, p.dz_adv, sizeof ce));
    pair_close(&p, "fast");
}

/* Confident logits: finite values and gradients, however wrong the other prediction is. TRADES: KL = beta times the
 * difference of log-probabilities, 2000. MART: the floor under p gives log(1e-12). */
static void test_objective_extremes(void **state) {
    (void)state;
    static const char *const names[] = {"trades", "mart"};
    for (size_t i = 0; i < T_COUNT(names); i++) {
        pair p = pair_open(vt_objective_find_f64(names[i]), "beta=1", 3, 0);
        for (int k = 0; k < 3; k++) p.z_clean[k] = k == 0 ? 1000 : -1000, p.z_adv[k] = k == 1 ? 1000 : -1000;
        double want = i == 0 ? 2000 : 2000 - log(1.0001 - 1 + 1e-12) - log(1e-12) * (1.0000001 - 1);
        t_le(fabs(pair_eval(&p) - want), 1e-9, "%s", names[i]);
        for (int k = 0; k < 3; k++) assert_true(isfinite(p.dz_clean[k]) && isfinite(p.dz_adv[k]));
        p.z_adv[2] = NAN;
        assert_true(isnan(pair_eval(&p)) && isnan(p.dz_adv[0]));
        pair_close(&p, names[i]);
    }
}

/* ---- why the gate's l1 is not on attention ---- */

/* Rows of a softmax sum to one, so |.|_1 has gradient sgn(p) = 1, and the softmax takes it to zero; |p|^2 it does not
 * (Liu et al., "Understanding Attention Mechanisms", appendix D.1, would have it otherwise). */
static void test_l1_of_softmax(void **state) {
    (void)state;
    enum { M = 4, N = 9 };
    double *s = t_doubles(M * N, 5, 2), *p = t_doubles(M * N, 0, 0), *dp = t_doubles(M * N, 0, 0),
           *ds = t_doubles(M * N, 0, 0);
    vt_softmax_forward_f64(p, s, 0.5, M, N, N);
    for (int i = 0; i < M * N; i++) dp[i] = (p[i] > 0) - (p[i] < 0);
    vt_softmax_backward_f64(ds, dp, p, 0.5, M, N, N);
    t_le(t_max(ds, M * N), 1e-15, "gradient of l1"); /* p times the rounding of 1 - sum p */
    for (int i = 0; i < M * N; i++) dp[i] = 2 * p[i];
    vt_softmax_backward_f64(ds, dp, p, 0.5, M, N, N);
    assert_true(t_max(ds, M * N) > 1e-3);
    t_release("l1 of softmax");
}

/* ---- optimisers ---- */

typedef struct optimiser {
    const vt_optim_def_f64 *def;
    void *params;
    size_t n;
    double *w, *g, *slot[VT_OPTIM_SLOTS];
} optimiser;

static optimiser optimiser_open(const char *name, const char *options, size_t n, double scale) {
    optimiser o = {.def = vt_optim_find_f64(name), .n = n, .w = t_doubles(n, 7, scale), .g = t_doubles(n, 8, 1)};
    assert_non_null(o.def);
    assert_true(o.def->slots <= VT_OPTIM_SLOTS);
    o.params = t_params(o.def->opts, o.def->params_size, options);
    for (int k = 0; k < o.def->slots; k++) {
        assert_non_null(o.def->slot_name[k]);
        o.slot[k] = t_doubles(n, 0, 0);
        memset(o.slot[k], 0, n * sizeof *o.slot[k]);
    }
    if (o.def->start) o.def->start((void *const *)o.slot, o.w, n, o.params);
    t_freeze(o.g);
    return o;
}

static void optimiser_step(optimiser *o, size_t from, size_t to, double lr, double weight_decay, int64_t t) {
    void *at[VT_OPTIM_SLOTS];
    for (int k = 0; k < VT_OPTIM_SLOTS; k++) at[k] = o->slot[k] ? o->slot[k] + from : NULL;
    o->def->step(o->w + from, at, o->g + from, to - from, o->params, lr, weight_decay, t);
}

static void optimiser_close(optimiser *o, const char *what) {
    free(o->params);
    t_release(what);
}

/* A tensor cut anywhere gives the same bytes: threads may share it. */
static void test_optim_pieces(void **state) {
    (void)state;
    enum { N = 53 };
    int n;
    const vt_optim_def_f64 *const *defs = vt_optim_defs_f64(&n);
    assert_true(n >= 3);
    for (int i = 0; i < n; i++) {
        assert_true(defs[i] == vt_optim_find_f64(defs[i]->name));
        if (defs[i]->step_matrix) continue; /* takes matrices whole */
        double whole[N];
        for (size_t cut = 0; cut <= N; cut += cut < 5 ? 1 : 16) {
            optimiser o = optimiser_open(defs[i]->name, "", N, 1);
            for (int64_t t = 1; t <= 3; t++) {
                optimiser_step(&o, 0, cut, 0.01, 1e-3, t);
                optimiser_step(&o, cut, N, 0.01, 1e-3, t);
            }
            if (cut == 0) memcpy(whole, o.w, sizeof whole);
            assert_memory_equal(whole, o.w, sizeof whole);
            optimiser_close(&o, defs[i]->name);
        }
    }
    assert_null(vt_optim_find_f64("no such"));
}

/* Under a constant gradient d (no decay) the buffer is d (1 - mu^t) / (1 - mu), so that after T steps
 * w = w0 - lr d sum_t (1 - mu^t) / (1 - mu); Nesterov takes the buffer of step t + 1 at step t. */
static void test_sgd(void **state) {
    (void)state;
    enum { N = 5, T = 20 };
    for (int nesterov = 0; nesterov < 2; nesterov++)
        for (int m = 0; m < 2; m++) {
            double mu = m ? 0.9 : 0, lr = 0.05, sum = 0, w0[N];
            char options[60];
            snprintf(options, sizeof options, "momentum=%g;nesterov=%d", mu, nesterov);
            optimiser o = optimiser_open("sgd", options, N, 1);
            memcpy(w0, o.w, sizeof w0);
            for (int64_t t = 1; t <= T; t++) {
                optimiser_step(&o, 0, N, lr, 0, t);
                sum += (1 - pow(mu, (double)(t + nesterov))) / (1 - mu);
            }
            for (int i = 0; i < N; i++) /* 20 roundings of numbers below 20 */
                t_le(fabs(o.w[i] - (w0[i] - lr * o.g[i] * sum)), 1e-13, "sgd, momentum %g, nesterov %d", mu, nesterov);
            optimiser_close(&o, "sgd");
        }
    optimiser o = optimiser_open("sgd", "momentum=0", N, 1); /* decay alone: w (1 - lr wd) */
    double w0 = o.w[0];
    o.def->step(o.w, (void *const *)o.slot, (double[N]){0}, N, o.params, 0.1, 0.5, 1);
    t_le(fabs(o.w[0] - 0.95 * w0), 1e-15, "weight decay");
    optimiser_close(&o, "sgd");
}

/* Under a constant gradient both averages, corrected, are g and g^2: every step is w <- w (1 - lr wd) - lr g / (|g| +
 * eps), whatever the decays. */
static void test_adamw(void **state) {
    (void)state;
    enum { N = 6 };
    static const char *const options[] = {"", "beta1=0;beta2=0;eps=0.5", "beta1=0.5;beta2=0.99;eps=1e-3"};
    static const double eps[] = {1e-8, 0.5, 1e-3};
    for (size_t c = 0; c < T_COUNT(options); c++) {
        optimiser o = optimiser_open("adamw", options[c], N, 1);
        double w[N], lr = 0.01, wd = 0.3;
        memcpy(w, o.w, sizeof w);
        for (int64_t t = 1; t <= 30; t++) {
            optimiser_step(&o, 0, N, lr, wd, t);
            for (int i = 0; i < N; i++) w[i] = w[i] * (1 - lr * wd) - lr * o.g[i] / (fabs(o.g[i]) + eps[c]);
        }
        /* 1 - b2^t cancels to 1e-3 at first: 1e-13 of a step of 1e-2, 30 times */
        t_le(t_max_diff(o.w, w, N), 1e-13, "adamw %s", options[c]);
        optimiser_close(&o, "adamw");
    }
    /* and a gradient that changes: both averages by hand */
    optimiser o = optimiser_open("adamw", "", N, 1);
    double m[N] = {0}, v[N] = {0}, w[N], g[N];
    memcpy(w, o.w, sizeof w);
    for (int t = 1; t <= 4; t++) {
        for (int i = 0; i < N; i++) {
            g[i] = sin(t + 3.0 * i);
            m[i] = 0.9 * m[i] + 0.1 * g[i], v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
            double mean = m[i] / (1 - pow(0.9, t)), square = v[i] / (1 - pow(0.999, t));
            w[i] -= 0.02 * mean / (sqrt(square) + 1e-8);
        }
        o.def->step(o.w, (void *const *)o.slot, g, N, o.params, 0.02, 0, t);
    }
    t_le(t_max_diff(o.w, w, N), 1e-13, "adamw by hand");
    optimiser_close(&o, "adamw");
}

/* With p = 2 the potential is w^2 / 2: plain gradient descent, decay included. */
static void test_md_is_sgd(void **state) {
    (void)state;
    enum { N = 40 };
    optimiser o = optimiser_open("md", "p=2", N, 1);
    double w[N];
    o.w[0] = 0;
    o.def->start((void *const *)o.slot, o.w, N, o.params);
    memcpy(w, o.w, sizeof w);
    for (int64_t t = 1; t <= 50; t++) {
        optimiser_step(&o, 0, N, 0.01, 0.1, t);
        for (int i = 0; i < N; i++) w[i] -= 0.01 * (o.g[i] + 0.1 * w[i]);
    }
    t_le(t_max_diff(o.w, w, N), 1e-12, "md with p = 2"); /* exp and log cost 1e-16 each, not accumulated in theta */
    optimiser_close(&o, "md");
}

/* The mirror map there and back, for both signs and sizes; then a step by hand; and, near p = 1, zero stays: g lr =
 * 5e-4 makes (5e-4)^10 of it. */
static void test_md(void **state) {
    (void)state;
    enum { N = 40 };
    static const double ps[] = {1.05, 1.1, 1.5, 1.75, 3, 4};
    for (size_t c = 0; c < T_COUNT(ps); c++) {
        char options[20];
        snprintf(options, sizeof options, "p=%g", ps[c]);
        optimiser o = optimiser_open("md", options, N, 0.3);
        assert_true(o.def->wide && o.def->start);
        double w[N];
        memcpy(w, o.w, sizeof w);
        for (int64_t t = 1; t <= 20; t++) o.def->step(o.w, (void *const *)o.slot, (double[N]){0}, N, o.params, 1, 0, t);
        for (int i = 0; i < N; i++) /* 1 / (p - 1) = 20 times the rounding of a logarithm below 5 */
            t_le(fabs(o.w[i] / w[i] - 1), 2e-14, "p = %g: round trip", ps[c]);
        optimiser_step(&o, 0, N, 0.01, 0.1, 21);
        for (int i = 0; i < N; i++) {
            double theta = pow(fabs(w[i]), ps[c] - 1) * (w[i] > 0 ? 1 : -1) - 0.01 * (o.g[i] + 0.1 * w[i]);
            double want = pow(fabs(theta), 1 / (ps[c] - 1)) * (theta > 0 ? 1 : -1);
            t_le(fabs(o.w[i] - want) / (fabs(want) + 1e-30), 1e-12, "p = %g: one step", ps[c]);
        }
        optimiser_close(&o, "md");
    }
    optimiser o = optimiser_open("md", "", N, 1);
    memset(o.w, 0, N * sizeof *o.w);
    o.def->start((void *const *)o.slot, o.w, N, o.params);
    for (int i = 0; i < N; i++) assert_true(o.slot[0][i] == 0);
    o.def->step(o.w, (void *const *)o.slot, (double[N]){0}, N, o.params, 0.05, 0, 1);
    for (int i = 0; i < N; i++) assert_true(o.w[i] == 0);
    double g[N];
    for (int i = 0; i < N; i++) g[i] = 0.01;
    o.def->step(o.w, (void *const *)o.slot, g, N, o.params, 0.05, 0, 2);
    for (int i = 0; i < N; i++) assert_true(o.w[i] < 0 && o.w[i] > -1e-32);
    optimiser_close(&o, "md");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_objective_gradients, t_drop),
        cmocka_unit_test(test_objective_attacks),
        cmocka_unit_test_teardown(test_objective_values, t_drop),
        cmocka_unit_test_teardown(test_margin_values, t_drop),
        cmocka_unit_test_teardown(test_objective_agreement, t_drop),
        cmocka_unit_test_teardown(test_objective_extremes, t_drop),
        cmocka_unit_test_teardown(test_l1_of_softmax, t_drop),
        cmocka_unit_test_teardown(test_optim_pieces, t_drop),
        cmocka_unit_test_teardown(test_sgd, t_drop),
        cmocka_unit_test_teardown(test_adamw, t_drop),
        cmocka_unit_test_teardown(test_md_is_sgd, t_drop),
        cmocka_unit_test_teardown(test_md, t_drop),
    };
    return cmocka_run_group_tests_name("train", tests, NULL, NULL);
}
