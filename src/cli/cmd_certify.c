/* SPDX-License-Identifier: MIT */
/* vitrine certify: radii around points within which a network's class is proven. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "base/mem.h"
#include "certify/certify.h"
#include "certify/lipschitz.h"
#include "checkpoint/onnx_file.h"
#include "cli/cli.h"
#include "eval/args.h"
#include "eval/prepare.h"
#include "graph/network.h"
#include "models/export/export.h"
#include "tensors/tensors.h"

typedef enum bound_method { LINEAR, LIPSCHITZ, METHODS } bound_method;
static const char *const methods[] = {"linear", "lipschitz"};

typedef struct points {
    size_t count, each;
    double *x;
    int64_t *labels;
} points;

/* Shape of an image, for a network whose file leaves it open. */
static vt_status read_shape(const vt_tensors *st, int64_t shape[3], const vt_tensor **x, vt_err *e) {
    *x = vt_tensors_find(st, "x");
    if (!*x || (*x)->ndim < 2 || (*x)->ndim > 4 || (*x)->shape[0] < 1)
        return vt_fail(e, VT_E_FORMAT, "%s: tensor x [N,C,H,W] or [N,values] of points is missing",
                       vt_tensors_path(st));
    const int spare = 4 - (*x)->ndim;
    for (int k = 0; k < 3; k++) shape[k] = k < spare ? 1 : (*x)->shape[k + 1 - spare];
    return VT_OK;
}

/* Sets p to the points x [n, ...] and labels [n] of a file, to be freed also after a failure. VT_E_SHAPE: not the
 * network's inputs; VT_E_FORMAT: no labels; VT_E_RANGE: a number outside [0,1] (unboxed: not finite) or a label that is
 * no class. */
static vt_status read_points(points *p, const vt_tensors *st, const vt_tensor *x, const vt_network *n, bool unboxed,
                             vt_err *e) {
    const vt_tensor *labels = vt_tensors_find(st, "labels");
    const char *path = vt_tensors_path(st);
    const int64_t classes = n->g->one_logit ? 2 : n->classes;
    p->count = (size_t)x->shape[0], p->each = x->numel / p->count;
    if (p->each != vt_shape_values(n->shape))
        return vt_fail(e, VT_E_SHAPE, "%s: points of tensor x have %zu numbers, the network's input has %zu", path,
                       p->each, (size_t)vt_shape_values(n->shape));
    if (!labels || labels->numel != p->count)
        return vt_fail(e, VT_E_FORMAT, "%s: needs tensor labels [%zu] (int64), the class of each point", path,
                       p->count);
    p->x = vt_alloc(x->numel * sizeof *p->x), p->labels = vt_alloc(p->count * sizeof *p->labels);
    if (!p->x || !p->labels) return vt_fail(e, VT_E_MEMORY, "%s: no memory for %zu points", path, p->count);
    VT_TRY(vt_tensor_f64(st, x, p->x, x->numel, e));
    VT_TRY(vt_tensor_i64(st, labels, p->labels, p->count, e));
    for (size_t i = 0; i < x->numel; i++)
        if (!isfinite(p->x[i]) || (!unboxed && !(p->x[i] >= 0 && p->x[i] <= 1)))
            return vt_fail(e, VT_E_RANGE, "%s: tensor x holds %g at element %zu, must be %s", path, p->x[i], i,
                           unboxed ? "finite" : "in [0,1] (other domains: --unboxed)");
    for (size_t i = 0; i < p->count; i++)
        if (p->labels[i] < 0 || p->labels[i] >= classes)
            return vt_fail(e, VT_E_RANGE, "%s: label %lld of point %zu, must be below the network's %lld classes", path,
                           (long long)p->labels[i], i, (long long)classes);
    return VT_OK;
}

/* Opens the model, an ONNX file for points of that shape, and its network of single operators. */
static vt_status open_network(const vt_cli *c, const int64_t shape[3], vt_model **m, vt_network **n, vt_err *e) {
    const char *path = c->positional[0];
    vt_overrides o;
    VT_TRY(vt_prepare_overrides(&c->given, &o, e));
    for (int k = 0; o.has_std && k < 3; k++)
        if (!(o.std[k] > 0)) return vt_fail(e, VT_E_USAGE, "--std is '%s', must be above 0", vt_cli_get(c, "std"));
    const bool onnx = vt_is_onnx(path);
    o.onnx = o.own_pixels = true, o.shown = (int)shape[2];
    if (onnx && !o.shape[0]) memcpy(o.shape, shape, sizeof o.shape);
    VT_TRY(vt_model_open(m, path, &o, e));
    if (!onnx) VT_TRY(vt_cli_known(c, *m, e));
    return vt_model_network(n, *m, e);
}

