/* SPDX-License-Identifier: MIT */
/* The patch threat: where squares lie, that nothing moves outside them, the judge's search against brute force, closed
 * forms on linear models, Patch-Fool's projection, and attention that follows the key token. */
#include "ask.h"
#include "base/real.h"
#include "t.h"

#include "attacks/attack.h"
#include "linalg/gemm.h"
#include "eval/verify.h"
#include "planted.h"

/* ---- one image on the bench ---- */

typedef struct bench {
    vt_oracle o;
    vt_ball ball;
    vt_patch patch;
    vt_task t;
    float *x, *lo, *hi, *x_adv;
    size_t n;
    float picture[3 * 64]; /* of at most 8 x 8 pixels */
} bench;

static float *floats(size_t n) {
    float *f = malloc((n + 1) * sizeof *f);
    assert_non_null(f);
    return f;
}

static void bench_open(bench *b, const vt_classifier *c, int h, int w, vt_patch patch, int label, uint64_t seed) {
    memset(b, 0, sizeof *b);
    size_t n = b->n = 3 * (size_t)h * (size_t)w;
    b->x = floats(n), b->lo = floats(n), b->hi = floats(n), b->x_adv = floats(n);
    vt_rng_uniforms(&(vt_rng){.seed = seed, .purpose = 0x7E57}, b->x, n);
    vt_ball_init(&b->ball, VT_LINF, 1, b->x, n, b->lo, b->hi);
    assert_int_equal(vt_oracle_open(&b->o, c, NULL), VT_OK);
    b->o.mode = VT_ORACLE_EXHAUSTIVE;
    b->o.surrogate = c; /* a planted classifier keeps one point, which a gradient is asked of at once */
    b->patch = patch;
    if (!patch.grid) b->patch.grid = 1;
    b->t = (vt_task){.x = b->x, .n = n, .shape = {3, h, w}, .classes = c->classes, .label = label};
    b->t.ball = &b->ball, b->t.patch = &b->patch, b->t.x_adv = b->x_adv;
    vt_rng_uniforms(&(vt_rng){.seed = seed, .purpose = 0x91C7}, b->picture, T_COUNT(b->picture));
    b->t.picture = b->picture;
}

static void bench_close(bench *b) {
    vt_oracle_close(&b->o);
    free(b->x), free(b->lo), free(b->hi), free(b->x_adv);
}

