/* SPDX-License-Identifier: MIT */
/* Theorem 2.1 of the orthogonality paper at real images: what an attack does to rows of attention, beside what the
 * theorem (keys held fixed), its tight form, and the form in which keys move too allow. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "research/analysis/affinity.h"
#include "research/analysis/analyze.h"
#include "research/analysis/layers.h"
#include "research/analysis/lines.h"
#include "base/mem.h"

typedef struct job {
    const vt_analyze *a;
    int depth;
    vt_affinity *sums; /* [images, depth] */
} job;

typedef struct place {
    vt_affinity *sums; /* [depth] */
    double **q;        /* [depth] attacked q and, after it, k: [t, a] each */
} place;

/* Layer hook of the attacked pass: allocates place.q[block], which measure_image frees, and saves the block's q and k
 * [t, a] there. VT_E_MEMORY. */
static vt_status save_attacked_keys(void *ctx, const vt_layer *l, vt_err *e) {
    place *p = ctx;
    size_t c = (size_t)l->a, n = (size_t)l->t * c;
    double *q = p->q[l->block] = vt_alloc(2 * n * sizeof *q);
    if (!q) return vt_fail(e, VT_E_MEMORY, "no memory for a layer's queries");
    for (size_t i = 0; i < (size_t)l->t; i++) {
        memcpy(q + i * c, l->q + i * (size_t)l->ldq, c * sizeof *q);
        memcpy(q + n + i * c, l->k + i * (size_t)l->ldk, c * sizeof *q);
    }
    return VT_OK;
}

/* Layer hook of the clean pass: adds each head's rows, against the saved ones, to the block's sums; no effect for
 * layers not plain softmax. */
static vt_status add_clean_layer(void *ctx, const vt_layer *l, vt_err *e) {
    place *p = ctx;
    const double *q1 = p->q[l->block], *k1 = q1 + (size_t)l->t * (size_t)l->a;
    for (int h = 0; h < l->heads && l->plain; h++) {
        int at = h * l->d;
        vt_affinity_pair pair = {.t = l->t, .d = l->d, .scale = l->scale, .q1 = q1 + at, .k1 = k1 + at};
        pair.q = l->q + at, pair.k = l->k + at;
        pair.ldq = l->ldq, pair.ldk = l->ldk, pair.ldq1 = pair.ldk1 = l->a;
        VT_TRY(vt_affinity_add(&p->sums[l->block], &pair, e));
    }
    return VT_OK;
}

/* Sums of image i, by layer, into sums [depth]: the attacked pass first, then the clean one. */
static vt_status measure_image(void *ctx, vt_analysis_worker *b, size_t i, vt_err *e) {
    job *j = ctx;
    place p = {.sums = j->sums + i * (size_t)j->depth, .q = calloc((size_t)j->depth, sizeof *p.q)};
    if (!p.q) return vt_fail(e, VT_E_MEMORY, "no memory for %d layers", j->depth);
    vt_status s = vt_layers_forward(b->session, b->adv64, false, save_attacked_keys, &p, NULL, e);
    if (s == VT_OK) s = vt_layers_forward(b->session, b->x64, false, add_clean_layer, &p, NULL, e);
    for (int k = 0; k < j->depth; k++) free(p.q[k]);
    free(p.q);
    return s;
}

/* A layer's sums over all images, heads and rows. */
static vt_affinity merge_images(const job *j, int layer) {
    vt_affinity s = {0};
    for (size_t i = 0; i < j->a->n_images; i++) vt_affinity_merge(&s, &j->sums[i * (size_t)j->depth + (size_t)layer]);
    return s;
}

/* sum / rows; NaN if there are no rows. */
static double per_row(const vt_affinity *s, double sum) { return s->rows ? sum / (double)s->rows : NAN; }

/* Prints one line of means and largest ratios a layer; a layer without rows gets a sentence instead. */
static void print_table(const job *j, int subject, FILE *out) {
    vt_columns t;
    vt_analyze_title(out, j->a, subject);
    fprintf(out, "|A'_i - A_i| with keys held fixed, the largest measured over its bound, and where keys move too\n");
    vt_columns_titles(&t, "layer\tfixed\tcentred/2\tpaper 2\tlargest\tover paper\tover "
                          "centred\tL1/range\tmoving\textended/2\tover extended");
    for (int l = 0; l < j->depth; l++) {
        const vt_affinity s = merge_images(j, l);
        if (!s.rows) fprintf(out, "layer %d: attention is no softmax of scaled dot products alone\n", l);
        if (!s.rows) continue;
        vt_columns_cell(&t, "%d", l);
        const double cells[] = {per_row(&s, s.fixed),
                                per_row(&s, s.sum_centred),
                                per_row(&s, s.sum_paper),
                                s.most_fixed,
                                s.paper,
                                s.centred,
                                s.l1,
                                per_row(&s, s.moving),
                                per_row(&s, s.sum_extended),
                                s.extended};
        for (size_t k = 0; k < sizeof cells / sizeof *cells; k++) vt_analyze_cell(&t, cells[k]);
    }
    vt_columns_end(&t, out, VT_LOOK_PAGE);
}

