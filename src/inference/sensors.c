/* SPDX-License-Identifier: MIT */
#include "inference/sensors.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "graph/network.h"
#include "linalg/svd.h"
#include "models/model.h"
#include "models/surgery.h"
#include "inference/classifier.h"

/* UNITS + SCORES + TURNED is VT_SENSORS_MOST: how many of each kind are kept. */
enum { MOVED = 24, CLEAN = VT_SENSORS_PASSES - MOVED, UNITS = 12, SCORES = 4, TURNED = 8 };
#define STEP (2 / 255.0) /* of every pixel, between an image and its neighbour */
#define ALIKE 0.9        /* two sensors whose movements correlate by more answer the same pattern: the first is kept */
#define RIDGE 0.003      /* of the mean variance: what so few images leave unknown of a covariance */

typedef struct sensor {
    double score;        /* deviation of its movement / deviation over images */
    double print[MOVED]; /* its movements, of length 1 */
    double mean, deviation;
    double *w; /* [phi] */
} sensor;

typedef struct survey {
    const vt_model *m;
    int point, n, moved;
    size_t phi, half;     /* half: width of the stream; phi: once or twice that */
    float *clean, *moves; /* [n, phi], [moved, phi] */
    double least;         /* noise of float32 among such values */
    sensor kept[VT_SENSORS_MOST];
    int count;
    double *row; /* [phi], then those of kept */
} survey;

/* ---- one candidate ---- */

/* Returns w . f, both [n]. */
static double dot(const double *w, const float *f, size_t n) {
    double v = 0;
    for (size_t k = 0; k < n; k++) v += w[k] * (double)f[k];
    return v;
}

/* Sets c's mean, deviation, print and score for w [half] on the class token's half (0) or the patches' (1); false: it
 * moves no more than noise. */
static bool measure_candidate(const survey *s, sensor *c, const double *w, int part) {
    size_t from = (size_t)part * s->half;
    double size = 0, s1 = 0, s2 = 0, length = 0;
    for (size_t k = 0; k < s->half; k++) size += w[k] * w[k];
    double noise = s->least * sqrt(size);
    for (int i = 0; i < s->n; i++) {
        double v = dot(w, s->clean + (size_t)i * s->phi + from, s->half);
        s1 += v, s2 += v * v;
    }
    c->mean = s1 / s->n;
    c->deviation = sqrt(fmax(s2 / s->n - c->mean * c->mean, 0) + noise * noise);
    for (int i = 0; i < s->moved; i++) {
        double v = dot(w, s->moves + (size_t)i * s->phi + from, s->half);
        c->print[i] = v, length += v * v;
    }
    length = sqrt(length);
    c->score = length / sqrt(s->moved) / c->deviation;
    for (int i = 0; i < s->moved; i++) c->print[i] /= length;
    return length > noise * sqrt(s->moved);
}

/* Returns whether two sensors answer the same pattern. */
static bool are_alike(const survey *s, const sensor *a, const sensor *b) {
    double same = 0;
    for (int k = 0; k < s->moved; k++) same += a->print[k] * b->print[k];
    return fabs(same) > ALIKE;
}

/* Adds w [half], on a part, to a kind that has `most` entries of s->kept from `first` on, *count in use, best first:
 * the better of two that are alike stays, and the worst is dropped. */
static void keep_if_better(survey *s, const double *w, int part, int first, int most, int *count) {
    sensor c = {0};
    if (!measure_candidate(s, &c, w, part)) return;
    int at = first;
    while (at < first + *count && s->kept[at].score >= c.score) at++;
    if (at == first + most) return;
    for (int i = first; i < at; i++)
        if (are_alike(s, &c, &s->kept[i])) return;
    for (int i = at; i < first + *count; i++) { /* worse ones that are alike */
        if (!are_alike(s, &c, &s->kept[i])) continue;
        double *room = s->kept[i].w;
        memmove(&s->kept[i], &s->kept[i + 1], (size_t)(first + *count - i - 1) * sizeof c);
        s->kept[first + --*count].w = room;
        i--;
    }
    int last = *count < most ? (*count)++ : most - 1;
    double *room = s->kept[first + last].w;
    memmove(&s->kept[at + 1], &s->kept[at], (size_t)(first + last - at) * sizeof c);
    c.w = room;
    memset(room, 0, s->phi * sizeof *room);
    memcpy(room + (size_t)part * s->half, w, s->half * sizeof *w);
    s->kept[at] = c;
}

