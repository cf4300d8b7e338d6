/* SPDX-License-Identifier: MIT */
/* Square Attack: random search with square-shaped updates, scores only (Andriushchenko et al. 2020,
 * "Square Attack", algorithms 1 to 3; constants of AutoAttack's square.py, a392200). */
#include <math.h>
#include <string.h>
#include "attacks/attack.h"

typedef struct params {
    int queries, restarts;
    double p_init;
} params;

static const vt_opt opts[] = {
    VT_OPT_I("queries", params, queries, "iterations, one forward each, after the start", 5000, 1, 10000000),
    VT_OPT_R("p_init", params, p_init, "share of pixels in the first squares", 0.8, 1e-4, 1),
    VT_OPT_I("restarts", params, restarts, "independent runs", 1, 1, 1000),
    VT_OPT_END,
};

/* Returns the share of pixels at iteration i: halved at fixed iterations, without rescaling to the budget. */
static double pixel_share(double p_init, int i) {
    static const int until[] = {10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000};
    int k = 0;
    while (k < 9 && i > until[k]) k++;
    return p_init / (double)(1 << k);
}

/* Returns the side of a square of share p of the pixels, at least `least` (3: an odd one) and at most the image's. */
static int square_side(double p, int h, int w, int least) {
    int s = (int)nearbyint(sqrt(p * h * w)), most = h < w ? h : w; /* half to even, as Python rounds */
    if (s < least) s = least;
    if (least == 3 && s % 2 == 0) s++;
    return s > most ? most : s;
}

/* Draws 1 or -1, each as likely, from position i of the iteration's draws: 0.. window origins, then signs. */
static float sign_at(const vt_rng *r, int i) { return vt_rng_bits(r, (uint64_t)i) >> 31 ? 1.0f : -1.0f; }
/* Draws floor(U (size - s)) from position i of the iteration's draws: the last valid origin is never drawn, as in the
 * authors' code. */
static int draw_origin(const vt_rng *r, int i, int size, int s) {
    return (int)(vt_rng_uniform(r, (uint64_t)i) * (float)(size - s));
}

/* Sets x [n] to the start, the image plus or minus eps in vertical stripes, projected: a drawn sign for each channel
 * and column. */
static void start_linf(const vt_task *t, const vt_rng *r, float *x) {
    int w = t->shape.width, h = t->shape.height;
    float eps = (float)t->ball->eps;
    for (int c = 0; c < t->shape.channels; c++)
        for (int i = 0; i < w; i++) {
            float s = eps * sign_at(r, c * w + i);
            for (int y = 0; y < h; y++) {
                size_t at = ((size_t)c * (size_t)h + (size_t)y) * (size_t)w + (size_t)i;
                x[at] = t->x[at] + s;
            }
        }
    vt_ball_project(t->ball, x);
}

/* Draws the window of an iteration, of side *s with its first pixel at *y0, *x0. It lies in the image, or one of the
 * patch threat's squares, whose last origin is drawn too (in a small square it is too large a share). */
static void window_linf(const vt_task *t, const vt_rng *r, double p, int *y0, int *x0, int *s) {
    const vt_squares *in = t->ball->squares;
    int h = in ? in->size : t->shape.height, w = in ? in->size : t->shape.width;
    vt_square at = {0, 0};
    if (in) at = in->at[vt_rng_bits(r, 2 + (uint64_t)t->shape.channels) % (uint32_t)in->n];
    *s = square_side(p, h, w, 1);
    *y0 = at.y + draw_origin(r, 0, h + (in != NULL), *s), *x0 = at.x + draw_origin(r, 1, w + (in != NULL), *s);
}

/* Adds +-2 eps per channel (a drawn sign) to a drawn square of share p of the pixels of x [n], projected. */
static void propose_linf(const vt_task *t, const vt_rng *r, double p, float *x) {
    int w = t->shape.width, h = t->shape.height, y0, x0, s;
    window_linf(t, r, p, &y0, &x0, &s);
    float eps2 = (float)(2 * t->ball->eps);
    for (int c = 0; c < t->shape.channels; c++) {
        float d = eps2 * sign_at(r, 2 + c);
        for (int y = y0; y < y0 + s; y++)
            for (int i = x0; i < x0 + s; i++) x[((size_t)c * (size_t)h + (size_t)y) * (size_t)w + (size_t)i] += d;
    }
    vt_ball_project(t->ball, x);
}

/* Returns what one entry adds to a norm's sum: its square in l2, its size in l1. */
static double norm_term(vt_norm norm, double v) { return norm == VT_L2 ? v * v : fabs(v); }
/* Returns the norm whose terms (norm_term) add up to `sum`. */
static double norm_of_sum(vt_norm norm, double sum) { return norm == VT_L2 ? sqrt(sum) : sum; }

