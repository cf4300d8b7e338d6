/* SPDX-License-Identifier: MIT */
#include "eval/verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/stats.h"

/* Measures |y - x| [n] in all norms, and whether y lies in the ball and in [0,1]. */
static void measure_distances(vt_verdict *v, const float *x, const float *y, size_t n, vt_norm norm, double eps) {
    long double squares = 0, sum = 0;
    double largest = 0, differ = 0;
    bool fine = true;
    for (size_t i = 0; i < n; i++) {
        double d = (double)y[i] - (double)x[i];
        fine = fine && y[i] >= 0 && y[i] <= 1 && isfinite(d);
        squares += (long double)d * (long double)d;
        sum += (long double)fabs(d);
        differ += y[i] != x[i];
        if (fabs(d) > largest) largest = fabs(d);
    }
    v->linf = largest, v->l2 = (double)sqrtl(squares), v->l1 = (double)sum;
    v->l0 = differ;
    v->inside = fine && (norm == VT_LINF ? v->linf : norm == VT_L2 ? v->l2 : norm == VT_L1 ? v->l1 : v->l0) <= eps;
}

vt_rng vt_verdict_key(uint64_t seed, int32_t image, int entry, int stage) {
    const char *purpose = entry ? "verdict" : "clean";
    uint32_t run = (uint32_t)entry << 16 | (uint32_t)stage;
    return (vt_rng){.seed = seed, .purpose = vt_rng_purpose(purpose), .image = (uint32_t)image, .run = run};
}

bool vt_verdict_open(const vt_verdict *v) { return vt_mcnemar_exact(v->wrong, v->votes - v->wrong).two_sided >= 0.05; }

/* What is asked of a point: another class than the label, or (target >= 0) that one. */
typedef struct question {
    int label, target;
} question;

static bool is_adversarial_class(question q, int pred) { return q.target < 0 ? pred != q.label : pred == q.target; }

/* Reads one answer, the logits z32 or, if that is NULL, z64: *pred is its class, *margin as vt_verdict.margin. Returns
 * whether all of them are finite. */
static bool read_answer(int *pred, double *margin, question q, const float *z32, const double *z64, int classes) {
    int from = q.target < 0 ? q.label : q.target;
    double most = -INFINITY, best = z32 ? (double)z32[0] : z64[0], base = z32 ? (double)z32[from] : z64[from];
    bool finite = true;
    *pred = 0;
    for (int k = 0; k < classes; k++) {
        double z = z32 ? (double)z32[k] : z64[k];
        if (z > best) best = z, *pred = k;
        finite = finite && isfinite(z);
        if (k != from) most = fmax(most, z - base);
    }
    *margin = q.target < 0 ? most : -most;
    return finite;
}

/* Sets broken and borderline from the other fields. */
static void decide_if_broken(vt_verdict *v, question q) {
    v->broken = v->inside && v->finite && is_adversarial_class(q, v->pred);
    if (v->votes) {
        v->broken = v->inside && v->finite && 2 * v->wrong > v->votes;
        v->borderline = v->broken && vt_verdict_open(v);
        return;
    }
    v->borderline = v->broken && (v->unsure || !is_adversarial_class(q, v->pred64) || !(v->margin > v->noise) ||
                                  (v->again && !(v->margin64 > v->noise)));
}

/* Returns the largest difference of one logit between any two of z and the rows of z64 [rows, n]. */
static double noise_of(const float *z, const double *z64, int rows, int n) {
    double most = 0;
    for (int k = 0; k < n; k++) {
        double low = (double)z[k], high = low;
        for (int r = 0; r < rows; r++) low = fmin(low, z64[r * n + k]), high = fmax(high, z64[r * n + k]);
        most = fmax(most, high - low);
    }
    return most;
}

