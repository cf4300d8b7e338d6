/* SPDX-License-Identifier: MIT */
#include "attacks/attack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/mem.h"

#define VT_KIND vt_attack_def
#define VT_KIND_NAME(x) vt_attack_def_##x
#define VT_KIND_LIST "attacks.inc"
#define VT_KIND_SAME strcasecmp
#define VT_KIND_DEFS vt_attack_defs
#define VT_KIND_FIND vt_attack_find
#include "base/registry.inc"

static const char *const scorings[] = {
#define VT_SCORING_TEXT(id, text) text,
    VT_SCORING_LIST(VT_SCORING_TEXT)
#undef VT_SCORING_TEXT
};

const char *vt_scoring_name(vt_scoring s) { return s < VT_SCORING_COUNT ? scorings[s] : "?"; }

vt_scoring vt_scoring_find(const char *name) {
    for (int s = 0; s < VT_SCORING_COUNT; s++)
        if (!strcmp(name, scorings[s])) return (vt_scoring)s;
    return VT_SCORE_BALL;
}

void vt_attack_free(vt_attack *a) {
    for (int i = 0; i < a->n_stages; i++) free(a->stages[i].params);
    free(a->stages);
    memset(a, 0, sizeof *a);
}

/* Names that other tools give to attacks of this list, or that have several meanings. */
static const struct {
    const char *words, *answer;
} elsewhere[] = {
    {"|aa|auto|", "AutoAttack is autoattack, for less with a bound " VT_OPTION "profile quick"},
    {"|bim|ifgsm|i-fgsm|", "the basic iterative method is pgd:random_start=0"},
    {"|rfgsm|r-fgsm|ffgsm|", "FGSM from a random start is pgd:steps=1"},
    {"|mim|mifgsm|mi-fgsm|", "apgd-ce has momentum, and transfer is momentum ascent on a surrogate"},
    {"|fgm|", "fgsm is it in every norm"},
    {"|cw|c&w|carlini|carlini-wagner|", "cw20 is PGD on their margin loss (20 steps), cw-l2 their minimum-norm attack"},
    {"|cwinf|cw-linf|cw-inf|", "cw20 is PGD on their margin loss (20 steps)"},
    {"|cwl2|", "it is cw-l2"},
    {"|apgd|auto-pgd|autopgd|",
     "apgd-ce, apgd-dlr and apgd-t are Auto-PGD on three losses, autoattack holds the first and the last"},
    {"|square-attack|squareattack|", "it is square"},
    {"|spsa|", "nes estimates gradients from logits alone"},
    {"|rays|boundary|hsja|", "the attack on decisions alone is hopskipjump; square and nes need logits alone"},
    {"|tpgd|trades|", "pgd-trades is TRADES' released evaluator"},
    {"|multi-targeted|mt|mtpgd|", "it is mt-pgd"},
};

/* Returns what to use for the name that another tool gives an attack, perhaps in buf; NULL: no such name is known. */
static const char *known_elsewhere(const char *name, char *buf, size_t size) {
    char word[40];
    const char *digits = name + (strncasecmp(name, "pgd", 3) ? 0 : name[3] == '-' ? 4 : 3);
    snprintf(word, sizeof word, "|%.37s|", name);
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere && *name; i++)
        if (strcasestr(elsewhere[i].words, word)) return elsewhere[i].answer;
    if (digits == name || !*digits || strspn(digits, "0123456789") != strlen(digits)) return NULL;
    snprintf(buf, size, "it is pgd:steps=%.9s", digits);
    return buf;
}

/* Fails: an unknown attack, with its name here, if another tool calls one so, or the nearest name. */
static vt_status fail_unknown_attack(const char *name, vt_err *e) {
    const char *names[64];
    char buf[60];
    size_t n = 0;
    const char *answer = known_elsewhere(name, buf, sizeof buf);
    if (answer) return vt_fail(e, VT_E_UNKNOWN, "unknown attack '%s': %s", name, answer);
    for (size_t i = 0; i < COUNT && n < 64; i++) names[n++] = defs[i]->name;
    return vt_fail_unknown("attack", name, names, n, "vitrine list attacks", e);
}

