/* SPDX-License-Identifier: MIT */
/* analysis/attention_maps: maps of layers whose attention is known, against sums written down another way; the rollout
 * against a sum over all paths; which maps an option chooses. */
#define VT_DOUBLE
#include "base/real.h"
#include "toy.h"

#include "research/analysis/attention_maps.h"

/* A grid of 2 x 2 patches behind `prefix` tokens, three layers of two heads. */
enum { GRID = 2, PATCHES = 4, HEADS = 2, DEPTH = 3, MOST = PATCHES + 2, LDP = 8 };

typedef struct network {
    int t[DEPTH];
    double p[DEPTH][HEADS][MOST * LDP]; /* rows sum to 1; NaN beyond them */
} network;

static void fill(network *n, const int t[DEPTH], uint64_t seed) {
    for (int l = 0; l < DEPTH; l++) {
        n->t[l] = t[l];
        for (int h = 0; h < HEADS; h++) {
            double *p = n->p[l][h], raw[MOST * LDP];
            t_normals(raw, MOST * LDP, seed + (uint64_t)(10 * l + h), 1);
            for (int i = 0; i < MOST * LDP; i++) p[i] = NAN;
            for (int i = 0; i < t[l]; i++) {
                double sum = 0;
                for (int k = 0; k < t[l]; k++) sum += exp(raw[i * LDP + k]);
                for (int k = 0; k < t[l]; k++) p[i * LDP + k] = exp(raw[i * LDP + k]) / sum;
            }
        }
    }
}

/* P of head h (-1: the mean) at tokens counted from the last: -1 is the last patch, -PATCHES the first, further ones
 * the tokens in front. Tokens that are not there yet look at themselves. */
static double at(const network *n, int l, int h, int i, int k) {
    int row = i + n->t[l], col = k + n->t[l];
    if (row < 0 || col < 0) return i == k;
    if (h >= 0) return n->p[l][h][row * LDP + col];
    return (n->p[l][0][row * LDP + col] + n->p[l][1][row * LDP + col]) / 2;
}

/* Sum over all paths i -> a -> b -> k through the three layers of half the attention and half staying. */
static double rolled(const network *n, int i, int k) {
    double sum = 0;
    for (int a = -MOST; a < 0; a++)
        for (int b = -MOST; b < 0; b++) {
            double path = 1;
            path *= 0.5 * at(n, 2, -1, i, a) + 0.5 * (i == a);
            path *= 0.5 * at(n, 1, -1, a, b) + 0.5 * (a == b);
            path *= 0.5 * at(n, 0, -1, b, k) + 0.5 * (b == k);
            sum += path;
        }
    return sum;
}

static void run(vt_maps *m, const network *n) {
    vt_map_pass pass;
    vt_err e = {0};
    assert_int_equal(vt_map_begin(&pass, m, 0, 0, &e), VT_OK);
    for (int l = 0; l < DEPTH; l++) {
        double all[HEADS * MOST * LDP];
        for (int h = 0; h < HEADS; h++)
            memcpy(all + h * n->t[l] * LDP, n->p[l][h], (size_t)(n->t[l] * LDP) * sizeof *all);
        vt_map_layer(&pass, &(vt_layer){.block = l, .t = n->t[l], .heads = HEADS, .p = all, .ldp = LDP});
    }
    vt_map_end(&pass);
}

static void hold(const vt_maps *m, const network *n) {
    for (int c = 0; c < m->columns; c++) {
        int l = m->column[c].block, h = m->column[c].head, last = n->t[l < 0 ? DEPTH - 1 : l];
        bool one = m->class_query && last > PATCHES;
        for (int k = -PATCHES; k < 0; k++) {
            double want = 0;
            for (int i = one ? -last : -PATCHES; i < (one ? 1 - last : 0); i++)
                want += (l < 0 ? rolled(n, i, k) : at(n, l, h, i, k)) / (one ? 1 : PATCHES);
            t_le(fabs(vt_maps_at(m, 0, 0, c)[k + PATCHES] - want), 1e-14, "column %d, patch %d: %.17g, not %.17g", c, k,
                 vt_maps_at(m, 0, 0, c)[k + PATCHES], want);
        }
    }
}

