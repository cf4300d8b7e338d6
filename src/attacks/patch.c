/* SPDX-License-Identifier: MIT */
#include "attacks/patch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- the threat ---- */

static const vt_opt patch_opts[] = {
    VT_OPT_I("size", vt_patch, size, "side of a square in pixels", 0, 1, 4096),
    VT_OPT_I("count", vt_patch, count, "squares", 1, 1, VT_PATCH_MOST),
    VT_OPT_B("aligned", vt_patch, aligned, "squares begin at tokens", 0),
    VT_OPT_END,
};

vt_status vt_patch_parse(vt_patch *out, const char *text, vt_err *e) {
    *out = (vt_patch){0};
    if (strcspn(text, ":") != 5 || strncasecmp(text, "patch", 5))
        return vt_fail(e, VT_E_USAGE,
                       "@threat is '%.60s', must be patch:size=N,count=N,aligned=0|1 (or, of an evaluation, rotation "
                       "or box)",
                       text);
    vt_opt_defaults(patch_opts, out);
    VT_TRY(vt_opt_parse(patch_opts, out, text[5] ? text + 6 : "", "threat patch", e));
    return out->size ? VT_OK : vt_fail(e, VT_E_USAGE, "@threat patch needs a size in pixels: patch:size=16");
}

vt_status vt_patch_fit(vt_patch *p, const vt_config *c, const char *path, vt_err *e) {
    vt_shape input = vt_config_shape(c);
    p->grid = 1;
    if (p->size > input.height || p->size > input.width)
        return vt_fail(e, VT_E_USAGE, "@threat patch: size is %d pixels, but the images of %s are %d x %d", p->size,
                       path ? path : "the model", input.height, input.width);
    if (!p->aligned || c->foreign.channels) return VT_OK; /* which has no tokens, as an evaluation's check says */
    int side = input.width, token = c->patch * side / c->image;
    if (c->patch * side % c->image || token < 1)
        return vt_fail(e, VT_E_USAGE,
                       "@threat patch: aligned=1 needs tokens of whole pixels, but %s cuts images of %d pixels into "
                       "%d "
                       "tokens a side",
                       path ? path : "the model", side, c->image / c->patch);
    if (p->size % token)
        return vt_fail(e, VT_E_USAGE,
                       "@threat patch: with aligned=1 size must be a multiple of the token's %d pixels; got %d", token,
                       p->size);
    p->grid = token;
    return VT_OK;
}

void vt_ball_squares(vt_ball *b, const vt_squares *s, vt_shape shape, const float *x, float *lo, float *hi) {
    size_t area = vt_shape_plane(shape), n = vt_shape_values(shape), width = (size_t)shape.width;
    *b = (vt_ball){.norm = VT_LINF, .eps = 1, .n = n, .x = x, .lo = lo, .hi = hi, .box = true, .squares = s};
    memcpy(lo, x, n * sizeof *lo);
    memcpy(hi, x, n * sizeof *hi);
    for (int k = 0; k < s->n; k++)
        for (int c = 0; c < shape.channels; c++)
            for (int y = s->at[k].y; y < s->at[k].y + s->size; y++)
                for (int i = s->at[k].x; i < s->at[k].x + s->size; i++) {
                    size_t at = (size_t)c * area + (size_t)y * width + (size_t)i;
                    lo[at] = 0, hi[at] = 1;
                }
}

/* Returns how many places a square has along a side of so many pixels. */
static int places_along(const vt_patch *p, int side) { return (side - p->size) / p->grid + 1; }

int vt_patch_places(const vt_patch *p, vt_shape shape) {
    return places_along(p, shape.height) * places_along(p, shape.width);
}

vt_square vt_patch_place(const vt_patch *p, vt_shape shape, int k) {
    const int across = places_along(p, shape.width);
    return (vt_square){k / across * p->grid, k % across * p->grid};
}

/* Returns where row y of a square begins in channel c of an image. */
static size_t row_start(vt_square at, vt_shape shape, int c, int y) {
    return (size_t)c * vt_shape_plane(shape) + (size_t)(at.y + y) * (size_t)shape.width + (size_t)at.x;
}

