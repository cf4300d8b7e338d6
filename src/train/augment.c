/* SPDX-License-Identifier: MIT */
#include "train/augment.h"

#include <math.h>
#include <string.h>
#include "models/net/session.h"

/* Draws from the open interval (0,1), 32 bits, at position i of the key: for logarithms. */
static double open_uniform(const vt_rng *r, uint64_t i) { return ((double)vt_rng_bits(r, i) + 0.5) * 0x1p-32; }

/* Returns true with probability p, at position i of the key. */
static bool draw_bernoulli(const vt_rng *r, uint64_t i, double p) { return (double)vt_rng_bits(r, i) * 0x1p-32 < p; }

/* Fisher-Yates from the end; position i decides where the last of i + 1 goes. */
void vt_epoch_order(int32_t *order, int64_t n, uint64_t seed, int epoch) {
    vt_rng r = {.seed = seed, .purpose = vt_rng_purpose("epoch order"), .step = (uint32_t)epoch};
    for (int64_t i = 0; i < n; i++) order[i] = (int32_t)i;
    for (int64_t i = n - 1; i > 0; i--) {
        uint32_t j = vt_rng_below(&r, (uint64_t)i, (uint32_t)i + 1);
        int32_t t = order[i];
        order[i] = order[j], order[j] = t;
    }
}

/* ---- mixing ---- */

/* Positions 0-3 of a step's key: active, CutMix or Mixup, centre row, centre column; from 4 on, tries of the Beta. */
enum { AT_ACTIVE, AT_SWITCH, AT_ROW, AT_COLUMN, AT_BETA };

/* Draws the logarithm of a Gamma(alpha, 1) number (Marsaglia and Tsang 2000, figure 1; below 1 their boost:
 * Gamma(alpha) = Gamma(alpha + 1) u^(1 / alpha), as a logarithm because it underflows for small alpha). Four positions
 * a try: two for the normal (Box-Muller), one to accept (19 of 20 tries or more), one for the boost; *at moves past the
 * last. */
static double log_gamma_draw(const vt_rng *r, uint64_t *at, double alpha) {
    double d = (alpha < 1 ? alpha + 1 : alpha) - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double u1 = open_uniform(r, *at), u2 = open_uniform(r, *at + 1), u = open_uniform(r, *at + 2);
        double boost = alpha < 1 ? log(open_uniform(r, *at + 3)) / alpha : 0;
        double x = sqrt(-2 * log(u1)) * cos(6.283185307179586476925 * u2), v = 1 + c * x;
        *at += 4;
        if (v <= 0) continue;
        v = v * v * v;
        if (log(u) < x * x / 2 + d - d * v + d * log(v)) return log(d * v) + boost;
    }
}

/* Draws Beta(alpha, alpha) = G / (G + G') of two independent Gamma(alpha), at positions of the key from `at` on. */
static double beta_draw(const vt_rng *r, uint64_t at, double alpha) {
    double g = log_gamma_draw(r, &at, alpha), h = log_gamma_draw(r, &at, alpha);
    return 1 / (1 + exp(h - g));
}

static int clip_to_side(int v, int side) { return v < 0 ? 0 : v > side ? side : v; }

/* Draws CutMix's region as timm 0.5.4's rand_bbox: the sides of an area (1 - lambda), halves rounded down, a centre
 * anywhere, clipped; then correct_lam. The region's sides are even before clipping, and it may be empty. */
static void draw_cutmix_region(vt_mix *m, const vt_rng *r, int side) {
    int size = (int)(side * sqrt(1 - m->lambda)), half = size / 2;
    int cy = (int)vt_rng_below(r, AT_ROW, (uint32_t)side), cx = (int)vt_rng_below(r, AT_COLUMN, (uint32_t)side);
    m->y0 = clip_to_side(cy - half, side), m->y1 = clip_to_side(cy + half, side);
    m->x0 = clip_to_side(cx - half, side), m->x1 = clip_to_side(cx + half, side);
    m->lambda = 1 - (double)((m->y1 - m->y0) * (m->x1 - m->x0)) / ((double)side * side);
}

vt_mix vt_mix_draw(const vt_recipe_augment *a, uint64_t seed, int64_t step, int side) {
    vt_mix m = {.kind = VT_MIX_NONE, .lambda = 1};
    vt_rng r = {.seed = seed,
                .purpose = vt_rng_purpose("mix"),
                .image = (uint32_t)step,
                .step = (uint32_t)((uint64_t)step >> 32)};
    bool mixup = a->mixup_alpha > 0, cutmix = a->cutmix_alpha > 0; /* alpha 0 switches a kind off, as in timm */
    if ((!mixup && !cutmix) || !draw_bernoulli(&r, AT_ACTIVE, a->mix_prob)) return m;
    bool use_cutmix = cutmix && (!mixup || draw_bernoulli(&r, AT_SWITCH, a->cutmix_switch));
    m.kind = use_cutmix ? VT_MIX_CUTMIX : VT_MIX_MIXUP;
    m.lambda = beta_draw(&r, AT_BETA, use_cutmix ? a->cutmix_alpha : a->mixup_alpha);
    if (use_cutmix) draw_cutmix_region(&m, &r, side);
    return m;
}

/* Mixup as PyTorch does it: both weights rounded to float, both products and the sum rounded. The weights' sum exceeds
 * 1 by less than 2^-24, so that a mix of pixels in [0,1] stays there. */
