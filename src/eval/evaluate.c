/* SPDX-License-Identifier: MIT */
#include "eval/crew.h"
#include "eval/evaluate.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/deal.h"
#include "core/gemm.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/threads.h"
#include "core/version.h"
#include "eval/header.h"
#include "eval/coverage.h"
#include "eval/eight_bit.h"
#include "eval/outlook.h"
#include "eval/verify.h"
#include "models/arch.h"
#include "models/forms.h"
#include "models/net/session.h"
#include "models/net/session64.h"
#include "models/packing.h"
#include "models/twin.h"
#include "models/wrap/restrict.h"

/* One stage over its images, shared by the crews. */
typedef struct stage_run {
    const vt_eval *v;
    vt_ledger *ledger;
    vt_crew *crews;
    const vt_coverage *covered; /* as of this stage's beginning: whose targets count */
    int entry, stage;           /* eval/ledger.h */
    const int32_t *todo;        /* images of this stage that have no line yet */
    size_t n, done_before, total;
    vt_deal deal;
    atomic_size_t robust;
    atomic_bool failed;
    vt_progress progress;
    vt_outlook *outlook;
    pthread_mutex_t lock; /* progress, outlook */
    double began, waited; /* the stage; for a model in another process by then */
} stage_run;

static vt_task task_dims(const vt_eval *v) {
    return vt_attacker_dims(vt_subject_shape(v->subject), vt_subject_classes(v->subject), &v->patch);
}

static vt_team *team_of(const vt_eval *v) { return v->place ? v->place->team : NULL; }

static int batch_of(const vt_eval *v) { return v->batch ? v->batch : 1; }

/* Does an attack of the run need a surrogate? */
static bool transfers(const vt_eval *v) {
    bool any = false;
    for (int i = 0; i < v->n_attacks; i++) any = any || vt_attack_needs_surrogate(&v->attacks[i]);
    return any;
}

/* Floats of scratch that the hungriest stage needs. */
static size_t work_len(const vt_eval *v, const vt_task *dims) {
    size_t work = 1;
    for (int i = 0; i < v->n_attacks; i++) {
        size_t need = vt_attacker_work(&v->attacks[i], dims);
        if (need > work) work = need;
    }
    return work;
}

static vt_crew_needs needs_of(const vt_eval *v) {
    vt_task dims = task_dims(v);
    return (vt_crew_needs){.subject = v->subject,
                           .batch = batch_of(v),
                           .dims = dims,
                           .work = work_len(v, &dims),
                           .eight_bit = vt_eight_bit_wanted(v),
                           .surrogate = transfers(v),
                           .interrupt = v->interrupt};
}

/* Of one image at a time. */
static size_t network_bytes(const vt_model *m, const vt_remote *r) {
    if (r) return vt_remote_bytes(r, 1);
    return vt_session_bytes_f32(m, 1, VT_GRAD_INPUT) + vt_session_bytes_f64(m, 1, VT_GRAD_NONE);
}

/* What searches in the judged network's place, where something does. */
static size_t coarse_bytes(const vt_subject *s) {
    const vt_products by = {0};
    return s->search ? vt_session_bytes_by_f32(s->model, 1, VT_GRAD_INPUT, &by) : 0;
}

size_t vt_eval_bytes(const vt_eval *v) {
    vt_task dims = task_dims(v);
    const vt_model *m = v->subject->model, *other = !transfers(v)           ? NULL
                                                    : v->subject->surrogate ? v->subject->surrogate
                                                                            : m;
    size_t each = (work_len(v, &dims) + 4 * dims.n) * sizeof(float), stages = 1;
    each += network_bytes(m, v->subject->remote) + coarse_bytes(v->subject);
    if (other) each += network_bytes(other, other == m ? NULL : v->subject->surrogate_remote);
    for (int i = 0; i < v->n_attacks; i++) stages += (size_t)v->attacks[i].n_stages;
    size_t copies = other == m ? (m->params.total + m->params.t_total) * sizeof(float) : 0; /* of weights */
    if (v->subject->search == VT_PRODUCTS_BF16) copies += vt_model_packed_bytes(m);
    size_t at_a_time = (size_t)v->threads * (size_t)batch_of(v);
    return each * at_a_time + (size_t)v->threads * vt_lane_bytes(batch_of(v)) + copies +
           stages * v->n_images * (sizeof(vt_record) + 1);
}

