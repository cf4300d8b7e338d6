/* SPDX-License-Identifier: MIT */
/* What SpecFormer's Theorem 4.2 bounds, measured: layer by layer, the spectral norm of the Jacobian of the attention
 * sublayer X -> concat_h(softmax(scale Q_h K_h^T) V_h) W_O^T at its real input, beside a bound at that point, the
 * corrected closed form over the ball of radius delta0, and the theorem as printed. Bounds of heads are put together as
 * |W_O| sqrt(sum_h bound_h^2). */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "research/analysis/analyze.h"
#include "research/analysis/layers.h"
#include "research/analysis/lines.h"
#include "research/analysis/lipschitz.h"
#include "linalg/gemm.h"
#include "base/mem.h"

typedef struct params {
    double delta0, tol;
    int steps;
} params;

static const vt_opt opts[] = {
    VT_OPT_R_OR("delta0", params, delta0, "radius of the ball at every layer's input, in Frobenius norm", "as attacked",
                -1, 0, 1e9),
    VT_OPT_I("steps", params, steps, "most steps of a power iteration", 1000, 1, 1000000),
    VT_OPT_R("tol", params, tol, "relative error at which it ends", 1e-8, 1e-14, 0.1),
    VT_OPT_END,
};

/* One layer at one image; NaN: does not apply (attention that is no plain dot product; no attack). */
typedef struct row {
    double delta0, longest, frobenius; /* max_i |x_i| and |X|_F of the clean input */
    double clean, attacked;            /* the Jacobian's norm at both points */
    double pointwise, pointwise_attacked, closed, specformer, moved;
    bool converged, guaranteed;
} row;

typedef struct layer_norms {
    double o;
    vt_head_norms *heads; /* [most heads] */
} layer_norms;

typedef struct job {
    const vt_analyze *a;
    const params *p;
    int depth, heads;
    layer_norms *norms; /* [depth] */
    row *rows;          /* [images, depth] */
} job;

/* Layer hook: sets the block's |W_O| (1 without W_O) and, of a dot-product layer, the norms of each head. */
static vt_status measure_weight_norms(void *ctx, const vt_layer *l, vt_err *e) {
    job *j = ctx;
    layer_norms *n = &j->norms[l->block];
    n->o = 1;
    if (l->w_o) VT_TRY(vt_matrix_norm(&n->o, l->w_o, l->c, l->a, l->a, e));
    for (int h = 0; h < l->heads && l->dot; h++) {
        vt_head_at at = vt_layer_head(l, h);
        VT_TRY(vt_head_norms_of(&n->heads[h], &at, e));
    }
    return VT_OK;
}

typedef struct place {
    job *j;
    vt_analysis_worker *b;
    row *rows;       /* [depth] */
    double **x, **o; /* [depth]: input and output of the attacked pass, [t, c] */
    bool attacked;
} place;

/* Sets *out to the spectral norm of the sublayer's Jacobian at its input, by power iteration from a start keyed by
 * (seed, image, block); *converged: it reached tol. */
static vt_status jacobian_norm(double *out, bool *converged, const place *p, const vt_layer *l, vt_err *e) {
    vt_layer_map map;
    vt_norm_found f;
    vt_rng key = {.seed = p->j->a->seed,
                  .purpose = vt_rng_purpose("analyze lipschitz"),
                  .image = (uint32_t)p->b->image,
                  .run = (uint32_t)l->block};
    VT_TRY(vt_layer_map_open(&map, l, -1, e));
    vt_operator op = vt_layer_operator(&map);
    vt_status s = vt_operator_norm(&f, &op, &key, p->j->p->steps, p->j->p->tol, e);
    vt_layer_map_close(&map);
    *out = f.sigma, *converged = f.converged;
    return s;
}