static vt_status bench_spec(bench *b, const char *spec, uint64_t seed, uint32_t image) {
    vt_attack a;
    vt_err e = {0};
    if (vt_attack_parse(&a, spec, VT_NORM_PATCH, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(a.n_stages, 1);
    size_t len = vt_attack_work_len(&a.stages[0], &b->t);
    b->t.work = floats(len + 1);
    for (size_t i = 0; i < len; i++) b->t.work[i] = NAN;
    b->t.work[len] = -7;
    b->t.rng = (vt_rng){.seed = seed, .purpose = vt_rng_purpose(a.stages[0].def->name), .image = image};
    vt_oracle_reset(&b->o, &b->ball, b->t.label, a.stages[0].def->white_box);
    for (size_t i = 0; i < b->n; i++) b->x_adv[i] = NAN;
    vt_status st = vt_attack_stage_run(&b->o, &a.stages[0], &b->t);
    assert_true(b->t.work[len] == -7);
    assert_ptr_equal(b->o.ball, &b->ball);
    free(b->t.work);
    vt_attack_free(&a);
    return st;
}

static bool moved(const bench *b, const float *v, int y, int x) {
    size_t area = b->n / 3, at = (size_t)(y * b->t.shape.width + x);
    for (size_t c = 0; c < 3; c++)
        if (v[c * area + at] != b->x[c * area + at]) return true;
    return false;
}

/* Smallest rectangle of what changed: its first pixel; false: nothing did, or it is larger than the square. */
static bool changed_at(const bench *b, vt_square *out) {
    int top = 1 << 20, left = 1 << 20, bottom = -1, right = -1;
    for (int y = 0; y < b->t.shape.height; y++)
        for (int x = 0; x < b->t.shape.width; x++)
            if (moved(b, b->x_adv, y, x)) {
                top = y < top ? y : top, left = x < left ? x : left;
                bottom = y > bottom ? y : bottom, right = x > right ? x : right;
            }
    *out = (vt_square){top, left};
    return bottom - top == b->patch.size - 1 && right - left == b->patch.size - 1;
}

/* ---- the judge ---- */

static bool judged(const bench *b, const float *v, vt_patch p) {
    vt_verdict d = {.inside = true, .broken = true, .borderline = true};
    vt_verify_patch(&d, b->x, v, b->t.shape, &p);
    assert_true(d.inside == d.broken && d.inside == d.borderline);
    return d.inside;
}

/* Every placement of up to two squares of a grid, against every pattern drawn. */
static bool brute(const bench *b, const float *v, vt_patch p) {
    int h = b->t.shape.height, w = b->t.shape.width, s = p.size;
    for (int y1 = 0; y1 + s <= h; y1 += p.grid)
        for (int x1 = 0; x1 + s <= w; x1 += p.grid)
            for (int y2 = 0; y2 + s <= h; y2 += p.grid)
                for (int x2 = 0; x2 + s <= w; x2 += p.grid) {
                    if (p.count == 1) y2 = y1, x2 = x1;
                    bool all = true;
                    for (int y = 0; y < h && all; y++)
                        for (int x = 0; x < w && all; x++)
                            all = !moved(b, v, y, x) || (y >= y1 && y < y1 + s && x >= x1 && x < x1 + s) ||
                                  (y >= y2 && y < y2 + s && x >= x2 && x < x2 + s);
                    if (all) return true;
                    if (p.count == 1) y2 = h, x2 = w;
                }
    return false;
}

static void test_judge(void **state) {
    (void)state;
    planted p;
    assert_true(planted_linear(&p, 3, 8, 6, 1));
    int yes = 0, no = 0;
    for (uint32_t k = 0; k < 3000; k++) {
        vt_rng r = {.seed = 5, .purpose = 0x7E57, .image = k};
        vt_patch patch = {.size = 2 + 2 * (int)(k % 2), .count = 1 + (int)(k / 2 % 2), .grid = k % 3 ? 1 : 2};
        bench b;
        bench_open(&b, &p.c, 8, 6, patch, 0, k);
        memcpy(b.x_adv, b.x, b.n * sizeof(float));
        int points = 1 + (int)(vt_rng_bits(&r, 0) % 7), spread = 2 + (int)(vt_rng_bits(&r, 1) % 5);
        for (int i = 0; i < points; i++) { /* near each other, so that both answers are frequent */
            int y = (int)(vt_rng_bits(&r, (uint64_t)(4 * i + 2)) % 8),
                x = (int)(vt_rng_bits(&r, (uint64_t)(4 * i + 3)) % 6);
            if (i % 3) y = y % spread, x = x % spread;
            b.x_adv[(size_t)(vt_rng_bits(&r, (uint64_t)(4 * i + 4)) % 3) * 48 + (size_t)(6 * y + x)] += 0.25f;
        }
        bool want = brute(&b, b.x_adv, patch);
        assert_int_equal(judged(&b, b.x_adv, patch), want);
        yes += want, no += !want;
        bench_close(&b);
    }
    assert_true(yes > 500 && no > 500);
    planted_free(&p);
}

/* ---- every attack that knows patches ---- */

static void check_attack(const vt_attack_def *def, int shape, int k) {
    static const int shapes[4][2] = {{8, 8}, {5, 9}, {3, 3}, {12, 7}};
    static const char *const wheres[] = {"saliency", "attention", "random", "centre", "corner", "any"};
    const int *hw = shapes[shape];
    planted p;
    assert_true(k % 2 ? planted_mlp(&p, 5, hw[0], hw[1], (uint64_t)k)
                      : planted_linear(&p, 5, hw[0], hw[1], (uint64_t)k));
    vt_patch patch = {.size = 2 + k % 2, .count = 1 + k % 3, .grid = k % 4 == 3 ? 2 + k % 2 : 1};
    char spec[160];
    const char *budget = def->pastes ? "" : def->white_box || def->surrogate ? "steps=6," : "queries=40,";
    const char *where = wheres[def->white_box                 ? k % 6
                               : def->surrogate && k % 4 == 0 ? 0 /* its saliency */
                                                              : 2 + k % 4];
    snprintf(spec, sizeof spec, "%s:%swhere=%s,places=%d", def->name, budget, where, 1 + k % 2);
    bench b;
    bench_open(&b, &p.c, hw[0], hw[1], patch, k % 5, (uint64_t)k);
    float *first = floats(b.n);
    b.o.mode = k % 2 ? VT_ORACLE_EXHAUSTIVE : VT_ORACLE_SEARCH;
    vt_status st = bench_spec(&b, spec, 3, (uint32_t)k);
    assert_true(st == VT_OK || (st == VT_STOP && b.o.mode == VT_ORACLE_SEARCH));
    const float *v = b.o.has_found ? b.o.found : b.x_adv;
    assert_true(judged(&b, v, b.patch));
    for (size_t i = 0; i < b.n; i++) assert_true(v[i] >= 0 && v[i] <= 1);
    memcpy(first, v, b.n * sizeof(float));
    assert_int_equal(bench_spec(&b, spec, 3, (uint32_t)k), st); /* nothing but the key decides */
    assert_memory_equal(first, b.o.has_found ? b.o.found : b.x_adv, b.n * sizeof(float));
    free(first);
    bench_close(&b);
    planted_free(&p);
}

static void test_every_attack(void **state) {
    (void)state;
    int n, known = 0;
    const vt_attack_def *const *defs = vt_attack_defs(&n);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 60 && (defs[i]->norms & VT_CAN_PATCH); k++) {
            check_attack(defs[i], k % 4, k);
            known += k == 0;
        }
    assert_true(known >= 8);
}

/* ---- where ---- */

/* On a linear model of two classes the saliency of a pixel is |w_1 - w_0| in normalised units, times one number. */
static vt_square salient(const planted *p, int grid) {
    double best = -1;
    vt_square at = {0, 0};
    for (int y = 0; y + 3 <= 9; y += grid)
        for (int x = 0; x + 3 <= 7; x += grid) {
            double sum = 0;
            for (int i = 0; i < 27; i++) {
                size_t k = (size_t)(i / 9 * 63 + (y + i / 3 % 3) * 7 + x + i % 3);
                sum += p->c.std[i / 9] * fabs(p->w[63 * 3 + k] - p->w[k]);
            }
            if (sum > best) best = sum, at = (vt_square){y, x};
        }
    return at;
}

/* The square lies where it is most salient: to the model or, where a surrogate is attacked, to that one, which has a
 * normalisation of its own. */
static void test_saliency(void **state) {
    (void)state;
    for (uint64_t k = 0; k < 20; k++) {
        planted p, other;
        assert_true(planted_linear(&p, 2, 9, 7, k) && planted_linear(&other, 2, 9, 7, 100 + k));
        for (int c = 0; c < 3; c++) other.c.std[c] = 0.05 + 0.4 * (double)((k + (uint64_t)c) % 3);
        bench b;
        bench_open(&b, &p.c, 9, 7, (vt_patch){.size = 3, .count = 1, .grid = 1 + (int)(k % 2)}, 0, k);
        b.o.surrogate = &other.c;
        for (int surrogate = 0; surrogate < 2; surrogate++) {
            vt_square want = salient(surrogate ? &other : &p, b.patch.grid), got;
            assert_int_equal(bench_spec(&b, surrogate ? "transfer:steps=1,where=saliency" : "pgd:steps=1", k, 0),
                             VT_OK);
            assert_true(changed_at(&b, &got));
            assert_true(got.y == want.y && got.x == want.x);
        }
        bench_close(&b), planted_free(&p), planted_free(&other);
    }
}

static void test_places(void **state) {
    (void)state;
    planted p;
    assert_true(planted_linear(&p, 2, 8, 8, 3));
    bench b;
    vt_square got;
    bench_open(&b, &p.c, 8, 8, (vt_patch){.size = 4, .count = 1}, 0, 1);
    assert_int_equal(bench_spec(&b, "pgd:steps=1,where=corner", 1, 0), VT_OK);
    assert_true(changed_at(&b, &got) && got.y == 0 && got.x == 0);
    assert_int_equal(bench_spec(&b, "pgd:steps=1,where=centre", 1, 0), VT_OK);
    assert_true(changed_at(&b, &got) && got.y == 2 && got.x == 2);
    for (int token = 0; token < 4; token++) { /* planted attention is brightness */
        for (size_t i = 0; i < b.n; i++) b.x[i] = planted_token(&p, i) == token ? 0.6f : 0.4f;
        assert_int_equal(bench_spec(&b, "pgd:steps=1,where=attention", 1, 0), VT_OK);
        assert_true(changed_at(&b, &got) && got.y == token / 2 * 4 && got.x == token % 2 * 4);
    }
    int seen[5][5] = {{0}}, kinds = 0;
    for (uint32_t image = 0; image < 500; image++) { /* 25 places: each is expected 20 times, deviation 4.4 */
        assert_int_equal(bench_spec(&b, "pgd:steps=1,where=random", 1, image), VT_OK);
        assert_true(changed_at(&b, &got));
        seen[got.y][got.x]++;
    }
    for (int i = 0; i < 25; i++) {
        assert_in_range(seen[i / 5][i % 5], 2, 42);
        kinds += seen[i / 5][i % 5] > 0;
    }
    assert_int_equal(kinds, 25);
    /* where attention cannot be looked at, nobody looks */
    p.c.tokens.layers = 0;
    assert_int_equal(bench_spec(&b, "pgd:where=attention", 1, 0), VT_E_FORBIDDEN);
    assert_int_equal(bench_spec(&b, "patch-fool", 1, 0), VT_E_FORBIDDEN);
    bench_close(&b), planted_free(&p);
}

static void no_query_outside(void *arg, const float *x, int64_t call, float *z) {
    bench *b = arg;
    (void)call, (void)z;
    vt_verdict d = {.inside = true};
    vt_verify_patch(&d, b->x, x, b->t.shape, &b->patch);
    int pixels = 0;
    for (int i = 0; i < 64; i++) pixels += moved(b, x, i / 8, i % 8);
    /* a count, read below: the clean image, or every pixel of two squares apart (a random start leaves none alone) */
    b->t.label += !d.inside || (pixels != 0 && pixels != 18);
}

/* Two places of two squares: four squares that overlap nowhere, tried two by two, and no query shows more. */
static void test_more_places(void **state) {
    (void)state;
    planted p;
    assert_true(planted_linear(&p, 2, 8, 8, 9));
    bench b;
    bench_open(&b, &p.c, 8, 8, (vt_patch){.size = 3, .count = 2}, 0, 2);
    b.ball.eps = 1;
    for (size_t i = 0; i < 2 * p.n; i++) p.w[i] *= 1e-6; /* nothing breaks */
    p.b[0] = 1, p.b[1] = -1;
    p.watch = no_query_outside, p.arg = &b;
    assert_int_equal(bench_spec(&b, "pgd:steps=2,places=2", 1, 0), VT_OK);
    assert_int_equal(b.t.label, 0);
    assert_int_equal(b.o.gradients, 1 + 2 * 2); /* saliency; steps of two places */
    bench_close(&b), planted_free(&p);
}

/* where=any: all places are asked, each once; some of them are distinct, and each is as likely as another; squares of
 * the grid alone. */
typedef struct asked {
    const bench *b;
    int seen[7][9], queries;
} asked;

static void note_place(void *arg, const float *x, int64_t call, float *z) {
    asked *a = arg;
    const bench *b = a->b;
    (void)call, (void)z;
    memcpy(b->x_adv, x, b->n * sizeof *x);
    vt_square at;
    if (!changed_at(b, &at)) return; /* a count that is missing, below */
    bool same = true;
    for (int i = 0; i < 27; i++) same = same && x[i / 9 * 63 + (at.y + i / 3 % 3) * 9 + at.x + i % 3] == b->picture[i];
    a->seen[at.y][at.x] += same;
    a->queries++;
}

static void test_any_place(void **state) {
    (void)state;
    planted p;
    bench b;
    assert_true(planted_linear(&p, 2, 7, 9, 9));
    bench_open(&b, &p.c, 7, 9, (vt_patch){.size = 3, .count = 1}, 0, 2);
    for (size_t i = 0; i < 2 * p.n; i++) p.w[i] *= 1e-6; /* nothing breaks */
    p.b[0] = 1, p.b[1] = -1;
    asked a = {.b = &b};
    p.watch = note_place, p.arg = &a;
    for (int grid = 1; grid < 4; grid++) {
        memset(a.seen, 0, sizeof a.seen);
        b.patch.grid = grid;
        assert_int_equal(bench_spec(&b, "universal:places=0", 1, 0), VT_OK);
        for (int i = 0; i < 63; i++)
            assert_int_equal(a.seen[i / 9][i % 9],
                             i / 9 + 3 <= 7 && i % 9 + 3 <= 9 && i / 9 % grid == 0 && i % 9 % grid == 0);
    }
    b.patch.grid = 1, a.queries = 0;
    memset(a.seen, 0, sizeof a.seen);
    for (uint32_t image = 0; image < 350; image++) /* 4 of 35 places: each is expected 40 times, deviation 6 */
        assert_int_equal(bench_spec(&b, "universal:places=4", 1, image), VT_OK);
    assert_int_equal(a.queries, 4 * 350);
    for (int i = 0; i < 35; i++) assert_in_range(a.seen[i / 7][i % 7], 12, 68);
    b.t.picture = NULL;
    assert_int_equal(bench_spec(&b, "universal", 1, 0), VT_E_FORBIDDEN);
    bench_close(&b), planted_free(&p);
}

/* What a run to the end asks for is what the attack's cost says, in every place and to choose the places; with layers
 * as few and as many as Patch-Fool's rule tells apart. */
static void test_cost(void **state) {
    (void)state;
    static const char *const specs[] = {"pgd:steps=2,places=2",
                                        "pgd:steps=3,where=attention",
                                        "apgd-t:steps=2,where=corner,places=3",
                                        "square:queries=5",
                                        "transfer:steps=3,where=saliency,places=2",
                                        "attention-fool:steps=2",
                                        "universal:places=4",
                                        "universal:places=0",
                                        "pgd:steps=2,where=any,places=200",
                                        "attention-pgd:steps=3,restarts=2,where=random",
                                        "patch-fool:steps=3,restarts=2",
                                        "patch-fool:steps=2,attention=0,where=saliency"};
    static const int layers[] = {1, 2, 3, 4, 8, 12};
    planted p;
    bench b;
    assert_true(planted_linear(&p, 5, 8, 8, 9));
    bench_open(&b, &p.c, 8, 8, (vt_patch){.size = 3, .count = 1}, 0, 2);
    for (size_t i = 0; i < 5 * p.n; i++) p.w[i] *= 1e-4; /* nothing breaks */
    p.b[0] += 5;
    for (size_t k = 0; k < T_COUNT(specs) * T_COUNT(layers); k++) {
        const char *spec = specs[k / T_COUNT(layers)];
        vt_attack a;
        p.c.tokens.layers = layers[k % T_COUNT(layers)];
        assert_int_equal(vt_attack_parse(&a, spec, VT_NORM_PATCH, NULL), VT_OK);
        vt_passes c = vt_attack_cost(&a, &(vt_cost_dims){.classes = 5, .layers = p.c.tokens.layers, .points = 36});
        vt_attack_free(&a);
        assert_int_equal(bench_spec(&b, spec, 1, 0), VT_OK);
        if ((double)b.o.forwards != c.forwards || (double)b.o.gradients != c.gradients)
            fail_msg("%s, %d layers: %g forwards and %g gradients, cost says %g and %g", spec, p.c.tokens.layers,
                     (double)b.o.forwards, (double)b.o.gradients, c.forwards, c.gradients);
    }
    bench_close(&b), planted_free(&p);
}

/* ---- closed forms: a linear model's best patch is a corner of the cube ---- */

static void test_optimum(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        double
            share; /* of the best gain; Adam's and decaying steps end near the corner, sign steps of the cube in it */
    } rows[] = {{"pgd:steps=20,where=corner", 1},
                {"apgd-ce:steps=30,where=corner", 1},
                {"patch-fool:attention=0,where=corner", 0.999},
                {"attention-fool:lambda=0", 0.999},
                {"square:queries=3000,where=corner", 0.999}};
    for (size_t r = 0; r < T_COUNT(rows); r++)
        for (uint64_t k = 0; k < 5; k++) {
            planted p;
            assert_true(planted_linear(&p, 2, 8, 8, k));
            bench b;
            bench_open(&b, &p.c, 8, 8, (vt_patch){.size = 4, .count = 1}, 0, k);
            for (size_t i = 0; i < 2 * p.n; i++) p.w[i] *= 0.01;
            p.b[0] += 5; /* nothing breaks: the best gain is about 0.4 */
            double best = 0, got = 0;
            for (size_t i = 0; i < b.n; i++) {
                double w = p.w[b.n + i] - p.w[i];
                bool in = i % 64 / 8 < 4 && i % 8 < 4;
                if (in) best += fmax(-w * (double)b.x[i], w * (1 - (double)b.x[i]));
            }
            vt_oracle_reset(&b.o, &b.ball, 0, true);
            assert_int_equal(bench_spec(&b, rows[r].spec, k, 0), VT_OK);
            for (size_t i = 0; i < b.n; i++) got += (p.w[b.n + i] - p.w[i]) * ((double)b.x_adv[i] - (double)b.x[i]);
            t_le(rows[r].share * best - got, 1e-9, "%s", rows[r].spec);
            bench_close(&b), planted_free(&p);
        }
}

