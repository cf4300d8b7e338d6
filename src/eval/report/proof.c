/* SPDX-License-Identifier: MIT */
#include "eval/report/proof.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "eval/header.h"
#include "parallel/threads.h"

#define FORMAT "vitrine proof 1"
enum { IMAGES, LABELS, INDICES, X_ADV, PREDS, STATUS, LOGITS, ARRAYS };
static const char *const names[ARRAYS] = {"images", "labels", "indices", "x_adv", "preds", "status", "logits"};

/* ---- writing ---- */

/* What the threads fill: clean images and logits of the points of x. */
typedef struct filling {
    const vt_export *x;
    const vt_subject *s;
    vt_classifier *judges; /* one a thread */
    float *images;         /* [n, shape] */
    double *logits;        /* [n, classes] */
    int classes;
} filling;

/* Reads clean image i and computes its point's logits in double. */
static vt_status fill_row(void *ctx, int thread, size_t i, vt_err *e) {
    filling *f = ctx;
    const size_t n = f->x->pixels;
    int label;
    VT_TRY(vt_subject_image(f->s, f->x->indices[i], f->images + i * n, &label, e));
    return vt_classifier_logits64(&f->judges[thread], f->x->x_adv + i * n, f->logits + i * (size_t)f->classes, e);
}

/* Fills all rows with `threads` classifiers. */
static vt_status fill_rows(filling *f, int threads, vt_err *e) {
    vt_status s = VT_OK;
    int open = 0;
    for (; open < threads && s == VT_OK; open++) s = vt_subject_classifier(&f->judges[open], f->s, NULL, e);
    if (s == VT_OK) s = vt_for_each((size_t)f->x->n, threads, fill_row, f, e);
    while (open--) vt_classifier_close(&f->judges[open]);
    return s;
}

/* Returns the manifest of these arrays; NULL: no memory. */
static json_t *make_manifest(const vt_export *x, const vt_tensor t[ARRAYS]) {
    const vt_header *h = x->ledger->header;
    json_t *arrays = json_object(), *attacks = json_array();
    int64_t robust = 0;
    for (int64_t i = 0; i < x->n; i++) robust += !x->status[i] && x->preds[i] == x->labels[i];
    for (int k = 0; k < ARRAYS; k++) {
        char hex[65];
        vt_sha_hex(t[k].data, vt_tensor_bytes(&t[k]), hex);
        json_object_set_new(arrays, names[k], json_string(hex));
    }
    for (int k = 0; k < h->n_attacks; k++)
        if (x->entry ? k + 1 == x->entry : h->attacks[k].scoring == x->scoring)
            json_array_append_new(attacks, json_string(h->attacks[k].id));
    json_t *o =
        json_pack("{s:s,s:s,s:s,s:s,s:f,s:s,s:o}", "format", FORMAT, "vitrine", h->version, "norm", h->norm_name, "eps",
                  h->eps_text, "eps_value", h->eps, "scoring", vt_scoring_name(x->scoring), "attacks", attacks);
    json_t *counts =
        json_pack("{s:I,s:I,s:I,s:I}", "images", (json_int_t)x->n, "right", (json_int_t)(robust + x->broken), "broken",
                  (json_int_t)x->broken, "robust", (json_int_t)robust);
    json_object_set_new(o, "counts", counts);
    json_object_set_new(o, "weights", json_pack("{s:s,s:s}", "name", h->weights_name, "sha256", h->weights));
    json_object_set(o, "model", (json_t *)h->model.document);
    json_object_set(o, "data", (json_t *)h->data.document);
    json_object_set_new(o, "arrays", arrays);
    return o;
}

