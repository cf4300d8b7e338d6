/* SPDX-License-Identifier: MIT */
#include "research/lab/lab.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "base/mem.h"

#define VT_KIND vt_lab_def
#define VT_KIND_NAME(x) vt_lab_def_##x
#define VT_KIND_LIST "labs.inc"
#include "base/registry.inc"

const vt_lab_def *const *vt_lab_defs(int *n) {
    *n = COUNT;
    return defs;
}

vt_status vt_lab_find(const vt_lab_def **out, const char *name, vt_err *e) {
    const char *names[COUNT + 1] = {NULL};
    if ((*out = named(name))) return VT_OK;
    for (int i = 0; i < COUNT; i++) names[i] = defs[i]->name;
    return vt_fail_unknown("lab", name, names, COUNT, NULL, e);
}

/* "supports", "weakens", "contradicts" or "does not test". */
static const char *finding_name(vt_finding f) {
    static const char *const names[VT_FINDING_COUNT] = {"supports", "weakens", "contradicts", "does not test"};
    return names[f];
}

vt_status vt_lab_put(json_t *object, const char *key, json_t *value, vt_err *e) {
    if (json_object_set_new(object, key, value) == 0) return VT_OK;
    return vt_fail(e, VT_E_MEMORY, "no memory for '%s' of a lab's results, or it is not a finite number", key);
}

vt_status vt_lab_claim(vt_lab *lab, vt_finding f, const char *claim, vt_err *e, const char *evidence, ...) {
    char text[500];
    va_list ap;
    va_start(ap, evidence);
    vsnprintf(text, sizeof text, evidence, ap);
    va_end(ap);
    json_t *o = json_pack("{s:s,s:s,s:s}", "claim", claim, "finding", finding_name(f), "evidence", text);
    if (json_array_append_new(lab->claims, o) == 0) return VT_OK;
    return vt_fail(e, VT_E_MEMORY, "no memory for a claim of a lab");
}

vt_status vt_lab_alive(const vt_lab *lab, vt_err *e) { return vt_check_interrupt(lab->interrupt, "a lab", e); }

typedef struct loop {
    vt_lab *lab;
    vt_item_fn fn;
    void *ctx;
} loop;

/* Work item of vt_for_each_in_order: the loop's fn. */
static vt_status run_item(void *ctx, int thread, size_t i, vt_err *e) {
    const loop *l = ctx;
    return l->fn(l->ctx, thread, i, e);
}

/* In order: counts one item in the progress. */
static void report_progress(void *ctx, int thread, size_t i) {
    vt_progress *p = &((const loop *)ctx)->lab->progress;
    (void)thread, (void)i;
    vt_progress_step(p, p->done + 1, NULL);
}

vt_status vt_lab_for_each(vt_lab *lab, const char *stage, size_t n, vt_item_fn fn, void *ctx, vt_err *e) {
    loop l = {lab, fn, ctx};
    if (stage) vt_progress_begin(&lab->progress, stage, 0, n);
    VT_TRY(vt_for_each_in_order(n, lab->threads, run_item, report_progress, &l, e));
    if (stage) vt_progress_end(&lab->progress, NULL);
    return VT_OK;
}

json_t *vt_lab_numbers(const double *x, size_t n) {
    json_t *a = json_array();
    for (size_t i = 0; i < n; i++) {
        json_t *v = isfinite(x[i]) ? json_real(x[i]) : json_null();
        if (json_array_append_new(a, v) != 0) {
            json_decref(a);
            return NULL;
        }
    }
    return a;
}

vt_finding vt_lab_by_count(int good, int all) {
    return all == 0 ? VT_NOT_TESTED : good == all ? VT_SUPPORTED : good ? VT_WEAKENED : VT_CONTRADICTED;
}

vt_status vt_lab_figure(vt_lab *lab, const char *name, const char *title, vt_figure_draw *draw, const void *data,
                        vt_err *e) {
    if (!lab->picture) return VT_OK;
    char *svg;
    VT_TRY(vt_figure_text(&svg, title, draw, data, e));
    vt_status s = lab->picture(lab->picture_ctx, name, svg, e);
    free(svg);
    return s;
}

/* Prints a line for each claim, and last a line that counts the findings. */
static void print_verdict(const vt_lab *lab) {
    int count[VT_FINDING_COUNT] = {0};
    size_t i;
    json_t *c;
    fprintf(lab->out, "\nwhat was found here, claim by claim\n");
    json_array_foreach(lab->claims, i, c) {
        const char *finding = json_string_value(json_object_get(c, "finding"));
        for (int f = 0; f < VT_FINDING_COUNT; f++) count[f] += !strcmp(finding, finding_name((vt_finding)f));
        fprintf(lab->out, "  %-13s %s: %s\n", finding, json_string_value(json_object_get(c, "claim")),
                json_string_value(json_object_get(c, "evidence")));
    }
    fprintf(lab->out, "verdict: of %zu claims of the paper this run", json_array_size(lab->claims));
    bool first = true;
    for (int f = 0; f < VT_FINDING_COUNT; f++)
        if (count[f]) {
            fprintf(lab->out, "%s %s %d", first ? "" : ",", finding_name((vt_finding)f), count[f]);
            first = false;
        }
    fprintf(lab->out, "%s\n", first ? " judges none" : "");
}

vt_status vt_lab_run(const vt_lab_def *def, const void *params, vt_lab *lab, json_t **doc, vt_err *e) {
    char options[1000];
    size_t before = vt_json_refused();
    vt_opt_text(def->opts, params, options, sizeof options);
    lab->json = json_object(), lab->claims = json_array();
    *doc = json_pack("{s:s,s:s,s:I,s:s,s:o,s:o}", "lab", def->name, "source", def->source, "seed",
                     (json_int_t)lab->seed, "options", options, "results", lab->json, "claims", lab->claims);
    if (!*doc) return vt_fail(e, VT_E_MEMORY, "no memory for a lab's results");
    fprintf(lab->out, "lab %s: %s\n%s\nseed %" PRIu64 "%s%s\n", def->name, def->summary, def->source, lab->seed,
            *options ? ", " : "", options);
    VT_TRY(def->run(params, lab, e));
    if (vt_json_refused() != before) return vt_fail(e, VT_E_MEMORY, "no memory for what a lab has found");
    print_verdict(lab);
    if (fflush(lab->out) != 0 || ferror(lab->out)) return vt_fail(e, VT_E_IO, "the lab's tables cannot be written");
    return VT_OK;
}
