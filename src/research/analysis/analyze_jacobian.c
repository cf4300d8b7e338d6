/* SPDX-License-Identifier: MIT */
/* The local Lipschitz constant of the whole network at real images (SpecFormer, Definition 2 and Theorem 4.1): the
 * largest singular value of the Jacobian of the logits, at the image and at points of the ball around it, a lower bound
 * of the constant over that ball; Proposition 1's ratio |f(x+d) - f(x)| / |d| for the attack's own d and for a
 * thousandth of it; and the distance of the nearest adversarial image that DDN finds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "models/net/session64.h"
#include "research/analysis/analyze.h"
#include "research/analysis/jacobian.h"

typedef struct params {
    int points, steps, ddn_steps;
    double tol, small;
} params;

static const vt_opt opts[] = {
    VT_OPT_I("points", params, points, "random points of the ball where the norm is taken too", 0, 0, 1000),
    VT_OPT_R("small", params, small, "share of the attack's d for the ratio at small d", 0.001, 1e-6, 1),
    VT_OPT_I("ddn_steps", params, ddn_steps, "steps of DDN (0: leave it out)", 100, 0, 100000),
    VT_OPT_I("steps", params, steps, "most steps of a power iteration", 1000, 1, 1000000),
    VT_OPT_R("tol", params, tol, "relative error at which it ends", 1e-8, 1e-14, 0.1),
    VT_OPT_END,
};

/* NaN: not measured. */
typedef struct row {
    int label, predicted;
    double sigma, ball;          /* at the image; the largest of all points measured */
    double length, ratio, small; /* |d|_2 of the attack; Proposition 1's ratios */
    double first_order;          /* margin / (sqrt 2 sigma) */
    double ddn;                  /* INFINITY: nothing found */
    bool converged, broken;
} row;

typedef struct job {
    const vt_analyze *a;
    const params *p;
    const vt_attack_stage *ddn;
    const vt_model *model;
    row *rows;
} job;

/* Sets *sigma to the largest singular value of j's Jacobian, by power iteration from a start keyed by (seed, image,
 * point); *converged: it reached tol. */
static vt_status norm_at(double *sigma, bool *converged, vt_jacobian *j, const job *w, const vt_analysis_worker *b,
                         int point, vt_err *e) {
    vt_norm_found f;
    vt_operator op = vt_jacobian_operator(j);
    vt_rng key = {.seed = w->a->seed,
                  .purpose = vt_rng_purpose("analyze jacobian"),
                  .image = (uint32_t)b->image,
                  .run = (uint32_t)point};
    VT_TRY(vt_operator_norm(&f, &op, &key, w->p->steps, w->p->tol, e));
    *sigma = f.sigma, *converged = f.converged;
    return VT_OK;
}

/* Sets predicted, and first_order = max(z_label - largest other z, 0) / (sqrt 2 sigma), the radius at slope sigma. */
static void set_margin_estimate(row *r, const vt_jacobian *j) {
    double next = -INFINITY;
    r->predicted = vt_argmax_f64(j->z, j->classes);
    for (int k = 0; k < j->classes; k++)
        if (k != r->label) next = fmax(next, j->z[k]);
    r->first_order = fmax(j->z[r->label] - next, 0) / (sqrt(2) * r->sigma);
}

/* Raises r->ball to sigma at the attacked point and at w->p->points random points of the attack's ball, keyed by (seed,
 * image, point); r->converged: all of them did. Overwrites b's adv64 and attacker.x_adv. */
static vt_status raise_over_ball(row *r, vt_jacobian *j, const job *w, vt_analysis_worker *b, vt_err *e) {
    vt_ball ball;
    vt_ball_init(&ball, w->a->norm, w->a->eps, b->x, b->pixels, b->attacker.lo, b->attacker.hi);
    for (int k = 0; k <= w->p->points; k++) {
        double sigma;
        bool good;
        vt_rng key = {.seed = w->a->seed,
                      .purpose = vt_rng_purpose("analyze jacobian ball"),
                      .image = (uint32_t)b->image,
                      .run = (uint32_t)k};
        if (k > 0) vt_ball_start_inside(&ball, &key, b->attacker.x_adv);
        for (size_t i = 0; k > 0 && i < b->pixels; i++) b->adv64[i] = (double)b->attacker.x_adv[i];
        vt_jacobian_at(j, b->adv64);
        VT_TRY(norm_at(&sigma, &good, j, w, b, 1 + k, e));
        r->ball = fmax(r->ball, sigma), r->converged = r->converged && good;
    }
    return VT_OK;
}

/* Sets r's numbers of one image, those of the attack only if there is one; ddn is 0 if the image is misclassified and
 * stays NaN without DDN. Overwrites b's adv64 and attacker.x_adv. */
