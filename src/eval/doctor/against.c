/* SPDX-License-Identifier: MIT */
#include "eval/doctor/against.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/mem.h"
#include "graph/network.h"
#include "models/export/export.h"

/* ---- all values of a graph ---- */

/* Of one image: every value that a node computes, and the same sorted, where it was asked for. */
typedef struct values {
    const vt_graph *g;
    double **of, **sorted; /* [n_values] */
} values;

static void free_values(values *v) {
    for (int i = 0; v->g && i < v->g->n_values; i++) {
        if (v->of) free(v->of[i]);
        if (v->sorted) free(v->sorted[i]);
    }
    free(v->of), free(v->sorted);
    *v = (values){0};
}

static vt_status no_memory(vt_err *e) { return vt_fail(e, VT_E_MEMORY, "no memory to compare two networks"); }

/* Returns a constant in double: its own, or a copy in *room, to be freed; NULL: no memory. */
static const double *constant_of(const vt_value *v, double **room) {
    if (v->reals) return v->reals;
    if (!(*room = vt_alloc((v->n + 1) * sizeof **room))) return NULL;
    for (size_t i = 0; i < v->n; i++) (*room)[i] = vt_value_real(v, i);
    return *room;
}

/* Computes a node's value into v->of; false: no memory. */
static bool compute_node(values *v, const vt_node *n) {
    const vt_graph *g = v->g;
    const double **x = calloc((size_t)n->n_in + 1, sizeof *x);
    double **room = calloc((size_t)n->n_in + 1, sizeof *room);
    bool good = x && room && (v->of[n->out] = vt_alloc((g->values[n->out].n + 1) * sizeof **v->of));
    for (int k = 0; good && k < n->n_in; k++) {
        const int i = n->in[k];
        if (i >= 0) x[k] = vt_value_is_constant(&g->values[i]) ? constant_of(&g->values[i], &room[k]) : v->of[i];
        good = i < 0 || x[k];
    }
    good = good && vt_op_compute_f64(g, n, x, v->of[n->out]);
    for (int k = 0; room && k < n->n_in; k++) free(room[k]);
    free(room), free(x);
    return good;
}

/* Sets *v to all values of the graph for the image x, to be freed also after a failure. */
static vt_status compute_values(values *v, const vt_graph *g, const double *x, vt_err *e) {
    const size_t n = g->values[g->input].n;
    *v = (values){g, calloc((size_t)g->n_values, sizeof *v->of), calloc((size_t)g->n_values, sizeof *v->sorted)};
    if (!v->of || !v->sorted || !(v->of[g->input] = vt_alloc(n * sizeof **v->of))) return no_memory(e);
    memcpy(v->of[g->input], x, n * sizeof *x);
    for (int i = 0; i < g->n_nodes; i++)
        if (!compute_node(v, &g->nodes[i])) return no_memory(e);
    return VT_OK;
}

/* ---- numbers in any order ---- */

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the n numbers in ascending order; NULL: no memory. */
static double *sorted_copy(const double *x, size_t n) {
    double *s = vt_alloc((n + 1) * sizeof *s);
    if (!s) return NULL;
    memcpy(s, x, n * sizeof *s);
    qsort(s, n, sizeof *s, compare_doubles);
    return s;
}

/* Returns the largest difference of sorted numbers, over the largest of a: no order of b's gives less. INFINITY: a is 0
 * and b not, or a number is NaN. */
static double sorted_difference(const double *a, const double *b, size_t n) {
    double worst = 0, top = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = fabs(a[i] - b[i]);
        if (isnan(d)) return INFINITY;
        worst = fmax(worst, d);
        top = fmax(top, fabs(a[i]));
    }
    return top > 0 ? worst / top : worst > 0 ? INFINITY : 0;
}

/* Returns the sum of the differences of sorted numbers, over the largest of a: one changed number counts by its change,
 * however many places it moves. INFINITY as sorted_difference. */
static double sorted_total(const double *a, const double *b, size_t n) {
    double sum = 0, top = 0;
    for (size_t i = 0; i < n; i++) sum += fabs(a[i] - b[i]), top = fmax(top, fabs(a[i]));
    if (isnan(sum)) return INFINITY;
    return top > 0 ? sum / top : sum > 0 ? INFINITY : 0;
}

/* ---- layers ---- */

typedef struct comparison {
    vt_against *r;
    const vt_model *m;
    vt_network *own, *other;
    int *cut; /* [n_layers] values of own->g */
} comparison;

/* Returns whether a value's name ends in .attention or .output, as those of a block's halves do; NULL: no. */
static bool is_layer(const char *name) {
    const char *dot = name ? strrchr(name, '.') : NULL;
    return dot && (!strcmp(dot, ".attention") || !strcmp(dot, ".output"));
}

/* Sets r->layers, n_layers, first (none yet) and c->cut to the outputs of own's halves of blocks, and the logits
 * last. */
