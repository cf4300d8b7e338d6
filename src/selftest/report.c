/* SPDX-License-Identifier: MIT */
/* The verdict in words and as JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "graph/network.h"
#include "selftest/tools.h"

enum { SELFTEST_MOST = 1 << 22 }; /* bytes of a selftest.json */

#define PARANOID VT_OPTION "profile paranoid"
#define SEARCH VT_OPTION "attack square:queries=20000"

/* A check: what it is called, the rate and the bound of its hits (vt_check), what holds if gradients lead (the null
 * hypothesis), what the hits are, and the attack whose run would decide. */
#define CHECK(id, ...) [VT_CHECK_##id] = {__VA_ARGS__}
static const struct {
    const char *name;
    double rate, bound;
    const char *null, *hits, *settle;
} words[VT_CHECK_COUNT] = {
    CHECK(RANDOM, "random-forward", 0.01, 0,
          "two forwards of one image agree to the bit (at most 1 % of images differ)",
          "images whose logits differ between two calls", VT_OPTION "attack autoattack:version=rand"),
    CHECK(FLAT, "quantised-forward", 0.01, 0,
          "a random change of 1e-5 of every pixel changes the logits (at most 1 % of images do not)",
          "images whose logits ignore it", SEARCH),
    CHECK(ZERO, "zero-gradient", 0.01, 0,
          "the losses that the attacks follow have a gradient that is not zero (at most 1 % of images)",
          "images on which the gradient of one of them is zero in every pixel", SEARCH),
    CHECK(CONSTANT, "constant-gradient", 0.01, 0,
          "the margin's gradient changes from a point to its neighbour, or predicts the margin there (at most 1 % of "
          "images excepted)",
          "images with the same gradient at both points, which does not", SEARCH),
    CHECK(ATTENTION, "saturated-attention", 0.01, 0,
          "the median row of attention, over blocks and heads, is not one-hot to float32 (at most 1 % of images)",
          "images in which it is", SEARCH),
    CHECK(WRONG, "wrong-gradient", 0.1, 0,
          "over a step of a tenth of a grey level (or of eps) the gradient predicts the margin's change better than "
          "'no change' does (at most 10 % of images excepted)",
          "images on which it does not", SEARCH),
    CHECK(DERIVATIVE, "derivative", 0.1, 0,
          "over steps of a tenth and half a grey level the vjp that the model gives is what its logits do, within 15 % "
          "of it at one of them (at most 10 % of images excepted)",
          "images on which it is not", SEARCH),
    CHECK(BATCH, "batch", 0.01, 0,
          "an image's logits are the same alone and beside others, to a thousandth of their span (at most 1 % of "
          "images differ)",
          "images whose logits depend on the batch", SEARCH),
    CHECK(SEGMENT, "jump", 0.1, 0.05,
          "no 1024th of the way to an image of another class makes a twentieth of the difference (at most 10 % of "
          "images excepted)",
          "images with such a jump", PARANOID),
    CHECK(PATH, "path", 0.35, 0.5,
          "on the way to an image of another class the gradients add up to the difference, within half of it (at most "
          "35 % of images excepted)",
          "images on which they do not", PARANOID),
    CHECK(SCALE, "scale", 0.1, 1,
          "steps of 1/16, 1/4 and 1 of eps along the gradient change the logits as it says, within the bounds of "
          "docs/selftest.md (at most 10 % of images excepted)",
          "images on which they do not", PARANOID),
    CHECK(ROUGH, "rough-gradient", 0.1, 1,
          "the gradients at random points 1/16, 1/4 and 1 of eps away point the same way, within the bounds of "
          "docs/selftest.md (at most 10 % of images excepted)",
          "images on which they do not", PARANOID),
    CHECK(BACKWARD, "backward", 0.05, 0.1,
          "the gradient in float32 is that in double, to a cosine and a share of signs of 0.9 (at most 5 % of images "
          "excepted)",
          "images on which it is not", SEARCH),
    CHECK(STEPS, "steps", 0.5, 0, "10 steps break no image that 100 steps leave, more often than the reverse",
          "images broken by the shorter attack alone", VT_OPTION "attack apgd-ce:steps=100,restarts=5"),
    CHECK(RADIUS, "radius", 0.5, 0, "eps/2 breaks no image that eps leaves, more often than the reverse",
          "images broken at the smaller radius alone", VT_OPTION "attack apgd-ce:steps=100,restarts=5"),
    CHECK(WHOLE, "whole-box", 0.05, 0,
          "where every picture lies in the ball, and one that the model gives another class is known, gradients find a "
          "way (at most 5 % missed)",
          "images that stand even there", VT_OPTION "attack apgd-t:steps=100"),
    CHECK(NOISE, "noise", 0.05, 0, "60 random points break at most 5 % of what gradients left",
          "images broken by noise alone", SEARCH),
    CHECK(TWIN, "transfer", 0.05, 0,
          "points found on a slightly moved twin of the network break at most 5 % of what gradients left",
          "images broken by transfer alone", VT_OPTION "attack transfer:restarts=5"),
    CHECK(PROBE, "probe", 0.05, 0,
          "points found on the network cut off behind a block, with a head fitted to its answers, break at most 5 % of "
          "what gradients left",
          "images broken by that alone", PARANOID),
    CHECK(WAKEUP, "wake-up", 0.05, 0,
          "climbing what moves most inside the network, in units of how much it differs between images, breaks at most "
          "5 % of what gradients left",
          "images broken by that alone", PARANOID),
    CHECK(HEAD, "head", 0.1, 0.95,
          "what moves a head fitted to the same features moves the model's own logits, by a twentieth of that at "
          "least, or of their own mean change a step over 16 such steps (at most 10 % of images excepted)",
          "images on which it does not", PARANOID),
    CHECK(SMOOTH, "smoothed", 0.05, 0,
          "gradients averaged over noise of the ball's size break at most 5 % of what plain ones left",
          "images broken by that alone", VT_OPTION "attack smooth-pgd:steps=50,draws=32"),
    CHECK(SQUARE, "square", 0.05, 0,
          "Square Attack breaks almost nothing of what gradients left (at most the rate given)",
          "images broken by Square alone", SEARCH),
    CHECK(ACTIVE, "active-test", 0.05, 0,
          "the attack finds an adversarial image known to exist in at least 95 % of cases",
          "images on which it does not", VT_OPTION "attack apgd-t:steps=1000"),
};

