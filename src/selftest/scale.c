/* SPDX-License-Identifier: MIT */
/* Part 2: does the gradient tell the loss at the distances that matter? At a point a gradient can be exact and lead
 * nowhere: a plateau with a slight tilt, a staircase, a fast wave. So it is compared with what the logits do further
 * away: on the segment to another image, over steps of the ball's size, under noise of that size, and with the gradient
 * in double. About 110 forwards an image. The bounds are far outside of what honest networks of many kinds show
 * (docs/selftest.md has the table). */
#include <math.h>
#include <string.h>
#include "selftest/tools.h"

#define FURTHEST (4 / 255.0) /* of each pixel: beyond it honest networks bend, too, and what stands there is rare */
#define NEAREST (1 / 2550.0) /* below it float32 noise would be measured */
enum { POINTS = 33, HALVINGS = 5, SCALES = 3, DRAWS = 2 };
static const double scales[SCALES] = {1.0 / 16, 1.0 / 4, 1};

/* Returns the inner product of n floats, in double. */
static double dot(const float *a, const float *b, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++) s += (double)a[i] * (double)b[i];
    return s;
}

/* Writes x + t (y - x) into `to` [pixels] and returns it. */
static const float *point_on_segment(const vt_tester *g, const float *y, double t, float *to) {
    for (size_t i = 0; i < g->pixels; i++) to[i] = (float)((double)g->x[i] + t * ((double)y[i] - (double)g->x[i]));
    return to;
}

/* The segment from x to y at 33 points: f, and slope, the derivative along it that the gradient claims. */
typedef struct walk {
    double f[POINTS], slope[POINTS];
} walk;

/* Fills w with logit a minus b, and the derivative that the gradient claims, along the way from x to y. */
static void sample_segment(walk *w, vt_tester *g, const float *y, int a, int b) {
    for (int i = 0; i < POINTS; i++) {
        w->f[i] = vt_logit_difference(g, point_on_segment(g, y, i / (POINTS - 1.0), g->attacker.x_adv), a, b, g->dx);
        w->slope[i] = vt_predicted_change(g, g->dx, y);
    }
}

/* Returns how far the slopes' predictions of the 32 steps (trapezoidal rule) miss the steps: sum of errors as a share
 * of the sum of steps. */
static double path_error(const walk *w) {
    double error = 0, sum = 0;
    for (int i = 1; i < POINTS; i++) {
        double step = w->f[i] - w->f[i - 1];
        error += fabs(step - (w->slope[i] + w->slope[i - 1]) / 2 / (POINTS - 1));
        sum += fabs(step);
    }
    return error / sum;
}

/* Returns what 1/1024 of the segment changes, as a share of all: the largest step, halved five times, always to the
 * half that changes more. Of a slope little is left, of a jump everything. */
static double largest_jump(const walk *w, vt_tester *g, const float *y, int a, int b) {
    double sum = 0;
    int most = 1;
    for (int i = 1; i < POINTS; i++) {
        sum += fabs(w->f[i] - w->f[i - 1]);
        if (fabs(w->f[i] - w->f[i - 1]) > fabs(w->f[most] - w->f[most - 1])) most = i;
    }
    double from = (most - 1) / (POINTS - 1.0), to = most / (POINTS - 1.0), low = w->f[most - 1], high = w->f[most];
    for (int i = 0; i < HALVINGS; i++) {
        double mid = (from + to) / 2,
               f = vt_logit_difference(g, point_on_segment(g, y, mid, g->attacker.x_adv), a, b, NULL);
        if (fabs(f - low) > fabs(high - f))
            to = mid, high = f;
        else
            from = mid, low = f;
    }
    return fabs(high - low) / sum;
}

/* Compares steps of 1/16, 1/4 and 1 of eps along the gradient with its prediction. Returns by how much the ratio lies
 * outside of [least, most] (above 1: outside). */
static double scale_error(vt_tester *g, const vt_ball *ball, int a, int b, double f0) {
    static const double least[SCALES] = {0.4, 0.1, 0}, most[SCALES] = {2.5, 6, 10};
    double worst = 0;
    for (int k = 0; k < SCALES; k++) {
        float *to = g->attacker.x_adv;
        vt_ball_step(ball, to, g->dx, scales[k] * ball->eps);
        for (size_t i = 0; i < g->pixels; i++) to[i] = (float)fmin(fmax((double)g->x[i] - (double)to[i], 0), 1);
        double ratio = (vt_logit_difference(g, to, a, b, NULL) - f0) / vt_predicted_change(g, g->dx, to);
        double off = fmax((1 - ratio) / (1 - least[k]), (ratio - 1) / (most[k] - 1));
        worst = off <= worst || isnan(worst) ? worst : off;
    }
    return worst;
}