/* ---- kinds ---- */

/* Returns 2 if class token and patches are apart in the features, else 1. */
static int part_count(const survey *s) { return (int)(s->phi / s->half); }

/* Adds pre-activations of the block's hidden units, if the point is after its attention; returns how many are kept. */
static int add_hidden_units(survey *s, int first) {
    vt_matrix a;
    int count = 0;
    if (s->point % 2 == 0 || !vt_model_matrix(s->m, s->point / 2, VT_WEIGHT_FC1, &a) || (size_t)a.cols != s->half)
        return 0;
    for (int u = 0; u < a.rows; u++) {
        for (size_t k = 0; k < s->half; k++) s->row[k] = (double)s->m->w[a.offset + (size_t)u * s->half + k];
        for (int part = 0; part < part_count(s); part++) keep_if_better(s, s->row, part, first, UNITS, &count);
    }
    return count;
}

/* Adds what a head's mean query of the class token looks for, in patches and itself: W_K' W_Q f, if the point is before
 * a block and has both apart; returns how many are kept. */
static int add_query_directions(survey *s, int first) {
    vt_matrix q, k;
    int count = 0;
    if (s->point % 2 || part_count(s) < 2 || s->m->config.qk_norm || s->point / 2 >= s->m->config.depth) return 0;
    if (!vt_model_matrix(s->m, s->point / 2, VT_WEIGHT_Q, &q) || !vt_model_matrix(s->m, s->point / 2, VT_WEIGHT_K, &k))
        return 0;
    if ((size_t)q.cols != s->half || (size_t)k.cols != s->half || q.rows != k.rows) return 0;
    int wide = q.rows / q.heads;
    for (int h = 0; h < q.heads; h++) {
        memset(s->row, 0, s->half * sizeof *s->row);
        for (int r = h * wide; r < (h + 1) * wide; r++) {
            double query = 0;
            for (int i = 0; i < s->n; i++)
                for (size_t j = 0; j < s->half; j++)
                    query += (double)s->m->w[q.offset + (size_t)r * s->half + j] *
                             (double)s->clean[(size_t)i * s->phi + j] / s->n;
            for (size_t j = 0; j < s->half; j++)
                s->row[j] += query * (double)s->m->w[k.offset + (size_t)r * s->half + j];
        }
        for (int part = 0; part < 2; part++) keep_if_better(s, s->row, part, first, SCORES, &count);
    }
    return count;
}

/* Sets c [half, half], its lower triangle, to the covariance of one part over the images, with a ridge; false: it holds
 * noise alone. Overwrites s->row. */
static bool compute_covariance(const survey *s, int part, double *c) {
    size_t d = s->half, from = (size_t)part * d;
    double trace = 0;
    memset(c, 0, d * d * sizeof *c);
    for (size_t j = 0; j < d; j++) {
        s->row[j] = 0;
        for (int i = 0; i < s->n; i++) s->row[j] += (double)s->clean[(size_t)i * s->phi + from + j] / s->n;
    }
    for (int i = 0; i < s->n; i++) {
        const float *f = s->clean + (size_t)i * s->phi + from;
        for (size_t j = 0; j < d; j++)
            for (size_t k = 0; k <= j; k++)
                c[j * d + k] += ((double)f[j] - s->row[j]) * ((double)f[k] - s->row[k]) / s->n;
    }
    for (size_t j = 0; j < d; j++) trace += c[j * d + j];
    for (size_t j = 0; j < d; j++) c[j * d + j] += RIDGE * trace / (double)d + s->least * s->least;
    return trace > (double)d * s->least * s->least;
}

