/* SPDX-License-Identifier: MIT */
/* Profiles: the sample of survivors, the bound on what it leaves open, and the coverage that decides who is tried. */
#include "t.h"
#include "run_header.h"

#include <math.h>
#include <string.h>
#include "attacks/attack.h"
#include "eval/result_index.h"
#include "base/stats.h"
#include "eval/header.h"
#include "eval/report/summary.h"

/* Exact by counting: of all draws of `drawn` from `all` balls, k of them black, the share with at most `black` black
 * ones; products of small whole numbers, no logarithms. */
static double counted(int all, int drawn, int black, int k) {
    double p = 0;
    for (int i = 0; i <= black; i++) {
        double ways = 1;
        if (i > k || drawn - i > all - k) continue;
        for (int j = 0; j < i; j++) ways *= (double)(k - j) / (j + 1);
        for (int j = 0; j < drawn - i; j++) ways *= (double)(all - k - j) / (j + 1);
        for (int j = 0; j < drawn; j++) ways /= (double)(all - j) / (j + 1);
        p += ways;
    }
    return p;
}

/* Against counting, for every urn of up to 24 balls. */
static void test_bound(void **state) {
    (void)state;
    for (int all = 0; all <= 24; all++)
        for (int drawn = 0; drawn <= all; drawn++)
            for (int black = 0; black <= drawn && black < 5; black++) {
                int k = black;
                /* 1/20 is met exactly by some; else no sum lies within the 1e-13 of both roundings of it */
                while (k < all - drawn + black && counted(all, drawn, black, k + 1) > 0.05 - 1e-11) k++;
                assert_int_equal(vt_hypergeometric_upper(all, drawn, black, 0.05), k);
            }
    static const int rows[][4] = {/* recomputed by hand in double for larger urns: all, drawn, black, bound */
                                  {20, 5, 0, 8},      {400, 100, 0, 10},  {400, 100, 1, 16},  {1000, 100, 0, 28},
                                  {3000, 1000, 0, 7}, {5000, 500, 0, 28}, {5000, 500, 1, 45}, {5000, 500, 2, 60}};
    for (size_t i = 0; i < T_COUNT(rows); i++)
        assert_int_equal(vt_hypergeometric_upper(rows[i][0], rows[i][1], rows[i][2], 0.05), rows[i][3]);
}

/* ---- a run on paper ---- */

enum { IMAGES = 1000, RIGHT = 900, SURVIVORS = 400 };

static json_t *header(uint64_t seed, double share) {
    return json_pack("{s:s,s:I,s:f,s:[{s:s,s:s,s:b,s:[{s:s,s:s},{s:s,s:s,s:f},{s:s,s:s,s:f}]}]}", "norm", "linf",
                     "seed", (json_int_t)seed, "gradient_cost", 2.5, "attacks", "name", "quick", "id", "a+b+c",
                     "profile", 1, "stages", "name", "a", "id", "a", "name", "b", "id", "b", "share", share, "name",
                     "c", "id", "c", "share", share);
}

static void line(vt_ledger *l, int image, int entry, int stage, vt_record_status status) {
    vt_err e = {0};
    vt_record r = {.image = image,
                   .target = -1,
                   .entry = entry,
                   .stage = stage,
                   .status = (uint8_t)status,
                   .gradients = entry != 0};
    if (vt_ledger_append(l, &r, NULL, &e) != VT_OK) fail_msg("%s", e.text);
}

/* Plays a run: images below RIGHT are right, those from SURVIVORS on fall to the first stage, and of the survivors
 * those below `breakable` would fall to the sampled stages, half of them to each. Which are tried the coverage says. */
