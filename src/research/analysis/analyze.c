/* SPDX-License-Identifier: MIT */
#include "research/analysis/analyze.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "research/analysis/layers.h"
#include "base/mem.h"

#define VT_KIND vt_analysis_def
#define VT_KIND_NAME(x) vt_analysis_def_##x
#define VT_KIND_LIST "analyses.inc"
#include "base/registry.inc"

const vt_analysis_def *const *vt_analysis_defs(int *n) {
    *n = COUNT;
    return defs;
}

vt_status vt_analysis_find(const vt_analysis_def **out, const char *name, vt_err *e) {
    const char *names[COUNT + 1] = {NULL};
    if ((*out = named(name))) return VT_OK;
    for (int i = 0; i < COUNT; i++) names[i] = defs[i]->name;
    return vt_fail_unknown("analysis", name, names, COUNT, NULL, e);
}

vt_status vt_analyze_put(json_t *results, int subject, json_t *value, vt_err *e) {
    const char key[2] = {(char)('A' + subject), 0};
    if (json_object_set_new(results, key, value) == 0) return VT_OK;
    return vt_fail(e, VT_E_MEMORY, "no memory for what was found of checkpoint %s", key);
}

json_t *vt_analyze_reals(const double *x, int n) {
    json_t *a = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(a, vt_json_real(x[i]));
    return a;
}

void vt_analyze_caption(char *out, size_t size, const vt_analyze *a, const char *what, int subject) {
    size_t n = (size_t)snprintf(out, size, "%s", what);
    const char *between = ": ";
    for (int i = 0; i < a->n && n < size; i++) {
        if (subject >= 0 && i != subject) continue;
        const char letter[3] = {a->n > 1 ? (char)('A' + i) : 0, ' ', 0}, *path = a->subjects[i].path;
        size_t length = strlen(path);
        n += (size_t)snprintf(out + n, size - n, "%s%s%s%s", between, letter, length > 48 ? "..." : "",
                              length > 48 ? path + length - 45 : path);
        between = ", ";
    }
}

vt_status vt_analyze_figure(const vt_analyze *a, const char *name, const char *what, int subject, vt_figure_draw *draw,
                            const void *data, vt_err *e) {
    if (!a->picture) return VT_OK;
    char *svg, title[300];
    vt_analyze_caption(title, sizeof title, a, what, subject);
    VT_TRY(vt_figure_text(&svg, title, draw, data, e));
    vt_status s = a->picture(a->picture_ctx, name, svg, e);
    free(svg);
    return s;
}

void vt_analyze_title(FILE *out, const vt_analyze *a, int subject) {
    const vt_analyzed *s = &a->subjects[subject];
    const vt_config *c = &s->model->config;
    fprintf(out, "\n");
    if (a->n > 1) fprintf(out, "%c  ", 'A' + subject);
    fprintf(out, "%s: %s, %d blocks, width %d, %d heads, attention %s\n", s->path, c->arch, c->depth, c->dim, c->heads,
            c->attn);
}

void vt_analyze_number(double x, char out[16]) {
    double size = fabs(x);
    if (isnan(x))
        snprintf(out, 16, "-");
    else if (x != 0 && (size < 0.001 || size >= 1e6))
        snprintf(out, 16, "%.3e", x);
    else
        snprintf(out, 16, "%.*f", size >= 10000 ? 0 : size >= 1000 ? 1 : size >= 100 ? 2 : size >= 10 ? 3 : 4, x);
}

void vt_analyze_cell(vt_columns *t, double x) {
    char text[16];
    vt_analyze_number(x, text);
    vt_columns_cell(t, "%s", text);
}

