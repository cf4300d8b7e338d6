/* SPDX-License-Identifier: MIT */
/* Attention as it is on real images: how spread out its rows are, how far A is from a permutation, which token each
 * query selects by what margin, whether that is the token that the loss would have it select, within which radius the
 * choice is certain, and how often an attack changes it: only outside that radius can it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/text.h"
#include "models/net/session64.h"
#include "research/analysis/attention_maps.h"
#include "research/analysis/analyze.h"
#include "research/analysis/layers.h"
#include "research/analysis/lines.h"
#include "research/analysis/selection.h"

typedef struct params {
    int k, maps;
    double p;
    char blocks[VT_MAPS_TEXT], heads[VT_MAPS_TEXT];
} params;

static const vt_opt opts[] = {
    VT_OPT_I("k", params, k, "tokens whose mass is added up", 5, 1, 100000),
    VT_OPT_R("p", params, p, "norm of W_Q W_K^T by which margins are also normalised", 1.1, 1.05, 4),
    VT_OPT_I("maps", params, maps, "images whose attention maps are drawn (with --out)", 4, 0, VT_MAPS_IMAGES),
    VT_OPT_S("map-blocks", params, blocks,
             "maps of these blocks: all, or 0,5,rollout; default: first, middle, last and rollout", ""),
    VT_OPT_S("map-heads", params, heads, "and of these heads: mean, all, or 0,2", "mean"),
    VT_OPT_END,
};

/* Sums over the heads and queries of one layer at one image: doubles, so that layers add up number by number. */
typedef struct row {
    double heads, queries, scored;                /* heads; (head, query) pairs; those with a gradient of the loss */
    vt_attention_shape shape;                     /* over heads */
    double margin, margin_f, margin_p, radius;    /* over queries */
    double moved;                                 /* max_t |x'_t - x_t|; NaN: no attack */
    double optimal, flips, certified, impossible; /* queries; impossible: a flip within the radius */
    bool margins;                                 /* what needs plain dot products is there */
} row;

typedef struct job {
    const vt_analyze *a;
    const params *p;
    int depth, heads;
    double *norms; /* [depth, heads, 3]: |scale W_Q^T W_K|, its Frobenius and its p-norm */
    row *rows;     /* [images, depth] */
    vt_maps maps;  /* no images: none are drawn */
} job;

/* Layer hook: sets the block's norms of each head of a dot-product layer (spectral, Frobenius, p); others keep 0. */
static vt_status measure_weight_norms(void *ctx, const vt_layer *l, vt_err *e) {
    job *j = ctx;
    for (int h = 0; h < l->heads && l->dot; h++) {
        double *n = j->norms + 3 * (size_t)(l->block * j->heads + h);
        vt_head_at at = vt_layer_head(l, h);
        vt_head_norms w;
        VT_TRY(vt_head_norms_of(&w, &at, e));
        n[0] = w.qk, n[1] = vt_merged_norm(&at, 2), n[2] = vt_merged_norm(&at, j->p->p);
    }
    return VT_OK;
}

typedef struct seen {
    double *x;   /* [t, c] input of the attacked pass */
    int *tokens; /* [heads, t] selected there */
    int *clean;  /* ... at the image */
} seen;

typedef struct place {
    job *j;
    row *rows;       /* [depth] */
    seen *seen;      /* [depth] */
    bool attack;     /* which pass this is */
    vt_map_pass map; /* maps NULL: of this image none are drawn */
} place;

/* Allocates x [t, c] and both token lists [heads, t] for the layer, unless that was done. */
static vt_status allocate_seen(seen *s, const vt_layer *l, vt_err *e) {
    size_t n = (size_t)(l->heads * l->t);
    if (s->x) return VT_OK;
    s->x = vt_alloc((size_t)l->t * (size_t)l->c * sizeof *s->x), s->tokens = calloc(2 * n, sizeof *s->tokens);
    if (!s->x || !s->tokens) return vt_fail(e, VT_E_MEMORY, "no memory for a layer's tokens");
    s->clean = s->tokens + n;
    return VT_OK;
}

/* Sets tokens [heads, t], the token that each query attends to most: by probability, or, for dot products, by score
 * (vt_selections_of fills room [heads, t]): a saturated softmax rounds different scores to equal probabilities. */
