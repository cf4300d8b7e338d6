/* SPDX-License-Identifier: MIT */
#include "eval/report/export.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/files.h"
#include "base/mem.h"
#include "eval/header.h"
#include "data/image.h"
#include "eval/result_index.h"
#include "tensors/npy.h"

/* ---- which point of each image ---- */

/* Returns which of two records of one image is exported (old: NULL at first): the broken one of the largest margin,
 * else the clean line; of entry x->entry (1, 2, ...) or, for 0, of every entry of the scoring. */
static const vt_record *better_record(const vt_export *x, const vt_record *old, const vt_record *r) {
    if (r->entry == VT_ENTRY_CLEAN) return old ? old : r;
    bool chosen = x->entry ? r->entry == x->entry : vt_header_scoring(x->ledger->header, r->entry) == x->scoring;
    if (r->status != VT_RECORD_BROKEN || r->adv < 0 || !chosen) return old;
    return !old || old->entry == VT_ENTRY_CLEAN || r->margin > old->margin ? r : old;
}

/* Allocates all arrays of x->n images but x_adv. VT_E_MEMORY: x is still to be freed. */
static vt_status allocate_arrays(vt_export *x, vt_err *e) {
    size_t n = (size_t)x->n + 1;
    x->indices = calloc(n, sizeof *x->indices), x->labels = calloc(n, sizeof *x->labels);
    x->preds = calloc(n, sizeof *x->preds), x->status = calloc(n, 1);
    if (x->indices && x->labels && x->preds && x->status) return VT_OK;
    return vt_fail(e, VT_E_MEMORY, "%s: no memory for its images", x->ledger->dir);
}

/* Allocates x_adv, [n, pixels]. VT_E_MEMORY, also when its bytes are no size_t. */
static vt_status allocate_images(vt_export *x, vt_err *e) {
    size_t values, bytes;
    if (!vt_mul((size_t)x->n, x->pixels, &values) || !vt_mul(values, sizeof(float), &bytes))
        return vt_fail(e, VT_E_MEMORY, "%s: its images do not fit into memory", x->ledger->dir);
    if ((x->x_adv = malloc(bytes + 1))) return VT_OK;
    return vt_fail(e, VT_E_MEMORY, "%s: no memory for %zu bytes of images", x->ledger->dir, bytes);
}

/* Reads a clean image into to [pixels]. VT_E_FORMAT: label or hash is not that of its line, so the data is other
 * data. */
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

/* Fills the arrays, an image each, from n records sorted by image, each image's clean line first, and counts x->broken.
 * VT_E_FORMAT: an image without a clean line. */