/* Returns the most frequent class among the wrong votes if these are more than half, else among the others. */
static int majority_class(const int *pred, const vt_verdict *v, question q) {
    int best = q.label, most = 0;
    bool wrong = 2 * v->wrong > v->votes;
    for (int r = 0; r < v->votes; r++) {
        int same = 0;
        for (int k = 0; k < v->votes; k++) same += pred[k] == pred[r];
        if (is_adversarial_class(q, pred[r]) == wrong && same > most) best = pred[r], most = same;
    }
    return best;
}

/* Combines the repeated queries in z64 with z: pred64 and margin64 of the least sure one; of a model that draws, the
 * majority's class and mean margins. finite: all logits of z64 are. Returns how many are wrong. */
static int combine_answers(vt_verdict *v, const vt_classifier *m, question q, const float *z, const double *z64) {
    int rows = vt_classifier_votes(m), n = m->classes, wrong = 0, pred[VT_VOTES_MOST];
    double sum = 0, margin;
    v->margin64 = INFINITY, v->pred64 = 0, v->votes = v->wrong = 0, v->again = rows > 1, v->finite = true;
    v->noise = noise_of(z, z64, rows, n);
    for (int r = 0; r < rows; r++) {
        v->finite = read_answer(&pred[r], &margin, q, NULL, z64 + r * n, n) && v->finite;
        if (margin < v->margin64) v->margin64 = margin, v->pred64 = pred[r];
        sum += margin, wrong += is_adversarial_class(q, pred[r]);
    }
    if (!m->random) return wrong;
    v->votes = rows, v->wrong = wrong;
    v->pred = v->pred64 = majority_class(pred, v, q);
    v->margin = v->margin64 = sum / rows;
    return wrong;
}

vt_status vt_predict(vt_verdict *v, bool *unsure, const vt_classifier *m, const float *x, int label, float *z,
                     double *z64, vt_err *e) {
    const question q = {label, -1};
    *v = (vt_verdict){.inside = true, .finite = true, .pred64 = -1, .margin64 = NAN};
    VT_TRY(vt_classifier_alone(m, x, z, e));
    *unsure = m->unsure && *m->unsure;
    if (!read_answer(&v->pred, &v->margin, q, z, NULL, m->classes)) v->margin = NAN;
    if (isnan(v->margin) || vt_classifier_votes(m) == 1) return VT_OK;
    VT_TRY(vt_classifier_logits64(m, x, z64, e));
    bool first = v->pred != label;
    int wrong = combine_answers(v, m, q, z, z64);
    *unsure = v->votes ? vt_verdict_open(v) : wrong != first * vt_classifier_votes(m);
    v->pred64 = -1, v->margin64 = NAN, v->finite = true;
    return VT_OK;
}

/* Judges x_adv by the question q: distances, and class by fresh forwards in float and double. */
static vt_status judge_candidate(vt_verdict *v, const vt_classifier *m, const float *x, const float *x_adv, question q,
                                 vt_norm norm, double eps, float *z, double *z64, vt_err *e) {
    measure_distances(v, x, x_adv, m->pixels, norm, eps);
    VT_TRY(vt_classifier_alone(m, x_adv, z, e));
    VT_TRY(vt_classifier_logits64(m, x_adv, z64, e));
    bool finite = read_answer(&v->pred, &v->margin, q, z, NULL, m->classes);
    combine_answers(v, m, q, z, z64);
    if (!finite) v->margin = NAN;
    if (!v->finite) v->margin64 = NAN;
    v->finite = v->finite && finite;
    v->unsure = m->unsure && *m->unsure;
    decide_if_broken(v, q);
    return VT_OK;
}

vt_status vt_verify(vt_verdict *v, const vt_classifier *m, const float *x, const float *x_adv, int label, vt_norm norm,
                    double eps, float *z, double *z64, vt_err *e) {
    return judge_candidate(v, m, x, x_adv, (question){label, -1}, norm, eps, z, z64, e);
}

/* After vt_verify, for a paper's evaluator: the point counts wherever it lies, as the paper counted it. */
static void as_published(vt_verdict *v, question q) {
    v->inside = true;
    decide_if_broken(v, q);
}

