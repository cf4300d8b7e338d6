/* SPDX-License-Identifier: MIT */
/* The threat of a finite grid of rotations and translations (Engstrom et al. 2019, "Exploring the Landscape of Spatial
 * Robustness"): every angle with every translation across and down. An image is rotated about its centre, counter-
 * clockwise for angles above 0, then translated, by bilinear interpolation each; what lies outside of it is 0. The
 * authors pad by 16 zeros, rotate, translate and crop; this is their image for a padding without end. */
#pragma once

#include "base/shape.h"
#include "base/status.h"

/* Values from -angle to angle and from -shift to shift, ends included, equally spaced; one value is 0. angles 0: no
 * rotation threat. */
typedef struct vt_rotation {
    double angle, shift; /* degrees; pixels */
    int angles, shifts;
} vt_rotation;

enum { VT_ROTATION_ANGLE = 180, VT_ROTATION_COUNT = 1000, VT_ROTATION_POINTS = 1000000 };

/* Returns whether a text names this threat: "rotation", with or without options. */
bool vt_rotation_named(const char *text);
/* Parses "rotation:angle=30,shift=3,angles=31,shifts=5", of which all may be absent; VT_E_USAGE names what is wrong. A
 * limit of 0 and a count of 1 each make the other so. */
vt_status vt_rotation_parse(vt_rotation *out, const char *text, vt_err *e);
/* Refuses (VT_E_USAGE) translations that leave nothing of an image of this shape, and more than VT_ROTATION_POINTS. */
vt_status vt_rotation_fit(const vt_rotation *r, vt_shape shape, vt_err *e);

/* One point of the grid. */
typedef struct vt_motion {
    double angle, right, down; /* degrees; pixels */
} vt_motion;

/* Returns how many points the grid has: angles shifts^2. */
int vt_rotation_points(const vt_rotation *r);
/* Returns point k: angles run fastest, then translations down. */
vt_motion vt_rotation_point(const vt_rotation *r, int k);
/* Sets out [shape] to the transform of x [shape], computed in double, each value rounded to the nearest float. */
void vt_rotation_apply(float *out, const float *x, vt_shape shape, vt_motion t);
