/* SPDX-License-Identifier: MIT */
/* eval/options.h, before anything is judged: what an evaluation will take, and what is refused. */
#include "eval/options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "models/arch.h"
#include "models/net/session.h"
#include "models/net/session64.h"

/* ---- what it takes ---- */

vt_task vt_eval_dims(const vt_eval_options *v) {
    vt_task dims = vt_attacker_dims(vt_subject_shape(v->subject), vt_subject_classes(v->subject), &v->patch);
    dims.rotation = v->rotation.angles ? &v->rotation : NULL;
    dims.picture = v->picture;
    return dims;
}

int vt_eval_batch(const vt_eval_options *v) { return v->batch ? v->batch : 1; }

bool vt_eval_transfers(const vt_eval_options *v) {
    bool any = false;
    for (int i = 0; i < v->n_attacks; i++) any = any || v->attacks[i].needs_surrogate;
    return any;
}

bool vt_eval_climbs(const vt_eval_options *v) {
    bool any = false;
    for (int i = 0; i < v->n_attacks; i++) any = any || v->attacks[i].climbs;
    return any && !vt_subject_is_remote(v->subject);
}

bool vt_eval_eight_bit(const vt_eval_options *v) {
    for (int i = 0; i < v->n_attacks; i++)
        if (v->attacks[i].scoring == VT_SCORE_EIGHT_BIT) return true;
    return false;
}

size_t vt_eval_work(const vt_eval_options *v, const vt_task *dims) {
    size_t work = 1;
    for (int i = 0; i < v->n_attacks; i++) {
        size_t need = vt_attacker_work(&v->attacks[i], dims);
        if (need > work) work = need;
    }
    return work;
}

/* Returns the memory that one image at a time takes in a network: in float with gradient, and in double. */
static size_t network_bytes(const vt_model *m, const vt_remote *r) {
    if (r) return vt_remote_bytes(r, 1);
    return vt_session_bytes_f32(m, 1, VT_GRAD_INPUT) + vt_session_bytes_f64(m, 1, VT_GRAD_NONE);
}

/* Returns the memory of the network that attacks search on (--search), 0 without one. */
static size_t draft_bytes(const vt_subject *s) {
    const vt_products by = {0};
    return s->search ? vt_session_bytes_by_f32(s->model, 1, VT_GRAD_INPUT, &by) : 0;
}

void vt_eval_fit(vt_eval_options *v) {
    v->batch = vt_eval_batch(v);
    if ((size_t)v->batch > v->n_images) v->batch = (int)v->n_images;
    if ((size_t)v->threads > v->n_images) v->threads = (int)v->n_images;
}

size_t vt_eval_bytes(const vt_eval_options *v) {
    vt_task dims = vt_eval_dims(v);
    const vt_model *m = v->subject->model, *other = !vt_eval_transfers(v)   ? NULL
                                                    : v->subject->surrogate ? v->subject->surrogate
                                                                            : m;
    size_t each = (vt_eval_work(v, &dims) + (v->box ? 6 : 4) * dims.n) * sizeof(float), stages = 1;
    each += network_bytes(m, v->subject->remote) + draft_bytes(v->subject);
    if (other) each += network_bytes(other, other == m ? NULL : v->subject->surrogate_remote);
    for (int i = 0; i < v->n_attacks; i++) stages += (size_t)v->attacks[i].n_stages;
    size_t points = vt_eval_climbs(v) ? (size_t)vt_sensor_points(m) : 0; /* each at most as much as the model */
    each += points * vt_session_bytes_f32(m, 1, VT_GRAD_INPUT);
    size_t copies = points * (m->params.total + m->params.t_total) * sizeof(float);
    copies += other == m ? (m->params.total + m->params.t_total) * sizeof(float) : 0; /* of weights */
    if (v->subject->search == VT_PRODUCTS_BF16) copies += vt_model_packed_bytes(m);
    vt_eval_options fits = *v;
    vt_eval_fit(&fits);
    size_t at_a_time = (size_t)fits.threads * (size_t)fits.batch;
    return each * at_a_time + (size_t)fits.threads * vt_fiber_bytes(fits.batch) + copies +
           stages * v->n_images * (sizeof(vt_record) + 1);
}

/* ---- checks and header ---- */

