/* SPDX-License-Identifier: MIT */
/* A model from a file: names made canonical, the architecture recognised, its configuration found, every tensor looked
 * at once. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/opt.h"
#include "tensors/tensors.h"
#include "models/arch.h"
#include "models/detect.h"
#include "checkpoint/names.h"
#include "checkpoint/onnx_file.h"
#include "checkpoint/resolve.h"
#include "models/forms.h"

/* Fails with VT_E_FORMAT for a tensor that the model does not have, with the nearest name that it has. */
static vt_status extra_tensors(const vt_tensors *st, const vt_model *m, vt_err *e) {
    const char **known = calloc((size_t)m->params.count + 1, sizeof *known);
    if (!known) return vt_fail(e, VT_E_MEMORY, "%s: no memory", vt_tensors_path(st));
    for (int i = 0; i < m->params.count; i++) known[i] = m->params.items[i].name;
    vt_status s = VT_OK;
    for (int i = 0; i < vt_tensors_count(st) && s == VT_OK; i++) {
        const char *name = vt_tensors_at(st, i)->name;
        if (vt_model_param(m, name)) continue;
        const char *near = vt_nearest(name, known, (size_t)m->params.count);
        s = vt_fail(e, VT_E_FORMAT,
                    "%s: tensor %s does not belong to this architecture (%s%s); if the logits need it, " VT_WAY,
                    vt_tensors_path(st), name, near ? "nearest known name: " : "depth ",
                    near ? near : "and names are read off the file");
    }
    free(known);
    return s;
}

/* Converts a tensor's values into w (NULL: only checks them), in pieces that stay in cache. VT_E_NUMERIC: not finite,
 * or negative for a variance. */
static vt_status read_values(float *w, const vt_tensors *st, const vt_tensor *t, bool variance, vt_err *e) {
    float buf[4096];
    for (int i = 0; i < t->n_parts; w = w ? w + t->parts[i].numel : w, i++)
        VT_TRY(read_values(w, st, &t->parts[i], variance, e));
    for (size_t at = 0; !t->n_parts && at < t->numel; at += sizeof buf / sizeof *buf) {
        vt_tensor piece = *t;
        piece.data = (const char *)t->data + at * vt_dtype_size(t->dtype);
        piece.numel = t->numel - at < sizeof buf / sizeof *buf ? t->numel - at : sizeof buf / sizeof *buf;
        float *to = w ? w + at : buf, bad = 0;
        VT_TRY(vt_tensor_f32(st, &piece, to, piece.numel, e));
        for (size_t k = 0; k < piece.numel; k++)
            bad += to[k] * 0.0f; /* NaN exactly for NaN and Inf, and the sum keeps it */
        for (size_t k = 0; (bad != 0 || variance) && k < piece.numel; k++) {
            if (!isfinite(to[k]))
                return vt_fail(e, VT_E_NUMERIC,
                               "%s: tensor %s holds %f at element %zu; weights must be finite float32 numbers",
                               vt_tensors_path(st), t->name, (double)to[k], at + k);
            if (variance && to[k] < 0)
                return vt_fail(e, VT_E_NUMERIC, "%s: tensor %s holds %g at element %zu, a variance is at least 0",
                               vt_tensors_path(st), t->name, (double)to[k], at + k);
        }
    }
    vt_tensors_release(st, t);
    return VT_OK;
}

/* Writes a tensor's name and, in brackets, what the file calls it. Returns buf. */
static const char *both_names(const vt_names *names, const char *name, char *buf, size_t size) {
    char theirs[400];
    bool other = vt_rename_theirs(names->map, name, theirs, sizeof theirs);
    snprintf(buf, size, "%s%s%s%s", name, other ? " (of " : "", other ? theirs : "", other ? ")" : "");
    return buf;
}

/* Fails with VT_E_FORMAT for a file without tensor `name`, with the nearest unknown name in it. */
static vt_status missing_tensor(const vt_model *m, const vt_tensors *st, const vt_names *names, const char *name,
                                vt_err *e) {
    char both[500];
    const char **have = calloc((size_t)vt_tensors_count(st) + 1, sizeof *have), *near = NULL;
    for (int i = 0; have && i < vt_tensors_count(st); i++) {
        have[i] = vt_tensors_at(st, i)->name;
        if (vt_model_param(m, have[i])) have[i] = "";
    }
    if (have) near = vt_nearest(name, have, (size_t)vt_tensors_count(st));
    free(have);
    if (!strcmp(name, "pos_embed") && !near)
        return vt_fail(e, VT_E_FORMAT,
                       "%s: has no positions (pos_embed): rotary and relative ones are not computed here, `vitrine "
                       "eval @oracle` evaluates such a network where it runs, say in PyTorch; of positions that are "
                       "added to the patches and computed, docs/models.md lists the kinds (%s positions=KIND)",
                       vt_tensors_path(st), vt_argument("form"));
    return vt_fail(e, VT_E_FORMAT, "%s: tensor %s is missing%s%s%s; of a network that has none, " VT_WAY,
                   vt_tensors_path(st), both_names(names, name, both, sizeof both),
                   near ? " (the file has the unknown name " : "", near ? near : "", near ? ")" : "");
}