/* JSON of a layer: row count, means a row (null without rows), largest changes and ratios to the bounds. */
static json_t *describe_layer(const vt_affinity *s, int layer) {
    return json_pack("{s:i,s:I,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "layer", layer, "rows",
                     (json_int_t)s->rows, "fixed_mean", vt_json_real(per_row(s, s->fixed)), "fixed_largest",
                     vt_json_real(s->most_fixed), "bound_centred_mean", vt_json_real(per_row(s, s->sum_centred)),
                     "bound_paper_mean", vt_json_real(per_row(s, s->sum_paper)), "ratio_paper", vt_json_real(s->paper),
                     "ratio_half", vt_json_real(s->half), "ratio_centred", vt_json_real(s->centred), "ratio_l1",
                     vt_json_real(s->l1), "moving_mean", vt_json_real(per_row(s, s->moving)), "moving_largest",
                     vt_json_real(s->most_moving), "bound_extended_mean", vt_json_real(per_row(s, s->sum_extended)),
                     "ratio_extended", vt_json_real(s->extended));
}

/* Prints a checkpoint's table, adds its three curves (mean a row, by layer) to the figure, and stores its JSON. */
static vt_status report_subject(const job *j, int subject, vt_lines *f, FILE *out, json_t *json, vt_err *e) {
    json_t *layers = json_array();
    double *moving = vt_lines_add(f, j->a, subject, "measured"),
           *half = vt_lines_add(f, j->a, subject, "centred, half"),
           *paper = vt_lines_add(f, j->a, subject, "paper, factor 2");
    print_table(j, subject, out);
    for (int l = 0; l < j->depth; l++) {
        const vt_affinity s = merge_images(j, l);
        moving[l] = per_row(&s, s.fixed), half[l] = per_row(&s, s.sum_centred), paper[l] = per_row(&s, s.sum_paper);
        json_array_append_new(layers, describe_layer(&s, l));
    }
    return vt_analyze_put(json, subject, json_pack("{s:o}", "layers", layers), e);
}

static vt_status run(const vt_analyze *a, const void *params_, FILE *out, json_t *json, vt_err *e) {
    (void)params_;
    vt_lines f;
    VT_TRY(vt_lines_open(&f, vt_lines_deepest(a), "Rows of attention, keys held fixed",
                         "mean change of a row, and bounds", true, e));
    vt_status s = VT_OK;
    for (int i = 0; i < a->n && s == VT_OK; i++) {
        job j = {.a = a, .depth = a->subjects[i].model->config.depth};
        j.sums = calloc((size_t)j.depth * a->n_images, sizeof *j.sums);
        s = j.sums ? vt_analysis_images(a, &a->subjects[i], measure_image, &j, e)
                   : vt_fail(e, VT_E_MEMORY, "no memory for images");
        if (s == VT_OK) s = report_subject(&j, i, &f, out, json, e);
        free(j.sums);
    }
    if (s == VT_OK) s = vt_lines_draw(&f, a, "affinity", e);
    vt_lines_free(&f);
    return s;
}

/* Saved queries and keys [t, a] of all blocks, one image a thread. */
static size_t bytes(const vt_analyze *a, const vt_analyzed *s, const void *params_) {
    (void)params_;
    const vt_config *c = &s->model->config;
    return (size_t)a->threads * 2 * (size_t)c->depth * (size_t)vt_config_tokens(c) * (size_t)vt_config_attn_dim(c) *
           sizeof(double);
}

const vt_analysis_def vt_analysis_def_affinity = {
    .name = "affinity",
    .summary = "how far an attack moves rows of attention, and how far bounds let it",
    .source = "Zhang et al. 2021 (On Orthogonality Constraints for Transformers), Theorem 2.1",
    .wants = VT_WANTS_IMAGES | VT_WANTS_ATTACK | VT_WANTS_ATTENTION,
    .bytes = bytes,
    .run = run,
};