/* Writes arrays and manifest as one archive. */
static vt_status write_all(const filling *f, const char *path, vt_err *e) {
    const vt_export *x = f->x;
    const void *const data[ARRAYS] = {f->images, x->labels, x->indices, x->x_adv, x->preds, x->status, f->logits};
    vt_tensor t[ARRAYS + 1];
    for (int k = 0; k < ARRAYS; k++) {
        bool picture = k == IMAGES || k == X_ADV;
        t[k] = (vt_tensor){.name = names[k], .data = data[k], .ndim = picture ? 4 : k == LOGITS ? 2 : 1};
        t[k].dtype = picture ? VT_F32 : k == LOGITS ? VT_F64 : k == STATUS ? VT_U8 : VT_I64;
        const int64_t shape[4] = {x->n, picture ? x->shape.channels : f->classes, x->shape.height, x->shape.width};
        memcpy(t[k].shape, shape, sizeof shape);
        t[k].numel = (size_t)x->n * (picture ? x->pixels : k == LOGITS ? (size_t)f->classes : 1);
    }
    size_t before = vt_json_refused();
    json_t *manifest = vt_json_whole(make_manifest(x, t), before);
    char *text = manifest ? vt_json_text(manifest, JSON_INDENT(1)) : NULL;
    json_decref(manifest);
    if (!text) return vt_fail(e, VT_E_MEMORY, "%s: no memory for its manifest", path);
    const size_t n = strlen(text);
    t[ARRAYS] = (vt_tensor){.name = "manifest", .dtype = VT_U8, .ndim = 1, .shape = {(int64_t)n}, .numel = n};
    t[ARRAYS].data = text;
    vt_status s = vt_npz_write(path, t, ARRAYS + 1, e);
    free(text);
    return s;
}

vt_status vt_proof_write(const vt_export *x, const vt_subject *s, int threads, const char *path, vt_err *e) {
    const vt_header *h = x->ledger->header;
    const char *what = h->curve                  ? "a curve, which has no one radius"
                       : h->patch.size           ? "of the patch threat"
                       : h->box                  ? "of the threat of a box"
                       : h->rotation.angles      ? "of the rotation threat"
                       : h->wrap                 ? "of a model under a known cheat"
                       : vt_subject_is_remote(s) ? "of a model in another process"
                                                 : NULL;
    if (what) return vt_fail(e, VT_E_USAGE, "%s is %s: a file cannot prove its points", x->ledger->dir, what);
    filling f = {.x = x, .s = s, .classes = vt_subject_classes(s)};
    size_t images, logits;
    bool fits = vt_mul((size_t)x->n * sizeof(float), x->pixels, &images) &&
                vt_mul((size_t)x->n * sizeof(double), (size_t)f.classes, &logits);
    f.judges = calloc((size_t)threads, sizeof *f.judges);
    f.images = fits ? malloc(images + 1) : NULL, f.logits = fits ? malloc(logits + 1) : NULL;
    vt_status st = f.judges && f.images && f.logits
                       ? fill_rows(&f, threads, e)
                       : vt_fail(e, VT_E_MEMORY, "%s: no memory for %lld images", path, (long long)x->n);
    if (st == VT_OK) st = write_all(&f, path, e);
    free(f.judges), free(f.images), free(f.logits);
    return st;
}

/* ---- reading ---- */

/* Finds array `name` and checks it against the hash, unless that is NULL. */
static vt_status open_array(vt_npy *a, const vt_proof *p, const char *name, const char *sha, const char *path,
                            vt_err *e) {
    char file[80], hex[65];
    const uint8_t *bytes;
    size_t n;
    snprintf(file, sizeof file, "%s.npy", name);
    int64_t at = vt_zip_find(p->zip, file);
    if (at < 0) return vt_fail(e, VT_E_FORMAT, "%s has no array '%s': it is no proof of vitrine", path, name);
    VT_TRY(vt_zip_entry(p->zip, at, &bytes, &n, e));
    VT_TRY(vt_npy_parse(a, bytes, n, path, e));
    if (!sha) return VT_OK;
    vt_sha_hex(a->data, a->numel * vt_dtype_size(a->dtype), hex);
    if (!strcmp(hex, sha)) return VT_OK;
    return vt_fail(e, VT_E_FORMAT, "%s: array '%s' is not as it was written: its SHA-256 is %.16s..., not %.16s...",
                   path, name, hex, sha);
}

