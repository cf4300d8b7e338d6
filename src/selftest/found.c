/* Part 2: what attacks of different kinds find on the same images. */
#include <math.h>
#include <string.h>
#include "selftest/tools.h"

enum { HALF, BRIEF, WHITE_CE, WHITE_T, WHOLE, SQUARE, TWIN, LONG };

static const char *const specs[] = {
    [HALF] = "apgd-ce:steps=25",           [BRIEF] = "apgd-ce:steps=10",
    [WHITE_CE] = "apgd-ce:steps=100",      [WHITE_T] = "apgd-t:steps=50,targets=3",
    [WHOLE] = "apgd-t:steps=50,targets=3", [SQUARE] = "square:queries=1000",
    [TWIN] = "pgd:loss=margin,steps=40",   [LONG] = "square:queries=5000",
};

vt_status vt_attack_tools(vt_attack tools[8], vt_norm norm, double eps, vt_err *e) {
    (void)eps;
    for (int i = 0; i < 8; i++) VT_TRY(vt_attack_parse(&tools[i], specs[i], norm, e));
    return VT_OK;
}

/* The radius at which the ball holds the whole box. */
static double whole(const vt_gear *g) {
    double n = (double)g->pixels;
    return g->t->v->norm == VT_LINF ? 1 : g->t->v->norm == VT_L2 ? sqrt(n) : n;
}

static vt_status one(vt_gear *g, const vt_attack *tool, double eps, int label, int32_t image, const char *purpose,
                     bool *broken, vt_err *e) {
    vt_trial_of t = {&g->o_model, &g->model, eps, label, g->classes, image, purpose, false};
    return vt_try_attack(g, &tool->stages[0], &t, broken, e);
}

static vt_status transfer(vt_gear *g, const vt_attack *tool, int label, int32_t image, const char *purpose,
                          bool *broken, vt_err *e) {
    vt_trial_of t = {&g->o_twin, &g->model, g->t->v->eps, label, g->classes, image, purpose, true};
    return vt_try_attack(g, &tool->stages[0], &t, broken, e);
}

vt_status vt_found_image(vt_gear *g, const vt_attack *tools, int32_t image, bool witness, vt_found *f, vt_err *e) {
    double eps = g->t->v->eps;
    int label;
    *f = (vt_found){.whole_tried = witness};
    VT_TRY(vt_eval_image(g->t->v, image, g->x, &label, e));
    VT_TRY(one(g, &tools[HALF], eps / 2, label, image, "selftest half", &f->half, e));
    VT_TRY(one(g, &tools[BRIEF], eps, label, image, "selftest brief", &f->brief, e));
    VT_TRY(one(g, &tools[WHITE_CE], eps, label, image, "selftest ce", &f->white, e));
    if (!f->white) VT_TRY(one(g, &tools[WHITE_T], eps, label, image, "selftest t", &f->white, e));
    if (witness) VT_TRY(one(g, &tools[WHOLE], whole(g), label, image, "selftest whole", &f->whole, e));
    if (f->white) return VT_OK;
    vt_rng r = vt_selftest_key(g->t, "selftest noise", image);
    vt_classifier_begin(&g->model, &r);
    VT_TRY(vt_try_noise(g, &g->model, label, g->classes, image, 50, false, &f->noise));
    if (!f->noise) VT_TRY(vt_try_noise(g, &g->model, label, g->classes, image, 50, true, &f->noise));
    VT_TRY(transfer(g, &tools[TWIN], label, image, "selftest twin", &f->twin, e));
    return one(g, &tools[SQUARE], eps, label, image, "selftest square", &f->square, e);
}

/* Survivors of everything: the margin's ascent from three starts on the twin, a long random search. */
vt_status vt_found_again(vt_gear *g, const vt_attack *tools, int32_t image, vt_found *f, vt_err *e) {
    static const char *const starts[] = {"selftest again 1", "selftest again 2", "selftest again 3"};
    int label;
    VT_TRY(vt_eval_image(g->t->v, image, g->x, &label, e));
    f->again = f->noise || f->square || f->twin;
    for (int i = 0; i < 3 && !f->again; i++) VT_TRY(transfer(g, &tools[TWIN], label, image, starts[i], &f->again, e));
    return f->again ? VT_OK : one(g, &tools[LONG], g->t->v->eps, label, image, "selftest again", &f->again, e);
}
