/* SPDX-License-Identifier: MIT */
#include "eval/request.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/opt.h"
#include "core/threads.h"
#include "eval/eight_bit.h"
#include "eval/prepare.h"
#include "io/image_list.h"

/* ---- the threat ---- */

vt_status vt_request_norm(const char *text, vt_norm *out, vt_err *e) {
    *out = VT_LINF;
    if (!text || vt_norm_find(text, out)) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "@norm is '%s', must be linf, l2, l1 or l0", text);
}

vt_status vt_request_eps(const char *text, vt_norm norm, double *out, vt_err *e) {
    if (!text)
        return vt_fail(e, VT_E_USAGE, "attacks need @eps, in pixel units: 8/255, 0.031 (linf), 0.5 (l2) or 12 (l1)");
    if (!vt_parse_real(text, out))
        return vt_fail(e, VT_E_USAGE, "@eps is '%s', which is neither a fraction like 8/255 nor a number like 0.031",
                       text);
    if (!(*out > 0)) return vt_fail(e, VT_E_USAGE, "@eps is %s, must be above 0", text);
    if (norm == VT_LINF && !(*out <= 1)) {
        if (*out <= 255)
            return vt_fail(e, VT_E_USAGE,
                           "@eps is %s, but linf eps is in pixel units of [0,1] and at most 1; did you mean %s/255?",
                           text, text);
        return vt_fail(e, VT_E_USAGE, "@eps is %s, but linf eps is in pixel units of [0,1] and at most 1", text);
    }
    /* 0.1 is a change of 25 grey levels in one value of one pixel, and none elsewhere */
    if (norm == VT_L1 && *out < 0.1)
        return vt_fail(e, VT_E_USAGE,
                       "@eps is %s, but an l1 radius is the sum over all values of an image and at least 0.1 (12 is "
                       "usual for 32x32 pixels); did you mean @norm linf?",
                       text);
    if (norm == VT_L0 && *out != floor(*out))
        return vt_fail(e, VT_E_USAGE,
                       "@eps is %s, but an l0 radius counts the values that may change, three a pixel: a whole number",
                       text);
    if (!(*out <= 1e6)) return vt_fail(e, VT_E_USAGE, "@eps is %s, must be at most 1e6", text);
    return VT_OK;
}

vt_status vt_request_threat(vt_request *r, vt_err *e) {
    const char *threat = vt_chosen(r->c, "threat");
    if (!threat) return vt_request_norm(vt_chosen(r->c, "norm"), &r->v.norm, e);
    if (vt_is_chosen(r->c, "norm") || vt_is_chosen(r->c, "eps"))
        return vt_fail(e, VT_E_USAGE, "@threat %.60s stands in place of @norm and @eps: give one or the other", threat);
    return vt_patch_parse(&r->v.patch, threat, e);
}

/* ---- attacks ---- */

static vt_status parse(vt_attack *a, const vt_request *r, const char *spec, vt_err *e) {
    return r->v.patch.size ? vt_attack_parse_patch(a, spec, e) : vt_attack_parse(a, spec, r->v.norm, e);
}

vt_status vt_request_add(vt_request *r, const char *spec, bool individual, int k, vt_scoring scoring, vt_err *e) {
    vt_attack a, *to = &r->attacks[r->v.n_attacks];
    if (r->v.n_attacks == VT_REQUEST_ATTACKS)
        return vt_fail(e, VT_E_USAGE, "at most %d attacks in one run", VT_REQUEST_ATTACKS);
    VT_TRY(parse(&a, r, spec, e));
    vt_status s = VT_OK;
    if (individual) {
        s = vt_attack_single(to, &a, k, e);
        vt_attack_free(&a);
    } else {
        *to = a;
    }
    if (s == VT_OK && scoring == VT_SCORE_EIGHT_BIT) to->scoring = scoring; /* else the attack says it */
    r->v.n_attacks += s == VT_OK;
    r->v.attacks = r->attacks;
    return s;
}

/* One entry, or with `individual` one for each stage; with eight-bit another one behind each. */
static vt_status add_attack(vt_request *r, const char *spec, vt_err *e) {
    bool individual = vt_is_chosen(r->c, "individual"), eight = vt_is_chosen(r->c, "eight-bit");
    vt_attack a;
    VT_TRY(parse(&a, r, spec, e));
    int n = individual ? a.n_stages : 1;
    vt_attack_free(&a);
    for (int k = 0; k < n; k++) {
        VT_TRY(vt_request_add(r, spec, individual, k, VT_SCORE_BALL, e));
        if (eight && r->attacks[r->v.n_attacks - 1].scoring == VT_SCORE_BALL)
            VT_TRY(vt_request_add(r, spec, individual, k, VT_SCORE_EIGHT_BIT, e));
    }
    return VT_OK;
}