/* out [t, c] = concat_h(P_h V_h) W_O^T, without its bias, or without W_O if there is none; VT_E_MEMORY. */
static vt_status compute_output(double *out, const vt_layer *l, vt_err *e) {
    double *o = vt_alloc((size_t)l->t * (size_t)l->a * sizeof *o);
    if (!o) return vt_fail(e, VT_E_MEMORY, "no memory for a layer's output");
    for (int h = 0; h < l->heads; h++)
        vt_gemm_f64(false, false, l->t, l->d, l->t, 1, l->p + (size_t)h * (size_t)l->t * (size_t)l->ldp, l->ldp,
                    l->v + h * l->d, l->ldv, 0, o + h * l->d, l->a);
    if (l->w_o)
        vt_gemm_f64(false, true, l->t, l->c, l->a, 1, o, l->a, l->w_o, l->a, 0, out, l->c);
    else
        memcpy(out, o, (size_t)l->t * (size_t)l->a * sizeof *o);
    free(o);
    return VT_OK;
}

/* out = |W_O| sqrt(sum over heads of vt_lipschitz_pointwise^2), at the layer's input; VT_E_MEMORY, VT_E_NUMERIC. */
static vt_status layer_pointwise_bound(double *out, const job *j, const vt_layer *l, vt_err *e) {
    double sum = 0, one;
    const layer_norms *n = &j->norms[l->block];
    for (int h = 0; h < l->heads; h++) {
        vt_head_at at = vt_layer_head(l, h);
        VT_TRY(vt_lipschitz_pointwise(&one, &at, &n->heads[h], e));
        sum += one * one;
    }
    *out = n->o * sqrt(sum);
    return VT_OK;
}

/* Layer hook of the attacked pass: keeps the input [t, c] in place.x, sets the row's attacked and converged and, of a
 * dot-product layer, pointwise_attacked and the output in place.o. VT_E_MEMORY, VT_E_NUMERIC. */
static vt_status save_attacked_layer(void *ctx, const vt_layer *l, vt_err *e) {
    place *p = ctx;
    row *r = &p->rows[l->block];
    size_t n = (size_t)l->t * (size_t)l->c;
    bool good;
    double *x = p->x[l->block] = vt_alloc(2 * n * sizeof *x);
    if (!x) return vt_fail(e, VT_E_MEMORY, "no memory for a layer's input");
    p->o[l->block] = x + n;
    memcpy(x, l->x, n * sizeof *x);
    VT_TRY(jacobian_norm(&r->attacked, &good, p, l, e));
    r->converged = good;
    if (!l->dot) return VT_OK;
    VT_TRY(layer_pointwise_bound(&r->pointwise_attacked, p->j, l, e));
    return compute_output(x + n, l, e);
}

/* r->moved = |F(X_adv) - F(X)| / |X_adv - X|, Frobenius; NaN if the input did not move. */
static vt_status measure_move(row *r, const place *p, const vt_layer *l, vt_err *e) {
    size_t n = (size_t)l->t * (size_t)l->c;
    double *out = vt_alloc(n * sizeof *out), sum = 0;
    if (!out) return vt_fail(e, VT_E_MEMORY, "no memory for a layer's output");
    vt_status s = compute_output(out, l, e);
    for (size_t i = 0; i < n; i++) sum += (p->o[l->block][i] - out[i]) * (p->o[l->block][i] - out[i]);
    free(out);
    r->moved = r->delta0 > 0 ? sqrt(sum) / r->delta0 : NAN;
    return s;
}

/* Sets both closed forms over the ball of r->delta0, and whether Theorem 4.2's condition holds. */
static void set_closed_forms(row *r, const job *j, const vt_layer *l) {
    const layer_norms *n = &j->norms[l->block];
    double closed = 0, printed = 0, ball = r->frobenius + r->delta0;
    for (int h = 0; h < l->heads; h++) {
        double a = vt_lipschitz_closed(&n->heads[h], l->t, r->longest + r->delta0);
        double b = vt_lipschitz_specformer(&n->heads[h], l->t, ball);
        closed += a * a, printed += b * b;
    }
    r->closed = n->o * sqrt(closed), r->specformer = n->o * sqrt(printed);
    r->guaranteed = vt_lipschitz_guaranteed(ball);
}

