/* SPDX-License-Identifier: MIT */
#include "tools/draw.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/files.h"
#include "base/rand.h"

/* Lengths are in 1/256 pixel, directions in 1/16384, angles in steps of 3 degrees (120 a turn). Negative
 * numbers are divided, never shifted, so the language alone fixes every result. */
enum { SIDE = VT_DRAW_SIDE, PIXEL = 256, UNIT = 16384, QUARTER = 30, TURN = 4 * QUARTER, SUB = 4 };
enum { KEY_SCENE, KEY_NOISE, KEY_LATTICE, KEY_LABEL }; /* vt_rng.step: one sequence for each use */

/* ---- random numbers ---- */

typedef struct dice {
    vt_rng key;
    uint64_t next;
} dice;

static vt_rng key_of(uint64_t seed, uint64_t index, uint32_t step) {
    return (vt_rng){.seed = seed,
                    .purpose = vt_rng_purpose("draw"),
                    .image = (uint32_t)index,
                    .run = (uint32_t)(index >> 32),
                    .step = step};
}

/* Uniform in lo..hi, both included. */
static int random_in_range(dice *d, int lo, int hi) {
    uint64_t span = (uint64_t)(hi - lo) + 1;
    return lo + (int)(vt_rng_bits(&d->key, d->next++) * span >> 32);
}

/* Leans towards lo. */
static int roll_low(dice *d, int lo, int hi) {
    int a = random_in_range(d, lo, hi), b = random_in_range(d, lo, hi);
    return a < b ? a : b;
}

/* ---- shapes ---- */

static int integer_sine(int angle) {
    static const int16_t table[QUARTER + 1] = {0,     857,   1713,  2563,  3406,  4240,  5063,  5872,
                                               6664,  7438,  8192,  8923,  9630,  10311, 10963, 11585,
                                               12176, 12733, 13255, 13741, 14189, 14598, 14968, 15296,
                                               15582, 15826, 16026, 16182, 16294, 16362, 16384};
    angle = (angle % TURN + TURN) % TURN;
    int a = angle % (2 * QUARTER), s = table[a <= QUARTER ? a : 2 * QUARTER - a];
    return angle < 2 * QUARTER ? s : -s;
}

/* One thing laid over the picture. (u, v) below is the point seen from its centre, turned by its angle. */
typedef struct layer {
    bool (*inside)(const struct layer *l, int u, int v);
    int x, y, angle;
    int size;   /* shapes: radius; textures: width of one stripe or field */
    int detail; /* ring: inner radius; cross: half width; textures: phase */
    int reach;  /* textures: half side of the window they show in */
    int rgb[3];
} layer;

static bool in_disc(const layer *l, int u, int v) { return u * u + v * v <= l->size * l->size; }

static bool in_ring(const layer *l, int u, int v) { return in_disc(l, u, v) && u * u + v * v > l->detail * l->detail; }

static bool in_square(const layer *l, int u, int v) { return abs(u) <= l->size && abs(v) <= l->size; }

static bool in_cross(const layer *l, int u, int v) {
    return in_square(l, u, v) && (abs(u) <= l->detail || abs(v) <= l->detail);
}

/* How many of the n sides of a regular polygon with inner radius r have (u, v) on their inner side. */
static int sides_kept(int n, int r, int u, int v) {
    int kept = 0;
    for (int k = 0; k < n; k++) {
        int a = k * (TURN / n);
        kept += (u * integer_sine(a + QUARTER) + v * integer_sine(a)) / UNIT <= r;
    }
    return kept;
}

static bool in_triangle(const layer *l, int u, int v) { return sides_kept(3, l->size / 2, u, v) == 3; }

/* A pentagram is the pentagon in its middle and the five tips, each outside of one side: 0.309 is cos 72
 * degrees. */
static bool in_star(const layer *l, int u, int v) { return sides_kept(5, l->size * 309 / 1000, u, v) >= 4; }

static bool odd_field(const layer *l, int w) {
    return (w + l->detail + 1024 * l->size) / l->size % 2; /* the offset keeps the dividend positive */
}

static bool in_stripes(const layer *l, int u, int v) {
    return abs(u) <= l->reach && abs(v) <= l->reach && odd_field(l, v);
}

