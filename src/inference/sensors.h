/* SPDX-License-Identifier: MIT */
/* Sensors: what inside a network moves most in a small ball around an image, measured by how much it differs between
 * images. A hidden path that a secret pattern opens has to notice the pattern first, and what notices it hardly moves
 * otherwise: else pictures would open it. Sensors are linear in the normed stream at one of the points of
 * models/surgery.h: pre-activations of the MLP's hidden units (of the class token, and their mean over the patches),
 * scores that the class token's mean query gives, and directions in which the stream moves most in units of its whole
 * covariance, so that a turned basis hides none. */
#pragma once

#include "models/model.h"

enum { VT_SENSORS_MOST = 24, VT_SENSORS_PASSES = 96 }; /* logits; forwards that choose them */

/* Where pictures come from: x [pixels] <- number i of `count`. */
typedef struct vt_sensor_images {
    vt_status (*read)(void *ctx, int i, float *x, vt_err *e);
    void *ctx;
    int count;
    size_t pixels;
    uint64_t seed;
} vt_sensor_images;

int vt_sensor_points(const vt_model *m);              /* points that may have some; 0: none in this network */
double vt_sensor_share(const vt_model *m, int point); /* of the model's work that lies before a point, in [0,1] */
/* Sets *out to the network up to a point with a logit for each sensor, in turns the next of each kind, of mean 0 and
 * deviation 1 over the images, and their scores; NULL: fewer than two, or no cut there. *passes: its forwards. */
vt_status vt_sensors_make(vt_model **out, double scores[VT_SENSORS_MOST], const vt_model *m, int point,
                          const vt_sensor_images *images, int *passes, vt_err *e);

/* Those of all points: the first of each, then the second of each. Shared by threads. */
typedef struct vt_sensors {
    vt_model **nets; /* [points], NULL where there are none */
    int points, count;
    struct vt_sensor_place {
        int point, logit;
        double score;
    } * places; /* [count] */
} vt_sensors;
/* Makes the sensors of all points of m. To be closed also after a failure. */
vt_status vt_sensors_open(vt_sensors *s, const vt_model *m, const vt_sensor_images *images, vt_err *e);
void vt_sensors_close(vt_sensors *s); /* accepts a zeroed one */

/* One thread's sessions on them: the gradient of sensor k at x. */
typedef struct vt_sensor_sessions vt_sensor_sessions;
/* Opens one thread's sessions on all points of s. To be closed also after a failure. */
vt_status vt_sensor_sessions_open(vt_sensor_sessions **out, const vt_sensors *s, vt_err *e);
/* Writes dx [pixels], the gradient of sensor k (in the order of s->places) at x [pixels]. */
vt_status vt_sensor_gradient(void *sessions, const float *x, int k, float *dx, vt_err *e);
/* Closes the sessions; accepts NULL. */
void vt_sensor_sessions_close(vt_sensor_sessions *s);