/* Sets *m and *o from the options, for lipschitz norm l2; VT_E_USAGE: one is missing, or is none of its values. */
static vt_status read_options(const vt_cli *c, bound_method *m, vt_certify_options *o, vt_err *e) {
    const char *norm = vt_cli_get(c, "norm"), *radius = vt_cli_get(c, "radius"), *by = vt_cli_get(c, "method"),
               *seconds = vt_cli_get(c, "seconds");
    long long threads;
    if (!vt_cli_get(c, "points") || !vt_cli_get(c, "out"))
        return vt_fail(e, VT_E_USAGE, "vitrine certify needs --points FILE.safetensors and --out FILE.json");
    VT_TRY(vt_file_writable(vt_cli_get(c, "out"), e));
    VT_TRY(vt_cli_threads(c, &threads, e));
    *o = (vt_certify_options){.unboxed = vt_cli_has(c, "unboxed"),
                              .seconds = 60,
                              .threads = (int)threads,
                              .interrupt = vt_cli_interruptible()};
    for (*m = LINEAR; by && *m < METHODS && strcmp(by, methods[*m]);) ++*m;
    if (*m == METHODS) return vt_fail(e, VT_E_USAGE, "--method is '%s', must be linear or lipschitz", by);
    if (!norm && *m == LIPSCHITZ) norm = "l2";
    while (norm && o->norm < VT_CERTIFY_NORMS && strcmp(norm, vt_certify_norm_names[o->norm])) o->norm++;
    if (o->norm == VT_CERTIFY_NORMS) return vt_fail(e, VT_E_USAGE, "--norm is '%s', must be linf, l2 or l1", norm);
    if (*m == LIPSCHITZ && o->norm != VT_CERTIFY_L2)
        return vt_fail(e, VT_E_USAGE, "--norm is '%s', must be l2 with --method lipschitz", norm);
    if (seconds && !(vt_parse_real(seconds, &o->seconds) && o->seconds > 0))
        return vt_fail(e, VT_E_USAGE, "--seconds is '%s', must be a number above 0", seconds);
    if (radius && !(vt_parse_real(radius, &o->radius) && o->radius > 0))
        return vt_fail(e, VT_E_USAGE, "--radius is '%s', must be a number above 0", radius);
    return VT_OK;
}

/* One of the two. */
typedef struct engine {
    vt_certify *boxes;
    vt_lipschitz *margins;
} engine;

/* Opens the one of the two engines that m names. */
static vt_status open_engine(engine *by, bound_method m, const vt_graph *g, const vt_certify_options *o, vt_err *e) {
    return m == LINEAR ? vt_certify_open(&by->boxes, g, o, e) : vt_lipschitz_open(&by->margins, g, o, e);
}

/* Sets *out to what the open engine certifies at point x. */
static vt_status certify_one(engine *by, const double *x, int64_t label, vt_certified *out, vt_err *e) {
    return by->boxes ? vt_certify_point(by->boxes, x, label, out, e)
                     : vt_lipschitz_point(by->margins, x, label, out, e);
}

/* Appends a row for each point to the list; after an interrupt it has those of the first points. constant:
 * vt_lipschitz_constant, where there is one. */
static vt_status certify_all(const vt_cli *c, const vt_graph *g, const points *p, bound_method method,
                             const vt_certify_options *o, json_t *list, double *constant, vt_err *e) {
    engine by = {0};
    double sum = 0;
    size_t some = 0;
    vt_status s = open_engine(&by, method, g, o, e);
    vt_progress seen = vt_cli_progress();
    seen.unit = "points";
    vt_progress_begin(&seen, "certify", 0, p->count);
    for (size_t i = 0; s == VT_OK && i < p->count; i++) {
        vt_certified r;
        s = *o->interrupt ? VT_INTERRUPTED : certify_one(&by, p->x + i * p->each, p->labels[i], &r, e);
        if (s == VT_INTERRUPTED && i)
            s = vt_fail(e, s, "interrupted; %s holds the first %zu of %zu points", vt_cli_get(c, "out"), i, p->count);
        else if (s == VT_INTERRUPTED)
            s = vt_fail(e, s, "interrupted before the first of %zu points was done", p->count);
        if (s != VT_OK) break;
        json_t *margin = isfinite(r.margin) ? json_real(r.margin) : json_null();
        json_t *row = json_pack("{s:I,s:f,s:o,s:I,s:f}", "index", (json_int_t)i, "radius", r.radius, "margin", margin,
                                "boxes", (json_int_t)r.boxes, "seconds", r.seconds);
        if (json_array_append_new(list, row)) s = vt_fail(e, VT_E_MEMORY, "%s: no memory", g->path);
        sum += r.radius, some += r.radius > 0;
        vt_progress_step(&seen, i + 1, NULL);
    }
    if (s == VT_OK) vt_progress_end(&seen, NULL);
    if (s == VT_OK && by.margins) *constant = vt_lipschitz_constant(by.margins);
    vt_certify_close(by.boxes), vt_lipschitz_close(by.margins);
    if (s == VT_OK)
        printf("%s: certified a radius at %zu of %zu points, %.6g on average\n", vt_cli_get(c, "out"), some, p->count,
               sum / (double)p->count);
    return s;
}