/* Writes a pyramid of centred rectangles in [rows, cols] (stride ld), times sign, of unit norm; in l1 it is steeper. */
static void fill_pyramid(vt_norm norm, float *out, int rows, int cols, int ld, float sign) {
    double sum = 0;
    int levels = (rows / 2 > cols / 2 ? rows / 2 : cols / 2) + 1;
    for (int y = 0; y < rows; y++)
        for (int x = 0; x < cols; x++) {
            double v = 0;
            for (int c = 0; c < levels; c++) {
                int top = rows / 2 - c, bottom = rows / 2 + c + 1, left = cols / 2 - c, right = cols / 2 + c + 1;
                double step = 1.0 / ((double)(c + 1) * (double)(c + 1));
                if (y >= (top > 0 ? top : 0) && y < (bottom < rows ? bottom : rows) && x >= (left > 0 ? left : 0) &&
                    x < (right < cols ? right : cols))
                    v += norm == VT_L2 ? step : step * step;
            }
            out[y * ld + x] = (float)v;
            sum += norm_term(norm, v);
        }
    for (int y = 0; y < rows; y++)
        for (int x = 0; x < cols; x++) out[y * ld + x] *= sign * (float)(1 / norm_of_sum(norm, sum));
}

/* Makes the update shape, out [s, s]: a bump above its negative, of unit norm; turned: transposed. */
static void make_update_shape(vt_norm norm, float *out, int s, bool turned) {
    fill_pyramid(norm, out, s / 2, s, s, 1);
    fill_pyramid(norm, out + (s / 2) * s, s - s / 2, s, s, -1);
    double sum = 0;
    for (int i = 0; i < s * s; i++) sum += norm_term(norm, (double)out[i]);
    for (int i = 0; i < s * s; i++) out[i] *= (float)(1 / norm_of_sum(norm, sum));
    for (int y = 0; turned && y < s; y++)
        for (int x = 0; x < y; x++) {
            float v = out[y * s + x];
            out[y * s + x] = out[x * s + y];
            out[x * s + y] = v;
        }
}

/* Sets x = x0 + eps delta / |delta|, clipped; in l1 the point nearest to x0 + delta of a ball that is smaller by 1e-6,
 * as the authors' code has it. x0: the image. */
static void project_offset(const vt_task *t, float *x, const float *delta) {
    vt_ball b = *t->ball;
    double f = b.norm == VT_L2 ? b.eps / (vt_length(VT_L2, delta, t->n) + 1e-12) : 1;
    if (b.norm == VT_L1) b.eps *= 1 - 1e-6;
    for (size_t i = 0; i < t->n; i++) x[i] = (float)((double)t->x[i] + f * (double)delta[i]);
    vt_ball_project(&b, x);
}

/* Sets x [n] to the start: tiles of a fifth of the height, from the same place down and across, as in the authors'
 * code, with drawn signs and turns. delta [n], shape: scratch. */
static void start_tiles(const vt_task *t, const vt_rng *r, float *x, float *delta, float *shape) {
    int w = t->shape.width, h = t->shape.height, s = h / 5 > 0 ? h / 5 : 1, draw = 0;
    int from = (h - 5 * s) / 2 > 0 ? (h - 5 * s) / 2 : 0;
    memset(delta, 0, t->n * sizeof(float));
    for (int y0 = from, row = 0; row < h / s && y0 + s <= h; row++, y0 += s)
        for (int x0 = from, col = 0; col < w / s && x0 + s <= w; col++, x0 += s) {
            make_update_shape(t->ball->norm, shape, s, vt_rng_uniform(r, (uint64_t)draw++) > 0.5f);
            for (int c = 0; c < t->shape.channels; c++) {
                float sign = sign_at(r, draw++);
                for (int y = 0; y < s; y++)
                    for (int i = 0; i < s; i++)
                        delta[((size_t)c * (size_t)h + (size_t)(y0 + y)) * (size_t)w + (size_t)(x0 + i)] +=
                            sign * shape[y * s + i];
            }
        }
    project_offset(t, x, delta);
}

/* Returns the sum of norm_term in window 0 of delta [., w], leaving out what lies in window 1 (s1 = 0: nothing). */
static double window_mass(vt_norm norm, const float *delta, int w, int y0, int x0, int s, int y1, int x1, int s1) {
    double v = 0;
    for (int y = y0; y < y0 + s; y++)
        for (int i = x0; i < x0 + s; i++)
            if (!(y >= y1 && y < y1 + s1 && i >= x1 && i < x1 + s1)) v += norm_term(norm, (double)delta[y * w + i]);
    return v;
}