double vt_allowance(double each, const vt_terms *t, size_t n) {
    if (t->patch.size || t->rotation.angles || t->norm == VT_L0) return 0;
    return each * (t->norm == VT_LINF ? 1 : t->norm == VT_L2 ? sqrt((double)n) : (double)n);
}

vt_status vt_verify_by(vt_verdict *v, const vt_terms *t, const vt_classifier *m, const vt_rng *key, const float *x,
                       const float *x_adv, vt_shape shape, int label, float *z, double *z64, vt_err *e) {
    bool eight = t->scoring == VT_SCORE_EIGHT_BIT;
    const question q = {label, t->target ? *t->target : -1};
    vt_classifier_begin(m, key);
    VT_TRY(judge_candidate(v, m, x, x_adv, q, t->norm, eight ? INFINITY : t->eps, z, z64, e));
    if (t->patch.size) vt_verify_patch(v, x, x_adv, shape, &t->patch);
    if (t->rotation.angles) vt_verify_rotation(v, x, x_adv, shape, &t->rotation);
    if (t->lo) vt_verify_box(v, x_adv, t->lo, t->hi, m->pixels);
    if (eight) vt_verify_eight_bit(v, x, x_adv, m->pixels, t->norm, t->eps);
    if (t->scoring == VT_SCORE_PUBLISHED) as_published(v, q);
    return VT_OK;
}

vt_record_status vt_clean_status(const vt_verdict *v, int label) {
    return !isfinite(v->margin) ? VT_RECORD_NOT_FINITE : v->pred == label ? VT_RECORD_CORRECT : VT_RECORD_WRONG;
}

vt_record_status vt_verdict_status(const vt_verdict *v) {
    return !v->finite   ? VT_RECORD_NOT_FINITE
           : !v->inside ? VT_RECORD_INVALID
           : v->broken  ? VT_RECORD_BROKEN
                        : VT_RECORD_ROBUST;
}

void vt_verdict_record(vt_record *r, const vt_verdict *v) {
    r->pred = v->pred, r->pred64 = v->pred64, r->margin = v->margin, r->margin64 = v->margin64;
    r->linf = v->linf, r->l2 = v->l2, r->l1 = v->l1, r->borderline = v->borderline;
}

/* ---- patches: exact search for squares that cover every pixel that changed; not those of the attack ---- */

#define NODES_MOST 2000000 /* squares tried; past them the answer is no (a true patch is found at the first try) */

typedef struct cover {
    const float *x, *x_adv;
    vt_shape shape;
    int size, grid;
    long nodes;
    vt_square placed[VT_PATCH_MOST];
    int n;
} cover;

/* Is pixel (y, x) changed in any channel? */
static bool is_changed_pixel(const cover *c, int y, int x) {
    size_t area = vt_shape_plane(c->shape), at = (size_t)y * (size_t)c->shape.width + (size_t)x;
    for (size_t k = 0; k < (size_t)c->shape.channels; k++)
        if (c->x[k * area + at] != c->x_adv[k * area + at]) return true;
    return false;
}

/* Is pixel (y, x) inside a placed square? */
static bool is_covered_pixel(const cover *c, int y, int x) {
    for (int k = 0; k < c->n; k++) {
        vt_square s = c->placed[k];
        if (y >= s.y && y < s.y + c->size && x >= s.x && x < s.x + c->size) return true;
    }
    return false;
}

/* Finds the first changed pixel, row by row, that no square covers; false: none. */
static bool next_open(const cover *c, vt_square *out) {
    for (int y = 0; y < c->shape.height; y++)
        for (int x = 0; x < c->shape.width; x++)
            if (is_changed_pixel(c, y, x) && !is_covered_pixel(c, y, x)) {
                *out = (vt_square){y, x};
                return true;
            }
    return false;
}