void vt_mix_images(float *x, const float *xr, const vt_mix *m, int side) {
    size_t area = (size_t)side * (size_t)side;
    float own = (float)m->lambda, other = (float)(1 - m->lambda);
    if (m->kind == VT_MIX_MIXUP)
        for (size_t i = 0; i < 3 * area; i++) x[i] = own * x[i] + other * xr[i];
    if (m->kind != VT_MIX_CUTMIX || m->x0 >= m->x1) return;
    for (size_t c = 0; c < 3; c++)
        for (int y = m->y0; y < m->y1; y++) {
            size_t at = c * area + (size_t)y * (size_t)side + (size_t)m->x0;
            memcpy(x + at, xr + at, (size_t)(m->x1 - m->x0) * sizeof *x);
        }
}

/* Computed in double, rounded once. */
void vt_mix_target(float *target, int y, int yr, const vt_mix *m, double smoothing, int classes) {
    double off = smoothing / classes, on = 1 - smoothing + off;
    for (int k = 0; k < classes; k++)
        target[k] = (float)(m->lambda * (k == y ? on : off) + (1 - m->lambda) * (k == yr ? on : off));
}

/* ---- one image ---- */

/* Positions of an image's key. */
enum { AT_CROP_ROW, AT_CROP_COLUMN, AT_FLIP };

/* Sets x [3, side, side] = window of the image at (dy, dx) (negative: into the zero padding), mirrored if flip. */
static void crop_and_flip(float *x, const vt_image *im, int side, int dy, int dx, bool flip) {
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < side; i++)
            for (int j = 0; j < side; j++) {
                int row = i + dy, column = (flip ? side - 1 - j : j) + dx;
                bool inside = row >= 0 && row < side && column >= 0 && column < side;
                size_t at = ((size_t)c * (size_t)side + (size_t)row) * (size_t)side + (size_t)column;
                *x++ = inside ? vt_image_at(im, at) : 0;
            }
}

vt_status vt_augment_image(float *x, int *label, const vt_dataset *d, int64_t index, int side,
                           const vt_recipe_augment *a, uint64_t seed, int epoch, vt_err *e) {
    vt_image im = {0};
    VT_TRY(vt_dataset_read_as(d, index, vt_shape_rgb(side), &im, label, e));
    vt_rng r = {.seed = seed, .purpose = vt_rng_purpose("augment"), .image = (uint32_t)index, .step = (uint32_t)epoch};
    uint32_t offsets = 2 * (uint32_t)a->crop + 1;
    int dy = (int)vt_rng_below(&r, AT_CROP_ROW, offsets) - a->crop,
        dx = (int)vt_rng_below(&r, AT_CROP_COLUMN, offsets) - a->crop;
    crop_and_flip(x, &im, side, dy, dx, draw_bernoulli(&r, AT_FLIP, a->flip));
    vt_image_free(&im);
    if (a->randaugment) {
        r.purpose = vt_rng_purpose("randaugment");
        VT_TRY(vt_randaugment(x, side, a->randaugment, a->magnitude, &r, e));
    }
    r.purpose = vt_rng_purpose("erase");
    vt_random_erase(x, side, a->erase, &r);
    return VT_OK;
}

void vt_augment_gaussian(float *x, float *noise, size_t n, double sigma, uint64_t seed, int64_t step, int at) {
    const vt_rng r = {.seed = seed,
                      .purpose = vt_rng_purpose("gaussian"),
                      .image = (uint32_t)at,
                      .run = (uint32_t)((uint64_t)step >> 32),
                      .step = (uint32_t)step};
    vt_rng_normals(&r, noise, n);
    for (size_t i = 0; i < n; i++) x[i] += (float)sigma * noise[i];
}

/* ---- stochastic depth ---- */

size_t vt_drop_path_len(const vt_model *m, int images) {
    return (size_t)m->params.layers * VT_BRANCHES * (size_t)images;
}

void vt_drop_path_draw(float *drop, const vt_model *m, double rate, int image, int images, uint64_t seed, int64_t id,
                       int64_t step, int view) {
    const bool xcit = !strcmp(m->config.arch, "xcit");
    const int blocks = xcit ? m->config.depth : vt_model_blocks(m);
    const vt_rng r = {.seed = seed,
                      .purpose = vt_rng_purpose("drop path") + (uint32_t)view,
                      .image = (uint32_t)id,
                      .run = (uint32_t)((uint64_t)step >> 32),
                      .step = (uint32_t)step};
    for (int i = 0; i < m->params.layers * VT_BRANCHES; i++) drop[i * images + image] = 1;
    for (int b = 0; b < blocks; b++) {
        vt_matrix q;
        if (!vt_model_matrix(m, b, VT_WEIGHT_Q, &q)) continue;
        int layer = vt_model_param_at(m, q.offset)->layer;
        double p = xcit ? rate : blocks > 1 ? rate * b / (blocks - 1) : 0;
        for (int k = 0; k < VT_BRANCHES; k++) {
            bool stays = (double)vt_rng_uniform(&r, (uint64_t)(b * VT_BRANCHES + k)) >= p;
            drop[(layer * VT_BRANCHES + k) * images + image] = stays ? (float)(1 / (1 - p)) : 0;
        }
    }
}