static vt_status find_layers(comparison *c, vt_err *e) {
    const vt_graph *g = c->own->g;
    vt_against *r = c->r;
    c->cut = calloc((size_t)g->n_values + 1, sizeof *c->cut);
    r->layers = calloc((size_t)g->n_values + 1, sizeof *r->layers);
    if (!c->cut || !r->layers) return no_memory(e);
    for (int i = 0; i <= g->n_values; i++) {
        const bool last = i == g->n_values;
        if (!last && (!is_layer(g->values[i].name) || vt_value_is_constant(&g->values[i]))) continue;
        snprintf(r->layers[r->n_layers].name, sizeof r->layers[0].name, "%s", last ? "logits" : g->values[i].name);
        c->cut[r->n_layers++] = vt_root_of(g, last ? g->output : i);
    }
    r->first = r->n_layers;
    return VT_OK;
}

/* Looks up a [n], the layer's numbers, sorted, among all values v of the export; sets l's difference and nearest unless
 * an earlier image differs by more. */
static vt_status find_nearest(vt_against_layer *l, const double *a, size_t n, values *v, vt_err *e) {
    double least = INFINITY;
    int at = -1;
    for (int i = 0; i < v->g->n_values; i++) {
        if (!v->of[i] || i == v->g->input || v->g->values[i].n != n) continue;
        if (!v->sorted[i] && !(v->sorted[i] = sorted_copy(v->of[i], n))) return no_memory(e);
        const double d = sorted_difference(a, v->sorted[i], n);
        if (at < 0 || d < least) least = d, at = i;
    }
    if (least < l->difference) return VT_OK; /* an earlier image differs by more */
    l->difference = least;
    const char *name = at < 0 ? "" : v->g->values[at].name;
    snprintf(l->nearest, sizeof l->nearest, "%s", name ? name : "a value");
    return VT_OK;
}

/* Compares one image, x: as the export takes it; updates r's layers, first, logits and span. */
static vt_status compare_image(comparison *c, const double *pixels, const double *x, vt_err *e) {
    vt_against *r = c->r;
    values own = {0}, other = {0};
    vt_status s = compute_values(&own, c->own->g, pixels, e);
    if (s == VT_OK) s = compute_values(&other, c->other->g, x, e);
    for (int k = 0; s == VT_OK && k < r->n_layers; k++) {
        const int v = c->cut[k];
        double *a = sorted_copy(own.of[v], own.g->values[v].n);
        s = a ? find_nearest(&r->layers[k], a, own.g->values[v].n, &other, e) : no_memory(e);
        free(a);
        if (!(r->layers[k].difference <= VT_AGAINST_TOL) && k < r->first) r->first = k;
    }
    double low = INFINITY, high = -INFINITY;
    for (int k = 0; s == VT_OK && k < c->own->classes; k++) {
        const double z = own.of[vt_root_of(own.g, own.g->output)][k];
        const double d = fabs(z - other.of[vt_root_of(other.g, other.g->output)][k]);
        if (!(d <= r->logits)) r->logits = isnan(d) ? INFINITY : d;
        low = fmin(low, z), high = fmax(high, z);
    }
    r->span = fmax(r->span, high - low);
    free_values(&own), free_values(&other);
    return s;
}

/* Compares n images, read by the export as they are or normalised, into c->r, which is empty before. */
static vt_status compare_images(comparison *c, bool normalised, const double *x, int n, vt_err *e) {
    const size_t pixels = vt_config_input_pixels(&c->m->config), plane = pixels / 3;
    double mean[3], std[3], *y = vt_alloc(pixels * sizeof *y);
    vt_status s = y ? find_layers(c, e) : no_memory(e);
    c->r->normalised = normalised;
    vt_export_statistics(&c->m->config, mean, std);
    for (int i = 0; s == VT_OK && i < n; i++) {
        const double *image = x + (size_t)i * pixels;
        for (size_t k = 0; k < pixels; k++)
            y[k] = normalised ? (image[k] - mean[k / plane]) / std[k / plane] : image[k];
        s = compare_image(c, image, y, e);
    }
    free(y);
    return s;
}

/* ---- weights ---- */

/* Sets w's difference and nearest to constant v of the export if it is nearer to a, a weight's sorted numbers. */
static vt_status compare_constant(vt_against_weight *w, const double *a, const vt_value *v, vt_err *e) {
    double *room = NULL;
    const double *b = constant_of(v, &room);
    double *s = b ? sorted_copy(b, v->n) : NULL;
    const double d = s ? sorted_total(a, s, v->n) : INFINITY;
    free(room), free(s);
    if (!s) return no_memory(e);
    if (*w->nearest && !(d < w->difference)) return VT_OK;
    w->difference = d;
    snprintf(w->nearest, sizeof w->nearest, "%s", v->name ? v->name : "a constant");
    return VT_OK;
}

/* Sets w's difference and nearest by n numbers of a weight against every constant of the export of as many. */
static vt_status nearest_constant(vt_against_weight *w, const float *from, size_t n, const vt_graph *g, vt_err *e) {
    double *a = vt_alloc((n + 1) * sizeof *a);
    vt_status s = a ? VT_OK : no_memory(e);
    for (size_t i = 0; a && i < n; i++) a[i] = (double)from[i];
    if (a) qsort(a, n, sizeof *a, compare_doubles);
    w->difference = INFINITY, *w->nearest = 0;
    for (int i = 0; s == VT_OK && i < g->n_values && w->difference > 0; i++) {
        const vt_value *v = &g->values[i];
        if (vt_value_is_constant(v) && !v->integer && v->n == n) s = compare_constant(w, a, v, e);
    }
    free(a);
    return s;
}

