/* SPDX-License-Identifier: MIT */
/* SpecFormer, Fig. 2(b, c): what the classifier's heads read of images and of their attacked copies, in the plane by
 * t-SNE and by principal components, and the A-distance between the two clouds. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "data/dataset.h"
#include "models/net/session64.h"
#include "research/analysis/adistance.h"
#include "research/analysis/analyze.h"
#include "research/analysis/pca.h"
#include "research/analysis/tsne.h"

enum { SHARES = 10 }; /* principal components whose share of the variance is reported */

typedef struct params {
    double perplexity, exaggeration, rate, lambda;
    int steps, folds;
} params;

static const vt_opt opts[] = {
    VT_OPT_R("perplexity", params, perplexity, "of t-SNE: how many neighbours a point has, so to speak", 30, 2, 10000),
    VT_OPT_I("steps", params, steps, "of t-SNE, the first 250 with exaggeration", 1000, 1, 1000000),
    VT_OPT_R("exaggeration", params, exaggeration, "factor on similarities in those", 12, 1, 1000),
    VT_OPT_R("learning_rate", params, rate, "of t-SNE; 0: max(points / exaggeration / 4, 50)", 0, 0, 1e6),
    VT_OPT_I("folds", params, folds,
             "of the A-distance: a share of images is tested by a classifier trained on the others", 5, 2,
             VT_ADISTANCE_FOLDS),
    VT_OPT_R("lambda", params, lambda, "of that classifier: mean logistic loss + lambda/2 |w|^2", 1e-3, 1e-6, 1000),
    VT_OPT_END,
};

typedef struct row {
    int label, predicted, attacked; /* the network's class of the image and of its attacked copy (-1: none) */
    double moved;                   /* |f(x') - f(x)| / |f(x)|; NaN */
} row;

typedef struct job {
    const vt_analyze *a;
    const params *p;
    int subject;
    size_t d, points;       /* width of a feature; images, and after them their copies */
    double *x, *tsne, *pca; /* [points, d]; [2, points] each */
    row *rows;              /* [images] */
    vt_tsne_result t;
    vt_adistance_result between;
    double share[SHARES]; /* of the first 1, 2, ... components */
} job;

/* Images, and as many copies if there is an attack. */
static size_t count_points(const vt_analyze *a) { return a->n_images * (a->attack ? 2 : 1); }

/* to [d]: the features that the head reads at x; *class: the predicted class. VT_E_NUMERIC if one is not finite. */
static vt_status read_features(double *to, int *class, vt_analysis_worker *b, const double *x, vt_err *e) {
    int d, k = b->classes;
    *class = vt_argmax_f64(vt_session_forward_f64(b->session, x, 1, false), k);
    const double *f = vt_session_features_f64(b->session, 0, &d);
    for (int i = 0; i < d; i++)
        if (!isfinite(f[i]))
            return vt_fail(e, VT_E_NUMERIC, "feature %d of image %d is %g, must be finite", i, b->image, f[i]);
    memcpy(to, f, (size_t)d * sizeof *f);
    return VT_OK;
}

/* Writes the features of image i and of its attacked copy to x, and its row of predictions and relative movement. */
static vt_status measure_image(void *ctx, vt_analysis_worker *b, size_t i, vt_err *e) {
    job *j = ctx;
    row *r = &j->rows[i];
    double *clean = j->x + i * j->d, *copy = clean + j->a->n_images * j->d, moved = 0, length = 0;
    *r = (row){.label = b->label, .attacked = -1, .moved = NAN};
    VT_TRY(read_features(clean, &r->predicted, b, b->x64, e));
    if (!b->attacked) return VT_OK;
    VT_TRY(read_features(copy, &r->attacked, b, b->adv64, e));
    for (size_t k = 0; k < j->d; k++)
        moved += (copy[k] - clean[k]) * (copy[k] - clean[k]), length += clean[k] * clean[k];
    if (length > 0) r->moved = sqrt(moved / length);
    return VT_OK;
}

/* Sets pca [2, points] (the second all 0 if d is 1) and the variance shares; VT_E_NUMERIC if all features are equal. */
static vt_status project_on_components(job *j, vt_err *e) {
    vt_pca p;
    VT_TRY(vt_pca_open(&p, j->x, j->points, j->d, e));
    vt_status s = VT_OK;
    if (!(p.values[0] > 0))
        s = vt_fail(e, VT_E_NUMERIC, "%s: all %zu features are one and the same: there is nothing to show",
                    j->a->subjects[j->subject].path, j->points);
    else
        vt_pca_project(j->pca, j->d > 1 ? 2 : 1, &p, j->x, j->points);
    for (size_t k = 0; k < SHARES; k++) j->share[k] = vt_pca_share(&p, k + 1);
    vt_pca_close(&p);
    return s;
}