void vt_patch_paste(float *x, const vt_squares *s, vt_shape shape, const float *picture) {
    const size_t size = (size_t)s->size;
    for (int k = 0; k < s->n; k++)
        for (int c = 0; c < shape.channels; c++)
            for (int y = 0; y < s->size; y++)
                memcpy(x + row_start(s->at[k], shape, c, y), picture + ((size_t)(c * s->size + y)) * size,
                       size * sizeof *x);
}

void vt_patch_paste_backward(float *g, float *dx, const vt_squares *s, vt_shape shape) {
    memset(g, 0, (size_t)(shape.channels * s->size * s->size) * sizeof *g);
    for (int k = s->n - 1; k >= 0; k--) /* the last one pasted is what is seen */
        for (int c = 0; c < shape.channels; c++)
            for (int y = 0; y < s->size; y++)
                for (int i = 0; i < s->size; i++) {
                    float *from = dx + row_start(s->at[k], shape, c, y) + i;
                    g[(c * s->size + y) * s->size + i] += *from;
                    *from = 0;
                }
}

/* ---- where ---- */

const vt_opt vt_place_opts[] = {
    VT_OPT_C("where", vt_place, where, "patch threat: what chooses the squares",
             "saliency|attention|random|centre|corner|any", 0),
    VT_OPT_I("places", vt_place, places,
             "patch threat: locations tried one after the other, at most 64; with where=any any number, 0: all", 1, 0,
             VT_PLACES_MOST),
    VT_OPT_END,
};

int vt_patch_layer(const vt_tokens *t) { return t->layers >= 5 ? 4 : t->layers / 3; }

int vt_patch_token(const vt_tokens *t, vt_square s, int size, vt_shape shape) {
    int y = (s.y + size / 2) * t->side / shape.height, x = (s.x + size / 2) * t->side / shape.width;
    return y * t->side + x;
}

/* Computes map [h, w], the worth of each pixel: its gradient (the surrogate's, for attacks that have one) in normalised
 * units, or the attention that its token gets. */
static vt_status pixel_map(vt_oracle *o, const vt_patch_task *t, float *map, float *scratch) {
    size_t area = vt_shape_plane(t->shape);
    if (t->place->where == VT_WHERE_ATTENTION) {
        const vt_tokens *tokens = &o->model->tokens;
        VT_TRY(vt_oracle_attention(o, t->x, vt_patch_layer(tokens), scratch));
        for (int y = 0; y < t->shape.height; y++)
            for (int x = 0; x < t->shape.width; x++)
                map[y * t->shape.width + x] = scratch[vt_patch_token(tokens, (vt_square){y, x}, 0, t->shape)];
        return VT_OK;
    }
    float value;
    vt_loss ce = vt_oracle_loss(o, VT_LOSS_CE);
    const vt_classifier *asked = t->surrogate ? o->surrogate : o->model;
    if (t->surrogate)
        VT_TRY(vt_oracle_surrogate_gradient(o, t->x, &ce, &value, scratch));
    else
        VT_TRY(vt_oracle_gradient(o, t->x, &ce, NULL, &value, scratch));
    memset(map, 0, area * sizeof *map);
    for (size_t i = 0; i < vt_shape_values(t->shape); i++) {
        double std = asked->tokens.layers ? asked->std[i / area] : 1;
        map[i % area] += (float)std * fabsf(scratch[i]);
    }
    return VT_OK;
}

/* Computes score [h, w] of the square that begins at each pixel: the sum of the map inside it. */
static void box_sums(float *score, const float *map, float *rows, int h, int w, int size) {
    for (int y = 0; y < h; y++)
        for (int x = 0; x + size <= w; x++) {
            double sum = 0;
            for (int i = 0; i < size; i++) sum += (double)map[y * w + x + i];
            rows[y * w + x] = (float)sum;
        }
    for (int y = 0; y + size <= h; y++)
        for (int x = 0; x + size <= w; x++) {
            double sum = 0;
            for (int i = 0; i < size; i++) sum += (double)rows[(y + i) * w + x];
            score[y * w + x] = (float)sum;
        }
}