/* ---- Patch-Fool's direction: ce + alpha (g - beta ce); Adam's first step is its sign ---- */

static void keep_first(void *arg, const float *x, int64_t call, float *z) {
    float **keep = arg;
    (void)z;
    if (call == keep[1][0]) memcpy(keep[0], x, 192 * sizeof(float));
}

static void check_projection(const char *beta, bool paper, uint64_t k) {
    planted p;
    assert_true(planted_linear(&p, 2, 8, 8, k));
    bench b;
    bench_open(&b, &p.c, 8, 8, (vt_patch){.size = 4, .count = 1}, 0, k);
    /* gradients that are largely along attention's, or against it, so that what is left after the projection has signs
     * of its own */
    for (size_t i = 0; i < 2 * b.n; i++) p.w[i] = 0.02 * (p.w[i] + (i < b.n ? 0 : k % 2 ? 2 : -2));
    float start[192], which = 0, *keep[2] = {start, &which};
    p.watch = keep_first, p.arg = keep;
    char spec[100];
    snprintf(spec, sizeof spec, "patch-fool:steps=1,lr=1e-4,attention=1000,where=corner,beta=%s", beta);
    assert_int_equal(bench_spec(&b, spec, k, 0), VT_OK);
    /* the gradients at the start, in units of the normalised input (std 0.25) */
    double z[2], g[192] = {0}, ce[192] = {0}, inner = 0, square = 0;
    linear_logits(&p, start, z);
    double share = 1 / (1 + exp(z[0] - z[1])); /* of the other class: d CE / d (z_1 - z_0) */
    for (size_t i = 0; i < 192; i++) {
        if (i % 64 / 8 >= 4 || i % 8 >= 4) continue;
        ce[i] = 0.25 * share * (p.w[192 + i] - p.w[i]), g[i] = 0.25 / 192;
        inner += g[i] * ce[i], square += ce[i] * ce[i];
    }
    double factor = inner >= 0 ? 0 : paper ? inner / square : inner / sqrt(square) / 64;
    for (size_t i = 0; i < 192; i++) {
        double d = ce[i] + 1000 * (g[i] - factor * ce[i]), step = (double)b.x_adv[i] - (double)start[i];
        if (g[i] == 0) assert_true(b.x_adv[i] == b.x[i]);
        if (g[i] == 0 || fabs(d) < 1e-4 || start[i] < 0.001f || start[i] > 0.999f) continue;
        /* 1e-4 times std; 2^-24 of rounding, Adam's 1e-8 beside |d| >= 1e-4 */
        t_le(fabs(step - copysign(0.25e-4, d)), 7e-8, "pixel %zu", i);
    }
    bench_close(&b), planted_free(&p);
}