/* Splits "name:options" into *def and *options ("" when there are none). */
static vt_status split_spec(const char *spec, char name[32], const vt_attack_def **def, const char **options,
                            vt_err *e) {
    size_t n = strcspn(spec, ":");
    if (n >= 32) return vt_fail(e, VT_E_UNKNOWN, "unknown attack '%.40s...'", spec);
    snprintf(name, 32, "%.*s", (int)n, spec);
    *def = vt_attack_find(name);
    if (!*def) return fail_unknown_attack(name, e);
    snprintf(name, 32, "%s", (*def)->name); /* as it is written here, however it was typed */
    *options = spec[n] ? spec + n + 1 : "";
    if (spec[n] && !**options) return vt_fail(e, VT_E_USAGE, "attack '%s' ends in a colon", spec);
    return VT_OK;
}

/* Refuses an attack that does not support the norm or the threat in its place. */
static vt_status check_threat_support(const vt_attack_def *d, vt_norm norm, vt_err *e) {
    const bool box = norm == VT_NORM_BOX, squares = d->norms == VT_CAN_PATCH;
    if (box ? d->norms & VT_CAN_PATCH && !squares : d->norms & 1u << norm) return VT_OK;
    if (norm >= VT_NORM_COUNT)
        return vt_fail(e, VT_E_USAGE, "attack %s does not support @threat %s", d->name,
                       box                     ? "box"
                       : norm == VT_NORM_PATCH ? "patch"
                                               : "rotation, which is for attack grid");
    const char *of = squares ? " patch:size=N)" : d->norms == VT_CAN_ROTATION ? " rotation)" : "";
    return vt_fail(e, VT_E_USAGE, "attack %s does not support @norm %s%s%s%s", d->name, vt_norm_name(norm),
                   *of ? " (it is for " : "", *of ? vt_argument("threat") : "", of);
}

/* The options that every stage has besides its own; they follow these in the same memory. */
typedef struct common {
    double floor, share;
    vt_place place; /* under the patch threat */
} common;

/* For comparison: on confident networks this shortens steps, down to nothing. */
static const vt_opt floor_opt =
    VT_OPT_R("floor", common, floor,
             "l2: added to the gradient's length that a step divides by (most authors' code: 1e-12)", 0, 0, 1);

static const vt_opt share_opt =
    VT_OPT_R("share", common, share, "run on this random share of the survivors; the report bounds what it leaves open",
             1, 1e-6, 1);

/* Does the attack take steps along a gradient by vt_ball_step? */
static bool has_floor(const vt_attack_def *d, vt_norm norm) {
    return norm == VT_L2 && (d->white_box || d->surrogate || d->inside) && !d->minimum_norm;
}

/* Lists the definition's options, under the patch threat those of the location; then, unless `given` are given and they
 * are at their defaults (not worth a word in every report), the floor and last the share. Offsets into memory where the
 * common part stands at `at`. */
enum { MOST_OPTS = 40 };
/* Sets out to the options of an attack under this norm: its own, a patch's place, and the common ones. */
static void all_options(vt_opt out[MOST_OPTS], const vt_attack_def *d, vt_norm norm, size_t at, vt_where where,
                        const common *given) {
    int n = 0;
    for (const vt_opt *o = d->opts; o && o->key && n < MOST_OPTS - 5; o++) out[n++] = *o;
    for (const vt_opt *o = vt_place_opts; norm == VT_NORM_PATCH && o->key; o++) {
        out[n] = *o;
        out[n].offset += at + offsetof(common, place);
        if (!strcmp(o->key, "where")) out[n].preset = where;
        n++;
    }
    if (given ? given->floor > 0 : has_floor(d, norm)) out[n] = floor_opt, out[n++].offset += at;
    if (given ? given->share < 1 : true) out[n] = share_opt, out[n++].offset += at;
    out[n] = (vt_opt){0};
}

/* Refuses a rule that needs gradients or attention in a black-box attack (one with a surrogate may use its saliency),
 * and numbers of locations that only random ones have. */
static vt_status place_fits(const vt_attack_stage *s, vt_err *e) {
    bool saliency = s->place->where == VT_WHERE_SALIENCY, looks = saliency || s->place->where == VT_WHERE_ATTENTION;
    if (s->place->where != VT_WHERE_ANY && (s->place->places < 1 || s->place->places > VT_LOCATIONS_MOST))
        return vt_fail(e, VT_E_USAGE, "attack %s: places is %d, must be between 1 and %d (unless where=any)",
                       s->def->name, s->place->places, VT_LOCATIONS_MOST);
    if (!looks || s->def->white_box || (saliency && s->def->surrogate)) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "attack %s is black-box: where must be %srandom, centre, corner or any", s->def->name,
                   s->def->surrogate ? "saliency (the surrogate's), " : "");
}

