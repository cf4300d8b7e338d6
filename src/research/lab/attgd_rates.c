/* SPDX-License-Identifier: MIT */
/* Lemmas 20, 21 and 27 to 30, for constant steps along the gradient itself: whole runs from W(0) = 0, whose norm grows
 * like log k and whose direction closes in at the rates of Lemma 29; and runs that begin deep in a thin cone, where the
 * lemmas about the cone are checked step by step. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/rand.h"
#include "research/lab/attcone.h"
#include "research/lab/attgd_lab.h"
#include "research/lab/attsvm.h"

enum { RUNS = 4, SAMPLES = 3, TOKENS = 4, WIDTH = 3, SIZE = WIDTH * WIDTH, MOST_MARKS = 10 };
enum { STEPS = 1000000, QUICK_STEPS = 100000, CONE_STEPS = 20000, CHECKS = 200, MOST_DRAWS = 1000 };
static const double ps[RUNS] = {1.5, 1.75, 2, 3};
static const double eta = 1;

typedef struct mark {
    int k;
    double w[SIZE], a, d, bound, pi; /* |W|_p, D to the machine, Lemma 29's rate at a, Lemma 21's pi */
} mark;

typedef struct deep {
    int checked, outside, lemma20, lemma21, lemma27, unstable; /* steps checked; breaches of each; excess < 0 */
    double delta, mu, from, to, first_pi, last_pi, log_eta;    /* from, to: |W|_p / |W_mm|_p */
} deep;

typedef struct run {
    mark marks[MOST_MARKS];
    int n_marks, draw;
    double machine;  /* |W_mm|_p */
    deep near, cone; /* from Lemma 20's radius; from one that Lemma 28 is content with */
} run;

typedef struct job {
    vt_lab *lab;
    int steps;
    run runs[RUNS];
} job;

/* Allocates problem `draw` and fills it with normals, keyed by the lab's seed and draw; labels are signs of normals.
 * VT_E_MEMORY. */
static vt_status open_problem(vt_att *a, const vt_lab *lab, uint32_t draw, vt_err *e) {
    float f[SAMPLES * (TOKENS + 1) * WIDTH + SAMPLES + WIDTH], *at = f;
    vt_rng r = {.seed = lab->seed, .purpose = vt_rng_purpose("lab attgd rates"), .image = draw};
    VT_TRY(vt_att_open(a, SAMPLES, TOKENS, WIDTH, e));
    vt_rng_normals(&r, f, sizeof f / sizeof *f);
    for (int i = 0; i < SAMPLES * TOKENS * WIDTH; i++) a->x[i] = (double)*at++;
    for (int i = 0; i < SAMPLES * WIDTH; i++) a->z[i] = (double)*at++;
    for (int i = 0; i < WIDTH; i++) a->v[i] = (double)*at++;
    for (int i = 0; i < SAMPLES; i++) a->y[i] = *at++ < 0 ? -1 : 1;
    return VT_OK;
}

/* Lemma 29's rate at norm a, without its constant. */
static double lemma29_rate(double a, double p) {
    return p > 2 ? log(a) / a : p == 2 ? log(a) * log(a) / a : pow(a, 1 - p);
}

/* Whether k is 1, 10, 100, ... */
static bool is_power_of_ten(int k) {
    while (k >= 10 && k % 10 == 0) k /= 10;
    return k == 1;
}

/* Takes the whole run from W = 0 with exponent p; sets r's marks, at powers of ten from 10 on, and the norm of its
 * machine. VT_INTERRUPTED, VT_E_NUMERIC if the machine cannot be solved. */
static vt_status run_from_zero(job *j, run *r, vt_att *a, double p, vt_err *e) {
    vt_mirror m = {.p = p, .eta = eta};
    double w[SIZE] = {0}, theta[SIZE] = {0}, g[SIZE], mm[SIZE], next[SIZE];
    int alpha[SAMPLES];
    vt_svm svm;
    for (int k = 1; k <= j->steps; k++) {
        if (k % 10000 == 0) VT_TRY(vt_lab_alive(j->lab, e));
        vt_att_gradient(a, w, VT_ATT_EXACT, g, NULL);
        vt_mirror_step(&m, theta, w, g, SIZE);
        if (k < 10 || !is_power_of_ten(k) || r->n_marks == MOST_MARKS) continue;
        mark *at = &r->marks[r->n_marks++];
        at->k = k;
        memcpy(at->w, w, sizeof w);
    }
    vt_att_loss(a, w);
    for (int i = 0; i < SAMPLES; i++) alpha[i] = vt_att_chosen(a, i);
    VT_TRY(vt_attsvm(mm, &svm, a, alpha, p, e));
    r->machine = svm.norm;
    for (int i = 0; i < r->n_marks; i++) {
        mark *at = &r->marks[i];
        vt_onestep o;
        VT_TRY(vt_att_onestep(&o, a, at->w, next, alpha, mm, p, eta, 0, e));
        at->a = o.a, at->d = vt_lp_direction(mm, at->w, SIZE, p), at->bound = lemma29_rate(o.a, p), at->pi = o.pi;
    }
    return VT_OK;
}

