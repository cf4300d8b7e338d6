/* SPDX-License-Identifier: MIT */
/* parallel/team and parallel/work_queue, by ranks that are threads: what is agreed on, that a rank which gives up
 * leaves nobody waiting, and that each item is handed out once. */
#include "threads_team.h"

#include "parallel/work_queue.h"

/* ---- agreements ---- */

typedef struct agreed {
    vt_status says, then, got, second, left;
    vt_err e, e2;
    bool over;
} agreed;

static void agree(vt_team *t, void *ctx) {
    agreed *a = ctx;
    if (a->says != VT_OK) vt_fail(&a->e, a->says, "file %d", t->rank);
    a->got = vt_team_agree(t, a->says, &a->e);
    a->over = t->over;
    a->second = vt_team_agree(t, a->then, &a->e2);
    a->left = vt_team_leave(t, a->got, &a->e2);
}

static void test_agree(void **state) {
    (void)state;
    static const vt_status cases[][5] = {/* said by three ranks; agreed; by whom */
                                         {VT_OK, VT_OK, VT_OK, VT_OK, 0},
                                         {VT_OK, VT_E_IO, VT_OK, VT_E_IO, 1},
                                         {VT_E_USAGE, VT_E_IO, VT_E_MEMORY, VT_E_USAGE, 0},
                                         {VT_INTERRUPTED, VT_OK, VT_E_RANGE, VT_E_RANGE, 2},
                                         {VT_OK, VT_OK, VT_INTERRUPTED, VT_INTERRUPTED, 2},
                                         {VT_INTERRUPTED, VT_INTERRUPTED, VT_INTERRUPTED, VT_INTERRUPTED, 0}};
    for (size_t c = 0; c < T_COUNT(cases); c++) {
        agreed a[3] = {{0}};
        for (int k = 0; k < 3; k++) a[k].says = cases[c][k];
        tt_run(3, agree, a, sizeof *a);
        for (int k = 0; k < 3; k++) {
            char own[40];
            int from = (int)cases[c][4];
            bool failed = cases[c][3] != VT_OK && cases[c][3] != VT_INTERRUPTED;
            assert_int_equal(a[k].got, cases[c][3]);
            assert_int_equal(a[k].over, failed);
            assert_int_equal(a[k].second, VT_OK); /* behind a failure nobody asks the others; else they all say so */
            assert_int_equal(a[k].left, cases[c][3]);
            snprintf(own, sizeof own, "file %d", from);
            if (a[k].got == VT_OK) continue;
            assert_non_null(strstr(a[k].e.text, own));
            if (k != from) assert_int_equal(a[k].e.code, cases[c][3]);
            assert_int_equal(strstr(a[k].e.text, "rank ") != NULL, k != from && from); /* rank 0's words are its own */
        }
    }
    vt_err e = {0};
    assert_int_equal(vt_team_agree(NULL, VT_E_IO, &e), VT_E_IO); /* alone */
    assert_int_equal(vt_team_leave(NULL, VT_OK, &e), VT_OK);
}

/* Rank `who` gives up before step number `at` of a job made of every kind of step, and goes straight to the end. */
typedef struct job {
    int who, at;
    bool quietly; /* it takes itself for done */
    vt_status got;
    vt_err e;
} job;

static vt_status steps(vt_team *t, const job *j, vt_err *e) {
    enum { STEPS = 5 };
    for (int k = 0; k < STEPS; k++) {
        void *all = NULL;
        char *text = NULL;
        size_t sizes[TT_MOST];
        vt_status s = VT_OK;
        if (t->rank == j->who && k == j->at) return j->quietly ? VT_OK : vt_fail(e, VT_E_IO, "a full disk");
        if (k == 0) s = vt_team_collect(t, &k, (size_t)t->rank, &all, sizes, e);
        if (k == 1) s = vt_team_text(t, "a text", &text, e);
        if (k == 2) s = vt_team_counters(t, 4, e);
        if (k == 3) s = vt_team_agree(t, VT_OK, e);
        if (k == 4) {
            vt_work_queue d;
            size_t item;
            s = vt_work_queue_begin(&d, t, 50, 1, e);
            while (s == VT_OK && vt_work_queue_next(&d, &item)) vt_work_queue_finish(&d);
            if (s == VT_OK) vt_work_queue_end(&d);
        }
        free(all), free(text);
        VT_TRY(s);
    }
    return VT_OK;
}

static void give_up(vt_team *t, void *ctx) {
    job *j = ctx;
    j->got = vt_team_leave(t, steps(t, j, &j->e), &j->e);
}

static void test_give_up(void **state) {
    (void)state;
    for (int size = 2; size <= 4; size++)
        for (int who = 0; who < size; who++)
            for (int at = 0; at < 12; at++) { /* 5, 11: nobody does */
                job j[TT_MOST];
                char odd[60];
                for (int k = 0; k < size; k++) j[k] = (job){.who = who, .at = at % 6, .quietly = at > 5};
                tt_run(size, give_up, j, sizeof *j);
                snprintf(odd, sizeof odd, "rank %d has ended while others work on", who);
                for (int k = 0; k < size; k++) {
                    assert_int_equal(j[k].got, at % 6 == 5 ? VT_OK : at > 5 ? VT_E_USAGE : VT_E_IO);
                    if (at % 6 < 5) assert_non_null(strstr(j[k].e.text, at > 5 ? odd : "a full disk"));
                }
            }
}

