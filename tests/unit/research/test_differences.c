/* SPDX-License-Identifier: MIT */
/* How far apart two rows of a table are and what may be said of it. Judges: t tables, binomial tails, lines and means
 * by hand; for the tails of t Simpson's rule on its density (20,000 steps of the angle atan(t / sqrt(df)), in Python).
 */
#include "t.h"

#include "research/table/report.h"

/* ---- Student's t ---- */

static void student(void **state) {
    (void)state;
    static const struct {
        double t;
        int df;
        double p;
    } judge[] = {{1, 1, 0.5},
                 {12.706204736432095, 1, 0.05},
                 {2, 2, 0.18350341907227397},
                 {4.3026527297494637, 2, 0.05},
                 {3.1824463052842629, 3, 0.05},
                 {2.7764451051977987, 4, 0.05},
                 {0.5, 4, 0.6433299631818641},
                 {10, 4, 0.0005620036227159921},
                 {2.2281388519649385, 10, 0.05},
                 {1.9799304050824413, 121, 0.04998102291906309},
                 {0, 7, 1}};
    for (size_t i = 0; i < T_COUNT(judge); i++) {
        double p = vt_student_two_sided(judge[i].t, judge[i].df);
        t_le(fabs(p - judge[i].p), 5e-12, "p of t");
        t_le(fabs(vt_student_two_sided(-judge[i].t, judge[i].df) - p), 0, "both sides");
    }
    for (int df = 1; df < 60; df++) /* one is the other's inverse */
        t_le(fabs(vt_student_two_sided(vt_student_quantile(0.05, df), df) - 0.05), 1e-12, "quantile");
    double x[] = {1, 2, 3, 4}, same[] = {0.5, 0.5, 0.5}, mean, low, high, p;
    vt_mean_interval(x, 4, 0, &mean, &low, &high, &p); /* s = 1.29099, half = 3.18245 s / 2 */
    t_le(fabs(mean - 2.5) + fabs(low - (2.5 - 2.0542602567605206)) + fabs(high - 4.5542602567605206), 1e-12,
         "interval");
    t_le(fabs(p - vt_student_two_sided(2.5 / 0.6454972243679028, 3)), 1e-12, "p");
    vt_mean_interval(same, 3, 0.1, &mean, &low, &high, &p); /* agreement is taken for a spread of 0.1 */
    t_le(fabs(high - mean - 4.3026527297494637 * 0.1 / sqrt(3)), 1e-9, "least spread");
    vt_mean_interval(x, 1, 0, &mean, &low, &high, &p);
    assert_true(mean == 1 && isinf(low) && isinf(high) && p == 1);
}

/* ---- a table made by hand: rows of seeds of bits ---- */

enum { ROWS = 5, SEEDS = 3, COLUMNS = 2, MOST = 100 };

typedef struct bench {
    vt_manifest m;
    vt_manifest_data data[1];
    vt_manifest_attack attacks[COLUMNS];
    vt_manifest_row rows[ROWS];
    uint64_t seeds[ROWS][SEEDS];
    vt_plan plan;
    vt_plan_cell trained[ROWS];
    vt_table t;
    vt_table_cell cells[ROWS * COLUMNS];
    uint8_t bits[ROWS * COLUMNS][SEEDS][MOST], *right[ROWS * COLUMNS][SEEDS];
    double value[ROWS * COLUMNS][SEEDS];
    int32_t images[MOST];
} bench;

static bench *make(int images) {
    bench *b = calloc(1, sizeof *b);
    static const char *const names[] = {"A", "B", "C", "D", "E"};
    assert_non_null(b);
    b->data[0].name = "X", b->attacks[0].name = "clean", b->attacks[1].name = "PGD", b->attacks[1].spec = "pgd";
    b->m = (vt_manifest){.path = (char *)"x.yaml",
                         .data = b->data,
                         .attacks = b->attacks,
                         .rows = b->rows,
                         .n_data = 1,
                         .n_attacks = COLUMNS,
                         .n_rows = ROWS};
    b->plan = (vt_plan){.m = &b->m, .cells = b->trained, .n = ROWS};
    b->t = (vt_table){.plan = &b->plan, .m = &b->m, .cells = b->cells};
    for (int i = 0; i < images; i++) b->images[i] = i;
    for (int r = 0; r < ROWS; r++) {
        b->trained[r] = (vt_plan_cell){.train = true, .row = r};
        b->rows[r].name = names[r], b->rows[r].seeds = b->seeds[r], b->rows[r].n_seeds = SEEDS;
        for (int s = 0; s < SEEDS; s++) b->seeds[r][s] = (uint64_t)s;
        for (int c = 0; c < COLUMNS; c++) {
            int at = r * COLUMNS + c;
            b->cells[at] = (vt_table_cell){.wanted = true,
                                           .seeds = SEEDS,
                                           .asked = SEEDS,
                                           .total = images,
                                           .images = b->images,
                                           .right = b->right[at],
                                           .value = b->value[at],
                                           .published = -1};
        }
    }
    return b;
}