/* Can `left` more squares cover all open pixels? Nothing open lies above the first open pixel, so its square may begin
 * in its row (or as low as the grid allows); every column from which it reaches the pixel is tried, the pixel's own
 * first. A square over the border covers no more than one that is moved inside. */
static bool is_coverable_by(cover *c, int left) {
    vt_square open;
    if (!next_open(c, &open)) return true;
    if (!left) return false;
    int y = open.y / c->grid * c->grid;
    for (int x = open.x / c->grid * c->grid; x >= 0 && x > open.x - c->size; x -= c->grid) {
        if (++c->nodes > NODES_MOST) return false;
        c->placed[c->n++] = (vt_square){y, x};
        bool done = is_coverable_by(c, left - 1);
        c->n--;
        if (done) return true;
    }
    return false;
}

void vt_verify_patch(vt_verdict *v, const float *x, const float *x_adv, vt_shape shape, const vt_patch *p) {
    cover c = {.x = x, .x_adv = x_adv, .shape = shape, .size = p->size, .grid = p->grid};
    if (v->inside && is_coverable_by(&c, p->count)) return;
    v->inside = v->broken = v->borderline = false;
}

void vt_verify_box(vt_verdict *v, const float *x_adv, const float *lo, const float *hi, size_t n) {
    bool fine = true;
    for (size_t i = 0; i < n; i++) fine = fine && x_adv[i] >= lo[i] && x_adv[i] <= hi[i];
    if (!fine) v->inside = v->broken = v->borderline = false;
}

/* ---- the 8-bit threat: levels read off the stored floats, distances in whole numbers ---- */

/* Returns the grey level k whose float32 value k/255 this is exactly; -1: none. */
static int level_of(float v) {
    if (!(v >= 0 && v <= 1)) return -1;
    int k = (int)((double)v * 255 + 0.5);
    return (float)k / 255.0f == v ? k : -1;
}

/* eps in levels is a rounded product: 255 * (8/255) may come out as 8 less an ulp. Sums are whole numbers far below
 * 1e12, so that the allowance lets in no point but those on the border itself. */
static bool is_within_bound(long long sum, double bound) { return (double)sum <= bound + 1e-12 * bound; }

void vt_verify_eight_bit(vt_verdict *v, const float *x, const float *x_adv, size_t n, vt_norm norm, double eps) {
    long long largest = 0, sum = 0, squares = 0;
    bool grid = true;
    for (size_t i = 0; i < n; i++) {
        int from = level_of(x[i]), to = level_of(x_adv[i]);
        long long d = llabs((long long)to - from);
        grid = grid && from >= 0 && to >= 0;
        largest = d > largest ? d : largest;
        sum += d, squares += d * d;
    }
    double levels = 255 * eps;
    bool near = norm == VT_LINF ? is_within_bound(largest, levels)
                : norm == VT_L2 ? is_within_bound(squares, levels * levels)
                                : is_within_bound(sum, levels);
    if (grid && near) return;
    v->inside = v->broken = v->borderline = false;
}

/* ---- points that are stored already ---- */

vt_status vt_verifier_open(vt_verifier *j, const vt_subject *s, vt_err *e) {
    *j = (vt_verifier){.subject = s, .shape = vt_subject_shape(s)};
    VT_TRY(vt_subject_classifier(&j->model, s, NULL, e));
    size_t bytes = j->model.pixels * sizeof(float), k = (size_t)j->model.classes;
    j->x = vt_alloc(bytes), j->x_adv = vt_alloc(bytes);
    j->z = vt_alloc(k * sizeof *j->z), j->z64 = vt_alloc((size_t)vt_classifier_votes(&j->model) * k * sizeof *j->z64);
    if (j->x && j->x_adv && j->z && j->z64) return VT_OK;
    return vt_fail(e, VT_E_MEMORY, "no memory for one more thread");
}

void vt_verifier_close(vt_verifier *j) {
    vt_classifier_close(&j->model);
    free(j->x), free(j->x_adv), free(j->z), free(j->z64);
    memset(j, 0, sizeof *j);
}