/* Fills stage s from "name:key=value,..." and the options `extra` after them; `whole`: the stage's attack. */
static vt_status make_stage(vt_attack_stage *s, const char *spec, const char *extra, const vt_attack_def *whole,
                            vt_norm norm, vt_err *e) {
    char name[32], who[48], options[360];
    const char *given;
    vt_opt opts[MOST_OPTS];
    VT_TRY(split_spec(spec, name, &s->def, &given, e));
    VT_TRY(check_threat_support(s->def, norm, e));
    size_t at = (s->def->params_size + 15) / 16 * 16;
    s->params = calloc(1, at + sizeof(common));
    if (!s->params) return vt_fail(e, VT_E_MEMORY, "no memory for attack %s", name);
    const common *shared = (const common *)(const void *)((char *)s->params + at);
    if (norm == VT_NORM_PATCH) s->place = &shared->place;
    all_options(opts, s->def, norm, at, whole->where, NULL);
    vt_opt_defaults(opts, s->params);
    snprintf(who, sizeof who, "attack %s", name);
    VT_TRY(vt_opt_parse(opts, s->params, given, who, e));
    VT_TRY(vt_opt_parse(opts, s->params, extra, who, e));
    if (norm == VT_NORM_PATCH) VT_TRY(place_fits(s, e));
    s->share = shared->share, s->floor = shared->floor;
    all_options(opts, s->def, norm, at, whole->where, shared);
    vt_opt_text(opts, s->params, options, sizeof options);
    snprintf(s->id, sizeof s->id, "%s%s%s", name, *options ? ":" : "", options);
    return VT_OK;
}

/* Replaces *def and name by "ensemble-V" where the options begin with "version=V"; refuses an unknown V. */
static vt_status version_of(char name[32], const vt_attack_def **def, const char **options, vt_err *e) {
    static const char key[] = "version=";
    if (!(*def)->stages || !(*def)->stages[1] || strncasecmp(*options, key, sizeof key - 1) != 0) return VT_OK;
    const char *version = *options + sizeof key - 1;
    char whole[80];
    bool plain = !strcasecmp(version, "standard");
    snprintf(whole, sizeof whole, "%s%s%.40s", name, plain ? "" : "-", plain ? "" : version);
    const vt_attack_def *other = vt_attack_find(whole);
    if (!other) return fail_unknown_attack(whole, e);
    *def = other, *options = "";
    snprintf(name, 32, "%s", other->name);
    return VT_OK;
}

static const vt_attack_def list_def = {.name = "list",
                                       .summary = "each attack on the survivors of the one before",
                                       .reference = "a list of one's own",
                                       .norms = VT_CAN_ALL,
                                       .white_box = true};

/* Writes the name of a list: "a+b+c", or "a+b+..." where the rest does not fit. */
static void add_name(vt_attack *a, const char *name) {
    static const char more[] = "+...";
    size_t at = strlen(a->name), room = sizeof a->name - at;
    if (at >= sizeof more && !strcmp(a->name + at - (sizeof more - 1), more)) return;
    bool fits = !at || strlen(name) + 1 + sizeof more <= room;
    snprintf(a->name + at, room, "%s%s", !at ? "" : fits ? "+" : more, fits ? name : "");
}

/* Appends the stages of one part of a list. */
static vt_status append_stages(vt_attack *out, const char *part, vt_norm norm, vt_err *e) {
    char name[32];
    const vt_attack_def *def;
    const char *options;
    VT_TRY(split_spec(part, name, &def, &options, e));
    VT_TRY(version_of(name, &def, &options, e));
    const vt_attack_def *named = def, *whole;
    while (def->stages && !def->stages[1] && (whole = vt_attack_find(def->stages[0])) && whole->stages)
        def = whole; /* a second name of an ensemble */
    const char *self[] = {def->name, NULL};
    const char *const *list = def->stages ? def->stages : self;
    if (norm == VT_L1 && def->stages_l1) list = def->stages_l1;
    VT_TRY(check_threat_support(named, norm, e));
    /* an alias (one stage) hands its options on; an ensemble is a fixed thing and takes none */
    if (list[1] && *options)
        return vt_fail(e, VT_E_USAGE, "attack %s takes no options (it is defined as a whole); got '%s'", name, options);
    add_name(out, name);
    out->def = out->def ? &list_def : named;
    for (int k = 0; list[k]; k++) {
        if (out->n_stages == VT_ATTACK_STAGES)
            return vt_fail(e, VT_E_USAGE, "a list of attacks has at most %d stages", VT_ATTACK_STAGES);
        vt_attack_stage *s = &out->stages[out->n_stages++];
        VT_TRY(make_stage(s, list[k], options, named, norm, e));
        out->climbs |= s->def->inside, out->needs_surrogate |= s->def->surrogate;
    }
    return VT_OK;
}