/* The first n images are right, from `from` on. */
static void fill(bench *b, int row, int column, int seed, int from, int n) {
    int at = row * COLUMNS + column;
    memset(b->bits[at][seed], 0, MOST);
    memset(b->bits[at][seed] + from, 1, (size_t)n);
    b->right[at][seed] = b->bits[at][seed];
    b->value[at][seed] = 100.0 * n / (double)b->cells[at].total;
    b->cells[at].done = 1, b->cells[at].mean = b->value[at][seed];
}

static void decide(bench *b) {
    vt_err e = {0};
    if (vt_table_decide(&b->t, &e) != VT_OK) fail_msg("%s", e.text);
}

static void drop(bench *b) {
    free(b->t.orderings);
    free(b);
}

/* One seed in common: these two networks on these images. 6 against 0: p = 2/64. */
static void one_seed(void **state) {
    (void)state;
    bench *b = make(8);
    fill(b, 0, 1, 1, 0, 7), fill(b, 1, 1, 1, 0, 1), fill(b, 0, 1, 0, 0, 8);
    b->seeds[1][0] = 8, b->seeds[1][2] = 9; /* B has seeds 8, 1, 9 */
    fill(b, 1, 1, 0, 0, 2);
    vt_difference d = vt_table_difference(&b->t, 0, 1, 0, 1);
    assert_int_equal(d.seeds, 1);
    assert_true(d.for_it == 6 && d.other == 0 && d.images == 8);
    t_le(fabs(d.p - 2.0 / 64), 1e-12, "McNemar");
    t_le(fabs(d.points - 75), 1e-12, "points");
    double low, high;
    vt_paired_interval(0, 6, 8, VT_Z_TWO_SIDED, &low, &high);
    t_le(fabs(d.low - 100 * low) + fabs(d.high - 100 * high), 1e-12, "Tango");
    d = vt_table_difference(&b->t, 1, 0, 0, 1);
    t_le(fabs(d.points + 75) + fabs(d.high + 100 * low), 1e-12, "the other way round");
    int32_t there[8] = {1, 2, 3, 4, 5, 6, 7, 8}; /* as many images are not the same images */
    b->cells[1 * COLUMNS + 1].images = there;
    assert_int_equal(vt_table_difference(&b->t, 0, 1, 0, 1).seeds, 0);
    drop(b);
}

/* No seed in common (a checkpoint has none of training's): the first that each has. */
static void no_common_seed(void **state) {
    (void)state;
    bench *b = make(8);
    for (int s = 0; s < SEEDS; s++) b->seeds[1][s] = (uint64_t)(7 + s), fill(b, 0, 1, s, 0, 4), fill(b, 1, 1, s, 0, 4);
    vt_difference d = vt_table_difference(&b->t, 0, 1, 0, 1);
    assert_true(d.seeds == 1 && d.for_it == 0 && d.other == 0);
    assert_int_equal(vt_table_difference(&b->t, 0, 2, 0, 1).seeds, 0); /* C is not there */
    drop(b);
}

/* Three: the unit is the training, whatever the images say. Differences 10, 20, 30: mean 20, s = 10. */
static void seeds_are_the_unit(void **state) {
    (void)state;
    bench *b = make(100);
    for (int s = 0; s < SEEDS; s++) fill(b, 0, 1, s, 0, 50 + 10 * (s + 1)), fill(b, 1, 1, s, 0, 50);
    vt_difference d = vt_table_difference(&b->t, 0, 1, 0, 1);
    double half = 4.3026527297494637 * 10 / sqrt(3);
    assert_int_equal(d.seeds, 3);
    t_le(fabs(d.points - 20) + fabs(d.low - (20 - half)) + fabs(d.high - (20 + half)), 1e-9, "t interval");
    t_le(fabs(d.p - vt_student_two_sided(20 / (10 / sqrt(3)), 2)), 1e-12, "t test");
    assert_true(d.for_it == 60 && d.other == 0);
    decide(b);
    assert_false(b->cells[1].best); /* p = 0.07: sixty images to none are no proof where trainings differ so */
    drop(b);
}