/* A run far out: the gradient is e^-(a/|W_mm|) and so must be the step's inverse. Both are kept times e^shift. */
typedef struct far_run {
    const vt_att *a;
    const vt_cone *c;
    const int *alpha;
    const double *mm;
    double shift, eta; /* the step size is eta e^shift */
} far_run;

/* Sets f->eta to the largest step, to a factor of two, whose first has D_{psi - eta L} >= 0 and lowers the loss; needs
 * f->shift. VT_E_NUMERIC: none. */
static vt_status choose_eta(far_run *f, const double *w, vt_err *e) {
    double next[SIZE], g[SIZE], p = f->c->p;
    vt_onestep o;
    vt_att_near(f->a, w, f->alpha, f->shift, g);
    /* begins with a step of the dual's own length */
    f->eta = pow(vt_lp_norm(w, SIZE, p), p - 1) / vt_lp_norm(g, SIZE, p / (p - 1));
    for (int k = 0; k < 100; k++, f->eta /= 2) {
        VT_TRY(vt_att_onestep(&o, f->a, w, next, f->alpha, f->mm, p, f->eta, f->shift, e));
        if (o.excess >= 0 && o.next < o.loss) return VT_OK;
    }
    return vt_fail(e, VT_E_NUMERIC, "lab attgd: no step is small enough at p %g", p);
}

/* Adds one step o from w to d's counts of steps: checked, breaches of Lemmas 20, 21, 27 and 28 (outside), unstable.
 * Sets d's to and last_pi, and first_pi at the first. */
static void count_breaches(deep *d, const far_run *f, const vt_onestep *o, const double *w) {
    const vt_cone *c = f->c;
    double k = o->a / c->norm, bound = log(c->least) - k * (1 + c->delta / 2) + f->shift;
    d->checked++;
    d->to = k, d->last_pi = o->pi;
    if (d->checked == 1) d->first_pi = o->pi;
    d->outside += !(vt_lp_direction(f->mm, w, SIZE, c->p) <= c->mu);
    /* both W_mm and V are members of the cone */
    d->lemma20 += !(log(-o->gm * c->norm) >= bound && log(-o->gw / k) >= bound);
    /* a >= R_pi ~ (1/pi) log(1/pi): pi <= log k / k is a stricter test than that; its constant is open */
    d->lemma21 += !(o->pi <= log(k) / k);
    d->unstable += !(o->excess >= -o->slack);
    d->lemma27 += !(o->moved >= o->bracket / (1 + o->pi) - o->slack);
}

/* Takes CONE_STEPS constant steps from D = mu / 4 and |W|_p = length |W_mm|_p, CHECKS of them checked, into *d. Sets
 * f's shift and eta. VT_INTERRUPTED, or choose_eta's failure. */
static vt_status run_in_cone(job *j, deep *d, far_run *f, const double *noise, double length, vt_err *e) {
    const vt_cone *c = f->c;
    double w[SIZE], theta[SIZE], g[SIZE], next[SIZE];
    vt_onestep o;
    vt_cone_member(w, f->mm, noise, SIZE, c->p, c->mu / 4, length * c->norm);
    *d = (deep){.delta = c->delta, .mu = c->mu, .from = length};
    f->shift = length;
    VT_TRY(choose_eta(f, w, e));
    d->log_eta = (log(f->eta) + f->shift) / log(10);
    vt_mirror m = {.p = c->p, .eta = f->eta};
    vt_lp_power(theta, w, SIZE, c->p - 1);
    for (int k = 0; k < CONE_STEPS; k++) {
        if (k % (CONE_STEPS / CHECKS) == 0) {
            VT_TRY(vt_lab_alive(j->lab, e));
            VT_TRY(vt_att_onestep(&o, f->a, w, next, f->alpha, f->mm, c->p, f->eta, f->shift, e));
            count_breaches(d, f, &o, w);
        }
        vt_att_near(f->a, w, f->alpha, f->shift, g);
        vt_mirror_step(&m, theta, w, g, SIZE);
    }
    return VT_OK;
}

