/* SPDX-License-Identifier: MIT */
/* A recipe from its birth to the point where training can rely on it. */
#include "train/recipe.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "attacks/attack.h"
#include "models/forms.h"
#include "models/model.h"
#include "models/net/session.h"
#include "train/objective.h"

/* ---- values that training reads ---- */

double vt_recipe_weight_decay(const vt_recipe *r, const char *tensor) {
    for (int i = 0; i < r->n_groups; i++)
        if (!fnmatch(r->groups[i].pattern, tensor, 0)) return r->groups[i].weight_decay;
    return r->top.weight_decay;
}

enum { CONSTANT, STEP, COSINE, ONECYCLE }; /* schedule.kind */

/* Returns half a cosine from a at t = 0 to b at t = 1. */
static double half_cosine(double a, double b, double t) { return b + (a - b) * (1 + cos(M_PI * t)) / 2; }

double vt_recipe_lr(const vt_recipe *r, double t) {
    static const double first = 1e-3, one_cycle_first = 1.0 / 25;
    const vt_recipe_schedule *s = &r->schedule;
    double lr = r->top.lr, w = s->warmup;
    if (s->kind == ONECYCLE)
        return t < w ? half_cosine(lr * one_cycle_first, lr, t / w) : half_cosine(lr, s->min_lr, (t - w) / (1 - w));
    if (s->kind == STEP)
        for (int i = 0; i < r->n_drops && r->drops[i] <= t; i++) lr *= s->factor;
    if (s->kind == COSINE) lr = half_cosine(lr, s->min_lr, t);
    return t < w ? lr * (first + (1 - first) * t / w) : lr;
}

/* ---- resolve: each check fills in or refuses ---- */

/* Fails with VT_E_UNKNOWN for a value of `key` that is neither `also` (NULL: none) nor a plug-in of the family. */
static vt_status check_plugin_name(const char *key, const char *name, vt_recipe_family family, const char *also,
                                   vt_err *e) {
    const char *names[64];
    size_t n = 0;
    vt_recipe_section s;
    if (also) names[n++] = also;
    for (int i = 0; n < 64 && vt_recipe_section_at(NULL, i, &s); i++)
        if (s.family == family) names[n++] = s.name;
    for (size_t i = 0; i < n; i++)
        if (!strcmp(names[i], name)) return VT_OK;
    return vt_fail_unknown(key, name, names, n, NULL, e);
}

/* Fails with VT_E_UNKNOWN for objectives and optimisers that there are not. */
static vt_status check_names(vt_recipe *r, vt_err *e) {
    const vt_recipe_top *t = &r->top;
    VT_TRY(check_plugin_name("objective", t->objective, VT_RECIPE_OBJECTIVE, NULL, e));
    VT_TRY(check_plugin_name("optimiser", t->optimiser, VT_RECIPE_OPTIM, NULL, e));
    return check_plugin_name("attention_optimiser", t->attention_optimiser, VT_RECIPE_OPTIM, "same", e);
}

/* Returns how often a key occurs in "key=value key=value". */
static int times_given(const char *text, const char *key) {
    int times = 0;
    for (const char *p = text + strspn(text, " "); *p; p += strcspn(p, " "), p += strspn(p, " "))
        times += strcspn(p, "= ") == strlen(key) && !strncmp(p, key, strlen(key));
    return times;
}

/* Rewrites model.forms in the order and words of the forms' table; moves what has a key of its own to that key.
 * VT_E_USAGE: a form twice, or a key that says otherwise. */