/* Moves the mass of a drawn window 2 and each channel's part of the unused budget into window 1 (in l1, as in the
 * authors' code, as many times its mass as there are channels; the projection takes back what is too much). */
static void propose_tiles(const vt_task *t, const vt_rng *r, double p, float *x, float *delta, float *shape) {
    vt_norm norm = t->ball->norm;
    int w = t->shape.width, h = t->shape.height, channels = t->shape.channels, s = square_side(p, h, w, 3);
    int y1 = draw_origin(r, 0, h, s), x1 = draw_origin(r, 1, w, s), y2 = draw_origin(r, 2, h, s),
        x2 = draw_origin(r, 3, w, s);
    make_update_shape(norm, shape, s, vt_rng_uniform(r, 4) > 0.5f);
    double all = 0;
    for (size_t i = 0; i < t->n; i++) {
        delta[i] = x[i] - t->x[i];
        all += norm_term(norm, (double)delta[i]);
    }
    double spare = norm_term(norm, t->ball->eps) - all;
    for (int c = 0; c < t->shape.channels; c++) {
        float *d = delta + (size_t)c * (size_t)h * (size_t)w, sign = sign_at(r, 5 + c);
        double n1 = window_mass(norm, d, w, y1, x1, s, 0, 0, 0),
               n_union = n1 + window_mass(norm, d, w, y2, x2, s, y1, x1, s);
        double q_sum = 0;
        float into = (float)(1 / (1e-12 + norm_of_sum(norm, n1)));
        float *q = shape + s * s; /* a copy: q reads window 1, and is written after window 2 is cleared */
        for (int y = 0; y < s; y++)
            for (int i = 0; i < s; i++) {
                q[y * s + i] = shape[y * s + i] * sign + d[(y1 + y) * w + x1 + i] * into;
                q_sum += norm_term(norm, (double)q[y * s + i]);
            }
        double goal = norm_of_sum(norm, (spare > 0 ? spare : 0) / channels + n_union) * (norm == VT_L1 ? channels : 1);
        float scale = (float)(goal / (1e-12 + norm_of_sum(norm, q_sum)));
        for (int i = 0; i < s * s; i++) q[i] *= scale;
        for (int y = 0; y < s; y++) memset(d + (y2 + y) * w + x2, 0, (size_t)s * sizeof(float));
        for (int y = 0; y < s; y++) memcpy(d + (y1 + y) * w + x1, q + y * s, (size_t)s * sizeof(float));
    }
    project_offset(t, x, delta);
}

/* Searches on one image until it breaks; t->x_adv: the best point of the last restart. */
static vt_status run(vt_oracle *o, const void *params_, const vt_task *t) {
    const params *p = params_;
    float *next = t->work, *delta = next + t->n, *shape = delta + t->n, *z = shape + 2 * vt_shape_plane(t->shape);
    bool linf = t->ball->norm == VT_LINF;
    for (int k = 0; k < p->restarts; k++) {
        vt_rng r = t->rng;
        r.run = (uint32_t)k;
        if (linf)
            start_linf(t, &r, t->x_adv);
        else
            start_tiles(t, &r, t->x_adv, delta, shape);
        VT_TRY(vt_oracle_logits(o, t->x_adv, z));
        float best = -vt_oracle_margin(o, z);
        for (int i = 0; i < p->queries && !vt_oracle_may_end(o, best < 0); i++) {
            r.step = (uint32_t)i + 1;
            memcpy(next, t->x_adv, t->n * sizeof(float));
            if (linf)
                propose_linf(t, &r, pixel_share(p->p_init, i), next);
            else
                propose_tiles(t, &r, pixel_share(p->p_init, i), next, delta, shape);
            VT_TRY(vt_oracle_logits(o, next, z));
            float now = -vt_oracle_margin(o, z);
            if (now < best || now <= 0) memcpy(t->x_adv, next, t->n * sizeof(float));
            if (now < best) best = now;
        }
        if (vt_oracle_may_end(o, best < 0)) return VT_OK;
    }
    return VT_OK;
}

VT_COST(params, .forwards = p->restarts * (1 + (double)p->queries))

const vt_attack_def vt_attack_def_square = {
    .name = "square",
    .summary = "random search with squares; black-box, scores only",
    .reference = "Andriushchenko et al. 2020, algorithms 1 to 3; l1: Croce and Hein 2021, section 4",
    .norms = VT_CAN_ALL | VT_CAN_PATCH,
    .white_box = false,
    .where = VT_WHERE_RANDOM,
    VT_ATTACK_CODE(params, .images = 4, .logits = 1),
};