/* Sets r->cone to the run that stays in the cone, its radius doubled from Lemma 20's (constant open) to 1e9 (if none
 * stays, the last, VT_OK), and r->near to the first. All begin along one noise, keyed by lab seed and draw. */
static vt_status find_radius(job *j, run *r, far_run *f, uint32_t draw, vt_err *e) {
    double noise[SIZE];
    float n[SIZE];
    vt_rng key = {.seed = j->lab->seed, .purpose = vt_rng_purpose("lab attgd cone"), .image = draw};
    vt_rng_normals(&key, n, SIZE);
    for (int i = 0; i < SIZE; i++) noise[i] = (double)n[i];
    for (double length = f->c->far; length < 1e9; length *= 2) {
        VT_TRY(run_in_cone(j, &r->cone, f, noise, length, e));
        if (length == f->c->far) r->near = r->cone;
        if (!r->cone.outside) return VT_OK;
    }
    return VT_OK; /* the breaches are shown */
}

/* Runs in the cone of the tokens of best score, which are locally optimal. *good false, without a run: no W separates
 * them, or delta is below a tenth, where the cone is too thin. */
static vt_status try_cone(job *j, run *r, const vt_att *a, double p, uint32_t draw, bool *good, vt_err *e) {
    double mm[SIZE];
    int alpha[SAMPLES] = {0};
    vt_svm svm;
    vt_cone c;
    *good = false;
    for (int i = 0; i < SAMPLES; i++)
        for (int t = 1; t < TOKENS; t++)
            if (vt_att_score(a, i, t) > vt_att_score(a, i, alpha[i])) alpha[i] = t;
    if (vt_attsvm(mm, &svm, a, alpha, p, NULL) != VT_OK) return VT_OK; /* no W separates these tokens: the next draw */
    VT_TRY(vt_cone_open(&c, a, alpha, mm, p, e));
    *good = c.delta >= 0.1;
    far_run f = {.a = a, .c = &c, .alpha = alpha, .mm = mm};
    vt_status s = *good ? find_radius(j, r, &f, draw, e) : VT_OK;
    vt_cone_close(&c);
    return s;
}

/* Work item: fills run `item` with exponent ps[item]: problem 0 from zero, then in the cone of the first other problem
 * (r->draw) that has a wide one. VT_E_NUMERIC if none of MOST_DRAWS has, VT_INTERRUPTED. */
static vt_status run_exponent(void *ctx, int thread, size_t item, vt_err *e) {
    (void)thread;
    job *j = ctx;
    run *r = &j->runs[item];
    vt_att a;
    VT_TRY(open_problem(&a, j->lab, 0, e));
    vt_status s = run_from_zero(j, r, &a, ps[item], e);
    vt_att_close(&a);
    bool good = false;
    for (r->draw = 1; s == VT_OK && !good && r->draw < MOST_DRAWS; r->draw += !good) {
        VT_TRY(open_problem(&a, j->lab, (uint32_t)r->draw, e));
        s = try_cone(j, r, &a, ps[item], (uint32_t)r->draw, &good, e);
        vt_att_close(&a);
    }
    if (s == VT_OK && !good)
        s = vt_fail(e, VT_E_NUMERIC, "lab attgd: none of %d problems has a cone that is wide enough", MOST_DRAWS);
    return s;
}

/* Lemma 29's rate as text. */
static const char *rate_name(double p) { return p > 2 ? "log a / a" : p == 2 ? "(log a)^2 / a" : "a^-(p-1)"; }

/* Slope of log D over log a between marks i - 1 and i. */
static double divergence_order(const run *r, int i) {
    return log(r->marks[i].d / r->marks[i - 1].d) / log(r->marks[i].a / r->marks[i - 1].a);
}
/* Slope of a over log k between marks i - 1 and i. */
static double norm_growth(const run *r, int i) {
    return (r->marks[i].a - r->marks[i - 1].a) / log((double)r->marks[i].k / r->marks[i - 1].k);
}

