/* SPDX-License-Identifier: MIT */
/* vitrine probe: logits, losses and gradients of a batch, to be compared with another framework. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"
#include "cli/run_args.h"
#include "base/mem.h"
#include "base/opt.h"
#include "tensors/tensors.h"
#include "models/net/batch_gradients.h"

typedef struct batch {
    int n;
    double *x;
    int64_t *labels, *targets;
    double *dz;
} batch;

/* Accepts a zeroed one. */
static void batch_free(batch *b) {
    free(b->x);
    free(b->labels);
    free(b->targets);
    free(b->dz);
}

/* Reads the int64 tensor `name` of n values into *out, malloc'ed. */
static vt_status read_integers(const vt_tensors *st, const char *name, int n, int64_t **out, vt_err *e) {
    const vt_tensor *t = vt_tensors_find(st, name);
    if (!t) return vt_fail(e, VT_E_FORMAT, "%s: tensor %s [N] (int64) is missing", vt_tensors_path(st), name);
    if (t->numel != (size_t)n)
        return vt_fail(e, VT_E_SHAPE, "%s: tensor %s has %zu values, but x has %d images", vt_tensors_path(st), name,
                       t->numel, n);
    *out = vt_alloc((size_t)n * sizeof **out);
    if (!*out) return vt_fail(e, VT_E_MEMORY, "%s: no memory", vt_tensors_path(st));
    return vt_tensor_i64(st, t, *out, (size_t)n, e);
}

/* Reads the cotangents of the linear loss, tensor dz [n, classes]. */
static vt_status read_cotangents(batch *b, const vt_tensors *st, int classes, vt_err *e) {
    const vt_tensor *t = vt_tensors_find(st, "dz");
    if (!t || t->ndim != 2 || t->shape[0] != b->n || t->shape[1] != classes)
        return vt_fail(e, VT_E_SHAPE, "%s: --loss linear needs tensor dz [%d,%d]", vt_tensors_path(st), b->n, classes);
    b->dz = vt_alloc(t->numel * sizeof *b->dz);
    if (!b->dz) return vt_fail(e, VT_E_MEMORY, "%s: no memory", vt_tensors_path(st));
    return vt_tensor_f64(st, t, b->dz, t->numel, e);
}

/* Returns the side of the square images in tensor x; 0: not square or none (read_batch refuses that). */
static int side_of(const vt_tensors *st) {
    const vt_tensor *x = vt_tensors_find(st, "x");
    bool square = x && x->ndim == 4 && x->shape[2] == x->shape[3] && x->shape[2] > 0 && x->shape[2] <= 4096;
    return square ? (int)x->shape[2] : 0;
}

/* Reads x [n, side], checked to lie in [0,1], labels [n] and, if wanted, targets [n]. */
static vt_status read_batch(batch *b, const vt_tensors *st, vt_shape side, bool targets, vt_err *e) {
    char shape[96];
    const vt_tensor *x = vt_tensors_find(st, "x");
    if (!x) return vt_fail(e, VT_E_FORMAT, "%s: tensor x [N,C,H,W] is missing", vt_tensors_path(st));
    if (x->ndim != 4 || x->shape[0] < 1 || x->shape[0] > 1000000 || x->shape[1] != side.channels ||
        x->shape[2] != side.height || x->shape[3] != side.width)
        return vt_fail(e, VT_E_SHAPE,
                       "%s: tensor x has shape %s, the model wants [N,%d,%d,%d] (a network that resizes its input "
                       "itself: --attack-at native)",
                       vt_tensors_path(st), vt_shape_text(shape, sizeof shape, x->shape, x->ndim), side.channels,
                       side.height, side.width);
    b->n = (int)x->shape[0];
    b->x = vt_alloc(x->numel * sizeof *b->x);
    if (!b->x) return vt_fail(e, VT_E_MEMORY, "%s: no memory for %d images", vt_tensors_path(st), b->n);
    VT_TRY(vt_tensor_f64(st, x, b->x, x->numel, e));
    for (size_t i = 0; i < x->numel; i++)
        if (!(b->x[i] >= 0 && b->x[i] <= 1))
            return vt_fail(e, VT_E_RANGE, "%s: tensor x holds %g at element %zu, pixels must be in [0,1]",
                           vt_tensors_path(st), b->x[i], i);
    VT_TRY(read_integers(st, "labels", b->n, &b->labels, e));
    return targets ? read_integers(st, "targets", b->n, &b->targets, e) : VT_OK;
}

