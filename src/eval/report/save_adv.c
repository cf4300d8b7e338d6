/* SPDX-License-Identifier: MIT */
#include "eval/report/save_adv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "core/files.h"
#include "eval/header.h"
#include "io/image.h"
#include "io/npy.h"
#include "io/safetensors.h"

typedef struct group { /* one attack's stored points */
    char name[64];
    size_t first, n; /* records */
    int64_t *index, *label, *pred;
    uint8_t *broken;
} group;

/* "pgd", "pgd-8-bit" */
static void file_name(char out[56], const vt_header_attack *attack) {
    size_t n = 0;
    vt_attack_label(attack, out, 56);
    for (const char *p = out; *p; p++)
        if (*p != ',') out[n++] = (char)(*p == ' ' ? '-' : *p);
    out[n] = 0;
}

/* The attack's name, with #k when an earlier one has it too. */
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

static vt_status fill_group(group *g, const vt_ledger *l, size_t entry, vt_err *e) {
    size_t total = 0, n = 0;
    for (size_t i = 0; i < l->count; i++) total += l->records[i].entry == (int32_t)entry && l->records[i].adv >= 0;
    g->index = calloc(total + 1, sizeof *g->index), g->label = calloc(total + 1, sizeof *g->label);
    g->pred = calloc(total + 1, sizeof *g->pred), g->broken = calloc(total + 1, 1);
    if (!g->index || !g->label || !g->pred || !g->broken)
        return vt_fail(e, VT_E_MEMORY, "%s: no memory to save images", l->dir);
    for (size_t i = 0; i < l->count; i++) {
        const vt_record *r = &l->records[i];
        if (r->entry != (int32_t)entry || r->adv < 0) continue;
        if (!n) g->first = i;
        g->index[n] = r->image, g->label[n] = r->label, g->pred[n] = r->pred;
        g->broken[n++] = r->status == VT_RECORD_BROKEN;
    }
    g->n = n;
    return VT_OK;
}

static vt_status write_png(const vt_ledger *l, const group *g, size_t k, const float *x, vt_err *e) {
    char dir[VT_PATH_MAX], name[32], below[80], path[VT_PATH_MAX];
    snprintf(name, sizeof name, "%05lld.png", (long long)g->index[k]);
    snprintf(below, sizeof below, "adv/%s", g->name);
    if (!vt_path(dir, l->dir, below) || !vt_path(path, dir, name))
        return vt_fail(e, VT_E_IO, "%s: path is too long", l->dir);
    if (k == 0) VT_TRY(vt_make_dir_in(l->dir, below, e));
    vt_image im;
    VT_TRY(vt_picture_open(&im, l->header->shape, path, e));
    vt_picture_fill(&im, x, l->header->shape);
    vt_status s = vt_png_write(path, &im, e);
    vt_image_free(&im);
    return s;
}

static vt_status write_all(const vt_ledger *l, group *groups, size_t n, const char *adv, vt_err *e) {
    static const char *const parts[] = {"x_adv", "index", "label", "pred", "broken"};
    char path[VT_PATH_MAX], (*names)[80] = calloc(5 * n + 1, sizeof *names);
    vt_tensor *t = calloc(5 * n + 1, sizeof *t);
    bool drawn = vt_picture_is(l->header->shape);
    vt_status s = names && t ? VT_OK : vt_fail(e, VT_E_MEMORY, "%s: no memory to save images", l->dir);
    for (size_t g = 0; g < n && s == VT_OK; g++) {
        const float *x = (const float *)(adv + (groups[g].n ? l->records[groups[g].first].adv : 0));
        const void *data[] = {x, groups[g].index, groups[g].label, groups[g].pred, groups[g].broken};
        for (size_t p = 0; p < 5; p++) {
            vt_tensor *q = &t[5 * g + p];
            snprintf(names[5 * g + p], sizeof *names, "%s.%s", groups[g].name, parts[p]);
            *q = (vt_tensor){.name = names[5 * g + p],
                             .dtype = p == 0   ? VT_F32
                                      : p == 4 ? VT_U8
                                               : VT_I64,
                             .ndim = p == 0 ? 4 : 1,
                             .shape = {(int64_t)groups[g].n, VT_CHW_OF(l->header->shape)},
                             .numel = groups[g].n * (p == 0 ? l->pixels : 1),
                             .data = data[p]};
        }
        for (size_t k = 0; drawn && k < groups[g].n && s == VT_OK; k++)
            s = write_png(l, &groups[g], k, x + k * l->pixels, e);
    }
    if (s == VT_OK && !vt_path(path, l->dir, "adv.safetensors"))
        s = vt_fail(e, VT_E_IO, "%s: path is too long", l->dir);
    if (s == VT_OK) s = vt_tensors_write(path, t, (int)(5 * n), NULL, 0, e);
    free(names), free(t);
    return s;
}