/* Sets tsne [2, points], started from the first two components at a deviation of 1e-4, as in scikit-learn, and t.
 * VT_E_NUMERIC if it diverges, VT_INTERRUPTED. */
static vt_status embed_by_tsne(job *j, vt_err *e) {
    size_t n = j->points;
    double square = 0;
    vt_progress *p = j->a->progress;
    for (size_t i = 0; i < n; i++) square += j->pca[i] * j->pca[i];
    for (size_t i = 0; i < 2 * n; i++) j->tsne[i] = j->pca[i] / sqrt(square / (double)n) * 1e-4;
    const vt_tsne o = {.perplexity = j->p->perplexity,
                       .exaggeration = j->p->exaggeration,
                       .rate = j->p->rate,
                       .steps = j->p->steps,
                       .threads = j->a->threads,
                       .interrupt = j->a->interrupt,
                       .progress = p};
    if (p) p->unit = "steps", vt_progress_begin(p, "t-SNE", 0, (size_t)o.steps);
    vt_status s = vt_tsne_run(j->tsne, &j->t, j->x, n, j->d, &o, e);
    if (p && s == VT_OK) vt_progress_end(p, NULL);
    if (p) p->unit = NULL;
    return s;
}

/* Sets between: the A-distance of clean and attacked features, folds keyed by the seed; NaN without an attack. */
static vt_status compute_a_distance(job *j, vt_err *e) {
    const vt_adistance o = {.folds = j->p->folds,
                            .lambda = j->p->lambda,
                            .seed = j->a->seed,
                            .threads = j->a->threads,
                            .interrupt = j->a->interrupt};
    j->between = (vt_adistance_result){.value = NAN, .spread = NAN, .gradient = NAN};
    return j->a->attack ? vt_adistance_run(&j->between, j->x, j->a->n_images, j->d, &o, e) : VT_OK;
}

/* Percent of images predicted as labelled, clean or attacked; NaN for attacked if there is no attack. */
static double accuracy_percent(const job *j, bool attacked) {
    size_t n = 0;
    for (size_t i = 0; i < j->a->n_images; i++)
        n += (attacked ? j->rows[i].attacked : j->rows[i].predicted) == j->rows[i].label;
    return attacked && !j->a->attack ? NAN : 100 * (double)n / (double)j->a->n_images;
}

/* Mean of |f(x') - f(x)| / |f(x)| over the images where it is known; NaN if there are none. */
static double mean_moved(const job *j) {
    double sum = 0, n = 0;
    for (size_t i = 0; i < j->a->n_images; i++)
        if (isfinite(j->rows[i].moved)) sum += j->rows[i].moved, n++;
    return n > 0 ? sum / n : NAN;
}

/* Prints one line: accuracies, A-distance, movement, variance shares and t-SNE's divergence. */
static void print_table(const job *j, FILE *out) {
    const double cells[] = {accuracy_percent(j, false),
                            accuracy_percent(j, true),
                            j->between.value,
                            j->between.spread,
                            mean_moved(j),
                            100 * j->share[0],
                            100 * j->share[1],
                            100 * j->share[9],
                            j->t.kl};
    vt_columns t;
    vt_analyze_title(out, j->a, j->subject);
    fprintf(out, "features: %zu numbers that the head reads, of %zu points\n", j->d, j->points);
    vt_columns_titles(&t, "clean %%\tattacked %%\tA-distance\t+- folds\tmoved\tPC1 %%\tPC1-2 %%\tPC1-10 %%\tt-SNE KL");
    for (size_t k = 0; k < sizeof cells / sizeof *cells; k++) vt_analyze_cell(&t, cells[k]);
    vt_columns_end(&t, out, VT_LOOK_PAGE);
    if (j->t.apart)
        fprintf(out, "%zu points have no %g neighbours to choose: too many others are equally near\n", j->t.apart,
                j->p->perplexity);
}

/* [y1, y2] of point i in y [2, points]. */
static json_t *coordinates_json(const double *y, size_t points, size_t i) {
    return json_pack("[f,f]", y[i], y[points + i]);
}

/* JSON of image i: predictions and its places in both planes, clean and (with an attack) attacked. */
static json_t *describe_image(const job *j, size_t i) {
    const row *r = &j->rows[i];
    json_t *o =
        json_pack("{s:i,s:i,s:i,s:o,s:o}", "image", j->a->images[i], "label", r->label, "predicted", r->predicted,
                  "tsne", coordinates_json(j->tsne, j->points, i), "pca", coordinates_json(j->pca, j->points, i));
    if (!o || !j->a->attack) return o;
    size_t copy = j->a->n_images + i;
    json_object_set_new(o, "attacked_predicted", json_integer(r->attacked));
    json_object_set_new(o, "attacked_tsne", coordinates_json(j->tsne, j->points, copy));
    json_object_set_new(o, "attacked_pca", coordinates_json(j->pca, j->points, copy));
    json_object_set_new(o, "moved", vt_json_real(r->moved));
    return o;
}