static vt_status check_forms(vt_recipe_model *m, vt_err *e) {
    vt_config c = {.pool = VT_POOL_TOKEN};
    char given[sizeof m->forms], value[64];
    size_t used = 0;
    int n;
    const vt_form *forms = vt_forms(&n);
    snprintf(given, sizeof given, "%s", m->forms);
    VT_TRY(vt_form_parse(&c, given, "model.forms", e));
    for (int i = 0; i < n; i++) {
        const vt_form *f = &forms[i];
        int times = times_given(given, f->opt.key), number;
        if (!times) continue;
        if (times > 1) return vt_fail(e, VT_E_USAGE, "model.forms: %s is given twice", f->opt.key);
        int *own = f->field == VT_FIELD_POOL            ? &m->pool
                   : f->field == VT_FIELD_NATIVE        ? &m->native
                   : f->field == VT_FIELD_NATIVE_FILTER ? &m->native_filter
                                                        : NULL;
        vt_form_text(&c, f, value, sizeof value);
        if (own) {
            memcpy(&number, (const char *)&c + f->opt.offset, sizeof number);
            if (*own >= 0 && *own != number)
                return vt_fail(e, VT_E_USAGE, "model.forms says %s=%s, but model.%s says otherwise: give one of them",
                               f->opt.key, value, f->opt.key);
            *own = number;
            continue;
        }
        used +=
            (size_t)snprintf(m->forms + used, sizeof m->forms - used, "%s%s=%s", used ? " " : "", f->opt.key, value);
        if (used >= sizeof m->forms)
            return vt_fail(e, VT_E_USAGE, "model.forms is longer than %zu bytes", sizeof m->forms - 1);
    }
    m->forms[used] = 0;
    return VT_OK;
}

/* Refuses an unknown preset, attention variant or form; writes their canonical texts, qkv_bias as 0 or 1, and has_norm.
 * VT_E_USAGE: one of mean and std alone. */
static vt_status check_model(vt_recipe *r, vt_err *e) {
    vt_recipe_model *m = &r->model;
    const vt_preset *p;
    vt_err why = {0};
    if (*m->preset && vt_preset_named(m->preset, &p, &why) != VT_OK)
        return vt_fail(e, why.code, "model.preset: %s", why.text);
    vt_attn_spec attn;
    if (*m->attn && vt_attn_parse(&attn, m->attn, &why) != VT_OK)
        return vt_fail(e, why.code, "model.attn is '%s': %s", m->attn, why.text);
    if (*m->attn) snprintf(m->attn, sizeof m->attn, "%s", attn.text);
    VT_TRY(check_forms(m, e));
    if (m->qkv_bias > 1) m->qkv_bias %= 2; /* no|yes|false|true */
    bool mean = m->mean[0] >= -1000, std = m->std[0] > 0;
    m->has_norm = mean && std;
    if (mean != std)
        return vt_fail(e, VT_E_USAGE, "model.%s is given and model.%s is not: give both or neither",
                       mean ? "mean" : "std", mean ? "std" : "mean");
    return VT_OK;
}

/* Fails with VT_E_USAGE for an init.sha256 that is no beginning of a SHA-256. */
static vt_status check_init(vt_recipe *r, vt_err *e) {
    const char *h = r->init.sha256;
    size_t n = strlen(h);
    if (!n || (n >= 8 && n <= 64 && strspn(h, "0123456789abcdef") == n)) return VT_OK;
    return vt_fail(e, VT_E_USAGE,
                   "init.sha256 is '%s', must be the first 8 to 64 hexadecimal digits in lower case, or empty", h);
}

/* Fails with VT_E_USAGE for a micro-batch above the batch, mixing of an odd batch, and soft labels for objectives of
 * hard ones. */
static vt_status check_batch(vt_recipe *r, vt_err *e) {
    const vt_recipe_top *t = &r->top;
    const vt_recipe_augment *a = &r->augment;
    if (t->micro_batch > t->batch)
        return vt_fail(e, VT_E_USAGE, "micro_batch is %d, must be at most batch (%d)", t->micro_batch, t->batch);
    if (t->batch % 2 && a->mix_prob > 0)
        return vt_fail(e, VT_E_USAGE,
                       "batch is %d, must be even when augment.mix_prob is above 0 (it is %g): images are mixed with "
                       "the reversed batch",
                       t->batch, a->mix_prob);
    if (!VT_R(vt_objective_find)(t->objective)->hard_labels || !(a->mix_prob > 0 || t->label_smoothing > 0))
        return VT_OK;
    return vt_fail(e, VT_E_USAGE,
                   "objective %s takes one label an image, so set augment.mix_prob=0 (it is %g) and label_smoothing=0 "
                   "(it is %g)",
                   t->objective, a->mix_prob, t->label_smoothing);
}

/* Fails with VT_E_USAGE for an eps above 1 in linf, and proposes eps/255, as a number of grey levels is what was
 * meant. */