static vt_status fill_row(row *r, vt_jacobian *j, const job *w, vt_analysis_worker *b, vt_err *e) {
    vt_jacobian_at(j, b->x64);
    VT_TRY(norm_at(&r->sigma, &r->converged, j, w, b, 0, e));
    set_margin_estimate(r, j);
    r->ball = r->sigma;
    if (b->attacked) {
        r->length = vt_distance(VT_L2, b->x, b->attacker.x_adv, b->pixels), r->broken = b->broken;
        r->ratio = vt_jacobian_ratio(j, b->adv64, 1), r->small = vt_jacobian_ratio(j, b->adv64, w->p->small);
        VT_TRY(raise_over_ball(r, j, w, b, e));
    }
    if (!w->ddn) return VT_OK;
    if (r->predicted != r->label) {
        r->ddn = 0;
        return VT_OK;
    }
    return vt_analysis_worker_nearest(b, w->ddn, VT_L2, &r->ddn, e);
}

/* Fills row i, numbers that do not apply stay NaN. */
static vt_status measure_image(void *ctx, vt_analysis_worker *b, size_t i, vt_err *e) {
    job *w = ctx;
    row *r = &w->rows[i];
    vt_jacobian j;
    *r = (row){.label = b->label, .ball = NAN, .length = NAN, .ratio = NAN, .small = NAN, .ddn = NAN};
    VT_TRY(vt_jacobian_open(&j, b->session, w->model, vt_jacobian_dense(w->model), e));
    vt_status s = fill_row(r, &j, w, b, e);
    vt_jacobian_close(&j);
    return s;
}

/* Rank of v[i], from 1, among the v[k] for which v[k] and other[k] are finite; ties share their mean rank. */
static double rank_of_value(const double *v, const double *other, size_t n, size_t i) {
    double below = 0, same = 0;
    for (size_t k = 0; k < n; k++)
        if (isfinite(v[k]) && isfinite(other[k])) below += v[k] < v[i], same += v[k] == v[i];
    return below + (same + 1) / 2;
}

/* Pearson's correlation of ranks, over pairs that are both finite; NaN if one side is constant. */
static double spearman_correlation(const double *a, const double *b, size_t n) {
    double sa = 0, sb = 0, aa = 0, bb = 0, ab = 0, m = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(a[i]) || !isfinite(b[i])) continue;
        double x = rank_of_value(a, b, n, i), y = rank_of_value(b, a, n, i);
        m++, sa += x, sb += y, aa += x * x, bb += y * y, ab += x * y;
    }
    double va = m * aa - sa * sa, vb = m * bb - sb * sb;
    return va > 0 && vb > 0 ? (m * ab - sa * sb) / sqrt(va * vb) : NAN;
}

