/* SPDX-License-Identifier: MIT */
/* eval/options.h, before anything is judged: what an evaluation will take, and what is refused. */
#include "eval/options.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/mem.h"
#include "eval/eight_bit.h"
#include "models/arch.h"
#include "models/net/session.h"
#include "models/net/session64.h"
#include "inference/restrict.h"

/* ---- what it takes ---- */

vt_task vt_eval_dims(const vt_eval_options *v) {
    return vt_attacker_dims(vt_subject_shape(v->subject), vt_subject_classes(v->subject), &v->patch);
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

/* Of one image at a time. */
static size_t network_bytes(const vt_model *m, const vt_remote *r) {
    if (r) return vt_remote_bytes(r, 1);
    return vt_session_bytes_f32(m, 1, VT_GRAD_INPUT) + vt_session_bytes_f64(m, 1, VT_GRAD_NONE);
}

/* What searches in the judged network's place, where something does. */
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
    size_t each = (vt_eval_work(v, &dims) + 4 * dims.n) * sizeof(float), stages = 1;
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

static vt_status check_attacks(const vt_eval_options *v, vt_err *e) {
    vt_task dims = vt_eval_dims(v);
    for (int i = 0; i < v->n_attacks; i++)
        for (int k = 0; k < v->attacks[i].n_stages; k++) {
            const vt_attack_stage *s = &v->attacks[i].stages[k];
            vt_err why = {0};
            vt_status st = vt_attack_fits(s, &dims, &why);
            if (st != VT_OK) return vt_fail(e, st, "attack %s: %s", s->def->name, why.text);
        }
    return VT_OK;
}

/* Attacks that ask for attention, or whose squares it chooses, need a model that shows it. */
static vt_status can_look(const vt_eval_options *v, vt_err *e) {
    const vt_arch *arch = vt_arch_find(v->subject->model->config.arch);
    for (int i = 0; i < v->n_attacks && !(arch && arch->shows_attention); i++)
        for (int k = 0; k < v->attacks[i].n_stages; k++) {
            const vt_attack_stage *s = &v->attacks[i].stages[k];
            bool places = s->place && s->place->where == VT_WHERE_ATTENTION;
            if (s->def->looks || places)
                return vt_fail(e, VT_E_USAGE,
                               "attack %s looks at attention between all tokens, which %s models do not have%s",
                               s->def->name, v->subject->model->config.arch,
                               places && !s->def->looks ? " (where=saliency needs none)" : "");
        }
    return VT_OK;
}

/* What a model that is no network of ours cannot do: gradients, if it says so; a twin of it; batches beyond its own. */
static vt_status check_foreign(const vt_eval_options *v, vt_err *e) {
    const vt_subject *s = v->subject;
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
                       "@threat patch: aligned=1 needs tokens, of which a model in another process does "
                       "not tell");
    for (int i = 0; !vt_subject_differentiable(s) && i < v->n_attacks; i++)
        for (int k = 0; k < v->attacks[i].n_stages; k++)
            if (v->attacks[i].stages[k].def->white_box)
                return vt_fail(e, VT_E_USAGE,
                               "attack %s follows gradients, which the model %.300s does not give (vjp is false): take "
                               "one that needs none, as square",
                               v->attacks[i].stages[k].def->name, s->model->path);
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

/* Attacks that know no way to a class, or are told another one; a file that does not fit the run. */
static vt_status check_targets(const vt_eval_options *v, vt_err *e) {
    int classes = vt_subject_classes(v->subject), label;
    for (int i = 0; v->targets && i < v->n_attacks; i++)
        for (int k = 0; k < v->attacks[i].n_stages; k++) {
            const vt_attack_stage *s = &v->attacks[i].stages[k];
            const char *own = strstr(s->id, "target=");
            if (s->def->traits & VT_CANNOT_AIM)
                return vt_fail(e, VT_E_USAGE, "attack %s cannot aim at a class: @targets wants attacks that can",
                               s->def->name);
            if (own && strncmp(own, "target=none", strlen("target=none")) != 0)
                return vt_fail(e, VT_E_USAGE, "attack %s: give its target or @targets, not both", s->def->name);
        }
    for (size_t i = 0; v->targets && v->targets->path && i < v->n_images; i++) {
        VT_TRY(vt_subject_image(v->subject, v->images[i], NULL, &label, e));
        VT_TRY(vt_targets_fit(v->targets, v->images[i], label, classes, e));
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
    VT_TRY(check_attacks(v, e));
    VT_TRY(can_look(v, e));
    VT_TRY(vt_eight_bit_check(v, e));
    VT_TRY(check_targets(v, e));
    int label;
    VT_TRY(vt_memory_check("the evaluation", vt_eval_bytes(v), e));
    return vt_subject_image(v->subject, v->images[0], NULL, &label, e);
}