/* Refuses shares that differ: what a sample leaves open can be bounded only if all later stages run on that sample. */
static vt_status shares_fit(const vt_attack *a, vt_err *e) {
    for (int k = 1; k < a->n_stages; k++) {
        const vt_attack_stage *before = &a->stages[k - 1], *s = &a->stages[k];
        if (before->share < 1 && s->share != before->share)
            return vt_fail(e, VT_E_USAGE,
                           "attack %s runs on a share %g of the survivors, %s after it on %g: give it the same",
                           before->def->name, before->share, s->def->name, s->share);
    }
    return VT_OK;
}

/* Returns the length of the part at spec, up to a "+" before a name (1e+5 is a number). */
static size_t part_length(const char *spec) {
    size_t n = strcspn(spec, "+");
    while (spec[n] && (spec[n + 1] == '.' || (spec[n + 1] >= '0' && spec[n + 1] <= '9')))
        n += 1 + strcspn(spec + n + 1, "+");
    return n;
}

/* A published evaluator is a whole evaluation: it has no survivors to leave to others, and takes no others'. */
static vt_status set_scoring(vt_attack *a, vt_err *e) {
    const vt_attack_stage *s = a->stages;
    while (s < a->stages + a->n_stages && !s->def->published) s++;
    if (s == a->stages + a->n_stages) return VT_OK;
    if (a->n_stages > 1 || s->share < 1)
        return vt_fail(e, VT_E_USAGE, "attack %s is scored as published, on all images: it stands in no list%s",
                       s->def->name, s->share < 1 ? " and takes no share" : "");
    a->scoring = VT_SCORE_PUBLISHED;
    return VT_OK;
}

vt_status vt_attack_parse(vt_attack *out, const char *spec, vt_norm norm, vt_err *e) {
    memset(out, 0, sizeof *out);
    out->stages = calloc(VT_ATTACK_STAGES, sizeof *out->stages);
    vt_status st = out->stages ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for attack %.40s", spec);
    for (bool more = true; more && st == VT_OK;) {
        size_t n = part_length(spec);
        char *part = strndup(spec, n);
        st = part ? append_stages(out, part, norm, e) : vt_fail(e, VT_E_MEMORY, "no memory for attack %.40s", spec);
        free(part);
        more = spec[n] == '+';
        spec += n + more;
    }
    if (st == VT_OK) st = shares_fit(out, e);
    if (st == VT_OK) st = set_scoring(out, e);
    for (int i = 0; i < out->n_stages && st == VT_OK; i++)
        snprintf(out->id + strlen(out->id), sizeof out->id - strlen(out->id), "%s%s", i ? "+" : "", out->stages[i].id);
    if (st != VT_OK) vt_attack_free(out);
    return st;
}

vt_status vt_attack_single(vt_attack *out, vt_attack *a, int k, vt_err *e) {
    const vt_attack_def *d = a->stages[k].def;
    *out = (vt_attack){.def = d, .n_stages = 1, .climbs = d->inside, .needs_surrogate = d->surrogate};
    out->scoring = a->scoring, out->stages = calloc(1, sizeof *out->stages);
    if (!out->stages) return vt_fail(e, VT_E_MEMORY, "no memory for attack %s", out->def->name);
    out->stages[0] = a->stages[k];
    a->stages[k].params = NULL;
    char *share = strstr(out->stages[0].id, "share="); /* the last of the options */
    if (out->stages[0].share < 1 && share) share[-1] = 0;
    out->stages[0].share = 1;
    snprintf(out->name, sizeof out->name, "%s", out->def->name);
    snprintf(out->id, sizeof out->id, "%s", out->stages[0].id);
    return VT_OK;
}

bool vt_attack_few_classes(const vt_attack_stage *s, int classes, char *text, size_t size) {
    if (classes < s->def->dlr_classes) {
        snprintf(text, size,
                 "%s: with %d classes there is no such difference-of-logits ratio; the plain difference is used",
                 s->def->name, classes);
        return true;
    }
    int targets;
    if (!vt_opt_int(s->def->opts, s->params, "targets", &targets) || targets < classes) return false;
    snprintf(text, size, "%s: with %d classes there are %d targets, not %d", s->def->name, classes, classes - 1,
             targets);
    return true;
}