/* Certifies every point and writes {method, norm, ..., "points": [{index, radius}]} as --out says, or to stdout; when
 * interrupted, what it has. */
static vt_status write_radii(const vt_cli *c, const vt_graph *g, const points *p, bound_method method,
                             const vt_certify_options *o, vt_err *e) {
    const size_t refused = vt_json_refused();
    json_t *list = json_array();
    json_t *all =
        json_pack("{s:s,s:s,s:b,s:s,s:s,s:o}", "method", methods[method], "norm", vt_certify_norm_names[o->norm],
                  "boxed", !o->unboxed, "arithmetic", vt_certify_arithmetic, "model", g->path, "points", list);
    double constant = NAN;
    vt_status s = all ? certify_all(c, g, p, method, o, list, &constant, e) : VT_OK;
    if (method == LIPSCHITZ &&
        json_object_set_new(all, "constant", isfinite(constant) ? json_real(constant) : json_null()))
        s = vt_fail(e, VT_E_MEMORY, "%s: no memory", g->path);
    if (s == VT_OK || (s == VT_INTERRUPTED && json_array_size(list))) {
        vt_file f;
        vt_err why = {0};
        all = vt_json_whole(all, refused);
        vt_status kept = vt_file_begin_path(&f, vt_cli_get(c, "out"), &why);
        if (kept == VT_OK) kept = vt_json_commit(&f, all, JSON_INDENT(1), &why);
        if (kept != VT_OK) s = kept, *e = why;
    }
    json_decref(all);
    return s;
}

static vt_status run(const vt_cli *c, vt_err *e) {
    int64_t shape[3];
    vt_certify_options o;
    vt_model *m = NULL;
    vt_tensors *st = NULL;
    vt_network *n = NULL;
    const vt_tensor *x = NULL;
    points p = {0};
    bound_method by = LINEAR;
    VT_TRY(read_options(c, &by, &o, e));
    vt_status s = vt_tensors_open(&st, vt_cli_get(c, "points"), e);
    if (s == VT_OK) s = read_shape(st, shape, &x, e);
    if (s == VT_OK) s = open_network(c, shape, &m, &n, e);
    if (s == VT_OK) s = read_points(&p, st, x, n, o.unboxed, e);
    if (s == VT_OK) s = write_radii(c, n->g, &p, by, &o, e);
    free(p.x), free(p.labels);
    vt_network_close(n);
    vt_model_close(m);
    vt_tensors_close(st);
    return s;
}

static const vt_arg args[] = {
    {"points", "FILE", "safetensors: x [N,C,H,W] or [N,values], labels [N]", VT_OF_DATA},
    {"norm", "NORM", "of the ball around a point: linf (default), l2, l1", VT_OF_RUN},
    {"method", "NAME", "linear (default): bounds of every value; lipschitz: l2 alone, one forward a point", VT_OF_RUN},
    {"unboxed", NULL, "perturbed points may leave [0,1]", VT_OF_RUN},
    {"radius", "R", "only ask whether R is certified (default: the largest radius that is)", VT_OF_RUN},
    {"seconds", "S", "seconds for each point (default 60)", VT_OF_RUN},
    {"out", "FILE", "JSON to write: the certified radius of each point", VT_OF_OUTPUT},
    VT_THREADS_ARG,
    VT_MODEL_ARGS,
    {0},
};

const vt_command vt_command_certify = {
    .name = "certify",
    .summary = "radii around points within which a network's class is proven",
    .operands = "WEIGHTS",
    .min_operands = 1,
    .max_operands = 1,
    .args = args,
    .details = "A radius is a lower bound: no perturbation of that size changes the class. A larger one may be safe\n"
               "too; a point without a certificate, or of another class, has radius 0. See docs/certify.md.",
    .examples = {"vitrine certify tests/fixtures/onnx/certify_relu.onnx --points "
                 "tests/fixtures/onnx/certify_relu.safetensors --out radii.json --seconds 1",
                 "vitrine certify tests/fixtures/onnx/certify_attention.onnx --points "
                 "tests/fixtures/onnx/certify_attention.safetensors --unboxed --radius 0.01 --out answers.json",
                 "vitrine certify tests/fixtures/onnx/certify_relu.onnx --points "
                 "tests/fixtures/onnx/certify_relu.safetensors --method lipschitz --out l2.json"},
    .run = run,
};