/* Equal differences of all seeds: the spread is taken for one image, not for none. */
static void agreement_is_not_certainty(void **state) {
    (void)state;
    bench *b = make(100);
    for (int s = 0; s < SEEDS; s++) fill(b, 0, 1, s, 0, 51), fill(b, 1, 1, s, 0, 50);
    vt_difference d = vt_table_difference(&b->t, 0, 1, 0, 1);
    t_le(fabs(d.high - 1 - 4.3026527297494637 / sqrt(3)), 1e-9, "one image");
    assert_true(d.low < 0 && d.p > 0.05);
    drop(b);
}

/* ---- a frontier ---- */

/* Lines through (40, 20), (60, 10), (80, 0): at 50 it is 15, at 90 -5. A has (50, 18) and seed 1 (90, 1). */
static void frontier(void **state) {
    (void)state;
    bench *b = make(100);
    static const int x[] = {60, 40, 80}, y[] = {10, 20, 0}, rows[] = {1, 2, 3};
    for (int s = 0; s < 2; s++)
        for (int r = 0; r < 3; r++) fill(b, rows[r], 0, s, 0, x[r]), fill(b, rows[r], 1, s, 0, y[r]);
    fill(b, 0, 0, 0, 0, 50), fill(b, 0, 1, 0, 0, 18), fill(b, 0, 0, 1, 0, 90), fill(b, 0, 1, 1, 0, 1);
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) b->value[r * COLUMNS + c][2] = NAN; /* seed 2 is not there */
    vt_difference d = vt_table_frontier(&b->t, 0, rows, 3, 0, 1, 0);
    assert_int_equal(d.seeds, 2);
    assert_int_equal(d.outside, 1);
    t_le(fabs(d.points - (3 + 6) / 2.0), 1e-9, "mean of 18 - 15 and 1 + 5");
    t_le(fabs(d.p - vt_student_two_sided(4.5 / 1.5, 1)), 1e-9, "p: s = 3 / sqrt 2");
    fill(b, 1, 0, 0, 0,
         40); /* two of the frontier at one place are no line; 90 is further from (40, 60) than they are */
    fill(b, 0, 0, 0, 0, 40);
    d = vt_table_frontier(&b->t, 0, (const int[]){1, 2}, 2, 0, 1, 0);
    assert_int_equal(d.seeds, 0);
    fill(b, 0, 0, 1, 0, 79); /* 10 - 19 / 2 on the line that goes on */
    d = vt_table_frontier(&b->t, 0, (const int[]){1, 2}, 2, 0, 1, 0);
    assert_true(d.seeds == 1 && d.outside == 1);
    t_le(fabs(d.points - (1 - 0.5)), 1e-9, "as far as the line is long");
    b->rows[0].checkpoint = b->rows[1].checkpoint = b->rows[2].checkpoint = "w"; /* no seed draws them anew */
    fill(b, 1, 0, 0, 0, 60);
    d = vt_table_frontier(&b->t, 0, (const int[]){1, 2}, 2, 0, 1, 0);
    assert_int_equal(d.seeds, 1);
    drop(b);
}

/* ---- verdicts ---- */

static vt_manifest_primary primary(const char *name, int above, int *below) {
    return (vt_manifest_primary){.name = name, .above = above, .column = 1, .at = -1, .rows = below, .n_rows = 1};
}