static const struct {
    const char *key;
    size_t offset;
} columns[] = {
    {"sigma_max", offsetof(row, sigma)},   {"sigma_max_ball", offsetof(row, ball)},
    {"d_l2", offsetof(row, length)},       {"ratio", offsetof(row, ratio)},
    {"ratio_small", offsetof(row, small)}, {"first_order", offsetof(row, first_order)},
    {"ddn", offsetof(row, ddn)},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* A row's number in columns[column]. */
static double value_of_column(const row *r, int column) {
    return *(const double *)((const char *)r + columns[column].offset);
}

/* Mean over images of a column's finite values; NaN if there are none. */
static double column_mean(const job *j, int column) {
    double sum = 0, n = 0;
    for (size_t i = 0; i < j->a->n_images; i++)
        if (isfinite(value_of_column(&j->rows[i], column))) sum += value_of_column(&j->rows[i], column), n++;
    return n > 0 ? sum / n : NAN;
}

/* Rank correlation with DDN's distance of the row's double at offset `of`, over images predicted right; or NaN. */
static double correlation_with_ddn(const job *j, size_t of) {
    size_t n = j->a->n_images;
    double *v = calloc(2 * n, sizeof *v), r = NAN;
    for (size_t i = 0; v && i < n; i++) {
        const row *x = &j->rows[i];
        bool right = x->predicted == x->label;
        v[i] = right ? *(const double *)((const char *)x + of) : NAN, v[n + i] = x->ddn;
    }
    if (v) r = spearman_correlation(v, v + n, n);
    free(v);
    return r;
}

/* Prints a line for each image, their means, how many are right, and the rank correlations with DDN. */
static void print_table(const job *j, int subject, FILE *out) {
    size_t right = 0, open = 0;
    vt_columns t;
    vt_analyze_title(out, j->a, subject);
    vt_columns_titles(&t,
                      "image\tlabel\tsays\tsigma_max\tover ball\t|d|_2\tratio at d\tat small d\tmargin/L\tDDN l2\t-");
    for (size_t i = 0; i < j->a->n_images; i++) {
        const row *r = &j->rows[i];
        vt_columns_cells(&t, "%d\t%d\t%d", j->a->images[i], r->label, r->predicted);
        for (int c = 0; c < COLUMNS; c++) vt_analyze_cell(&t, value_of_column(r, c));
        vt_columns_cell(&t, "%s%s%s", r->broken ? "broken" : "", r->broken && !r->converged ? ", " : "",
                        r->converged ? "" : "not converged");
        right += r->predicted == r->label, open += !r->converged;
    }
    vt_columns_cells(&t, "mean\t\t");
    for (int c = 0; c < COLUMNS; c++) vt_analyze_cell(&t, column_mean(j, c));
    vt_columns_cell(&t, "%s", "");
    vt_columns_end(&t, out, VT_LOOK_PAGE);
    fprintf(out, "%zu of %zu right", right, j->a->n_images);
    double by_sigma = correlation_with_ddn(j, offsetof(row, sigma)),
           by_margin = correlation_with_ddn(j, offsetof(row, first_order));
    if (!isnan(by_sigma))
        fprintf(out, "; rank correlation with DDN's distance where right: sigma_max %.3f, margin/L %.3f", by_sigma,
                by_margin);
    if (open) fprintf(out, "; %zu iterations had not converged: their sigma_max is too small", open);
    fprintf(out, "\n");
}

/* Stores under the checkpoint's letter in json: each image's row, and the rank correlations of sigma_max and of the
 * margin over L with DDN's distance (correlation_with_ddn). Fails for memory. */
static vt_status store_results(const job *j, json_t *json, int subject, vt_err *e) {
    json_t *images = json_array();
    for (size_t i = 0; i < j->a->n_images; i++) {
        const row *r = &j->rows[i];
        json_t *o = json_pack("{s:i,s:i,s:i,s:b,s:b}", "image", j->a->images[i], "label", r->label, "predicted",
                              r->predicted, "broken", r->broken, "converged", r->converged);
        for (int c = 0; c < COLUMNS; c++) json_object_set_new(o, columns[c].key, vt_json_real(value_of_column(r, c)));
        json_array_append_new(images, o);
    }
    return vt_analyze_put(json, subject,
                          json_pack("{s:o,s:o,s:o}", "images", images, "rank_correlation_sigma_ddn",
                                    vt_json_real(correlation_with_ddn(j, offsetof(row, sigma))),
                                    "rank_correlation_first_order_ddn",
                                    vt_json_real(correlation_with_ddn(j, offsetof(row, first_order)))),
                          e);
}

/* One point an image, one cloud a checkpoint. */
typedef struct cloud {
    const vt_analyze *a;
    row *rows[VT_ANALYZE_MOST];
} cloud;

/* Figure: DDN's distance over sigma (log), a series for each checkpoint, of correctly classified images. */
static void draw_cloud(vt_figure *f, const void *data) {
    const cloud *c = data;
    vt_figure_panel(f, &(vt_panel){.x = "sigma max of the input-logit Jacobian",
                                   .y = "l2 distance that DDN finds",
                                   .kind = VT_LOG_X});
    for (int s = 0; s < c->a->n; s++) {
        vt_figure_series(f, VT_MARKS, "%c", 'A' + s);
        for (size_t i = 0; i < c->a->n_images; i++) {
            const row *r = &c->rows[s][i];
            if (r->predicted == r->label) vt_figure_point(f, r->sigma, r->ddn);
        }
    }
}

static vt_status run(const vt_analyze *a, const void *params_, FILE *out, json_t *json, vt_err *e) {
    const params *p = params_;
    vt_attack ddn = {0};
    char spec[40];
    cloud c = {.a = a};
    snprintf(spec, sizeof spec, "ddn:steps=%d", p->ddn_steps);
    if (p->ddn_steps) VT_TRY(vt_attack_parse(&ddn, spec, VT_L2, e));
    vt_status s = VT_OK;
    for (int i = 0; i < a->n && s == VT_OK; i++) {
        job j = {.a = a, .p = p, .ddn = p->ddn_steps ? &ddn.stages[0] : NULL, .model = a->subjects[i].model};
        j.rows = c.rows[i] = calloc(a->n_images, sizeof *j.rows);
        s = j.rows ? vt_analysis_images(a, &a->subjects[i], measure_image, &j, e)
                   : vt_fail(e, VT_E_MEMORY, "no memory for images");
        if (s == VT_OK) print_table(&j, i, out), s = store_results(&j, json, i, e);
    }
    if (s == VT_OK && p->ddn_steps)
        s = vt_analyze_figure(a, "jacobian", "Largest singular value and distance of every image", -1, draw_cloud, &c,
                              e);
    for (int i = 0; i < a->n; i++) free(c.rows[i]);
    vt_attack_free(&ddn);
    return s;
}

/* One Jacobian for each thread. */
static size_t bytes(const vt_analyze *a, const vt_analyzed *s, const void *params_) {
    (void)params_;
    return (size_t)a->threads * vt_jacobian_bytes(s->model);
}

const vt_analysis_def vt_analysis_def_jacobian = {
    .name = "jacobian",
    .summary = "local Lipschitz constant of the whole network, beside the distances that attacks find",
    .source = "SpecFormer (Hu et al. 2024), Definition 2, Theorem 4.1, Proposition 1; DDN: Rony et al. 2019",
    .wants = VT_WANTS_IMAGES | VT_TAKES_ATTACK,
    .opts = opts,
    .params_size = sizeof(params),
    .bytes = bytes,
    .run = run,
};