void vt_selftest_rates(vt_selftest *t) {
    for (int i = 0; i < VT_CHECK_COUNT; i++)
        t->checks[i] = (vt_check){.rate = words[i].rate, .bound = words[i].bound, .p = 1, .adjusted = 1};
}

/* Writes the command that would decide check i, of the same model, data and threat; whole-box at the radius that holds
 * every picture. */
static void write_followup_command(char *out, size_t size, const vt_selftest *t, int i) {
    char eps[100] = "";
    if (i == VT_CHECK_WHOLE)
        snprintf(eps, sizeof eps, " " VT_OPTION "eps %.6g",
                 ceil(vt_box_diameter(t->v->norm, vt_subject_pixels(t->v->subject))));
    else if (!t->v->patch.size)
        snprintf(eps, sizeof eps, " " VT_OPTION "eps %s", t->v->eps_text);
    snprintf(out, size, "vitrine eval %s%s %s", t->command, eps, words[i].settle);
}

/* Is a check in doubt: p after Holm's correction at most VT_ALPHA_DOUBTFUL? */
static bool is_significant(const vt_check *c) { return c->trials && c->adjusted <= VT_ALPHA_DOUBTFUL; }

/* Returns check i as an object. */
static json_t *check_json(const vt_selftest *t, int i) {
    const vt_check *c = &t->checks[i];
    json_t *o =
        json_pack("{s:s,s:s,s:b}", "name", words[i].name, "null_hypothesis", words[i].null, "made", c->trials > 0);
    if (!o || !c->trials) return o;
    json_t *images = json_array();
    for (int k = 0; k < c->n_images; k++) json_array_append_new(images, json_integer(c->images[k]));
    json_object_update_new(o, json_pack("{s:I,s:I,s:s,s:f,s:f,s:f,s:o}", "hits", (json_int_t)c->hits, "trials",
                                        (json_int_t)c->trials, "hits_are", words[i].hits, "null_rate", c->rate, "p",
                                        c->p, "p_holm", c->adjusted, "images", images));
    if (c->bound > 0)
        json_object_update_new(o,
                               json_pack("{s:o,s:f}", "median_value",
                                         isfinite(c->median) ? json_real(c->median) : json_null(), "bound", c->bound));
    if (is_significant(c)) {
        char text[1500];
        write_followup_command(text, sizeof text, t, i);
        json_object_set_new(o, "settle", json_string(text));
    }
    return o;
}