static void verdicts(void **state) {
    (void)state;
    bench *b = make(100);
    int b1[] = {1}, b2[] = {2}, b3[] = {3}, b4[] = {4};
    for (int s = 0; s < SEEDS; s++) {
        fill(b, 0, 1, s, 0, 60 + s), fill(b, 1, 1, s, 0, 30 + s % 2), fill(b, 2, 1, s, 0, 90 - s % 2);
        fill(b, 3, 1, s, 0, 60 + s), fill(b, 4, 1, s, 0, s == 1 ? 30 : 75);
    }
    b->value[4 * COLUMNS + 1][2] = NAN, b->right[4 * COLUMNS + 1][2] = NULL; /* E lacks a seed */
    vt_manifest_primary p[] = {primary("p", 0, b1), primary("q", 0, b2), primary("r", 0, b3), primary("s", 0, b4)};
    b->m.primary = p, b->m.n_primary = 4;
    static const char *asked[] = {"A > B", "E > D"};
    b->m.orderings = (vt_words){.word = asked, .n = 2};
    decide(b);
    const vt_table_ordering *o = b->t.orderings;
    assert_int_equal(o[0].verdict, VT_TABLE_HELD);
    assert_int_equal(o[1].verdict, VT_TABLE_CONTRADICTED);
    assert_int_equal(o[2].verdict, VT_TABLE_IDENTICAL);
    assert_int_equal(o[3].verdict, VT_TABLE_ABSENT); /* two of three seeds are no answer to what was asked of three */
    /* Holm over the four alone, of which two p are real: the smaller of both times 4 */
    assert_true(o[0].corrected && o[3].corrected);
    double least = fmin(o[0].d.p, o[1].d.p);
    t_le(fabs(fmin(o[0].adjusted, o[1].adjusted) - 4 * least), 1e-12, "Holm");
    /* secondary: raw p; what is primary is not asked again */
    for (int i = 4; i < b->t.n_orderings; i++) {
        assert_false(o[i].corrected);
        assert_false(o[i].attack == 1 && o[i].above == 0);
        assert_true(isnan(o[i].adjusted) || o[i].adjusted == o[i].d.p);
    }
    assert_int_equal(b->t.n_orderings, 7); /* clean, where nothing is there, A > B and E > D; PGD: E > D */
    drop(b);
}

/* The interval against what the paper claims: an answer that does not decide may still exclude the claim. */
static void smaller_than_published(void **state) {
    (void)state;
    static const struct {
        int more[SEEDS];
        double gap;
        vt_table_verdict is;
        bool smaller;
    } cases[] = {
        {{0, 1, -1}, 7.18, VT_TABLE_SMALLER, true},
        {{0, 1, -1}, 1, VT_TABLE_UNDECIDED, false},
        {{12, 12, 13}, 17, VT_TABLE_HELD, true},
        {{12, 12, 13}, 3, VT_TABLE_HELD, false},
        {{-13, -12, -12}, 7.18, VT_TABLE_CONTRADICTED, true},
        {{9, -9, 0}, 7.18, VT_TABLE_UNDECIDED, false},
    };
    for (size_t i = 0; i < T_COUNT(cases); i++) {
        bench *b = make(100);
        int below[] = {1};
        vt_published file = {0};
        struct vt_published_cell published[2] = {{.at = {"A"}, .value = 20 + cases[i].gap}, {.at = {"B"}, .value = 20}};
        file.keys[0] = "method", file.n_keys = 1, file.cells = published, file.n = 2;
        b->t.published = &file, b->cells[1].published = 0, b->cells[COLUMNS + 1].published = 1;
        for (int s = 0; s < SEEDS; s++) fill(b, 0, 1, s, 0, 50 + cases[i].more[s]), fill(b, 1, 1, s, 0, 50);
        vt_manifest_primary p = primary("p", 0, below);
        b->m.primary = &p, b->m.n_primary = 1;
        decide(b);
        t_le(fabs(b->t.orderings[0].gap - cases[i].gap), 1e-9, "gap");
        if (b->t.orderings[0].verdict != cases[i].is) fail_msg("case %zu: %d", i, b->t.orderings[0].verdict);
        assert_true(b->t.orderings[0].smaller == cases[i].smaller);
        drop(b);
    }
}

/* ---- what a verdict cannot stand on ---- */

static bool footer_has(const bench *b, const char *words) {
    char text[700];
    for (int k = 0; vt_table_ground(&b->t, k, text, sizeof text); k++)
        if (strstr(text, words)) return true;
    return false;
}

