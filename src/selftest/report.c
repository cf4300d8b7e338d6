/* The verdict in words and as JSON. */
#include <string.h>
#include "selftest/selftest.h"

/* A check in words: what it is called, what soundness implies (the null hypothesis), what the hits are, and the attack
 * whose run would settle a doubt. */
static const struct {
    const char *name, *null, *hits, *settle;
} words[VT_CHECK_COUNT] = {
    [VT_CHECK_RANDOM] = {"random-forward", "two forwards of one image agree to the bit (at most 1 % of images differ)",
                         "images whose logits differ between two calls", "square:queries=20000"},
    [VT_CHECK_FLAT] = {"quantised-forward",
                       "a random change of 1e-5 of every pixel changes the logits (at most 1 % of images do not)",
                       "images whose logits ignore it", "square:queries=20000"},
    [VT_CHECK_ZERO] = {"zero-gradient", "the gradient of cross-entropy is not zero (at most 1 % of images)",
                       "images whose gradient is zero in every pixel", "pgd:loss=margin,steps=100,restarts=5"},
    [VT_CHECK_CONSTANT] = {"constant-gradient",
                           "the margin's gradient changes from a point to its neighbour (at most 1 % of images do not)",
                           "images with the same gradient at both points", "square:queries=20000"},
    [VT_CHECK_SATURATED] = {"saturated-logits",
                            "no logit gap exceeds 87.3, where softmax underflows in float32 (at most 1 % of images)",
                            "images beyond it", "pgd:loss=margin,steps=100,restarts=5"},
    [VT_CHECK_ATTENTION] = {"saturated-attention",
                            "the median row of attention is not one-hot to float32 (at most 1 % of images)",
                            "images in which it is", "square:queries=20000"},
    [VT_CHECK_WRONG] = {"wrong-gradient",
                        "over a step of a tenth of a grey level (or of eps) the gradient predicts the margin's change "
                        "better than 'no change' does (at most 10 % of images excepted)",
                        "images on which it does not", "square:queries=20000"},
    [VT_CHECK_STEPS] = {"steps", "10 steps break no image that 100 steps leave, more often than the reverse",
                        "images broken by the shorter attack alone", "apgd-ce:steps=100,restarts=5"},
    [VT_CHECK_RADIUS] = {"radius", "eps/2 breaks no image that eps leaves, more often than the reverse",
                         "images broken at the smaller radius alone", "apgd-ce:steps=100,restarts=5"},
    [VT_CHECK_WHOLE] = {"whole-box",
                        "where every picture lies in the ball, and one that the model gives another class is known, "
                        "gradients find a way (at most 5 % missed)",
                        "images that stand even there", "apgd-t:steps=100"},
    [VT_CHECK_NOISE] = {"noise", "100 random points break at most 5 % of what gradients left",
                        "images broken by noise alone", "square:queries=20000"},
    [VT_CHECK_SQUARE] = {"square",
                         "Square Attack breaks almost nothing of what gradients left (at most the rate given)",
                         "images broken by Square alone", "square:queries=20000"},
    [VT_CHECK_TWIN] = {"transfer",
                       "points found on a slightly moved twin of the network break at most 5 % of what gradients left",
                       "images broken by transfer alone", "square:queries=20000"},
    [VT_CHECK_ACTIVE] = {"active-test",
                         "the attack finds an adversarial image known to exist in at least 95 % of cases",
                         "images on which it does not", "apgd-t:steps=1000"},
};

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
    if (c->adjusted <= VT_ALPHA_DOUBTFUL) {
        char text[1500];
        snprintf(text, sizeof text, "%s --attack %s", t->command, words[i].settle);
        json_object_set_new(o, "settle", json_string(text));
    }
    return o;
}

static json_t *active_json(const vt_active *a) {
    return json_pack("{s:I,s:I,s:I,s:I,s:I,s:[f,f],s:b}", "images", (json_int_t)a->images, "setup_failed",
                     (json_int_t)a->setup_failed, "found", (json_int_t)a->found, "random_surface",
                     (json_int_t)a->random_surface, "random_corner", (json_int_t)a->random_corner, "wilson95", a->low,
                     a->high, "passed", a->passed);
}