static void test_projection(void **state) {
    (void)state;
    for (uint64_t k = 0; k < 12; k++) check_projection("paper", true, k), check_projection("reference", false, k);
}

/* ---- a real model: attention goes where it is driven ---- */

static vt_model *small(void) {
    vt_config c = {.arch = "vit",
                   .attn = "dot",
                   .image = 16,
                   .patch = 4,
                   .dim = 16,
                   .depth = 3,
                   .heads = 2,
                   .hidden = 24,
                   .classes = 5,
                   .qkv_bias = true,
                   .ln_eps = 1e-6,
                   .attn_scale = sqrt(0.125),
                   .mean = {0.5, 0.5, 0.5},
                   .std = {0.25, 0.25, 0.25}};
    vt_model *m = NULL;
    assert_int_equal(vt_model_new(&m, &c, NULL), VT_OK);
    assert_int_equal(vt_model_init(m, 3), VT_OK);
    float *big = floats(m->params.total);
    vt_rng_normals(&(vt_rng){.seed = 4, .purpose = 0x7E57}, big, m->params.total);
    for (size_t i = 0; i < m->params.total; i++) m->w[i] += 0.2f * big[i];
    vt_model_refresh(m);
    free(big);
    return m;
}

/* Mean over blocks of the attention that a patch gets. */
static double looked_at(const vt_classifier *c, const float *x, int patch) {
    float z[5], mean[16];
    double sum = 0;
    ask_logits(c, x, z, true);
    for (int l = 0; l < 3; l++) {
        c->tokens.mean(c->tokens.self, l, mean);
        sum += (double)mean[patch] / 3;
    }
    return sum;
}