/* Returns the active test as an object. */
static json_t *active_json(const vt_active *a) {
    return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:[f,f],s:o}", "images", (json_int_t)a->images, "setup_failed",
                     (json_int_t)a->setup_failed, "attacked", (json_int_t)a->attacked, "found", (json_int_t)a->found,
                     "random_surface", (json_int_t)a->random_surface, "random_corner", (json_int_t)a->random_corner,
                     "wilson95", a->low, a->high, "passed", a->attacked ? json_boolean(a->passed) : json_null());
}

/* Returns the counts of the flags. */
static json_t *flags_json(const vt_selftest *t) {
    const int64_t *f = t->flags;
    json_t *zero = json_object();
    for (int k = 0; k < VT_LOSS_COUNT; k++)
        if (f[k]) json_object_set_new(zero, vt_loss_names_f32[k], json_integer((json_int_t)f[k]));
    return json_pack("{s:I,s:o,s:I,s:I,s:I,s:I,s:I,s:I}", "looked_at", (json_int_t)t->direct, "zero_gradient", zero,
                     "saturated_logits", (json_int_t)f[VT_FLAG_SATURATED], "probabilities",
                     (json_int_t)f[VT_FLAG_SOFTMAX], "random", (json_int_t)t->checks[VT_CHECK_RANDOM].hits,
                     "clips_input", (json_int_t)f[VT_FLAG_CLIPS], "square_alone", (json_int_t)t->square_broken,
                     "images", (json_int_t)t->run_images);
}

/* Returns the names of the checks that were not made. */
static json_t *untested_json(const vt_selftest *t) {
    json_t *o = json_array();
    for (int i = 0; i < VT_CHECK_COUNT; i++)
        if (t->untested >> i & 1) json_array_append_new(o, json_string(words[i].name));
    return o;
}

/* Returns costs and forecasts in forward-equivalents. */
static json_t *cost_json(const vt_selftest *t) {
    return json_pack("{s:f,s:f,s:f,s:f,s:f,s:b,s:f,s:f,s:i,s:f,s:s?}", "forwards", t->cost, "forecast", t->forecast,
                     "escalation", t->escalation_cost, "escalation_forecast", t->escalation_forecast, "attack",
                     t->reference, "attack_measured", t->reference_measured, "attack_if_tenth_left", t->reference_tenth,
                     "share", VT_SELFTEST_SHARE, "least_an_image", VT_SELFTEST_LEAST, "allowance", t->allowance,
                     "excess", vt_selftest_excess(t));
}

