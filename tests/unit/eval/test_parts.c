/* SPDX-License-Identifier: MIT */
/* A run that several ranks write (threads that stand for processes): the same files as one process makes, in one folder
 * or one on each machine; what killed ranks left is taken over once, and another run's parts are refused. */
#include "scratch.h"
#include "threads_team.h"
#include "run_header.h"

#include <unistd.h>
#include "base/files.h"
#include "linalg/gemm.h"
#include "eval/evaluate.h"
#include "eval/prepare.h"

enum { IMAGES = 12, PIXELS = 3 * 32 * 32 };

static vt_choices model; /* what is evaluated */
static int32_t images[IMAGES];

/* What one rank holds. */
typedef struct rank {
    vt_subject subject;
    vt_attack attacks[2];
    vt_eval_options v;
    vt_run_place place;
    char out[400];
    volatile sig_atomic_t interrupt;
    size_t stop_after; /* lines of its own behind which it is interrupted; 0: never */
    vt_status s;
    vt_err e;
} rank;

static void open_rank(rank *r, const char *out, uint64_t seed) {
    vt_err e = {0};
    *r = (rank){0};
    vt_status s = vt_prepare_data(&model, &r->subject.data, &e);
    if (s == VT_OK) s = vt_subject_open(&r->subject, &model, "weights/shapes10-vit", 0, &e);
    if (s == VT_OK) s = vt_subject_fit(&r->subject, &model, 0, &e);
    if (s == VT_OK) s = vt_attack_parse(&r->attacks[0], "fgsm+pgd:steps=3", VT_LINF, &e);
    if (s == VT_OK) s = vt_attack_parse(&r->attacks[1], "square:queries=20", VT_LINF, &e);
    if (s != VT_OK) fail_msg("%s", e.text);
    snprintf(r->out, sizeof r->out, "%s", out);
    r->v = (vt_eval_options){.subject = &r->subject, .images = images, .n_images = IMAGES, .eps = 2.0 / 255};
    r->v.eps_text = "2/255", r->v.attacks = r->attacks, r->v.n_attacks = 2, r->v.threads = 1, r->v.seed = seed;
    r->v.interrupt = &r->interrupt;
}

static void close_rank(rank *r) {
    for (int i = 0; i < 2; i++) vt_attack_free(&r->attacks[i]);
    vt_subject_close(&r->subject);
}

static void count(void *ctx, const vt_record *line, const float *x) {
    rank *r = ctx;
    (void)line, (void)x;
    if (r->stop_after && !--r->stop_after) r->interrupt = 1;
}

static vt_status evaluate(rank *r, vt_team *t) {
    vt_ledger *l = NULL;
    vt_header *header = t_header_of(&r->v);
    r->place = (vt_run_place){.out = r->out, .resume = true, .team = t, .images = images, .n_images = r->v.n_images};
    if (t) r->v.place = &r->place;
    vt_status s = vt_parts_open(&l, &r->place, header, PIXELS, &r->e);
    if (s == VT_OK) l->on_line = count, l->on_line_ctx = r;
    if (s == VT_OK) s = vt_eval_run(&r->v, l, &r->e);
    if (s == VT_OK && !vt_team_rank(t)) s = vt_ledger_finish(l, &r->e);
    vt_ledger_close(l);
    vt_header_free(header);
    return s;
}

static void body(vt_team *t, void *ctx) {
    rank *r = ctx;
    r->s = vt_team_leave(t, evaluate(r, t), &r->e);
}

/* One run by `size` ranks. out: of rank k, or of all where the others' is NULL. */
static vt_status run(int size, const char *out, const char *others, size_t stop_after, vt_err *e) {
    static rank r[TT_MOST];
    char own[400];
    for (int k = 0; k < size; k++) {
        snprintf(own, sizeof own, "%s%.0d", k && others ? others : out, k && others ? k : 0);
        open_rank(&r[k], own, 0);
        r[k].stop_after = k == size - 1 ? stop_after : 0;
    }
    if (size == 1)
        r->s = evaluate(r, NULL);
    else
        tt_run(size, body, r, sizeof *r);
    for (int k = 1; k < size; k++) assert_int_equal(r[k].s, r[0].s);
    *e = r[0].e;
    for (int k = 0; k < size; k++) close_rank(&r[k]);
    return r[0].s;
}