static bool in_checks(const layer *l, int u, int v) {
    return abs(u) <= l->reach && abs(v) <= l->reach && odd_field(l, u) != odd_field(l, v);
}

static const struct kind {
    const char *name;
    bool (*inside)(const layer *l, int u, int v);
    int angle, wobble, turns; /* angle +- wobble, plus a multiple of 90 degrees below `turns` */
    int size_lo, size_hi;
    int detail_lo, detail_hi; /* in percent of the size */
    bool texture;
} kinds[VT_DRAW_CLASSES] = {
    {"disc", in_disc, 0, 0, 1, 1900, 3000, 0, 0, false},
    {"square", in_square, 0, 6, 1, 1600, 2600, 0, 0, false},
    {"triangle", in_triangle, 30, 8, 1, 2700, 3900, 0, 0, false},
    {"ring", in_ring, 0, 0, 1, 2000, 3200, 50, 68, false},
    {"cross", in_cross, 0, 6, 1, 2200, 3200, 24, 36, false},
    {"star", in_star, 30, 6, 1, 2800, 3900, 0, 0, false},
    {"horizontal stripes", in_stripes, 0, 4, 1, 450, 1250, 0, 200, true},
    {"vertical stripes", in_stripes, 30, 4, 1, 450, 1250, 0, 200, true},
    {"diagonal stripes", in_stripes, 15, 4, 2, 450, 1250, 0, 200, true},
    {"checkerboard", in_checks, 0, 6, 1, 650, 1450, 0, 200, true},
};

/* A colour at distance `contrast` from `from` in one channel at least, and at most in the others. A contrast
 * up to 127 fits on one side of any level. */
static void choose_contrasting_colour(dice *d, int to[3], const int from[3], int contrast) {
    int leader = random_in_range(d, 0, 2);
    for (int c = 0; c < 3; c++) {
        int delta = random_in_range(d, -contrast, contrast), sign = random_in_range(d, 0, 1) ? 1 : -1;
        if (c == leader) delta = sign * contrast;
        to[c] = from[c] + delta;
        if (to[c] < 0 || to[c] > 255) to[c] = from[c] - delta;
    }
}

static layer main_layer(dice *d, int label, const int back[3]) {
    const struct kind *k = &kinds[label];
    layer l = {.inside = k->inside, .size = random_in_range(d, k->size_lo, k->size_hi)};
    l.angle = k->angle + random_in_range(d, -k->wobble, k->wobble) + QUARTER * random_in_range(d, 0, k->turns - 1);
    l.detail = l.size * random_in_range(d, k->detail_lo, k->detail_hi) / 100;
    l.reach = random_in_range(d, 2400, 4600);
    int spread = k->texture ? 5 * PIXEL : SIDE * PIXEL / 2 - l.size * 3 / 4;
    if (spread > 4 * PIXEL) spread = 4 * PIXEL;
    l.x = SIDE * PIXEL / 2 + random_in_range(d, -spread, spread);
    l.y = SIDE * PIXEL / 2 + random_in_range(d, -spread, spread);
    choose_contrasting_colour(d, l.rgb, back, roll_low(d, 30, 127));
    return l;
}

/* A dot, crumb or dash that means nothing. */
static layer random_distractor(dice *d, const int back[3]) {
    layer l = {.inside = random_in_range(d, 0, 1) ? in_disc : in_square, .size = random_in_range(d, 200, 620)};
    l.x = random_in_range(d, 0, SIDE * PIXEL), l.y = random_in_range(d, 0, SIDE * PIXEL),
    l.angle = random_in_range(d, 0, TURN - 1);
    choose_contrasting_colour(d, l.rgb, back, roll_low(d, 20, 110));
    return l;
}

/* ---- painting ---- */

typedef struct canvas {
    int level[3][SIDE][SIDE];
} canvas;

