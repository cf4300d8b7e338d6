/* One thread's tools, and the parts of the self-test. */
#ifndef VT_SELFTEST_TOOLS_H
#define VT_SELFTEST_TOOLS_H

#include "models/session.h"
#include "selftest/selftest.h"

typedef struct vt_gear {
    const vt_selftest *t;
    int classes;
    vt_classifier model, twin, features, two; /* two: with a head of two classes */
    vt_oracle o_model, o_twin, o_two;
    vt_session_f32 *look; /* to see the attention of the network itself; NULL: its architecture does not show it */
    vt_model *m_twin, *m_features, *m_two;
    size_t pixels, phi; /* phi: features */
    float *x, *y, *x_adv, *lo, *hi, *z, *dx, *dy, *work;
    double *z64;
    /* active test: features of all points [points, phi] and its scratch */
    float *points;
    double *fit;
    float *planted; /* [pixels] */
    double forwards, gradients;
} vt_gear;

/* Opens what the parts need: the model; with `look` a session of its own; with `attacks` the twin; with `active` the
 * nets of other heads. Twin and features of the first thread serve all (first: NULL for that one), which must be closed
 * last. */
vt_status vt_gear_open(vt_gear *g, const vt_selftest *t, const vt_gear *first, bool look, bool attacks, bool active,
                       vt_err *e);
void vt_gear_close(vt_gear *g); /* accepts a zeroed one */

/* A copy of m with another head of `classes` outputs, all zero; everything else the same. */
vt_status vt_other_head(vt_model **out, const vt_model *m, int classes, vt_err *e);
/* Rows of the copies' heads from w [rows, phi] and b [rows]; phi is what vt_features_head makes visible. */
void vt_head_set(vt_model *m, const double *w, const double *b, int rows, size_t phi);
int vt_head_count(const vt_model *m); /* 2 for a distilled model */

vt_rng vt_selftest_key(const vt_selftest *t, const char *purpose, int32_t image);

/* Runs one stage against `o` and lets the separate code judge the point on `judge`. g->x is the image; o's classifier
 * may be another one (a twin). */
typedef struct vt_trial_of {
    vt_oracle *o;
    const vt_classifier *judge;
    double eps;
    int label, classes;
    int32_t image;
    const char *purpose;
    bool to_the_end; /* never leave early: what counts is the last point */
} vt_trial_of;
vt_status vt_try_attack(vt_gear *g, const vt_attack_stage *stage, const vt_trial_of *t, bool *broken, vt_err *e);
/* q points of the ball, half on its surface, half in its corners (linf; l2: all on the surface): is one of them
 * misclassified? */
vt_status vt_try_noise(vt_gear *g, const vt_classifier *c, int label, int classes, int32_t image, int q, bool corners,
                       bool *broken);

/* Part 1: bits of one image (1u << vt_check_id). */
vt_status vt_direct_image(vt_gear *g, int32_t image, unsigned *bits, vt_err *e);

/* Part 2: which attacks broke one image. */
typedef struct vt_found {
    bool half, brief, white, whole, whole_tried, noise, square, twin, again;
} vt_found;
vt_status vt_attack_tools(vt_attack tools[8], vt_norm norm, double eps, vt_err *e);
vt_status vt_found_image(vt_gear *g, const vt_attack *tools, int32_t image, bool witness, vt_found *f, vt_err *e);
/* The same survivors once more, with more of everything. */
vt_status vt_found_again(vt_gear *g, const vt_attack *tools, int32_t image, vt_found *f, vt_err *e);

/* Part 3: one image of the active test. */
enum { VT_ACTIVE_INNER = 199, VT_ACTIVE_RANDOM = 100 };
typedef struct vt_active_bits {
    bool setup, found, surface, corner;
} vt_active_bits;
vt_status vt_active_image(vt_gear *g, int32_t image, vt_active_bits *bits, vt_err *e);

/* Maximal-margin direction that separates point `last` from all others: w [d], b with w.x + b > 0 for it alone.
 * x [n, d] rows; scratch [n * n + 4 n + 2 d]. false: not separated. */
bool vt_separate(double *w, double *b, const float *x, int n, size_t d, double *scratch);

#endif
