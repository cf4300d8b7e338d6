/* SPDX-License-Identifier: MIT */
/* A limit of time: every image is attacked in the end, and the bound on what was left out holds whenever one stops. */
#include "t.h"
#include "run_header.h"

#include <math.h>
#include "base/stats.h"
#include "eval/limit.h"

enum { IMAGES = 120, RIGHT = 100, SURVIVORS = 60 };

/* A run on paper of stages a, which breaks images from SURVIVORS on, and b, which breaks those below `breakable`. */
typedef struct paper {
    vt_ledger *l;
    vt_result_index b;
    int breakable, asked; /* whether calls end it: after so many, negative: as soon as the bound is missed */
    int calls, missed;
    bool slow; /* images that b breaks have no line of it yet */
} paper;

static void line(vt_ledger *l, size_t image, int entry, int stage, vt_record_status status) {
    vt_err e = {0};
    vt_record r = {.image = (int32_t)image, .target = -1, .entry = entry, .stage = stage, .status = (uint8_t)status};
    if (vt_ledger_append(l, &r, NULL, &e) != VT_OK) fail_msg("%s", e.text);
}

static int64_t standing(const paper *p) {
    int64_t n = 0;
    for (size_t i = 0; i < IMAGES; i++) n += vt_result_index_stands(&p->b, VT_SCORE_BALL, i);
    return n;
}

/* Is less claimed than will fall? */
static bool misses(const paper *p) {
    vt_left_out o;
    vt_err e = {0};
    assert_int_equal(vt_limit_left_out(&o, &p->b, &e), VT_OK);
    return standing(p) - (SURVIVORS - p->breakable) > o.further;
}

/* vt_stage_fn: what is asked, on paper. */
static vt_status on_paper(void *ctx, int entry, int stage, const bool *part, vt_err *e) {
    paper *p = ctx;
    const size_t before = p->l->count;
    for (size_t i = 0; i < IMAGES; i++) {
        if ((part && !part[i]) || !vt_result_index_takes(&p->b, entry, stage, i)) continue;
        if (vt_result_index_cell(&p->b, entry, stage, i) != VT_RESULT_NONE) continue;
        if (p->slow && stage && i < (size_t)p->breakable) continue;
        bool falls = stage ? i < (size_t)p->breakable : i >= SURVIVORS;
        line(p->l, i, entry, stage, falls ? VT_RECORD_BROKEN : VT_RECORD_ROBUST);
    }
    assert_int_equal(vt_result_index_note(&p->b, p->l, before, e), VT_OK);
    p->missed = misses(p);
    const bool stop = p->asked < 0 ? p->missed : p->calls++ == p->asked;
    return stop ? VT_INTERRUPTED : VT_OK;
}

/* Runs it under a limit whose first stage may take half of `seconds`; returns the status. */
static vt_status play(paper *p, uint64_t seed, double seconds) {
    static int32_t images[IMAGES];
    static vt_attack attack = {.n_stages = 2};
    const vt_eval_options v = {.threads = 1, .batch = 1, .seconds = seconds, .attacks = &attack, .n_attacks = 1};
    vt_err e = {0};
    vt_header *h = t_header(json_pack("{s:s,s:I,s:f,s:[{s:s,s:s,s:[{s:s,s:s},{s:s,s:s}]}]}", "norm", "linf", "seed",
                                      (json_int_t)seed, "gradient_cost", 2.5, "attacks", "name", "a+b", "id", "a+b",
                                      "stages", "name", "a", "id", "a", "name", "b", "id", "b"));
    assert_int_equal(vt_ledger_memory(&p->l, h, 3, &e), VT_OK);
    for (size_t i = 0; i < IMAGES; i++) {
        images[i] = (int32_t)i;
        line(p->l, i, VT_ENTRY_CLEAN, 0, i < RIGHT ? VT_RECORD_CORRECT : VT_RECORD_WRONG);
    }
    assert_int_equal(vt_result_index_open(&p->b, p->l->header, images, IMAGES, &e), VT_OK);
    assert_int_equal(vt_result_index_note(&p->b, p->l, 0, &e), VT_OK);
    vt_status s = vt_limit_run(&v, &p->b, vt_now(), on_paper, p, &e);
    vt_header_free(h);
    return s;
}