static void paint_layer(canvas *p, const layer *l) {
    int s = integer_sine(l->angle), c = integer_sine(l->angle + QUARTER);
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            int cover = 0; /* of SUB * SUB points */
            for (int k = 0; k < SUB * SUB; k++) {
                int dx = x * PIXEL + (2 * (k % SUB) + 1) * PIXEL / (2 * SUB) - l->x;
                int dy = y * PIXEL + (2 * (k / SUB) + 1) * PIXEL / (2 * SUB) - l->y;
                cover += l->inside(l, (dx * c + dy * s) / UNIT, (dy * c - dx * s) / UNIT);
            }
            for (int ch = 0; ch < 3; ch++) {
                int *v = &p->level[ch][y][x];
                *v = (*v * (SUB * SUB - cover) + l->rgb[ch] * cover) / (SUB * SUB);
            }
        }
}

/* (1, 2, 1) / 4 in both directions, edges repeated. */
static void blur_canvas(canvas *p) {
    for (int ch = 0; ch < 3; ch++) {
        int row[SIDE][SIDE];
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) {
                const int *v = p->level[ch][y];
                row[y][x] = v[x > 0 ? x - 1 : 0] + 2 * v[x] + v[x < SIDE - 1 ? x + 1 : x];
            }
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++)
                p->level[ch][y][x] =
                    (row[y > 0 ? y - 1 : 0][x] + 2 * row[y][x] + row[y < SIDE - 1 ? y + 1 : y][x] + 8) / 16;
    }
}

/* Uneven light: a slope across the picture and a lattice of random levels every 8 pixels, joined bilinearly.
 */
static void add_uneven_light(canvas *p, dice *d, vt_rng lattice_key) {
    enum { STEP = 8, NODES = SIDE / STEP + 1 };
    int angle = random_in_range(d, 0, TURN - 1), s = integer_sine(angle), c = integer_sine(angle + QUARTER);
    int clouds = roll_low(d, 0, 36);
    dice nodes = {.key = lattice_key};
    for (int ch = 0; ch < 3; ch++) {
        int slope = random_in_range(d, -28, 28), node[NODES][NODES];
        for (int k = 0; k < NODES * NODES; k++) node[k / NODES][k % NODES] = random_in_range(&nodes, -clouds, clouds);
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) {
                int across = (2 * x - SIDE + 1) * c + (2 * y - SIDE + 1) * s; /* +-(SIDE - 1) sqrt 2, times UNIT */
                const int *a = &node[y / STEP][x / STEP], *b = &node[y / STEP + 1][x / STEP];
                int fx = x % STEP, fy = y % STEP;
                int cloud = (a[0] * (STEP - fx) + a[1] * fx) * (STEP - fy) + (b[0] * (STEP - fx) + b[1] * fx) * fy;
                p->level[ch][y][x] += across / UNIT * slope / SIDE + cloud / (STEP * STEP);
            }
    }
}

static void add_pixel_noise(canvas *p, int amount, vt_rng key) {
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            uint32_t word = vt_rng_bits(&key, (uint64_t)(y * SIDE + x));
            for (int ch = 0; ch < 3; ch++, word >>= 8)
                p->level[ch][y][x] += (int)((word & 255u) * (uint32_t)(2 * amount + 1) / 256u) - amount;
        }
}

/* Picture `index` of a seed, as class `label` (in [0, VT_DRAW_CLASSES)); rgb is planar (3, 32, 32). */
static void draw_image(uint8_t rgb[VT_DRAW_BYTES], int label, uint64_t seed, uint64_t index) {
    dice d = {.key = key_of(seed, index, KEY_SCENE)};
    int back[3];
    for (int c = 0; c < 3; c++) back[c] = random_in_range(&d, 48, 207);
    canvas p;
    for (int c = 0; c < 3; c++)
        for (int k = 0; k < SIDE * SIDE; k++) p.level[c][k / SIDE][k % SIDE] = back[c];

    layer subject = main_layer(&d, label, back);
    int below = roll_low(&d, 0, 3), above = roll_low(&d, 0, 2);
    for (int k = 0; k < below + above; k++) {
        if (k == below) paint_layer(&p, &subject);
        layer l = random_distractor(&d, back);
        paint_layer(&p, &l);
    }
    if (!above) paint_layer(&p, &subject);
    for (int n = random_in_range(&d, 0, 2); n > 0; n--) blur_canvas(&p);
    add_uneven_light(&p, &d, key_of(seed, index, KEY_LATTICE));
    add_pixel_noise(&p, random_in_range(&d, 2, 18), key_of(seed, index, KEY_NOISE));

    for (int c = 0; c < 3; c++)
        for (int k = 0; k < SIDE * SIDE; k++) {
            int v = p.level[c][k / SIDE][k % SIDE];
            rgb[c * SIDE * SIDE + k] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
        }
}