/* Adds tensor q to r->weights, if there is room, unless a constant of the export equals it, or (qkv) three equal its
 * thirds. */
static vt_status check_weight(comparison *c, const vt_param *q, vt_err *e) {
    vt_against *r = c->r;
    vt_against_weight w, part;
    const float *from = c->m->w + q->offset;
    VT_TRY(nearest_constant(&w, from, q->numel, c->other->g, e));
    bool whole = w.difference <= VT_AGAINST_TOL;
    if (!whole && strstr(q->name, "attn.qkv.") && q->numel % 3 == 0) {
        whole = true;
        for (size_t k = 0; whole && k < 3; k++) {
            VT_TRY(nearest_constant(&part, from + k * (q->numel / 3), q->numel / 3, c->other->g, e));
            whole = part.difference <= VT_AGAINST_TOL;
        }
    }
    snprintf(w.name, sizeof w.name, "%s", q->name);
    if (!whole && r->n_weights < VT_AGAINST_WEIGHTS) r->weights[r->n_weights++] = w;
    return VT_OK;
}

/* Checks the tensors of layer `first`: those of its block, the embedding's, or the end's. */
static vt_status check_weights(comparison *c, vt_err *e) {
    const vt_param_list *l = &c->m->params;
    const char *name = c->r->layers[c->r->first].name, *dot = strrchr(name, '.');
    const bool start = !strncmp(name, "embedding.", 10), end = !strcmp(name, "logits");
    for (int i = 0; i < l->count; i++) {
        const vt_param *q = &l->items[i];
        const bool mine = start ? q->layer == 0
                          : end ? q->layer == l->layers - 1
                                : !strncmp(q->name, name, (size_t)(dot + 1 - name));
        if (mine) VT_TRY(check_weight(c, q, e));
    }
    return VT_OK;
}

/* ---- both networks ---- */

/* Opens the native network as a graph, through a file in memory. */
static vt_status open_own(vt_network **out, const vt_model *m, vt_err *e) {
    char path[40];
    const int fd = memfd_create("vitrine", MFD_CLOEXEC);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f && fd >= 0) close(fd);
    if (!f) return no_memory(e);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    vt_status s = vt_model_export_stream(m, VT_NORMALISE_INSIDE, f, e);
    if (s == VT_OK && (fflush(f) || ferror(f))) s = no_memory(e);
    if (s == VT_OK) s = vt_network_open(out, path, NULL, e);
    fclose(f);
    return s;
}

/* Opens c->own and c->other, to be closed also after a failure; VT_E_SHAPE: other images or classes. */
static vt_status open_both(comparison *c, const char *path, vt_err *e) {
    VT_TRY(open_own(&c->own, c->m, e));
    const vt_shape want = c->own->shape;
    const vt_import_options o = {.shape = {want.channels, want.height, want.width}};
    VT_TRY(vt_network_open(&c->other, path, &o, e));
    if (!vt_shape_same(c->other->shape, want))
        return vt_fail(e, VT_E_SHAPE, "%s: takes images of " VT_CHW ", the checkpoint of " VT_CHW, path,
                       VT_CHW_OF(c->other->shape), VT_CHW_OF(want));
    if (c->other->classes == c->own->classes) return VT_OK;
    return vt_fail(e, VT_E_SHAPE, "%s: has %d classes, the checkpoint %d", path, c->other->classes, c->own->classes);
}

/* Compares both readings, for no file says whether the export takes images or normalised ones: the one with more equal
 * layers, or nearer logits, counts. */
static vt_status compare_readings(comparison *c, const double *x, int n, vt_err *e) {
    vt_against first;
    VT_TRY(compare_images(c, false, x, n, e));
    if (c->r->first == c->r->n_layers) return VT_OK;
    first = *c->r;
    *c->r = (vt_against){0};
    free(c->cut), c->cut = NULL;
    vt_status s = compare_images(c, true, x, n, e);
    const bool better = c->r->first > first.first || (c->r->first == first.first && c->r->logits < first.logits);
    if (s == VT_OK && !better) {
        vt_against_free(c->r);
        *c->r = first;
    } else {
        vt_against_free(&first);
    }
    return s;
}

vt_status vt_doctor_against(vt_against *r, const vt_model *m, const char *path, const double *x, int n, vt_err *e) {
    comparison c = {.r = r, .m = m};
    *r = (vt_against){0};
    vt_status s = open_both(&c, path, e);
    if (s == VT_OK) s = compare_readings(&c, x, n, e);
    if (s == VT_OK && r->first < r->n_layers) s = check_weights(&c, e);
    vt_network_close(c.own), vt_network_close(c.other);
    free(c.cut);
    return s;
}

void vt_against_free(vt_against *r) {
    free(r->layers);
    *r = (vt_against){0};
}