static void end(paper *p) {
    vt_result_index_close(&p->b);
    vt_ledger_close(p->l);
}

/* Without a stop every image has its lines, whichever way it went; what was left out is nothing. */
static void test_whole(void **state) {
    (void)state;
    static const double seconds[] = {1e-9, 1e9};
    for (int k = 0; k < 2; k++) {
        paper p = {.breakable = 7, .asked = 1 << 30};
        assert_int_equal(play(&p, 3, seconds[k]), VT_OK);
        assert_int_equal(standing(&p), SURVIVORS - 7);
        for (int stage = 0; stage < 2; stage++) assert_int_equal(vt_result_index_pending(&p.b, 1, stage), 0);
        assert_false(p.missed);
        end(&p);
    }
}

/* A stop that looks at the answers: as soon as the bound is missed. At 95 % confidence that may happen in 20 of 400
 * runs, with a standard deviation of 4.4 (38 = 20 + 4 * 4.4). */
static void test_stops(void **state) {
    (void)state;
    static const int breakable[] = {1, 3, 8, 20, 40, 60};
    for (size_t c = 0; c < T_COUNT(breakable); c++) {
        int missed = 0;
        for (uint64_t seed = 0; seed < 400; seed++) {
            paper p = {.breakable = breakable[c], .asked = -1};
            missed += play(&p, seed, seed % 2 ? 1e9 : 1e-9) == VT_INTERRUPTED;
            end(&p);
        }
        t_le(missed, 38, "%d breakable: misses in 400", breakable[c]);
    }
}

/* What takes long is what falls: images that are finished beside others that are not are no sample. */
static void test_slow(void **state) {
    (void)state;
    int missed = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        paper p = {.breakable = 10, .asked = 1 << 30, .slow = true};
        assert_int_equal(play(&p, seed, 1e9), VT_OK);
        missed += misses(&p);
        end(&p);
    }
    t_le(missed, 22, "misses in 200"); /* 10 and four standard deviations of 3.1 */
}

/* The claim says something: after the first stage on all and half of the rest without a hit. */
static void test_says_something(void **state) {
    (void)state;
    vt_left_out o = {0};
    vt_err e = {0};
    for (int asked = 0; o.sampled < SURVIVORS / 2; asked++) {
        paper p = {.asked = asked};
        play(&p, 1, 1e9);
        assert_int_equal(vt_limit_left_out(&o, &p.b, &e), VT_OK);
        end(&p);
    }
    assert_int_equal(o.survivors, SURVIVORS);
    assert_int_equal(o.broken, 0);
    t_le((double)o.further, 7, "of 60, after 30 or more without a hit"); /* C(53, 30) / C(60, 30) = 0.005 */
}

static void test_sizes(void **state) {
    (void)state;
    int sizes;
    assert_int_equal(vt_sample_size(0, 0, &sizes), 0);
    assert_int_equal(sizes, 0);
    assert_int_equal(vt_sample_size(1, 1, &sizes), 1);
    assert_int_equal(sizes, 1);
    assert_int_equal(vt_sample_size(10, 10, &sizes), 10);
    assert_int_equal(sizes, 9); /* 10, 8, 7, 6, 5, 4, 3, 2, 1 */
    assert_int_equal(vt_sample_size(10, 9, &sizes), 8);
    assert_int_equal(vt_sample_size(10, 0, &sizes), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_whole), cmocka_unit_test(test_stops),
                                       cmocka_unit_test(test_slow), cmocka_unit_test(test_says_something),
                                       cmocka_unit_test(test_sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