static vt_status select_tokens(int *tokens, const vt_layer *l, vt_selection *room, const job *j, vt_err *e) {
    for (int h = 0; h < l->heads; h++) {
        const double *p = l->p + (size_t)h * (size_t)l->t * (size_t)l->ldp;
        vt_selection *s = room + (size_t)h * (size_t)l->t;
        if (l->dot) {
            vt_head_at at = vt_layer_head(l, h);
            VT_TRY(vt_selections_of(s, &at, j->norms[3 * (size_t)(l->block * j->heads + h)], e));
        }
        for (int i = 0; i < l->t; i++)
            tokens[h * l->t + i] = l->dot ? s[i].token : vt_argmax_f64(p + (size_t)i * (size_t)l->ldp, l->t);
    }
    return VT_OK;
}

/* max over tokens of |x_t - l->x_t|_2, x [t, c] the attacked input of the layer. */
static double longest_move(const double *x, const vt_layer *l) {
    double most = 0;
    for (int i = 0; i < l->t; i++) {
        double sum = 0;
        for (int k = 0; k < l->c; k++) {
            size_t at = (size_t)i * (size_t)l->c + (size_t)k;
            sum += (x[at] - l->x[at]) * (x[at] - l->x[at]);
        }
        most = fmax(most, sqrt(sum));
    }
    return most;
}

/* Adds the shape statistics of each head's attention (k tokens' mass) to r's sums, and counts heads and queries. */
static vt_status add_attention_shapes(row *r, const vt_layer *l, int k, vt_err *e) {
    for (int h = 0; h < l->heads; h++) {
        vt_attention_shape s;
        VT_TRY(vt_attention_shape_of(&s, l->p + (size_t)h * (size_t)l->t * (size_t)l->ldp, l->t, l->ldp, k, e));
        r->shape.entropy += s.entropy, r->shape.effective += s.effective, r->shape.top += s.top;
        r->shape.below += s.below, r->shape.norm += s.norm, r->shape.gap += s.gap;
    }
    r->heads += l->heads, r->queries += l->heads * l->t;
    return VT_OK;
}

/* Adds the flips of the layer's queries to r (without an attack none) and, for dot products alone, their margins, radii
 * s and certificates: a flip within the radius is `impossible`. Sets r->margins. */
static void add_margins(row *r, const vt_layer *l, const vt_selection *s, const seen *at, const job *j) {
    for (int i = 0; i < l->heads * l->t; i++) {
        const double *n = j->norms + 3 * (size_t)(l->block * j->heads + i / l->t);
        bool flip = !isnan(r->moved) && at->tokens[i] != at->clean[i];
        r->flips += flip;
        if (!l->dot) continue;
        r->margin += s[i].margin, r->margin_f += s[i].margin / n[1], r->margin_p += s[i].margin / n[2];
        r->radius += s[i].radius;
        bool certain = !isnan(r->moved) && r->moved < s[i].radius;
        r->certified += certain, r->impossible += certain && flip;
    }
    r->margins = l->dot;
}

/* Layer hook of both passes: the attacked one saves inputs and choices, the clean one, run after it, saves choices and
 * adds up the block's row. Fills the map if one is drawn. */
static vt_status measure_layer(void *ctx, const vt_layer *l, vt_err *e) {
    place *p = ctx;
    row *r = &p->rows[l->block];
    seen *s = &p->seen[l->block];
    bool before = s->x != NULL;
    if (p->map.maps) vt_map_layer(&p->map, l);
    VT_TRY(allocate_seen(s, l, e));
    vt_selection *room = calloc((size_t)(l->heads * l->t), sizeof *room);
    if (!room) return vt_fail(e, VT_E_MEMORY, "no memory for a layer's choices");
    vt_status st = select_tokens(p->attack ? s->tokens : s->clean, l, room, p->j, e);
    if (st == VT_OK && p->attack) memcpy(s->x, l->x, (size_t)l->t * (size_t)l->c * sizeof *s->x);
    if (st == VT_OK && !p->attack) {
        r->moved = before ? longest_move(s->x, l) : NAN;
        st = add_attention_shapes(r, l, p->j->p->k, e);
        add_margins(r, l, room, s, p->j);
    }
    free(room);
    return st;
}

/* Backward hook: counts queries whose token has the best score -<dL/do_i, v_t>, by which attention to t lowers the
 * loss. Queries whose o_i nothing reads (in the last block all but the class token's) are left out. */
