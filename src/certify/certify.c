/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/progress.h"
#include "certify/certify.h"
#include "certify/relax.h"

const char *const vt_certify_arithmetic =
    "holds in real arithmetic and in float32 with any order of summation (3 x 3 convolutions also by Winograd's F(2x2, "
    "3x3)), if elementary functions err by at most 4 units in the last place and softmax subtracts the largest score";

const char *const vt_certify_norm_names[] = {"linf", "l2", "l1"};

typedef struct pairs {
    int64_t label, classes;
} pairs;

typedef struct worst_pair {
    const pairs *p;
    size_t i;
} worst_pair;

struct vt_certify {
    vt_certify_options o;
    vt_relax *r;
    int64_t classes; /* of the output; 1: two classes, logit 0 and it */
    size_t n;        /* numbers of the input */
    double *lo, *hi, *margin, *now;
    double *stack; /* boxes of branch and bound, lo and hi each */
    worst_pair worst_pair;
    double until;
    long boxes;
    bool bounded; /* r's ranges are those of the box */
};

enum {
    DEEPEST = 200,   /* boxes of branch and bound that wait */
    SPLIT_MOST = 128 /* numbers of an input whose box is halved: with more of them it does not help */
};

vt_status vt_certify_open(vt_certify **out, const vt_graph *g, const vt_certify_options *o, vt_err *e) {
    *out = NULL;
    vt_certify *c = calloc(1, sizeof *c);
    if (!c) return vt_fail(e, VT_E_MEMORY, "%s: no memory for bounds", g->path);
    c->o = *o, c->n = g->values[g->input].n, c->classes = (int64_t)g->values[g->output].n;
    c->lo = calloc(c->n, sizeof *c->lo), c->hi = calloc(c->n, sizeof *c->hi);
    c->margin = calloc((size_t)c->classes + 1, sizeof *c->margin);
    c->now = calloc((size_t)c->classes + 1, sizeof *c->now);
    c->stack = calloc(c->n <= SPLIT_MOST ? c->n * 2 * (DEEPEST + 1) : 1, sizeof *c->stack);
    vt_status s = c->stack && c->lo && c->hi && c->margin && c->now
                      ? vt_relax_open(&c->r, g, o->threads, e)
                      : vt_fail(e, VT_E_MEMORY, "%s: no memory for bounds", g->path);
    if (s == VT_OK) c->r->norm = o->norm, c->r->intervals = o->intervals, c->r->interrupt = o->interrupt;
    if (s == VT_OK)
        *out = c;
    else
        vt_certify_close(c);
    return s;
}

void vt_certify_close(vt_certify *c) {
    if (!c) return;
    vt_relax_close(c->r);
    free(c->stack), free(c->lo), free(c->hi), free(c->margin), free(c->now);
    free(c);
}

/* Logit of the label less that of another class. */
static void set_pair(const void *ctx, size_t i, double *a) {
    const pairs *p = ctx;
    if (p->classes == 1) {
        a[0] = p->label ? 1 : -1;
        return;
    }
    a[p->label] = 1;
    a[(int64_t)i < p->label ? i : i + 1] = -1;
}

/* Sets the row a of the pair of classes in ctx, a worst_pair; i is ignored. */
static void set_worst(const void *ctx, size_t i, double *a) {
    const worst_pair *w = ctx;
    (void)i;
    set_pair(w->p, w->i, a);
}

/* Returns how many differences of logits must be above 0. */
static size_t pairs_of(const vt_certify *c) { return c->classes == 1 ? 1 : (size_t)c->classes - 1; }

/* How a box is bounded: lower slopes of ReLU, steps toward better lines of inner values and of the last rows. */
typedef struct effort {
    int policy, inner, last;
} effort;
static const effort quick[] = {{0, 0, 0}, {1, 0, 0}}, thorough[] = {{0, 0, 60}, {0, 6, 100}};