json_t *vt_selftest_json(const vt_selftest *t) {
    size_t before = vt_json_refused();
    json_t *checks = json_array();
    int made = 0;
    for (int i = 0; i < VT_CHECK_COUNT; i++) {
        json_array_append_new(checks, check_json(t, i));
        made += t->checks[i].trials > 0;
    }
    json_t *o =
        json_pack("{s:s,s:s?,s:I,s:I,s:o,s:s,s:s,s:s,s:s,s:s,s:I,s:I,s:f,s:f,s:{s:I,s:I,s:I,s:I,s:I},s:o,s:o,s:o,s:{s:"
                  "b,s:I,s:I},s:o}",
                  "verdict", vt_grade_name(t->grade), "why_not_tested", *t->nothing ? t->nothing : NULL, "checks_made",
                  (json_int_t)made, "images_looked_at", (json_int_t)t->looked, "not_tested", untested_json(t), "attack",
                  t->attack->id, "weights", t->v->subject->model->sha256, "data", t->v->subject->data->hash, "norm",
                  vt_norm_name(t->v->norm), "eps", t->v->eps_text, "seed", (json_int_t)t->v->seed, "correct",
                  (json_int_t)t->correct, "alpha_doubtful", VT_ALPHA_DOUBTFUL, "alpha_masked", VT_ALPHA_MASKED,
                  "samples", "gradients", (json_int_t)t->direct, "scale", (json_int_t)t->scaled, "attacks",
                  (json_int_t)t->attacked, "survivors", (json_int_t)t->survivors, "other_ways", (json_int_t)t->other,
                  "checks", checks, "flags", flags_json(t), "active", active_json(&t->active), "escalation", "made",
                  t->escalated, "images", (json_int_t)t->escalated_images, "further_broken", (json_int_t)t->further,
                  "cost", cost_json(t));
    if (o && t->v->subject->wrap.def) json_object_set_new(o, "wrap", json_string(t->v->subject->wrap.id));
    return vt_json_whole(o, before);
}

/* ---- the verdict in words, of this run and of a file ---- */

/* Returns an object's integer; 0: absent. */
static int64_t integer_of_key(const json_t *o, const char *key) {
    return (int64_t)json_integer_value(json_object_get(o, key));
}

/* Reads how many checks were made and images looked at; files of an earlier version have no counts of their own, and
 * they are counted. */
static void read_test_counts(const json_t *o, int64_t *made, int64_t *looked) {
    static const char *const samples[] = {"gradients", "scale", "attacks", "other_ways"};
    const json_t *value;
    size_t i;
    *made = integer_of_key(o, "checks_made"), *looked = integer_of_key(o, "images_looked_at");
    if (json_object_get(o, "checks_made")) return;
    json_array_foreach(json_object_get(o, "checks"), i, value) *made += json_is_true(json_object_get(value, "made"));
    for (i = 0; i < sizeof samples / sizeof *samples; i++) {
        int64_t n = integer_of_key(json_object_get(o, "samples"), samples[i]);
        if (n > *looked) *looked = n;
    }
}

/* Returns the grade (vt_grade) of a selftest.json's object; -1: there is no verdict. An earlier version called no sign
 * of masking "sound". */
static int grade_of(const json_t *o) {
    const char *verdict = json_string_value(json_object_get(o, "verdict"));
    if (verdict && !strcmp(verdict, "sound")) return VT_GRADE_NO_SIGN;
    for (int grade = 0; verdict && grade < VT_GRADE_COUNT; grade++)
        if (!strcmp(verdict, vt_grade_name((vt_grade)grade))) return grade;
    return -1;
}

/* Writes the verdict of a selftest.json's document (a json_t) as one sentence. */
static void write_verdict(FILE *f, const void *selftest) {
    const json_t *o = selftest, *name, *active = json_object_get(o, "active");
    const char *why = json_string_value(json_object_get(o, "why_not_tested"));
    long long failed = integer_of_key(active, "setup_failed");
    int64_t made, looked;
    size_t i;
    read_test_counts(o, &made, &looked);
    if (!made) {
        fprintf(f, "self-test: nothing could be tested: %s", why ? why : "no check was made");
        return;
    }
    fprintf(f, "self-test: %s (%lld checks on %lld image%s", vt_grade_name((vt_grade)grade_of(o)), (long long)made,
            (long long)looked, looked == 1 ? "" : "s");
    json_array_foreach(json_object_get(o, "not_tested"), i, name) {
        const char *word = json_string_value(name);
        if (!word) continue;
        fprintf(f, "%s%s", i ? ", " : "; not tested: ", word);
        if (failed && !strcmp(word, words[VT_CHECK_ACTIVE].name))
            fprintf(f, ": no head could be fitted on %lld of %lld images", failed,
                    (long long)integer_of_key(active, "images"));
    }
    fputc(')', f);
}