/* Returns the text of a key; NULL: there is none. */
static const char *text_of(const json_t *o, const char *key) { return json_string_value(json_object_get(o, key)); }

/* Reads the manifest's keys. */
static vt_status read_manifest(vt_proof *p, const char *path, vt_err *e) {
    vt_npy text;
    json_error_t why;
    VT_TRY(open_array(&text, p, "manifest", NULL, path, e));
    if (text.dtype != VT_U8) return vt_fail(e, VT_E_FORMAT, "%s: its manifest is no text", path);
    p->manifest = vt_json((const char *)text.data, text.numel, &why);
    if (!p->manifest && vt_json_why(&why) == VT_E_MEMORY)
        return vt_fail(e, VT_E_MEMORY, "%s: no memory for its manifest", path);
    if (!p->manifest) return vt_fail(e, VT_E_FORMAT, "%s: its manifest is no JSON: %.120s", path, why.text);
    const json_t *m = p->manifest, *counts = json_object_get(m, "counts");
    const char *format = text_of(m, "format");
    p->norm = text_of(m, "norm"), p->eps = text_of(m, "eps");
    p->weights = text_of(json_object_get(m, "weights"), "sha256"),
    p->data = text_of(json_object_get(m, "data"), "sha256");
    p->images = json_integer_value(json_object_get(counts, "images"));
    p->broken = json_integer_value(json_object_get(counts, "broken"));
    if (!format || !p->norm || !p->eps || !p->weights || !p->data || p->images < 1)
        return vt_fail(e, VT_E_FORMAT, "%s: its manifest lacks format, norm, eps, a hash or counts", path);
    if (strcmp(format, FORMAT))
        return vt_fail(e, VT_E_FORMAT, "%s: its format is '%.40s', read is '" FORMAT "'", path, format);
    return VT_OK;
}

vt_status vt_proof_open(vt_proof *p, const char *path, vt_err *e) {
    VT_TRY(vt_mapped_open(&p->map, path, e));
    VT_TRY(vt_zip_open(&p->zip, p->map.bytes, p->map.n, path, e));
    VT_TRY(read_manifest(p, path, e));
    int64_t broken = 0;
    for (int k = 0; k < ARRAYS; k++) {
        vt_npy a;
        const char *sha = json_string_value(json_object_get(json_object_get(p->manifest, "arrays"), names[k]));
        VT_TRY(open_array(&a, p, names[k], sha ? sha : "none", path, e));
        if (a.ndim < 1 || a.shape[0] != p->images || a.ndim != (k == LOGITS ? 2 : k == IMAGES || k == X_ADV ? 4 : 1))
            return vt_fail(e, VT_E_FORMAT, "%s: array '%s' is not of %lld rows", path, names[k], (long long)p->images);
        if (k == LOGITS) p->logits = a;
        if (k == STATUS) p->status = a;
    }
    if (!vt_npy_is_real(&p->logits) || vt_npy_is_real(&p->status) || p->logits.shape[1] < 2)
        return vt_fail(e, VT_E_FORMAT, "%s: status must be whole numbers, logits real ones of two classes or more",
                       path);
    for (int64_t i = 0; i < p->images; i++) broken += vt_npy_whole(&p->status, (size_t)i) == 1;
    if (broken == p->broken) return VT_OK;
    return vt_fail(e, VT_E_FORMAT, "%s: its manifest counts %lld broken images, status has %lld", path,
                   (long long)p->broken, (long long)broken);
}

void vt_proof_close(vt_proof *p) {
    json_decref(p->manifest);
    vt_zip_close(p->zip);
    vt_mapped_close(&p->map);
    *p = (vt_proof){0};
}

double vt_proof_margin(const vt_proof *p, int64_t i, int label) {
    double other = -INFINITY, own = NAN;
    for (int64_t k = 0; k < p->logits.shape[1]; k++) {
        double z = vt_npy_real(&p->logits, (size_t)i * p->logits.stride[0] + (size_t)k * p->logits.stride[1]);
        if (k == label)
            own = z;
        else
            other = fmax(other, z);
    }
    return other - own;
}