static vt_status fill_arrays(vt_export *x, const vt_record **r, size_t n, const vt_dataset *d, vt_err *e) {
    int64_t at = 0;
    for (size_t i = 0, j; i < n; i = j, at++) {
        const vt_record *best = NULL;
        if (r[i]->entry) return vt_fail(e, VT_E_FORMAT, "%s: image %d has no clean line", x->ledger->dir, r[i]->image);
        for (j = i; j < n && r[j]->image == r[i]->image; j++) best = better_record(x, best, r[j]);
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
    *x = (vt_export){.ledger = l, .entry = entry, .scoring = scoring};
    x->shape = vt_config_shape(&m->config), x->pixels = vt_config_input_pixels(&m->config);
    VT_TRY(vt_result_index_finished(l, &x->n, e));
    VT_TRY(allocate_arrays(x, e));
    VT_TRY(allocate_images(x, e));
    const vt_record **order = calloc(l->count + 1, sizeof *order);
    if (!order) return vt_fail(e, VT_E_MEMORY, "%s: no memory to export it", l->dir);
    for (size_t i = 0; i < l->count; i++) order[i] = &l->records[i];
    qsort(order, l->count, sizeof *order, vt_record_by_image);
    vt_status s = fill_arrays(x, order, l->count, d, e);
    free(order);
    return s;
}

void vt_export_free(vt_export *x) {
    free(x->x_adv), free(x->indices), free(x->labels), free(x->preds), free(x->status);
    *x = (vt_export){0};
}

/* ---- formats ---- */

enum { X_ADV, INDICES, LABELS, PREDS, STATUS, PARTS };
static const char *const names[PARTS] = {"x_adv", "indices", "labels", "preds", "status"};

/* Returns one of the arrays (X_ADV to STATUS) as a tensor called `name`, which borrows both. */
static vt_tensor tensor_of(const vt_export *x, int part, const char *name) {
    const void *const data[PARTS] = {x->x_adv, x->indices, x->labels, x->preds, x->status};
    return (vt_tensor){.name = name,
                       .dtype = part == X_ADV    ? VT_F32
                                : part == STATUS ? VT_U8
                                                 : VT_I64,
                       .ndim = part == X_ADV ? 4 : 1,
                       .shape = {x->n, VT_CHW_OF(x->shape)},
                       .numel = (size_t)x->n * (part == X_ADV ? x->pixels : 1),
                       .data = data[part]};
}

/* Fills t with all arrays as borrowing tensors, in the order of files. */
static void make_tensors(vt_tensor t[PARTS], const vt_export *x) {
    static const int order[PARTS] = {X_ADV, LABELS, INDICES, PREDS, STATUS};
    for (int i = 0; i < PARTS; i++) t[i] = tensor_of(x, order[i], names[order[i]]);
}

/* Writes image k as dir/NAME, a PNG of 8 bits, and sets name to its file name. im: an open picture as buffer, which it
 * overwrites. */
static vt_status write_picture(vt_image *im, const vt_export *x, int64_t k, const char *dir, char name[32], vt_err *e) {
    char path[VT_PATH_MAX];
    snprintf(name, 32, "%05lld.png", (long long)x->indices[k]);
    VT_TRY(vt_path_in(path, dir, name, e));
    vt_picture_fill(im, x->x_adv + (size_t)k * x->pixels, x->shape);
    return vt_png_write(path, im, e);
}

/* Writes one .npz file. */
static vt_status write_npz(const vt_export *x, const char *path, vt_err *e) {
    vt_tensor t[PARTS];
    make_tensors(t, x);
    return vt_npz_write(path, t, PARTS, e);
}

/* Makes a folder with an .npy file for each array. */
static vt_status write_npy(const vt_export *x, const char *path, vt_err *e) {
    vt_tensor t[PARTS];
    char file[VT_PATH_MAX], name[32];
    make_tensors(t, x);
    VT_TRY(vt_make_dir(path, e));
    for (int i = 0; i < PARTS; i++) {
        snprintf(name, sizeof name, "%s.npy", t[i].name);
        VT_TRY(vt_path_in(file, path, name, e));
        VT_TRY(vt_npy_write(file, &t[i], e));
    }
    return VT_OK;
}

/* Writes one safetensors file, with hashes and threat in its metadata. */
static vt_status write_safetensors(const vt_export *x, const char *path, vt_err *e) {
    const vt_header *h = x->ledger->header;
    const char *const meta[] = {"weights", h->weights,   "data", h->data.sha256, "split",   h->data.split,
                                "norm",    h->norm_name, "eps",  h->eps_text,    "vitrine", h->version};
    vt_tensor t[PARTS];
    make_tensors(t, x);
    return vt_tensors_write(path, t, PARTS, meta, (int)(sizeof meta / sizeof *meta / 2), e);
}

/* Makes a folder of PNGs and labels.csv; the latter appears last, and not after a failure. Fails for images that are no
 * pictures. */
static vt_status write_png(const vt_export *x, const char *path, vt_err *e) {
    char name[32];
    vt_image im;
    vt_file list;
    vt_status s = vt_picture_open(&im, x->shape, path, e);
    if (s == VT_OK) s = vt_make_dir(path, e);
    if (s == VT_OK) s = vt_file_begin(&list, path, "labels.csv", e);
    bool open = s == VT_OK;
    if (open) fprintf(list.stream, "file,index,label,pred,broken\n");
    for (int64_t k = 0; k < x->n && s == VT_OK; k++) {
        s = write_picture(&im, x, k, path, name, e);
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

/* ---- --save-adv, --save-npz: a group for each attack, whose x_adv is mapped ---- */

/* Writes an attack's label as a file name, without commas and with dashes for spaces: "pgd", "pgd-8-bit". */
static void file_name(char out[56], const vt_header_attack *attack) {
    size_t n = 0;
    vt_attack_label(attack, out, 56);
    for (const char *p = out; *p; p++)
        if (*p != ',') out[n++] = (char)(*p == ' ' ? '-' : *p);
    out[n] = 0;
}

/* Writes attack k's file name, with #k if an earlier attack has the same. */
static void group_name(char out[64], const vt_header_attack *attacks, size_t k) {
    char name[56], other[56];
    bool repeated = false;
    file_name(name, &attacks[k]);
    for (size_t i = 0; i < k; i++) {
        file_name(other, &attacks[i]);
        repeated = repeated || !strcmp(name, other);
    }
    if (repeated)
        snprintf(out, 64, "%.40s#%zu", name, k + 1);
    else
        snprintf(out, 64, "%.40s", name);
}

/* Fills x with the stored points of one entry, in the order of lines; x_adv points into adv, the mapped adv.bin, where
 * those of a finished ledger lie in a row. VT_E_MEMORY. */
static vt_status fill_group(vt_export *x, const vt_ledger *l, int32_t entry, char *adv, vt_err *e) {
    x->ledger = l, x->shape = l->header->shape, x->pixels = l->pixels, x->x_adv = (float *)(void *)adv;
    for (size_t i = 0; i < l->count; i++) x->n += l->records[i].entry == entry && l->records[i].adv >= 0;
    VT_TRY(allocate_arrays(x, e));
    int64_t k = 0;
    for (size_t i = 0; i < l->count; i++) {
        const vt_record *r = &l->records[i];
        if (r->entry != entry || r->adv < 0) continue;
        if (!k) x->x_adv = (float *)(void *)(adv + r->adv);
        x->indices[k] = r->image, x->labels[k] = r->label, x->preds[k] = r->pred;
        x->status[k++] = r->status == VT_RECORD_BROKEN;
    }
    return VT_OK;
}

/* Writes adv/NAME/INDEX.png for each point of a group, and makes the folder unless there is none. */
static vt_status save_pictures(const vt_ledger *l, const vt_export *g, vt_err *e) {
    char dir[VT_PATH_MAX], below[80], name[32];
    vt_image im;
    snprintf(below, sizeof below, "adv/%s", g->name);
    VT_TRY(vt_path_in(dir, l->dir, below, e));
    if (g->n) VT_TRY(vt_make_dir_in(l->dir, below, e));
    VT_TRY(vt_picture_open(&im, g->shape, dir, e));
    vt_status s = VT_OK;
    for (int64_t k = 0; k < g->n && s == VT_OK; k++) s = write_picture(&im, g, k, dir, name, e);
    vt_image_free(&im);
    return s;
}

/* Writes adv.safetensors, five tensors for each group, and adv/NAME/INDEX.png for images of 3 channels, or 1. */
static vt_status save_all(const vt_ledger *l, const vt_export *groups, size_t n, vt_err *e) {
    static const char *const parts[PARTS] = {"x_adv", "index", "label", "pred", "broken"};
    char path[VT_PATH_MAX], (*labels)[80] = calloc(PARTS * n + 1, sizeof *labels);
    vt_tensor *t = calloc(PARTS * n + 1, sizeof *t);
    vt_status s = labels && t ? VT_OK : vt_fail(e, VT_E_MEMORY, "%s: no memory to save images", l->dir);
    for (size_t g = 0; g < n && s == VT_OK; g++) {
        for (size_t p = 0, at = PARTS * g; p < PARTS; p++, at++) {
            snprintf(labels[at], sizeof *labels, "%s.%s", groups[g].name, parts[p]);
            t[at] = tensor_of(&groups[g], (int)p, labels[at]);
        }
        if (vt_picture_is(l->header->shape)) s = save_pictures(l, &groups[g], e);
    }
    if (s == VT_OK) s = vt_path_in(path, l->dir, "adv.safetensors", e);
    if (s == VT_OK) s = vt_tensors_write(path, t, (int)(PARTS * n), NULL, 0, e);
    free(labels), free(t);
    return s;
}

/* Writes adv/NAME.npz for each group, one without points too. */
static vt_status save_npz(const vt_ledger *l, const vt_export *groups, size_t n, vt_err *e) {
    char name[80], path[VT_PATH_MAX];
    VT_TRY(vt_make_dir_in(l->dir, "adv", e));
    for (size_t k = 0; k < n; k++) {
        vt_tensor t[PARTS];
        for (int p = 0; p < PARTS; p++) t[p] = tensor_of(&groups[k], p, names[p]);
        snprintf(name, sizeof name, "adv/%s.npz", groups[k].name);
        VT_TRY(vt_path_in(path, l->dir, name, e));
        VT_TRY(vt_npz_write(path, t, PARTS, e));
    }
    return VT_OK;
}

vt_status vt_save_adv(const vt_ledger *l, bool npz, vt_err *e) {
    size_t n = (size_t)l->header->n_attacks, bytes = (size_t)l->adv_length;
    vt_export *groups = calloc(n + 1, sizeof *groups);
    char *adv = bytes ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, l->adv_fd, 0) : NULL;
    vt_status s = groups ? VT_OK : vt_fail(e, VT_E_MEMORY, "%s: no memory to save images", l->dir);
    if (s == VT_OK && adv == MAP_FAILED)
        s = vt_fail(e, VT_E_IO, "%s/adv.bin: cannot be read: %s", l->dir, strerror(errno));
    for (size_t g = 0; g < n && s == VT_OK; g++) {
        group_name(groups[g].name, l->header->attacks, g);
        s = fill_group(&groups[g], l, (int32_t)g + 1, adv, e);
    }
    if (s == VT_OK) s = npz ? save_npz(l, groups, n, e) : save_all(l, groups, n, e);
    if (adv && adv != MAP_FAILED) munmap(adv, bytes);
    for (size_t g = 0; groups && g < n; g++) groups[g].x_adv = NULL, vt_export_free(&groups[g]);
    free(groups);
    return s;
}