vt_status vt_selftest_read(const char *dir, char text[VT_VERDICT_ROOM], vt_err *e) {
    char path[VT_PATH_MAX], *whole = NULL;
    json_t *o = NULL;
    *text = 0;
    VT_TRY(vt_path_in(path, dir, "selftest.json", e));
    if (access(path, F_OK) != 0) return VT_OK;
    VT_TRY(vt_json_file(&o, path, SELFTEST_MOST, NULL, e));
    vt_status s = grade_of(o) >= 0
                      ? vt_text_of(&whole, write_verdict, o, path, e)
                      : vt_fail(e, VT_E_FORMAT, "%s: is not what a self-test writes: it has no verdict", path);
    if (whole) snprintf(text, VT_VERDICT_ROOM, "%s", whole);
    free(whole);
    json_decref(o);
    return s;
}

const char *vt_selftest_excess(const vt_selftest *t) {
    const vt_active *a = &t->active;
    if (!(t->cost > t->allowance)) return NULL;
    if (a->found < a->attacked) return "the active test's attacks ran to their end where they found nothing";
    if (!t->reference_measured && !t->survivors)
        return "nothing was left of the images attacked here, so the attack itself would soon be done with all, which "
               "cannot be known before";
    return "so few images are right that the least samples cost more";
}

/* Prints a check that is in doubt: counts, hypothesis, p, images, and the command that would settle it. */
static void print_doubt(FILE *f, const vt_selftest *t, int i) {
    const vt_check *c = &t->checks[i];
    fprintf(f, "  %s: %lld of %lld %s (null: %s; p = %.2g, Holm %.2g)", words[i].name, (long long)c->hits,
            (long long)c->trials, words[i].hits, words[i].null, c->p, c->adjusted);
    for (int k = 0; k < c->n_images; k++) fprintf(f, "%s%d", k ? ", " : "; images ", (int)c->images[k]);
    if (c->bound > 0) fprintf(f, "; median %.3g, bound %.3g", c->median, c->bound);
    char text[1500];
    write_followup_command(text, sizeof text, t, i);
    fprintf(f, "\n    to settle it: %s\n", text);
}

/* Prints the active test's result. */
static void print_active(FILE *f, const vt_active *a) {
    int64_t valid = a->attacked, random = a->random_corner > a->random_surface ? a->random_corner : a->random_surface;
    if (!a->images) return;
    if (!valid) {
        fprintf(f, "  active test: not made, its set-ups alone: %lld of %lld failed\n", (long long)a->setup_failed,
                (long long)a->images);
        return;
    }
    const char *verdict = a->passed                          ? "passed"
                          : 20 * a->setup_failed > a->images ? "not passed: set-ups failed"
                          : a->found < valid                 ? "not passed"
                          : valid < 73 && 2 * random <= valid
                              ? "nothing against it (73 images would prove 95 %)"
                              : "nothing against it, but random search finds them too or set-ups failed";
    fprintf(f,
            "  active test: found %lld of %lld known adversarial images [%.1f, %.1f] %%, random search %lld; %lld "
            "set-ups failed: %s\n",
            (long long)a->found, (long long)valid, 100 * a->low, 100 * a->high, (long long)random,
            (long long)a->setup_failed, verdict);
}