static vt_status count_optimal_choices(void *ctx, const vt_layer *l, vt_err *e) {
    place *p = ctx;
    row *r = &p->rows[l->block];
    (void)e;
    for (int h = 0; h < l->heads && l->plain; h++)
        for (int i = 0; i < l->t; i++) {
            const double *d_o = l->d_o + (size_t)i * (size_t)l->a + (size_t)(h * l->d);
            double most = -INFINITY;
            int best = 0;
            if (!(vt_length64(d_o, (size_t)l->d) > 0)) continue;
            for (int t = 0; t < l->t; t++) {
                double score = -vt_dot64(d_o, l->v + (size_t)t * (size_t)l->ldv + (size_t)(h * l->d), (size_t)l->d);
                if (score > most) most = score, best = t;
            }
            r->scored++, r->optimal += best == p->seen[l->block].clean[h * l->t + i];
        }
    return VT_OK;
}

/* One pass, of the image or of its attacked copy, with measure_layer; fills its map if one is drawn. *z: logits. */
static vt_status forward(place *p, vt_analysis_worker *b, size_t i, bool attack, const double **z, vt_err *e) {
    vt_maps *m = &p->j->maps;
    const double *x = attack ? b->adv64 : b->x64;
    p->attack = attack;
    p->map = (vt_map_pass){0};
    if (i < (size_t)m->images) VT_TRY(vt_map_begin(&p->map, m, (int)i, attack, e));
    vt_status s = vt_layers_forward(b->session, x, !attack, measure_layer, p, z, e);
    if (!p->map.maps) return s;
    vt_map_end(&p->map);
    vt_map_image *im = &m->image[i];
    im->image = b->image, im->label = b->label;
    if (s == VT_OK) im->predicted[attack] = vt_argmax_f64(*z, b->classes);
    for (size_t k = 0; k < b->pixels; k++) im->rgb[attack][k] = (uint8_t)lrint(255 * x[k]);
    return s;
}

/* Attacked pass (if attacked), clean pass, then the gradient of the clean cross-entropy back through the layers. */
static vt_status run_passes(place *p, vt_analysis_worker *b, size_t i, vt_err *e) {
    const double *z;
    if (b->attacked) VT_TRY(forward(p, b, i, true, &z, e));
    VT_TRY(forward(p, b, i, false, &z, e));
    double most = z[vt_argmax_f64(z, b->classes)], sum = 0; /* cross-entropy: dz = softmax(z) - onehot */
    for (int k = 0; k < b->classes; k++) sum += b->z64[k] = exp(z[k] - most);
    for (int k = 0; k < b->classes; k++) b->z64[k] = b->z64[k] / sum - (k == b->label);
    return vt_layers_backward(b->session, b->z64, count_optimal_choices, p, e);
}

/* Fills the rows [depth] of image i. */
static vt_status measure_image(void *ctx, vt_analysis_worker *b, size_t i, vt_err *e) {
    job *j = ctx;
    place p = {.j = j, .rows = j->rows + i * (size_t)j->depth, .seen = calloc((size_t)j->depth, sizeof *p.seen)};
    if (!p.seen) return vt_fail(e, VT_E_MEMORY, "no memory for %d layers", j->depth);
    vt_status s = run_passes(&p, b, i, e);
    for (int k = 0; k < j->depth; k++) free(p.seen[k].x), free(p.seen[k].tokens);
    free(p.seen);
    return s;
}

/* A layer's sums over all images; `moved` is the mean. */
static row sum_images(const job *j, int layer) {
    row s = {.margins = true};
    for (size_t i = 0; i < j->a->n_images; i++) {
        const row *r = &j->rows[i * (size_t)j->depth + (size_t)layer];
        for (size_t k = 0; k < offsetof(row, margins) / sizeof(double); k++)
            ((double *)&s)[k] += ((const double *)r)[k];
        s.margins = s.margins && r->margins;
    }
    s.moved /= (double)j->a->n_images;
    return s;
}

