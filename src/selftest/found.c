/* SPDX-License-Identifier: MIT */
/* Parts 3 and 4: what attacks of different kinds find on the same images. */
#include <math.h>
#include <string.h>
#include "selftest/tools.h"

static const char *const specs[VT_TOOL_COUNT] = {
    [VT_TOOL_HALF] = "apgd-ce:steps=25",
    [VT_TOOL_BRIEF] = "apgd-ce:steps=10",
    [VT_TOOL_CE] = "apgd-ce:steps=100",
    [VT_TOOL_T] = "apgd-t:steps=50,targets=3",
    [VT_TOOL_WHOLE] = "apgd-t:steps=50,targets=3",
    [VT_TOOL_SQUARE] = "square:queries=1000",
    [VT_TOOL_TRANSFER] = "pgd:loss=margin,steps=20",
    [VT_TOOL_SMOOTH] = "smooth-pgd:steps=8,draws=6",
    [VT_TOOL_LONG] = "square:queries=5000",
};

vt_status vt_tools_parse(vt_attack tools[VT_TOOL_COUNT], vt_norm norm, vt_err *e) {
    for (int i = 0; i < VT_TOOL_COUNT; i++) VT_TRY(vt_attack_parse(&tools[i], specs[i], norm, e));
    return VT_OK;
}

void vt_tools_free(vt_attack tools[VT_TOOL_COUNT]) {
    for (int i = 0; i < VT_TOOL_COUNT; i++) vt_attack_free(&tools[i]);
}

/* The radius at which the ball holds the whole box. */
static double whole_box_radius(const vt_selftest_worker *g) {
    double n = (double)g->pixels;
    return g->t->v->norm == VT_LINF ? 1 : g->t->v->norm == VT_L2 ? sqrt(n) : n;
}

static vt_status run_attack_tool(vt_selftest_worker *g, const vt_attack *tool, double eps, int label, int32_t image,
                                 const char *purpose, bool *broken, vt_err *e) {
    vt_attack_trial t = {&g->o_model, &g->model, eps, label, g->classes, image, purpose, false};
    return vt_try_attack(g, &tool->stages[0], &t, broken, e);
}

/* Along another network's gradients, whose oracle is o. */
static vt_status run_transfer_attack(vt_selftest_worker *g, vt_oracle *o, const vt_attack *tool, int label,
                                     int32_t image, const char *purpose, bool *broken, vt_err *e) {
    vt_attack_trial t = {o, &g->model, g->t->v->eps, label, g->classes, image, purpose, true};
    return vt_try_attack(g, &tool->stages[0], &t, broken, e);
}

vt_status vt_strength_image(vt_selftest_worker *g, const vt_attack *tools, int32_t image, bool witness, vt_strength *f,
                            vt_err *e) {
    double eps = g->t->v->eps;
    int label;
    *f = (vt_strength){.whole_tried = witness};
    VT_TRY(vt_subject_image(g->t->v->subject, image, g->x, &label, e));
    VT_TRY(run_attack_tool(g, &tools[VT_TOOL_HALF], eps / 2, label, image, "selftest half", &f->half, e));
    VT_TRY(run_attack_tool(g, &tools[VT_TOOL_BRIEF], eps, label, image, "selftest brief", &f->brief, e));
    VT_TRY(run_attack_tool(g, &tools[VT_TOOL_CE], eps, label, image, "selftest ce", &f->white, e));
    if (!f->white) VT_TRY(run_attack_tool(g, &tools[VT_TOOL_T], eps, label, image, "selftest t", &f->white, e));
    return witness ? run_attack_tool(g, &tools[VT_TOOL_WHOLE], whole_box_radius(g), label, image, "selftest whole",
                                     &f->whole, e)
                   : VT_OK;
}

/* How far the logits move from x to x_adv, as a share of what they span at x; of classes that the fitted head knows,
 * which are those that it moves (g->z64 marks them): an honest network may hold one that it never gives far below all
 * others, and then nothing else moves by much of the span. */
