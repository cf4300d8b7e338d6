/* SPDX-License-Identifier: MIT */
/* A run has one writer, also where its ledger is replaced: calls of flock and renameat are looked into here, so that
 * what another process might do between two of ours happens at that very place. */
#include "scratch.h"
#include "t.h"
#include "run_header.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "eval/ledger.h"

enum { PIXELS = 3 * 4 * 4 };
static bool replace_once; /* at the next flock, the ledger is finished by another process */
static int free_at_rename = -1;

static bool can_lock(void) {
    int fd = open(at("run/ledger.jsonl"), O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    bool got = syscall(SYS_flock, fd, LOCK_EX | LOCK_NB) == 0;
    close(fd);
    return got;
}

int flock(int fd, int how) {
    if (replace_once) {
        char old[300];
        snprintf(old, sizeof old, "%s", at("run/ledger.jsonl"));
        replace_once = false;
        int from = open(old, O_RDONLY | O_CLOEXEC), to = open(at("run/next"), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        char text[4096];
        ssize_t n = read(from, text, sizeof text);
        assert_true(n > 0 && write(to, text, (size_t)n) == n);
        close(from), close(to);
        assert_int_equal(rename(at("run/next"), old), 0);
    }
    return (int)syscall(SYS_flock, fd, how);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to) {
    int r = (int)syscall(SYS_renameat, from_dir, from, to_dir, to);
    if (!r && strstr(to, "ledger.jsonl")) free_at_rename = can_lock();
    return r;
}

static json_t *header(void) { return json_pack("{s:s,s:{s:i}}", "format", VT_LEDGER_FORMAT, "model", "image", 4); }

static bool is_there(const vt_ledger *l) {
    struct stat open, there;
    assert_int_equal(fstat(l->fd, &open), 0);
    assert_int_equal(stat(at("run/ledger.jsonl"), &there), 0);
    return open.st_ino == there.st_ino;
}

/* Who waited for a lock that its holder gave up with the file itself opens the file that is there now. */
static void test_waiter(void **state) {
    (void)state;
    vt_err e = {0};
    vt_ledger *l;
    vt_header *h = t_header(header());
    if (vt_ledger_create(&l, at("run"), h, PIXELS, &e) != VT_OK) fail_msg("%s", e.text);
    vt_ledger_close(l);
    replace_once = true;
    if (vt_ledger_resume(&l, at("run"), h, PIXELS, false, &e) != VT_OK) fail_msg("%s", e.text);
    assert_true(!replace_once && is_there(l) && !can_lock());
    vt_ledger_close(l);
    assert_true(can_lock());
    vt_header_free(h);
}

/* The writer keeps its turn while it finishes: at no moment is the ledger at this path free. */
static void test_finish(void **state) {
    (void)state;
    vt_err e = {0};
    vt_ledger *l;
    vt_header *h = t_header(header());
    float x[PIXELS] = {0};
    vt_record r = {.entry = 0, .image = 3, .target = -1}, broken = {.entry = 1, .image = 3, .target = -1};
    broken.status = VT_RECORD_BROKEN;
    if (vt_ledger_resume(&l, at("run"), h, PIXELS, false, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(vt_ledger_append(l, &broken, x, &e), VT_OK);
    free_at_rename = -1;
    if (vt_ledger_finish(l, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(free_at_rename, 0);
    assert_true(is_there(l) && !can_lock());
    assert_int_equal(vt_ledger_append(l, &r, NULL, &e), VT_OK); /* and what it holds is the new one's length */
    vt_ledger_close(l);
    if (vt_ledger_open(&l, at("run"), &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(l->count, 2);
    assert_int_equal(l->adv_length, (int64_t)sizeof x);
    vt_ledger_close(l);
    vt_header_free(h);
}

/* A file far longer than the tensors of its lines is not searched from end to end for a tensor that is not at its
 * place; one that a kill left in another order is. */
static void test_search(void **state) {
    (void)state;
    vt_err e = {0};
    vt_ledger *l;
    float x[PIXELS], y[PIXELS];
    if (vt_ledger_open(&l, at("run"), &e) != VT_OK) fail_msg("%s", e.text);
    vt_record *r = &l->records[0];
    for (size_t i = 0; i < l->count; i++)
        if (l->records[i].adv >= 0) r = &l->records[i];
    assert_true(r->adv == 0);
    vt_ledger_close(l);
    memset(x, 0, sizeof x);
    for (size_t i = 0; i < PIXELS; i++) y[i] = 0.5F;
    int fd = open(at("run/adv.bin"), O_RDWR | O_CLOEXEC);
    assert_true(pwrite(fd, y, sizeof y, 0) == sizeof y && pwrite(fd, x, sizeof x, sizeof y) == sizeof x);
    for (int far = 0; far < 2; far++) {
        if (far) assert_int_equal(ftruncate(fd, (off_t)1 << 40), 0); /* a hole: hours of searching, if it is searched */
        if (vt_ledger_open(&l, at("run"), &e) != VT_OK) fail_msg("%s", e.text);
        for (size_t i = 0; i < l->count; i++)
            if (l->records[i].adv >= 0) r = &l->records[i];
        vt_status s = vt_ledger_read_adv(l, r, y, &e);
        assert_int_equal(s, far ? VT_E_FORMAT : VT_OK);
        vt_ledger_close(l);
        for (size_t i = 0; i < PIXELS && !far; i++) assert_true(y[i] == 0), y[i] = 0.25F;
        if (!far) assert_true(pwrite(fd, y, sizeof y, sizeof y) == sizeof y);
    }
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_waiter), cmocka_unit_test(test_finish),
                                       cmocka_unit_test(test_search)};
    return cmocka_run_group_tests_name("ledger lock", tests, make_tmp, remove_tmp);
}