/* What a model that is no network of this process cannot do: batches beyond its own, a twin of it, a climb. */
static vt_status check_foreign(const vt_eval_options *v, vt_err *e) {
    const vt_subject *s = v->subject;
    if (v->patch.aligned && s->model->config.network)
        return vt_fail(e, VT_E_USAGE, "@threat patch: aligned=1 needs tokens, of which an ONNX file does not tell");
    if (!s->remote && !s->own) return VT_OK;
    if (v->batch > vt_subject_takes(s))
        return vt_fail(e, VT_E_USAGE, "@batch is %d, but the model %.300s takes at most %d images at once", v->batch,
                       s->model->path, vt_subject_takes(s));
    if (vt_eval_transfers(v) && !s->surrogate)
        return vt_fail(e, VT_E_USAGE,
                       "transfer needs @surrogate WEIGHTS: a model in another process shows no weights to make a twin "
                       "of");
    for (int i = 0; i < v->n_attacks; i++)
        if (v->attacks[i].climbs && !v->attacks[i].def->profile)
            return vt_fail(e, VT_E_USAGE,
                           "wake-up climbs what is inside a network, which a model in another process does not show");
    if (v->patch.aligned)
        return vt_fail(e, VT_E_USAGE,
                       "@threat patch: aligned=1 needs tokens, of which a model in another process does not tell");
    return VT_OK;
}

/* The surrogate is asked about the same pixels and the same label. */
static vt_status check_surrogate(const vt_eval_options *v, vt_err *e) {
    const vt_model *s = v->subject->surrogate, *m = v->subject->model;
    if (!s) return VT_OK;
    const char *path = s->path ? s->path : "the surrogate", *whose = m->path ? m->path : "the model";
    vt_shape is = vt_config_shape(&s->config), want = vt_config_shape(&m->config);
    if (s->config.classes != m->config.classes)
        return vt_fail(e, VT_E_USAGE, "@surrogate %s has %d classes, must have %d, as %s", path, s->config.classes,
                       m->config.classes, whose);
    if (vt_shape_side(is) && vt_shape_side(want) && !vt_shape_same(is, want))
        return vt_fail(e, VT_E_USAGE, "@surrogate %s takes images of %d x %d pixels, must take %d x %d, as %s", path,
                       is.width, is.height, want.width, want.height, whose);
    if (!vt_shape_same(is, want))
        return vt_fail(e, VT_E_USAGE, "@surrogate %s takes images of " VT_CHW ", must take " VT_CHW ", as %s", path,
                       VT_CHW_OF(is), VT_CHW_OF(want), whose);
    return VT_OK;
}

/* Refuses a stage that this model or threat does not suit: no gradients, no attention, no way to aim at a class. */
static vt_status check_stage(const vt_eval_options *v, const vt_attack_stage *s, vt_err *e) {
    const vt_model *m = v->subject->model;
    const vt_arch *arch = vt_arch_find(m->config.arch);
    vt_task dims = vt_eval_dims(v);
    vt_err why = {0};
    const vt_remote *remote = v->subject->remote;
    if (remote && vt_remote_handshake(remote)->labels && !(s->def->traits & VT_FROM_LABELS))
        return vt_fail(e, VT_E_USAGE,
                       "attack %s needs logits, but the model %.300s gives labels alone: take one that needs no more, "
                       "as "
                       "hopskipjump",
                       s->def->name, m->path);
    if (s->def->white_box && !vt_subject_differentiable(v->subject))
        return vt_fail(e, VT_E_USAGE,
                       "attack %s follows gradients, which the model %.300s does not give (vjp is false): take one "
                       "that needs none, as square",
                       s->def->name, m->path);
    vt_status fits = vt_attack_fits(s, &dims, &why);
    if (fits != VT_OK) return vt_fail(e, fits, "attack %s: %s", s->def->name, why.text);
    bool places = s->place && s->place->where == VT_WHERE_ATTENTION;
    if ((s->def->looks || places) && !(arch && arch->shows_attention))
        return vt_fail(e, VT_E_USAGE, "attack %s looks at attention between all tokens, which %s models do not have%s",
                       s->def->name, m->config.arch, places && !s->def->looks ? " (where=saliency needs none)" : "");
    const vt_wrap_def *wrap = v->subject->wrap.def;
    if ((s->def->looks || places) && wrap && wrap->blurs)
        return vt_fail(e, VT_E_USAGE, "attack %s looks at attention, of which the wrap %s shows none", s->def->name,
                       wrap->name);
    if (!v->targets) return VT_OK;
    if (s->def->traits & VT_CANNOT_AIM)
        return vt_fail(e, VT_E_USAGE, "attack %s cannot aim at a class: @targets wants attacks that can", s->def->name);
    const char *own = strstr(s->id, "target=");
    if (own && strncmp(own, "target=none", strlen("target=none")) != 0)
        return vt_fail(e, VT_E_USAGE, "attack %s: give its target or @targets, not both", s->def->name);
    return VT_OK;
}