static void same(const char *a, const char *b) {
    static const char *const names[] = {"ledger.jsonl", "adv.bin"};
    for (int i = 0; i < 2; i++) {
        char p[500], q[500], *x, *y;
        size_t n, k;
        vt_err e = {0};
        snprintf(p, sizeof p, "%s/%s", a, names[i]), snprintf(q, sizeof q, "%s/%s", b, names[i]);
        if (vt_file_read(p, VT_FILE_ANY, &x, &n, &e) != VT_OK || vt_file_read(q, VT_FILE_ANY, &y, &k, &e) != VT_OK)
            fail_msg("%s", e.text);
        if (n != k || memcmp(x, y, n)) fail_msg("%s and %s differ", p, q);
        free(x), free(y);
    }
}

static bool there(const char *dir, const char *name) {
    char path[4000];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

static void check(int size, const char *out, const char *others) {
    vt_err e = {0};
    if (run(size, out, others, 0, &e) != VT_OK) fail_msg("%s", e.text);
    same(at("alone"), out);
    if (there(out, "ranks")) fail_msg("%s/ranks is left", out);
}

static int begin(void **state) {
    vt_err e = {0};
    if (make_tmp(state)) return -1;
    for (int i = 0; i < IMAGES; i++) images[i] = 3 * i;
    vt_choose(&model, "data", "datasets/shapes10");
    vt_blas_single_thread();
    return run(1, at("alone"), NULL, 0, &e) == VT_OK ? 0 : -1;
}

static void test_same_files(void **state) {
    (void)state;
    char out[400];
    for (int size = 2; size <= 5; size++) {
        snprintf(out, sizeof out, "%s", at("one-%d", size));
        check(size, out, NULL);
    }
    snprintf(out, sizeof out, "%s", at("apart"));
    check(3, out, at("elsewhere"));
    for (int k = 1; k < 3; k++) {
        snprintf(out, sizeof out, "%s", at("elsewhere%d", k));
        if (there(out, "ledger.jsonl") || there(out, "ranks")) fail_msg("%s holds something", out);
    }
}

/* Interrupted on the last rank after each number of its lines, in one folder and in several; gone on with by another
 * number of ranks, or alone. */
static void test_interrupted(void **state) {
    (void)state;
    int stopped = 0;
    for (size_t after = 1; after <= 7; after += 3)
        for (int apart = 0; apart < 2; apart++) {
            char out[400], others[400];
            vt_err e = {0};
            snprintf(out, sizeof out, "%s", at("stop%zu-%d", after, apart));
            snprintf(others, sizeof others, "%s", at("stopped%zu", after));
            vt_status s = run(3, out, apart ? others : NULL, after, &e);
            assert_true(s == VT_OK || s == VT_INTERRUPTED);
            stopped += s == VT_INTERRUPTED;
            if (there(out, "ranks")) fail_msg("%s/ranks is left", out); /* its lines are in the run's ledger */
            check(after == 4 ? 1 : 2, out, NULL);
        }
    assert_true(stopped >= 4);
}

/* ---- what a kill leaves ---- */

static void copy(const char *command) { assert_int_equal(system(command), 0); }

/* A run as a kill left it: the ledger of `alone` without most lines, the others in two parts that share some. */
static void killed(const char *out) {
    char c[2000];
    snprintf(c, sizeof c,
             "set -e; a='%s/alone'; o='%s'; rm -rf \"$o\"; mkdir -p \"$o/ranks/1\" \"$o/ranks/7\"\n"
             "for d in \"$o\" \"$o/ranks/1\" \"$o/ranks/7\"; do cp \"$a/adv.bin\" \"$d\"; done\n"
             "head -n 4 \"$a/ledger.jsonl\" >\"$o/ledger.jsonl\"\n"
             "{ head -n 1 \"$a/ledger.jsonl\"; sed -n 4,9p \"$a/ledger.jsonl\"; } >\"$o/ranks/1/ledger.jsonl\"\n"
             "{ head -n 1 \"$a/ledger.jsonl\"; sed -n 8,13p \"$a/ledger.jsonl\"; sed -n 14p \"$a/ledger.jsonl\" | head "
             "-c 30; } "
             ">\"$o/ranks/7/ledger.jsonl\"\n",
             tmp, out);
    copy(c);
}

static void test_left_parts(void **state) {
    (void)state;
    char out[400], c[2000];
    for (int size = 1; size <= 3; size++) {
        snprintf(out, sizeof out, "%s", at("left%d", size));
        killed(out);
        check(size, out, NULL);
        killed(out); /* a part that was killed before its header was whole, and one without any byte */
        snprintf(c, sizeof c, "head -c 40 '%s/ledger.jsonl' >'%s/ranks/1/ledger.jsonl'; : >'%s/ranks/7/ledger.jsonl'",
                 out, out, out);
        copy(c);
        check(size, out, NULL);
        killed(out); /* parts whose removal was killed: of one the points are left, and a name that is no part */
        snprintf(c, sizeof c, "mkdir '%s/ranks/2' && cp '%s/adv.bin' '%s/ranks/2/'", out, out, out);
        copy(c);
        check(size, out, NULL);
        killed(out); /* a part whose last points never reached the disk */
        snprintf(c, sizeof c, "truncate -s 12288 '%s/ranks/1/adv.bin'; : >'%s/ranks/7/adv.bin'", out, out);
        copy(c);
        check(size, out, NULL);
    }
}

/* Parts that only other ranks see: rank 0's folder has none. */
static void test_unseen_parts(void **state) {
    (void)state;
    char out[400], others[400], c[3000];
    snprintf(out, sizeof out, "%s", at("mine")), snprintf(others, sizeof others, "%s", at("theirs"));
    killed(out);
    snprintf(c, sizeof c, "mkdir -p '%s1' '%s2' && mv '%s/ranks' '%s1/ranks' && cp -r '%s1/ranks' '%s2/ranks'", others,
             others, out, others, others, others);
    copy(c);
    check(3, out, others);
    for (int k = 1; k < 3; k++) {
        snprintf(c, sizeof c, "%s%d", others, k);
        if (there(c, "ranks")) fail_msg("%s/ranks is left", c);
    }
}

static void test_refusals(void **state) {
    (void)state;
    char out[400], c[3000];
    vt_err e = {0};
    snprintf(out, sizeof out, "%s", at("foreign"));
    for (int size = 1; size <= 2; size++) {
        killed(out); /* another seed's part */
        snprintf(c, sizeof c, "sed -i '1s/\"seed\":0/\"seed\":1/' '%s/ranks/7/ledger.jsonl'", out);
        copy(c);
        e = (vt_err){0};
        t_says(run(size, out, NULL, 0, &e), VT_E_FORMAT, &e, "ranks/7", "is not as it was written");
        killed(out);
        snprintf(c, sizeof c, "sed -i '3s/\"margin\":[-0-9.e]*/\"margin\":0.5/' '%s/ranks/1/ledger.jsonl'", out);
        copy(c);
        e = (vt_err){0};
        t_says(run(size, out, NULL, 0, &e), VT_E_FORMAT, &e, "ranks/1", "line 3");
        if (!there(out, "ranks/1/ledger.jsonl") || !there(out, "ranks/7/ledger.jsonl")) fail_msg("a part is gone");
    }
    for (int which = 0; which < 2; which++) { /* a link to another folder: neither followed nor emptied */
        const char *name = which ? "ranks/7" : "ranks";
        char elsewhere[400];
        killed(out);
        snprintf(elsewhere, sizeof elsewhere, "%s", at("outside%d", which));
        snprintf(c, sizeof c, "mv '%s/%s' '%s' && ln -s '%s' '%s/%s'", out, name, elsewhere, elsewhere, out, name);
        copy(c);
        e = (vt_err){0};
        t_says(run(which + 1, out, NULL, 0, &e), VT_E_IO, &e, name, "a link, which is not followed");
        if (!there(elsewhere, which ? "ledger.jsonl" : "7/ledger.jsonl")) fail_msg("%s was emptied", elsewhere);
    }
    static rank r[2];
    open_rank(&r[0], at("two"), 0), open_rank(&r[1], at("two"), 5);
    tt_run(2, body, r, sizeof *r);
    t_says(r[0].s, VT_E_USAGE, &r[0].e, "rank 1 on ", "another seed than rank 0's");
    for (int k = 0; k < 2; k++) close_rank(&r[k]);
    open_rank(&r[0], at("two"), 0), open_rank(&r[1], at("two"), 0);
    r[1].v.n_images--;
    tt_run(2, body, r, sizeof *r);
    t_says(r[0].s, VT_E_USAGE, &r[0].e, "rank 1 on ",
           "its --images are others than rank 0's (12 of them there, 11 here)");
    assert_false(there(tmp, "two")); /* before anything is written */
    for (int k = 0; k < 2; k++) close_rank(&r[k]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_files), cmocka_unit_test(test_interrupted),
                                       cmocka_unit_test(test_left_parts), cmocka_unit_test(test_unseen_parts),
                                       cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, begin, remove_tmp);
}