/* ---- checks and header ---- */

static vt_status check_attacks(const vt_eval *v, vt_err *e) {
    vt_task dims = task_dims(v);
    for (int i = 0; i < v->n_attacks; i++)
        for (int k = 0; k < v->attacks[i].n_stages; k++) {
            const vt_attack_stage *s = &v->attacks[i].stages[k];
            vt_err why = {0};
            vt_status st = s->def->check ? s->def->check(s->params, &dims, &why) : VT_OK;
            if (st != VT_OK) return vt_fail(e, st, "attack %s: %s", s->def->name, why.text);
        }
    return VT_OK;
}

/* Attacks that ask for attention, or whose squares it chooses, need a model that shows it. */
static vt_status can_look(const vt_eval *v, vt_err *e) {
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
static vt_status check_foreign(const vt_eval *v, vt_err *e) {
    const vt_subject *s = v->subject;
    if (!s->remote && !s->own) return VT_OK;
    if (v->batch > vt_subject_takes(s))
        return vt_fail(e, VT_E_USAGE, "--batch is %d, but the model %.300s takes at most %d images at once", v->batch,
                       s->model->path, vt_subject_takes(s));
    if (transfers(v) && !s->surrogate)
        return vt_fail(e, VT_E_USAGE,
                       "transfer needs --surrogate WEIGHTS: a model in another process shows no weights to make a twin "
                       "of");
    if (v->patch.aligned)
        return vt_fail(e, VT_E_USAGE,
                       "--threat patch: aligned=1 needs tokens, of which a model in another process does "
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
static vt_status check_surrogate(const vt_eval *v, vt_err *e) {
    const vt_model *s = v->subject->surrogate, *m = v->subject->model;
    if (!s) return VT_OK;
    const char *path = s->path ? s->path : "the surrogate", *whose = m->path ? m->path : "the model";
    vt_shape is = vt_config_shape(&s->config), want = vt_config_shape(&m->config);
    if (s->config.classes != m->config.classes)
        return vt_fail(e, VT_E_USAGE, "--surrogate %s has %d classes, must have %d, as %s", path, s->config.classes,
                       m->config.classes, whose);
    if (vt_shape_side(is) && vt_shape_side(want) && !vt_shape_same(is, want))
        return vt_fail(e, VT_E_USAGE, "--surrogate %s takes images of %d x %d pixels, must take %d x %d, as %s", path,
                       is.width, is.height, want.width, want.height, whose);
    if (!vt_shape_same(is, want))
        return vt_fail(e, VT_E_USAGE, "--surrogate %s takes images of " VT_CHW ", must take " VT_CHW ", as %s", path,
                       VT_CHW_OF(is), VT_CHW_OF(want), whose);
    return VT_OK;
}

/* Attacks that know no way to a class, or are told another one; a file that does not fit the run. */
static vt_status check_targets(const vt_eval *v, vt_err *e) {
    int classes = vt_subject_classes(v->subject), label;
    for (int i = 0; v->targets && i < v->n_attacks; i++)
        for (int k = 0; k < v->attacks[i].n_stages; k++) {
            const vt_attack_stage *s = &v->attacks[i].stages[k];
            const char *own = strstr(s->id, "target=");
            if (s->def->traits & VT_CANNOT_AIM)
                return vt_fail(e, VT_E_USAGE, "attack %s cannot aim at a class: --targets wants attacks that can",
                               s->def->name);
            if (own && strncmp(own, "target=none", strlen("target=none")) != 0)
                return vt_fail(e, VT_E_USAGE, "attack %s: give its target or --targets, not both", s->def->name);
        }
    for (size_t i = 0; v->targets && v->targets->path && i < v->n_images; i++) {
        VT_TRY(vt_subject_image(v->subject, v->images[i], NULL, &label, e));
        VT_TRY(vt_targets_fit(v->targets, v->images[i], label, classes, e));
    }
    return VT_OK;
}

vt_status vt_eval_check(const vt_eval *v, vt_err *e) {
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
    return vt_subject_image(v->subject, v->images[0], NULL, &label, e);
}

static json_t *model_json(const vt_config *c) {
    static const char *const pools[] = {"token", "avg", "all"};
    char forms[1000];
    json_t *model =
        json_pack("{s:s,s:s,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:b,s:b,s:s,s:f,s:f,s:[f,f,f],s:[f,f,f],s:s}", "architecture",
                  c->arch, "attention", c->attn, "image", c->image, "patch", c->patch, "dim", c->dim, "depth", c->depth,
                  "heads", c->heads, "mlp_hidden", c->hidden, "classes", c->classes, "qkv_bias", c->qkv_bias,
                  "distillation_token", c->dist_token, "pool", pools[c->pool], "ln_eps", c->ln_eps, "attn_scale",
                  c->attn_scale, "mean", c->mean[0], c->mean[1], c->mean[2], "std", c->std[0], c->std[1], c->std[2],
                  "input", "u8/255 in [0,1], then (x - mean) / std inside the model");
    if (vt_forms_text(c, forms, sizeof forms)) json_object_set_new(model, "forms", json_string(forms));
    return model;
}

/* All that is known of a model in another process; vt_describe_remote says the rest. */
static json_t *remote_json(const vt_config *c) {
    json_t *model = json_pack("{s:s}", "architecture", c->arch);
    vt_describe_shape(model, c->foreign);
    json_object_set_new(model, "classes", json_integer(c->classes));
    json_object_set_new(model, "input", json_string("u8/255 in [0,1], as the model in its process takes it"));
    return model;
}

static json_t *stage_json(const vt_attack_stage *s, vt_scoring scoring) {
    json_t *o = json_pack("{s:s,s:s}", "name", s->def->name, "id", s->id);
    if (s->share < 1 && scoring == VT_SCORE_BALL) json_object_set_new(o, "share", json_real(s->share));
    return o;
}

static json_t *attacks_json(const vt_eval *v) {
    json_t *list = json_array();
    for (int i = 0; i < v->n_attacks; i++) {
        const vt_attack *a = &v->attacks[i];
        json_t *stages = json_array();
        for (int k = 0; k < a->n_stages; k++) json_array_append_new(stages, stage_json(&a->stages[k], a->scoring));
        json_t *entry = json_pack("{s:s,s:s,s:s,s:s,s:o}", "name", a->name, "id", a->id, "summary", a->def->summary,
                                  "reference", a->def->reference, "stages", stages);
        if (v->radii && isfinite(v->radii[i].eps))
            json_object_set_new(entry, "at", json_pack("{s:s,s:f}", "eps", v->radii[i].text, "value", v->radii[i].eps));
        if (a->scoring != VT_SCORE_BALL)
            json_object_set_new(entry, "scoring", json_string(vt_scoring_name(a->scoring)));
        if (a->def->profile && a->scoring == VT_SCORE_BALL) json_object_set_new(entry, "profile", json_true());
        json_array_append_new(list, entry);
    }
    return list;
}

/* A wrapped checkpoint is another model: it has a name and a hash of its own, and every report says so. */
static void describe_wrap(json_t *header, const vt_eval *v) {
    if (!v->subject->wrap.def) return;
    char text[400], hash[17];
    int n = snprintf(text, sizeof text, "%s\n%s", v->subject->model->sha256, v->subject->wrap.id);
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)vt_sha_prefix(text, (size_t)n));
    json_object_set_new(header, "wrap", json_pack("{s:s,s:s}", "id", v->subject->wrap.id, "sha256_64", hash));
    snprintf(text, sizeof text, "WRAPPED: not the checkpoint itself, but a known cheat around it (%s)",
             v->subject->wrap.id);
    json_t *model = json_object_get(header, "model"), *notes = json_object_get(model, "notes");
    if (!notes) json_object_set_new(model, "notes", notes = json_array());
    json_array_append_new(notes, json_string(text));
}

json_t *vt_eval_header(const vt_eval *v) {
    char kernels[128];
    size_t before = vt_json_refused();
    vt_gemm_kernels(kernels, sizeof kernels);
    json_t *header =
        json_pack("{s:s,s:s,s:s,s:o,s:{s:s,s:s,s:s,s:i,s:I},s:s,s:s,s:f,s:I,s:b,s:o,s:s,s:s}", "format",
                  VT_LEDGER_FORMAT, "vitrine", VT_VERSION, "weights", v->subject->model->sha256, "model",
                  vt_subject_is_remote(v->subject) ? remote_json(&v->subject->model->config)
                                                   : model_json(&v->subject->model->config),
                  "data", "format", v->subject->data->def->name, "split", vt_split_name(v->subject->data->split),
                  "sha256", v->subject->data->hash, "classes", v->subject->data->classes, "count",
                  (json_int_t)v->subject->data->count, "norm", v->patch.size ? "patch" : vt_norm_name(v->norm), "eps",
                  v->eps_text, "eps_value", v->eps, "seed", (json_int_t)v->seed, "exhaustive", v->exhaustive, "attacks",
                  attacks_json(v), "blas", kernels, "compiler", VT_COMPILER);
    if (!header) return NULL;
    const vt_model *m = v->subject->model;
    if (v->subject->remote)
        vt_describe_remote(header, vt_remote_hello(v->subject->remote));
    else
        vt_describe_weights(header, m->path);
    if (m->part && *m->part && *m->parts)
        json_object_set_new(json_object_get(header, "model"), "part", json_string(m->part));
    if (!vt_subject_is_remote(v->subject)) json_object_set_new(header, "sources", vt_describe_sources(m));
    vt_describe_data(json_object_get(header, "data"), v->subject->data, v->subject->model->config.classes);
    if (v->radii) json_object_set_new(header, "curve", json_true());
    if (v->targets) json_object_set_new(header, "targets", vt_targets_json(v->targets));
    if (batch_of(v) > 1) json_object_set_new(header, "batch", json_integer(batch_of(v)));
    if (v->patch.size)
        json_object_set_new(header, "threat",
                            json_pack("{s:{s:i,s:i,s:b}}", "patch", "size", v->patch.size, "count", v->patch.count,
                                      "aligned", v->patch.aligned));
    vt_describe_input(json_object_get(header, "model"), &v->subject->model->config, v->subject->data,
                      &v->subject->input);
    vt_describe_attacks(header, v->attacks, v->n_attacks, vt_subject_classes(v->subject));
    if (!v->radii && !v->patch.size) vt_describe_radius(header, v->norm, v->eps);
    vt_eight_bit_describe(header, v);
    describe_wrap(header, v);
    double forward, gradient;
    vt_subject_flops(v->subject, &forward, &gradient);
    json_object_set_new(header, "gradient_cost", json_real(gradient / forward));
    vt_describe_search(header, v->subject->search);
    if (transfers(v)) vt_describe_surrogate(header, v->subject->surrogate, v->subject->surrogate_name);
    return vt_json_whole(header, before);
}

/* ---- one image ---- */

static void from_verdict(vt_record *r, const vt_verdict *d) {
    r->pred = d->pred, r->pred64 = d->pred64, r->margin = d->margin, r->margin64 = d->margin64, r->linf = d->linf,
    r->l2 = d->l2, r->l1 = d->l1, r->borderline = d->borderline;
}

static vt_status clean_image(stage_run *run, vt_worker *w, int32_t image, vt_err *e) {
    const vt_eval *v = run->v;
    vt_record r = {.image = image, .target = -1, .forwards = 1};
    vt_verdict d;
    bool unsure;
    VT_TRY(vt_subject_image(v->subject, image, w->x, &r.label, e));
    vt_rng key = vt_verdict_key(v->seed, image, 0, 0);
    vt_classifier_begin(&w->model, &key);
    VT_TRY(vt_predict(&d, &unsure, &w->model, w->x, r.label, w->z, w->z64, e));
    if (!isfinite(d.margin)) return vt_fail(e, VT_E_NUMERIC, "image %d: the model's logits are not finite", image);
    from_verdict(&r, &d);
    if (v->targets) r.target = vt_targets_class(v->targets, v->seed, image, r.label, w->z, w->model.classes);
    r.status = d.pred == r.label ? VT_RECORD_CORRECT : VT_RECORD_WRONG;
    r.borderline = unsure;
    r.sha = vt_sha_prefix(w->x, w->model.pixels * sizeof(float));
    if (d.pred == r.label) atomic_fetch_add(&run->robust, 1);
    return vt_ledger_append(run->ledger, &r, NULL, e);
}

/* What an attack must not end with. A query of the model without finite logits ends its image alone. */
static vt_status refuse(vt_status s, const vt_oracle *o, int32_t image, const char *name, vt_err *e) {
    if (s == VT_E_NUMERIC)
        return o->not_finite ? VT_OK
                             : vt_fail(e, s, "image %d: attack %s: the surrogate's logits are not finite", image, name);
    if (s == VT_INTERRUPTED) return s;
    return s == VT_OK ? VT_OK
                      : vt_fail(e, s, "image %d: attack %s failed: %.1800s", image, name, vt_attacker_why(o, s));
}

/* How an entry of the run searches: for the nearest point, as a paper's evaluator, to the end, or until it is found. */
static vt_oracle_mode mode_of(const vt_eval *v, int entry) {
    if (v->radii && isinf(v->radii[entry - 1].eps)) return VT_ORACLE_CLOSEST;
    if (v->attacks[entry - 1].scoring == VT_SCORE_PUBLISHED) return VT_ORACLE_UNJUDGED;
    return v->exhaustive ? VT_ORACLE_EXHAUSTIVE : VT_ORACLE_SEARCH;
}

/* The attack's word, turned into a line: which point is judged, and what the judge says. */
static vt_status attack_image(stage_run *run, vt_worker *w, int32_t image, vt_err *e) {
    const vt_eval *v = run->v;
    const vt_attack *attack = &v->attacks[run->entry - 1];
    const vt_attack_stage *st = &attack->stages[run->stage];
    const vt_coverage *c = run->covered;
    vt_record r = {.image = image, .entry = run->entry, .stage = run->stage, .target = -1};
    if (c->targets) r.target = c->targets[vt_image_place(c->images, c->n, image)];
    const int32_t *target = c->targets ? &r.target : NULL;
    vt_attempt t = {.x = w->x,
                    .classes = vt_subject_classes(v->subject),
                    .norm = v->norm,
                    .eps = v->eps,
                    .patch = &v->patch,
                    .goal = target};
    VT_TRY(vt_subject_image(v->subject, image, w->x, &r.label, e));
    t.label = r.label, t.mode = mode_of(v, run->entry);
    t.eight_bit = attack->scoring == VT_SCORE_EIGHT_BIT ? &w->grid : NULL;
    t.key = (vt_rng){.seed = v->seed, .purpose = vt_rng_purpose(st->def->name), .image = (uint32_t)image};
    if (v->radii && t.mode != VT_ORACLE_CLOSEST) t.eps = v->radii[run->entry - 1].eps;
    VT_TRY(refuse(vt_attacker_run(&w->attacker, &w->oracle, st, &t), &w->oracle, image, st->def->name, e));
    const float *candidate = w->attacker.at;
    vt_verdict d;
    vt_rng key = vt_verdict_key(v->seed, image, run->entry, run->stage);
    vt_terms terms = {v->norm, t.eps, v->patch, attack->scoring, target};
    VT_TRY(vt_verify_by(&d, &terms, &w->model, &key, w->x, candidate, w->attacker.shape, r.label, w->z, w->z64, e));
    from_verdict(&r, &d);
    r.l0 = v->norm == VT_L0 ? d.l0 : 0;
    r.gradients = w->oracle.gradients, r.forwards = w->oracle.forwards, r.vanished = w->oracle.vanished;
    r.status = (uint8_t)vt_verdict_status(&d);
    if (w->oracle.not_finite && !d.broken)
        r.status = VT_RECORD_NOT_FINITE; /* a random model may answer otherwise now */
    bool keep = vt_record_ends(r.status) || !d.inside || v->exhaustive;
    if (!d.broken) {
        r.borderline = 0;
        r.sha = vt_sha_prefix(candidate, w->attacker.pixels * sizeof(float));
    }
    if (!vt_record_ends(r.status)) atomic_fetch_add(&run->robust, 1);
    return vt_ledger_append(run->ledger, &r, keep ? candidate : NULL, e);
}

/* "robust 41"; who waits for whom, where the model is in another process. Of ranks, this one's. */
static void note_of(const stage_run *run, char *note, size_t size) {
    vt_remote *r = run->v->subject->remote;
    int n = snprintf(note, size, "%s %zu", run->entry ? "robust" : "right", atomic_load(&run->robust));
    if (team_of(run->v)) n += snprintf(note + n, size - (size_t)n, " of %zu on rank 0", run->deal.finished);
    double spent = (vt_now() - run->began) * run->v->threads;
    if (r && spent > 0)
        snprintf(note + n, size - (size_t)n, ", %.0f %% of the time is the model's",
                 fmin(100, 100 * (vt_remote_waited(r) - run->waited) / spent));
}

static vt_status one_image(stage_run *run, vt_worker *w, int32_t image, vt_err *e) {
    if (run->v->interrupt && *run->v->interrupt) return VT_INTERRUPTED;
    VT_TRY(run->entry ? attack_image(run, w, image, e) : clean_image(run, w, image, e));
    size_t done = vt_deal_finish(&run->deal);
    char note[80];
    note_of(run, note, sizeof note);
    const vt_oracle *o = &w->oracle;
    pthread_mutex_lock(&run->lock);
    run->progress.left = vt_outlook_image(run->outlook, run->entry ? o->forwards : 1, run->entry ? o->gradients : 0,
                                          run->done_before + done, run->total, atomic_load(&run->robust));
    vt_progress_step(&run->progress, run->done_before + done, note);
    pthread_mutex_unlock(&run->lock);
    return VT_OK;
}

/* ---- a crew at work ---- */

typedef struct crew_run {
    stage_run *run;
    vt_crew *crew;
} crew_run;

static bool next_image(void *ctx, int slot, size_t *item) {
    stage_run *run = ((crew_run *)ctx)->run;
    (void)slot;
    return !atomic_load(&run->failed) && vt_deal_next(&run->deal, item);
}

static vt_status in_slot(void *ctx, int slot, size_t item, vt_err *e) {
    const crew_run *c = ctx;
    vt_status s = one_image(c->run, &c->crew->workers[slot], c->run->todo[item], e);
    if (s == VT_OK) return s;
    atomic_store(&c->run->failed, true);
    vt_deal_stop(&c->run->deal);
    return s;
}

static void ask_model(void *ctx) {
    const vt_crew *c = ((crew_run *)ctx)->crew;
    vt_batchers_serve(c->batchers, c->n_batchers);
}

static vt_status one_crew(void *ctx, int thread, size_t item, vt_err *e) {
    stage_run *run = ctx;
    crew_run c = {run, &run->crews[item]};
    (void)thread;
    return vt_lane_run(c.crew->lane, &(vt_lane_job){next_image, in_slot, ask_model, &c}, e);
}

/* ---- stages ---- */

/* Images of this stage that have no line yet, into todo; *total: of the stage, *robust: of those that are done. */
static size_t collect(const vt_coverage *b, int entry, int stage, int32_t *todo, size_t *total, size_t *robust) {
    size_t n = 0;
    *total = *robust = 0;
    for (size_t i = 0; i < b->n; i++) {
        if (!vt_coverage_takes(b, entry, stage, i)) continue;
        uint8_t now = vt_coverage_cell(b, entry, stage, i);
        (*total)++;
        *robust += now == VT_RECORD_ROBUST || now == VT_RECORD_CORRECT || now == VT_RECORD_INVALID;
        if (now == VT_COVERAGE_NONE) todo[n++] = b->images[i];
    }
    return n;
}

/* What the line of progress calls it: as the table's rows do. */
static void name_stage(const vt_header *header, int entry, int stage, char *name, size_t size) {
    char label[56], part[72];
    const vt_header_attack *attack = vt_header_entry(header, entry);
    vt_attack_label(attack, label, sizeof label);
    snprintf(name, size, "%s", label);
    if (attack->n_stages > 1)
        snprintf(name, size, "%.24s: %.40s", label, vt_stage_label(attack, stage, part, sizeof part));
}

/* The lines of a stage, of all ranks, into the coverage. */
static vt_status note_lines(const vt_eval *v, const vt_ledger *l, vt_coverage *b, size_t before, vt_err *e) {
    vt_record *others = NULL;
    size_t n = 0;
    vt_status s = vt_coverage_note(b, l, before, e);
    if (!team_of(v)) return s;
    s = vt_team_agree(team_of(v), s, e);
    if (s == VT_OK) s = vt_parts_news(l, before, team_of(v), &others, &n, e);
    if (s == VT_OK) s = vt_coverage_note_lines(b, l->dir, others, n, e);
    free(others);
    return s;
}

/* The images of a stage, by the threads of all ranks. */
static vt_status deal_out(stage_run *run, vt_err *e) {
    const vt_eval *v = run->v;
    vt_ledger *l = run->ledger;
    VT_TRY(vt_deal_begin(&run->deal, team_of(v), run->n, v->threads, e));
    vt_status s = vt_for_each((size_t)v->threads, v->threads, one_crew, run, e);
    if (s != VT_OK) vt_deal_stop(&run->deal);
    vt_deal_end(&run->deal);
    vt_err sync = {0};
    vt_status t = l->fd >= 0 ? vt_ledger_sync(l, &sync) : VT_OK;
    if (s == VT_OK && t != VT_OK) s = vt_fail(e, t, "%s", sync.text);
    return vt_team_agree(team_of(v), s, e);
}

static vt_status run_stage(const vt_eval *v, vt_ledger *l, vt_crew *crews, vt_coverage *b, int32_t *todo, vt_outlook *o,
                           int entry, int stage, vt_err *e) {
    stage_run run = {.v = v,
                     .ledger = l,
                     .crews = crews,
                     .covered = b,
                     .entry = entry,
                     .stage = stage,
                     .todo = todo,
                     .progress = v->progress,
                     .outlook = o};
    char name[80] = "clean";
    size_t robust, before = l->count;
    run.n = collect(b, entry, stage, todo, &run.total, &robust);
    if (!run.n) return VT_OK;
    run.done_before = run.total - run.n;
    atomic_init(&run.robust, robust);
    pthread_mutex_init(&run.lock, NULL);
    if (entry) name_stage(l->header, entry, stage, name, sizeof name);
    vt_outlook_stage(o, entry, stage);
    run.began = vt_now(), run.waited = v->subject->remote ? vt_remote_waited(v->subject->remote) : 0;
    vt_progress_begin(&run.progress, name, run.done_before, run.total);
    vt_status s = deal_out(&run, e);
    char note[80];
    note_of(&run, note, sizeof note);
    vt_progress_end(&run.progress, note);
    pthread_mutex_destroy(&run.lock);
    return s == VT_OK ? note_lines(v, l, b, before, e) : s;
}

static vt_status run_all(const vt_eval *v, vt_ledger *l, vt_crew *crews, vt_coverage *b, int32_t *todo, vt_err *e) {
    VT_TRY(vt_coverage_open(b, l->header, v->images, v->n_images, e));
    VT_TRY(note_lines(v, l, b, 0, e));
    const vt_crew_needs needs = needs_of(v);
    vt_status s = VT_OK;
    for (int i = 0; i < v->threads && s == VT_OK; i++) s = vt_crew_open(&crews[i], &needs, e);
    VT_TRY(vt_team_agree(team_of(v), s, e));
    vt_outlook o;
    vt_outlook_begin(&o, v);
    VT_TRY(run_stage(v, l, crews, b, todo, &o, 0, 0, e));
    for (int entry = 1; entry <= v->n_attacks; entry++)
        for (int k = 0; k < v->attacks[entry - 1].n_stages; k++)
            VT_TRY(run_stage(v, l, crews, b, todo, &o, entry, k, e));
    return VT_OK;
}

static vt_status run_with(const vt_eval *v_, vt_ledger *l, vt_err *e) {
    vt_eval v = *v_;
    vt_coverage b = {0};
    if ((size_t)v.threads > v.n_images) v.threads = (int)v.n_images;
    vt_crew *crews = calloc((size_t)v.threads, sizeof *crews);
    int32_t *todo = calloc(v.n_images, sizeof *todo);
    vt_status s = crews && todo ? run_all(&v, l, crews, &b, todo, e)
                                : vt_fail(e, VT_E_MEMORY, "no memory for %zu images", v.n_images);
    for (int i = 0; crews && i < v.threads; i++) vt_crew_close(&crews[i]);
    vt_coverage_close(&b);
    free(crews), free(todo);
    return s;
}

vt_status vt_eval_run(const vt_eval *v_, vt_ledger *l, vt_err *e) {
    vt_eval v = *v_;
    vt_model *twin = NULL;
    vt_packed *packed = NULL;
    vt_subject with = *v.subject;
    v.subject = &with;
    if (!with.surrogate && transfers(v_)) {
        VT_TRY(vt_model_twin(&twin, with.model, v.seed, e));
        with.surrogate = twin;
    }
    vt_status s = with.search == VT_PRODUCTS_BF16 ? vt_model_pack(&packed, with.model, e) : VT_OK;
    with.packed = packed;
    if (s == VT_OK) s = run_with(&v, l, e);
    vt_packed_free(packed);
    vt_model_close(twin);
    if (!v.place || (s != VT_OK && s != VT_INTERRUPTED)) return s;
    vt_err why = {0};
    vt_status taken = vt_parts_take(l, v.place, &why);
    return taken == VT_OK ? s : vt_fail(e, taken, "%s", why.text);
}