/* Computes score [h, w] from positions or draws alone, without the model. */
static void fixed_scores(float *score, const vt_patch_task *t) {
    int where = t->place->where, size = t->patch->size;
    vt_rng rng = t->rng;
    rng.purpose = vt_rng_purpose("patch place");
    for (int y = 0; y < t->shape.height; y++)
        for (int x = 0; x < t->shape.width; x++) {
            int at = y * t->shape.width + x;
            float down = (float)(2 * y + size - t->shape.height), right = (float)(2 * x + size - t->shape.width);
            score[at] = where == VT_WHERE_RANDOM   ? vt_rng_uniform(&rng, (uint64_t)at)
                        : where == VT_WHERE_CENTRE ? -(down * down + right * right)
                                                   : -(float)at;
        }
}

/* Returns whether two squares of side `size` share a pixel. */
static bool is_overlapping(vt_square a, vt_square b, int size) {
    return abs(a.y - b.y) < size && abs(a.x - b.x) < size;
}

/* Takes the best squares of the grid that overlap none taken before, the first among equals; returns how many. */
static int best_squares(vt_square *out, const float *score, const vt_patch_task *t) {
    const vt_patch *p = t->patch;
    int n = 0;
    for (; n < t->place->places * p->count; n++) {
        bool found = false;
        for (int y = 0; y + p->size <= t->shape.height; y += p->grid)
            for (int x = 0; x + p->size <= t->shape.width; x += p->grid) {
                bool is_free = true;
                for (int k = 0; k < n && is_free; k++) is_free = !is_overlapping(out[k], (vt_square){y, x}, p->size);
                if (!is_free ||
                    (found && !(score[y * t->shape.width + x] > score[out[n].y * t->shape.width + out[n].x])))
                    continue;
                out[n] = (vt_square){y, x};
                found = true;
            }
        if (!found) break;
    }
    return n;
}

/* Draws squares from all places, without repetition; returns how many. */
static int draw_squares(vt_square *out, const vt_patch_task *t) {
    const int all = vt_patch_places(t->patch, t->shape);
    const int n = vt_patch_locations(t->place, all, t->patch->count) * t->patch->count;
    vt_rng rng = t->rng;
    rng.purpose = vt_rng_purpose("patch place");
    for (int k = 0; k < all; k++) out[k] = vt_patch_place(t->patch, t->shape, k);
    for (int k = 0; k < n && k < all; k++) {
        const int from = k + (int)vt_rng_below(&rng, (uint64_t)k, (uint32_t)(all - k));
        const vt_square drawn = out[from];
        out[from] = out[k];
        out[k] = drawn;
    }
    return n < all ? n : all;
}

int vt_patch_room(const vt_patch *p, const vt_place *place, vt_shape shape) {
    return place->where == VT_WHERE_ANY ? vt_patch_places(p, shape) : place->places * p->count;
}

int vt_patch_locations(const vt_place *place, int all, int count) {
    const int most = (all + count - 1) / count;
    return place->where == VT_WHERE_ANY && (place->places == 0 || place->places > most) ? most : place->places;
}

size_t vt_patch_work_len(vt_shape shape) { return vt_shape_values(shape) + 3 * vt_shape_plane(shape); }

vt_status vt_patch_choose(vt_oracle *o, const vt_patch_task *t, vt_square *out, int *n, float *work) {
    size_t area = vt_shape_plane(t->shape);
    float *map = work + vt_shape_values(t->shape), *rows = map + area, *score = rows + area;
    if (t->place->where == VT_WHERE_ANY) {
        *n = draw_squares(out, t);
        return VT_OK;
    }
    if (t->place->where == VT_WHERE_ATTENTION || t->place->where == VT_WHERE_SALIENCY) {
        VT_TRY(pixel_map(o, t, map, work));
        box_sums(score, map, rows, t->shape.height, t->shape.width, t->patch->size);
    } else {
        fixed_scores(score, t);
    }
    *n = best_squares(out, score, t);
    return VT_OK;
}
