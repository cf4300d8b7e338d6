/* SPDX-License-Identifier: MIT */
#include "eval/report/export.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/files.h"
#include "core/mem.h"
#include "eval/header.h"
#include "io/image.h"
#include "eval/result_index.h"
#include "io/npy.h"

/* ---- which point of each image ---- */

/* Whose points are exported: one entry's (1, 2, ...), or those of every entry of a scoring. */
typedef struct choice {
    const vt_header *header;
    int entry;
    vt_scoring scoring;
} choice;

static bool is_chosen_record(const choice *c, const vt_record *r) {
    return c->entry ? r->entry == c->entry : vt_header_scoring(c->header, r->entry) == c->scoring;
}

/* Of the records [n] of one image those that count: the broken one of the largest margin, else the clean line. */
static const vt_record *better_record(const vt_record *old, const vt_record *r, const choice *c) {
    if (r->entry == VT_ENTRY_CLEAN) return old ? old : r;
    if (r->status != VT_RECORD_BROKEN || r->adv < 0 || !is_chosen_record(c, r)) return old;
    if (!old || old->entry == VT_ENTRY_CLEAN || r->margin > old->margin) return r;
    return old;
}

static vt_status allocate_arrays(vt_export *x, vt_err *e) {
    size_t values, bytes;
    if (!vt_mul((size_t)x->n, x->pixels, &values) || !vt_mul(values, sizeof(float), &bytes))
        return vt_fail(e, VT_E_MEMORY, "%s: its images do not fit into memory", x->ledger->dir);
    size_t n = (size_t)x->n;
    x->x_adv = malloc(bytes + 1), x->status = calloc(n + 1, 1);
    x->indices = calloc(n + 1, sizeof *x->indices), x->labels = calloc(n + 1, sizeof *x->labels);
    x->preds = calloc(n + 1, sizeof *x->preds);
    if (x->x_adv && x->status && x->indices && x->labels && x->preds) return VT_OK;
    return vt_fail(e, VT_E_MEMORY, "%s: no memory for %zu bytes of images", x->ledger->dir, bytes);
}

static vt_status clean_image(float *to, const vt_export *x, const vt_record *clean, const vt_dataset *d, vt_err *e) {
    vt_image im;
    int label;
    VT_TRY(vt_dataset_read_as(d, clean->image, x->shape, &im, &label, e));
    for (size_t i = 0; i < x->pixels; i++) to[i] = vt_image_at(&im, i);
    vt_image_free(&im);
    if (label == clean->label && vt_sha_prefix(to, x->pixels * sizeof *to) == clean->sha) return VT_OK;
    return vt_fail(e, VT_E_FORMAT, "%s: image %d is not the one that %s evaluated", d->path, clean->image,
                   x->ledger->dir);
}

/* Records in the order of images; each image begins with its clean line. */
static vt_status fill_arrays(vt_export *x, const vt_record **r, size_t n, const vt_dataset *d, const choice *c,
                             vt_err *e) {
    int64_t at = 0;
    for (size_t i = 0, j; i < n; i = j, at++) {
        const vt_record *best = NULL;
        if (r[i]->entry) return vt_fail(e, VT_E_FORMAT, "%s: image %d has no clean line", x->ledger->dir, r[i]->image);
        for (j = i; j < n && r[j]->image == r[i]->image; j++) best = better_record(best, r[j], c);
        float *to = x->x_adv + (size_t)at * x->pixels;
        VT_TRY(clean_image(to, x, r[i], d, e));
        bool broken = best->entry > VT_ENTRY_CLEAN && r[i]->status == VT_RECORD_CORRECT;
        if (broken) VT_TRY(vt_ledger_read_adv(x->ledger, best, to, e));
        x->indices[at] = r[i]->image, x->labels[at] = r[i]->label;
        x->preds[at] = broken ? best->pred : r[i]->pred;
        x->status[at] = broken;
        x->broken += broken;
    }
    return VT_OK;
}

vt_status vt_export_make(vt_export *x, const vt_ledger *l, const vt_model *m, const vt_dataset *d, int entry,
                         vt_scoring scoring, vt_err *e) {
    choice c = {.header = l->header, .entry = entry, .scoring = scoring};
    *x = (vt_export){.ledger = l, .shape = vt_config_shape(&m->config), .pixels = vt_config_input_pixels(&m->config)};
    VT_TRY(vt_result_index_finished(l, &x->n, e));
    VT_TRY(allocate_arrays(x, e));
    const vt_record **order = calloc(l->count + 1, sizeof *order);
    if (!order) return vt_fail(e, VT_E_MEMORY, "%s: no memory to export it", l->dir);
    for (size_t i = 0; i < l->count; i++) order[i] = &l->records[i];
    qsort(order, l->count, sizeof *order, vt_record_by_image);
    vt_status s = fill_arrays(x, order, l->count, d, &c, e);
    free(order);
    return s;
}