/* Adds directions w that move most in units of the covariance C: w = C^-1 M' u, M the movements, u an eigenvector of M
 * C^-1 M'; *count in use. Scratch: solved [moved, half] C^-1 M', c and again [half, half]. */
static vt_status turned_part(survey *s, int part, double *c, double *again, double *solved, int first, int *count,
                             vt_err *e) {
    size_t d = s->half;
    double gram[MOVED * MOVED], values[MOVED], vectors[MOVED * MOVED];
    if (!compute_covariance(s, part, c)) return VT_OK;
    for (int i = 0; i < s->moved; i++) {
        const float *move = s->moves + (size_t)i * s->phi + (size_t)part * d;
        for (size_t k = 0; k < d; k++) solved[(size_t)i * d + k] = (double)move[k];
        memcpy(again, c, d * d * sizeof *c);
        VT_TRY(vt_solve_positive(solved + (size_t)i * d, again, (int)d, e));
    }
    for (int i = 0; i < s->moved; i++)
        for (int j = 0; j < s->moved; j++)
            gram[i * s->moved + j] = dot(solved + (size_t)j * d, s->moves + (size_t)i * s->phi + (size_t)part * d, d);
    VT_TRY(vt_eigen_symmetric(values, vectors, gram, s->moved, e));
    for (int r = 0; r < TURNED && r < s->moved && values[r] > 0; r++) {
        memset(s->row, 0, d * sizeof *s->row);
        for (int i = 0; i < s->moved; i++)
            for (size_t k = 0; k < d; k++) s->row[k] += vectors[r * s->moved + i] * solved[(size_t)i * d + k];
        keep_if_better(s, s->row, part, first, TURNED, count);
    }
    return VT_OK;
}

/* Adds the directions that move most in units of the covariance, of every part; *count of them from kept[first] on.
 * VT_E_NUMERIC. */
static vt_status add_whitened_directions(survey *s, int first, int *count, vt_err *e) {
    size_t d = s->half;
    double *room = vt_alloc((2 * d * d + MOVED * d) * sizeof *room);
    vt_status st = room ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for sensors");
    for (int part = 0; st == VT_OK && part < part_count(s); part++)
        st = turned_part(s, part, room, room + d * d, room + 2 * d * d, first, count, e);
    free(room);
    return st;
}

/* ---- all of a point ---- */

/* Sets *out to a copy of m up to the point with a head of `classes` logits; NULL: it cannot be cut there. */
static vt_status cut_at_point(vt_model **out, const vt_model *m, int point, int classes, vt_err *e) {
    return vt_points_inside(m) ? vt_cut_inside(out, m, point, classes, e)
                               : vt_cut_behind(out, m, point + 1, classes, e);
}

int vt_sensor_points(const vt_model *m) { return vt_points_inside(m) ? vt_points_inside(m) : m->config.depth; }

double vt_sensor_share(const vt_model *m, int point) {
    if (m->config.network) return m->config.network->shares[point];
    return vt_points_inside(m) ? vt_point_share(m, point) : (point + 1.0) / m->config.depth;
}

/* Sets s->clean to features of images, s->moves to how a random step of every pixel, keyed by seed, point and image,
 * moves the first of them, and s->least to their noise. */