static vt_status check_radius(const char *key, double eps, int norm, vt_err *e) {
    if (norm != VT_LINF || eps <= 1) return VT_OK;
    return vt_fail(e, VT_E_USAGE,
                   "%s is %.12g, must be at most 1 with attack.norm linf: pixels are in [0,1]; did you mean %.12g/255?",
                   key, eps, eps);
}

/* Fails with VT_E_USAGE for a missing radius, maskings without an inner attack, and a ramp that ends before it
 * begins. */
static vt_status check_attack(vt_recipe *r, vt_err *e) {
    vt_recipe_attack *a = &r->attack;
    const VT_R(vt_objective_def) *o = VT_R(vt_objective_find)(r->top.objective);
    bool inner = o->inner != VT_INNER_NONE, worst = VT_R(vt_reads_worst)(o);
    const char *key = a->noise > 0 ? "noise" : a->ard ? "ard" : a->prm ? "prm" : NULL;
    if (!inner && key)
        return vt_fail(e, VT_E_USAGE, "attack.%s is %g, must be 0: objective %s has no inner attack", key,
                       a->noise > 0 ? a->noise : 1, o->name);
    if (worst && r->augment.gaussian > 0)
        return vt_fail(e, VT_E_USAGE,
                       "augment.gaussian is %g, must be 0: the %s of objective %s keep%s images in [0,1]",
                       r->augment.gaussian, inner ? "inner attack" : "bounds", o->name, inner ? "s" : "");
    if (o->bounds && a->norm != VT_LINF)
        return vt_fail(e, VT_E_USAGE, "attack.norm is %s, must be linf: objective %s bounds the network over boxes",
                       vt_norm_name((vt_norm)a->norm), o->name);
    if (worst && !(a->eps > 0))
        return vt_fail(e, VT_E_USAGE,
                       "attack.eps is missing: objective %s needs a radius in pixel units, e.g. @set attack.eps=8/255",
                       o->name);
    if (a->ramp_begin > a->ramp_end)
        return vt_fail(e, VT_E_USAGE, "attack.ramp_begin is %g, must be at most attack.ramp_end (%g)", a->ramp_begin,
                       a->ramp_end);
    return check_radius("attack.eps", a->eps, a->norm, e);
}

typedef struct vt_stage_facts {
    bool follows_steps, random_start;
} vt_stage_facts;

/* Fails with VT_E_USAGE for an attack of several stages or without gradients; *facts: what else training needs to know
 * of its stage. */
static vt_status check_spec(const char *key, const char *spec, int norm, vt_stage_facts *facts, vt_err *e) {
    vt_attack a;
    vt_err why = {0};
    if (vt_attack_parse(&a, spec, (vt_norm)norm, &why) != VT_OK) return vt_fail(e, why.code, "%s: %s", key, why.text);
    const vt_attack_stage *first = &a.stages[0];
    const char *wrong = a.scoring != VT_SCORE_BALL ? "is a paper's evaluator"
                        : first->share < 1         ? "attacks a share of the images"
                        : a.n_stages > 1           ? "has several stages"
                        : !first->def->white_box   ? "uses no gradients"
                                                   : NULL;
    *facts = (vt_stage_facts){first->def->follows_steps, strstr(first->id, "random_start=1") != NULL};
    vt_attack_free(&a);
    return wrong ? vt_fail(e, VT_E_USAGE,
                           "%s is '%s', which %s, must be one attack that uses gradients on every image, such as "
                           "pgd:steps=10",
                           key, spec, wrong)
                 : VT_OK;
}

/* Fills attack.spec by the objective and probe.eps by attack.eps; fails with VT_E_USAGE for attacks that training
 * cannot run. */