static vt_status unknown_profile(const char *name, vt_err *e) {
    const char *names[16];
    size_t n = 0;
    int count;
    const vt_attack_def *const *defs = vt_attack_defs(&count);
    for (int i = 0; i < count && n < 16; i++)
        if (defs[i]->profile) names[n++] = defs[i]->name;
    const char *near = vt_nearest(name, names, n);
    return vt_fail(e, VT_E_USAGE, "unknown profile '%.60s'%s%s%s: there are quick, standard and paranoid", name,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

vt_status vt_request_attacks(vt_request *r, vt_err *e) {
    const char *spec;
    bool used = !vt_is_chosen(r->c, "surrogate") && !vt_is_chosen(r->c, "surrogate-oracle");
    for (int i = 0; (spec = vt_chosen_nth(r->c, "profile", i)); i++) {
        const vt_attack_def *def = vt_attack_find(spec);
        if (!def || !def->profile) return unknown_profile(spec, e);
        VT_TRY(add_attack(r, spec, e));
    }
    for (int i = 0; (spec = vt_chosen_nth(r->c, "attack", i)); i++) VT_TRY(add_attack(r, spec, e));
    for (int i = 0; i < r->v.n_attacks; i++) used = used || vt_attack_needs_surrogate(&r->attacks[i]);
    return used ? VT_OK : add_attack(r, "transfer", e);
}

/* ---- what is asked of them ---- */

static vt_status read_targets(vt_request *r, vt_err *e) {
    const char *text = vt_chosen(r->c, "targets");
    if (!text) return VT_OK;
    if (!r->v.n_attacks) return vt_fail(e, VT_E_USAGE, "@targets needs at least one @attack");
    VT_TRY(vt_targets_open(&r->targets, text, e));
    r->v.targets = &r->targets;
    return VT_OK;
}

vt_status vt_request_terms(vt_request *r, vt_err *e) {
    static const char *const needs_out[] = {"save-adv", "save-npz", "resume"};
    long long seed;
    VT_TRY(read_targets(r, e));
    r->v.eps_text = r->v.patch.size ? "1" : vt_chosen(r->c, "eps");
    if (r->v.n_attacks || r->v.eps_text) VT_TRY(vt_request_eps(r->v.eps_text, r->v.norm, &r->v.eps, e));
    if (!r->v.eps_text) r->v.eps_text = "0";
    VT_TRY(vt_chosen_int(r->c, "seed", 0, INT64_MAX, 0, &seed, e));
    r->v.seed = (uint64_t)seed;
    r->v.exhaustive = vt_is_chosen(r->c, "exhaustive");
    r->v.skip_not_finite = vt_is_chosen(r->c, "skip-not-finite");
    if (vt_is_chosen(r->c, "expect-robust") && !r->v.n_attacks)
        return vt_fail(e, VT_E_USAGE, "@expect-robust needs at least one @attack");
    if (vt_is_chosen(r->c, "eight-bit") && !vt_eight_bit_wanted(&r->v))
        return vt_fail(e, VT_E_USAGE, "@eight-bit needs at least one @attack");
    for (int i = 0; !vt_is_chosen(r->c, "out") && i < 3; i++)
        if (vt_is_chosen(r->c, needs_out[i])) return vt_fail(e, VT_E_USAGE, "@%s needs @out FOLDER", needs_out[i]);
    return VT_OK;
}

/* ---- model, data, pace ---- */

vt_status vt_request_subject(vt_request *r, vt_subject *s, const char *weights, int32_t first, vt_err *e) {
    VT_TRY(vt_subject_open(s, r->c, weights, first, e));
    if (s->remote) vt_remote_interruptible(s->remote, r->interrupt);
    if (!s->remote) VT_TRY(r->known(r->known_ctx, s->model, false, e));
    return vt_subject_fit(s, r->c, first, e);
}

/* No names but these: "bf16" alone asks for a processor that has it. */
static bool parse_precision(const char *text, vt_precision *out) {
    for (vt_precision p = VT_PRODUCTS_FLOAT32; p <= VT_PRODUCTS_BF16_EMULATED; p++)
        if (!strcmp(text, vt_precision_name(p))) {
            *out = p;
            return true;
        }
    *out = vt_bf16_hardware() ? VT_PRODUCTS_BF16 : VT_PRODUCTS_FLOAT32;
    return !strcmp(text, "auto");
}

vt_status vt_request_search(const vt_choices *c, vt_subject *s, vt_err *e) {
    const char *text = vt_chosen(c, "search");
    vt_precision p = VT_PRODUCTS_FLOAT32;
    if (text && !parse_precision(text, &p))
        return vt_fail(e, VT_E_USAGE, "@search is '%.60s', must be float32, auto, bf16 or bf16-emulated", text);
    bool elsewhere = s->own || vt_subject_is_remote(s), automatic = text && !strcmp(text, "auto");
    if (p && elsewhere && !automatic)
        return vt_fail(e, VT_E_USAGE,
                       "@search %s chooses how products are formed here: a model in another process forms its own",
                       text);
    if (p == VT_PRODUCTS_BF16 && !vt_bf16_hardware())
        return vt_fail(e, VT_E_USAGE,
                       "@search bf16: this processor does not multiply bfloat16 (it has neither AVX512-BF16 nor AMX); "
                       "@search auto would take float32 here, and @search bf16-emulated forms the same products "
                       "slowly");
    s->search = elsewhere ? VT_PRODUCTS_FLOAT32 : p;
    return VT_OK;
}

vt_status vt_request_threads(const vt_choices *c, const vt_subject *s, int *threads, vt_err *e) {
    long long n = 1;
    int usual = 1;
    if (!s->remote && !vt_is_chosen(c, "threads")) VT_TRY(vt_thread_count(&usual, e));
    VT_TRY(vt_chosen_int(c, "threads", 1, VT_THREADS_MOST, usual, &n, e));
    *threads = (int)n;
    return VT_OK;
}

/* The batch of the run that is to be continued: what was measured then, not now. 0: there is none. */
static int recorded_batch(const vt_choices *c) {
    const char *out = vt_chosen(c, "out");
    vt_ledger *l;
    if (!vt_is_chosen(c, "resume") || !out || !vt_ledger_exists(out)) return 0;
    if (vt_ledger_open(&l, out, NULL) != VT_OK) return 0; /* it will be said when the run is opened */
    int batch = l->header->batch ? l->header->batch : 1;
    vt_ledger_close(l);
    return batch;
}

/* Of few images no batch stays empty by half. */
static vt_status usual_batch(const vt_request *r, const vt_subject *s, size_t images, int *batch, vt_err *e) {
    enum { LEAST = 8 };
    *batch = s->remote ? recorded_batch(r->c) : 1;
    if (*batch) return VT_OK;
    *batch = vt_remote_usual(s->remote);
    if (!r->shared) VT_TRY(vt_remote_measure(s->remote, batch, e));
    while (vt_remote_hello(s->remote)->usual && *batch > LEAST && (size_t)*batch / 2 >= images) *batch /= 2;
    return VT_OK;
}

vt_status vt_request_pace(const vt_request *r, const vt_subject *s, vt_eval *v, vt_err *e) {
    long long batch;
    VT_TRY(vt_request_threads(r->c, s, &v->threads, e));
    if (!vt_is_chosen(r->c, "batch")) return usual_batch(r, s, v->n_images, &v->batch, e);
    VT_TRY(vt_chosen_int(r->c, "batch", 1, VT_FIBER_MOST, 1, &batch, e));
    v->batch = (int)batch;
    return VT_OK;
}

/* The second checkpoint, by its own metadata alone: the choices about the model are those of the main one, which is
 * there and says the side of the images that are attacked, for files that leave theirs open. */
static vt_status open_surrogate(vt_request *r, vt_err *e) {
    vt_subject *s = &r->subject;
    const char *path = vt_chosen(r->c, "surrogate"), *where = vt_chosen(r->c, "surrogate-oracle");
    vt_overrides o = {.shown = vt_shape_side(vt_subject_shape(s))};
    vt_err why = {0};
    if (path && where) return vt_fail(e, VT_E_USAGE, "give @surrogate or @surrogate-oracle, not both");
    if (where) {
        VT_TRY(vt_subject_remote(&s->surrogate_remote, &s->surrogate, r->c, where, e));
        vt_remote_interruptible(s->surrogate_remote, r->interrupt);
        snprintf(s->surrogate_name, sizeof s->surrogate_name, "%s", vt_remote_hello(s->surrogate_remote)->name);
        if (vt_remote_hello(s->surrogate_remote)->vjp) return VT_OK;
        return vt_fail(e, VT_E_USAGE, "@surrogate-oracle %.200s gives no gradients (vjp is false)", where);
    }
    if (!path) return VT_OK;
    if (vt_prepare_open(&s->surrogate, path, &o, &why) != VT_OK ||
        r->known(r->known_ctx, s->surrogate, true, &why) != VT_OK)
        return vt_fail(e, why.code, "@surrogate: %s", why.text);
    vt_weights_name(s->surrogate_name, sizeof s->surrogate_name, s->surrogate->path);
    return VT_OK;
}

vt_status vt_request_open(vt_request *r, const char *weights, vt_err *e) {
    vt_eval *v = &r->v;
    VT_TRY(vt_prepare_data(r->c, &r->subject.data, e));
    VT_TRY(vt_image_list(&r->images, &v->n_images, vt_chosen(r->c, "images"), r->subject.data, e));
    VT_TRY(vt_request_subject(r, &r->subject, weights, r->images[0], e));
    VT_TRY(vt_request_search(r->c, &r->subject, e));
    VT_TRY(vt_request_pace(r, &r->subject, v, e));
    VT_TRY(open_surrogate(r, e));
    if (v->patch.size) VT_TRY(vt_patch_fit(&v->patch, &r->subject.model->config, r->subject.model->path, e));
    v->subject = &r->subject, v->images = r->images, v->interrupt = r->interrupt;
    return vt_eval_check(v, e);
}

void vt_request_close(vt_request *r) {
    for (int i = 0; i < r->v.n_attacks; i++) vt_attack_free(&r->attacks[i]);
    free(r->images);
    vt_targets_close(&r->targets);
    vt_subject_close(&r->subject);
    *r = (vt_request){0};
}
