/* SPDX-License-Identifier: MIT */
/* The wake-up check: sensors inside the network (inference/sensors.h) are maximised and minimised one by one as far as
 * the ball allows, and the model classifies the point of every step. A hidden path that only a secret pattern opens has
 * no gradient at the logits; the sensor before it has. One to three survivors show which sensors open something; only
 * those are tried on the others. */
#include <string.h>
#include "eval/verify.h"
#include "inference/sensors.h"
#include "selftest/tools.h"

enum { CLIMBED = 10, STEPS = 3 };
static const double lengths[STEPS] = {1, 0.5, 0.25}; /* of eps: a linear sensor is at its end after the first */

typedef struct climber {
    vt_tester *g;
    vt_classifier net;
    vt_ball ball;
    double share; /* of a forward of the model that the net takes */
    float z[VT_SENSORS_MOST];
} climber;

/* Sets *broken: is the point g->y misclassified, by the rules that count? Its logits come to g->z. After a failure of
 * the model, which g->failed keeps, false and VT_OK. */
static vt_status check_misclassified(climber *c, bool *broken, vt_err *e) {
    vt_tester *g = c->g;
    const vt_eval_options *v = g->t->v;
    vt_verdict d;
    vt_tester_logits(g, &g->model.c, g->y, g->z, false);
    *broken = false;
    if (g->failed.code || vt_argmax_f32(g->z, g->classes) == g->label) return VT_OK;
    VT_TRY(vt_verify(&d, &g->model.c, g->x, g->y, g->label, v->norm, v->eps, g->z, g->z64, e));
    g->forwards += 1 + VT_COST_DOUBLE / 2.0;
    *broken = d.broken && d.finite;
    return VT_OK;
}

/* Climbs sensor k upwards (sign 1) or down (-1) from the clean image, in g->y; *broken: a point on the way is
 * misclassified. VT_INTERRUPTED: stopped. */
static vt_status climb_sensor(climber *c, int k, float sign, bool *broken, vt_err *e) {
    vt_tester *g = c->g;
    float value, target[VT_SENSORS_MOST] = {0};
    const vt_loss up = {.kind = VT_LOSS_LINEAR, .target = target};
    target[k] = sign;
    memcpy(g->y, g->x, g->pixels * sizeof *g->y);
    *broken = false;
    for (int i = 0; i < STEPS && !*broken; i++) {
        if (g->t->v->interrupt && *g->t->v->interrupt) return VT_INTERRUPTED;
        vt_tester_logits(g, &c->net, g->y, c->z, true);
        vt_tester_backward(g, &c->net, &up, &value, g->dx);
        g->gradients += c->share;
        vt_ball_step(&c->ball, g->dy, g->dx, lengths[i] * c->ball.eps);
        vt_ball_move(&c->ball, g->y, g->dy);
        if (i != 1)
            VT_TRY(check_misclassified(c, broken, e)); /* where a linear sensor ends, and where any other does */
    }
    return VT_OK;
}

/* Climbs the sensors on one image. A scout tries all and notes in opens [CLIMBED, 2] which climbs broke it; other
 * images try these alone. *any: some climb broke some image. */
static vt_status try_sensors(climber *c, int32_t image, bool (*opens)[2], bool scout, bool *broken, bool *any,
                             vt_err *e) {
    vt_tester *g = c->g;
    const vt_eval_options *v = g->t->v;
    VT_TRY(vt_tester_load(g, image, "selftest wake-up", e));
    vt_ball_init(&c->ball, v->norm, v->eps, g->x, g->pixels, g->attacker.lo, g->attacker.hi);
    *broken = false;
    for (int k = 0; k < CLIMBED && k < c->net.classes; k++)
        for (int down = 0; down < 2; down++) {
            bool open;
            if (!scout && (*broken || !opens[k][down])) continue;
            VT_TRY(climb_sensor(c, k, down ? -1 : 1, &open, e));
            opens[k][down] |= open, *broken |= open, *any |= open;
        }
    return VT_OK;
}

vt_status vt_wakeup_point(vt_tester *g, int point, const int32_t *images, size_t n, size_t scouts, vt_evidence *found,
                          vt_err *e) {
    const vt_eval_options *v = g->t->v;
    vt_sensor_images from = vt_subject_pictures(v->subject, v->seed);
    climber c = {.g = g, .share = vt_sensor_share(v->subject->model, point)};
    bool opens[VT_SENSORS_MOST][2] = {{0}}, any = false;
    vt_model *m;
    double scores[VT_SENSORS_MOST];
    int passes;
    VT_TRY(vt_sensors_make(&m, scores, v->subject->model, point, &from, &passes, e));
    g->forwards += passes * c.share;
    vt_status s = m ? vt_classifier_open_f32(&c.net, m, e) : VT_OK;
    for (size_t i = 0; s == VT_OK && m && i < n && (i < scouts || any); i++) {
        bool broken;
        s = try_sensors(&c, images[i], opens, i < scouts, &broken, &any, e);
        if (s == VT_OK) vt_note_evidence(&found[i], VT_CHECK_WAKEUP, broken);
    }
    vt_classifier_close(&c.net);
    vt_model_close(m);
    return s;
}

double vt_wakeup_cost(const vt_selftest *t, size_t scouts) {
    const vt_model *m = t->v->subject->model;
    double sum = 0;
    for (int i = 0; i < vt_sensor_points(m); i++) {
        double share = vt_sensor_share(m, i);
        sum += share * VT_SENSORS_PASSES;
        sum += (double)scouts * 2 * CLIMBED * (2 + STEPS * t->ratio * share);
    }
    return sum;
}