/* Prints warnings as AutoAttack does: they call for another attack, whatever the verdict. */
static void print_flags(FILE *f, const vt_selftest *t) {
    const int64_t *flags = t->flags;
    const long long looked = (long long)t->direct;
    const vt_network *network = t->v->subject->model->config.network;
    const int rounded = network ? vt_graph_straight_through(network->g) : 0;
    if (rounded)
        fprintf(f,
                "  warning: gradients pass straight through %d rounding%s of the graph (BPDA): they are no "
                "derivatives, "
                "and what they cannot break needs attacks without gradients\n",
                rounded, rounded > 1 ? "s" : "");
    for (int k = 0; k < VT_LOSS_COUNT; k++)
        if (flags[k])
            fprintf(f, "  warning: the gradient of %s is zero in every pixel on %lld of %lld images\n",
                    vt_loss_names_f32[k], (long long)flags[k], looked);
    if (flags[VT_FLAG_SATURATED])
        fprintf(f,
                "  warning: cross-entropy underflows on %lld of %lld images (logits further apart than 87.3), where "
                "attacks follow the margin's gradient\n",
                (long long)flags[VT_FLAG_SATURATED], looked);
    if (looked && flags[VT_FLAG_SOFTMAX] == looked)
        fprintf(f, "  warning: the logits are probabilities: a softmax at the network's end hides gradients\n");
    if (t->checks[VT_CHECK_RANDOM].hits)
        fprintf(f, "  warning: the model is random: " VT_OPTION
                   "attack autoattack:version=rand averages over its draws\n");
    if (flags[VT_FLAG_CLIPS])
        fprintf(f,
                "  note: on %lld of %lld images values outside of [0,1] are answered as the nearest inside: the model "
                "clips its input, which at the box's faces may hide gradients\n",
                (long long)flags[VT_FLAG_CLIPS], looked);
    if (500 * t->square_broken > t->run_images)
        fprintf(f,
                "  warning: Square alone lowers robust accuracy by %.2f points (%lld of %lld images); more than 0.2 "
                "points point at gradients that mislead\n",
                100 * (double)t->square_broken / (double)t->run_images, (long long)t->square_broken,
                (long long)t->run_images);
}

/* Prints what the self-test cost, against the attack under test. */
static void print_cost(FILE *f, const vt_selftest *t) {
    fprintf(f, "  cost: %.0f forwards%s", t->cost, t->reference > 0 ? ", " : "\n");
    if (t->reference > 0)
        fprintf(f, "%.1f %% of %s on the same images (%s)\n", 100 * t->cost / t->reference,
                t->reference_measured ? "the run" : t->attack->name, t->reference_measured ? "measured" : "estimated");
    if (t->cost <= t->allowance && t->cost > VT_SELFTEST_SHARE * t->reference)
        fprintf(f, "  (%d forwards an image are allowed)\n", VT_SELFTEST_LEAST);
    if (vt_selftest_excess(t))
        fprintf(f, "  that is more than the %.0f %% aimed at (or %d forwards an image): %s\n", 100 * VT_SELFTEST_SHARE,
                VT_SELFTEST_LEAST, vt_selftest_excess(t));
    if (!t->reference_measured && !t->survivors && t->reference_tenth > 0)
        fprintf(f, "  should it leave a tenth of all right images nevertheless: %.1f %%\n",
                100 * t->cost / t->reference_tenth);
}

vt_status vt_selftest_print(FILE *f, const vt_selftest *t, vt_err *e) {
    json_t *o = vt_selftest_json(t);
    if (!o) return vt_fail(e, VT_E_MEMORY, "no memory for what the self-test found");
    fputc('\n', f);
    write_verdict(f, o);
    fputc('\n', f);
    json_decref(o);
    if (t->grade == VT_GRADE_NONE) return VT_OK;
    fprintf(f,
            "  %lld images right; %lld looked at, %lld at the ball's scale, %lld attacked, %lld of them left; %lld "
            "survivors tried otherwise\n",
            (long long)t->correct, (long long)t->direct, (long long)t->scaled, (long long)t->attacked,
            (long long)t->survivors, (long long)t->other);
    for (int i = 0; i < VT_CHECK_COUNT; i++)
        if (is_significant(&t->checks[i])) print_doubt(f, t, i);
    print_flags(f, t);
    print_active(f, &t->active);
    if (t->escalated)
        fprintf(f, "  tried harder on %lld survivors: %lld more are broken\n", (long long)t->escalated_images,
                (long long)t->further);
    print_cost(f, t);
    return VT_OK;
}
