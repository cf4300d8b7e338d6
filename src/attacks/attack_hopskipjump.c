/* SPDX-License-Identifier: MIT */
/* HopSkipJump: from the label alone. It walks along the decision boundary: which side points beside it fall on
 * estimates its normal, a step along that leads inside the other class, a binary search back to the boundary (Chen,
 * Jordan and Wainwright 2020, "HopSkipJumpAttack: A Query-Efficient Decision-Based Attack", algorithms 1 and 2;
 * constants of the authors' code). The start, which the paper leaves open, is noise: of single pixels and of blocks in
 * turn. */
#include <math.h>
#include <string.h>
#include "attacks/min_norm.h"

typedef struct params {
    int queries, draws, draws_most;
} params;

static const vt_opt opts[] = {
    VT_OPT_I("queries", params, queries, "forwards in all: the budget", 5000, 1, 10000000),
    VT_OPT_I("draws", params, draws, "points of the first estimate; the t-th has sqrt(t) times as many", 100, 1,
             100000),
    VT_OPT_I("draws_most", params, draws_most, "and no more than these", 10000, 1, 1000000),
    VT_OPT_END,
};

/* One image under attack. A question past the budget is not asked, and counts as not adversarial. */
typedef struct search {
    vt_oracle *o;
    const vt_task *t;
    vt_min_norm_point near;
    vt_rng r;
    int left;         /* queries */
    double theta;     /* what the binary search leaves open */
    float *at;        /* [n] on the boundary, on its far side */
    float *v, *sided; /* [n] its normal there; a sum */
    float *u, *y, *z; /* [n], [n], [K] */
} search;

/* Asks whether x [n] is adversarial, one of the queries, and keeps it if it is the nearest so far; false once they are
 * spent. */
static vt_status query_model(search *s, const float *x, bool *adversarial) {
    *adversarial = false;
    if (!s->left) return VT_OK;
    s->left--;
    VT_TRY(vt_oracle_logits(s->o, x, s->z));
    *adversarial = vt_min_norm_note(&s->near, x, s->z);
    return VT_OK;
}

/* Sets s->y to a point between the image and x, a share of the way (l2), or no further than that in any pixel (linf),
 * and returns it. */
static const float *point_between(search *s, const float *x, double share) {
    const vt_task *t = s->t;
    for (size_t i = 0; i < t->n; i++) {
        double d = (double)x[i] - (double)t->x[i];
        d = t->ball->norm == VT_L2 ? share * d : fmin(fmax(d, -share), share);
        s->y[i] = (float)((double)t->x[i] + d);
    }
    return s->y;
}

/* Moves s->at, which is adversarial, as near to the image as it stays so, by bisection down to theta or until the
 * queries are spent. */
static vt_status to_boundary(search *s) {
    const vt_task *t = s->t;
    bool linf = t->ball->norm == VT_LINF, yes;
    double far = linf ? vt_distance(VT_LINF, s->at, t->x, t->n) : 1, near = 0;
    double open = linf ? fmin(far * s->theta, s->theta) : s->theta;
    while (far - near > open && s->left) {
        double middle = (far + near) / 2;
        if (!(middle > near && middle < far)) break; /* all digits are used up */
        VT_TRY(query_model(s, point_between(s, s->at, middle), &yes));
        if (yes)
            far = middle;
        else
            near = middle;
    }
    memcpy(s->at, point_between(s, s->at, far), t->n * sizeof *s->at);
    return VT_OK;
}

/* Draws s->at: blocks of one colour each, a channel at a time, or pixels (side 1). Keyed by s->r, whose step it counts
 * up. */
static void draw_block_noise(search *s, int side) {
    const vt_task *t = s->t;
    for (size_t i = 0; i < t->n; i++) {
        size_t plane = vt_shape_plane(t->shape), w = (size_t)t->shape.width, c = i / plane, y = i % plane / w,
               x = i % w, k = (size_t)side;
        s->at[i] = vt_rng_uniform(&s->r, (c * (size_t)t->shape.height + y / k) * w + x / k);
    }
    s->r.step++;
}

/* Draws noise images into s->at, of pixels and of blocks in turn, until one is adversarial; *found false: the queries
 * ran out first. */
static vt_status find_start_point(search *s, bool *found) {
    int side = s->t->shape.height / 4 > 0 ? s->t->shape.height / 4 : 1;
    *found = false;
    for (int i = 0; s->left && !*found; i++) {
        draw_block_noise(s, i % 2 ? side : 1);
        VT_TRY(query_model(s, s->at, found));
    }
    return VT_OK;
}

/* Draws s->u, a direction of length 1 (normal, or uniform for linf), as the box lets it go from s->at; s->y: its end at
 * `reach`. Keyed by s->r, whose step it counts up. */