/* Writes logits, losses and gradients as F32 or F64 tensors, under the names that reference files use. */
static vt_status write_results(const char *path, const vt_batch_gradients *p, const vt_model *m, const char *loss,
                               bool f64, vt_err *e) {
    const vt_shape side = vt_config_shape(&m->config);
    int count = 3 + (p->dparams ? m->params.count : 0), k = 0;
    vt_tensor *t = calloc((size_t)count, sizeof *t);
    char(*names)[96] = calloc((size_t)count, sizeof *names);
    void **owned = calloc((size_t)count, sizeof *owned);
    vt_status st = t && names && owned ? VT_OK : vt_fail(e, VT_E_MEMORY, "%s: no memory to write it", path);
    for (; st == VT_OK && k < count; k++) {
        const double *data = k == 0 ? p->logits : k == 1 ? p->loss : p->dx;
        t[k].shape[0] = p->n, t[k].ndim = 1, t[k].numel = (size_t)p->n;
        if (k == 0) {
            snprintf(names[k], sizeof *names, "logits");
            t[k].ndim = 2, t[k].shape[1] = p->classes, t[k].numel *= (size_t)p->classes;
        } else if (k == 1) {
            snprintf(names[k], sizeof *names, "loss_%s", loss);
        } else if (k == 2) {
            snprintf(names[k], sizeof *names, "dx_%s", loss);
            t[k].ndim = 4, t[k].numel *= p->pixels;
            t[k].shape[1] = side.channels, t[k].shape[2] = side.height, t[k].shape[3] = side.width;
        } else {
            const vt_param *q = &m->params.items[k - 3];
            snprintf(names[k], sizeof *names, "grad.%s", q->name);
            t[k].ndim = q->ndim, t[k].numel = q->numel;
            memcpy(t[k].shape, q->shape, sizeof q->shape);
            data = p->dparams + q->offset;
        }
        t[k].name = names[k], t[k].dtype = f64 ? VT_F64 : VT_F32, t[k].data = data;
        if (f64) continue;
        float *f = owned[k] = vt_alloc(t[k].numel * sizeof *f);
        if (!f) st = vt_fail(e, VT_E_MEMORY, "%s: no memory to write it", path);
        for (size_t i = 0; f && i < t[k].numel; i++) f[i] = (float)data[i];
        t[k].data = f;
    }
    if (st == VT_OK) st = vt_tensors_write(path, t, count, (const char *[]){"precision", f64 ? "f64" : "f32"}, 1, e);
    for (int i = 0; owned && i < count; i++) free(owned[i]);
    free(t), free(names), free(owned);
    return st;
}

