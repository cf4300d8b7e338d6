/* SPDX-License-Identifier: MIT */
#include "eval/options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/opt.h"
#include "parallel/threads.h"
#include "eval/prepare.h"
#include "data/dataset.h"

/* ---- the threat ---- */

vt_status vt_norm_parse(const char *text, vt_norm *out, vt_err *e) {
    *out = VT_LINF;
    if (!text || vt_norm_find(text, out)) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "@norm is '%s', must be linf, l2, l1 or l0", text);
}

vt_status vt_eps_parse(const char *text, vt_norm norm, double *out, vt_err *e) {
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
    if (norm == VT_L2 && *out > 30 && *out <= 255) /* a tenth of the way through images of 224 x 224 */
        return vt_fail(e, VT_E_USAGE,
                       "@eps is %s, but an l2 radius is in pixel units of [0,1], usually 0.1 to 5; did you mean "
                       "%s/255?",
                       text, text);
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

/* Opens the box of `threat box`; refuses one without the other, and what knows no box. */
static vt_status read_box(vt_eval_options *v, const char *threat, vt_err *e) {
    const char *path = vt_chosen(v->choices, "box");
    const bool asked = threat && !strcasecmp(threat, "box");
    if (asked && !path) return vt_fail(e, VT_E_USAGE, "@threat box needs @box FILE, with the tensors lo and hi");
    if (path && !asked) return vt_fail(e, VT_E_USAGE, "@box %.200s is for @threat box: give both", path);
    if (!path) return VT_OK;
    if (vt_is_chosen(v->choices, "eight-bit"))
        return vt_fail(e, VT_E_USAGE,
                       "@eight-bit counts levels in balls and squares, and knows nothing of @threat box");
    v->box = &v->own.box;
    return vt_box_open(v->box, path, e);
}

/* Reads the threat of rotations; refuses what would not be all of the grid's points, or another set. */
static vt_status read_rotation(vt_eval_options *v, const char *threat, vt_err *e) {
    const char *search = vt_chosen(v->choices, "search");
    if (vt_is_chosen(v->choices, "eight-bit"))
        return vt_fail(e, VT_E_USAGE, "@eight-bit rounds points, and an image of @threat rotation is what it is");
    if (search && strcmp(search, "float32") != 0)
        return vt_fail(e, VT_E_USAGE, "@search %.60s: every point of @threat rotation is asked in float32", search);
    return vt_rotation_parse(&v->rotation, threat, e);
}

/* Reads norm or threat; a patch is free in [0,1], which is linf 1 as far as its pixels go; boxes and rotated images lie
 * in there. */
static vt_status read_threat(vt_eval_options *v, vt_err *e) {
    const char *threat = vt_chosen(v->choices, "threat");
    VT_TRY(read_box(v, threat, e));
    if (!threat) return vt_norm_parse(vt_chosen(v->choices, "norm"), &v->norm, e);
    if (vt_is_chosen(v->choices, "norm") || vt_is_chosen(v->choices, "eps"))
        return vt_fail(e, VT_E_USAGE, "@threat %.60s stands in place of @norm and @eps: give one or the other", threat);
    if (vt_rotation_named(threat)) return read_rotation(v, threat, e);
    return v->box ? VT_OK : vt_patch_parse(&v->patch, threat, e);
}

/* ---- attacks ---- */

vt_norm vt_eval_norm(const vt_eval_options *v) {
    return v->patch.size ? VT_NORM_PATCH : v->box ? VT_NORM_BOX : v->rotation.angles ? VT_NORM_ROTATION : v->norm;
}

/* Adds an entry: the whole attack, or, with `individual`, its stage k. */
static vt_status add_entry(vt_eval_options *v, const char *spec, bool individual, int k, vt_scoring scoring,
                           vt_err *e) {
    vt_attack a, *to = &v->own.attacks[v->n_attacks];
    if (v->n_attacks == VT_EVAL_ATTACKS)
        return vt_fail(e, VT_E_USAGE, "at most %d attacks in one run", VT_EVAL_ATTACKS);
    VT_TRY(vt_attack_parse(&a, spec, vt_eval_norm(v), e));
    vt_status s = VT_OK;
    if (individual) {
        s = vt_attack_single(to, &a, k, e);
        vt_attack_free(&a);
    } else {
        *to = a;
    }
    if (s == VT_OK && scoring == VT_SCORE_EIGHT_BIT) to->scoring = scoring; /* else the attack says it */
    v->n_attacks += s == VT_OK;
    return s;
}

/* Adds an attack: one entry, or with `individual` one for each stage; with eight-bit another after each. */
static vt_status add_attack(vt_eval_options *v, const char *spec, vt_err *e) {
    bool individual = vt_is_chosen(v->choices, "individual"), eight = vt_is_chosen(v->choices, "eight-bit");
    vt_attack a;
    VT_TRY(vt_attack_parse(&a, spec, vt_eval_norm(v), e));
    int n = individual ? a.n_stages : 1;
    vt_attack_free(&a);
    for (int k = 0; k < n; k++) {
        VT_TRY(add_entry(v, spec, individual, k, VT_SCORE_BALL, e));
        if (eight && v->own.attacks[v->n_attacks - 1].scoring == VT_SCORE_BALL)
            VT_TRY(add_entry(v, spec, individual, k, VT_SCORE_EIGHT_BIT, e));
    }
    return VT_OK;
}

/* Adds the caller's attack under its name; n->entry: a new one, or one from `first` on with the same id and scoring. */
static vt_status add_named_attack(vt_eval_options *v, vt_named_attack *n, int first, vt_err *e) {
    VT_TRY(add_entry(v, n->spec, false, 0, VT_SCORE_BALL, e));
    vt_attack *all = v->own.attacks, *a = &all[v->n_attacks - 1];
    n->entry = v->n_attacks;
    snprintf(a->name, sizeof a->name, "%s", n->name);
    for (int i = first; i < v->n_attacks - 1; i++) {
        if (strcmp(all[i].id, a->id) || all[i].scoring != a->scoring) continue;
        n->entry = i + 1;
        vt_attack_free(a);
        v->n_attacks--;
        break;
    }
    return VT_OK;
}

/* Reads profile, attack, then the caller's own; a surrogate that no attack uses gets a transfer entry. */
static vt_status read_attacks(vt_eval_options *v, vt_err *e) {
    static const char *const profiles[] = {"quick", "standard", "paranoid"};
    const char *spec;
    bool used = !vt_is_chosen(v->choices, "surrogate") && !vt_is_chosen(v->choices, "surrogate-oracle");
    v->attacks = v->own.attacks = calloc(VT_EVAL_ATTACKS, sizeof *v->own.attacks);
    if (!v->attacks) return vt_fail(e, VT_E_MEMORY, "no memory for attacks");
    for (int i = 0; (spec = vt_chosen_nth(v->choices, "profile", i)); i++) {
        const vt_attack_def *def = vt_attack_find(spec);
        if (!def || !def->profile)
            return vt_fail_unknown("profile", spec, profiles, sizeof profiles / sizeof *profiles, NULL, e);
        VT_TRY(add_attack(v, spec, e));
    }
    for (int i = 0; (spec = vt_chosen_nth(v->choices, "attack", i)); i++) VT_TRY(add_attack(v, spec, e));
    for (int i = 0; i < v->n_attacks; i++) used = used || v->attacks[i].needs_surrogate;
    if (!used) VT_TRY(add_attack(v, "transfer", e));
    for (int i = 0, first = v->n_attacks; i < v->n_named; i++) VT_TRY(add_named_attack(v, &v->named[i], first, e));
    return VT_OK;
}

/* ---- what is asked of them ---- */

/* Reads certify and certify-first, after the threat. */
static vt_status read_certify(vt_eval_options *v, vt_err *e) {
    const char *spec = vt_chosen(v->choices, "certify");
    v->certify_first = vt_is_chosen(v->choices, "certify-first");
    if (!spec && v->certify_first) return vt_fail(e, VT_E_USAGE, "@certify-first needs @certify METHOD");
    if (!spec) return VT_OK;
    if (v->certify_first && !v->n_attacks)
        return vt_fail(e, VT_E_USAGE, "@certify-first needs at least one @attack, of which it saves some");
    if (v->eps == 0) return vt_fail(e, VT_E_USAGE, "@certify needs @eps or @threat");
    return vt_certifier_parse(&v->certify, spec, e);
}

/* Opens the targets, if there are any. */
static vt_status read_targets(vt_eval_options *v, vt_err *e) {
    const char *text = vt_chosen(v->choices, "targets");
    if (!text) return VT_OK;
    if (!v->n_attacks) return vt_fail(e, VT_E_USAGE, "@targets needs at least one @attack");
    VT_TRY(vt_targets_open(&v->own.targets, text, e));
    v->targets = &v->own.targets;
    return VT_OK;
}

vt_status vt_eval_options_read(vt_eval_options *v, vt_err *e) {
    static const char *const needs_out[] = {"save-adv", "save-npz", "resume"};
    const vt_choices *c = v->choices;
    long long seed;
    VT_TRY(read_threat(v, e));
    VT_TRY(read_attacks(v, e));
    VT_TRY(read_targets(v, e));
    v->eps_text = vt_eval_norm(v) != v->norm ? "1" : vt_chosen(c, "eps");
    if (v->n_attacks || v->eps_text) VT_TRY(vt_eps_parse(v->eps_text, v->norm, &v->eps, e));
    if (!v->eps_text) v->eps_text = "0";
    VT_TRY(read_certify(v, e));
    VT_TRY(vt_chosen_int(c, "seed", 0, INT64_MAX, 0, &seed, e));
    v->seed = (uint64_t)seed;
    v->exhaustive = vt_is_chosen(c, "exhaustive");
    v->skip_not_finite = vt_is_chosen(c, "skip-not-finite");
    if (vt_is_chosen(c, "expect-robust") && !v->n_attacks)
        return vt_fail(e, VT_E_USAGE, "@expect-robust needs at least one @attack");
    if (vt_is_chosen(c, "eight-bit") && !vt_eval_eight_bit(v))
        return vt_fail(e, VT_E_USAGE, "@eight-bit needs at least one @attack");
    for (int i = 0; !vt_is_chosen(c, "out") && i < 3; i++)
        if (vt_is_chosen(c, needs_out[i])) return vt_fail(e, VT_E_USAGE, "@%s needs @out FOLDER", needs_out[i]);
    return VT_OK;
}

/* ---- model, data, pace ---- */

vt_status vt_eval_options_subject(const vt_eval_options *v, vt_subject *s, const char *weights, int32_t first,
                                  vt_err *e) {
    VT_TRY(vt_subject_open(s, v->choices, weights, first, e));
    if (s->remote) vt_remote_interruptible(s->remote, v->interrupt);
    if (!s->remote) VT_TRY(v->known(v->known_ctx, s->model, false, e));
    return vt_subject_fit(s, v->choices, first, e);
}

/* Reads a precision or "auto" (bfloat16 if the processor has it); false: unknown text. */
static bool parse_precision(const char *text, vt_precision *out) {
    for (vt_precision p = VT_PRODUCTS_FLOAT32; p <= VT_PRODUCTS_BF16_EMULATED; p++)
        if (!strcmp(text, vt_precision_name(p))) {
            *out = p;
            return true;
        }
    *out = vt_bf16_hardware() ? VT_PRODUCTS_BF16 : VT_PRODUCTS_FLOAT32;
    return !strcmp(text, "auto");
}

vt_status vt_search_parse(const vt_choices *c, vt_subject *s, vt_err *e) {
    const char *text = vt_chosen(c, "search");
    vt_precision p = VT_PRODUCTS_FLOAT32;
    if (text && !parse_precision(text, &p))
        return vt_fail(e, VT_E_USAGE, "@search is '%.60s', must be float32, auto, bf16 or bf16-emulated", text);
    const bool onnx = s->model && s->model->config.network;
    bool elsewhere = s->own || onnx || vt_subject_is_remote(s), automatic = text && !strcmp(text, "auto");
    if (p && elsewhere && !automatic)
        return vt_fail(e, VT_E_USAGE, "@search %s chooses how products of a checkpoint are formed: %s forms its own",
                       text, onnx ? "an ONNX file's graph" : "a model in another process");
    if (p == VT_PRODUCTS_BF16 && !vt_bf16_hardware())
        return vt_fail(e, VT_E_USAGE,
                       "@search bf16: this processor does not multiply bfloat16 (it has neither AVX512-BF16 nor AMX); "
                       "@search auto would take float32 here, and @search bf16-emulated forms the same products "
                       "slowly");
    s->search = elsewhere ? VT_PRODUCTS_FLOAT32 : p;
    return VT_OK;
}

vt_status vt_threads_parse(const vt_choices *c, const vt_subject *s, int *threads, vt_err *e) {
    long long n = 1;
    int usual = 1;
    if (!s->remote && !vt_is_chosen(c, "threads")) VT_TRY(vt_thread_count(&usual, e));
    VT_TRY(vt_chosen_int(c, "threads", 1, VT_THREADS_MOST, usual, &n, e));
    *threads = (int)n;
    return VT_OK;
}

/* Returns the batch of the run to be continued, which was measured then; 0: there is none. */
static int recorded_batch(const vt_choices *c) {
    const char *out = vt_chosen(c, "out");
    vt_ledger *l;
    if (!vt_is_chosen(c, "resume") || !out || !vt_ledger_exists(out)) return 0;
    if (vt_ledger_open(&l, out, NULL) != VT_OK) return 0; /* it will be said when the run is opened */
    int batch = l->header->batch ? l->header->batch : 1;
    vt_ledger_close(l);
    return batch;
}

/* Sets the default batch of an external model: recorded, else measured; halved for few images, so that none stays half
 * empty. */
static vt_status usual_batch(const vt_eval_options *v, const vt_subject *s, int *batch, vt_err *e) {
    enum { LEAST = 8 };
    *batch = s->remote ? recorded_batch(v->choices) : 1;
    if (*batch) return VT_OK;
    *batch = vt_remote_usual(s->remote);
    if (!v->shared) VT_TRY(vt_remote_measure(s->remote, batch, e));
    while (vt_remote_handshake(s->remote)->usual && *batch > LEAST && (size_t)*batch / 2 >= v->n_images) *batch /= 2;
    return VT_OK;
}

/* Reads threads and batch. Defaults for an external model: the batch of the ledger to be resumed, else what the model
 * measures to be best, else as many as it takes, at most 64. */
static vt_status read_pace(vt_eval_options *v, const vt_subject *s, vt_err *e) {
    long long batch;
    VT_TRY(vt_threads_parse(v->choices, s, &v->threads, e));
    if (!vt_is_chosen(v->choices, "batch")) return usual_batch(v, s, &v->batch, e);
    VT_TRY(vt_chosen_int(v->choices, "batch", 1, VT_FIBER_MOST, 1, &batch, e));
    v->batch = (int)batch;
    return VT_OK;
}

/* Opens the second checkpoint by its own metadata alone, as the choices describe the main one, whose side counts if the
 * file leaves its own open. */
static vt_status open_surrogate(vt_eval_options *v, vt_err *e) {
    vt_subject *s = &v->own.subject;
    const char *path = vt_chosen(v->choices, "surrogate"), *where = vt_chosen(v->choices, "surrogate-oracle");
    vt_overrides o = {.shown = vt_shape_side(vt_subject_shape(s))};
    vt_err why = {0};
    if (path && where) return vt_fail(e, VT_E_USAGE, "give @surrogate or @surrogate-oracle, not both");
    if (where) {
        VT_TRY(vt_subject_remote(&s->surrogate_remote, &s->surrogate, v->choices, where, e));
        vt_remote_interruptible(s->surrogate_remote, v->interrupt);
        snprintf(s->surrogate_name, sizeof s->surrogate_name, "%s", vt_remote_handshake(s->surrogate_remote)->name);
        if (vt_remote_handshake(s->surrogate_remote)->vjp) return VT_OK;
        return vt_fail(e, VT_E_USAGE, "@surrogate-oracle %.200s gives no gradients (vjp is false)", where);
    }
    if (!path) return VT_OK;
    if (vt_prepare_open(&s->surrogate, path, &o, &why) != VT_OK ||
        v->known(v->known_ctx, s->surrogate, true, &why) != VT_OK)
        return vt_fail(e, why.code, "@surrogate: %s", why.text);
    vt_weights_name(s->surrogate_name, sizeof s->surrogate_name, s->surrogate->path);
    return VT_OK;
}

/* Reads the picture of a universal patch; refuses one without that attack. */
static vt_status open_picture(vt_eval_options *v, vt_err *e) {
    const char *path = vt_chosen(v->choices, "patch");
    bool pastes = false;
    for (int i = 0; i < v->n_attacks; i++)
        for (int k = 0; k < v->attacks[i].n_stages; k++) pastes = pastes || v->attacks[i].stages[k].def->pastes;
    if (!path) return VT_OK;
    if (!pastes) return vt_fail(e, VT_E_USAGE, "@patch %.200s is for @attack universal: give both", path);
    VT_TRY(vt_picture_read(&v->own.picture, path, v->patch.size, vt_subject_shape(v->subject).channels, e));
    VT_TRY(vt_sha_file(path, v->own.picture_sha256, e));
    v->picture = v->own.picture, v->picture_sha256 = v->own.picture_sha256;
    return VT_OK;
}

/* Sets a curve's eps to the diameter of the box [0,1]^n in its norm. */
static void whole_box(vt_eval_options *v) {
    double pixels = (double)vt_subject_pixels(v->subject);
    v->eps = v->norm == VT_LINF ? 1 : v->norm == VT_L2 ? sqrt(pixels) : pixels;
    snprintf(v->own.eps_text, sizeof v->own.eps_text, "%.17g", v->eps);
    v->eps_text = v->own.eps_text;
}

vt_status vt_eval_options_open(vt_eval_options *v, const char *weights, vt_err *e) {
    vt_subject *s = &v->own.subject;
    VT_TRY(vt_prepare_data(v->choices, &s->data, e));
    VT_TRY(vt_image_list(&v->own.images, &v->n_images, vt_chosen(v->choices, "images"), s->data, e));
    v->subject = s, v->images = v->own.images;
    VT_TRY(vt_eval_options_subject(v, s, weights, v->images[0], e));
    VT_TRY(vt_search_parse(v->choices, s, e));
    VT_TRY(read_pace(v, s, e));
    VT_TRY(open_surrogate(v, e));
    if (v->patch.size) VT_TRY(vt_patch_fit(&v->patch, &s->model->config, s->model->path, e));
    if (v->box) VT_TRY(vt_box_fit(v->box, vt_subject_shape(s), s->model->config.mean, s->model->config.std, e));
    VT_TRY(open_picture(v, e));
    if (v->radii) whole_box(v);
    return vt_eval_check(v, e);
}

void vt_eval_options_close(vt_eval_options *v) {
    for (int i = 0; v->own.attacks && i < v->n_attacks; i++) vt_attack_free(&v->own.attacks[i]);
    free(v->own.attacks), free(v->own.images), free(v->own.picture);
    vt_certifier_free(&v->certify);
    vt_targets_close(&v->own.targets), vt_box_close(&v->own.box);
    vt_subject_close(&v->own.subject);
    *v = (vt_eval_options){0};
}