#define AT(member) offsetof(row, member)
static const struct {
    const char *key;
    size_t offset, per;   /* a sum of row, and the count by which it is divided (SIZE_MAX: none) */
    bool margins, attack; /* what it is not measured without */
} cells[] = {{"entropy", AT(shape.entropy), AT(heads), false, false},
             {"effective_tokens", AT(shape.effective), AT(heads), false, false},
             {"top_k_mass", AT(shape.top), AT(heads), false, false},
             {"share_below_uniform", AT(shape.below), AT(heads), false, false},
             {"norm", AT(shape.norm), AT(heads), false, false},
             {"orthogonality_gap", AT(shape.gap), AT(heads), false, false},
             {"margin", AT(margin), AT(queries), true, false},
             {"margin_frobenius", AT(margin_f), AT(queries), true, false},
             {"margin_p", AT(margin_p), AT(queries), true, false},
             {"radius", AT(radius), AT(queries), true, false},
             {"moved", AT(moved), SIZE_MAX, false, true},
             {"optimal_share", AT(optimal), AT(scored), false, false},
             {"flips", AT(flips), AT(queries), false, true},
             {"certified_share", AT(certified), AT(queries), true, true},
             {"impossible_flips", AT(impossible), SIZE_MAX, true, true}};
enum { CELLS = sizeof cells / sizeof *cells };

/* The numbers of `cells`: means over heads or queries, shares of queries; NaN: not measured. */
static void compute_cells(double out[CELLS], const row *s) {
    for (int k = 0; k < CELLS; k++) {
        double sum = *(const double *)((const char *)s + cells[k].offset);
        double n = cells[k].per == SIZE_MAX ? 1 : *(const double *)((const char *)s + cells[k].per);
        bool known = n > 0 && (s->margins || !cells[k].margins) && !(cells[k].attack && isnan(s->moved));
        out[k] = known ? sum / n : NAN;
    }
}

/* Prints one line of cells for each layer. */
static void print_table(const job *j, int subject, FILE *out) {
    vt_columns t;
    vt_analyze_title(out, j->a, subject);
    vt_columns_titles(&t,
                      "layer\tentropy\teffective\ttop %d\t< "
                      "1/N\t|A|_2\tgap\tmargin\t/|W|F\t/|W|%g\tradius\tmoved\toptimal\tflips\tcertified\timpossible",
                      j->p->k, j->p->p);
    for (int l = 0; l < j->depth; l++) {
        const row s = sum_images(j, l);
        double c[CELLS];
        compute_cells(c, &s);
        vt_columns_cell(&t, "%d", l);
        for (int k = 0; k < CELLS; k++) vt_analyze_cell(&t, c[k]);
    }
    vt_columns_end(&t, out, VT_LOOK_PAGE);
}

/* Prints a checkpoint's table, adds its curve of effective tokens by layer, and stores layers and maps as JSON. */
static vt_status report_subject(const job *j, int subject, vt_lines *f, FILE *out, json_t *json, vt_err *e) {
    json_t *layers = json_array();
    double *effective = vt_lines_add(f, j->a, subject, "effective tokens");
    print_table(j, subject, out);
    for (int l = 0; l < j->depth; l++) {
        const row s = sum_images(j, l);
        double c[CELLS];
        compute_cells(c, &s);
        effective[l] = c[1];
        json_t *o = json_pack("{s:i,s:i}", "layer", l, "queries", (int)s.queries);
        for (int k = 0; k < CELLS; k++) json_object_set_new(o, cells[k].key, vt_json_real(c[k]));
        json_array_append_new(layers, o);
    }
    json_t *o = json_pack("{s:o}", "layers", layers);
    if (o && j->maps.images) json_object_set_new(o, "maps", vt_maps_json(&j->maps, j->a->subjects[subject].data));
    return vt_analyze_put(json, subject, o, e);
}

/* Passes on maps.svg and, if kept, maps.npy [images passes columns, grid^2]; maps_A with several checkpoints. */
static vt_status draw_maps(const job *j, int subject, vt_err *e) {
    const vt_maps *m = &j->maps;
    char name[16] = "maps", what[120] = "Attention", title[300];
    if (!m->images) return VT_OK;
    if (j->a->n > 1) snprintf(name, sizeof name, "maps_%c", 'A' + subject);
    if (j->a->attack)
        snprintf(what, sizeof what, "Attention on clean and attacked images (%.40s, %s eps %.24s)", j->a->attack->name,
                 vt_norm_name(j->a->norm), j->a->eps_text);
    vt_analyze_caption(title, sizeof title, j->a, what, subject);
    vt_text_stream w;
    FILE *f = vt_text_stream_open(&w);
    vt_status s = f ? vt_maps_sheet(f, m, title, j->a->subjects[subject].data, e) : VT_OK;
    char *svg = vt_text_stream_close(&w);
    if (s == VT_OK && !svg) s = vt_fail(e, VT_E_MEMORY, "no memory for a sheet of attention maps");
    if (s == VT_OK) s = j->a->picture(j->a->picture_ctx, name, svg, e);
    free(svg);
    size_t rows = (size_t)(m->images * m->passes * m->columns);
    if (s != VT_OK || !j->a->array) return s;
    return j->a->array(j->a->array_ctx, name, m->values, rows, (size_t)(m->grid * m->grid), e);
}