/* ---- bytes ---- */

typedef struct told {
    char *text, *all;
    size_t sizes[TT_MOST];
    vt_status s;
} told;

static void tell(vt_team *t, void *ctx) {
    told *x = ctx;
    char mine[TT_MOST];
    memset(mine, 'a' + t->rank, sizeof mine);
    x->s = vt_team_collect(t, mine, (size_t)(t->rank * 2 % 5), (void **)&x->all, x->sizes, NULL);
    if (x->s == VT_OK) x->s = vt_team_text(t, t->rank ? "not asked for" : "of rank 0", &x->text, NULL);
}

static void test_bytes(void **state) {
    (void)state;
    told x[5] = {{0}};
    tt_run(5, tell, x, sizeof *x);
    for (int k = 0; k < 5; k++) {
        assert_int_equal(x[k].s, VT_OK);
        assert_memory_equal(x[k].all, "bbccccdeee", 10); /* 0, 2, 4, 1, 3 bytes */
        for (int r = 0; r < 5; r++) assert_int_equal(x[k].sizes[r], r * 2 % 5);
        assert_string_equal(x[k].text, "of rank 0");
        free(x[k].all), free(x[k].text);
    }
    void *all;
    size_t size;
    assert_int_equal(vt_team_collect(NULL, "xyz", 3, &all, &size, NULL), VT_OK);
    assert_memory_equal(all, "xyz", size);
    free(all);
}

/* ---- items ---- */

/* Ranges cover the items one after another, shrink, and end in single ones. */
static void test_ranges(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 2, 3, 10, 97, 1000, 123457};
    for (size_t c = 0; c < T_COUNT(sizes); c++)
        for (int takers = 1; takers <= 200; takers = takers * 3 + 1) {
            size_t n = sizes[c], at, end, before = 0, last = n;
            int64_t k = 0;
            for (; vt_work_queue_range(n, takers, k, &at, &end); k++) {
                assert_int_equal(at, before);
                assert_true(end > at && end <= n && end - at <= last);
                assert_true(end - at <=
                            n / (2 * (size_t)takers) + 1); /* nobody takes more than half of an even share */
                before = end, last = end - at;
            }
            assert_int_equal(before, n);
            assert_true(n == 0 || last == 1);
            assert_false(vt_work_queue_range(n, takers, (int64_t)1 << 40, &at, &end));
        }
}

enum { ITEMS = 1000 };
typedef struct taken {
    int times[ITEMS];
    size_t most, stop_at, own;
    vt_status s;
} taken;

static void take(vt_team *t, void *ctx) {
    taken *x = ctx;
    vt_work_queue d;
    size_t item;
    x->s = vt_work_queue_begin(&d, t, ITEMS, 1, NULL);
    if (x->s != VT_OK) return;
    while (vt_work_queue_next(&d, &item)) {
        x->times[item]++, x->own++;
        size_t all = vt_work_queue_finish(&d);
        if (all > x->most) x->most = all;
        if (item == x->stop_at) vt_work_queue_stop(&d);
    }
    vt_work_queue_end(&d);
}

static void test_each_once(void **state) {
    (void)state;
    for (int size = 1; size <= 5; size += 2) {
        static taken x[TT_MOST];
        memset(x, 0, sizeof x);
        size_t sum = 0;
        for (int k = 0; k < size; k++) x[k].stop_at = SIZE_MAX;
        tt_run(size, take, x, sizeof *x);
        for (size_t i = 0; i < ITEMS; i++) {
            int times = 0;
            for (int k = 0; k < size; k++) times += x[k].times[i];
            assert_int_equal(times, 1);
        }
        for (int k = 0; k < size; k++) {
            assert_true(x[k].most <= ITEMS && x[k].most >= x[k].own);
            sum += x[k].own;
        }
        assert_int_equal(sum, ITEMS);
    }
    taken alone = {.stop_at = SIZE_MAX};
    take(NULL, &alone);
    assert_int_equal(alone.own, ITEMS);
    assert_int_equal(alone.most, ITEMS);
}

/* One rank stops: what others hold is finished, and no range is begun after it; the next deal is whole again. */
static void stop_and_again(vt_team *t, void *ctx) {
    taken *x = ctx;
    take(t, &x[0]);
    take(t, &x[1]);
}

static void test_stop(void **state) {
    (void)state;
    static taken x[6][2];
    memset(x, 0, sizeof x);
    for (int k = 0; k < 6; k++) x[k][0].stop_at = 3, x[k][1].stop_at = SIZE_MAX;
    tt_run(6, stop_and_again, x, sizeof *x);
    size_t first = 0, second = 0;
    for (int k = 0; k < 6; k++) first += x[k][0].own, second += x[k][1].own;
    assert_int_equal(second, ITEMS);
    assert_true(first >= 1);
    taken alone = {.stop_at = 3};
    take(NULL, &alone);
    assert_int_equal(alone.own, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_agree),     cmocka_unit_test(test_give_up),
                                       cmocka_unit_test(test_bytes),     cmocka_unit_test(test_ranges),
                                       cmocka_unit_test(test_each_once), cmocka_unit_test(test_stop)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