/* Checks, as the kind needs, that attention can be read and memory suffices; then runs the kind's own check. */
static vt_status check_needs(const vt_analysis_def *def, const void *params, const vt_analyze *a, vt_err *e) {
    for (int i = 0; i < a->n; i++) {
        const vt_analyzed *s = &a->subjects[i];
        if (def->wants & VT_WANTS_ATTENTION) VT_TRY(vt_layers_check(s->model, e));
        size_t own = def->bytes ? def->bytes(a, s, params) : 0, benches = 0, have = vt_memory();
        if (def->wants & VT_WANTS_IMAGES) benches = (size_t)a->threads * vt_analysis_worker_bytes(a, s);
        if (have && (own > have || benches > have - own))
            return vt_fail(e, VT_E_MEMORY,
                           "%s: analysis %s would need %.1f GiB of memory (%d threads), this machine has %.1f GiB",
                           s->path, def->name, ((double)own + (double)benches) / 1073741824, a->threads,
                           (double)have / 1073741824);
    }
    return def->check ? def->check(a, params, e) : VT_OK;
}

/* Returns the document without results: analysis, options, seed, weights, data, attack. NULL: no memory. */
static json_t *describe_run(const vt_analysis_def *def, const void *params, const vt_analyze *a) {
    char options[1000];
    vt_opt_text(def->opts, params, options, sizeof options);
    static const char letters[VT_ANALYZE_MOST + 1] = "ABCDEFGHIJKLMNO";
    json_t *weights = json_array(), *o;
    for (int i = 0; i < a->n; i++)
        json_array_append_new(weights, json_pack("{s:s%,s:s,s:s}", "key", letters + i, (size_t)1, "path",
                                                 a->subjects[i].path, "sha256", a->subjects[i].model->sha256));
    o = json_pack("{s:s,s:s,s:s,s:I,s:o}", "analysis", def->name, "source", def->source, "options", options, "seed",
                  (json_int_t)a->seed, "weights", weights);
    if (o && a->subjects[0].data) {
        json_t *list = json_array();
        for (size_t i = 0; i < a->n_images; i++) json_array_append_new(list, json_integer(a->images[i]));
        json_object_set_new(o, "data",
                            json_pack("{s:s,s:s,s:o}", "path", a->subjects[0].data->path, "split",
                                      vt_split_name(a->subjects[0].data->split), "images", list));
    }
    if (o && a->attack)
        json_object_set_new(o, "attack",
                            json_pack("{s:s,s:s,s:s}", "id", a->attack->id, "norm", vt_norm_name(a->norm), "eps",
                                      a->eps_text));
    return o;
}

/* Prints the kind, its source, the seed with the options' text, and the images with their attack. */
static void print_heading(const vt_analysis_def *def, const vt_analyze *a, const char *options, FILE *out) {
    fprintf(out, "analysis %s: %s\n%s\nseed %" PRIu64 "%s%s\n", def->name, def->summary, def->source, a->seed,
            *options ? ", " : "", options);
    if (a->subjects[0].data) fprintf(out, "%zu images of %s", a->n_images, a->subjects[0].data->path);
    if (a->attack) fprintf(out, ", attacked by %s, %s eps %s", a->attack->name, vt_norm_name(a->norm), a->eps_text);
    if (a->subjects[0].data) fprintf(out, "\n");
}

vt_status vt_analyze_run(const vt_analysis_def *def, const void *params, const vt_analyze *a, FILE *out, json_t **doc,
                         vt_err *e) {
    char options[1000];
    size_t before = vt_json_refused();
    *doc = NULL;
    VT_TRY(check_needs(def, params, a, e));
    vt_opt_text(def->opts, params, options, sizeof options);
    print_heading(def, a, options, out);
    *doc = describe_run(def, params, a);
    json_t *results = *doc ? json_object() : NULL;
    if (!results || json_object_set_new(*doc, "results", results) != 0)
        return vt_fail(e, VT_E_MEMORY, "no memory for an analysis");
    VT_TRY(def->run(a, params, out, results, e));
    if (vt_json_refused() != before) return vt_fail(e, VT_E_MEMORY, "no memory for what an analysis has found");
    if (fflush(out) != 0 || ferror(out)) return vt_fail(e, VT_E_IO, "the tables of the analysis cannot be written");
    return VT_OK;
}