/* Prints a table of marks for each exponent's run from zero. */
static void print_whole(FILE *f, const job *j) {
    fprintf(f,
            "\n== rates: constant steps %g along the gradient itself, W(0) = 0; %d samples of %d tokens, width %d ==\n",
            eta, SAMPLES, TOKENS, WIDTH);
    fprintf(f, "a = |W(k)|_p; D = D_psi of its direction from the machine's; Lemma 29: D = O(rate(a)); Lemma 30: a >= "
               "c log k\n");
    for (int i = 0; i < RUNS; i++) {
        const run *r = &j->runs[i];
        vt_columns t;
        fprintf(f, "\np = %.3g, rate %s, |W_mm|_p = %.4f\n", ps[i], rate_name(ps[i]), r->machine);
        vt_columns_titles(&t, "k\ta\ta / log k\tda/dlog k\tD\tD / rate(a)\torder of D\tpi (L. 21)");
        for (int k = 0; k < r->n_marks; k++) {
            const mark *m = &r->marks[k];
            char growth[24] = "-", order[24] = "-";
            if (k) snprintf(growth, sizeof growth, "%.4f", norm_growth(r, k));
            if (k) snprintf(order, sizeof order, "%.2f", divergence_order(r, k));
            vt_columns_cells(&t, "%d\t%.4f\t%.4f\t%s\t%.3e\t%.3e\t%s\t%.4f", m->k, m->a, m->a / log(m->k), growth, m->d,
                             m->d / m->bound, order, m->pi);
        }
        vt_columns_end(&t, f, VT_LOOK_PAGE);
    }
}

/* Prints a line for each exponent's run in the cone: the final one (cone), or that from Lemma 20's radius. */
static void print_deep(FILE *f, const char *title, const job *j, bool cone) {
    vt_columns t;
    fprintf(f, "%s\n", title);
    vt_columns_titles(&t, "p\tdelta\tmu\ta / |W_mm|\tlog10 eta\tfirst pi\tlast pi\tL. 20\tL. 21\tL. 27\tL. 28\tD < 0");
    for (int i = 0; i < RUNS; i++) {
        const deep *d = cone ? &j->runs[i].cone : &j->runs[i].near;
        vt_columns_cells(&t, "%.3g\t%.4f\t%.1e\t%.1f + %.2f\t%.1f\t%.2e\t%.2e\t%d\t%d\t%d\t%d\t%d", ps[i], d->delta,
                         d->mu, d->from, d->to - d->from, d->log_eta, d->first_pi, d->last_pi, d->lemma20, d->lemma21,
                         d->lemma27, d->outside, d->unstable);
    }
    vt_columns_end(&t, f, VT_LOOK_PAGE);
}

/* Prints both tables of runs in the cone, with what their columns count. */
static void print_cone(FILE *f, const job *j) {
    fprintf(f,
            "\nruns that begin in a thin cone, at D = mu / 4: %d constant steps, %d of them checked; the last columns "
            "count breaches\n",
            CONE_STEPS, j->runs[0].cone.checked);
    print_deep(f, "from Lemma 20's radius", j, false);
    print_deep(f, "from that radius doubled until the run stays in the cone", j, true);
    fprintf(f, "L. 28: steps outside the cone; D < 0: steps where D_{psi - eta L}(W(k+1), W(k)), which Lemmas 24 to 27 "
               "need, is negative\n");
}

/* Figure: |W|_p over steps, and D with Lemma 29's rate over |W|_p. */
static void draw_rates(vt_figure *f, const void *data) {
    const job *j = data;
    vt_figure_panel(f, &(vt_panel){"|W(k)|_p", .x = "k", .kind = VT_LOG_X});
    for (int i = 0; i < RUNS; i++) {
        vt_figure_series(f, VT_LINE | VT_MARKS, "p = %.3g", ps[i]);
        for (int k = 0; k < j->runs[i].n_marks; k++) vt_figure_point(f, j->runs[i].marks[k].k, j->runs[i].marks[k].a);
    }
    vt_figure_panel(f, &(vt_panel){"D and its rate (dashed)", .x = "|W|_p", .kind = VT_LOG_X | VT_LOG_Y});
    for (int i = 0; i < RUNS; i++)
        for (int rate = 0; rate < 2; rate++) {
            vt_figure_series(f, rate ? VT_DASHED : VT_LINE | VT_MARKS, "p = %.3g", ps[i]);
            for (int k = 0; k < j->runs[i].n_marks; k++) {
                const mark *m = &j->runs[i].marks[k];
                vt_figure_point(f, m->a, rate ? m->bound : m->d);
            }
        }
}

/* JSON of one run in the cone. */
static json_t *deep_json(const deep *d) {
    return json_pack("{s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:i,s:i,s:i,s:i,s:i,s:i}", "delta", d->delta, "mu", d->mu, "from",
                     d->from, "to", d->to, "log10_eta", d->log_eta, "first_pi", d->first_pi, "last_pi", d->last_pi,
                     "checked", d->checked, "lemma20_breaches", d->lemma20, "lemma21_breaches", d->lemma21,
                     "lemma27_breaches", d->lemma27, "lemma28_breaches", d->outside, "unstable", d->unstable);
}