static vt_status check_specs(vt_recipe *r, vt_err *e) {
    vt_recipe_attack *a = &r->attack;
    vt_recipe_probe *p = &r->probe;
    const VT_R(vt_objective_def) *o = VT_R(vt_objective_find)(r->top.objective);
    const char *preset = o->attack;
    vt_stage_facts facts = {0};
    if (!*a->spec && preset) {
        if (strlen(preset) >= sizeof a->spec)
            return vt_fail(e, VT_E_USAGE, "attack.spec of objective %s is longer than %zu bytes", r->top.objective,
                           sizeof a->spec - 1);
        snprintf(a->spec, sizeof a->spec, "%s", preset);
    }
    if (*a->spec) {
        VT_TRY(check_spec("attack.spec", a->spec, a->norm, &facts, e));
        if ((a->ard || a->prm) && !facts.follows_steps)
            return vt_fail(e, VT_E_USAGE, "attack.%s is 1, but attack.spec '%s' has no steps to mask: use pgd",
                           a->ard ? "ard" : "prm", a->spec);
        if (a->noise > 0 && facts.random_start)
            return vt_fail(e, VT_E_USAGE,
                           "attack.noise is %g, but attack.spec '%s' draws a start of its own: add random_start=0",
                           a->noise, a->spec);
        if (o->start_sigma > 0 && facts.random_start)
            return vt_fail(e, VT_E_USAGE,
                           "attack.spec is '%s', but objective %s has its own start (normal, %g): add random_start=0",
                           a->spec, o->name, o->start_sigma);
    }
    if (p->eps == 0) p->eps = a->eps;
    VT_TRY(check_radius("probe.eps", p->eps, a->norm, e));
    return check_spec("probe.attack", p->attack, a->norm, &facts, e);
}

/* Reads numbers separated by commas into out [most] and *n, each above 0 (ascending: above the one before) and below 1.
 * VT_E_USAGE: others, or more than `most`. */
static vt_status parse_numbers(double *out, int *n, int most, const char *key, const char *text, bool ascending,
                               vt_err *e) {
    const char *p = text;
    double least = 0;
    *n = 0;
    while (*text) {
        char item[96];
        size_t len = strcspn(p, ",");
        double v;
        snprintf(item, sizeof item, "%.*s", (int)len, p);
        if (!vt_parse_real(item, &v) || !(v > least && v < 1))
            return vt_fail(e, VT_E_USAGE, "%s is '%s', must be %snumbers between 0 and 1 separated by commas", key,
                           text, ascending ? "ascending " : "");
        if (*n == most) return vt_fail(e, VT_E_USAGE, "%s is '%s', must have at most %d numbers", key, text, most);
        out[(*n)++] = v, least = ascending ? v : 0;
        if (!p[len]) break;
        p += len + 1;
    }
    return VT_OK;
}

/* Parses "extra" (shares of a batch, one for each added set) into r->extra. VT_E_USAGE: shares that leave any set, the
 * recipe's own too, without an image in a batch. */
static vt_status check_extra(vt_recipe *r, vt_err *e) {
    int batch = r->top.batch, rest = batch;
    VT_TRY(parse_numbers(r->extra, &r->n_extra, VT_RECIPE_EXTRA, "extra", r->top.extra, false, e));
    for (int i = 0; i < r->n_extra; i++) {
        int take = (int)lrint(r->extra[i] * batch);
        if (!take)
            return vt_fail(e, VT_E_USAGE, "extra is '%s': %g of a batch of %d is no image", r->top.extra, r->extra[i],
                           batch);
        rest -= take;
    }
    if (rest > 0) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "extra is '%s', which leaves no image of a batch of %d to the first data set",
                   r->top.extra, batch);
}

/* Fails with VT_E_USAGE for warm-ups and final rates that do not fit the schedule; parses schedule.drops into
 * r->drops. */
static vt_status check_schedule(vt_recipe *r, vt_err *e) {
    const vt_recipe_schedule *s = &r->schedule;
    if (s->kind == ONECYCLE && !(s->warmup > 0 && s->warmup < 1))
        return vt_fail(e, VT_E_USAGE, "schedule.warmup is %g, must be above 0 and below 1 with onecycle (0.3 is usual)",
                       s->warmup);
    if ((s->kind == COSINE || s->kind == ONECYCLE) && !(s->min_lr < r->top.lr))
        return vt_fail(e, VT_E_USAGE, "schedule.min_lr is %g, must be below lr (%g)", s->min_lr, r->top.lr);
    return parse_numbers(r->drops, &r->n_drops, VT_RECIPE_DROPS, "schedule.drops", s->drops, true, e);
}

vt_status vt_recipe_resolve(vt_recipe *r, vt_err *e) {
    static vt_status (*const checks[])(vt_recipe *, vt_err *) = {check_names, check_model,   check_init,
                                                                 check_batch, check_extra,   check_attack,
                                                                 check_specs, check_schedule};
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) VT_TRY(checks[i](r, e));
    return VT_OK;
}