/* Label of picture `index`: every ten consecutive indices hold each class once, in an order of their own. */
static int label_of(uint64_t seed, uint64_t index) {
    dice d = {.key = key_of(seed, index - index % VT_DRAW_CLASSES, KEY_LABEL)};
    int order[VT_DRAW_CLASSES];
    for (int k = 0; k < VT_DRAW_CLASSES; k++) order[k] = k;
    for (int k = VT_DRAW_CLASSES - 1; k > 0; k--) {
        int j = random_in_range(&d, 0, k), t = order[k];
        order[k] = order[j], order[j] = t;
    }
    return order[index % VT_DRAW_CLASSES];
}

#define TEST_BASE 10000000000u /* a multiple of VT_DRAW_CLASSES beyond every index of the training split */

/* Index of image i of a split; the two splits never meet. */
static uint64_t train_index(int64_t i) { return (uint64_t)i; }
static uint64_t test_index(int64_t i) { return TEST_BASE + (uint64_t)i; }

/* ---- files ---- */

typedef struct output {
    const char *name;
    uint64_t (*index)(int64_t i); /* NULL: the class names */
    int64_t count;
    vt_file file;
    bool begun, placed;
} output;

static void put_images(FILE *f, const output *o, uint64_t seed) {
    for (int64_t i = 0; i < o->count && !ferror(f); i++) {
        uint8_t record[1 + VT_DRAW_BYTES];
        uint64_t index = o->index(i);
        int label = label_of(seed, index);
        record[0] = (uint8_t)label;
        draw_image(record + 1, label, seed, index);
        fwrite(record, sizeof record, 1, f);
    }
}

static void put_names(FILE *f) {
    for (int k = 0; k < VT_DRAW_CLASSES; k++) fprintf(f, "%s\n", kinds[k].name);
}

static vt_status write_all(output *o, int n, const char *dir, uint64_t seed, vt_err *e) {
    char path[VT_PATH_MAX];
    if (mkdir(dir, 0777) && errno != EEXIST)
        return vt_fail(e, VT_E_IO, "cannot make the folder %s: %s", dir, strerror(errno));
    for (int k = 0; k < n; k++) {
        if (!vt_path(path, dir, o[k].name)) return vt_fail(e, VT_E_IO, "%s: path is too long", dir);
        if (access(path, F_OK) == 0) return vt_fail(e, VT_E_IO, "%s exists already and is not overwritten", path);
        VT_TRY(vt_file_begin_path(&o[k].file, path, e));
        o[k].begun = true;
    }
    for (int k = 0; k < n; k++) { /* the commit tells what could not be written */
        if (o[k].index)
            put_images(o[k].file.stream, &o[k], seed);
        else
            put_names(o[k].file.stream);
    }
    for (int k = 0; k < n; k++) {
        o[k].begun = false;
        VT_TRY(vt_file_commit(&o[k].file, e));
        o[k].placed = true;
    }
    return VT_OK;
}

vt_status vt_draw_write(const char *dir, int64_t train, int64_t test, uint64_t seed, vt_err *e) {
    if (train < 1 || train > VT_DRAW_MAX)
        return vt_fail(e, VT_E_RANGE, "the number of training images is %lld, not in 1..%d", (long long)train,
                       VT_DRAW_MAX);
    if (test < 1 || test > VT_DRAW_MAX)
        return vt_fail(e, VT_E_RANGE, "the number of test images is %lld, not in 1..%d", (long long)test, VT_DRAW_MAX);

    output out[] = {{.name = "data_batch_1.bin", .index = train_index, .count = train},
                    {.name = "test_batch.bin", .index = test_index, .count = test},
                    {.name = "batches.meta.txt"}};
    int n = sizeof out / sizeof *out;
    vt_status s = write_all(out, n, dir, seed, e);
    for (int k = 0; k < n; k++) {
        if (out[k].begun) vt_file_abandon(&out[k].file);
        if (s && out[k].placed) unlink(out[k].file.path);
    }
    return s;
}