static void play(vt_ledger **out, uint64_t seed, double share, int breakable) {
    static int32_t images[IMAGES];
    vt_err e = {0};
    vt_result_index b;
    vt_header *h = t_header(header(seed, share));
    assert_int_equal(vt_ledger_memory(out, h, 3, &e), VT_OK);
    for (int i = 0; i < IMAGES; i++) images[i] = i;
    for (int i = 0; i < IMAGES; i++) line(*out, i, 0, 0, i < RIGHT ? VT_RECORD_CORRECT : VT_RECORD_WRONG);
    for (int i = 0; i < RIGHT; i++) line(*out, i, 1, 0, i < SURVIVORS ? VT_RECORD_ROBUST : VT_RECORD_BROKEN);
    assert_int_equal(vt_result_index_open(&b, (*out)->header, images, IMAGES, &e), VT_OK);
    assert_int_equal(vt_result_index_note(&b, *out, 0, &e), VT_OK);
    for (int stage = 1; stage < 3; stage++) {
        size_t before = (*out)->count;
        for (int i = 0; i < IMAGES; i++)
            if (vt_result_index_takes(&b, 1, stage, (size_t)i)) {
                assert_true(i < SURVIVORS);
                bool falls = i < breakable && i % 2 == stage - 1;
                line(*out, i, 1, stage, falls ? VT_RECORD_BROKEN : VT_RECORD_ROBUST);
            }
        assert_int_equal(vt_result_index_note(&b, *out, before, &e), VT_OK);
    }
    vt_result_index_close(&b);
    vt_header_free(h);
}

/* Over 1,000 seeds the bound must cover what the skipped stages could still have broken in at least 95 % of them: of
 * 1,000 draws at 5 % misses have a standard deviation of 6.9, so more than 50 + 4 * 6.9 = 77 refute it (p 6e-5 each).
 * It must also say something: where nothing can fall it stays near that of a sample of its expected size. */
static void test_simulation(void **state) {
    (void)state;
    static const int breakable[] = {0, 4, 12, 28, 60, 200, 400};
    for (size_t c = 0; c < T_COUNT(breakable); c++) {
        int missed = 0;
        double sampled = 0, further = 0;
        for (uint64_t seed = 0; seed < 1000; seed++) {
            vt_ledger *l;
            vt_summary s;
            vt_err e = {0};
            play(&l, seed, 0.1, breakable[c]);
            if (vt_summary_make(&s, l, IMAGES, &e) != VT_OK) fail_msg("%s", e.text);
            const vt_sample_summary *p = &s.entries[0].sample;
            assert_int_equal(p->survivors, SURVIVORS);
            assert_int_equal(s.pending, 0);
            assert_int_equal(s.entries[0].all.robust, SURVIVORS - p->broken);
            t_le(fabs(p->points - 100.0 * (double)p->further / IMAGES), 1e-12, "points");
            missed += breakable[c] - p->broken > p->further;
            sampled += (double)p->sampled, further += (double)p->further;
            vt_summary_free(&s);
            vt_ledger_close(l);
        }
        t_le(missed, 77, "%d breakable: misses in 1000", breakable[c]);
        /* a tenth of 400, standard deviation 6 / sqrt(1000) = 0.19 */
        t_le(fabs(sampled / 1000 - 40), 1, "sample size");
        if (!breakable[c])
            t_le(further / 1000, 1.25 * (double)vt_hypergeometric_upper(SURVIVORS, 40, 0, 0.05), "bound");
    }
}

/* Each image is in by itself: a longer run, or a shard of it, changes nobody's place. */
static void test_sample(void **state) {
    (void)state;
    int in = 0, both = 0, n = 20000;
    for (int i = 0; i < n; i++) {
        assert_true(vt_in_share(3, i, 1));
        assert_true(!vt_in_share(3, i, 0));
        in += vt_in_share(3, i, 0.25), both += vt_in_share(3, i, 0.25) && vt_in_share(4, i, 0.25);
        assert_true(!vt_in_share(3, i, 0.1) || vt_in_share(3, i, 0.25)); /* a larger share holds the smaller one */
    }
    t_le(abs(in - n / 4), 5 * 61, "a quarter; standard deviation 61");
    t_le(abs(both - n / 16), 5 * 34, "two seeds; standard deviation 34");
}