/* Lower bound of the smallest difference for inputs of the box lo, hi; -INFINITY: no bound. */
static vt_status bound_margin(vt_certify *c, int64_t label, const effort *by, int efforts, double *worst, vt_err *e) {
    const pairs p = {label, c->classes};
    const size_t n = pairs_of(c);
    *worst = -INFINITY;
    for (size_t i = 0; i < n; i++) c->margin[i] = -INFINITY;
    for (int k = 0; k < efforts && !(*worst > 0); k++) {
        vt_err none = {0};
        c->r->policy = by[k].policy, c->r->steps = by[k].inner;
        vt_status s = vt_relax_box(c->r, c->lo, c->hi, &none);
        c->boxes++, c->r->steps = by[k].last, c->bounded = s == VT_OK;
        if (s == VT_OK) s = vt_relax_rows(c->r, vt_root_of(c->r->g, c->r->g->output), n, set_pair, &p, c->now, &none);
        c->r->steps = 0;
        if (s == VT_E_NUMERIC) continue; /* undecided */
        if (s != VT_OK) return vt_fail(e, s, "%s", none.text);
        *worst = INFINITY;
        for (size_t i = 0; i < n; i++) {
            if (isfinite(c->now[i]) && c->now[i] > c->margin[i]) c->margin[i] = c->now[i];
            if (c->margin[i] < *worst) *worst = c->margin[i];
        }
    }
    return VT_OK;
}

typedef struct limit {
    double until;
    long boxes; /* 0: none */
} limit;

/* Returns the limit of the whole point. */
static limit limit_of(const vt_certify *c) { return (limit){c->until, c->o.boxes}; }

/* Has the time come or the number of boxes been reached? */
static bool is_over(const vt_certify *c, limit l) { return vt_now() > l.until || (l.boxes && c->boxes >= l.boxes); }

/* A quarter of what is left. */
static limit quarter_of(const vt_certify *c) {
    const double now = vt_now();
    return (limit){now + (c->until - now) / 4, c->o.boxes ? c->boxes + (c->o.boxes - c->boxes) / 4 + 1 : 0};
}

/* Sets c's box to x plus and minus radius, rounded outwards (radius 0: to x), within [0,1] unless unboxed, and the ball
 * of c->r. */
static void set_box(vt_certify *c, const double *x, double radius) {
    c->r->centre = x, c->r->radius = radius;
    for (size_t i = 0; i < c->n; i++) {
        c->lo[i] = radius > 0 ? nextafter(x[i] - radius, -INFINITY) : x[i];
        c->hi[i] = radius > 0 ? nextafter(x[i] + radius, INFINITY) : x[i];
        if (!c->o.unboxed) c->lo[i] = fmax(c->lo[i], 0), c->hi[i] = fmin(c->hi[i], 1);
    }
}

/* Is the radius certified? Then *out holds it. */
static vt_status try_radius(vt_certify *c, const double *x, int64_t label, double radius, vt_certified *out, bool *yes,
                            vt_err *e) {
    double margin;
    set_box(c, x, radius);
    VT_TRY(bound_margin(c, label, quick, c->o.intervals ? 1 : 2, &margin, e));
    *yes = margin > 0;
    if (*yes ? radius > out->radius : out->radius == 0) out->margin = margin;
    if (*yes && radius > out->radius) out->radius = radius;
    return VT_OK;
}

/* ---- branch and bound: a box without a bound is halved until all parts have one ---- */