/* Rows A, B, C are a grid by their clean accuracy, or D stands on a grid of numbers. */
static void calibrations(void **state) {
    (void)state;
    static const struct {
        int right[3];
        bool inner;
        const char *best, *words;
    } cases[] = {{{40, 50, 45}, true, "B", "Calibration, c: best at B (50.00), inner maximum of 3 values."},
                 {{40, 50, 51}, false, "C", "best value at the end of its grid (51.00 at C, of 3): no calibration"},
                 {{60, 50, 51}, false, "A", "(60.00 at A, of 3)"},
                 {{40, 50, 50}, false, "B", "no calibration"}};
    for (size_t i = 0; i < T_COUNT(cases) * 2; i++) {
        bench *b = make(100);
        bool elsewhere = i % 2;
        int rows[] = {0, 1, 2}, row[] = {3};
        char number[3][8];
        vt_manifest_calibration c = {.name = "c", .rows = elsewhere ? row : rows, .n_rows = elsewhere ? 1 : 3};
        c.points.pair = calloc(3, sizeof *c.points.pair), c.points.n = elsewhere ? 3 : 0;
        static const char *const names[] = {"A", "B", "C"};
        for (int r = 0; r < 3; r++) {
            snprintf(number[r], sizeof number[r], "%d", cases[i / 2].right[r]);
            c.points.pair[r].key = names[r], c.points.pair[r].value = number[r];
            for (int s = 0; s < SEEDS; s++) fill(b, r, 0, s, 0, elsewhere ? 1 : cases[i / 2].right[r]);
        }
        for (int s = 0; s < SEEDS; s++) fill(b, 3, 0, s, 0, 95 - s), fill(b, 4, 0, s, 0, 5);
        static const char *asked[] = {"C > E", "D > E"};
        b->m.orderings = (vt_words){.word = asked, .n = 2};
        b->m.calibrations = &c, b->m.n_calibrations = 1;
        decide(b);
        vt_best best = vt_table_best(&b->t, 0);
        assert_true(best.inner == cases[i / 2].inner);
        assert_string_equal(best.name, cases[i / 2].best);
        if (!footer_has(b, cases[i / 2].words)) fail_msg("case %zu lacks: %s", i, cases[i / 2].words);
        for (int k = 0; k < 2; k++) {
            const vt_table_ordering *o = &b->t.orderings[k];
            bool stands = !best.inner && (k == 1) == elsewhere;
            if ((o->verdict == VT_TABLE_UNTESTED) != stands) fail_msg("case %zu, ordering %d", i, k);
            if (stands) assert_string_equal(o->untested, "no calibration");
        }
        free(c.points.pair);
        drop(b);
    }
}

/* A penalty that left sigma_max where it was has tested nothing; one that moved one matrix of two has. */
static void idle_penalties(void **state) {
    (void)state;
    static const struct {
        double plain, with;
        bool idle;
        const char *words;
    } cases[] = {{1, 0.96, true, "the penalty of A changed its targets by -4.0 % in the mean: PGD by -4.0 % from B"},
                 {1, 1.04, true, "by +4.0 % in the mean"},
                 {1, 0.9, false, NULL},
                 {0, 0, false, NULL}}; /* no such cells */
    for (size_t i = 0; i < T_COUNT(cases); i++) {
        bench *b = make(100);
        static const char *asked[] = {"A > B", "A > C", "B > C"};
        static char plain[] = "name: r\nseed: 0\nlr: 1\ngroups:\n  b: 0\n",
                    other[] = "name: r\nlr: 2\ngroups:\n  b: 0\n",
                    with[] = "name: s\nlr: 1\nmsvp:\n  lambda: 0.1,0,0\n  split: rows\ngroups:\n  b: 0\n";
        for (int r = 0; r < ROWS; r++) b->rows[r].recipe = "r", b->trained[r].recipe = plain;
        b->trained[0].recipe = with, b->trained[2].recipe = other;
        b->attacks[1] = (vt_manifest_attack){.name = "PGD", .spectrum = "q"};
        for (int r = 0; r < ROWS; r++) {
            for (int s = 0; s < SEEDS; s++) fill(b, r, 0, s, 0, 50 + 10 * r + s);
            b->cells[r * COLUMNS + 1].kind = VT_CELL_SIGMA, b->cells[r * COLUMNS + 1].done = cases[i].plain > 0;
            b->cells[r * COLUMNS + 1].mean = r ? cases[i].plain : cases[i].with;
            for (int s = 0; s < SEEDS; s++) b->value[r * COLUMNS + 1][s] = NAN;
            for (int s = 0; s < 2 && cases[i].plain > 0; s++)
                b->value[r * COLUMNS + 1][s] = r ? cases[i].plain : cases[i].with;
            if (!r) b->value[1][2] = 7; /* a seed that no other has */
        }
        b->m.orderings = (vt_words){.word = asked, .n = 3};
        decide(b);
        for (int k = 0; k < 3; k++)
            if ((b->t.orderings[k].verdict == VT_TABLE_UNTESTED) != (cases[i].idle && k < 2))
                fail_msg("case %zu, ordering %d: %d", i, k, b->t.orderings[k].verdict);
        if (cases[i].words && !footer_has(b, cases[i].words)) fail_msg("case %zu", i);
        if (!cases[i].words) assert_false(footer_has(b, "Warning"));
        if (cases[i].idle) assert_string_equal(b->t.orderings[0].untested, "the penalty did nothing");
        drop(b);
    }
}