/* Are the shapes equal but for sides of 1, which change no element's place? */
static bool same_shape(const vt_tensor *t, const vt_param *p) {
    int i = 0, k = 0;
    for (;; i++, k++) {
        while (i < t->ndim && t->shape[i] == 1) i++;
        while (k < p->ndim && p->shape[k] == 1) k++;
        if (i == t->ndim || k == p->ndim) return i == t->ndim && k == p->ndim;
        if (t->shape[i] != p->shape[k]) return false;
    }
}

/* Checks that all tensors are there, in their shapes but for sides of 1, and no others. VT_E_FORMAT, VT_E_SHAPE. */
static vt_status check_tensors(const vt_model *m, const vt_tensors *st, const vt_names *names, vt_err *e) {
    char a[96], b[96], both[500];
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        const vt_tensor *t = vt_tensors_find(st, p->name);
        if (!t) return missing_tensor(m, st, names, p->name, e);
        if (!same_shape(t, p))
            return vt_fail(e, VT_E_SHAPE, "%s: tensor %s has shape %s, must be %s", vt_tensors_path(st),
                           both_names(names, p->name, both, sizeof both), vt_shape_text(a, sizeof a, t->shape, t->ndim),
                           vt_shape_text(b, sizeof b, p->shape, p->ndim));
    }
    return extra_tensors(st, m, e);
}

/* Reads parameter p into m->w, or only checks it if m has no weights. VT_E_NUMERIC: not finite, or a variance below
 * 0. */
static vt_status read_tensor(vt_model *m, const vt_tensors *st, const vt_param *p, vt_err *e) {
    const char *end = strrchr(p->name, '.');
    return read_values(m->w ? m->w + p->offset : NULL, st, vt_tensors_find(st, p->name),
                       p->buffer && end && !strcmp(end, ".running_var"), e);
}

/* Recognises the architecture and sets *c and *provenance, by canonical names and what was said besides. VT_E_FORMAT:
 * no architecture has such tensors. */
static vt_status detect_config(vt_config *c, vt_provenance *provenance, const vt_tensors *st, const vt_names *names,
                               const vt_overrides *o, vt_err *e) {
    const vt_arch *arch = NULL;
    int n;
    const vt_arch *const *archs = vt_archs(&n);
    for (int i = 0; i < n && !arch; i++)
        if (archs[i]->recognises(st)) arch = archs[i];
    if (!arch)
        return vt_fail(e, VT_E_FORMAT, "%s: no known architecture has such tensors; " VT_READS, vt_tensors_path(st));
    memset(c, 0, sizeof *c);
    snprintf(c->arch, sizeof c->arch, "%s", arch->name);
    VT_TRY(arch->detect(st, c, provenance->source, e));
    if (*names->assumed) {
        snprintf(provenance->source[VT_FIELD_CLASSES], sizeof provenance->source[0], "%s", names->assumed);
        provenance->certainty[VT_FIELD_CLASSES] = VT_ASSUMED;
    }
    return vt_config_resolve(c, provenance, st, names, o, e);
}

/* Renames the last norm of a ViT in st to timm's: fc_norm after a mean, norm elsewhere, whatever the file calls it
 * (vit-pytorch's maps; a home-made mean with a norm after it). */
static vt_status one_norm(vt_tensors *st, const vt_config *c, vt_err *e) {
    const bool after = c->pool != VT_POOL_TOKEN && !c->norm_first;
    if (strcmp(c->arch, "vit") || vt_tensors_find(st, after ? "fc_norm.weight" : "norm.weight")) return VT_OK;
    for (int i = 0; i < st->count; i++) {
        const char *name = st->t[i].name;
        if (!after && !strncmp(name, "fc_norm.", 8)) st->t[i].name += 3;
        if (after && !strncmp(name, "norm.", 5) && !(st->t[i].name = vt_tensors_text(st, e, "fc_%s", name)))
            return vt_fail(e, VT_E_MEMORY, "%s: no memory", vt_tensors_path(st));
    }
    return vt_tensors_index(st, e);
}