/* JSON of the A-distance: value, spread, error rate, the largest gradient left, and the distance of each fold. */
static json_t *describe_distance(const job *j) {
    const vt_adistance_result *r = &j->between;
    return json_pack("{s:f,s:f,s:f,s:I,s:f,s:o}", "value", r->value, "spread", r->spread, "error",
                     (double)r->wrong / (double)j->points, "wrong", (json_int_t)r->wrong, "gradient_left", r->gradient,
                     "folds", vt_analyze_reals(r->of_fold, j->p->folds));
}

/* Stores the checkpoint's whole JSON; VT_E_MEMORY. */
static vt_status store_results(const job *j, json_t *json, vt_err *e) {
    json_t *images = json_array(), *shares = vt_analyze_reals(j->share, SHARES < j->d ? SHARES : (int)j->d), *o;
    for (size_t i = 0; i < j->a->n_images; i++) json_array_append_new(images, describe_image(j, i));
    json_t *t = json_pack("{s:f,s:f,s:f,s:I}", "kl", j->t.kl, "gradient", j->t.gradient, "learning_rate", j->t.rate,
                          "without_perplexity", (json_int_t)j->t.apart);
    o = json_pack("{s:I,s:I,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "width", (json_int_t)j->d, "points", (json_int_t)j->points,
                  "clean_accuracy", vt_json_real(accuracy_percent(j, false)), "attacked_accuracy",
                  vt_json_real(accuracy_percent(j, true)), "moved_mean", vt_json_real(mean_moved(j)), "a_distance",
                  j->a->attack ? describe_distance(j) : json_null(), "variance_shares", shares, "tsne", t, "images",
                  images);
    return vt_analyze_put(json, j->subject, o, e);
}

typedef struct picture {
    const job *j;
    const double *y; /* [2, points] */
    const char *axes[2];
} picture;

/* Figure: marks by class, filled for images, hollow for attacked copies; no legend beyond ten classes. */
static void draw_points(vt_figure *f, const void *data) {
    const picture *p = data;
    const job *j = p->j;
    const vt_analyzed *s = &j->a->subjects[j->subject];
    int classes = s->model->config.classes;
    vt_panel panel = {.x = p->axes[0], .y = p->axes[1], .kind = VT_TIGHT};
    if (j->a->attack) strcpy(panel.title, "clean: filled, attacked: hollow");
    vt_figure_panel(f, &panel);
    for (int class = 0; class < classes; class ++)
        for (size_t copy = 0; copy <= (j->a->attack != NULL); copy++) {
            char name[48];
            vt_dataset_class_name(s->data, class, name, sizeof name);
            vt_figure_series(f, VT_MARKS | (copy ? VT_HOLLOW : 0) | (classes > 10 ? VT_UNLISTED : 0), "%s", name);
            for (size_t i = 0, at = copy * j->a->n_images; i < j->a->n_images; i++, at++)
                if (j->rows[i].label == class) vt_figure_point(f, p->y[at], p->y[j->points + at]);
        }
}

/* Returns out: "tsne", or "tsne_A" if there are several checkpoints. */
static const char *file_name(char out[32], const job *j, const char *what) {
    if (j->a->n > 1)
        snprintf(out, 32, "%s_%c", what, 'A' + j->subject);
    else
        snprintf(out, 32, "%s", what);
    return out;
}

/* Passes on one scatter figure; `what` and the A-distance are its title. */
static vt_status draw_scatter(const job *j, const char *name, const char *what, const picture *p, vt_err *e) {
    char file[32], title[120], distance[48] = "";
    if (j->a->attack)
        snprintf(distance, sizeof distance, ", A-distance %.3f +- %.3f", j->between.value, j->between.spread);
    snprintf(title, sizeof title, "%s%s", what, distance);
    return vt_analyze_figure(j->a, file_name(file, j, name), title, j->subject, draw_points, p, e);
}