static double relative_logit_change(vt_selftest_worker *g, const vt_classifier *c, bool fitted) {
    float *z = g->z, *to = g->z + g->classes + 1, low = INFINITY, high = -INFINITY;
    double most = 0;
    vt_selftest_worker_logits(g, c, g->x, z, false);
    vt_selftest_worker_logits(g, c, g->attacker.x_adv, to, false);
    g->forwards += 2;
    for (int k = 0; k < g->classes; k++) {
        if (fitted) g->z64[k] = z[k] != to[k];
        if (g->z64[k] == 0) continue;
        low = fminf(low, z[k]), high = fmaxf(high, z[k]);
        most = fmax(most, fabs((double)to[k] - (double)z[k]));
    }
    return most / ((double)high - (double)low);
}

/* The point of g->attacker.x_adv was found on a head fitted to the features that the model's own head reads: where it
 * moves that head by a tenth at least, does it move the model's? */
static void compare_heads(vt_selftest_worker *g, vt_ways *w) {
    double fitted = relative_logit_change(g, &g->probe[0], true);
    w->head_tried = isfinite(fitted) && fitted >= 0.1;
    if (w->head_tried) w->head = 1 - relative_logit_change(g, &g->model, false) / fitted;
}

vt_status vt_ways_image(vt_selftest_worker *g, const vt_attack *tools, int32_t image, vt_ways *w, vt_err *e) {
    int label;
    *w = (vt_ways){0};
    VT_TRY(vt_subject_image(g->t->v->subject, image, g->x, &label, e));
    vt_rng r = vt_selftest_key(g->t, "selftest noise", image);
    vt_classifier_begin(&g->model, &r);
    VT_TRY(vt_try_noise(g, &g->model, label, g->classes, image, 30, false, &w->noise));
    if (!w->noise) VT_TRY(vt_try_noise(g, &g->model, label, g->classes, image, 30, true, &w->noise));
    if (g->twin.self)
        VT_TRY(
            run_transfer_attack(g, &g->o_twin, &tools[VT_TOOL_TRANSFER], label, image, "selftest twin", &w->twin, e));
    for (int i = 0; i < VT_PROBES && !w->probe; i++) {
        if (!g->probe[i].self) continue;
        VT_TRY(run_transfer_attack(g, &g->o_probe[i], &tools[VT_TOOL_TRANSFER], label, image, "selftest probe",
                                   &w->probe, e));
        if (!i) compare_heads(g, w);
    }
    return run_attack_tool(g, &tools[VT_TOOL_SMOOTH], g->t->v->eps, label, image, "selftest smooth", &w->smooth, e);
}

vt_status vt_square_image(vt_selftest_worker *g, const vt_attack *tools, int32_t image, vt_ways *w, vt_err *e) {
    int label;
    VT_TRY(vt_subject_image(g->t->v->subject, image, g->x, &label, e));
    return run_attack_tool(g, &tools[VT_TOOL_SQUARE], g->t->v->eps, label, image, "selftest square", &w->square, e);
}

/* Survivors of everything: the margin's ascent from three starts on the twin, a long random search. */
vt_status vt_again_image(vt_selftest_worker *g, const vt_attack *tools, int32_t image, vt_ways *w, vt_err *e) {
    static const char *const starts[] = {"selftest again 1", "selftest again 2", "selftest again 3"};
    int label;
    VT_TRY(vt_subject_image(g->t->v->subject, image, g->x, &label, e));
    w->again = w->noise || w->square || w->twin || w->probe || w->smooth;
    for (int i = 0; i < 3 && g->twin.self && !w->again; i++)
        VT_TRY(run_transfer_attack(g, &g->o_twin, &tools[VT_TOOL_TRANSFER], label, image, starts[i], &w->again, e));
    return w->again
               ? VT_OK
               : run_attack_tool(g, &tools[VT_TOOL_LONG], g->t->v->eps, label, image, "selftest again", &w->again, e);
}