/* JSON of one exponent's marks and runs in the cone. */
static json_t *run_json(const run *r, double p) {
    json_t *marks = json_array();
    for (int k = 0; k < r->n_marks; k++) {
        const mark *m = &r->marks[k];
        json_array_append_new(marks,
                              json_pack("{s:i,s:f,s:f,s:f,s:o}", "k", m->k, "norm", m->a, "divergence", m->d, "rate",
                                        m->bound, "pi", isfinite(m->pi) ? json_real(m->pi) : json_null()));
    }
    return json_pack("{s:f,s:f,s:o,s:o,s:o}", "p", p, "machine_norm", r->machine, "marks", marks, "cone_near",
                     deep_json(&r->near), "cone", deep_json(&r->cone));
}

/* Is D / rate(a) at each later mark (a power of ten) at most what it was at step 1000: the constant of the O()? false
 * without a mark at 1000. */
static bool has_bounded_ratio(const run *r) {
    double at = 0;
    for (int k = 0; k < r->n_marks; k++) {
        double ratio = r->marks[k].d / r->marks[k].bound;
        if (r->marks[k].k == 1000) at = ratio;
        if (r->marks[k].k > 1000 && !(ratio <= at)) return false;
    }
    return at > 0;
}

/* Judges Lemma 29, Lemma 30, and the lemmas in the cone. */
static vt_status record_claims(const job *j, vt_err *e) {
    int rates = 0, breaches = 0, checked = 0;
    double slowest = INFINITY, ends[RUNS];
    for (int i = 0; i < RUNS; i++) {
        const run *r = &j->runs[i];
        const deep *d = &r->cone;
        rates += has_bounded_ratio(r), ends[i] = divergence_order(r, r->n_marks - 1);
        breaches += d->lemma20 + d->lemma21 + d->lemma27 + d->outside + d->unstable, checked += d->checked;
        slowest = fmin(slowest, norm_growth(r, r->n_marks - 1) / r->machine);
    }
    VT_TRY(vt_lab_claim(j->lab, rates == RUNS ? VT_SUPPORTED : VT_CONTRADICTED, "Lemma 29: rates of the direction", e,
                        "from 1000 steps on D / rate(a) does not rise for %d of %d exponents; in the last decade D "
                        "falls as a to the %.2f, %.2f, %.2f, %.2f",
                        rates, RUNS, ends[0], ends[1], ends[2], ends[3]));
    VT_TRY(vt_lab_claim(j->lab, slowest > 0.25 ? VT_SUPPORTED : VT_CONTRADICTED, "Lemma 30: |W(k)|_p >= c log k", e,
                        "in the last decade |W|_p gains at least %.2f |W_mm|_p for each unit of log k", slowest));
    return vt_lab_claim(j->lab, breaches ? VT_CONTRADICTED : VT_SUPPORTED,
                        "Lemmas 20, 21, 27, 28: in a cone, far enough out, descent stays", e,
                        "%d breaches in %d steps looked at, from %.0f, %.0f, %.0f, %.0f times |W_mm|_p (constants of "
                        "our own where the paper's are open); from Lemma 20's radius the cone is left",
                        breaches, checked, j->runs[0].cone.from, j->runs[1].cone.from, j->runs[2].cone.from,
                        j->runs[3].cone.from);
}

vt_status vt_attgd_rates(const vt_attgd_options *o, vt_lab *lab, vt_err *e) {
    job *j = calloc(1, sizeof *j);
    if (!j) return vt_fail(e, VT_E_MEMORY, "lab attgd: no memory for the rates part");
    j->lab = lab, j->steps = o->quick ? QUICK_STEPS : STEPS;
    vt_status s = vt_lab_for_each(lab, "rates", RUNS, run_exponent, j, e);
    if (s == VT_OK) {
        json_t *list = json_array();
        for (int i = 0; i < RUNS; i++) json_array_append_new(list, run_json(&j->runs[i], ps[i]));
        print_whole(lab->out, j), print_cone(lab->out, j);
        s = vt_lab_put(lab->json, "rates", json_array_size(list) == RUNS ? list : NULL, e);
    }
    if (s == VT_OK) s = vt_lab_figure(lab, "rates", "Norm and divergence of l_p mirror descent", draw_rates, j, e);
    if (s == VT_OK) s = record_claims(j, e);
    free(j);
    return s;
}