/* Fails with VT_E_SHAPE for a Swin of a library that pads first, if a stage is no multiple of its window. */
static vt_status check_padding(const vt_config *c, const char *path, vt_err *e) {
    for (int s = 0; s < c->stages; s++) {
        int side = c->image / c->patch >> s;
        if (side % c->window)
            return vt_fail(e, VT_E_SHAPE,
                           "%s: stage %d has %d x %d tokens, no multiple of the window (%d): such a model pads before "
                           "it shifts windows, vitrine (as timm) afterwards; " VT_WAY,
                           path, s, side, side, c->window);
    }
    return VT_OK;
}

/* Makes a model of canonical tensors, to be closed; weights false: checks them without keeping them. *out is set on
 * success alone. */
static vt_status load_model(vt_model **out, vt_tensors *st, const vt_names *names, const vt_overrides *o, bool weights,
                            vt_err *e) {
    vt_config c;
    vt_provenance provenance;
    memset(&provenance, 0, sizeof provenance);
    vt_status described = detect_config(&c, &provenance, st, names, o, e);
    if (provenance.labels && vt_tensors_keep(st, provenance.labels, free, e) != VT_OK)
        described = e ? e->code : VT_E_MEMORY;
    VT_TRY(described);
    VT_TRY(one_norm(st, &c, e));
    if (names->def && names->def->pads_first) VT_TRY(check_padding(&c, vt_tensors_path(st), e));
    vt_model *m;
    VT_TRY(vt_model_table(&m, &c, e));
    memcpy(m->source, provenance.source, sizeof provenance.source);
    memcpy(m->certainty, provenance.certainty, sizeof provenance.certainty);
    memcpy(m->transform, provenance.transform, sizeof provenance.transform);
    memcpy(m->unread, provenance.unread, sizeof provenance.unread);
    m->part_asked = o && o->part;
    snprintf(m->naming, sizeof m->naming, "%s", names->naming);
    snprintf(m->own_map, sizeof m->own_map, "%s", names->own_map ? names->own_map : "");
    vt_status s = check_tensors(m, st, names, e);
    if (s == VT_OK && weights) s = vt_model_take(m, e);
    for (int i = 0; i < m->params.count && s == VT_OK; i++) s = read_tensor(m, st, &m->params.items[i], e);
    if (s == VT_OK && weights) s = vt_model_reorder(m, e);
    const char *recipe = vt_tensors_meta(st, "recipe");
    if (s == VT_OK &&
        (!(m->path = strdup(vt_tensors_path(st))) || !(m->part = strdup(st->part)) || !(m->parts = strdup(st->parts)) ||
         (provenance.labels && !(m->labels = strdup(provenance.labels))) || (recipe && !(m->recipe = strdup(recipe)))))
        s = vt_fail(e, VT_E_MEMORY, "no memory");
    if (s != VT_OK) {
        vt_model_close(m);
        return s;
    }
    *out = m;
    return VT_OK;
}

/* Opens a checkpoint of any format; weights false: without keeping its weights. */
static vt_status open_file(vt_model **out, const char *path, const vt_overrides *o, bool weights, vt_err *e) {
    *out = NULL;
    if (vt_is_onnx(path)) return vt_model_open_onnx(out, path, o, e);
    if (o && (o->shape[0] || o->layout || o->output))
        return vt_fail(e, VT_E_USAGE, "%s: is no ONNX file: " VT_OPTION "%s goes with one", path,
                       o->output   ? "output"
                       : o->layout ? "layout"
                                   : "image-shape");
    vt_tensors *st;
    VT_TRY(vt_weights_open(&st, path, o ? o->part : NULL, e));
    vt_names names;
    char word[VT_FORM_VALUE];
    const char *order = o ? vt_form_given(o, "patch_order", word) : NULL;
    vt_status s = vt_names_apply(&names, st, o ? o->names : NULL, order, e);
    if (s == VT_OK) s = vt_names_blame(&names, st, load_model(out, st, &names, o, weights, e), e);
    vt_names_close(&names);
    if (s == VT_OK) s = vt_tensors_check(st, e);
    if (s == VT_OK) vt_weights_sha(st, (*out)->sha256);
    if (s == VT_OK) (*out)->seal = vt_tensors_seal(st);
    vt_tensors_close(st);
    if (s != VT_OK) {
        vt_model_close(*out);
        *out = NULL;
    }
    return s;
}

vt_status vt_model_open(vt_model **out, const char *path, const vt_overrides *o, vt_err *e) {
    return open_file(out, path, o, true, e);
}

vt_status vt_model_inspect(vt_model **out, const char *path, const vt_overrides *o, vt_err *e) {
    return open_file(out, path, o, false, e);
}