/* Layer hook of the clean pass, after the attacked one, if any: sets the row's clean, longest, frobenius, delta0
 * (--delta0 replaces it) and, of a dot-product layer, bounds and (if attacked) moved; converged: both did. */
static vt_status measure_clean_layer(void *ctx, const vt_layer *l, vt_err *e) {
    place *p = ctx;
    row *r = &p->rows[l->block];
    size_t n = (size_t)l->t * (size_t)l->c;
    const double *adv = p->x[l->block];
    bool good;
    double sum = 0;
    for (size_t i = 0; adv && i < n; i++) sum += (adv[i] - l->x[i]) * (adv[i] - l->x[i]);
    r->delta0 = adv ? sqrt(sum) : 0;
    VT_TRY(jacobian_norm(&r->clean, &good, p, l, e));
    r->converged = good && (!adv || r->converged);
    r->longest = vt_longest_row(l->x, l->t, l->c), r->frobenius = vt_length64(l->x, n);
    if (l->dot && adv) VT_TRY(measure_move(r, p, l, e));
    if (p->j->p->delta0 >= 0) r->delta0 = p->j->p->delta0;
    if (!l->dot) return VT_OK;
    set_closed_forms(r, p->j, l);
    return layer_pointwise_bound(&r->pointwise, p->j, l, e);
}

/* Fills the rows [depth] of image i; numbers that do not apply stay NaN. */
static vt_status measure_image(void *ctx, vt_analysis_worker *b, size_t i, vt_err *e) {
    job *j = ctx;
    size_t depth = (size_t)j->depth;
    place p = {.j = j, .b = b, .rows = j->rows + i * depth};
    for (size_t k = 0; k < depth; k++)
        p.rows[k] = (row){NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, false, false};
    p.x = calloc(2 * depth, sizeof *p.x), p.o = p.x ? p.x + depth : NULL;
    if (!p.x) return vt_fail(e, VT_E_MEMORY, "no memory for %zu layers", depth);
    vt_status s = VT_OK;
    if (b->attacked) s = vt_layers_forward(b->session, b->adv64, false, save_attacked_layer, &p, NULL, e);
    if (s == VT_OK) s = vt_layers_forward(b->session, b->x64, false, measure_clean_layer, &p, NULL, e);
    for (size_t k = 0; k < depth; k++) free(p.x[k]);
    free(p.x);
    return s;
}

/* Mean over images of the layer's double at a byte offset of row. */
static double image_mean(const job *j, int layer, size_t offset) {
    double sum = 0;
    for (size_t i = 0; i < j->a->n_images; i++)
        sum += *(const double *)((const char *)&j->rows[i * (size_t)j->depth + (size_t)layer] + offset);
    return sum / (double)j->a->n_images;
}