/* adv/NAME.npz for each attack. */
static vt_status write_npz(const vt_ledger *l, const group *groups, size_t n, const char *adv, vt_err *e) {
    char dir[VT_PATH_MAX], name[80], path[VT_PATH_MAX];
    if (!vt_path(dir, l->dir, "adv")) return vt_fail(e, VT_E_IO, "%s: path is too long", l->dir);
    VT_TRY(vt_make_dir_in(l->dir, "adv", e));
    for (size_t k = 0; k < n; k++) {
        const group *g = &groups[k];
        int64_t count = (int64_t)g->n;
        vt_tensor t[] = {
            {.name = "x_adv", .dtype = VT_F32, .ndim = 4, .shape = {count, VT_CHW_OF(l->header->shape)}},
            {.name = "indices", .dtype = VT_I64, .ndim = 1, .shape = {count}, .numel = g->n, .data = g->index},
            {.name = "labels", .dtype = VT_I64, .ndim = 1, .shape = {count}, .numel = g->n, .data = g->label},
            {.name = "preds", .dtype = VT_I64, .ndim = 1, .shape = {count}, .numel = g->n, .data = g->pred},
            {.name = "status", .dtype = VT_U8, .ndim = 1, .shape = {count}, .numel = g->n, .data = g->broken},
        };
        t[0].numel = g->n * l->pixels, t[0].data = g->n ? adv + l->records[g->first].adv : adv;
        snprintf(name, sizeof name, "%s.npz", g->name);
        if (!vt_path(path, dir, name)) return vt_fail(e, VT_E_IO, "%s: path is too long", l->dir);
        VT_TRY(vt_npz_write(path, t, (int)(sizeof t / sizeof *t), e));
    }
    return VT_OK;
}

vt_status vt_save_adv(const vt_ledger *l, bool npz, vt_err *e) {
    size_t n = (size_t)l->header->n_attacks;
    group *groups = calloc(n + 1, sizeof *groups);
    vt_status s = groups ? VT_OK : vt_fail(e, VT_E_MEMORY, "%s: no memory to save images", l->dir);
    for (size_t g = 0; g < n && s == VT_OK; g++) {
        group_name(groups[g].name, l->header->attacks, g);
        s = fill_group(&groups[g], l, g + 1, e);
    }
    size_t bytes = (size_t)l->adv_length;
    char *adv = s == VT_OK && bytes ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, l->adv_fd, 0) : NULL;
    if (s == VT_OK && adv == MAP_FAILED)
        s = vt_fail(e, VT_E_IO, "%s/adv.bin: cannot be read: %s", l->dir, strerror(errno));
    if (s == VT_OK) s = npz ? write_npz(l, groups, n, adv, e) : write_all(l, groups, n, adv, e);
    if (adv && adv != MAP_FAILED) munmap(adv, bytes);
    for (size_t g = 0; groups && g < n; g++)
        free(groups[g].index), free(groups[g].label), free(groups[g].pred), free(groups[g].broken);
    free(groups);
    return s;
}