static void test_claims(void **state) {
    (void)state;
    char text[600];
    vt_err e = {0};
    vt_ledger *l;
    vt_summary s;
    play(&l, 1, 0.1, 30);
    assert_int_equal(vt_summary_make(&s, l, IMAGES, &e), VT_OK);
    assert_true(s.entries[0].sample.points > VT_EQUIVALENT_POINTS);
    assert_string_equal(vt_entry_claim(&s.entries[0]), "quick estimate");
    assert_true(vt_entry_open_text(&s, &s.entries[0], text, sizeof text));
    assert_non_null(strstr(text, "quick: b, c tried a random "));
    /* one gradient a line of the attack: 900 + the sample, each 2.5 forwards */
    t_le(fabs(s.entries[0].cost - 2.5 * (double)s.entries[0].all.gradients), 1e-9, "cost");
    vt_summary_free(&s), vt_ledger_close(l);
    play(&l, 1, 0.999, 0); /* nearly all of them: at most 3 of 1000 images can be open */
    assert_int_equal(vt_summary_make(&s, l, IMAGES, &e), VT_OK);
    t_le(s.entries[0].sample.points, VT_EQUIVALENT_POINTS, "points");
    assert_string_equal(vt_entry_claim(&s.entries[0]), "AutoAttack-equivalent");
    vt_summary_free(&s), vt_ledger_close(l);
}

/* A line that is not there yet counts as pending for those whom the stage takes, and for nobody else. */
static void test_pending(void **state) {
    (void)state;
    vt_err e = {0};
    vt_ledger *l;
    vt_summary s;
    play(&l, 7, 0.1, 0);
    size_t cut = 5;
    l->count -= cut;
    assert_int_equal(vt_summary_make(&s, l, IMAGES, &e), VT_OK);
    assert_int_equal(s.pending, cut);
    vt_summary_free(&s), vt_ledger_close(l);
}

/* ---- what an entry is about ---- */

static void test_scorings(void **state) {
    (void)state;
    enum { N = 4 };
    int32_t images[N] = {2, 3, 5, 8};
    vt_err e = {0};
    vt_result_index b;
    vt_ledger *l;
    vt_summary s;
    json_t *h =
        json_pack("{s:s,s:i,s:[{s:s,s:[{s:s}]},{s:s,s:s,s:[{s:s}]},{s:s,s:s,s:[{s:s}]}]}", "norm", "linf", "seed", 0,
                  "attacks", "name", "pgd", "stages", "id", "pgd", "name", "pgd-8bit", "scoring", "8-bit", "stages",
                  "id", "pgd", "name", "paper", "scoring", "as published", "stages", "id", "paper");
    vt_header *run = t_header(json_deep_copy(h)), *odd;
    assert_int_equal(vt_ledger_memory(&l, run, 3, &e), VT_OK);
    vt_header_free(run);
    for (int i = 0; i < N; i++) line(l, images[i], 0, 0, i < 3 ? VT_RECORD_CORRECT : VT_RECORD_WRONG);
    line(l, 2, 1, 0, VT_RECORD_BROKEN), line(l, 3, 1, 0, VT_RECORD_BROKEN), line(l, 5, 1, 0, VT_RECORD_ROBUST);
    assert_int_equal(vt_result_index_open(&b, l->header, images, N, &e), VT_OK);
    assert_int_equal(vt_result_index_note(&b, l, 0, &e), VT_OK);
    static const bool takes[3][N] = {{true, true, true, false}, {true, true, false, false}, {true, true, true, true}};
    for (int k = 1; k <= 3; k++)
        for (size_t i = 0; i < N; i++) assert_int_equal(vt_result_index_takes(&b, k, 0, i), takes[k - 1][i]);
    /* the 8-bit point of image 3 was not found; the paper's evaluator makes the wrong image right and breaks 5 */
    line(l, 2, 2, 0, VT_RECORD_BROKEN), line(l, 3, 2, 0, VT_RECORD_ROBUST);
    for (int i = 0; i < N; i++) line(l, images[i], 3, 0, images[i] == 5 ? VT_RECORD_BROKEN : VT_RECORD_ROBUST);
    assert_int_equal(vt_summary_make(&s, l, N, &e), VT_OK);
    assert_int_equal(s.entries[0].all.robust, 1);
    assert_int_equal(s.entries[1].all.robust, 2);
    assert_int_equal(s.entries[2].all.robust, 3);
    assert_int_equal(s.worst_robust, 1); /* of the ball alone */
    assert_int_equal(s.worst_eight_bit, 2);
    assert_int_equal(s.pending, 0);
    assert_int_equal(vt_header_scoring(l->header, 2), VT_SCORE_EIGHT_BIT);
    assert_int_equal(vt_header_scoring(l->header, 9), VT_SCORE_BALL);
    vt_result_index_close(&b);
    vt_summary_free(&s), vt_ledger_close(l);
    /* an 8-bit entry has nobody before it */
    json_array_remove(json_object_get(h, "attacks"), 0);
    t_says(vt_header_read(&odd, h, "run", &e), VT_E_FORMAT, &e, "begins with an 8-bit entry", "needs one before it");
    assert_null(odd);
}