/* Refuses an image that is not stored in steps of 1/255. */
static vt_status check_levels(const vt_eval_options *v, int32_t image, float *x, vt_err *e) {
    int label;
    VT_TRY(vt_subject_image(v->subject, image, x, &label, e));
    for (size_t i = 0; i < vt_subject_pixels(v->subject); i++)
        if ((float)rintf(255 * x[i]) / 255 != x[i])
            return vt_fail(e, VT_E_USAGE,
                           "@eight-bit needs 8-bit images: image %d of %s has the value %.9g, which is no k/255", image,
                           v->subject->data->path, (double)x[i]);
    return VT_OK;
}

/* Refuses, for 8-bit entries (attacks/grid8.h), a radius below one level (in every norm the nearest other point is
 * 1/255 away), and images whose values are not all k/255. */
static vt_status check_eight_bit(const vt_eval_options *v, vt_err *e) {
    if (!vt_eval_eight_bit(v)) return VT_OK;
    if (v->norm == VT_L0)
        return vt_fail(e, VT_E_USAGE, "@eight-bit counts levels of linf, l2 and l1, and knows nothing of l0");
    if (vt_grid8_most(v->norm, v->eps) < 1)
        return vt_fail(e, VT_E_USAGE,
                       "@eight-bit: @eps %s is below one grey level (1/255): no other 8-bit image lies in that ball",
                       v->eps_text);
    if (!v->subject->data->floats) return VT_OK;
    float *x = vt_alloc(vt_subject_pixels(v->subject) * sizeof *x);
    vt_status s = x ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for an image");
    for (size_t i = 0; i < v->n_images && s == VT_OK; i++) s = check_levels(v, v->images[i], x, e);
    free(x);
    return s;
}

/* Refuses a box that is none, or that an image of the run lies outside of. */
static vt_status check_box(const vt_eval_options *v, vt_err *e) {
    const size_t n = vt_subject_pixels(v->subject);
    if (!v->box) return VT_OK;
    int label;
    float *x = vt_alloc(3 * n * sizeof *x);
    vt_status s = x ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for an image");
    for (size_t i = 0; i < v->n_images && s == VT_OK; i++) {
        s = vt_subject_image(v->subject, v->images[i], x, &label, e);
        if (s == VT_OK) s = vt_box_check(v->box, v->images[i], x, x + n, x + 2 * n, e);
    }
    free(x);
    return s;
}

/* Refuses a file of targets that does not fit the images of the run. */
static vt_status check_target_file(const vt_eval_options *v, vt_err *e) {
    int label;
    for (size_t i = 0; v->targets && v->targets->path && i < v->n_images; i++) {
        VT_TRY(vt_subject_image(v->subject, v->images[i], NULL, &label, e));
        VT_TRY(vt_targets_fit(v->targets, v->images[i], label, vt_subject_classes(v->subject), e));
    }
    return VT_OK;
}

vt_status vt_eval_check(const vt_eval_options *v, vt_err *e) {
    int classes = v->subject->model->config.classes;
    bool fits =
        v->subject->data->classes_open ? v->subject->data->classes <= classes : v->subject->data->classes == classes;
    if (!v->subject->data->head && !fits)
        return vt_fail(e, VT_E_SHAPE, "%s has %d classes, but the model %s has %d", v->subject->data->path,
                       v->subject->data->classes, v->subject->model->path ? v->subject->model->path : "", classes);
    VT_TRY(check_surrogate(v, e));
    VT_TRY(check_foreign(v, e));
    for (int i = 0; i < v->n_attacks; i++)
        for (int k = 0; k < v->attacks[i].n_stages; k++) VT_TRY(check_stage(v, &v->attacks[i].stages[k], e));
    VT_TRY(check_eight_bit(v, e));
    if (v->rotation.angles) VT_TRY(vt_rotation_fit(&v->rotation, vt_subject_shape(v->subject), e));
    VT_TRY(check_box(v, e));
    VT_TRY(check_target_file(v, e));
    VT_TRY(vt_certifier_check(v, e));
    int label;
    VT_TRY(vt_memory_check("the evaluation", vt_eval_bytes(v), e));
    return vt_subject_image(v->subject, v->images[0], NULL, &label, e);
}