/* Bisects box number `top` of the stack, where the worst row changes most along a side; box top + 1 is new. */
static vt_status split_box(vt_certify *c, int64_t label, size_t top, vt_err *e) {
    double *lo = c->stack + top * 2 * c->n, *hi = lo + c->n, low, most = -1;
    const pairs p = {label, c->classes};
    const double *a = c->r->rows[0].a[c->r->g->input], *y = c->r->rows[0].y[c->r->g->input];
    size_t at = 0;
    c->worst_pair = (worst_pair){&p, 0};
    for (size_t i = 1; i < pairs_of(c); i++)
        if (c->margin[i] < c->margin[c->worst_pair.i]) c->worst_pair.i = i;
    VT_TRY(vt_relax_rows(c->r, vt_root_of(c->r->g, c->r->g->output), 1, set_worst, &c->worst_pair, &low, e));
    for (size_t k = 0; k < c->n; k++)
        if (fabs(a[k]) * (hi[k] - lo[k]) > most) most = fabs(a[k]) * (hi[k] - lo[k]), at = k;
    memcpy(lo + 2 * c->n, lo, 2 * c->n * sizeof *lo);
    /* the row's least point, to be tried as a counterexample */
    for (size_t k = 0; k < c->n; k++) c->lo[k] = c->hi[k] = y[k];
    const double middle = lo[at] / 2 + hi[at] / 2;
    hi[at] = middle, lo[2 * c->n + at] = middle;
    return VT_OK;
}

/* Is the class another one at the point lo = hi? */
static bool is_broken(vt_certify *c, int64_t label) {
    const vt_ranges *z = &c->r->of[vt_root_of(c->r->g, c->r->g->output)];
    vt_err none = {0};
    bool broken = false;
    c->boxes++, c->r->norm = VT_CERTIFY_LINF; /* of the point alone */
    vt_status s = vt_relax_box(c->r, c->lo, c->hi, &none);
    c->r->norm = c->o.norm;
    if (s != VT_OK) return false;
    if (c->classes == 1) return label ? z->hi[0] < 0 : z->lo[0] > 0;
    for (int64_t j = 0; j < c->classes; j++) broken = broken || (j != label && z->lo[j] > z->hi[label]);
    return broken;
}

typedef enum verdict { UNDECIDED, PROVEN, BROKEN } verdict;

/* Has the box lo, hi no point of the ball? */
static bool is_outside(const vt_certify *c, const double *x, double radius) {
    double sum = 0;
    for (size_t i = 0; i < c->n; i++) {
        const double d = fmax(fmax(c->lo[i] - x[i], x[i] - c->hi[i]), 0);
        sum += c->o.norm == VT_CERTIFY_L1 ? d : d * d;
    }
    return c->o.norm != VT_CERTIFY_LINF && sum > (c->o.norm == VT_CERTIFY_L1 ? radius : radius * radius) * (1 + 1e-9);
}

/* Proves the radius by parts, or finds a counterexample, within the limit. */
static vt_status branch(vt_certify *c, const double *x, int64_t label, double radius, limit until, verdict *out,
                        vt_err *e) {
    double margin;
    *out = UNDECIDED;
    set_box(c, x, radius);
    memcpy(c->stack, c->lo, c->n * sizeof *c->lo), memcpy(c->stack + c->n, c->hi, c->n * sizeof *c->hi);
    for (size_t open = 1; open > 0;) {
        if (open >= DEEPEST || is_over(c, until)) return VT_OK;
        const double *lo = c->stack + (open - 1) * 2 * c->n;
        memcpy(c->lo, lo, c->n * sizeof *lo), memcpy(c->hi, lo + c->n, c->n * sizeof *lo);
        if (is_outside(c, x, radius)) {
            open--;
            continue;
        }
        VT_TRY(bound_margin(c, label, quick, 2, &margin, e));
        if (margin > 0) {
            open--;
            continue;
        }
        VT_TRY(split_box(c, label, open - 1, e));
        open++;
        if (is_broken(c, label)) {
            *out = BROKEN;
            return VT_OK;
        }
    }
    *out = PROVEN;
    return VT_OK;
}

/* Proves the radius with better lines, and by parts of the ranges of inner numbers, for inputs whose boxes are not
 * halved. */
static vt_status try_harder(vt_certify *c, const double *x, int64_t label, double radius, limit until,
                            vt_certified *out, verdict *v, vt_err *e) {
    const pairs p = {label, c->classes};
    double margin;
    set_box(c, x, radius);
    VT_TRY(bound_margin(c, label, thorough, 2, &margin, e));
    bool yes = margin > 0;
    if (!yes && c->bounded) {
        yes = true;
        for (size_t i = 0; yes && i < pairs_of(c); i++)
            if (!(c->margin[i] > 0))
                VT_TRY(vt_relax_split(c->r, vt_root_of(c->r->g, c->r->g->output), set_pair, &p, i, until.until,
                                      until.boxes, &c->boxes, &yes));
        if (yes) margin = 0;
    }
    *v = yes ? PROVEN : UNDECIDED;
    if (*v == PROVEN || out->radius == 0) out->margin = margin;
    if (*v == PROVEN) out->radius = radius;
    return VT_OK;
}