/* ---- parsing ---- */

static void refused(const char *spec, const char *word) {
    vt_attack a;
    vt_err e = {0};
    assert_int_equal(vt_attack_parse(&a, spec, VT_LINF, &e), VT_E_USAGE);
    if (!strstr(e.text, word)) fail_msg("%s: '%s' does not say '%s'", spec, e.text, word);
}

static void test_shares(void **state) {
    (void)state;
    vt_attack a, again, one;
    vt_err e = {0};
    assert_int_equal(vt_attack_parse(&a, "fgsm+square:share=0.25", VT_LINF, &e), VT_OK);
    assert_true(a.stages[0].share == 1 && a.stages[1].share == 0.25);
    assert_null(strstr(a.stages[0].id, "share"));
    assert_non_null(strstr(a.stages[1].id, ",share=0.25"));
    assert_int_equal(vt_attack_parse(&again, a.id, VT_LINF, &e), VT_OK); /* the id is a spec of the same attack */
    assert_string_equal(a.id, again.id);
    assert_int_equal(vt_attack_single(&one, &a, 1, &e), VT_OK); /* on every image */
    assert_true(one.stages[0].share == 1);
    assert_null(strstr(one.id, "share"));
    vt_attack_free(&one), vt_attack_free(&a), vt_attack_free(&again);
    refused("square:share=0.25+fgsm", "give it the same");
    refused("square:share=0.25+fgsm:share=0.5", "give it the same");
}

/* The profiles are what they say: standard has AutoAttack's stages, quick's samples hold the rest of AutoAttack. */
static void test_profiles(void **state) {
    (void)state;
    vt_attack quick, standard, autoattack, paranoid;
    vt_err e = {0};
    for (int norm = 0; norm < VT_L0; norm++) {
        assert_int_equal(vt_attack_parse(&quick, "quick", (vt_norm)norm, &e), VT_OK);
        assert_int_equal(vt_attack_parse(&standard, "standard", (vt_norm)norm, &e), VT_OK);
        assert_int_equal(vt_attack_parse(&autoattack, "autoattack", (vt_norm)norm, &e), VT_OK);
        assert_int_equal(vt_attack_parse(&paranoid, "paranoid", (vt_norm)norm, &e), VT_OK);
        assert_string_equal(standard.name, "standard");
        assert_string_equal(standard.id, autoattack.id);
        assert_true(quick.def->profile && standard.def->profile && paranoid.def->profile && !autoattack.def->profile);
        for (int k = 0; k < autoattack.n_stages; k++) { /* every stage of AutoAttack, to all or to the sample */
            char sampled[440];
            bool found = false;
            snprintf(sampled, sizeof sampled, "%s,share=0.1", autoattack.stages[k].id);
            for (int i = 0; i < quick.n_stages; i++)
                found = found || !strcmp(quick.stages[i].id, autoattack.stages[k].id) ||
                        !strcmp(quick.stages[i].id, sampled);
            if (!found) fail_msg("%s is not in quick", autoattack.stages[k].id);
        }
        assert_true(paranoid.n_stages > autoattack.n_stages);
        vt_attack_free(&quick), vt_attack_free(&standard), vt_attack_free(&autoattack), vt_attack_free(&paranoid);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bound),  cmocka_unit_test(test_simulation), cmocka_unit_test(test_sample),
        cmocka_unit_test(test_claims), cmocka_unit_test(test_pending),    cmocka_unit_test(test_scorings),
        cmocka_unit_test(test_shares), cmocka_unit_test(test_profiles),
    };
    return cmocka_run_group_tests_name("profile", tests, NULL, NULL);
}