static const struct {
    const char *key;
    bool shown;
    size_t offset;
} columns[] = {
    {"frobenius", true, offsetof(row, frobenius)},    {"longest_token", true, offsetof(row, longest)},
    {"delta0", true, offsetof(row, delta0)},          {"true", true, offsetof(row, clean)},
    {"true_attacked", true, offsetof(row, attacked)}, {"moved", true, offsetof(row, moved)},
    {"pointwise", true, offsetof(row, pointwise)},    {"pointwise_attacked", false, offsetof(row, pointwise_attacked)},
    {"closed", true, offsetof(row, closed)},          {"specformer", true, offsetof(row, specformer)},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* Adds to four counts of images at a layer: theorem's condition not met, pointwise or closed bound exceeded, Theorem
 * 4.2 exceeded, iteration not converged. Rounding and early stops stay below the tolerance of 1e-6. */
static void count_violations(const job *j, int layer, int *loose, int *broken, int *printed_broken,
                             int *not_converged) {
    const double most = 1 + 1e-6;
    for (size_t i = 0; i < j->a->n_images; i++) {
        const row *r = &j->rows[i * (size_t)j->depth + (size_t)layer];
        double there = isnan(r->attacked) || j->p->delta0 >= 0 ? r->clean : fmax(r->clean, r->attacked);
        *not_converged += !r->converged;
        if (isnan(r->closed)) continue;
        *loose += !r->guaranteed;
        *broken += r->clean > most * r->pointwise || r->attacked > most * r->pointwise_attacked ||
                   there > most * r->closed || (j->p->delta0 < 0 && r->moved > most * r->closed);
        *printed_broken += there > most * r->specformer;
    }
}

/* Prints a line of means for each layer, with remarks, then the counts of violations. */
static void print_table(const job *j, int subject, FILE *out) {
    int broken = 0, all_broken = 0, open = 0;
    vt_columns t;
    vt_analyze_title(out, j->a, subject);
    vt_columns_titles(&t, "layer\t|X|_F\tmax|x_i|\tdelta0\ttrue\tattacked\tmoved\tpointwise\tclosed\tThm 4.2\t-");
    for (int l = 0; l < j->depth; l++) {
        int loose = 0, printed_broken = 0;
        count_violations(j, l, &loose, &broken, &printed_broken, &open);
        char remark[120] = "";
        vt_columns_cell(&t, "%d", l);
        for (int c = 0; c < COLUMNS; c++)
            if (columns[c].shown) vt_analyze_cell(&t, image_mean(j, l, columns[c].offset));
        if (loose)
            snprintf(remark, sizeof remark, "not guaranteed: |X|_F + delta0 < 1 at %d image%s%s", loose,
                     loose == 1 ? "" : "s", printed_broken ? ", " : "");
        if (printed_broken)
            snprintf(remark + strlen(remark), sizeof remark - strlen(remark), "violated at %d", printed_broken);
        vt_columns_cell(&t, "%s", remark);
        all_broken += printed_broken;
    }
    vt_columns_end(&t, out, VT_LOOK_PAGE);
    fprintf(out,
            "means over images; violations at %zu images x %d layers: pointwise and closed form %d, Theorem 4.2 %d\n",
            j->a->n_images, j->depth, broken, all_broken);
    if (open) fprintf(out, "%d power iterations had not converged (--steps): 'true' is below the norm there\n", open);
}

/* Stores a row for each image and layer as JSON; VT_E_MEMORY. */
static vt_status store_results(const job *j, json_t *json, int subject, vt_err *e) {
    json_t *images = json_array();
    for (size_t i = 0; i < j->a->n_images; i++) {
        json_t *layers = json_array();
        for (int l = 0; l < j->depth; l++) {
            const row *r = &j->rows[i * (size_t)j->depth + (size_t)l];
            json_t *x = json_pack("{s:i,s:b,s:b}", "layer", l, "converged", r->converged, "guaranteed", r->guaranteed);
            for (int c = 0; c < COLUMNS; c++)
                json_object_set_new(x, columns[c].key,
                                    vt_json_real(*(const double *)((const char *)r + columns[c].offset)));
            json_array_append_new(layers, x);
        }
        json_array_append_new(images, json_pack("{s:i,s:o}", "image", j->a->images[i], "layers", layers));
    }
    return vt_analyze_put(json, subject, json_pack("{s:o}", "images", images), e);
}

/* Adds four curves over layers: the measured norm and three bounds, means over images. */
static void add_figure_lines(vt_lines *f, const job *j, int subject) {
    static const struct {
        const char *name;
        size_t offset;
    } lines[] = {{"true", offsetof(row, clean)},
                 {"pointwise", offsetof(row, pointwise)},
                 {"closed form", offsetof(row, closed)},
                 {"Theorem 4.2", offsetof(row, specformer)}};
    for (int k = 0; k < 4; k++) {
        double *y = vt_lines_add(f, j->a, subject, lines[k].name);
        for (int l = 0; l < j->depth; l++) y[l] = image_mean(j, l, lines[k].offset);
    }
}

/* Image callback: one clean pass that measures the weight norms. */
static vt_status measure_norms_once(void *ctx, vt_analysis_worker *b, size_t i, vt_err *e) {
    (void)i;
    return vt_layers_forward(b->session, b->x64, false, measure_weight_norms, ctx, NULL, e);
}

/* Allocates norms and rows, which run frees, and fills them by one image and by all images. */
static vt_status measure_subject(job *j, const vt_analyzed *s, vt_err *e) {
    size_t depth = (size_t)j->depth, heads = (size_t)j->heads;
    j->norms = calloc(depth, sizeof *j->norms), j->rows = calloc(depth * j->a->n_images, sizeof *j->rows);
    vt_head_norms *all = calloc(depth * heads, sizeof *all);
    vt_status st = j->norms && j->rows && all ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for %zu layers", depth);
    for (size_t l = 0; st == VT_OK && l < depth; l++) j->norms[l].heads = all + l * heads;
    vt_analyze once = *j->a;
    once.n_images = 1, once.attack = NULL, once.progress = NULL;
    if (st == VT_OK) st = vt_analysis_images(&once, s, measure_norms_once, j, e);
    if (st == VT_OK) st = vt_analysis_images(j->a, s, measure_image, j, e);
    free(all);
    return st;
}

static vt_status run(const vt_analyze *a, const void *params_, FILE *out, json_t *json, vt_err *e) {
    vt_lines figure;
    vt_status s = VT_OK;
    VT_TRY(
        vt_lines_open(&figure, vt_lines_deepest(a), "Lipschitz constants of attention", "mean over images", true, e));
    for (int i = 0; i < a->n && s == VT_OK; i++) {
        const vt_config *c = &a->subjects[i].model->config;
        job j = {.a = a, .p = params_, .depth = c->depth, .heads = c->heads};
        s = measure_subject(&j, &a->subjects[i], e);
        if (s == VT_OK) print_table(&j, i, out), add_figure_lines(&figure, &j, i);
        if (s == VT_OK) s = store_results(&j, json, i, e);
        free(j.norms), free(j.rows);
    }
    if (s == VT_OK) s = vt_lines_draw(&figure, a, "lipschitz", e);
    vt_lines_free(&figure);
    return s;
}

/* VT_E_USAGE if neither an attack nor --delta0 gives the radius. */
static vt_status check(const vt_analyze *a, const void *params_, vt_err *e) {
    if (a->attack || ((const params *)params_)->delta0 >= 0) return VT_OK;
    return vt_fail(e, VT_E_USAGE,
                   "analysis lipschitz needs the radius of a ball: --eps (and --attack), whose move at every layer's "
                   "input it measures, or --delta0");
}

/* Inputs and outputs of the attacked pass, at all layers, for every thread. */
static size_t bytes(const vt_analyze *a, const vt_analyzed *s, const void *params_) {
    (void)params_;
    const vt_config *c = &s->model->config;
    size_t n = (size_t)vt_config_tokens(c) * (size_t)c->dim;
    return (size_t)a->threads * ((size_t)c->depth * 2 + 12) * n * sizeof(double);
}

const vt_analysis_def vt_analysis_def_lipschitz = {
    .name = "lipschitz",
    .summary = "attention's local Lipschitz constants by layer: measured, and bounded in three ways",
    .source = "SpecFormer (Hu et al. 2024), Theorem 4.2 and Lemma 1; corrected closed form (docs/analysis.md)",
    .wants = VT_WANTS_IMAGES | VT_TAKES_ATTACK | VT_WANTS_ATTENTION,
    .opts = opts,
    .params_size = sizeof(params),
    .check = check,
    .bytes = bytes,
    .run = run,
};