/* Both scatter figures, and the features [points, d] as an array if arrays are kept. */
static vt_status draw_figures(const job *j, vt_err *e) {
    char file[32], axes[2][64];
    for (int k = 0; k < 2; k++)
        snprintf(axes[k], sizeof axes[k], "component %d, %.1f %% of the variance", k + 1,
                 100 * (j->share[k] - (k ? j->share[0] : 0)));
    const picture tsne = {j, j->tsne, {"", ""}}, pca = {j, j->pca, {axes[0], axes[1]}};
    VT_TRY(draw_scatter(j, "tsne", "t-SNE of features", &tsne, e));
    VT_TRY(draw_scatter(j, "pca", "Principal components of features", &pca, e));
    if (!j->a->array) return VT_OK;
    return j->a->array(j->a->array_ctx, file_name(file, j, "features"), j->x, j->points, j->d, e);
}

/* Sets points and d, allocates all arrays; VT_E_MEMORY. run frees them, also after a failure. */
static vt_status open_job(job *j, vt_err *e) {
    size_t bytes;
    const vt_analyzed *s = &j->a->subjects[j->subject];
    j->points = count_points(j->a), j->d = (size_t)vt_session_feature_len_f64(s->model);
    j->rows = calloc(j->a->n_images, sizeof *j->rows);
    j->x = vt_mul(j->points, j->d * sizeof *j->x, &bytes) ? vt_alloc(bytes) : NULL;
    j->tsne = vt_alloc(2 * j->points * sizeof *j->tsne), j->pca = vt_alloc(2 * j->points * sizeof *j->pca);
    if (j->d && j->rows && j->x && j->tsne && j->pca) return VT_OK;
    return vt_fail(e, VT_E_MEMORY, "no memory for %zu features of %zu numbers", j->points, j->d);
}

/* Measures one checkpoint, computes distance and embeddings, then prints, stores and draws. */
static vt_status analyze_subject(job *j, FILE *out, json_t *json, vt_err *e) {
    VT_TRY(open_job(j, e));
    VT_TRY(vt_analysis_images(j->a, &j->a->subjects[j->subject], measure_image, j, e));
    VT_TRY(compute_a_distance(j, e));
    VT_TRY(project_on_components(j, e));
    VT_TRY(embed_by_tsne(j, e));
    print_table(j, out);
    VT_TRY(store_results(j, json, e));
    return draw_figures(j, e);
}

static vt_status run(const vt_analyze *a, const void *params_, FILE *out, json_t *json, vt_err *e) {
    vt_status s = VT_OK;
    for (int i = 0; i < a->n && s == VT_OK; i++) {
        job j = {.a = a, .p = params_, .subject = i};
        s = analyze_subject(&j, out, json, e);
        free(j.x), free(j.tsne), free(j.pca), free(j.rows);
    }
    return s;
}

/* VT_E_USAGE if the perplexity or the folds need more points than there are. */
static vt_status check(const vt_analyze *a, const void *params_, vt_err *e) {
    const params *p = params_;
    size_t points = count_points(a);
    if (!(p->perplexity < (double)points - 1))
        return vt_fail(e, VT_E_USAGE,
                       "perplexity %g needs more than %g points, there are %zu (%zu images%s): take more images, or "
                       "--perplexity",
                       p->perplexity, p->perplexity + 1, points, a->n_images, a->attack ? ", clean and attacked" : "");
    if (a->attack && (size_t)p->folds > a->n_images)
        return vt_fail(e, VT_E_USAGE, "%d folds of %zu images: there must be an image for each, at least", p->folds,
                       a->n_images);
    return VT_OK;
}

/* Features and planes, and the largest of the classifiers of the folds, the components and t-SNE, which run in turn. */
static size_t bytes(const vt_analyze *a, const vt_analyzed *s, const void *params_) {
    const params *p = params_;
    size_t n = count_points(a), d = (size_t)vt_session_feature_len_f64(s->model), x;
    int threads = a->threads < p->folds ? a->threads : p->folds;
    size_t most = vt_tsne_bytes(n), pca = vt_pca_bytes(d), folds = vt_adistance_bytes(a->n_images, d, threads);
    if (pca > most) most = pca;
    if (a->attack && folds > most) most = folds;
    if (!vt_mul(n, d * sizeof(double), &x) || !vt_add(x, most, &most)) return SIZE_MAX;
    return vt_add(most, n * (4 * sizeof(double) + sizeof(row)), &most) ? most : SIZE_MAX;
}

const vt_analysis_def vt_analysis_def_features = {
    .name = "features",
    .summary = "features of clean and attacked images in the plane, and the A-distance between them",
    .source = "SpecFormer (Hu et al. 2024), Fig. 2(b, c); van der Maaten and Hinton 2008; Ben-David et al. 2010",
    .wants = VT_WANTS_IMAGES | VT_TAKES_ATTACK,
    .opts = opts,
    .params_size = sizeof(params),
    .check = check,
    .bytes = bytes,
    .run = run,
};