static void draw_direction(search *s, double reach) {
    const vt_task *t = s->t;
    if (t->ball->norm == VT_L2)
        vt_rng_normals(&s->r, s->u, t->n);
    else
        for (size_t i = 0; i < t->n; i++) s->u[i] = 2 * vt_rng_uniform(&s->r, i) - 1;
    s->r.step++;
    double f = reach / vt_length(VT_L2, s->u, t->n);
    for (size_t i = 0; i < t->n; i++) {
        double y = fmin(fmax((double)s->at[i] + f * (double)s->u[i], 0), 1);
        s->y[i] = (float)y;
        s->u[i] = (float)((y - (double)s->at[i]) / reach);
    }
}

/* Sets s->v = the mean of (side - mean side) u, to length 1 (linf: its signs); side 1 where u leads to the other class,
 * else -1 (section III-C); all on one side: the mean of side u. */
static vt_status estimate_normal(search *s, int draws, double reach) {
    const vt_task *t = s->t;
    float *sum = s->v, *sided = s->sided;
    double up = 0;
    int n = 0;
    bool yes;
    memset(sum, 0, t->n * sizeof *sum), memset(sided, 0, t->n * sizeof *sided);
    for (; n < draws && s->left; n++) {
        draw_direction(s, reach);
        VT_TRY(query_model(s, s->y, &yes));
        up += yes;
        for (size_t i = 0; i < t->n; i++) sum[i] += s->u[i], sided[i] += yes ? s->u[i] : -s->u[i];
    }
    double mean = n ? 2 * up / n - 1 : 0;
    bool one_sided = n && (mean == 1 || mean == -1);
    for (size_t i = 0; i < t->n; i++) {
        double g = one_sided ? (double)sided[i] : (double)sided[i] - mean * (double)sum[i];
        s->v[i] = (float)g;
    }
    vt_ball_step(t->ball, s->v, s->v, 1); /* of length 1; linf: its signs */
    return VT_OK;
}

/* Moves s->at along s->v by `step`, halved until the point is adversarial; it stays where none is before the queries
 * are spent. */
static vt_status step_along_normal(search *s, double step) {
    const vt_task *t = s->t;
    bool yes = false;
    while (!yes && s->left && step > 0) {
        for (size_t i = 0; i < t->n; i++) s->y[i] = (float)fmin(fmax((double)s->at[i] + step * (double)s->v[i], 0), 1);
        VT_TRY(query_model(s, s->y, &yes));
        step /= 2;
    }
    if (yes) memcpy(s->at, s->y, t->n * sizeof *s->at);
    return VT_OK;
}

/* Repeats normal, step and binary search from the boundary point s->at until the queries are spent. */
static vt_status walk_along_boundary(search *s, const params *p) {
    const vt_task *t = s->t;
    vt_norm norm = t->ball->norm;
    double n = (double)t->n;
    for (int k = 1; s->left; k++) {
        double dist = vt_distance(norm, s->at, t->x, t->n);
        double reach = k == 1 ? 0.1 : (norm == VT_L2 ? sqrt(n) : n) * s->theta * dist;
        double draws = fmin(p->draws * sqrt(k), p->draws_most);
        VT_TRY(estimate_normal(s, (int)draws, reach));
        VT_TRY(step_along_normal(s, dist / sqrt(k)));
        VT_TRY(to_boundary(s));
    }
    return VT_OK;
}

/* Walks along the boundary from the first adversarial point found; t->x_adv: the nearest one met in the ball, else x
 * (vt_min_norm_note). */
static vt_status run(vt_oracle *o, const void *params_, const vt_task *t) {
    const params *p = params_;
    float *w = t->work + t->classes;
    double n = (double)t->n;
    bool found;
    search s = {.o = o, .t = t, .r = t->rng, .left = p->queries, .at = w, .v = w + t->n, .sided = w + 2 * t->n};
    s.u = s.sided + t->n, s.y = s.u + t->n, s.z = s.y + t->n;
    s.theta = 1 / (t->ball->norm == VT_L2 ? n * sqrt(n) : n * n);
    if (!vt_min_norm_open(&s.near, o, t, -1)) return VT_OK;
    VT_TRY(find_start_point(&s, &found));
    if (!found) return VT_OK;
    VT_TRY(to_boundary(&s));
    return walk_along_boundary(&s, p);
}

VT_COST(params, .forwards = p->queries)

const vt_attack_def vt_attack_def_hopskipjump = {
    .name = "hopskipjump",
    .summary = "decision-based: along the boundary, from labels alone, with a budget of queries",
    .reference = "Chen, Jordan and Wainwright 2020, algorithms 1 and 2",
    .norms = VT_CAN_LINF | VT_CAN_L2,
    .minimum_norm = true,
    .traits = VT_CANNOT_AIM | VT_FROM_LABELS,
    VT_ATTACK_CODE(params, .images = 5, .logits = 2),
};