static vt_status collect_features(survey *s, const vt_classifier *c, const vt_sensor_images *images, vt_err *e) {
    vt_rng r = {.seed = images->seed, .purpose = vt_rng_purpose("sensors"), .image = (uint32_t)s->point};
    float *x = vt_alloc(images->pixels * sizeof *x);
    double sum = 0;
    vt_status st = x ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for sensors");
    for (int i = 0; st == VT_OK && i < s->n; i++) {
        float *f = s->clean + (size_t)i * s->phi, *move = s->moves + (size_t)i * s->phi;
        st = images->read(images->ctx, (int)((int64_t)i * images->count / s->n), x, e);
        if (st == VT_OK) st = vt_classifier_logits(c, x, f, false, e);
        for (size_t k = 0; k < s->phi; k++) sum += (double)f[k] * (double)f[k];
        if (st != VT_OK || i >= s->moved) continue;
        r.step = (uint32_t)i;
        for (size_t k = 0; k < images->pixels; k++) {
            double to = (double)x[k] + (vt_rng_bits(&r, k) >> 31 ? STEP : -STEP);
            x[k] = (float)fmin(fmax(to, 0), 1);
        }
        st = vt_classifier_logits(c, x, move, false, e);
        for (size_t k = 0; k < s->phi; k++) move[k] -= f[k];
    }
    s->least = 8 * (double)FLT_EPSILON * sqrt(sum / s->n);
    free(x);
    return st;
}

/* Allocates the survey's features and sensors. */
static vt_status survey_open(survey *s, vt_err *e) {
    s->clean = vt_alloc((size_t)(CLEAN + MOVED) * s->phi * sizeof *s->clean);
    s->row = vt_alloc((1 + VT_SENSORS_MOST) * s->phi * sizeof *s->row);
    if (!s->clean || !s->row) return vt_fail(e, VT_E_MEMORY, "no memory for sensors");
    s->moves = s->clean + (size_t)CLEAN * s->phi;
    for (int i = 0; i < VT_SENSORS_MOST; i++) s->kept[i].w = s->row + (size_t)(1 + i) * s->phi;
    return VT_OK;
}

/* Sets *out to the network up to the point with a head that shows what was kept, in units of its deviation from its
 * mean; NULL: it cannot be cut there. */
static vt_status build_sensor_model(vt_model **out, survey *s, vt_err *e) {
    double *w = vt_alloc(VT_SENSORS_MOST * s->phi * sizeof *w), b[VT_SENSORS_MOST];
    vt_status st =
        w ? cut_at_point(out, s->m, s->point, s->count, e) : vt_fail(e, VT_E_MEMORY, "no memory for sensors");
    for (int i = 0; w && i < s->count; i++) {
        for (size_t k = 0; k < s->phi; k++) w[(size_t)i * s->phi + k] = s->kept[i].w[k] / s->kept[i].deviation;
        b[i] = -s->kept[i].mean / s->kept[i].deviation;
    }
    if (st == VT_OK && *out) vt_head_set(*out, w, b, s->count, s->phi);
    free(w);
    return st;
}

/* Sets s->kept and count. Each kind has entries of its own while it is collected; then the first of each kind, the
 * second of each, ...: a kind whose numbers are larger must not hide another. */
static vt_status collect_sensors(survey *s, vt_err *e) {
    const int first[] = {0, UNITS, UNITS + SCORES};
    int n[] = {add_hidden_units(s, first[0]), add_query_directions(s, first[1]), 0};
    sensor all[VT_SENSORS_MOST];
    VT_TRY(add_whitened_directions(s, first[2], &n[2], e));
    memcpy(all, s->kept, sizeof all);
    for (int i = 0; i < VT_SENSORS_MOST; i++)
        for (int kind = 0; kind < 3; kind++)
            if (i < n[kind]) s->kept[s->count++] = all[first[kind] + i];
    return VT_OK;
}

vt_status vt_sensors_make(vt_model **out, double scores[VT_SENSORS_MOST], const vt_model *m, int point,
                          const vt_sensor_images *images, int *passes, vt_err *e) {
    vt_model *bare = NULL;
    vt_classifier seen = {0};
    survey s = {.m = m, .point = point, .n = images->count < CLEAN ? images->count : CLEAN};
    *out = NULL, *passes = 0;
    VT_TRY(cut_at_point(&bare, m, point, 2, e));
    if (!bare || s.n < 2) {
        vt_model_close(bare);
        return VT_OK;
    }
    s.phi = vt_feature_count(bare), s.half = vt_points_inside(m) ? (size_t)m->config.dim : s.phi;
    s.moved = s.n < MOVED ? s.n : MOVED;
    vt_model_close(bare), bare = NULL;
    vt_status st = survey_open(&s, e);
    if (st == VT_OK) st = cut_at_point(&bare, m, point, (int)s.phi, e);
    if (st == VT_OK) vt_head_set(bare, NULL, NULL, (int)s.phi, s.phi), st = vt_classifier_open_f32(&seen, bare, e);
    if (st == VT_OK) st = collect_features(&s, &seen, images, e);
    if (st == VT_OK) *passes = s.n + s.moved, st = collect_sensors(&s, e);
    vt_classifier_close(&seen), vt_model_close(bare);
    if (st == VT_OK && s.count > 1) st = build_sensor_model(out, &s, e);
    for (int i = 0; i < s.count; i++) scores[i] = s.kept[i].score;
    free(s.clean), free(s.row);
    return st;
}