/* Chooses and allocates the maps to draw; without figures, or with --maps 0, there are none. */
static vt_status open_maps(job *j, int subject, vt_err *e) {
    const vt_config *c = &j->a->subjects[subject].model->config;
    if (!j->a->picture || !j->p->maps) return VT_OK;
    VT_TRY(vt_maps_choose(&j->maps, c, j->p->blocks, j->p->heads, e));
    return vt_maps_open(&j->maps, j->a, c, j->p->maps, e);
}

/* Image callback: one clean pass that measures the weight norms. */
static vt_status measure_norms_once(void *ctx, vt_analysis_worker *b, size_t i, vt_err *e) {
    (void)i;
    return vt_layers_forward(b->session, b->x64, false, measure_weight_norms, ctx, NULL, e);
}

/* Allocates and fills norms [depth, heads, 3] by one image and rows [images, depth] by all of them. */
static vt_status measure_subject(job *j, const vt_analyzed *s, vt_err *e) {
    size_t depth = (size_t)j->depth;
    j->norms = calloc(depth * (size_t)j->heads * 3, sizeof *j->norms);
    j->rows = calloc(depth * j->a->n_images, sizeof *j->rows);
    if (!j->norms || !j->rows) return vt_fail(e, VT_E_MEMORY, "no memory for %zu layers", depth);
    vt_analyze once = *j->a;
    once.n_images = 1, once.attack = NULL, once.progress = NULL;
    VT_TRY(vt_analysis_images(&once, s, measure_norms_once, j, e));
    return vt_analysis_images(j->a, s, measure_image, j, e);
}

static vt_status run(const vt_analyze *a, const void *params_, FILE *out, json_t *json, vt_err *e) {
    vt_lines f;
    VT_TRY(
        vt_lines_open(&f, vt_lines_deepest(a), "Attention on clean images", "tokens in use, exp(entropy)", false, e));
    vt_status s = VT_OK;
    for (int i = 0; i < a->n && s == VT_OK; i++) {
        const vt_config *c = &a->subjects[i].model->config;
        job j = {.a = a, .p = params_, .depth = c->depth, .heads = c->heads};
        s = open_maps(&j, i, e);
        if (s == VT_OK) s = measure_subject(&j, &a->subjects[i], e);
        if (s == VT_OK) s = report_subject(&j, i, &f, out, json, e);
        if (s == VT_OK) s = draw_maps(&j, i, e);
        free(j.norms), free(j.rows), vt_maps_close(&j.maps);
    }
    if (s == VT_OK) s = vt_lines_draw(&f, a, "attention", e);
    vt_lines_free(&f);
    return s;
}

/* Refuses a wrong choice of maps before any work. */
static vt_status check(const vt_analyze *a, const void *params_, vt_err *e) {
    const params *p = params_;
    vt_maps m = {0};
    for (int i = 0; i < a->n; i++) VT_TRY(vt_maps_choose(&m, &a->subjects[i].model->config, p->blocks, p->heads, e));
    return VT_OK;
}

/* Saved inputs and choices of all blocks, and one layer's matrices, for each thread. */
static size_t bytes(const vt_analyze *a, const vt_analyzed *s, const void *params_) {
    (void)params_;
    const vt_config *c = &s->model->config;
    size_t t = (size_t)vt_config_tokens(c), d = (size_t)c->dim, h = (size_t)c->heads;
    return (size_t)a->threads * ((size_t)c->depth * (t * d + h * t) + 5 * t * t + 2 * t * d) * sizeof(double);
}

const vt_analysis_def vt_analysis_def_attention = {
    .name = "attention",
    .summary = "attention maps; entropy, orthogonality gap, margins, certified token selection, and flips under attack",
    .source =
        "Liu et al. (Understanding Attention Mechanisms); Zhang et al. 2021; attention-SVM: Tarzanagh et al. 2023",
    .wants = VT_WANTS_IMAGES | VT_TAKES_ATTACK | VT_WANTS_ATTENTION,
    .opts = opts,
    .params_size = sizeof(params),
    .check = check,
    .bytes = bytes,
    .run = run,
};