void vt_export_free(vt_export *x) {
    free(x->x_adv), free(x->indices), free(x->labels), free(x->preds), free(x->status);
    *x = (vt_export){0};
}

/* ---- formats ---- */

enum { PARTS = 5 };

static void make_tensors(vt_tensor t[PARTS], const vt_export *x) {
    size_t n = (size_t)x->n;
    t[0] = (vt_tensor){.name = "x_adv", .dtype = VT_F32, .ndim = 4, .shape = {x->n, VT_CHW_OF(x->shape)}};
    t[0].numel = n * x->pixels, t[0].data = x->x_adv;
    t[1] = (vt_tensor){.name = "labels", .dtype = VT_I64, .ndim = 1, .shape = {x->n}, .numel = n, .data = x->labels};
    t[2] = (vt_tensor){.name = "indices", .dtype = VT_I64, .ndim = 1, .shape = {x->n}, .numel = n, .data = x->indices};
    t[3] = (vt_tensor){.name = "preds", .dtype = VT_I64, .ndim = 1, .shape = {x->n}, .numel = n, .data = x->preds};
    t[4] = (vt_tensor){.name = "status", .dtype = VT_U8, .ndim = 1, .shape = {x->n}, .numel = n, .data = x->status};
}

static vt_status write_npz(const vt_export *x, const char *path, vt_err *e) {
    vt_tensor t[PARTS];
    make_tensors(t, x);
    return vt_npz_write(path, t, PARTS, e);
}

static vt_status write_npy(const vt_export *x, const char *path, vt_err *e) {
    vt_tensor t[PARTS];
    char file[VT_PATH_MAX], name[32];
    make_tensors(t, x);
    VT_TRY(vt_make_dir(path, e));
    for (int i = 0; i < PARTS; i++) {
        snprintf(name, sizeof name, "%s.npy", t[i].name);
        if (!vt_path(file, path, name)) return vt_fail(e, VT_E_IO, "%s: path is too long", path);
        VT_TRY(vt_npy_write(file, &t[i], e));
    }
    return VT_OK;
}

static vt_status write_safetensors(const vt_export *x, const char *path, vt_err *e) {
    const vt_header *h = x->ledger->header;
    const char *const meta[] = {"weights", h->weights,   "data", h->data.sha256, "split",   h->data.split,
                                "norm",    h->norm_name, "eps",  h->eps_text,    "vitrine", h->version};
    vt_tensor t[PARTS];
    make_tensors(t, x);
    return vt_tensors_write(path, t, PARTS, meta, (int)(sizeof meta / sizeof *meta / 2), e);
}

static vt_status write_png(const vt_export *x, const char *path, vt_err *e) {
    char file[VT_PATH_MAX], name[32];
    vt_image im;
    vt_status s = vt_picture_open(&im, x->shape, path, e);
    if (s == VT_OK) s = vt_make_dir(path, e);
    vt_file list;
    if (s == VT_OK) s = vt_file_begin(&list, path, "labels.csv", e);
    if (s == VT_OK) fprintf(list.stream, "file,index,label,pred,broken\n");
    bool open = s == VT_OK;
    for (int64_t k = 0; k < x->n && s == VT_OK; k++) {
        vt_picture_fill(&im, x->x_adv + (size_t)k * x->pixels, x->shape);
        snprintf(name, sizeof name, "%05lld.png", (long long)x->indices[k]);
        s = vt_path(file, path, name) ? vt_png_write(file, &im, e) : vt_fail(e, VT_E_IO, "%s: path is too long", path);
        fprintf(list.stream, "%s,%lld,%lld,%lld,%d\n", name, (long long)x->indices[k], (long long)x->labels[k],
                (long long)x->preds[k], x->status[k]);
    }
    vt_image_free(&im);
    if (s == VT_OK) return vt_file_commit(&list, e);
    if (open) vt_file_abandon(&list);
    return s;
}

static const vt_export_format formats[] = {
    {"npz", "export.npz", "one NumPy archive", write_npz},
    {"npy", "export", "a folder of NumPy arrays, one a file", write_npy},
    {"safetensors", "export.safetensors", "one file, with the hashes of weights and data", write_safetensors},
    {"png", "export-png", "a folder of pictures rounded to 8 bits, and labels.csv", write_png},
};

const vt_export_format *vt_export_find(const char *name) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (!strcmp(formats[i].name, name)) return &formats[i];
    return NULL;
}