/* With a class token, with one more before the patches, without any; and ConViT's, which joins behind the first layers.
 */
static void test_values(void **state) {
    (void)state;
    static const struct {
        int t[DEPTH];
        bool class_query;
    } cases[] = {{{5, 5, 5}, true},  {{6, 6, 6}, true}, {{4, 4, 4}, false},
                 {{5, 5, 5}, false}, {{4, 4, 5}, true}, {{4, 5, 5}, true}};
    vt_config c = toy_config("dot", VT_POOL_TOKEN, false, true);
    c.depth = DEPTH, c.heads = HEADS, c.image = GRID * c.patch;
    int32_t images[] = {7};
    const vt_analyze a = {.images = images, .n_images = 1};
    vt_err e = {0};
    for (size_t i = 0; i < T_COUNT(cases); i++) {
        vt_maps m = {0};
        network n;
        fill(&n, cases[i].t, 100 * i + 1);
        assert_int_equal(vt_maps_choose(&m, &c, "all,rollout", "mean,all", &e), VT_OK);
        assert_int_equal(m.columns, DEPTH * (1 + HEADS) + 1);
        assert_int_equal(vt_maps_open(&m, &a, &c, 4, &e), VT_OK);
        assert_true(m.images == 1 && m.passes == 1 && m.grid == GRID);
        m.tokens = MOST, m.class_query = cases[i].class_query;
        run(&m, &n);
        hold(&m, &n);
        vt_maps_close(&m);
    }
}

static void test_choice(void **state) {
    (void)state;
    vt_config c = toy_config("dot", VT_POOL_TOKEN, false, true);
    vt_err e = {0};
    vt_maps m = {0};
    char name[64];
    static const struct {
        int depth, heads;
        const char *blocks, *of, *names;
    } good[] = {
        {12, 3, "", "mean", "block 0, mean of 3 heads; block 5, mean of 3 heads; block 11, mean of 3 heads; rollout; "},
        {2, 3, "", "1", "block 0, head 1; block 1, head 1; rollout; "},
        {1, 1, "", "mean", "block 0, mean of 1 head; rollout; "},
        {3, 2, "2,0", "all", "block 2, head 0; block 2, head 1; block 0, head 0; block 0, head 1; "},
        {3, 2, "rollout", "all", "rollout; "},
    };
    for (size_t i = 0; i < T_COUNT(good); i++) {
        char all[300] = "";
        c.depth = good[i].depth, c.heads = good[i].heads;
        assert_int_equal(vt_maps_choose(&m, &c, good[i].blocks, good[i].of, &e), VT_OK);
        for (int k = 0; k < m.columns; k++) vt_maps_name(name, &m, k), strcat(strcat(all, name), "; ");
        assert_string_equal(all, good[i].names);
    }
    static const struct {
        const char *blocks, *heads, *says;
    } bad[] = {
        {"3", "mean", "--map-blocks 3: '3' must be all, rollout or a number from 0 to 2"},
        {"-1", "mean", "'-1' must be"},
        {"0,,1", "mean", "'' must be"},
        {"0", "2", "--map-heads 2: '2' must be all, mean or a number from 0 to 1"},
        {"0", "", "'' must be all, mean"},
        {"last", "mean", "'last' must be"},
    };
    c.depth = 3, c.heads = 2;
    for (size_t i = 0; i < T_COUNT(bad); i++)
        t_says(vt_maps_choose(&m, &c, bad[i].blocks, bad[i].heads, &e), VT_E_USAGE, &e, "--", bad[i].says);
    c.depth = 12, c.heads = 12;
    t_says(vt_maps_choose(&m, &c, "all", "all", &e), VT_E_USAGE, &e, "more than the 48 maps", "");
    t_says(vt_maps_choose(&m, &c, "all,all,all,all,all", "mean", &e), VT_E_USAGE, &e, "more than the 48 maps", "");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_choice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