/* Finds a loss by its name; VT_E_UNKNOWN with the nearest name. */
static vt_status loss_kind(const char *name, vt_loss_kind *out, vt_err *e) {
    for (int k = 0; k < VT_LOSS_COUNT; k++)
        if (!strcmp(vt_loss_names_f32[k], name)) {
            *out = (vt_loss_kind)k;
            return VT_OK;
        }
    const char *near = vt_nearest(name, vt_loss_names_f32, VT_LOSS_COUNT);
    return vt_fail(e, VT_E_UNKNOWN, "unknown loss '%s', must be ce, margin, dlr, dlr_t, pm, po or linear%s%s%s", name,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* Opens the checkpoint; the images' side counts if nothing else tells the side of the input. */
static vt_status open_model(vt_model **out, const vt_cli *c, const vt_tensors *input, vt_err *e) {
    vt_overrides o;
    const char *at = vt_cli_get(c, "attack-at");
    VT_TRY(vt_cli_overrides(c, &o, e));
    o.onnx = o.raw = true;
    if (!at || strcmp(at, "native")) o.shown = side_of(input); /* else the network's side is another */
    return vt_model_open(out, c->positional[0], &o, e);
}

/* Runs vitrine probe: reads a batch and writes its logits, losses and gradients. */
static vt_status run(const vt_cli *c, vt_err *e) {
    const char *input = vt_cli_get(c, "input"), *out = vt_cli_get(c, "out"), *loss = vt_cli_get(c, "loss");
    const char *precision = vt_cli_get(c, "precision");
    if (!input || !out) return vt_fail(e, VT_E_USAGE, "vitrine probe needs --input BATCH.safetensors and --out FILE");
    if (!loss) loss = "ce";
    if (!precision) precision = "f32";
    bool f64 = !strcmp(precision, "f64");
    if (!f64 && strcmp(precision, "f32"))
        return vt_fail(e, VT_E_USAGE, "--precision is '%s', must be f32 or f64", precision);
    vt_loss_kind kind = VT_LOSS_CE;
    VT_TRY(loss_kind(loss, &kind, e));
    vt_model *m = NULL;
    vt_tensors *st = NULL;
    batch b = {0};
    vt_batch_gradients p = {0};
    vt_status s = vt_tensors_open(&st, input, e);
    if (s == VT_OK) s = open_model(&m, c, st, e);
    if (s == VT_OK) s = vt_cli_known(c, m, e);
    if (s == VT_OK) s = vt_prepare_attack_at(&c->given, m, side_of(st), e);
    if (s == VT_OK) s = read_batch(&b, st, vt_config_shape(&m->config), kind == VT_LOSS_DLR_T, e);
    if (s == VT_OK && kind == VT_LOSS_LINEAR) s = read_cotangents(&b, st, m->config.classes, e);
    if (s == VT_OK)
        s = (f64 ? vt_batch_gradients_run_f64 : vt_batch_gradients_run_f32)(&p, m, b.x, b.n, b.labels, b.targets, b.dz,
                                                                            kind, vt_cli_has(c, "param-grads"), e);
    if (s == VT_OK) s = write_results(out, &p, m, loss, f64, e);
    if (s == VT_OK) printf("%s: logits, loss_%s and dx_%s of %d images in %s\n", out, loss, loss, b.n, precision);
    vt_batch_gradients_free(&p);
    batch_free(&b);
    vt_tensors_close(st);
    vt_model_close(m);
    return s;
}

static const vt_arg args[] = {
    {"input", "FILE", "safetensors: x [N,C,H,W] in [0,1], labels [N]; targets [N] for dlr_t, dz [N,K] for linear",
     VT_OF_DATA},
    {"out", "FILE", "safetensors to write: logits, loss_NAME, dx_NAME, grad.TENSOR", VT_OF_OUTPUT},
    {"loss", "NAME", "ce, margin, dlr, dlr_t, pm, po or linear (default ce)", VT_OF_RUN},
    {"precision", "P", "f32 or f64 (default f32)", VT_OF_RUN},
    {"param-grads", NULL, "also the gradients of the mean loss with respect to every weight", VT_OF_RUN},
    VT_ATTACK_AT_ARG,
    VT_MODEL_ARGS,
    {0},
};

const vt_command vt_command_probe = {
    .name = "probe",
    .summary = "logits, losses and gradients of a batch, to compare with another framework",
    .operands = "WEIGHTS",
    .min_operands = 1,
    .max_operands = 1,
    .args = args,
    .details = "dx_NAME is the gradient of the sum over images, grad.TENSOR that of the mean; losses are defined in "
               "src/nn/loss.h.",
    .examples = {"vitrine probe tests/fixtures/golden/vit_cls.weights.safetensors --heads 2 --mean 0.5 --std 0.5 "
                 "--input tests/fixtures/golden/vit_cls.golden.safetensors --out probe.safetensors",
                 "vitrine probe tests/fixtures/golden/vit_cls.weights.safetensors --heads 2 --mean 0.5 --std 0.5 "
                 "--input tests/fixtures/golden/vit_cls.golden.safetensors --out double.safetensors --loss margin "
                 "--precision f64 --param-grads"},
    .run = run,
};