/* The paper's differences on other backbones: all of them are named, those of comparable size decide. */
static void published_ranges(void **state) {
    (void)state;
    static const struct {
        int more[SEEDS];
        bool comparable;
        vt_table_verdict is;
    } cases[] = {{{0, 1, -1}, true, VT_TABLE_WITHIN}, /* +-2.48 holds small's 0.5 */
                 {{0, 1, -1}, false, VT_TABLE_SMALLER},
                 {{-2, -3, -1}, true, VT_TABLE_SMALLER}, /* -2 + 2.48 does not reach it */
                 {{-7, -12, -8}, true, VT_TABLE_CONTRADICTED},
                 {{-7, -12, -2}, true, VT_TABLE_WITHIN}, /* -7 +-12.4 holds it as well */
                 {{9, 9, 10}, true, VT_TABLE_HELD}};
    static const char *near[] = {"small"};
    for (size_t i = 0; i < T_COUNT(cases); i++) {
        bench *b = make(100);
        int below[] = {1};
        char what[400], how[400];
        struct vt_published_cell cells[] = {
            {.at = {"2", "large", "A"}, .value = 27.18}, {.at = {"2", "large", "B"}, .value = 20},
            {.at = {"2", "small", "A"}, .value = 30.5},  {.at = {"2", "small", "B"}, .value = 30},
            {.at = {"3", "huge", "A"}, .value = 44},     {.at = {"3", "huge", "B"}, .value = 22},
            {.at = {"3", "none", "A"}, .value = 90}, /* without its partner */
        };
        vt_published file = {.keys = {"table", "backbone", "method"}, .n_keys = 3, .cells = cells, .n = 7};
        b->t.published = &file, b->cells[1].published = 0, b->cells[COLUMNS + 1].published = 1;
        if (cases[i].comparable) b->m.comparable = (vt_words){.word = near, .n = 1};
        for (int s = 0; s < SEEDS; s++) fill(b, 0, 1, s, 0, 50 + cases[i].more[s]), fill(b, 1, 1, s, 0, 50);
        vt_manifest_primary p = primary("p", 0, below);
        b->m.primary = &p, b->m.n_primary = 1;
        decide(b);
        const vt_table_ordering *o = b->t.orderings;
        assert_int_equal(o->all.n, 3);
        t_le(fabs(o->all.least - 0.5) + fabs(o->all.most - 22), 1e-9, "range");
        if (o->verdict != cases[i].is) fail_msg("case %zu: %s", i, vt_table_verdict_name(o->verdict));
        vt_table_ordering_text(&b->t, o, what, sizeof what, how, sizeof how);
        assert_non_null(strstr(what, "(published: by 7.18 points; over 3 backbones +0.50 to +22.00"));
        assert_true(cases[i].comparable == (strstr(what, ", of comparable size +0.50 to +0.50)") != NULL));
        drop(b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(student),
        cmocka_unit_test(one_seed),
        cmocka_unit_test(no_common_seed),
        cmocka_unit_test(seeds_are_the_unit),
        cmocka_unit_test(agreement_is_not_certainty),
        cmocka_unit_test(frontier),
        cmocka_unit_test(verdicts),
        cmocka_unit_test(smaller_than_published),
        cmocka_unit_test(calibrations),
        cmocka_unit_test(idle_penalties),
        cmocka_unit_test(published_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
