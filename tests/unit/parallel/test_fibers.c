/* SPDX-License-Identifier: MIT */
/* parallel/fibers: every item runs once and to its end, in a slot of its own, whatever the others do; those asleep are
 * served together; a failure begins nothing more and ends nothing in the middle. */
#include "t.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include "parallel/fibers.h"

enum { MOST = 64, ITEMS = 400 };

/* Item i asks i % 7 times; slots are served together or, `few`, one at a time. */
typedef struct work {
    vt_fiber_pool *lane;
    size_t next, n, fails; /* fails: this item ends with a failure, n: none */
    bool few, waits[MOST];
    int ran[ITEMS], asked[ITEMS], asleep, together;
    size_t in[MOST];
} work;

static bool next(void *ctx, int slot, size_t *item) {
    work *w = ctx;
    (void)slot;
    if (w->next == w->n) return false;
    *item = w->next++;
    return true;
}

/* A kilobyte of its own on the stack, which must be there after each sleep. */
static vt_status run(void *ctx, int slot, size_t item, vt_err *e) {
    work *w = ctx;
    volatile unsigned char mine[1024];
    for (size_t i = 0; i < sizeof mine; i++) mine[i] = (unsigned char)(item * 31 + i);
    w->in[slot] = item;
    for (size_t k = 0; k < item % 7; k++) {
        w->waits[slot] = true, w->asleep++;
        vt_fiber_sleep(w->lane);
        assert_false(w->waits[slot]);
        assert_int_equal(w->in[slot], item);
        w->asked[item]++;
    }
    for (size_t i = 0; i < sizeof mine; i++) assert_int_equal(mine[i], (unsigned char)(item * 31 + i));
    w->ran[item]++;
    return item == w->fails ? vt_fail(e, VT_E_MODEL, "item %zu", item) : VT_OK;
}

static void serve(void *ctx) {
    work *w = ctx;
    int n = 0;
    assert_true(w->asleep > 0);
    if (w->asleep > w->together) w->together = w->asleep;
    for (int i = 0; i < MOST && !(w->few && n); i++)
        if (w->waits[i]) {
            w->waits[i] = false, w->asleep--, n++;
            vt_fiber_wake(w->lane, i);
        }
}

static vt_status go(work *w, int slots, vt_err *e) {
    assert_int_equal(vt_fiber_open(&w->lane, slots, e), VT_OK);
    vt_status s = vt_fiber_run(w->lane, &(vt_fiber_job){next, run, serve, w}, e);
    vt_fiber_close(w->lane);
    return s;
}

static void all_items(void **state) {
    (void)state;
    static const int slots[] = {1, 2, 3, 8, MOST};
    for (size_t i = 0; i < T_COUNT(slots); i++)
        for (int few = 0; few < 2; few++)
            for (size_t n = 0; n <= ITEMS; n += n < 4 ? 1 : 99) {
                work w = {.n = n, .fails = ITEMS, .few = few};
                vt_err e = {0};
                assert_int_equal(go(&w, slots[i], &e), VT_OK);
                for (size_t k = 0; k < ITEMS; k++) {
                    assert_int_equal(w.ran[k], k < n);
                    assert_int_equal(w.asked[k], k < n ? (int)(k % 7) : 0);
                }
                if (n > 300) assert_int_equal(w.together, slots[i]); /* full batches while there is work */
            }
}

/* A lane runs again, and its slots begin anew. */
static void again(void **state) {
    (void)state;
    work w = {.n = 20, .fails = ITEMS};
    assert_int_equal(vt_fiber_open(&w.lane, 5, NULL), VT_OK);
    for (int i = 0; i < 3; i++) {
        w.next = 0;
        assert_int_equal(vt_fiber_run(w.lane, &(vt_fiber_job){next, run, serve, &w}, NULL), VT_OK);
    }
    for (size_t k = 0; k < 20; k++) assert_int_equal(w.ran[k], 3);
    vt_fiber_close(w.lane);
}

static void failures(void **state) {
    (void)state;
    static const int slots[] = {1, 4, MOST};
    for (size_t i = 0; i < T_COUNT(slots); i++) {
        work w = {.n = ITEMS, .fails = 100};
        vt_err e = {0};
        assert_int_equal(go(&w, slots[i], &e), VT_E_MODEL);
        assert_string_equal(e.text, "item 100");
        for (size_t k = 0; k < ITEMS; k++) {
            assert_int_equal(w.ran[k], k < w.next); /* what was begun came to its end */
            assert_int_equal(w.asked[k], w.ran[k] ? (int)(k % 7) : 0);
        }
        assert_true(w.next > 100 && w.next < ITEMS);
    }
    vt_fiber_pool *l;
    vt_err e = {0};
    t_says(vt_fiber_open(&l, 0, &e), VT_E_RANGE, &e, "a pool of 0 fibers", "1 to 1024");
    t_says(vt_fiber_open(&l, VT_FIBER_MOST + 1, &e), VT_E_RANGE, &e, "1025 fibers", "1024");
    assert_null(l);
    vt_fiber_close(NULL);
}

/* The page below a stack: one who goes too deep is killed, and no neighbour's stack is written on. */
static vt_status too_deep(void *ctx, int slot, size_t item, vt_err *e) {
    volatile char *p = (volatile char *)__builtin_frame_address(0);
    (void)ctx, (void)slot, (void)item, (void)e;
    for (size_t i = 0; i < VT_FIBER_STACK + 4096; i += 512) p[-(ptrdiff_t)i] = 1;
    return VT_OK;
}

static void guarded(void **state) {
    (void)state;
    pid_t child = fork();
    if (!child) {
        signal(SIGSEGV, SIG_DFL), signal(SIGBUS, SIG_DFL);
        work w = {.n = 2, .fails = ITEMS};
        if (vt_fiber_open(&w.lane, 2, NULL) != VT_OK) _exit(2);
        vt_fiber_run(w.lane, &(vt_fiber_job){next, too_deep, serve, &w}, NULL);
        _exit(0);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how) && (WTERMSIG(how) == SIGSEGV || WTERMSIG(how) == SIGBUS));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_items), cmocka_unit_test(again), cmocka_unit_test(failures),
                                       cmocka_unit_test(guarded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