/* ---- of all points ---- */

/* Compares places: the first logit of every point before the second, ...; then the larger score. */
static int by_score(const void *a_, const void *b_) {
    const struct vt_sensor_place *a = a_, *b = b_;
    if (a->logit != b->logit) return a->logit - b->logit; /* the first of every point and kind, ... */
    if (a->score != b->score) return a->score < b->score ? 1 : -1;
    return a->point - b->point;
}

vt_status vt_sensors_open(vt_sensors *s, const vt_model *m, const vt_sensor_images *images, vt_err *e) {
    size_t n = (size_t)vt_sensor_points(m);
    *s = (vt_sensors){.points = (int)n, .nets = calloc(n + 1, sizeof *s->nets)};
    s->places = calloc(n * VT_SENSORS_MOST + 1, sizeof *s->places);
    vt_status st = s->nets && s->places ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for sensors");
    for (int i = 0; st == VT_OK && i < s->points; i++) {
        double scores[VT_SENSORS_MOST];
        int ignored;
        st = vt_sensors_make(&s->nets[i], scores, m, i, images, &ignored, e);
        for (int k = 0; st == VT_OK && s->nets[i] && k < s->nets[i]->config.classes; k++)
            s->places[s->count++] = (struct vt_sensor_place){i, k, scores[k]};
    }
    if (st == VT_OK) qsort(s->places, (size_t)s->count, sizeof *s->places, by_score);
    return st;
}

void vt_sensors_close(vt_sensors *s) {
    for (int i = 0; s->nets && i < s->points; i++) vt_model_close(s->nets[i]);
    free(s->nets), free(s->places);
    *s = (vt_sensors){0};
}

struct vt_sensor_sessions {
    const vt_sensors *of;
    vt_classifier *nets; /* [points] */
};

vt_status vt_sensor_sessions_open(vt_sensor_sessions **out, const vt_sensors *s, vt_err *e) {
    vt_sensor_sessions *o = *out = calloc(1, sizeof *o);
    if (o) *o = (vt_sensor_sessions){s, calloc((size_t)s->points + 1, sizeof *o->nets)};
    vt_status st = o && o->nets ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for sensors");
    for (int i = 0; st == VT_OK && i < s->points; i++)
        if (s->nets[i]) st = vt_classifier_open_f32(&o->nets[i], s->nets[i], e);
    return st;
}

vt_status vt_sensor_gradient(void *sessions, const float *x, int k, float *dx, vt_err *e) {
    const vt_sensor_sessions *s = sessions;
    const struct vt_sensor_place *at = &s->of->places[k];
    const vt_classifier *c = &s->nets[at->point];
    float z[VT_SENSORS_MOST], target[VT_SENSORS_MOST] = {0}, value;
    target[at->logit] = 1;
    VT_TRY(vt_classifier_logits(c, x, z, true, e));
    return vt_classifier_backward(c, &(vt_loss){.kind = VT_LOSS_LINEAR, .target = target}, &value, dx, e);
}

void vt_sensor_sessions_close(vt_sensor_sessions *s) {
    for (int i = 0; s && s->nets && i < s->of->points; i++) vt_classifier_close(&s->nets[i]);
    if (s) free(s->nets);
    free(s);
}