json_t *vt_selftest_json(const vt_selftest *t) {
    json_t *checks = json_array();
    for (int i = 0; i < VT_CHECK_COUNT; i++) json_array_append_new(checks, check_json(t, i));
    const char *excess = vt_selftest_excess(t);
    json_t *o = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:I,s:I,s:f,s:f,s:{s:I,s:I,s:I},s:o,s:o,s:{s:b,s:I,s:I},s:{s:f,s:f,"
                          "s:f,s:b,s:f,s:f,s:s?}}",
                          "verdict", vt_grade_name(t->grade), "attack", t->attack->id, "weights", t->v->model->sha256,
                          "data", t->v->data->hash, "norm", vt_norm_name(t->v->norm), "eps", t->v->eps_text, "seed",
                          (json_int_t)t->v->seed, "correct", (json_int_t)t->correct, "alpha_doubtful",
                          VT_ALPHA_DOUBTFUL, "alpha_masked", VT_ALPHA_MASKED, "samples", "gradients",
                          (json_int_t)t->direct, "attacks", (json_int_t)t->attacked, "survivors",
                          (json_int_t)t->survivors, "checks", checks, "active", active_json(&t->active), "escalation",
                          "made", t->escalated, "images", (json_int_t)t->escalated_images, "further_broken",
                          (json_int_t)t->further, "cost", "forwards", t->cost, "escalation", t->escalation_cost,
                          "attack", t->reference, "attack_measured", t->reference_measured, "attack_if_tenth_left",
                          t->reference_tenth, "share", VT_SELFTEST_SHARE, "excess", excess);
    if (o && t->v->wrap && t->v->wrap->def) json_object_set_new(o, "wrap", json_string(t->v->wrap->id));
    return o;
}

const char *vt_selftest_excess(const vt_selftest *t) {
    const vt_active *a = &t->active;
    if (!(t->reference > 0 && t->cost > VT_SELFTEST_SHARE * t->reference)) return NULL;
    if (a->found < a->images - a->setup_failed)
        return "the active test's attacks ran to their end where they found nothing";
    if (t->reference_measured && !t->attacked && !a->images)
        return "the attack was soon done with every image, and less than these single points would say nothing";
    if (!t->reference_measured && !t->survivors)
        return "nothing was left of the images attacked here, so the attack itself would soon be done with all, which "
               "cannot be known before";
    return "so few images are right that the least samples cost more";
}

static void print_doubt(FILE *f, const vt_selftest *t, int i) {
    const vt_check *c = &t->checks[i];
    fprintf(f, "  %s: %lld of %lld %s (null: %s; p = %.2g, Holm %.2g)", words[i].name, (long long)c->hits,
            (long long)c->trials, words[i].hits, words[i].null, c->p, c->adjusted);
    for (int k = 0; k < c->n_images; k++) fprintf(f, "%s%d", k ? ", " : "; images ", (int)c->images[k]);
    fprintf(f, "\n    to settle it: %s --attack %s\n", t->command, words[i].settle);
}

static void print_active(FILE *f, const vt_active *a) {
    long long valid = (long long)(a->images - a->setup_failed);
    if (!a->images) return;
    fprintf(f,
            "  active test: found %lld of %lld known adversarial images [%.1f, %.1f] %%, random search %lld; %lld "
            "set-ups failed: %s\n",
            (long long)a->found, valid, 100 * a->low, 100 * a->high,
            (long long)(a->random_corner > a->random_surface ? a->random_corner : a->random_surface),
            (long long)a->setup_failed,
            a->passed ? "passed"
            : valid && a->found == valid && valid < 73 && 2 * a->random_corner <= valid &&
                    2 * a->random_surface <= valid
                ? "nothing against it (73 images would prove 95 %)"
            : valid && a->found == valid ? "nothing against it, but random search finds them too or set-ups failed"
                                         : "not passed");
}

void vt_selftest_print(FILE *f, const vt_selftest *t) {
    int made = 0;
    for (int i = 0; i < VT_CHECK_COUNT; i++) made += t->checks[i].trials > 0;
    fprintf(f, "\nself-test: %s (%d checks, %lld images right; %lld looked at, %lld attacked, %lld of them left)\n",
            vt_grade_name(t->grade), made, (long long)t->correct, (long long)t->direct, (long long)t->attacked,
            (long long)t->survivors);
    for (int i = 0; i < VT_CHECK_COUNT; i++)
        if (t->checks[i].trials && t->checks[i].adjusted <= VT_ALPHA_DOUBTFUL) print_doubt(f, t, i);
    print_active(f, &t->active);
    if (t->escalated)
        fprintf(f, "  tried harder on %lld survivors: %lld more are broken\n", (long long)t->escalated_images,
                (long long)t->further);
    fprintf(f, "  cost: %.0f forwards%s", t->cost, t->reference > 0 ? ", " : "\n");
    if (t->reference > 0)
        fprintf(f, "%.1f %% of %s on the same images (%s)\n", 100 * t->cost / t->reference, t->attack->name,
                t->reference_measured ? "measured" : "estimated");
    if (vt_selftest_excess(t))
        fprintf(f, "  that is more than the %.0f %% aimed at: %s\n", 100 * VT_SELFTEST_SHARE, vt_selftest_excess(t));
    if (!t->reference_measured && !t->survivors && t->reference_tenth > 0)
        fprintf(f, "  should it leave a tenth of all right images nevertheless: %.1f %%\n",
                100 * t->cost / t->reference_tenth);
}
