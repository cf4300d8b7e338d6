/* SPDX-License-Identifier: MIT */
/* Parts 3 and 4: what attacks of different kinds find on the same images. */
#include <math.h>
#include "selftest/tools.h"

/* Runs a tool on the model, or along another network's gradients, at radius eps; *broken: the model itself
 * misclassifies its point. */
static vt_status try_tool(vt_tester *g, vt_tool tool, vt_tested_net *net, double eps, const char *purpose, bool *broken,
                          vt_err *e) {
    vt_attack_trial t = {net, &g->model.c, eps, g->label, purpose, net != &g->model};
    return vt_try_attack(g, &g->tools[tool].stages[0], &t, broken, e);
}

vt_status vt_strength_image(vt_tester *g, int32_t image, vt_evidence *f, vt_err *e) {
    double eps = g->t->v->eps, whole = vt_box_diameter(g->t->v->norm, g->pixels);
    vt_tested_net *m = &g->model;
    bool half, brief, white, anywhere;
    VT_TRY(vt_tester_load(g, image, NULL, e));
    VT_TRY(try_tool(g, VT_TOOL_HALF, m, eps / 2, "selftest half", &half, e));
    VT_TRY(try_tool(g, VT_TOOL_BRIEF, m, eps, "selftest brief", &brief, e));
    VT_TRY(try_tool(g, VT_TOOL_CE, m, eps, "selftest ce", &white, e));
    if (!white) VT_TRY(try_tool(g, VT_TOOL_T, m, eps, "selftest t", &white, e));
    vt_note_flag(f, VT_FLAG_BROKEN, white);
    if (brief != white) vt_note_evidence(f, VT_CHECK_STEPS, brief);
    if (half != white) vt_note_evidence(f, VT_CHECK_RADIUS, half);
    if (!g->witness) return VT_OK;
    VT_TRY(try_tool(g, VT_TOOL_WHOLE, m, whole, "selftest whole", &anywhere, e));
    vt_note_evidence(f, VT_CHECK_WHOLE, !anywhere);
    return VT_OK;
}

/* Returns how far the logits move from g->x to y, as a share of what they span at x; of classes that the fitted head
 * knows, which are those that it moves (fitted: marks them in g->z64): an honest network may hold one that it never
 * gives far below all others, and then nothing else moves by much of the span. */
static double relative_logit_change(vt_tester *g, const vt_classifier *c, const float *y, bool fitted) {
    float *z = g->z, *to = g->z + g->classes + 1, low = INFINITY, high = -INFINITY;
    double most = 0;
    vt_tester_logits(g, c, g->x, z, false);
    vt_tester_logits(g, c, y, to, false);
    for (int k = 0; k < g->classes; k++) {
        if (fitted) g->z64[k] = z[k] != to[k];
        if (g->z64[k] == 0) continue;
        low = fminf(low, z[k]), high = fmaxf(high, z[k]);
        most = fmax(most, fabs((double)to[k] - (double)z[k]));
    }
    return most / ((double)high - (double)low);
}

/* Notes the head check of the point in g->attacker.x_adv, found on a head fitted to the features that the model's own
 * head reads: if it moves that head by a tenth at least, does it move the model's? The fitted head alone is no witness:
 * one of few images reads directions in which images hardly differ, which the model's own may rightly ignore. What
 * counts is how far the model's own logits move a step, up to 16 steps farther the same way, if that is less. */
static void compare_heads(vt_tester *g, vt_evidence *f) {
    const float *at = g->attacker.x_adv;
    double fitted = relative_logit_change(g, &g->probe[0].c, at, true), own, farther = 0;
    if (!isfinite(fitted) || fitted < 0.1) return;
    own = relative_logit_change(g, &g->model.c, at, false);
    for (int steps = 2; steps <= 16; steps *= 2) {
        for (size_t i = 0; i < g->pixels; i++)
            g->y[i] = (float)fmin(fmax(g->x[i] + steps * ((double)at[i] - (double)g->x[i]), 0), 1);
        farther = fmax(farther, relative_logit_change(g, &g->model.c, g->y, false) / steps);
    }
    vt_note_value(f, VT_CHECK_HEAD, farther > 0 ? 1 - own / fmin(fitted, farther) : 0);
}

vt_status vt_ways_image(vt_tester *g, int32_t image, vt_evidence *f, vt_err *e) {
    double eps = g->t->v->eps;
    bool noise, twin, probe = false, smooth;
    VT_TRY(vt_tester_load(g, image, "selftest noise", e));
    VT_TRY(vt_try_noise(g, &g->model.c, g->label, 30, false, &noise));
    if (!noise) VT_TRY(vt_try_noise(g, &g->model.c, g->label, 30, true, &noise));
    vt_note_evidence(f, VT_CHECK_NOISE, noise);
    if (g->twin.c.self) {
        VT_TRY(try_tool(g, VT_TOOL_TRANSFER, &g->twin, eps, "selftest twin", &twin, e));
        vt_note_evidence(f, VT_CHECK_TWIN, twin);
    }
    for (int i = 0; i < VT_PROBES && !probe; i++) {
        if (!g->probe[i].c.self) continue;
        VT_TRY(try_tool(g, VT_TOOL_TRANSFER, &g->probe[i], eps, "selftest probe", &probe, e));
        if (!i) compare_heads(g, f);
    }
    if (!g->t->v->subject->remote) vt_note_evidence(f, VT_CHECK_PROBE, probe);
    VT_TRY(try_tool(g, VT_TOOL_SMOOTH, &g->model, eps, "selftest smooth", &smooth, e));
    vt_note_evidence(f, VT_CHECK_SMOOTH, smooth);
    return VT_OK;
}

vt_status vt_square_image(vt_tester *g, int32_t image, vt_evidence *f, vt_err *e) {
    bool broken;
    VT_TRY(vt_tester_load(g, image, NULL, e));
    VT_TRY(try_tool(g, VT_TOOL_SQUARE, &g->model, g->t->v->eps, "selftest square", &broken, e));
    vt_note_evidence(f, VT_CHECK_SQUARE, broken);
    return VT_OK;
}

/* Survivors of everything: the margin's ascent from three starts on the twin, a long random search. */
vt_status vt_again_image(vt_tester *g, int32_t image, vt_evidence *f, vt_err *e) {
    static const char *const starts[] = {"selftest again 1", "selftest again 2", "selftest again 3"};
    double eps = g->t->v->eps;
    bool broken = f->against != 0;
    VT_TRY(vt_tester_load(g, image, NULL, e));
    for (int i = 0; i < 3 && g->twin.c.self && !broken; i++)
        VT_TRY(try_tool(g, VT_TOOL_TRANSFER, &g->twin, eps, starts[i], &broken, e));
    if (!broken) VT_TRY(try_tool(g, VT_TOOL_LONG, &g->model, eps, "selftest again", &broken, e));
    vt_note_flag(f, VT_FLAG_BROKEN, broken);
    return VT_OK;
}