/* Larger radii than plain bounds certify. */
static vt_status refine_radius(vt_certify *c, const double *x, int64_t label, double farthest, vt_certified *out,
                               vt_err *e) {
    double bad = INFINITY, step = 1.3; /* with better lines each try costs seconds: to 2 % */
    const double least = c->n <= SPLIT_MOST ? 1.002 : 1.02;
    verdict v;
    if (c->o.plain && c->n > SPLIT_MOST) return VT_OK;
    if (c->o.intervals) return VT_OK;
    while (out->radius > 0 && out->radius < farthest && !is_over(c, limit_of(c)) && step > least) {
        const double at = fmin(isinf(bad) ? out->radius * step : sqrt(out->radius * bad), farthest);
        VT_TRY(c->n <= SPLIT_MOST ? branch(c, x, label, at, quarter_of(c), &v, e)
                                  : try_harder(c, x, label, at, quarter_of(c), out, &v, e));
        if (v == PROVEN && at > out->radius) out->radius = at, out->margin = 0;
        if (v == BROKEN) bad = at;
        if (v != PROVEN) step = sqrt(step);
        if (bad < out->radius * (1 + 1e-3)) break;
    }
    return VT_OK;
}

/* Searches out's radius by growing or shrinking, then bisecting; refine_radius takes what time is left. */
static vt_status search_radius(vt_certify *c, const double *x, int64_t label, vt_certified *out, vt_err *e) {
    const double n = (double)c->n,
                 width = c->o.norm == VT_CERTIFY_LINF ? 1
                         : c->o.norm == VT_CERTIFY_L2 ? sqrt(n)
                                                      : n,
                 farthest = c->o.unboxed ? VT_CERTIFY_FARTHEST : width; /* of the box */
    double good = 0, bad = INFINITY, at = 0x1p-6;
    bool yes;
    while (at >= 0x1p-30 && !is_over(c, limit_of(c))) {
        VT_TRY(try_radius(c, x, label, at, out, &yes, e));
        if (yes)
            good = at;
        else
            bad = at;
        if (good >= farthest || (good > 0 && bad < good * (1 + 1e-3))) break;
        at = good == 0 ? at / 4 : isinf(bad) ? fmin(good * 4, farthest) : sqrt(good * bad);
    }
    return refine_radius(c, x, label, farthest, out, e);
}

vt_status vt_certify_point(vt_certify *c, const double *x, int64_t label, vt_certified *out, vt_err *e) {
    const double begun = vt_now();
    bool yes;
    *out = (vt_certified){0};
    c->boxes = 0, c->until = c->r->until = begun + c->o.seconds;
    VT_TRY(try_radius(c, x, label, 0, out, &yes, e)); /* is it classified as the label? */
    if (yes && c->o.radius > 0) {
        verdict v = UNDECIDED;
        VT_TRY(try_radius(c, x, label, c->o.radius, out, &yes, e));
        yes = yes || c->o.intervals; /* no further try */
        if (!yes && c->n <= SPLIT_MOST) VT_TRY(branch(c, x, label, c->o.radius, limit_of(c), &v, e));
        if (v == PROVEN) out->radius = c->o.radius, out->margin = 0;
        if (!yes && c->n > SPLIT_MOST && !c->o.plain)
            VT_TRY(try_harder(c, x, label, c->o.radius, limit_of(c), out, &v, e));
    } else if (yes)
        VT_TRY(search_radius(c, x, label, out, e));
    out->boxes = c->boxes, out->seconds = vt_now() - begun;
    return VT_OK;
}