vt_status vt_attack_fits(const vt_attack_stage *s, const vt_task *dims, vt_err *e) {
    int target = -1;
    if (s->def->pastes && !dims->picture)
        return vt_fail(e, VT_E_USAGE, "needs @patch FILE, the picture that it pastes (vitrine patch makes one)");
    if (!vt_opt_int(s->def->opts, s->params, "target", &target) || target < dims->classes) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "target=%d, but the model has the classes 0 to %d", target, dims->classes - 1);
}

/* ---- what it costs ---- */

/* Under the patch threat: at every location, and once to choose the locations. */
vt_passes vt_attack_stage_cost(const vt_attack_stage *s, vt_cost_dims d) {
    d.patch = s->place != NULL;
    vt_passes c = s->def->cost(s->params, &d);
    if (!s->place) return c;
    double locations = vt_patch_locations(s->place, d.points, d.count ? d.count : 1);
    return (vt_passes){.forwards = locations * c.forwards + (s->place->where == VT_WHERE_ATTENTION),
                       .gradients = locations * c.gradients + (s->place->where == VT_WHERE_SALIENCY),
                       .unread = locations * c.unread};
}

vt_passes vt_attack_cost(const vt_attack *a, const vt_cost_dims *d) {
    vt_passes sum = {0};
    for (int k = 0; k < a->n_stages; k++) {
        vt_passes c = vt_attack_stage_cost(&a->stages[k], *d);
        sum.forwards += a->stages[k].share * c.forwards;
        sum.gradients += a->stages[k].share * c.gradients;
        sum.unread += a->stages[k].share * c.unread;
    }
    return sum;
}

/* ---- running ---- */

size_t vt_attack_work_len(const vt_attack_stage *s, const vt_task *dims) {
    size_t own = (size_t)s->def->work.images * dims->n + (size_t)s->def->work.logits * (size_t)dims->classes;
    if (s->def->work_len) own += s->def->work_len(s->params, dims);
    if (!s->place) return own;
    return own + 2 * dims->n + vt_patch_work_len(dims->shape) +
           sizeof(vt_square) / sizeof(float) * (size_t)vt_patch_room(dims->patch, s->place, dims->shape);
}

/* Runs a stage in t->ball, whose squares are chosen already. With o->eight_bit it ends in vt_search_rounding, so that
 * no attack needs to know of 8 bits. */
static vt_status run_in_ball(vt_oracle *o, const vt_attack_stage *s, const vt_task *t) {
    if (!o->eight_bit) return s->def->run(o, s->params, t);
    VT_TRY(vt_grid8_aim(o->eight_bit, t->ball));
    VT_TRY(s->def->run(o, s->params, t));
    return vt_search_rounding(o, &t->rng, t->x_adv);
}

/* Chooses squares on t->x and runs the stage at each location until one breaks the image. */
static vt_status run_at_locations(vt_oracle *o, const vt_attack_stage *s, const vt_task *t) {
    float *lo = t->work, *hi = lo + t->n, *rest = hi + t->n;
    vt_square *all = (vt_square *)(void *)rest;
    int n, count = t->patch->count;
    rest += sizeof *all / sizeof *rest * (size_t)vt_patch_room(t->patch, s->place, t->shape);
    const vt_patch_task choice = {t->x, t->shape, t->patch, s->place, t->rng, s->def->surrogate};
    VT_TRY(vt_patch_choose(o, &choice, all, &n, rest));
    const vt_ball *whole = o->ball;
    vt_squares here = {.size = t->patch->size};
    vt_ball ball;
    vt_task in = *t;
    in.work = rest, in.ball = &ball, o->ball = &ball;
    vt_status st = VT_OK;
    for (int at = 0; at < n && st == VT_OK; at += count) {
        here.n = n - at < count ? n - at : count;
        memcpy(here.at, all + at, (size_t)here.n * sizeof *all);
        vt_ball_squares(&ball, &here, t->shape, t->x, lo, hi);
        in.rng.purpose = t->rng.purpose + (uint32_t)(at / count) * 0x9E3779B9u; /* draws of its own at every location */
        st = run_in_ball(o, s, &in);
        if (st == VT_OK && vt_oracle_may_end(o, false)) break;
    }
    o->ball = whole;
    return st;
}

vt_status vt_attack_stage_run(vt_oracle *o, const vt_attack_stage *s, const vt_task *t) {
    if (s->floor > 0) { /* in l2 alone: no patches */
        vt_ball ball = *t->ball;
        vt_task in = *t;
        ball.floor = s->floor, in.ball = &ball;
        return run_in_ball(o, s, &in);
    }
    return s->place ? run_at_locations(o, s, t) : run_in_ball(o, s, t);
}