/* Compares the gradient at x with those at random points 1/16, 1/4 and 1 of eps away. Returns by how much the cosine
 * falls below its bound (above 1: below). */
static double gradient_roughness(vt_tester *g, vt_ball *ball, int a, int b, vt_rng r) {
    static const double least[SCALES] = {0.7, 0.5, 0.1};
    double worst = 0, length = sqrt(dot(g->dx, g->dx, g->pixels)), eps = ball->eps;
    for (int k = 0; k < SCALES; k++) {
        double cosine = 0;
        ball->eps = scales[k] * eps;
        for (int i = 0; i < DRAWS; i++) {
            r.step = (uint32_t)(k * DRAWS + i);
            vt_ball_start_surface(ball, &r, g->y);
            vt_logit_difference(g, g->y, a, b, g->dy);
            cosine += dot(g->dx, g->dy, g->pixels) / (length * sqrt(dot(g->dy, g->dy, g->pixels))) / DRAWS;
        }
        double off = (1 - cosine) / (1 - least[k]);
        worst = off <= worst || isnan(worst) ? worst : off;
    }
    ball->eps = eps;
    return worst;
}

/* Returns one minus the cosine of the float32 gradient, in g->dx, and the double one, or the share of pixels whose
 * signs differ if that is more. */
static double backward_error(vt_tester *g, int a, int b) {
    const vt_dataset *data = g->t->v->subject->data;
    double *dz = g->z64, both = 0, f = 0, d = 0, signs = 0, n = (double)g->pixels;
    for (size_t i = 0; i < g->pixels; i++) g->wide[i] = (double)g->x[i];
    vt_session_forward_f64(g->look64, g->wide, 1, true);
    memset(dz, 0, (size_t)g->t->v->subject->model->config.classes * sizeof *dz);
    dz[data->restricted ? data->head[a] : a] = 1, dz[data->restricted ? data->head[b] : b] = -1;
    vt_session_backward_f64(g->look64, dz, g->wide, NULL);
    g->forwards += VT_COST_DOUBLE;
    for (size_t i = 0; i < g->pixels; i++) {
        double x = (double)g->dx[i], y = g->wide[i];
        both += x * y, f += x * x, d += y * y;
        signs += (x > 0) - (x < 0) != (y > 0) - (y < 0);
    }
    return f == 0 && d == 0 ? 0 : fmax(1 - both / sqrt(f * d), signs / n);
}

vt_status vt_scale_image(vt_tester *g, int32_t image, vt_evidence *f, vt_err *e) {
    const vt_eval_options *v = g->t->v;
    double each = vt_box_diameter(v->norm, g->pixels);
    vt_ball ball;
    walk w;
    int b;
    float *y = g->planted;
    VT_TRY(vt_tester_load(g, image, "selftest scale", e));
    VT_TRY(vt_subject_image(v->subject, g->partner, y, &b, e));
    const int label = g->label;
    vt_ball_init(&ball, v->norm, fmin(fmax(v->eps, NEAREST * each), FURTHEST * each), g->x, g->pixels, g->attacker.lo,
                 g->attacker.hi);
    vt_logit_difference(g, y, 0, 1, NULL);
    b = vt_argmax_f32(g->z, g->classes);
    if (b == label) b = vt_best_other_f32(g->z, label, g->classes);
    sample_segment(&w, g, y, label, b);
    vt_note_value(f, VT_CHECK_SEGMENT, largest_jump(&w, g, y, label, b));
    vt_note_value(f, VT_CHECK_PATH, path_error(&w));
    vt_logit_difference(g, g->x, 0, 1, NULL);
    b = vt_best_other_f32(g->z, label, g->classes);
    double f0 = vt_logit_difference(g, g->x, label, b, g->dx);
    vt_note_value(f, VT_CHECK_SCALE, scale_error(g, &ball, label, b, f0));
    vt_note_value(f, VT_CHECK_ROUGH, gradient_roughness(g, &ball, label, b, g->key));
    if (g->look64) vt_note_value(f, VT_CHECK_BACKWARD, backward_error(g, label, b));
    return VT_OK;
}