static void test_attention_rises(void **state) {
    (void)state;
    vt_model *m = small();
    vt_classifier c;
    assert_int_equal(vt_classifier_open(&c, m, NULL), VT_OK);
    assert_true(c.tokens.layers == 3 && c.tokens.side == 4 && c.tokens.prefix == 1);
    int patch_up = 0, ball_up = 0;
    for (uint64_t k = 0; k < 16; k++) {
        bench b;
        bench_open(&b, &c, 16, 16, (vt_patch){.size = 4, .count = 1}, (int)(k % 5), k);
        double before = looked_at(&c, b.x, 0);
        assert_int_equal(bench_spec(&b, "attention-fool:loss=none,query=all,steps=40", 1, (uint32_t)k), VT_OK);
        patch_up += looked_at(&c, b.x_adv, 0) > before;
        vt_attack a;
        assert_int_equal(vt_attack_parse(&a, "attention-pgd:loss=none,key=5,steps=40", VT_LINF, NULL), VT_OK);
        vt_ball_init(&b.ball, VT_LINF, 0.05, b.x, b.n, b.lo, b.hi);
        vt_oracle_reset(&b.o, &b.ball, b.t.label, true);
        b.t.work = floats(vt_attack_work_len(&a.stages[0], &b.t));
        assert_int_equal(vt_attack_stage_run(&b.o, &a.stages[0], &b.t), VT_OK);
        assert_true(vt_ball_contains(&b.ball, b.x_adv));
        ball_up += looked_at(&c, b.x_adv, 5) > looked_at(&c, b.x, 5);
        assert_int_equal(b.o.gradients, 40);
        free(b.t.work);
        vt_attack_free(&a);
        bench_close(&b);
    }
    assert_int_equal(patch_up, 16); /* a free patch; a ball of 0.05 */
    assert_int_equal(ball_up, 16);
    vt_classifier_close(&c);
    vt_model_close(m);
}

static int setup(void **state) {
    (void)state;
    vt_blas_single_thread();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_judge),           cmocka_unit_test(test_every_attack), cmocka_unit_test(test_saliency),
        cmocka_unit_test(test_places),          cmocka_unit_test(test_more_places),  cmocka_unit_test(test_cost),
        cmocka_unit_test(test_any_place),       cmocka_unit_test(test_optimum),      cmocka_unit_test(test_projection),
        cmocka_unit_test(test_attention_rises),
    };
    return cmocka_run_group_tests_name("patch", tests, setup, NULL);
}
